"""Equivalent stops: the constants of the theory, and the optimality that defines them."""

import numpy as np
import pytest

import stoptime as st
from iteration_cases import each_auto
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.theory.calibration import calibrate_to
from stoptime.theory.search import distance_ratio, out_of_phase, risk_ratio

# inflation and stop of the optimally tuned flow against the best ridge, by friction
FRICTIONS = [
    (2, 2.0577, 1.898),
    (4, 1.3744, 1.623),
    (5, 1.2581, 1.819),
    (9, 1.1392, 2.705),
    (21, 1.0965, 4.313),
]
BAD = "best"


def worst_over(kind, s, gain, penalty):
    """The largest ratio to ridge with this penalty, from gains at eigenvalues."""
    distance = (gain * (penalty + s) - 1) ** 2
    return np.max(s / penalty * distance if kind == "risk" else distance, axis=0)


def test_constants_of_the_paper():
    flow = st.calibrate(st.GradientFlow())
    assert flow.stop == pytest.approx(0.45710966, abs=1e-7)
    assert flow.inflation == pytest.approx(1.07858282746, abs=1e-8)
    printed = st.calibrate(st.GradientFlow(), "paper")
    assert printed.inflation == pytest.approx(1.21466, abs=2e-6)
    assert printed.parameter_error == pytest.approx(0.0891, abs=1e-4)
    accelerated = st.calibrate(st.AcceleratedFlow())
    assert accelerated.stop == pytest.approx(1.75534509, abs=1e-6)
    assert accelerated.inflation == pytest.approx(1.59910940073, abs=1e-9)
    printed = st.calibrate(st.AcceleratedFlow(), "paper")
    assert printed.parameter_error == pytest.approx(49 / 64, abs=1e-12)
    closest = st.calibrate(st.AcceleratedFlow(), "parameter")
    assert closest.parameter_error == pytest.approx(0.14061, abs=5e-6)
    assert closest.stop**2 == pytest.approx(5.0002, abs=1e-4)
    assert st.calibrate(st.Ridge()).inflation == 1


@pytest.mark.parametrize(("friction", "inflation", "stop"), FRICTIONS)
def test_friction_trades_speed_for_safety(friction, inflation, stop):
    best = st.calibrate(st.AcceleratedFlow(friction))
    assert best.inflation == pytest.approx(inflation, abs=5.1e-5)
    assert best.stop == pytest.approx(stop, abs=6e-4)


@pytest.mark.parametrize(
    "method",
    [st.GradientFlow(), st.AcceleratedFlow(6.5), st.CriticalFlow(), st.IteratedRidge(3)],
    ids=str,
)
@pytest.mark.parametrize(("kind", "ratio"), [("risk", risk_ratio), ("parameter", distance_ratio)])
def test_calibrated_stop_is_the_minimax_of_a_brute_force_search(method, kind, ratio):
    best = st.calibrate(method, kind)
    x = np.concatenate([[0], np.geomspace(1e-6, 1e4, 60_000)])
    worst = [ratio(method, x, best.stop * c).max() for c in (0.98, 0.995, 1, 1.005, 1.02)]
    reached = best.inflation if kind == "risk" else best.parameter_error
    assert worst[2] == pytest.approx(reached, rel=1e-5)
    assert worst[2] <= reached * (1 + 1e-9)
    assert min(worst) == worst[2]


@pytest.mark.parametrize("name", ["ridge", "gradient-flow", "nesterov-flow"])
@pytest.mark.parametrize("kind", ["risk", "parameter", "paper"])
def test_penalty_and_stop_are_inverse(name, kind):
    for penalty in (1e-8, 0.3, 1e5):
        stop = st.equivalent_stop(name, penalty, calibration=kind)
        back = st.equivalent_penalty(name, stop, calibration=kind)
        assert back == pytest.approx(penalty, rel=1e-12)
    assert (st.equivalent_stop(name, 0), st.equivalent_stop(name, np.inf)) == (np.inf, 0)
    assert (st.equivalent_penalty(name, 0), st.equivalent_penalty(name, np.inf)) == (np.inf, 0)


