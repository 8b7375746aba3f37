"""Iterations: closed forms, raw data, 50 digits, stability, flows, and everything that flows have."""

import pickle
import tracemalloc

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sklearn.utils.estimator_checks import parametrize_with_checks

import stoptime as st
from stoptime.methods import (
    ITERATIONS,
    AcceleratedFlow,
    GradientDescent,
    GradientFlow,
    HeavyBall,
    HeavyBallFlow,
    HighResolutionFlow,
    Nesterov,
    NuMethod,
    get_method,
)
from stoptime.methods.closed_forms import closed_form
from stoptime.methods.recurrence import closer_stops, filtered

CONCRETE = [
    GradientDescent(0.8),
    Nesterov(1.0),
    Nesterov(1.0, 5.0),
    Nesterov(0.7, 2.3),
    Nesterov(1.0, momentum=0.9),
    HeavyBall(1.0, 0.9),
    HeavyBall(1.0, 0.0),
    NuMethod(1.0),
    NuMethod(0.5, 0.4),
    NuMethod(1.0, 3.0),
]
AUTO = [
    GradientDescent(),
    Nesterov(),
    Nesterov(friction=5),
    Nesterov(momentum=0.8),
    HeavyBall(momentum=0.7),
    NuMethod(),
]
each = pytest.mark.parametrize("method", CONCRETE, ids=str)
each_auto = pytest.mark.parametrize("method", AUTO, ids=str)
X_EXACT = np.arange(1025) / 1024  # 1 - x is then a float, and a closed form does not suffer from rounding it


