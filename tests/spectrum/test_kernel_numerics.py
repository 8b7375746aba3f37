"""Kernel matrices of extreme size, rank or precision."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

import stoptime as st


def test_constant_kernels_and_single_rows():
    y = np.arange(5.0)
    model = st.StoppedKernelRegressor(kernel="precomputed").fit(np.ones((5, 5)), y)
    np.testing.assert_allclose(model.predict(np.ones((2, 5))), 2.0)
    alone = st.StoppedKernelRegressor(stop=3.0).fit([[1.0, 2.0]], [4.0])
    np.testing.assert_allclose(alone.predict([[0.0, 0.0]]), 4.0)


def test_low_and_full_rank_take_two_routes_to_one_spectrum(rng, monkeypatch):
    from stoptime.spectrum import kernel

    X = rng.uniform(size=(60, 1))
    K, y = rbf_kernel(X), rng.standard_normal(60)
    low = st.decompose_kernel(K, y)
    monkeypatch.setattr(kernel, "_cholesky", lambda _: None)
    full = st.decompose_kernel(K, y)
    assert low.rank == full.rank < 20
    np.testing.assert_allclose(low.eigenvalues, full.eigenvalues, rtol=1e-8, atol=1e-15 * 60)
    np.testing.assert_allclose(
        st.path(low, "ridge", [1e4]).predict(K),
        st.path(full, "ridge", [1e4]).predict(K),
        rtol=1e-8,
        atol=1e-9,
    )


@pytest.mark.parametrize("choose", [False, True])
def test_distances_keep_their_digits_far_from_zero(choose, rng):
    estimator = (
        st.StoppedKernelRegressorCV("ridge") if choose else st.StoppedKernelRegressor("ridge", 10.0)
    )
    X = rng.integers(-8, 9, (60, 3)) / 4.0
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(60)
    near, far = (clone(estimator).fit(X + shift, y) for shift in (0, 2.0**40))
    np.testing.assert_allclose(far.predict(X[:9] + 2.0**40), near.predict(X[:9]), rtol=1e-10)


def test_values_of_a_kernel_that_are_no_numbers_are_refused(rng):
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    with pytest.raises(ValueError, match=r"X is too large.*Rescale"):
        st.StoppedKernelRegressor("ridge", 10.0).fit(1e200 * X, y)
    with pytest.raises(ValueError, match=r"X is too large.*Rescale"):
        st.StoppedKernelRegressor("ridge", 10.0).fit(
            1e200 * X[:2], y[:2]
        )  # distances overflow, their kernel does not
    with pytest.raises(ValueError, match=r"X is too large.*Rescale"):
        st.StoppedKernelRegressor("ridge", 10.0).fit(X, y).predict(1e200 * X)
    with pytest.raises(ValueError, match="choose another kernel"):
        st.StoppedKernelRegressor("ridge", 10.0, kernel=lambda *_: np.inf).fit(X, y)


@pytest.mark.parametrize(
    ("kernel", "shift", "scale"), [("linear", 1e4, 1), ("poly", 0, 30), ("rbf", 0, 1)]
)
def test_single_precision_loses_nothing_but_its_own_digits(kernel, shift, scale, rng):
    X = (scale * rng.standard_normal((150, 3)) + shift).astype(np.float32)
    y = (X[:, 0].astype(float) - shift) / scale + 0.1 * rng.standard_normal(150)
    model = st.StoppedKernelRegressorCV("ridge", kernel=kernel, degree=4)
    single = clone(model).fit(X, y).predict(X)
    double = clone(model).fit(X.astype(float), y).predict(X.astype(float))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=1e-5)
