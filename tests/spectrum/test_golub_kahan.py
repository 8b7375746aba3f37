"""Bidiagonalisation: its invariants and its accuracy."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import stoptime as st
from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.factorise import CentredOperator
from stoptime.spectrum.krylov import GolubKahan, KrylovVectors, density
from stoptime.spectrum.rows import OperatorRows


def grown(A, start, steps):
    run = GolubKahan(A, start, 1e-14)
    for _ in range(steps):
        run.step()
    return run


def basis(run):
    return np.concatenate(run.basis.blocks())


def conditioned(rng, n, p, condition):
    """Return a matrix whose singular values decay geometrically."""
    r = min(n, p)
    left, right = (np.linalg.qr(rng.standard_normal((m, r)))[0] for m in (n, p))
    return (left * np.geomspace(1, 1 / condition, r)) @ right.T


@pytest.mark.parametrize("shape", [(80, 50), (50, 80)], ids=str)
@pytest.mark.parametrize("condition", [1e1, 1e8])
def test_the_basis_is_orthonormal_and_the_projection_bidiagonal(rng, shape, condition):
    A = conditioned(rng, *shape, condition)
    run = grown(A, rng.standard_normal(shape[1]), 40)  # crosses a block of vectors
    V = basis(run)
    assert V.shape == (40, shape[1])
    np.testing.assert_allclose(V @ V.T, np.eye(40), atol=1e-13)
    B = np.diag(run.alphas) + np.diag(run.betas[:-1], 1)
    np.testing.assert_allclose(V @ A.T @ A @ V.T, B.T @ B, atol=1e-13)


@pytest.mark.parametrize("condition", [1e1, 1e8])
def test_begun_with_a_target_it_knows_the_least_squares_fit(rng, condition):
    A, y = conditioned(rng, 80, 50, condition), rng.standard_normal(80)
    run = GolubKahan(A, A.T @ y, 1e-14, target=y)
    fits = [np.zeros(80)]
    for k in range(1, 21):
        run.step()
        V, ritz = basis(run), run.space(accurate=True)
        values = np.linalg.eigvalsh(V @ A.T @ A @ V.T)
        np.testing.assert_allclose(ritz.values, values, rtol=1e-9, atol=1e-14 * values[-1])
        np.testing.assert_allclose(ritz.rotation @ ritz.response, V @ A.T @ y, atol=1e-12)
        fits.append(A @ (V.T @ np.linalg.lstsq(A @ V.T, y, rcond=None)[0]))
        gradient = np.linalg.norm(A.T @ (y - fits[k])) / run.length
        added = np.linalg.norm(fits[k] - fits[k - 1]) / np.linalg.norm(fits[k])
        assert ritz.unlearned == pytest.approx(max(gradient, added), rel=1e-5)


def test_it_ends_where_the_target_is_fitted(rng):
    A = rng.standard_normal((6, 3))
    y = A @ rng.standard_normal(3)
    run = GolubKahan(A, A.T @ y, 1e-14, target=y)
    while not run.exhausted:
        run.step()
    ritz = run.space(accurate=True)
    assert ritz.unlearned == 0
    coef = basis(run).T @ ritz.rotation @ (ritz.response / ritz.values)
    np.testing.assert_allclose(A @ coef, y, atol=1e-13)


def test_singular_values_keep_the_digits_that_squares_lose(rng):
    A = conditioned(rng, 60, 30, 1e9)
    run = grown(A, rng.standard_normal(30), 30)
    assert run.exhausted
    exact = np.linalg.svd(A, compute_uv=False)[::-1]
    np.testing.assert_allclose(
        np.sqrt(run.space(accurate=True).values), exact, rtol=1e-6, atol=1e-15
    )
    fast = np.sqrt(run.space(accurate=False).values)
    np.testing.assert_allclose(fast[-10:], exact[-10:], rtol=1e-9)


def test_it_stops_where_the_space_is_exhausted():
    values = np.array([1.0, 2.0, 5.0])
    A = np.diag(np.repeat(values, 4))
    run = GolubKahan(A, np.ones(12), 1e-14)
    while not run.exhausted:
        run.step()
    assert run.size == 3
    np.testing.assert_allclose(run.space(accurate=True).values, values**2)
    assert run.space(accurate=True).unlearned == 0
    nothing = GolubKahan(A, np.zeros(12), 1e-14)
    assert nothing.exhausted
    assert nothing.space(accurate=True).values.size == 0


def test_the_error_is_a_divided_difference(rng):
    """The identity behind the error bound holds for any function, not only for filters."""
    A, z = rng.standard_normal((40, 25)) / 6, rng.standard_normal(25)
    run = grown(A, z, 6)
    theta, response, Q, leaving, _ = run.space(accurate=True)
    s, W = np.linalg.eigh(A.T @ A)
    exact = W @ (np.sin(3 * s) * (W.T @ z))
    krylov = basis(run).T @ Q @ (np.sin(3 * theta) * response)
    h = np.zeros(25)
    for weight, value in zip(response * leaving, theta, strict=True):
        h += weight * (np.sin(3 * s) - np.sin(3 * value)) / (s - value)
    np.testing.assert_allclose(exact - krylov, W @ (h * (W.T @ run._next)), atol=1e-12)


def test_vectors_of_many_spaces_lie_side_by_side(rng):
    A = rng.standard_normal((30, 20))
    runs = [grown(A, rng.standard_normal(20), k) for k in (3, 5)]
    rotations = [run.space(accurate=True).rotation for run in runs]
    order = rng.permutation(8)
    both = np.hstack([basis(run).T @ Q for run, Q in zip(runs, rotations, strict=True)])[:, order]
    vectors = KrylovVectors(tuple(run.basis.blocks() for run in runs), tuple(rotations), order, 20)
    components = rng.standard_normal((8, 4))
    np.testing.assert_allclose(vectors @ components, both @ components)
    np.testing.assert_allclose(np.asarray(vectors), both)
    with pytest.raises(ValueError, match="need a copy"):
        vectors.__array__(copy=False)  # as NumPy asks from 2.0 on


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


@pytest.mark.parametrize("shape", [(300, 60), (60, 300)], ids=str)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_probes_estimate_traces_within_their_standard_error(rng, shape, fit_intercept):
    X = sparse.random(*shape, density=0.1, random_state=2, format="csr")
    weights = np.arange(shape[0]) % 4  # a quarter of the rows is not there
    data = open_data(X, rng.standard_normal(shape[0]), weights, fit_intercept)
    found = density(data.operator, [(st.GradientFlow(), 200.0)], probes=40, seed=1, most=60)
    exact = st.decompose(X.toarray(), data.sample.y, weights, fit_intercept).eigenvalues
    assert found.weights.sum() == pytest.approx(min(45 * shape[0] // 60 - fit_intercept, shape[1]))
    alone = [found.of_probe(k) for k in range(found.n_probes)]
    for t in (2.0, 20.0, 200.0):
        trace = found.weights @ (1 - np.exp(-t * found.nodes))
        traces = np.array([one.weights @ (1 - np.exp(-t * one.nodes)) for one in alone])
        assert trace == pytest.approx(traces.mean())
        error = traces.std(ddof=1) / np.sqrt(len(traces))
        assert abs(trace - np.sum(1 - np.exp(-t * exact))) < 4 * error
        assert error < 0.05 * trace
    again = density(data.operator, [(st.GradientFlow(), 200.0)], probes=40, seed=1, most=60)
    np.testing.assert_array_equal(again.nodes, found.nodes)
