"""Limits for rows of any covariance: closed forms, moments, random matrices, cross-validation."""

import pickle

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad

import stoptime as st
from stoptime.theory.limiting_spectrum import PANEL_NODES, Limit, panels_for
from stoptime.theory.limits import SMOOTH_PANEL, population_of

TWO_POINT = ([1.0, 5.0], [0.5, 0.5])
COVARIANCES = {
    "identity": ([1.0], [1.0]),
    "two-point": TWO_POINT,
    "null directions": ([0.0, 1.0, 4.0], [1, 2, 2]),
    "power law": (np.arange(1.0, 31) ** -1.5, np.ones(30)),
}
ASPECTS = (0.2, 1.0, 5.0)


def limit_of(covariance, aspect):
    population = population_of(covariance, aspect)
    weights = np.stack([np.ones(len(population.shares)), population.eigenvalues])
    panels = panels_for(population, 0.0, weights, SMOOTH_PANEL)
    return Limit(population, *panels.points(PANEL_NODES))


def ridge_in_closed_form(penalty, covariance, aspect, r2, noise, target):
    """The effective penalty κ of ridge solves λ = κ(1 - c Σ wτ/(τ + κ)); derivatives by mpmath."""
    tau, counts = (np.array([mp.mpf(float(one)) for one in part]) for part in covariance)
    shares = counts / counts.sum()
    error = tau if target == "prediction" else tau**0

    def kappa(penalty):
        def equation(k):
            return k * (1 - aspect * (shares * tau / (tau + k)).sum()) - penalty

        return mp.findroot(equation, (penalty, penalty + 10 * aspect + 1), solver="anderson")

    def resolvent(penalty, weights):
        k = kappa(penalty)
        return (shares * weights * k / (tau + k)).sum() / penalty

    def slope(weights):
        return mp.diff(lambda one: resolvent(one, weights), penalty)

    variance = noise * aspect * (resolvent(penalty, error) + penalty * slope(error))
    if target == "estimation":
        return -(penalty**2) * slope(r2), variance
    k = kappa(penalty)
    bias = k**2 * (shares * r2 * tau / (tau + k) ** 2).sum()
    return bias / (1 - aspect * (shares * tau**2 / (tau + k) ** 2).sum()), variance


@pytest.mark.parametrize("aspect", [0.2, 0.999, 1.0, 1.001, 5.0])
@pytest.mark.parametrize("name", ["identity", "two-point", "null directions"])
@pytest.mark.parametrize("target", ["estimation", "prediction"])
def test_ridge_in_closed_form(name, aspect, target):
    covariance = COVARIANCES[name]
    r2 = 1.0 + np.asarray(covariance[0]) ** 2
    stops = np.array([0.2, 5.0])
    known = {"aspect": aspect, "signal": r2, "noise": 0.7, "covariance": covariance}
    curve = st.limiting_risk("ridge", stops, target=target, **known)
    with mp.workdps(30):
        exact = [covariance, mp.mpf(aspect), r2 * mp.mpf(1), mp.mpf(0.7), target]
        exact = np.array([ridge_in_closed_form(1 / mp.mpf(t), *exact) for t in stops], dtype=float)
    np.testing.assert_allclose(curve.bias, exact[:, 0], rtol=1e-8)
    np.testing.assert_allclose(curve.variance, exact[:, 1], rtol=1e-8)
    assert np.all(np.abs(curve.total - exact.sum(axis=1)) <= curve.quadrature_error + 1e-13)


@pytest.mark.parametrize("aspect", [0.5, 0.95, 1.0, 2.0])
def test_oscillating_filters_against_adaptive_quadrature(aspect):
    low, high = (1 - np.sqrt(aspect)) ** 2, (1 + np.sqrt(aspect)) ** 2
    method = st.AcceleratedFlow()

    def integral(h):
        def integrand(angle):  # s = low + (high - low) sin²: the edges become smooth
            s = max(low + (high - low) * np.sin(angle) ** 2, 1e-300)
            jacobian = 2 * ((high - low) * np.sin(angle) * np.cos(angle)) ** 2
            return h(s) * jacobian / (2 * np.pi * aspect * s)

        return quad(integrand, 0, np.pi / 2, epsabs=1e-12, epsrel=1e-11, limit=500)[0]

    for t in (0.3, 15.0):
        curve = st.limiting_risk(method, [t], aspect=aspect, signal=1.5, noise=0.5)
        null = max(0, 1 - 1 / aspect)
        bias = 1.5 * (integral(lambda s, t=t: method.shrinkage(s, t) ** 2) + null)
        variance = 0.5 * aspect * integral(lambda s, t=t: s * method.gain(s, t) ** 2)
        np.testing.assert_allclose([curve.bias[0], curve.variance[0]], [bias, variance], rtol=1e-8)


