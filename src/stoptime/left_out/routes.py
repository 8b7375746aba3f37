r"""Two exact routes to left-out residuals: a mixture of ridges, and the eigenvalues that remain.

For a block of rows a route gives the residuals of a few targets, or the operator

.. math:: e_i(t)/d_i = \alpha_i(t) r_i + \sum_j C_{ij}(t)\hat\beta_j

that all targets share, with r the least-squares residual and β̂ the least-squares coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.mixture import Numbers, RidgeMixture
from stoptime.left_out.rows import RowBlock
from stoptime.left_out.secular import Downdate, downdate
from stoptime.methods.base import Method
from stoptime.support.arrays import Array, as_complex, as_real, empty, like, on_host

WORK_PER_PAIR = (
    1500.0  # of eigenvalues: half a dozen steps of a few divisions, in units of a matrix product
)
WORK_PER_GAIN = 2500.0


class Route(Protocol):
    """What both routes offer."""

    @property
    def width(self) -> int:
        """Numbers held per row, about."""

    @property
    def depth(self) -> int:
        """Numbers held per row and stop while operators are formed, about."""

    def residuals(self, block: RowBlock, coef: Array) -> Array:
        """Return e/d, of shape (n_stops, n_rows, n_targets)."""

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        """Return α, of shape (n_stops, n_rows), and C, of shape (n_stops, n_rows, rank)."""


@dataclass(frozen=True)
class ByMixture:
    r"""Left-out residuals as the mixture of those of ridges, which have a closed form.

    .. math:: e_i(t)/d_i = \mathrm{Re}\sum_k \omega_k(t)\,\frac{r_i(\lambda_k)}{1 - h_i(\lambda_k)}

    Residual r and leverage h are written as their values for λ = 0 and a sum that vanishes there, so that
    rows of leverage near one keep their digits.

    Attributes
    ----------
    mixture : RidgeMixture
        At a few scales.
    scales : array of shape (n_scales,)
        Those scales; between them the weights are interpolated.
    eigenvalues : array of shape (rank,)
        Those of the data.
    """

    mixture: RidgeMixture
    scales: Array
    eigenvalues: Array

    def __str__(self) -> str:
        return f"a mixture of {len(self.mixture.penalties)} ridges"

    @property
    def width(self) -> int:
        """Numbers held per row, about."""
        return 4 * (int(self._real_weights.shape[1]) + len(self.eigenvalues))

    @property
    def depth(self) -> int:
        """Numbers held per row and stop while operators are formed, about."""
        return int(self._real_weights.shape[1]) + len(self.eigenvalues)

    @cached_property
    def _kernel(self) -> Numbers:
        return np.ascontiguousarray(self.mixture.shrinkages(self.eigenvalues))

    @cached_property
    def _transposed_kernel(self) -> Array:
        return _for_real_part(self._kernel.T)

    @cached_property
    def _real_weights(self) -> Array:
        return np.stack([_for_real_part(weights) for weights in self.mixture.weights])

    def residuals(self, block: RowBlock, coef: Array) -> Array:
        """Return e/d, of shape (n_stops, n_rows, n_targets)."""
        coef = like(block.scores, coef)
        inverse, portions = self._inverse_rests(block), lagrange(self.scales, on_host(block.scale))
        out = empty(block.scores, (coef.shape[1], len(block.rest), self._real_weights.shape[2]))
        for target, late in enumerate(block.late.T):
            ridges = _times(block.scores * coef[:, target], self._kernel)
            ridges += late[:, None]
            out[target] = _mixed(as_real(ridges * inverse), self._real_weights, portions)
        return out.swapaxes(0, 2)

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        """Return α, of shape (n_stops, n_rows), and C, of shape (n_stops, n_rows, rank)."""
        weights = self.mixture.weights.swapaxes(1, 2)
        if len(weights) == 1:
            own = weights[0][:, None]
        else:
            portions = lagrange(self.scales, on_host(block.scale))
            own = np.tensordot(weights, portions, axes=(0, 1)).transpose(0, 2, 1)
        own = like(block.scores, own) * self._inverse_rests(block)
        flat = as_real(own).reshape(own.shape[0] * own.shape[1], -1)
        slopes = (flat @ like(flat, self._transposed_kernel)).reshape(*own.shape[:2], -1)
        slopes *= block.scores
        return own.sum(axis=2).real, slopes

    def _inverse_rests(self, block: RowBlock) -> Numbers:
        """Return 1/(1 - h), of shape (n_rows, n_penalties)."""
        return 1 / (block.rest[:, None] + _times(block.shares, self._kernel))


def lagrange(nodes: Array, points: Array) -> Array:
    """Return the Lagrange polynomials of the nodes at the points, of shape (n_points, n_nodes).

    Examples
    --------
    >>> lagrange(np.array([0.0, 1.0]), np.array([0.0, 0.25]))
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    """
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
    """Return the real matrix that takes interleaved numbers to the real part of their product."""
    if np.iscomplexobj(table):
        return np.stack([table.real, -table.imag], axis=1).reshape(-1, table.shape[1])
    return np.asarray(table, np.float64)


def _mixed(numbers: Array, weights: Array, portions: Array) -> Array:
    if len(weights) == 1:
        return numbers @ like(numbers, weights[0])
    used = [
        (own, portion) for own, portion in zip(weights, portions.T, strict=True) if portion.any()
    ]
    return sum(
        like(numbers, portion[:, None]) * (numbers @ like(numbers, own)) for own, portion in used
    )


@dataclass(frozen=True)
class BySecular:
    r"""Left-out residuals from the eigenvalues λ that remain without the row.

    .. math:: e_i(t)/d_i = \tilde y_i + \sum_l \frac{c_i\varphi(c_i\lambda_l, t)}{h'_l}
        \Bigl(\frac{r_i}{\lambda_l} - \sum_j \frac{a_{ij}\hat\beta_j}{s_j - \lambda_l}\Bigr)

    with h′ the slope of the secular function. The price does not depend on the stop.

    Attributes
    ----------
    method : Method
        Already tuned to the spectrum.
    stops : array of shape (n_stops,)
        Positive and finite.
    eigenvalues : array of shape (rank,)
        Those of the data.
    """

    method: Method
    stops: Array
    eigenvalues: Array

    def __str__(self) -> str:
        return "secular equations"

    @property
    def work(self) -> float:
        """Floating-point operations per row of one target, about."""
        rank = len(self.eigenvalues)
        return float(rank * (WORK_PER_PAIR * rank + WORK_PER_GAIN * len(self.stops)))

    @property
    def width(self) -> int:
        """Numbers held per row, about."""
        return len(self.eigenvalues) * (4 * len(self.eigenvalues) + 3 * len(self.stops))

    @property
    def depth(self) -> int:
        """Numbers held per row and stop while operators are formed, about."""
        return 2 * len(self.eigenvalues)

    @cached_property
    def _poles(self) -> tuple[Array, NDArray[np.intp]]:
        """Distinct eigenvalues in units of the largest, and which of them every eigenvalue is."""
        distinct, place = np.unique(self.eigenvalues / self._unit, return_inverse=True)
        return distinct, place

    @property
    def _unit(self) -> float:
        return float(self.eigenvalues.max(initial=0)) or 1.0

    def _remaining(self, block: RowBlock) -> tuple[Downdate, Array]:
        """Return the remaining eigenvalues, and cφ(cλ, t)/h′ of shape (n_rows, n_poles, n_stops)."""
        found = downdate(self._poles[0], self._gathered(block.shares), block.rest)
        scale = block.scale[:, None] * self._unit
        gain = self.method.gain((scale * found.eigenvalues)[..., None], self.stops)
        gain[block.rest == 0, :1] = (
            0.0  # a row of leverage one leaves a null direction: no stop learns it
        )
        return found, gain * (scale / found.slopes)[..., None]

    def _gathered(self, values: Array) -> Array:
        """Sum over equal eigenvalues, along the last axis."""
        poles, place = self._poles
        if len(poles) == len(place):
            return values
        return np.add.reduceat(values, np.searchsorted(place, np.arange(len(poles))), axis=-1)

    def residuals(self, block: RowBlock, coef: Array) -> Array:
        """Return e/d, of shape (n_stops, n_rows, n_targets)."""
        found, gains = self._remaining(block)
        parts = self._gathered(block.scores[:, None] * coef.T).swapaxes(1, 2)
        drive = (1 / found.gaps) @ parts
        drive -= (1 / found.eigenvalues)[..., None] * block.late[:, None]
        return np.asarray(block.targets - (gains.swapaxes(1, 2) @ drive).swapaxes(0, 1))

    def operators(self, block: RowBlock) -> tuple[Array, Array]:
        """Return α, of shape (n_stops, n_rows), and C, of shape (n_stops, n_rows, rank)."""
        found, gains = self._remaining(block)
        late = 1 + (gains / found.eigenvalues[..., None]).sum(axis=1)
        slopes = 1 - gains.swapaxes(1, 2) @ (1 / found.gaps)
        return late.T, slopes.swapaxes(0, 1)[..., self._poles[1]] * block.scores


def least_squares(block: RowBlock, eigenvalues: Array, coef: Array, late: Array) -> Array:
    r"""Return e/d at t = ∞, least squares of minimum norm: ridge as its penalty vanishes.

    .. math:: \frac{r_i}{1 - h_i}, \qquad\text{or}\qquad
        \frac{\sum_j a_{ij}\hat\beta_j/s_j}{\sum_j u_{ij}^2/s_j} \quad\text{where the leverage is one}
    """
    alone = ~block.certain
    out = late / (block.rest * block.certain + alone)[:, None]
    if alone.any():
        spread = like(late, eigenvalues[0] / eigenvalues)
        change = (block.scores[alone] * spread) @ like(late, coef)
        out[alone] = change / (block.shares[alone] @ spread)[:, None]
    return out
