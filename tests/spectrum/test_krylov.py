"""Sparse matrices and operators: the path of dense data, its error, and few products."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import stoptime as st
from stoptime.spectrum.accuracy import ReachError
from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.factorise import CentredOperator
from stoptime.spectrum.krylov import GolubKahan, density
from stoptime.spectrum.rows import OperatorRows


def data(n, p, seed=0, density=0.3):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, p, density=density, random_state=seed, format="csr")
    return X, X @ rng.standard_normal(p) + 0.3 * rng.standard_normal(n) + 2


def relative(found, exact):
    """Return the distance of coefficients, of many targets the worst."""
    length = np.linalg.norm(exact, axis=0)
    return float(np.max(np.linalg.norm(found - exact, axis=0) / np.where(length > 0, length, 1)))


def conditioned(rng, n, p, condition):
    """Return a matrix whose singular values decay geometrically."""
    r = min(n, p)
    left, right = (np.linalg.qr(rng.standard_normal((m, r)))[0] for m in (n, p))
    return (left * np.geomspace(1, 1 / condition, r)) @ right.T


class Foreign:
    """An operator with the interface of PyLops, none of SciPy's, which counts its products."""

    def __init__(self, matrix, adjoint=None):
        self.matrix = matrix
        self.back = matrix.T if adjoint is None else adjoint
        self.shape = matrix.shape
        self.dtype = matrix.dtype
        self.count = 0

    def matvec(self, x):
        self.count += 1
        return self.matrix @ x

    def rmatvec(self, x):
        self.count += 1
        return self.back @ x

    def __matmul__(self, x):
        return self.matrix @ x


@pytest.mark.parametrize(("shape", "condition"), [((80, 50), 1e1), ((50, 80), 1e8)])
def test_the_basis_is_orthonormal_and_the_projection_bidiagonal(rng, shape, condition):
    A = conditioned(rng, *shape, condition)
    run = GolubKahan(A, rng.standard_normal(shape[1]), 1e-14)
    for _ in range(40):  # crosses a block of vectors
        run.step()
    V = np.concatenate(run.basis.blocks())
    np.testing.assert_allclose(V @ V.T, np.eye(40), atol=1e-13)
    B = np.diag(run.alphas) + np.diag(run.betas[:-1], 1)
    np.testing.assert_allclose(V @ A.T @ A @ V.T, B.T @ B, atol=1e-13)


