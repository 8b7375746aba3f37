"""The iterations: closed forms, 50 digits, raw data, stability, automatic steps, their flows."""

import tracemalloc

import mpmath as mp
import numpy as np
import pytest
from scipy.sparse import random_array
from sklearn.base import clone
from sklearn.linear_model import Ridge

import stoptime as st
from iteration_cases import CONCRETE, each_auto, make_data
from stoptime import GradientDescent, HeavyBall, Nesterov, NuMethod, OptimalIteration
from stoptime.methods import recurrence
from stoptime.methods.recurrence import tuned_without_rows
from stoptime.methods.schedules import Constant, Cosine, Linear, Listed, OneCycle

STEPS = Cosine(0.3, 400, warmup=10)
MOMENTA = OneCycle(0.85, 400, start=0.95, end=0.95)
SCHEDULED = [
    GradientDescent(STEPS),
    HeavyBall(STEPS, 0.9),
    HeavyBall(OneCycle(0.3, 400), MOMENTA),
    HeavyBall(Listed((0.0, 0.3, 0.0, 0.0, 0.2)), 0.9),
    Nesterov(STEPS),
    Nesterov(STEPS, momentum=MOMENTA),
    NuMethod(Linear(0.3, 100, end=0.1)),
    st.SGD(STEPS, MOMENTA, nesterov=True),
    st.SGD(0.3, 0.9, nesterov=True),
    st.SGD(STEPS, 0.8, dampening=0.3),
    GradientDescent(lambda k: 0.3 / np.sqrt(k)),
]


def plain_loop(method, s, steps, number=float):
    """Run the printed recursion on one direction with unit response; return β_0, β_1, ..."""
    s = number(s)
    at = lambda value, k: number(value(k) if callable(value) else value)  # noqa: E731
    b = v = number(0)
    found = [b]
    for k in range(1, steps + 1):
        step = at(method.step, k)
        match method:
            case st.SGD():
                eta = at(method.momentum, k)
                slope = 1 - s * b
                v = eta * v + (1 - number(method.dampening) if k > 1 else 1) * slope
                b = b + step * (slope + eta * v if method.nesterov else v)
            case GradientDescent():
                b = b + step * (1 - s * b)
            case HeavyBall():
                v = at(method.momentum, k) * v + 1 - s * b
                b = b + step * v
            case Nesterov():
                eta = number(max(k - 2, 0)) / (k + number(method.friction) - 2) if k > 1 else 0
                eta = eta if method.momentum is None else at(method.momentum, k)
                v = eta * v + 1 - s * (b + step * eta * v)
                b = b + step * v
            case NuMethod():  # Engl, Hanke, Neubauer (1996), algorithm 6.13
                nu = number(method.nu)
                ratio = (2 * k + 2 * nu - 1) / ((k + 2 * nu - 1) * (2 * k + 4 * nu - 1))
                momentum = (k - 1) * (2 * k - 3) * ratio / (2 * k + 2 * nu - 3)
                v = momentum * v + 4 * (k + nu - 1) * ratio * (1 - s * b)
                b = b + step * v
        found.append(b)
    return found


@pytest.mark.parametrize("method", [*CONCRETE, *SCHEDULED], ids=lambda one: repr(one)[:60])
def test_filters_against_the_printed_recursion_with_fifty_digits(method):
    with mp.workdps(50):
        for x in (1e-12, 1e-3, 0.3, 0.77):
            s = x / method.epsilon
            exact = plain_loop(method, s, 300, mp.mpf)
            for k in (1, 2, 30, 300):
                assert abs(float(method.gain(s, k)) - exact[k]) <= 1e-12 * exact[k]
                assert abs(float(method.shrinkage(s, k)) - (1 - s * exact[k])) < 1e-12


