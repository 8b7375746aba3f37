"""A campaign: the chosen stop of every method is as good as the best of a dense grid.

``make soak`` tries 300 problems with each method; tests/stopping/test_choice.py tries a few.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import stoptime as st
from contract import ITERATIONS, METHODS, Case, dense_grid, generated, made, names_of_family

pytestmark = pytest.mark.skipif(
    "STOPTIME_SOAK" not in os.environ, reason="a campaign of many minutes: make soak"
)

PROBLEMS = 300
CLOSE = 1.001  # times the least error of the grid: a promise of the documentation
SAME_ERROR = 1e-6  # two ways to the same left-out residuals, where products of X have lost digits
SLOW = 60  # iterations with unequal weights: each row has a step of its own


def weighted(data: Case, seed: int) -> Case:
    return data.given(sample_weight=np.random.default_rng(seed).gamma(2.0, size=data.n))


def searched(data: Case, method: str | st.Method) -> st.StoppedRegressorCV:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", st.StopWarning)
        return st.StoppedRegressorCV(method).fit(data.X, data.y, data.sample_weight)


def errors_at(data: Case, method: st.Method, stops: np.ndarray) -> np.ndarray:
    curve = st.leave_one_out(data.X, data.y, method, stops, standard_errors=False, **data.options)
    return curve.errors


def measured(data: Case, name: str) -> tuple[float, float] | None:
    """Return the excess of the chosen stop, and how far its error is off; None if it has none."""
    spectrum = data.spectrum
    method = made(name, float(spectrum.eigenvalues[-1]))
    try:
        model = searched(data, method)
    except ValueError as refusal:
        if "critical" in str(refusal):  # a singular spectrum has no critical damping
            return None
        raise
    least = errors_at(data, model.method_, dense_grid(name, spectrum)).min()
    (error,) = errors_at(data, model.method_, np.array([model.stop_]))
    return float(error / least), float(abs(model.choice_.error / error - 1))


def campaign(name: str, problems: list[Case]) -> None:
    found = [measured(data, name) for data in problems]
    numbers = np.array([(np.nan, np.nan) if one is None else one for one in found])
    worse = np.flatnonzero(numbers[:, 0] > CLOSE)
    assert not len(worse), {int(seed): float(numbers[seed, 0]) for seed in worse}
    wrong = np.flatnonzero(numbers[:, 1] > SAME_ERROR)
    assert not len(wrong), {int(seed): float(numbers[seed, 1]) for seed in wrong}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_finds_its_best_stop(name):
    campaign(name, [generated(seed) for seed in range(PROBLEMS)])


@pytest.mark.parametrize("name", METHODS)
def test_every_method_finds_its_best_stop_with_weights(name):
    count = SLOW if name in ITERATIONS else PROBLEMS
    campaign(name, [weighted(generated(seed), seed) for seed in range(count)])


def test_the_family_finds_the_best_of_all_its_methods():
    worse = {}
    for seed in range(PROBLEMS):
        data = generated(seed)
        model = searched(data, "auto")
        spectrum = data.spectrum
        least = min(
            errors_at(data, made(name, 1.0), dense_grid(name, spectrum)).min()
            for name in names_of_family()
        )
        (error,) = errors_at(data, model.method_, np.array([model.stop_]))
        if error > CLOSE * least:
            worse[seed] = float(error / least)
    assert not worse
