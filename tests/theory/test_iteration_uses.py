"""Iterations have all that flows have: left-out errors, rules, estimators, risk, calibration."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import stoptime as st
from iteration_cases import each_auto, make_data
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod


def test_leave_one_out_refuses_steps_that_diverge_without_a_row():
    X, y = make_data(12, 4)
    step = 1.95 / st.decompose(X, y).eigenvalues[-1]
    with pytest.raises(ValueError, match="diverges"):
        st.leave_one_out(X, y, GradientDescent(step), [3])


@each_auto
def test_path_gcv_is_exact_where_all_rows_are_alike(method):
    X = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 3, float)
    y = np.random.default_rng(1).normal(size=12)
    stops = [0, 1, 2, 5, 30, np.inf]
    expected = st.leave_one_out(X, y, method, stops).errors
    np.testing.assert_allclose(st.path_gcv(st.decompose(X, y), method, stops), expected, rtol=1e-9)


@each_auto
@pytest.mark.parametrize(
    "rule", ["loo", "path-gcv", "sure", "one-standard-error", "discrepancy", "plug-in"]
)
def test_rules_choose_whole_numbers(method, rule):
    X, y = make_data(60, 12)
    model = st.StoppedRegressorCV(method, rule=rule).fit(X, y)
    assert model.stop_ == round(model.stop_)
    assert np.all(model.stops_ == np.round(model.stops_))
    np.testing.assert_allclose(model.coef_, st.path(X, y, model.method_, model.stop_).coef[0])
    if rule in {"loo", "path-gcv", "sure"}:
        every = np.arange(max(model.stop_ + 10, 30))
        again = st.StoppedRegressorCV(model.method_, rule=rule, stops=every).fit(X, y)
        assert again.choice_.error >= model.choice_.error * (1 - 1e-9)
        assert {model.stop_ - 1, model.stop_ + 1} <= set(model.stops_)


@parametrize_with_checks(
    [
        st.StoppedRegressor("nesterov"),
        st.StoppedRegressor("conjugate-gradient", stop=3),
        st.StoppedRegressorCV("gradient-descent"),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@each_auto
def test_estimators(method):
    X, y = make_data(60, 12)
    model = st.StoppedRegressor(method).fit(X, y)
    assert model.stop_ == round(model.stop_) > 0
    fold = st.StoppedRegressorCV(method, cv=4).fit(X, y)
    assert fold.stop_ == round(fold.stop_)
    Y = np.column_stack([y, X[:, 0] - y, np.sin(y)])
    own = st.StoppedRegressorCV(method, per_target=True).fit(X, Y)
    assert own.stop_.shape == (3,)
    for target in range(3):
        single = st.StoppedRegressorCV(method).fit(X, Y[:, target])
        assert own.choice_.error[target] <= single.choice_.error * (1 + 1e-9)
    with pytest.raises(ValueError, match="whole numbers"):
        st.StoppedRegressor(method, stop=2.5).fit(X, y)
    assert fold.plot() is not None


@each_auto
def test_exact_risk_of_every_iterate(method):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 8)) * np.geomspace(0.2, 1, 8)
    values, vectors = np.linalg.eigh(X.T @ X / 30)
    beta = rng.standard_normal(8)
    every = np.arange(201)
    curve = st.risk(
        method, every, eigenvalues=values, signal=vectors.T @ beta, noise=0.5, n_samples=30
    )
    hat = st.path(X, np.eye(30), method, every, fit_intercept=False).coef  # linear maps from y
    bias = ((hat @ X - np.eye(8)) @ beta) ** 2
    np.testing.assert_allclose(curve.bias, bias.sum(axis=1), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(curve.variance, 0.5 * (hat**2).sum(axis=(1, 2)), rtol=1e-9)
    assert curve.best == every[np.argmin(curve.total)]
    assert curve.best_total == curve.total.min()
    scattered = [200, 3, 3, np.inf, 0]
    again = st.risk(
        method, scattered, eigenvalues=values, signal=vectors.T @ beta, noise=0.5, n_samples=30
    )
    np.testing.assert_allclose(again.total[[0, 1, 2, 4]], curve.total[[200, 3, 3, 0]], rtol=1e-12)


def test_best_of_a_long_sparse_range_is_the_best_of_all():
    s = np.geomspace(1e-4, 1, 40)
    for method in (GradientDescent(1.0), HeavyBall(1.0, 0.99), Nesterov(1.0)):
        sparse = st.bayes_risk(method, [1, 9000], eigenvalues=s, signal=40, noise=1, n_samples=2000)
        every = st.bayes_risk(
            method, np.arange(1, 9001), eigenvalues=s, signal=40, noise=1, n_samples=2000
        )
        assert sparse.best_total == pytest.approx(every.total.min(), rel=1e-9)
        assert sparse.best == every.stops[np.argmin(every.total)]


@each_auto
def test_inflation_is_a_ratio_to_the_best_ridge(method):
    s = np.geomspace(0.02, 1, 20)
    found = st.inflation(method, eigenvalues=s, signal=20.0, noise=1.0, n_samples=40)
    every = st.bayes_risk(
        method, np.arange(2000), eigenvalues=s, signal=20.0, noise=1.0, n_samples=40
    )
    ridge = st.bayes_risk("ridge", [40.0], eigenvalues=s, signal=20.0, noise=1.0, n_samples=40)
    assert found.ratio == pytest.approx(every.total.min() / ridge.total[0], rel=1e-9)
    assert found.ratio >= 1
    assert found.stop == every.stops[np.argmin(every.total)]


@pytest.mark.parametrize("method", [Nesterov(1.0), HeavyBall(1.0, 0.99)], ids=str)
def test_inflation_runs_no_more_iterations_than_a_search_may(method, monkeypatch):
    s = np.geomspace(1e-12, 1, 20)
    taken = []
    coefficients = type(method).coefficients

    def counted(self, k):
        taken.append(k)
        return coefficients(self, k)

    monkeypatch.setattr(type(method), "coefficients", counted)
    near = st.inflation(method, eigenvalues=s, signal=20.0, noise=1.0, n_samples=1e4)
    assert near.stop == round(near.stop) <= max(taken) <= method.horizon
    taken.clear()
    far = st.inflation(method, eigenvalues=s, signal=20.0, noise=1.0, n_samples=1e10)
    flow = st.inflation(method.as_flow(), eigenvalues=s, signal=20.0, noise=1.0, n_samples=1e10)
    assert far == st.Inflation(flow.ratio, round(flow.stop))
    assert not taken


@each_auto
@pytest.mark.parametrize("penalty", [0.2, 0.01])
@pytest.mark.parametrize("kind", ["risk", "parameter"])
def test_equivalent_stop_has_the_best_guarantee(method, penalty, kind):
    s = np.linspace(0.004, 1, 4000)
    if (
        getattr(method, "momentum", None) is None
    ):  # these are calibrated for all smaller eigenvalues too
        s = np.append(np.geomspace(1e-9, 0.004, 500), s)
    stop = st.equivalent_stop(method, penalty, calibration=kind, eigenvalues=s)
    k = np.arange(300)
    tuned = method.tuned_to(s)
    g, gain = tuned.shrinkage(s[:, None], k), tuned.gain(s[:, None], k)
    x = s[:, None]
    ratios = (
        x * (g - penalty * gain) ** 2 / penalty
        if kind == "risk"
        else (gain * (penalty + x) - 1) ** 2
    )
    worst = ratios.max(axis=0)
    assert stop == round(stop)
    assert worst[int(stop)] <= worst.min() * 1.002 + 1e-9


@pytest.mark.parametrize(
    "method", [GradientDescent(), Nesterov(), Nesterov(friction=5), NuMethod()], ids=str
)
def test_equivalent_penalty_undoes_equivalent_stop(method):
    s = np.geomspace(1e-3, 1, 200)
    for penalty in (0.01, 0.0004):
        stop = st.equivalent_stop(method, penalty, eigenvalues=s)
        back = st.equivalent_penalty(method, stop, eigenvalues=s)
        assert back == pytest.approx(penalty, rel=0.25)
    assert st.equivalent_penalty(method, 0, eigenvalues=s) == np.inf
    assert st.equivalent_penalty(method, np.inf, eigenvalues=s) == 0


def test_many_iterations_are_calibrated_like_their_flow():
    for method, flow in ((GradientDescent(1.0), "gradient-flow"), (Nesterov(1.0), "nesterov-flow")):
        penalty = 1e-5 if method.time_power == 1 else 1e-8
        stop = st.equivalent_stop(method, penalty)
        assert stop == round(st.equivalent_stop(flow, penalty))
    near, far = (st.equivalent_stop(GradientDescent(1.0), p) for p in (1 / 4900, 1 / 5100))
    assert near * 4900**-1 == pytest.approx(far / 5100, rel=1e-3)
    assert st.equivalent_stop(GradientDescent(0.5), 0.01, calibration="paper") == 200
    assert st.equivalent_penalty(Nesterov(0.25), 10, calibration="paper") == pytest.approx(1 / 25)
    with pytest.raises(ValueError, match="tuned_to"):
        st.equivalent_stop("nesterov", 0.1)


def test_data_without_noise_are_fitted_to_the_end():
    X, _ = make_data(40, 6)
    y = X @ np.arange(6)
    for name in ("gradient-descent", "nesterov", "nu-method"):
        model = st.StoppedRegressor(name).fit(X, y)
        np.testing.assert_allclose(model.coef_, np.arange(6), atol=1e-6)


def test_limiting_risk_tunes_the_step_to_the_bulk():
    curve = st.limiting_risk("nesterov", np.arange(40), aspect=0.5, signal=1.0, noise=1.0)
    assert curve.method.step == pytest.approx((1 + np.sqrt(0.5)) ** -2)
    assert np.isfinite(curve.total).all()


def test_gradient_descent_reaches_any_iterate_at_once():
    known = {"eigenvalues": [1e-12, 0.5], "signal": [3.0, 1.0], "noise": 0.0, "n_samples": 9}
    curve = st.risk(GradientDescent(1.0), [0, 1, 10**12], **known)
    np.testing.assert_allclose(curve.bias, [10, 9.25, 9 * np.exp(-2)], rtol=1e-11)
