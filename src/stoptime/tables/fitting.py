"""From a table to a fitted model in one call: the work of ``stoptime fit``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline

from stoptime.estimators.classifier import StoppedClassifierCV
from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.support.progress import warnings_noted
from stoptime.tables.assessment import TableFit, compared
from stoptime.tables.preparation import TablePreparation, as_frame, check_columns, counted
from stoptime.tables.reading import Table, read_table
from stoptime.tables.values import Form, read, words


def fit_table(
    frame: Any,
    target: str,
    *,
    preparation: TablePreparation | None = None,
    weights: str | None = None,
    classify: bool | None = None,
    complete_rows: bool = False,
    compare: bool = True,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> TableFit:
    """Prepare a table, fit a model, assess it, and compare it with ridge and least squares.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, or path
        The table, or a file that :func:`stoptime.tables.read_table` reads.
    target : str
        The column to predict. Rows without it are left out.
    preparation : TablePreparation, optional
        How columns become features, if not by default.
    weights : str, optional
        The column of sample weights.
    classify : bool, optional
        Whether the values of the target are classes; by default text, two values, and 0, 1, 2 are.
    complete_rows : bool, default=False
        Whether to leave out rows with a missing value instead of filling it in.
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
    >>> [score.name for score in fit.scores]
    ['stoptime', 'ridge, as RidgeCV', 'least squares', 'the mean']
    """
    step = progress or (lambda _: None)
    step("reading")
    table = frame
    if isinstance(frame, str | Path):
        table = read_table(frame)
    if not isinstance(table, Table):
        table = Table(as_frame(frame), "a data frame")
    code = _code(table, target, preparation, weights, classify, complete_rows, options)
    preparation = TablePreparation() if preparation is None else clone(preparation)
    rows = table.frame
    check_columns([target, *([] if weights is None else [weights])], list(rows.columns))
    step("preparing")
    notes = list(table.messages)
    y, known, classes, told = _target(preparation.cleaned(rows[target]), target, classify)
    notes += told
    if not known.all():
        lost = counted(int((~known).sum()), "row")
        notes.append(f'{lost} without a target "{target}" left out.')
    X = rows[known].drop(columns=[target, *([] if weights is None else [weights])])
    shares = None if weights is None else _weights(rows[weights], weights)[known]
    if complete_rows:
        gaps = clone(preparation).set_params(missing="impute").fit(X).gaps(X)
        if gaps.any():
            notes.append(f"{counted(int(gaps.sum()), 'row')} with missing values left out.")
        X = X[~gaps]
        y = y[~gaps]
        shares = None if shares is None else shares[~gaps]
        preparation.set_params(missing="error")
    _check_response(y, target)
    step("fitting")
    if isinstance(options.get("cv"), int):
        # tables are often sorted, so that folds are shuffled
        folds = StratifiedKFold if classes else KFold
        options["cv"] = folds(options["cv"], shuffle=True, random_state=0)
    estimator: Any = (StoppedClassifierCV if classes else StoppedRegressorCV)(**options)
    with warnings_noted() as warned:
        Z = preparation.fit_transform(X, sample_weight=shares)
        estimator.fit(Z, y, shares)
    pipeline = Pipeline([("preparation", preparation), ("model", estimator)])
    notes += [*preparation.notes_, *warned, *_copies(Z, y, preparation.get_feature_names_out())]
    given = {"notes": tuple(notes), "source": table.source, "code": code, "Z": Z}
    fit = TableFit(pipeline, X, y, target, shares, **given)
    if not compare:
        return fit
    step("comparing")
    with warnings_noted():  # the fit itself has warned
        return replace(fit, scores=compared(fit))


class _Target(NamedTuple):
    """The target of the rows that have one."""

    y: NDArray[Any]
    known: NDArray[np.bool_]  # which rows these are
    classes: bool
    notes: list[str]


def _target(series: Any, name: str, classify: bool | None) -> _Target:
    """Read the target, and decide whether its values are classes."""
    texts = words(series)
    known = np.array([one is not None for one in texts])
    try:
        form, values = read(series[known], Form("number"))
    except ValueError as error:  # numbers and words
        if classify is not True:
            raise ValueError(f'The target "{name}": {error}') from error
        form, values = Form("text"), texts[known]
    if form.kind == "number":
        finite = np.isfinite(values)
        known[known] = finite
        values = values[finite]
    texts = texts[known]
    numeric = form.kind == "number"
    flags = {one.lower() for one in texts} <= {"true", "false"}
    notes: list[str] = []
    if classify is None:
        classify, notes = _are_classes(values, name, numeric=numeric, flags=flags)
    if classify:
        return _Target(_labels(values, texts, name, numeric, flags), known, True, notes)
    example = next(iter(texts), "nothing")[:40]
    if not numeric:
        raise ValueError(
            f'The target "{name}" must be numbers, not {form.kind} such as {example!r}: choose '
            "another column, or correct it."
        )
    if form.decimal or form.unit:
        notes.append(f'The target "{name}": text such as {example!r}, {form.in_words()}.')
    return _Target(values, known, False, notes)


def _are_classes(values: Any, name: str, *, numeric: bool, flags: bool) -> tuple[bool, list[str]]:
    """Tell whether values are classes, with a note where they could be either."""
    different = np.unique(values if numeric else values.astype(str))
    shown = ", ".join(map(_short, different[:5])) + (", ..." if len(different) > 5 else "")
    how = f'The target "{name}" has the values {shown}, which are'
    if not numeric:
        return True, [f"{how} taken as classes."]
    enough = len(values) >= 10
    if flags or (enough and (len(different) == 2 or different.tolist() == [0, 1, 2])):
        return True, [f"{how} taken as classes; classify=False fits them as numbers."]
    if enough and len(different) <= 5 and (values % 1 == 0).all():
        return False, [f"{how} fitted as numbers; classify=True takes them as classes."]
    return False, []


def _labels(values: Any, texts: Any, name: str, numeric: bool, flags: bool) -> NDArray[Any]:
    count = len(np.unique(texts.astype(str)))
    # a class of one row cannot be learned without it
    if count > min(100, len(texts) / 2):
        raise ValueError(
            f'The target "{name}" has {count} different values in {len(texts)} rows, too many for '
            "classes: choose another target, or classify=False if these are numbers."
        )
    if numeric and flags:
        return np.asarray(values == 1)
    if numeric and (values % 1 == 0).all():
        return np.asarray(values.astype(int))
    return np.asarray(texts.astype(str))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)[:40]


def _weights(series: Any, name: str) -> Any:
    form, values = read(series, Form("number"))
    if form.kind != "number" or not (values >= 0).all() or not values.any():
        raise ValueError(
            f'The weights "{name}" must be numbers from zero on, without gaps and not all zero: '
            "choose another column."
        )
    return values


def _check_response(y: Any, name: str) -> None:
    if len(y) < 2:
        raise ValueError(
            f'The target "{name}" has {counted(len(y), "value")}: nothing can be learned.'
        )
    if len(np.unique(y)) < 2:
        raise ValueError(f'The target "{name}" is {y[0]} in every row: there is nothing to learn.')


def _copies(Z: Any, y: Any, names: Any) -> list[str]:
    """Return a note if one feature alone gives the target, up to rounding."""
    response = np.unique(y, return_inverse=True)[1] if y.dtype.kind not in "fiu" else y
    centred = response - np.mean(response, dtype=np.float64)
    columns = Z - Z.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = np.abs(centred @ columns) / np.sqrt(
            (centred @ centred) * (columns**2).sum(axis=0)
        )
    same = names[cosines > 1 - 1e-9].tolist()
    told = "determines the target exactly: is it a copy? drop leaves it out."
    return [f'The feature "{same[0]}" {told}'] if same else []


def _code(
    table: Table,
    target: str,
    preparation: TablePreparation | None,
    weights: str | None,
    classify: bool | None,
    complete_rows: bool,
    options: dict[str, Any],
) -> str:
    """Return Python code that fits the same model."""
    data = "frame" if table.source == "a data frame" else repr(table.source)
    given = {"weights": weights, "classify": classify, "complete_rows": complete_rows or None}
    parts = [data, repr(target)]
    if preparation is not None and repr(preparation) != "TablePreparation()":
        parts.append(f"preparation=st.{preparation!r}".replace("\n", ""))
    for name, value in {**given, **options}.items():
        if value is not None:
            parts.append(f"{name}={_written(value)}")
    return f"import stoptime as st\n\nfit = st.fit_table({', '.join(parts)})\nprint(fit)\n"


def _written(value: Any) -> str:
    """Return code for a parameter: methods and rules are names of the package."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if type(value).__module__.startswith("stoptime"):
        return f"st.{value!r}"
    if isinstance(value, float) and np.isinf(value):
        return 'float("inf")'
    return repr(value)
