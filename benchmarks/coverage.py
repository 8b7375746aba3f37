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
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import stoptime as st
from benchmarks.harness import command, load, table

PAGE = "left_out.md"
NESTED_RUNS = {60: 80, 150: 20, 300: 8}  # by the number of rows: their time grows like its cube
ASPECTS = (0.1, 0.5, 0.95)
NEW_ROWS = 200
KINDS = ("jackknife", "jackknife+", "nested")
CORRELATION = 0.9  # of neighbouring columns, where columns are correlated
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


def one_run(noise: str, n: int, p: int, seed: int, kinds: tuple[str, ...]) -> np.ndarray:
    """Return coverage and median width of every kind, for one training set."""
    rng = np.random.default_rng(seed)
    X = rows(rng, noise, n, p)
    beta = rng.standard_normal(p) * np.sqrt(2 / p)
    new = rows(rng, noise, NEW_ROWS, p)
    response = new @ beta + NOISES[noise](rng, new)
    model = st.StoppedRegressorCV().fit(X, X @ beta + NOISES[noise](rng, X))
    found = []
    for kind in kinds:
        low, high = model.predict_interval(new, 0.9, kind).T
        found.append([np.mean((low <= response) & (response <= high)), np.median(high - low)])
    return np.array(found)


def one_cell(noise: str, n: int, aspect: float, runs: int) -> dict[str, Any]:
    """Return mean coverages of all kinds, their standard errors, and the nested ratio of widths."""
    p = max(2, round(aspect * n))
    nested_runs = NESTED_RUNS[n]
    both = np.array([one_run(noise, n, p, seed, KINDS) for seed in range(nested_runs)])
    rest = [one_run(noise, n, p, seed, KINDS[:-1]) for seed in range(nested_runs, runs)]
    covered = 100 * np.concatenate([both[:, :-1], rest])[..., 0]
    gain = 100 * (both[:, -1, 0] - both[:, -2, 0])
    mean = covered.mean(axis=0)
    variance = covered.var(axis=0, ddof=1) / runs
    # the nested intervals of a few training sets differ from the jackknife+ of the same ones by
    # much less than these differ among themselves, so that many runs of the latter help
    together = np.cov(covered[:nested_runs, -1], gain)[0, 1]
    nested = variance[-1] + gain.var(ddof=1) / nested_runs + 2 * together / runs
    return {
        "n": n,
        "aspect": aspect,
        "noise": noise,
        "coverage": [*mean.tolist(), float(mean[-1] + gain.mean())],
        "standard_error": np.sqrt([*variance, nested]).tolist(),
        "ratio_of_widths": float(np.median(both[:, -1, 1] / both[:, -2, 1])),
    }


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Measure every cell."""
    # the slow ones first, so that all processes end at about the same time
    places = product(sorted(NESTED_RUNS, reverse=True), ASPECTS, NOISES)
    cells = Parallel(n_jobs=given.processes)(
        delayed(one_cell)(noise, n, aspect, given.runs) for n, aspect, noise in places
    )
    return {"runs": given.runs, "kinds": KINDS, "cells": cells}


def parts() -> dict[str, str]:
    """Return the range of the stored coverages over the kinds of noise, for every size."""
    cells = load("coverage.json")["cells"]
    lines = []
    for n, aspect in product(NESTED_RUNS, ASPECTS):
        found = [one for one in cells if (one["n"], one["aspect"]) == (n, aspect)]
        kinds = zip(*(one["coverage"] for one in found), strict=True)
        error = max(max(one["standard_error"]) for one in found)
        widths = [one["ratio_of_widths"] for one in found]
        wider = f"{min(widths):.2f} to {max(widths):.2f}"
        ranges = [f"{min(one):.1f} to {max(one):.1f}" for one in kinds]
        lines.append([n, aspect, *ranges, f"{error:.1f}", wider])
    head = ["rows", "p/n", *KINDS, "standard error, at most", "width of nested / jackknife+"]
    return {"coverage": table(head, lines)}


if __name__ == "__main__":
    command(__doc__, "coverage.json", measured, {PAGE: parts}, runs=150, processes=1)
