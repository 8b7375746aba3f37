"""The engine of all proofs: true claims are proven, false ones are not, and searches end."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stoptime as st
from bounds.formulas import oscillation
from stoptime import bounds
from stoptime.bounds import balls, flows, heavy_ball, minimax
from stoptime.bounds.filters import shape_of
from stoptime.bounds.minimax import Strategy

pytest.importorskip("flint")

GAUSSIAN = shape_of(st.GradientFlow())


def test_a_game_of_chance_is_solved():
    """Matching pennies with unequal stakes, whose value and strategies are known."""
    table = np.array([[3.0, 1.0], [0.0, 2.0]])
    found = minimax.solve(
        lambda rows, columns: table[np.ix_(rows.astype(int), columns.astype(int))],
        np.arange(2.0),
        np.arange(2.0),
        1e-9,
    )
    assert (found.lower, found.upper) == (pytest.approx(1.5), pytest.approx(1.5))
    np.testing.assert_allclose(found.mixture.weights, [0.25, 0.75])
    np.testing.assert_allclose(found.spectrum.weights, [0.5, 0.5])


def test_a_smooth_game_is_solved_between_the_points_of_its_grids():
    """The best stop against (x - t)² is 1/2, which is not on the grid."""
    grid = np.linspace(0, 1, 12)
    found = minimax.solve(lambda x, t: (x[:, None] - t) ** 2, grid, grid, 1e-9)
    assert (found.lower, found.upper) == (pytest.approx(0.25), pytest.approx(0.25))
    assert found.mixture.points == pytest.approx((0.5,))
    with pytest.raises(bounds.WorkLimitError, match="only solved to"):
        minimax.solve(lambda x, t: np.cos(9 * x[:, None] * t), grid, grid, -1.0)


def test_mixture_and_spectrum_are_proven_and_nothing_better():
    with balls.working_precision():
        game = flows._FlowGame(GAUSSIAN, 8.0, 12.0, 5000)
        above = game.solved(game.places, game.stops[:-1], 1e-5)
        below = game.solved(game.places[:-1], game.stops, 1e-5)
        game.prove_cap(above.mixture, 0.07487)
        game.prove_floor(below.spectrum, 0.07483)
        with pytest.raises(bounds.WorkLimitError):
            game.prove_cap(above.mixture, 0.07483)
        with pytest.raises(bounds.WorkLimitError):
            game.prove_floor(below.spectrum, 0.07487)
        # with friction 2 the bias of large eigenvalues does not fall
        undamped = flows._FlowGame(shape_of(st.AcceleratedFlow(2.0)))
        with pytest.raises(bounds.WorkLimitError, match="falls too slowly"):
            undamped.prove_cap(Strategy.single(1.0), 0.9)
        # stops so early that late ones are better
        near = flows._FlowGame(GAUSSIAN, 2.0, 0.3)
        with pytest.raises(bounds.WorkLimitError, match="late stop"):
            near.prove_floor(below.spectrum, 0.07483)


@pytest.mark.parametrize("kappa", [5.0, 100.0])
@pytest.mark.parametrize("a", [0.5, 1.0, 1.7])
def test_one_problem_of_the_heavy_ball_is_proven_and_nothing_better(a, kappa):
    y = np.linspace(1, np.sqrt(kappa), 2001)
    stops = np.concatenate([np.linspace(1e-3, 3, 1500), np.linspace(3, 15, 300)])
    g = np.array([oscillation(alpha, alpha * y) for alpha in stops])
    least = (np.abs(a * y * g - (1 - g) / (a * y)).max(axis=1) ** 2).min()
    game = heavy_ball._HeavyBallGame(kappa, a)
    stop, height = game.best_stop(1e-9)
    assert height == pytest.approx(least, rel=0.01)
    assert height <= 1.0001 * least
    with balls.working_precision():
        game.prove_cap(Strategy.single(stop), 1.0001 * height)
        game.prove_floor(None, 0.9999 * height)
        with pytest.raises(bounds.WorkLimitError):
            game.prove_cap(Strategy.single(stop), 0.999 * height)
        with pytest.raises(bounds.WorkLimitError):
            game.prove_floor(None, 1.001 * height)


def test_a_claim_that_is_true_to_rounding_at_a_point_is_given_up():
    """The proof of this claim once went on forever."""
    game = heavy_ball._HeavyBallGame(5.0, 1.2)
    with balls.working_precision(), pytest.raises(bounds.WorkLimitError, match="double precision"):
        game.prove_cap(Strategy.single(0.7), 0.49)


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_cover_leaves_no_problem_out_and_finds_those_that_are_worse(adaptive):
    """The largest value is too small at first, and the cover finds the worst problem."""
    problems = heavy_ball._Problems(10.0, adaptive, 1e-3)
    worst = problems.worst()
    cover = problems.cover(0.3, 1.5, (0.1, 1.0), 6e-4)
    assert cover.value == pytest.approx(worst.value, rel=2e-3)
    assert heavy_ball._solution(problems, cover.worst).lower == cover.value
    cap = cover.value + 6e-4 * (1 + cover.value)
    assert all(heavy_ball.largest(claim) <= cap for claim in cover.claims)
    single = [claim[0] for claim in cover.claims if len(claim) == 1]
    assert min(game.a for game, _ in single) == 0.3
    assert max(game.a for game, _ in single) == 1.5


@pytest.mark.parametrize("a", [0.3, 1.0, 4.0])
def test_sums_are_convex_in_the_logarithm_of_the_parameter(a, rng):
    """This is why both ends of a cell of parameters are enough."""
    places = np.linspace(0, 3, 40)
    stops = rng.uniform(0.1, 4, 5)
    weights = rng.dirichlet(np.ones(5))

    def sums(log_a):
        return heavy_ball._HeavyBallGame(10.0, math.exp(log_a)).payoff(places, stops) @ weights

    low, high = math.log(a) - 0.7, math.log(a) + 0.4
    for share in (0.2, 0.5, 0.9):
        between = sums(share * low + (1 - share) * high)
        assert np.all(between <= share * sums(low) + (1 - share) * sums(high) + 1e-12)


def test_ends_that_are_too_far_apart_are_refused():
    with balls.working_precision():
        assert minimax.enclosure(0.5, 0.5001, 1.0, 1e-3) == bounds.Enclosure(1.5, 1.5001, 1.0)
        with pytest.raises(bounds.WorkLimitError, match="only known to lie"):
            minimax.enclosure(0.5, 0.51, 1.0, 1e-3)
