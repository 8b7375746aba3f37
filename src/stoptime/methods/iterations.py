"""The iterations: gradient descent, Nesterov's method, the heavy ball and the ν-method."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from stoptime.methods.base import (
    Checks,
    Filter,
    concrete,
    longest_step,
    smallest_positive,
    unless,
)
from stoptime.methods.flows import (
    AcceleratedFlow,
    GradientFlow,
    HeavyBallFlow,
    friction_number,
)
from stoptime.methods.recurrence import STEP_ROUNDING, Recurrence, Update
from stoptime.methods.schedules import Schedule, at, largest_value, scheduled
from stoptime.support.arrays import EPS, Array
from stoptime.support.checks import fraction_below_one, positive_number


@dataclass(frozen=True)
class GradientDescent(Recurrence):
    r"""Gradient descent, also known as Landweber's iteration.

    .. math:: \beta_k = \beta_{k-1} + \frac{\varepsilon}{n} X^T(y - X\beta_{k-1}), \qquad
        g(s, k) = (1 - \varepsilon s)^k

    See Landweber (1951), An iteration formula for Fredholm integral equations of the first kind.

    Parameters
    ----------
    step : float, "auto" or Schedule, default="auto"
        The ε above, below 2/L; "auto" is 1/L. It is torch's ``lr`` for the loss ‖y - Xβ‖²/(2n).

    Examples
    --------
    >>> from stoptime.methods.schedules import Cosine
    >>> GradientDescent(step=Cosine(peak=0.1, total=1000, warmup=50)).horizon
    1000
    """

    name: ClassVar[str] = "gradient-descent"
    limit: ClassVar[float] = 2.0
    momentum: ClassVar[float] = 0.0

    def coefficients(self, k: int) -> tuple[float, float, float]:  # noqa: ARG002 - every step is the same
        """Return momentum, lookahead and weight of iteration k."""
        return 0.0, 0.0, 1.0

    def as_flow(self) -> GradientFlow:
        """Return gradient flow: iterate k is near time εk, within O(ε)."""
        return GradientFlow()


@dataclass(frozen=True)
class Nesterov(Recurrence):
    r"""Nesterov's accelerated gradient method.

    .. math:: \beta_k = \theta_{k-1} + \frac{\varepsilon}{n} X^T(y - X\theta_{k-1}), \qquad
        \theta_k = \beta_k + \frac{k-1}{k+r-1}(\beta_k - \beta_{k-1})

    See Su, Boyd, Candès (2016).

    Parameters
    ----------
    step : float, "auto" or Schedule, default="auto"
        The ε above, below 4/(3L); "auto" is 1/L.
    friction : float, default=3.0
        The r above, from 0.001 to 200.
    momentum : float or Schedule, optional
        An η in [0, 1) in place of the fraction. Torch's ``SGD(nesterov=True)`` is the same run, but
        holds θ_k, which is the iterate of :class:`SGD`.

    Examples
    --------
    >>> Nesterov().tuned_to([0.25, 2.0])
    Nesterov(step=0.5, friction=3.0, momentum=None)
    """

    friction: float = 3.0
    momentum: float | Schedule | None = None
    name: ClassVar[str] = "nesterov"
    _checks: ClassVar[Checks] = Recurrence._checks | {
        "friction": friction_number,
        "momentum": unless(None, scheduled(fraction_below_one)),
    }

    @property
    def limit(self) -> float:
        """The smallest εs that diverges: (2 + 2η)/(1 + 2η), with η → 1 if it grows."""
        return _limit_ahead(1.0 if self.momentum is None else largest_value(self.momentum))

    def coefficients(self, k: int) -> tuple[float, float, float]:
        """Return momentum, lookahead and weight of iteration k."""
        if self.momentum is not None:
            eta = at(self.momentum, k)
        else:
            eta = (k - 2) / (k + self.friction - 2) if k > 2 else 0.0
        return eta, eta, 1.0

    def as_flow(self) -> Filter:
        """Return the flow at time √ε·k, within O(√ε): heavy-ball flow for constant momentum."""
        if self.momentum is None:
            return AcceleratedFlow(self.friction)
        return _flow_of_momentum(self, self.momentum)


def _limit_ahead(eta: float) -> float:
    """Return the smallest εs that diverges where the gradient is that of an extrapolated point."""
    return (2 + 2 * eta) / (1 + 2 * eta)


def _flow_of_momentum(method: Recurrence, momentum: Any) -> Filter:
    """Return heavy-ball flow with damping (1 - η)/(2√ε); without momentum, gradient flow."""
    if not method.has_momentum:
        return GradientFlow()
    if not method.is_tuned:
        return HeavyBallFlow()  # a damping that is not known yet
    return HeavyBallFlow(damping=(1 - largest_value(momentum)) / (2 * method.pace))


def _fastest_momentum(method: HeavyBall, s: Array) -> float:
    """Return the momentum with which the heavy ball converges fastest at its step."""
    largest = float(s.max(initial=0))
    ends = np.array([smallest_positive(method, "momentum", s, EPS * largest), largest])
    method.check_convergence(largest)
    # The slower end of the spectrum sets the rate: both roots of its equation then coincide.
    return float(np.max((1 - np.sqrt(method.epsilon * ends)) ** 2))


@dataclass(frozen=True)
class HeavyBall(Recurrence):
    r"""Polyak's heavy ball.

    .. math:: \beta_k = \beta_{k-1} + \frac{\varepsilon}{n} X^T(y - X\beta_{k-1})
        + \eta(\beta_{k-1} - \beta_{k-2})

    It is ``torch.optim.SGD(lr=step, momentum=momentum)`` from zero. See Polyak (1964).

    Parameters
    ----------
    step : float, "auto" or Schedule, default="auto"
        The ε above, below 2(1 + η)/L; "auto" is 1/L.
    momentum : float, "auto" or Schedule, default="auto"
        The η above, in [0, 1). "auto" converges fastest with this step; it is (1 - √(εμ))² if the
        step is 1/L, and it needs a positive smallest eigenvalue μ.

    Examples
    --------
    >>> HeavyBall().tuned_to([0.25, 1.0])
    HeavyBall(step=1.0, momentum=0.25)
    """

    momentum: float | str | Schedule = "auto"
    name: ClassVar[str] = "heavy-ball"
    _checks: ClassVar[Checks] = Recurrence._checks | {
        "momentum": unless("auto", scheduled(fraction_below_one))
    }
    _automatic: ClassVar[Any] = {"step": longest_step, "momentum": _fastest_momentum}

    @property
    def eta(self) -> float:
        """The momentum as a number; the largest one of a schedule."""
        return largest_value(concrete("momentum", self.momentum))

    @property
    def limit(self) -> float:
        """The smallest εs that diverges: 2(1 + η), and 4 before an automatic η is known."""
        if isinstance(self.momentum, Schedule):
            return 2 * (1 + min(self.momentum.values))
        return 4.0 if isinstance(self.momentum, str) else 2 * (1 + self.momentum)

    def coefficients(self, k: int) -> tuple[float, float, float]:
        """Return momentum, lookahead and weight of iteration k."""
        return at(concrete("momentum", self.momentum), k), 0.0, 1.0

    def as_flow(self) -> Filter:
        """Return heavy-ball flow at time √ε·k with damping (1 - η)/(2√ε), within O(√ε)."""
        return _flow_of_momentum(self, self.momentum)


@dataclass(frozen=True)
class SGD(HeavyBall):
    r"""The heavy ball with the two options that ``torch.optim.SGD`` has, with the whole data.

    .. math:: v_k = \eta v_{k-1} + (1 - d)\,g_k, \qquad \beta_k = \beta_{k-1}
        + \varepsilon_k v_k \quad\text{or}\quad \beta_{k-1} + \varepsilon_k(g_k + \eta v_k)

    with :math:`g_k = X^T(y - X\beta_{k-1})/n`. The second form is that of ``nesterov=True``, whose
    iterates are the extrapolated points of :class:`Nesterov`. The first gradient is not dampened.

    Parameters
    ----------
    step : float, "auto" or Schedule, default="auto"
        The ε above; "auto" is 1/L.
    momentum : float, "auto" or Schedule, default=0.0
        The η above, in [0, 1); "auto" is that of :class:`HeavyBall`.
    dampening : float, default=0.0
        The d above, in [0, 1). As in torch, it has no effect without momentum.
    nesterov : bool, default=False
        Whether the second form is used. As in torch, it needs momentum without dampening.

    Examples
    --------
    >>> SGD(step=0.5, momentum=0.9, nesterov=True).gain(0.0, 1).item()  # 0.5·(1 + 0.9)
    0.95
    """

    momentum: float | str | Schedule = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    name: ClassVar[str] = "sgd"
    _checks: ClassVar[Checks] = HeavyBall._checks | {"dampening": fraction_below_one}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and (self.dampening or not self.has_momentum):
            raise ValueError("nesterov=True needs a momentum above zero, and no dampening.")
        if isinstance(self.momentum, str) and (self.nesterov or self.dampening):
            raise ValueError(
                'momentum="auto" is that of the heavy ball without nesterov and without dampening: '
                "give the momentum as a number."
            )

    @property
    def limit(self) -> float:
        """The smallest εs that diverges: (2 + 2η)/(1 + 2η), or 2(1 + η) without Nesterov's form."""
        return _limit_ahead(self.eta) if self.nesterov else super().limit / self._weight

    @property
    def _weight(self) -> float:
        """Return what dampening leaves of a gradient."""
        return 1 - self.dampening if self.has_momentum else 1.0

    def update(self, k: int) -> Update:
        """Return iteration k = 1, 2, ... of the loop, in units of ε."""
        found = super().update(k)._replace(weight=self._weight if k > 1 else 1.0)
        if not self.nesterov:
            return found
        return found._replace(stride=found.stride * found.momentum, direct=found.stride)

    def _largest_gain(self, t: Array) -> Array:
        # an extrapolated point is ahead of its iterate
        return (1 + (self.eta if self.nesterov else 0.0)) * super()._largest_gain(t)


