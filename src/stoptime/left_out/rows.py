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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import isclose
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.data import WITHOUT_ROWS

from stoptime.support.arrays import (  # isort: skip
    EPS, Array, as_float64, constant, is_device_array, like, on_host, slices,
)  # fmt: skip

if TYPE_CHECKING:
    from stoptime.spectrum.dense import DenseData

LEVERAGE_SAFETY = 16.0  # factor of the estimated rounding error of a leverage
DOUBLE_ACCURACY = 1e-12  # relative error that sums over rows may have in double precision
SINGLE_ACCURACY = 1e-8  # and in single precision, where it is less than rounding
MOST_REMEMBERED = 2**27  # numbers of blocks that are remembered, 1 GB
RIDGES_REMEMBERED = 1 / 8  # of this room, for left-out residuals of ridges
REMEMBERED_ON_DEVICE = 2  # blocks on a device, where another product with X costs more
MOST_SETS_OF_RIDGES = 8  # that a block remembers: about one for every stage of a search
TYPICAL_RIDGES = 128  # real numbers for one row and target
LIGHT_NUMBERS = 2**22  # of rows from which on single precision saves time
LIGHT_CONDITION = 1e6  # number of XᵀX up to which rotated rows keep their digits in it
MOST_LIGHT_LEVERAGE = 0.25
TRUST = 0.6  # a leverage whose error exceeds eps to this power is not rounded to one

Index = slice | NDArray[np.intp]
ByTarget = Callable[[int, Any], Array]  # of a stop's place and targets: their e in a block


