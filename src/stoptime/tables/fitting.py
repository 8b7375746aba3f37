"""Read a file, fit a model, assess it and compare it: the work of ``stoptime fit``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from stoptime.estimators.classifier import StoppedClassifierCV
from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.estimators.probabilities import LEAST_SLOPE
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import decompose
from stoptime.spectrum.streams import summarise
from stoptime.support.progress import warnings_noted

from stoptime.tables.assessment import (  # isort: skip
    Assessment, ClassErrors, Fitted, Request, Score, assess, compare,
)  # fmt: skip
from stoptime.tables.reading import Table, errors_named, read_table
from stoptime.tables.recipe import Prepared, TableRows, opening, prepare

__all__ = [
    "Assessment", "ClassErrors", "Fitted", "Request", "Score", "assess", "compare", "fit_table",
]  # fmt: skip


def fit_table(request: Request, progress: Callable[[str], None] | None = None) -> Fitted:
    """Read a table, prepare it, fit a model, assess it and compare it with other estimators."""
    step = progress or (lambda _: None)
    step("reading")
    request, messages = request.adapted()
    read = read_table if request.shuffled else opening
    table = read(request.data, missing=request.missing)
    step("preparing")
    with errors_named(table.source):
        prepared = _prepare(request, table)
    step("fitting")
    with errors_named(table.source), warnings_noted() as warned:
        model, spectrum, n_rows, on_rows = _fit(request, prepared)
    messages += [*table.messages, *on_rows, *warned]
    step("assessing")
    found = assess(model, spectrum)
    classes = ClassErrors.of(model, prepared) if prepared.task.classifies else None
    if classes is not None and model.slope_ <= LEAST_SLOPE:
        messages.append(
            "The columns do not help to predict the classes of left-out rows: every row has the "
            "same probabilities, and a very large intercept makes them so."
        )
    scores: list[Score] = []
    try:
        with warnings.catch_warnings():
            # the fit to all rows has warned, and scikit-learn warns of classes with few rows
            warnings.simplefilter("ignore", UserWarning)
            candidate = _estimator(request, prepared)
            if request.compare:
                scores = compare(candidate, spectrum, prepared, seed=request.seed, progress=step)
    except ValueError as error:  # a fold may be too small for the method
        messages.append(f"No comparison on folds: {error}")
    given = request, table, prepared, n_rows, model, spectrum
    return Fitted(*given, found, scores, tuple(messages), request.code(), classes)


def _prepare(request: Request, table: Table) -> Prepared:
    # Classes need all rows: numbers in a file that is read in chunks stay numbers.
    classify = request.classify if request.shuffled else bool(request.classify)
    prepared = prepare(
        table.frame, request.target, request.policy, weights=request.weights, drop=request.drop,
        missing=request.missing, classify=classify,
    )  # fmt: skip
    if prepared.task.classifies and not request.shuffled:
        raise ValueError(
            f'The classes of "{request.target}" need all rows in memory: in_memory=True.'
        )
    return prepared


def _fit(request: Request, prepared: Prepared) -> tuple[Any, Spectrum, int, list[str]]:
    """Fit the prepared rows, or all rows of a file in chunks; return messages on the rows too."""
    estimator = _estimator(request, prepared)
    if request.shuffled:
        if request.cv is not None and request.cv > len(prepared.y):
            raise ValueError(f"There are {len(prepared.y)} rows: cv={request.cv} has more folds.")
        weights = prepared.sample_weight
        n_rows = len(prepared.y) if weights is None else int(np.count_nonzero(weights))
        response = prepared.task.coded(prepared.y)
        spectrum = decompose(prepared.X, response, weights, request.fit_intercept)
        model = estimator.fit(prepared.X, prepared.y, weights)
        return model, spectrum, n_rows, list(prepared.messages)
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


def _estimator(request: Request, prepared: Prepared) -> Any:
    task = prepared.task
    cv: Any = request.cv
    if cv is not None and request.shuffled:
        cv = task.folds(cv, shuffle=True, random_state=request.seed)
    method = request.methods[0] if len(request.methods) == 1 else list(request.methods)
    intercept = request.fit_intercept
    estimator: Any = StoppedClassifierCV if task.classifies else StoppedRegressorCV
    return estimator(method, request.stops, cv=cv, rule=request.rule, fit_intercept=intercept)
