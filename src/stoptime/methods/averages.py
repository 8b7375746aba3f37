"""Iterations made from another one: with weight decay, and averages of the iterates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Filter, Method
from stoptime.methods.flows import AveragedFlow, GradientFlow
from stoptime.methods.iterations import Nesterov, OptimalIteration
from stoptime.methods.recurrence import (
    MOST_ITERATIONS,
    Iteration,
    Recurrence,
    Update,
    iterates,
)
from stoptime.support.arrays import Array
from stoptime.support.checks import fraction_below_one, instance_of, nonnegative, positive_number


def _inner(name: str) -> Any:
    """Return a property that is the one of the inner method."""
    return property(lambda wrapped: getattr(wrapped.method, name))


@dataclass(frozen=True)
class Wrapped(Iteration):
    """An iteration made from another one, with the same step."""

    method: Iteration
    step: ClassVar[Any] = _inner("step")
    limit: ClassVar[Any] = _inner("limit")
    time_power: ClassVar[Any] = _inner("time_power")
    pace: ClassVar[Any] = _inner("pace")

    def __post_init__(self) -> None:
        given: Any = instance_of(self.method, Method)  # callers without types give anything
        if not isinstance(given, Iteration):
            raise TypeError(
                f"{type(self).__name__} needs an iteration, such as Nesterov(); got {given!r}."
            )
        object.__setattr__(self, "method", given)

    @property
    def horizon(self) -> float:
        """The latest stop that a search looks at."""
        return min(super().horizon, self.method.horizon)

    @property
    def shift(self) -> float:
        """What is added to every eigenvalue where convergence is concerned."""
        return 0.0

    @property
    def largest_eigenvalue(self) -> float:
        """The smallest eigenvalue for which the iteration diverges in the end."""
        return max(self.method.largest_eigenvalue - self.shift, 0.0)

    def check_convergence(self, largest: float) -> None:
        """Raise a ValueError if the iteration diverges for eigenvalues up to ``largest``."""
        self.method.check_convergence(largest + self.shift)

    def as_flow(self) -> Filter:
        """Return a flow with the oscillations of the iteration, which this one does not follow."""
        return self.method.as_flow()

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the iteration with the inner one tuned to the spectrum."""
        s = nonnegative("eigenvalues", eigenvalues)
        return self.with_params(method=self.method.tuned_to(s + self.shift))

    def with_step(self, step: float) -> Self:
        """Return the iteration with another step."""
        return self.with_params(method=self.method.with_step(step))

    def largest_gain(self, stop: ArrayLike) -> Any:
        """Return a bound of the gain: no average and no decay makes it larger."""
        return self.method.largest_gain(stop)


