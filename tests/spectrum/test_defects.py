"""Defects of data that were found once, each with the case that showed it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.model_selection import KFold
from sklearn.preprocessing import SplineTransformer

import stoptime as st
from stoptime.spectrum import krylov
from stoptime.spectrum.data import Want
from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.rows import ArrayRows

PENALTY = st.Differences(1)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((60, 8))
    X[np.abs(X) < 0.4] = 0
    return X, X @ np.ones(8) + rng.standard_normal(60)


@pytest.mark.parametrize("small", [0, 1000])
def test_sparse_data_keep_their_penalty_however_they_are_factored(data, monkeypatch, small):
    monkeypatch.setattr(krylov, "SMALL", small)
    X, y = data
    dense = st.decompose(X, y, penalty_matrix=PENALTY)
    opened = open_data(sparse.csr_array(X), y, penalty_matrix=PENALTY)
    for want in (Want(), Want(every=True), Want(solver="svd"), Want(solver="gram")):
        found = opened.spectrum(want)
        assert found.geometry is not None
        np.testing.assert_allclose(found.eigenvalues, dense.eigenvalues, rtol=1e-6)
    folds = opened.folds(opened.splits(KFold(3)))
    for fold, (train, _) in zip(folds, KFold(3).split(X), strict=True):
        found = fold()[0].spectrum(Want(every=True)).eigenvalues
        right = st.decompose(X[train], y[train], penalty_matrix=PENALTY).eigenvalues
        np.testing.assert_allclose(found, right, rtol=1e-6)


def test_folds_of_operators_are_grown_for_every_method(data):
    X, y = data
    model = st.StoppedRegressorCV(["nesterov-flow", "ridge"], cv=3)
    model.fit(aslinearoperator(X), y)
    assert {str(one.method) for one in model.choice_.candidates}


def test_small_sparse_data_have_a_summary_beyond_the_accuracy_of_products(data, rng):
    X, y = data
    X[:, 7] = X[:, 6] + 1e-6 * rng.standard_normal(60)
    for form in (np.asarray, sparse.csr_array):
        model = st.StoppedRegressor("ridge", stop=np.inf).fit(form(X), y)
        assert model.summary().noise > 0


def test_single_precision_of_sparse_data_is_kept(data, rng):
    X, y = data
    for column in (X[:, 7].copy(), X[:, 6] + 1e-5 * rng.standard_normal(60)):
        X[:, 7] = column
        single = sparse.csr_array(X.astype(np.float32))
        assert st.StoppedRegressor("ridge", stop=np.inf).fit(single, y).coef_.dtype == np.float32
        model = st.StoppedRegressorCV("ridge", cv=3).fit(single, y)
        assert model.coef_.dtype == np.float32
        opened = open_data(single, y)
        train, _ = opened.folds(opened.splits(3))[0]()
        assert train.spectrum().precision == np.float32


@pytest.mark.parametrize("solver", ["gram", "svd"])
@pytest.mark.parametrize("kind", ["sparse", "tensor", "penalised", "array"])
def test_a_spectrum_does_not_change_with_the_users_container(rng, kind, solver):
    X, y = rng.standard_normal((6, 30)), rng.standard_normal(6)
    made = {"sparse": sparse.csr_array}.get(kind, np.array)
    if kind == "tensor":
        made = pytest.importorskip("torch").tensor
    given = made(X)
    options = {"penalty_matrix": st.Differences(1)} if kind == "penalised" else {}
    spectrum = st.decompose(given, y, solver=solver, **options)
    before = np.asarray(st.path(spectrum, "ridge", [1.0]).coef)
    (given.data if kind == "sparse" else given)[:] = 7.0
    np.testing.assert_array_equal(st.path(spectrum, "ridge", [1.0]).coef, before)


def test_options_of_penalised_sparse_data_are_checked_and_used(data):
    X, y = data
    matrix = sparse.csr_array(X)
    with pytest.raises(ValueError, match="max_rank"):
        st.decompose(matrix, y, penalty_matrix=PENALTY, max_rank=0)
    found = st.decompose(matrix, y, penalty_matrix=PENALTY, solver="krylov", max_gain=1.0)
    assert found.krylov is not None


def test_folds_with_a_penalty_read_the_rows_no_more_often_than_needed(rng, monkeypatch):
    reads = []
    read = ArrayRows.read
    monkeypatch.setattr(ArrayRows, "read", lambda self, i: (reads.append(i), read(self, i))[1])
    X, y = rng.standard_normal((4000, 6)), rng.standard_normal(4000)
    opened = open_data(X, y, penalty_matrix=st.Differences(1))
    for fold in opened.folds(opened.splits(4)):
        fold()[0].spectrum()
    numbers = sum(len(range(*i.indices(4000))) if isinstance(i, slice) else len(i) for i in reads)
    # of three quarters of the rows: means, mean squares, images of the free direction, products
    assert numbers <= 4 * 7.1 * 3000


def test_a_block_may_hold_a_frame(data, rng):
    X, y = data
    weight = rng.uniform(0.5, 2, 60)
    table = pd.DataFrame(X, columns=list("abcdefgh")), pd.Series(y), pd.Series(weight)
    blocks = [st.Block(*(one[:30] for one in table)), st.Block(*(one[30:] for one in table))]
    chunks = st.Chunks(lambda: iter(blocks), 8, 60)
    cv = KFold(2, shuffle=True, random_state=0)
    model = st.StoppedRegressorCV("ridge", cv=cv, verbose=False).fit(chunks)
    whole = st.StoppedRegressorCV("ridge", cv=cv).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.predict(chunks), whole.predict(X), rtol=1e-8)


def test_nobody_is_told_of_a_solver_that_they_did_not_choose(data, monkeypatch):
    monkeypatch.setattr(krylov, "SMALL", 3)
    monkeypatch.setattr(krylov, "LARGEST", 3)
    X, y = data
    with pytest.raises(ValueError, match="Exact leave-one-out needs"):
        st.StoppedRegressorCV("ridge").fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match=r'solver="gram" computes all eigenvalues'):
        st.decompose(sparse.csr_array(X), y, solver="gram")


def test_all_eigenvalues_of_a_small_operator_are_computed_where_they_are_needed(rng):
    X = rng.standard_normal((30, 5)) * [1.0, 1.0, 1.0, 1.0, 1e-6]
    y = rng.standard_normal(30)
    assert st.Problem.of(aslinearoperator(X), y, "ridge").spectrum.rank == 5
    right = st.path(X, y, "spectral-cutoff", [1, 3]).coef
    np.testing.assert_allclose(
        st.path(aslinearoperator(X), y, "spectral-cutoff", [1, 3]).coef, right, rtol=1e-9
    )


def test_columns_of_a_standard_form_are_not_called_columns_of_x(data):
    X, y = data
    bands = st.Bands(np.arange(8), [1e-20, *np.ones(7)])
    with pytest.raises(ValueError, match="direction 0 of the standard form"):
        st.path(X, y, "ridge", [np.inf], penalty_matrix=bands)
    with pytest.raises(ValueError, match="column 0 is the first"):
        st.path(X * [1e-20, 1, 1, 1, 1, 1, 1, 1], y, "ridge", [np.inf])


def test_moments_of_others_are_not_overwritten(data):
    X, y = data
    X[:, 3] = 5.0  # a constant column is set to zero in the products
    seen = st.Statistics.of(X, y)
    before = seen.gram.copy()
    st.decompose(seen)
    opened = open_data(X, y)
    kept = opened.moments.gram.copy()
    opened.spectrum()
    np.testing.assert_array_equal(seen.gram, before)
    np.testing.assert_array_equal(opened.moments.gram, kept)


def test_a_fold_of_nearly_all_the_weight_leaves_the_other_rows(data):
    X, y = data
    weight = np.where(np.arange(60) == 3, 1e20, 1.0)
    opened = open_data(X, y, weight)
    train, _ = opened.folds(opened.splits(KFold(3)))[0]()
    right = st.decompose(X[20:], y[20:]).eigenvalues
    np.testing.assert_allclose(train.spectrum().eigenvalues, right, rtol=1e-12)


def test_factorisations_are_kept(data, rng):
    X, y = data
    X[:, 7] = X[:, 6] + 1e-6 * rng.standard_normal(60)
    opened = open_data(sparse.csr_array(X), y)
    assert opened.spectrum() is opened.spectrum()
    assert opened.spectrum().solver == "svd"


def test_a_spline_basis_with_empty_columns_is_fitted_as_least_squares():
    """The null space of differences was known only to 1e-12, and a constant was not seen in it."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=400))
    y = np.sin(12 * x) + 0.3 * rng.standard_normal(400)
    X = SplineTransformer(300).fit_transform(x[:, None])
    assert np.count_nonzero(~X.any(axis=0)) == 3
    L = st.Differences(2).matrix(X.shape[1]).toarray()
    for stop in (1e-3, 1.0, 1e2, 1e4):
        penalised = np.hstack([np.zeros((len(L), 1)), np.sqrt(400 / stop) * L])
        both = np.vstack([np.column_stack([np.ones(400), X]), penalised])
        found = np.linalg.lstsq(both, np.append(y, np.zeros(len(L))), rcond=1e-13)[0]
        right = found[0] + X @ found[1:]
        for solver in ("auto", "svd", "gram"):
            drawn = st.path(X, y, "ridge", [stop], penalty_matrix=st.Differences(2), solver=solver)
            np.testing.assert_allclose(drawn.predict(X)[0], right, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Columns are so dependent")  # moments know no better
@pytest.mark.parametrize("kind", ["dense", "sparse", "operator", "chunks"])
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_directions_without_a_penalty_may_fit_every_row(rng, kind, size):
    """What was left of X is rounding: it was called too large, or no linear operator."""
    for n in (2, 3):
        X = size * rng.standard_normal((n, 23)) + 5
        y = rng.standard_normal(n)
        given = {"sparse": sparse.csr_array, "operator": aslinearoperator}.get(kind, np.array)(X)
        options = {"solver": "krylov"} if kind == "sparse" else {}
        data = (st.Chunks.of(X, y), None) if kind == "chunks" else (given, y)
        intercept = n == 3
        spectrum = st.decompose(
            *data, fit_intercept=intercept, penalty_matrix=st.Differences(2), **options
        )
        drawn = st.path(spectrum, "ridge", [1e-3, 1.0])
        np.testing.assert_allclose(drawn.predict(X), [y, y], rtol=0, atol=1e-8)


@pytest.mark.filterwarnings("ignore:Columns are so dependent")  # moments know no better
@pytest.mark.parametrize("method", ["ridge", "nesterov"])
@pytest.mark.parametrize("kind", ["dense", "svd", "wide", "sparse", "tensor", "operator", "chunks"])
def test_what_directions_without_a_penalty_leave_of_equal_columns_is_not_fitted(rng, kind, method):
    """A direction of rounding had the largest eigenvalue, and a step that was its reciprocal."""
    n, p = (4, 6) if kind == "wide" else (30, 2)
    x, y = rng.standard_normal(n) + 100, rng.standard_normal(n)
    X = np.tile(x[:, None] * np.pi, (1, p))
    kinds = {"sparse": sparse.csr_array, "operator": aslinearoperator}
    if kind == "tensor":
        kinds["tensor"] = pytest.importorskip("torch").tensor
    data = (st.Chunks.of(X, y), None) if kind == "chunks" else (kinds.get(kind, np.array)(X), y)
    solver = "svd" if kind == "svd" else "auto"
    spectrum = st.decompose(*data, penalty_matrix=st.Differences(1), solver=solver)
    assert spectrum.rank == 0
    slope = np.polyfit(x - x.mean(), y, 1)[0] / (p * np.pi)
    drawn = st.path(spectrum, method, [0, 5, np.inf] if kind != "operator" else [0, 5])
    np.testing.assert_allclose(np.asarray(drawn.coef), slope, rtol=1e-8)
