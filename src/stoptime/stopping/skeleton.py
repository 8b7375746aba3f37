r"""The few stops from which all others follow.

On a grid of a hundred stops a shrinkage spans far fewer dimensions,

.. math:: g(s, t) = \sum_m M_m(t)\, g(s, t_m) \qquad\text{for all } 0 \le s \le L,

and so does everything linear in it: residuals need be computed at the :math:`t_m` only. Sums of their
squares and fourth powers follow from a somewhat larger skeleton.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular

from stoptime.methods import Method
from stoptime.methods.base import Array

REDUNDANT = 1e-12  # a stop that others determine up to this is left out
UNLEARNED = 1e-3  # of 1/t or 1/t²: smaller eigenvalues show nothing that larger ones do not


@dataclass(frozen=True)
class Skeleton:
    """Some stops, and how the others follow from them.

    Attributes
    ----------
    bones : array of shape (n_bones,)
        Places of the stops that are computed.
    others : array of shape (n_others,)
        Places of the stops that follow.
    matrix : array of shape (n_others, n_bones)
        The M above.
    """

    bones: NDArray[np.intp]
    others: NDArray[np.intp]
    matrix: Array

    @classmethod
    def whole(cls, count: int) -> Skeleton:
        """Return the skeleton of all stops."""
        return cls(np.arange(count), np.arange(0), np.empty((0, count)))

    def extended(self, values: Array) -> Array:
        """Return values at all stops from those at the bones; stops are the first axis."""
        out = np.empty((len(self.bones) + len(self.others), *values.shape[1:]))
        out[self.bones] = values
        out[self.others] = np.tensordot(self.matrix, values, axes=1)
        return out


def skeleton(method: Method, stops: Array, largest: float, accuracy: float = REDUNDANT) -> Skeleton:
    """Find the skeleton of whatever is linear in the shrinkage.

    Parameters
    ----------
    method : Method
        Already tuned.
    stops : array of shape (n_stops,)
        Positive and finite.
    largest : float
        The L up to which eigenvalues may lie.
    accuracy : float
        Relative error with which others may follow.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> len(skeleton(AcceleratedFlow(), np.geomspace(0.1, 10, 100), largest=1.0).bones) < 15
    True
    """
    return _thinned(_shrinkages(method, stops, largest), accuracy)[0]


def curve_skeleton(
    method: Method, stops: Array, largest: float, *, fourths: bool = True, accuracy: float = REDUNDANT
) -> Skeleton:
    r"""Find the skeleton of sums of squares, and of fourth powers, of what is linear in the shrinkage.

    With :math:`g(\cdot, t) = QR_t` every such value is :math:`R_t^T\xi`, its square is linear in
    :math:`R_t\otimes R_t`, and the square of that likewise.

    Parameters
    ----------
    method, stops, largest, accuracy
        As for :func:`skeleton`.
    fourths : bool, default=True
        Whether fourth powers are needed, or squares alone.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> len(curve_skeleton(AcceleratedFlow(), np.geomspace(0.1, 10, 100), largest=1.0).bones) < 25
    True
    """
    columns = _thinned(_shrinkages(method, stops, largest), accuracy)[1]
    found, squares = _thinned(_products(columns), accuracy)
    return _thinned(np.vstack([squares, _products(squares)]), accuracy)[0] if fourths else found


def _shrinkages(method: Method, stops: Array, largest: float) -> Array:
    """Return g at eigenvalues that show every stop's shrinkage: even in phase, and even in decades."""
    count = 2 * len(stops) + 64
    phases = largest * np.sin(np.pi * np.arange(count) / (2 * count)) ** 2
    with np.errstate(over="ignore"):
        unlearned = max(UNLEARNED / (method.pace * stops.max()) ** method.order, np.finfo(np.float64).tiny)
    decades = np.geomspace(min(unlearned, largest), largest, count)
    return method.shrinkage(np.concatenate([phases, decades])[:, None], stops)


def _thinned(columns: Array, accuracy: float) -> tuple[Skeleton, Array]:
    """Return which columns span the others, and all columns in as few coordinates, scaled to one."""
    triangle, order = qr(columns, mode="r", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    rank = int(np.count_nonzero(sizes > accuracy * sizes[0]))
    coordinates = np.empty((rank, columns.shape[1]))
    coordinates[:, order] = triangle[:rank] / sizes[0]
    if rank == columns.shape[1]:
        return Skeleton.whole(rank), coordinates
    matrix = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
    return Skeleton(order[:rank], order[rank:], np.ascontiguousarray(matrix.T)), coordinates


def _products(columns: Array) -> Array:
    """Return the products of every two entries of each column."""
    first, second = np.triu_indices(len(columns))
    return np.asarray(columns[first] * columns[second])
