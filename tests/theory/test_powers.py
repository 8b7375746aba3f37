"""Many steps at once: against exact binomial weights, matrix powers, and steps one by one."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

import stoptime as st
from stoptime.support import progress
from stoptime.theory import fluctuations, powers
from stoptime.theory.fluctuations import RowSource
from theory.batch_cases import problem


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("k", [1, 2, 7, 200])
def test_weights_are_binomial_probabilities(stride, k):
    degree = min(k, 130)
    (found,) = powers.weights(np.array([k]), degree, stride)
    power = stride * k
    for d, weight in enumerate(found):
        h = stride * d
        ways = comb(power, (power - h) // 2) if (power - h) % 2 == 0 else 0
        exact = Fraction(ways * (2 if h else 1), 2**power)
        assert weight == pytest.approx(float(exact), rel=1e-13, abs=1e-17)


@pytest.mark.parametrize("stride", [1, 2])
def test_weights_give_the_power(stride):
    steps = np.array([1, 50, 333, 4000])
    degree = powers.Leaps(None, None, stride, verbose=False).degree(4000)
    assert degree < 600
    x = np.linspace(stride - 2, 1, 301)
    angles = np.arccos(2 * x - 1 if stride == 2 else x)
    found = powers.weights(steps, degree, stride) @ np.cos(np.arange(degree + 1)[:, None] * angles)
    np.testing.assert_allclose(found, x ** steps[:, None], atol=1e-13)


def steps_one_by_one(X, y, step, batch_size, stops, weight_decay=0.0):
    """Return E‖y - Xβ‖²/n and Cov β from the recursion of E(β, 1)(β, 1)ᵀ, in the given columns."""
    n, p = X.shape
    gram = X.T @ X / n
    mean = np.eye(p) - step * (gram + weight_decay * np.eye(p))
    coef = np.zeros(p)
    spread = np.zeros((p, p))
    losses = []
    found = []
    for k in range(max(stops) + 1):
        residuals = y - X @ coef
        if k in stops:
            losses.append(np.mean(residuals**2) + np.sum(gram * spread))
            found.append(spread)
        gradient = X.T @ residuals / n
        squares = residuals**2 + np.einsum("ij,jk,ik->i", X, spread, X)
        noise = (X * squares[:, None]).T @ X / n - gram @ spread @ gram
        noise -= np.outer(gradient, gradient)
        spread = mean @ spread @ mean + step**2 / batch_size * noise
        coef = coef + step * (gradient - weight_decay * coef)
    return np.array(losses), np.array(found)


CASES = {
    "tall": (60, 5, 0.3, {}),
    "decay": (60, 5, 0.3, {"weight_decay": 0.1}),
    "wide": (6, 10, 0.3, {}),
    "long steps": (60, 5, 0.97, {"batch_size": 500}),
    "one column": (30, 1, 0.5, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_leaps_equal_steps_one_by_one(case):
    n, p, share, options = CASES[case]
    X, y, _ = problem(13, n, p)
    settings = {"batch_size": 4} | options
    step = share * st.stochastic.largest_step(X, **settings)
    stops = [0, 1, 2, 60, 399, 400, 700]
    found = st.stochastic.moments(X, y, step, stops=stops, **settings)
    losses, spread = steps_one_by_one(X, y, step, stops=stops, **settings)
    # the residuals of wide data vanish, and the recursion here knows them to rounding of y
    floor = 1e-13 * np.mean(y**2) if case == "wide" else 0.0
    np.testing.assert_allclose(found.train_error, losses, rtol=1e-12, atol=floor)
    sizes = np.linalg.norm(spread, axis=(1, 2))
    errors = np.linalg.norm(found.covariance - spread, axis=(1, 2))
    assert np.all(errors <= 1e-12 * np.maximum(sizes, floor))


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1.0])
def test_leaps_keep_relative_accuracy_where_the_variance_decays(noise, monkeypatch):
    X, _, _ = problem(21, 40, 4)
    step = 0.3 * st.stochastic.largest_step(X, 3)
    stops = np.arange(0, 1501, 100)
    by_leaps = st.stochastic.risk(X, np.ones(4), noise, step, 3, stops, 0.0, 0.0)
    monkeypatch.setattr(powers.Leaps, "degree", lambda _, steps: steps)
    by_steps = st.stochastic.risk(X, np.ones(4), noise, step, 3, stops, 0.0, 0.0)
    np.testing.assert_allclose(by_leaps.batches, by_steps.batches, rtol=1e-12)
    if not noise:
        assert by_steps.batches[-1] < 1e-6 * by_steps.batches.max()


def test_few_products_make_many_steps(monkeypatch, capsys):
    """Also in little memory, where every leap is short, and with its progress shown."""
    X, y, _ = problem(2, 30, 3)
    step = 0.3 * st.stochastic.largest_step(X, 3)
    products = []
    kept = RowSource._noise
    monkeypatch.setattr(RowSource, "_noise", lambda *a: products.append(1) or kept(*a))
    whole = st.stochastic.moments(X, y, step, 3, [2000])
    assert len(products) < 280
    monkeypatch.setattr(powers, "MOST_TERM_ENTRIES", 9 * 150)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    parts = st.stochastic.moments(X, y, step, 3, [2000], verbose=True)
    assert len(products) > 2 * 280
    np.testing.assert_allclose(parts.covariance, whole.covariance, rtol=1e-11)
    assert "products: 2 of " in capsys.readouterr().err


def test_rows_in_blocks_give_the_same_moments(monkeypatch):
    X, y, _ = problem(2, 30, 3)
    step = 0.3 * st.stochastic.largest_step(X, 3)
    whole = st.stochastic.moments(X, y, step, 3, [500])
    monkeypatch.setattr(fluctuations, "BLOCK_ENTRIES", 21)  # seven rows, and two at the end
    blocks = st.stochastic.moments(X, y, step, 3, [500])
    np.testing.assert_allclose(blocks.covariance, whole.covariance, rtol=1e-12)
    assert st.stochastic.largest_step(X, 3) == pytest.approx(step / 0.3, rel=1e-6)
