r"""A few filters that span those of several methods at many stops.

The filters :math:`g(\cdot, t)` of all stops are nearly dependent. With an orthonormal basis
:math:`u_1, \dots, u_r` of their values at the nodes of a contour of penalties,

.. math:: g(s, t) = \sum_j c_j(t)\,u_j(s), \qquad c_j(t) = \langle u_j, g(\cdot, t)\rangle,

and each :math:`u_j` is a mixture of the ridges of the contour. What is linear in the filter, such
as a left-out residual, is computed for the r basis filters alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.ellipse import Ellipse
from stoptime.left_out.ladder import Ladder
from stoptime.methods.base import Filter
from stoptime.methods.recurrence import Iteration
from stoptime.support.arrays import Array

SERVED = 3e-11  # error of a filter on the ladder up to which it is used
NEGLIGIBLE = 1e-11  # size of the part of all filters along a basis filter that is left out
UNLEARNED = 5e-5  # what is learned at the last penalty of a ladder: below it, g is one
DEEPEST = 1e-40  # the last penalty of any ladder, in units of the largest eigenvalue
FEW_SCALES = 8  # distinct scales that are not interpolated
MOST_SCALES = 512  # nodes of the interpolation between scales
SCALE_ACCURACY = 1e-11  # of this interpolation
EIGENDECOMPOSITION = 3.0  # work of one, in units of that of rank² penalties
MOST_PENALTIES = 2**16  # of an ellipse

Contour = Ladder | Ellipse


@dataclass(frozen=True, eq=False)
class Span:
    """Basis filters at the nodes of a contour, and their weights as mixtures of its ridges.

    ``weights`` has a row for the real part of every ridge λ/(λ + s), one for every imaginary part,
    and one for the infinite penalty, whose ridge is one; and a column for every basis filter.
    """

    contour: Contour
    filters: Array
    weights: Array

    @classmethod
    def of(cls, contour: Contour, values: Array) -> Span:
        """Return a basis of filters that are given by their values at the nodes."""
        left, lengths, _ = np.linalg.svd(values, full_matrices=False)
        filters = left[:, lengths > NEGLIGIBLE]
        return cls(contour, filters, contour.weights(filters))

    def scaled(self, largest: float) -> Span:
        """Return the same for another largest eigenvalue: the nodes are in units of it."""
        return replace(self, contour=replace(self.contour, largest=largest))

    def coordinates(self, method: Filter, stops: Array, scale: float) -> Array:
        """Return the c of g(scale·s, t), a column for every stop."""
        return np.asarray(self.filters.T @ values_at(self.contour, method, stops, scale))


def values_at(contour: Contour, method: Filter, stops: Array, scale: float) -> Array:
    """Return g(scale·s, t) at the nodes of a contour, a column for every stop."""
    return np.asarray(method.shrinkage(scale * contour.nodes[:, None], stops))


def ladder_for(method: Filter, stops: Array, scale: float, largest: float) -> Ladder:
    """Return the ladder that reaches down to where nothing is learned at the last stop."""
    gain = scale * float(method.gain(0.0, stops.max()))
    # so late that the ladder would have hundreds of rungs, it does not serve any more
    smallest = np.clip(UNLEARNED / max(gain, UNLEARNED / largest), DEEPEST * largest, largest)
    return Ladder.down_to(float(smallest), largest)


def is_served(ladder: Ladder, method: Filter, stops: Array, scale: float) -> NDArray[np.bool_]:
    """Tell at which stops the filter of a method is a mixture of the ladder's ridges."""
    last = scale * ladder.nodes[-1]
    if isinstance(method, Iteration) and last >= method.largest_eigenvalue:
        # an iteration diverges at the last node, beyond the largest eigenvalue
        return np.zeros(len(stops), np.bool_)
    return np.asarray(ladder.misfit(values_at(ladder, method, stops, scale)) < SERVED)


def ellipse_for(method: Filter, stops: Array, scale: float, eigenvalues: Array) -> Ellipse | None:
    """Return the ellipse for a method at these stops, or None if it is too large.

    It is if its ridges would cost more than an eigendecomposition for every row.
    """
    return Ellipse.resolving(
        lambda nodes: np.asarray(method.shrinkage(scale * nodes[:, None], stops)),
        float(eigenvalues[-1]),
        min(EIGENDECOMPOSITION * len(eigenvalues) ** 2, MOST_PENALTIES),
    )


def scale_nodes(coordinates: Callable[[float], Array], scales: Array) -> Array:
    """Return scales between which coordinates can be interpolated for rows of unequal weights."""
    distinct = np.unique(scales)
    if len(distinct) <= FEW_SCALES:
        return distinct
    low = distinct[0]
    high = distinct[-1]
    count = FEW_SCALES
    while True:
        nodes = _between(low, high, count)
        values = np.stack([coordinates(one) for one in nodes])
        # tested where the polynomial is least accurate: between its nodes
        tests = _between(low, high, 2 * count + 1)[1::2]
        exact = np.stack([coordinates(one) for one in tests])
        found = np.tensordot(lagrange(nodes, tests), values, axes=1)
        error = float(np.abs(found - exact).max(initial=0))
        if error <= SCALE_ACCURACY * float(np.abs(exact).max(initial=0)) or count >= MOST_SCALES:
            return nodes
        count *= 2


def _between(low: float, high: float, count: int) -> Array:
    """Return Chebyshev nodes between two scales."""
    angles = np.pi * (np.arange(count) + 0.5) / count
    return np.asarray((low + high) / 2 - (high - low) / 2 * np.cos(angles))


def lagrange(nodes: Array, points: Array) -> Array:
    """Return the Lagrange polynomials of the nodes at the points, of shape (n_points, n_nodes)."""
    if len(nodes) == 1:
        return np.ones((len(points), 1))
    # in units in which products of differences neither overflow nor underflow
    unit = (nodes[-1] - nodes[0]) / 4
    differences = (nodes[:, None] - nodes) / unit
    np.fill_diagonal(differences, 1.0)
    denominators = differences.prod(axis=1)
    steps = (points[:, None] - nodes) / unit
    out = np.empty(steps.shape)
    for index in range(len(nodes)):
        out[:, index] = np.delete(steps, index, axis=1).prod(axis=1) / denominators[index]
    return out
