r"""Certificates of heavy-ball flow: inflation by condition number, parameter error and variance.

With a = √(μ/λ*), α = √μ·t and y = √(s/μ) in [1, √κ], the excess of one problem a is D², where

.. math:: D = a y\,g - \frac{1 - g}{a y}, \qquad
          g = e^{-\alpha}\Bigl(\cos c\alpha + \frac{\sin c\alpha}{c}\Bigr), \quad c^2 = y^2 - 1.

The constant of a condition number κ is the worst value of all problems a > 0; a stop may depend on
a. Where it may also depend on the whole spectrum, let G₁ and G₂ be the mean squares of the mixtures
of two problems a₁ < a₂. A problem between them, log a = (1 - θ)·log a₁ + θ·log a₂, takes shares
1 - θ and θ of the two. As each sum is convex in log a, its excess is at most

.. math:: (1-\theta)^2\,G_1(a_1) + \theta^2\,G_2(a_2)
          + 2\theta(1-\theta)\,\frac{G_1(a_2) + G_2(a_1)}{2},

so that three inequalities prove a cap for all problems between the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    AdaptiveEnclosure, Box, Bracket, Enclosure, Interval, WorkLimitError, arb, ball, bracket_square,
    centre_and_radius, downward, exact, supremum, upward,
)  # fmt: skip
from stoptime.bounds.flows import floor_of_small_shrinkage

from stoptime.bounds.minimax import (  # isort: skip
    Claim, Family, Game, Solution, Square, Strategy, WorseParameter, corners, enclosure, largest,
    mean_of_squares, prove_at_most, solve_with_few_points,
)  # fmt: skip
from stoptime.methods.flows import HeavyBallFlow
from stoptime.support.arrays import Array
from stoptime.theory.search import lowest_between

STOP_OF_EQUAL_EIGENVALUES = 1.6783469900166608  # (1 + α)e^{-α} = 1/2: exact ridge at a = 1


@dataclass(frozen=True)
class HeavyBallGame(Game):
    """The game of one problem a: places are c = √(y² - 1), and stops are α."""

    kappa: float
    a: float

    @property
    def last_place(self) -> float:
        """The place of the largest eigenvalue."""
        return math.sqrt(self.kappa - 1)

    @property
    def last_stop(self) -> float:
        """A stop from which on |g| ≤ (1 + α)·exp(-α) is negligible, also if multiplied by √κ."""
        return 20.0 + math.log(self.kappa)

    @cached_property
    def places(self) -> Array:  # type: ignore[override]
        """A fine grid of places; later oscillations are negligible."""
        return self.places_for(12.0)

    def places_for(self, stop: float) -> Array:
        """Return places that resolve the phase cα: twelve points for each radian."""
        points = np.clip(12 * self.last_place * stop, 65, 12_000)
        return np.linspace(0.0, self.last_place, int(points))

    @cached_property
    def stops(self) -> Array:  # type: ignore[override]
        """A fine grid of stops."""
        first = 1e-3 / math.sqrt(self.kappa)
        decades = np.geomspace(first, self.last_stop, 1500)
        return np.union1d(decades, np.linspace(first, 12.0, len(self.places)))

    @property
    def searched_stops(self) -> Array:
        """Stops that resolve each oscillation, up to where it is negligible."""
        root = math.sqrt(self.kappa)
        decades = np.geomspace(1e-3 / root, self.last_stop, 600)
        return np.union1d(decades, np.linspace(0.0, 4.0, min(3000, math.ceil(8 * root)))[1:])

    def payoff(self, places: Array, stops: Array) -> Array:
        """Return D² in floating point."""
        square = (1 + places**2)[:, None]
        y = self.a * np.sqrt(square)
        g = HeavyBallFlow(1.0).shrinkage(square, stops)
        return np.asarray(((y + 1 / y) * g - 1 / y) ** 2)

    def heights(self, stops: Array) -> Array:
        """Return the largest D² at many stops, from points that serve all problems."""
        return largest(points_of_stops(self.kappa, tuple(stops.tolist())), self.a) ** 2

    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        """Return D at one stop on a cell of places."""
        cell = ball(place, radius)
        y = self.a * (1 + place**2).sqrt()
        y_cell = self.a * (1 + cell**2).sqrt()
        phase = stop * cell
        g_slope = (-stop).exp() * stop * (stop * sinc_slope(phase) - phase.sin())
        centre = shrinkage(stop, stop * place)
        g = ball(centre, abs(g_slope) * radius)
        # The logarithm of y has the slope c/(1 + c²).
        growth = cell / (1 + cell**2) * (y_cell * g + (1 - g) / y_cell)
        return Square(y * centre - (1 - centre) / y, growth + (y_cell + 1 / y_cell) * g_slope)

    def over_stops(self, place: arb, stop: arb, radius: arb) -> Square:
        """Return D at one place on a cell of stops."""
        cell = ball(stop, radius)
        y = self.a * (1 + place**2).sqrt()
        slope = -(1 + place**2) * cell * (-cell).exp() * (place * cell).sinc()
        centre = shrinkage(stop, place * stop)
        return Square(y * centre - (1 - centre) / y, (y + 1 / y) * slope)

    def unproven_places(self, mixture: Strategy, cap: arb) -> Interval:  # noqa: ARG002 - no tail
        """Return all places: the last one is rounded up."""
        return 0.0, upward((exact(self.kappa) - 1).sqrt())

    def place(self, point: float) -> arb:
        """Return a place; one beyond the last, by rounding, is moved to it."""
        return exact(point).min((exact(self.kappa) - 1).sqrt())

    def late_floor(self, place: float) -> arb:
        """Return a floor under D² at one place, for all stops from ``last_stop`` on."""
        alpha = exact(self.last_stop)
        y = exact(self.a) * (1 + self.place(place) ** 2).sqrt()
        # |g| ≤ (1 + α)·exp(-α) for every y ≥ 1.
        return floor_of_small_shrinkage(y, (1 + alpha) * (-alpha).exp())


@lru_cache(maxsize=4)
def points_of_stops(kappa: float, stops: tuple[float, ...]) -> list[Array]:
    """Return the points A = y·g and B = (1 - g)/y that each of these stops can produce."""
    rows = []
    for alpha in stops:
        # Fifty places for each radian of the phase find a peak to a ten-thousandth of its height.
        count = np.clip(50 * alpha * math.sqrt(kappa - 1), 65, 20_000)
        c = np.linspace(0.0, math.sqrt(kappa - 1), int(count))
        y = np.sqrt(1 + c**2)
        g = np.exp(-alpha) * (np.cos(alpha * c) + alpha * np.sinc(alpha * c / np.pi))
        rows.append(corners(np.array([y * g, (1 - g) / y])))
    return rows


@dataclass(frozen=True)
class Problems(Family):
    """All problems of a condition number, each with one stop for all its spectra."""

    kappa: float
    width: float
    """To which the logarithms of stops are searched, or values of games solved."""
    step: ClassVar[float] = 0.02
    """The distance of problems at which values are estimated first."""

    def game(self, a: float) -> HeavyBallGame:
        """Return the game of one problem."""
        return HeavyBallGame(self.kappa, a)

    def answer(self, a: float) -> tuple[Strategy, float]:
        """Return the best stop, and its largest excess."""
        stop, height = _best_stop(self, a)
        return Strategy.single(stop), height

    def estimate(self, a: float) -> float:
        """Return the value of one problem up to the distance of the searched stops."""
        game = self.game(a)
        return float(game.heights(game.searched_stops).min())

    def highest(self, claim: Claim) -> float:
        """Return the largest mean of the excess in a claim."""
        ((a, mixture),) = claim
        return self.game(a).highest(mixture)

    def floor(self, a: float) -> tuple[Strategy | None, float]:
        """Return the spectrum that proves a lower end, None for a place by stop, and this end."""
        return None, self.answer(a)[1]

    def worst_problem(self, tolerance: float) -> float:
        """Return the problem with the largest value, unless all values are below a tolerance."""
        # The stop 0 has D² ≤ a²κ, and the limit of late stops has D² ≤ 1/a²: where one of them is
        # below the value of another problem, the worst one is not.
        least = max(self.estimate(self.kappa**-0.25), tolerance, 1e-6)
        low, high = math.sqrt(least / self.kappa), 1 / math.sqrt(least)
        return self.worst(low, high, tolerance / 10, self.step)

    def prove_cap(self, cap: float, room: float) -> None:
        """Prove that every problem a > 0 has a mixture with at most this excess at all places."""
        # The stop 0 has D = ay ≤ a√κ, and the limit of late stops has |D| = 1/ay ≤ 1/a: the others
        # need a proof.
        low = downward((exact(cap) / exact(self.kappa)).sqrt())
        high = upward(1 / exact(cap).sqrt())
        if low < high:
            for claim in self.cover(low, high, cap - room):
                self._prove(claim, exact(cap))

    def _prove(self, claim: Claim, cap: arb) -> None:
        """Prove that the mean of some sums of squares is at most the cap at all places."""
        parts = [
            (self.game(a), exact(stop), share / len(claim))
            for a, mixture in claim
            for stop, share in zip(mixture.points, mixture.shares, strict=True)
        ]
        shares = [share for _, _, share in parts]

        def sum_in(place: arb, radius: arb) -> arb:
            squares = [game.over_places(stop, place, radius) for game, stop, _ in parts]
            return mean_of_squares(shares, squares, radius)

        prove_at_most(sum_in, parts[0][0].unproven_places(claim[0][1], cap), cap)


@lru_cache(maxsize=4096)
def _best_stop(problems: Problems, a: float) -> tuple[float, float]:
    return problems.game(a).best_stop(problems.width)


@dataclass(frozen=True)
class AdaptiveProblems(Problems):
    """All problems of a condition number, each with the best stop of each spectrum."""

    step: ClassVar[float] = 0.15  # because every estimate solves a game

    def answer(self, a: float) -> tuple[Strategy, float]:
        """Return the best mixture, and the value that its spectrum proves."""
        found = _solution(self, a)
        return found.mixture, found.lower

    def estimate(self, a: float) -> float:
        """Return the value of one problem."""
        return self.answer(a)[1]

    def highest(self, claim: Claim) -> float:
        """Return the largest mean of the excess in a claim."""
        places = self.game(1.0).places
        sums = [
            mixture.mean(self.game(a).payoff(places, np.array(mixture.points)))
            for a, mixture in claim
        ]
        return float(np.mean(sums, axis=0).max())

    def floor(self, a: float) -> tuple[Strategy | None, float]:
        """Return the worst spectrum, and the excess that all stops have on it."""
        found = _solution(self, a)
        return found.spectrum, found.lower

    def claims(self, low: float, high: float, cap: float) -> list[Claim]:
        """Return the three inequalities of the module's introduction."""
        first = self.good_answer(low, cap)
        last = self.good_answer(high, cap)
        return [((low, first),), ((high, last),), ((high, first), (low, last))]


