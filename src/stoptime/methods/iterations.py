"""The iterations: gradient descent, Nesterov's method, the heavy ball and the ν-method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Checks, Filter, concrete, smallest_positive, unless
from stoptime.methods.flows import (
    AcceleratedFlow,
    GradientFlow,
    HeavyBallFlow,
    friction_number,
)
from stoptime.methods.high_resolution import HighResolutionAcceleratedFlow, HighResolutionFlow
from stoptime.methods.recurrence import STEP_ROUNDING, Coefficients, Recurrence, Update
from stoptime.methods.schedules import Schedule, at, scheduled
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
    step : float or "auto", default="auto"
        The ε above, below 2/L; "auto" is 1/L. It is torch's ``lr`` for the loss ‖y - Xβ‖²/(2n).
        For every iteration it may also be a schedule, see :mod:`stoptime.schedules`.

    Examples
    --------
    >>> from stoptime.methods.schedules import Cosine
    >>> GradientDescent(step=Cosine(peak=0.1, total=1000, warmup=50)).horizon
    1000
    """

    step: float | str | Schedule = "auto"
    name: ClassVar[str] = "gradient-descent"
    limit: ClassVar[float] = 2.0
    has_momentum: ClassVar[bool] = False

    def coefficients(self, k: int) -> Coefficients:  # noqa: ARG002 - every step is the same
        """Return momentum, lookahead and weight of iteration k."""
        return Coefficients(0.0, 0.0, 1.0)

    def as_flow(self) -> GradientFlow:
        """Return gradient flow: iterate k is near time εk, within O(ε)."""
        return GradientFlow()


@dataclass(frozen=True)
class Nesterov(Recurrence):
    r"""Nesterov's accelerated gradient method.

    .. math:: \beta_k = \theta_{k-1} + \frac{\varepsilon}{n} X^T(y - X\theta_{k-1}), \qquad
        \theta_k = \beta_k + \frac{k-1}{k+r-1}(\beta_k - \beta_{k-1})

    See Su, Boyd, Candès (2016), A differential equation for modeling Nesterov's accelerated
    gradient method.

    Parameters
    ----------
    step : float or "auto", default="auto"
        The ε above, below 4/(3L); "auto" is 1/L.
    friction : float, default=3.0
        The r above, from 0.001 to 200.
    momentum : float, optional
        A constant η in [0, 1) in place of the fraction; ``friction`` is then ignored. It may also
        be a schedule. With constants this is ``torch.optim.SGD(lr=step, momentum=η,
        nesterov=True)`` from zero: after k steps torch holds the extrapolated point
        θ_k = β_k + η(β_k - β_{k-1}), which is the iterate of :class:`SGD`.

    Examples
    --------
    >>> Nesterov().tuned_to([0.25, 2.0])
    Nesterov(step=0.5, friction=3.0, momentum=None)
    """

    step: float | str | Schedule = "auto"
    friction: float = 3.0
    momentum: float | Schedule | None = None
    name: ClassVar[str] = "nesterov"
    _checks: ClassVar[Checks] = Recurrence._checks | {
        "friction": friction_number,
        "momentum": unless(None, scheduled(fraction_below_one)),
    }

    @property
    def has_momentum(self) -> bool:
        """Whether the momentum is not zero."""
        return self.momentum != 0

    @property
    def limit(self) -> float:
        """The smallest εs that diverges: (2 + 2η)/(1 + 2η), with η → 1 if it grows."""
        eta = 1.0 if self.momentum is None else _largest(self.momentum)
        return (2 + 2 * eta) / (1 + 2 * eta)

    @property
    def universal_guarantee(self) -> bool:
        """As for accelerated flow, friction ≥ 2; :func:`stoptime.bounds.risk_inflation` proves it.

        A constant momentum needs the range of the eigenvalues.
        """
        if self.momentum is not None:
            return super().universal_guarantee
        return self.follows_flow and AcceleratedFlow(self.friction).universal_guarantee

    def coefficients(self, k: int) -> Coefficients:
        """Return momentum, lookahead and weight of iteration k."""
        if self.momentum is not None:
            eta = at(self.momentum, k)
        else:
            eta = (k - 2) / (k + self.friction - 2) if k > 2 else 0.0
        return Coefficients(eta, eta, 1.0)

    def as_flow(self) -> Filter:
        """Return the flow at time √ε·k, within O(√ε): heavy-ball flow for constant momentum."""
        if self.momentum is None:
            return AcceleratedFlow(self.friction)
        if not self.has_momentum:
            return GradientFlow()
        return HeavyBallFlow(damping=(1 - _largest(self.momentum)) / (2 * self.pace))


