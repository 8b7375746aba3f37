"""Numbers and results in words, the same on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from decimal import ROUND_CEILING, Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.tables.assessment import Assessment

SIGNIFICANT_DIGITS = 4
MOST_DECIMALS = 8  # longer numbers are written with an exponent
LARGEST_PLAIN = 1e7  # and so are larger ones


def number(value: float | None) -> str:
    """Return a number with four significant digits."""
    if value is None:
        return "-"
    return f"{value:.{SIGNIFICANT_DIGITS}g}".replace("inf", "∞")


def with_error(value: float, error: float | None, *, sign: bool = False) -> str:
    """Return a value and its standard error, with the digits that the error leaves meaningful."""
    plus = "+" if sign else ""
    short = f"{value:{plus}.{SIGNIFICANT_DIGITS}g}"
    if error is None or not error > 0 or not np.isfinite(error):
        return short
    # two digits of the error are meaningful, and the value gets the same decimals
    decimals = 1 - int(np.floor(np.log10(error)))
    if decimals > MOST_DECIMALS or max(abs(value), error) >= LARGEST_PLAIN:
        return f"{short} ± {error:.2g}"
    decimals = max(decimals, 0)
    value = round(value, decimals) + 0.0  # adding zero turns -0.0 into 0.0
    return f"{value:{plus}.{decimals}f} ± {error:.{decimals}f}"


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


def method_in_words(method: Method) -> str:
    """Return the name of a method and its parameters, such as "nesterov-flow (friction 3)"."""
    # the eigenvalues of spectral cut-off are data, and too many to show
    shown = [one.name for one in fields(method) if one.repr]
    values = ((name.replace("_", " "), getattr(method, name)) for name in shown)
    parts = [
        f"{name} {number(value) if isinstance(value, float) else value}"
        for name, value in values
        if value is not None
    ]
    return f"{method.name} ({', '.join(parts)})" if parts else method.name


def guarantee_in_words(found: Assessment) -> tuple[str, str]:
    """Return the guarantee, rounded up, and a sentence that says what it bounds."""
    if found.guarantee is None:
        return "none", "No bound is known for this method at this stop."
    where = "any spectrum" if found.universal else "any spectrum with eigenvalues in the same range"
    meaning = (
        "At a well-chosen stop, the Bayes risk is at most this multiple of the best ridge's, "
        f"on {where}."
    )
    if found.inflation is not None:
        meaning += f" On this one it is {found.inflation:.3f} ×, by estimate."
    return f"{rounded_up(found.guarantee)} ×", meaning


def rounded_up(value: float, decimals: int = 3) -> str:
    """Return an upper bound with a few decimals, rounded up so that the printed number is true."""
    if np.isinf(value):
        return "∞"
    # the decimal value is rounded, not its float: 1.25 stays 1.250
    exact = Decimal(repr(float(value)))
    return str(exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_CEILING))
