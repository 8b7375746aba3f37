"""Defects that were found by review, each as the behaviour that is wanted.

Nothing here is timed; where a defect was one of time, its consequence is tested.
"""

import pickle
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneOut
from sklearn.preprocessing import OneHotEncoder

import stoptime as st
from contract import dense_grid, made, names_of_family, refit, residuals_of, without

CLOSE = 1.001  # times the least error of a dense grid: a promise of the documentation


def fitted(X, y, method="auto", sample_weight=None, **options):
    """Fit without warnings about the last stop, which other tests look at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", st.StopWarning)
        return st.StoppedRegressorCV(method, **options).fit(X, y, sample_weight)


def plain(n=60, p=6, seed=0, noise=1.0):
    rng = np.random.default_rng([31, seed])
    X = rng.normal(size=(n, p)) * np.arange(1, p + 1.0) ** -0.5
    return X, X @ rng.normal(size=p) + noise * rng.normal(size=n)


def error_at(X, y, method, stop, **options):
    curve = st.leave_one_out(X, y, method, [stop], standard_errors=False, **options)
    return float(curve.errors[0])


def least_of_family(X, y, **options):
    """Return the least left-out error of dense grids of all methods that "auto" compares."""
    spectrum = st.decompose(X, y, **options)
    return min(
        st.leave_one_out(
            X, y, made(name, 1.0), dense_grid(name, spectrum), standard_errors=False, **options
        ).errors.min()
        for name in names_of_family()
    )


# ---------------------------------------------------------------- the simplest method


SMOOTH = ["ridge", "gradient-flow", "critical-flow"]


def test_the_simplest_method_is_preferred_with_folds():
    """Ridge is behind by a twentieth of the standard error, over rows as over folds."""
    X, y = plain(n=100, p=12, seed=10, noise=2.0)
    best = fitted(X, y, SMOOTH, cv=5)
    assert best.method_ != st.Ridge()
    assert fitted(X, y, "ridge", cv=5).choice_.error < 1.001 * best.choice_.error
    assert fitted(X, y, SMOOTH, cv=5, prefer_simple=True).method_ == st.Ridge()


@pytest.mark.parametrize("targets", [4, 20])
def test_the_simplest_method_is_preferred_with_many_targets(targets, diabetes):
    X, y = diabetes
    assert fitted(X, y).method_ != st.Ridge()
    assert fitted(X, y, prefer_simple=True).method_ == st.Ridge()
    many = fitted(X, np.column_stack([y] * targets), prefer_simple=True)
    assert many.method_ == st.Ridge()


@pytest.mark.parametrize("options", [{}, {"cv": 5}], ids=["loo", "folds"])
def test_a_method_that_is_clearly_better_is_kept(options):
    """The signal is in the first three of sixty directions, which ridge cannot single out.

    Ridge is behind by 2.5 to 3 standard errors, over rows as over folds.
    """
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 60)) * np.where(np.arange(60) < 3, 3.0, 0.5)
    y = X[:, :3] @ np.ones(3) + 2 * rng.normal(size=400)
    model = fitted(X, y, SMOOTH, prefer_simple=True, **options)
    assert model.method_ != st.Ridge()


# ---------------------------------------------------------------- one standard error


def test_one_standard_error_chooses_the_method_first(diabetes):
    X, y = diabetes
    assert fitted(X, y, rule="one-standard-error").method_ == fitted(X, y).method_


@pytest.mark.parametrize("method", ["ridge", "gradient-flow", st.AcceleratedFlow(9.0)], ids=str)
def test_one_standard_error_takes_the_earliest_stop_within_it(method, diabetes):
    X, y = diabetes
    stops = np.geomspace(10.0, 1e5, 60)
    squares = np.array([st.left_out_residuals(X, y, method, stop) ** 2 for stop in stops])
    errors = squares.mean(axis=1)
    best = np.argmin(errors)
    limit = errors[best] + squares[best].std(ddof=1) / np.sqrt(len(y))
    found = fitted(X, y, method, stops=stops, rule="one-standard-error")
    assert found.stop_ == stops[np.argmax(errors <= limit)] < stops[best]


# ---------------------------------------------------------------- candidates


def assert_candidates_have_left_out_errors(X, y, model):
    for one in model.choice_.candidates:
        curve = st.leave_one_out(X, y, one.method, [float(one.stop)], standard_errors=False)
        # both are exact, and differ by rounding
        assert one.error == pytest.approx(curve.errors.mean(), rel=1e-7), one.method


@pytest.mark.parametrize("targets", [4, 17])
def test_candidates_of_many_targets_have_left_out_errors(targets, diabetes):
    X, y = diabetes
    Y = np.column_stack([y] * targets)
    assert_candidates_have_left_out_errors(X, Y, fitted(X, Y))


def test_candidates_without_a_chance_have_left_out_errors():
    """With thousands of rows for each column, least squares is nearly the best of all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((16_000, 3)) * [1, 0.1, 0.01]
    y = X @ [1, 10, 100] + rng.standard_normal(16_000)
    assert_candidates_have_left_out_errors(X, y, fitted(X, y))


