"""Weight decay and averages: plain loops, differential equations, 50 digits, leave-one-out."""

import copy
import pickle

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import csr_array
from sklearn.base import clone

import stoptime as st
from iteration_cases import make_data
from stoptime import Averaged, AveragedFlow, Decayed
from stoptime.methods.iterations import SGD, GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.schedules import Constant, Cosine, Linear
from stoptime.theory.search import stop_with_gain

S = np.array([0.0, 1e-9, 0.03, 0.4, 1.0])
STEPS = [
    GradientDescent(0.9),
    HeavyBall(0.9, 0.8),
    Nesterov(0.9),
    NuMethod(0.9),
    SGD(0.9, 0.8, nesterov=True),
    HeavyBall(Cosine(0.9, 200, warmup=10), Constant(0.8)),
]
each_step = pytest.mark.parametrize("method", STEPS, ids=lambda one: repr(one)[:40])
USED = [
    Decayed(GradientDescent(), 0.05),
    Decayed(Nesterov(), 0.05),
    Decayed(HeavyBall(0.3, 0.9), 0.05, decoupled=True),
    Averaged(GradientDescent()),
    Averaged(Nesterov(), "tail"),
    Averaged(HeavyBall(0.3, 0.9), "exponential", 0.95),
    Averaged(st.GradientFlow()),
    Averaged(st.GradientFlow(), "tail"),
    Averaged(Decayed(GradientDescent(), 0.1), "tail"),
    Averaged(GradientDescent(Cosine(0.5, 50)), "exponential", 0.9),
    Decayed(Averaged(Nesterov()), 0.05),
]
each_used = pytest.mark.parametrize("method", USED, ids=lambda one: repr(one)[:70])


@each_step
def test_coupled_decay_is_the_method_with_larger_eigenvalues(method):
    decay, k = 0.1, np.arange(60)
    found = Decayed(method, decay)
    np.testing.assert_allclose(
        found.gain(S[:, None], k), method.gain(S[:, None] + decay, k), rtol=1e-14
    )
    np.testing.assert_allclose(
        found.shrinkage(S[:, None], k), 1 - S[:, None] * found.gain(S[:, None], k), atol=1e-14
    )


@pytest.mark.parametrize("method", STEPS[:5], ids=str)
def test_the_limit_of_decay_is_ridge(method):
    found = Decayed(method, 0.1)
    np.testing.assert_allclose(found.gain(S, np.inf), 1 / (S + 0.1), rtol=1e-15)
    np.testing.assert_allclose(found.shrinkage(S, np.inf), 0.1 / (S + 0.1), rtol=1e-14)
    np.testing.assert_allclose(found.gain(S, 20_000), 1 / (S + 0.1), rtol=1e-4)
    assert not found.reaches_least_squares


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("nesterov", [False, True])
def test_decay_of_an_optimiser_on_raw_data(decoupled, nesterov):
    """A plain loop: SGD as torch has it, with the decay of AdamW where it is decoupled."""
    X, y = make_data(40, 4)
    n, decay, eta = 40, 0.07, 0.8
    steps = Cosine(0.2, 100, warmup=5)
    method = Decayed(SGD(steps, eta, nesterov=nesterov), decay, decoupled=decoupled)
    spectrum = st.decompose(X, y, fit_intercept=False)
    drawn = st.path(spectrum, method, np.arange(1, 81)).coef
    b = v = np.zeros(4)
    for k in range(1, 81):
        slope = X.T @ (y - X @ b) / n
        slope = slope if decoupled else slope - decay * b
        v = eta * v + slope
        b = b * (1 - steps(k) * decay) if decoupled else b
        b = b + steps(k) * (slope + eta * v if nesterov else v)
        np.testing.assert_allclose(drawn[k - 1], b, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    "method",
    [
        GradientDescent(0.5),
        HeavyBall(0.5, 0.9),
        Nesterov(0.5, momentum=0.8),
        SGD(0.5, 0.8, nesterov=True),
        SGD(0.5, 0.8, dampening=0.3),
        HeavyBall(Linear(0.5, 20, end=0.2), 0.9),
    ],
    ids=str,
)
def test_decoupled_decay_converges_to_its_limit(method):
    found = Decayed(method, 0.1, decoupled=True)
    s = S[1:]
    np.testing.assert_allclose(found.gain(s, 4000), found.gain(s, np.inf), rtol=1e-11)
    np.testing.assert_allclose(found.shrinkage(s, 4000), found.shrinkage(s, np.inf), rtol=1e-11)
    np.testing.assert_allclose(
        found.shrinkage(s, np.inf) + s * found.gain(s, np.inf), 1, rtol=1e-14
    )


