"""Dask arrays and dataframes: one task for each block, and a tree that sums their statistics."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoptime.spectrum.streamed.folds import Folds, Parts, Sum, merged_parts, parts_of_block
from stoptime.spectrum.streamed.statistics import check_size

SPLIT_EVERY = 16  # statistics merged in one task
WORKER_SHARE = 0.8  # of its memory: a worker that uses more accepts no new task


@dataclass(frozen=True)
class DaskRows:
    """Dask arrays with the same blocks of rows and one block of columns; X is never gathered."""

    X: Any
    y: Any
    weight: Any
    names: tuple[str, ...] | None
    n_features: int
    n_rows: int | None

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
        n, p = rows.shape
        n_rows = None if np.isnan(n) else int(n)
        return cls(rows, _aligned("y", y, rows), weight, names, int(p), n_rows)

    def parts(
        self,
        folds: Folds | None = None,
        summed: Sum | None = None,
        *,
        verbose: bool = False,  # noqa: ARG002 - Dask itself shows the progress
    ) -> Parts:
        """Return the statistics, or other sums, of all rows, or of every fold."""
        self._check_memory()
        root = tree(self.blocks(folds, summed))
        killed = getattr(sys.modules.get("distributed"), "KilledWorker", ())
        try:
            return root.compute()
        except killed as error:
            task = error.task
            number = task[1] if isinstance(task, tuple) and len(task) > 1 else task
            raise MemoryError(
                f"Every worker that took block {number} was killed, most likely because it, or a "
                "block computed at the same time, needs too much memory: make blocks smaller by "
                "X.rechunk((rows, -1)) or df.repartition(...), or give workers more memory."
            ) from error

    def blocks(self, folds: Folds | None, summed: Sum | None = None) -> list[Any]:
        """Return one lazy task for each block, fused with the tasks that compute the block."""
        import dask.array as da  # noqa: PLC0415 - an extra
        from dask.base import tokenize  # noqa: PLC0415
        from dask.layers import ArrayValuesDep  # noqa: PLC0415

        places = {(i,): place for i, place in enumerate(self._places(folds))}
        arguments = [ArrayValuesDep((self.X.chunks[0],), places), "i", self.X, "ij"]
        arguments += [self.y, "ik"[: self.y.ndim]]
        if self.weight is not None:
            arguments += [self.weight, "i"]
        lazy = da.blockwise(
            _block_parts, "ij", *arguments,
            name=f"statistics-{tokenize(self.X.name, self.y.name, self.weight, places, summed)}",
            align_arrays=False, concatenate=True, dtype=object, meta=np.empty((0, 0), dtype=object),
            announced=self.X.dtype, summed=summed,
        )  # fmt: skip
        return list(lazy.to_delayed().ravel())

    def _places(self, folds: Folds | None) -> list[tuple[str, Any]]:
        """Return the name of every block, and the folds of its rows."""
        places = []
        start = 0
        for number, size in enumerate(self.X.chunks[0]):
            rows = None if self.n_rows is None else slice(start, start + size)
            places.append(Folds.place(folds, number, rows))
            start += size
        return places

    def _check_memory(self) -> None:
        """Raise a MemoryError that names the largest block if it does not fit into a worker."""
        distributed: Any = sys.modules.get("distributed")
        try:
            workers = distributed.default_client().scheduler_info()["workers"].values()
        except (AttributeError, ValueError):  # there is no package or no client
            return
        limit = min((one["memory_limit"] or np.inf for one in workers), default=np.inf)
        row = (self.X.nbytes + self.y.nbytes) / max(self.X.shape[0], 1)
        sizes = row * np.array(self.X.chunks[0])
        # sizes are NaN, and pass, where the number of rows is not known
        if sizes.max() > WORKER_SHARE * limit:
            raise MemoryError(
                f"{self._places(None)[int(sizes.argmax())][0]} takes {1e-9 * sizes.max():.3g} GB, "
                f"but a worker has {1e-9 * limit:.3g} GB: make blocks smaller by "
                "X.rechunk((rows, -1)), or give workers more memory."
            )


def tree(blocks: Sequence[Any]) -> Any:
    """Return a lazy sum of lazy parts."""
    from dask import delayed  # noqa: PLC0415 - an extra

    # the order is fixed, so that rounding does not depend on which worker is first
    add = delayed(merged_parts, pure=False)
    level = list(blocks)
    while len(level) > 1:
        level = [add(level[i : i + SPLIT_EVERY]) for i in range(0, len(level), SPLIT_EVERY)]
    return level[0]


def dask_rows(X: Any) -> Any:
    """Return new rows as a Dask array with one block of columns."""
    rows = _array("X", X)
    if rows.ndim == 2 and rows.numblocks[1] > 1:
        _check_known("X", rows, "has several blocks of columns and")
        rows = rows.rechunk({1: -1})
    return rows


def _block_parts(
    place: Any, X: Any, y: Any, weight: Any = None, *, announced: Any, summed: Sum | None
) -> Parts:
    """Return the sums of one block; runs on a worker."""
    name, labels = place
    if X.dtype != announced:
        wrong = f"{name}: X of dtype {X.dtype}, but {announced} was expected"
        raise TypeError(f'{wrong}: use X.astype("{announced}").')
    return parts_of_block(np.asarray(X), np.asarray(y), weight, labels, name, summed)


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
