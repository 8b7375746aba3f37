"""The way from rows of data to left-out residuals of a method at some stops.

The residuals of a few filters are computed by ridges, or by eigendecompositions without each row;
with those of both ends of every path, nothing learned and least squares, they are the columns that
are then mixed to those at all stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.downdated import Downdated
from stoptime.left_out.ridges import Ridges, least_squares, least_squares_operators
from stoptime.left_out.span import (
    Contour,
    Span,
    ellipse_for,
    is_served,
    ladder_for,
    lagrange,
    scale_nodes,
    values_at,
)
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.recurrence import Iteration
from stoptime.methods.ridge import SumOfRidges
from stoptime.support.arrays import Array, array_namespace, like, on_host

if TYPE_CHECKING:
    from stoptime.left_out.rows import RowBlock
    from stoptime.methods.base import Filter

LEARNED = 1e20  # gain·s from which on a path is least squares, also where a row is left out

Places = NDArray[np.intp]
Source = Ridges | Downdated


def columns_of(source: Source, block: RowBlock, coef: Array) -> Array:
    """Return e of the filters of a source and of both ends, (n_columns, n_rows, n_targets)."""
    found = source.residuals(block, coef)
    last = least_squares(block, source.eigenvalues, coef)
    columns = array_namespace(found).concat([found, block.targets[None], last[None]])
    columns *= block.stretch[:, None]
    return columns


def operators_of(source: Source, row: RowBlock) -> tuple[Array, Array]:
    """Return α and C of all columns, for e/d; see :meth:`Ridges.operators`."""
    alpha, slopes = source.operators(row)
    last, directions = least_squares_operators(row, source.eigenvalues)
    if not directions.shape[1]:
        directions = 0 * row.scores
    ends = np.stack([np.ones_like(last), last])
    return np.concatenate([alpha, ends]), np.concatenate([slopes, [row.scores, directions]])


def with_ends(coordinates: Array, stops: Array, inner: NDArray[np.bool_]) -> Array:
    """Return coordinates of all stops in the columns from those of stops between the ends."""
    out = np.zeros((len(coordinates) + 2, len(stops)))
    out[:-2, inner] = coordinates
    out[-2, stops == 0] = 1.0
    out[-1, ~inner & (stops > 0)] = 1.0
    return out


def between_ends(method: Filter, stops: Array) -> NDArray[np.bool_]:
    """Tell which stops lie between zero, where nothing is learned, and least squares."""
    return (stops > 0) & ~(np.isinf(stops) & method.reaches_least_squares)


def ended(method: Filter, eigenvalues: Array, stops: Array) -> Array:
    """Return the stops, with infinity for those at which the path is least squares to rounding."""
    if not method.reaches_least_squares or method.oscillates or not eigenvalues.size:
        return stops
    with np.errstate(over="ignore"):
        learned = (method.pace * stops) ** method.time_power >= LEARNED / eigenvalues[0]
    return np.where(learned, np.inf, stops)


@dataclass(frozen=True, eq=False)
class Mix:
    """Coordinates of a method at some stops in the columns, (n_scales, n_columns, n_stops).

    They are those at a few ``scales``; between these they are interpolated.
    """

    scales: Array
    coordinates: Array

    def at_all_stops(self, columns: Array, scale: Array) -> Array:
        """Return e at every stop, of shape (n_stops, n_rows, n_targets)."""
        flat = columns.reshape(columns.shape[0], -1)
        shape = self.coordinates.shape[2], *columns.shape[1:]
        parts = [(like(flat, own.T) @ flat).reshape(shape) for own in self.coordinates]
        return self._interpolated(parts, scale)

    def by_target(self, columns: Array, scale: Array, own: Places) -> Array:
        """Return e of every target at its own stop, of shape (n_rows, n_targets)."""
        parts = [
            (columns * like(columns, coordinates[:, own])[:, None]).sum(axis=0)
            for coordinates in self.coordinates
        ]
        return self._interpolated(parts, scale)

    def of_rows(self, scale: Array) -> Array:
        """Return the coordinates of the only stop for every row, (n_rows, n_columns)."""
        return lagrange(self.scales, on_host(scale)) @ self.coordinates[..., 0]

    def _interpolated(self, parts: list[Array], scale: Array) -> Array:
        """Return numbers of rows, along the last but one axis, from those at every scale."""
        if len(parts) == 1:
            return parts[0]
        portions = lagrange(self.scales, on_host(scale)).T
        pairs = zip(parts, portions, strict=True)
        weighted = [like(part, portion)[:, None] * part for part, portion in pairs]
        return sum(weighted[1:], weighted[0])


class Route(NamedTuple):
    """A source of residuals, and how its columns are mixed."""

    source: Source
    mix: Mix


def route_to(
    method: Filter, stops: Array, eigenvalues: Array, scales: Array, *, by_svd: bool = False
) -> Route:
    """Return the way to left-out residuals of a method at all stops.

    A filter takes the first of these that can serve it: a few ridges of its own, the ladder, an
    ellipse, and the eigenvalues without each row.
    """
    stops = ended(method, eigenvalues, stops)
    if not eigenvalues.size:
        stops = np.zeros(len(stops))  # nothing is learned at any stop
    inside = between_ends(method, stops)
    inner = stops[inside]
    if not inner.size:
        nothing = Ridges(eigenvalues, np.empty(0, np.complex128), np.empty((1, 0)))
        return Route(nothing, Mix(scales[:1], with_ends(np.empty((0, 0)), stops, inside)[None]))
    largest = float(eigenvalues[-1])
    scale = float(scales.max())
    if isinstance(method, Iteration):
        method.check_convergence(largest * scale)
    alone = Mix(scales[:1], with_ends(np.eye(inner.size), stops, inside)[None])
    if isinstance(method, SpectralCutoff):
        return Route(Downdated(eigenvalues, method, inner, by_svd), alone)
    ladder = ladder_for(method, inner, scale, largest)
    if isinstance(method, SumOfRidges) and np.ptp(scales) == 0:
        penalties, weights = method.ridges(inner)
        if penalties.size <= ladder.rungs:
            return Route(_own_ridges(eigenvalues, penalties, weights, scale), alone)
    contour: Contour | None = ladder
    if not is_served(ladder, method, inner, scale).all():
        contour = ellipse_for(method, inner, scale, eigenvalues)
    if contour is None:
        return Route(Downdated(eigenvalues, method, inner, by_svd), alone)
    nodes = scale_nodes(lambda c: values_at(contour, method, inner, c), scales)
    values = [values_at(contour, method, inner, node) for node in nodes]
    span = Span.of(contour, np.hstack(values))
    coordinates = [with_ends(span.filters.T @ one, stops, inside) for one in values]
    return Route(ridges_of(eigenvalues, span), Mix(nodes, np.stack(coordinates)))


def ridges_of(eigenvalues: Array, span: Span) -> Ridges:
    """Return the ridges whose mixtures are the basis filters of a span."""
    return Ridges(eigenvalues, span.contour.penalties, span.weights)


def _own_ridges(eigenvalues: Array, penalties: Any, weights: Any, scale: float) -> Ridges:
    """Return the ridges of a method whose filter is a sum of a few of them at every stop."""
    count, n_stops = penalties.shape
    # each stop has weight on its own penalties alone
    place = np.arange(count * n_stops)
    stop = np.tile(np.arange(n_stops), count)
    table = np.zeros((2 * count * n_stops + 1, n_stops))
    table[place, stop] = np.real(weights).ravel()
    table[place + count * n_stops, stop] = -np.imag(weights).ravel()
    return Ridges(eigenvalues, penalties.ravel() / scale, table)