@lru_cache(maxsize=1024)
def _solution(problems: AdaptiveProblems, a: float) -> Solution:
    game = problems.game(a)
    return solve_with_few_points(game, game.places, game.stops, problems.width)


def heavy_ball_inflation(kappa: float, tolerance: float) -> Enclosure:
    """Enclose the constant with one stop for each problem, to a relative tolerance."""
    if kappa == 1:
        # Some stop has exactly the shrinkage of ridge at the only eigenvalue.
        return Enclosure(1.0, 1.0, STOP_OF_EQUAL_EIGENVALUES)
    problems = Problems(kappa, tolerance / 40)
    worst, floor, cap = _prove(problems, tolerance)
    stop = problems.answer(worst)[0].points[0] / worst
    return enclosure(floor, cap, stop, tolerance)


def heavy_ball_ratio(kappa: float, tolerance: float) -> Enclosure:
    """Enclose the constant with the best stop of each spectrum, to a relative tolerance."""
    # At 2000 a proof takes about a minute, and the time grows faster than κ.
    if kappa > 2000:
        raise WorkLimitError(
            f"A proof for condition numbers above 2000 would take too long; got {kappa:g}. No "
            "ratio exceeds 1 + √κ."
        )
    if kappa == 1:
        stop = STOP_OF_EQUAL_EIGENVALUES
        return AdaptiveEnclosure(1.0, 1.0, stop, ((stop, 1.0),), ((1.0, 1.0),))
    problems = AdaptiveProblems(kappa, tolerance / 4)
    worst, floor, cap = _prove(problems, tolerance)
    found = _solution(problems, worst)
    stops, weights = np.array(found.mixture)
    mixture = Strategy.of(stops / worst, weights)
    # The smallest eigenvalue fixes the damping, even if its share in the spectrum vanishes.
    places, shares = np.array(found.spectrum)
    eigenvalues = worst**2 * (1 + np.append(0.0, places) ** 2)
    spectrum = Strategy.of(eigenvalues, np.append(0.0, shares))
    stop = mixture.points[int(weights.argmax())]
    return enclosure(floor, cap, stop, tolerance, Solution(mixture, spectrum, floor, cap))


