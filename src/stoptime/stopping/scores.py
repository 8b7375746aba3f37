"""The rule of the best score: any scorer of scikit-learn, on predictions for left-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer, max_error

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.rows import target_units
from stoptime.paths import draw
from stoptime.spectrum.data import Data, RowsToTest
from stoptime.stopping.grid import stops_to_try
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice, CurveRule, Rule, choice_at
from stoptime.support.arrays import Array, Floats, on_host, slices
from stoptime.support.progress import progress

Scorer = Callable[..., float]


def scores_of(
    scoring: str | Scorer, predictions: Floats, response: Floats, weights: Floats | None = None
) -> Floats:
    """Return the score of the predictions at every stop, of shape (n_stops,).

    Predictions have shape (n_stops, n) or (n_stops, n, n_targets), and the response has the shape
    of one of them. Metrics of scikit-learn for regression, and scorers with a method ``scores``,
    see all stops in one call; any other scorer is called stop by stop.
    """
    if hasattr(scoring, "scores"):
        return np.asarray(scoring.scores(predictions, response, weights))
    scorer = get_scorer(scoring)
    options = {} if weights is None else {"sample_weight": weights}
    # what make_scorer wraps; other callables have no such attributes
    metric: Any = getattr(scorer, "_score_func", None)
    if metric is max_error and predictions.ndim == 2 and weights is None:
        return np.asarray(scorer._sign * np.abs(predictions - response).max(axis=1))
    if _averages_targets(metric) and "multioutput" not in scorer._kwargs:
        # every stop takes the place of one more target
        columns = np.moveaxis(predictions, 0, 1)
        wanted = np.broadcast_to(np.expand_dims(response, 1), columns.shape)
        flat = [each.reshape(len(response), -1) for each in (wanted, columns)]
        found = metric(*flat, multioutput="raw_values", **options, **scorer._kwargs)
        return np.asarray(scorer._sign * found.reshape(len(predictions), -1).mean(axis=1))
    return np.array([scorer(Predicted(), fit, response, **options) for fit in predictions])


def _averages_targets(metric: Any) -> bool:
    """Tell whether a metric is one of scikit-learn, and the mean of scores of single targets."""
    if not getattr(metric, "__module__", "").startswith("sklearn.metrics"):
        return False
    option = signature(metric).parameters.get("multioutput")
    return option is not None and option.default == "uniform_average"


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
    of stops the candidates are those at which the rule has looked for the least squared error. Of
    equal scores the earliest stop is chosen.
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

    def fixed(self, data: Data, groups: ArrayLike | None = None) -> BestScore:
        """Return this rule with its folds drawn once."""
        rule: Any = self.rule.fixed(data, groups)
        return replace(self, rule=rule)

    def floor(self, problem: Problem) -> float:  # noqa: ARG002 - for rules with squared errors
        """Return minus infinity, because scores may have any size and sign."""
        return -np.inf

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop with the best score; see :meth:`Rule.choose`."""
        return self.choose_each([problem], stops, per_target=per_target)[0][1]

    def choose_each(
        self, problems: list[Problem], stops: ArrayLike | int | None, *, per_target: bool
    ) -> list[tuple[Problem, Choice]]:
        """Pick the stops of several methods, at which the rule looks together."""
        first = problems[0]
        rule = self.fixed(first.data, first.groups).rule
        if np.ndim(np.asarray(stops)) > 0:
            grids = [(one, stops_to_try(one, stops)[0]) for one in problems]
        else:
            found = rule.choose_each(problems, stops, per_target=per_target)
            looked = [(one, rule.finished(one, choice).curve.stops) for one, choice in found]
            grids = [(one, np.asarray(own, np.float64)) for one, own in looked]
        return [(one, self._best(rule, one, grid, per_target=per_target)) for one, grid in grids]

    def _best(self, rule: Rule, problem: Problem, grid: Array, *, per_target: bool) -> Choice:
        """Return the stop of the grid with the best score."""
        problem = problem.reaching(grid)
        try:
            tests = _tests(problem, rule, grid)
            scores = [self._scores(test, per_target=per_target) for test in tests]
        except TypeError as error:
            if "sample_weight" not in str(error):
                raise
            raise ValueError(f"The {self._word} cannot weight rows: leave out weights.") from error
        errors = -np.mean(scores, axis=0)
        if np.isnan(errors).any():
            raise ValueError(f"The {self._word} is NaN at some stops: choose another scorer.")
        at = np.argmin(errors.reshape(len(grid), -1), axis=0)
        message = f"best {self._word} of {len(grid)} stops"
        return choice_at(at, ErrorCurve(grid, errors), message, per_target=per_target)

    @property
    def _word(self) -> str:
        """The score in words, for messages."""
        named = self.scoring if isinstance(self.scoring, str) else None
        return str(named or getattr(self.scoring, "name", "score"))

    def _scores(self, test: _Test, *, per_target: bool) -> Floats:
        """Return the score at every stop, and for every target if each has a stop of its own."""
        several = per_target and test.response.ndim == 2
        found = []
        for fits in test.parts:
            columns: Any = [(fits, test.response)]
            if several:
                columns = zip(np.moveaxis(fits, 2, 0), test.response.T, strict=True)
            each = [scores_of(self.scoring, one, own, test.weights) for one, own in columns]
            found.append(np.stack(each, axis=1))
        return np.concatenate(found) if several else np.concatenate(found)[:, 0]


class _Test(NamedTuple):
    """Responses of rows, and their predictions at every stop, which are computed when asked for."""

    response: Floats  # a vector if there is a single target
    weights: Floats | None  # None if they are equal
    parts: Iterator[Floats]  # predictions at some stops, (n_stops, *shape of the response)


def _tests(problem: Problem, rule: Any, stops: Array) -> Iterator[_Test]:
    """Yield all rows, each predicted without it, or the rows of every test set in turn."""
    if rule.needs_rows:
        rows = problem.left_out.rows
        response = np.asarray(on_host(rows.data.y), np.float64)
        left_out = partial(problem.left_out.at_stops, problem.filter)
        yield _tested(
            problem, response, rows.data.row_weights, stops, lambda some: response - left_out(some)
        )
        return
    for fold in progress(rule.cv.folds, "cross-validation"):
        opened = rule.cv.opened(fold, problem.method, stops, target_units(problem.spectrum))
        test = opened.test
        if not isinstance(test, RowsToTest):
            raise ValueError(  # noqa: TRY004 - streamed data are legal without scoring
                "scoring needs rows in memory: leave it out for streamed data."
            )
        predict = partial(_predicted, opened.spectrum, problem.method, test.X)
        yield _tested(problem, test.y, test.weights, stops, predict)


def _predicted(spectrum: Any, method: Any, X: Any, stops: Array) -> Floats:
    return draw(spectrum, method, stops).predict(X)


def _tested(problem: Problem, response: Any, weights: Any, stops: Array, predict: Any) -> _Test:
    """Return the test of a function that predicts all rows at some stops."""
    # rows of weight zero are not scored
    live = slice(None) if weights is None else np.flatnonzero(weights)
    one: Any = (live, 0) if problem.data.single_target else live
    response = np.asarray(on_host(response), np.float64)

    def parts() -> Iterator[Floats]:
        for part in slices(len(stops), 2**23 // response.size):  # 64 MB of predictions at once
            values = np.asarray(on_host(predict(stops[part])), np.float64)
            yield values.reshape(len(values), *response.shape)[:, *np.index_exp[one]]

    if weights is not None:
        weights = None if np.ptp(weights[live]) == 0 else weights[live]
    return _Test(response[one], weights, parts())
