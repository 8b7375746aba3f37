r"""The eigenvalues that remain when one row is left out, for many rows at once.

With the row in the eigenbasis, scaled to unit variance, :math:`u_j^2` its share in direction j and
:math:`u_0^2 = 1 - \sum_j u_j^2` what the columns do not reach, the remaining eigenvalues λ solve

.. math:: \sum_{j=0}^k \frac{u_j^2}{s_j - \lambda} = 0, \qquad s_0 = 0,

one between each two neighbouring poles. All residues are positive and no difference is taken, so every
root is found to full relative accuracy as its offset from the nearer pole.

References
----------
Li (1994), Solving secular equations stably and efficiently. LAPACK Working Note 89.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Array

Places = NDArray[np.intp]

MAX_STEPS = 1000  # a handful as a rule; hundreds between close pairs of eigenvalues
CHUNK_NUMBERS = 2**17  # one megabyte: what a step touches stays in the cache
CONVERGED = 4e-16  # of the sum of the terms' sizes
LEAST_RESIDUE = (
    1e-40  # a direction in which the row has no share: its root then is the pole, regularly
)


@dataclass(frozen=True)
class Downdate:
    r"""Roots of the secular equation of many rows.

    Attributes
    ----------
    eigenvalues : array of shape (n_rows, k)
        The λ, ascending.
    gaps : array of shape (n_rows, k, k)
        :math:`s_j - \lambda_l` at ``[row, l, j - 1]``, each to full relative accuracy.
    slopes : array of shape (n_rows, k)
        :math:`\sum_j u_j^2/(s_j-\lambda_l)^2`.
    """

    eigenvalues: Array
    gaps: Array
    slopes: Array


def downdate(eigenvalues: Array, shares: Array, rest: Array) -> Downdate:
    """Solve the secular equations of many rows.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        Positive, strictly ascending.
    shares : array of shape (n_rows, k)
        The u_j², non-negative.
    rest : array of shape (n_rows,)
        The u_0², zero where the row's leverage is one.

    Returns
    -------
    Downdate

    Examples
    --------
    >>> found = downdate(np.array([1.0, 2.0]), np.array([[0.25, 0.25]]), np.array([0.5]))
    >>> found.eigenvalues.round(6)
    array([[0.609612, 1.640388]])
    """
    poles = np.concatenate([[0.0], eigenvalues])
    n_rows, k = shares.shape
    residues = np.maximum(np.column_stack([rest, shares]), LEAST_RESIDUE)
    remaining, slopes, gaps = np.empty(n_rows * k), np.empty(n_rows * k), np.empty((n_rows * k, k))
    height = max(1, CHUNK_NUMBERS // (k + 1))
    for start in range(0, n_rows * k, height):
        row, left = np.divmod(np.arange(start, min(start + height, n_rows * k)), k)
        own, here = residues[row], slice(start, start + height)
        origin, offset = _roots(poles, own, left)
        remaining[here] = poles[origin] + offset
        all_gaps = (poles - poles[origin, None]) - offset[:, None]
        slopes[here] = (own / all_gaps**2).sum(axis=1)
        gaps[here] = all_gaps[:, 1:]
    return Downdate(
        remaining.reshape(n_rows, k), gaps.reshape(n_rows, k, k), slopes.reshape(n_rows, k)
    )


def _roots(poles: Array, residues: Array, left: Places) -> tuple[Places, Array]:
    """Return the nearer pole and the offset from it of the root between poles ``left`` and ``left + 1``."""
    width = poles[left + 1] - poles[left]
    pairs = np.arange(len(left))
    to_middle = (poles - poles[left, None]) - (width / 2)[
        :, None
    ]  # which close poles do not round away
    to_middle[pairs, left], to_middle[pairs, left + 1] = -width / 2, width / 2
    terms = residues / to_middle
    in_left_half = terms.sum(axis=1) > 0
    near = np.where(in_left_half, left, left + 1)
    own, other = residues[pairs, near], residues[pairs, 2 * left + 1 - near]
    # the two nearest poles exactly, the others as they act on the middle
    side = np.where(in_left_half, 1.0, -1.0)
    background = side * (terms.sum(axis=1) - terms[pairs, left] - terms[pairs, left + 1])
    distance = _nearer_root(background, own, other, width)
    distance = np.clip(distance, width * 1e-60, width / 2)
    steps = poles - poles[near, None]
    return near, side * _polish(steps * side[:, None], residues, near, distance, width)


def _nearer_root(background: Array, own: Array, other: Array, width: Array) -> Array:
    """Solve ``background - own/d + other/(width - d) = 0`` for d between 0 and ``width``."""
    b = background * width + own + other
    c = own * width
    root = np.sqrt(np.maximum(b * b - 4 * background * c, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(b > 0, 2 * c / (b + root), (b - root) / (2 * background))


def _polish(steps: Array, residues: Array, near: Places, distance: Array, width: Array) -> Array:
    """Iterate with the residue of the nearer pole held exact; quadratic, and guarded by a bracket."""
    low, high = np.zeros_like(distance), width / 2
    active = np.arange(len(distance))
    for _ in range(MAX_STEPS):
        d = distance[active]
        gaps = steps[active] - d[:, None]
        terms = residues[active] / gaps
        value, slope = terms.sum(axis=1), (terms / gaps).sum(axis=1)
        high[active] = np.where(value > 0, np.minimum(high[active], d), high[active])
        low[active] = np.where(value < 0, np.maximum(low[active], d), low[active])
        moves = np.abs(value) > CONVERGED * np.abs(terms).sum(axis=1)
        active = active[moves]
        if active.size == 0:
            break
        own = residues[active, near[active]]
        new = _step(value[moves], slope[moves], d[moves], own, width[active])
        inside = (new > low[active]) & (new < high[active])
        distance[active] = np.where(inside, new, _between(low[active], high[active]))
    return distance


def _between(low: Array, high: Array) -> Array:
    """Halve the bracket: on a logarithmic scale while it is wide, on a linear one when it is narrow."""
    return np.where(low > high / 4, (low + high) / 2, np.sqrt(np.maximum(low, high / 2**12) * high))


def _step(value: Array, slope: Array, d: Array, own: Array, width: Array) -> Array:
    """Fit background and far pole to value and slope at d, the near pole exact; return the model's root."""
    far = (slope - own / (d * d)) * (width - d) ** 2
    far = np.maximum(far, 0)
    background = value + own / d - far / (width - d)
    return _nearer_root(background, own, far, width)
