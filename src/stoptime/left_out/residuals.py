r"""Left-out residuals of tuned methods at any stops, and their mean squares.

A search looks at all stops of several methods at once: with the left-out residuals of the basis
filters of a :class:`Span`, a vector ρ for each row of the data, the mean square at every stop is

.. math:: \frac{\sum_iw_ie_i(t)^2}{\sum_iw_i} = c(t)^TMc(t), \qquad
    M = \frac{\sum_iw_i\rho_i\rho_i^T}{\sum_iw_i}.

M takes one pass over the rows. After that, another stop or another method costs r² operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.routes import (
    Mix,
    Places,
    Route,
    Source,
    between_ends,
    columns_of,
    ended,
    ridges_of,
    route_to,
    with_ends,
)
from stoptime.left_out.span import Span, scale_nodes, values_at
from stoptime.support.arrays import Array, Floats, empty, like, on_host, slices
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.left_out.rows import RowBlock, Rows
    from stoptime.methods.base import Filter

SPANNED = 1e-9  # error of a filter up to which it is in a span
NEARLY_SPANNED = 1e-7  # and up to which it is good enough for a search
KEPT_NUMBERS = 2**26  # of all columns that are kept, 512 MB; or as many as X has
TARGETS_AT_ONCE = 1024  # so that blocks of rows stay tall enough for fast products


class Part(NamedTuple):
    """Columns of some rows and targets, (n_columns, n_rows, n_targets), and the c and π of rows."""

    rows: slice
    targets: slice
    columns: Array
    scale: Array
    weight: Array


class LeftOut:
    """Left-out residuals of tuned methods on the same rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._looks: list[Look] = []
        self._known: dict[tuple[Filter, bytes], Floats] = {}  # residuals that were asked for

    @cached_property
    def largest(self) -> float:
        """The largest eigenvalue, or one if there is none."""
        return float(self.rows.eigenvalues.max(initial=0)) or 1.0

    @property
    def has_looked(self) -> bool:
        """Whether residuals at the stops of a search are known."""
        return bool(self._looks)

    def look(self, span: Span, last: dict[Filter, float]) -> Look:
        """Return the errors of all filters in a span, from one pass over the rows.

        ``last`` is the last stop of each method for which the span was made.
        """
        rows = self.rows
        width = span.weights.shape[1] + 2
        kept = empty(rows.data.y, (width, *rows.data.y.shape)) if self._has_room(width) else None
        products = empty(rows.data.y, (rows.data.n_targets, width, width))
        products[:] = 0
        for part in self._parts(ridges_of(rows.eigenvalues, span), 0):
            if kept is not None:
                kept[:, part.rows, part.targets] = part.columns
            weighted = (part.columns * (part.weight**0.5)[:, None]).swapaxes(0, 2)
            products[part.targets] += weighted.swapaxes(1, 2) @ weighted
        squares = rows.unit[:, None, None] ** 2
        found = Look(rows, span, last, squares * on_host(products), kept)
        if kept is not None:
            self._looks.append(found)
        return found

    def _has_room(self, width: int) -> bool:
        """Tell whether so many columns may be kept beside those of earlier looks."""
        data = self.rows.data
        width += sum(look.products.shape[1] for look in self._looks)
        room = max(KEPT_NUMBERS, data.n_rows * data.n_features)
        return width * data.n_rows * data.n_targets <= room

    def _parts(self, source: Source, further: int) -> Iterator[Part]:
        """Yield the columns of a source, with room for further numbers of every target."""
        n_targets = self.rows.data.n_targets
        for targets in slices(n_targets, TARGETS_AT_ONCE):
            several = n_targets > TARGETS_AT_ONCE
            rows = self.rows.of_targets(targets) if several else self.rows
            for index, block in blocks_of(rows, source, further):
                columns = columns_of(source, block, rows.coef)
                yield Part(index, targets, columns, block.scale, block.weight)

    def _mixed(
        self, method: Filter, stops: Array, own: Places | None = None
    ) -> Iterator[tuple[Part, Array]]:
        """Yield parts of the data, and their e at all stops, or of each target at its ``own`` one.

        The shape is (n_stops, n_rows, n_targets), or (n_rows, n_targets).
        """
        stops = ended(method, self.rows.eigenvalues, stops)
        for look in self._looks:
            mix = look.mix(method, stops)
            if mix is not None:
                parts = look.parts()
                break
        else:
            source, mix = self.route(method, stops)
            parts = self._parts(source, len(stops) if own is None else 1)
        for part in parts:
            if own is None:
                yield part, mix.at_all_stops(part.columns, part.scale)
            else:
                yield part, mix.by_target(part.columns, part.scale, own[part.targets])

    def errors(self, method: Filter, stops: Array, *, standard_errors: bool) -> ErrorCurve:
        """Return the left-out error at many stops; see :func:`stoptime.leave_one_out`."""
        rows = self.rows
        sums = np.zeros((3, len(stops), rows.data.n_targets))
        for part, values in self._mixed(method, stops):
            squares = values**2
            sums[0][:, part.targets] += on_host(part.weight @ squares)
            if standard_errors:
                sums[1][:, part.targets] += on_host(part.weight**2 @ squares)
                sums[2][:, part.targets] += on_host(part.weight**2 @ squares**2)
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
        data = self.rows.data
        key = method, np.asarray(stop, np.float64).tobytes()
        if key not in self._known:
            stops, own = np.unique(np.broadcast_to(stop, data.n_targets), return_inverse=True)
            out = empty(data.y, data.y.shape)
            for part, values in self._mixed(method, stops, own):
                out[part.rows, part.targets] = values
            out = data.as_given(out * like(out, self.rows.unit))
            self._known[key] = out[:, 0] if data.single_target else out
        return self._known[key]

    def at_stops(self, method: Filter, stops: Array) -> Floats:
        """Return the left-out residuals at many stops, (n_stops, n, n_targets), on the host."""
        out = np.empty((len(stops), *self.rows.data.y.shape))
        for part, values in self._mixed(method, stops):
            out[:, part.rows, part.targets] = on_host(values)
        return out * self.rows.unit

    def route(self, method: Filter, stops: Array) -> Route:
        """Return the way to the residuals of a method; see :func:`route_to`."""
        rows = self.rows
        by_svd = rows.spectrum.solver == "svd"
        return route_to(method, stops, rows.eigenvalues, rows.scales, by_svd=by_svd)


