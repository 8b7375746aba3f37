"""What methods claim about themselves, checked numerically, and methods that claim nothing."""

import copy
import json
import pickle
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone

import stoptime as st
from contract import refit
from iteration_cases import AUTO, make_data
from stoptime import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.base import as_filter, settled_at
from stoptime.methods.registry import ALL_METHODS, as_content, from_content
from stoptime.methods.schedules import Constant, Cosine, Linear
from stoptime.theory.calibration import largest_possible
from stoptime.theory.search import risk_ratio, stop_with_gain

S = np.array([0.05, 0.2, 0.5, 1.0])  # of a spectrum to which every method can be tuned
TUNED = [cls().tuned_to(S) for cls in ALL_METHODS.values()]
FILTERS = [method for method in TUNED if isinstance(method, st.Filter)]
MORE = [
    st.IteratedRidge(9),
    st.Butterworth(9),
    st.AcceleratedFlow(0.3),
    st.AcceleratedFlow(9.0),
    st.HeavyBallFlow(1e-3),
    st.HeavyBallFlow(3.0),
    st.HighResolutionFlow(1.0, 1e-6),
    st.HighResolutionAcceleratedFlow(0.5),
    GradientDescent(1.9),
    Nesterov(1.3, 1.0),
    Nesterov(1.0, momentum=0.99),
    HeavyBall(1.0, 0.99),
    NuMethod(1.0, 0.3),
    st.SGD(1.0, 0.9, nesterov=True),
    st.SGD(0.8, 0.7, dampening=0.4),
    GradientDescent(Linear(0.9, 5, end=1.0)),
    HeavyBall(Cosine(0.3, 40, end=1.0), Linear(0.9, 40, end=0.8)),
    Nesterov(Constant(1.0, warmup=7)),
    st.Decayed(Nesterov(1.0), 0.1),
    st.Decayed(st.Averaged(GradientDescent(1.0)), 0.05),
    st.VanishingDecay(Nesterov(1.0)),
    st.Averaged(HeavyBall(1.0, 0.9), "tail"),
    st.Averaged(GradientDescent(1.0), "exponential", 0.9),
    st.OptimalIteration(1.0, penalty=0.1),
]
each_registered = pytest.mark.parametrize("method", TUNED, ids=str)
each_case = pytest.mark.parametrize("method", [*FILTERS, *MORE], ids=str)


def test_a_method_that_does_not_oscillate_falls_monotonically():
    monotone = [method for method in [*FILTERS, *MORE] if not method.oscillates]
    assert {method.name for method in monotone} == {
        "ridge", "gradient-flow", "critical-flow", "iterated-ridge", "butterworth",
        "spectral-cutoff",
    }  # fmt: skip
    for method in monotone:
        t = np.concatenate([[0.0], np.geomspace(1e-4, 1e6, 2000)])
        t = np.unique(np.round(t)) if method.whole_stops else t
        g = method.shrinkage(np.geomspace(1e-6, 1e6, 60)[:, None], t)
        assert np.all(np.diff(g, axis=1) <= 0)
        assert np.all((g >= 0) & (g <= 1))


@each_registered
def test_what_is_true_of_every_method(method):
    assert method.is_tuned
    assert method.tuned_to(S) == method
    counts = isinstance(method, st.SpectralCutoff)
    assert method.whole_stops == (method.stop_meaning in {"components", "iterations"})
    assert (method.horizon < np.inf) == (method.whole_stops and not counts)
    untuned = type(method)()
    z = np.array([[1.0, -2.0], [0.5, 0.0], [2.0, 1.0], [-1.0, 3.0]])
    stops = np.array([0.0, 1.0, 3.0])
    if method.name in st.ADAPTIVE:
        with pytest.raises(ValueError, match="depends on the response"):
            method.follow(S, z, stops, S)
    else:
        components, gains = method.follow(S, z, stops, S)
        assert gains.shape == (4, 3, 1 if isinstance(method, st.Filter) else 2)
        np.testing.assert_allclose(gains * z[:, None, :], components, atol=1e-12)
    if not isinstance(method, st.Filter):
        assert not hasattr(method, "gain")
        with pytest.raises(ValueError, match="depends on the response"):
            as_filter(method)
        return
    if not untuned.is_tuned:
        assert untuned.largest_gain(3.0) == np.inf
        with pytest.raises(ValueError, match="tuned_to"):
            untuned.gain(0.5, 3)
    if isinstance(method, st.Iteration):
        assert method.as_flow().time_power == method.time_power
    if isinstance(method, st.Iteration) and method.runs_steps:
        with pytest.raises(ValueError, match="iterations is beyond"):
            method.shrinkage(0.5, 1e11)
    else:
        assert method.shrinkage(0.5, 1e11) == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("method", [*TUNED, *AUTO, *MORE], ids=str)
