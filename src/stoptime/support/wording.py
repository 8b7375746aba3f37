"""Numbers and results in words, the same on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.tables.assessment import Assessment

__all__ = ["aligned", "guarantee_in_words", "method_in_words", "number", "rounded_up", "with_error"]

DIGITS = 4


def number(value: float | None) -> str:
    """Return a number as people write it.

    Examples
    --------
    >>> number(1234567.0), number(0.00012346), number(float("inf")), number(None)
    ('1.235e+06', '0.0001235', '∞', '-')
    """
    if value is None:
        return "-"
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{DIGITS}g}"


def with_error(value: float, error: float | None, *, sign: bool = False) -> str:
    """Return a value and its standard error, with as many digits as the error leaves meaningful.

    Examples
    --------
    >>> with_error(2999.87, 187.3), with_error(0.01234, 0.00056), with_error(3.14159, None)
    ('3000 ± 187', '0.01234 ± 0.00056', '3.142')
    """
    plus = "+" if sign else ""
    if error is None or not error > 0 or not np.isfinite(error):
        return f"{value:{plus}.{DIGITS}g}"
    decimals = 1 - int(np.floor(np.log10(error)))
    size = max(abs(value), error)
    if decimals > 8 or size >= 1e7:
        return f"{value:{plus}.{DIGITS}g} ± {error:.2g}"
    decimals = max(decimals, 0)
    value = round(value, decimals) + 0.0  # no minus before a zero
    return f"{value:{plus}.{decimals}f} ± {error:.{decimals}f}"


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Return a table as text: the first column flush left, the others flush right.

    Examples
    --------
    >>> print(aligned([("method", "stop"), ("ridge", "1"), ("flow", "100")]))
    method  stop
    ridge      1
    flow     100
    """
    rows = list(rows)
    first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join(
        "  ".join([row[0].ljust(first), *map(str.rjust, row[1:], widths)]) for row in rows
    )


def method_in_words(method: Method) -> str:
    """Return the name of a method and its parameters.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> method_in_words(AcceleratedFlow())
    'nesterov-flow (friction 3)'
    """
    values = ((f.name.replace("_", " "), getattr(method, f.name)) for f in fields(method))
    parts = [
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in values
        if value is not None
    ]
    return f"{method.name} ({', '.join(parts)})" if parts else method.name


def guarantee_in_words(found: Assessment) -> tuple[str, str]:
    """Return the guarantee as a number and what it says."""
    if found.guarantee is None:
        return "none", "nothing holds for this method at this stop"
    here = "" if found.inflation is None else f"; {found.inflation:.3f} × on this one, by estimate"
    where = "on any spectrum" if found.universal else "on any spectrum in this range"
    meaning = f"the Bayes risk of the best ridge at most, stopped well, {where}{here}"
    return f"{found.guarantee:.3f} ×", meaning


def rounded_up(value: float, decimals: int = 3) -> str:
    """Return an upper bound with a few decimals, rounded up so that what is printed is still true.

    Examples
    --------
    >>> rounded_up(1.59910940073), rounded_up(1.25), rounded_up(float("inf"))
    ('1.600', '1.250', '∞')
    """
    if np.isinf(value):
        return "∞"
    # the decimal value is rounded, not its float: 1.25 stays 1.250
    exact = Decimal(repr(float(value)))
    return str(exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_CEILING))
