"""Rounding of products of features: a warning if it costs more than a part in a million."""

import warnings

import numpy as np
import pytest
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


def test_targets_with_stops_of_their_own_are_told_apart():
    rng = np.random.default_rng(2)
    X = with_singular_values(rng, 400, [1.0, 0.3, 1e-6])
    Y = np.column_stack([X @ [1.0, 2.0, 3.0], rng.standard_normal(400)])
    statistics = st.Statistics.of(X, Y)
    st.StoppedRegressorCV("ridge", [1.0, 5.0], rule="path-gcv", per_target=True).fit(statistics)
    with pytest.warns(UserWarning, match="rounding of XᵀX may change"):
        st.StoppedRegressorCV("ridge", [np.inf], rule="path-gcv", per_target=True).fit(statistics)


def test_a_target_that_is_not_explained_at_all_is_no_loss():
    X = np.kron(np.array([[1.0, 1e-3], [1.0, -1e-3], [-1.0, 1e-3], [-1.0, -1e-3]]), np.ones((5, 1)))
    y = np.tile([2.0, -1.0, 0.3, -1.3, 0.0], 4)  # orthogonal to both
    drawn = st.path(st.Statistics.of(X, y), "ridge", [1.0, np.inf])
    assert np.abs(drawn.coef).max() < 1e-9
    assert drawn.error.max() < 1e-12


@pytest.mark.parametrize(
    ("feature_unit", "target_unit"), [(1.0, 1e90), (1e-90, 1.0), (1e-90, 1e90), (1e90, 1e-90)]
)
def test_no_loss_is_hidden_by_numbers_whose_squares_overflow(feature_unit, target_unit):
    rng = np.random.default_rng(3)
    X = 1 + 1e-6 * rng.standard_normal((6, 2))
    y = rng.standard_normal(6)
    units = [(1.0, 1.0), (feature_unit, target_unit)]
    with pytest.warns(UserWarning, match="may change"):
        ordinary, extreme = (
            st.path(st.summarise(X * unit, y * size), "ridge", [np.inf], fit_intercept=False)
            for unit, size in units
        )
    np.testing.assert_allclose(extreme.error, ordinary.error, rtol=0.5)
