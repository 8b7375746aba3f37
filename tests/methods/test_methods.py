"""The filters: 50-digit references, equations of motion, invariants, limits, bad arguments."""

import pickle
from collections import defaultdict

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from reference import accuracy
from stoptime.methods.butterworth import Butterworth
from stoptime.methods.flows import (
    AcceleratedFlow,
    CriticalFlow,
    GradientFlow,
    HeavyBallFlow,
    HighResolutionAcceleratedFlow,
)
from stoptime.methods.iterations import Nesterov
from stoptime.methods.registry import FAMILY, METHODS, as_content, from_content, get_method
from stoptime.methods.ridge import IteratedRidge, Ridge
from stoptime.support.checks import whole_number

EPS = np.finfo(float).eps

CONCRETE = [
    Ridge(),
    GradientFlow(),
    AcceleratedFlow(),
    AcceleratedFlow(0.4),
    AcceleratedFlow(1),
    AcceleratedFlow(2.5),
    AcceleratedFlow(5),
    AcceleratedFlow(50),
    AcceleratedFlow(200),
    HeavyBallFlow(0.01),
    HeavyBallFlow(1.0),
    HeavyBallFlow(30.0),
    CriticalFlow(),
    IteratedRidge(),
    IteratedRidge(5),
    Butterworth(),
    Butterworth(1),
    Butterworth(7),
]
each_method = pytest.mark.parametrize("method", CONCRETE, ids=str)
GROUPED = ("friction", "times", "order")
moderate = st.floats(1e-6, 1e6)


def reference():
    groups = defaultdict(list)
    for point in accuracy.points():
        if point.method in METHODS:
            parameter = next(
                (point.parameters[name] for name in GROUPED if name in point.parameters), 0
            )
            groups[point.method, parameter].append(point)
    return groups


REFERENCE = reference()


@pytest.mark.parametrize("group", REFERENCE, ids=str)
def test_shrinkage_and_gain_against_fifty_digits(group):
    points = REFERENCE[group]
    assert len(points) > 30
    for point in points:
        u = point.t * np.sqrt(point.s)
        allowed = 1e-13 + 4 * EPS * u
        of_shrinkage, of_gain = point.errors()
        # the rounding of γ² counts near critical damping, relative to oscillations that died out
        critical = EPS * u**2 / 6 if point.method == "heavy-ball-flow" else 0.0
        assert of_shrinkage <= allowed + critical, point
        assert of_gain <= (1e-13 if u <= 1 else allowed), point


def test_reference_covers_every_method_and_all_regions():
    assert {name for name, _ in REFERENCE} == set(METHODS)
    u = [point.t * point.s**0.5 for point in REFERENCE["accelerated-flow", 3.0]]
    assert min(u) < 1e-3
    assert max(u) > 1e5
    assert sum(1 < x < 30 for x in u) > 5


@each_method
@given(s=moderate, t=moderate)
def test_gain_times_eigenvalue_plus_shrinkage_is_one(method, s, t):
    g, gain = method.shrinkage(s, t), method.gain(s, t)
    tolerance = 1e-12 + 8 * EPS * t * np.sqrt(s)
    assert abs(gain * s + g - 1) <= tolerance
    assert abs(g) <= 1 + tolerance
    assert gain >= 0


@each_method
def test_nothing_is_learned_at_the_start_or_in_null_directions(method):
    s, t = np.array([0, 1e-300, 1e-3, 1, 1e300]), np.array([0, 1e-150, 1, 1e150])
    assert np.all(method.shrinkage(s, 0) == 1)
    assert np.all(method.gain(s, 0) == 0)
    assert np.all(method.shrinkage(0, t) == 1)
    finite = np.array([0, 1e-3, 1.0, 20.0])
    tiny = method.gain(1e-280, finite)
    np.testing.assert_allclose(method.gain(0, finite), tiny, rtol=1e-13)


