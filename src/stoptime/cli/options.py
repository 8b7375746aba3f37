"""Options that are more than a word: methods with parameters, lists of stops."""

from __future__ import annotations

from dataclasses import fields

import typer

from stoptime.methods import ALL_METHODS, Method
from stoptime.stopping import RULES
from stoptime.tables import did_you_mean

__all__ = ["complete_method", "complete_rule", "parsed_method", "parsed_rule", "parsed_stops"]


def complete_method(incomplete: str) -> list[str]:
    """Return the methods that begin so, for the shell."""
    return [name for name in ALL_METHODS if name.startswith(incomplete)]


def complete_rule(incomplete: str) -> list[str]:
    """Return the rules that begin so, for the shell."""
    return [name for name in RULES if name.startswith(incomplete)]


def parsed_method(word: str) -> Method:
    """Return the method that a word such as ``nesterov-flow:friction=5`` names.

    Examples
    --------
    >>> parsed_method("nesterov-flow:friction=5")
    AcceleratedFlow(friction=5.0)
    """
    name, _, rest = word.partition(":")
    if name not in ALL_METHODS:
        known = f" (known: {', '.join(ALL_METHODS)})"
        raise _bad(
            "--method",
            f'there is no method "{name}"{did_you_mean(name, list(ALL_METHODS)) or known}',
        )
    parameters = dict(_parameter(name, pair) for pair in rest.split(",") if pair)
    try:
        return ALL_METHODS[name](**parameters)
    except (TypeError, ValueError) as error:
        raise _bad("--method", str(error)) from None


def _parameter(method: str, pair: str) -> tuple[str, float | str]:
    key, _, value = pair.partition("=")
    names = [one.name for one in fields(ALL_METHODS[method])]
    if key not in names:
        has = f"it has {', '.join(names)}" if names else "it has none"
        raise _bad("--method", f'{method} has no parameter "{key}"; {has}')
    try:
        return key, float(value)
    except ValueError:
        return key, value


def parsed_rule(word: str) -> str:
    """Return the rule if there is one of this name."""
    if word not in RULES:
        known = f" (known: {', '.join(RULES)})"
        raise _bad("--rule", f'there is no rule "{word}"{did_you_mean(word, list(RULES)) or known}')
    return word


def parsed_stops(word: str | None) -> int | tuple[float, ...] | None:
    """Return how many stops, or which.

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
        raise _bad(
            "--stops", f'"{word}" is neither a number of stops nor a list such as 1,10,100'
        ) from None


def _bad(option: str, message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint=option)
