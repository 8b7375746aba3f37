r"""Certificates of heavy-ball flow: risk inflation by condition number, and parameter error.

.. math:: C(\kappa) = \max_{a > 0} \min_{\alpha \ge 0} \max_{1 \le y \le \sqrt\kappa} 1 + D^2

with D as in the module ``heavy_ball_plan``. For fixed α and y, |D| is quasi-convex in a: over an
interval of a it is largest at one of the two ends. So a finite list of intervals, each with one
stop, proves the upper end.
"""

from __future__ import annotations

import math
from itertools import pairwise

from stoptime.bounds.balls import (  # isort: skip
    Box, Bracket, Enclosure, Interval, WorkLimitError, arb, ball, bracket_square, centre_and_radius,
    exact, inflation_between, supremum, upward, verify,
)  # fmt: skip
from stoptime.bounds.heavy_ball_plan import Piece, highest, make_plan
from stoptime.theory.search import ROUGHLY, lowest_between

STOP_OF_EQUAL_EIGENVALUES = 1.6783469900166608  # (1 + α)e^{-α} = 1/2: exact ridge at a = 1
ERROR_HORIZON = 4.0  # any number above π, see heavy_ball_error


def heavy_ball_inflation(kappa: float, tolerance: float) -> Enclosure:
    """Enclose C(κ) to a relative tolerance."""
    # With one eigenvalue some stop has exactly ridge's shrinkage, because g falls from 1 to 0.
    if kappa == 1:
        return Enclosure(1.0, 1.0, STOP_OF_EQUAL_EIGENVALUES)
    plan = make_plan(kappa, tolerance)
    _prove_cover(plan.pieces, kappa, exact(plan.cap).sqrt())
    if plan.floor > 0:
        _prove_floor(plan.worst, kappa, exact(plan.floor).sqrt())
    return inflation_between(max(plan.floor, 0.0), plan.cap, plan.stop)


def _prove_cover(pieces: list[Piece], kappa: float, d: arb) -> None:
    """Prove that every problem a > 0 has a stop with |D| ≤ d for all y."""
    root = exact(kappa).sqrt()
    # The stop α = 0 has g = 1 and D = ay ≤ a√κ.
    if not exact(pieces[0].low) * root <= d:
        raise WorkLimitError("Not proven: stopping at 0 is good enough for the smallest a.")
    # A late stop α = 2L + 4 has |g| ≤ (1 + α)e^{-α}, so |D| ≤ (5 + 2L)e^{-4-L} + (1 + |g|)/a. With
    # L = log(a√κ) ≥ 0 all terms fall in a: what holds here holds for every larger a.
    a = exact(pieces[-1].high)
    L = (a * root).log()
    g = (5 + 2 * L) * (-4 - 2 * L).exp()
    if not (L >= 0 and a * root * g + (1 + g) / a <= d):
        raise WorkLimitError("Not proven: a late stop is good enough for the largest a.")
    if any(left.high < right.low for left, right in pairwise(pieces)):
        raise WorkLimitError("The cover of all problems has a gap.")
    for piece in pieces:
        _prove_piece(piece, kappa, d)


def _prove_piece(piece: Piece, kappa: float, d: arb) -> None:
    """Prove |D| ≤ d at both ends of the interval, which is enough for all of it."""
    alpha = exact(piece.alpha)
    ends = (alpha / exact(piece.low), alpha / exact(piece.high))
    whole = (0.0, upward(alpha * (exact(kappa) - 1).sqrt()))
    verify(lambda box: all(cap <= d for cap in caps(alpha, box[0], ends)), (whole,))


def _prove_floor(worst: float, kappa: float, d: arb) -> None:
    """Prove that at the problem a = ``worst`` every stop α ≥ 0 has a y with |D| ≥ d."""
    a = exact(worst)

    def holds(box: Box) -> bool:
        # Where |D| is large is found in floating point. The witness y is valid only inside [1, √κ],
        # and the end itself is exact, not the rounded root.
        stop = sum(box[0]) / 2
        b, _ = highest(worst, stop, kappa)
        y = exact(math.hypot(1.0, b / stop)).min(exact(kappa).sqrt())
        # At y = 1 rounding may make y² - 1 a ball around zero, whose root is not defined.
        c = (y**2 - 1).nonnegative_part().sqrt()
        middle, radius = centre_and_radius(box[0])
        alpha = ball(middle, radius)
        slope = -(y**2) * alpha * (-alpha).exp() * (c * alpha).sinc()
        g = ball(shrinkage(middle, c * middle), abs(slope) * radius)
        # g appears once in this form, so its radius is not counted twice.
        D = (a * y + 1 / (a * y)) * g - 1 / (a * y)
        return bool(D.abs_lower() >= d)

    verify(holds, ((0.0, _late_stop(a, d)),))


def _late_stop(a: arb, d: arb) -> float:
    """Return an α from which on y = 1 is a witness: there g = (1 + α)e^{-α} and D fall in α."""
    alpha = 0.5
    for _ in range(60):
        g = (1 + exact(alpha)) * (-exact(alpha)).exp()
        if (a + 1 / a) * g - 1 / a <= -d:
            return alpha
        alpha *= 1.25
    raise WorkLimitError(f"Not proven: every late stop of the hardest problem, a = {a}, is worse.")


