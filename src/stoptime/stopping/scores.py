"""The rule of the best score: any scorer of scikit-learn, on predictions for left-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer

from stoptime.left_out.curve import ErrorCurve
from stoptime.paths import draw
from stoptime.spectrum.data import Data, RowsToTest, goals
from stoptime.stopping.grid import stops_to_try
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice, CurveRule, Rule, choice_at
from stoptime.support.arrays import Array, Floats, on_host, slices
from stoptime.support.progress import progress

SCORED_NUMBERS = 2**23  # predictions, 64 MB, of all rows at some of the stops

Scorer = Callable[..., float]


class Predicted(RegressorMixin, BaseEstimator):
    """A model whose rows are its predictions already, for scorers that call ``predict``."""

    def predict(self, X: Floats) -> Floats:
        """Return the predictions themselves."""
        return X


@dataclass(frozen=True)
class BestScore(Rule):
    """The stop with the best score of predictions for rows that the fit has not seen.

    ``rule`` is leave-one-out, whose predictions are scored together, or cross-validation, whose
    score is the mean over folds. Errors of the curve are the negative scores. Without a given array
    of stops the candidates are those at which the rule has looked, exactly, for the least squared
    error. Of equal scores the earliest stop is chosen.
    """

    rule: CurveRule
    scoring: str | Scorer
    name: ClassVar[str] = "score"

    @classmethod
    def of(cls, rule: Rule, scoring: Any) -> BestScore:
        """Check rule and scorer."""
        if not (isinstance(rule, CurveRule) and rule.name in {"loo", "cross-validation"}):
            raise ValueError(f'scoring needs rule="loo" or cv; got rule {rule.name!r}.')
        if not callable(scoring):
            get_scorer(scoring)  # raises a ValueError that lists all names
        return cls(rule, scoring)

    @property
    def needs_rows(self) -> bool:
        """Whether rows are left out one by one."""
        return self.rule.needs_rows

    def fixed(
        self, data: Data, groups: ArrayLike | None = None, *, verbose: bool = False
    ) -> BestScore:
        """Return this rule with its folds drawn once."""
        rule: Any = self.rule.fixed(data, groups, verbose=verbose)
        return replace(self, rule=rule)

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop with the best score; see :meth:`Rule.choose`."""
        chooser = self.fixed(problem.data, problem.groups, verbose=problem.verbose)
        grid, given = stops_to_try(problem, stops)
        if not given:
            choice = chooser.rule.choose(problem, stops, per_target=per_target)
            grid = np.asarray(choice.curve.stops, np.float64)
        problem = problem.reaching(grid)
        tests: Any = _held_out(problem, chooser.rule, grid)
        if self.needs_rows:
            tests = [_left_out(problem, grid)]
        errors = -np.mean([self._scores(test, per_target=per_target) for test in tests], axis=0)
        if np.isnan(errors).any():
            raise ValueError(f"The {self._word} is NaN at some stops: choose another scorer.")
        at = np.argmin(errors.reshape(len(grid), -1), axis=0)
        message = f"best {self._word} at {len(grid)} stops"
        return choice_at(at, ErrorCurve(grid, errors), message, per_target=per_target)

    @property
    def _word(self) -> str:
        """The score in words, for messages."""
        named = self.scoring if isinstance(self.scoring, str) else None
        return str(named or getattr(self.scoring, "name", "score"))

    def _scores(self, test: _Test, *, per_target: bool) -> Floats:
        """Return the score at every stop, and for every target if each has a stop of its own."""
        found = []
        for fit in test.fits:
            if per_target:
                columns = zip(fit.T, test.response.T, strict=True)
                found.append([self._score(one, response, test) for one, response in columns])
            else:
                found.append(self._score(fit, test.response, test))
        return np.array(found)

    def _score(self, fit: Floats, response: Floats, test: _Test) -> Any:
        scorer = get_scorer(self.scoring)
        if test.weights is None:
            return scorer(Predicted(), fit, response)
        try:
            return scorer(Predicted(), fit, response, sample_weight=test.weights)
        except TypeError as error:
            if "sample_weight" not in str(error):
                raise
            raise ValueError(f"The {self._word} cannot weight rows: leave out weights.") from error


class _Test(NamedTuple):
    """Responses of rows, and their predictions at every stop, which are computed when asked for."""

    response: Floats  # a vector if there is a single target
    weights: Floats | None  # None if they are equal
    fits: Iterator[Floats]


def _tested(problem: Problem, response: Any, weights: Any, stops: Array, predict: Any) -> _Test:
    """Return the test of a function that predicts all rows at some stops."""
    # rows of weight zero are not scored
    live = slice(None) if weights is None else np.flatnonzero(weights)
    one: Any = (live, 0) if problem.data.single_target else live
    response = np.asarray(on_host(response), np.float64)

    def fits() -> Iterator[Floats]:
        # few predictions are held at once
        for part in slices(len(stops), SCORED_NUMBERS // response.size):
            values = np.asarray(on_host(predict(stops[part])), np.float64)
            yield from values.reshape(len(values), *response.shape)[:, *np.index_exp[one]]

    if weights is not None:
        weights = None if np.ptp(weights[live]) == 0 else weights[live]
    return _Test(response[one], weights, fits())


def _left_out(problem: Problem, stops: Array) -> _Test:
    """Return every row, predicted by the path without it."""
    rows = problem.left_out.rows
    response = np.asarray(on_host(rows.data.y), np.float64)

    def predict(some: Array) -> Floats:
        return response - problem.left_out.at_stops(problem.tuned, some)

    return _tested(problem, response, rows.data.row_weights, stops, predict)


def _held_out(problem: Problem, rule: Any, stops: Array) -> Iterator[_Test]:
    """Yield the rows of every test set, predicted by the path of its training set."""
    for fold in progress(rule.cv.folds, "cross-validation", problem.verbose):
        train, test = fold()
        if not isinstance(test, RowsToTest):
            raise ValueError(  # noqa: TRY004 - streamed data are legal without scoring
                "scoring needs rows in memory: leave it out for streamed data."
            )
        spectrum = train.spectrum(goals(problem.method, stops))

        def predict(some: Array, spectrum: Any = spectrum, X: Any = test.X) -> Floats:
            return draw(spectrum, problem.method, some).predict(X)

        yield _tested(problem, test.y, test.weights, stops, predict)