@dataclass(frozen=True)
class NuMethod(Recurrence):
    r"""Brakhage's ν-method: the accelerated iteration whose shrinkage is a Jacobi polynomial.

    .. math:: g(s, k) = P_k^{(2\nu-1/2,\,-1/2)}(1 - 2\varepsilon s) \big/ P_k^{(2\nu-1/2,\,-1/2)}(1)

    See Brakhage (1987), On ill-posed problems and the method of conjugate gradients.

    Parameters
    ----------
    step : float, "auto" or Schedule, default="auto"
        The ε above, at most 1/L, which is "auto"; slightly smaller for leave-one-out.
    nu : float, default=1.0
        The ν above, below 50: up to this smoothness of the signal the method is optimal.
    """

    nu: float = 1.0
    name: ClassVar[str] = "nu-method"
    limit: ClassVar[float] = 1 + STEP_ROUNDING
    """At εs = 1 the iteration still converges."""
    _checks: ClassVar[Checks] = Recurrence._checks | {"nu": partial(positive_number, high=50.0)}

    @property
    def pace(self) -> float:
        """The time of the flow that one iteration takes: 2√ε, as its gradients count fourfold."""
        return 2 * super().pace

    def coefficients(self, k: int) -> tuple[float, float, float]:
        """Return momentum, lookahead and weight of iteration k."""
        nu = self.nu
        if k == 1:
            return 0.0, 0.0, (4 * nu + 2) / (4 * nu + 1)
        # the three-term recurrence of these Jacobi polynomials, divided by their values at one
        ratio = (2 * k + 2 * nu - 1) / ((k + 2 * nu - 1) * (2 * k + 4 * nu - 1))
        momentum = (k - 1) * (2 * k - 3) / (2 * k + 2 * nu - 3) * ratio
        return momentum, 0.0, 4 * (k + nu - 1) * ratio

    def as_flow(self) -> AcceleratedFlow:
        """Return accelerated flow with friction 4ν: iterate k is near time 2√ε·k, within O(√ε)."""
        return AcceleratedFlow(4 * self.nu)


