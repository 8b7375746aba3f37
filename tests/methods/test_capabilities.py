"""What methods claim about themselves, checked numerically, and methods that claim nothing."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import stoptime as st
from iteration_cases import make_data
from stoptime.methods.adaptive import Adaptive
from stoptime.methods.averages import Averaged, Decayed
from stoptime.methods.base import Filter, as_filter
from stoptime.methods.butterworth import Butterworth
from stoptime.methods.flows import (
    AcceleratedFlow,
    CriticalFlow,
    GradientFlow,
    HeavyBallFlow,
    HighResolutionFlow,
)
from stoptime.methods.iterations import SGD, GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.recurrence import Coefficients, Iteration, Recurrence
from stoptime.methods.registry import ALL_METHODS
from stoptime.methods.ridge import IteratedRidge
from stoptime.methods.schedules import Constant, Cosine, Linear
from stoptime.theory.calibration import largest_possible
from stoptime.theory.search import risk_ratio, stop_with_gain
from stoptime.theory.signals import qualification

S = np.array([0.05, 0.2, 0.5, 1.0])  # of a spectrum to which every method can be tuned
TUNED = [cls().tuned_to(S) for cls in ALL_METHODS.values()]
FILTERS = [method for method in TUNED if isinstance(method, st.Filter)]
MORE = [
    IteratedRidge(9),
    Butterworth(9),
    AcceleratedFlow(0.3),
    AcceleratedFlow(9.0),
    HeavyBallFlow(1e-3),
    HeavyBallFlow(3.0),
    HighResolutionFlow(1.0, 1e-6),
    HighResolutionFlow(0.5, 30.0),
    GradientDescent(1.9),
    Nesterov(1.3, 1.0),
    Nesterov(1.0, momentum=0.99),
    HeavyBall(1.0, 0.99),
    NuMethod(1.0, 0.3),
    SGD(1.0, 0.9, nesterov=True),
    SGD(0.8, 0.7, dampening=0.4),
    GradientDescent(Linear(0.9, 5, end=1.0)),
    HeavyBall(Cosine(0.3, 40, end=1.0), Linear(0.9, 40, end=0.8)),
    Nesterov(Constant(1.0, warmup=7)),
    Decayed(Nesterov(1.0), 0.1),
    Decayed(GradientDescent(1.0), 0.1),
    Averaged(Nesterov(1.0)),
    Averaged(HeavyBall(1.0, 0.9), "tail"),
    Averaged(GradientDescent(1.0), "exponential", 0.9),
]
each_registered = pytest.mark.parametrize("method", TUNED, ids=str)
each_filter = pytest.mark.parametrize("method", FILTERS, ids=str)
each_case = pytest.mark.parametrize("method", [*FILTERS, *MORE], ids=str)


@each_case
def test_a_method_that_does_not_oscillate_falls_monotonically(method):
    if method.oscillates:
        return
    t = np.concatenate([[0.0], np.geomspace(1e-4, 1e6, 2000)])
    t = np.unique(np.round(t)) if method.whole_stops else t
    g = method.shrinkage(np.geomspace(1e-6, 1e6, 60)[:, None], t)
    assert np.all(np.diff(g, axis=1) <= 0)
    assert np.all((g >= 0) & (g <= 1))


def test_the_methods_that_are_said_to_be_monotone():
    filters = {name: cls for name, cls in ALL_METHODS.items() if issubclass(cls, Filter)}
    monotone = {name for name, cls in filters.items() if not cls.oscillates}
    assert monotone == {
        "ridge",
        "gradient-flow",
        "critical-flow",
        "iterated-ridge",
        "butterworth",
        "spectral-cutoff",
    }


@each_filter
def test_whole_stops_are_whole(method):
    if not method.whole_stops:
        assert np.isfinite(method.shrinkage(0.5, 1.5))
        return
    for formula in (method.shrinkage, method.gain):
        with pytest.raises(ValueError, match=r"whole numbers.*1\.5"):
            formula(0.5, 1.5)


@each_registered
def test_a_method_without_filter_refuses_it_and_no_other_does(method):
    if isinstance(method, st.Filter):
        assert as_filter(method) is method
        assert np.isfinite(method.gain(0.5, 3.0))
        return
    with pytest.raises(ValueError, match="depends on the response"):
        as_filter(method)
    for name in ("shrinkage", "gain", "pace", "universal_guarantee"):
        assert not hasattr(method, name)


@each_filter
def test_a_method_that_runs_steps_cannot_run_too_many(method):
    if not (isinstance(method, Iteration) and method.runs_steps):
        assert method.shrinkage(0.5, 1e11) == pytest.approx(0, abs=1e-10)
        return
    with pytest.raises(ValueError, match="iterations is beyond"):
        method.shrinkage(0.5, 1e11)


REACHES = (1e4, 1e8)
GUARANTEED = [
    lambda _: st.Ridge(),
    lambda _: GradientFlow(),
    lambda _: CriticalFlow(),
    lambda _: IteratedRidge(),
    lambda _: IteratedRidge(9),
    lambda _: Butterworth(),
    lambda _: Butterworth(9),
    lambda _: Averaged(GradientFlow()),
    lambda _: Averaged(GradientFlow(), "tail"),
    lambda _: AcceleratedFlow(2.0),
    lambda _: AcceleratedFlow(3.0),
    lambda _: AcceleratedFlow(9.0),
    lambda reach: GradientDescent(1 / reach),
    lambda reach: Nesterov(1 / reach),
    lambda reach: NuMethod(1 / reach),
    lambda reach: NuMethod(1 / reach, 0.5),
]
NOT_GUARANTEED = [
    lambda _: AcceleratedFlow(1.5),
    lambda _: HeavyBallFlow(1.0),
    lambda _: HighResolutionFlow(0.1, 0.1),
    lambda reach: Nesterov(1 / reach, 1.0),
    lambda reach: Nesterov(1 / reach, momentum=1 - 1 / np.sqrt(reach)),
    lambda reach: HeavyBall(1 / reach, 1 - 1 / np.sqrt(reach)),
    lambda reach: NuMethod(1 / reach, 0.4),
]


def largest_risk_ratios(make):
    """Return the largest ratios for unit penalty and eigenvalues up to each of the reaches.

    The stop has the gain of ridge at s = 0. An iteration has its largest eigenvalue there.
    """
    rng = np.random.default_rng(0)
    found = []
    for reach in REACHES:
        method = make(reach)
        stop = stop_with_gain(method, 1.0)
        phases = [rng.uniform(u, 10 * u, 200) for u in np.geomspace(1, np.sqrt(reach) / 10, 4)]
        x = np.concatenate([np.geomspace(1e-3, 10, 200), *(phase**2 for phase in phases)])
        found.append(risk_ratio(method, x, np.round(stop) if method.whole_stops else stop).max())
    return found


@pytest.mark.parametrize("make", GUARANTEED, ids=lambda make: str(make(1e8)))
def test_a_universal_guarantee_holds_for_eigenvalues_of_any_size(make):
    assert make(1e8).universal_guarantee
    near, far = largest_risk_ratios(make)
    assert far <= 1.05 * near < 3  # an iteration of a hundred steps differs a little from its flow


@pytest.mark.parametrize("make", NOT_GUARANTEED, ids=lambda make: str(make(1e8)))
def test_there_is_no_guarantee_where_the_risk_grows_without_bound(make):
    assert not make(1e8).universal_guarantee
    near, far = largest_risk_ratios(make)
    assert far > 1.5 * near


def test_untuned_methods_claim_no_guarantee():
    for method in (HeavyBallFlow(), HeavyBall(), HighResolutionFlow()):
        assert not method.universal_guarantee


@each_case
def test_no_gain_exceeds_its_bound(method):
    most = method.largest_eigenvalue if isinstance(method, Iteration) else np.inf
    s = np.concatenate([[0.0], np.geomspace(1e-9, 1, 200) * min(most, 1e6)])
    s = s[s < most]
    stops = np.arange(200) if method.whole_stops else np.geomspace(1e-6, 1e6, 200)
    for stop in stops:
        assert method.gain(s, stop).max() <= method.largest_gain(stop) * (1 + 1e-12), stop
    assert method.largest_gain(np.inf) == np.inf


def test_the_gain_has_no_bound_before_the_data_are_known():
    for method in (Nesterov(), HeavyBallFlow(), HighResolutionFlow()):
        assert method.largest_gain(3.0) == np.inf


@pytest.mark.parametrize(
    "method", [one for one in [*FILTERS, *MORE] if isinstance(one, Iteration)], ids=str
)
def test_an_iteration_diverges_from_its_largest_eigenvalue_on(method):
    most = method.largest_eigenvalue
    assert largest_possible(method) <= most
    method.check_convergence(0.999 * most)
    assert abs(method.shrinkage(0.999 * most, 9000)) < 1
    with pytest.raises(ValueError, match="diverges"):
        method.check_convergence(most * (1 + 1e-12))
    assert abs(method.shrinkage(1.001 * most, 9000)) > 10


@pytest.mark.parametrize("name", ALL_METHODS)
def test_a_method_is_tuned_once_its_parameters_are_numbers(name):
    method = ALL_METHODS[name]()
    assert method.tuned_to(S).is_tuned
    assert method.tuned_to(S).tuned_to(S) == method.tuned_to(S)
    if not method.is_tuned:
        with pytest.raises(ValueError, match="tuned_to"):
            as_filter(method).gain(0.5, 3)


@each_registered
def test_following_a_response_applies_the_gain(method):
    z = np.array([[1.0, -2.0], [0.5, 0.0], [2.0, 1.0], [-1.0, 3.0]])
    stops = np.array([0.0, 1.0, 3.0])
    if isinstance(method, Adaptive):  # there is no gain of an eigenvalue
        with pytest.raises(ValueError, match="depends on the response"):
            method.follow(S, z, stops, S)
        return
    components, gains = method.follow(S, z, stops, S)
    assert components.shape == (4, 3, 2)
    assert gains.shape == (4, 3, 1 if isinstance(method, st.Filter) else 2)
    np.testing.assert_allclose(gains * z[:, None, :], components, atol=1e-12)


@each_filter
def test_the_flow_of_a_method_is_a_flow(method):
    if isinstance(method, Iteration):
        flow = method.as_flow()
        assert not flow.whole_stops
        assert flow.time_power == method.time_power
    else:
        assert method.pace == 1


@each_registered
def test_searches_end_and_stops_have_a_meaning(method):
    assert method.horizon >= 100
    counts = isinstance(method, st.SpectralCutoff)
    meaning = "components" if counts else "iterations"
    assert method.whole_stops == (method.stop_meaning == meaning)
    assert (method.horizon < np.inf) == (method.whole_stops and not counts)


@pytest.mark.parametrize(
    "method", [*FILTERS[:7], IteratedRidge(9), Butterworth(9), AcceleratedFlow(9.0)], ids=str
)
def test_the_shrinkage_falls_with_the_power_that_the_qualification_says(method):
    """The ratio of the envelopes at two eigenvalues, far beyond the equivalent penalty."""
    if isinstance(method, HeavyBallFlow):
        with pytest.raises(ValueError, match="qualification of HeavyBallFlow"):
            qualification(method)
        return
    phases = np.array([1e3, 1e5])[:, None] + np.linspace(0, np.pi, 100)
    near, far = np.abs(method.shrinkage(phases**2, 1.0)).max(axis=1)
    if qualification(method) == np.inf:
        assert far == 0
        return
    assert np.log(near / far) / np.log(1e4) == pytest.approx(qualification(method), rel=1e-3)


@dataclass(frozen=True)
class Undamped(Filter):
    """A user's own flow, an oscillator without friction, which says only that it is scale free."""

    name: ClassVar[str] = "undamped"
    time_power: ClassVar[int] = 2
    scale_free: ClassVar[bool] = True

    def _shrinkage(self, s, t):
        return np.cos(t * np.sqrt(s))

    def _gain(self, s, t):
        return t * t / 2 * np.sinc(t * np.sqrt(s) / (2 * np.pi)) ** 2


