"""The Butterworth filter in use: exact leave-one-out by its ridges, calibration, estimators."""

import numpy as np
import pytest

import stoptime as st


def data(rng, n=25, p=7):
    X = rng.normal(size=(n, p)) * np.geomspace(1, 0.1, p)
    return X, X @ rng.normal(size=p) + 0.5 * rng.normal(size=n)


@pytest.mark.parametrize("order", [1, 3, 4])
def test_leave_one_out_is_that_of_refits(order, rng):
    X, y = data(rng)
    n = len(y)
    stops = np.array([0.3, 3.0, 40.0])
    method = st.Butterworth(order)
    refitted = np.empty((3, n))
    for i in range(n):
        kept = np.arange(n) != i
        path = st.path(X[kept], y[kept], method, stops, fit_intercept=False)
        refitted[:, i] = y[i] - path.predict(X[[i]])[:, 0]
    curve = st.leave_one_out(X, y, method, stops, fit_intercept=False)
    np.testing.assert_allclose(curve.errors, np.mean(refitted**2, axis=1), rtol=1e-9)


@pytest.mark.parametrize(("order", "inflation"), [(1, 1.0), (2, 9 / 8), (3, 5 / 4)])
def test_calibration_against_ridge(order, inflation):
    found = st.calibrate(st.Butterworth(order))
    assert found.inflation == pytest.approx(inflation, abs=1e-9)
    # no other stop of a fine grid is better
    x = np.geomspace(1e-4, 1e4, 2001)[:, None]
    stops = np.geomspace(0.1, 10, 801)
    g = st.Butterworth(order).shrinkage(x, stops)
    ratios = (1 + x) * (g**2 + (1 - g) ** 2 / x)
    assert ratios.max(axis=0).min() == pytest.approx(found.inflation, rel=2e-3)
    assert st.equivalent_stop(st.Butterworth(order), 0.1) == pytest.approx(10 * found.stop)


@pytest.mark.parametrize(
    "method",
    [st.AcceleratedFlow(), st.AcceleratedFlow(7), st.GradientFlow(), st.Butterworth(3), st.Ridge()],
    ids=str,
)
def test_principal_components_have_at_most_twice_the_risk(method, rng):
    """Fixed design: the best number of components against the filter, for any signal and noise."""
    largest = 0.0
    for _ in range(500):
        count = rng.integers(1, 12)
        s = np.sort(np.exp(rng.uniform(-4, 4, count)))[::-1]
        g = method.shrinkage(s, np.exp(rng.uniform(-2, 2)))
        variance = np.exp(rng.uniform(-8, 4)) / s
        # signals as large as the noise are the hard ones
        signal = variance * np.exp(rng.uniform(-1, 1) * rng.standard_normal(count))
        filtered = np.sum(g**2 * signal + (1 - g) ** 2 * variance)
        kept = np.append(0.0, np.cumsum(variance))
        dropped = np.append(np.cumsum(signal[::-1])[::-1], 0.0)
        largest = max(largest, (kept + dropped).min() / filtered)
        # without regard to the signal, the directions with g ≤ 1/2 have at most four times the risk
        assert np.sum(np.where(g <= 0.5, variance, signal)) <= 4 * filtered
    assert 1.5 < largest <= 2
