"""Filters as mixtures of ridges, and two independent routes to left-out residuals."""

import numpy as np
import pytest

import stoptime as st
from left_out.cases import METHODS, problem, rows_of
from stoptime.left_out.downdated import Downdated
from stoptime.left_out.ellipse import Ellipse
from stoptime.left_out.ladder import Ladder
from stoptime.left_out.residuals import LeftOut
from stoptime.left_out.ridges import Ridges
from stoptime.left_out.routes import columns_of, operators_of, route_to
from stoptime.left_out.span import SERVED, Span, ladder_for, lagrange, scale_nodes, values_at

SMOOTH = [st.Ridge(), st.GradientFlow(), st.CriticalFlow(), st.IteratedRidge(3)]
WAVES = [st.AcceleratedFlow(3.0), st.AcceleratedFlow(9.0), st.HeavyBallFlow(0.1)]


def mixed(contour, weights, s):
    """Return the mixtures of the ridges of a contour at some eigenvalues."""
    ridges = 1 / (1 + s[:, None] / contour.penalties)
    return np.column_stack([ridges.real, ridges.imag, np.ones(len(s))]) @ weights


@pytest.mark.parametrize("method", SMOOTH, ids=str)
@pytest.mark.parametrize("condition", [1e1, 1e6, 1e16])
def test_every_smooth_filter_is_a_mixture_on_the_ladder_at_every_stop(method, condition):
    last = method.settled_at(2.5 / condition, 0.03)
    stops = np.geomspace(0.01, last, 60)
    ladder = ladder_for(method, stops, 1.0, 2.5)
    values = values_at(ladder, method, stops, 1.0)
    assert ladder.misfit(values).max() < SERVED
    weights = ladder.weights(values)
    assert np.abs(weights).max() < 2  # rounding errors of the ridges are not multiplied
    s = np.append(0.0, np.geomspace(1e-3 / condition, 2.5, 2000))
    error = np.abs(mixed(ladder, weights, s) - method.shrinkage(s[:, None], stops))
    assert error.max() < 1e-9


def test_the_misfit_tells_a_filter_that_oscillates():
    stops = np.array([1.0, 100.0])
    method = st.AcceleratedFlow()
    ladder = ladder_for(method, stops, 1.0, 1.0)
    misfit = ladder.misfit(values_at(ladder, method, stops, 1.0))
    assert misfit[0] < SERVED < 1e-4 < misfit[1]


@pytest.mark.parametrize("method", WAVES, ids=str)
@pytest.mark.parametrize("phase", [4.0, 60.0, 700.0])
def test_filters_that_oscillate_are_mixtures_on_an_ellipse(method, phase):
    largest = 2.5
    stops = np.linspace(0.1, 1.0, 30) * phase / np.sqrt(largest)
    ellipse = Ellipse.resolving(lambda s: method.shrinkage(s[:, None], stops), largest, 1e5)
    weights = ellipse.weights(method.shrinkage(ellipse.nodes[:, None], stops))
    s = np.append(0.0, np.random.default_rng(0).uniform(0, 1, 300) ** 3) * largest
    error = np.abs(mixed(ellipse, weights, s) - method.shrinkage(s[:, None], stops))
    assert error.max() < 1e-10
    assert len(ellipse.penalties) < 30 + phase
    assert Ellipse.resolving(lambda s: method.shrinkage(s[:, None], stops), largest, 0) is None or (
        phase == 4.0
    )


def test_a_drop_before_the_first_node_is_not_missed():
    """Overdamped at late stops, g is one at s = 0 and zero at every node of a coarse expansion."""
    method = st.HeavyBallFlow(0.05)
    stops = np.array([3e4])
    ellipse = Ellipse.resolving(lambda s: method.shrinkage(s[:, None], stops), 1.0, 1e5)
    weights = ellipse.weights(method.shrinkage(ellipse.nodes[:, None], stops))
    s = np.geomspace(1e-8, 1, 200)
    error = np.abs(mixed(ellipse, weights, s) - method.shrinkage(s[:, None], stops))
    assert error.max() < 1e-9


@pytest.mark.parametrize("contour", ["ladder", "ellipse"])
def test_a_span_holds_the_stops_between_those_it_was_made_for(contour):
    method = st.CriticalFlow() if contour == "ladder" else st.AcceleratedFlow()
    stops = np.linspace(0.1, 30, 120)
    if contour == "ladder":
        made = Ladder.down_to(1e-9, 1.0)
    else:
        made = Ellipse.resolving(lambda s: method.shrinkage(s[:, None], stops), 1.0, 1e5)
    span = Span.of(made, values_at(made, method, stops, 1.0))
    assert span.filters.shape[1] < len(stops)
    between = (stops[1:] + stops[:-1]) / 2
    values = values_at(made, method, between, 1.0)
    found = span.filters @ span.coordinates(method, between, 1.0)
    assert np.abs(found - values).max() < 1e-8


def test_scales_are_interpolated_to_rounding():
    scales = np.random.default_rng(0).uniform(1, 1.4, 200)
    stops = np.array([1.0, 20.0])

    def values(scale):
        return st.AcceleratedFlow().shrinkage(scale * np.linspace(0, 1, 50)[:, None], stops)

    nodes = scale_nodes(values, scales)
    assert len(nodes) < 40
    found = np.tensordot(lagrange(nodes, scales), np.stack([values(c) for c in nodes]), axes=1)
    assert np.abs(found - np.stack([values(c) for c in scales])).max() < 1e-9
    np.testing.assert_array_equal(scale_nodes(values, np.array([1.2, 1.1, 1.1])), [1.1, 1.2])


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("kind", ["tall", "wide", "weights", "targets", "leverage one"])
def test_ridges_and_eigenvalues_without_each_row_agree(kind, method):
    X, y, options = problem(kind)
    stops = np.geomspace(0.1, 20.0, 7)
    spectrum = st.decompose(X, y, solver="svd", **options)
    left_out = LeftOut(rows_of(X, y, options["sample_weight"], spectrum))
    rows = left_out.rows
    source, mix = route_to(method, stops, rows.eigenvalues, rows.scales)
    assert isinstance(source, Ridges)
    block = rows.block(slice(0, len(X)))
    found = mix.at_all_stops(columns_of(source, block, rows.coef), block.scale)
    for by_svd in (True, False):
        direct = Downdated(rows.eigenvalues, method, stops, by_svd)
        expected = direct.residuals(block, rows.coef) * block.stretch[:, None]
        np.testing.assert_allclose(found, expected, atol=1e-9)
    source, mix = route_to(method, stops[3:4], rows.eigenvalues, rows.scales)
    mixed = mix.of_rows(block.scale)[:, :-2]
    alone = Downdated(rows.eigenvalues, method, stops[3:4], True)
    expected = alone.coefficients(block, rows.coef, mixed)
    np.testing.assert_allclose(source.coefficients(block, rows.coef, mixed), expected, atol=1e-9)


@pytest.mark.parametrize("method", METHODS[:4], ids=str)
def test_operators_of_many_targets_give_the_residuals_of_few(method):
    X, y, _ = problem("many targets")
    rows = rows_of(X, y, None, st.decompose(X, y))
    stops = np.concatenate([[0.0], np.geomspace(0.1, 20.0, 7), [np.inf]])
    source, _ = route_to(method, stops, rows.eigenvalues, rows.scales)
    block = rows.block(slice(0, len(X)))
    alpha, slopes = operators_of(source, block)
    expected = (alpha[..., None] * block.residual + slopes @ rows.coef) * block.stretch[:, None]
    np.testing.assert_allclose(columns_of(source, block, rows.coef), expected, atol=1e-10)