@pytest.mark.parametrize("targets", [4, 16])
def test_left_out_errors_decide_the_method_of_many_targets(targets):
    """A few rows of high leverage mislead path GCV, which sees an average row."""
    chosen = []
    for seed in range(6):
        rng = np.random.default_rng([37, seed])
        X = rng.normal(size=(80, 20)) * np.arange(1, 21.0) ** -0.7
        X[:3] *= 8
        y = X @ (rng.normal(size=20) * np.arange(1, 21.0) ** -0.5) + 2 * rng.standard_t(3, 80)
        alone = fitted(X, y)
        many = fitted(X, np.column_stack([y] * targets))
        chosen.append((alone.method_, many.method_))
    assert all(one == other for one, other in chosen), chosen


# ---------------------------------------------------------------- stops


@pytest.mark.parametrize("method", ["auto", "nesterov-flow"])
def test_no_stop_occurs_nearly_twice(method, diabetes):
    X, y = diabetes
    model = fitted(X, y, method)
    stops = model.stops_[np.isfinite(model.stops_) & (model.stops_ > 0)]
    assert (np.diff(stops) > 0).all()
    # a search may come close to the chosen stop; pairs that are 1/(2n) apart are an artefact
    far = (stops < 0.8 * model.stop_) | (stops > 1.2 * model.stop_)
    gaps = np.diff(stops)[far[1:] & far[:-1]] / stops[1:][far[1:] & far[:-1]]
    assert gaps.min() > 1 / len(y)


def test_stops_without_a_method_are_refused(diabetes):
    X, y = diabetes
    with pytest.raises(ValueError, match=r"(?i)method"):
        st.StoppedRegressorCV(stops=[1.0, 10.0, 100.0]).fit(X, y)
    with pytest.raises(ValueError, match=r"(?i)method"):
        st.StoppedRegressorCV("auto", stops=np.array([1.0, 10.0])).fit(X, y)


@pytest.mark.parametrize("method", ["auto", "ridge", "nesterov-flow", "gradient-descent"])
def test_leave_one_out_as_a_splitter_is_the_rule(method):
    X, y = plain(n=40)
    rule = fitted(X, y, method)
    splitter = fitted(X, y, method, cv=LeaveOneOut())
    assert splitter.method_ == rule.method_
    assert splitter.stop_ == rule.stop_
    assert splitter.choice_.error == rule.choice_.error


# ---------------------------------------------------------------- rules


def test_gcv_refuses_to_compare_methods():
    X, y = plain()
    with pytest.raises(ValueError, match="path-gcv") as refusal:
        st.StoppedRegressorCV(["ridge", "gradient-flow"], rule="gcv").fit(X, y)
    assert "loo" in str(refusal.value)


def interpolating():
    """Weighted rows, fewer than columns: the estimate of the noise is zero."""
    rng = np.random.default_rng(9)
    n, p = rng.choice([10, 30]), rng.choice([2, 6, 15])
    X = rng.normal(size=(n, p))
    y = X @ rng.normal(size=p) + rng.normal(size=n)
    return X, y, rng.integers(1, 4, n).astype(float)


