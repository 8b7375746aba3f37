r"""Prediction intervals from left-out residuals: the jackknife, and the jackknife+.

With left-out residuals e and predictions :math:`\hat y_{-i}` of the fits without each row, the ends
of a jackknife+ interval are quantiles of :math:`\hat y_{-i}(x) \mp |e_i|`; those of the jackknife
are the prediction of the whole fit, minus and plus a quantile of :math:`|e_i|`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from stoptime.support.arrays import Floats, array_namespace, as_dtype, like, on_host
from stoptime.support.checks import positive_number

PREDICTIONS_AT_ONCE = 2**24  # left-out predictions, 128 MB, held while quantiles are taken


def sizes_of(residuals: Any) -> Floats:
    """Return absolute residuals on the host, a column for each target."""
    return np.asarray(np.abs(on_host(residuals)).reshape(len(residuals), -1))


def half_width(residuals: Any, observations: Floats, confidence: float) -> Floats:
    """Return half the width of jackknife intervals, for each target if there are several."""
    # residuals are those of left-out rows, in the shape of y, and observations says how many
    # observations each row stands for
    confidence = positive_number("confidence", confidence, high=1.0)
    widths = _quantile(sizes_of(residuals), observations, confidence)
    return widths.reshape(residuals.shape[1:])


def around(centre: Any, half: Floats) -> Any:
    """Return the ends of intervals around predictions, along a new last axis."""
    width = as_dtype(like(centre, half), centre.dtype)
    return array_namespace(centre).stack([centre - width, centre + width], axis=-1)


def jackknife_plus(
    left_out: Callable[[Any], Any],
    rows: Any,
    sizes: Floats,
    observations: Floats,
    confidence: float,
) -> Any:
    """Return lower and upper ends of intervals for new rows, along a new last axis."""
    # rows are a matrix, left_out returns the predictions for some of them by each of the fits
    # without a row, sizes are the absolute residuals of shape (n_rows, n_targets), and the other
    # arguments are those of half_width
    confidence = positive_number("confidence", confidence, high=1.0)
    height = max(1, PREDICTIONS_AT_ONCE // sizes.size)
    blocks: Any = (rows[start : start + height] for start in range(0, rows.shape[0], height))
    # rows of an operator cannot be taken one by one
    blocks = [rows] if isinstance(rows, LinearOperator) else blocks
    ends = [interval_ends(left_out(block), sizes, observations, confidence) for block in blocks]
    return array_namespace(ends[0]).concat(ends, axis=0)


def interval_ends(given: Any, sizes: Floats, observations: Floats, confidence: float) -> Any:
    """Return the ends of intervals from left-out predictions, whose first axis are rows."""
    centre = on_host(given)
    if centre.ndim == 2 and np.ptp(observations) == 0:
        centre, sizes, place = _undecided(centre, sizes, _place(observations, confidence))
        lower = -_smallest(sizes - centre, place)
        return like(given, np.stack([lower, _smallest(sizes + centre, place)], axis=-1))
    reach = sizes[:, None] if centre.ndim > 2 else sizes
    # the lower end is the upper end of the negative response
    lower = -_quantile(reach - centre, observations, confidence)
    upper = _quantile(reach + centre, observations, confidence)
    return like(given, np.stack([lower, upper], axis=-1))


def needed_observations(count: float, confidence: float) -> float:
    """Return how many observations a quantile has at or below it, one more observation counted."""
    # beyond the last of few observations there is no quantile; their largest value is taken
    return min(confidence * (count + 1), count) * (1 - 1e-12)


def _quantile(values: Floats, observations: Floats, confidence: float) -> Floats:
    """Return the quantile over the first axis at ``confidence``, one more observation counted."""
    live = observations > 0
    values = values[live]
    counts = observations[live]
    if np.ptp(counts) == 0:
        return _smallest(values, _place(counts, confidence))
    needed = needed_observations(float(counts.sum()), confidence)
    order = np.argsort(values, axis=0)
    reached = np.cumsum(counts[order], axis=0) >= needed
    first = np.take_along_axis(order, np.argmax(reached, axis=0)[None], axis=0)
    return np.asarray(np.take_along_axis(values, first, axis=0)[0])


def _place(counts: Floats, confidence: float) -> int:
    """Return how many values are below the quantile, if all rows count alike."""
    needed = needed_observations(float(counts.sum()), confidence)
    return max(int(np.ceil(needed / counts[0])), 1) - 1


def _smallest(values: Floats, place: int) -> Floats:
    """Return the value over the first axis that has so many below it; values are overwritten."""
    values.partition(place, axis=0)
    return np.array(values[place])


def _undecided(centre: Floats, sizes: Floats, place: int) -> tuple[Floats, Floats, int]:
    """Return the rows that may be at a place of sizes ± centre, and how many of them are below it.

    The predictions of a new row by all fits are close to each other, so that a row whose residual
    is far from the quantile of residuals is below or above in any case.
    """
    column = sizes[:, 0]
    middle = np.partition(column, place)[place]
    room = (centre.max(axis=0) - centre.min(axis=0)).max()
    # with room for rounding
    room += 1e-12 * (np.abs(centre).max() + column.max())
    distance = column - middle
    rows = np.flatnonzero(~(np.abs(distance) > room))
    return centre[rows], sizes[rows], place - int(np.count_nonzero(distance < -room))
