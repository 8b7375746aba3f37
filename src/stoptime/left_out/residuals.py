r"""Left-out residuals of tuned methods at any stops, and their mean squares.

A search looks at all stops of several methods at once: with the left-out residuals of the basis
filters of a :class:`Span`, a vector ρ for each row of the data, the mean square at every stop is

.. math:: \frac{\sum_iw_ie_i(t)^2}{\sum_iw_i} = c(t)^TMc(t), \qquad
    M = \frac{\sum_iw_i\rho_i\rho_i^T}{\sum_iw_i}.

M takes one pass over the rows. After that, another stop or another method costs r² operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.downdated import Downdated
from stoptime.left_out.ridges import Mixture, least_squares
from stoptime.left_out.span import Span, ellipse_for, is_served, ladder_for, scale_nodes, values_at
from stoptime.methods.base import Filter
from stoptime.methods.butterworth import Butterworth
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.recurrence import Iteration
from stoptime.methods.ridge import Ridge
from stoptime.support.arrays import Array, Floats, empty, like, on_host, slices
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.left_out.ellipse import Ellipse
    from stoptime.left_out.ladder import Ladder
    from stoptime.left_out.rows import RowBlock, Rows
    from stoptime.methods.base import Method

LEARNED = 1e20  # gain·s from which on a path is least squares, also where a row is left out
EIGENDECOMPOSITION = 3.0  # work of one, in units of that of rank² penalties
MOST_PENALTIES = 2**16  # of an ellipse
SPANNED = 1e-9  # error of a filter up to which it is in a span
NEARLY_SPANNED = 1e-7  # and up to which it is good enough for a search
KEPT_NUMBERS = 2**26  # of all columns that are kept, 512 MB; or as many as X has
TARGETS_AT_ONCE = 1024  # so that blocks of rows stay tall enough for fast products

Route = Mixture | Downdated
Places = NDArray[np.intp]


class LeftOut:
    """Left-out residuals of tuned methods on the same rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._looks: list[Look] = []
        self._known: dict[tuple[Method, bytes], Floats] = {}  # residuals that were asked for

    @cached_property
    def largest(self) -> float:
        """The largest eigenvalue, or one if there is none."""
        return float(self.rows.eigenvalues.max(initial=0)) or 1.0

    @cached_property
    def most_penalties(self) -> float:
        """The largest ellipse that costs less than eigendecompositions without each row."""
        return min(EIGENDECOMPOSITION * len(self.rows.eigenvalues) ** 2, MOST_PENALTIES)

    @property
    def has_looked(self) -> bool:
        """Whether residuals at the stops of a search are known."""
        return bool(self._looks)

    def look(self, span: Span, last: dict[Filter, float], *, verbose: bool = False) -> Look:
        """Return the errors of all filters in a span, from one pass over the rows.

        ``last`` is the last stop of each method for which the span was made.
        """
        rows = self.rows
        width = span.weights.shape[1]
        numbers = width * rows.data.n_rows * rows.data.n_targets
        kept: list[Kept] | None = [] if self._has_room(numbers) else None
        products = np.empty((rows.data.n_targets, width, width))
        ends = np.empty((2, rows.data.n_targets))
        for targets in slices(rows.data.n_targets, TARGETS_AT_ONCE):
            some = rows if len(products) <= TARGETS_AT_ONCE else rows.of_targets(targets)
            total: Any = 0
            both: Any = 0
            mixture = Mixture.of(rows.eigenvalues, span, rows.scales[:1], np.empty((1, width, 0)))
            for index, block in blocks_of(some, [(None, mixture)], verbose=verbose):
                columns = mixture.columns(block, some.coef)
                end = [block.targets, least_squares(block, some.eigenvalues, some.coef)]
                root = block.weight**0.5 * block.stretch
                weighted = (columns * root[:, None]).swapaxes(0, 2)
                total = total + weighted.swapaxes(1, 2) @ weighted
                both = both + _ends(block, end)
                if kept is not None:
                    kept.append(Kept(index, columns, end, block.scale, block.stretch))
            products[targets] = on_host(total)
            ends[:, targets] = on_host(both)
        found = Look(rows, span, last, products, ends, rows.unit, kept)
        if kept is not None:
            self._looks.append(found)
        return found

    def _has_room(self, numbers: int) -> bool:
        """Tell whether so many numbers may be kept beside those of earlier looks."""
        data = self.rows.data
        held = sum(look.products.shape[1] for look in self._looks) * data.n_rows * data.n_targets
        return held + numbers <= max(KEPT_NUMBERS, data.n_rows * data.n_features)

    def errors(
        self, method: Filter, stops: Array, *, standard_errors: bool, verbose: bool = False
    ) -> ErrorCurve:
        """Return the left-out error at many stops; see :func:`stoptime.leave_one_out`."""
        rows = self.rows
        sums = np.zeros((3, len(stops), rows.data.n_targets))
        for targets in slices(rows.data.n_targets, TARGETS_AT_ONCE):
            several = rows.data.n_targets > TARGETS_AT_ONCE
            some = rows.of_targets(targets) if several else rows
            for _, block, values in _residuals(self, some, method, stops, verbose=verbose):
                squares = values**2
                sums[0][:, targets] += on_host(block.weight @ squares)
                if standard_errors:
                    sums[1][:, targets] += on_host(block.weight**2 @ squares)
                    sums[2][:, targets] += on_host(block.weight**2 @ squares**2)
        target: Any = 0 if rows.data.single_target else slice(None)
        deviation = self._deviation(*sums)[:, target] if standard_errors else None
        return ErrorCurve(stops, (rows.unit**2 * sums[0])[:, target], deviation)

    def _deviation(self, mean: Array, crossed: Array, fourths: Array) -> Array:
        """Return the standard errors of mean squares m, the root of n/(n - 1) Σ w²(e² - m)²."""
        rows = self.rows
        variance = fourths - 2 * mean * crossed + mean**2 * (rows.weights @ rows.weights)
        n = rows.n_present
        # rounding may leave a small negative number where all squares are equal
        return np.asarray(rows.unit**2 * np.sqrt(np.maximum(variance, 0) * n / (n - 1)))

    def residuals(self, method: Filter, stop: Array) -> Floats:
        """Return left-out residuals at one stop, or at one for every target, in the shape of y."""
        rows = self.rows
        key = method, np.asarray(stop, np.float64).tobytes()
        if key in self._known:
            return self._known[key]
        stops, own = np.unique(np.broadcast_to(stop, rows.data.n_targets), return_inverse=True)
        known = (one.residuals(method, stops, own) for one in self._looks)
        out = next((found for found in known if found is not None), None)
        if out is None:
            out = empty(rows.data.y, rows.data.y.shape)
            for index, _, values in _residuals(self, rows, method, stops, own):
                out[index] = values
        out = rows.data.as_given(out * like(out, rows.unit))
        self._known[key] = out[:, 0] if rows.data.single_target else out
        return self._known[key]

    def at_stops(self, method: Filter, stops: Array) -> Floats:
        """Return the left-out residuals at many stops, (n_stops, n, n_targets), on the host."""
        rows = self.rows
        out = np.empty((len(stops), *rows.data.y.shape))
        inner = (stops > 0) & np.isfinite(stops)
        known = (one.at_stops(method, stops[inner]) for one in self._looks)
        found = next((values for values in known if values is not None), None)
        missing = np.ones(len(stops), np.bool_)
        if found is not None:
            out[inner] = found
            missing = ~inner
        for index, _, values in _residuals(self, rows, method, stops[missing]):
            out[missing, index] = on_host(values)
        return out * rows.unit

    def routes(self, method: Filter, stops: Array) -> list[tuple[Places, Route]]:
        """Return ways to the residuals of a method; see :func:`routes_to`."""
        rows = self.rows
        by_svd = rows.spectrum.solver == "svd"
        return routes_to(method, stops, rows.eigenvalues, rows.scales, self.most_penalties, by_svd)