@pytest.mark.parametrize(
    "method",
    [
        GradientDescent(1.0),
        HeavyBall(1.0, 0.5),
        SGD(1.0, 0.9, dampening=0.5),
        SGD(1.0, 0.9, nesterov=True),
        NuMethod(1.0),
    ],
    ids=str,
)
def test_decoupled_decay_diverges_from_its_largest_eigenvalue_on(method):
    found = Decayed(method, 0.2, decoupled=True)
    below, above = np.array([0.999, 1.001]) * found.largest_eigenvalue
    found.check_convergence(below)
    with pytest.raises(ValueError, match="diverges"):
        found.check_convergence(above)
    ends = found.gain(np.array([[below], [above]]), [4000, 8000])
    np.testing.assert_allclose(ends[0], found.gain(below, np.inf), rtol=0.05)
    assert abs(ends[1, 1]) > 20 * abs(ends[1, 0])


def test_decoupled_decay_is_coupled_without_momentum():
    k = np.arange(50)
    coupled, decoupled = (
        Decayed(GradientDescent(0.7), 0.2, decoupled=word) for word in (False, True)
    )
    np.testing.assert_allclose(
        decoupled.gain(S[:, None], k), coupled.gain(S[:, None], k), rtol=1e-13
    )
    np.testing.assert_allclose(
        decoupled.shrinkage(S[:, None], k), coupled.shrinkage(S[:, None], k), rtol=1e-13
    )


