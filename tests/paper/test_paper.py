"""The paper, statement by statement: its observations as numbers, and its errata."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import j1

import stoptime as st
from stoptime import bounds
from stoptime.paper.reproduction import (
    INVERSE_PENALTIES,
    dense_signal,
    paper_curves,
    polynomial_spectra,
    random_spectra,
)


@pytest.fixture(scope="module")
def rows():
    return {title: paper_curves(s) for title, s in polynomial_spectra().items()}


def halving_point(values):
    """1/λ at which a falling curve first reaches half of where it began."""
    return INVERSE_PENALTIES[np.argmax(values < values[0] / 2)]


def biases_at(times, eigenvalues):
    """Bias of ridge, gradient flow and accelerated flow at the same stops t."""
    known = {"eigenvalues": eigenvalues, "signal": dense_signal(), "noise": 1.0, "n_samples": 500}
    return {
        m: st.risk(m, times, **known).bias for m in ("ridge", "gradient-flow", "accelerated-flow")
    }


@pytest.mark.parametrize("title", ["ν = 0.1", "ν = 0.5"])
def test_ridge_bias_falls_faster_on_well_conditioned_spectra(rows, title):
    """At equal 1/λ always, and at equal t while t is small, when most of the learning happens."""
    ridge, flow = (rows[title][name].bias for name in ("ridge", "accelerated-flow"))
    assert halving_point(ridge) < 0.5 * halving_point(flow)
    bias = biases_at(np.linspace(0.05, 2, 50), polynomial_spectra()[title])
    assert np.all(bias["ridge"] < bias["accelerated-flow"])
    assert bias["ridge"][-1] < 0.6


@pytest.mark.parametrize("title", ["ν = 1", "ν = 2"])
def test_the_roles_of_the_biases_reverse_at_large_t_on_ill_conditioned_spectra(rows, title):
    early, late = np.array([0.5, 2.0]), np.geomspace(15, 60, 20)
    before, after = (biases_at(t, polynomial_spectra()[title]) for t in (early, late))
    assert np.all(before["ridge"] < before["accelerated-flow"])
    assert np.all(after["accelerated-flow"] < after["ridge"])
    assert np.all(after["accelerated-flow"] < after["gradient-flow"])
    assert np.min(after["accelerated-flow"] / after["ridge"]) < 0.75
    # this is so at equal time: at equal penalty, t = 1/√λ, the ridge bias is always smaller
    assert np.all(rows[title]["ridge"].bias < rows[title]["accelerated-flow"].bias)


def test_accelerated_bias_is_far_below_the_gradient_bias_at_the_same_time_for_small_eigenvalues():
    """2J₁(t√s)/(t√s) ≪ exp(-ts) for s ≈ 0 and t large: compared at equal t, not at equal 1/λ."""
    s, t = 1e-4, 300.0
    assert abs(st.AcceleratedFlow().shrinkage(s, t)) < 0.3
    assert st.GradientFlow().shrinkage(s, t) > 0.97


def overshoot(curve):
    """How far the risk rises above its final value after its minimum."""
    return curve.total[np.argmin(curve.total) :].max() - curve.total[-1]


def turns(values):
    return np.count_nonzero(np.diff(np.sign(np.diff(values))))


def test_accelerated_risk_oscillates_more_where_the_design_is_ill_conditioned(rows):
    for curves in rows.values():
        assert turns(curves["accelerated-flow"].total) >= 5
        for monotone in (curves["ridge"], curves["gradient-flow"]):
            assert turns(monotone.total[monotone.bias > 1e-12]) <= 1
    flows = [curves["accelerated-flow"] for curves in rows.values()]
    heights = np.array([overshoot(curve) for curve in flows])
    assert np.all(np.diff(heights) > 0)
    assert heights[-1] > 100 * heights[0]
    # in absolute terms only: relative to the variance they shrink
    assert np.all(np.diff(heights / [curve.total[-1] for curve in flows]) < 0)


def test_variance_grows_faster_with_acceleration(rows):
    """It grows from 10 % to 90 % of the least-squares variance over less of 1/λ, and beyond it."""
    for curves in rows.values():

        def stretch(name, curves=curves):
            share = curves[name].variance / curves["ridge"].variance[-1]
            return np.argmax(share > 0.9) - np.argmax(share > 0.1)

        assert stretch("accelerated-flow") < stretch("gradient-flow") < stretch("ridge")
        assert curves["accelerated-flow"].variance.max() > 1.1 * curves["ridge"].variance.max()


def test_orthogonal_designs_behave_as_the_appendix_says():
    curves = paper_curves(random_spectra()["orthogonal, s = 1"])
    best = [curve.total.min() for curve in curves.values()]
    assert max(best) / min(best) < 1 + 1e-3  # one eigenvalue: every method can match ridge
    t = np.geomspace(0.1, 12, 60)
    slow, fast = (biases_at(t, np.full(100, s)) for s in (0.1, 1.0))
    assert np.all(slow["accelerated-flow"][t > 9] < slow["gradient-flow"][t > 9])
    assert np.all(fast["accelerated-flow"][t < 3.5] > fast["gradient-flow"][t < 3.5])
    assert dense_signal() @ dense_signal() == pytest.approx(1)


# The errata of the paper, in the order of the documentation.


@pytest.fixture
def data(rng):
    X = rng.standard_normal((50, 4))
    return X, X @ np.ones(4) + rng.standard_normal(50)


def test_erratum_1_gradient_flow_lacks_its_factor_1_over_n(data):
    X, y = data
    t, steps = 0.02, 20_000
    printed, corrected = np.zeros(4), np.zeros(4)
    for _ in range(steps):
        printed += t / steps * X.T @ (y - X @ printed)
        corrected += t / steps * X.T @ (y - X @ corrected) / 50
    claimed, later = st.path(X, y, "gradient-flow", [t, 50 * t], fit_intercept=False).coef
    np.testing.assert_allclose(corrected, claimed, rtol=1e-4)
    np.testing.assert_allclose(printed, later, rtol=1e-3)
    assert np.abs(printed - claimed).max() > 10 * np.abs(claimed).max()


def test_erratum_2_the_printed_update_follows_gradient_flow(data):
    X, y = data
    step = 1e-4

    def run(steps, base_is_theta):
        b = theta = np.zeros(4)
        for k in range(1, steps + 1):
            base = theta if base_is_theta else b
            b, old = base + step / 50 * X.T @ (y - X @ theta), b
            theta = b + (k - 1) / (k + 2) * (b - old)
        return b

    def flow(name, time):
        return st.path(X, y, name, time, fit_intercept=False).coef[0]

    printed = run(20_000, base_is_theta=False)
    assert np.abs(printed - flow("gradient-flow", step * 20_000)).max() < 1e-4
    assert np.abs(printed - flow("accelerated-flow", np.sqrt(step) * 20_000)).max() > 1e-2
    correct = run(300, base_is_theta=True)
    assert np.abs(correct - flow("accelerated-flow", np.sqrt(step) * 300)).max() < 2e-2


def test_erratum_3_heavy_ball_bias_and_variance_are_swapped():
    s, a = np.array([0.5, 2.0]), np.array([1.0, -2.0])
    curve = st.risk("heavy-ball-flow", [0.0, 1.0], eigenvalues=s, signal=a, noise=1.0, n_samples=10)
    g = st.HeavyBallFlow(np.sqrt(0.5)).shrinkage(s, 1.0)
    assert curve.bias[0] == 5  # as printed it would be zero before anything is learned
    np.testing.assert_allclose(curve.bias[1], np.sum(a**2 * g**2))
    np.testing.assert_allclose(curve.variance[1], np.sum((1 - g) ** 2 / s) / 10)


def test_erratum_4_the_scalar_z_belongs_where_the_eigenvector_is_printed(data):
    X, y = data
    spec = st.decompose(X, y, fit_intercept=False)
    s, t = spec.eigenvalues, 2.0
    u = t * np.sqrt(s)
    alpha = spec.response / s * (1 - 2 * j1(u) / u)
    path = st.path(spec, "accelerated-flow", t)
    np.testing.assert_allclose(spec.vectors.T @ path.coef[0], alpha, rtol=1e-10)


def test_erratum_5_slips_of_the_appendix():
    x = np.geomspace(1e-3, 1e3, 100_000)
    gain = (1 - 2 * j1(x) / x) / x**2
    corrected, printed = gain * (x**2 + 1) - 1, gain / (x**2 + 1) - 1
    assert np.max(corrected**2) == pytest.approx(49 / 64, abs=1e-5)
    assert np.max(printed**2) > 0.99  # another constant: not what the proof goes on to use
    # λ = t^-2, not t^-1/2: only then is the error a function of t²s alone
    for t in (0.5, 3.0):
        s = 0.7
        ridge = 1 / (s + t**-2)
        flow = st.AcceleratedFlow().gain(s, t)
        other = st.AcceleratedFlow().gain(s * t**2, 1.0) / (1 / (s * t**2 + 1))
        assert flow / ridge == pytest.approx(other, rel=1e-12)
    # the bias bound h̃ attains h(κ) - 8κ^(2/3), κ being the condition number and not x*
    for kappa in (1.0, 10.0, 500.0):
        z = kappa ** (1 / 3)
        found = minimize_scalar(
            lambda v, z=z: -(1 + v**2) * (v / z + 1) ** 2 * np.exp(-2 * v / z),
            bounds=(0, 20 * z),
            method="bounded",
        )
        assert -found.fun == pytest.approx(
            float(bounds.heavy_ball_theorem(kappa)) - 8 * kappa ** (2 / 3), rel=1e-6
        )


def test_erratum_6_the_variance_lemma_lacks_a_factor_two(rng):
    a, b = rng.uniform(0.01, 0.7, (2, 1000))
    whole = 1 - (np.cos(b) + a / b * np.sin(b)) * np.exp(-a)
    common = (1 - np.exp(-a) - a) + (a - a * np.sin(b) / b) + a * (1 - np.exp(-a)) * np.sin(b) / b
    half = np.exp(-a) * np.sin(b / 2) ** 2
    np.testing.assert_allclose(whole, common + 2 * half, rtol=1e-9)
    assert np.all(np.abs(whole - common - half) > 1e-6)
    # the bound 4x⁴ holds with room: the true constant is 1/4
    assert np.all(whole**2 <= np.hypot(a, b) ** 4 / 4)
    assert (1 - np.cos(1e-4)) ** 2 / 1e-16 == pytest.approx(0.25, rel=1e-3)


def test_erratum_7_the_min_max_of_the_proof_is_rounded_down():
    pytest.importorskip("flint", reason='proofs need python-flint: pip install "stoptime[certify]"')
    one_stop = bounds.risk_inflation(st.AcceleratedFlow())
    assert 1.5991 < one_stop.lower <= one_stop.upper < 1.5992
    # the ratio in the theorem, where the stop may depend on the spectrum, is far below 1.5991
    assert bounds.risk_inflation(st.AcceleratedFlow(), adaptive=True).upper < 1.2677


def test_erratum_8_the_shrinkage_has_both_signs():
    u = np.linspace(0.01, 30, 100_001)
    g = st.AcceleratedFlow().shrinkage(1.0, u)
    assert g.min() == pytest.approx(-0.1323, abs=1e-4)
    assert (1 - 2 * g.min()) ** 2 == pytest.approx(1.59911, abs=1e-5)


def test_erratum_9_the_helper_lemma_is_used_beyond_its_range():
    """It is stated for x ≤ 1 and used up to κ^(1/6); it holds for all x, by φ ≤ 1/2."""
    assert 2.0 ** (1 / 6) > 1
    assert (1 / 2 + 1 / 4 + 1 / 2 + 1) ** 2 > 4  # the chain with the factor 2 restored
    x = np.geomspace(1e-3, 100, 4001)
    for share in np.linspace(0, 1, 21):  # a = share·x is the damping, b the oscillation
        a, b = share * x, np.sqrt(1 - share**2) * x
        g = np.exp(-a) * (np.cos(b) + a * np.sinc(b / np.pi))
        assert np.all((1 - g) ** 2 <= x**4 / 4 + 1e-15)


def test_erratum_10_the_distance_is_that_of_f_from_one():
    """In one direction ‖β - β_ridge‖²/‖β_ridge‖² is (f - 1)², f the ratio of the gains."""
    s, t = np.geomspace(0.01, 100, 50), 1.7
    flow = st.HeavyBallFlow(0.1)
    gain, ridge = flow.gain(s, t), st.Ridge().gain(s, t**2)
    f = gain / ridge
    np.testing.assert_allclose((gain - ridge) ** 2 / ridge**2, (f - 1) ** 2, atol=1e-12)
    assert np.any((f - 1) ** 2 > f)  # so that the two conditions are not the same


def test_erratum_11_the_ratio_of_the_biases_vanishes_again_and_again():
    zeros = np.array([3.8317059702, 7.0155866698, 10.1734681351])  # of J₁
    ratio = (1 + zeros**2) ** 2 * 4 * j1(zeros) ** 2 / zeros**2
    assert np.all(ratio < 1e-15)
    peaks = np.pi * (np.arange(20, 2000, 400) + 0.75)
    ratio = (1 + peaks**2) ** 2 * 4 * j1(peaks) ** 2 / peaks**2
    np.testing.assert_allclose(ratio, 8 * peaks / np.pi, rtol=0.01)


def test_erratum_12_the_variance_does_not_grow_without_bound():
    pytest.importorskip("flint", reason='proofs need python-flint: pip install "stoptime[certify]"')
    s = np.geomspace(1e-6, 1, 50)
    known = {"eigenvalues": s, "signal": np.ones(50), "noise": 1.0, "n_samples": 100}
    t = np.geomspace(0.1, 1e4, 2000)
    flow, ridge = st.risk("accelerated-flow", t, **known), st.risk("ridge", t**2, **known)
    upper = bounds.variance_coupling(st.AcceleratedFlow()).upper
    assert 1 < np.max(flow.variance / ridge.variance) <= upper < 1.3837
