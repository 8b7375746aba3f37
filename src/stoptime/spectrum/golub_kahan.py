r"""Golub–Kahan bidiagonalisation with one orthonormal basis that grows vector by vector.

.. math:: AV_k = U_{k+1}B_k, \qquad A^TU_{k+1} = V_kB_k^T + \beta_k v_{k+1}e_{k+1}^T

B is lower bidiagonal and :math:`T = B^TB` is the projection of :math:`A^TA` on the Krylov space of
the first vector. Only V is stored and reorthogonalised. This suffices: the singular values of B
are then those of a matrix within rounding of A (Barlow). If the first vector is
:math:`v_1 \propto A^Ty`, the recurrence starts with :math:`u_1 = y/\|y\|` and never squares A, so
that components of y along small singular values keep all their digits.

References
----------
Golub, Kahan (1965), Calculating the singular values and pseudo-inverse of a matrix.
Paige, Saunders (1982), LSQR: an algorithm for sparse linear equations and sparse least squares.
Barlow (2013), Reorthogonalization for the Golub-Kahan-Lanczos bidiagonal reduction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal, norm

from stoptime.spectrum.accuracy import check_scale
from stoptime.spectrum.ritz import Space
from stoptime.support.arrays import TINY, Array, Floats

if TYPE_CHECKING:
    from stoptime.spectrum.centred import CentredOperator

VECTORS_PER_BLOCK = 32  # Krylov vectors that are allocated at a time
TRANSPOSE_MISMATCH = 1e-3  # of a product: rounding alone cannot make such a difference
ORTHOGONAL = 0.01  # of the length of a vector: a product shorter than this may cancel
REORTHOGONALISE_BELOW = np.sqrt(0.5)  # fraction of a vector's length that must remain


class Basis:
    """Orthonormal vectors, stored in blocks so that growth copies nothing."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.count = 0
        self._blocks: list[Array] = []

    def append(self, vector: Floats) -> None:
        """Store one more vector."""
        place = self.count % VECTORS_PER_BLOCK
        if place == 0:
            self._blocks.append(np.empty((VECTORS_PER_BLOCK, self.length)))
        self._blocks[-1][place] = vector
        self.count += 1

    def blocks(self) -> list[Array]:
        """Return the vectors so far, in blocks of rows; later growth does not change them."""
        starts = range(0, self.count, VECTORS_PER_BLOCK)
        return [block[: self.count - k] for k, block in zip(starts, self._blocks, strict=True)]

    def orthogonalise(self, vector: Floats) -> Floats:
        """Subtract the projection of a vector on the basis, in place."""
        before = _norm(vector)
        # a difference much shorter than the vector consists of rounding to a visible part, which
        # is not orthogonal to the basis; a second pass removes it ("twice is enough")
        for _ in range(2):
            for block in self.blocks():
                vector -= (block @ vector) @ block
            after = _norm(vector)
            if after > REORTHOGONALISE_BELOW * before:
                break
            before = after
        return vector


