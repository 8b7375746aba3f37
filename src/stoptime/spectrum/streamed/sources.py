"""Sources of streamed data, read in blocks: arrays on disk, Parquet, CSV, or a user's own."""

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
from numpy.typing import NDArray

from stoptime.spectrum.kinds import kind_of
from stoptime.spectrum.streamed.folds import Folds, Parts, Sum, merged_parts, parts_of_block
from stoptime.spectrum.streamed.statistics import check_size, column_names
from stoptime.support.checks import installed, whole_number
from stoptime.support.progress import throughput

CHUNK_BYTES = 2**26  # size of a block by default: 64 MB
CSV_BYTES = 2**24  # of text that is parsed at once
PANDAS_INDEX = "__index_level_"  # how pandas names an index that has no name

Columns = str | Sequence[str]
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


_arrow = partial(installed, advice='Tables need pyarrow: pip install "stoptime[table]".')


class Block(NamedTuple):
    """Some rows: features, targets and weights, which are None where there are none."""

    X: NDArray[Any]
    y: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None


@dataclass(frozen=True, repr=False)
class Chunks:
    """Streamed data that are read in blocks; they take the place of X and hold y as well.

    ``Chunks`` are accepted wherever data are: ``decompose(chunks)``, ``summarise(chunks)``,
    ``StoppedRegressorCV(cv=5).fit(chunks)``, ``model.predict(chunks)``. The rows are
    read once, even for K-fold cross-validation. This needs the memory of one block, 64 MB by
    default, and of a few arrays of p × p numbers for each fold.

    Attributes
    ----------
    read : callable
        Takes a number of rows to skip, and returns an iterator over the blocks that follow, each a
        :class:`Block`.
    n_features, n_rows : int, and int or None
        Numbers of columns and of rows; None if the number of rows is not known in advance.
    names : tuple of str, optional
        Names of the features.
    source : str
        A description; a run is resumed only on the same source with the same first rows.

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

    read: Callable[[int], Iterator[Block]]
    n_features: int
    n_rows: int | None = None
    names: tuple[str, ...] | None = None
    source: str = "blocks"

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
        if kind_of(X) not in {"dense", "chunks"}:
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

        def read(start: int) -> Iterator[Block]:
            for first in range(start, n, height):
                part = slice(first, min(first + height, n))
                others = (None if a is None else np.asarray(a[part]) for a in (y, sample_weight))
                yield Block(np.asarray(X[part]), *others)
                _release(X)
                _release(y)

        given = [a for a in (X, y, sample_weight) if a is not None]
        shapes = ", ".join(f"{a.dtype} {tuple(a.shape)}" for a in given)
        return cls(read, p, n, names, f"arrays: {shapes}")

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
        pq = _arrow("pyarrow.parquet")
        files = _files(path, "*.parquet")
        heads = [pq.read_metadata(file) for file in files]
        schemas = [head.schema.to_arrow_schema() for head in heads]
        roles = _Roles(target, weight, features or ()).among(schemas[0].names, files[0].name)
        for file, schema in zip(files, schemas, strict=True):
            _check_types(file.name, schema, roles.among(schema.names, file.name), schemas[0])
        height = _rows_per_block(rows, len(roles.used))

        def read(start: int) -> Iterator[Block]:
            skip = start
            for file, head in zip(files, heads, strict=True):
                sizes = [head.row_group(group).num_rows for group in range(head.num_row_groups)]
                # row groups that are skipped whole need not be read
                first = int(np.searchsorted(np.cumsum(sizes), skip, side="right"))
                skip -= sum(sizes[:first])
                with pq.ParquetFile(file) as source:
                    groups = list(range(first, len(sizes)))
                    for batch in source.iter_batches(height, groups, roles.used):
                        part = batch[skip:]
                        skip = max(skip - batch.num_rows, 0)
                        if part.num_rows:
                            yield roles.block(part)

        counts = [head.num_rows for head in heads]
        told = [f"{file.name} ({count} rows)" for file, count in zip(files, counts, strict=True)]
        source = f"columns {', '.join(roles.used)} of {', '.join(told)}"
        return cls(read, len(roles.features), sum(counts), tuple(roles.features), source)

    @classmethod
    def csv(
        cls,
        path: str | PathLike[str],
        target: Columns | None,
        *,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        rows: int | None = None,
    ) -> Chunks:
        """Read a CSV file with a header; parameters as for :meth:`parquet`."""
        (file,) = _files(path, "*.csv")
        pa = _arrow("pyarrow")
        csv = _arrow("pyarrow.csv")
        # pyarrow.dataset would hold more blocks of a CSV file in memory
        options = csv.ReadOptions(block_size=CSV_BYTES, use_threads=False)
        with csv.open_csv(file, options) as head:
            roles = _Roles(target, weight, features or ()).among(head.schema.names, file.name)
        types = csv.ConvertOptions(
            include_columns=roles.used, column_types=dict.fromkeys(roles.used, pa.float64())
        )
        height = _rows_per_block(rows, len(roles.used))

        def read(start: int) -> Iterator[Block]:
            skip = start
            try:
                with csv.open_csv(file, options, convert_options=types) as source:
                    for batch in source:
                        part = batch[skip:]
                        skip = max(skip - batch.num_rows, 0)
                        for first in range(0, part.num_rows, height):
                            yield roles.block(part[first : first + height])
            except pa.ArrowInvalid as error:
                raise ValueError(f"{file.name}: {error}") from error

        source = f"columns {', '.join(roles.used)} of {file.name}"
        return cls(read, len(roles.features), None, tuple(roles.features), source)

    @property
    def shape(self) -> tuple[int | None, int]:
        """Number of rows, None if it is unknown, and number of features."""
        return self.n_rows, self.n_features

    def __iter__(self) -> Iterator[Block]:
        return self.read(0)

    def blocks(self, start: int = 0, *, verbose: bool = False) -> Iterator[Block]:
        """Yield the blocks after the first ``start`` rows; ``verbose`` prints the throughput."""
        total = None if self.n_rows is None else self.n_rows - start
        return throughput(self.read(start), "statistics", verbose, total)

    def parts(
        self, folds: Folds | None = None, summed: Sum | None = None, *, verbose: bool = False
    ) -> Parts:
        """Return the statistics, or other sums, of all rows, or of every fold, in one pass."""
        merged: Parts = {}
        start = 0
        for number, block in enumerate(self.blocks(verbose=verbose)):
            part = self.block_parts(block, number, start, folds, summed)
            merged = merged_parts([merged, part])
            start += len(block.X)
        if self.n_rows is not None and start != self.n_rows:
            raise ValueError(f"Chunks gave {start} rows, but {self.n_rows} were expected.")
        return merged

    def block_parts(
        self,
        block: Block,
        number: int,
        start: int,
        folds: Folds | None = None,
        summed: Sum | None = None,
    ) -> Parts:
        """Return the statistics of one block, by folds."""
        y = response_of(block)
        name, labels = Folds.place(folds, number, slice(start, start + len(block.X)))
        found = np.shape(block.X)
        if found[1:] != (self.n_features,):
            raise ValueError(f"{name}: X of shape {found}, but {self.shape} was expected.")
        return parts_of_block(block.X, y, block.weight, labels, name, summed)

    def __repr__(self) -> str:
        rows = "unknown" if self.n_rows is None else self.n_rows
        return f"Chunks({rows} rows, {self.n_features} features)"


def response_of(block: Block) -> NDArray[Any]:
    """Return the targets of a block; without any, raise a ValueError that says how to give them."""
    if block.y is None:
        raise ValueError(
            "Chunks have no response: give y, or the target column, when you create them."
        )
    return block.y


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
        others = [name for name in names if name not in taken and not name.startswith(PANDAS_INDEX)]
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
        return max(1, CHUNK_BYTES // (8 * n_columns))
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
