"""Detect what a column of a table holds, and turn it into features.

scikit-learn's ColumnTransformer is not used, because its encoders neither count what they filled in
nor can be written to the JSON model file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stoptime.tables.reading import pandas

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stoptime.support.arrays import Array

__all__ = ["Column", "Kind", "Note", "column_kind", "counted", "described", "encoded", "sentences"]

Kind = Literal["number", "date", "category"]

MOSTLY_NUMBERS = 0.5  # share of numbers in a text column above which it is probably a mistake
FEW_VALUES = 10  # a text column with at most so many different values may be a code of digits
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[-+]\d{2}:?\d{2})?")
NUMBER_TYPES = {"boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"}
TEXT_TYPES = {"string", "categorical", "mixed", "mixed-integer"}
NESTED = (list, dict, set, tuple, np.ndarray)

MEDIAN = "Missing values, set to the median"
OWN_CATEGORY = "Missing values, given a category of their own"
UNKNOWN = "Values not seen in fitting, treated as none of the known categories"


@dataclass(frozen=True)
class Column:
    """A column of the table and how it becomes features.

    A "date" is counted in days since 1970. ``fill`` replaces missing numbers and is None if they
    are refused. Each of the ``levels`` of a category gets a feature; None stands for missing.
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
        words = ("(missing)" if level is None else level for level in self.levels)
        return tuple(f"{self.name}={word}" for word in words)


@dataclass(frozen=True)
class Note:
    """How many values of a column were filled in or not recognised."""

    treatment: str
    column: str
    count: int


def sentences(notes: Iterable[Note]) -> tuple[str, ...]:
    """Return one sentence for each treatment, with the count of each column."""
    by_treatment: dict[str, list[str]] = {}
    for note in notes:
        by_treatment.setdefault(note.treatment, []).append(f"{note.column} ({note.count})")
    return tuple(f"{treatment}: {', '.join(names)}." for treatment, names in by_treatment.items())


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def column_kind(series: Any, name: str) -> tuple[Kind, Any]:
    """Return what a column holds, and its values converted to that kind."""
    pd = pandas()
    types = pd.api.types
    if types.is_datetime64_any_dtype(series):
        return "date", series
    if isinstance(series.dtype, pd.CategoricalDtype):
        return "category", series.astype(object)
    if types.is_numeric_dtype(series) and not types.is_complex_dtype(series):
        return "number", series
    inferred = types.infer_dtype(series, skipna=True)
    if inferred in NUMBER_TYPES:
        numbers = series.map(lambda value: np.nan if pd.isna(value) else float(value))
        return "number", numbers.astype(float)
    if inferred in {"date", "datetime"}:
        return "date", pd.to_datetime(series, utc=True)
    if inferred not in TEXT_TYPES or any(isinstance(value, NESTED) for value in series):
        raise ValueError(
            f'Column "{name}" holds {inferred} values, which cannot become numbers: drop it.'
        )
    return _text_kind(series, name)


def _text_kind(series: Any, name: str) -> tuple[Kind, Any]:
    """Tell dates from categories, and refuse columns of numbers with a few words among them."""
    pd = pandas()
    different = series.dropna().astype(str).str.strip().drop_duplicates()
    if len(different) and different.str.fullmatch(ISO_DATE).all():
        return "date", pd.to_datetime(series, utc=True, format="ISO8601")
    with_points = different.str.replace(",", ".", regex=False)
    share = pd.to_numeric(with_points, errors="coerce").notna().mean()
    odd = different[pd.to_numeric(different, errors="coerce").isna()]
    if len(different) > FEW_VALUES and share > MOSTLY_NUMBERS and len(odd):
        raise ValueError(
            f'Column "{name}" mixes numbers with text such as {str(odd.iloc[0])[:40]!r}: if that '
            "is a missing value, read it as such (--na), else correct the file or drop the column."
        )
    return "category", series


def described(kind: Kind, series: Any) -> str:
    """Return what a column holds in words, with an example."""
    example = next(iter(series.dropna()), "nothing")
    words = {"number": "numbers", "date": "dates", "category": "text"}
    return f"{words[kind]} such as {str(example)[:40]!r}"


def numbers_of(kind: Kind, series: Any) -> Array:
    """Return numbers, or dates in days, with NaN for missing and infinite values."""
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
            f'Column "{column.name}" misses {counted(count, "value")}, but the model was fitted '
            "without filling in missing values."
        )
    return np.where(gaps, column.fill, values)[:, None], [Note(MEDIAN, column.name, count)]


def _one_hot(column: Column, series: Any) -> tuple[Array, list[Note]]:
    gaps = np.asarray(series.isna())
    words = (None if gap else str(value) for value, gap in zip(series, gaps, strict=True))
    places = {level: i for i, level in enumerate(column.levels)}
    found = np.array([places.get(word, -1) for word in words], dtype=np.intp)
    notes = []
    if None in places and gaps.any():
        notes.append(Note(OWN_CATEGORY, column.name, int(gaps.sum())))
    if (found < 0).any():
        notes.append(Note(UNKNOWN, column.name, int((found < 0).sum())))
    # A value that is not a level has the place -1 and gets zeros only.
    return (found[:, None] == np.arange(len(places))).astype(np.float64), notes