@dataclass(frozen=True)
class RowBlock:
    r"""A block of rows, and the terms that leave each one out; rows are the first axis.

    ``scores`` are the a above, and ``shares`` are :math:`\rho a_j^2/s_j`, the part of direction j
    due to the row; their sum is the leverage. ``rest`` is one minus the leverage, exactly zero if
    that is only rounding, and ``certain`` says where it is larger than its rounding error.
    ``residual`` is that of least squares on all rows, and ``targets`` are the ỹ, both in units of
    the response's standard deviation. ``scale``, ``stretch`` and ``weight`` are the c, d and π.
    ``ridges`` are left-out residuals of ridges, by their penalties, if they are remembered.
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
    ridges: dict[bytes, Array] | None = None

    @property
    def is_light(self) -> bool:
        """Whether all leverages are small, so that scores and shares are in single precision."""
        return self.scores.dtype == np.float32

    def on_host(self) -> RowBlock:
        """Return the same block in main memory; nothing is remembered there."""
        return RowBlock(*(on_host(getattr(self, field.name)) for field in fields(self)[:-1]))

    def remembered(self, penalties: NDArray[Any], make: Callable[[], Array]) -> Array:
        """Return the left-out residuals of ridges, made once if this block remembers them."""
        if self.ridges is None:
            return make()
        key = penalties.tobytes()
        if key not in self.ridges:
            while len(self.ridges) >= MOST_SETS_OF_RIDGES:
                self.ridges.pop(next(iter(self.ridges)))
            self.ridges[key] = make()
        return self.ridges[key]


@dataclass(frozen=True)
class Rows:
    """The data, read block by block in the eigenbasis of its spectrum.

    Data that are looked at again ``remember`` their blocks, unless these are large.
    """

    data: DenseData
    spectrum: Spectrum
    remember: bool = False

    def __post_init__(self) -> None:
        """Check that the spectrum is complete and could be that of the data."""
        if not self.spectrum.is_complete:
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
    def present(self) -> NDArray[np.intp]:
        """The rows of positive weight."""
        whole = self.n_present == self.data.n_rows
        return np.arange(self.n_present) if whole else np.flatnonzero(self.weights)

    @cached_property
    def scales(self) -> Array:
        """The c of every row."""
        return self._of_weights(lambda weights: 1 / (1 - weights))

    @cached_property
    def _stretches(self) -> Array:
        """The d of every row, if all directions are shrunk."""
        return self._of_weights(lambda weights: 1 / (1 - weights * self.spectrum.fit_intercept))

    def _of_weights(self, function: Callable[[Array], Array]) -> Array:
        """Return a function of the weight of every row."""
        if self.has_one_scale:
            return np.broadcast_to(function(self.weights[:1]), len(self.weights))
        return function(self.weights)

    @cached_property
    def has_one_scale(self) -> bool:
        """Whether all rows have the same weight."""
        return self.data.uneven_shares is None or bool(np.ptp(self.weights) == 0)

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
        """The unit in which every target is measured."""
        return target_units(self.spectrum)

    @property
    def accuracy(self) -> float:
        """Relative error that sums over rows may have."""
        return SINGLE_ACCURACY if self.data.precision == np.float32 else DOUBLE_ACCURACY

    def target_blocks(self, width: int) -> Iterator[Rows]:
        """Yield the same rows with a few of the targets at a time."""
        if self.data.n_targets <= width:
            yield self
            return
        yield from map(self.of_targets, slices(self.data.n_targets, width))

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

    @property
    def remembers(self) -> bool:
        """Whether ridges are remembered, so that another look at the rows costs little."""
        numbers = len(self.weights) * self.data.n_targets * MOST_SETS_OF_RIDGES * TYPICAL_RIDGES
        return self._kept is not None and numbers <= RIDGES_REMEMBERED * self._room

    @property
    def keeps_blocks(self) -> bool:
        """Whether blocks are remembered, so that another look needs no product with X."""
        return self._kept is not None

    @property
    def is_read(self) -> bool:
        """Whether blocks are remembered by now, so that further residuals cost little."""
        return bool(self._kept)

    @cached_property
    def _kept(self) -> dict[Any, RowBlock] | None:
        """Blocks that are remembered, by their rows."""
        numbers = 2 * len(self.weights) * len(self.eigenvalues)
        return {} if self.remember and numbers <= self._room else None

    @property
    def _room(self) -> int:
        device = self.data.on_device
        return REMEMBERED_ON_DEVICE * self.data.numbers_at_once if device else MOST_REMEMBERED

    def partition(self, members: NDArray[np.intp], height: int) -> Iterator[Index]:
        """Cut some rows into blocks of this height, or into those that are remembered."""
        if self._kept is not None:
            # always the same blocks, whatever is computed from them
            height = self.data.numbers_at_once // (2 * len(self.eigenvalues) + TYPICAL_RIDGES)
        for part in slices(len(members), height):
            index = members[part]
            first = int(index[0])
            last = int(index[-1])
            # a slice is read without a copy
            yield slice(first, last + 1) if last - first == len(index) - 1 else index

    def block(self, index: Index, *, on_host: bool) -> RowBlock:
        """Return some rows in the eigenbasis, where the data are or on the host."""
        if self._kept is None:
            block = self._made(index)
        else:
            key = _key(index)
            if key not in self._kept:
                self._kept[key] = replace(self._made(index), ridges={} if self.remembers else None)
            block = self._kept[key]
        return block.on_host() if on_host else block

    @cached_property
    def are_light(self) -> bool:
        """Whether no row has much leverage: then leaving it out changes little."""
        if not (self._may_be_light and self.keeps_blocks):
            return False
        blocks = self.partition(self.present, self.data.n_rows)
        return all(self.block(index, on_host=False).is_light for index in blocks)

    @cached_property
    def _may_be_light(self) -> bool:
        X = self.data.X
        s = self.eigenvalues
        n = len(self.weights)
        if not isinstance(X, np.ndarray) or X.dtype != np.float32 or not self.has_one_scale:
            return False
        large = n * len(s) >= LIGHT_NUMBERS and len(s) <= MOST_LIGHT_LEVERAGE / 2 * n
        plain = self.spectrum.geometry is None and not isinstance(self.spectrum.basis, DualVectors)
        return large and plain and bool(s[-1] <= LIGHT_CONDITION * s[0])

    @cached_property
    def _single_vectors(self) -> Any:
        return np.asarray(self.spectrum.vectors, np.float32)

    def _light(self, index: Index) -> RowBlock | None:
        """Return rows of low leverage in single precision, or None if there are others."""
        mean = self.spectrum.feature_mean
        scores = self.data.rotated(index, mean, self._single_vectors)
        unit = np.sqrt(self.weights[0] * self._stretches[0] / self.eigenvalues)
        shares = scores * unit.astype(np.float32)
        shares *= shares
        leverage = shares.sum(axis=1)
        if leverage.max() > MOST_LIGHT_LEVERAGE:
            return None
        targets = (self.data.y[index] - self.spectrum.target_mean) / self.unit
        # in double precision: rounded scores would be multiplied by large coefficients of least
        # squares, which no other stop has
        residual = targets - self.data.rotated(index, mean, self.spectrum.vectors @ self.coef)
        scales = self.scales[index], self._stretches[index], self.weights[index]
        certain = np.ones(len(scores), np.bool_)
        return RowBlock(scores, shares, 1.0 - leverage, residual, targets, *scales, certain)

    def begin(self) -> None:
        """Let a device rotate the rows that will be remembered, while the host does other work."""
        if self.data.on_device and self._kept == {}:
            for index in self.partition(self.present, self.data.n_rows):
                self._begun[_key(index)] = self._scores(index)

    @cached_property
    def _begun(self) -> dict[Any, Array]:
        """Rotated rows of which no block has been made yet."""
        return {}

    def _made(self, index: Index) -> RowBlock:
        light = self._light(index) if self._may_be_light else None
        if light is not None:
            return light
        scores = self._begun.pop(_key(index), None)
        if scores is None:
            scores = self._scores(index)
        weight = self._beside(scores, self.weights, index)
        scale = self._beside(scores, self.scales, index)
        free = self.free_scores(index)
        stretch = self._stretch(index, free)
        # divided by √s before the square, which would overflow or underflow for extreme units of X
        unit = np.sqrt(self.eigenvalues)
        if self.has_one_scale and not free.shape[1]:
            shares = scores / like(scores, unit / np.sqrt(self.weights[0] * self._stretches[0]))
            shares *= shares
        else:
            shares = scores / like(scores, unit)
            shares *= shares
            shares *= (weight * stretch)[:, None]
        targets = as_float64(self.data.y[index]) - self.spectrum.target_mean
        if self.spectrum.geometry is not None:
            response = self.spectrum.geometry.response.reshape(free.shape[1], len(self.unit))
            targets -= free @ like(free, response)
        targets /= like(scores, self.unit)
        residual = targets - scores @ like(scores, self.coef)
        rest = 1 - shares.sum(axis=1)
        # a difference below its rounding error is set to zero, unless the error itself is large
        error = self._rounding(shares)
        certain = abs(rest) > error
        full = ~certain & (error < EPS**TRUST)
        # as many directions as rows: every leverage is one
        if len(self.eigenvalues) == self.n_present - self.spectrum.n_unpenalised:
            full |= weight > 0
        rest[full] = 0
        residual[full] = 0
        return RowBlock(
            scores, shares, rest, residual, targets, scale, stretch, weight, certain & ~full
        )

    def _scores(self, index: Index) -> Array:
        spectrum = self.spectrum
        basis = spectrum.basis
        whole = self.n_present == self.data.n_rows
        if whole and isinstance(basis, DualVectors) and basis.rows.shape == self.data.X.shape:
            # the factorisation of XXᵀ gives the scores without a product with X
            mix = as_float64(basis.mix[index])
            scores = mix * like(mix, self.eigenvalues)
            scores *= like(mix, self.weights[index] ** -0.5)[:, None]
            return scores
        return as_float64(self.data.rotated(index, spectrum.feature_mean, spectrum.vectors))

    def free_scores(self, index: Index) -> Array:
        """Return some rows in the directions that are never shrunk, (n_rows, n_free)."""
        geometry = self.spectrum.geometry
        if geometry is None:
            return like(self.data.y, np.zeros((len(self.weights[index]), 0)))
        mean = self.spectrum.feature_mean
        return as_float64(self.data.rotated(index, mean, geometry.vectors))

    def _stretch(self, index: Index, free: Array) -> Array:
        """Return the d of some rows; raise a ValueError if there is no fit without one of them."""
        if not free.shape[1]:
            return self._beside(free, self._stretches, index)
        leverage = on_host((free**2).sum(axis=1)) + float(self.spectrum.fit_intercept)
        leverage *= self.weights[index]
        # an unshrunk direction that only this row determines has a leverage of one
        alone = leverage > 1 - LEVERAGE_SAFETY * self.data.rounding
        if alone.any():
            row = int(np.arange(len(self.weights))[index][np.argmax(alone)])
            raise ValueError(
                f"Without row {row} a direction that penalty_matrix does not penalise is not "
                'determined: penalise it a little, or choose the stop by cv=5 or rule="path-gcv".'
            )
        return like(free, 1 / (1 - leverage))

    def _beside(self, reference: Any, values: Array, index: Index) -> Any:
        """Return the numbers of some rows where the reference is."""
        if self.has_one_scale and is_device_array(reference):
            # made there: moving a million equal numbers would take longer than a product
            return constant(reference, len(reference), float(values[0]))
        return like(reference, values[index])

    def _rounding(self, shares: Array) -> Array:
        """Estimate the rounding error of the leverages."""
        # the factorisation of XᵀX has the square of the condition number that the SVD of X has
        condition = self.eigenvalues.max(initial=0) / self.eigenvalues
        root = 0.5 if self.spectrum.solver == "svd" else 1.0
        sizes = shares if root == 1 else shares**root
        return LEVERAGE_SAFETY * EPS * (1 + sizes @ like(shares, condition**root))


def _key(index: Index) -> tuple[int, int] | bytes:
    return (index.start, index.stop) if isinstance(index, slice) else index.tobytes()


def target_units(spectrum: Spectrum) -> Array:
    """Return the unit of every target, so that fourth powers neither overflow nor underflow."""
    power = np.atleast_1d(np.asarray(on_host(spectrum.target_power), np.float64))
    # a constant response has rounding errors of the size of its mean
    mean = np.abs(np.atleast_1d(np.asarray(on_host(spectrum.target_mean), np.float64)))
    return np.where(power > 0, np.sqrt(power), np.where(mean > 0, mean, 1.0))


def in_single(*arrays: Array) -> tuple[Any, ...]:
    """Return arrays on the host in single precision."""
    return tuple(values.astype(np.float32, copy=False) for values in arrays)


def by_operators(
    block: RowBlock, alpha: Array, slopes: Array, coef: Array, *, single: bool
) -> ByTarget:
    """Return e as a function of a stop's place and targets, from the operators of the rows."""
    coef = like(block.scores, coef)
    residual = block.residual
    if single:
        slopes, coef, alpha, residual = in_single(slopes, coef, alpha, residual)

    def residuals(place: int, targets: Any) -> Array:
        out = slopes[place] @ coef[:, targets]
        out += alpha[place][:, None] * residual[:, targets]
        out *= block.stretch[:, None]
        return out

    return residuals


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
    return RowBlock(
        np.ones((1, len(counts))), share * counts[None], rest * one, none, none,
        scale * one, stretch * one, one / n_observations, np.array([rest > 0]),
    )  # fmt: skip
