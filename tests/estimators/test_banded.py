"""Scales for bands of columns: gradients, searches, and what they gain."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import KFold, LeaveOneOut, cross_val_predict
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import stoptime as st
from stoptime.spectrum.kinds import sample_of
from stoptime.stopping.bands import BandedRows, fold_error, gcv_error, left_out_error

FOLDS = [np.arange(5), np.arange(5, 14), np.arange(14, 24)]
ERRORS = {
    "loo": left_out_error,
    "gcv": gcv_error,
    "folds": partial(fold_error, FOLDS),
    "overlapping folds": partial(fold_error, [np.arange(9), np.arange(3, 12), np.arange(14, 24)]),
}


def data(n=24, p=12, *, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 1
    y = X[:, :4] @ rng.normal(size=(4, targets)) + rng.normal(size=(n, targets))
    return X, y, rng.uniform(0.5, 2, n)


def banded(X, y, weights=None, fit_intercept=True):
    member = np.arange(X.shape[1]) // 4
    return BandedRows(sample_of(X, y, weights, fit_intercept), member)


EVERY = slice(None)


@pytest.mark.parametrize("p", [12, 32], ids=["tall", "wide"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ERRORS)
def test_gradients_are_those_of_the_errors(kind, intercept, p):
    rows = banded(*data(p=p), intercept)
    theta = np.random.default_rng(1).normal(size=p // 4)
    error = ERRORS[kind]
    _, gradient = error(rows.ridges(theta, EVERY))
    numerical = approx_fprime(theta, lambda one: error(rows.ridges(one, EVERY))[0], 1e-6)
    np.testing.assert_allclose(gradient, numerical, atol=1e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("p", [12, 32], ids=["tall", "wide"])
def test_errors_are_those_of_refits(p):
    X, y, _ = data(p=p)
    rows = banded(X, y)
    theta = np.linspace(-1, 0.5, p // 4)
    scaled = X * np.exp(theta)[np.arange(p) // 4]
    model = Ridge(alpha=len(X))  # a penalty of one on XᵀX/n
    refits = y - cross_val_predict(model, scaled, y, cv=LeaveOneOut())
    error = left_out_error(rows.ridges(theta, EVERY))[0]
    np.testing.assert_allclose(error, np.sum(refits**2) / len(X))
    splits = [(np.setdiff1d(np.arange(24), fold), fold) for fold in FOLDS]
    refits = y - cross_val_predict(model, scaled, y, cv=splits)
    error = fold_error(FOLDS, rows.ridges(theta, slice(1, 2)))[0]
    np.testing.assert_allclose(error, np.sum(refits[:, 1] ** 2) / len(X))


def unequal(seed, n=300):
    """Return bands of unequal relevance: of columns, a few matter much, and most do not."""
    rng = np.random.default_rng(seed)
    sizes = [10, 40, 100, 100]
    X = rng.normal(size=(n, sum(sizes)))
    powers = np.repeat(np.array([1.0, 0.5, 0.02, 0.0]) / sizes, sizes)
    beta = rng.normal(size=sum(sizes)) * np.sqrt(powers)
    return X, X @ beta + rng.normal(size=n), beta, np.repeat(np.arange(4), sizes)


def test_unequal_bands_have_less_than_half_of_the_excess_risk_of_ridge():
    X, y, beta, groups = unequal(0)
    ridge = RidgeCV(np.geomspace(1, 1e4, 30)).fit(X, y)
    model = st.BandedRegressorCV(groups, n_draws=4, n_starts=2).fit(X, y)
    assert np.sum((model.coef_ - beta) ** 2) < 0.5 * np.sum((ridge.coef_ - beta) ** 2)
    assert np.argmax(model.scales_) == 0


def test_the_gradient_finds_lower_errors_than_draws():
    X, y, _, groups = unequal(3, n=150)
    by_gradient = st.BandedRegressorCV(groups, n_draws=4, n_starts=2).fit(X, y)
    by_draws = st.BandedRegressorCV(groups, n_draws=4, n_starts=0).fit(X, y)
    plain = st.StoppedRegressorCV("ridge").fit(X, y)
    assert by_gradient.best_score_ > by_draws.best_score_ > plain.best_score_


@pytest.mark.parametrize("options", [{"rule": "path-gcv"}, {"cv": KFold(4)}, {"method": "auto"}])
def test_rules_and_methods(options):
    X, y, _, groups = unequal(1, n=80)
    model = st.BandedRegressorCV(groups, n_draws=3, n_starts=1, **options).fit(X, y)
    scaled = X * model.scales_[groups]
    options = {"method": "ridge"} | options
    same = st.StoppedRegressorCV(**options).fit(scaled[:, model.scales_[groups] > 0], y)
    np.testing.assert_allclose(
        model.predict(X), same.predict(scaled[:, model.scales_[groups] > 0]), rtol=1e-4
    )
    np.testing.assert_allclose(model.best_score_, same.best_score_, rtol=1e-6)
    np.testing.assert_allclose(model.regressor_.coef_, model.coef_)


def test_every_target_may_have_its_own_scales():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 20))
    Y = np.column_stack([X[:, :4].sum(axis=1), X[:, 10:14].sum(axis=1)]) + rng.normal(size=(80, 2))
    groups = np.repeat(["a", "b"], 10)
    model = st.BandedRegressorCV(groups, per_target=True, n_draws=6).fit(X, Y)
    assert model.scales_.shape == (2, 2)
    assert model.scales_[0, 0] > 3 * model.scales_[0, 1]
    assert model.scales_[1, 1] > 3 * model.scales_[1, 0]
    assert model.coef_.shape == (2, 20)
    shared = st.BandedRegressorCV(groups, n_draws=6).fit(X, Y)
    assert shared.scales_.shape == (2,)
    assert model.best_score_.mean() > shared.best_score_


def test_many_targets_compare_draws():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 60))
    Y = X[:, :20] @ rng.normal(size=(20, 30)) / 2 + rng.normal(size=(40, 30))
    model = st.BandedRegressorCV(np.repeat([0, 1], [20, 40]), per_target=True, n_draws=8).fit(X, Y)
    assert len(np.unique(model.scales_, axis=0)) <= 10
    plain = st.StoppedRegressorCV("ridge", per_target=True).fit(X, Y)
    assert model.best_score_.mean() > plain.best_score_.mean()
    assert np.mean(model.scales_[:, 0] == 1) > 0.8


def test_shares_of_the_variance_add_up():
    X, y, _ = data(60, targets=3)
    groups = {"first": slice(0, 4), "second": [4, 5], "third": range(6, 12)}
    model = st.BandedRegressorCV(groups, n_draws=3, n_starts=1).fit(X, y)
    shares = model.explained(X, y)
    assert list(shares) == ["first", "second", "third"]
    residual = np.sum((y - model.predict(X)) ** 2, axis=0)
    explained = 1 - residual / np.sum((y - y.mean(axis=0)) ** 2, axis=0)
    np.testing.assert_allclose(sum(shares.values()), explained, rtol=1e-9)


def test_columns_of_tables_and_of_transformers():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(50, 3)), columns=["age", "bmi", "bp"])
    y = table["age"].to_numpy() + rng.normal(size=50)
    options = {"n_draws": 2, "n_starts": 1}
    model = st.BandedRegressorCV({"who": ["age"], "what": ["bmi", "bp"]}, **options)
    model.fit(table, y)
    assert model.scales_[0] == 1
    assert set(model.explained(table, y)) == {"who", "what"}
    columns = make_column_transformer(
        (StandardScaler(), ["age"]), (PolynomialFeatures(include_bias=False), ["bmi", "bp"])
    )
    X = columns.fit_transform(table)
    for groups in (columns, columns.output_indices_):
        found = st.BandedRegressorCV(groups, **options).fit(X, y)
        assert found.bands_ == ["standardscaler", "polynomialfeatures"]
        np.testing.assert_allclose(found.scales_.max(), 1)
    levels = table.set_axis(pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), axis=1)
    by_level = {"who": ("a", 1), "what": [("a", 2), ("b", 1)]}
    found = st.BandedRegressorCV(by_level, **options).fit(levels, y)
    np.testing.assert_array_equal(found.coef_, model.coef_)
    assert found.explained(levels, y) == pytest.approx(model.explained(table, y))
    with pytest.raises(ValueError, match="no columns of the names"):
        st.BandedRegressorCV({"who": [("c", 1)]}).fit(levels, y)
    unfitted = clone(columns)
    with pytest.raises(ValueError, match="Fit the ColumnTransformer"):
        st.BandedRegressorCV(unfitted).fit(X, y)


def test_bad_input_is_refused():
    X, y, _ = data()
    with pytest.raises(ValueError, match="rule must be"):
        st.BandedRegressorCV(np.zeros(12), rule="plug-in").fit(X, y)
    with pytest.raises(ValueError, match="exactly one band"):
        st.BandedRegressorCV([[0, 1], [3]]).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        st.BandedRegressorCV(np.zeros(12)).fit(np.where(X > 2, np.nan, X), y)


def test_a_constant_band_and_a_single_band():
    X, y, _ = data(40, targets=1)
    X[:, 4:8] = 3.0
    model = st.BandedRegressorCV(np.arange(12) // 4, n_draws=2, n_starts=1).fit(X, y[:, 0])
    assert model.scales_[1] == 0
    assert np.all(model.coef_[4:8] == 0)
    one = st.BandedRegressorCV(np.zeros(12), n_draws=1, n_starts=1).fit(X, y[:, 0])
    plain = st.StoppedRegressorCV("ridge").fit(X, y[:, 0])
    np.testing.assert_allclose(one.predict(X), plain.predict(X), rtol=1e-5)
    again = clone(one).fit(sparse.csr_array(X), y[:, 0])
    np.testing.assert_array_equal(again.coef_, one.coef_)


def test_units_of_the_bands_do_not_matter():
    X, y, _ = data(40, targets=1)
    units = np.repeat([1e-6, 1.0, 1e5], 4)
    options = {"groups": np.arange(12) // 4, "n_draws": 3, "n_starts": 2}
    model = st.BandedRegressorCV(**options).fit(X, y[:, 0])
    same = st.BandedRegressorCV(**options).fit(X * units, y[:, 0])
    assert abs(same.best_score_ / model.best_score_ - 1) < 1e-3
    np.testing.assert_allclose(same.predict(X * units), model.predict(X), atol=0.02)


def test_near_interpolation_no_target_is_fitted_by_luck():
    # with as many columns in the large bands as rows, path GCV at late stops rests on a single
    # direction of the residual, along which some of many targets have hardly any response
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 90))
    signal = X @ rng.normal(size=(90, 200))
    Y = signal + 2 * signal.std(axis=0) * rng.normal(size=signal.shape)
    groups = [0] * 30 + [1] * 30 + [2] * 30
    model = st.BandedRegressorCV(groups, per_target=True, n_starts=0, rule="path-gcv")
    fit = model.fit(X[:60], Y[:60]).predict(X[60:])
    scores = 1 - ((Y[60:] - fit) ** 2).mean(axis=0) / Y[60:].var(axis=0)
    assert np.isfinite(model.stop_).all()
    assert scores.mean() > -0.1
    assert scores.min() > -3


@pytest.mark.parametrize("per_target", [False, True])
@pytest.mark.parametrize("p", [12, 60])
def test_single_precision_is_rounded_only_at_the_end(p, per_target):
    X, y, weights = data(40, p)
    X = (X + 50).astype(np.float32)
    # between stops of a grid a flat minimum is known to half of the digits alone
    options = {"stops": np.geomspace(1, 1e4, 40), "per_target": per_target, "n_draws": 2}
    model = st.BandedRegressorCV(np.arange(p) // 4, n_starts=1, **options).fit(X, y, weights)
    wide = clone(model).fit(X.astype(np.float64), y, weights)
    assert model.coef_.dtype == model.intercept_.dtype == model.predict(X).dtype == np.float32
    rounded = 1e-7 * np.abs(wide.coef_).max()
    np.testing.assert_allclose(model.coef_, wide.coef_, rtol=0, atol=rounded)
    np.testing.assert_array_equal(model.scales_, wide.scales_)
