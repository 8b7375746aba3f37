"""Write the numbers of the theory pages, which are computed from the package.

A number of a page is followed by a comment that says what it is, and a table comes after a comment
that says what its cells are:

.. code-block:: markdown

    The constant is at most 1.5992<!-- risk_inflation(AcceleratedFlow()) up 5 -->.

    <!-- table friction $r$ over r in 3, 5
    at most := risk_inflation(AcceleratedFlow(r)) up 5
    -->

    | friction $r$ | 3 | 5 |
    | --- | --- | --- |
    | at most | 1.5992 | 1.2581 |

``python tools/constants.py`` writes all numbers of the pages anew; some need the figures in
``docs/figures``. With ``--check`` nothing is written, and numbers that are off by more than one
unit of their last digit are told.

A quantity is written as ``EXPRESSION FORM DIGITS``. The expression may use the public names of
stoptime and of ``stoptime.bounds``, NumPy as ``np``, and the functions below. The digits are
significant digits, and the form says how they are rounded:

========== ==================================================================
up         the number, or the upper end of an enclosure, rounded up
down       the number, or the lower end of an enclosure, rounded down
to         rounded to the nearest; both ends of an enclosure must agree
enclosed   both ends of an enclosure, rounded outwards: [1.0785, 1.0786]
========== ==================================================================

>>> shown("risk_inflation(AcceleratedFlow()) up 5")
'1.5992'
>>> shown("risk_inflation(AcceleratedFlow()) enclosed 9")
'[1.59910940, 1.59910941]'
"""

import ast
import csv
import re
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import jn_zeros

import stoptime as st
from stoptime import bounds
from stoptime.paper.reproduction import paper_curves, polynomial_spectra

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "figures"
NUMBER = re.compile(r"(?P<shown>\[[^\]]*\]|-?[\d.]+)<!-- (?P<quantity>.+?) -->")
TABLE = re.compile(
    r"<!-- table (?P<heading>.+?) over (?P<loop>.+)\n(?P<lines>(?:.+\n)+?)-->\n\n"
    r"(?P<rows>(?:\|.*\n)*)"
)
QUANTITY = re.compile(r"(?P<expression>.+) (?P<form>up|down|to|enclosed) (?P<digits>\d+)")
LOOP = re.compile(r"(?P<names>\w+(?:, \w+)*) in (?P<values>.+)")


@cache
def shown(quantity: str) -> str:
    """Return a quantity in digits."""
    match = QUANTITY.fullmatch(quantity)
    if match is None:
        raise ValueError(f"Write EXPRESSION up|down|to|enclosed DIGITS; got {quantity!r}.")
    value = eval(match["expression"], names())  # noqa: S307, the pages are our own source
    if not isinstance(value, bounds.Enclosure):
        value = bounds.Enclosure(float(value), float(value), stop=np.nan)
    digits = int(match["digits"])
    if match["form"] == "to":
        return nearest(value, digits)
    lower = rounded(value.lower, digits, ROUND_FLOOR)
    upper = rounded(value.upper, digits, ROUND_CEILING)
    return {"up": upper, "down": lower, "enclosed": f"[{lower}, {upper}]"}[match["form"]]


def nearest(value: bounds.Enclosure, digits: int) -> str:
    """Return a number rounded to the nearest, if the enclosure leaves no doubt about its digits."""
    lower, upper = (rounded(end, digits, ROUND_HALF_EVEN) for end in (value.lower, value.upper))
    if lower != upper:
        raise ValueError(f"{value} does not determine {digits} digits.")
    return lower


def rounded(value: float, digits: int, rounding: str) -> str:
    """Return a number with significant digits; one that is exact with fewer keeps these."""
    return f"{Context(digits, rounding).create_decimal(Decimal(value)):f}"


def cells(loop: str, lines: list[str]) -> tuple[list[str], list[list[str]]]:
    """Return the heads of the columns, and each row: its label and the quantities of its cells.

    >>> cells("r in 3, None", ["inflation := f(r) up 5"])
    (['3', 'any'], [['inflation', 'f(3) up 5', 'f(None) up 5']])
    """
    match = LOOP.fullmatch(loop)
    if match is None:
        raise ValueError(f"Write NAME in VALUE, VALUE, ...; got {loop!r}.")
    variables = match["names"].split(", ")
    values = ast.literal_eval(f"[{match['values']}]")
    columns = [value if isinstance(value, tuple) else (value,) for value in values]
    heads = [", ".join("any" if one is None else str(one) for one in column) for column in columns]
    rows = []
    for line in lines:
        label, quantity = line.split(" := ")
        rows.append([label, *(substituted(quantity, variables, column) for column in columns)])
    return heads, rows


def substituted(quantity: str, variables: list[str], values: tuple[Any, ...]) -> str:
    """Return a quantity with values in place of the variables of a loop."""
    for variable, value in zip(variables, values, strict=True):
        quantity = re.sub(rf"\b{variable}\b(?!=)", repr(value), quantity)
    return quantity


