"""The values of one column of a table: numbers, dates or text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stoptime.tables.reading import pandas

if TYPE_CHECKING:
    from stoptime.support.arrays import Array

Kind = Literal["number", "date", "category"]

MOSTLY_NUMBERS = 0.5  # share of numbers in a text column above which it is probably a mistake
FEW_VALUES = 10  # a text column with at most so many different values may be a code of digits
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[-+]\d{2}:?\d{2})?")
NUMBER_TYPES = {"boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"}
TEXT_TYPES = {"string", "categorical", "mixed", "mixed-integer"}
NESTED = (list, dict, set, tuple, np.ndarray)
KINDS_IN_WORDS = {"number": "numbers", "date": "dates", "category": "text"}


def numbers_in(frame: Any, name: str, role: str = "target") -> Array:
    """Return the target or the weights, with NaN for missing and infinite numbers."""
    kind, values = values_of(frame[name], name)
    if kind != "number":
        found = described(kind, frame[name])
        raise ValueError(f'The {role} "{name}" must be numbers, not {found}.')
    return np.asarray(values)


def gaps_in(frame: Any, name: str) -> Array:
    """Return which values of a column are missing or infinite."""
    return np.asarray(pandas().isna(values_of(frame[name], name)[1]))


def described(kind: Kind, series: Any) -> str:
    """Return the kind of a column in words, with an example."""
    example = next(iter(series.dropna()), "nothing")
    return f"{KINDS_IN_WORDS[kind]} such as {str(example)[:40]!r}"


def values_of(series: Any, name: str) -> tuple[Kind, Any]:
    """Return the values of a column: an array of numbers or days with NaN, or a series of text."""
    kind, series = _detected(series, name)
    if kind == "category":
        return kind, series
    if kind == "date":
        pd = pandas()
        moments = pd.to_datetime(series, utc=True).dt.tz_localize(None)
        series = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
    values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    # An infinite number cannot be fitted, so it is treated as a missing one.
    return kind, np.where(np.isfinite(values), values, np.nan)


def _detected(series: Any, name: str) -> tuple[Kind, Any]:
    """Return the kind of a column, and the column in a type that can be converted to it."""
    pd = pandas()
    types = pd.api.types
    if types.is_numeric_dtype(series) and not types.is_complex_dtype(series):
        return "number", series
    # The values of a column of Python objects have to be looked at.
    inferred = types.infer_dtype(series, skipna=True)
    if inferred in {"date", "datetime", "datetime64"}:
        return "date", series
    if isinstance(series.dtype, pd.CategoricalDtype):
        return "category", series.astype(object)
    if inferred in NUMBER_TYPES:
        numbers = series.map(lambda value: np.nan if pd.isna(value) else float(value))
        return "number", numbers.astype(float)
    if inferred not in TEXT_TYPES or any(isinstance(value, NESTED) for value in series):
        raise ValueError(
            f'Column "{name}" holds {inferred} values, which cannot become numbers: drop it.'
        )
    different = series.dropna().astype(str).str.strip().drop_duplicates()
    if len(different) and different.str.fullmatch(ISO_DATE).all():
        return "date", pd.to_datetime(series, utc=True, format="ISO8601")
    # Numbers with a few words among them would become hundreds of categories without a warning.
    with_points = different.str.replace(",", ".", regex=False)
    share = pd.to_numeric(with_points, errors="coerce").notna().mean()
    odd = different[pd.to_numeric(different, errors="coerce").isna()]
    if len(different) > FEW_VALUES and share > MOSTLY_NUMBERS and len(odd):
        raise ValueError(
            f'Column "{name}" mixes numbers with text such as {str(odd.iloc[0])[:40]!r}: if that '
            "is a missing value, declare it by --na; otherwise correct the file or drop the column."
        )
    return "category", series
