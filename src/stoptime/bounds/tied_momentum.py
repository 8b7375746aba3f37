"""Certificates of the heavy ball whose momentum is tied to its step, η = (1 - √(εμ))².

The constant is the supremum of that of the module ``heavy_ball`` over the steps δ too, up to the δ
of the step 1/L.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stoptime.bounds.balls import (  # isort: skip
    Box, Enclosure, Interval, WorkLimitError, arb, ball, centre_and_radius, downward, exact, upward,
    verify,
)  # fmt: skip
from stoptime.bounds import heavy_ball_plan as plan
from stoptime.bounds.heavy_ball import Steps, imbalances, late_cap, serves
from stoptime.support.arrays import Array
from stoptime.theory.search import lowest_between

CLOSEST = 1e-9  # relative lengths of steps that are told apart
COARSE_SAMPLES = 60  # of c on a unit, to find the hardest step
FINE_SAMPLES = 200  # to find what is proven
SEARCHED_STEPS = 2.0  # of log δ below that of the longest step
SEARCHED_LENGTHS = 40
MOST_HALVINGS = 8
SHORT_LEVEL = 0.95
ROOM = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9996, 0.9999, 1.0)
NARROW = 1e-3  # relative length of an interval of steps that needs fine samples
LEAST_CONDITION = 1.5


def tied_inflation(kappa: float, tolerance: float) -> Enclosure:
    """Enclose the constant of a condition number for all steps up to 1/L."""
    # With one eigenvalue, the longest step reaches least squares at once: at a = 1 no stop is good.
    if kappa < LEAST_CONDITION:
        raise ValueError(f"The heavy ball is certified for condition numbers ≥ {LEAST_CONDITION}.")
    family = Family(kappa, upward(-(1 - 1 / exact(kappa).sqrt()).log()))
    delta = family._replace(samples=COARSE_SAMPLES).hardest()
    d, worst = plan.least_cover(partial(family.cover, (delta,)), 0.1, 2 * kappa**0.25)
    level, cap, floor = (
        math.sqrt(plan.raised_excess(d, share * tolerance))
        for share in (plan.COVER_SHARE, plan.CAP_SHARE, -plan.CAP_SHARE)
    )
    stop = family.prove_floor(delta, worst, floor)
    shortest = family.prove_short_steps(level, exact(cap))
    family.prove_steps(shortest, level, exact(cap))
    return Enclosure(downward(1 + exact(floor) ** 2), upward(1 + exact(cap) ** 2), stop)


class Family(NamedTuple):
    """All problems a > 0 and all steps up to the one whose δ is ``longest``."""

    kappa: float
    longest: float
    samples: int = FINE_SAMPLES

    def points(self, delta: float, alphas: Array) -> tuple[Array, plan.Points]:
        """Return samples of c, and the points (Y₁, Y₂) at stops α: floating point."""
        end = math.sqrt(self.kappa - 1)
        c = np.linspace(0.0, end, math.ceil(self.samples * (1 + end)) + 1)
        c[0] = 1e-6 * c[1]
        y = np.hypot(1.0, c)
        half = np.arcsin(c * math.sinh(delta / 2))
        phase = np.multiply.outer(alphas, 2 * half / delta)
        g = np.cos(phase) * (math.cosh(delta / 2) / np.cos(half)) + np.sin(phase) / c
        g *= np.exp(-alphas)[:, None]
        starts = np.arange(len(alphas)) * len(c)
        return c, plan.Points((y * g).ravel(), ((1 - g) / y).ravel(), starts, alphas.tolist())

    def ends(self, d: float) -> tuple[Interval, float]:
        """Return the problems that neither the stop 0 nor a late one serves, and the last α."""
        a = 1 / d
        while not late_cap(exact(a), exact(self.kappa), self.longest) <= d:
            a *= 1.02
        return (d / math.sqrt(self.kappa), a), 2 * math.log(a * math.sqrt(self.kappa)) + 4

    def cover(self, deltas: tuple[float, ...], *levels: float) -> plan.Cover:
        """Cover all problems by iterates that serve each of these steps, at the lowest |D|."""
        last = self.ends(levels[0])[1]
        k = np.arange(1.0, math.ceil(last / min(deltas)) + 1)
        tables = [self.points(delta, (k + 0.5) * delta)[1] for delta in deltas]

        def at(d: float) -> plan.Cover:
            low, high = zip(*(plan.intervals(table, d) for table in tables), strict=True)
            ends = np.max(low, axis=0), np.min(high, axis=0)
            return plan.greedy_cover(k.tolist(), ends, *self.ends(d)[0])

        # The levels grow, and so do the intervals of problems.
        first = bisect_left(levels, True, hi=len(levels) - 1, key=lambda d: not at(d)[1])
        return at(levels[first])

    def hardest(self) -> float:
        """Return the step δ that needs the largest |D|, by a search."""

        def least(log_delta: float, low: float = 0.1) -> float:
            cover = partial(self.cover, (min(math.exp(log_delta), self.longest),))
            return plan.least_cover(cover, low, 2 * self.kappa**0.25)[0] if cover(low)[1] else low

        width = SEARCHED_STEPS / SEARCHED_LENGTHS
        logs = math.log(self.longest) - width * np.arange(SEARCHED_LENGTHS)
        best = (0.1, float(logs[0]))
        for log_delta in logs.tolist():
            best = max(best, (least(log_delta, best[0]), log_delta))
        window = best[1] - width, best[1] + width
        top = lowest_between(lambda log: -least(log, 0.97 * best[0]), *window, 1e-6)
        return min(math.exp(max((least(log), log) for log in (best[1], top))[1]), self.longest)

    def prove_floor(self, delta: float, worst: float, floor: float) -> float:
        """Prove that every stop at this step and problem has |D| ≥ floor; return a best one."""
        # A slightly shorter step is certainly not longer than 1/L.
        step = exact(delta * (1 - CLOSEST))
        a = exact(worst)
        k = np.arange(1.0, math.ceil(self.ends(floor)[1] / delta) + 1)
        c, points = self.points(delta, (k + 0.5) * delta)
        height = np.abs(worst * points.Y1 - points.Y2 / worst).reshape(len(k), len(c))
        proven = a * exact(self.kappa).sqrt() >= floor
        for number, place in zip(k.tolist(), c[height.argmax(axis=1)].tolist(), strict=True):
            ((value, _),) = imbalances(Steps.of(step, number), (place, place), [a])
            proven = proven and abs(value) >= floor
        # At y = 1, g = q^k(1 + k(1 - q)) and D fall in k.
        ((value, _),) = imbalances(Steps.of(step, float(k[-1])), (0.0, 0.0), [a])
        if not (proven and value <= -floor):
            raise WorkLimitError("Not proven: every stop of the hardest problem is as bad.")
        return float(k[height.max(axis=1).argmin()])

    def prove_steps(self, shortest: float, level: float, d: arb) -> None:
        """Prove that every problem has a stop with |D| ≤ d, for all δ from ``shortest`` on."""
        waiting = [(shortest, self.longest)]
        while waiting:
            low, high = waiting.pop()
            middle = 0.5 * (low + high)
            # The lower the level of the cover, the more room is left for the steps of the interval.
            search = self if high - low < NARROW * high else self._replace(samples=COARSE_SAMPLES)
            pieces, gaps = search.cover((low, middle, high), *(share * level for share in ROOM))
            steps = exact(low).union(exact(high))
            found = (serves(Steps.of(steps, one.alpha), one, self.kappa, d) for one in pieces)
            if not gaps and all(found):
                self._check_ends(pieces, d)
            elif high - low > CLOSEST * high:
                waiting += [(low, middle), (middle, high)]
            else:
                raise WorkLimitError(
                    f"The cover of all problems at the step δ = {low:g} has a gap."
                )

    def _check_ends(self, pieces: list[plan.Piece], d: arb) -> None:
        served = exact(pieces[0].low) * exact(self.kappa).sqrt() <= d
        if not (served and late_cap(exact(pieces[-1].high), exact(self.kappa), self.longest) <= d):
            raise WorkLimitError("Not proven: the first and the last problems have a good stop.")

    def prove_short_steps(self, level: float, d: arb) -> float:
        """Prove the claim for all δ up to some length, which is returned."""
        outside, last = self.ends(level)
        end = upward((exact(self.kappa) - 1).sqrt())
        for halvings in range(1, MOST_HALVINGS):
            length = self.longest / 2**halvings
            # Any step has an iterate with α in a window of this length, wherever it is.
            alphas = np.arange(0.0, last, length / 4)[1:]
            d_short = SHORT_LEVEL * level
            steps = length, length / 99
            found = [plan.intervals(self.points(at, alphas)[1], d_short) for at in steps]
            low, high = np.max([one[0] for one in found], 0), np.min([one[1] for one in found], 0)
            windows = [sliding_window_view(one, 5) for one in (low, high)]
            worst = windows[0].max(axis=1), windows[1].min(axis=1)
            pieces, gaps = plan.greedy_cover(alphas[:-4].tolist(), worst, *outside)
            if not gaps:
                break
        else:
            raise WorkLimitError("Not proven: short steps are no worse than the hardest one.")
        delta = exact(0).union(exact(length))
        self._check_ends(pieces, d)
        for piece in pieces:

            def holds(box: Box, piece: plan.Piece = piece) -> bool:
                share, radius = centre_and_radius(box[0])
                steps = Steps(delta, exact(piece.alpha) + ball(share, radius) / end * length)
                found = imbalances(steps, box[1], [exact(piece.low), exact(piece.high)])
                return all(abs(value) + variation <= d for value, variation in found)

            verify(holds, ((0.0, end), (0.0, end)))
        return float(length)
