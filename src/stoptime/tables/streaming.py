"""Tables larger than memory, a block of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stoptime.spectrum.streamed.chunks import Block, Chunks
from stoptime.tables.columns import Note, sentences
from stoptime.tables.reading import Table, pandas, readable, sniffed, text_format
from stoptime.tables.recipe import Policy, Recipe

__all__ = ["OPENING_ROWS", "TableRows", "opening"]

OPENING_ROWS = 100_000
"""Rows from the beginning of a file that tell what its columns are."""
BLOCK_ROWS = 5_000  # folds are dealt whole blocks: there should be many


def opening(source: str | Path, *, missing: Sequence[str] = ()) -> Table:
    """Read the first rows of a table; see :func:`stoptime.tables.read_table`."""
    path = Path(source)
    frame = next(_frames(path, missing, OPENING_ROWS), None)
    if frame is None or not len(frame):
        raise ValueError(f"{path} has a header and no rows.")
    kind, head = sniffed(path)
    messages = () if kind == "parquet" else tuple(text_format(path, head, kind, missing).messages)
    return Table(frame, str(path), messages)


def _frames(path: Path, missing: Sequence[str], rows: int) -> Iterator[Any]:
    """Yield the table in frames of so many rows."""
    kind, head = sniffed(path)
    if kind == "parquet":
        from pyarrow import parquet  # noqa: PLC0415 - an extra

        with readable(path), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(rows):
                yield batch.to_pandas().rename(columns=str)
        return
    found = text_format(path, head, kind, missing)
    with readable(path), pandas().read_csv(path, chunksize=rows, **found.options) as file:
        for frame in file:
            yield found.named(frame)


@dataclass(frozen=True)
class TableRows:
    """The rows of a table as matrices, by a recipe that its opening rows have made.

    Attributes
    ----------
    source : str
        The file.
    recipe : Recipe
        What turns columns into features.
    target : str
        The column that is predicted.
    weights : str or None
        The column of sample weights.
    policy : Policy
        What becomes of missing values.
    missing : sequence of str
        What is read as missing.
    """

    source: str
    recipe: Recipe
    target: str
    weights: str | None
    policy: Policy
    missing: Sequence[str] = ()
    _notes: Counter[tuple[str, str]] = field(default_factory=Counter, repr=False)
    _left_out: Counter[str] = field(default_factory=Counter, repr=False)

    def chunks(self) -> Chunks:
        """Return the rows to be read block by block."""
        features = self.recipe.features
        return Chunks(
            self._read, len(features), None, features, f"{self.source}, features {features}"
        )

    def messages(self) -> tuple[str, ...]:
        """Return what a reader should know of the last pass."""
        notes = [
            Note(treatment, column, count) for (treatment, column), count in self._notes.items()
        ]
        gone = [f"{count} rows {why} left out." for why, count in self._left_out.items()]
        return (*gone, *sentences(notes))

    def _read(self, start: int) -> Iterator[Block]:
        self._notes.clear()
        self._left_out.clear()
        skip = start
        for frame in _frames(Path(self.source), self.missing, BLOCK_ROWS):
            block = self._block(frame)
            rest, skip = min(skip, len(block.X)), max(skip - len(block.X), 0)
            if rest < len(block.X):
                weight = None if block.weight is None else block.weight[rest:]
                yield Block(block.X[rest:], block.y[rest:], weight)

    def _block(self, frame: Any) -> Any:
        y = self._numbers(frame, self.target)
        kept = ~np.isnan(y)
        if not kept.all():
            self._left_out[f'without a target "{self.target}"'] += int(np.count_nonzero(~kept))
        if self.policy.missing == "drop":
            names = [column.name for column in self.recipe.columns]
            whole = ~np.asarray(frame[names].isna().any(axis=1))
            if not whole[kept].all():
                self._left_out["with missing values"] += int(np.count_nonzero(~whole[kept]))
            kept &= whole
        X, notes = self.recipe.encode(frame[kept])
        for note in notes:
            self._notes[note.treatment, note.column] += note.count
        weight = None if self.weights is None else self._numbers(frame, self.weights)[kept]
        return Block(X, y[kept], weight)

    def _numbers(self, frame: Any, name: str) -> Any:
        """Return a column of numbers, NaN where they are missing."""
        try:
            values = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f'Column "{name}" of {self.source} must be numbers: {error}'
            ) from error
        return np.where(np.isfinite(values), values, np.nan)
