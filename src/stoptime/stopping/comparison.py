"""The choice among several methods, each at the stop that a rule picks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stoptime.stopping.rule import Candidate, first_of_least
from stoptime.support.arrays import on_host

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from stoptime.stopping.problem import Problem
    from stoptime.stopping.rule import Choice, Rule
    from stoptime.support.arrays import Array


def best_method(
    rule: Rule,
    problems: list[Problem],
    stops: ArrayLike | int | None,
    *,
    per_target: bool,
    prefer_simple: bool = False,
) -> tuple[Problem, Choice]:
    """Return the method with the least error, and its choice, which names all candidates.

    Of methods whose errors are equal to four digits the first is taken. With ``prefer_simple`` the
    first of all is kept unless the best one is better by more than one standard error of the paired
    difference.
    """
    choices = rule.choose_each(problems, stops, per_target=per_target)
    errors = np.array([float(np.mean(choice.error)) for choice in choices])
    best = first_of_least(choices)
    if len(problems) == 1:
        return problems[0], choices[0]
    squares = [
        _squared_residuals(problem, choice, at_any_price=prefer_simple) if rule.needs_rows else None
        for problem, choice in zip(problems, choices, strict=True)
    ]
    if prefer_simple and errors[0] - errors[best] <= (_paired(squares[0], squares[best]) or 0.0):
        best = 0
    candidates = tuple(
        Candidate(
            problem.tuned, choice.stop, float(error), float(error - errors[best]),
            _paired(own, squares[best]),
        )
        for problem, choice, error, own in zip(problems, choices, errors, squares, strict=True)
    )  # fmt: skip
    return problems[best], replace(choices[best], candidates=candidates)


def _squared_residuals(problem: Problem, choice: Choice, *, at_any_price: bool) -> Array | None:
    """Return left-out squared residuals, weighted to have the error as their mean.

    The result is None where single rows are not known, or cost as much as the search itself.
    """
    if not (problem.can_leave_out and problem.has_few_targets and choice.curve.exact.any()):
        return None
    if not (at_any_price or problem.left_out.rows.remembers):
        return None
    residuals = np.asarray(on_host(problem.left_out_residuals(choice, first_look=True)))
    squares = (residuals.astype(np.float64).reshape(len(residuals), -1) ** 2).mean(axis=1)
    weights = problem.data.row_weights
    return squares if weights is None else squares * (weights / weights.mean())


def _paired(one: Array | None, other: Array | None) -> float | None:
    """Return the standard error of the mean difference."""
    if one is None or other is None:
        return None
    return float((one - other).std(ddof=1) / np.sqrt(len(one)))
