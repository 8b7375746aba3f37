r"""Certificates of the methods whose shrinkage has one variable: all but heavy-ball flow.

With u = σy, y² = s/λ*, the excess over the risk of ridge is D², D = y·g(u) - (1 - g(u))/y, where σ
is the dimensionless stop τ, or its root where stops scale like 1/λ. The parameter error is the
supremum of h², h = c·φ - g, φ = (1 - g)/u². The page *Certificates* has all proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stoptime.bounds import balls, minimax
from stoptime.bounds.balls import Enclosure, arb, ball, exact, squared
from stoptime.bounds.filters import Cell, Shape
from stoptime.bounds.minimax import FlowGame, Square, Strategy, imbalance
from stoptime.support.arrays import Array
from stoptime.theory.search import lowest


def unit_of(shape: Shape) -> float:
    """Return the u, or the scale σ at y = 1, at which learning begins."""
    return 1 / math.sqrt(float(shape.gain_cap))


@dataclass(frozen=True)
class _FlowGame(FlowGame):
    """The game of a flow: places are y = √(s/λ*), and stops are the scales σ of u = σy.

    All places from ``last_place`` on count as one, with a cap on D² that holds for all of them;
    all stops from ``last_stop`` on, in units of the scale where learning begins, have a floor.
    """

    shape: Shape
    last_place: float = 8.0
    last_stop: float = 12.0
    points: int = 500  # of each of the two parts of both grids

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
    def searched_stops(self) -> Array:  # type: ignore[override]
        """A part of the stops: the largest D² changes slowly with the stop."""
        return self.stops[:-1:10]

    def payoff(self, places: Array, stops: Array) -> Array:
        beyond = np.isinf(places)
        late = np.isinf(stops)
        y = np.where(beyond, self.last_place, places)[:, None]
        u = y * np.where(late, self.stops[-2], stops)
        g = self.shape.in_floats(u)
        found = (y * g - (1 - g) / y) ** 2
        far = self._tails(u[beyond])
        found[beyond] = (self.last_place * far + (1 + far) / self.last_place) ** 2
        settled = self._tails(u[:, late])
        found[:, late] = np.maximum((1 - settled) / y - y * settled, 0.0) ** 2
        return np.asarray(found)

    def places_for(self, stop: float) -> Array:  # noqa: ARG002 - they resolve all
        return self.places[:-1]

    def to_stops(self, stops: Array) -> Array:
        return np.asarray(stops ** (2 // self.shape.order))

    def to_eigenvalues(self, places: Array) -> Array:
        return places**2

    def _tails(self, start: Array) -> Array:
        known = start >= self.shape.tail_start
        somewhere = 2 * self.shape.tail_start
        return np.where(known, self.shape.tail_in_floats(np.where(known, start, somewhere)), 1.0)

    def _tail(self, start: float) -> arb:
        # The product of two numbers was rounded: one below it is certainly not beyond it.
        start = math.nextafter(start, 0.0)
        return self.shape.tail(start) if start >= self.shape.tail_start else exact(math.inf)

    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        g = self.shape.cell(stop * place, stop * radius)
        return imbalance(
            Cell(place, ball(place, radius), exact(1)), g._replace(slopes=stop * g.slopes)
        )

    def over_stops(self, place: arb, stop: arb, radius: arb) -> Square:
        g = self.shape.cell(place * stop, place * radius)
        return imbalance(Cell(place, place, exact(0)), g._replace(slopes=place * g.slopes))

    def unproven_places(self, mixture: Strategy, cap: arb) -> balls.Interval:
        def beyond(place: float) -> arb:
            # |g| and y·|g| have caps that fall with y.
            y = exact(place)
            tails = (self._tail(sigma * place) for sigma in mixture.points)
            return mixture.total((y * g + (1 + g) / y) ** 2 for g in tails)

        last = balls.horizon(beyond, 1.01 * self.shape.tail_start / min(mixture.points), cap)
        # Near zero |D| = y·|g - φ| ≤ y·(1 + φ), with the gain φ in units of the penalty.
        gains = (exact(sigma) ** 2 * self.shape.gain_cap for sigma in mixture.points)
        steepest = mixture.total((1 + gain) ** 2 for gain in gains)
        return min(balls.downward((cap / steepest).sqrt()), last), last

    def late_floor(self, place: float) -> arb:
        g = self._tail(place * float(self.stops[-2])).min(exact(1))
        return minimax.small_shrinkage_floor(exact(place), g)


def flow_inflation(shape: Shape, stop: float | None, adaptive: bool, tolerance: float) -> Enclosure:
    """Enclose the ratio at one stop, at the best one, or at the best one of each spectrum."""
    if adaptive:
        # Farther horizons lose less of the game, and their proofs take longer; friction near 2
        # needs the last ones.
        horizons = ((8.0, 12.0), (16.0, 24.0), (80.0, 32.0))
        return minimax.adaptive_inflation(
            (_FlowGame(shape, *one, points=5000) for one in horizons), tolerance
        )
    game = _FlowGame(shape)
    if stop is None:
        return minimax.inflation([game], tolerance)
    # A given stop may be far from the best one, so the grid has the phases u = σy.
    sigma = stop ** (shape.order / 2)
    places = unit_of(shape) * np.geomspace(1e-3, 60, 3000) / sigma
    return minimax.enclosure(
        *game.largest(Strategy.single(sigma), tolerance / 2, places), stop, tolerance
    )


def flow_error(shape: Shape, calibration: float, tolerance: float, shift: int = 0) -> Enclosure:
    """Enclose the supremum of (shift + h)², with λ = c/t² or, where stops scale like 1/λ, c/t.

    With the shift 1 and c = 1 it is the largest variance over that of ridge: the gain is
    (1 + h)/(s + λ), and ridge has the gain 1/(s + λ).
    """
    c = exact(calibration)
    curvature = c * shape.gain_bend + shape.bend_cap

    def values(u: arb, radius: arb) -> arb:
        # Taylor's formula to second order; the curvature caps the second derivative everywhere.
        g = shape.shrinkage(u)
        g_slope = shape.slope(u)
        phi = (1 - g) / (u * u)
        slope = -c * (g_slope / u + 2 * phi) / u - g_slope
        variation = abs(slope) * radius + curvature * radius**2 / 2
        return squared(ball(shift + c * phi - g, variation))

    def in_floats(u: Array) -> Array:
        gain = shape.method.gain(u**2, 1.0)
        return np.asarray((shift + calibration * gain - shape.in_floats(u)) ** 2)

    def tail(start: float) -> arb:
        g = shape.tail(start)
        return (shift + c * (1 + g) / exact(start) ** 2 + g) ** 2

    # Up to the head no value exceeds that of the origin. The ratio of variances begins at
    # c·φ(0) ≤ 1, which is never its supremum.
    origin = squared(shift + c * shape.gain_cap - 1)
    head = 0.0 if shift else shape.head(c)
    return _on_all_scales(shape, values, in_floats, tail, origin, head, tolerance)


def flow_bias(shape: Shape, tolerance: float) -> Enclosure:
    """Enclose the largest squared bias over that of ridge with λ = 1/t² (or 1/t), (1 + u²)²·g²."""
    if not shape.square_tail(max(shape.tail_start, 3.0)).is_finite():
        raise ValueError(
            "The bias cannot be coupled: at λ = 1/t² it exceeds every multiple of ridge's bias at "
            "some eigenvalue, because the oscillation falls more slowly than 1/u². Friction of at "
            "least 4 is needed; see coupling_counterexample."
        )

    def values(u: arb, radius: arb) -> arb:
        g = shape.cell(u, radius)
        cell = ball(u, radius)
        slope = (1 + cell**2) * g.slopes + 2 * cell * g.values
        return squared(ball((1 + u**2) * g.centre, abs(slope) * radius))

    def in_floats(u: Array) -> Array:
        return np.asarray(((1 + u**2) * shape.in_floats(u)) ** 2)

    def tail(start: float) -> arb:
        return (shape.square_tail(start) * (1 + 1 / exact(start) ** 2)) ** 2

    # At the origin, before anything is learned, the ratio is 1.
    return _on_all_scales(shape, values, in_floats, tail, exact(1), 0.0, tolerance)


def _on_all_scales(
    shape: Shape,
    values: balls.Values,
    in_floats: Callable[[Array], Array],
    tail: Callable[[float], arb],
    origin: arb,
    head: float,
    tolerance: float,
) -> Enclosure:
    """Enclose the supremum of a function of u > 0, which is at most ``origin`` up to ``head``."""
    grid = np.union1d(np.geomspace(1e-3, 60, 2000), np.linspace(0.01, 60, 4000))
    peak, depth = lowest(lambda u: -in_floats(u), unit_of(shape) * grid, margin=0.05)
    attained = balls.downward(values(exact(peak), exact(0)))
    if attained <= origin:
        peak = 0.0
        attained = balls.downward(origin)
    cap = minimax.slightly_above(attained, tolerance)
    # A limit at the origin that is clearly the largest value is proven to be exactly that.
    if peak == 0 and head > 0 and -depth < attained * (1 - 1e-9):
        cap = balls.upward(origin)
    end = balls.horizon(tail, max(shape.tail_start, 3.0), exact(cap))
    balls.prove_cap(values, (min(head, end), end), exact(cap))
    return Enclosure(attained, cap, peak ** (2 // shape.order))