@dataclass(frozen=True)
class HalfLookahead(Recurrence):
    """A user's own iteration, between the heavy ball and Nesterov's method."""

    step: float | str = "auto"
    name: ClassVar[str] = "half-lookahead"
    limit: ClassVar[float] = 2.0

    def coefficients(self, k):  # noqa: ARG002 - every step is the same
        return Coefficients(0.5, 0.25, 1.0)

    def as_flow(self):
        return HeavyBallFlow(0.5 / (2 * self.pace))


OWN = [(Undamped(), [0.0, 0.5, 1.0, 2.5]), (HalfLookahead(), [0, 1, 4, 30])]
each_own = pytest.mark.parametrize(("method", "stops"), OWN, ids=lambda one: str(one)[:12])


def test_a_method_that_says_nothing_has_no_guarantee():
    assert not Undamped().universal_guarantee
    with pytest.raises(ValueError, match=r"No stop of Undamped.*give the eigenvalues"):
        st.calibrate(Undamped())
    assert st.guarantee(Undamped(), 1.0).inflation == np.inf
    assert 1 < st.calibrate(Undamped(), low=0.1, high=10.0).inflation < np.inf
    assert 0 < st.equivalent_stop(Undamped(), 0.5, eigenvalues=S) < np.inf
    assert not HalfLookahead(1.0).universal_guarantee


