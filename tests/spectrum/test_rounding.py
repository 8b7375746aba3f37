"""Rounding of products of features, and ill-conditioned problems in many digits."""

import warnings

import mpmath as mp
import numpy as np
import pytest
from scipy import linalg
from sklearn.preprocessing import OneHotEncoder

import stoptime as st
from stoptime.spectrum.accuracy import WARNED as WARNED_ROUNDING

LOST, GOOD = WARNED_ROUNDING, 1e-9
METHODS = [
    "ridge",
    "gradient-flow",
    "nesterov-flow",
    st.HeavyBallFlow(0.3),
    "gradient-descent",
    "nesterov",
]


def with_singular_values(rng, n, sizes):
    U = np.linalg.qr(rng.standard_normal((n, len(sizes))))[0]
    V = np.linalg.qr(rng.standard_normal((len(sizes), len(sizes))))[0]
    return (U * sizes * np.sqrt(n)) @ V.T


def stops_of(method, largest):
    if method in {"gradient-descent", "nesterov"}:
        return np.array([1.0, 30.0, 1000.0, np.inf])
    flow = np.array([1.0, 1e3, 1e6, 1e9, np.inf]) / largest
    return flow if method in {"ridge", "gradient-flow"} else np.sqrt(flow)


def compared(X, y, method, stops, fit_intercept=True):
    """Return true errors of the path of chunks, the errors it expects, and whether it warned."""
    known = st.path(X, y, method, stops, fit_intercept=fit_intercept, solver="svd").coef
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = st.path(st.Chunks.of(X, y, rows=37), method, stops, fit_intercept=fit_intercept)
    errors = np.linalg.norm(found.coef - known, axis=1) / np.linalg.norm(known, axis=1)
    return errors, found.error, bool(caught)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("smallest", [1e-2, 1e-6, 0.0])
def test_expected_errors_bound_the_true_ones_and_raise_no_false_alarm(
    smallest, method, fit_intercept
):
    rng = np.random.default_rng([int(1e8 * smallest), fit_intercept])
    X = with_singular_values(rng, 200, [1.0, 0.3, 0.3 * smallest**0.5 + 1e-3, smallest])
    exact = X @ rng.standard_normal(4)
    for y in (exact, exact + 0.1 * rng.standard_normal(200), rng.standard_normal(200)):
        errors, expected, warned = compared(X, y, method, stops_of(method, 1.0), fit_intercept)
        assert np.all((expected > WARNED_ROUNDING) | (errors <= LOST))
        assert np.all((expected <= 10 * WARNED_ROUNDING) | (errors > GOOD))
        assert warned == (expected.max() > WARNED_ROUNDING)


def test_directions_below_the_rank_cut_are_missed_at_early_stops_too():
    lost = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = with_singular_values(rng, 5, np.array([318, 116, 0.46, 1e-3, 2e-6]) / np.sqrt(5))
        errors, expected, warned = compared(X, rng.standard_normal(5), "ridge", [1.0], False)
        assert warned == (expected[0] > WARNED_ROUNDING)
        assert warned or errors[0] <= LOST
        lost += errors[0] > LOST
    assert lost > 10


def test_columns_of_other_scales_keep_their_digits():
    rng = np.random.default_rng(4)
    X = (
        rng.standard_normal((300, 6))
        @ rng.standard_normal((6, 6))
        * 10.0 ** np.array([0, -6, 3, -2, -4, 1])
    )
    for y in (rng.standard_normal(300), X @ (1 / X.std(axis=0))):
        found = st.path(st.Chunks.of(X, y, rows=37), "ridge", [np.inf])
        centred, units = X - X.mean(axis=0), X.std(axis=0)
        known = np.linalg.lstsq(centred / units, y - y.mean(), rcond=None)[0]
        np.testing.assert_allclose(found.coef[0] * units, known, rtol=1e-9)
        assert found.error[0] < WARNED_ROUNDING
    tiny = X * [1, 1, 1, 1, 1, 1e-16]
    with pytest.warns(UserWarning, match="standardise or drop columns"):
        st.path(st.Statistics.of(tiny, tiny @ np.ones(6) + tiny[:, 5] * 1e16), "ridge", [np.inf])


def test_one_hot_columns_raise_no_alarm():
    rng = np.random.default_rng(0)
    X = OneHotEncoder(sparse_output=False).fit_transform(rng.integers(0, 12, (60_000, 2)))
    y = X @ rng.standard_normal(24) + rng.standard_normal(60_000)
    chunks = st.Chunks.of(X, y, rows=7777)
    assert st.decompose(chunks).rank == 22
    model = st.StoppedRegressorCV("ridge", cv=3, stops=[1.0, 1e3, np.inf]).fit(chunks)
    known = st.path(X, y, "ridge", [model.stop_], solver="svd").coef[0]
    np.testing.assert_allclose(model.coef_, known, rtol=1e-9)


def test_a_target_that_is_not_explained_at_all_is_no_loss():
    X = np.kron(np.array([[1.0, 1e-3], [1.0, -1e-3], [-1.0, 1e-3], [-1.0, -1e-3]]), np.ones((5, 1)))
    y = np.tile([2.0, -1.0, 0.3, -1.3, 0.0], 4)  # orthogonal to both
    drawn = st.path(st.Statistics.of(X, y), "ridge", [1.0, np.inf])
    assert np.abs(drawn.coef).max() < 1e-9
    assert drawn.error.max() < 1e-12


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
