"""Left-out residuals: those of every row from the path fitted without it, and mean squares.

A pass over the rows costs about as much as factoring them. Where targets are few, the residuals at
the interpolation nodes (:mod:`stoptime.left_out.interpolation`) are therefore stored, so that
refining the grid of stops needs no second pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.interpolation import Interpolation, combination
from stoptime.left_out.routing import MANY_TARGETS, Routing
from stoptime.left_out.secular import BySecular
from stoptime.support.arrays import Array, Floats, empty, like, on_host
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.left_out.rows import Rows
    from stoptime.methods.base import Method

TARGETS_AT_ONCE = 4096  # so that blocks of rows stay tall enough for fast products
MOST_REMEMBERED = 2**24  # residuals, 128 MB, or half as many as X has numbers if that is more
STOPS_ALL_REMEMBERED = 8  # so few stops are a closer look, and all of them are remembered
WORK_PER_SCORE = 1000.0  # of a pass: the ridges of a mixture, in units of a matrix product
WORK_PER_CUBE = 60.0  # of the number of stops: finding their interpolation nodes
LEAST_WORK = 2e8  # of finding the nodes of however few stops
DETERMINED = 1e-13  # a stop that follows from others up to this is not remembered


class LeftOut:
    """Left-out residuals of a tuned path; ``remember`` stores them for later calls."""

    def __init__(self, rows: Rows, method: Method, *, remember: bool = False) -> None:
        self.rows = rows
        self.method = method
        self._remember = remember
        self._known: dict[float, Array] = {}  # residuals of shape (n, n_targets), by their stop

    def errors(self, stops: Array, *, standard_errors: bool, verbose: bool = False) -> ErrorCurve:
        """Return the left-out error at many stops; see :func:`stoptime.leave_one_out`."""
        recalled = self._recalled(stops)
        if recalled is None:
            parts = [
                self._pass(rows, stops, fourths=standard_errors, verbose=verbose)
                for rows in self.rows.target_blocks(TARGETS_AT_ONCE)
            ]
        else:
            sums = _Sums(self.rows, Interpolation.trivial(len(stops)), fourths=standard_errors)
            for place, residuals in enumerate(recalled):
                sums.add(np.array([place]), like(residuals, self.rows.weights), residuals[None])
            parts = [sums]
        values = [np.concatenate([part.means() for part in parts], axis=1)]
        if standard_errors:
            values.append(np.concatenate([part.deviations() for part in parts], axis=1))
        target: Any = 0 if self.rows.data.single_target else slice(None)
        return ErrorCurve(stops, *(columns[:, target] for columns in values))

    def residuals(self, stop: Array) -> Floats:
        """Return the residuals of all rows: all targets at one stop, or each at its own."""
        stops, own = np.unique(np.broadcast_to(stop, self.rows.data.n_targets), return_inverse=True)
        # a pass skips rows of weight zero, so their residuals are not remembered
        recalled = self._recalled(stops) if self.rows.weights.all() else None
        found = empty(self.rows.data.y, self.rows.data.y.shape)
        if recalled is None:
            self._own_residuals(stops, own, found)
        for place, residuals in enumerate(recalled or ()):
            mine = np.flatnonzero(own == place)
            found[:, mine] = residuals[:, mine]
        out = self.rows.data.as_given(found * like(found, self.rows.unit))
        return out[:, 0] if self.rows.data.single_target else out

    def _recalled(self, stops: Array) -> Iterator[Array] | None:
        """Return new arrays of residuals, one for each stop, if stored ones determine them."""
        new = np.array([stop for stop in stops if stop not in self._known])
        nodes = [stop for stop in self._known if 0 < stop < np.inf]
        shares: dict[float, Array] = {}
        if new.size:
            if not nodes or new.min() == 0 or new.max() == np.inf:
                return None
            matrix = combination(self.method, np.array(nodes), new, self.rows.reach)
            if matrix is None:
                return None
            shares = dict(zip(new, matrix, strict=True))
        return (
            sum(share * self._known[node] for node, share in zip(nodes, shares[s], strict=True))
            if s in shares
            else 1 * self._known[s]
            for s in stops
        )

    def _pass(self, rows: Rows, stops: Array, *, fourths: bool, verbose: bool) -> _Sums:
        """Sum over all rows for some of the targets, and remember residuals at the nodes."""
        curve = _curve_of(rows, self.method, stops, fourths=fourths)
        routing = Routing(rows, self.method, stops[curve.nodes])
        parts = list(routing.parts(np.flatnonzero(rows.weights)))
        sums = _Sums(rows, curve, fourths=fourths)
        kept = self._room(stops)
        for index, route in progress(parts, "leave-one-out", verbose):
            block = rows.block(index, on_host=isinstance(route, BySecular))
            for places, residuals in routing.residuals(block, route):
                for place, stop in enumerate(routing.stops[places]):
                    if stop in kept:
                        # at the start and at the end of the path one array serves several stops
                        values = residuals[min(place, len(residuals) - 1)]
                        kept[stop][index] = like(kept[stop], values)
                sums.add(places, block.weight, residuals)
        self._known |= kept
        return sums

    def _room(self, stops: Array) -> dict[float, Array]:
        """Return arrays for the residuals to be remembered, by their stop."""
        if not self._remember or self.rows.data.n_targets >= MANY_TARGETS:
            return {}
        nodes = stops if len(stops) <= STOPS_ALL_REMEMBERED else self._nodes(stops)
        limit = max(MOST_REMEMBERED, np.prod(self.rows.data.X.shape) // 2)
        size = len(nodes), len(self.rows.weights), self.rows.data.n_targets
        if (len(self._known) + size[0]) * size[1] * size[2] > limit:
            return {}
        return dict(zip(nodes.tolist(), like(self.rows.data.y, np.zeros(size)), strict=True))

    def _nodes(self, stops: Array) -> Array:
        """Return interpolation nodes; none where finding them costs more than a pass."""
        n = len(self.rows.weights)
        rank = len(self.rows.eigenvalues)
        inner = stops[(stops > 0) & np.isfinite(stops)]
        if WORK_PER_CUBE * len(inner) ** 3 + LEAST_WORK > n * rank * (2 * rank + WORK_PER_SCORE):
            return stops[:0]
        nodes = Interpolation.of(self.method, inner, self.rows.reach, DETERMINED).nodes
        return np.concatenate([inner[nodes], np.setdiff1d(stops, inner)])

    def _own_residuals(self, stops: Array, own: NDArray[np.intp], out: Array) -> None:
        routing = Routing(self.rows, self.method, stops, own)
        for index, route in routing.parts(np.arange(len(out))):
            block = self.rows.block(index, on_host=isinstance(route, BySecular))
            out[index] = like(out, routing.own_residuals(block, route))


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
