"""Intervals from refits: the nested jackknife+ and CV+ equal their definitions."""

import pickle

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold, RepeatedKFold

import stoptime as st
from contract import interval_of_refits, one_by_one


def problem(rng, n=11, p=4, weighted=False):
    X = rng.standard_normal((n, p))
    y = X[:, 0] + rng.standard_normal(n)
    weights = rng.integers(1, 4, n) if weighted else np.ones(n)
    return X, y, weights, rng.standard_normal((6, p))


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
    expected = interval_of_refits(make, one_by_one(len(y)), X, y, weights, new)
    found = model.predict_interval(new, kind="nested")
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_nested_intervals_of_several_targets_at_their_own_stops(rng):
    X, y, _, new = problem(rng)
    both = np.stack([y, 3 * rng.standard_normal(len(y))], axis=1)
    stops = [0.1, 1.0, 10.0]
    model = st.StoppedRegressorCV("ridge", stops=stops, per_target=True).fit(X, both)
    found = model.predict_interval(new, kind="nested")
    for target in range(2):
        one = st.StoppedRegressorCV("ridge", stops=stops).fit(X, both[:, target])
        expected = one.predict_interval(new, kind="nested")
        np.testing.assert_allclose(found[:, target], expected, rtol=1e-9)


def dask_rows(X, y, weights):
    rows = da.from_array(X, chunks=(7, -1))
    return rows, da.from_array(y, chunks=7), da.from_array(weights, chunks=7)


CONTAINERS = {
    "array": lambda *given: given,
    "sparse": lambda X, *rest: (sparse.csr_array(X), *rest),
    "operator": lambda X, *rest: (sparse.linalg.aslinearoperator(X), *rest),
    "chunks": lambda *given: (st.Chunks.of(*given, rows=7),),
    "dask": dask_rows,
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("container", [*CONTAINERS, "kernel"])
def test_cv_plus_is_that_of_refits_for_data_of_any_kind(container, weighted, rng):
    X, y, weights, new = problem(rng, 30, 4, weighted)
    if container == "kernel":
        options = {"kernel": "rbf", "gamma": 0.3}
        model = st.StoppedKernelRegressorCV("ridge", stops=[1.0, 5.0], cv=KFold(4), **options)
        model.fit(X, y, weights)
        make = st.StoppedKernelRegressor("ridge", model.stop_, **options)
    else:
        model = st.StoppedRegressorCV("nesterov-flow", stops=[0.5, 1.0, 2.0], cv=KFold(4))
        model.fit(*CONTAINERS[container](X, y, weights))
        make = st.StoppedRegressor(model.method_, model.stop_)
    expected = interval_of_refits(lambda: make, KFold(4).split(X), X, y, weights, new)
    found = model.predict_interval(new, kind="cv+")
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_cv_plus_of_several_targets(rng):
    X, y, _, new = problem(rng, 24, 3)
    model = st.StoppedRegressorCV("ridge", stops=[1.0], cv=3).fit(X, np.stack([y, -y], axis=1))
    ends = model.predict_interval(new, kind="cv+")
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


def test_streamed_rows_are_not_pickled_and_their_intervals_are(rng):
    X, y, _, new = problem(rng)
    streamed = st.StoppedRegressorCV("ridge", cv=2).fit(st.Chunks.of(X, y, rows=4))
    with pytest.raises(ValueError, match="ask for one interval of this kind before you pickle"):
        pickle.loads(pickle.dumps(streamed)).predict_interval(new, kind="cv+")
    expected = streamed.predict_interval(new, kind="cv+")
    again = pickle.loads(pickle.dumps(streamed))
    np.testing.assert_array_equal(again.predict_interval(new, kind="cv+"), expected)


def test_many_refits_are_announced_before_they_begin(rng):
    X, y, _, new = problem(rng, 501)
    model = st.StoppedRegressorCV("ridge").fit(X, y)
    # warnings are errors here, so that no fit is made
    with pytest.raises(UserWarning, match="anew without each row takes 501 fits"):
        model.predict_interval(new, kind="nested")
