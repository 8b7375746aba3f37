r"""The accuracy of paths that are computed from Ritz values.

A Krylov space of dimension k satisfies :math:`\hat\Sigma V = VT + \eta\, v e_k^T`. With the
eigenvectors q of T, the error of any matrix function φ is a sum of divided differences,

.. math:: \varphi(\hat\Sigma)z - V\varphi(T)V^Tz = h(\hat\Sigma)v, \qquad
    h(s) = \eta\,\|z\|\sum_j q_{1j}q_{kj}\,\frac{\varphi(s) - \varphi(\theta_j)}{s - \theta_j},

so the norm of the error is at most the maximum of \|h\| over the spectrum. The sum is a divided
difference of order k and as smooth as φ: its maximum is found on a grid of the spectrum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.recurrence import Iteration
from stoptime.spectrum.accuracy import SAFETY, stop_of_gain
from stoptime.support.arrays import EPS, Array

LEAST_DISTANCE = 1e-6  # times the largest eigenvalue: distance of grid points to Ritz values


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
        """Return the maximum of h on a grid, over the length of the coefficients; start is φ(0)."""
        theta = self.values
        # an iteration diverges beyond its own limit, so there is no eigenvalue to cover there
        largest = float(theta[-1] + abs(self.leaving[-1]))
        if isinstance(method, Iteration):
            largest = min(largest, method.largest_eigenvalue)
        # paths of second order oscillate in s, and two points for each radian resolve them
        radians = np.sqrt(8 * largest * start.max()) if method.time_power == 2 else 0.0
        grid = _grid(theta, largest, int(min(33 + 2 * radians, 4096)))
        # units of the largest eigenvalue, the first gain and the response avoid over- and underflow
        first = np.where(start > 0, start, 1.0)
        size = np.abs(self.response).max() or 1.0
        gains = method.gain(np.concatenate([theta, grid])[:, None], stops) / first
        at_theta, at_grid = np.split(gains, [len(theta)])
        lengths = np.sqrt(at_theta.T**2 @ (self.response / size) ** 2)
        # between zero and a tiny Ritz value the difference cancels: by the mean value theorem the
        # quotient is a slope there, and φ is linear up to 1e-5/φ(0) to rounding
        flat = 1e-5 / np.maximum(start, 1e-5 / largest)
        slopes = (method.gain(flat, stops) / first - at_grid[0]) / (flat / largest)
        distances = (grid[:, None] - theta) / largest
        residues = self.response / size * self.leaving / largest
        worst = np.empty(len(stops))
        for k in range(len(stops)):
            differences = (at_grid[:, k, None] - at_theta[:, k]) / distances
            differences[0] = np.where(theta < flat[k], slopes[k], differences[0])
            worst[k] = np.abs(differences @ residues).max()
        # a maximum between two points of the grid is a little larger
        return np.asarray(1.1 * worst / np.where(lengths > 0, lengths, np.inf))

    def moves(self, method: Filter, other: Filter, stops: Array) -> Array:
        """Return the relative difference of the coefficients for two steps of a method."""
        gains = method.gain(self.values[:, None], stops)
        unit = gains.max(axis=0, initial=0)
        unit = np.where(unit > 0, unit, 1.0)
        shares = self.response / (np.abs(self.response).max(initial=0) or 1.0)
        change = (gains - other.gain(self.values[:, None], stops)) / unit
        lengths = np.linalg.norm(shares[:, None] * gains / unit, axis=0)
        moved = np.linalg.norm(shares[:, None] * change, axis=0)
        return np.asarray(moved / np.where(lengths > 0, lengths, np.inf))


def _grid(theta: Array, largest: float, size: int) -> Array:
    """Return Chebyshev points from zero to the largest eigenvalue, away from the Ritz values."""
    grid = largest / 2 * (1 - np.cos(np.pi * np.arange(size) / (size - 1)))
    # next to a Ritz value the divided difference is rounding; h is smooth, so a gap is harmless
    place = np.searchsorted(theta, grid)
    below = theta[np.maximum(place - 1, 0)]
    above = theta[np.minimum(place, len(theta) - 1)]
    free = np.minimum(np.abs(grid - below), np.abs(grid - above)) > LEAST_DISTANCE * largest
    free[0] = True  # zero has its own formula
    return np.asarray(grid[free])


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
        return max((one.values[-1] for one in self.spaces if len(one.values)), default=0.0)

    @property
    def exhausted(self) -> bool:
        """Whether every Krylov space is complete, so that all stops are exact."""
        return not any(one.leaving.any() for one in self.spaces)

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
        highest = max(
            (one.values[-1] + one.doubt for one in self.spaces if len(one.values)), default=0
        )
        doubt = float(highest - self.largest)
        if getattr(method, "step", None) == "auto" and doubt:
            # an automatic step is as uncertain as the largest eigenvalue
            other = as_filter(self.tuned(method, doubt))
            errors = errors + np.max(
                [one.moves(as_filter(tuned), other, stops) for one in self.spaces], axis=0
            )
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
        return stop_of_gain(method, self.gain)
