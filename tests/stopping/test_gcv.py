"""Path GCV solves the averaged Volterra equation, and follows leave-one-out unlike naive GCV."""

import numpy as np
import pytest
from scipy.special import j1, y1

import stoptime as st
from contract import fitted
from stoptime import METHODS, AcceleratedFlow, GradientFlow, HeavyBallFlow, Ridge, decompose, path
from stoptime.left_out.exact import leave_one_out
from stoptime.stopping.gcv import naive_gcv, path_gcv


def data(n, p, seed=0, signal=5.0):
    rng = np.random.default_rng(seed)
    X, beta = rng.normal(size=(n, p)), rng.normal(size=p) * np.sqrt(signal / p)
    return X, X @ beta + rng.normal(size=n), beta


def test_it_follows_leave_one_out_where_naive_gcv_fails():
    X, y, beta = data(300, 360)
    spectrum, stop = decompose(X, y), [19.6]
    true = 1 + np.sum((path(spectrum, "nesterov-flow", stop).coef - beta) ** 2)
    exact = leave_one_out(X, y, "nesterov-flow", stop).errors
    with pytest.warns(UserWarning, match="path-gcv"):
        naive = naive_gcv(spectrum, "nesterov-flow", stop)
    np.testing.assert_allclose(exact, true, rtol=0.25)
    np.testing.assert_allclose(path_gcv(spectrum, "nesterov-flow", stop), exact, rtol=0.05)
    assert naive > 10 * exact


def green(method, s, t, tau):
    """Return the response at t to a push at tau of one eigendirection."""
    if isinstance(method, GradientFlow):
        return np.exp(-s * (t - tau))
    if isinstance(method, HeavyBallFlow):
        omega = np.sqrt(s - method.damping**2)
        return np.exp(-method.damping * (t - tau)) * np.sin(omega * (t - tau)) / omega
    omega = np.sqrt(s)
    waves = j1(omega * tau) * y1(omega * t) - j1(omega * t) * y1(omega * tau)
    return np.pi / 2 * tau**2 / t * waves


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    "method", [GradientFlow(), AcceleratedFlow(), HeavyBallFlow(damping=0.1)], ids=str
)
def test_it_solves_the_volterra_equation(method, fit_intercept):
    X, y, _ = data(12, 3)
    n, last, count = len(X), 6.0, 800
    spectrum = decompose(X, y, fit_intercept=fit_intercept)
    scale = n / (n - 1)
    stretch = scale if fit_intercept else 1.0
    s, z = scale * spectrum.eigenvalues, scale * spectrum.response
    times = np.linspace(0, last, count + 1)
    step = times[1]
    scores = (X - spectrum.feature_mean) @ spectrum.vectors
    full = (y - spectrum.target_mean)[:, None] - scores @ (
        z[:, None] * method.gain(s[:, None], times)
    )
    kernel = np.zeros((count + 1, count + 1))
    t, tau = np.broadcast_arrays(times[1:, None], times[1:])
    below = t >= tau
    pushes = np.stack([green(method, value, t[below], tau[below]) for value in s])
    kernel[1:, 1:][below] = stretch / n * s @ pushes
    if not isinstance(method, AcceleratedFlow):  # whose push at time zero vanishes
        kernel[1:, 0] = stretch / n * s @ np.stack([green(method, v, times[1:], 0.0) for v in s])
    rule = step * kernel
    rule[:, 0] /= 2
    np.fill_diagonal(rule, rule.diagonal() / 2)
    residuals = stretch * np.linalg.solve(np.eye(count + 1) - rule, full.T)
    places = [count // 8, count // 2, count]
    found = path_gcv(spectrum, method, times[places])
    np.testing.assert_allclose(found, np.mean(residuals[places] ** 2, axis=1), rtol=2e-4)


def test_for_ridge_it_is_gcv():
    X, y, _ = data(40, 7)
    stops = np.array([0.0, 0.1, 1.0, 10.0, np.inf])
    spectrum = decompose(X, y)
    np.testing.assert_allclose(
        path_gcv(spectrum, Ridge(), stops),
        naive_gcv(spectrum, Ridge(), stops * 40 / 39),
        rtol=1e-12,
    )


@pytest.mark.parametrize("name", METHODS)
def test_it_is_exact_where_all_rows_are_alike(name):
    """Rows of a balanced design have the same kernel."""
    X = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 3, float)
    y = np.random.default_rng(1).normal(size=12)
    stops = [0, 0.3, 1, 3, 10, 30, np.inf]
    expected = leave_one_out(X, y, name, stops).errors
    np.testing.assert_allclose(path_gcv(decompose(X, y), name, stops), expected, rtol=1e-9)


