"""Searches: the lowest point of a curve with many dips, and the worst eigendirection at a stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar

from stoptime.methods.base import Filter
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.recurrence import Iteration
from stoptime.support.arrays import EPS, Array

Curve = Callable[[Array], Array]
Ratio = Callable[[Filter, Array, ArrayLike], Array]

PHASES = np.concatenate([np.geomspace(1e-3, 0.05, 30), np.arange(1, 1600) * 0.05])
RANGE_POINTS = 3000  # eigenvalues that stand for a whole range of them, at most
MOST_PEAKS = 100  # peaks that are refined: on a plateau every point is a peak


def dips(heights: Array) -> NDArray[np.intp]:
    """Return the inner indices of a curve that are no higher than both neighbours."""
    inner = heights[1:-1]
    return 1 + np.flatnonzero((inner <= heights[:-2]) & (inner <= heights[2:]))


def lowest(
    curve: Curve,
    grid: Array,
    most_dips: int = MOST_PEAKS,
    zooms: int = 4,
    margin: float = np.inf,
    *,
    whole: bool = False,
) -> tuple[float, float]:
    """Return the lowest point of a curve and its height: on a grid, then closer to its dips.

    A dip that is higher by more than the margin, relative to the lowest point, is not refined. The
    curve may be one of ``whole`` numbers, and then the grid is one of these too.
    """
    heights = curve(grid)
    point = float(grid[heights.argmin()])
    least = float(heights.min())
    inner = dips(heights)
    inner = inner[np.isfinite(grid[inner + 1]) & (heights[inner] - least <= margin * abs(least))]
    deepest = inner[np.argsort(heights[inner], kind="stable")[:most_dips]]
    left = grid[deepest - 1]
    right = grid[deepest + 1]
    # every zoom makes the brackets of the deepest dips ten times shorter, and those of an
    # iteration, which repeats its run for each zoom, thirty times
    count = 61 if whole else 21
    for _ in range(zooms):
        if whole:
            unseen = right - left > 2
            left = left[unseen]
            right = right[unseen]
        if not len(left):
            break
        points = np.linspace(left, right, count)
        if whole:
            points = np.round(points)
        heights = curve(points)
        if heights.min() < least:
            point = float(points.flat[heights.argmin()])
            least = float(heights.min())
        columns = np.arange(len(left))
        middle = np.clip(heights.argmin(axis=0), 1, count - 2)
        # A parabola through three points dips by at most a quarter of their spread below the
        # lowest of them. A bracket that cannot reach the best point so far is given up.
        around = heights[middle + np.array([[-1], [0], [1]]), columns]
        spread = np.ptp(around, axis=0)
        # heights that are equal to rounding, as on a plateau, promise nothing lower
        kept = (around.min(axis=0) - spread <= least) & (spread > 8 * EPS * abs(least))
        left = points[middle - 1, columns][kept]
        right = points[middle + 1, columns][kept]
    return point, least


def risk_ratio(method: Filter, x: Array, stop: ArrayLike) -> Array:
    """Return F(x): Bayes risk over optimal ridge risk of one eigendirection, for unit penalty."""
    return 1 + x * distance_ratio(method, x, stop)


def distance_ratio(method: Filter, x: Array, stop: ArrayLike) -> Array:
    """Return (φ(1+x) - 1)²: the squared relative distance from the ridge coefficient."""
    return (method.gain(x, stop) * (1 + x) - 1) ** 2


@lru_cache(maxsize=64)
def stop_with_gain(method: Filter, gain: float = 1.0) -> float:
    """Return the t with φ(0, t) = gain; for an iteration that of its flow, not rounded.

    Where φ(0, t) = 0, as for a steep edge, it is the t at which the largest gain has this value. A
    method that never has this gain, because of decay or the end of a schedule, is stopped where it
    changes no more.
    """
    if isinstance(method, Iteration):
        if method.follows_flow:
            return stop_with_gain(method.as_flow(), gain) / method.pace
        gains = _gains_at_zero(method)
        return float(np.interp(gain, gains, np.arange(len(gains))))
    unit = method.in_units_of(1 / gain)

    def excess(log_stop: float) -> float:
        with np.errstate(divide="ignore"):
            return float(np.log(gain_at(unit, float(np.exp(log_stop)))))

    return float(np.exp(brentq(excess, -350, 350))) * float(gain ** (1 / method.time_power))


def gain_at(method: Filter, stop: float) -> float:
    """Return φ(0, t), by which stops are compared with ridge, or the largest gain where it is 0."""
    return float(method.gain(0.0, stop)) or float(method.largest_gain(stop))


@lru_cache(maxsize=16)
def _gains_at_zero(method: Iteration) -> Array:
    """Return φ(0, k) at all iterations up to the horizon; it never falls."""
    return np.maximum.accumulate(method.gain(0.0, np.arange(method.horizon + 1)))


def affordable(method: Filter, stops: Any) -> tuple[Filter, Any]:
    """Return the flow and its times in place of an iteration with stops beyond its horizon."""
    beyond = np.max(stops) > method.horizon
    if beyond and isinstance(method, Iteration) and method.follows_flow:
        return method.as_flow(), method.pace * stops
    return method, stops


def peak_grid(method: Filter, stops: float | Array, low: float, high: float) -> Array:
    """Return a grid of x in [low, high] that shows all peaks, along an axis before the stops."""
    columns = (-1,) + (1,) * np.ndim(stops)
    if isinstance(method, SpectralCutoff):
        return method.counted.reshape(columns)
    if np.isfinite(high):
        radians = (method.pace * np.max(stops)) ** (method.time_power / 2) * np.sqrt(high)
        # thirty points for each radian of the phase that the largest eigenvalue has reached
        return eigenvalue_grid(low, high, 30.0 * radians).reshape(columns)
    # even phases, u = t√x in units of the frequency at which learning begins (1 for friction 3)
    unit = stop_with_gain(method) / np.sqrt(8) if method.time_power == 2 else 1.0
    phases = np.append(0.0, PHASES).reshape(columns)
    return np.asarray((phases * max(unit, 1.0) / stops) ** method.time_power)


def out_of_phase(method: Iteration, stop: float, low: float, high: float) -> tuple[float, float]:
    """Estimate both ratios of a late iterate, whose oscillation leaves that of its flow."""
    flow = method.as_flow()
    # below this part of the largest eigenvalue an iterate and its flow are in phase
    x = eigenvalue_grid(max(low, 1e-9 * high), high)
    root = np.sqrt(x)
    time = method.pace * stop
    ahead = 1e-5 / root
    g = flow.shrinkage(x, time)
    slope = (flow.shrinkage(x, time + ahead) - flow.shrinkage(x, time - ahead)) / 2e-5
    # the amplitude of an iterate with steps up to 1/L exceeds that of its flow by less
    size = 1.2 * np.hypot(g, slope)
    # k steps of phase ω are off by about kω³/24 in the end, and the first one by ω/2, which moves a
    # cosine by less than kω² too
    phase = method.pace * root
    first = phase * np.minimum(stop * phase, 1.0)
    apart = 2 * size * np.minimum(stop * phase**3 / 12 + first, 1.0)
    # both ratios are squares of linear functions of g, and largest at an end of its interval
    ends = np.clip([g - apart, g + apart], -size, size)
    risk = 1 + ((root + 1 / root) * ends - 1 / root) ** 2
    distance = ((1 - ends) * (1 + x) / x - 1) ** 2
    return float(risk.max()), float(distance.max())


def closer_to_peaks(
    method: Filter, stop: float, x: Array, gain: Array, curves: list[Array]
) -> tuple[Array, Array]:
    """Return a grid that is up to a hundred times finer next to peaks of curves, and its gains."""
    closer = np.empty(0)
    for heights in curves:
        peaks = dips(-heights)
        peaks = peaks[heights[peaks] >= 0.99 * heights.max()]
        peaks = peaks[np.argsort(-heights[peaks], kind="stable")[:MOST_PEAKS]]
        # two thousand points around all peaks together, at most a tenth of them around one
        each = 2000 // max(len(peaks), 10)
        around = np.linspace(x[peaks - 1], x[peaks + 1], each + 1)[1:-1]
        closer = np.append(closer, around)
    points = np.append(x, closer)
    order = np.argsort(points)
    return points[order], np.append(gain, method.gain(closer, stop))[order]


def lowest_between(
    curve: Callable[[float], float], left: float, right: float, width: float = 1e-11
) -> float:
    """Return the lowest point of a curve, or one of several, without slopes, to a width."""
    options = {"xatol": width}
    found = minimize_scalar(curve, bounds=(left, right), method="bounded", options=options)
    return float(found.x)


def eigenvalue_grid(low: float, high: float, wanted: float = RANGE_POINTS) -> Array:
    """Return eigenvalues that are even in phase, and even in decades where phases are small."""
    count = int(np.clip(wanted, 300, RANGE_POINTS))
    even = np.linspace(np.sqrt(low), np.sqrt(high), count) ** 2
    return np.union1d(even, np.geomspace(max(low, high * 1e-12), high, RANGE_POINTS // 4))
