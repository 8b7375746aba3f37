"""Read options that are more than a word, and print progress and results."""

from __future__ import annotations

import ast
import json
import math
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

STANDARD = "-"  # standard input or output in place of a file
TABLES = (".csv", ".tsv", ".tab", ".parquet", ".pq", ".csv.gz", ".csv.bz2", ".csv.xz", ".tsv.gz")
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]


def bad(option: str, message: str) -> typer.BadParameter:
    """Return the error of a wrong option."""
    return typer.BadParameter(message, param_hint=option)


def parsed(option: str, word: str) -> Any:
    """Return the method or rule of a word.

    It is a name, a name with parameters such as ``nesterov:friction=5``, or a call such as
    ``Averaged(Nesterov(friction=5), kind="tail")`` with the names of the package.
    """
    import stoptime as st  # noqa: PLC0415 - starts faster

    get = st.get_method if option == "--method" else st.get_rule
    try:
        if "(" in word:
            return _called(ast.parse(word, mode="eval").body)
        name, _, rest = word.partition(":")
        found = get(name)
        pairs = [pair.partition("=") for pair in filter(None, rest.split(","))]
        given = {key: _literal(value) for key, _, value in pairs}
        # methods explain which parameters they have
        return getattr(found, "with_params", type(found))(**given) if given else found
    except (SyntaxError, TypeError, ValueError) as error:
        raise bad(option, str(error)) from None


def _literal(word: str) -> Any:
    try:
        return ast.literal_eval(word)
    except (SyntaxError, ValueError):
        return word  # such as damping=critical


def _called(node: ast.expr) -> Any:
    """Return the value of a call of classes of the package, and of literals in it."""
    import stoptime as st  # noqa: PLC0415 - starts faster

    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    kind = getattr(st, name, None) or getattr(st.schedules, name, None)
    if not isinstance(kind, type) or not kind.__module__.startswith("stoptime."):
        raise ValueError(f"there is no method, schedule or rule {name!r}.")
    named = {str(one.arg): _called(one.value) for one in node.keywords}
    return kind(*map(_called, node.args), **named)


def parsed_stops(word: str | None) -> int | list[float] | None:
    """Return a number of stops such as "100", or a list of them such as "1,10,inf"."""
    if word is None:
        return None
    try:
        return [float(one) for one in word.split(",") if one.strip()] if "," in word else int(word)
    except ValueError:
        told = f'"{word}" is neither a number of stops nor a list such as 1,10,inf.'
        raise bad("--stops", told) from None


def parsed_kinds(pairs: Collection[str]) -> dict[str, str]:
    """Return the kinds of columns for words such as ``zip=text``."""
    found = {}
    for pair in pairs:
        name, sign, kind = pair.rpartition("=")
        if not sign:
            raise bad("--kinds", f'"{pair}" is not of the form column=kind, such as zip=text.')
        found[name] = kind
    return found


def checked_interval(confidence: float) -> None:
    """Refuse a confidence that is no probability."""
    if not 0 < confidence < 1:
        raise bad("--interval", f"must lie between 0 and 1, such as 0.95; got {confidence:g}.")


def checked_output(
    path: Path | None, option: str, endings: Collection[str] = (), *, force: bool
) -> None:
    """Refuse an output that cannot be written, before any work is done.

    Without ``force``, a file that exists is overwritten only if the user at a terminal agrees.
    """
    if path is None or str(path) == STANDARD:
        return
    if path.is_dir():
        raise bad(option, f"{path} is a folder.")
    if not path.parent.is_dir():
        raise bad(option, f"the folder {path.parent} does not exist.")
    # the file is written beside its place and then moved there
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise bad(option, f"{path} cannot be written: there is no permission.")
    if endings and not path.name.lower().endswith(tuple(endings)):
        raise bad(option, f"the name {path.name} must end in {', '.join(endings)}.")
    if force or not path.exists():
        return
    if sys.stdin.isatty() and typer.confirm(f"{path} exists. Overwrite it?", err=True):
        return
    raise bad(option, f"{path} exists: add --force to overwrite it, or choose another file.")


class Failures(list[str]):
    """Outputs that could not be written, each with the reason."""

    @contextmanager
    def caught(self, name: str | Path) -> Iterator[None]:
        """Note an error under the name that the user gave, and go on with the other outputs."""
        try:
            yield
        except ValueError as error:
            self.append(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            name = "standard output" if str(name) == STANDARD else name
            self.append(f"{name} could not be written: {error.strerror or error}.")

    def report(self) -> None:
        """End with exit code 1 if anything failed."""
        for one in self:
            typer.echo(f"stoptime: {one}", err=True)
        if self:
            raise typer.Exit(1)


def print_notes(messages: Collection[str]) -> None:
    """Print what the reader should know on standard error."""
    for message in messages:
        typer.echo(f"note: {message}", err=True)


def write_predictions(frame: Any, out: Path) -> None:
    """Write a table to a file, completely or not at all, or to standard output."""
    from stoptime.support.files import atomic  # noqa: PLC0415 - starts faster
    from stoptime.tables.reading import write_table  # noqa: PLC0415 - starts faster

    if str(out) == STANDARD:
        typer.echo(frame.to_csv(index=False, lineterminator="\n"), nl=False)
        return
    with atomic(out) as path:
        write_table(frame, path)


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done; yield a function to call before each step."""
    from rich.console import Console  # noqa: PLC0415 - starts faster

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as shown:
        yield shown.update


def print_json(content: Any) -> None:
    """Print one JSON object; infinity becomes "inf" and NaN becomes null."""
    typer.echo(json.dumps(_plain(content), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:  # noqa: PLR0911 - one for each type
    """Return a value as types that JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        # the name of a method belongs to its class and is not a field
        name = {"name": value.name} if hasattr(value, "name") else {}
        return name | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):  # an array or a number of NumPy
        return _plain(value.tolist())
    if value is None or value != value:  # noqa: PLR0124 - a number or a date that is missing
        return None
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value) if isinstance(value, Path) else value
