"""The search for a stop, and the choice among several methods, each at its own stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.left_out.curve import standard_error
from stoptime.left_out.predictions import MOST_PICKLED, Fingerprint
from stoptime.methods.base import Method
from stoptime.spectrum.data import Data, Want, afresh
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Candidate, Choice, Rule, first_up_to_ties
from stoptime.support.arrays import Floats, on_host
from stoptime.support.progress import progress_shown

# standard errors of the paired difference by which another method must be better than the first:
# of 0, ½ and 1 the best one in the study of docs/datasets.md
MARGIN = 0.5


def best_method(
    rule: Rule,
    problems: list[Problem],
    stops: ArrayLike | int | None,
    *,
    per_target: bool,
    prefer_simple: bool = False,
) -> tuple[Problem, Choice]:
    """Return the best method and its choice, which names all candidates.

    The first method is kept unless the one with the least error is better by more than half a
    standard error of the paired difference, or by a whole one with ``prefer_simple``: the least of
    several errors is too small by chance. Of methods whose errors are equal to four digits, the
    earliest is the best.
    """
    found = rule.choose_each(problems, stops, per_target=per_target)
    errors = [float(np.mean(choice.error)) for _, choice in found]
    floor = rule.floor(problems[0])
    parts: list[Any] = [None] * len(found)
    if len(found) > 1:
        wanted: Any = range(len(found))
        if rule.needs_rows and not _has_looked(found[0][0]):
            # the search kept no residuals, and those of two methods take another pass over the
            # rows: they are needed only where the first method is not the best
            best = first_up_to_ties(errors, floor)
            wanted = {0, best} if best else ()
        for place in wanted:
            parts[place] = rule.parts(*found[place])
    errors = [
        error if some is None else float(on_host(some.mean()))
        for error, some in zip(errors, parts, strict=True)
    ]
    best = first_up_to_ties(errors, floor)
    margin = 1.0 if prefer_simple else MARGIN
    if best and errors[0] - errors[best] <= margin * (_paired(parts[0], parts[best]) or 0.0):
        best = 0
    problem, choice = found[best]
    choice = rule.finished(problem, choice)
    if not per_target:
        choice = replace(choice, curve=choice.curve.pooled())
    if rule.predicts_new_rows and float(np.mean(choice.error)) <= floor:
        choice = replace(choice, message=f"{choice.message}; the columns determine the target")
    if len(found) == 1:
        return problem, choice
    candidates = tuple(
        Candidate(one.tuned, own.stop, error, error - errors[best], _paired(some, parts[best]))
        for (one, own), error, some in zip(found, errors, parts, strict=True)
    )
    return problem, replace(choice, candidates=candidates)


@dataclass(frozen=True)
class Search:
    """A rule, and the methods and stops among which it chooses; see StoppedRegressorCV."""

    rule: Rule
    methods: Sequence[Method]
    stops: ArrayLike | int | None = None
    per_target: bool = False
    prefer_simple: bool = False
    verbose: bool = False

    def best(self, data: Data, groups: NDArray[Any] | None = None) -> tuple[Problem, Choice]:
        """Return the problem of the chosen method, up to the chosen stop, and the choice."""
        with progress_shown(self.verbose):
            return self._best(data, groups)

    def _best(self, data: Data, groups: NDArray[Any] | None) -> tuple[Problem, Choice]:
        rule = self.rule.fixed(data, groups)
        needs = {"rows": rule.needs_rows, "trace": rule.needs_trace}
        spectrum = data.spectrum(Want.to_search(self.methods, self.stops, **needs))
        per_target = self.per_target and not data.single_target
        first = Problem(data, self.methods[0], spectrum, groups)
        problems = [replace(first, method=one) for one in self.methods]
        options = {"per_target": per_target, "prefer_simple": self.prefer_simple}
        problem, choice = best_method(rule, problems, self.stops, **options)
        return problem.reaching(np.asarray(choice.stop, np.float64)), choice


@dataclass(frozen=True)
class Searched:
    """A search, its data and its choice, for fits without some of the rows.

    There is no search if the stop was given; ``splits`` are the folds, if cross-validation chose
    it, and the method is as it was given. ``fits`` holds fits that were made, by their kind. A
    pickle of large or streamed data has no rows.
    """

    search: Search | None
    splits: Any
    data: Data | None
    method: Method
    stop: float | Floats
    n_observations: float
    unchanged: Fingerprint | None = None
    fits: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, search: Search, splits: Any, problem: Problem, choice: Choice) -> Searched:
        """Keep a reference to the rows, and nothing that was computed from them."""
        data = afresh(problem.data)
        seen = None if data.rows is None else Fingerprint.of(data.rows)
        n_observations = problem.spectrum.n_observations
        return cls(search, splits, data, problem.method, choice.stop, n_observations, seen)

    @property
    def rows(self) -> Data:
        """The data; raises a ValueError where a pickle lacks them, or where they were changed."""
        if self.data is None:
            raise ValueError(
                "This model was pickled without its training rows: fit it again, or ask for one "
                "interval of this kind before you pickle it."
            )
        if self.unchanged is not None and self.data.rows is not None:
            self.unchanged.check(self.data.rows)
        return self.data

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        # readers of streamed data cannot be pickled
        rows = None if self.data is None else self.data.rows
        if rows is None or rows.n_rows * rows.n_features > MOST_PICKLED:
            state["data"] = None
        return state


def _has_looked(problem: Problem) -> bool:
    return problem.can_leave_out and problem.left_out.pooled.has_looked


def _paired(one: Any, other: Any) -> float | None:
    """Return the standard error of the mean difference."""
    if one is None or other is None:
        return None
    if one is other:
        return 0.0
    return float(standard_error((one - other).mean(axis=1)))
