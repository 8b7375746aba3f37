"""Equivalent stops: the constants of the theory, and the optimality that defines them."""

import numpy as np
import pytest

import stoptime as st
from stoptime.theory import calibration
from stoptime.theory.calibration import calibrate_to, guarantee, matched
from stoptime.theory.search import distance_ratio, out_of_phase, risk_ratio

# friction: (inflation, stop) of the optimally tuned flow against the best ridge
FRICTIONS = {
    2: (2.0577, 1.898),
    3: (1.5991, 1.755),
    4: (1.3744, 1.623),
    5: (1.2581, 1.819),
    6: (1.2029, 2.083),
    7: (1.1719, 2.313),
    9: (1.1392, 2.705),
    21: (1.0965, 4.313),
}


def test_gradient_flow_constants():
    best = st.calibrate(st.GradientFlow())
    assert best.stop == pytest.approx(0.45710966, abs=1e-7)
    assert best.inflation == pytest.approx(1.07858282746, abs=1e-8)
    assert st.calibrate(st.GradientFlow(), "paper").inflation == pytest.approx(1.21466, abs=2e-6)
    assert st.calibrate(st.GradientFlow(), "paper").parameter_error == pytest.approx(
        0.0891, abs=1e-4
    )


def test_accelerated_flow_constants():
    best = st.calibrate(st.AcceleratedFlow())
    assert best.stop == pytest.approx(1.75534509, abs=1e-6)
    assert best.inflation == pytest.approx(1.59910940073, abs=1e-9)
    assert st.calibrate(st.AcceleratedFlow(), "paper").parameter_error == pytest.approx(
        49 / 64, abs=1e-12
    )
    closest = st.calibrate(st.AcceleratedFlow(), "parameter")
    assert closest.parameter_error == pytest.approx(0.14061, abs=5e-6)
    assert closest.stop**2 == pytest.approx(5.0002, abs=1e-4)


@pytest.mark.parametrize("friction", FRICTIONS)
def test_friction_trades_speed_for_safety(friction):
    inflation, stop = FRICTIONS[friction]
    best = st.calibrate(st.AcceleratedFlow(friction))
    assert best.inflation == pytest.approx(inflation, abs=5.1e-5)
    assert best.stop == pytest.approx(stop, abs=6e-4)


def test_large_friction_tends_to_gradient_flow():
    limit = st.calibrate(st.GradientFlow())
    near, nearer = (st.calibrate(st.AcceleratedFlow(friction)) for friction in (100, 200))
    # the distance is of order 1/friction, so that extrapolation leaves its square
    assert 2 * nearer.inflation - near.inflation == pytest.approx(limit.inflation, abs=1e-4)
    stops = near.stop**2 / (2 * 101), nearer.stop**2 / (2 * 201)
    assert 2 * stops[1] - stops[0] == pytest.approx(limit.stop, abs=3e-4)


