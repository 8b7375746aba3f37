"""Sparse matrices and operators: the path of dense data, an error bound, and few products."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import stoptime as st
from stoptime.spectrum.accuracy import ReachError

FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


def data(n, p, seed=0, density=0.3):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, p, density=density, random_state=seed, format="csr")
    return X, X @ rng.standard_normal(p) + 0.3 * rng.standard_normal(n) + 2


def relative(found, exact):
    """Return the distance of coefficients, of many targets the worst."""
    length = np.linalg.norm(exact, axis=0)
    return float(np.max(np.linalg.norm(found - exact, axis=0) / np.where(length > 0, length, 1)))


def random_problem(rng):
    """Return a dense X of any shape and condition, y, weights, and whether to fit an intercept."""
    n, p = rng.integers(1, 70, 2)
    r = min(n, p)
    left, right = (np.linalg.qr(rng.standard_normal((m, r)))[0] for m in (n, p))
    lengths = [
        rng.uniform(0.5, 1.5, r),
        np.geomspace(1, 10 ** -rng.uniform(0, 5), r),
        rng.choice([1.0, 0.5, 0.01], r),
        np.append(1e3, rng.uniform(0.1, 1, r - 1)),
    ][rng.integers(4)]
    X = (left * lengths) @ right.T * 10 ** rng.uniform(-3, 3)
    if rng.random() < 0.3:
        X += rng.standard_normal(p) * np.abs(X).max()
    y = X @ rng.standard_normal(p) + 10 ** rng.uniform(-6, 1) * np.abs(
        X
    ).max() * rng.standard_normal(n)
    if rng.random() < 0.2:
        y = np.column_stack([y, rng.standard_normal(n)])
    weights = rng.integers(0, 3, n) if rng.random() < 0.4 else np.ones(n)
    return X, y, weights if weights.sum() else np.ones(n), bool(rng.random() < 0.6)


def random_stops(rng, largest):
    """Yield methods of every kind with one stop each, from very early to very late ones."""
    root = np.sqrt(largest)
    for method in [
        st.AcceleratedFlow(rng.uniform(0.5, 8)),
        st.HeavyBallFlow(rng.uniform(0.001, 1) * root),
        st.GradientFlow(),
        st.Ridge(),
        st.Nesterov(1 / largest),
        st.GradientDescent(1 / largest),
        st.NuMethod(1 / largest),
        st.HeavyBall(1 / largest, momentum=0.9),
    ]:
        phase = 10 ** rng.uniform(-1, 2.3)
        time = phase / root if method.time_power == 2 else phase**2 / 8 / largest
        iterations = np.ceil(phase if method.time_power == 2 else phase**2 / 8)
        yield method, float(iterations if isinstance(method, st.Iteration) else time)
    yield st.Ridge(), np.inf


@pytest.mark.parametrize("seed", range(120))
def test_the_error_bound_holds(seed):
    """Against the singular values of the dense matrix, at any tolerance."""
    rng = np.random.default_rng(seed)
    X, y, weights, fit_intercept = random_problem(rng)
    exact = st.decompose(X, y, weights, fit_intercept, solver="svd")
    largest = exact.eigenvalues[-1] if exact.rank else 1.0
    condition = largest / exact.eigenvalues[0] if exact.rank else 1.0
    for method, stop in [*random_stops(rng, largest)][seed % 2 :: 2]:  # infinity every other time
        tol = float(10 ** rng.uniform(-8, -1))
        options = {"sample_weight": weights, "fit_intercept": fit_intercept, "tol": tol}
        found = st.path(aslinearoperator(X), y, method, [stop], **options)
        rounding = 1e-13 * condition if np.isinf(stop) else 1e-9
        assert (
            relative(found.coef[0], st.path(exact, method, [stop]).coef[0])
            <= found.error[0] + rounding
        )
        assert found.error[0] <= tol


@pytest.mark.parametrize("friction", [1.0, 3.0])
def test_the_error_bound_is_tight(friction):
    X, y = data(300, 200)
    exact = st.decompose(X.toarray(), y)
    ratios = []
    for phase in np.geomspace(1, 60, 20):
        stop = phase / np.sqrt(exact.eigenvalues[-1])
        method = st.AcceleratedFlow(friction)
        found = st.path(X, y, method, [stop], solver="krylov", tol=1e-5)
        ratios.append(
            found.error[0] / relative(found.coef[0], st.path(exact, method, [stop]).coef[0])
        )
    assert np.median(ratios) < 2
    assert min(ratios) > 1


class Counting(LinearOperator):
    """A matrix that counts its products itself."""

    def __init__(self, X):
        super().__init__(np.float64, X.shape)
        self.X, self.count = X, 0

    def _matvec(self, v):
        self.count += 1
        return self.X @ v.ravel()

    def _rmatvec(self, u):
        self.count += 1
        return self.X.T @ u.ravel()


SPECTRA = [
    lambda r: np.random.default_rng(0).uniform(0, 1, r),
    lambda r: np.sin(np.pi * np.arange(1, r + 1) / (2 * r)),  # as hard for a Krylov space as any
    lambda r: np.geomspace(1, 1e-4, r),
]


@pytest.mark.parametrize("spectrum", SPECTRA, ids=["even", "arcsine", "geometric"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("phase", [0.5, 3, 10, 30, 100])
@pytest.mark.parametrize("name", ["nesterov-flow", "nesterov"])
def test_products_are_at_most_those_of_nesterovs_iteration(name, phase, fit_intercept, spectrum):
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.standard_normal((m, 300)))[0] for m in (400, 300))
    X = (left * spectrum(300)) @ right.T
    y = rng.standard_normal(400)
    largest = st.decompose(X, y, fit_intercept=fit_intercept).eigenvalues[-1]
    method = st.Nesterov(1 / largest) if name == "nesterov" else st.AcceleratedFlow()
    stop = np.ceil(phase) if name == "nesterov" else phase / np.sqrt(largest)
    A = Counting(X)
    found = st.path(A, y, method, np.array([0.2, 1.0]) * stop if name != "nesterov" else [stop],
                    fit_intercept=fit_intercept)  # fmt: skip
    assert found.krylov.products == A.count
    allowed = 2 * int(
        np.ceil(phase)
    )  # every iteration takes a product with X and one with its transpose
    assert A.count <= (allowed if phase >= 10 else allowed + 5) + fit_intercept + (
        name == "nesterov"
    )


@pytest.mark.parametrize("name", ["nesterov", "gradient-descent", "nu-method"])
def test_a_step_of_one_over_the_largest_eigenvalue_is_found(name):
    X, y = data(300, 200)
    found = st.path(X, y, name, [1, 7, 40], solver="krylov")
    exact = st.path(X.toarray(), y, name, [1, 7, 40])
    assert found.method.step == pytest.approx(exact.method.step, rel=2e-6)
    np.testing.assert_allclose(found.coef, exact.coef, atol=2e-6 * np.abs(exact.coef).max())


def test_one_space_serves_all_stops_and_methods():
    X, y = data(200, 80)
    spectrum = st.decompose(X, y, solver="krylov", max_gain=2e3)
    exact = st.decompose(X.toarray(), y)
    for name in [
        "ridge",
        "gradient-flow",
        "nesterov-flow",
        "nesterov",
        "gradient-descent",
        "nu-method",
    ]:
        last = np.floor(2e3 ** (1 / st.METHODS[name].time_power)) if name in st.METHODS else 20.0
        found = st.path(spectrum, name, [1.0, last])
        assert relative(found.coef[1], st.path(exact, name, [1.0, last]).coef[1]) <= 1e-6
        assert found.krylov.products == spectrum.krylov.products
    with pytest.raises(
        ValueError, match=r"has not converged for Ridge\(\) at stop 1e\+08.*max_gain"
    ):
        st.path(spectrum, "ridge", [1.0, 1e8])


@pytest.mark.parametrize("shape", [(150, 40), (40, 150)], ids=str)
@pytest.mark.parametrize("solver", ["gram", "krylov"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_both_routes_equal_dense_data(shape, solver, fit_intercept):
    X, y = data(*shape)
    Y = np.column_stack([y, y**2, np.ones(len(y))])
    options = {"sample_weight": np.arange(len(y)) % 3, "fit_intercept": fit_intercept}
    stops = [0.0, 1.0, 10.0, np.inf]
    found = st.path(X, Y, "nesterov-flow", stops, solver=solver, **options)
    exact = st.path(X.toarray(), Y, "nesterov-flow", stops, **options)
    np.testing.assert_allclose(found.coef, exact.coef, atol=2e-6 * np.abs(exact.coef).max())
    np.testing.assert_allclose(
        found.intercept, exact.intercept, atol=2e-6 * np.abs(exact.intercept).max()
    )
    for rows in (X, X.tocsc(), aslinearoperator(X)):
        np.testing.assert_allclose(found.predict(rows), found.predict(X.toarray()), atol=1e-9)
    if solver == "gram":
        np.testing.assert_allclose(found.degrees_of_freedom, exact.degrees_of_freedom, rtol=1e-9)
        assert found.krylov is None
    else:
        assert np.isnan(found.degrees_of_freedom).all()
        single = st.path(X, y, "nesterov-flow", stops, solver=solver, **options)
        np.testing.assert_allclose(found.coef[..., 0], single.coef, atol=1e-12)


def test_conjugate_gradients_run_in_their_own_space():
    X, y = data(80, 50)
    Y = np.column_stack([y, np.sin(y)])
    found = st.path(X, Y, "conjugate-gradient", [0, 3, 8], solver="krylov", probes=50)
    exact = st.path(X.toarray(), Y, "conjugate-gradient", [0, 3, 8])
    np.testing.assert_allclose(found.coef, exact.coef, atol=1e-10)
    np.testing.assert_array_equal(found.krylov.sizes, [8, 8])
    np.testing.assert_allclose(found.degrees_of_freedom, exact.degrees_of_freedom, rtol=0.1)
    assert (found.error[:2] == 0).all()
    assert found.error[2] == 0


@pytest.mark.parametrize(("method", "stop"), [("ridge", np.inf), ("conjugate-gradient", 5)])
@pytest.mark.parametrize("kind", [sparse.csr_array, aslinearoperator])
def test_least_squares_keeps_what_small_singular_values_have_of_the_response(kind, method, stop):
    rng = np.random.default_rng(52)
    for gap in (1e-3, 1e-5, 1e-7):
        X = rng.standard_normal((11, 5))
        X[:, 4] = X[:, 3] + gap * rng.standard_normal(11)
        y = X @ rng.standard_normal(5)
        found = st.path(kind(X), y, method, [stop], fit_intercept=False, solver="krylov")
        right = np.linalg.lstsq(X, y, rcond=None)[0]
        error = np.linalg.norm(found.coef[0] - right) / np.linalg.norm(right)
        assert error < 1e-14 / gap
        assert found.error[0] == 0  # rounding is not counted


def test_formats_and_types_are_alike():
    X, y = data(60, 20)
    exact = st.path(X.toarray(), y, "nesterov-flow", [5.0]).coef
    forms = [X.asformat(name) for name in FORMATS] + [sparse.csr_array(X), X.astype(np.float32)]
    forms.append(LinearOperator(X.shape, matvec=lambda v: X @ v, rmatvec=lambda v: X.T @ v))
    for form in forms:
        found = st.path(form, y, "nesterov-flow", [5.0], solver="krylov").coef
        assert found.dtype == (np.float32 if form.dtype == np.float32 else np.float64)
        np.testing.assert_allclose(found, exact, atol=1e-6)
    whole = (10 * X).astype(int)
    found = st.path(whole, y, "ridge", [1.0], solver="krylov").coef
    np.testing.assert_allclose(found, st.path(whole.toarray(), y, "ridge", [1.0]).coef, atol=1e-6)
    before = X.copy()
    st.path(X, y, "nesterov-flow", [5.0], solver="krylov")
    assert (before != X).nnz == 0


@pytest.mark.parametrize("solver", ["gram", "krylov"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 1), (30, 8), (8, 30)], ids=str)
def test_nothing_to_learn(shape, solver):
    """Without entries, variation or a second row, coefficients are zero and not rounding."""
    y = np.random.default_rng(0).standard_normal(shape[0])
    cases = [(sparse.csr_matrix(shape), y), (sparse.csr_matrix(np.full(shape, 3.3)), y)]
    cases.append(
        (sparse.csr_matrix(np.random.default_rng(1).standard_normal(shape)), np.full(shape[0], 0.1))
    )
    for X, target in cases:
        found = st.path(X, target, "nesterov-flow", [0.0, 5.0, np.inf], solver=solver)
        np.testing.assert_allclose(found.coef, 0, atol=1e-12)
        np.testing.assert_allclose(found.intercept, target.mean())


def test_a_response_out_of_reach():
    X, _ = data(60, 20)
    rng = np.random.default_rng(0)
    every = np.column_stack([np.ones(60), X.toarray(), rng.standard_normal(60)])
    outside = np.linalg.qr(every)[0][:, -1]
    for fit_intercept in (True, False):
        found = st.path(
            X, outside, "ridge", [1.0, np.inf], solver="krylov", fit_intercept=fit_intercept
        )
        assert not found.coef.any()


def test_large_means_cost_no_digits():
    X, y = data(60, 20)
    far = X.toarray() + 1e6
    exact = st.path(X.toarray(), y, "nesterov-flow", [5.0]).coef
    for form in (sparse.csr_matrix(far), aslinearoperator(far)):
        np.testing.assert_allclose(st.path(form, y, "nesterov-flow", [5.0]).coef, exact, atol=1e-6)


def test_memory_is_bounded_and_said():
    X, y = data(60, 40)
    with pytest.raises(
        ReachError, match=r"3 Krylov vectors.*smaller stop.*max_rank.*tol than 1e-06"
    ):
        st.path(X, y, "nesterov-flow", [50.0], solver="krylov", max_rank=3)
    early = st.path(X, y, "nesterov-flow", [0.1], solver="krylov", max_rank=3)
    assert early.krylov.sizes[0] <= 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tol": 0.0}, ValueError, "tol must be"),
        ({"max_rank": 0}, ValueError, "max_rank must be a whole number of at least 1"),
        ({"probes": -1}, ValueError, "probes must be"),
        ({"rank": 3}, TypeError, "rank: no option"),
        ({"solver": "lsqr"}, ValueError, "solver must be"),
    ],
)
def test_bad_options(options, error, message):
    X, y = data(20, 5)
    with pytest.raises(error, match=message):
        st.path(X, y, "ridge", [1.0], **options)
    with pytest.raises(TypeError, match="for sparse matrices and operators"):
        st.path(X.toarray(), y, "ridge", [1.0], tol=1e-3)


def test_bad_data():
    X, y = data(30, 6)
    bad = X.copy()
    bad.data[3] = np.nan
    for form, message in [
        (bad, "X contains NaN"),
        (aslinearoperator(bad), "product with X contains NaN"),
        (X * 1j, "Complex data"),
        (aslinearoperator(X * 1j), "Complex data"),
        (LinearOperator(X.shape, matvec=lambda v: X @ v, dtype=float), "define rmatvec"),
        (X[:0], "at least one row"),
        (X * 1e200, "too large"),
        (X * 1e-200, "too small"),
    ]:
        with pytest.raises(ValueError, match=message):
            st.path(form, y[: form.shape[0]], "ridge", [1.0])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        st.path(X, y[:-1], "ridge", [1.0])
    with pytest.raises(ValueError, match="y contains NaN"):
        st.path(X, np.where(y > y.mean(), np.nan, y), "ridge", [1.0])
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        st.path(X, y, "heavy-ball-flow", [1.0], solver="krylov", max_rank=3)
    with pytest.raises(ValueError, match="drawn with 6"):
        st.path(X, y, "ridge", [1.0]).predict(X[:, :2])


def test_a_spectrum_travels():
    X, y = data(40, 12)
    spectrum = st.decompose(X, y, solver="krylov", max_gain=10.0)
    again = pickle.loads(pickle.dumps(spectrum))
    np.testing.assert_array_equal(again.vectors, spectrum.vectors)
    assert "krylov" in repr(spectrum)
    assert f"{spectrum.krylov.products} products" in repr(spectrum)


@pytest.mark.parametrize("method", ["nesterov", "gradient-descent", "nu-method"])
@pytest.mark.parametrize("seed", range(3))
def test_the_error_of_an_automatic_step_is_part_of_the_bound(method, seed):
    rng = np.random.default_rng(seed)
    X = sparse.random(600, 450, density=0.03, random_state=seed, format="csr")
    y = X @ rng.standard_normal(450) + rng.standard_normal(600)
    found = st.path(X, y, method, [5, 20], solver="krylov")
    exact = st.path(X.toarray(), y, method, [5, 20])
    off = np.linalg.norm(found.coef - exact.coef, axis=1) / np.linalg.norm(exact.coef, axis=1)
    assert (off <= found.error).all()
    assert (found.error < 1e-5).all()
