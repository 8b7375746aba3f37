r"""The search for heavy-ball flow's constant: floating-point arithmetic that proves nothing.

In the variables a = √(μ/λ*), α = √μ·t and y = √(s/μ) ∈ [1, √κ] the inflation is 1 + D² with

.. math:: D = a Y_1 - Y_2 / a, \qquad
          Y_1 = y\, g(\alpha, y), \quad Y_2 = (1 - g(\alpha, y)) / y \ge 0,

where g = e^{-α}(cos cα + sin(cα)/c) and c² = y² - 1. So for a given α the problems a with |D| ≤ d
for all y form an interval, in closed form, and the constant is the least 1 + d² at which the
intervals of all α cover a ∈ (0, ∞).

Where the best stop moves smoothly with the problem, each α serves few others. So the first problems
have a stop that moves: every α of some range serves the one problem a(α) with D(√κ) = -D(1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial import ConvexHull

from stoptime.bounds.balls import Interval, WorkLimitError
from stoptime.support.arrays import Array
from stoptime.theory.search import KINK_TOLERANCE, ROUGHLY, dips, lowest, lowest_between

ROUNDS = 40
LOG_STOPS = 600
LINEAR_REACH = 4.0  # the oscillation is negligible for α beyond this
MAX_LINEAR_STOPS = 3000
MIN_SAMPLES = 65
COARSE_SPACING = 0.02  # of the samples of b that find the best stops to about a thousandth
PEAK_SPACING = 0.1  # of the samples of b around whose highest peaks a search looks closer
GAP_WINDOW = 0.02  # of log a, around a gap of a cover
MOST_STOPS_ADDED = 500  # at once
GAP_POINTS = 8  # problems of each gap whose best stops are added
NEARBY = 16  # problems on each side of the worst one whose best stops are added
HULL_FROM = 200  # samples; for fewer, a convex hull costs more than it saves
CANDIDATES = 4
NO_PROBLEM = 1e100
CANDIDATE_HEIGHT = 1.1  # relative to the lowest one on the grid
SMOOTH = 2.0  # the largest condition number that has moving stops: more are served by few stops

# Shares of the tolerance: the error of the search, and the margins that make the proofs succeed.
SEARCH_SHARE = 0.1
COVER_SHARE = 0.15
CAP_SHARE = 0.4
FLOOR_SHARE = 0.3
WIDTH_SHARE = 0.05  # of the margin of the cover, to which stops are found


class Piece(NamedTuple):
    """All problems a in [low, high] are to be stopped at α."""

    low: float
    high: float
    alpha: float


Cover = tuple[list[Piece], list[Interval]]  # the pieces, and the gaps that they leave


class ProofPlan(NamedTuple):
    """The claims to be proven: a cover at level ``cap``, and ``floor`` at the problem ``worst``."""

    moving: Interval | None  # each stop α in it serves the problem a(α)
    pieces: list[Piece]  # from there on
    worst: float
    cap: float
    floor: float
    stop: float  # for the problem ``worst``, in units of 1/√λ*


def parts(alpha: float, b: Array) -> Array:
    """Return Y₁ and Y₂ at the phases b = α·√(y² - 1), as two rows."""
    u = np.hypot(alpha, b)
    g = np.exp(-alpha) * (np.cos(b) + alpha * np.sinc(b / np.pi))
    return np.array([u * g / alpha, alpha * (1 - g) / u])


def phases(alpha: float, kappa: float, spacing: float) -> Array:
    """Return samples of b = α·√(y² - 1)."""
    end = alpha * math.sqrt(kappa - 1)
    return np.linspace(0.0, end, max(MIN_SAMPLES, math.ceil(end / spacing) + 1))


def highest(a: float, alpha: float, kappa: float) -> tuple[float, float]:
    """Return the phase b at which |D| is largest, and |D| there: refined between samples."""

    def depth(b: Array) -> Array:
        Y1, Y2 = parts(alpha, b)
        return np.asarray(-np.abs(a * Y1 - Y2 / a))

    grid = phases(alpha, kappa, PEAK_SPACING)
    # Between samples at this distance a peak gains about a thousandth.
    b, height = lowest(depth, grid, margin=0.01)
    return b, -height


class Points(NamedTuple):
    """The points (Y₁, Y₂) of many stops one after another; ``starts`` are their first indices."""

    Y1: Array
    Y2: Array
    starts: NDArray[np.intp]
    stops: list[float]


def points_of(rows: dict[float, Array]) -> Points:
    """Join the points of all stops."""
    sizes = [at.shape[1] for at in rows.values()]
    Y1, Y2 = np.concatenate(list(rows.values()), axis=1)
    return Points(Y1, Y2, np.cumsum([0, *sizes[:-1]]), list(rows))


def corners(at: Array) -> Array:
    """Return those points of one stop that matter: D is linear in (Y₁, Y₂), so a convex hull."""
    return at if at.shape[1] < HULL_FROM else at[:, ConvexHull(at.T).vertices]


def limits(at: Array, d: float) -> tuple[Array, Array]:
    """Return the least and the largest problem a with |D| ≤ d, for every point (Y₁, Y₂)."""
    # The problems end at roots of quadratics. This form of the roots adds two positive numbers, so
    # nothing cancels.
    Y1, Y2 = at
    square = d * d + 4 * Y1 * Y2
    root = d + np.sqrt(np.maximum(square, 0.0))
    with np.errstate(divide="ignore", over="ignore"):
        highs = np.where(square >= 0, root / (2 * np.abs(Y1)), 0.0)
    # The number stands for infinity, which the searches could not subtract.
    return np.where(square >= 0, 2 * np.abs(Y2) / root, NO_PROBLEM), highs


def intervals(points: Points, d: float) -> tuple[Array, Array]:
    """Return the ends of the interval of problems with |D| ≤ d, for every stop."""
    lows, highs = limits(np.array([points.Y1, points.Y2]), d)
    return np.maximum.reduceat(lows, points.starts), np.minimum.reduceat(highs, points.starts)


def refined_interval(alpha: float, kappa: float, d: float) -> tuple[float, float]:
    """Return the ends of the interval of one stop of the flow, refined between samples."""
    grid = phases(alpha, kappa, PEAK_SPACING)
    low = lowest(lambda b: -limits(parts(alpha, b), d)[0], grid)[1]
    high = lowest(lambda b: limits(parts(alpha, b), d)[1], grid)[1]
    return -low, high


def greedy_cover(stops: list[float], ends: tuple[Array, Array], at: float, end: float) -> Cover:
    """Cover the problems from ``at`` to ``end``; return the pieces and the gaps."""
    low, high = ends
    pieces: list[Piece] = []
    gaps: list[Interval] = []
    # The greedy choice, the interval that reaches farthest, gives the fewest pieces to prove.
    while at < end:
        reach = np.where(low <= at, high, 0.0)
        best = int(np.argmax(reach))
        if reach[best] > at:
            pieces.append(Piece(at, min(float(reach[best]), end), stops[best]))
            at = pieces[-1].high
        else:
            start = at
            at = float(np.min(low[(low > at) & (high > low)], initial=end))
            gaps.append((start, at))
    return pieces, gaps


@dataclass(frozen=True)
class Family:
    """Stops α in growing order, each with the points (Y₁, Y₂) it can produce."""

    kappa: float
    alphas: list[float]
    width: float = KINK_TOLERANCE  # to which logarithms of stops and problems are searched for

    @cached_property
    def _points(self) -> Points:
        samples = {
            alpha: corners(parts(alpha, phases(alpha, self.kappa, COARSE_SPACING)))
            for alpha in self.alphas
        }
        return points_of(samples)

    def balanced(self, alpha: float) -> tuple[float, float]:
        """Return the problem a(α) and its largest |D| at the stop α, infinite if there is none."""
        Y1, Y2 = parts(alpha, np.array([0.0, alpha * math.sqrt(self.kappa - 1)])).sum(axis=1)
        a = math.sqrt(Y2 / Y1) if Y1 > 0 else math.inf
        return a, highest(a, alpha, self.kappa)[1] if Y1 > 0 else NO_PROBLEM

    @cached_property
    def _moving(self) -> list[tuple[float, float, float]]:
        """Stops in growing order, a(α) and the largest |D| there, with all peaks among them."""
        alphas = self.alphas
        inner = dips(-np.array([self.balanced(alpha)[1] for alpha in alphas])).tolist()
        peaks = [
            lowest_between(lambda at: -self.balanced(at)[1], alphas[i - 1], alphas[i + 1], ROUGHLY)
            for i in inner
        ]
        return [(alpha, *self.balanced(alpha)) for alpha in sorted([*alphas, *peaks])]

    def moving(self, d: float) -> Interval | None:
        """Return stops, from an early one on, that all have |D| ≤ d at their problems a(α)."""
        if self.kappa > SMOOTH:
            return None
        # For small α the problem is about α/√2, and the stop 0 serves a ≤ d/√κ.
        first = good = d / math.sqrt(self.kappa)
        for alpha, problem, height in self._moving:
            if height > d:
                good = brentq(lambda at: min(self.balanced(at)[1] - d, d), good, alpha)
                break
            good = max(good, alpha)
            if problem > _closing_point(d, self.kappa):
                break
        return first, good

    def cover(self, d: float) -> Cover:
        """Cover (0, ∞) by problems with |D| ≤ d, up to the distance of the samples."""
        return self.cover_by(self.alphas, intervals(self._points, d), d)

    def cover_by(self, stops: list[float], ends: tuple[Array, Array], d: float) -> Cover:
        """Cover the problems that neither a moving stop nor a late one serves by other stops."""
        moving = self.moving(d)
        start = self.balanced(moving[1])[0] if moving else d / math.sqrt(self.kappa)
        # The factor moves the start to the safe side of its rounding error.
        return greedy_cover(stops, ends, start * (1 - 1e-9), _closing_point(d, self.kappa))

    def useful(self, d: float) -> list[float]:
        """Return the stops that have |D| ≤ d at some problem, up to the distance of the samples."""
        low, high = intervals(self._points, d)
        return [alpha for alpha, found in zip(self.alphas, low <= high, strict=True) if found]

    def best_stops(self, a: float) -> list[tuple[float, float]]:
        """Return (largest |D|, α) of the best stops of the problem a: local minima, refined."""
        Y1, Y2, starts, _ = self._points
        heights = np.maximum.reduceat(np.abs(a * Y1 - Y2 / a), starts)

        def height(log_stop: float) -> float:
            return highest(a, math.exp(log_stop), self.kappa)[1]

        # |D| oscillates in α, so the lowest minimum between the stops may be any of the best few.
        deepest = sorted(dips(heights).tolist(), key=lambda i: float(heights[i]))[:CANDIDATES]
        logs = np.log(self.alphas)
        found = [float(logs[int(np.argmin(heights))])]
        found += [
            lowest_between(height, logs[i - 1], logs[i + 1], self.width)
            for i in deepest
            if heights[i] <= CANDIDATE_HEIGHT * heights.min()
        ]
        return sorted((height(log_stop), math.exp(log_stop)) for log_stop in found)


def _closing_point(d: float, kappa: float) -> float:
    """Return a problem a from which on the late stop α = 2·log(a√κ) + 4 has |D| ≤ d."""

    def cap(a: float) -> float:
        L = math.log(a * math.sqrt(kappa))
        g = (5 + 2 * L) * math.exp(-4 - 2 * L)
        return a * math.sqrt(kappa) * g + (1 + g) / a

    first = max(1 / d, 1 / math.sqrt(kappa))
    if cap(first) <= d:
        return first
    # The factor moves the root to the safe side of its rounding error.
    return float(brentq(lambda a: cap(a) - d, first, 1e3 * first)) * (1 + 1e-9)


def least_cover(cover: Callable[[float], Cover], low: float, high: float) -> tuple[float, float]:
    """Return the least d that covers all problems, and where the last gap found begins."""
    gap = 1.0
    while high - low > 1e-6 * high:
        d = 0.5 * (low + high)
        _, gaps = cover(d)
        if gaps:
            low = d
            gap = gaps[0][0]
        else:
            high = d
    return high, gap


def _worst_near(grid: Family, gap: float) -> tuple[float, float]:
    """Return the largest |D| of a best stop near a gap of a cover, and its problem."""
    window = math.log(gap) - GAP_WINDOW, math.log(gap) + GAP_WINDOW
    log = lowest_between(lambda log: -grid.best_stops(math.exp(log))[0][0], *window, grid.width)
    return max((grid.best_stops(a)[0][0], a) for a in (gap, math.exp(log)))


def raised_excess(d: float, share: float) -> float:
    """Return the excess d², raised by a share of the whole constant 1 + d²."""
    return (1 + d**2) * (1 + share) - 1


def make_plan(kappa: float, tolerance: float) -> ProofPlan:
    """Find the constant of a condition number > 1 in floating point, and the claims to prove."""
    least = math.sqrt(SEARCH_SHARE * tolerance)  # below this the constant counts as 1
    share = COVER_SHARE * tolerance
    root = math.sqrt(kappa)
    last = 2 * math.log(root / least) + 4  # the late stop of the largest a that may be needed
    linear = min(MAX_LINEAR_STOPS, math.ceil(2 * LINEAR_REACH * root))
    # For small a the best stop is about √2·a, and the stop 0 serves a ≤ ``least``/√κ.
    alphas = {
        *np.geomspace(min(0.02, least) / root, last, LOG_STOPS).tolist(),
        *np.linspace(0.0, LINEAR_REACH, linear + 1)[1:].tolist(),
    }
    grid = Family(kappa, sorted(alphas), WIDTH_SHARE * share)
    coarse, gap = least_cover(grid.cover, least, 2 * kappa**0.25)
    floor, worst = _worst_near(grid, gap) if coarse > 1.01 * least else (0.0, 1.0)
    reach: dict[float, Interval] = {}
    d = 0.0
    # Problems near the worst one have stops that serve few others, so many stops are offered.
    near = np.geomspace(grid.width, GAP_WINDOW, NEARBY)
    closer = (worst * np.exp(np.outer([-1, 1], near))).ravel().tolist()
    for _ in range(ROUNDS):
        level = math.sqrt(raised_excess(max(floor, least), share))
        best = [(*grid.best_stops(a)[0], a) for a in [worst, *closer]]
        stops = {alpha for _, alpha, _ in best} | reach.keys()
        if level > d:
            d = level
            stops |= {*grid.useful(d)}
            reach = {}
        reach |= {alpha: refined_interval(alpha, kappa, d) for alpha in stops - reach.keys()}
        ends = np.array([*reach.values()]).T
        pieces, gaps = grid.cover_by([*reach], (ends[0], ends[1]), d)
        if not gaps:
            cap = raised_excess(max(floor, least), CAP_SHARE * tolerance)
            below = raised_excess(floor, -FLOOR_SHARE * tolerance)
            # The hardest problem often has two equally good stops.
            stop = min(at for height, at in grid.best_stops(worst) if height <= d) / worst
            return ProofPlan(grid.moving(d), pieces, worst, cap, below, stop)
        # Either the best stops of a gap close it, or one of its problems is worse than the worst.
        if max(best)[0] > d:
            floor, worst = _worst_near(grid, max(best)[2])
        closer = [a for gap in gaps for a in np.linspace(*gap, GAP_POINTS).tolist()]
        if len(closer) > MOST_STOPS_ADDED:
            break
    raise WorkLimitError(
        f"The cover of all problems with condition number {kappa:g} needs too many stops: use a "
        "larger tolerance, such as 1e-3."
    )
