"""The flows: gradient descent, Nesterov's method and the heavy ball with infinitely small steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import exprel, lambertw

from stoptime.methods import special
from stoptime.methods.base import Method, concrete, smallest_positive
from stoptime.methods.phase import LEAST_FRICTION, nearly_frictionless_learned, phase, versine
from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number

if TYPE_CHECKING:
    from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov

MOST_FRICTION = 1e12
LEAST_GUARANTEED_FRICTION = 2.0
UNDAMPED = (
    1 / 32
)  # of γt: below it the rounding of the phase shows where the path returns to its start
DAMPING_RANGE = (1e-150, 1e150)  # its square must be a float


@dataclass(frozen=True)
class GradientFlow(Method):
    r"""Gradient descent with infinitely small steps.

    .. math:: \dot\beta = X^T(y - X\beta)/n, \qquad g(s, t) = e^{-ts}

    Examples
    --------
    >>> float(GradientFlow().gain(0.0, 2.0))
    2.0

    References
    ----------
    Ali, Kolter, Tibshirani (2019), A continuous-time view of early stopping for least squares.
    """

    name: ClassVar[str] = "gradient-flow"
    order: ClassVar[int] = 1
    oscillates: ClassVar[bool] = False
    mixture: ClassVar[Literal["hyperbola"]] = "hyperbola"

    @property
    def universal_guarantee(self) -> bool:
        """Proven by :func:`stoptime.bounds.risk_inflation`."""
        return True

    def as_iteration(self, step: float) -> GradientDescent:
        """Return gradient descent: its iterate k is near time step·k, within O(step)."""
        from stoptime.methods.iterations import GradientDescent  # noqa: PLC0415 - which knows the flows

        return GradientDescent(step)

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
class AcceleratedFlow(Method):
    r"""Nesterov's accelerated gradient method with infinitely small steps.

    .. math::

        \ddot\beta + \frac{r}{t}\dot\beta = X^T(y - X\beta)/n, \qquad
        g(s, t) = \Gamma(\nu+1) (2/u)^\nu J_\nu(u), \quad u = t\sqrt s, \quad \nu = (r-1)/2

    Parameters
    ----------
    friction : float, default=3.0
        The r above. 3 is Nesterov's method, where g = 2 J₁(u)/u; more friction is slower and
        oscillates less.

    Examples
    --------
    >>> float(AcceleratedFlow().gain(0.0, 2.0))  # t²/8
    0.5

    References
    ----------
    Su, Boyd, Candès (2016), A differential equation for modeling Nesterov's accelerated gradient method.
    """

    friction: float = 3.0
    name: ClassVar[str] = "nesterov-flow"
    order: ClassVar[int] = 2

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "friction", positive_number("friction", self.friction, high=MOST_FRICTION)
        )

    @property
    def universal_guarantee(self) -> bool:
        """Proven for friction 2 and above; below, bias over ridge bias grows without bound in s."""
        return self.friction >= LEAST_GUARANTEED_FRICTION

    def as_iteration(self, step: float) -> Nesterov:
        """Return Nesterov's method: its iterate k is near time √step·k, within O(√step)."""
        from stoptime.methods.iterations import Nesterov  # noqa: PLC0415 - which knows the flows

        return Nesterov(step, self.friction)

    @property
    def _nu(self) -> float:
        return (self.friction - 1) / 2

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return the phase at which the envelope of the Bessel function has fallen to level."""
        return special.bessel_reach(self._nu, level), np.inf

    def settled_at(self, s: float, level: float) -> float:
        """Return the time at which the direction's envelope has fallen to level."""
        return float(special.bessel_reach(self._nu, level) / np.sqrt(s))

    def _shrinkage(self, s: Array, t: Array) -> Array:
        u = t * np.sqrt(s)
        if self.friction >= LEAST_FRICTION:
            return special.bessel_decay(self._nu, u)
        early = u <= special.series_reach(self._nu)
        cases = [  # SciPy 1.12 loses digits of Bessel functions of order near -1/2
            (early, lambda s, t, u: special.bessel_decay(self._nu, u)),  # noqa: ARG005 - one signature
            (~early, lambda s, t, u: 1 - self._learned(s, t, u)),
        ]
        return special.piecewise(cases, s, t, u)

    def _gain(self, s: Array, t: Array) -> Array:
        u = t * np.sqrt(s)
        early = u <= special.series_reach(self._nu)
        cases = [
            (early, lambda _, t, u: t * (t * special.bessel_gain(self._nu, u))),
            (~early, lambda s, t, u: self._learned(s, t, u) / s),
        ]
        return special.piecewise(cases, s, t, u)

    def _learned(self, s: Array, t: Array, u: Array) -> Array:
        """Return 1 - g beyond the reach of the series."""
        if self.friction < LEAST_FRICTION:
            return nearly_frictionless_learned(self.friction, *phase(s, t))
        return 1 - special.bessel_decay(self._nu, u)


