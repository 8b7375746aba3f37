"""The rule of least left-out error, for one method or the best of several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from stoptime.stopping.grid import stops_to_try
from stoptime.stopping.rule import CurveRule, first_of_least
from stoptime.stopping.staged import StagedSearch, by_gcv
from stoptime.stopping.survey import Survey

if TYPE_CHECKING:
    from stoptime.left_out.curve import ErrorCurve
    from stoptime.stopping.problem import Problem
    from stoptime.stopping.rule import Choice
    from stoptime.support.arrays import Array

MOST_COMPARED_BY_ROWS = 3  # targets for which methods are compared by their left-out errors


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

    def choose_each(
        self, problems: list[Problem], stops: ArrayLike | int | None, *, per_target: bool
    ) -> list[Choice]:
        """Pick the stops of several methods; only those of the best methods are computed exactly.

        With more than three targets the methods are compared by path GCV.
        """
        methods = [problem.method for problem in problems]
        surveyed = all(one.has_filter for one in methods) and any(one.is_smooth for one in methods)
        if len(problems) == 1 or np.ndim(np.asarray(stops)) > 0 or not surveyed:
            return super().choose_each(problems, stops, per_target=per_target)
        if problems[0].data.n_targets > MOST_COMPARED_BY_ROWS:
            return self._compared_by_gcv(problems, stops, per_target=per_target)
        survey = Survey(self, problems, stops, per_target=per_target)
        survey.look()
        searches = survey.searches
        found = [self._lowest(search.curve, per_target=per_target) for search in searches]
        hoped = [
            replace(one, error=search.promise) for one, search in zip(found, searches, strict=True)
        ]
        settled = set[int]()
        # errors are made exact until those of other methods cannot be lower
        while (best := first_of_least(hoped)) not in settled:
            searches[best].extend()
            searches[best].settle()
            found[best] = self._lowest(searches[best].curve, per_target=per_target)
            hoped[best] = found[best]
            settled.add(best)
        return found

    def _compared_by_gcv(
        self, problems: list[Problem], stops: ArrayLike | int | None, *, per_target: bool
    ) -> list[Choice]:
        """Pick the stop of the method with the least path GCV, which costs little for any targets.

        The errors of other methods are those of path GCV, in the same ratio to the chosen one.
        """
        found = []
        for problem in problems:
            grid, _ = stops_to_try(problem, stops)
            found.append(self._lowest(by_gcv(problem, grid), per_target=per_target))
        best = first_of_least(found)
        chosen = self.choose(problems[best], stops, per_target=per_target)
        ratio = float(np.mean(chosen.error)) / float(np.mean(found[best].error))
        scaled = [replace(one, error=one.error * ratio) for one in found]
        return [chosen if place == best else one for place, one in enumerate(scaled)]

    def _search(self, problem: Problem, grid: Array, per_target: bool) -> StagedSearch:
        """Return the search for the least error that begins on this grid."""
        return StagedSearch(self, problem, grid, per_target)
