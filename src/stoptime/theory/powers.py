r"""Many steps of a linear map at once: its powers from few products, by Chebyshev polynomials.

.. math:: x^k = \sum_d w_{kd}\,T_d(2x - 1), \quad w_{kd} \propto \binom{2k}{k - d}, \qquad
    \Bigl|\sum_{d > D} w_{kd} T_d\Bigr| \le 2e^{-D^2/k}

for eigenvalues x in [0, 1], and the same with T_d(x), k/2 and D²/2k for eigenvalues in [-1, 1]. The
weights are those of a binomial distribution: positive, and their sum is one. So k steps need about
6√k products. See Sachdeva, Vishnoi (2014), Faster algorithms via approximation theory.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from stoptime.support.arrays import Array

    Vector = tuple[Array, ...]

TAIL = 37.0  # -log of the weights left out: 2e⁻³⁷ is below rounding


def degree_for(steps: int, *, positive: bool) -> int:
    """Return the degree from which on all weights of so many steps are below rounding.

    ``positive`` says that all eigenvalues are in [0, 1], and not only in [-1, 1].
    """
    return min(steps, ceil(sqrt((1 if positive else 2) * TAIL * steps)))


def weights(steps: Iterable[int], degree: int, *, positive: bool) -> Array:
    """Return the weights of T_0, ..., T_degree in x^k, a row for every number k of steps."""
    rows = []
    # x = cos²(θ/2) in [0, 1] is an even power of a cosine, of which the even harmonics are needed
    stride = 2 if positive else 1
    for k in steps:
        power = stride * k
        harmonics = np.arange(power % 2, stride * degree + 1, 2)
        # ratios of binomial coefficients: their rounding adds up, and nothing cancels
        ratios = (power - harmonics[:-1]) / (power + harmonics[:-1] + 2)
        found = np.cumprod(np.append(1.0, np.maximum(ratios, 0)))
        found[harmonics > 0] *= 2
        row = np.zeros(degree + 1)
        row[harmonics // stride] = found / found.sum()
        rows.append(row)
    return np.array(rows)


def chebyshev(
    advance: Callable[[Vector], Vector], start: Vector, degree: int, *, positive: bool
) -> Iterator[Vector]:
    """Yield T_0, ..., T_degree of a map, applied to a vector that consists of several arrays.

    The map may be affine: the constant is a further coordinate that stays one, and T_d(1) = 1.
    """
    yield start
    before = start
    now = _moved(advance, start, positive)
    for _ in range(1, degree):
        yield now
        ahead = _moved(advance, now, positive)
        before, now = now, tuple(2 * new - old for new, old in zip(ahead, before, strict=True))
    yield now


def _moved(advance: Callable[[Vector], Vector], vector: Vector, positive: bool) -> Vector:
    """Return the map, or 2x - 1 of it where its eigenvalues are positive, applied to a vector."""
    moved = advance(vector)
    if not positive:
        return moved
    return tuple(2 * new - old for new, old in zip(moved, vector, strict=True))
