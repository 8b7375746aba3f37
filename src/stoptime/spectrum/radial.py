r"""Kernels that depend on a distance of two rows, for arrays of NumPy, torch and CuPy.

=========== =============================================== =========
name        k(x, x')                                        distance
=========== =============================================== =========
"rbf"       :math:`\exp(-\gamma d^2)`                       Euclidean
"laplacian" :math:`\exp(-\gamma d)`                         Manhattan
"matern"    :math:`(1 + \sqrt3\gamma d)e^{-\sqrt3\gamma d}` Euclidean
=========== =============================================== =========

The last one is Matérn's kernel of smoothness 3/2, with length scale 1/γ.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

from stoptime.support.arrays import array_namespace

Order = Literal[1, 2]
ORDERS: dict[str, Order] = {"rbf": 2, "laplacian": 1, "matern": 2}
"""The order of the norm in the distance of each kernel: 1 is Manhattan, 2 Euclidean."""


def distances(rows: Any, others: Any, order: Order) -> Any:
    """Return the distances between rows and others, where they are."""
    if sparse.issparse(rows) or sparse.issparse(others):
        return (manhattan_distances if order == 1 else euclidean_distances)(rows, others)
    if order == 2:
        return _euclidean(rows, others)
    if isinstance(rows, np.ndarray):
        return cdist(rows, others, "cityblock")
    if array_namespace(rows).__name__.endswith("torch"):
        return import_module("torch").cdist(rows, others, p=1.0)
    total: Any = 0
    for column in range(rows.shape[1]):
        total = total + abs(rows[:, column, None] - others[None, :, column])
    return total


def _euclidean(rows: Any, others: Any) -> Any:
    # one product of matrices in place of many differences; columns are centred beforehand, so that
    # little cancels
    xp = array_namespace(rows)
    squares = rows @ (-2 * others).T
    squares += xp.sum(rows * rows, axis=1)[:, None]
    squares += xp.sum(others * others, axis=1)
    if others is rows:  # exactly zero, which rounding is not
        squares[range(len(rows)), range(len(rows))] = 0
    return xp.sqrt(xp.clip(squares, 0, None))


@dataclass(frozen=True)
class Radial:
    """A kernel of this table, with its γ."""

    name: str
    gamma: float

    @classmethod
    def of_width(cls, name: str, width: float) -> Radial:
        r"""Return the kernel of a width: :math:`e^{-d^2/2w^2}`, :math:`e^{-d/w}` and so on."""
        return cls(name, 1 / (2 * width**2) if name == "rbf" else 1 / width)

    @property
    def order(self) -> Order:
        """The order of the norm in its distance."""
        return ORDERS[self.name]

    def of_distances(self, distance: Any) -> Any:
        """Return the kernel at these distances."""
        xp = array_namespace(distance)
        if self.name == "rbf":
            return xp.exp(distance**2 * -self.gamma)
        if self.name == "laplacian":
            return xp.exp(distance * -self.gamma)
        scaled = distance * (3**0.5 * self.gamma)
        return (1 + scaled) * xp.exp(-scaled)

    def __call__(self, rows: Any, others: Any) -> Any:
        """Return the kernel between rows and others."""
        return self.of_distances(distances(rows, others, self.order))
