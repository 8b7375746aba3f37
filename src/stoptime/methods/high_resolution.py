"""The high-resolution flow: Nesterov's method with its step still to be seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import exprel

from stoptime.methods import special
from stoptime.methods.base import Method, concrete, smallest_positive
from stoptime.methods.flows import creep, oscillator_gain, swing
from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number

if TYPE_CHECKING:
    from stoptime.methods.iterations import Nesterov

STIFFEST = 1e150  # whose square is a number


@dataclass(frozen=True)
class HighResolutionFlow(Method):
    r"""Nesterov's method for strongly convex functions as a flow that keeps terms of the order of the step.

    .. math::

        \ddot\beta + 2\sqrt\mu\,\dot\beta + \sqrt\varepsilon\,\hat\Sigma\dot\beta
            + (1+\sqrt{\mu\varepsilon})\,\hat\Sigma(\beta - \hat\beta) = 0, \qquad
        g(s, t) = e^{-at}\Bigl(\cos\omega t + \frac{a + v}{\omega}\sin\omega t\Bigr)

    with a = √μ + √ε s/2, ω² = s - μ - ε s²/4 and the first velocity v = -2√ε s/(1 + √(με)).

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

    References
    ----------
    Shi, Du, Jordan, Su (2022), Understanding the acceleration phenomenon via high-resolution differential
    equations.
    """

    step: float | str = "auto"
    strong_convexity: float | str = "auto"
    name: ClassVar[str] = "high-resolution-flow"
    order: ClassVar[int] = 2

    def __post_init__(self) -> None:
        for name in ("step", "strong_convexity"):
            value = getattr(self, name)
            if value != "auto":
                object.__setattr__(self, name, positive_number(name, value))

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the flow with "auto" made concrete: 1/L, and the smallest eigenvalue."""
        s = nonnegative("eigenvalues", eigenvalues)
        tuned, largest = self, float(s.max(initial=0))
        if self.step == "auto":
            tuned = replace(tuned, step=1 / largest if largest > 0 else 1.0)
        if self.strong_convexity == "auto":
            instead = "HighResolutionFlow(strong_convexity=0.01)"
            smallest = smallest_positive('strong_convexity="auto"', s, least=0.0, instead=instead)
            tuned = replace(tuned, strong_convexity=smallest)
        if np.sqrt(tuned._parameters[0]) * largest > STIFFEST:
            raise ValueError(
                f"step must be so small that the square of √step·L is a number, with L = {largest:.3g} the "
                f'largest eigenvalue; got {tuned.step:g}: take step="auto", which is 1/L.'
            )
        return tuned

    def in_units_of(self, penalty: float) -> Self:
        """Return the flow for eigenvalues divided by ``penalty``."""
        epsilon, mu = self._parameters
        return replace(self, step=epsilon * penalty, strong_convexity=mu / penalty)

    def as_iteration(self) -> Nesterov:
        """Return the iteration it models: θ_k = β_k + η(β_k - β_{k-1}) is near time √ε·k, as in torch."""
        from stoptime.methods.iterations import Nesterov  # noqa: PLC0415 - which knows the flows

        root = float(np.sqrt(np.prod(self._parameters)))
        if root >= 1:
            raise ValueError(
                f"{self} models no iteration: its step must be below 1/strong_convexity."
            )
        return Nesterov(step=self._parameters[0], momentum=(1 - root) / (1 + root))

    @property
    def _parameters(self) -> tuple[float, float]:
        """Return ε and μ as numbers."""
        return concrete("step", self.step), concrete("strong_convexity", self.strong_convexity)

    def _oscillator(self, s: Array) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        """Return stiffness, a, the size of ω and where it is real."""
        epsilon, mu = self._parameters
        half = np.sqrt(epsilon) * s / 2
        omega_squared = (s - mu) - half * half
        stiffness = (1 + np.sqrt(mu * epsilon)) * s
        return stiffness, np.sqrt(mu) + half, np.sqrt(np.abs(omega_squared)), omega_squared > 0

    @property
    def _kick(self) -> float:
        """The first velocity, -v/s: the flow starts in motion."""
        epsilon, mu = self._parameters
        return float(2 * np.sqrt(epsilon) / (1 + np.sqrt(mu * epsilon)))

    def _shrinkage(self, s: Array, t: Array) -> Array:
        stiffness, a, omega, swings = self._oscillator(s)
        rest = special.piecewise([(swings, swing), (~swings, creep)], stiffness, t, omega, a)
        return rest - self._kick * s * _response(stiffness, t, omega, a, swings)

    def _gain(self, s: Array, t: Array) -> Array:
        epsilon, mu = self._parameters
        stiffness, a, omega, swings = self._oscillator(s)
        rest = oscillator_gain(stiffness, t, omega, a, swings)
        started = self._kick * _response(stiffness, t, omega, a, swings)
        return (1 + float(np.sqrt(mu * epsilon))) * rest + started


def _response(
    stiffness: Array, t: Array, omega: Array, a: Array, swings: NDArray[np.bool_]
) -> Array:
    """Return exp(-at) sin(ωt)/ω: what a unit velocity at the start leaves."""
    cases = [
        (swings, lambda _, t, w, a: np.exp(-a * t) * t * np.sinc(w * t / np.pi)),
        (~swings, lambda k, t, w, a: np.asarray(np.exp(-k / (a + w) * t) * t * exprel(-2 * w * t))),
    ]
    return special.piecewise(cases, stiffness, t, omega, a)
