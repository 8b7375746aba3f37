"""Data sets with classes: some that come with scikit-learn, and some that are generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn import datasets
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

TESTED = 5000  # rows of a generated test set


@dataclass(frozen=True)
class Problem:
    """Rows and labels, of which so many rows train; ``draw`` gives them for a seed."""

    name: str
    rows: int
    draw: Callable[[int], tuple[Any, Any]]
    times: int  # how often it is split or drawn


def quadratic(X: Any) -> Any:
    """Return the columns, their squares and their products."""
    return PolynomialFeatures(2, include_bias=False).fit_transform(
        StandardScaler().fit_transform(X)
    )


def patches(seed: int) -> tuple[Any, Any]:
    """Return squares of 8 by 8 pixels of two photographs; the label is the photograph."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for label, image in enumerate(datasets.load_sample_images().images):
        for _ in range(2500):
            i, j = (rng.integers(side - 8) for side in image.shape[:2])
            X.append(image[i : i + 8, j : j + 8].ravel() / 255)
            y.append(label)
    return np.array(X), np.array(y)


def logistic(
    n: int, p: int, q: int, size: float, decay: float, lean: float, seed: int
) -> tuple[Any, Any]:
    """Return labels drawn from softmax of logits of this size, for columns of falling variance.

    Coefficients fall like a power ``lean`` along the columns; without it they are isotropic.
    """
    rng = np.random.default_rng(seed)
    column = np.arange(1, p + 1)
    X = rng.standard_normal((n + TESTED, p)) * column**-decay
    logits = X @ (rng.standard_normal((p, q)) * column[:, None] ** -lean)
    chances = softmax(size * logits / logits.std(), axis=1)
    return X, (chances.cumsum(axis=1) > rng.uniform(size=(len(X), 1))).argmax(axis=1)


def mixture(n: int, p: int, q: int, size: float, decay: float, seed: int) -> tuple[Any, Any]:
    """Return rows around the means of their classes, with heavy tails, as embeddings have them."""
    rng = np.random.default_rng(seed)
    scale = np.arange(1, p + 1) ** -decay
    y = rng.integers(q, size=n + TESTED)
    means = size * rng.standard_normal((q, p)) * scale
    return means[y] + np.sqrt(scale) * rng.standard_t(5, (n + TESTED, p)), y


def words(n: int, p: int, q: int, seed: int) -> tuple[Any, Any]:
    """Return square roots of counts of words in texts on several topics."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(p, 0.3), q)
    y = rng.integers(q, size=n + TESTED)
    mixed = 0.25 * topics[y] + 0.75 * topics.mean(axis=0)
    return np.sqrt(rng.poisson(40 * mixed)), y


@cache
def activations(layer: int) -> tuple[Any, Any]:
    """Return the digits, and what a layer of a network has that tells even digits from odd ones."""
    X, y = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    trained, others = order[:900], order[900:]
    network = MLPClassifier((96, 96, 96), max_iter=60, alpha=1e-2, random_state=0)
    network.fit(X[trained] / 16, y[trained] % 2)
    found = X[others] / 16
    for weights, bias in zip(network.coefs_[:layer], network.intercepts_[:layer], strict=True):
        found = np.maximum(found @ weights + bias, 0)
    return found, y[others]


def problems() -> Iterator[Problem]:
    """Yield all problems, those that come with scikit-learn first."""
    iris = datasets.load_iris(return_X_y=True)
    wine = datasets.load_wine(return_X_y=True)
    cancer = datasets.load_breast_cancer(return_X_y=True)
    digits = datasets.load_digits(return_X_y=True)
    X, response = datasets.load_diabetes(return_X_y=True)
    above = (response > np.median(response)).astype(int)
    third = np.digitize(response, np.quantile(response, [1 / 3, 2 / 3]))
    bundled = {
        "iris": (*iris, 75, 20),
        "wine": (*wine, 89, 20),
        "breast cancer": (*cancer, 285, 20),
        "diabetes, above the median": (X, above, 221, 10),
        "diabetes, thirds": (X, third, 221, 10),
        "digits": (*digits, 900, 5),
        "digits, few rows": (*digits, 150, 10),
        "digits, even or odd": (digits[0], digits[1] % 2, 900, 5),
        "breast cancer, quadratic": (quadratic(cancer[0]), cancer[1], 285, 10),
        "wine, quadratic": (quadratic(wine[0]), wine[1], 89, 20),
        "diabetes, quadratic": (quadratic(X), above, 221, 10),
    }
    for name, (rows, labels, n, times) in bundled.items():
        yield Problem(name, n, lambda _, data=(rows, labels): data, times)
    for layer in (1, 3):
        yield Problem(f"activations, layer {layer}", 400, lambda _, k=layer: activations(k), 5)
    yield Problem("patches of two photographs", 2000, patches, 2)
    generated: dict[str, tuple[Any, tuple[Any, ...], int]] = {
        "isotropic, 2 classes": (logistic, (400, 40, 2, 1.5, 0.0, 0.0), 5),
        "isotropic, wide": (logistic, (200, 400, 2, 2.0, 0.0, 0.0), 5),
        "isotropic, 10 classes": (logistic, (1500, 60, 10, 1.5, 0.0, 0.0), 3),
        "falling variances": (logistic, (300, 150, 2, 2.0, 0.5, 0.0), 5),
        "leading directions": (logistic, (300, 200, 3, 2.0, 0.5, 1.0), 5),
        "few columns": (logistic, (2000, 20, 3, 1.0, 0.3, 0.0), 5),
        "weak signal": (logistic, (500, 50, 2, 0.3, 0.0, 0.0), 5),
        "imitated embeddings, 20 classes": (mixture, (2000, 384, 20, 0.5, 0.5), 2),
        "imitated embeddings, few rows": (mixture, (400, 384, 10, 0.8, 0.5), 5),
        "imitated embeddings, 100 classes": (mixture, (4000, 256, 100, 0.7, 0.4), 1),
        "nearly separable, 5 classes": (mixture, (1000, 100, 5, 0.5, 0.0), 5),
        "counts of words, 8 topics": (words, (600, 500, 8), 5),
    }
    for name, (kind, options, times) in generated.items():
        yield Problem(name, options[0], lambda seed, f=kind, o=options: f(*o, seed), times)


def large() -> Iterator[tuple[str, tuple[Any, Any, Any, Any]]]:
    """Yield 50 000 rows of 768 columns and 5000 new ones, with 10 classes, in both precisions."""
    n, p, q = 50_000, 768, 10
    for name, decay, size in (("standardised", 0.5, 0.35), ("falling variances", 1.0, 0.2)):
        rng = np.random.default_rng(0)
        scale = np.arange(1, p + 1) ** -decay
        y = rng.integers(q, size=n + TESTED)
        means = size * rng.standard_normal((q, p)) * scale
        X = (means[y] + np.sqrt(scale) * rng.standard_normal((len(y), p))).astype(np.float32)
        if name == "standardised":
            X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
        for precision, dtype in (("single", np.float32), ("double", np.float64)):
            rows = X.astype(dtype)
            yield f"{name}, {precision} precision", (rows[:n], y[:n], rows[n:], y[n:])
