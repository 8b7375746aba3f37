"""Penalty matrices of operators and sparse matrices: against arrays, Fourier series and solves."""

import pickle

import numpy as np
import pytest
from scipy import fft, sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import stoptime as st
from stoptime.spectrum.penalty import Solves

N = 50
P = 40
PENALTIES = {
    "differences": st.Differences(2),
    "image": st.Differences(1, (5, 8)),
    "periodic": st.Differences(1, boundary="periodic"),
    "zero": st.Differences(2, boundary="zero"),
    "dropped": st.Bands([0] * 20 + [1] * 20, [0.0, 2.0]),
    "free columns": np.diag([0, 0, *np.linspace(0.5, 3, P - 2)]),
    "tall": np.random.default_rng(3).normal(size=(2 * P, P)),
}
STOPS = {
    "ridge": [0.0, 0.1, 100.0],
    "nesterov-flow": [1.0, 10.0],
    "nesterov": [1, 9],
    "conjugate-gradient": [0, 1, 6],
}


def data(n=N, p=P, *, targets=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 3 * rng.normal(size=p)
    y = X @ rng.normal(size=(p, targets)) + rng.normal(size=(n, targets)) + 5
    weights = rng.uniform(0.5, 2, n)
    weights[1] = 0
    return X, y, weights


@pytest.fixture
def only_solves(monkeypatch):
    """Let small matrices be solved as large ones are."""
    monkeypatch.setattr("stoptime.spectrum.penalty.LARGEST_BASIS", 3)


def in_geometry(change, L):
    return max(np.linalg.norm(L @ one) for one in change)


@pytest.mark.parametrize(("number", "kind"), [*enumerate(PENALTIES)])
@pytest.mark.parametrize("method", STOPS)
def test_operators_agree_with_arrays_to_the_error_bound(number, kind, method):
    X, y, weights = data()
    intercept = number % 2 == 0
    L = PENALTIES[kind]
    options = {"penalty_matrix": L, "sample_weight": weights, "fit_intercept": intercept}
    dense = st.path(X, y, method, STOPS[method], **options)
    free = st.path(aslinearoperator(X), y, method, STOPS[method], tol=1e-8, **options)
    assert free.error[-1] <= 1e-8
    assert free.error.max() <= 1e-7
    if isinstance(L, st.Bands):
        scales = np.maximum(np.repeat(L.scales, 20), 1e-300)
        matrix = np.diag(1 / scales)
    else:
        matrix = L.matrix(P).toarray() if isinstance(L, st.Differences) else L
    # the bound is one of ‖L(β - β_k)‖ over ‖Lβ‖; the last term is rounding
    size = in_geometry(dense.coef, matrix)
    assert in_geometry(free.coef - dense.coef, matrix) <= (2e-8 + 1e-11) * size
    np.testing.assert_allclose(free.intercept, dense.intercept, rtol=0, atol=1e-6)


@pytest.mark.usefixtures("only_solves")
@pytest.mark.parametrize("kind", ["differences", "image", "periodic", "zero"])
def test_solves_are_the_pseudo_inverse(kind):
    L = PENALTIES[kind]
    form = L.standard_form(P)
    inverse = form.inverse
    assert isinstance(inverse, Solves)
    dense = np.linalg.pinv(L.matrix(P).toarray())
    rng = np.random.default_rng(0)
    some = rng.normal(size=(inverse.width, 3))
    rows = rng.normal(size=(4, P))
    np.testing.assert_allclose(inverse @ some, dense @ some, rtol=0, atol=1e-10)
    np.testing.assert_allclose(inverse.of_rows(rows), rows @ dense, rtol=0, atol=1e-9)
    np.testing.assert_allclose(L.matrix(P) @ form.null, 0, atol=1e-14)
    np.testing.assert_allclose(form.null.T @ form.null, np.eye(form.null.shape[1]), atol=1e-14)
    assert inverse.rank == np.linalg.matrix_rank(dense)
    again = pickle.loads(pickle.dumps(inverse))
    np.testing.assert_array_equal(again @ some, inverse @ some)


@pytest.mark.usefixtures("only_solves")
def test_large_sparse_matrices_without_full_rank_are_refused():
    few = sparse.csr_array(np.eye(3, 90) + np.eye(3, 90, 1))
    X, y, _ = data(30, 90, targets=1)
    with pytest.raises(ValueError, match="must penalise every direction"):
        st.path(X, y, "ridge", [1.0], penalty_matrix=few)
    steep = st.Differences(5, 2000, "periodic")
    with pytest.raises(ValueError, match="too ill-conditioned to be solved as a sparse matrix"):
        steep.standard_form(2000).inverse @ np.ones(2000)


@pytest.mark.usefixtures("only_solves")
def test_solutions_without_any_error_need_no_correction():
    X, y, _ = data(targets=1)
    twice = sparse.vstack([2 * sparse.eye_array(P), 2 * sparse.eye_array(P)]).tocsr()
    found = st.path(X, y, "ridge", [8.0], penalty_matrix=twice).coef
    np.testing.assert_allclose(found, st.path(X, y, "ridge", [1.0]).coef, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_periodic_deblurring_is_a_quotient_of_fourier_series(order):
    size = 51  # 2601 pixels, too many for a singular value decomposition
    n = size**2
    waves = fft.fftfreq(size)
    blur = np.exp(-30 * (waves[:, None] ** 2 + waves**2))

    def apply(pixels):
        return fft.ifft2(blur * fft.fft2(pixels.reshape(size, size))).real.ravel()

    X = LinearOperator((n, n), matvec=apply, rmatvec=apply, dtype=float)
    rng = np.random.default_rng(0)
    y = rng.normal(size=n).cumsum()
    steps = (2 * np.sin(np.pi * waves)) ** (2 * order)
    stops = np.array([1.0, 30.0])
    L = st.Differences(order, (size, size), "periodic")
    drawn = st.path(X, y, "ridge", stops, penalty_matrix=L, fit_intercept=False)
    for coef, stop in zip(drawn.coef, stops, strict=True):
        filtered = blur / n / (blur**2 / n + (steps[:, None] + steps) / stop)
        exact = fft.ifft2(filtered * fft.fft2(y.reshape(size, size))).real.ravel()
        assert np.linalg.norm(coef - exact) < 2e-6 * np.linalg.norm(exact)
    # constants are not penalised: the first stop of any path is their least-squares fit
    start = st.path(X, y, "conjugate-gradient", [0], penalty_matrix=L, fit_intercept=False)
    np.testing.assert_allclose(start.coef[0], y.mean(), rtol=1e-10)


@pytest.mark.parametrize("rule", [st.Discrepancy(noise=0.01), st.NCP(shape=(9, 12)), "l-curve"])
def test_rules_of_inverse_problems_choose_the_stop_of_the_array(rule):
    # two axes of different length, because equal ones have double eigenvalues, which conjugate
    # gradients distinguish by rounding errors
    axes = [np.arange(size) for size in (9, 12)]
    X = np.kron(*[np.exp(-((axis[:, None] - axis) ** 2) / 4) for axis in axes])
    truth = np.add.outer((axes[0] / 9) ** 2, np.sin(axes[1] / 4)).ravel()
    y = X @ truth + 0.1 * np.random.default_rng(0).normal(size=len(X))
    options = {"rule": rule, "fit_intercept": False, "penalty_matrix": st.Differences(1, (9, 12))}
    dense = st.StoppedRegressorCV("conjugate-gradient", **options).fit(X, y)
    free = st.StoppedRegressorCV("conjugate-gradient", **options).fit(aslinearoperator(X), y)
    assert free.krylov_ is not None
    assert free.stop_ == dense.stop_
    np.testing.assert_allclose(free.coef_, dense.coef_, rtol=0, atol=1e-6)


def test_a_constant_fit_is_taken_by_the_intercept_with_the_least_norm():
    X, y, _ = data(targets=1)
    X /= X.sum(axis=1, keepdims=True)  # rows add up to one, as those of splines do
    options = {"penalty_matrix": st.Differences(2)}
    dense = st.path(X, y[:, 0], "ridge", [10.0], **options)
    free = st.path(aslinearoperator(X), y[:, 0], "ridge", [10.0], tol=1e-9, **options)
    scale = abs(dense.coef).max()
    np.testing.assert_allclose(free.coef, dense.coef, rtol=0, atol=1e-5 * scale)
    assert abs(free.coef.mean()) < 1e-5 * scale


def test_long_signals_are_smoothed_as_arrays_of_wide_data_and_as_operators():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2500))
    y = X @ np.sin(np.arange(2500) / 300)
    L = st.Differences(2).matrix(2500).toarray()
    options = {"penalty_matrix": st.Differences(2), "fit_intercept": False}
    for rows in (X, aslinearoperator(X)):
        coef = st.path(rows, y, "ridge", [1e6], **options).coef[0]
        # the normal equations, with the gradient of the penalty by products
        gradient = X.T @ (y - X @ coef) / 30
        force = L.T @ (L @ coef) / 1e6
        assert np.linalg.norm(gradient - force) < 1e-5 * np.linalg.norm(X.T @ y / 30)


def test_a_penalty_may_be_an_operator_of_any_size():
    X, y, _ = data(60, 2100, targets=1)
    steps = st.Differences(1, boundary="zero")
    L = steps.matrix(2100)
    by_matrix = st.path(X, y, "ridge", [1.0], penalty_matrix=steps).coef
    by_operator = st.path(X, y, "ridge", [1.0], penalty_matrix=aslinearoperator(L)).coef
    np.testing.assert_allclose(by_operator, by_matrix, rtol=0, atol=1e-8 * abs(by_matrix).max())


def test_far_means_are_harmless():
    X, y, _ = data(targets=1)
    options = {"penalty_matrix": st.Differences(2)}
    expected = st.path(X, y, "ridge", [1.0], **options).coef
    far = st.path(aslinearoperator(X + 1e4), y, "ridge", [1.0], **options).coef
    np.testing.assert_allclose(far, expected, rtol=0, atol=1e-6 * abs(expected).max())
