"""From a stream of rows to the problem that rules look at, in one pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Method
from stoptime.spectrum.streamed.folds import Folds
from stoptime.spectrum.streamed.products import by_statistics
from stoptime.spectrum.streamed.streams import Stream, total
from stoptime.stopping.cross_validation import CrossValidation
from stoptime.stopping.problem import Problem
from stoptime.stopping.registry import LeaveOneOut, OneStandardError, get_rule
from stoptime.stopping.rule import Rule

__all__ = ["streamed_problems"]


def streamed_problems(
    stream: Stream,
    rule: Rule,
    methods: Sequence[Method],
    fit_intercept: bool,
    groups: ArrayLike | None = None,
    *,
    verbose: bool = False,
) -> list[Problem]:
    """Read a stream once, by the folds of the rule if it has any, and return a problem for each method."""
    cv = _splitter(rule)
    folds = None if cv is None else Folds.of(cv.cv, stream.n_rows, groups)
    parts = stream.parts(folds, verbose=verbose)
    if folds is not None and sum(fold >= 0 for fold in parts) < folds.count:
        raise ValueError(
            f"cv={folds.count} needs at least as many blocks of rows, which are dealt to the folds in turn "
            f"where the number of rows is not known beforehand; got {len(parts)}. Make blocks smaller."
        )
    whole = total(parts)
    spectrum = by_statistics(whole, fit_intercept)
    if spectrum.n_observations < 2:
        raise ValueError("Choosing a stop needs at least two rows; got n_samples=1.")
    X = np.empty((0, whole.n_features))
    y = np.empty((0,) if whole.single_target else (0, whole.n_targets))
    return [Problem(X, y, method, spectrum, verbose=verbose, parts=parts) for method in methods]


def _splitter(rule: Rule) -> CrossValidation | None:
    """Return the cross-validation in a rule, if there is one; leave-one-out is refused before any pass."""
    if isinstance(rule, OneStandardError):
        rule = get_rule(rule.rule)
    if isinstance(rule, LeaveOneOut):
        raise ValueError(  # noqa: TRY004 - the value of a parameter
            "Leave-one-out looks at every row again, and these rows pass by once: use cv=5, in the same "
            'single pass, or rule="path-gcv", its estimate from the spectrum alone.'
        )
    return rule if isinstance(rule, CrossValidation) else None