def test_many_pairs_long_runs_and_bounded_memory(monkeypatch):
    rng = np.random.default_rng(0)
    x, k = rng.uniform(size=3000), rng.permutation(3000)
    found = Nesterov(1.0).shrinkage(x, k)
    for i in (0, 1023, 1024, 2999):
        assert found[i] == Nesterov(1.0).shrinkage(x[i], k[i])
    s = np.linspace(0, 1, 300)
    tracemalloc.start()  # every allocation is traced, which takes most of the time
    Nesterov(1.0).gain(s[:, None], [1, 4000, 8000])
    heavy = {"eigenvalues": s, "signal": 1, "noise": 1, "n_samples": 9}
    curve = st.bayes_risk(HeavyBall(1.0, 0.9), [10, 8000], **heavy)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    assert curve.bias[1] == pytest.approx(1 / 300)
    assert float(GradientDescent(1.0).gain(1e-9, 1e12)) == pytest.approx(1e9)
    with pytest.raises(ValueError, match="beyond the limit of 10000000"):
        Nesterov(1.0).gain(s, 1e150)
    monkeypatch.setattr(recurrence, "MOST_ITERATIONS", 50)
    assert Nesterov(1.0).shrinkage(0.0, 50) == 1
    with pytest.raises(ValueError, match="51 iterations is beyond the limit of 50"):
        Nesterov(1.0).shrinkage(0.0, 51)


def test_a_step_may_be_too_long_for_a_while_but_not_for_long():
    short = GradientDescent(Listed((*[2.4] * 5, 0.5)))
    assert short.tuned_to([0.1, 1.0]) == short
    assert np.abs(short.shrinkage(1.0, 5)) == pytest.approx(1.4**5)
    with pytest.raises(ValueError, match=r"grows too far.*times its signal.*below 2"):
        GradientDescent(Listed((*[2.4] * 50, 0.5))).tuned_to([0.1, 1.0])
    with pytest.raises(ValueError, match=r"diverges.*below 2"):
        GradientDescent(Listed((0.5, 2.4))).tuned_to([0.1, 1.0])


def test_auto_is_made_concrete():
    s = [0.25, 1.0, 4.0]
    assert GradientDescent().tuned_to(s) == GradientDescent(0.25)
    assert GradientDescent().tuned_to([0.0]) == GradientDescent(1.0)
    assert Nesterov(friction=5).tuned_to(s) == Nesterov(0.25, 5.0)
    assert HeavyBall().tuned_to(s) == HeavyBall(0.25, (1 - 0.25) ** 2)
    assert st.SGD(momentum="auto").tuned_to(s).momentum == HeavyBall().tuned_to(s).momentum
    assert tuned_without_rows(NuMethod(), s, 1.25) == NuMethod(0.2)
    assert tuned_without_rows(GradientDescent(), s, 1.99) == GradientDescent(0.25)
    # at 2/L it only oscillates
    assert tuned_without_rows(GradientDescent(), s, 2.0) == GradientDescent(0.125)
    decayed = tuned_without_rows(st.Averaged(st.Decayed(NuMethod(), 1.0)), s, 1.25)
    assert decayed.step == pytest.approx(1 / 6)
    for method in (Nesterov(), HeavyBall(0.1), st.SGD(0.1, "auto")):
        with pytest.raises(ValueError, match="tuned_to"):
            method.gain(1.0, 1)


@pytest.mark.parametrize("step", [0.1, 0.6, 0.9])
def test_automatic_momentum_converges_fastest(step):
    s = np.linspace(0.05, 4, 60)
    best = HeavyBall(step).tuned_to(s)
    rate = lambda method: np.abs(method.shrinkage(s, 400)).max()  # noqa: E731
    for momentum in (best.momentum - 0.02, best.momentum + 0.02):
        if 0 <= momentum < 1 and step * 4 < 2 * (1 + momentum):
            assert rate(best) < rate(HeavyBall(step, momentum))


