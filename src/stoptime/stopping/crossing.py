"""The first stop at which the training error falls to a level, also for paths that oscillate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from stoptime.support.arrays import TINY, Array, Floats

if TYPE_CHECKING:
    from stoptime.methods.base import Method

SAME_SIGN_PHASE = np.pi / 2  # t√s between stops: zeros of a shrinkage are farther apart
FINEST_PHASE = 2.0**-10  # t√L between stops: a dip in between is no deeper than a millionth
CROSSING_NUMBERS = 2**18  # of the shrinkages that are computed together
MOST_ROUNDS = 400  # of them for one response: a few seconds
LEAP = 16.0  # ratio of stops beyond the last finite one


@dataclass(frozen=True)
class Descent:
    """The training error of one response, outside + Σ energy·g², as a function of the stop."""

    method: Method
    s: Array
    energy: Floats
    outside: float
    level: float

    def excess(self, stops: Floats) -> Array:
        """Return by how much the training error exceeds the level."""
        learning = self.method.unlearned(self.s, self.energy[:, None], stops)[:, 0]
        return np.asarray(learning + (self.outside - self.level))

    def first_crossing(self, stops: Floats) -> float:
        """Return the first stop at which the error is down to the level; NaN if there is none.

        It is looked for between the stops, which ascend; it is a whole number for iterations.
        """
        crossed = self.excess(stops) <= 0
        first = int(crossed.argmax()) if crossed.any() else len(stops)
        if first == 0 or not self.method.has_filter or not self.method.oscillates:
            # the error falls monotonically: there is no crossing except between these two stops
            return self._first_of_falling(stops[max(first - 1, 0) : first + 1], first)
        before = stops[: first + 1]
        if self.method.whole_stops:
            return self._first_of_whole(int(before[np.isfinite(before)][-1]))
        if np.isinf(before[-1]):
            before = np.concatenate([before[:-1], self._leaps(float(before[-2]))])
        return self._first_of_oscillating(before)

    def _first_of_falling(self, ends: Floats, first: int) -> float:
        """Return the crossing between two stops, if the first of them that is crossed exists."""
        if first == 0 or len(ends) < 2:
            return float(ends[0]) if first == 0 else np.nan
        if not self.method.whole_stops:
            ends = ends if np.isfinite(ends[1]) else self._leaps(float(ends[0]))[-2:]
            return self._root(float(ends[0]), float(ends[1]))
        low, high = (int(end) for end in ends)
        while high - low > 1:
            middle = (low + high) // 2
            if self.excess(np.array([middle], np.float64))[0] <= 0:
                high = middle
            else:
                low = middle
        return float(high)

    def _first_of_whole(self, last: int) -> float:
        """Look at every iteration up to the last one: one run costs little more than its end."""
        numbers = np.arange(1.0, last + 1)
        height = max(1, CROSSING_NUMBERS // max(len(self.s), 1))
        start = 0
        for g, _ in self.method.filters(self.s, numbers, height):
            crossed = self.energy @ g**2 + (self.outside - self.level) <= 0
            if crossed.any():
                return float(numbers[start + int(crossed.argmax())])
            start += g.shape[1]
        return np.nan

    def _leaps(self, last: float) -> Array:
        """Return stops that end where the error is down to the level, which infinity is."""
        stops = [max(last, TINY)]
        while self.excess(np.array(stops[-1:]))[0] > 0 and np.isfinite(stops[-1]):
            stops.append(LEAP * stops[-1])
        return np.array(stops if len(stops) > 1 else [last, *stops])

    def _root(self, low: float, high: float) -> float:
        """Return the crossing in a bracket."""
        if np.isinf(high) or self.excess(np.array([low]))[0] <= 0:
            return high if np.isinf(high) else low
        # the bracket may span many decades, so only the relative error counts
        options = {"xtol": TINY, "rtol": 1e-12, "maxiter": 5000}
        return float(brentq(lambda t: float(self.excess(np.array([t]))[0]), low, high, **options))

    def _first_of_oscillating(self, stops: Floats) -> float:
        """Halve, from the left, the intervals in which the error may fall to the level."""
        low = stops[:-1].astype(np.float64)
        high = stops[1:].astype(np.float64)
        open_ = self._lowest(low, high) <= 0
        low = low[open_]
        high = high[open_]
        crossing = stops[-1] if self.excess(stops[-1:])[0] <= 0 else np.inf
        width = max(1, CROSSING_NUMBERS // max(len(self.s), 1))
        for _ in range(MOST_ROUNDS):
            if not len(low) or self._is_fine(low[:1], high[:1])[0]:
                break
            ends = low[:width], high[:width]
            middle = ends[0] / 2 + ends[1] / 2
            crossed = middle[self.excess(middle) <= 0]
            crossing = min([crossing, *crossed[:1]])
            halves = np.concatenate([ends[0], middle]), np.concatenate([middle, ends[1]])
            # a fine interval stays open only if the error is down to the level at its end
            open_ = (self._lowest(*halves) <= 0) & (halves[0] < crossing)
            open_ &= ~self._is_fine(*halves) | (halves[1] == crossing)
            order = np.argsort(halves[0][open_])
            later = low[width:] < crossing
            low = np.concatenate([halves[0][open_][order], low[width:][later]])
            high = np.concatenate([halves[1][open_][order], high[width:][later]])
        if np.isinf(crossing):
            return np.nan
        bracket = low[high == crossing]
        return self._root(float(bracket[-1] if len(bracket) else crossing), float(crossing))

    def _is_fine(self, low: Floats, high: Floats) -> NDArray[np.bool_]:
        """Tell which intervals are too short to be halved again."""
        return np.asarray(self._phase(low, high) * np.sqrt(self.s[-1]) <= FINEST_PHASE)

    def _phase(self, low: Floats, high: Floats) -> Array:
        power = self.method.order / 2
        return np.asarray(high**power - low**power)

    def _lowest(self, low: Floats, high: Floats) -> Array:
        """Return lower bounds of the excess between pairs of stops."""
        out = np.empty(len(low))
        width = max(1, CROSSING_NUMBERS // max(len(self.s), 1))
        for start in range(0, len(low), width):
            part = slice(start, start + width)
            ends = [self.method.shrinkage(self.s[:, None], end[part]) for end in (low, high)]
            # g solves g'' + cg' + sg = 0 with c ≥ 0. Where g' = 0 it bends towards zero, so that
            # between two zeros |g| is least at the ends; across a zero nothing is known
            phase = np.sqrt(self.s)[:, None] * self._phase(low[part], high[part])
            same = (phase <= SAME_SIGN_PHASE) & (ends[0] * ends[1] > 0)
            least = np.where(same, np.minimum(ends[0] ** 2, ends[1] ** 2), 0.0)
            out[part] = self.energy @ least + (self.outside - self.level)
        return out