def make_data(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.geomspace(0.3, 1, p) + 1
    return X, X @ rng.standard_normal(p) / np.sqrt(p) + rng.standard_normal(n)


@each
@pytest.mark.parametrize("k", [0, 1, 2, 3, 10, 57, 200])
def test_recurrence_is_the_closed_form(method, k):
    s = X_EXACT / method.step
    np.testing.assert_allclose(method.shrinkage(s, k), closed_form(method, s, k), atol=1e-12, rtol=0)
    gain = (1 - closed_form(method, s[1:], k)) / s[1:]
    np.testing.assert_allclose(method.gain(s[1:], k), gain, rtol=1e-9, atol=0)


def test_closed_forms_say_where_they_end():
    with pytest.raises(ValueError, match="at most one"):
        closed_form(Nesterov(1.0), [1.1], 3)
    with pytest.raises(ValueError, match=r"whole numbers.*2\.5"):
        closed_form(Nesterov(1.0), [0.1], 2.5)


def fifty_digits(method, s, k):
    """Run the iteration as it is printed in papers, on one direction with unit response."""
    mp.mp.dps = 50
    s, step = mp.mpf(float(s)), mp.mpf(method.step)
    old = b = mp.mpf(0)
    for j in range(1, k + 1):
        match method:
            case GradientDescent():
                point, move, weight = b, 0, 1
            case HeavyBall(momentum=eta):
                point, move, weight = b, mp.mpf(eta) * (b - old), 1
            case Nesterov(momentum=None, friction=r):
                ratio = mp.mpf(j - 2) / (mp.mpf(j - 1) + mp.mpf(r) - 1) if j > 1 else 0
                point, move, weight = b + ratio * (b - old), ratio * (b - old), 1
            case Nesterov(momentum=eta):
                point, move, weight = b + mp.mpf(eta) * (b - old), mp.mpf(eta) * (b - old), 1
            case NuMethod(nu=nu):  # Engl, Hanke, Neubauer (1996), algorithm 6.13
                nu = mp.mpf(nu)
                move = (
                    (j - 1) * (2 * j - 3) * (2 * j + 2 * nu - 1)
                    / ((j + 2 * nu - 1) * (2 * j + 4 * nu - 1) * (2 * j + 2 * nu - 3))
                ) * (b - old)  # fmt: skip
                weight = 4 * (2 * j + 2 * nu - 1) * (j + nu - 1) / ((j + 2 * nu - 1) * (2 * j + 4 * nu - 1))
                point = b
        b, old = b + move + weight * step * (1 - s * point), b
    return 1 - s * b, b


@each
def test_long_runs_against_fifty_digits(method):
    for x in (1e-12, 1e-5, 1e-3, 0.02, 0.3, 0.77, 1.0):
        s = x / method.step
        for k in (1, 2, 30, 500):
            g, gain = fifty_digits(method, s, k)
            assert abs(float(method.shrinkage(s, k)) - g) < 1e-12
            assert abs(float(method.gain(s, k)) / gain - 1) < 1e-12


@each_auto
def test_path_is_the_iteration_on_the_raw_data(method):
    X, y = make_data(40, 6)
    Xc, yc = X - X.mean(0), y - y.mean()
    drawn = st.path(X, y, method, np.arange(31))
    tuned = drawn.method
    b = old = np.zeros(6)
    for k in range(31):
        np.testing.assert_allclose(drawn.coef[k], b, rtol=1e-10, atol=1e-13)
        momentum, lookahead, weight = tuned.coefficients(k + 1)
        point = b + lookahead * (b - old)
        b, old = b + momentum * (b - old) + weight * tuned.step / 40 * Xc.T @ (yc - Xc @ point), b


def test_nesterov_is_su_boyd_candes():
    X, y = make_data(50, 7)
    step, n = 0.2, 50
    Xc, yc = X - X.mean(0), y - y.mean()
    drawn = st.path(X, y, Nesterov(step), np.arange(1, 61)).coef
    b = theta = np.zeros(7)
    for k in range(1, 61):
        b, old = theta - step * (Xc.T @ (Xc @ theta - yc) / n), b
        theta = b + (k - 1) / (k + 2) * (b - old)
        np.testing.assert_allclose(drawn[k - 1], b, rtol=1e-9, atol=1e-13)


@each
def test_gain_and_shrinkage_add_up_and_start_at_nothing(method):
    s, k = np.concatenate([[0, 1e-300], np.geomspace(1e-8, 1 / method.step, 40)])[:, None], np.arange(60)
    g, gain = method.shrinkage(s, k), method.gain(s, k)
    np.testing.assert_allclose(gain * s + g, 1, atol=1e-13)
    assert np.all(g[:, 0] == 1)
    assert np.all(gain[:, 0] == 0)
    assert np.all(g[0] == 1)
    np.testing.assert_allclose(gain[0], gain[1], rtol=1e-13)
    np.testing.assert_array_equal(method.gain([0, 0.5], np.inf), [np.inf, 2])
    np.testing.assert_array_equal(method.shrinkage([0, 0.5], np.inf), [1, 0])


@each
def test_broadcasting_scalars_and_pairs(method):
    s, k = np.array([0.1, 0.5, 1.0]), np.array([7, 2])
    table = method.shrinkage(s[:, None], k)
    assert table.shape == (3, 2)
    assert method.gain(s, 3).shape == (3,)
    assert np.ndim(method.gain(1.0, 3)) == 0
    assert method.gain(np.empty((0, 1)), k).shape == (0, 2)
    assert method.gain(s[:, None], np.empty(0)).shape == (3, 0)
    assert method.shrinkage(0.5, 2) == table[1, 1]
    np.testing.assert_array_equal(method.shrinkage(s, [7, 2, 7]), [table[0, 0], table[1, 1], table[2, 0]])


def test_many_pairs_are_cut_into_blocks():
    rng = np.random.default_rng(0)
    x, k = rng.uniform(size=3000), rng.permutation(3000)
    method = Nesterov(1.0)
    found = filtered(method.coefficients, x, k, 1.0, 0.0)
    for i in (0, 1023, 1024, 2999):
        assert found[i] == method.shrinkage(x[i], k[i])


def test_a_hundred_thousand_iterations_in_bounded_memory():
    s = np.linspace(0, 1, 300)
    tracemalloc.start()
    gain = Nesterov(1.0).gain(s[:, None], [1, 50_000, 100_000])
    bias, _ = st.bayes_risk(
        HeavyBall(1.0, 0.9), [10, 100_000], eigenvalues=s, signal=1, noise=1, n_samples=9
    ).model.evaluate(np.array([10.0, 100_000.0]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    assert np.isfinite(gain).all()
    assert bias[1] == pytest.approx(1 / 300)
    assert float(GradientDescent(1.0).gain(1e-9, 1e12)) == pytest.approx(1e9)
    with pytest.raises(ValueError, match="beyond 10000000"):
        Nesterov(1.0).gain(s, 1e150)


@each
@pytest.mark.parametrize("call", ["shrinkage", "gain"])
def test_stops_are_whole_numbers(method, call):
    with pytest.raises(ValueError, match=r"whole numbers.*2\.5"):
        getattr(method, call)(1.0, [1, 2.5])
    with pytest.raises(ValueError, match=r"t must be.*-1"):
        getattr(method, call)(1.0, -1)


STABILITY = [
    (GradientDescent, {}, 2.0),
    (Nesterov, {}, 4 / 3),
    (Nesterov, {"momentum": 0.6}, 3.2 / 2.2),
    (HeavyBall, {"momentum": 0.6}, 3.2),
    (NuMethod, {}, 1.0),
]


@pytest.mark.parametrize(("cls", "options", "limit"), STABILITY)
def test_divergent_steps_are_refused_and_only_those(cls, options, limit):
    largest = 3.0
    inside = cls(step=0.999 * limit / largest, **options).tuned_to([0.1, largest])
    assert abs(inside.shrinkage(largest, 4000)) < 1
    outside = cls(step=1.001 * limit / largest, **options)
    with pytest.raises(ValueError, match=r"diverges.*must be below.*auto"):
        outside.tuned_to([0.1, largest])
    assert abs(outside.shrinkage(largest, 9000)) > 10
    with pytest.raises(ValueError, match="diverges"):
        st.path(*make_data(20, 3), cls(step=1e9, **options), [1])


@pytest.mark.parametrize("value", [1, 1.5, -0.1, np.nan, "fast", True])
def test_bad_momentum_is_explained(value):
    for cls in (HeavyBall, Nesterov):
        with pytest.raises(ValueError, match=r"momentum must be.*below 1.*diverges"):
            cls(momentum=value)


@pytest.mark.parametrize("cls", [GradientDescent, Nesterov, HeavyBall, NuMethod, HighResolutionFlow])
@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "fast", None, True])
def test_bad_steps_are_named(cls, value):
    with pytest.raises(ValueError, match="step must be"):
        cls(step=value)


def test_auto_is_made_concrete():
    s = [0.25, 1.0, 4.0]
    assert GradientDescent().tuned_to(s) == GradientDescent(0.25)
    assert Nesterov(friction=5).tuned_to(s) == Nesterov(0.25, 5.0)
    assert HeavyBall().tuned_to(s) == HeavyBall(0.25, (1 - 0.25) ** 2)
    assert HighResolutionFlow().tuned_to(s) == HighResolutionFlow(0.25, 0.25)
    assert NuMethod().tuned_without_rows(s, 1.25) == NuMethod(0.2)
    assert GradientDescent().tuned_to([0.0]) == GradientDescent(1.0)
    for method in (HeavyBall(), HighResolutionFlow()):
        with pytest.raises(ValueError, match=r"singular.*for example"):
            method.tuned_to([0.0, 1.0])
        with pytest.raises(ValueError, match="tuned_to"):
            method.gain(1.0, 1)
    with pytest.raises(ValueError, match="tuned_to"):
        Nesterov().gain(1.0, 1)
    with pytest.raises(ValueError, match="tuned_to"):
        HeavyBall(0.1).gain(1.0, 1)


@pytest.mark.parametrize("step", [0.1, 0.25, 0.6, 0.9])
def test_automatic_momentum_converges_fastest(step):
    s = np.linspace(0.05, 4, 60)
    best = HeavyBall(step).tuned_to(s)

    def rate(method):
        return np.abs(method.shrinkage(s, 400)).max()

    for momentum in (best.momentum - 0.02, best.momentum + 0.02):
        if 0 <= momentum < 1 and step * 4 < 2 * (1 + momentum):
            assert rate(best) < rate(HeavyBall(step, momentum))


@pytest.mark.parametrize(
    "flow", [GradientFlow(), AcceleratedFlow(), AcceleratedFlow(5), HeavyBallFlow(0.4)], ids=str
)
def test_halving_the_pace_halves_the_gap_to_the_flow(flow):
    s, t, gaps = np.linspace(0, 2, 50), 4.0, []
    for pace in (0.02, 0.01, 0.005):
        iteration = flow.as_iteration(pace ** (2 if flow.order == 2 else 1))
        assert iteration.pace == pytest.approx(pace)
        assert str(iteration.as_flow()) == str(flow) or iteration.as_flow().damping == pytest.approx(0.4)
        gaps.append(np.abs(iteration.shrinkage(s, round(t / pace)) - flow.shrinkage(s, t)).max())
    np.testing.assert_allclose(np.divide(gaps[1:], gaps[:-1]), 0.5, rtol=0.06)


@pytest.mark.parametrize("method", [NuMethod(0.1, 1.0), Nesterov(0.1, momentum=0.8)], ids=str)
def test_other_iterations_follow_their_flow_as_well(method):
    s, gaps = np.linspace(0, 2, 50), []
    for pace in (0.04, 0.02, 0.01):
        if isinstance(method, NuMethod):
            small = NuMethod((pace / 2) ** 2, method.nu)
        else:
            small = Nesterov(pace**2, momentum=1 - 0.6 * pace)
        gaps.append(np.abs(small.shrinkage(s, round(4 / pace)) - small.as_flow().shrinkage(s, 4.0)).max())
    assert gaps[2] < 0.3 * gaps[0] < 0.1


def test_a_step_too_long_for_its_damping():
    with pytest.raises(ValueError, match=r"too long for damping 2.*0\.0625"):
        HeavyBallFlow(2.0).as_iteration(0.1)
    assert HeavyBallFlow(2.0).as_iteration(0.0625) == HeavyBall(0.0625, 0.0)


@pytest.mark.parametrize("s", [0.0, 0.01, 0.05, 0.3, 1.0, 3.0, 20.0])
def test_high_resolution_flow_solves_its_equation(s):
    step, mu = 0.3, 0.05
    root = np.sqrt(step * mu)

    def motion(_, b):
        return [b[1], (1 + root) * (1 - s * b[0]) - (2 * np.sqrt(mu) + np.sqrt(step) * s) * b[1]]

    t = np.array([0.5, 1, 3, 12])
    start = [0, 2 * np.sqrt(step) / (1 + root)]
    solved = solve_ivp(motion, (0, 12), start, t_eval=t, rtol=1e-12, atol=1e-14, method="DOP853")
    method = HighResolutionFlow(step, mu)
    np.testing.assert_allclose(method.gain(s, t), solved.y[0], rtol=1e-9)
    np.testing.assert_allclose(method.gain(s, t) * s + method.shrinkage(s, t), 1, atol=1e-14)
    rescaled = method.in_units_of(4.0)
    np.testing.assert_allclose(rescaled.shrinkage(s / 4, 2 * t), method.shrinkage(s, t), atol=1e-13)


def test_high_resolution_flow_is_closer_to_the_iteration_than_the_heavy_ball():
    s, mu, step = np.linspace(0.05, 1, 60), 0.05, 0.2
    fine = HighResolutionFlow(step, mu)
    iteration = fine.as_iteration()
    k, eta = np.arange(1, 60), iteration.momentum
    table = iteration.shrinkage(s[:, None], np.arange(60))
    exact, t = (1 + eta) * table[:, 1:] - eta * table[:, :-1], k * iteration.pace
    gap = np.abs(fine.shrinkage(s[:, None], t) - exact).max()
    coarse = np.abs(iteration.as_flow().shrinkage(s[:, None], t) - exact).max()
    assert gap < 0.2 * coarse
    with pytest.raises(ValueError, match="models no iteration"):
        HighResolutionFlow(4.0, 1.0).as_iteration()


def test_registry():
    for name, cls in ITERATIONS.items():
        assert get_method(name) == cls()
        assert cls.name == name
        assert cls.order in (1, 2)
    for method in [*CONCRETE, *AUTO]:
        assert pickle.loads(pickle.dumps(method)) == method
        assert eval(repr(method)) == method
        assert hash(method) == hash(pickle.loads(pickle.dumps(method)))


def refit_errors(X, y, tuned, stops, weights):
    out = np.empty((len(stops), len(y)))
    for i in range(len(y)):
        keep = np.arange(len(y)) != i
        spectrum = st.decompose(X[keep], y[keep], None if weights is None else weights[keep], solver="svd")
        gain = tuned.gain(spectrum.eigenvalues[:, None], stops)
        coef = spectrum.vectors @ (gain * spectrum.response[:, None])
        out[:, i] = y[i] - (X[i] - spectrum.feature_mean) @ coef - spectrum.target_mean
    shares = np.ones(len(y)) / len(y) if weights is None else weights / weights.sum()
    return out, out**2 @ shares


@each_auto
@pytest.mark.parametrize("shape", [(24, 6), (16, 30)])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_is_n_refits(method, shape, weighted):
    X, y = make_data(*shape)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    stops = np.array([0, 1, 2, 3, 10, 57, 300, np.inf])
    spectrum = st.decompose(X, y, weights)
    problem = st.Problem(X, y, method, spectrum, weights)
    residuals, expected = refit_errors(X, y, problem.tuned, stops, weights)
    found = st.leave_one_out(X, y, method, stops, sample_weight=weights)
    np.testing.assert_allclose(found.errors, expected, rtol=1e-9)
    np.testing.assert_allclose(
        st.left_out_residuals(X, y, method, 10, sample_weight=weights), residuals[4], rtol=1e-9, atol=1e-10
    )


def test_leave_one_out_of_many_targets_and_all_iterates():
    X, y = make_data(30, 8)
    Y = np.column_stack([y * np.cos(k) + np.sin(k * y) for k in range(20)])
    stops = np.arange(121)
    many = st.leave_one_out(X, Y, "nesterov", stops)
    for target in (0, 7, 19):
        single = st.leave_one_out(X, Y[:, target], "nesterov", stops)
        np.testing.assert_allclose(many.errors[:, target], single.errors, rtol=1e-9)


def test_leave_one_out_refuses_steps_that_diverge_without_a_row():
    X, y = make_data(12, 4)
    step = 1.95 / st.decompose(X, y).eigenvalues[-1]
    with pytest.raises(ValueError, match="diverges"):
        st.leave_one_out(X, y, GradientDescent(step), [3])


@each_auto
def test_path_gcv_is_exact_where_all_rows_are_alike(method):
    X = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 3, float)
    y = np.random.default_rng(1).normal(size=12)
    stops = [0, 1, 2, 5, 30, np.inf]
    expected = st.leave_one_out(X, y, method, stops).errors
    np.testing.assert_allclose(st.path_gcv(st.decompose(X, y), method, stops), expected, rtol=1e-9)


