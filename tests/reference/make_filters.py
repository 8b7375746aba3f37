"""Write filters.csv: shrinkage and gain of every flow to 50 digits, from the formulas by mpmath.

Run ``python tests/reference/make_filters.py`` after changing this file.
"""

from __future__ import annotations

import csv
from pathlib import Path

import mpmath as mp
import numpy as np

DIGITS = 50
FRICTIONS = [1e-9, 1e-4, 0.002, 0.01, 0.049, 0.051]  # hardly any: g returns to 1 again and again
FRICTIONS += [0.1, 0.5, 1, 1.37, 2, 2.5, 3, 4, 5, 6.2, 7.5, 9, 13.7, 21, 33.3, 50]
# damping over the square root of the eigenvalue: far below, below, near, at and above critical
DAMPINGS = [1e-100, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.5]
DAMPINGS += [1 - 1e-9, 1, 1 + 1e-15, 1 + 1e-9, 1.01, 2, 10, 1e4, 1e100]
TIMES = [1, 2, 3, 7, 40]
DEGREES = [1, 2, 3, 4, 9, 40]
ROWS = 80


def guarded(*sizes: mp.mpf) -> int:
    """Return a precision that keeps DIGITS after cancellation between quantities of these sizes."""
    return DIGITS + 20 + int(2.5 * max(abs(mp.log10(size)) for size in sizes))


def ridge(_, s, t):
    return 1 / (1 + t * s)


def gradient_flow(_, s, t):
    return mp.exp(-t * s)


def accelerated_flow(friction, s, t):
    u, nu = t * mp.sqrt(s), (friction - 1) / 2
    return mp.gamma(nu + 1) * (2 / u) ** nu * mp.besselj(nu, u)


def heavy_ball_flow(damping, s, t):
    square = s - damping**2
    if square == 0:
        return mp.exp(-damping * t) * (1 + damping * t)
    omega = mp.sqrt(square)
    value = mp.exp(-damping * t) * (mp.cos(omega * t) + damping * mp.sin(omega * t) / omega)
    return mp.re(value)


def critical_flow(_, s, t):
    u = t * mp.sqrt(s)
    return (1 + u) * mp.exp(-u)


def iterated_ridge(times, s, t):
    return (1 + t * s / times) ** -times


def butterworth(degree, s, t):
    return 1 / (1 + (t * s) ** degree)


def points(rng, *, limit=5.0):
    """Draw (s, t): anywhere in range, and often at phases u where something happens."""
    for i in range(ROWS):
        s = 10 ** rng.uniform(-300, 300) if i % 2 else 10 ** rng.uniform(-4, 4)
        u = 10 ** rng.uniform(-4, limit if i % 3 else 2)
        if i % 5 == 0 and u > 1:  # where a path without friction returns to its beginning
            u = 2 * np.pi * np.ceil(u / (2 * np.pi)) + rng.choice([-1, 1]) * 10 ** rng.uniform(
                -12, 0
            )
        t = u / np.sqrt(s) if i % 4 else 10 ** rng.uniform(-150, 150)
        if t <= 1e150:
            yield float(s), float(t)


def rows():
    rng = np.random.default_rng(1)
    for s, t in points(rng):
        yield "ridge", 0.0, s, t, ridge
    for s, t in points(rng):
        yield "gradient-flow", 0.0, s, (t * t if t < 1e70 else t), gradient_flow
    for friction in FRICTIONS:
        for s, t in points(rng):
            yield "nesterov-flow", float(friction), s, t, accelerated_flow
    for relative in DAMPINGS:
        for s, t in points(rng):
            damping = float(relative * np.sqrt(s))
            if 1e-150 < damping < 1e150 and damping * t < 1e6:
                yield "heavy-ball-flow", damping, s, t, heavy_ball_flow
    yield from monotone_rows(rng)


def monotone_rows(rng):
    for s, t in points(rng):
        yield "critical-flow", 0.0, s, t, critical_flow
    for times in TIMES:
        for s, t in points(rng):
            yield "iterated-ridge", float(times), s, (t * t if t < 1e70 else t), iterated_ridge
    for degree in DEGREES:
        for s, t in points(rng):
            yield "butterworth", float(degree), s, (t * t if t < 1e70 else t), butterworth


def main() -> None:
    with Path(__file__).with_name("filters.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["method", "parameter", "s", "t", "shrinkage", "gain"])
        for name, parameter, s, t, formula in rows():
            a, b, c = mp.mpf(parameter), mp.mpf(s), mp.mpf(t)
            sizes = [c * mp.sqrt(b), c * b if name != "nesterov-flow" else b / b, (a or 1) * c]
            # a steep edge cancels to so high a power
            sizes += [(c * b) ** a] if name == "butterworth" else []
            with mp.workdps(guarded(*sizes)):
                g = formula(a, b, c)
                gain = (1 - g) / b
            with mp.workdps(DIGITS):
                table.writerow(
                    [name, repr(parameter), repr(s), repr(t), mp.nstr(+g, 25), mp.nstr(+gain, 25)]
                )


if __name__ == "__main__":
    main()
