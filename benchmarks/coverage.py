"""Measure how often 90 % prediction intervals contain a new response.

    python -m benchmarks.coverage [--runs 150]
    python -m benchmarks.coverage --rechosen --runs 60

Every run draws training rows, chooses the stop by leave-one-out, and counts in how many of 200 new
rows the jackknife and the jackknife+ contain the response. The standard error is that of the mean
over runs. The two kinds of interval use the same fits, so that their difference is known better
than either. With ``--rechosen`` the jackknife+ of few rows and many columns is compared with one
whose stop is chosen anew, by a refit, for every row that is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import stoptime as st

CONFIDENCE = 0.9
SIZES = (60, 150, 300)
ASPECTS = (0.1, 0.5, 0.95)
NEW_ROWS = 200
KINDS = ("jackknife", "jackknife+")
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


def drawn(noise: str, n: int, p: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return training rows and response, and new ones."""
    rng = np.random.default_rng(seed)
    X = rows(rng, noise, n, p)
    beta = rng.standard_normal(p) * np.sqrt(2 / p)
    new = rows(rng, noise, NEW_ROWS, p)
    response = new @ beta + NOISES[noise](rng, new)
    return X, X @ beta + NOISES[noise](rng, X), new, response


def judged(ends: np.ndarray, response: np.ndarray) -> tuple[float, float]:
    """Return coverage and median width of intervals."""
    low, high = ends.T
    inside = (low <= response) & (response <= high)
    return float(inside.mean()), float(np.median(high - low))


def one_run(noise: str, n: int, p: int, seed: int) -> list[tuple[float, float]]:
    """Return coverage and median width of every kind, for one training set."""
    X, y, new, response = drawn(noise, n, p, seed)
    model = st.StoppedRegressorCV().fit(X, y)
    return [judged(model.predict_interval(new, CONFIDENCE, kind), response) for kind in KINDS]


def rechosen_run(n: int, p: int, seed: int) -> list[tuple[float, float]]:
    """Return the same for the jackknife+ with one stop, and with a stop for every left-out row."""
    X, y, new, response = drawn("Gaussian", n, p, seed)
    model = st.StoppedRegressorCV().fit(X, y)
    low = []
    high = []
    for row in range(n):
        kept = np.arange(n) != row
        fit = st.StoppedRegressorCV().fit(X[kept], y[kept])
        size = abs(y[row] - fit.predict(X[[row]])[0])
        low.append(fit.predict(new) - size)
        high.append(fit.predict(new) + size)
    place = min(int(np.ceil(CONFIDENCE * (n + 1))), n)
    ends = np.stack([np.sort(low, axis=0)[n - place], np.sort(high, axis=0)[place - 1]], axis=1)
    return [judged(model.predict_interval(new, CONFIDENCE), response), judged(ends, response)]


def rechosen(runs: int, n: int = 60, p: int = 57) -> None:
    """Print how much the choice of the stop costs in coverage."""
    found = np.array([rechosen_run(n, p, seed) for seed in range(runs)])
    mean = 100 * found[..., 0].mean(axis=0)
    error = 100 * found[..., 0].std(axis=0, ddof=1) / np.sqrt(runs)
    print(f"{n} rows, {p} columns, Gaussian, {runs} runs")
    print(f"one stop: {mean[0]:.1f} ± {error[0]:.1f} %")
    print(f"stop chosen anew for each left-out row: {mean[1]:.1f} ± {error[1]:.1f} %")
    print(f"median ratio of widths: {np.median(found[:, 1, 1] / found[:, 0, 1]):.2f}")


def main(runs: int = 150) -> None:
    """Print the table."""
    print(f"coverage of {CONFIDENCE:.0%} intervals in %, ± its standard error; {runs} runs each")
    print("| noise | n | p/n | jackknife | jackknife+ | ratio of widths |")
    print("|---|---|---|---|---|---|")
    everything = []
    for noise in NOISES:
        for n in SIZES:
            for aspect in ASPECTS:
                p = max(2, round(aspect * n))
                found = np.array([one_run(noise, n, p, seed) for seed in range(runs)])
                covered = 100 * found[..., 0]
                mean = covered.mean(axis=0)
                error = covered.std(axis=0, ddof=1) / np.sqrt(runs)
                ratio = np.median(found[:, 1, 1] / found[:, 0, 1])
                cells = " | ".join(f"{m:.1f} ± {e:.1f}" for m, e in zip(mean, error, strict=True))
                print(f"| {noise} | {n} | {aspect} | {cells} | {ratio:.2f} |", flush=True)
                everything.append(mean)
    for kind, values in zip(KINDS, np.transpose(everything), strict=True):
        worst = values[np.argmax(np.abs(values - 100 * CONFIDENCE))]
        print(f"{kind}: mean {values.mean():.1f}, farthest from nominal {worst:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure the coverage of prediction intervals.")
    parser.add_argument("--runs", type=int, default=150, help="training sets for each line")
    parser.add_argument("--rechosen", action="store_true", help="compare with stops chosen anew")
    given = parser.parse_args()
    (rechosen if given.rechosen else main)(given.runs)
