"""Data at the limits of floating point, found by generated problems."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone

import stoptime as st


@pytest.fixture
def data(rng):
    X = rng.standard_normal((12, 3))
    return X, X @ np.ones(3) + rng.standard_normal(12)


FREE = st.StoppedRegressor("ridge", 1.0, fit_intercept=False)
of_kernel = partial(st.StoppedKernelRegressor, "ridge", 1.0)
by_rule = partial(st.StoppedRegressorCV, "gradient-flow", [0.0], None)


@pytest.mark.parametrize("method", ["heavy-ball", "nesterov-flow", "ridge"])
def test_a_kernel_in_which_nothing_varies_predicts_the_mean(method):
    method = st.HeavyBall(0.5, 0.5) if method == "heavy-ball" else method
    model = st.StoppedKernelRegressorCV(method).fit(np.zeros((4, 2)), [1.0, 2.0, 3.0, 6.0])
    np.testing.assert_allclose(model.predict(np.zeros((1, 2))), 3.0)


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (of_kernel(kernel="linear"), lambda X, y: (1e80 * X, y), "kernel matrix is too large"),
        (of_kernel(kernel="precomputed"), lambda X, y: (X @ X.T, 1e200 * y), "y is too large"),
        (
            st.StoppedRegressor(st.HighResolutionFlow(1e-3, 1e-2), np.inf),
            lambda X, y: (1e99 * X, y),
            "step must be so small",
        ),
        (FREE, lambda X, y: (st.Chunks.of(X + 1e156, y),), "X is too large"),
        (FREE, lambda X, y: (st.Chunks.of(X, 1e150 * y + 1e156),), "y is too large"),
        (by_rule("sure"), lambda X, y: (aslinearoperator(X), y), "give the stop"),
        (by_rule("plug-in"), lambda X, y: (aslinearoperator(X), y), "give the stop"),
        (by_rule("path-gcv"), lambda X, y: (X, y, np.eye(12)[0]), "sample_weight"),
    ],
)
def test_what_cannot_be_fitted_is_refused_without_a_warning(data, model, change, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*change(*data))


@pytest.mark.parametrize("scale", [1e11, 1e25])
def test_a_kernel_too_large_for_float32_is_worked_on_in_float64(data, scale):
    X, y = (scale * data[0]).astype(np.float32), data[1]
    single = st.StoppedKernelRegressor("ridge", scale**-2, kernel="linear").fit(X, y)
    double = st.StoppedKernelRegressor("ridge", scale**-2, kernel="linear").fit(X.astype(float), y)
    np.testing.assert_allclose(single.predict(X), double.predict(X.astype(float)), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-90, 1e80])
@pytest.mark.parametrize(
    "options", [{"rule": "plug-in"}, {"cv": 2}, {"cv": 6}, {"rule": "path-gcv"}]
)
def test_choices_scale_with_the_data(data, scale, options):
    X, y = data
    plain = st.StoppedRegressorCV("nesterov-flow", [0.5, 2.0, 8.0], **options).fit(X, y)
    scaled = st.StoppedRegressorCV("nesterov-flow", np.array([0.5, 2.0, 8.0]) / scale, **options)
    scaled.fit(scale * X, scale * y)
    np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-8)
    np.testing.assert_allclose(
        scaled.errors_ / scale**2, plain.errors_, rtol=1e-5
    )  # as the plug-in penalty
    if plain.choice_.standard_error is not None:
        spread = scaled.choice_.standard_error / scale**2
        assert spread == pytest.approx(plain.choice_.standard_error, rel=1e-6)


def test_plug_in_curves_of_large_float32(data):
    X, y = data
    wide = (1e11 * X).astype(np.float32)
    model = st.StoppedRegressorCV("gradient-flow", 8, rule="plug-in").fit(
        wide, y.astype(np.float32)
    )
    assert np.isfinite(model.errors_).all()


def test_a_plateau_of_the_worst_case_takes_no_minute(data):
    """Without noise all eigenvalues are equally bad: a hundred of thousands of peaks suffice."""
    X, _ = data
    evaluated = []

    class Counted(st.HeavyBallFlow):
        def _gain(self, s, t):
            evaluated.append(np.broadcast(s, t).size)
            return super()._gain(s, t)

    st.StoppedRegressor(Counted(damping=60.0)).fit(100 * X, 100 * X @ np.ones(3))
    assert sum(evaluated) < 4e6


def test_infinite_errors_at_the_end_of_a_curve_are_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        model = st.StoppedRegressorCV("gradient-flow", rule="gcv", fit_intercept=False)
        model.fit(np.array([[-18.0, 13.0], [-109.0, -55.0]]), [0.3, 0.13])
    assert np.isfinite(model.stop_)


def test_an_early_stop_keeps_what_products_cannot_see(rng):
    """A direction below the rank cut of XᵀX is learned as fast as all others at an early stop."""
    X = rng.standard_normal((12, 3)) * [1.0, 1e-3, 1e-9]
    y = rng.standard_normal(12)
    y -= X[:, 0] * (X[:, 0] @ y) / (X[:, 0] @ X[:, 0])  # little of it is seen by the large column
    y += 1e-4 * X[:, 0]
    early = 1e-9
    coef = st.path(X, y, "gradient-flow", [early], fit_intercept=False).coef[0]
    np.testing.assert_allclose(
        coef, early * (X.T @ y) / 12, rtol=1e-7, atol=1e-10 * np.linalg.norm(coef)
    )
    tiny = 1e-80 * X, 1e-80 * y
    scaled = st.path(*tiny, "gradient-flow", [early / 1e-160], fit_intercept=False).coef[0]
    np.testing.assert_allclose(scaled, coef, rtol=1e-7, atol=1e-10 * np.linalg.norm(coef))


@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow"])
def test_rows_without_which_a_direction_is_lost_are_not_predicted_by_late_stops(method, rng):
    X, y = rng.standard_normal((3, 3)), rng.standard_normal(3)
    late = st.leave_one_out(
        X, y, method, [1e7, 1e21, 1e60, 1e150, np.inf], fit_intercept=False
    ).errors
    np.testing.assert_allclose(late, late[-1], rtol=1e-3)
    spectrum = st.decompose(X, y, fit_intercept=False)
    late = st.path_gcv(spectrum, method, [1e7, 1e21, 1e60, 1e150, np.inf])
    np.testing.assert_allclose(late, late[-1], rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_conjugate_gradients_of_any_scale(data, scale):
    X, y = data
    right = st.path(X, y, "conjugate-gradient", [1, 2, 3]).coef
    scaled = st.path(scale * X, y, "conjugate-gradient", [1, 2, 3]).coef
    np.testing.assert_allclose(scale * scaled, right, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-85, 1e85])
def test_operators_and_chunks_of_any_scale(data, scale):
    X, y = data
    right = st.StoppedRegressor("nesterov-flow", 3.0).fit(X, y).coef_
    for form in (aslinearoperator(scale * X), st.Chunks.of(scale * X, y)):
        rest = () if isinstance(form, st.Chunks) else (y,)
        model = st.StoppedRegressor("nesterov-flow", 3.0 / scale).fit(form, *rest)
        np.testing.assert_allclose(model.coef_ * scale, right, rtol=1e-5)


def test_a_column_that_is_constant_to_rounding_is_not_called_too_small():
    ulps = np.array([[1.0], [-1.0], [5.0], [1.0], [-4.0]])
    model = st.StoppedRegressor().fit(1e6 + np.spacing(1e6) * ulps, np.arange(5.0))
    np.testing.assert_array_equal(model.coef_, 0)
    with pytest.raises(ValueError, match="X is too small"):
        st.StoppedRegressor().fit(1e-160 * ulps, np.arange(5.0))


@pytest.mark.parametrize(
    "model",
    [
        st.StoppedRegressorCV(st.Adam(), cv=4),
        st.StoppedRegressorCV(rule="sure"),
        st.StoppedRegressor(),
        st.StoppedRegressor("ridge", stop=np.inf),
        st.StoppedRegressor(st.Adam(), stop=50),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [np.float32, np.float64, "chunks"])
def test_dead_columns_of_embeddings_count_as_zero(model, form):
    """Columns of size 1e-33 change nothing, in silence, at the latest stops neither."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((12, 5)).astype(np.float64 if form == "chunks" else form)
    y = X[:, 0] + X[:, 1] + 0.01 * rng.standard_normal(12)  # the best stop is late
    X[:, [2, 4]] *= X.dtype.type(1e-33)
    without = np.where(np.isin(np.arange(5), [2, 4]), 0, X).astype(X.dtype)
    coef = []
    for rows in (X, without):
        given = (st.Chunks.of(rows, y, rows=3),) if form == "chunks" else (rows, y)
        coef.append(clone(model).fit(*given).coef_)
    np.testing.assert_allclose(*coef, rtol=0, atol=1e-3)  # the grids of stops differ


