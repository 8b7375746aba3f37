"""Data that are read once and not kept: chunks, Dask collections, and statistics themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import EVERYTHING, Data, Fold, Goal, TestErrors
from stoptime.spectrum.dense import RowsToTest, checked_test
from stoptime.spectrum.kinds import kind_of, new_rows
from stoptime.spectrum.streamed.chunks import Chunks
from stoptime.spectrum.streamed.folds import NEVER, WHOLE, Folds, Parts
from stoptime.spectrum.streamed.products import by_statistics
from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.support.arrays import Array, Floats
from stoptime.support.files import load_arrays, save_arrays

if TYPE_CHECKING:
    from stoptime.paths import Path

__all__ = ["Stream", "StreamedData", "as_stream", "mean_squared_error", "summarise"]

COEFFICIENT_NUMBERS = 2**22  # coefficients of one table
SAVE_EVERY = 30.0  # seconds between checkpoints
FIRST_ROWS = 64  # by which data are told apart


class Stream(Protocol):
    """Rows that pass by once."""

    @property
    def n_features(self) -> int:
        """Number of columns of X."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where it is not known before the end."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features."""

    def parts(self, folds: Folds | None = None, *, verbose: bool = False) -> Parts:
        """Return the statistics of all rows, or of every fold, in one pass."""


@dataclass(frozen=True)
class Given:
    """Statistics as a stream that has passed already."""

    statistics: Statistics

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.statistics.n_features

    @property
    def n_rows(self) -> int | None:
        """Number of rows of positive weight."""
        return self.statistics.n_rows

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features."""
        return self.statistics.names

    def parts(self, folds: Folds | None = None, *, verbose: bool = False) -> Parts:  # noqa: ARG002
        """Return the statistics; folds cannot be told apart in them any more."""
        if folds is not None:
            raise ValueError(
                'Statistics of all rows know of no folds: use rule="path-gcv", or fit chunks with cv.'
            )
        return {WHOLE: self.statistics}


@dataclass(frozen=True)
class StreamedData(Data):
    """Data that are read once: a stream, or the statistics that are left of one.

    The pass is made when something is first asked for. Folds have to be asked for first, so that
    one pass gives their statistics and those of all rows.
    """

    stream: Stream
    fit_intercept: bool
    _parts: Parts = field(default_factory=dict)

    def parts(self, folds: Folds | None = None, *, verbose: bool = False) -> Parts:
        """Return the statistics of every fold, or whatever the first pass has left."""
        if not self._parts or folds is not None:
            self._parts.clear()
            self._parts.update(self.stream.parts(folds, verbose=verbose))
        return self._parts

    @cached_property
    def statistics(self) -> Statistics:
        """The statistics of all rows."""
        return total(self.parts())

    @property
    def single_target(self) -> bool:  # type: ignore[override]
        """Whether y was a vector."""
        return self.statistics.single_target

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.stream.n_features

    @property
    def n_targets(self) -> int:
        """Number of columns of y."""
        return self.statistics.n_targets

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where it is known only after reading them."""
        return self.stream.n_rows

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns."""
        return self.stream.names

    @property
    def has_rows(self) -> bool:
        """Rows of streamed data are not kept."""
        return False

    def check_rows(self) -> None:
        """Refuse exact leave-one-out before any row is read."""
        raise ValueError(
            "Leave-one-out reads every row again, which streamed data do not allow: use cv=5, in "
            'the same single pass, or rule="path-gcv", which estimates it from the spectrum alone.'
        )

    def spectrum(self, wanted: Sequence[Goal] = EVERYTHING, solver: str = "auto") -> Spectrum:  # noqa: ARG002
        """Diagonalise XᵀX, the one route that statistics leave open."""
        if solver in {"svd", "krylov"}:
            raise ValueError(
                f'solver="{solver}" needs the rows in memory; streamed data are factored by "gram".'
            )
        spectrum = self._spectrum
        # who asks for "gram" by name does not want to hear of its rounding
        return spectrum if solver == "auto" else replace(spectrum, rounding=None)

    @cached_property
    def _spectrum(self) -> Spectrum:
        return by_statistics(self.statistics, self.fit_intercept)

    def folds(self, cv: Any, groups: ArrayLike | None, *, verbose: bool = False) -> list[Fold]:
        """Return the folds in one pass: each is tested on, and all others add up to train on."""
        wanted = Folds.of(cv, self.n_rows, groups)
        parts = self.parts(wanted, verbose=verbose)
        if sum(fold >= 0 for fold in parts) < wanted.count:
            raise ValueError(
                f"cv={wanted.count} needs at least as many blocks of rows, which are dealt to the "
                "folds in turn where the number of rows is not known beforehand; got "
                f"{len(parts)}. Make blocks smaller."
            )
        tested = [parts[fold] for fold in sorted(parts) if fold >= 0]
        trained = _others(tested, parts.get(NEVER))
        return [
            Fold(StreamedData(Given(train), self.fit_intercept), StatisticsToTest(test))
            for test, train in zip(tested, trained, strict=True)
            if test.weight > 0
        ]

    def test_set(self, X: Any, y: ArrayLike) -> RowsToTest:
        """Return new rows in memory as a test set."""
        y = np.asarray(check_array(y, dtype=np.float64, ensure_2d=False, input_name="y_val"))
        X = new_rows(X, y, dtype=np.float64, name="X_val")
        targets = () if self.single_target else (self.n_targets,)
        return checked_test(X, y, (self.n_features, *targets))


