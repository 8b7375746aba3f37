"""Leave-one-out looks at early stops first: its choice is that of a search over the whole grid."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

import stoptime as st
from stoptime.stopping import leave_one_out
from stoptime.stopping.rule import CurveRule

AS_GOOD = 1e-3  # relative excess of the error at the chosen stop


def scaled(X):
    return StandardScaler().fit_transform(X)


def quadratic(X):
    steps = StandardScaler(), PolynomialFeatures(2, include_bias=False), StandardScaler()
    return make_pipeline(*steps).fit_transform(X)


def problems(rng):
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", X, y
    yield "quadratic terms", quadratic(X), y
    X, y = load_wine(return_X_y=True)
    yield "splines", SplineTransformer(5).fit_transform(X), y.astype(float)
    X = rng.standard_normal((80, 80))
    yield "square", X, X[:, 0] + rng.standard_normal(80)
    # a few rows of high leverage mislead path GCV
    X = rng.standard_normal((60, 20))
    X[:3] *= 30
    yield "leverage", X, X @ rng.standard_normal(20) / 5 + rng.standard_normal(60)
    # hardly any noise: the best stop is late
    X = rng.standard_normal((100, 20)) * np.arange(1, 21) ** -2.0
    yield "late", X, X @ np.arange(20.0) + 1e-6 * rng.standard_normal(100)


@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow", "nesterov"])
def test_stages_choose_as_well_as_the_whole_grid(rng, monkeypatch, method):
    for name, X, y in problems(rng):
        staged = st.StoppedRegressorCV(method, stops=120).fit(X, y)
        with monkeypatch.context() as patch:
            patch.setattr(leave_one_out.LeaveOneOut, "_search", CurveRule._search)
            whole = st.StoppedRegressorCV(method, stops=120).fit(X, y)
        assert staged.choice_.error <= (1 + AS_GOOD) * whole.choice_.error, name
        assert len(staged.stops_) <= 1.1 * len(whole.stops_), name


@pytest.mark.parametrize("per_target", [False, True])
@pytest.mark.parametrize("noise", [1.0, 1e-5])
@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow"])
def test_many_targets_are_looked_at_roughly_and_chosen_exactly(rng, method, noise, per_target):
    X = rng.standard_normal((90, 15)) * np.arange(1, 16) ** -1.0
    y = X @ rng.standard_normal((15, 20)) + rng.standard_normal((90, 20))
    # next to a target without noise, errors that are rough relative to its power are useless
    y[:, 0] = X @ rng.standard_normal(15) + noise * rng.standard_normal(90)
    model = st.StoppedRegressorCV(method, per_target=per_target).fit(X, y)
    curve = model.choice_.curve
    exact = st.leave_one_out(X, y, method, curve.stops).errors
    least = exact.min(axis=0) if per_target else exact.mean(axis=1).min()
    np.testing.assert_allclose(np.mean(model.choice_.error), np.mean(least), rtol=AS_GOOD)
    np.testing.assert_allclose(curve.errors[curve.exact], exact[curve.exact], 1e-8, 1e-12)
    chosen = np.searchsorted(curve.stops, model.stop_)
    assert curve.exact[chosen].all()
    if method == "ridge":
        # a first look is rough, unless a target has next to no noise or a stop of its own
        assert curve.exact.all() == (noise < 1 or per_target)


def test_late_stops_of_ill_conditioned_data_are_not_looked_at():
    X, y = load_diabetes(return_X_y=True)
    cubic = PolynomialFeatures(3, include_bias=False).fit_transform(scaled(X))
    cubic = scaled(cubic)
    model = st.StoppedRegressorCV("nesterov-flow").fit(cubic, y)
    finite = model.stops_[np.isfinite(model.stops_)]
    settled = st.default_stops(st.decompose(cubic, y), "nesterov-flow")[-2]
    assert finite.max() < settled / 100


def test_errors_are_exact_near_the_best_stop_and_rough_far_beyond(rng):
    X = rng.standard_normal((150, 40)) * np.arange(1, 41) ** -2.0
    y = X @ rng.standard_normal(40) + 0.3 * rng.standard_normal(150)
    model = st.StoppedRegressorCV("nesterov-flow").fit(X, y)
    curve = model.choice_.curve
    exact = st.leave_one_out(X, y, model.method_, curve.stops).errors
    np.testing.assert_allclose(curve.errors[curve.exact], exact[curve.exact], rtol=1e-8)
    np.testing.assert_allclose(curve.errors, exact, rtol=0.01)
    assert not curve.exact.all()
    best = np.argmin(curve.errors)
    assert curve.exact[best - 1 : best + 2].all()
    assert curve.stops[best] == model.stop_
    spread = st.leave_one_out(X, y, model.method_, curve.stops).standard_errors
    assert curve.standard_errors[best] == pytest.approx(spread[best], rel=1e-8)
    np.testing.assert_allclose(curve.standard_errors, spread, rtol=0.2)


def test_the_standard_error_of_least_squares_is_its_own_and_not_that_of_a_dip():
    """Errors around a dip of the curve were computed exactly, and then the end was lower."""
    rng = np.random.default_rng(53)
    X = rng.normal(size=(100, 4)) * np.geomspace(1, 0.3, 4)
    y = 20 * X @ rng.normal(size=4) + rng.standard_t(3, size=100)
    model = st.StoppedRegressorCV("nesterov-flow").fit(X, y)
    assert model.stop_ == np.inf
    squares = model.left_out_residuals_**2
    expected = squares.std(ddof=1) / np.sqrt(100)
    assert model.choice_.standard_error == pytest.approx(expected, rel=1e-9)


def test_curves_of_other_rules_are_exact():
    X, y = load_diabetes(return_X_y=True)
    assert st.StoppedRegressorCV(cv=3).fit(X, y).choice_.curve.exact.all()
    assert st.StoppedRegressorCV(stops=[1.0, 1e6]).fit(X, y).choice_.curve.exact.all()


def test_little_noise_leads_to_a_late_stop_in_directions_that_products_lose():
    x = np.random.default_rng(48).uniform(-1, 1, 33)
    X = np.vander(x, 25, increasing=True)[:, 1:]
    y = np.exp(x) * np.sin(9 * x)
    late = st.StoppedRegressorCV("gradient-flow").fit(X, y)
    grid = st.default_stops(st.decompose(X, y), "gradient-flow")
    least = st.leave_one_out(X, y, "gradient-flow", grid).errors.min()
    assert late.choice_.error <= (1 + AS_GOOD) * least
    assert late.stop_ * late.eigenvalues_.max() > 1e10


def test_given_stops_are_all_looked_at():
    X, y = load_diabetes(return_X_y=True)
    stops = [1.0, 10.0, 1e6]
    np.testing.assert_array_equal(st.StoppedRegressorCV(stops=stops).fit(X, y).stops_, stops)
