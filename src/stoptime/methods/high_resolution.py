"""High-resolution flows: models of Nesterov's two methods that still depend on the step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import exprel, gammaln, ive

from stoptime.methods import special
from stoptime.methods.base import Checks, Filter, concrete, smallest_positive, unless
from stoptime.methods.flows import friction_number
from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number


@dataclass(frozen=True)
class HighResolutionFlow(Filter):
    r"""Nesterov's method for strongly convex functions as a flow with terms of the order of √step.

    .. math::

        \ddot\beta + 2\sqrt\mu\,\dot\beta + \sqrt\varepsilon\,\hat\Sigma\dot\beta
            + (1+\sqrt{\mu\varepsilon})\,\hat\Sigma(\beta - \hat\beta) = 0, \qquad
        g(s, t) = e^{-at}\Bigl(\cos\omega t + \frac{a + v}{\omega}\sin\omega t\Bigr)

    with a = √μ + √ε s/2, ω² = s - μ - ε s²/4 and the initial velocity v = -2√ε s/(1 + √(με)). See
    Shi, Du, Jordan, Su (2022), Understanding the acceleration phenomenon via high-resolution
    differential equations.

    Parameters
    ----------
    step : float or "auto", default="auto"
        The ε above; "auto" is 1/L.
    strong_convexity : float or "auto", default="auto"
        The μ above; "auto" is the smallest eigenvalue, which must be positive.

    Examples
    --------
    >>> HighResolutionFlow().tuned_to([0.25, 2.0])
    HighResolutionFlow(step=0.5, strong_convexity=0.25)
    """

    step: float | str = "auto"
    strong_convexity: float | str = "auto"
    name: ClassVar[str] = "high-resolution-flow"
    time_power: ClassVar[int] = 2
    _checks: ClassVar[Checks] = {
        "step": unless("auto", positive_number),
        "strong_convexity": unless("auto", positive_number),
    }

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the flow with "auto" as numbers: 1/L, and the smallest eigenvalue."""
        s = nonnegative("eigenvalues", eigenvalues)
        tuned = self
        largest = float(s.max(initial=0))
        if self.step == "auto":
            tuned = replace(tuned, step=1 / largest if largest > 0 else 1.0)
        if self.strong_convexity == "auto":
            smallest = smallest_positive(self, "strong_convexity", s, least=0.0, example=0.01)
            tuned = replace(tuned, strong_convexity=smallest)
        return tuned

    def in_units_of(self, penalty: float) -> Self:
        """Return the flow for eigenvalues divided by ``penalty``."""
        epsilon, mu = self._parameters
        return replace(self, step=epsilon * penalty, strong_convexity=mu / penalty)

    def largest_gain(self, stop: ArrayLike) -> Any:
        """Return a bound of the gain: a start at rest gives t²/2, and the initial velocity adds."""
        if not self.is_tuned:
            return np.full(np.shape(stop), np.inf)[()]
        stop = np.asarray(stop, np.float64)
        with np.errstate(over="ignore"):
            return (1 + self._root) * np.square(stop) / 2 + self._kick * stop

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return the time at which the damping has brought every oscillation below level."""
        # With u = √μ·t and x = √ε·st/2, the envelope is at most (1 + u)e^(-u)·(1 + 3x)e^(-x), and
        # the second factor never exceeds 1.6.
        return np.inf, special.critical_phase(level / 1.6) / float(np.sqrt(self._parameters[1]))

    @property
    def _parameters(self) -> tuple[float, float]:
        """Return ε and μ as numbers."""
        return concrete("step", self.step), concrete("strong_convexity", self.strong_convexity)

    @property
    def _root(self) -> float:
        """Return √(με)."""
        return float(np.sqrt(np.prod(self._parameters)))

    @property
    def _kick(self) -> float:
        """The initial velocity divided by the eigenvalue, -v/s."""
        return float(2 * np.sqrt(self._parameters[0]) / (1 + self._root))

    def _oscillator(self, s: Array) -> tuple[Array, Array, Array]:
        """Return stiffness, ω² and a."""
        epsilon, mu = self._parameters
        half = np.sqrt(epsilon) * s / 2
        with np.errstate(over="ignore"):
            overflows = np.isinf(half * half).any()
        if overflows:
            raise ValueError(
                f"step must be so small that step·s² does not overflow; got step={epsilon:g} for "
                f"eigenvalues up to {s.max():.3g}."
            )
        # differences first: near critical damping ω² is small
        return (1 + self._root) * s, (s - mu) - half * half, np.sqrt(mu) + half

    def _shrinkage(self, s: Array, t: Array) -> Array:
        stiffness, omega_squared, a = self._oscillator(s)
        kicked = self._kick * s * _response(stiffness, t, omega_squared, a)
        return special.oscillator_shrinkage(stiffness, t, omega_squared, a) - kicked

    def _gain(self, s: Array, t: Array) -> Array:
        stiffness, omega_squared, a = self._oscillator(s)
        kicked = self._kick * _response(stiffness, t, omega_squared, a)
        return (1 + self._root) * special.oscillator_gain(stiffness, t, omega_squared, a) + kicked


def _response(k: Array, t: Array, omega_squared: Array, a: Array) -> Array:
    """Return exp(-at) sin(ωt)/ω: the position after a start from zero with unit velocity."""
    cases = [
        (omega_squared > 0, lambda _, t, w, a: np.exp(-a * t) * t * np.sinc(w * t / np.pi)),
        (omega_squared <= 0, lambda k, t, w, a: np.exp(-k / (a + w) * t) * t * exprel(-2 * w * t)),
    ]
    return special.piecewise(cases, k, t, np.sqrt(np.abs(omega_squared)), a)


@dataclass(frozen=True)
class HighResolutionAcceleratedFlow(Filter):
    r"""Nesterov's method for convex functions as a flow with terms of the order of √step.

    .. math::

        \ddot\beta + \Bigl(\frac rt + \sqrt\varepsilon\,\hat\Sigma\Bigr)\dot\beta
            + \Bigl(1 + \frac{r\sqrt\varepsilon}{2t}\Bigr)\hat\Sigma(\beta - \hat\beta) = 0, \qquad
        g(s, t) = e^{-\sqrt\varepsilon s t/2}\;\Gamma(\nu+1)(2/u)^\nu J_\nu(u)

    with ν = (r-1)/2, u = ωt and ω² = s - εs²/4: accelerated flow with a lower frequency and with a
    damping that grows with the eigenvalue, as the gradient correction of Nesterov's method has it.
    The solution is the one that is regular at t = 0. Its value at t = √ε(k + (r-2)/2) is within
    O(ε) of iterate k of :class:`stoptime.Nesterov`, where accelerated flow is within O(√ε). For the
    equation see Shi, Du, Jordan, Su (2022), Understanding the acceleration phenomenon via
    high-resolution differential equations.

    Parameters
    ----------
    step : float or "auto", default="auto"
        The ε above; "auto" is 1/L.
    friction : float, default=3.0
        The r above, from 0.001 to 200.

    Examples
    --------
    >>> flow = HighResolutionAcceleratedFlow(step=0.04)
    >>> round(float(flow.shrinkage(1.0, 0.2 * 10.5)), 2)  # √ε = 0.2, near iterate 10
    0.44
    """

    step: float | str = "auto"
    friction: float = 3.0
    name: ClassVar[str] = "high-resolution-nesterov-flow"
    time_power: ClassVar[int] = 2
    _checks: ClassVar[Checks] = {
        "step": unless("auto", positive_number),
        "friction": friction_number,
    }

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the flow with step "auto" as a number, 1/L."""
        largest = float(nonnegative("eigenvalues", eigenvalues).max(initial=0))
        if self.step != "auto":
            return self
        return replace(self, step=1 / largest if largest > 0 else 1.0)

    def in_units_of(self, penalty: float) -> Self:
        """Return the flow for eigenvalues divided by ``penalty``."""
        return replace(self, step=self._epsilon * penalty)

    def largest_gain(self, stop: ArrayLike) -> Any:
        """Return a bound of the gain: that of accelerated flow, and of the damping."""
        if not self.is_tuned:
            return np.full(np.shape(stop), np.inf)[()]
        stop = np.asarray(stop, np.float64)
        with np.errstate(over="ignore"):
            return np.square(stop) / 2 + np.sqrt(self._epsilon) * stop / 2

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return twice the phase of accelerated flow: ω ≥ √s/2, or the damping is stronger."""
        return 2 * special.bessel_reach(self._nu, level), np.inf

    @property
    def _epsilon(self) -> float:
        return concrete("step", self.step)

    @property
    def _nu(self) -> float:
        return (self.friction - 1) / 2

    def _shrinkage(self, s: Array, t: Array) -> Array:
        half = np.sqrt(self._epsilon) * s / 2
        square = s - half * half
        cases = [(square >= 0, self._oscillating), (square < 0, self._overdamped)]
        return special.piecewise(cases, s, t, half, np.sqrt(np.abs(square)))

    def _gain(self, s: Array, t: Array) -> Array:
        relative = 1 - self._epsilon * s / 4
        square = relative * s * t * t
        early = np.abs(square) <= special.series_reach(self._nu) ** 2
        cases = [
            (early, self._early_gain),
            (~early, lambda s, t, *_: (1 - self._shrinkage(s, t)) / s),
        ]
        return special.piecewise(cases, s, t, relative, square)

    def _early_gain(self, s: Array, t: Array, relative: Array, square: Array) -> Array:
        """Return the gain where 1 - g is small, without cancellation."""
        root = np.sqrt(self._epsilon)
        # 1 - g is what the damping takes away, and what the oscillation takes of the rest.
        damped = root * t / 2 * exprel(-root * s * t / 2)
        rest = np.exp(-root * s * t / 2) * t
        return np.asarray(damped + rest * (t * relative * special.bessel_gain(self._nu, square)))

    def _oscillating(self, _: Array, t: Array, half: Array, w: Array) -> Array:
        """Return exp(-at)·0F1(ν + 1; -(wt)²/4)."""
        return np.asarray(np.exp(-half * t) * special.bessel_decay(self._nu, w * t))

    def _overdamped(self, s: Array, t: Array, half: Array, w: Array) -> Array:
        """Return exp(-at)·0F1(ν + 1; (wt)²/4) for a > w, where a² - w² = s."""
        near = np.minimum(w * t, 1.0)
        start = near**2 * special.log_decay(self._nu, -(near**2)) - half * t
        far = np.maximum(w * t, 1.0)
        log = gammaln(self._nu + 1) + self._nu * np.log(2 / far) + np.log(ive(self._nu, far))
        # Both factors may be huge; w - a = -s/(w + a) does not cancel.
        return np.exp(np.where(w * t <= 1, start, log - s / (half + w) * t))
