"""Schedules: their values, and iterations that follow them against plain loops and 50 digits."""

import copy
import json
import pickle

import mpmath as mp
import numpy as np
import pytest
from sklearn.base import clone

import stoptime as st
from iteration_cases import make_data
from stoptime import schedules
from stoptime.methods.iterations import SGD, GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.registry import as_content, from_content
from stoptime.methods.schedules import (
    Computed,
    Constant,
    Cosine,
    Linear,
    Listed,
    OneCycle,
    Polynomial,
    StepDecay,
)

EVERY = [
    Constant(0.3),
    Constant(0.3, warmup=20),
    StepDecay(0.3, every=30, factor=0.5),
    StepDecay(0.3, every=30, warmup=5),
    Linear(0.3, 200),
    Linear(0.05, 100, end=0.3, warmup=9),
    Polynomial(0.3, 150, power=3.0, end=0.01),
    Cosine(0.3, 200, warmup=20),
    Cosine(0.3, 200, end=0.02),
    OneCycle(0.3, 200),
    OneCycle(0.85, 200, rise=0.5, start=0.95, end=0.95),
    Listed((0.0, 0.2, 0.1, 0.3)),
]
each_schedule = pytest.mark.parametrize("schedule", EVERY, ids=repr)
STEPS = Cosine(0.3, 400, warmup=10)
MOMENTA = OneCycle(0.85, 400, start=0.95, end=0.95)
SCHEDULED = [
    GradientDescent(STEPS),
    HeavyBall(STEPS, 0.9),
    HeavyBall(0.2, MOMENTA),
    HeavyBall(OneCycle(0.3, 400), MOMENTA),
    HeavyBall(Listed((0.0, 0.3, 0.0, 0.0, 0.2)), 0.9),
    Nesterov(STEPS),
    Nesterov(STEPS, momentum=MOMENTA),
    NuMethod(Linear(0.3, 100, end=0.1)),
    SGD(STEPS, MOMENTA, nesterov=True),
    SGD(0.3, 0.9, nesterov=True),
    SGD(STEPS, 0.8, dampening=0.3),
    SGD(0.3, 0.8, dampening=0.3),
    GradientDescent(lambda k: 0.3 / np.sqrt(k)),
]
each_method = pytest.mark.parametrize("method", SCHEDULED, ids=lambda one: repr(one)[:60])


@each_schedule
def test_a_schedule_is_a_value_object(schedule):
    assert copy.deepcopy(schedule) == schedule == pickle.loads(pickle.dumps(schedule))
    assert hash(schedule) == hash(copy.copy(schedule))
    assert schedule != Constant(0.7)
    assert type(schedule).__name__ in repr(schedule)
    assert from_content(json.loads(json.dumps(as_content(schedule)))) == schedule


@each_schedule
def test_a_schedule_keeps_its_last_value_and_knows_its_range(schedule):
    values = [schedule(k) for k in range(1, schedule.total + 3)]
    assert schedule(10**9) == values[-1]
    assert schedule.largest == max(values)
    assert schedule.mean == pytest.approx(np.mean(values[:-1]), rel=1e-12)
    tripled = schedule * 3.0
    assert (tripled.total, tripled.length) == (schedule.total, schedule.length)
    np.testing.assert_allclose(tripled.values, 3 * np.array(schedule.values), rtol=1e-13)


def test_warm_up_rises_to_the_peak():
    for schedule in (Cosine(0.6, 99, warmup=5), StepDecay(0.6, 7, warmup=5), Linear(0.6, 9, 0, 5)):
        risen = [schedule(k) for k in range(1, 7)]
        np.testing.assert_allclose(risen, 0.6 * np.arange(1, 7) / 6, rtol=1e-15)


