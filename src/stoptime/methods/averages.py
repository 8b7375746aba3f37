"""Iterations made from another one: with weight decay, and averages of the iterates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Method
from stoptime.methods.flows import AveragedFlow, GradientFlow
from stoptime.methods.iterations import Nesterov, OptimalIteration
from stoptime.methods.recurrence import Gradient, Iteration, Recurrence, Update
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
    largest_gain: ClassVar[Any] = _inner("largest_gain")
    """No average and no decay makes a gain larger."""
    as_flow: ClassVar[Any] = _inner("as_flow")
    """A flow with the oscillations of the iteration, which this one does not follow."""

    def __post_init__(self) -> None:
        given: Any = instance_of(self.method, Method)  # callers without types give anything
        if not isinstance(given, Iteration):
            raise TypeError(
                f"{type(self).__name__} needs an iteration, such as Nesterov(); got {given!r}."
            )
        object.__setattr__(self, "method", given)

    shift: ClassVar[Any] = 0.0
    """What is added to every eigenvalue where convergence is concerned."""

    @property
    def horizon(self) -> float:
        """The latest stop that a search looks at."""
        return min(super().horizon, self.method.horizon)

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the iteration with the inner one tuned to the spectrum."""
        s = nonnegative("eigenvalues", eigenvalues)
        return self.with_params(method=self.method.tuned_to(s + self.shift))

    def with_step(self, step: float) -> Self:
        """Return the iteration with another step."""
        return self.with_params(method=self.method.with_step(step))

    def update(self, k: int) -> Update:
        """Return iteration k = 1, 2, ... of the loop, in units of ε."""
        return self.method.update(k)


@dataclass(frozen=True)
class Decayed(Wrapped):
    r"""An iteration with weight decay, which adds a ridge penalty to its loss.

    .. math:: \varphi_w(s, t) = \varphi(s + w, t), \qquad
        g_w(s, t) = \frac{w + s\,g(s + w, t)}{s + w}

    It is torch's ``weight_decay`` for the loss ‖y - Xβ‖²/(2n), and ends at ridge with penalty w.

    Parameters
    ----------
    method : Iteration
        An iteration, or an average of one.
    weight_decay : float
        The w above.

    Examples
    --------
    >>> from stoptime.methods.iterations import GradientDescent
    >>> decayed = Decayed(GradientDescent(0.5), weight_decay=0.1)
    >>> round(float(decayed.gain(0.4, 1000)), 6)  # 1/(0.4 + 0.1)
    2.0
    """

    weight_decay: float
    name: ClassVar[str] = "decayed"
    reaches_least_squares: ClassVar[bool] = False
    shift: ClassVar[Any] = property(lambda decayed: decayed.weight_decay)
    runs_steps: ClassVar[Any] = _inner("runs_steps")

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("weight_decay", self.weight_decay)

    @property
    def limit(self) -> float:
        """The smallest εs for which the iteration diverges: decay adds to every eigenvalue."""
        return max(self.method.limit - self.epsilon * self.weight_decay, 0.0)

    def update(self, k: int) -> Update:
        """Return iteration k = 1, 2, ... of the loop, whose gradient is that with the penalty."""
        update = self.method.update(k)
        return update._replace(pull=update.pull + self.epsilon * self.weight_decay)

    def steps(self, gradient: Gradient, start: Any) -> Iterator[Any]:
        """Yield the results after 0, 1, 2, ... iterations on any loss."""
        if not isinstance(self.method, Averaged):
            return super().steps(gradient, start)
        # the decay of an average is the average with decay
        decayed = self.with_params(method=self.method.method)
        return self.method.with_params(method=decayed).steps(gradient, start)

    def _mean(self, s: Array, g: Array) -> Array:
        return (self.weight_decay + s * g) / (s + self.weight_decay)

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return self._mean(s, self.method._shrinkage(s + self.weight_decay, t))

    def _gain(self, s: Array, t: Array) -> Array:
        return self.method._gain(s + self.weight_decay, t)

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ at the end, which is ridge unless a schedule ends before."""
        g, gain = self.method.limits(s + self.weight_decay)
        return self._mean(s, g), gain


@dataclass(frozen=True)
class VanishingDecay(Wrapped):
    r"""An iteration whose weight decay vanishes along the run, so that the run follows ridge.

    .. math:: w_k = c/t_k^2, \qquad t_k = \sqrt\varepsilon\,k

    Without momentum w_k is c/t_k with t_k = εk. With c = 4 and the best stop, Nesterov's method has
    at most 1.06 times the Bayes risk of ridge in every direction.

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

    def update(self, k: int) -> Update:
        """Return iteration k = 1, 2, ... of the loop with its decay."""
        # a few steps later than c/t², so that the first steps do not overshoot
        late = k + self.decay ** (1 / self.time_power)
        return self.method.update(k)._replace(pull=self.decay / late**self.time_power)


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
        An iteration, which may have weight decay. For :class:`stoptime.GradientFlow` an
        :class:`AveragedFlow` is returned.
    kind : {"polyak", "tail", "exponential"}, default="polyak"
        "polyak" is the mean of β_1, ..., β_k, torch's ``AveragedModel``, and "tail" that of the
        iterates after k/2. "exponential" starts at β_1 and then takes
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
    limits: ClassVar[Any] = _inner("limits")
    """Averages converge to the limit of the iterates."""

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

    def steps(self, gradient: Gradient, start: Any) -> Iterator[Any]:
        """Yield the results after 0, 1, 2, ... iterations on any loss."""
        run = self.method.steps(gradient, start)
        yield next(run)
        # a second run at half the speed drops what leaves the window, so no history is stored
        behind = islice(self.method.steps(gradient, start), 1, None)
        total: Any = 0.0
        for k, value in enumerate(run, 1):
            if self.kind == "exponential":
                share = 1.0 if k == 1 else 1 - self.decay
                total = total + share * (value - total)
                yield total
                continue
            total = total + value
            if self.kind == "tail" and k % 2 == 0:
                total = total - next(behind)
            yield total / (k - k // 2 if self.kind == "tail" else k)
