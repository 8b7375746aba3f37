"""Sparse matrices and operators of extreme scale or condition, and faulty operators."""

import os
import re

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import stoptime as st
from stoptime.spectrum.accuracy import ReachError

LATEST = 20_000 if "STOPTIME_SOAK" in os.environ else 6_000  # iterations next to divergence


def relative(found, exact):
    """Return the distance of coefficients, of many targets the worst."""
    length = np.linalg.norm(exact, axis=0)
    return float(np.max(np.linalg.norm(found - exact, axis=0) / np.where(length > 0, length, 1)))


@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow"])
def test_a_stop_beyond_all_eigenvalues_is_least_squares(rng, method):
    X = sparse.csr_array(rng.standard_normal((4, 2)) + 1e6)
    y = rng.standard_normal(4)
    drawn = st.path(X, y, method, [1e120], fit_intercept=False, solver="krylov")
    right = st.path(X.toarray(), y, method, [np.inf], fit_intercept=False)
    np.testing.assert_allclose(drawn.coef, right.coef, rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "stop"),
    [
        (lambda L: st.GradientDescent(1.9 / L), 11250),
        (lambda L: st.NuMethod(1 / L), 3000),
        (lambda L: st.HeavyBall(3.7 / L, momentum=0.9), LATEST),
    ],
)
def test_steps_next_to_divergence_are_followed_to_their_end(method, stop, rng):
    X, y = rng.standard_normal((80, 40)), rng.standard_normal(80)
    method = method(st.decompose(X, y).eigenvalues[-1])
    found, exact = (st.path(data, y, method, [stop]) for data in (aslinearoperator(X), X))
    off = np.linalg.norm(found.coef - exact.coef) / np.linalg.norm(exact.coef)
    assert off < 1e-9
    assert found.error[0] < 1e-6


@pytest.mark.parametrize("constant", [1e2, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("kind", [aslinearoperator, sparse.csr_array])
def test_a_constant_column_has_nothing_to_learn(kind, constant, rng):
    X = np.hstack([rng.standard_normal((60, 10)), np.full((60, 1), constant)])
    y = X[:, :10] @ rng.standard_normal(10) + rng.standard_normal(60)
    found = st.path(kind(X), y, "ridge", [1.0, np.inf], solver="krylov")
    exact = st.path(X, y, "ridge", [1.0, np.inf])
    assert relative(found.coef.T, exact.coef.T) < 1e-16 * constant + 1e-12
    np.testing.assert_allclose(found.predict(X), exact.predict(X), atol=1e-15 * constant + 1e-12)


@pytest.mark.parametrize("kind", [aslinearoperator, sparse.csr_array])
@pytest.mark.parametrize("target_scale", [1e-90, 1.0, 1e90])
@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e-90, 1e90, 1e150, 1e200])
def test_extreme_scales_give_the_right_answer_or_a_clear_error(kind, scale, target_scale, rng):
    X = np.column_stack([rng.standard_normal((12, 2)), np.ones(12)])
    y = rng.standard_normal(12)
    right = st.path(X, y, "ridge", [np.inf]).coef
    for solver in ("krylov", "gram"):
        message = ""
        found = right
        try:
            drawn = st.path(kind(scale * X), target_scale * y, "ridge", [np.inf], solver=solver)
            found = drawn.coef * scale / target_scale
        except ValueError as error:
            message = str(error)
        possible = 1e-100 < scale < 1e100
        assert re.search("^$" if possible else "too small|too large", message)
        np.testing.assert_allclose(found, right, atol=1e-9)


def test_an_iteration_needs_no_more_vectors_than_it_has_steps(rng):
    X, y = rng.standard_normal((300, 250)), rng.standard_normal(300)
    found = st.path(aslinearoperator(X), y, "conjugate-gradient", [100], fit_intercept=False)
    assert found.krylov.sizes == [100]
    assert found.krylov.products == 201


def test_targets_share_the_vectors_that_are_allowed(rng):
    X, Y = rng.standard_normal((300, 100)), rng.standard_normal((300, 3))
    drawn = st.path(aslinearoperator(X), Y, "ridge", [0.5], max_rank=60)
    assert drawn.krylov.sizes.sum() <= 60
    assert np.ptp(drawn.krylov.sizes) <= 3
    with pytest.raises(ReachError, match="max_rank"):
        st.path(aslinearoperator(X), Y, "ridge", [1e3], max_rank=24)


@pytest.mark.parametrize("factor", [2.0, 0.9, -1.0])
def test_what_is_no_transpose_is_refused(factor, rng):
    X, y = rng.standard_normal((60, 10)), rng.standard_normal(60)
    wrong = LinearOperator(
        X.shape, matvec=lambda v: X @ v, rmatvec=lambda v: factor * (X.T @ v), dtype=float
    )
    with pytest.raises(ValueError, match="transpose of its matvec"):
        st.path(wrong, y, "ridge", [1.0])
