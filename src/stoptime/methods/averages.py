"""Combinators: weight decay, and averages of the iterates, of any method with a filter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Method
from stoptime.methods.recurrence import AVERAGES, MOST_ITERATIONS, Iteration, Stepped, iterates
from stoptime.support.arrays import Array
from stoptime.support.checks import fraction_below_one, instance_of, nonnegative, positive_number


def _inner(name: str) -> Any:
    """Return a property that is that of the inner method."""
    return property(lambda self: getattr(self.method, name), doc=f"``{name}`` of the method.")


@dataclass(frozen=True)
class Combinator(Stepped):
    """A method made from another one, whose properties it has unless it says otherwise."""

    method: Method
    order = _inner("order")
    whole_stops = _inner("whole_stops")
    oscillates = _inner("oscillates")
    oscillates_at_limit = _inner("oscillates_at_limit")
    stop_meaning = _inner("stop_meaning")
    pace = _inner("pace")
    ends_at = _inner("ends_at")
    is_tuned = _inner("is_tuned")
    step = _inner("step")
    epsilon = _inner("epsilon")

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", instance_of(self.method, Method))
        if not isinstance(self.method, Method):
            raise TypeError(f"{self.name} needs a method; got {self.method!r}.")
        if not self.method.has_filter or self.method.counts_eigenvalues:
            reason = "counts eigenvalues" if self.method.has_filter else "depends on the response"
            raise ValueError(
                f"{type(self).__name__} needs a filter of the eigenvalue alone, and that of "
                f"{self.method} {reason}."
            )

    @property
    def shift(self) -> float:
        """What is added to every eigenvalue where convergence is concerned."""
        return 0.0

    @property
    def possible_eigenvalues(self) -> tuple[float, float]:
        """The range of eigenvalues for which a calibration holds where no spectrum is given."""
        return 0.0, max(self.method.possible_eigenvalues[1] - self.shift, 0.0)

    @property
    def largest_eigenvalue(self) -> float:
        """The smallest eigenvalue for which the method diverges."""
        return max(self.method.largest_eigenvalue - self.shift, 0.0)

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the combination with the inner method tuned to the spectrum."""
        s = nonnegative("eigenvalues", eigenvalues)
        return replace(self, method=self.method.tuned_to(s + self.shift))

    def tuned_without_rows(self, eigenvalues: ArrayLike, scale: float) -> Self:
        """Return the combination tuned so that it still converges after removing any row."""
        s = nonnegative("eigenvalues", eigenvalues)
        return replace(self, method=self.method.tuned_without_rows(s + self.shift, scale))

    def check_convergence(self, largest: float) -> None:
        """Raise a ValueError if the method diverges for eigenvalues up to ``largest``."""
        self.method.check_convergence(largest + self.shift)

    def in_units_of(self, penalty: float) -> Self:
        """Return the combination for eigenvalues divided by ``penalty``."""
        return replace(self, method=self.method.in_units_of(penalty))

    def largest_gain(self, stop: ArrayLike) -> Any:
        """Return a bound of the gain: no average and no decay makes it larger."""
        return self.method.largest_gain(stop)

    def visible_until(self, level: float) -> tuple[float, float]:
        """Return the phase and the time of the inner method."""
        return self.method.visible_until(level)


