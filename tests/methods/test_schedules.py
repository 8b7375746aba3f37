"""Schedules: their values, and runs that follow them in estimators, risks, plans and files."""

import copy
import json
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import stoptime as st
from iteration_cases import make_data
from stoptime import schedules
from stoptime.methods.registry import as_content, from_content
from stoptime.methods.schedules import (
    Constant,
    Cosine,
    Linear,
    Listed,
    OneCycle,
    Polynomial,
    StepDecay,
)

EVERY = [
    Constant(0.3, warmup=20),
    StepDecay(0.3, every=30, warmup=5),
    Linear(0.05, 100, end=0.3, warmup=9),
    Polynomial(0.3, 150, power=3.0, end=0.01),
    Cosine(0.3, 200, warmup=20),
    OneCycle(0.3, 200),
    OneCycle(0.85, 200, rise=0.5, start=0.95, end=0.95),
    Listed((0.0, 0.2, 0.1, 0.3)),
]


@pytest.mark.parametrize("schedule", EVERY, ids=repr)
def test_a_schedule_is_a_value_that_keeps_its_last_one(schedule):
    assert copy.deepcopy(schedule) == schedule == pickle.loads(pickle.dumps(schedule))
    assert hash(schedule) == hash(copy.copy(schedule))
    assert schedule != Constant(0.7)
    assert from_content(json.loads(json.dumps(as_content(schedule)))) == schedule
    values = [schedule(k) for k in range(1, schedule.total + 3)]
    assert schedule(10**9) == values[-1]
    assert schedule.largest == max(values)
    assert schedule.mean == pytest.approx(np.mean(values[:-1]), rel=1e-12)
    tripled = schedule * 3.0
    assert (tripled.total, tripled.length) == (schedule.total, schedule.length)
    np.testing.assert_allclose(tripled.values, 3 * np.array(schedule.values), rtol=1e-13)


def test_formulas_of_torch_and_of_the_warm_up():
    """The closed forms in the documentation of torch, with j = k - 1."""
    j = np.arange(100)
    expected = {
        Cosine(0.3, 100, end=0.01): 0.01 + (0.3 - 0.01) * (1 + np.cos(np.pi * j / 100)) / 2,
        StepDecay(0.3, 30, 0.5): 0.3 * 0.5 ** (j // 30),
        Linear(0.1, 40, end=0.3): 0.3 * (1 / 3 + (1 - 1 / 3) * np.minimum(j, 40) / 40),
        Polynomial(0.3, 100, power=2.0): 0.3 * (1 - j / 100) ** 2,
        Cosine(0.6, 999, warmup=99): 0.6 * (j + 1) / 100,
        StepDecay(0.6, 7, warmup=99): 0.6 * (j + 1) / 100,
    }
    for schedule, values in expected.items():
        found = [schedule(k) for k in range(1, 101)]
        np.testing.assert_allclose(found, values, rtol=1e-13, atol=1e-17)


def test_a_search_and_a_plan_end_with_the_schedule():
    X, y = make_data(60, 5)
    method = st.Nesterov(Cosine(0.4, 80, warmup=5))
    for cv in (None, 5):
        assert 0 < st.StoppedRegressorCV(method, cv=cv).fit(X, y).stop_ <= 80
    planned = st.plan(X=X, y=y, method=method)
    assert 0 < planned.iterations <= 80
    assert "lr Cosine up to 0.4" in str(planned)
    s, penalty = st.decompose(X, y).eigenvalues, planned.penalty
    g, gain = method.shrinkage(s, planned.iterations), method.gain(s, planned.iterations)
    assert planned.run.expected_inflation == pytest.approx(
        np.sum(g**2 / penalty + s * gain**2) / np.sum(1 / (s + penalty)), rel=1e-9
    )


@dataclass(frozen=True)
class Falling(schedules.Schedule):
    """A schedule of a user's own."""

    peak: float
    total: int

    def _formula(self, j):
        return self.peak * self._remaining(j)


def test_a_schedule_of_another_class_is_not_written():
    computed = st.GradientDescent(lambda k: 0.1 / k)
    assert from_content(as_content(computed)) == computed
    with pytest.raises(ValueError, match=r"cannot be saved: take Listed\(schedule.values\)"):
        as_content(Falling(0.3, 50))


@pytest.mark.parametrize("wrong", ["a", [0.1], None])
def test_a_function_that_gives_no_number_is_told_its_iteration(wrong):
    with pytest.raises(ValueError, match="must give a number; at k = 3 it gives") as told:
        st.GradientDescent(lambda k: 0.1 if k < 3 else wrong)
    assert len(str(told.value)) < 100
