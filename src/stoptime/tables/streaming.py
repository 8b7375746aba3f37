"""Read tables that are larger than memory, one block of rows at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoptime.spectrum.streamed.sources import Block, Chunks
from stoptime.tables.columns import Note, sentences
from stoptime.tables.reading import Table, pandas, readable, text_format
from stoptime.tables.recipe import numbers_in, rows_left_out, usable_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stoptime.tables.recipe import Policy, Recipe

__all__ = ["TableRows", "opening"]

OPENING_ROWS = 100_000  # rows at the beginning of a file that decide what each column is
TABLE_BLOCK_ROWS = 5_000  # cross-validation deals whole blocks to folds, so there should be many


def opening(source: str | Path, *, missing: Sequence[str] = ()) -> Table:
    """Read the first rows of a table; see :func:`stoptime.tables.read_table`."""
    path = Path(source)
    text = text_format(path, missing)
    frame = next(_frames(path, missing, OPENING_ROWS), None)
    if frame is None or not len(frame):
        raise ValueError(f"{path} has a header but no rows.")
    return Table(frame, str(path), () if text is None else tuple(text.messages))


def _frames(path: Path, missing: Sequence[str], rows: int) -> Iterator[Any]:
    """Yield the table in data frames of at most so many rows."""
    text = text_format(path, missing)
    if text is None:
        from pyarrow import parquet  # noqa: PLC0415 - an extra

        with readable(path), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(rows):
                yield batch.to_pandas().rename(columns=str)
        return
    with readable(path), pandas().read_csv(path, chunksize=rows, **text.options) as file:
        for frame in file:
            yield text.named(frame)


@dataclass(frozen=True)
class TableRows:
    """The rows of a file as blocks of a matrix.

    ``target`` and ``weights`` name columns, ``recipe`` and ``policy`` say how the others become
    features, and ``missing`` lists words for a missing value.
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
        """Return the rows as data that are read block by block."""
        names = self.recipe.features
        return Chunks(self._read, len(names), None, names, f"{self.source}, features {names}")

    def messages(self) -> tuple[str, ...]:
        """Return messages about the rows of the last pass."""
        notes = [Note(*key, count) for key, count in self._notes.items()]
        return (*rows_left_out(self._left_out), *sentences(notes))

    def _read(self, start: int) -> Iterator[Block]:
        self._notes.clear()
        self._left_out.clear()
        skip = start
        for frame in _frames(Path(self.source), self.missing, TABLE_BLOCK_ROWS):
            block = self._block(frame)
            first = min(skip, len(block.X))
            skip -= first
            if first < len(block.X):
                weight = None if block.weight is None else block.weight[first:]
                yield Block(block.X[first:], block.y[first:], weight)

    def _block(self, frame: Any) -> Any:
        used = [column.name for column in self.recipe.columns]
        frame, dropped = usable_rows(frame, self.target, used, self.policy)
        self._left_out.update(dropped)
        X, notes = self.recipe.encode(frame)
        for note in notes:
            self._notes[note.treatment, note.column] += note.count
        weight = None if self.weights is None else numbers_in(frame, self.weights, weights=True)
        return Block(X, numbers_in(frame, self.target), weight)
