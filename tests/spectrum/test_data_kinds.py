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


def test_left_out_errors_of_ill_conditioned_sparse_matrices(collinear):
    X, y = collinear
    expected = st.leave_one_out(X, y, "ridge", [1.0, np.inf]).errors
    np.testing.assert_allclose(
        st.leave_one_out(sparse.csr_array(X), y, "ridge", [1.0, np.inf]).errors, expected, 1e-3
    )


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


def test_rows_that_underflow_are_refused_as_they_pass(data):
    X, y = data
    with pytest.raises(ValueError, match="X is too small"):
        st.StoppedRegressor("ridge", np.inf).fit(st.Chunks.of(X * 1e-170, y))


def test_statistics_of_other_rows_are_no_part(data):
    X, y = data
    with pytest.raises(ValueError, match="cannot be a part"):
        st.summarise(X, y).without(st.summarise(50 * X[:10], y[:10]))


def test_conjugate_gradients_stop_for_each_target(data, rng):
    X, y = data
    Y = np.column_stack([y, rng.normal(size=80)])
    model = st.StoppedRegressorCV("conjugate-gradient", cv=5, per_target=True).fit(X, Y)
    for target, stop in enumerate(model.stop_):
        alone = st.StoppedRegressor("conjugate-gradient", stop=stop).fit(X, Y[:, target])
        np.testing.assert_allclose(model.coef_[target], alone.coef_, rtol=1e-8, atol=1e-10)


def test_conjugate_gradients_say_how_they_can_be_stopped(data):
    with pytest.raises(ValueError, match="cv=5"):
        st.StoppedRegressorCV("conjugate-gradient").fit(*data)


def test_nothing_to_learn_from_an_operator():
    X = aslinearoperator(np.random.default_rng(0).normal(size=(12, 3)))
    assert st.StoppedRegressorCV(rule="path-gcv").fit(X, np.full(12, 4.0)).stop_ == 0


def test_the_plug_in_stop_of_a_small_operator_is_found(rng):
    X = rng.normal(size=(20, 30))
    y, weight = X[:, 0] + rng.normal(size=20), rng.integers(1, 4, 20)
    assert st.StoppedRegressor().fit(aslinearoperator(X), y, weight).stop_ > 0


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


def test_an_operator_without_a_response(data):
    with pytest.raises(ValueError, match="y must be given"):
        st.StoppedRegressor(stop=1.0).fit(aslinearoperator(data[0]))


def test_chunks_of_frames_and_lists(data):
    X, y = data
    expected = st.StoppedRegressor(stop=1.0).fit(X, y).coef_
    for rows in (pd.DataFrame(X), X.tolist()):
        np.testing.assert_allclose(
            st.StoppedRegressor(stop=1.0).fit(st.Chunks.of(rows, y)).coef_, expected
        )


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
