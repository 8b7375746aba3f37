"""The flows: gradient descent, Nesterov's method and the heavy ball with infinitely small steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import exprel, gammaln, hyp1f1, ive

from stoptime.methods import special
from stoptime.methods.base import (
    Checks,
    Filter,
    Monotone,
    concrete,
    longest_step,
    smallest_positive,
    unless,
)
from stoptime.support.arrays import Array
from stoptime.support.checks import positive_number


def friction_number(name: str, value: object) -> float:
    """Return a friction as a float, from 0.001 to 200: the orders of SciPy's Bessel functions."""
    return positive_number(name, value, low=np.nextafter(1e-3, 0), high=np.nextafter(200, 201))


@dataclass(frozen=True)
class GradientFlow(Monotone):
    r"""Gradient descent with infinitely small steps.

    .. math:: \dot\beta = X^T(y - X\beta)/n, \qquad g(s, t) = e^{-ts}

    See Ali, Kolter, Tibshirani (2019), A continuous-time view of early stopping for least squares.
    """

    name: ClassVar[str] = "gradient-flow"
    time_power: ClassVar[int] = 1

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return np.exp(-t * s)

    def _gain(self, s: Array, t: Array) -> Array:
        return np.asarray(t * exprel(-t * s))


@dataclass(frozen=True)
class AveragedFlow(Monotone):
    r"""The average of gradient flow over its past, or over the last half of it.

    .. math:: \bar g(s, t) = \frac{1}{t - t_0}\int_{t_0}^t e^{-us}\,du, \qquad t_0 = 0
        \text{ or } t/2

    Parameters
    ----------
    kind : {"polyak", "tail"}, default="polyak"
        Whether the average begins at time 0 or at time t/2.

    Examples
    --------
    >>> float(AveragedFlow().gain(0.0, 2.0))  # t/2
    1.0
    """

    kind: Literal["polyak", "tail"] = "polyak"
    name: ClassVar[str] = "averaged-flow"
    time_power: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.kind not in ("polyak", "tail"):
            raise ValueError(
                f'The {self.kind} average of gradient flow has no closed form: take "polyak" or '
                '"tail", or average gradient descent.'
            )

    def _shrinkage(self, s: Array, t: Array) -> Array:
        first = self._first(t)
        return np.asarray(np.exp(-first * s) * exprel((first - t) * s))

    def _gain(self, s: Array, t: Array) -> Array:
        first = self._first(t)
        span = t - first
        # the gain at the first time, and the mean of what is added to it: both are positive
        added = np.exp(-first * s) * (span / 2 * hyp1f1(1, 3, -span * s))
        return np.asarray(first * exprel(-first * s) + added)

    def _first(self, t: Array) -> Array:
        """Return the time at which the average begins."""
        return t / 2 if self.kind == "tail" else np.zeros_like(t)


