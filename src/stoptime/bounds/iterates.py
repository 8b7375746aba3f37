"""The polynomials of iterations: their values, their largest excess, and the flows they follow.

With εs = sin²θ three methods have g = cos(θ)^m·P(cos θ), P a Gegenbauer polynomial with P(1) = 1:
g(θ) = E cos(θT), as for the flows. The heavy ball has Chebyshev polynomials. Of any other loop only
the degree is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import eval_gegenbauer

from stoptime.bounds.balls import (  # isort: skip
    PRECISION, WORK_LIMIT, Box, Bracket, Interval, WorkLimitError, arb, ball, bracket_square,
    centre_and_radius, downward, exact, largest_on_ray, require_flint, squared, upward,
    working_precision,
)  # fmt: skip
from stoptime.bounds.filters import Cell, Curve, Shape, shape_of
from stoptime.bounds.minimax import imbalance
from stoptime.methods.flows import AcceleratedFlow, GradientFlow
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.recurrence import Update
from stoptime.support.arrays import Array

PROVEN_ITERATIONS = (GradientDescent, Nesterov, NuMethod, HeavyBall)
QUARTER = math.nextafter(math.pi / 2, 2.0)  # the angle of y = 1, rounded up
LONGEST_LOOP = 200  # of a loop in ball arithmetic: the work grows like the square


class _Sampled:
    """What both kinds of iterates share: values in floating point, for searches.

    Each kind also has ``flow``, ``longest`` (the longest εL), ``at(k)``, and what is known of late
    iterates. With the phase N of iterate k, u = Nθ and the shrinkage f of the flow, g is
    c·(f(u) + e) with 1 - loss(u) ≤ c ≤ 1 and |e| ≤ distance(u), and sin θ = z/N with
    1 - narrowing(u) ≤ z/u ≤ 1. All of them fall with k, once ``distances_fall``, and grow with u,
    also divided by u. ``beyond`` caps |D| from a u on, with σ = Nρ.
    """

    method: Any
    flow: Any
    phase: Any

    def sample(self, k: int) -> tuple[Array, Array]:
        """Return sines of angles that show all peaks of |D|, and g there."""
        # The peak is at a few units of the phase, but for fast oscillations of early iterates.
        slow = 8.5 / max(1.0, float(self.flow.gain_cap.sqrt() * self.phase(k)))
        count = 500 + math.ceil(200 * (k + 1) * getattr(self.method, "eta", 0.0) ** (k / 4))
        even = np.linspace(0.0, QUARTER, count)
        theta = np.union1d(even, np.linspace(0.0, min(QUARTER, slow), 1500))[1:]
        return np.sin(theta), self.in_floats(k, theta)

    def in_floats(self, k: int, theta: Array) -> Array:
        """Return g at many angles."""
        return np.asarray(self.method.with_params(step=1.0).shrinkage(np.sin(theta) ** 2, k))


@dataclass(frozen=True)
class _Gegenbauer(Curve):
    """An iterate g = cos(θ)^power · P(cos θ)."""

    power: int
    degree: int
    order: float  # of the polynomial P, at least 1

    def shrinkage(self, theta: arb) -> arb:
        return theta.cos() ** self.power * self._factor(theta)

    def slope(self, theta: arb) -> arb:
        c = theta.cos()
        inner = 0 if self.power == 0 else self.power * c ** (self.power - 1) * self._factor(theta)
        return -theta.sin() * (inner + c**self.power * self._factor_slope(theta))

    @property
    def bend_cap(self) -> arb:
        """E T², where T is a sum of ``power`` independent signs and of a variable for P."""
        n, nu = exact(self.degree), exact(self.order)
        return self.power + n * (n + 2 * nu) / (2 * nu + 1)

    def _factor(self, theta: arb) -> arb:
        return _gegenbauer(self.degree, exact(self.order), theta)

    def _factor_slope(self, theta: arb) -> arb:
        # P' at cos θ: the derivative is a polynomial of the next order.
        if self.degree == 0:
            return exact(0)
        nu = exact(self.order)
        scale = self.degree * (self.degree + 2 * nu) / (2 * nu + 1)
        return scale * _gegenbauer(self.degree - 1, nu + 1, theta)

    def later(self, theta: arb) -> arb:
        """Return a cap on |g| for this iterate and all later ones."""
        power = theta.cos().nonnegative_part() ** self.power
        if self.degree == 0:
            return power
        # (P - c·before)² + (s·before)² never grows with the degree, as the page shows.
        before = _gegenbauer(self.degree - 1, exact(self.order), theta)
        sine = theta.sin()
        energy = (self._factor(theta) - theta.cos() * before) ** 2 + (sine * before) ** 2
        return power * energy.upper().sqrt() / sine

    def _tail(self, start: float) -> arb:
        """Return an e with |g| ≤ e and sin θ·|g| ≤ e·sin(start) from ``start`` on, or infinity."""
        # v = sin(θ)^ν·P solves v'' + qv = 0 with q below, which does not fall up to π/2 as ν ≥ 1.
        # So v² + v'²/q never grows once q is positive (Sonin), and it bounds v² from here on.
        theta = exact(start)
        nu = exact(self.order)
        q = (self.degree + nu) ** 2 - nu * (nu - 1) / theta.sin() ** 2
        if not q > 0:
            return exact(math.inf)
        P = self._factor(theta)
        velocity = -theta.sin() * self._factor_slope(theta) + nu * theta.cot() * P
        envelope = (P**2 + velocity**2 / q).sqrt().upper()
        return theta.cos().nonnegative_part() ** self.power * envelope

    def largest_excess(
        self, rho: arb, reach: Interval, tolerance: float, enough: float = -math.inf
    ) -> Bracket:
        """Enclose the largest D² for εs up to the end of ``reach``, at one ρ."""
        # As 1 - g ≤ θ²·E T²/2 and θ ≤ (π/2)·sin θ, this is 1 + φ at most, and |D| ≤ y·(1 + φ).
        steepest = 1 + self.bend_cap * rho**2 * exact(1.25)
        unit = 1 / math.sqrt(max(1.0, float(self.bend_cap)))

        def bracket(box: Box) -> Bracket:
            theta, radius = centre_and_radius(box[0])
            cell = ball(theta, radius)
            y = Cell(theta.sin() / rho, cell.sin() / rho, cell.cos() / rho)
            found = imbalance(y, self.cell(theta, radius))
            return bracket_square(box, found.centre, abs(found.slope) * radius)

        def tail(start: float) -> arb:
            e = self._tail(start)
            sine = exact(start).sin()
            return (sine * e / rho + rho * (1 + e) / sine) ** 2

        found = largest_on_ray(
            bracket,
            tail,
            unit=unit,
            start=unit,
            tolerance=tolerance,
            near=lambda attained: downward(rho * exact(attained).sqrt() / steepest),
            last=QUARTER if reach[1] >= 1 else upward(exact(reach[1]).sqrt().asin()),
            enough=enough,
        )
        if reach[1] <= 1:
            return found
        # Rounding has raised εL above 1. No polynomial of the degree n of D² that is at most M on
        # [0, 1] exceeds M·T_n(2y - 1) beyond 1 (Chebyshev).
        end, cap = exact(reach[1]), exact(found.cap)
        growth = (2 * end - 1).chebyshev_t(self.power + self.degree + 1)
        # With cos θ = iτ, τ² = y - 1: the polynomial is a mean of T_j(iτ), j up to its degree.
        tau = (end - 1).sqrt()
        g = tau**self.power * (self.degree * tau.asinh()).cosh()
        direct = (end.sqrt() / rho * g + (1 + g) * rho) ** 2
        return found._replace(cap=upward((cap * growth).min(cap.max(direct))))


@dataclass(frozen=True)
class _GegenbauerIterates(_Sampled):
    """Iterates with the power ak + c and the degree bk - c, for k ≥ 1."""

    method: Any
    a: int
    b: int
    c: int
    order: float
    longest: ClassVar[float] = 1 + 1e-12  # rounding may raise εL above 1 where the step is 1/L
    oscillates_until: ClassVar[int] = 0

    def at(self, k: int) -> _Gegenbauer:
        if k == 0:
            return _Gegenbauer(0, 0, self.order)
        return _Gegenbauer(self.a * k + self.c, self.b * k - self.c, self.order)

    @property
    def flow(self) -> Shape:
        return shape_of(AcceleratedFlow(2 * self.order) if self.b else GradientFlow())

    def in_floats(self, k: int, theta: Array) -> Array:
        iterate = self.at(k)
        at_one = eval_gegenbauer(iterate.degree, self.order, 1.0)
        # The polynomial is faster than a long loop, unless it overflows.
        if k < 64 or not np.isfinite(at_one):
            return super().in_floats(k, theta)
        c = np.cos(theta)
        factor = eval_gegenbauer(iterate.degree, self.order, c) / at_one
        return np.asarray(c**iterate.power * factor)

    def phase(self, k: int) -> arb:
        """Return N, by which the flow at the phase Nθ is close to iterate k at the angle θ."""
        return exact(self.b * k - self.c) + exact(self.order) if self.b else exact(k).sqrt()

    def distances_fall(self, k: int) -> bool:
        return k >= self.order

    def distance(self, k: int, u: arb) -> arb:
        """Return e(u): how far the polynomial is from the flow."""
        if self.b == 0:
            return exact(0)
        # Both solve nearly the same differential equation; see the page for the energy argument.
        # For 0 < θ ≤ π/2, 1/θ - cot θ ≤ 4θ/π² < 0.4053·θ.
        nu = exact(self.order)
        bend = exact(0.4053) * nu / (2 * nu + 1).sqrt()
        return (bend * u**2 + nu**2 * u) / self.phase(k) ** 2

    def loss(self, k: int, u: arb) -> arb:
        """Return ℓ(u): what the power of the cosine takes away at most."""
        # cos θ ≥ exp(-θ²/2 - θ⁴/8) for θ ≤ 1, and cos(θ)^m ≥ 1 - mθ²/2.
        if self.b == 0:
            return u**4 / (4 * self.phase(k) ** 2)
        return self.at(k).power * u**2 / (2 * self.phase(k) ** 2)

    def narrowing(self, k: int, u: arb) -> arb:
        return u**2 / (6 * self.phase(k) ** 2)

    def beyond(self, k: int, end: float, sigma: arb) -> arb:
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


@dataclass(frozen=True)
class _Chebyshev:
    """Iterate k of the heavy ball with the momentum η."""

    k: int
    eta: float

    def polynomial(self, y: arb) -> arb:
        """Return g at y = εs: q^k·(U_k - q·U_{k-1}) at (1 + η - y)/2q, q = √η."""
        if self.k == 0 or self.eta == 0:
            return (1 - y) ** self.k
        q = exact(self.eta).sqrt()
        x = (1 + exact(self.eta) - y) / (2 * q)
        return q**self.k * (x.chebyshev_u(self.k) - q * x.chebyshev_u(self.k - 1))

    def shrinkage(self, theta: arb) -> arb:
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
        before = _Chebyshev(max(self.k - 1, 0), self.eta).shrinkage(theta)
        energy = (g - c * before) ** 2 + (eta - c**2) * before**2
        return (energy / (eta - c**2)).upper().sqrt() if c < eta.sqrt() else exact(math.inf)

    def largest_excess(
        self, rho: arb, reach: Interval, tolerance: float, enough: float = -math.inf
    ) -> Bracket:
        return polynomial_excess(self.polynomial, self.k, rho, reach, tolerance, enough)


@dataclass(frozen=True)
class _HeavyBallIterates(_Sampled):
    """The iterates of the heavy ball; with u² = Gy late ones are close to gradient flow."""

    method: Any
    eta: float
    longest: ClassVar[float] = math.inf

    def at(self, k: int) -> _Chebyshev:
        return _Chebyshev(k, self.eta)

    @property
    def flow(self) -> Shape:
        return shape_of(GradientFlow())

    @property
    def oscillates_until(self) -> int:
        return math.ceil(8 / (1 - math.sqrt(self.eta)))

    def phase(self, k: int) -> arb:
        """Return N = √G, where G is the sum of (1 - η^j)/(1 - η), j ≤ k: the slope of -g at 0."""
        eta = exact(self.eta)
        return ((k - eta * (1 - eta**k) / (1 - eta)) / (1 - eta)).sqrt()

    def distances_fall(self, k: int) -> bool:
        # The cap on what comes after the least zero is N·q^k(1 + mk) with N² ≤ k/(1 - η).
        return bool(self.eta == 0 or k * exact(self.eta).log() < -4)

    def distance(self, k: int, u: arb) -> arb:  # noqa: ARG002 - g is a multiple of the flow's
        return exact(0)

    def narrowing(self, k: int, u: arb) -> arb:  # noqa: ARG002 - u is N·√y itself
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


Iterates = _GegenbauerIterates | _HeavyBallIterates


def iterates_of(method: Any) -> Iterates:
    """Return the iterates of a method that has certified constants."""
    if type(method) is HeavyBall:
        if isinstance(method.momentum, str) or not method.follows_flow:
            raise ValueError(
                "The constant of HeavyBall grows without bound as its momentum tends to 1: give "
                "the momentum as a number."
            )
        return _HeavyBallIterates(method, method.eta)
    if not method.universal_guarantee:
        raise ValueError(
            f"No bound of {method} is proven: it needs a constant step, friction ≥ 2 without a "
            "constant momentum, or ν ≥ 1/2."
        )
    # without momentum, every iteration is gradient descent
    if isinstance(method, Nesterov) and method.has_momentum:
        return _GegenbauerIterates(method, 1, 1, 1, method.friction / 2)
    if isinstance(method, NuMethod):
        return _GegenbauerIterates(method, 0, 2, 0, 2 * method.nu)
    return _GegenbauerIterates(method, 2, 0, 0, 1.0)


def largest_value(
    polynomial: Callable[[arb], arb],
    degree: int,
    reach: Interval,
    tolerance: float,
    enough: float = -math.inf,
) -> Bracket:
    r"""Enclose the largest value of a polynomial that is never negative, for y in ``reach``.

    With y = m - h·cos ω it is a trigonometric polynomial of the same degree n in ω. If M is its
    maximum, its distance from M/2 is at most M/2, and Bernstein's inequality bounds its second
    derivative by n²M/2. As the slope vanishes at the maximum,

    .. math:: M \le \max_j\ \Big(D^2(\omega_j) + \tfrac14 n^2 r_j^2 M\Big)

    for any intervals around ω_j of radius r_j that cover [0, π].
    """
    middle, half = centre_and_radius(reach)
    pi = require_flint().arb.pi()

    def value(j: int, count: int) -> arb:
        # The centres of the cells are exact multiples of π, so that they cover [0, π].
        return polynomial(middle - half * (pi * (2 * j + 1) / (2 * count)).cos())

    def rise(count: int) -> arb:
        # Half of n²·r², times the cap on the maximum, bounds the rise from a centre to the maximum.
        found: arb = (degree * pi / (2 * count)) ** 2 / 4
        return found

    # With radii of 1/2n, the largest value exceeds (1 - 1/16)·M.
    count = math.ceil(math.pi * degree)
    cells = {j: value(j, count) for j in range(count)}
    cap = max(upward(value) for value in cells.values()) / (1 - rise(count))
    while len(cells) < WORK_LIMIT:
        best = max(downward(value) for value in cells.values())
        room = upward(rise(count) * cap)
        cap_here = max(upward(value + room) for value in cells.values())
        if room <= tolerance * max(1.0, best) or cap_here <= enough:
            return Bracket(best, cap_here, (reach,))
        # A cell whose cap is below the value of another one does not contain the maximum.
        kept = [j for j, value in cells.items() if upward(value + room) >= best]
        count *= 2
        cells = {half_j: value(half_j, count) for j in kept for half_j in (2 * j, 2 * j + 1)}
    raise WorkLimitError(f"The largest value is not found within {WORK_LIMIT} cells.")


def polynomial_excess(
    polynomial: Callable[[arb], arb],
    k: int,
    rho: arb,
    reach: Interval,
    tolerance: float,
    enough: float = -math.inf,
) -> Bracket:
    """Enclose the largest D² for y = εs in ``reach``; g has degree k, and g(0) = 1."""
    if k > 10_000:
        raise WorkLimitError(f"A proof for iterate {k} would take too long.")

    def excess(y: arb) -> arb:
        x = y / rho**2
        return squared((1 + x) * polynomial(y) - 1) / x

    return largest_value(excess, 2 * k + 1, reach, tolerance, enough)


def loop_precision(k: int) -> Any:
    """Return the precision for k steps of a loop, whose balls grow by at most 2 + √2 in each."""
    return working_precision(PRECISION + math.ceil(1.8 * k))


def loop_excess(steps: list[Update], rho: arb, reach: Interval, tolerance: float) -> Bracket:
    """Enclose the largest D² after the steps of a loop, for εs in ``reach``."""
    if len(steps) > LONGEST_LOOP or any(step.decay or step.pull for step in steps):
        raise WorkLimitError("The loop is too long for a proof, or it does not start at g(0) = 1.")
    with loop_precision(len(steps)):
        loop = as_balls(steps)
        after = lambda y: list(run_loop(loop, y))[-1]  # noqa: E731 - the argument of one call
        return polynomial_excess(after, len(steps), rho, reach, tolerance)


def as_balls(steps: Iterable[Update]) -> list[tuple[arb, ...]]:
    """Return the coefficients of a loop without decay as balls, to run it many times."""
    return [tuple(map(exact, step[:5])) for step in steps]


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
