"""Streamed data of any origin, and new rows of any kind: arrays on disk, tables, Dask, own ones."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite

from stoptime.spectrum.kinds import DTYPES, kind_of, rows_in_memory
from stoptime.spectrum.moments import Statistics, check_size, column_names
from stoptime.spectrum.source import (
    WITHOUT_BLOCKS,
    WITHOUT_RESPONSE,
    Block,
    Folds,
    OfBlock,
    Source,
    Sums,
    block_name,
    merged_sums,
    sums_of_block,
)
from stoptime.support.arrays import is_device_array
from stoptime.support.checks import installed, whole_number

Columns = str | Sequence[str]
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


@dataclass(frozen=True, repr=False)
class Chunks(Source):
    """Streamed data that are read in blocks; they take the place of X and hold y as well.

    ``Chunks`` are accepted wherever data are: ``decompose(chunks)``, ``summarise(chunks)``,
    ``StoppedRegressorCV(cv=5).fit(chunks)``, ``model.predict(chunks)``. The rows are
    read once, even for K-fold cross-validation. This needs the memory of one block, 64 MB by
    default, and of a few arrays of p × p numbers for each fold.

    Attributes
    ----------
    read : callable
        Returns an iterator over the blocks, from the first on, each a :class:`Block`.
    n_features, n_rows : int, and int or None
        Numbers of columns and of rows; None if the number of rows is not known in advance.
    names : tuple of str, optional
        Names of the features.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> chunks = Chunks.of(X, y, rows=100)
    >>> chunks
    Chunks(442 rows, 10 features)
    >>> [len(block.X) for block in chunks]
    [100, 100, 100, 100, 42]
    """

    read: Callable[[], Iterator[Block]]
    n_features: int
    n_rows: int | None = None
    names: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls, X: Any, y: Any = None, sample_weight: Any = None, *, rows: int | None = None
    ) -> Chunks:
        """Read arrays that have a shape and can be sliced: numpy.memmap, zarr, HDF5.

        Parameters
        ----------
        X : array of shape (n, n_features)
            On disk or in memory.
        y, sample_weight : arrays of shape (n,) or (n, n_targets), and (n,), optional
            The response, which prediction does not need, and non-negative weights.
        rows : int, optional
            Rows of a block; by default 64 MB of them, in whole chunks of X where it has chunks.
        """
        if kind_of(X) not in {"dense", "disk"}:
            raise TypeError(f"X must be an array whose rows can be sliced; got {type(X).__name__}.")
        names = column_names(X)
        X = X if hasattr(X, "dtype") else np.asarray(X)
        if len(X.shape) != 2 or X.shape[1] == 0:
            raise ValueError(f"X must be of shape (n, n_features); got {tuple(X.shape)}.")
        n, p = (int(size) for size in X.shape)
        check_size(p)
        # arrays in memory become those of NumPy, so that slices count rows and not labels
        y, sample_weight = (
            a if a is None or hasattr(a, "chunks") else np.asanyarray(a) for a in (y, sample_weight)
        )
        for name, other in (("y", y), ("sample_weight", sample_weight)):
            if other is not None and other.shape[0] != n:
                raise ValueError(
                    f"X and {name} must have the same rows; got {n} and {other.shape[0]}."
                )
        height = _rows_per_block(rows, p)
        unit = getattr(X, "chunks", None)
        if rows is None and unit:
            # a stored chunk that lies in two blocks would be decompressed twice
            height = max(height // unit[0], 1) * unit[0]

        def read() -> Iterator[Block]:
            arrays = (X, y, sample_weight)
            for first in range(0, n, height):
                part = slice(first, min(first + height, n))
                yield Block(*(None if one is None else np.asarray(one[part]) for one in arrays))
                for one in arrays:
                    _release(one)

        return cls(read, p, n, names)

    @classmethod
    def parquet(
        cls,
        path: Paths,
        target: Columns | None,
        *,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        rows: int | None = None,
    ) -> Chunks:
        """Read a Parquet file, several, or all in a folder, in the order of their names.

        Parameters
        ----------
        path : path or list of paths
            A folder is searched for ``*.parquet``.
        target : str, list of str or None
            The response; a name gives a vector, a list several targets. Prediction needs none.
        weight, features : str and list of str, optional
            Columns of sample weights and of features; by default all other columns are features.
        rows : int, optional
            Most rows in a block; by default 64 MB. Memory holds one block and one row group.
        """
        return cls._of_files("parquet", path, rows, target, weight, features)

    @classmethod
    def csv(
        cls,
        path: Paths,
        target: Columns | None,
        *,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        rows: int | None = None,
    ) -> Chunks:
        """Read CSV files with a header; parameters as for :meth:`parquet`."""
        return cls._of_files("csv", path, rows, target, weight, features)

    @classmethod
    def _of_files(
        cls, form: str, path: Paths, rows: int | None, target: Any, weight: Any, features: Any
    ) -> Chunks:
        """Return the blocks of files of one format, after a check of the columns of each."""
        sets = _arrow("pyarrow.dataset")
        files = _files(path, f"*.{form}")
        targets = [target] if isinstance(target, str) else list(target or ())
        weights = [] if weight is None else [weight]
        if not features:
            names = sets.dataset(str(files[0]), format=form).schema.names
            # pandas stores an index that has no name under such a name
            features = [name for name in names if not name.startswith("__index_level_")]
            features = [name for name in features if name not in {*targets, *weights}]
        used = [*features, *targets, *weights]
        if len(set(used)) != len(used) or not features:
            raise ValueError("target, weight and at least one feature must be different columns.")
        check_size(len(features))
        # numbers are numbers from the first row on, whatever the first rows look like
        arrow = _arrow("pyarrow")
        schema = arrow.schema([(name, arrow.float64()) for name in used])
        table = sets.dataset(list(map(str, files)), schema, format=form)
        for file, fragment in zip(files, table.get_fragments(), strict=True):
            _check_columns(used, file.name, fragment.physical_schema, typed=form == "parquet")
        n_rows = table.count_rows() if form == "parquet" else None
        height = _rows_per_block(rows, len(used))
        # more read ahead would hold more blocks in memory
        options = {"batch_size": height, "batch_readahead": 1, "fragment_readahead": 1}

        def read() -> Iterator[Block]:
            for batch in table.to_batches(columns=used, use_threads=False, **options):
                # missing values become NaN
                columns = np.empty((batch.num_rows, len(used)))
                for place, name in enumerate(used):
                    columns[:, place] = batch.column(name).to_numpy(zero_copy_only=False)
                X, y, w = np.split(columns, [len(features), len(features) + len(targets)], axis=1)
                y = y[:, 0] if isinstance(target, str) else y
                if batch.num_rows:
                    yield Block(X, y if targets else None, w[:, 0] if weights else None)

        return cls(read, len(features), n_rows, tuple(features))

    @property
    def shape(self) -> tuple[int | None, int]:
        """Number of rows, None if it is unknown, and number of features."""
        return self.n_rows, self.n_features

    def blocks(self) -> Iterator[Block]:
        """Return an iterator over all blocks."""
        return self.read()

    __iter__ = blocks

    def __repr__(self) -> str:
        rows = "unknown" if self.n_rows is None else self.n_rows
        return f"Chunks({rows} rows, {self.n_features} features)"


def as_stream(X: Any, y: Any = None, sample_weight: Any = None) -> Source | Statistics:
    """Return streamed data with their response; chunks and statistics hold their own."""
    if hasattr(X, "__dask_graph__"):
        return DaskRows.of(X, y, sample_weight)
    if not isinstance(X, Source | Statistics):
        if y is None:
            raise ValueError("y must be given with X.")
        return Chunks.of(X, y, sample_weight)
    if y is not None or sample_weight is not None:
        raise ValueError(f"{X} holds its own response and weights: leave y and sample_weight out.")
    return X


def _check_columns(used: list[str], file: str, schema: Any, *, typed: bool) -> None:
    """Raise an error for a missing column, or one without numbers."""
    if missing := [name for name in used if name not in schema.names]:
        known = ", ".join(map(repr, schema.names[:8]))
        more = " ..." if len(schema.names) > 8 else ""
        raise ValueError(f"{file} has no column {missing[0]!r}; it has {known}{more}.")
    types = _arrow("pyarrow.types")
    for name in used if typed else ():
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            holds = f"Column {name!r} of {file} holds {kind}"
            raise TypeError(f"{holds}, not numbers: leave it out or encode it.")


def _arrow(module: str) -> Any:
    return installed(module, 'Tables need pyarrow: pip install "stoptime[table]".')


def _files(path: Paths, pattern: str) -> list[Path]:
    given = [path] if isinstance(path, str | PathLike) else list(path)
    files = []
    for one in map(Path, given):
        if not one.exists():
            raise FileNotFoundError(f"There is no file or folder {one}.")
        files += sorted(one.rglob(pattern)) if one.is_dir() else [one]
    if not files:
        raise FileNotFoundError(f"No file {pattern} found in {', '.join(map(str, given))}.")
    return files


def _rows_per_block(rows: Any, n_columns: int) -> int:
    if rows is None:
        return max(1, 2**26 // (8 * n_columns))  # 64 MB
    return whole_number("rows", rows, least=1)


def _release(array: Any) -> None:
    # pages of a file that were read are unmapped; they count as memory of this process otherwise
    if not isinstance(array, np.memmap) or array.mode != "r" or sys.platform == "win32":
        return
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)


@dataclass(eq=False)
class DaskRows(Source):
    """Dask arrays with the same blocks of rows and one block of columns; X is never gathered."""

    X: Any
    y: Any
    weight: Any
    names: tuple[str, ...] | None

    def __post_init__(self) -> None:
        n, p = self.X.shape
        self.n_rows = None if np.isnan(n) else int(n)
        self.n_features = int(p)

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any) -> DaskRows:
        """Check collections and bring them to the same blocks."""
        if y is None:
            raise ValueError("y must be given with X: a Dask array or series with the same blocks.")
        rows = dask_rows(X)
        if rows.ndim != 2:
            raise ValueError(f"X must be of shape (n, n_features); got {rows.ndim} dimensions.")
        check_size(rows.shape[1])
        weight = None if sample_weight is None else _aligned("sample_weight", sample_weight, rows)
        names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
        return cls(rows, _aligned("y", y, rows), weight, names)

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks, each computed when it is asked for."""
        from dask import compute  # noqa: PLC0415 - an extra

        for one in self._lazy():
            yield Block(*compute(*one))

    def sums(self, folds: Folds | None = None) -> Sums:
        """Return the statistics of every fold, computed where the blocks are."""
        from dask import delayed  # noqa: PLC0415 - an extra

        level = self._delayed(sums_of_block, folds)
        # the order is fixed, so that rounding does not depend on which worker is first
        merge = delayed(merged_sums, pure=False)
        while len(level) > 1:
            level = [merge(level[i : i + 16]) for i in range(0, len(level), 16)]
        return dict(level[0].compute())

    def _each(self, function: OfBlock, folds: Folds | None) -> Iterable[Any]:
        from dask import compute  # noqa: PLC0415 - an extra

        return list(compute(*self._delayed(function, folds)))

    def _delayed(self, function: OfBlock, folds: Folds | None) -> list[Any]:
        from dask import delayed  # noqa: PLC0415 - an extra

        on_worker = delayed(function, pure=False)
        found = []
        start = 0
        for number, (one, size) in enumerate(zip(self._lazy(), self.X.chunks[0], strict=True)):
            rows = None if self.n_rows is None else slice(start, start + size)
            labels = 0 if folds is None else folds.within(number, rows)
            found.append(on_worker(block_name(number, rows), one, labels))
            start += size
        return found

    def _lazy(self) -> list[Block]:
        # graphs as they are: what X and y have in common is then computed once
        X, y = (part.to_delayed(optimize_graph=False).ravel() for part in (self.X, self.y))
        weight: Any = [None] * len(X)
        if self.weight is not None:
            weight = self.weight.to_delayed(optimize_graph=False)
        return list(map(Block, X, y, weight))


