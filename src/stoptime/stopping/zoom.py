"""The lowest points of error curves between the stops of a grid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Array, Floats

POINTS = 9  # between the neighbours of a dip; a parabola goes through the lowest three
WHOLE_POINTS = 33  # whole numbers in a bracket; the next bracket is 16 times shorter
MOST_WHOLE_ZOOMS = 10  # from a trillion iterations down to single ones
NEARLY_LEAST = 1.01  # times the least error: dips above it are not zoomed into
ROUNDING_OF_ERRORS = 1e-11  # relative difference of errors that are equal

Heights = Callable[[Array, NDArray[np.intp]], Floats]
"""Errors at stops (n_points, n_brackets), each of the column that its bracket belongs to."""


def lowest_between(
    heights: Heights, stops: Array, columns: Floats, *, whole: bool
) -> tuple[Array, Floats]:
    """Return the stop at which each column of errors is least, and its error.

    ``columns`` are the errors at the stops, one for each curve. Every dip that is nearly as low as
    the lowest stop is looked into; with ``whole``, stops are whole numbers.
    """
    places, owner = _dips(stops, columns)
    low = stops[np.maximum(places - 1, np.argmax(stops > 0))]
    high = stops[places + 1]
    low = np.minimum(low, stops[places])
    best = best_places(columns)
    found = stops[best].copy()
    least = columns[best, np.arange(columns.shape[1])].copy()
    if not len(places):
        return found, least
    each = np.arange(len(owner))
    if not whole:
        logs = np.linspace(np.log(low), np.log(high), POINTS)
        errors = heights(np.exp(logs), owner)
        _improve(found, least, np.exp(logs), errors, owner)
        middle = np.clip(np.argmin(errors, axis=0), 1, POINTS - 2)
        around = errors[middle + np.array([[-1], [0], [1]]), each]
        # the vertex of a parabola through three errors at equal distances; on a line there is none
        around = np.minimum(around, np.finfo(np.float64).max / 4)
        bend = around[0] - 2 * around[1] + around[2]
        move = np.where(bend > 0, (around[0] - around[2]) / np.where(bend > 0, 2 * bend, 1), 0)
        vertex = logs[middle, each] + np.clip(move, -1, 1) * (logs[1] - logs[0])
        points = np.asarray(np.exp(vertex)[None], np.float64)
        _improve(found, least, points, heights(points, owner), owner)
        return found, least
    for _ in range(MOST_WHOLE_ZOOMS):
        points = np.asarray(np.round(np.linspace(low, high, WHOLE_POINTS)), np.float64)
        errors = heights(points, owner)
        _improve(found, least, points, errors, owner)
        if np.all(high - low < WHOLE_POINTS):
            break
        middle = np.clip(np.argmin(errors, axis=0), 1, WHOLE_POINTS - 2)
        low = points[middle - 1, each]
        high = points[middle + 1, each]
    return found, least


def best_places(columns: Floats) -> NDArray[np.intp]:
    """Return where each column of errors is least; of errors equal to rounding, the earliest."""
    least = columns.min(axis=0)
    return np.argmax(columns <= least + ROUNDING_OF_ERRORS * np.abs(least), axis=0)


def _dips(stops: Array, columns: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return places of dips, each with its column, that are nearly as low as the lowest stop."""
    inner = columns[1:-1]
    is_dip = (inner <= columns[:-2]) & (inner <= columns[2:])
    is_dip &= inner <= NEARLY_LEAST * columns.min(axis=0)
    # on a plateau dips are rounding errors; beside an infinite error there may be a dip
    with np.errstate(invalid="ignore"):
        bend = (columns[:-2] + columns[2:]) / 2 - inner
    is_dip &= bend > ROUNDING_OF_ERRORS * np.abs(inner)
    is_dip &= ((stops[1:-1] > 0) & np.isfinite(stops[2:]))[:, None]
    places, owner = np.nonzero(is_dip)
    return places + 1, owner


def _improve(
    found: Array, least: Floats, points: Array, errors: Floats, owner: NDArray[np.intp]
) -> None:
    """Take over points that are lower, by more than rounding, than the lowest so far."""
    best = np.argmin(errors, axis=0)
    each = np.arange(len(owner))
    heights = errors[best, each]
    # of several brackets of one column the lowest comes last
    for bracket in np.argsort(-heights, kind="stable"):
        column = owner[bracket]
        if heights[bracket] < least[column] - ROUNDING_OF_ERRORS * abs(least[column]):
            found[column] = points[best[bracket], bracket]
            least[column] = heights[bracket]