@pytest.mark.parametrize("condition", [1e1, 1e8])
def test_begun_with_a_target_it_knows_what_small_singular_values_have_of_it(rng, condition):
    A, y = conditioned(rng, 80, 50, condition), rng.standard_normal(80)
    run = GolubKahan(A, A.T @ y, 1e-14, target=y)
    for _ in range(20):
        run.step()
        V, ritz = np.concatenate(run.basis.blocks()), run.space(accurate=True)
        values = np.linalg.eigvalsh(V @ A.T @ A @ V.T)
        np.testing.assert_allclose(ritz.values, values, rtol=1e-9, atol=1e-14 * values[-1])
        np.testing.assert_allclose(ritz.rotation @ ritz.response, V @ A.T @ y, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_centring_is_exact_and_adjoint_however_large_the_means(rng, offset):
    X, root = rng.standard_normal((30, 7)) + offset, np.sqrt(rng.dirichlet(np.ones(30)))
    A = CentredOperator(OperatorRows(aslinearoperator(X)), root, centre=True)
    dense = root[:, None] * ((X - offset) - root**2 @ (X - offset))
    tolerance = 1e-15 * max(offset, 1)
    np.testing.assert_allclose(A @ np.eye(7), dense, atol=10 * tolerance)
    np.testing.assert_allclose(A.T @ np.eye(30), dense.T, atol=10 * tolerance)
    u, v = rng.standard_normal(30), rng.standard_normal(7)
    assert u @ (A @ v) == pytest.approx((A.T @ u) @ v, abs=30 * tolerance)
    assert A.X.products == 7 + 30 + 2


@pytest.mark.parametrize(("shape", "fit_intercept"), [((300, 60), True), ((60, 300), False)])
def test_probes_estimate_traces_within_their_standard_error(rng, shape, fit_intercept):
    X = sparse.random(*shape, density=0.1, random_state=2, format="csr")
    weights = np.arange(shape[0]) % 4  # a quarter of the rows is not there
    opened = open_data(X, rng.standard_normal(shape[0]), weights, fit_intercept)
    found = density(opened.operator, [(st.GradientFlow(), 200.0)], probes=40, seed=1, most=60)
    exact = st.decompose(X.toarray(), opened.sample.y, weights, fit_intercept).eigenvalues
    assert found.weights.sum() == pytest.approx(min(45 * shape[0] // 60 - fit_intercept, shape[1]))
    alone = [found.of_probe(k) for k in range(found.n_probes)]
    for t in (2.0, 20.0, 200.0):
        trace = found.weights @ (1 - np.exp(-t * found.nodes))
        traces = np.array([one.weights @ (1 - np.exp(-t * one.nodes)) for one in alone])
        assert trace == pytest.approx(traces.mean())
        error = traces.std(ddof=1) / np.sqrt(len(traces))
        assert abs(trace - np.sum(1 - np.exp(-t * exact))) < 4 * error < 0.2 * trace


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
    noise = 10 ** rng.uniform(-6, 1) * np.abs(X).max()
    y = X @ rng.standard_normal(p) + noise * rng.standard_normal(n)
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


@pytest.mark.parametrize("seed", range(40))
def test_errors_are_at_most_those_that_are_expected(seed):
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
        right = st.path(exact, method, [stop]).coef[0]
        rounding = 1e-13 * condition if np.isinf(stop) else 1e-9
        assert relative(found.coef[0], right) <= found.error[0] + rounding
        assert found.error[0] <= tol


def test_a_path_that_stands_still_before_it_meets_small_eigenvalues_has_not_converged(rng):
    left, right = (np.linalg.qr(rng.standard_normal((m, 200)))[0] for m in (300, 200))
    lengths = np.append(np.linspace(0.5, 1, 150), np.geomspace(1e-3, 1e-5, 50))
    X = (left * lengths) @ right.T
    y = X @ rng.standard_normal(200) + rng.standard_normal(300)
    exact = st.decompose(X, y, fit_intercept=False, solver="svd")
    stop = 1e6 / exact.eigenvalues[-1]
    found = st.path(aslinearoperator(X), y, "ridge", [stop], fit_intercept=False)
    assert relative(found.coef[0], st.path(exact, "ridge", [stop]).coef[0]) <= found.error[0] < 1e-6


@pytest.mark.parametrize("phase", [3, 30])
@pytest.mark.parametrize("name", ["nesterov-flow", "nesterov"])
def test_products_are_at_most_those_of_nesterovs_iteration(rng, name, phase):
    left, right = (np.linalg.qr(rng.standard_normal((m, 300)))[0] for m in (400, 300))
    lengths = np.sin(np.pi * np.arange(1, 301) / 600)  # as hard for a Krylov space as any
    A = Foreign((left * lengths) @ right.T)
    y = rng.standard_normal(400)
    largest = st.decompose(A.matrix, y, fit_intercept=False).eigenvalues[-1]
    method = st.Nesterov(1 / largest) if name == "nesterov" else st.AcceleratedFlow()
    stop = phase if name == "nesterov" else phase / np.sqrt(largest)
    found = st.path(A, y, method, [stop], fit_intercept=False)
    assert found.krylov.products == A.count
    penalised = st.path(A, y, "ridge", [1.0], fit_intercept=False, penalty_matrix=st.Differences(2))
    assert found.krylov.products + penalised.krylov.products == A.count
    # every iteration takes a product with X and one with its transpose
    # and the change of the path over five vectors takes ten more
    most = 2 * phase + (15 if phase < 10 else 0) + (name == "nesterov")
    assert found.krylov.products <= most


@pytest.mark.parametrize("method", ["nesterov", "gradient-descent", "nu-method"])
def test_an_automatic_step_is_found_and_its_error_is_expected_too(method):
    X, y = data(600, 450, density=0.03)
    found = st.path(X, y, method, [5, 20], solver="krylov")
    exact = st.path(X.toarray(), y, method, [5, 20])
    assert found.method.step == pytest.approx(exact.method.step, rel=2e-6)
    off = np.linalg.norm(found.coef - exact.coef, axis=1) / np.linalg.norm(exact.coef, axis=1)
    assert (off <= found.error).all()
    assert (found.error < 1e-5).all()


def test_one_space_serves_all_stops_and_methods():
    X, y = data(200, 80)
    spectrum = st.decompose(X, y, solver="krylov", max_gain=2e3)
    exact = st.decompose(X.toarray(), y)
    for name in ("ridge", "gradient-flow", "nesterov-flow", "nesterov", "nu-method"):
        last = np.floor(2e3 ** (1 / st.METHODS[name].time_power)) if name in st.METHODS else 20.0
        found = st.path(spectrum, name, [1.0, last])
        assert relative(found.coef[1], st.path(exact, name, [1.0, last]).coef[1]) <= 1e-6
    with pytest.raises(ValueError, match=r"not converged for Ridge\(\) at stop 1e\+08.*max_gain"):
        st.path(spectrum, "ridge", [1.0, 1e8])
    again = pickle.loads(pickle.dumps(spectrum))
    np.testing.assert_array_equal(again.vectors, spectrum.vectors)
    assert f"{spectrum.krylov.products} products" in repr(spectrum)


def test_conjugate_gradients_run_in_their_own_space():
    X, y = data(80, 50)
    Y = np.column_stack([y, np.sin(y)])
    found = st.path(X, Y, "conjugate-gradient", [0, 3, 8], solver="krylov", probes=50)
    exact = st.path(X.toarray(), Y, "conjugate-gradient", [0, 3, 8])
    np.testing.assert_allclose(found.coef, exact.coef, atol=1e-10)
    np.testing.assert_array_equal(found.krylov.sizes, [8, 8])
    np.testing.assert_allclose(found.degrees_of_freedom, exact.degrees_of_freedom, rtol=0.1)
    assert (found.error == 0).all()


@pytest.mark.parametrize(("method", "stop"), [("ridge", np.inf), ("conjugate-gradient", 5)])
def test_least_squares_keeps_what_small_singular_values_have_of_the_response(method, stop):
    rng = np.random.default_rng(52)
    for gap in (1e-3, 1e-5, 1e-7):
        X = rng.standard_normal((11, 5))
        X[:, 4] = X[:, 3] + gap * rng.standard_normal(11)
        y = X @ rng.standard_normal(5)
        found = st.path(aslinearoperator(X), y, method, [stop], fit_intercept=False)
        right = np.linalg.lstsq(X, y, rcond=None)[0]
        assert np.linalg.norm(found.coef[0] - right) < 1e-14 / gap * np.linalg.norm(right)
        assert found.error[0] == 0  # rounding is not counted


@pytest.mark.parametrize("solver", ["gram", "krylov"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 1), (8, 30)], ids=str)
def test_nothing_to_learn(shape, solver):
    """Without entries, variation or a second row, coefficients are zero and not rounding."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal(shape[0])
    varied = sparse.csr_matrix(rng.standard_normal(shape))
    cases = [(sparse.csr_matrix(shape), y), (sparse.csr_matrix(np.full(shape, 3.3)), y)]
    for X, target in [*cases, (varied, np.full(shape[0], 0.1))]:
        found = st.path(X, target, "nesterov-flow", [0.0, 5.0, np.inf], solver=solver)
        np.testing.assert_allclose(found.coef, 0, atol=1e-12)
        np.testing.assert_allclose(found.intercept, target.mean())


def test_a_response_out_of_reach(rng):
    X, _ = data(60, 20)
    every = np.column_stack([np.ones(60), X.toarray(), rng.standard_normal(60)])
    outside = np.linalg.qr(every)[0][:, -1]
    for intercept in (True, False):
        options = {"solver": "krylov", "fit_intercept": intercept}
        assert not st.path(X, outside, "ridge", [1.0, np.inf], **options).coef.any()
    near = outside + 1e-7 * X @ rng.standard_normal(20)  # the adjoint is not blamed
    exact = st.path(X.toarray(), near, "ridge", [1.0], fit_intercept=False).coef
    found = st.path(X, near, "ridge", [1.0], fit_intercept=False, solver="krylov").coef
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-3 * np.abs(exact).max())


def test_large_means_cost_no_digits(rng):
    X, y = data(60, 20)
    far = X.toarray() + 1e6
    exact = st.path(X.toarray(), y, "nesterov-flow", [5.0]).coef
    for form in (sparse.csr_matrix(far), aslinearoperator(far)):
        np.testing.assert_allclose(st.path(form, y, "nesterov-flow", [5.0]).coef, exact, atol=1e-6)
    X = sparse.csr_array(rng.standard_normal((4, 2)) + 1e6)
    options = {"fit_intercept": False}
    drawn = st.path(X, y[:4], "gradient-flow", [1e120], solver="krylov", **options)
    right = st.path(X.toarray(), y[:4], "gradient-flow", [np.inf], **options)
    np.testing.assert_allclose(drawn.coef, right.coef, rtol=1e-6)  # beyond all eigenvalues


@pytest.mark.parametrize(
    ("method", "stop"),
    [
        (lambda L: st.GradientDescent(1.9 / L), 11250),
        (lambda L: st.NuMethod(1 / L), 800),
        (lambda L: st.HeavyBall(3.7 / L, momentum=0.9), 800),
    ],
)
def test_steps_next_to_divergence_are_followed_to_their_end(method, stop, rng):
    X, y = rng.standard_normal((80, 40)), rng.standard_normal(80)
    method = method(st.decompose(X, y).eigenvalues[-1])
    found, exact = (st.path(rows, y, method, [stop]) for rows in (aslinearoperator(X), X))
    assert relative(found.coef[0], exact.coef[0]) < 1e-9
    assert found.error[0] < 1e-6


def test_memory_is_bounded_said_and_shared_by_targets(rng):
    X, y = data(60, 40)
    options = {"solver": "krylov", "max_rank": 3}
    with pytest.raises(ReachError, match=r"3 Krylov vectors.*smaller stop.*max_rank.*tol than"):
        st.path(X, y, "nesterov-flow", [50.0], **options)
    assert st.path(X, y, "nesterov-flow", [0.01], **options).krylov.sizes[0] <= 3
    X, Y = rng.standard_normal((300, 100)), rng.standard_normal((300, 3))
    drawn = st.path(aslinearoperator(X), Y, "ridge", [0.5], max_rank=60)
    assert drawn.krylov.sizes.sum() <= 60
    assert np.ptp(drawn.krylov.sizes) <= 3
    one = st.path(aslinearoperator(X), Y[:, 0], "conjugate-gradient", [50], fit_intercept=False)
    assert one.krylov.sizes == [50]
    assert one.krylov.products == 101


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
    for form, message in [
        (X * 1j, "Complex data"),
        (aslinearoperator(X * 1j), "Complex data"),
        (LinearOperator(X.shape, matvec=lambda v: X @ v, dtype=float), "define rmatvec"),
        (X[:0], "at least one row"),
    ]:
        with pytest.raises(ValueError, match=message):
            st.path(form, y[: form.shape[0]], "ridge", [1.0])
    with pytest.raises(ValueError, match="drawn with 6"):
        st.path(X, y, "ridge", [1.0]).predict(X[:, :2])
    for method in (st.HeavyBallFlow(), st.HeavyBall(), st.HighResolutionFlow()):
        with pytest.raises(ValueError, match=r"unknown as for sparse matrices and operators"):
            st.path(aslinearoperator(X), y, method, [3])


@pytest.mark.parametrize(("shape", "fit_intercept"), [((60, 40), True), ((40, 60), False)])
def test_operators_of_other_packages_are_taken_as_they_are(shape, fit_intercept, rng):
    X = rng.standard_normal(shape)
    y = X[:, 0] + rng.standard_normal(shape[0])
    options = {"fit_intercept": fit_intercept}
    ours = st.path(X, y, "nesterov-flow", [1.0, 5.0], **options)
    theirs = st.path(Foreign(X), y, "nesterov-flow", [1.0, 5.0], tol=1e-9, **options)
    np.testing.assert_allclose(theirs.coef, ours.coef, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(theirs.predict(Foreign(X)), ours.predict(X), rtol=1e-6, atol=1e-7)
    rule = st.HoldOut(Foreign(X[::2]), X[::2, 0])
    model = st.StoppedRegressorCV("nesterov-flow", rule=rule, **options).fit(Foreign(X), y)
    assert model.score(Foreign(X), y) == pytest.approx(model.score(X, y))
    steps = np.diff(np.eye(shape[1]), axis=0)
    expected = st.path(X, y, "ridge", [1.0], penalty_matrix=steps).coef
    found = st.path(Foreign(X), y, "ridge", [1.0], penalty_matrix=Foreign(steps)).coef
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["scaled", "rough", "sorted otherwise"])
def test_unmatched_adjoints_are_refused_and_matched_ones_are_not(kind, rng):
    X, y = rng.random((80, 30)), rng.random(80)
    adjoint = {
        "scaled": 1.01 * X.T,
        "rough": X.T * (1 + 0.1 * rng.standard_normal(X.T.shape)),
        "sorted otherwise": X.T[::-1],
    }[kind]
    with pytest.raises(ValueError, match=r"⟨Xv, u⟩ = ⟨v, Xᵀu⟩.*unmatched back projection"):
        st.path(Foreign(X, adjoint), y, "nesterov-flow", [10.0], fit_intercept=False)
    single = Foreign(X.astype(np.float32))
    assert st.path(single, y, "nesterov-flow", [10.0], fit_intercept=False).krylov.products


def test_a_product_with_y_that_underflows_is_refused_and_zero_is_not(rng):
    X, y = rng.standard_normal((30, 6)), rng.standard_normal(30)
    for small in (1e-165, 1e-200):
        with pytest.raises(ValueError, match="y is too small"):
            st.path(Foreign(small * X), 1e-140 * y, "conjugate-gradient", [2], fit_intercept=False)
    zero = st.path(Foreign(0 * X), y, "conjugate-gradient", [2], fit_intercept=False)
    assert not zero.coef.any()
