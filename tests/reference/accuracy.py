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
FLOWS = {"accelerated-flow": "friction", "heavy-ball-flow": "damping", "iterated-ridge": "times"}
FLOWS |= {"butterworth": "order"}
# methods in which rounding errors do not add up over time
STEADY = {"ridge", "gradient-flow", "critical-flow", "iterated-ridge"}
STEADY |= {"butterworth", "gradient-descent", "conjugate-gradient", "spectral-cutoff"}
UNDERFLOW = 1e-290
LONG = 10.0  # phase, or number of iterations, beyond which errors are given per unit of it
LITTLE_FRICTION = 0.002  # with less, 1 - g nearly vanishes after every oscillation
LITTLE_DAMPING = 1 / 32  # of γt: likewise


@dataclass(frozen=True)
class Point:
    """One row of a table: a method, its arguments, and the exact values."""

    method: str
    parameters: dict
    s: float
    t: float
    shrinkage: mp.mpf
    gain: mp.mpf

    @property
    def length(self) -> float:
        """The phase t√s of a flow that oscillates, or the number of iterations: errors add up."""
        if self.method in STEADY:
            return 0.0
        flow = self.method in st.METHODS or self.method == "high-resolution-flow"
        return self.t * math.sqrt(self.s) if flow else self.t

    @property
    def envelope(self) -> float:
        """The size of the oscillations of g: near its zeros no relative error means anything."""
        if self.method == "accelerated-flow":
            r = self.parameters["friction"]
            constant = gamma((r + 1) / 2) * 2 ** ((r - 1) / 2) * np.sqrt(2 / np.pi)
            return float(min(1.0, max(1.0, constant) * max(1.0, self.length) ** (-r / 2)))
        damped = self.parameters.get("damping", 0.0) * self.t
        return (1 + damped) * math.exp(-damped) if 0 < damped < self.length else 1.0

    @property
    def gain_size(self) -> mp.mpf:
        """The number that errors of the gain are compared with: mostly the gain itself.

        With hardly any friction or damping 1 - g nearly vanishes after every oscillation. Its
        digits there depend on the rounding of the phase t√s, which no user asks for, so the error
        of 1 - g is then compared with one.
        """
        little = self.parameters.get("friction", 1.0) < LITTLE_FRICTION
        little |= 0 < self.parameters.get("damping", 0.0) * self.t < LITTLE_DAMPING
        return max(self.gain, 1 / mp.mpf(self.s)) if little and self.length > 1 else self.gain

    def computed(self) -> tuple[float, float]:
        """Return shrinkage and gain as the library computes them."""
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
        """Return the errors of shrinkage and gain, relative to the envelope and ``gain_size``."""
        g, gain = self.computed()
        of_shrinkage = abs(g - self.shrinkage) / self.envelope if self.envelope > UNDERFLOW else 0.0
        of_gain = abs(gain - self.gain) / self.gain_size if self.gain > UNDERFLOW else 0.0
        return float(of_shrinkage), float(of_gain)


def points() -> Iterator[Point]:
    """Yield both tables."""
    for name in ("filters.csv", "iterations.csv"):
        with (HERE / name).open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                # the tables have an older name of accelerated flow
                method = "accelerated-flow" if row["method"] == "nesterov-flow" else row["method"]
                if "parameter" in row:
                    parameters = {FLOWS[method]: float(row["parameter"])} if method in FLOWS else {}
                else:
                    parameters = json.loads(row["parameters"])
                if parameters.get("friction", 3.0) < 0.001:
                    continue  # friction begins there
                right = mp.mpf(row["shrinkage"]), mp.mpf(row["gain"])
                yield Point(method, parameters, float(row["s"]), float(row["t"]), *right)


class Worst(NamedTuple):
    """The worst errors of one method: up to LONG as they are, beyond it divided by the length."""

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
    """Return a number rounded up to one digit; zero is a dash."""
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
    """Return the table that the page has."""
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
