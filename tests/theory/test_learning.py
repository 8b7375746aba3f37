"""Learning curves and random features."""

from dataclasses import replace

import numpy as np
import pytest

import stoptime as st
from stoptime.support import plots

POWERS = np.arange(1.0, 61)


def exponent(method, a, b, directions, **known):
    """Return the slope of the learning curve while these numbers of directions are learned."""
    expected = st.risk_exponent(method, eigenvalue_decay=a, signal_decay=b)
    m = -expected / (1 + expected)
    n = np.array(directions, dtype=float) ** (m + 1)
    covariance = (POWERS**-a, np.ones(len(POWERS)))
    curve = st.learning_curve(method, covariance, st.power_signal(b), 1.0, n=n, **known)
    assert curve.quadrature_error.max() < 1e-6 * curve.risk.max()
    return curve.exponents[0], expected


@pytest.mark.parametrize(
    "method", [st.Ridge(), st.IteratedRidge(2), st.GradientFlow(), st.CriticalFlow()], ids=str
)
def test_learning_curves_fall_with_the_powers_of_source_and_capacity(method):
    found, expected = exponent(method, 1.5, 4, (5, 12))
    assert found == pytest.approx(expected, rel=0.05)


def test_ridge_saturates_and_flows_do_not():
    ridge = exponent(st.Ridge(), 1.0, 6, (5, 10))[0]
    flow = exponent(st.GradientFlow(), 1.0, 6, (3, 5))[0]
    assert flow < ridge - 0.1


@pytest.mark.parametrize("method", ["ridge", "critical-flow", "nesterov-flow", "gradient-descent"])
def test_each_point_is_the_least_risk_of_the_limit(method):
    covariance = ([1.0, 0.2], [1, 2])
    known = {"signal": [1.0, 3.0], "noise": 0.5, "covariance": covariance}
    curve = st.learning_curve(method, n=[40, 200], n_features=100, **known)
    assert curve.n.tolist() == [40, 200]
    for n, risk, stop in zip(curve.n, curve.risk, curve.stop, strict=True):
        stops = np.arange(0, 60) if method == "gradient-descent" else np.geomspace(0.05, 60, 60)
        limit = st.limiting_risk(method, stops, aspect=100 / n, target="prediction", **known)
        assert risk == pytest.approx(limit.best_total, rel=1e-6)
        again = st.limiting_risk(method, [stop], aspect=100 / n, target="prediction", **known)
        assert again.total[0] == pytest.approx(risk, rel=1e-6)
    assert curve.risk[1] < curve.risk[0]
    assert curve.stop[1] > curve.stop[0]
    assert repr(curve).startswith("LearningCurve(")


def test_one_feature_for_each_eigenvalue():
    known = {"covariance": ([1.0, 0.2], [1, 1]), "signal": 1.0, "noise": 0.5, "n": [5]}
    by_default = st.learning_curve("ridge", target="estimation", **known)
    given = st.learning_curve("ridge", target="estimation", n_features=2, **known)
    assert by_default.risk == given.risk
    # ridge is best at the penalty σ²p/(r²n) for this prior
    assert by_default.stop[0] == pytest.approx(5.0, rel=1e-3)


def test_learning_curves_are_drawn():
    plt = pytest.importorskip("matplotlib.pyplot")
    curve = st.learning_curve("ridge", ([1.0], [1.0]), 1.0, 1.0, n=[5, 50], n_features=10)
    ax = curve.plot()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), curve.risk)
    assert ax.lines[0].get_label() == "ridge"
    # several methods of one name differ in colour and label, and take no colour of another method
    methods = (st.AcceleratedFlow(3.0), st.AcceleratedFlow(5.0), st.Ridge(), st.GradientFlow())
    curves = [replace(curve, method=method) for method in methods]
    drawn = plots.learning(curves).lines
    assert (
        len({line.get_color() for line in drawn}) == len({line.get_label() for line in drawn}) == 4
    )
    assert "5.0" in drawn[1].get_label()
    plt.close("all")


