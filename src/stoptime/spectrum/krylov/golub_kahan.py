r"""Golub–Kahan bidiagonalisation, one orthonormal basis grown vector by vector.

.. math:: AV_k = U_{k+1}B_k, \qquad A^TU_{k+1} = V_kB_k^T + \beta_k v_{k+1}e_{k+1}^T

with B lower bidiagonal, so that :math:`T = B^TB` is the projection of :math:`A^TA` on the Krylov space of the
first vector. Only V is kept and reorthogonalised: that alone makes the singular values of B those of a
matrix within rounding of A. Begun with a target y, :math:`u_1 = y/\|y\|` and :math:`v_1 \propto A^Ty`, it
never squares A: what small singular values have of y is seen to as many digits as in y itself.

References
----------
Golub, Kahan (1965), Calculating the singular values and pseudo-inverse of a matrix.
Paige, Saunders (1982), LSQR: an algorithm for sparse linear equations and sparse least squares.
Barlow (2013), Reorthogonalization for the Golub-Kahan-Lanczos bidiagonal reduction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from stoptime.support.arrays import Array, Floats

__all__ = ["GolubKahan", "KrylovVectors", "Matrix", "Ritz"]

BLOCK = 32  # vectors that are allocated at a time
MISMATCH = 1e-3  # of a product: more than any rounding makes of a transpose
CANCELLED = np.sqrt(0.5)  # what is left of a vector that need not be made orthogonal once more


class Matrix(Protocol):
    """What can be multiplied, and transposed."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def T(self) -> Matrix:  # noqa: N802 - as arrays have it
        """The transpose."""

    def __matmul__(self, other: Floats) -> Floats:
        """Return the product."""


class Ritz(NamedTuple):
    """The projected problem, diagonalised.

    Attributes
    ----------
    values : array of shape (k,)
        The eigenvalues θ of T, ascending.
    rotation : array of shape (k, k)
        Its eigenvectors; the Ritz vectors are V times these.
    first : array of shape (k,)
        How much of each Ritz vector is in the first vector.
    coupling : float
        The η of ÂV = VT + η v eₖᵀ, by which the space is left; zero where it is exhausted.
    unlearned : float
        What is left of least squares: the larger of its gradient over the first one and of the share that
        the newest vector has in the fit; zero where the space is exhausted.
    """

    values: Array
    rotation: Array
    first: Array
    coupling: float
    unlearned: float

    @property
    def leaving(self) -> Array:
        """Residuals of the Ritz pairs, with a sign: by how much A leads each vector out of the space."""
        return np.asarray(self.coupling * self.rotation[-1] if len(self.values) else self.values)

    @property
    def largest(self) -> float:
        """An upper estimate of the largest eigenvalue."""
        return float(self.values[-1] + abs(self.leaving[-1])) if len(self.values) else 0.0

    @property
    def doubt(self) -> float:
        """How far the largest value is from an eigenvalue, by its residual or, better, Kato and Temple."""
        residual = abs(float(self.leaving[-1]))
        gap = float(self.values[-1] - self.values[-2]) if len(self.values) > 1 else 0.0
        return min(residual, residual * residual / gap) if gap > 0 else residual

    def above(self, level: float) -> Ritz:
        """Return the pairs whose values exceed a level."""
        kept = self.values > level
        return self._replace(
            values=self.values[kept], rotation=self.rotation[:, kept], first=self.first[kept]
        )


