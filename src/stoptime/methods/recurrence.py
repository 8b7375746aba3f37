"""The loop that runs every iteration, from its coefficients and the eigenvalues."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.methods.base import (
    Checks,
    Filter,
    Method,
    concrete,
    evaluated,
    longest_step,
    unless,
)
from stoptime.methods.schedules import LONGEST_SEARCH, Schedule, largest_value, scheduled
from stoptime.methods.special import piecewise
from stoptime.support.arrays import TINY, Array, slices
from stoptime.support.checks import iteration_numbers, positive_number

Indices = NDArray[np.intp]
Value = TypeVar("Value")
Gradient = Callable[[Any], Any]

MOST_ITERATIONS = 10**7  # they take a minute or more: a later stop is a slip, or means infinity
STEP_ROUNDING = 1e-9  # by which a step may exceed 1/L where 1/L itself is allowed


class Update(NamedTuple):
    """One step of the loop: the coefficients, and how the value follows from v and the gradient."""

    momentum: float
    lookahead: float
    weight: float  # of ε
    stride: float = 1.0  # the factor of v
    direct: float = 0.0  # the factor of the gradient itself, as in torch's version of Nesterov
    pull: float = 0.0  # what a ridge penalty adds to εs


def at_stops(run: Iterator[Value], stops: Iterable[int]) -> Iterator[Value]:
    """Yield the values of a run after so many steps, for stops that ascend or are repeated."""
    steps = enumerate(run)
    k, value = next(steps)
    for stop in stops:
        while k < stop:
            k, value = next(steps)
        yield value


class Iteration(Filter):
    r"""A filter whose stops are the iterations of one run, which gives all earlier ones as well.

    .. math:: \hat\beta_k = V\varphi_k(S)z, \qquad \varphi_k \text{ a polynomial of degree } k - 1
    """

    whole_stops: ClassVar[bool] = True
    stop_meaning: ClassVar[str] = "iterations"

    @property
    @abstractmethod
    def step(self) -> float | str | Schedule:
        """The step of the gradient: a number, "auto" or a schedule."""

    @property
    @abstractmethod
    def limit(self) -> float:
        """The smallest εs for which the iteration diverges."""

    @abstractmethod
    def update(self, k: int) -> Update:
        """Return iteration k = 1, 2, ... of the loop, in units of ε."""

    @abstractmethod
    def as_flow(self) -> Filter:
        """Return a flow that oscillates like the iteration, at time ``pace`` times k.

        If the iteration ``follows_flow``, its iterates tend to this flow as the step shrinks.
        """

    def with_step(self, step: float) -> Self:
        """Return the iteration with another step."""
        return self.with_params(step=step)

    def steps(self, gradient: Gradient, start: Any) -> Iterator[Any]:
        """Yield the results after 0, 1, 2, ... iterations, on whatever device the start is.

        ``gradient`` is that of any loss, times ε, and a penalty pulls towards the start.
        """
        value = start
        move = 0 * start
        for k in count(1):
            yield value
            momentum, lookahead, weight, stride, direct, pull = self.update(k)
            ahead = value
            if lookahead:
                ahead = lookahead * move
                ahead += value
            slope = gradient(ahead)
            if pull:
                slope += pull * (ahead - start)
            if direct:
                value = value - direct * slope
            slope *= weight
            move *= momentum
            move -= slope
            value = value + (move if stride == 1 else stride * move)

    def run(self, s: Array, start: Array) -> Iterator[Array]:
        """Yield g where ``start`` is 1, and φ/ε where it is 0, after 0, 1, 2, ... iterations.

        The shrinkage has no source term, and the gain over ε one of 1. Neither is computed from the
        other, so neither suffers from cancellation.
        """
        x = self.epsilon * s
        source = 1 - start

        def gradient(point: Array) -> Array:
            slope = x * point
            slope -= source  # in place: a step costs little more than its memory traffic
            return slope

        shape = np.broadcast_shapes(x.shape, start.shape)
        return self.steps(gradient, np.broadcast_to(start, shape))

    @property
    def follows_flow(self) -> bool:
        """Whether late stops are those of :meth:`as_flow`."""
        return False

    @property
    def runs_steps(self) -> bool:
        """Whether stop k costs k steps of a recurrence; False where there is a formula."""
        return True

    @property
    def epsilon(self) -> float:
        """The step as a number; the largest one of a schedule."""
        return largest_value(concrete("step", self.step))

    @property
    def horizon(self) -> float:
        """The latest stop that a search looks at: a run ends with its schedule."""
        length = self.step.length if isinstance(self.step, Schedule) else np.inf
        return min(LONGEST_SEARCH, length)

    @property
    def ends_at(self) -> float:
        """The length of a schedule that ends with zero steps, and otherwise infinity."""
        if isinstance(self.step, Schedule) and self.step.values[-1] == 0:
            return self.step.total
        return np.inf

    @property
    def reaches_least_squares(self) -> bool:
        """Whether the run goes on forever."""
        return bool(np.isinf(self.ends_at))

    @property
    def largest_eigenvalue(self) -> float:
        """The smallest eigenvalue for which the iteration diverges in the end."""
        final = self.step.values[-1] if isinstance(self.step, Schedule) else self.epsilon
        return self.limit / final if final else np.inf

    def check_convergence(self, largest: float) -> None:
        """Raise a ValueError if the step is too long for the largest eigenvalue.

        A schedule may be too long for a while, but not in the end, and no direction may grow to
        more than a hundred times its signal on the way.
        """
        if self.epsilon * largest < self.limit:
            return
        most = self.limit / largest
        if largest >= self.largest_eigenvalue:
            raise ValueError(
                f"{self} diverges: for the largest eigenvalue L = {largest:g} its step must be "
                f'below {most:g}. Take a smaller step, or step="auto".'
            )
        if _growth(self, largest) > 100:
            raise ValueError(
                f"{self} grows too far while its step is too long: a direction of the largest "
                f"eigenvalues, up to L = {largest:g}, reaches more than 100 times its signal. Only "
                f"steps below {most:g} are stable: lower the peak, or make it shorter."
            )

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the iteration with "auto" as numbers; refuse it if it diverges there."""
        tuned = super().tuned_to(eigenvalues)
        tuned.check_convergence(float(np.max(eigenvalues, initial=0)))
        return tuned

    def limits(self, s: Array) -> tuple[Array, Array]:
        """Return g and φ at the end: those of least squares, or of the last iterate."""
        if np.isinf(self.ends_at):
            return super().limits(s)
        end = np.array(self.ends_at)
        return self._shrinkage(s, end), self._gain(s, end)

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return _after(self, s, t, 1.0)

    def _gain(self, s: Array, t: Array) -> Array:
        return self.epsilon * _after(self, s, t, 0.0)

    def gain(self, s: ArrayLike, t: ArrayLike) -> Array:
        """Return φ(s, k), from a recurrence of its own."""
        return evaluated(self, self._gain, 1, s, t)

    def filters(self, s: Array, stops: Array, height: int) -> Iterator[tuple[Array, Array]]:
        """Yield g and φ as :meth:`Filter.filters` does, all from one run where steps are run."""
        last = stops.max() if stops.size else np.inf
        if not self.runs_steps or np.isinf(last) or np.any(np.diff(stops) < 0):
            for part in slices(len(stops), height):
                yield self.shrinkage(s[:, None], stops[part]), self.gain(s[:, None], stops[part])
            return
        values = at_stops(self.run(s, np.array([[1.0], [0.0]])), iteration_numbers(stops))
        for part in slices(len(stops), height):
            table = np.array([next(values) for _ in stops[part]])
            yield table[:, 0].T, self.epsilon * table[:, 1].T


