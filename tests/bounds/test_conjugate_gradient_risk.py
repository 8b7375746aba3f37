"""The bound of conjugate gradients: realisation by realisation, and its ingredients."""

from __future__ import annotations

import numpy as np
import pytest

from stoptime.methods.conjugate_gradient import at_gains, conjugate_gradients

FACTOR = 1 + np.sqrt(2)


def problem(rng):
    """Eigenvalues, the fit without noise and the noise, in the directions that X can fit."""
    r = int(rng.integers(1, 40))
    s = np.sort(rng.lognormal(0, rng.uniform(0, 4), r))
    s = 10 ** rng.uniform(-3, 3) * s / s.max()
    f = rng.standard_normal(r) * s ** rng.uniform(-0.5, 2) * rng.lognormal(0, 3)
    noise = rng.standard_normal(r) * rng.lognormal(0, 2) * rng.integers(0, 4)
    return s, f, noise


def gains_of(s, z):
    """The gains at zero of all iterates, and two between each pair of them."""
    run = conjugate_gradients(s, z, np.arange(len(s) + 1))
    gains = np.array([np.sum(1 / values) for values in run.ritz])
    k = np.linspace(0, len(s), 3 * len(s) + 1)
    return np.interp(k, np.arange(len(gains)), gains)


def test_bound_holds_for_every_realisation_of_two_hundred_problems():
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(200):
        s, f, noise = problem(rng)
        y = f + noise
        z = np.sqrt(s) * y
        T = gains_of(s, z)
        fits = np.sqrt(s) * at_gains(s, z, T)
        error = ((f - fits) ** 2).sum(axis=1)
        Ts = np.multiply.outer(T, s)
        bias = np.exp(-Ts) @ f**2
        learned = np.minimum(1, Ts) @ noise**2
        assert np.all(error <= FACTOR * (bias + learned) * (1 + 1e-9))
        worst = max(worst, (error / (bias + learned)).max())
        # the lemma: the residual is at most that of gradient flow at half the time
        residual = ((y - fits) ** 2).sum(axis=1)
        assert np.all(residual <= np.exp(-Ts) @ y**2 + 1e-12 * np.sum(y**2))
    # the factor is not far from what happens
    assert 1.2 < worst < FACTOR


def test_gains_between_iterates_are_interpolated_and_later_ones_are_least_squares():
    s = np.array([0.1, 0.5, 1.0, 3.0])
    z = np.array([1.0, -2.0, 0.5, 1.0])
    run = conjugate_gradients(s, z, np.arange(5))
    gains = np.array([np.sum(1 / values) for values in run.ritz])
    np.testing.assert_allclose(at_gains(s, z, gains), run.components, rtol=1e-12, atol=1e-14)
    between = at_gains(s, z, [0.75 * gains[1] + 0.25 * gains[2]])[0]
    expected = 0.75 * run.components[1] + 0.25 * run.components[2]
    np.testing.assert_allclose(between, expected, rtol=1e-12)
    for late in (2 * gains[-1], np.inf):
        np.testing.assert_allclose(at_gains(s, z, late)[0], z / s, rtol=1e-10)


def test_extremes_of_the_gain():
    nothing = at_gains([], [], [0.0, 1.0])
    assert nothing.shape == (2, 0)
    for scale in (1e-150, 1e150):
        huge = at_gains(scale * np.array([1.0, 2.0]), scale * np.ones(2), [0.5 / scale])
        np.testing.assert_allclose(huge, at_gains([1.0, 2.0], [1.0, 1.0], [0.5]))
    with pytest.raises(ValueError, match="gains must be"):
        at_gains([1.0], [1.0], [-1.0])
