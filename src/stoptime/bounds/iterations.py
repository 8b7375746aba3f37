"""Certificates of iterations at one step: at one stop for all spectra, or the best one of each.

With y = εs = sin²θ and ρ² = ελ* the excess is D², D = y'g - (1 - g)/y' with y' = sin θ/ρ. Caps are
proven by the polynomials themselves (:mod:`stoptime.bounds.iterates`), and floors under all stops
one by one, with a floor under all late ones.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    Enclosure, Interval, WorkLimitError, arb, ball, downward, exact, horizon, squared, upward,
)  # fmt: skip
from stoptime.bounds.filters import Cell

from stoptime.bounds.iterates import (  # isort: skip
    LONGEST_LOOP, Chebyshev, Gegenbauer, as_balls, loop_excess, loop_precision, polynomial_excess,
    run_loop,
)  # fmt: skip
from stoptime.bounds.minimax import (  # isort: skip
    CellGame, Game, Square, Strategy, adaptive_enclosure, enclosure, imbalance,
    small_shrinkage_floor, solve,
)  # fmt: skip
from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.support.arrays import Array
from stoptime.theory.search import stop_with_gain

PROVEN_ITERATIONS = (GradientDescent, Nesterov, NuMethod, HeavyBall)
QUARTER = math.nextafter(math.pi / 2, 2.0)  # the angle of y = 1, rounded up


@dataclass(frozen=True)
class _StepGame(Game):
    """The game of an iteration at one step: places are the angles θ, and stops are iterations.

    All iterations from ``last`` on count as one, with a floor under D². Infinity stands for them.
    """

    method: Any
    rho: arb
    reach: Interval = (0.0, 1.0)
    """The range of εs."""
    last: int = 1
    longest: ClassVar[float]
    """The longest εL for which the proofs hold."""

    @abstractmethod
    def at(self, k: int) -> Any:
        """Return iterate k: its shrinkage, and a cap on what comes later."""

    @cached_property
    def places(self) -> Array:  # type: ignore[override]
        # The fastest iterate has ``last`` zeros, and eight points resolve each oscillation.
        count = max(3000, 8 * self.last) if self.method.has_momentum else 3000
        even = np.linspace(0.0, math.pi / 2, count + 1)[1:]
        return np.union1d(even, np.geomspace(1e-2 / self.last, math.pi / 2, 3000))

    @cached_property
    def stops(self) -> Array:  # type: ignore[override]
        return np.append(np.arange(self.last, dtype=float), np.inf)

    def places_for(self, stop: float) -> Array:
        """Return angles that show all peaks of |D| up to an iterate, for all εs in reach."""
        # The peak is at a few units of the phase, but for fast oscillations of early iterates.
        unit = self.method.with_params(step=1.0)
        slow = 8.5 / math.sqrt(max(1.0, float(unit.as_flow().gain(0.0, unit.pace * stop))))
        count = 500 + math.ceil(200 * (stop + 1) * getattr(unit, "eta", 0.0) ** (stop / 4))
        even = np.linspace(0.0, QUARTER, count)
        grid = np.union1d(even, np.linspace(0.0, min(QUARTER, slow), 1500))[1:]
        return np.append(grid[grid < self.last_angle], self.last_angle)

    @property
    def last_angle(self) -> float:
        """The angle of the largest εs, rounded up."""
        return QUARTER if self.reach[1] >= 1 else upward(exact(self.reach[1]).sqrt().asin())

    def shrinkages(self, theta: Array, stops: Array) -> Array:
        """Return the shrinkage at some angles, one row for each, and some iterations."""
        unit = self.method.with_params(step=1.0)
        return np.asarray(unit.shrinkage(np.sin(theta)[:, None] ** 2, stops.astype(int)))

    @cached_property
    def _later(self) -> Array:
        """The largest shrinkage at some later stops, at all places."""
        some = np.linspace(self.last, 2 * self.last, 40)
        return np.asarray(np.abs(self.shrinkages(self.places, some)).max(axis=1))

    def payoff(self, places: Array, stops: Array) -> Array:
        early = np.isfinite(stops)
        g = np.empty((len(places), len(stops)))
        g[:, early] = self.shrinkages(places, stops[early])
        if not early.all():
            g[:, ~early] = self._later[np.searchsorted(self.places, places)][:, None]
        y = (np.sin(places) / float(self.rho))[:, None]
        d = (y + 1 / y) * g - 1 / y
        # A later shrinkage may have either sign, so that only a bias below the variance counts.
        d[:, ~early] = np.minimum(d[:, ~early], 0.0)
        return np.asarray(d**2)

    def excess(self, theta: arb, g: arb) -> arb:
        """Return D² at an angle, for a shrinkage there."""
        y = theta.sin() / self.rho
        return squared(y * g - (1 - g) / y)

    def early_floors(self, spectrum: Strategy) -> Iterable[arb]:
        """Return the sum of a spectrum at each stop before the last one."""
        thetas = [exact(angle) for angle in spectrum.points]
        with loop_precision(self.last):
            loop = as_balls(self.method.update(k) for k in range(1, self.last))
            runs = [list(run_loop(loop, theta.sin() ** 2)) for theta in thetas]
        for shrinkages in zip(*runs, strict=True):
            yield spectrum.total(map(self.excess, thetas, shrinkages))

    def late_stops_are_worse(self, spectrum: Strategy, floor: float, last: int) -> bool:
        """Whether a spectrum certainly has at least this excess at all stops from ``last`` on."""
        iterate = self.at(last)
        angles = map(exact, spectrum.points)
        floors = (small_shrinkage_floor(t.sin() / self.rho, iterate.later(t)) for t in angles)
        return bool(spectrum.total(floors) >= exact(floor))

    def late_witness(self, floor: float) -> Strategy:
        """Return an angle at which the variance alone exceeds the floor where nothing is left."""
        return Strategy.single(math.asin(min(1.0, float(self.rho) / (2 * math.sqrt(floor)))))


@dataclass(frozen=True)
class _GegenbauerGame(CellGame, _StepGame):
    """Gradient descent, Nesterov's method and the ν-method."""

    longest: ClassVar[float] = 1 + 1e-12  # rounding may raise εL above 1 where the step is 1/L

    def at(self, k: int) -> Gegenbauer:
        method = self.method
        if isinstance(method, NuMethod):
            return Gegenbauer(0, 2 * k, 2 * method.nu)
        # Before the second step Nesterov's method, and without momentum every iteration, is
        # gradient descent.
        if k <= 1 or not method.has_momentum:
            return Gegenbauer(2 * k, 0, 1.0)
        return Gegenbauer(k + 1, k - 1, method.friction / 2)

    def over_places(self, stop: arb, place: arb, radius: arb) -> Square:
        cell = ball(place, radius)
        y = Cell(place.sin() / self.rho, cell.sin() / self.rho, cell.cos() / self.rho)
        return imbalance(y, self.at(int(float(stop))).cell(place, radius))

    def unproven_places(self, mixture: Strategy, cap: arb) -> Interval:
        iterates = [self.at(int(k)) for k in mixture.points]

        def tail(start: float) -> arb:
            if start >= self.last_angle:
                return exact(0)
            y = exact(start).sin() / self.rho
            envelopes = (iterate.tail(start) for iterate in iterates)
            return mixture.total((y * e + (1 + e) / y) ** 2 for e in envelopes)

        # As 1 - g ≤ θ²·E T²/2 and θ ≤ (π/2)·sin θ, the bracket is 1 + φ at most, and
        # |D| ≤ y·(1 + φ) with y = sin θ/ρ ≤ θ/ρ.
        bends = [iterate.bend_cap for iterate in iterates]
        steepest = mixture.total((1 + bend * self.rho**2 * exact(1.25)) ** 2 for bend in bends)
        unit = 1 / math.sqrt(max(1.0, *map(float, bends)))
        end = min(horizon(tail, unit, cap), self.last_angle)
        return min(downward(self.rho * (cap / steepest).sqrt()), end), end

    def largest(
        self, mixture: Strategy, tolerance: float, places: Array | None = None
    ) -> tuple[float, float]:
        attained, cap = super().largest(mixture, tolerance, places)
        return attained, cap if self.reach[1] <= 1 else self._slightly_beyond(mixture, cap)

    def _slightly_beyond(self, mixture: Strategy, proven: float) -> float:
        """Return a cap up to an εL that rounding has raised above 1, given one up to 1."""
        # No polynomial of the degree n of D² that is at most M on [0, 1] exceeds M·T_n(2y - 1)
        # beyond 1 (Chebyshev).
        iterate = self.at(int(mixture.heaviest))
        end, cap = exact(self.reach[1]), exact(proven)
        growth = (2 * end - 1).chebyshev_t(iterate.power + iterate.degree + 1)
        # With cos θ = iτ, τ² = y - 1: the polynomial is a mean of T_j(iτ), j up to its degree.
        tau = (end - 1).sqrt()
        g = tau**iterate.power * (iterate.degree * tau.asinh()).cosh()
        direct = (end.sqrt() / self.rho * g + (1 + g) * self.rho) ** 2
        return upward((cap * growth).min(cap.max(direct)))


