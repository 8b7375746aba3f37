"""Left-out residuals by a mixture of ridges with complex penalties, without refitting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.mixture import Numbers, RidgeMixture, for_real_part
from stoptime.left_out.rows import by_operators, in_single

from stoptime.support.arrays import (  # isort: skip
    Array, as_complex, as_real, empty, is_device_array, like, on_host, slices,
)  # fmt: skip

if TYPE_CHECKING:
    from stoptime.left_out.rows import ByTarget, RowBlock

CACHED_NUMBERS = 2**17  # of a temporary array: a megabyte, which stays in the cache


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
        if operators and self.mixture.is_ridge:
            return 2 * n_penalties
        tables = 5 + n_stops if operators else 3
        return tables * (n_penalties + len(self.eigenvalues))

    def prefers_operators(self, n_targets: int) -> bool:
        """Tell whether operators of these stops cost less than ridges of all these targets."""
        _, n_penalties, n_stops = self.real_weights.shape
        return n_stops * (n_penalties + n_targets) < n_penalties * n_targets

    @cached_property
    def _is_complex(self) -> bool:
        return np.iscomplexobj(self.mixture.penalties)

    def _table(self, block: RowBlock) -> Array:
        """Return λ/(λ + s), real and imaginary parts side by side, of shape (rank, 2·penalties)."""
        # made where the rows are, because a large table would be slow to move
        if not self._tables:
            eigenvalues = like(block.scores, self.eigenvalues)
            self._tables.append(as_real(self.mixture.shrinkages(eigenvalues)))
        return self._tables[0]

    @cached_property
    def _tables(self) -> list[Array]:
        """The table of the ridges, once it is made."""
        return []

    def _product(self, rows: Array, table: Array) -> Numbers:
        """Multiply real rows by a table of all ridges, in real arithmetic."""
        product = rows @ table
        return as_complex(product) if self._is_complex else product

    @property
    def real_weights(self) -> Array:
        """The weights of real and imaginary parts, of shape (n_scales, 2·penalties, n_stops)."""
        return self.mixture.real_weights

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

    def residuals_at(self, block: RowBlock, coef: Array, places: NDArray[np.intp]) -> Array:
        """Return e at some of the stops, of shape (n_places, n_rows, n_targets), if c is one."""
        ridges = block.remembered(self.mixture.penalties, lambda: self._ridges(block, coef))
        own = like(ridges, self.real_weights[0][:, places])
        return (ridges @ own).swapaxes(0, 2) * block.stretch[:, None]

    def squares(self, block: RowBlock, coef: Array, weights: Array) -> Array:
        """Return weighted sums of squares of e for weights of the ridges, (n_stops, n_targets)."""
        ridges = block.remembered(self.mixture.penalties, lambda: self._ridges(block, coef))
        mixed = ridges @ like(ridges, weights)
        mixed *= (block.weight**0.5 * block.stretch)[:, None]
        mixed *= mixed
        return mixed.sum(axis=1).T

    def products(self, block: RowBlock, coef: Array) -> Array:
        """Return the sums of products of the ridges' residuals, (n_targets, 2·k, 2·k)."""
        ridges = block.remembered(self.mixture.penalties, lambda: self._ridges(block, coef))
        ridges = ridges * (block.weight**0.5 * block.stretch)[:, None]
        return ridges.swapaxes(1, 2) @ ridges

    def _ridges(self, block: RowBlock, coef: Array) -> Array:
        """Return real and imaginary parts of the ridges' e/d, (n_targets, n_rows, 2·penalties)."""
        coef = like(block.scores, coef)
        table = self._table(block)
        tables = [table * own[:, None] for own in coef.T]
        shape = len(tables), len(block.rest), table.shape[1]
        out = empty(block.scores, shape)
        # a few rows at a time: on the host, memory for larger temporary arrays takes half the time
        height = len(block.rest) if is_device_array(out) else CACHED_NUMBERS // shape[2]
        for rows in slices(len(block.rest), height):
            inverse: Any = self._inverse_rests(block, rows)
            for target, residual in enumerate(block.residual.T):
                # added to the residual at λ = 0: rows of leverage near one keep their digits
                ridges = self._product(block.scores[rows], tables[target])
                ridges += residual[rows, None]
                ridges *= inverse
                out[target, rows] = as_real(ridges)
        return out

    def by_target(self, block: RowBlock, coef: Array, *, single: bool) -> ByTarget:
        """Return e as a function of a stop's place and targets."""
        if not self.mixture.is_ridge:
            return by_operators(block, *self.operators(block), coef, single=single)
        # one product a stop: operators, as large as the rows at every stop, need not be formed
        inverse: Any = self._inverse_rests(block) * block.stretch[:, None]
        table = self._table(block)
        coef = like(block.scores, coef)
        scores = block.scores
        residual = block.residual
        if single:
            scores, coef, table, residual, inverse = in_single(
                scores, coef, table, residual, inverse
            )

        def residuals(place: int, targets: Any) -> Array:
            out = scores @ (coef[:, targets] * table[:, place, None])
            out += residual[:, targets]
            out *= inverse[:, place, None]
            return out

        return residuals

    def _light_operators(self, block: RowBlock) -> tuple[Array, Array]:
        r"""Return the same in single precision, for rows of low leverage.

        .. math:: \frac1{1-h} = 1 + \frac h{1-h}

        The first term gives the residual of the fit to all rows, whose shrinkage needs no mixture.
        The second one is small: so are its rounding errors, which large weights multiply.
        """
        weights = self.mixture.weights[0]
        table = self.mixture.shrinkages(self.eigenvalues)
        whole = (table @ weights).real.T.astype(np.float32)
        (learned,) = in_single(as_real(1 - table))
        leverage = block.shares @ learned
        if self._is_complex:
            leverage = leverage.view(np.complex64)
        leverage /= 1 - leverage
        own = weights.T[:, None].astype(leverage.dtype) * leverage
        (back,) = in_single(for_real_part(table.T))
        slopes = np.ascontiguousarray(own).view(np.float32).reshape(-1, len(back)) @ back
        slopes = slopes.reshape(*own.shape[:2], -1)
        slopes += whole[:, None]
        slopes *= block.scores
        return 1 + own.sum(axis=2).real, slopes

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        """Return α, of shape (n_stops, n_rows), and C, of shape (n_stops, n_rows, rank)."""
        if block.is_light:
            return self._light_operators(block)
        weights = self.mixture.weights.swapaxes(1, 2)
        if len(weights) == 1:
            own = weights[0][:, None]
        else:
            portions = lagrange(self.scales, on_host(block.scale))
            own = np.tensordot(weights, portions, axes=(0, 1)).transpose(0, 2, 1)
        own = like(block.scores, own) * self._inverse_rests(block)
        # the real part alone is wanted, and takes half the time of a complex product
        flat = as_real(own).reshape(own.shape[0] * own.shape[1], -1)
        table = self._table(block)
        if self._is_complex:
            table = table * like(flat, np.resize([1.0, -1.0], table.shape[1]))
        slopes = flat @ table.T
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
        if self._is_complex:
            ridges = as_complex(ridges)
        own = lagrange(self.scales, on_host(block.scale)) @ self.mixture.weights[..., 0]
        own = like(block.scores, own)
        # s/(λ + s) as it is: one minus the shrinkage would cancel for small eigenvalues
        with np.errstate(over="ignore"):
            learned = 1 / (1 + self.mixture.penalties[:, None] / self.eigenvalues)
        table = like(block.scores, for_real_part(learned))
        pull = block.scores / roots * (block.weight * block.stretch)[:, None]
        whole = as_real(own) @ table
        changes = as_real(own * ridges) @ table
        return whole * (like(roots, coef) * roots[:, None]).T[:, None] - pull * changes

    def _inverse_rests(self, block: RowBlock, rows: Any = ...) -> Numbers:
        """Return 1/(1 - h) of some rows, of shape (n_rows, n_penalties)."""
        # the value at λ = 0 and a sum that vanishes there: the difference 1 - h would cancel
        rests = self._product(block.shares[rows], self._table(block))
        rests += block.rest[rows][:, None]
        return 1 / rests


def lagrange(nodes: Array, points: Array) -> Array:
    """Return the Lagrange polynomials of the nodes at the points, of shape (n_points, n_nodes)."""
    out = np.ones((len(points), len(nodes)))
    for index, node in enumerate(nodes):
        others = np.delete(nodes, index)
        out[:, index] = np.prod((points[:, None] - others) / (node - others), axis=1)
    return out