def routes_to(
    method: Filter,
    stops: Array,
    eigenvalues: Array,
    scales: Array,
    most_penalties: float = MOST_PENALTIES,
    by_svd: bool = False,
) -> list[tuple[Places, Route]]:
    """Return ways to left-out residuals of a method, each for some of the stops between the ends.

    A filter takes the first of these that can serve it: a few ridges of its own, the ladder, an
    ellipse, and the eigenvalues without each row.
    """
    inner = np.flatnonzero((stops > 0) & ~is_learned(method, eigenvalues, stops))
    if not (inner.size and eigenvalues.size):
        return []
    between = stops[inner]
    largest = float(eigenvalues[-1])
    scale = float(scales.max())
    if isinstance(method, Iteration):
        method.check_convergence(largest * scale)
    downdated = Downdated(eigenvalues, method, between, by_svd)
    if isinstance(method, SpectralCutoff):
        return [(inner, downdated)]
    ladder = ladder_for(method, between, scale, largest)
    if isinstance(method, Ridge | Butterworth) and np.ptp(scales) == 0:
        own = method.ridges(between)
        if own[0].size <= ladder.rungs:
            return [(inner, _by_own_ridges(eigenvalues, own[0], own[1], scales))]
    if is_served(ladder, method, between, scale).all():
        return [(inner, _spanned(ladder, method, between, eigenvalues, scales))]
    ellipse = ellipse_for(method, between, scale, largest, most_penalties)
    if ellipse is None:
        return [(inner, downdated)]
    return [(inner, _spanned(ellipse, method, between, eigenvalues, scales))]


