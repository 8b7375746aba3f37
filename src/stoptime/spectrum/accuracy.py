"""How accurate paths from a spectrum are, and whether the scale of the data can be squared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.support.arrays import EPS, Array, Floats

SAFETY = 8.0  # factor over a typical rounding error
TRUSTED = {"float64": 1e-10, "float32": 1e-8}  # the latter is less than rounding to float32
"""Relative error of the coefficients up to which products of X with itself are trusted."""
WARNED = 1e-6  # relative error of the coefficients that causes a warning
SCALES = 1e-100, 1e100  # root mean squares of columns between these can be squared and multiplied


class ReachError(ValueError):
    """The data cannot be factored as far as these stops."""


@dataclass(frozen=True)
class Rounding:
    r"""Rounding errors of a spectrum of all eigenvalues s, of which L is the largest.

    .. math:: \varepsilon L\min(1/s, \varphi) + \rho\max(1, \varphi L) + h\varphi

    is the typical relative error of the coefficients at the gain φ. A product of X with itself
    moves eigenvalues by about εL, the ``unit``, and ``worst`` is εL/s; ``dropped`` is the ρ, the
    share of the response in directions below the rank cut that X does not annihilate; ``hidden`` is
    the h, the mean square of columns too small to be resolved beside the others.
    """

    unit: float = 0.0
    worst: float = 0.0
    largest: float = 0.0
    dropped: float = 0.0
    hidden: float = 0.0
    tolerance: float = TRUSTED["float64"]
    is_accepted: bool = False  # whether the user has asked for products, and needs no warning

    complete: ClassVar[bool] = True

    @property
    def gain(self) -> float:
        """The largest gain at which no term exceeds the tolerance."""
        if self.dropped > self.tolerance:
            return 0.0
        # a term is at most the tolerance up to the tolerance over its slope
        unit = self.unit if self.worst > self.tolerance else 0.0
        steepest = max(self.dropped * self.largest, self.hidden, unit)
        return self.tolerance / steepest if steepest > 0 else np.inf

    @np.errstate(over="ignore")  # an error that overflows is large
    def errors(self, method: Method, stops: Array) -> Array:
        """Return the sum of the three terms, times a factor of safety."""
        gain = np.asarray(largest_gain(method, stops), np.float64)
        error = np.minimum(self.worst, self.unit * gain) if self.unit else 0 * (gain > 0)
        if self.hidden:
            error = error + self.hidden * gain
        if self.dropped:
            error = error + self.dropped * np.maximum(1, gain * self.largest)
        return np.asarray(SAFETY * error)

    def reaches(self, method: Method, stops: Array) -> bool:
        """Tell whether the largest gain is within the tolerance."""
        gain = np.max(largest_gain(method, stops), initial=0)
        return bool(np.isinf(self.gain) or gain <= self.gain)

    def last(self, method: Filter) -> float:
        """Return the stop of the largest gain."""
        return _stop_of_gain(method, self.gain)


EXACT = Rounding()
"""The accuracy of a factorisation that loses nothing."""


class Space(NamedTuple):
    """The Krylov space of one target: Ritz values, the response, and the way to its basis.

    ``before`` is the space of five vectors ago, None if that is exhausted, and ``coupling`` is the
    length by which the image of the last vector leaves the space.
    """

    values: Array
    response: Array
    rotation: Array
    before: Space | None = None
    coupling: float = 0.0

    def path(self, method: Filter, stops: Array) -> Array:
        """Return the path of a tuned method in the basis, a column for each stop."""
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite change is a large one
            gains = method.gain(self.values[:, None], stops)
            return np.asarray(self.rotation @ (self.response[:, None] * gains))

    def errors(self, method: Filter, earlier: Filter, stops: Array) -> Array:
        """Return the relative change of a path since the smaller space, with its earlier step.

        A path may stand still before the space meets small eigenvalues: what leaves the space,
        times the largest gain, is how much may be missing.
        """
        found = self.path(method, stops)
        change = found.copy()
        # k iterations are exact in a space of dimension k, up to their step
        exact = method.whole_stops & (stops <= len(self.values))
        smaller = self if self.before is None else self.before
        for space, own in ((self, exact), (smaller, ~exact)):
            change[: len(space.values), own] -= space.path(earlier, stops[own])
        # in units of the largest component, squares do not overflow
        unit = np.abs(found).max(axis=0, initial=0)
        unit = np.where(unit > 0, unit, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            length = np.linalg.norm(found / unit, axis=0)
            length = np.where(length > 0, length, 1)
            moved = np.linalg.norm(change / unit, axis=0) / length
            # only the last vector has an image that leaves the space
            leaves = self.coupling * np.abs(found[-1:]).sum(axis=0) / unit / length
            leaves[exact | (leaves <= SAFETY * EPS * self.values.max(initial=0))] = 0
            # nothing is missing, up to rounding, where nothing leaves
            missing = np.where(leaves > 0, leaves * method.gain(0.0, stops), 0)
            moved = np.maximum(moved, missing)
        return np.asarray(np.where(np.isnan(moved), np.inf, moved))


@dataclass(frozen=True)
class Krylov:
    """The accuracy of a spectrum of Ritz values: how much its paths changed as it grew.

    ``spaces`` are the Krylov spaces of the targets. ``tol`` is the relative error of the
    coefficients that was asked for, ``error`` the one that is expected at the largest stop, and
    ``gain`` the largest gain there; rounding of least squares is not counted. ``products`` counts
    products with X and Xᵀ, column by column.
    """

    spaces: tuple[Space, ...]
    unseen: bool  # whether there may be eigenvalues that no target sees
    tol: float
    products: int
    error: float = 0.0
    gain: float = 0.0

    complete: ClassVar[bool] = False

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Dimensions of the spaces."""
        return np.array([len(one.values) for one in self.spaces])

    @property
    def largest(self) -> float:
        """The largest Ritz value."""
        return max((float(one.values[-1]) for one in self.spaces if len(one.values)), default=0.0)

    def tuned(self, method: Method) -> Method:
        """Return a method tuned to all Ritz values."""
        # unless the space is complete there may be eigenvalues down to zero
        zero = np.zeros(int(self.unseen))
        return method.tuned_to(np.sort(np.concatenate([zero, *(s.values for s in self.spaces)])))

    def errors(self, method: Method, stops: Array) -> Array:
        """Return the estimated relative error, the largest of all targets, at each stop."""
        if not isinstance(method, Filter):
            # conjugate gradients are exact up to the dimension of the space
            exact = [(stops <= len(one.values)) | (one.before is None) for one in self.spaces]
            return np.where(np.all(exact, axis=0), 0.0, np.inf)
        # an automatic step changes with the largest Ritz value
        before = replace(self, spaces=tuple(one.before or one for one in self.spaces))
        pair = as_filter(self.tuned(method)), as_filter(before.tuned(method))
        return np.asarray(np.max([one.errors(*pair, stops) for one in self.spaces], axis=0))

    def reaches(self, method: Method, stops: Array) -> bool:
        """Tell whether the path has converged at these stops."""
        return self.allows(self.errors(method, np.ravel(stops)))

    def allows(self, errors: Array) -> bool:
        """Tell whether errors are small enough."""
        # tol holds at the largest stop; a few times as much is allowed at the others
        return bool(np.all(errors <= 10 * self.tol))

    def last(self, method: Filter) -> float:
        """Return the stop of the largest gain."""
        return _stop_of_gain(method, self.gain)


