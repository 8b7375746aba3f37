r"""Left-out residuals of filters that are mixtures of ridges, without refitting.

The left-out residual of a ridge has a closed form, with λ real or complex,

.. math:: \frac{e_i(\lambda)}{d_i} = \frac{r_i(\lambda)}{1 - h_i(\lambda)}
    = \frac{r_i + \sum_j a_{ij}\hat\beta_jp_j}{1 - h_i + \sum_j u_{ij}p_j}, \qquad
    p_j = \frac{\lambda}{\lambda + s_j},

with r, h and β̂ those of least squares and u the shares of the row in the directions. Both sums
vanish with λ, so that rows of leverage near one keep their digits. For a mixture, they are mixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.rows import RowBlock
from stoptime.support.arrays import Array, array_namespace, empty, like


@dataclass(frozen=True, eq=False)
class Ridges:
    """Ridges with complex penalties, and weights that mix them to some filters.

    The ``weights`` are those of a :class:`Span`, with a column for every filter. In tables, complex
    numbers are pairs of columns, so that their sums are real products. Results have two more
    columns for the ends of a path, nothing learned and least squares, which are zero.
    """

    eigenvalues: Array
    penalties: NDArray[np.complex128]
    weights: Array
    _tables: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def _whole(self) -> Array:
        """The weights, with two columns of zeros for the ends."""
        return np.column_stack([self.weights, np.zeros((len(self.weights), 2))])

    def numbers_per_row(self, n_targets: int) -> int:
        """Return about how many numbers are held for every row."""
        filters = self._whole.shape[1]
        held = 8 * len(self.penalties) + n_targets * filters
        if self.prefers_operators(n_targets):
            held += 2 * filters * len(self.eigenvalues)
        return held

    def prefers_operators(self, n_targets: int) -> bool:
        """Tell whether operators of the filters take fewer products than ridges of all targets."""
        ridges = 2 * len(self.penalties)
        filters = self.weights.shape[1]
        rank = len(self.eigenvalues)
        operators = filters * (ridges * (rank + 1) + n_targets * rank)
        return operators < n_targets * ridges * (rank + filters)

    def residuals(self, block: RowBlock, coef: Array, out: Any = None) -> Array:
        """Return e of every filter, (n_targets, n_rows, n_filters + 2), in ``out`` if given."""
        table = self._table(block.scores)
        weights = like(table, self._whole)
        inverse = self._inverse_rests(block, table) * block.stretch[:, None]
        coef = like(table, coef)
        if out is None:
            out = empty(table, (coef.shape[1], len(block.rest), weights.shape[1]))
        for target in range(coef.shape[1]):
            ridges = self._ridges(block, table * coef[:, target, None], target, inverse)
            out[target] = ridges @ weights
        return out

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        r"""Return α, (n_rows, n_filters + 2), and C, with rank numbers for each, for all targets.

        .. math:: e_i = \alpha_ir_i + \sum_jC_{ij}\hat\beta_j
        """
        table = self._table(block.scores)
        inverse = self._inverse_rests(block, table) * block.stretch[:, None]
        slopes = self._mixtures(inverse, table)
        slopes *= block.scores[:, None]
        return _pairs(inverse) @ like(table, self._whole), slopes

    def _mixtures(self, inverse: Any, table: Array) -> Array:
        """Return sums over k of Re(ω_k p_k / (1 - h)), of shape (n_rows, n_filters + 2, rank)."""
        shape = len(inverse), self._whole.shape[1], len(table)
        ridges = table.shape[1]
        if len(inverse) > ridges:
            # a linear map of 1/(1 - h), which takes less room than the result
            if "map" not in self._tables:
                units = _complex(like(table, np.eye(ridges)))
                whole = self._mixtures(units, table)
                self._tables["map"] = whole.reshape(ridges, shape[1] * shape[2])
            return (_pairs(inverse) @ self._tables["map"]).reshape(shape)
        # the real part of a product is that of pairs, with the conjugate of one of them
        mixed = _complex(like(table, np.ascontiguousarray(self._whole.T)))
        mixed = mixed * inverse.conj()[:, None]
        # one product of a tall matrix, instead of one for every row
        return (_pairs(mixed).reshape(-1, ridges) @ table.T).reshape(shape)

    def coefficients(self, block: RowBlock, coef: Array, mixed: Array) -> Array:
        r"""Return √s times the left-out coefficients, (n_targets, n_rows, rank).

        ``mixed`` are the coordinates of one filter in these, of shape (n_rows, n_filters).

        .. math:: \hat\beta_{-i,j} = \mathrm{Re}\sum_k \omega_k\,\frac{s_j}{\lambda_k + s_j}
            \Bigl(\hat\beta_j - \frac{\rho_i a_{ij}}{s_j}\,
            \frac{r_i(\lambda_k)}{1 - h_i(\lambda_k)}\Bigr)
        """
        table = self._table(block.scores)
        inverse = self._inverse_rests(block, table)
        own = mixed @ self.weights.T
        # s/(λ + s) as it is: one minus the shrinkage would cancel for small eigenvalues
        with np.errstate(over="ignore"):
            learned = like(table, _pairs(1 / (1 + self.penalties / self.eigenvalues[:, None])).T)
        whole = like(table, own) @ learned
        own = like(table, own[:, ::2] + 1j * own[:, 1::2])
        roots = like(table, np.sqrt(self.eigenvalues))
        pull = block.scores / roots * block.pull[:, None]
        coef = like(table, coef)
        out = []
        for target in range(coef.shape[1]):
            ridges = self._ridges(block, table * coef[:, target, None], target, inverse)
            change = _pairs(own * _complex(ridges).conj()) @ learned
            out.append(whole * (coef[:, target] * roots) - pull * change)
        return array_namespace(table).stack(out, axis=0)

    def _table(self, reference: Any) -> Any:
        """Return λ/(λ + s) in pairs, of shape (rank, 2·n_penalties)."""
        if "ridges" not in self._tables:
            # made where the rows are, because a large table would be slow to move
            eigenvalues = like(reference, self.eigenvalues)
            with np.errstate(over="ignore"):
                ridges = 1 / (1 + eigenvalues[:, None] / like(reference, self.penalties))
            self._tables["ridges"] = _pairs(ridges)
        return self._tables["ridges"]

    def _inverse_rests(self, block: RowBlock, table: Array) -> Any:
        """Return 1/(1 - h), of shape (n_rows, n_penalties)."""
        rest = _complex(block.shares @ table)
        rest += block.rest[:, None]
        return 1 / rest

    def _ridges(self, block: RowBlock, fits: Array, target: int, inverse: Any) -> Array:
        """Return e/d of every ridge for one target in pairs, times d if ``inverse`` has it."""
        out = block.scores @ fits
        numbers = _complex(out)
        numbers += block.residual[:, target, None]
        numbers *= inverse
        return out


def _complex(pairs: Any) -> Any:
    """Return a view of pairs in the last axis, which are in one piece, as complex numbers."""
    return pairs.view(array_namespace(pairs).complex128)


def _pairs(numbers: Any) -> Any:
    """Return a view of complex numbers, which are in one piece, as pairs in the last axis."""
    return numbers.view(array_namespace(numbers).float64)


def by_operators(alpha: Array, slopes: Array, block: RowBlock, coef: Array) -> Array:
    """Return e of all filters and targets from operators, of shape (n_targets, *alpha.shape)."""
    flat = slopes.reshape(alpha.shape[0] * alpha.shape[1], slopes.shape[2])
    out = (like(flat, coef).T @ flat.T).reshape(coef.shape[1], *alpha.shape)
    out += alpha * block.residual.T[..., None]
    return out


def least_squares_operators(block: RowBlock, eigenvalues: Array) -> tuple[Array, Array]:
    r"""Return α and C of least squares of minimum norm: ridge as its penalty vanishes.

    .. math:: \frac{e_i}{d_i} = \frac{r_i}{1 - h_i}, \quad\text{or}\quad
        \frac{\sum_j a_{ij}\hat\beta_j/s_j}{\sum_j u_{ij}/s_j} \text{ where the leverage is one}

    Shapes are (n_rows,) and (n_rows, rank), or (n_rows, 0) where no leverage is one.
    """
    alone = ~block.certain
    if not alone.any():
        return 1 / block.rest, block.scores[:, :0]
    # the sum with ``alone`` puts a one where the leverage is one, so that nothing divides by zero
    alpha = block.certain / (block.rest * block.certain + alone)
    # in units of the smallest eigenvalue, so that reciprocals do not overflow
    spread = like(block.scores, eigenvalues[0] / eigenvalues)
    slopes = block.scores * spread
    slopes /= ((block.shares @ spread) * alone + block.certain)[:, None]
    slopes *= alone[:, None]
    return alpha, slopes


def least_squares(block: RowBlock, eigenvalues: Array, coef: Array) -> Array:
    """Return e/d of least squares, of shape (n_rows, n_targets)."""
    alpha, slopes = least_squares_operators(block, eigenvalues)
    out = alpha[:, None] * block.residual
    return out + slopes @ like(slopes, coef) if slopes.shape[1] else out
