"""Left-out residuals: those of every row from the path fitted without it, and mean squares.

A pass over the rows costs about as much as factoring them. Where targets are few, the left-out
residuals of ridges are therefore remembered: other methods, and stops between those of a grid, are
other mixtures of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.interpolation import Interpolation
from stoptime.left_out.mixture import ByMixture
from stoptime.left_out.routing import MANY_TARGETS, Routing
from stoptime.left_out.secular import BySecular
from stoptime.support.arrays import Array, Floats, empty, like, on_host
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.left_out.mixture import Ellipse
    from stoptime.left_out.rows import Rows
    from stoptime.methods.base import Method

TARGETS_AT_ONCE = 4096  # so that blocks of rows stay tall enough for fast products


class LeftOut:
    """Left-out residuals of tuned methods; all of them share the ridges that rows remember."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._ellipses: list[Ellipse] = []

    def errors(
        self,
        method: Method,
        stops: Array,
        *,
        standard_errors: bool,
        limit: float = np.inf,
        verbose: bool = False,
    ) -> ErrorCurve:
        """Return the left-out error at many stops; see :func:`stoptime.leave_one_out`.

        Eigenvalues beyond ``limit`` are taken as learned.
        """
        parts = [
            self._pass(rows, method, stops, limit, fourths=standard_errors, verbose=verbose)
            for rows in self.rows.target_blocks(TARGETS_AT_ONCE)
        ]
        values = [np.concatenate([part.means() for part in parts], axis=1)]
        if standard_errors:
            values.append(np.concatenate([part.deviations() for part in parts], axis=1))
        target: Any = 0 if self.rows.data.single_target else slice(None)
        return ErrorCurve(stops, *(columns[:, target] for columns in values))

    def residuals(self, method: Method, stop: Array) -> Floats:
        """Return the residuals of all rows: all targets at one stop, or each at its own."""
        stops, own = np.unique(np.broadcast_to(stop, self.rows.data.n_targets), return_inverse=True)
        found = empty(self.rows.data.y, self.rows.data.y.shape)
        few = len(stops) == 1 and self.rows.data.n_targets < MANY_TARGETS
        routing = Routing(self.rows, method, stops, None if few else own, known=self._ellipses)
        for index, route in routing.parts(np.arange(len(found))):
            block = self.rows.block(index, on_host=isinstance(route, BySecular))
            if few:
                _, values = next(routing.residuals(block, route))
                found[index] = like(found, values[0])
            else:
                found[index] = like(found, routing.own_residuals(block, route))
        out = self.rows.data.as_given(found * like(found, self.rows.unit))
        return out[:, 0] if self.rows.data.single_target else out

    def _pass(
        self, rows: Rows, method: Method, stops: Array, limit: float, *, fourths: bool, verbose: bool
    ) -> _Sums:
        """Sum over all rows for some of the targets."""
        curve = _curve_of(rows, method, stops, fourths=fourths)
        routing = Routing(rows, method, stops[curve.nodes], None, limit, tuple(self._ellipses))
        parts = list(routing.parts(np.flatnonzero(rows.weights)))
        sums = _Sums(rows, curve, fourths=fourths)
        for index, route in progress(parts, "leave-one-out", verbose):
            block = rows.block(index, on_host=isinstance(route, BySecular))
            for places, residuals in routing.residuals(block, route):
                sums.add(places, block.weight, residuals)
            if isinstance(route, ByMixture) and route.mixture.ellipse not in {None, *self._ellipses}:
                self._ellipses.append(route.mixture.ellipse)
        return sums


def _curve_of(rows: Rows, method: Method, stops: Array, *, fourths: bool) -> Interpolation:
    """Skip stops that can be interpolated, if there are enough targets to save time."""
    between = np.flatnonzero((stops > 0) & np.isfinite(stops))
    if rows.data.n_targets < MANY_TARGETS or between.size == 0:
        return Interpolation.trivial(len(stops))
    inner = Interpolation.of_powers(
        method, stops[between], rows.reach, rows.accuracy, fourths=fourths
    )
    ends = np.setdiff1d(np.arange(len(stops)), between)
    nodes = np.concatenate([between[inner.nodes], ends])
    matrix = np.hstack([inner.matrix, np.zeros((len(inner.others), len(ends)))])
    return Interpolation(nodes, between[inner.others], matrix)


class _Sums:
    """Sums over rows for mean squares and their standard errors, at the nodes of a curve."""

    def __init__(self, rows: Rows, curve: Interpolation, *, fourths: bool) -> None:
        self._rows = rows
        self._curve = curve
        shape = len(curve.nodes), rows.data.n_targets
        self._squares = np.zeros(shape)
        self._weighted_squares, self._fourths = np.zeros((2, *(shape if fourths else (0, 0))))

    def add(self, places: NDArray[np.intp], weight: Array, residuals: Array) -> None:
        """Add residuals of shape (n_places, n_rows, n_targets); they are overwritten."""
        residuals *= residuals
        self._squares[places] += on_host(weight @ residuals)
        if self._fourths.size:
            self._weighted_squares[places] += on_host(weight**2 @ residuals)
            residuals *= residuals
            self._fourths[places] += on_host(weight**2 @ residuals)

    def means(self) -> Array:
        """Return the mean squares m, of shape (n_stops, n_targets)."""
        return np.asarray(self._rows.unit**2 * self._curve.extended(self._squares))

    def deviations(self) -> Array:
        """Return their standard errors, the root of n/(n - 1) Σ w²(e² - m)²."""
        n = self._rows.n_present
        extended = self._curve.extended
        mean = extended(self._squares)
        variance = extended(self._fourths) - 2 * mean * extended(self._weighted_squares)
        variance += mean**2 * (self._rows.weights @ self._rows.weights)
        # rounding may leave a small negative number where all squares are equal
        return np.asarray(self._rows.unit**2 * np.sqrt(np.maximum(variance, 0) * n / (n - 1)))
