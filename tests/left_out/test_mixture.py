"""Mixtures of ridges, interpolation between stops, and secular equations."""

import numpy as np
import pytest

from left_out.cases import METHODS
from stoptime import (
    AcceleratedFlow,
    CriticalFlow,
    Decayed,
    GradientDescent,
    GradientFlow,
    HeavyBall,
    IteratedRidge,
    Nesterov,
    NuMethod,
)
from stoptime.left_out import secular
from stoptime.left_out.by_mixture import ByMixture, lagrange
from stoptime.left_out.interpolation import Interpolation
from stoptime.left_out.mixture import ridge_mixture
from stoptime.left_out.routing import _scale_nodes, cheapest_route, learned
from stoptime.left_out.rows import DOUBLE_ACCURACY
from stoptime.left_out.secular import BySecular, downdate


def mixed(method, stops, largest, eigenvalues):
    """Return the shrinkages of a mixture of ridges, and the mixture."""
    mixture = ridge_mixture(method, stops, largest, np.ones(1))
    return (mixture.shrinkages(eigenvalues) @ mixture.weights[0]).real, mixture


def test_route_by_horizon():
    s, one = np.geomspace(1e-12, 1, 50), np.ones(1)
    assert isinstance(cheapest_route(AcceleratedFlow(), np.array([100.0]), s, one), ByMixture)
    assert isinstance(cheapest_route(AcceleratedFlow(), np.array([1e7]), s, one), BySecular)
    assert isinstance(cheapest_route(GradientFlow(), np.array([1e12]), s, one), ByMixture)


def test_route_by_work():
    """For two eigenvalues a mixture costs less only if it is small, or the iterations are many."""
    s, one, k = np.array([0.5, 1.0]), np.ones(1), np.array([1000.0])
    assert isinstance(cheapest_route(AcceleratedFlow(), k, s, one), BySecular)
    assert isinstance(cheapest_route(AcceleratedFlow(), k / 10, s, one), ByMixture)
    assert isinstance(cheapest_route(Nesterov(1.0), k, s, one), ByMixture)
    assert isinstance(cheapest_route(GradientDescent(1.0), 1000 * k, s, one), BySecular)  # powers


def test_the_last_stop_of_an_iteration_is_that_of_its_flow():
    s = np.array([1e-3, 2.0])
    stops = np.array([0.999e203, 1.001e203, 3.999e203, 4.001e203, np.inf])
    assert learned(GradientFlow(), s, stops).tolist() == [False, True, True, True, True]
    assert learned(GradientDescent(0.25), s, stops).tolist() == [False, False, False, True, True]
    for late in (learned(AcceleratedFlow(), s, stops), learned(GradientFlow(), s[:0], stops)):
        assert late.tolist() == [False, False, False, False, True]
    assert not learned(Decayed(GradientFlow(), 0.1), s, stops).any()


@pytest.mark.parametrize("horizon", [0.01, 1.0, 100.0, 3000.0])
@pytest.mark.parametrize("method", METHODS[1:], ids=str)
def test_mixtures_of_ridges_are_the_method(method, horizon):
    stops = horizon * np.geomspace(1e-3, 1, 30)
    largest = 3.0
    s = np.concatenate([[0.0], np.geomspace(1e-9, largest, 200), np.linspace(0, largest, 200)])
    stops = stops / largest ** (1 / method.order)
    found, _ = mixed(method, stops, largest, s)
    np.testing.assert_allclose(found, method.shrinkage(s[:, None], stops), rtol=0, atol=5e-12)


