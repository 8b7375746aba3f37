"""Scores of left-out predictions: those of scikit-learn, and the choices of RidgeCV."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import d2_pinball_score, get_scorer, make_scorer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    cross_val_predict,
    cross_validate,
)

import stoptime as st
from stoptime.stopping.scores import Predicted, scores_of

SCORERS = [
    "r2", "neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error",
    "neg_median_absolute_error", "neg_max_error", "explained_variance", "d2_absolute_error_score",
    "neg_mean_absolute_percentage_error", make_scorer(d2_pinball_score, alpha=0.8),
]  # fmt: skip


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 15)) * np.geomspace(1, 0.1, 15)
    return X, 9 + X @ rng.standard_normal(15) + 0.7 * rng.standard_t(4, 120)


@pytest.mark.parametrize(
    "scoring", [*SCORERS, make_scorer(lambda y, fit: np.ptp(y - fit))], ids=str
)
@pytest.mark.parametrize("n_targets", [None, 1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_stops_at_once_have_the_scores_of_one_stop_each(scoring, n_targets, weighted, rng):
    shape = (30,) if n_targets is None else (30, n_targets)
    response = 5 + rng.standard_normal(shape)
    fits = response + np.geomspace(1e-3, 10, 7).reshape(-1, *(1,) * len(shape)) * (
        rng.standard_normal((7, *shape))
    )
    fits[2] = response
    options = {"sample_weight": rng.integers(0, 4, 30).astype(float)} if weighted else {}
    scorer = get_scorer(scoring)
    try:
        expected = [scorer(Predicted(), fit, response, **options) for fit in fits]
    except (TypeError, ValueError) as refusal:
        # a metric without weights, or for one target alone
        with pytest.raises(type(refusal), match=re.escape(str(refusal))):
            scores_of(scoring, fits, response, options.get("sample_weight"))
        return
    found = scores_of(scoring, fits, response, options.get("sample_weight"))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_equal_targets_have_the_scores_of_scikit_learn(rng):
    """The variance that R² divides by is zero."""
    fits = rng.standard_normal((4, 20))
    fits[1] = 3.0
    for scoring in ("r2", "explained_variance"):
        expected = [get_scorer(scoring)(Predicted(), fit, np.full(20, 3.0)) for fit in fits]
        np.testing.assert_array_equal(scores_of(scoring, fits, np.full(20, 3.0)), expected)


def test_only_metrics_of_scikit_learn_score_all_stops_in_one_call(data):
    X, y = data
    calls = []

    def own(response, fit, multioutput="uniform_average"):
        del multioutput
        calls.append(fit.shape)
        return np.abs(response - fit).mean()

    options = {"method": "ridge", "stops": [0.5, 3.0, 20.0]}
    scored = st.StoppedRegressorCV(scoring=make_scorer(own), **options).fit(X, y)
    assert calls == [y.shape] * 3
    same = st.StoppedRegressorCV(scoring=make_scorer(own, greater_is_better=False), **options)
    known = st.StoppedRegressorCV(scoring="neg_mean_absolute_error", **options).fit(X, y)
    np.testing.assert_allclose(same.fit(X, y).errors_, known.errors_, rtol=1e-12)
    np.testing.assert_allclose(scored.errors_, -known.errors_, rtol=1e-12)


def test_of_equal_scores_the_earliest_stop_is_chosen(data):
    X, y = data
    model = st.StoppedRegressorCV("ridge", stops=[0.5, 3.0, 20.0], scoring=lambda *_: 1.0)
    assert model.fit(X, y).stop_ == 0.5


@pytest.mark.parametrize("scoring", [None, *SCORERS], ids=str)
@pytest.mark.parametrize("name", ["ridge", "nesterov-flow"])
def test_scores_are_those_of_refits(data, scoring, name):
    X, y = data[0][:30], data[1][:30]
    model = st.StoppedRegressorCV(name, stops=[0.5, 3.0, 20.0], scoring=scoring).fit(X, y)
    scorer = get_scorer(scoring or "neg_mean_squared_error")
    for stop, error in zip(model.stops_, model.errors_, strict=True):
        left_out = cross_val_predict(st.StoppedRegressor(name, stop=stop), X, y, cv=LeaveOneOut())
        expected = scorer._sign * scorer._score_func(y, left_out, **scorer._kwargs)
        assert -error == pytest.approx(expected, rel=1e-8)
    assert model.best_score_ == -model.errors_.min() == -model.choice_.error
    assert model.stop_ == model.stops_[np.argmin(model.errors_)]


@pytest.mark.parametrize("scoring", ["r2", "neg_median_absolute_error"])
def test_folds_are_scored_one_by_one(data, scoring):
    X, y = data
    model = st.StoppedRegressorCV(
        "nesterov-flow", stops=[0.5, 3.0, 20.0], cv=KFold(4), scoring=scoring
    ).fit(X, y)
    for stop, error in zip(model.stops_, model.errors_, strict=True):
        one = st.StoppedRegressor(stop=stop)
        expected = cross_validate(one, X, y, cv=KFold(4), scoring=scoring)["test_score"].mean()
        assert -error == pytest.approx(expected, rel=1e-9)
    groups = np.arange(len(y)) % 5
    grouped = st.StoppedRegressorCV(
        "nesterov-flow", stops=[0.5, 3.0], cv=GroupKFold(5), scoring=scoring
    )
    grouped.fit(X, y, groups=groups)
    expected = cross_validate(
        st.StoppedRegressor(stop=3.0), X, y, groups=groups, cv=GroupKFold(5), scoring=scoring
    )
    assert -grouped.errors_[1] == pytest.approx(expected["test_score"].mean(), rel=1e-9)


@pytest.mark.parametrize("cv", [None, 4])
def test_integer_weights_count_rows_so_often(data, cv):
    X, y = data[0][:40], data[1][:40]
    weights = np.tile([0.0, 1.0, 2.0, 3.0], 10)
    options = {"stops": [0.5, 3.0], "cv": cv and KFold(cv), "scoring": "neg_median_absolute_error"}
    model = st.StoppedRegressorCV("nesterov-flow", **options).fit(X, y, weights)
    if cv is None:
        scores = []
        for stop in (0.5, 3.0):
            residuals = st.left_out_residuals(X, y, "nesterov-flow", stop, sample_weight=weights)
            scores.append(-np.median(np.repeat(np.abs(residuals), weights.astype(int))))
        np.testing.assert_allclose(-model.errors_, scores, rtol=1e-9)
    scaled = clone(model).fit(X, y, 7 * weights)
    np.testing.assert_allclose(scaled.errors_, model.errors_, rtol=1e-9)
    if cv is None:
        live = weights > 0
        kept = clone(model).fit(X[live], y[live], weights[live])
        np.testing.assert_allclose(kept.errors_, model.errors_, rtol=1e-9)
    with pytest.raises(ValueError, match="neg_max_error cannot weight rows"):
        clone(model).set_params(scoring="neg_max_error").fit(X, y, weights)


def test_a_search_looks_where_the_squared_error_was_looked_for(data):
    X, y = data
    squared = st.StoppedRegressorCV().fit(X, y)
    model = st.StoppedRegressorCV(scoring="neg_mean_squared_error").fit(X, y)
    assert model.stop_ == squared.stop_
    assert model.best_score_ == pytest.approx(squared.best_score_, rel=1e-9)
    assert model.choice_.message.startswith("best neg_mean_squared_error of ")
    absolute = st.StoppedRegressorCV(["ridge", "nesterov-flow"], scoring="neg_mean_absolute_error")
    absolute.fit(X, y)
    assert absolute.best_score_ == pytest.approx(-np.abs(absolute.left_out_residuals_).mean())
    assert absolute.plot() is not None


def test_several_targets(data, rng):
    X, y = data
    Y = np.column_stack([y, rng.standard_normal(len(y))])
    pooled = st.StoppedRegressorCV("nesterov-flow", stops=[0.5, 3.0, 20.0], scoring="r2").fit(X, Y)
    own = st.StoppedRegressorCV(
        "nesterov-flow", stops=[0.5, 3.0, 20.0], scoring="r2", per_target=True
    ).fit(X, Y)
    assert own.best_score_.shape == own.stop_.shape == (2,)
    np.testing.assert_allclose(own.errors_.mean(axis=1), pooled.errors_, rtol=1e-9)
    for target in range(2):
        one = st.StoppedRegressorCV("nesterov-flow", stops=[0.5, 3.0, 20.0], scoring="r2").fit(
            X, Y[:, target]
        )
        np.testing.assert_allclose(own.errors_[:, target], one.errors_, rtol=1e-8)
        assert own.stop_[target] == one.stop_
    many = st.StoppedRegressorCV("nesterov-flow", stops=[0.5, 3.0], scoring="r2").fit(
        X, np.tile(Y, 10)
    )
    np.testing.assert_allclose(many.errors_, pooled.errors_[:2], rtol=1e-8)


def test_refusals(data):
    X, y = data
    with pytest.raises(ValueError, match="'nonsense' is not a valid scoring value"):
        st.StoppedRegressorCV(scoring="nonsense").fit(X, y)
    with pytest.raises(ValueError, match='scoring needs rule="loo" or cv'):
        st.StoppedRegressorCV(scoring="r2", rule="path-gcv").fit(X, y)
    with pytest.raises(ValueError, match="scoring needs rows in memory"):
        st.StoppedRegressorCV(scoring="r2", cv=2).fit(st.Chunks.of(X, y, rows=40))
    with pytest.raises(ValueError, match="NaN at some stops"):
        st.StoppedRegressorCV("ridge", scoring=lambda *_: np.nan, stops=[1.0]).fit(X, y)
