"""The worst of all steps of an iteration: early iterates one by one, late ones by their flow.

With a² = 1/ελ* the excess is D², D = aA - B/a, where A = g·sin θ and B = (1 - g)/sin θ do not
depend on the step. So one iterate serves a cell of steps, proven at both ends, and the worst step
is the worst parameter of a family of games.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    Enclosure, Interval, WorkLimitError, arb, ball, centre_and_radius, downward, exact, upward,
    verify,
)  # fmt: skip
from stoptime.bounds.filters import Cell, Shape, shape_of
from stoptime.bounds.flows import flow_inflation
from stoptime.bounds.iterates import Iterates, iterates_of
from stoptime.bounds.iterations import step_inflation
from stoptime.bounds.minimax import Claim, Family, Strategy, corners, enclosure, imbalance, largest
from stoptime.methods.flows import AcceleratedFlow, GradientFlow
from stoptime.methods.iterations import HeavyBall
from stoptime.support.arrays import Array
from stoptime.theory.search import stop_with_gain


@dataclass(frozen=True)
class LateIterates(ABC):
    """How close late iterates are to their flow.

    With the phase N of iterate k, u = Nθ and the shrinkage f of the flow, g is c·(f(u) + e) with
    1 - loss(u) ≤ c ≤ 1 and |e| ≤ distance(u), and sin θ = z/N with 1 - narrowing(u) ≤ z/u ≤ 1. All
    of them fall with k, once ``distances_fall``, and grow with u, also divided by u.
    """

    iterates: Any

    @property
    @abstractmethod
    def flow(self) -> Shape:
        """The shrinkage of the flow."""

    @abstractmethod
    def phase(self, k: int) -> arb:
        """Return N, by which the flow at the phase Nθ is close to iterate k at the angle θ."""

    @abstractmethod
    def distances_fall(self, k: int) -> bool:
        """Whether all that this class knows of iterate k holds for later ones too."""

    def distance(self, k: int, u: arb) -> arb:  # noqa: ARG002 - for iterates that use it
        """Return e(u): how far the polynomial is from the flow."""
        return exact(0)

    @abstractmethod
    def loss(self, k: int, u: arb) -> arb:
        """Return ℓ(u): g is between 1 - ℓ and 1 times what is compared with the flow."""

    def narrowing(self, k: int, u: arb) -> arb:  # noqa: ARG002 - for iterates that use it
        """Return how far N·sin θ is from u, relative to u."""
        return exact(0)

    @abstractmethod
    def beyond(self, k: int, end: float, sigma: arb) -> arb:
        """Return a cap on |D| from a u on, with σ = Nρ."""


class _LateGegenbauer(LateIterates):
    """Late iterates of gradient descent, Nesterov's method and the ν-method."""

    @property
    def flow(self) -> Shape:
        friction = 2 * self.iterates.order
        return shape_of(AcceleratedFlow(friction) if self.iterates.b else GradientFlow())

    def phase(self, k: int) -> arb:
        if self.iterates.b == 0:
            return exact(k).sqrt()
        return exact(self.iterates.b * k - self.iterates.c) + exact(self.iterates.order)

    def distances_fall(self, k: int) -> bool:
        return bool(k >= self.iterates.order)

    def distance(self, k: int, u: arb) -> arb:
        if self.iterates.b == 0:
            return exact(0)
        # Both solve nearly the same differential equation; see the page for the energy argument.
        # For 0 < θ ≤ π/2, 1/θ - cot θ ≤ 4θ/π² < 0.4053·θ.
        nu = exact(self.iterates.order)
        bend = exact(0.4053) * nu / (2 * nu + 1).sqrt()
        return (bend * u**2 + nu**2 * u) / self.phase(k) ** 2

    def loss(self, k: int, u: arb) -> arb:
        # cos θ ≥ exp(-θ²/2 - θ⁴/8) for θ ≤ 1, and cos(θ)^m ≥ 1 - mθ²/2.
        if self.iterates.b == 0:
            return u**4 / (4 * self.phase(k) ** 2)
        power = exact(self.iterates.at(k).power)
        return power * u**2 / (2 * self.phase(k) ** 2)

    def narrowing(self, k: int, u: arb) -> arb:
        return u**2 / (6 * self.phase(k) ** 2)

    def beyond(self, k: int, end: float, sigma: arb) -> arb:
        u = exact(end)
        wide: arb = 1 - self.narrowing(k, u)
        nu = exact(self.iterates.order)
        if self.iterates.b == 0:
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


