"""The rule of least left-out error, which spends its digits near the best stop.

The default grid ends where the slowest direction is learned, far beyond the best stop of
ill-conditioned data, and exact leave-one-out is expensive there. So early stops are looked at
first, and later ones in stages until the error has clearly risen. At late stops the fast
oscillations of directions that are nearly learned are left out, which changes the error by less
than a per cent. Around the lowest error the left-out errors are then computed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from stoptime.stopping.gcv import path_gcv
from stoptime.stopping.grid import default_stops
from stoptime.stopping.problem import EXACT_PHASE, FAINTEST
from stoptime.stopping.rule import MOST_REFINED, CurveRule, columns_of
from stoptime.support.arrays import TINY

if TYPE_CHECKING:
    from stoptime.left_out.curve import ErrorCurve
    from stoptime.spectrum.dense import DenseData
    from stoptime.stopping.problem import Problem
    from stoptime.support.arrays import Array, Floats

FIRST_STAGE_PHASE = 32.0  # t√L of the last stop of the first stage
ONE_STAGE_PHASE = 80.0  # t√L of the last stop of a grid that is looked at in one stage
PHASE_RATIO = 4.0  # between the last stops of neighbouring stages
LOOK_RATIO = 1.15  # of neighbouring t√L at the first look
LOOK_STEP = np.pi / 4  # their largest distance in the first stage, an eighth of an oscillation
LATE_LOOK_RATIO = 1.08  # of neighbouring t√L in later stages
GUARD_STRIDE = 3  # of the stops at which path GCV guards
CLEARLY_WORSE = 1.05  # times the least error so far
SURELY_WORSE = 1.003  # times the least error: rough errors are more accurate than that
FAINT = 5e-3  # shrinkage below which oscillations are left out at late stops
RESOLVED_PHASE = 48.0  # t√s up to which oscillations are resolved, or further until they are faint
UNLEARNED = 0.03  # largest share learned of directions that products of X have lost
MOST_NEIGHBOURHOODS = 8  # in which the lowest error is looked for
SPREAD_NODES = 8  # stops whose standard errors are computed, if rows are remembered


@dataclass(frozen=True)
class LeaveOneOut(CurveRule):
    """Exact leave-one-out error; see :func:`stoptime.leave_one_out`.

    ``standard_errors`` asks for its standard error at every stop. By default it is exact at the
    chosen stop, interpolated at others, and left out where targets are many.
    """

    standard_errors: bool | None = None
    name: ClassVar[str] = "loo"
    _uses_rows: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the exact left-out error at the stops."""
        wanted = problem.has_few_targets if self.standard_errors is None else self.standard_errors
        return problem.left_out.errors(
            problem.tuned, stops, standard_errors=wanted, verbose=problem.verbose
        )

    def _searched(
        self, problem: Problem, grid: Array, *, per_target: bool
    ) -> tuple[Problem, ErrorCurve]:
        """Return errors on the default grid, exact around the lowest; see :meth:`Rule.choose`."""
        curve, has_risen = self._in_stages(problem, grid, per_target=per_target)
        if not has_risen and problem.spectrum.reach < np.inf:
            # the best stop may be so late that products of X have lost its digits
            problem = problem.reaching(np.inf)
            grid = default_stops(problem.spectrum, problem.tuned)
            curve, has_risen = self._in_stages(problem, grid, per_target=per_target)
        if not has_risen:
            problem, curve = self._extended(problem, curve, per_target=per_target)
        problem, curve = self._near_best(problem, curve, grid, per_target=per_target)
        curve = self._refined(problem, curve, per_target=per_target)
        return problem, self._with_spread(problem, curve, per_target=per_target)

    def _in_stages(
        self, problem: Problem, grid: Array, *, per_target: bool
    ) -> tuple[ErrorCurve, bool]:
        """Return errors up to the stage in which they have clearly risen, and whether they have."""
        stops, stage = _stages(problem, grid[np.isfinite(grid)])
        known = problem.tuned.largest_gain(stops) <= _rough_reach(problem)
        ends = grid[np.isinf(grid)] if problem.spectrum.reach == np.inf else grid[:0]
        curve = self._far(problem, np.append(stops[(stage == 0) & known], ends))
        guard: Floats | None = None
        for number in np.unique(stage[(stage > 0) & known]):
            seen = columns_of(curve, per_target=per_target)
            limit = CLEARLY_WORSE * seen[np.isfinite(curve.stops)].min(axis=0)
            later = self._far(problem, stops[(stage == number) & known])
            least_squares = seen[np.isinf(curve.stops)]
            curve = curve.joined(later)
            new = np.concatenate([columns_of(later, per_target=per_target), least_squares])
            if not (new > limit).all():
                continue
            if guard is None:
                guard = path_gcv(problem.spectrum, problem.tuned, stops[::GUARD_STRIDE])
                guard = guard.reshape(len(guard), -1)
            ahead = (stage > number)[::GUARD_STRIDE]
            least_ahead = guard[ahead].min(axis=0, initial=np.inf)
            if (least_ahead > CLEARLY_WORSE * guard[~ahead].min(axis=0)).all():
                return curve, True
        columns = columns_of(curve, per_target=per_target)
        rises = (columns[-1] > SURELY_WORSE * columns.min(axis=0)).all()
        # beyond the last stop that is known, a curve that has risen is taken to stay above
        return curve, bool(rises) and not known.all()

    def _far(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return errors at the stops of one stage, without oscillations that are faint there."""
        return self._rough(problem, stops, problem.limit(stops, FAINT, RESOLVED_PHASE))

    def _near(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return errors at stops close to the best, exact unless these are very late."""
        return self._rough(problem, stops, problem.limit(stops, FAINTEST, EXACT_PHASE))

    def _rough(
        self, problem: Problem, stops: Array, limit: float, *, spread: bool = False
    ) -> ErrorCurve:
        """Return errors at the stops, and at which of them they are exact."""
        spread = spread or bool(self.standard_errors)
        options = {"standard_errors": spread, "rough": not spread, "verbose": problem.verbose}
        curve = problem.left_out.errors(problem.tuned, stops, limit, **options)
        exact = problem.tuned.largest_gain(stops) <= problem.spectrum.reach
        resolved = limit >= problem.spectrum.eigenvalues.max(initial=0)
        return replace(curve, exact=exact & resolved)

    def _near_best(
        self, problem: Problem, curve: ErrorCurve, grid: Array, *, per_target: bool
    ) -> tuple[Problem, ErrorCurve]:
        """Fill the grid around the lowest errors until these are exact."""
        filled = np.array([0.0, np.inf])
        for _ in range(MOST_NEIGHBOURHOODS):
            best = np.unique(np.argmin(columns_of(curve, per_target=per_target), axis=0))
            best = best[~np.isin(curve.stops[best], filled)]
            if not best.size:
                break
            wanted = curve.stops[best]
            for place in best[:MOST_REFINED]:
                low = curve.stops[max(place - 1, 0)]
                high = curve.stops[min(place + 1, len(curve.stops) - 1)]
                wanted = np.union1d(wanted, grid[(grid > low) & (grid < high)])
            filled = np.append(filled, wanted)
            problem = problem.reaching(wanted)
            curve = curve.joined(self._near(problem, wanted))
        return problem, curve

    def _with_spread(
        self, problem: Problem, curve: ErrorCurve, *, per_target: bool
    ) -> ErrorCurve:
        """Return the curve with standard errors, computed where the stop is chosen."""
        if self.standard_errors is not None or not problem.has_few_targets:
            return curve
        best = np.unique(np.argmin(columns_of(curve, per_target=per_target), axis=0))
        nodes = best
        if problem.left_out.rows.remembers:
            # a second look costs little, except at late stops
            early = np.flatnonzero(curve.exact & (np.arange(len(curve.stops)) <= best[-1]))
            nodes = np.union1d(best, early[:: max(1, len(early) // SPREAD_NODES)])
        limit = problem.limit(curve.stops[best], FAINTEST, EXACT_PHASE)
        fine = self._rough(problem, curve.stops[nodes], limit, spread=True)
        # relative standard errors change little from stop to stop
        ratios = fine.standard_errors / np.where(fine.errors > 0, fine.errors, 1)
        ratios = ratios.reshape(len(nodes), -1).T
        everywhere = [np.interp(np.arange(len(curve.stops)), nodes, ratio) for ratio in ratios]
        spread = curve.errors * np.stack(everywhere, axis=1).reshape(curve.errors.shape)
        return replace(curve, standard_errors=spread).joined(fine)


def _rough_reach(problem: Problem) -> float:
    """Return the gain up to which a search may rely on the spectrum."""
    spectrum = problem.spectrum
    largest = float(spectrum.eigenvalues.max(initial=0))
    if spectrum.reach == np.inf or largest == 0:
        return np.inf
    # directions that products of X have lost must not be learned yet
    return max(spectrum.reach, UNLEARNED / (cast("DenseData", problem.data).rounding * largest))


def _stages(problem: Problem, stops: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the stops to look at first, and the stage of each.

    The first stage ends at t√L = 32, and each later one four times later.
    """
    tuned = problem.tuned
    largest = float(problem.spectrum.eigenvalues.max(initial=0))
    with np.errstate(over="ignore"):
        phases = np.sqrt((tuned.pace * stops) ** tuned.order * largest)
    logs = np.log(np.clip(phases, TINY, 1 / TINY))
    stages = np.ceil((logs - np.log(FIRST_STAGE_PHASE)) / np.log(PHASE_RATIO))
    if not tuned.oscillates or logs.max(initial=0) <= np.log(ONE_STAGE_PHASE):
        stages = np.zeros(len(stops))  # late stops cost little: one pass over the rows is fastest
    stages = np.maximum(stages, 0).astype(np.intp)
    kept = [0]
    for place, log in enumerate(logs[1:], start=1):
        step = np.log(LOOK_RATIO if not stages[place] else LATE_LOOK_RATIO)
        if tuned.oscillates and not stages[place]:
            step = min(step, LOOK_STEP / phases[place])
        if log - logs[kept[-1]] >= 0.99 * step or place == len(stops) - 1:
            kept.append(place)
    return stops[kept], stages[kept]
