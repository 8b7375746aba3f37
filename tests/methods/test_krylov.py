"""Conjugate gradients: the iterates of scipy, filters by Ritz values, and what is refused."""

import numpy as np
import pytest
from scipy.sparse.linalg import lsqr

import stoptime as st
from stoptime.methods.conjugate_gradient import ConjugateGradient, conjugate_gradients, ritz_gain


@pytest.fixture
def data(rng):
    X = rng.standard_normal((40, 12)) * np.geomspace(0.2, 1, 12) + 1
    return X, X @ rng.standard_normal(12) + rng.standard_normal(40)


def test_iterates_are_those_of_lsqr_and_minimise_over_krylov_spaces(data):
    X, y = data
    Xc, yc = X - X.mean(0), y - y.mean()
    drawn = st.path(X, y, "conjugate-gradient", [*range(10), 12, 500, np.inf])
    np.testing.assert_array_equal(drawn.coef[0], 0)
    power, space = Xc.T @ yc, []
    for k in range(1, 10):  # later on the peers, which do not reorthogonalise, lose digits
        peer = lsqr(Xc, yc, iter_lim=k, atol=0, btol=0, conlim=0)[0]
        np.testing.assert_allclose(drawn.coef[k], peer, rtol=1e-8, atol=1e-10)
        space.append(power / np.linalg.norm(power))
        power = Xc.T @ (Xc @ space[-1])
        if k < 5:
            basis = np.column_stack(space)
            best = basis @ np.linalg.lstsq(Xc @ basis, yc, rcond=None)[0]
            np.testing.assert_allclose(drawn.coef[k], best, rtol=1e-8)
    exact = np.linalg.lstsq(Xc, yc, rcond=None)[0]
    np.testing.assert_allclose(drawn.coef[10:], [exact] * 3, rtol=1e-9)
    flat = conjugate_gradients([1.0, 2.0], [0.0, 0.0], [0, 3, np.inf])
    np.testing.assert_array_equal(flat.components, 0)
    assert [len(values) for values in flat.ritz] == [0, 0, 0]


@pytest.mark.parametrize("smallest", [1e-12, 1e-27])
def test_small_eigenvalues_are_learned_however_little_of_the_response_they_see(smallest, rng):
    s, coef = np.geomspace(smallest, 1, 6), rng.standard_normal(6)
    run = conjugate_gradients(s, s * coef, [5, 6, np.inf])
    np.testing.assert_allclose(run.components[1:], [coef, coef], rtol=1e-12)
    assert abs(run.components[0] - coef).max() > 0.1  # not before the last iteration


def test_iterations_end_when_what_is_left_is_rounding(rng):
    s = np.repeat(np.geomspace(0.3, 3, 5), 6)
    for z in rng.standard_normal((5, 30)):
        run = conjugate_gradients(s, z, [4, 5, np.inf])
        assert len(run.ritz[0]) == 4
        assert 5 <= len(run.ritz[-1]) <= 7
        np.testing.assert_allclose(run.components[1:], [z / s] * 2, rtol=0, atol=1e-13)


def test_filter_is_made_of_ritz_values(data):
    spectrum = st.decompose(*data)
    s, z = spectrum.eigenvalues, spectrum.response
    run = conjugate_gradients(s, z, np.arange(9))
    for k, values in enumerate(run.ritz):
        assert len(values) == k
        gain = ritz_gain(values, s)
        np.testing.assert_allclose(gain * z, run.components[k], rtol=1e-8, atol=1e-11)
        product = np.prod(1 - s[:, None] / values, axis=1)
        np.testing.assert_allclose(gain * s + product, 1, atol=1e-12)
        assert ritz_gain(values, np.array(0.0)) == pytest.approx(np.sum(1 / values))
        if k:
            assert s[0] <= values[0] * (1 + 1e-12)
            assert values[-1] <= s[-1] * (1 + 1e-12)


def test_many_targets_and_the_estimator(data):
    X, y = data
    Y = np.column_stack([y, np.sin(y)])
    drawn = st.path(X, Y, ConjugateGradient(), [1, 3])
    for target in range(2):
        single = st.path(X, Y[:, target], ConjugateGradient(), [1, 3])
        np.testing.assert_allclose(drawn.coef[:, :, target], single.coef, rtol=1e-10)
        freedom = drawn.degrees_of_freedom[:, target]
        np.testing.assert_allclose(freedom, single.degrees_of_freedom, rtol=1e-10)
    assert st.path(X, y[:, None], ConjugateGradient(), [1]).degrees_of_freedom.shape == (1, 1)
    model = st.StoppedRegressor("conjugate-gradient", stop=3).fit(X, y)
    np.testing.assert_allclose(model.coef_, drawn.coef[1, :, 0])
    problem = st.Problem.of(X, y, ConjugateGradient(), st.decompose(X, y))
    choice = st.CrossValidation(5).choose(problem)
    np.testing.assert_array_equal(choice.curve.stops, np.arange(13))
    assert choice.stop in choice.curve.stops
