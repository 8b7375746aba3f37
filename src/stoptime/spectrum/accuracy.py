"""How accurate a spectrum is, and whether the scale of the data is one that can be squared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.methods.base import Filter
from stoptime.support.arrays import EPS, Array, Floats

if TYPE_CHECKING:
    from stoptime.methods.base import Method

SAFETY = 8.0  # factor over a typical rounding error
TRUSTED = {"float64": 1e-10, "float32": 1e-8}  # the latter is less than rounding to float32
"""Relative error of the coefficients up to which products of X with itself are trusted."""
WARNED = 1e-6  # relative error of the coefficients that causes a warning
SCALES = 1e-100, 1e100  # root mean squares of columns between these can be squared and multiplied
MEAN_ROUNDINGS = 4.0  # in units of eps·|mean|: a column that varies less is constant


class ReachError(ValueError):
    """The data cannot be factored as far as these stops."""


class Accuracy(Protocol):
    """What is known about the error of the paths that are drawn from a spectrum."""

    @property
    def complete(self) -> bool:
        """Whether every eigenvalue is known."""

    @property
    def gain(self) -> float:
        """The gain φ, about 1/penalty, up to which paths of ridge are accurate."""

    def errors(self, method: Method, stops: Array) -> Array:
        """Return the relative error of the coefficients of a tuned method at each stop."""

    def reaches(self, method: Method, stops: Array) -> bool:
        """Tell whether the path of a method is accurate at all these stops."""

    def last(self, method: Filter) -> float:
        """Return the stop at which a method has the largest gain that is accurate."""


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
        # each term is at most the tolerance up to the tolerance over its slope
        slopes = [self.dropped * self.largest, self.hidden]
        if self.worst > self.tolerance:
            slopes.append(self.unit)
        steepest = max(slopes)
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
        return stop_of_gain(method, self.gain)


def stop_of_gain(method: Filter, gain: float) -> float:
    """Return the stop at which a method has this gain."""
    return float(gain ** (1 / method.time_power) / method.pace)


def largest_gain(method: Method, stops: ArrayLike) -> Any:
    """Return a bound on the gain at every stop, for any data; infinite without a filter."""
    if isinstance(method, Filter):
        return method.largest_gain(stops)
    return np.full(np.shape(stops), np.inf)[()]


EXACT = Rounding()
"""The accuracy of a factorisation that loses nothing."""


def check_scale(name: str, powers: Any, means: Any = 0.0) -> None:
    """Raise a ValueError if the root mean square of a column that varies is beyond 1e±100."""
    powers = np.atleast_1d(np.asarray(powers, np.float64))
    means = np.abs(np.broadcast_to(means, powers.shape))
    low, high = SCALES
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
    return np.asarray(np.sqrt(power) <= MEAN_ROUNDINGS * EPS * np.abs(mean))


def unresolved(powers: Floats, rounding: float) -> NDArray[np.bool_]:
    """Tell which columns vary, but too little compared with the largest to be resolved."""
    return np.asarray((powers > 0) & (powers <= rounding**2 * powers.max(initial=0)))
