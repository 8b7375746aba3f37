r"""Late iterates against their flow: one proof for all iterates from some number on.

With N the phase of iterate k, u = Nθ and σ = Nρ, the shrinkage and the sine are

.. math:: g = c\,(f(u) + e), \quad 1 - \ell(u) \le c \le 1, \quad |e| \le e(u), \qquad
          \sin\theta = z/N, \quad 1 - u^2/6N^2 \le z/u \le 1,

where f is the shrinkage of the flow. None of these distances depends on σ, and all of them fall
with k, from the order ν of the polynomial on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stoptime.bounds.balls import WorkLimitError, exact, verify
from stoptime.bounds.iterates import Iterates
from stoptime.bounds.one_variable import imbalance

if TYPE_CHECKING:
    from flint import arb

    from stoptime.bounds.balls import Interval

COT_SLOPE = 0.4053  # 1/t - cot t ≤ 0.4053·t for 0 < t ≤ π/2, with equality at 4/π² = 0.40528...
END_GROWTH = 1.25
LAST_END = 1e4


class LateIterates(NamedTuple):
    """All iterates from ``first`` on."""

    iterates: Iterates
    first: int

    @property
    def _phase(self) -> arb:
        return self.iterates.phase(self.first)

    def _distance(self, u: arb) -> arb:
        """Return e(u): how far the polynomial is from the flow; e(u)/u grows."""
        if self.iterates.b == 0:
            return exact(0)
        # Both solve nearly the same differential equation; see the page for the energy argument.
        nu = exact(self.iterates.order)
        bend = COT_SLOPE * nu / (2 * nu + 1).sqrt()
        return (bend * u**2 + nu**2 * u) / self._phase**2

    def _loss(self, u: arb) -> arb:
        """Return ℓ(u), which may exceed 1: what the power of the cosine takes away at most."""
        # cos θ ≥ exp(-θ²/2 - θ⁴/8) for θ ≤ 1, and cos(θ)^m ≥ 1 - mθ²/2.
        if self.iterates.b == 0:
            return u**4 / (4 * self._phase**2)
        return self.iterates.at(self.first).power * u**2 / (2 * self._phase**2)

    def _narrowing(self, u: arb) -> arb:
        """Return 1 - z/u at most."""
        return u**2 / (6 * self._phase**2)

    def cap(self, interval: Interval, sigma: arb) -> arb:
        """Return a cap on |D| over an interval of u, for all these iterates."""
        first = exact(interval[0])
        last = exact(interval[1])
        e = self._distance(last)
        narrowing = self._narrowing(last)
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
        lost = self._loss(last) / last
        if first > 0:
            lost = lost.min(1 / first)
        kept = 1 - self._loss(first).min(exact(1))
        return full.max(kept * full + sigma * lost / wide)

    def _beyond(self, end: float, sigma: arb) -> arb:
        """Return a cap on |D| from u = ``end`` on."""
        u = exact(end)
        wide = 1 - self._narrowing(u)
        nu = exact(self.iterates.order)
        if self.iterates.b == 0:
            # The shrinkage is at most that of the flow.
            g = self.iterates.flow.tail(end)
        else:
            # Sonin's envelope of the polynomial, from the flow's value and slope at ``end``.
            e = self._distance(u)
            value = abs(self.iterates.flow.shrinkage(u)) + e
            velocity = abs(self.iterates.flow.slope(u)) + e + nu * value / u
            q = 1 - nu * (nu - 1) / (u * wide) ** 2
            if not q > 0:
                return exact(float("inf"))
            g = (value**2 + velocity**2 / q).sqrt()
        return u * g / sigma + sigma * (1 + g) / (u * wide)

    def _end(self, sigmas: tuple[arb, arb], d: arb) -> float | None:
        """Return a phase beyond which |D| ≤ d is certain, if there is one."""
        end = self.iterates.flow.tail_start
        while end < LAST_END and 1 - self._narrowing(exact(end)) > 0:
            if all(self._beyond(end, sigma) <= d for sigma in sigmas):
                return end
            end *= END_GROWTH
        return None

    def prove(self, sigmas: tuple[arb, arb], d: arb) -> None:
        """Prove that all steps with σ ≤ σ₂ for iterate ``first`` have a stop with |D| ≤ d.

        The stop is an iterate, from ``first`` on, whose scale lies between σ₁ and σ₂.
        """
        # The ratio of the phases of neighbours falls with k, so no step falls between two iterates.
        if not sigmas[0] * self.iterates.phase(self.first + 1) <= sigmas[1] * self._phase:
            raise WorkLimitError("The cover of short steps has a gap.")
        end = self._end(sigmas, d)
        if end is None or self.first < self.iterates.order:
            raise WorkLimitError("Not proven: the tail of late iterates stays small.")
        # |D| is quasi-convex in σ: both ends are enough.
        verify(lambda box: all(self.cap(box[0], sigma) <= d for sigma in sigmas), ((0.0, end),))
