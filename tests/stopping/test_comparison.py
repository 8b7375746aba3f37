"""The choice among several methods: shared ridges, ties, paired differences, and what it gains."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV

import stoptime as st
from stoptime.left_out.first_look import FirstLook
from stoptime.left_out.ladder import WORST_FIT, Ladder
from stoptime.stopping import comparison


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
        assert one.error == pytest.approx(squares.mean(), rel=1e-3)
        assert one.behind == pytest.approx(one.error - model.choice_.error, abs=1e-9)
        spread = (squares - own).std(ddof=1) / np.sqrt(len(y))
        assert one.standard_error == pytest.approx(spread, rel=0.05, abs=1e-6)
        assert one.behind >= -1e-4 * model.choice_.error


@pytest.mark.parametrize("method", st.FAMILY, ids=str)
def test_a_rough_candidate_is_nearly_as_good_as_its_own_search(method, diabetes):
    X, y = diabetes
    auto = st.StoppedRegressorCV("auto").fit(X, y)
    alone = st.StoppedRegressorCV(method).fit(X, y)
    (found,) = [one for one in auto.choice_.candidates if one.method == method]
    assert found.error == pytest.approx(alone.choice_.error, rel=2e-3)


def test_the_simplest_method_is_kept_on_request(diabetes):
    X, y = diabetes
    best = st.StoppedRegressorCV("auto").fit(X, y)
    simple = st.StoppedRegressorCV("auto", prefer_simple=True).fit(X, y)
    ridge = best.choice_.candidates[0]
    assert ridge.behind < ridge.standard_error
    assert best.method_ != simple.method_ == st.Ridge()
    X, y, _ = leaning(0, 2.0)
    clear = st.StoppedRegressorCV("auto", prefer_simple=True).fit(X, y)
    ridge = clear.choice_.candidates[0]
    assert (clear.method_ == st.Ridge()) == (ridge.behind <= ridge.standard_error)


def test_the_first_of_equal_methods_is_taken():
    choices = [st.Choice(1.0, error, None, None, "") for error in (1.00005, 1.0, 0.99999)]
    assert comparison.first_of_least(choices) == 0
    choices = [st.Choice(1.0, error, None, None, "") for error in (1.1, 1.0, 1.00001)]
    assert comparison.first_of_least(choices) == 1


def test_given_stops_and_the_discrepancy_principle_take_one_method(diabetes):
    X, y = diabetes
    assert st.StoppedRegressorCV(stops=[1.0, 10.0]).fit(X, y).method_ == st.AcceleratedFlow()
    assert st.StoppedRegressorCV(rule="discrepancy").fit(X, y).method_ == st.AcceleratedFlow()
    with pytest.raises(ValueError, match="cannot compare methods"):
        st.StoppedRegressorCV(["ridge", "gradient-flow"], rule="discrepancy").fit(X, y)


@pytest.mark.parametrize("options", [{"cv": 4}, {"rule": "path-gcv"}, {"rule": "sure"}])
def test_other_rules_compare_methods_too(options, diabetes):
    X, y = diabetes
    model = st.StoppedRegressorCV(["ridge", "gradient-flow"], **options).fit(X, y)
    errors = [
        st.StoppedRegressorCV(name, **options).fit(X, y).choice_.error
        for name in ("ridge", "gradient-flow")
    ]
    assert model.choice_.error == pytest.approx(min(errors), rel=1e-4)
    assert all(one.standard_error is None for one in model.choice_.candidates)


@pytest.mark.parametrize(
    "method",
    [st.Ridge(), st.GradientFlow(), st.CriticalFlow(), st.IteratedRidge(3)],
    ids=str,
)
@pytest.mark.parametrize("condition", [1e2, 1e12])
def test_smooth_methods_are_nearly_mixtures_of_real_ridges(method, condition):
    s = np.geomspace(1 / condition, 1, 50)
    ladder = Ladder.over(s, 1.1)
    last = np.sqrt(condition) if method.order == 2 else condition
    stops = np.geomspace(0.01, 6 * last, 60)
    mixture = ladder.mixture(method, stops, 1.1)
    between = np.geomspace(1e-3 / condition, 1, 500)
    found = mixture.shrinkages(between) @ mixture.weights[0]
    expected = method.shrinkage(1.1 * between[:, None], stops)
    assert np.abs(found - expected).max() < WORST_FIT


def test_a_filter_that_oscillates_is_no_mixture_of_real_ridges():
    ladder = Ladder.over(np.array([0.01, 1.0]), 1.0)
    assert ladder.mixture(st.AcceleratedFlow(), np.array([20.0]), 1.0) is None


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


def test_many_targets_are_compared_by_path_gcv(rng):
    X = rng.standard_normal((80, 12)) * np.arange(1, 13) ** -1.0
    Y = X @ rng.standard_normal((12, 5)) + rng.standard_normal((80, 5))
    model = st.StoppedRegressorCV("auto").fit(X, Y)
    alone = st.StoppedRegressorCV(model.method_).fit(X, Y)
    assert model.stop_ == pytest.approx(alone.stop_, rel=1e-9)
    assert model.choice_.error == pytest.approx(alone.choice_.error, rel=1e-9)
    behind = [one.behind for one in model.choice_.candidates]
    assert min(behind) >= -1e-3 * model.choice_.error
    assert len(behind) == len(st.FAMILY)
    every = [st.StoppedRegressorCV(one).fit(X, Y).choice_.error for one in st.FAMILY]
    assert model.choice_.error <= 1.02 * min(every)


def test_methods_that_cannot_gain_are_not_searched(monkeypatch):
    """With 5000 rows for each column, least squares is within a thousandth of the best."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((16000, 3)) * [1, 0.1, 0.01]
    y = X @ [1, 10, 100] + rng.standard_normal(16000)
    looked = []
    errors = FirstLook.errors

    def counted(self, looks, *args, **options):
        looked.extend(method for method, _ in looks)
        return errors(self, looks, *args, **options)

    monkeypatch.setattr(FirstLook, "errors", counted)
    model = st.StoppedRegressorCV().fit(X, y)
    assert looked == [method for method in st.FAMILY if method.is_smooth]
    for one in model.choice_.candidates:
        alone = st.StoppedRegressorCV(one.method).fit(X, y)
        assert one.error == pytest.approx(alone.choice_.error, rel=1e-4)
        assert model.choice_.error <= alone.choice_.error * (1 + 1e-3)


@pytest.mark.parametrize("seed", [23, 37, 38, 69, 107, 114])
def test_no_method_alone_has_a_lower_error_than_the_best_of_all(seed):
    """Where noise is small, the best stop may be an oscillation after the end of the grid."""
    rng = np.random.default_rng(seed + (0 if seed < 100 else 30))
    n, p = int(rng.integers(40, 200)), int(rng.integers(3, 30))
    X = rng.normal(size=(n, p)) * np.arange(1, p + 1) ** -rng.uniform(0, 2)
    y = X @ rng.normal(size=p) + 10 ** rng.uniform(-2, 0.5) * rng.normal(size=n)
    best = st.StoppedRegressorCV().fit(X, y).choice_.error
    alone = [st.StoppedRegressorCV(method).fit(X, y).choice_.error for method in st.FAMILY]
    assert best <= min(alone) * 1.001
