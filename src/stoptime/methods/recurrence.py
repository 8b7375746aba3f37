r"""The one loop that runs every iteration: coefficients, and the spectrum.

An iteration is three numbers at each step k, momentum m, lookahead e and weight w:

.. math:: \beta_k = \beta_{k-1} + m\,d + w\,\varepsilon\,\frac{X^T}{n}\bigl(y - X(\beta_{k-1} + e\,d)\bigr),
    \qquad d = \beta_{k-1} - \beta_{k-2}.

In an eigendirection, with x = εs, both the shrinkage and the gain over ε follow it: the shrinkage from 1
without a source, the gain from 0 with a source of one. Neither is made from the other, so neither cancels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.methods.base import Method, concrete
from stoptime.support.arrays import Array
from stoptime.support.checks import iteration_numbers, nonnegative, positive_number

Places = NDArray[np.intp]

LONGEST_SEARCH = 20_000  # iterations among which a stop is looked for; any may still be asked for
MOST_STEPS = 10**7  # a minute or more: beyond it a stop is a slip, or means infinity
BLOCK = 2**20  # entries of one table, iterations by eigenvalues


class Coefficients(NamedTuple):
    """One step of an iteration.

    Attributes
    ----------
    momentum : float
        How much of the last move is made again.
    lookahead : float
        How much of it is made before the gradient is taken.
    weight : float
        By what the step is multiplied.
    """

    momentum: float
    lookahead: float
    weight: float


Schedule = Callable[[int], Coefficients]


def iterates(schedule: Schedule, x: Array, start: Array, source: Array) -> Iterator[Array]:
    """Yield the values after 0, 1, 2, ... steps, for ever; the array is the same, overwritten.

    Parameters
    ----------
    schedule : callable
        The coefficients of step k = 1, 2, ...
    x : array
        Eigenvalues times the step.
    start, source : arrays that broadcast to one shape with x
        Value before the first step, and what is learned from: 1 and 0 for the shrinkage, 0 and 1 for
        the gain.

    Examples
    --------
    >>> descent = iterates(lambda k: Coefficients(0, 0, 1), np.array([0.5]), np.ones(1), np.zeros(1))
    >>> [float(next(descent)[0]) for _ in range(4)]
    [1.0, 0.5, 0.25, 0.125]
    """
    value = np.array(
        np.broadcast_to(start, np.broadcast_shapes(x.shape, start.shape)), dtype=np.float64
    )
    move, slope = np.zeros_like(value), np.empty_like(value)
    k = 0
    while True:
        yield value
        k += 1
        momentum, lookahead, weight = schedule(k)
        np.multiply(move, lookahead, out=slope)
        slope += value
        slope *= x
        slope -= source
        slope *= weight
        move *= momentum
        move -= slope
        value += move


def tabulate(schedule: Schedule, x: Array, stops: Places, start: float, source: float) -> Array:
    """Return the values at sorted distinct stops, of shape (n_stops, n_eigenvalues), in one run."""
    out = np.empty((len(stops), len(x)))
    run = enumerate(iterates(schedule, x, np.array(start), np.array(source)))
    for row, stop in zip(out, stops, strict=True):
        row[...] = next(value for k, value in run if k == stop)
    return out


def filtered(schedule: Schedule, x: Array, stops: Places, start: float, source: float) -> Array:
    """Return the values at broadcast eigenvalues and stops: O(1) per eigenvalue and step, none stored twice.

    Raises
    ------
    ValueError
        Above ``MOST_STEPS`` iterations.
    """
    shape = np.broadcast_shapes(x.shape, stops.shape)
    if 0 in shape:
        return np.empty(shape)
    distinct, which = np.unique(stops, return_inverse=True)
    if distinct[-1] > MOST_STEPS:
        raise ValueError(
            f"A stop after {distinct[-1]} iterations is beyond {MOST_STEPS}: give stop=inf for the limit, a "
            "longer step, or the flow."
        )
    if len(distinct) * x.size <= max(BLOCK, int(np.prod(shape))):
        table = tabulate(schedule, x.ravel(), distinct, start, source)
        return np.asarray(table[which.reshape(stops.shape), np.arange(x.size).reshape(x.shape)])
    # each eigenvalue has stops of its own: pairs in blocks, so that no table outgrows its bound
    own_x, own_stops = np.broadcast_to(x, shape).ravel(), np.broadcast_to(stops, shape).ravel()
    height = int(np.sqrt(BLOCK))
    parts = [slice(i, i + height) for i in range(0, len(own_x), height)]
    blocks = [filtered(schedule, own_x[part], own_stops[part], start, source) for part in parts]
    return np.concatenate(blocks).reshape(shape)


def closer_stops(stops: NDArray[np.floating[Any]], places: Places, most: int = 64) -> Array:
    """Return whole numbers between the neighbours of the given places of a sorted grid, evenly thinned.

    Examples
    --------
    >>> closer_stops(np.array([0.0, 1.0, 5.0, 8.0]), np.array([2]))
    array([2., 3., 4., 6., 7.])
    """
    finite = stops[np.isfinite(stops)].astype(np.float64)
    found: list[Array] = [np.empty(0)]
    for place in np.unique(places[places < len(finite)]):
        low, high = finite[max(place - 1, 0)], finite[min(place + 1, len(finite) - 1)]
        found.append(
            np.asarray(np.round(np.linspace(low, high, int(min(high - low, most)) + 1)), np.float64)
        )
    return np.setdiff1d(np.concatenate(found), finite)


@dataclass(frozen=True)
class Iteration(Method):
    r"""A method that moves step by step: its stops are whole numbers, the iterations k.

    .. math:: \hat\beta_k = V\varphi_k(S)z, \qquad \varphi_k \text{ a polynomial of degree } k - 1

    A new iteration gives its coefficients, the flow it follows as its step shrinks, the time one
    iteration takes there, and the largest εs for which it converges.
    """

    step: float | str = "auto"
    whole_stops: ClassVar[bool] = True
    runs_steps: ClassVar[bool] = True
    stop_meaning: ClassVar[str] = "iterations"

    def __post_init__(self) -> None:
        if self.step != "auto":
            object.__setattr__(self, "step", positive_number("step", self.step))

    @abstractmethod
    def coefficients(self, k: int) -> Coefficients:
        """Return momentum, lookahead and weight of iteration k = 1, 2, ..."""

    @abstractmethod
    def as_flow(self) -> Method:
        """Return the flow that the iterates follow, at time ``pace`` times k."""

    @property
    @abstractmethod
    def limit(self) -> float:
        """The εs from which on the iteration diverges."""

    @property
    def largest_eigenvalue(self) -> float:
        """The eigenvalue from which on the iteration diverges."""
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

    @property
    def horizon(self) -> float:
        """How many iterations a search for the best stop looks at, at most."""
        return LONGEST_SEARCH

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the iteration with "auto" made concrete, or say why it would diverge on this spectrum."""
        s = nonnegative("eigenvalues", eigenvalues)
        largest = float(s.max(initial=0))
        tuned = self
        if self.step == "auto":
            tuned = replace(self, step=1 / largest if largest > 0 else 1.0)
        tuned = tuned._with_momentum(s)
        tuned.check_convergence(largest)
        return tuned

    def tuned_without_rows(self, eigenvalues: ArrayLike, scale: float) -> Self:
        """Return the iteration tuned so that it converges too when left-out rows scale the eigenvalues."""
        tuned = self.tuned_to(eigenvalues)
        largest = float(np.max(eigenvalues, initial=0)) * scale
        if self.step == "auto" and tuned.epsilon * largest >= tuned.limit:
            return replace(self, step=1 / largest).tuned_to(eigenvalues)
        return tuned

    def check_convergence(self, largest: float) -> None:
        """Refuse a step with which directions up to the largest eigenvalue would diverge."""
        if self.epsilon * largest >= self.limit:
            raise ValueError(
                f"{self} diverges: for the largest eigenvalue L = {largest:g} its step must be below "
                f'{self.limit / largest:g} ({self.limit:.4g}/L). Take a smaller step, or step="auto".'
            )

    def _with_momentum(self, s: Array) -> Self:  # noqa: ARG002 - for methods whose momentum adapts
        return self

    def in_units_of(self, penalty: float) -> Self:
        """Return the iteration for eigenvalues divided by ``penalty``; iterations are counted as before."""
        return replace(self, step=self.epsilon * penalty)

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return filtered(self.coefficients, self.epsilon * s, iteration_numbers(t), 1.0, 0.0)

    def _gain(self, s: Array, t: Array) -> Array:
        return self.epsilon * filtered(
            self.coefficients, self.epsilon * s, iteration_numbers(t), 0.0, 1.0
        )

    def filters(self, s: Array, stops: Array, height: int) -> Iterator[tuple[Array, Array]]:
        """Yield g and φ in tables as :meth:`Method.filters` does, all from one run where stops ascend."""
        if np.any(np.diff(stops) < 0) or not stops.size or np.isinf(stops[-1]):
            yield from super().filters(s, stops, height)
            return
        start, source = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]])
        run = iterates(self.coefficients, self.epsilon * s, start, source)
        k, last = -1, iteration_numbers(stops)
        for first in range(0, len(last), height):
            chunk = last[first : first + height]
            table = np.empty((len(chunk), 2, len(s)))
            for row, stop in zip(table, chunk, strict=True):
                while k < stop:
                    value = next(run)
                    k += 1
                row[...] = value
            yield table[:, 0].T, self.epsilon * table[:, 1].T
