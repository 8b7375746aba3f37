"""The values of one column of a table: numbers, dates or text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Array
from stoptime.support.wording import did_you_mean
from stoptime.tables.reading import pandas

Kind = Literal["number", "date", "category"]

MOSTLY_NUMBERS = 0.5  # share of numbers in a text column above which it is probably a mistake
FEW_VALUES = 10  # a text column with at most so many different values may be a code of digits
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[-+]\d{2}:?\d{2})?")
COMPACT_DATE = "%Y%m%d"
YEARS_OF_COMPACT_DATES = 19000000, 21000000  # other whole numbers are not taken as dates
FORMATS_NOT_GUESSED = (
    "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d-%m-%y", "%d-%b-%y", "%d %b %y", "%b %Y", "%B %Y",
    "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %I:%M %p", "%d/%m/%Y %I:%M:%S %p",
)  # fmt: skip
WORDS_OF_DATES = {
    "%d": "day", "%m": "month", "%b": "month", "%B": "month", "%Y": "year", "%y": "year",
    "%A": "weekday", "%a": "weekday",
}  # fmt: skip
CODES = "EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|AUD|CAD|BRL|kr|zł"
CURRENCY = f"(?:[A-Z]{{0,3}}[$€£¥₹₽₩₺]|{CODES})"  # with letters before a sign in US$ and R$
NEGATIVE = re.compile(r"^\((.*\d.*)\)$|^(.*\d\D*)-$|^−")  # (5) and 5- of accounts, and U+2212
AROUND_NUMBER = re.compile(rf"^([-+]?)\s*{CURRENCY}?\s*([-+]?\d.*?)\s*(?:%|{CURRENCY})?$")
NUMBER_TYPES = {"boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"}
TEXT_TYPES = {"string", "categorical", "mixed", "mixed-integer"}
NESTED = (list, dict, set, tuple, np.ndarray)
COLUMNS_IN_ERROR = 12  # column names in an error message
NUMBER_AS_NAME = re.compile(r"[-+]?[\d.,]+([eE][-+]?\d+)?")
KINDS_IN_WORDS = {"number": "numbers", "date": "dates", "category": "text"}


@dataclass(frozen=True, eq=False)
class Values:
    """An array of numbers, or of days since 1970, with NaN for gaps; or a series of text."""

    kind: Kind
    values: Any
    form: str = ""  #: How text was read: decimal sign and unit of numbers, or format of dates.

    @property
    def gaps(self) -> NDArray[np.bool_]:
        """Which values are missing or infinite."""
        return np.asarray(pandas().isna(self.values))


def check_columns(names: Iterable[str], known: Sequence[Any]) -> None:
    """Raise a ValueError if there is no column of some name, with what may be the cause."""
    lacking = [name for name in names if name not in known]
    if not lacking:
        return
    told = listed(known)
    hint = did_you_mean(lacking[0], known) or "."
    if len(known) == 1 and lacking[0] in str(known[0]):
        told = f'The only column is {known[0]}: separate columns by a comma, ";", "|" or a tab.'
    elif len(lacking) > 1:
        others = ", ".join(f'"{name}"' for name in lacking[1:COLUMNS_IN_ERROR])
        hint = f", nor {others}{hint}"
    elif all(NUMBER_AS_NAME.fullmatch(str(name)) for name in known):
        told += " The first line must have the names of the columns."
    raise ValueError(f'There is no column "{lacking[0]}"{hint} {told}')


def listed(known: Sequence[Any]) -> str:
    """Return a sentence that names columns, but not hundreds of them."""
    more = f" and {len(known) - COLUMNS_IN_ERROR} more" if len(known) > COLUMNS_IN_ERROR else ""
    return f"The columns are {', '.join(map(str, known[:COLUMNS_IN_ERROR]))}{more}."


def numbers_in(frame: Any, name: str, role: str = "target") -> Array:
    """Return the target or the weights, with NaN for missing and infinite numbers."""
    found = values_of(frame[name], name, kind="number")
    if found.kind != "number":
        raise ValueError(
            f'The {role} "{name}" must be numbers, not {described(found.kind, frame[name])}: '
            "choose another column, or correct it."
        )
    return np.asarray(found.values)


def described(kind: Kind, series: Any, wanted: Kind = "number", form: str = "") -> str:
    """Return the kind of a column in words, with an example that is not wanted if possible."""
    texts = series.dropna().astype(str).str.strip()
    odd = texts
    if len(texts) and wanted == "date":
        dates = pandas().to_datetime(texts, format=form or "ISO8601", errors="coerce", utc=True)
        odd = texts[dates.isna()]
    elif len(texts):
        odd = texts[_numbers_in_text(texts, form)[0].isna()]
    example = next(iter(odd if len(odd) else texts), "nothing")
    return f"{KINDS_IN_WORDS[kind]} such as {example[:40]!r}"


def values_of(series: Any, name: str, form: str = "", kind: Kind | None = None) -> Values:
    """Return the values of a column.

    Text is read in the given form if all of it can be. Whole numbers such as 20240131 are dates,
    unless the given ``kind`` says that they are not.
    """
    if kind in {None, "date"}:
        series = _compact_dates(series)
    kind, series, form = _detected(series, name, form)
    if kind == "category":
        return Values(kind, series)
    if kind == "date":
        pd = pandas()
        moments = pd.to_datetime(series, utc=True).dt.tz_localize(None)
        series = (moments - pd.Timestamp(0)) / pd.Timedelta(days=1)
    values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    # An infinite number cannot be fitted, so it is treated as a missing one.
    return Values(kind, np.where(np.isfinite(values), values, np.nan), form)


def form_in_words(kind: Kind, form: str, series: Any) -> str:
    """Return how the text of a column was read, with an example."""
    example = f"{str(series.dropna().iloc[0]).strip()[:40]!r}"
    if kind == "number":
        percent = ", in percent and not divided by 100" if form.endswith("%") else ""
        return (
            f"text such as {example}, read as numbers with the decimal sign {form[:1]!r}{percent}"
        )
    form = re.sub("%[HIMSfp](.*%[HIMSfpz])*", "time", form)
    words = re.sub("%[a-zA-Z]", lambda match: f"{WORDS_OF_DATES.get(match[0], 'time')} ", form)
    words = re.sub(r" (?=\W|$)", "", words)
    return f"text such as {example}, read as dates ({words}) and counted in days since 1970"


def may_differ(kind: Kind, form: str, other: str) -> bool:
    """Tell whether the same text could mean another number or date in another form."""
    if kind == "date":
        # The form of dates of ISO 8601 is empty: they have one meaning.
        return bool(other) and other != form
    if (other[:1] or ".") != (form[:1] or "."):
        return True
    units = {form[1:], other[1:]}
    # A currency may be absent, but a percent sign may not.
    return len(units) > 1 and ("" not in units or "%" in units)


def _compact_dates(series: Any) -> Any:
    """Return text for whole numbers that are dates such as 20240131, and other values as given."""
    pd = pandas()
    if not pd.api.types.is_numeric_dtype(series) or pd.api.types.is_complex_dtype(series):
        return series
    known = series.dropna()
    first, last = YEARS_OF_COMPACT_DATES
    if not len(known) or known.min() < first or known.max() > last or (known % 1 != 0).any():
        return series
    texts = known.astype(np.int64).astype(str)
    dates = pd.to_datetime(texts, format=COMPACT_DATE, errors="coerce")
    return texts.reindex(series.index) if dates.notna().all() else series


def _detected(series: Any, name: str, form: str) -> tuple[Kind, Any, str]:
    """Return the kind of a column, its values in a type that can be converted, and their form."""
    pd = pandas()
    types = pd.api.types
    if types.is_numeric_dtype(series) and not types.is_complex_dtype(series):
        return "number", series, ""
    # The values of a column of Python objects have to be looked at.
    inferred = types.infer_dtype(series, skipna=True)
    if inferred in {"date", "datetime", "datetime64"}:
        return "date", series, ""
    if isinstance(series.dtype, pd.CategoricalDtype):
        return "category", series.astype(object), ""
    if inferred in NUMBER_TYPES:
        numbers = series.map(lambda value: np.nan if pd.isna(value) else float(value))
        return "number", numbers.astype(float), ""
    if inferred not in TEXT_TYPES or any(isinstance(value, NESTED) for value in series):
        raise ValueError(
            f'Column "{name}" holds {inferred} values, which cannot become numbers: drop it.'
        )
    texts = series.dropna().astype(str).str.strip()
    different = texts.drop_duplicates()
    for kind, read in READ_TEXT.items():
        values, found = read(different, form)
        if len(different) and values.notna().all():
            known = dict(zip(different, values, strict=True))
            return kind, texts.map(known).reindex(series.index), found
        # Numbers with a few words among them would become hundreds of categories without a warning.
        mostly = len(different) > FEW_VALUES and values.notna().mean() > MOSTLY_NUMBERS
        if kind == "number" and mostly:
            odd = different[values.isna()].iloc[0][:40]
            usual = different[values.notna()].iloc[0]
            raise ValueError(
                f'Column "{name}" mixes numbers such as {usual!r} with {odd!r}: write all numbers '
                f"in one unit, declare a missing value by --na {odd!r}, or drop the column."
            )
    return "category", series, ""


def _numbers_in_text(texts: Any, form: str) -> tuple[Any, str]:
    """Return numbers with currencies, percent signs or thousands separators; NaN for other text."""
    pd = pandas()
    bare = texts.str.replace(NEGATIVE, lambda match: f"-{match[1] or match[2] or ''}", regex=True)
    bare = bare.str.replace(AROUND_NUMBER, r"\1\2", regex=True)
    percent = texts.str.endswith("%")
    # A point before exactly three digits separates thousands in an amount, but not in a percentage.
    thousands = bare.str.contains(".", regex=False).any() and not percent.any()
    given = [form[0]] if form[:1] in {".", ","} else []
    signs = dict.fromkeys(given + ([",", "."] if thousands else [".", ","]))
    best = pd.Series(np.nan, texts.index), ""
    for sign in signs:
        others = " .,'’\u00a0\u202f".replace(sign, "")
        # One alternative for each separator: RE2, which some pandas use, has no back-references.
        grouped = (rf"\d{{1,3}}(?:{re.escape(one)}\d{{3}})+" for one in others)
        whole = "|".join([r"\d+", *grouped])
        fits = bare.str.fullmatch(rf"[-+]?(?:{whole})(?:[{sign}]\d*)?(?:[eE][-+]?\d+)?")
        plain = bare.where(fits).str.replace(f"[{others}]", "", regex=True)
        numbers = pd.to_numeric(plain.str.replace(sign, ".", regex=False))
        if numbers.notna().sum() > best[0].notna().sum():
            best = numbers, sign
    # Digits alone are a code: pandas would have read numbers.
    if texts.str.fullmatch(r"\d+").all():
        return pd.Series(np.nan, texts.index), ""
    # A column has one currency. It may be absent, but a percent sign may not.
    unit = texts.str.replace(r"[eE](?=[-+]?\d)|[^%\w$€£¥₹₽₩₺]|\d", "", regex=True)
    units = {*unit[unit != ""].mode()[:1], "%" if percent.any() else ""}
    return best[0].where(unit.isin(units)), best[1] + max(units)


def _dates_in_text(texts: Any, form: str) -> tuple[Any, str]:
    """Return dates if all texts have one format, and this format."""
    pd = pandas()
    if texts.str.fullmatch(ISO_DATE).all():
        return pd.to_datetime(texts, utc=True, format="ISO8601"), ""
    # The form may be that of numbers.
    formats = [form] if re.search("%[yY]", form) else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about days and months that could be swapped
        # Days come first with points, as in German; 3/4/2020 is the third of April if 13/4/2020 is.
        for day_first in (texts.iloc[:1].str.contains(".", regex=False).any(), True):
            formats += [pd.tseries.api.guess_datetime_format(texts.iloc[0], dayfirst=day_first)]
    for one in (*filter(None, formats), *FORMATS_NOT_GUESSED):
        dates = pd.to_datetime(texts, format=one, errors="coerce", utc=True)
        if dates.notna().all() and re.search("%[yY]", one) and re.search("%[mbB]", one):
            return dates, one
    return pd.Series(pd.NaT, texts.index), ""


READ_TEXT: dict[Kind, Callable[[Any, str], tuple[Any, str]]] = {
    "date": _dates_in_text,
    "number": _numbers_in_text,
}