@dataclass(frozen=True)
class AcceleratedFlow(Filter):
    r"""Nesterov's accelerated gradient method with infinitely small steps.

    .. math::

        \ddot\beta + \frac{r}{t}\dot\beta = X^T(y - X\beta)/n, \qquad
        g(s, t) = \Gamma(\nu+1) (2/u)^\nu J_\nu(u), \quad u = t\sqrt s, \quad \nu = (r-1)/2

    See Su, Boyd, Candès (2016).

    Parameters
    ----------
    friction : float, default=3.0
        The r above, from 0.001 to 200. 3 is Nesterov's method, where g = 2 J₁(u)/u; more friction
        is slower and oscillates less.

    Examples
    --------
    >>> float(AcceleratedFlow().gain(0.0, 2.0))  # t²/8
    0.5
    """

    friction: float = 3.0
    name: ClassVar[str] = "accelerated-flow"
    time_power: ClassVar[int] = 2
    scale_free: ClassVar[bool] = True
    _checks: ClassVar[Checks] = {"friction": friction_number}

    @property
    def universal_guarantee(self) -> bool:
        """Whether friction ≥ 2; below 2, bias over ridge bias grows without bound in s."""
        return self.friction >= 2

    @property
    def _nu(self) -> float:
        return (self.friction - 1) / 2

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return the phase at which the envelope of the Bessel function has fallen to level."""
        return special.bessel_reach(self._nu, level), np.inf

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return special.bessel_decay(self._nu, t * np.sqrt(s))

    def _gain(self, s: Array, t: Array) -> Array:
        u = t * np.sqrt(s)
        early = u <= special.series_reach(self._nu)
        cases = [
            (early, lambda _, t, u: t * (t * special.bessel_gain(self._nu, u * u))),
            # with hardly any friction g returns to one, and its rounding may exceed one
            (~early, lambda s, _, u: np.maximum(1 - special.bessel_decay(self._nu, u), 0.0) / s),
        ]
        return special.piecewise(cases, s, t, u)


@dataclass(frozen=True)
class CriticalFlow(Monotone):
    r"""Momentum with the damping that is critical in every direction at once.

    .. math::

        \ddot\beta + 2\hat\Sigma^{1/2}\dot\beta = X^T(y - X\beta)/n, \qquad
        g(s, t) = (1 + u) e^{-u}, \quad u = t\sqrt s

    No direction oscillates. At t = 1.426/√λ* its risk is at most 1.028 times that of the best ridge
    on every spectrum (:func:`stoptime.bounds.risk_inflation`). See Wang, Zhou, Fu (2022), arXiv
    2201.05405, where the constant is 1.035.

    Examples
    --------
    >>> float(CriticalFlow().gain(0.0, 2.0))  # t²/2
    2.0
    """

    name: ClassVar[str] = "critical-flow"
    time_power: ClassVar[int] = 2

    def _shrinkage(self, s: Array, t: Array) -> Array:
        u = np.minimum(t * np.sqrt(s), 1e3)  # exp(-1000) is zero, and infinity would give NaN
        return np.asarray((1 + u) * np.exp(-u))

    def _gain(self, s: Array, t: Array) -> Array:
        return np.asarray(t * (t * (hyp1f1(2, 3, -t * np.sqrt(s)) / 2)))


@dataclass(frozen=True)
class HeavyBallFlow(Filter):
    r"""Polyak's heavy ball with infinitely small steps.

    .. math::

        \ddot\beta + 2\gamma\dot\beta = X^T(y - X\beta)/n, \qquad
        g(s, t) = e^{-\gamma t}\Bigl(\cos\omega t + \frac{\gamma}{\omega}\sin\omega t\Bigr),
        \quad \omega^2 = s - \gamma^2

    See Polyak (1964), Some methods of speeding up the convergence of iteration methods.

    Parameters
    ----------
    damping : float or "critical", default="critical"
        The γ above; "critical" is the root of the smallest eigenvalue, which must be positive.

    Examples
    --------
    >>> HeavyBallFlow().tuned_to([0.25, 1.0])
    HeavyBallFlow(damping=0.5)
    """

    damping: float | str = "critical"
    name: ClassVar[str] = "heavy-ball-flow"
    time_power: ClassVar[int] = 2
    _checks: ClassVar[Checks] = {"damping": unless("critical", positive_number)}
    _automatic: ClassVar = {"damping": lambda flow, s: smallest_positive(flow, "damping", s) ** 0.5}

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return the time at which the damping has brought every oscillation below level."""
        return np.inf, special.critical_phase(level) / float(concrete("damping", self.damping))

    def _shrinkage(self, s: Array, t: Array) -> Array:
        gamma = np.array(concrete("damping", self.damping))
        return special.oscillator_shrinkage(s, t, s - gamma * gamma, gamma)

    def _gain(self, s: Array, t: Array) -> Array:
        gamma = np.array(concrete("damping", self.damping))
        return special.oscillator_gain(s, t, s - gamma * gamma, gamma)


def _damping(root_step: float, s: Array) -> tuple[Array, Array]:
    """Return √ε·s/2, by which a high-resolution flow dampens a direction, and its square."""
    half = root_step * s / 2
    square = half * half
    if np.isinf(square).any():
        raise ValueError(
            f"step must be so small that step·s² does not overflow; got step={root_step**2:g} for "
            f"eigenvalues up to {s.max():.3g}."
        )
    return half, square


@dataclass(frozen=True)
class HighResolutionFlow(Filter):
    r"""Nesterov's method for strongly convex functions as a flow with terms of the order of √step.

    .. math::

        \ddot\beta + 2\sqrt\mu\,\dot\beta + \sqrt\varepsilon\,\hat\Sigma\dot\beta
            + (1+\sqrt{\mu\varepsilon})\,\hat\Sigma(\beta - \hat\beta) = 0, \qquad
        g(s, t) = e^{-at}\Bigl(\cos\omega t + \frac{a + v}{\omega}\sin\omega t\Bigr)

    with a = √μ + √ε s/2, ω² = s - μ - ε s²/4 and the initial velocity v = -2√ε s/(1 + √(με)). See
    Shi, Du, Jordan, Su (2022).

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
    _automatic: ClassVar = {
        "step": longest_step,
        "strong_convexity": lambda flow, s: smallest_positive(flow, "strong_convexity", s),
    }

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return the time at which the damping has brought every oscillation below level."""
        # With u = √μ·t and x = √ε·st/2, the envelope is at most (1 + u)e^(-u)·(1 + 3x)e^(-x), and
        # the second factor never exceeds 1.6.
        return np.inf, special.critical_phase(level / 1.6) / float(self._roots[1])

    @property
    def _roots(self) -> Array:
        """Return √ε and √μ."""
        step = concrete("step", self.step)
        return np.sqrt([step, concrete("strong_convexity", self.strong_convexity)])

    @property
    def _kick(self) -> float:
        """The initial velocity divided by the eigenvalue, -v/s."""
        return float(2 * self._roots[0] / (1 + np.prod(self._roots)))

    def _oscillator(self, s: Array, t: Array) -> tuple[Array, Array, Array, Array]:
        """Return stiffness, time, ω² and a."""
        root_step, root_convexity = self._roots
        half, square = _damping(root_step, s)
        # differences first: near critical damping ω² is small
        omega_squared = (s - root_convexity**2) - square
        return (1 + root_step * root_convexity) * s, t, omega_squared, root_convexity + half

    def _shrinkage(self, s: Array, t: Array) -> Array:
        oscillator = self._oscillator(s, t)
        kicked = self._kick * s * special.oscillator_response(*oscillator)
        return special.oscillator_shrinkage(*oscillator) - kicked

    def _gain(self, s: Array, t: Array) -> Array:
        oscillator = self._oscillator(s, t)
        released = (1 + np.prod(self._roots)) * special.oscillator_gain(*oscillator)
        return np.asarray(released + self._kick * special.oscillator_response(*oscillator))


