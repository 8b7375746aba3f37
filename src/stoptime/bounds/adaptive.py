r"""Certificates of the ratio in the paper's theorems, where the stop may depend on the spectrum.

.. math:: C = \sup_{\text{spectra}} \frac{\inf_t R(t)}{\inf_\lambda R^{ridge}(\lambda)}
            = 1 + \max_{w} \min_{t} \sum_i w_i D^2(x_i, t)

For every mixture ν of stops inf R ≤ Σ ν_j R(t_j), so one mixture proves an upper bound; one
spectrum proves a lower bound. The module ``games`` finds both in floating point. Here they are
proven: a weighted sum of squares D² stays below a level at all eigenvalues, or above a level at all
stops. With y² = s/λ* and the shrinkage g, every method has D = (y + 1/y)·g - 1/y.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    AdaptiveEnclosure, Box, Interval, WorkLimitError, arb, ball, centre_and_radius, downward, exact,
    squared, upward, verify,
)  # fmt: skip
from stoptime.bounds.filters import ScaleFreeFilter
from stoptime.bounds.games import Solution, Strategy, fewer_points, solve
from stoptime.support.arrays import Array

GAME_SHARE = 0.25  # of the tolerance: how far both values of a game may be apart
ROOM_SHARE = 0.1  # of the tolerance: the room of each of the two proofs


class Square(NamedTuple):
    """D at the centre of a cell, and balls with D and its slope everywhere in the cell."""

    centre: arb
    value: arb
    slope: arb

    @classmethod
    def within(cls, centre: arb, slope: arb, radius: arb) -> Square:
        """Enclose D in a cell by its value at the centre and its slopes."""
        return cls(centre, ball(centre, abs(slope) * radius), slope)


def weighted_squares(weights: Iterable[arb], squares: Iterable[Square], radius: arb) -> arb:
    """Return a ball with the sum of w·D² everywhere in a cell, by the mean-value form."""
    centre = exact(0)
    slope = exact(0)
    for weight, square in zip(weights, squares, strict=True):
        centre += weight * squared(square.centre)
        slope += 2 * weight * square.value * square.slope
    # Near a maximum of the sum the slopes of its terms cancel, so the ball is short there.
    return ball(centre, abs(slope) * radius)


def shares(strategy: Strategy) -> list[arb]:
    """Return the weights of a strategy as numbers whose sum is exactly one."""
    weights = [exact(weight) for weight in strategy.weights.tolist()]
    total = sum(weights, exact(0))
    return [weight / total for weight in weights]


def weighted(weights: list[arb], values: Iterable[arb]) -> arb:
    """Return a weighted sum."""
    return sum((w * value for w, value in zip(weights, values, strict=True)), exact(0))


def prove_everywhere(sum_in: Callable[[arb, arb], arb], interval: Interval, cap: arb) -> None:
    """Prove that a sum of squares is at most ``cap``, given the ball with it in every cell."""

    def holds(box: Box) -> bool:
        return bool(sum_in(*centre_and_radius(box[0])) <= cap)

    verify(holds, (interval,))


def late_floor(y: arb, g: arb) -> arb:
    """Return a floor under D² at one place, if the shrinkage is at most ``g`` in size."""
    return squared(((1 - g) / y - y * g).max(exact(0)))


def enclosure(
    floor: float, cap: float, mixture: Strategy, eigenvalues: Strategy
) -> AdaptiveEnclosure:
    """Return the enclosure of 1 + D², and its witnesses in the units of the caller."""
    # The weight of an eigenvalue x in the game is its share of the ridge risk. The risk of ridge in
    # one direction is proportional to 1/(1 + x), so the share of directions is larger by 1 + x.
    directions = eigenvalues.weights * (1 + eigenvalues.points)
    directions /= directions.sum()
    return AdaptiveEnclosure(
        downward(1 + exact(floor)),
        upward(1 + exact(cap)),
        float(mixture.points[mixture.weights.argmax()]),
        tuple(zip(mixture.points.tolist(), mixture.weights.tolist(), strict=True)),
        tuple(zip(eigenvalues.points.tolist(), directions.tolist(), strict=True)),
    )


def flow_ratio(shape: ScaleFreeFilter, _: None, tolerance: float) -> AdaptiveEnclosure:
    """Enclose the ratio of a method whose shrinkage has one variable."""
    unit = 1 / math.sqrt(float(shape.largest_gain))
    room = ROOM_SHARE * tolerance
    # The last stop is in units of the stop at which learning begins. Farther horizons lose less of
    # the game, and their proofs take longer; friction near 2 needs the last ones.
    for last_place, last_stop in ((8.0, 12.0), (16.0, 24.0), (80.0, 32.0)):
        game = FlowGame(shape, last_place, last_stop * unit)
        above = game.best_mixture(GAME_SHARE * tolerance)
        below = game.best_spectrum(GAME_SHARE * tolerance)
        cap = above.upper + room
        floor = max(0.0, below.lower - room)
        if cap - floor <= tolerance:
            break
    else:
        raise WorkLimitError(
            f"The ratio is only known to lie near [{1 + floor:.6g}, {1 + cap:.6g}]; use a larger "
            f"tolerance than {tolerance:g}."
        )
    game.prove_cap(above.mixture, cap)
    game.prove_floor(below.spectrum, floor)
    power = 2 // shape.order
    mixture = above.mixture._replace(points=above.mixture.points**power)
    spectrum = below.spectrum._replace(points=below.spectrum.points**2)
    return enclosure(floor, cap, mixture, spectrum)


@dataclass(frozen=True)
class FlowGame:
    """The game of a flow: places are y = √(s/λ*), and stops are the scales σ of u = σy.

    All places from ``last_place`` on count as one, with a cap on D² that holds for all of them;
    all stops from ``last_stop`` on count as one, with a floor. Infinity stands for such a point.
    """

    shape: ScaleFreeFilter
    last_place: float
    last_stop: float

    @property
    def places(self) -> Array:
        """A fine grid of places, and infinity."""
        return _grid(0.02, self.last_place)

    @property
    def stops(self) -> Array:
        """A fine grid of stops, and infinity."""
        return _grid(0.02 / math.sqrt(float(self.shape.largest_gain)), self.last_stop)

    def payoff(self, y: Array, sigma: Array) -> Array:
        """Return D² in floating point, at infinity its cap or its floor."""
        inner = np.isfinite(y)
        early = np.isfinite(sigma)
        out = np.zeros((len(y), len(sigma)))
        g = self.shape.in_floats(np.multiply.outer(y[inner], sigma[early]))
        out[np.ix_(inner, early)] = (y[inner, None] * g - (1 - g) / y[inner, None]) ** 2
        g = self._tails(sigma[early] * self.last_place)
        out[np.ix_(~inner, early)] = (self.last_place * g + (1 + g) / self.last_place) ** 2
        g = self._tails(y[inner] * self.last_stop)
        late = np.maximum((1 - g) / y[inner] - y[inner] * g, 0.0) ** 2
        out[np.ix_(inner, ~early)] = late[:, None]
        return out

    def best_mixture(self, tolerance: float) -> Solution:
        """Solve the game in which the stops are real, and the last place is a cap."""
        return self._solved(self.places, self.stops[:-1], tolerance)

    def best_spectrum(self, tolerance: float) -> Solution:
        """Solve the game in which the places are real, and the last stop is a floor."""
        return self._solved(self.places[:-1], self.stops, tolerance)

    def _solved(self, places: Array, stops: Array, tolerance: float) -> Solution:
        found = solve(self.payoff, places, stops, tolerance)
        return fewer_points(self.payoff, found, places, stops)

    def prove_cap(self, mixture: Strategy, cap: float) -> None:
        """Prove that the mixture has at most this excess at every place y ≥ 0."""
        weights = shares(mixture)
        level = exact(cap)
        if not weighted(weights, map(self._beyond, mixture.points.tolist())) <= level:
            raise WorkLimitError("Not proven: the mixture of stops is good at large eigenvalues.")
        stops = [exact(sigma) for sigma in mixture.points.tolist()]
        # Near zero |D| = y·|g - φ| ≤ y·(1 + φ), with the gain φ in units of the penalty.
        slopes = [1 + sigma**2 * self.shape.largest_gain for sigma in stops]
        steepest = weighted(weights, [slope**2 for slope in slopes])
        first = min(downward((level / steepest).sqrt()), self.last_place)

        def sum_in(y: arb, radius: arb) -> arb:
            squares = [self._over_places(sigma, y, radius) for sigma in stops]
            return weighted_squares(weights, squares, radius)

        prove_everywhere(sum_in, (first, self.last_place), level)

    def prove_floor(self, spectrum: Strategy, floor: float) -> None:
        """Prove that the spectrum has at least this excess at every stop σ ≥ 0."""
        weights = shares(spectrum)
        level = exact(floor)
        if not weighted(weights, map(self._after, spectrum.points.tolist())) >= level:
            raise WorkLimitError("Not proven: no late stop is better on the worst spectrum.")
        places = [exact(y) for y in spectrum.points.tolist()]

        def minus_sum_in(sigma: arb, radius: arb) -> arb:
            squares = [self._over_stops(y, sigma, radius) for y in places]
            return -weighted_squares(weights, squares, radius)

        prove_everywhere(minus_sum_in, (0.0, self.last_stop), -level)

    def _over_places(self, sigma: arb, y: arb, radius: arb) -> Square:
        """Return D at one stop on a cell of places."""
        centre, g, slope = self.shape.cell(sigma * y, sigma * radius)
        cell = ball(y, radius)
        d_slope = g + (cell + 1 / cell) * sigma * slope + (1 - g) / cell**2
        return Square.within(y * centre - (1 - centre) / y, d_slope, radius)

    def _over_stops(self, y: arb, sigma: arb, radius: arb) -> Square:
        """Return D at one place on a cell of stops."""
        centre, _, slope = self.shape.cell(y * sigma, y * radius)
        return Square.within(y * centre - (1 - centre) / y, (y**2 + 1) * slope, radius)

    def _beyond(self, sigma: float) -> arb:
        """Return a cap on D² at one stop, for all places from ``last_place`` on."""
        y = exact(self.last_place)
        # |g| and y·|g| have caps that fall with y.
        g = self._tail(sigma * self.last_place)
        return (y * g + (1 + g) / y) ** 2

    def _after(self, y: float) -> arb:
        """Return a floor under D² at one place, for all stops from ``last_stop`` on."""
        return late_floor(exact(y), self._tail(y * self.last_stop))

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


def _grid(first: float, last: float) -> Array:
    """Return a grid that is even in decades at first and even in phase later, and infinity."""
    decades = np.geomspace(first, last, 5000)
    even = np.linspace(first, last, 5000)
    return np.append(np.union1d(decades, even), np.inf)