@dataclass(frozen=True)
class _HeavyBallStepGame(_StepGame):
    """The iterates of the heavy ball with a constant momentum."""

    longest: ClassVar[float] = math.inf

    def at(self, k: int) -> Chebyshev:
        return Chebyshev(k, self.method.eta)

    def largest(self, mixture: Strategy, tolerance: float) -> tuple[float, float]:
        iterates = [self.at(int(k)) for k in mixture.points]
        k = int(max(mixture.points))

        def shrinkages(y: arb) -> list[arb]:
            return [iterate.polynomial(y) for iterate in iterates]

        return polynomial_excess(shrinkages, mixture, k, self.rho, self.reach, tolerance)


def step_game(method: Any, rho: arb | None = None, reach: Interval = (0.0, 1.0)) -> _StepGame:
    """Return the game of a method that has certified constants, by default at its step ελ*."""
    rho = exact(method.epsilon).sqrt() if rho is None else rho
    if type(method) is HeavyBall:
        if isinstance(method.momentum, str) or not method.follows_flow:
            raise ValueError(
                "The constant of HeavyBall depends on its momentum: give the momentum as a number."
            )
        return _HeavyBallStepGame(method, rho, reach)
    if not method.universal_guarantee:
        raise ValueError(
            f"No bound of {method} is proven: it needs a constant step, friction ≥ 2 without a "
            "constant momentum, or ν ≥ 1/2."
        )
    return _GegenbauerGame(method, rho, reach)


