"""Sparse matrices and operators: data that are only ever multiplied with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import assert_all_finite, check_array, check_consistent_length

from stoptime.spectrum.centred import CentredOperator, product
from stoptime.spectrum.dense import Centred, DenseData, lengths_of, sample_sizes
from stoptime.spectrum.moments import Moments
from stoptime.support.arrays import Floats

__all__ = ["MatrixFreeData", "checked"]

ROUNDINGS = 8.0  # of the means, that centring leaves behind


def checked(X: Any, name: str = "X") -> Any:
    """Return a sparse matrix in double precision by rows or columns, or an operator as it is.

    float32 and integers are copied to double precision; an operator may compute as it likes.
    """
    if len(X.shape) != 2:
        raise ValueError(f"{name} must have two dimensions; got shape {X.shape}.")
    if X.dtype is not None and np.issubdtype(X.dtype, np.complexfloating):
        raise ValueError(f"Complex data not supported: {name} is complex. Give both parts as rows.")
    if min(X.shape) == 0:
        raise ValueError(f"{name} must have at least one row and one column; got shape {X.shape}.")
    if not sparse.issparse(X):
        return X
    X = X if X.format in {"csr", "csc"} else X.tocsr()
    X = X.astype(np.float64, copy=False)
    assert_all_finite(X.data, input_name=name)
    return X


@dataclass(frozen=True)
class MatrixFreeData(DenseData):
    """Validated data whose X is only ever multiplied with."""

    X: Any

    @classmethod
    def validated(
        cls, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, fit_intercept: bool
    ) -> MatrixFreeData:
        """Check the input; an operator is checked by its products."""
        X = checked(X)
        y = np.asarray(
            check_array(y, dtype=np.float64, ensure_2d=False, allow_nd=True, input_name="y")
        )
        if y.ndim > 2 or y.size == 0:
            raise ValueError(f"y must be of shape (n,) or (n, n_targets); got {y.shape}.")
        check_consistent_length(np.empty((X.shape[0], 0)), y)
        shares, n, observations = sample_sizes(sample_weight, X.shape[0])
        return cls(X, y.reshape(len(y), -1), shares, n, observations, fit_intercept, y.ndim == 1)

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """Double precision, whatever an operator says of itself."""
        return np.dtype(np.float64)

    @cached_property
    def means(self) -> tuple[Floats, Floats]:
        """What centring subtracts."""
        if not self.fit_intercept:
            return np.zeros(self.X.shape[1]), np.zeros(self.y.shape[1])
        return product(self.X, self.shares, transposed=True), self.shares @ self.y

    @property
    def floor(self) -> float:
        """How much of a unit vector's image may be what rounding leaves of the means."""
        return float(ROUNDINGS * np.finfo(np.float64).eps * np.linalg.norm(self.means[0]))

    @cached_property
    def operator(self) -> CentredOperator:
        """The A with AᵀA = XᵀX/n."""
        return CentredOperator(self.X, np.sqrt(self.shares), self.fit_intercept)

    @cached_property
    def targets(self) -> Floats:
        """The centred response, weighted as the operator is: Aᵀ times it is Xᵀy/n."""
        return np.asarray(np.sqrt(self.shares)[:, None] * (self.y - self.means[1]))

    def centred(self) -> Centred:
        """Return the centred, weighted data; the mean squares of single columns are not known."""
        return Centred(self.operator, self.targets, self.means, np.zeros(self.X.shape[1]))

    def centred_in_products(self) -> Centred:
        """Return the same: nothing is ever copied here."""
        return self.centred()

    def moments(self) -> Moments:
        """Return means and second moments, a few columns at a time."""
        A = self.operator
        return Moments(*self.means, A.T @ A, A.T @ self.targets)

    def image_lengths(self, vectors: Floats, means: Floats) -> Floats:  # noqa: ARG002 - the operator has them
        """Return the lengths of images under the operator."""
        return lengths_of(self.operator, vectors)

    def rotated(self, index: Any, mean: Floats, vectors: Floats) -> Floats:
        """Return some centred rows times vectors; rows of an operator cannot be read."""
        if not sparse.issparse(self.X):
            raise ValueError(
                "The rows of an operator cannot be read, as exact leave-one-out has to."
            )
        return np.asarray(self._by_rows[index] @ vectors - mean @ vectors)

    @cached_property
    def _by_rows(self) -> Any:
        return self.X.tocsr()

    def check_finite(self, products: Floats) -> None:
        """Raise a ValueError where squares of entries overflow."""
        if not np.isfinite(products).all():
            raise ValueError(
                "X is too large: squares of its entries overflow. Rescale its columns."
            )

    def check_underflow(self, largest: float, means: Floats) -> None:  # noqa: ARG002 - single entries are not seen
        """Raise a ValueError where the squares of X underflow."""
        info = np.finfo(np.float64)
        if largest >= info.tiny / info.eps:
            return
        if np.abs(self.operator.T @ self.targets).max() > self.floor * np.linalg.norm(self.targets):
            raise ValueError(
                f"X is too small: its largest eigenvalue is {largest:.3g}. Rescale its columns."
            )
