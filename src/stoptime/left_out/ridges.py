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

from stoptime.left_out.span import lagrange
from stoptime.support.arrays import Array, array_namespace, like, on_host

if TYPE_CHECKING:
    from stoptime.left_out.rows import RowBlock
    from stoptime.left_out.span import Span


@dataclass(frozen=True, eq=False)
class Mixture:
    """Ridges, and weights that mix them to some columns; see :class:`stoptime.left_out.span.Span`.

    The filters that are wanted are in turn mixtures of these columns, with ``coordinates`` of shape
    (n_scales, n_columns, n_stops) at a few ``scales``; between the scales they are interpolated.
    """

    eigenvalues: Array
    penalties: NDArray[np.complex128]
    weights: Array
    scales: Array
    coordinates: Array

    @classmethod
    def of(cls, eigenvalues: Array, span: Span, scales: Array, coordinates: Array) -> Mixture:
        """Return the mixtures of the basis filters of a span."""
        return cls(eigenvalues, span.contour.penalties, span.weights, scales, coordinates)

    def numbers_per_row(self, n_targets: int) -> int:
        """Return about how many numbers are held for every row."""
        columns = self.weights.shape[1]
        held = 8 * len(self.penalties) + n_targets * (columns + self.coordinates.shape[2])
        if self._prefers_operators(n_targets):
            held += columns * (len(self.eigenvalues) + 2 * len(self.penalties))
        return held

    def _table(self, reference: Any) -> Any:
        """Return the real and imaginary parts of λ/(λ + s), of shape (rank, 2·penalties)."""
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

    def _prefers_operators(self, n_targets: int) -> bool:
        """Tell whether operators of the columns take fewer products than ridges of all targets."""
        ridges = 2 * len(self.penalties)
        columns = self.weights.shape[1]
        rank = len(self.eigenvalues)
        return columns * rank * (ridges + n_targets) < n_targets * ridges * (rank + columns)

    def columns(self, block: RowBlock, coef: Array) -> Array:
        """Return e/d of every column, of shape (n_columns, n_rows, n_targets)."""
        if self._prefers_operators(coef.shape[1]):
            alpha, slopes = self._operators(block)
            out = slopes @ like(slopes, coef)
            out += alpha[..., None] * block.residual
            return out
        count = len(self.penalties)
        table = self._table(block.scores)
        real, imaginary, whole = (
            like(table, part) for part in np.split(self.weights, [count, 2 * count])
        )
        inverse = self._inverse_rests(block, table)
        coef = like(table, coef)
        out = []
        for target, residual in enumerate(block.residual.T):
            top = block.scores @ (table * coef[:, target, None])
            top[:, :count] += residual[:, None]
            a, b = _product(top, inverse)
            mixed = a @ real
            mixed += b @ imaginary
            mixed += block.targets[:, target, None] * whole
            out.append(mixed.T)
        return array_namespace(table).stack(out, axis=2)

    def residuals(self, block: RowBlock, coef: Array) -> Array:
        """Return e/d at every stop, of shape (n_stops, n_rows, n_targets)."""
        return self.mixed(self.columns(block, coef), block.scale)

    def mixed(self, columns: Array, scale: Array) -> Array:
        """Return e/d at every stop from e/d of the columns."""
        flat = columns.reshape(columns.shape[0], -1)
        shape = self.coordinates.shape[2], *columns.shape[1:]
        parts = [(like(flat, own.T) @ flat).reshape(shape) for own in self.coordinates]
        return self._interpolated(parts, scale)

    def mixed_by_target(self, columns: Array, scale: Array, own: NDArray[np.intp]) -> Array:
        """Return e/d of every target at its own stop, of shape (n_rows, n_targets)."""
        parts = [
            (columns * like(columns, coordinates[:, own])[:, None]).sum(axis=0)
            for coordinates in self.coordinates
        ]
        return self._interpolated(parts, scale)

    def _interpolated(self, parts: list[Array], scale: Array) -> Array:
        """Return numbers of rows, along the last but one axis, from those at every scale."""
        if len(parts) == 1:
            return parts[0]
        portions = lagrange(self.scales, on_host(scale)).T
        pairs = zip(parts, portions, strict=True)
        weighted = [like(part, portion)[:, None] * part for part, portion in pairs]
        return sum(weighted[1:], weighted[0])

    def _inverse_rests(self, block: RowBlock, table: Array) -> tuple[Array, Array]:
        """Return real and imaginary parts of 1/(1 - h), each of shape (n_rows, n_penalties)."""
        count = len(self.penalties)
        rests = block.shares @ table
        a = rests[:, :count] + block.rest[:, None]
        b = rests[:, count:]
        size = 1 / (a * a + b * b)
        return a * size, -b * size

    def _operators(self, block: RowBlock) -> tuple[Array, Array]:
        r"""Return α, (n_columns, n_rows), and C, (n_columns, n_rows, rank), for all targets.

        .. math:: e_i/d_i = \alpha_ir_i + \sum_jC_{ij}\hat\beta_j
        """
        count = len(self.penalties)
        table = self._table(block.scores)
        real, imaginary, whole = (
            like(table, part) for part in np.split(self.weights, [count, 2 * count])
        )
        inverse = self._inverse_rests(block, table)
        # the mixture as a sum of Re(ω/(1 - h)·p), of which the parts of ω/(1 - h) come first
        a = inverse[0] * real.T[:, None] + inverse[1] * imaginary.T[:, None]
        b = inverse[0] * imaginary.T[:, None] - inverse[1] * real.T[:, None]
        slopes = a @ table[:, :count].T
        slopes += b @ table[:, count:].T
        slopes += whole.T[:, None]
        slopes *= block.scores
        return a.sum(axis=2) + whole.T, slopes

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        """Return the same for every stop, for rows that have the only scale."""
        alpha, slopes = self._operators(block)
        own = self.coordinates[0].T
        return own @ alpha, np.tensordot(own, slopes, axes=1)

    def coefficients(self, block: RowBlock, coef: Array) -> Array:
        r"""Return √s times the left-out coefficients at one stop, (n_targets, n_rows, rank).

        .. math:: \hat\beta_{-i,j} = \mathrm{Re}\sum_k \omega_k\,\frac{s_j}{\lambda_k + s_j}
            \Bigl(\hat\beta_j - \frac{\rho_i a_{ij}}{s_j}\,
            \frac{r_i(\lambda_k)}{1 - h_i(\lambda_k)}\Bigr)
        """
        count = len(self.penalties)
        table = self._table(block.scores)
        portions = lagrange(self.scales, on_host(block.scale))
        # weights of the ridges for each row; those of the infinite penalty, which learns nothing,
        # do not matter
        own = like(table, portions @ (self.weights @ self.coordinates[..., 0].T).T)
        inverse = self._inverse_rests(block, table)
        # s/(λ + s) as it is: one minus the shrinkage would cancel for small eigenvalues
        with np.errstate(over="ignore"):
            learned = 1 / (1 + self.penalties / self.eigenvalues[:, None])
        real = like(table, learned.real.T)
        imaginary = like(table, learned.imag.T)
        whole = own[:, :count] @ real + own[:, count : 2 * count] @ imaginary
        roots = like(table, np.sqrt(self.eigenvalues))
        pull = block.scores / roots * (block.weight * block.stretch)[:, None]
        coef = like(table, coef)
        out = []
        for target, residual in enumerate(block.residual.T):
            top = block.scores @ (table * coef[:, target, None])
            top[:, :count] += residual[:, None]
            a, b = _product(top, inverse)
            # Re(ω e p) with ω = x - iy, since the weights are those of real and imaginary parts
            x = own[:, :count]
            y = own[:, count : 2 * count]
            change = (x * a + y * b) @ real + (y * a - x * b) @ imaginary
            out.append(whole * (coef[:, target] * roots) - pull * change)
        return array_namespace(table).stack(out, axis=0)


