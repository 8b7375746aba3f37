"""Classifiers, probabilities and intervals, compared with those of scikit-learn."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
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
from benchmarks.data import label
from benchmarks.harness import Case, Work, measure, peak_memory

GROUP = "classes"
TITLE = "Classes, probabilities and intervals"
HAS_AEON = importlib.util.find_spec("aeon") is not None
FEATURES = "MiniRocket of aeon" if HAS_AEON else "features like MiniRocket's"
ABOUT = (
    "`StoppedClassifierCV()`, which compares three methods and calibrates probabilities, is "
    "compared with `RidgeClassifierCV` and the ten penalties of ROCKET, on MiniRocket features in "
    "single precision and on rows like embeddings. MiniRocket is that of `aeon` where it is "
    "installed; otherwise random convolutions and their shares of positive values stand in for "
    "it. The bare limit of wide data is `X @ X.T` and `eigh` in single precision, although our "
    "products are in double precision. Intervals are compared with the fit that they need, and "
    "probabilities of four bundled data sets with `CalibratedClassifierCV` with five folds."
)
ALPHAS = np.logspace(-3, 3, 10)  # those of ROCKET
KERNELS = 9996  # columns of MiniRocket
LENGTH = 150  # of the time series
CLASSES = 8
TEST_ROWS = 1000
ROWS, QUICK_ROWS = (300, 1000, 2000), (200,)
EMBEDDED, QUICK_EMBEDDED = (50_000, 768), (3000, 96)
PREDICTED, QUICK_PREDICTED = (2000, 200), (300, 30)
BUNDLED = ("iris", "wine", "breast_cancer", "digits")
SPLITS = 5
WHY = {
    "rocket": "Products of single precision numbers are taken in double precision, which takes "
    "twice the time, and small data spend as long on the search as on eigh.",
    "embeddings": "XᵀX in double precision, its eigenvectors, and the product of all rows with "
    "them in single precision take two thirds of the time on one thread.",
    "intervals": "Probably the product of the left-out coefficients with the new rows.",
    "probabilities": "The data are so small that the time is spent on short calls in Python.",
}


def quietly(work: Callable[[], Any]) -> Callable[[], Any]:
    """Return the work without warnings that the best stop is the last one."""

    def done() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", st.StopWarning)
            return work()

    return done


def series(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy time series with a frequency and a shape for each class."""
    y = rng.integers(CLASSES, size=n)
    time = np.arange(LENGTH) / LENGTH
    phase = rng.uniform(0, 2 * np.pi, (n, 1))
    clean = np.sin(2 * np.pi * (3 + y % 4)[:, None] * time + phase)
    bent = np.sign(clean) * np.abs(clean) ** np.where(y < 4, 1.0, 0.6)[:, None]
    return bent + 1.2 * rng.standard_normal((n, LENGTH)), y


def features(X: np.ndarray, columns: int) -> np.ndarray:
    """Return MiniRocket features, or features like them."""
    if not HAS_AEON:
        return convolutions(X, columns)
    from aeon.transformations.collection.convolution_based import MiniRocket  # noqa: PLC0415

    found = MiniRocket(columns, random_state=0).fit_transform(X[:, None].astype(np.float32))
    return np.asarray(found, np.float32)


def convolutions(X: np.ndarray, columns: int) -> np.ndarray:
    """Return shares of positive values of convolutions with random kernels of two weights."""
    rng = np.random.default_rng(0)
    spectrum = np.fft.rfft(X)
    out = np.empty((len(X), columns), np.float32)
    for column in range(columns):
        if column % 12 == 0:  # twelve thresholds for every kernel
            kernel = np.zeros(LENGTH)
            spacing = rng.choice([1, 2, 4, 8, 16])
            weights = np.where(np.arange(9) < 3, 2.0, -1.0)
            kernel[spacing * np.arange(9)] = rng.permutation(weights)
            image = np.fft.irfft(spectrum * np.fft.rfft(kernel), LENGTH)
        bias = np.quantile(image[rng.integers(len(X))], rng.uniform())
        out[:, column] = (image > bias).mean(axis=1)
    return out


def time_series(n: int, columns: int) -> tuple[np.ndarray, ...]:
    """Return standardised features and labels of rows to fit, then of rows to test."""
    raw, y = series(n + TEST_ROWS, np.random.default_rng(1))
    X = features(raw, columns)
    X = StandardScaler().fit(X[:n]).transform(X)
    return X[:n], y[:n], X[n:], y[n:]


