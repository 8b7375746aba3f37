r"""One engine for all proofs of inflations: a spectrum plays against a stop.

With y² = s/λ* and the shrinkage g, the excess of the risk over that of ridge in one direction is

.. math:: D^2, \qquad D = \Bigl(y + \frac1y\Bigr) g - \frac1y = y\,g - \frac{1 - g}{y}.

There are two readings of the largest inflation. If the stop may depend on the spectrum,

.. math:: \max_{\text{spectra } w} \min_{t} \sum_i w_i D^2(y_i, t)
          = \min_{\text{mixtures } \nu} \max_{y} \sum_j \nu_j D^2(y, t_j),

by duality of linear programming. If one stop serves all spectra, it is min over t of max over y of
D². In both, a mixture of stops proves an upper end: its sum of squares is at most ``cap`` at every
place y. In the second reading it has one stop. A spectrum proves a lower end: its sum is at least
``floor`` at every stop. In the second reading it is one place, which may depend on the stop.

Mixtures and spectra are found in floating point, which proves nothing. Then cells of places, or of
stops, are halved until the mean-value form in ball arithmetic proves the inequality on each.

Some methods have a parameter a, by which y is multiplied: heavy-ball flow the root of μ/λ*, and an
iteration the root of 1/ελ*. There every sum of squares Σ(aA - B/a)² is convex in log a. So a
mixture that is proven at both ends of a cell of a is proven in the whole cell, and the cells are
found by bisection.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from stoptime.bounds.balls import (  # isort: skip
    AdaptiveEnclosure, Box, Enclosure, Interval, WorkLimitError, arb, ball, centre_and_radius,
    downward, exact, squared, upward, verify,
)  # fmt: skip
from stoptime.methods.base import Filter
from stoptime.support.arrays import Array
from stoptime.theory.search import dips, lowest, lowest_between, stop_with_gain

Payoff = Callable[[Array, Array], Array]
"""The excess D² at some places, one row for each, and some stops, one column for each."""


class Strategy(NamedTuple):
    """A distribution on finitely many points: a mixture of stops, or a spectrum."""

    points: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, points: Array, weights: Array) -> Strategy:
        """Return the strategy with these points and weights, in proportion."""
        return cls(tuple(points.tolist()), tuple((weights / weights.sum()).tolist()))

    @classmethod
    def single(cls, point: float) -> Strategy:
        """Return the strategy that is one point."""
        return cls((float(point),), (1.0,))

    def mean(self, table: Array) -> Array:
        """Return the weighted mean of the columns of a table, one for each point."""
        return np.asarray(table @ np.array(self.weights))

    @property
    def shares(self) -> list[arb]:
        """The weights as balls whose sum is exactly one."""
        weights = [exact(weight) for weight in self.weights]
        total = sum(weights, exact(0))
        return [weight / total for weight in weights]

    def total(self, values: Iterable[arb]) -> arb:
        """Return the weighted mean of balls, one for each point."""
        pairs = zip(self.shares, values, strict=True)
        return sum((share * value for share, value in pairs), exact(0))


class Square(NamedTuple):
    """D at the centre of a cell, and a ball with the slope of D everywhere in the cell."""

    centre: arb
    slope: arb


def mean_of_squares(shares: Sequence[arb], squares: Sequence[Square], radius: arb) -> arb:
    """Return a ball with the weighted mean of D² everywhere in a cell, by the mean-value form."""
    centre = exact(0)
    slope = exact(0)
    for share, square in zip(shares, squares, strict=True):
        value = ball(square.centre, abs(square.slope) * radius)
        centre += share * squared(square.centre)
        slope += 2 * share * value * square.slope
    # Near a maximum of the sum the slopes of its terms cancel, so the ball is short there.
    return ball(centre, abs(slope) * radius)


def prove_at_most(sum_in: Callable[[arb, arb], arb], interval: Interval, cap: arb) -> None:
    """Prove that a sum is at most ``cap``, given a ball with it on a cell of centre and radius."""

    def holds(box: Box) -> bool:
        return bool(sum_in(*centre_and_radius(box[0])) <= cap)

    verify(holds, (interval,))


class Game(ABC):
    """A spectrum against a stop: places and stops, D in floating point and on cells of both."""

    places: Array
    """A fine grid of places; a last infinite one stands for all places beyond the grid."""
    stops: Array
    """A fine grid of stops; a last infinite one stands for all stops beyond the grid."""

    @abstractmethod
    def payoff(self, places: Array, stops: Array) -> Array:
        """Return D² in floating point; at infinity a cap on it, or a floor under it."""

    @abstractmethod
    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        """Return D at one stop on a cell of places."""

    @abstractmethod
    def over_stops(self, place: arb, stop: arb, radius: arb) -> Square:
        """Return D at one place on a cell of stops."""

    @abstractmethod
    def unproven_places(self, mixture: Strategy, cap: arb) -> Interval:
        """Return the places at which the cap is not proven by a tail or near zero."""

    @abstractmethod
    def late_floor(self, place: float) -> arb:
        """Return a floor under D² at one place, for all stops beyond the grid."""

    @property
    def searched_stops(self) -> Array:
        """A grid of stops on which the largest D² shows all its dips."""
        return self.stops[np.isfinite(self.stops)]

    def places_for(self, stop: float) -> Array:  # noqa: ARG002 - for games that use it
        """Return a grid of places that resolves D² at stops up to this one."""
        return self.places

    def place(self, point: float) -> arb:
        """Return the place of a witness as a ball, which certainly is one of the places."""
        return exact(point)

    def heights(self, stops: Array) -> Array:
        """Return the largest D² on the grid of places, at many stops, in floating point."""
        return np.asarray(self.payoff(self.places, stops).max(axis=0))

    def highest(self, mixture: Strategy) -> float:
        """Return the largest sum of a mixture, also between places of the grid."""
        points = np.array(mixture.points)

        def depth(places: Array) -> Array:
            sums = mixture.mean(self.payoff(places.ravel(), points))
            return -sums.reshape(places.shape)

        return -lowest(depth, self.places_for(max(mixture.points)), margin=0.05)[1]

    def lowest(self, spectrum: Strategy) -> float:
        """Return the least sum of a spectrum over all stops, also between those of the grid."""
        points = np.array(spectrum.points)

        def height(stops: Array) -> Array:
            sums = spectrum.mean(self.payoff(points, stops.ravel()).T)
            return sums.reshape(stops.shape)

        return lowest(height, self.stops, margin=0.05)[1]

    def best_stop(self, width: float) -> tuple[float, float]:
        """Return the stop whose largest D² is least, to a relative width, and this D²."""

        def height(log_stop: float) -> float:
            return self.highest(Strategy.single(math.exp(log_stop)))

        grid = np.log(self.searched_stops)
        heights = self.heights(self.searched_stops)
        # D² oscillates with the stop, so the best one may lie in any of a few dips.
        deepest = sorted(dips(heights).tolist(), key=lambda i: float(heights[i]))[:4]
        low_enough = 1.1 * heights[deepest].min(initial=np.inf)
        least, log_stop = min(
            _lowest_to(height, grid[i - 1], grid[i + 1], width)
            for i in deepest or [1]
            if heights[i] <= low_enough
        )
        return math.exp(log_stop), least

    def witness(self, stops: Interval) -> Strategy:
        """Return the place at which D² is largest at stops of a cell, in floating point."""
        stop = np.array([sum(stops) / 2])
        places = self.places_for(stop.item())

        def depth(places: Array) -> Array:
            return -self.payoff(places.ravel(), stop).reshape(places.shape)

        return Strategy.single(lowest(depth, places[np.isfinite(places)], margin=0.01)[0])

    def prove_cap(self, mixture: Strategy, cap: float) -> None:
        """Prove that the mixture has at most this excess at every place."""
        level = exact(cap)
        stops = [exact(stop) for stop in mixture.points]
        shares = mixture.shares

        def sum_in(place: arb, radius: arb) -> arb:
            squares = [self.over_places(stop, place, radius) for stop in stops]
            return mean_of_squares(shares, squares, radius)

        prove_at_most(sum_in, self.unproven_places(mixture, level), level)

    def prove_floor(self, spectrum: Strategy | None, floor: float) -> None:
        """Prove that every stop has at least this excess: on a spectrum, or at some place."""
        level = exact(floor)
        last = float(self.stops[np.isfinite(self.stops)][-1])
        used = spectrum or self.witness((last, math.inf))
        if not used.total(map(self.late_floor, used.points)) >= level:
            raise WorkLimitError("Not proven: no late stop is better than the best one.")

        def suffices(stop: arb, radius: arb) -> bool:
            squares = [self.over_stops(self.place(point), stop, radius) for point in used.points]
            return bool(mean_of_squares(used.shares, squares, radius) >= level)

        def holds(box: Box) -> bool:
            nonlocal used
            # The witness of the cell before often serves this one too, and looking is slower.
            cell = centre_and_radius(box[0])
            if suffices(*cell):
                return True
            if spectrum is not None:
                return False
            used = self.witness(box[0])
            return suffices(*cell)

        verify(holds, ((0.0, last),))


def _lowest_to(
    curve: Callable[[float], float], left: float, right: float, width: float
) -> tuple[float, float]:
    """Return the least height of a curve between two points, and its place to any width."""
    place = lowest_between(curve, left, right, max(width, 1e-7))
    if width < 1e-7:
        # The optimiser's tolerance is relative to its variable, which is now an offset.
        start = place
        place += lowest_between(lambda offset: curve(start + offset), -1e-6, 1e-6, width)
    return curve(place), place


class Solution(NamedTuple):
    """A mixture of stops with at most ``upper`` at every place; a spectrum, ``lower`` likewise."""

    mixture: Strategy
    spectrum: Strategy
    lower: float
    upper: float


def solve(payoff: Payoff, places: Array, stops: Array, tolerance: float) -> Solution:
    """Solve the game of the first reading on grids, up to a difference of both values.

    Stops that are whole numbers stay whole, because new points are taken from the grid.
    """
    # Each linear program has few points. The best answers of both players to its solution, found on
    # the fine grids, are added to it until neither has a better one.
    rows = _thinned(places)
    columns = _thinned(stops)
    for _ in range(25):  # mostly five to ten suffice
        mixture, spectrum, value = _equilibrium(payoff, rows, columns)
        risks = mixture.mean(payoff(places, np.array(mixture.points)))
        values = spectrum.mean(payoff(np.array(spectrum.points), stops).T)
        if risks.max() - values.min() <= tolerance:
            return Solution(mixture, spectrum, float(values.min()), float(risks.max()))
        rows = np.union1d(rows, places[_peaks(risks, value)])
        columns = np.union1d(columns, stops[_peaks(-values, -value)])
    raise WorkLimitError(
        f"The game of stop and spectrum is only solved to [{values.min():.6g}, {risks.max():.6g}]; "
        "use a larger tolerance."
    )


def solve_with_few_points(game: Game, places: Array, stops: Array, tolerance: float) -> Solution:
    """Solve the game of the first reading, with few points, and values that hold between grids."""
    found = solve(game.payoff, places, stops, tolerance)
    mixture, spectrum = (_merged(found.mixture), _merged(found.spectrum))
    return Solution(mixture, spectrum, game.lowest(spectrum), game.highest(mixture))


def estimated_game(method: Filter, tolerance: float = 1e-5) -> Solution:
    """Solve the game of a method without a scale of its own, in floating point and unproven.

    Places are √(s/λ*), and stops are those of the method for the penalty λ* = 1.
    """

    def payoff(places: Array, stops: Array) -> Array:
        x = (places**2)[:, None]
        return np.asarray(x * (method.gain(x, stops) * (1 + x) - 1) ** 2)

    places = np.geomspace(0.05, 40, 4000)
    stops = stop_with_gain(method) * np.geomspace(0.05, 20, 4000) ** (2 / method.time_power)
    return solve(payoff, places, stops, tolerance)


def _thinned(grid: Array) -> Array:
    # A linear program of this size takes a hundredth of a second.
    chosen = np.linspace(0, len(grid) - 1, min(150, len(grid)))
    return np.asarray(grid[np.unique(np.round(chosen).astype(int))])


def _equilibrium(payoff: Payoff, rows: Array, columns: Array) -> tuple[Strategy, Strategy, float]:
    """Return the best mixture of some stops, the spectrum of its dual, and their value."""
    table = payoff(rows, columns)
    # The variables are the weights of the stops and the value, which is to be least.
    found = linprog(
        np.append(np.zeros(len(columns)), 1.0),
        A_ub=np.hstack([table, np.full((len(rows), 1), -1.0)]),
        b_ub=np.zeros(len(rows)),
        A_eq=np.append(np.ones(len(columns)), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * len(columns) + [(None, None)],
        method="highs",
    )
    if not found.success:
        raise WorkLimitError(f"The linear program failed: {found.message}")
    mixture = _without_zeros(columns, found.x[:-1])
    return mixture, _without_zeros(rows, -found.ineqlin.marginals), float(found.fun)


def _without_zeros(points: Array, weights: Array) -> Strategy:
    kept = weights > 1e-9 * weights.max()  # smaller ones are rounding errors of the solver
    return Strategy.of(points[kept], weights[kept])


def _peaks(heights: Array, level: float) -> NDArray[np.intp]:
    """Return the indices of local maxima above a level, both ends included."""
    padded = np.concatenate([[-np.inf], heights, [-np.inf]])
    is_peak = (heights >= padded[:-2]) & (heights >= padded[2:]) & (heights > level)
    return np.flatnonzero(is_peak)


def _merged(strategy: Strategy) -> Strategy:
    """Replace close neighbours by one point each, which makes a proof shorter."""
    # The linear program divides a point between its neighbours on the grid. Points within two
    # thousandths change a sum of squares by a few millionths.
    points, weights = np.array(strategy)
    group = np.cumsum(np.append(True, np.diff(points) > 2e-3 * points[:-1])) - 1
    total = np.bincount(group, weights).astype(np.float64)
    with np.errstate(invalid="ignore"):  # an infinite point is alone in its group
        means = np.bincount(group, weights * points) / total
    return Strategy.of(means, total)


def corners(points: Array) -> Array:
    """Return those points (A, B) of a stop that can have the largest |D|, D = aA - B/a."""
    # D is linear in (A, B), so that a corner of the convex hull has its largest value. For few
    # points a convex hull costs more than it saves.
    return points if points.shape[1] < 200 else points[:, ConvexHull(points.T).vertices]


def largest(rows: list[Array], a: float) -> Array:
    """Return the largest |aA - B/a| among the points (A, B) of each row."""
    A, B = np.concatenate(rows, axis=1)
    starts = np.cumsum([0, *(row.shape[1] for row in rows[:-1])])
    return np.asarray(np.maximum.reduceat(np.abs(a * A - B / a), starts))


Claim = tuple[tuple[float, Strategy], ...]
"""Parameters a with mixtures: the mean of their sums is to be at most a cap at every place."""


class WorseParameter(Exception):  # noqa: N818 - it is news, and not an error
    """A parameter has a larger value than the one that was thought to be the worst."""

    def __init__(self, a: float) -> None:
        super().__init__(a)
        self.a = a


class Family(ABC):
    """The games of all parameters a > 0; the worst of their values is the constant."""

    @abstractmethod
    def answer(self, a: float) -> tuple[Strategy, float]:
        """Return the best mixture of one parameter, and a lower estimate of its value."""

    @abstractmethod
    def highest(self, claim: Claim) -> float:
        """Return the largest sum of a claim over all places, in floating point."""

    def estimate(self, a: float) -> float:
        """Return the value of one parameter roughly."""
        return self.answer(a)[1]

    def good_answer(self, a: float, cap: float) -> Strategy:
        """Return the best mixture, if its value is below the cap."""
        mixture, value = self.answer(a)
        if value > cap:
            raise WorseParameter(a)
        return mixture

    def claims(self, low: float, high: float, cap: float) -> list[Claim]:
        """Return claims that together prove the cap for all parameters between two."""
        # The sums of a mixture are convex in log a, so that both ends are enough.
        mixture = self.good_answer(math.sqrt(low * high), cap)
        return [((low, mixture),), ((high, mixture),)]

    def worst(self, low: float, high: float, width: float, step: float = 0.02) -> float:
        """Return the parameter with the largest value, found by a search in floating point.

        Values are estimated first at logarithms of parameters at the distance ``step``.
        """
        logs = np.linspace(math.log(low), math.log(high), 2 + int(math.log(high / low) / step))
        best = int(np.argmax([self.estimate(math.exp(log_a)) for log_a in logs.tolist()]))

        def value(log_a: float) -> float:
            return self.answer(math.exp(log_a))[1]

        # At the worst parameter two different mixtures may meet in a kink.
        around = logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]
        found = lowest_between(lambda log_a: -value(log_a), *around, width)
        return math.exp(max((found, float(logs[best])), key=value))

    def worst_near(self, a: float, width: float, step: float = 1e-3) -> float:
        """Return the parameter with the largest value near one that a search has missed."""
        found = self.worst(0.95 * a, 1.05 * a, width, step)
        return max((found, a), key=lambda one: self.answer(one)[1])

    def cover(self, low: float, high: float, cap: float) -> list[Claim]:
        """Return claims that prove the cap between two parameters, checked in floating point."""
        waiting = [(low, high)]
        found: dict[Claim, None] = {}
        for _ in range(4000):
            first, last = waiting.pop()
            claims = self.claims(first, last, cap)
            if all(self.highest(claim) <= cap for claim in claims):
                found |= dict.fromkeys(claims)
            else:
                middle = math.sqrt(first * last)
                waiting += [(middle, last), (first, middle)]
            if not waiting:
                return _extreme(list(found))
        raise WorkLimitError("The proof needs too many cells of problems: use a larger tolerance.")


def _extreme(claims: list[Claim]) -> list[Claim]:
    """Leave out what follows from convexity: a mixture at parameters between two others."""
    by_mixture: dict[Strategy, list[float]] = {}
    kept = [claim for claim in claims if len(claim) > 1]
    for claim in claims:
        if len(claim) == 1:
            by_mixture.setdefault(claim[0][1], []).append(claim[0][0])
    for mixture, parameters in by_mixture.items():
        kept += [((a, mixture),) for a in {min(parameters), max(parameters)}]
    return kept


def enclosure(
    floor: float, cap: float, stop: float, tolerance: float, games: Solution | None = None
) -> Enclosure:
    """Return the enclosure of 1 + D², given proven ends of D²; refuse one that is too wide.

    In the first reading ``games`` has the mixture, and the eigenvalues in the place of the places.
    """
    lower = downward(1 + exact(max(floor, 0.0)))
    upper = upward(1 + exact(cap))
    if upper - lower > tolerance * max(1.0, lower):
        raise WorkLimitError(
            f"The ratio is only known to lie in [{lower!r}, {upper!r}]; use a larger tolerance "
            f"than {tolerance:g}."
        )
    if games is None:
        return Enclosure(lower, upper, float(stop))
    # The weight of an eigenvalue x in the game is its share of the ridge risk. The risk of ridge in
    # one direction is proportional to 1/(1 + x), so the share of directions is larger by 1 + x.
    x, weights = np.array(games.spectrum)
    directions = weights * (1 + x)
    return AdaptiveEnclosure(
        lower,
        upper,
        float(stop),
        tuple(zip(*games.mixture, strict=True)),
        tuple(zip(x.tolist(), (directions / directions.sum()).tolist(), strict=True)),
    )
