"""Dask arrays and dataframes: one task for each block, and a tree that adds their statistics up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.spectrum.streamed.folds import (
    WHOLE,
    Folds,
    Parts,
    block_name,
    merged_parts,
    parts_of_block,
)
from stoptime.spectrum.streamed.statistics import check_size
from stoptime.support.arrays import Floats

__all__ = ["DaskRows", "predicted"]

SPLIT_EVERY = 16  # statistics merged in one task
ROOM = 0.8  # share of its memory at which a worker takes no more tasks


class Place(NamedTuple):
    """What a task has to know of its block."""

    name: str
    labels: NDArray[Any] | int
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class DaskRows:
    """Blocks of rows that Dask will make, wherever it runs; X is never gathered.

    Attributes
    ----------
    X, y, weight : dask arrays
        With the same blocks of rows, and one block of columns; the weight may be None.
    names : tuple of str or None
        Names of the features.
    """

    X: Any
    y: Any
    weight: Any
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any) -> DaskRows:
        """Align the blocks of X, y and the weights."""
        if y is None:
            raise ValueError("y must be given with X: a Dask array or series with the same blocks.")
        names = column_names(X)
        rows = _array("X", X)
        if rows.ndim != 2:
            raise ValueError(f"X must be of shape (n, n_features); got {rows.ndim} dimensions.")
        check_size(rows.shape[1])
        if rows.numblocks[1] > 1:
            _check_known("X", rows, "has several blocks of columns and")
            rows = rows.rechunk({1: -1})
        weight = None if sample_weight is None else _aligned("sample_weight", sample_weight, rows)
        return cls(rows, _aligned("y", y, rows), weight, names)

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where it is not known before the end."""
        return None if np.isnan(self.X.shape[0]) else int(self.X.shape[0])

    def parts(self, folds: Folds | None = None, *, verbose: bool = False) -> Parts:  # noqa: ARG002
        """Return the statistics of all rows, or of every fold, in one pass.

        The progress of Dask is shown by Dask: its dashboard, or ``dask.diagnostics.ProgressBar``.
        """
        self._check_memory(1 if folds is None else folds.count)
        root = tree(self.blocks(folds))
        killed = getattr(sys.modules.get("distributed"), "KilledWorker", ())
        try:
            return root.compute()
        except killed as error:
            task = error.task
            number = task[1] if isinstance(task, tuple) and len(task) > 1 else task
            raise MemoryError(
                f"Block {number}, or one that was made beside it, has ended every worker that took it, most "
                "likely by its size: make blocks smaller, X.rechunk((rows, -1)) or df.repartition(...), or "
                "give workers more memory."
            ) from error

    def blocks(self, folds: Folds | None) -> list[Any]:
        """Return one lazy task for each block, with whatever makes the block fused into it."""
        import dask.array as da  # noqa: PLC0415 - an extra
        from dask.base import tokenize  # noqa: PLC0415
        from dask.layers import ArrayValuesDep  # noqa: PLC0415

        places = self._places(folds)
        inside = ArrayValuesDep(
            (self.X.chunks[0],), {(i,): place for i, place in enumerate(places)}
        )
        arguments = [inside, "i", self.X, "ij", self.y, "ik"[: self.y.ndim]]
        if self.weight is not None:
            arguments += [self.weight, "i"]
        lazy = da.blockwise(
            _block_parts, "ij", *arguments,
            name=f"statistics-{tokenize(self.X.name, self.y.name, self.weight, places)}",
            align_arrays=False, concatenate=True, dtype=object, meta=np.empty((0, 0), dtype=object),
        )  # fmt: skip
        return list(lazy.to_delayed().ravel())

    def _places(self, folds: Folds | None) -> list[Place]:
        ends = np.cumsum(self.X.chunks[0])
        places = []
        for number, (end, size) in enumerate(zip(ends, self.X.chunks[0], strict=True)):
            rows = None if np.isnan(end) else slice(int(end - size), int(end))
            labels = WHOLE if folds is None else folds.within(number, rows)
            places.append(Place(block_name(number, rows), labels, self.X.dtype))
        return places

    def _check_memory(self, n_folds: int) -> None:
        """Raise a MemoryError that names the largest block where it does not fit into a worker."""
        limits = _memory_limits()
        if self.n_rows is None or not limits:
            return
        targets = int(np.prod(self.y.shape[1:]))
        row = self.n_features * self.X.dtype.itemsize + targets * self.y.dtype.itemsize
        sizes = np.array(self.X.chunks[0]) * row
        number, products = int(np.argmax(sizes)), 8 * self.n_features**2 * (n_folds + 2)
        if sizes[number] + products > ROOM * min(limits):
            raise MemoryError(
                f"{self._places(None)[number].name} takes {_told(sizes[number])} and statistics "
                f"{_told(products)}, but a worker has {_told(min(limits))}: make blocks smaller, "
                "X.rechunk((rows, -1)), or give workers more memory."
            )


