"""Numbers and names in words, the same on the terminal and in the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from difflib import get_close_matches
from typing import Any

import numpy as np

ROUNDED_TO_ZERO = 1e-12  # times the scale of the other numbers


def number(value: float | None, *, scale: float = 0.0, sign: bool = False) -> str:
    """Return a number with four significant digits; zero if it is rounding at this scale."""
    if value is None or np.isnan(value):
        return "-"
    if abs(value) <= ROUNDED_TO_ZERO * scale or value == 0:
        return "0"
    # ten digits show whole numbers such as prices without an exponent
    return f"{float(f'{value:.4g}'):{'+' if sign else ''}.10g}".replace("inf", "∞")


def with_error(value: float, error: float | None, *, sign: bool = False, scale: float = 0.0) -> str:
    """Return a value and its standard error, with the digits that the error leaves meaningful."""
    if error is None or not error > ROUNDED_TO_ZERO * scale or not np.isfinite(error):
        return number(value, sign=sign, scale=scale)
    # two digits of the error are meaningful, and the value gets the same decimals
    decimals = 1 - int(np.floor(np.log10(error)))
    rounded = round(value, decimals) + 0.0  # adding zero turns -0.0 into 0.0
    return f"{rounded:{'+' if sign else ''}.10g} ± {round(error, decimals):.10g}"


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


def method_in_words(method: Any, step: str = "step") -> str:
    """Return the name of a method and its parameters, such as "accelerated-flow (friction 3)".

    ``step`` is what its step is called.
    """
    given = method.get_params()
    if given.get("momentum") is not None:
        given.pop("friction", None)  # a constant momentum takes its place
    parts = []
    for name, value in given.items():
        if value is None or value is False:
            continue
        shown = number(value) if isinstance(value, float) else value
        if hasattr(value, "get_params"):  # an average, for one, has a method as a parameter
            shown = method_in_words(value, step)
        called = {"step": step, "method": ""}.get(name, name.replace("_", " "))
        parts.append(f"{called} {shown}".strip())
    return f"{method.name} ({', '.join(parts)})" if parts else method.name


def rounded_up(value: float, decimals: int = 3) -> str:
    """Return an upper bound with a few decimals, rounded up so that the printed number is true."""
    if np.isinf(value):
        return "∞"
    # the decimal value is rounded, not its float: 1.25 stays 1.250
    exact = Decimal(repr(float(value)))
    return str(exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_CEILING))
