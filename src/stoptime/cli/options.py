"""Parse options that are more than a word: methods with parameters, and lists of stops."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoptime.methods.registry import ALL_METHODS
from stoptime.tables.reading import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stoptime.methods.base import Method

__all__ = ["AsJson", "bad", "checked_output", "known_name", "parsed_method", "parsed_stops"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def bad(option: str, message: str) -> typer.BadParameter:
    """Return the error of a wrong option."""
    return typer.BadParameter(message, param_hint=option)


def completed(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes a name for the shell."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def known_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the name of a method or a rule if there is one."""
    names = list(known)
    if name not in names:
        hint = did_you_mean(name, names) or f" (known: {', '.join(names)})"
        raise bad(f"--{kind}", f'there is no {kind} "{name}"{hint}')
    return name


def parsed_method(word: str) -> Method:
    """Return the method for a word such as ``nesterov-flow:friction=5``.

    Examples
    --------
    >>> parsed_method("nesterov-flow:friction=5")
    AcceleratedFlow(friction=5.0)
    """
    name, _, rest = word.partition(":")
    kind = ALL_METHODS[known_name("method", name, ALL_METHODS)]
    names = [field.name for field in fields(kind)]
    parameters: dict[str, float | str] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in names:
            has = f"its parameters are {', '.join(names)}" if names else "it has none"
            raise bad("--method", f'{name} has no parameter "{key}"; {has}')
        try:
            parameters[key] = float(value)
        except ValueError:
            parameters[key] = value
    try:
        return kind(**parameters)
    except (TypeError, ValueError) as error:
        raise bad("--method", str(error)) from None


def parsed_stops(word: str | None) -> int | tuple[float, ...] | None:
    """Return a number of stops, or a list of them.

    Examples
    --------
    >>> parsed_stops("100"), parsed_stops("1,10,inf")
    (100, (1.0, 10.0, inf))
    """
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
