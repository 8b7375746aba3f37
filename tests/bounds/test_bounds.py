"""Certified constants: against the paper, against brute force, and what may be asked."""

from __future__ import annotations

import sys

import mpmath
import numpy as np
import pytest

from bounds.formulas import bessel, oscillation, risk_ratio, shrinkage
from campaign import long
from stoptime import bounds
from stoptime.bounds import summary
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.ridge import Butterworth, IteratedRidge, Ridge
from stoptime.methods.schedules import Cosine

flint = pytest.importorskip("flint")

# Flows with the value of their constant, to the digits that are known without a proof.
INFLATION = {
    GradientFlow(): 1.07858282746,
    CriticalFlow(): 1.0277167,  # 1.035 is in print
    IteratedRidge(2): 49 / 48,
    IteratedRidge(10): 1.0643,
    IteratedRidge(10**8): 1.07858281958,  # gradient flow is the limit
    Butterworth(3): 5 / 4,
    AcceleratedFlow(2): 2.0577,
    AcceleratedFlow(3): 1.59910940073,
    AcceleratedFlow(4): 1.3744,
    AcceleratedFlow(5): 1.2581,
    AcceleratedFlow(9): 1.1392,
    AcceleratedFlow(21): 1.0965,
}
SOME = (GradientFlow(), IteratedRidge(2), AcceleratedFlow(3), AcceleratedFlow(9))
U = np.union1d(np.geomspace(1e-3, 60, 20_001), np.linspace(1e-3, 60, 40_001))


def worst_ratio(method, stop):
    """The largest risk ratio on a dense grid."""
    x = np.geomspace(1e-4, 1e5, 60_001)
    if isinstance(method, AcceleratedFlow):
        x = x[x < (60 / stop) ** 2]
    return risk_ratio(x, shrinkage(method, np.sqrt(x * stop**method.time_power))).max()


# --- risk inflation -------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "value"), INFLATION.items(), ids=map(str, INFLATION))
def test_inflation_is_valid_and_tight_against_brute_force(method, value):
    found = bounds.risk_inflation(method)
    assert found.width <= 1e-6
    # as many digits as the value has
    assert found.lower == pytest.approx(value, abs=6e-5 if value == round(value, 4) else 1e-8)
    best = worst_ratio(method, found.stop)
    assert found.lower - 1e-6 <= best <= found.upper + 1e-12
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        assert worst_ratio(method, factor * found.stop) >= found.lower - 1e-6


@pytest.mark.parametrize("friction", [2.0, 3.0, 4.0])
def test_inflation_of_little_friction_has_a_closed_form(friction):
    deepest = bessel(friction, np.linspace(2, 9, 200_001)).min()
    found = bounds.risk_inflation(AcceleratedFlow(friction))
    assert found.lower == pytest.approx((1 - 2 * deepest) ** 2, abs=1e-9)


@long
def test_much_friction_is_gradient_flow():
    limit = bounds.risk_inflation(GradientFlow())
    # 200 is the largest friction
    near, nearer = (bounds.risk_inflation(AcceleratedFlow(friction)) for friction in (100, 200))
    # the distance is of order 1/friction, so that extrapolation leaves its square
    assert 2 * nearer.lower - near.lower == pytest.approx(limit.lower, abs=1e-4)
    stops = near.stop**2 / (2 * 101), nearer.stop**2 / (2 * 201)
    assert 2 * stops[1] - stops[0] == pytest.approx(limit.stop, rel=1e-3)


@pytest.mark.parametrize("stop", [0.05, 1.0, 40.0])
@pytest.mark.parametrize("method", [*SOME, Butterworth(3)], ids=str)
def test_inflation_at_a_given_stop(method, stop):
    found = bounds.risk_inflation(method, stop=stop)
    assert found.stop == stop
    assert worst_ratio(method, stop) == pytest.approx(found.upper, rel=1e-6)
    assert worst_ratio(method, stop) <= found.upper * (1 + 1e-12)
    assert found.width <= 1e-6 * found.upper


def test_ridge_is_its_own_oracle():
    x = np.geomspace(1e-3, 1e3, 100_001)
    detuned = risk_ratio(x, 1 / (1 + 3 * x)).max()
    for ridge in (Ridge(), IteratedRidge(1), Butterworth(1)):
        assert bounds.risk_inflation(ridge) == bounds.Enclosure(1.0, 1.0, 1.0)
        found = bounds.risk_inflation(ridge, adaptive=True)
        assert (found.lower, found.upper) == (1.0, 1.0)
        assert bounds.risk_inflation(ridge, stop=3.0).upper == pytest.approx(detuned, rel=1e-8)
        assert bounds.parameter_error(ridge).upper == 0.0
        assert bounds.parameter_error(ridge, calibration=3.0).upper == 4.0