@pytest.mark.parametrize(
    "make",
    [
        GradientDescent,
        lambda pace: Nesterov(pace**2),
        lambda pace: Nesterov(pace**2, 5.0),
        lambda pace: HeavyBall(pace**2, 1 - 0.8 * pace),
        lambda pace: Nesterov(pace**2, momentum=1 - 0.6 * pace),
        lambda pace: NuMethod((pace / 2) ** 2, 2.5),
    ],
)
def test_halving_the_pace_halves_the_gap_to_the_flow(make):
    s, gaps = np.linspace(0, 2, 50), []
    for pace in (0.02, 0.01, 0.005):
        method = make(pace)
        flow = method.as_flow()
        assert method.pace == pytest.approx(pace)
        gaps.append(np.abs(method.shrinkage(s, round(4 / pace)) - flow.shrinkage(s, 4.0)).max())
    np.testing.assert_allclose(np.divide(gaps[1:], gaps[:-1]), 0.5, rtol=0.08)


def test_high_resolution_flows_follow_their_iterations_to_second_order():
    """Halving √ε divides the distance from the iterates by four, and that of the flow by two."""
    s = np.linspace(0.01, 1, 150)[:, None]
    fine, coarse = [], []
    for root in (0.1, 0.05, 0.025):
        k = np.arange(1, round(8 / root) + 1)
        flow = st.HighResolutionAcceleratedFlow(root**2, 5.0)
        iterates = Nesterov(root**2, 5.0).shrinkage(s, k)
        t = root * (k + (5.0 - 2) / 2)
        fine.append(np.abs(iterates - flow.shrinkage(s, t)).max())
        coarse.append(np.abs(iterates - st.AcceleratedFlow(5.0).shrinkage(s, t)).max())
    np.testing.assert_allclose(np.divide(fine[:-1], fine[1:]), 4, rtol=0.1)
    np.testing.assert_allclose(np.divide(coarse[:-1], coarse[1:]), 2, rtol=0.1)
    convex = st.HighResolutionFlow(0.2, 0.05)
    method = Nesterov(0.2, momentum=(1 - 0.1) / (1 + 0.1))  # √(με) = 0.1
    s, eta, t = np.linspace(0.05, 1, 60)[:, None], method.momentum, np.arange(1, 60) * method.pace
    table = method.shrinkage(s, np.arange(60))
    exact = (1 + eta) * table[:, 1:] - eta * table[:, :-1]
    gap = np.abs(convex.shrinkage(s, t) - exact).max()
    assert gap < 0.2 * np.abs(method.as_flow().shrinkage(s, t) - exact).max()


@pytest.mark.parametrize("penalty", [1e-12, 1e-3, 5.0, 1e6])
def test_optimal_iteration_is_the_chebyshev_polynomial_to_fifty_digits(penalty):
    method = OptimalIteration(0.5, penalty=penalty)
    for s in (0.0, 1e-12, 1e-4, 0.7, 2.0):
        for k in (1, 2, 60, 400):
            with mp.workdps(50):
                half = mp.asin(mp.sqrt(mp.mpf(s) / 2))  # cos of twice this angle is 1 - 2s/L
                inner = mp.re(mp.sin((2 * k + 1) * half) / mp.sin(half)) if s else 2 * k + 1
                outer = mp.asinh(mp.sqrt(mp.mpf(penalty) / 2))
                residual = inner * mp.sinh(outer) / mp.sinh((2 * k + 1) * outer)
                gain = (1 - residual) / (mp.mpf(s) + mp.mpf(penalty))
            assert abs(float(method.shrinkage(s, k)) - (1 - mp.mpf(s) * gain)) < 1e-13
            assert float(method.gain(s, k)) == pytest.approx(float(gain), rel=2e-13)


