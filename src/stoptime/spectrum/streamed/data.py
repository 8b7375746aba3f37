"""Streamed data: chunks, Dask collections and statistics, which are read once and not kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from hashlib import sha256
from operator import add, attrgetter
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from stoptime.spectrum.accuracy import constant
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data, Fit, LeftOutRows, RowsToTest, TestErrors, checked_test
from stoptime.spectrum.kinds import rows_in_memory
from stoptime.spectrum.penalised import moments_in_standard_form
from stoptime.spectrum.penalty import StandardForm, standard_form
from stoptime.spectrum.streamed.dask import DaskRows
from stoptime.spectrum.streamed.folds import NEVER, WHOLE, Folds, Parts, merged_parts
from stoptime.spectrum.streamed.gram import by_statistics
from stoptime.spectrum.streamed.sources import Chunks
from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.support.arrays import Array, Floats, slices
from stoptime.support.files import load_arrays, save_arrays

if TYPE_CHECKING:
    from stoptime.paths import Drawing, Path
    from stoptime.spectrum.data import Fold, Goal, TestSet

COEFFICIENT_NUMBERS = 2**22  # coefficients of one table
SAVE_EVERY = 30.0  # seconds between checkpoints
FIRST_ROWS = 64  # rows by which sources of the same name and shape are distinguished

Stream = Chunks | DaskRows | Statistics
State = tuple[Parts, int, int]
"""Statistics so far, rows read, and blocks read."""


@dataclass(frozen=True)
class StreamedData(Data):
    """Streamed data or statistics; folds must be requested before the one pass over the rows.

    Only the statistics take notice of a penalty matrix, if there is one.
    """

    stream: Stream
    fit_intercept: bool
    _parts: Parts = field(default_factory=dict)
    penalty_matrix: Any = None

    n_features = property(attrgetter("stream.n_features"))
    n_rows = property(attrgetter("stream.n_rows"))
    names = property(attrgetter("stream.names"))
    n_targets = property(attrgetter("statistics.n_targets"))
    single_target = property(attrgetter("statistics.single_target"))
    has_rows = False
    is_penalised = property(lambda self: self.penalty_matrix is not None)

    def __post_init__(self) -> None:
        if not isinstance(self.penalty_matrix, str) or self.penalty_matrix != "standardise":
            _ = self.form  # an error here spares a pass over the rows

    @cached_property
    def form(self) -> StandardForm | None:
        """The standard form of the penalty."""
        if self.penalty_matrix is None:
            return None
        return standard_form(self.penalty_matrix, self.n_features, self._deviations)

    def _deviations(self) -> Floats:
        moments, _ = self.statistics.about(self.fit_intercept)
        powers = np.diagonal(moments.gram)
        return np.sqrt(np.where(constant(powers, moments.feature_mean), 0, powers))

    def parts(self, folds: Folds | None = None, *, verbose: bool = False) -> Parts:
        """Return the statistics of every fold, or those that the first pass has found."""
        if isinstance(self.stream, Statistics):
            if folds is not None:
                raise ValueError(
                    "Statistics of all rows cannot be divided into folds: use "
                    'rule="path-gcv", or fit chunks with cv.'
                )
            return {WHOLE: self.stream}
        if not self._parts or folds is not None:
            self._parts.clear()
            self._parts.update(self.stream.parts(folds, verbose=verbose))
        return self._parts

    @cached_property
    def statistics(self) -> Statistics:
        """The statistics of all rows."""
        return _total(self.parts(), self.names)

    def check_rows(self) -> None:
        """Refuse exact leave-one-out before any row is read."""
        raise ValueError(
            "Leave-one-out reads every row again, which streamed data do not allow: use cv=5, "
            'which reads them once, or rule="path-gcv", which needs only the spectrum.'
        )

    def spectrum(self, wanted: Sequence[Goal] | None = None, solver: str = "auto") -> Spectrum:  # noqa: ARG002
        """Diagonalise XᵀX, the only factorisation that statistics allow."""
        if solver in {"svd", "krylov"}:
            raise ValueError(
                f'solver="{solver}" needs the rows in memory; streamed data are factored by "gram".'
            )
        # users who choose "gram" by name accept its rounding and need no warning
        return self._spectrum if solver == "auto" else replace(self._spectrum, rounding=None)

    @cached_property
    def _spectrum(self) -> Spectrum:
        standard = None
        if self.form is not None:
            known = self.form, self.single_target, self.statistics.n_rows
            standard = partial(moments_in_standard_form, *known)
        return by_statistics(self.statistics, self.fit_intercept, standard)

    def splits(self, cv: Any, groups: ArrayLike | None = None) -> Folds:
        """Draw the fold of every row."""
        return Folds.of(cv, self.n_rows, groups)

    def folds(self, splits: Folds, *, verbose: bool = False) -> list[Fold]:
        """Return the folds from one pass; the training set of a fold is the sum of all others."""
        parts = self.parts(splits, verbose=verbose)
        tested = [parts[fold] for fold in sorted(parts) if fold != NEVER]
        if len(tested) < splits.count:
            raise ValueError(
                f"cv={splits.count} needs at least as many blocks of rows, because whole blocks "
                "are assigned to the folds if the number of rows is not known in advance; got "
                f"{len(parts)}. Make blocks smaller, or read all rows at once: in_memory=True."
            )
        if len(parts) == 1:
            raise ValueError("cv leaves no row to train on: there must be at least two folds.")
        return [
            partial(self._fold, train, test)
            for test, train in zip(tested, _others(tested, parts.get(NEVER)), strict=True)
            if test.weight > 0
        ]

    def left_out(
        self, splits: Folds, fitted: Callable[[Data], Fit], *, verbose: bool = False
    ) -> list[tuple[Fit, LeftOutRows]]:
        """Read the rows a second time; each is predicted by the fit without its fold."""
        folds = self.folds(splits, verbose=verbose)
        tested = [one for one, part in sorted(self._parts.items()) if one != NEVER and part.weight]
        fits = {one: fitted(fold()[0]) for one, fold in zip(tested, folds, strict=True)}
        stream = cast("Chunks", self.stream)
        rows = stream.parts(splits, partial(_left_out, fits), verbose=verbose)
        return [(fits[one], LeftOutRows.joined(rows[one])) for one in tested]

    def afresh(self) -> StreamedData:
        """Return the same data, not yet read."""
        return replace(self, _parts={})

    def _fold(self, train: Statistics, test: Statistics) -> tuple[Data, TestSet]:
        # "standardise" takes the standard deviations on all rows, in every fold
        return StreamedData(train, self.fit_intercept, {}, self.form), StatisticsToTest(test)

    def test_set(self, X: Any, y: ArrayLike) -> RowsToTest:
        """Return new rows in memory as a test set."""
        y = np.asarray(check_array(y, dtype=np.float64, ensure_2d=False, input_name="y_val"))
        X = rows_in_memory(X, y, dtype=np.float64, name="X_val")
        targets = () if self.single_target else (self.n_targets,)
        return checked_test(X, y, (self.n_features, *targets))


@dataclass(frozen=True)
class StatisticsToTest:
    """A test set of which only statistics are known."""

    statistics: Statistics

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return self.statistics.weight

    def errors(self, draw: Drawing, stops: Array, units: Array) -> TestErrors:
        """Return sums of squared errors; those of single rows are not known."""
        seen = self.statistics
        parts = slices(len(stops), COEFFICIENT_NUMBERS // seen.cross.size)
        means = [_mean_squared_error(draw(stops[part]), seen) for part in parts]
        weight = seen.weight
        return TestErrors(weight, weight**2, weight * np.concatenate(means) / units**2)


def _mean_squared_error(path: Path, statistics: Statistics) -> Floats:
    """Return the mean squared error of a path, with coefficients b and intercepts a."""
    # Σ wᵢ(yᵢ - xᵢᵀb - a)²/w = (ȳ - x̄ᵀb - a)² + P - 2bᵀc + bᵀΣb, with products about the means
    coef = path.coef.reshape(*path.coef.shape[:2], -1)
    bias = statistics.target_mean - np.tensordot(coef, statistics.feature_mean, axes=(1, 0))
    bias -= path.intercept.reshape(bias.shape)
    images = np.einsum("tpq,pr->trq", coef, statistics.gram, optimize=True) - 2 * statistics.cross
    spread = statistics.target_power + np.einsum("tpq,tpq->tq", coef, images)
    # rounding may make the variance of a perfect fit negative
    return np.asarray(bias**2 + np.maximum(spread, 0))


def _left_out(
    fits: Mapping[int, Fit], fold: int, X: Any, y: Any, weights: Any
) -> tuple[LeftOutRows, ...]:
    """Return the rows of a block as a tuple, because the sum of two tuples contains both."""
    if fold not in fits:
        return ()
    weights = np.ones(len(X)) if weights is None else weights
    return (LeftOutRows.of(fits[fold], np.asarray(X), np.asarray(y), weights),)


def _others(folds: list[Statistics], always: Statistics | None) -> Iterator[Statistics]:
    """Yield, for each fold, the sum of all other folds."""
    # sums from both ends keep all digits; the difference of total and fold would lose some
    after = [folds[:0]]
    for fold in reversed(folds[1:]):
        after.append([reduce(add, after[-1], fold)])
    before = [] if always is None else [always]
    for fold, rest in zip(folds, reversed(after), strict=True):
        yield reduce(add, [*before, *rest])
        before = [reduce(add, [*before, fold])]


def _total(parts: Parts, names: tuple[str, ...] | None) -> Statistics:
    """Return the statistics of the rows of all folds."""
    if not parts:
        raise ValueError("There are no rows: every block is empty, or there is no block.")
    total = reduce(add, parts.values())
    return total if names is None else replace(total, names=names)


def as_stream(X: Any, y: Any = None, sample_weight: Any = None) -> Stream:
    """Return streamed data with their response; chunks and statistics hold their own."""
    if hasattr(X, "__dask_graph__"):
        return DaskRows.of(X, y, sample_weight)
    if not isinstance(X, Chunks | Statistics):
        if y is None:
            raise ValueError("y must be given with X.")
        return Chunks.of(X, y, sample_weight)
    if y is not None or sample_weight is not None:
        raise ValueError(f"{X} holds its own response and weights: leave y and sample_weight out.")
    return X


def summarise(
    X: Any,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    checkpoint: str | PathLike[str] | None = None,
    verbose: bool = False,
) -> Statistics:
    """Return the statistics of data of any size in one pass.

    Parameters
    ----------
    X : Chunks, dask array or dataframe, zarr array or array-like
        Rows; memory holds one block and a few arrays of p × p numbers.
    y, sample_weight : optional
        The response and weights, where X does not hold them.
    checkpoint : path, optional
        For chunks: a file to which the statistics so far are written every half minute, and when
        the pass ends in any way, Ctrl-C included. A later call continues from there. The file can
        be read by :meth:`Statistics.load`.
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
    if checkpoint is None:
        return _total(StreamedData(stream, True).parts(verbose=verbose), stream.names)
    if not isinstance(stream, Chunks):
        raise ValueError("checkpoint needs Chunks, which can be read from the middle.")  # noqa: TRY004
    return _total(_resumed(stream, FilePath(checkpoint), verbose), stream.names)