def _spanned(
    contour: Ladder | Ellipse, method: Filter, stops: Array, eigenvalues: Array, scales: Array
) -> Mixture:
    """Return a method at some stops as mixtures of ridges, for the scales of all rows."""
    nodes = scale_nodes(lambda c: values_at(contour, method, stops, c), scales)
    values = [values_at(contour, method, stops, scale) for scale in nodes]
    span = Span.of(contour, np.hstack(values))
    coordinates = np.stack([span.filters.T @ own for own in values])
    return Mixture.of(eigenvalues, span, nodes, coordinates)


class Kept(NamedTuple):
    """Left-out residuals e/d of some rows, and the c and d of these rows.

    ``columns`` are those of the basis filters, and ``ends`` those at the stops zero and infinity.
    """

    rows: slice
    columns: Array
    ends: list[Array]
    scale: Array
    stretch: Array


@dataclass(frozen=True, eq=False)
class Look:
    """Mean squares of the left-out residuals of basis filters and of their mixtures.

    ``products`` are the M of every target, and ``ends`` the mean squares at the stops zero and
    infinity, all in the ``unit`` of each target. ``kept`` are the residuals of the basis filters,
    if there is room for them.
    """

    rows: Rows
    span: Span
    last: dict[Filter, float]
    products: Array
    ends: Array
    unit: Array
    kept: list[Kept] | None

    def pooled(self) -> Look:
        """Return the look at the mean over targets."""
        squares = self.unit[:, None, None] ** 2
        mean = (squares * self.products).mean(axis=0, keepdims=True)
        return replace(self, products=mean, unit=np.ones(1), kept=None)

    def errors(self, coordinates: Array) -> Array:
        """Return mean squares at stops with these coordinates, (n_stops, n_targets)."""
        parts = []
        for some in slices(len(self.products), TARGETS_AT_ONCE):
            images = self.products[some] @ coordinates
            parts.append((coordinates * images).sum(axis=1).T)
        # rounding of the sum may leave a small negative number where the fit is perfect
        return np.maximum(np.concatenate(parts, axis=1), 0) * self.unit**2

    def errors_at(self, method: Filter, stops: Array) -> Array:
        """Return mean squares of a method whose filters are in the span."""
        return self.errors(self.span.coordinates(method, stops, self.rows.mean_scale))

    def errors_of(self, method: Filter, stops: Array, targets: Places) -> Array:
        """Return mean squares at stops (n_stops, n), a column for each of n targets."""
        distinct, place = np.unique(stops, return_inverse=True)
        values = values_at(self.span.contour, method, distinct, self.rows.mean_scale)
        coordinates = self.span.filters.T @ values
        found = np.empty(stops.shape)
        for some in slices(len(targets), TARGETS_AT_ONCE):
            own = coordinates[:, place.reshape(stops.shape)[:, some]].transpose(2, 0, 1)
            found[:, some] = (own * (self.products[targets[some]] @ own)).sum(axis=1).T
        errors = np.maximum(found, 0) * self.unit[targets] ** 2
        # a filter outside of the span has another error: it is not looked at
        outside = np.abs(self.span.filters @ coordinates - values).max(axis=0) > NEARLY_SPANNED
        return np.where(outside[place.reshape(stops.shape)], np.inf, errors)

    def residuals(self, method: Filter, stops: Array, own: Places) -> Array | None:
        """Return e of every target at its own stop, if these filters are in the span."""
        inner = (stops > 0) & np.isfinite(stops)
        if self.kept is None or not (inner.all() or method.reaches_least_squares):
            return None
        mixture = self._mixture(method, stops[inner]) if inner.any() else None
        if inner.any() and mixture is None:
            return None
        out = empty(self.rows.data.y, self.rows.data.y.shape)
        between = np.flatnonzero(inner[own])
        place = np.cumsum(inner)[own[between]] - 1
        for rows, columns, ends, scale, stretch in self.kept:
            for end, values in enumerate(ends):
                mine = np.flatnonzero(~inner[own] & (np.isinf(stops[own]) == bool(end)))
                out[rows, mine] = values[:, mine] * stretch[:, None]
            if mixture is not None:
                some = columns if len(between) == len(own) else columns[..., between]
                mixed = mixture.mixed_by_target(some, scale, place)
                out[rows, between] = mixed * stretch[:, None]
        return out

    def at_stops(self, method: Filter, stops: Array) -> Array | None:
        """Return e at many stops, (n_stops, n, n_targets), if these filters are in the span."""
        mixture = self._mixture(method, stops) if self.kept is not None else None
        if mixture is None or self.kept is None:
            return None
        out = np.empty((len(stops), *self.rows.data.y.shape))
        for rows, columns, _, scale, stretch in self.kept:
            out[:, rows] = on_host(mixture.mixed(columns, scale) * stretch[:, None])
        return out

    def _mixture(self, method: Filter, stops: Array) -> Mixture | None:
        """Return the mixtures of a method at these stops for rows of all scales, if they fit."""
        # the nodes of the contour may miss how a filter falls at later stops
        if stops.max(initial=0) > self.last.get(method, 0.0):
            return None
        contour = self.span.contour
        scales = scale_nodes(lambda c: values_at(contour, method, stops, c), self.rows.scales)
        found = []
        for scale in scales:
            values = values_at(contour, method, stops, scale)
            coordinates = self.span.filters.T @ values
            if np.abs(self.span.filters @ coordinates - values).max() > SPANNED:
                return None
            found.append(coordinates)
        return Mixture.of(self.rows.eigenvalues, self.span, scales, np.stack(found))


