r"""Rows of the data in its eigenbasis, each with what leaving it out takes away.

Let the row have share π of the weights, coordinates a = Vᵀ(x - x̄) and response ỹ = y - ȳ. Without it the
covariance and the response are

.. math:: c\,(S - \rho aa^T), \qquad c\,(z - \rho a\tilde y), \qquad c = \frac1{1-\pi}, \quad \rho = \pi d,

with d = c for an intercept, whose mean the row moved as well, and d = 1 without. The left-out residual is
then d times that of the centred row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.decompose import Data, validated
from stoptime.support.arrays import Array, as_float64, like, on_host

ROUNDINGS = 16.0  # safety factor of the estimated rounding error of a leverage
WITHOUT_ROWS = (
    "Exact leave-one-out needs every eigenvalue, and rows that can be read: for an operator, or a sparse X "
    'of this size, choose the stop by cv=5, rule="path-gcv", rule="discrepancy" or HoldOut(X_val, y_val).'
)
EXACT, SINGLE = 1e-12, 1e-8
TRUST = 0.6  # a leverage whose error exceeds eps to this power is not rounded to one

Index = slice | NDArray[np.intp]


@dataclass(frozen=True)
class RowBlock:
    r"""Some rows and what deleting each changes.

    Attributes
    ----------
    scores : array of shape (n_rows, rank)
        The a above.
    shares : array of shape (n_rows, rank)
        :math:`\rho a_j^2/s_j`: how much of direction j hangs on this row. Their sum is its leverage.
    rest : array of shape (n_rows,)
        One minus the leverage, exactly zero where the difference is but rounding.
    late : array of shape (n_rows, n_targets)
        Residual of least squares on all rows.
    targets : array of shape (n_rows, n_targets)
        The ỹ above, in units of its standard deviation, as ``late`` is.
    scale, stretch, weight : arrays of shape (n_rows,)
        The c, d and π above.
    certain : array of shape (n_rows,)
        Whether ``rest`` is larger than its rounding error.
    """

    scores: Array
    shares: Array
    rest: Array
    late: Array
    targets: Array
    scale: Array
    stretch: Array
    weight: Array
    certain: NDArray[np.bool_]

    def on_host(self) -> RowBlock:
        """Return the same block in the memory of the processor."""
        return RowBlock(*(on_host(getattr(self, field.name)) for field in fields(self)))


@dataclass(frozen=True)
class Rows:
    """The data, to be read block by block in the eigenbasis of its spectrum."""

    data: Data
    spectrum: Spectrum

    @classmethod
    def validated(
        cls, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, spectrum: Spectrum
    ) -> Rows:
        """Check the data, and that the spectrum could be theirs."""
        if spectrum.krylov is not None:
            raise ValueError(WITHOUT_ROWS)
        data = validated(X, y, sample_weight, spectrum.fit_intercept)
        shapes = data.X.shape[1], data.y.shape[1]
        if shapes != (
            spectrum.n_features,
            np.atleast_1d(spectrum.target_power).size,
        ) or not np.isclose(data.n_samples, spectrum.n_samples):
            raise ValueError(
                f"{spectrum} was made from other data than X and y of shapes {shapes}."
            )
        rows = cls(data, spectrum)
        if rows.n_present < 2 or rows.weights.max() > 1 - np.finfo(np.float64).eps:
            raise ValueError("Leaving one row out needs at least two rows of positive weight.")
        return rows

    @cached_property
    def weights(self) -> Array:
        """The π: weights divided by their sum."""
        return np.asarray(on_host(self.data.shares), np.float64)

    @cached_property
    def n_present(self) -> int:
        """Number of rows of positive weight."""
        return int(np.count_nonzero(self.weights))

    @cached_property
    def scales(self) -> Array:
        """The c of every row."""
        return 1 / (1 - self.weights)

    @cached_property
    def reach(self) -> float:
        """A bound of all eigenvalues with any row left out."""
        return float(self.eigenvalues.max(initial=0) * self.scales.max()) or 1.0

    @cached_property
    def eigenvalues(self) -> Array:
        """The s, in double precision."""
        return self.spectrum.eigenvalues.astype(np.float64)

    @cached_property
    def coef(self) -> Array:
        """Least-squares coefficients z/s in the eigenbasis, of shape (rank, n_targets)."""
        response = self.spectrum.response.astype(np.float64)
        columns = response.reshape(len(self.eigenvalues), len(self.unit))
        return np.asarray(columns / self.unit / self.eigenvalues[:, None])

    @cached_property
    def unit(self) -> Array:
        """What every target is measured in."""
        return target_units(self.spectrum)

    @property
    def accuracy(self) -> float:
        """Relative error that sums over rows may have: little in double precision, rounding in single."""
        return SINGLE if self.data.eps > SINGLE else EXACT

    def target_blocks(self, width: int) -> Iterator[Rows]:
        """Yield the same rows with a few of the targets at a time."""
        count = self.data.y.shape[1]
        if count <= width:
            yield self
            return
        for start in range(0, count, width):
            few = slice(start, start + width)
            spectrum = replace(
                self.spectrum,
                response=self.spectrum.response[:, few],
                target_mean=self.spectrum.target_mean[few],
                target_power=self.spectrum.target_power[few],
            )
            yield Rows(replace(self.data, y=self.data.y[:, few]), spectrum)

    @property
    def _has_left_vectors(self) -> bool:
        """Whether the factorisation of XXᵀ gives the scores for free."""
        basis = self.spectrum.basis
        same = isinstance(basis, DualVectors) and basis.rows.shape == self.data.X.shape
        return same and self.n_present == self.data.X.shape[0]

    def block(self, index: Index, *, on_host: bool) -> RowBlock:
        """Return some rows in the eigenbasis, where the data are or on the host."""
        scores = self._scores(index)
        weight, scale = like(scores, self.weights[index]), like(scores, self.scales[index])
        stretch = scale if self.spectrum.fit_intercept else scale**0
        shares = scores / like(scores, np.sqrt(self.eigenvalues))
        shares *= shares
        shares *= (weight * stretch)[:, None]
        targets = as_float64(self.data.y[index]) - self.spectrum.target_mean
        targets /= like(scores, self.unit)
        late = targets - scores @ like(scores, self.coef)
        rest = 1 - shares.sum(axis=1)
        error = self._rounding(shares)
        certain = abs(rest) > error
        full = ~certain & (error < self.data.eps**TRUST)
        if len(self.eigenvalues) == self.n_present - self.spectrum.fit_intercept:
            full |= weight > 0
        rest[full], late[full] = 0, 0
        block = RowBlock(
            scores, shares, rest, late, targets, scale, stretch, weight, certain & ~full
        )
        return block.on_host() if on_host else block

    def _scores(self, index: Index) -> Array:
        basis = self.spectrum.basis
        if self._has_left_vectors and isinstance(basis, DualVectors):
            mix = as_float64(basis.mix[index])
            scores = mix * like(mix, self.eigenvalues)
            scores *= like(mix, self.weights[index] ** -0.5)[:, None]
            return scores
        return as_float64(
            self.data.rotated(index, self.spectrum.feature_mean, self.spectrum.vectors)
        )

    def _rounding(self, shares: Array) -> Array:
        """Estimate the rounding error of the leverages: squaring X costs the squares of its accuracy."""
        if not len(self.eigenvalues):
            return shares.sum(axis=1)
        condition = self.eigenvalues[-1] / self.eigenvalues
        root = 0.5 if self.spectrum.solver == "svd" else 1.0
        return ROUNDINGS * self.data.eps * (1 + shares**root @ like(shares, condition**root))


def target_units(spectrum: Spectrum) -> Array:
    """Return what every target is measured in, so that fourth powers neither overflow nor vanish."""
    power = np.atleast_1d(np.asarray(on_host(spectrum.target_power), np.float64))
    return np.sqrt(np.where(power > 0, power, 1.0))


def average_row(counts: Array, n_observations: float, fit_intercept: bool) -> RowBlock:
    """Return the row that has the mean share in every direction, with scores of one and no response.

    ``counts`` says how many directions share each eigenvalue: one, or as many as a density has there.
    """
    size, rank = len(counts), float(counts.sum())
    scale = 1 / (1 - 1 / n_observations)
    stretch = scale if fit_intercept else 1.0
    share = stretch / n_observations
    rest = max(1 - rank * share, 0.0)
    if rest < rank * ROUNDINGS * np.finfo(np.float64).eps:
        rest = 0.0
    one = np.ones(1)
    nothing = np.zeros((1, 1))
    return RowBlock(
        np.ones((1, size)), share * counts[None], rest * one, nothing, nothing,
        scale * one, stretch * one, one / n_observations, np.array([rest > 0]),
    )  # fmt: skip