class _LateHeavyBall(LateIterates):
    """Late iterates of the heavy ball: with u² = Gy they are close to gradient flow."""

    @property
    def flow(self) -> Shape:
        return shape_of(GradientFlow())

    def phase(self, k: int) -> arb:
        # The gain at zero is the slope of -g there.
        found: arb = self.iterates.at(k).first_gain.sqrt()
        return found

    def distances_fall(self, k: int) -> bool:
        # The cap on what comes after the least zero is N·q^k(1 + mk) with N² ≤ k/(1 - η), at most a
        # multiple of k²·η^(k/2), which falls from here on.
        eta = self.iterates.eta
        return bool(eta == 0 or k * exact(eta).log() < -4)

    def _first(self) -> arb:
        """Return (1 - √η)², below which there is no zero of any iterate."""
        return (1 - exact(self.iterates.eta).sqrt()) ** 2

    def loss(self, k: int, u: arb) -> arb:
        # g is the product of 1 - y/z over its zeros z ≥ z₀, the sum of 1/z is G, and
        # log(1 - r) ≥ -r - r²/2(1 - r₀) for r = y/z ≤ r₀ = y/z₀.
        ratio = u**2 / (self.phase(k) ** 2 * self._first())
        return u**2 * ratio / (2 * (1 - ratio)) if ratio < 1 else exact(math.inf)

    def beyond(self, k: int, end: float, sigma: arb) -> arb:
        # Up to the least zero g ≤ exp(-u²). Later |g| ≤ q^k(1 + mk), by the formula with cosines.
        N = self.phase(k)
        q = exact(self.iterates.eta).sqrt()
        g = self.flow.tail(end)
        zero = N * self._first().sqrt()
        if not zero > end:
            return exact(math.inf)
        rest = q**k * (1 + k * (1 - q).max(q / 2))
        head = end * g / sigma + sigma * (1 + g) / end
        return head.max(N * rest / sigma + sigma * (1 + rest) / zero)


def late_iterates_of(method: Any) -> LateIterates:
    """Return what is known of late iterates of a method."""
    iterates = iterates_of(method)
    known = _LateHeavyBall if isinstance(method, HeavyBall) else _LateGegenbauer
    return known(iterates)


@dataclass(frozen=True)
class _EarlySteps(Family):
    """All steps, which are to be stopped after at most ``last`` iterations.

    ``scale`` is the σ at which the flow is to be stopped; iterate k has the scale N/a. An excess
    that is low ``enough`` need not be the least one.
    """

    late: LateIterates
    last: int
    scale: float
    enough: float

    @cached_property
    def _phases(self) -> Array:
        return np.array([float(self.late.phase(k)) for k in range(self.last + 1)])

    def answer(self, a: float) -> tuple[Strategy, float]:
        numbers = np.arange(self.last + 1)
        early = numbers <= max(64, self.late.iterates.oscillates_until)
        # Late numbers follow the flow, and are tried only near the scale that is best for it: all
        # of them where some are not good enough.
        near = np.abs(self._phases - a * self.scale) < 4 + 0.02 * a * self.scale
        for stride in (8, 1):
            tried = np.flatnonzero(early | (near & (numbers % stride == 0))).tolist()
            heights = largest([_points(self.late.iterates, k) for k in tried], a)
            best = int(heights.argmin())
            if heights[best] ** 2 <= self.enough:
                break
        return Strategy.single(tried[best]), float(heights[best] ** 2)

    def highest(self, claim: Claim) -> float:
        ((a, mixture),) = claim
        return float(largest([_points(self.late.iterates, int(mixture.points[0]))], a)[0] ** 2)


@lru_cache(maxsize=20_000)
def _points(iterates: Iterates, k: int) -> Array:
    """Return the points (A, B) of one iterate; before the first one g = 1, so that |D| ≤ a."""
    if k == 0:
        return np.array([[1.0], [0.0]])
    theta = iterates.angles(k)
    g = iterates.in_floats(k, theta)
    sine = np.sin(theta)
    return corners(np.array([sine * g, (1 - g) / sine]))


