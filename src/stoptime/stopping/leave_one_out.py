"""The rule of least left-out error, which spends its digits near the best stop.

The default grid ends where the slowest direction is learned, far beyond the best stop of
ill-conditioned data, and exact leave-one-out is expensive there. So early stops are looked at
first, and later ones in stages until the error has clearly risen. At late stops the fast
oscillations of directions that are nearly learned are left out, which changes the error by less
than a per cent. Around the lowest error the left-out errors are then computed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from stoptime.left_out.curve import ErrorCurve
from stoptime.stopping.gcv import path_gcv
from stoptime.stopping.grid import default_stops
from stoptime.stopping.rule import MOST_REFINED, CurveRule, columns_of

if TYPE_CHECKING:
    from stoptime.stopping.problem import Problem
    from stoptime.support.arrays import Array, Floats

FIRST_STAGE_PHASE = 32.0  # t√L of the last stop of the first stage
PHASE_RATIO = 4.0  # between the last stops of neighbouring stages
LOOK_RATIO = 1.15  # of neighbouring t√L at a first look
LOOK_STEP = np.pi / 4  # and their largest distance while oscillations show
LATE_LOOK_RATIO = 1.08  # and their ratio when these have become slow
FAR_BEFORE = 1e6  # a number that keeps early counts apart from others
CLEARLY_WORSE = 1.05  # times the least error so far
FAINT = 5e-3  # shrinkage below which oscillations are left out at late stops
RESOLVED_PHASE = 48.0  # t√s up to which oscillations are resolved, or further until they are faint
PILOT_TOLERANCE = 1e-3  # relative error of a factorisation by which a search may begin
SURELY_WORSE = 1.003  # times the least error: such errors may be that inaccurate
MOST_NEIGHBOURHOODS = 8  # in which the lowest error is looked for


@dataclass(frozen=True)
class LeaveOneOut(CurveRule):
    """Exact leave-one-out error; see :func:`stoptime.leave_one_out`.

    ``standard_errors`` asks for its standard error; by default, if the targets are few.
    """

    standard_errors: bool | None = None
    name: ClassVar[str] = "loo"
    _uses_rows: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array, limit: float = np.inf) -> ErrorCurve:
        """Return the left-out error at the stops; eigenvalues beyond ``limit`` count as learned."""
        wanted = problem.has_few_targets if self.standard_errors is None else self.standard_errors
        options = {"standard_errors": wanted, "limit": limit, "verbose": problem.verbose}
        return problem.left_out.errors(problem.tuned, stops, **options)

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
        return self._exact_near_best(problem, curve, grid, per_target=per_target)

    def _in_stages(
        self, problem: Problem, grid: Array, *, per_target: bool
    ) -> tuple[ErrorCurve, bool]:
        """Return errors up to the stage in which they have clearly risen, and whether they have."""
        known = problem.tuned.largest_gain(grid) <= _pilot_reach(problem)
        ends = grid[np.isinf(grid) & known]
        stops, stage = _stages(problem, grid[np.isfinite(grid)])
        beyond = ~np.isin(stops, grid[known])
        curve = self.errors(problem, np.append(stops[(stage == 0) & ~beyond], ends))
        curve = _marked(problem, curve)
        guard: Floats | None = None
        for number in np.unique(stage[(stage > 0) & ~beyond]):
            seen = columns_of(curve, per_target=per_target)
            limit = CLEARLY_WORSE * seen[np.isfinite(curve.stops)].min(axis=0)
            later = self._looked_at(problem, stops[(stage == number) & ~beyond])
            least_squares = seen[np.isinf(curve.stops)]
            curve = curve.joined(later)
            new = np.concatenate([columns_of(later, per_target=per_target), least_squares])
            if not (new > limit).all():
                continue
            if guard is None:
                guard = path_gcv(problem.spectrum, problem.tuned, stops).reshape(len(stops), -1)
            ahead = guard[(stage > number) | beyond].min(axis=0, initial=np.inf)
            before = guard[(stage <= number) & ~beyond].min(axis=0)
            if (ahead > CLEARLY_WORSE * before).all():
                return curve, True
        if known.all():
            return curve, False
        columns = columns_of(curve, per_target=per_target)
        return curve, bool((columns[-1] > SURELY_WORSE * columns.min(axis=0)).all())

    def _looked_at(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return errors at late stops of one stage, without oscillations that are faint there."""
        tuned = problem.tuned
        visible = tuned.as_flow().visible_until(FAINT)[0] if tuned.oscillates else 0.0
        limit = np.inf
        if visible > 0:
            time = (tuned.pace * stops[0]) ** (tuned.order / 2)
            limit = float((max(visible, RESOLVED_PHASE) / time) ** 2)
        return _marked(problem, self.errors(problem, stops, limit), limit)

    def _exact_near_best(
        self, problem: Problem, curve: ErrorCurve, grid: Array, *, per_target: bool
    ) -> tuple[Problem, ErrorCurve]:
        """Fill the grid around the lowest errors until these are exact."""
        looked_at = np.empty(0)
        for _ in range(MOST_NEIGHBOURHOODS):
            best = np.unique(np.argmin(columns_of(curve, per_target=per_target), axis=0))
            best = best[~(curve.exact[best] & np.isin(curve.stops[best], looked_at))]
            best = best[(curve.stops[best] > 0) & np.isfinite(curve.stops[best])]
            if not best.size or len(best) > MOST_REFINED:
                break
            wanted = curve.stops[best]
            for place in best:
                low = curve.stops[max(place - 1, 0)]
                high = curve.stops[min(place + 1, len(curve.stops) - 1)]
                wanted = np.union1d(wanted, grid[(grid > low) & (grid < high)])
            looked_at = np.append(looked_at, wanted)
            problem = problem.reaching(wanted)
            curve = curve.joined(_marked(problem, self.errors(problem, wanted)))
        return problem, self._refined(problem, curve, per_target=per_target)


