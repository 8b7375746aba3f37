"""Data centred and weighted without being touched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from stoptime.spectrum.base import DualVectors, Vectors
from stoptime.support.arrays import Array, Floats

__all__ = ["CentredOperator", "Mirror", "owned", "product"]

BLOCK_NUMBERS = 2**17  # a megabyte, of a temporary array


@dataclass(frozen=True, eq=False)
class CentredOperator:
    r"""The centred, weighted X, never formed.

    .. math:: A = D^{1/2}(I - \mathbf 1 d^T)X, \qquad A^TA = X^TX/n

    with d the weights divided by their sum and D their diagonal matrix. The vector that is multiplied is
    centred instead of the matrix, so that A and Aᵀ are adjoint to the last digit however large the means.

    Attributes
    ----------
    X : array, sparse matrix or LinearOperator of shape (n, p)
        As it was given.
    root : array of shape (n,)
        Square roots of d.
    centre : bool
        Whether to subtract means.
    is_transposed : bool
        Whether this is Aᵀ.
    counter : list of one int
        Products with X and with Xᵀ so far, column by column; shared with the transpose.
    """

    X: Any
    root: Array
    centre: bool
    is_transposed: bool = False
    counter: list[int] = field(default_factory=lambda: [0])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, p = self.X.shape
        return (p, n) if self.is_transposed else (n, p)

    @property
    def T(self) -> CentredOperator:  # noqa: N802 - as arrays have it
        """The transpose."""
        return CentredOperator(self.X, self.root, self.centre, not self.is_transposed, self.counter)

    @property
    def products(self) -> int:
        """Products with X and with Xᵀ so far."""
        return self.counter[0]

    def __matmul__(self, other: Floats | CentredOperator) -> Floats:
        if isinstance(other, CentredOperator):
            return self._gram(other)
        self.counter[0] += 1 if other.ndim == 1 else other.shape[1]
        if self.is_transposed:
            return product(self.X, self._weighted(other), transposed=True)
        image = product(self.X, other)
        if self.centre:
            image = image - self.root**2 @ image
        return np.asarray((self.root * image.T).T)

    def _gram(self, other: CentredOperator, width: int = 64) -> Floats:
        """Return a symmetric product AᵀA or AAᵀ, of matrices that are no arrays a few columns at a time."""
        if isinstance(self.X, np.ndarray) and other.is_transposed:
            return self._outer()
        size = other.shape[1]
        gram = np.empty((size, size))
        for start in range(0, size, width):
            columns = np.eye(size, min(width, size - start), -start)
            gram[:, start : start + width] = self @ (other @ columns)
        return (gram + gram.T) / 2

    def _outer(self) -> Floats:
        """Return AAᵀ from XXᵀ, by centring its rows and columns."""
        gram = self.X @ self.X.T
        if self.centre:
            shares = self.root**2
            means = gram @ shares
            gram -= means
            gram -= (means - shares @ means)[:, None]
        gram *= self.root
        gram *= self.root[:, None]
        return np.asarray(gram)

    def _weighted(self, other: Floats) -> Floats:
        if self.centre:
            other = other - np.multiply.outer(self.root, self.root @ other)
        return np.asarray((self.root * other.T).T)


@dataclass(frozen=True)
class Mirror:
    r"""The reflection :math:`H = I - 2vv^T/v^Tv`.

    Centring takes away the direction of the roots of the weights. Mirrored onto the first axis it is the
    first row and column that go, and small eigenvalues keep their distance from the zero that centring made.
    """

    normal: Floats

    @classmethod
    def onto_first(cls, unit: Floats) -> Mirror:
        """Return the mirror that takes a non-negative unit vector to the first axis, up to sign."""
        normal = unit.copy()
        normal[0] += 1
        return cls(normal / np.linalg.norm(normal))

    def without_first(self, matrix: Floats) -> Floats:
        """Return HAH for a symmetric A, which is overwritten, less its first row and column."""
        image = 2 * (matrix @ self.normal)
        image -= (self.normal @ image) * self.normal
        height = max(1, BLOCK_NUMBERS // len(matrix))  # fresh memory costs more than the sums do
        for start in range(0, len(matrix), height):
            rows = slice(start, start + height)
            matrix[rows] -= np.multiply.outer(self.normal[rows], image)
            matrix[rows] -= np.multiply.outer(image[rows], self.normal)
        return matrix[1:, 1:]

    def with_first(self, vectors: Floats) -> Floats:
        """Return HB, with B the vectors below a row of zeros."""
        mirrored = np.multiply.outer(-2 * self.normal, self.normal[1:] @ vectors)
        mirrored[1:] += vectors
        return mirrored


def product(X: Any, other: Floats, *, transposed: bool = False) -> Floats:
    """Multiply with X or Xᵀ, in the precision of what is multiplied, and refuse what is not finite."""
    try:
        if not transposed:
            image = X @ other
        elif isinstance(X, LinearOperator):
            image = X.rmatmat(other) if other.ndim == 2 else X.rmatvec(other)
        else:
            image = (other.T @ X).T  # row by row of an array, which is the quicker way
    except NotImplementedError:
        raise ValueError(
            "X must know its products with vectors and those of its transpose: define rmatvec."
        ) from None
    image = np.asarray(image)
    if np.iscomplexobj(image):
        raise ValueError("Complex data not supported: products with X are complex.")
    if not np.isfinite(image).all():
        raise ValueError(
            "A product with X contains NaN or infinity: check the operator, or rescale X."
        )
    return image.astype(other.dtype, copy=False)


def owned(basis: Floats | DualVectors | Vectors) -> Floats | DualVectors | Vectors:
    """Return a basis that changes to the user's array cannot reach: one that refers to it takes a copy."""
    rows = basis.rows if isinstance(basis, DualVectors) else None
    if isinstance(rows, CentredOperator) and isinstance(rows.X, np.ndarray):
        return DualVectors(replace(rows, X=rows.X.copy()), basis.mix)
    return basis
