"""Prediction intervals of every kind: their definition with refits, at any weights."""

import pickle

import dask.array as da
import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold, RepeatedKFold

import stoptime as st
from contract import interval_of_refits, one_by_one


@pytest.mark.parametrize("method", ["nesterov-flow", "nesterov"])
@pytest.mark.parametrize("shape", [(30, 5), (20, 30)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_jackknife_plus_is_that_of_refits(method, shape, weighted, fit_intercept, rng):
    X = rng.standard_normal(shape)
    y = X[:, 0] + rng.standard_normal(shape[0])
    weights = rng.integers(0, 4, shape[0]) if weighted else np.ones(shape[0])
    model = st.StoppedRegressorCV(method, stops=[1.0, 2.0, 5.0], fit_intercept=fit_intercept)
    model.fit(X, y, weights)
    new = rng.standard_normal((7, shape[1]))

    def make():
        return st.StoppedRegressor(model.method_, model.stop_, fit_intercept)

    for confidence in (0.5, 0.9, 0.999):
        splits = [one for one in one_by_one(len(y)) if weights[one[1]] > 0]
        expected = interval_of_refits(make, splits, X, y, weights, new, confidence)
        found = model.predict_interval(new, confidence)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["gaussian", "student"])
def test_intervals_cover_what_they_promise(kind):
    """Coverage over fresh data, within 2 % for Gaussian and for heavy-tailed noise."""
    rng = np.random.default_rng(11)
    draw = rng.standard_normal if kind == "gaussian" else (lambda size: rng.standard_t(3, size))
    inside = {0.8: [], 0.9: []}
    for _ in range(60):
        X = rng.standard_normal((150, 20))
        beta = rng.standard_normal(20) / 3
        model = st.StoppedRegressorCV().fit(X, X @ beta + draw(150))
        fresh = rng.standard_normal((100, 20))
        response = fresh @ beta + draw(100)
        for confidence, shares in inside.items():
            low, high = model.predict_interval(fresh, confidence).T
            shares.append(np.mean((low <= response) & (response <= high)))
    for confidence, shares in inside.items():
        assert np.mean(shares) == pytest.approx(confidence, abs=0.02)


def test_blocks_of_new_rows_change_nothing(rng):
    """Quantiles are taken of 2^24 left-out predictions at once: here, of 2048 new rows."""
    X = rng.standard_normal((8192, 2))
    model = st.StoppedRegressorCV("ridge", stops=[1.0]).fit(X, X[:, 0])
    whole = model.predict_interval(X[:2100])
    np.testing.assert_allclose(whole[2040:], model.predict_interval(X[2040:2100]), rtol=1e-12)


@pytest.mark.parametrize(("method", "stop"), [("nesterov", 7), ("ridge", np.inf)])
def test_a_given_stop_has_the_intervals_of_the_same_stop_chosen(rng, method, stop):
    X = rng.standard_normal((40, 3))
    y = X[:, 0] + rng.standard_normal(40)
    weights = rng.integers(0, 3, 40)
    given = st.StoppedRegressor(method, stop=stop).fit(X, y, weights)
    chosen = st.StoppedRegressorCV(method, stops=[stop]).fit(X, y, weights)
    expected = chosen.predict_interval(X, 0.8, kind="jackknife")
    np.testing.assert_allclose(given.predict_interval(X, 0.8), expected, rtol=1e-12)


def test_new_rows_of_other_kinds(rng):
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    model = st.StoppedRegressorCV("nesterov-flow", stops=[1.0]).fit(X, y)
    expected = model.predict_interval(X)
    for rows in (sparse.csr_array(X), sparse.csc_array(X), sparse.linalg.aslinearoperator(X)):
        np.testing.assert_allclose(model.predict_interval(rows), expected, rtol=1e-9)
    chunks = st.Chunks.of(X, rows=20)
    assert model.predict_interval(chunks, kind="jackknife").shape == (40, 2)
    with pytest.raises(TypeError, match='rows in memory; got Chunks: use kind="jackknife"'):
        model.predict_interval(chunks)


def test_confidence_widens_and_mistakes_are_refused(diabetes):
    X, y = diabetes
    model = st.StoppedRegressorCV().fit(X, y)
    wide, narrow = model.predict_interval(X, 0.95), model.predict_interval(X, 0.5)
    assert np.all(wide[:, 0] < narrow[:, 0])
    assert np.all(narrow[:, 1] < wide[:, 1])
    for bad in (0, 1, 1.5, "high"):
        with pytest.raises(ValueError, match="confidence must be"):
            model.predict_interval(X, bad)
    with pytest.raises(ValueError, match='kind must be "jackknife\\+", "nested"'):
        model.predict_interval(X, kind="bootstrap")
    with pytest.raises(ValueError, match="X has 2 features"):
        model.predict_interval(X[:, :2])
    cg = st.StoppedRegressorCV("conjugate-gradient", rule="discrepancy").fit(X, y)
    with pytest.raises(ValueError, match="a method with a filter"):
        cg.predict_interval(X)


# ---------------------------------------------------------------- rows that were changed

KEEPING = [{}, {"method": "ridge"}, {"rule": "sure", "method": "ridge"}, {"cv": 4}]


@pytest.mark.parametrize("changed", ["X", "y"])
@pytest.mark.parametrize("make", [*KEEPING, None], ids=str)
def test_intervals_are_refused_where_the_training_rows_were_changed(make, changed, rng):
    held = {"X": rng.standard_normal((60, 6)), "y": rng.standard_normal(60)}
    new = held["X"][:5] + 0.3
    one = st.StoppedRegressor(stop=2.0) if make is None else st.StoppedRegressorCV(**make)
    model = one.fit(held["X"], held["y"])
    content = pickle.dumps(model)
    held[changed][:] = 3 * held[changed][::-1]
    for again in (model, pickle.loads(pickle.dumps(model))):
        with pytest.raises(ValueError, match="changed after fit"):
            again.predict_interval(new)
    assert pickle.loads(content).predict_interval(new).shape == (5, 2)


# ---------------------------------------------------------------- nested, and CV+


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


@pytest.mark.parametrize("kind", ["jackknife+", "jackknife", "nested", "cv+"])
def test_every_target_has_intervals_at_its_own_stop(kind, rng):
    X = rng.standard_normal((40, 4))
    y = X @ rng.standard_normal((4, 2)) + np.array([1, 9]) * rng.standard_normal((40, 2))
    options = {"stops": [0.1, 1.0, 30.0], "cv": 4 if kind == "cv+" else None}
    model = st.StoppedRegressorCV("ridge", **options, per_target=True).fit(X, y)
    assert model.stop_[0] != model.stop_[1]
    found = model.predict_interval(X[:6], kind=kind)
    for target in range(2):
        one = st.StoppedRegressorCV("ridge", **options).fit(X, y[:, target])
        np.testing.assert_allclose(
            found[:, target], one.predict_interval(X[:6], kind=kind), rtol=1e-9
        )


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
