"""Certificates of heavy-ball flow: inflation by condition number, parameter error and variance.

With a = √(μ/λ*), α = √μ·t, c = √(s/μ - 1) and y = a·√(1 + c²), one problem a has the excess D² with
D = y·g - (1 - g)/y and g = exp(-α)·(cos cα + sin(cα)/c). The worst problem a > 0 is the constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from stoptime.bounds import balls, minimax
from stoptime.bounds.balls import Enclosure, arb, ball, exact, squared
from stoptime.bounds.filters import Cell
from stoptime.bounds.minimax import FlowGame, Solution, Square, Strategy, imbalance
from stoptime.methods.flows import HeavyBallFlow
from stoptime.support.arrays import Array
from stoptime.theory.search import lowest_between

STOP_OF_EQUAL_EIGENVALUES = 1.6783469900166608  # (1 + α)e^{-α} = 1/2: exact ridge at a = 1


@dataclass(frozen=True)
class _HeavyBallGame(FlowGame):
    """The game of one problem a: places are c = √(s/μ - 1), and stops are α."""

    kappa: float
    a: float

    @property
    def last_place(self) -> float:
        return math.sqrt(self.kappa - 1)

    @property
    def last_stop(self) -> float:
        """A stop from which on |g| ≤ (1 + α)·exp(-α) is negligible, also if multiplied by √κ."""
        return 20.0 + math.log(self.kappa)

    @cached_property
    def places(self) -> Array:  # type: ignore[override]
        return self.places_for(12.0)

    def places_for(self, stop: float) -> Array:
        points = np.clip(12 * self.last_place * stop, 65, 12_000)
        return np.linspace(0.0, self.last_place, int(points))

    @cached_property
    def stops(self) -> Array:  # type: ignore[override]
        first = 1e-3 / math.sqrt(self.kappa)
        decades = np.geomspace(first, self.last_stop, 1500)
        return np.union1d(decades, np.linspace(first, 12.0, len(self.places)))

    def to_stops(self, stops: Array) -> Array:
        return stops / self.a

    def to_eigenvalues(self, places: Array) -> Array:
        return self.a**2 * (1 + places**2)

    @property
    def searched_stops(self) -> Array:  # type: ignore[override]
        """Stops that resolve each oscillation, up to where it is negligible."""
        root = math.sqrt(self.kappa)
        decades = np.geomspace(1e-3 / root, self.last_stop, 600)
        return np.union1d(decades, np.linspace(0.0, 4.0, min(3000, math.ceil(8 * root)))[1:])

    def payoff(self, places: Array, stops: Array) -> Array:
        square = (1 + places**2)[:, None]
        y = self.a * np.sqrt(square)
        g = HeavyBallFlow(1.0).shrinkage(square, stops)
        return np.asarray(((y + 1 / y) * g - 1 / y) ** 2)

    def heights(self, stops: Array) -> Array:
        A, B, starts = _corners(self.kappa, tuple(stops.tolist()))
        return np.asarray(np.maximum.reduceat((self.a * A - B / self.a) ** 2, starts))

    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        cell = ball(place, radius)
        phase = stop * cell
        slopes = (-stop).exp() * stop * (stop * sinc_slope(phase) - phase.sin())
        centre = shrinkage(stop, stop * place)
        values = self.a * (1 + cell**2).sqrt()
        y = Cell(self.a * (1 + place**2).sqrt(), values, self.a**2 * cell / values)
        return imbalance(y, Cell(centre, ball(centre, abs(slopes) * radius), slopes))

    def over_stops(self, place: arb, stop: arb, radius: arb) -> Square:
        cell = ball(stop, radius)
        y = self.a * (1 + place**2).sqrt()
        slopes = -(1 + place**2) * cell * (-cell).exp() * (place * cell).sinc()
        centre = shrinkage(stop, place * stop)
        values = ball(centre, abs(slopes) * radius)
        return imbalance(Cell(y, y, exact(0)), Cell(centre, values, slopes))

    def unproven_places(self, mixture: Strategy, cap: arb) -> balls.Interval:  # noqa: ARG002 - no tail
        return 0.0, balls.upward((exact(self.kappa) - 1).sqrt())

    def place(self, point: float) -> arb:
        return exact(point).min((exact(self.kappa) - 1).sqrt())

    def late_floor(self, place: float) -> arb:
        alpha = exact(self.last_stop)
        # |g| ≤ (1 + α)·exp(-α) for every eigenvalue from μ on.
        y = exact(self.a) * (1 + self.place(place) ** 2).sqrt()
        return minimax.small_shrinkage_floor(y, (1 + alpha) * (-alpha).exp())


@lru_cache(maxsize=4)
def _corners(kappa: float, stops: tuple[float, ...]) -> tuple[Array, Array, NDArray[np.intp]]:
    """Return points A = y·g and B = (1 - g)/y of these stops, and where each stop begins.

    D = aA - B/a is linear in (A, B), so that a corner of the convex hull has its largest value.
    """
    found = []
    for alpha in stops:
        # Fifty places for each radian of the phase find a peak to a ten-thousandth of its height.
        places = np.clip(50 * alpha * math.sqrt(kappa - 1), 65, 20_000)
        c = np.linspace(0.0, math.sqrt(kappa - 1), int(places))
        y = np.sqrt(1 + c**2)
        g = np.exp(-alpha) * (np.cos(alpha * c) + alpha * np.sinc(alpha * c / np.pi))
        points = np.array([y * g, (1 - g) / y])
        # For few points a convex hull costs more than it saves.
        found.append(points if places < 200 else points[:, ConvexHull(points.T).vertices])
    starts = np.cumsum([0, *(points.shape[1] for points in found[:-1])])
    return *np.concatenate(found, axis=1), starts


Claim = tuple[tuple[_HeavyBallGame, Strategy], ...]
"""Games with mixtures: the mean of their sums is to be at most a cap at every place."""


def largest(claim: Claim) -> float:
    """Return the largest sum of a claim over all places, in floating point."""
    latest = max(max(mixture.points) for _, mixture in claim)
    return minimax.highest(claim, claim[0][0].places_for(latest))[1]


class Cover(NamedTuple):
    """The largest value of all problems, the problem with this value, and claims that prove it."""

    value: float
    worst: float
    claims: list[Claim]


@dataclass(frozen=True)
class _Problems:
    """All problems of a condition number, each with one stop, or the best one of each spectrum.

    A sum of squares Σ(aA - B/a)² is convex in log a, so that a mixture that is proven for two
    problems is proven for all between them.
    """

    kappa: float
    adaptive: bool
    tolerance: float

    def game(self, a: float) -> _HeavyBallGame:
        return _HeavyBallGame(self.kappa, a)

    def claims(self, low: float, high: float) -> tuple[list[float], list[Claim]]:
        """Return the problems that are answered, and claims for all problems between two."""
        # Let G₁ and G₂ be the sums of the two mixtures. A problem between, with the logarithm
        # (1 - θ)·log a₁ + θ·log a₂, takes shares 1 - θ and θ of them. As sums are convex in log a,
        # it has at most (1 - θ)²·G₁(a₁) + θ²·G₂(a₂) + θ(1 - θ)·(G₁(a₂) + G₂(a₁)).
        left, right = self.game(low), self.game(high)
        if not self.adaptive:
            middle = math.sqrt(low * high)
            mixture = _solution(self, middle).mixture
            return [middle], [((left, mixture),), ((right, mixture),)]
        first, last = _solution(self, low).mixture, _solution(self, high).mixture
        return [low, high], [((left, first),), ((right, last),), ((right, first), (left, last))]

    def cover(self, low: float, high: float, known: tuple[float, float], room: float) -> Cover:
        """Return claims that cover all problems between two, checked in floating point.

        Their cap exceeds the largest value of all answers by ``room``, relative to the ratio of
        risks. A value and its problem are ``known`` before.
        """
        worst = known
        waiting = [(low, high)]
        found: dict[Claim, None] = {}
        for _ in range(4000):
            first, last = waiting.pop()
            answered, claims = self.claims(first, last)
            # A worse problem than all before raises the cap, and claims that hold still hold.
            worst = max(worst, *((_solution(self, a).lower, a) for a in answered))
            cap = worst[0] + room * (1 + worst[0])
            if all(largest(claim) <= cap for claim in claims):
                found |= dict.fromkeys(claims)
            else:
                middle = math.sqrt(first * last)
                waiting += [(middle, last), (first, middle)]
            if not waiting:
                return Cover(*worst, list(found))
        raise balls.WorkLimitError(
            "The proof needs too many cells of problems: use a larger tolerance."
        )

    def worst(self) -> Cover:
        """Return the worst value of all problems, and claims that prove it up to a tolerance."""
        # A few problems give a first value. The stop 0 has D = y ≤ a√κ, and the limit of late stops
        # has |D| = 1/y ≤ 1/a: where these are below the value, no proof is needed. A value below
        # the tolerance is none.
        logs = np.linspace(-0.4, -0.1, 4) * math.log(self.kappa)
        answers = [(_solution(self, a).lower, a) for a in np.exp(logs).tolist()]
        known = max((0.1 * self.tolerance, 1.0), *answers)
        low = math.sqrt(known[0] / self.kappa)
        return self.cover(low, max(low, 1 / math.sqrt(known[0])), known, 0.6 * self.tolerance)


@lru_cache(maxsize=4096)
def _solution(problems: _Problems, a: float) -> Solution:
    game = problems.game(a)
    if problems.adaptive:
        return game.solved(game.places, game.stops, problems.tolerance / 4)
    stop, height = game.best_stop(problems.tolerance / 40)
    return Solution(Strategy.single(stop), Strategy.single(0.0), height, height)


def heavy_ball_inflation(kappa: float, adaptive: bool, tolerance: float) -> Enclosure:
    """Enclose the constant of a condition number to a relative tolerance."""
    # At 3000 an adaptive proof takes half a minute.
    if adaptive and kappa > 3000:
        raise balls.WorkLimitError(
            f"A proof for condition numbers above 3000 would take too long; got {kappa:g}. No "
            "ratio exceeds 1 + √κ."
        )
    if kappa == 1:
        # Some stop has exactly the shrinkage of ridge at the only eigenvalue.
        stop = STOP_OF_EQUAL_EIGENVALUES
        witnesses = (((stop, 1.0),), ((1.0, 1.0),)) if adaptive else ()
        return Enclosure(1.0, 1.0, stop, *witnesses)
    problems = _Problems(kappa, adaptive, tolerance)
    cover = problems.worst()
    cap = cover.value + 0.8 * tolerance * (1 + cover.value)
    for claim in cover.claims:
        minimax.prove_claim(claim, cap)
    game = problems.game(cover.worst)
    solution = _solution(problems, cover.worst)
    floor = solution.lower - 0.1 * tolerance * (1 + solution.lower)
    if floor > 0:
        game.prove_floor(solution.spectrum if adaptive else None, floor)
    found = minimax.enclosure(floor, cap, solution.mixture.heaviest / cover.worst, tolerance)
    if not adaptive:
        return found
    # The smallest eigenvalue fixes the damping, even if its share in the spectrum vanishes.
    spectrum = Strategy((0.0, *solution.spectrum.points), (0.0, *solution.spectrum.weights))
    return minimax.with_witnesses(found, game, solution.mixture, spectrum)


def estimated_heavy_ball(kappa: float, *, adaptive: bool, tolerance: float = 1e-3) -> float:
    """Return the constant of heavy-ball flow in floating point, without a proof."""
    return 1 + _Problems(kappa, adaptive, tolerance).worst().value if kappa > 1 else 1.0


def shrinkage(a: arb, b: arb) -> arb:
    """Return the shrinkage g = exp(-a)·(cos b + a·sin(b)/b)."""
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


def heavy_ball_error(calibration: float, tolerance: float, shift: int = 0) -> Enclosure:
    r"""Enclose the parameter error over all dampings, or with the shift 1 the ratio of variances.

    .. math:: C = \sup_{a, b \ge 0} (\mathrm{shift} + h(a, b))^2, \qquad
              h = c\,\varphi(a, b) - g(a, b)
    """
    c = exact(calibration)

    def values(box: balls.Box) -> arb:
        a, a_radius = balls.centre_and_radius(box[0])
        b, b_radius = balls.centre_and_radius(box[1])
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
        return squared(ball(shift + c * phi - g, variation))

    # At a = 0, b = π the value is 1 + 2c/π², and beyond u = 4 no value exceeds 1 + 2c/4².
    end = 4.0
    # The largest value is that of the origin, or it is attained without damping.
    peak = lowest_between(
        lambda b: math.cos(b) - calibration * (1 - math.cos(b)) / b**2, 0.5, end, 1e-9
    )
    attained = balls.downward(values(((0.0, 0.0), (peak, peak))))
    origin = balls.downward(squared(shift + c / 2 - 1))
    if origin > attained:
        peak = 0.0
        attained = origin
    cap = minimax.slightly_above(attained, tolerance)
    if not (shift + 1 + 2 * c / exact(end) ** 2) ** 2 <= exact(cap):
        raise balls.WorkLimitError("Not proven: nothing is larger where learning ends.")
    balls.verify(lambda box: bool(values(box) <= exact(cap)), ((0.0, end),) * 2)
    return Enclosure(attained, cap, peak)
