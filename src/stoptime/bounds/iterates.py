"""The polynomials of iterations: their values, and what bounds them.

With εs = sin²θ three methods have g = cos(θ)^m·P(cos θ), P a Gegenbauer polynomial with P(1) = 1:
g(θ) = E cos(θT), as for the flows. The heavy ball has Chebyshev polynomials. Of any other loop only
the degree is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from stoptime.bounds.balls import (  # isort: skip
    PRECISION, WORK_LIMIT, Interval, WorkLimitError, arb, ball, centre_and_radius, downward, exact,
    require_flint, squared, upward, working_precision,
)  # fmt: skip
from stoptime.bounds.filters import Curve
from stoptime.bounds.minimax import Strategy
from stoptime.methods.recurrence import Update

LONGEST_LOOP = 200  # of a loop in ball arithmetic: the work grows like the square


@dataclass(frozen=True)
class Gegenbauer(Curve):
    """An iterate g = cos(θ)^power · P(cos θ)."""

    power: int
    degree: int
    order: float  # of the polynomial P, at least 1

    def shrinkage(self, theta: arb) -> arb:
        """Return g at an angle."""
        return theta.cos() ** self.power * self._factor(theta)

    def slope(self, theta: arb) -> arb:
        """Return g' at an angle."""
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
        power = abs(theta.cos()) ** self.power
        if self.degree == 0:
            return power
        # (P - c·before)² + (s·before)² never grows with the degree, as the page shows.
        before = _gegenbauer(self.degree - 1, exact(self.order), theta)
        sine = theta.sin()
        energy = (self._factor(theta) - theta.cos() * before) ** 2 + (sine * before) ** 2
        return power * energy.upper().sqrt() / sine

    def tail(self, start: float) -> arb:
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
        return abs(theta.cos()) ** self.power * envelope


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
class Chebyshev:
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
        """Return g at an angle."""
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
        before = Chebyshev(max(self.k - 1, 0), self.eta).shrinkage(theta)
        energy = (g - c * before) ** 2 + (eta - c**2) * before**2
        return (energy / (eta - c**2)).upper().sqrt() if c < eta.sqrt() else exact(math.inf)


def polynomial_excess(
    shrinkages: Callable[[arb], list[arb]],
    mixture: Strategy,
    k: int,
    rho: arb,
    reach: Interval,
    tolerance: float,
) -> tuple[float, float]:
    r"""Enclose the largest mean of D² for y = εs in ``reach``; g has degree k, and g(0) = 1.

    With y = m - h·cos ω it is a trigonometric polynomial of degree n = 2k + 1 in ω. If M is its
    maximum, its distance from M/2 is at most M/2, and Bernstein's inequality bounds its second
    derivative by n²M/2. As the slope vanishes at the maximum,

    .. math:: M \le \max_j\ \Big(D^2(\omega_j) + \tfrac14 n^2 r_j^2 M\Big)

    for any intervals around ω_j of radius r_j that cover [0, π].
    """
    if k > 10_000:
        raise WorkLimitError(f"A proof for iterate {k} would take too long.")
    middle, half = centre_and_radius(reach)
    pi = require_flint().arb.pi()

    def excess(j: int, count: int) -> arb:
        # The centres of the cells are exact multiples of π, so that they cover [0, π].
        y = middle - half * (pi * (2 * j + 1) / (2 * count)).cos()
        x: arb = y / rho**2
        return mixture.total(squared((1 + x) * g - 1) / x for g in shrinkages(y))

    def rise(count: int) -> arb:
        # Half of n²·r², times the cap on the maximum, bounds the rise from a centre to the maximum.
        found: arb = ((2 * k + 1) * pi / (2 * count)) ** 2 / 4
        return found

    # With radii of 1/2n, the largest value exceeds (1 - 1/16)·M.
    count = math.ceil(math.pi * (2 * k + 1))
    cells = {j: excess(j, count) for j in range(count)}
    cap = max(upward(value) for value in cells.values()) / (1 - rise(count))
    while len(cells) < WORK_LIMIT:
        best = max(downward(value) for value in cells.values())
        room = upward(rise(count) * cap)
        if room <= tolerance * max(1.0, best):
            return best, max(upward(value + room) for value in cells.values())
        # A cell whose cap is below the value of another one does not contain the maximum.
        kept = [j for j, value in cells.items() if upward(value + room) >= best]
        count *= 2
        cells = {half_j: excess(half_j, count) for j in kept for half_j in (2 * j, 2 * j + 1)}
    raise WorkLimitError(f"The largest value is not found within {WORK_LIMIT} cells.")


def loop_precision(k: int) -> Any:
    """Return the precision for k steps of a loop, whose balls grow by at most 2 + √2 in each."""
    return working_precision(PRECISION + math.ceil(1.8 * k))


def loop_excess(
    steps: list[Update], rho: arb, reach: Interval, tolerance: float
) -> tuple[float, float]:
    """Enclose the largest D² after the steps of a loop, for εs in ``reach``."""
    if len(steps) > LONGEST_LOOP or any(step.pull for step in steps):
        raise WorkLimitError("The loop is too long for a proof, or it does not start at g(0) = 1.")
    with loop_precision(len(steps)):
        loop = as_balls(steps)

        def after(y: arb) -> list[arb]:
            return list(run_loop(loop, y))[-1:]

        last = Strategy.single(len(steps))
        return polynomial_excess(after, last, len(steps), rho, reach, tolerance)


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
