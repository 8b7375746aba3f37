r"""Where to look for the heavy ball's constant: floating-point search, no proof.

In the variables a = √(μ/λ*), α = √μ·t and y = √(s/μ) ∈ [1, √κ] the inflation is 1 + D² with

.. math:: D = a Y_1 - Y_2 / a, \qquad Y_1 = y\, g(\alpha, y), \quad Y_2 = (1 - g(\alpha, y)) / y \ge 0.

So for a given α the problems a with |D| ≤ d for all y form an interval, in closed form, and the
constant is the least 1 + d² at which the intervals of all α cover a ∈ (0, ∞).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.spatial import ConvexHull

from stoptime.bounds.enclosure import WorkLimitError
from stoptime.theory.search import dips

Array = NDArray[np.float64]
Points = tuple[Array, Array]

ROUNDS = 40
LOG_STOPS = 600
LINEAR_REACH = 4.0  # beyond this α the oscillation has died away
MAX_LINEAR_STOPS = 3000
MIN_SAMPLES = 65
HULL_FROM = 200  # samples; fewer are not worth the convex hull
CANDIDATES = 4

# Shares of the tolerance: how exactly the search finds the constant, and the margins left to the proofs.
SEARCH_SHARE, COVER_SHARE, CAP_SHARE, FLOOR_SHARE = 0.1, 0.15, 0.4, 0.3


@dataclass(frozen=True)
class Piece:
    """All problems a in [low, high] are to be stopped at α."""

    low: float
    high: float
    alpha: float


@dataclass(frozen=True)
class ProofPlan:
    """What is to be proven: a cover at level ``cap``, and ``floor`` at the problem ``worst``."""

    pieces: list[Piece]
    worst: float
    cap: float
    floor: float

    @property
    def stop(self) -> float:
        """The stop used for the worst problem, in units of 1/√λ*."""
        inside = [p for p in self.pieces if p.low <= self.worst <= p.high]
        return inside[0].alpha / self.worst if inside else 0.0


def close_bound(a: float, kappa: float) -> float:
    """Return a cap on |D| that falls in a, for the late stop α = 2·log(a√κ) + 4; see docs/certificates.md."""
    L = math.log(a * math.sqrt(kappa))
    g = (5 + 2 * L) * math.exp(-4 - 2 * L)
    return a * math.sqrt(kappa) * g + (1 + g) / a


def frequencies(alpha: float, kappa: float, spacing: float) -> Array:
    """Return samples of b = α·√(y² - 1)."""
    end = alpha * math.sqrt(kappa - 1)
    return np.linspace(0.0, end, max(MIN_SAMPLES, math.ceil(end / spacing) + 1))


def points(alpha: float, b: Array) -> Points:
    """Return Y₁ and Y₂ at the frequencies b."""
    u = np.hypot(alpha, b)
    g = np.exp(-alpha) * (np.cos(b) + alpha * np.sinc(b / np.pi))
    return u * g / alpha, alpha * (1 - g) / u


def height(at: Points, a: float) -> float:
    """Return the largest |D| of the problem a."""
    return float(np.abs(a * at[0] - at[1] / a).max())


def extreme(at: Points) -> Points:
    """Keep the corners of the convex hull: D is linear in (Y₁, Y₂), so no other point matters."""
    if at[0].size < HULL_FROM:
        return at
    corners = ConvexHull(np.column_stack(at)).vertices
    return at[0][corners], at[1][corners]


@dataclass(frozen=True)
class Family:
    """Stops α in growing order, each with the points (Y₁, Y₂) it can produce."""

    kappa: float
    spacing: float
    rows: dict[float, Points]

    def sample(self, alpha: float) -> Points:
        """Return the points of one stop, on the frequency grid."""
        return points(alpha, frequencies(alpha, self.kappa, self.spacing))

    def extended(self, alphas: list[float]) -> Family:
        """Return the family with more stops."""
        new = {alpha: extreme(self.sample(alpha)) for alpha in alphas}
        return Family(self.kappa, self.spacing, dict(sorted((self.rows | new).items())))

    @cached_property
    def alphas(self) -> Array:
        """All stops."""
        return np.array(list(self.rows))

    @cached_property
    def _flat(self) -> tuple[Array, Array, NDArray[np.intp]]:
        sizes = [at[0].size for at in self.rows.values()]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        Y1, Y2 = (np.concatenate([at[i] for at in self.rows.values()]) for i in (0, 1))
        return Y1, Y2, starts

    def heights(self, a: float) -> Array:
        """Return the largest |D| of the problem a, for every stop."""
        Y1, Y2, starts = self._flat
        return np.asarray(np.maximum.reduceat(np.abs(a * Y1 - Y2 / a), starts))

    def intervals(self, d: float) -> tuple[Array, Array]:
        """Return, for every stop, the interval of problems a with |D| ≤ d: the roots of two quadratics."""
        Y1, Y2, starts = self._flat
        square = d * d + 4 * Y1 * Y2
        root = d + np.sqrt(np.maximum(square, 0.0))
        with np.errstate(divide="ignore"):
            high = np.where(square >= 0, root / (2 * np.abs(Y1)), 0.0)
        low = np.where(square >= 0, 2 * Y2 / root, np.inf)
        return np.maximum.reduceat(low, starts), np.minimum.reduceat(high, starts)

    def cover(self, d: float) -> tuple[list[Piece], list[float]]:
        """Cover (0, ∞) greedily by problems with |D| ≤ d; return the pieces and where gaps begin."""
        low, high = self.intervals(d)
        at = d / math.sqrt(self.kappa)  # up to here doing nothing is good enough
        end = _closing_point(d, self.kappa)
        pieces: list[Piece] = []
        gaps: list[float] = []
        while at < end:
            reach = np.where(low <= at, high, 0.0)
            best = int(np.argmax(reach))
            if reach[best] > at:
                pieces.append(Piece(at, min(float(reach[best]), end), float(self.alphas[best])))
                at = pieces[-1].high
            else:
                gaps.append(at)
                at = float(np.min(low[(low > at) & (high > low)], initial=end))
        return pieces, gaps

    def best_stops(self, a: float) -> list[tuple[float, float]]:
        """Return (largest |D|, α) of the best stops of the problem a: local minima, refined."""
        heights, alphas = self.heights(a), self.alphas
        lowest = sorted(dips(heights).tolist(), key=lambda i: float(heights[i]))
        found = [(float(heights.min()), float(alphas[np.argmin(heights)]))]
        for i in lowest[:CANDIDATES]:
            refined = minimize_scalar(
                lambda alpha: height(self.sample(alpha), a),
                bounds=(alphas[i - 1], alphas[i + 1]),
                method="bounded",
                options={"xatol": 1e-7 * alphas[i]},
            )
            found.append((float(refined.fun), float(refined.x)))
        return sorted(found)


def _closing_point(d: float, kappa: float) -> float:
    first = max(1 / d, 1 / math.sqrt(kappa))
    if close_bound(first, kappa) <= d:
        return first
    return float(brentq(lambda a: close_bound(a, kappa) - d, first, 1e3 * first)) * (1 + 1e-9)


def _least_cover(family: Family, low: float, high: float) -> tuple[float, float]:
    """Return the least d that covers, and the last gap on the way there."""
    gap = 1.0
    while high - low > 1e-6 * high:
        d = 0.5 * (low + high)
        _, gaps = family.cover(d)
        if gaps:
            low, gap = d, gaps[0]
        else:
            high = d
    return high, gap


def _first_family(kappa: float, spacing: float, least: float) -> Family:
    root = math.sqrt(kappa)
    last = 2 * math.log(root / least) + 4  # the late stop of the hardest problem that may be asked
    linear = min(MAX_LINEAR_STOPS, math.ceil(2 * LINEAR_REACH * root))
    alphas = np.concatenate(
        [
            np.geomspace(0.02 / root, last, LOG_STOPS),
            np.linspace(0.0, LINEAR_REACH, linear + 1)[1:],
        ]
    )
    return Family(kappa, spacing, {}).extended(alphas.tolist())


def make_plan(kappa: float, tolerance: float) -> ProofPlan:
    """Find the constant of a condition number > 1 in floating point, and what to prove about it."""
    least = math.sqrt(SEARCH_SHARE * tolerance)  # below this the constant counts as 1
    family = _first_family(kappa, 0.6 * math.sqrt(tolerance), least)
    low, high = least, 2 * kappa**0.25
    for _ in range(ROUNDS):
        d, worst = _least_cover(family, low, high)
        best = family.best_stops(worst)
        floor = best[0][0]
        if d <= 1.01 * least or d**2 - floor**2 <= SEARCH_SHARE * tolerance * (1 + d**2):
            return _with_margins(family, d, min(floor, d), worst, tolerance)
        _, gaps = family.cover(math.sqrt((d**2 + floor**2) / 2))
        family = family.extended([alpha for a in gaps for _, alpha in family.best_stops(a)])
        high = d
    raise WorkLimitError(
        f"The search for the heavy-ball constant of condition number {kappa:g} did not settle; "
        f"ask for a larger tolerance than {tolerance:g}."
    )


def _with_margins(
    family: Family, d: float, floor: float, worst: float, tolerance: float
) -> ProofPlan:
    def excess(d: float, share: float) -> float:
        return (1 + d**2) * (1 + share * tolerance) - 1

    pieces, gaps = family.cover(math.sqrt(excess(d, COVER_SHARE)))
    if gaps:
        raise WorkLimitError(f"The cover of all problems has a gap at a = {gaps[0]:g}.")
    return ProofPlan(pieces, worst, excess(d, CAP_SHARE), excess(floor, -FLOOR_SHARE))
