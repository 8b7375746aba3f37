"""Ill-conditioned problems, against least squares in many digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import linalg

import stoptime as st


def polynomial(degree, low, high, n):
    """Return powers of x, as in the problems of NIST: Wampler, and Filip for a high degree."""
    x = np.linspace(low, high, n)
    return x[:, None] ** np.arange(1, degree + 1)


def collinear(n=16):
    """Return a few series that grow together, as in Longley's economy, with means far from zero."""
    rng = np.random.default_rng(5)
    year = np.arange(n) + 1947.0
    trend = (year - 1947)[:, None]
    return np.column_stack([
        100 + 2 * trend[:, 0] + 0.3 * rng.standard_normal(n),
        234_000 + 20_000 * trend[:, 0] + 900 * rng.standard_normal(n),
        107_000 + 1500 * trend[:, 0] + 60 * rng.standard_normal(n),
        year,
    ])  # fmt: skip


HARD = {
    "powers to the fifth": polynomial(5, 0, 20, 21),
    "powers to the tenth": polynomial(10, 0.1, 1.5, 82),
    "growing together": collinear(),
    "nearly the same": np.random.default_rng(6).standard_normal((30, 1))
    + 1e-7 * polynomial(3, -1, 1, 30),
}


def exact_least_squares(X, y):
    """Solve the normal equations to a hundred digits, intercept first."""
    with mp.workdps(100):
        rows = mp.matrix(np.column_stack([np.ones(len(X)), X]).tolist())
        return np.array(
            [float(v) for v in mp.lu_solve(rows.T * rows, rows.T * mp.matrix(y.tolist()))]
        )


@pytest.mark.parametrize("name", HARD)
def test_least_squares_is_as_accurate_as_that_of_scipy(name, rng):
    X = HARD[name]
    y = X @ (1 / np.abs(X).max(axis=0)) + 0.1 * rng.standard_normal(len(X))
    right = exact_least_squares(X, y)
    model = st.StoppedRegressor("gradient-flow", np.inf).fit(X, y)
    plain = linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y)[0]
    ours = np.append(model.intercept_, model.coef_)

    def error(found):
        return np.linalg.norm(found - right) / np.linalg.norm(right)

    assert error(ours) <= 10 * error(plain) + 1e-13


@pytest.mark.parametrize(
    "method", ["ridge", "gradient-flow", "nesterov-flow", st.HeavyBallFlow(1e-3)]
)
@pytest.mark.parametrize("name", HARD)
def test_both_routes_agree_as_far_as_the_theory_promises(name, method, rng):
    X = HARD[name] / np.abs(HARD[name]).max(axis=0)
    y = X @ np.ones(X.shape[1]) + 0.1 * rng.standard_normal(len(X))
    gram, svd = (st.decompose(X, y, solver=solver) for solver in ("gram", "svd"))
    method = st.get_method(method)
    stops = np.geomspace(0.1, 1e9, 41)
    gains = method.gain(0.0, stops)
    by_gram, by_svd = (st.path(spectrum, method, stops).coef for spectrum in (gram, svd))
    apart = np.linalg.norm(by_gram - by_svd, axis=1) / np.linalg.norm(by_svd, axis=1)
    if gram.accuracy.gain == 0:  # what the products drop is seen at every stop
        assert st.decompose(X, y, max_gain=gains[0]).solver == "svd"
        return
    allowed = 1e-10 * np.maximum(1, np.minimum(gains, 1 / svd.eigenvalues[0]) / gram.accuracy.gain)
    assert (apart <= 10 * allowed).all(), (apart / allowed).max()
    assert (apart[gains <= gram.accuracy.gain] <= 1e-9).all()
