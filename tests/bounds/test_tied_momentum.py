"""The constant of the heavy ball whose momentum is tied to its step, for all steps."""

import math

import numpy as np
import pytest

from stoptime import bounds
from stoptime.bounds import balls, heavy_ball, tied_momentum
from stoptime.methods.iterations import HeavyBall

pytest.importorskip("flint")


def shrinkage(p, k, y):
    """The loop with the momentum (1 - p)², p = √(εμ), at y = √(s/μ)."""
    return HeavyBall(1.0, (1 - p) ** 2).shrinkage((p * y) ** 2, k)


def imbalance(p, k, y, a):
    g = shrinkage(p, k, y)
    return a * y * g - (1 - g) / (a * y)


def family(kappa):
    return tied_momentum.Family(kappa, balls.upward(-(1 - 1 / balls.exact(kappa).sqrt()).log()))


def test_caps_hold_for_all_steps_and_eigenvalues_of_a_box():
    rng = np.random.default_rng(0)
    with balls.working_precision():
        for _ in range(150):
            kappa = float(rng.choice([2, 10, 100]))
            k = int(rng.integers(0, 30))
            low = float(rng.uniform(0.02, 0.95)) / math.sqrt(kappa)
            high = low * (1 + float(rng.choice([0, 1e-3, 0.05])))
            start = float(rng.uniform(0, 0.9)) * math.sqrt(kappa - 1)
            cell = (start, start + float(rng.choice([1e-3, 0.05])))
            a = float(rng.uniform(0.1, 4))
            delta = (-(1 - balls.exact(low)).log()).union(-(1 - balls.exact(high)).log())
            steps = heavy_ball.Steps.of(delta, float(k))
            ((value, variation),) = heavy_ball.imbalances(steps, cell, [balls.exact(a)])
            y = np.hypot(1, np.linspace(*cell, 40))
            found = [np.abs(imbalance(p, k, y, a)).max() for p in np.linspace(low, high, 5)]
            assert max(found) <= balls.upward(abs(value) + variation) + 1e-9


def test_samples_are_those_of_the_loop():
    c, points = tied_momentum.Family(10.0, 0.4).points(0.2, np.array([0.3, 1.1]))
    y = np.hypot(1, c)
    for k, Y1 in zip((1, 5), points.Y1.reshape(2, -1), strict=True):
        assert pytest.approx(y * shrinkage(-np.expm1(-0.2), k, y), abs=1e-9) == Y1


@pytest.mark.parametrize(("kappa", "value"), [(2.0, 2.0), (10.0, 2.0)])
def test_the_constant_is_valid_and_tight_against_brute_force(kappa, value):
    found = bounds.risk_inflation(HeavyBall(), condition_number=kappa)
    assert found.width <= 1e-4 * found.upper
    assert value in found
    y = np.linspace(1, math.sqrt(kappa), 300)
    k = np.arange(60)
    for share in (1.0, 0.9, 0.75, 0.5, 0.3):
        g = shrinkage(share / math.sqrt(kappa), k, y[:, None])
        a = np.geomspace(0.1, 8, 150)[:, None, None]
        D = a * y[:, None] * g - (1 - g) / (a * y[:, None])
        assert 1 + (D**2).max(axis=1).min(axis=1).max() <= found.upper


def test_false_claims_are_refused():
    with balls.working_precision():
        ten = family(10.0)
        delta = ten.longest
        assert ten.prove_floor(delta, 1 / math.sqrt(10), 0.99) == 1
        with pytest.raises(bounds.WorkLimitError, match="every stop"):
            ten.prove_floor(delta, 1 / math.sqrt(10), 1.01)
        with pytest.raises(bounds.WorkLimitError, match="gap"):
            ten.prove_steps(0.999 * delta, 0.99, balls.exact(0.99))
        with pytest.raises(bounds.WorkLimitError, match="short steps"):
            ten.prove_short_steps(0.75, balls.exact(0.76))  # less than the constant of the flow


def test_what_is_asked():
    with pytest.raises(ValueError, match="condition_number"):
        bounds.risk_inflation(HeavyBall())
    with pytest.raises(ValueError, match=r"≥ 1\.5"):
        bounds.risk_inflation(HeavyBall(), condition_number=1.2)