def test_formulas_of_torch():
    """The closed forms in the documentation of torch, with j = k - 1."""
    j = np.arange(100)
    pi = np.pi
    cosine = 0.01 + (0.3 - 0.01) * (1 + np.cos(pi * j / 100)) / 2
    expected = {
        Cosine(0.3, 100, end=0.01): cosine,
        StepDecay(0.3, 30, 0.5): 0.3 * 0.5 ** (j // 30),
        Linear(0.1, 40, end=0.3): 0.3 * (1 / 3 + (1 - 1 / 3) * np.minimum(j, 40) / 40),
        Polynomial(0.3, 100, power=2.0): 0.3 * (1 - j / 100) ** 2,
    }
    for schedule, values in expected.items():
        found = [schedule(k) for k in range(1, 101)]
        np.testing.assert_allclose(found, values, rtol=1e-13, atol=1e-17)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cosine(0.0, 10), "peak must be a positive number"),
        (lambda: Cosine(0.1, 0), "total must be a whole number of at least 1"),
        (lambda: Cosine(0.1, 10, warmup=10), "warmup must be less than total"),
        (lambda: Cosine(0.1, 10, end=-1.0), "values of a schedule must be finite non-negative"),
        (lambda: StepDecay(0.1, 0), "every must be a whole number"),
        (lambda: StepDecay(0.1, 5, factor=1.5), "factor must be a number between 0 and 1"),
        (lambda: Polynomial(0.1, 5, power=-1.0), "power must be a positive number"),
        (lambda: OneCycle(0.1, 10, rise=0.05), "must exceed one iteration"),
        (lambda: Listed((0.0, 0.0)), "zero at every iteration"),
        (lambda: Listed(()), "A schedule needs a list of values"),
        (lambda: GradientDescent(lambda _: np.nan), "finite non-negative numbers; got nan"),
        (lambda: HeavyBall(0.1, Constant(1.0)), "momentum must be at least 0 and below 1"),
        (lambda: SGD(0.1, 0.0, nesterov=True), "needs a momentum above zero"),
        (lambda: SGD(0.1, 0.9, dampening=0.5, nesterov=True), "no dampening"),
    ],
)
def test_bad_schedules_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def plain_loop(method, s, steps, number=float):
    """Run the printed recursion on one direction with unit response; return β_0, β_1, ..."""
    s = number(s)
    at = lambda value, k: number(value(k) if callable(value) else value)  # noqa: E731
    b = v = number(0)
    found = [b]
    for k in range(1, steps + 1):
        step = at(method.step, k)
        match method:
            case SGD():
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
                eta = number(max(k - 2, 0)) / (k + number(method.friction) - 2)
                eta = eta if method.momentum is None else at(method.momentum, k)
                v = eta * v + 1 - s * (b + step * eta * v)
                b = b + step * v
            case NuMethod():
                momentum, _, weight = map(number, method.coefficients(k))
                v = momentum * v + weight * (1 - s * b)
                b = b + step * v
        found.append(b)
    return found


@each_method
def test_the_filter_is_the_printed_recursion(method):
    k = np.arange(301)
    for s in (0.0, 1e-9, 0.05, 1.0, 2.5):
        b = np.array(plain_loop(method, s, 300))
        np.testing.assert_allclose(method.gain(s, k), b, rtol=1e-11, atol=0)
        np.testing.assert_allclose(method.shrinkage(s, k), 1 - s * b, atol=1e-12)


@each_method
def test_gains_against_fifty_digits(method):
    mp.mp.dps = 50
    for s in (1e-12, 1e-5, 0.02, 0.7, 2.5):
        exact = plain_loop(method, s, 300, mp.mpf)
        for k in (1, 2, 30, 300):
            assert abs(float(method.gain(s, k)) - exact[k]) <= 1e-12 * exact[k]
            assert abs(float(method.shrinkage(s, k)) - (1 - s * exact[k])) < 1e-12


@pytest.mark.parametrize("cls", [GradientDescent, HeavyBall, Nesterov, NuMethod])
def test_a_constant_schedule_is_a_constant_step(cls):
    options = {"momentum": 0.8} if cls is HeavyBall else {}
    s, k = np.linspace(0, 1, 30)[:, None], np.arange(200)
    fixed, varying = cls(0.9, **options), cls(Constant(0.9), **options)
    np.testing.assert_allclose(varying.gain(s, k), fixed.gain(s, k), rtol=1e-12)
    np.testing.assert_allclose(varying.shrinkage(s, k), fixed.shrinkage(s, k), atol=1e-12)
    assert not varying.universal_guarantee
    assert not varying.follows_flow


def test_extrapolated_points_of_nesterov_are_those_of_torch():
    s, eta = np.linspace(0, 1, 30), 0.9
    before, now = (Nesterov(1.0, momentum=eta).gain(s, k) for k in (49, 50))
    found = SGD(1.0, eta, nesterov=True).gain(s, 50)
    np.testing.assert_allclose(found, now + eta * (now - before), rtol=1e-12)


def test_a_path_stays_where_its_schedule_ends():
    method = HeavyBall(Cosine(0.5, 50), 0.9)
    s = np.linspace(0, 1, 9)
    for stop in (51, 1e6, 1e12, np.inf):
        np.testing.assert_array_equal(method.gain(s, stop), method.gain(s, 50))
        np.testing.assert_array_equal(method.shrinkage(s, stop), method.shrinkage(s, 50))
    assert method.horizon == method.ends_at == 50
    assert not method.reaches_least_squares
    lasting = HeavyBall(Cosine(0.5, 50, end=0.1), 0.9)
    assert lasting.reaches_least_squares
    assert lasting.horizon > 50
    np.testing.assert_array_equal(lasting.gain([0.5], np.inf), [2.0])


def test_a_step_may_be_too_long_for_a_while_but_not_for_long():
    short = GradientDescent(Listed((*[2.4] * 5, 0.5)))
    assert short.tuned_to([0.1, 1.0]) == short
    assert np.abs(short.shrinkage(1.0, 5)) == pytest.approx(1.4**5)
    with pytest.raises(ValueError, match=r"grows too far.*times its signal.*below 2"):
        GradientDescent(Listed((*[2.4] * 50, 0.5))).tuned_to([0.1, 1.0])
    with pytest.raises(ValueError, match=r"diverges.*below 2"):
        GradientDescent(Listed((0.5, 2.4))).tuned_to([0.1, 1.0])
    with pytest.raises(ValueError, match="grows too far"):
        st.path(*make_data(30, 4), HeavyBall(Cosine(50.0, 100), 0.9), [3])