@each_own
def test_an_unregistered_method_draws_a_path(method, stops):
    X, y = make_data(30, 5)
    drawn = st.path(X, y, method, stops)
    values, vectors = np.linalg.eigh((X - X.mean(0)).T @ (X - X.mean(0)) / 30)
    z = vectors.T @ (X - X.mean(0)).T @ (y - y.mean()) / 30
    gain = drawn.method.gain(values[:, None], stops)
    np.testing.assert_allclose(drawn.coef, (vectors @ (gain * z[:, None])).T, atol=1e-12)


@each_own
def test_an_unregistered_method_has_an_exact_leave_one_out_error(method, stops):
    X, y = make_data(15, 3)
    tuned = st.path(X, y, method, stops).method
    squares = np.zeros(len(stops))
    for i in range(15):
        kept = np.arange(15) != i
        squares += (y[i] - st.path(X[kept], y[kept], tuned, stops).predict(X[[i]])[:, 0]) ** 2
    found = st.leave_one_out(X, y, tuned, stops)
    np.testing.assert_allclose(found.errors, squares / 15, rtol=1e-9)


@each_own
def test_an_unregistered_method_has_an_estimator(method, stops):
    X, y = make_data(40, 5)
    model = st.StoppedRegressorCV(method, stops=stops).fit(X, y)
    assert model.stop_ in stops
    np.testing.assert_allclose(
        model.coef_, st.path(X, y, model.method_, model.stop_).coef[0], rtol=1e-9
    )
    assert model.score(X, y) > 0.1


