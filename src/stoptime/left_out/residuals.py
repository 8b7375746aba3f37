r"""Left-out residuals of tuned methods at any stops, and their mean squares.

A search looks at all stops of several methods at once: with the left-out residuals of the basis
filters of a :class:`Span`, a vector ρ for each row of the data, the mean square at every stop is

.. math:: \frac{\sum_iw_ie_i(t)^2}{\sum_iw_i} = c(t)^TMc(t), \qquad
    M = \frac{\sum_iw_i\rho_i\rho_i^T}{\sum_iw_i}.

M takes one pass over the rows. After that, another stop or another method costs r² operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.contours import (
    SPANNED,
    Ladder,
    Served,
    Span,
    contour_for,
    values_at,
)
from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.downdated import Downdated
from stoptime.left_out.ridges import (
    Ridges,
    by_operators,
    least_squares,
    least_squares_operators,
)
from stoptime.left_out.rows import RowBlock, Rows
from stoptime.left_out.scales import Mix, Scales
from stoptime.methods.base import Filter
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.recurrence import Iteration
from stoptime.methods.ridge import SumOfRidges
from stoptime.support.arrays import Array, Floats, empty, like, on_host, slices
from stoptime.support.progress import progress

KEPT_NUMBERS = 2**26  # of all columns that are kept, 512 MB; or as many as X has
TARGETS_AT_ONCE = 1024  # so that blocks of rows stay tall enough for fast products

Places = NDArray[np.intp]
Source = Ridges | Downdated


class Part(NamedTuple):
    """Columns of some rows and targets, (n_targets, n_rows, n_columns), and the c and π of rows."""

    rows: slice
    targets: slice
    columns: Array
    scale: Array
    weight: Array


class Route(NamedTuple):
    """A source of residuals, and how its columns are mixed."""

    source: Source
    mix: Mix


class LeftOut:
    """Left-out residuals of tuned methods on the same rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._looks: list[Look] = []
        self._known: dict[tuple[Filter, bytes], Floats] = {}  # residuals that were asked for
        self._refused: dict[Filter, float] = {}  # stops from which on no contour is small enough

    @cached_property
    def largest(self) -> float:
        """The largest eigenvalue, or one if there is none."""
        return float(self.rows.eigenvalues.max(initial=0)) or 1.0

    @property
    def pooled(self) -> LeftOut:
        """The same for at most rank + 1 targets, whose mean squares over targets are the same."""
        return self._of_few_targets or self

    @cached_property
    def _of_few_targets(self) -> LeftOut | None:
        # not the same object: a reference to itself would keep its large arrays in memory
        rows = self.rows.with_few_targets()
        return None if rows is self.rows else LeftOut(rows)

    @property
    def has_looked(self) -> bool:
        """Whether residuals at the stops of a search are known."""
        return bool(self._looks)

    def contour(self, method: Filter, stops: Array) -> Served | None:
        """Return what serves a method at these stops, or None if that would take too long."""
        last = float(stops.max())
        if last >= self._refused.get(method, np.inf):
            return None
        found = contour_for(method, stops, self.rows.scales, self.rows.eigenvalues)
        if found is None:
            self._refused[method] = last
        return found

    def look(
        self, span: Span, scales: Scales, last: dict[Filter, float], *, per_target: bool
    ) -> Look:
        """Return the errors of all filters in a span, from one pass over the rows.

        They are those of every target, or their mean. From the ``scales`` the filters can be
        interpolated for every row. ``last`` is the last stop of each method in the span.
        """
        rows = self.rows
        n_targets = rows.data.n_targets
        width = span.weights.shape[1] + 2
        shape = n_targets, rows.data.n_rows, width
        room = empty(rows.data.y, shape) if self._has_room(width) else None
        kept: list[Part] = []
        count = len(scales.all)
        products = empty(rows.data.y, (count, n_targets if per_target else 1, width, width))
        products[:] = 0
        ridges = Ridges(rows.eigenvalues, span.contour.penalties, span.weights)
        for part in self._parts(ridges, 0, room):
            if room is not None:
                kept.append(part)
            columns = part.columns
            portions = None if rows.has_one_scale else scales.portions(part.scale)
            for place in range(count):
                own = columns.swapaxes(1, 2)
                if portions is not None:
                    own = own * (like(columns, portions[:, place]) * part.weight)
                own = own @ columns
                if per_target:
                    products[place, part.targets] += own
                else:
                    squares = like(own, rows.unit[part.targets] ** 2 / n_targets)
                    products[place, 0] += (own * squares[:, None, None]).sum(axis=0)
        squares = rows.unit[:, None, None] ** 2 if per_target else 1.0
        if rows.has_one_scale:
            squares = squares * rows.weights[0]
        found = Look(span, scales, last, squares * on_host(products), kept)
        if kept:
            self._looks.append(found)
        return found

    def _has_room(self, width: int) -> bool:
        """Tell whether so many columns may be kept beside those of earlier looks."""
        data = self.rows.data
        width += sum(look.products.shape[-1] for look in self._looks)
        room = max(KEPT_NUMBERS, data.n_rows * data.n_features)
        return width * data.n_rows * data.n_targets <= room

    def _parts(self, source: Source, further: int, room: Any = None) -> Iterator[Part]:
        """Yield the columns of a source, with space for further numbers of every target.

        They are written into ``room``, if it is given.
        """
        n_targets = self.rows.data.n_targets
        for targets in slices(n_targets, TARGETS_AT_ONCE):
            several = n_targets > TARGETS_AT_ONCE
            rows = self.rows.of_targets(targets) if several else self.rows
            for index, block in blocks_of(rows, source, further):
                out = None if room is None else room[targets, index]
                columns = columns_of(source, block, rows.coef, out)
                yield Part(index, targets, columns, block.scale, block.weight)

    def _mixed(self, method: Filter, stops: Array) -> Iterator[tuple[Part, Array]]:
        """Yield parts of the data and coordinates, (n_rows or 1, n_columns, n_stops), for them."""
        stops = ended(method, self.rows.eigenvalues, stops)
        for look in self._looks:
            mix = look.mix(method, stops, self.rows.scales)
            if mix is not None:
                parts = iter(look.kept)
                break
        else:
            source, mix = self.route(method, stops)
            parts = self._parts(source, len(stops))
        for part in parts:
            yield part, mix.of_rows(part.scale)

    def _values(self, method: Filter, stops: Array) -> Iterator[tuple[Part, Array]]:
        """Yield parts of the data, and their e at all stops, (n_targets, n_rows, n_stops)."""
        for part, mixed in self._mixed(method, stops):
            own = like(part.columns, mixed)
            if len(own) == 1:
                yield part, part.columns @ own[0]
            else:
                yield part, (part.columns.swapaxes(0, 1) @ own).swapaxes(0, 1)

    def errors(self, method: Filter, stops: Array, *, standard_errors: bool) -> ErrorCurve:
        """Return the left-out error at many stops; see :func:`stoptime.leave_one_out`."""
        rows = self.rows
        sums = np.zeros((3, rows.data.n_targets, len(stops)))
        for part, values in self._values(method, stops):
            squares = values**2
            sums[0, part.targets] += on_host(part.weight @ squares)
            if standard_errors:
                sums[1, part.targets] += on_host(part.weight**2 @ squares)
                sums[2, part.targets] += on_host(part.weight**2 @ squares**2)
        mean, crossed, fourths = sums.swapaxes(1, 2)
        target: Any = 0 if rows.data.single_target else slice(None)
        deviation = None
        if standard_errors:
            # the root of n/(n - 1) Σ w²(e² - m)², multiplied out; rounding may leave a small
            # negative number where all squares are equal
            variance = fourths - 2 * mean * crossed + mean**2 * (rows.weights @ rows.weights)
            n = rows.n_present
            deviation = rows.unit**2 * np.sqrt(np.maximum(variance, 0) * n / (n - 1))
            deviation = deviation[:, target]
        return ErrorCurve(stops, (rows.unit**2 * mean)[:, target], deviation)

    def residuals(self, method: Filter, stop: Array) -> Floats:
        """Return left-out residuals at one stop, or at one for every target, in the shape of y."""
        data = self.rows.data
        key = method, np.asarray(stop, np.float64).tobytes()
        if key not in self._known:
            stops, own = np.atleast_1d(stop), np.zeros(data.n_targets, np.intp)
            if np.ndim(stop):
                stops, own = np.unique(stop, return_inverse=True)
            out = empty(data.y, data.y.shape)
            for part, mixed in self._mixed(method, stops):
                # each target has its own column of the coordinates
                mine = like(part.columns, mixed[:, :, own[part.targets]].transpose(2, 0, 1))
                if len(mixed) == 1:
                    found = (part.columns @ mine.swapaxes(1, 2))[..., 0]
                else:
                    found = (part.columns * mine).sum(axis=2)
                out[part.rows, part.targets] = found.T
            out = data.as_given(out * like(out, self.rows.unit))
            self._known[key] = out[:, 0] if data.single_target else out
        return self._known[key]

    def at_stops(self, method: Filter, stops: Array) -> Floats:
        """Return the left-out residuals at many stops, (n_stops, n, n_targets), on the host."""
        out = np.empty((len(stops), *self.rows.data.y.shape))
        for part, values in self._values(method, stops):
            out[:, part.rows, part.targets] = on_host(values).transpose(2, 1, 0)
        return out * self.rows.unit

    def route(self, method: Filter, stops: Array) -> Route:
        """Return the way to the residuals of a method; see :func:`route_to`."""
        rows = self.rows
        by_svd = rows.spectrum.solver == "svd"
        return route_to(method, stops, rows.eigenvalues, rows.scales, self, by_svd=by_svd)