Accuracy = Rounding | Krylov
"""What is known about the errors of the paths that are drawn from a spectrum."""


def _stop_of_gain(method: Filter, gain: float) -> float:
    return float(gain ** (1 / method.time_power) / method.pace)


def largest_gain(method: Method, stops: ArrayLike) -> Any:
    """Return a bound on the gain at every stop, for any data; infinite without a filter."""
    if isinstance(method, Filter):
        return method.largest_gain(stops)
    return np.full(np.shape(stops), np.inf)[()]


def check_scale(name: str, powers: Any, means: Any = 0.0) -> None:
    """Raise a ValueError if the root mean square of a column that varies is beyond 1e±100."""
    powers = np.atleast_1d(np.asarray(powers, np.float64))
    low, high = SCALES
    # most data pass this first test; NaN does not
    if powers.min() >= low**2 and powers.max() <= high**2:
        return
    means = np.abs(np.broadcast_to(means, powers.shape))
    with np.errstate(over="ignore", invalid="ignore"):
        large = ~(np.sqrt(powers) <= high)
    # squares of tiny entries may vanish, but their mean does not
    small = (powers < low**2) & ((~is_constant(powers, means)) | ((means > 0) & (means < low)))
    for fault, word, happens in ((large, "large", "overflow"), (small, "small", "underflow")):
        if fault.any():
            column = f", first in column {int(np.argmax(fault))}" if len(powers) > 1 else ""
            raise ValueError(
                f"{name} is too {word}: squares of its entries {happens}{column}. Root mean "
                f"squares must be between {low:g} and {high:g}. Rescale it, for example with "
                "StandardScaler."
            )


def is_constant(power: Floats, mean: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary by no more than the rounding of their mean."""
    return np.asarray(np.sqrt(power) <= 4 * EPS * np.abs(mean))


def unresolved(powers: Floats, rounding: float) -> NDArray[np.bool_]:
    """Tell which columns vary, but too little compared with the largest to be resolved."""
    return np.asarray((powers > 0) & (powers <= rounding**2 * powers.max(initial=0)))


def hidden_power(powers: Floats, rounding: float) -> float:
    """Return the largest mean square of columns that cannot be resolved; zero if all are dead."""
    lost = float(powers[unresolved(powers, rounding)].max(initial=0))
    # as some columns of embeddings are: even their products with the largest column are below the
    # least eigenvalue that is resolved, and nobody means to learn from them
    return lost if lost > rounding**4 * powers.max(initial=0) else 0.0
