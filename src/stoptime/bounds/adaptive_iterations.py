r"""The ratio of the paper's theorem for an iteration with a given step, stopped after whole steps.

With y = εs in [0, 1] and ρ² = ελ*, x = y/ρ², the excess of iterate k is D² = ((1 + x)g - 1)²/x, a
polynomial of degree 2k + 1 in y. So is the excess of a mixture of iterates, and Bernstein's
inequality bounds it between finitely many points (module ``loops``). On a spectrum the excess of
every iterate up to a late one is evaluated, and later ones have little shrinkage left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from stoptime.bounds.adaptive import (  # isort: skip
    GAME_SHARE, ROOM_SHARE, enclosure, late_floor, shares, weighted,
)  # fmt: skip
from stoptime.bounds.balls import (
    PRECISION,
    AdaptiveEnclosure,
    WorkLimitError,
    arb,
    exact,
    squared,
    working_precision,
)
from stoptime.bounds.every_step import AnyIterates
from stoptime.bounds.games import Strategy, solve
from stoptime.bounds.loops import LOST_BITS, as_balls, largest_value, run_loop
from stoptime.support.arrays import Array
from stoptime.theory.search import stop_with_gain


def iteration_ratio(
    method: Any, iterates: AnyIterates, _: None, tolerance: float
) -> AdaptiveEnclosure:
    """Enclose the ratio at the step ελ* of the method, for eigenvalues up to 1/ε."""
    last = iterates.last(stop_with_gain(method))
    # A floor under all late stops is certain only if they are late enough.
    for factor in (1, 2, 4):
        game = IterationGame(method, factor * last)
        below = solve(game.payoff, game.places, game.stops, GAME_SHARE * tolerance)
        floor = max(0.0, below.lower - ROOM_SHARE * tolerance)
        if game.late_stops_are_worse(iterates, below.spectrum, floor):
            break
    else:
        raise WorkLimitError("Not proven: no late stop is better on the worst spectrum.")
    above = solve(game.payoff, game.places, game.stops[:-1], GAME_SHARE * tolerance)
    cap = game.prove_cap(above.mixture, 4 * ROOM_SHARE * tolerance)
    if cap - floor > tolerance * (1 + floor):
        raise WorkLimitError(
            f"The ratio is only known to lie near [{1 + floor:.6g}, {1 + cap:.6g}]; use a larger "
            f"tolerance than {tolerance:g}."
        )
    game.prove_floor(below.spectrum, floor)
    eigenvalues = np.sin(below.spectrum.points) ** 2 / method.epsilon
    return enclosure(floor, cap, above.mixture, below.spectrum._replace(points=eigenvalues))


@dataclass(frozen=True)
class IterationGame:
    """The game of one step: places are the angles θ of y = sin²θ, and stops are iterations.

    All iterations from ``last`` on count as one, with a floor under D². Infinity stands for them.
    """

    method: Any
    last: int

    def __post_init__(self) -> None:
        # The work grows with the third power of the number of stops.
        if self.last > 3000:
            raise WorkLimitError(
                f"At the step {self.method.epsilon:g} the game has {self.last} stops, which would "
                "take too long: take a larger step, or the flow."
            )

    @cached_property
    def places(self) -> Array:
        """A fine grid of angles, which is finer where the first directions are learned."""
        # The fastest iterate has ``last`` zeros, and eight points resolve each oscillation.
        even = np.linspace(0.0, math.pi / 2, max(3000, 8 * self.last) + 1)[1:]
        return np.union1d(even, np.geomspace(1e-2 / self.last, math.pi / 2, 3000))

    @cached_property
    def stops(self) -> Array:
        """All iterations before the last one, and infinity."""
        return np.append(np.arange(self.last, dtype=float), np.inf)

    @cached_property
    def _shrinkages(self) -> Array:
        """The shrinkage of all iterations at all places, and at last the largest one later."""
        unit = self.method.with_params(step=1.0)
        run = unit.run(np.sin(self.places) ** 2, np.array(1.0))
        table = np.zeros((self.last + 1, len(self.places)))
        for k, g in enumerate(islice(run, 2 * self.last)):
            if k < self.last:
                table[k] = g
            else:
                np.maximum(table[-1], np.abs(g), out=table[-1])
        return table

    def payoff(self, theta: Array, stops: Array) -> Array:
        """Return D² in floating point, at infinity a floor under it."""
        rows = np.searchsorted(self.places, theta)
        columns = np.where(np.isfinite(stops), stops, self.last).astype(int)
        g = self._shrinkages[np.ix_(columns, rows)].T
        root = (np.sin(theta) / math.sqrt(self.method.epsilon))[:, None]
        d = (root + 1 / root) * g - 1 / root
        # A later shrinkage may have either sign, so that only a bias below the variance counts.
        d[:, np.isinf(stops)] = np.minimum(d[:, np.isinf(stops)], 0.0)
        return np.asarray(d**2)

    def prove_cap(self, mixture: Strategy, tolerance: float) -> float:
        """Return a proven cap on the excess of the mixture at all eigenvalues up to 1/ε."""
        weights = dict(zip(mixture.points.astype(int).tolist(), shares(mixture), strict=True))
        longest = max(weights)
        rho_squared = exact(self.method.epsilon)

        def excess(y: arb) -> arb:
            x = y / rho_squared
            squares = (
                weights[k] * squared((1 + x) * g - 1)
                for k, g in enumerate(run_loop(self._steps[:longest], y))
                if k in weights
            )
            return sum(squares, exact(0)) / x

        with working_precision(PRECISION + math.ceil(LOST_BITS * longest)):
            return largest_value(excess, 2 * longest + 1, (0.0, 1.0), tolerance).cap

    def late_stops_are_worse(self, iterates: AnyIterates, spectrum: Strategy, floor: float) -> bool:
        """Try to prove that the spectrum has at least this excess from the last iteration on."""
        last = iterates.at(self.last)
        late = [
            late_floor(y, last.later(theta))
            for y, theta in zip(*self._roots(spectrum), strict=True)
        ]
        return bool(weighted(shares(spectrum), late) >= exact(floor))

    def prove_floor(self, spectrum: Strategy, floor: float) -> None:
        """Prove that the spectrum has at least this excess at every earlier iteration."""
        weights = shares(spectrum)
        level = exact(floor)
        roots, angles = self._roots(spectrum)
        with working_precision(PRECISION + math.ceil(LOST_BITS * self.last)):
            runs = [run_loop(self._steps, theta.sin() ** 2) for theta in angles]
            for shrinkages in zip(*runs, strict=True):
                squares = [
                    squared((y + 1 / y) * g - 1 / y) for y, g in zip(roots, shrinkages, strict=True)
                ]
                if not weighted(weights, squares) >= level:
                    raise WorkLimitError("Not proven: no stop is better on the worst spectrum.")

    def _roots(self, spectrum: Strategy) -> tuple[list[arb], list[arb]]:
        """Return y = √(s/λ*) of a spectrum, and its angles."""
        rho = exact(self.method.epsilon).sqrt()
        angles = [exact(theta) for theta in spectrum.points.tolist()]
        return [theta.sin() / rho for theta in angles], angles

    @cached_property
    def _steps(self) -> list[tuple[arb, ...]]:
        return as_balls(self.method.update(k) for k in range(1, self.last + 1))
