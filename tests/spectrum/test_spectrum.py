"""Data to spectrum: three solvers with one answer, weights, ranks, types, and bad input."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoptime import decompose, leave_one_out, path, plan
from stoptime.support.arrays import EPS

SHAPES = [(50, 8), (8, 50), (30, 30), (40, 1), (1, 5), (31, 30)]


def problem(rng, n, p, q=None, mean=3.0):
    X = rng.standard_normal((n, p)) + mean
    return X, rng.standard_normal(n if q is None else (n, q)) + 1


def centred(X, y, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    share = weights / weights.sum()
    Xc, yc = X - share @ X, y - share @ y
    root = np.sqrt(share)[:, None]
    return root * Xc, root * yc.reshape(len(y), -1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("solver", ["gram", "svd", "auto"])
def test_spectrum_factors_the_covariance(rng, shape, fit_intercept, solver):
    X, y = problem(rng, *shape)
    spec = decompose(X, y, fit_intercept=fit_intercept, solver=solver)
    rows, targets = centred(X, y)
    if not fit_intercept:
        rows, targets = X / np.sqrt(len(X)), y[:, None] / np.sqrt(len(X))
    V, s = spec.vectors, spec.eigenvalues
    assert spec.rank == min(shape[0] - fit_intercept, shape[1])
    assert np.all(np.diff(s) >= 0)
    scale = s.max(initial=0) + 1e-300
    np.testing.assert_allclose(V * s @ V.T, rows.T @ rows, atol=1e-12 * scale)
    np.testing.assert_allclose(V.T @ V, np.eye(spec.rank), atol=1e-9)
    np.testing.assert_allclose(
        spec.response, (V.T @ rows.T @ targets)[:, 0], atol=1e-12 * np.sqrt(scale)
    )
    np.testing.assert_allclose(spec.target_power, (targets**2).sum(), rtol=1e-12, atol=1e-15)
    assert spec.n_samples == spec.n_observations == len(X)
    assert len(spec.padded_eigenvalues) == X.shape[1]


def test_a_weight_of_two_is_the_row_twice(rng):
    X, y = problem(rng, 20, 6)
    weights = rng.integers(0, 4, 20)
    weighted = decompose(X, y, sample_weight=weights)
    repeated = decompose(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.n_samples == repeated.n_samples == weights.sum()
    assert weighted.n_observations == repeated.n_observations
    for field in ("eigenvalues", "feature_mean", "target_mean", "target_power"):
        np.testing.assert_allclose(getattr(weighted, field), getattr(repeated, field), rtol=1e-12)
    a, b = (path(spec, "nesterov-flow", [1.0, 10.0]) for spec in (weighted, repeated))
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-11)


def test_a_direction_is_not_dropped_because_the_response_seems_to_miss_it(rng):
    for _ in range(50):
        X, coef = rng.standard_normal((8, 5)), rng.standard_normal(5)
        X[:, 4] = X[:, 3] + 1e-11 * X[:, 4]
        found = path(X, X @ coef, "ridge", [np.inf], fit_intercept=False).coef[0]
        np.testing.assert_allclose(
            found, coef, atol=1e-2
        )  # eps over the smallest singular value, and some


@given(
    n=st.integers(1, 12),
    p=st.integers(1, 12),
    rank=st.integers(0, 12),
    seed=st.integers(0, 10**6),
    intercept=st.booleans(),
)
def test_any_rank_gives_minimum_norm_least_squares_at_the_end(n, p, rank, seed, intercept):
    rng = np.random.default_rng(seed)
    rank = min(rank, n, p)
    X = rng.integers(-3, 4, (n, rank)) @ rng.integers(-3, 4, (rank, p)) + 0.0
    y = rng.standard_normal(n)
    end = path(X, y, "nesterov-flow", np.inf, fit_intercept=intercept)
    rows, targets = (X - X.mean(0), y - y.mean()) if intercept else (X, y)
    expected = np.linalg.lstsq(rows, targets, rcond=1e-10)[0]
    np.testing.assert_allclose(end.coef[0], expected, atol=1e-8)


def test_auto_takes_the_svd_where_squares_lose_the_answer(rng):
    U, _ = np.linalg.qr(rng.standard_normal((200, 6)))
    V, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    X = U * np.geomspace(1, 1e-6, 6) @ V.T
    beta = rng.standard_normal(6)
    y = X @ beta
    options = {"fit_intercept": False}
    assert decompose(X, y, **options).solver == "svd"
    assert decompose(X, y, **options, max_gain=1e3).solver == "gram"
    np.testing.assert_allclose(
        path(X, y, "nesterov-flow", np.inf, **options).coef[0], beta, rtol=1e-7
    )
    early = [path(X, y, "nesterov-flow", [20.0], solver=s, **options).coef for s in ("gram", "svd")]
    np.testing.assert_allclose(early[0], early[1], rtol=1e-10)


@pytest.mark.parametrize("shape", [(4000, 40), (40, 4000)], ids=str)
def test_products_keep_directions_below_their_rounding(rng, shape):
    """Squares of the smallest lengths are rounding errors of the largest one."""
    short = min(shape)
    left, _ = np.linalg.qr(rng.standard_normal((shape[0], short)))
    right, _ = np.linalg.qr(rng.standard_normal((shape[1], short)))
    lengths = np.geomspace(1, 2e-7, short)
    assert lengths[-1] ** 2 < 0.1 * EPS * max(shape)
    X = (left * lengths) @ right.T
    y = left @ rng.standard_normal(short)
    found = decompose(X, y, fit_intercept=False, solver="gram")
    expected = decompose(X, y, fit_intercept=False, solver="svd")
    np.testing.assert_allclose(found.eigenvalues * shape[0], lengths[::-1] ** 2, rtol=0.05)
    largest = expected.eigenvalues[-1]
    assert found.accuracy.gain * largest > 1e5
    gains = np.geomspace(1, 1e5, 6) / largest
    for name in ("ridge", "gradient-flow"):
        one = path(found, name, gains).coef
        other = path(expected, name, gains).coef
        error = np.linalg.norm(one - other, axis=1) / np.linalg.norm(other, axis=1)
        assert error.max() < 1e-9


def test_duplicated_columns_need_no_svd(rng):
    X, y = problem(rng, 100, 5)
    X = np.hstack([X, X[:, :2], np.ones((100, 1))])
    spec = decompose(X, y)
    assert (spec.rank, spec.solver) == (5, "gram")
    np.testing.assert_allclose(path(spec, "ridge", np.inf).coef[0, -1], 0, atol=1e-14)


def test_float32_stays_float32(rng):
    X, y = problem(rng, 100, 10)
    for shape in ((100, 10), (10, 100)):
        A = X.reshape(shape).astype(np.float32)
        b = np.resize(y, shape[0]).astype(np.float32)
        for solver in ("gram", "svd"):
            spec = decompose(A, b, solver=solver)
            assert spec.eigenvalues.dtype == spec.response.dtype == np.float64
            drawn = path(spec, "nesterov-flow", [0.5, 2.0])
            assert drawn.coef.dtype == drawn.intercept.dtype == np.float32
            exact = path(A.astype(float), b.astype(float), "nesterov-flow", [0.5, 2.0]).coef
            np.testing.assert_array_equal(drawn.coef, exact.astype(np.float32))


@pytest.mark.parametrize(("order", "solver"), [("C", "gram"), ("F", "svd")])
@pytest.mark.parametrize("shape", [(40, 5), (5, 40)], ids=str)
def test_input_is_never_modified(rng, order, solver, shape):
    X, y = problem(rng, *shape)
    X = np.asarray(X, order=order)
    X0, y0 = X.copy(), y.copy()
    X.flags.writeable = y.flags.writeable = False
    decompose(X, y, solver=solver).vectors  # noqa: B018 - formed on demand
    np.testing.assert_array_equal(X, X0)
    np.testing.assert_array_equal(y, y0)


def test_squares_of_float32_do_not_overflow(rng):
    X, y = problem(rng, 30, 4)
    expected = path(X, y, "ridge", [2.0]).coef
    for scale in (1e-30, 1e30):
        found = path((scale * X).astype(np.float32), y, "ridge", [2.0 / scale**2]).coef
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.astype(float) * scale, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="Coefficients overflow"):
        path((1e-30 * X).astype(np.float32), 1e15 * y, "ridge", [np.inf])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mean", [0, 1.5, 3, 1e6])
def test_wide_data_keep_their_digits_however_far_from_zero(rng, mean, weighted):
    """Means of a few deviations are taken off the products, larger ones off a copy."""
    X, y = problem(rng, 12, 40)
    X = X - X.mean(axis=0) + mean * rng.choice([-1, 1], 40) * X.std(axis=0)
    weights = rng.uniform(0, 3, 12) * (np.arange(12) != 4) if weighted else None
    near, exact = (decompose(X, y, weights, solver=solver) for solver in ("gram", "svd"))
    rounding = 1e-13 * max(1, mean)
    np.testing.assert_allclose(near.eigenvalues, exact.eigenvalues, rtol=rounding)
    np.testing.assert_allclose(
        path(near, "nesterov-flow", [1, 30]).coef,
        path(exact, "nesterov-flow", [1, 30]).coef,
        atol=rounding,
    )
    np.testing.assert_allclose(near.vectors.T @ near.vectors, np.eye(near.rank), atol=10 * rounding)


def test_centring_leaves_no_direction_in_doubt(rng):
    """The null direction of centring does not count as a dropped direction with a response."""
    for _ in range(10):
        X, y = problem(rng, 300, 320, mean=0.0)
        spectrum = decompose(X, y)
        assert (spectrum.solver, spectrum.rank, spectrum.accuracy.gain) == ("gram", 299, np.inf)


@pytest.mark.parametrize(
    ("shape", "solver", "copies"),
    [
        ((40_000, 50), "gram", 0.5),
        ((40_000, 50), "svd", 1.3),
        ((100, 20_000), "gram", 1.3),
        ((100, 20_000), "svd", 1.3),
    ],
    ids=str,
)
def test_memory_is_at_most_one_copy_of_the_data(rng, shape, solver, copies):
    X, y = problem(rng, *shape)
    tracemalloc.start()
    decompose(X, y, solver=solver)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= copies * X.nbytes


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X[:, 0], y), "2D array"),
        (lambda X, y: (X[:0], y[:0]), r"0 sample\(s\)"),
        (lambda X, y: (X[:, :0], y), r"0 feature\(s\)"),
        (lambda X, y: (np.char.add(X.astype(str), "a"), y), "could not convert"),
        (lambda X, y: (X, np.where(y > 1, "a", "b")), "y holds text.*classifier"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(rng, spoil, message):
    with pytest.raises(ValueError, match=message):
        decompose(*spoil(*problem(rng, 30, 4)))


@pytest.mark.parametrize("shape", [(60, 5), (5, 30)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dead_columns_count_as_zero_and_small_ones_are_refused(rng, shape, dtype):
    """Embeddings have dead columns, of size 1e-33, which no stop should learn from."""
    X, y = problem(rng, *shape)
    X = X.astype(dtype)
    without = X.copy()
    without[:, [1, 3]] = 0
    dead = X * np.array([1, 1e-33, 1, 1e-33] + [1] * (shape[1] - 4), dtype)
    for solver in ("auto", "svd"):
        spectrum = decompose(dead, y, solver=solver)
        exact = decompose(without, y, solver=solver)
        np.testing.assert_allclose(spectrum.eigenvalues, exact.eigenvalues, rtol=1e-5)
        left_out = leave_one_out(without, y, "gradient-flow", [1.0, 5.0]).errors
        for options in ({}, {"spectrum": spectrum}):
            found = leave_one_out(dead, y, "gradient-flow", [1.0, 5.0], **options).errors
            np.testing.assert_allclose(found, left_out, rtol=1e-5)
    assert plan(0.1, X=dead, y=y).iterations == plan(0.1, X=without, y=y).iterations
    small = X.astype(float)
    small[:, 1] *= 1e-18
    with pytest.raises(ValueError, match="column 1 is the first that is too small"):
        decompose(small, y)
    assert path(decompose(small, y, max_gain=10.0), "ridge", [10.0]).coef.any()


@pytest.mark.parametrize(
    ("value", "dtype"), [(0, float), (1, float), (0.1, float), (1e6 / 3, float), (1e6 / 3, "f4")]
)
@pytest.mark.parametrize("shape", [(10, 3), (3, 10), (1, 1)], ids=str)
@pytest.mark.parametrize("solver", ["auto", "svd"])
def test_constant_columns_teach_nothing(rng, value, dtype, shape, solver):
    X, y = np.full(shape, value, dtype), rng.standard_normal(shape[0])
    spec = decompose(X, y, solver=solver)
    assert spec.rank == 0
    drawn = path(spec, "nesterov-flow", [0, 1, np.inf])
    np.testing.assert_array_equal(drawn.coef, 0)
    np.testing.assert_allclose(drawn.intercept, y.mean())