@pytest.mark.parametrize("shape", [(30, 5), (20, 40)])
def test_many_targets_are_many_single_ones(shape):
    X, y, _ = data(*shape)
    Y = np.column_stack([y, y**2, X[:, 0]])
    stops = [0, 1, 10, 1e7, np.inf]
    found = path_gcv(decompose(X, Y), "nesterov-flow", stops)
    assert found.shape == (5, 3)
    for target in range(3):
        single = path_gcv(decompose(X, Y[:, target]), "nesterov-flow", stops)
        np.testing.assert_allclose(found[:, target], single, rtol=1e-9, atol=1e-12)


def test_the_rule_has_the_errors_of_the_function():
    X, y, _ = data(30, 40)
    stops = np.array([0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0])
    model = fitted("nesterov-flow", X, y, rule="path-gcv", stops=stops)
    expected = path_gcv(decompose(X, y), "nesterov-flow", stops)
    np.testing.assert_allclose(model.errors_, expected, rtol=1e-9)


def test_ends():
    X, y, _ = data(20, 40)
    spectrum = decompose(X, y)
    nothing, everything = path_gcv(spectrum, "ridge", [0.0, np.inf])
    np.testing.assert_allclose(nothing, y.var() * (20 / 19) ** 2)
    assert np.isinf(naive_gcv(spectrum, "ridge", [np.inf]))
    np.testing.assert_allclose(everything, path_gcv(spectrum, "ridge", [1e9])[0], rtol=1e-6)
    with pytest.raises(ValueError, match="one number or a list"):
        path_gcv(spectrum, "ridge", [[1.0]])
    with pytest.raises(ValueError, match="three rows"):
        path_gcv(decompose(X[:1], y[:1]), "ridge", [1.0])


@pytest.mark.parametrize(("shape", "noise"), [((60, 60), 2.0), ((120, 113), 0.01)])
def test_least_squares_is_chosen_for_its_small_error_but_not_by_luck(shape, noise):
    n, p = shape
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n + 200, p))
    signal = X @ rng.normal(size=(p, 60)) / np.sqrt(p)
    Y = signal + noise * rng.normal(size=signal.shape)
    options = {"per_target": True, "rule": "path-gcv"}
    model = st.StoppedRegressorCV("ridge", **options).fit(X[:n], Y[:n])
    errors = ((model.predict(X[n:]) - signal[n:]) ** 2).mean(axis=0)
    # in a square problem least squares is far worse than zero; with little noise and six directions
    # of the residual it is nearly the best fit
    assert errors.max() < 6
    if noise < 1:
        assert np.median(model.stop_) > 100
        assert np.median(errors) < 0.02


def test_the_luckiest_of_many_targets_does_not_choose_least_squares(rng):
    """The last direction of the residual decides there, and some have hardly any response in it."""
    X = rng.normal(size=(230, 29))
    X[:, 0] = X[:, 1] + 1e-4 * X[:, 0]
    Y = rng.normal(size=(230, 4000))
    model = st.StoppedRegressorCV("ridge", per_target=True, rule="path-gcv").fit(X[:30], Y[:30])
    errors = ((model.predict(X[30:]) - Y[30:]) ** 2).mean(axis=0)
    assert np.isfinite(model.stop_).all()
    assert errors.max() < 8
