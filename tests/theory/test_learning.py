"""Learning curves and random features."""

from dataclasses import replace

import numpy as np
import pytest

import stoptime as st
from stoptime.show import plots

POWERS = np.arange(1.0, 61)


def exponent(method, a, b, directions, **known):
    """Return the slope of the learning curve while these numbers of directions are learned."""
    expected = st.risk_exponent(method, eigenvalue_decay=a, signal_decay=b)
    m = -expected / (1 + expected)
    n = np.array(directions, dtype=float) ** (m + 1)
    covariance = (POWERS**-a, np.ones(len(POWERS)))
    curve = st.risk_curve_by_size(method, covariance, st.power_signal(b), 1.0, n=n, **known)
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
    curve = st.risk_curve_by_size(method, n=[40, 200], n_features=100, **known)
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
    by_default = st.risk_curve_by_size("ridge", target="estimation", **known)
    given = st.risk_curve_by_size("ridge", target="estimation", n_features=2, **known)
    assert by_default.risk == given.risk
    # ridge is best at the penalty σ²p/(r²n) for this prior
    assert by_default.stop[0] == pytest.approx(5.0, rel=1e-3)


def test_learning_curves_are_drawn():
    plt = pytest.importorskip("matplotlib.pyplot")
    curve = st.risk_curve_by_size("ridge", ([1.0], [1.0]), 1.0, 1.0, n=[5, 50], n_features=10)
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
            st.risk_curve_by_size(
                "ridge", **({"covariance": ([1], [1]), "signal": 1, "noise": 1} | wrong)
            )


def test_the_best_stop_may_be_the_end_or_the_start():
    """With a strong signal in few directions of a wide design, many small ones act as a penalty."""
    known = {"covariance": ([1.0, 0.01], [1, 9]), "n": [50], "n_features": 200}
    ridge = st.risk_curve_by_size("ridge", signal=[1.0, 0.0], noise=1e-6, **known)
    assert np.isinf(ridge.stop[0])
    flow = st.risk_curve_by_size("nesterov-flow", signal=[1.0, 0.0], noise=1e-6, **known)
    assert flow.risk[0] <= ridge.risk[0]
    nothing = st.risk_curve_by_size("nesterov-flow", signal=0.0, noise=1.0, **known)
    assert (nothing.stop[0], nothing.risk[0]) == (0.0, 0.0)
