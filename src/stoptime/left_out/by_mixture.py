"""Left-out residuals by a mixture of ridges with complex penalties, without refitting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stoptime.left_out.mixture import Numbers, RidgeMixture
from stoptime.support.arrays import Array, as_complex, as_real, empty, like, on_host

if TYPE_CHECKING:
    from stoptime.left_out.rows import RowBlock


@dataclass(frozen=True)
class ByMixture:
    r"""Left-out residuals as the mixture of those of ridges, which have a closed form.

    .. math:: e_i(t)/d_i = \mathrm{Re}\sum_k \omega_k(t)\,\frac{r_i(\lambda_k)}{1 - h_i(\lambda_k)}

    The mixture has weights at a few scales; between the scales the weights are interpolated.
    """

    mixture: RidgeMixture
    scales: Array
    eigenvalues: Array
    runs_on_host: ClassVar[bool] = False  # products are fast where the data are

    def numbers_per_row(self, *, operators: bool) -> int:
        """Return about how many numbers are held for every row."""
        _, n_penalties, n_stops = self.real_weights.shape
        return (4 + n_stops * operators) * (n_penalties + len(self.eigenvalues))

    @cached_property
    def _shrinkages(self) -> Numbers:
        return np.ascontiguousarray(self.mixture.shrinkages(self.eigenvalues))

    @cached_property
    def real_weights(self) -> Array:
        """The weights of real and imaginary parts, of shape (n_scales, 2·penalties, n_stops)."""
        return np.stack([_for_real_part(weights) for weights in self.mixture.weights])

    def residuals(self, block: RowBlock, coef: Array) -> Array:
        """Return e/d, of shape (n_stops, n_rows, n_targets)."""
        ridges = block.remembered(self.mixture.penalties, lambda: self._ridges(block, coef))
        if len(self.scales) == 1:
            return (ridges @ like(ridges, self.real_weights[0])).swapaxes(0, 2)
        portions = lagrange(self.scales, on_host(block.scale))
        mixed = [
            like(ridges, portion[:, None]) * (ridges @ like(ridges, own))
            for own, portion in zip(self.real_weights, portions.T, strict=True)
            if portion.any()
        ]
        return sum(mixed[1:], mixed[0]).swapaxes(0, 2)

    def products(self, block: RowBlock, coef: Array) -> Array:
        """Return the sums of products of the ridges' residuals, (n_targets, 2·k, 2·k)."""
        ridges = block.remembered(self.mixture.penalties, lambda: self._ridges(block, coef))
        ridges = ridges * (block.weight**0.5 * block.stretch)[:, None]
        return ridges.swapaxes(1, 2) @ ridges

    def _ridges(self, block: RowBlock, coef: Array) -> Array:
        """Return real and imaginary parts of the ridges' e/d, (n_targets, n_rows, 2·penalties)."""
        inverse = self._inverse_rests(block)
        coef = like(block.scores, coef)
        width = as_real(self._shrinkages).shape[1]
        out = empty(block.scores, (coef.shape[1], len(block.rest), width))
        for target, residual in enumerate(block.residual.T):
            # added to the residual at λ = 0, so that rows of leverage near one keep their digits
            ridges = _times(block.scores * coef[:, target], self._shrinkages)
            ridges += residual[:, None]
            out[target] = as_real(ridges * inverse)
        return out

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        """Return α, of shape (n_stops, n_rows), and C, of shape (n_stops, n_rows, rank)."""
        weights = self.mixture.weights.swapaxes(1, 2)
        if len(weights) == 1:
            own = weights[0][:, None]
        else:
            portions = lagrange(self.scales, on_host(block.scale))
            own = np.tensordot(weights, portions, axes=(0, 1)).transpose(0, 2, 1)
        own = like(block.scores, own) * self._inverse_rests(block)
        # the real part alone is wanted, and takes half the time of a complex product
        flat = as_real(own).reshape(own.shape[0] * own.shape[1], -1)
        slopes = flat @ like(flat, _for_real_part(self._shrinkages.T))
        slopes = slopes.reshape(*own.shape[:2], -1)
        slopes *= block.scores
        return own.sum(axis=2).real, slopes

    def coefficients(self, block: RowBlock, coef: Array) -> Array:
        r"""Return √s times the left-out coefficients at one stop, (n_targets, n_rows, rank).

        .. math:: \hat\beta_{-i,j} = \mathrm{Re}\sum_k \omega_k\,\frac{s_j}{\lambda_k + s_j}
            \Bigl(\hat\beta_j - \frac{\rho_i a_{ij}}{s_j}\,
            \frac{r_i(\lambda_k)}{1 - h_i(\lambda_k)}\Bigr)
        """
        roots = like(block.scores, np.sqrt(self.eigenvalues))
        ridges = block.remembered(self.mixture.penalties, lambda: self._ridges(block, coef))
        if np.iscomplexobj(self.mixture.penalties):
            ridges = as_complex(ridges)
        own = lagrange(self.scales, on_host(block.scale)) @ self.mixture.weights[..., 0]
        own = like(block.scores, own)
        # s/(λ + s) as it is: one minus the shrinkage would cancel for small eigenvalues
        with np.errstate(over="ignore"):
            learned = 1 / (1 + self.mixture.penalties[:, None] / self.eigenvalues)
        table = like(block.scores, _for_real_part(learned))
        pull = block.scores / roots * (block.weight * block.stretch)[:, None]
        whole = as_real(own) @ table
        changes = as_real(own * ridges) @ table
        return whole * (like(roots, coef) * roots[:, None]).T[:, None] - pull * changes

    def _inverse_rests(self, block: RowBlock) -> Numbers:
        """Return 1/(1 - h), of shape (n_rows, n_penalties)."""
        # the value at λ = 0 and a sum that vanishes there: the difference 1 - h would cancel
        return 1 / (block.rest[:, None] + _times(block.shares, self._shrinkages))


def lagrange(nodes: Array, points: Array) -> Array:
    """Return the Lagrange polynomials of the nodes at the points, of shape (n_points, n_nodes)."""
    out = np.ones((len(points), len(nodes)))
    for index, node in enumerate(nodes):
        others = np.delete(nodes, index)
        out[:, index] = np.prod((points[:, None] - others) / (node - others), axis=1)
    return out


def _times(real: Array, table: Numbers) -> Numbers:
    """Multiply a real by a real or complex matrix, in real arithmetic."""
    product = real @ like(real, as_real(table))
    return as_complex(product) if np.iscomplexobj(table) else product


def _for_real_part(table: Numbers) -> Array:
    """Return the real matrix that maps interleaved vectors to the real part of a product."""
    if np.iscomplexobj(table):
        return np.stack([table.real, -table.imag], axis=1).reshape(-1, table.shape[1])
    return np.asarray(table, np.float64)
