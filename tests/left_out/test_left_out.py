"""Residuals remembered from one pass over the rows equal those of a second pass."""

import numpy as np
import pytest

from left_out.cases import KINDS, METHODS, assert_same, problem, rows_of, stops_for
from stoptime import (
    StoppedKernelRegressorCV,
    StoppedRegressorCV,
    decompose,
    leave_one_out,
    left_out_residuals,
)
from stoptime.left_out import residuals as left_out
from stoptime.left_out.interpolation import combination
from stoptime.left_out.residuals import LeftOut

FEW_TARGETS = [kind for kind in KINDS if kind != "many targets"]
RIDGE, GRADIENT_FLOW, ACCELERATED_FLOW, *_, HEAVY_BALL, _ = METHODS


@pytest.fixture
def passes(monkeypatch):
    """Return a list that gets an entry for every pass over the rows."""
    seen = []

    def counted(name):
        walk = getattr(LeftOut, name)

        def wrapper(self, *args, **options):
            seen.append(name)
            return walk(self, *args, **options)

        monkeypatch.setattr(LeftOut, name, wrapper)

    counted("_pass")
    counted("_own_residuals")
    return seen


def left_out_of(X, y, method, options, *, remember):
    rows = rows_of(X, y, options["sample_weight"], decompose(X, y, **options))
    return LeftOut(rows, method, remember=remember)


@pytest.mark.parametrize("method", [RIDGE, GRADIENT_FLOW, ACCELERATED_FLOW, HEAVY_BALL], ids=str)
@pytest.mark.parametrize("kind", FEW_TARGETS)
def test_stops_between_those_of_a_grid_follow(kind, method, passes, monkeypatch):
    monkeypatch.setattr(left_out, "LEAST_WORK", -np.inf)
    X, y, options = problem(kind)
    grid = stops_for(method, X, y, options, count=120)
    remembers, forgets = (
        left_out_of(X, y, method, options, remember=know) for know in (True, False)
    )
    first = remembers.errors(grid, standard_errors=True)
    fresh = forgets.errors(grid, standard_errors=True)
    np.testing.assert_array_equal(first.errors, fresh.errors)
    passes.clear()
    for stop in np.sqrt(grid[2:-2:19] * grid[3:-1:19]):
        again = remembers.errors(np.array([stop]), standard_errors=True)
        fresh = forgets.errors(np.array([stop]), standard_errors=True)
        np.testing.assert_allclose(again.errors, fresh.errors, rtol=1e-9)
        np.testing.assert_allclose(again.standard_errors, fresh.standard_errors, rtol=1e-8)
        both = [
            each.residuals(np.array(stop)).reshape(1, len(X), -1) for each in (remembers, forgets)
        ]
        assert_same(*both, 1e-10)
    # a method that changes fast between the stops of a grid does not follow from them
    if method.order == 1 and kind == "tall":
        assert passes == ["_pass", "_own_residuals"] * len(grid[2:-2:19])


@pytest.mark.parametrize("shape", [(400, 20), (60, 90)])
@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow", "nesterov"])
def test_a_choice_passes_the_rows_once(method, shape, rng, passes, monkeypatch):
    monkeypatch.setattr(left_out, "LEAST_WORK", -np.inf)
    X = rng.standard_normal(shape)
    y = X[:, :5].sum(axis=1) + 3 * rng.standard_normal(shape[0])
    model = StoppedRegressorCV(method).fit(X, y)
    assert passes == ["_pass"]
    curve = leave_one_out(X, y, model.method_, model.stops_)
    np.testing.assert_allclose(model.errors_, curve.errors, rtol=1e-10)
    np.testing.assert_allclose(
        model.choice_.curve.standard_errors, curve.standard_errors, rtol=1e-9
    )
    expected = left_out_residuals(X, y, model.method_, model.stop_)
    np.testing.assert_allclose(model.left_out_residuals_, expected, rtol=1e-8, atol=1e-10)


def test_a_kernel_passes_its_rows_once(rng, passes, monkeypatch):
    monkeypatch.setattr(left_out, "LEAST_WORK", -np.inf)
    X = rng.standard_normal((80, 2))
    y = np.sin(2 * X).sum(axis=1) + rng.standard_normal(80)
    model = StoppedKernelRegressorCV("ridge", kernel="laplacian").fit(X, y)
    assert passes == ["_pass"]
    np.testing.assert_allclose(
        np.mean(model.left_out_residuals_**2), model.choice_.error, rtol=1e-10
    )


@pytest.mark.parametrize("limit", ["LEAST_WORK", "MOST_REMEMBERED"])
def test_passes_are_repeated_where_remembering_costs_more(limit, rng, passes, monkeypatch):
    X = rng.standard_normal((50, 2))
    y = X.sum(axis=1) + 3 * rng.standard_normal(50)
    monkeypatch.setattr(left_out, "LEAST_WORK", -np.inf)
    remembered = StoppedRegressorCV("gradient-flow").fit(X, y)
    monkeypatch.setattr(left_out, limit, np.inf if limit == "LEAST_WORK" else 0)
    passes.clear()
    repeated = StoppedRegressorCV("gradient-flow").fit(X, y)
    few = ["_own_residuals"] * (limit == "MOST_REMEMBERED")  # the closer look itself is remembered
    assert passes == ["_pass", "_pass", *few]
    np.testing.assert_allclose(remembered.errors_, repeated.errors_, rtol=1e-10)
    np.testing.assert_allclose(
        remembered.left_out_residuals_, repeated.left_out_residuals_, rtol=1e-9
    )


def test_every_target_is_recalled_at_its_own_stop(rng, passes, monkeypatch):
    monkeypatch.setattr(left_out, "LEAST_WORK", -np.inf)
    X = rng.standard_normal((90, 8))
    y = X @ rng.standard_normal((8, 3)) + np.array([1, 3, 10]) * rng.standard_normal((90, 3))
    model = StoppedRegressorCV("ridge", per_target=True).fit(X, y)
    assert passes == ["_pass"]
    assert len(set(model.stop_)) == 3
    expected = left_out_residuals(X, y, model.method_, model.stop_)
    np.testing.assert_allclose(model.left_out_residuals_, expected, rtol=1e-8, atol=1e-10)


def test_a_row_of_weight_zero_has_the_residual_of_the_whole_fit(rng, monkeypatch):
    monkeypatch.setattr(left_out, "LEAST_WORK", -np.inf)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    weights = np.where(np.arange(40) < 5, 0.0, 1.0)
    model = StoppedRegressorCV().fit(X, y, weights)
    np.testing.assert_allclose(model.left_out_residuals_[:5], (y - model.predict(X))[:5], rtol=1e-9)


def test_stops_that_others_do_not_determine_are_told():
    method, known = ACCELERATED_FLOW, np.geomspace(1, 1000, 40)
    assert combination(method, known, np.array([2.0]), 1.0) is not None
    # the path oscillates between known stops
    assert combination(method, known, np.array([900.0]), 1.0) is None
    assert combination(method, known, np.array([2.0, 900.0]), 1.0) is None
    assert combination(RIDGE, known, np.array([2000.0]), 1.0) is None


def test_large_data_are_passed_once_and_small_ones_twice(rng, passes):
    X = rng.standard_normal((3000, 200))
    y = X[:, :5].sum(axis=1) + 3 * rng.standard_normal(3000)
    StoppedRegressorCV("ridge").fit(X, y)
    assert passes == ["_pass"]
    passes.clear()
    StoppedRegressorCV("ridge").fit(X[:100, :6], y[:100])
    assert passes == ["_pass", "_pass"]