def dask_rows(X: Any) -> Any:
    """Return new rows as a Dask array with one block of columns."""
    rows = _numbers("X", X)
    return rows.rechunk({1: -1}) if rows.ndim == 2 and rows.numblocks[1] > 1 else rows


def _numbers(name: str, data: Any) -> Any:
    """Return a Dask array of numbers from a Dask array, dataframe or series."""
    if data.ndim == 2 and hasattr(data, "columns"):
        types = {f"Column {column!r} of {name}": one for column, one in data.dtypes.items()}
    else:
        types = {name: data.dtype}
    for column, dtype in types.items():
        if getattr(dtype, "kind", "O") not in "biuf" or not isinstance(dtype, np.dtype):
            raise TypeError(
                f"{column} must hold plain numbers; got dtype {dtype}: encode it, or use "
                "astype(float)."
            )
    return data.to_dask_array() if hasattr(data, "to_dask_array") else data


def _aligned(name: str, data: Any, X: Any) -> Any:
    """Return a Dask array with the blocks of rows of X."""
    import dask.array as da  # noqa: PLC0415 - an extra

    in_memory = not hasattr(data, "__dask_graph__")
    array = da.from_array(np.asarray(data), chunks=-1) if in_memory else _numbers(name, data)
    if array.ndim not in ({1, 2} if name == "y" else {1}):
        shape = "(n,) or (n, n_targets)" if name == "y" else "(n,)"
        raise ValueError(f"{name} must be of shape {shape}; got {array.ndim} dimensions.")
    n, length = X.shape[0], array.shape[0]
    if np.isnan(n) or np.isnan(length):
        if array.numblocks[0] != X.numblocks[0]:
            raise ValueError(
                f"X and {name} must have the same blocks where their lengths are unknown; got "
                f"{X.numblocks[0]} and {array.numblocks[0]}. Use compute_chunk_sizes(), or "
                "df.to_dask_array(lengths=True)."
            )
        return array
    if length != n:
        raise ValueError(f"X and {name} must have the same rows; got {n} and {length}.")
    return array.rechunk((X.chunks[0], *array.shape[1:]))


