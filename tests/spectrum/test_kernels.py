"""Kernels, compared with explicit features and with refits, of any size, rank and precision."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import linear_kernel, pairwise_kernels, rbf_kernel
from sklearn.model_selection import KFold, cross_val_score

import stoptime as st
from stoptime.spectrum.radial import Radial

STOPS = [0.0, 1.0, 7.0, 40.0, 300.0]


@pytest.fixture
def data(rng):
    X = rng.standard_normal((40, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.standard_normal(40)


@pytest.fixture
def weights(rng):
    return rng.uniform(0.3, 2, 40)


def features(X):
    """Those of the kernel (1 + xᵀx')²."""
    first, second = np.triu_indices(X.shape[1], 1)
    mixed = np.sqrt(2) * X[:, first] * X[:, second]
    return np.column_stack([np.ones(len(X)), np.sqrt(2) * X, X**2, mixed])


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(50, 4), (15, 30)])
@pytest.mark.parametrize("method", ["nesterov-flow", "ridge", "nesterov"])
def test_a_kernel_is_the_inner_product_of_its_features(rng, fit_intercept, shape, method):
    X = rng.standard_normal(shape) + 1
    y = X[:, :2] + rng.standard_normal((shape[0], 2))
    w = rng.uniform(0.3, 2, shape[0])
    new = rng.standard_normal((7, shape[1]))
    for kernel, phi in (("linear", lambda X: X), ("poly", features)):
        options = {"kernel": kernel, "degree": 2, "gamma": 1.0, "fit_intercept": fit_intercept}
        for stop in (None, 3.0, 100.0, np.inf)[
            shape[0] < shape[1] :
        ]:  # noise is seen in tall data alone
            dual = st.StoppedKernelRegressor(method, stop=stop, **options).fit(
                X, y, sample_weight=w
            )
            primal = st.StoppedRegressor(method, stop=stop, fit_intercept=fit_intercept)
            primal.fit(phi(X), y, sample_weight=w)
            np.testing.assert_allclose(dual.stop_, primal.stop_, rtol=1e-8)
            np.testing.assert_allclose(
                dual.predict(new), primal.predict(phi(new)), rtol=1e-8, atol=1e-8
            )
            np.testing.assert_allclose(
                dual.degrees_of_freedom_, primal.degrees_of_freedom_, rtol=1e-8
            )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "rule",
    [
        "loo",
        "path-gcv",
        "sure",
        "discrepancy",
        "plug-in",
        "one-standard-error",
        st.CrossValidation(4),
    ],
)
def test_every_rule_sees_what_it_sees_in_the_features(data, weights, fit_intercept, rule):
    X, y = data
    stops = np.geomspace(0.5, 60, 30)
    common = {
        "method": "nesterov-flow",
        "stops": stops,
        "rule": rule,
        "fit_intercept": fit_intercept,
    }
    dual = st.StoppedKernelRegressorCV(kernel="poly", degree=2, gamma=1.0, **common)
    dual.fit(X, y, sample_weight=weights)
    primal = st.StoppedRegressorCV(**common).fit(features(X), y, sample_weight=weights)
    assert dual.stop_ == primal.stop_
    np.testing.assert_allclose(dual.errors_, primal.errors_, rtol=1e-8)
    np.testing.assert_allclose(
        dual.left_out_residuals_, primal.left_out_residuals_, rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        dual.predict_interval(X), primal.predict_interval(features(X)), rtol=1e-8
    )


def test_kernels_by_name_function_and_matrix_agree(data, rng):
    X, y = data
    new = rng.standard_normal((6, 2))
    named = st.StoppedKernelRegressorCV(stops=30, kernel="rbf", gamma=0.5).fit(X, y)
    matrix = st.StoppedKernelRegressorCV(stops=30, kernel="precomputed").fit(
        rbf_kernel(X, gamma=0.5), y
    )
    function = st.StoppedKernelRegressorCV(
        stops=30,
        kernel=lambda a, b, width: np.exp(-width * np.sum((a - b) ** 2)),
        kernel_params={"width": 0.5},
    ).fit(X, y)
    process = st.StoppedKernelRegressorCV(stops=30, kernel=RBF(length_scale=1.0)).fit(X, y)
    thin = st.StoppedKernelRegressorCV(stops=30, kernel="rbf", gamma=0.5).fit(
        sparse.csr_array(X), y
    )
    expected = named.predict(new)
    np.testing.assert_allclose(matrix.predict(rbf_kernel(new, X, gamma=0.5)), expected, rtol=1e-8)
    for model in (function, process):
        np.testing.assert_allclose(model.predict(new), expected, rtol=1e-8)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(new)), expected, rtol=1e-8)


def test_cross_validation_slices_the_kernel_and_computes_it_once(data, monkeypatch):
    X, y = data
    shapes = []

    def counted(self, rows, others):
        shapes.append(rows.shape)
        return rbf_kernel(rows, others, gamma=self.gamma)

    monkeypatch.setattr(Radial, "__call__", counted)
    model = st.StoppedKernelRegressorCV(
        "nesterov-flow", stops=[1.0, 10.0, 50.0], cv=KFold(4), kernel="rbf", gamma=0.5
    ).fit(X, y)
    assert shapes == [(40, 2)]
    for stop, error in zip(model.stops_, model.errors_, strict=True):
        one = st.StoppedKernelRegressor(stop=stop, gamma=0.5)
        scores = cross_val_score(one, X, y, cv=KFold(4), scoring="neg_mean_squared_error")
        assert error == pytest.approx(-scores.mean(), rel=1e-8)
        sliced = st.StoppedKernelRegressor(stop=stop, kernel="precomputed")
        again = cross_val_score(
            sliced, rbf_kernel(X, gamma=0.5), y, cv=KFold(4), scoring="neg_mean_squared_error"
        )
        np.testing.assert_allclose(again, scores, rtol=1e-8)


