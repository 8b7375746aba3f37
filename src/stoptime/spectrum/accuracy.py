"""How accurate paths from a spectrum are, and whether the scale of the data can be squared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.recurrence import Iteration
from stoptime.support.arrays import EPS, TINY, Array, Floats

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

    ``leaving`` are signed residuals of the Ritz pairs, the component of each image outside the
    space. ``unlearned`` says how far least squares is from converged: the gradient divided by the
    first gradient, or the share of the newest vector in the fit if that is larger. Both are zero if
    the space is exhausted.
    """

    values: Array
    response: Array
    rotation: Array
    leaving: Array
    unlearned: float

    @property
    def doubt(self) -> float:
        """Estimated distance of the largest Ritz value from an eigenvalue."""
        if not len(self.values):
            return 0.0
        residual = abs(float(self.leaving[-1]))
        gap = float(self.values[-1] - self.values[-2]) if len(self.values) > 1 else 0.0
        # the residual always bounds this distance; where the gap to the next value is wider,
        # the Kato-Temple bound, the squared residual over the gap, is much smaller
        return min(residual, residual * residual / gap) if gap > 0 else residual

    def errors(self, method: Method, stops: Array) -> Array:
        """Bound the relative error of the path of a tuned method at each stop."""
        # unseen eigenvalues may be arbitrarily small, and a small gradient alone does not notice
        # them: least squares is known only if the last change of the fit vanishes too
        at_end = 0.0 if self.unlearned <= SAFETY * EPS else np.inf
        if not isinstance(method, Filter):
            # conjugate gradients are exact up to the dimension of the space
            return np.where(stops > len(self.values), at_end, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            start = method.gain(0.0, stops)
            # so late a stop cannot be told from infinity
            late = start * self.values.max(initial=0) > 1e100
        late |= np.isinf(stops) & method.reaches_least_squares
        found = np.where(late, at_end, 0.0)
        if self.leaving.any() and not late.all():
            found[~late] = self._bounds(method, stops[~late], start[~late])
        return found

    def _bounds(self, method: Filter, stops: Array, start: Array) -> Array:
        r"""Return the maximum of h on a grid, over the length of the coefficients; start is φ(0).

        .. math:: \varphi(\hat\Sigma)z - V\varphi(T)V^Tz = h(\hat\Sigma)v, \qquad
            h(s) = \sum_j z_j\eta_j\,\frac{\varphi(s) - \varphi(\theta_j)}{s - \theta_j}

        with η the residuals of the Ritz pairs, and v the next vector.
        """
        theta = self.values
        # an iteration diverges beyond its own limit, so there is no eigenvalue to cover there
        largest = float(theta[-1] + abs(self.leaving[-1]))
        if isinstance(method, Iteration):
            largest = min(largest, method.largest_eigenvalue)
        # paths of second order oscillate in s, and two points for each radian resolve them
        radians = np.sqrt(8 * largest * start.max()) if method.time_power == 2 else 0.0
        grid = largest / 2 * (1 - np.cos(np.linspace(0, np.pi, int(min(33 + 2 * radians, 4096)))))
        distances = (grid[:, None] - theta) / largest
        # next to a Ritz value the divided difference is rounding; h is smooth, so a gap is harmless
        free = np.abs(distances).min(axis=1) > 1e-6
        free[0] = True  # zero has its own formula
        distances = distances[free]
        # units of the largest eigenvalue, the first gain and the response avoid over- and underflow
        first = np.where(start > 0, start, 1.0)
        gains = method.gain(np.concatenate([theta, grid[free]])[:, None], stops) / first
        at_theta, at_grid = np.split(gains, [len(theta)])
        shares = self._shares
        lengths = np.sqrt(at_theta.T**2 @ shares**2)
        # between zero and a tiny Ritz value the difference cancels: by the mean value theorem the
        # quotient is a slope there, and φ is linear up to 1e-5/φ(0) to rounding
        flat = 1e-5 / np.maximum(start, 1e-5 / largest)
        slopes = (method.gain(flat, stops) / first - at_grid[0]) / (flat / largest)
        worst = np.empty(len(stops))
        for k in range(len(stops)):
            differences = (at_grid[:, k, None] - at_theta[:, k]) / distances
            differences[0] = np.where(theta < flat[k], slopes[k], differences[0])
            worst[k] = np.abs(differences @ (shares * self.leaving / largest)).max()
        # a maximum between two points of the grid is a little larger
        return np.asarray(1.1 * worst / np.where(lengths > 0, lengths, np.inf))

    @property
    def _shares(self) -> Array:
        return self.response / (np.abs(self.response).max(initial=0) or 1.0)

    def moves(self, method: Filter, other: Filter, stops: Array) -> Array:
        """Return the relative difference of the coefficients for two steps of a method."""
        paths = [
            self._shares[:, None] * m.gain(self.values[:, None], stops) for m in (method, other)
        ]
        unit = np.abs(paths[0]).max(axis=0, initial=0)
        unit = np.where(unit > 0, unit, np.inf)
        moved = np.linalg.norm((paths[0] - paths[1]) / unit, axis=0)
        return np.asarray(moved / np.maximum(np.linalg.norm(paths[0] / unit, axis=0), TINY))


@dataclass(frozen=True)
class Krylov:
    """The accuracy of a spectrum of Ritz values, by a bound on the error of its paths.

    ``spaces`` are the Krylov spaces of the targets. ``tol`` is the relative error of the
    coefficients that was asked for, ``error`` the one that remains at the largest stop, and
    ``gain`` the largest gain there; rounding of least squares is not counted. ``products`` counts
    products with X and Xᵀ, column by column.
    """

    spaces: tuple[Space, ...]
    hidden: bool  # whether there may be eigenvalues that no target sees
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

    def tuned(self, method: Method, doubt: float = 0.0) -> Method:
        """Return a method tuned to all Ritz values; the largest eigenvalue may be larger."""
        # unless the space is complete there may be eigenvalues down to zero
        zero = np.zeros(int(self.hidden))
        values = np.sort(np.concatenate([zero, *(one.values for one in self.spaces)]))
        return method.tuned_to(np.append(values, values[-1:] + doubt) if doubt else values)

    def errors(self, method: Method, stops: Array) -> Array:
        """Return a bound on the relative error, the largest of all targets, at each stop."""
        tuned = self.tuned(method)
        errors = np.max([one.errors(tuned, stops) for one in self.spaces], axis=0)
        if getattr(method, "step", None) == "auto":
            # an automatic step is as uncertain as the largest eigenvalue
            tops = [one.values.max(initial=0) + one.doubt for one in self.spaces]
            pair = as_filter(tuned), as_filter(self.tuned(method, float(max(tops) - self.largest)))
            errors = errors + np.max([one.moves(*pair, stops) for one in self.spaces], axis=0)
        return np.asarray(errors)

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


def are_dead(powers: Floats, rounding: float) -> bool:
    """Tell whether all columns that cannot be resolved are dead, as some of embeddings are."""
    # their products with the largest column too are below the least eigenvalue that is resolved
    lost = powers[unresolved(powers, rounding)]
    return bool(lost.max(initial=0) <= rounding**4 * powers.max(initial=0))