# --- heavy ball -----------------------------------------------------------------------------------


def heavy_ball_at(kappa, a, samples=200):
    """The best stop's largest risk ratio of one problem, on grids."""
    x = a * np.sqrt(1 + (kappa - 1) * np.linspace(0, 1, samples) ** 2)
    early = np.linspace(0.2, 3, 400) / (a * np.sqrt(kappa))
    late = np.geomspace(0.3, 12, 800) / a
    tau = np.concatenate([early, late])[:, None]
    return risk_ratio(x**2, oscillation(tau * a, tau * x)).max(axis=1).min()


# With similar eigenvalues the hardest problem has one best stop, which moves with it; up to a
# condition number of about 1.41, and then it has two.
@pytest.mark.parametrize(
    ("kappa", "value"),
    [
        (1, 1.0),
        pytest.param(1.3, 1.0202, marks=long),
        (2, 1.138),
        (10, 1.611),
        (100, 2.789),
        pytest.param(1000, 5.838, marks=long),
    ],
)
def test_heavy_ball_inflation_is_valid_and_tight_against_brute_force(kappa, value):
    found = bounds.risk_inflation(HeavyBallFlow(), condition_number=kappa)
    assert found.width <= 1e-4 * found.upper
    assert found.lower - 1e-3 <= value <= found.upper + 1e-3
    problems = np.geomspace(0.3 / np.sqrt(kappa), 6, 60) if kappa < 1000 else [0.235, 0.24, 0.245]
    largest = max(heavy_ball_at(kappa, a, 200 if kappa < 1000 else 2500) for a in problems)
    assert largest <= found.upper * 1.01  # the grid of stops is coarse: too large
    assert largest >= found.lower * 0.97  # the grid of problems too: too small
    if kappa == 1:
        assert found.lower == found.upper == 1.0
        assert HeavyBallFlow(1.0).shrinkage(1.0, found.stop) == pytest.approx(0.5, rel=1e-15)


def test_heavy_ball_theorem_is_far_from_sharp():
    h = bounds.heavy_ball_theorem([1, 10, 100, 1000])
    assert h == pytest.approx([9.0827, 40.694, 187.828, 870.82], rel=1e-5)
    assert isinstance(bounds.heavy_ball_theorem(1.0), float)
    assert bounds.risk_inflation(HeavyBallFlow(), condition_number=100).upper < h[2] / 60


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
        assert risk_ratio(y**2, g).max() <= h


# --- parameter error ------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", [0.01, 1.0, 2.2712, 5.0, 1e4])
@pytest.mark.parametrize(
    "method", [*SOME[:2], CriticalFlow(), *map(AcceleratedFlow, (0.2, 2.0, 3.0, 7.0))], ids=str
)
def test_parameter_error_is_valid_and_tight_against_brute_force(method, calibration):
    g = shrinkage(method, U)
    errors = (calibration * (1 - g) / U**2 - g) ** 2
    found = bounds.parameter_error(method, calibration=calibration)
    scale = max(1.0, found.upper)
    assert found.width <= 1e-6 * scale
    assert errors.max() <= found.upper + 1e-8 * scale  # rounding of (1 - g)/u²
    # from the limit 0 on the error of critically damped flow falls with a slope
    slack = (5e-3 if method == CriticalFlow() else 1e-5) * scale
    assert errors.max() == pytest.approx(found.lower, abs=slack)
    there = max(found.stop ** (method.time_power / 2), 1e-3)
    assert np.interp(there, U, errors) == pytest.approx(found.lower, abs=slack)


def test_parameter_error_in_the_limit_is_exact():
    assert bounds.parameter_error(AcceleratedFlow()) == bounds.Enclosure(49 / 64, 49 / 64, 0.0)
    assert bounds.parameter_error(AcceleratedFlow(), calibration=5.0).upper == 9 / 64
    best = bounds.parameter_error(AcceleratedFlow(), calibration=5.0002)
    assert best.lower == pytest.approx(0.14061, abs=5e-6)
    # One third is no double: the ends must differ, or one of them would be wrong.
    assert bounds.parameter_error(AcceleratedFlow(2.0)).width > 0
    assert 25 / 36 in bounds.parameter_error(AcceleratedFlow(2.0))


