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
from stoptime.stopping.grid import stops_to_try
from stoptime.stopping.rule import CurveRule, columns_of

if TYPE_CHECKING:
    from stoptime.stopping.problem import Problem
    from stoptime.support.arrays import Array, Floats

FIRST_STAGE_PHASE = 32.0  # t√L of the last stop of the first stage
PHASE_RATIO = 4.0  # between the last stops of neighbouring stages
CLEARLY_WORSE = 1.05  # times the least error so far
FAINT = 5e-3  # shrinkage below which oscillations are left out at late stops
RESOLVED_PHASE = 48.0  # t√s up to which oscillations are resolved, or further until they are faint
PILOT_RATIO = 1.08  # least ratio of neighbouring late stops
PILOT_TOLERANCE = 1e-3  # relative error of a factorisation by which a search may begin
SURELY_WORSE = 1.003  # times the least error: such errors may be that inaccurate
NEIGHBOURHOOD = 1.1  # ratio to the best stop up to which errors are computed exactly
MOST_NEIGHBOURHOODS = 8  # that are tried one after the other


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
            size = len(grid)
            problem = problem.reaching(np.inf)
            grid = stops_to_try(problem, None)[0]
            curve, has_risen = self._in_stages(problem, grid, per_target=per_target)
        if not has_risen:
            problem, curve = self._extended(problem, curve, per_target=per_target)
        return self._exact_near_best(problem, curve, grid, per_target=per_target)

    def _in_stages(
        self, problem: Problem, grid: Array, *, per_target: bool
    ) -> tuple[ErrorCurve, bool]:
        """Return errors up to the stage in which they have clearly risen, and whether they have."""
        stops = grid[np.isfinite(grid)]
        known = _gains(problem, grid) <= _pilot_reach(problem)
        stage = _stages(problem, stops)
        stage[~known[: len(stops)]] = -1
        curve = self.errors(problem, np.append(stops[stage == 0], grid[np.isinf(grid) & known]))
        curve = _marked(problem, curve)
        guard: Floats | None = None
        for number in np.unique(stage[stage > 0]):
            seen = columns_of(curve, per_target=per_target)
            limit = CLEARLY_WORSE * seen[np.isfinite(curve.stops)].min(axis=0)
            later = self._looked_at(problem, stops[stage == number])
            ends = seen[np.isinf(curve.stops)]
            curve = curve.joined(later)
            new = np.concatenate([columns_of(later, per_target=per_target), ends])
            if not (new > limit).all():
                continue
            if guard is None:
                guard = path_gcv(problem.spectrum, problem.tuned, stops).reshape(len(stops), -1)
            ahead = guard[(stage > number) | (stage < 0)].min(axis=0, initial=np.inf)
            before = guard[(stage <= number) & (stage >= 0)].min(axis=0)
            if (ahead > CLEARLY_WORSE * before).all():
                return curve, True
        if known.all():
            return curve, False
        columns = columns_of(curve, per_target=per_target)
        return curve, bool((columns[-1] > SURELY_WORSE * columns.min(axis=0)).all())

    def _looked_at(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return errors at late stops of one stage, without oscillations that are faint there."""
        tuned = problem.tuned
        # neighbouring stops hardly differ without fast oscillations
        logs = np.log(stops)
        kept = np.unique(np.round(logs / np.log(PILOT_RATIO)), return_index=True)[1]
        visible = tuned.as_flow().visible_until(FAINT)[0] if tuned.oscillates else 0.0
        limit = np.inf
        if visible > 0:
            time = (tuned.pace * stops[0]) ** (tuned.order / 2)
            limit = float((max(visible, RESOLVED_PHASE) / time) ** 2)
        return _marked(problem, self.errors(problem, stops[kept], limit), limit)

    def _exact_near_best(
        self, problem: Problem, curve: ErrorCurve, grid: Array, *, per_target: bool
    ) -> tuple[Problem, ErrorCurve]:
        """Replace errors by exact ones until the lowest of them are exact."""
        for _ in range(MOST_NEIGHBOURHOODS):
            best = np.argmin(columns_of(curve, per_target=per_target), axis=0)
            rough = curve.stops[best[~curve.exact[best]]]
            if not rough.size:
                break
            near = np.abs(np.log(np.divide.outer(grid[1:], rough))) <= np.log(NEIGHBOURHOOD)
            wanted = np.union1d(grid[1:][near.any(axis=1)], rough)
            problem = problem.reaching(wanted)
            curve = curve.joined(_marked(problem, self.errors(problem, wanted)))
        return problem, self._refined(problem, curve, per_target=per_target)


def _gains(problem: Problem, stops: Array) -> Array:
    return np.array([problem.tuned.largest_gain(stop) for stop in stops])


def _pilot_reach(problem: Problem) -> float:
    """Return the gain up to which the spectrum is accurate enough to begin with."""
    spectrum = problem.spectrum
    return spectrum.reach * max(PILOT_TOLERANCE / problem.data.tolerance, 1.0)


def _marked(problem: Problem, curve: ErrorCurve, limit: float = np.inf) -> ErrorCurve:
    """Return the curve with its exact errors marked."""
    exact = _gains(problem, curve.stops) <= problem.spectrum.reach
    resolved = limit >= problem.spectrum.eigenvalues.max(initial=0)
    return replace(curve, exact=exact & resolved)


def _stages(problem: Problem, stops: Array) -> NDArray[np.intp]:
    """Return the stage of every stop: the first ends at t√L = 32, each later one 4 times later."""
    tuned = problem.tuned
    largest = float(problem.spectrum.eigenvalues.max(initial=0))
    with np.errstate(over="ignore", divide="ignore"):
        phases = np.sqrt((tuned.pace * stops) ** tuned.order * largest)
        stages = np.ceil(np.log(phases / FIRST_STAGE_PHASE) / np.log(PHASE_RATIO))
    if not tuned.oscillates:
        stages = np.zeros(len(stops))  # late stops cost little: one pass over the rows is fastest
    return np.maximum(np.nan_to_num(stages, posinf=0, neginf=0), 0).astype(np.intp)
