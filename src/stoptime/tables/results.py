"""The results of a fit in words and tables, the same when printed and in the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stoptime.support.wording import ROUNDED_TO_ZERO, aligned, method_in_words, number, with_error
from stoptime.tables.preparation import counted

Figures = list[tuple[str, str, str]]


class TableOf(NamedTuple):
    """A table of texts."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary(fit: Any) -> str:
    """Return what ``stoptime fit`` prints: key figures, classes, coefficients, the comparison."""
    rows = [("data", Path(fit.source).name, size(fit)), *key_figures(fit)]
    width = max(len(name) for name, _, _ in rows)
    # the long name of a method needs no room, because nothing stands beside it
    middle = max(len(value) for _, value, meaning in rows if meaning)
    lines = [f"{a:{width}}  {b:{middle}}  {c}" for a, b, c in rows]
    tables = [*class_tables(fit), coefficient_table(fit, 12), comparison_table(fit)]
    shown = (aligned([one.head, *one.rows]) for one in tables if one.rows)
    every = "\n\n".join(["\n".join(lines), *shown])
    return "\n".join(map(str.rstrip, every.splitlines()))


def size(fit: Any) -> str:
    """Return the size of the data."""
    n, p = fit.features.shape
    return f"{counted(n, 'row')}, {counted(p, 'feature')}"


def key_figures(fit: Any) -> Figures:
    """Return name, value and meaning of what a reader wants to know first."""
    model = fit.model
    linear = getattr(model, "regressor_", model)
    alpha = getattr(linear, "alpha_", None)
    full = int(np.count_nonzero(linear.eigenvalues_)) + bool(model.fit_intercept)
    nothing = "; the columns predict no better than a constant" if model.stop_ == 0 else ""
    return [
        *(_figures_of_classes(fit) if fit.classifies else _figures_of_errors(fit)),
        ("method", method_in_words(model.method_), ""),
        (
            "stop",
            number(float(model.stop_)),
            f"{model.method_.stop_meaning}: {model.choice_.message}{nothing}",
        ),
        ("equivalent ridge", "none" if alpha is None else f"alpha {number(float(alpha))}", ""),
        ("degrees of freedom", f"{model.degrees_of_freedom_:.1f}", f"least squares has {full}"),
    ]


def _figures_of_classes(fit: Any) -> Figures:
    found = fit.classes
    if found is None:
        return [("accuracy", "unknown", "this method has no predictions of left-out rows")]
    sizes = np.sum(found.confusion, axis=1)
    frequent = f"the most frequent class has {100 * sizes.max() / sizes.sum():.1f} %"
    share = with_error(*(100 * one for one in found.accuracy))
    return [
        ("accuracy", f"{share} %", f"of left-out rows; {frequent}"),
        ("log loss", with_error(*found.log_loss, scale=1.0), "of left-out rows"),
    ]


def _figures_of_errors(fit: Any) -> Figures:
    errors = fit.errors
    if not errors.how:
        return [("typical error", "unknown", f"{fit.rule_in_words} does not estimate it")]
    scale = float(np.std(fit.y))
    mae = "" if errors.mae is None else f"; mean absolute {number(errors.mae, scale=scale)}"
    error = with_error(errors.rmse, errors.standard_error, scale=scale)
    return [
        ("typical error", error, f"root mean squared error by {errors.how}{mae}"),
        ("variance explained", f"{100 * errors.explained:.1f} %", f"R² by {errors.how}"),
    ]


def class_tables(fit: Any) -> list[TableOf]:
    """Return the confusion matrix and the calibration curve of left-out rows."""
    found = fit.classes
    if found is None:
        return []
    names = [str(label) for label in found.labels]
    counts = [(name, *map(number, row)) for name, row in zip(names, found.confusion, strict=True)]
    groups = [(f"{p:.1%}", f"{share:.1%}", str(cases)) for p, share, cases in found.calibration]
    head = ("class", *(f"predicted {name}" for name in names))
    curve = ("predicted probability", "came true", "cases")
    return [
        TableOf("Confusion matrix of left-out rows", head, tuple(counts)),
        TableOf("Calibration of left-out rows", curve, tuple(groups)),
    ]


def coefficient_table(fit: Any, most: int) -> TableOf:
    """Return the largest coefficients and the intercept, as fitted and in original units."""
    several = fit.coefficients()
    most = max(most // len(several), 1)
    # a single one that remains is shown in place of its count
    most += len(fit.feature_names) == most + 1
    scale = 0.0 if fit.classifies else float(np.std(fit.y))
    rows: list[tuple[str, ...]] = []
    for one in several:
        prefix = f"{one.name}: " if len(several) > 1 else ""
        sizes = np.abs(one.coef)
        order = np.argsort(-sizes, kind="stable")
        for i in order[:most]:
            # a coefficient that is rounding for a standardised column is so in every unit
            small = sizes[i] <= ROUNDED_TO_ZERO * sizes[order[0]]
            values = (0.0, 0.0) if small else (one.coef[i], one.original_coef[i])
            rows.append((f"{prefix}{fit.feature_names[i]}", *map(number, values)))
        if len(order) > most:
            rows.append((f"{prefix}... and {len(order) - most} smaller ones", "", ""))
        ends = (one.intercept, one.original_intercept)
        rows.append((f"{prefix}intercept", *(number(end, scale=scale) for end in ends)))
    head: tuple[str, ...] = (f"coefficients for {fit.target}", "as fitted")
    if fit.preparation is not None and fit.preparation.standardise:
        head = (head[0], "per standardised column", "in original units")
    shown = tuple(row[: len(head)] for row in rows)
    return TableOf("Coefficients at the chosen stop", head, shown)


def comparison_table(fit: Any) -> TableOf:
    """Return the errors of the model and its rivals on left-out rows."""
    scale = 0.0 if fit.classifies else float(np.std(fit.y))
    rows: list[tuple[str, ...]] = []
    for one in fit.scores:
        excess = with_error(one.excess, one.excess_standard_error, sign=True, scale=scale)
        error = with_error(one.error, one.standard_error, scale=scale)
        mae = () if one.mae is None else (number(one.mae, scale=scale),)
        rows.append((one.name, error, *mae, excess if rows else ""))
    measures = ("error rate",) if fit.classifies else ("RMSE", "MAE")
    head = ("on left-out rows", *measures, "minus that of stoptime")
    return TableOf("Estimators on left-out rows", head, tuple(rows))


def method_table(fit: Any) -> TableOf:
    """Return the methods among which the fit has chosen, each at its best stop."""
    rows = []
    for one in sorted(fit.model.choice_.candidates, key=lambda one: one.error):
        stop = number(float(np.mean(one.stop)))
        behind = with_error(one.behind, one.standard_error, sign=True)
        behind = "chosen" if one.method == fit.model.method_ else behind
        rows.append((method_in_words(one.method), stop, number(one.error), behind))
    head = ("method", "best stop", "mean squared error", "behind the chosen one")
    return TableOf("Methods that were compared", head, tuple(rows))