@dataclass(frozen=True, eq=False)
class Look:
    """Mean squares of the left-out residuals of basis filters and of their mixtures.

    ``products`` are the M of every target, or their mean. A row has a filter for its own scale, so
    that its squares are interpolated between those at the ``scales``, and M has a part for each.
    ``kept`` are the residuals themselves, in the unit of each target, if there is room for them.
    """

    span: Span
    scales: Scales
    last: dict[Filter, float]
    products: Array
    kept: list[Part]

    def errors(self, coordinates: Array) -> Array:
        """Return mean squares, (n_stops, n_targets), from (n_scales, n_columns, n_stops)."""
        return self._squares(coordinates, np.arange(self.products.shape[1]))

    def errors_at(self, method: Filter, stops: Array) -> Array:
        """Return mean squares of a method whose filters are in the span."""
        return self.errors(self._located(method, stops, self.scales.all)[0])

    def errors_between(self, method: Filter, points: Array, columns: Places) -> Array:
        """Return mean squares at stops between the ends, (n_points, n_brackets).

        Every bracket has a column, that is, a target, or the mean of all.
        """
        # many targets have the same stops
        stops, places = np.unique(points, return_inverse=True)
        places = places.reshape(points.shape)
        coordinates, distance = self.span.locate(method, stops, self.scales.all)
        found = self._squares(coordinates, columns, places)
        # a filter outside of the span by more than a search can bear is not looked at
        return np.where((distance > 100 * SPANNED)[places], np.inf, found)

    def _squares(self, coordinates: Array, targets: Places, places: Places | None = None) -> Array:
        """Return mean squares of some targets, each at all stops or at its own ``places``."""
        parts = []
        for some in slices(len(targets), TARGETS_AT_ONCE):
            total: Any = 0
            for own, products in zip(coordinates, self.products, strict=True):
                width = len(own)  # without the columns of both ends, which come last
                mine = own if places is None else own[:, places[:, some]].transpose(2, 0, 1)
                images = products[targets[some], :width, :width] @ mine
                total = total + (mine * images).sum(axis=1)
            parts.append(total.T)
        # rounding of the sum may leave a small negative number where the fit is perfect
        return np.maximum(np.concatenate(parts, axis=1), 0)

    def mix(self, method: Filter, stops: Array, scales: Array) -> Mix | None:
        """Return how the columns are mixed for rows of all scales, if these filters are spanned."""
        # the nodes of the contour may miss how a filter falls at later stops
        if stops[between_ends(method, stops)].max(initial=0) > self.last.get(method, 0.0):
            return None
        farthest = 0.0

        def coordinates(scales: Array) -> Array:
            nonlocal farthest
            found, distance = self._located(method, stops, scales)
            farthest = max(farthest, distance.max(initial=0))
            return found

        mix = Mix.of(coordinates, scales)
        return mix if mix is not None and farthest <= SPANNED else None

    def _located(self, method: Filter, stops: Array, scales: Array) -> tuple[Array, Array]:
        """Return coordinates of a method in the columns, and its distance from the span."""
        inner = between_ends(method, stops)
        coordinates, distance = self.span.locate(method, stops[inner], scales)
        out = np.zeros(len(stops))
        out[inner] = distance
        return with_ends(coordinates, stops, inner), out