@dataclass(frozen=True, eq=False)
class Look:
    """Mean squares of the left-out residuals of basis filters and of their mixtures.

    ``products`` are the M of every target. ``columns`` are the residuals themselves, in the unit of
    each target, if there is room for them.
    """

    rows: Rows
    span: Span
    last: dict[Filter, float]
    products: Array
    columns: Array | None

    def pooled(self) -> Look:
        """Return the look at the mean over targets."""
        return replace(self, products=self.products.mean(axis=0, keepdims=True), columns=None)

    def errors(self, coordinates: Array) -> Array:
        """Return mean squares at stops with these coordinates, (n_stops, n_targets)."""
        parts = []
        for some in slices(len(self.products), TARGETS_AT_ONCE):
            images = self.products[some] @ coordinates
            parts.append((coordinates * images).sum(axis=1).T)
        # rounding of the sum may leave a small negative number where the fit is perfect
        return np.maximum(np.concatenate(parts, axis=1), 0)

    def errors_at(self, method: Filter, stops: Array) -> Array:
        """Return mean squares of a method whose filters are in the span."""
        return self.errors(self._located(method, stops, self.rows.mean_scale)[0])

    def errors_of(self, method: Filter, stops: Array, targets: Places) -> Array:
        """Return mean squares at stops (n_stops, n), a column for each of n targets."""
        distinct, place = np.unique(stops, return_inverse=True)
        place = place.reshape(stops.shape)
        coordinates, error = self._located(method, distinct, self.rows.mean_scale)
        found = np.empty(stops.shape)
        for some in slices(len(targets), TARGETS_AT_ONCE):
            own = coordinates[:, place[:, some]].transpose(2, 0, 1)
            found[:, some] = (own * (self.products[targets[some]] @ own)).sum(axis=1).T
        # a filter outside of the span has another error: it is not looked at
        return np.where((error > NEARLY_SPANNED)[place], np.inf, np.maximum(found, 0))

    def parts(self) -> Iterator[Part]:
        """Yield the columns that are kept, some rows at a time."""
        columns = cast("Array", self.columns)
        rows = self.rows
        every = slice(0, rows.data.n_targets)
        for index in rows.blocks(columns.shape[0] * columns.shape[2]):
            some = columns[:, index]
            scale = rows.beside(some[0], rows.scales, index)
            yield Part(index, every, some, scale, rows.beside(some[0], rows.weights, index))

    def mix(self, method: Filter, stops: Array) -> Mix | None:
        """Return how the columns are mixed for rows of all scales, if these filters are spanned."""
        inner = stops[between_ends(method, stops)]
        # the nodes of the contour may miss how a filter falls at later stops
        if inner.max(initial=0) > self.last.get(method, 0.0):
            return None
        contour = self.span.contour
        scales = scale_nodes(lambda c: values_at(contour, method, inner, c), self.rows.scales)
        found = [self._located(method, stops, scale) for scale in scales]
        if max(error.max(initial=0) for _, error in found) > SPANNED:
            return None
        return Mix(scales, np.stack([coordinates for coordinates, _ in found]))

    def _located(self, method: Filter, stops: Array, scale: float) -> tuple[Array, Array]:
        """Return coordinates of a method in the columns, and its distance from the span."""
        inner = between_ends(method, stops)
        values = values_at(self.span.contour, method, stops[inner], scale)
        coordinates = self.span.filters.T @ values
        error = np.zeros(len(stops))
        error[inner] = np.abs(self.span.filters @ coordinates - values).max(axis=0)
        return with_ends(coordinates, stops, inner), error


def blocks_of(rows: Rows, source: Source, further: int) -> Iterator[tuple[slice, RowBlock]]:
    """Yield the rows, block by block, with room for further numbers of every target."""
    targets = rows.data.n_targets
    numbers = source.numbers_per_row(targets) + further * targets + 4
    for index in progress(list(rows.blocks(numbers)), "leave-one-out"):
        yield index, rows.block(index)