@dataclass(frozen=True)
class HighResolutionAcceleratedFlow(Filter):
    r"""Nesterov's method for convex functions as a flow with terms of the order of √step.

    .. math::

        \ddot\beta + \Bigl(\frac rt + \sqrt\varepsilon\,\hat\Sigma\Bigr)\dot\beta
            + \Bigl(1 + \frac{r\sqrt\varepsilon}{2t}\Bigr)\hat\Sigma(\beta - \hat\beta) = 0, \qquad
        g(s, t) = e^{-\sqrt\varepsilon s t/2}\;\Gamma(\nu+1)(2/u)^\nu J_\nu(u)

    with ν = (r-1)/2, u = ωt and ω² = s - εs²/4. Its value at t = √ε(k + (r-2)/2) is within O(ε) of
    iterate k of :class:`stoptime.Nesterov`, and that of accelerated flow within O(√ε). See Shi, Du,
    Jordan, Su (2022).

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
    _automatic: ClassVar = {"step": longest_step}

    @property
    def _root(self) -> float:
        """Return √ε."""
        return float(np.sqrt(concrete("step", self.step)))

    @property
    def _nu(self) -> float:
        return (self.friction - 1) / 2

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return twice the phase of accelerated flow: ω ≥ √s/2, or the damping is stronger."""
        return 2 * special.bessel_reach(self._nu, level), np.inf

    def _shrinkage(self, s: Array, t: Array) -> Array:
        half, square = _damping(self._root, s)
        square = s - square
        cases = [(square >= 0, self._oscillating), (square < 0, self._overdamped)]
        return special.piecewise(cases, s, t, half, np.sqrt(np.abs(square)))

    def _oscillating(self, _: Array, t: Array, half: Array, w: Array) -> Array:
        return np.asarray(np.exp(-half * t) * special.bessel_decay(self._nu, w * t))

    def _overdamped(self, s: Array, t: Array, half: Array, w: Array) -> Array:
        """Return exp(-at)·0F1(ν + 1; (wt)²/4) for a > w, where a² - w² = s."""
        near = np.minimum(w * t, 1.0) ** 2
        start = np.exp(-half * t) * (1 + near * special.bessel_gain(self._nu, -near))
        far = np.maximum(w * t, 1.0)
        # SciPy has no values beyond 2³⁰, where the first term of the asymptotic series is exact
        late = -np.log(2 * np.pi * far) / 2
        bessel = np.where(far < 1e9, np.log(ive(self._nu, np.minimum(far, 1e9))), late)
        log = gammaln(self._nu + 1) + self._nu * np.log(2 / far) + bessel
        # Both factors may be huge; w - a = -s/(w + a) does not cancel.
        return np.where(w * t <= 1, start, np.exp(log - s / (half + w) * t))

    def _gain(self, s: Array, t: Array) -> Array:
        relative = 1 - self._root**2 * s / 4
        square = relative * s * t * t
        early = np.abs(square) <= special.series_reach(self._nu) ** 2
        cases = [
            (early, self._early_gain),
            (~early, lambda s, t, *_: np.maximum(1 - self._shrinkage(s, t), 0.0) / s),
        ]
        return special.piecewise(cases, s, t, relative, square)

    def _early_gain(self, s: Array, t: Array, relative: Array, square: Array) -> Array:
        # 1 - g is what the damping takes away, and what the oscillation takes of the rest
        damped = self._root * t / 2 * exprel(-self._root * s * t / 2)
        rest = np.exp(-self._root * s * t / 2) * t
        return np.asarray(damped + rest * (t * relative * special.bessel_gain(self._nu, square)))
