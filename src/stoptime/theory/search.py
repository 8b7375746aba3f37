"""Searches: the lowest point of a curve with many dips, and the worst eigendirection at a stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar

from stoptime.methods.base import Filter
from stoptime.methods.recurrence import Iteration, Places
from stoptime.support.arrays import EPS, Array

Curve = Callable[[Array], Array]
Ratio = Callable[[Filter, Array, ArrayLike], Array]

ZOOM_POINTS = 21  # in each bracket; the next bracket is ten times shorter
CLOSER_POINTS = 2000  # around all peaks together, at most a tenth of them around one
PHASES = np.concatenate([np.geomspace(1e-3, 0.05, 30), np.arange(1, 1600) * 0.05])
RANGE_POINTS = 3000  # eigenvalues that stand for a whole range of them, at most
LEAST_POINTS = 300
POINTS_PER_RADIAN = 30.0  # of the phase that the largest eigenvalue has reached
MOST_PEAKS = 100  # peaks that are refined: on a plateau every point is a peak
PEAK_ZOOMS = 4
PLATEAU = 8 * EPS  # of the lowest height: smaller differences are rounding
MOST_CUTS = 60
AMPLITUDE = 1.2  # of an iterate with steps up to 1/L, relative to that of its flow
PHASE_STEP = 1e-5
LEAST_OSCILLATING = 1e-9  # of the largest eigenvalue: below, an iterate and its flow are in phase
KINK_TOLERANCE = 1e-11  # relative height that a further cut could gain
MOST_WHOLE_ROUNDS = 8  # each makes the brackets of dips 32 times shorter
ROUGHLY = 1e-5  # width to which a point is searched for that another search refines


class Look(NamedTuple):
    """The height of a curve at a point, and its slope; lower ones come first."""

    height: float
    point: float
    slope: float


def dips(heights: Array) -> NDArray[np.intp]:
    """Return the inner indices of a curve that are no higher than both neighbours."""
    inner = heights[1:-1]
    return 1 + np.flatnonzero((inner <= heights[:-2]) & (inner <= heights[2:]))


def lowest(
    curve: Curve,
    grid: Array,
    most_dips: int = MOST_PEAKS,
    zooms: int = PEAK_ZOOMS,
    margin: float = np.inf,
) -> tuple[float, float]:
    """Return the lowest point of a curve and its height: on a grid, then closer to its dips."""
    heights = curve(grid)
    point = float(grid[heights.argmin()])
    least = float(heights.min())
    inner = dips(heights)
    # a dip that is higher by more than the margin, relative to the lowest point, is not refined
    inner = inner[np.isfinite(grid[inner + 1]) & (heights[inner] - least <= margin * abs(least))]
    deepest = inner[np.argsort(heights[inner], kind="stable")[:most_dips]]
    left = grid[deepest - 1]
    right = grid[deepest + 1]
    while len(left) and zooms > 0:
        zooms -= 1
        # every zoom makes the brackets of the deepest dips ten times shorter
        points = np.linspace(left, right, ZOOM_POINTS)
        heights = curve(points)
        if heights.min() < least:
            point = float(points.flat[heights.argmin()])
            least = float(heights.min())
        columns = np.arange(len(left))
        middle = np.clip(heights.argmin(axis=0), 1, ZOOM_POINTS - 2)
        # A parabola through three points dips by at most a quarter of their spread below the
        # lowest of them. A bracket that cannot reach the best point so far is given up.
        around = heights[middle + np.array([[-1], [0], [1]]), columns]
        spread = np.ptp(around, axis=0)
        # heights that are equal to rounding, as on a plateau, promise nothing lower
        kept = (around.min(axis=0) - spread <= least) & (spread > PLATEAU * abs(least))
        left = points[middle - 1, columns][kept]
        right = points[middle + 1, columns][kept]
    return point, least


def closer_stops(stops: NDArray[np.floating[Any]], places: Places, most: int = 64) -> Array:
    """Return at most ``most`` whole numbers around each of some indices of a sorted grid."""
    finite = stops[np.isfinite(stops)].astype(np.float64)
    found = np.empty(0)
    for place in np.unique(places[places < len(finite)]):
        low, high = finite[[max(place - 1, 0), min(place + 1, len(finite) - 1)]]
        around = np.linspace(low, high, int(min(high - low, most)) + 1)
        found = np.append(found, np.round(around))
    return np.setdiff1d(found, finite)


def lowest_whole(
    curve: Curve, closer: Array, most_dips: int, rounds: int = MOST_WHOLE_ROUNDS
) -> tuple[float, float]:
    """Return the whole number at which a curve is lowest, searching ever closer around its dips."""
    points = np.empty(0)
    heights = np.empty(0)
    # every round repeats the iteration from its start; on a plateau, where rounding makes new dips,
    # rounds without a limit would look at every whole number
    for _ in range(rounds):
        if not closer.size:
            break
        points = np.append(points, closer)
        order = np.argsort(points)
        points = points[order]
        heights = np.append(heights, curve(closer))[order]
        inner = dips(heights)
        deepest = inner[np.argsort(heights[inner])[:most_dips]]
        closer = closer_stops(points, np.append(deepest, np.argmin(heights)))
    best = int(np.argmin(heights))
    return float(points[best]), float(heights[best])


def risk_ratio(method: Filter, x: Array, stop: ArrayLike) -> Array:
    """Return F(x): Bayes risk over optimal ridge risk of one eigendirection, for unit penalty."""
    return 1 + x * distance_ratio(method, x, stop)


def distance_ratio(method: Filter, x: Array, stop: ArrayLike) -> Array:
    """Return (φ(1+x) - 1)²: the squared relative distance from the ridge coefficient."""
    return (method.gain(x, stop) * (1 + x) - 1) ** 2


@lru_cache(maxsize=64)
def stop_with_gain(method: Filter, gain: float = 1.0) -> float:
    """Return the t with φ(0, t) = gain; for an iteration that of its flow, not rounded.

    Where φ(0, t) = 0, as for a steep edge, it is the t at which the largest gain has this value.

    A method that never has this gain, because of decay or the end of a schedule, is stopped where
    it changes no more.
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


