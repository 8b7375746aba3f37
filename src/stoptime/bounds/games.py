r"""The game between a spectrum and a stop, solved by linear programming in floating point.

A spectrum is a distribution over eigenvalues, and a stop that may depend on it is answered by a
distribution over stops. With D² the excess risk of one eigenvalue at one stop,

.. math:: \max_{\text{spectra } w} \min_{t} \sum_i w_i D^2(x_i, t)
          = \min_{\text{mixtures } \nu} \max_{x} \sum_j \nu_j D^2(x, t_j),

which is duality of linear programming. Nothing here is a proof: the module ``adaptive`` proves that
a mixture and a spectrum found here have nearly the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from stoptime.bounds.balls import WorkLimitError
from stoptime.methods.base import Filter
from stoptime.support.arrays import Array
from stoptime.theory.search import stop_with_gain

Payoff = Callable[[Array, Array], Array]
"""The excess D² at some places, one row for each, and some stops, one column for each."""


class Strategy(NamedTuple):
    """A distribution on finitely many points."""

    points: Array
    weights: Array


class Solution(NamedTuple):
    """A mixture of stops with at most ``upper`` at every place; a spectrum, ``lower`` likewise."""

    mixture: Strategy
    spectrum: Strategy
    lower: float
    upper: float


def solve(payoff: Payoff, places: Array, stops: Array, tolerance: float) -> Solution:
    """Solve the game on fine grids of places and stops, up to a difference of both values.

    Stops that are whole numbers stay whole, because new points are taken from the grid.
    """
    # Each linear program has few points. The best answers of both players to its solution, found on
    # the fine grids, are added to it until neither has a better one.
    rows = _thinned(places)
    columns = _thinned(stops)
    for _ in range(25):  # mostly five to ten suffice
        mixture, spectrum, value = _equilibrium(payoff, rows, columns)
        risks = payoff(places, mixture.points) @ mixture.weights
        values = spectrum.weights @ payoff(spectrum.points, stops)
        if risks.max() - values.min() <= tolerance:
            break
        rows = np.union1d(rows, places[_peaks(risks, value)])
        columns = np.union1d(columns, stops[_peaks(-values, -value)])
    else:
        raise WorkLimitError(
            f"The game of stop and spectrum is only solved to [{values.min():.6g}, "
            f"{risks.max():.6g}]; use a larger tolerance."
        )
    return Solution(mixture, spectrum, float(values.min()), float(risks.max()))


def estimated_game(method: Filter, tolerance: float = 1e-5) -> Solution:
    """Solve the game of a method without a scale of its own, in floating point and unproven.

    Places are √(s/λ*), and stops are those of the method for the penalty λ* = 1.
    """

    def payoff(places: Array, stops: Array) -> Array:
        x = (places**2)[:, None]
        return np.asarray(x * (method.gain(x, stops) * (1 + x) - 1) ** 2)

    unit = stop_with_gain(method)
    places = np.geomspace(0.05, 40, 4000)
    stops = unit * np.geomspace(0.05, 20, 4000) ** (2 / method.time_power)
    return solve(payoff, places, stops, tolerance)


def fewer_points(payoff: Payoff, found: Solution, places: Array, stops: Array) -> Solution:
    """Replace close neighbours by one point each, which makes a proof shorter."""
    # The linear program divides a point between its neighbours on the grid. Between them the payoff
    # is nearly linear, so one point in their middle has nearly the same value.
    mixture, upper = _shorter(
        found.mixture, lambda one: _highest(places, payoff(places, one.points) @ one.weights)
    )
    spectrum, minus_lower = _shorter(
        found.spectrum, lambda one: _highest(stops, -(one.weights @ payoff(one.points, stops)))
    )
    return Solution(mixture, spectrum, -minus_lower, upper)


def _shorter(strategy: Strategy, worst: Callable[[Strategy], float]) -> tuple[Strategy, float]:
    """Return a strategy with fewer points, unless it is worse by a hundred-thousandth."""
    merged = _merged(strategy)
    before = worst(strategy)
    after = worst(merged)
    return (merged, after) if after <= before + 1e-5 else (strategy, before)


def _highest(grid: Array, heights: Array) -> float:
    """Return the largest height, also between points of the grid: the tops of parabolas."""
    inner = _peaks(heights, -np.inf)
    inner = inner[(inner > 0) & (inner + 1 < np.searchsorted(grid, np.inf))]
    x0, x1, x2 = grid[inner - 1], grid[inner], grid[inner + 1]
    y0, y1, y2 = heights[inner - 1], heights[inner], heights[inner + 1]
    rise = (y1 - y0) / (x1 - x0)
    bend = ((y2 - y1) / (x2 - x1) - rise) / (x2 - x0)
    curved = bend < 0
    top = ((x0 + x1)[curved] - rise[curved] / bend[curved]) / 2
    tops = y0[curved] + (top - x0[curved]) * rise[curved]
    tops += bend[curved] * (top - x0[curved]) * (top - x1[curved])
    return float(max(heights.max(), tops.max(initial=-np.inf)))


def _thinned(grid: Array) -> Array:
    # A linear program of this size takes a hundredth of a second.
    chosen = np.linspace(0, len(grid) - 1, min(150, len(grid)))
    return np.asarray(grid[np.unique(np.round(chosen).astype(int))])


def _equilibrium(payoff: Payoff, rows: Array, columns: Array) -> tuple[Strategy, Strategy, float]:
    """Return the best mixture of some stops, the spectrum of its dual, and their value."""
    table = payoff(rows, columns)
    # The variables are the weights of the stops and the value, which is to be least.
    found = linprog(
        np.append(np.zeros(len(columns)), 1.0),
        A_ub=np.hstack([table, np.full((len(rows), 1), -1.0)]),
        b_ub=np.zeros(len(rows)),
        A_eq=np.append(np.ones(len(columns)), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * len(columns) + [(None, None)],
        method="highs",
    )
    if not found.success:
        raise WorkLimitError(f"The linear program failed: {found.message}")
    mixture = _without_zeros(columns, found.x[:-1])
    return mixture, _without_zeros(rows, -found.ineqlin.marginals), float(found.fun)


def _without_zeros(points: Array, weights: Array) -> Strategy:
    kept = weights > 1e-9 * weights.max()  # smaller ones are rounding errors of the solver
    return Strategy(points[kept], weights[kept] / weights[kept].sum())


def _peaks(heights: Array, level: float) -> NDArray[np.intp]:
    """Return the indices of local maxima above a level, both ends included."""
    padded = np.concatenate([[-np.inf], heights, [-np.inf]])
    is_peak = (heights >= padded[:-2]) & (heights >= padded[2:]) & (heights > level)
    return np.flatnonzero(is_peak)


def _merged(strategy: Strategy) -> Strategy:
    points, weights = strategy
    # Points within two thousandths change a sum of squares by a few millionths.
    group = np.cumsum(np.append(True, np.diff(points) > 2e-3 * points[:-1])) - 1
    total = np.bincount(group, weights).astype(np.float64)
    return Strategy(np.bincount(group, weights * points) / total, total)