@dataclass(frozen=True)
class HeavyBall(Recurrence):
    r"""Polyak's heavy ball.

    .. math:: \beta_k = \beta_{k-1} + \frac{\varepsilon}{n} X^T(y - X\beta_{k-1})
        + \eta(\beta_{k-1} - \beta_{k-2})

    See Polyak (1964), Some methods of speeding up the convergence of iteration methods.

    Parameters
    ----------
    step : float or "auto", default="auto"
        The ε above, below 2(1 + η)/L; "auto" is 1/L.
    momentum : float or "auto", default="auto"
        The η above, in [0, 1). "auto" converges fastest with this step; it is (1 - √(εμ))² if the
        step is 1/L, and it needs a positive smallest eigenvalue μ. The pair is
        ``torch.optim.SGD(lr=step, momentum=momentum)``, iterate by iterate from zero, also where
        one of them or both are schedules.

    Examples
    --------
    >>> HeavyBall().tuned_to([0.25, 1.0])
    HeavyBall(step=1.0, momentum=0.25)
    """

    step: float | str | Schedule = "auto"
    momentum: float | str | Schedule = "auto"
    name: ClassVar[str] = "heavy-ball"
    _checks: ClassVar[Checks] = Recurrence._checks | {
        "momentum": unless("auto", scheduled(fraction_below_one))
    }

    @property
    def has_momentum(self) -> bool:
        """Whether the momentum is not zero."""
        return self.momentum != 0

    def _with_momentum(self, s: Array) -> Self:
        if self.momentum != "auto":
            return self
        largest = float(s.max(initial=0))
        smallest = smallest_positive(self, "momentum", s, least=EPS * largest, example=0.9)
        self.check_convergence(largest)
        # The slower end of the spectrum sets the rate: both roots of its equation then coincide.
        ends = 1 - np.sqrt(self.epsilon * np.array([smallest, largest]))
        return replace(self, momentum=float(np.max(ends**2)))

    @property
    def eta(self) -> float:
        """The momentum as a number; the largest one of a schedule."""
        return _largest(self._momentum)

    @property
    def _momentum(self) -> float | Schedule:
        given = self.momentum
        return given if isinstance(given, Schedule) else concrete("momentum", given)

    @property
    def limit(self) -> float:
        """The smallest εs that diverges: 2(1 + η), and 4 before an automatic η is known."""
        if isinstance(self.momentum, Schedule):
            return 2 * (1 + self.momentum.smallest)
        return 4.0 if isinstance(self.momentum, str) else 2 * (1 + self.momentum)

    def coefficients(self, k: int) -> Coefficients:
        """Return momentum, lookahead and weight of iteration k."""
        return Coefficients(at(self._momentum, k), 0.0, 1.0)

    def as_flow(self) -> Filter:
        """Return heavy-ball flow at time √ε·k with damping (1 - η)/(2√ε), within O(√ε)."""
        if not self.has_momentum:
            return GradientFlow()
        return HeavyBallFlow(damping=(1 - self.eta) / (2 * self.pace))


