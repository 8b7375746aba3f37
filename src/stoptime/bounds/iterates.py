r"""Certificates of single iterates: gradient descent, Nesterov's method and the ν-method.

With y = εs = sin²θ and ρ² = ελ*, the risk inflation of iterate k at the angle θ is 1 + D², where

.. math:: D = \frac{A(\theta)}{\rho} - \rho B(\theta), \qquad
          A = g \sin\theta, \quad B = (1 - g)/\sin\theta \ge 0.

For all three methods g = cos(θ)^m·P(cos θ) with a Gegenbauer polynomial P, P(1) = 1. Both factors
are sums of cosines with positive coefficients, so that g(θ) = E cos(θT), as for the flows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import eval_gegenbauer

from stoptime.bounds.balls import (  # isort: skip
    PRECISION, Box, Bracket, Interval, arb, ball, bracket_square, centre_and_radius, exact,
    supremum, upward, verify, working_precision,
)  # fmt: skip
from stoptime.bounds.filters import BesselFilter, CosineFilter, GaussianFilter
from stoptime.support.arrays import Array

PHASE_SPACING = 0.004  # of the grid on which peaks are looked for, in units of 1/√(E T²)
SEARCHED_PHASES = 12.0  # |D| has its peak before this phase
LARGEST_DEGREE = 3000  # of a polynomial that is sampled
TAIL_GROWTH = 1.1
COT_SLOPE = 0.4053  # 1/t - cot t ≤ 0.4053·t for 0 < t ≤ π/2, with equality at 4/π² = 0.40528...
QUARTER = math.nextafter(math.pi / 2, 2.0)  # the angle of y = 1, rounded up


@dataclass(frozen=True)
class Iterate:
    """The polynomial of one iterate, g = cos(θ)^power · P(cos θ), for 0 ≤ θ ≤ π/2."""

    power: int
    degree: int
    order: float  # of the Gegenbauer polynomial P, at least 1

    def shrinkage(self, theta: arb) -> arb:
        """Return g."""
        return theta.cos() ** self.power * self.factor(theta)

    def slope(self, theta: arb) -> arb:
        """Return the derivative of g in θ."""
        c = theta.cos()
        inner = 0 if self.power == 0 else self.power * c ** (self.power - 1) * self.factor(theta)
        return -theta.sin() * (inner + c**self.power * self._factor_slope(theta))

    def factor(self, theta: arb) -> arb:
        """Return P(cos θ)."""
        return _gegenbauer(self.degree, exact(self.order), theta)

    def later(self, theta: arb) -> arb:
        """Return a cap on |g| for this iterate and all later ones."""
        power = theta.cos().nonnegative_part() ** self.power
        if self.degree == 0:
            return power
        # (P - c·before)² + (s·before)² never grows with the degree, as the page shows.
        before = _gegenbauer(self.degree - 1, exact(self.order), theta)
        sine = theta.sin()
        energy = (self.factor(theta) - theta.cos() * before) ** 2 + (sine * before) ** 2
        return power * energy.upper().sqrt() / sine

    def _factor_slope(self, theta: arb) -> arb:
        # P' at cos θ: the derivative is a polynomial of the next order.
        if self.degree == 0:
            return exact(0)
        growth = exact(self.degree) * (self.degree + 2 * exact(self.order))
        scale = growth / (2 * exact(self.order) + 1)
        return scale * _gegenbauer(self.degree - 1, exact(self.order) + 1, theta)

    def moments(self) -> tuple[arb, arb]:
        """Return E T² and E T⁴."""
        # T is a sum of ``power`` independent signs and of a variable for P. The moments of the
        # latter are read off P = 1 - a·z + b·z² - ..., z = sin²(θ/2).
        m = exact(self.power)
        n = exact(self.degree)
        nu = exact(self.order)
        a = n * (n + 2 * nu) / (nu + exact(0.5))
        b = a * (n - 1) * (n + 2 * nu + 1) / (2 * nu + 3)
        second = a / 2
        fourth = (a + 3 * b) / 2
        return m + second, m * (3 * m - 2) + 6 * m * second + fourth

    def tail(self, start: float) -> arb:
        """Return an e with |g| ≤ e and sin θ·|g| ≤ e·sin(start) from ``start`` on, or infinity."""
        # v = sin(θ)^ν·P solves v'' + qv = 0 with q below, which does not fall up to π/2 as ν ≥ 1.
        # So v² + v'²/q never grows once q is positive (Sonin), and it bounds v² from here on.
        theta = exact(start)
        nu = exact(self.order)
        q = (self.degree + nu) ** 2 - nu * (nu - 1) / theta.sin() ** 2
        if not q > 0:
            return exact(math.inf)
        P = self.factor(theta)
        velocity = -theta.sin() * self._factor_slope(theta) + nu * theta.cot() * P
        envelope = (P**2 + velocity**2 / q).sqrt().upper()
        return theta.cos().nonnegative_part() ** self.power * envelope

    @property
    def spread(self) -> float:
        """The root of E T², at least 1: the shrinkage begins to fall at its inverse."""
        return math.sqrt(max(1.0, float(self.moments()[0])))

    def sample(self, end: float) -> tuple[Array, Array]:
        """Return sines of angles up to ``end`` and g there, for a search: floating point."""
        last = min(end * self.spread, SEARCHED_PHASES)
        theta = np.linspace(0.0, last, math.ceil(last / PHASE_SPACING) + 1)[1:] / self.spread
        # Polynomials of large degree are almost equal at equal phases, so a smaller one stands in.
        degree = min(self.degree, LARGEST_DEGREE)
        c = np.cos((self.degree + self.order) / (degree + self.order) * theta)
        at_one = eval_gegenbauer(degree, self.order, 1.0)
        if np.isinf(at_one):
            # For orders of hundreds T is nearly normal.
            return np.sin(theta), np.exp(-((self.spread * theta) ** 2) / 2)
        factor = eval_gegenbauer(degree, self.order, c) / at_one
        return np.sin(theta), np.cos(theta) ** self.power * factor

    def prove_excess(self, rho: arb, level: float) -> None:
        """Prove D² ≤ level for all angles, at one ρ."""
        bracket = brackets(self, rho)
        last, _ = horizon(self, rho, QUARTER, level)
        verify(lambda box: bracket(box).cap <= level, ((0.0, last),))

    def largest_excess(self, rho: arb, reach: Interval, tolerance: float) -> Bracket:
        """Enclose the largest D² over 0 < y ≤ the end of ``reach``, at one ρ."""
        end = QUARTER if reach[1] >= 1 else upward(exact(reach[1]).sqrt().asin())
        bracket = brackets(self, rho)
        sine, g = self.sample(end)
        height = np.abs(sine * g / float(rho) - float(rho) * (1 - g) / sine)
        peak = min(math.asin(sine[np.argmax(height)]), end)
        known = bracket(((peak, peak),))
        last, beyond = horizon(self, rho, end, known.attained)
        known = known._replace(cap=beyond)
        found = supremum(bracket, ((0.0, last),), known=known, tolerance=tolerance)
        if reach[1] > 1:
            found = found._replace(cap=upward(self._beyond_one(rho, exact(reach[1]), found.cap)))
        return found

    def _beyond_one(self, rho: arb, end: arb, cap: float) -> arb:
        """Return a cap on D² up to y = ``end``, where rounding has raised εL above 1."""
        # No polynomial of the degree n of D² that is at most M on [0, 1] exceeds M·T_n(2y - 1)
        # beyond 1 (Chebyshev).
        growth = (2 * end - 1).chebyshev_t(self.power + self.degree + 1)
        # With cos θ = iτ, τ² = y - 1: the polynomial is a mean of T_j(iτ), j up to its degree.
        tau = (end - 1).sqrt()
        g = tau**self.power * (self.degree * tau.asinh()).cosh()
        root = end.sqrt() / rho
        direct = (root * g + (1 + g) * rho) ** 2
        return (exact(cap) * growth).min(exact(cap).max(direct))


@dataclass(frozen=True)
class Iterates:
    """The iterates of a method: for k ≥ 1 the power is ak + c and the degree is bk - c."""

    a: int
    b: int
    c: int
    order: float
    longest: ClassVar[float] = 1 + 1e-12
    """The longest εL; rounding may raise it above 1 where the step is 1/L."""
    oscillates_until: ClassVar[int] = 0
    """An iterate from which on a cover of short steps may begin: any."""

    def at(self, k: int) -> Iterate:
        """Return iterate k; nothing is learned at k = 0."""
        if k == 0:
            return Iterate(0, 0, self.order)
        return Iterate(self.a * k + self.c, self.b * k - self.c, self.order)

    def last(self, centre: float) -> int:
        """Return a late stop, given the stop with the gain of ridge."""
        return 16 * math.ceil(centre) + 16

    @property
    def flow(self) -> CosineFilter:
        """The flow that late iterates follow."""
        return BesselFilter(2 * self.order) if self.b else GaussianFilter()

    def phase(self, k: int) -> arb:
        """Return N, by which the flow at the phase Nθ is close to iterate k at the angle θ."""
        return exact(self.b * k - self.c) + exact(self.order) if self.b else exact(k).sqrt()

    def distances_fall(self, k: int) -> bool:
        """Whether the distances of iterates from their flow fall from iterate k on."""
        return k >= self.order

    def distance(self, k: int, u: arb) -> arb:
        """Return e(u): how far the polynomial of iterate k is from the flow; e(u)/u grows."""
        if self.b == 0:
            return exact(0)
        # Both solve nearly the same differential equation; see the page for the energy argument.
        nu = exact(self.order)
        bend = COT_SLOPE * nu / (2 * nu + 1).sqrt()
        return (bend * u**2 + nu**2 * u) / self.phase(k) ** 2

    def loss(self, k: int, u: arb) -> arb:
        """Return ℓ(u), which may exceed 1: what the power of the cosine takes away at most."""
        # cos θ ≥ exp(-θ²/2 - θ⁴/8) for θ ≤ 1, and cos(θ)^m ≥ 1 - mθ²/2.
        if self.b == 0:
            return u**4 / (4 * self.phase(k) ** 2)
        return self.at(k).power * u**2 / (2 * self.phase(k) ** 2)

    def narrowing(self, k: int, u: arb) -> arb:
        """Return 1 - N·sin(u/N)/u at most."""
        return u**2 / (6 * self.phase(k) ** 2)

    def beyond(self, k: int, end: float, sigma: arb) -> arb:
        """Return a cap on |D| from u = ``end`` on, for iterate k and all later ones."""
        u = exact(end)
        wide = 1 - self.narrowing(k, u)
        nu = exact(self.order)
        if self.b == 0:
            # The shrinkage is at most that of the flow.
            g = self.flow.tail(end)
        else:
            # Sonin's envelope of the polynomial, from the flow's value and slope at ``end``.
            e = self.distance(k, u)
            value = abs(self.flow.shrinkage(u)) + e
            velocity = abs(self.flow.slope(u)) + e + nu * value / u
            q = 1 - nu * (nu - 1) / (u * wide) ** 2
            if not q > 0:
                return exact(math.inf)
            g = (value**2 + velocity**2 / q).sqrt()
        return u * g / sigma + sigma * (1 + g) / (u * wide)


def _gegenbauer(degree: int, nu: arb, theta: arb) -> arb:
    """Return the Gegenbauer polynomial of order ν at cos θ, divided by its value at 1."""
    # The sum of flint cancels about 1.5 bits for each unit of the phase: so many are added.
    with working_precision(PRECISION + 2 * math.ceil(degree * abs(float(theta)))):
        value = theta.cos().gegenbauer_c(exact(degree), nu)
        at_one = (2 * nu).rising(degree) / exact(degree).fac()
        found: arb = value / at_one
    # As an average of cosines it lies in [-1, 1], which also replaces a failed evaluation.
    return found.intersection(ball(0, 1)) if found.is_finite() else ball(0, 1)


def brackets(iterate: Iterate, rho: arb) -> Callable[[Box], Bracket]:
    """Return the function that brackets D² on an interval of angles, at one ρ."""
    second, fourth = iterate.moments()
    # |D''| ≤ curvature·θ. For A = g·sin θ this uses |g''| ≤ E T² and |g'| ≤ θ·E T². For B write
    # B = wφ with w = θ²/sin θ, w ≤ πθ/2, w' ≤ π, w'' ≤ 3θ, and φ = (1 - g)/θ² with |φ| ≤ E T²/2,
    # |φ'| ≤ θ·E T⁴/12, |φ''| ≤ E T⁴/12.
    curvature = (1 + 3 * second) / rho + rho * (3 * second / 2 + 2 * fourth / 3)

    def bracket(box: Box) -> Bracket:
        theta, radius = centre_and_radius(box[0])
        g = iterate.shrinkage(theta)
        g_slope = iterate.slope(theta)
        sine = theta.sin()
        value = sine * g / rho - rho * (1 - g) / sine
        slope = (theta.cos() * g + sine * g_slope) / rho
        slope += rho * (g_slope + (1 - g) * theta.cot()) / sine
        # Taylor's formula to second order; |D''| is capped at the right end of the cell.
        variation = abs(slope) * radius + curvature * box[0][1] * radius**2 / 2
        return bracket_square(box, value, variation)

    return bracket


def horizon(iterate: Iterate, rho: arb, end: float, level: float) -> tuple[float, float]:
    """Return an angle, and a cap on D² beyond it that lies below a level; or the end, and 0."""
    point = 1 / iterate.spread
    while point < end:
        e = iterate.tail(point)
        sine = exact(point).sin()
        # Each term of this cap falls in θ.
        cap = (sine * e / rho + rho * (1 + e) / sine) ** 2
        if cap < level:
            return point, upward(cap)
        point *= TAIL_GROWTH
    return end, 0.0
