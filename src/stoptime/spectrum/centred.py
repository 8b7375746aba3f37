"""Centring and weighting in products, without a copy of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from stoptime.spectrum.rows import Rows


@dataclass(frozen=True, eq=False)
class CentredOperator:
    r"""The centred, weighted X as an operator A that is never formed.

    .. math:: A = D^{1/2}(I - \mathbf 1 d^T)X, \qquad A^TA = X^TX/n

    with d the weights divided by their sum, D their diagonal matrix, and ``root`` the square roots
    of d.
    """

    X: Rows
    root: Any
    centre: bool
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, p = self.X.shape
        return (p, n) if self.is_transposed else (n, p)

    @property
    def T(self) -> CentredOperator:  # noqa: N802 - as arrays have it
        """The transpose."""
        return replace(self, is_transposed=not self.is_transposed)

    def __matmul__(self, other: Any) -> Any:
        # vectors are centred instead of the matrix, so that A and Aᵀ are adjoint to the last digit
        # even if the means are large
        if self.is_transposed:
            if self.centre:
                root = self.root if other.ndim == 1 else self.root[:, None]
                other = other - root * (self.root @ other)
            return self.X.times_t((self.root * other.T).T)
        image = self.X.times(other)
        if self.centre:
            image = image - self.root**2 @ image
        return (self.root * image.T).T

    def outer(self) -> Any:
        """Return AAᵀ from XXᵀ, by centring its rows and columns in place."""
        gram = self.X.outer()
        if self.centre:
            shares = self.root**2
            means = gram @ shares
            gram -= means
            gram -= (means - shares @ means)[:, None]
        gram *= self.root
        gram *= self.root[:, None]
        return gram

    def owned(self) -> CentredOperator:
        """Return an operator that does not change when the user's container does."""
        return replace(self, X=self.X.owned())