def quantities_of(text: str) -> list[tuple[str, str]]:
    """Return every number of a page as it is printed, and the quantity that it is."""
    found = [(match["shown"], match["quantity"]) for match in NUMBER.finditer(text)]
    for match in TABLE.finditer(text):
        _, rows = cells(match["loop"], match["lines"].splitlines())
        printed = [line.strip("| ").split(" | ")[1:] for line in match["rows"].splitlines()[2:]]
        for row, numbers in zip(rows, printed, strict=True):
            found += zip(numbers, row[1:], strict=True)
    return found


def written(text: str) -> str:
    """Return a page with all its numbers computed."""

    def number(match: re.Match[str]) -> str:
        return f"{shown(match['quantity'])}<!-- {match['quantity']} -->"

    def table(match: re.Match[str]) -> str:
        heads, rows = cells(match["loop"], match["lines"].splitlines())
        lines = [[match["heading"], *heads], ["---"] * (1 + len(heads))]
        lines += [[row[0], *map(shown, row[1:])] for row in rows]
        comment = match[0].removesuffix(match["rows"])
        return comment + "".join(f"| {' | '.join(line)} |\n" for line in lines)

    return TABLE.sub(table, NUMBER.sub(number, text))


def agree(one: str, other: str) -> bool:
    """Whether two printed numbers, or pairs of them, differ by at most a unit of the last digit.

    >>> agree("1.5992", "1.5991"), agree("[1.07, 1.08]", "[1.07, 1.10]")
    (True, False)
    """
    pairs = list(zip(*(re.findall(r"-?[\d.]+", text) for text in (one, other)), strict=False))
    units = [Decimal(1).scaleb(Decimal(b).as_tuple().exponent) for _, b in pairs]
    distances = [abs(Decimal(a) - Decimal(b)) for a, b in pairs]
    return bool(pairs) and all(d <= unit for d, unit in zip(distances, units, strict=True))


@cache
def names() -> dict[str, Any]:
    """Return the names that an expression may use."""
    found = {name: getattr(st, name) for name in st.__all__}
    found |= {name: getattr(bounds, name) for name in bounds.__all__}
    own = (distance, drawn, jn_zeros, ratio_to_ridge, rise_after_minimum, worst_eigenvalue)
    return found | {one.__name__: one for one in own} | {"np": np}


def worst_eigenvalue(method: st.Method, low: float, high: float) -> float:
    """Return where between low and high the risk is largest relative to ridge, at the best stop.

    Eigenvalues are in units of the best penalty.
    """
    stop = bounds.risk_inflation(method).stop

    def excess(x: float) -> float:
        return -x * float(method.shrinkage(x, stop) - method.gain(x, stop)) ** 2

    return float(minimize_scalar(excess, bounds=(low, high), method="bounded").x)


def drawn(name: str, column: str, **where: Any) -> np.ndarray:
    """Return numbers of a figure that ``stoptime reproduce`` has drawn, in the order of its rows.

    ``where`` picks the rows, and one row is a number:
    ``drawn("friction_tradeoff", "inflation", friction=3.0)``.
    """
    with (FIGURES / f"{name}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for key, wanted in where.items():
        rows = [row for row in rows if type(wanted)(row[key]) == wanted]
    if not rows:
        raise ValueError(f"The figure {name} has no row with {where}.")
    return np.squeeze([float(row[column]) for row in rows])


def distance(method: st.Method, calibration: str) -> bounds.Enclosure:
    """Return the certified squared distance from ridge at the stop of a calibration."""
    stop = st.calibrate(method, calibration).stop
    return bounds.parameter_error(method, calibration=stop**method.time_power)


def ratio_to_ridge(method: str | st.Method, a: float, b: float, noise: float) -> float:
    """Return the least prediction risk over that of ridge, for a signal that leans."""
    return st.inflation(
        method,
        eigenvalues=np.arange(1.0, 401) ** -a,
        signal=np.arange(1.0, 401) ** (-b / 2),
        noise=noise,
        n_samples=2000,
        target="prediction",
    ).ratio


def rise_after_minimum(nu: float) -> float:
    """Return how far the risk of accelerated flow rises above its final value in the figure."""
    total = paper_curves(polynomial_spectra()[f"ν = {nu:g}"])["accelerated-flow"].total
    return float(total[np.argmin(total) :].max() - total[-1])


def main(check: bool) -> int:
    """Write all pages, or tell what they have wrong; return how many numbers are wrong."""
    wrong = 0
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if check:
            for printed, quantity in quantities_of(text):
                if not agree(printed, shown(quantity)):
                    print(f"{path.name}: {printed} is {shown(quantity)}: {quantity}")
                    wrong += 1
        else:
            path.write_text(written(text), encoding="utf-8")
    return wrong


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]) > 0)
