r"""The polynomials of iterations: their values, their largest excess, and the flows they follow.

With y = εs = sin²θ and ρ² = ελ*, the excess of iterate k over the risk of ridge is D², where

.. math:: D = \frac{g \sin\theta}{\rho} - \rho\,\frac{1 - g}{\sin\theta}.

For gradient descent, Nesterov's method and the ν-method g = cos(θ)^m·P(cos θ) with a Gegenbauer
polynomial P, P(1) = 1. Both factors are sums of cosines with positive coefficients, so that
g(θ) = E cos(θT), as for the flows. The heavy ball has Chebyshev polynomials. Of any other loop only
the degree is used: D² = ((1 + x)g - 1)²/x, x = y/ρ², is a polynomial of degree n = 2k + 1 in y, and
Bernstein's inequality bounds it between finitely many points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.special import eval_gegenbauer

from stoptime.bounds.balls import (  # isort: skip
    PRECISION, WORK_LIMIT, Box, Bracket, Interval, WorkLimitError, arb, ball, bracket_square,
    centre_and_radius, downward, exact, require_flint, squared, supremum, upward, verify,
    working_precision,
)  # fmt: skip
from stoptime.bounds.filters import BesselFilter, CosineFilter, GaussianFilter
from stoptime.methods.iterations import HeavyBall
from stoptime.methods.recurrence import Update
from stoptime.support.arrays import Array

QUARTER = math.nextafter(math.pi / 2, 2.0)  # the angle of y = 1, rounded up
LONGEST_LOOP = 200  # of a loop in ball arithmetic: the work grows like the square
LOST_BITS = 1.8  # in each step of a loop at most, as balls grow by 2 + √2


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
        # |D| has its peak before the phase 12, in units of 1/√(E T²).
        last = min(end * self.spread, 12.0)
        theta = np.linspace(0.0, last, math.ceil(last / 0.008) + 1)[1:] / self.spread
        # Polynomials of large degree are almost equal at equal phases, so a smaller one stands in.
        degree = min(self.degree, 3000)
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
        # For 0 < θ ≤ π/2, 1/θ - cot θ ≤ 4θ/π² < 0.4053·θ.
        nu = exact(self.order)
        bend = exact(0.4053) * nu / (2 * nu + 1).sqrt()
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
        point *= 1.1
    return end, 0.0


def largest_value(
    polynomial: Callable[[arb], arb], degree: int, reach: Interval, tolerance: float
) -> Bracket:
    r"""Enclose the largest value of a polynomial that is never negative, for y in ``reach``.

    With y = m - h·cos ω it is a trigonometric polynomial of the same degree n in ω. If M is its
    maximum, its distance from M/2 is at most M/2, and Bernstein's inequality bounds its second
    derivative by n²M/2. As the slope vanishes at the maximum,

    .. math:: M \le \max_j\ \Big(D^2(\omega_j) + \tfrac14 n^2 r_j^2 M\Big)

    for any intervals around ω_j of radius r_j that cover [0, π].
    """
    middle, half = centre_and_radius(reach)

    def value(j: int, count: int) -> arb:
        # The centres of the cells are exact multiples of π, so that they cover [0, π].
        omega = require_flint().arb.pi() * (2 * j + 1) / (2 * count)
        return polynomial(middle - half * omega.cos())

    def rise(count: int) -> arb:
        # Half of n²·r², times the cap on the maximum, bounds the rise from a centre to the maximum.
        found: arb = (degree * require_flint().arb.pi() / (2 * count)) ** 2 / 4
        return found

    # With radii of 1/2n, the largest value exceeds (1 - 1/16)·M.
    count = math.ceil(math.pi * degree)
    cells = {j: value(j, count) for j in range(count)}
    cap = max(upward(value) for value in cells.values()) / (1 - rise(count))
    while len(cells) < WORK_LIMIT:
        best = max(downward(value) for value in cells.values())
        room = upward(rise(count) * cap)
        if room <= tolerance * max(1.0, best):
            return Bracket(best, max(upward(value + room) for value in cells.values()), (reach,))
        # A cell whose cap is below the value of another one does not contain the maximum.
        kept = [j for j, value in cells.items() if upward(value + room) >= best]
        count *= 2
        cells = {half_j: value(half_j, count) for j in kept for half_j in (2 * j, 2 * j + 1)}
    raise WorkLimitError(f"The largest value is not found within {WORK_LIMIT} cells.")


def polynomial_excess(
    polynomial: Callable[[arb], arb], k: int, rho: arb, reach: Interval, tolerance: float
) -> Bracket:
    """Enclose the largest D² for y = εs in ``reach``; g has degree k, and g(0) = 1."""
    if k > 10_000:
        raise WorkLimitError(f"A proof for iterate {k} would take too long.")

    def excess(y: arb) -> arb:
        x = y / rho**2
        return squared((1 + x) * polynomial(y) - 1) / x

    return largest_value(excess, 2 * k + 1, reach, tolerance)


def loop_excess(steps: list[Update], rho: arb, reach: Interval, tolerance: float) -> Bracket:
    """Enclose the largest D² after the steps of a loop, for εs in ``reach``."""
    if len(steps) > LONGEST_LOOP or any(step.decay for step in steps):
        raise WorkLimitError("The loop is too long for a proof, or it does not start at g(0) = 1.")
    with working_precision(PRECISION + math.ceil(LOST_BITS * len(steps))):
        after = partial(_after, as_balls(steps))
        return polynomial_excess(after, len(steps), rho, reach, tolerance)


def as_balls(steps: Iterable[Update]) -> list[tuple[arb, ...]]:
    """Return the coefficients of a loop without decay as balls, to run it many times."""
    return [tuple(map(exact, step[:-1])) for step in steps]


def run_loop(steps: list[tuple[arb, ...]], y: arb) -> Iterator[arb]:
    """Yield g after 0, 1, 2, ... steps, as :func:`stoptime.methods.recurrence.iterates` does."""
    value = exact(1)
    move = exact(0)
    yield value
    for momentum, lookahead, weight, stride, direct in steps:
        slope = y * (value + lookahead * move)
        move = momentum * move - weight * slope
        value = value - direct * slope + stride * move
        yield value


def _after(steps: list[tuple[arb, ...]], y: arb) -> arb:
    """Return g after all steps of the loop."""
    *_, last = run_loop(steps, y)
    return last


@dataclass(frozen=True)
class HeavyBallIterate:
    """Iterate k of the heavy ball, with the methods of ``Iterate``."""

    k: int
    eta: float

    def polynomial(self, y: arb) -> arb:
        """Return g at y = εs: q^k·(U_k - q·U_{k-1}) at (1 + η - y)/2q, q = √η, by Chebyshev."""
        if self.k == 0 or self.eta == 0:
            return (1 - y) ** self.k
        q = exact(self.eta).sqrt()
        x = (1 + exact(self.eta) - y) / (2 * q)
        return q**self.k * (x.chebyshev_u(self.k) - q * x.chebyshev_u(self.k - 1))

    def shrinkage(self, theta: arb) -> arb:
        """Return g at the angle θ with sin²θ = εs."""
        return self.polynomial(theta.sin() ** 2)

    def later(self, theta: arb) -> arb:
        """Return a cap on |g| for this iterate and all later ones."""
        g = self.shrinkage(theta)
        eta = exact(self.eta)
        c = (1 + eta - theta.sin() ** 2) / 2
        if c > eta.sqrt():
            # Without oscillation g falls to zero and stays positive.
            return g
        # This energy of two neighbours is multiplied by η in every step.
        before = HeavyBallIterate(max(self.k - 1, 0), self.eta).shrinkage(theta)
        energy = (g - c * before) ** 2 + (eta - c**2) * before**2
        return (energy / (eta - c**2)).upper().sqrt() if c < eta.sqrt() else exact(math.inf)

    def largest_excess(self, rho: arb, reach: Interval, tolerance: float) -> Bracket:
        """Enclose the largest D² for y in ``reach``, at one ρ."""
        return polynomial_excess(self.polynomial, self.k, rho, reach, tolerance)

    def prove_excess(self, rho: arb, level: float) -> None:
        """Prove D² ≤ level for 0 ≤ y ≤ 1, at one ρ."""
        if self.largest_excess(rho, (0.0, 1.0), 1e-5).cap > level:
            raise WorkLimitError(f"Not proven: iterate {self.k} is good enough for its steps.")

    def sample(self, end: float) -> tuple[Array, Array]:
        """Return sines of angles up to ``end`` and g there, for a search: floating point."""
        # The oscillation, of size η^(k/2), needs samples at all angles, and what is learned slowly
        # needs more of them near zero.
        count = math.ceil(200 * (self.k + 1) * self.eta ** (self.k / 4))
        slow = min(end, 8 * math.sqrt((1 - self.eta) / (self.k + 1)))
        theta = np.union1d(np.linspace(0.0, end, max(2000, count)), np.linspace(0.0, slow, 2000))[
            1:
        ]
        sine = np.sin(theta)
        return sine, HeavyBall(1.0, self.eta).shrinkage(sine**2, self.k)


@dataclass(frozen=True)
class HeavyBallIterates:
    """The iterates of the heavy ball with a given momentum."""

    eta: float
    longest: ClassVar[float] = math.inf
    flow: ClassVar[CosineFilter] = GaussianFilter()
    """Late iterates follow gradient flow: with u² = Gy the shrinkage is close to exp(-u²)."""

    def at(self, k: int) -> HeavyBallIterate:
        """Return iterate k."""
        return HeavyBallIterate(k, self.eta)

    def last(self, centre: float) -> int:
        """Return a late stop, given the stop with the gain of ridge."""
        # Oscillations fall like η^(k/2), and below the frequency of the damping like exp(-εsk).
        return 16 * math.ceil(centre) + math.ceil(16 / (1 - math.sqrt(self.eta)))

    @property
    def oscillates_until(self) -> int:
        """An iterate from which on most of the oscillation, of size η^(k/2), has gone."""
        return math.ceil(8 / (1 - math.sqrt(self.eta)))

    def phase(self, k: int) -> arb:
        """Return N = √G, where G is the sum of (1 - η^j)/(1 - η), j ≤ k: the slope of -g at 0."""
        eta = exact(self.eta)
        return ((k - eta * (1 - eta**k) / (1 - eta)) / (1 - eta)).sqrt()

    def distances_fall(self, k: int) -> bool:
        """Whether the distances of iterates from their flow fall from iterate k on."""
        # The cap on what comes after the least zero is N·q^k(1 + mk) with N² ≤ k/(1 - η): the
        # logarithm of k²·η^(k/2) falls as soon as k·log η < -4.
        return bool(self.eta == 0 or k * exact(self.eta).log() < -4)

    def distance(self, k: int, u: arb) -> arb:  # noqa: ARG002 - others have one
        """Return 0: the shrinkage is a multiple of the flow's up to the least zero."""
        return exact(0)

    def narrowing(self, k: int, u: arb) -> arb:  # noqa: ARG002 - others have one
        """Return 0: u is N·√y itself."""
        return exact(0)

    def _first(self) -> arb:
        """Return (1 - √η)², below which there is no zero of any iterate."""
        return (1 - exact(self.eta).sqrt()) ** 2

    def loss(self, k: int, u: arb) -> arb:
        """Return ℓ(u): g is between 1 - ℓ and 1 times the shrinkage of the flow."""
        # g is the product of 1 - y/z over its zeros z ≥ z₀, the sum of 1/z is G, and
        # log(1 - r) ≥ -r - r²/2(1 - r₀) for r = y/z ≤ r₀ = y/z₀.
        ratio = u**2 / (self.phase(k) ** 2 * self._first())
        return u**2 * ratio / (2 * (1 - ratio)) if ratio < 1 else exact(math.inf)

    def beyond(self, k: int, end: float, sigma: arb) -> arb:
        """Return a cap on |D| from u = ``end`` on, for iterate k and all later ones."""
        # Up to the least zero g ≤ exp(-u²). Later |g| ≤ q^k(1 + mk), by the formula with cosines.
        N = self.phase(k)
        q = exact(self.eta).sqrt()
        g = self.flow.tail(end)
        zero = N * self._first().sqrt()
        if not zero > end:
            return exact(math.inf)
        rest = q**k * (1 + k * (1 - q).max(q / 2))
        head = end * g / sigma + sigma * (1 + g) / end
        return head.max(N * rest / sigma + sigma * (1 + rest) / zero)
