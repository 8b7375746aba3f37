"""One column of a table: what it holds, and the features it becomes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stoptime.methods.base import Array
from stoptime.tables.reading import pandas

__all__ = [
    "Column",
    "Kind",
    "Note",
    "column_kind",
    "described",
    "encoded",
    "numbers_of",
    "sentences",
]

Kind = Literal["number", "date", "category"]

MOSTLY_NUMBERS = 0.5  # share of the different values of a text column that asks for a second look
FEW_VALUES = 10  # different values, up to which a text column of digits may well be a code
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[-+]\d{2}:?\d{2})?")
NUMBERS = {"boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"}
TEXT = {"string", "categorical", "mixed", "mixed-integer"}
NESTED = (list, dict, set, tuple, np.ndarray)

MEDIAN = "Missing values, set to the median"
OWN_CATEGORY = "Missing values, given a category of their own"
UNKNOWN = "Values not seen in fitting, treated as none of those seen"


@dataclass(frozen=True)
class Column:
    """A column of the table and what became of it.

    Attributes
    ----------
    name : str
        In the table.
    kind : {"number", "date", "category"}
        A date is counted in days since 1970.
    fill : float or None
        What stands for a missing number: the median; None where missing values are refused.
    levels : tuple of str or None
        The values of a category with a feature of their own; None stands for missing.
    """

    name: str
    kind: Kind
    fill: float | None = None
    levels: tuple[str | None, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        if self.kind != "category":
            return (self.name,)
        return tuple(
            f"{self.name}={'(missing)' if level is None else level}" for level in self.levels
        )


@dataclass(frozen=True)
class Note:
    """How many values of a column were treated in a way that a reader should know."""

    treatment: str
    column: str
    count: int


def sentences(notes: Iterable[Note]) -> tuple[str, ...]:
    """Return one sentence for each treatment.

    Examples
    --------
    >>> sentences([Note(MEDIAN, "age", 2), Note(MEDIAN, "bmi", 1)])
    ('Missing values, set to the median: age (2), bmi (1).',)
    """
    by_treatment: dict[str, list[str]] = {}
    for note in notes:
        by_treatment.setdefault(note.treatment, []).append(f"{note.column} ({note.count})")
    return tuple(f"{treatment}: {', '.join(names)}." for treatment, names in by_treatment.items())


def column_kind(series: Any, name: str) -> tuple[Kind, Any]:
    """Return what a column holds, and its values as such."""
    pd = pandas()
    types = pd.api.types
    if types.is_datetime64_any_dtype(series):
        return "date", series
    if isinstance(series.dtype, pd.CategoricalDtype):
        return "category", series.astype(object)
    if types.is_numeric_dtype(series) and not types.is_complex_dtype(series):
        return "number", series
    inferred = types.infer_dtype(series, skipna=True)
    if inferred in NUMBERS:
        return "number", series.map(
            lambda value: np.nan if pd.isna(value) else float(value)
        ).astype(float)
    if inferred in {"date", "datetime"}:
        return "date", pd.to_datetime(series, utc=True)
    if inferred not in TEXT or any(isinstance(value, NESTED) for value in series):
        raise ValueError(
            f'Column "{name}" holds {inferred} values, for which no number stands: drop it.'
        )
    return _text_kind(series, name)


def _text_kind(series: Any, name: str) -> tuple[Kind, Any]:
    """Tell dates from categories, and refuse numbers that something has turned into text."""
    pd = pandas()
    different = series.dropna().astype(str).str.strip().drop_duplicates()
    if len(different) and different.str.fullmatch(ISO_DATE).all():
        return "date", pd.to_datetime(series, utc=True, format="ISO8601")
    with_points = different.str.replace(",", ".", regex=False)
    share = pd.to_numeric(with_points, errors="coerce").notna().mean()
    odd = different[pd.to_numeric(different, errors="coerce").isna()]
    if len(different) > FEW_VALUES and share > MOSTLY_NUMBERS and len(odd):
        raise ValueError(
            f'Column "{name}" mixes numbers with text such as {str(odd.iloc[0])[:40]!r}: if that is a '
            "missing value, read it as such (--na), else mend the file or drop the column."
        )
    return "category", series


def described(kind: Kind, series: Any) -> str:
    """Return what a column holds in words, with an example."""
    example = next(iter(series.dropna()), "nothing")
    words = {"number": "numbers", "date": "dates", "category": "text"}
    return f"{words[kind]} such as {str(example)[:40]!r}"


def numbers_of(kind: Kind, series: Any) -> Array:
    """Return numbers, or days of dates, with NaN for what is missing or infinite."""
    if kind == "date":
        pd = pandas()
        moments = pd.to_datetime(series, utc=True).dt.tz_localize(None)
        series = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
    values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.where(np.isfinite(values), values, np.nan)


def encoded(column: Column, series: Any) -> tuple[Array, list[Note]]:
    """Return the features of a column, of shape (n, n_features), and notes on its values."""
    if column.kind == "category":
        return _one_hot(column, series)
    kind, series = column_kind(series, column.name)
    if kind != column.kind and not series.isna().all():
        wanted = "numbers" if column.kind == "number" else "dates"
        raise ValueError(f'Column "{column.name}" must be {wanted}, not {described(kind, series)}.')
    values = numbers_of(column.kind, series)
    gaps = np.isnan(values)
    if not gaps.any():
        return values[:, None], []
    count = int(gaps.sum())
    if column.fill is None:
        raise ValueError(
            f'Column "{column.name}" misses {count} values, and nothing stands for them.'
        )
    return np.where(gaps, column.fill, values)[:, None], [Note(MEDIAN, column.name, count)]


def _one_hot(column: Column, series: Any) -> tuple[Array, list[Note]]:
    gaps = np.asarray(series.isna())
    places = {level: i for i, level in enumerate(column.levels)}
    found = np.array(
        [
            places.get(None if gap else str(value), -1)
            for value, gap in zip(series, gaps, strict=True)
        ]
    )
    known = found >= 0
    block = np.zeros((len(found), len(column.levels)))
    block[np.flatnonzero(known), found[known]] = 1.0
    notes = []
    if None in places and gaps.any():
        notes.append(Note(OWN_CATEGORY, column.name, int(gaps.sum())))
    if not known.all():
        notes.append(Note(UNKNOWN, column.name, int((~known).sum())))
    return block, notes
