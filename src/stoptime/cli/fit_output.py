"""Print and write the results of ``stoptime fit``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stoptime.cli.predict import interval_notes, write_predictions
from stoptime.cli.terminal import Failures, bar, in_options, print_json, print_notes
from stoptime.show import report
from stoptime.support.files import atomic
from stoptime.support.progress import warnings_noted
from stoptime.support.wording import guarantee_in_words, method_in_words, number, with_error
from stoptime.tables.assessment import FIT_STEPS, Fitted
from stoptime.tables.model import as_model
from stoptime.tables.model_file import save
from stoptime.tables.predicting import predict_table
from stoptime.tables.reading import STANDARD
from stoptime.tables.reading import Table as Rows

SHOWN_COEFFICIENTS = 12


def run(
    fit: Callable[[Callable[[str], None]], Fitted],
    outputs: dict[str, Path],
    new: Rows | None,
    interval: float,
    *,
    as_json: bool,
) -> None:
    """Fit, write the requested outputs, among them predictions for new rows, and print the fit."""
    steps = FIT_STEPS + len(outputs) + (report.STEPS if "--report" in outputs else 0)
    failures = Failures()
    with bar(steps) as advance, warnings_noted() as warned:
        fitted = fit(advance)
        messages = list(fitted.messages)
        for option, path in outputs.items():
            advance(f"writing {path.name}")
            with failures.caught(path):
                if option == "--model":
                    save(fitted.model, path, prepared=fitted.prepared)
                elif option == "--report":
                    page = report.of_fit(fitted, progress=advance)
                    with atomic(path) as temporary:
                        temporary.write_text(page, encoding="utf-8")
                elif new is not None:
                    model = as_model(fitted.model, fitted.prepared)
                    frame, told = predict_table(model, new, interval)
                    messages += [*told, *interval_notes(model)]
                    write_predictions(frame, path)
    messages += [message for message in warned if message not in messages]
    written = {option: path for option, path in outputs.items() if path.exists()}
    if as_json:
        print_json(_as_object(fitted, [in_options(one) for one in messages], written))
    else:
        print_notes(messages)
        # Predictions on standard output are not mixed with other text.
        to_error = str(outputs.get("--out")) == STANDARD
        _print(fitted, Console(highlight=False, stderr=to_error))
        for path in written.values():
            typer.echo(f"wrote {path}", err=to_error)
    failures.report()


def _as_object(fitted: Fitted, messages: list[str], outputs: dict[str, Path]) -> dict[str, Any]:
    request = fitted.request
    features = fitted.prepared.recipe.features
    standardised = request.policy.standardise
    coefficients = {}
    for name, coef, intercept, original, original_intercept in fitted.coefficients():
        coefficients[name] = {
            "coefficients": dict(zip(features, coef.tolist(), strict=True)),
            "intercept": intercept,
            "original_units": {
                "coefficients": dict(zip(features, original.tolist(), strict=True)),
                "intercept": original_intercept,
            },
        }
    # One target, or two classes, have one set of coefficients; more classes have one each.
    only = next(iter(coefficients.values())) if len(coefficients) == 1 else {"each": coefficients}
    return {
        "data": request.data,
        "target": request.target,
        "task": "classification" if fitted.prepared.task.classifies else "regression",
        "rows": fitted.n_rows,
        "features": features,
        "rule": request.how,
        "reason": fitted.model.choice_.message,
        **vars(fitted.assessment),
        "classes": fitted.classes,
        "standardised": standardised,
        **only,
        "comparison": fitted.scores,
        "messages": messages,
        "files": {option.removeprefix("--"): path for option, path in outputs.items()},
    }


def _print(fitted: Fitted, console: Console) -> None:
    console.print(_summary(fitted))
    if fitted.classes is not None:
        console.print(*_of_classes(fitted), sep="\n")
    console.print(_coefficients(fitted))
    if fitted.scores:
        console.print(_comparison(fitted))


def _grid(*heads: str, **options: Any) -> Table:
    """Return a table without lines whose numbers are flush right, below an empty line."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", **options)
    for place, head in enumerate(heads):
        # Text keeps rich from reading brackets in names as markup.
        table.add_column(
            Text(head), style="" if place else "bold", justify="right" if place else "left"
        )
    return table


def _add(table: Table, *cells: str) -> None:
    table.add_row(*map(Text, cells))


def _summary(fitted: Fitted) -> Table:
    """Return the table of the chosen model, its error and its guarantee."""
    found = fitted.assessment
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    features = fitted.prepared.X.shape[1]
    alpha = "" if found.alpha is None else f"alpha {number(found.alpha)} in scikit-learn"
    _add(
        table, "data", Path(fitted.table.source).name, f"{fitted.n_rows} rows, {features} features"
    )
    _add(table, "method", method_in_words(found.method), "")
    _add(table, "stop", number(found.stop), fitted.model.choice_.message)
    _add(table, "equivalent ridge penalty", number(found.penalty) if alpha else "none", alpha)
    _add(table, "degrees of freedom", f"{found.degrees_of_freedom:.1f}", fitted.freedom)
    for line in fitted.errors_in_words():
        _add(table, *line)
    _add(table, "guarantee", *guarantee_in_words(found))
    return table


def _of_classes(fitted: Fitted) -> tuple[Table, Table]:
    """Return the confusion matrix and the calibration curve of left-out rows."""
    found = fitted.classes
    assert found is not None  # noqa: S101 - only classes come here
    names = [str(label) for label in found.labels]
    confusion = _grid("\nclass", *(f"\npredicted {name}" for name in names))
    for name, row in zip(names, found.confusion, strict=True):
        _add(confusion, name, *map(number, row))
    calibration = _grid("\npredicted probability", "\ncame true", "\ncases")
    for chance, share, count in found.calibration:
        _add(calibration, f"{chance:.1%}", f"{share:.1%}", str(count))
    return confusion, calibration


def _coefficients(fitted: Fitted) -> Table:
    """Return the largest coefficients, standardised and in original units."""
    heads, rows = fitted.coefficient_rows(SHOWN_COEFFICIENTS)
    table = _grid(*(f"\n{head}" for head in heads))
    for row in rows:
        _add(table, *row)
    return table


def _comparison(fitted: Fitted) -> Table:
    """Return the table of errors on the same folds."""
    first = fitted.scores[0]
    heads = ["\ncross-validated on the same folds", f"\n{first.measure}"]
    heads += ["\nMAE"] * (first.mae is not None)
    table = _grid(*heads, "\nminus that of stoptime")
    scale = fitted.scale
    for place, one in enumerate(fitted.scores):
        excess = with_error(one.excess, one.excess_standard_error, sign=True, scale=scale)
        mae = [] if one.mae is None else [number(one.mae, scale=scale)]
        _add(
            table,
            one.name,
            with_error(one.error, one.standard_error, scale=scale),
            *mae,
            excess if place else "",
        )
    return table