@dataclass(frozen=True)
class Decayed(Wrapped):
    r"""An iteration with weight decay, which adds a ridge penalty to its loss.

    .. math:: \varphi_w(s, t) = \varphi(s + w, t), \qquad
        g_w(s, t) = \frac{w + s\,g(s + w, t)}{s + w}

    It is torch's ``weight_decay`` for the loss ‖y - Xβ‖²/(2n). The path ends at ridge with penalty
    w, not at least squares.

    Parameters
    ----------
    method : Iteration
        An iteration, or an average of one.
    weight_decay : float
        The w above.
    decoupled : bool, default=False
        Whether the coefficients decay apart from the gradient and its momentum, as in AdamW:
        β_k = (1 - ε_k·w)β_{k-1} + ε_k·v_k. Not for averages; without momentum both are equal.
        With a constant momentum η the heavy ball then ends at ridge with penalty (1 - η)w. See
        Loshchilov, Hutter (2019), Decoupled weight decay regularization.

    Examples
    --------
    >>> from stoptime.methods.iterations import GradientDescent
    >>> decayed = Decayed(GradientDescent(0.5), weight_decay=0.1)
    >>> round(float(decayed.gain(0.4, 1000)), 6)  # 1/(0.4 + 0.1)
    2.0
    """

    weight_decay: float
    decoupled: bool = False
    name: ClassVar[str] = "decayed"
    reaches_least_squares: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("weight_decay", self.weight_decay)
        simple = isinstance(self.method, Recurrence)
        if self.decoupled and (not simple or isinstance(self.method, OptimalIteration)):
            raise ValueError(
                f"decoupled=True needs an iteration without a penalty, and {self.method} is none: "
                "take decoupled=False."
            )

    @property
    def shift(self) -> float:
        """What decay adds to every eigenvalue where convergence is concerned."""
        if not self.decoupled:
            return self.weight_decay
        # A direction diverges by changing its sign in every step. The characteristic polynomial of
        # the step is zero at -1 first where εs = limit·(1 - εw/2), or later with a lookahead.
        return self.weight_decay * self.method.limit / 2

    def _decoupled(self, k: int) -> Update:
        """Return iteration k of the loop where coefficients decay apart from the gradient."""
        inner: Any = self.method
        share = inner.epsilon * self.weight_decay * inner.step_ratio(k)
        update: Update = inner.update(k)
        return update._replace(decay=share)

    def run(self, s: Array, start: Array) -> Iterator[Array]:
        """Yield g where ``start`` is 1, and φ/ε where it is 0, after 0, 1, 2, ... iterations."""
        if self.decoupled:
            return iterates(self._decoupled, self.epsilon * s, start)
        w = self.weight_decay
        run = self.method.run(s + w, start)
        # the gain is the same, and the shrinkage is a mean of that at s + w and one
        return (np.where(start == 1, (w + s * g) / (s + w), g) for g in run)

    @property
    def runs_steps(self) -> bool:
        """Whether stop k costs k steps of a recurrence."""
        return self.decoupled or self.method.runs_steps

    def _shrinkage(self, s: Array, t: Array) -> Array:
        if self.runs_steps:
            return super()._shrinkage(s, t)
        # the mean of one and the shrinkage of the inner method, which is a power
        w = self.weight_decay
        return (w + s * self.method._shrinkage(s + w, t)) / (s + w)

    def _gain(self, s: Array, t: Array) -> Array:
        if self.runs_steps:
            return super()._gain(s, t)
        return self.method._gain(s + self.weight_decay, t)

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ at the end, which is ridge unless a schedule ends before."""
        if not self.decoupled:
            g, gain = self.method.limits(s + self.weight_decay)
            return (self.weight_decay + s * g) / (s + self.weight_decay), gain
        if np.isfinite(self.ends_at):
            return super().limits(s)
        m, lookahead, weight, stride, direct, share, _ = self._decoupled(MOST_ITERATIONS)
        x = self.epsilon * s
        # in the end v = weight·gradient/(1 - m), and the step of v balances the decay
        pull = stride * weight + direct * (1 - m)
        decay = share * (1 - m + x * lookahead * weight)
        return decay / (pull * x + decay), self.epsilon * pull / (pull * x + decay)


@dataclass(frozen=True)
class VanishingDecay(Wrapped):
    r"""An iteration whose weight decay vanishes along the run, so that the run follows ridge.

    .. math:: w_k = c/t_k^2, \qquad t_k = \sqrt\varepsilon\,k

    With c = 4 and the best stop, Nesterov's method has at most 1.06 times the Bayes risk of ridge
    in every direction. Without momentum w_k is c/t_k with t_k = εk. The path ends at least squares.

    Parameters
    ----------
    method : Iteration, default=Nesterov()
        An iteration without weight decay.
    decay : float, default=4.0
        The c above. A larger one follows ridge more closely, and takes more iterations.

    Examples
    --------
    >>> VanishingDecay().tuned_to([1.0, 0.1]).shrinkage(0.1, [10, 100]).round(3)
    array([0.29 , 0.004])
    """

    method: Iteration = field(default_factory=Nesterov)
    decay: float = 4.0
    name: ClassVar[str] = "vanishing-decay"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("decay", self.decay)
        if not isinstance(self.method, Recurrence) or isinstance(self.method, OptimalIteration):
            raise TypeError(
                f"VanishingDecay needs an iteration without decay, such as Nesterov(); got "
                f"{self.method!r}."
            )

    def pull(self, k: int) -> float:
        """Return the decay of step k times the step."""
        # a few steps later than c/t², so that the first steps do not overshoot
        return float(self.decay / (k + self.decay ** (1 / self.time_power)) ** self.time_power)

    def run(self, s: Array, start: Array) -> Iterator[Array]:
        """Yield g where ``start`` is 1, and φ/ε where it is 0, after 0, 1, 2, ... iterations."""
        return iterates(self._decaying, self.epsilon * s, start)

    def _decaying(self, k: int) -> Update:
        """Return iteration k of the loop with its decay."""
        update: Update = self.method.update(k)  # type: ignore[attr-defined]
        return update._replace(pull=self.pull(k))


@dataclass(frozen=True)
class Averaged(Wrapped):
    r"""The average of the iterates so far, in place of the last one.

    .. math:: \bar\beta_k = \sum_{j=1}^k w_j\beta_j, \qquad \bar g_k = \sum_j w_j g_j, \qquad
        \bar\varphi_k = \sum_j w_j\varphi_j

    See Polyak, Juditsky (1992), Acceleration of stochastic approximation by averaging, and Mücke,
    Neu, Rosasco (2019), Beating SGD saturation with tail-averaging and minibatching.

    Parameters
    ----------
    method : Iteration
        An iteration, which may have weight decay. The average of :class:`stoptime.GradientFlow`
        over time is an :class:`AveragedFlow`, and that is returned.
    kind : {"polyak", "tail", "exponential"}, default="polyak"
        "polyak" is the mean of β_1, ..., β_k, torch's ``AveragedModel``. "tail" is the mean of the
        last half, the iterates after k/2. "exponential" starts at β_1 and then takes
        decay·average + (1 - decay)·β_k, torch's ``get_ema_multi_avg_fn(decay)``.
    decay : float, default=0.999
        For "exponential" only.

    Examples
    --------
    >>> from stoptime.methods.iterations import GradientDescent
    >>> Averaged(GradientDescent(0.5)).shrinkage(1.0, 2).item()  # (1/2 + 1/4)/2
    0.375
    """

    kind: Literal["polyak", "tail", "exponential"] = "polyak"
    decay: float = 0.999
    name: ClassVar[str] = "averaged"
    ends_at: ClassVar[float] = np.inf
    """The average moves on where the iterates no longer do."""
    reaches_least_squares: ClassVar[Any] = _inner("reaches_least_squares")

    def __new__(cls, method: Any = None, kind: Any = "polyak", decay: float = 0.999) -> Any:  # noqa: ARG004
        """Return an average over time in place of one over iterates for gradient flow."""
        if isinstance(method, GradientFlow) or method is GradientFlow:
            return AveragedFlow(kind)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction_below_one("decay", self.decay)
        if self.kind not in ("polyak", "tail", "exponential"):
            raise ValueError(
                f'kind must be one of "polyak", "tail", "exponential"; got {self.kind!r}.'
            )
        if isinstance(self.method, Averaged):
            raise ValueError(  # noqa: TRY004 - an iteration is legal
                "An average of averages has no use: average the iteration itself."
            )

    def run(self, s: Array, start: Array) -> Iterator[Array]:
        """Yield g where ``start`` is 1, and φ/ε where it is 0, after 0, 1, 2, ... iterations."""
        run = self.method.run(s, start)
        yield next(run)
        # a second run at half the speed drops what leaves the window, so no history is stored
        behind = islice(self.method.run(s, start), 1, None)
        average: Any = 0.0
        total: Any = 0.0
        for k, value in enumerate(run, 1):
            total = total + value
            if self.kind == "exponential":
                share = 1.0 if k == 1 else 1 - self.decay
                average = (1 - share) * average + share * value
            elif self.kind == "tail":
                total -= next(behind) if k % 2 == 0 else 0.0
                average = total / (k - k // 2)
            else:
                average = total / k
            yield average

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ at the end: averages converge to the limit of the iterates."""
        return self.method.limits(s)
