r"""Rows of the data in its eigenbasis, and how the problem changes when each is left out.

Let the row have share π of the weights, coordinates a = Vᵀ(x - x̄) and response ỹ = y - ȳ. Without
it the covariance and the response are

.. math:: c\,(S - \rho aa^T), \qquad c\,(z - \rho a\tilde y), \qquad
    c = \frac1{1-\pi}, \quad \rho = \pi d,

with d = c for an intercept, because the row moved the mean as well, and d = 1 without one. The
left-out residual is then d times that of the centred row. Where a penalty matrix leaves directions
unshrunk, d = 1/(1 - πf), with πf the leverage of the row in these directions and the intercept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import isclose
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.data import WITHOUT_ROWS
from stoptime.support.arrays import (
    EPS,
    Array,
    Floats,
    as_float64,
    constant,
    empty,
    like,
    on_host,
    slices,
)

if TYPE_CHECKING:
    from stoptime.spectrum.rows import Sample

LEVERAGE_SAFETY = 16.0  # factor of the estimated rounding error of a leverage

Index = slice | NDArray[np.intp]


@dataclass(frozen=True)
class RowBlock:
    r"""A block of rows, and the terms that leave each one out; rows are the first axis.

    ``scores`` are the a above, and ``shares`` are :math:`\rho a_j^2/s_j`, the part of direction j
    due to the row; their sum is the leverage. ``rest`` is one minus the leverage, exactly zero if
    that is only rounding, and ``certain`` says where it is larger than its rounding error.
    ``residual`` is that of least squares on all rows, and ``targets`` are the ỹ, both in units of
    the response's standard deviation. ``scale``, ``stretch`` and ``weight`` are the c, d and π.
    """

    scores: Array
    shares: Array
    rest: Array
    residual: Array
    targets: Array
    scale: Array
    stretch: Array
    weight: Array
    certain: NDArray[np.bool_]
    is_average: bool = False

    @cached_property
    def pull(self) -> Array:
        """The ρ above."""
        return self.weight * self.stretch


@dataclass(frozen=True)
class Rows:
    """The data, read block by block in the eigenbasis of its spectrum."""

    data: Sample
    spectrum: Spectrum

    def __post_init__(self) -> None:
        """Check that the spectrum is complete and could be that of the data."""
        if not self.spectrum.accuracy.complete:
            raise ValueError(WITHOUT_ROWS)
        shapes = self.data.n_features, self.data.n_targets
        made_from = self.spectrum.n_features, len(self.unit)
        weights = self.data.n_samples, self.spectrum.n_samples
        if shapes != made_from or not isclose(*weights, rel_tol=1e-5):
            raise ValueError(
                f"{self.spectrum} was computed from other data than X and y of shapes {shapes}."
            )
        if self.n_present < 2 or not (self.has_one_scale or self.weights.max() <= 1 - EPS):
            raise ValueError("Leaving one row out needs at least two rows of positive weight.")

    @cached_property
    def weights(self) -> Array:
        """The π: weights divided by their sum."""
        if self.data.uneven_shares is None:
            # one number in memory, so that nothing is computed a million times from equal ones
            return np.broadcast_to(1 / self.data.n_rows, self.data.n_rows)
        return np.asarray(on_host(self.data.shares), np.float64)

    @cached_property
    def n_present(self) -> int:
        """Number of rows of positive weight."""
        even = self.data.uneven_shares is None
        return self.data.n_rows if even else int(np.count_nonzero(self.weights))

    @cached_property
    def scales(self) -> Array:
        """The c of every row, or that of all rows if they have the same weight."""
        return np.asarray(1 / (1 - (self.weights[:1] if self.has_one_scale else self.weights)))

    @property
    def present_scales(self) -> Array:
        """The c of every row of positive weight, or that of all if they have the same weight."""
        return self.scales if self.has_one_scale else self.scales[self.weights > 0]

    @cached_property
    def has_one_scale(self) -> bool:
        """Whether all rows have the same weight."""
        return self.data.uneven_shares is None or bool(np.ptp(self.weights) == 0)

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
        """The unit in which every target is measured."""
        return target_units(self.spectrum)

    def of_targets(self, few: Index) -> Rows:
        """Return the same rows with some of several targets."""
        spectrum = replace(
            self.spectrum,
            response=self.spectrum.response[:, few],
            target_mean=self.spectrum.target_mean[few],
            target_power=self.spectrum.target_power[few],
        )
        if spectrum.geometry is not None:
            response = spectrum.geometry.response[:, few]
            spectrum = replace(spectrum, geometry=replace(spectrum.geometry, response=response))
        return Rows(replace(self.data, y=self.data.y[:, few]), spectrum)

    def with_few_targets(self) -> Rows:
        """Return the rows with at most rank + 1 targets, whose mean squares are the same.

        The mean square over targets does not change if the vector of all targets is rotated. After
        a rotation only a few targets have coefficients. What is left of a row is then the same for
        every filter but for a factor, so that its length is one more target, without coefficients.
        """
        spectrum = self.spectrum
        geometry = spectrum.geometry
        many = self.data.n_targets
        few = spectrum.rank + spectrum.n_unpenalised - spectrum.fit_intercept
        if many <= few + 1:
            return self
        fitted = self.coef * self.unit
        if geometry is not None:
            fitted = np.concatenate([fitted, geometry.response])
        directions = np.linalg.qr(fitted.T)[0]
        # a mean over few targets has to be that over many
        unit = np.sqrt((few + 1) / many)

        def turned(response: Floats) -> Floats:
            return np.column_stack([unit * response @ directions, np.zeros(len(response))])

        y = empty(self.data.y, (self.data.n_rows, few + 1))
        own = like(y, directions)
        for index in self.blocks(2 * many):
            whole = as_float64(self.data.y[index]) - spectrum.target_mean
            along = whole @ own
            rest = whole - along @ own.T
            y[index, :few] = unit * along
            y[index, few] = unit * ((rest**2).sum(axis=1) ** 0.5)
        power = np.mean(on_host(spectrum.target_power))
        if geometry is not None:
            geometry = replace(geometry, response=turned(geometry.response))
        spectrum = replace(
            spectrum,
            response=turned(spectrum.response),
            target_mean=0 * y[0],
            target_power=np.full(few + 1, power),
            geometry=geometry,
        )
        return Rows(replace(self.data, y=y, single_target=False), spectrum)

    def blocks(self, numbers_per_row: int) -> Iterator[slice]:
        """Cut the rows into blocks, given how many further numbers are held for each row."""
        # two megabytes stay in the cache of a processor; products of fewer rows would be slow
        room = self.data.room if self.data.on_device else 2**19
        height = room // (2 * len(self.eigenvalues) + numbers_per_row)
        return slices(self.data.n_rows, max(height, 32))

    def block(self, index: slice) -> RowBlock:
        """Return some rows in the eigenbasis, where the data are."""
        scores = self._scores(index)
        weight = self.beside(scores, self.weights, index)
        scale = self.beside(scores, self.scales, index)
        free = self.free_scores(index)
        stretch = self._stretch(index, free)
        # divided by √s before the square, which would overflow or underflow for extreme units of X
        shares = scores / like(scores, np.sqrt(self.eigenvalues))
        shares *= ((weight * stretch) ** 0.5)[:, None]
        shares *= shares
        targets = as_float64(self.data.y[index]) - self.spectrum.target_mean
        if self.spectrum.geometry is not None:
            response = self.spectrum.geometry.response.reshape(free.shape[1], len(self.unit))
            targets -= free @ like(free, response)
        targets /= like(scores, self.unit)
        residual = targets - scores @ like(scores, self.coef)
        rest = 1 - shares.sum(axis=1)
        certain, full = self._leverage_of_one(shares, rest, weight)
        rest[full] = 0
        residual[full] = 0
        return RowBlock(scores, shares, rest, residual, targets, scale, stretch, weight, certain)

    def _leverage_of_one(self, shares: Array, rest: Array, weight: Array) -> tuple[Any, Any]:
        """Tell which leverages are certainly below one, and which are one up to rounding."""
        # the factorisation of XᵀX has the square of the condition number that the SVD of X has
        condition = self.eigenvalues.max(initial=0) / self.eigenvalues
        root = 0.5 if self.spectrum.solver == "svd" else 1.0
        sizes = shares if root == 1 else shares**root
        error = LEVERAGE_SAFETY * EPS * (1 + sizes @ like(shares, condition**root))
        certain = abs(rest) > error
        # a difference below its rounding error is set to zero, unless the error itself is large
        full = ~certain & (error < EPS**0.6)
        # as many directions as rows: every leverage is one
        if len(self.eigenvalues) == self.n_present - self.spectrum.n_unpenalised:
            full |= weight > 0
        return certain & ~full, full

    def _scores(self, index: slice) -> Array:
        spectrum = self.spectrum
        basis = spectrum.basis
        whole = self.n_present == self.data.n_rows
        if whole and isinstance(basis, DualVectors) and basis.rows.shape == self.data.X.shape:
            # the factorisation of XXᵀ gives the scores without a product with X
            mix = as_float64(basis.mix[index])
            scores = mix * like(mix, self.eigenvalues)
            scores *= like(mix, self.weights[index] ** -0.5)[:, None]
            return scores
        scores = self.data.X.rotated(index, spectrum.feature_mean, spectrum.vectors)
        return scores if self._offset is None else scores - self._offset

    @cached_property
    def _offset(self) -> Any:
        """The mean of all scores, where it is not zero because a large mean of X was rounded."""
        spectrum = self.spectrum
        if not (spectrum.fit_intercept and spectrum.rank):
            return None
        mean = float(abs(spectrum.feature_mean).max())
        # a rounded mean does not show beside the smallest spread of the scores
        if EPS * mean <= 1e-11 * np.sqrt(self.eigenvalues[0]):
            return None
        total: Any = 0
        for index in self.blocks(0):
            shares = like(self.data.y, 1 * self.weights[index])
            total = total + self.data.X.rotated_sum(
                index, spectrum.feature_mean, spectrum.vectors, shares
            )
        return total

    def free_scores(self, index: slice) -> Array:
        """Return some rows in the directions that are never shrunk, (n_rows, n_free)."""
        geometry = self.spectrum.geometry
        if geometry is None:
            return as_float64(self.data.y[index][:, :0])
        mean = self.spectrum.feature_mean
        return as_float64(self.data.X.rotated(index, mean, geometry.vectors))

    def _stretch(self, index: slice, free: Array) -> Array:
        """Return the d of some rows; raise a ValueError if there is no fit without one of them."""
        leverage = self.beside(free, self.weights, index) * float(self.spectrum.fit_intercept)
        if not free.shape[1]:
            return 1 / (1 - leverage)
        leverage = leverage + self.beside(free, self.weights, index) * (free**2).sum(axis=1)
        # an unshrunk direction that only this row determines has a leverage of one
        alone = on_host(leverage > 1 - LEVERAGE_SAFETY * self.data.rounding)
        if alone.any():
            row = int(np.arange(len(self.weights))[index][np.argmax(alone)])
            raise ValueError(
                f"Without row {row} a direction that penalty_matrix does not penalise is not "
                'determined: penalise it a little, or choose the stop by cv=5 or rule="path-gcv".'
            )
        return 1 / (1 - leverage)

    def beside(self, reference: Any, values: Array, index: slice) -> Any:
        """Return the numbers of some rows where the reference is."""
        if self.has_one_scale:
            # made there: moving a million equal numbers would take longer than a product
            return constant(reference, reference.shape[0], float(values[0]))
        return like(reference, 1 * values[index])


def target_units(spectrum: Spectrum) -> Array:
    """Return the unit of every target, so that fourth powers neither overflow nor underflow."""
    power = np.atleast_1d(np.asarray(on_host(spectrum.target_power), np.float64))
    # a constant response has rounding errors of the size of its mean
    mean = np.abs(np.atleast_1d(np.asarray(on_host(spectrum.target_mean), np.float64)))
    return np.where(power > 0, np.sqrt(power), np.where(mean > 0, mean, 1.0))


def average_row(counts: Array, n_observations: float, n_unpenalised: int) -> RowBlock:
    """Return a row of average leverage, given ``counts`` of equal directions; its response is 0."""
    rank = float(counts.sum())
    scale = 1 / (1 - 1 / n_observations)
    stretch = 1 / (1 - n_unpenalised / n_observations)
    share = stretch / n_observations
    rest = max(1 - rank * share, 0.0)
    # a difference of the size of its rounding error is none
    if rest < rank * LEVERAGE_SAFETY * EPS:
        rest = 0.0
    one = np.ones(1)
    none = np.zeros((1, 1))
    scores = np.ones((1, len(counts)))
    shares = share * counts[None]
    sizes = scale * one, stretch * one, one / n_observations
    certain = np.array([rest > 0])
    return RowBlock(scores, shares, rest * one, none, none, *sizes, certain, is_average=True)