def averaged(values, kind, decay):
    """Average a list whose first entry is the start, as torch's ``AveragedModel`` does."""
    found = values[:1]
    for k in range(1, len(values)):
        if kind == "polyak":
            found.append(sum(values[1 : k + 1]) / k)
        elif kind == "tail":
            tail = values[k // 2 + 1 : k + 1]
            found.append(sum(tail) / len(tail))
        else:
            found.append(values[1] if k == 1 else decay * found[-1] + (1 - decay) * values[k])
    return found


@each_step
@pytest.mark.parametrize("kind", ["polyak", "tail", "exponential"])
def test_averages_are_those_of_the_filters(method, kind):
    k = np.arange(70)
    found = Averaged(method, kind, decay=0.9)
    gains = averaged(list(method.gain(S[:, None], k).T), kind, 0.9)
    shrinkages = averaged(list(method.shrinkage(S[:, None], k).T), kind, 0.9)
    np.testing.assert_allclose(found.gain(S[:, None], k).T, gains, rtol=1e-13)
    np.testing.assert_allclose(found.shrinkage(S[:, None], k).T, shrinkages, atol=1e-14)


@pytest.mark.parametrize("kind", ["polyak", "tail", "exponential"])
def test_gains_of_averages_against_fifty_digits(kind):
    mp.mp.dps = 50
    method = Averaged(GradientDescent(1.0), kind, decay=0.75)
    for s in (1e-12, 1e-6, 1e-3, 0.3, 0.999):
        exact = [(1 - (1 - mp.mpf(s)) ** k) / mp.mpf(s) for k in range(101)]
        exact = averaged(exact, kind, mp.mpf(0.75))
        for k in (1, 2, 31, 100):
            assert abs(float(method.gain(s, k)) / exact[k] - 1) < 1e-13


@pytest.mark.parametrize("kind", ["polyak", "tail"])
def test_averages_of_gradient_flow_over_time(kind):
    mp.mp.dps = 50
    flow = st.GradientFlow()
    method = Averaged(flow, kind)
    for s in (1e-12, 1e-3, 0.4, 2.0):
        for t in (1e-3, 0.7, 30.0, 1e4):
            first = t / 2 if kind == "tail" else 0.0
            low, high, x = mp.mpf(first), mp.mpf(t), mp.mpf(s)
            g = (mp.exp(-low * x) - mp.exp(-high * x)) / ((high - low) * x)
            assert abs(float(method.gain(s, t)) / ((1 - g) / x) - 1) < 1e-13
            assert abs(float(method.shrinkage(s, t)) - g) < 1e-14
        mean = quad(lambda u, s=s: float(flow.gain(s, u)), 1.5 if kind == "tail" else 0, 3)[0]
        assert method.gain(s, 3.0) == pytest.approx(mean / (1.5 if kind == "tail" else 3), rel=1e-9)
    assert method.gain(0.0, 3.0) == pytest.approx(2.25 if kind == "tail" else 1.5)


def test_averages_and_decay_can_be_exchanged():
    k, decay = np.arange(40), 0.1
    for kind in ("polyak", "tail", "exponential"):
        one = Averaged(Decayed(Nesterov(0.5), decay), kind, 0.9)
        other = Decayed(Averaged(Nesterov(0.5), kind, 0.9), decay)
        np.testing.assert_allclose(one.gain(S[:, None], k), other.gain(S[:, None], k), rtol=1e-12)
        np.testing.assert_allclose(
            one.shrinkage(S[:, None], k), other.shrinkage(S[:, None], k), rtol=1e-12
        )


def test_the_limit_of_an_average_is_that_of_the_iterates():
    s = S[1:]
    for method in (Nesterov(0.5), GradientDescent(Cosine(0.5, 30)), Decayed(Nesterov(0.5), 0.1)):
        found = Averaged(method)
        np.testing.assert_array_equal(found.gain(s, np.inf), method.gain(s, np.inf))
        np.testing.assert_array_equal(found.shrinkage(s, np.inf), method.shrinkage(s, np.inf))
        assert found.reaches_least_squares == method.reaches_least_squares
    assert st.calibrate(Averaged(st.GradientFlow())).inflation == pytest.approx(1.0079, abs=1e-3)


@each_used
def test_combinations_are_methods(method):
    assert method == copy.deepcopy(method) == pickle.loads(pickle.dumps(method))
    assert hash(method) == hash(copy.copy(method))
    # names of the package are imported when they are first used, so vars(st) may lack them
    names = {name: getattr(st, name) for name in st.__all__} | {"Cosine": Cosine}
    assert eval(repr(method), names) == method
    X, y = make_data(40, 4)
    model = clone(st.StoppedRegressorCV(method)).fit(X, y)
    assert model.method_ == method.tuned_to(st.decompose(X, y).eigenvalues)
    scaled = model.method_.in_units_of(0.25)
    time = 8 if method.whole_stops else 8 * 0.25 ** (1 / method.time_power)
    np.testing.assert_allclose(
        scaled.gain(S / 0.25, time), model.method_.gain(S, 8) * 0.25, rtol=1e-12
    )
    curve = st.risk(model.method_, [0, 3], eigenvalues=S, signal=S, noise=1.0, n_samples=9)
    g, gain = model.method_.shrinkage(S, 3), model.method_.gain(S, 3)
    assert curve.total[1] == pytest.approx(np.sum(g**2 * S**2) + np.sum(S * gain**2) / 9)


@pytest.mark.parametrize("method", USED[:6], ids=lambda one: repr(one)[:70])
def test_combinations_on_data_of_every_kind(method):
    X, y = make_data(40, 6)
    X = X - 1
    X[np.abs(X) < 0.2] = 0
    stops = [0, 1, 30, np.inf]
    dense = st.path(X, y, method, stops).coef
    np.testing.assert_allclose(st.path(csr_array(X), y, method, stops).coef, dense, atol=1e-11)
    targets = np.column_stack([y] * 17) * np.arange(1, 18)
    together = st.leave_one_out(X, targets, method, stops).errors
    alone = st.leave_one_out(X, y, method, stops).errors
    np.testing.assert_allclose(together / np.arange(1, 18) ** 2, alone[:, None] + 0 * together)
    twice = np.append(np.arange(40), np.arange(5))
    weights = np.where(np.arange(40) < 5, 2.0, 1.0)
    repeated = st.path(X[twice], y[twice], method, stops).coef
    weighted = st.StoppedRegressor(method, stop=30).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(weighted.coef_, repeated[2], rtol=1e-10)
    single = st.StoppedRegressorCV(method).fit(X.astype(np.float32), y.astype(np.float32))
    assert single.coef_.dtype == np.float32
    assert st.StoppedRegressorCV(method).fit(np.ones((9, 2)), np.arange(9.0)).stop_ == 0
    assert not st.StoppedRegressor(method, stop=3).fit(np.ones((1, 2)), [2.0]).coef_.any()


def test_decay_far_above_the_eigenvalues():
    X, y = make_data(30, 3)
    for scale in (1e-75, 1e75, 1e150):
        model = st.StoppedRegressorCV(Decayed(Nesterov(), 0.05)).fit(X * scale, y)
        assert np.isfinite(model.coef_).all()
        assert (model.score(X * scale, y) > 0.1) == (scale > 1)


def test_plans_with_decay():
    X, y = make_data(60, 5)
    planned = st.plan(0.2, X=X, y=y, method=Decayed(GradientDescent(), 0.05))
    assert 0 < planned.iterations < 100
    assert planned.run.penalty == pytest.approx(0.2, rel=0.3)
    assert "decayed (gradient-descent (lr" in str(planned)
    # the path ends at ridge with its own decay as penalty, where the guarantee is perfect
    late = st.plan(0.05, X=X, y=y, method=Decayed(GradientDescent(), 0.05))
    assert late.iterations > 100
    assert late.run.inflation == pytest.approx(1, abs=1e-6)
    # a gain that is never reached is that of the last stop
    decayed = Decayed(GradientDescent(0.5), 0.1)
    assert stop_with_gain(decayed, 20.0) == stop_with_gain(decayed, 1e9) == decayed.horizon


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Decayed(Nesterov(), 0.0), "weight_decay must be a positive number"),
        (lambda: Decayed(Averaged(Nesterov()), 0.1, decoupled=True), "needs an iteration"),
        (lambda: Averaged(Averaged(Nesterov())), "average of averages"),
        (lambda: Averaged(st.GradientFlow(), "exponential"), "no closed form"),
        (lambda: Averaged(Nesterov(), "mean"), 'kind must be one of "polyak", "tail"'),
        (lambda: Averaged(Nesterov(), "exponential", 1.0), "decay must be at least 0"),
        (lambda: Decayed(HeavyBall(3.9, 0.99), 0.3).tuned_to([1.0]), "diverges"),
    ],
)
def test_bad_combinations_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "given",
    ["nesterov", st.ConjugateGradient(), st.SpectralCutoff(), st.AcceleratedFlow()],
    ids=str,
)
def test_only_iterations_are_combined(given):
    for make in (Averaged, lambda one: Decayed(one, 0.1)):
        with pytest.raises(TypeError, match=r"needs an iteration, such as Nesterov\(\)"):
            make(given)


def test_a_kind_of_average_is_no_parameter_to_tune():
    assert AveragedFlow("tail").is_tuned
    np.testing.assert_allclose(AveragedFlow().largest_gain([2.0, 6.0]), [1.0, 3.0])  # t/2
    assert Averaged(GradientDescent(0.5)).is_tuned
    assert not Averaged(GradientDescent()).is_tuned
    assert not Decayed(Averaged(GradientDescent()), 0.1).is_tuned
