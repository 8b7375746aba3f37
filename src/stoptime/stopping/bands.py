r"""Scales for bands of columns: ridge's error with its gradient, and searches for the least error.

With all penalties equal to one and scales δ = exp(θ), the ridge of centred, weighted rows has

.. math:: Q = \Bigl(I + \sum_b\delta_b^2X_bX_b^T\Bigr)^{-1}, \qquad a = Qy, \qquad
    \frac{\partial Q}{\partial\theta_b} = -2\delta_b^2QX_bX_b^TQ

and errors of rows that are left out are :math:`Q_{FF}^{-1}a_F`, with F one row or a fold. An
intercept subtracts the projection on the constant from Q.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.optimize import minimize

from stoptime.methods.ridge import Ridge
from stoptime.spectrum.accuracy import is_constant
from stoptime.spectrum.data import Data, Want
from stoptime.spectrum.kernel import KernelData
from stoptime.spectrum.penalised import Penalised
from stoptime.spectrum.penalty import Bands
from stoptime.spectrum.row_data import RowData
from stoptime.spectrum.rows import Sample
from stoptime.stopping.grid import grid_of
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Rule
from stoptime.support.arrays import EPS, TINY, Array

MANY_TARGETS = 16  # for which every stop costs as much as the factorisation
LOG_RANGE = 9.0  # a scale may differ by exp(9) from that at which its band has the size of noise


class Ridges(NamedTuple):
    """The ridge at some scales, and the derivative of an error by the logarithms of the scales."""

    dual: Array  # the a above, of shape (n, n_targets)
    diagonal: Array  # of Q, without the constant
    block: Callable[[NDArray[np.intp]], Array]  # of Q, without the constant
    # takes the derivatives of the error by a, and the product of those by Q with a matrix
    gradient: Callable[[Array, Callable[[Array], Array]], Array]


@dataclass(frozen=True)
class BandedRows:
    """Rows whose columns are in bands; ``member`` is the number of the band of each column."""

    data: Sample
    member: NDArray[np.intp]

    @cached_property
    def n_bands(self) -> int:
        """Number of bands."""
        return int(self.member.max()) + 1

    @cached_property
    def is_wide(self) -> bool:
        """Whether products of rows are smaller than those of columns."""
        return self.data.n_features > self.data.n_rows

    @cached_property
    def root(self) -> Array:
        """Square roots of the weights divided by their sum."""
        return np.sqrt(np.asarray(self.data.shares, np.float64))

    @cached_property
    def rows(self) -> Array:
        """The centred X."""
        return np.asarray(self.data.X.read(slice(None)) - self.data.means[0])

    @cached_property
    def targets(self) -> Array:
        """The centred and weighted y."""
        return np.asarray(self.root[:, None] * (self.data.y - self.data.means[1]), np.float64)

    @cached_property
    def kernels(self) -> Array:
        """Products of the centred rows in each band, of shape (n_bands, n, n)."""
        parts = (self.rows[:, self.member == band] for band in range(self.n_bands))
        return np.stack([part @ part.T for part in parts])

    @cached_property
    def gram(self) -> Array:
        """Products of the centred, weighted columns."""
        weighted = self.root[:, None] * self.rows
        return np.asarray(weighted.T @ weighted)

    @cached_property
    def sizes(self) -> Array:
        """Sums of the variances of the columns of each band; ones if all bands are constant."""
        powers = self.root**2 @ self.rows**2
        powers[is_constant(powers, np.asarray(self.data.means[0]))] = 0
        sizes = np.bincount(self.member, powers, self.n_bands).astype(np.float64)
        return sizes if sizes.any() else sizes + 1

    def scaled(self, scales: Array) -> Data:
        """Return the data with the bands scaled, without another product with all of X."""
        if self.is_wide:
            kernel = np.tensordot(scales**2, self.kernels, 1)
            data = self.data
            return KernelData.of(kernel, data.response, data.row_weights, data.fit_intercept)
        return Penalised(self._rows, Bands(self.member, scales.tolist()))

    @cached_property
    def _rows(self) -> RowData:
        moments = RowData(self.data).moments
        return RowData(self.data, lambda: moments)

    def ridges(self, log_scales: Array, some: slice) -> Ridges:
        """Return the ridge of penalty one at these scales, for some of the targets."""
        y = self.targets[:, some]
        return self._by_rows(log_scales, y) if self.is_wide else self._by_columns(log_scales, y)

    @cached_property
    def _constant(self) -> Array:
        return self.root * float(self.data.fit_intercept)

    def _by_rows(self, log_scales: Array, y: Array) -> Ridges:
        powers = np.exp(2 * log_scales)
        matrix = np.tensordot(powers, self.kernels, 1) * self.root * self.root[:, None]
        matrix[np.diag_indices_from(matrix)] += 1
        Q = linalg.cho_solve(linalg.cho_factor(matrix, lower=True), np.eye(len(matrix)))
        dual = Q @ y

        def gradient(by_dual: Array, by_matrix: Callable[[Array], Array]) -> Array:
            change = Q @ (by_dual @ dual.T + by_matrix(Q)) * self.root * self.root[:, None]
            return np.asarray(-2 * powers * np.tensordot(self.kernels, change, 2))

        def block(fold: NDArray[np.intp]) -> Array:
            return np.asarray(Q[np.ix_(fold, fold)]) - _outer(self._constant[fold])

        return Ridges(dual, np.diagonal(Q) - self._constant**2, block, gradient)

    def _by_columns(self, log_scales: Array, y: Array) -> Ridges:
        scales = np.exp(log_scales)[self.member]
        rows = self.root[:, None] * self.rows * scales
        matrix = self.gram * scales * scales[:, None]
        matrix[np.diag_indices_from(matrix)] += 1
        inverse = linalg.cho_solve(linalg.cho_factor(matrix, lower=True), np.eye(len(matrix)))
        images = rows @ inverse  # QX
        coef = inverse @ (rows.T @ y)

        def gradient(by_dual: Array, by_matrix: Callable[[Array], Array]) -> Array:
            columns = ((images.T @ by_dual) * coef).sum(axis=1)
            columns += (images * by_matrix(images)).sum(axis=0)
            return np.bincount(self.member, -2 * columns, self.n_bands).astype(np.float64)

        def block(fold: NDArray[np.intp]) -> Array:
            inner = np.eye(len(fold)) - images[fold] @ rows[fold].T
            return np.asarray(inner - _outer(self._constant[fold]))

        diagonal = 1 - (images * rows).sum(axis=1) - self._constant**2
        return Ridges(y - rows @ coef, diagonal, block, gradient)


def _outer(vector: Array) -> Array:
    return np.multiply.outer(vector, vector)


Error = Callable[[Ridges], tuple[float, Array]]


def left_out_error(ridges: Ridges) -> tuple[float, Array]:
    """Return the leave-one-out error, and its gradient."""
    rest = np.maximum(ridges.diagonal, EPS)[:, None]
    errors = ridges.dual / rest
    by_dual = 2 * errors / rest
    by_diagonal = -(by_dual * errors).sum(axis=1)[:, None]
    return float((errors**2).sum()), ridges.gradient(by_dual, lambda matrix: by_diagonal * matrix)


def gcv_error(ridges: Ridges) -> tuple[float, Array]:
    """Return generalised cross-validation, and its gradient."""
    rest = max(float(ridges.diagonal.mean()), EPS)
    error = float((ridges.dual**2).sum()) / rest**2
    slope = -2 * error / rest / len(ridges.diagonal)
    return error, ridges.gradient(2 * ridges.dual / rest**2, lambda matrix: slope * matrix)


def fold_error(folds: list[NDArray[np.intp]], ridges: Ridges) -> tuple[float, Array]:
    """Return the error of cross-validation, and its gradient."""
    total = 0.0
    slopes = []
    by_dual = np.zeros_like(ridges.dual)
    for fold in folds:
        block = ridges.block(fold)
        error = np.linalg.solve(block, ridges.dual[fold])
        change = 2 * np.linalg.solve(block, error)
        total += float((error**2).sum())
        by_dual[fold] += change
        slopes.append(-(change @ error.T + error @ change.T) / 2)

    def by_matrix(matrix: Array) -> Array:
        product = np.zeros_like(matrix)
        for fold, slope in zip(folds, slopes, strict=True):
            product[fold] += slope @ matrix[fold]
        return product

    return total, ridges.gradient(by_dual, by_matrix)


class Trial(NamedTuple):
    """Scales, and the error and the stop of ridge there: one number each, or one per target."""

    scales: Array
    error: Array
    stop: Array


@dataclass(frozen=True)
class BandSearch:
    """The search for scales whose ridge has the least error, by a rule at its best stop."""

    rows: BandedRows
    rule: Rule
    error: Error
    per_target: bool

    def draws(self, count: int, random: np.random.RandomState) -> list[Array]:
        """Return equal scales, equally large bands, and random bands as himalaya draws them."""
        sizes = self.rows.sizes
        varies = np.flatnonzero(sizes)  # bands of constant columns are dropped
        shares = [sizes[varies], np.ones(len(varies))]
        for draw in range(count):
            # of Dirichlet's distribution, in turn: few bands matter, or all do
            concentration = (0.1, 1.0)[draw % 2]
            shares.append(random.dirichlet(np.full(len(varies), concentration)))
        scales = np.zeros((len(shares), len(sizes)))
        # in units of the size of a band, so that the unit of its columns does not matter
        scales[:, varies] = np.sqrt(np.array(shares) / sizes[varies])
        return list(scales)

    def trial(self, scales: Array) -> Trial:
        """Return the error of ridge at its best stop."""
        data = self.rows.scaled(scales)
        rule = self.rule.fixed(data)
        needs = {"rows": rule.needs_rows, "trace": rule.needs_trace}
        problem = Problem(data, Ridge(), data.spectrum(Want.to_search([Ridge()], **needs)))
        # scales are compared at sixteen stops if each is dear
        few = data.n_targets < MANY_TARGETS
        stops = None if few else grid_of(problem.spectrum, Ridge(), 16)
        choice = rule.choose(problem, stops, per_target=self.per_target)
        return Trial(scales, np.atleast_1d(choice.error), np.atleast_1d(choice.stop))

    def descended(self, start: Trial, target: int) -> Array:
        """Return scales with a smaller error than those of a trial, by gradient.

        They are for one target, or for all if these share their scales.
        """
        some = slice(target, target + 1) if self.per_target else slice(None)
        sizes = self.rows.sizes
        centre = -np.log(np.where(sizes > 0, sizes, 1)) / 2
        low = centre - LOG_RANGE
        high = centre + LOG_RANGE
        stop = np.clip(start.stop[target], TINY, 1 / TINY)
        log_scales = np.log(np.maximum(start.scales, TINY)) + np.log(stop) / 2
        found = minimize(
            lambda theta: self.error(self.rows.ridges(theta, some)),
            # a search that begins at a bound does not leave it
            np.clip(log_scales, low + 1, high - 1),
            jac=True,
            bounds=np.stack([low, high], axis=1),
            method="L-BFGS-B",
            options={"maxiter": 60},
        )
        # a band at its lower bound is dropped
        kept = (found.x > low + 1e-3) & (sizes > 0)
        # only ratios matter, since the stop is chosen again
        return np.exp(found.x - found.x.max()) * kept if kept.any() else start.scales