@dataclass(frozen=True)
class HeavyBallFlow(Method):
    r"""Polyak's heavy ball with infinitely small steps.

    .. math::

        \ddot\beta + 2\gamma\dot\beta = X^T(y - X\beta)/n, \qquad
        g(s, t) = e^{-\gamma t}\Bigl(\cos\omega t + \frac{\gamma}{\omega}\sin\omega t\Bigr),
        \quad \omega^2 = s - \gamma^2

    Parameters
    ----------
    damping : float or "critical", default="critical"
        The γ above. "critical" is the square root of the smallest eigenvalue, which must be positive.

    Examples
    --------
    >>> HeavyBallFlow().tuned_to([0.25, 1.0])
    HeavyBallFlow(damping=0.5)

    References
    ----------
    Polyak (1964), Some methods of speeding up the convergence of iteration methods.
    """

    damping: float | str = "critical"
    name: ClassVar[str] = "heavy-ball-flow"
    order: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.damping != "critical":
            low, high = DAMPING_RANGE
            object.__setattr__(
                self, "damping", positive_number("damping", self.damping, low=low, high=high)
            )

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the flow with "critical" damping made concrete: the root of the least eigenvalue."""
        if self.damping != "critical":
            return self
        smallest = smallest_positive(
            'damping="critical"',
            nonnegative("eigenvalues", eigenvalues),
            least=DAMPING_RANGE[0] ** 2,
            instead="HeavyBallFlow(damping=0.1)",
        )
        return replace(self, damping=float(np.sqrt(smallest)))

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return the time at which the damping has brought every swing below level."""
        return np.inf, self._damped_to(level)

    def settled_at(self, s: float, level: float) -> float:
        """Return the time at which the direction has settled: by its damping, or by its slow creep."""
        creep = -np.log(level) * 2 * self._gamma / s if s < self._gamma**2 else 0.0
        return float(
            max(self._damped_to(level / 10), creep)
        )  # swings end fast: a tenth is soon there

    def _damped_to(self, level: float) -> float:
        """Return the t with (1 + γt)exp(-γt) = level."""
        x = -lambertw(-level / np.e, -1).real - 1
        return float(x / self._gamma)

    def in_units_of(self, penalty: float) -> Self:
        """Return the flow for eigenvalues divided by ``penalty``: damping is a frequency."""
        return replace(self, damping=self._gamma / float(np.sqrt(penalty)))

    def as_iteration(self, step: float) -> HeavyBall:
        """Return the heavy ball with momentum 1 - 2γ√step: its iterate k is near time √step·k."""
        from stoptime.methods.iterations import HeavyBall  # noqa: PLC0415 - which knows the flows

        momentum = 1 - 2 * self._gamma * float(np.sqrt(positive_number("step", step)))
        if momentum < 0:
            raise ValueError(
                f"step={step:g} is too long for damping {self._gamma:g}: take at most "
                f"{1 / (2 * self._gamma) ** 2:g}, where no momentum is left."
            )
        return HeavyBall(step, momentum)

    @property
    def _gamma(self) -> float:
        return concrete("damping", self.damping)

    def _frequency(self, s: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return the size of ω, and where it is real: there the path swings, elsewhere it creeps."""
        square = self._gamma * self._gamma
        lost = float(
            Fraction(self._gamma) ** 2 - Fraction(square)
        )  # by rounding; it counts at s ≈ γ²
        omega_squared = (s - square) - lost
        return np.sqrt(np.abs(omega_squared)), omega_squared > 0

    def _shrinkage(self, s: Array, t: Array) -> Array:
        omega, swings = self._frequency(s)
        cases = [(swings, swing), (~swings, creep)]
        return special.piecewise(cases, s, t, omega, np.array(self._gamma))

    def _gain(self, s: Array, t: Array) -> Array:
        omega, swings = self._frequency(s)
        return oscillator_gain(s, t, omega, np.array(self._gamma), swings)


# With a = γt, θ = ωt, d = γt - ωt: both forms of g, and 1 - g as sums of terms of one sign.


def oscillator_gain(
    s: Array, t: Array, omega: Array, gamma: Array, swings: NDArray[np.bool_]
) -> Array:
    """Return (1 - g)/s of the oscillator with stiffness s, damping γ and frequency ω, from rest."""
    early = t * np.sqrt(s) <= 1
    settled = np.where(swings, gamma * t, s / (gamma + omega) * t) > 1  # then 1 - g is not small
    returns = gamma * t < UNDAMPED  # then it nearly vanishes after every swing
    cases = [
        (swings & early, _swing_gain_early),
        (swings & ~early & returns, _return_gain),
        (swings & ~early & ~returns & ~settled, _swing_gain),
        (swings & settled, lambda s, *rest: (1 - swing(s, *rest)) / s),
        (~swings & ~settled, _creep_gain),
        (~swings & settled, lambda s, *rest: (1 - creep(s, *rest)) / s),
    ]
    return special.piecewise(cases, s, t, omega, gamma)


def swing(s: Array, t: Array, omega: Array, gamma: Array) -> Array:  # noqa: ARG001 - one signature for all
    """Return g where ω is real."""
    a, theta = gamma * t, omega * t
    return np.exp(-a) * (np.cos(theta) + a * np.sinc(theta / np.pi))


def creep(s: Array, t: Array, omega: Array, gamma: Array) -> Array:
    """Return g where ω is imaginary, its size given."""
    d = s / (gamma + omega) * t
    return np.asarray(np.exp(-d) * (1 + d * exprel(-2 * omega * t)))


def _swing_gain_early(s: Array, t: Array, omega: Array, gamma: Array) -> Array:
    a, theta = gamma * t, omega * t
    waves = np.sinc(theta / (2 * np.pi)) ** 2 / 2 + a * special.sinc_defect(theta)
    share = gamma / s * gamma
    return t * (t * np.exp(-a) * (share * special.exprel2(a) + omega / s * omega * waves))


def _swing_gain(s: Array, t: Array, omega: Array, gamma: Array) -> Array:
    return _swung(s, gamma * t, omega * t, np.zeros(1))


def _return_gain(s: Array, t: Array, omega: Array, gamma: Array) -> Array:  # noqa: ARG001 - one signature
    return _swung(s, gamma * t, *phase(s, t, gamma))


def _swung(s: Array, a: Array, theta: Array, rest: Array) -> Array:
    waves = versine(theta, rest) + a * special.one_minus_sinc(theta)
    return np.exp(-a) * (a * a * special.exprel2(a) + waves) / s


def _creep_gain(s: Array, t: Array, omega: Array, gamma: Array) -> Array:
    d = s / (gamma + omega) * t
    rest = special.exprel_minus_one(d) - special.exprel_minus_one(-2 * omega * t)
    return t / (gamma + omega) * np.exp(-d) * rest
