"""Regressors at a given stop and at a chosen one: the numbers they must give, and their options."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

import stoptime as st
from contract import fitted

# ---------------------------------------------------------------- at a given stop


@pytest.mark.parametrize("name", ["ridge", "gradient-flow", "accelerated-flow"])
def test_default_stop_is_the_calibrated_oracle(diabetes, name):
    model = st.StoppedRegressor(name).fit(*diabetes)
    assert model.oracle_.penalty == st.estimate_oracle(st.decompose(*diabetes)).penalty
    assert model.stop_ == st.equivalent_stop(name, model.oracle_.penalty)
    tau = {"ridge": 1, "gradient-flow": 0.45711, "accelerated-flow": 1.75535}[name]
    order = st.METHODS[name].time_power
    assert model.stop_ * model.oracle_.penalty ** (1 / order) == pytest.approx(tau, abs=1e-5)


def test_default_stop_predicts_as_well_as_the_truth_allows(rng):
    """Against the best of all stops in hindsight, on fresh data with a dense weak signal."""
    ratios = []
    for _ in range(20):
        X = rng.standard_normal((100, 80))
        beta = rng.standard_normal(80) / np.sqrt(80)
        y = X @ beta + rng.standard_normal(100)
        model = st.StoppedRegressor().fit(X, y)
        every = st.path(X, y, "nesterov-flow", np.geomspace(0.01, 100, 200))
        risks = ((every.coef - beta) ** 2).sum(axis=1)
        ratios.append(((model.coef_ - beta) ** 2).sum() / risks.min())
    assert np.mean(ratios) < 1.2


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (5, 200), (50, 1)], ids=str)
@pytest.mark.parametrize("stop", [None, 0.0, 1.0, np.inf])
def test_small_and_wide_data(rng, shape, stop):
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    model = st.StoppedRegressor(stop=stop).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict(X)).all()


def test_single_precision_does_not_spoil_a_response_of_large_mean(rng):
    X = rng.standard_normal((200, 3)).astype(np.float32)
    y = X.astype(float) @ [1.0, 2.0, 3.0]
    model = st.StoppedRegressor(stop=np.inf).fit(X, y + 1.7e9)
    np.testing.assert_allclose(model.coef_, [1, 2, 3], rtol=1e-6)


# ---------------------------------------------------------------- at a chosen stop


def test_ridge_agrees_with_ridgecv(diabetes):
    X, y = diabetes
    penalties = np.geomspace(1e-6, 1e-1, 30)
    peer = RidgeCV(alphas=len(y) * penalties, store_cv_results=True).fit(X, y)
    model = st.StoppedRegressorCV("ridge", stops=1 / penalties).fit(X, y)
    # RidgeCV leaves the row out of the slopes only and not out of the means: close, not equal
    assert model.stop_ == pytest.approx(len(y) / peer.alpha_, rel=1e-9)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-8)


def test_per_target_stops(rng, diabetes):
    X, y = diabetes
    Y = np.column_stack([y, rng.standard_normal(len(y)), -y])
    model = st.StoppedRegressorCV("nesterov-flow", per_target=True).fit(X, Y)
    assert model.stop_[1] < model.stop_[0]
    for k in range(3):
        one = st.StoppedRegressor(stop=model.stop_[k]).fit(X, Y[:, k])
        np.testing.assert_allclose(model.coef_[k], one.coef_, rtol=1e-8, atol=1e-8)
        assert model.degrees_of_freedom_[k] == pytest.approx(one.degrees_of_freedom_)
    assert np.isscalar(st.StoppedRegressorCV(per_target=True).fit(X, y).stop_)


@pytest.mark.parametrize("name", ["gradient-descent", "nesterov"])
def test_one_named_iteration_has_one_step(name, rng):
    """Rules that leave no single row out need no shorter step."""
    X, y = rng.normal(size=(30, 6)), rng.normal(size=30)
    expected = st.StoppedRegressor(name, stop=5).fit(X, y).method_
    for options in ({"rule": "sure"}, {"rule": "path-gcv"}, {"cv": 5}):
        assert fitted(name, X, y, **options).method_ == expected, options


def test_plot_shows_curve_band_and_choice(diabetes):
    X, y = diabetes
    rule = st.LeaveOneOut(standard_errors=True)
    ax = st.StoppedRegressorCV("nesterov-flow", rule=rule).fit(X, y).plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[0] == "accelerated flow"
    assert "equivalent to penalty" in labels[1]
    assert labels[2] == "one standard error above"
    assert len(ax.collections) == 1
    many = st.StoppedRegressorCV(per_target=True, rule="path-gcv").fit(X, np.column_stack([y, y]))
    assert many.plot(ax=ax) is ax


@pytest.mark.usefixtures("bars")
def test_verbosity_changes_no_number(diabetes, capsys):
    loud = st.StoppedRegressorCV(cv=4, verbose=True).fit(*diabetes)
    shown = capsys.readouterr().err
    assert "cross-validation: 100%" in shown
    assert "| 4/4 [" in shown
    quiet = st.StoppedRegressorCV(cv=4).fit(*diabetes)
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(loud.errors_, quiet.errors_)
    np.testing.assert_array_equal(loud.coef_, quiet.coef_)


def test_many_targets_never_hold_rows_by_targets_by_stops(rng):
    import tracemalloc

    X = rng.standard_normal((400, 10))
    Y = X @ rng.standard_normal((10, 300)) + rng.standard_normal((400, 300))
    stops = np.geomspace(0.1, 30, 100)
    tracemalloc.start()
    model = st.StoppedRegressorCV("nesterov-flow", stops=stops, per_target=True).fit(X, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.errors_.shape == (100, 300)
    assert peak < 0.5 * Y.nbytes * 100
    alone = st.StoppedRegressorCV("nesterov-flow", stops=stops).fit(X, Y[:, 7])
    np.testing.assert_allclose(model.errors_[:, 7], alone.errors_, rtol=1e-9)
    assert model.stop_[7] == alone.stop_


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("make", "params", "message"),
    [
        (st.StoppedRegressor, {"method": "sgd"}, "Unknown method 'sgd'"),
        (st.StoppedRegressor, {"method": 3}, "Unknown method 3"),
        (st.StoppedRegressor, {"stop": -1.0}, "stop must be non-negative numbers; got -1.0"),
        (st.StoppedRegressor, {"stop": np.nan}, "stop must be"),
        (st.StoppedRegressor, {"stop": [1.0, 2.0]}, "stop must be one number"),
        (st.StoppedRegressorCV, {"method": []}, "at least one method"),
        (st.StoppedRegressorCV, {"rule": "aic"}, "Unknown rule"),
        (st.StoppedRegressorCV, {"method": "ridge", "stops": [-1.0]}, "stops must be"),
        (st.StoppedRegressorCV, {"stops": 1}, "at least 3"),
        (st.StoppedRegressorCV, {"method": "ridge", "stops": [[1.0]]}, "stops must be"),
        (st.StoppedRegressorCV, {"method": "ridge", "stops": []}, "stops must be"),
        (st.StoppedRegressorCV, {"method": "auto", "stops": np.array([1.0, 10.0])}, r"(?i)method"),
    ],
)
def test_bad_parameters_are_refused_at_fit(diabetes, make, params, message):
    with pytest.raises(ValueError, match=message):
        make(**params).fit(*diabetes)