@dataclass(frozen=True)
class OptimalIteration(Recurrence):
    r"""The iteration whose every iterate has the least guaranteed risk of so many products with X.

    .. math:: (s + \lambda)\,\varphi(s, k) = 1 - \frac{W_k(1 - 2s/L)}{W_k(1 + 2\lambda/L)}, \qquad
        W_k(\cos\theta) = \frac{\sin((k + 1/2)\theta)}{\sin(\theta/2)}

    with Chebyshev polynomials W of the fourth kind and the step 1/L. If λ is the best penalty, then
    iterate k has at most coth²((2k + 1)·arsinh√(λ/L)) times the Bayes risk of the best ridge, the
    best bound of any polynomial of its degree (:func:`stoptime.bounds.price_of_products`). The path
    ends at ridge with penalty λ.

    Parameters
    ----------
    step : float or "auto", default="auto"
        The 1/L above. The iteration diverges for eigenvalues above L + λ.
    penalty : float
        The λ above, of the ridge that the path approaches.

    Examples
    --------
    >>> from stoptime import guarantee
    >>> method = OptimalIteration(step=1.0, penalty=0.01)
    >>> round(guarantee(method.in_units_of(0.01), 5).inflation, 4)
    1.5631
    """

    step: float | str = "auto"
    penalty: float = field(kw_only=True)
    name: ClassVar[str] = "optimal-iteration"
    follows_flow: ClassVar[bool] = False
    reaches_least_squares: ClassVar[bool] = False
    _checks: ClassVar[Checks] = {
        "step": unless("auto", positive_number),
        "penalty": positive_number,
    }

    @property
    def limit(self) -> float:
        """The smallest εs for which the iteration diverges: 1 + ελ."""
        return 1 + max(self.epsilon * self.penalty, STEP_ROUNDING)

    @property
    def pace(self) -> float:
        """The time of one iteration, 2√ε, as for the ν-method."""
        return 2 * super().pace

    @property
    def horizon(self) -> float:
        """The latest stop that a search looks at: from there on the iterate is that of ridge."""
        if not self.is_tuned:
            return super().horizon
        return min(super().horizon, float(np.ceil(np.log(2 / EPS) / (2 * self._rate))))

    @property
    def _rate(self) -> float:
        """The θ with sinh θ = √(ελ): the distance from ridge falls like exp(-2θk)."""
        return float(np.arcsinh(np.sqrt(self.epsilon * self.penalty)))

    def _ratio(self, k: int) -> float:
        """Return W_k/W_{k+1} at 1 + 2ελ, which is sinh((2k + 1)θ)/sinh((2k + 3)θ)."""
        theta = self._rate
        # both sines would overflow, so the growing exponential is divided out
        falls = np.expm1(-2 * (2 * k + 1) * theta) / np.expm1(-2 * (2 * k + 3) * theta)
        return float(np.exp(-2 * theta) * falls)

    def coefficients(self, k: int) -> tuple[float, float, float]:
        """Return momentum, lookahead and weight of iteration k, whose gradient is that of ridge."""
        ratio = self._ratio(k - 1)
        momentum = ratio * self._ratio(k - 2) if k > 1 else 0.0
        return momentum, 0.0, 4 * ratio

    def update(self, k: int) -> Update:
        """Return iteration k = 1, 2, ... of the loop, in units of ε."""
        return super().update(k)._replace(pull=self.epsilon * self.penalty)

    def as_flow(self) -> AcceleratedFlow:
        """Return a flow that oscillates as fast; only with penalty 0 the iterates follow it."""
        return AcceleratedFlow(2.0)

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ of ridge."""
        return self.penalty / (s + self.penalty), 1 / (s + self.penalty)
