"""Iterations made from another one: with weight decay, and averages of the iterates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Filter, Method
from stoptime.methods.flows import AveragedFlow, GradientFlow
from stoptime.methods.iterations import Nesterov
from stoptime.methods.optimal import OptimalIteration
from stoptime.methods.recurrence import MOST_ITERATIONS, Iteration, Recurrence, Update, iterates
from stoptime.methods.schedules import LONGEST_SEARCH, Schedule
from stoptime.support.arrays import Array
from stoptime.support.checks import fraction_below_one, instance_of, nonnegative, positive_number


@dataclass(frozen=True)
class Wrapped(Iteration):
    """An iteration made from another one, with the same step."""

    method: Iteration

    def __post_init__(self) -> None:
        given: Any = instance_of(self.method, Method)  # callers without types give anything
        if not isinstance(given, Iteration):
            raise TypeError(
                f"{type(self).__name__} needs an iteration, such as Nesterov(); got {given!r}."
            )
        object.__setattr__(self, "method", given)

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

    @property
    def step(self) -> float | str | Schedule:
        """The step of the iteration."""
        return self.method.step

    @property
    def limit(self) -> float:
        """The smallest εs for which the iteration diverges."""
        return self.method.limit

    @property
    def time_power(self) -> int:  # type: ignore[override]
        """1 where the stop scales like 1/penalty, 2 where it scales like 1/sqrt(penalty)."""
        return self.method.time_power

    @property
    def pace(self) -> float:
        """The time of the flow that one iteration takes."""
        return self.method.pace

    @property
    def horizon(self) -> float:
        """The latest stop that a search looks at."""
        return min(LONGEST_SEARCH, self.method.horizon)

    def as_flow(self) -> Filter:
        """Return a flow with the oscillations of the iteration, which this one does not follow."""
        return self.method.as_flow()

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the iteration with the inner one tuned to the spectrum."""
        s = nonnegative("eigenvalues", eigenvalues)
        return self.with_params(method=self.method.tuned_to(s + self.shift))

    def tuned_without_rows(self, eigenvalues: ArrayLike, scale: float) -> Self:
        """Return the iteration tuned so that it still converges after removing any row."""
        s = nonnegative("eigenvalues", eigenvalues)
        return self.with_params(method=self.method.tuned_without_rows(s + self.shift, scale))

    def in_units_of(self, penalty: float) -> Self:
        """Return the iteration for eigenvalues divided by ``penalty``."""
        return self.with_params(method=self.method.in_units_of(penalty))

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
        if self.decoupled:
            _ = self._inner

    @property
    def _inner(self) -> Recurrence:
        """The iteration whose coefficients decay apart from the gradient."""
        if isinstance(self.method, Recurrence) and not isinstance(self.method, OptimalIteration):
            return self.method
        raise ValueError(
            f"decoupled=True needs an iteration without a penalty, and {self.method} is none: take "
            "decoupled=False."
        )

    @property
    def runs_steps(self) -> bool:
        """Whether stop k costs k steps of a recurrence."""
        return self.decoupled or self.method.runs_steps

    @property
    def shift(self) -> float:
        """What decay adds to every eigenvalue where convergence is concerned."""
        if not self.decoupled:
            return self.weight_decay
        # A direction diverges by changing its sign in every step. The characteristic polynomial of
        # the step is zero at -1 first where εs = limit·(1 - εw/2), or later with a lookahead.
        return self.weight_decay * self.method.limit / 2

    def in_units_of(self, penalty: float) -> Self:
        """Return the method for eigenvalues, and a decay, that are divided by ``penalty``."""
        method = self.method.in_units_of(penalty)
        return self.with_params(method=method, weight_decay=self.weight_decay / penalty)

    def run(self, s: Array, start: Array) -> Iterator[Array]:
        """Yield g where ``start`` is 1, and φ/ε where it is 0, after 0, 1, 2, ... iterations."""
        if self.decoupled:
            inner = self._inner
            share = inner.epsilon * self.weight_decay

            def update(k: int) -> Update:
                return inner.update(k)._replace(decay=share * inner.step_ratio(k))

            return iterates(update, inner.epsilon * s, start)
        run = self.method.run(s + self.weight_decay, start)
        return (np.where(start == 1, self._decayed(value, s), value) for value in run)

    def _decayed(self, g: Array, s: Array) -> Array:
        """Return the shrinkage from that of the inner method at s + w: a mean of g and one."""
        return np.asarray((self.weight_decay + s * g) / (s + self.weight_decay))

    def _shrinkage(self, s: Array, t: Array) -> Array:
        if self.decoupled:
            return super()._shrinkage(s, t)
        return self._decayed(self.method._shrinkage(s + self.weight_decay, t), s)

    def _gain(self, s: Array, t: Array) -> Array:
        if self.decoupled:
            return super()._gain(s, t)
        return self.method._gain(s + self.weight_decay, t)

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ at the end, which is ridge unless a schedule ends before."""
        if not self.decoupled:
            g, gain = self.method.limits(s + self.weight_decay)
            return self._decayed(g, s), gain
        if np.isfinite(self.ends_at):
            return super().limits(s)
        inner = self._inner
        m, lookahead, weight, stride, direct, _ = inner.update(MOST_ITERATIONS)
        x = inner.epsilon * s
        # in the end v = weight·gradient/(1 - m), and the step of v balances the decay
        pull = stride * weight + direct * (1 - m)
        share = inner.step_ratio(MOST_ITERATIONS) * inner.epsilon * self.weight_decay
        decay = share * (1 - m + x * lookahead * weight)
        return decay / (pull * x + decay), inner.epsilon * pull / (pull * x + decay)


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
        if not isinstance(self.method, Recurrence):
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
        x = self.method.epsilon * s
        value = start + 0 * x
        move = 0 * value
        for k in count(1):
            yield value
            update = self.method.update(k)  # type: ignore[attr-defined]
            ahead = value + update.lookahead * move
            # a coefficient that decays to zero has the gain 0 and the shrinkage 1
            slope = x * ahead - (1 - start) + self.pull(k) * (ahead - start)
            move = update.momentum * move - update.weight * slope
            value = value + update.stride * move - update.direct * slope

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ at the end, where the decay has vanished."""
        return self.method.limits(s)


