"""The price of k products: closed form, linear programme, and simulation."""

from __future__ import annotations

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from numpy.polynomial import chebyshev
from scipy.optimize import linprog

from stoptime import bounds
from stoptime.methods.conjugate_gradient import conjugate_gradients
from stoptime.methods.iterations import (
    GradientDescent,
    HeavyBall,
    Nesterov,
    NuMethod,
    OptimalIteration,
)

flint = pytest.importorskip("flint")

CASES = [(1, 1.0), (2, 10.0), (1, 0.2), (5, 100.0), (9, 1000.0)]


def price(k, condition):
    return bounds.price_of_products(k, largest_eigenvalue=condition, penalty=1.0)


# --- the closed form ------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 7, 300, 10**9])
@pytest.mark.parametrize(("largest", "penalty"), [(1.0, 1e-4), (3e150, 2e150), (1e-150, 1e-140)])
def test_enclosure_contains_the_formula_to_fifty_digits(k, largest, penalty):
    found = bounds.price_of_products(k, largest_eigenvalue=largest, penalty=penalty)
    with mpmath.workdps(50):
        angle = mpmath.asinh(mpmath.sqrt(mpmath.mpf(penalty) / mpmath.mpf(largest)))
        excess = mpmath.csch((2 * k + 1) * angle) ** 2
        assert mpmath.mpf(found.lower) <= 1 + excess <= mpmath.mpf(found.upper)
    assert found.width <= 4e-16 * found.upper
    assert found.stop == k


def test_price_falls_with_every_product_and_depends_on_the_ratio_alone():
    prices = [price(k, 50.0) for k in range(30)]
    assert prices[0].lower <= 51 <= prices[0].upper  # without products the risk is 1 + L/λ*
    assert all(later.upper < former.lower for former, later in pairwise(prices))
    scaled = bounds.price_of_products(7, largest_eigenvalue=50 * 2.0**400, penalty=2.0**400)
    assert scaled == prices[7]
    # an excess below rounding, and a price that overflows
    assert bounds.price_of_products(99, largest_eigenvalue=1.0, penalty=9.0).lower == 1.0
    wide = bounds.price_of_products(0, largest_eigenvalue=1e300, penalty=1e-300)
    assert (wide.lower, wide.upper) == (1.0, np.inf)


@pytest.mark.parametrize(("k", "condition"), CASES)
def test_price_is_the_optimum_of_a_linear_programme(k, condition):
    points = 40 * (2 * k + 1) + 1
    x = condition * np.sin(np.linspace(0, np.pi / 2, points)) ** 2
    # D = √x - A c for the gain with coefficients c in Chebyshev polynomials
    A = (np.sqrt(x) * (1 + x))[:, None] * chebyshev.chebvander(2 * x / condition - 1, k - 1)
    A = np.hstack([A / np.abs(A).max(), -np.ones((points, 1))])
    flipped = A * np.append(-np.ones(k), 1.0)
    b = np.sqrt(x)
    found = linprog(
        np.append(np.zeros(k), 1.0),
        A_ub=np.vstack([A, flipped]),
        b_ub=np.append(b, -b),
        bounds=(None, None),
        method="highs",
    )
    # the programme sees its grid alone; between points D grows by at most 1/cos
    room = np.cos(np.pi / (4 * 40)) ** -2
    excess = price(k, condition).lower - 1
    assert found.fun**2 * (1 - 1e-6) <= excess <= found.fun**2 * room * (1 + 1e-6)


# --- no polynomial is better ----------------------------------------------------------------------


def test_two_thousand_polynomials_do_not_beat_the_price_on_the_hardest_spectrum():
    rng = np.random.default_rng(0)
    for _ in range(100):
        k = int(rng.integers(1, 9))
        condition = float(10 ** rng.uniform(-1, 4))
        x = bounds.hardest_spectrum(k, largest_eigenvalue=condition)
        best = OptimalIteration(step=1 / condition, penalty=1.0).gain(x, k)
        # from far away to a hair's breadth from the optimum
        sizes = 10 ** rng.uniform(-8, 0, (20, 1)) / (1 + condition)
        bumps = chebyshev.chebval(2 * x / condition - 1, rng.standard_normal((k, 20)))
        F = 1 + x * (1 - (1 + x) * (best + sizes * bumps)) ** 2
        least = price(k, condition).lower * (1 - 1e-12)
        # the Bayes risk on this spectrum, over that of ridge, and so the worst direction
        assert np.all(np.average(F, weights=1 / (1 + x), axis=1) >= least)
        assert np.all(F.max(axis=1) >= least)