@each_auto
@pytest.mark.parametrize("rule", ["loo", "path-gcv", "sure", "one-standard-error", "discrepancy", "plug-in"])
def test_rules_choose_whole_numbers(method, rule):
    X, y = make_data(60, 12)
    model = st.StoppedRegressorCV(method, rule=rule).fit(X, y)
    assert model.stop_ == round(model.stop_)
    assert np.all(model.stops_ == np.round(model.stops_))
    np.testing.assert_allclose(model.coef_, st.path(X, y, model.method_, model.stop_).coef[0])
    if rule in {"loo", "path-gcv", "sure"}:
        every = np.arange(max(model.stop_ + 10, 30))
        again = st.StoppedRegressorCV(model.method_, rule=rule, stops=every).fit(X, y)
        assert again.choice_.error >= model.choice_.error * (1 - 1e-9)
        assert {model.stop_ - 1, model.stop_ + 1} <= set(model.stops_)


@parametrize_with_checks(
    [
        st.StoppedRegressor("nesterov"),
        st.StoppedRegressor("conjugate-gradient", stop=3),
        st.StoppedRegressorCV("gradient-descent"),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@each_auto
def test_estimators(method):
    X, y = make_data(60, 12)
    model = st.StoppedRegressor(method).fit(X, y)
    assert model.stop_ == round(model.stop_) > 0
    fold = st.StoppedRegressorCV(method, cv=4).fit(X, y)
    assert fold.stop_ == round(fold.stop_)
    Y = np.column_stack([y, X[:, 0] - y, np.sin(y)])
    own = st.StoppedRegressorCV(method, per_target=True).fit(X, Y)
    assert own.stop_.shape == (3,)
    for target in range(3):
        single = st.StoppedRegressorCV(method).fit(X, Y[:, target])
        assert own.choice_.error[target] <= single.choice_.error * (1 + 1e-9)
    with pytest.raises(ValueError, match="whole numbers"):
        st.StoppedRegressor(method, stop=2.5).fit(X, y)
    assert fold.plot() is not None


@each_auto
def test_exact_risk_of_every_iterate(method):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 8)) * np.geomspace(0.2, 1, 8)
    values, vectors = np.linalg.eigh(X.T @ X / 30)
    beta = rng.standard_normal(8)
    every = np.arange(201)
    curve = st.risk(method, every, eigenvalues=values, signal=vectors.T @ beta, noise=0.5, n_samples=30)
    hat = st.path(X, np.eye(30), method, every, fit_intercept=False).coef  # linear maps from y
    bias = ((hat @ X - np.eye(8)) @ beta) ** 2
    np.testing.assert_allclose(curve.bias, bias.sum(axis=1), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(curve.variance, 0.5 * (hat**2).sum(axis=(1, 2)), rtol=1e-9)
    assert curve.best == every[np.argmin(curve.total)]
    assert curve.best_total == curve.total.min()
    scattered = [200, 3, 3, np.inf, 0]
    again = st.risk(method, scattered, eigenvalues=values, signal=vectors.T @ beta, noise=0.5, n_samples=30)
    np.testing.assert_allclose(again.total[[0, 1, 2, 4]], curve.total[[200, 3, 3, 0]], rtol=1e-12)


def test_best_of_a_long_sparse_range_is_the_best_of_all():
    s = np.geomspace(1e-4, 1, 40)
    for method in (GradientDescent(1.0), HeavyBall(1.0, 0.99), Nesterov(1.0)):
        sparse = st.bayes_risk(method, [1, 9000], eigenvalues=s, signal=40, noise=1, n_samples=2000)
        every = st.bayes_risk(method, np.arange(1, 9001), eigenvalues=s, signal=40, noise=1, n_samples=2000)
        assert sparse.best_total == pytest.approx(every.total.min(), rel=1e-9)
        assert sparse.best == every.stops[np.argmin(every.total)]


@each_auto
def test_inflation_is_a_ratio_to_the_best_ridge(method):
    s = np.geomspace(0.02, 1, 20)
    found = st.inflation(method, eigenvalues=s, signal=20.0, noise=1.0, n_samples=40)
    every = st.bayes_risk(method, np.arange(2000), eigenvalues=s, signal=20.0, noise=1.0, n_samples=40)
    ridge = st.bayes_risk("ridge", [40.0], eigenvalues=s, signal=20.0, noise=1.0, n_samples=40)
    assert found.ratio == pytest.approx(every.total.min() / ridge.total[0], rel=1e-9)
    assert found.ratio >= 1
    assert found.stop == every.stops[np.argmin(every.total)]


@each_auto
@pytest.mark.parametrize("penalty", [0.2, 0.01])
@pytest.mark.parametrize("kind", ["risk", "parameter"])
def test_equivalent_stop_has_the_best_guarantee(method, penalty, kind):
    s = np.linspace(0.004, 1, 4000)
    if getattr(method, "momentum", None) is None:  # these are calibrated for all smaller eigenvalues too
        s = np.append(np.geomspace(1e-9, 0.004, 500), s)
    stop = st.equivalent_stop(method, penalty, calibration=kind, eigenvalues=s)
    k = np.arange(300)
    tuned = method.tuned_to(s)
    g, gain = tuned.shrinkage(s[:, None], k), tuned.gain(s[:, None], k)
    x = s[:, None]
    ratios = x * (g - penalty * gain) ** 2 / penalty if kind == "risk" else (gain * (penalty + x) - 1) ** 2
    worst = ratios.max(axis=0)
    assert stop == round(stop)
    assert worst[int(stop)] <= worst.min() * 1.002 + 1e-9


@pytest.mark.parametrize("method", [GradientDescent(), Nesterov(), Nesterov(friction=5), NuMethod()], ids=str)
def test_equivalent_penalty_undoes_equivalent_stop(method):
    s = np.geomspace(1e-3, 1, 200)
    for penalty in (0.01, 0.0004):
        stop = st.equivalent_stop(method, penalty, eigenvalues=s)
        back = st.equivalent_penalty(method, stop, eigenvalues=s)
        assert back == pytest.approx(penalty, rel=0.25)
    assert st.equivalent_penalty(method, 0, eigenvalues=s) == np.inf
    assert st.equivalent_penalty(method, np.inf, eigenvalues=s) == 0


def test_many_iterations_are_calibrated_like_their_flow():
    for method, flow in ((GradientDescent(1.0), "gradient-flow"), (Nesterov(1.0), "nesterov-flow")):
        penalty = 1e-5 if method.order == 1 else 1e-8
        stop = st.equivalent_stop(method, penalty)
        assert stop == round(st.equivalent_stop(flow, penalty))
    near, far = (st.equivalent_stop(GradientDescent(1.0), p) for p in (1 / 4900, 1 / 5100))
    assert near * 4900**-1 == pytest.approx(far / 5100, rel=1e-3)
    assert st.equivalent_stop(GradientDescent(0.5), 0.01, calibration="paper") == 200
    assert st.equivalent_penalty(Nesterov(0.25), 10, calibration="paper") == pytest.approx(1 / 25)
    with pytest.raises(ValueError, match="tuned_to"):
        st.equivalent_stop("nesterov", 0.1)


def test_data_without_noise_are_fitted_to_the_end():
    X, _ = make_data(40, 6)
    y = X @ np.arange(6)
    for name in ("gradient-descent", "nesterov", "nu-method"):
        model = st.StoppedRegressor(name).fit(X, y)
        np.testing.assert_allclose(model.coef_, np.arange(6), atol=1e-6)


def test_limiting_risk_tunes_the_step_to_the_bulk():
    curve = st.limiting_risk("nesterov", np.arange(40), aspect=0.5, signal=1.0, noise=1.0)
    assert curve.method.step == pytest.approx((1 + np.sqrt(0.5)) ** -2)
    assert np.isfinite(curve.total).all()


def test_closer_stops():
    np.testing.assert_array_equal(closer_stops(np.array([0.0, 1, 2, np.inf]), np.array([1, 3])), [])
    found = closer_stops(np.array([0.0, 1000.0, 5000.0]), np.array([1]), most=10)
    assert len(found) == 8
    assert np.all(found == np.round(found))
