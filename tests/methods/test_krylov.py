"""Conjugate gradients: the iterates of scipy, filters by Ritz values, and what is refused."""

import numpy as np
import pytest
from scipy.sparse.linalg import cg, lsqr

import stoptime as st
from stoptime.methods.conjugate_gradient import ConjugateGradient, conjugate_gradients, ritz_gain


@pytest.fixture
def data(rng):
    X = rng.standard_normal((40, 12)) * np.geomspace(0.2, 1, 12) + 1
    return X, X @ rng.standard_normal(12) + rng.standard_normal(40)


def test_iterates_are_those_of_lsqr_and_cg(data):
    X, y = data
    Xc, yc = X - X.mean(0), y - y.mean()
    drawn = st.path(X, y, "conjugate-gradient", np.arange(13))
    np.testing.assert_array_equal(drawn.coef[0], 0)
    for k in range(1, 10):  # later on the peers, which do not reorthogonalise, lose digits
        peer = lsqr(Xc, yc, iter_lim=k, atol=0, btol=0, conlim=0)[0]
        np.testing.assert_allclose(drawn.coef[k], peer, rtol=1e-8, atol=1e-10)
        other = cg(Xc.T @ Xc, Xc.T @ yc, maxiter=k, rtol=0, atol=0)[0]
        np.testing.assert_allclose(drawn.coef[k], other, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        drawn.predict(X)[-1], yc.mean() + X @ drawn.coef[-1] + drawn.intercept[-1]
    )


def test_iterates_minimise_the_residual_over_krylov_spaces(data):
    X, y = data
    Xc, yc = X - X.mean(0), y - y.mean()
    drawn = st.path(X, y, ConjugateGradient(), [1, 2, 3, 4])
    power, space = Xc.T @ yc, []
    for coef in drawn.coef:
        space.append(power / np.linalg.norm(power))
        power = Xc.T @ (Xc @ space[-1])
        basis = np.column_stack(space)
        best = basis @ np.linalg.lstsq(Xc @ basis, yc, rcond=None)[0]
        np.testing.assert_allclose(coef, best, rtol=1e-8)


def test_limit_is_least_squares_also_beyond_convergence(data):
    X, y = data
    exact = np.linalg.lstsq(X - X.mean(0), y - y.mean(), rcond=None)[0]
    for coef in st.path(X, y, ConjugateGradient(), [12, 500, np.inf]).coef:
        np.testing.assert_allclose(coef, exact, rtol=1e-9)
    flat = conjugate_gradients([1.0, 2.0], [0.0, 0.0], [0, 3, np.inf])
    np.testing.assert_array_equal(flat.components, 0)
    assert [len(values) for values in flat.ritz] == [0, 0, 0]


@pytest.mark.parametrize("smallest", [1e-12, 1e-20, 1e-27])
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
        np.testing.assert_allclose(ritz_gain(values, values) * values, 1, atol=1e-9)
        assert ritz_gain(values, np.array(0.0)) == pytest.approx(np.sum(1 / values))
        if k:
            assert s[0] <= values[0] * (1 + 1e-12)
            assert values[-1] <= s[-1] * (1 + 1e-12)


def test_ritz_values_depend_on_the_response(data):
    s = st.decompose(*data).eigenvalues
    first, second = (conjugate_gradients(s, z, [3]).ritz[0] for z in (np.ones(12), s))
    assert not np.allclose(first, second)


def test_many_targets_are_many_single_ones(data):
    X, y = data
    Y = np.column_stack([y, np.sin(y)])
    drawn = st.path(X, Y, ConjugateGradient(), [1, 3])
    assert drawn.coef.shape == (2, 12, 2)
    assert drawn.degrees_of_freedom.shape == (2, 2)
    for target in range(2):
        single = st.path(X, Y[:, target], ConjugateGradient(), [1, 3])
        np.testing.assert_allclose(drawn.coef[:, :, target], single.coef, rtol=1e-10)
        np.testing.assert_allclose(
            drawn.degrees_of_freedom[:, target], single.degrees_of_freedom, rtol=1e-10
        )


def test_estimator_and_cross_validation_rule(data):
    X, y = data
    model = st.StoppedRegressor("conjugate-gradient", stop=3).fit(X, y)
    np.testing.assert_allclose(model.coef_, st.path(X, y, "conjugate-gradient", 3).coef[0])
    problem = st.Problem.of(X, y, ConjugateGradient(), st.decompose(X, y))
    choice = st.CrossValidation(5).choose(problem)
    np.testing.assert_array_equal(choice.curve.stops, np.arange(13))
    assert choice.stop in choice.curve.stops


def test_calls_without_data_are_refused(data):
    X, y = data
    s = [0.5, 1.0]
    calls = [
        lambda: st.risk("conjugate-gradient", [1], eigenvalues=s, signal=s, noise=1, n_samples=9),
        lambda: st.inflation("conjugate-gradient", eigenvalues=s, signal=1, noise=1, n_samples=9),
        lambda: st.equivalent_stop("conjugate-gradient", 0.1),
        lambda: st.equivalent_penalty("conjugate-gradient", 3),
        lambda: st.leave_one_out(X, y, "conjugate-gradient", [3]),
        lambda: st.path_gcv(st.decompose(X, y), "conjugate-gradient", [3]),
        lambda: st.StoppedRegressor("conjugate-gradient").fit(X, y),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"depends on the response.*nesterov"):
            call()
    with pytest.raises(ValueError, match=r"whole numbers.*1\.5"):
        st.path(X, y, "conjugate-gradient", [1.5])


def test_one_column_of_targets_keeps_its_axis(rng):
    X = rng.standard_normal((12, 3))
    y = rng.standard_normal((12, 1))
    model = st.StoppedRegressorCV("conjugate-gradient", cv=3, per_target=True).fit(X, y)
    assert model.coef_.shape == (1, 3)
    assert st.path(X, y, "conjugate-gradient", [1, 2]).degrees_of_freedom.shape == (2, 1)
