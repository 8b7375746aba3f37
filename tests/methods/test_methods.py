"""The filters: 50-digit references, equations of motion, invariants, limits, bad arguments."""

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import gamma

import stoptime as st
from iteration_cases import CONCRETE as ITERATIONS
from reference import accuracy
from stoptime.methods.base import settled_at
from stoptime.methods.registry import as_content, from_content

EPS = np.finfo(float).eps
TINY = np.finfo(float).tiny
CONCRETE = [
    st.Ridge(),
    st.GradientFlow(),
    *(st.AcceleratedFlow(friction) for friction in (3, 0.4, 1, 2.5, 5, 50, 200)),
    *(st.HeavyBallFlow(damping) for damping in (0.01, 1.0, 30.0)),
    st.CriticalFlow(),
    *(st.IteratedRidge(times) for times in (2, 5)),
    *(st.Butterworth(order) for order in (4, 1, 7)),
]
each_method = pytest.mark.parametrize("method", CONCRETE, ids=str)


@pytest.mark.parametrize("name", st.METHODS | st.ITERATIONS)
def test_every_method_is_accurate_as_the_page_says(name):
    """Other releases of SciPy round differently, but not by much."""
    assert set(accuracy.measured()) == set(st.METHODS | st.ITERATIONS)
    worst = accuracy.measured()[name]
    assert worst.points >= 40
    assert max(worst.shrinkage, worst.gain) <= 1e-13
    assert max(worst.far_shrinkage, worst.far_gain) <= 1e-14
    said = accuracy.printed(accuracy.PAGE.read_text(encoding="utf-8"))
    assert list(said) == list(accuracy.measured())
    assert said[name].points == worst.points, "run python tests/reference/accuracy.py"
    for told, found in zip(said[name][1:], worst[1:], strict=True):
        assert told / 10 <= found <= 3 * told, "run python tests/reference/accuracy.py"


@each_method
def test_gain_and_shrinkage_belong_together_and_follow_the_scaling_law(method, rng):
    s, t = np.exp(rng.uniform(np.log(1e-6), np.log(1e6), (2, 4000)))
    g, gain = method.shrinkage(s, t), method.gain(s, t)
    tolerance = 1e-12 + 8 * EPS * t * np.sqrt(s)
    assert np.all(np.abs(gain * s + g - 1) <= tolerance)
    assert np.all(np.abs(g) <= 1 + tolerance)
    assert np.all(gain >= 0)
    later = t * 0.3 ** (1 / method.time_power)
    scaled = method.in_units_of(0.3).shrinkage(s / 0.3, later)
    assert np.all(np.abs(g - scaled) <= 1e-11 + 20 * EPS * t * np.sqrt(s))