@dataclass(frozen=True)
class StatisticsToTest:
    """A test set of which only statistics are known."""

    statistics: Statistics

    def errors(self, draw: Callable[[Array], Path], stops: Array, units: Array) -> TestErrors:
        """Return sums of squared errors; those of single rows are not known."""
        seen = self.statistics
        height = max(1, COEFFICIENT_NUMBERS // (seen.n_features * seen.n_targets))
        starts = range(0, len(stops), height)
        means = [mean_squared_error(draw(stops[i : i + height]), seen) for i in starts]
        weight = seen.weight
        return TestErrors(weight, weight**2, weight * np.concatenate(means) / units**2)


def mean_squared_error(path: Path, statistics: Statistics) -> Floats:
    r"""Return the mean squared error of a path on rows of which only statistics are left.

    .. math:: \frac1w\sum_i w_i(y_i - x_i^Tb - a)^2
        = (\bar y - \bar x^Tb - a)^2 + P - 2b^Tc + b^T\hat\Sigma b

    Parameters
    ----------
    path : Path
        Coefficients b and intercepts a at many stops.
    statistics : Statistics
        Means, products :math:`\hat\Sigma` and c of features with features and targets, and powers P.

    Returns
    -------
    array of shape (n_stops, n_targets)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import Statistics, path
    >>> X, y = load_diabetes(return_X_y=True)
    >>> drawn = path(X, y, "ridge", [1e3, 1e4])
    >>> mean_squared_error(drawn, Statistics.of(X, y))[:, 0].round(2)
    array([3014.06, 2878.01])
    >>> ((drawn.predict(X) - y) ** 2).mean(axis=1).round(2)
    array([3014.06, 2878.01])
    """
    coef = path.coef.reshape(*path.coef.shape[:2], -1)
    bias = statistics.target_mean - np.tensordot(coef, statistics.feature_mean, axes=(1, 0))
    bias -= path.intercept.reshape(bias.shape)
    images = np.einsum("tpq,pr->trq", coef, statistics.gram, optimize=True) - 2 * statistics.cross
    spread = statistics.target_power + np.einsum("tpq,tpq->tq", coef, images)
    return np.asarray(bias**2 + np.maximum(spread, 0))


def _others(folds: list[Statistics], always: Statistics | None) -> Iterator[Statistics]:
    """Yield what all other folds add up to: sums lose no digits, as differences would."""
    if len(folds) == 1 and always is None:
        raise ValueError("cv leaves no row to train on: there must be at least two folds.")
    after: list[Statistics | None] = [None]
    for fold in reversed(folds[1:]):
        after.append(_sum(fold, after[-1]))
    before = always
    for fold, rest in zip(folds, reversed(after), strict=True):
        others = _sum(before, rest)
        if others is not None:
            yield others
        before = _sum(before, fold)


def _sum(a: Statistics | None, b: Statistics | None) -> Statistics | None:
    return b if a is None else a if b is None else a + b


def as_stream(X: Any, y: Any = None, sample_weight: Any = None) -> Stream:
    """Return data of a streamed kind as a stream; what holds its own response takes no other."""
    kind = kind_of(X)
    if kind == "dask":
        from stoptime.spectrum.streamed.dask import DaskRows  # noqa: PLC0415 - an extra

        return DaskRows.of(X, y, sample_weight)
    if not isinstance(X, Chunks | Statistics):
        if y is None:
            raise ValueError("y must be given with X.")
        return Chunks.of(X, y, sample_weight)
    if y is not None or sample_weight is not None:
        raise ValueError(f"{X} holds its own response and weights: leave y and sample_weight out.")
    return Given(X) if isinstance(X, Statistics) else X


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
        Rows; memory is one block and a few arrays of p × p numbers.
    y, sample_weight : optional
        The response and weights, where X does not hold them.
    checkpoint : path, optional
        For chunks: a file to which the statistics so far are written every half minute, and when the pass
        ends in any way, Ctrl-C included. A later call continues from there. It can be read by
        :meth:`Statistics.load`.
    verbose : bool, default=False
        Whether reading for more than a few seconds tells its throughput. Changes no number.

    Returns
    -------
    Statistics

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import Chunks, decompose
    >>> statistics = summarise(Chunks.of(*load_diabetes(return_X_y=True), rows=100))
    >>> decompose(statistics)
    Spectrum(442 samples, 10 features, rank 10, solver='gram')
    """
    if kind_of(X) not in {"chunks", "dask", "statistics"}:
        X = Chunks.of(X, _array(y), _array(sample_weight))
        y = sample_weight = None
    stream = as_stream(X, y, sample_weight)
    if checkpoint is not None:
        if not isinstance(stream, Chunks):
            raise ValueError("checkpoint needs Chunks, which can be read from the middle.")
        return _resumed(stream, FilePath(checkpoint), verbose)
    return _named(total(stream.parts(verbose=verbose)), stream)


def total(parts: Parts) -> Statistics:
    """Return the statistics of all rows."""
    folds = list(parts.values())
    if not folds:
        raise ValueError("There are no rows: every block is empty, or there is no block.")
    return sum(folds[1:], start=folds[0])


def _array(values: ArrayLike | None) -> Any:
    return None if values is None else np.asarray(values)


def _named(statistics: Statistics, stream: Stream) -> Statistics:
    return statistics if stream.names is None else replace(statistics, names=stream.names)


def _resumed(chunks: Chunks, checkpoint: FilePath, verbose: bool) -> Statistics:
    """Continue from a checkpoint, and leave one behind however the pass ends."""
    source = _identity(chunks)
    state = done = _restored(source, checkpoint)
    saved = time.monotonic()
    try:
        for block in chunks.blocks(state[1], verbose=verbose):
            seen, start, number = state
            part = total(chunks.block_parts(block, number, start))
            # one assignment, so that an interrupt finds the statistics and the rows they are of together
            state = (part if seen is None else seen + part), start + len(block.X), number + 1
            if time.monotonic() - saved > SAVE_EVERY:
                _save(chunks, source, checkpoint, state)
                saved, done = time.monotonic(), state
    finally:
        if state is not done:
            _save(chunks, source, checkpoint, state)
    if state[0] is None:
        raise ValueError("There are no rows: every block is empty, or there is no block.")
    return _named(state[0], chunks)


State = tuple[Statistics | None, int, int]
"""Statistics so far, rows read, and blocks read."""


def _identity(chunks: Chunks) -> str:
    """Return what tells data from others of the same name and shape: a digest of their first rows."""
    first = next(iter(chunks), None)
    digest = sha256()
    for values in () if first is None else (first.X, first.y, first.weight):
        if values is not None:
            digest.update(np.ascontiguousarray(values[:FIRST_ROWS]).tobytes())
    return f"{chunks.source}, first rows {digest.hexdigest()[:16]}"


def _save(chunks: Chunks, source: str, checkpoint: FilePath, state: State) -> None:
    if state[0] is not None:
        place = {"position": np.array(state[1:]), "source": np.array(source)}
        save_arrays(checkpoint, _named(state[0], chunks).as_arrays() | place)


def _restored(own: str, checkpoint: FilePath) -> State:
    if not checkpoint.exists():
        return None, 0, 0
    arrays = load_arrays(checkpoint)
    statistics = Statistics.from_arrays(arrays, str(checkpoint))
    source, position = arrays.get("source"), arrays.get("position")
    if source is None or position is None or position.shape != (2,) or position.dtype.kind != "i":
        raise ValueError(
            f"{checkpoint} is no checkpoint: it holds statistics, but not where they end."
        )
    if str(source) != own:
        raise ValueError(
            f"{checkpoint} was made from {source}, which is not {own}: remove it, or name another."
        )
    rows, blocks = (int(value) for value in position)
    return statistics, rows, blocks
