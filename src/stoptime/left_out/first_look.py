r"""A first look at left-out errors: rough, and cheap for any number of methods and stops.

A filter is a mixture of ridges, and so are its left-out residuals. Methods that do not oscillate
share the real penalties of a :class:`Ladder`, others the complex ones of an :class:`Ellipse`. With
a row's left-out residuals of these ridges :math:`\rho_i` and the weights ω of a method at a stop,
the sum of squares is

.. math:: \omega^T\Bigl(\sum_i\rho_i\rho_i^T\Bigr)\omega.

The matrix is computed once, in one pass over the rows. It serves all methods and all stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.by_mixture import ByMixture
from stoptime.left_out.curve import LEAST_ROUGH, ErrorCurve, SquareSums
from stoptime.left_out.interpolation import Interpolation
from stoptime.left_out.ladder import Ladder
from stoptime.left_out.mixture import ROUGH, Ellipse
from stoptime.left_out.routing import MANY_TARGETS, cheapest_route, least_squares
from stoptime.support.arrays import Array, on_host
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.left_out.rows import Index, RowBlock, Rows
    from stoptime.methods.base import Method

PRODUCT_WORK = 4.0  # real ridges per stop up to which their products cost less than residuals
LASTING_PRODUCT_WORK = 16.0  # and where products spare a second look at the rows
ONE_SCALE = 1.01  # ratio of the scales of rows up to which a first look takes them as equal


class _Look(NamedTuple):
    """A method at its stops, those between zero and infinity, and the route to their errors."""

    method: Method
    stops: Array
    inner: NDArray[np.bool_]
    route: ByMixture


class FirstLook:
    """Rough left-out errors of tuned methods, on rows whose weights are alike."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._products: dict[Ellipse | Ladder, Array] = {}
        self._seen: dict[Method, list[tuple[Array, ByMixture]]] = {}
        self._ellipses: dict[Ellipse, None] = {}  # in the order in which they were first used
        self._ends: Array | None = None

    def errors(
        self,
        looks: Sequence[tuple[Method, Array]],
        limit: float = np.inf,
        *,
        verbose: bool = False,
    ) -> list[ErrorCurve] | None:
        """Return errors of methods at stops of their own, or None if only exact ones would do.

        Errors at zero and infinity are exact. Eigenvalues beyond ``limit`` are taken as learned.
        """
        found = []
        shared: dict[Any, list[_Look]] = {}
        for method, stops in looks:
            inner = (stops > 0) & np.isfinite(stops)
            route = self.route(method, stops[inner], limit) if inner.any() and self._few else None
            if route is None or (not method.reaches_least_squares and np.isinf(stops[-1])):
                return None
            found.append(_Look(method, stops, inner, route))
            shared.setdefault(route.mixture.contour, []).append(found[-1])
        errors: dict[int, Array] = {}
        for several in shared.values():
            weights = np.hstack([look.route.real_weights[0] for look in several])
            squares = self._squares(several[0].route, weights, verbose)
            # a difference of large numbers, of which little is left where the fit is perfect
            if squares.min() < LEAST_ROUGH:
                return None
            lengths = [np.count_nonzero(look.inner) for look in several]
            parts = np.split(squares, np.cumsum(lengths)[:-1])
            errors |= {id(look): own for look, own in zip(several, parts, strict=True)}
        if self.rows.remembers:
            for look in found:
                self._seen.setdefault(look.method, []).append((look.stops[look.inner], look.route))
        return [self._with_ends(look, errors[id(look)]) for look in found]

    def _with_ends(self, look: _Look, squares: Array) -> ErrorCurve:
        """Return the curve of one method; at infinity it is least squares, as for any other."""
        ends = cast("Array", self._ends)
        every = ends[np.isinf(look.stops).astype(np.intp)]
        every[look.inner] = squares
        return self._curve(look.stops, self.rows.unit**2 * every, exact=~look.inner)

    def known(self, method: Method, stop: float) -> Array | None:
        """Return rough residuals, (n, n_targets), at a stop that was looked at."""
        for stops, route in self._seen.get(method, []):
            place = np.flatnonzero(stops == stop)
            if place.size:
                out = np.empty(self.rows.data.y.shape)
                for index, block in self._blocks(route):
                    out[index] = on_host(route.residuals_at(block, self.rows.coef, place)[0])
                return out * self.rows.unit
        return None

    def with_spread(self, method: Method, stops: Array) -> ErrorCurve | None:
        """Return errors and their standard errors at those of the stops that were looked at."""
        found = None
        for seen, route in self._seen.get(method, []):
            places = np.flatnonzero(np.isin(seen, stops))
            if places.size:
                sums = SquareSums(self.rows, Interpolation.trivial(len(places)), fourths=True)
                for _, block in self._blocks(route):
                    residuals = route.residuals_at(block, self.rows.coef, places)
                    sums.add(np.arange(len(places)), block.weight, residuals)
                part = self._curve(seen[places], sums.means(), sums.deviations())
                found = part if found is None else found.joined(part)
        return found

    @cached_property
    def _is_possible(self) -> bool:
        alike = self.rows.scales.max() <= ONE_SCALE * self.rows.scales.min()
        return bool(alike and len(self.rows.eigenvalues))

    @property
    def _few(self) -> bool:
        return self.rows.data.n_targets < MANY_TARGETS

    @cached_property
    def scale(self) -> float:
        """The c of all rows, which are alike."""
        if self.rows.has_one_scale:
            return float(self.rows.scales[0])
        return float(np.average(self.rows.scales, weights=self.rows.weights))

    @cached_property
    def _ladder(self) -> Ladder:
        return Ladder.over(self.rows.eigenvalues, self.scale)

    def route(
        self, method: Method, stops: Array, limit: float = np.inf, n_rows: float = np.inf
    ) -> ByMixture | None:
        """Return the mixture of ridges that are shared with other methods, if it is cheapest."""
        if not self._is_possible:
            return None
        s = self.rows.eigenvalues
        scales = np.array([self.scale])
        if method.is_smooth:
            mixture = self._ladder.mixture(method, stops, self.scale)
            return None if mixture is None else ByMixture(mixture, scales, s)
        known = tuple(self._ellipses)
        route = cheapest_route(
            method, stops, s, scales, limit, known, n_rows=n_rows, precision=ROUGH
        )
        if not (isinstance(route, ByMixture) and isinstance(route.mixture.contour, Ellipse)):
            return None
        self._ellipses[route.mixture.contour] = None
        return route

    def _squares(self, route: ByMixture, weights: Array, verbose: bool) -> Array:
        """Return the sums of squares for weights of the ridges of a route, (n_stops, n_targets)."""
        contour: Any = route.mixture.contour
        n_ridges, n_stops = weights.shape
        coef = self.rows.coef
        if contour not in self._products:
            few = PRODUCT_WORK if self.rows.remembers else LASTING_PRODUCT_WORK
            if n_ridges > few * n_stops:
                return self._pass(route, lambda block: route.squares(block, coef, weights), verbose)
            total = self._pass(route, lambda block: route.products(block, coef), verbose)
            self._products[contour] = total
        return np.einsum("kt,qkt->tq", weights, self._products[contour] @ weights)

    def _end_squares(self, block: RowBlock) -> Array:
        last = least_squares(block, self.rows.eigenvalues, self.rows.coef, block.residual)
        ends = [(end * block.stretch[:, None]) ** 2 for end in (block.targets, last)]
        return np.array([on_host(block.weight @ end) for end in ends])

    def _blocks(
        self, route: ByMixture, *, verbose: bool = False
    ) -> Iterator[tuple[Index, RowBlock]]:
        """Yield the rows, block by block."""
        numbers = route.numbers_per_row(operators=False)
        height = self.rows.data.numbers_at_once // (numbers + 2 * self.rows.data.n_targets)
        parts = list(self.rows.partition(np.arange(len(self.rows.weights)), height))
        for index in progress(parts, "leave-one-out", verbose):
            yield index, self.rows.block(index, on_host=False)

    def _pass(self, route: ByMixture, part: Callable[[RowBlock], Array], verbose: bool) -> Array:
        """Return the sum over blocks of rows; the first pass finds the errors at both ends too."""
        total: Any = 0
        ends: Any = 0
        for _, block in self._blocks(route, verbose=verbose):
            total = total + part(block)
            if self._ends is None:
                ends = ends + self._end_squares(block)
        if self._ends is None:
            self._ends = ends
        return np.asarray(on_host(total))

    def _curve(
        self, stops: Array, errors: Array, spread: Array | None = None, *, exact: Any = False
    ) -> ErrorCurve:
        """Return the curve of errors (n_stops, n_targets), without targets if y is a vector."""
        target: Any = 0 if self.rows.data.single_target else slice(None)
        deviation = None if spread is None else spread[:, target]
        return ErrorCurve(stops, errors[:, target], deviation, exact)
