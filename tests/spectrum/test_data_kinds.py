"""Every kind of data gives what an array gives, or says by name what it cannot."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import stoptime as st


@pytest.fixture
def data(rng):
    X = rng.normal(size=(80, 6))
    return X, X.sum(axis=1) + rng.normal(size=80)


@pytest.fixture
def collinear(rng):
    X = rng.normal(size=(80, 6))
    X[:, 3] = X[:, 2] + 1e-7 * X[:, 3]
    return X, X @ [1, 1, 1e7, -1e7, 1, 1] + 1e-3 * rng.normal(size=80)


@pytest.fixture
def steep(rng):
    n, p = 400, 120
    U, V = (np.linalg.qr(rng.normal(size=(size, p)))[0] for size in (n, p))
    X = np.sqrt(n) * U * np.geomspace(1, 0.01, p) @ V.T
    return X, X @ (V @ rng.normal(size=p)) + 0.02 * rng.normal(size=n)


@pytest.mark.parametrize("options", [{}, {"cv": 4}, {"rule": "path-gcv"}, {"rule": "plug-in"}])
def test_ill_conditioned_sparse_matrices_lose_no_digits(collinear, options):
    X, y = collinear
    dense = st.StoppedRegressorCV("ridge", **options).fit(X, y)
    found = st.StoppedRegressorCV("ridge", **options).fit(sparse.csr_array(X), y)
    assert found.stop_ == pytest.approx(dense.stop_)
    assert found.choice_.error == pytest.approx(dense.choice_.error, rel=1e-3)
    assert dense.choice_.error < 1e-5


@pytest.mark.filterwarnings("ignore::stoptime.StopWarning")
def test_refinement_looks_through_the_space_that_has_grown(steep, rng):
    X, y = steep
    found = st.StoppedRegressorCV(rule="path-gcv").fit(aslinearoperator(X), y)
    dense = st.path_gcv(st.decompose(X, y), "nesterov-flow", found.stops_)
    np.testing.assert_allclose(found.errors_, dense, rtol=0.2)  # a trace by ten probes
    held = st.HoldOut(X[:50] + 0.01 * rng.normal(size=(50, 120)), y[:50])
    model = st.StoppedRegressorCV("nesterov-flow", rule=held)
    stop = model.fit(aslinearoperator(X), y).stop_
    assert stop == pytest.approx(model.fit(X, y).stop_, rel=0.1)


def test_conjugate_gradients_stop_for_each_target(data, rng):
    X, y = data
    Y = np.column_stack([y, rng.normal(size=80)])
    model = st.StoppedRegressorCV("conjugate-gradient", cv=5, per_target=True).fit(X, Y)
    for target, stop in enumerate(model.stop_):
        alone = st.StoppedRegressor("conjugate-gradient", stop=stop).fit(X, Y[:, target])
        np.testing.assert_allclose(model.coef_[target], alone.coef_, rtol=1e-8, atol=1e-10)


def test_names_of_an_earlier_fit_are_forgotten(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcdef"))
    for other in (aslinearoperator(X), st.Chunks.of(X, y)):
        model = st.StoppedRegressor(stop=1.0).fit(frame, y)
        model.fit(other, None if isinstance(other, st.Chunks) else y)
        assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: st.Chunks.of(sparse.csr_array(X), y), "rows can be sliced; got csr_array"),
        (lambda X, y: st.StoppedKernelRegressor().fit(aslinearoperator(X), y), "rows in an array"),
        (
            lambda X, y: st.StoppedRegressorCV(rule=st.HoldOut(st.Chunks.of(X, y), y)).fit(X, y),
            "X_val",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(data, call, message):
    with pytest.raises(TypeError, match=message):
        call(*data)


HANDED_OVER = {
    "array": lambda X, y, weight: (X, y, weight),
    "sparse": lambda X, y, weight: (sparse.csr_array(X), y, weight),
    "chunks": lambda X, y, weight: (st.Chunks.of(X, y, weight, rows=50),),
    "statistics": lambda X, y, weight: (st.summarise(X, y, weight),),
}


@pytest.mark.parametrize("kind", HANDED_OVER)
@pytest.mark.parametrize("away", [1e3, 1e6, 1e9])
def test_rows_of_no_weight_are_as_good_as_absent_wherever_they_lie(data, rng, kind, away):
    X, y = data
    weight = rng.uniform(0.5, 1.5, len(y))
    right = st.StoppedRegressor("ridge", 1e6).fit(X, y, weight)
    X, y = np.vstack([away + rng.normal(size=(70, 6)), X]), np.concatenate([np.full(70, -away), y])
    found = st.StoppedRegressor("ridge", 1e6).fit(
        *HANDED_OVER[kind](X, y, np.append(np.zeros(70), weight))
    )
    np.testing.assert_allclose(found.coef_, right.coef_, rtol=1e-12)
    assert found.intercept_ == pytest.approx(right.intercept_, rel=1e-10)
