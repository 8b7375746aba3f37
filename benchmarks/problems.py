"""The data of the studies: tables in packages, kernels, inverse problems, and classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn import datasets
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

Arrays = tuple[np.ndarray, np.ndarray]
Load = Callable[[int], Arrays]


@dataclass(frozen=True)
class Problem:
    """A regression problem; ``load`` gets the number of the repetition as its seed."""

    name: str
    group: str
    load: Load
    steps: tuple[Any, ...] = ()  # fitted to the training rows of each outer fold
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    generated: bool = False  # whether every repetition draws new data


def prepared(problem: Problem, train: np.ndarray, test: np.ndarray) -> Arrays:
    """Return the columns, or the kernel matrices, of training and test rows."""
    steps = make_pipeline(*problem.steps, "passthrough")
    fitted = steps.fit_transform(train)
    other = steps.transform(test)
    if problem.kernel is None:
        return fitted, other
    return problem.kernel(fitted, fitted), problem.kernel(other, fitted)


# ---------------------------------------------------------------- tables


def bundled(name: str, target: str | None = None, **options: Any) -> Load:
    """Return a loader of a data set of scikit-learn, with one of its columns as the response."""

    def loaded(_: int) -> Arrays:
        load = getattr(datasets, f"load_{name}")
        if target is None:
            X, y = load(return_X_y=True, **options)
            return X, y.astype(float)
        data = load(as_frame=True, **options)
        columns = data.data.drop(columns=target, errors="ignore")
        response = data.data[target] if target in data.data else data.target[target]
        return columns.to_numpy(float), response.to_numpy(float)

    return loaded


def shipped(file: str, split: Callable[[pd.DataFrame], Arrays], **options: Any) -> Load:
    """Return a loader of a file that statsmodels ships."""

    def loaded(_: int) -> Arrays:
        path = resources.files("statsmodels").joinpath("datasets", file)
        with path.open(encoding="utf-8") as opened:
            X, y = split(pd.read_csv(opened, **options))
        return np.asarray(X, dtype=float), np.asarray(y, dtype=float)

    return loaded


def column(target: str, *dropped: str) -> Callable[[pd.DataFrame], Arrays]:
    """Return a split of a table into all other columns and one response."""
    return lambda table: (table.drop(columns=[target, *dropped]), table[target])


def schools(table: pd.DataFrame) -> Arrays:
    """Predict the share of pupils above the median."""
    counts = table[["MATHTOT", "PR50M"]]
    return table.drop(columns=counts.columns), counts["PR50M"] / counts["MATHTOT"]


def countries(table: pd.DataFrame) -> Arrays:
    """Predict the fertility of 2005 from all years to 1990, where all are known."""
    years = table[[str(year) for year in [*range(1960, 1991), 2005]]].dropna()
    return years.iloc[:, :-1], years["2005"]


def lags(table: pd.DataFrame) -> Arrays:
    """Predict the activity of a year from that of the 30 years before."""
    series = table["SUNACTIVITY"].to_numpy(float)
    windows = np.lib.stride_tricks.sliding_window_view(series, 31)
    return windows[:, :-1], windows[:, -1]


SCALED = (StandardScaler(),)
QUADRATIC = (*SCALED, PolynomialFeatures(2, include_bias=False), StandardScaler())
CUBIC = (*SCALED, PolynomialFeatures(3, include_bias=False), StandardScaler())
DIABETES = bundled("diabetes", scaled=False)
WINE = bundled("wine", "alcohol")
CANCER = bundled("breast_cancer")
DIGITS = bundled("digits")
IRIS = bundled("iris", "petal width (cm)")
ELECTION = shipped("anes96/anes96.csv", column("PID"), sep="\t", quotechar="'")

BUNDLED = (
    ("diabetes, raw", DIABETES, ()),
    ("diabetes", DIABETES, SCALED),
    ("diabetes, quadratic", DIABETES, QUADRATIC),
    ("diabetes, cubic", DIABETES, CUBIC),
    ("diabetes, splines", DIABETES, (*SCALED, SplineTransformer(8))),
    ("wine, raw", WINE, ()),
    ("wine", WINE, SCALED),
    ("wine, quadratic", WINE, QUADRATIC),
    ("breast cancer, raw", CANCER, ()),
    ("breast cancer", CANCER, SCALED),
    ("breast cancer, quadratic", CANCER, QUADRATIC),
    ("breast cancer, splines", CANCER, (*SCALED, SplineTransformer(6))),
    ("digits, raw", DIGITS, ()),
    ("digits", DIGITS, SCALED),
    ("iris", IRIS, SCALED),
    ("iris, cubic", IRIS, CUBIC),
    ("linnerud", bundled("linnerud", "Weight"), SCALED),
)

SHIPPED = (
    ("Longley", shipped("longley/longley.csv", column("TOTEMP", "Obs")), SCALED),
    ("state crime", shipped("statecrime/statecrime.csv", column("murder", "state")), SCALED),
    ("Scottish vote", shipped("scotland/scotvote.csv", column("YES", "COUNCILDIST")), SCALED),
    ("El Niño", shipped("elnino/elnino.csv", column("DEC", "YEAR")), SCALED),
    ("fertility", shipped("fertility/fertility.csv", countries), SCALED),
    ("Californian schools", shipped("star98/star98.csv", schools), SCALED),
    ("sunspots, 30 lags", shipped("sunspots/sunspots.csv", lags), SCALED),
    ("food expenditure, splines", shipped("engel/engel.csv", column("foodexp")),
     (*SCALED, SplineTransformer(8))),
    ("election, quadratic", ELECTION, QUADRATIC),
    ("affairs, quadratic", shipped("fair/fair.csv", column("affairs")), QUADRATIC),
)  # fmt: skip

# ---------------------------------------------------------------- kernels


def surface(seed: int, *, rough: bool) -> Arrays:
    """Return 300 noisy values of a smooth or of a piecewise constant function of the plane."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (300, 2))
    smooth = np.sin(np.pi * X[:, 0]) * np.cos(np.pi * X[:, 1] / 2)
    clean = np.sign(smooth) if rough else smooth
    return X, clean + 0.3 * np.std(clean) * rng.standard_normal(300)


