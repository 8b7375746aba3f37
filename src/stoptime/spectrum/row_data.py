"""Data whose rows can be read again: arrays, sparse matrices, arrays on disk, tensors.

All work is done in double precision. Single precision is converted block by block, so that products
lose no digits, and only results are rounded to it. Eigenvalues and the rotated response are small;
they come to the host, where filters are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import check_cv

from stoptime.spectrum.accuracy import ReachError, unresolved
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data, Fold, RowsToTest, Want
from stoptime.spectrum.factorise import by_features, by_rows, by_svd, column_powers
from stoptime.spectrum.moments import Statistics, diagonal, moments
from stoptime.spectrum.rows import Sample
from stoptime.spectrum.source import NO_FOLDS
from stoptime.support.arrays import Array, Floats, like, on_host
from stoptime.support.checks import row_numbers

Splits = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


class SampleData(Data):
    """Data with a sample of rows in memory or behind products."""

    sample: Sample

    @property
    def _of(self) -> Sample:
        return self.sample

    @property
    def rows(self) -> Sample | None:
        """The rows."""
        return self.sample

    def splits(self, cv: Any, groups: ArrayLike | None = None) -> Splits:
        """Draw the training and test rows of a splitter."""
        sample = self.sample
        n = sample.n_rows
        X: Any = getattr(sample.X, "X", None)
        X = X if isinstance(X, np.ndarray) else np.zeros((n, 1))  # splitters count rows
        drawn = check_cv(cv).split(X, on_host(sample.response), groups)
        splits: Splits = [(row_numbers(train, n), row_numbers(test, n)) for train, test in drawn]
        weights = sample.row_weights
        if weights is not None:  # a test set of weight zero tests nothing
            splits = [(train, test) for train, test in splits if np.any(weights[test] > 0)]
        if not splits:
            raise ValueError(NO_FOLDS)
        return splits

    def folds(self, splits: Splits) -> list[Fold]:
        """Return the folds."""
        return [partial(self._fold, train, test) for train, test in splits]

    def _fold(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[Data, RowsToTest]:
        """Return a training set and a test set."""
        part = self.sample.take(test)
        tested = RowsToTest(part.X.matrix(), part.y, self._weights_of_tests(test))
        return replace(cast("Any", self), sample=self.sample.take(train)), tested

    def _weights_of_tests(self, test: NDArray[np.intp]) -> Array:
        weights = self.sample.row_weights
        return np.ones(len(test)) if weights is None else weights[test] / weights.max()


@dataclass(frozen=True)
class RowData(SampleData):
    """Rows that can be read again; ``ready`` returns their moments if that takes no pass."""

    sample: Sample
    ready: Callable[[], Statistics | None] | None = None

    def spectrum(self, want: Want = Want()) -> Spectrum:  # noqa: B008 - it is frozen
        """Factor by products of X, by its SVD, or by whichever is accurate enough."""
        if want.solver == "krylov":
            raise TypeError(
                'solver="krylov" is for sparse matrices and operators; see '
                "scipy.sparse.linalg.aslinearoperator."
            )
        if want.solver != "svd":
            found = self._by_products
            if want.solver == "gram":
                return found.accepted()
            if self._is_enough(found, want) or not self.sample.X.can_be_copied:
                return found
        found = self._by_svd
        if want.search:
            return found  # the search ends where the spectrum does
        most = found.accuracy.gain
        # a step that depends on the data, and the gains of conjugate gradients, are known now
        if want.gain <= most or want.gain_for(found) <= most:
            return found
        raise ReachError(_lost_in_words(self.sample, column_powers(self.sample), most))

    def _is_enough(self, found: Spectrum, want: Want) -> bool:
        """Tell whether products of X are accurate enough."""
        most = found.accuracy.gain
        if np.isinf(most):
            return True
        if not (want.search and want.rough):
            return not want.search and want.gain <= most
        s = found.padded_eigenvalues
        # products lose the smallest eigenvalue first
        return all(method.tuned_to(s) == method.tuned_to(s[-1:]) for method in want.search)

    @cached_property
    def _by_products(self) -> Spectrum:
        # with as many directions as rows every leverage is one, and a sum of shares that XᵀX has
        # to fewer digits than XXᵀ
        tall = self.sample.n_features < self.sample.n_rows - self.sample.fit_intercept
        if tall or self.sample.X.fade_out:
            return by_features(self.sample, self.moments)
        return by_rows(self.sample)

    @cached_property
    def _by_svd(self) -> Spectrum:
        return by_svd(self.sample)

    @cached_property
    def known_moments(self) -> Statistics | None:
        """The moments, if they need no pass over the rows."""
        return None if self.ready is None else self.ready()

    @cached_property
    def moments(self) -> Statistics:
        """Means and second moments."""
        if self.known_moments is not None:
            return self.known_moments
        sample = self.sample
        found = moments(sample.X, sample.y, sample.row_weights, single_target=sample.single_target)
        if not np.isfinite(on_host(diagonal(found.gram))).all():
            sample.X.check_finite()  # NaN has its own message
        return found

    def _fold(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[Data, RowsToTest]:
        data, tested = super()._fold(train, test)
        ready = None
        if np.array_equal(np.sort(np.concatenate([train, test])), np.arange(self.sample.n_rows)):
            ready = partial(self._moments_without, self.sample.take(test))
        return replace(cast("Any", data), ready=ready), tested

    def _moments_without(self, part: Sample) -> Statistics | None:
        """Return the moments of all rows minus those of a part, unless that loses digits."""
        try:
            left = self.moments.without(RowData(part).moments)
        except ValueError:  # the part has all of the weight, up to rounding
            return None
        # if little of a variance remains, the difference has lost its digits
        lost = diagonal(left.gram) < 1e-6 * diagonal(self.moments.gram)
        return None if bool(lost.any()) else left


def _lost_in_words(sample: Sample, powers: Floats, most: float) -> str:
    """Say which columns are too small to be resolved."""
    lost = unresolved(powers, sample.rounding)
    small, large = np.sqrt([powers[lost].min(), powers.max()])
    return (
        f"Columns of X differ too much in scale ({small:.3g} and {large:.3g}; "
        f"{sample.X.described(int(np.argmax(lost)))} is the first that is too small to be "
        "resolved). Rescale them, for example with StandardScaler, or stop earlier: paths are "
        f"accurate up to a gain of {most:.3g}, about the reciprocal of a penalty."
    )


def lost_columns(sample: Sample, residuals: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the columns too small to be resolved, and what each explains of some residuals."""
    lost = np.flatnonzero(unresolved(column_powers(sample), sample.rounding))
    weights = np.asarray(on_host(sample.shares), np.float64)
    index = like(sample.y, lost)
    parts = [on_host(sample.X.read(block)[:, index]) for block in sample.X.blocks()]
    X = np.concatenate(parts)
    if sample.fit_intercept:
        X = X - weights @ X
    # in units of the largest entry, because squares of small ones lose digits
    X = X / np.abs(X).max(axis=0)
    explained = ((weights[:, None] * X).T @ residuals) ** 2 / (weights @ X**2)[:, None]
    return lost, explained.mean(axis=1)
