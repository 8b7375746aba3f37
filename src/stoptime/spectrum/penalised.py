r"""Data with a penalty matrix: ordinary data in other coordinates, and the way back.

Let XF be an orthonormal basis of the columns that are not penalised, and P the projection that
removes it. With the B of :mod:`stoptime.spectrum.penalty`,

.. math:: \tilde X = PXB = XM, \qquad M = B - FG, \qquad G = F^TX^TXB/n, \qquad \tilde y = Py

is ordinary data of the same kind. Its coefficients γ give β = Mγ + Fr with r = FᵀXᵀy/n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from stoptime.spectrum.accuracy import SAFETY, is_constant
from stoptime.spectrum.base import Geometry, OnDemand, Spectrum
from stoptime.spectrum.data import Data, Fit, TestedRows, TestSet, Want
from stoptime.spectrum.factorise import column_powers
from stoptime.spectrum.krylov import KrylovData
from stoptime.spectrum.moments import Statistics, as_products, nonnegative
from stoptime.spectrum.penalty import Scaling, StandardForm, singular, standard_form
from stoptime.spectrum.row_data import RowData
from stoptime.spectrum.rows import Rows, Sample
from stoptime.spectrum.streams import StreamData
from stoptime.support.arrays import EPS, Array, Floats, array_namespace, as_float64, like, on_host

if TYPE_CHECKING:
    from stoptime.spectrum.data import Fold
    from stoptime.spectrum.rows import Index

Images = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Penalised(Data):
    """Data of any kind with a penalty; the spectrum is in the coordinates of X."""

    data: Data
    penalty_matrix: Any

    def __post_init__(self) -> None:
        """Check the penalty, which for streamed data spares a pass over the rows."""
        if not isinstance(self.penalty_matrix, str) or self.penalty_matrix != "standardise":
            _ = self.form

    @cached_property
    def form(self) -> StandardForm:
        """The standard form of the penalty."""
        return standard_form(self.penalty_matrix, self.data.shape[1], self._deviations)

    def _deviations(self) -> Floats:
        """Return the standard deviations of the columns, zero if they are constant."""
        data: Any = self.data
        if not isinstance(data, StreamData):
            return np.sqrt(column_powers(data.sample))
        seen = _centred(data.moments, data.fit_intercept)
        powers = np.diagonal(seen.gram)
        return np.sqrt(np.where(is_constant(powers, seen.feature_mean), 0, powers))

    @property
    def _of(self) -> Data:
        return self.data

    @property
    def complete(self) -> bool:  # type: ignore[override]
        """As the data."""
        return self.data.complete

    @property
    def rows(self) -> Sample | None:
        """The rows of X as they are: spectra are in their coordinates."""
        return self.data.rows

    @cached_property
    def _standard(self) -> tuple[Data, _Restoration]:
        """The data in standard form, and the way back."""
        data: Any = self.data
        form = self.form
        if isinstance(data, StreamData):
            centred = _centred(data.moments, data.fit_intercept)
            return _moments_in_standard_form(centred, form, data.fit_intercept)
        sample, restored = _rows_in_standard_form(data.sample, form)
        if isinstance(data, KrylovData):
            if data.floor:
                # the means of X̃ may vanish by cancellation, which leaves rounding of those of X
                sample.X.floor = max(sample.X.floor, data.floor * _size(form.inverse))
            return replace(data, sample=sample), restored
        if isinstance(form.inverse, Scaling) and not form.null.shape[1]:
            # it refers to the data alone: what refers to itself stays in memory
            def ready() -> Statistics | None:
                known = data.known_moments
                if known is None:
                    return None
                return _mapped_moments(_centred(known, data.fit_intercept), restored)

            return RowData(sample, ready), restored
        return RowData(sample), restored

    def spectrum(self, want: Want = Want()) -> Spectrum:  # noqa: B008 - it is frozen
        """Factor the data in standard form, and map the result back."""
        data, restored = self._standard
        return restored(data.spectrum(want))

    def splits(self, cv: Any, groups: ArrayLike | None = None) -> Any:
        """Draw the folds of a splitter."""
        return self.data.splits(cv, groups)

    def folds(self, splits: Any) -> list[Fold]:
        """Return the folds; each has the same penalty, also one that is relative to all rows."""
        return [partial(self._fold, one) for one in self.data.folds(splits)]

    def _fold(self, fold: Fold) -> tuple[Data, TestSet]:
        train, test = fold()
        return Penalised(train, self.form), test

    def left_out(self, splits: Any, fitted: Callable[[Data], Fit]) -> list[tuple[Fit, TestedRows]]:
        """Fit the training set of every fold with the penalty."""
        return self.data.left_out(splits, lambda train: fitted(Penalised(train, self.form)))

    def test(self, X: Any, y: ArrayLike) -> TestSet:
        """Return new rows as a test set."""
        return self.data.test(X, y)


@dataclass(frozen=True)
class _Restoration:
    """The M above, the r, and the means of X and y: the way back from standard form."""

    form: StandardForm
    free: Any
    mix: Any
    response: Any
    means: tuple[Any, Any]

    def of_rows(self, X: Any) -> Any:
        return self.form.inverse.of_rows(X) - (X @ self.free) @ self.mix

    def __matmul__(self, components: Any) -> Any:
        return self.form.inverse @ components - self.free @ (self.mix @ components)

    def __call__(self, spectrum: Spectrum) -> Spectrum:
        one = (..., 0) if spectrum.response.ndim == 1 else ...
        geometry = Geometry(self.free, on_host(self.response)[one], self.form.inverse.rank)
        given = spectrum.basis
        basis = _Mapped(given, self) if isinstance(given, OnDemand) else self @ given
        feature_mean, target_mean = self.means[0], self.means[1][one]
        found = replace(spectrum, basis=basis, geometry=geometry)
        return replace(found, feature_mean=feature_mean, target_mean=target_mean)


@dataclass(frozen=True)
class _Mapped(OnDemand):
    """Vectors of a problem in standard form, in the coordinates of X."""

    vectors: OnDemand
    back: _Restoration

    def __matmul__(self, components: Any) -> Any:
        return self.back @ (self.vectors @ components)


class _StandardRows(Rows):
    """The X̃ above; ``images`` are the centred XF, and ``weighted`` the same times the weights."""

    def __init__(
        self, rows: Rows, back: _Restoration, images: Any, weighted: Any, floor: float
    ) -> None:
        self.rows = rows
        self.floor = floor
        self.back = back
        self.images = images
        self.weighted = weighted
        self.shape = rows.shape[0], back.form.inverse.width
        self.precision = rows.precision
        self.can_be_read = rows.can_be_read

    @property
    def can_be_copied(self) -> bool:
        return self.rows.can_be_copied

    @property
    def products(self) -> int:  # type: ignore[override]
        return self.rows.products

    def read(self, index: Index) -> Any:
        rows = self.back.form.inverse.of_rows(self.rows.read(index))
        if self.images.shape[1]:
            own = index if isinstance(index, slice) else like(self.images, index)
            rows = rows - self.images[own] @ self.back.mix
        return rows

    def times(self, vectors: Any) -> Any:
        found = self.rows.times(self.back.form.inverse @ vectors)
        return found - self.images @ (self.weighted.T @ found)

    def times_t(self, vectors: Any) -> Any:
        rest = vectors - self.weighted @ (self.images.T @ vectors)
        found = self.rows.times_t(rest)
        inverse = self.back.form.inverse
        return inverse.of_rows(found[None])[0] if found.ndim == 1 else inverse.of_rows(found.T).T

    def described(self, column: int) -> str:
        return f"direction {column} of the standard form of penalty_matrix"


def _centred(moments: Statistics, fit_intercept: bool) -> Statistics:
    return moments if fit_intercept else moments.about_zero()


def _rows_in_standard_form(sample: Sample, form: StandardForm) -> tuple[Sample, _Restoration]:
    """Return the same sample in standard form, and the way back."""
    X = sample.X
    means = sample.means
    root = (sample.shares**0.5)[:, None]

    def centred_images(vectors: Any) -> Any:
        if not X.can_be_read:
            image = X.times(vectors)
            return image - sample.shares @ image if sample.fit_intercept else image
        # rows that are centred first keep more digits
        parts = [X.rotated(block, means[0], vectors) for block in X.blocks()]
        return array_namespace(vectors).concat(parts)

    def weighted_images(vectors: Floats) -> Floats:
        return np.asarray(on_host(root * centred_images(like(sample.y, vectors))))

    y = as_float64(sample.y)
    free = like(y, form.null)
    images = y[:, :0]
    floor = 0.0
    mix = like(y, np.empty((0, form.inverse.width)))
    if free.shape[1]:
        # lengths of images are compared with the largest that the directions could have
        if not X.can_be_read:
            size = _size(weighted_images, X.shape[1])
            largest = np.full(free.shape[1], size)
            size = float(np.hypot(size, np.linalg.norm(means[0])))
            combined = 0.0
        else:
            squares = np.asarray(on_host(X.mean_squares(sample.shares, 0.0)))
            sample.check_features(squares, means[0])
            lengths = np.sqrt(squares)[:, None]
            largest = np.abs(form.null).T @ lengths[:, 0]
            size = float(np.linalg.norm(lengths))
            combined = _size(lambda signs: lengths * (form.inverse @ signs), form.inverse.width)
        rounding = max(sample.rounding, SAFETY * form.doubt)
        count = int(np.count_nonzero(on_host(sample.shares)))
        mean = on_host(means[0])
        free = like(y, free_directions(form.null, largest, mean, weighted_images, rounding, count))
        images = centred_images(free)
    weighted = sample.shares[:, None] * images
    response = weighted.T @ (y - means[1])
    if free.shape[1]:
        mix = _mixed(form, X.times_t(weighted).T, weighted.T @ images)
        y = y - images @ response
        # where directions that are not penalised fit every row, X̃ is what cancellation has left:
        # rounding errors of XB, and those of the images of F, which have unit length, times G
        lost = max(float(size * np.linalg.norm(on_host(free))), 1.0)
        floor = SAFETY * EPS * (combined + lost * float(np.linalg.norm(on_host(mix))))
    back = _Restoration(form, free, mix, response, means)
    return replace(sample, X=_StandardRows(X, back, images, weighted, floor), y=y), back


def _mixed(form: StandardForm, seen: Any, overlap: Any) -> Any:
    """Return the G above from FᵀXᵀX/n, and from FᵀXᵀXF/n, which is one up to rounding."""
    mix = form.inverse.of_rows(seen)
    # a second projection removes what rounding left of the unpenalised columns
    return 2 * mix - overlap @ mix


def _size(matrix: Any, columns: int | None = None) -> float:
    """Estimate the root of the sum of the squares of all entries of a matrix."""
    product = matrix if callable(matrix) else matrix.__matmul__
    width = matrix.width if columns is None else columns
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (width, 1))
    return float(np.linalg.norm(product(signs)))


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


def _moments_in_standard_form(
    m: Statistics, form: StandardForm, fit_intercept: bool
) -> tuple[StreamData, _Restoration]:
    """Return streamed data in standard form, and the way back."""
    lengths = np.sqrt(np.diagonal(m.gram))
    largest = np.abs(form.null).T @ lengths
    # lengths are square roots of products, and so are their rounding errors
    rounding = float(np.sqrt(EPS * (m.n_features + np.sqrt(m.n_rows))))
    images = partial(_root, m.gram)
    free = free_directions(form.null, largest, m.feature_mean, images, rounding, m.n_rows)
    seen = m.gram @ free
    mix = _mixed(form, seen.T, free.T @ seen)
    back = _Restoration(form, free, mix, free.T @ m.cross, (m.feature_mean, m.target_mean))

    def combined(vectors: Floats) -> Array:
        # products of columns of X were rounded before a direction combined them
        return np.asarray(np.linalg.norm(lengths[:, None] * (back @ vectors), axis=0))

    return StreamData(_mapped_moments(m, back), fit_intercept, combined), back


def _mapped_moments(m: Statistics, back: _Restoration) -> Statistics:
    r"""Return moments in standard form, whose means are zero.

    .. math:: \tilde X^T\tilde X = M^TX^TXM, \qquad \tilde X^T\tilde y = M^TX^Ty, \qquad
        \|\tilde y\|^2 = \|y\|^2 - n\|r\|^2
    """
    seen = m.gram @ back.free
    gram = back.of_rows((back.form.inverse.of_rows(m.gram) - seen @ back.mix).T)
    zeros = like(gram, np.zeros(back.form.inverse.width + m.n_targets))
    return replace(
        m,
        origin=zeros,
        offset=zeros,
        gram=as_products((gram + gram.T) / 2),
        cross=back.of_rows((m.cross - seen @ back.response).T).T,
        target_power=nonnegative(m.target_power - (back.response**2).sum(axis=0)),
        names=None,
    )


def _root(gram: Floats, vectors: Floats) -> Floats:
    """Return a square matrix R with RᵀR = VᵀXᵀXV/n, whose columns stand for the images XV."""
    squares, turn = np.linalg.eigh(vectors.T @ gram @ vectors)
    return np.asarray(np.sqrt(np.maximum(squares, 0))[:, None] * turn.T)
