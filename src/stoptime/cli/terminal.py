"""Read options that are more than a word, and print progress and results."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stoptime.methods.registry import ALL_METHODS
from stoptime.support.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from stoptime.methods.base import Method

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def bad(option: str, message: str) -> typer.BadParameter:
    """Return the error of a wrong option."""
    return typer.BadParameter(message, param_hint=option)


def completed(names: Collection[str]) -> Callable[[str], list[str]]:
    """Return a function that completes a name for the shell."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def known_name(kind: str, name: str, known: Collection[str]) -> str:
    """Return the name of a method or a rule if there is one."""
    if name not in known:
        hint = did_you_mean(name, list(known)) or f" (known: {', '.join(known)})"
        raise bad(f"--{kind}", f'there is no {kind} "{name}"{hint}')
    return name


def parsed_method(word: str) -> Method:
    """Return the method for a word such as ``nesterov-flow:friction=5``."""
    name, _, rest = word.partition(":")
    kind = ALL_METHODS[known_name("method", name, ALL_METHODS)]
    names = [field.name for field in fields(kind) if field.repr]
    parameters: dict[str, float | str] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in names:
            has = f"its parameters are {', '.join(names)}" if names else "it has none"
            raise bad("--method", f'{name} has no parameter "{key}"; {has}')
        try:
            parameters[key] = float(value)
        except ValueError:  # such as damping=critical
            parameters[key] = value
    try:
        return kind(**parameters)
    except (TypeError, ValueError) as error:
        raise bad("--method", str(error)) from None


def parsed_stops(word: str | None) -> int | tuple[float, ...] | None:
    """Return a number of stops such as "100", or a list of them such as "1,10,inf"."""
    if word is None:
        return None
    try:
        return tuple(map(float, word.split(","))) if "," in word else int(word)
    except ValueError:
        message = f'"{word}" is neither a number of stops nor a list such as 1,10,100'
        raise bad("--stops", message) from None


def checked_output(path: Path | None, option: str) -> None:
    """Refuse an output that cannot be written, before any work is done."""
    if path is not None and path.is_dir():
        raise bad(option, f"{path} is a folder.")
    if path is not None and not path.parent.is_dir():
        raise bad(option, f"the folder {path.parent} does not exist.")


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
        task = shown.add_task("", total=steps, completed=-1)
        yield lambda name: shown.update(task, advance=1, description=name)


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
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(float(value))
    return str(value) if isinstance(value, Path) else value
