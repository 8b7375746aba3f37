r"""Data with a penalty matrix: an ordinary problem in other coordinates, and the way back.

Let XF be an orthonormal basis of the columns that are not penalised, and P the projection that
removes it. With the B of :mod:`stoptime.spectrum.penalty`,

.. math:: \tilde X = PXB = XM, \qquad M = B - FG, \qquad G = F^TX^TXB/n, \qquad \tilde y = Py

is ordinary data. Its coefficients γ give β = Mγ + Fr with r = FᵀXᵀy/n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from stoptime.spectrum.accuracy import constant
from stoptime.spectrum.base import DualVectors, Geometry, Spectrum
from stoptime.spectrum.dense import DenseData
from stoptime.spectrum.moments import Moments
from stoptime.spectrum.penalty import Scaling, StandardForm, singular, standard_form
from stoptime.support.arrays import Floats, as_dtype, is_device_array, like, on_host

Images = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Back:
    """The M above."""

    form: StandardForm
    free: Any
    mix: Any

    def of_rows(self, X: Any) -> Any:
        """Return XM."""
        return self.form.inverse.of_rows(X) - (X @ self.free) @ self.mix

    def __matmul__(self, components: Any) -> Any:
        return self.form.inverse @ components - self.free @ (self.mix @ components)


@dataclass(frozen=True)
class MappedRows:
    """The rows R of a wide problem in standard form, as rows RMᵀ with the columns of X."""

    rows: Any
    back: Back
    is_transposed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        shape = self.rows.shape[0], int(self.back.free.shape[0])
        return shape[::-1] if self.is_transposed else shape

    @property
    def T(self) -> MappedRows:  # noqa: N802 - as arrays have it
        """The transpose."""
        return replace(self, is_transposed=not self.is_transposed)

    def __matmul__(self, other: Any) -> Any:
        if self.is_transposed:
            return self.back @ (self.rows.T @ other)
        return self.rows @ self.back.of_rows(other.T).T


@dataclass(frozen=True)
class MappedVectors:
    """Vectors of a problem in standard form, in the coordinates of X, formed on demand."""

    vectors: Any
    back: Back

    def __matmul__(self, components: Any) -> Any:
        return self.back @ (self.vectors @ components)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.asarray(self.back @ self.vectors.__array__(copy=copy), dtype=dtype)


class Restoration(NamedTuple):
    """The way back from standard form: the M above, unshrunk directions, means, and precision."""

    back: Back
    geometry: Geometry
    feature_mean: Any
    target_mean: Any
    precision: Any

    @classmethod
    def of(
        cls, back: Back, response: Any, means: Any, single_target: bool, precision: Any = None
    ) -> Restoration:
        """Return the way back, where the free directions have this response."""
        one = (..., 0) if single_target else ...
        geometry = Geometry(back.free, on_host(response)[one], back.form.inverse.rank)
        return cls(back, geometry, means[0], means[1][one], precision)

    def __call__(self, spectrum: Spectrum) -> Spectrum:
        """Return a spectrum of ordinary data in the coordinates of X."""
        basis: Any = spectrum.basis
        if isinstance(basis, DualVectors):
            basis = DualVectors(MappedRows(basis.rows, self.back), basis.mix)
        elif isinstance(basis, np.ndarray) or is_device_array(basis):
            basis = self.back @ basis
        else:
            basis = MappedVectors(basis, self.back)
        return replace(
            spectrum,
            basis=basis,
            feature_mean=self.feature_mean,
            target_mean=self.target_mean,
            precision=self.precision,
            geometry=self.geometry,
        )


@dataclass(frozen=True)
class PenalisedData(DenseData):
    """Dense data with a penalty in standard form."""

    form: StandardForm | None = None
    is_penalised: ClassVar[bool] = True

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # NaN and overflow are found later
    def of(cls, data: DenseData, penalty_matrix: Any) -> PenalisedData:
        """Return the same data with a penalty matrix."""

        def deviations() -> Floats:
            means = data._means()[0]
            powers = data._squares(as_dtype(data.X, data.dtype) - means, data.shares)
            return np.sqrt(np.where(constant(powers, on_host(means)), 0, powers))

        form = standard_form(penalty_matrix, data.n_features, deviations)
        sizes = data.n_samples, data.n_observations, data.fit_intercept, data.single_target
        return cls(data.X, data.y, data.uneven_shares, *sizes, data.known, form)

    def subset(self, rows: NDArray[np.intp]) -> DenseData:
        """Return some of the rows, with the same penalty."""
        return replace(cast("PenalisedData", super().subset(rows)), form=self.form)

    @cached_property
    def _by_gram(self) -> Spectrum:
        data, restored = self.standard
        return restored(data._by_gram)

    @cached_property
    def _by_svd(self) -> tuple[Spectrum, Floats]:
        data, restored = self.standard
        spectrum, powers = data._by_svd
        return restored(spectrum), powers

    @cached_property
    @np.errstate(over="ignore", invalid="ignore")  # overflow is found by check_features
    def standard(self) -> tuple[DenseData, Restoration]:
        """The problem in standard form, and the way back."""
        form = cast("StandardForm", self.form)
        X = as_dtype(self.X, self.dtype)
        y = as_dtype(self.y, self.dtype)
        means = self._means()
        powers = self._squares(self.X, self.shares)
        self.check_features(powers, means[0])
        mean = on_host(means[0])
        # lengths of images are compared with the largest that the directions could have
        largest = np.abs(form.null).T @ np.sqrt(powers).astype(np.float64)
        weighted_images = partial(self._weighted_images, mean)
        rows = int(np.count_nonzero(on_host(self.shares)))
        found = free_directions(form.null, largest, mean, weighted_images, self.rounding, rows)
        free = as_dtype(like(X, found), self.dtype)
        images = self.rotated(slice(None), means[0], free)
        weighted = (self.shares[:, None] * images).T
        response = weighted @ (y - means[1])
        features = form.inverse.of_rows(X)
        mix = weighted @ (features - self.fit_intercept * (self.shares @ features))
        if free.shape[1]:
            features -= images @ mix
            # a second projection removes what rounding left of the unpenalised columns
            again = weighted @ (features - self.fit_intercept * (self.shares @ features))
            features -= images @ again
            mix += again
            y = y - images @ response
        sizes = self.n_samples, self.n_observations, self.fit_intercept, self.single_target
        data = DenseData(features, y, self.uneven_shares, *sizes, self._known_in(form))
        back = Back(form, free, mix)
        return data, Restoration.of(back, response, means, self.single_target, self.rounded_to)

    def _known_in(self, form: StandardForm) -> Moments | None:
        """Return the moments of scaled columns, if those of X are known."""
        inverse = form.inverse
        if self.known is None or not isinstance(inverse, Scaling) or form.null.shape[1]:
            return None
        columns = like(self.known.gram, inverse.columns)
        scales = as_dtype(like(self.known.gram, inverse.scales), self.dtype)
        gram = self.known.gram[columns][:, columns] * scales[:, None] * scales
        cross = self.known.cross[columns] * scales[:, None]
        mean = self.known.feature_mean[columns] * scales
        return Moments(mean, self.known.target_mean, gram, cross)

    def _weighted_images(self, mean: Floats, vectors: Floats) -> Floats:
        X = self.X
        images = self.rotated(slice(None), like(X, mean), as_dtype(like(X, vectors), self.dtype))
        return np.asarray(on_host((self.shares**0.5)[:, None] * images), np.float64)


def free_directions(
    null: Floats, largest: Floats, mean: Floats, images: Images, rounding: float, n_rows: int
) -> Floats:
    """Return a basis F of the directions that are not penalised, with FᵀXᵀXF/n = I.

    ``null`` is a basis of them, ``largest`` has the largest lengths that their images under X may
    have, and ``images`` returns images, centred and weighted; ``n_rows`` have a positive weight. Of
    two directions that give the same predictions up to a constant, which the intercept takes, the
    shorter one is taken.
    """
    if not null.shape[1]:
        return null
    scaled = null / np.where(largest > 0, largest, 1)
    lengths, turn = singular(images(scaled))
    seen = lengths > rounding
    free = scaled @ (turn[:, seen] / lengths[seen])
    hidden = scaled @ turn[:, ~seen]
    if hidden.shape[1]:
        # among as many fits as rows some are constant by chance, and say nothing of other rows
        by_chance = n_rows > 1 and np.count_nonzero(seen) + 1 >= n_rows
        if by_chance or np.abs(mean @ hidden).max() <= np.sqrt(rounding):
            raise ValueError(
                f"penalty_matrix does not penalise {hidden.shape[1]} direction(s) on which X "
                "has no influence, so that the coefficients are not determined: leave out "
                "columns, or append small multiples of unit vectors to penalty_matrix."
            )
        hidden = linalg.qr(hidden, mode="economic")[0]
        free -= hidden @ (hidden.T @ free)
    # once more, because the first basis is orthonormal only up to its condition number
    triangle = linalg.qr(images(free), mode="r")[0][: free.shape[1]]
    return np.asarray(linalg.solve_triangular(triangle, free.T, trans="T").T)


def moments_in_standard_form(
    form: StandardForm, single_target: bool, n_rows: int, m: Moments, power: Floats, hidden: float
) -> tuple[Moments, Floats, Restoration]:
    r"""Return moments and mean squares of y in standard form, and the way back.

    .. math:: \tilde X^T\tilde X = M^TX^TXM, \qquad \tilde X^T\tilde y = M^TX^Ty, \qquad
        \|\tilde y\|^2 = \|y\|^2 - n\|r\|^2

    ``hidden`` is the size of an eigenvalue of XᵀX/n that may be rounding, relative to its columns.
    """
    largest = np.abs(form.null).T @ np.sqrt(np.diagonal(m.gram))
    # lengths are square roots of products, and so are their rounding errors
    rounding = float(np.sqrt(hidden))
    images = partial(_root, m.gram)
    free = free_directions(form.null, largest, m.feature_mean, images, rounding, n_rows)
    seen = m.gram @ free
    response = free.T @ m.cross
    features = form.inverse.of_rows(m.gram)
    mix = free.T @ features
    # a second projection removes what rounding left of the unpenalised columns
    mix = mix + free.T @ (features - seen @ mix)
    back = Back(form, free, mix)
    gram = back.of_rows((features - seen @ mix).T)
    cross = back.of_rows((m.cross - seen @ response).T).T
    rest = np.maximum(power - (response**2).sum(axis=0), 0)
    means = m.feature_mean, m.target_mean
    restored = Restoration.of(back, response, means, single_target)
    return Moments(*means, (gram + gram.T) / 2, cross), rest, restored


def _root(gram: Floats, vectors: Floats) -> Floats:
    """Return a square matrix R with RᵀR = VᵀXᵀXV/n, whose columns stand for the images XV."""
    squares, turn = np.linalg.eigh(vectors.T @ gram @ vectors)
    return np.asarray(np.sqrt(np.maximum(squares, 0))[:, None] * turn.T)
