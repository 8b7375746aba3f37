"""Data whose rows pass by once and are not kept: chunks, Dask collections, and statistics themselves."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.kinds import STREAMED, kind_of
from stoptime.spectrum.streamed.chunks import Chunks
from stoptime.spectrum.streamed.folds import WHOLE, Folds, Parts
from stoptime.spectrum.streamed.products import by_statistics
from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.support.files import load_arrays, save_arrays

__all__ = [
    "Stream",
    "as_stream",
    "noted",
    "predictions",
    "scored",
    "spectrum_of",
    "summarise",
    "total",
]

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
    if kind_of(X) not in STREAMED:
        X = Chunks.of(X, _array(y), _array(sample_weight))
        y = sample_weight = None
    stream = as_stream(X, y, sample_weight)
    if checkpoint is not None:
        if not isinstance(stream, Chunks):
            raise ValueError("checkpoint needs Chunks, which can be read from the middle.")
        return _resumed(stream, Path(checkpoint), verbose)
    return _named(total(stream.parts(verbose=verbose)), stream)


def total(parts: Parts) -> Statistics:
    """Return the statistics of all rows."""
    folds = list(parts.values())
    if not folds:
        raise ValueError("There are no rows: every block is empty, or there is no block.")
    return sum(folds[1:], start=folds[0])


def spectrum_of(stream: Stream, fit_intercept: bool, solver: str) -> Spectrum:
    """Factor the statistics of a stream."""
    if solver == "svd":
        raise ValueError(
            'solver="svd" needs the rows in memory; rows that pass by once are factored by "gram".'
        )
    spectrum = by_statistics(total(stream.parts()), fit_intercept)
    return (
        spectrum if solver == "auto" else replace(spectrum, rounding=None)
    )  # nothing is to be told


def noted(estimator: Any, stream: Stream) -> Stream:
    """Store in an estimator what scikit-learn tells of the columns."""
    estimator.n_features_in_ = stream.n_features
    vars(estimator).pop("feature_names_in_", None)  # of an earlier fit
    if stream.names is not None:
        estimator.feature_names_in_ = np.array(stream.names, dtype=object)
    return stream


def predictions(model: Any, X: Any) -> Any:
    """Return predictions of a linear model: lazy for Dask, else block by block."""
    if isinstance(X, Statistics):
        raise TypeError("Statistics hold no rows to predict for.")
    _check_columns(model, X)
    if kind_of(X) == "dask":
        from stoptime.spectrum.streamed.dask import predicted  # noqa: PLC0415 - an extra

        return predicted(X, model.coef_, model.intercept_)
    blocks = X if isinstance(X, Chunks) else Chunks.of(X)
    return np.concatenate([block.X @ model.coef_.T + model.intercept_ for block in blocks])


def scored(model: Any, chunks: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """Return the response of chunks, what a linear model predicts, and weights, in one pass."""
    if not isinstance(chunks, Chunks):
        raise ValueError("y must be given with X: only chunks hold their own response and rows.")  # noqa: TRY004
    if sample_weight is not None:
        raise ValueError(f"{chunks} holds its own response and weights: leave sample_weight out.")
    _check_columns(model, chunks)
    responses, predicted, weights = [], [], []
    for block in chunks:
        if block.y is None:
            raise ValueError(
                "Chunks have no response: give y, or the target column, where they are made."
            )
        responses.append(block.y)
        predicted.append(block.X @ model.coef_.T + model.intercept_)
        weights.append(np.ones(len(block.X)) if block.weight is None else block.weight)
    if not responses:
        raise ValueError("There are no rows: every block is empty, or there is no block.")
    return np.concatenate(responses), np.concatenate(predicted), np.concatenate(weights)


def _check_columns(model: Any, X: Any) -> None:
    """Raise a ValueError where new rows have other columns than those that were fitted."""
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but {model.n_features_in_} were fitted.")
    names = getattr(model, "feature_names_in_", None)
    given = X.names if isinstance(X, Chunks) else getattr(X, "columns", None)
    if given is not None and names is not None and [*map(str, given)] != [*names]:
        raise ValueError(
            f"X has the columns {[*given][:8]}, but {[*names][:8]} were fitted, in this order."
        )


def _array(values: ArrayLike | None) -> Any:
    return None if values is None else np.asarray(values)


def _named(statistics: Statistics, stream: Stream) -> Statistics:
    return statistics if stream.names is None else replace(statistics, names=stream.names)


def _resumed(chunks: Chunks, checkpoint: Path, verbose: bool) -> Statistics:
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


def _save(chunks: Chunks, source: str, checkpoint: Path, state: State) -> None:
    if state[0] is not None:
        place = {"position": np.array(state[1:]), "source": np.array(source)}
        save_arrays(checkpoint, _named(state[0], chunks).as_arrays() | place)


def _restored(own: str, checkpoint: Path) -> State:
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