def test_a_method_is_a_value_that_can_be_printed_pickled_and_written(method):
    assert method == copy.deepcopy(method) == pickle.loads(pickle.dumps(method))
    assert hash(method) == hash(copy.copy(method)) == hash(clone(method))
    assert from_content(json.loads(json.dumps(as_content(method)))) == method
    # names of the package are imported when they are first used, so vars(st) may lack them
    known = {name: getattr(st, name) for name in st.__all__} | vars(st.schedules)
    again = eval(repr(method), known)
    assert again == (st.SpectralCutoff() if method.name == "spectral-cutoff" else method)
    with pytest.raises(AttributeError):
        method.name = "another"


REACHES = (1e4, 1e8)
GUARANTEED = [
    *(lambda _, one=one: one for one in (st.Ridge(), st.GradientFlow(), st.CriticalFlow())),
    lambda _: st.IteratedRidge(9),
    lambda _: st.Butterworth(9),
    lambda _: st.Averaged(st.GradientFlow()),
    lambda _: st.Averaged(st.GradientFlow(), "tail"),
    lambda _: st.AcceleratedFlow(2.0),
    lambda _: st.AcceleratedFlow(9.0),
    lambda reach: GradientDescent(1 / reach),
    lambda reach: Nesterov(1 / reach),
    lambda reach: NuMethod(1 / reach, 0.5),
]
NOT_GUARANTEED = [
    lambda _: st.AcceleratedFlow(1.5),
    lambda _: st.HeavyBallFlow(1.0),
    lambda _: st.HighResolutionFlow(0.1, 0.1),
    lambda reach: Nesterov(1 / reach, 1.0),
    lambda reach: Nesterov(1 / reach, momentum=1 - 1 / np.sqrt(reach)),
    lambda reach: HeavyBall(1 / reach, 1 - 1 / np.sqrt(reach)),
    lambda reach: NuMethod(1 / reach, 0.4),
]


@pytest.mark.parametrize("make", [*GUARANTEED, *NOT_GUARANTEED], ids=lambda make: str(make(1e8)))
def test_a_universal_guarantee_holds_for_eigenvalues_of_any_size(make):
    """The largest ratio of risks at the stop with the gain of ridge, for eigenvalues up to ..."""
    rng = np.random.default_rng(0)
    found = []
    for reach in REACHES:
        method = make(reach)
        stop = stop_with_gain(method, 1.0)
        phases = [rng.uniform(u, 10 * u, 200) for u in np.geomspace(1, np.sqrt(reach) / 10, 4)]
        x = np.concatenate([np.geomspace(1e-3, 10, 200), *(phase**2 for phase in phases)])
        found.append(risk_ratio(method, x, np.round(stop) if method.whole_stops else stop).max())
    near, far = found
    assert make(1e8).universal_guarantee == (make in GUARANTEED)
    if make in GUARANTEED:
        # an iteration of a hundred steps differs a little from its flow
        assert far <= 1.05 * near < 3
    else:
        assert far > 1.5 * near


@each_case
def test_no_gain_exceeds_its_bound(method):
    most = method.largest_eigenvalue if isinstance(method, st.Iteration) else np.inf
    s = np.concatenate([[0.0], np.geomspace(1e-9, 1, 200) * min(most, 1e6)])
    stops = np.arange(100) if method.whole_stops else np.geomspace(1e-6, 1e6, 100)
    largest = method.gain(s[s < most][:, None], stops).max(axis=0)
    assert np.all(largest <= method.largest_gain(stops) * (1 + 1e-12))
    assert method.largest_gain(np.inf) == np.inf


@pytest.mark.parametrize(
    "method", [one for one in [*FILTERS, *MORE] if isinstance(one, st.Iteration)], ids=str
)
def test_an_iteration_diverges_from_its_largest_eigenvalue_on(method):
    most = method.largest_eigenvalue
    assert largest_possible(method) <= most
    method.check_convergence(0.999 * most)
    g = np.abs(method.shrinkage([0.999 * most, 1.001 * most], 9000))
    assert g[0] < 1
    assert g[1] > 10
    with pytest.raises(ValueError, match="diverges"):
        method.check_convergence(most * (1 + 1e-12))