def _product(top: Array, inverse: tuple[Array, Array]) -> tuple[Array, Array]:
    """Multiply complex numbers: real and imaginary parts side by side, and in two arrays."""
    count = inverse[0].shape[1]
    a = top[:, :count] * inverse[0] - top[:, count:] * inverse[1]
    b = top[:, :count] * inverse[1] + top[:, count:] * inverse[0]
    return a, b


def least_squares(block: RowBlock, eigenvalues: Array, coef: Array) -> Array:
    r"""Return e/d at t = ∞, least squares of minimum norm: ridge as its penalty vanishes.

    .. math:: \frac{r_i}{1 - h_i}, \quad\text{or}\quad
        \frac{\sum_j a_{ij}\hat\beta_j/s_j}{\sum_j u_{ij}/s_j} \text{ where the leverage is one}
    """
    alone = ~block.certain
    # the sum with ``alone`` puts a one where the leverage is one, so that nothing divides by zero
    out = block.residual / (block.rest * block.certain + alone)[:, None]
    if alone.any():
        # in units of the smallest eigenvalue, so that reciprocals do not overflow
        spread = like(out, eigenvalues[0] / eigenvalues)
        change = (block.scores[alone] * spread) @ like(out, coef)
        out[alone] = change / (block.shares[alone] @ spread)[:, None]
    return out