class GolubKahan:
    """A bidiagonalisation of A that can be continued; ``start`` is Aᵀ times the ``target``."""

    def __init__(
        self,
        matrix: CentredOperator | Array,
        start: Floats,
        rounding: float,
        floor: float = 0.0,
        target: Floats | None = None,
    ) -> None:
        self.matrix = matrix
        self.rounding = rounding
        self.floor = floor
        self.basis = Basis(len(start))
        self.alphas: list[float] = []
        self.betas: list[float] = []
        # norms of SciPy do not overflow or underflow
        self.power = 0.0 if target is None else float(norm(target, check_finite=False))
        self.length = float(norm(start, check_finite=False))
        if self.power and start.any():
            # an entry of this size shows whether products have lost their digits
            size = float(np.abs(start).max()) / self.power
            check_scale("X", float(np.clip(size, 1e-150, 1e150)) ** 2)
        # a start this short is what rounding leaves of the means in Aᵀy
        self.exhausted = self.length <= floor * self.power
        self.corner = self.length / self.power if self.power else 0.0
        self._next = start / self.length if self.length > 0 else start
        self._left = target / self.power if target is not None and self.power else np.zeros(1)
        self._first_left = self._left
        self._scale = self.corner
        self._diagonal = self.corner
        self._misfit = 1.0
        self._fit = 0.0
        self._unlearned = np.inf

    @property
    def size(self) -> int:
        """Dimension of the space."""
        return len(self.alphas)

    def step(self) -> None:
        """Add one vector: a product with A, and one with its transpose."""
        v = self._next
        u = self.matrix @ v
        if self.corner and self.size < 2:
            self._check_transpose(u, self.corner if not self.size else 0.0)
        u -= (self.betas[-1] if self.size else self.corner) * self._left
        alpha = _norm(u)
        fitted = self._vanishes(alpha)
        if self.corner or not fitted:
            self.basis.append(v)
            self.alphas.append(alpha)
            self.betas.append(0.0)
        if fitted:
            self.exhausted = True
            return
        self._left = u / alpha
        w = self.basis.orthogonalise(self.matrix.T @ self._left - alpha * v)
        beta = _norm(w)
        self._rotate(alpha, beta)
        self.exhausted = self._vanishes(beta) or self.size == min(self.matrix.shape)
        if not self.exhausted:
            self.betas[-1] = beta
            self._next = w / beta

    def _check_transpose(self, image: Floats, expected: float) -> None:
        """Raise a ValueError if u₁ᵀAv is not (Aᵀu₁)ᵀv, a test that needs no further product."""
        # Aᵀu₁ is a multiple of the first vector, and so orthogonal to the second
        found = float(self._first_left @ image)
        allowed = TRANSPOSE_MISMATCH * max(self.corner, ORTHOGONAL * _norm(image))
        if abs(found - expected) > allowed:
            raise ValueError(
                "X is not a linear operator: its rmatvec is not the transpose of its matvec. In "
                f"the test ⟨Xv, u⟩ = ⟨v, Xᵀu⟩ the left side is {found:.5g} and the right side "
                f"{expected:.5g}. An approximate adjoint, such as an unmatched back projection, "
                "does not solve least squares: use the exact one."
            )

    def _rotate(self, alpha: float, beta: float) -> None:
        """Add a column to the QR factorisation of B, which gives the gradient as in LSQR."""
        # the rotation removes alpha: the cosine's share of the misfit is fitted, the sine's is left
        size = np.hypot(self._diagonal, alpha)
        cosine = self._diagonal / size
        added = abs(cosine) * self._misfit
        self._misfit *= alpha / size
        self._fit = np.hypot(self._fit, added)
        self._diagonal = -cosine * beta
        if self.corner:
            gradient = self._misfit * abs(self._diagonal) / self.corner
            self._unlearned = float(max(gradient, added / self._fit))

    def _vanishes(self, entry: float) -> bool:
        self._scale = max(self._scale, entry)
        # the floor is the rounding error of A itself, which is larger if its means are large
        return entry <= max(self.rounding * self._scale, self.floor)

    def forget(self) -> None:
        """Empty the space and end its growth."""
        self.basis = Basis(self.basis.length)
        self.alphas = []
        self.betas = []
        self.exhausted = True

    def space(self, *, accurate: bool) -> Space:
        """Diagonalise T, accurately by the singular values of B, or faster by T itself."""
        k = self.size
        unlearned = 0.0 if self.exhausted else self._unlearned
        if k == 0:
            none = np.empty(0)
            return Space(none, none, np.empty((0, 0)), none, unlearned)
        alphas = np.array(self.alphas)
        betas = np.array(self.betas)
        # the η of ÂV = VT + η v eₖᵀ: zero if the space is complete
        coupling = 0.0 if self.exhausted else float(alphas[-1] * betas[-1])
        steps = np.append(self.corner, betas[:-1])
        if not accurate:
            values, rotation = eigh_tridiagonal(alphas**2 + steps**2, alphas[:-1] * betas[:-1])
            # rounding may turn the smallest eigenvalues of T negative, which filters refuse
            values = np.maximum(values, TINY)
            leaving = coupling * rotation[-1]
            return Space(values, self.length * rotation[0], rotation, leaving, unlearned)
        bidiagonal = np.zeros((k + 1, k))
        np.fill_diagonal(bidiagonal, steps)
        np.fill_diagonal(bidiagonal[1:], alphas)
        left, lengths, right = np.linalg.svd(bidiagonal, full_matrices=False)
        # Bᵀ maps the first left vector to v₁, which gives small components to more digits
        first = lengths * left[0] / self.corner if self.corner else right[:, 0]
        rotation = right[::-1].T
        response = self.length * first[::-1]
        return Space(lengths[::-1] ** 2, response, rotation, coupling * rotation[-1], unlearned)


def _norm(vector: Floats) -> float:
    return float(np.linalg.norm(vector))


@dataclass(frozen=True)
class KrylovVectors:
    """Ritz vectors of one or several spaces, computed on demand."""

    # each basis, in blocks of rows, times its rotation gives the vectors of a space
    spaces: tuple[list[Array], ...]
    rotations: tuple[Array, ...]
    order: NDArray[np.intp]
    length: int

    def __matmul__(self, components: Floats) -> Floats:
        unsorted = np.empty_like(components)
        unsorted[self.order] = components
        out = np.zeros((self.length, *components.shape[1:]))
        first = 0
        for blocks, rotation in zip(self.spaces, self.rotations, strict=True):
            own = rotation @ unsorted[first : first + rotation.shape[1]]
            first += rotation.shape[1]
            row = 0
            for block in blocks:
                out += block.T @ own[row : row + len(block)]
                row += len(block)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        if copy is False:
            raise ValueError("Vectors computed on demand need a copy: use copy=None.")
        return np.asarray(self @ np.eye(len(self.order)), dtype=dtype)
