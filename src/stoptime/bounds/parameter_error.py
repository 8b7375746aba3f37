r"""How far a flow's coefficients stray from those of ridge, enclosed.

.. math:: \|\hat\beta(t) - \hat\beta^{ridge}(\lambda)\|^2 \le C \|\hat\beta^{ridge}(\lambda)\|^2, \qquad
          C = \sup_u h(u)^2, \quad h = c\,\varphi(u) - g(u),

with λ = c/t² (λ = c/t for gradient flow) and φ = (1 - g)/u²; in the notation of the paper h = f - 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

from stoptime.bounds import oscillator
from stoptime.bounds.balls import Box, Bracket, centre_and_radius, downward, exact, supremum, upward
from stoptime.bounds.enclosure import Enclosure
from stoptime.bounds.filters import CosineFilter, gain, horizon

if TYPE_CHECKING:
    from flint import arb

HEAVY_BALL_HORIZON = 4.0  # more than π, see heavy_ball_error


def cosine_filter_error(
    cosine_filter: CosineFilter, calibration: float, tolerance: float
) -> Enclosure:
    """Enclose the parameter error of a flow whose shrinkage depends on one variable."""
    c = exact(calibration)
    curvature = c * cosine_filter.even_moment(2) / 12 + cosine_filter.even_moment(1)

    def bracket(box: Box) -> Bracket:
        u, radius = centre_and_radius(box[0])
        g, g_slope = cosine_filter.shrinkage(u), cosine_filter.slope(u)
        phi = gain(u, g)
        value = c * phi - g
        slope = -c * (g_slope / u + 2 * phi) / u - g_slope
        reach = abs(value) + abs(slope) * radius + curvature * radius**2 / 2
        return Bracket(downward(value.abs_lower() ** 2), upward(reach**2), box)

    def tail(start: float) -> arb:
        g = cosine_filter.tail(start)
        return (c * (1 + g) / exact(start) ** 2 + g) ** 2

    origin = _at_origin(c * cosine_filter.even_moment(1) / 2 - 1)
    peak = bracket(_sampled_peak(cosine_filter, calibration))
    best = max(origin, peak, key=lambda found: found.attained)
    head = _head(cosine_filter, c)
    end = max(horizon(tail, cosine_filter.tail_start, best.attained), 2 * head)
    # Outside [head, end] lie the tail and, if there is a head, values up to that of the origin.
    outside = max(upward(tail(end)), origin.cap if head > 0 else 0.0)
    known = Bracket(best.attained, outside, best.box)
    error = supremum(bracket, ((head, end),), known=known, tolerance=tolerance)
    u = sum(error.box[0]) / 2
    return Enclosure(error.attained, error.cap, u if cosine_filter.order == 2 else u**2)


def _at_origin(value: arb) -> Bracket:
    return Bracket(downward(value.abs_lower() ** 2), upward(value**2), ((0.0, 0.0),))


def _sampled_peak(cosine_filter: CosineFilter, calibration: float) -> Box:
    """Return the grid point where |h| is largest, by floating-point evaluation."""
    u, g = cosine_filter.sample()
    peak = float(u[np.argmax(np.abs(calibration * (1 - g) / u**2 - g))])
    return ((peak, peak),)


def _head(cosine_filter: CosineFilter, c: arb) -> float:
    """Return a point up to which |h| ≤ |h(0)| is certain, or 0 where |h| grows from the origin.

    h is even, so near 0 it moves by h''(0)·u²/2, and h'' keeps its sign while M·u²/2 < |h''(0)|,
    where M caps the fourth derivative. Without this the limit u → 0 would never be attained.
    """
    second, fourth, sixth = (cosine_filter.even_moment(k) for k in (1, 2, 3))
    start, bend = c * second / 2 - 1, second - c * fourth / 12
    if not start * bend < 0:
        return 0.0
    keeps_sign = (abs(bend) / (c * sixth / 30 + fourth)).sqrt()
    # And not so far that h could have crossed zero and reached -h(0).
    stays_small = (2 * abs(start) / (c * fourth / 12 + second)).sqrt()
    return max(0.0, downward(keeps_sign.min(stays_small)))


def heavy_ball_error(calibration: float, tolerance: float) -> Enclosure:
    r"""Enclose the parameter error of heavy-ball flow over all dampings.

    .. math:: C = \sup_{a, b \ge 0} h(a, b)^2, \qquad h = c\,\varphi(a, b) - g(a, b)

    At a = 0, b = π the value is already 1 + 2c/π², and beyond u = 4 nothing exceeds 1 + 2c/4².
    """
    c = exact(calibration)

    def bracket(box: Box) -> Bracket:
        (a, a_radius), (b, b_radius) = centre_and_radius(box[0]), centre_and_radius(box[1])
        u_squared = a**2 + b**2
        along_a, along_b = oscillator.slope_in_damping(a, b), oscillator.slope_in_frequency(a, b)
        g = oscillator.shrinkage(a, b)
        phi = (1 - g) / u_squared
        value = c * phi - g
        first = (
            abs(c * (along_a + 2 * a * phi) / u_squared + along_a) * a_radius
            + abs(c * (along_b + 2 * b * phi) / u_squared + along_b) * b_radius
        )
        # Caps on the second derivatives: of φ 1/4, 1/8, 1/12 (aa, ab, bb), of g 3, 3/2, 1.
        second = (
            (c / 4 + 3) * a_radius**2 / 2
            + (c / 8 + exact(1.5)) * a_radius * b_radius
            + (c / 12 + 1) * b_radius**2 / 2
        )
        reach = abs(value) + first + second
        return Bracket(downward(value.abs_lower() ** 2), upward(reach**2), box)

    peak = bracket(((0.0, 0.0), _undamped_peak(calibration)))
    best = max(_at_origin(c / 2 - 1), peak, key=lambda found: found.attained)
    end = HEAVY_BALL_HORIZON
    beyond = (1 + 2 * c / exact(end) ** 2) ** 2
    known = Bracket(best.attained, upward(beyond), best.box)
    error = supremum(bracket, ((0.0, end), (0.0, end)), known=known, tolerance=tolerance)
    return Enclosure(
        error.attained, error.cap, sum(sum(side) ** 2 / 4 for side in error.box) ** 0.5
    )


def _undamped_peak(calibration: float) -> tuple[float, float]:
    """Return where the undamped h = c(1 - cos b)/b² - cos b is largest, by floating-point optimisation."""
    best = minimize_scalar(
        lambda b: np.cos(b) - calibration * (1 - np.cos(b)) / b**2,
        bounds=(0.5, HEAVY_BALL_HORIZON),
        method="bounded",
    )
    return float(best.x), float(best.x)
