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
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances, pairwise_kernels

from stoptime.spectrum.accuracy import check_scale
from stoptime.spectrum.rows import ArrayRows, SparseRows
from stoptime.support.arrays import EPS, array_namespace, as_float64, constant, like, on_host

Order = Literal[1, 2]
ORDERS: dict[str, Order] = {"rbf": 2, "laplacian": 1, "matern": 2}
"""The order of the norm in the distance of each kernel: 1 is Manhattan, 2 Euclidean."""


def distances(rows: Any, others: Any, order: Order) -> Any:
    """Return the distances between rows and others, where they are."""
    if sparse.issparse(rows) or sparse.issparse(others):
        return (manhattan_distances if order == 1 else euclidean_distances)(rows, others)
    if order == 2:
        return array_namespace(rows).sqrt(_squares(rows, others))
    if isinstance(rows, np.ndarray):
        return cdist(rows, others, "cityblock")
    if array_namespace(rows).__name__.endswith("torch"):
        return import_module("torch").cdist(rows, others, p=1.0)
    total: Any = 0
    for column in range(rows.shape[1]):
        total = total + abs(rows[:, column, None] - others[None, :, column])
    return total


def _squares(rows: Any, others: Any) -> Any:
    """Return squared Euclidean distances, up to rounding."""
    # one product of matrices, |x|² - 2x·z + |z|², in place of many differences; columns are centred
    # beforehand, so that little cancels
    xp = array_namespace(rows)
    left = [rows, xp.sum(rows * rows, axis=1)[:, None], constant(rows, len(rows), 1.0)[:, None]]
    ones = constant(rows, len(others), 1.0)[:, None]
    right = [-2 * others, ones, xp.sum(others * others, axis=1)[:, None]]
    squares = xp.concat(left, axis=1) @ xp.concat(right, axis=1).T
    if others is rows:  # exactly zero, which rounding is not
        squares[range(len(rows)), range(len(rows))] = 0
    # rounding may leave a negative number, whose exponential would overflow for large rows
    return xp.clip(squares, 0.0, None, out=squares)


@dataclass(frozen=True, eq=False)
class Columns:
    """What is subtracted from columns before a kernel sees them, and what divides them, if any."""

    centre: Any = None
    scale: Any = None

    @classmethod
    def of(cls, rows: Any, weights: Any, *, centred: bool, scaled: bool) -> Columns:
        """Return means and standard deviations of the columns; a sparse matrix is not centred."""
        if not (centred or scaled):
            return cls()
        X = SparseRows(rows.astype(np.float64)) if sparse.issparse(rows) else ArrayRows(rows)
        weights = np.ones(X.shape[0]) if weights is None else np.asarray(weights, np.float64)
        shares = like(rows, weights / weights.sum())
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is found with the rows
            mean = X.times_t(shares)
            # the mean of large numbers is itself rounded
            off = sum(shares[some] @ (X.read(some) - mean) for some in X.blocks())
            variance = X.mean_squares(shares, mean) - off**2
        scale = _deviations(on_host(mean), np.maximum(on_host(variance), 0))
        return cls(None if sparse.issparse(rows) else mean, like(rows, scale) if scaled else None)

    @property
    def on_host(self) -> Columns:
        """The same numbers as arrays of NumPy."""
        return Columns(
            *(None if one is None else on_host(one) for one in (self.centre, self.scale))
        )

    def __call__(self, rows: Any) -> Any:
        """Return rows as a kernel sees them, in double precision."""
        if sparse.issparse(rows) and self.centre is None:
            rows = rows.astype(np.float64, copy=False)
            return rows if self.scale is None else rows @ sparse.diags_array(1 / self.scale)
        rows = as_float64(rows.toarray() if sparse.issparse(rows) else rows)
        if self.centre is None and self.scale is None:
            return rows
        # a sparse X is not centred, and dense rows may follow
        rows = rows - (0.0 if self.centre is None else self.centre)
        if self.scale is not None:
            rows /= self.scale
        with np.errstate(over="ignore"):
            square = float((rows * rows).sum())
        # squared distances are at most four times the largest square; small ones are harmless
        check_scale("X", max(square, 1.0))
        return rows


def _deviations(mean: Any, variance: Any) -> Any:
    deviation = np.sqrt(variance)
    # what varies less than by rounding is constant, and must not become a feature
    noise = 8 * EPS * np.maximum(np.abs(mean), deviation.max(initial=0))
    return np.where(deviation > noise, deviation, 1.0)


def given(rows: Any, others: Any) -> Any:
    """Return a precomputed kernel: the rows are its values."""
    del others
    return rows


def by_scikit_learn(options: dict[str, Any], rows: Any, others: Any) -> Any:
    """Return a kernel that scikit-learn knows by name, or a function of two rows."""
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked in the result
        values = pairwise_kernels(rows, None if others is rows else others, **options)
    if not np.isfinite(values).all():
        raise ValueError(
            "The kernel has NaN or infinite values. Rescale the columns of X, for example with "
            "StandardScaler, or choose another kernel or other parameters."
        )
    return np.asarray(values)


@dataclass(frozen=True)
class Linear:
    """The kernel x·x', which has no γ."""

    name: ClassVar[str] = "linear"
    gamma: ClassVar[None] = None

    def __call__(self, rows: Any, others: Any) -> Any:
        """Return the inner products of rows and others, as an array."""
        product = rows @ others.T
        return product.toarray() if sparse.issparse(product) else product


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
        if self.name == "rbf" and not (sparse.issparse(rows) or sparse.issparse(others)):
            squares = _squares(rows, others)  # a root would be squared again
            squares *= -self.gamma
            return array_namespace(squares).exp(squares, out=squares)
        return self.of_distances(distances(rows, others, self.order))
