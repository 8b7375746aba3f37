r"""The search for heavy-ball flow's constant: floating-point arithmetic that proves nothing.

In the variables a = √(μ/λ*), α = √μ·t and y = √(s/μ) ∈ [1, √κ] the inflation is 1 + D² with

.. math:: D = a Y_1 - Y_2 / a, \qquad
          Y_1 = y\, g(\alpha, y), \quad Y_2 = (1 - g(\alpha, y)) / y \ge 0,

where g = e^{-α}(cos cα + sin(cα)/c) and c² = y² - 1. So for a given α the problems a with |D| ≤ d
for all y form an interval, in closed form, and the constant is the least 1 + d² at which the
intervals of all α cover a ∈ (0, ∞).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.spatial import ConvexHull

from stoptime.bounds.balls import WorkLimitError
from stoptime.support.arrays import Array
from stoptime.theory.search import dips

ROUNDS = 40
LOG_STOPS = 600
LINEAR_REACH = 4.0  # the oscillation is negligible for α beyond this
MAX_LINEAR_STOPS = 3000
MIN_SAMPLES = 65
HULL_FROM = 200  # samples; for fewer, a convex hull costs more than it saves
CANDIDATES = 4

# Shares of the tolerance: the error of the search, and the margins that make the proofs succeed.
SEARCH_SHARE = 0.1
COVER_SHARE = 0.15
CAP_SHARE = 0.4
FLOOR_SHARE = 0.3


class Piece(NamedTuple):
    """All problems a in [low, high] are to be stopped at α."""

    low: float
    high: float
    alpha: float


Cover = Callable[[float], tuple[list[Piece], list[float]]]


class ProofPlan(NamedTuple):
    """The claims to be proven: a cover at level ``cap``, and ``floor`` at the problem ``worst``."""

    pieces: list[Piece]
    worst: float
    cap: float
    floor: float
    stop: float  # for the problem ``worst``, in units of 1/√λ*


def samples(alpha: float, kappa: float, spacing: float) -> tuple[Array, Array]:
    """Return samples of b = α·√(y² - 1), and Y₁ and Y₂ there as two rows."""
    end = alpha * math.sqrt(kappa - 1)
    b = np.linspace(0.0, end, max(MIN_SAMPLES, math.ceil(end / spacing) + 1))
    u = np.hypot(alpha, b)
    g = np.exp(-alpha) * (np.cos(b) + alpha * np.sinc(b / np.pi))
    return b, np.array([u * g / alpha, alpha * (1 - g) / u])


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


def intervals(points: Points, d: float) -> tuple[Array, Array]:
    """Return the ends of the interval of problems with |D| ≤ d, for every stop."""
    # For each point the problems with |D| ≤ d end at roots of quadratics. This form of the
    # roots adds two positive numbers, so nothing cancels.
    Y1, Y2, starts, _ = points
    square = d * d + 4 * Y1 * Y2
    root = d + np.sqrt(np.maximum(square, 0.0))
    with np.errstate(divide="ignore", over="ignore"):
        highs = np.where(square >= 0, root / (2 * np.abs(Y1)), 0.0)
    lows = np.where(square >= 0, 2 * Y2 / root, np.inf)
    return np.maximum.reduceat(lows, starts), np.minimum.reduceat(highs, starts)


def greedy_cover(
    points: Points, d: float, at: float, end: float
) -> tuple[list[Piece], list[float]]:
    """Cover the problems from ``at`` to ``end``; return the pieces and where gaps begin."""
    low, high = intervals(points, d)
    pieces: list[Piece] = []
    gaps: list[float] = []
    # The greedy choice, the interval that reaches farthest, gives the fewest pieces to prove.
    while at < end:
        reach = np.where(low <= at, high, 0.0)
        best = int(np.argmax(reach))
        if reach[best] > at:
            pieces.append(Piece(at, min(float(reach[best]), end), points.stops[best]))
            at = pieces[-1].high
        else:
            gaps.append(at)
            at = float(np.min(low[(low > at) & (high > low)], initial=end))
    return pieces, gaps


@dataclass(frozen=True)
class Family:
    """Stops α in growing order, each with the points (Y₁, Y₂) it can produce."""

    kappa: float
    spacing: float
    rows: dict[float, Array]

    def extended(self, alphas: list[float]) -> Family:
        """Return the family with more stops."""
        rows = dict(self.rows)
        for alpha in alphas:
            _, at = samples(alpha, self.kappa, self.spacing)
            rows[alpha] = corners(at)
        return Family(self.kappa, self.spacing, dict(sorted(rows.items())))

    @cached_property
    def _points(self) -> Points:
        return points_of(self.rows)

    def cover(self, d: float) -> tuple[list[Piece], list[float]]:
        """Cover (0, ∞) by problems with |D| ≤ d; return the pieces and where gaps begin."""
        # Below this problem the stop 0 is good enough, and beyond the end a late stop is.
        at = d / math.sqrt(self.kappa)
        return greedy_cover(self._points, d, at, _closing_point(d, self.kappa))

    def best_stops(self, a: float) -> list[tuple[float, float]]:
        """Return (largest |D|, α) of the best stops of the problem a: local minima, refined."""
        Y1, Y2, starts, _ = self._points
        heights = np.maximum.reduceat(np.abs(a * Y1 - Y2 / a), starts)
        alphas = list(self.rows)

        def height(alpha: float) -> float:
            _, (Y1, Y2) = samples(alpha, self.kappa, self.spacing)
            return float(np.abs(a * Y1 - Y2 / a).max())

        found = [(float(heights.min()), alphas[int(np.argmin(heights))])]
        # |D| oscillates in α, so the lowest minimum between the stops may be any of the best few.
        for i in sorted(dips(heights).tolist(), key=lambda i: float(heights[i]))[:CANDIDATES]:
            bounds = (alphas[i - 1], alphas[i + 1])
            options = {"xatol": 1e-7 * alphas[i]}
            refined = minimize_scalar(height, bounds=bounds, method="bounded", options=options)
            found.append((float(refined.fun), float(refined.x)))
        return sorted(found)


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


def least_cover(cover: Cover, low: float, high: float) -> tuple[float, float]:
    """Return the least d that covers all problems, and the last gap found on the way."""
    gap = 1.0
    while high - low > 1e-6 * high:
        d = 0.5 * (low + high)
        _, gaps = cover(d)
        if gaps:
            low = d
            gap = gaps[0]
        else:
            high = d
    return high, gap


def make_plan(kappa: float, tolerance: float) -> ProofPlan:
    """Find the constant of a condition number > 1 in floating point, and the claims to prove."""
    root = math.sqrt(kappa)
    least = math.sqrt(SEARCH_SHARE * tolerance)  # below this the constant counts as 1
    last = 2 * math.log(root / least) + 4  # the late stop of the largest a that may be needed
    linear = min(MAX_LINEAR_STOPS, math.ceil(2 * LINEAR_REACH * root))
    alphas = [
        *np.geomspace(0.02 / root, last, LOG_STOPS).tolist(),
        *np.linspace(0.0, LINEAR_REACH, linear + 1)[1:].tolist(),
    ]
    family = Family(kappa, 0.6 * math.sqrt(tolerance), {}).extended(alphas)
    high = 2 * kappa**0.25
    for _ in range(ROUNDS):
        d, worst = least_cover(family.cover, least, high)
        floor = family.best_stops(worst)[0][0]
        if d <= 1.01 * least or d**2 - floor**2 <= SEARCH_SHARE * tolerance * (1 + d**2):
            break
        # Between floor and d only the gaps matter: the best stops there let the cover improve.
        _, gaps = family.cover(math.sqrt((d**2 + floor**2) / 2))
        family = family.extended([alpha for a in gaps for _, alpha in family.best_stops(a)])
        high = d
    else:
        raise WorkLimitError(
            f"The search for the heavy-ball constant of condition number {kappa:g} did not "
            f"converge; use a larger tolerance than {tolerance:g}."
        )

    def excess(d: float, share: float) -> float:
        return (1 + d**2) * (1 + share * tolerance) - 1

    pieces, gaps = family.cover(math.sqrt(excess(d, COVER_SHARE)))
    if gaps:
        raise WorkLimitError(f"The cover of all problems has a gap at a = {gaps[0]:g}.")
    stop = next((p.alpha / worst for p in pieces if p.low <= worst <= p.high), 0.0)
    floor = excess(min(floor, d), -FLOOR_SHARE)
    return ProofPlan(pieces, worst, excess(d, CAP_SHARE), floor, stop)