@pytest.mark.parametrize("name", COVARIANCES)
@pytest.mark.parametrize("aspect", ASPECTS)
def test_moments_of_sample_covariances(name, aspect):
    """E tr wΣ̂, E tr Σ̂² and E tr wΣ̂ΣΣ̂ are polynomials in the moments of Σ."""
    covariance = COVARIANCES[name]
    limit = limit_of(covariance, aspect)
    tau = np.asarray(covariance[0])
    shares = np.asarray(covariance[1]) / np.sum(covariance[1])
    w = 2 + np.cos(tau)
    s = limit.eigenvalues
    assert limit.single(w).sum() == pytest.approx(shares @ w, rel=1e-10)
    assert limit.single(w) @ s == pytest.approx(shares @ (w * tau), rel=1e-10)
    second = shares @ tau**2 + aspect * (shares @ tau) ** 2
    assert limit.single(np.ones(len(tau))) @ s**2 == pytest.approx(second, rel=1e-10)
    pairs = limit.paired(w)
    assert pairs.sum() == pytest.approx(shares @ (w * tau), rel=1e-9)
    third = shares @ (w * tau**3) + aspect * (shares @ tau**2) * (shares @ (w * tau))
    assert s @ pairs @ s == pytest.approx(third, rel=1e-9)
    np.testing.assert_allclose(pairs, pairs.T, rtol=1e-9, atol=1e-300)
    # where the signal is the same in all directions, one eigenvalue is enough
    g = st.AcceleratedFlow().shrinkage(s[:, None], [1, 4, 9])
    single = limit.single(limit.population.unit * limit.population.eigenvalues) @ g**2
    double = np.einsum("it,ij,jt->t", g, limit.paired(np.ones(len(tau))), g)
    np.testing.assert_allclose(double, single, rtol=1e-8)


@pytest.mark.parametrize("name", ["ridge", "nesterov-flow"])
def test_cross_validation_converges_to_prediction_error(name):
    n, stops = 240, np.array([1.0, 4.0, 12.0])
    tau = np.repeat([1.0, 5.0], 144)
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, len(tau))) * np.sqrt(tau)
        beta = rng.standard_normal((len(tau), 6)) * np.sqrt(tau[:, None] / 3 * 5 / len(tau))
        y = X @ beta + rng.standard_normal((n, 6))
        spectrum = st.decompose(X, y, fit_intercept=False)
        gcv = st.path_gcv(spectrum, name, stops)
        loo = st.leave_one_out(X, y, name, stops, spectrum=spectrum, fit_intercept=False).errors
        found.append([one.mean(axis=1) for one in (gcv, loo)])
    mean = np.mean(found, axis=0)
    spread = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    known = {"aspect": 1.2, "signal": [5 / 3, 25 / 3], "noise": 1.0, "covariance": TWO_POINT}
    right = st.limiting_risk(name, stops, target="prediction", **known).total + 1
    assert np.all(np.abs(mean - right) <= 5 * spread + 8 / n * right)


def test_late_stops_end_at_least_squares():
    known = {"signal": [2.0, 1.0], "noise": 1.0, "covariance": TWO_POINT, "target": "prediction"}
    tall = st.limiting_risk("nesterov-flow", [100.0, np.inf], aspect=0.5, **known)
    # the variance of least squares is σ²c/(1 - c) for every covariance
    assert tall.variance[1] == pytest.approx(1.0, rel=1e-9)
    assert tall.bias[1] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(tall.variance[0], tall.variance[1], rtol=1e-2)
    wide = st.limiting_risk("ridge", [1e9, np.inf], aspect=2.0, **known)
    np.testing.assert_allclose(wide.total[0], wide.total[1], rtol=1e-6)
    assert wide.bias[1] > 0.1
    # hardly damped oscillations that have ended need no nodes
    damped = st.limiting_risk(st.HeavyBallFlow(0.3), [1e6, np.inf], aspect=0.5, **known)
    assert damped.total[0] == pytest.approx(damped.total[1], rel=1e-12)
    assert damped.quadrature_error.max() < 1e-10


@pytest.mark.parametrize("target", ["estimation", "prediction"])
def test_least_squares_has_infinite_variance_at_the_threshold(target):
    """With as many directions of positive variance as rows, the mean of 1/s diverges."""
    for covariance, aspect in ((TWO_POINT, 1.0), (([0.0, 1.0], [1, 1]), 2.0)):
        known = {"aspect": aspect, "signal": 1.0, "covariance": covariance, "target": target}
        curve = st.limiting_risk("ridge", [1.0, np.inf], noise=1.0, **known)
        assert np.isinf(curve.total).tolist() == [False, True]
        assert np.isfinite(curve.best_total)
        assert np.isfinite(st.limiting_risk("ridge", [np.inf], noise=0.0, **known).total).all()


