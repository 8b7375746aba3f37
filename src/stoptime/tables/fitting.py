"""From a table to a fitted model in one call: the work of ``stoptime fit``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_selection import r_regression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline

from stoptime.estimators.classifier import StoppedClassifierCV
from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.support.progress import warnings_noted
from stoptime.tables.assessment import TableFit, compared
from stoptime.tables.preparation import TablePreparation, as_frame, check_columns, counted
from stoptime.tables.reading import Table, read_table
from stoptime.tables.values import Form, pandas, read, words


def fit_table(
    frame: Any,
    target: str,
    *,
    preparation: TablePreparation | None = None,
    weights: str | None = None,
    classify: bool | None = None,
    log: bool = False,
    compare: bool = True,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> TableFit:
    """Prepare a table, fit a model, assess it, and compare it with ridge and least squares.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, dict of columns, or path
        The table, or a file that :func:`stoptime.tables.read_table` reads.
    target : str
        The column to predict. Rows without it are left out.
    preparation : TablePreparation, optional
        How columns become features, if not by default.
    weights : str, optional
        The column of sample weights.
    classify : bool, optional
        Whether the values of the target are classes; by default text, two values, and 0, 1, 2 are.
    log : bool, default=False
        Whether to fit the logarithm of a positive target. Predictions and intervals are in the
        units of the target, errors and coefficients in those of its logarithm.
    compare : bool, default=True
        Whether to compare with ridge, least squares and a constant, by leave-one-out.
    progress : callable, optional
        Called with the name of each step.
    **options
        Parameters of :class:`stoptime.StoppedRegressorCV` or
        :class:`stoptime.StoppedClassifierCV`, such as ``method``, ``rule`` and ``cv``.

    Returns
    -------
    TableFit
        With the fitted ``pipeline``, ``notes`` on what was done, and ``scores``.

    Examples
    --------
    >>> import stoptime as st
    >>> fit = st.fit_table("diabetes", "target")  # a file, or these built-in data
    >>> fit.pipeline
    Pipeline(steps=[('preparation', TablePreparation()),
                    ('model', StoppedRegressorCV())])
    >>> [score.name for score in fit.scores]  # ridge was chosen
    ['stoptime', 'least squares', 'the mean']
    """
    step = progress or (lambda _: None)
    step("reading")
    table = read_table(frame) if isinstance(frame, str | Path) else frame
    if not isinstance(table, Table):
        table = Table(frame, "a data frame")
    rows = as_frame(table.frame)
    preparation = TablePreparation() if preparation is None else clone(preparation)
    others = [target, *([] if weights is None else [weights])]
    check_columns(others, list(rows.columns))
    step("preparing")
    wanted = False if log and classify is None else classify
    y, known, classes, told = _target(preparation.cleaned(rows[target]), target, wanted)
    notes = [*table.messages, *told]
    rows = rows[known]
    X = rows.drop(columns=others)
    shares = None if weights is None else _weights(rows[weights], weights)
    _check_response(y, target, log=log)
    step("fitting")
    if isinstance(options.get("cv"), int):
        # tables are often sorted, so that folds are shuffled
        folds = StratifiedKFold if classes else KFold
        options["cv"] = folds(options["cv"], shuffle=True, random_state=0)
    model: Any = (StoppedClassifierCV if classes else StoppedRegressorCV)(**options)
    if log:
        model = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp)
    with warnings_noted() as warned:
        Z = preparation.fit_transform(X, sample_weight=shares)
        model.fit(Z, y, sample_weight=shares)
    pipeline = Pipeline([("preparation", preparation), ("model", model)])
    name = f"log({target})" if log else target
    y = np.log(y) if log else y
    notes += [*preparation.notes_, *warned, *_copies(Z, y, preparation.get_feature_names_out())]
    fit = TableFit(pipeline, X, Z, y, name, shares, tuple(notes), source=table.source)
    if not compare:
        return fit
    step("comparing")
    return replace(fit, scores=compared(fit))


def _target(series: Any, name: str, classify: bool | None) -> tuple[Any, Any, bool, list[str]]:
    """Return the target of the rows that have one, which rows, whether classes, and notes."""
    texts = words(series)
    known = np.array([one is not None for one in texts], dtype=bool)
    # categories are classes also where they are numbers
    category = classify is not False and isinstance(series.dtype, pandas().CategoricalDtype)
    try:
        form, values = read(series[known], None if category else Form("number"))
    except ValueError as error:  # numbers and words
        if classify is not True:
            raise ValueError(f'The target "{name}": {error}') from error
        form, values = Form("text"), texts[known]
    numeric = form.kind == "number"
    if numeric:
        known[known] = np.isfinite(values)
        values = values[np.isfinite(values)]
    texts = texts[known].astype(str)
    flags = {one.lower() for one in texts} <= {"true", "false"}
    notes: list[str] = []
    if classify is None:
        classify, notes = _are_classes(values if numeric else texts, name, numeric, flags)
    if not known.all():
        notes.append(f'{counted(int((~known).sum()), "row")} without a target "{name}" left out.')
    if classify:
        return _labels(values, texts, name, numeric, flags), known, True, notes
    example = texts[0][:40] if len(texts) else "nothing"
    if not numeric:
        raise ValueError(
            f'The target "{name}" must be numbers, not {form.kind} such as {example!r}: choose '
            "another column, or correct it."
        )
    if form.decimal or form.unit:
        notes.append(f'The target "{name}": text such as {example!r}, {form.in_words()}.')
    return values, known, False, notes


def _are_classes(values: Any, name: str, numeric: bool, flags: bool) -> tuple[bool, list[str]]:
    """Tell whether values are classes, with a note where they could be either."""
    different = np.unique(values)
    shown = ", ".join(f"{one:g}" if numeric else one[:40] for one in different[:5])
    shown += ", ..." if len(different) > 5 else ""
    how = f'The target "{name}" has the values {shown}, which are'
    if not numeric:
        return True, [f"{how} taken as classes."]
    enough = len(values) >= 10
    if flags or (enough and (len(different) == 2 or different.tolist() == [0, 1, 2])):
        return True, [f"{how} taken as classes; classify=False fits them as numbers."]
    if enough and len(different) <= 5 and (values % 1 == 0).all():
        return False, [f"{how} fitted as numbers; classify=True takes them as classes."]
    return False, []


def _labels(values: Any, texts: Any, name: str, numeric: bool, flags: bool) -> Any:
    """Return classes as truth values, whole numbers, or text."""
    count = len(np.unique(texts))
    # a class of one row cannot be learned without it
    if count > min(100, len(texts) / 2):
        raise ValueError(
            f'The target "{name}" has {count} different values in {len(texts)} rows, too many '
            "for classes: choose another target, or classify=False if these are numbers."
        )
    if numeric and flags:
        return values == 1
    return values.astype(int) if numeric and (values % 1 == 0).all() else texts


def _weights(series: Any, name: str) -> Any:
    form, values = read(series, Form("number"))
    if form.kind != "number" or not (values >= 0).all() or not values.any():
        raise ValueError(
            f'The weights "{name}" must be numbers from zero on, without gaps and not all zero: '
            "choose another column."
        )
    return values


def _check_response(y: Any, name: str, *, log: bool) -> None:
    if len(y) < 2:
        raise ValueError(
            f'The target "{name}" has {counted(len(y), "value")}: nothing can be learned.'
        )
    if len(np.unique(y)) < 2:
        raise ValueError(f'The target "{name}" is {y[0]} in every row: there is nothing to learn.')
    if log and (y.dtype.kind != "f" or y.min() <= 0):
        why = f"go down to {y.min():g}" if y.dtype.kind == "f" else "are classes"
        raise ValueError(f'log=True needs a positive target, and the values of "{name}" {why}.')


def _copies(Z: Any, y: Any, names: Any) -> list[str]:
    """Return a note if one feature alone gives the target, up to rounding."""
    response = np.unique(y, return_inverse=True)[1] if y.dtype.kind not in "fiu" else y
    same = names[np.abs(r_regression(Z, response)) > 1 - 1e-9].tolist()
    told = "determines the target exactly: is it a copy? drop leaves it out."
    return [f'The feature "{same[0]}" {told}'] if same else []