@dataclass(frozen=True)
class SGD(HeavyBall):
    r"""The heavy ball with the two options that ``torch.optim.SGD`` has, with the whole data.

    .. math:: v_k = \eta v_{k-1} + (1 - d)\,g_k, \qquad \beta_k = \beta_{k-1}
        + \varepsilon_k v_k \quad\text{or}\quad \beta_{k-1} + \varepsilon_k(g_k + \eta v_k)

    with :math:`g_k = X^T(y - X\beta_{k-1})/n`. The second form is that of ``nesterov=True``, whose
    iterates are the extrapolated points of :class:`Nesterov`. The first gradient is not dampened.
    :func:`stoptime.from_torch` reads the parameters from an optimiser.

    Parameters
    ----------
    step : float or "auto", default="auto"
        The ε above, torch's ``lr`` for the loss ‖y - Xβ‖²/(2n); "auto" is 1/L.
    momentum : float or "auto", default=0.0
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
        if self.nesterov:
            return (2 + 2 * self.eta) / (1 + 2 * self.eta)
        return super().limit / (1 - self._dampening)

    @property
    def _dampening(self) -> float:
        return self.dampening if self.has_momentum else 0.0

    def coefficients(self, k: int) -> Coefficients:
        """Return momentum, lookahead and weight of iteration k."""
        return Coefficients(at(self._momentum, k), 0.0, 1 - self._dampening if k > 1 else 1.0)

    def update(self, k: int) -> Update:
        """Return iteration k = 1, 2, ... of the loop, in units of ε."""
        found = super().update(k)
        if not self.nesterov:
            return found
        return found._replace(stride=found.stride * found.momentum, direct=found.stride)

    def largest_gain(self, stop: ArrayLike) -> Any:
        """Return a bound of the gain; an extrapolated point is ahead of its iterate."""
        return (1 + (self.eta if self.nesterov else 0.0)) * super().largest_gain(stop)


@dataclass(frozen=True)
class NuMethod(Recurrence):
    r"""Brakhage's ν-method: the accelerated iteration whose shrinkage is a Jacobi polynomial.

    .. math:: g(s, k) = P_k^{(2\nu-1/2,\,-1/2)}(1 - 2\varepsilon s) \big/ P_k^{(2\nu-1/2,\,-1/2)}(1)

    See Brakhage (1987), On ill-posed problems and the method of conjugate gradients.

    Parameters
    ----------
    step : float or "auto", default="auto"
        The ε above, at most 1/L, which is "auto". Leaving rows out raises the largest eigenvalue
        a little, so that "auto" is slightly smaller for leave-one-out.
    nu : float, default=1.0
        The ν above, below 50: up to this smoothness of the signal the method is optimal.
    """

    step: float | str | Schedule = "auto"
    nu: float = 1.0
    name: ClassVar[str] = "nu-method"
    limit: ClassVar[float] = 1 + STEP_ROUNDING
    """At εs = 1 the iteration still converges."""
    _checks: ClassVar[Checks] = Recurrence._checks | {"nu": partial(positive_number, high=50.0)}

    @property
    def universal_guarantee(self) -> bool:
        """As for accelerated flow with friction 4ν; :mod:`stoptime.bounds` proves the constant."""
        return self.follows_flow and self.as_flow().universal_guarantee

    @property
    def pace(self) -> float:
        """The time of the flow that one iteration takes: 2√ε, as its gradients count fourfold."""
        return 2 * super().pace

    def coefficients(self, k: int) -> Coefficients:
        """Return momentum, lookahead and weight of iteration k."""
        nu = self.nu
        if k == 1:
            return Coefficients(0.0, 0.0, (4 * nu + 2) / (4 * nu + 1))
        # the three-term recurrence of these Jacobi polynomials, divided by their values at one
        ratio = (2 * k + 2 * nu - 1) / ((k + 2 * nu - 1) * (2 * k + 4 * nu - 1))
        momentum = (k - 1) * (2 * k - 3) / (2 * k + 2 * nu - 3) * ratio
        return Coefficients(momentum, 0.0, 4 * (k + nu - 1) * ratio)

    def as_flow(self) -> AcceleratedFlow:
        """Return accelerated flow with friction 4ν: iterate k is near time 2√ε·k, within O(√ε)."""
        return AcceleratedFlow(4 * self.nu)


def _largest(value: float | Schedule) -> float:
    return value.largest if isinstance(value, Schedule) else value


def as_iteration(flow: Filter, step: float | None = None) -> Recurrence:
    """Return the iteration whose iterates follow a flow as its step shrinks.

    Iterate k of gradient descent is near time step·k, within O(step). That of Nesterov's method and
    of the heavy ball is near time √step·k, within O(√step). A high-resolution flow has the step of
    the iteration that it models: the extrapolated point θ_k is near time √step·k for strong
    convexity, and iterate k near time √step·(k + (r-2)/2) for friction r.

    Parameters
    ----------
    flow : GradientFlow, AcceleratedFlow, HeavyBallFlow or a high-resolution flow
        The flow.
    step : float, optional
        The step of the iteration; a high-resolution flow has its own.

    Examples
    --------
    >>> as_iteration(AcceleratedFlow(), 0.1)
    Nesterov(step=0.1, friction=3.0, momentum=None)
    """
    if isinstance(flow, HighResolutionFlow):
        return _modelled(flow)
    if isinstance(flow, HighResolutionAcceleratedFlow):
        return Nesterov(concrete("step", flow.step), flow.friction)
    length = positive_number("step", step)
    if isinstance(flow, GradientFlow):
        return GradientDescent(length)
    if isinstance(flow, AcceleratedFlow):
        return Nesterov(length, flow.friction)
    if not isinstance(flow, HeavyBallFlow):
        raise TypeError(f"{flow} is not the limit of any iteration.")
    damping = concrete("damping", flow.damping)
    momentum = 1 - 2 * damping * float(np.sqrt(length))
    if momentum < 0:
        raise ValueError(
            f"step={length:g} is too large for damping {damping:g}: it must be at most "
            f"{1 / (2 * damping) ** 2:g}, for which the momentum is zero."
        )
    return HeavyBall(length, momentum)


def _modelled(flow: HighResolutionFlow) -> Nesterov:
    """Return Nesterov's method for strongly convex functions, which the flow models."""
    step = concrete("step", flow.step)
    root = float(np.sqrt(step * concrete("strong_convexity", flow.strong_convexity)))
    if root >= 1:
        raise ValueError(
            f"{flow} does not model any iteration: its step must be below 1/strong_convexity."
        )
    return Nesterov(step, momentum=(1 - root) / (1 + root))
