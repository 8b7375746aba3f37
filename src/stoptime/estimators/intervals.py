"""Prediction intervals from left-out residuals: the jackknife."""

from __future__ import annotations

from typing import Any

import numpy as np

from stoptime.support.arrays import Floats, is_tensor, like, on_host, pairs
from stoptime.support.checks import positive_number

__all__ = ["jackknife", "sizes_of"]


def sizes_of(residuals: Any) -> Floats:
    """Return absolute residuals on the host, a column for each target."""
    return np.asarray(np.abs(on_host(residuals)).reshape(len(residuals), -1))


def jackknife(centre: Any, sizes: Floats, observations: Floats, confidence: float) -> Any:
    """Return intervals around predictions, as wide as the left-out residuals say.

    Parameters
    ----------
    centre : array of shape (n,) or (n, n_targets)
        Predictions.
    sizes : array of shape (n_rows, n_targets)
        Absolute left-out residuals of the rows that were fitted.
    observations : array of shape (n_rows,)
        How many observations each row stands for.
    confidence : float
        Between 0 and 1.

    Returns
    -------
    array of shape (n, 2) or (n, n_targets, 2)
        Lower and upper ends.

    Examples
    --------
    >>> jackknife(np.array([5.0]), np.array([[1.0], [2.0], [3.0], [4.0]]), np.ones(4), 0.6)
    array([[2., 8.]])
    """
    confidence = positive_number("confidence", confidence, high=1.0)
    widths = np.array([_width(column, observations, confidence) for column in sizes.T])
    width = like(centre, widths.reshape(centre.shape[1:]))
    width = width.to(centre.dtype) if is_tensor(width) else width.astype(centre.dtype)
    return pairs(centre - width, centre + width)


def _width(sizes: Floats, observations: Floats, confidence: float) -> float:
    """Return the least size that a share ``confidence`` of the observations, and one more, do not exceed."""
    order = np.argsort(sizes)
    counted = np.cumsum(observations[order])
    live = observations[order] > 0
    needed = min(confidence * (counted[-1] + 1), counted[-1])
    return float(sizes[order][live][np.searchsorted(counted[live], needed * (1 - 1e-12))])
