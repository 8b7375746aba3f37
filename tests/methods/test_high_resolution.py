"""The high-resolution flow of Nesterov's convex method: formula, equation of motion, iterates."""

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import stoptime as st

STEPS = [0.04, 1.0]
FRICTIONS = [1.0, 3.0, 7.5]


def exact(s, t, step, friction):
    """Shrinkage and gain from the definition with many digits; ω may be imaginary."""
    with mp.workdps(60):
        s, t, step = mp.mpf(s), mp.mpf(t), mp.mpf(step)
        nu = (mp.mpf(friction) - 1) / 2
        square = s - step * s**2 / 4
        g = mp.exp(-mp.sqrt(step) * s * t / 2) * mp.hyp0f1(nu + 1, -square * t**2 / 4)
        return float(g), float((1 - g) / s)


@pytest.mark.parametrize("friction", FRICTIONS)
@pytest.mark.parametrize("step", STEPS)
def test_formula_against_many_digits(step, friction, rng):
    flow = st.HighResolutionAcceleratedFlow(step, friction)
    for _ in range(150):
        # eigenvalues below and above 4/ε, from where on nothing oscillates
        s = np.exp(rng.uniform(-12, 4)) / step
        t = np.exp(rng.uniform(-8, 3)) / np.sqrt(s)
        g, gain = exact(s, t, step, friction)
        assert abs(float(flow.shrinkage(s, t)) - g) < 1e-13
        assert float(flow.gain(s, t)) == pytest.approx(gain, rel=1e-12)


@pytest.mark.parametrize("friction", FRICTIONS)
@pytest.mark.parametrize("s", [0.3, 2.0, 30.0])
def test_it_solves_its_equation_of_motion(s, friction):
    step, t0 = 0.3, 1e-3
    root = np.sqrt(step)
    flow = st.HighResolutionAcceleratedFlow(step, friction)

    def motion(t, x):
        pull = (1 + friction * root / (2 * t)) * s * x[0]
        return [x[1], -(friction / t + root * s) * x[1] - pull]

    slope = (exact(s, t0 * 1.001, step, friction)[0] - exact(s, t0 * 0.999, step, friction)[0]) / (
        0.002 * t0
    )
    start = [exact(s, t0, step, friction)[0], slope]
    t = np.array([0.5, 2.0, 8.0])
    found = solve_ivp(motion, (t0, 8), start, t_eval=t, method="DOP853", rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(flow.shrinkage(s, t), found.y[0], atol=1e-7)


@pytest.mark.parametrize("friction", [3.0, 5.0])
def test_it_follows_nesterov_to_second_order(friction):
    """Halving √ε divides its distance from the iterates by four, and that of the flow by two."""
    s = np.linspace(0.01, 1, 150)[:, None]
    fine, coarse = [], []
    for root in (0.1, 0.05, 0.025):
        k = np.arange(1, round(8 / root) + 1)
        flow = st.HighResolutionAcceleratedFlow(root**2, friction)
        iterates = st.as_iteration(flow).shrinkage(s, k)
        t = root * (k + (friction - 2) / 2)
        fine.append(np.abs(iterates - flow.shrinkage(s, t)).max())
        coarse.append(np.abs(iterates - st.AcceleratedFlow(friction).shrinkage(s, t)).max())
    np.testing.assert_allclose(np.divide(fine[:-1], fine[1:]), 4, rtol=0.1)
    np.testing.assert_allclose(np.divide(coarse[:-1], coarse[1:]), 2, rtol=0.1)
    assert fine[0] < 0.2 * coarse[0]


def test_limits_and_units():
    flow = st.HighResolutionAcceleratedFlow(0.5)
    s = np.array([0.0, 1e-300, 0.3, 7.9, 8.1, 1e6])
    np.testing.assert_array_equal(flow.shrinkage(s, 0.0), 1)
    np.testing.assert_array_equal(flow.gain(s, 0.0), 0)
    assert flow.gain(0.0, 2.0) == pytest.approx(np.sqrt(0.5) + 4 / 8)
    np.testing.assert_array_equal(flow.shrinkage(s[1:], np.inf), 0)
    t = np.geomspace(1e-3, 1e3, 50)
    g = flow.shrinkage(s[:, None], t)
    assert np.all(np.abs(g) <= 1)
    assert np.all(flow.gain(s[:, None], t) <= flow.largest_gain(t) * (1 + 1e-12))
    # eigenvalues in units of a penalty
    scaled = flow.in_units_of(3.0)
    np.testing.assert_allclose(
        scaled.shrinkage(s[2:] / 3, 2.0 * np.sqrt(3)), flow.shrinkage(s[2:], 2.0), atol=1e-13
    )
    small = st.HighResolutionAcceleratedFlow(1e-12).shrinkage(s[2:4], 3.0)
    np.testing.assert_allclose(small, st.AcceleratedFlow().shrinkage(s[2:4], 3.0), atol=1e-4)
    for level in (1e-2, 1e-4):
        for value in (0.01, 1.0, 7.0, 100.0):
            late = flow.settled_at(value, level) * np.geomspace(1, 100, 500)
            assert np.all(np.abs(flow.shrinkage(value, late)) <= level)


def test_it_is_a_method_like_any_other(rng):
    X = rng.normal(size=(30, 4))
    y = X @ rng.normal(size=4) + rng.normal(size=30)
    flow = st.HighResolutionAcceleratedFlow()
    s = np.linalg.eigvalsh(X.T @ X / 30)
    assert flow.tuned_to(s).step == pytest.approx(1 / s[-1])
    stops = [0.5, 2.0, 6.0]
    tuned = flow.tuned_to(s)
    squares = np.zeros(3)
    for i in range(30):
        kept = np.arange(30) != i
        left_out = st.path(X[kept], y[kept], tuned, stops, fit_intercept=False)
        squares += (y[i] - left_out.predict(X[[i]])[:, 0]) ** 2
    found = st.leave_one_out(X, y, tuned, stops, fit_intercept=False)
    np.testing.assert_allclose(found.errors, squares / 30, rtol=1e-9)
    assert st.StoppedRegressorCV(flow).fit(X, y).score(X, y) > 0.3


@pytest.mark.parametrize(
    ("arguments", "message"), [({"step": 0.0}, "step"), ({"friction": 201.0}, "friction")]
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        st.HighResolutionAcceleratedFlow(**arguments)


def test_a_flow_knows_its_iteration():
    expected = st.Nesterov(0.1, friction=3.0)
    assert st.as_iteration(st.AcceleratedFlow(), 0.1) == expected
    assert st.as_iteration(st.HighResolutionAcceleratedFlow(0.1)) == expected
    with pytest.raises(TypeError, match="not the limit of any iteration"):
        st.as_iteration(st.CriticalFlow(), 0.1)
