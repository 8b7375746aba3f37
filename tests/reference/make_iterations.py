"""Write iterations.csv: shrinkage and gain to 50 digits of the methods with a step, by mpmath.

Iterations are run step by step as their papers print them, conjugate gradients on diagonal
problems; the high-resolution flow is its formula. Nothing is shared with the library. Run
``python tests/reference/make_iterations.py`` after changing this file.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import mpmath as mp
import numpy as np

DIGITS = 50
ROWS = 40
STOPS = [1, 2, 3, 4, 7, 10, 20, 33, 57, 100, 200, 1000]
Row = tuple[str, dict, float, int | float, Callable]


def in_one_direction(coefficients: Callable, step, s, last: int):
    """Return g and φ after ``last`` steps of an iteration on one direction with unit response.

    The shrinkage is run on its own, from one and without a source, so that it does not cancel.
    """
    values = []
    for start, source in ((mp.mpf(1), 0), (mp.mpf(0), 1)):
        old = b = start
        for k in range(1, last + 1):
            momentum, ahead, weight = coefficients(k)
            point = b + ahead * (b - old)
            b, old = b + momentum * (b - old) + weight * step * (source - s * point), b
        values.append(b)
    return values


def gradient_descent(s, k, *, step):
    rest = (1 - step * s) ** int(k)
    return rest, (1 - rest) / s


def nesterov(s, k, *, step, friction, momentum=None):
    def coefficients(j):
        eta = mp.mpf(j - 2) / (j - 2 + friction) if j > 1 else mp.mpf(0)
        eta = eta if momentum is None else momentum
        return eta, eta, 1

    return in_one_direction(coefficients, step, s, int(k))


def heavy_ball(s, k, *, step, momentum):
    return in_one_direction(lambda _: (momentum, 0, 1), step, s, int(k))


def nu_method(s, k, *, step, nu):
    """Engl, Hanke, Neubauer (1996), algorithm 6.13."""

    def coefficients(j):
        if j == 1:
            return 0, 0, (4 * nu + 2) / (4 * nu + 1)
        below = (j + 2 * nu - 1) * (2 * j + 4 * nu - 1)
        momentum = (j - 1) * (2 * j - 3) * (2 * j + 2 * nu - 1) / (below * (2 * j + 2 * nu - 3))
        return momentum, 0, 4 * (2 * j + 2 * nu - 1) * (j + nu - 1) / below

    return in_one_direction(coefficients, step, s, int(k))


def high_resolution_flow(s, t, *, step, strong_convexity):
    root = mp.sqrt(strong_convexity * step)
    a, velocity = (
        mp.sqrt(strong_convexity) + mp.sqrt(step) * s / 2,
        -2 * mp.sqrt(step) * s / (1 + root),
    )
    omega = mp.sqrt((1 + root) * s - a * a)
    wave = mp.sin(omega * t) / omega if omega else t
    g = mp.re(mp.exp(-a * t) * (mp.cos(omega * t) + (a + velocity) * wave))
    return g, (1 - g) / s


def conjugate_gradient(s, k, *, eigenvalues, response):
    """Hestenes, Stiefel (1952), on a diagonal matrix; what is learned in the direction of s."""
    here = eigenvalues.index(s)
    value = [mp.mpf(0)] * len(eigenvalues)
    residual = direction = response
    for _ in range(int(k)):
        power = mp.fsum(r * r for r in residual)
        image = [a * d for a, d in zip(eigenvalues, direction, strict=True)]
        rate = power / mp.fsum(d * i for d, i in zip(direction, image, strict=True))
        value = [v + rate * d for v, d in zip(value, direction, strict=True)]
        residual = [r - rate * i for r, i in zip(residual, image, strict=True)]
        ratio = mp.fsum(r * r for r in residual) / power
        direction = [r + ratio * d for r, d in zip(residual, direction, strict=True)]
    return residual[here] / response[here], value[here] / response[here]


def spectral_cutoff(s, k, eigenvalues):
    """Average over the orders of equal eigenvalues: the k first ones are learned."""
    places = [i for i, one in enumerate(sorted(eigenvalues, reverse=True)) if one == s]
    learned = mp.mpf(sum(place < k for place in places)) / len(places)
    return 1 - learned, learned / s


def drawn(rng: np.random.Generator, largest: float) -> Iterator[tuple[float, float, int]]:
    """Draw a step, an eigenvalue and an iteration, with εs from 1e-12 up to ``largest``."""
    for i in range(ROWS):
        x = largest if i % 10 == 0 else largest * 10 ** rng.uniform(-12 if i % 2 else -4, 0)
        step = 10 ** rng.uniform(-100, 100) if i % 3 == 0 else 10 ** rng.uniform(-2, 2)
        yield float(step), float(x / step), int(rng.choice(STOPS))


def rows() -> Iterator[Row]:
    rng = np.random.default_rng(2)
    for step, s, k in drawn(rng, 1.9):
        yield (
            "gradient-descent",
            {"step": step},
            s,
            k * int(10 ** rng.integers(0, 7)),
            gradient_descent,
        )
    for friction in (0.5, 2.3, 3.0, 5.0, 40.0):
        for step, s, k in drawn(rng, 1.3):
            yield "nesterov", {"step": step, "friction": friction}, s, k, nesterov
    for momentum in (0.0, 0.6, 0.97):
        for step, s, k in drawn(rng, 1.3):
            given = {"step": step, "friction": 3.0, "momentum": momentum}
            yield "nesterov", given, s, k, nesterov
    for momentum in (0.0, 0.5, 0.9, 0.999):
        for step, s, k in drawn(rng, 1.9 * (1 + momentum)):
            yield "heavy-ball", {"step": step, "momentum": momentum}, s, k, heavy_ball
    for nu in (0.4, 1.0, 3.0):
        for step, s, k in drawn(rng, 1.0):
            yield "nu-method", {"step": step, "nu": nu}, s, k, nu_method
    yield from oscillators(rng)
    yield from problems(rng)
    yield from spectra(rng)


def oscillators(rng: np.random.Generator) -> Iterator[Row]:
    """Yield points of the high-resolution flow: far below, near, at and above critical damping."""
    for relative in (1e-12, 1e-3, 0.1, 0.75, 1 - 1e-9, 1.0, 10.0):
        for i in range(ROWS):
            s = 10 ** rng.uniform(-100, 100) if i % 3 == 0 else 10 ** rng.uniform(-3, 3)
            x = 1.0 if i % 10 == 0 else 10 ** rng.uniform(-8, 1)
            given = {"step": float(x / s), "strong_convexity": float(relative * s)}
            yield (
                "high-resolution-flow",
                given,
                float(s),
                float(10 ** rng.uniform(-4, 3) / np.sqrt(s)),
                (high_resolution_flow),
            )


def problems(rng: np.random.Generator) -> Iterator[Row]:
    """Yield all iterates of conjugate gradients on small problems, in each of their directions."""
    for size, spread in ((2, 1.0), (5, 1.0), (6, 3.0), (8, 2.0)):
        eigenvalues = sorted(map(float, 10 ** rng.uniform(-spread, 0, size)))
        given = {
            "eigenvalues": eigenvalues,
            "response": list(map(float, rng.standard_normal(size))),
        }
        for k in range(1, size + 1):
            for s in eigenvalues:
                yield "conjugate-gradient", given, s, k, conjugate_gradient


def spectra(rng: np.random.Generator) -> Iterator[Row]:
    """Yield all numbers of components on small spectra, some with equal eigenvalues."""
    for size, unit, copies in ((1, 1.0, 1), (4, 1e100, 1), (3, 1e-100, 2), (3, 1.0, 3)):
        distinct = sorted(map(float, unit * 10 ** rng.uniform(-3, 0, size)))
        given = {"eigenvalues": [one for one in distinct for _ in range(copies)]}
        for k in range(size * copies + 2):
            for s in distinct:
                yield "spectral-cutoff", given, s, k, spectral_cutoff


def exactly(value):
    """Return a number, or a list of numbers, to all digits of its float."""
    return [mp.mpf(one) for one in value] if isinstance(value, list) else mp.mpf(value)


def main() -> None:
    with (
        mp.workdps(4 * DIGITS),
        Path(__file__).with_name("iterations.csv").open("w", newline="", encoding="utf-8") as file,
    ):
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["method", "parameters", "s", "t", "shrinkage", "gain"])
        for name, parameters, s, t, formula in rows():
            given = {key: exactly(value) for key, value in parameters.items()}
            g, gain = formula(mp.mpf(s), mp.mpf(t), **given)
            table.writerow(
                [name, json.dumps(parameters), repr(s), repr(t), mp.nstr(g, 25), mp.nstr(gain, 25)]
            )


if __name__ == "__main__":
    main()
