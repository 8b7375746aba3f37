r"""The loop that runs every iteration, from its coefficients and the eigenvalues.

An iteration is defined by three numbers at each step k, momentum m, lookahead e and weight w:

.. math:: \beta_k = \beta_{k-1} + m\,d
    + w\,\varepsilon\,\frac{X^T}{n}\bigl(y - X(\beta_{k-1} + e\,d)\bigr),
    \qquad d = \beta_{k-1} - \beta_{k-2}.

In an eigendirection, with x = εs, the shrinkage and the gain over ε follow this recurrence: the
shrinkage starts at 1 without a source term, the gain at 0 with a source term of 1. Neither is
computed from the other, so neither suffers from cancellation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.methods.base import Checks, Method, concrete
from stoptime.support.arrays import Array
from stoptime.support.checks import iteration_numbers, nonnegative, positive_number

Places = NDArray[np.intp]

LONGEST_SEARCH = 20_000  # iterations among which a stop is looked for; users may ask for more
MOST_ITERATIONS = 10**7  # they take a minute or more: a later stop is a slip, or means infinity
MOST_TABLE_ENTRIES = 2**20  # of one table, iterations by eigenvalues


class Coefficients(NamedTuple):
    """Coefficients of one step: momentum, lookahead, and the weight that multiplies ε."""

    momentum: float
    lookahead: float
    weight: float


Schedule = Callable[[int], Coefficients]


def iterates(schedule: Schedule, x: Array, start: Array) -> Iterator[Array]:
    """Yield the values after 0, 1, 2, ... steps without end, each time in the same array."""
    source = 1 - start
    shape = np.broadcast_shapes(x.shape, start.shape)
    value = np.array(np.broadcast_to(start, shape), dtype=np.float64)
    move = np.zeros_like(value)
    slope = np.empty_like(value)
    for k in count(1):
        yield value
        momentum, lookahead, weight = schedule(k)
        # in place: a step costs little more than its memory traffic
        np.multiply(move, lookahead, out=slope)
        slope += value
        slope *= x
        slope -= source
        slope *= weight
        move *= momentum
        move -= slope
        value += move


def filtered(schedule: Schedule, x: Array, stops: Places, start: float) -> Array:
    """Return the values at broadcast eigenvalues and stops; refuse more than MOST_ITERATIONS."""
    shape = np.broadcast_shapes(x.shape, stops.shape)
    if 0 in shape:
        return np.empty(shape)
    distinct, which = np.unique(stops, return_inverse=True)
    if distinct[-1] > MOST_ITERATIONS:
        raise ValueError(
            f"A stop after {distinct[-1]} iterations is beyond the limit of "
            f"{MOST_ITERATIONS}: use stop=inf, a larger step, or the flow."
        )
    if len(distinct) * x.size <= max(MOST_TABLE_ENTRIES, int(np.prod(shape))):
        table = np.empty((len(distinct), x.size))
        run = enumerate(iterates(schedule, x.ravel(), np.array(start)))
        for row, stop in zip(table, distinct, strict=True):
            row[...] = next(value for k, value in run if k == stop)
        return np.asarray(table[which.reshape(stops.shape), np.arange(x.size).reshape(x.shape)])
    # Each eigenvalue has stops of its own. Their table would be square, so it is cut into blocks.
    own_x = np.broadcast_to(x, shape).ravel()
    own_stops = np.broadcast_to(stops, shape).ravel()
    height = int(np.sqrt(MOST_TABLE_ENTRIES))
    parts = [slice(i, i + height) for i in range(0, len(own_x), height)]
    blocks = [filtered(schedule, own_x[part], own_stops[part], start) for part in parts]
    return np.concatenate(blocks).reshape(shape)


def closer_stops(stops: NDArray[np.floating[Any]], places: Places, most: int = 64) -> Array:
    """Return at most ``most`` whole numbers around each of some indices of a sorted grid."""
    finite = stops[np.isfinite(stops)].astype(np.float64)
    found = np.empty(0)
    for place in np.unique(places[places < len(finite)]):
        low, high = finite[[max(place - 1, 0), min(place + 1, len(finite) - 1)]]
        around = np.linspace(low, high, int(min(high - low, most)) + 1)
        found = np.append(found, np.round(around))
    return np.setdiff1d(found, finite)


@dataclass(frozen=True)
class Iteration(Method):
    r"""An iterative method: its stops are whole numbers, the iterations k.

    .. math:: \hat\beta_k = V\varphi_k(S)z, \qquad \varphi_k \text{ a polynomial of degree } k - 1

    A new iteration gives its coefficients, the flow it follows as its step shrinks, the time of
    one iteration in that flow, and the largest εs for which it converges.
    """

    step: float | str = "auto"
    whole_stops: ClassVar[bool] = True
    runs_steps: ClassVar[bool] = True
    stop_meaning: ClassVar[str] = "iterations"
    horizon: ClassVar[float] = LONGEST_SEARCH
    _checks: ClassVar[Checks] = {"step": positive_number}

    @abstractmethod
    def coefficients(self, k: int) -> Coefficients:
        """Return momentum, lookahead and weight of iteration k = 1, 2, ..."""

    @abstractmethod
    def as_flow(self) -> Method:
        """Return the flow that the iterates follow, at time ``pace`` times k."""

    @property
    @abstractmethod
    def limit(self) -> float:
        """The smallest εs for which the iteration diverges."""

    @property
    def largest_eigenvalue(self) -> float:
        """The smallest eigenvalue for which the iteration diverges."""
        return self.limit / self.epsilon

    @property
    def possible_eigenvalues(self) -> tuple[float, float]:
        """From 0 to 1/step: an automatic step has its largest eigenvalue there."""
        return 0.0, 1 / self.epsilon

    @property
    def epsilon(self) -> float:
        """The step as a number."""
        return concrete("step", self.step)

    @property
    def pace(self) -> float:
        """The time of the flow that one iteration takes: √ε."""
        return float(np.sqrt(self.epsilon))

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the iteration with "auto" as numbers; refuse it if it diverges there."""
        s = nonnegative("eigenvalues", eigenvalues)
        largest = float(s.max(initial=0))
        tuned = self
        if self.step == "auto":
            tuned = replace(self, step=1 / largest if largest > 0 else 1.0)
        tuned = tuned._with_momentum(s)
        tuned.check_convergence(largest)
        return tuned

    def tuned_without_rows(self, eigenvalues: ArrayLike, scale: float) -> Self:
        """Return the iteration tuned so that it still converges after removing any row."""
        tuned = self.tuned_to(eigenvalues)
        largest = float(np.max(eigenvalues, initial=0)) * scale
        if self.step == "auto" and tuned.epsilon * largest >= tuned.limit:
            return replace(self, step=1 / largest).tuned_to(eigenvalues)
        return tuned

    def check_convergence(self, largest: float) -> None:
        """Raise a ValueError if the step is too long for the largest eigenvalue."""
        if self.epsilon * largest >= self.limit:
            raise ValueError(
                f"{self} diverges: for the largest eigenvalue L = {largest:g} its step must be "
                f"below {self.limit / largest:g} ({self.limit:.4g}/L). Take a smaller step, or "
                'step="auto".'
            )

    def _with_momentum(self, s: Array) -> Self:  # noqa: ARG002 - for methods whose momentum adapts
        return self

    def in_units_of(self, penalty: float) -> Self:
        """Return the iteration for eigenvalues divided by ``penalty``; stops stay the same."""
        return replace(self, step=self.epsilon * penalty)

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return filtered(self.coefficients, self.epsilon * s, iteration_numbers(t), 1.0)

    def _gain(self, s: Array, t: Array) -> Array:
        gain = filtered(self.coefficients, self.epsilon * s, iteration_numbers(t), 0.0)
        return self.epsilon * gain

    def filters(self, s: Array, stops: Array, height: int) -> Iterator[tuple[Array, Array]]:
        """Yield g and φ as :meth:`Method.filters` does, all from one run where that is cheaper."""
        last = stops.max() if stops.size else np.inf
        # A formula in place of steps is cheaper where few of the iterations are wanted.
        sparse = not self.runs_steps and last > 4 * len(stops)
        if sparse or np.isinf(last) or np.any(np.diff(stops) < 0):
            yield from super().filters(s, stops, height)
            return
        start = np.array([[1.0], [0.0]])
        run = enumerate(iterates(self.coefficients, self.epsilon * s, start))
        k, value = next(run)
        numbers = iteration_numbers(stops)
        for first in range(0, len(numbers), height):
            chunk = numbers[first : first + height]
            table = np.empty((len(chunk), 2, len(s)))
            for row, stop in zip(table, chunk, strict=True):
                while k < stop:
                    k, value = next(run)
                row[...] = value
            yield table[:, 0].T, self.epsilon * table[:, 1].T