def test_heavy_ball_needs_the_spectrum():
    s = 1 / np.arange(1, 21)
    for method in ("heavy-ball-flow", st.AcceleratedFlow(1.5)):
        with pytest.raises(ValueError, match="give the eigenvalues"):
            st.equivalent_stop(method, 0.1)
        assert st.equivalent_stop(method, 0.1, eigenvalues=s) > 0
    stop = st.equivalent_stop("heavy-ball-flow", 0.1, eigenvalues=s)
    flow = st.HeavyBallFlow().tuned_to(s).in_units_of(0.1)
    x = np.geomspace(s.min(), s.max(), 20_000) / 0.1
    worst = [risk_ratio(flow, x, stop * np.sqrt(0.1) * c).max() for c in (0.97, 0.999, 1, 1.03)]
    assert min(worst) == worst[2]
    assert st.equivalent_stop(st.HeavyBallFlow(0.1), 0.25, calibration="paper") == 2
    # without a bound for every spectrum the inflation is infinite
    assert st.calibrate(st.AcceleratedFlow(1.0), "paper").inflation == np.inf


def test_one_eigenvalue_is_matched_exactly():
    stop = st.equivalent_stop("heavy-ball-flow", 2.0, eigenvalues=[2.0, 2.0])
    assert st.HeavyBallFlow(np.sqrt(2)).shrinkage(2.0, stop) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.equivalent_stop("ridge", -1), "penalty must be"),
        (lambda: st.equivalent_penalty("ridge", np.nan), "stop must be"),
        (lambda: st.calibrate("ridge", low=2.0, high=1.0), "low and high must satisfy"),
        (lambda: st.calibrate("gradient-flow", BAD), r'calibration must be "risk".*\'best\''),
        (lambda: st.equivalent_stop(Nesterov(0.5), 5.0, calibration=BAD), "calibration must be"),
        (lambda: st.equivalent_penalty("ridge", 5.0, calibration=BAD), "calibration must be"),
        (lambda: st.guarantee(Nesterov(0.5), 2.5), r"whole numbers; got 2\.5"),
        (lambda: st.equivalent_stop("nesterov", 0.1), "tuned_to"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_penalty_of_a_fit_that_is_nearly_least_squares_is_small():
    """The guarantee improves as the penalty falls, so that its curve has no dip."""
    a = np.arange(1.0, 31)
    X = np.column_stack([a, a**2])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    eigenvalues = np.linalg.eigvalsh(X.T @ X / 30)
    found = st.equivalent_penalty("heavy-ball", 3000.0, eigenvalues=eigenvalues)
    assert 0 < found < 1e-3 * eigenvalues[0]


@pytest.mark.parametrize(
    ("method", "stop"),
    [
        (st.HeavyBallFlow(0.3), 9.7),
        (st.HighResolutionFlow(0.5, 0.01), 6.0),
        (st.AcceleratedFlow(1.5), 8.0),
        (Nesterov(0.5), 40),
        (HeavyBall(0.5, 0.8), 12),
        (NuMethod(0.5), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["risk", "parameter"])
def test_a_stop_is_matched_to_the_penalty_of_a_brute_force_search(method, stop, kind):
    s = np.geomspace(0.01, 2.0, 5)
    found = st.equivalent_penalty(method, stop, calibration=kind, eigenvalues=s)
    low = 0.0 if method.universal_guarantee else 0.01
    dense = np.linspace(np.sqrt(low), np.sqrt(2.0), 20_001)[:, None] ** 2
    penalties = np.append(found, found * np.geomspace(0.1, 10, 500))
    worst = worst_over(kind, dense, method.gain(dense, stop), penalties)
    assert worst[0] <= worst.min() * (1 + 1e-5)


@each_auto
@pytest.mark.parametrize("penalty", [0.2, 0.01])
@pytest.mark.parametrize("kind", ["risk", "parameter"])
def test_equivalent_iteration_has_the_best_guarantee(method, penalty, kind):
    s = np.linspace(0.004, 1, 4000)
    if method.universal_guarantee:
        # these are calibrated for all smaller eigenvalues too
        s = np.append(np.geomspace(1e-9, 0.004, 500), s)
    stop = st.equivalent_stop(method, penalty, calibration=kind, eigenvalues=s)
    gain = method.tuned_to(s).gain(s[:, None], np.arange(300))
    worst = worst_over(kind, s[:, None], gain, penalty)
    assert stop == round(stop)
    assert worst[int(stop)] <= worst.min() * 1.002 + 1e-9


@pytest.mark.parametrize("method", [GradientDescent(), Nesterov(friction=5), NuMethod()], ids=str)
def test_equivalent_penalty_undoes_equivalent_iteration(method):
    s = np.geomspace(1e-3, 1, 200)
    for penalty in (0.01, 0.0004):
        stop = st.equivalent_stop(method, penalty, eigenvalues=s)
        back = st.equivalent_penalty(method, stop, eigenvalues=s)
        assert back == pytest.approx(penalty, rel=0.25)


def test_many_iterations_are_calibrated_like_their_flow():
    for method, flow in ((GradientDescent(1.0), "gradient-flow"), (Nesterov(1.0), "nesterov-flow")):
        penalty = 1e-5 if method.time_power == 1 else 1e-8
        stop = st.equivalent_stop(method, penalty)
        assert stop == round(st.equivalent_stop(flow, penalty))
        assert st.equivalent_penalty(method, stop) == pytest.approx(penalty, rel=1e-4)
    near, far = (st.equivalent_stop(GradientDescent(1.0), p) for p in (1 / 4900, 1 / 5100))
    assert near * 4900**-1 == pytest.approx(far / 5100, rel=1e-3)
    assert st.equivalent_stop(GradientDescent(0.5), 0.01, calibration="paper") == 200
    assert st.equivalent_penalty(Nesterov(0.25), 10, calibration="paper") == pytest.approx(1 / 25)


@pytest.mark.parametrize(
    ("method", "eigenvalues", "penalty"),
    [
        (GradientDescent(step=1.0), None, 5e-5),
        (NuMethod(step=1.0, nu=0.5), None, 3e-8),
        (HeavyBall(), [1e-6, 1.0], 1e-6),
        (HeavyBall(step=1.0, momentum=0.9), None, 1e-5),
        (Nesterov(step=1.0), None, 7e-9),
    ],
    ids=repr,
)
def test_the_numbers_of_a_late_iteration_are_those_of_its_loop(method, eigenvalues, penalty):
    found = calibrate_to(method, penalty, eigenvalues=eigenvalues)
    tuned = method if eigenvalues is None else method.tuned_to(eigenvalues)
    low = 0.0 if eigenvalues is None else eigenvalues[0] / penalty
    scaled = tuned.in_units_of(penalty)
    phases = np.linspace(np.sqrt(low), penalty**-0.5, 4000)
    x = np.union1d(np.geomspace(max(low, 1e-4), 1 / penalty, 2000), phases**2)
    exact = [ratio(scaled, x, found.stop).max() for ratio in (risk_ratio, distance_ratio)]
    assert found.stop > 4000
    shares = np.array([found.inflation, found.parameter_error]) / exact
    # beyond the horizon, where they are those of the flow, the last one is an estimate
    least = 1 - 1e-9 if found.stop <= tuned.horizon else 1 - 1e-3
    assert np.all((least <= shares) & (shares <= 1.003))
    if not tuned.universal_guarantee:
        # the estimates that take the place of a loop beyond the horizon
        risk, distance = out_of_phase(scaled, found.stop, low, 1 / penalty)
        assert found.inflation <= max(risk, 1.001 * found.inflation) <= 1.2 * found.inflation
        assert distance <= 4 * found.parameter_error
