"""Certified constants of critically damped flow and of iterated ridge, which never oscillate."""

from __future__ import annotations

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

from bounds.formulas import iterated, matern
from stoptime import bounds
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow
from stoptime.methods.ridge import IteratedRidge, Ridge

pytest.importorskip("flint")

METHODS = [CriticalFlow(), *map(IteratedRidge, (2, 3, 10, 100))]
PROVEN = [*METHODS, GradientFlow(), AcceleratedFlow(), AcceleratedFlow(5.0)]


def shrinkage(method, u):
    return matern(u) if isinstance(method, CriticalFlow) else iterated(method.times, u)


def test_critically_damped_flow_is_sharper_than_in_print():
    found = bounds.risk_inflation(CriticalFlow())
    assert found.lower == pytest.approx(1.0277167, abs=1e-8)
    assert found.upper < 1.0278  # the paper states 1.035
    assert found.stop == pytest.approx(1.42590, abs=5e-6)


def test_ridge_twice_has_a_closed_form():
    assert 49 / 48 in bounds.risk_inflation(IteratedRidge(2))
    assert bounds.risk_inflation(IteratedRidge(2)).stop == pytest.approx(2 / 3, rel=1e-6)


def test_ridge_once_is_ridge_and_many_times_is_gradient_flow():
    once = IteratedRidge(1)
    assert bounds.risk_inflation(once) == bounds.risk_inflation(Ridge())
    assert bounds.risk_inflation(once, stop=3.0) == bounds.risk_inflation(Ridge(), stop=3.0)
    assert bounds.parameter_error(once, calibration=2.0) == bounds.parameter_error(
        Ridge(), calibration=2.0
    )
    many = bounds.risk_inflation(IteratedRidge(10**8))
    assert many.lower == pytest.approx(bounds.risk_inflation(GradientFlow()).lower, abs=1e-8)
    constants = [bounds.risk_inflation(IteratedRidge(q)) for q in (2, 3, 10, 1000, 10**8)]
    assert all(a.upper < b.lower for a, b in pairwise(constants))


@pytest.mark.parametrize("calibration", [0.01, 1.0, 2.0, 2.2712, 3.0, 1e4])
@pytest.mark.parametrize("method", METHODS[:3], ids=repr)
def test_parameter_error_agrees_with_mpmath(method, calibration):
    with mp.workdps(60):
        c = mp.mpf(calibration)

        def error(u):
            g = shrinkage_in_mpmath(method, u)
            return (c * (1 - g) / u**2 - g) ** 2

        found = bounds.parameter_error(method, calibration=calibration)
        assert found.width <= 1e-6 * max(1, found.upper)
        worst = max(error(mp.mpf(u)) for u in np.geomspace(1e-8, 60, 400).tolist())
        assert worst <= found.upper
        assert float(worst) == pytest.approx(found.lower, rel=5e-3)


def shrinkage_in_mpmath(method, u):
    if isinstance(method, CriticalFlow):
        return (1 + u) * mp.exp(-u)
    return (1 + u**2 / method.times) ** -method.times


@pytest.mark.parametrize("method", PROVEN, ids=repr)
def test_no_bound_is_refuted_by_random_spectra(method):
    """Bayes risk over that of the best ridge on 2000 spectra of 40 eigenvalues, at the best τ."""
    rng = np.random.default_rng(7)
    decades = rng.uniform(0.1, 6, (2000, 1))
    x = 10 ** (rng.normal(0, 1, (2000, 1)) + decades * rng.normal(0, 1, (2000, 40)))
    found = bounds.risk_inflation(method)
    g = method.shrinkage(x, found.stop)
    gain = method.gain(x, found.stop)
    ratio = (g**2 + x * gain**2).sum(axis=1) / (1 / (1 + x)).sum(axis=1)
    assert ratio.max() <= found.upper
    # Some spectrum, one eigenvalue at a worst place, comes close to the bound.
    x = np.geomspace(1e-3, 1e3, 5001)
    risk = (1 + x) * (method.shrinkage(x, found.stop) ** 2 + x * method.gain(x, found.stop) ** 2)
    assert risk.max() >= found.lower - 1e-5