@pytest.mark.parametrize("stop", [1e-3, 0.01, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("method", METHODS[1:], ids=str)
def test_one_early_stop_keeps_its_digits(method, stop):
    s, stops = np.linspace(0, 1, 300), np.array([stop])
    found, mixture = mixed(method, stops, 1.0, s)
    assert len(mixture.penalties) < (150 if method.mixture == "rays" else 20)
    np.testing.assert_allclose(found, method.shrinkage(s[:, None], stops), rtol=0, atol=1e-13)


@pytest.mark.parametrize("stop", [3.0, 60.0])
@pytest.mark.parametrize(
    "method",
    [GradientFlow(), AcceleratedFlow(), Nesterov(0.45), NuMethod(0.45), HeavyBall(0.9, 0.9)],
    ids=str,
)
def test_shrinkages_between_scales_are_interpolated_from_few(method, stop):
    scales = np.concatenate([[1.0], np.linspace(1.6, 2.0, 400)])
    radians = 0.0 if method.order == 1 else method.pace * stop * np.sqrt(2.0)
    nodes = _scale_nodes(method, scales, radians)
    assert len(nodes) < 150
    assert 1 < nodes[0] < 1.01
    np.testing.assert_allclose(nodes + nodes[::-1], 3.0, rtol=1e-14)
    s = np.linspace(0, 1, 50)[:, None]
    found = method.shrinkage(nodes * s, stop) @ lagrange(nodes, scales).T
    np.testing.assert_allclose(found, method.shrinkage(scales * s, stop), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(
        _scale_nodes(method, scales[[3, 0, 3]], radians), [1.0, scales[3]]
    )


def test_gradient_flow_needs_few_ridges_however_long():
    stops = np.geomspace(1e-3, 1e12, 100)
    s = np.concatenate([[0.0], np.geomspace(1e-15, 1, 300)])
    found, mixture = mixed(GradientFlow(), stops, 1.0, s)
    assert len(mixture.penalties) < 350
    np.testing.assert_allclose(found, np.exp(-np.multiply.outer(s, stops)), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "ridges"), [(CriticalFlow(), 400), (IteratedRidge(), 450), (IteratedRidge(3), 450)]
)
def test_rays_need_few_ridges_however_long(method, ridges):
    """Chebyshev polynomials converge slowly at the root of √s, and penalties of its own do not."""
    stops = np.geomspace(1e-3, 1e6, 120) ** (3 - method.order)
    s = np.concatenate([[0.0], np.geomspace(1e-30, 1, 500), np.linspace(0, 1, 100)])
    found, mixture = mixed(method, stops, 1.0, s)
    assert len(mixture.penalties) < ridges
    assert np.abs(mixture.weights).sum(axis=1).max() < 10
    np.testing.assert_allclose(found, method.shrinkage(s[:, None], stops), rtol=0, atol=1e-13)
    for extreme in (1e-130, 1e130):
        far = extreme ** (3 - method.order) * stops
        assert ridge_mixture(method, far, 1.0, np.ones(1)) is None


@pytest.mark.parametrize("last", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_nodes_determine_all_stops(method, last):
    stops = np.geomspace(0.1, last, 100)
    s = np.concatenate([np.linspace(0, 1, 300), np.geomspace(1e-12, 1, 300)])
    values = method.shrinkage(s, stops[:, None])
    curve = Interpolation.of_powers(method, stops, 1.0, DOUBLE_ACCURACY, fourths=True)
    assert sorted([*curve.nodes, *curve.others]) == list(range(100))
    mixed = values @ np.random.default_rng(2).normal(size=(600, 50)) / np.sqrt(600)
    for power in (2, 4):
        powers = mixed**power
        scale = np.abs(powers).max()
        np.testing.assert_allclose(
            curve.extended(powers[curve.nodes]), powers, rtol=0, atol=1e-9 * scale
        )


def test_few_nodes_serve_a_grid_of_a_hundred_stops():
    flow, stops = AcceleratedFlow(), np.geomspace(0.1, 10, 100)
    assert len(Interpolation.of_powers(flow, stops, 1.0, DOUBLE_ACCURACY, fourths=True).nodes) < 25


def test_lagrange_polynomials_are_one_at_their_node():
    found = lagrange(np.array([0.0, 1.0]), np.array([0.0, 0.25]))
    np.testing.assert_array_equal(found, [[1, 0], [0.75, 0.25]])


def test_every_stop_may_be_a_node():
    whole, values = Interpolation.trivial(3), np.arange(6.0).reshape(3, 2)
    assert whole.matrix.shape == (0, 3)
    np.testing.assert_array_equal(whole.extended(values), values)


@pytest.mark.parametrize("poles", ["even", "graded", "crowded"])
@pytest.mark.parametrize("shares", ["generic", "full", "sparse", "tiny"])
def test_secular_roots_are_singular_values(poles, shares, monkeypatch):
    monkeypatch.setattr(secular, "MAX_STEPS", 12)  # enough, unless eigenvalues come in pairs
    rng = np.random.default_rng(5)
    k, n = 12, 20
    s = {
        "even": np.linspace(0.1, 2, k),
        "graded": np.geomspace(1e-12, 2, k),
        "crowded": 1 + 1e-14 * np.arange(k),
    }[poles]
    u = rng.normal(size=(n, k))
    u *= {"sparse": np.arange(k) % 2, "tiny": np.geomspace(1e-25, 1, k)}.get(shares, np.ones(k))
    u *= (1.0 if shares == "full" else 0.7) / np.linalg.norm(u, axis=1, keepdims=True)
    rest = np.zeros(n) if shares == "full" else 1 - (u**2).sum(axis=1)
    found = downdate(s, u**2, rest).eigenvalues
    for row, direction, left in zip(found, u, rest, strict=True):
        shrunk = np.eye(k) - (1 - np.sqrt(left)) / (1 - left) * np.outer(direction, direction)
        expected = np.sort(np.linalg.svd(shrunk * np.sqrt(s), compute_uv=False))
        np.testing.assert_allclose(np.sqrt(row), expected, rtol=0, atol=1e-14 * np.sqrt(s[-1]))


@pytest.mark.parametrize("poles", ["even", "graded", "in pairs", "in close pairs", "two"])
@pytest.mark.parametrize("decades", [1, 12, 36])
def test_gaps_solve_the_secular_equation(poles, decades):
    poles = {
        "even": np.linspace(0.1, 2, 12),
        "graded": np.geomspace(1e-12, 2, 12),
        "in pairs": np.sort(np.outer([1, 1 + 1e-6], np.arange(1, 7)).ravel()),
        "in close pairs": np.sort(np.outer([1, 1 + 1e-14], np.arange(1, 7)).ravel()),
        "two": np.array([1e-12, 1]),
    }[poles]
    shares = 10.0 ** np.random.default_rng(1).uniform(-decades - 2, -2, (1000, len(poles)))
    rest = 1 - shares.sum(axis=1)
    found = downdate(poles, shares, rest)
    gaps, shares = (
        np.dstack([-found.eigenvalues, found.gaps]),
        np.column_stack([rest, shares])[:, None],
    )
    terms = shares / gaps
    np.testing.assert_array_less(np.abs(terms.sum(axis=2)), 1e-14 * np.abs(terms).sum(axis=2))
    np.testing.assert_allclose(found.slopes, (shares / gaps**2).sum(axis=2), rtol=1e-13)


@pytest.mark.parametrize("numbers", [1, 8, 30])
def test_secular_equations_a_few_at_a_time(numbers, monkeypatch):
    rng = np.random.default_rng(6)
    s, shares = np.geomspace(1e-3, 1, 4), rng.uniform(0, 0.2, (9, 4))
    whole = downdate(s, shares, 1 - shares.sum(axis=1))
    monkeypatch.setattr(secular, "CHUNK_NUMBERS", numbers)
    few = downdate(s, shares, 1 - shares.sum(axis=1))
    for name in ("eigenvalues", "gaps", "slopes"):
        np.testing.assert_array_equal(getattr(few, name), getattr(whole, name))


@pytest.mark.parametrize("span", [1.0, 1.7, 5.0, 30.0, 500.0, 1e6])
def test_contours_are_accurate_for_stretches_of_time_of_any_length(span):
    stops, s = (
        np.geomspace(1e3, 1e3 * span, 20),
        np.concatenate([[0.0], np.geomspace(1e-12, 1, 300)]),
    )
    found, _ = mixed(GradientFlow(), stops, 1.0, s)
    np.testing.assert_allclose(found, np.exp(-np.multiply.outer(s, stops)), rtol=0, atol=3e-13)