@pytest.mark.parametrize(
    "method", [Undamped(), HighResolutionFlow(0.5, 0.01), st.HighResolutionAcceleratedFlow(0.5)]
)
def test_the_grid_of_an_oscillating_flow_follows_its_oscillations(method):
    """The default grid has eight stops for each of the fastest oscillations that are visible."""
    rng = np.random.default_rng(3)
    spectrum = st.decompose(rng.standard_normal((60, 4)), rng.standard_normal(60))
    stops = st.default_stops(spectrum, method)
    largest = float(spectrum.eigenvalues.max())
    g = np.abs(method.shrinkage(largest, stops[1:-1]))
    # oscillations of a tenth are visible; those that never end are followed for 300 radians
    visible = (g > 0.1) & (stops[1:-1] * np.sqrt(largest) < 300)
    seen = 1 + np.flatnonzero(visible)[1:]
    gaps = np.diff(stops)[seen - 1] * np.sqrt(largest)
    assert len(seen) > 10
    # a grid has at most a thousand stops, a little fewer than oscillations without end need
    assert gaps.max() <= np.pi / 8 * 1.08


@pytest.mark.parametrize("flow", [HighResolutionFlow(0.7, 0.04), HighResolutionFlow(1e-4, 2.0)])
def test_a_high_resolution_flow_is_settled_and_invisible_when_it_says_so(flow):
    for level in (0.3, 0.01, 1e-6):
        phase, time = flow.visible_until(level)
        assert phase == np.inf
        s = np.geomspace(2.1 * flow.strong_convexity, 1e6, 400)
        later = time * np.geomspace(1, 30, 200)[:, None]
        assert np.abs(flow.shrinkage(s, later)).max() <= level
        for one in (1e-6, 0.01, 0.5, 30.0, 1e5):
            settled = flow.settled_at(one, level)
            g = flow.shrinkage(one, settled * np.geomspace(1, 30, 400))
            assert np.abs(g).max() <= level


