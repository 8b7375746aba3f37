"""Remembered rows and ridges give the same left-out errors as a fresh look at the rows."""

import numpy as np
import pytest

from left_out.cases import KINDS, METHODS, assert_same, problem, rows_of, stops_for
from stoptime import (
    AcceleratedFlow,
    CriticalFlow,
    Decayed,
    StoppedKernelRegressorCV,
    StoppedRegressorCV,
    decompose,
    left_out_residuals,
)
from stoptime.left_out import rows as left_out_rows
from stoptime.left_out.by_mixture import ByMixture
from stoptime.left_out.first_look import FirstLook
from stoptime.left_out.residuals import LeftOut
from stoptime.left_out.rows import Rows

RIDGE, GRADIENT_FLOW, ACCELERATED_FLOW, *_, HEAVY_BALL, _ = METHODS


@pytest.fixture
def made(monkeypatch):
    """Return a list that gets the penalties of every set of ridges that is computed."""
    seen = []
    make = ByMixture._ridges

    def counted(self, block, coef):
        seen.append(self.mixture.penalties)
        return make(self, block, coef)

    monkeypatch.setattr(ByMixture, "_ridges", counted)
    return seen


def left_out_of(X, y, options, *, remember):
    rows = rows_of(X, y, options["sample_weight"], decompose(X, y, **options))
    return LeftOut(Rows(rows.data, rows.spectrum, remember=remember))