@each_method
def test_infinite_time_is_the_limit(method):
    np.testing.assert_array_equal(method.shrinkage([0, 2.0, 4.0], np.inf), [1, 0, 0])
    np.testing.assert_array_equal(method.gain([0, 2.0, 4.0], np.inf), [np.inf, 0.5, 0.25])
    mixed = method.gain([[2.0]], [[1.0, np.inf]])
    assert mixed[0, 0] == method.gain(2.0, 1.0)
    assert mixed[0, 1] == 0.5


@each_method
def test_no_nan_and_no_early_overflow_anywhere_in_range(method):
    s = np.concatenate([[0.0, 5e-324], np.geomspace(1e-300, 1e300, 61)])[:, None]
    t = np.concatenate([[0.0, 5e-324], np.geomspace(1e-300, 1e150, 61), [np.inf]])
    g, gain = method.shrinkage(s, t), method.gain(s, t)
    assert np.all(np.abs(g) <= 1 + 1e-9)
    assert not np.isnan(gain).any()
    overflows = (s < 1e-305) & (t == np.inf)
    assert np.isfinite(gain[~overflows]).all()


@each_method
def test_broadcasting_and_scalars(method):
    s, t = np.array([0.5, 1.0, 2.0]), np.array([0.1, 10.0])
    assert method.shrinkage(s[:, None], t).shape == (3, 2)
    assert method.gain(s, 1.0).shape == (3,)
    assert np.ndim(method.gain(1.0, 1.0)) == 0
    assert method.gain(np.empty((0, 1)), t).shape == (0, 2)
    np.testing.assert_array_equal(method.gain(s[:, None], t)[1, 1], method.gain(1.0, 10.0))
    assert method.gain(np.array([1, 2]), np.array([3, 4])).dtype == np.float64


@pytest.mark.parametrize(
    "method",
    [Ridge(), GradientFlow(), HeavyBallFlow(2.0), CriticalFlow(), IteratedRidge(3), Butterworth(3)],
    ids=str,
)
def test_monotone_where_nothing_swings(method):
    t = np.linspace(0, 50, 500)
    for s in [0.1, 1.0, 3.9]:
        assert np.all(np.diff(method.shrinkage(s, t)) <= 0)
        assert np.all(np.diff(method.gain(s, t)) >= 0)


def motion(method, s):
    """The equation of motion of one direction with unit response, as a first-order system."""
    match method:
        case GradientFlow():
            return lambda _, b: [1 - s * b[0]], 1
        case HeavyBallFlow(damping=damping):
            return lambda _, b: [b[1], 1 - s * b[0] - 2 * damping * b[1]], 2
        case CriticalFlow():
            return lambda _, b: [b[1], 1 - s * b[0] - 2 * np.sqrt(s) * b[1]], 2
        case AcceleratedFlow(friction=r):
            return lambda t, b: [b[1], 1 - s * b[0] - r / t * b[1]], 2


