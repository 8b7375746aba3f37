"""Rules of inverse problems: discrepancy, NCP and L-curve, for conjugate gradients too."""

import pickle

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone

import stoptime as st


def blurred(n=120, level=0.01, seed=0):
    """Return a blur, a signal, its noisy image, and the variance of the noise."""
    t = np.linspace(0, 1, n)
    A = np.exp(-(((t[:, None] - t) / 0.03) ** 2)) / n
    x = np.where(abs(t - 0.4) < 0.15, 1.0, 0.0) + np.exp(-(((t - 0.75) / 0.08) ** 2))
    noise = level * np.sqrt(np.mean((A @ x) ** 2))
    b = A @ x + noise * np.random.default_rng(seed).standard_normal(n)
    return A, x, b, noise**2


def fitted(X, y, rule, method="conjugate-gradient", **options):
    return st.StoppedRegressorCV(method, rule=rule, fit_intercept=False, **options).fit(X, y)


@pytest.mark.parametrize("kind", [np.asarray, aslinearoperator], ids=["dense", "operator"])
def test_conjugate_gradients_stop_at_the_first_residual_down_to_the_noise(kind):
    A, _, b, noise = blurred()
    model = fitted(kind(A), b, st.Discrepancy(noise))
    path = st.path(A, b, "conjugate-gradient", range(30), fit_intercept=False)
    residuals = ((b - path.coef @ A.T) ** 2).mean(axis=1)
    assert model.stop_ == np.argmax(residuals <= noise) > 2
    assert model.choice_.error == pytest.approx(residuals[int(model.stop_)], rel=1e-6)
    np.testing.assert_allclose(model.coef_, path.coef[int(model.stop_)], rtol=1e-5, atol=1e-8)
    assert fitted(kind(A), b, "discrepancy").stop_ == pytest.approx(model.stop_, abs=2)


def test_training_errors_of_conjugate_gradients_are_those_of_their_path():
    A, x, b, _ = blurred()
    Y = np.column_stack([b, A @ x[::-1], 1e100 * b])
    stops = [0, 1, 5, 12, np.inf]
    spectrum = st.decompose(A, Y)
    fits = st.path(spectrum, "conjugate-gradient", stops).predict(A)
    expected = ((Y - fits) ** 2).mean(axis=1)
    errors = st.training_error(spectrum, "conjugate-gradient", stops)
    np.testing.assert_allclose(errors[:-1], expected[:-1], rtol=1e-7)
    assert np.all(errors[-1] <= errors[-2])


def test_every_target_has_a_first_crossing_of_its_own():
    A, x, b, noise = blurred()
    Y = np.column_stack([b, A @ x + 3 * (b - A @ x)])
    both = fitted(A, Y, st.Discrepancy(noise, safety=4.0), per_target=True)
    alone = [fitted(A, y, st.Discrepancy(noise, safety=4.0)).stop_ for y in Y.T]
    np.testing.assert_array_equal(both.stop_, alone)


def test_a_search_that_is_thinned_still_finds_the_first_crossing():
    A, _, b, noise = blurred(n=60, level=0.05)
    for method in ("nesterov", st.HeavyBall(momentum=0.95), "gradient-descent", "gradient-flow"):
        whole = fitted(A, b, st.Discrepancy(noise), method).stop_
        assert fitted(A, b, st.Discrepancy(noise), method, stops=5).stop_ == pytest.approx(
            whole, rel=1e-9
        )


def heat(n=100, kappa=1.0):
    """Return the Volterra matrix of the inverse heat equation; its last columns are tiny."""
    t = (np.arange(n) + 0.5) / n
    kernel = t**-1.5 * np.exp(-1 / (4 * kappa**2 * t)) / (2 * n * kappa * np.sqrt(np.pi))
    return toeplitz(kernel, np.zeros(n)), np.exp(-(((t - 0.4) / 0.1) ** 2))


def cgls(A, y, iterations):
    """Run textbook conjugate gradients on the normal equations."""
    beta = np.zeros(A.shape[1])
    residual = y.copy()
    gradient = direction = A.T @ y
    for _ in range(iterations):
        image = A @ direction
        rate = gradient @ gradient / (image @ image)
        beta += rate * direction
        residual = residual - rate * image
        new = A.T @ residual
        direction = new + new @ new / (gradient @ gradient) * direction
        gradient = new
    return beta


