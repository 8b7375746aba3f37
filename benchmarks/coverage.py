"""Measure how often 90 % prediction intervals contain a new response.

    python -m benchmarks.coverage [--runs 150] [--processes 1]

Every run draws training rows, chooses the stop by leave-one-out, and counts in how many of 200 new
rows each kind of interval contains the response. The standard error is that of the mean over runs.
Nested intervals, which choose the stop anew without each row, take n refits: they are computed for
some of the runs only, and their coverage is that of the jackknife+ in all runs plus the mean
difference in these. The results are written to benchmarks/results/coverage.json, and the range over
the kinds of noise is the table of docs/left_out.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from joblib import Parallel, delayed

import stoptime as st
from benchmarks.harness import load, save

CONFIDENCE = 0.9
NESTED_RUNS = {60: 80, 150: 20, 300: 8}  # by the number of rows: their time grows like its cube
ASPECTS = (0.1, 0.5, 0.95)
NEW_ROWS = 200
KINDS = ("jackknife", "jackknife+", "nested")
CORRELATION = 0.9  # of neighbouring columns, where columns are correlated
Judgement = tuple[float, float]
Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]

NOISES: dict[str, Draw] = {
    "Gaussian": lambda rng, X: rng.standard_normal(len(X)),
    "Student-t, 3 df": lambda rng, X: rng.standard_t(3, len(X)),
    "skewed": lambda rng, X: rng.exponential(size=len(X)) - 1,
    "heteroscedastic": lambda rng, X: rng.standard_normal(len(X)) * np.exp(X[:, 0] / 2),
    "correlated columns": lambda rng, X: rng.standard_normal(len(X)),
}


def rows(rng: np.random.Generator, noise: str, n: int, p: int) -> np.ndarray:
    """Return rows of Gaussian columns, which are an autoregression where they are correlated."""
    X = rng.standard_normal((n, p))
    if noise == "correlated columns":
        for column in range(1, p):
            own = np.sqrt(1 - CORRELATION**2) * X[:, column]
            X[:, column] = CORRELATION * X[:, column - 1] + own
    return X


def drawn(noise: str, n: int, p: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return training rows and response, and new ones."""
    rng = np.random.default_rng(seed)
    X = rows(rng, noise, n, p)
    beta = rng.standard_normal(p) * np.sqrt(2 / p)
    new = rows(rng, noise, NEW_ROWS, p)
    response = new @ beta + NOISES[noise](rng, new)
    return X, X @ beta + NOISES[noise](rng, X), new, response


def judged(ends: np.ndarray, response: np.ndarray) -> Judgement:
    """Return coverage and median width of intervals."""
    low, high = ends.T
    inside = (low <= response) & (response <= high)
    return float(inside.mean()), float(np.median(high - low))


def one_run(noise: str, n: int, p: int, seed: int, kinds: Sequence[str]) -> list[Judgement]:
    """Return coverage and median width of every kind, for one training set."""
    X, y, new, response = drawn(noise, n, p, seed)
    model = st.StoppedRegressorCV().fit(X, y)
    return [judged(model.predict_interval(new, CONFIDENCE, kind), response) for kind in kinds]


def one_cell(noise: str, n: int, p: int, runs: int, nested_runs: int) -> tuple[np.ndarray, ...]:
    """Return mean coverages of all kinds, their standard errors, and the nested ratio of widths."""
    first = [one_run(noise, n, p, seed, KINDS) for seed in range(nested_runs)]
    rest = [one_run(noise, n, p, seed, KINDS[:-1]) for seed in range(nested_runs, runs)]
    both = np.array(first)
    covered = 100 * np.concatenate(
        [both[:, :-1, 0], np.array(rest).reshape(-1, len(KINDS) - 1, 2)[..., 0]]
    )
    gain = 100 * (both[:, -1, 0] - both[:, -2, 0])
    mean = covered.mean(axis=0)
    variance = covered.var(axis=0, ddof=1) / runs
    # the nested intervals of a few training sets differ from the jackknife+ of the same ones by
    # much less than these differ among themselves, so that many runs of the latter help
    together = np.cov(covered[:nested_runs, -1], gain)[0, 1]
    nested = variance[-1] + gain.var(ddof=1) / nested_runs + 2 * together / runs
    ratio = np.median(both[:, -1, 1] / both[:, -2, 1])
    return np.append(mean, mean[-1] + gain.mean()), np.sqrt(np.append(variance, nested)), ratio


def table() -> str:
    """Return the range of the stored coverages over the kinds of noise, for every size."""
    cells = load("coverage.json")["cells"]
    lines = ["| rows | p/n | jackknife | jackknife+ | nested |", "|---|---|---|---|---|"]
    for n in NESTED_RUNS:
        for aspect in ASPECTS:
            found = [cell for cell in cells if (cell["n"], cell["aspect"]) == (n, aspect)]
            every = np.array([cell["coverage"] for cell in found]).T
            ranges = [f"{one.min():.1f} to {one.max():.1f}" for one in every]
            lines.append(f"| {n} | {aspect} | " + " | ".join(ranges) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure every cell, store them, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage")
    parser.add_argument("--runs", type=int, default=150, help="training sets for each line")
    parser.add_argument("--processes", type=int, default=1, help="lines measured at a time")
    given = parser.parse_args()
    # the slow ones first, so that all processes end at about the same time
    places = list(product(sorted(NESTED_RUNS, reverse=True), ASPECTS, NOISES))
    found = Parallel(n_jobs=given.processes)(
        delayed(one_cell)(noise, n, max(2, round(aspect * n)), given.runs, NESTED_RUNS[n])
        for n, aspect, noise in places
    )
    cells = [
        {"n": n, "aspect": aspect, "noise": noise, "coverage": mean.tolist()}
        | {"standard_error": error.tolist(), "ratio_of_widths": float(ratio)}
        for (n, aspect, noise), (mean, error, ratio) in zip(places, found, strict=True)
    ]
    save({"runs": given.runs, "kinds": KINDS, "cells": cells}, "coverage.json")
    print(table())


if __name__ == "__main__":
    main()
