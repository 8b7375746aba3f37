"""What a column holds: numbers in any notation, dates in any format, or words.

Text is read by Python's own regular expressions, one different value at a time: the string types of
pandas have engines of their own, which differ between its versions.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

Kind = Literal["number", "date", "text"]

# with letters before a sign in US$ and R$
CURRENCY = (
    "(?:[A-Z]{0,3}[$€£¥₹₽₩₺]|EUR|USD|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|PLN|CZK|AUD|CAD|BRL|kr|zł)"
)
# (5) and 5- are negative in accounts, but 5,- is a price without cents; U+2212 is the minus of
# typesetters
AMOUNT = re.compile(
    rf"(?P<open>\()?\s*(?P<before>[-+−]?)\s*(?P<currency>{CURRENCY})?\s*(?P<after>[-+−]?)"
    r"(?P<digits>\d(?:[\d., '’\u00a0\u202f]*\d)?[.,]?|[.,]\d+)(?P<power>[eE][-+]?\d+)?"
    r"[\s\u00a0\u202f]*(?P<unit>[^\d\s().,'’−-][^\d\s()]{0,11}[23]?)??(?P<end>-)?\s*(?P<close>\))?"
)
# 0,500 is not grouped; in India 12,34,567 is by hundreds, except for the last three digits
GROUPED = re.compile(
    r"[1-9]\d{0,2}([ .,'’\u00a0\u202f])\d{3}(?:\1\d{3})*|[1-9]\d?(?:,\d{2})+,\d{3}"
)
MULTIPLES = {"K": 1e3, "k": 1e3, "M": 1e6, "Mio": 1e6, "B": 1e9, "bn": 1e9}


@dataclass(frozen=True)
class Form:
    """How the values of a column are written, so that new rows are read in the same way."""

    kind: Kind
    decimal: str = ""  #: The decimal sign of numbers in text that is not plain.
    unit: str = ""  #: Their unit, such as "€", "%" or "kg"; "h" for times such as 10:30.
    formats: tuple[str, ...] = ()  #: Of dates in text, as :func:`time.strftime` has them.

    def in_words(self) -> str:
        """Return how text was read."""
        if self.kind == "date":
            return f"read as dates, {' or '.join(self.formats)}, and counted in days since 1970"
        if self.unit == "h":
            return "read as times, in hours"
        unit = f" and the unit {self.unit!r}" if self.unit else ""
        if self.unit in MULTIPLES:
            unit = ", K for a thousand, M for a million and B for a billion"
        percent = ", not divided by 100" if self.unit == "%" else ""
        return f"read as numbers with the decimal sign {self.decimal!r}{unit}{percent}"


class MixedColumnError(ValueError):
    """Most values of a column are numbers, and some are not."""


def pandas() -> Any:
    """Return the module pandas, or raise an ImportError that says what to install."""
    if find_spec("pandas") is not None:
        # a part of pandas that is missing says so itself
        return import_module("pandas")
    raise ModuleNotFoundError('Tables need pandas: pip install "stoptime[cli]".')


def read(series: Any, like: Form | None = None, *, decimal: str = "") -> tuple[Form, Any]:
    """Return the form of a column, and its values: floats with NaN for gaps, or words with None.

    Dates are counted in days since 1970. Text is read in the form ``like`` if all of it can be.
    ``decimal`` is the decimal sign of a column that could have either.
    """
    pd = pandas()
    kinds = pd.api.types
    categories = isinstance(series.dtype, pd.CategoricalDtype)
    if categories if like is None else like.kind == "text":
        return Form("text"), words(series)
    if categories:
        series = series.astype(object)
    if kinds.is_numeric_dtype(series) and not kinds.is_complex_dtype(series):
        values = _floats(series)
        known = values[np.isfinite(values)]
        # 20240131 may be a date; in a column with gaps it is a whole number all the same
        may_be_days = known.size and ((known > 19e6) & (known < 21e6)).all()
        if may_be_days if like is None else like.kind == "date":
            return _read_text(series.convert_dtypes(), like, decimal)
        return Form("number"), values
    # the values of a column of Python objects have to be looked at
    inferred = kinds.infer_dtype(series, skipna=True)
    if inferred in {"date", "datetime", "datetime64"}:
        return Form("date"), _days(pd.to_datetime(series, utc=True))
    if inferred in {"boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty"}:
        return Form("number"), _floats(series.map(float, na_action="ignore").astype(float))
    nested = (list, dict, set, tuple, np.ndarray)
    odd = inferred == "mixed" and any(isinstance(value, nested) for value in series)
    if odd or inferred not in {"string", "mixed", "mixed-integer", "time"}:
        raise ValueError(f"{inferred} values cannot become numbers: drop the column.")
    return _read_text(series, like, decimal)


def words(series: Any) -> Any:
    """Return the values of a column as text without blanks around it, with None for gaps."""
    places, texts = _different(series)
    return np.array([*texts, None], dtype=object)[places]


def _different(series: Any) -> tuple[Any, list[str | None]]:
    """Return the different texts of a column, and the place of every row among them.

    The place of a gap is -1, the end of a list with one more value. Blank text is a gap.
    """
    if series.dtype == object:
        # 1 and True are equal, but not as text
        series = series.map(str, na_action="ignore")
    places, values = pandas().factorize(series)
    # a list is much faster to walk than a column of Arrow
    return places, [str(value).strip() or None for value in np.asarray(values, object).tolist()]


def has_decimals(series: Any) -> bool:
    """Tell whether a column of text has a decimal point for sure, and no code or thousands."""
    texts = [one for one in _different(series)[1] if one is not None]
    # a point that cannot separate thousands is a decimal point
    sure = any("." in one and not GROUPED.fullmatch(one.lstrip("+-")) for one in texts)
    return sure and _plain(texts) is not None


def decimal_sign(series: Any) -> str:
    """Return "," or "." if the text of a column can be read with this decimal sign alone."""
    kinds = pandas().api.types
    if kinds.is_numeric_dtype(series):
        # decimals that pandas has read had a point
        return "." if kinds.is_float_dtype(series) and np.any(_floats(series) % 1 > 0) else ""
    # a thousand different values tell it as well as all
    texts = [one for one in dict.fromkeys(_different(series[:10_000])[1]) if one][:1000]
    point, comma = (len(_numbers(texts, sign)[0]) for sign in ".,")
    return "" if point == comma else "." if point > comma else ","


def _read_text(series: Any, like: Form | None, decimal: str) -> tuple[Form, Any]:
    places, texts = _different(series)
    different = [one for one in dict.fromkeys(texts) if one is not None]
    found = _read_different(different, like, decimal)
    if found is None and like is not None:
        # new rows may be written in another form than those of the fit
        found = _read_different(different, None, decimal)
    if found is None:
        return Form("text"), np.array([*texts, None], dtype=object)[places]
    form, numbers = found
    values = [np.nan if one is None else numbers[one] for one in texts]
    return form, _finite(np.array([*values, np.nan])[places])


Found = tuple[Form, dict[str, float]]


def _read_different(  # noqa: PLR0911 - one for each kind of text
    texts: list[str], like: Form | None, decimal: str
) -> Found | None:
    """Return the form and the number of every text, or None for words and codes."""
    joined = "\n".join(texts)
    # digits are a code where one has a leading zero, which numbers have not
    code = re.search(r"^0\d", joined, re.MULTILINE) and not re.search(r"[^\d\n]", joined)
    if not texts or (like is None and code):
        return None
    if like is not None and like.kind == "date":
        return _dates(texts, like.formats)
    comma = [] if like is None else [like.decimal]
    if _thousands(texts):
        comma.append(",")
    signs = list(dict.fromkeys(filter(None, [*comma, decimal, ".", ","])))
    plain = _plain(texts)
    # a point is a decimal point, unless this table has shown that it is not
    if plain is not None and (signs[0] == "." or not any("." in one for one in texts)):
        if like is None and all(re.fullmatch(r"(19|20)\d{6}", one) for one in texts):
            days = _dates(texts, ("%Y%m%d",))
            if days is not None and days[0].formats == ("%Y%m%d",):
                return days
        return (Form("number"), plain) if like is None or like.unit in {"", "%"} else None
    if all(one.lower() in {"true", "false"} for one in texts):
        return Form("number"), {one: float(one.lower() == "true") for one in texts}
    time = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?\s*([AaPp][Mm])?")
    times = {one: time.fullmatch(one) for one in texts}
    if all(times.values()):
        return Form("number", unit="h"), {one: _hours(match) for one, match in times.items()}
    dates = _dates(texts) if like is None else None
    return dates or _amounts(texts, signs, like)


def _amounts(texts: list[str], signs: list[str], like: Form | None) -> Found | None:
    """Return amounts of one unit; a mixture of numbers and words is an error."""
    some = {sign: _numbers(texts[:1000], sign) for sign in signs}
    unit = some["."][1]
    if like is None and re.fullmatch(CURRENCY, unit) and any("." in one for one in texts):
        # a point before three digits separates thousands of money: 1.234 € is more than 1 €
        signs = [",", "."]
    # the sign that reads most of some texts is tried first, and is right if it reads all
    signs = sorted(signs, key=lambda one: -len(some[one][0]))
    found = {}
    for sign in signs:
        values, unit = found[sign] = _numbers(texts, sign)
        if len(values) == len(texts):
            return Form("number", sign, unit), values
    sign = max(found, key=lambda one: len(found[one][0]))
    values = found[sign][0]
    # numbers with a few words among them, and money in several currencies, would become hundreds
    # of categories without a warning
    money = all((part := AMOUNT.fullmatch(one)) and part["currency"] for one in texts)
    if len(texts) > 10 and values and (2 * len(values) > len(texts) or money):
        odd = next(one for one in texts if one not in values)
        raise MixedColumnError(
            f"numbers such as {next(iter(values))!r} are mixed with {odd[:40]!r}. Write all "
            f"numbers in one unit, or take the odd value as missing: na=[{odd[:40]!r}]."
        )
    return None


def _plain(texts: list[str], sign: str = ".") -> dict[str, float] | None:
    """Return numbers that Python reads itself, but for the decimal sign."""
    joined = "\n".join(texts)
    # Python allows underscores, which are no part of a number here
    if "_" in joined or (sign == "," and "." in joined):
        return None
    plain = joined.replace(sign, ".").split("\n")
    try:
        return dict(zip(texts, map(float, plain), strict=True))
    except ValueError:
        return None


def _thousands(texts: list[str]) -> bool:
    """Tell whether points can only separate thousands, as in 980 and 1.250."""
    pointed = [one for one in texts if "." in one]
    others = [one for one in texts if "." not in one]
    if not pointed or not others:
        return False
    # decimals with a last zero have a fixed number of digits, so that no number is without them
    padded = any(one.endswith("0") for one in pointed)
    grouped = all(re.fullmatch(r"[-+]?[1-9]\d{0,2}\.\d{3}", one) for one in pointed)
    hundreds = all(re.fullmatch(r"[-+]?\d{1,3}", one) for one in others)
    return padded and grouped and hundreds and max(map(len, others)) >= 3


def _numbers(texts: list[str], sign: str) -> tuple[dict[str, float], str]:
    """Return the numbers of one unit, with this decimal sign, and the unit."""
    plain = _plain(texts, sign)
    if plain and np.isfinite([*plain.values()]).all():  # "nan" is a word among numbers
        return plain, ""
    found = {one: part for one in texts if (part := AMOUNT.fullmatch(one))}
    read_as = {one: (_value(part, sign), *_unit(part)) for one, part in found.items()}
    counts = Counter(unit for _, unit, _ in read_as.values() if unit)
    # a column has one unit, which may be absent, but a percent sign may not
    unit = "%" if "%" in counts else max(counts, key=lambda one: counts[one], default="")
    units = {unit} if unit == "%" else {unit, ""}
    values = {
        one: value * multiple
        for one, (value, own, multiple) in read_as.items()
        if value is not None and own in units
    }
    multiplied = any(multiple > 1 for _, _, multiple in read_as.values())
    return values, unit or ("K" if multiplied else "")


def _unit(part: re.Match[str]) -> tuple[str, float]:
    """Return the unit of an amount, and what K or M multiplies it by."""
    unit = part["unit"] or ""
    if unit in MULTIPLES:
        return part["currency"] or "", MULTIPLES[unit]
    return (part["currency"] or "") + unit, 1.0


def _value(part: re.Match[str], sign: str) -> float | None:
    whole, _, rest = part["digits"].partition(sign)
    match = GROUPED.fullmatch(whole)
    if match and match[1] != sign:
        whole = whole.replace(match[1] or ",", "")
    if (whole and not whole.isdigit()) or (rest and not rest.isdigit()):
        return None
    value = float(f"{whole}.{rest or 0}{part['power'] or ''}")
    without_cents = part["digits"][-1] in ".,"
    end = part["end"] and not without_cents
    minus = part["before"] in {"-", "−"} or part["after"] in {"-", "−"} or end
    if bool(part["open"]) != bool(part["close"]):
        return None
    return -value if minus or part["open"] else value


def _hours(match: Any) -> float:
    hours, minutes, seconds, half = match.groups()
    day = int(hours) % 12 + 12 * (half.lower() == "pm") if half else int(hours)
    return day + int(minutes) / 60 + float(seconds or 0) / 3600


def _dates(texts: list[str], given: tuple[str, ...] = ()) -> Found | None:
    """Return the formats and the days of text that are dates, or None."""
    pd = pandas()
    left = pd.Series(texts, index=texts, dtype=object)
    parts: list[Any] = []
    formats: list[str] = []
    # up to three formats in one column
    while len(left) and len(formats) < 3 and any(map(str.isdigit, left.iloc[0])):
        best, dates = "", left.iloc[:0]
        for one in _candidates(left.iloc[0], given):
            found = _parsed(left, one) if len(_parsed(left[:20], one)) else []
            if len(found) > len(dates):
                best, dates = one, found
            if len(dates) == len(left):
                break
        if not best:
            return None
        formats.append(best)
        parts.append(pd.Series(_days(dates), index=dates.index))
        left = left.drop(dates.index)
    # day/month and month/day in one column would be a guess for every value
    if not parts or len(left) or len({"".join(sorted(one)) for one in formats}) < len(formats):
        return None
    return Form("date", formats=tuple(formats)), pd.concat(parts).to_dict()


def _candidates(text: str, given: tuple[str, ...]) -> list[str]:
    """Return formats that a date may have, the likely ones first."""
    guess = pandas().tseries.api.guess_datetime_format
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about days and months that could be swapped
        # days come first with points, as in German; 3/4/2020 is the third of April if 13/4/2020
        # is in the column
        guessed = [guess(text, dayfirst=day_first) for day_first in ("." in text, True)]
    others = (
        "%d.%m.%y|%m/%d/%y|%d/%m/%y|%d-%m-%y|%d-%b-%y|%d %b %y|%b %Y|%B %Y|"
        "%m/%d/%Y %I:%M %p|%m/%d/%Y %I:%M:%S %p|%d/%m/%Y %I:%M %p|%d/%m/%Y %I:%M:%S %p"
    )
    # a date has a year and a month
    dates = [one for one in guessed if one and re.search("%[yY].*%[mbB]|%[mbB].*%[yY]", one)]
    return list(dict.fromkeys([*given, "ISO8601", *dates, *others.split("|")]))


def _parsed(texts: Any, form: str) -> Any:
    """Return the texts that are dates of this format."""
    if form == "ISO8601":
        iso = r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[-+]\d{2}:?\d{2})?"
        texts = texts[[re.fullmatch(iso, one) is not None for one in texts]]
    return pandas().to_datetime(texts, format=form, errors="coerce", utc=True).dropna()


def _days(moments: Any) -> Any:
    """Return moments as days since 1970."""
    pd = pandas()
    if moments.dt.tz is not None:
        moments = moments.dt.tz_convert(None)
    return ((moments - pd.Timestamp(0)) / pd.Timedelta(days=1)).to_numpy(np.float64)


def _floats(series: Any) -> Any:
    return _finite(np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan)))


def _finite(values: Any) -> Any:
    # an infinite number cannot be fitted, so it is treated as a missing one
    return np.where(np.isfinite(values), values, np.nan)
