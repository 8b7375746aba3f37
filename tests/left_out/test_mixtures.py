"""Filters as mixtures of ridges, and two independent routes to left-out residuals."""

import numpy as np
import pytest

import stoptime as st
from contract import case, made
from stoptime.left_out.contours import Ellipse, Span, contour_for, ladder_for, values_at
from stoptime.left_out.downdated import Downdated
from stoptime.left_out.residuals import LeftOut, columns_of
from stoptime.left_out.ridges import Ridges, by_operators
from stoptime.left_out.rows import Rows
from stoptime.left_out.scales import Mix
from stoptime.methods.base import settled_at
from stoptime.spectrum.decompose import open_data

SMOOTH = [st.Ridge(), st.GradientFlow(), st.CriticalFlow(), st.IteratedRidge(3)]
ONE = np.ones(1)  # the scale of rows of equal weights, without them
WAVES = [st.AcceleratedFlow(3.0), st.AcceleratedFlow(9.0), st.HeavyBallFlow(0.1)]


def error_of_mixture(contour, method, stops, s):
    """Return the largest error of a filter as a mixture, and its largest weight."""
    weights = contour.weights(values_at(contour, method, stops, ONE)[0])
    ridges = 1 / (1 + s[:, None] / contour.penalties)
    found = ridges.view(np.float64) @ weights
    return np.abs(found - method.shrinkage(s[:, None], stops)).max(), np.abs(weights).max()


def ellipse_of(method, stops, largest, most=1e5):
    return Ellipse.resolving(lambda s: method.shrinkage(s[:, None], stops), largest, most)


@pytest.mark.parametrize("method", SMOOTH, ids=str)
@pytest.mark.parametrize("condition", [1e1, 1e6, 1e16])
def test_every_smooth_filter_is_a_mixture_on_the_ladder_at_every_stop(method, condition):
    stops = np.geomspace(0.01, settled_at(method, 2.5 / condition, 0.03), 60)
    ladder = ladder_for(method, stops, ONE, 2.5).contour
    s = np.append(0.0, np.geomspace(1e-3 / condition, 2.5, 2000))
    error, weight = error_of_mixture(ladder, method, stops, s)
    assert error < 1e-9
    assert weight < 2  # rounding errors of the ridges are not multiplied


def test_the_ladder_refuses_a_filter_that_oscillates():
    method = st.AcceleratedFlow()
    assert ladder_for(method, np.array([1.0]), ONE, 1.0) is not None
    assert ladder_for(method, np.array([1.0, 100.0]), ONE, 1.0) is None


@pytest.mark.parametrize("method", WAVES, ids=str)
@pytest.mark.parametrize("phase", [4.0, 60.0, 700.0])
def test_filters_that_oscillate_are_mixtures_on_an_ellipse(method, phase):
    stops = np.linspace(0.1, 1.0, 30) * phase / np.sqrt(2.5)
    ellipse = ellipse_of(method, stops, 2.5)
    s = np.append(0.0, np.random.default_rng(0).uniform(0, 1, 300) ** 3) * 2.5
    assert error_of_mixture(ellipse, method, stops, s)[0] < 1e-10
    assert len(ellipse.penalties) < 30 + phase
    assert phase == 4.0 or ellipse_of(method, stops, 2.5, most=0) is None


def test_a_drop_before_the_first_node_is_not_missed():
    """Overdamped at late stops, g is one at s = 0 and zero at every node of a coarse expansion."""
    method, stops = st.HeavyBallFlow(0.05), np.array([3e4])
    ellipse = ellipse_of(method, stops, 1.0)
    assert error_of_mixture(ellipse, method, stops, np.geomspace(1e-8, 1, 200))[0] < 1e-9


@pytest.mark.parametrize("method", [st.CriticalFlow(), st.AcceleratedFlow()], ids=str)
def test_a_span_holds_the_stops_between_those_it_was_made_for(method):
    stops = np.linspace(0.1, 30, 120)
    contour = contour_for(method, stops, ONE, np.linspace(0.01, 1, 200)).contour
    span = Span.of(contour, values_at(contour, method, stops, ONE)[0])
    assert span.filters.shape[1] < len(stops)
    between = values_at(contour, method, (stops[1:] + stops[:-1]) / 2, ONE)[0]
    coordinates = span.filters.T @ between
    assert np.abs(span.filters @ coordinates - between).max() < 1e-8
    # a few nodes tell the same, and what is not in the span
    found, seen = span.locate(method, (stops[1:] + stops[:-1]) / 2, ONE)
    np.testing.assert_allclose(found[0], coordinates, atol=1e-7)
    assert seen.max() < 1e-8
    assert span.locate(method, np.array([60.0]), ONE)[1][0] > 1e-4


def test_scales_are_interpolated_to_rounding():
    scales = np.random.default_rng(0).uniform(1, 1.4, 200)
    stops = np.array([1.0, 20.0])

    def values(scales):
        s = np.multiply.outer(scales, np.linspace(0, 1, 50))
        return st.AcceleratedFlow().shrinkage(s[..., None], stops)

    mix = Mix.of(values, scales)
    assert len(mix.scales.all) < 40
    assert np.abs(mix.of_rows(scales) - values(scales)).max() < 1e-9
    np.testing.assert_array_equal(Mix.of(values, np.array([1.2, 1.1, 1.1])).scales.all, [1.1, 1.2])


NAMES = [
    "ridge", "gradient flow", "friction 3", "critical flow", "iterated ridge", "friction 1.5",
    "six times iterated ridge", "friction 9", "heavy-ball flow", "undamped heavy-ball flow",
]  # fmt: skip


def rows_of(data, spectrum):
    return Rows(open_data(data.X, data.y, data.sample_weight, True).rows, spectrum)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["tall", "wide", "weights", "lonely column", "three targets"])
def test_ridges_and_eigenvalues_without_each_row_agree(kind, name):
    data = case("tall", 3) if kind == "three targets" else case(kind)
    method = made(name, data.largest)
    stops = np.geomspace(0.1, 20.0, 7)
    rows = rows_of(data, st.decompose(data.X, data.y, solver="svd", **data.options))
    left_out = LeftOut(rows)
    assert isinstance(left_out.route(method, stops).source, Ridges)
    found = left_out.at_stops(method, stops) / rows.unit
    block = rows.block(slice(0, data.n))
    for by_svd in (True, False):
        direct = Downdated(rows.eigenvalues, method, stops, by_svd)
        expected = columns_of(direct, block, rows.coef)[..., :-2].transpose(2, 1, 0)
        np.testing.assert_allclose(found, expected, atol=1e-9)
    source, mix = left_out.route(method, stops[3:4])
    mixed = mix.of_rows(block.scale)[:, :-2, 0]
    alone = Downdated(rows.eigenvalues, method, stops[3:4], by_svd=True)
    expected = alone.coefficients(block, rows.coef, mixed)
    np.testing.assert_allclose(source.coefficients(block, rows.coef, mixed), expected, atol=1e-9)


@pytest.mark.parametrize("name", NAMES[:4])
def test_operators_of_many_targets_give_the_residuals_of_few(name):
    data = case("tall", 20)
    rows = rows_of(data, data.spectrum)
    method = made(name, data.largest)
    source = LeftOut(rows).route(method, np.geomspace(0.1, 20.0, 7)).source
    block = rows.block(slice(0, data.n))
    expected = by_operators(*source.operators(block), block, rows.coef)
    for target in range(3):
        one = rows.of_targets(slice(target, target + 1))
        found = source.residuals(one.block(slice(0, data.n)), one.coef)[0]
        np.testing.assert_allclose(found, expected[target], atol=1e-10)
