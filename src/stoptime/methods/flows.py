"""The flows: gradient descent, Nesterov's method and the heavy ball with infinitely small steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import exprel, gammainc, hyp1f1

from stoptime.methods import special
from stoptime.methods.base import Checks, Filter, concrete, smallest_positive, unless
from stoptime.support.arrays import Array, slices
from stoptime.support.checks import nonnegative, positive_number


def friction_number(name: str, value: object) -> float:
    """Return a friction as a float, from 0.001 to 200: the orders of SciPy's Bessel functions."""
    return positive_number(name, value, low=np.nextafter(1e-3, 0), high=np.nextafter(200, 201))


@dataclass(frozen=True)
class GradientFlow(Filter):
    r"""Gradient descent with infinitely small steps.

    .. math:: \dot\beta = X^T(y - X\beta)/n, \qquad g(s, t) = e^{-ts}

    See Ali, Kolter, Tibshirani (2019), A continuous-time view of early stopping for least squares.
    """

    name: ClassVar[str] = "gradient-flow"
    time_power: ClassVar[int] = 1
    oscillates: ClassVar[bool] = False
    scale_free: ClassVar[bool] = True
    universal_guarantee: ClassVar[bool] = True
    """Proven by :func:`stoptime.bounds.risk_inflation`."""

    def settled_at(self, s: float, level: float) -> float:
        """Return the time at which the shrinkage has fallen to level."""
        return float(-np.log(level) / s)

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return np.exp(-t * s)

    def _gain(self, s: Array, t: Array) -> Array:
        early = t * s <= 1
        cases = [
            (early, lambda s, t: t * exprel(-t * s)),
            (~early, lambda s, t: -np.expm1(-t * s) / s),
        ]
        return special.piecewise(cases, s, t)


@dataclass(frozen=True)
class AveragedFlow(Filter):
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
    oscillates: ClassVar[bool] = False
    scale_free: ClassVar[bool] = True
    universal_guarantee: ClassVar[bool] = True
    """The shrinkage is at most that of ridge at stop t/2."""

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
        early = (t - first) * s <= 1
        cases = [
            (early, lambda s, span: span / 2 * hyp1f1(1, 3, -span * s)),
            (~early, lambda s, span: (1 - exprel(-span * s)) / s),
        ]
        # the gain at the first time, and the mean of what is added to it: both are positive
        added = np.exp(-first * s) * special.piecewise(cases, s, t - first)
        return GradientFlow()._gain(s, first) + added

    def _first(self, t: Array) -> Array:
        """Return the time at which the average begins."""
        return t / 2 if self.kind == "tail" else np.zeros_like(t)


@dataclass(frozen=True)
class AcceleratedFlow(Filter):
    r"""Nesterov's accelerated gradient method with infinitely small steps.

    .. math::

        \ddot\beta + \frac{r}{t}\dot\beta = X^T(y - X\beta)/n, \qquad
        g(s, t) = \Gamma(\nu+1) (2/u)^\nu J_\nu(u), \quad u = t\sqrt s, \quad \nu = (r-1)/2

    See Su, Boyd, Candès (2016), A differential equation for modeling Nesterov's accelerated
    gradient method.

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

    def settled_at(self, s: float, level: float) -> float:
        """Return the time at which the direction's envelope has fallen to level."""
        return float(special.bessel_reach(self._nu, level) / np.sqrt(s))

    def filters(self, s: Array, stops: Array, height: int) -> Iterator[tuple[Array, Array]]:
        """Yield g and φ of shape (n_eigenvalues, n_stops), for ``height`` stops at a time."""
        for part in slices(len(stops), height):
            rates, times = np.broadcast_arrays(s[:, None], stops[part])
            shrinkage = self.shrinkage(rates, times)
            # beyond the series the gain is (1 - g)/s, and g, which costs most, is known already
            with np.errstate(invalid="ignore"):  # 0·inf is left to the gain itself
                far = np.isfinite(times) & (times * np.sqrt(rates) > special.series_reach(self._nu))
            gain = np.empty_like(shrinkage)
            gain[far] = np.maximum(1 - shrinkage[far], 0.0) / rates[far]
            gain[~far] = self.gain(rates[~far], times[~far])
            yield shrinkage, gain

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return special.bessel_decay(self._nu, t * np.sqrt(s))

    def _gain(self, s: Array, t: Array) -> Array:
        u = t * np.sqrt(s)
        early = u <= special.series_reach(self._nu)
        cases = [
            (early, lambda _, t, u: t * (t * special.bessel_gain(self._nu, u * u))),
            # g never exceeds one, but with hardly any friction its rounding may
            (~early, lambda s, _, u: np.maximum(1 - special.bessel_decay(self._nu, u), 0.0) / s),
        ]
        return special.piecewise(cases, s, t, u)


