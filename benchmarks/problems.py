"""The data of the study: bundled, shipped with statsmodels, kernels and inverse problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
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