def test_methods_that_depend_on_the_response_pay_the_price_too():
    # Gaussian signal and noise: the risk is that of ridge plus the mean squared distance from it
    rng = np.random.default_rng(1)
    k, condition, copies, runs = 3, 30.0, 12, 400
    x = np.repeat(bounds.hardest_spectrum(k, largest_eigenvalue=condition), copies)
    beta = rng.standard_normal((runs, len(x)))
    z = x * beta + np.sqrt(x) * rng.standard_normal((runs, len(x)))
    ridge_risk = np.sum(1 / (1 + x))
    nearest = np.empty(runs)
    losses = np.empty((runs, 2, k + 1))
    for i, (b, response) in enumerate(zip(beta, z, strict=True)):
        # the point of the Krylov space that is nearest to ridge: no method of k products is nearer
        ridge = response / (1 + x)
        space = np.linalg.qr(np.vander(x / condition, k) * response[:, None])[0]
        nearest[i] = np.sum((ridge - space @ (space.T @ ridge)) ** 2)
        for shift in (0, 1):
            drawn = conjugate_gradients(x + shift, response, np.arange(k + 1)).components
            losses[i, shift] = np.sum((drawn - b) ** 2, axis=1)
    least = (1 - 2 / copies) * (price(k, condition).lower - 1) * ridge_risk
    assert nearest.mean() >= least - 3 * nearest.std() / np.sqrt(runs)
    # the limit of many directions is approached from below
    assert nearest.mean() <= (price(k, condition).upper - 1) * ridge_risk
    # conjugate gradients for least squares and for ridge, after any number of products up to k
    excess = losses.mean(axis=0) - ridge_risk
    assert np.all(excess >= least - 3 * losses.std(axis=0) / np.sqrt(runs))


# --- how far the iterations are -------------------------------------------------------------------


def test_optimal_iteration_has_the_price_and_is_clearly_better():
    x = 1000 * np.sin(np.linspace(0, np.pi / 2, 20_001))[:, None] ** 2
    k = np.arange(41)

    def guarantees(method):
        """The largest ratio of risks after at most so many products."""
        tuned = method.tuned_to([1000.0])
        ratios = 1 + x * (tuned.shrinkage(x, k) - tuned.gain(x, k)) ** 2
        return np.minimum.accumulate(ratios.max(axis=0))

    optimal = guarantees(OptimalIteration(penalty=1.0))
    prices = np.array([price(one, 1000.0).upper for one in k])
    np.testing.assert_allclose(optimal - 1, prices - 1, rtol=1e-4)
    others = [Nesterov(), Nesterov(friction=5.0), NuMethod(), NuMethod(nu=2.0), NuMethod(nu=0.5)]
    others += [GradientDescent(), HeavyBall(momentum=0.8)]
    found = np.array([guarantees(one) for one in others])
    assert np.all(found >= prices * (1 - 1e-4))
    assert np.all(optimal[5:] < 0.95 * found.min(axis=0)[5:])


# --- what may be asked ----------------------------------------------------------------------------


def test_senseless_questions():
    known = {"largest_eigenvalue": 1.0, "penalty": 1.0}
    for products in (2.0, -1, True):
        with pytest.raises(ValueError, match="products must be a whole number"):
            bounds.price_of_products(products, **known)
    with pytest.raises(ValueError, match="penalty must be a positive number"):
        bounds.price_of_products(1, largest_eigenvalue=1.0, penalty=0.0)
    with pytest.raises(ValueError, match="largest_eigenvalue must be a positive number"):
        bounds.hardest_spectrum(1, largest_eigenvalue=np.nan)
