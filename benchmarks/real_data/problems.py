"""The data of every cell: bundled data sets with expanded columns, and generated spectra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_linnerud,
    load_wine,
)
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

from benchmarks.data import label

DATA = {
    "diabetes": load_diabetes,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
    "iris": load_iris,
    "linnerud": load_linnerud,
}
COLUMNS: dict[str, Callable[[], tuple]] = {
    "raw": tuple,
    "standardised": lambda: (StandardScaler(),),
    "quadratic": lambda: expansion(PolynomialFeatures(2, include_bias=False)),
    "cubic": lambda: expansion(PolynomialFeatures(3, include_bias=False)),
    "splines": lambda: expansion(SplineTransformer()),
}
MOST_COLUMNS = 6000  # larger expansions are left out
TOO_WIDE = {("digits", "cubic")}  # 47 904 columns
SPREAD_SHAPE = (2000, 200)
DECAYS = (0, 1, 2, 3, 4, 5, 6)
SHAPES = [
    (100, 10), (500, 50), (2000, 20), (5000, 100), (20000, 500), (200000, 10),
    (500, 2000), (500, 5000), (800, 6000),
]  # fmt: skip
SHAPE_DECAYS = (0, 2, 4)
SQUARES = (200, 500, 1000)
COPIES_SHAPE = (1000, 200)
COPIES = {"equal copies": 0.0, "near copies": 1e-6}  # relative distance of a column and its copy
TARGET_SHAPES = [(2000, 20), (2000, 200)]
TARGETS = (1, 10, 100, 1000)
TARGETS_DECAY = 2
NOISE = 0.5  # standard deviation of the noise, in units of that of the signal
NEW_ROWS = 1000  # generated rows that are only predicted
QUICK = {
    ("data", "diabetes"): {"raw", "quadratic", "splines"},
    ("data", "wine"): {"raw", "quadratic"},
    ("data", "breast cancer"): {"raw", "splines"},
    ("data", "linnerud"): {"raw"},
    ("shapes", label(*SPREAD_SHAPE)): {"a = 0", "a = 3", "a = 6"},
    ("shapes", label(500, 50)): {"a = 0", "a = 4"},
    ("shapes", label(500, 2000)): {"a = 2"},
    ("other", "Gaussian"): {label(200, 200), "equal copies"},
    ("targets", label(2000, 20)): {"1", "100"},
}


@dataclass(frozen=True)
class Rows:
    """Rows to fit. ``new`` holds further rows, or None if some of these have to be held out."""

    X: np.ndarray
    y: np.ndarray
    new: tuple[np.ndarray, np.ndarray] | None = None

    def split(self) -> tuple[np.ndarray, ...]:
        """Return X to fit and X to predict, then y to fit and y to predict."""
        return tuple(train_test_split(self.X, self.y, test_size=0.25, random_state=0))


@dataclass(frozen=True)
class Place:
    """The place of a cell: one of the tables, with its row and column; and its data."""

    table: str
    row: str
    column: str
    make: Callable[[], Rows]


def expansion(step: object) -> tuple:
    """Return the steps of an expansion of standardised columns."""
    return (StandardScaler(), step, StandardScaler())


def bundled(name: str, columns: str) -> Rows:
    """Return a data set of scikit-learn with its columns as they are, or expanded."""
    X, y = DATA[name](return_X_y=True)
    X = make_pipeline(*COLUMNS[columns](), "passthrough").fit_transform(X)
    if X.shape[1] > MOST_COLUMNS:
        raise ValueError(f"{name} has {X.shape[1]} {columns} columns, more than {MOST_COLUMNS}.")
    return Rows(np.ascontiguousarray(X, dtype=float), np.asarray(y, dtype=float))


def generated(n: int, p: int, decay: float = 0, targets: int | None = None) -> Rows:
    """Return Gaussian rows whose covariance has the eigenvalues i^-decay."""
    rng = np.random.default_rng(0)
    # means away from zero have to be removed, as in real data
    X = (rng.standard_normal((n + NEW_ROWS, p)) + 1) * np.arange(1, p + 1.0) ** (-decay / 2)
    return with_response(X, rng, targets)


def copied(distance: float) -> Rows:
    """Return columns of which every second one is a copy, up to a relative distance."""
    rng = np.random.default_rng(0)
    n, p = COPIES_SHAPE
    X = rng.standard_normal((n + NEW_ROWS, p // 2)) + 1
    copy = X + distance * rng.standard_normal(X.shape) if distance else X
    return with_response(np.hstack([X, copy]), rng)


def with_response(X: np.ndarray, rng: np.random.Generator, targets: int | None = None) -> Rows:
    """Return rows with a linear signal and noise; the last rows are new."""
    p = X.shape[1]
    signal = X @ rng.standard_normal(p if targets is None else (p, targets))
    y = signal + NOISE * signal.std(axis=0) * rng.standard_normal(signal.shape)
    return Rows(X[:-NEW_ROWS].copy(), y[:-NEW_ROWS], (X[-NEW_ROWS:].copy(), y[-NEW_ROWS:]))


def places(*, quick: bool) -> list[Place]:
    """Return all cells, or those of a quick run."""
    listed = [
        Place("data", name, columns, partial(bundled, name, columns))
        for name in DATA
        for columns in COLUMNS
        if (name, columns) not in TOO_WIDE
    ]
    spectra = {SPREAD_SHAPE: DECAYS} | dict.fromkeys(SHAPES, SHAPE_DECAYS)
    listed += [
        Place("shapes", label(*shape), f"a = {decay}", partial(generated, *shape, decay))
        for shape, decays in spectra.items()
        for decay in decays
    ]
    listed += [Place("other", "Gaussian", label(n, n), partial(generated, n, n)) for n in SQUARES]
    listed += [
        Place("other", "Gaussian", name, partial(copied, distance))
        for name, distance in COPIES.items()
    ]
    listed += [
        Place(
            "targets",
            label(*shape),
            str(count),
            partial(generated, *shape, TARGETS_DECAY, count if count > 1 else None),
        )
        for shape in TARGET_SHAPES
        for count in TARGETS
    ]
    if not quick:
        return listed
    return [place for place in listed if place.column in QUICK.get((place.table, place.row), ())]
