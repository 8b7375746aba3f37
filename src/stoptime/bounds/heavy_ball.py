r"""Certificates of heavy-ball flow: risk inflation by condition number, and parameter error.

.. math:: C(\kappa) = \max_{a > 0} \min_{\alpha \ge 0} \max_{1 \le y \le \sqrt\kappa} 1 + D^2

with D as in the module ``heavy_ball_plan``. For fixed α and y, |D| is quasi-convex in a: over an
interval of a it is largest at one of the two ends. So a finite list of intervals, each with one
stop, proves the upper end. Where the best stop moves smoothly with the problem, a curve of stops
takes the place of very many intervals.
"""

from __future__ import annotations

import math

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
    _prove_cover(plan.moving, plan.pieces, kappa, exact(plan.cap).sqrt())
    if plan.floor > 0:
        _prove_floor(plan.worst, kappa, exact(plan.floor).sqrt())
    return inflation_between(max(plan.floor, 0.0), plan.cap, plan.stop)


def _prove_cover(moving: Interval | None, pieces: list[Piece], kappa: float, d: arb) -> None:
    """Prove that every problem a > 0 has a stop with |D| ≤ d for all y."""
    root = exact(kappa).sqrt()
    # The stop α = 0 has g = 1 and D = ay ≤ a√κ.
    reached = (d / root).lower()
    if moving is not None:
        # The problem a(α) depends continuously on α, so none is left out between its ends.
        first, last = (balanced(exact(kappa), exact(alpha))[0] for alpha in moving)
        if not first <= reached:
            raise WorkLimitError("Not proven: stopping at 0 is good enough for the smallest a.")
        places = (0.0, upward((exact(kappa) - 1).sqrt()))
        verify(lambda box: moving_cap(exact(kappa), *box) <= d, (moving, places))
        reached = last.lower()
    for piece in pieces:
        if not exact(piece.low) <= reached:
            raise WorkLimitError("The cover of all problems has a gap.")
        reached = exact(piece.high)
    if not late_cap(reached, exact(kappa)) <= d:
        raise WorkLimitError("Not proven: a late stop is good enough for the largest a.")
    for piece in pieces:
        _prove_piece(piece, kappa, d)


def _prove_piece(piece: Piece, kappa: float, d: arb) -> None:
    """Prove |D| ≤ d for all y at both ends of an interval of problems, with one stop."""
    # |D| is quasi-convex in a, so the ends are enough.
    ends = [exact(piece.low), exact(piece.high)]
    alpha = exact(piece.alpha)

    def holds(box: Box) -> bool:
        found = over_places(alpha, box[0], ends)
        return all(abs(value) + variation <= d for value, variation in found)

    verify(holds, ((0.0, upward((exact(kappa) - 1).sqrt())),))


def late_cap(a: arb, kappa: arb) -> arb:
    """Return a cap on |D| at the late stop α = 2·log(a√κ) + 4; it falls in a."""
    L = (a * kappa.sqrt()).log()
    # |g| ≤ (1 + α)·exp(-α) for every y ≥ 1.
    g = (-4 - 2 * L).exp() * (5 + 2 * L)
    return a * kappa.sqrt() * g + (1 + g) / a if L >= 0 else exact(math.inf)


def over_places(alpha: arb, cell: Interval, problems: list[arb]) -> list[tuple[arb, arb]]:
    """Return D at the centre of a cell of c and a cap on its distance from there, by problem.

    The ball α may stand for many stops.
    """
    middle, radius = centre_and_radius(cell)
    c = ball(middle, radius)
    value = shrinkage(alpha, alpha * middle)
    phase = alpha * c
    g_slope = (-alpha).exp() * alpha * (alpha * sinc_slope(phase) - phase.sin())
    # The mean-value form, for g too: 1 - g is small where a is.
    g = ball(value, abs(g_slope) * radius)
    found = []
    for a in problems:
        centre = a * (1 + middle**2).sqrt()
        ay = a * (1 + c**2).sqrt()
        growth = ay * g + (1 - g) / ay  # of D with log(ay)
        slope = c / (1 + c**2) * growth + (ay + 1 / ay) * g_slope
        found.append((centre * value - (1 - value) / centre, abs(slope) * radius))
    return found


