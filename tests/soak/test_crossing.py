"""The discrepancy rule stops at the first iteration, or the first stop of the grid of a flow.

``make test`` tries a few problems with each method, and ``make soak`` tries 300.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import stoptime as st
from stoptime.stopping.problem import Problem

PROBLEMS = 300 if "STOPTIME_SOAK" in os.environ else 5
ITERATIONS = [
    st.HeavyBall(momentum=0.9),
    st.HeavyBall(momentum=0.99),
    st.Nesterov(),
    st.Nesterov(friction=1.0),
    st.NuMethod(),
    st.GradientDescent(),
    st.ConjugateGradient(),
]
FLOWS = [
    st.AcceleratedFlow(3.0),
    st.AcceleratedFlow(1.0),
    st.AcceleratedFlow(0.5),
    st.HeavyBallFlow(damping=0.05),
    st.HeavyBallFlow(damping=0.3),
    st.GradientFlow(),
    st.CriticalFlow(),
]
BELOW = 1 - 1e-9  # of the level: a training error below it is an earlier crossing


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return columns of several scales, a response, and the share of its fit to leave."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(8, 40)), int(rng.integers(2, 20))
    X = rng.standard_normal((n, p)) * 10.0 ** -(rng.uniform(0, 2.5) * rng.random(p))
    signal = rng.standard_normal(p) * 10.0 ** rng.uniform(-1, 1, p)
    y = X @ signal + 10.0 ** rng.uniform(-2, 0) * rng.standard_normal(n)
    return X, y, 10.0 ** rng.uniform(-4, -0.3)


@pytest.mark.parametrize("method", ITERATIONS + FLOWS, ids=str)
def test_no_earlier_stop_is_down_to_the_noise(method):
    for seed in range(PROBLEMS):
        X, y, share = drawn(seed)
        problem = Problem.of(X, y, method)
        spectrum, tuned = problem.spectrum, problem.tuned
        outside = float(spectrum.energies()[1][0])
        level = outside + share * (float(spectrum.target_power) - outside)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", st.StopWarning)
            choice = st.Discrepancy(noise=level).choose(problem)
        stop = choice.stop
        if not np.isfinite(stop):
            continue
        if method.whole_stops:
            before = np.arange(stop)
        elif isinstance(method, st.Filter) and method.oscillates:
            # a dip between two stops of the grid does not count
            before = choice.curve.stops[choice.curve.stops < stop]
        else:
            before = np.linspace(0, stop * (1 - 1e-9), 400)
        earlier = st.training_error(spectrum, tuned, before)
        assert (earlier >= level * BELOW).all(), seed
        if choice.error > level * (1 + 1e-6):  # the last stop, where no stop is down to the noise
            assert stop == choice.curve.stops[-1], seed
        elif not method.whole_stops:
            assert choice.error == pytest.approx(level, rel=1e-7), seed
