"""Operators of other packages, unmatched adjoints, and products that underflow."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import stoptime as st


class Foreign:
    """An operator with the interface of PyLops: no array, no sparse matrix, none of SciPy's."""

    def __init__(self, matrix, adjoint=None):
        self.matrix = matrix
        self.back = matrix.T if adjoint is None else adjoint
        self.shape = matrix.shape
        self.dtype = matrix.dtype

    def matvec(self, x):
        return self.matrix @ x

    def rmatvec(self, x):
        return self.back @ x

    def __matmul__(self, x):
        return self.matrix @ x


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_operators_of_other_packages_are_taken_as_they_are(shape, fit_intercept, rng):
    X = rng.standard_normal(shape)
    y = X[:, 0] + rng.standard_normal(shape[0])
    options = {"fit_intercept": fit_intercept}
    ours = st.path(X, y, "nesterov-flow", [1.0, 5.0], **options)
    theirs = st.path(Foreign(X), y, "nesterov-flow", [1.0, 5.0], tol=1e-9, **options)
    np.testing.assert_allclose(theirs.coef, ours.coef, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(theirs.predict(Foreign(X)), ours.predict(X), rtol=1e-6, atol=1e-7)
    for rule in ("path-gcv", st.Discrepancy(0.5), st.HoldOut(Foreign(X[::2]), X[::2, 0])):
        model = st.StoppedRegressorCV("nesterov-flow", rule=rule, **options).fit(Foreign(X), y)
        scipy = st.StoppedRegressorCV("nesterov-flow", rule=rule, **options)
        assert model.stop_ == scipy.fit(aslinearoperator(X), y).stop_
        assert model.score(Foreign(X), y) == pytest.approx(model.score(X, y))
    cross = st.StoppedRegressorCV("conjugate-gradient", cv=3, **options)
    assert cross.fit(Foreign(X), y).stop_ == cross.fit(aslinearoperator(X), y).stop_


def test_an_operator_without_its_adjoint_says_what_is_missing(rng):
    X = rng.standard_normal((20, 5))
    with pytest.raises(ValueError, match="define rmatvec"):
        st.path(LinearOperator(X.shape, matvec=lambda v: X @ v), X[:, 0], "ridge", [1.0])


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


def test_matched_adjoints_pass_where_the_response_is_nearly_orthogonal(rng):
    X = rng.standard_normal((50, 8))
    y = rng.standard_normal(50)
    y -= (1 - 1e-7) * X @ np.linalg.lstsq(X, y, rcond=None)[0]
    exact = st.path(X, y, "ridge", [1.0], fit_intercept=False).coef
    found = st.path(Foreign(X), y, "ridge", [1.0], fit_intercept=False).coef
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-3 * np.abs(exact).max())


def test_a_product_with_y_that_underflows_is_refused_and_zero_is_not(rng):
    X, y = rng.standard_normal((30, 6)), rng.standard_normal(30)
    for small in (1e-165, 1e-200):
        with pytest.raises(ValueError, match="y is too small"):
            st.path(Foreign(small * X), 1e-140 * y, "conjugate-gradient", [2], fit_intercept=False)
    zero = st.path(Foreign(0 * X), y, "conjugate-gradient", [2], fit_intercept=False)
    assert not zero.coef.any()
    only = np.where(np.arange(30) < 15, 1.0, 0.0)
    apart = st.path(Foreign((1 - only)[:, None] * X), only, "ridge", [2.0], fit_intercept=False)
    assert not apart.coef.any()


def test_operators_of_other_packages_are_penalty_matrices_too(rng):
    X = rng.standard_normal((50, 30))
    y = X.sum(axis=1) + rng.standard_normal(50)
    steps = np.diff(np.eye(30), axis=0)
    expected = st.path(X, y, "ridge", [1.0], penalty_matrix=steps).coef
    for rows in (X, Foreign(X)):
        found = st.path(rows, y, "ridge", [1.0], penalty_matrix=Foreign(steps)).coef
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
