"""Couplings with ridge at λ = 1/t²: of the variance, and of the bias with enough friction."""

from __future__ import annotations

import numpy as np
import pytest

import stoptime as st
from bounds.formulas import oscillation, shrinkage
from stoptime import bounds

flint = pytest.importorskip("flint")

U = np.union1d(np.geomspace(1e-3, 80, 200_001), np.linspace(0.01, 12, 100_001))
FLOWS = [
    st.GradientFlow(),
    st.CriticalFlow(),
    *map(st.AcceleratedFlow, (3.0, 1.0, 4.0, 9.0)),
    st.Butterworth(3),
]
each = pytest.mark.parametrize("method", FLOWS, ids=str)


@each
def test_the_variance_is_coupled(method):
    g = shrinkage(method, U)
    found = bounds.variance_coupling(method)
    assert found.width <= 1e-9
    largest = (((1 - g) * (1 + U**2) / U**2) ** 2).max()
    assert found.lower - 1e-6 <= largest <= found.upper
    near = np.abs(U ** (2 // method.time_power) - found.stop).argmin()
    assert ((1 - g[near]) * (1 + U[near] ** 2) / U[near] ** 2) ** 2 == pytest.approx(
        found.lower, rel=1e-4
    )


@each
def test_the_bias_is_coupled_where_oscillations_fall_fast(method):
    g = shrinkage(method, U)
    if isinstance(method, st.AcceleratedFlow) and method.friction < 4:
        with pytest.raises(ValueError, match=r"cannot be coupled.*at least 4"):
            bounds.bias_coupling(method)
        # the ratio grows without bound along the peaks
        ratio = ((1 + U**2) * g) ** 2
        assert ratio[U > 40].max() > 2 * ratio[U < 10].max()
        return
    found = bounds.bias_coupling(method, tolerance=1e-6)
    largest = (((1 + U**2) * g) ** 2).max()
    assert found.lower - 1e-5 <= largest <= found.upper
    assert found.width <= 1e-6 * found.upper


def test_couplings_of_the_paper():
    assert pytest.approx(bounds.variance_coupling("nesterov-flow").lower, abs=5e-6) == 1.38363
    assert bounds.variance_coupling("nesterov-flow").stop == pytest.approx(5.0093, abs=1e-4)
    assert pytest.approx(bounds.variance_coupling("heavy-ball-flow").lower, abs=5e-6) == 4.88918
    with pytest.raises(ValueError, match="heavy-ball flow cannot be coupled"):
        bounds.bias_coupling("heavy-ball-flow")


def test_couplings_in_closed_form():
    assert 81 / 64 in bounds.variance_coupling(st.IteratedRidge(2))
    # by symmetry under x → 1/x, bias and variance of a steep edge have the same constant
    steep = bounds.variance_coupling(st.Butterworth(2))
    assert ((1 + np.sqrt(2)) / 2) ** 2 == pytest.approx(steep.lower, rel=1e-9)
    bias = bounds.bias_coupling(st.Butterworth(2))
    assert bias.lower == pytest.approx(steep.lower, rel=1e-9)
    assert bias.stop * steep.stop == pytest.approx(1.0, rel=1e-4)
    for method in (st.Ridge(), st.GradientFlow()):
        assert bounds.bias_coupling(method).lower == 1.0


@pytest.mark.parametrize("target", ["estimation", "prediction"])
def test_the_variance_of_a_whole_spectrum_is_coupled(target, rng):
    s = np.exp(rng.uniform(-4, 4, 40))
    known = {"eigenvalues": s, "signal": np.ones(40), "noise": 1.0, "n_samples": 50}
    stops = np.geomspace(0.1, 50, 200)
    flow = st.risk("nesterov-flow", stops, target=target, **known).variance
    ridge = st.risk("ridge", stops**2, target=target, **known).variance
    assert np.max(flow / ridge) <= bounds.variance_coupling("nesterov-flow").upper
    assert np.max(flow / ridge) > 1


def test_couplings_are_for_flows():
    with pytest.raises(TypeError, match="certified for Ridge, GradientFlow"):
        bounds.variance_coupling(st.Nesterov(0.1))
    with pytest.raises(ValueError, match="tolerance"):
        bounds.variance_coupling("nesterov-flow", tolerance=0.0)


@pytest.mark.parametrize("kappa", [1.0, 2.0, 10.0, 100.0, 1e4, 1e8])
def test_the_heavy_ball_lemma_by_its_shorter_proof(kappa):
    """The better of t = 0 and t = ∞ has at most 1 + √κ, which is below 8κ^(2/3) < h(κ)."""
    h = float(bounds.heavy_ball_theorem(kappa))
    assert 1 + np.sqrt(kappa) < 8 * kappa ** (2 / 3) < h
    for smallest in np.geomspace(1e-3 / kappa, 1e3, 60):
        x = np.array([smallest, kappa * smallest])
        assert min((1 + x).max(), (1 + 1 / x).max()) <= 1 + np.sqrt(kappa) + 1e-9
        # the paper's stop, t = κ^(1/6)/√λ*, keeps its promise too
        y = np.linspace(np.sqrt(x[0]), np.sqrt(x[1]), 2001)
        tau = kappa ** (1 / 6)
        g = oscillation(tau * np.sqrt(smallest), tau * y)
        assert ((1 + y**2) * (g**2 + (1 - g) ** 2 / y**2)).max() <= h
