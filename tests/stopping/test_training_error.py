"""Rules of the training error: discrepancy by closed forms, SURE, plug-in, weights in all."""

import warnings

import numpy as np
import pytest
from scipy.optimize import brentq

import stoptime as st
from campaign import problems
from stoptime.stopping.registry import get_rule
from stoptime.stopping.training_error import _best_guarantee

FLOWS = ["ridge", "gradient-flow", "nesterov-flow", st.HeavyBallFlow(0.3)]
METHODS = [*FLOWS, "gradient-descent", "nesterov", st.HeavyBall(momentum=0.9)]


def drawn(seed=0, n=40, p=6, targets=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.geomspace(1, 0.05, p)
    Y = X @ rng.standard_normal((p, targets)) + 0.5 * rng.standard_normal((n, targets))
    return X, Y[:, 0] if targets == 1 else Y


def chosen(X, y, method, rule="discrepancy", weights=None, **options):
    return get_rule(rule).choose(st.Problem.of(X, y, method, sample_weight=weights), **options)


@pytest.mark.parametrize("method", [*FLOWS, st.AcceleratedFlow(5)], ids=str)
def test_training_error_is_the_residual(method):
    X, y = drawn()
    stops = np.array([0.0, 0.7, 20.0, np.inf])
    spec = st.decompose(X, y)
    residuals = y - st.path(spec, method, stops).predict(X)
    found = st.training_error(spec, method, stops)
    np.testing.assert_allclose(found, (residuals**2).mean(axis=1), rtol=1e-10)


# ---------------------------------------------------------------- discrepancy


def test_the_penalty_is_that_of_solved_normal_equations():
    X, y = drawn()
    n, p = X.shape
    centred, response = X - X.mean(axis=0), y - y.mean()

    def excess(log_stop):
        matrix = centred.T @ centred / n + np.exp(-log_stop) * np.eye(p)
        coef = np.linalg.solve(matrix, centred.T @ response / n)
        return np.mean((response - centred @ coef) ** 2) - 0.4

    expected = np.exp(brentq(excess, -5, 15, xtol=1e-13))
    assert chosen(X, y, "ridge", st.Discrepancy(0.4)).stop == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_run_step_by_step_is_down_to_the_noise_at_the_same_time(method):
    """The training error of paths drawn by another route, at the stop and before it."""
    X, y = drawn()
    model = st.StoppedRegressorCV(method, rule=st.Discrepancy(0.4)).fit(X, y)
    ends = model.stop_ * np.array([1 - 1e-6, 1.0])
    if model.method_.whole_stops:
        ends = model.stop_ - np.array([1.0, 0.0])
    fits = st.path(X, y, model.method_, ends).predict(X)
    before, here = ((y - fits) ** 2).mean(axis=1)
    assert here <= 0.4 * (1 + 1e-9) < 0.4 * (1 + 1e-8) < before


CROSSING = [
    st.HeavyBall(momentum=0.9), st.HeavyBall(momentum=0.99), st.Nesterov(), st.NuMethod(),
    st.Nesterov(friction=1.0), st.GradientDescent(), st.ConjugateGradient(),
    st.AcceleratedFlow(3.0), st.AcceleratedFlow(1.0), st.AcceleratedFlow(0.5), st.CriticalFlow(),
    st.HeavyBallFlow(damping=0.05), st.HeavyBallFlow(damping=0.3), st.GradientFlow(),
]  # fmt: skip


@pytest.mark.parametrize("method", CROSSING, ids=str)
@pytest.mark.filterwarnings("ignore::stoptime.StopWarning")
def test_no_earlier_stop_is_down_to_the_noise(method):
    """No earlier iteration, and no earlier stop of the grid of a flow."""
    for seed in range(problems(5, 300)):
        rng = np.random.default_rng(seed)
        n, p = int(rng.integers(8, 40)), int(rng.integers(2, 20))
        X = rng.standard_normal((n, p)) * 10.0 ** -(rng.uniform(0, 2.5) * rng.random(p))
        signal = rng.standard_normal(p) * 10.0 ** rng.uniform(-1, 1, p)
        y = X @ signal + 10.0 ** rng.uniform(-2, 0) * rng.standard_normal(n)
        problem = st.Problem.of(X, y, method)
        spectrum, tuned = problem.spectrum, problem.tuned
        outside = float(spectrum.energies()[1][0])
        share = 10.0 ** rng.uniform(-4, -0.3)
        level = outside + share * (float(spectrum.target_power) - outside)
        choice = st.Discrepancy(noise=level).choose(problem)
        if not np.isfinite(choice.stop):
            continue
        if method.whole_stops:
            before = np.arange(choice.stop)
        elif isinstance(method, st.Filter) and method.oscillates:
            # a dip between two stops of the grid does not count
            before = choice.curve.stops[choice.curve.stops < choice.stop]
        else:
            before = np.linspace(0, choice.stop * (1 - 1e-9), 400)
        # a training error below the level is an earlier crossing
        assert (st.training_error(spectrum, tuned, before) >= level * (1 - 1e-9)).all(), seed
        if choice.error > level * (1 + 1e-6):  # the last stop, where none is down to the noise
            assert choice.stop == choice.curve.stops[-1], seed
        elif not method.whole_stops:
            assert choice.error == pytest.approx(level, rel=1e-7), seed


@pytest.mark.parametrize("method", FLOWS, ids=str)
def test_a_small_noise_is_reached_beyond_the_grid(method):
    X, y = drawn(n=12, p=20)
    noise = 1e-6 * np.var(y)
    choice = chosen(X, y, method, st.Discrepancy(noise))
    assert choice.error == pytest.approx(noise, rel=1e-9)
    problem = st.Problem.of(X, y, method)
    grid = st.default_stops(problem.spectrum, method)
    assert grid[-2] < choice.stop < 64 * grid[-2] or choice.stop < grid[-2]


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_without_noise_the_last_stop_is_taken_with_advice(method, weighted):
    """A row that is there twice with the same response, or has a weight of 2, has no noise."""
    X, y = drawn(n=10, p=15)
    weights = np.arange(10) % 3 + 1
    data = (X, y, weights) if weighted else (np.repeat(X, weights, axis=0), np.repeat(y, weights))
    with pytest.warns(st.StopWarning, match=r"Check the noise.*rule=\"loo\""):
        model = st.StoppedRegressorCV(method, rule="discrepancy").fit(*data)
    assert model.stop_ == model.stops_[-1]
    assert np.isinf(model.stop_) == (not model.method_.whole_stops)
    # no stop beyond the grid is tried
    spectrum = st.decompose(*data[:2], sample_weight=data[2] if weighted else None)
    assert len(model.stops_) == len(st.default_stops(spectrum, model.method_))


def test_a_fit_without_residuals_has_no_noise():
    X, y = drawn(n=40)
    exact = X @ np.ones(X.shape[1])
    with pytest.warns(st.StopWarning, match="never falls to the noise"):
        assert np.isinf(chosen(X, exact, "nesterov-flow").stop)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # nothing has to be learned, so that the first stop is down to the noise
        assert chosen(X, np.ones(len(y)), "nesterov-flow").stop == 0


def test_stops_that_are_given_are_taken_as_they_are():
    X, y = drawn()
    rule = st.Discrepancy(0.4)
    exact = chosen(X, y, "nesterov-flow", rule).stop
    assert chosen(X, y, "nesterov-flow", rule, stops=[0.5 * exact, 2 * exact]).stop == 2 * exact
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen(X, y, "nesterov-flow", rule, stops=[0.5 * exact, np.inf]).stop == np.inf
    with pytest.warns(st.StopWarning, match="the last stop, 0.001"):
        assert chosen(X, y, "nesterov-flow", rule, stops=[1e-4, 1e-3]).stop == 1e-3


@pytest.mark.parametrize("method", ["nesterov-flow", "nesterov", st.Adam(lr=0.02)], ids=str)
def test_every_target_stops_as_if_it_were_alone(method):
    X, Y = drawn(targets=3)
    Y = Y * [1.0, 0.8, 1.0]
    Y[:, 2] = 0.0
    rule = st.Discrepancy(0.5)
    choice = chosen(X, Y, method, rule, per_target=True)
    alone = [chosen(X, y, method, rule) for y in Y.T]
    np.testing.assert_allclose(choice.stop, [one.stop for one in alone], rtol=1e-9)
    np.testing.assert_allclose(choice.error, [one.error for one in alone], rtol=1e-9)
    assert choice.stop[2] == 0
    pooled = chosen(X, Y, method, rule)
    assert pooled.error <= 0.5 * (1 + 1e-9)


# ---------------------------------------------------------------- SURE and plug-in


def test_sure_estimates_the_in_sample_error(rng):
    """Mean over replicates of SURE = noise + expected in-sample risk, within its standard error."""
    X, _ = drawn(n=40, p=5)
    beta = rng.standard_normal(5)
    stops = np.array([0.5, 3.0, 12.0])
    Y = X @ beta[:, None] + rng.standard_normal((40, 3000))
    curve = st.SURE(noise=1.0).errors(st.Problem.of(X, Y, "nesterov-flow"), stops)
    fits = st.path(X, Y, "nesterov-flow", stops).predict(X)
    risk = ((fits - (X @ beta)[:, None]) ** 2).mean(axis=1) + 1.0
    gap = curve.errors - risk
    assert np.all(np.abs(gap.mean(axis=1)) < 4.5 * gap.std(axis=1) / np.sqrt(3000))
    with pytest.raises(ValueError, match="noise must be"):
        st.SURE(noise=-1).errors(st.Problem.of(X, Y, "nesterov-flow"), stops)


def test_plug_in_reports_its_guarantee():
    X, y = drawn()
    p = st.Problem.of(X, y, "nesterov-flow")
    choice = st.PlugIn().choose(p)
    assert choice.stop == pytest.approx(st.StoppedRegressor().fit(X, y).stop_, rel=1e-9)
    assert "at most about 1.600 times its Bayes risk" in choice.message
    assert st.PlugIn().choose(p, [0.1, choice.stop, 100.0]).stop == choice.stop
    both = st.Problem.of(X, np.column_stack([y, y]), "nesterov-flow")
    with pytest.raises(ValueError, match="has one stop for all targets"):
        st.PlugIn().choose(both, per_target=True)
    assert "no signal" in chosen(X, np.zeros(40), "nesterov-flow", "plug-in").message
    assert _best_guarantee(p, 0.0) == (np.inf, "no noise was detected")


# ---------------------------------------------------------------- all of them


@pytest.mark.parametrize("rule", ["sure", "discrepancy", "l-curve", "path-gcv", "gcv", "plug-in"])
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.filterwarnings("ignore:Generalised cross-validation is inconsistent")
@pytest.mark.filterwarnings("ignore::stoptime.StopWarning")
def test_a_weight_of_two_is_the_row_twice(rule, method):
    X, y = drawn(seed=2)
    weights = np.arange(len(y)) % 3 + 1
    copies = np.repeat(X, weights, axis=0), np.repeat(y, weights)
    once = chosen(X, y, method, rule, weights)
    often = chosen(*copies, method, rule)
    assert once.stop == pytest.approx(often.stop, rel=1e-6)
    np.testing.assert_allclose(once.error, often.error, rtol=1e-9)
    if isinstance(rule := get_rule(rule), st.stopping.rule.CurveRule):
        stops = np.array([0.0, 1.0, 3.0, 10.0])
        ours = rule.errors(st.Problem.of(X, y, method, sample_weight=weights), stops)
        theirs = rule.errors(st.Problem.of(*copies, method), stops)
        np.testing.assert_allclose(ours.errors, theirs.errors, rtol=1e-9)


@pytest.mark.parametrize(
    ("method", "rule", "stops", "message"),
    [
        ("nesterov-flow", "gcv", None, "inconsistent"),
        ("ridge", st.Discrepancy(1e-9), [0.0, 1e-6], "never falls"),
        ("ridge", st.LCurve(), [0.0, 1e-6], "means little"),
        ("ridge", "l-curve", None, "no corner"),
    ],
)
def test_warnings_point_at_the_line_of_the_user(method, rule, stops, message):
    rng = np.random.default_rng([31, 0])
    X = rng.normal(size=(60, 6)) * np.arange(1, 7.0) ** -0.5
    y = X @ rng.normal(size=6) + 10 * rng.normal(size=60)
    with pytest.warns(UserWarning, match=message) as caught:
        st.StoppedRegressorCV(method, rule=rule, stops=stops).fit(X, y)
    with pytest.warns(UserWarning, match=message) as again:
        chosen(X, y, method, rule, stops=stops)
    for found in (caught, again):
        own = [one for one in found if message in str(one.message)]
        assert [one.filename for one in own] == [__file__]
