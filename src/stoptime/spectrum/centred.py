"""Centring and weighting in products, without a copy of the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from stoptime.spectrum.accuracy import check_range
from stoptime.spectrum.base import DualVectors
from stoptime.support.arrays import as_dtype, is_device_array, slices

CONVERTED_NUMBERS = 2**22  # numbers converted to double precision at once, 32 MB
GRAM_WIDTH = 64  # columns of a product that are formed together


@dataclass(frozen=True, eq=False)
class CentredOperator:
    r"""The centred, weighted X as an operator A that is never formed.

    .. math:: A = D^{1/2}(I - \mathbf 1 d^T)X, \qquad A^TA = X^TX/n

    with d the weights divided by their sum, D their diagonal matrix, and ``root`` the square roots
    of d.
    """

    X: Any
    root: Any
    centre: bool
    is_transposed: bool = False
    # counts products with X and Xᵀ, column by column; it is shared with the transpose
    counter: list[int] = field(default_factory=lambda: [0])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, p = self.X.shape
        return (p, n) if self.is_transposed else (n, p)

    @property
    def T(self) -> CentredOperator:  # noqa: N802 - as arrays have it
        """The transpose."""
        return replace(self, is_transposed=not self.is_transposed)

    @property
    def products(self) -> int:
        """Number of products with X and with Xᵀ so far."""
        return self.counter[0]

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, CentredOperator):
            return self._gram(other)
        # vectors are centred instead of the matrix, so that A and Aᵀ are adjoint to the last digit
        # even if the means are large
        self.counter[0] += 1 if other.ndim == 1 else int(other.shape[1])
        if self.is_transposed:
            if self.centre:
                root = self.root if other.ndim == 1 else self.root[:, None]
                other = other - root * (self.root @ other)
            return product(self.X, (self.root * other.T).T, transposed=True)
        image = product(self.X, other)
        if self.centre:
            image = image - self.root**2 @ image
        return (self.root * image.T).T

    def _gram(self, other: CentredOperator) -> Any:
        """Return AᵀA or AAᵀ, a few columns at a time unless X is an array."""
        X = self.X
        if not (other.is_transposed and (isinstance(X, np.ndarray) or is_device_array(X))):
            size = other.shape[1]
            gram = np.empty((size, size))
            for start in range(0, size, GRAM_WIDTH):
                columns = np.eye(size, min(GRAM_WIDTH, size - start), -start)
                gram[:, start : start + GRAM_WIDTH] = self @ (other @ columns)
            return (gram + gram.T) / 2
        # AAᵀ from XXᵀ in double precision, by centring its rows and columns in place
        if not isinstance(X, np.ndarray) or X.dtype == np.float64:
            gram = X @ X.T
        else:
            gram = np.zeros((len(X), len(X)))
            for some in slices(X.shape[1], CONVERTED_NUMBERS // len(X)):
                columns = X[:, some].astype(np.float64)
                gram += columns @ columns.T
        if self.centre:
            shares = self.root**2
            means = gram @ shares
            gram -= means
            gram -= (means - shares @ means)[:, None]
        gram *= self.root
        gram *= self.root[:, None]
        return gram


def product(X: Any, other: Any, *, transposed: bool = False) -> Any:
    """Multiply with X or Xᵀ in the precision of the vectors, and refuse NaN and infinity."""
    if is_device_array(X):
        return multiplied(X, other, transposed=transposed)
    try:
        if transposed and isinstance(X, LinearOperator):
            image = X.rmatmat(other) if other.ndim == 2 else X.rmatvec(other)
        else:
            image = multiplied(X, other, transposed=transposed)
    except NotImplementedError:
        raise ValueError(
            "X must define products with vectors, for its transpose too: define rmatvec."
        ) from None
    image = np.asarray(image)
    if np.iscomplexobj(image):
        raise ValueError("Complex data not supported: products with X are complex.")
    if not np.isfinite(image).all():
        # entries of a matrix are finite, so that only overflow makes its products NaN
        if sparse.issparse(X) or not np.isnan(image).any():
            check_range("X", np.inf, varies=True)
        raise ValueError("A product with X contains NaN: X is too large, or no valid operator.")
    return image.astype(other.dtype, copy=False)


def multiplied(X: Any, other: Any, *, transposed: bool = False) -> Any:
    """Multiply with X or Xᵀ; an array of single precision is converted a block at a time."""
    if is_device_array(X):
        X = as_dtype(X, other.dtype)
        return X.T @ other if transposed else X @ other
    if not isinstance(X, np.ndarray) or X.dtype == other.dtype:
        # along the rows of an array, this is faster than X.T @ other
        return (other.T @ X).T if transposed else X @ other
    blocks = slices(len(X), CONVERTED_NUMBERS // X.shape[1])
    if transposed:
        return sum((other[rows].T @ X[rows].astype(other.dtype)).T for rows in blocks)
    return np.concatenate([X[rows].astype(other.dtype) @ other for rows in blocks])


def owned(basis: Any) -> Any:
    """Return a basis that does not change with the user's array, by a copy where necessary."""
    rows = basis.rows if isinstance(basis, DualVectors) else None
    if isinstance(rows, CentredOperator) and isinstance(rows.X, np.ndarray):
        return DualVectors(replace(rows, X=rows.X.copy()), basis.mix)
    return basis
