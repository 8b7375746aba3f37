"""The choice among several methods: shared ridges, ties, paired differences, and what it gains."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV

import stoptime as st
from stoptime.stopping.rule import first_up_to_ties


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


def leaning(seed, decay, n=300, p=150, noise=0.5):
    """Return data whose signal leans towards the leading directions, and its excess risk."""
    rng = np.random.default_rng(seed)
    scale = np.arange(1, p + 1.0) ** -0.5
    X = rng.standard_normal((n, p)) * scale
    signs = rng.choice([-1.0, 1.0], p)
    beta = rng.standard_normal(p) if decay is None else signs * np.arange(1, p + 1.0) ** -decay
    beta /= np.linalg.norm(beta * scale)
    y = X @ beta + noise * rng.standard_normal(n)
    return X, y, lambda coef: float((((coef - beta) * scale) ** 2).sum())


def test_auto_is_the_family_and_the_default(diabetes):
    X, y = diabetes
    auto = st.StoppedRegressorCV("auto").fit(X, y)
    default = st.StoppedRegressorCV().fit(X, y)
    listed = st.StoppedRegressorCV(list(st.FAMILY)).fit(X, y)
    assert auto.method_ == default.method_ == listed.method_
    assert auto.stop_ == default.stop_ == listed.stop_
    assert [one.method for one in auto.choice_.candidates] == list(st.FAMILY)


def test_candidates_are_compared_row_by_row(diabetes):
    X, y = diabetes
    model = st.StoppedRegressorCV("auto").fit(X, y)
    own = st.left_out_residuals(X, y, model.method_, model.stop_) ** 2
    for one in model.choice_.candidates:
        squares = st.left_out_residuals(X, y, one.method, one.stop) ** 2
        assert one.error == pytest.approx(squares.mean(), rel=1e-9)
        assert one.behind == pytest.approx(one.error - model.choice_.error, abs=1e-9)
        spread = (squares - own).std(ddof=1) / np.sqrt(len(y))
        assert one.standard_error == pytest.approx(spread, rel=1e-6, abs=1e-6)
        assert one.behind >= -1e-4 * model.choice_.error


@pytest.mark.parametrize("options", [{"cv": 4}, {"rule": "path-gcv"}, {"rule": "sure"}])
def test_other_rules_compare_methods_too(options, diabetes):
    X, y = diabetes
    model = st.StoppedRegressorCV(["ridge", "gradient-flow"], **options).fit(X, y)
    errors = [
        st.StoppedRegressorCV(name, **options).fit(X, y).choice_.error
        for name in ("ridge", "gradient-flow")
    ]
    assert model.choice_.error == pytest.approx(min(errors), rel=1e-4)
    spreads = [one.standard_error for one in model.choice_.candidates]
    assert all((spread is None) == ("cv" not in options) for spread in spreads)


@pytest.mark.parametrize(("decay", "most"), [(0.5, 0.95), (1.0, 0.72), (2.0, 0.6), (None, 1.03)])
def test_the_family_predicts_better_where_signals_lean_and_as_well_where_not(decay, most):
    ridges = RidgeCV(alphas=np.geomspace(1e-8, 1e4, 100))
    ours = []
    theirs = []
    for seed in range(12):
        X, y, excess = leaning(seed, decay)
        ours.append(excess(st.StoppedRegressorCV("auto").fit(X, y).coef_))
        theirs.append(excess(ridges.fit(X, y).coef_))
    assert np.mean(ours) <= most * np.mean(theirs)


def test_the_first_of_equal_methods_is_taken():
    assert first_up_to_ties([1.00005, 1.0, 0.99999]) == 0
    assert first_up_to_ties([1.1, 1.0, 1.00001]) == 1
    assert first_up_to_ties([1e-15, 1e-30, 1.0], floor=1e-14) == 0


def test_rules_that_cannot_compare_methods_take_one(diabetes):
    X, y = diabetes
    assert st.StoppedRegressorCV(rule="discrepancy").fit(X, y).method_ == st.AcceleratedFlow()
    assert st.StoppedRegressorCV(rule="gcv").fit(X, y).method_ == st.Ridge()
    with pytest.raises(ValueError, match="cannot compare methods"):
        st.StoppedRegressorCV(["ridge", "gradient-flow"], rule="discrepancy").fit(X, y)
