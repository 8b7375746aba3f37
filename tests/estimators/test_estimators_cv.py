"""StoppedRegressorCV: conventions, choices, intervals, plots."""

import io
import pickle
import sys

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

import stoptime as st
from stoptime.left_out import predictions
from stoptime.stopping.rule import TIE
from stoptime.support import progress as progress_module


def test_ridge_agrees_with_ridgecv(diabetes):
    X, y = diabetes
    penalties = np.geomspace(1e-6, 1e-1, 30)
    peer = RidgeCV(alphas=len(y) * penalties, store_cv_results=True).fit(X, y)
    model = st.StoppedRegressorCV("ridge", stops=1 / penalties).fit(X, y)
    # RidgeCV leaves the row out of the slopes only and not out of the means: close, not equal
    assert model.stop_ == pytest.approx(len(y) / peer.alpha_, rel=1e-9)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-8)


def test_the_best_of_several_methods_is_taken(diabetes):
    names = ["ridge", "gradient-flow", st.AcceleratedFlow(5), "heavy-ball-flow"]
    model = st.StoppedRegressorCV(names).fit(*diabetes)
    singles = [st.StoppedRegressorCV(name).fit(*diabetes) for name in names]
    least = min(single.choice_.error for single in singles)
    # of methods that are equal to four digits the first is taken
    best = next(one for one in singles if one.choice_.error <= (1 + TIE) * least)
    assert model.method_ == best.method_
    assert model.stop_ == pytest.approx(best.stop_, rel=1e-9)
    with pytest.raises(ValueError, match="at least one method"):
        st.StoppedRegressorCV([]).fit(*diabetes)


def test_per_target_stops(rng, diabetes):
    X, y = diabetes
    Y = np.column_stack([y, rng.standard_normal(len(y)), -y])
    model = st.StoppedRegressorCV("nesterov-flow", per_target=True).fit(X, Y)
    assert model.stop_.shape == (3,)
    assert model.stop_[1] < model.stop_[0]
    assert model.coef_.shape == (3, 10)
    assert model.degrees_of_freedom_.shape == (3,)
    for k in range(3):
        one = st.StoppedRegressor(stop=model.stop_[k]).fit(X, Y[:, k])
        np.testing.assert_allclose(model.coef_[k], one.coef_, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(model.predict(X)[:, k], one.predict(X), rtol=1e-8)
    assert np.isscalar(st.StoppedRegressorCV(per_target=True).fit(X, y).stop_)


@pytest.mark.parametrize("kind", ["gaussian", "student"])
def test_intervals_cover_what_they_promise(kind):
    """Coverage over fresh data, within 2 % for Gaussian and for heavy-tailed noise."""
    rng = np.random.default_rng(11)
    draw = rng.standard_normal if kind == "gaussian" else (lambda size: rng.standard_t(3, size))
    inside = {0.8: [], 0.9: []}
    for _ in range(60):
        X = rng.standard_normal((150, 20))
        beta = rng.standard_normal(20) / 3
        model = st.StoppedRegressorCV().fit(X, X @ beta + draw(150))
        fresh = rng.standard_normal((100, 20))
        response = fresh @ beta + draw(100)
        for confidence, shares in inside.items():
            low, high = model.predict_interval(fresh, confidence).T
            shares.append(np.mean((low <= response) & (response <= high)))
    for confidence, shares in inside.items():
        assert np.mean(shares) == pytest.approx(confidence, abs=0.02)


def test_interval_shapes_and_refusals(diabetes):
    X, y = diabetes
    model = st.StoppedRegressorCV().fit(X, y)
    assert model.predict_interval(X[:4]).shape == (4, 2)
    wide, narrow = model.predict_interval(X, 0.95), model.predict_interval(X, 0.5)
    assert np.all(wide[:, 0] < narrow[:, 0])
    assert np.all(narrow[:, 1] < wide[:, 1])
    both = st.StoppedRegressorCV().fit(X, np.column_stack([y, y]))
    assert both.predict_interval(X[:4]).shape == (4, 2, 2)
    for bad in (0, 1, 1.5, "high"):
        with pytest.raises(ValueError, match="confidence must be"):
            model.predict_interval(X, bad)
    cg = st.StoppedRegressorCV("conjugate-gradient", rule="discrepancy").fit(X, y)
    with pytest.raises(ValueError, match="a method with a filter"):
        cg.predict_interval(X)


def test_left_out_predictions_are_computed_when_they_are_asked_for(diabetes, monkeypatch):
    X, y = diabetes
    expected = st.StoppedRegressorCV("ridge", stops=[20.0]).fit(X, y)
    model = st.StoppedRegressorCV("ridge", stops=[20.0], rule="path-gcv").fit(X, y)
    assert model._left_out is None
    np.testing.assert_allclose(model.left_out_predictions_, expected.left_out_predictions_)
    # a pickle without the training rows contains those that are known
    monkeypatch.setattr(predictions, "MOST_PICKLED", 10)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(copy.left_out_residuals_, expected.left_out_residuals_)
    assert copy.predict_interval(X[:3], kind="jackknife").shape == (3, 2)
    unasked = st.StoppedRegressorCV("ridge", stops=[20.0], rule="path-gcv").fit(X, y)
    with pytest.raises(ValueError, match="pickled without its training rows"):
        pickle.loads(pickle.dumps(unasked)).predict_interval(X[:3], kind="jackknife")


def test_hold_out_rule_refits_on_all_training_rows(diabetes):
    X, y = diabetes
    rule = st.HoldOut(X[300:], y[300:])
    model = st.StoppedRegressorCV("nesterov-flow", rule=rule).fit(X[:300], y[:300])
    path = st.path(X[:300], y[:300], "nesterov-flow", model.stops_)
    errors = ((path.predict(X[300:]) - y[300:]) ** 2).mean(axis=1)
    np.testing.assert_allclose(model.errors_, errors, rtol=1e-9)
    np.testing.assert_allclose(
        model.coef_, st.StoppedRegressor(stop=model.stop_).fit(X[:300], y[:300]).coef_
    )


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


def test_verbosity_changes_no_number(diabetes, monkeypatch):
    X, y = diabetes
    monkeypatch.setattr(progress_module, "PATIENCE", 0.0)
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    loud = st.StoppedRegressorCV(cv=4, verbose=True).fit(X, y)
    assert "cross-validation: 100%" in shown.getvalue()
    assert "| 4/4 [" in shown.getvalue()
    quiet = st.StoppedRegressorCV(cv=4).fit(X, y)
    np.testing.assert_array_equal(loud.errors_, quiet.errors_)
    np.testing.assert_array_equal(loud.coef_, quiet.coef_)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"method": "sgd"}, "Unknown method"),
        ({"rule": "aic"}, "Unknown rule"),
        ({"method": "ridge", "stops": [-1.0]}, "stops must be"),
        ({"stops": 1}, "at least 3"),
        ({"method": "ridge", "stops": [[1.0]]}, "stops must be"),
        ({"method": "ridge", "stops": []}, "stops must be"),
    ],
)
def test_bad_parameters(diabetes, params, message):
    with pytest.raises(ValueError, match=message):
        st.StoppedRegressorCV(**params).fit(*diabetes)


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


def test_the_discrepancy_principle_does_not_compare_methods(diabetes):
    with pytest.raises(ValueError, match="cannot compare methods"):
        st.StoppedRegressorCV(["ridge", "nesterov-flow"], rule="discrepancy").fit(*diabetes)