@pytest.mark.parametrize("method", ["ridge", "nesterov-flow", "gradient-descent", "nesterov"])
def test_discrepancy_ends_with_the_grid(method):
    X, y, weights = interpolating()
    assert X.shape == (10, 15)
    grid = st.default_stops(st.decompose(X, y, weights), method)
    model = fitted(X, y, method, weights, rule="discrepancy")
    # least squares is the end of the grid of a flow; no finite stop lies beyond it
    assert model.stop_ == grid[-1] or model.stop_ <= grid[np.isfinite(grid)].max()


def test_path_gcv_is_one_number():
    X, y = plain(n=30, p=40)
    stops = np.array([0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0])
    rule = fitted(X, y, "nesterov-flow", rule="path-gcv", stops=stops)
    expected = st.path_gcv(st.decompose(X, y), "nesterov-flow", stops)
    np.testing.assert_allclose(rule.errors_, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("nesterov-flow", {"rule": "gcv"}, "inconsistent"),
        ("ridge", {"rule": st.Discrepancy(noise=1e-9), "stops": [0.1, 1.0]}, "never falls"),
        ("ridge", {"rule": "l-curve"}, "no corner"),
    ],
)
def test_warnings_point_to_the_line_that_fits(method, options, message):
    X, y = plain(noise=10.0)
    with pytest.warns(UserWarning, match=message) as caught:
        st.StoppedRegressorCV(method, **options).fit(X, y)
    own = [one for one in caught if message in str(one.message)]
    assert {one.filename for one in own} == {__file__}
    assert len(own) == 1


@pytest.mark.parametrize("name", ["gradient-descent", "nesterov"])
def test_one_named_iteration_has_one_step(name):
    """Rules that leave no single row out need no shorter step."""
    X, y = plain(n=30)
    expected = st.StoppedRegressor(name, stop=5).fit(X, y).method_
    for options in ({"rule": "sure"}, {"rule": "path-gcv"}, {"cv": 5}):
        assert fitted(X, y, name, **options).method_ == expected, options


# ---------------------------------------------------------------- weights and precision


def test_rows_of_weight_zero_are_no_rows():
    X, y = plain(n=80)
    weights = (np.arange(80) % 3 > 0).astype(float)
    found = fitted(X, y, sample_weight=weights)
    expected = fitted(X[weights > 0], y[weights > 0])
    assert found.method_ == expected.method_
    assert found.stop_ == pytest.approx(expected.stop_, rel=1e-6)
    assert found.choice_.error == pytest.approx(expected.choice_.error, rel=1e-9)


def test_one_heavy_row_is_searched_as_well_as_none():
    X, y = plain(n=100, p=12)
    weights = np.ones(100)
    weights[7] = 11.0  # a tenth of the whole
    model = fitted(X, y, sample_weight=weights)
    options = {"sample_weight": weights}
    error = error_at(X, y, model.method_, model.stop_, **options)
    assert error <= CLOSE * least_of_family(X, y, **options)
    assert model.choice_.error == pytest.approx(error, rel=1e-7)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_tensors_of_single_precision_are_single_precision():
    import torch

    X, y = (values.astype(np.float32) for values in plain())
    tensors = torch.from_numpy(X), torch.from_numpy(y)
    found = np.asarray(st.left_out_residuals(*tensors, "nesterov-flow", 2.0))
    expected = st.left_out_residuals(X, y, "nesterov-flow", 2.0)
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * np.finfo(np.float32).eps * 3)
    model = fitted(*tensors)
    assert np.asarray(model.coef_).dtype == np.float32


