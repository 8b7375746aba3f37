"""Reading JSON that may be wrong or hostile: every doubt is a ValueError that names the key."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np

from stoptime.methods.base import Array

__all__ = ["Object", "decoded", "numbers", "text", "texts"]

LONGEST_TEXT = 10_000


def decoded(content: bytes) -> Any:
    """Return what JSON says, refusing NaN, infinities, keys given twice and bottomless nesting.

    Examples
    --------
    >>> decoded(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the key "a" is given twice.
    """
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply.") from None
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8.") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error}).") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'the key "{key[:40]}" is given twice.')
        found[key] = value
    return found


def _refuse(word: str) -> None:
    raise ValueError(f"it contains {word}, which is not a number.")


class Object:
    """A JSON object of which every key has to be there and no other."""

    def __init__(self, content: Any, name: str) -> None:
        if not isinstance(content, dict):
            raise ValueError(f"{name} must be an object, not {_kind(content)}.")  # noqa: TRY004
        self._content, self._name = content, name

    def __getitem__(self, key: str) -> Any:
        return self._content[key]

    def get(self, key: str) -> Any:
        """Return the value of a key, None where it is absent."""
        return self._content.get(key)

    def require(self, *keys: str) -> None:
        """Refuse the object unless it has exactly these keys."""
        absent = [key for key in keys if key not in self._content]
        if absent:
            raise ValueError(f'{self._name} lacks "{absent[0]}".')
        extra = [key for key in self._content if key not in keys]
        if extra:
            raise ValueError(f'{self._name} has an unknown key "{str(extra[0])[:40]}".')


def text(name: str, value: Any, *, among: Collection[str] | None = None) -> str:
    """Return a string, refusing all else."""
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise ValueError(f'"{name}" must be text, not {_kind(value)}.')
    if among is not None and value not in among:
        raise ValueError(f'"{name}" must be one of {", ".join(among)}; got "{value[:40]}".')
    return value


def texts(
    name: str, value: Any, *, length: int | None = None, missing: bool = False
) -> tuple[Any, ...]:
    """Return a list of strings, among which null may stand for a missing value."""
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise ValueError(
            f'"{name}" must be a list{"" if length is None else f" of {length} texts"}.'
        )
    return tuple(None if one is None and missing else text(name, one) for one in value)


def numbers(
    name: str,
    value: Any,
    *,
    shape: tuple[int, ...] | None = None,
    dims: tuple[int, ...] | None = None,
) -> Array:
    """Return finite numbers of the given shape, or number of dimensions."""
    _check_numbers(name, value)
    try:
        array = np.array(value, dtype=np.float64)
    except (ValueError, OverflowError, TypeError):
        raise ValueError(f'"{name}" must be numbers in rows of the same length.') from None
    if not np.isfinite(array).all():
        raise ValueError(f'"{name}" must be finite numbers.')
    if shape is not None and array.shape != shape:
        raise ValueError(f'"{name}" must have shape {shape}; got {array.shape}.')
    if dims is not None and (array.ndim not in dims or array.size == 0):
        raise ValueError(
            f'"{name}" must be {" or ".join(f"{n}-dimensional" for n in dims)} and not empty.'
        )
    return array


def _check_numbers(name: str, value: Any, depth: int = 0) -> None:
    """Refuse words, truth values and null, which numpy would take for numbers."""
    if isinstance(value, list) and depth < 2:
        for one in value:
            _check_numbers(name, one, depth + 1)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f'"{name}" must be numbers, not {_kind(value)}.')


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number"}
    return names.get(type(value), "a number")
