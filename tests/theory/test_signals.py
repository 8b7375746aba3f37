"""Signals that lean towards the leading directions: where ridge loses, and by which power of n."""

import numpy as np
import pytest

import stoptime as st

# eigenvalues i^-a, squared coordinates i^-b, noise; gradient flow and frictions 3 and 9 over ridge
TABLE = [
    (1, 0, 1.0, 1.020, 1.072, 1.038),
    (1, 2, 1e-2, 0.545, 0.827, 0.529),
    (1.5, 4, 1e-4, 0.252, 0.540, 0.244),
]


def powers(a, b, p=400):
    return {"eigenvalues": np.arange(1.0, p + 1) ** -a, "signal": np.arange(1.0, p + 1) ** (-b / 2)}


@pytest.mark.parametrize(("a", "b", "noise", "gradient", "three", "nine"), TABLE)
def test_stopping_early_beats_ridge_where_the_signal_leans(a, b, noise, gradient, three, nine):
    known = powers(a, b) | {"noise": noise, "n_samples": 2000, "target": "prediction"}
    flows = (st.GradientFlow(), st.AcceleratedFlow(3), st.AcceleratedFlow(9))
    found = [st.inflation(method, **known).ratio for method in flows]
    np.testing.assert_allclose(found, [gradient, three, nine], atol=5.1e-4)


def test_the_ratio_is_that_of_two_least_risks():
    known = powers(1, 2, p=50) | {"noise": 0.1, "n_samples": 100}
    stops = np.geomspace(1e-3, 1e5, 20_000)
    least = [st.risk(m, stops, **known).total.min() for m in ("critical-flow", "ridge")]
    found = st.inflation("critical-flow", **known)
    assert found.ratio == pytest.approx(least[0] / least[1], rel=1e-6)
    assert st.inflation("ridge", **known).ratio == 1


@pytest.mark.parametrize(
    "method",
    [st.Ridge(), st.IteratedRidge(3), st.GradientFlow(), st.CriticalFlow(), st.SpectralCutoff()],
    ids=str,
)
@pytest.mark.parametrize(
    ("a", "b", "target"), [(1.5, 5, "prediction"), (1, 6, "prediction"), (2, 2.5, "estimation")]
)
def test_the_least_risk_falls_with_the_power_of_n_that_is_known(method, a, b, target):
    qualification = {"ridge": 1, "iterated-ridge": 3}.get(method.name, np.inf)
    estimates = target == "estimation"
    variance = 1 + a * estimates
    m = min(b - 1 + a * (not estimates), 2 * qualification * a)
    exponent = -m / (m + variance)
    # so many rows that the first 50 and the first 200 directions are learned
    n = np.array([50.0, 200.0]) ** (m + variance)
    problem = powers(a, b, p=3000) | {"noise": 1.0, "target": target}
    least = [st.risk(method, [0, np.inf], n_samples=one, **problem).best_total for one in n]
    slope = np.log(least[1] / least[0]) / np.log(n[1] / n[0])
    assert slope == pytest.approx(exponent, rel=0.025)


KNOWN = {"eigenvalues": [1.0, 0.5], "noise": 1.0, "n_samples": 10}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.inflation("ridge", signal=[0, 0], **KNOWN), "coordinate other than zero"),
        (lambda: st.inflation("ridge", signal=[1, 1, 1], **KNOWN), "per eigenvalue, 2; got 3"),
        (lambda: st.inflation("ridge", signal=1, target="both", **KNOWN), "target must be"),
        (lambda: st.inflation("ridge", signal=1, **KNOWN | {"noise": 0}), "noise must be a pos"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
