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

from stoptime.support.arrays import EPS, TINY, Floats, as_dtype, like, on_host

ILL_CONDITIONED = (
    "penalty_matrix is too ill-conditioned to be solved as a sparse matrix: a matrix of more than "
    "2000 columns must penalise every direction, so append small multiples of unit vectors to it; "
    "take Differences of a lower order, or fewer coefficients along an axis."
)


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
        count = np.ceil(np.log(1e-12) / np.log(np.clip(ratio, TINY, 1 - EPS))) - 1
        # three corrections are the most that help; more are needed where L has no full rank
        if not count <= 3:
            raise ValueError(ILL_CONDITIONED)
        return max(int(count), 0)

    def checked(self) -> Solves:
        """Return the same; raise a ValueError if L is too ill-conditioned to be solved."""
        try:
            _ = self._factors if self._is_square else self._refinements
        except RuntimeError:  # exactly singular
            raise ValueError(ILL_CONDITIONED) from None
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # the factors of SuperLU cannot be pickled
        return Solves, (self.matrix, self.null)
