"""Read a file, fit a model, assess it and compare it: the work of ``stoptime fit``."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import KFold

from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.spectrum.decompose import decompose
from stoptime.spectrum.streamed.data import summarise
from stoptime.stopping.rule import StopWarning
from stoptime.support.progress import warnings_noted
from stoptime.tables.assessment import Assessment, Fitted, Request, Score, assess, compare
from stoptime.tables.reading import read_table
from stoptime.tables.recipe import Prepared, TableRows, opening, prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoptime.spectrum.base import Spectrum

__all__ = ["Assessment", "Fitted", "Request", "Score", "assess", "compare", "fit_table"]

FIT_STEPS = 8  # messages that fit_table sends to a progress bar


def fit_table(request: Request, progress: Callable[[str], None] | None = None) -> Fitted:
    """Read a table, prepare it, fit a model, assess it and compare it with other estimators."""
    step = progress or (lambda _: None)
    step("reading")
    request, messages = request.adapted()
    read = read_table if request.shuffled else opening
    table = read(request.data, missing=request.missing)
    step("preparing")
    prepared = prepare(
        table.frame, request.target, request.policy, weights=request.weights, drop=request.drop
    )
    step("fitting")
    with warnings_noted() as warned:
        model, spectrum, n_rows, on_rows = _fit(request, prepared)
    messages += [*table.messages, *on_rows, *warned]
    step("assessing")
    found = assess(model, spectrum)
    scores: list[Score] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StopWarning)  # the fit to all rows has warned
            candidate = _estimator(request)
            scores = compare(candidate, spectrum, prepared, seed=request.seed, progress=step)
    except ValueError as error:  # a fold may be too small for the method
        messages.append(f"No comparison on folds: {error}")
    told = tuple(messages)
    code = request.code()
    return Fitted(request, table, prepared, n_rows, model, spectrum, found, scores, told, code)


def _fit(
    request: Request, prepared: Prepared
) -> tuple[StoppedRegressorCV, Spectrum, int, list[str]]:
    """Fit the prepared rows, or all rows of a file in chunks; return messages on the rows too."""
    estimator = _estimator(request)
    if request.shuffled:
        data = prepared.X, prepared.y, prepared.sample_weight
        n_rows = len(data[1]) if data[2] is None else int(np.count_nonzero(data[2]))
        spectrum = decompose(*data, request.fit_intercept)
        return estimator.fit(*data), spectrum, n_rows, list(prepared.messages)
    columns = request.target, request.weights
    rows = TableRows(request.data, prepared.recipe, *columns, request.policy, request.missing)
    statistics = summarise(rows.chunks())
    # Folds are made of rows; every other rule needs only the statistics of one pass.
    model = estimator.fit(rows.chunks() if request.cv is not None else statistics)
    spectrum = decompose(statistics, fit_intercept=request.fit_intercept)
    how = (
        f"Read in chunks: {statistics.n_rows} rows were fitted. The first {len(prepared.y)} rows "
        "decide what each column is, and are used for comparisons and figures."
    )
    # Of the messages on the first rows, only those on columns hold for all rows.
    decisions = [one for one in prepared.messages if one.startswith("Column")]
    return model, spectrum, statistics.n_rows, [how, *decisions, *rows.messages()]


def _estimator(request: Request) -> StoppedRegressorCV:
    cv: Any = request.cv
    if cv is not None and request.shuffled:
        cv = KFold(cv, shuffle=True, random_state=request.seed)
    method = request.methods[0] if len(request.methods) == 1 else list(request.methods)
    rule = request.rule
    intercept = request.fit_intercept
    return StoppedRegressorCV(method, request.stops, cv=cv, rule=rule, fit_intercept=intercept)
