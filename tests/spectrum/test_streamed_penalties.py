"""Penalty matrices of streamed data: the same fits as in memory, from products alone."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold
from sklearn.preprocessing import SplineTransformer

import stoptime as st
from stoptime.spectrum import penalty

P = 12
PENALTIES = {
    "differences": st.Differences(2),
    "image": st.Differences(1, (3, 4)),
    "free columns": st.Bands(np.arange(P) // 4, [1.0, 0.1, np.inf]),
    "standardise": "standardise",
}
STOPS = [1, 2, 4]


def data(n=200, *, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, P)) * np.geomspace(0.5, 2, P) + 3
    y = X @ rng.normal(size=(P, targets)) + rng.normal(size=(n, targets)) + 5
    return X, y, rng.uniform(0.5, 2, n)


@pytest.mark.parametrize("kind", ["differences", "free columns", "standardise"])
def test_intervals_of_folds_are_those_of_rows_in_memory(kind):
    X, y, _ = data()
    model = st.StoppedRegressorCV(cv=KFold(5), penalty_matrix=PENALTIES[kind])
    wanted = model.fit(X, y).predict_interval(X[:3], kind="cv+")
    found = model.fit(st.Chunks.of(X, y, rows=37)).predict_interval(X[:3], kind="cv+")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)


def test_solves_in_the_place_of_an_array_change_nothing(monkeypatch):
    X, y, _ = data()
    options = {"fit_intercept": False, "penalty_matrix": PENALTIES["image"]}
    chunks = st.Chunks.of(X, y)
    wanted = st.path(chunks, "nesterov-flow", STOPS, **options)
    # more rows than columns: products then have a null space, which must not count
    monkeypatch.setattr(penalty, "LARGEST_BASIS", 3)
    found = st.path(chunks, "nesterov-flow", STOPS, **options)
    np.testing.assert_allclose(found.coef, wanted.coef, rtol=0, atol=1e-12)
    assert st.decompose(chunks, **options).rank == P - 1


def by_least_squares(X, y, L, stop):
    """Return ridge with a penalty on Lβ as least squares with further rows."""
    root = np.sqrt(len(y))
    L = L.toarray() if sparse.issparse(L) else L
    rows = np.vstack([(X - X.mean(axis=0)) / root, L / np.sqrt(stop)])
    response = np.concatenate([(y - y.mean()) / root, np.zeros(len(L))])
    return np.linalg.lstsq(rows, response, rcond=1e-14)[0]


@pytest.mark.parametrize(("knots", "slope"), [(40, 0.0), (150, 1.0), (300, 0.0)])
@pytest.mark.filterwarnings("ignore:Columns are so dependent")
def test_errors_of_products_are_bounded(knots, slope):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=400))
    y = np.sin(8 * x) + 0.3 * rng.normal(size=400) + slope * x
    basis = SplineTransformer(knots).fit_transform(x[:, None])
    differences = st.Differences(2)
    stops = np.array([1.0, 1e2, 1e4, 1e6])
    options = {"penalty_matrix": differences}
    path = st.path(st.Chunks.of(basis, y, rows=50), "ridge", stops, **options)
    L = differences.matrix(basis.shape[1])
    exact = np.stack([by_least_squares(basis, y, L, stop) for stop in stops])
    errors = [np.linalg.norm(L @ one) for one in path.coef - exact]
    errors /= np.array([np.linalg.norm(L @ one) for one in exact])
    assert np.all(errors <= path.error)
    assert np.all(path.error < 1e6 * errors)


def test_bad_penalties_are_refused_before_rows_are_read():
    X, y, _ = data(targets=1)

    def read():
        raise AssertionError("Rows were read.")

    unread = replace(st.Chunks.of(X, y[:, 0]), read=read)
    with pytest.raises(ValueError, match="one column for each"):
        st.decompose(unread, penalty_matrix=np.eye(3))
    with pytest.raises(ValueError, match="must be"):
        st.decompose(unread, penalty_matrix="scale")
    same = X.copy()
    same[:, 1] = same[:, 0]
    unpenalised = np.diag([0, 0, *np.ones(P - 2)])
    with pytest.raises(ValueError, match="X has no influence"):
        st.decompose(st.Chunks.of(same, y), penalty_matrix=unpenalised)
    with pytest.raises(ValueError, match="for streamed data"):
        st.StoppedRegressorCV(penalty_matrix=unpenalised).fit(unread)


def test_constant_columns_and_extreme_units():
    X, y, _ = data(targets=1)
    y = y[:, 0]
    X[:, 4] = 7.0
    scaled = st.Bands(np.arange(P), np.geomspace(1e-3, 1, P))
    for options in ({"penalty_matrix": scaled}, {"penalty_matrix": "standardise"}):
        wanted = st.path(X, y, "ridge", [1.0], **options).coef
        found = st.path(st.Chunks.of(X, y), "ridge", [1.0], **options).coef
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
        assert found[0, 4] == 0
    plain = st.path(st.Chunks.of(X, y), "ridge", [1.0], penalty_matrix=scaled).coef
    for unit in (1e-90, 1e90):
        # coefficients in the units of the columns are penalised as before
        options = {"penalty_matrix": st.Bands(np.arange(P), np.geomspace(1e-3, 1, P) / unit)}
        found = st.path(st.Chunks.of(X * unit, y), "ridge", [1.0], **options).coef
        np.testing.assert_allclose(found * unit, plain, rtol=0, atol=1e-12)