def far_from_zero(seed):
    """Return a few rows whose means are far larger than their spread."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([3, 4, 5]))
    p = int(rng.integers(1, 6))
    ratio = 10.0 ** rng.uniform(1, 7)
    X = rng.normal(size=(n, p)) + ratio * rng.normal(size=p) * (rng.random(p) < 0.7)
    return X, rng.normal(size=n)


@pytest.mark.parametrize("seed", [5467, 5732, 250])
def test_few_rows_far_from_zero_keep_their_digits(seed):
    """Centring loses eps times mean over spread, and the fit multiplies it by its condition."""
    X, y = far_from_zero(seed)
    condition = 1.0
    for row in range(len(X)):
        kept = X[without(row, len(X))]
        values = np.linalg.svd(kept - kept.mean(axis=0), compute_uv=False)
        rank = min(len(X) - 2, X.shape[1])
        condition = max(condition, values[0] / values[rank - 1])
    lost = np.finfo(float).eps * np.abs(X).max() / X.std(axis=0).min() * condition
    expected = residuals_of(y, refit(X, y, st.Ridge(), np.array([np.inf])))[0, :, 0]
    found = st.left_out_residuals(X, y, "ridge", np.inf)
    assert np.abs(found - expected).max() <= 3 * lost * np.abs(expected).max()


# ---------------------------------------------------------------- estimators


def test_auto_means_the_same_for_regressors_and_classifiers():
    X, y = plain()
    outcomes = []
    for model, target in (
        (st.StoppedRegressor("auto", stop=3.0), y),
        (st.StoppedClassifier("auto", stop=3.0), (y > 0).astype(int)),
    ):
        try:
            model.fit(X, target)
            outcomes.append("fitted")
        except ValueError:
            outcomes.append("refused")
    assert len(set(outcomes)) == 1, outcomes


def test_methods_in_an_array_are_a_list_of_methods():
    X, y = plain()
    names = ["ridge", "gradient-flow"]
    assert fitted(X, y, np.array(names)).method_ == fitted(X, y, names).method_


def test_bands_have_no_penalty_that_fails():
    X, y = plain()
    model = st.BandedRegressorCV(np.arange(6) % 2).fit(X, y)
    try:
        assert np.isfinite(model.alpha_).all()
    except AttributeError as missing:
        assert "alpha_" in str(missing)  # noqa: PT017 - either a number or a plain refusal


def calls_of_the_package(action):
    """Return how many functions of the package an action calls, and its result."""
    calls = 0

    def note(frame, event, _):
        nonlocal calls
        calls += event == "call" and frame.f_globals.get("__name__", "").startswith("stoptime")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = action()
    finally:
        sys.setprofile(before)
    return calls, result


KEEPING = [{}, {"method": "ridge"}, {"rule": "sure", "method": "ridge"}, {"cv": 4}]
FEW_CALLS = 200  # to collect the state: about 50; a pass over a million rows takes thousands


@pytest.mark.parametrize("keeps_rows", [True, False])
@pytest.mark.parametrize("options", KEEPING, ids=str)
def test_pickling_computes_nothing(options, keeps_rows, monkeypatch):
    if not keeps_rows:
        monkeypatch.setattr("stoptime.left_out.predictions.MOST_PICKLED", 10)
        monkeypatch.setattr("stoptime.stopping.comparison.MOST_PICKLED", 10)
    X, y = plain()
    model = fitted(X, y, **options)
    calls, content = calls_of_the_package(lambda: pickle.dumps(model))
    assert calls < FEW_CALLS
    again = pickle.loads(content)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("changed", ["X", "y"])
@pytest.mark.parametrize("options", KEEPING, ids=str)
def test_intervals_are_refused_where_the_training_rows_were_changed(options, changed):
    X, y = plain()
    new = X[:5] + 0.3
    held = {"X": X.copy(), "y": y.copy()}
    model = fitted(held["X"], held["y"], **options)
    expected = fitted(X, y, **options).predict_interval(new)
    np.testing.assert_array_equal(fitted(X, y, **options).predict_interval(new), expected)
    held[changed][:] = 3 * held[changed][::-1]
    for one in (model, pickle.loads(pickle.dumps(model))):
        with pytest.raises(ValueError, match="changed after fit"):
            one.predict_interval(new)


def test_summaries_are_refused_where_the_training_rows_were_changed():
    X, y = plain()
    model = fitted(X, y)
    model.summary()
    X *= 2
    with pytest.raises(ValueError, match="changed after fit"):
        model.summary()


# ---------------------------------------------------------------- cliffs


def little_noise(n, lowest, noise):
    """Return thirty columns that explain nearly all of the response."""
    rng = np.random.default_rng(0)
    mixed = np.diag(np.geomspace(1, lowest, 30)) @ rng.normal(size=(30, 30))
    X = rng.normal(size=(n, 30)) @ mixed
    return X, X[:, 0] + noise * rng.normal(size=n)


def powers():
    """Return the first twelve powers of a variable."""
    rng = np.random.default_rng(0)
    X = np.vander(rng.uniform(-1, 1, 160), 13, increasing=True)[:, 1:]
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=160)


def levels():
    """Return a table of levels, some of which occur once."""
    rng = np.random.default_rng(1)
    table = np.column_stack([rng.zipf(1.6, 400).clip(max=40), rng.integers(0, 8, 400)])
    X = np.hstack([OneHotEncoder(sparse_output=False).fit_transform(table), 50 * table[:, :1]])
    return X, X @ rng.normal(size=X.shape[1]) + 5 * rng.normal(size=400)


CLIFFS = {
    "little noise": lambda: little_noise(300, 1.0, 1e-3),
    "little noise, falling": lambda: little_noise(300, 1e-2, 1e-2),
    "powers of a variable": powers,
    "a table of levels": levels,
}


@pytest.mark.parametrize("name", CLIFFS)
def test_the_choice_is_good_where_the_search_is_hard(name):
    X, y = CLIFFS[name]()
    model = fitted(X, y)
    error = error_at(X, y, model.method_, model.stop_)
    assert error <= CLOSE * least_of_family(X, y)
    assert model.choice_.error == pytest.approx(error, rel=1e-6)
    # a grid that follows every wave of the slowest direction has tens of thousands
    assert len(model.stops_) <= 1000


@pytest.mark.parametrize("targets", [6, 8, 13])
@pytest.mark.parametrize("by", ["hold-out", "folds"])
def test_one_small_column_and_many_targets(by, targets):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 40))
    X[:, -1] *= 1e-4
    Y = X[:, :targets] + 2 * rng.standard_normal((160, targets))
    stops = np.append(0.0, np.geomspace(0.01, 300, 300))
    if by == "hold-out":
        options = {"rule": st.HoldOut(X[80:], Y[80:])}
        splits = [(np.arange(80), np.arange(80, 160))]
        model = fitted(X[:80], Y[:80], "nesterov-flow", **options)
    else:
        folds = np.arange(160) % 5
        splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(5)]
        model = fitted(X, Y, "nesterov-flow", cv=splits)
    squares = []
    for train, test in splits:
        drawn = st.path(X[train], Y[train], "nesterov-flow", np.append(stops, model.stop_))
        squares.append(((drawn.predict(X[test]) - Y[test]) ** 2).mean(axis=(1, 2)))
    errors = np.mean(squares, axis=0)
    assert errors[-1] <= CLOSE * errors[:-1].min()
    assert np.mean(model.choice_.error) == pytest.approx(errors[-1], rel=1e-6)


def with_the_answer(n, seed):
    """Return columns of which one is the response."""
    rng = np.random.default_rng([43, seed])
    X = rng.normal(size=(n, 6))
    y = (X[:, 0] > 0).astype(float)
    return np.column_stack([X, y]), y


@pytest.mark.parametrize("n", [100, 500, 2000])
def test_columns_that_determine_the_response_are_named_and_ridge_is_chosen(n):
    for seed in range(3):
        X, y = with_the_answer(n, seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = st.StoppedRegressorCV().fit(X, y)
        assert model.method_ == st.Ridge()
        np.testing.assert_allclose(model.predict(X), y, atol=1e-6)
        said = " ".join([model.choice_.message, *(str(one.message) for one in caught)])
        assert "determine" in said


@pytest.mark.parametrize("ratio", [1e7, 1e8, 1e10])
def test_columns_of_very_different_spread_are_fitted_or_named(ratio):
    for seed in range(3):
        rng = np.random.default_rng([41, seed])
        large = ratio * 0.01 * (5 + rng.normal(size=200))
        small = 0.05 + 0.01 * rng.normal(size=200)
        y = small + 0.1 * small.std() * rng.normal(size=200)
        X = np.column_stack([large, small])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = st.StoppedRegressorCV().fit(X, y)
        named = any("column" in str(one.message) for one in caught)
        assert model.score(X, y) > 0.9 or named, f"draw {seed}"