def step_inflation(method: Any, stop: int | None, tolerance: float) -> Enclosure:
    """Enclose C at the step ελ* of the method, for a given stop or the best one."""
    game = step_game(method)
    if stop is not None:
        return enclosure(*game.largest(Strategy.single(stop), tolerance / 2), stop, tolerance)
    angles, heights = _peaks(game)
    k = int(np.argmin(heights))
    attained, cap = game.largest(Strategy.single(k), 0.7 * tolerance)
    floor = max(0.0, attained - 0.2 * tolerance * max(1.0, attained))
    prove_floor_by_angles(game, floor, angles)
    return enclosure(floor, cap, k, tolerance)


def prove_floor_by_angles(game: _StepGame, floor: float, angles: Array) -> None:
    """Prove that every stop has an angle with D² ≥ floor; early stops have the given ones."""
    thetas = map(exact, angles.tolist())
    _prove_floors(
        (game.excess(theta, game.at(k).shrinkage(theta)) for k, theta in enumerate(thetas)), floor
    )
    if not game.late_stops_are_worse(game.late_witness(floor), floor, len(angles)):
        raise WorkLimitError("Not proven: every late stop is worse than the best one.")


def _prove_floors(values: Iterable[arb], floor: float) -> None:
    for k, value in enumerate(values):
        if not value >= exact(floor):
            raise WorkLimitError(f"Not proven: the stop {k} is no better than the best one.")