def _pilot_reach(problem: Problem) -> float:
    """Return the gain up to which the spectrum is accurate enough to begin with."""
    spectrum = problem.spectrum
    return spectrum.reach * max(PILOT_TOLERANCE / problem.data.tolerance, 1.0)


def _marked(problem: Problem, curve: ErrorCurve, limit: float = np.inf) -> ErrorCurve:
    """Return the curve with its exact errors marked."""
    exact = problem.tuned.largest_gain(curve.stops) <= problem.spectrum.reach
    resolved = limit >= problem.spectrum.eigenvalues.max(initial=0)
    return replace(curve, exact=exact & resolved)


def _stages(problem: Problem, stops: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the stops to look at, and their stages.

    The first stage ends at t√L = 32, and each later one four times later.
    """
    tuned = problem.tuned
    largest = float(problem.spectrum.eigenvalues.max(initial=0))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        phases = np.sqrt((tuned.pace * stops) ** tuned.order * largest)
        stages = np.ceil(np.log(phases / FIRST_STAGE_PHASE) / np.log(PHASE_RATIO))
        # stops in equal ratios, and closer while oscillations show: a count of how many so far
        count = np.log(phases) / np.log(LOOK_RATIO)
        if tuned.oscillates:
            close = np.clip(phases, LOOK_STEP / np.log(LOOK_RATIO), FIRST_STAGE_PHASE)
            count = np.log(phases / close) / np.log(LATE_LOOK_RATIO) + close / LOOK_STEP
            early = phases < close
            count[early] = np.log(phases[early]) / np.log(LOOK_RATIO) - FAR_BEFORE
        else:
            stages = np.zeros(len(stops))  # late stops cost little: one pass is fastest
    stages = np.maximum(np.nan_to_num(stages, posinf=0, neginf=0), 0).astype(np.intp)
    kept = np.unique(np.floor(np.nan_to_num(count, neginf=-1e9)), return_index=True)[1]
    kept = np.union1d(kept, len(stops) - 1)
    return stops[kept], stages[kept]
