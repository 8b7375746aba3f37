"""Numbers and results in words, the same on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stoptime.methods.base import Method

SIGNIFICANT_DIGITS = 4
PLAIN = 1e-4, 1e15  # numbers outside are written with a power of ten
ROUNDED_TO_ZERO = 1e-12  # times the scale of the other numbers
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, *, scale: float = 0.0, sign: bool = False) -> str:
    """Return a number with four significant digits; zero if it is rounding at this scale."""
    if value is None or np.isnan(value):
        return "-"
    if abs(value) <= ROUNDED_TO_ZERO * scale or value == 0:
        return "0"
    plus = "+" if sign else ""
    if np.isinf(value):
        return f"{value:{plus}}".replace("inf", "∞")
    # rounding first, because 9999.9 has one digit more after it
    value = float(f"{value:.{SIGNIFICANT_DIGITS - 1}e}")
    if not PLAIN[0] <= abs(value) < PLAIN[1]:
        mantissa, exponent = f"{value:{plus}.{SIGNIFICANT_DIGITS - 1}e}".split("e")
        return f"{_trimmed(mantissa)}×10{str(int(exponent)).translate(SUPERSCRIPT)}"
    return _trimmed(_fixed(value, SIGNIFICANT_DIGITS - 1 - _exponent(value), plus))


def with_error(value: float, error: float | None, *, sign: bool = False, scale: float = 0.0) -> str:
    """Return a value and its standard error, with the digits that the error leaves meaningful."""
    if error is None or not error > ROUNDED_TO_ZERO * scale or not np.isfinite(error):
        return number(value, sign=sign, scale=scale)
    if not PLAIN[0] ** 2 <= error < PLAIN[1]:
        return f"{number(value, sign=sign)} ± {number(error)}"
    # two digits of the error are meaningful, and the value gets the same decimals, but no more
    # than four digits
    decimals = 1 - _exponent(float(f"{error:.1e}"))
    most = SIGNIFICANT_DIGITS - 1 - _exponent(value) if value else decimals
    text = _fixed(value, min(decimals, most), "+" if sign else "")
    return f"{text} ± {_fixed(error, decimals)}"


def _exponent(value: float) -> int:
    return int(np.floor(np.log10(abs(value))))


def _fixed(value: float, decimals: int, plus: str = "") -> str:
    """Return a number rounded to decimals, which may be negative, with commas from 10,000 on."""
    value = round(value, decimals) + 0.0  # adding zero turns -0.0 into 0.0
    comma = "," if abs(value) >= 1e4 else ""
    return f"{value:{plus}{comma}.{max(decimals, 0)}f}"


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Return a table as text: the first column flush left, the others flush right."""
    rows = list(rows)
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [[row[0].ljust(first), *map(str.rjust, row[1:], widths)] for row in rows]
    return "\n".join(map("  ".join, lines))


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a hint such as ': did you mean "target"?', or "" if no known name is similar."""
    folded = {str(one).casefold(): str(one) for one in known}
    close = get_close_matches(str(name).casefold(), folded, n=1)
    return f': did you mean "{folded[close[0]]}"?' if close else ""


def did_you_mean_class(name: object, classes: Mapping[str, type]) -> str:
    """Return such a hint for a name in a registry, whose classes are known by their names too."""
    own = {kind.__name__.casefold(): known for known, kind in classes.items()}
    same = own.get(str(name).replace("-", "").replace("_", "").casefold())
    return f': did you mean "{same}"?' if same else did_you_mean(name, classes)


def method_in_words(method: Method) -> str:
    """Return the name of a method and its parameters, such as "nesterov-flow (friction 3)"."""
    parts = [
        f"{name.replace('_', ' ')} {number(value) if isinstance(value, float) else value}"
        for name, value in method.get_params().items()
        if value is not None
    ]
    return f"{method.name} ({', '.join(parts)})" if parts else method.name


def rounded_up(value: float, decimals: int = 3) -> str:
    """Return an upper bound with a few decimals, rounded up so that the printed number is true."""
    if np.isinf(value):
        return "∞"
    # the decimal value is rounded, not its float: 1.25 stays 1.250
    exact = Decimal(repr(float(value)))
    return str(exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_CEILING))