def blocks_of(rows: Rows, source: Source, further: int) -> Iterator[tuple[slice, RowBlock]]:
    """Yield the rows, block by block, with room for further numbers of every target."""
    targets = rows.data.n_targets
    numbers = source.numbers_per_row(targets) + further * targets + 4
    for index in progress(list(rows.blocks(numbers)), "leave-one-out"):
        yield index, rows.block(index)


def columns_of(source: Source, block: RowBlock, coef: Array, out: Any = None) -> Array:
    """Return e of the filters of a source and of both ends, (n_targets, n_rows, n_columns).

    They are written to ``out``, if it is given.
    """
    if not isinstance(source, Ridges) or source.prefers_operators(coef.shape[1]):
        found = by_operators(*operators_of(source, block), block, coef)
        if out is None:
            return found
        out[:] = found
        return out
    out = source.residuals(block, coef, out)
    out[..., -2] = block.targets.T * block.stretch
    out[..., -1] = least_squares(block, source.eigenvalues, coef).T * block.stretch
    return out


def operators_of(source: Source, block: RowBlock) -> tuple[Array, Array]:
    """Return α and C of the filters of a source and of both ends; see :meth:`Ridges.operators`."""
    alpha, slopes = source.operators(block)
    alpha[:, -2] = block.stretch
    slopes[:, -2] = block.scores * block.stretch[:, None]
    last, directions = least_squares_operators(block, source.eigenvalues)
    alpha[:, -1] = last * block.stretch
    if directions.shape[1]:
        slopes[:, -1] = directions * block.stretch[:, None]
    return alpha, slopes


