"""Methods and data for the tests of leave-one-out."""

import numpy as np

from stoptime import (
    AcceleratedFlow,
    CriticalFlow,
    GradientFlow,
    HeavyBallFlow,
    IteratedRidge,
    Ridge,
)
from stoptime.left_out.rows import Rows
from stoptime.spectrum.decompose import open_data

METHODS = [
    Ridge(),
    GradientFlow(),
    AcceleratedFlow(),
    CriticalFlow(),
    IteratedRidge(),
    IteratedRidge(times=6),
    AcceleratedFlow(friction=1.5),
    AcceleratedFlow(friction=6.0),
    HeavyBallFlow(damping=0.3),
    HeavyBallFlow(damping=1e-3),
]


def problem(kind):
    """Return X, y and the options of one kind of data."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(14, 25) if kind == "wide" else (24, 6))
    if kind == "leverage one":
        X[:, 0] = 3.0 * (np.arange(24) == 4)
    n = len(X)
    y = X @ rng.normal(size=X.shape[1]) / 3 + rng.normal(size=n)
    weights = rng.uniform(0.2, 3, n) if kind == "weights" else None
    if kind == "targets":
        y = np.column_stack([y, rng.normal(size=n), y**2])
    if kind == "many targets":
        y = rng.normal(size=(n, 20)) * np.geomspace(1e-3, 1e3, 20)
    return X, y, {"sample_weight": weights, "fit_intercept": True}


def rows_of(X, y, sample_weight, spectrum):
    return Rows(open_data(X, y, sample_weight, spectrum.fit_intercept).rows, spectrum)