@pytest.mark.parametrize(
    "method",
    [
        GradientFlow(),
        AcceleratedFlow(0.7),
        AcceleratedFlow(3),
        AcceleratedFlow(5),
        AcceleratedFlow(8.3),
        HeavyBallFlow(0.1),
        HeavyBallFlow(1.0),
        HeavyBallFlow(4.0),
        CriticalFlow(),
    ],
    ids=str,
)
@pytest.mark.parametrize("s", [0.0, 0.3, 1.0, 2.5])
def test_gain_solves_the_equation_of_motion(method, s):
    rhs, order = motion(method, s)
    t = np.linspace(0.5, 12, 7)
    start, first = 0.0, [0.0] * order
    if isinstance(
        method, AcceleratedFlow
    ):  # r/t is singular at 0: start on the first term of the series
        start = 1e-4
        first = [start**2 / (2 * (method.friction + 1)), start / (method.friction + 1)]
    solution = solve_ivp(rhs, (start, 12), first, t_eval=t, method="DOP853", rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(method.gain(s, t), solution.y[0], rtol=1e-8)


@each_method
@given(s=st.floats(1e-3, 1e3), t=st.floats(1e-3, 1e2), scale=st.floats(0.1, 10))
def test_scaling_law_in_time(method, s, t, scale):
    rescaled = method.in_units_of(scale)
    later = t * scale ** (1 / method.time_power)
    tolerance = 1e-11 + 20 * EPS * t * np.sqrt(s)
    assert abs(method.shrinkage(s, t) - rescaled.shrinkage(s / scale, later)) <= tolerance


def test_large_friction_tends_to_gradient_flow():
    s, t = np.geomspace(1e-3, 1e2, 40), 0.7
    gaps = []
    for friction in (50, 100, 200):
        stop = np.sqrt(2 * (friction + 1) * t)
        gaps.append(
            np.max(
                np.abs(
                    AcceleratedFlow(friction).shrinkage(s, stop) - GradientFlow().shrinkage(s, t)
                )
            )
        )
    assert gaps[0] < 1e-1
    ratios = np.array(gaps[1:]) / gaps[:-1]
    np.testing.assert_allclose(ratios, 0.5, rtol=0.1)  # the gap is of order 1/friction


def test_known_values():
    from scipy.special import j0, j1

    u = np.linspace(0.1, 40, 50)
    np.testing.assert_allclose(AcceleratedFlow(3).shrinkage(1, u), 2 * j1(u) / u, atol=1e-14)
    np.testing.assert_allclose(AcceleratedFlow(1).shrinkage(1, u), j0(u), atol=1e-14)
    np.testing.assert_allclose(AcceleratedFlow(2).shrinkage(1, u), np.sin(u) / u, atol=1e-14)
    sphere = 3 * (np.sin(u) - u * np.cos(u)) / u**3
    np.testing.assert_allclose(AcceleratedFlow(4).shrinkage(1, u), sphere, atol=1e-12)
    np.testing.assert_allclose(HeavyBallFlow(1).shrinkage(1, u), np.exp(-u) * (1 + u), rtol=1e-13)
    assert AcceleratedFlow(3).gain(0, 2.0) == 0.5
    assert HeavyBallFlow(0.5).gain(0, 1.0) == pytest.approx(1 - (1 - np.exp(-1)), rel=1e-14)


def test_iterated_ridge_fits_its_own_residuals_again():
    s, t = np.array([0.0, 1e-6, 0.3, 2.0, 1e5])[:, None], np.array([1e-3, 1.0, 50.0])
    for times in (1, 2, 3, 10):
        penalty = times / t
        coefficient = np.zeros((5, 3))
        for _ in range(times):
            coefficient += (1 - s * coefficient) / (s + penalty)
        np.testing.assert_allclose(IteratedRidge(times).gain(s, t), coefficient, rtol=1e-12)
    np.testing.assert_array_equal(IteratedRidge(1).gain(s, t), Ridge().gain(s, t))


def test_many_ridges_tend_to_gradient_flow():
    s = np.geomspace(1e-3, 1e2, 40)
    gaps = [
        np.abs(IteratedRidge(times).shrinkage(s, 0.7) - GradientFlow().shrinkage(s, 0.7)).max()
        for times in (10, 100, 1000)
    ]
    np.testing.assert_allclose(np.array(gaps[1:]) / gaps[:-1], 0.1, rtol=0.1)


def test_the_critical_flow_is_every_heavy_ball_at_its_own_critical_damping():
    for s in (1e-4, 0.3, 7.0):
        t = np.geomspace(1e-3, 30, 50) / np.sqrt(s)
        own = HeavyBallFlow(float(np.sqrt(s)))
        np.testing.assert_allclose(CriticalFlow().gain(s, t), own.gain(s, t), rtol=1e-12)


@pytest.mark.parametrize("value", [0, -1, 1.5, np.nan, "often", None, True])
def test_ridges_are_iterated_a_whole_number_of_times(value):
    with pytest.raises(ValueError, match="times must be a whole number of at least 1"):
        IteratedRidge(value)
    assert IteratedRidge(3.0) == IteratedRidge(np.int64(3))
    assert repr(IteratedRidge(3.0)) == "IteratedRidge(times=3)"


@pytest.mark.parametrize("order", [1, 2, 3, 4, 7, 20])
def test_a_steep_edge_is_the_average_of_its_ridges(order):
    method = Butterworth(order)
    s, t = np.geomspace(1e-3, 1e3, 50), np.array([0.2, 1.0, 30.0])
    penalties, weights = method.ridges(t)
    assert penalties.shape == weights.shape == ((order + 1) // 2, 3)
    ridges = weights[..., None] * penalties[..., None] / (penalties[..., None] + s)
    expected = method.shrinkage(s, t[:, None])
    np.testing.assert_allclose(ridges.sum(axis=0).real, expected, rtol=1e-12, atol=1e-13)
    # none is the conjugate of another one, so that no work is done twice
    assert np.all(penalties.imag[:, 0] <= 1e-15)
    assert weights.sum(axis=0).real == pytest.approx(1.0)


def test_a_steep_edge_lies_between_ridge_and_principal_components():
    s = np.array([0.01, 0.3, 0.9, 1.1, 5.0])
    np.testing.assert_allclose(Butterworth(1).gain(s, 2.0), Ridge().gain(s, 2.0), rtol=1e-14)
    np.testing.assert_allclose(Butterworth(1000).shrinkage(s, 1.0), s < 1, atol=1e-40)
    assert Butterworth().largest_gain(2.0) == pytest.approx(
        Butterworth().gain(np.linspace(0, 3, 100_001), 2.0).max(), rel=1e-9
    )


@pytest.mark.parametrize("value", [0, -1, 1.5, np.nan, "steep", None, True, 1001])
def test_a_steep_edge_has_a_whole_degree(value):
    with pytest.raises(ValueError, match="order must be"):
        Butterworth(value)


def test_a_family_of_methods_for_signals_of_every_smoothness():
    assert [method.name for method in FAMILY] == ["ridge", "gradient-flow", "critical-flow"]
    assert all(method.universal_guarantee for method in FAMILY)
    assert not any(method.oscillates for method in FAMILY)


def test_critical_damping_is_tuned_to_the_smallest_eigenvalue():
    assert HeavyBallFlow().tuned_to([4.0, 0.25, 1.0]) == HeavyBallFlow(0.5)
    assert HeavyBallFlow(2.0).tuned_to([0.0]) == HeavyBallFlow(2.0)
    for singular in ([0.0, 1.0], []):
        with pytest.raises(ValueError, match=r"singular.*Give damping as a number"):
            HeavyBallFlow().tuned_to(singular)
    with pytest.raises(ValueError, match="tuned_to"):
        HeavyBallFlow().gain(1.0, 1.0)


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "fast", None, True])
def test_bad_parameters_name_the_argument_and_the_value(value):
    with pytest.raises(ValueError, match="friction must be") as error:
        AcceleratedFlow(value)
    assert repr(value) in str(error.value)
    with pytest.raises(ValueError, match="damping must be"):
        HeavyBallFlow(value)


