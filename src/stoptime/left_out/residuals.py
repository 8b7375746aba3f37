r"""The residuals of every row left out of a path: their mean squares, and what is remembered of them.

A pass over the rows costs about as much as factoring them. What it finds at the few stops from which
all others follow (:mod:`stoptime.stopping.skeleton`) is therefore remembered, where targets are few: a
closer look between those stops needs no second pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.routes import BySecular
from stoptime.left_out.routing import MANY_TARGETS, Routing
from stoptime.left_out.rows import Rows
from stoptime.left_out.skeleton import Skeleton, combination, curve_skeleton, skeleton
from stoptime.methods.base import Method
from stoptime.support.arrays import Array, Floats, empty, like, on_host
from stoptime.support.progress import progress

TARGETS_AT_ONCE = 4096  # so that blocks of rows stay tall enough for their products
MOST_REMEMBERED = (
    2**24
)  # residuals, which are 128 MB; or half as many as X has numbers, if that is more
FEW = 8  # stops of a closer look, all of which are remembered
WORK_PER_SCORE = 1000.0  # of a pass: the ridges of a mixture, in units of a matrix product
WORK_PER_CUBE = 60.0  # of the number of stops: finding their skeleton
LEAST_WORK = 2e8  # and all that does not grow with it
DETERMINED = 1e-13  # a stop that others determine up to this is not remembered


class LeftOut:
    """Left-out residuals of one path.

    Parameters
    ----------
    rows : Rows
        The data.
    method : Method
        Tuned to all rows, with room for any of them to be left out.
    remember : bool
        Whether later calls are to be spared a pass over the rows.
    """

    def __init__(self, rows: Rows, method: Method, *, remember: bool = False) -> None:
        self.rows = rows
        self.method = method
        self._remember = remember
        self._known: dict[float, Array] = {}  # by their stop, of shape (n, n_targets)

    def errors(self, stops: Array, *, standard_errors: bool, verbose: bool = False) -> ErrorCurve:
        """Return the left-out error at many stops; see :func:`stoptime.leave_one_out`."""
        recalled = self._recalled(stops)
        if recalled is None:
            blocks = self.rows.target_blocks(TARGETS_AT_ONCE)
            parts = [
                self._pass(rows, stops, fourths=standard_errors, verbose=verbose) for rows in blocks
            ]
        else:
            sums = _Sums(self.rows, Skeleton.whole(len(stops)), fourths=standard_errors)
            for place, residuals in enumerate(recalled):
                sums.add(np.array([place]), like(residuals, self.rows.weights), residuals[None])
            parts = [sums]
        errors = np.concatenate([part.means() for part in parts], axis=1)
        spread = [part.deviations() for part in parts if standard_errors]
        deviations = np.concatenate(spread, axis=1) if spread else None
        if self.rows.data.single_target:
            errors, deviations = errors[:, 0], None if deviations is None else deviations[:, 0]
        return ErrorCurve(stops, errors, deviations)

    def residuals(self, stop: Array) -> Floats:
        """Return every row's residual, of all targets at one stop or of each at its own."""
        stops, own = np.unique(np.broadcast_to(stop, self._n_targets), return_inverse=True)
        recalled = self._recalled(stops) if self.rows.n_present == len(self.rows.weights) else None
        if recalled is None:
            found = self._own_residuals(stops, own)
        else:
            found = empty(self.rows.data.y, tuple(self.rows.data.y.shape))
            for place, residuals in enumerate(recalled):
                mine = np.flatnonzero(own == place)
                found[:, mine] = residuals[:, mine]
        out = self.rows.data.as_given(found * like(found, self.rows.unit))
        return out[:, 0] if self.rows.data.single_target else out

    @property
    def _n_targets(self) -> int:
        return int(self.rows.data.y.shape[1])

    def _recalled(self, stops: Array) -> Iterator[Array] | None:
        """Return the residuals at some stops, one array at a time, if they follow from what is known."""
        new = np.array([stop for stop in stops if stop not in self._known])
        bones = [stop for stop in self._known if 0 < stop < np.inf]
        shares: dict[float, Array] = {}
        if new.size:
            if not bones or new.min() == 0 or new.max() == np.inf:
                return None
            matrix = combination(self.method, np.array(bones), new, self.rows.reach)
            if matrix is None:
                return None
            shares = dict(zip(new, matrix, strict=True))
        return (self._mixed(bones, shares[s]) if s in shares else 1 * self._known[s] for s in stops)

    def _mixed(self, stops: list[float], shares: Array) -> Array:
        return reduce(
            add, (share * self._known[stop] for stop, share in zip(stops, shares, strict=True))
        )

    def _pass(self, rows: Rows, stops: Array, *, fourths: bool, verbose: bool) -> _Sums:
        """Sum over all rows, some of the targets, and remember what is worth it."""
        curve = _curve_of(rows, self.method, stops, fourths=fourths)
        routing = Routing(rows, self.method, stops[curve.bones])
        parts = list(routing.parts(np.flatnonzero(rows.weights)))
        sums = _Sums(rows, curve, fourths=fourths)
        seen = self._room(stops)
        for index, route in progress(parts, "leave-one-out", verbose):
            block = rows.block(index, on_host=isinstance(route, BySecular))
            for places, residuals in routing.residuals(block, route):
                for place, stop in enumerate(routing.stops[places]):
                    if (
                        stop in seen
                    ):  # where nothing or all is learned one array stands for several stops
                        seen[stop][index] = like(
                            seen[stop], residuals[min(place, len(residuals) - 1)]
                        )
                sums.add(places, block.weight, residuals)
        self._known |= seen
        return sums

    def _room(self, stops: Array) -> dict[float, Array]:
        """Return arrays for what is worth remembering, by their stop."""
        if self._remember and self._n_targets < MANY_TARGETS:
            bones = stops if len(stops) <= FEW else self._bones(stops)
            limit = max(MOST_REMEMBERED, np.prod(self.rows.data.X.shape) // 2)
            size = len(bones), len(self.rows.weights), self._n_targets
            if (len(self._known) + size[0]) * size[1] * size[2] <= limit:
                return dict(
                    zip(bones.tolist(), like(self.rows.data.y, np.zeros(size)), strict=True)
                )
        return {}

    def _bones(self, stops: Array) -> Array:
        """Return the stops from which all others follow; none where finding them costs more than a pass."""
        n, rank = len(self.rows.weights), len(self.rows.eigenvalues)
        inner = stops[(stops > 0) & np.isfinite(stops)]
        if WORK_PER_CUBE * len(inner) ** 3 + LEAST_WORK > n * rank * (2 * rank + WORK_PER_SCORE):
            return stops[:0]
        bones = skeleton(self.method, inner, self.rows.reach, DETERMINED).bones
        return np.concatenate([inner[bones], np.setdiff1d(stops, inner)])

    def _own_residuals(self, stops: Array, own: NDArray[np.intp]) -> Array:
        rows = self.rows
        routing = Routing(rows, self.method, stops, own)
        out = empty(rows.data.y, tuple(rows.data.y.shape))
        for index, route in routing.parts(np.arange(len(out))):
            block = rows.block(index, on_host=isinstance(route, BySecular))
            out[index] = like(out, routing.own_residuals(block, route))
        return out


def _curve_of(rows: Rows, method: Method, stops: Array, *, fourths: bool) -> Skeleton:
    """Leave out stops whose sums follow from others', where targets are so many that it pays."""
    between = np.flatnonzero((stops > 0) & np.isfinite(stops))
    if rows.data.y.shape[1] < MANY_TARGETS or between.size == 0:
        return Skeleton.whole(len(stops))
    inner = curve_skeleton(
        method, stops[between], rows.reach, fourths=fourths, accuracy=rows.accuracy
    )
    ends = np.setdiff1d(np.arange(len(stops)), between)
    matrix = np.hstack([inner.matrix, np.zeros((len(inner.others), len(ends)))])
    return Skeleton(np.concatenate([between[inner.bones], ends]), between[inner.others], matrix)


class _Sums:
    """Sums over rows of what mean squares and their standard errors need, at the bones of a curve."""

    def __init__(self, rows: Rows, curve: Skeleton, *, fourths: bool) -> None:
        self._rows, self._curve = rows, curve
        n_stops, n_targets = len(curve.bones), int(rows.data.y.shape[1])
        self._squares = np.zeros((n_stops, n_targets))
        self._weighted_squares, self._fourths = np.zeros((2, n_stops, n_targets if fourths else 0))

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
        weights, extended = self._rows.weights, self._curve.extended
        n, mean = self._rows.n_present, extended(self._squares)
        variance = extended(self._fourths) - 2 * mean * extended(self._weighted_squares)
        variance += mean**2 * (weights @ weights)
        return np.asarray(self._rows.unit**2 * np.sqrt(np.maximum(variance, 0) * n / (n - 1)))