@dataclass(frozen=True)
class Decayed(Combinator):
    r"""A method with weight decay, which adds a ridge penalty to its loss.

    .. math:: \varphi_w(s, t) = \varphi(s + w, t), \qquad
        g_w(s, t) = \frac{w + s\,g(s + w, t)}{s + w}

    It is torch's ``weight_decay`` for the loss ‖y - Xβ‖²/(2n). The path ends at ridge with penalty
    w, not at least squares.

    Parameters
    ----------
    method : Method
        A flow, an iteration, or a combination of them, which has a filter.
    weight_decay : float
        The w above.
    decoupled : bool, default=False
        Whether the coefficients decay apart from the gradient and its momentum, as in AdamW:
        β_k = (1 - ε_k·w)β_{k-1} + ε_k·v_k. Only for iterations; without momentum both are equal.
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
        if self.decoupled and not self.method.decouples:
            raise ValueError(
                f"decoupled=True needs an iteration without a penalty, and {self.method} is none: "
                "take decoupled=False, which has a filter for every method."
            )

    @property
    def runs_steps(self) -> bool:  # type: ignore[override]
        """Whether a stop t costs t steps of a recurrence."""
        return self.decoupled or self.method.runs_steps

    @property
    def averages(self) -> tuple[str, ...]:
        """The kinds of averages that :class:`stoptime.Averaged` can take."""
        return AVERAGES if self.decoupled else self.method.averages

    @property
    def horizon(self) -> float:
        """The latest stop that a search looks at."""
        return min(super().horizon, self.method.horizon) if self.decoupled else self.method.horizon

    @property
    def follows_flow(self) -> bool:
        """Whether late stops are those of the flow."""
        return not self.decoupled and self.method.follows_flow

    @property
    def shift(self) -> float:
        """What decay adds to every eigenvalue where convergence is concerned."""
        if not self.decoupled:
            return self.weight_decay
        # A direction diverges by changing its sign in every step. The characteristic polynomial of
        # the step is zero at -1 first where εs = limit·(1 - εw/2), or later with a lookahead.
        return self.weight_decay * cast("Iteration", self.method).limit / 2

    def in_units_of(self, penalty: float) -> Self:
        """Return the method for eigenvalues, and a decay, that are divided by ``penalty``."""
        method = self.method.in_units_of(penalty)
        return replace(self, method=method, weight_decay=self.weight_decay / penalty)

    def as_flow(self) -> Method:
        """Return the flow of the method, with the same decay."""
        return Decayed(self.method.as_flow(), self.weight_decay)

    def settled_at(self, s: float, level: float) -> float:
        """Return the time from which on the path stays near its end."""
        return self.method.settled_at(s + self.weight_decay, level)

    def mean_shrinkage(self, s: Array, first: Array, last: Array) -> Array:
        """Return the mean of g over the times from ``first`` to ``last``."""
        return self._decayed(self.method.mean_shrinkage(s + self.weight_decay, first, last), s)

    def mean_gain(self, s: Array, first: Array, last: Array) -> Array:
        """Return the mean of φ over the times from ``first`` to ``last``."""
        return self.method.mean_gain(s + self.weight_decay, first, last)

    def run(self, s: Array, start: Array) -> Iterator[Array]:
        """Yield g where ``start`` is 1, and φ/ε where it is 0, after 0, 1, 2, ... iterations."""
        if self.decoupled:
            inner = cast("Iteration", self.method)
            share = inner.epsilon * self.weight_decay

            def update(k: int) -> Any:
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

    def _limits(self, s: Array) -> tuple[Array, Array]:
        if not self.decoupled:
            g, gain = self.method._limits(s + self.weight_decay)
            return self._decayed(g, s), gain
        inner = cast("Iteration", self.method)
        m, lookahead, weight, stride, direct, _ = inner.update(MOST_ITERATIONS)
        x = inner.epsilon * s
        # in the end v = weight·gradient/(1 - m), and the step of v balances the decay
        pull = stride * weight + direct * (1 - m)
        share = inner.step_ratio(MOST_ITERATIONS) * inner.epsilon * self.weight_decay
        decay = share * (1 - m + x * lookahead * weight)
        return decay / (pull * x + decay), inner.epsilon * pull / (pull * x + decay)


@dataclass(frozen=True)
class Averaged(Combinator):
    r"""The average of the iterates so far, in place of the last one.

    .. math:: \bar\beta_k = \sum_{j=1}^k w_j\beta_j, \qquad \bar g_k = \sum_j w_j g_j, \qquad
        \bar\varphi_k = \sum_j w_j\varphi_j

    Parameters
    ----------
    method : Method
        An iteration, a combination of iterations, or gradient flow, whose average is over time.
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
    """

    kind: Literal["polyak", "tail", "exponential"] = "polyak"
    decay: float = 0.999
    name: ClassVar[str] = "averaged"
    averages: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction_below_one("decay", self.decay)
        if self.kind not in AVERAGES:
            words = '", "'.join(AVERAGES)
            raise ValueError(f'kind must be one of "{words}"; got {self.kind!r}.')
        if self.kind not in self.method.averages:
            raise ValueError(
                f"The {self.kind} average of {self.method} has no closed form: average an "
                "iteration, for example Averaged(Nesterov())."
            )

    @property
    def runs_steps(self) -> bool:  # type: ignore[override]
        """Whether the average is over iterations and not over time."""
        return self.method.whole_stops

    @property
    def horizon(self) -> float:
        """The latest stop that a search looks at."""
        return min(super().horizon, self.method.horizon) if self.whole_stops else np.inf

    @property
    def reaches_least_squares(self) -> bool:
        """Whether the average of the iterates converges to least squares as they do."""
        return self.method.reaches_least_squares

    @property
    def follows_flow(self) -> bool:
        """Whether this is an average over time."""
        return not self.method.whole_stops

    @property
    def ends_at(self) -> float:
        """Infinity: the average moves on where the iterates no longer do."""
        return np.inf

    @property
    def universal_guarantee(self) -> bool:
        """Whether it is gradient flow without decay: g is at most that of ridge at stop t/2."""
        return self.method.universal_guarantee and not self.method.whole_stops

    def as_flow(self) -> Method:
        """Return a flow with the oscillations of the iteration; the average does not follow it."""
        return self.method.as_flow() if self.whole_stops else self

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

    def _shrinkage(self, s: Array, t: Array) -> Array:
        if self.whole_stops:
            return super()._shrinkage(s, t)
        return self.method.mean_shrinkage(s, self._first(t), t)

    def _gain(self, s: Array, t: Array) -> Array:
        if self.whole_stops:
            return super()._gain(s, t)
        return self.method.mean_gain(s, self._first(t), t)

    def _limits(self, s: Array) -> tuple[Array, Array]:
        # averages converge to the limit of the iterates
        end = np.array(self.method.ends_at)
        if np.isinf(end):
            return self.method._limits(s)
        return self.method._shrinkage(s, end), self.method._gain(s, end)

    def _first(self, t: Array) -> Array:
        """Return the time at which the average begins."""
        return t / 2 if self.kind == "tail" else np.zeros_like(t)


def _means(run: Iterator[Array], behind: Iterator[Array] | None = None) -> Iterator[Array]:
    """Yield the mean of the values so far; of their last half, given the same run ``behind``."""
    total: Any = 0.0
    for k, value in enumerate(run, 1):
        total = total + value
        # a second run at half the speed drops what leaves the window, so no history is stored
        if behind is not None and k % 2 == 0:
            total -= next(behind)
        yield total / (k if behind is None else k - k // 2)
