r"""Interpolation between stops: values at a few of them determine the values at all others.

On a grid of a hundred stops a shrinkage spans far fewer dimensions. There are few stops
:math:`t_m`, the interpolation nodes, with

.. math:: g(s, t) = \sum_m M_m(t)\, g(s, t_m) \qquad\text{for all } 0 \le s \le L,

and everything linear in the shrinkage follows in the same way. Sums of squares and of fourth
powers of such values, residuals above all, follow from a few more nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stoptime.methods.base import Method
from stoptime.support.arrays import TINY, Array

UNLEARNED = 1e-3  # of 1/t or 1/t²: at smaller eigenvalues the shrinkage is one


@dataclass(frozen=True)
class Interpolation:
    """Indices of the nodes and of the other stops, and the matrix M of shape (others, nodes)."""

    nodes: NDArray[np.intp]
    others: NDArray[np.intp]
    matrix: Array

    @classmethod
    def trivial(cls, count: int) -> Interpolation:
        """Return the interpolation for which every stop is a node."""
        return cls(np.arange(count), np.arange(0), np.empty((0, count)))

    @classmethod
    def of_powers(
        cls, method: Method, stops: Array, largest: float, accuracy: float, *, fourths: bool
    ) -> Interpolation:
        r"""Return the interpolation of sums of squares, and of fourth powers if they are wanted.

        With :math:`g(\cdot, t) = QR_t` values linear in the shrinkage are :math:`R_t^T\xi`, and
        their squares are linear in :math:`R_t\otimes R_t`. Stops at zero and infinity are nodes.
        """
        between = np.flatnonzero((stops > 0) & np.isfinite(stops))
        if method.counts_eigenvalues or between.size == 0:
            return cls.trivial(len(stops))
        columns = _thinned(_shrinkages(method, stops[between], largest), accuracy)[1]
        inner, squares = _thinned(_products(columns), accuracy)
        if fourths:
            inner = _thinned(np.vstack([squares, _products(squares)]), accuracy)[0]
        ends = np.setdiff1d(np.arange(len(stops)), between)
        nodes = np.concatenate([between[inner.nodes], ends])
        matrix = np.hstack([inner.matrix, np.zeros((len(inner.others), len(ends)))])
        return cls(nodes, between[inner.others], matrix)

    def extended(self, values: Array) -> Array:
        """Return values at all stops from those at the nodes; stops are the first axis."""
        out = np.empty((len(self.nodes) + len(self.others), *values.shape[1:]))
        out[self.nodes] = values
        if self.others.size:
            out[self.others] = np.tensordot(self.matrix, values, axes=1)
        return out


def _shrinkages(method: Method, stops: Array, largest: float) -> Array:
    """Return g at eigenvalues that represent all between 0 and ``largest``."""
    count = 2 * len(stops) + 64
    # evenly spaced in phase, where late stops oscillate
    phases = largest * np.sin(np.pi * np.arange(count) / (2 * count)) ** 2
    # and in decades, down to eigenvalues of which even the last stop learns nothing
    with np.errstate(over="ignore"):
        unlearned = max(UNLEARNED / (method.pace * stops.max()) ** method.order, TINY)
    decades = np.geomspace(min(unlearned, largest), largest, count)
    return method.shrinkage(np.concatenate([phases, decades])[:, None], stops)


def _thinned(columns: Array, accuracy: float) -> tuple[Interpolation, Array]:
    """Return nodes, columns that span the others, and all columns in coordinates of these."""
    # only the triangle of a QR factorisation is needed, which has far fewer rows
    nodes, coordinates = _pivoted(np.asarray(np.linalg.qr(columns, mode="r")), accuracy)
    others = np.setdiff1d(np.arange(columns.shape[1]), nodes)
    matrix = np.linalg.solve(coordinates[:, nodes], coordinates[:, others])
    found = Interpolation(nodes, others, np.ascontiguousarray(matrix.T))
    return found, coordinates / coordinates[0, nodes[0]]


def _pivoted(columns: Array, accuracy: float) -> tuple[NDArray[np.intp], Array]:
    """Factor with column pivoting until the remaining columns are small; return pivots and R.

    SciPy's pivoted QR is slower here: its pool of threads and NumPy's compete for the cores.
    """
    rest = columns.copy()
    pivots = list[int]()
    rows = list[Array]()
    sizes = np.linalg.norm(rest, axis=0)
    least = accuracy * sizes.max()
    while sizes.max() > least:
        # the largest remaining column is the least affected by rounding
        pivots.append(int(np.argmax(sizes)))
        unit = rest[:, pivots[-1]] / sizes.max()
        rows.append(unit @ rest)
        rest -= np.multiply.outer(unit, rows[-1])
        sizes = np.linalg.norm(rest, axis=0)
        sizes[pivots] = 0
    return np.array(pivots), np.array(rows)


def _products(columns: Array) -> Array:
    """Return the products of every two entries of each column."""
    first, second = np.triu_indices(len(columns))
    return np.asarray(columns[first] * columns[second])
