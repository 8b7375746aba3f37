"""Intervals from refits: the nested jackknife+ and CV+ equal their definitions."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold, RepeatedKFold

import stoptime as st
from stoptime.estimators import refits


def order_statistics(pairs, confidence=0.9):
    """Return ends from centres of new rows, sizes of residuals and whole weights."""
    low, high = [], []
    for centre, size, weight in pairs:
        low += [centre - size] * int(weight)
        high += [centre + size] * int(weight)
    n = len(low)
    place = min(int(np.ceil(confidence * (n + 1) * (1 - 1e-12))), n)
    return np.stack([np.sort(low, axis=0)[n - place], np.sort(high, axis=0)[place - 1]], axis=-1)


def refitted(make, splits, X, y, weights, new):
    """Yield what order statistics are taken of, from a fit to every training set."""
    for train, test in splits:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", st.StopWarning)
            model = make().fit(X[train], y[train], weights[train])
        for row in test:
            yield model.predict(new), abs(y[row] - model.predict(X[[row]])[0]), weights[row]


def problem(rng, n=11, p=4, weighted=False):
    X = rng.standard_normal((n, p))
    y = X[:, 0] + rng.standard_normal(n)
    weights = rng.integers(1, 4, n) if weighted else np.ones(n)
    return X, y, weights, rng.standard_normal((6, p))


def one_by_one(n):
    return [(np.delete(np.arange(n), row), [row]) for row in range(n)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        st.StoppedRegressorCV,
        lambda: st.StoppedRegressorCV(["ridge", "nesterov-flow"], stops=[0.3, 1.0, 3.0]),
        lambda: st.StoppedRegressorCV("gradient-descent", stops=5, fit_intercept=False),
        lambda: st.StoppedRegressorCV("ridge", scoring="neg_mean_absolute_error"),
        lambda: st.StoppedRegressorCV("ridge", rule="path-gcv"),
        lambda: st.StoppedKernelRegressorCV("ridge", kernel="rbf", gamma=0.1),
    ],
)
def test_nested_intervals_choose_anew_without_each_row(make, weighted, rng):
    X, y, weights, new = problem(rng, weighted=weighted)
    model = make().fit(X, y, weights)
    expected = order_statistics(refitted(make, one_by_one(len(y)), X, y, weights, new))
    found = model.predict_interval(new, kind="nested")
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_nested_intervals_are_the_jackknife_plus_where_nothing_is_chosen(rng):
    X, y, _, new = problem(rng)
    model = st.StoppedRegressorCV("ridge", stops=[2.0]).fit(X, y)
    found = model.predict_interval(new, kind="nested")
    np.testing.assert_allclose(found, model.predict_interval(new), rtol=1e-9)


def test_nested_intervals_of_several_targets_at_their_own_stops(rng):
    X, y, _, new = problem(rng)
    both = np.stack([y, 3 * rng.standard_normal(len(y))], axis=1)
    model = st.StoppedRegressorCV("ridge", stops=[0.1, 1.0, 10.0], per_target=True).fit(X, both)
    found = model.predict_interval(new, kind="nested")
    for target in range(2):
        one = st.StoppedRegressorCV("ridge", stops=[0.1, 1.0, 10.0]).fit(X, both[:, target])
        expected = one.predict_interval(new, kind="nested")
        np.testing.assert_allclose(found[:, target], expected, rtol=1e-9)


def containers(X, y, weights):
    import dask.array as da

    yield X, y, weights
    yield sparse.csr_array(X), y, weights
    yield sparse.linalg.aslinearoperator(X), y, weights
    yield st.Chunks.of(X, y, weights, rows=7), None, None
    rows = da.from_array(X, chunks=(7, -1))
    yield rows, da.from_array(y, chunks=7), da.from_array(weights, chunks=7)


@pytest.mark.parametrize("weighted", [False, True])
def test_cv_plus_is_that_of_refits_for_data_of_any_kind(weighted, rng):
    X, y, weights, new = problem(rng, 30, 4, weighted)
    splits = list(KFold(4).split(X))
    for data in containers(X, y, weights):
        model = st.StoppedRegressorCV("nesterov-flow", stops=[0.5, 1.0, 2.0], cv=KFold(4)).fit(
            *data
        )

        def make(model=model):
            return st.StoppedRegressor(model.method_, model.stop_)

        expected = order_statistics(refitted(make, splits, X, y, weights, new))
        found = model.predict_interval(new, kind="cv+")
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_cv_plus_of_a_kernel_and_of_several_targets(rng):
    X, y, weights, new = problem(rng, 24, 3)
    splits = list(KFold(3).split(X))
    model = st.StoppedKernelRegressorCV(
        "ridge", stops=[1.0, 5.0], cv=splits, kernel="rbf", gamma=0.3
    ).fit(X, y)

    def make():
        return st.StoppedKernelRegressor("ridge", model.stop_, gamma=0.3)

    expected = order_statistics(refitted(make, splits, X, y, weights, new))
    np.testing.assert_allclose(model.predict_interval(new, kind="cv+"), expected, rtol=1e-8)
    both = np.stack([y, -y], axis=1)
    several = st.StoppedRegressorCV("ridge", stops=[1.0], cv=3).fit(X, both)
    ends = several.predict_interval(new, kind="cv+")
    np.testing.assert_allclose(ends[:, 0], -ends[:, 1, ::-1], rtol=1e-12)


def test_kinds_that_need_other_fits_are_refused_with_advice(rng):
    X, y, _, new = problem(rng)
    with pytest.raises(ValueError, match="needs the folds of cross-validation: fit with cv=5"):
        st.StoppedRegressorCV("ridge").fit(X, y).predict_interval(new, kind="cv+")
    with pytest.raises(ValueError, match='without folds: use "cv\\+"'):
        st.StoppedRegressorCV("ridge", cv=3).fit(X, y).predict_interval(new, kind="nested")
    streamed = st.StoppedRegressorCV("ridge", rule="path-gcv").fit(st.Chunks.of(X, y, rows=4))
    with pytest.raises(ValueError, match="rows that can be read again"):
        streamed.predict_interval(new, kind="nested")
    twice = RepeatedKFold(n_splits=2, n_repeats=2, random_state=0)
    with pytest.raises(ValueError, match="needs folds that test no row twice"):
        st.StoppedRegressorCV("ridge", cv=twice).fit(X, y).predict_interval(new, kind="cv+")


def test_a_pickle_has_its_rows_or_its_intervals(rng):
    X, y, _, new = problem(rng)
    model = st.StoppedRegressorCV("ridge").fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    expected = model.predict_interval(new, kind="nested")
    np.testing.assert_array_equal(again.predict_interval(new, kind="nested"), expected)
    streamed = st.StoppedRegressorCV("ridge", cv=2).fit(st.Chunks.of(X, y, rows=4))
    with pytest.raises(ValueError, match="ask for one interval of this kind before you pickle"):
        pickle.loads(pickle.dumps(streamed)).predict_interval(new, kind="cv+")
    expected = streamed.predict_interval(new, kind="cv+")
    again = pickle.loads(pickle.dumps(streamed))
    np.testing.assert_array_equal(again.predict_interval(new, kind="cv+"), expected)


def test_many_refits_are_announced(monkeypatch, rng):
    X, y, _, new = problem(rng)
    monkeypatch.setattr(refits, "MANY_REFITS", 10)
    model = st.StoppedRegressorCV("ridge").fit(X, y)
    with pytest.warns(UserWarning, match="anew without each row takes 11 fits"):
        model.predict_interval(new, kind="nested")
