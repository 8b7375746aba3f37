r"""The heavy ball's risk inflation over oracle ridge as a function of the condition number, enclosed.

.. math:: C(\kappa) = \max_{a > 0} \min_{\alpha \ge 0} \max_{1 \le y \le \sqrt\kappa} 1 + D^2, \qquad
          D = a y g - \frac{1 - g}{a y},

with g = e^{-α}(cos cα + sin(cα)/c), c² = y² - 1. For fixed α and y, |D| is quasi-convex in a: over an
interval of a it is largest at one of the two ends. So a finite list of intervals, each with one stop,
proves the upper end.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stoptime.bounds.balls import (
    Box,
    centre_and_radius,
    centred,
    downward,
    exact,
    hull,
    upward,
    verify,
)
from stoptime.bounds.enclosure import Enclosure, WorkLimitError
from stoptime.bounds.heavy_ball_plan import Piece, frequencies, make_plan, points
from stoptime.bounds.oscillator import expand

if TYPE_CHECKING:
    from flint import arb

WITNESS_SPACING = 0.1
TINY = 1e-300
STOP_OF_EQUAL_EIGENVALUES = 1.6783469900166608  # (1 + α)e^{-α} = 1/2: exact ridge at a = 1


def heavy_ball_inflation(kappa: float, tolerance: float) -> Enclosure:
    """Enclose C(κ) to a relative tolerance."""
    if kappa == 1:
        # One eigenvalue: g falls from 1 to 0, so some stop has exactly ridge's shrinkage.
        return Enclosure(1.0, 1.0, STOP_OF_EQUAL_EIGENVALUES)
    plan = make_plan(kappa, tolerance)
    _prove_cover(plan.pieces, kappa, exact(plan.cap).sqrt())
    lower = 1.0
    if plan.floor > 0:
        _prove_floor(plan.worst, kappa, exact(plan.floor).sqrt())
        lower = downward(1 + exact(plan.floor))
    return Enclosure(lower, upward(1 + exact(plan.cap)), plan.stop)


def _prove_cover(pieces: list[Piece], kappa: float, d: arb) -> None:
    """Prove that every problem a > 0 has a stop with |D| ≤ d for all y."""
    root = exact(kappa).sqrt()
    first, last = exact(pieces[0].low), exact(pieces[-1].high)
    if not first * root <= d:  # α = 0, where g = 1 and D = ay
        raise WorkLimitError("Doing nothing is not proven good enough for the easiest problems.")
    if not _closes(last, root, d):
        raise WorkLimitError("Running on is not proven good enough for the hardest problems.")
    if any(left.high < right.low for left, right in pairwise(pieces)):
        raise WorkLimitError("The cover of all problems has a gap.")
    for piece in pieces:
        _prove_piece(piece, kappa, d)


def _closes(a: arb, root: arb, d: arb) -> bool:
    """Say whether α = 2L + 4, L = log(a√κ) ≥ 0, caps |D| by d for this and every larger a.

    |g| ≤ (1 + α)e^{-α}, so |D| ≤ (5 + 2L)e^{-4-L} + (1 + |g|)/a; all of it falls as a grows.
    """
    L = (a * root).log()
    g = (5 + 2 * L) * (-4 - 2 * L).exp()
    return bool(L >= 0 and a * root * g + (1 + g) / a <= d)


def _prove_piece(piece: Piece, kappa: float, d: arb) -> None:
    """Prove |D| ≤ d at both ends of the interval, which is enough for all of it."""
    alpha = exact(piece.alpha)
    ends = (alpha / exact(piece.low), alpha / exact(piece.high))

    def holds(box: Box) -> bool:
        expansion = expand(alpha, box[0])
        return all(expansion.cap(tau) <= d for tau in ends)

    verify(holds, [((0.0, upward(alpha * (exact(kappa) - 1).sqrt())),)])


def _prove_floor(worst: float, kappa: float, d: arb) -> None:
    """Prove that at the problem a = ``worst`` every stop α ≥ 0 has a y with |D| ≥ d."""
    a = exact(worst)

    def holds(box: Box) -> bool:
        y = _witness(worst, sum(box[0]) / 2, kappa)
        g = _shrinkage_over(box, y)
        D = (a * y + 1 / (a * y)) * g - 1 / (a * y)
        return bool(D.abs_lower() >= d)

    verify(holds, [((0.0, _late_stop(a, d)),)])


def _late_stop(a: arb, d: arb) -> float:
    """Return an α from which on y = 1 is a witness: there g = (1 + α)e^{-α} and D fall in α."""
    alpha = 0.5
    for _ in range(60):
        g = (1 + exact(alpha)) * (-exact(alpha)).exp()
        if (a + 1 / a) * g - 1 / a <= -d:
            return alpha
        alpha *= 1.25
    raise WorkLimitError("No stop is late enough: the worst problem is not the worst.")


def _witness(a: float, alpha: float, kappa: float) -> arb:
    """Return a y in [1, √κ] where |D| is large, found in floating point."""
    b = frequencies(alpha, kappa, WITNESS_SPACING)
    Y1, Y2 = points(alpha, b)
    height = np.abs(a * Y1 - Y2 / a)
    bend = np.minimum(height[:-2] - 2 * height[1:-1] + height[2:], -TINY)
    shift = np.clip(0.5 * (height[:-2] - height[2:]) / bend, -1.0, 1.0)
    # Peaks lie between samples: compare the vertices of parabolas, not the samples.
    vertex = height[1:-1] - 0.5 * bend * shift**2
    i = int(np.argmax(vertex))
    if height[-1] >= max(vertex[i], height[0]):
        return exact(kappa).sqrt()
    if height[0] >= vertex[i]:
        return exact(1)
    y = math.hypot(1.0, (b[i + 1] + b[1] * shift[i]) / alpha)
    return exact(max(1.0, min(y, math.sqrt(kappa) * (1 - 1e-12))))


def _shrinkage_over(box: Box, y: arb) -> arb:
    """Return a ball with g(α, y) for all α in the box: the mean-value form, g' = -y²αe^{-α} sinc(cα)."""
    c = (y**2 - 1).nonnegative_part().sqrt()
    middle, radius = centre_and_radius(box[0])
    alpha = hull(box[0])
    g = (-middle).exp() * ((c * middle).cos() + middle * (c * middle).sinc())
    slope = -(y**2) * alpha * (-alpha).exp() * (c * alpha).sinc()
    return centred(g, slope, radius)
