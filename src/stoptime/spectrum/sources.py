"""Streamed data that are read in blocks: arrays on disk, Parquet, CSV, or a user's own."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stoptime.spectrum.dask import DaskRows
from stoptime.spectrum.kinds import kind_of
from stoptime.spectrum.moments import Statistics, check_size, column_names
from stoptime.spectrum.source import Block, Source
from stoptime.support.checks import installed, whole_number

Columns = str | Sequence[str]
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


_arrow = partial(installed, advice='Tables need pyarrow: pip install "stoptime[table]".')


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
            length = n if other is None else other.shape[0]
            if length != n:
                raise ValueError(f"X and {name} must have the same rows; got {n} and {length}.")
        height = _rows_per_block(rows, p)
        unit = getattr(X, "chunks", None)
        if rows is None and unit:
            # a stored chunk that lies in two blocks would be decompressed twice
            height = max(height // unit[0], 1) * unit[0]

        def read() -> Iterator[Block]:
            for first in range(0, n, height):
                part = slice(first, min(first + height, n))
                others = (None if a is None else np.asarray(a[part]) for a in (y, sample_weight))
                yield Block(np.asarray(X[part]), *others)
                for one in (X, y, sample_weight):
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
        weight : str, optional
            Column of sample weights.
        features : list of str, optional
            Columns of features; by default all other columns.
        rows : int, optional
            Most rows in a block; by default 64 MB. Memory holds one block and one row group.
        """
        dataset = _arrow("pyarrow.dataset").dataset
        files = _files(path, "*.parquet")
        table = dataset(list(map(str, files)), format="parquet")
        roles = _Roles(target, weight, features or ()).among(table.schema.names, files[0].name)
        for file, fragment in zip(files, table.get_fragments(), strict=True):
            schema = fragment.physical_schema
            _check_types(file.name, schema, roles.among(schema.names, file.name), table.schema)
        return cls._of_table(table, roles, rows, table.count_rows())

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
        pa = _arrow("pyarrow")
        csv = _arrow("pyarrow.csv")
        sets = _arrow("pyarrow.dataset")
        files = _files(path, "*.csv")
        names = sets.dataset(str(files[0]), format="csv").schema.names
        roles = _Roles(target, weight, features or ()).among(names, files[0].name)
        # numbers are numbers from the first row on, whatever the first rows look like
        types = csv.ConvertOptions(column_types=dict.fromkeys(roles.used, pa.float64()))
        form = sets.CsvFileFormat(convert_options=types)
        table = sets.dataset(list(map(str, files)), format=form)
        return cls._of_table(table, roles, rows, None)

    @classmethod
    def _of_table(cls, table: Any, roles: _Roles, rows: int | None, n_rows: int | None) -> Chunks:
        """Return the blocks of a dataset of Arrow."""
        height = _rows_per_block(rows, len(roles.used))
        # more read ahead would hold more blocks in memory
        options = {"batch_size": height, "batch_readahead": 1, "fragment_readahead": 1}

        def read() -> Iterator[Block]:
            for batch in table.to_batches(columns=roles.used, use_threads=False, **options):
                if batch.num_rows:
                    yield roles.block(batch)

        return cls(read, len(roles.features), n_rows, tuple(roles.features))

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


class _Roles(NamedTuple):
    """The columns of a table by their use."""

    target: Columns | None
    weight: str | None
    features: Sequence[str]

    @property
    def targets(self) -> list[str]:
        return [self.target] if isinstance(self.target, str) else [*(self.target or ())]

    @property
    def used(self) -> list[str]:
        """Names of all columns to read, features first."""
        return [*self.features, *self.targets, *([] if self.weight is None else [self.weight])]

    def among(self, names: Sequence[str], file: str) -> _Roles:
        """Return the roles, by default with all other columns as features; refuse missing ones."""
        taken = {*self.targets, self.weight}
        # pandas stores an index that has no name under such a name
        others = [
            name for name in names if name not in taken and not name.startswith("__index_level_")
        ]
        filled = self._replace(features=tuple(self.features or others))
        missing = [name for name in filled.used if name not in names]
        if missing:
            known = ", ".join(map(repr, names[:8])) + (" ..." if len(names) > 8 else "")
            raise ValueError(f"{file} has no column {missing[0]!r}; it has {known}.")
        if len(set(filled.used)) != len(filled.used) or not filled.features:
            raise ValueError("target, weight and at least one feature must be different columns.")
        check_size(len(filled.features))
        return filled

    def block(self, batch: Any) -> Block:
        """Return the columns of an Arrow batch as arrays; missing values become NaN."""
        columns = np.empty((batch.num_rows, len(self.used)))
        for place, name in enumerate(self.used):
            columns[:, place] = batch.column(name).to_numpy(zero_copy_only=False)
        p = len(self.features)
        y: Any = None if self.target is None else columns[:, p : p + len(self.targets)]
        y = y[:, 0] if isinstance(self.target, str) else y
        return Block(columns[:, :p], y, None if self.weight is None else columns[:, -1])


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


def _check_types(file: str, schema: Any, roles: _Roles, first: Any) -> None:
    """Raise a TypeError for a column without numbers, or of another type than in the first file."""
    types = _arrow("pyarrow.types")
    for name in roles.used:
        kind = schema.field(name).type
        holds = f"Column {name!r} of {file} holds {kind}"
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise TypeError(f"{holds}, not numbers: leave it out or encode it.")
        if kind != first.field(name).type:
            raise TypeError(f"{holds}, but {first.field(name).type} in the first file.")


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