def test_the_heat_equation_is_fitted_at_early_stops_and_refused_at_the_end():
    A, x = heat()
    b = A @ x
    noise = 0.01 * np.abs(b).max()
    y = b + noise * np.random.default_rng(0).standard_normal(100)
    beta, step = np.zeros(100), 100 / np.linalg.norm(A, 2) ** 2
    for _ in range(300):
        beta += step * A.T @ (y - A @ beta) / 100
    path = st.path(A, y, "gradient-descent", [300], fit_intercept=False)
    np.testing.assert_allclose(path.coef[0], beta, rtol=1e-9, atol=1e-12)
    for method in ("gradient-descent", "nesterov-flow", "nu-method", "conjugate-gradient"):
        model = fitted(A, y, st.Discrepancy(noise**2), method)
        residual = np.mean((y - A @ model.coef_) ** 2)
        assert residual <= noise**2 * (1 + 1e-9)
    np.testing.assert_allclose(model.coef_, cgls(A, y, int(model.stop_)), rtol=1e-6, atol=1e-9)
    for stop in (np.inf, 1e20):
        with pytest.raises(ValueError, match="or stop earlier: paths are accurate up to a gain"):
            st.path(A, y, "nesterov-flow", [stop], fit_intercept=False)
    with pytest.raises(ValueError, match="differ too much in scale"):
        fitted(A, y, "path-gcv", "nesterov-flow", stops=[1.0, np.inf])


@pytest.mark.parametrize("rule", ["path-gcv", "sure", "loo", "plug-in", "discrepancy"])
def test_every_rule_searches_the_heat_equation(rule):
    A, x = heat()
    b = A @ x
    y = b + 0.01 * np.abs(b).max() * np.random.default_rng(0).standard_normal(100)
    model = fitted(A, y, rule, "gradient-flow")
    assert 0 < model.stop_ < np.inf
    assert np.linalg.norm(model.coef_ - x) < 0.5 * np.linalg.norm(x)


METHODS = ["conjugate-gradient", "nesterov-flow", "nu-method", "gradient-flow", "ridge"]
RULES = {"ncp": st.NCP(), "l-curve": st.LCurve()}


@pytest.mark.parametrize("method", METHODS)
def test_the_periodogram_stops_near_the_best_without_knowing_the_noise(method):
    ratios = []
    for seed in range(3):
        A, x, b, _ = blurred(n=60, level=0.03, seed=seed)
        model = fitted(A, b, "ncp", method)
        late = model.stops_[np.isfinite(model.stops_)]
        path = st.path(A, b, method, late, fit_intercept=False)
        best = np.linalg.norm(path.coef - x, axis=1).min()
        ratios.append(np.linalg.norm(model.coef_ - x) / best)
    assert np.median(ratios) < 1.25


@pytest.mark.filterwarnings("ignore:The L-curve has no corner")
def test_the_corner_is_where_the_curvature_of_the_l_curve_is_largest():
    for n, seed in [(120, 0), (120, 1), (150, 0)]:
        A, _, b, _ = blurred(n=n, level=0.03, seed=seed)
        stops = np.geomspace(1e2, 1e12, 400)
        coef = st.path(A, b, "ridge", stops, fit_intercept=False).coef
        residual = np.linalg.norm(b - coef @ A.T, axis=1)
        curve = np.log([residual, np.linalg.norm(coef, axis=1)])
        speed = np.gradient(curve, np.log(stops), axis=1)
        change = np.gradient(speed, np.log(stops), axis=1)
        curvature = (speed[1] * change[0] - speed[0] * change[1]) / np.hypot(*speed) ** 3
        ratio = fitted(A, b, "l-curve", "ridge").stop_ / stops[np.argmax(curvature)]
        assert 1 / 3 < ratio < 3


@pytest.mark.parametrize(
    ("method", "level"),
    [("ridge", 0.01), ("gradient-flow", 0.01), ("nesterov-flow", 0.01), ("nu-method", 0.1)],
)
@pytest.mark.filterwarnings("ignore:The L-curve has no corner")
def test_the_corner_of_an_operator_is_that_of_its_matrix(method, level):
    """With little noise it lies far beyond the stops at which a search of an operator begins.

    The distance oscillates with the stop, by a thousandth, and both are sampled at other stops.
    """
    A, _, b, _ = blurred(level=level)
    matrix, operator = (fitted(X, b, "l-curve", method) for X in (A, aslinearoperator(A)))
    assert operator.stop_ == pytest.approx(matrix.stop_, rel=0.06)
    assert operator.choice_.error == pytest.approx(matrix.choice_.error, rel=1e-3)


def test_the_distance_is_that_of_the_sorted_periodogram(rng):
    A, _, b, _ = blurred(n=63)
    A, b = A[:60], b[:60]
    weights = rng.random(60) + 0.5
    problem = st.Problem.of(A, b, "nesterov-flow", sample_weight=weights)
    stops = np.array([0.0, 30.0, 300.0])
    path = st.path(problem.spectrum, "nesterov-flow", stops)
    for shape in (None, (6, 10)):
        found = st.NCP(shape).errors(problem, stops).errors
        for k, fit in enumerate(path.predict(A)):
            residual = (np.sqrt(weights) * (b - fit)).reshape(shape or 60)
            power = np.abs(np.fft.fftn(residual)).ravel() ** 2
            steps = [np.fft.fftfreq(size) for size in residual.shape]
            length = np.sqrt(sum(one**2 for one in np.meshgrid(*steps, indexing="ij"))).ravel()
            cumulative = np.cumsum(power[np.argsort(length, kind="stable")][1:])
            white = np.arange(1, 60) / 59
            expected = np.abs(cumulative / cumulative[-1] - white).mean()
            assert found[k] == pytest.approx(expected, rel=1e-9)


