"""Rows of low leverage are rotated in single precision, where X is, without loss of accuracy."""

from __future__ import annotations

import numpy as np
import pytest

import stoptime as st
from stoptime.left_out import rows
from stoptime.stopping.problem import Problem

SHAPE = 1500, 12
METHODS = [
    "ridge",
    "gradient-flow",
    "critical-flow",
    "nesterov-flow",
    "heavy-ball-flow",
    "nesterov",
]
SINGLE = 3e-7  # relative to the largest residual: a few rounding errors of single precision


@pytest.fixture(autouse=True)
def _small_data_count_as_large(monkeypatch):
    monkeypatch.setattr(rows, "LIGHT_NUMBERS", 0)


def problem(decay=1.0, mean=0.0, targets=5, heavy=1.0, seed=0):
    """Return rows whose eigenvalues fall like a power, the first row ``heavy`` times as long."""
    rng = np.random.default_rng(seed)
    n, p = SHAPE
    X = rng.standard_normal(SHAPE) * np.arange(1, p + 1) ** (-decay / 2)
    X[0] *= heavy
    y = X @ rng.standard_normal((p, targets)) + 2 * rng.standard_normal((n, targets))
    return (X + mean).astype(np.float32), y.astype(np.float32)


def are_light(X, y):
    return Problem.of(X, y, "ridge").left_out.rows.are_light


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mean", [0.0, 50.0])
def test_residuals_and_choice_are_those_of_double_precision(method, mean):
    X, y = problem(mean=mean)
    model = st.StoppedRegressorCV(method).fit(X, y)
    given = st.StoppedRegressorCV(model.method_, stops=[model.stop_])
    exact = given.fit(X.astype(np.float64), y.astype(np.float64))
    size = np.abs(exact.left_out_residuals_).max()
    assert model.left_out_residuals_ == pytest.approx(exact.left_out_residuals_, abs=SINGLE * size)
    assert model.choice_.error == pytest.approx(exact.choice_.error, rel=SINGLE)
    whole = st.StoppedRegressorCV(method).fit(X.astype(np.float64), y.astype(np.float64))
    assert model.choice_.error <= whole.choice_.error * (1 + 1e-4)


@pytest.mark.parametrize(
    ("change", "light"),
    [
        ({}, True),
        ({"mean": 100.0}, True),
        ({"heavy": 30.0}, False),  # the first row has a leverage near one
        ({"decay": 8.0}, False),  # small directions would have lost their digits
    ],
)
def test_only_rows_that_keep_their_digits_are_light(change, light):
    assert are_light(*problem(**change)) == light


def test_a_row_of_high_leverage_is_left_out_in_double_precision():
    X, y = problem(heavy=30.0)
    model = st.StoppedRegressorCV("gradient-flow").fit(X, y)
    without = st.StoppedRegressor("gradient-flow", model.stop_)
    without.fit(X[1:].astype(np.float64), y[1:].astype(np.float64))
    expected = without.predict(X[:1].astype(np.float64))
    assert model.left_out_predictions_[:1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_double_precision_and_weighted_rows_are_not_light(weighted):
    X, y = problem()
    weights = np.arange(1, len(y) + 1) if weighted else None
    data = X if weighted else X.astype(np.float64)
    assert not Problem.of(data, y, "ridge", sample_weight=weights).left_out.rows.are_light


@pytest.mark.parametrize("seed", range(10))
def test_following_path_gcv_finds_the_least_error_of_the_whole_search(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X, y = problem(rng.uniform(0, 3), targets=4 + seed % 3, heavy=rng.uniform(1, 4), seed=seed)
    assert are_light(X, y)
    found = st.StoppedRegressorCV().fit(X, y).choice_
    monkeypatch.setattr(rows, "LIGHT_NUMBERS", 2**40)
    whole = st.StoppedRegressorCV().fit(X, y).choice_
    assert found.error <= whole.error * (1 + 1e-6)