def test_optimal_iteration_ends_at_ridge_and_begins_like_the_nu_method():
    X, y = make_data(40, 6)
    drawn = st.path(X, y, OptimalIteration(penalty=0.03), [0, 1, 2000, np.inf])
    ridge = Ridge(alpha=40 * 0.03).fit(X, y)
    np.testing.assert_array_equal(drawn.coef[0], 0)
    np.testing.assert_allclose(drawn.coef[2:], [ridge.coef_] * 2, rtol=1e-11)
    s, k = np.linspace(0, 1, 50)[:, None], np.arange(40)
    small = OptimalIteration(1.0, penalty=1e-15).shrinkage(s, k)
    np.testing.assert_allclose(small, NuMethod(1.0, 0.5).shrinkage(s, k), atol=1e-11)
    method = OptimalIteration(1.0, penalty=0.01)
    assert np.abs(method.gain(s, method.horizon) * (s + 0.01) - 1).max() < 1e-14
    assert np.abs(method.gain(s, method.horizon // 2) * (s + 0.01) - 1).max() > 1e-9
    model = clone(st.StoppedRegressorCV(OptimalIteration(penalty=0.02))).fit(X, y)
    assert model.method_.penalty == 0.02
    assert model.stop_ <= model.method_.horizon
    for penalty in (0, -1.0, np.nan, "auto", None, True):
        with pytest.raises(ValueError, match="penalty must be a positive number"):
            OptimalIteration(penalty=penalty)
    with pytest.raises(TypeError, match="needs parameters"):
        st.get_method(OptimalIteration)
    with pytest.raises(ValueError, match="step must be a positive number"):
        OptimalIteration(STEPS, penalty=0.1)


@pytest.mark.parametrize("method", [OptimalIteration(penalty=0.002), st.Decayed(Nesterov(), 0.002)])
def test_a_krylov_space_serves_all_stops_and_not_only_the_last(method):
    # the first stops depend more on the estimated largest eigenvalue than the last ones
    rng = np.random.default_rng(0)
    X = random_array((3000, 2000), density=0.01, rng=1, format="csr")
    y = X @ rng.standard_normal(2000) + rng.standard_normal(3000)
    drawn = st.path(X, y, method, [5, 20, np.inf])
    ridge = Ridge(alpha=3000 * 0.002, tol=1e-10).fit(X, y)
    assert np.linalg.norm(drawn.coef[-1] - ridge.coef_) < 1e-5 * np.linalg.norm(ridge.coef_)


def test_a_constant_schedule_is_a_constant_step_and_a_run_ends_with_its_schedule():
    s, k = np.linspace(0, 1, 30)[:, None], np.arange(100)
    for fixed in (GradientDescent(0.9), HeavyBall(0.9, 0.8), Nesterov(0.9), NuMethod(0.9)):
        varying = fixed.with_params(step=Constant(0.9))
        np.testing.assert_allclose(varying.gain(s, k), fixed.gain(s, k), rtol=1e-12)
        assert not varying.universal_guarantee
        assert not varying.follows_flow
    before, now = (Nesterov(1.0, momentum=0.9).gain(s, k) for k in (49, 50))
    found = st.SGD(1.0, 0.9, nesterov=True).gain(s, 50)
    np.testing.assert_allclose(found, now + 0.9 * (now - before), rtol=1e-12)
    method = HeavyBall(Cosine(0.5, 50), 0.9)
    for stop in (51, 1e12, np.inf):
        np.testing.assert_array_equal(method.gain(s, stop), method.gain(s, 50))
        np.testing.assert_array_equal(method.shrinkage(s, stop), method.shrinkage(s, 50))
    assert method.horizon == method.ends_at == 50
    assert not method.reaches_least_squares
    lasting = HeavyBall(Cosine(0.5, 50, end=0.1), 0.9)
    assert lasting.reaches_least_squares
    assert lasting.horizon > 50


@each_auto
def test_path_gcv_is_exact_where_all_rows_are_alike(method):
    X = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 3, float)
    y = np.random.default_rng(1).normal(size=12)
    stops = [0, 1, 2, 5, 30, np.inf]
    expected = st.leave_one_out(X, y, method, stops).errors
    np.testing.assert_allclose(st.path_gcv(st.decompose(X, y), method, stops), expected, rtol=1e-9)


def test_leave_one_out_refuses_steps_that_diverge_without_a_row():
    X, y = make_data(12, 4)
    step = 1.95 / st.decompose(X, y).eigenvalues[-1]
    with pytest.raises(ValueError, match="diverges"):
        st.leave_one_out(X, y, st.GradientDescent(step), [3])
