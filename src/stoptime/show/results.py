"""The results of a fit as texts and tables, the same on the terminal and in the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stoptime.support.wording import ROUNDED_TO_ZERO, number, with_error
from stoptime.tables.assessment import guarantee_in_words

if TYPE_CHECKING:
    from stoptime.tables.assessment import ClassErrors, Fitted

CLOSE_FIT = 0.9  # degrees of freedom for each row from which a fit follows its rows closely


@dataclass(frozen=True)
class TableOf:
    """A table of texts; a folded one is shown on demand."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False


def key_figures(fitted: Fitted) -> list[tuple[str, str, str]]:
    """Return name, value and meaning of what a reader wants to know first."""
    found = fitted.assessment
    reason = f"{found.method.stop_meaning}: {fitted.model.choice_.message}"
    alpha = "" if found.alpha is None else f"alpha {number(found.alpha)} in scikit-learn"
    return [
        *_errors(fitted),
        ("stop", number(found.stop), reason),
        ("equivalent ridge penalty", number(found.penalty) if alpha else "none", alpha),
        ("degrees of freedom", f"{found.degrees_of_freedom:.1f}", _freedom(fitted)),
        ("guarantee", *guarantee_in_words(found)),
    ]


def _errors(fitted: Fitted) -> list[tuple[str, str, str]]:
    found = fitted.assessment
    if fitted.classes is not None:
        classes = fitted.classes
        sizes = [sum(row) for row in classes.confusion]
        frequent = f"the most frequent class has {100 * max(sizes) / sum(sizes):.1f} %"
        share = with_error(100 * classes.accuracy, 100 * classes.accuracy_standard_error)
        loss = with_error(classes.log_loss, classes.log_loss_standard_error, scale=classes.log_loss)
        return [
            ("accuracy", f"{share} %", f"of left-out rows; {frequent}"),
            ("log loss", loss, "of left-out rows, by calibrated probabilities"),
        ]
    left_out = found.mae is not None and not found.predicts_new_rows
    how = f"by {fitted.request.how}"
    if left_out or fitted.request.how == "loo":
        how = "by leave-one-out"
    scale = fitted.scale
    if np.isnan(found.error):
        return [("typical error", "unknown", f"{fitted.request.how} does not estimate it")]
    mae = "" if found.mae is None else f"; mean absolute error {number(found.mae, scale=scale)}"
    error = with_error(found.rmse, found.rmse_standard_error, scale=scale)
    return [
        ("typical error", error, f"root mean squared error {how}{mae}"),
        ("variance explained", f"{100 * found.explained:.1f} %", f"R² {how}"),
    ]


def _freedom(fitted: Fitted) -> str:
    """Return the degrees of freedom of least squares, beside which those of a fit are read."""
    full = fitted.spectrum.rank + fitted.request.fit_intercept
    freedom = fitted.assessment.degrees_of_freedom
    told = f"least squares has {full}" + (", one for each row" if full >= fitted.n_rows else "")
    # A path that oscillates can have more than least squares; rounding of the shown number cannot.
    if round(freedom, 1) > full:
        told += "; this path overshoots it"
    if full >= fitted.n_rows and freedom > CLOSE_FIT * fitted.n_rows:
        told += "; the fit almost passes through every row, so only left-out errors count"
    return told


def class_tables(found: ClassErrors) -> tuple[TableOf, TableOf]:
    """Return the confusion matrix and the calibration curve of left-out rows."""
    names = [str(label) for label in found.labels]
    counts = [(name, *map(number, row)) for name, row in zip(names, found.confusion, strict=True)]
    groups = [(f"{p:.1%}", f"{share:.1%}", str(cases)) for p, share, cases in found.calibration]
    head = ("class", *(f"predicted {name}" for name in names))
    curve = ("predicted probability", "came true", "cases")
    return (
        TableOf("Confusion matrix of left-out rows", head, tuple(counts)),
        TableOf("Calibration of left-out rows", curve, tuple(groups)),
    )


def coefficient_table(fitted: Fitted, most: int) -> TableOf:
    """Return the largest coefficients and the intercept, as fitted and in original units."""
    features = fitted.prepared.recipe.features
    several = fitted.coefficients()
    most = max(most // len(several), 1)
    # A single one that remains is shown in place of its count.
    most += len(features) == most + 1
    rows: list[tuple[str, ...]] = []
    for one in several:
        prefix = f"{one.name}: " if len(several) > 1 else ""
        sizes = np.abs(one.coef)
        order = np.argsort(-sizes, kind="stable")
        for i in order[:most]:
            # A coefficient that is rounding for a standardised column is so in every unit.
            small = sizes[i] <= ROUNDED_TO_ZERO * sizes[order[0]]
            values = (0.0, 0.0) if small else (one.coef[i], one.original_coef[i])
            rows.append((f"{prefix}{features[i]}", *map(number, values)))
        if len(order) > most:
            rows.append((f"{prefix}... and {len(order) - most} smaller ones", "", ""))
        ends = (one.intercept, one.original_intercept)
        rows.append((f"{prefix}intercept", *(number(end, scale=fitted.scale) for end in ends)))
    name = several[0].name if len(several) == 1 else fitted.prepared.target
    unit = "per standardised column" if fitted.request.policy.standardise else "as fitted"
    head = (f"coefficients for {name}", unit, "in original units")
    return TableOf("Coefficients at the chosen stop", head, tuple(rows), folded=True)


def comparison_table(fitted: Fitted) -> TableOf:
    """Return the errors of all estimators on the same folds."""
    scale = fitted.scale
    rows: list[tuple[str, ...]] = []
    for one in fitted.scores:
        mae = () if one.mae is None else (number(one.mae, scale=scale),)
        excess = with_error(one.excess, one.excess_standard_error, sign=True, scale=scale)
        error = with_error(one.error, one.standard_error, scale=scale)
        rows.append((one.name, error, *mae, excess if rows else ""))
    absolute = ("MAE",) if fitted.scores[0].mae is not None else ()
    measure = fitted.scores[0].measure
    head = ("cross-validated on the same folds", measure, *absolute, "minus that of stoptime")
    title = "Estimators on the same folds, each tuned on its training rows"
    return TableOf(title, head, tuple(rows))