@dataclass(frozen=True)
class Averaged(Wrapped):
    r"""The average of the iterates so far, in place of the last one.

    .. math:: \bar\beta_k = \sum_{j=1}^k w_j\beta_j, \qquad \bar g_k = \sum_j w_j g_j, \qquad
        \bar\varphi_k = \sum_j w_j\varphi_j

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

    References
    ----------
    Polyak, Juditsky (1992), Acceleration of stochastic approximation by averaging. Mücke, Neu,
    Rosasco (2019), Beating SGD saturation with tail-averaging and minibatching.

    Examples
    --------
    >>> from stoptime.methods.iterations import GradientDescent
    >>> Averaged(GradientDescent(0.5)).shrinkage(1.0, 2).item()  # (1/2 + 1/4)/2
    0.375
    >>> Averaged(GradientFlow())
    AveragedFlow(kind='polyak')
    """

    kind: Literal["polyak", "tail", "exponential"] = "polyak"
    decay: float = 0.999
    name: ClassVar[str] = "averaged"
    ends_at: ClassVar[float] = np.inf
    """The average moves on where the iterates no longer do."""

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

    @property
    def reaches_least_squares(self) -> bool:
        """Whether the average of the iterates converges to least squares as they do."""
        return self.method.reaches_least_squares

    def run(self, s: Array, start: Array) -> Iterator[Array]:
        """Yield g where ``start`` is 1, and φ/ε where it is 0, after 0, 1, 2, ... iterations."""
        run = self.method.run(s, start)
        yield next(run)
        if self.kind == "exponential":
            average = next(run).copy()
            yield average
            for value in run:
                average = self.decay * average + (1 - self.decay) * value
                yield average
        elif self.kind == "tail":
            yield from _means(run, islice(self.method.run(s, start), 1, None))
        else:
            yield from _means(run)

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ at the end: averages converge to the limit of the iterates."""
        return self.method.limits(s)


def _means(run: Iterator[Array], behind: Iterator[Array] | None = None) -> Iterator[Array]:
    """Yield the mean of the values so far; of their last half, given the same run ``behind``."""
    total: Any = 0.0
    for k, value in enumerate(run, 1):
        total = total + value
        # a second run at half the speed drops what leaves the window, so no history is stored
        if behind is not None and k % 2 == 0:
            total -= next(behind)
        yield total / (k if behind is None else k - k // 2)
