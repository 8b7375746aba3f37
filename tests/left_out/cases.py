"""Methods and data for the tests of leave-one-out."""

import numpy as np

from stoptime import (
    AcceleratedFlow,
    CriticalFlow,
    GradientFlow,
    HeavyBallFlow,
    IteratedRidge,
    Ridge,
    decompose,
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


def with_condition(rng, n, p, condition):
    left = np.linalg.qr(rng.normal(size=(n, p)))[0]
    right = np.linalg.qr(rng.normal(size=(p, p)))[0]
    return np.sqrt(n) * left * np.geomspace(1, condition**-0.5, p) @ right.T


def replaced(X, rows, values):
    X = X.copy()
    X[rows] = values
    return X


def problem(kind):
    """Return X, y and the options of one kind of data."""
    rng = np.random.default_rng(7)
    tall, wide = rng.normal(size=(24, 6)), rng.normal(size=(14, 25))
    lonely = replaced(tall, (slice(None), 0), 0.0)
    lonely[4, 0] = 3.0
    X = {
        "wide": wide,
        "wide, no intercept": wide,
        "wide, weights": wide,
        "wide, duplicated rows": replaced(wide, 5, wide[3]),
        "rank deficient": tall[:, :3] @ rng.normal(size=(3, 6)),
        "duplicated rows": replaced(tall, [5, 7], tall[3]),
        "repeated eigenvalues": np.vstack([np.eye(6), -np.eye(6)]),
        "leverage one": lonely,
        "constant column": replaced(tall, (slice(None), 2), 5.0),
        "only constants": np.ones((8, 2)),
        "far from zero": tall + 1000.0,
        "two rows": tall[:2],
        "three rows": tall[:3],
        "condition 1e6": with_condition(rng, 24, 6, 1e6),
        "condition 1e12": with_condition(rng, 24, 6, 1e12),
    }.get(kind, tall)
    n = len(X)
    y = X @ rng.normal(size=X.shape[1]) / 3 + rng.normal(size=n)
    weights = {
        "weights": rng.uniform(0.2, 3, n),
        "wide, weights": rng.uniform(0.2, 3, n),
        "integer weights": rng.integers(0, 3, n).astype(float),
        "one heavy row": np.where(np.arange(n) == 4, 60, rng.uniform(0.2, 3, n)),
        "many uneven weights": rng.uniform(0.9, 1.1, n),
    }.get(kind)
    if kind == "targets":
        y = np.column_stack([y, rng.normal(size=n), y**2])
    if kind == "many targets":
        y = rng.normal(size=(n, 20)) * np.geomspace(1e-3, 1e3, 20)
    return X, y, {"sample_weight": weights, "fit_intercept": not kind.endswith("no intercept")}


KINDS = [
    "tall", "no intercept", "wide", "wide, no intercept", "wide, weights", "wide, duplicated rows",
    "rank deficient", "duplicated rows", "repeated eigenvalues", "leverage one", "constant column",
    "only constants", "far from zero", "two rows", "three rows", "condition 1e6", "condition 1e12",
    "weights", "integer weights", "one heavy row", "targets", "many targets",
]  # fmt: skip


def stops_for(method, X, y, options, count=16):
    """Return a grid from next to nothing to well beyond convergence, with both ends."""
    s = decompose(X, y, **options).eigenvalues
    last = np.clip(30 * np.sqrt(s[-1] / s[0]), 100, 3e6) if s.size else 100.0
    largest = s[-1] if s.size else 1.0
    grid = np.geomspace(0.1, last ** (3 - method.time_power), count) / largest ** (
        1 / method.time_power
    )
    return np.concatenate([[0], grid, [np.inf]])


def assert_same(left_out, refits, tolerance):
    """Compare stop by stop, relative to the size of the residuals there."""
    size = np.sqrt(np.mean(refits**2, axis=1, keepdims=True))
    assert np.abs((left_out - refits) / size).max() < tolerance


def rows_of(X, y, sample_weight, spectrum):
    return Rows(open_data(X, y, sample_weight, spectrum.fit_intercept).rows, spectrum)