def test_hold_out_takes_the_kernel_of_the_validation_rows(data, rng):
    X, y = data
    X_val = rng.standard_normal((15, 2))
    y_val = np.sin(2 * X_val[:, 0]) + X_val[:, 1]
    model = st.StoppedKernelRegressorCV(
        "nesterov-flow",
        stops=[1.0, 10.0, 50.0],
        rule=st.HoldOut(X_val, y_val),
        kernel="rbf",
        gamma=None,
    ).fit(X, y)
    for stop, error in zip(model.stops_, model.errors_, strict=True):
        fit = st.StoppedKernelRegressor(stop=stop).fit(X, y)
        assert error == pytest.approx(np.mean((fit.predict(X_val) - y_val) ** 2), rel=1e-9)
    with pytest.raises(ValueError, match="features"):
        st.StoppedKernelRegressorCV(rule=st.HoldOut(X_val[:, :1], y_val)).fit(X, y)


def test_the_default_grid_finds_the_best_stop_without_following_every_swing(rng):
    """The grid ends long before the smallest eigenvalue is learned, and goes on where that pays."""
    X = rng.uniform(-3, 3, (80, 1))
    signal = np.sin(2 * X[:, 0])
    noisy_y = signal + 0.3 * rng.standard_normal(80)
    noisy = st.StoppedKernelRegressorCV("nesterov-flow", kernel="rbf", gamma=1.0).fit(X, noisy_y)
    finite = noisy.stops_[np.isfinite(noisy.stops_)]
    assert finite[-1] <= 300.001 / np.sqrt(noisy.eigenvalues_[-1])
    everywhere = st.StoppedKernelRegressorCV(
        "nesterov-flow",
        stops=np.geomspace(0.1, 100 * finite[-1], 2000),
        kernel="rbf",
        gamma=1.0,
        cv=80,
    )
    assert noisy.choice_.error <= everywhere.fit(X, noisy_y).choice_.error * (1 + 1e-6)
    clean = st.StoppedKernelRegressorCV(kernel="rbf", gamma=1.0).fit(X, signal)
    assert clean.score(X, signal) > 0.999


@pytest.mark.parametrize("model", [st.StoppedKernelRegressor(), st.StoppedKernelRegressorCV()])
def test_refusals(data, model):
    X, y = data
    K = rbf_kernel(X)
    lopsided = K.copy()
    lopsided[0, 1] += 0.1
    for params, rows, message in [
        ({"kernel": "gauss"}, X, "Unknown kernel 'gauss'; choose one of"),
        ({"kernel": "precomputed"}, X, "must be square"),
        ({"kernel": "precomputed"}, lopsided, "must be symmetric; its entries differ by up to 0.1"),
        ({"kernel": "precomputed"}, K - 0.5 * np.eye(len(K)), "not positive semi-definite"),
        ({"kernel": "sigmoid", "gamma": 5.0, "coef0": -1.0}, X, "not positive semi-definite"),
        ({"kernel": lambda a, b: -(a @ b)}, X, "not positive semi-definite"),
    ]:
        with pytest.raises(ValueError, match=message):
            clone(model).set_params(**params).fit(rows, y)


def test_centring_makes_a_distance_a_kernel(data):
    """After centring, the kernel -|x - x'|² is twice the linear kernel."""
    X, y = data
    distance = -((X[:, None] - X) ** 2).sum(axis=2)
    model = st.StoppedKernelRegressor(stop=5.0, kernel="precomputed").fit(distance, y)
    linear = st.StoppedKernelRegressor(stop=5.0, kernel="precomputed").fit(2 * linear_kernel(X), y)
    np.testing.assert_allclose(
        model.predict(distance), linear.predict(2 * linear_kernel(X)), rtol=1e-8
    )
    with pytest.raises(ValueError, match="not positive semi-definite"):
        model.set_params(fit_intercept=False).fit(distance, y)


def test_statistics_have_no_kernel(data):
    with pytest.raises(TypeError, match="drawn from rows"):
        st.StoppedKernelRegressor().fit(st.Statistics.of(*data))


@pytest.mark.parametrize("kernel", ["additive_chi2", "chi2", "cosine", "laplacian", "polynomial"])
def test_kernels_have_the_defaults_of_scikit_learn(kernel, rng):
    X, y = rng.uniform(size=(30, 3)), rng.standard_normal(30)
    values = pairwise_kernels(X, metric=kernel)
    named = st.StoppedKernelRegressor("ridge", 5.0, kernel=kernel).fit(X, y)
    given = st.StoppedKernelRegressor("ridge", 5.0, kernel="precomputed").fit(values, y)
    np.testing.assert_allclose(named.predict(X), given.predict(values), rtol=1e-9, atol=1e-12)


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
