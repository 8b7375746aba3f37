"""Random batches against simulation on fifty problems, and the limit at two thousand features.

``make soak`` runs them; the tests of ``theory/`` try a few of the same problems.
"""

import numpy as np
import pytest

import stoptime as st
from campaign import long
from theory.batch_cases import problem, simulated, worst_deviation

pytestmark = long


@pytest.mark.parametrize("seed", range(100, 150))
def test_moments_agree_with_simulation(seed):
    X, y, settings = problem(seed)
    assert worst_deviation(X, y, settings, runs=20_000, seed=seed) < 4


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_limit_is_within_one_per_cent_of_simulation(momentum):
    rng = np.random.default_rng(3)
    n, p, runs = 4000, 2000, 48
    X = rng.standard_normal((n, p)) * np.geomspace(0.2, 1, p)
    beta = rng.standard_normal(p) / np.sqrt(p)
    values, vectors = np.linalg.eigh(X.T @ X / n)
    settings = {
        "step": 0.3 * 16 * (1 - momentum) / values.sum(),
        "batch_size": 16,
        "momentum": momentum,
    }
    stops = [10, 100, 300]
    known = {"signal": vectors.T @ beta, "noise": 0.5, "n_samples": n}
    curve = st.stochastic.limit(values, stops, **known, **settings)
    y = X @ beta + np.sqrt(0.5) * rng.standard_normal((runs, n))
    ends = simulated(X, y, stops, runs, 0, **settings)
    losses = ((ends @ X.T - y) ** 2).mean(axis=2)
    distances = ((ends - beta) ** 2).sum(axis=2)
    np.testing.assert_allclose(curve.train_error, losses.mean(axis=1), rtol=0.01)
    np.testing.assert_allclose(curve.total, distances.mean(axis=1), rtol=0.01)
    assert curve.cost[-1] > 1.05  # the batches matter here