def test_whole_numbers_are_told_from_all_else():
    assert whole_number("probes", np.int8(3), least=3) == 3
    for wrong in (2, True, 3.0, "3", None):
        with pytest.raises(
            ValueError, match=f"probes must be a whole number of at least 3; got {wrong!r}"
        ):
            whole_number("probes", wrong, least=3)


def test_friction_ends_where_bessel_functions_do():
    assert [AcceleratedFlow(r).friction for r in (0.001, 200)] == [0.001, 200]
    for friction in (0.0009, 200.1):
        for flow in (AcceleratedFlow, HighResolutionAcceleratedFlow, Nesterov):
            with pytest.raises(ValueError, match=r"friction must be a number between 0\.001 and"):
                flow(friction=friction)


@each_method
def test_bad_arguments_name_the_argument_and_the_value(method):
    for bad in (-1.0, np.nan):
        with pytest.raises(ValueError, match=f"^s must be.*{bad}"):
            method.shrinkage([1.0, bad], 1.0)
        with pytest.raises(ValueError, match=f"^t must be.*{bad}"):
            method.gain(1.0, [1.0, bad])
    with pytest.raises(ValueError, match=r"^s must be finite.*inf"):
        method.gain(np.inf, 1.0)


@pytest.mark.parametrize("friction", [1.0, 2.0, 3.0, 5.0])
def test_swings_of_accelerated_flow_end_where_it_says(friction):
    flow, level = AcceleratedFlow(friction), 1e-4
    phase, time = flow.visible_until(level)
    assert time == np.inf
    swing = np.abs(flow.shrinkage(1.0, phase + np.linspace(0, np.pi, 1001)))
    np.testing.assert_allclose(swing.max(), level, rtol=0.1)
    np.testing.assert_allclose(flow.settled_at(0.25, level), 2 * phase)