def balanced(kappa: arb, alpha: arb, radius: arb | float = 0) -> tuple[arb, arb]:
    """Return the problem a(α) with D(√κ) = -D(1) and its slope, within ``radius`` of ``alpha``."""
    root = kappa.sqrt()
    g1, slope1 = _over_stops(alpha, radius, exact(0))
    g2, slope2 = _over_stops(alpha, radius, (kappa - 1).sqrt())
    above = 1 - g1 + (1 - g2) / root
    below = g1 + root * g2
    a = (above / below).sqrt()
    return a, -a / 2 * ((slope1 + slope2 / root) / above + (slope1 + root * slope2) / below)


def moving_cap(kappa: arb, stops: Interval, places: Interval) -> arb:
    """Return a cap on |D| at a(α), for α in ``stops`` and c = √(y² - 1) in ``places``."""
    alpha, radius = centre_and_radius(stops)
    c = centre_and_radius(places)[0]
    # The mean-value form, first in α at the centre of the places, then in c for all stops.
    a, a_slope = balanced(kappa, alpha, radius)
    g, g_slope = _over_stops(alpha, radius, c)
    y = (1 + c**2).sqrt()
    slope = a_slope * (y * g + (1 - g) / (a**2 * y)) + (a * y + 1 / (a * y)) * g_slope
    ((_, variation),) = over_places(ball(alpha, radius), places, [a])
    ay = balanced(kappa, alpha)[0] * y
    g = shrinkage(alpha, c * alpha)
    return abs(ay * g - (1 - g) / ay) + abs(slope) * radius + variation


def _over_stops(alpha: arb, radius: arb | float, c: arb) -> tuple[arb, arb]:
    """Return g and its slope in α at c = √(y² - 1), for stops within ``radius`` of ``alpha``."""
    stops = ball(alpha, radius)
    slope = -(1 + c**2) * stops * (-stops).exp() * (c * stops).sinc()
    return ball(shrinkage(alpha, c * alpha), abs(slope) * radius), slope


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
        g, _ = _over_stops(*centre_and_radius(box[0]), c)
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


def sinc_slope(b: arb) -> arb:
    """Return (cos b - sinc b)/b, the derivative of sinc, for b ≥ 0."""
    if b > 1:
        return (b.cos() - b.sinc()) / b
    # The quotient would divide by a ball around zero; the series is accurate on a short ball.
    if b < 2:
        return -b / 3 * (-b * b / 4).hypgeom_0f1(exact(5) / 2)
    # The ball is too wide for both; |sinc'| ≤ 1/2 holds everywhere.
    return ball(0, 0.5)


def heavy_ball_error(calibration: float, tolerance: float) -> Enclosure:
    """Enclose the parameter error of heavy-ball flow over all dampings."""
    return _distance(calibration, tolerance, 0)


def heavy_ball_variance(tolerance: float) -> Enclosure:
    """Enclose the largest variance over that of ridge with λ = 1/t², over all dampings."""
    return _distance(1.0, tolerance, 1)


def _distance(calibration: float, tolerance: float, shift: int) -> Enclosure:
    r"""Enclose a supremum over all dampings.

    .. math:: C = \sup_{a, b \ge 0} (\mathrm{shift} + h(a, b))^2, \qquad
              h = c\,\varphi(a, b) - g(a, b)
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
        for x, radius, undamped, curvature in (
            (a, a_radius, (1 - a) * b.sinc() - b.cos(), c / 4 + 3),
            (b, b_radius, a * sinc_slope(b) - b.sin(), c / 12 + 1),
        ):
            g_slope = (-a).exp() * undamped
            slope = c * (g_slope + 2 * x * phi) / u_squared + g_slope
            variation += abs(slope) * radius + curvature * radius**2 / 2
        return bracket_square(box, shift + c * phi - g, variation)

    origin = bracket_square(((0.0, 0.0), (0.0, 0.0)), shift + c / 2 - 1, exact(0))
    # Without damping h is largest; its peak, found in floating point, is a good first value.
    peak = lowest_between(
        lambda b: math.cos(b) - calibration * (1 - math.cos(b)) / b**2, 0.5, ERROR_HORIZON, ROUGHLY
    )
    undamped = bracket(((0.0, 0.0), (peak, peak)))
    best = max(origin, undamped, key=lambda found: found.attained)
    beyond = (shift + 1 + 2 * c / exact(ERROR_HORIZON) ** 2) ** 2
    known = best._replace(cap=upward(beyond))
    error = supremum(bracket, ((0.0, ERROR_HORIZON),) * 2, known=known, tolerance=tolerance)
    a, b = (sum(side) / 2 for side in error.box)
    return Enclosure(error.attained, error.cap, math.hypot(a, b))
