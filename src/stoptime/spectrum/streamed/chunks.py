"""Rows larger than memory, read once and block by block: arrays on disk, Parquet, CSV, or your own."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.spectrum.kinds import kind_of
from stoptime.spectrum.streamed.folds import (
    WHOLE,
    Folds,
    Parts,
    block_name,
    merged_parts,
    parts_of_block,
)
from stoptime.spectrum.streamed.statistics import check_size, column_names
from stoptime.support.checks import whole_number
from stoptime.support.progress import throughput

__all__ = ["BLOCK_BYTES", "Block", "Chunks", "Columns", "rows_per_block"]

BLOCK_BYTES = 2**26
"""Size of a block by default: 64 MB."""

Columns = str | Sequence[str]
Paths = str | PathLike[str] | Sequence[str | PathLike[str]]


class Block(NamedTuple):
    """Some rows: features, targets and weights, which are None where there are none."""

    X: NDArray[Any]
    y: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None


@dataclass(frozen=True, repr=False)
class Chunks:
    """Rows that are read in blocks; takes the place of X, with y inside.

    Wherever data go, ``Chunks`` can: ``decompose(chunks)``, ``StoppedRegressorCV(cv=5).fit(chunks)``,
    ``summarise(chunks)``, ``model.predict(chunks)``. One pass is made, K-fold included, and memory is that of
    one block, 64 MB by default, plus a few arrays of p × p numbers for each fold.

    Attributes
    ----------
    read : callable
        Takes a number of rows to skip, and returns an iterator over the :class:`Block` that follow.
    n_features : int
        Number of columns of X.
    n_rows : int or None
        Number of rows; None where it is not known before the end.
    names : tuple of str, optional
        Names of the features.
    source : str
        What is read, in words; a run is resumed only on the same source with the same first rows.

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
        """Read arrays that know their shape and give slices: numpy.memmap, zarr, HDF5.

        Parameters
        ----------
        X : array of shape (n, n_features)
            On disk or in memory.
        y : array of shape (n,) or (n, n_targets), optional
            The response; prediction needs none.
        sample_weight : array of shape (n,), optional
            Non-negative.
        rows : int, optional
            Rows of a block; by default 64 MB of them, in whole chunks of X where it has chunks.
        """
        if kind_of(X) not in {"dense", "chunks"}:
            raise TypeError(
                f"X must be an array that gives slices of rows; got {type(X).__name__}."
            )
        names = column_names(X)
        X = X if hasattr(X, "shape") and hasattr(X, "dtype") else np.asarray(X)
        if len(X.shape) != 2 or X.shape[1] == 0:
            raise ValueError(f"X must be of shape (n, n_features); got {tuple(X.shape)}.")
        n, p = (int(size) for size in X.shape)
        check_size(p)
        y, sample_weight = (
            a if a is None or hasattr(a, "shape") else np.asarray(a) for a in (y, sample_weight)
        )
        for name, other in (("y", y), ("sample_weight", sample_weight)):
            if other is not None and other.shape[0] != n:
                raise ValueError(
                    f"X and {name} must have the same rows; got {n} and {other.shape[0]}."
                )
        height = rows_per_block(rows, p)
        unit = getattr(X, "chunks", None)
        if rows is None and unit:
            height = max(height // unit[0], 1) * unit[0]

        def read(start: int) -> Iterator[Block]:
            for first in range(start, n, height):
                part = slice(first, min(first + height, n))
                yield Block(np.asarray(X[part]), *(_rows(a, part) for a in (y, sample_weight)))
                for a in (X, y):
                    _release(a)

        shapes = ", ".join(
            f"{a.dtype} {tuple(a.shape)}" for a in (X, y, sample_weight) if a is not None
        )
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
            The response; a name gives a vector, a list many targets. Prediction needs none.
        weight : str, optional
            Column of sample weights.
        features : list of str, optional
            The other columns, all by default.
        rows : int, optional
            Rows of a block at most; by default 64 MB of them. Memory is a block and a row group.
        """
        from stoptime.spectrum.streamed import arrow as tables  # noqa: PLC0415 - pyarrow is an extra

        return tables.parquet(path, tables.Roles(target, weight, features), rows)

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
        from stoptime.spectrum.streamed import arrow as tables  # noqa: PLC0415 - pyarrow is an extra

        return tables.csv(path, tables.Roles(target, weight, features), rows)

    @property
    def shape(self) -> tuple[int | None, int]:
        """Numbers of rows, None where unknown, and of features."""
        return self.n_rows, self.n_features

    def __iter__(self) -> Iterator[Block]:
        return self.read(0)

    def blocks(self, start: int = 0, *, verbose: bool = False) -> Iterator[Block]:
        """Yield the blocks after some rows; where ``verbose``, tell the throughput."""
        total = None if self.n_rows is None else self.n_rows - start
        return throughput(self.read(start), "statistics", verbose, total)

    def parts(self, folds: Folds | None = None, *, verbose: bool = False) -> Parts:
        """Return the statistics of all rows, or of every fold, in one pass."""
        merged: Parts = {}
        start = 0
        for number, block in enumerate(self.blocks(verbose=verbose)):
            merged = merged_parts([merged, self.block_parts(block, number, start, folds)])
            start += len(block.X)
        if self.n_rows is not None and start != self.n_rows:
            raise ValueError(f"Chunks gave {start} rows, where {self.n_rows} were announced.")
        return merged

    def block_parts(
        self, block: Block, number: int, start: int, folds: Folds | None = None
    ) -> Parts:
        """Return the statistics of one block, by folds."""
        rows = slice(start, start + len(block.X))
        name = block_name(number, rows)
        if block.y is None:
            raise ValueError(
                "Chunks have no response: give y, or the target column, where they are made."
            )
        if np.ndim(block.X) != 2 or block.X.shape[1] != self.n_features:
            raise ValueError(
                f"{name}: X of shape {np.shape(block.X)}, where {self.shape} was announced."
            )
        labels = WHOLE if folds is None else folds.within(number, rows)
        return parts_of_block(block.X, block.y, block.weight, labels, name)

    def __repr__(self) -> str:
        rows = "unknown" if self.n_rows is None else self.n_rows
        return f"Chunks({rows} rows, {self.n_features} features)"


def rows_per_block(rows: Any, n_columns: int) -> int:
    """Return the number of rows of a block: as given, or as many as make 64 MB."""
    return (
        max(1, BLOCK_BYTES // (8 * n_columns))
        if rows is None
        else whole_number("rows", rows, least=1)
    )


def _rows(array: Any, part: slice) -> NDArray[Any] | None:
    return None if array is None else np.asarray(array[part])


def _release(array: Any) -> None:
    """Unmap the pages of a file that were read; they count as memory of this process otherwise."""
    if not isinstance(array, np.memmap) or array.mode != "r" or sys.platform == "win32":
        return
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)
