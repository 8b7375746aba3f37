r"""Left-out residuals of filters that are mixtures of ridges, without refitting.

The left-out residual of a ridge has a closed form, with λ real or complex,

.. math:: \frac{e_i(\lambda)}{d_i} = \frac{r_i(\lambda)}{1 - h_i(\lambda)}
    = \frac{r_i + \sum_j a_{ij}\hat\beta_jp_j}{1 - h_i + \sum_j u_{ij}p_j}, \qquad
    p_j = \frac{\lambda}{\lambda + s_j},

with r, h and β̂ those of least squares and u the shares of the row in the directions. Both sums
vanish with λ, so that rows of leverage near one keep their digits. The left-out residual of a
mixture of ridges is the mixture of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Array, array_namespace, empty, like

if TYPE_CHECKING:
    from stoptime.left_out.rows import RowBlock


@dataclass(frozen=True, eq=False)
class Ridges:
    """Ridges with complex penalties, and weights that mix them to some filters.

    ``weights`` has a row for the real part of every ridge λ/(λ + s), one for every imaginary part,
    and one for the infinite penalty, whose ridge is one; and a column for every filter.
    """

    eigenvalues: Array
    penalties: NDArray[np.complex128]
    weights: Array

    def numbers_per_row(self, n_targets: int) -> int:
        """Return about how many numbers are held for every row."""
        filters = self.weights.shape[1]
        held = 8 * len(self.penalties) + n_targets * filters
        if self._prefers_operators(n_targets):
            held += filters * (len(self.eigenvalues) + 2 * len(self.penalties))
        return held

    def _prefers_operators(self, n_targets: int) -> bool:
        """Tell whether operators of the filters take fewer products than ridges of all targets."""
        ridges = 2 * len(self.penalties)
        filters = self.weights.shape[1]
        rank = len(self.eigenvalues)
        return filters * rank * (ridges + n_targets) < n_targets * ridges * (rank + filters)

    def residuals(self, block: RowBlock, coef: Array) -> Array:
        """Return e/d of every filter, of shape (n_filters, n_rows, n_targets), where rows are."""
        if self._prefers_operators(coef.shape[1]):
            alpha, slopes = self.operators(block)
            out = slopes @ like(slopes, coef)
            out += alpha[..., None] * block.residual
            return out
        table = self._table(block.scores)
        real, imaginary, whole = self._parts(table)
        inverse = self._inverse_rests(block, table)
        coef = like(table, coef)
        out = empty(table, (self.weights.shape[1], *block.residual.shape))
        for target, residual in enumerate(block.residual.T):
            a, b = self._ridges(block, table * coef[:, target, None], residual, inverse)
            mixed = a @ real
            mixed += b @ imaginary
            mixed += block.targets[:, target, None] * whole
            out[:, :, target] = mixed.T
        return out

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        r"""Return α, (n_filters, n_rows), and C, (n_filters, n_rows, rank), for all targets.

        .. math:: e_i/d_i = \alpha_ir_i + \sum_jC_{ij}\hat\beta_j
        """
        count = len(self.penalties)
        table = self._table(block.scores)
        real, imaginary, whole = self._parts(table)
        inverse = self._inverse_rests(block, table)
        # the mixture as a sum of Re(ω/(1 - h)·p), of which the parts of ω/(1 - h) come first
        a = inverse[0] * real.T[:, None] + inverse[1] * imaginary.T[:, None]
        b = inverse[0] * imaginary.T[:, None] - inverse[1] * real.T[:, None]
        slopes = a @ table[:, :count].T
        slopes += b @ table[:, count:].T
        slopes += whole.T[:, None]
        slopes *= block.scores
        return a.sum(axis=2) + whole.T, slopes

    def coefficients(self, block: RowBlock, coef: Array, mixed: Array) -> Array:
        r"""Return √s times the left-out coefficients, (n_targets, n_rows, rank).

        ``mixed`` are the coordinates of one filter in these, of shape (n_rows, n_filters).

        .. math:: \hat\beta_{-i,j} = \mathrm{Re}\sum_k \omega_k\,\frac{s_j}{\lambda_k + s_j}
            \Bigl(\hat\beta_j - \frac{\rho_i a_{ij}}{s_j}\,
            \frac{r_i(\lambda_k)}{1 - h_i(\lambda_k)}\Bigr)
        """
        count = len(self.penalties)
        table = self._table(block.scores)
        inverse = self._inverse_rests(block, table)
        # ω = x - iy, since the weights are those of real and imaginary parts; the weight of the
        # infinite penalty, which learns nothing, does not matter
        own = like(table, mixed @ self.weights.T)
        x = own[:, :count]
        y = own[:, count : 2 * count]
        # s/(λ + s) as it is: one minus the shrinkage would cancel for small eigenvalues
        with np.errstate(over="ignore"):
            learned = 1 / (1 + self.penalties / self.eigenvalues[:, None])
        real = like(table, learned.real.T)
        imaginary = like(table, learned.imag.T)
        whole = x @ real + y @ imaginary
        roots = like(table, np.sqrt(self.eigenvalues))
        pull = block.scores / roots * (block.weight * block.stretch)[:, None]
        coef = like(table, coef)
        out = []
        for target, residual in enumerate(block.residual.T):
            a, b = self._ridges(block, table * coef[:, target, None], residual, inverse)
            change = (x * a + y * b) @ real + (y * a - x * b) @ imaginary
            out.append(whole * (coef[:, target] * roots) - pull * change)
        return array_namespace(table).stack(out, axis=0)

    def _table(self, reference: Any) -> Any:
        """Return the real and imaginary parts of λ/(λ + s), of shape (rank, 2·n_penalties)."""
        if not self._tables:
            # made where the rows are, because a large table would be slow to move
            eigenvalues = like(reference, self.eigenvalues)
            with np.errstate(over="ignore"):
                ridges = 1 / (1 + eigenvalues[:, None] / like(reference, self.penalties))
            xp = array_namespace(eigenvalues)
            self._tables.append(xp.concat([xp.real(ridges), xp.imag(ridges)], axis=1))
        return self._tables[0]

    @cached_property
    def _tables(self) -> list[Any]:
        """The table of the ridges, once it is made."""
        return []

    def _parts(self, table: Array) -> list[Array]:
        """Return the weights of real parts, of imaginary parts and of the infinite penalty."""
        count = len(self.penalties)
        return [like(table, part) for part in np.split(self.weights, [count, 2 * count])]

    def _inverse_rests(self, block: RowBlock, table: Array) -> tuple[Array, Array]:
        """Return real and imaginary parts of 1/(1 - h), each of shape (n_rows, n_penalties)."""
        count = len(self.penalties)
        rests = block.shares @ table
        a = rests[:, :count] + block.rest[:, None]
        b = rests[:, count:]
        size = 1 / (a * a + b * b)
        return a * size, -b * size

    def _ridges(
        self, block: RowBlock, fits: Array, residual: Array, inverse: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Return real and imaginary parts of e/d of every ridge, for one target."""
        count = len(self.penalties)
        top = block.scores @ fits
        top[:, :count] += residual[:, None]
        a = top[:, :count] * inverse[0] - top[:, count:] * inverse[1]
        b = top[:, :count] * inverse[1] + top[:, count:] * inverse[0]
        return a, b


def least_squares(block: RowBlock, eigenvalues: Array, coef: Array) -> Array:
    """Return e/d of least squares, of shape (n_rows, n_targets)."""
    alpha, slopes = least_squares_operators(block, eigenvalues)
    out = alpha[:, None] * block.residual
    if slopes.shape[1]:
        out += slopes @ like(slopes, coef)
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
