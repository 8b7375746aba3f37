r"""Pseudo-inverses of sparse penalty matrices L, applied by solves.

A pseudo-inverse is dense, but a product with it is a least-squares problem, and a sparse one. The
basis W of the null space of L tells which coordinates E determine it; with these held at zero

.. math:: L^+\gamma = (I - WW^T)\beta, \qquad (L^TL + EE^T)\beta = L^T\gamma.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import SuperLU, splu

from stoptime.support.arrays import EPS, TINY, Array, Floats, as_dtype, like, on_host

MOST_REFINEMENTS = 3  # corrections of a solution that squares of L have made inaccurate
SOLVE_ACCURACY = 1e-12  # relative error of the solutions that corrections aim for
FIRST_NULL_VECTORS = 8  # vectors in which a null space is first sought
MOST_NULL_VECTORS = 64  # directions that a sparse matrix may leave unpenalised
NULL_SHIFT = 1e-12  # times the size of LᵀL, added to it so that it is invertible
NULL_ITERATIONS = 5  # inverse iterations: each divides other directions by σ²/NULL_SHIFT


@dataclass(frozen=True)
class Solves:
    """The pseudo-inverse of a sparse L; the columns of ``null``, a basis of its null space."""

    matrix: sparse.csr_array
    null: Floats

    @property
    def rank(self) -> int:
        """The rank of L."""
        return int(self.null.shape[0] - self.null.shape[1])

    @property
    def width(self) -> int:
        """Number of rows of L, which may be larger than its rank."""
        return int(self.matrix.shape[0])

    def of_rows(self, X: Any) -> Any:
        """Return XL⁺."""
        rows = np.asarray(on_host(X), np.float64).T
        rows = rows - self.null @ (self.null.T @ rows)
        L = self._scaled
        if self._is_square:
            found = self._factors.solve(rows, trans="T")[: self.width]
        else:
            found = L @ self._factors.solve(rows)
            for _ in range(self._refinements):
                found += L @ self._factors.solve(rows - L.T @ found)
        return as_dtype(like(X, np.ascontiguousarray(found.T) / self._unit), X.dtype)

    def __matmul__(self, components: Any) -> Any:
        given = np.asarray(on_host(components), np.float64)
        L = self._scaled
        if self._is_square:
            pinned = np.zeros((self.null.shape[1], *given.shape[1:]))
            found = self._factors.solve(np.concatenate([given, pinned]))
        else:
            found = self._factors.solve(L.T @ given)
            for _ in range(self._refinements):
                found += self._factors.solve(L.T @ (given - L @ found))
        found -= self.null @ (self.null.T @ found)
        return as_dtype(like(components, found / self._unit), components.dtype)

    @cached_property
    def _unit(self) -> float:
        return float(abs(self.matrix).max())

    @cached_property
    def _scaled(self) -> sparse.csr_array:
        # squares of extreme entries would overflow or underflow
        return self.matrix / self._unit

    @property
    def _is_square(self) -> bool:
        """Whether L has full row rank, so that it is solved as it is, without its square."""
        return self.width == self.rank

    @cached_property
    def _factors(self) -> SuperLU:
        p, free = self.null.shape
        # a unit vector for each direction of the null space, as far from its complement as possible
        places = linalg.qr(self.null.T, mode="r", pivoting=True)[1][:free] if free else []
        pinned = sparse.csr_array((np.ones(free), (np.arange(free), places)), shape=(free, p))
        if self._is_square:
            return splu(sparse.vstack([self._scaled, pinned]).tocsc())
        normal = self._scaled.T @ self._scaled + pinned.T @ pinned
        # a positive definite matrix needs no pivots, and an ordering of its own pattern fills least
        options: Any = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}
        return splu(normal.tocsc(), diag_pivot_thresh=0.0, **options)

    @cached_property
    def _refinements(self) -> int:
        """Number of corrections, the same for every product, which keeps products adjoint."""
        L = self._scaled
        given = L.T @ np.random.default_rng(0).standard_normal(self.width)
        found = self._factors.solve(given)
        change = self._factors.solve(given - L.T @ (L @ found))
        # every correction multiplies the error by about this ratio
        ratio = float(np.linalg.norm(change) / np.linalg.norm(found))
        count = np.ceil(np.log(SOLVE_ACCURACY) / np.log(np.clip(ratio, TINY, 1 - EPS))) - 1
        if count > MOST_REFINEMENTS:
            raise ValueError(
                "penalty_matrix is too ill-conditioned to be solved as a sparse matrix: use "
                "differences of a lower order, or fewer coefficients along an axis."
            )
        return max(int(count), 0)

    def __reduce__(self) -> tuple[Any, ...]:
        # the factors of SuperLU cannot be pickled
        return Solves, (self.matrix, self.null)


def null_space(matrix: sparse.csr_array) -> Array:
    """Return an orthonormal basis of the null space of a sparse L, by inverse iteration."""
    L = matrix / abs(matrix).max()
    normal = (L.T @ L).tocsc()
    size = float(abs(normal).sum(axis=0).max())
    factors = splu(normal + NULL_SHIFT * size * sparse.eye_array(L.shape[1], format="csc"))
    count = FIRST_NULL_VECTORS
    while count <= MOST_NULL_VECTORS:
        basis = np.random.default_rng(0).standard_normal((L.shape[1], count))
        for _ in range(NULL_ITERATIONS):
            basis = linalg.qr(factors.solve(basis), mode="economic")[0]
        # images are computed from L itself, so that they are not squares
        _, lengths, turn = linalg.svd(L @ basis, full_matrices=False)
        found = lengths <= EPS * max(L.shape) * np.sqrt(size)
        if not found.all():
            return np.asarray(basis @ turn[found].T)
        count *= 2
    raise ValueError(
        f"penalty_matrix leaves more than {MOST_NULL_VECTORS} directions unpenalised, which is too "
        "many for a sparse matrix of this size: append small multiples of unit vectors to it."
    )
