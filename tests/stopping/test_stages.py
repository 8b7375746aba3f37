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
            patch.setattr(leave_one_out.LeaveOneOut, "_searched", CurveRule._searched)
            patch.setattr(leave_one_out.LeaveOneOut, "_far", CurveRule._far)
            patch.setattr(leave_one_out.LeaveOneOut, "_near", CurveRule._near)
            whole = st.StoppedRegressorCV(method, stops=120).fit(X, y)
        assert staged.choice_.error <= (1 + AS_GOOD) * whole.choice_.error, name
        assert len(staged.stops_) <= len(whole.stops_) + 1, name


def test_late_stops_of_ill_conditioned_data_are_not_looked_at():
    X, y = load_diabetes(return_X_y=True)
    model = st.StoppedRegressorCV("nesterov-flow").fit(quadratic(X), y)
    finite = model.stops_[np.isfinite(model.stops_)]
    settled = st.default_stops(st.decompose(quadratic(X), y), "nesterov-flow")[-2]
    assert finite.max() < settled / 100


def test_given_stops_are_all_looked_at():
    X, y = load_diabetes(return_X_y=True)
    stops = [1.0, 10.0, 1e6]
    np.testing.assert_array_equal(st.StoppedRegressorCV(stops=stops).fit(X, y).stops_, stops)