def affordable(method: Filter, stops: ArrayLike) -> tuple[Filter, Array]:
    """Return the flow and its times in place of an iteration with stops beyond its horizon."""
    t = np.asarray(stops, dtype=np.float64)
    if t.max() > method.horizon and isinstance(method, Iteration) and method.follows_flow:
        return method.as_flow(), method.pace * t
    return method, t


def highest_peak(
    method: Filter, ratio: Ratio, stop: float, low: float, high: float
) -> tuple[float, float]:
    """Return the x in [low, high] at which a ratio is largest, also between points of a grid."""
    if low == high:
        return low, float(ratio(method, np.array(low), stop))
    x = worst_places(method, stop, low, high)
    # the grid is so fine that a peak gains less than one percent between its points
    found, depth = lowest(lambda x: -ratio(method, x, stop), x, margin=0.01)
    return found, -depth


def worst_places(method: Filter, stop: float | Array, low: float, high: float) -> Array:
    """Return a grid of x in [low, high], with a column for every stop if the range is infinite."""
    if np.isfinite(high):
        radians = (method.pace * np.max(stop)) ** (method.time_power / 2) * np.sqrt(high)
        return eigenvalue_grid(low, high, POINTS_PER_RADIAN * radians)
    # even phases, u = t√x in units of the frequency at which learning begins (1 for friction 3)
    unit = stop_with_gain(method) / np.sqrt(8) if method.time_power == 2 else 1.0
    phases = np.append(0.0, PHASES).reshape((-1,) + (1,) * np.ndim(stop))
    return np.asarray((phases * max(unit, 1.0) / stop) ** method.time_power)


