"""Weight decay and averages: plain loops, 50 digits, leave-one-out, data of every kind."""

import mpmath as mp
import numpy as np
import pytest
from sklearn.base import clone

import stoptime as st
from iteration_cases import make_data
from stoptime import SGD, Averaged, AveragedFlow, Decayed, GradientDescent, HeavyBall, Nesterov
from stoptime.bounds.certificates import proven_guarantee
from stoptime.methods.schedules import Constant, Cosine
from stoptime.theory.search import stop_with_gain

S = np.array([0.0, 1e-9, 0.03, 0.4, 1.0])
STEPS = [
    GradientDescent(0.9),
    HeavyBall(0.9, 0.8),
    Nesterov(0.9),
    st.NuMethod(0.9),
    SGD(0.9, 0.8, nesterov=True),
    HeavyBall(Cosine(0.9, 200, warmup=10), Constant(0.8)),
]
USED = [
    Decayed(Nesterov(), 0.05),
    Averaged(Nesterov(), "tail"),
    Averaged(HeavyBall(0.3, 0.9), "exponential", 0.95),
    Averaged(st.GradientFlow(), "tail"),
    Averaged(Decayed(GradientDescent(), 0.1), "tail"),
    Decayed(Averaged(Nesterov()), 0.05),
]
KINDS = ("polyak", "tail", "exponential")


@pytest.mark.parametrize("method", STEPS, ids=lambda one: repr(one)[:40])
def test_coupled_decay_is_the_method_with_larger_eigenvalues_and_ends_at_ridge(method):
    k = np.arange(60)
    found = Decayed(method, 0.1)
    gain = found.gain(S[:, None], k)
    np.testing.assert_allclose(gain, method.gain(S[:, None] + 0.1, k), rtol=1e-13)
    np.testing.assert_allclose(found.shrinkage(S[:, None], k), 1 - S[:, None] * gain, atol=1e-14)
    assert not found.reaches_least_squares
    if found.ends_at == np.inf:
        np.testing.assert_allclose(found.gain(S, np.inf), 1 / (S + 0.1), rtol=1e-15)
        np.testing.assert_allclose(found.shrinkage(S, np.inf), 0.1 / (S + 0.1), rtol=1e-14)
        np.testing.assert_allclose(found.gain(S, 5000), 1 / (S + 0.1), rtol=1e-3)


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


@pytest.mark.parametrize("method", STEPS, ids=lambda one: repr(one)[:40])
@pytest.mark.parametrize("kind", KINDS)
def test_averages_are_those_of_the_filters(method, kind):
    k = np.arange(70)
    found = Averaged(method, kind, decay=0.9)
    gains = averaged(list(method.gain(S[:, None], k).T), kind, 0.9)
    shrinkages = averaged(list(method.shrinkage(S[:, None], k).T), kind, 0.9)
    np.testing.assert_allclose(found.gain(S[:, None], k).T, gains, rtol=1e-13)
    np.testing.assert_allclose(found.shrinkage(S[:, None], k).T, shrinkages, atol=1e-14)
    # the limit is that of the iterates
    np.testing.assert_array_equal(found.gain(S[1:], np.inf), method.gain(S[1:], np.inf))
    assert found.reaches_least_squares == method.reaches_least_squares
    one, other = Averaged(Decayed(method, 0.05), kind), Decayed(Averaged(method, kind), 0.05)
    np.testing.assert_allclose(one.gain(S, 40), other.gain(S, 40), rtol=1e-12)
    np.testing.assert_allclose(one.shrinkage(S, 40), other.shrinkage(S, 40), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS[:2])
def test_averages_of_the_flow_against_fifty_digits(kind):
    flow = Averaged(st.GradientFlow(), kind)
    with mp.workdps(50):
        for s, t in ((1e-12, 1e-3), (1e-12, 1e4), (1e-3, 30.0), (0.4, 0.7), (2.0, 1e4)):
            low, high, x = mp.mpf(t / 2 if kind == "tail" else 0), mp.mpf(t), mp.mpf(s)
            g = (mp.exp(-low * x) - mp.exp(-high * x)) / ((high - low) * x)
            assert abs(float(flow.gain(s, t)) / ((1 - g) / x) - 1) < 1e-13
            assert abs(float(flow.shrinkage(s, t)) - g) < 1e-14
    np.testing.assert_allclose(flow.largest_gain([2.0]), 1.5 if kind == "tail" else 1.0)
    assert flow == AveragedFlow(kind)
    assert flow.is_tuned


@pytest.mark.parametrize("method", USED, ids=lambda one: repr(one)[:70])
def test_combinations_are_methods(method):
    X, y = make_data(40, 4)
    model = clone(st.StoppedRegressorCV(method)).fit(X, y)
    assert model.method_ == method.tuned_to(st.decompose(X, y).eigenvalues)
    scaled = model.method_.in_units_of(0.25)
    time = 8 if method.whole_stops else 8 * 0.25 ** (1 / method.time_power)
    expected = model.method_.gain(S, 8) * 0.25
    np.testing.assert_allclose(scaled.gain(S / 0.25, time), expected, rtol=1e-12)
    curve = st.risk(model.method_, [0, 3], eigenvalues=S, signal=S, noise=1.0, n_samples=9)
    g, gain = model.method_.shrinkage(S, 3), model.method_.gain(S, 3)
    assert curve.total[1] == pytest.approx(np.sum(g**2 * S**2) + np.sum(S * gain**2) / 9)


def test_a_vanishing_decay_that_a_schedule_ends_keeps_its_last_iterate():
    method = st.VanishingDecay(Nesterov(Cosine(0.5, 100)))
    s = np.array([0.01, 0.1, 1.0])
    np.testing.assert_array_equal(method.shrinkage(s, np.inf), method.shrinkage(s, 100))
    np.testing.assert_array_equal(method.gain(s, np.inf), method.gain(s, 100))


@pytest.mark.parametrize("kind", [Averaged, st.VanishingDecay])
def test_no_loop_proves_a_guarantee_of_another_run(kind):
    pytest.importorskip("flint")
    assert proven_guarantee(HeavyBall(0.5, 0.9), 10, 0.1, (0.0, 1.0)) is not None
    assert proven_guarantee(kind(HeavyBall(0.5, 0.9)), 10, 0.1, (0.0, 1.0)) is None


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
    assert stop_with_gain(decayed, 20.0) == decayed.horizon
