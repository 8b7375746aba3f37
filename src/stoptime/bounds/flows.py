r"""Certificates of the methods whose shrinkage has one variable: all but heavy-ball flow.

With u = σy, y² = s/λ*, and the shrinkage g = g(u), the excess over the risk of ridge is D², where

.. math:: D = \frac{u\,g(u)}{\sigma} - \sigma\,\frac{1 - g(u)}{u}.

Here σ is the dimensionless stop τ, or its root where stops scale like 1/λ. The parameter error is
the supremum of h², where h = c·φ - g and φ = (1 - g)/u². The page *Certificates* has all proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    AdaptiveEnclosure, Box, Bracket, Enclosure, Interval, WorkLimitError, arb, ball, bracket_square,
    centre_and_radius, downward, exact, squared, supremum, upward,
)  # fmt: skip
from stoptime.bounds.filters import ScaleFreeFilter

from stoptime.bounds.minimax import (  # isort: skip
    Game, Solution, Square, Strategy, enclosure, solve_with_few_points,
)  # fmt: skip
from stoptime.support.arrays import Array


def ridge_inflation(stop: float | None, _: float) -> Enclosure:
    """Ridge with penalty λ*/τ: the inflation 1 + x(1 - τ)²/(1 + τx)² is largest at x = 1/τ."""
    tau = exact(1.0 if stop is None else stop)
    value = (1 + tau) ** 2 / (4 * tau)
    return Enclosure(downward(value), upward(value), float(tau))


def ridge_ratio(_: None, __: float) -> AdaptiveEnclosure:
    """Ridge is its own oracle: no spectrum has a ratio other than 1."""
    return AdaptiveEnclosure(1.0, 1.0, 1.0, ((1.0, 1.0),), ((1.0, 1.0),))


def ridge_error(calibration: float, _: float) -> Enclosure:
    """Ridge against ridge: c·φ - g = (c - 1)/(1 + ts) is largest in the limit ts → 0."""
    value = (exact(calibration) - 1) ** 2
    return Enclosure(downward(value), upward(value), 0.0)


def imbalance(shape: ScaleFreeFilter, sigma: arb, u: arb, radius: arb) -> Square:
    """Return D at one stop on a cell of u; the slope is by u."""
    centre, g, slope = shape.cell(u, radius)
    value = u * centre / sigma - sigma * (1 - centre) / u
    cell = ball(u, radius)
    if cell > 0:
        over_cell = (g + cell * slope) / sigma + sigma * (slope / cell + (1 - g) / cell**2)
        return Square(value, over_cell)
    # At the origin the formula divides by zero. There |D''(u)| ≤ bend + curvature·u: D = u·G with
    # G = g/σ - σφ, so |D''| ≤ 2|G'| + u|G''|, and the caps on |g''| and |φ''| bound the growth of
    # |G'| from its value at the origin.
    bend = 2 * sigma * shape.gain_slope
    curvature = 3 * (shape.largest_bend / sigma + sigma * shape.gain_bend)
    at_centre = shape.slope(u)
    d_slope = (centre + u * at_centre) / sigma + sigma * (at_centre / u + (1 - centre) / (u * u))
    return Square(value, ball(d_slope, (bend + curvature * (u + radius)) * radius))


@dataclass(frozen=True)
class FlowGame(Game):
    """The game of a flow: places are y = √(s/λ*), and stops are the scales σ of u = σy.

    All places from ``last_place`` on count as one, with a cap on D² that holds for all of them;
    all stops from ``last_stop`` on count as one, with a floor.
    """

    shape: ScaleFreeFilter
    last_place: float
    last_stop: float
    points: int = 500
    """How many points each of the two parts of both grids has."""

    @cached_property
    def places(self) -> Array:  # type: ignore[override]
        """A fine grid of places, and infinity."""
        return _grid(0.02, self.last_place, self.points)

    @cached_property
    def stops(self) -> Array:  # type: ignore[override]
        """A fine grid of stops, and infinity."""
        first = 0.02 / math.sqrt(float(self.shape.largest_gain))
        return _grid(first, self.last_stop, self.points)

    @property
    def searched_stops(self) -> Array:
        """A part of the stops: the largest D² changes slowly with the stop."""
        return self.stops[:-1:10]

    def payoff(self, places: Array, stops: Array) -> Array:
        """Return D² in floating point, at infinity its cap or its floor."""
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
            g = self._tails(y * self.last_stop)
            out[np.ix_(inner, ~early)] = np.maximum((1 - g) / y - y * g, 0.0)[:, None] ** 2
        return out

    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        """Return D at one stop on a cell of places."""
        centre, slope = imbalance(self.shape, stop, stop * place, stop * radius)
        return Square(centre, stop * slope)

    def over_stops(self, place: arb, stop: arb, radius: arb) -> Square:
        """Return D at one place on a cell of stops."""
        centre, _, slope = self.shape.cell(place * stop, place * radius)
        return Square(place * centre - (1 - centre) / place, (place**2 + 1) * slope)

    def unproven_places(self, mixture: Strategy, cap: arb) -> Interval:
        """Return the places between those near zero and the last one."""
        if not mixture.total(map(self.cap_beyond, mixture.points)) <= cap:
            raise WorkLimitError("Not proven: the mixture of stops is good at large eigenvalues.")
        # Near zero |D| = y·|g - φ| ≤ y·(1 + φ), with the gain φ in units of the penalty.
        gains = [exact(sigma) ** 2 * self.shape.largest_gain for sigma in mixture.points]
        steepest = mixture.total([(1 + gain) ** 2 for gain in gains])
        return min(downward((cap / steepest).sqrt()), self.last_place), self.last_place

    def cap_beyond(self, stop: float) -> arb:
        """Return a cap on D² at one stop, for all places from ``last_place`` on."""
        # |g| and y·|g| have caps that fall with y.
        y = exact(self.last_place)
        g = self._tail(stop * self.last_place)
        return (y * g + (1 + g) / y) ** 2

    def until_below(self, stop: float, level: float) -> FlowGame:
        """Return the game with places so far that D² at one stop is below a level beyond them."""

        def cap(last_place: float) -> arb:
            return replace(self, last_place=last_place).cap_beyond(stop)

        start = max(self.last_place, self.shape.tail_start / stop)
        return replace(self, last_place=horizon(cap, start, level))

    def late_floor(self, place: float) -> arb:
        """Return a floor under D² at one place, for all stops from ``last_stop`` on."""
        y = exact(place)
        return floor_of_small_shrinkage(y, self._tail(place * self.last_stop))

    def _tail(self, start: float) -> arb:
        """Return a cap on |g| for u ≥ start, which is 1 where no better one is known."""
        # The product of two numbers was rounded: one below it is certainly not beyond it.
        start = math.nextafter(start, 0.0)
        return self.shape.tail(start) if start >= self.shape.tail_start else exact(1)

    def _tails(self, start: Array) -> Array:
        """Return the same caps in floating point, for a search."""
        known = start >= self.shape.tail_start
        somewhere = 2 * self.shape.tail_start
        return np.where(known, self.shape.tail_in_floats(np.where(known, start, somewhere)), 1.0)


def floor_of_small_shrinkage(y: arb, g: arb) -> arb:
    """Return a floor under D² at one place, if the shrinkage is at most ``g`` in size."""
    return squared(((1 - g) / y - y * g).max(exact(0)))


def _grid(first: float, last: float, points: int) -> Array:
    """Return a grid that is even in decades at first and even in phase later, and infinity."""
    decades = np.geomspace(first, last, points)
    even = np.linspace(first, last, points)
    return np.append(np.union1d(decades, even), np.inf)


def _games(shape: ScaleFreeFilter) -> list[FlowGame]:
    """Return games with ever farther horizons."""
    # The last stop is in units of the stop at which learning begins. Farther horizons lose less of
    # the game, and their proofs take longer; friction near 2 needs the last ones.
    unit = 1 / math.sqrt(float(shape.largest_gain))
    horizons = ((8.0, 12.0), (16.0, 24.0), (80.0, 32.0))
    return [FlowGame(shape, place, stop * unit, 5000) for place, stop in horizons]


def one_stop_game(shape: ScaleFreeFilter) -> FlowGame:
    """Return the game in which one stop serves all spectra: few points find its peaks."""
    return replace(_games(shape)[0], points=500)


def flow_inflation(shape: ScaleFreeFilter, stop: float | None, tolerance: float) -> Enclosure:
    """Enclose the largest inflation over all x ≥ 0: at one stop, or by default at the best stop."""
    if stop is not None:
        return _inflation_at(shape, stop, tolerance)
    room = tolerance / 4
    first = one_stop_game(shape)
    sigma, height = first.best_stop(1e-12)
    game = first.until_below(sigma, height)
    game.prove_cap(Strategy.single(sigma), height + room)
    game.prove_floor(None, height - room)
    return enclosure(height - room, height + room, sigma ** (2 // shape.order), tolerance)


def horizon(cap_beyond: Callable[[float], arb], start: float, below: float) -> float:
    """Return the first point of a growing sequence beyond which the cap lies below a level."""
    point = start
    for _ in range(80):
        if cap_beyond(point) < below:
            return point
        point *= 1.25
    raise WorkLimitError(
        f"The tail beyond {point:.3g} is not proven to stay below {below:.6g}: it decays too "
        "slowly for this friction."
    )


def _inflation_at(shape: ScaleFreeFilter, stop: float, tolerance: float) -> Enclosure:
    """Enclose the largest inflation at one stop."""
    sigma = stop if shape.order == 2 else math.sqrt(stop)
    # The places reach so far that the phases u reach that of the horizon.
    game = FlowGame(shape, 12.0 * max(1.0, 1 / (sigma * float(shape.largest_gain) ** 0.5)), 1.0)
    mixture = Strategy.single(sigma)
    height = game.highest(mixture)
    game = game.until_below(sigma, height)
    room = tolerance / 4 * max(1.0, height)
    game.prove_cap(mixture, height + room)
    # The largest excess is attained, up to rounding, at the highest place of the search.
    place = exact(game.witness((sigma, sigma)).points[0])
    floor = downward(squared(game.over_places(exact(sigma), place, exact(0)).centre))
    return enclosure(floor, height + room, stop, tolerance)


def flow_ratio(shape: ScaleFreeFilter, _: None, tolerance: float) -> Enclosure:
    """Enclose the ratio where the stop may depend on the spectrum."""
    room = tolerance / 10
    for game in _games(shape):
        above = solve_with_few_points(game, game.places, game.stops[:-1], tolerance / 4)
        below = solve_with_few_points(game, game.places[:-1], game.stops, tolerance / 4)
        cap = above.upper + room
        floor = below.lower - room
        if cap - max(floor, 0.0) <= tolerance:
            break
    else:
        raise WorkLimitError(
            f"The ratio is only known to lie near [{1 + floor:.6g}, {1 + cap:.6g}]; use a larger "
            f"tolerance than {tolerance:g}."
        )
    game.prove_cap(above.mixture, cap)
    game.prove_floor(below.spectrum, max(floor, 0.0))
    stops, weights = np.array(above.mixture)
    mixture = Strategy.of(stops ** (2 // shape.order), weights)
    places, shares = np.array(below.spectrum)
    witnesses = Solution(mixture, Strategy.of(places**2, shares), floor, cap)
    stop = mixture.points[int(weights.argmax())]
    return enclosure(floor, cap, stop, tolerance, witnesses)


def flow_error(shape: ScaleFreeFilter, calibration: float, tolerance: float) -> Enclosure:
    """Enclose the supremum of h², with λ = c/t² or, for gradient flow, λ = c/t."""
    return _distance(shape, calibration, tolerance, 0)


def flow_variance(shape: ScaleFreeFilter, tolerance: float) -> Enclosure:
    """Enclose the largest variance over that of ridge with λ = 1/t² (or 1/t), which is (1 + h)²."""
    # The gain is (1 + h)/(s + λ), and ridge has the gain 1/(s + λ).
    return _distance(shape, 1.0, tolerance, 1)


def _distance(
    shape: ScaleFreeFilter, calibration: float, tolerance: float, shift: int
) -> Enclosure:
    """Enclose the supremum of (shift + h)²."""
    c = exact(calibration)
    curvature = c * shape.gain_bend + shape.largest_bend

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

    # At u = 0 the formulas divide by zero; the limit is known from the second moment.
    origin = bracket_square(((0.0, 0.0),), shift + c * shape.first_gain - 1, exact(0))
    # Halving would never settle the limit u = 0 if it is the supremum.
    # The ratio of variances begins at c·φ(0) ≤ 1, which is never its supremum.
    head = 0.0 if shift else shape.head(c)
    # Up to the head no value exceeds that of the origin.
    known = origin if head > 0 else origin._replace(cap=0.0)
    return _supremum(shape, bracket, tail, known, head, shape.tail_start, tolerance)


def flow_bias(shape: ScaleFreeFilter, tolerance: float) -> Enclosure:
    """Enclose the largest squared bias over that of ridge with λ = 1/t² (or 1/t), (1 + u²)²·g²."""
    start = max(shape.tail_start, 3.0)
    if not shape.square_tail(start).is_finite():
        raise ValueError(
            "The bias cannot be coupled: at λ = 1/t² it exceeds every multiple of ridge's bias at "
            "some eigenvalue, because the oscillation falls more slowly than 1/u². Friction of at "
            "least 4 is needed; see coupling_counterexample."
        )

    def bracket(box: Box) -> Bracket:
        u, radius = centre_and_radius(box[0])
        centre, g, slope = shape.cell(u, radius)
        cell = ball(u, radius)
        variation = abs((1 + cell**2) * slope + 2 * cell * g) * radius
        return bracket_square(box, (1 + u**2) * centre, variation)

    def tail(start: float) -> arb:
        return (shape.square_tail(start) * (1 + 1 / exact(start) ** 2)) ** 2

    # At the origin, before anything is learned, the ratio is 1.
    origin = Bracket(1.0, 1.0, ((0.0, 0.0),))
    return _supremum(shape, bracket, tail, origin, 0.0, start, tolerance)


def _supremum(
    shape: ScaleFreeFilter,
    bracket: Callable[[Box], Bracket],
    tail: Callable[[float], arb],
    known: Bracket,
    head: float,
    end: float,
    tolerance: float,
) -> Enclosure:
    """Enclose the supremum over u: bracketed from ``head`` on, and capped by a tail."""
    # The larger the value known in advance, the nearer the horizon can be.
    grid = np.linspace(0.0, 5.0 / float(shape.largest_gain) ** 0.5, 100)[1:].tolist()
    sampled = max((bracket(((u, u),)) for u in grid), key=lambda found: found.attained)
    best = max(known, sampled, key=lambda found: found.attained)
    end = horizon(tail, max(end, 2 * head), best.attained)
    outside = best._replace(cap=max(known.cap, upward(tail(end))))
    found = supremum(bracket, ((head, end),), known=outside, tolerance=tolerance)
    u_there = sum(found.box[0]) / 2
    return Enclosure(found.attained, found.cap, u_there ** (2 // shape.order))