def rocket(n: int, columns: int) -> Work:
    """Compare time, accuracy and memory with those of RidgeClassifierCV."""
    X, y, X_test, y_test = time_series(n, columns)
    ours = quietly(lambda: st.StoppedClassifierCV().fit(X, y))
    peer = partial(RidgeClassifierCV(ALPHAS).fit, X, y)

    def measures(mine: Any, other: Any) -> tuple[dict[str, Any], ...]:
        right = float(mine.score(X_test, y_test)), float(other.score(X_test, y_test))
        memory = peak_memory(ours) / peak_memory(peer)
        return (
            measure("accuracy", right[0], right[1]),
            measure("accuracy of the peer", right[1]),
            measure("of its peak memory", memory, 1.0, "at most"),
        )

    return Work(ours, peer, measures=measures)


def rocket_limit(n: int, columns: int) -> Work:
    """Compare the time with that of the bare product and its eigenvectors."""
    X, y, *_ = time_series(n, columns)
    fit = quietly(lambda: st.StoppedClassifierCV().fit(X, y))
    return Work(fit, lambda: np.linalg.eigh(X @ X.T))


def embeddings(n: int, p: int) -> Work:
    """Compare with RidgeClassifierCV on many rows of ten classes."""
    rng = np.random.default_rng(2)
    scales = np.arange(1, p + 1) ** -0.5
    y = rng.integers(10, size=n)
    means = 0.3 * rng.standard_normal((10, p)) * scales
    X = (means[y] + scales * rng.standard_normal((n, p))).astype(np.float32)
    return Work(
        lambda: st.StoppedClassifierCV().fit(X, y), partial(RidgeClassifierCV(ALPHAS).fit, X, y)
    )


def intervals(n: int, p: int) -> Work:
    """Compare the jackknife+ of new rows with the fit, both from the start."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, p))
    y = X @ rng.standard_normal(p) / np.sqrt(p) + rng.standard_normal(n)
    new = rng.standard_normal((n // 2, p))
    both = quietly(lambda: st.StoppedRegressorCV().fit(X, y).predict_interval(new))
    return Work(both, quietly(lambda: st.StoppedRegressorCV().fit(X, y)))


def probabilities(splits: int) -> Work:
    """Compare all fits to halves of the bundled data sets, and the mean log loss on the others."""
    halves = []
    for name in BUNDLED:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        halves += [
            train_test_split(X, y, train_size=0.5, random_state=seed, stratify=y)
            for seed in range(splits)
        ]

    def fitted(model: Any) -> list[Any]:
        return [make_pipeline(StandardScaler(), model()).fit(one[0], one[2]) for one in halves]

    def losses(mine: list[Any], other: list[Any]) -> tuple[dict[str, Any], ...]:
        found = [mean_loss(models) for models in (mine, other)]
        first = measure("log loss", found[0], found[1], "at most")
        return first, measure("log loss of the peer", found[1])

    def mean_loss(models: list[Any]) -> float:
        pairs = zip(models, halves, strict=True)
        return float(np.mean([log_loss(h[3], model.predict_proba(h[1])) for model, h in pairs]))

    calibrated = partial(CalibratedClassifierCV, RidgeClassifier(), cv=5)
    return Work(
        quietly(partial(fitted, st.StoppedClassifierCV)),
        partial(fitted, calibrated),
        measures=losses,
    )


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    columns = 996 if quick else KERNELS
    peer = "RidgeClassifierCV"
    bare = "bare product and eigh"
    found = []
    for n in QUICK_ROWS if quick else ROWS:
        name = f"{FEATURES}, {label(n, columns)}"
        why = WHY["rocket"]
        found += [
            Case(GROUP, name, peer, partial(rocket, n, columns), why, rounds=3),
            Case(
                GROUP, name, bare, partial(rocket_limit, n, columns), why, 1.4, "at most", rounds=3
            ),
        ]
    embedded = QUICK_EMBEDDED if quick else EMBEDDED
    predicted = QUICK_PREDICTED if quick else PREDICTED
    name = f"embeddings, {label(*embedded)}, 10 classes"
    work = partial(embeddings, *embedded)
    found.append(Case(GROUP, name, peer, work, WHY["embeddings"], 1 if quick else 10, rounds=2))
    name = f"fit and intervals of {predicted[0] // 2} new rows, {label(*predicted)}"
    work = partial(intervals, *predicted)
    found.append(Case(GROUP, name, "the fit alone", work, WHY["intervals"], 4, "at most"))
    work = partial(probabilities, 1 if quick else SPLITS)
    name = "probabilities, four data sets"
    why = WHY["probabilities"]
    found.append(Case(GROUP, name, "CalibratedClassifierCV", work, why, 1 if quick else 5))
    return found