@pytest.mark.parametrize(
    "method", [st.GradientFlow(), st.AcceleratedFlow(3), st.AcceleratedFlow(6.5)], ids=str
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
        assert st.equivalent_penalty(name, stop, calibration=kind) == pytest.approx(
            penalty, rel=1e-12
        )
    assert st.equivalent_stop(name, 0) == np.inf
    assert st.equivalent_stop(name, np.inf) == 0
    assert st.equivalent_penalty(name, 0) == np.inf
    assert st.equivalent_penalty(name, np.inf) == 0


def test_ridge_is_its_own_equivalent():
    assert st.equivalent_stop("ridge", 0.25) == 4
    assert st.calibrate(st.Ridge()).inflation == 1


def test_heavy_ball_needs_the_spectrum():
    s = 1 / np.arange(1, 21)
    with pytest.raises(ValueError, match="give the eigenvalues"):
        st.equivalent_stop("heavy-ball-flow", 0.1)
    with pytest.raises(ValueError, match="give the eigenvalues"):
        st.equivalent_stop(st.AcceleratedFlow(1.5), 0.1)
    stop = st.equivalent_stop("heavy-ball-flow", 0.1, eigenvalues=s)
    flow = st.HeavyBallFlow().tuned_to(s).in_units_of(0.1)
    x = np.geomspace(s.min(), s.max(), 20_000) / 0.1
    worst = [risk_ratio(flow, x, stop * np.sqrt(0.1) * c).max() for c in (0.97, 1, 1.03)]
    assert min(worst) == worst[1]
    back = st.equivalent_penalty("heavy-ball-flow", stop, eigenvalues=s)
    assert back == pytest.approx(
        0.1, rel=0.3
    )  # the best penalty for the stop, not its exact inverse
    assert st.equivalent_stop(st.HeavyBallFlow(0.1), 0.25, calibration="paper") == 2
    assert st.equivalent_stop(st.AcceleratedFlow(1.5), 0.1, eigenvalues=s) > 0


def test_without_a_universal_guarantee_the_inflation_is_infinite():
    assert st.calibrate(st.AcceleratedFlow(1.0), "paper").inflation == np.inf


def test_one_eigenvalue_is_matched_exactly():
    stop = st.equivalent_stop("heavy-ball-flow", 2.0, eigenvalues=[2.0, 2.0])
    assert st.HeavyBallFlow(np.sqrt(2)).shrinkage(2.0, stop) == pytest.approx(0.5, rel=1e-4)


def test_bad_arguments():
    with pytest.raises(ValueError, match="penalty must be"):
        st.equivalent_stop("ridge", -1)
    with pytest.raises(ValueError, match="stop must be"):
        st.equivalent_penalty("ridge", np.nan)
    with pytest.raises(ValueError, match='calibration must be "risk"'):
        st.calibrate(st.GradientFlow(), "best")


@pytest.mark.parametrize("method", [st.HeavyBall(0.5, 0.9), st.Nesterov(0.5), "nesterov-flow"])
def test_an_unknown_calibration_is_refused(method):
    for call in (st.equivalent_stop, st.equivalent_penalty):
        with pytest.raises(ValueError, match=r'calibration must be "risk".*got \'best\''):
            call(method, 5.0, calibration="best")


def test_the_penalty_of_a_fit_that_is_nearly_least_squares_is_small():
    """The guarantee improves as the penalty falls, so that its curve has no dip."""
    a = np.arange(1.0, 31)
    X = np.column_stack([a, a**2])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    eigenvalues = np.linalg.eigvalsh(X.T @ X / 30)
    found = st.equivalent_penalty("heavy-ball", 3000.0, eigenvalues=eigenvalues)
    assert 0 < found < 1e-3 * eigenvalues[0]


@pytest.mark.parametrize(
    "method", [st.Nesterov(0.5), st.HeavyBall(0.5, 0.9), st.GradientDescent(0.1)], ids=str
)
def test_a_guarantee_of_an_iteration_is_for_eigenvalues_up_to_one_over_its_step(method):
    found = st.guarantee(method, 8)
    assert found == st.guarantee(method, 8, 0.0, 1 / method.step)
    s = np.linspace(0, 1 / method.step, 10_001)
    assert found.inflation == pytest.approx(risk_ratio(method, s, 8).max(), rel=1e-4)
    with pytest.raises(ValueError, match=r"whole numbers; got 2\.5"):
        st.guarantee(method, 2.5)


@pytest.mark.parametrize(
    ("method", "stop"),
    [
        (st.HeavyBallFlow(0.3), 9.7),
        (st.HighResolutionFlow(0.5, 0.01), 6.0),
        (st.AcceleratedFlow(1.5), 8.0),
        (st.Nesterov(0.5), 40),
        (st.HeavyBall(0.5, 0.8), 12),
        (st.NuMethod(0.5), 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["risk", "parameter"])
def test_a_stop_is_matched_to_the_penalty_of_a_brute_force_search(method, stop, kind):
    s = np.geomspace(0.01, 2.0, 5)
    found = matched(method, stop, kind, s)
    low = 0.0 if method.universal_guarantee else 0.01
    dense = np.linspace(np.sqrt(low), np.sqrt(2.0), 20_001) ** 2
    g, gain = method.shrinkage(dense, stop), method.gain(dense, stop)
    penalties = np.append(found.penalty, found.penalty * np.geomspace(0.1, 10, 500))
    if kind == "risk":
        worst = [np.max(1 + dense * (g - one * gain) ** 2 / one) for one in penalties]
    else:
        worst = [np.max((gain * (one + dense) - 1) ** 2) for one in penalties]
    assert found.guarantee == pytest.approx(worst[0], rel=1e-5)
    assert worst[0] <= min(worst) * (1 + 1e-6)
    assert st.equivalent_penalty(method, stop, calibration=kind, eigenvalues=s) == found.penalty


def test_the_guarantee_of_a_stop_is_no_less_than_that_of_the_best_one():
    s = np.geomspace(0.01, 2.0, 5)
    for stop in (2.0, 5.0, 30.0):
        penalty, bound = matched(st.HeavyBallFlow(), stop, eigenvalues=s)
        assert bound >= calibrate_to(st.HeavyBallFlow(), penalty, eigenvalues=s).inflation - 1e-9
    assert matched(st.GradientFlow(), 3.0).guarantee == st.calibrate("gradient-flow").inflation


@pytest.mark.parametrize(
    "method",
    [st.GradientFlow(), st.CriticalFlow(), st.AcceleratedFlow(9), st.IteratedRidge(3)],
    ids=str,
)
@pytest.mark.parametrize("kind", ["risk", "parameter"])
def test_a_search_over_stops_finds_the_calibration_of_a_search_over_penalties(method, kind):
    found = st.calibrate(method, kind)
    stop = calibration._best_time(method, calibration._ratio(kind), 0.0, np.inf)
    other = calibration.guarantee(method, stop)
    assert found.inflation == pytest.approx(other.inflation, rel=1e-8 if kind == "risk" else 1e-4)
    assert found.stop == pytest.approx(other.stop, rel=1e-4)
    if kind == "parameter":
        assert found.parameter_error == pytest.approx(other.parameter_error, rel=1e-8)


def test_the_first_calibration_evaluates_few_filters(monkeypatch):
    evaluated = []
    gain = st.CriticalFlow._gain

    def counted(self, s, t):
        found = gain(self, s, t)
        evaluated.append(found.size)
        return found

    monkeypatch.setattr(st.CriticalFlow, "_gain", counted)
    calibration._calibrate.__wrapped__(st.CriticalFlow(), "risk", 0.0, np.inf)
    # three grids of phases and what lies around their peaks; a search over stops takes 60 000
    assert sum(evaluated) < 10_000


@pytest.mark.parametrize(
    ("method", "eigenvalues", "penalty"),
    [
        (st.GradientDescent(step=1.0), None, 5e-5),
        (st.NuMethod(step=1.0, nu=0.5), None, 3e-8),
        (st.HeavyBall(), [1e-6, 1.0], 1e-6),
        (st.HeavyBall(step=1.0, momentum=0.9), None, 1e-5),
    ],
    ids=repr,
)
def test_the_guarantee_of_a_late_iteration_is_not_below_that_of_its_loop(
    method, eigenvalues, penalty
):
    found = calibrate_to(method, penalty, eigenvalues=eigenvalues)
    tuned = method if eigenvalues is None else method.tuned_to(eigenvalues)
    low = 0.0 if eigenvalues is None else eigenvalues[0] / penalty
    exact = guarantee(tuned.in_units_of(penalty), found.stop, low, 1 / penalty)
    assert found.stop > 4000
    assert exact.inflation <= found.inflation <= 1.001 * exact.inflation
    assert exact.parameter_error <= found.parameter_error <= 1.001 * exact.parameter_error
    if not tuned.universal_guarantee:
        risk, distance = out_of_phase(tuned.in_units_of(penalty), found.stop, low, 1 / penalty)
        assert exact.inflation <= max(risk, 1.001 * exact.inflation) <= 1.2 * exact.inflation
        assert distance <= 4 * exact.parameter_error


@pytest.mark.parametrize("penalty", [5e-5, 1e-6])
def test_the_guarantee_of_a_late_stop_is_not_below_that_of_its_power(penalty):
    method = st.GradientDescent(step=1.0)
    found = matched(method, round(0.457 / penalty))
    exact = guarantee(method.in_units_of(found.penalty), round(0.457 / penalty))
    assert found.guarantee == pytest.approx(exact.inflation, rel=1e-12)
    assert found.guarantee > st.calibrate("gradient-flow").inflation
