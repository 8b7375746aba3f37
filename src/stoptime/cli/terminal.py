"""Read options that are more than a word, and print results."""

from __future__ import annotations

import ast
import json
import math
import sys
from collections.abc import Collection
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
    """Return the method or rule of a name, or of a call such as ``Averaged(Nesterov())``."""
    import stoptime as st  # noqa: PLC0415 - starts faster

    try:
        if "(" in word:
            return _called(ast.parse(word, mode="eval").body)
        return st.get_method(word) if option == "--method" else st.get_rule(word)
    except (SyntaxError, TypeError, ValueError) as error:
        raise bad(option, str(error)) from None


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


def parsed_stops(word: str) -> int | list[float]:
    """Return a number of stops such as "100", or a list of them such as "1,10,inf"."""
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


def check_output(path: Path | None, option: str, endings: Collection[str], *, force: bool) -> None:
    """Refuse an output that cannot be written, before any work is done."""
    if path is None or str(path) == STANDARD:
        return
    if not path.parent.is_dir():
        raise bad(option, f"the folder {path.parent} does not exist.")
    if not path.name.lower().endswith(tuple(endings)):
        raise bad(option, f"the name {path.name} must end in {', '.join(endings)}.")
    if path.exists() and not force:
        raise bad(option, f"{path} exists: add --force to overwrite it, or choose another file.")


def print_notes(messages: Collection[str]) -> None:
    """Print what the reader should know on standard error."""
    for message in messages:
        typer.echo(f"note: {message}", err=True)


def step(name: str) -> None:
    """Say on a terminal what is being done."""
    if sys.stderr.isatty():
        typer.secho(name, err=True, dim=True)


def print_json(content: Any) -> None:
    """Print one JSON object; infinity becomes "inf" and NaN becomes null."""
    typer.echo(json.dumps(_plain(content), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
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
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return str(value) if isinstance(value, Path) else value
