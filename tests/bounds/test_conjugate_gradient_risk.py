"""The bound of conjugate gradients by gradient flow, realisation by realisation."""

import numpy as np

from stoptime.methods.conjugate_gradient import conjugate_gradients

FACTOR = 1 + np.sqrt(2)


def problem(rng):
    """Eigenvalues, the fit without noise and the noise, in the directions that X can fit."""
    r = int(rng.integers(1, 40))
    s = np.sort(rng.lognormal(0, rng.uniform(0, 4), r))
    s = 10 ** rng.uniform(-3, 3) * s / s.max()
    f = rng.standard_normal(r) * s ** rng.uniform(-0.5, 2) * rng.lognormal(0, 3)
    noise = rng.standard_normal(r) * rng.lognormal(0, 2) * rng.integers(0, 4)
    return s, f, noise


def test_bound_holds_for_every_realisation_of_two_hundred_problems():
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(200):
        s, f, noise = problem(rng)
        y = f + noise
        iterations = np.arange(len(s) + 1)
        run = conjugate_gradients(s, np.sqrt(s) * y, iterations)
        # the gains at zero of all iterates, and two between each pair of them
        between = np.linspace(0, len(s), 3 * len(s) + 1)
        T = np.interp(between, iterations, [np.sum(1 / values) for values in run.ritz])
        coef = [np.interp(between, iterations, column) for column in run.components.T]
        fits = np.sqrt(s) * np.transpose(coef)
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
