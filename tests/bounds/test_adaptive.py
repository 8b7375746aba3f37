"""The ratio of the paper's theorems, where the stop may depend on the spectrum.

The mixture that proves the upper end and the spectrum that proves the lower one are evaluated again
from the definitions, and random spectra must respect the constants.
"""

from __future__ import annotations

import numpy as np
import pytest

import stoptime as st
from bounds.formulas import oscillation, risk_ratio, shrinkage
from campaign import long
from stoptime import bounds

flint = pytest.importorskip("flint")

# Each flow with the value of its constant from a linear program.
FLOWS = {
    st.GradientFlow(): 1.07485,
    st.CriticalFlow(): 1.02772,
    st.AcceleratedFlow(3): 1.26760,
    st.AcceleratedFlow(5): 1.15813,
    st.AcceleratedFlow(9): 1.10858,
    st.IteratedRidge(2): 49 / 48,
    st.Butterworth(2): 1.11634,
    st.Butterworth(4): 1.28816,
}
each_flow = pytest.mark.parametrize(("method", "value"), FLOWS.items(), ids=map(str, FLOWS))


def ratios(method, x, stops):
    """The ratio of risks at every eigenvalue (rows) and stop (columns)."""
    u = np.sqrt(x[:, None] * stops**method.time_power)
    return risk_ratio(x[:, None], shrinkage(method, u))


def ridge_shares(spectrum):
    """The eigenvalues of a worst spectrum, and their shares of the risk of ridge."""
    x, directions = np.array(spectrum).T
    share = directions / (1 + x)
    return x, share / share.sum()


@each_flow
def test_the_mixture_and_the_spectrum_have_the_value_of_the_enclosure(method, value):
    found = bounds.risk_inflation(method, adaptive=True)
    assert found.width <= 1e-4
    assert value in bounds.Enclosure(found.lower - 1e-5, found.upper + 1e-5, 0.0)
    stops, weights = np.array(found.mixture).T
    x = np.union1d(np.geomspace(1e-5, 60, 60_001), np.linspace(60, 3000, 60_001))
    highest = (ratios(method, x, stops) @ weights).max()
    assert found.upper - 2e-5 <= highest <= found.upper
    x, share = ridge_shares(found.spectrum)
    later = np.geomspace(1e-3, 300 ** (2 / method.time_power), 40_001)
    lowest = (share @ ratios(method, x, later)).min()
    assert found.lower <= lowest <= found.lower + 3e-5


@each_flow
def test_random_spectra_respect_the_constant(method, value, rng):
    upper = bounds.risk_inflation(method, adaptive=True).upper
    stops = np.geomspace(0.02, 50, 400) ** (2 / method.time_power)
    worst = 0.0
    for _ in range(2000):
        # a few eigenvalues within some decades, where stops differ most
        x = np.exp(rng.uniform(-2.5, 3.5, rng.integers(1, 9)))
        share = rng.dirichlet(np.ones(len(x)))
        worst = max(worst, (share @ ratios(method, x, stops)).min())
    # the grid has a stop within one per cent of the best one
    assert worst <= upper + 1e-3
    # a few eigenvalues at random are already far from harmless
    assert worst - 1 >= 0.3 * (value - 1)


@pytest.mark.parametrize("kappa", [2.0, pytest.param(10.0, marks=long)])
def test_heavy_ball_flow(kappa, rng):
    found = bounds.risk_inflation(st.HeavyBallFlow(), condition_number=kappa, adaptive=True)
    assert found.width <= 1e-3 * found.upper
    assert found.upper < bounds.risk_inflation(st.HeavyBallFlow(), condition_number=kappa).lower
    x, share = ridge_shares(found.spectrum)
    # the smallest eigenvalue may have any share, however small, and fixes the damping
    assert x.max() / x.min() <= kappa * (1 + 1e-12)

    def lowest(x, share, damping, tau):
        g = oscillation(damping * tau, tau * np.sqrt(x)[..., None])
        return np.einsum("...i,...ij->...j", share, risk_ratio(x[..., None], g)).min(axis=-1)

    tau = np.geomspace(1e-3, 30, 40_001)
    assert lowest(x, share, np.sqrt(x.min()), tau) >= found.lower - 1e-6
    # 2000 spectra, a hundred at a time, of up to five eigenvalues above the smallest one
    tau = np.geomspace(1e-3, 30, 3001)
    for _ in range(20):
        smallest = np.exp(rng.uniform(-4, 2.5, (100, 1)))
        x = smallest * kappa ** rng.uniform(0, 1, (100, 5))
        share = rng.dirichlet(np.full(5, 0.5), 100)
        damping = np.sqrt(smallest)[..., None]
        assert np.all(lowest(x, share, damping, tau) <= found.upper + 1e-4)


ITERATIONS = [
    st.GradientDescent(0.1),
    st.GradientDescent(0.5),  # many mixtures are equally good
    st.Nesterov(0.03),
    st.NuMethod(0.05),
    pytest.param(st.NuMethod(0.1, 0.5), marks=long),  # late stops oscillate for long
    st.HeavyBall(0.1, 0.8),
]


@pytest.mark.parametrize("method", ITERATIONS, ids=str)
def test_iterations_at_a_given_step(method, rng):
    found = bounds.risk_inflation(method, adaptive=True)
    assert found.width <= 1e-3 * found.upper
    assert found.lower <= bounds.risk_inflation(method).upper
    k = np.arange(400)

    def table(x):
        return risk_ratio(x[:, None], method.shrinkage(x[:, None], k))

    stops, weights = np.array(found.mixture).T
    x = np.linspace(0, 1 / method.epsilon, 20_001)[1:]
    highest = (risk_ratio(x[:, None], method.shrinkage(x[:, None], stops)) @ weights).max()
    assert found.lower <= highest <= found.upper
    x, share = ridge_shares(found.spectrum)
    assert x.max() <= (1 + 1e-12) / method.epsilon
    assert found.lower <= (share @ table(x)).min() <= found.upper
    x = rng.uniform(0, 1, (2000, 5)) ** 3 / method.epsilon
    share = rng.dirichlet(np.full(5, 0.5), 2000)
    ratios = table(x.ravel()).reshape(2000, 5, -1)
    assert np.all(np.einsum("ij,ijk->ik", share, ratios).min(axis=1) <= found.upper)


@pytest.mark.parametrize(
    ("method", "options"),
    [(st.HeavyBallFlow(), {"condition_number": 3001.0}), (st.GradientDescent(1e-5), {})],
)
def test_proofs_that_would_take_too_long_are_refused(method, options):
    with pytest.raises(bounds.WorkLimitError, match="too long"):
        bounds.risk_inflation(method, adaptive=True, **options)


@long
@pytest.mark.parametrize(
    ("method", "options", "value"),
    [
        (st.AcceleratedFlow(2.0), {}, 1.41789),
        (st.AcceleratedFlow(2.5), {}, 1.32663),
        (st.Butterworth(30), {}, 1.68921),
        (st.HeavyBallFlow(), {"condition_number": 1000.0}, 3.3768),
        (st.HeavyBallFlow(), {"condition_number": 3000.0}, 5.1588),
        (st.HeavyBall(0.01, 0.99), {}, 11.543),
        (st.Nesterov(1e-4), {}, 1.25239),
        (st.NuMethod(0.01, 0.5), {}, 1.4234),
    ],
    ids=str,
)
def test_the_hardest_proofs(method, options, value):
    found = bounds.risk_inflation(method, adaptive=True, **options)
    assert found.lower <= value <= found.upper
