"""One engine for all proofs of inflations: a spectrum plays against a stop.

In one direction y² = s/λ* the excess over the risk of ridge is D², D = y·g - (1 - g)/y. A mixture
of stops proves an upper end at every y, and a spectrum a lower end at every stop. Both are found in
floating point, which proves nothing; then cells are halved until the mean-value form proves them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.optimize import linprog

from stoptime.bounds import balls
from stoptime.bounds.balls import Enclosure, arb, ball, exact, squared
from stoptime.bounds.filters import Cell
from stoptime.support.arrays import Array
from stoptime.theory.search import dips, lowest, lowest_between

Payoff = Callable[[Array, Array], Array]
"""The excess D² at some places, one row for each, and some stops, one column for each."""


@dataclass(frozen=True)
class Strategy:
    """A distribution on finitely many points: a mixture of stops, or a spectrum."""

    points: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, points: Array, weights: Array) -> Strategy:
        """Return the strategy with these points and weights, in proportion."""
        kept = weights > 1e-9 * weights.max()  # smaller ones are rounding errors of a solver
        shares = weights[kept] / weights[kept].sum()
        return cls(tuple(points[kept].tolist()), tuple(shares.tolist()))

    @classmethod
    def single(cls, point: float) -> Strategy:
        """Return the strategy that is one point."""
        return cls((float(point),), (1.0,))

    @property
    def heaviest(self) -> float:
        """The point with the largest weight."""
        return self.points[int(np.argmax(self.weights))]

    @cached_property
    def shares(self) -> list[arb]:
        """The weights as balls whose sum is exactly one."""
        weights = [exact(weight) for weight in self.weights]
        total = sum(weights, exact(0))
        return [weight / total for weight in weights]

    def mean(self, table: Array) -> Array:
        """Return the weighted mean of the columns of a table, one for each point."""
        return np.asarray(table @ np.array(self.weights))

    def total(self, values: Iterable[arb]) -> arb:
        """Return the weighted mean of balls, one for each point."""
        pairs = zip(self.shares, values, strict=True)
        return sum((share * value for share, value in pairs), exact(0))


class Square(NamedTuple):
    """D at the centre of a cell, and a ball with the slope of D everywhere in the cell."""

    centre: arb
    slope: arb


def imbalance(y: Cell, g: Cell) -> Square:
    """Return D = (y + 1/y)·g - 1/y on a cell where y > 0."""
    slope = (y.values + 1 / y.values) * g.slopes
    slope += y.slopes * (g.values + (1 - g.values) / y.values**2)
    return Square(y.centre * g.centre - (1 - g.centre) / y.centre, slope)


def mean_of_squares(shares: Sequence[arb], squares: Iterable[Square], radius: arb) -> arb:
    """Return a ball with the weighted mean of D² everywhere in a cell, by the mean-value form."""
    centre = exact(0)
    slope = exact(0)
    for share, square in zip(shares, squares, strict=True):
        value = ball(square.centre, abs(square.slope) * radius)
        centre += share * squared(square.centre)
        slope += 2 * share * value * square.slope
    # Near a maximum of the sum the slopes of its terms cancel, so the ball is short there.
    return ball(centre, abs(slope) * radius)


def small_shrinkage_floor(y: arb, g: arb) -> arb:
    """Return a floor under D² at one place, if the shrinkage is at most ``g`` in size."""
    return squared(((1 - g) / y - y * g).max(exact(0)))


def slightly_above(value: float, tolerance: float) -> float:
    """Return a value increased by a tolerance, which is relative if the value exceeds 1."""
    return value + tolerance * max(1.0, value)


class Solution(NamedTuple):
    """A mixture of stops with at most ``upper`` at every place; a spectrum, ``lower`` likewise."""

    mixture: Strategy
    spectrum: Strategy
    lower: float
    upper: float


class Game(ABC):
    """A spectrum against a stop: fine grids of places and stops, and D² in floating point.

    A last infinite place or stop stands for all beyond the grid.
    """

    places: Array
    stops: Array
    smooth: ClassVar[bool] = True

    @abstractmethod
    def payoff(self, places: Array, stops: Array) -> Array:
        """Return D² in floating point; at infinity a cap on it, or a floor under it."""

    @abstractmethod
    def places_for(self, stop: float) -> Array:
        """Return a grid of places that resolves D² at stops up to this one."""

    @abstractmethod
    def best_stop(self, width: float) -> tuple[float, float]:
        """Return the stop whose largest D² is least, to a relative width, and this D²."""

    @abstractmethod
    def prove_early_floor(self, spectrum: Strategy | None, level: arb) -> None:
        """Prove a floor under D² at every stop of the grid: on a spectrum, or at some place."""

    @abstractmethod
    def late_floor(self, place: float) -> arb:
        """Return a floor under D² at one place, for all stops beyond the grid."""

    @abstractmethod
    def to_stops(self, stops: Array) -> Array:
        """Return stops of the game in the units of the method, for the best penalty one."""

    @abstractmethod
    def to_eigenvalues(self, places: Array) -> Array:
        """Return eigenvalues in units of the best penalty."""

    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        """Return D at one stop on a cell of places, for a game with caps that cells prove."""
        raise NotImplementedError

    def unproven_places(self, mixture: Strategy, cap: arb) -> balls.Interval:
        """Return the places at which the cap is not proven by a tail or near zero."""
        raise NotImplementedError

    def excess(self, place: arb, stop: float) -> arb:
        """Return D² at one place and one stop."""
        return squared(self.over_places(exact(stop), place, exact(0)).centre)

    def witness(self, stop: float) -> Strategy:
        """Return a place at which D² is large at one stop, in floating point."""
        return Strategy.single(self.highest(Strategy.single(stop))[0])

    def highest(self, mixture: Strategy, places: Array | None = None) -> tuple[float, float]:
        """Return the place with the largest sum of a mixture, also between places of the grid."""
        grid = self.places_for(max(mixture.points)) if places is None else places
        return highest([(self, mixture)], grid)

    def largest(
        self, mixture: Strategy, tolerance: float, places: Array | None = None
    ) -> tuple[float, float]:
        """Enclose the largest sum of a mixture over all places."""
        place = exact(self.highest(mixture, places)[0])
        attained = balls.downward(
            mixture.total(self.excess(place, stop) for stop in mixture.points)
        )
        cap = slightly_above(attained, tolerance)
        self.prove_cap(mixture, cap)
        return attained, cap

    def prove_cap(self, mixture: Strategy, cap: float) -> None:
        """Prove that the sum of a mixture is at most the cap at every place."""
        prove_claim([(self, mixture)], cap)

    def solved(self, places: Array, stops: Array, tolerance: float) -> Solution:
        """Solve the game of the first reading on grids, with a cap that holds between places."""
        found = solve(self.payoff, places, stops, tolerance, smooth=self.smooth)
        return found._replace(upper=self.highest(found.mixture, places)[1])

    def late_stops_are_worse(self, spectrum: Strategy | None, floor: float) -> bool:
        """Whether all stops beyond the grid certainly have at least this excess."""
        late = spectrum or self.witness(math.inf)
        return bool(late.total(map(self.late_floor, late.points)) >= exact(floor))

    def prove_floor(self, spectrum: Strategy | None, floor: float) -> None:
        """Prove that every stop has at least this excess: on a spectrum, or at some place."""
        if not self.late_stops_are_worse(spectrum, floor):
            raise balls.WorkLimitError("Not proven: no late stop is better than the best one.")
        self.prove_early_floor(spectrum, exact(floor))


Claim = Sequence[tuple[Game, Strategy]]
"""Games with mixtures: the mean of their sums is to be at most a cap at every place."""


def highest(claim: Claim, grid: Array) -> tuple[float, float]:
    """Return the place where the mean of the sums of a claim is largest, in floating point."""

    def depth(places: Array) -> Array:
        flat = places.ravel()
        sums = [one.mean(game.payoff(flat, np.array(one.points))) for game, one in claim]
        return np.asarray(-np.mean(sums, axis=0)).reshape(places.shape)

    place, least = lowest(depth, grid, margin=0.05)
    return place, -least


def prove_claim(claim: Claim, cap: float) -> None:
    """Prove that the mean of the sums of some mixtures is at most the cap at every place."""
    parts = [
        (game, exact(stop), share / len(claim))
        for game, mixture in claim
        for stop, share in zip(mixture.points, mixture.shares, strict=True)
    ]
    shares = [share for _, _, share in parts]

    def values(place: arb, radius: arb) -> arb:
        squares = (game.over_places(stop, place, radius) for game, stop, _ in parts)
        return mean_of_squares(shares, squares, radius)

    game, mixture = claim[0]
    level = exact(cap)
    balls.prove_cap(values, game.unproven_places(mixture, level), level)


class FlowGame(Game):
    """A game with D on cells of stops too, which prove floors."""

    searched_stops: Array
    """A grid of stops on which the largest D² shows all its dips."""

    @abstractmethod
    def over_stops(self, place: arb, stop: arb, radius: arb) -> Square:
        """Return D at one place on a cell of stops."""

    def place(self, point: float) -> arb:
        """Return the place of a witness as a ball, which certainly is one of the places."""
        return exact(point)

    def heights(self, stops: Array) -> Array:
        """Return the largest D² on the grid of places, at many stops, in floating point."""
        return np.asarray(self.payoff(self.places, stops).max(axis=0))

    def best_stop(self, width: float) -> tuple[float, float]:
        """Return the stop whose largest D² is least, to a relative width, and this D²."""

        def height(log_stop: float) -> float:
            return self.highest(Strategy.single(math.exp(log_stop)))[1]

        grid = np.log(self.searched_stops)
        heights = self.heights(self.searched_stops)
        # D² oscillates with the stop, so the best one may lie in any of a few dips.
        deepest = sorted(dips(heights).tolist(), key=lambda i: float(heights[i]))[:4] or [1]
        found = []
        for i in deepest:
            if heights[i] <= 1.1 * heights[deepest[0]]:
                place = lowest_between(height, grid[i - 1], grid[i + 1], max(width, 1e-7))
                if width < 1e-7:
                    # The optimiser's tolerance is relative to its variable: here an offset.
                    around = partial(lambda at, offset: height(at + offset), place)
                    place += lowest_between(around, -1e-6, 1e-6, width)
                found.append((height(place), place))
        least, log_stop = min(found)
        return math.exp(log_stop), least

    def prove_early_floor(self, spectrum: Strategy | None, level: arb) -> None:
        """Prove a floor under D² at every stop of the grid: on a spectrum, or at some place."""

        def holds(box: balls.Box) -> bool:
            stop, radius = balls.centre_and_radius(box[0])
            used = spectrum or self.witness(sum(box[0]) / 2)
            squares = [self.over_stops(self.place(point), stop, radius) for point in used.points]
            return bool(mean_of_squares(used.shares, squares, radius) >= level)

        last = float(self.stops[np.isfinite(self.stops)][-1])
        balls.verify(holds, ((0.0, last),))


def inflation(games: Iterable[Game], tolerance: float) -> Enclosure:
    """Enclose the largest ratio at the best stop, in the first game with stops that are late."""
    for game in games:
        stop, height = game.best_stop(1e-12)
        if game.late_stops_are_worse(None, height):
            break
    best = Strategy.single(stop)
    attained, cap = game.largest(best, tolerance / 4)
    floor = max(0.0, attained - tolerance / 4 * max(1.0, attained))
    game.prove_floor(None, floor)
    return enclosure(floor, cap, float(game.to_stops(np.array(stop))), tolerance)


def adaptive_inflation(games: Iterable[Game], tolerance: float) -> Enclosure:
    """Enclose the ratio where the stop may depend on the spectrum, in the first game that can."""
    for game in games:
        # A mixture of earlier stops is nearly as good, and shorter to prove.
        early = game.stops[game.stops <= game.stops[-2] / 2]
        above = game.solved(game.places, early, tolerance / 4)
        finite = game.places[np.isfinite(game.places)]
        below = game.solved(finite, game.stops, tolerance / 4)
        room = tolerance / 10 * max(1.0, above.upper)
        cap = above.upper + room
        floor = max(below.lower - room, 0.0)
        if cap - floor <= 10 * room and game.late_stops_are_worse(below.spectrum, floor):
            break
    game.prove_cap(above.mixture, cap)
    game.prove_floor(below.spectrum, floor)
    found = enclosure(floor, cap, math.nan, tolerance)
    return with_witnesses(found, game, above.mixture, below.spectrum)


def solve(
    payoff: Payoff, places: Array, stops: Array, tolerance: float, *, smooth: bool = True
) -> Solution:
    """Solve the game of the first reading, up to a difference of both values.

    Where D² is ``smooth`` on the grids, points are also taken from between theirs.
    """
    # Each linear program has few points. The best answers of both players to its solution, found on
    # the fine grids, are added to it until neither has a better one.
    rows = _thinned(places)
    columns = _thinned(stops)
    for _ in range(25):  # mostly five to ten suffice
        mixture, spectrum, value = _equilibrium(payoff, rows, columns)
        risks = mixture.mean(payoff(places, np.array(mixture.points)))
        values = spectrum.mean(payoff(np.array(spectrum.points), stops).T)
        peaks, tops = _vertices(places, risks, smooth)
        troughs, depths = _vertices(stops, -values, smooth)
        if tops.max() + depths.max() <= tolerance:
            return Solution(mixture, spectrum, -float(depths.max()), float(tops.max()))
        rows = np.union1d(rows, peaks[tops > value])
        columns = np.union1d(columns, troughs[-depths < value])
    raise balls.WorkLimitError(
        f"The game of stop and spectrum is only solved to [{-depths.max():.6g}, {tops.max():.6g}]; "
        "use a larger tolerance."
    )


def _thinned(grid: Array) -> Array:
    # A linear program of this size takes a hundredth of a second.
    chosen = np.linspace(0, len(grid) - 1, min(150, len(grid)))
    return np.asarray(grid[np.unique(np.round(chosen).astype(int))])


def _equilibrium(payoff: Payoff, rows: Array, columns: Array) -> tuple[Strategy, Strategy, float]:
    """Return the best mixture of some stops, the spectrum of its dual, and their value."""
    # The variables are the weights of the stops and the value, which is to be least.
    found = linprog(
        np.append(np.zeros(len(columns)), 1.0),
        A_ub=np.hstack([payoff(rows, columns), np.full((len(rows), 1), -1.0)]),
        b_ub=np.zeros(len(rows)),
        A_eq=np.append(np.ones(len(columns)), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * len(columns) + [(None, None)],
        method="highs",
    )
    if not found.success:
        raise balls.WorkLimitError(f"The linear program failed: {found.message}")
    mixture = Strategy.of(columns, found.x[:-1])
    return mixture, Strategy.of(rows, -found.ineqlin.marginals), float(found.fun)


def _vertices(grid: Array, heights: Array, smooth: bool) -> tuple[Array, Array]:
    """Return the peaks of a curve and their heights; of a smooth one by parabolas."""
    padded = np.concatenate([[-np.inf], heights, [-np.inf]])
    peaks = np.flatnonzero((heights >= padded[:-2]) & (heights >= padded[2:]))
    points, tops = grid[peaks], heights[peaks]
    if not smooth:
        return points, tops
    inner = (peaks > 0) & (peaks < len(grid) - 1)
    inner[inner] = np.isfinite(grid[peaks[inner] + 1])
    middle = peaks[inner]
    before = grid[middle] - grid[middle - 1]
    after = grid[middle + 1] - grid[middle]
    rise = (heights[middle] - heights[middle - 1]) / before
    fall = (heights[middle] - heights[middle + 1]) / after
    slope = (rise * after - fall * before) / (before + after)
    # On a plateau the parabola has no vertex.
    bend = 2 * np.maximum(rise + fall, np.finfo(float).tiny) / (before + after)
    points[inner] += slope / bend
    tops[inner] += slope**2 / (2 * bend)
    return points, tops


def enclosure(floor: float, cap: float, stop: float, tolerance: float) -> Enclosure:
    """Return the enclosure of 1 + D², given proven ends of D²; refuse one that is too wide."""
    lower = balls.downward(1 + exact(max(floor, 0.0)))
    upper = balls.upward(1 + exact(cap))
    if upper - lower > tolerance * max(1.0, lower):
        raise balls.WorkLimitError(
            f"The ratio is only known to lie in [{lower!r}, {upper!r}]; use a larger tolerance "
            f"than {tolerance:g}."
        )
    return Enclosure(lower, upper, float(stop))


def with_witnesses(
    found: Enclosure, game: Game, mixture: Strategy, spectrum: Strategy
) -> Enclosure:
    """Return the enclosure of the first reading with what proves both of its ends."""
    stops = game.to_stops(np.array(mixture.points)).tolist()
    # The weight of an eigenvalue x in the game is its share of the ridge risk. The risk of ridge in
    # one direction is proportional to 1/(1 + x), so the share of directions is larger by 1 + x.
    x = game.to_eigenvalues(np.array(spectrum.points))
    directions = np.array(spectrum.weights) * (1 + x)
    shares = directions / directions.sum()
    return replace(
        found,
        stop=stops[int(np.argmax(mixture.weights))],
        mixture=tuple(zip(stops, mixture.weights, strict=True)),
        spectrum=tuple(zip(x.tolist(), shares.tolist(), strict=True)),
    )
