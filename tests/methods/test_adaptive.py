"""Adam and its relatives: the iterates of torch, their exact derivatives, and what is refused."""

import numpy as np
import pytest
from scipy import sparse

import stoptime as st
from contract import fold_errors
from iteration_cases import make_data

METHODS = [
    st.Adam(lr=0.05),
    st.Adam(lr=0.01, betas=(0.8, 0.99), eps=1e-2),
    st.AdamW(lr=0.05, weight_decay=0.1),
    st.RMSProp(lr=0.002, alpha=0.9, eps=0.2),
    st.AdaGrad(lr=0.3),
]
each = pytest.mark.parametrize("method", METHODS, ids=str)


def on_rows(method, X, y, last):
    """Return all iterates up to the last, from the rows, one coefficient vector after another."""
    n, p = X.shape
    b, m, v = np.zeros(p), np.zeros(p), np.zeros(p)
    iterates = [b]
    for k in range(1, last + 1):
        g = 2 / n * X.T @ (X @ b - y)
        if isinstance(method, st.Adam):
            b1, b2 = method.betas
            b = b * (1 - method.lr * getattr(method, "weight_decay", 0.0))
            m = b1 * m + (1 - b1) * g
            v = b2 * v + (1 - b2) * g * g
            b = b - method.lr / (1 - b1**k) * m / (np.sqrt(v) / np.sqrt(1 - b2**k) + method.eps)
        else:
            kept = getattr(method, "alpha", 1.0)
            v = kept * v + (1 - kept if kept < 1 else 1.0) * g * g
            b = b - method.lr * g / (np.sqrt(v) + method.eps)
        iterates.append(b)
    return np.array(iterates)


@each
@pytest.mark.parametrize(("n", "p"), [(60, 6), (8, 15)])
def test_iterates_are_those_of_a_loop_on_the_rows(method, n, p):
    X, y = make_data(n, p)
    stops = np.array([0, 1, 2, 17, 300])
    for intercept in (False, True):
        drawn = st.path(X, y, method, stops, fit_intercept=intercept)
        rows = (X - X.mean(axis=0), y - y.mean()) if intercept else (X, y)
        right = on_rows(method, *rows, 300)[stops]
        np.testing.assert_allclose(drawn.coef, right, atol=1e-10 * np.abs(right).max())
        if intercept:
            np.testing.assert_allclose(drawn.intercept, y.mean() - right @ X.mean(axis=0))


@each
@pytest.mark.parametrize("intercept", [False, True])
def test_degrees_of_freedom_are_the_derivative_of_the_fit(method, intercept):
    X, y = make_data(12, 4)
    stops = [0, 1, 3, 60]
    drawn = st.path(X, y, method, stops, fit_intercept=intercept)
    width = 1e-6
    # one target for every row that is moved up or down
    moved = y[:, None] + width * np.hstack([np.eye(12), -np.eye(12)])
    fits = np.einsum(
        "np,tpq->tnq",
        X - intercept * X.mean(axis=0),
        st.path(X, moved, method, stops, fit_intercept=intercept).coef,
    )
    up, down = fits[:, :, :12], fits[:, :, 12:]
    trace = np.einsum("tnn->t", up - down) / (2 * width) + intercept
    np.testing.assert_allclose(drawn.degrees_of_freedom, trace, atol=1e-5)
    assert drawn.degrees_of_freedom[0] == intercept


def test_a_rotation_of_the_features_changes_the_path():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    y = X[:, 0] + rng.standard_normal(30)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    plain = st.path(X, y, st.Adam(), [10]).predict(X)
    turned = st.path(X @ turn, y, st.Adam(), [10]).predict(X @ turn)
    assert np.abs(plain - turned).max() > 1e-3