@pytest.mark.parametrize("method", [RIDGE, GRADIENT_FLOW, ACCELERATED_FLOW, HEAVY_BALL], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_remembered_rows_give_the_same_errors(kind, method):
    X, y, options = problem(kind)
    grid = stops_for(method, X, y, options, count=60)
    remembers, forgets = (left_out_of(X, y, options, remember=know) for know in (True, False))
    for stops in (grid, grid, np.sqrt(grid[2:-2:7] * grid[3:-1:7])):
        again = remembers.errors(method, stops, standard_errors=True)
        fresh = forgets.errors(method, stops, standard_errors=True)
        np.testing.assert_allclose(again.errors, fresh.errors, rtol=1e-9)
        np.testing.assert_allclose(again.standard_errors, fresh.standard_errors, rtol=1e-8)
        both = [
            each.residuals(method, np.array(stops[1])).reshape(1, len(X), -1)
            for each in (remembers, forgets)
        ]
        assert_same(*both, 1e-10)


FAMILIES = {
    "smooth": [RIDGE, GRADIENT_FLOW, CriticalFlow()],
    "oscillating": [AcceleratedFlow(r) for r in (3.0, 5.0, 9.0)],
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("weights", ["equal", "alike"])
@pytest.mark.parametrize("remember", [True, False])
def test_a_first_look_needs_one_set_of_ridges_for_all_methods(family, weights, remember, rng, made):
    X = rng.standard_normal((300, 20)) * np.arange(1, 21) ** -1.0
    y = np.stack([X[:, :5].sum(axis=1), X[:, 0]], axis=1) + 0.5 * rng.standard_normal((300, 2))
    sample_weight = rng.uniform(1, 2, 300) if weights == "alike" else None
    options = {"sample_weight": sample_weight, "fit_intercept": True}
    look = FirstLook(left_out_of(X, y, options, remember=remember).rows)
    looks = [
        (method, np.geomspace(0.1, 10, 40 + 5 * i)) for i, method in enumerate(FAMILIES[family])
    ]
    curves = look.errors(looks)
    assert len(made) == 1
    exact = left_out_of(X, y, options, remember=False)
    rtol = 1e-3 if sample_weight is None else 3e-3  # the scales of the rows are taken as equal
    for (method, stops), curve in zip(looks, curves, strict=True):
        expected = exact.errors(method, stops, standard_errors=True)
        np.testing.assert_allclose(curve.errors, expected.errors, rtol=rtol)
        assert not curve.exact.any()
        seen = look.known(method, stops[7])
        assert (seen is not None) == remember
        if remember:
            spread = look.with_spread(method, stops[3:9])
            np.testing.assert_array_equal(spread.stops, stops[3:9])
            own = expected.standard_errors[3:9]
            np.testing.assert_allclose(spread.standard_errors, own, rtol=0.02)
            squares = look.rows.weights @ seen**2
            np.testing.assert_allclose(squares, expected.errors[7], rtol=rtol)
    (curve,) = look.errors([(looks[0][0], np.array([0.0, 1.0, np.inf]))])
    np.testing.assert_array_equal(curve.exact, [True, False, True])
    expected = exact.errors(RIDGE, curve.stops, standard_errors=False)
    np.testing.assert_allclose(curve.errors[[0, 2]], expected.errors[[0, 2]], rtol=1e-10)
    made.clear()
    again = look.errors([(method, stops[::2]) for method, stops in looks])
    np.testing.assert_allclose(again[0].errors, curves[0].errors[::2], rtol=1e-7)
    assert not made


def test_a_first_look_is_not_taken_where_it_would_mislead(rng):
    X = rng.standard_normal((100, 5))
    stops = np.geomspace(1, 1e4, 80)
    options = {"sample_weight": None, "fit_intercept": True}
    clean = X.sum(axis=1) + 1e-7 * rng.standard_normal(100)
    fresh = left_out_of(X, clean, options, remember=False)
    assert FirstLook(fresh.rows).errors([(AcceleratedFlow(9.0), stops)]) is None
    noisy = clean + rng.standard_normal(100)
    heavy = options | {"sample_weight": np.where(np.arange(100) < 2, 30.0, 1.0)}
    fresh = left_out_of(X, noisy, heavy, remember=False)
    assert FirstLook(fresh.rows).errors([(RIDGE, stops)]) is None
    fresh = left_out_of(X, np.tile(noisy[:, None], 16), options, remember=False)
    assert FirstLook(fresh.rows).errors([(RIDGE, stops)]) is None
    fresh = left_out_of(X, noisy, options, remember=False)
    decayed = Decayed(GRADIENT_FLOW, 0.1)  # which does not end at least squares
    assert FirstLook(fresh.rows).errors([(decayed, np.append(stops, np.inf))]) is None


def test_few_sets_of_ridges_are_remembered(rng):
    X, y, options = rng.standard_normal((50, 4)), rng.standard_normal(50), {"sample_weight": None}
    remembers = left_out_of(X, y, options | {"fit_intercept": True}, remember=True)
    for last in np.geomspace(1, 400, 14):
        remembers.errors(ACCELERATED_FLOW, np.geomspace(0.1, last, 9), standard_errors=True)
    (block,) = remembers.rows._kept.values()
    assert len(block.ridges) == left_out_rows.MOST_SETS_OF_RIDGES


@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow", "nesterov"])
@pytest.mark.parametrize("remember", [True, False])
def test_residuals_of_a_choice_are_those_of_a_fresh_look(method, remember, rng, monkeypatch):
    if not remember:
        monkeypatch.setattr(left_out_rows, "MOST_REMEMBERED", 0)
    X = rng.standard_normal((200, 20))
    y = X[:, :5].sum(axis=1) + 3 * rng.standard_normal(200)
    model = StoppedRegressorCV(method).fit(X, y)
    expected = left_out_residuals(X, y, model.method_, model.stop_)
    np.testing.assert_allclose(model.left_out_residuals_, expected, rtol=1e-8, atol=1e-10)
    squares = model.left_out_residuals_**2
    assert model.choice_.error == pytest.approx(squares.mean(), rel=1e-10)
    spread = squares.std(ddof=1) / np.sqrt(200)
    assert model.choice_.standard_error == pytest.approx(spread, rel=1e-8)


def test_a_kernel_has_the_error_of_its_residuals(rng):
    X = rng.standard_normal((80, 2))
    y = np.sin(2 * X).sum(axis=1) + rng.standard_normal(80)
    model = StoppedKernelRegressorCV("ridge", kernel="laplacian").fit(X, y)
    np.testing.assert_allclose(
        np.mean(model.left_out_residuals_**2), model.choice_.error, rtol=1e-10
    )


def test_every_target_has_the_residuals_of_its_own_stop(rng):
    X = rng.standard_normal((90, 8))
    y = X @ rng.standard_normal((8, 3)) + np.array([1, 3, 10]) * rng.standard_normal((90, 3))
    model = StoppedRegressorCV("ridge", per_target=True).fit(X, y)
    assert len(set(model.stop_)) == 3
    expected = left_out_residuals(X, y, model.method_, model.stop_)
    np.testing.assert_allclose(model.left_out_residuals_, expected, rtol=1e-8, atol=1e-10)


def test_a_row_of_weight_zero_has_the_residual_of_the_whole_fit(rng):
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    weights = np.where(np.arange(40) < 5, 0.0, 1.0)
    model = StoppedRegressorCV().fit(X, y, weights)
    np.testing.assert_allclose(model.left_out_residuals_[:5], (y - model.predict(X))[:5], rtol=1e-9)