@dataclass(frozen=True)
class NewRows:
    """Rows that can be multiplied with coefficients: array, matrix, operator, tensor or chunks.

    ``names`` are those of columns that scikit-learn has not checked already. The products of a
    Dask collection, whose rows are not in memory, are lazy.
    """

    X: Any
    names: Any = None
    in_memory: bool = True

    def predicted(self, coef: Any, intercept: Any) -> Any:
        """Return predictions where the coefficients are; lazy ones for Dask."""
        if not isinstance(self.X, Source):
            return self.X @ coef + intercept
        return np.concatenate([fit for _, fit in _predicted(self.X, coef, intercept)])

    def scored(self, coef: Any, intercept: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return response, predictions and weights in one pass, if the rows contain them."""
        if not isinstance(self.X, Source):
            raise ValueError("y must be given with X: only chunks contain both rows and response.")  # noqa: TRY004
        if sample_weight is not None:
            raise ValueError(f"{self.X} contains the weights already: leave sample_weight out.")
        parts = []
        for (X, y, weight), fit in _predicted(self.X, coef, intercept):
            if y is None:
                raise ValueError(WITHOUT_RESPONSE)
            parts.append((np.asarray(y), fit, np.ones(len(X)) if weight is None else weight))
        if not parts:
            raise ValueError(WITHOUT_BLOCKS)
        response, predicted, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        return response, predicted, weights


def _predicted(source: Source, coef: Any, intercept: Any) -> Iterator[tuple[Block, Any]]:
    for block in source.blocks():
        X = np.asarray(block.X)
        assert_all_finite(X, input_name="X")
        yield block, X @ coef + intercept


def open_rows(X: Any, coef: Any, validate: Callable[..., Any]) -> NewRows:
    """Open new rows of any kind; ``validate`` checks arrays and sparse matrices in memory."""
    kind = kind_of(X)
    on_device = is_device_array(X) or is_device_array(coef)
    if kind in {"dense", "sparse"} and not on_device:
        return NewRows(validate(X, dtype=DTYPES, accept_sparse=["csr", "csc"]))
    if kind in {"dense", "sparse", "operator", "rows"} or on_device:
        return NewRows(rows_in_memory(X, coef))
    if isinstance(X, Statistics):
        raise TypeError("Statistics contain no rows to predict.")
    if hasattr(X, "__dask_graph__"):
        return NewRows(dask_rows(X), getattr(X, "columns", None), in_memory=False)
    chunks = X if isinstance(X, Source) else Chunks.of(X)
    return NewRows(chunks, chunks.names, in_memory=False)
