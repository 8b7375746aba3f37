r"""The guarantee of any iteration after few steps, from its loop alone.

The shrinkage of iterate k is a polynomial of degree k in y = εs, so the excess
D² = ((1 + x)g - 1)²/x, x = y/ρ², is one of degree n = 2k + 1. With y = m - h·cos ω on an interval,
it is a trigonometric polynomial of degree n in ω. If M is its maximum, its distance from M/2 is at
most M/2, and Bernstein's inequality bounds its second derivative by n²M/2. As the slope vanishes
at the maximum,

.. math:: M \le \max_j\ \Big(D^2(\omega_j) + \tfrac14 n^2 r_j^2 M\Big)

for any intervals around ω_j of radius r_j that cover [0, π].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    PRECISION, WORK_LIMIT, Bracket, Interval, WorkLimitError, arb, centre_and_radius, downward,
    exact, require_flint, squared, upward, working_precision,
)  # fmt: skip
from stoptime.bounds.filters import CosineFilter, GaussianFilter
from stoptime.methods.recurrence import Update
from stoptime.support.arrays import Array

LONGEST_LOOP = 200  # of a loop in ball arithmetic: the work grows like the square
LARGEST_K = 10_000  # of a polynomial in closed form
LOST_BITS = 1.8  # in each step of a loop at most, as balls grow by 2 + √2
EXCESS_TOLERANCE = 1e-5  # of an excess that is compared with a level
LEAST_SAMPLES = 2000
PHASE_SAMPLES = 200  # for each iteration
SLOW_PHASES = 8.0
APART = 1e-7


def largest_value(
    polynomial: Callable[[arb], arb], degree: int, reach: Interval, tolerance: float
) -> Bracket:
    """Enclose the largest value of a polynomial that is never negative, for y in ``reach``."""
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
    if k > LARGEST_K:
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
        if self.largest_excess(rho, (0.0, 1.0), EXCESS_TOLERANCE).cap > level:
            raise WorkLimitError(f"Not proven: iterate {self.k} is good enough for its steps.")

    def sample(self, end: float) -> tuple[Array, Array]:
        """Return sines of angles up to ``end`` and g there, for a search: floating point."""
        # The oscillation, of size η^(k/2), needs samples at all angles, and what is learned slowly
        # needs more of them near zero.
        count = math.ceil(PHASE_SAMPLES * (self.k + 1) * self.eta ** (self.k / 4))
        slow = min(end, SLOW_PHASES * math.sqrt((1 - self.eta) / (self.k + 1)))
        theta = np.union1d(
            np.linspace(0.0, end, max(LEAST_SAMPLES, count)), np.linspace(0.0, slow, LEAST_SAMPLES)
        )
        sine = np.sin(theta[1:])
        half = (1 + self.eta - sine**2) / 2
        q = math.sqrt(self.eta)
        # Without oscillation the roots z of z² - 2hz + η are real, then they are q·exp(±iψ). The
        # small number keeps equal ones apart.
        start = half[half > q]
        root = np.maximum(np.sqrt(start**2 - self.eta), APART)
        z, w = start + root, start - root
        start = (z ** (self.k + 1) * (1 - w) - w ** (self.k + 1) * (1 - z)) / (z - w)
        psi = np.maximum(np.arccos(half[half <= q] / q), APART)
        rest = q**self.k * (np.sin((self.k + 1) * psi) - q * np.sin(self.k * psi)) / np.sin(psi)
        return sine, np.concatenate([start, rest])


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
        # k^(3/2)·η^(k/2) falls from there on.
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