def shrinkage(a: arb, b: arb) -> arb:
    """Return g(a, b)."""
    return (-a).exp() * (b.cos() + a * b.sinc())


def slope_in_damping(a: arb, b: arb) -> arb:
    """Return the derivative of g in a."""
    return (-a).exp() * ((1 - a) * b.sinc() - b.cos())


def slope_in_frequency(a: arb, b: arb) -> arb:
    """Return the derivative of g in b."""
    return (-a).exp() * (a * sinc_slope(b) - b.sin())


def sinc_slope(b: arb) -> arb:
    """Return (cos b - sinc b)/b, the derivative of sinc, for b ≥ 0."""
    if b > 1:
        return (b.cos() - b.sinc()) / b
    # The quotient would divide by a ball around zero; the series is accurate on a short ball.
    if b < 2:
        return -b / 3 * (-b * b / 4).hypgeom_0f1(exact(5) / 2)
    # The ball is too wide for both; |sinc'| ≤ 1/2 holds everywhere.
    return ball(0, 0.5)


def caps(a: arb, interval: Interval, taus: tuple[arb, ...]) -> list[arb]:
    """Return a cap on |P/τ - τQ| over an interval of b for each τ, with P = u·g, Q = (1 - g)/u."""
    middle, radius = centre_and_radius(interval)
    u = (a**2 + middle**2).sqrt()
    g = shrinkage(a, middle)
    P_slope, Q_slope = slopes(a, middle, radius)
    # The mean-value form: the value at the centre, and all slopes times the radius.
    return [
        abs(u * g / tau - tau * ((1 - g) / u)) + abs(P_slope / tau - tau * Q_slope) * radius
        for tau in taus
    ]


def slopes(a: arb, middle: arb, radius: arb) -> tuple[arb, arb]:
    """Return balls with all slopes of P and Q in b within ``radius`` of ``middle``."""
    b = ball(middle, radius)
    u = (a**2 + b**2).sqrt()
    g = shrinkage(a, b)
    g_slope = slope_in_frequency(a, b)
    P_slope = b / u * g + u * g_slope
    if u > 1:
        return P_slope, -(g_slope + (1 - g) * b / u**2) / u
    # Near zero, dividing by powers of a wide ball loses all digits. Q = uφ and |φ''| ≤ 1/12 avoid
    # it: only the values at the centre, which is a thin ball, are divided.
    u_squared = a**2 + middle**2
    phi = (1 - shrinkage(a, middle)) / u_squared
    phi_slope = -(slope_in_frequency(a, middle) + 2 * middle * phi) / u_squared
    phi_slopes = ball(phi_slope, radius / 12)
    return P_slope, b / u * ball(phi, abs(phi_slopes) * radius) + u * phi_slopes


def heavy_ball_error(calibration: float, tolerance: float) -> Enclosure:
    r"""Enclose the parameter error of heavy-ball flow over all dampings.

    .. math:: C = \sup_{a, b \ge 0} h(a, b)^2, \qquad h = c\,\varphi(a, b) - g(a, b)
    """
    # At a = 0, b = π the value is 1 + 2c/π², and beyond u = 4 no value exceeds 1 + 2c/4².
    c = exact(calibration)

    def bracket(box: Box) -> Bracket:
        a, a_radius = centre_and_radius(box[0])
        b, b_radius = centre_and_radius(box[1])
        u_squared = a**2 + b**2
        g = shrinkage(a, b)
        phi = (1 - g) / u_squared
        # Taylor's formula to second order. Caps on the second derivatives: of φ 1/4, 1/8, 1/12
        # (aa, ab, bb), of g 3, 3/2, 1.
        variation = (c / 8 + exact(1.5)) * a_radius * b_radius
        for x, radius, g_slope, curvature in (
            (a, a_radius, slope_in_damping(a, b), c / 4 + 3),
            (b, b_radius, slope_in_frequency(a, b), c / 12 + 1),
        ):
            slope = c * (g_slope + 2 * x * phi) / u_squared + g_slope
            variation += abs(slope) * radius + curvature * radius**2 / 2
        return bracket_square(box, c * phi - g, variation)

    origin = bracket_square(((0.0, 0.0), (0.0, 0.0)), c / 2 - 1, exact(0))
    # Without damping h is largest; its peak, found in floating point, is a good first value.
    peak = lowest_between(
        lambda b: math.cos(b) - calibration * (1 - math.cos(b)) / b**2, 0.5, ERROR_HORIZON, ROUGHLY
    )
    undamped = bracket(((0.0, 0.0), (peak, peak)))
    best = max(origin, undamped, key=lambda found: found.attained)
    beyond = (1 + 2 * c / exact(ERROR_HORIZON) ** 2) ** 2
    known = best._replace(cap=upward(beyond))
    error = supremum(bracket, ((0.0, ERROR_HORIZON),) * 2, known=known, tolerance=tolerance)
    a, b = (sum(side) / 2 for side in error.box)
    return Enclosure(error.attained, error.cap, math.hypot(a, b))