def test_white_residuals_are_near_zero_and_rounded_ones_are_not_taken_for_noise(rng):
    distances = []
    for _ in range(50):
        X, y = rng.standard_normal((400, 2)), rng.standard_normal(400)
        distances.append(st.NCP().errors(st.Problem.of(X, y, "ridge"), np.zeros(1)).errors[0])
    # a Brownian bridge has a mean absolute value of about 0.31, over the root of n/2 frequencies
    assert np.mean(distances) == pytest.approx(0.31 / np.sqrt(200), rel=0.25)
    X = rng.standard_normal((30, 40))
    problem = st.Problem.of(X, rng.standard_normal(30), "ridge")
    assert st.NCP().errors(problem, np.array([np.inf])).errors[0] == 1.0


def test_the_angle_is_that_of_three_points_of_the_path():
    A, _, b, _ = blurred()
    for method, before, after in [
        ("conjugate-gradient", [3, 6], [12, 24]),
        ("ridge", [2500, 25000], [4e4, 4e5]),
    ]:
        here = {"conjugate-gradient": [6, 12], "ridge": [1e4, 1e5]}
        problem = st.Problem.of(A, b, method, st.decompose(A, b, fit_intercept=False))
        points = []
        for stops in (before, here[method], after):
            coef = st.path(A, b, problem.tuned, stops, fit_intercept=False).coef
            residual = np.linalg.norm(b - coef @ A.T, axis=1)
            points.append(np.log([residual, np.linalg.norm(coef, axis=1)]))
        left, right = points[0] - points[1], points[2] - points[1]
        sides = np.hypot(*left), np.hypot(*right)
        # without its sign: some of these points lie before the corner, where the curve bends back
        turn = np.pi - np.arccos((left * right).sum(axis=0) / sides[0] / sides[1])
        shortest = np.minimum(*sides)
        expected = np.pi - turn * shortest / (shortest + 0.1)
        found = st.LCurve().errors(problem, np.array(here[method], float)).errors
        np.testing.assert_allclose(np.minimum(found, 2 * np.pi - found), expected, rtol=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("unit", [1e-90, 1e90])
def test_stops_do_not_depend_on_the_unit_of_the_response(rule, unit):
    A, _, b, _ = blurred()
    for method in ("conjugate-gradient", "nesterov-flow"):
        ours = fitted(A, b, rule, method)
        theirs = fitted(A, unit * b, rule, method)
        assert theirs.stop_ == pytest.approx(ours.stop_, rel=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_targets_weights_operators_and_copies(rule):
    A, _, b, _ = blurred(level=0.03)
    Y = np.column_stack([b, b[::-1]])
    each = fitted(A, Y, rule, per_target=True)
    np.testing.assert_array_equal(each.stop_, [fitted(A, y, rule).stop_ for y in Y.T])
    assert fitted(aslinearoperator(A), b, rule).stop_ == fitted(A, b, rule).stop_
    twice = fitted(A, b, rule, "nesterov-flow")
    copy = pickle.loads(pickle.dumps(clone(twice))).fit(A, b)
    assert copy.stop_ == twice.stop_
    weighted = st.StoppedRegressorCV("nesterov-flow", rule=rule, fit_intercept=False)
    weighted.fit(A, b, sample_weight=np.full(len(b), 3.0))
    assert weighted.stop_ == pytest.approx(twice.stop_, rel=1e-6)
    with pytest.raises(ValueError, match="cannot compare methods"):
        fitted(A, b, rule, ["ridge", "nesterov-flow"])


def test_what_cannot_be_done_says_so(rng):
    X, y = rng.standard_normal((200, 3)), rng.standard_normal(200)
    with pytest.raises(ValueError, match=r"shape must have a product of 200.*got \(7, 7\)"):
        fitted(X, y, st.NCP((7, 7)), "ridge")
    with pytest.raises(ValueError, match=r"Streamed data are read once.*use rule="):
        fitted(st.Chunks.of(X, y), None, "ncp", "ridge")
    with pytest.warns(st.StopWarning, match="L-curve has no corner"):
        fitted(X, X @ np.ones(3) + 1e-3 * y, "l-curve", "gradient-flow")
    for stops in ([0.0], [0.0, np.inf]):
        with pytest.warns(st.StopWarning, match="The stop means little"):
            assert fitted(X, y, "l-curve", "ridge", stops=stops).stop_ == 0