def test_one_row_of_weight_leaves_nothing_to_learn(rng):
    for weight in [1.0, 0.7] * 50:
        X, y = rng.normal(size=(8, 7)), rng.normal(size=8)
        assert st.decompose(X, y, weight * np.eye(8)[3]).rank == 0
        model = st.StoppedRegressor("ridge", np.inf).fit(X, y, weight * np.eye(8)[3])
        np.testing.assert_array_equal(model.coef_, 0)
        assert model.intercept_ == pytest.approx(y[3], rel=1e-14)


def test_the_discrepancy_is_met_between_the_last_stop_and_infinity():
    X, y = np.array([[1001.37603997], [1000.34715772]]), np.array([-0.13694722, -0.96212109])
    model = st.StoppedRegressorCV("ridge", 3, rule="discrepancy", fit_intercept=False).fit(X, y)
    residual = np.mean((y - model.predict(X)) ** 2)
    assert np.isfinite(model.stop_)
    assert residual == pytest.approx(model.choice_.error, rel=1e-9)


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_chunks_of_small_rows_with_small_weights(data, size):
    X, y = data
    weights = np.linspace(1, 2, len(y))
    right = st.Statistics.of(1e-90 * X, y, weights)
    found = st.Statistics.of(1e-90 * X, y, size * weights)
    np.testing.assert_allclose(found.gram, right.gram, rtol=1e-12)
    np.testing.assert_allclose(found.weight, size * right.weight)


