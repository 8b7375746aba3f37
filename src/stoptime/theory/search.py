"""Where a curve with many dips is lowest: on a grid first, then ever closer around its dips."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Array

__all__ = ["dips", "lowest_between"]

POINTS = 21  # of one look into a bracket, whose ends come ten times closer


def dips(heights: Array) -> NDArray[np.intp]:
    """Return the inner places of a curve that are no higher than both neighbours.

    Examples
    --------
    >>> dips(np.array([3.0, 1.0, 2.0, 0.0, 0.0, 4.0]))
    array([1, 3, 4])
    """
    inner = heights[1:-1]
    return 1 + np.flatnonzero((inner <= heights[:-2]) & (inner <= heights[2:]))


def lowest_between(
    curve: Callable[[Array], Array], left: Array, right: Array, zooms: int
) -> tuple[float, float]:
    """Return the lowest point of a curve in any of some brackets, and its height; infinite if there are none.

    Parameters
    ----------
    curve : callable
        Takes points of any shape, and returns their heights.
    left, right : arrays of shape (n_brackets,)
        Ends of the brackets, which are looked at together.
    zooms : int
        How many times they come ten times closer.

    Examples
    --------
    >>> point, height = lowest_between(np.cos, np.array([2.0, 9.0]), np.array([4.0, 10.0]), zooms=8)
    >>> round(point, 6), height
    (3.141593, -1.0)
    """
    point, least = np.nan, np.inf
    columns = np.arange(len(left))
    for _ in range(zooms if len(left) else 0):
        points = np.linspace(left, right, POINTS)
        heights = curve(points)
        if heights.min() < least:
            point, least = float(points.flat[heights.argmin()]), float(heights.min())
        lowest = np.clip(heights.argmin(axis=0), 1, POINTS - 2)
        left, right = points[lowest - 1, columns], points[lowest + 1, columns]
    return point, least
