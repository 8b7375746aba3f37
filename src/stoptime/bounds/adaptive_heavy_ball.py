r"""The ratio of the paper's theorem for heavy-ball flow, for a given condition number.

With a = √(μ/λ*), α = √μ·t and y = √(s/μ) in [1, √κ] the excess at one problem a is D², where

.. math:: D = a Y_1 - Y_2/a, \qquad Y_1 = y\,g, \quad Y_2 = (1 - g)/y.

For a mixture of stops, Σ ν D² = a²P - 2Q + R/a² with P, R ≥ 0 is convex in log a. So let G₁ and G₂
be these sums for the mixtures of two problems a₁ < a₂, of which a problem between them takes shares
1 - θ and θ, log a = (1 - θ)·log a₁ + θ·log a₂. Its excess is at most

.. math:: (1-\theta)^2\,G_1(a_1) + \theta^2\,G_2(a_2)
          + 2\theta(1-\theta)\,\frac{G_1(a_2) + G_2(a_1)}{2},

so that three inequalities prove a cap for all problems between the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stoptime.bounds.adaptive import (  # isort: skip
    GAME_SHARE, ROOM_SHARE, Square, enclosure, late_floor, prove_everywhere, shares, weighted,
    weighted_squares,
)  # fmt: skip
from stoptime.bounds.balls import (
    AdaptiveEnclosure,
    WorkLimitError,
    arb,
    ball,
    downward,
    exact,
    upward,
)
from stoptime.bounds.games import Solution, Strategy, fewer_points, solve
from stoptime.bounds.heavy_ball import STOP_OF_EQUAL_EIGENVALUES, shrinkage, sinc_slope
from stoptime.methods.flows import HeavyBallFlow
from stoptime.support.arrays import Array
from stoptime.theory.search import lowest_between

LAST_STOP = 12.0  # α; later |g| ≤ (1 + α)·exp(-α) is below 1e-4


class WorseProblem(Exception):  # noqa: N818 - it is news, and not an error
    """A problem has a larger value than the one that was thought to be the worst."""

    def __init__(self, log_a: float) -> None:
        super().__init__(log_a)
        self.log_a = log_a


def heavy_ball_ratio(kappa: float, tolerance: float) -> AdaptiveEnclosure:
    """Enclose the ratio for all spectra of condition number κ, to a relative tolerance."""
    # At 2000 a proof takes about a minute, and the time grows faster than κ.
    if kappa > 2000:
        raise WorkLimitError(
            f"A proof for condition numbers above 2000 would take too long; got {kappa:g}. No "
            "ratio exceeds 1 + √κ."
        )
    if kappa == 1:
        # Some stop has exactly the shrinkage of ridge at the only eigenvalue.
        stop = STOP_OF_EQUAL_EIGENVALUES
        return AdaptiveEnclosure(1.0, 1.0, stop, ((stop, 1.0),), ((1.0, 1.0),))
    game = HeavyBallGame(kappa)
    worst, found = game.worst_problem(tolerance)
    for _ in range(10):
        room = tolerance * (1 + found.upper)
        floor = max(0.0, found.lower - ROOM_SHARE * room)
        cap = floor + (1 - ROOM_SHARE) * room
        try:
            game.prove_cap(cap, tolerance)
        except WorseProblem as worse:
            # The search has missed a maximum, which the cover has found.
            worst, found = game.worst_near(worse.log_a, 0.05, tolerance)
        else:
            break
    else:
        raise WorkLimitError(f"The worst problem of condition number {kappa:g} was not found.")
    if floor > 0:
        game.prove_floor(worst, found.spectrum, floor)
    mixture = found.mixture._replace(points=found.mixture.points / worst)
    # The smallest eigenvalue fixes the damping, even if its share in the spectrum vanishes.
    places = np.append(0.0, found.spectrum.points)
    weights = np.append(0.0, found.spectrum.weights)
    return enclosure(floor, cap, mixture, Strategy(worst**2 * (1 + places**2), weights))


@dataclass(frozen=True)
class HeavyBallGame:
    """The games of all problems a: places are c = √(y² - 1), and stops are α."""

    kappa: float

    @property
    def last_place(self) -> float:
        """The c of the largest eigenvalue."""
        return math.sqrt(self.kappa - 1)

    @property
    def places(self) -> Array:
        """A fine grid of places."""
        return np.linspace(0.0, self.last_place, self._points)

    @property
    def stops(self) -> Array:
        """A fine grid of stops."""
        first = 1e-3 / math.sqrt(self.kappa)
        decades = np.geomspace(first, LAST_STOP, 1500)
        return np.union1d(decades, np.linspace(first, LAST_STOP, self._points))

    @property
    def _points(self) -> int:
        # Twelve points for each radian of the phase cα resolve every oscillation.
        return int(np.clip(12 * self.last_place * LAST_STOP, 1500, 12_000))

    def payoff(self, a: float, c: Array, alpha: Array) -> Array:
        """Return D² in floating point."""
        x = a * np.sqrt(1 + c**2)[:, None]
        g = HeavyBallFlow(1.0).shrinkage((1 + c**2)[:, None], alpha)
        return np.asarray(((x + 1 / x) * g - 1 / x) ** 2)

    def solved(self, a: float, tolerance: float) -> Solution:
        """Solve the game of one problem."""

        def payoff(c: Array, alpha: Array) -> Array:
            return self.payoff(a, c, alpha)

        found = solve(payoff, self.places, self.stops, tolerance)
        return fewer_points(payoff, found, self.places, self.stops)

    def worst_problem(self, tolerance: float) -> tuple[float, Solution]:
        """Return the problem with the largest value, found by a search, and its solution."""
        # For large a the limit of late stops has D² ≤ 1/a², so the worst problem is not beyond the
        # point where 1/a² is below a value that was found.
        step = 0.15
        logs = [-0.5 * math.log(self.kappa)]
        values = [self._value(logs[0], tolerance)]
        while math.exp(-2 * logs[-1]) > max(*values, tolerance):
            logs.append(logs[-1] + step)
            values.append(self._value(logs[-1], tolerance))
        return self.worst_near(logs[int(np.argmax(values))], step, tolerance)

    def worst_near(self, log_a: float, step: float, tolerance: float) -> tuple[float, Solution]:
        """Return the worst problem within a step, and its solution."""
        # At the worst problem two different mixtures may meet in a kink.
        found = lowest_between(
            lambda at: -self._value(at, tolerance), log_a - step, log_a + step, tolerance
        )
        worst = max((found, log_a), key=lambda at: self._value(at, tolerance))
        return math.exp(worst), self.solved(math.exp(worst), GAME_SHARE * tolerance)

    def _value(self, log_a: float, tolerance: float) -> float:
        return self.solved(math.exp(log_a), GAME_SHARE * tolerance).lower

    def prove_cap(self, cap: float, tolerance: float) -> None:
        """Prove that every problem a > 0 has a mixture with at most this excess at all places."""
        level = exact(cap)
        # The stop 0 has D = ay ≤ a√κ, and the limit of late stops has |D| = 1/ay ≤ 1/a.
        first = downward((level / self.kappa).sqrt())
        last = upward(1 / level.sqrt())
        if first >= last:
            return
        cover = self._cover(first, last, cap, tolerance)
        for a, mixture in cover:
            self._prove(level, [(a, mixture)])
        for (a1, first_mixture), (a2, second_mixture) in pairwise(cover):
            self._prove(level, [(a2, first_mixture), (a1, second_mixture)])

    def _cover(
        self, first: float, last: float, cap: float, tolerance: float
    ) -> list[tuple[float, Strategy]]:
        """Return problems with their mixtures, so close that both sums are below the cap."""
        target = cap - ROOM_SHARE * tolerance * (1 + cap)
        places = self.places
        waiting = np.geomspace(first, last, 8).tolist()[::-1]
        waiting[0] = last
        waiting[-1] = first
        cover: list[tuple[float, Strategy]] = []
        for _ in range(400):  # a few dozens suffice as a rule
            if not waiting:
                return cover
            a = waiting[-1]
            found = self.solved(a, GAME_SHARE * tolerance)
            if found.lower > target:
                raise WorseProblem(math.log(a))
            mixture = found.mixture
            if cover and not self._close(cover[-1], (a, mixture), places, target):
                waiting.append(math.sqrt(a * cover[-1][0]))
                continue
            cover.append((a, mixture))
            waiting.pop()
        raise WorkLimitError(
            f"The proof for condition number {self.kappa:g} needs too many problems: use a larger "
            "tolerance."
        )

    def _close(
        self,
        one: tuple[float, Strategy],
        other: tuple[float, Strategy],
        places: Array,
        target: float,
    ) -> bool:
        """Whether the mean of both crossed sums stays below the target, in floating point."""
        crossed = self._risks(one[0], other[1], places) + self._risks(other[0], one[1], places)
        return bool(crossed.max() / 2 <= target)

    def _risks(self, a: float, mixture: Strategy, places: Array) -> Array:
        return np.asarray(self.payoff(a, places, mixture.points) @ mixture.weights)

    def _prove(self, level: arb, parts: list[tuple[float, Strategy]]) -> None:
        """Prove that the mean of some sums of squares is at most the level at all places."""
        weights = [share / len(parts) for _, mixture in parts for share in shares(mixture)]

        def sum_in(c: arb, radius: arb) -> arb:
            squares = [
                square
                for a, mixture in parts
                for square in _over_places(exact(a), mixture.points.tolist(), c, radius)
            ]
            return weighted_squares(weights, squares, radius)

        prove_everywhere(sum_in, (0.0, upward((exact(self.kappa) - 1).sqrt())), level)

    def prove_floor(self, a: float, spectrum: Strategy, floor: float) -> None:
        """Prove that the spectrum has at least this excess at every stop α ≥ 0."""
        weights = shares(spectrum)
        level = exact(floor)
        # A place beyond the last one, by rounding, is moved to it.
        last = (exact(self.kappa) - 1).sqrt()
        places = [exact(c).min(last) for c in spectrum.points.tolist()]
        scales = [exact(a) * (1 + c**2).sqrt() for c in places]
        late = (1 + exact(LAST_STOP)) * (-exact(LAST_STOP)).exp()
        if not weighted(weights, [late_floor(y, late) for y in scales]) >= level:
            raise WorkLimitError("Not proven: no late stop is better on the worst spectrum.")

        def minus_sum_in(alpha: arb, radius: arb) -> arb:
            squares = [
                _over_stops(c, y, alpha, radius) for c, y in zip(places, scales, strict=True)
            ]
            return -weighted_squares(weights, squares, radius)

        prove_everywhere(minus_sum_in, (0.0, LAST_STOP), -level)


def _over_places(a: arb, stops: list[float], c: arb, radius: arb) -> list[Square]:
    """Return D at some stops on a cell of places c."""
    cell = ball(c, radius)
    y = (1 + c**2).sqrt()
    x = a * y
    x_cell = a * (1 + cell**2).sqrt()
    # The logarithm of y has the slope c/(1 + c²).
    turn = cell / (1 + cell**2)
    squares = []
    for stop in stops:
        alpha = exact(stop)
        phase = alpha * cell
        g_slope = (-alpha).exp() * alpha * (alpha * sinc_slope(phase) - phase.sin())
        centre = shrinkage(alpha, alpha * c)
        g = ball(centre, abs(g_slope) * radius)
        d_slope = turn * (x_cell * g + (1 - g) / x_cell) + (x_cell + 1 / x_cell) * g_slope
        squares.append(Square.within(x * centre - (1 - centre) / x, d_slope, radius))
    return squares


def _over_stops(c: arb, x: arb, alpha: arb, radius: arb) -> Square:
    """Return D at one place on a cell of stops α, with x = a·√(1 + c²)."""
    cell = ball(alpha, radius)
    slope = -(1 + c**2) * cell * (-cell).exp() * (c * cell).sinc()
    centre = shrinkage(alpha, c * alpha)
    return Square.within(x * centre - (1 - centre) / x, (x + 1 / x) * slope, radius)