def _after(method: Iteration, s: Array, t: Array, start: float) -> Array:
    """Return the values at broadcast eigenvalues and stops; refuse more than MOST_ITERATIONS."""
    stops = iteration_numbers(np.minimum(t, method.ends_at))
    distinct, which = np.unique(stops, return_inverse=True)
    if distinct.max(initial=0) > MOST_ITERATIONS:
        raise ValueError(
            f"A stop after {distinct[-1]} iterations is beyond the limit of "
            f"{MOST_ITERATIONS}: use stop=inf, a larger step, or the flow."
        )
    run = method.run(s.ravel(), np.array(start))
    table = np.array([*at_stops(run, distinct)]).reshape(len(distinct), s.size)
    return np.asarray(table[which.reshape(stops.shape), np.arange(s.size).reshape(s.shape)])


@lru_cache(maxsize=64)
def _growth(method: Iteration, largest: float) -> float:
    """Return the largest |g| on the way, over all eigenvalues up to ``largest``."""
    # eigenvalues that lie as densely at both ends as the oscillations of polynomials
    shares = np.sin(np.pi * np.arange(1, 65) / 128) ** 2
    run = method.run(largest * shares, np.array(1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        steps = zip(range(int(method.horizon) + 1), run, strict=False)
        return max(float(np.abs(g).max()) for _, g in steps)


def tuned_without_rows(method: Method, eigenvalues: ArrayLike, scale: float) -> Method:
    """Return the method tuned so that it converges where eigenvalues grow by up to ``scale``."""
    tuned = method.tuned_to(eigenvalues)
    if not isinstance(method, Iteration) or not isinstance(tuned, Iteration):
        return tuned
    largest = float(np.max(eigenvalues, initial=0))
    if method.step != "auto" or largest * scale < tuned.largest_eigenvalue:
        return tuned
    # an automatic step is the reciprocal of the largest eigenvalue and what decay adds to it
    return method.with_step(1 / (1 / tuned.epsilon + largest * (scale - 1))).tuned_to(eigenvalues)


@dataclass(frozen=True)
class Recurrence(Iteration):
    r"""An iteration that is given by three numbers at each step: momentum m, lookahead e, weight w.

    .. math:: \beta_k = \beta_{k-1} + m\,d
        + w\,\varepsilon\,\frac{X^T}{n}\bigl(y - X(\beta_{k-1} + e\,d)\bigr),
        \qquad d = \beta_{k-1} - \beta_{k-2}.

    Where the step follows a schedule, d is replaced by :math:`\varepsilon_k v_{k-1}`, as torch does
    it, with the sum of past gradients :math:`v_k = m v_{k-1} + w g_k`. A new iteration gives its
    coefficients, its flow, and the largest εs for which it converges. Its first parameter is the
    step: a number, a schedule of :mod:`stoptime.schedules`, or a function of k.
    """

    step: float | str | Schedule = "auto"
    _checks: ClassVar[Checks] = {"step": unless("auto", scheduled(positive_number))}
    _automatic: ClassVar[Any] = {"step": longest_step}

    @abstractmethod
    def coefficients(self, k: int) -> tuple[float, float, float]:
        """Return momentum, lookahead and weight of iteration k = 1, 2, ..."""

    @property
    def has_momentum(self) -> bool:
        """Whether any step has momentum; without it the iteration is gradient descent."""
        return getattr(self, "momentum", None) != 0

    @property
    def universal_guarantee(self) -> bool:
        """As for its flow; :mod:`stoptime.bounds` proves the constants."""
        return self.follows_flow and self.as_flow().universal_guarantee

    @property
    def time_power(self) -> int:  # type: ignore[override]
        """2 with momentum, and 1 without."""
        return 2 if self.has_momentum else 1

    @property
    def follows_flow(self) -> bool:
        """Whether steps and momenta are constant."""
        return not any(isinstance(value, Schedule) for value in vars(self).values())

    @property
    def runs_steps(self) -> bool:
        """Whether there is momentum or a schedule; otherwise g is a power."""
        return self.has_momentum or not self.follows_flow

    @property
    def horizon(self) -> float:
        """The latest stop that a search looks at; a power costs the same for any stop."""
        return super().horizon if self.runs_steps else 10**12

    @property
    def pace(self) -> float:
        """The time of the flow that one iteration takes: √ε with momentum, and ε without."""
        return float(self._mean_step ** (1 / self.time_power))

    @property
    def _mean_step(self) -> float:
        return self.step.mean if isinstance(self.step, Schedule) else self.epsilon

    def _largest_gain(self, t: Array) -> Array:
        # k steps with momenta and weights up to one gain at most k(k + 1)/2 ≤ k² times the step,
        # for all eigenvalues for which the largest step is stable
        return (self.pace * t) ** self.time_power * (self.epsilon / self._mean_step)

    def update(self, k: int) -> Update:
        """Return iteration k = 1, 2, ... of the loop, in units of ε."""
        momentum, lookahead, weight = self.coefficients(k)
        # v is a sum of gradients, so that a step of zero pauses the run without stopping it
        ratio = self.step(k) / self.step.largest if isinstance(self.step, Schedule) else 1.0
        return Update(momentum, ratio * lookahead, weight, ratio)

    def _shrinkage(self, s: Array, t: Array) -> Array:
        if self.runs_steps:
            return super()._shrinkage(s, t)
        # a power of 1 - x would multiply its rounding by k
        cases = [
            (self.epsilon * s < 0.5, lambda x, k: np.exp(k * np.log1p(-x))),
            (self.epsilon * s >= 0.5, lambda x, k: (1 - x) ** k),
        ]
        return piecewise(cases, self.epsilon * s, iteration_numbers(t).astype(np.float64))

    def _gain(self, s: Array, t: Array) -> Array:
        if self.runs_steps:
            return super()._gain(s, t)
        x = np.maximum(self.epsilon * s, TINY)  # for which the formula gives k, as at zero
        cases = [
            (x < 0.5, lambda x, k: -np.expm1(k * np.log1p(-x)) / x),
            (x >= 0.5, lambda x, k: (1 - (1 - x) ** k) / x),
        ]
        return self.epsilon * piecewise(cases, x, iteration_numbers(t).astype(np.float64))
