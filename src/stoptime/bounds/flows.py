r"""Certificates of the methods whose shrinkage has one variable: all but heavy-ball flow.

With u = σy, y² = s/λ*, the excess over the risk of ridge is D², D = y·g(u) - (1 - g(u))/y, where σ
is the dimensionless stop τ, or its root where stops scale like 1/λ. The parameter error is the
supremum of h², h = c·φ - g, φ = (1 - g)/u². The page *Certificates* has all proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    Box, Bracket, BracketOf, Enclosure, Interval, Tail, WorkLimitError, arb, ball, bracket_square,
    centre_and_radius, downward, exact, largest_on_ray,
)  # fmt: skip
from stoptime.bounds.filters import Cell, Shape

from stoptime.bounds.minimax import (  # isort: skip
    Game, Solution, Square, Strategy, enclosure, imbalance, small_shrinkage_floor,
    solve_with_few_points,
)  # fmt: skip
from stoptime.support.arrays import Array


def unit_of(shape: Shape) -> float:
    """Return the u, or the scale σ at y = 1, at which learning begins."""
    return 1 / math.sqrt(float(shape.gain_cap))


@dataclass(frozen=True)
class _FlowGame(Game):
    """The game of a flow: places are y = √(s/λ*), and stops are the scales σ of u = σy.

    All places from ``last_place`` on count as one, with a cap on D² that holds for all of them;
    all stops from ``last_stop`` on, in units of the scale where learning begins, have a floor.
    """

    shape: Shape
    last_place: float = 8.0
    last_stop: float = 12.0
    points: int = 500
    """How many points each of the two parts of both grids has."""

    @cached_property
    def places(self) -> Array:  # type: ignore[override]
        return self._grid(1.0, self.last_place)

    @cached_property
    def stops(self) -> Array:  # type: ignore[override]
        return self._grid(unit_of(self.shape), self.last_stop)

    def _grid(self, unit: float, last: float) -> Array:
        # even in decades at first, and even in phase later
        decades = np.geomspace(0.02, last, self.points)
        even = np.linspace(0.02, last, self.points)
        return np.append(unit * np.union1d(decades, even), np.inf)

    @property
    def searched_stops(self) -> Array:
        """A part of the stops: the largest D² changes slowly with the stop."""
        return self.stops[:-1:10]

    def payoff(self, places: Array, stops: Array) -> Array:
        inner = np.isfinite(places)
        early = np.isfinite(stops)
        y = places[inner]
        out = np.zeros((len(places), len(stops)))
        g = self.shape.in_floats(np.multiply.outer(y, stops[early]))
        out[np.ix_(inner, early)] = (y[:, None] * g - (1 - g) / y[:, None]) ** 2
        if not inner.all():
            g = self._tails(stops[early] * self.last_place)
            out[np.ix_(~inner, early)] = (self.last_place * g + (1 + g) / self.last_place) ** 2
        if not early.all():
            g = self._tails(y * self.stops[-2])
            out[np.ix_(inner, ~early)] = np.maximum((1 - g) / y - y * g, 0.0)[:, None] ** 2
        return out

    def _tails(self, start: Array) -> Array:
        known = start >= self.shape.tail_start
        somewhere = 2 * self.shape.tail_start
        return np.where(known, self.shape.tail_in_floats(np.where(known, start, somewhere)), 1.0)

    def _tail(self, start: float) -> arb:
        # The product of two numbers was rounded: one below it is certainly not beyond it.
        start = math.nextafter(start, 0.0)
        return self.shape.tail(start) if start >= self.shape.tail_start else exact(1)

    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        g = self.shape.cell(stop * place, stop * radius)
        return imbalance(
            Cell(place, ball(place, radius), exact(1)), g._replace(slopes=stop * g.slopes)
        )

    def over_stops(self, place: arb, stop: arb, radius: arb) -> Square:
        g = self.shape.cell(place * stop, place * radius)
        return imbalance(Cell(place, place, exact(0)), g._replace(slopes=place * g.slopes))

    def unproven_places(self, mixture: Strategy, cap: arb) -> Interval:
        # |g| and y·|g| have caps that fall with y.
        y = exact(self.last_place)
        tails = [self._tail(sigma * self.last_place) for sigma in mixture.points]
        if not mixture.total([(y * g + (1 + g) / y) ** 2 for g in tails]) <= cap:
            raise WorkLimitError("Not proven: the mixture of stops is good at large eigenvalues.")
        # Near zero |D| = y·|g - φ| ≤ y·(1 + φ), with the gain φ in units of the penalty.
        gains = [exact(sigma) ** 2 * self.shape.gain_cap for sigma in mixture.points]
        steepest = mixture.total([(1 + gain) ** 2 for gain in gains])
        return min(downward((cap / steepest).sqrt()), self.last_place), self.last_place

    def late_floor(self, place: float) -> arb:
        return small_shrinkage_floor(exact(place), self._tail(place * float(self.stops[-2])))


def flow_inflation(shape: Shape, stop: float | None, tolerance: float) -> Enclosure:
    """Enclose the largest inflation over all x ≥ 0: at one stop, or by default at the best stop."""
    power = 2 // shape.order
    if stop is not None:
        found = largest_at(shape, stop ** (1 / power), tolerance / 2)
        return enclosure(found.attained, found.cap, stop, tolerance)
    game = _FlowGame(shape)
    sigma, _ = game.best_stop(1e-12)
    found = largest_at(shape, sigma, tolerance / 4)
    floor = found.attained - tolerance / 4
    game.prove_floor(None, floor)
    return enclosure(floor, found.cap, sigma**power, tolerance)


def largest_at(shape: Shape, scale: float, tolerance: float) -> Bracket:
    """Enclose the largest excess D² over all places, at one scale σ."""
    sigma = exact(scale)
    steepest = (1 + sigma**2 * shape.gain_cap) / sigma

    def bracket(box: Box) -> Bracket:
        u, radius = centre_and_radius(box[0])
        y = Cell(u / sigma, ball(u, radius) / sigma, 1 / sigma)
        found = imbalance(y, shape.cell(u, radius))
        return bracket_square(box, found.centre, abs(found.slope) * radius)

    def tail(start: float) -> arb:
        g = shape.tail(start)
        return (start * g / sigma + sigma * (1 + g) / start) ** 2

    return largest_on_ray(
        bracket,
        tail,
        unit=unit_of(shape),
        start=shape.tail_start,
        tolerance=tolerance,
        # Near zero |D| = y·|g - φ| ≤ y·(1 + φ), with the gain φ in units of the penalty.
        near=lambda attained: downward(exact(attained).sqrt() / steepest),
    )


def flow_ratio(shape: Shape, tolerance: float) -> Enclosure:
    """Enclose the ratio where the stop may depend on the spectrum."""
    room = tolerance / 10
    # Farther horizons lose less of the game, and their proofs take longer; friction near 2 needs
    # the last ones.
    for horizons in ((8.0, 12.0), (16.0, 24.0), (80.0, 32.0)):
        game = _FlowGame(shape, *horizons, points=5000)
        above = solve_with_few_points(game, game.places, game.stops[:-1], tolerance / 4)
        below = solve_with_few_points(game, game.places[:-1], game.stops, tolerance / 4)
        cap = above.upper + room
        floor = max(below.lower - room, 0.0)
        if cap - floor <= tolerance:
            break
    game.prove_cap(above.mixture, cap)
    game.prove_floor(below.spectrum, floor)
    stops, weights = np.array(above.mixture)
    mixture = Strategy.of(stops ** (2 // shape.order), weights)
    places, shares = np.array(below.spectrum)
    games = Solution(mixture, Strategy.of(places**2, shares), floor, cap)
    return enclosure(floor, cap, mixture.heaviest, tolerance, games)


def flow_error(shape: Shape, calibration: float, tolerance: float, shift: int = 0) -> Enclosure:
    """Enclose the supremum of (shift + h)², with λ = c/t² or, where stops scale like 1/λ, c/t.

    With the shift 1 and c = 1 it is the largest variance over that of ridge: the gain is
    (1 + h)/(s + λ), and ridge has the gain 1/(s + λ).
    """
    c = exact(calibration)
    curvature = c * shape.gain_bend + shape.bend_cap

    def bracket(box: Box) -> Bracket:
        # Taylor's formula to second order; the curvature caps the second derivative everywhere.
        u, radius = centre_and_radius(box[0])
        g = shape.shrinkage(u)
        g_slope = shape.slope(u)
        phi = (1 - g) / (u * u)
        slope = -c * (g_slope / u + 2 * phi) / u - g_slope
        variation = abs(slope) * radius + curvature * radius**2 / 2
        return bracket_square(box, shift + c * phi - g, variation)

    def tail(start: float) -> arb:
        g = shape.tail(start)
        return (shift + c * (1 + g) / exact(start) ** 2 + g) ** 2

    # At u = 0 the formulas divide by zero, and halving would never settle this limit if it is the
    # supremum. The ratio of variances begins at c·φ(0) ≤ 1, which is never its supremum.
    origin = bracket_square(((0.0, 0.0),), shift + c * shape.first_gain - 1, exact(0))
    head = 0.0 if shift else shape.head(c)
    # Up to the head no value exceeds that of the origin.
    known = origin if head > 0 else origin._replace(cap=0.0)
    return _on_all_scales(shape, bracket, tail, known, head, tolerance)


def flow_bias(shape: Shape, tolerance: float) -> Enclosure:
    """Enclose the largest squared bias over that of ridge with λ = 1/t² (or 1/t), (1 + u²)²·g²."""
    if not shape.square_tail(max(shape.tail_start, 3.0)).is_finite():
        raise ValueError(
            "The bias cannot be coupled: at λ = 1/t² it exceeds every multiple of ridge's bias at "
            "some eigenvalue, because the oscillation falls more slowly than 1/u². Friction of at "
            "least 4 is needed; see coupling_counterexample."
        )

    def bracket(box: Box) -> Bracket:
        u, radius = centre_and_radius(box[0])
        g = shape.cell(u, radius)
        cell = ball(u, radius)
        variation = abs((1 + cell**2) * g.slopes + 2 * cell * g.values) * radius
        return bracket_square(box, (1 + u**2) * g.centre, variation)

    def tail(start: float) -> arb:
        return (shape.square_tail(start) * (1 + 1 / exact(start) ** 2)) ** 2

    # At the origin, before anything is learned, the ratio is 1.
    origin = Bracket(1.0, 1.0, ((0.0, 0.0),))
    return _on_all_scales(shape, bracket, tail, origin, 0.0, tolerance)


def _on_all_scales(
    shape: Shape, bracket: BracketOf, tail: Tail, known: Bracket, head: float, tolerance: float
) -> Enclosure:
    found = largest_on_ray(
        bracket,
        tail,
        unit=unit_of(shape),
        start=max(shape.tail_start, 3.0),
        tolerance=tolerance,
        near=lambda _: head,
        known=known,
    )
    u_there = sum(found.box[0]) / 2
    return Enclosure(found.attained, found.cap, u_there ** (2 // shape.order))
