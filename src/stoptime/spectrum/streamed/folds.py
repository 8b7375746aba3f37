"""Folds of streamed data: each row adds to the statistics of the fold that tests on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import check_cv

from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.support.checks import is_whole, row_numbers

NEVER = -1  # the fold of rows that are never tested on
WHOLE = 0  # the fold of all rows where there are no folds

Parts = dict[int, Any]
"""Statistics of the rows of every fold, or another sum over its rows."""
Sum = Callable[[int, Any, Any, Any], Any]
"""What is summed over rows: a function of their fold, X, y and weights."""


@dataclass(frozen=True)
class Folds:
    """The fold of each row, by ``labels`` or by the ``ends`` of folds of consecutive rows."""

    count: int
    labels: NDArray[np.int16] | None = None
    ends: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, cv: Any, n_rows: int | None, groups: ArrayLike | None = None) -> Folds:
        """Return the folds of a splitter, or folds as they are; test sets must not overlap."""
        if isinstance(cv, cls):
            return cv
        if is_whole(cv):
            if cv < 2 or (n_rows is not None and n_rows < cv):
                most = "" if n_rows is None else f", and at most {n_rows}, the number of rows"
                raise ValueError(f"cv={cv} must be at least 2{most}.")
            if n_rows is None:
                return cls(int(cv))
            # the folds of KFold(cv), without a list of the rows, which may be too long for memory
            sizes = np.full(cv, n_rows // cv) + (np.arange(cv) < n_rows % cv)
            return cls(int(cv), ends=np.cumsum(sizes))
        if n_rows is None:
            raise ValueError(
                "cv must be a whole number if the number of rows is not known in advance, because "
                f"whole blocks are then assigned to the folds; got {cv!r}."
            )
        labels = np.full(n_rows, NEVER, np.int16)
        count = 0
        for train, test in check_cv(cv).split(np.broadcast_to(0.0, (n_rows, 1)), None, groups):
            tested = _mask(test, n_rows)
            if (labels[tested] != NEVER).any() or not np.array_equal(~tested, _mask(train, n_rows)):
                raise ValueError(
                    "cv must test on every row at most once, and train on all others, for streamed "
                    f"data; fold {count} does not. Use KFold or GroupKFold."
                )
            labels[tested] = count
            count += 1
        if count == 0:
            raise ValueError(
                "cv must give at least one pair of training and test rows; it gave none."
            )
        return cls(count, labels)

    @staticmethod
    def place(folds: Folds | None, block: int, rows: slice | None) -> tuple[str, Any]:
        """Return the name of a block in messages, and the fold of its rows, which may be one."""
        name = f"Block {block}"
        if rows is not None:
            name += f" (rows {rows.start} to {rows.stop - 1})"
        return name, (folds or Folds(1)).within(block, rows)

    def within(self, block: int, rows: slice | None) -> NDArray[Any] | int:
        """Return the fold of each row of a block, or one fold for all of them."""
        if self.labels is not None and rows is not None:
            return self.labels[rows]
        if self.ends is not None and rows is not None:
            numbers = np.arange(rows.start, max(rows.start + 1, rows.stop))
            found = np.searchsorted(self.ends, numbers, side="right")
            return int(found[0]) if found[0] == found[-1] else found
        # the number of rows is unknown: fold k tests blocks k, k + count, and so on
        return block % self.count


def parts_of_block(
    X: Any,
    y: Any,
    weights: NDArray[Any] | None,
    labels: NDArray[Any] | int,
    block: str,
    summed: Sum | None = None,
) -> Parts:
    """Return sums over each fold's rows, statistics by default; errors name the block."""
    summed = summed or (lambda _, *rows: Statistics.of(*rows))
    parts: Parts = {}
    try:
        if isinstance(labels, int):
            return {labels: summed(labels, X, y, weights)}
        if len(labels) != len(X):
            raise ValueError(f"X has {len(X)} rows, but {len(labels)} were expected.")  # noqa: TRY301
        try:
            for fold in np.unique(labels):
                rows: Any = np.flatnonzero(labels == fold)
                # a slice of consecutive rows needs no copy
                if rows[-1] - rows[0] + 1 == len(rows):
                    rows = slice(rows[0], rows[-1] + 1)
                own = None if weights is None else weights[rows]
                parts[int(fold)] = summed(int(fold), X[rows], y[rows], own)
        except ValueError:
            # the same error for the whole block has the number of the row within the block
            Statistics.of(X, y, weights)
            raise
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{block}: {error}") from error
    return parts


def merged_parts(parts: list[Parts]) -> Parts:
    """Return the sums of each fold over all parts, merged in their order."""
    merged: Parts = {}
    for part in parts:
        for fold, statistics in part.items():
            merged[fold] = merged[fold] + statistics if fold in merged else statistics
    return merged


def _mask(chosen: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return a mask of rows that are chosen by numbers or by a mask."""
    mask = np.zeros(n, np.bool_)
    mask[row_numbers(chosen, n)] = True
    return mask
