"""Sources of streamed data, and their folds: each row adds to the sums of the fold that tests it.

A new kind of stream is one class with ``n_features`` and ``blocks``, or with ``sums`` if blocks are
summed elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import check_cv

from stoptime.spectrum.moments import Statistics
from stoptime.support.checks import is_whole, row_numbers
from stoptime.support.progress import progress_bar

NEVER = -1  # the fold of rows that are never tested on

Labels = NDArray[Any] | int
"""The fold of each row, or one fold for all rows."""
Sums = dict[int, Statistics]
"""The statistics of each fold."""
OfBlock = Callable[[str, "Block", Labels], Any]
"""A function of a block, its name in messages, and the fold of its rows."""
WITHOUT_RESPONSE = "Chunks have no response: give y when you create them."
WITHOUT_BLOCKS = "There are no rows: every block is empty, or there is no block."
NO_FOLDS = "cv must give at least one pair of training and test rows; it gave none."


class Block(NamedTuple):
    """Some rows: features, targets and weights, which are None where there are none."""

    X: Any
    y: Any = None
    weight: Any = None


@dataclass(frozen=True)
class Folds:
    """The fold of each row, by ``labels``, or of each block where the labels are None."""

    count: int
    labels: NDArray[np.integer[Any]] | None = None

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
            # the folds of KFold(cv), in as little memory as they need
            sizes = np.full(cv, n_rows // cv) + (np.arange(cv) < n_rows % cv)
            return cls(int(cv), np.repeat(np.arange(cv, dtype=np.min_scalar_type(cv)), sizes))
        if n_rows is None:
            raise ValueError(
                "cv must be a whole number if the number of rows is not known in advance, because "
                f"whole blocks are then assigned to the folds; got {cv!r}."
            )
        labels = np.full(n_rows, NEVER)
        count = 0
        for train, test in check_cv(cv).split(np.broadcast_to(0.0, (n_rows, 1)), None, groups):
            tested, trained = np.zeros((2, n_rows), np.bool_)
            tested[row_numbers(test, n_rows)] = True
            trained[row_numbers(train, n_rows)] = True
            if (labels[tested] != NEVER).any() or (tested == trained).any():
                raise ValueError(
                    "cv must test on every row at most once, and train on all others, for streamed "
                    f"data; fold {count} does not. Use KFold or GroupKFold."
                )
            labels[tested] = count
            count += 1
        if count == 0:
            raise ValueError(NO_FOLDS)
        return cls(count, labels)

    def within(self, block: int, rows: slice | None) -> Labels:
        """Return the fold of each row of a block, or one fold for all of them."""
        if self.labels is None or rows is None:
            # the number of rows is unknown: fold k tests blocks k, k + count, and so on
            return block % self.count
        return self.labels[rows]


class Source(ABC):
    """Streamed data: rows and response that pass by in blocks, and are not kept."""

    n_features: int
    n_rows: int | None = None  # None if it is not known in advance
    names: tuple[str, ...] | None = None

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Return an iterator over all blocks, from the first on."""

    def sums(self, folds: Folds | None = None) -> Sums:
        """Return the statistics of every fold, or of all rows, in one pass."""
        return merged_sums(self._each(sums_of_block, folds))

    def _each(self, function: OfBlock, folds: Folds | None) -> Iterable[Any]:
        """Return a function of every block, its name in messages, and the fold of its rows."""
        start = 0
        with progress_bar("statistics", total=self.n_rows, unit=" rows") as tick:
            for number, block in enumerate(self.blocks()):
                if block.y is None:
                    raise ValueError(WITHOUT_RESPONSE)
                # a block may hold data frames, whose rows are not found by their places
                arrays: Any = [None if one is None else np.asarray(one) for one in block]
                X, y, weight = arrays
                rows = slice(start, start + len(X))
                name = block_name(number, rows)
                if X.shape[1:] != (self.n_features,):
                    wanted = self.n_rows, self.n_features
                    raise ValueError(f"{name}: X of shape {X.shape}, but {wanted} was expected.")
                labels = 0 if folds is None else folds.within(number, rows)
                yield function(name, Block(X, y, weight), labels)
                start = rows.stop
                tick(len(X))
        if self.n_rows is not None and start != self.n_rows:
            raise ValueError(f"Chunks gave {start} rows, but {self.n_rows} were expected.")


def block_name(number: int, rows: slice | None) -> str:
    """Return the name of a block in messages."""
    return f"Block {number}" + ("" if rows is None else f" (rows {rows.start} to {rows.stop - 1})")


def parts_of(block: Block, labels: Labels) -> Iterator[tuple[int, Block]]:
    """Yield the folds of a block, and the rows of each."""
    if isinstance(labels, int):
        yield labels, block
        return
    if len(labels) != len(block.X):
        raise ValueError(f"X has {len(block.X)} rows, but {len(labels)} were expected.")
    for fold in np.unique(labels).tolist():
        rows = np.flatnonzero(labels == fold)
        # a slice of consecutive rows needs no copy
        together = rows[-1] - rows[0] + 1 == len(rows)
        own: Any = slice(rows[0], rows[-1] + 1) if together else rows
        yield fold, Block(*(None if one is None else one[own] for one in block))


def sums_of_block(name: str, block: Block, labels: Labels) -> Sums:
    """Return the statistics of each fold's rows; errors name the block."""
    try:
        return {fold: Statistics.of(*part) for fold, part in parts_of(block, labels)}
    except (TypeError, ValueError) as error:
        if not isinstance(labels, int):
            # the same error for the whole block has the number of the row within the block
            sums_of_block(name, block, 0)
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from error


def merged_sums(parts: Iterable[Sums]) -> Sums:
    """Return the statistics of each fold over all parts, merged in their order."""
    merged: Sums = {}
    for part in parts:
        for fold, own in part.items():
            merged[fold] = merged[fold] + own if fold in merged else own
    return merged


def sums_of_others(folds: list[Statistics], always: Statistics | None) -> Iterator[Statistics]:
    """Yield, for each fold, the sum of all other folds, and of rows that are never tested on."""
    # sums from both ends keep all digits; the difference of total and fold would lose some
    after: list[Any] = [0]
    for fold in reversed(folds[1:]):
        after.append(after[-1] + fold)
    before: Any = 0 if always is None else always
    for fold, rest in zip(folds, reversed(after), strict=True):
        yield sum(filter(None, (before, rest)))
        before = before + fold
