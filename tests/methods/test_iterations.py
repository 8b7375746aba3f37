"""Iterations as methods: stability, automatic steps and momentum, and the flows they follow."""

import pickle

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import stoptime as st
from iteration_cases import AUTO, CONCRETE, make_data
from stoptime.methods.flows import AcceleratedFlow, GradientFlow, HeavyBallFlow, HighResolutionFlow
from stoptime.methods.iterations import (
    GradientDescent,
    HeavyBall,
    Nesterov,
    NuMethod,
    as_iteration,
)
from stoptime.methods.recurrence import tuned_without_rows
from stoptime.methods.registry import ITERATIONS, get_method

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


def test_at_the_limit_itself_a_step_is_refused():
    for method in (GradientDescent(2.0), HeavyBall(2.5, 0.25), Nesterov(1.5, momentum=0.5)):
        with pytest.raises(ValueError, match="diverges"):
            method.tuned_to([0.1, 1.0])
    assert NuMethod(1.0).tuned_to([0.1, 1.0]) == NuMethod(1.0)  # which converges there


@pytest.mark.parametrize("value", [1, 1.5, -0.1, np.nan, "fast", True])
def test_bad_momentum_is_explained(value):
    for cls in (HeavyBall, Nesterov):
        with pytest.raises(ValueError, match=r"momentum must be.*below 1.*diverges"):
            cls(momentum=value)


@pytest.mark.parametrize(
    "cls", [GradientDescent, Nesterov, HeavyBall, NuMethod, HighResolutionFlow]
)
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
    assert HighResolutionFlow().tuned_to([0.125, 0.5]) == HighResolutionFlow(2.0, 0.125)
    assert HighResolutionFlow(strong_convexity=0.5).tuned_to([0.0]) == HighResolutionFlow(1.0, 0.5)
    assert tuned_without_rows(NuMethod(), s, 1.25) == NuMethod(0.2)
    assert tuned_without_rows(GradientDescent(), s, 1.99) == GradientDescent(0.25)
    assert tuned_without_rows(GradientDescent(), s, 2.0) == GradientDescent(0.125)
    assert GradientDescent().tuned_to([0.0]) == GradientDescent(1.0)
    for method in (HeavyBall(), HighResolutionFlow()):
        with pytest.raises(ValueError, match=r"singular.*as a number"):
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
        iteration = as_iteration(flow, pace ** (2 if flow.time_power == 2 else 1))
        assert iteration.pace == pytest.approx(pace)
        assert str(iteration.as_flow()) == str(
            flow
        ) or iteration.as_flow().damping == pytest.approx(0.4)
        gaps.append(np.abs(iteration.shrinkage(s, round(t / pace)) - flow.shrinkage(s, t)).max())
    np.testing.assert_allclose(np.divide(gaps[1:], gaps[:-1]), 0.5, rtol=0.06)


@pytest.mark.parametrize(
    "method", [NuMethod(0.1, 1.0), NuMethod(0.1, 2.5), Nesterov(0.1, momentum=0.8)], ids=str
)
def test_other_iterations_follow_their_flow_as_well(method):
    s, gaps = np.linspace(0, 2, 50), []
    for pace in (0.04, 0.02, 0.01):
        if isinstance(method, NuMethod):
            small = NuMethod((pace / 2) ** 2, method.nu)
        else:
            small = Nesterov(pace**2, momentum=1 - 0.6 * pace)
        gaps.append(
            np.abs(small.shrinkage(s, round(4 / pace)) - small.as_flow().shrinkage(s, 4.0)).max()
        )
    assert gaps[2] < 0.3 * gaps[0] < 0.1


def test_a_step_too_long_for_its_damping():
    with pytest.raises(ValueError, match=r"too large.*0\.0625"):
        as_iteration(HeavyBallFlow(2.0), 0.1)
    assert as_iteration(HeavyBallFlow(2.0), 0.0625) == HeavyBall(0.0625, 0.0)


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
    iteration = as_iteration(fine)
    k, eta = np.arange(1, 60), iteration.momentum
    table = iteration.shrinkage(s[:, None], np.arange(60))
    exact, t = (1 + eta) * table[:, 1:] - eta * table[:, :-1], k * iteration.pace
    gap = np.abs(fine.shrinkage(s[:, None], t) - exact).max()
    coarse = np.abs(iteration.as_flow().shrinkage(s[:, None], t) - exact).max()
    assert gap < 0.2 * coarse
    with pytest.raises(ValueError, match="too large"):
        as_iteration(HighResolutionFlow(4.0, 1.0))


def test_registry():
    for name, cls in ITERATIONS.items():
        assert get_method(name) == cls()
        assert cls.name == name
        assert cls().tuned_to([0.5, 1.0]).time_power in (1, 2)
    for method in [*CONCRETE, *AUTO]:
        assert pickle.loads(pickle.dumps(method)) == method
        assert eval(repr(method), {type(method).__name__: type(method)}) == method
        assert hash(method) == hash(pickle.loads(pickle.dumps(method)))