@pytest.mark.parametrize("method", [*CONCRETE, *ITERATIONS], ids=str)
def test_the_start_null_directions_the_limit_shapes_and_bad_arguments(method):
    early = np.arange(60.0) if method.whole_stops else np.geomspace(1e-3, 20.0, 60)
    largest = 1 / method.step if method.whole_stops else 4.0
    s = np.append(0.0, np.geomspace(1e-8, largest, 40))
    g, gain = method.shrinkage(s[:, None], early), method.gain(s[:, None], early)
    np.testing.assert_allclose(gain * s[:, None] + g, 1, atol=1e-13)
    assert np.all(method.shrinkage(s, 0) == 1)
    assert np.all(method.gain(s, 0) == 0)
    assert np.all(g[0] == 1)
    np.testing.assert_allclose(gain[0], method.gain(1e-280, early), rtol=1e-13)
    np.testing.assert_array_equal(method.shrinkage([0, 0.5], np.inf), [1, 0])
    np.testing.assert_array_equal(method.gain([0, 0.5], np.inf), [np.inf, 2])
    assert np.ndim(method.gain(1.0, 3)) == 0
    assert method.gain(np.array([1, 2]), np.array([3, 4])).dtype == np.float64
    assert method.gain(np.empty((0, 1)), [7, 2]).shape == (0, 2)
    assert method.gain(s[:, None], np.empty(0)).shape == (len(s), 0)
    for stops in ([0, 1, 2, 7, 7, 30], [5, 2, 9], [0, 4, np.inf], []):
        tables = [*method.filters(s, np.array(stops, dtype=float), 2)]
        assert [table[0].shape[1] for table in tables] == [
            min(2, len(stops) - i) for i in range(0, len(stops), 2)
        ]
        for which, formula in enumerate((method.shrinkage, method.gain)):
            joined = np.hstack([np.empty((len(s), 0)), *(table[which] for table in tables)])
            alone = [formula(s, one) for one in stops]
            exact = np.array(alone).reshape(len(stops), len(s)).T
            np.testing.assert_allclose(joined, exact, rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(formula(s[:, None], stops), exact, rtol=1e-11, atol=1e-13)
    for bad in (-1.0, np.nan):
        with pytest.raises(ValueError, match=f"^s must be.*{bad}"):
            method.shrinkage([1.0, bad], 1.0)
        with pytest.raises(ValueError, match=f"^t must be.*{bad}"):
            method.gain(1.0, [1.0, bad])
    with pytest.raises(ValueError, match=r"^s must be finite.*inf"):
        method.gain(np.inf, 1.0)
    if method.whole_stops:
        with pytest.raises(ValueError, match=r"whole numbers.*2\.5"):
            method.shrinkage(1.0, [1, 2.5])


@each_method
def test_filters_are_finite_over_the_whole_range_of_doubles(method):
    s = np.concatenate([[0.0, 5e-324], np.geomspace(1e-300, 1e300, 61)])[:, None]
    t = np.concatenate([[0.0, 5e-324], np.geomspace(1e-300, 1e150, 61), [np.inf]])
    g, gain = method.shrinkage(s, t), method.gain(s, t)
    assert np.all(np.abs(g) <= 1 + 1e-9)
    assert not np.isnan(gain).any()
    overflows = (s < 1e-305) & (t == np.inf)
    assert np.isfinite(gain[~overflows]).all()


def motion(method, s):
    """The equation of motion of one direction with unit response, as a first-order system."""
    match method:
        case st.GradientFlow():
            return lambda _, b: [1 - s * b[0]]
        case st.HeavyBallFlow(damping=damping):
            return lambda _, b: [b[1], 1 - s * b[0] - 2 * damping * b[1]]
        case st.CriticalFlow():
            return lambda _, b: [b[1], 1 - s * b[0] - 2 * np.sqrt(s) * b[1]]
        case st.AcceleratedFlow(friction=r):
            return lambda t, b: [b[1], 1 - s * b[0] - r / t * b[1]]
        case st.HighResolutionFlow(step=step, strong_convexity=mu):
            root, damping = np.sqrt(step * mu), 2 * np.sqrt(mu) + np.sqrt(step) * s
            return lambda _, b: [b[1], (1 + root) * (1 - s * b[0]) - damping * b[1]]


@pytest.mark.parametrize(
    "method",
    [
        st.GradientFlow(),
        *(st.AcceleratedFlow(friction) for friction in (0.7, 3, 8.3)),
        *(st.HeavyBallFlow(damping) for damping in (0.1, 1.0, 4.0)),
        st.CriticalFlow(),
        st.HighResolutionFlow(0.3, 0.05),
    ],
    ids=str,
)
@pytest.mark.parametrize("s", [0.0, 0.05, 1.0, 3.0])
def test_gain_solves_the_equation_of_motion(method, s):
    t = np.linspace(0.5, 12, 7)
    start, first = 0.0, [0.0] * method.time_power
    if isinstance(method, st.AcceleratedFlow):
        # r/t is singular at 0: start on the first term of the series
        start = 1e-4
        first = [start**2 / (2 * (method.friction + 1)), start / (method.friction + 1)]
    if isinstance(method, st.HighResolutionFlow):
        first[1] = 2 * np.sqrt(0.3) / (1 + np.sqrt(0.3 * 0.05))
    options = {"t_eval": t, "method": "DOP853", "rtol": 1e-12, "atol": 1e-14}
    solution = solve_ivp(motion(method, s), (start, 12), first, **options)
    np.testing.assert_allclose(method.gain(s, t), solution.y[0], rtol=1e-8)


@pytest.mark.parametrize("times", [1, 2, 100, 10**6, 10**9])
def test_ridge_iterated_any_number_of_times_keeps_its_digits(times, rng):
    method = st.IteratedRidge(times)
    for s, t in np.exp(rng.uniform([-12, -8], [6, 8], (60, 2))).tolist():
        with mp.workdps(50):
            g = (1 + mp.mpf(t) * mp.mpf(s) / times) ** -times
            gain = (1 - g) / mp.mpf(s)
        # the condition number of a power is its logarithm
        assert abs(float(method.shrinkage(s, t)) - g) <= 4 * EPS * g * (1 - mp.log(g)) + TINY
        assert float(method.gain(s, t)) == pytest.approx(float(gain), rel=4 * EPS)


@pytest.mark.parametrize("friction", [1.0, 3.0, 7.5])
@pytest.mark.parametrize("step", [0.04, 1.0])
def test_high_resolution_flow_against_sixty_digits(step, friction, rng):
    flow = st.HighResolutionAcceleratedFlow(step, friction)
    for _ in range(60):
        # eigenvalues below and above 4/ε, from where on nothing oscillates
        s = np.exp(rng.uniform(-12, 4)) / step
        t = np.exp(rng.uniform(-8, 3)) / np.sqrt(s)
        with mp.workdps(60):
            x, time, root = mp.mpf(s), mp.mpf(t), mp.sqrt(mp.mpf(step))
            square = x - root**2 * x**2 / 4
            wave = mp.hyp0f1((mp.mpf(friction) + 1) / 2, -square * time**2 / 4)
            g = mp.exp(-root * x * time / 2) * wave
            gain = (1 - g) / x
        assert abs(float(flow.shrinkage(s, t)) - g) < 1e-13
        assert float(flow.gain(s, t)) == pytest.approx(float(gain), rel=1e-12)
    # beyond the range of SciPy's Bessel function, after the same oscillation or much later
    s = np.array([1e10, 1e12, 1e150])[:, None] / step
    t = np.geomspace(0.1, 1e100, 50)
    g = flow.shrinkage(s, t)
    nu = (friction - 1) / 2
    u = np.sqrt(step * s * s / 4 - s) * t
    half = np.exp(-t / np.sqrt(step)) / np.sqrt(2 * np.pi * u)
    np.testing.assert_allclose(g, gamma(nu + 1) * (2 / u) ** nu * half, rtol=1e-7, atol=1e-300)
    np.testing.assert_allclose(flow.gain(s, t), (1 - g) / s, rtol=1e-14)
    with pytest.raises(ValueError, match=r"step·s² does not overflow"):
        flow.gain(1e160 / step, 1.0)


@pytest.mark.parametrize("order", [1, 2, 3, 7, 20])
def test_a_steep_edge_is_the_average_of_its_ridges(order):
    method = st.Butterworth(order)
    s, t = np.geomspace(1e-3, 1e3, 50), np.array([0.2, 1.0, 30.0])
    penalties, weights = method.ridges(t)
    assert penalties.shape == weights.shape == ((order + 1) // 2, 3)
    ridges = weights[..., None] * penalties[..., None] / (penalties[..., None] + s)
    expected = method.shrinkage(s, t[:, None])
    np.testing.assert_allclose(ridges.sum(axis=0).real, expected, rtol=1e-12, atol=1e-13)
    # none is the conjugate of another one, so that no work is done twice
    assert np.all(penalties.imag[:, 0] <= 1e-15)


def test_parameters_are_tuned_to_the_spectrum():
    assert st.HeavyBallFlow().tuned_to([4.0, 0.25, 1.0]) == st.HeavyBallFlow(0.5)
    assert st.HeavyBallFlow(2.0).tuned_to([0.0]) == st.HeavyBallFlow(2.0)
    tuned = st.HighResolutionFlow().tuned_to([0.125, 0.5])
    assert tuned == st.HighResolutionFlow(2.0, 0.125)
    for method in (st.HeavyBallFlow(), st.HighResolutionFlow(), st.HeavyBall()):
        for singular in ([0.0, 1.0], []):
            with pytest.raises(ValueError, match=r"singular.*as a number"):
                method.tuned_to(singular)
        with pytest.raises(ValueError, match="tuned_to"):
            method.gain(1.0, 1.0)


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, "fast", None, True, [1.0, 2.0]])
def test_bad_parameters_name_the_argument_and_the_value(value):
    names = {"friction": st.AcceleratedFlow, "damping": st.HeavyBallFlow, "order": st.Butterworth}
    names |= {"times": st.IteratedRidge, "step": st.HighResolutionAcceleratedFlow}
    for name, cls in names.items():
        with pytest.raises(ValueError, match=f"{name} must be") as error:
            cls(**{name: value})
        assert repr(value) in str(error.value)


