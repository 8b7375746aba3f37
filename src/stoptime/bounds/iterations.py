"""Certificates of iterations at one step: at one stop for all spectra, or the best one of each.

With y = εs = sin²θ and ρ² = ελ* the excess is D², D = y'g - (1 - g)/y' with y' = sin θ/ρ. Caps are
proven by the polynomials themselves (:mod:`stoptime.bounds.iterates`), and floors under all stops
one by one, with a floor under all late ones.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    Enclosure, Interval, WorkLimitError, arb, downward, exact, squared, upward,
)  # fmt: skip

from stoptime.bounds.iterates import (  # isort: skip
    LONGEST_LOOP, PROVEN_ITERATIONS, QUARTER, Iterates, iterates_of, loop_excess,
)  # fmt: skip
from stoptime.bounds.minimax import Solution, Strategy, enclosure, small_shrinkage_floor, solve
from stoptime.support.arrays import Array
from stoptime.theory.search import stop_with_gain


def step_inflation(method: Any, stop: int | None, tolerance: float) -> Enclosure:
    """Enclose C at the step ελ* of the method, for a given stop or the best one."""
    rho = exact(method.epsilon).sqrt()
    iterates = iterates_of(method)
    if stop is not None:
        found = iterates.largest_excess(Strategy.single(stop), rho, (0.0, 1.0), tolerance / 2)
        return enclosure(*found, stop, tolerance)
    angles, heights = _peaks(method, iterates)
    k = int(np.argmin(heights))
    best = Strategy.single(k)
    attained, cap = iterates.largest_excess(best, rho, (0.0, 1.0), 0.7 * tolerance)
    floor = max(0.0, attained - 0.2 * tolerance * max(1.0, attained))
    prove_step_floor(iterates, rho, floor, angles)
    return enclosure(floor, cap, k, tolerance)


def _peaks(method: Any, iterates: Iterates) -> tuple[Array, Array]:
    """Return the angle where D² is largest, and D² there, at every stop that may be best."""
    rho = math.sqrt(method.epsilon)
    first = 2 ** math.ceil(math.log2(stop_with_gain(method) + 8))
    theta = QUARTER / 1.001 ** np.arange(math.log(50 * first) / math.log(1.001))
    y = np.sin(theta) / rho
    found: list[tuple[float, float]] = []
    run = method.with_params(step=1.0).run(np.sin(theta) ** 2, np.array(1.0))
    for last in 2 ** np.arange(math.log2(first), 14.5).astype(int):
        for g in islice(run, int(last) - len(found)):
            excess = (y * g - (1 - g) / y) ** 2
            found.append((theta[excess.argmax()], excess.max()))
        angles, heights = np.array(found).T
        # The peaks of fast oscillations lie between these angles, and a good stop needs a close
        # look.
        for k in np.flatnonzero(heights < 1.06 * heights.min()).tolist():
            fine = iterates.angles(k)
            excess = iterates.excess_in_floats(Strategy.single(k), rho, fine)
            if excess.max() > heights[k]:
                angles[k], heights[k] = fine[excess.argmax()], excess.max()
        late = _late_witness(rho, heights.min())
        if late_stops_are_worse(iterates, exact(rho), late, heights.min(), len(found)):
            return angles, heights
    raise WorkLimitError(
        f"At the step {method.epsilon:g} the proof that no stop is better than the best one would "
        "take too long: give the stop, or take a larger step."
    )


def _late_witness(rho: float, floor: float) -> Strategy:
    """Return an angle at which the variance alone exceeds the floor where nothing is left."""
    return Strategy.single(math.asin(min(1.0, rho / (2 * math.sqrt(floor)))))


def late_stops_are_worse(
    iterates: Iterates, rho: arb, spectrum: Strategy, floor: float, last: int
) -> bool:
    """Whether the spectrum certainly has at least this excess at all stops from ``last`` on."""
    iterate = iterates.at(last)
    angles = map(exact, spectrum.points)
    floors = (small_shrinkage_floor(t.sin() / rho, iterate.later(t)) for t in angles)
    return bool(spectrum.total(floors) >= exact(floor))


def _excess(rho: arb, theta: arb, g: arb) -> arb:
    y = theta.sin() / rho
    return squared(y * g - (1 - g) / y)


def prove_step_floor(iterates: Iterates, rho: arb, floor: float, angles: Array) -> None:
    """Prove that every stop has an angle with D² ≥ floor; early stops have the given ones."""
    for k, angle in enumerate(angles.tolist()):
        theta = exact(angle)
        if not _excess(rho, theta, iterates.at(k).shrinkage(theta)) >= exact(floor):
            raise WorkLimitError(f"Not proven: the stop {k} is no better than the best one.")
    late = _late_witness(float(rho), floor)
    if not late_stops_are_worse(iterates, rho, late, floor, len(angles)):
        raise WorkLimitError("Not proven: every late stop is worse than the best one.")


def step_ratio(method: Any, tolerance: float) -> Enclosure:
    """Enclose the ratio at the step ελ* where the stop may depend on the spectrum."""
    iterates = iterates_of(method)
    rho = exact(method.epsilon).sqrt()
    # A floor under all late stops is certain only if they are late enough.
    for factor in (4, 8, 16, 32, 64):
        game = _IterationGame(method, factor * math.ceil(stop_with_gain(method)) + 16)
        below = solve(game.payoff, game.places, game.stops, tolerance / 4)
        floor = max(0.0, below.lower - 0.1 * tolerance)
        if late_stops_are_worse(iterates, rho, below.spectrum, floor, game.last):
            break
    else:
        raise WorkLimitError("Not proven: no late stop is better on the worst spectrum.")
    above = solve(game.payoff, game.places, game.stops[:-1], tolerance / 4)
    _, cap = iterates.largest_excess(above.mixture, rho, (0.0, 1.0), 0.4 * tolerance)
    thetas = [exact(angle) for angle in below.spectrum.points]
    early = zip(*(iterates.first(theta, game.last) for theta in thetas), strict=True)
    for k, shrinkages in enumerate(early):
        squares = (_excess(rho, *pair) for pair in zip(thetas, shrinkages, strict=True))
        if not below.spectrum.total(squares) >= exact(floor):
            raise WorkLimitError(f"Not proven: the stop {k} is no better on the worst spectrum.")
    angles, weights = np.array(below.spectrum)
    spectrum = Strategy.of(np.sin(angles) ** 2 / method.epsilon, weights)
    games = Solution(above.mixture, spectrum, floor, cap)
    return enclosure(floor, cap, above.mixture.heaviest, tolerance, games)


@dataclass(frozen=True)
class _IterationGame:
    """The game of one step in floating point: places are the angles θ, and stops are iterations.

    All iterations from ``last`` on count as one, with a floor under D². Infinity stands for them.
    """

    method: Any
    last: int

    def __post_init__(self) -> None:
        # A linear program is solved a few times, and each time all of these values are computed.
        if self.last * len(self.places) > 5e8:
            raise WorkLimitError(
                f"At the step {self.method.epsilon:g} the game has {self.last} stops, which would "
                "take too long: take a larger step, or the flow, which such short steps follow."
            )

    @cached_property
    def places(self) -> Array:
        # The fastest iterate has ``last`` zeros, and eight points resolve each oscillation.
        count = max(3000, 8 * self.last) if self.method.has_momentum else 3000
        even = np.linspace(0.0, math.pi / 2, count + 1)[1:]
        return np.union1d(even, np.geomspace(1e-2 / self.last, math.pi / 2, 3000))

    @cached_property
    def stops(self) -> Array:
        return np.append(np.arange(self.last, dtype=float), np.inf)

    @cached_property
    def _later(self) -> Array:
        """The largest shrinkage at some later stops, at all places."""
        some = np.linspace(self.last, 2 * self.last, 40)
        return np.asarray(np.abs(self._shrinkages(self.places, some)).max(axis=1))

    def _shrinkages(self, theta: Array, stops: Array) -> Array:
        unit = self.method.with_params(step=1.0)
        return np.asarray(unit.shrinkage(np.sin(theta)[:, None] ** 2, stops.astype(int)))

    def payoff(self, theta: Array, stops: Array) -> Array:
        early = np.isfinite(stops)
        g = np.empty((len(theta), len(stops)))
        g[:, early] = self._shrinkages(theta, stops[early])
        if not early.all():
            g[:, ~early] = self._later[np.searchsorted(self.places, theta)][:, None]
        root = (np.sin(theta) / math.sqrt(self.method.epsilon))[:, None]
        d = (root + 1 / root) * g - 1 / root
        # A later shrinkage may have either sign, so that only a bias below the variance counts.
        d[:, ~early] = np.minimum(d[:, ~early], 0.0)
        return np.asarray(d**2)


def iterate_guarantee(method: Any, stop: int, penalty: float, eigenvalues: Interval) -> Enclosure:
    """Enclose the largest inflation of one iterate for eigenvalues in a range."""
    step = exact(method.epsilon)
    rho = (step * exact(penalty)).sqrt()
    reach = (downward(step * eigenvalues[0]), upward(step * eigenvalues[1]))
    iterates = None
    if type(method) in PROVEN_ITERATIONS:
        # Parameters for which there is no closed form are refused.
        with suppress(ValueError):
            iterates = iterates_of(method)
    if iterates is not None and reach[1] <= iterates.longest:
        attained, cap = iterates.largest_excess(Strategy.single(stop), rho, reach, 1e-5)
    else:
        steps = [method.update(k) for k in range(1, min(stop, LONGEST_LOOP + 1) + 1)]
        attained, cap = loop_excess(steps, rho, reach, 1e-5)
    # A plan promises no width: only the upper end is used.
    return Enclosure(downward(1 + exact(attained)), upward(1 + exact(cap)), stop)
