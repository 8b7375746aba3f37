"""Where a curve with many dips is lowest: the grid of a search, its dips, and ever closer looks."""

import numpy as np
import pytest

from stoptime import AcceleratedFlow, GradientDescent, GradientFlow, Nesterov
from stoptime.theory.risk import RiskModel
from stoptime.theory.search import Look, around_peaks, dips, lowest, lowest_kink, lowest_whole


def test_dips_are_no_higher_than_both_neighbours():
    assert dips(np.array([5.0, 3.0, 1.0, 2.0, 0.0, 0.0, 4.0, 0.0])).tolist() == [2, 4, 5]
    assert dips(np.array([1.0, 0.0])).size == 0


@pytest.mark.parametrize("place", [0.02, 0.271828, 0.314159, 0.98])
def test_every_zoom_comes_ten_times_closer(place):
    def curve(x):
        return np.minimum(np.abs(x - place), 0.2 + np.abs(x - 3.3))

    grid = np.arange(-0.5, 5, 0.5)
    assert len(dips(curve(grid))) == 2
    for zooms in (1, 3, 5):
        found, height = lowest(curve, grid, 2, zooms)
        assert height == abs(found - place) <= 0.026 * 0.1 ** (zooms - 1)


@pytest.mark.parametrize(
    "method", [GradientFlow(), AcceleratedFlow(), GradientDescent(0.01), Nesterov(0.01)]
)
def test_the_grid_does_not_depend_on_the_units(method):
    s, penalty = np.geomspace(1e-3, 1, 5), 2.0**20
    grid = RiskModel(method, s, s, s).grid(0.0, np.inf)
    scaled = RiskModel(method.in_units_of(penalty), s / penalty, s, s).grid(0.0, np.inf)
    unit = 1.0 if method.pace < 1 else penalty ** (1 / method.time_power)  # iterations are counted
    np.testing.assert_allclose(scaled, unit * grid, rtol=1e-12)


@pytest.mark.parametrize("method", [AcceleratedFlow(), Nesterov(0.01)], ids=str)
def test_the_grid_follows_the_fastest_swing(method):
    grid = RiskModel(method, np.array([0.5, 4.0]), np.ones(2), np.ones(2)).grid(0.0, 100.0)
    swing = np.pi / 2 / method.pace  # half a period at s = 4
    assert np.diff(grid).max() <= swing / 12 + 1e-9
    assert (grid[0], grid[-1]) == (0, 100)


def test_a_plateau_of_rounding_errors_is_searched_a_few_times_only():
    """Every other point of noise is a dip: without a limit all whole numbers would be tried."""
    noise = 1 + 2e-16 * np.random.default_rng(0).integers(-2, 3, 20_001)
    looks = []

    def curve(points):
        looks.append(points.size)
        return noise[np.round(points).astype(int)]

    grid = np.unique(np.round(np.geomspace(1, 20_000, 300)))
    _, height = lowest_whole(curve, grid, 8)
    assert height == pytest.approx(1)
    assert len(looks) <= 8
    looks.clear()
    lowest(curve, grid, 40, 8)
    assert len(looks) == 2


def test_the_lowest_whole_number_is_found_exactly():
    grid = np.unique(np.round(np.geomspace(1, 20_000, 300)))
    assert lowest_whole(lambda k: np.abs(k - 12_345), grid, 8) == (12_345, 0)


CURVES = {
    "a kink": (lambda x: np.array([np.exp(-x), x**2 / 3]), 1.0332309037176633),
    "a kink between straight lines": (lambda x: np.array([1 - 3 * x, x]), 0.25),
    "one smooth curve": (lambda x: np.array([(x - 0.4321) ** 2 + 0.1 * (x - 0.4321) ** 3]), 0.4321),
    "tangents above the curve": (lambda x: np.array([np.log(1 + 9 * abs(x - 0.3)) + 1]), 0.3),
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("place", [0, 4, 5, 8, 10])
def test_tangents_find_where_the_largest_of_some_curves_is_lowest(name, place):
    curves, best = CURVES[name]
    looks = []

    def look(x):
        looks.append(x)
        which = int(np.argmax(curves(x)))
        slope = (curves(x + 1e-6) - curves(x - 1e-6))[which] / 2e-6
        return Look(float(curves(x)[which]), x, float(slope))

    found = lowest_kink(look, np.linspace(-1, 2, 11), place)
    assert found == pytest.approx(best, abs=1e-5)
    dense = np.linspace(-1, 2, 30_001)
    assert look(found).height <= min(curves(x).max() for x in dense) + 1e-7
    assert len(looks) < 60


def test_a_small_dip_on_the_way_down_is_left_again():
    """Tangents end in it, and it is higher than the place where the search began."""

    def look(x):
        return Look(x**2 + 0.05 * np.sin(40 * x), x, 2 * x + 2 * np.cos(40 * x))

    grid = np.linspace(-2, 2, 9)
    heights = [look(float(x)).height for x in grid]
    found = look(lowest_kink(look, grid, int(np.argmin(heights))))
    assert found.height <= min(heights)


def test_points_are_added_around_the_highest_peaks_alone():
    x = np.arange(9.0)
    added = around_peaks(x, np.array([0, 1, 0, 5, 0, 4.99, 0, 4, 0.0]))
    assert added.min() > 2
    assert added.max() < 6
    assert {3.0, 5.0} <= set(added.round(9))
