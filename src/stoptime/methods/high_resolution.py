"""The high-resolution flow: a model of Nesterov's method that still depends on its step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import exprel

from stoptime.methods import special
from stoptime.methods.base import Checks, Method, concrete, discretise, smallest_positive
from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number

if TYPE_CHECKING:
    from stoptime.methods.iterations import Nesterov

STIFFEST = 1e150  # the square of this number is still a float


@dataclass(frozen=True)
class HighResolutionFlow(Method):
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
    order: ClassVar[int] = 2
    _checks: ClassVar[Checks] = {"step": positive_number, "strong_convexity": positive_number}

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
        if np.sqrt(tuned._parameters[0]) * largest > STIFFEST:
            raise ValueError(
                f"step must be so small that the square of √step·L does not overflow, where "
                f"L = {largest:.3g} is the largest eigenvalue; got {tuned.step:g}: take "
                'step="auto", which is 1/L.'
            )
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

    def as_iteration(self) -> Nesterov:
        """Return the iteration that it models: its extrapolated point θ_k is near time √ε·k."""
        if self._root >= 1:
            raise ValueError(
                f"{self} does not model any iteration: its step must be below 1/strong_convexity."
            )
        return cast("Nesterov", discretise(self, self._parameters[0]))

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
