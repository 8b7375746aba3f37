"""What a method is: a formula with parameters and no data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def nonnegative(name: str, values: ArrayLike, *, infinite: bool = False) -> Array:
    """Return ``values`` as a float array, refusing what is negative, NaN or (unless allowed) infinite.

    Examples
    --------
    >>> nonnegative("stops", [0, 1])
    array([0., 1.])
    >>> nonnegative("stops", [1, -2])
    Traceback (most recent call last):
    ValueError: stops must be finite non-negative numbers; got -2.0.
    """
    try:
        given = np.asarray(values)
        array = np.asarray(given if given.dtype.kind in "iufO" else "no number", dtype=np.float64)
    except (TypeError, ValueError):  # strings and truth values do not pass as numbers
        raise ValueError(f"{name} must be numbers; got {values!r}.") from None
    good = (array >= 0) & (infinite | np.isfinite(array))
    if not good.all():
        kind = "non-negative numbers" if infinite else "finite non-negative numbers"
        raise ValueError(f"{name} must be {kind}; got {float(array[~good].flat[0])!r}.")
    return array


def list_of_stops(stops: ArrayLike) -> Array:
    """Return stops as an array of one dimension, from one number or a list of them.

    Examples
    --------
    >>> list_of_stops(2)
    array([2.])
    """
    found = np.atleast_1d(nonnegative("stops", stops, infinite=True))
    if found.ndim != 1:
        raise ValueError(f"stops must be one number or a list of them; got shape {found.shape}.")
    return found


def positive_number(name: str, value: object, *, low: float = 0.0, high: float = np.inf) -> float:
    """Return ``value`` as a float, refusing what is not a finite number strictly inside (low, high)."""
    number = float(value) if isinstance(value, int | float | np.number) else np.nan
    if isinstance(value, bool) or not (low < number < high and np.isfinite(number)):
        limits = (
            "a positive number"
            if low == 0 and high == np.inf
            else f"a number between {low:g} and {high:g}"
        )
        raise ValueError(f"{name} must be {limits}; got {value!r}.")
    return number


def is_whole(value: Any) -> bool:
    """Tell a whole number from all else, truth values included."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole_number(name: str, value: Any, *, least: int = 0) -> int:
    """Return ``value`` as an int, refusing what is not a whole number of at least ``least``."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return int(value)


def concrete(name: str, value: float | str) -> float:
    """Return a parameter as a number, refusing a word such as "auto" that only a spectrum makes one.

    Examples
    --------
    >>> concrete("step", "auto")
    Traceback (most recent call last):
    ValueError: step="auto" depends on the spectrum: call tuned_to(eigenvalues), or give a number.
    """
    if isinstance(value, str):
        raise ValueError(  # noqa: TRY004 - the value is at fault: a word is legal
            f'{name}="{value}" depends on the spectrum: call tuned_to(eigenvalues), or give a number.'
        )
    return value


def smallest_positive(parameter: str, eigenvalues: Array, *, least: float, instead: str) -> float:
    """Return the smallest eigenvalue, which a parameter is made of, if it is above ``least``."""
    smallest = float(eigenvalues.min(initial=np.inf))
    if not least < smallest < np.inf:
        # a Krylov space puts a zero for what it does not know
        known = f"{smallest:g}, a singular spectrum"
        found = known if smallest else f"{known}, or unknown as of sparse matrices and operators"
        raise ValueError(
            f"{parameter} needs a positive smallest eigenvalue, but it is {found}: give a number, for "
            f"example {instead}."
        )
    return smallest


@dataclass(frozen=True)
class Method(ABC):
    r"""A path from nothing learned to least squares, as a filter of eigenvalues.

    .. math:: \hat\beta(t) = V \varphi(S, t) z, \qquad \varphi(s, t) = (1 - g(s, t)) / s

    with shrinkage :math:`g` (what is not yet learned) and gain :math:`\varphi`. A new method gives its
    ``name``, its ``order`` and the two formulas for finite non-negative arguments; everything else,
    validation, broadcasting and the limit t = ∞ included, is done here.
    """

    name: ClassVar[str]
    """The word by which :func:`stoptime.get_method` finds it."""
    order: ClassVar[int]
    """1 where the stop scales like 1/penalty, 2 where it scales like 1/sqrt(penalty)."""

    @abstractmethod
    def _shrinkage(self, s: Array, t: Array) -> Array:
        """Return g for finite s, t ≥ 0 of broadcastable shapes."""

    @abstractmethod
    def _gain(self, s: Array, t: Array) -> Array:
        """Return (1 - g)/s for finite s, t ≥ 0 of broadcastable shapes, without cancellation."""

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:  # noqa: ARG002 - the contract of methods that adapt
        """Return this method with every "auto" or "critical" parameter made concrete for a spectrum."""
        return self

    def visible_until(self, level: float) -> tuple[float, float]:  # noqa: ARG002 - for methods that swing
        """Return a phase U and a time T: a direction swings by less than level where t√s > U or t > T."""
        return 0.0, 0.0

    def settled_at(self, s: float, level: float) -> float:
        """Return a time from which on the shrinkage stays below level, for s > 0."""
        return float(
            (1 / level - 1) / s
        )  # that of ridge, the slowest of the methods that do not swing

    def tuned_without_rows(self, eigenvalues: ArrayLike, scale: float) -> Self:  # noqa: ARG002 - for iterations
        """Return this method tuned, fit for eigenvalues up to ``scale`` times as large without some row."""
        return self.tuned_to(eigenvalues)

    @property
    def pace(self) -> float:
        """The time that passes while the stop grows by one: one for a flow, by the step for an iteration."""
        return 1.0

    def in_units_of(self, penalty: float) -> Self:  # noqa: ARG002 - for methods with a time of their own
        """Return this method as it acts on eigenvalues divided by ``penalty``, time scaled to match."""
        return self

    def shrinkage(self, s: ArrayLike, t: ArrayLike) -> Array:
        """Return g(s, t): the part of an eigendirection that is not yet learned.

        Parameters
        ----------
        s : array-like
            Eigenvalues of XᵀX/n, finite and non-negative.
        t : array-like
            Stops, non-negative; ``inf`` means the limit. Broadcast against ``s``.

        Returns
        -------
        ndarray
            1 where t = 0 or s = 0.
        """
        s, t = nonnegative("s", s), nonnegative("t", t, infinite=True)
        with np.errstate(over="ignore", under="ignore"):
            return _with_limit(self._shrinkage, s, t, np.where(s > 0, 0.0, 1.0))

    def gain(self, s: ArrayLike, t: ArrayLike) -> Array:
        """Return φ(s, t) = (1 - g)/s: what multiplies the response in an eigendirection.

        Parameters
        ----------
        s : array-like
            Eigenvalues of XᵀX/n, finite and non-negative.
        t : array-like
            Stops, non-negative; ``inf`` means the limit. Broadcast against ``s``.

        Returns
        -------
        ndarray
            Smooth and finite at s = 0 for every finite t.
        """
        s, t = nonnegative("s", s), nonnegative("t", t, infinite=True)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            return _with_limit(self._gain, s, t, 1 / s)

    def filters(self, s: Array, stops: Array, height: int) -> Iterator[tuple[Array, Array]]:
        """Yield g and φ of shape (n_eigenvalues, n_stops), for ``height`` stops at a time."""
        for first in range(0, len(stops), height):
            chunk = stops[first : first + height]
            yield self.shrinkage(s[:, None], chunk), self.gain(s[:, None], chunk)


def _with_limit(
    formula: Callable[[Array, Array], Array], s: Array, t: Array, limit: Array
) -> Array:
    """Apply ``formula``, and put ``limit`` where t is infinite."""
    forever = np.isinf(t)
    if not forever.any():
        return np.asarray(formula(s, t))[()]
    return np.where(forever, limit, formula(s, np.where(forever, 0.0, t)))[()]