def tree(blocks: Sequence[Any]) -> Any:
    """Return a lazy sum of lazy parts, in a fixed order whatever the workers do."""
    from dask import delayed  # noqa: PLC0415 - an extra

    add = delayed(merged_parts, pure=False)
    level = list(blocks)
    while len(level) > 1:
        level = [add(level[i : i + SPLIT_EVERY]) for i in range(0, len(level), SPLIT_EVERY)]
    return level[0]


def predicted(X: Any, coef: Floats, intercept: Floats) -> Any:
    """Return lazy predictions, block by block."""
    rows = _array("X", X)
    if rows.ndim == 2 and rows.numblocks[1] > 1:
        rows = rows.rechunk({1: -1})
    return rows @ coef.T + intercept


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a dataframe, None for an array."""
    columns = getattr(X, "columns", None)
    return None if columns is None else tuple(map(str, columns))


def _block_parts(place: Place, X: Any, y: Any, weight: Any = None) -> Parts:
    """Return the statistics of one block; runs on a worker."""
    name, labels, dtype = place
    if X.dtype != dtype:
        raise TypeError(
            f'{name}: X of dtype {X.dtype}, where {dtype} was announced: use X.astype("{dtype}").'
        )
    return parts_of_block(np.asarray(X), np.asarray(y), weight, labels, name)


def _array(name: str, data: Any) -> Any:
    """Return a Dask array of numbers from a Dask array, dataframe or series."""
    if not hasattr(data, "to_dask_array"):
        array = data
    else:
        kinds: Any = getattr(data, "dtypes", None)
        for column, kind in kinds.items() if hasattr(kinds, "items") else ():
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
        _check_known("X", X, f"must be like {name}, an array in memory, but has")
        data = np.asarray(data)
        _check_numbers(name, data.dtype)
        if data.shape[:1] != X.shape[:1]:
            raise ValueError(
                f"X and {name} must have the same rows; got {X.shape[0]} and {len(data)}."
            )
        return da.from_array(data, chunks=(X.chunks[0], *data.shape[1:]))
    array = _array(name, data)
    if array.ndim not in ({1, 2} if name == "y" else {1}):
        shape = "(n,) or (n, n_targets)" if name == "y" else "(n,)"
        raise ValueError(f"{name} must be of shape {shape}; got {array.ndim} dimensions.")
    if np.isnan(array.shape[0]) or np.isnan(X.shape[0]):
        if array.numblocks[0] != X.numblocks[0]:
            raise ValueError(
                f"X and {name} must have the same blocks where their lengths are unknown; "
                f"got {X.numblocks[0]} and {array.numblocks[0]}."
            )
        return array
    if array.shape[0] != X.shape[0]:
        raise ValueError(
            f"X and {name} must have the same rows; got {X.shape[0]} and {array.shape[0]}."
        )
    return array.rechunk((X.chunks[0], *array.shape[1:]))


def _memory_limits() -> list[int]:
    """Return the memory of each worker of the current client, where there is one and it is limited."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return []
    try:
        client = distributed.default_client()
    except ValueError:
        return []
    workers = client.scheduler_info()["workers"].values()
    return [int(worker["memory_limit"]) for worker in workers if worker["memory_limit"]]


def _told(size: float) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
