"""Left-out residuals: those of every row from the path fitted without it, and mean squares.

A pass over the rows costs about as much as factoring them. Where targets are few, the left-out
residuals of ridges are therefore remembered: other methods, and stops between those of a grid, are
other mixtures of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.by_mixture import ByMixture
from stoptime.left_out.curve import LEAST_ROUGH, ErrorCurve, SquareSums
from stoptime.left_out.interpolation import Interpolation
from stoptime.left_out.mixture import Ellipse
from stoptime.left_out.routing import MANY_TARGETS, Routing
from stoptime.support.arrays import Array, Floats, empty, like
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.left_out.rows import Rows
    from stoptime.methods.base import Method

TARGETS_AT_ONCE = 4096  # so that blocks of rows stay tall enough for fast products
SAMPLED_ROWS = 2**15  # at a first look, if there are many more
UNLIKE = 0.05  # relative difference of the errors of least squares of these rows and of all
LOOK_ACCURACY = 1e-6  # of interpolation at a first look, relative to the response's power


class LeftOut:
    """Left-out residuals of tuned methods; all of them share the ridges that rows remember.

    In every method, eigenvalues beyond ``limit`` are taken as learned.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._ellipses: dict[Ellipse, None] = {}  # that were used before, whose ridges are known
        self._known: dict[
            tuple[Method, float], Array
        ] = {}  # residuals of which nothing is left out

    def errors(
        self,
        method: Method,
        stops: Array,
        limit: float = np.inf,
        *,
        standard_errors: bool,
        rough: bool = False,
        verbose: bool = False,
    ) -> ErrorCurve:
        """Return the left-out error at many stops; see :func:`stoptime.leave_one_out`.

        Errors of many targets may be ``rough``, to about 1e-6 of the response's power.
        """
        parts = []
        exact = True
        options = {"fourths": standard_errors, "verbose": verbose}
        for rows in self.rows.target_blocks(TARGETS_AT_ONCE):
            sums = self._sampled(rows, method, stops, limit, options) if rough else None
            is_exact = False
            if sums is None:
                sums, is_exact = self._summed(rows, method, stops, limit, options, rough=rough)
            if not is_exact and sums.least < LEAST_ROUGH:
                sums, is_exact = self._summed(rows, method, stops, limit, options, rough=False)
            exact = exact and is_exact
            parts.append(sums)
        target: Any = 0 if self.rows.data.single_target else slice(None)
        errors = np.concatenate([part.means() for part in parts], axis=1)[:, target]
        deviation = None
        if standard_errors:
            deviation = np.concatenate([part.deviations() for part in parts], axis=1)[:, target]
        sure = exact | ~((stops > 0) & np.isfinite(stops))
        return ErrorCurve(stops, errors, deviation, sure)

    def _summed(
        self,
        rows: Rows,
        method: Method,
        stops: Array,
        limit: float,
        options: dict[str, bool],
        *,
        rough: bool,
        members: NDArray[np.intp] | None = None,
    ) -> tuple[SquareSums, bool]:
        """Return sums over some rows, by default all, and whether they are exact."""
        accuracy = max(rows.accuracy, LOOK_ACCURACY) if rough else rows.accuracy
        curve = Interpolation.trivial(len(stops))
        if rows.data.n_targets >= MANY_TARGETS:
            # stops that can be interpolated are left out: with so many targets this saves time
            fourths = options["fourths"]
            curve = Interpolation.of_powers(method, stops, rows.reach, accuracy, fourths=fourths)
        sums = SquareSums(rows, curve, fourths=options["fourths"])
        routing = Routing(rows, method, stops[curve.nodes], None, limit, tuple(self._ellipses))
        members = rows.present if members is None else members
        parts = list(routing.parts(members))
        whole = len(parts) == 1 and len(members) == len(rows.weights) and limit >= rows.reach
        # of many targets a single stop, which refines the best one and is likely to be chosen
        whole = whole and rows is self.rows and (rows.remembers or len(stops) == 1)
        for index, route in progress(parts, "leave-one-out", options["verbose"]):
            block = rows.block(index, on_host=route.runs_on_host)
            for places, residuals in routing.residuals(block, route):
                if whole and (block.is_light or residuals.dtype != np.float32):
                    kept = zip(places, 1 * residuals, strict=True)
                    at = routing.stops
                    self._known |= {(method, float(at[place])): own for place, own in kept}
                sums.add(places, block.weight, residuals)
            if isinstance(route, ByMixture) and isinstance(route.mixture.contour, Ellipse):
                self._ellipses[route.mixture.contour] = None
        is_rough = curve.others.size > 0 and accuracy > rows.accuracy
        return sums, not is_rough

    def _sampled(
        self, rows: Rows, method: Method, stops: Array, limit: float, options: dict[str, bool]
    ) -> SquareSums | None:
        """Return rough sums from every few of very many rows, or None if that is no good.

        They are scaled by the error of least squares, which is cheap for all rows and whose
        residuals are nearly those of other stops.
        """
        stride = rows.n_present // SAMPLED_ROWS
        # blocks that are not remembered would be made once more for the ends
        if stride < 2 or not rows.keeps_blocks or options["fourths"] or not np.isinf(stops[-1]):
            return None
        # one of every few rows, at random: rows in order of time may have a period
        few = stride * np.arange(rows.n_present // stride)
        few += np.random.default_rng(0).integers(stride, size=len(few))
        few = rows.present[few]
        found = self._summed(rows, method, stops, limit, options, rough=True, members=few)[0]
        ends = stops[(stops == 0) | np.isinf(stops)]
        whole = self._summed(rows, method, ends, limit, options, rough=False)[0]
        squares = found.squares
        share = float(rows.weights[few].sum())
        if squares[-1].min() < LEAST_ROUGH * share:
            return None
        # a few rows of high leverage may decide, and then the others tell nothing about the error
        ratio = whole.squares[-1] / squares[-1]
        if abs(whole.squares[-1].sum() * share / squares[-1].sum() - 1) > UNLIKE:
            return None
        squares *= ratio
        squares[-len(ends) :] = whole.squares
        return found

    def known(self, method: Method, stop: float) -> Array | None:
        """Return the residuals of all rows, (n, n_targets), if they have been computed."""
        found = self._known.get((method, stop))
        return None if found is None else found * like(found, self.rows.unit)

    def residuals(self, method: Method, stop: Array, limit: float = np.inf) -> Floats:
        """Return the residuals of all rows: all targets at one stop, or each at its own."""
        stops, own = np.unique(np.broadcast_to(stop, self.rows.data.n_targets), return_inverse=True)
        found = self._known.get((method, float(stops[0]))) if len(stops) == 1 else None
        if found is None:
            shared = len(stops) == 1 and self.rows.data.n_targets < MANY_TARGETS
            found = self._computed(method, stops, None if shared else own, limit)
        found = like(self.rows.data.y, found)  # some routes run on the host
        out = self.rows.data.as_given(found * like(found, self.rows.unit))
        return out[:, 0] if self.rows.data.single_target else out

    def _computed(
        self, method: Method, stops: Array, own: NDArray[np.intp] | None, limit: float
    ) -> Array:
        """Return residuals at one stop, or of each target at its ``own``, in its unit."""
        found = empty(self.rows.data.y, self.rows.data.y.shape)
        routing = Routing(self.rows, method, stops, own, limit, tuple(self._ellipses))
        for index, route in routing.parts(np.arange(len(found))):
            block = self.rows.block(index, on_host=route.runs_on_host)
            if own is None:
                _, values = next(routing.residuals(block, route))
                found[index] = like(found, values[0])
            else:
                found[index] = like(found, routing.own_residuals(block, route))
        return found