@dataclass(frozen=True)
class CriticalFlow(Filter):
    r"""Momentum with the damping that is critical in every direction at once.

    .. math::

        \ddot\beta + 2\hat\Sigma^{1/2}\dot\beta = X^T(y - X\beta)/n, \qquad
        g(s, t) = (1 + u) e^{-u}, \quad u = t\sqrt s

    No direction oscillates, and all of them learn on the time scale of accelerated flow. At
    t = 1.426/√λ* its risk is at most 1.028 times that of the best ridge, on every spectrum, which
    :func:`stoptime.bounds.risk_inflation` proves. See Wang, Zhou, Fu (2022), arXiv 2201.05405,
    where the constant is 1.035.

    Examples
    --------
    >>> float(CriticalFlow().gain(0.0, 2.0))  # t²/2
    2.0
    """

    name: ClassVar[str] = "critical-flow"
    time_power: ClassVar[int] = 2
    oscillates: ClassVar[bool] = False
    scale_free: ClassVar[bool] = True
    universal_guarantee: ClassVar[bool] = True
    """Proven by :func:`stoptime.bounds.risk_inflation`."""

    def settled_at(self, s: float, level: float) -> float:
        """Return the time at which the shrinkage has fallen to level."""
        return special.critical_phase(level) / float(np.sqrt(s))

    def _shrinkage(self, s: Array, t: Array) -> Array:
        u = np.minimum(t * np.sqrt(s), 1e3)  # exp(-1000) is zero, and infinity would give NaN
        return np.asarray((1 + u) * np.exp(-u))

    def _gain(self, s: Array, t: Array) -> Array:
        u = t * np.sqrt(s)
        # 1 - g is the distribution function of a gamma variable, which has no cancellation
        cases = [
            (u <= 1, lambda _, t, u: t * (t * (hyp1f1(2, 3, -u) / 2))),
            (u > 1, lambda s, _, u: gammainc(2, u) / s),
        ]
        return special.piecewise(cases, s, t, u)


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
        The γ above. "critical" is the square root of the smallest eigenvalue, which must be
        positive.

    Examples
    --------
    >>> HeavyBallFlow().tuned_to([0.25, 1.0])
    HeavyBallFlow(damping=0.5)
    """

    damping: float | str = "critical"
    name: ClassVar[str] = "heavy-ball-flow"
    time_power: ClassVar[int] = 2
    _checks: ClassVar[Checks] = {"damping": unless("critical", positive_number)}

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the flow with "critical" damping as a number: √ of the smallest eigenvalue."""
        if self.damping != "critical":
            return self
        s = nonnegative("eigenvalues", eigenvalues)
        smallest = smallest_positive(self, "damping", s, least=0.0, example=0.1)
        return replace(self, damping=float(np.sqrt(smallest)))

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return the time at which the damping has brought every oscillation below level."""
        return np.inf, special.critical_phase(level) / self._gamma

    def settled_at(self, s: float, level: float) -> float:
        """Return the time at which the direction has settled, oscillating or overdamped."""
        creep = -np.log(level) * 2 * self._gamma / s if s < self._gamma**2 else 0.0
        # Oscillations decay fast, so a tenth of the level is a cheap margin.
        return float(max(self.visible_until(level / 10)[1], creep))

    def in_units_of(self, penalty: float) -> Self:
        """Return the flow for eigenvalues divided by ``penalty``: damping is a frequency."""
        return replace(self, damping=self._gamma / float(np.sqrt(penalty)))

    @property
    def _gamma(self) -> float:
        return concrete("damping", self.damping)

    def _shrinkage(self, s: Array, t: Array) -> Array:
        gamma = np.array(self._gamma)
        return special.oscillator_shrinkage(s, t, s - gamma * gamma, gamma)

    def _gain(self, s: Array, t: Array) -> Array:
        gamma = np.array(self._gamma)
        return special.oscillator_gain(s, t, s - gamma * gamma, gamma)