def _resumed(chunks: Chunks, checkpoint: FilePath, verbose: bool) -> Parts:
    """Continue from a checkpoint, and write one even if the pass is interrupted."""
    # the name of the source alone does not tell data of the same shape apart
    digest = sha256()
    for values in next(iter(chunks), ()):
        if values is not None:
            digest.update(np.ascontiguousarray(values[:FIRST_ROWS]).tobytes())
    source = f"{chunks.source}, first rows {digest.hexdigest()[:16]}"
    state = done = _restored(source, checkpoint)
    saved = time.monotonic()
    try:
        for block in chunks.blocks(state[1], verbose=verbose):
            seen, start, number = state
            parts = merged_parts([seen, chunks.block_parts(block, number, start)])
            # one assignment: an interrupt must not find statistics and position out of step
            state = parts, start + len(block.X), number + 1
            if time.monotonic() - saved > SAVE_EVERY:
                _save(chunks, source, checkpoint, state)
                saved = time.monotonic()
                done = state
    finally:
        if state is not done:
            _save(chunks, source, checkpoint, state)
    return state[0]


def _save(chunks: Chunks, source: str, checkpoint: FilePath, state: State) -> None:
    place = {"position": np.array(state[1:]), "source": np.array(source)}
    save_arrays(checkpoint, _total(state[0], chunks.names).as_arrays() | place)


def _restored(own: str, checkpoint: FilePath) -> State:
    if not checkpoint.exists():
        return {}, 0, 0
    arrays = load_arrays(checkpoint)
    statistics = Statistics.from_arrays(arrays, str(checkpoint))
    source, position = arrays.get("source"), arrays.get("position")
    if source is None or position is None or position.shape != (2,) or position.dtype.kind != "i":
        raise ValueError(f"{checkpoint} is not a checkpoint: it has no position in the data.")
    if str(source) != own:
        raise ValueError(
            f"{checkpoint} was made from {source}, not from {own}: remove it or use another."
        )
    return {WHOLE: statistics}, int(position[0]), int(position[1])
