r"""Late iterates against their flow: one proof for all iterates from some number on.

With N the phase of iterate k, u = Nθ and σ = Nρ, the shrinkage and the sine are

.. math:: g = c\,(f(u) + e), \quad 1 - \ell(u) \le c \le 1, \quad |e| \le e(u), \qquad
          \sin\theta = z/N, \quad 1 - u^2/6N^2 \le z/u \le 1,

where f is the shrinkage of the flow. None of these distances, which the iterates know, depends on
σ, and all of them fall with k from some iterate on.
"""

from __future__ import annotations

from typing import NamedTuple

from stoptime.bounds.balls import Interval, WorkLimitError, arb, exact, verify
from stoptime.bounds.iterates import Iterates
from stoptime.bounds.loops import HeavyBallIterates
from stoptime.bounds.one_variable import imbalance

END_GROWTH = 1.25
LAST_END = 1e4

AnyIterates = Iterates | HeavyBallIterates


class LateIterates(NamedTuple):
    """All iterates from ``first`` on."""

    iterates: AnyIterates
    first: int

    def cap(self, interval: Interval, sigma: arb) -> arb:
        """Return a cap on |D| over an interval of u, for all these iterates."""
        first = exact(interval[0])
        last = exact(interval[1])
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
