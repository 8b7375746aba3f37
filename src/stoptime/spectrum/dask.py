"""Dask arrays and dataframes: one task for each block, and a tree that adds their statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoptime.spectrum.moments import check_size
from stoptime.spectrum.source import (
    Block,
    Folds,
    Source,
    Sum,
    block_name,
    merged_sums,
    sums_of_block,
)


@dataclass(frozen=True, eq=False)
class DaskRows(Source):
    """Dask arrays with the same blocks of rows and one block of columns; X is never gathered."""

    X: Any
    y: Any
    weight: Any
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any) -> DaskRows:
        """Align the blocks of X, y and the weights."""
        if y is None:
            raise ValueError("y must be given with X: a Dask array or series with the same blocks.")
        rows = dask_rows(X)
        if rows.ndim != 2:
            raise ValueError(f"X must be of shape (n, n_features); got {rows.ndim} dimensions.")
        check_size(rows.shape[1])
        weight = None if sample_weight is None else _aligned("sample_weight", sample_weight, rows)
        names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
        return cls(rows, _aligned("y", y, rows), weight, names)

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]
        """Number of rows; None where Dask does not know it."""
        return None if np.isnan(self.X.shape[0]) else int(self.X.shape[0])

    def blocks(self) -> Iterator[Block]:
        """Compute the blocks one by one, here."""
        for one in self._lazy():
            yield Block(*(None if part is None else np.asarray(part.compute()) for part in one))

    def sums(
        self,
        folds: Folds | None = None,
        summed: Sum | None = None,
        *,
        verbose: bool = False,  # noqa: ARG002 - Dask itself shows the progress
    ) -> dict[int, Any]:
        """Return the statistics, or other sums, of every fold, added where the blocks are."""
        from dask import delayed  # noqa: PLC0415 - an extra

        block_sums = delayed(_block_sums, pure=False)
        level = []
        start = 0
        for number, (one, size) in enumerate(zip(self._lazy(), self.X.chunks[0], strict=True)):
            rows = None if self.n_rows is None else slice(start, start + size)
            labels = 0 if folds is None else folds.within(number, rows)
            name = block_name(number, rows)
            level.append(block_sums(*one, labels, name, self.X.dtype, summed))
            start += size
        # the order is fixed, so that rounding does not depend on which worker is first
        merge = delayed(merged_sums, pure=False)
        while len(level) > 1:
            level = [merge(level[i : i + 16]) for i in range(0, len(level), 16)]
        return dict(level[0].compute())

    def _lazy(self) -> list[tuple[Any, Any, Any]]:
        """Return the parts of every block, not yet computed."""
        # graphs as they are: what X and y have in common is then computed once
        X, y = (part.to_delayed(optimize_graph=False).ravel() for part in (self.X, self.y))
        weight: Any = [None] * len(X)
        if self.weight is not None:
            weight = self.weight.to_delayed(optimize_graph=False)
        return list(zip(X, y, weight, strict=True))


def _block_sums(
    X: Any, y: Any, weight: Any, labels: Any, name: str, announced: Any, summed: Sum | None
) -> dict[int, Any]:
    """Return the sums of one block; runs on a worker."""
    if X.dtype != announced:
        wrong = f"{name}: X of dtype {X.dtype}, but {announced} was expected"
        raise TypeError(f'{wrong}: use X.astype("{announced}").')
    return sums_of_block(Block(np.asarray(X), np.asarray(y), weight), labels, name, summed)


def dask_rows(X: Any) -> Any:
    """Return new rows as a Dask array with one block of columns."""
    rows = _array("X", X)
    if rows.ndim == 2 and rows.numblocks[1] > 1:
        _check_known("X", rows, "has several blocks of columns and")
        rows = rows.rechunk({1: -1})
    return rows


def _array(name: str, data: Any) -> Any:
    """Return a Dask array of numbers from a Dask array, dataframe or series."""
    array = data
    if hasattr(data, "to_dask_array"):
        for column, kind in data.dtypes.items() if data.ndim == 2 else ():
            _check_numbers(f"Column {column!r} of {name}", kind)
        array = data.to_dask_array()
    _check_numbers(name, array.dtype)
    return array


def _check_numbers(name: str, dtype: Any) -> None:
    if getattr(dtype, "kind", "O") not in "biuf" or not isinstance(dtype, np.dtype):
        raise TypeError(
            f"{name} must hold plain numbers; got dtype {dtype}: encode it, or use astype(float)."
        )


def _check_known(name: str, array: Any, why: str) -> None:
    if np.isnan(array.shape[0]):
        raise ValueError(
            f"{name} {why} blocks of unknown length: use compute_chunk_sizes(), or "
            "df.to_dask_array(lengths=True)."
        )


def _aligned(name: str, data: Any, X: Any) -> Any:
    """Return a Dask array with the blocks of rows of X."""
    import dask.array as da  # noqa: PLC0415 - an extra

    if not hasattr(data, "__dask_graph__"):
        _check_known("X", X, f"must have the rows of {name}, an array in memory, but has")
        data = np.asarray(data)
        fits = data.shape[:1] == X.shape[:1]
        data = da.from_array(data, chunks=(X.chunks[0], *data.shape[1:]) if fits else -1)
    array = _array(name, data)
    if array.ndim not in ({1, 2} if name == "y" else {1}):
        shape = "(n,) or (n, n_targets)" if name == "y" else "(n,)"
        raise ValueError(f"{name} must be of shape {shape}; got {array.ndim} dimensions.")
    n, length = X.shape[0], array.shape[0]
    if np.isnan(n) or np.isnan(length):
        if array.numblocks[0] != X.numblocks[0]:
            raise ValueError(
                f"X and {name} must have the same blocks where their lengths are unknown; "
                f"got {X.numblocks[0]} and {array.numblocks[0]}."
            )
        return array
    if length != n:
        raise ValueError(f"X and {name} must have the same rows; got {n} and {length}.")
    return array.rechunk((X.chunks[0], *array.shape[1:]))