def test_ends_of_the_parameters():
    assert [st.AcceleratedFlow(r).friction for r in (0.001, 200)] == [0.001, 200]
    for friction in (0.0009, 200.1):
        for flow in (st.AcceleratedFlow, st.HighResolutionAcceleratedFlow, st.Nesterov):
            with pytest.raises(ValueError, match=r"friction must be a number between 0\.001 and"):
                flow(friction=friction)
    with pytest.raises(ValueError, match="order must be at most 1000"):
        st.Butterworth(1001)
    assert repr(st.IteratedRidge(3.0)) == "IteratedRidge(times=3)"


@pytest.mark.parametrize(
    "flow",
    [
        st.AcceleratedFlow(1.0),
        st.AcceleratedFlow(5.0),
        st.AcceleratedFlow(200),
        st.HeavyBallFlow(0.1),
        st.HighResolutionFlow(0.7, 0.04),
        st.HighResolutionAcceleratedFlow(0.5),
        st.GradientFlow(),
        st.CriticalFlow(),
        st.IteratedRidge(3),
        st.Butterworth(3),
    ],
    ids=str,
)
@pytest.mark.parametrize("level", [0.3, 1e-4])
def test_a_flow_is_settled_and_invisible_when_it_says_so(flow, level):
    phase, time = flow.visible_until(level)
    for s in (0.01, 0.5, 30.0):
        settled = settled_at(flow, s, level)
        g = flow.shrinkage(s, settled * np.geomspace(1, 30, 400))
        assert np.abs(g).max() <= level * (1 + 1e-9)
        if not flow.oscillates and level < 0.1 and flow != st.GradientFlow():
            assert np.abs(flow.shrinkage(s, settled / 3)) > level
        if flow.oscillates and np.isfinite(time):
            above = s + 2.1 * getattr(flow, "strong_convexity", 0.01)
            later = time * np.geomspace(1, 30, 200)
            assert np.abs(flow.shrinkage(above, later)).max() <= level
    if isinstance(flow, st.AcceleratedFlow) and flow.friction < 200 and level < 0.1:
        swing = np.abs(flow.shrinkage(1.0, phase + np.linspace(0, np.pi, 1001)))
        np.testing.assert_allclose(swing.max(), level, rtol=0.1)


def test_names_and_values():
    assert [method.name for method in st.FAMILY] == ["ridge", "gradient-flow", "critical-flow"]
    for name, cls in (st.METHODS | st.ITERATIONS | st.ADAPTIVE).items():
        assert st.get_method(name) == cls() == st.get_method(cls)
        assert cls.name == name
    flow = st.get_method("nesterov-flow")
    assert flow == st.AcceleratedFlow(np.float64(3))
    assert flow.name == "accelerated-flow"
    written = as_content(st.AcceleratedFlow(5))
    assert written == {"name": "accelerated-flow", "friction": 5.0}
    assert from_content(written | {"name": "nesterov-flow"}) == st.AcceleratedFlow(5)
    for unknown, message in (("nestrov-flow", 'did you mean "nesterov-flow"'), (3, "method 3")):
        with pytest.raises(ValueError, match=message):
            st.get_method(unknown)