@dataclass(frozen=True)
class Undamped(st.Filter):
    """A user's own flow, an oscillator without friction, which says only that it is scale free."""

    name: ClassVar[str] = "undamped"
    time_power: ClassVar[int] = 2
    scale_free: ClassVar[bool] = True

    def _shrinkage(self, s, t):
        return np.cos(t * np.sqrt(s))

    def _gain(self, s, t):
        return t**2 / 2 * np.sinc(t * np.sqrt(s) / (2 * np.pi)) ** 2


@dataclass(frozen=True)
class HalfLookahead(st.Recurrence):
    """A user's own iteration, between the heavy ball and Nesterov's method."""

    step: float | str = "auto"
    name: ClassVar[str] = "half-lookahead"
    limit: ClassVar[float] = 2.0

    def coefficients(self, k):  # noqa: ARG002 - every step is the same
        return 0.5, 0.25, 1.0

    def as_flow(self):
        return st.HeavyBallFlow(0.5 / (2 * self.pace))


OWN = [(Undamped(), [0.0, 0.5, 1.0, 2.5]), (HalfLookahead(), [0, 1, 4, 30])]
OWN += [(st.HighResolutionAcceleratedFlow(), [0.5, 2.0, 6.0])]


@pytest.mark.parametrize(("method", "stops"), OWN, ids=lambda one: str(one)[:12])
def test_an_unregistered_method_has_paths_estimators_and_exact_leave_one_out(method, stops):
    X, y = make_data(15, 3)
    drawn = st.path(X, y, method, stops)
    values, vectors = np.linalg.eigh((X - X.mean(0)).T @ (X - X.mean(0)) / 15)
    z = vectors.T @ (X - X.mean(0)).T @ (y - y.mean()) / 15
    gain = drawn.method.gain(values[:, None], stops)
    np.testing.assert_allclose(drawn.coef, (vectors @ (gain * z[:, None])).T, atol=1e-12)
    refits = refit(X, y, drawn.method, stops)[:, :, 0]
    found = st.leave_one_out(X, y, drawn.method, stops)
    np.testing.assert_allclose(found.errors, ((refits - y) ** 2).mean(axis=1), rtol=1e-9)
    model = st.StoppedRegressorCV(method, stops=stops).fit(X, y)
    expected = st.path(X, y, model.method_, model.stop_).coef[0]
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9)


def test_a_method_that_says_nothing_has_no_guarantee():
    class Silent(Undamped):
        scale_free = False

    assert not Undamped().universal_guarantee
    with pytest.raises(ValueError, match=r"No stop of Undamped.*give the eigenvalues"):
        st.calibrate(Undamped())
    assert st.guarantee(Undamped(), 1.0).inflation == np.inf
    assert 1 < st.calibrate(Undamped(), low=0.1, high=10.0).inflation < np.inf
    assert 0 < st.equivalent_stop(Undamped(), 0.5, eigenvalues=S) < np.inf
    assert Silent().visible_until(0.01) == (np.inf, np.inf)
    assert settled_at(Silent(), 1.0, 0.01) == np.inf
    with pytest.raises(NotImplementedError, match="Silent must say how it scales"):
        st.equivalent_stop(Silent(), 0.5, eigenvalues=S)