def friedman(seed: int) -> Arrays:
    """Return Friedman's first function: smooth, and five of its ten columns do nothing."""
    return datasets.make_friedman1(n_samples=300, noise=1.0, random_state=seed)


def few_digits(seed: int) -> Arrays:
    """Return the first 500 digits."""
    X, y = DIGITS(seed)
    return X[:500], y[:500]


def matern(nu: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a Matérn kernel whose length scale is the root of the number of columns."""
    return lambda X, Y: Matern(length_scale=np.sqrt(X.shape[1]), nu=nu)(X, Y)


SMOOTH = partial(surface, rough=False)
ROUGH = partial(surface, rough=True)
KERNELS = (
    ("smooth surface, rbf", SMOOTH, rbf_kernel, True),
    ("smooth surface, Matérn 5/2", SMOOTH, matern(2.5), True),
    ("smooth surface, Laplacian", SMOOTH, laplacian_kernel, True),
    ("rough surface, rbf", ROUGH, rbf_kernel, True),
    ("rough surface, Laplacian", ROUGH, laplacian_kernel, True),
    ("Friedman 1, rbf", friedman, rbf_kernel, True),
    ("Friedman 1, Matérn 3/2", friedman, matern(1.5), True),
    ("diabetes, rbf", DIABETES, rbf_kernel, False),
    ("diabetes, Laplacian", DIABETES, laplacian_kernel, False),
    ("wine, rbf", WINE, rbf_kernel, False),
    ("breast cancer, Laplacian", CANCER, laplacian_kernel, False),
    ("500 digits, Matérn 3/2", few_digits, matern(1.5), False),
)

# ---------------------------------------------------------------- inverse problems

GRID = (np.arange(150) + 0.5) / 150
S, T = np.meshgrid(GRID, GRID, indexing="ij")
OPERATORS = {
    "blur": np.exp(-(((S - T) / 0.06) ** 2)) / 150,
    # the vertical force of masses at the depth 1/4
    "gravity": 0.25 / (0.25**2 + (S - T) ** 2) ** 1.5 / 150,
    # Green's function of the second derivative
    "second derivative": np.where(S < T, S * (T - 1), T * (S - 1)) / 150,
}
TRUTHS = {
    "smooth": np.sin(np.pi * GRID) + 0.5 * np.sin(2 * np.pi * GRID),
    "edges": np.where((GRID > 0.2) & (GRID < 0.45), 1.0, 0.0)
    + np.where((GRID > 0.6) & (GRID < 0.7), 2.0, 0.0),
}


def tomography(side: int = 12, rays: int = 200) -> np.ndarray:
    """Return approximate lengths of random rays in the pixels of a square image."""
    rng = np.random.default_rng(7)
    angles = rng.uniform(0, np.pi, rays)
    offsets = rng.uniform(-0.5, 0.5, rays)
    steps = np.linspace(-0.75, 0.75, 600)
    A = np.zeros((rays, side * side))
    for row, angle, offset in zip(A, angles, offsets, strict=True):
        x = 0.5 + offset * np.cos(angle) - steps * np.sin(angle)
        y = 0.5 + offset * np.sin(angle) + steps * np.cos(angle)
        inside = (x >= 0) & (x < 1) & (y >= 0) & (y < 1)
        pixels = (side * x[inside]).astype(int) * side + (side * y[inside]).astype(int)
        np.add.at(row, pixels, steps[1] - steps[0])
    return A


def phantom(side: int = 12) -> np.ndarray:
    """Return an image with a smooth hill and a block."""
    x = (np.arange(side) + 0.5) / side
    u, v = np.meshgrid(x, x, indexing="ij")
    hill = np.exp(-((u - 0.4) ** 2 + (v - 0.6) ** 2) / 0.05)
    block = (np.abs(u - 0.7) < 0.12) & (np.abs(v - 0.3) < 0.12)
    return (hill + block).ravel()


def with_noise(A: np.ndarray, truth: np.ndarray, seed: int) -> Arrays:
    """Return an operator and its measurements with one percent of noise."""
    clean = A @ truth
    rng = np.random.default_rng(seed)
    return A, clean + 0.01 * np.std(clean) * rng.standard_normal(len(clean))


def problems() -> Iterator[Problem]:
    """Yield all problems, group by group."""
    for name, load, steps in BUNDLED:
        yield Problem(name, "bundled", load, steps)
    for name, load, steps in SHIPPED:
        yield Problem(name, "shipped", load, steps)
    for name, load, kernel, generated in KERNELS:
        yield Problem(name, "kernel", load, SCALED, kernel, generated)
    for name, A in OPERATORS.items():
        for kind, truth in TRUTHS.items():
            load = partial(with_noise, A, truth)
            yield Problem(f"{name}, {kind}", "inverse", load, generated=True)
    load = partial(with_noise, tomography(), phantom())
    yield Problem("tomography", "inverse", load, generated=True)


# ---------------------------------------------------------------- classes

TESTED = 5000  # rows of a generated test set


@dataclass(frozen=True)
class Labelled:
    """Rows with classes, of which so many rows train; ``draw`` gives them for a seed."""

    name: str
    rows: int
    draw: Callable[[int], tuple[Any, Any]]
    times: int  # how often it is split or drawn


def quadratic(X: Any) -> Any:
    """Return the columns, their squares and their products."""
    return make_pipeline(*QUADRATIC[:2]).fit_transform(X)


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


def with_classes() -> Iterator[Labelled]:
    """Yield all problems with classes, those that come with scikit-learn first."""
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
        yield Labelled(name, n, lambda _, data=(rows, labels): data, times)
    for layer in (1, 3):
        yield Labelled(f"activations, layer {layer}", 400, lambda _, k=layer: activations(k), 5)
    yield Labelled("patches of two photographs", 2000, patches, 2)
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
        yield Labelled(name, options[0], lambda seed, f=kind, o=options: f(*o, seed), times)


def large() -> Iterator[tuple[str, tuple[Any, Any, Any, Any]]]:
    """Yield 50 000 rows of 768 columns in single precision, and 5000 new ones, with 10 classes."""
    n, p, q = 50_000, 768, 10
    for name, decay, size in (("standardised", 0.5, 0.35), ("falling variances", 1.0, 0.2)):
        rng = np.random.default_rng(0)
        scale = np.arange(1, p + 1) ** -decay
        y = rng.integers(q, size=n + TESTED)
        means = size * rng.standard_normal((q, p)) * scale
        X = (means[y] + np.sqrt(scale) * rng.standard_normal((len(y), p))).astype(np.float32)
        if name == "standardised":
            X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
        yield name, (X[:n], y[:n], X[n:], y[n:])