def estimated_heavy_ball(kappa: float, *, adaptive: bool, tolerance: float = 1e-3) -> float:
    """Return the constant of heavy-ball flow in floating point, without a proof."""
    if kappa == 1:
        return 1.0
    problems = (
        AdaptiveProblems(kappa, tolerance / 4) if adaptive else Problems(kappa, tolerance / 40)
    )
    return 1 + problems.answer(problems.worst_problem(tolerance))[1]


def _prove(problems: Problems, tolerance: float) -> tuple[float, float, float]:
    """Return the worst problem, and a proven floor and cap of the excess."""
    worst = problems.worst_problem(tolerance)
    for _ in range(10):
        spectrum, value = problems.floor(worst)
        room = tolerance * (1 + value)
        floor = value - 0.1 * room
        cap = max(floor, 0.0) + 0.9 * room
        try:
            problems.prove_cap(cap, 0.2 * room)
        except WorseParameter as worse:
            # The search has missed a maximum, which the cover has found.
            worst = problems.worst_near(worse.a, tolerance / 10, problems.step / 4)
        else:
            break
    else:
        raise WorkLimitError(f"The worst of all problems was not found for {problems}.")
    if floor > 0:
        problems.game(worst).prove_floor(spectrum, floor)
    return worst, floor, cap