def out_of_phase(method: Iteration, stop: float, low: float, high: float) -> tuple[float, float]:
    """Return caps on both ratios of a late iterate, whose oscillation leaves that of its flow."""
    flow = method.as_flow()
    x = eigenvalue_grid(max(low, LEAST_OSCILLATING * high), high)
    root = np.sqrt(x)
    time = method.pace * stop
    ahead = PHASE_STEP / root
    g = flow.shrinkage(x, time)
    slope = (flow.shrinkage(x, time + ahead) - flow.shrinkage(x, time - ahead)) / (2 * PHASE_STEP)
    size = AMPLITUDE * np.hypot(g, slope)
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


def around_peaks(x: Array, heights: Array) -> Array:
    """Return points between those around each of the highest peaks of a curve."""
    peaks = dips(-heights)
    peaks = peaks[heights[peaks] >= 0.99 * heights.max()][:MOST_PEAKS]
    each = CLOSER_POINTS // max(len(peaks), 10)
    return np.linspace(x[peaks - 1], x[peaks + 1], each + 1)[1:-1].ravel()


def lowest_kink(look: Callable[[float], Look], grid: Array, place: int) -> float:
    """Return where a maximum of smooth curves is lowest, near a place of the grid."""
    near = far = look(float(grid[place]))
    ahead = 1 if near.slope < 0 else -1
    # go downhill until the slope changes its sign
    while 0 <= place + ahead < len(grid) and far.slope * ahead < 0 and far.height <= near.height:
        place += ahead
        near, far = far, look(float(grid[place]))
    left, right = (near, far) if ahead > 0 else (far, near)
    if left.slope < 0 < right.slope:
        found = _between_tangents(look, left, right)
        if found <= min(left, right):
            return found.point
    # There are several dips, or none: a search without slopes ends in one of them, or at an end.
    place -= 0 if far.height < near.height else ahead
    bounds = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
    return min(left, right, look(lowest_between(lambda x: look(x).height, *bounds))).point


def lowest_between(
    curve: Callable[[float], float], left: float, right: float, width: float = KINK_TOLERANCE
) -> float:
    """Return the lowest point of a curve, or one of several, without slopes, to a width."""
    options = {"xatol": width}
    found = minimize_scalar(curve, bounds=(left, right), method="bounded", options=options)
    return float(found.x)


def _between_tangents(look: Callable[[float], Look], left: Look, right: Look) -> Look:
    """Return the lowest point of a curve that falls on the left and rises on the right."""
    for cut in range(MOST_CUTS):
        width = right.point - left.point
        turn = right.slope - left.slope
        # Two curves cross at a kink, near the point where the tangents meet. One curve alone is
        # lowest where its slope is zero, near the point where a line through both slopes is.
        ahead = (left.height - right.height + right.slope * width) / turn
        promise = min(left.height, right.height) - (left.height + left.slope * ahead)
        done = width <= KINK_TOLERANCE or 0 <= promise <= KINK_TOLERANCE * abs(left.height)
        if done or cut % 2:
            ahead = -left.slope * width / turn
        elif promise < 0:
            # the curve is not above its tangents, so that they say nothing
            ahead = width / 2
        found = look(left.point + float(np.clip(ahead, 0.001 * width, 0.999 * width)))
        if done:
            break
        left, right = (left, found) if found.slope > 0 else (found, right)
    return min(left, right, found)


def eigenvalue_grid(low: float, high: float, wanted: float = RANGE_POINTS) -> Array:
    """Return eigenvalues that are even in phase, and even in decades where phases are small."""
    count = int(np.clip(wanted, LEAST_POINTS, RANGE_POINTS))
    even = np.linspace(np.sqrt(low), np.sqrt(high), count) ** 2
    return np.union1d(even, np.geomspace(max(low, high * 1e-12), high, RANGE_POINTS // 4))
