"""Certified constants of the iterations: against their loops, their flows, and brute force."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bounds.formulas import risk_ratio
from stoptime import bounds
from stoptime.bounds import balls, certificates, iterations
from stoptime.bounds.minimax import Strategy
from stoptime.methods.averages import Decayed
from stoptime.methods.iterations import (
    SGD,
    GradientDescent,
    HeavyBall,
    Nesterov,
    NuMethod,
    OptimalIteration,
)
from stoptime.methods.schedules import Cosine
from stoptime.show.plan import plan
from stoptime.theory.calibration import calibrate

flint = pytest.importorskip("flint")

METHODS = [GradientDescent(), Nesterov(), Nesterov(friction=2.0), NuMethod(), NuMethod(nu=0.7)]
each_method = pytest.mark.parametrize("method", METHODS, ids=repr)


def loop(method, theta, k):
    """The shrinkage at εs = sin²θ, from the loop of the iteration."""
    return method.with_params(step=1.0).shrinkage(np.sin(theta) ** 2, k)


def worst_ratios(method, step, last, points=3000):
    """The largest risk ratio of every iterate up to a last one, on a grid of eigenvalues."""
    y = np.sin(np.linspace(1e-4, np.pi / 2, points)) ** 2
    stops = np.arange(last + 1)
    return risk_ratio(y[:, None] / step, method.with_params(step=1.0).shrinkage(y[:, None], stops))


# --- the polynomials ------------------------------------------------------------------------------


@each_method
@pytest.mark.parametrize("k", [0, 1, 2, 7, 40])
def test_the_polynomials_are_the_iterates(method, k):
    theta = np.linspace(0.01, np.pi / 2, 50)
    iterate = iterations.step_game(method.with_params(step=1.0)).at(k)
    h = 2.0**-20
    with balls.working_precision():
        found, ahead, behind, slope = (
            [float(part(balls.exact(t + d))) for t in theta.tolist()]
            for part, d in [
                (iterate.shrinkage, 0.0),
                (iterate.shrinkage, h),
                (iterate.shrinkage, -h),
                (iterate.slope, 0.0),
            ]
        )
    assert found == pytest.approx(loop(method, theta, k), abs=1e-13)
    assert slope == pytest.approx((np.array(ahead) - behind) / (2 * h), abs=1e-6 * (k + 1) ** 3)


@each_method
@pytest.mark.parametrize("k", [1, 2, 25])
def test_tails_and_energies_bound_what_comes_later(method, k):
    iterate = iterations.step_game(method.with_params(step=1.0)).at(k)
    theta = np.linspace(0.02, np.pi / 2, 300)
    g = np.abs(loop(method, theta, k))
    with balls.working_precision():
        for i in range(0, 300, 23):
            cap = balls.upward(iterate.tail(float(theta[i])))
            assert g[i:].max() <= cap + 1e-12
            assert (np.sin(theta) * g)[i:].max() <= cap * np.sin(theta[i]) + 1e-12
            cap = balls.upward(iterate.later(balls.exact(float(theta[i]))))
            assert np.abs(loop(method, theta[i], np.arange(k, k + 60))).max() <= cap + 1e-12


@pytest.mark.parametrize(
    "method",
    [
        HeavyBall(0.7, 0.9),
        HeavyBall(1.8, 0.5),
        Nesterov(1.2),
        Nesterov(0.5, momentum=0.8),
        SGD(0.5, 0.9, nesterov=True),
        SGD(0.5, 0.9, dampening=0.5),
        GradientDescent(Cosine(peak=0.9, total=40)),
    ],
    ids=repr,
)
def test_the_maximum_of_a_polynomial_is_proven_from_its_values(method):
    for k, penalty, low, high in [(1, 0.1, 0.0, 1.0), (20, 0.01, 0.02, 1.0), (30, 2.0, 0.5, 0.6)]:
        s = low + (high - low) * np.sin(np.linspace(1e-4, np.pi / 2, 4001)) ** 2
        worst = risk_ratio(s / penalty, method.shrinkage(s, k)).max() - 1
        with balls.working_precision():
            cap = iterations.proven_at(method, k, penalty, (low, high)) - 1
        assert worst <= cap * (1 + 1e-12)
        assert cap <= worst + 3e-5 * max(1, worst)


@pytest.mark.parametrize("eta", [0.0, 0.5, 0.9, 0.97])
def test_polynomials_and_energies_of_the_heavy_ball(eta):
    method = HeavyBall(1.0, eta)
    stops = (1, 7, math.ceil(16 / (1 - math.sqrt(eta))))
    # the first of these does not oscillate with momentum, and the last one does
    for y in (1e-5, 0.15, 0.87):
        with balls.working_precision():
            ball = balls.exact(y)
            found = list(map(float, iterations.heavy_ball_iterates(eta, ball, stops)))
            assert found == pytest.approx(method.shrinkage(y, np.array(stops)), abs=1e-10)
            for k in stops:
                later = np.abs(method.shrinkage(y, np.arange(k, k + 90))).max()
                cap = iterations.late_heavy_ball(eta, ball, k)
                assert later <= float(cap.upper()) * (1 + 1e-9)


# --- constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, HeavyBall(momentum=0.8)], ids=repr)
@pytest.mark.parametrize("step", [3.0, 0.6, 0.02])
def test_the_constant_of_a_step_is_valid_and_tight_against_brute_force(method, step):
    found = bounds.risk_inflation(method.with_params(step=step))
    ratios = worst_ratios(method, step, 60).max(axis=0)
    assert found.width <= 1e-4 * found.upper
    assert ratios.min() == pytest.approx(found.upper, rel=1e-4)
    assert ratios[int(found.stop)] == pytest.approx(ratios.min(), rel=1e-4)
    assert calibrate(method.with_params(step=step)).inflation == pytest.approx(
        found.upper, rel=1e-4
    )


HARD_STEP = 0.003979  # for the momentum 0.99; its best stops are 217 and 221


def test_peaks_of_fast_oscillations_are_found_between_the_angles():
    found = bounds.risk_inflation(HeavyBall(HARD_STEP, 0.99))
    y = np.sin(np.linspace(1e-4, np.pi / 2, 200_001)) ** 2
    g = HeavyBall(1.0, 0.99).shrinkage(y, found.stop)
    assert found.stop in {217, 221}
    assert risk_ratio(y / HARD_STEP, g).max() == pytest.approx(found.upper, rel=1e-4)


def test_random_spectra_and_steps_do_not_refute_the_constants():
    rng = np.random.default_rng(2)
    methods = [GradientDescent(), Nesterov(), NuMethod(), HeavyBall(momentum=0.9)]
    for method in methods:
        for step in (2.0, 0.5, 0.1, 0.02, 0.005):
            found = bounds.risk_inflation(method.with_params(step=step))
            # a hundred spectra, of eigenvalues up to the inverse of the step
            y = rng.uniform(0, 1, (100, 8)) ** rng.uniform(0.5, 12, (100, 1))
            g = method.with_params(step=1.0).shrinkage(y, found.stop)
            x = y / step
            risk = np.sum(g**2 + (1 - g) ** 2 / x, axis=1)
            ridge = np.sum(1 / (1 + x), axis=1)
            assert np.all(risk / ridge <= found.upper)


def test_one_iterate_at_one_step():
    found = bounds.risk_inflation(Nesterov(step=0.01), stop=20)
    assert found.stop == 20
    assert found.width <= 1e-4
    assert worst_ratios(Nesterov(), 0.01, 20)[:, 20].max() == pytest.approx(found.upper, rel=1e-4)
    # values of polynomials of large order overflow, and the iterates of much friction are those of
    # gradient flow at k²ε/2(r + 1)
    steep = bounds.risk_inflation(Nesterov(step=1e-7, friction=200.0), stop=42_000)
    slow = bounds.risk_inflation("gradient-flow", stop=42_000**2 * 1e-7 / 402)
    assert steep.upper == pytest.approx(slow.upper, rel=0.02)
    # half a million iterations are no more work than fifty
    late = bounds.risk_inflation(GradientDescent(step=1e-6), stop=457_110)
    assert late.lower == pytest.approx(bounds.risk_inflation("gradient-flow").lower, abs=1e-5)


def test_a_false_claim_about_all_stops_is_refused():
    with balls.working_precision():
        game = replace(iterations.step_game(Nesterov(0.05)), last=60)
        stop, least = game.best_stop(1e-9)
        game.prove_floor(None, 0.998 * least)
        with pytest.raises(bounds.WorkLimitError, match="no better"):
            game.prove_floor(None, 1.002 * least)
        with pytest.raises(bounds.WorkLimitError, match="late stop"):
            replace(game, last=6).prove_floor(None, 0.998 * least)
        game.prove_cap(Strategy.single(stop), 1.002 * least)
        with pytest.raises(bounds.WorkLimitError):
            game.prove_cap(Strategy.single(stop), 0.998 * least)


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "penalty"),
    [("gradient-descent", 1e-9), ("nesterov", 0.3), ("nu-method", 1e-9), ("heavy-ball", 0.3)],
)
def test_plans_are_proven(method, penalty):
    momentum = 0.7 if method == "heavy-ball" else None
    run = plan(penalty, method=method, step=0.8, momentum=momentum).run
    assert run.proven
    scaled = run.method.with_params(step=0.8 * penalty)
    found = bounds.risk_inflation(scaled, stop=run.iterations)
    assert run.inflation == pytest.approx(found.upper, abs=1e-4)
    assert run.inflation >= found.lower


def test_a_plan_says_which_guarantees_are_not_proven(monkeypatch):
    unproven = plan(1e-4, step=0.5, momentum=0.9)
    assert unproven.iterations > iterations.LONGEST_LOOP
    assert not unproven.run.proven
    assert unproven.descent.proven
    assert str(unproven).endswith("not proven for nesterov (lr 0.5, momentum 0.9)")
    proven = plan(0.01, step=0.5)
    assert "not proven" not in str(proven)
    monkeypatch.setattr(certificates, "find_spec", lambda _: None)
    without = plan(0.01, step=0.5)
    assert not without.run.proven
    assert without.run.inflation == pytest.approx(proven.run.inflation, abs=1e-4)


# --- what is asked --------------------------------------------------------------------------------


def test_what_is_not_certified():
    with pytest.raises(TypeError, match="certified for Ridge"):
        bounds.parameter_error("nesterov")
    with pytest.raises(TypeError, match="GradientDescent"):
        bounds.risk_inflation(SGD(0.1, 0.9))
    with pytest.raises(bounds.WorkLimitError, match="give the stop"):
        bounds.risk_inflation(GradientDescent(1e-6))


def test_a_loop_with_the_gradient_of_ridge_is_proven():
    planned = plan(0.2, method=OptimalIteration(0.5, penalty=0.2)).run
    assert planned.proven
    price = bounds.price_of_products(planned.iterations, largest_eigenvalue=2.0, penalty=0.2)
    assert price.lower <= planned.inflation <= price.upper + 1e-4
    # this method has no loop of its own
    assert not plan(0.02, method=Decayed(HeavyBall(0.5, 0.5), 0.01)).run.proven


@pytest.mark.parametrize("method", [GradientDescent(1.0), Nesterov(1.0), NuMethod(1.0)], ids=str)
def test_a_largest_eigenvalue_rounded_above_one_over_the_step_is_covered(method):
    """With L = 10 the product of step 1/L and L may exceed 1 by rounding."""
    y = 1 + 1e-9 * np.linspace(0, 1, 50)
    with balls.working_precision():
        for k in (1, 40):
            once = Strategy.single(k)
            # a large ρ makes the last eigenvalue the worst one
            for rho in (0.05, 3.0):
                ball = balls.exact(rho)
                (_, inside), (_, beyond) = (
                    iterations.step_game(method, ball, (0.0, end)).largest(once, 1e-7)
                    for end in (1.0, 1 + 1e-9)
                )
                assert inside <= beyond < inside * (1 + 1e-4)
                x = y / rho**2
                g = method.shrinkage(y, k)
                assert np.all(((1 + x) * g - 1) ** 2 / x <= beyond)