def test_a_weight_of_two_counts_a_row_twice_and_targets_are_apart():
    X, y = make_data(20, 3)
    twice = np.append(np.arange(20), 4)
    a = st.path(X, y, st.Adam(), [50], sample_weight=1.0 + (np.arange(20) == 4))
    b = st.path(X[twice], y[twice], st.Adam(), [50])
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-9)
    np.testing.assert_allclose(a.degrees_of_freedom, b.degrees_of_freedom, rtol=1e-7)
    Y = np.column_stack([y, 2 * y + X[:, 0]])
    drawn = st.path(X, Y, st.Adam(0.1), [3, 30])
    for k in range(2):
        alone = st.path(X, Y[:, k], st.Adam(0.1), [3, 30])
        np.testing.assert_allclose(drawn.coef[:, :, k], alone.coef, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(drawn.degrees_of_freedom[:, k], alone.degrees_of_freedom)


def test_data_of_every_kind():
    X, y = make_data(30, 4)
    method = st.Adam(0.05)
    right = st.path(X, y, method, [20]).coef
    single = st.path(X.astype(np.float32), y.astype(np.float32), method, [20])
    assert single.coef.dtype == np.float32
    np.testing.assert_allclose(single.coef, right, rtol=1e-3, atol=1e-4)
    streamed = st.path(st.summarise(X, y), method, [20])
    assert streamed.error.shape == (1,)
    np.testing.assert_allclose(streamed.coef, right, rtol=1e-8)
    for rows in (sparse.csr_array(X), np.column_stack([X, np.full(30, 7.0)])):
        drawn = st.path(rows, y, method, [20])
        np.testing.assert_allclose(drawn.coef[:, :4], right, rtol=1e-9)
        assert not drawn.coef[:, 4:].any()  # nothing is learned from a constant column
    drawn = st.path(np.ones((5, 2)), np.arange(5.0), method, [0, 20])
    assert not drawn.coef.any()
    np.testing.assert_allclose(drawn.degrees_of_freedom, 1)
    scaled = st.path(X, 1e90 * y, st.AdaGrad(lr=1e89, eps=1e-300), [20]).coef
    unit = st.path(X, y, st.AdaGrad(lr=0.1, eps=1e-300), [20]).coef
    np.testing.assert_allclose(scaled, 1e90 * unit, rtol=1e-6)
    with pytest.raises(ValueError, match="a kernel has none"):
        st.StoppedKernelRegressor(method, stop=5).fit(X, y)
    large = sparse.random(3000, 2000, density=0.01, random_state=0, format="csr")
    with pytest.raises(ValueError, match="needs all of XᵀX"):
        st.path(large, np.ones(3000), method, [5])


def test_the_stop_is_chosen_by_folds_hold_out_and_sure():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((120, 8))
    y = X @ rng.standard_normal(8) + 2 * rng.standard_normal(120)
    method = st.Adam(lr=0.05)
    stops = np.arange(0, 200, 10)
    rows = np.arange(120)
    folds = [(rows[:60], rows[60:]), (rows[60:], rows[:60])]
    drawn = st.path(X, y, method, stops)
    training = ((drawn.predict(X) - y) ** 2).mean(axis=1)
    on_part = st.path(X[40:], y[40:], method, stops).predict(X[:40])
    expected = {
        "cv": fold_errors(X, y, method, stops, folds),
        st.HoldOut(X[:40], y[:40]): ((on_part - y[:40]) ** 2).mean(axis=1),
        st.SURE(noise=4.0): training + 2 * 4.0 / 120 * drawn.degrees_of_freedom,
    }
    for rule, errors in expected.items():
        given = {"cv": folds} if rule == "cv" else {"rule": rule}
        some = rows[40:] if isinstance(rule, st.HoldOut) else rows
        found = st.StoppedRegressorCV(method, stops=stops, **given).fit(X[some], y[some])
        np.testing.assert_allclose(found.errors_, errors, rtol=1e-9)
        best = st.path(X[some], y[some], method, found.stop_).coef[0]
        np.testing.assert_allclose(found.coef_, best)
    every = st.training_error(st.decompose(X, y), method, np.arange(31))
    np.testing.assert_allclose(every[::10], training[:4], rtol=1e-9)
    model = st.StoppedRegressorCV(method, rule=st.Discrepancy(noise=float(every[30]))).fit(X, y)
    assert model.stop_ == np.argmax(every <= every[30])


def test_the_default_search_goes_on_while_the_error_falls():
    X, y = make_data(60, 3)
    model = st.StoppedRegressorCV(st.Adam(lr=0.005), cv=3).fit(X, X @ [3.0, 2.0, -2.0] + 0.1 * y)
    assert model.stops_.max() > 500
    many = st.StoppedRegressorCV(st.Adam(lr=0.05), stops=[5, 50], cv=3, per_target=True)
    many.fit(X, np.column_stack([y, X[:, 0]]))
    assert many.stop_.shape == many.degrees_of_freedom_.shape == (2,)
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((250, 220))  # for which the degrees of freedom take too long
    large = st.StoppedRegressor(st.Adam(), stop=1000).fit(wide, wide[:, 0])
    assert np.isnan(large.degrees_of_freedom_)
