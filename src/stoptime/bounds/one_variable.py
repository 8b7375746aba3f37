r"""Certificates of the methods whose shrinkage has one variable: all but heavy-ball flow.

With x = s/λ*, u = σ√x and the shrinkage g = g(u), the risk inflation is 1 + D², where

.. math:: D = \frac{A(u)}{\sigma} - \sigma B(u), \qquad A(u) = u g(u), \quad B(u) = (1 - g(u))/u.

Every |D(σ, u)| is a quasi-convex function of σ: B ≥ 0, and if A < 0 then |D| = |A|/σ + σB. The
parameter error is the supremum of h², where h = c·φ - g and φ = (1 - g)/u². The page *Certificates*
has all proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from stoptime.bounds.balls import (  # isort: skip
    AdaptiveEnclosure, Box, Bracket, Enclosure, Interval, WorkLimitError, arb, ball, bracket_square,
    centre_and_radius, downward, exact, inflation_between, supremum, upward,
)  # fmt: skip
from stoptime.bounds.filters import ScaleFreeFilter
from stoptime.support.arrays import Array
from stoptime.theory.search import ROUGHLY, dips, lowest_between

PEAK_SHARE = 0.9  # lower peaks of |D|, relative to the highest one, are not used as witnesses
WINDOW = 0.02  # of log σ, around the best σ of the grid
PROOF_SHARE = 0.5  # of the tolerance; the rest is left to the search for the best stop
HORIZON_GROWTH = 1.25
HORIZON_STEPS = 80
SAMPLES = 2000
SAMPLED_SCALES = 5.0  # in units of sqrt(2 / E T²); g is far from 1 at the end of that range


def scale_of(shape: ScaleFreeFilter, stop: float) -> arb:
    """Return the scale σ at a dimensionless stop."""
    return exact(stop) if shape.order == 2 else exact(stop).sqrt()


def sample(shape: ScaleFreeFilter) -> tuple[Array, Array]:
    """Return a grid of u and g there, in floating point: for a search, never for a proof."""
    width = SAMPLED_SCALES / float(shape.largest_gain) ** 0.5
    u = np.linspace(0.0, width, SAMPLES + 1)[1:]
    return u, shape.in_floats(u)


def ridge_inflation(stop: float | None, _: float) -> Enclosure:
    """Ridge with penalty λ*/τ: the inflation 1 + x(1 - τ)²/(1 + τx)² is largest at x = 1/τ."""
    tau = exact(1.0 if stop is None else stop)
    value = (1 + tau) ** 2 / (4 * tau)
    return Enclosure(downward(value), upward(value), float(tau))


def ridge_ratio(_: None, __: float) -> AdaptiveEnclosure:
    """Ridge is its own oracle: no spectrum has a ratio other than 1."""
    return AdaptiveEnclosure(1.0, 1.0, 1.0, ((1.0, 1.0),), ((1.0, 1.0),))


def ridge_error(calibration: float, _: float) -> Enclosure:
    """Ridge against ridge: c·φ - g = (c - 1)/(1 + ts) is largest in the limit ts → 0."""
    value = (exact(calibration) - 1) ** 2
    return Enclosure(downward(value), upward(value), 0.0)


def flow_inflation(shape: ScaleFreeFilter, stop: float | None, tolerance: float) -> Enclosure:
    """Enclose the largest inflation over all x ≥ 0: at one stop, or by default at the best stop."""
    if stop is not None:
        return inflation_at(shape, stop, tolerance)
    stop, witnesses = best_stop(shape)
    sigma = scale_of(shape, stop)
    parts = [_parts(shape, u) for u in witnesses]
    # A stop is earlier or later than σ; on each side the witness with the largest infimum counts.
    earlier = max((_least(a, b, sigma, side=1) for a, b in parts), key=downward)
    later = max((_least(a, b, sigma, side=-1) for a, b in parts), key=downward)
    floor = earlier.min(later) ** 2
    upper = inflation_at(shape, stop, PROOF_SHARE * tolerance, downward(floor)).upper
    lower = downward(1 + floor)
    # The two ends are proven independently, so only now it is known how far they are apart.
    if upper - lower > tolerance * max(1.0, lower):
        raise WorkLimitError(
            f"The inflation is only known to lie in [{lower!r}, {upper!r}]; "
            f"use a larger tolerance than {tolerance:g}."
        )
    return Enclosure(lower, upper, stop)


def inflation_at(
    shape: ScaleFreeFilter, stop: float, tolerance: float, known: float = 0.0
) -> Enclosure:
    """Enclose the largest inflation at one stop; ``known`` is a value of D² known to be reached."""
    sigma = scale_of(shape, stop)

    def bracket(box: Box) -> Bracket:
        return bracket_square(box, *imbalance(shape, sigma, box[0]))

    def tail(start: float) -> arb:
        # A cap on D² beyond this point: each of its terms falls.
        g = shape.tail(start)
        return (start * g / sigma + sigma * (1 + g) / start) ** 2

    # The larger the value known in advance, the nearer the horizon can be.
    u, g = sample(shape)
    peak = float(u[np.argmax(np.abs(u * g / float(sigma) - float(sigma) * (1 - g) / u))])
    known = max(known, bracket(((peak, peak),)).attained)
    end = horizon(tail, shape.tail_start, known)
    beyond = Bracket(known, upward(tail(end)), ((peak, peak),))
    excess = supremum(bracket, ((0.0, end),), known=beyond, tolerance=tolerance)
    return inflation_between(excess.attained, excess.cap, stop)


def imbalance(shape: ScaleFreeFilter, sigma: arb, cell: Interval) -> tuple[arb, arb]:
    """Return D at the centre of a cell of u, and a cap on its distance from there in the cell."""
    # |D''(u)| ≤ bend + curvature·u: D = u·G with G = g/σ - σφ, so |D''| ≤ 2|G'| + u|G''|, and the
    # caps on |g''| and |φ''| bound the growth of |G'| from its value at the origin.
    bend = 2 * sigma * shape.gain_slope
    curvature = 3 * (shape.largest_bend / sigma + sigma * shape.gain_bend)
    u, radius = centre_and_radius(cell)
    g = shape.shrinkage(u)
    g_slope = shape.slope(u)
    value = u * g / sigma - sigma * (1 - g) / u
    slope = (g + u * g_slope) / sigma + sigma * (g_slope / u + (1 - g) / (u * u))
    # Taylor's formula to second order; |D''| is capped at the right end of the cell.
    return value, abs(slope) * radius + (bend + curvature * cell[1]) * radius**2 / 2


def horizon(cap_beyond: Callable[[float], arb], start: float, below: float) -> float:
    """Return the first point of a growing sequence beyond which the cap lies below a level."""
    point = start
    for _ in range(HORIZON_STEPS):
        if cap_beyond(point) < below:
            return point
        point *= HORIZON_GROWTH
    raise WorkLimitError(
        f"The tail beyond u = {point:.3g} is not proven to stay below {below:.6g}: "
        "it decays too slowly for this friction."
    )


def _parts(shape: ScaleFreeFilter, u: float) -> tuple[arb, arb]:
    """Return A = u·g and B = (1 - g)/u."""
    g = shape.shrinkage(exact(u))
    return u * g, (1 - g) / u


def _least(a: arb, b: arb, sigma: arb, *, side: int) -> arb:
    """Return a lower bound of |A/σ' - σ'B| over σ' ≤ σ (``side`` 1) or σ' ≥ σ (``side`` -1)."""
    value = a / sigma - sigma * b
    # A > 0: the difference falls in σ', so it keeps its sign on one side of σ; else 0 is the bound.
    if a > 0:
        return (side * value).max(exact(0))
    # A < 0: the sum |A|/σ' + σ'B falls until σ'² = |A|/B, then grows; its minimum is 2·sqrt(|A|·B).
    if a < 0:
        minimum_is_elsewhere = side * (-a - sigma**2 * b) >= 0
        return -value if minimum_is_elsewhere else 2 * (-a * b).sqrt()
    # The sign of A is not certain: 0 is a lower bound in any case.
    return exact(0)


def best_stop(shape: ScaleFreeFilter) -> tuple[float, list[float]]:
    """Return a good stop and the places where |D| is largest there, found in floating point."""
    u, g = sample(shape)

    def heights(log_sigma: float) -> Array:
        sigma = math.exp(log_sigma)
        return np.abs(u * g / sigma - sigma * ((1 - g) / u))

    def peaks(log_sigma: float) -> list[tuple[float, float]]:
        # The high local maxima of |D|, as (height, place), refined between grid points.
        sigma = math.exp(log_sigma)

        def depth(at: float) -> float:
            a, b = _parts(shape, at)
            return -abs(float(a / sigma - sigma * b))

        height = heights(log_sigma)
        found = []
        for i in dips(-height).tolist():
            if height[i] > PEAK_SHARE * height.max():
                best = minimize_scalar(depth, bounds=(u[i - 1], u[i + 1]), method="bounded")
                found.append((-float(best.fun), float(best.x)))
        return found

    natural = -0.5 * math.log(float(shape.largest_gain))
    start = lowest_between(lambda log: heights(log).max(), natural - 2, natural + 1, ROUGHLY)
    # The variable is an offset from zero, as the optimiser's tolerance is relative to its variable.
    offset = lowest_between(lambda offset: max(peaks(start + offset))[0], -WINDOW, WINDOW, 1e-13)
    places = [at for _, at in peaks(start + offset)]
    return math.exp(start + offset) ** (2 // shape.order), places


def flow_error(shape: ScaleFreeFilter, calibration: float, tolerance: float) -> Enclosure:
    """Enclose the supremum of h², with λ = c/t² or, for gradient flow, λ = c/t."""
    return _distance(shape, calibration, tolerance, 0)


def flow_variance(shape: ScaleFreeFilter, tolerance: float) -> Enclosure:
    """Enclose the largest variance over that of ridge with λ = 1/t² (or 1/t), which is (1 + h)²."""
    # The gain is (1 + h)/(s + λ), and ridge has the gain 1/(s + λ).
    return _distance(shape, 1.0, tolerance, 1)


def _distance(
    shape: ScaleFreeFilter, calibration: float, tolerance: float, shift: int
) -> Enclosure:
    """Enclose the supremum of (shift + h)²."""
    c = exact(calibration)
    curvature = c * shape.gain_bend + shape.largest_bend

    def bracket(box: Box) -> Bracket:
        # Taylor's formula to second order; the curvature caps the second derivative everywhere.
        u, radius = centre_and_radius(box[0])
        g = shape.shrinkage(u)
        g_slope = shape.slope(u)
        phi = (1 - g) / (u * u)
        slope = -c * (g_slope / u + 2 * phi) / u - g_slope
        variation = abs(slope) * radius + curvature * radius**2 / 2
        return bracket_square(box, shift + c * phi - g, variation)

    def tail(start: float) -> arb:
        g = shape.tail(start)
        return (shift + c * (1 + g) / exact(start) ** 2 + g) ** 2

    # At u = 0 the formulas divide by zero; the limit is known from the second moment.
    origin = bracket_square(((0.0, 0.0),), shift + c * shape.first_gain - 1, exact(0))
    u, g = sample(shape)
    peak = float(u[np.argmax(np.abs(shift + calibration * (1 - g) / u**2 - g))])
    best = max(origin, bracket(((peak, peak),)), key=lambda found: found.attained)
    # Halving would never settle the limit u = 0 if it is the supremum.
    # The ratio of variances begins at c·φ(0) ≤ 1, which is never its supremum.
    head = 0.0 if shift else shape.head(c)
    end = max(horizon(tail, shape.tail_start, best.attained), 2 * head)
    # Outside [head, end] are the tail and, if there is a head, values up to that of the origin.
    outside = max(upward(tail(end)), origin.cap if head > 0 else 0.0)
    known = best._replace(cap=outside)
    error = supremum(bracket, ((head, end),), known=known, tolerance=tolerance)
    u_there = sum(error.box[0]) / 2
    return Enclosure(error.attained, error.cap, u_there ** (2 // shape.order))


def flow_bias(shape: ScaleFreeFilter, tolerance: float) -> Enclosure:
    """Enclose the largest squared bias over that of ridge with λ = 1/t² (or 1/t), (1 + u²)²·g²."""
    start = max(shape.tail_start, 3.0)
    if not shape.square_tail(start).is_finite():
        raise ValueError(
            "The bias cannot be coupled: at λ = 1/t² it exceeds every multiple of ridge's bias at "
            "some eigenvalue, because the oscillation falls more slowly than 1/u². Friction of at "
            "least 4 is needed; see coupling_counterexample."
        )

    def bracket(box: Box) -> Bracket:
        u, radius = centre_and_radius(box[0])
        centre, g, slope = shape.cell(u, radius)
        cell = ball(u, radius)
        variation = abs((1 + cell**2) * slope + 2 * cell * g) * radius
        return bracket_square(box, (1 + u**2) * centre, variation)

    def tail(start: float) -> arb:
        return (shape.square_tail(start) * (1 + 1 / exact(start) ** 2)) ** 2

    u, g = sample(shape)
    peak = float(u[np.argmax(np.abs((1 + u**2) * g))])
    # At the origin, before anything is learned, the ratio is 1.
    origin = Bracket(1.0, 1.0, ((0.0, 0.0),))
    best = max(origin, bracket(((peak, peak),)), key=lambda found: found.attained)
    end = horizon(tail, start, best.attained)
    known = best._replace(cap=max(1.0, upward(tail(end))))
    found = supremum(bracket, ((0.0, end),), known=known, tolerance=tolerance)
    u_there = sum(found.box[0]) / 2
    return Enclosure(found.attained, found.cap, u_there ** (2 // shape.order))