def with_ends(coordinates: Array, stops: Array, inner: NDArray[np.bool_]) -> Array:
    """Return coordinates of all stops in the columns from those of stops between the ends."""
    *several, count, _ = coordinates.shape
    out = np.zeros((*several, count + 2, len(stops)))
    out[..., :-2, inner] = coordinates
    out[..., -2, :] = stops == 0
    out[..., -1, :] = ~inner & (stops > 0)
    return out


def between_ends(method: Filter, stops: Array) -> NDArray[np.bool_]:
    """Tell which stops lie between zero, where nothing is learned, and least squares."""
    return (stops > 0) & ~(np.isinf(stops) & method.reaches_least_squares)


def ended(method: Filter, eigenvalues: Array, stops: Array) -> Array:
    """Return the stops, with infinity for those at which the path is least squares to rounding."""
    if not method.reaches_least_squares or method.oscillates or not eigenvalues.size:
        return stops
    if isinstance(method, SpectralCutoff):  # whose stops are numbers of components
        return stops
    # from a gain·s of 1e20 on a path is least squares, also where a row is left out
    with np.errstate(over="ignore"):
        learned = (method.pace * stops) ** method.time_power >= 1e20 / eigenvalues[0]
    return np.where(learned, np.inf, stops)


def route_to(
    method: Filter,
    stops: Array,
    eigenvalues: Array,
    scales: Array,
    left_out: LeftOut | None = None,
    *,
    by_svd: bool = False,
) -> Route:
    """Return the way to left-out residuals of a method at all stops.

    A filter takes the first of these that can serve it: a few ridges of its own, the ladder, an
    ellipse, and the eigenvalues without each row. ``left_out`` remembers what was refused.
    """
    stops = ended(method, eigenvalues, stops)
    if not eigenvalues.size:
        stops = np.zeros(len(stops))  # nothing is learned at any stop
    inside = between_ends(method, stops)
    inner = stops[inside]
    if not inner.size:
        nothing = Ridges(eigenvalues, np.ones(1, np.complex128), np.empty((2, 0)))
        return Route(nothing, _alone(scales, with_ends(np.empty((0, 0)), stops, inside)))
    scale = float(scales.max())
    if isinstance(method, Iteration):
        method.check_convergence(float(eigenvalues[-1]) * scale)
    alone = _alone(scales, with_ends(np.eye(inner.size), stops, inside))
    if isinstance(method, SpectralCutoff):
        return Route(Downdated(eigenvalues, method, inner, by_svd), alone)
    if isinstance(method, SumOfRidges) and np.ptp(scales) == 0:
        penalties, weights = method.ridges(inner)
        if penalties.size <= Ladder.of(method, inner.max(), scale, float(eigenvalues[-1])).rungs:
            return Route(_own_ridges(eigenvalues, penalties / scale, weights), alone)
    if left_out is None:
        served = contour_for(method, inner, scales, eigenvalues)
    else:
        served = left_out.contour(method, inner)
    if served is None:
        return Route(Downdated(eigenvalues, method, inner, by_svd), alone)
    contour, few = served
    values = values_at(contour, method, inner, few.all)
    span = Span.of_scales(contour, values)
    source = Ridges(eigenvalues, contour.penalties, span.weights)
    return Route(source, Mix(few, with_ends(span.filters.T @ values, stops, inside)))


def _alone(scales: Array, coordinates: Array) -> Mix:
    """Return coordinates that are the same for rows of all scales."""
    return Mix(Scales(scales[:1], np.empty(0)), coordinates[None])


def _own_ridges(eigenvalues: Array, penalties: Any, weights: Any) -> Ridges:
    """Return the ridges of a method whose filter is a sum of a few of them at every stop."""
    count, n_stops = penalties.shape
    # each stop has weight on its own penalties alone
    place = np.arange(count * n_stops)
    stop = np.tile(np.arange(n_stops), count)
    table = np.zeros((2 * count * n_stops, n_stops))
    table[2 * place, stop] = np.real(weights).ravel()
    table[2 * place + 1, stop] = -np.imag(weights).ravel()
    return Ridges(eigenvalues, penalties.ravel(), table)
