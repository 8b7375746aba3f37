"""P-splines: a spline basis, differences of its coefficients, and a stop by leave-one-out."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import BSpline
from scipy.linalg import block_diag
from sklearn.datasets import load_diabetes
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

import stoptime as st

MGCV = json.loads((Path(__file__).parents[1] / "reference" / "mgcv.json").read_text())


def curve(n=80, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(size=n))
    return x[:, None], np.sin(8 * x) + 0.3 * rng.normal(size=n)


def p_spline(**options):
    regressor = st.StoppedRegressorCV(penalty_matrix=st.Differences(2), **options)
    return make_pipeline(SplineTransformer(20), regressor)


def test_three_lines_fit_a_smooth_curve():
    x, y = curve(200)
    model = p_spline().fit(x, y)
    grid = np.linspace(0.02, 0.98, 300)[:, None]
    assert np.sqrt(np.mean((model.predict(grid) - np.sin(8 * grid[:, 0])) ** 2)) < 0.08
    assert 4 < model[-1].degrees_of_freedom_ < 15
    assert 0.07 < model[-1].choice_.error < 0.13


@pytest.mark.parametrize("method", ["ridge", "nesterov-flow"])
def test_an_intercept_changes_nothing_but_the_coefficients(method):
    """The columns of splines sum to one, so that they contain the intercept already."""
    x, y = curve()
    first, second = (p_spline(method=method, fit_intercept=one).fit(x, y) for one in (True, False))
    np.testing.assert_allclose(first.predict(x), second.predict(x), atol=1e-7)
    np.testing.assert_allclose(first[-1].stop_, second[-1].stop_, rtol=1e-5)
    np.testing.assert_allclose(
        first[-1].degrees_of_freedom_, second[-1].degrees_of_freedom_, rtol=1e-6
    )
    # of all coefficients with these predictions they have the least norm
    assert abs(first[-1].coef_.sum()) < 1e-9


def test_leave_one_out_with_an_intercept_in_the_columns_is_n_refits():
    x, y = curve(30)
    basis = SplineTransformer(8, knots=np.linspace(0, 1, 8)[:, None]).fit(x).transform(x)
    model = st.StoppedRegressor("nesterov-flow", stop=4.0, penalty_matrix=st.Differences(2))
    refits = y - cross_val_predict(model, basis, y, cv=LeaveOneOut())
    found = st.left_out_residuals(basis, y, "nesterov-flow", 4.0, penalty_matrix=st.Differences(2))
    np.testing.assert_allclose(found, refits, atol=1e-8)


def bending(knots, p):
    """Return L with ‖Lβ‖² = ∫f''², by Gauss's rule, which is exact for cubic splines."""
    nodes, weights = np.polynomial.legendre.leggauss(3)
    ends = np.unique(knots)
    half = np.diff(ends)[:, None] / 2
    points = (ends[:-1, None] + half * (1 + nodes)).ravel()
    second = BSpline(knots, np.eye(p), 3).derivative(2)(points)
    return np.sqrt((half * weights).ravel())[:, None] * second


def test_fits_of_statsmodels_are_reproduced():
    """GLMGam(y, ones, smoother=BSplines(x, df=[10], degree=[3]), alpha=[0.01]), version 0.15.0."""
    x = np.linspace(0, 1, 41)
    y = np.sin(6 * x) + np.cos(40 * x) / 5
    knots = np.concatenate([np.zeros(3), np.linspace(0, 1, 8), np.ones(3)])
    basis = BSpline.design_matrix(x, knots, 3).toarray()
    # its alpha multiplies the integral itself, and ours half of it
    stop = 41 / (2 * 0.01)
    path = st.path(basis, y, "ridge", [stop], penalty_matrix=bending(knots, 10))
    fitted = [0.564776382630362, 0.686527274984589, 0.099528542361354]
    fitted += [-0.644293431543145, -0.811361176973505]
    np.testing.assert_allclose(path.predict(basis)[0, ::10], fitted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.degrees_of_freedom, [3.397692277814819], rtol=1e-12)


def mgcv_data(*, closed=False):
    """Return the data of make_mgcv.R, with the splines of an open or a closed curve."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    extrapolation = "periodic" if closed else "constant"
    basis = SplineTransformer(18, extrapolation=extrapolation).fit_transform(X[:, [8]])
    return basis, y, X[:, 0] / 50


@pytest.mark.parametrize("name", sorted(MGCV.keys() - {"version"}))
def test_fits_of_mgcv_are_reproduced(name):
    """The penalty of mgcv is sp‖Dβ‖², and ours ‖Dβ‖²/(2·stop) with errors divided by 2n."""
    closed = name.startswith("closed")
    basis, y, weights = mgcv_data(closed=closed)
    if not name.startswith("weighted"):
        weights = np.ones(len(y))
    differences = st.Differences(2, boundary="periodic" if closed else "free")
    spectrum = st.decompose(basis, y, weights, penalty_matrix=differences)
    path = st.path(spectrum, "ridge", [weights.sum() / MGCV[name]["sp"]])
    fitted = path.predict(basis)[0]
    np.testing.assert_allclose(fitted[::10], MGCV[name]["fitted"], rtol=1e-12)
    freedom = path.degrees_of_freedom[0]
    np.testing.assert_allclose(freedom, MGCV[name]["edf"], rtol=1e-12)
    score = len(y) * np.sum(weights * (y - fitted) ** 2) / (len(y) - freedom) ** 2
    np.testing.assert_allclose(score, MGCV[name]["gcv"], rtol=1e-12)


def test_the_choice_of_mgcv_is_reproduced():
    basis, y, _ = mgcv_data()
    options = {"rule": "gcv", "penalty_matrix": st.Differences(2)}
    model = st.StoppedRegressorCV("ridge", **options).fit(basis, y)
    chosen = MGCV["open, chosen"]
    np.testing.assert_allclose(model.choice_.error, chosen["gcv"], rtol=1e-8)
    np.testing.assert_allclose(len(y) / model.stop_, chosen["sp"], rtol=1e-3)
    np.testing.assert_allclose(model.degrees_of_freedom_, chosen["edf"], rtol=1e-3)


def test_sums_of_splines_have_several_constants_of_which_one_counts():
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(120, 2))
    y = np.sin(6 * x[:, 0]) + x[:, 1] ** 2 + 0.1 * rng.normal(size=120)
    basis = SplineTransformer(8).fit_transform(x)
    one = st.Differences(2).matrix(10).toarray()
    model = st.StoppedRegressorCV(penalty_matrix=block_diag(one, one)).fit(basis, y)
    assert model.choice_.error < 0.02
    # intercept, and one slope for each of two curves
    spectrum = st.decompose(basis, y, penalty_matrix=block_diag(one, one))
    assert spectrum.n_unpenalised == 3
