"""Time and judge classifiers, probabilities and intervals against scikit-learn's.

    python -m benchmarks.classification [--quick] [--threads 1]

- rocket: MiniRocket features, 9996 columns in single precision, against RidgeClassifierCV with its
  ten penalties. The transform is that of ``aeon`` where it is installed; otherwise random
  convolutions and their shares of positive values stand in for it, and the line says so.
- embeddings: 50 000 rows, 768 columns, ten classes, against RidgeClassifierCV.
- intervals: the jackknife+ of 1000 new rows, in units of the time of the fit.
- probabilities: log loss on the bundled data sets, against CalibratedClassifierCV with five folds.

Every figure is the best of a few runs; peak memory is that of arrays during a fit, by tracemalloc.
Lines that miss the goal say "MISSED".
"""

from __future__ import annotations

import argparse
import tracemalloc
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stoptime as st
from benchmarks.machine import pinned, processor, versions

ALPHAS = np.logspace(-3, 3, 10)  # those of ROCKET
KERNELS = 9996  # columns of MiniRocket
LENGTH = 150  # of the time series
CLASSES = 8


def timed(work: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """Return the least time in seconds, and the last result."""
    best = np.inf
    for _ in range(runs):
        begin = perf_counter()
        found = work()
        best = min(best, perf_counter() - begin)
    return best, found


def peak(work: Callable[[], Any]) -> float:
    """Return the largest memory of arrays during some work, in MB."""
    tracemalloc.start()
    work()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found / 2**20


def told(name: str, text: str, holds: bool) -> None:
    """Print one line of the report."""
    print(f"{name:>14}: {text}{'' if holds else '  MISSED'}", flush=True)


def series(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy time series with a frequency and a shape for each class."""
    y = rng.integers(CLASSES, size=n)
    time = np.arange(LENGTH) / LENGTH
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    clean = np.sin(2 * np.pi * (3 + y % 4)[:, None] * time + phase)
    bent = np.sign(clean) * np.abs(clean) ** np.where(y < 4, 1.0, 0.6)[:, None]
    return bent + 1.2 * rng.standard_normal((n, LENGTH)), y


def features(X: np.ndarray, columns: int) -> tuple[np.ndarray, str]:
    """Return MiniRocket features, or features like them, and the name of the transform."""
    try:
        from aeon.transformations.collection.convolution_based import MiniRocket  # noqa: PLC0415
    except ImportError:
        return convolutions(X, columns), "features like MiniRocket's"
    found = MiniRocket(columns, random_state=0).fit_transform(X[:, None].astype(np.float32))
    return np.asarray(found, np.float32), "MiniRocket of aeon"


def convolutions(X: np.ndarray, columns: int) -> np.ndarray:
    """Return shares of positive values of convolutions with random kernels of two weights."""
    rng = np.random.default_rng(0)
    spectrum = np.fft.rfft(X)
    out = np.empty((len(X), columns), np.float32)
    for column in range(columns):
        if column % 12 == 0:  # twelve thresholds for every kernel
            kernel = np.zeros(LENGTH)
            spacing = rng.choice([1, 2, 4, 8, 16])
            kernel[spacing * np.arange(9)] = np.where(np.arange(9) < 3, 2.0, -1.0)[
                rng.permutation(9)
            ]
            image = np.fft.irfft(spectrum * np.fft.rfft(kernel), LENGTH)
        bias = np.quantile(image[rng.integers(len(X))], rng.uniform())
        out[:, column] = (image > bias).mean(axis=1)
    return out


def rocket(sizes: tuple[int, ...], columns: int, runs: int) -> None:
    """Compare with RidgeClassifierCV and with the bare product and its eigenvalues."""
    rng = np.random.default_rng(1)
    raw, labels = series(max(sizes) + 1000, rng)
    every, source = features(raw, columns)
    scaler = StandardScaler().fit(every[1000:])
    new = scaler.transform(every[:1000])
    print(f"rocket: {source}, {columns} columns")
    for n in sizes:
        X, y = scaler.transform(every[1000 : 1000 + n]), labels[1000 : 1000 + n]
        ours, model = timed(lambda X=X, y=y: st.StoppedClassifierCV().fit(X, y), runs)
        theirs, peer = timed(lambda X=X, y=y: RidgeClassifierCV(ALPHAS).fit(X, y), runs)
        bare, _ = timed(lambda X=X: np.linalg.eigh(X @ X.T), runs)
        memory = [peak(lambda X=X, y=y, one=one: one.fit(X, y)) for one in (model, peer)]
        right = model.score(new, labels[:1000]), peer.score(new, labels[:1000])
        text = (
            f"{ours:.2f} s, RidgeClassifierCV {theirs:.2f} s, product and eigh {bare:.2f} s; "
            f"accuracy {right[0]:.4f} and {right[1]:.4f}; {memory[0]:.0f} and {memory[1]:.0f} MB"
        )
        holds = ours <= min(theirs, 1.4 * bare) and right[0] >= right[1] and memory[0] < memory[1]
        told(f"{n} rows", text, holds)


def embeddings(n: int, p: int, runs: int) -> None:
    """Compare with RidgeClassifierCV on many rows."""
    rng = np.random.default_rng(2)
    scales = np.arange(1, p + 1) ** -0.5
    y = rng.integers(10, size=n)
    means = 0.3 * rng.standard_normal((10, p)) * scales
    X = (means[y] + scales * rng.standard_normal((n, p))).astype(np.float32)
    ours, model = timed(lambda: st.StoppedClassifierCV().fit(X, y), runs)
    theirs, peer = timed(lambda: RidgeClassifierCV(ALPHAS).fit(X, y), 1)
    text = (
        f"{ours:.2f} s, RidgeClassifierCV {theirs:.2f} s, {theirs / ours:.1f} times; "
        f"accuracy in the sample {model.score(X, y):.4f} and {peer.score(X, y):.4f}"
    )
    told(f"{n} x {p}", text, theirs >= 10 * ours)


def intervals(n: int, p: int, new: int, runs: int) -> None:
    """Compare the time of jackknife+ intervals with that of the fit."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, p))
    y = X @ rng.standard_normal(p) / np.sqrt(p) + rng.standard_normal(n)
    rows = rng.standard_normal((new, p))
    fit, _ = timed(lambda: st.StoppedRegressorCV().fit(X, y), runs)

    def both() -> np.ndarray:
        return st.StoppedRegressorCV().fit(X, y).predict_interval(rows)

    together, _ = timed(both, runs)
    ratio = (together - fit) / fit
    text = f"fit {fit:.2f} s, intervals of {new} rows {together - fit:.2f} s, {ratio:.1f} fits"
    told(f"{n} x {p}", text, ratio <= 3)


def probabilities(splits: int, runs: int) -> None:
    """Compare log loss and time with CalibratedClassifierCV on the bundled data sets."""
    losses = []
    times = []
    for name in ("iris", "wine", "breast_cancer", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        found = []
        for seed in range(splits):
            parts = train_test_split(X, y, train_size=0.5, random_state=seed, stratify=y)
            calibrated = CalibratedClassifierCV(RidgeClassifier(), cv=5)
            for one in (st.StoppedClassifierCV(), calibrated):
                model = make_pipeline(StandardScaler(), one)
                spent, _ = timed(lambda m=model, p=parts: m.fit(p[0], p[2]), runs)
                found.append((log_loss(parts[3], model.predict_proba(parts[1])), spent))
        own = np.array(found).reshape(splits, 2, 2).mean(axis=0)
        losses.append(own[:, 0])
        times.append(own[:, 1])
        told(name, f"log loss {own[0, 0]:.4f} and {own[1, 0]:.4f}", own[0, 0] <= own[1, 0])
    loss = np.mean(losses, axis=0)
    spent = np.sum(times, axis=0)
    text = f"log loss {loss[0]:.4f} and {loss[1]:.4f}; {spent[1] / spent[0]:.1f} times as fast"
    told("mean", text, loss[0] <= loss[1] and spent[1] >= 5 * spent[0])


def main(quick: bool, threads: int) -> None:
    """Print the report."""
    runs = 1 if quick else 3
    print(processor(), f"{threads} threads", versions(), sep="\n")
    with pinned(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", st.StopWarning)
        rocket((200,) if quick else (300, 1000, 2000), 996 if quick else KERNELS, runs)
        print("embeddings")
        embeddings(3000 if quick else 50_000, 96 if quick else 768, runs)
        print("intervals")
        intervals(300 if quick else 2000, 30 if quick else 200, 100 if quick else 1000, runs)
        print("probabilities")
        probabilities(2 if quick else 10, runs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure classifiers, probabilities, intervals.")
    parser.add_argument("--quick", action="store_true", help="small data, one run each")
    parser.add_argument("--threads", type=int, default=1, help="of linear algebra")
    given = parser.parse_args()
    main(given.quick, given.threads)