@dataclass(frozen=True, eq=False)
class Direct:
    """Mean squares of the left-out residuals of a method without a span, computed when asked for.

    It has the interface of a :class:`Look`.
    """

    left_out: LeftOut
    is_pooled: bool = False

    @cached_property
    def ends(self) -> Array:
        """Mean squares at the stops zero and infinity, in the unit of each target."""
        rows = self.left_out.rows
        both: Any = 0
        for _, block in blocks_of(rows, []):
            last = least_squares(block, rows.eigenvalues, rows.coef)
            both = both + _ends(block, [block.targets, last])
        return np.asarray(both)

    def pooled(self) -> Direct:
        """Return the look at the mean over targets."""
        return Direct(self.left_out, is_pooled=True)

    def errors_at(self, method: Filter, stops: Array) -> Array:
        """Return mean squares of a method, (n_stops, n_targets)."""
        found = self.left_out.errors(method, stops, standard_errors=False)
        errors = np.asarray(found.errors, np.float64).reshape(len(stops), -1)
        return np.asarray(errors.mean(axis=1, keepdims=True) if self.is_pooled else errors)

    def errors_of(self, method: Filter, stops: Array, targets: Places) -> Array:
        """Return mean squares at stops (n_stops, n), a column for each of n targets."""
        distinct, place = np.unique(stops, return_inverse=True)
        return self.errors_at(method, distinct)[place.reshape(stops.shape), targets]


