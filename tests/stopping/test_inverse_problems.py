"""Rules of inverse problems: discrepancy, NCP and L-curve, for conjugate gradients too."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.sparse.linalg import aslinearoperator

import stoptime as st


def blurred(n=120, level=0.01, seed=0):
    """Return a blur, a signal, its noisy image, and the variance of the noise."""
    t = np.linspace(0, 1, n)
    A = np.exp(-(((t[:, None] - t) / 0.03) ** 2)) / n
    x = np.where(abs(t - 0.4) < 0.15, 1.0, 0.0) + np.exp(-(((t - 0.75) / 0.08) ** 2))
    noise = level * np.sqrt(np.mean((A @ x) ** 2))
    b = A @ x + noise * np.random.default_rng(seed).standard_normal(n)
    return A, x, b, noise**2


def fitted(X, y, rule, method="conjugate-gradient", **options):
    return st.StoppedRegressorCV(method, rule=rule, fit_intercept=False, **options).fit(X, y)


@pytest.mark.parametrize("kind", [np.asarray, aslinearoperator], ids=["dense", "operator"])
def test_conjugate_gradients_stop_at_the_first_residual_down_to_the_noise(kind):
    A, _, b, noise = blurred()
    model = fitted(kind(A), b, st.Discrepancy(noise))
    path = st.path(A, b, "conjugate-gradient", range(30), fit_intercept=False)
    residuals = ((b - path.coef @ A.T) ** 2).mean(axis=1)
    assert model.stop_ == np.argmax(residuals <= noise) > 2
    assert model.choice_.error == pytest.approx(residuals[int(model.stop_)], rel=1e-6)
    np.testing.assert_allclose(model.coef_, path.coef[int(model.stop_)], rtol=1e-5, atol=1e-8)
    assert fitted(kind(A), b, "discrepancy").stop_ == pytest.approx(model.stop_, abs=2)


def test_training_errors_of_conjugate_gradients_are_those_of_their_path():
    A, x, b, _ = blurred()
    Y = np.column_stack([b, A @ x[::-1], 1e100 * b])
    stops = [0, 1, 5, 12, np.inf]
    spectrum = st.decompose(A, Y)
    fits = st.path(spectrum, "conjugate-gradient", stops).predict(A)
    expected = ((Y - fits) ** 2).mean(axis=1)
    errors = st.training_error(spectrum, "conjugate-gradient", stops)
    np.testing.assert_allclose(errors[:-1], expected[:-1], rtol=1e-7)
    assert np.all(errors[-1] <= errors[-2])


def test_every_target_has_a_first_crossing_of_its_own():
    A, x, b, noise = blurred()
    Y = np.column_stack([b, A @ x + 3 * (b - A @ x)])
    both = fitted(A, Y, st.Discrepancy(noise, safety=4.0), per_target=True)
    alone = [fitted(A, y, st.Discrepancy(noise, safety=4.0)).stop_ for y in Y.T]
    np.testing.assert_array_equal(both.stop_, alone)


def test_a_search_that_is_thinned_still_finds_the_first_iteration():
    A, _, b, noise = blurred()
    for method in ("nesterov", st.HeavyBall(momentum=0.95), "gradient-descent", "nesterov-flow"):
        whole = fitted(A, b, st.Discrepancy(noise), method).stop_
        assert fitted(A, b, st.Discrepancy(noise), method, stops=5).stop_ == pytest.approx(
            whole, rel=1e-9
        )


def heat(n=100, kappa=1.0):
    """Return the Volterra matrix of the inverse heat equation; its last columns are tiny."""
    t = (np.arange(n) + 0.5) / n
    kernel = t**-1.5 * np.exp(-1 / (4 * kappa**2 * t)) / (2 * n * kappa * np.sqrt(np.pi))
    return toeplitz(kernel, np.zeros(n)), np.exp(-(((t - 0.4) / 0.1) ** 2))


def cgls(A, y, iterations):
    """Run textbook conjugate gradients on the normal equations."""
    beta = np.zeros(A.shape[1])
    residual = y.copy()
    gradient = direction = A.T @ y
    for _ in range(iterations):
        image = A @ direction
        rate = gradient @ gradient / (image @ image)
        beta += rate * direction
        residual = residual - rate * image
        new = A.T @ residual
        direction = new + new @ new / (gradient @ gradient) * direction
        gradient = new
    return beta


def test_the_heat_equation_is_fitted_at_early_stops_and_refused_at_the_end():
    A, x = heat()
    b = A @ x
    noise = 0.01 * np.abs(b).max()
    y = b + noise * np.random.default_rng(0).standard_normal(100)
    beta, step = np.zeros(100), 100 / np.linalg.norm(A, 2) ** 2
    for _ in range(300):
        beta += step * A.T @ (y - A @ beta) / 100
    path = st.path(A, y, "gradient-descent", [300], fit_intercept=False)
    np.testing.assert_allclose(path.coef[0], beta, rtol=1e-9, atol=1e-12)
    for method in ("gradient-descent", "nesterov-flow", "nu-method", "conjugate-gradient"):
        model = fitted(A, y, st.Discrepancy(noise**2), method)
        residual = np.mean((y - A @ model.coef_) ** 2)
        assert residual <= noise**2 * (1 + 1e-9)
    np.testing.assert_allclose(model.coef_, cgls(A, y, int(model.stop_)), rtol=1e-6, atol=1e-9)
    for stop in (np.inf, 1e20):
        with pytest.raises(ValueError, match="or stop earlier: paths are accurate up to a gain"):
            st.path(A, y, "nesterov-flow", [stop], fit_intercept=False)
    with pytest.raises(ValueError, match="differ too much in scale"):
        fitted(A, y, "path-gcv", "nesterov-flow", stops=[1.0, np.inf])


@pytest.mark.parametrize("rule", ["path-gcv", "sure", "loo", "plug-in", "discrepancy"])
def test_every_rule_searches_the_heat_equation(rule):
    A, x = heat()
    b = A @ x
    y = b + 0.01 * np.abs(b).max() * np.random.default_rng(0).standard_normal(100)
    model = fitted(A, y, rule, "gradient-flow")
    assert 0 < model.stop_ < np.inf
    assert np.linalg.norm(model.coef_ - x) < 0.5 * np.linalg.norm(x)