def test_learning_needs_rows_and_noise():
    for wrong in ({"n": [0]}, {"n": [10], "noise": 0.0}, {"n": [10], "n_features": 0}):
        with pytest.raises(ValueError, match="must be a positive number"):
            st.learning_curve(
                "ridge", **({"covariance": ([1], [1]), "signal": 1, "noise": 1} | wrong)
            )


def relu(z):
    return np.maximum(z, 0.0)


def test_the_linear_model_of_random_features():
    few = st.random_features(0.25, signal=2.0, noise=0.5)
    assert few.missed == pytest.approx(1.5, rel=1e-9)
    assert few.noise == pytest.approx(2.0, rel=1e-9)
    many = st.random_features(3.0, signal=2.0, noise=0.5)
    assert many.missed == pytest.approx(0.0, abs=1e-9)
    # what the features explain is the variance of the best linear prediction
    for model in (few, many, st.random_features(0.7, signal=2.0, noise=0.5, activation=relu)):
        tau, shares = model.covariance
        assert shares @ (tau * model.signal) == pytest.approx(2.0 - model.missed, rel=1e-9)
    kinked = st.random_features(0.7, signal=2.0, noise=0.5, activation=relu).covariance[0]
    # the rectifier has μ₁ = 1/2 and the variance 1/2 - 1/(2π)
    assert kinked[0] == pytest.approx(1 / 4 - 1 / (2 * np.pi), rel=1e-6)


@pytest.mark.parametrize("activation", [None, relu])
@pytest.mark.parametrize(("ratio", "aspect"), [(0.5, 0.4), (2.0, 1.5)])
def test_random_features_in_simulation(activation, ratio, aspect):
    n, targets = 200, 60
    p = int(aspect * n)
    d = int(p / ratio)
    apply = activation or (lambda z: z)
    centre = 0.0 if activation is None else 1 / np.sqrt(2 * np.pi)
    stops = np.array([1.0, 3.0])
    errors = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        W = rng.standard_normal((d, p)) / np.sqrt(d)
        theta = rng.standard_normal((d, targets)) / np.sqrt(d)
        Z, new = rng.standard_normal((n, d)), rng.standard_normal((600, d))
        y = Z @ theta + 0.5 * rng.standard_normal((n, targets))
        path = st.path(apply(Z @ W) - centre, y, "nesterov-flow", stops, fit_intercept=False)
        gap = np.einsum("mp,tpq->tmq", apply(new @ W) - centre, path.coef) - new @ theta
        errors.append((gap**2).mean(axis=(1, 2)))
    model = st.random_features(ratio, signal=1.0, noise=0.25, activation=apply)
    limit = st.limiting_risk(
        "nesterov-flow", stops, aspect=aspect, target="prediction", **model.arguments
    )
    spread = np.std(errors, axis=0, ddof=1) / np.sqrt(len(errors))
    expected = limit.total + model.missed
    assert np.all(np.abs(np.mean(errors, axis=0) - expected) <= 5 * spread + 5 / n * expected)


def test_the_best_stop_may_be_the_end_or_the_start():
    """With a strong signal in few directions of a wide design, many small ones act as a penalty."""
    known = {"covariance": ([1.0, 0.01], [1, 9]), "n": [50], "n_features": 200}
    ridge = st.learning_curve("ridge", signal=[1.0, 0.0], noise=1e-6, **known)
    assert np.isinf(ridge.stop[0])
    flow = st.learning_curve("nesterov-flow", signal=[1.0, 0.0], noise=1e-6, **known)
    assert flow.risk[0] <= ridge.risk[0]
    nothing = st.learning_curve("nesterov-flow", signal=0.0, noise=1.0, **known)
    assert (nothing.stop[0], nothing.risk[0]) == (0.0, 0.0)