@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_units_do_not_matter(unit):
    known = {"aspect": 0.7, "noise": 1.0, "target": "prediction"}
    found = []
    for size, count in ((1.0, 1.0), (unit, 3e200)):
        known["covariance"] = (size * np.array([1.0, 5.0]), [count, count])
        signal = np.array([2.0, 1.0]) / size
        curve = st.limiting_risk("nesterov-flow", [2.0 / np.sqrt(size)], signal=signal, **known)
        found.append([curve.bias[0], curve.variance[0]])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10)


def test_special_populations_and_signals():
    nothing = {"aspect": 0.5, "signal": 3.0, "noise": 1.0, "covariance": ([0.0], [1.0])}
    curve = st.limiting_risk("nesterov-flow", [0.0, 5.0], **nothing)
    assert (curve.bias.tolist(), curve.variance.tolist()) == ([3.0, 3.0], [0.0, 0.0])
    known = {"aspect": 0.5, "noise": 0.0, "covariance": ([0.5, 2.0, 1.0], [1, 1, 2])}
    curve = st.limiting_risk("ridge", [0.0], signal=[4 / 9, 4, 0.5], target="prediction", **known)
    assert curve.bias[0] == pytest.approx(2.0 + 1.0 / 4 + 0.5 / 9, rel=1e-9)
    # automatic dampings and steps are those of the edges of the limit
    known = {"signal": 1, "noise": 1}
    tuned = st.limiting_risk("heavy-ball-flow", [1.0], aspect=0.25, **known).method
    assert tuned == st.HeavyBallFlow(0.5)
    tuned = st.limiting_risk("nesterov", np.arange(9), aspect=0.5, **known).method
    assert tuned.step == pytest.approx((1 + np.sqrt(0.5)) ** -2)
    nodes, weights = st.marchenko_pastur(4.0)
    assert (weights.sum(), weights @ nodes) == (pytest.approx(0.25), pytest.approx(1.0))


def test_a_limit_is_printed_and_pickled():
    known = {"aspect": 0.5, "signal": [1.0, 2.0], "noise": 1.0, "covariance": TWO_POINT}
    curve = st.limiting_risk("ridge", [0.1, 10.0], target="prediction", **known)
    assert repr(curve).startswith("LimitCurve(Ridge(), 2 stops, least risk")
    again = pickle.loads(pickle.dumps(curve))
    np.testing.assert_array_equal(again.total, curve.total)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"covariance": ([1.0, 2.0], [1.0])}, "as many weights"),
        ({"covariance": ([1.0], [0.0])}, "not all zero"),
        ({"covariance": 1.0}, "must be a pair"),
        ({"aspect": 1e-12}, "aspect must be a number between"),
        ({"covariance": ([-1.0], [1.0])}, "non-negative"),
        ({"signal": [1.0, 2.0, 3.0]}, "one number, or 2, one per eigenvalue"),
        ({"target": "both"}, "target must be"),
        ({"method": "conjugate-gradient"}, "filter"),
        ({"method": "heavy-ball-flow", "aspect": 2.0}, "damping"),
        ({"method": "spectral-cutoff"}, "counts eigenvalues"),
        ({"stops": [1e7]}, "stops must be at most"),
        ({"stops": [3000.0], "signal": [1.0, 2.0], "target": "prediction"}, "earlier stops"),
    ],
)
def test_refusals(changed, message):
    known = {"aspect": 0.5, "signal": 1.0, "noise": 1.0, "covariance": TWO_POINT}
    given = {"method": "nesterov-flow", "stops": [1.0]} | known | changed
    with pytest.raises(ValueError, match=message):
        st.limiting_risk(given.pop("method"), given.pop("stops"), **given)


def test_extreme_populations_keep_mass_and_mean():
    """Eigenvalues over twelve decades, rare ones, nearly equal ones, and every aspect."""
    rng = np.random.default_rng(5)
    kinds = (
        lambda k: rng.uniform(0, 1, k),
        lambda k: 10 ** rng.uniform(-12, 0, k),
        lambda k: 1 + 1e-9 * rng.standard_normal(k),
        lambda k: rng.choice([0.0, 1.0, 2.0, 2.0000001], k),
    )
    for case in range(36):
        k = int(rng.choice([1, 2, 5, 20]))
        tau = np.append(kinds[case % 4](k), 1.0)
        counts = 10 ** (rng.uniform(-10, 0, k + 1) * (case % 3 == 0))
        aspect = float(rng.choice([1e-6, 1e-2, 0.3, 0.999999, 1.0, 1.0000001, 3.0, 100.0, 1e4]))
        limit = limit_of((tau, counts), aspect)
        mass = limit.single(np.ones(k + 1))
        assert mass.min() >= 0
        assert mass.sum() == pytest.approx(1.0, rel=1e-6)
        assert mass @ limit.eigenvalues == pytest.approx(counts @ tau / counts.sum(), rel=1e-9)
        assert len(mass) < 10_000
