"""Signals that lean towards the leading directions: where ridge loses, and by which power of n."""

import numpy as np
import pytest

import stoptime as st

FRICTIONS = [st.AcceleratedFlow(friction) for friction in (3, 5, 9)]
# eigenvalues i^-a, squared coordinates i^-b, noise; gradient flow and these frictions over ridge
TABLE = [
    (1, 0, 1.0, 1.020, 1.072, 1.074, 1.038),
    (1, 1, 1.0, 0.853, 0.916, 0.859, 0.848),
    (1, 2, 1e-2, 0.545, 0.827, 0.557, 0.529),
    (1, 3, 1e-4, 0.307, 0.985, 0.396, 0.292),
    (2, 2, 1e-2, 0.826, 0.981, 0.849, 0.827),
    (1.5, 4, 1e-4, 0.252, 0.540, 0.325, 0.244),
]
MONOTONE = [
    st.Ridge(),
    st.IteratedRidge(2),
    st.IteratedRidge(3),
    st.GradientFlow(),
    st.CriticalFlow(),
    st.SpectralCutoff(),
]


def powers(a, b, p=400):
    return {"eigenvalues": np.arange(1.0, p + 1) ** -a, "signal": st.power_signal(b)}


@pytest.mark.parametrize(("a", "b", "noise", "gradient", "three", "five", "nine"), TABLE)
def test_stopping_early_beats_ridge_where_the_signal_leans(
    a, b, noise, gradient, three, five, nine
):
    known = powers(a, b) | {"noise": noise, "n_samples": 2000, "target": "prediction"}
    found = [st.inflation(method, **known).ratio for method in (st.GradientFlow(), *FRICTIONS)]
    np.testing.assert_allclose(found, [gradient, three, five, nine], atol=5.1e-4)


def test_the_ratio_is_that_of_two_least_risks():
    known = powers(1, 2, p=50) | {"noise": 0.1, "n_samples": 100}
    stops = np.geomspace(1e-3, 1e5, 20_000)
    least = [st.risk(m, stops, **known).total.min() for m in ("critical-flow", "ridge")]
    found = st.inflation("critical-flow", **known)
    assert found.ratio == pytest.approx(least[0] / least[1], rel=1e-6)
    assert st.risk("critical-flow", [found.stop], **known).total[0] == pytest.approx(least[0])
    assert st.inflation("ridge", **known).ratio == 1
    as_numbers = known | {"signal": np.arange(1.0, 51) ** -1}
    assert st.inflation("critical-flow", **as_numbers) == found


@pytest.mark.parametrize("method", [*st.FAMILY, st.IteratedRidge(), st.SpectralCutoff()], ids=str)
def test_no_method_beats_ridge_where_the_signal_is_the_same_everywhere(method):
    known = {"eigenvalues": [2.0, 1.0, 0.3, 0.1, 0.1, 0.0], "noise": 1.0, "n_samples": 30}
    for target in ("estimation", "prediction"):
        found = st.inflation(method, signal=2.0, target=target, **known)
        assert 1 - 1e-12 <= found.ratio <= 1.6
        stops = np.arange(7) if method.whole_stops else np.geomspace(1e-3, 1e4, 20_000)
        curve = st.bayes_risk(method, stops, signal=2.0, target=target, **known)
        ridge = st.bayes_risk("ridge", [10.0], signal=2.0, target=target, **known).total[0]
        assert found.ratio == pytest.approx(curve.total.min() / ridge, rel=1e-6)


def test_the_first_direction_has_the_largest_eigenvalue():
    signal = st.power_signal(3)
    np.testing.assert_allclose(
        signal.coordinates([0.0, 2.0, 5.0, 1.0]) ** 2, [4.0**-3, 2.0**-3, 1.0, 3.0**-3]
    )
    known = {"eigenvalues": [0.5, 2.0], "noise": 1.0, "n_samples": 10}
    curve = st.risk("ridge", [1.0], signal=signal, **known)
    same = st.risk("ridge", [1.0], signal=[2.0**-1.5, 1.0], **known)
    np.testing.assert_array_equal(curve.total, same.total)
    assert st.power_signal(2) == st.PowerSignal(2.0)
    with pytest.raises(ValueError, match="decay must be"):
        st.power_signal(-1)


@pytest.mark.parametrize("method", MONOTONE, ids=str)
@pytest.mark.parametrize(
    ("a", "b", "target"),
    [(2, 1, "prediction"), (1.5, 5, "prediction"), (1, 6, "prediction"), (2, 2.5, "estimation")],
)
def test_the_least_risk_falls_with_the_power_of_n_that_is_known(method, a, b, target):
    known = {"eigenvalue_decay": a, "signal_decay": b, "target": target}
    exponent = st.risk_exponent(method, **known)
    variance = 1 + a * (target == "estimation")
    m = -exponent * variance / (1 + exponent)
    # so many rows that the first 50 and the first 200 directions are learned
    n = np.array([50.0, 200.0]) ** (m + variance)
    problem = powers(a, b, p=3000) | {"noise": 1.0, "target": target}
    least = [st.risk(method, [0, np.inf], n_samples=one, **problem).best_total for one in n]
    slope = np.log(least[1] / least[0]) / np.log(n[1] / n[0])
    assert slope == pytest.approx(exponent, rel=0.025)


def test_ridge_saturates_and_iterated_ridge_later():
    known = {"eigenvalue_decay": 1.0, "signal_decay": 10.0}
    assert st.risk_exponent("ridge", **known) == pytest.approx(-2 / 3)
    assert st.risk_exponent(st.IteratedRidge(3), **known) == pytest.approx(-6 / 7)
    assert st.risk_exponent(st.AcceleratedFlow(4), **known) == pytest.approx(-2 / 3)
    assert st.risk_exponent("gradient-flow", **known) == pytest.approx(-10 / 11)


def test_refusals():
    known = {"eigenvalues": [1.0, 0.5], "noise": 1.0, "n_samples": 10}
    with pytest.raises(ValueError, match="coordinate other than zero"):
        st.inflation("ridge", signal=[0.0, 0.0], **known)
    with pytest.raises(ValueError, match="one coordinate per eigenvalue, 2; got 3"):
        st.inflation("ridge", signal=[1.0, 1.0, 1.0], **known)
    with pytest.raises(ValueError, match="target must be"):
        st.inflation("ridge", signal=1.0, target="both", **known)
    decays = {"eigenvalue_decay": 1.0, "signal_decay": 2.0}
    with pytest.raises(ValueError, match=r"qualification of HeavyBallFlow.*not known"):
        st.risk_exponent("heavy-ball-flow", **decays)
    with pytest.raises(ValueError, match="eigenvalue_decay must be a number between 1 and inf"):
        st.risk_exponent("ridge", **decays, target="estimation")
    with pytest.raises(ValueError, match=r"signal_decay must exceed 0\.25; got 0\.2"):
        st.risk_exponent("ridge", eigenvalue_decay=0.75, signal_decay=0.2)
