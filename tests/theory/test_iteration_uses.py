"""Iterations have all that flows have: left-out errors, rules, estimators."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import stoptime as st
from iteration_cases import each_auto, make_data


@each_auto
def test_path_gcv_is_exact_where_all_rows_are_alike(method):
    X = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 3, float)
    y = np.random.default_rng(1).normal(size=12)
    stops = [0, 1, 2, 5, 30, np.inf]
    expected = st.leave_one_out(X, y, method, stops).errors
    np.testing.assert_allclose(st.path_gcv(st.decompose(X, y), method, stops), expected, rtol=1e-9)


def test_leave_one_out_refuses_steps_that_diverge_without_a_row():
    X, y = make_data(12, 4)
    step = 1.95 / st.decompose(X, y).eigenvalues[-1]
    with pytest.raises(ValueError, match="diverges"):
        st.leave_one_out(X, y, st.GradientDescent(step), [3])


@each_auto
@pytest.mark.parametrize(
    "rule", ["loo", "path-gcv", "one-standard-error", "discrepancy", "plug-in"]
)
def test_rules_choose_whole_numbers(method, rule):
    X, y = make_data(60, 12)
    model = st.StoppedRegressorCV(method, rule=rule).fit(X, y)
    assert model.stop_ == round(model.stop_)
    assert np.all(model.stops_ == np.round(model.stops_))
    np.testing.assert_allclose(model.coef_, st.path(X, y, model.method_, model.stop_).coef[0])
    if rule in {"loo", "path-gcv"}:
        every = np.arange(max(model.stop_ + 10, 30))
        again = st.StoppedRegressorCV(model.method_, rule=rule, stops=every).fit(X, y)
        assert again.choice_.error >= model.choice_.error * (1 - 1e-9)
        assert {model.stop_ - 1, model.stop_ + 1} <= set(model.stops_)


@parametrize_with_checks([st.StoppedRegressor("nesterov")])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@each_auto
def test_estimators(method):
    X, y = make_data(60, 12)
    Y = np.column_stack([y, X[:, 0] - y, np.sin(y)])
    fold = st.StoppedRegressorCV(method, cv=4).fit(X, y)
    assert fold.stop_ == round(fold.stop_)
    own = st.StoppedRegressorCV(method, per_target=True).fit(X, Y)
    assert own.stop_.shape == (3,)
    for target in range(3):
        single = st.StoppedRegressorCV(method).fit(X, Y[:, target])
        assert own.choice_.error[target] <= single.choice_.error * (1 + 1e-9)
    with pytest.raises(ValueError, match="whole numbers"):
        st.StoppedRegressor(method, stop=2.5).fit(X, y)


def test_data_without_noise_are_fitted_to_the_end():
    X, _ = make_data(40, 6)
    for name in ("gradient-descent", "nesterov", "nu-method"):
        model = st.StoppedRegressor(name).fit(X, X @ np.arange(6))
        np.testing.assert_allclose(model.coef_, np.arange(6), atol=1e-6)
