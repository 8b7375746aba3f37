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
from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.interpolation import Interpolation
from stoptime.left_out.ladder import Ladder
from stoptime.left_out.mixture import Ellipse
from stoptime.left_out.routing import MANY_TARGETS, Routing
from stoptime.support.arrays import Array, Floats, empty, like, on_host
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.left_out.rows import Rows
    from stoptime.methods.base import Method

TARGETS_AT_ONCE = 4096  # so that blocks of rows stay tall enough for fast products
PRODUCT_WORK = 4.0  # real ridges per stop up to which their products cost less than residuals
LASTING_PRODUCT_WORK = 16.0  # and where products spare a second look at the rows
LEAST_BY_PRODUCTS = 1e-6  # of the response's power; smaller errors need residuals
LEAST_AT_FIRST_LOOK = 1e-4  # of the response's power; smaller errors need an exact mixture


class LeftOut:
    """Left-out residuals of tuned methods; all of them share the ridges that rows remember.

    In every method, eigenvalues beyond ``limit`` are taken as learned.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._products: dict[Ellipse | Ladder, Array | None] = {}  # None if not computed

    def errors(
        self,
        method: Method,
        stops: Array,
        limit: float = np.inf,
        *,
        standard_errors: bool,
        by_products: bool = False,
        first_look: bool = False,
        verbose: bool = False,
    ) -> ErrorCurve:
        """Return the left-out error at many stops; see :func:`stoptime.leave_one_out`.

        Where ``by_products`` allows it, errors are computed faster, to 1e-10 of the response's
        power. A ``first_look`` at smooth methods has an error of about 1e-4.
        """
        parts = []
        exact = True
        for rows in self.rows.target_blocks(TARGETS_AT_ONCE):
            curve = _curve_of(rows, method, stops, fourths=standard_errors)
            known = tuple(one for one in self._products if isinstance(one, Ellipse))
            routing = Routing(rows, method, stops[curve.nodes], None, limit, known, first_look)
            sums = _Sums(rows, curve, fourths=standard_errors)
            contour = self._added_by_products(routing, sums, verbose) if by_products else None
            exact = exact and not isinstance(contour, Ladder)
            if contour is None:
                sums = _Sums(rows, curve, fourths=standard_errors)
                # a route that is exact already may have been expensive to find, and is kept
                self._add_all(routing.exact(), sums, verbose)
            parts.append(sums)
        target: Any = 0 if self.rows.data.single_target else slice(None)
        errors = np.concatenate([part.means() for part in parts], axis=1)[:, target]
        deviation = None
        if standard_errors:
            deviation = np.concatenate([part.deviations() for part in parts], axis=1)[:, target]
        sure = exact | ~((stops > 0) & np.isfinite(stops))
        return ErrorCurve(stops, errors, deviation, sure)

    def residuals(
        self, method: Method, stop: Array, limit: float = np.inf, *, first_look: bool = False
    ) -> Floats:
        """Return the residuals of all rows: all targets at one stop, or each at its own."""
        stops, own = np.unique(np.broadcast_to(stop, self.rows.data.n_targets), return_inverse=True)
        found = empty(self.rows.data.y, self.rows.data.y.shape)
        shared = len(stops) == 1 and self.rows.data.n_targets < MANY_TARGETS
        known = tuple(one for one in self._products if isinstance(one, Ellipse))
        places = None if shared else own
        routing = Routing(self.rows, method, stops, places, limit, known, first_look and shared)
        for index, route in routing.parts(np.arange(len(found))):
            block = self.rows.block(index, on_host=route.runs_on_host)
            if shared:
                _, values = next(routing.residuals(block, route))
                found[index] = like(found, values[0])
            else:
                found[index] = like(found, routing.own_residuals(block, route))
        out = self.rows.data.as_given(found * like(found, self.rows.unit))
        return out[:, 0] if self.rows.data.single_target else out

    def _add_all(self, routing: Routing, sums: _Sums, verbose: bool) -> None:
        """Add the residuals of all rows at all stops."""
        parts = list(routing.parts(np.flatnonzero(routing.rows.weights)))
        for index, route in progress(parts, "leave-one-out", verbose):
            block = routing.rows.block(index, on_host=route.runs_on_host)
            for places, residuals in routing.residuals(block, route):
                sums.add(places, block.weight, residuals)
            if isinstance(route, ByMixture) and route.mixture.contour is not None:
                self._products.setdefault(route.mixture.contour, None)

    def _added_by_products(
        self, routing: Routing, sums: _Sums, verbose: bool
    ) -> Ellipse | Ladder | None:
        r"""Add squared residuals at all stops by products of ridges; return their contour.

        With a row's left-out residuals of the ridges :math:`\rho_i` and the weights ω of a stop,
        the sum of squares is :math:`\omega^T(\sum_i\rho_i\rho_i^T)\,\omega`. The matrix is computed
        once, and serves all further stops and methods. The result is None where it would cost more
        than residuals, or not be accurate; the sums are then useless.
        """
        route = routing.shared_route
        contour = None if route is None else route.mixture.contour
        if route is None or contour is None:
            return None
        weights = route.real_weights[0]
        products = self._products.get(contour)
        few = PRODUCT_WORK if routing.rows.remembers else LASTING_PRODUCT_WORK
        if products is None and weights.shape[0] > few * weights.shape[1]:
            return None
        if products is None or routing.ends:
            total: Any = 0
            parts = list(routing.parts(np.arange(len(self.rows.weights))))
            for index, _ in progress(parts, "leave-one-out", verbose):
                block = self.rows.block(index, on_host=False)
                for places, residuals in routing.end_residuals(block):
                    sums.add(places, block.weight, residuals)
                if products is None:
                    total = total + route.products(block, self.rows.coef)
            products = on_host(total) if products is None else products
            self._products[contour] = products
        squares = np.einsum("kt,qkt->tq", weights, products @ weights)
        # a difference of large numbers, of which little is left where the fit is perfect
        least = LEAST_AT_FIRST_LOOK if isinstance(contour, Ladder) else LEAST_BY_PRODUCTS
        if squares.min() < least:
            return None
        sums.squares[routing.between] += squares
        return contour


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
        self.squares = np.zeros(shape)
        self._weighted_squares, self._fourths = np.zeros((2, *(shape if fourths else (0, 0))))

    def add(self, places: NDArray[np.intp], weight: Array, residuals: Array) -> None:
        """Add residuals of shape (n_places, n_rows, n_targets); they are overwritten."""
        residuals *= residuals
        self.squares[places] += on_host(weight @ residuals)
        if self._fourths.size:
            self._weighted_squares[places] += on_host(weight**2 @ residuals)
            residuals *= residuals
            self._fourths[places] += on_host(weight**2 @ residuals)

    def means(self) -> Array:
        """Return the mean squares m, of shape (n_stops, n_targets)."""
        return np.asarray(self._rows.unit**2 * self._curve.extended(self.squares))

    def deviations(self) -> Array:
        """Return their standard errors, the root of n/(n - 1) Σ w²(e² - m)²."""
        n = self._rows.n_present
        extended = self._curve.extended
        mean = extended(self.squares)
        variance = extended(self._fourths) - 2 * mean * extended(self._weighted_squares)
        variance += mean**2 * (self._rows.weights @ self._rows.weights)
        # rounding may leave a small negative number where all squares are equal
        return np.asarray(self._rows.unit**2 * np.sqrt(np.maximum(variance, 0) * n / (n - 1)))
