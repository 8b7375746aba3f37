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
    ) -> tuple[SquareSums, bool]:
        """Return the sums over all rows, and whether they are exact; rough ones cost less."""
        accuracy = max(rows.accuracy, LOOK_ACCURACY) if rough else rows.accuracy
        curve = Interpolation.trivial(len(stops))
        if rows.data.n_targets >= MANY_TARGETS:
            # stops that can be interpolated are left out: with so many targets this saves time
            fourths = options["fourths"]
            curve = Interpolation.of_powers(method, stops, rows.reach, accuracy, fourths=fourths)
        sums = SquareSums(rows, curve, fourths=options["fourths"])
        routing = Routing(rows, method, stops[curve.nodes], None, limit, tuple(self._ellipses))
        parts = list(routing.parts(np.flatnonzero(rows.weights)))
        whole = rows.remembers and len(parts) == 1 and rows.n_present == len(rows.weights)
        for index, route in progress(parts, "leave-one-out", options["verbose"]):
            block = rows.block(index, on_host=route.runs_on_host)
            for places, residuals in routing.residuals(block, route):
                if whole and limit >= rows.reach:
                    kept = zip(places, 1 * residuals, strict=True)
                    self._known |= {(method, float(stops[place])): own for place, own in kept}
                sums.add(places, block.weight, residuals)
            if isinstance(route, ByMixture) and isinstance(route.mixture.contour, Ellipse):
                self._ellipses[route.mixture.contour] = None
        is_rough = curve.others.size > 0 and accuracy > rows.accuracy
        return sums, not is_rough

    def residuals(self, method: Method, stop: Array, limit: float = np.inf) -> Floats:
        """Return the residuals of all rows: all targets at one stop, or each at its own."""
        stops, own = np.unique(np.broadcast_to(stop, self.rows.data.n_targets), return_inverse=True)
        shared = len(stops) == 1 and self.rows.data.n_targets < MANY_TARGETS
        found = self._known.get((method, float(stops[0]))) if shared else None
        if found is None:
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
