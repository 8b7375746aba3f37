"""The choice among several methods: ties, paired differences, simplicity, and what it gains."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

import stoptime as st
from contract import fitted
from stoptime.stopping.rule import first_up_to_ties

SMOOTH = ["ridge", "gradient-flow", "critical-flow"]


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
    auto = st.StoppedRegressorCV("auto").fit(*diabetes)
    default = st.StoppedRegressorCV().fit(*diabetes)
    listed = st.StoppedRegressorCV(list(st.FAMILY)).fit(*diabetes)
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
        if model.method_ == st.Ridge():
            assert one.behind >= -0.5 * spread


def many_rows():
    """Return thousands of rows for each column, where least squares is nearly the best of all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((16_000, 3)) * [1, 0.1, 0.01]
    return X, X @ [1, 10, 100] + rng.standard_normal(16_000)


@pytest.mark.parametrize("targets", [4, 17, None])
def test_candidates_of_many_targets_and_without_a_chance_have_left_out_errors(targets, diabetes):
    X, y = many_rows() if targets is None else diabetes
    Y = y if targets is None else np.column_stack([y] * targets)
    for one in fitted("auto", X, Y).choice_.candidates:
        curve = st.leave_one_out(X, Y, one.method, [float(one.stop)], standard_errors=False)
        # both are exact, and differ by rounding
        assert one.error == pytest.approx(curve.errors.mean(), rel=1e-7), one.method


@pytest.mark.parametrize("targets", [4, 16])
def test_left_out_errors_decide_the_method_of_many_targets(targets):
    """A few rows of high leverage mislead path GCV, which sees an average row."""
    chosen = []
    for seed in range(6):
        rng = np.random.default_rng([37, seed])
        X = rng.normal(size=(80, 20)) * np.arange(1, 21.0) ** -0.7
        X[:3] *= 8
        y = X @ (rng.normal(size=20) * np.arange(1, 21.0) ** -0.5) + 2 * rng.standard_t(3, 80)
        alone = fitted("auto", X, y)
        many = fitted("auto", X, np.column_stack([y] * targets))
        chosen.append((alone.method_, many.method_))
    assert all(one == other for one, other in chosen), chosen


@pytest.mark.parametrize("options", [{"cv": 4}, {"rule": "path-gcv"}, {"rule": "sure"}])
def test_other_rules_compare_methods_too(options, diabetes):
    names = ["ridge", "gradient-flow"]
    model = st.StoppedRegressorCV(names, **options).fit(*diabetes)
    errors = [st.StoppedRegressorCV(name, **options).fit(*diabetes).choice_.error for name in names]
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


@pytest.mark.parametrize("factor", [1.0, 1e9])
def test_scores_of_any_sign_compare_methods(diabetes, factor):
    """R² on left-out predictions orders methods as the squared error does, in any unit."""
    X, y = diabetes
    by_error = st.StoppedRegressorCV(st.FAMILY).fit(X, factor * y)
    best = min(by_error.choice_.candidates, key=lambda one: one.error)
    by_score = st.StoppedRegressorCV(st.FAMILY, scoring="r2").fit(X, factor * y)
    # scores have no standard errors, so the best one is taken
    assert by_score.method_ == best.method != st.FAMILY[0]
    assert by_score.choice_.error == min(one.error for one in by_score.choice_.candidates)
    assert "determine" not in by_score.choice_.message


def test_rules_that_cannot_compare_methods_take_one(diabetes):
    assert st.StoppedRegressorCV(rule="discrepancy").fit(*diabetes).method_ == st.AcceleratedFlow()
    assert st.StoppedRegressorCV(rule="gcv").fit(*diabetes).method_ == st.Ridge()
    for rule in ("discrepancy", "ncp", "l-curve"):
        with pytest.raises(ValueError, match="cannot compare methods"):
            st.StoppedRegressorCV(["ridge", "gradient-flow"], rule=rule).fit(*diabetes)
    with pytest.raises(ValueError, match=r"path-gcv.*loo|loo.*path-gcv"):
        st.StoppedRegressorCV(["ridge", "gradient-flow"], rule="gcv").fit(*diabetes)


# ---------------------------------------------------------------- the simplest method


@pytest.mark.parametrize("options", [{}, {"cv": 5}, {"targets": 4}, {"targets": 20}], ids=str)
def test_the_first_method_is_kept_unless_another_is_better_by_a_margin(options):
    """The best one is better by any part of a standard error, over rows as over folds."""
    options = dict(options)
    targets = options.pop("targets", 1)
    seen = set()
    for seed in range(24):
        rng = np.random.default_rng([31, seed])
        X = rng.normal(size=(100, 12)) * np.arange(1, 13.0) ** -0.5
        y = X @ (rng.normal(size=12) * np.arange(1, 13.0) ** -1.0) + rng.normal(size=100)
        Y = y if targets == 1 else np.stack([y] * targets, 1)
        ridge, *others = fitted(SMOOTH, X, Y, **options).choice_.candidates
        best = min(others, key=lambda one: one.error)
        # candidates are compared with the chosen one, so the one that was not chosen has the spread
        gain = (ridge.error - best.error) / max(ridge.standard_error, best.standard_error)
        for simple, margin in ((False, 0.5), (True, 1.0)):
            model = fitted(SMOOTH, X, Y, prefer_simple=simple, **options)
            assert (model.method_ == st.Ridge()) == (gain <= margin), seed
        seen.add(float(np.clip(np.floor(2 * gain), -1, 2)))
    assert seen == {-1.0, 0.0, 1.0, 2.0}


@pytest.mark.parametrize("options", [{}, {"cv": 5}], ids=["loo", "folds"])
def test_a_method_that_is_clearly_better_is_kept(options):
    """The signal is in the first three of sixty directions, which ridge cannot single out.

    Ridge is behind by 2.5 to 3 standard errors, over rows as over folds.
    """
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 60)) * np.where(np.arange(60) < 3, 3.0, 0.5)
    y = X[:, :3] @ np.ones(3) + 2 * rng.normal(size=400)
    assert fitted(SMOOTH, X, y, prefer_simple=True, **options).method_ != st.Ridge()
