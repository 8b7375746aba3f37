"""Cross-validation with any splitter in one pass over the data, and a validation set of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.curve import ErrorCurve, standard_error
from stoptime.left_out.rows import target_units
from stoptime.paths import draw
from stoptime.spectrum.data import Data, Fold, TestErrors, goals
from stoptime.stopping.rule import CurveRule
from stoptime.support.arrays import Array
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.stopping.problem import Problem

__all__ = ["CrossValidation", "HoldOut"]

FEWEST_FOLDS = 3  # over which a standard error can be taken


@dataclass(frozen=True)
class CrossValidation(CurveRule):
    r"""Mean squared error on rows held out in turn.

    The moments of every training set are those of all rows less those of the rows held out, so X is
    multiplied by itself once, however many folds there are.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test), default=5
        Any scikit-learn splitter, groups included.
    """

    cv: Any = 5
    name: ClassVar[str] = "cross-validation"

    def fixed(
        self, data: Data, groups: ArrayLike | None = None, *, verbose: bool = False
    ) -> CrossValidation:
        """Return the rule with its folds drawn once, so that all stops and methods see the same."""
        if isinstance(self.cv, FixedFolds):
            return self
        return CrossValidation(FixedFolds(tuple(data.folds(self.cv, groups, verbose=verbose))))

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        rule = self.fixed(problem.data, problem.groups, verbose=problem.verbose)
        units = target_units(problem.spectrum)
        tests = []
        for train, test in progress(rule.cv.folds, "cross-validation", problem.verbose):
            spectrum = train.spectrum(goals(problem.method, stops))
            tests.append(test.errors(partial(draw, spectrum, problem.method), stops, units))
        return _combined(stops, tests, units, problem.data.single_target)


@dataclass(frozen=True)
class FixedFolds:
    """Folds that were drawn once, in the place of a splitter."""

    folds: tuple[Fold, ...]


@dataclass(frozen=True, eq=False)  # comparing arrays gives arrays, not one answer
class HoldOut(CurveRule):
    """Mean squared error on a validation set; the model is then fitted to all training rows.

    Parameters
    ----------
    X_val : array-like, sparse matrix or LinearOperator of shape (m, n_features)
        Rows kept for validation.
    y_val : array-like of shape (m,) or (m, n_targets)
        Their response.
    """

    X_val: ArrayLike
    y_val: ArrayLike
    name: ClassVar[str] = "hold-out"

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        test = problem.data.test_set(self.X_val, self.y_val)
        units = target_units(problem.spectrum)
        errors = test.errors(partial(draw, problem.spectrum, problem.method), stops, units)
        return _combined(stops, [errors], units, problem.data.single_target)


def _combined(
    stops: Array, tests: list[TestErrors], units: Array, single_target: bool
) -> ErrorCurve:
    """Return the mean over all rows, and its standard error over folds or, with few folds, rows."""
    weight = sum(test.weight for test in tests)
    errors = np.sum([test.squares for test in tests], axis=0) / weight
    deviation = None
    if len(tests) >= FEWEST_FOLDS:
        deviation = standard_error(np.array([test.squares / test.weight for test in tests]))
    elif all(test.fourths is not None for test in tests):
        crossed: Any = [test.weighted_squares for test in tests]
        fourths: Any = [test.fourths for test in tests]
        variance = np.sum(fourths, axis=0) - 2 * errors * np.sum(crossed, axis=0)
        variance += errors**2 * sum(test.weight_squares for test in tests)
        deviation = np.sqrt(np.maximum(variance, 0)) / weight
    errors = units**2 * errors
    deviation = None if deviation is None else units**2 * deviation
    if single_target:
        errors = errors[:, 0]
        deviation = None if deviation is None else deviation[:, 0]
    return ErrorCurve(stops, errors, deviation)