def _peaks(game: _StepGame) -> tuple[Array, Array]:
    """Return the angle where D² is largest, and D² there, at every stop that may be best."""
    rho = float(game.rho)
    first = 2 ** math.ceil(math.log2(stop_with_gain(game.method) + 8))
    theta = QUARTER / 1.001 ** np.arange(math.log(50 * first) / math.log(1.001))
    y = np.sin(theta) / rho
    found: list[tuple[float, float]] = []
    run = game.method.with_params(step=1.0).run(np.sin(theta) ** 2, np.array(1.0))
    for last in 2 ** np.arange(math.log2(first), 14.5).astype(int):
        for g in islice(run, int(last) - len(found)):
            excess = (y * g - (1 - g) / y) ** 2
            found.append((theta[excess.argmax()], excess.max()))
        angles, heights = np.array(found).T
        # The peaks of fast oscillations lie between these angles, and a good stop needs a close
        # look.
        for k in np.flatnonzero(heights < 1.06 * heights.min()).tolist():
            fine = game.places_for(k)
            excess = game.payoff(fine, np.array([float(k)]))[:, 0]
            if excess.max() > heights[k]:
                angles[k], heights[k] = fine[excess.argmax()], excess.max()
        best = heights.min()
        if game.late_stops_are_worse(game.late_witness(best), best, len(found)):
            return angles, heights
    raise WorkLimitError(
        f"At the step {game.method.epsilon:g} the proof that no stop is better than the best one "
        "would take too long: give the stop, or take a larger step."
    )


def step_ratio(method: Any, tolerance: float) -> Enclosure:
    """Enclose the ratio at the step ελ* where the stop may depend on the spectrum."""
    # A floor under all late stops is certain only if they are late enough.
    for factor in (4, 8, 16, 32, 64):
        last = factor * math.ceil(stop_with_gain(method)) + 16
        game = replace(step_game(method), last=last)
        # A linear program is solved a few times, and each time all of these values are computed.
        if last * len(game.places) > 5e8:
            raise WorkLimitError(
                f"At the step {method.epsilon:g} the game has {last} stops, which would take too "
                "long: take a larger step, or the flow, which such short steps follow."
            )
        below = solve(game.payoff, game.places, game.stops, tolerance / 4)
        floor = max(0.0, below.lower - 0.1 * tolerance)
        if game.late_stops_are_worse(below.spectrum, floor, last):
            break
    else:
        raise WorkLimitError("Not proven: no late stop is better on the worst spectrum.")
    above = solve(game.payoff, game.places, game.stops[:-1], tolerance / 4)
    _, cap = game.largest(above.mixture, 0.4 * tolerance)
    _prove_floors(game.early_floors(below.spectrum), floor)
    eigenvalues = below.spectrum.moved(lambda theta: np.sin(theta) ** 2 / method.epsilon)
    return adaptive_enclosure(floor, cap, tolerance, above.mixture, eigenvalues)


def iterate_guarantee(method: Any, stop: int, penalty: float, eigenvalues: Interval) -> Enclosure:
    """Enclose the largest inflation of one iterate for eigenvalues in a range."""
    step = exact(method.epsilon)
    rho = (step * exact(penalty)).sqrt()
    reach = (downward(step * eigenvalues[0]), upward(step * eigenvalues[1]))
    game = None
    if type(method) in PROVEN_ITERATIONS:
        # Parameters for which there is no closed form are refused.
        with suppress(ValueError):
            game = step_game(method, rho, reach)
    if game is not None and reach[1] <= game.longest:
        attained, cap = game.largest(Strategy.single(stop), 1e-5)
    else:
        steps = [method.update(k) for k in range(1, min(stop, LONGEST_LOOP + 1) + 1)]
        attained, cap = loop_excess(steps, rho, reach, 1e-5)
    # A plan promises no width: only the upper end is used.
    return Enclosure(downward(1 + exact(attained)), upward(1 + exact(cap)), stop)
