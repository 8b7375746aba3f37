"""Streamed data and statistics: read once and not kept, and factored by XᵀX alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data, Fit, TestedRows, TestErrors, Want
from stoptime.spectrum.factorise import by_statistics
from stoptime.spectrum.moments import Statistics
from stoptime.spectrum.source import (
    NEVER,
    WITHOUT_BLOCKS,
    Block,
    Folds,
    Labels,
    Source,
    Sums,
    parts_of,
    sums_of_others,
)
from stoptime.spectrum.sources import as_stream
from stoptime.support.arrays import Array, Floats, slices
from stoptime.support.progress import progress_shown

if TYPE_CHECKING:
    from stoptime.spectrum.data import Fold


@dataclass(frozen=True)
class StreamData(Data):
    """Streamed data; folds must be requested before the one pass over the rows."""

    stream: Source | Statistics
    centred: bool
    # of the columns that directions combine, for moments in the standard form of a penalty
    lengths: Callable[[Floats], Array] | None = None
    precision = None

    @property
    def _of(self) -> Statistics:
        return self.moments

    @property
    def shape(self) -> tuple[int | None, int]:
        """Numbers of rows, None if it is unknown, and of columns; nothing is read."""
        return self.stream.n_rows, self.stream.n_features

    @property
    def fit_intercept(self) -> bool:
        """Whether the data are centred."""
        return self.centred

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns; nothing is read."""
        return self.stream.names

    @property
    def n_samples(self) -> float:
        """Sum of the weights."""
        return self.moments.weight

    @property
    def n_observations(self) -> float:
        """The larger of this sum and the number of rows of positive weight."""
        return max(self.moments.weight, self.moments.n_rows)

    @cached_property
    def _sums(self) -> Sums:
        """Statistics of every fold, from the one pass over the rows."""
        return {}

    def _read(self, folds: Folds | None = None) -> Sums:
        if isinstance(self.stream, Statistics):
            if folds is not None:
                raise ValueError(
                    "Statistics of all rows cannot be divided into folds: use "
                    'rule="path-gcv", or fit chunks with cv.'
                )
            return {0: self.stream}
        if not self._sums or folds is not None:
            self._sums.clear()
            self._sums.update(self.stream.sums(folds))
        return self._sums

    @cached_property
    def moments(self) -> Statistics:
        """The statistics of all rows."""
        return total(self._read(), self.names)

    def spectrum(self, want: Want = Want()) -> Spectrum:  # noqa: B008 - it is frozen
        """Diagonalise XᵀX, the only factorisation that statistics allow."""
        if want.solver in {"svd", "krylov"}:
            raise ValueError(
                f'solver="{want.solver}" needs the rows in memory; streamed data are factored by '
                '"gram".'
            )
        # users who choose "gram" by name accept its rounding and need no warning
        return self._spectrum.accepted() if want.solver == "gram" else self._spectrum

    @cached_property
    def _spectrum(self) -> Spectrum:
        return by_statistics(self, self.moments, self.lengths)

    def splits(self, cv: Any, groups: ArrayLike | None = None) -> Folds:
        """Draw the fold of every row."""
        return Folds.of(cv, self.shape[0], groups)

    def folds(self, splits: Folds) -> list[Fold]:
        """Return the folds from one pass; the training set of a fold is the sum of all others."""
        if not isinstance(splits, Folds):
            raise ValueError(  # noqa: TRY004 - other data take lists of rows
                'Streamed data are read once, without residuals: use rule="path-gcv".'
            )
        sums = self._read(splits)
        tested = [sums[fold] for fold in sorted(sums) if fold != NEVER]
        if len(tested) < splits.count:
            raise ValueError(
                f"cv={splits.count} needs at least as many blocks of rows, because whole blocks "
                "are assigned to the folds if the number of rows is not known in advance; got "
                f"{len(sums)}. Make blocks smaller, or read all rows at once: in_memory=True."
            )
        if len(sums) == 1:
            raise ValueError("cv leaves no row to train on: there must be at least two folds.")
        pairs = zip(tested, sums_of_others(tested, sums.get(NEVER)), strict=True)
        return [partial(self._fold, train, test) for test, train in pairs if test.weight > 0]

    def _fold(self, train: Statistics, test: Statistics) -> tuple[Data, StatisticsToTest]:
        return type(self)(train, self.fit_intercept), StatisticsToTest(test)

    def left_out(
        self, splits: Folds, fitted: Callable[[Data], Fit]
    ) -> list[tuple[Fit, TestedRows]]:
        """Read the rows a second time; each is predicted by the fit without its fold."""
        folds = self.folds(splits)
        tested = [one for one, part in sorted(self._sums.items()) if one != NEVER and part.weight]
        fits = {one: fitted(fold()[0]) for one, fold in zip(tested, folds, strict=True)}
        source = cast("Source", self.stream)  # statistics have no folds
        parts = list(source._each(partial(_tested, fits), splits))
        rows = {one: [part[one] for part in parts if one in part] for one in fits}
        return [(fit, TestedRows.joined(rows[one])) for one, fit in fits.items()]


