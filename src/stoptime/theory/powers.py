r"""Many steps of a linear map at once: its powers from few products, by Chebyshev polynomials.

.. math:: x^k = \sum_d w_{kd}\,T_d(2x - 1), \quad w_{kd} \propto \binom{2k}{k - d}, \qquad
    \sum_{d > D} w_{kd} \le 2e^{-D^2/k}

for eigenvalues x in [0, 1]. For eigenvalues in [-1, 1] it is T_d(x), with k in place of 2k. The
weights are those of a binomial distribution: they are positive, and their sum is one. So k steps
need about 6√k products. See Sachdeva, Vishnoi (2014), Faster algorithms via approximation theory.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Array
from stoptime.support.progress import progress

Vector = tuple[Array, ...]
Steps = NDArray[np.intp]

TAIL = 37.0  # minus the logarithm of the weights that are left out: they are below rounding
MOST_CANCELLATION = 100.0  # by which the terms of a sum may exceed it
RESULTS_AT_ONCE = 32
MOST_TERM_ENTRIES = 2**27  # of all terms of a leap: a gigabyte


def weights(steps: Steps, degree: int, stride: int) -> Array:
    """Return the weights of T_0, ..., T_degree in x^k, a row for every number k of steps.

    The stride is 2 for eigenvalues in [0, 1], and 1 for eigenvalues in [-1, 1].
    """
    # x = cos²(θ/2) in [0, 1] is an even power of a cosine, with even harmonics alone
    power = stride * steps
    lag = 2 // stride
    table = np.zeros((degree + 1, len(steps)))
    table[0] = power % 2 == 0
    table[1:lag] = power % 2
    for d in range(lag, degree + 1):
        # ratios of binomial coefficients: no weight loses digits by cancellation
        below = stride * (d - lag)
        table[d] = table[d - lag] * np.maximum(power - below, 0) / (power + below + 2)
        table[d] *= 1 if below else 2
    return np.asarray((table / table.sum(axis=0)).T)


@dataclass(frozen=True)
class Leaps:
    """Many steps that are all alike, of a matrix and of further arrays that are known for every k.

    ``advance`` is one step of all of them, linear but for a constant, which stays: T_d(1) = 1.
    ``complete`` adds the further arrays to the matrix after k steps. See :func:`weights` for the
    ``stride``.
    """

    advance: Callable[[Vector], Vector]
    complete: Callable[[int, Array], Vector]
    stride: int
    verbose: bool

    def degree(self, steps: int) -> int:
        """Return the degree above which all weights of so many steps are below rounding."""
        return min(steps, ceil(sqrt(2 * TAIL / self.stride * steps)))

    def run(self, matrix: Array, stops: Steps) -> Iterator[Array]:
        """Yield the matrix after each of these numbers of steps, in ascending order."""
        last = int(stops.max(initial=0))
        # the square of the number of terms that have a place is about the length of a leap
        longest = max(1, int((MOST_TERM_ENTRIES / matrix.size) ** 2 * self.stride / (2 * TAIL)))
        reach = longest
        done = 0
        if 0 in stops:
            yield matrix
        while done < last:
            length = min(reach, longest, last - done)
            inside = stops[(stops > done) & (stops <= done + length)] - done
            vector = self.complete(done, matrix)
            taken = length
            if 2 * self.degree(length) < length:
                taken, matrix = yield from self._leap(vector, length, inside)
            else:
                for k in progress(range(1, length + 1), "steps", self.verbose):
                    vector = self.advance(vector)
                    if k in inside:
                        yield vector[0]
                matrix = vector[0]
            done += taken
            # after a leap that was too long the next ones are short, and grow again
            reach = max(2 * taken, 1)

    def _leap(
        self, start: Vector, length: int, stops: Steps
    ) -> Generator[Array, None, tuple[int, Array]]:
        """Take as many steps at once as lose no digits: all of them, a half, a quarter or none."""
        degree = self.degree(length)
        terms = np.empty((degree + 1, *start[0].shape))
        found = self._terms(start)
        for d in progress(range(degree + 1), "products", self.verbose):
            terms[d] = next(found)
        ends = length // 2 ** np.arange(3)
        times = np.union1d(stops, ends)
        shares = weights(times, degree, self.stride)
        # rounding is relative to the terms; where they cancel, a shorter leap begins closer
        diagonals = np.diagonal(terms, axis1=1, axis2=2)
        sizes = shares @ np.abs(diagonals).sum(axis=1)
        fine = sizes <= MOST_CANCELLATION * (shares @ diagonals.sum(axis=1))
        taken = int(ends[np.isin(ends, times[np.logical_and.accumulate(fine)])].max(initial=0))
        wanted = shares[np.isin(times, stops) & (times <= taken)]
        # a few at a time: new memory for all of them would cost more than the products
        for first in range(0, len(wanted), RESULTS_AT_ONCE):
            yield from np.tensordot(wanted[first : first + RESULTS_AT_ONCE], terms, 1)
        return taken, np.tensordot(shares[times == taken][0], terms, 1) if taken else start[0]

    def _terms(self, now: Vector) -> Iterator[Array]:
        """Yield the matrix of T_0, T_1, ... of the map, applied to the start."""
        before = now
        first = True
        while True:
            yield now[0]
            centred = self.advance(now)
            if self.stride == 2:
                centred = tuple(2 * new - old for new, old in zip(centred, now, strict=True))
            if not first:
                centred = tuple(2 * new - old for new, old in zip(centred, before, strict=True))
            before, now, first = now, centred, False
