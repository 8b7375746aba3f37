"""The results of a fit as tables of text, the same on the terminal and in the report."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stoptime.support.wording import ROUNDED_TO_ZERO, method_in_words, number, with_error
from stoptime.tables.assessment import TableFit


@dataclass(frozen=True)
class TableOf:
    """A table of texts; a folded one is shown on demand."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False


def tables(fit: TableFit, most: int) -> list[TableOf]:
    """Return what ``stoptime fit`` prints: classes, coefficients and the comparison."""
    found = [*class_tables(fit), coefficient_table(fit, most)]
    return [*found, comparison_table(fit)] if fit.scores else found


def class_tables(fit: TableFit) -> list[TableOf]:
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


def coefficient_table(fit: TableFit, most: int) -> TableOf:
    """Return the largest coefficients and the intercept, as fitted and in original units."""
    several = fit.coefficients()
    most = max(most // len(several), 1)
    # a single one that remains is shown in place of its count
    most += len(fit.feature_names) == most + 1
    scale = 0.0 if fit.classes is not None else float(np.std(fit.y))
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
    standardised = fit.preparation is not None and fit.preparation.standardise
    head = [f"coefficients for {fit.target}", "as fitted"]
    if standardised:
        head[1:] = ["per standardised column", "in original units"]
    shown = tuple(row[: len(head)] for row in rows)
    return TableOf("Coefficients at the chosen stop", tuple(head), shown, folded=len(rows) > 20)


def comparison_table(fit: TableFit) -> TableOf:
    """Return the errors of all estimators on left-out rows."""
    head, *rows = fit.scores_table()
    return TableOf("Estimators on left-out rows", head, tuple(rows))


def method_table(fit: TableFit) -> TableOf | None:
    """Return the methods among which the fit has chosen, each at its best stop."""
    candidates = fit.model.choice_.candidates
    if not candidates:
        return None
    rows = []
    for one in sorted(candidates, key=lambda one: one.error):
        behind = (
            "chosen" if one.behind == 0 else with_error(one.behind, one.standard_error, sign=True)
        )
        stop = number(float(np.mean(one.stop)))
        rows.append((method_in_words(one.method), stop, number(one.error), behind))
    head = ("method", "best stop", "mean squared error", "behind the chosen one")
    return TableOf("Methods that were compared", head, tuple(rows))
