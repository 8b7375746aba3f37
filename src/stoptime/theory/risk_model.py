"""The risk of a method at any stop, and where it is least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stoptime.methods.base import Method
from stoptime.methods.recurrence import closer_stops
from stoptime.support.arrays import Array
from stoptime.theory.search import dips, lowest_between

__all__ = ["RiskModel"]

CHUNK = 2**20  # entries of one table of filters, eigenvalues by stops
POINTS_PER_SWING = 12
MOST_POINTS = 20_000
PER_DECADE = 60
DIPS, WHOLE_DIPS = 40, 8  # that are looked at closer
ZOOMS = 8
BEGUN, SETTLED = 1e-4, 1e6  # phases before which nothing and after which nothing more happens


@dataclass(frozen=True, eq=False)
class RiskModel:
    """A method and what multiplies its squared filters.

    Attributes
    ----------
    method : Method
        Tuned to the eigenvalues.
    eigenvalues : array of shape (k,)
        Zeros included.
    bias_weight : array of shape (k,) or (k, k)
        The bias is the sum of weight times g², or the quadratic form of g.
    variance_weight : array of shape (k,)
        The variance is the sum of weight times s·φ².
    """

    method: Method
    eigenvalues: Array
    bias_weight: Array
    variance_weight: Array

    def evaluate(self, stops: Array) -> tuple[Array, Array]:
        """Return bias and variance at the stops, a bounded number of them at a time."""
        height = max(1, CHUNK // max(1, len(self.eigenvalues)))
        parts = [
            self._summed(*tables) for tables in self.method.filters(self.eigenvalues, stops, height)
        ]
        bias, variance = zip(*parts, strict=True) if parts else ([np.empty(0)], [np.empty(0)])
        return np.concatenate(bias), np.concatenate(variance)

    def _summed(self, g: Array, gain: Array) -> tuple[Array, Array]:
        live = self.eigenvalues > 0
        # φ√s before squaring: s φ² would lose small s to underflow
        noise = gain[live] * np.sqrt(self.eigenvalues[live, None])
        if self.bias_weight.ndim == 2:
            bias = np.einsum("it,it->t", g, self.bias_weight @ g)
        else:
            bias = self.bias_weight @ g**2
        return bias, self.variance_weight[live] @ noise**2

    def total(self, stops: Array) -> Array:
        """Return bias plus variance at stops of any shape."""
        return np.add(*self.evaluate(stops.ravel())).reshape(stops.shape)

    def minimum(self, first: float, last: float) -> tuple[float, float]:
        """Return the stop in [first, last] with the least risk, and that risk.

        The curve oscillates, so its lowest dip is looked for on a grid that follows the fastest
        oscillation, and every dip that may be the lowest is refined between grid points.
        """
        if self.method.whole_stops:
            return self._whole_minimum(first, last)
        grid = self._grid(first, last)
        total = self.total(grid)
        best = int(np.argmin(total))
        stop, least = float(grid[best]), float(total[best])
        inner = dips(total)
        inner = inner[np.isfinite(grid[inner + 1])]
        deepest = inner[np.argsort(total[inner])[:DIPS]]
        between, lower = lowest_between(self.total, grid[deepest - 1], grid[deepest + 1], ZOOMS)
        return (between, lower) if lower < least else (stop, least)

    def _whole_minimum(self, first: float, last: float) -> tuple[float, float]:
        """Return the best iteration: the same search among whole numbers."""
        last = last if np.isinf(last) else float(np.floor(last))
        closer = np.unique(np.minimum(np.ceil(self._grid(np.ceil(first), last)), last))
        grid = total = np.empty(0)
        while closer.size:
            grid, total = np.append(grid, closer), np.append(total, self.total(closer))
            grid, total = grid[np.argsort(grid)], total[np.argsort(grid)]
            inner = dips(total)
            deepest = inner[np.argsort(total[inner])[:WHOLE_DIPS]]
            closer = closer_stops(grid, np.append(deepest, np.argmin(total)))
        best = int(np.argmin(total))
        return float(grid[best]), float(total[best])

    def _grid(self, first: float, last: float) -> Array:
        positive = self.eigenvalues[self.eigenvalues > 0]
        if positive.size == 0:
            return np.unique([first, last])
        largest, power = positive.max(), 1 / self.method.order
        pace = self.method.pace
        begin = max(first, BEGUN / largest**power / pace)
        end = last if np.isfinite(last) else max(begin, SETTLED / positive.min() ** power / pace)
        end = min(end, max(first, self.method.horizon))
        if begin >= end:
            return np.unique([first, last])
        grids = [
            np.array([first, last]),
            np.geomspace(begin, end, int(PER_DECADE * np.log10(end / begin)) + 2),
        ]
        if self.method.order == 2:
            step = np.pi / (np.sqrt(largest) * POINTS_PER_SWING) / pace
            step = max(step, 1.0) if self.method.whole_stops else step
            grids.append(begin + step * np.arange(min(MOST_POINTS, (end - begin) / step)))
        return np.unique(np.concatenate(grids))
