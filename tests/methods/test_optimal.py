"""The optimal iteration: its polynomials to fifty digits, its ends, and its uses."""

from __future__ import annotations

import pickle

import mpmath
import numpy as np
import pytest
from scipy.sparse import random_array
from sklearn.base import clone
from sklearn.linear_model import Ridge

import stoptime as st
from iteration_cases import make_data
from stoptime.methods.averages import Decayed
from stoptime.methods.iterations import Nesterov, NuMethod, OptimalIteration
from stoptime.methods.registry import as_content, from_content
from stoptime.methods.schedules import Cosine


def fifty_digits(method, s, k):
    """Shrinkage and gain from the definition of the Chebyshev polynomials by angles."""
    with mpmath.workdps(50):
        s, penalty = mpmath.mpf(s), mpmath.mpf(method.penalty)
        step = mpmath.mpf(method.step)
        half = mpmath.asin(mpmath.sqrt(step * s))  # cos of twice this angle is 1 - 2s/L
        inner = mpmath.sin((2 * k + 1) * half) / mpmath.sin(half) if s else 2 * k + 1
        outer = mpmath.asinh(mpmath.sqrt(step * penalty))
        residual = mpmath.re(inner) * mpmath.sinh(outer) / mpmath.sinh((2 * k + 1) * outer)
        gain = (1 - residual) / (s + penalty)
        return float(1 - s * gain), float(gain)


@pytest.mark.parametrize("penalty", [1e-12, 1e-3, 0.1, 5.0, 1e6])
def test_filter_is_the_chebyshev_polynomial_to_fifty_digits(penalty):
    method = OptimalIteration(0.5, penalty=penalty)
    for s in (0.0, 1e-12, 1e-4, 0.03, 0.7, 1.9, 2.0):
        for k in (1, 2, 7, 60, 400):
            g, gain = fifty_digits(method, s, k)
            assert abs(float(method.shrinkage(s, k)) - g) < 1e-13
            assert float(method.gain(s, k)) == pytest.approx(gain, rel=2e-13)


def test_path_begins_at_zero_and_ends_at_ridge():
    X, y = make_data(40, 6)
    drawn = st.path(X, y, OptimalIteration(penalty=0.03), [0, 1, 2000, np.inf])
    ridge = Ridge(alpha=40 * 0.03).fit(X, y)
    np.testing.assert_array_equal(drawn.coef[0], 0)
    np.testing.assert_allclose(drawn.coef[2:], [ridge.coef_] * 2, rtol=1e-11)
    np.testing.assert_allclose(drawn.intercept[-1], ridge.intercept_)


def test_without_a_penalty_it_is_the_nu_method_of_one_half():
    s = np.linspace(0, 1, 50)[:, None]
    k = np.arange(40)
    small = OptimalIteration(1.0, penalty=1e-15)
    np.testing.assert_allclose(
        small.shrinkage(s, k), NuMethod(1.0, 0.5).shrinkage(s, k), atol=1e-11
    )


def test_horizon_is_where_the_iterate_is_that_of_ridge():
    method = OptimalIteration(1.0, penalty=0.01)
    s = np.linspace(0, 1, 200)
    late = method.gain(s, method.horizon) * (s + 0.01) - 1
    early = method.gain(s, method.horizon // 2) * (s + 0.01) - 1
    assert np.abs(late).max() < 1e-14
    assert np.abs(early).max() > 1e-9
    assert OptimalIteration(penalty=0.01).horizon == NuMethod().horizon
    # the gain never exceeds that of the ν-method, for which the bound is known
    stops = np.arange(1, 300)
    assert np.all(method.gain(s[:, None], stops).max(axis=0) <= method.largest_gain(stops))


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_units_do_not_matter(scale):
    X, y = make_data(30, 5)
    method = OptimalIteration(penalty=0.05)
    one = st.path(X, y, method, [1, 3, 9]).coef
    root = np.sqrt(scale)
    other = st.path(root * X, y, OptimalIteration(penalty=0.05 * scale), [1, 3, 9]).coef
    np.testing.assert_allclose(other * root, one, rtol=1e-9)
    tuned = method.tuned_to([0.1, 2.0])
    assert tuned.in_units_of(scale).in_units_of(1 / scale).penalty == pytest.approx(0.05)
    np.testing.assert_allclose(
        tuned.in_units_of(scale).shrinkage(np.array([0.1, 2.0]) / scale, 4),
        tuned.shrinkage([0.1, 2.0], 4),
    )


def test_estimators_files_and_copies():
    X, y = make_data(60, 8)
    Y = np.column_stack([y, -y, np.sin(y)])
    method = OptimalIteration(penalty=0.02)
    fitted = st.StoppedRegressorCV(method).fit(X.astype(np.float32), Y.astype(np.float32))
    assert fitted.coef_.dtype == np.float32
    assert fitted.stop_ == round(fitted.stop_) > 0
    assert clone(fitted).method == method
    assert pickle.loads(pickle.dumps(method)) == method == from_content(as_content(method))
    assert method.with_params(penalty=0.1) == OptimalIteration(penalty=0.1)
    planned = st.plan(0.02, method=OptimalIteration(0.5, penalty=0.02))
    assert planned.run.inflation < 1.001
    nothing = st.StoppedRegressorCV(method).fit(np.ones((5, 2)), y[:5])
    np.testing.assert_array_equal(nothing.coef_, 0)


@pytest.mark.parametrize("method", [OptimalIteration(penalty=0.002), Decayed(Nesterov(), 0.002)])
def test_a_krylov_space_serves_all_stops_and_not_only_the_last(method):
    # the first stops depend more on the estimated largest eigenvalue than the last ones
    rng = np.random.default_rng(0)
    X = random_array((3000, 2000), density=0.01, rng=1, format="csr")
    y = X @ rng.standard_normal(2000) + rng.standard_normal(3000)
    drawn = st.path(X, y, method, [5, 20, np.inf])
    ridge = Ridge(alpha=3000 * 0.002, tol=1e-10).fit(X, y)
    size = np.linalg.norm(ridge.coef_)
    assert np.linalg.norm(drawn.coef[-1] - ridge.coef_) < 1e-5 * size


@pytest.mark.parametrize("penalty", [0, -1.0, np.inf, np.nan, "auto", None, True])
def test_penalty_is_a_positive_number(penalty):
    with pytest.raises(ValueError, match="penalty must be a positive number"):
        OptimalIteration(penalty=penalty)


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(TypeError, match="penalty"):
        OptimalIteration()
    with pytest.raises(TypeError, match="needs parameters"):
        st.get_method(OptimalIteration)
    with pytest.raises(ValueError, match="step must be a positive number"):
        OptimalIteration(Cosine(0.1, 10), penalty=0.1)
    with pytest.raises(ValueError, match="diverges"):
        OptimalIteration(1.0, penalty=0.1).tuned_to([1.2])
    with pytest.raises(ValueError, match="needs an iteration"):
        Decayed(OptimalIteration(1.0, penalty=0.1), 0.1, decoupled=True)
    assert OptimalIteration(1.0, penalty=0.1).tuned_to([1.05]).step == 1.0
    assert OptimalIteration(penalty=1e-30).tuned_to([3.0]).step == 1 / 3