def shrinkage(a: arb, b: arb) -> arb:
    """Return g(a, b)."""
    return (-a).exp() * (b.cos() + a * b.sinc())


def sinc_slope(b: arb) -> arb:
    """Return (cos b - sinc b)/b, the derivative of sinc, for b ≥ 0."""
    if b > 1:
        return (b.cos() - b.sinc()) / b
    # The quotient would divide by a ball around zero; the series is accurate on a short ball.
    if b < 2:
        return -b / 3 * (-b * b / 4).hypgeom_0f1(exact(5) / 2)
    # The ball is too wide for both; |sinc'| ≤ 1/2 holds everywhere.
    return ball(0, 0.5)


def heavy_ball_error(calibration: float, tolerance: float) -> Enclosure:
    """Enclose the parameter error of heavy-ball flow over all dampings."""
    return _distance(calibration, tolerance, 0)


def heavy_ball_variance(tolerance: float) -> Enclosure:
    """Enclose the largest variance over that of ridge with λ = 1/t², over all dampings."""
    return _distance(1.0, tolerance, 1)


def _distance(calibration: float, tolerance: float, shift: int) -> Enclosure:
    r"""Enclose a supremum over all dampings.

    .. math:: C = \sup_{a, b \ge 0} (\mathrm{shift} + h(a, b))^2, \qquad
              h = c\,\varphi(a, b) - g(a, b)
    """
    c = exact(calibration)
    # At a = 0, b = π the value is 1 + 2c/π², and beyond u = 4 no value exceeds 1 + 2c/4².
    horizon = 4.0

    def bracket(box: Box) -> Bracket:
        a, a_radius = centre_and_radius(box[0])
        b, b_radius = centre_and_radius(box[1])
        u_squared = a**2 + b**2
        g = shrinkage(a, b)
        phi = (1 - g) / u_squared
        # Taylor's formula to second order. Caps on the second derivatives: of φ 1/4, 1/8, 1/12
        # (aa, ab, bb), of g 3, 3/2, 1.
        variation = (c / 8 + exact(1.5)) * a_radius * b_radius
        for x, radius, undamped, curvature in (
            (a, a_radius, (1 - a) * b.sinc() - b.cos(), c / 4 + 3),
            (b, b_radius, a * sinc_slope(b) - b.sin(), c / 12 + 1),
        ):
            g_slope = (-a).exp() * undamped
            slope = c * (g_slope + 2 * x * phi) / u_squared + g_slope
            variation += abs(slope) * radius + curvature * radius**2 / 2
        return bracket_square(box, shift + c * phi - g, variation)

    origin = bracket_square(((0.0, 0.0), (0.0, 0.0)), shift + c / 2 - 1, exact(0))
    # Without damping h is largest; its peak, found in floating point, is a good first value.
    peak = lowest_between(
        lambda b: math.cos(b) - calibration * (1 - math.cos(b)) / b**2, 0.5, horizon, 1e-5
    )
    undamped = bracket(((0.0, 0.0), (peak, peak)))
    best = max(origin, undamped, key=lambda found: found.attained)
    beyond = (shift + 1 + 2 * c / exact(horizon) ** 2) ** 2
    known = best._replace(cap=upward(beyond))
    error = supremum(bracket, ((0.0, horizon),) * 2, known=known, tolerance=tolerance)
    a, b = (sum(side) / 2 for side in error.box)
    return Enclosure(error.attained, error.cap, math.hypot(a, b))
