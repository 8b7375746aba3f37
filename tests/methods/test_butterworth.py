"""The Butterworth filter in use: exact leave-one-out by its ridges, calibration, estimators."""

import numpy as np
import pytest

import stoptime as st


def data(rng, n=25, p=7):
    X = rng.normal(size=(n, p)) * np.geomspace(1, 0.1, p)
    return X, X @ rng.normal(size=p) + 0.5 * rng.normal(size=n)


@pytest.mark.parametrize("order", [1, 3, 4])
def test_leave_one_out_is_the_mixture_of_complex_ridges(order, rng):
    """Three routes: refits without each row, the ridges of the filter, and the library."""
    X, y = data(rng)
    n = len(y)
    stops = np.array([0.3, 3.0, 40.0])
    method = st.Butterworth(order)
    refitted = np.empty((3, n))
    for i in range(n):
        kept = np.arange(n) != i
        path = st.path(X[kept], y[kept], method, stops, fit_intercept=False)
        refitted[:, i] = y[i] - path.predict(X[[i]])[:, 0]
    # A fit to n - 1 rows divides by n - 1, so in terms of X'X/n its penalty is smaller.
    penalties, weights = method.ridges(stops)
    found = np.zeros((3, n))
    for k, stop in np.ndindex(penalties.shape):
        gram = X.T @ X + (n - 1) * penalties[k, stop] * np.eye(X.shape[1])
        hat = X @ np.linalg.solve(gram, X.T)
        left_out = (y - hat @ y) / (1 - np.diag(hat))
        found[stop] += (weights[k, stop] * left_out).real
    np.testing.assert_allclose(found, refitted, rtol=1e-9, atol=1e-11)
    curve = st.leave_one_out(X, y, method, stops, fit_intercept=False)
    np.testing.assert_allclose(curve.errors, np.mean(refitted**2, axis=1), rtol=1e-9)


@pytest.mark.parametrize(("order", "inflation"), [(1, 1.0), (2, 9 / 8), (3, 5 / 4)])
def test_calibration_against_ridge(order, inflation):
    found = st.calibrate(st.Butterworth(order))
    assert found.inflation == pytest.approx(inflation, abs=1e-9)
    # no other stop of a fine grid is better
    x = np.geomspace(1e-4, 1e4, 4001)[:, None]
    stops = np.geomspace(0.1, 10, 2001)
    g = st.Butterworth(order).shrinkage(x, stops)
    ratios = (1 + x) * (g**2 + (1 - g) ** 2 / x)
    assert ratios.max(axis=0).min() == pytest.approx(found.inflation, rel=2e-3)
    assert st.equivalent_stop(st.Butterworth(order), 0.1) == pytest.approx(10 * found.stop)


def test_a_steep_edge_finds_a_signal_in_the_leading_directions(rng):
    X = rng.normal(size=(200, 60))
    X[:, :4] *= 5
    beta = np.zeros(60)
    beta[:4] = 0.5
    y = X @ beta + rng.normal(size=200)
    steep = st.StoppedRegressorCV(st.Butterworth()).fit(X, y)
    ridge = st.StoppedRegressorCV("ridge").fit(X, y)
    assert np.linalg.norm(steep.coef_ - beta) < 0.7 * np.linalg.norm(ridge.coef_ - beta)
    assert steep.method_ == st.Butterworth()


@pytest.mark.parametrize(
    "method", [st.AcceleratedFlow(), st.GradientFlow(), st.Butterworth(3), st.Ridge()], ids=str
)
def test_principal_components_have_at_most_four_times_the_risk(method, rng):
    """Fixed design: the components with g ≤ 1/2 against the filter, for any signal and noise."""
    largest = 0.0
    for _ in range(300):
        s = np.sort(np.exp(rng.uniform(-4, 4, 12)))
        signal = np.exp(rng.uniform(-4, 4, 12))
        noise = np.exp(rng.uniform(-8, 4))
        g = method.shrinkage(s, np.exp(rng.uniform(-2, 2)))
        kept = g <= 0.5
        # the kept directions are those above some eigenvalue
        assert not np.any(np.diff(kept.astype(int)) < 0)
        filtered = np.sum(g**2 * signal + (1 - g) ** 2 * noise / s)
        components = np.sum(np.where(kept, noise / s, signal))
        largest = max(largest, components / filtered)
    assert 1.5 < largest <= 4
