"""Prediction intervals: the jackknife+ equals its definition with n refits, at any weights."""

import pickle

import numpy as np
import pytest
from scipy import sparse

import stoptime as st
from stoptime.estimators import intervals


def ends_by_refits(model, X, y, new, weights, confidence):
    """Repeat every row as often as its weight says, and take order statistics."""
    low, high = [], []
    for row in range(len(y)):
        kept = np.arange(len(y)) != row
        fit = st.StoppedRegressor(model.method_, model.stop_, model.fit_intercept)
        fit.fit(X[kept], y[kept], weights[kept])
        size = abs(y[row] - fit.predict(X[[row]])[0])
        centre = fit.predict(new)
        low += [centre - size] * int(weights[row])
        high += [centre + size] * int(weights[row])
    n = len(low)
    place = min(int(np.ceil(confidence * (n + 1) * (1 - 1e-12))), n)
    low, high = np.sort(low, axis=0), np.sort(high, axis=0)
    return np.stack([low[n - place], high[place - 1]], axis=-1)


@pytest.mark.parametrize("method", ["nesterov-flow", "nesterov"])
@pytest.mark.parametrize("shape", [(30, 5), (20, 30)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_jackknife_plus_is_that_of_refits(method, shape, weighted, fit_intercept, rng):
    X = rng.standard_normal(shape)
    y = X[:, 0] + rng.standard_normal(shape[0])
    weights = rng.integers(1, 4, shape[0]) if weighted else np.ones(shape[0])
    model = st.StoppedRegressorCV(method, stops=[1.0, 2.0, 5.0], fit_intercept=fit_intercept)
    model.fit(X, y, weights)
    new = rng.standard_normal((7, shape[1]))
    for confidence in (0.5, 0.9, 0.999):
        expected = ends_by_refits(model, X, y, new, weights, confidence)
        found = model.predict_interval(new, confidence)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(model.left_out_predictions_, y - model.left_out_residuals_)


def test_blocks_of_new_rows_change_nothing(monkeypatch, rng):
    X = rng.standard_normal((40, 4))
    model = st.StoppedRegressorCV(stops=8).fit(X, X @ rng.standard_normal((4, 2)))
    expected = model.predict_interval(X)
    assert expected.shape == (40, 2, 2)
    monkeypatch.setattr(intervals, "PREDICTIONS_AT_ONCE", 600)
    np.testing.assert_array_equal(model.predict_interval(X), expected)


def test_every_target_has_intervals_at_its_own_stop(rng):
    X = rng.standard_normal((60, 4))
    y = X @ rng.standard_normal((4, 2)) + np.array([1, 9]) * rng.standard_normal((60, 2))
    model = st.StoppedRegressorCV("ridge", stops=[0.1, 1.0, 30.0], per_target=True).fit(X, y)
    assert model.stop_[0] != model.stop_[1]
    for target in range(2):
        one = st.StoppedRegressorCV("ridge", stops=[model.stop_[target]]).fit(X, y[:, target])
        found = model.predict_interval(X)[:, target]
        np.testing.assert_allclose(found, one.predict_interval(X), rtol=1e-9)


def test_rows_of_weight_zero_do_not_count(rng):
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    weights = np.where(np.arange(40) < 5, 0.0, 1.0)
    found = (
        st.StoppedRegressorCV("nesterov-flow", stops=[1.0]).fit(X, y, weights).predict_interval(X)
    )
    expected = (
        st.StoppedRegressorCV("nesterov-flow", stops=[1.0]).fit(X[5:], y[5:]).predict_interval(X)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("estimator", [st.StoppedRegressorCV, st.StoppedKernelRegressorCV])
def test_a_pickled_model_has_the_same_intervals(estimator, rng):
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    model = estimator("ridge", stops=[0.1, 1.0]).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))


def test_new_rows_of_other_kinds(rng):
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    model = st.StoppedRegressorCV("nesterov-flow", stops=[1.0]).fit(X, y)
    expected = model.predict_interval(X)
    operator = sparse.linalg.aslinearoperator(X)
    for rows in (sparse.csr_array(X), sparse.csc_array(X), operator):
        np.testing.assert_allclose(model.predict_interval(rows), expected, rtol=1e-9)
    chunks = st.Chunks.of(X, rows=20)
    assert model.predict_interval(chunks, kind="jackknife").shape == (40, 2)
    with pytest.raises(TypeError, match='rows in memory; got Chunks: use kind="jackknife"'):
        model.predict_interval(chunks)
    with pytest.raises(ValueError, match='kind must be "jackknife\\+", "nested"'):
        model.predict_interval(X, kind="bootstrap")
    with pytest.raises(ValueError, match="X has 2 features"):
        model.predict_interval(X[:, :2])


@pytest.mark.parametrize(("method", "stop"), [("nesterov", 7), ("ridge", np.inf)])
def test_a_given_stop_has_the_intervals_of_the_same_stop_chosen(rng, method, stop):
    X = rng.standard_normal((40, 3))
    y = X[:, 0] + rng.standard_normal(40)
    weights = rng.integers(0, 3, 40)
    given = st.StoppedRegressor(method, stop=stop).fit(X, y, weights)
    chosen = st.StoppedRegressorCV(method, stops=[stop]).fit(X, y, weights)
    expected = chosen.predict_interval(X, 0.8, kind="jackknife")
    np.testing.assert_allclose(given.predict_interval(X, 0.8), expected, rtol=1e-12)
    again = st.StoppedRegressor(method, stop=stop).fit(X, y)
    X *= 5
    with pytest.raises(ValueError, match="changed"):
        again.predict_interval(X)
