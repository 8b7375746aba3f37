"""Checks of what users give or have installed: each returns one type, or says what is wrong."""

from __future__ import annotations

from importlib import import_module
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Made = TypeVar("Made")
LARGEST_WHOLE = 2.0**62  # stops beyond it are converted to this integer, which all loops refuse


def nonnegative(name: str, values: ArrayLike, *, infinite: bool = False) -> NDArray[np.float64]:
    """Return ``values`` as a float array; refuse negative numbers, NaN and, by default, inf."""
    try:
        given = np.asarray(values)
        # strings and truth values must not pass as numbers
        array = np.asarray(given if given.dtype.kind in "iufO" else "no number", dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers; got {values!r}.") from None
    # two reductions, which NaN fails, because most arrays are short and this is asked often
    low, high = array.min(initial=0), array.max(initial=0)
    if not (low >= 0 and (infinite or high < np.inf)):
        good = (array >= 0) & (infinite | np.isfinite(array))
        kind = "non-negative numbers" if infinite else "finite non-negative numbers"
        raise ValueError(f"{name} must be {kind}; got {float(array[~good].flat[0])!r}.")
    return array


def list_of_stops(stops: ArrayLike) -> NDArray[np.float64]:
    """Return one stop or a list of stops as an array of one dimension."""
    found = np.atleast_1d(nonnegative("stops", stops, infinite=True))
    if found.ndim != 1:
        raise ValueError(f"stops must be one number or a list of numbers; got shape {found.shape}.")
    return found


def iteration_numbers(stops: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return stops as integers; refuse numbers that are not iteration numbers."""
    rounded = np.round(stops)
    if np.any(rounded != stops):
        wrong = float(stops[rounded != stops].flat[0])
        raise ValueError(f"The stops of an iteration are whole numbers; got {wrong!r}.")
    return np.minimum(rounded, LARGEST_WHOLE).astype(np.intp)


def _as_float(value: Any) -> float:
    """Return a number as a float, and NaN for anything else."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) if is_number else np.nan


def positive_number(name: str, value: object, *, low: float = 0.0, high: float = np.inf) -> float:
    """Return ``value`` as a float; refuse all but finite numbers strictly inside (low, high)."""
    number = _as_float(value)
    if not (low < number < high and np.isfinite(number)):
        between = f"a number between {low:g} and {high:g}"
        limits = "a positive number" if (low, high) == (0, np.inf) else between
        raise ValueError(f"{name} must be {limits}; got {value!r}.")
    return number


def fraction_below_one(name: str, value: object) -> float:
    """Return ``value`` as a float in [0, 1)."""
    number = _as_float(value)
    if not 0 <= number < 1:
        raise ValueError(
            f"{name} must be at least 0 and below 1 (the iteration diverges from 1 on); "
            f"got {value!r}."
        )
    return number


def truth_value(name: str, value: Any) -> bool:
    """Return ``value`` as a bool; refuse words and numbers, which all count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def installed(module: str, advice: str) -> Any:
    """Return a module of an optional package, or raise an ImportError with the advice."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(advice) from error


def instance_of(given: Made | type[Made], wanted: type) -> Made:
    """Return an instance; if its class was given in its place, one with default parameters."""
    if not isinstance(given, type):
        return given
    if not issubclass(given, wanted):
        raise TypeError(f"{given!r} is not a {wanted.__name__}.")
    try:
        return given()
    except TypeError:
        name = given.__name__
        raise TypeError(f"{name} needs parameters: give an instance, as in {name}(...).") from None


def is_whole(value: Any) -> bool:
    """Tell whether ``value`` is an integer and not a truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole_number(name: str, value: Any, *, least: int = 0) -> int:
    """Return ``value`` as an int; refuse all but whole numbers of at least ``least``."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return int(value)


def row_numbers(chosen: ArrayLike, n: int) -> NDArray[np.intp]:
    """Return the numbers of the rows that a splitter has chosen, as numbers or by a mask."""
    rows = np.asarray(chosen)
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows
    if rows.size == 0 or rows.min() < -n or rows.max() >= n:
        raise ValueError(
            f"cv must give non-empty sets of rows between 0 and {n - 1}; got {chosen!r}."
        )
    return rows if rows.min() >= 0 else rows % n