class Basis:
    """Orthonormal vectors in blocks, so that growing copies none."""

    def __init__(self, length: int) -> None:
        self.length, self.count = length, 0
        self.blocks: list[Array] = []

    def __getitem__(self, index: int) -> Array:
        return np.asarray(self.blocks[index // BLOCK][index % BLOCK])

    def append(self, vector: Floats) -> None:
        """Keep one more vector."""
        if self.count == BLOCK * len(self.blocks):
            self.blocks.append(np.empty((BLOCK, self.length)))
        self.blocks[-1][self.count % BLOCK] = vector
        self.count += 1

    def filled(self, count: int) -> list[Array]:
        """Return the blocks of the first ``count`` vectors, as rows."""
        return [
            block[: count - BLOCK * k] for k, block in enumerate(self.blocks) if count > BLOCK * k
        ]

    def orthogonalise(self, vector: Floats) -> Floats:
        """Subtract the part of a vector that the basis has; twice where little is left of it."""
        before = np.linalg.norm(vector)
        for _ in range(2):
            for block in self.filled(self.count):
                vector -= (block @ vector) @ block
            after = np.linalg.norm(vector)
            if after > CANCELLED * before:
                break
            before = after
        return vector


class GolubKahan:
    """A bidiagonalisation that can be continued.

    Parameters
    ----------
    matrix : Matrix
        The A above.
    start : array of shape (n_columns,)
        The first vector, up to its length.
    rounding : float
        Relative to the largest entry of B so far, what counts as zero.
    floor : float, default=0.0
        Absolutely, what counts as zero: the rounding of A itself.
    target : array of shape (n_rows,), optional
        The y whose image under the transpose is the start, where there is one.
    """

    def __init__(
        self,
        matrix: Matrix,
        start: Floats,
        rounding: float,
        floor: float = 0.0,
        target: Floats | None = None,
    ) -> None:
        self.matrix, self.rounding, self.floor = matrix, rounding, floor
        self.basis = Basis(len(start))
        self.length = _length(start)
        self.alphas, self.betas = list[float](), list[float]()
        self._next = start / self.length if self.length > 0 else start
        self.exhausted = self.length == 0
        power = 0.0 if target is None else _length(target)
        self._left = np.zeros(1) if target is None or power == 0 else target / power
        self.corner = self.length / power if power else 0.0
        self._scale = self.corner
        self._least_squares = LeastSquares(self.corner)

    @property
    def size(self) -> int:
        """Dimension of the space."""
        return len(self.alphas)

    @property
    def image(self) -> float:
        """Length of the image of the first vector, once there is one."""
        return float(np.hypot(self.corner, self.alphas[0]))

    def step(self) -> None:
        """Add one vector: a product with A, and one with its transpose."""
        v = self._next
        u = self.matrix @ v
        if (
            self.corner
            and not self.size
            and abs(self._left @ u - self.corner) > MISMATCH * _length(u)
        ):
            raise ValueError(
                "X is no operator: its rmatvec does not multiply by the transpose of its matvec."
            )
        u -= (self.betas[-1] if self.size else self.corner) * self._left
        alpha = _length(u)
        fitted = self._vanishes(alpha)
        if fitted and not self.corner:
            self._finish()
            return
        self.basis.append(v)
        self.alphas.append(alpha)
        if fitted:  # nothing of y is left
            self.betas.append(0.0)
            self._finish()
            return
        self._left = u / alpha
        w = self.basis.orthogonalise(self.matrix.T @ self._left - alpha * v)
        beta = _length(w)
        self.betas.append(beta)
        self._least_squares.rotate(alpha, beta)
        if self._vanishes(beta) or self.size == min(self.matrix.shape):
            self._finish()
        else:
            self._next = w / beta

    def _vanishes(self, entry: float) -> bool:
        self._scale = max(self._scale, entry)
        return entry <= max(self.rounding * self._scale, self.floor)

    def _finish(self) -> None:
        self.exhausted = True
        if self.betas:
            self.betas[-1] = 0.0

    def forget(self) -> None:
        """Return to an empty space, which is never left."""
        self.alphas, self.betas, self.exhausted = [], [], True

    def ritz(self, *, accurate: bool) -> Ritz:
        """Diagonalise T: by the singular values of B, or faster and up to squared rounding by T itself."""
        k = self.size
        if k == 0:
            return Ritz(np.empty(0), np.empty((0, 0)), np.empty(0), 0.0, 0.0)
        alphas, betas = np.array(self.alphas), np.array(self.betas)
        steps = np.append(self.corner, betas[:-1])
        coupling, unlearned = 0.0, 0.0
        if not self.exhausted:
            coupling, unlearned = float(alphas[-1] * betas[-1]), self._least_squares.unlearned
        if accurate:
            bidiagonal = np.zeros((k + 1, k))
            np.fill_diagonal(bidiagonal, steps)
            np.fill_diagonal(bidiagonal[1:], alphas)
            left, lengths, right = np.linalg.svd(bidiagonal, full_matrices=False)
            # by the left vectors small entries are known to more digits: Bᵀ takes the first of them to v₁
            first = lengths * left[0] / self.corner if self.corner else right[:, 0]
            return Ritz(lengths[::-1] ** 2, right[::-1].T, first[::-1], coupling, unlearned)
        values, rotation = eigh_tridiagonal(alphas**2 + steps**2, alphas[:-1] * betas[:-1])
        return Ritz(
            np.maximum(values, np.finfo(float).tiny), rotation, rotation[0], coupling, unlearned
        )

    def vectors(self) -> list[Array]:
        """Return the basis so far, in blocks of rows; later growth does not change them."""
        return self.basis.filled(self.size)


class LeastSquares:
    """What the bidiagonal matrix knows of the least-squares fit of its first vector, by plane rotations."""

    def __init__(self, corner: float) -> None:
        self._diagonal = self._first = corner
        self._misfit, self._fit, self.unlearned = 1.0, 0.0, np.inf

    def rotate(self, alpha: float, beta: float) -> None:
        """Take in one column, whose last entry is alpha, and the first entry of the next one."""
        size = np.hypot(self._diagonal, alpha)
        cosine, sine = self._diagonal / size, alpha / size
        added, self._misfit = abs(cosine) * self._misfit, sine * self._misfit
        self._fit, self._diagonal = np.hypot(self._fit, added), -cosine * beta
        if self._first:
            gradient = self._misfit * abs(self._diagonal) / self._first
            self.unlearned = float(max(gradient, added / self._fit))


def _length(vector: Floats) -> float:
    """Return the length of a vector, refusing one whose squares are no numbers."""
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or (length == 0 and vector.any()):
        size = "large" if length else "small"
        raise ValueError(
            f"Products with X are too {size}: their squares are no numbers. Rescale X or y."
        )
    return length


@dataclass(frozen=True)
class KrylovVectors:
    """Ritz vectors of one or several spaces side by side, sorted; formed only when asked for.

    Attributes
    ----------
    spaces : tuple of lists of arrays
        The bases, in blocks of rows.
    rotations : tuple of arrays
        What turns each basis into its Ritz vectors.
    order : array of shape (rank,)
        The place, space after space, of every Ritz vector.
    length : int
        Number of entries of a vector.
    """

    spaces: tuple[list[Array], ...]
    rotations: tuple[Array, ...]
    order: NDArray[np.intp]
    length: int

    def __matmul__(self, components: Floats) -> Floats:
        sorted_back = np.empty_like(components)
        sorted_back[self.order] = components
        out = np.zeros((self.length, *components.shape[1:]))
        first = 0
        for blocks, rotation in zip(self.spaces, self.rotations, strict=True):
            own = rotation @ sorted_back[first : first + rotation.shape[1]]
            first += rotation.shape[1]
            row = 0
            for block in blocks:
                out += block.T @ own[row : row + len(block)]
                row += len(block)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        if copy is False:
            raise ValueError(
                "Vectors that are formed when asked for cannot be viewed: let copy be None."
            )
        return np.asarray(self @ np.eye(len(self.order)), dtype=dtype)