@pytest.mark.parametrize("scale", [1e-120, 1e-99, 1e99, 1e120])
@pytest.mark.parametrize("shape", [(12, 3), (3, 12)], ids=str)
@pytest.mark.parametrize("solver", ["gram", "svd"])
def test_extreme_units_are_either_solved_or_refused(rng, scale, shape, solver):
    """Root mean squares up to 1e±100 are accepted."""
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    if scale in {1e-120, 1e120}:
        word = "small" if scale < 1 else "large"
        with pytest.raises(ValueError, match=rf"X is too {word}.*Rescale"):
            st.decompose(scale * X, y, solver=solver)
        with pytest.raises(ValueError, match=rf"y is too {word}.*Rescale"):
            st.decompose(X, scale * y, solver=solver)
        return
    right = st.decompose(X, y, solver=solver)
    found = st.decompose(scale * X, scale * y, solver=solver)
    np.testing.assert_allclose(found.eigenvalues / scale**2, right.eigenvalues, rtol=1e-8)
    np.testing.assert_allclose(found.target_power / scale**2, right.target_power, rtol=1e-12)


@pytest.mark.parametrize("shape", [(12, 3), (3, 12)], ids=str)
@pytest.mark.parametrize("solver", ["gram", "svd"])
def test_a_column_whose_squares_vanish_is_refused_beside_ordinary_ones(rng, shape, solver):
    """With a mean square of zero it would count as constant, and its coefficient would be zero."""
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    X[:, 1] *= 1e-170
    with pytest.raises(ValueError, match=r"X is too small.*first in column 1\..*Rescale"):
        st.decompose(X, y, solver=solver)


@pytest.mark.parametrize(
    "form", [np.asarray, csr_array, aslinearoperator, st.Chunks.of], ids=range(4)
)
@pytest.mark.parametrize(
    ("scale", "fault"), [(1e-200, "X is too small"), (1e200, "X is too large")]
)
def test_every_kind_of_data_is_refused_with_the_same_message(data, form, scale, fault):
    X, y = data
    streamed = form == st.Chunks.of
    given = (st.Chunks.of(scale * X, y),) if streamed else (form(scale * X), y)
    fault = rf"{fault}.*Rescale it"
    with pytest.raises(ValueError, match=fault):
        st.StoppedRegressor("ridge", np.inf).fit(*given)


# ---------------------------------------------------------------- found by the campaign


@pytest.mark.parametrize("method", ["nesterov-flow", st.HeavyBallFlow(0.1)], ids=str)
def test_noise_below_what_no_stop_can_learn_ends_at_the_last_stop(method):
    X = np.array([[1000.1], [999.9]])
    model = st.StoppedRegressorCV(method, rule=st.Discrepancy(1e-3), fit_intercept=False)
    with pytest.warns(st.StopWarning, match="never falls to the noise"):
        model.fit(X, np.array([0.04, -2.3]))


def test_a_constant_response_has_an_l_curve_without_a_corner():
    X = aslinearoperator(np.array([[0.13], [-0.13]]))
    with pytest.warns(st.StopWarning, match="no corner"):
        model = st.StoppedRegressorCV("ridge", rule="l-curve").fit(X, np.full(2, 2.5))
    assert model.stop_ == 0


def test_a_response_of_zeros_is_fitted_by_zeros():
    X = np.array([[0.13], [-0.13]])
    model = st.StoppedKernelRegressorCV("nesterov-flow", kernel="rbf", fit_intercept=False)
    np.testing.assert_array_equal(model.fit(X, np.zeros(2)).predict(X), [0, 0])


def test_least_squares_alone_may_have_an_infinite_error():
    X = np.array([[0.1, 0.9], [-0.1, -0.7]])
    model = st.StoppedRegressorCV("ridge", rule="gcv", stops=[np.inf], fit_intercept=False)
    assert np.isinf(model.fit(X, np.array([-0.3, 0.4])).choice_.error)


def test_a_stop_of_any_size_is_taken():
    X = np.array([[0.13], [-0.13]])
    model = st.StoppedRegressorCV("nesterov-flow", stops=[1e-150], fit_intercept=False)
    assert model.fit(X, np.array([0.04, -2.3])).stop_ == 1e-150