def test_a_filter_must_say_how_it_scales_before_it_is_calibrated():
    class Silent(Undamped):
        scale_free = False

    assert Silent().visible_until(0.01) == (np.inf, np.inf)
    assert Silent().settled_at(1.0, 0.01) == np.inf
    with pytest.raises(NotImplementedError, match="Silent must say how it scales"):
        st.equivalent_stop(Silent(), 0.5, eigenvalues=S)


@pytest.mark.parametrize(
    "method", [HeavyBall(0.5, 0.0), SGD(0.5), SGD(0.5, 0.0, 0.3), Nesterov(0.5, momentum=0.0)]
)
def test_an_iteration_without_momentum_is_gradient_descent(method):
    descent = GradientDescent(0.5)
    X, y = make_data(40, 4)
    spectrum = st.decompose(X, y)
    k = np.arange(60)
    np.testing.assert_array_equal(method.gain(S[:, None], k), descent.gain(S[:, None], k))
    for name in ("time_power", "pace", "horizon", "limit", "universal_guarantee", "runs_steps"):
        assert getattr(method, name) == getattr(descent, name)
    np.testing.assert_array_equal(
        st.default_stops(spectrum, method), st.default_stops(spectrum, descent)
    )
    assert st.calibrate(method.in_units_of(0.01)) == st.calibrate(descent.in_units_of(0.01))
    assert method.as_flow() == GradientFlow()


def test_sgd_tunes_its_momentum_like_the_heavy_ball():
    tuned = SGD(momentum="auto").tuned_to(S)
    assert tuned.momentum == HeavyBall().tuned_to(S).momentum
    with pytest.raises(ValueError, match="depends on the spectrum"):
        SGD(momentum="auto", step=0.5).gain(0.5, 3)
    for more in ({"nesterov": True}, {"dampening": 0.2}):
        with pytest.raises(ValueError, match="give the momentum as a number"):
            SGD(momentum="auto", **more)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GradientDescent(np.array([0.1, 0.2])), "step must be a positive number"),
        (lambda: HeavyBall(0.1, np.array(["auto", "auto"])), "momentum must be"),
        (lambda: HeavyBallFlow(np.array([1.0, 2.0])), "damping must be"),
        (lambda: GradientDescent("automatic"), "step must be a positive number"),
        (lambda: st.schedules.StepDecay(0.1, 5, warmup="x"), "warmup must be a whole number"),
    ],
)
def test_parameters_of_a_wrong_kind_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