def every_step_inflation(method: Any, largest_step: float | None, tolerance: float) -> Enclosure:
    """Enclose the largest C of all steps up to ``largest_step``, or of all."""
    late = late_iterates_of(method)
    first = max(64, late.iterates.oscillates_until)
    nearest = 0.0
    if largest_step is not None:
        # Only later iterates matter for short steps.
        first = max(first, 2 * math.ceil(stop_with_gain(method.with_params(step=largest_step))))
        nearest = downward(1 / exact(largest_step).sqrt())
    # In the limit of short steps the constant is that of the flow.
    limit = flow_inflation(late.flow, None, 0.1 * tolerance)
    best = limit.stop if late.flow.order == 2 else math.sqrt(limit.stop)
    known = (limit.upper - 1, math.inf)
    # The stop 0 has D = a·sin θ, and the constant is at least that of the flow.
    low = max(math.sqrt(known[0]), nearest)
    steps = _EarlySteps(late, first, best, known[0])
    some = np.geomspace(low, max(low, float(late.phase(first)) / best), 100).tolist()
    known = max(known, *((steps.answer(a)[1], a) for a in some))
    cap = (1 + known[0]) * (1 + 0.6 * tolerance) - 1
    last, sigma = _prove_late(steps, cap)
    steps = _EarlySteps(late, last, best, known[0])
    high = upward(late.phase(last) / sigma)
    cover = steps.cover(low, max(low, high), known, 0.2 * tolerance)
    cap = (1 + cover.value) * (1 + 0.6 * tolerance) - 1
    for ((a, mixture),) in cover.claims:
        late.iterates.prove_cap(mixture, 1 / exact(a), cap)
    if math.isinf(cover.worst):
        return enclosure(downward(exact(limit.lower) - 1), cap, math.inf, tolerance)
    step = cover.worst**-2 if largest_step is None else min(cover.worst**-2, largest_step)
    hardest = step_inflation(method.with_params(step=step), None, tolerance / 4)
    return enclosure(downward(exact(hardest.lower) - 1), cap, hardest.stop, tolerance)


def _prove_late(steps: _EarlySteps, cap: float) -> tuple[int, arb]:
    """Return an iterate from which on all have at most the cap at the scales up to one, and it."""
    late = steps.late
    k = steps.last
    while k <= 20_000:
        # From one iterate to the next, σ = Nρ grows by this ratio; the factor allows for rounding.
        ratio = float(late.phase(k + 1) / late.phase(k)) * (1 + 1e-9)
        root = math.sqrt(ratio)
        sigmas = exact(steps.scale / root), exact(steps.scale * root)
        try:
            prove_late_iterates(late, k, sigmas, exact(cap).sqrt())
        except WorkLimitError:
            k *= 2  # later iterates are closer to the flow
        else:
            return k, sigmas[1]
    raise WorkLimitError(
        "No iterate up to 20000 is proven to be close enough to its flow; use a larger tolerance."
    )


def prove_late_iterates(late: LateIterates, k: int, sigmas: tuple[arb, arb], d: arb) -> None:
    """Prove that all steps with σ ≤ σ₂ for iterate k have a stop with |D| ≤ d.

    The stop is an iterate, from k on, whose scale σ = Nρ lies between σ₁ and σ₂.
    """
    # The ratio of the phases of neighbours falls with k, so no step falls between two iterates.
    if not sigmas[0] * late.phase(k + 1) <= sigmas[1] * late.phase(k):
        raise WorkLimitError("The cover of short steps has a gap.")
    end = late.flow.tail_start
    while not all(late.beyond(k, end, sigma) <= d for sigma in sigmas):
        end *= 1.25
        if end > 1e4 or not late.narrowing(k, exact(end)) < 1:
            raise WorkLimitError("Not proven: the tail of late iterates stays small.")
    if not late.distances_fall(k):
        raise WorkLimitError("Not proven: later iterates are closer to the flow.")
    # |D| is quasi-convex in σ: both ends are enough.
    verify(
        lambda box: all(_late_cap(late, k, box[0], sigma) <= d for sigma in sigmas),
        ((0.0, end),),
    )


def _late_cap(late: LateIterates, k: int, interval: Interval, sigma: arb) -> arb:
    """Return a cap on |D| over an interval of u, for iterate k and all later ones."""
    first, last = map(exact, interval)
    flow = late.flow
    e = late.distance(k, last)
    narrowing = late.narrowing(k, last)
    loss = late.loss(k, last)
    wide = 1 - narrowing
    if not wide > 0:
        return exact(math.inf)
    if not first > 0:
        # |D| ≤ z/σ + σ·(1 - g)/z, and 1 - g ≤ u²·φ + e + ℓ.
        return last / sigma + sigma * (last * flow.gain_cap + (e + loss) / last) / wide
    # D without the loss differs from that of the flow by e and by the sine: (1 - f)/u is at most
    # the root of E T².
    slower = flow.bend_cap.sqrt() * narrowing
    u, radius = centre_and_radius(interval)
    y = Cell(u / sigma, ball(u, radius) / sigma, 1 / sigma)
    value, slope = imbalance(y, flow.cell(u, radius))
    full = abs(value) + abs(slope) * radius
    full += last / sigma * (e + narrowing) + sigma * (e / last + slower) / wide
    # D is linear in c, and -σ/z where c = 0: it is largest at one of both ends. ℓ(u)/u grows.
    lost = (loss / last).min(1 / first)
    kept = 1 - late.loss(k, first).min(exact(1))
    return full.max(kept * full + sigma * lost / wide)
