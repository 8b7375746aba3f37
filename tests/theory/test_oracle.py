"""The plug-in oracle: recovers the truth, equals the full likelihood, survives the edges."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stoptime as st


def draw(rng, n, p, noise, signal, q=None):
    X = rng.standard_normal((n, p)) * np.geomspace(1, 0.1, p)
    shape = p if q is None else (p, q)
    beta = rng.standard_normal(shape) * np.sqrt(signal / p)
    y = X @ beta
    return X, y + np.sqrt(noise) * rng.standard_normal(y.shape)


@pytest.mark.parametrize("shape", [(40, 6), (12, 30)], ids=str)
def test_it_maximises_the_gaussian_likelihood_of_the_raw_data(rng, shape):
    X, y = draw(rng, *shape, 0.5, 3.0)
    n, p = shape
    oracle = st.estimate_oracle(st.decompose(X, y, fit_intercept=False))

    def likelihood(noise, signal):
        return multivariate_normal(np.zeros(n), noise * np.eye(n) + signal / p * X @ X.T).logpdf(y)

    best = likelihood(oracle.noise, oracle.signal)
    for a, b in [(1.05, 1), (0.95, 1), (1, 1.05), (1, 0.95), (1.05, 1.05), (0.95, 1.05)]:
        assert likelihood(oracle.noise * a, oracle.signal * b) < best
    assert oracle.penalty == pytest.approx(oracle.noise * p / (oracle.signal * n), rel=1e-12)


def test_it_recovers_noise_and_signal(rng):
    X, Y = draw(rng, 400, 60, 2.0, 5.0, q=50)
    oracle = st.estimate_oracle(st.decompose(X, Y))
    assert oracle.noise.shape == oracle.signal.shape == (50,)
    # σ² of one target has a standard error of about 2·sqrt(2/340), the mean of 50 a seventh
    assert oracle.noise.mean() == pytest.approx(2.0, abs=4 * 2 * np.sqrt(2 / 340 / 50))
    assert oracle.signal.mean() == pytest.approx(5.0, rel=0.15)


def test_duplicated_rows_are_weights(rng):
    X, y = draw(rng, 30, 4, 0.5, 3.0)
    w = rng.integers(1, 4, 30)
    a = st.estimate_oracle(st.decompose(X, y, sample_weight=w))
    b = st.estimate_oracle(st.decompose(np.repeat(X, w, axis=0), np.repeat(y, w)))
    assert a.penalty == pytest.approx(b.penalty, rel=1e-6)
    assert a.noise == pytest.approx(b.noise, rel=1e-6)
    # weights that sum to one are as many rows as there are
    shares = st.estimate_oracle(st.decompose(X, y, sample_weight=np.full(30, 1 / 30)))
    assert shares.penalty == pytest.approx(st.estimate_oracle(st.decompose(X, y)).penalty, rel=1e-6)


def test_no_noise_runs_to_least_squares(rng):
    X, _ = draw(rng, 30, 4, 0.5, 3.0)
    spec = st.decompose(X, X @ np.ones(4))
    model = st.StoppedRegressor().fit(X, X @ np.ones(4))
    np.testing.assert_allclose(model.coef_, 1, rtol=1e-6)
    assert st.estimate_oracle(spec).penalty < 1e-12
    for name in ("gradient-descent", "nesterov", "nu-method"):
        model = st.StoppedRegressor(name).fit(X, X @ np.arange(4))
        np.testing.assert_allclose(model.coef_, np.arange(4), atol=1e-6)


@pytest.mark.parametrize("case", ["zero y", "constant X", "one row"])
def test_no_signal_stops_at_once(rng, case):
    X, y = draw(rng, 30, 4, 0.5, 3.0)
    if case == "zero y":
        y = np.full(30, 7.0)
    elif case == "constant X":
        X = np.ones((30, 4))
    else:
        X, y = X[:1], y[:1]
    oracle = st.estimate_oracle(st.decompose(X, y))
    assert oracle.penalty == np.inf
    model = st.StoppedRegressor().fit(X, y)
    assert model.stop_ == 0
    np.testing.assert_allclose(model.predict(X), y.mean())


def test_a_silent_target_among_others_is_harmless(rng):
    X, y = draw(rng, 30, 4, 0.5, 3.0)
    both = st.estimate_oracle(st.decompose(X, np.column_stack([y, np.zeros(30)])))
    alone = st.estimate_oracle(st.decompose(X, y))
    assert both.penalty == pytest.approx(alone.penalty, rel=1e-6)
    assert both.noise[1] == 0


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_coefficients_whose_squares_overflow_have_an_expected_error(noise):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((12, 4))
    y = X @ rng.standard_normal(4) + noise * rng.standard_normal(12)
    stops = np.geomspace(0.1, 100, 9)
    ordinary, extreme = (
        st.StoppedRegressorCV("ridge", stops / unit**2, rule="plug-in", fit_intercept=False)
        .fit(X * unit, y * size)
        .errors_
        / size**2
        for unit, size in [(1.0, 1.0), (1e-90, 1e83)]
    )
    np.testing.assert_allclose(extreme, ordinary, rtol=1e-4, atol=1e-25)