def is_learned(method: Filter, eigenvalues: Array, stops: Array) -> NDArray[np.bool_]:
    """Tell at which stops the path is least squares to rounding, without any row."""
    if not eigenvalues.size:
        return np.isinf(stops)
    if not method.reaches_least_squares or method.oscillates:
        return np.isinf(stops) & method.reaches_least_squares
    with np.errstate(over="ignore"):
        return np.asarray((method.pace * stops) ** method.time_power >= LEARNED / eigenvalues[0])


def _by_own_ridges(
    eigenvalues: Array, penalties: NDArray[Any], weights: NDArray[Any], scales: Array
) -> Mixture:
    """Return the mixtures of a method whose filter is a sum of a few ridges at every stop."""
    count, n_stops = penalties.shape
    # each stop has weight on its own penalties alone
    place = np.arange(count * n_stops), np.tile(np.arange(n_stops), count)
    table = np.zeros((2 * count * n_stops + 1, n_stops))
    table[place] = np.real(weights).ravel()
    table[place[0] + count * n_stops, place[1]] = -np.imag(weights).ravel()
    own = penalties.ravel().astype(np.complex128) / scales[0]
    return Mixture(eigenvalues, own, table, scales[:1], np.eye(n_stops)[None])


def blocks_of(
    rows: Rows, routes: Sequence[tuple[Any, Route]], *, verbose: bool = False, further: int = 0
) -> Iterator[tuple[slice, RowBlock]]:
    """Yield the rows, block by block, with room for routes and for further numbers of a target."""
    targets = rows.data.n_targets
    numbers = max((route.numbers_per_row(targets) for _, route in routes), default=0)
    parts = list(rows.blocks(numbers + further * targets + 4))
    for index in progress(parts, "leave-one-out", verbose):
        yield index, rows.block(index)


def _residuals(
    left_out: LeftOut,
    rows: Rows,
    method: Filter,
    stops: Array,
    own: Places | None = None,
    *,
    verbose: bool = False,
) -> Iterator[tuple[slice, RowBlock, Array]]:
    """Yield blocks of rows and their e: at all stops, or of each target at its ``own`` one.

    The shape is (n_stops, n_rows, n_targets), or (n_rows, n_targets).
    """
    routes = left_out.routes(method, stops)
    ends = np.flatnonzero(is_learned(method, rows.eigenvalues, stops))
    held = 1 if own is not None else len(stops)
    for index, block in blocks_of(rows, routes, verbose=verbose, further=held):
        # nothing is learned at the start; other stops overwrite it
        out = empty(rows.data.y, (held, *block.targets.shape))
        out[:] = block.targets
        if ends.size:
            last = least_squares(block, rows.eigenvalues, rows.coef)
            _put(out, ends, last[None] + 0 * out[: len(ends)], own)
        for places, route in routes:
            if own is not None and isinstance(route, Mixture):
                mine = np.flatnonzero(np.isin(own, places))
                columns = route.columns(block, rows.coef)[..., mine]
                place = np.searchsorted(places, own[mine])
                out[0][:, mine] = route.mixed_by_target(columns, block.scale, place)
            else:
                _put(out, places, route.residuals(block, rows.coef), own)
        out *= block.stretch[:, None]
        yield index, block, out if own is None else out[0]


def _put(out: Array, places: Places, values: Array, own: Places | None) -> None:
    """Write residuals at some stops to their places, or to the targets that have these stops."""
    if own is None:
        out[places] = values
        return
    for place, value in zip(places, values, strict=True):
        mine = np.flatnonzero(own == place)
        out[0][:, mine] = value[:, mine]


def _ends(block: RowBlock, ends: list[Array]) -> Array:
    """Return weighted sums of squares of a block from e/d at the stops zero and infinity."""
    both = [(end * block.stretch[:, None]) ** 2 for end in ends]
    return np.stack([on_host(block.weight @ end) for end in both])
