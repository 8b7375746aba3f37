"""Measure how often 90 % prediction intervals contain a new response.

    python -m benchmarks.coverage [--runs 150]

Every run draws training rows, chooses the stop by leave-one-out, and counts in how many of 200 new
rows the jackknife and the jackknife+ contain the response. The standard error is that of the mean
over runs. The two kinds of interval use the same fits, so that their difference is known better
than either.
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


def one_run(noise: str, n: int, p: int, seed: int) -> list[tuple[float, float]]:
    """Return coverage and median width of every kind, for one training set."""
    rng = np.random.default_rng(seed)
    X = rows(rng, noise, n, p)
    beta = rng.standard_normal(p) * np.sqrt(2 / p)
    new = rows(rng, noise, NEW_ROWS, p)
    response = new @ beta + NOISES[noise](rng, new)
    model = st.StoppedRegressorCV().fit(X, X @ beta + NOISES[noise](rng, X))
    found = []
    for kind in KINDS:
        low, high = model.predict_interval(new, CONFIDENCE, kind).T
        found.append((np.mean((low <= response) & (response <= high)), np.median(high - low)))
    return found


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
    main(parser.parse_args().runs)
