r"""Sparse matrices and operators with a penalty matrix: Krylov spaces in the geometry of L.

With the B of :mod:`stoptime.spectrum.penalty`, and P the projection that removes the directions
that are not penalised,

.. math:: \tilde X = PXB, \qquad \tilde y = Py

is again data that are used through products only, with a Krylov space of its own. Its error bound
is one for γ: it bounds :math:`\|L(\hat\beta - \hat\beta_k)\|/\|L\hat\beta_k\|`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator

from stoptime.spectrum.accuracy import constant
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.centred import product
from stoptime.spectrum.data import Data
from stoptime.spectrum.krylov.operator import MEAN_ROUNDINGS, MatrixFreeData
from stoptime.spectrum.krylov.spaces import KrylovSpaces
from stoptime.spectrum.penalised import Back, Restoration, free_directions
from stoptime.spectrum.penalty import StandardForm, standard_form
from stoptime.support.arrays import EPS, Floats


class StandardOperator(LinearOperator):  # type: ignore[misc]
    """The PXB above; ``images`` are the centred XF, with D the weights divided by their sum."""

    def __init__(self, X: Any, inverse: Any, images: Floats, shares: Floats) -> None:
        super().__init__(np.dtype(np.float64), (X.shape[0], inverse.width))
        self.X = X
        self.inverse = inverse
        self.images = images
        self.weighted = shares[:, None] * images

    def _matmat(self, other: Floats) -> Floats:
        found = product(self.X, self.inverse @ other)
        return np.asarray(found - self.images @ (self.weighted.T @ found))

    def _rmatmat(self, other: Floats) -> Floats:
        rest = other - self.weighted @ (self.images.T @ other)
        return np.asarray(self.inverse.of_rows(product(self.X, rest, transposed=True).T).T)


@dataclass(frozen=True)
class StandardMatrixFreeData(MatrixFreeData):
    """The X̃ and ỹ above, whose spectra are in the coordinates of X."""

    restored: Any = None  # a Restoration

    @cached_property
    def floor(self) -> float:
        """Largest length of the image of a unit vector that may be rounding of the means of X."""
        # the means of X̃ may vanish by cancellation, which leaves rounding of those of X
        rounding = MEAN_ROUNDINGS * EPS * float(linalg.norm(self.restored.feature_mean))
        return rounding and rounding * _size(self.restored.back.form.inverse, self.n_features)

    def assembled(self, *parts: Any) -> Spectrum:
        """Assemble a spectrum, and map it back."""
        return self.restored(super().assembled(*parts))


@dataclass(frozen=True)
class PenalisedMatrixFreeData(MatrixFreeData):
    """Data that are used through products only, with a penalty in standard form."""

    form: StandardForm | None = None
    is_penalised: ClassVar[bool] = True

    @classmethod
    def of(cls, data: MatrixFreeData, penalty_matrix: Any) -> PenalisedMatrixFreeData:
        """Return the same data with a penalty matrix."""
        form = standard_form(penalty_matrix, data.n_features, partial(_deviations, data))
        given = {one.name: getattr(data, one.name) for one in fields(data)}
        return cls(**given, form=form)

    def training_set(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> Data:
        """Return a training set with the same penalty."""
        part = cast("PenalisedMatrixFreeData", super().training_set(train, test))
        return replace(part, form=self.form)

    @cached_property
    def spaces(self) -> KrylovSpaces:
        """The Krylov spaces of the problem in standard form."""
        return self.standard.spaces

    @cached_property
    def _by_products(self) -> Spectrum:
        return self.standard._by_products

    @cached_property
    def standard(self) -> StandardMatrixFreeData:
        """The problem in standard form."""
        form = cast("StandardForm", self.form)
        mean, target_mean = self.means
        largest = np.full(form.null.shape[1], _size(self.operator, self.n_features))
        rows = int(np.count_nonzero(self.shares))
        free = free_directions(form.null, largest, mean, self._weighted_images, self.rounding, rows)
        images = self.y[:, :0]
        mix = np.empty((0, form.inverse.width))
        if free.shape[1]:
            images = product(self.X, free) - mean @ free
            mix = form.inverse.of_rows((self.operator.T @ self._weighted_images(free)).T)
        response = images.T @ (self.shares[:, None] * (self.y - target_mean))
        known = response, self.means, self.single_target, self.rounded_to
        back = Restoration.of(Back(form, free, mix), *known)
        X = StandardOperator(self.X, form.inverse, images, self.shares)
        given = {one.name: getattr(self, one.name) for one in fields(MatrixFreeData)}
        given |= {"X": X, "y": self.y - images @ response}
        return StandardMatrixFreeData(**given, restored=back)

    def _weighted_images(self, vectors: Floats) -> Floats:
        # an operator need not accept a matrix without columns
        return np.asarray(self.operator @ vectors if vectors.shape[1] else self.y[:, :0])


def _size(matrix: Any, columns: int) -> float:
    """Estimate the root of the sum of the squares of all entries of a matrix."""
    return float(linalg.norm(matrix @ np.random.default_rng(0).choice([-1.0, 1.0], columns)))


def _deviations(data: MatrixFreeData) -> Floats:
    """Return the standard deviations of the columns of a sparse matrix."""
    if not data.has_rows:
        raise ValueError(
            'penalty_matrix="standardise" needs the columns of X, which an operator does not show: '
            "give a diagonal matrix of their standard deviations."
        )
    mean = data.means[0]
    entries = sparse.csc_array(data.X, copy=True)
    stored = entries.copy()
    stored.data[:] = 1
    # zeros are at a distance of the mean; squares minus the squared mean would cancel
    entries.data -= np.repeat(mean, np.diff(entries.indptr))
    zeros = np.maximum(1 - data.shares @ stored, 0)
    powers = data.shares @ entries.power(2) + zeros * mean**2
    return np.sqrt(np.where(constant(powers, mean), 0, powers))