def _tested(fits: dict[int, Fit], _: str, block: Block, labels: Labels) -> dict[int, TestedRows]:
    """Return the rows of a block that each fold tests."""
    found = {}
    for fold, (X, y, weight) in parts_of(block, labels):
        if fold in fits:
            shares = np.ones(len(X)) if weight is None else weight
            found[fold] = TestedRows.of(fits[fold], X, y, shares)
    return found


@dataclass(frozen=True)
class StatisticsToTest:
    """A test set of which only statistics are known; errors of single rows are not."""

    statistics: Statistics

    @property
    def weight(self) -> float:
        """Sum of the weights of the tested rows."""
        return self.statistics.weight

    def errors(self, draw: Any, stops: Array, units: Array) -> TestErrors:
        """Return the errors of these rows at all stops, from their moments."""
        seen = self.statistics
        found = []
        # a table of four million coefficients at a time
        for part in slices(len(stops), 2**22 // seen.cross.size):
            path = draw(stops[part])
            coef = path.coef.reshape(*path.coef.shape[:2], -1)
            # with coefficients b, intercepts a, and products about the means,
            # Σ wᵢ(yᵢ - xᵢᵀb - a)²/w = (ȳ - x̄ᵀb - a)² + P - 2bᵀc + bᵀΣb
            bias = seen.target_mean - np.tensordot(coef, seen.feature_mean, axes=(1, 0))
            bias -= path.intercept.reshape(bias.shape)
            images = np.einsum("tpq,pr->trq", coef, seen.gram, optimize=True) - 2 * seen.cross
            spread = seen.target_power + np.einsum("tpq,tpq->tq", coef, images)
            # rounding may make the variance of a perfect fit negative
            found.append(bias**2 + np.maximum(spread, 0))
        return TestErrors(seen.weight, np.nan, seen.weight * np.concatenate(found) / units**2)


def total(sums: Sums, names: tuple[str, ...] | None) -> Statistics:
    """Return the statistics of the rows of all folds."""
    if not sums:
        raise ValueError(WITHOUT_BLOCKS)
    found = reduce(add, sums.values())
    return found if names is None else replace(found, names=names)


def summarise(
    X: Any,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    verbose: bool = False,
) -> Statistics:
    """Return the statistics of data of any size in one pass.

    Statistics of several files add up, and can be saved: a long pass that may be interrupted is a
    loop over files with ``seen = seen + summarise(Chunks.parquet(file, ...))`` and
    ``seen.save(path)``.

    Parameters
    ----------
    X : Chunks, dask array or dataframe, zarr array or array-like
        Rows; memory holds one block and a few arrays of p × p numbers.
    y, sample_weight : optional
        The response and weights, where X does not hold them.
    verbose : bool, default=False
        Whether to print the throughput of a pass that takes more than a few seconds.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import Chunks, decompose
    >>> statistics = summarise(Chunks.of(*load_diabetes(return_X_y=True), rows=100))
    >>> decompose(statistics)
    Spectrum(442 samples, 10 features, rank 10, solver='gram')
    """
    stream = as_stream(X, y, sample_weight)
    if isinstance(stream, Statistics):
        return stream
    with progress_shown(verbose):
        return total(stream.sums(), stream.names)