@pytest.mark.parametrize(
    "method", [Undamped(), st.HighResolutionFlow(0.5, 0.01), st.HighResolutionAcceleratedFlow(0.5)]
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


@pytest.mark.parametrize(
    "method", [HeavyBall(0.5, 0.0), st.SGD(0.5, 0.0, 0.3), Nesterov(0.5, momentum=0.0)]
)
def test_an_iteration_without_momentum_is_gradient_descent(method):
    descent = GradientDescent(0.5)
    spectrum = st.decompose(*make_data(40, 4))
    k = np.arange(60)
    np.testing.assert_array_equal(method.gain(S[:, None], k), descent.gain(S[:, None], k))
    for name in ("time_power", "pace", "horizon", "limit", "universal_guarantee", "runs_steps"):
        assert getattr(method, name) == getattr(descent, name)
    grids = [st.default_stops(spectrum, one) for one in (method, descent)]
    np.testing.assert_array_equal(*grids)
    assert st.calibrate(method.in_units_of(0.01)) == st.calibrate(descent.in_units_of(0.01))
    assert method.as_flow() == st.GradientFlow()


@pytest.mark.parametrize("method", [st.Adam(), st.AdaGrad(), st.ConjugateGradient()], ids=str)
def test_what_needs_a_filter_is_refused_with_advice(method):
    X, y = make_data(20, 3)
    calls = [
        lambda: st.StoppedRegressorCV(method).fit(X, y),
        lambda: st.StoppedRegressorCV(method, rule="path-gcv").fit(X, y),
        lambda: st.StoppedRegressor(method).fit(X, y),
        lambda: st.leave_one_out(X, y, method, [3]),
        lambda: st.left_out_predictions(X, y, method, 3),
        lambda: st.path_gcv(st.decompose(X, y), method, [3]),
        lambda: st.risk(method, [1], eigenvalues=S, signal=S, noise=1, n_samples=9),
        lambda: st.equivalent_stop(method, 0.1),
        lambda: st.equivalent_penalty(method, 5),
        lambda: st.plan(0.1, lr=0.1, method=method),
        lambda: st.bounds.risk_inflation(method),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"depends on the response.*nesterov.*cv=5.*=.sure."):
            call()
    with pytest.raises(ValueError, match=r"whole numbers.*1\.5"):
        st.path(X, y, method, [1.5])


SGD, Averaged, Decayed, made = st.SGD, st.Averaged, st.Decayed, st.schedules
OPTIMAL = st.OptimalIteration(1.0, penalty=0.1)
BAD_VALUES = [
    (lambda: st.Adam(lr=0), "lr must be a positive number"),
    (lambda: st.Adam(betas=(0.9, 1.0)), "betas must be at least 0 and below 1"),
    (lambda: st.Adam(betas=0.9), "betas must be two numbers"),
    (lambda: st.RMSProp(alpha=-0.1), "alpha must be"),
    (lambda: st.AdaGrad(eps=0.0), "eps must be a positive number"),
    (lambda: st.AdamW(weight_decay=2.0), "weight_decay must be"),
    (lambda: st.path(*make_data(9, 2), st.Adam(), [np.inf]), "has no limit"),
    (lambda: Decayed(Nesterov(), 0.0), "weight_decay must be a positive number"),
    (lambda: Averaged(Averaged(Nesterov())), "average of averages"),
    (lambda: Averaged(st.GradientFlow(), "exponential"), "no closed form"),
    (lambda: Averaged(Nesterov(), "mean"), 'kind must be one of "polyak", "tail"'),
    (lambda: Averaged(Nesterov(), "exponential", 1.0), "decay must be at least 0"),
    (lambda: Decayed(HeavyBall(3.9, 0.99), 0.3).tuned_to([1.0]), "diverges"),
    *((lambda v=v: HeavyBall(momentum=v), "momentum must be.*below 1") for v in (1, -0.1, True)),
    *((lambda v=v: NuMethod(step=v), "step must be") for v in (0, np.inf, "fast", [0.1, 0.2])),
    (lambda: Nesterov(momentum=Constant(1.0)), "momentum must be at least 0 and below 1"),
    (lambda: GradientDescent(lambda _: np.nan), "finite non-negative numbers; got nan"),
    (lambda: HeavyBall(0.1, np.array(["auto", "auto"])), "momentum must be"),
    (lambda: SGD(0.1, 0.0, nesterov=True), "needs a momentum above zero"),
    (lambda: SGD(0.1, 0.9, dampening=0.5, nesterov=True), "no dampening"),
    (lambda: SGD(momentum="auto", nesterov=True), "give the momentum as a number"),
    (lambda: Cosine(0.0, 10), "peak must be a positive number"),
    (lambda: Cosine(0.1, 0), "total must be a whole number of at least 1"),
    (lambda: Cosine(0.1, 10, warmup=10), "warmup must be less than total"),
    (lambda: Cosine(0.1, 10, end=-1.0), "values of a schedule must be finite non-negative"),
    (lambda: made.StepDecay(0.1, 0), "every must be a whole number"),
    (lambda: made.StepDecay(0.1, 5, factor=1.5), "factor must be a number between 0 and 1"),
    (lambda: made.StepDecay(0.1, 5, warmup="x"), "warmup must be a whole number"),
    (lambda: made.Polynomial(0.1, 5, power=-1.0), "power must be a positive number"),
    (lambda: made.OneCycle(0.1, 10, rise=0.05), "must exceed one iteration"),
    (lambda: made.Listed((0.0, 0.0)), "not all of them zero"),
    (lambda: made.Listed(()), "A schedule needs a list of values"),
]
BAD_TYPES = [
    (lambda: st.VanishingDecay(OPTIMAL), "without decay"),
    (lambda: Averaged("nesterov"), r"needs an iteration, such as Nesterov\(\)"),
    (lambda: Averaged(st.ConjugateGradient()), "needs an iteration"),
    (lambda: Decayed(st.AcceleratedFlow(), 0.1), "needs an iteration"),
]


@pytest.mark.parametrize(("make", "message"), [*BAD_VALUES, *BAD_TYPES])
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(TypeError if (make, message) in BAD_TYPES else ValueError, match=message):
        make()
