r"""The one loop that runs every iteration: coefficients, and the spectrum.

An iteration is three numbers at each step k, momentum m, lookahead e and weight w:

.. math:: \beta_k = \beta_{k-1} + m\,d + w\,\varepsilon\,\frac{X^T}{n}\bigl(y - X(\beta_{k-1} + e\,d)\bigr),
    \qquad d = \beta_{k-1} - \beta_{k-2}.

In an eigendirection, with x = εs, both the shrinkage and the gain over ε follow it: the shrinkage from 1
without a source, the gain from 0 with a source of one. Neither is made from the other, so neither cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.methods.base import Array

Places = NDArray[np.intp]

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
    value = np.array(np.broadcast_to(start, np.broadcast_shapes(x.shape, start.shape)), dtype=np.float64)
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
    wanted = iter(enumerate(stops))
    place, stop = next(wanted)
    for k, value in enumerate(iterates(schedule, x, np.array(start), np.array(source))):
        if k == stop:
            out[place] = value
            place, stop = next(wanted, (-1, -1))
            if place < 0:
                break
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
            f"{distinct[-1]} iterations are more than {MOST_STEPS}: give inf for the limit, or use the flow."
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
        found.append(np.asarray(np.round(np.linspace(low, high, int(min(high - low, most)) + 1)), np.float64))
    return np.setdiff1d(np.concatenate(found), finite)
