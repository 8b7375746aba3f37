"""Prediction intervals from left-out residuals: the jackknife."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stoptime.support.arrays import as_dtype, like, on_host, pairs
from stoptime.support.checks import positive_number

if TYPE_CHECKING:
    from stoptime.support.arrays import Floats


def sizes_of(residuals: Any) -> Floats:
    """Return absolute residuals on the host, a column for each target."""
    return np.asarray(np.abs(on_host(residuals)).reshape(len(residuals), -1))


def jackknife(centre: Any, sizes: Floats, observations: Floats, confidence: float) -> Any:
    """Return lower and upper ends of intervals, along a new last axis."""
    # centre are predictions, sizes the absolute left-out residuals of shape (n_rows, n_targets),
    # and observations says how many observations each row stands for
    confidence = positive_number("confidence", confidence, high=1.0)
    widths = np.array([_width(column, observations, confidence) for column in sizes.T])
    width = like(centre, widths.reshape(centre.shape[1:]))
    width = as_dtype(width, centre.dtype)
    return pairs(centre - width, centre + width)


def _width(sizes: Floats, observations: Floats, confidence: float) -> float:
    """Return the quantile of the sizes at ``confidence``, with one more observation counted."""
    order = np.argsort(sizes)
    counted = np.cumsum(observations[order])
    live = observations[order] > 0
    needed = min(confidence * (counted[-1] + 1), counted[-1])
    return float(sizes[order][live][np.searchsorted(counted[live], needed * (1 - 1e-12))])