@pytest.mark.parametrize("friction", [150.0, 200.0])
def test_shrinkage_of_much_friction_against_fifty_digits(friction):
    u = np.array([20.0, 50.0, 70.0, 85.0])  # before the first zero
    with mp.workdps(150):
        exact = [float(mp.hyp0f1((friction + 1) / 2, -(mp.mpf(one) ** 2) / 4)) for one in u]
    np.testing.assert_allclose(AcceleratedFlow(friction).shrinkage(1.0, u), exact, rtol=1e-12)


def test_swings_of_much_friction_end_after_its_order():
    assert AcceleratedFlow(200).visible_until(0.99)[0] == 99.5


@pytest.mark.parametrize("damping", [0.1, 1.0])
def test_swings_of_heavy_ball_end_where_it_says(damping):
    flow, level = HeavyBallFlow(damping), 1e-4
    phase, time = flow.visible_until(level)
    assert phase == np.inf
    np.testing.assert_allclose(
        flow.shrinkage(damping**2, time), level
    )  # the envelope of all swings
    assert flow.settled_at(damping**2, 10 * level) == time  # critically damped: nothing creeps


@pytest.mark.parametrize("s", [0.01, 0.3, 1.5, 100.0])
@pytest.mark.parametrize(
    "method",
    [Ridge(), GradientFlow(), HeavyBallFlow(1.0), CriticalFlow(), IteratedRidge(3), Butterworth(3)],
    ids=str,
)
def test_settled_means_below_the_level_from_then_on(method, s):
    level = 1e-4
    settled = method.settled_at(s, level)
    assert np.abs(method.shrinkage(s, settled * np.geomspace(1 + 1e-9, 10, 1000))).max() <= level
    if method != GradientFlow():  # which is held to the time of ridge
        assert np.abs(method.shrinkage(s, settled / 3)) > level


def test_a_slow_creep_settles_just_where_it_says():
    flow, s, level = HeavyBallFlow(2.0), 1e-5, 1e-4
    np.testing.assert_allclose(flow.shrinkage(s, flow.settled_at(s, level)), level, rtol=1e-4)


def test_the_older_name_of_accelerated_flow_is_accepted_and_not_printed():
    flow = get_method("nesterov-flow")
    assert flow == get_method("accelerated-flow") == AcceleratedFlow()
    assert flow.name == "accelerated-flow"
    written = as_content(AcceleratedFlow(5))
    assert written == {"name": "accelerated-flow", "friction": 5.0}
    assert from_content(written | {"name": "nesterov-flow"}) == AcceleratedFlow(5)
    with pytest.raises(ValueError, match='did you mean "nesterov-flow"'):
        get_method("nestrov-flow")


def test_registry():
    for name, cls in METHODS.items():
        assert get_method(name) == cls()
        assert cls.name == name
        assert cls.time_power in (1, 2)
    assert get_method(AcceleratedFlow(5)) == AcceleratedFlow(5)
    with pytest.raises(ValueError, match=r"Unknown method 'sgd'.*accelerated-flow"):
        get_method("sgd")
    with pytest.raises(ValueError, match="Unknown method 3"):
        get_method(3)


@each_method
def test_methods_are_values(method):
    assert pickle.loads(pickle.dumps(method)) == method
    assert hash(method) == hash(pickle.loads(pickle.dumps(method)))
    assert eval(repr(method)) == method
    with pytest.raises(AttributeError):
        method.friction = 4
    assert AcceleratedFlow(3) != AcceleratedFlow(5)
    assert AcceleratedFlow(3) == AcceleratedFlow(np.float64(3))
