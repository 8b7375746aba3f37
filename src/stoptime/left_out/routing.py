r"""The choice of a route to the left-out residuals, for each block of rows.

Two routes are exact: a mixture of ridges, and the eigenvalues that remain without the row. For a
block of rows a route gives the residuals of a few targets, or the operator

.. math:: e_i(t)/d_i = \alpha_i(t) r_i + \sum_j C_{ij}(t)\hat\beta_j

that all targets share, with r the least-squares residual and β̂ the least-squares coefficients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out import mixture
from stoptime.left_out.by_mixture import ByMixture
from stoptime.left_out.rows import Index, RowBlock, Rows
from stoptime.left_out.secular import WORK_PER_GAIN, BySecular
from stoptime.methods.base import Method
from stoptime.support.arrays import Array, like

MANY_TARGETS = 16  # from here on the operator of a row is formed once for all targets
HEAVY = 0.05  # share of the weights from which on a row takes the secular equation by itself
SCALE_NODES = 12  # of the interpolation between rows of unequal weights, where the path oscillates
SMOOTH_RIDGES = 100.0  # penalties, about, for a path that does not oscillate
RIDGES_PER_RADIAN = 0.7  # further penalties for every radian of the phase t√L
LEARNED = 1e200  # ts from which on a path cannot be told from least squares
WORK_PER_STEP = 10.0  # of a recurrence, for each eigenvalue that remains

Route = ByMixture | BySecular
Places = NDArray[np.intp]


@dataclass(frozen=True)
class Routing:
    """Left-out residuals of blocks of rows, for a tuned method at any stops, 0 and inf included.

    ``own`` holds the index of each target's stop; by default all targets use all stops. Eigenvalues
    beyond ``limit`` are taken as learned. ``known`` are ellipses whose ridges may be remembered.
    """

    rows: Rows
    method: Method
    stops: Array
    own: Places | None = None
    limit: float = np.inf
    known: Sequence[mixture.Ellipse] = ()

    def parts(self, members: Places) -> Iterator[tuple[Index, Route]]:
        """Divide the rows into blocks; each block has one route."""
        light = members
        alone = members[:0]
        scales = self.rows.scales[:1]
        if not self.rows.has_one_scale:
            # a few heavy rows would stretch the range of scales that the mixture interpolates
            heavy = (self.rows.weights[members] > HEAVY) & (np.ptp(self.rows.scales[members]) > 0)
            light = members[~heavy]
            alone = members[heavy]
            scales = self.rows.scales[light]
        s = self.rows.eigenvalues
        cheap = cheapest_route(self.method, self._inner, s, scales, self.limit, self.known)
        exact = BySecular(self.method, self._inner, s)
        for group, route in ((light, cheap), (alone, exact)):
            by_operators = self._forms_operators(route)
            numbers = route.numbers_per_row(operators=by_operators)
            few = 0 if by_operators else len(self.stops)
            numbers += max(few, 2) * self.rows.data.n_targets
            height = self.rows.data.numbers_at_once // numbers
            for index in self.rows.partition(group, height):
                yield index, route

    def residuals(self, block: RowBlock, route: Route) -> Iterator[tuple[Places, Array]]:
        """Yield indices of stops and e there, of shape (n_places or 1, n_rows, n_targets)."""
        stretch = block.stretch[:, None]
        start = np.flatnonzero(self.stops == 0)  # where only the mean is fitted
        if start.size:
            yield start, (block.targets * stretch)[None]
        if self._end.size:
            end = least_squares(block, self.rows.eigenvalues, self.rows.coef, block.residual)
            yield self._end, (end * stretch)[None]
        if self.between.size and not self._forms_operators(route):
            yield self.between, route.residuals(block, self.rows.coef) * stretch
        elif self.between.size:
            # for many targets these products take most of the time: results in single precision do
            # not deserve ones in double precision
            many = self._has_many_targets and self.rows.data.precision == np.float32
            single = many or block.is_light
            at = route.by_target(block, self.rows.coef, single=single)
            for place in range(len(self.between)):
                yield self.between[place : place + 1], at(place, slice(None))[None]

    def own_residuals(self, block: RowBlock, route: Route) -> Array:
        """Return e of every target at its own stop, of shape (n_rows, n_targets)."""
        # nothing is learned at the start; other stops overwrite it
        out = block.targets * block.stretch[:, None]
        coef = like(block.targets, self.rows.coef)
        own = np.asarray(self.own)
        mine = np.flatnonzero(np.isin(own, self._end))
        residual = block.residual[:, mine]
        end = least_squares(block, self.rows.eigenvalues, coef[:, mine], residual)
        out[:, mine] = end * block.stretch[:, None]
        if self.between.size:
            at = route.by_target(block, coef, single=False)
            for place, stop in enumerate(self.between):
                mine = np.flatnonzero(own == stop)
                out[:, mine] = at(place, mine)
        return out

    @property
    def _has_many_targets(self) -> bool:
        return self.rows.data.n_targets >= MANY_TARGETS

    def _forms_operators(self, route: Route) -> bool:
        if self.own is not None or self._has_many_targets:
            return True
        # ridges that are remembered serve other stops too
        return not self.rows.remembers and route.prefers_operators(self.rows.data.n_targets)

    @cached_property
    def _end(self) -> Places:
        """Indices of the stops that are infinite up to rounding, where the fit is least squares."""
        return np.flatnonzero(learned(self.method, self.rows.eigenvalues, self.stops))

    @cached_property
    def between(self) -> Places:
        """Indices of the stops that need a route."""
        end = learned(self.method, self.rows.eigenvalues, self.stops)
        return np.flatnonzero((self.stops > 0) & ~end)

    @cached_property
    def _inner(self) -> Array:
        return self.stops[self.between]


def least_squares(block: RowBlock, eigenvalues: Array, coef: Array, residual: Array) -> Array:
    r"""Return e/d at t = ∞, least squares of minimum norm: ridge as its penalty vanishes.

    .. math:: \frac{r_i}{1 - h_i}, \quad\text{or}\quad
        \frac{\sum_j a_{ij}\hat\beta_j/s_j}{\sum_j u_{ij}^2/s_j} \text{ where the leverage is one}
    """
    alone = ~block.certain
    # the sum with ``alone`` puts a one where the leverage is one, so that nothing divides by zero
    out = residual / (block.rest * block.certain + alone)[:, None]
    if alone.any():
        # in units of the smallest eigenvalue, so that reciprocals do not overflow
        spread = like(residual, eigenvalues[0] / eigenvalues)
        change = (block.scores[alone] * spread) @ like(residual, coef)
        out[alone] = change / (block.shares[alone] @ spread)[:, None]
    return out


def cheapest_route(
    method: Method,
    stops: Array,
    eigenvalues: Array,
    scales: Array,
    limit: float = np.inf,
    known: Sequence[mixture.Ellipse] = (),
    *,
    n_rows: float = np.inf,
    precision: mixture.Precision = mixture.EXACT,
) -> Route:
    """Return the mixture of ridges, or secular equations where oscillations make it expensive.

    ``scales`` are the factors of the eigenvalues when the remaining weights are normalised; for
    ``limit`` and ``known``, see :class:`Routing`. ``n_rows`` share the cost of building a mixture,
    which counts only if they are few. The ``precision`` is that of oscillating methods.
    """
    exact = BySecular(method, stops, eigenvalues)
    if not (stops.size and scales.size and eigenvalues.size):
        return exact
    method.check_convergence(float(eigenvalues[-1] * scales.max()))
    largest = min(float(eigenvalues[-1]), limit)
    radians = 0.0
    if method.oscillates:
        with np.errstate(over="ignore", under="ignore"):
            time = method.pace * stops.max()
            radians = float(np.sqrt(time**method.order * largest * scales.max()))
    # the number of penalties is estimated first: finding them may itself cost more than the rows
    expected = SMOOTH_RIDGES + RIDGES_PER_RADIAN * radians
    if expected > mixture.MAX_DEGREE:
        return exact
    nodes = _scale_nodes(method, scales, radians)
    work = exact.work
    if method.runs_steps:
        work += WORK_PER_STEP * float(stops.max()) * len(eigenvalues)
    building = WORK_PER_GAIN * len(stops) * len(nodes) / n_rows
    if expected * (8 * len(eigenvalues) + 4 * len(stops) * len(nodes) + building) > work:
        return exact
    found = mixture.ridge_mixture(method, stops, largest, nodes, known, precision)
    return exact if found is None else ByMixture(found, nodes, eigenvalues)


def _scale_nodes(method: Method, scales: Array, radians: float) -> Array:
    """Return the scales themselves where they are few, else Chebyshev nodes of their range."""
    if len(scales) == 1:
        return scales
    distinct = np.unique(scales)
    if len(distinct) == 1:
        return distinct
    middle = (distinct[-1] + distinct[0]) / 2
    radius = (distinct[-1] - distinct[0]) / 2
    if radians == 0:
        # g is analytic in the scale down to zero: every node gains log(2·middle/radius) digits
        count = 2 + int(np.ceil(mixture.ALIASING / np.log(2 * middle / radius)))
    else:
        share = radius / middle
        # near the limit of convergence the phase changes like the square root of the distance to it
        share = np.sqrt(2 * share) if method.oscillates_at_limit else share
        count = SCALE_NODES + int(radians * share)
    if len(distinct) <= count:
        return distinct
    nodes = middle - radius * np.cos(np.pi * (np.arange(count) + 0.5) / count)
    # in a range of a few rounding errors some nodes coincide
    return np.unique(nodes)


def learned(method: Method, eigenvalues: Array, stops: Array) -> NDArray[np.bool_]:
    """Tell at which stops the path is least squares to rounding, without any row."""
    if not method.reaches_least_squares and eigenvalues.size:
        return np.zeros(stops.shape, np.bool_)
    # the removal of a row can make the smallest eigenvalue far smaller still; a method of second
    # order would reach its end only at stops whose squares overflow
    if method.order > 1 or not eigenvalues.size:
        return np.isinf(stops)
    with np.errstate(over="ignore"):
        return np.asarray(stops >= LEARNED / eigenvalues[0] / method.pace)