@pytest.mark.parametrize("calibration", [0.2, 1.0, 4.0, 10.0])
def test_parameter_error_of_the_heavy_ball(calibration):
    a, b = np.meshgrid(np.linspace(0, 6, 301), np.linspace(0, 12, 1201)[1:])
    u = np.hypot(a, b)
    worst = (((1 - oscillation(a, u)) * (u**2 + calibration) / u**2 - 1) ** 2).max()
    found = bounds.parameter_error(HeavyBallFlow(), calibration=calibration)
    assert found.width <= 1e-6 * max(1, found.upper)
    assert worst <= found.upper + 1e-9
    assert worst == pytest.approx(found.lower, rel=2e-4)
    if calibration == 1.0:
        assert found.upper == pytest.approx(1.46688, abs=1e-5)
        assert found.stop == pytest.approx(3.0, abs=0.02)


# --- couplings at λ = 1/t² ------------------------------------------------------------------------

each_flow = pytest.mark.parametrize(
    "method", [*SOME, CriticalFlow(), *map(AcceleratedFlow, (1.0, 4.0))], ids=str
)


@each_flow
def test_the_variance_is_coupled(method):
    g = shrinkage(method, U)
    found = bounds.variance_coupling(method)
    assert found.width <= 1e-9
    ratios = ((1 - g) * (1 + U**2) / U**2) ** 2
    assert found.lower - 1e-6 <= ratios.max() <= found.upper
    near = np.abs(U ** (2 // method.time_power) - found.stop).argmin()
    assert ratios[near] == pytest.approx(found.lower, rel=1e-4)


@each_flow
def test_the_bias_is_coupled_where_oscillations_fall_fast(method):
    ratios = ((1 + U**2) * shrinkage(method, U)) ** 2
    if isinstance(method, AcceleratedFlow) and method.friction < 4:
        with pytest.raises(ValueError, match=r"cannot be coupled.*at least 4"):
            bounds.bias_coupling(method)
        # the ratio grows without bound along the peaks
        assert ratios[U > 40].max() > 2 * ratios[U < 10].max()
        return
    found = bounds.bias_coupling(method, tolerance=1e-6)
    assert found.lower - 1e-5 <= ratios.max() <= found.upper
    assert found.width <= 1e-6 * found.upper


def test_couplings_of_the_paper():
    assert pytest.approx(bounds.variance_coupling("nesterov-flow").lower, abs=5e-6) == 1.38363
    assert bounds.variance_coupling("nesterov-flow").stop == pytest.approx(5.0093, abs=1e-4)
    assert pytest.approx(bounds.variance_coupling("heavy-ball-flow").lower, abs=5e-6) == 4.88918
    with pytest.raises(ValueError, match="heavy-ball flow cannot be coupled"):
        bounds.bias_coupling("heavy-ball-flow")
    # and in closed form
    assert 81 / 64 in bounds.variance_coupling(IteratedRidge(2))
    assert bounds.bias_coupling(Ridge()).lower == bounds.bias_coupling(GradientFlow()).lower == 1.0


# --- theorems and table ---------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [0.0, 1.0, 37.5, 1e3, 1e6, 1e20])
def test_counterexample_to_a_uniform_coupling(constant):
    x = bounds.coupling_counterexample(constant)
    with mpmath.workdps(80):
        ratio = (1 + mpmath.mpf(x)) ** 2 * 4 * mpmath.besselj(1, mpmath.sqrt(x)) ** 2 / x
        assert ratio > constant
    assert x <= 2 * (np.pi * (constant / 8 + 1)) ** 2


def test_table_compares_the_paper_with_the_certificates(monkeypatch):
    some = summary.claims(())[:7]
    monkeypatch.setattr(summary, "claims", lambda _: some)
    seen = []
    table = bounds.table(progress=seen.append)
    assert seen == [row.statement for row in table.rows] == [claim.statement for claim in some]
    assert [(row.paper, row.verdict) for row in table.rows] == [
        (1.0786, "sharper"),
        (1.0786, "confirmed"),
        (1.2147, "confirmed"),
        (1.5991, "sharper"),
        (1.5991, "rounded down"),
        (0.7657, "confirmed"),
        (25.0, "sharper"),
    ]
    lines = str(table).splitlines()
    assert len(lines) == 1 + len(table.rows)
    assert "1.2676" in lines[4]
    assert "1.5991094" in lines[5]


@long
def test_every_constant_is_proven():
    table = bounds.table(condition_numbers=(1, 10))
    assert all(row.certified.width <= 1e-3 * row.certified.upper for row in table.rows)


def test_every_theorem_on_risks_has_both_readings():
    best, one = "best stop of each spectrum", "one stop for all spectra"
    found = [claim.statement for claim in summary.claims(())]
    names = [name.removesuffix(best) for name in found if name.endswith(best)]
    assert names == [name.removesuffix(one) for name in found if name.endswith(one)]
    assert len(names) == 14


@pytest.mark.parametrize(
    ("paper", "verdict"),
    [
        (None, "new"),
        (1.9998, "too small in print"),
        (1.99995, "rounded down"),
        (2.0, "confirmed"),
        (2.99, "confirmed"),
        (3.00009, "confirmed"),
        (3.0002, "sharper"),
    ],
)
def test_verdicts(paper, verdict):
    row = bounds.BoundsRow("a statement", paper, bounds.Enclosure(2.0, 3.0, stop=1.5))
    assert row.verdict == verdict


def test_enclosures_and_tables_are_printed_outwards():
    third = bounds.Enclosure(1 / 3, 2 / 3, stop=1 / 7)
    assert str(third) == "[0.333333333333, 0.666666666667] at stop 0.142857"
    assert third.width == pytest.approx(1 / 3)
    assert 0.5 in third
    assert 0.7 not in third
    with pytest.raises(ValueError, match="lower"):
        bounds.Enclosure(2.0, 1.0, stop=0.0)
    row = bounds.BoundsRow("third", 0.33333333333, third)
    assert str(bounds.BoundsTable((row,))).splitlines() == [
        "statement   paper         lower         upper      stop",
        "third      0.3334  0.3333333333  0.6666666667  0.142857  rounded down",
    ]


# --- what is asked --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": AcceleratedFlow(1.9)}, "infinite"),
        ({"method": HeavyBallFlow()}, "condition_number"),
        ({"method": HeavyBallFlow(), "condition_number": 0.9}, "between 1 and"),
        ({"method": HeavyBallFlow(), "condition_number": 10_000_000.5}, "between 1 and"),
        ({"method": HeavyBallFlow(damping=0.5), "condition_number": 10}, "critical"),
        ({"method": HeavyBallFlow(), "condition_number": 10, "stop": 1.0}, "stop"),
        ({"method": GradientFlow(), "condition_number": 10}, "HeavyBallFlow only"),
        ({"method": GradientFlow(), "stop": 1.0, "adaptive": True}, "give none"),
        ({"method": Nesterov(), "adaptive": True}, "depends on its step"),
        ({"method": AcceleratedFlow(1.5), "adaptive": True}, "infinite"),
        ({"method": Nesterov(0.1, friction=1.9)}, "friction ≥ 2"),
        ({"method": Nesterov(0.1, momentum=0.9)}, "constant momentum"),
        ({"method": NuMethod(0.1, nu=0.4)}, "ν ≥ 1/2"),
        ({"method": GradientDescent(step=Cosine(peak=0.1, total=10))}, "constant step"),
        ({"method": GradientDescent(), "stop": 3}, "depends on its step"),
        ({"method": GradientDescent(0.1), "stop": 2.5}, "whole number"),
        ({"method": HeavyBall(step=0.1)}, "momentum as a number"),
        ({"method": HeavyBall(0.1, 0.9), "stop": -1}, "whole number"),
        ({"method": GradientFlow(), "stop": -1.0}, "stop"),
        ({"method": GradientFlow(), "tolerance": 0.0}, "tolerance"),
    ],
)
def test_senseless_questions_about_inflation(arguments, message):
    with pytest.raises(ValueError, match=message):
        bounds.risk_inflation(**arguments)


