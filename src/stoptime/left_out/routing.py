"""Which rows take which route to their left-out residuals, and in what blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.mixture import ALIASING, MAX_DEGREE, ridge_mixture
from stoptime.left_out.routes import ByMixture, BySecular, Route, least_squares
from stoptime.left_out.rows import Index, RowBlock, Rows
from stoptime.left_out.skeleton import Skeleton, skeleton
from stoptime.methods.base import Method
from stoptime.support.arrays import Array, Floats, empty, like

MANY_TARGETS = 16  # from here on the operator of a row is formed once for all targets
HEAVY = 0.05  # share of the weights from which on a row takes the exact route by itself
SCALE_NODES = 12  # of the interpolation between rows of unequal weights, where the path oscillates
SMOOTH_RIDGES = 100.0  # about as many penalties make a path that does not oscillate
RIDGES_PER_RADIAN = 0.7  # and so many are added for t√L
LEARNED = (
    1e200  # times 1/s: a time whose reciprocal, relative to any eigenvalue, may be taken for zero
)
WORK_PER_STEP = 10.0  # of a recurrence, for each eigenvalue that remains


@dataclass(frozen=True)
class Routing:
    """How blocks of rows become left-out residuals.

    Attributes
    ----------
    rows : Rows
        The data.
    method : Method
        Already tuned.
    stops : array of shape (n_stops,)
        Zero and infinity included.
    own : array of shape (n_targets,), optional
        Which of the stops is that of each target; by default every target is wanted at every stop.
    """

    rows: Rows
    method: Method
    stops: Array
    own: NDArray[np.intp] | None = None

    def parts(self, members: NDArray[np.intp]) -> Iterator[tuple[Index, Route]]:
        """Cut the rows into blocks of one route each."""
        scales = self.rows.scales[members]
        alone = (self.rows.weights[members] > HEAVY) & (np.ptp(scales) > 0)
        cheap = cheapest_route(self.method, self._inner, self.rows.eigenvalues, scales[~alone])
        exact = BySecular(self.method, self._inner, self.rows.eigenvalues)
        for group, route in ((members[~alone], cheap), (members[alone], exact)):
            height = self._height(route)
            for start in range(0, len(group), height):
                yield _as_slice(group[start : start + height]), route

    def residuals(self, block: RowBlock, route: Route) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Yield places of stops and e there, of shape (n_places or 1, n_rows, n_targets)."""
        stretch = block.stretch[:, None]
        if self._nothing.size:
            yield self._nothing, (block.targets * stretch)[None]
        if self._everything.size:
            end = least_squares(block, self.rows.eigenvalues, self.rows.coef, block.late)
            yield self._everything, (end * stretch)[None]
        if self._between.size:
            known, values = self._skeleton, self._at_bones(block, route)
            if known.others.size:
                flat = like(values, known.matrix) @ values.reshape(len(values), -1)
                yield self._between[known.others], flat.reshape(-1, *values.shape[1:])
            yield self._between[known.bones], values

    def _at_bones(self, block: RowBlock, route: Route) -> Array:
        stretch = block.stretch[:, None]
        if not self._forms_operators:
            return route.residuals(block, self.rows.coef) * stretch
        late, slopes = route.operators(block)
        slopes *= stretch
        flat = self._product(slopes.reshape(len(late) * late.shape[1], slopes.shape[2]))
        values = flat.reshape(*late.shape, self._n_targets)
        values += late[..., None] * (stretch * block.late)
        return values

    def _product(self, slopes: Array) -> Array:
        """Multiply operators with the coefficients, in single precision where the data are."""
        if isinstance(slopes, np.ndarray) and self.rows.data.eps > np.finfo(np.float64).eps:
            return slopes.astype(np.float32) @ self._narrow_coef
        return slopes @ like(slopes, self.rows.coef)

    @cached_property
    def _narrow_coef(self) -> Floats:
        return self.rows.coef.astype(np.float32)

    def own_residuals(self, block: RowBlock, route: Route) -> Array:
        """Return e of every target at its own stop, of shape (n_rows, n_targets)."""
        out, coef = empty(block.targets, block.targets.shape), like(block.targets, self.rows.coef)
        for place in self._nothing:
            mine = np.flatnonzero(self.own == place)
            out[:, mine] = block.targets[:, mine]
        for place in self._everything:
            mine = np.flatnonzero(self.own == place)
            out[:, mine] = least_squares(
                block, self.rows.eigenvalues, coef[:, mine], block.late[:, mine]
            )
        if self._between.size:
            for place, late, slopes in zip(self._between, *route.operators(block), strict=True):
                mine = np.flatnonzero(self.own == place)
                out[:, mine] = slopes @ coef[:, mine] + late[:, None] * block.late[:, mine]
        return out * block.stretch[:, None]

    @property
    def _n_targets(self) -> int:
        return int(self.rows.data.y.shape[1])

    @property
    def _forms_operators(self) -> bool:
        return self.own is not None or self._n_targets >= MANY_TARGETS

    @cached_property
    def _nothing(self) -> NDArray[np.intp]:
        """Places of the stop zero, where only the mean is learned."""
        return np.flatnonzero(self.stops == 0)

    @cached_property
    def _everything(self) -> NDArray[np.intp]:
        """Places of the stop infinity, which is least squares, and of stops that cannot be told from it."""
        return np.flatnonzero(self.stops >= self._last)

    @cached_property
    def _last(self) -> float:
        return last_stop(self.method, self.rows.eigenvalues)

    @cached_property
    def _between(self) -> NDArray[np.intp]:
        """Places of the stops that need a route."""
        return np.flatnonzero((self.stops > 0) & (self.stops < self._last))

    @cached_property
    def _skeleton(self) -> Skeleton:
        """Which of these stops a route computes, and how the others follow from them."""
        stops = self.stops[self._between]
        if self._n_targets < MANY_TARGETS or self.own is not None or stops.size == 0:
            return Skeleton.whole(len(stops))
        return skeleton(self.method, stops, self.rows.reach, self.rows.accuracy)

    @cached_property
    def _inner(self) -> Array:
        return self.stops[self._between[self._skeleton.bones]]

    def _height(self, route: Route) -> int:
        numbers = route.width + len(self.stops) * self._n_targets
        if self._forms_operators:
            numbers += route.depth * len(self._inner)
        return max(1, self.rows.data.numbers_at_once // numbers)


def cheapest_route(method: Method, stops: Array, eigenvalues: Array, scales: Array) -> Route:
    """Take the mixture of ridges, unless the path oscillates so often that exact eigenvalues cost less.

    Parameters
    ----------
    method : Method
        Already tuned.
    stops : array of shape (n_stops,)
        Positive and finite.
    eigenvalues : array of shape (rank,)
        Those of the data, ascending.
    scales : array of shape (n_rows,)
        By what each row, left out, scales the others' eigenvalues.
    """
    exact = BySecular(method, stops, eigenvalues)
    if not (stops.size and scales.size and eigenvalues.size):
        return exact
    largest, radians = float(eigenvalues[-1]), 0.0
    method.check_convergence(largest * float(scales.max()))
    if method.oscillates:
        with np.errstate(over="ignore", under="ignore"):
            radians = float(
                np.sqrt((method.pace * stops.max()) ** method.order * largest * scales.max())
            )
    expected = SMOOTH_RIDGES + RIDGES_PER_RADIAN * radians
    if expected > MAX_DEGREE:
        return exact
    nodes = _scale_nodes(method, scales, radians)
    work = exact.work
    if method.runs_steps:
        work += WORK_PER_STEP * float(stops.max()) * len(eigenvalues)
    if expected * (8 * len(eigenvalues) + 4 * len(stops) * len(nodes)) > work:
        return exact
    mixture = ridge_mixture(method, stops, largest, nodes)
    return exact if mixture is None else ByMixture(mixture, nodes, eigenvalues)


def _scale_nodes(method: Method, scales: Array, radians: float) -> Array:
    """Return the scales themselves where they are few, else Chebyshev nodes of their range."""
    distinct = np.unique(scales)
    if len(distinct) == 1:
        return distinct
    middle, radius = (distinct[-1] + distinct[0]) / 2, (distinct[-1] - distinct[0]) / 2
    if radians == 0:  # then g is analytic in the scale up to zero: every node gains these digits
        count = 2 + int(np.ceil(ALIASING / np.log(2 * middle / radius)))
    else:
        share = radius / middle
        # these oscillate up to the end of their reach, there with the square root of what is missing
        share = np.sqrt(2 * share) if method.oscillates_at_limit else share
        count = SCALE_NODES + int(radians * share)
    if len(distinct) <= count:
        return distinct
    nodes = middle - radius * np.cos(np.pi * (np.arange(count) + 0.5) / count)
    return np.unique(nodes)  # in a range of a few roundings some coincide


def _as_slice(index: NDArray[np.intp]) -> Index:
    """Return a slice where the rows are consecutive: it is read without a copy."""
    if index[-1] - index[0] == len(index) - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def last_stop(method: Method, eigenvalues: Array) -> float:
    """Return a stop at which even what the deletion of a row has slowed down is learned to the last digit."""
    if method.order > 1 or not eigenvalues.size:
        return np.inf
    with np.errstate(over="ignore"):
        return float(LEARNED / eigenvalues[0] / method.pace)