def test_everything_works_with_a_schedule():
    X, y = make_data(60, 5)
    method = Nesterov(Cosine(0.4, 80, warmup=5))
    model = clone(st.StoppedRegressorCV(method)).fit(X, y)
    assert model.method_ == method
    assert 0 < model.stop_ <= 80
    assert st.StoppedRegressorCV(method, cv=5).fit(X, y).stop_ <= 80
    fixed = clone(st.StoppedRegressor(method, stop=7)).fit(X, y)
    np.testing.assert_allclose(fixed.coef_, st.path(X, y, method, 7).coef[0], rtol=1e-12)
    known = {"eigenvalues": [0.1, 1.0], "signal": 1.0, "noise": 1.0, "n_samples": 40}
    assert 1 <= st.inflation(method, **known).ratio < 2
    planned = st.plan(X=X, y=y, method=method)
    assert 0 < planned.iterations <= 80
    assert "lr Cosine up to 0.4" in str(planned)
    spectrum = st.decompose(X, y)
    s, penalty = spectrum.eigenvalues, planned.penalty
    expected = planned.run.expected_inflation
    g, gain = method.shrinkage(s, planned.iterations), method.gain(s, planned.iterations)
    assert expected == pytest.approx(
        np.sum(g**2 / penalty + s * gain**2) / np.sum(1 / (s + penalty)), rel=1e-9
    )


def test_simulated_risk_of_a_scheduled_run():
    rng = np.random.default_rng(0)
    X, _ = make_data(40, 4)
    beta, method, k = np.array([1.0, -1.0, 0.5, 0.0]), HeavyBall(STEPS, 0.8), 25
    values, vectors = np.linalg.eigh(X.T @ X / 40)
    told = st.risk(
        method.in_units_of(0.2), [k], eigenvalues=values, signal=vectors.T @ beta, noise=0.25,
        n_samples=40,
    )  # fmt: skip
    runs = []
    for _ in range(400):
        y = X @ beta + 0.5 * rng.standard_normal(40)
        b = v = np.zeros(4)
        for j in range(1, k + 1):
            v = 0.8 * v + X.T @ (y - X @ b) / 40
            b = b + 0.2 * STEPS(j) * v
        runs.append(np.sum((b - beta) ** 2))
    error = np.std(runs) / np.sqrt(len(runs))
    assert abs(np.mean(runs) - told.total[0]) < 4 * error


def test_models_are_saved_with_their_schedules(tmp_path):
    X, y = make_data(30, 3)
    method = st.Decayed(SGD(Cosine(0.4, 80, warmup=5), 0.9, nesterov=True), 0.01)
    model = st.StoppedRegressor(method, stop=9).fit(X, y)
    st.save(model, tmp_path / "model.json")
    assert st.load(tmp_path / "model.json").method == method
    averaged = st.Averaged(GradientDescent(Listed((0.3, 0.1))), "tail")
    st.save(st.StoppedRegressor(averaged, stop=9).fit(X, y), tmp_path / "model.json")
    assert st.load(tmp_path / "model.json").method == averaged
    model = st.StoppedRegressor(GradientDescent(lambda k: 0.1 / k), stop=9).fit(X, y)
    with pytest.raises(ValueError, match=r"cannot be saved: it is a function. Take Listed"):
        st.save(model, tmp_path / "model.json")
    assert as_content(Listed(Computed(lambda k: 0.1 / k, 50).values))["schedule"] == "Listed"


class SGD_of_torch:  # noqa: N801 - the name is replaced below
    """What ``from_torch`` reads of an optimiser, without torch."""

    def __init__(self, **options):
        self.param_groups = [{"params": [], "lr": 0.4} | options]
        self.state = {}


SGD_of_torch.__name__ = "SGD"


class Halving:
    """What ``from_torch`` reads of a scheduler, without torch."""

    last_epoch = 0

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self):
        self.optimizer.param_groups[0]["lr"] /= 2


def test_an_optimiser_is_read_without_torch():
    optimizer = SGD_of_torch(momentum=0.9, weight_decay=0.1)
    found = st.from_torch(optimizer, Halving(optimizer), loss_scale=2.0, iterations=3)
    assert found == st.Decayed(HeavyBall(Listed((0.8, 0.4, 0.2)), 0.9), 0.05)
    assert optimizer.param_groups[0]["lr"] == 0.4
    optimizer = SGD_of_torch(momentum=0.9, nesterov=True)
    assert st.from_torch(optimizer) == SGD(0.4, 0.9, nesterov=True)
    other = type("Other", (), {"param_groups": [{}]})
    with pytest.raises(ValueError, match="Other has no counterpart here"):
        st.from_torch(other())


def test_the_schedules_are_public():
    assert st.schedules is schedules
    assert set(schedules.SCHEDULES) == {type(one).__name__ for one in EVERY}
