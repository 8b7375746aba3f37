"""Parquet and CSV files in blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoptime.spectrum.streamed.chunks import Block, Chunks, Columns, Paths, rows_per_block
from stoptime.spectrum.streamed.statistics import check_size

__all__ = ["Roles", "csv", "parquet"]

CSV_BYTES = 2**24  # of text in one step
PANDAS_INDEX = "__index_level_"  # how pandas names an index that has no name
UNREAD = 'Reading tables needs pyarrow: pip install "stoptime[table]".'


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are what.

    Attributes
    ----------
    target : str, list of str or None
        A name gives a vector, a list many targets.
    weight : str or None
        Sample weights.
    features : list of str or None
        All other columns where None, without the index that pandas may have written among them.
    """

    target: Columns | None
    weight: str | None = None
    features: Sequence[str] | None = None

    @property
    def targets(self) -> list[str]:
        """Names of the targets."""
        return (
            []
            if self.target is None
            else [self.target]
            if isinstance(self.target, str)
            else [*self.target]
        )

    @property
    def used(self) -> list[str]:
        """Names of all columns to read, features first."""
        return [
            *(self.features or ()),
            *self.targets,
            *([] if self.weight is None else [self.weight]),
        ]

    def among(self, names: Sequence[str], source: str) -> Roles:
        """Return the roles with features filled in; a ValueError names columns that are not there."""
        taken = {*self.targets, self.weight}
        others = (name for name in names if name not in taken and not name.startswith(PANDAS_INDEX))
        features = tuple(self.features or others)
        filled = Roles(self.target, self.weight, features)
        missing = [name for name in filled.used if name not in names]
        if missing:
            raise ValueError(
                f"{source} has no column {missing[0]!r}; it has {', '.join(map(repr, names[:8]))}"
                f"{' ...' if len(names) > 8 else ''}."
            )
        twice = taken.intersection(features)
        if twice or len(set(filled.used)) != len(filled.used) or not features:
            raise ValueError(
                "features, target and weight must be different columns, and at least one feature."
            )
        check_size(len(features))
        return filled

    def block(self, table: Any) -> Block:
        """Return the columns of an Arrow table or batch as arrays; missing values become NaN."""
        count = len(self.features or ())
        columns = np.empty((table.num_rows, len(self.used)))
        for place, name in enumerate(self.used):
            columns[:, place] = table.column(name).to_numpy(zero_copy_only=False)
        y: NDArray[Any] | None = columns[:, count : count + len(self.targets)]
        if self.target is None or isinstance(self.target, str):
            y = None if self.target is None else columns[:, count]
        return Block(columns[:, :count], y, None if self.weight is None else columns[:, -1])


def parquet(path: Paths, roles: Roles, rows: int | None) -> Chunks:
    """Read Parquet files; see :meth:`stoptime.Chunks.parquet`."""
    try:
        import pyarrow.parquet as pq  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ImportError(UNREAD) from error

    files = _files(path, "*.parquet")
    heads = [pq.read_metadata(file) for file in files]
    schemas = [head.schema.to_arrow_schema() for head in heads]
    roles = roles.among(schemas[0].names, files[0].name)
    for file, schema in zip(files, schemas, strict=True):
        _check_types(file.name, schema, roles.among(schema.names, file.name), schemas[0])
    height = rows_per_block(rows, len(roles.used))

    def read(start: int) -> Iterator[Block]:
        skip = start
        for file, head in zip(files, heads, strict=True):
            if skip >= head.num_rows:
                skip -= head.num_rows
                continue
            groups, skip = _groups_after(head, skip)
            with pq.ParquetFile(file) as source:
                for batch in source.iter_batches(height, groups, roles.used):
                    part, skip = batch[skip:], max(skip - batch.num_rows, 0)
                    if part.num_rows:
                        yield roles.block(part)

    n = sum(head.num_rows for head in heads)
    told = ", ".join(
        f"{file.name} ({head.num_rows} rows)" for file, head in zip(files, heads, strict=True)
    )
    names = tuple(roles.features or ())
    return Chunks(read, len(names), n, names, f"columns {', '.join(roles.used)} of {told}")


def csv(path: str | PathLike[str], roles: Roles, rows: int | None) -> Chunks:
    """Read a CSV file; see :meth:`stoptime.Chunks.csv`."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import csv as arrow  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(UNREAD) from error

    (file,) = _files(path, "*.csv")
    options = arrow.ReadOptions(block_size=CSV_BYTES, use_threads=False)
    with arrow.open_csv(file, options) as head:
        roles = roles.among(head.schema.names, file.name)
    types = arrow.ConvertOptions(
        include_columns=roles.used, column_types=dict.fromkeys(roles.used, pa.float64())
    )
    height = rows_per_block(rows, len(roles.used))

    def read(start: int) -> Iterator[Block]:
        skip = start
        try:
            with arrow.open_csv(file, options, convert_options=types) as source:
                for batch in source:
                    part, skip = batch[skip:], max(skip - batch.num_rows, 0)
                    for first in range(0, part.num_rows, height):
                        yield roles.block(part[first : first + height])
        except pa.ArrowInvalid as error:
            raise ValueError(f"{file.name}: {error}") from error

    names = tuple(roles.features or ())
    return Chunks(read, len(names), None, names, f"columns {', '.join(roles.used)} of {file.name}")


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


def _check_types(file: str, schema: Any, roles: Roles, first: Any) -> None:
    """Raise a TypeError that names a column which holds no numbers, or other ones than in the first file."""
    from pyarrow import types  # noqa: PLC0415 - an extra

    for name in roles.used:
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise TypeError(
                f"Column {name!r} of {file} holds {kind}, not numbers: leave it out or encode it."
            )
        if kind != first.field(name).type:
            raise TypeError(
                f"Column {name!r} of {file} holds {kind}, but {first.field(name).type} in the first file."
            )


def _groups_after(head: Any, skip: int) -> tuple[list[int], int]:
    """Return the row groups that are left after skipping rows, and how many to skip in the first of them."""
    for group in range(head.num_row_groups):
        size = head.row_group(group).num_rows
        if skip < size:
            return list(range(group, head.num_row_groups)), skip
        skip -= size
    return [], 0
