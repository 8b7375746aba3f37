"""Where a curve with many dips is lowest: the grid of a search, its dips, and ever closer looks."""

import numpy as np
import pytest

from stoptime import AcceleratedFlow, GradientDescent, Nesterov
from stoptime.theory.risk import RiskModel
from stoptime.theory.search import dips, lowest, lowest_whole


@pytest.mark.parametrize("place", [0.02, 0.271828, 0.98])
def test_every_zoom_comes_ten_times_closer(place):
    def curve(x):
        return np.minimum(np.abs(x - place), 0.2 + np.abs(x - 3.3))

    grid = np.arange(-0.5, 5, 0.5)
    assert dips(curve(grid)).tolist() == [1 + round(2 * place), 8]
    for zooms in (1, 3, 5):
        found, height = lowest(curve, grid, 2, zooms)
        assert height == abs(found - place) <= 0.026 * 0.1 ** (zooms - 1)


@pytest.mark.parametrize("method", [AcceleratedFlow(), GradientDescent(0.01), Nesterov(0.01)])
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
    assert lowest_whole(curve, grid, 8)[1] == pytest.approx(1)
    assert len(looks) <= 8
    looks.clear()
    lowest(curve, grid, 40, 8)
    assert len(looks) == 2
    assert lowest_whole(lambda k: np.abs(k - 12_345), grid, 8) == (12_345, 0)
