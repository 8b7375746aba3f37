"""Leave-one-out without refits equals leave-one-out by refits."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import LeaveOneOut as Splitter
from sklearn.model_selection import cross_val_predict

from left_out.cases import KINDS, METHODS, assert_same, problem, rows_of, stops_for, with_condition
from stoptime import (
    AcceleratedFlow,
    HeavyBallFlow,
    Ridge,
    StoppedRegressor,
    StoppedRegressorCV,
    decompose,
    get_method,
    path,
)
from stoptime.left_out import residuals as left_out
from stoptime.left_out.by_mixture import ByMixture
from stoptime.left_out.exact import leave_one_out, left_out_residuals
from stoptime.left_out.interpolation import Interpolation
from stoptime.left_out.routing import Routing
from stoptime.left_out.secular import BySecular
from stoptime.spectrum.krylov import operator


def by_refits(X, y, method, stops, sample_weight=None, fit_intercept=True):
    """Return residuals of shape (n_stops, n_rows, n_targets)."""
    residuals = []
    for row in range(len(X)):
        kept = np.arange(len(X)) != row
        weights = None if sample_weight is None else sample_weight[kept]
        drawn = path(
            X[kept], y[kept], method, stops, sample_weight=weights, fit_intercept=fit_intercept
        )
        residuals.append((y[row] - drawn.predict(X[[row]])[:, 0]).reshape(len(stops), -1))
    return np.stack(residuals, axis=1)


def collected(routing, members=None, route=None):
    """Return residuals of all rows at all stops, by the given route or by those of the routing."""
    rows = routing.rows
    members = np.arange(len(rows.weights)) if members is None else members
    out = np.empty((len(routing.stops), *rows.data.y.shape))
    for index, own in routing.parts(members):
        for places, residuals in routing.residuals(rows.block(index, on_host=False), route or own):
            out[places[:, None], np.arange(len(rows.weights))[index]] = residuals * rows.unit
    return out


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_residual_is_that_of_a_refit(kind, method):
    X, y, options = problem(kind)
    stops = stops_for(method, X, y, options)
    spectrum = decompose(X, y, **options)
    routing = Routing(rows_of(X, y, options["sample_weight"], spectrum), method, stops)
    refits = by_refits(X, y, method, stops, **options)
    tolerance = 1e-8 if kind == "condition 1e12" else 1e-10
    assert_same(collected(routing), refits, tolerance)
    exact = BySecular(method, routing._inner, routing.rows.eigenvalues)
    assert_same(collected(routing, route=exact), refits, tolerance)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize(
    "kind", ["tall", "wide", "weights", "integer weights", "targets", "many targets"]
)
def test_errors_are_means_of_squared_residuals(kind, method):
    X, y, options = problem(kind)
    stops = stops_for(method, X, y, options, count=60)
    residuals = by_refits(X, y, method, stops, **options)
    weights = np.ones(len(X)) if options["sample_weight"] is None else options["sample_weight"]
    present, shares = weights > 0, weights / weights.sum()
    errors = np.einsum("i,tiq->tq", shares, residuals**2)
    deviations = (residuals**2 - errors[:, None])[:, present] * shares[present, None]
    n = present.sum()
    found = leave_one_out(X, y, method, stops, **options)
    shape = (len(stops), *y.shape[1:])
    np.testing.assert_allclose(found.errors, errors.reshape(shape), rtol=1e-8)
    spread = np.sqrt((deviations**2).sum(axis=1) * n / (n - 1)).reshape(shape)
    np.testing.assert_allclose(found.standard_errors, spread, rtol=1e-6)
    np.testing.assert_array_equal(found.stops, stops)


def test_scikit_learn_agrees():
    X, y, _ = problem("tall")
    model = StoppedRegressor(AcceleratedFlow(friction=4.0), stop=3.0)
    expected = y - cross_val_predict(model, X, y, cv=Splitter())
    np.testing.assert_allclose(left_out_residuals(X, y, model.method, 3.0), expected, rtol=1e-9)


def test_standard_error_is_the_usual_one():
    X, y, _ = problem("tall")
    squares = left_out_residuals(X, y, "gradient-flow", 1.0) ** 2
    found = leave_one_out(X, y, "gradient-flow", [1.0])
    np.testing.assert_allclose(found.errors, squares.mean())
    np.testing.assert_allclose(found.standard_errors, squares.std(ddof=1) / np.sqrt(len(y)))


@pytest.mark.parametrize("kind", ["targets", "many targets"])
def test_every_target_may_have_its_own_stop(kind):
    X, y, _ = problem(kind)
    stops = np.resize([0.0, 0.3, 5.0, np.inf], y.shape[1])
    found = left_out_residuals(X, y, "nesterov-flow", stops)
    assert found.shape == y.shape
    for target, stop in enumerate(stops):
        alone = left_out_residuals(X, y[:, target], "nesterov-flow", stop)
        np.testing.assert_allclose(
            found[:, target], alone, rtol=1e-8, atol=1e-10 * np.abs(alone).max()
        )


def test_critical_damping_is_that_of_all_rows():
    X, y, _ = problem("tall")
    tuned = HeavyBallFlow().tuned_to(decompose(X, y).eigenvalues)
    critical = leave_one_out(X, y, "heavy-ball-flow", [1.0, 10.0]).errors
    np.testing.assert_allclose(critical, leave_one_out(X, y, tuned, [1.0, 10.0]).errors)


def test_a_weight_of_zero_is_no_row():
    X, y, _ = problem("wide")
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    found = leave_one_out(X, y, "nesterov-flow", [1.0, 9.0], sample_weight=weights)
    without = leave_one_out(X[weights > 0], y[weights > 0], "nesterov-flow", [1.0, 9.0])
    np.testing.assert_allclose(found.errors, without.errors, rtol=1e-10)
    np.testing.assert_allclose(found.standard_errors, without.standard_errors, rtol=1e-8)
    residuals = left_out_residuals(X, y, "nesterov-flow", 9.0, sample_weight=weights)
    fit = path(X, y, "nesterov-flow", [9.0], sample_weight=weights).predict(X)[0]
    np.testing.assert_allclose(residuals[weights == 0], (y - fit)[weights == 0], rtol=1e-9)


@pytest.mark.parametrize("kind", ["tall", "wide"])
def test_single_precision(kind):
    X, y, _ = problem(kind)
    stops = np.geomspace(0.1, 20, 10)
    double = leave_one_out(X, y, "nesterov-flow", stops).errors
    single = leave_one_out(X.astype(np.float32), y.astype(np.float32), "nesterov-flow", stops)
    np.testing.assert_allclose(single.errors, double, rtol=1e-3)
    residuals = left_out_residuals(X.astype(np.float32), y.astype(np.float32), "nesterov-flow", 2.0)
    assert residuals.dtype == np.float32


def test_a_spectrum_at_hand_is_used():
    X, y, _ = problem("tall")
    expected = leave_one_out(X, y, "nesterov-flow", [2.0]).errors
    found = leave_one_out(
        X, y, "nesterov-flow", [2.0], spectrum=decompose(X, y, solver="svd")
    ).errors
    np.testing.assert_allclose(found, expected)
    with pytest.raises(ValueError, match="other data"):
        leave_one_out(X[1:], y[1:], "nesterov-flow", [2.0], spectrum=decompose(X, y))
    with pytest.raises(ValueError, match="fit_intercept"):
        leave_one_out(X, y, "ridge", [2.0], spectrum=decompose(X, y, fit_intercept=False))


def test_bad_input_is_refused():
    X, y, _ = problem("targets")
    with pytest.raises(ValueError, match="two rows"):
        leave_one_out(X[:1], y[:1], "ridge", [1.0])
    with pytest.raises(ValueError, match="two rows"):
        leave_one_out(X, y, "ridge", [1.0], sample_weight=np.eye(len(X))[0])
    with pytest.raises(ValueError, match="non-negative"):
        leave_one_out(X, y, "ridge", [-1.0])
    with pytest.raises(ValueError, match="one number or a list"):
        leave_one_out(X, y, "ridge", [[1.0]])
    with pytest.raises(ValueError, match="one per target"):
        left_out_residuals(X, y, "ridge", [1.0, 2.0])
    assert leave_one_out(X, y, "ridge", []).errors.shape == (0, 3)


def test_verbosity_changes_no_number(capsys, monkeypatch):
    monkeypatch.setattr("stoptime.support.progress.PATIENCE", -1.0)
    monkeypatch.setattr("stoptime.support.progress.INTERVAL", -1.0)
    X, y, _ = problem("tall")
    quiet = leave_one_out(X, y, "nesterov-flow", [1.0]).errors
    assert capsys.readouterr().err == ""
    loud = leave_one_out(X, y, "nesterov-flow", [1.0], verbose=True).errors
    np.testing.assert_array_equal(loud, quiet)
    assert "leave-one-out: 1 of 1" in capsys.readouterr().err


def test_a_fall_too_steep_for_few_nodes_is_not_missed():
    """Overdamped at late stops: g is one at s = 0 and zero at every node of a coarse expansion."""
    rng = np.random.default_rng(2)
    U, V = (np.linalg.qr(rng.standard_normal((30, 12)))[0] for _ in range(2))
    X = U * np.geomspace(1, 1e-4, 12) @ V[:12].T[:12]
    y = X @ np.ones(12) + 1e-3 * rng.standard_normal(30)
    stop = 3e4
    found = left_out_residuals(X, y, HeavyBallFlow(0.05), stop)
    for i in range(30):
        keep = np.arange(30) != i
        model = StoppedRegressor(HeavyBallFlow(0.05), stop=stop).fit(X[keep], y[keep])
        assert abs(found[i] - (y[i] - model.predict(X[i : i + 1])[0])) < 1e-8 * np.abs(found).max()


def test_scale_of_the_response_does_not_matter():
    X, y, _ = problem("tall")
    expected = leave_one_out(X, y, "nesterov-flow", [2.0])
    for scale in (1e-120, 1e120):
        found = leave_one_out(X, scale * y, "nesterov-flow", [2.0])
        np.testing.assert_allclose(found.errors / scale**2, expected.errors)
        np.testing.assert_allclose(found.standard_errors / scale**2, expected.standard_errors)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("kind", ["tall", "wide", "leverage one"])
def test_scale_of_the_design_is_a_scale_of_time(kind, method):
    X, y, _ = problem(kind)
    stops = np.array([0.0, 0.1, 3.0, 50.0, 1e5, np.inf])
    expected = leave_one_out(X, y, method, stops).errors
    for scale in (2.0**-300, 2.0**300):
        scaled = method.in_units_of(scale**-2)
        found = leave_one_out(scale * X, y, scaled, stops / scale ** (3 - method.order)).errors
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_extreme_stops(method):
    X, y, _ = problem("tall")
    errors = leave_one_out(X, y, method, [0, 1e-300, 1e-160, 1e150, 1e300, np.inf]).errors
    np.testing.assert_allclose(errors[:3], errors[0])
    np.testing.assert_allclose(errors[3:], errors[-1], rtol=1e-8)


@pytest.mark.parametrize("spread", [1e-15, 1e-9, 0.5])
def test_rows_of_many_different_weights_are_interpolated(spread):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 5)), rng.normal(size=200)
    weights = rng.uniform(1 - spread, 1 + 2 * spread, 200)
    stops = np.geomspace(0.1, 100, 12)
    spectrum = decompose(X, y, weights)
    for method in METHODS:
        routing = Routing(rows_of(X, y, weights, spectrum), method, stops)
        ((_, route),) = {
            type(route): (index, route) for index, route in routing.parts(np.arange(200))
        }.values()
        assert isinstance(route, ByMixture)
        assert len(route.scales) < 20
        exact = BySecular(method, stops, routing.rows.eigenvalues)
        assert_same(collected(routing), collected(routing, route=exact), 1e-10)


@pytest.mark.parametrize("shape", [(24, 6), (14, 25)])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_early_stops_do_not_notice_bad_condition(method, shape):
    """Then the factorisation is that of XᵀX, whose small eigenvalues are rounding."""
    rng = np.random.default_rng(11)
    X = with_condition(rng, 25, 25, 1e14)[: shape[0], : shape[1]] * np.geomspace(1, 1e-7, shape[1])
    y = rng.normal(size=shape[0])
    stops = np.geomspace(0.1, 300, 10) ** (3 - method.order)
    residuals = by_refits(X, y, method, stops)
    found = leave_one_out(X, y, method, stops)
    np.testing.assert_allclose(found.errors, np.mean(residuals**2, axis=1)[:, 0], rtol=1e-8)


def test_targets_a_block_at_a_time(rng, monkeypatch):
    X = rng.standard_normal((60, 12))
    y = X @ rng.standard_normal((12, 40)) + rng.standard_normal((60, 40))
    stops = np.geomspace(0.1, 30, 50)
    whole = leave_one_out(X, y, "nesterov-flow", stops)
    monkeypatch.setattr(left_out, "TARGETS_AT_ONCE", 17)
    blocks = leave_one_out(X, y, "nesterov-flow", stops)
    np.testing.assert_allclose(blocks.errors, whole.errors, rtol=1e-10)
    np.testing.assert_allclose(blocks.standard_errors, whole.standard_errors, rtol=1e-8)


@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow"])
def test_many_targets_are_computed_at_few_stops(method, rng):
    X, y = rng.standard_normal((60, 12)), rng.standard_normal((60, 20))
    stops = np.concatenate([[0], np.geomspace(1e-3, 30, 100), [np.inf]])
    rows = rows_of(X, y, None, decompose(X, y))
    for fourths in (False, True):
        curve = Interpolation.of_powers(
            get_method(method), stops, rows.reach, rows.accuracy, fourths=fourths
        )
        assert len(curve.nodes) < 40
        assert {0, 101} <= set(curve.nodes)
    (few,) = (part for part in rows.target_blocks(19) if part.data.y.shape[1] == 1)
    assert forms_operators(Routing(rows, get_method(method), stops))
    assert not forms_operators(Routing(few, get_method(method), stops))
    assert forms_operators(Routing(few, get_method(method), stops, np.zeros(1, np.intp)))


@pytest.mark.parametrize("method", ["gradient-flow", "nesterov-flow", "critical-flow"])
def test_several_targets_share_operators_at_few_stops(method, rng, monkeypatch):
    X, y = rng.standard_normal((60, 12)), rng.standard_normal((60, 10))
    stops = np.array([0.5, 1.0])
    rows = rows_of(X, y, None, decompose(X, y))
    assert forms_operators(Routing(rows, get_method(method), stops))
    shared = leave_one_out(X, y, method, stops)
    monkeypatch.setattr(ByMixture, "prefers_operators", lambda *_: False)
    assert not forms_operators(Routing(rows, get_method(method), stops))
    np.testing.assert_allclose(shared.errors, leave_one_out(X, y, method, stops).errors, rtol=1e-12)


def forms_operators(routing):
    _, route = next(routing.parts(np.arange(60)))
    return routing._forms_operators(route)


@pytest.mark.parametrize("last", [30.0, 1e6])  # so late accelerated flow takes secular equations
@pytest.mark.parametrize("n_targets", [1, 3, 40])
@pytest.mark.parametrize("method", ["ridge", "gradient-flow", "nesterov-flow"])
def test_blocks_hold_about_as_many_numbers_as_they_may(method, n_targets, last, rng, monkeypatch):
    X, y = (
        rng.standard_normal((1200, 20)) * np.geomspace(1e-3, 1, 20),
        rng.standard_normal((1200, n_targets)),
    )
    rows, most = rows_of(X, y, None, decompose(X, y)), 2**18
    monkeypatch.setattr(type(rows.data), "numbers_at_once", most)
    routing = Routing(rows, get_method(method), np.geomspace(0.1, last, 40))
    index, route = next(routing.parts(np.arange(1200)))
    block = rows.block(index, on_host=False)
    tracemalloc.start()
    for _ in routing.residuals(block, route):
        pass
    held = tracemalloc.get_traced_memory()[1] / 8
    tracemalloc.stop()
    assert 0.5 * most < held < 1.8 * most


def test_single_precision_loses_no_more_than_its_own(rng):
    X = (rng.standard_normal((300, 20)) + 1).astype(np.float32)
    y = (X @ rng.standard_normal((20, 30)) + rng.standard_normal((300, 30))).astype(np.float32)
    stops = np.geomspace(0.1, 30, 50)
    narrow = leave_one_out(X, y, "nesterov-flow", stops)
    wide = leave_one_out(X.astype(float), y.astype(float), "nesterov-flow", stops)
    np.testing.assert_allclose(narrow.errors, wide.errors, rtol=2e-5)


@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-6, 1e-7])
def test_the_end_of_a_row_whose_leverage_cannot_be_told_from_one(size, rng):
    X = np.column_stack([rng.standard_normal((24, 5)), size * (np.arange(24) == 4)])
    y = rng.standard_normal(24)
    expected = by_refits(X, y, Ridge(), np.array([np.inf]))[0, :, 0]
    np.testing.assert_allclose(left_out_residuals(X, y, "ridge", np.inf), expected, rtol=1e-7)


@pytest.mark.parametrize("method", ["ridge", "nesterov-flow"])
def test_a_constant_response_leaves_nothing_over(method):
    X, _, _ = problem("tall")
    found = leave_one_out(X, np.full(len(X), 3.0), method, [0.0, 1.0, np.inf])
    np.testing.assert_array_equal(found.errors, 0)
    np.testing.assert_array_equal(found.standard_errors, 0)


def test_a_sparse_design_is_factored_up_to_a_size(monkeypatch):
    X, y, _ = problem("tall")
    expected = leave_one_out(X, y, "nesterov-flow", [2.0]).errors
    monkeypatch.setattr(operator, "LARGEST_GRAM", X.shape[1])
    np.testing.assert_allclose(
        leave_one_out(csr_array(X), y, "nesterov-flow", [2.0]).errors, expected
    )
    monkeypatch.setattr(operator, "LARGEST_GRAM", X.shape[1] - 1)
    with pytest.raises(ValueError, match="needs every eigenvalue"):
        leave_one_out(csr_array(X), y, "nesterov-flow", [2.0])


def test_a_first_look_at_very_many_rows_takes_some_of_them(rng, monkeypatch):
    X = rng.standard_normal((2000, 10))
    y = X @ rng.standard_normal((10, 20)) + 3 * rng.standard_normal((2000, 20))
    searched = StoppedRegressorCV("ridge").fit(X, y)
    monkeypatch.setattr(left_out, "SAMPLED_ROWS", 250)
    looked = StoppedRegressorCV("ridge").fit(X, y)
    np.testing.assert_allclose(looked.stop_, searched.stop_, rtol=1e-3)
    np.testing.assert_allclose(looked.choice_.error, searched.choice_.error, rtol=1e-9)
    # errors elsewhere come from an eighth of the rows, scaled by those of least squares
    errors = leave_one_out(X, y, "ridge", looked.stops_).errors.mean(axis=1)
    difference = np.abs(looked.errors_.mean(axis=1) / errors - 1)
    assert difference[looked.choice_.curve.exact].max() < 1e-9
    assert 1e-6 < difference.max() < 0.05


def test_rows_of_high_leverage_are_not_left_to_chance(rng, monkeypatch):
    X = rng.standard_normal((2000, 10))
    X[7] = 1e4 * rng.standard_normal(10)
    y = np.tile(X @ rng.standard_normal(10) + rng.standard_normal(2000), (20, 1)).T
    y[7] += 1e5
    searched = StoppedRegressorCV("ridge").fit(X, y)
    monkeypatch.setattr(left_out, "SAMPLED_ROWS", 250)
    looked = StoppedRegressorCV("ridge").fit(X, y)
    np.testing.assert_array_equal(looked.errors_, searched.errors_)