def test_senseless_questions_about_the_rest():
    with pytest.raises(ValueError, match="calibration"):
        bounds.parameter_error(GradientFlow(), calibration=0.0)
    with pytest.raises(ValueError, match="critical"):
        bounds.parameter_error(HeavyBallFlow(damping=1.0))
    for function in (bounds.risk_inflation, bounds.parameter_error):
        with pytest.raises(TypeError, match="Ridge, GradientFlow"):
            function("spectral-cutoff")
        with pytest.raises(ValueError, match="depends on the response"):
            function("conjugate-gradient")
    for kappa in (0.5, np.nan, np.inf, [2.0, 0.0]):
        with pytest.raises(ValueError, match="kappa"):
            bounds.heavy_ball_theorem(kappa)
    for constant in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="constant"):
            bounds.coupling_counterexample(constant)


def test_without_flint_the_message_says_what_to_install(monkeypatch):
    bounds.risk_inflation(GradientFlow())  # a remembered answer must not hide that flint is gone
    monkeypatch.setitem(sys.modules, "flint", None)
    for call in (
        lambda: bounds.risk_inflation(GradientFlow()),
        lambda: bounds.parameter_error(GradientFlow()),
        lambda: bounds.coupling_counterexample(1.0),
        lambda: bounds.table(condition_numbers=()),
    ):
        with pytest.raises(ImportError, match=r"pip install \"stoptime\[certify\]\""):
            call()
    assert bounds.heavy_ball_theorem(1.0) > 9
