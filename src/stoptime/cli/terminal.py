"""Read options that are more than a word, and print progress and results."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stoptime.methods.base import Method
from stoptime.methods.registry import ALIASES, ALL_METHODS
from stoptime.stopping.grid import FEWEST_GRID_STOPS
from stoptime.support.checks import nonnegative, whole_number
from stoptime.support.wording import did_you_mean_class
from stoptime.tables.reading import COMPRESSED, ENDINGS, STANDARD

TABLES = (*ENDINGS, *(f"{one}{packed}" for one in (".csv", ".tsv") for packed in COMPRESSED))
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]


def bad(option: str, message: str) -> typer.BadParameter:
    """Return the error of a wrong option."""
    return typer.BadParameter(message, param_hint=option)


def completed(names: Collection[str]) -> Callable[[str], list[str]]:
    """Return a function that completes a name for the shell."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def known_name(kind: str, name: str, known: Mapping[str, type]) -> str:
    """Return the name of a method or a rule if there is one."""
    if name not in known:
        hint = did_you_mean_class(name, known) or f" (known: {', '.join(known)})"
        raise bad(f"--{kind}", f'there is no {kind} "{name}"{hint}')
    return name


def parsed_method(word: str) -> Method:
    """Return the method for a word such as ``accelerated-flow:friction=5``."""
    name, _, rest = word.partition(":")
    known = ALIASES | ALL_METHODS
    method = known[known_name("method", name, known)]()
    parameters: dict[str, float | str] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        try:
            parameters[key] = float(value)
        except ValueError:  # such as damping=critical
            parameters[key] = value
    try:
        return method.with_params(**parameters)
    except (TypeError, ValueError) as error:
        raise bad("--method", in_options(str(error))) from None


def parsed_stops(word: str | None) -> int | tuple[float, ...] | None:
    """Return a number of stops such as "100", or a list of them such as "1,10,inf"."""
    if word is None:
        return None
    try:
        if "," not in word:
            return whole_number("--stops", int(word), least=FEWEST_GRID_STOPS)
        given = [float(one) for one in word.split(",") if one.strip()]
        if min(given) < 0:
            raise bad("--stops", f"a stop cannot be negative; got {min(given):g}.")
        return tuple(nonnegative("--stops", given, infinite=True).tolist())
    except ValueError:
        known = f"a number of stops, at least {FEWEST_GRID_STOPS}, nor a list such as 1,10,inf"
        raise bad("--stops", f'"{word}" is neither {known}.') from None


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
    # The file is written beside its place and then moved there.
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
            self.append(in_options(str(error)))
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


def in_options(message: str) -> str:
    """Return a message that names parameters of Python with the options of the command line."""
    for words, own in REWORDED.items():
        message = re.sub(words, own, message)
    for name, kind in ALL_METHODS.items():
        # betas=(0.9, 0.999) has brackets of its own
        call = rf"\b{kind.__name__}\(((?:[^()]|\([^()]*\))*)\)"
        message = re.sub(call, partial(_as_option, name), message)
    # The method that a parameter belongs to may be named before it or after it.
    for method in re.findall(r"--method [\w-]+", message)[:1]:
        message = re.sub(r'\b(\w+)="(auto|critical)"', rf"{method}:\1=\2", message)
    return re.sub(r'\b(rule|method|missing|cv|stops)="?([\w.+-]+)"?', r"--\1 \2", message)


def _as_option(name: str, match: re.Match[str]) -> str:
    """Return a method as the command line takes it, without parameters that are not set."""
    parts = re.split(r", (?=\w+=)", match[1])
    given = ",".join(part for part in parts if not part.endswith("=None"))
    return f"--method {name}:{given}".removesuffix(":")


def _later_stops(match: re.Match[str]) -> str:
    decade = math.floor(math.log10(float(match[1]))) + 1
    return f"tried, {match[1]}: try later ones, such as --stops 1e{decade},1e{decade + 1}"


REWORDED: dict[str, str | Callable[[re.Match[str]], str]] = {
    "classify=False": "--no-classify",
    "in_memory=True": "--in-memory",
    "use path_gcv or leave_one_out": "use --rule path-gcv or --rule loo",
    "methods: give one method": "methods: give one method, such as --method accelerated-flow",
    ", or unknown as for sparse matrices and operators": "",  # tables are neither
    r"tried, (\S+): give an array of later stops": _later_stops,
    'take step="auto"': "take --method high-resolution-flow:step=auto",
    # Newer versions of typer quote pydantic.
    "^Value error, ": "",
    r"^Input should be greater than or equal to (\d+)": r"must be at least \1.",
    "^Input should be a valid integer.*": "must be a whole number.",
    "^Input should be a valid number.*": "must be a number.",
}


def print_notes(messages: Collection[str]) -> None:
    """Print what the reader should know on standard error."""
    for message in messages:
        typer.echo(f"note: {in_options(message)}", err=True)


@contextmanager
def bar(steps: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on a terminal; yield a function to call before each step."""
    console = Console(stderr=True)
    # Elsewhere rich 13 would print an empty line at the end even of a bar that is not shown.
    if not console.is_terminal:
        yield lambda _: None
        return
    description = TextColumn("{task.description}")
    columns = (description, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=steps)
        done = count()
        yield lambda name: shown.update(task, completed=next(done), description=name)


def print_json(content: Any) -> None:
    """Print one JSON object; infinity becomes "inf" and NaN becomes null."""
    typer.echo(json.dumps(_plain(content), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value as types that JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        # The name of a method belongs to its class and is not a field.
        name = {"name": value.name} if hasattr(value, "name") else {}
        return name | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value != value:  # noqa: PLR0124 - a number or a date that is missing
        return None
    if isinstance(value, float) and np.isinf(value):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value) if isinstance(value, Path) else value
