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

from stoptime.methods.base import Method
from stoptime.support.arrays import Array

REDUNDANT = 1e-12  # a stop that others determine up to this is left out
GROWTH = 100.0  # largest sum of weights by which rounding errors may be multiplied
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


def combination(method: Method, known: Array, wanted: Array, largest: float) -> Array | None:
    """Find how the shrinkages at some stops follow from those at others.

    Parameters
    ----------
    method, largest
        As for :func:`skeleton`.
    known, wanted : arrays of shape (n_known,) and (n_wanted,)
        Positive and finite stops.

    Returns
    -------
    array of shape (n_wanted, n_known), or None
        None where they do not follow, or only by large weights that would multiply rounding errors.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> known = np.geomspace(0.1, 10, 30)
    >>> combination(AcceleratedFlow(), known, np.array([2.0]), largest=1.0).shape
    (1, 30)
    >>> combination(AcceleratedFlow(), known[:3], np.array([2.0]), largest=1.0) is None
    True
    """
    columns = _shrinkages(method, np.concatenate([known, wanted]), largest)
    given, sought = columns[:, : len(known)], columns[:, len(known) :]
    # half of the eigenvalues are fitted, and all looked at: what oscillates between them is seen
    matrix = np.linalg.lstsq(given[::2], sought[::2], rcond=None)[0]
    missed, growth = np.abs(given @ matrix - sought).max(), np.abs(matrix).sum(axis=0).max()
    return np.asarray(matrix.T) if missed <= REDUNDANT and growth <= GROWTH else None


def curve_skeleton(
    method: Method,
    stops: Array,
    largest: float,
    *,
    fourths: bool = True,
    accuracy: float = REDUNDANT,
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
        unlearned = max(
            UNLEARNED / (method.pace * stops.max()) ** method.order, np.finfo(np.float64).tiny
        )
    decades = np.geomspace(min(unlearned, largest), largest, count)
    return method.shrinkage(np.concatenate([phases, decades])[:, None], stops)


def _thinned(columns: Array, accuracy: float) -> tuple[Skeleton, Array]:
    """Return which columns span the others, and all columns in as few coordinates, scaled to one."""
    bones, coordinates = _pivoted(np.asarray(np.linalg.qr(columns, mode="r")), accuracy)
    others = np.setdiff1d(np.arange(columns.shape[1]), bones)
    matrix = np.linalg.solve(coordinates[:, bones], coordinates[:, others])
    return Skeleton(bones, others, np.ascontiguousarray(matrix.T)), coordinates / coordinates[
        0, bones[0]
    ]


def _pivoted(columns: Array, accuracy: float) -> tuple[NDArray[np.intp], Array]:
    """Orthogonalise the largest remaining column and all others against it, until what remains is small.

    SciPy has this, but its library of threads and NumPy's get in each other's way for as long as it takes.
    """
    rest, bones, rows = columns.copy(), list[int](), list[Array]()
    sizes = np.linalg.norm(rest, axis=0)
    least = accuracy * sizes.max()
    while sizes.max() > least:
        bones.append(int(np.argmax(sizes)))
        unit = rest[:, bones[-1]] / sizes.max()
        rows.append(unit @ rest)
        rest -= np.multiply.outer(unit, rows[-1])
        sizes = np.linalg.norm(rest, axis=0)
        sizes[bones] = 0
    return np.array(bones), np.array(rows)


def _products(columns: Array) -> Array:
    """Return the products of every two entries of each column."""
    first, second = np.triu_indices(len(columns))
    return np.asarray(columns[first] * columns[second])
