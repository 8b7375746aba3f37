"""How far shrinkage and gain are from the committed 50-digit tables: the table of docs/numerics.md.

Run ``python tests/reference/accuracy.py`` to write it anew.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import mpmath as mp
import numpy as np
from scipy.special import gamma

import stoptime as st
from stoptime.methods.conjugate_gradient import conjugate_gradients

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "numerics.md"
NOTHING = "–"
BEGIN, END = "<!-- accuracy: begin -->", "<!-- accuracy: end -->"
FLOWS = {"nesterov-flow": "friction", "heavy-ball-flow": "damping"}
STEADY = {
    "ridge",
    "gradient-flow",
    "gradient-descent",
    "conjugate-gradient",
}  # nothing adds up, or not here
UNDERFLOW = 1e-290
LONG = 10.0  # phase, or number of iterations, beyond which errors are told per unit of it


@dataclass(frozen=True)
class Point:
    """One row of a table: a method, where it is evaluated, and what is right."""

    method: str
    parameters: dict
    s: float
    t: float
    shrinkage: mp.mpf
    gain: mp.mpf

    @property
    def length(self) -> float:
        """The phase t√s of a flow that swings, or the number of iterations: over it rounding adds up."""
        if self.method in STEADY:
            return 0.0
        flow = self.method in st.METHODS or self.method == "high-resolution-flow"
        return self.t * math.sqrt(self.s) if flow else self.t

    @property
    def envelope(self) -> float:
        """How large the shrinkage may be there: near its zeros no relative error means anything."""
        if self.method == "nesterov-flow":
            r = self.parameters["friction"]
            constant = gamma((r + 1) / 2) * 2 ** ((r - 1) / 2) * np.sqrt(2 / np.pi)
            return float(min(1.0, max(1.0, constant) * max(1.0, self.length) ** (-r / 2)))
        damped = self.parameters.get("damping", 0.0) * self.t
        return (1 + damped) * math.exp(-damped) if 0 < damped < self.length else 1.0

    def computed(self) -> tuple[float, float]:
        """Return what the library says of shrinkage and gain."""
        if self.method == "conjugate-gradient":
            values, response = self.parameters["eigenvalues"], self.parameters["response"]
            here = values.index(self.s)
            gain = (
                conjugate_gradients(values, response, [self.t]).components[0, here] / response[here]
            )
            return float(1 - self.s * gain), float(gain)
        method = (st.METHODS | st.ITERATIONS)[self.method](**self.parameters)
        return float(method.shrinkage(self.s, self.t)), float(method.gain(self.s, self.t))

    def errors(self) -> tuple[float, float]:
        """Return the error of the shrinkage beside its envelope and that of the gain beside itself."""
        g, gain = self.computed()
        of_shrinkage = abs(g - self.shrinkage) / self.envelope if self.envelope > UNDERFLOW else 0.0
        of_gain = abs(gain / self.gain - 1) if self.gain > UNDERFLOW else 0.0
        return float(of_shrinkage), float(of_gain)


def points() -> Iterator[Point]:
    """Yield both tables."""
    for name in ("filters.csv", "iterations.csv"):
        with (HERE / name).open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                method = row["method"]
                if "parameter" in row:
                    parameters = {FLOWS[method]: float(row["parameter"])} if method in FLOWS else {}
                else:
                    parameters = json.loads(row["parameters"])
                right = mp.mpf(row["shrinkage"]), mp.mpf(row["gain"])
                yield Point(method, parameters, float(row["s"]), float(row["t"]), *right)


class Worst(NamedTuple):
    """The worst errors of one method: up to LONG as they are, beyond it over the length."""

    points: int
    shrinkage: float
    gain: float
    far_shrinkage: float
    far_gain: float


@cache
def measured() -> dict[str, Worst]:
    """Return the worst errors of every method over its points."""
    errors: dict[str, list[tuple[float, ...]]] = {}
    for point in points():
        near, (of_shrinkage, of_gain) = point.length <= LONG, point.errors()
        scale = 1.0 if near else point.length
        pair = of_shrinkage / scale, of_gain / scale
        errors.setdefault(point.method, []).append((*pair, 0.0, 0.0) if near else (0.0, 0.0, *pair))
    return {name: Worst(len(rows), *map(max, *rows)) for name, rows in errors.items()}


def rounded_up(value: float) -> str:
    """Return a number with one digit, never less than it is; nothing is a dash."""
    if not value:
        return NOTHING
    power = math.floor(math.log10(value))
    return f"{math.ceil(value / 10.0**power) * 10.0**power:.0e}"


def table() -> str:
    """Return the table of the page."""
    lines = [
        "| method | points | shrinkage | gain | shrinkage, far | gain, far |",
        "|---|---|---|---|---|---|",
    ]
    for name, worst in measured().items():
        lines.append(f"| {name} | {worst.points} | {' | '.join(map(rounded_up, worst[1:]))} |")
    return "\n".join(lines)


def printed(page: str) -> dict[str, Worst]:
    """Return what the page says."""
    rows = [line.strip("| ").split(" | ") for line in _parts(page)[1].strip().splitlines()[2:]]
    return {
        name: Worst(int(count), *(0.0 if told == NOTHING else float(told) for told in errors))
        for name, count, *errors in rows
    }


def _parts(page: str) -> tuple[str, str, str]:
    before, _, rest = page.partition(BEGIN)
    inside, _, after = rest.partition(END)
    return before, inside, after


def main() -> None:
    """Write the table into the page."""
    before, _, after = _parts(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
