r"""Many steps of a linear map at once: its powers from few products, by Chebyshev polynomials.

.. math:: x^k = \sum_d w_{kd}\,T_d(2x - 1), \quad w_{kd} \propto \binom{2k}{k - d}, \qquad
    \sum_{d > D} w_{kd} \le 2e^{-D^2/k}

for eigenvalues x in [0, 1]. For eigenvalues in [-1, 1] it is T_d(x), with k in place of 2k. The
weights are those of a binomial distribution: they are positive, and their sum is one. So k steps
need about 6√k products. See Sachdeva, Vishnoi (2014), Faster algorithms via approximation theory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING

import numpy as np

from stoptime.support.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from numpy.typing import NDArray

    from stoptime.support.arrays import Array

    Vector = tuple[Array, ...]
    Steps = NDArray[np.intp]
    Taken = Generator[Array, None, tuple[int, Array]]

TAIL = 37.0  # minus the logarithm of the weights that are left out: they are below rounding
MOST_CANCELLATION = 100.0  # by which the terms of a sum may exceed it
RESULTS_AT_ONCE = 32
MOST_TERM_ENTRIES = 2**27  # of all terms of a leap: a gigabyte


def degree_for(steps: int, *, positive: bool) -> int:
    """Return the degree above which all weights of so many steps are below rounding."""
    return min(steps, ceil(sqrt((1 if positive else 2) * TAIL * steps)))


def weights(steps: Iterable[int], degree: int, *, positive: bool) -> Array:
    """Return the weights of T_0, ..., T_degree in x^k, a row for every number k of steps."""
    # x = cos²(θ/2) in [0, 1] is an even power of a cosine, of which the even harmonics are needed
    stride = 2 if positive else 1
    rows = []
    for k in steps:
        power = stride * k
        harmonics = np.arange(power % 2, stride * degree + 1, 2)
        # products of ratios of binomial coefficients: no weight loses digits by cancellation
        ratios = (power - harmonics[:-1]) / (power + harmonics[:-1] + 2)
        found = np.cumprod(np.append(1.0, np.maximum(ratios, 0)))
        found[harmonics > 0] *= 2
        row = np.zeros(degree + 1)
        row[harmonics // stride] = found / found.sum()
        rows.append(row)
    return np.array(rows)


@dataclass(frozen=True)
class Leaps:
    """Many steps that are all alike, of a matrix and of further arrays that are known for every k.

    ``advance`` is one step of all of them: a linear map, whose eigenvalues are in [0, 1] if
    ``positive``, and otherwise in [-1, 1]. It may have a constant part, because T_d(1) = 1.
    ``complete`` adds the further arrays to the matrix after k steps. The results are ``matrices``,
    or else diagonals. Long work shows its progress if ``verbose``.
    """

    advance: Callable[[Vector], Vector]
    complete: Callable[[int, Array], Vector]
    positive: bool
    matrices: bool
    verbose: bool

    def run(self, matrix: Array, stops: Steps) -> Iterator[Array]:
        """Yield the matrix after each of these numbers of steps, in ascending order."""
        last = int(stops.max(initial=0))
        done = 0
        reach = last
        # the square of the number of terms that have a place is about the length of a leap
        longest = max(1, int((MOST_TERM_ENTRIES / matrix.size) ** 2 / (2 * TAIL)))
        if 0 in stops:
            yield matrix
        while done < last:
            length = min(reach, longest, last - done)
            inside = stops[(stops > done) & (stops <= done + length)] - done
            start = self.complete(done, matrix)
            if 2 * degree_for(length, positive=self.positive) < length:
                taken, matrix = yield from self._leap(start, length, inside)
            else:
                taken, matrix = yield from self._walk(start, length, inside)
            done += taken
            # after a leap that was too long the next ones are short, and grow again
            reach = max(2 * taken, 1)

    def _walk(self, vector: Vector, length: int, stops: Steps) -> Taken:
        """Take one step after the other."""
        for k in progress(range(1, length + 1), "steps", self.verbose):
            vector = self.advance(vector)
            if k in stops:
                yield vector[0]
        return length, vector[0]

    def _leap(self, start: Vector, length: int, stops: Steps) -> Taken:
        """Take as many steps at once as lose no digits: all of them, a half, a quarter or none."""
        degree = degree_for(length, positive=self.positive)
        terms = np.empty((degree + 1, *start[0].shape))
        found = self._terms(start, degree)
        for d in progress(range(degree + 1), "products", self.verbose):
            terms[d] = next(found)
        ends = length // 2 ** np.arange(3)
        times = np.union1d(stops, ends)
        shares = weights(times, degree, positive=self.positive)
        # rounding is relative to the terms; where they cancel, a shorter leap begins closer
        diagonals = np.diagonal(terms, axis1=1, axis2=2)
        sizes = shares @ np.abs(diagonals).sum(axis=1)
        fine = sizes <= MOST_CANCELLATION * (shares @ diagonals.sum(axis=1))
        taken = int(ends[np.isin(ends, times[np.logical_and.accumulate(fine)])].max(initial=0))
        wanted = shares[np.isin(times, stops) & (times <= taken)]
        results = terms if self.matrices else diagonals
        # a few at a time: new memory for all of them would cost more than the products
        for first in range(0, len(wanted), RESULTS_AT_ONCE):
            yield from np.tensordot(wanted[first : first + RESULTS_AT_ONCE], results, 1)
        return taken, np.tensordot(shares[times == taken][0], terms, 1) if taken else start[0]

    def _terms(self, start: Vector, degree: int) -> Iterator[Array]:
        """Yield the matrix of T_0, ..., T_degree of the map, applied to the start."""
        before = start
        now = self._centred(start)
        yield before[0]
        for _ in range(1, degree):
            yield now[0]
            ahead = self._centred(now)
            before, now = now, tuple(2 * new - old for new, old in zip(ahead, before, strict=True))
        yield now[0]

    def _centred(self, vector: Vector) -> Vector:
        """Return the map, or 2x - 1 of it where its eigenvalues are positive, of a vector."""
        moved = self.advance(vector)
        if not self.positive:
            return moved
        return tuple(2 * new - old for new, old in zip(moved, vector, strict=True))
