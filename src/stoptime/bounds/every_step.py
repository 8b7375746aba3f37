r"""Certificates of iterations: the best stop at one step, and the worst step.

.. math:: C(\varepsilon) = \min_{k \ge 0} \max_{0 \le s \le 1/\varepsilon}\ (1 + x) g_k^2
          + \frac{(1 + x)(1 - g_k)^2}{x}, \qquad x = s/\lambda^*

depends on the step through a² = 1/ελ* alone: with y = εs the inflation is 1 + D² and D = aA - B/a
as in the module ``iterates``, where A and B do not depend on a. So for fixed k the steps with
|D| ≤ d for all y form an interval, and a cover of all a > 0 by such intervals proves sup C.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    Enclosure, Interval, WorkLimitError, arb, downward, exact, inflation_between, upward, verify,
)  # fmt: skip
from stoptime.bounds import heavy_ball_plan as plan
from stoptime.bounds.iterates import QUARTER, Iterates
from stoptime.bounds.loops import HeavyBallIterates
from stoptime.bounds.one_variable import flow_inflation, imbalance, sample
from stoptime.support.arrays import Array
from stoptime.theory.search import stop_with_gain

WITNESS_RATIO = 1.001  # of neighbouring angles at which |D| is compared
CLOSE_LOOK = 1.03  # times the lowest peak of |D|
MOST_STOPS = 20_000  # that are excluded one by one, at one step
EVERY_ITERATE = 64  # up to here a cover may use every iterate
STRIDES = (8, 2, 1)  # between later ones that it may use
LARGEST_FIRST = 20_000  # of late iterates
END_GROWTH = 1.25  # between the phases that are tried as the beginning of the tail
LAST_END = 1e4  # of these phases
LARGEST_D = 10.0
WHOLE_REACH = (0.0, 1.0)  # of y = εs

# Shares of the tolerance: the floor under all stops, and the cap that the cover proves.
BELOW_SHARE = 0.2
ABOVE_SHARE = 0.4

AnyIterates = Iterates | HeavyBallIterates


def step_inflation(
    method: Any, iterates: AnyIterates, stop: float | None, tolerance: float
) -> Enclosure:
    """Enclose C at the step ελ* of the method, or the inflation of one iterate."""
    step = method.epsilon
    rho = exact(step).sqrt()
    if stop is not None:
        found = iterates.at(int(stop)).largest_excess(rho, WHOLE_REACH, tolerance)
        return inflation_between(found.attained, found.cap, stop)
    angles, heights = _peaks(method, iterates, iterates.last(stop_with_gain(method)))
    k = int(np.argmin(heights))
    best = iterates.at(k).largest_excess(rho, WHOLE_REACH, (1 - BELOW_SHARE) * tolerance)
    floor = max(0.0, best.attained - BELOW_SHARE * tolerance * max(1.0, best.attained))
    _prove_floor(iterates, rho, exact(floor).sqrt(), angles)
    return inflation_between(floor, best.cap, k)


def _peaks(method: Any, iterates: AnyIterates, last: int) -> tuple[Array, Array]:
    """Return the angle where |D| is largest, and |D| there, for every stop before ``last``."""
    step = method.epsilon
    if last > MOST_STOPS:
        raise WorkLimitError(
            f"At the step {step:g} the proof that no stop is better than the best one needs {last} "
            "stops, which would take too long: give the stop, or take a larger step."
        )
    theta = QUARTER / WITNESS_RATIO ** np.arange(math.log(10 * last) / math.log(WITNESS_RATIO))

    def height(sine: Array, g: Array) -> Array:
        return np.abs(sine * g / math.sqrt(step) - math.sqrt(step) * (1 - g) / sine)

    found = []
    run = method.with_params(step=1.0).run(np.sin(theta) ** 2, np.array(1.0))
    for g in islice(run, last):
        at = height(np.sin(theta), g)
        found.append((theta[at.argmax()], at.max()))
    angles, heights = np.array(found).T
    # The peaks of fast oscillations lie between these angles, and a good stop needs a close look.
    for k in np.flatnonzero(heights < CLOSE_LOOK * heights.min()).tolist():
        sine, g = iterates.at(k).sample(QUARTER)
        at = height(sine, g)
        if at.max() > heights[k]:
            angles[k], heights[k] = math.asin(sine[at.argmax()]), at.max()
    return angles, heights


def _prove_floor(iterates: AnyIterates, rho: arb, d: arb, angles: Array) -> None:
    """Prove that every stop has an angle with |D| ≥ d; ``angles`` has one for the early stops."""
    for k, angle in enumerate(angles.tolist()):
        theta = exact(angle)
        g = iterates.at(k).shrinkage(theta)
        if not abs(theta.sin() * g / rho - rho * (1 - g) / theta.sin()) >= d:
            raise WorkLimitError(f"Not proven: the stop {k} is no better than the best one.")
    # Late stops have little shrinkage left at this angle, where the variance alone exceeds d.
    theta = exact(math.asin(min(1.0, float(rho / (2 * d)))))
    sine = theta.sin()
    if not iterates.at(len(angles)).later(theta) * (sine / rho + rho / sine) - rho / sine <= -d:
        raise WorkLimitError("Not proven: every late stop is worse than the best one.")


def every_step_inflation(
    method: Any, iterates: AnyIterates, largest_step: float | None, tolerance: float
) -> Enclosure:
    """Enclose the supremum of C over all ελ*, or over those up to ``largest_step``."""
    every = max(EVERY_ITERATE, iterates.oscillates_until)
    nearest = 0.0
    if largest_step is not None:
        every = max(every, 2 * math.ceil(stop_with_gain(method.with_params(step=largest_step))))
        nearest = downward(1 / exact(largest_step).sqrt())
    u, f = sample(iterates.flow)
    steps = Steps(iterates, plan.points_of({0.0: np.array([u * f, (1 - f) / u])}), nearest)

    limit = flow_inflation(iterates.flow, None, BELOW_SHARE * tolerance)
    least = math.sqrt(plan.raised_excess(math.sqrt(limit.upper - 1), BELOW_SHARE * tolerance))
    points = _points(iterates, range(1, every + 1))
    d, worst = plan.least_cover(lambda d: steps.cover(points, d, every), least, LARGEST_D)
    level = math.sqrt(plan.raised_excess(d, plan.COVER_SHARE * tolerance))
    cap = plan.raised_excess(d, ABOVE_SHARE * tolerance)
    last = steps.prove_late(every, level, exact(cap).sqrt())
    steps.prove_early(every, last, level, cap)
    upper = upward(1 + exact(cap))
    # In the limit of short steps the constant is that of the flow: it is a lower bound as well.
    found = Enclosure(limit.lower, upper, math.inf)
    if d > (1 + 1e-5) * least:
        step = worst**-2 if largest_step is None else min(worst**-2, largest_step)
        hardest = step_inflation(method.with_params(step=step), iterates, None, tolerance / 2)
        found = replace(hardest, upper=upper)
    # The two ends are proven independently, so only now it is known how far they are apart.
    if found.width > tolerance * found.upper:
        raise WorkLimitError(
            f"The inflation is only known to lie in {found}; use a larger tolerance."
        )
    return found


def _points(iterates: AnyIterates, numbers: Iterable[int]) -> plan.Points:
    """Return the points (A, B) of some iterates."""
    return plan.points_of({float(k): _corners(iterates, k) for k in numbers})


@lru_cache(maxsize=LARGEST_FIRST)
def _corners(iterates: AnyIterates, k: int) -> Array:
    sine, g = iterates.at(k).sample(QUARTER)
    return plan.corners(np.array([sine * g, (1 - g) / sine]))


@dataclass(frozen=True)
class Steps:
    """All a ≥ ``nearest``, which are to have an iterate with |D| ≤ d; ``flow`` has its points."""

    iterates: AnyIterates
    flow: plan.Points
    nearest: float

    def cover(self, points: plan.Points, d: float, last: int) -> plan.Cover:
        """Cover the steps that are left to iterates up to ``last``; return pieces and gaps."""
        # The stop 0 has D = a·sin θ ≤ d for a ≤ d, and late iterates are proven beyond the end. The
        # factor moves the end to the safe side of its rounding error.
        end = float(self.iterates.phase(last)) / self._scales(last, d)[1] * (1 + 1e-10)
        ends = plan.intervals(points, d)
        return plan.greedy_cover(points.stops, ends, max(d, self.nearest), end)

    def _scales(self, first: int, d: float) -> tuple[float, float]:
        """Return scales σ at which the flow has |D| ≤ d, just far enough apart for k ≥ first."""
        low, high = plan.intervals(self.flow, d)
        centre = 1 / math.sqrt(low[0] * high[0])
        # From one iterate to the next, σ = Nρ grows by this ratio; the factor allows for rounding.
        ratio = float(self.iterates.phase(first + 1) / self.iterates.phase(first)) * (1 + 1e-9)
        return centre / math.sqrt(ratio), centre * math.sqrt(ratio)

    def prove_late(self, first: int, level: float, d: arb) -> int:
        """Return an iterate from which on all have |D| ≤ d at their scales, which is proven."""
        while True:
            low, high = self._scales(first, level)
            try:
                LateIterates(self.iterates, first).prove((exact(low), exact(high)), d)
            except WorkLimitError:
                # Later iterates are closer to the flow.
                first *= 2
                if first > LARGEST_FIRST:
                    raise
            else:
                return first

    def prove_early(self, every: int, last: int, level: float, cap: float) -> None:
        """Prove D² ≤ cap for all steps before those of late iterates; ``level`` is a lower |D|."""
        # Most covers need few of the iterates beyond ``every``, and sampling them takes the time.
        for stride in STRIDES:
            numbers = [*range(1, every + 1), *range(every + stride, last, stride), last]
            pieces, gaps = self.cover(_points(self.iterates, numbers), level, last)
            if not gaps:
                break
        reached = max([level, self.nearest, *(piece.high for piece in pieces)])
        late = self.iterates.phase(last) / exact(self._scales(last, level)[1])
        if gaps or not exact(reached) >= late:
            raise WorkLimitError("The cover of all steps has a gap; use a larger tolerance.")
        for piece in pieces:
            for a in (piece.low, piece.high):
                self.iterates.at(int(piece.alpha)).prove_excess(1 / exact(a), cap)


class LateIterates(NamedTuple):
    r"""All iterates from ``first`` on, which one proof compares with their flow.

    With N the phase of iterate k, u = Nθ and σ = Nρ, the shrinkage and the sine are

    .. math:: g = c\,(f(u) + e), \quad 1 - \ell(u) \le c \le 1, \quad |e| \le e(u), \qquad
              \sin\theta = z/N, \quad 1 - u^2/6N^2 \le z/u \le 1,

    where f is the shrinkage of the flow. None of these distances, which the iterates know, depends
    on σ, and all of them fall with k from some iterate on.
    """

    iterates: AnyIterates
    first: int

    def cap(self, interval: Interval, sigma: arb) -> arb:
        """Return a cap on |D| over an interval of u, for all these iterates."""
        first, last = map(exact, interval)
        e = self.iterates.distance(self.first, last)
        narrowing = self.iterates.narrowing(self.first, last)
        wide = 1 - narrowing
        if not wide > 0:
            return exact(float("inf"))
        # D without the loss differs from that of the flow by e and by the sine: (1 - f)/u is at
        # most the root of E T².
        slower = self.iterates.flow.even_moment(1).sqrt() * narrowing
        value, variation = imbalance(self.iterates.flow, sigma, interval)
        full = abs(value) + variation
        full += last / sigma * (e + narrowing) + sigma * (e / last + slower) / wide
        # D is linear in c, and -σ/z where c = 0: it is largest at one of both ends. ℓ(u)/u grows.
        lost = self.iterates.loss(self.first, last) / last
        if first > 0:
            lost = lost.min(1 / first)
        kept = 1 - self.iterates.loss(self.first, first).min(exact(1))
        return full.max(kept * full + sigma * lost / wide)

    def _end(self, sigmas: tuple[arb, arb], d: arb) -> float | None:
        """Return a phase beyond which |D| ≤ d is certain, if there is one."""
        end = self.iterates.flow.tail_start
        while end < LAST_END and 1 - self.iterates.narrowing(self.first, exact(end)) > 0:
            if all(self.iterates.beyond(self.first, end, sigma) <= d for sigma in sigmas):
                return end
            end *= END_GROWTH
        return None

    def prove(self, sigmas: tuple[arb, arb], d: arb) -> None:
        """Prove that all steps with σ ≤ σ₂ for iterate ``first`` have a stop with |D| ≤ d.

        The stop is an iterate, from ``first`` on, whose scale lies between σ₁ and σ₂.
        """
        # The ratio of the phases of neighbours falls with k, so no step falls between two iterates.
        phase, next_phase = (self.iterates.phase(k) for k in (self.first, self.first + 1))
        if not sigmas[0] * next_phase <= sigmas[1] * phase:
            raise WorkLimitError("The cover of short steps has a gap.")
        end = self._end(sigmas, d)
        if end is None or not self.iterates.distances_fall(self.first):
            raise WorkLimitError("Not proven: the tail of late iterates stays small.")
        # |D| is quasi-convex in σ: both ends are enough.
        verify(lambda box: all(self.cap(box[0], sigma) <= d for sigma in sigmas), ((0.0, end),))
