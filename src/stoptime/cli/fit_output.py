"""Print and write the results of ``stoptime fit``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stoptime.cli.predict import write_predictions
from stoptime.cli.terminal import Failures, bar, in_options, print_json, print_notes
from stoptime.show import report, results
from stoptime.support.files import atomic
from stoptime.support.progress import warnings_noted
from stoptime.support.wording import method_in_words
from stoptime.tables.assessment import FIT_STEPS, Fitted
from stoptime.tables.model import as_model, predict_table
from stoptime.tables.model_file import save
from stoptime.tables.reading import STANDARD
from stoptime.tables.reading import Table as Rows
from stoptime.tables.recipe import counted

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
        written: dict[str, Path] = {}
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
                    messages += told
                    write_predictions(frame, path)
                written[option] = path
    messages += [message for message in warned if message not in messages]
    if as_json:
        print_json(_as_object(fitted, [in_options(one) for one in messages], written))
    else:
        print_notes(messages)
        # Predictions on standard output are not mixed with other text.
        to_error = str(outputs.get("--out")) == STANDARD
        _print(fitted, Console(highlight=False, stderr=to_error))
        for path in written.values():
            if str(path) != STANDARD:
                typer.echo(f"wrote {path}", err=to_error)
    failures.report()


def _as_object(fitted: Fitted, messages: list[str], outputs: dict[str, Path]) -> dict[str, Any]:
    request = fitted.request
    features = fitted.prepared.recipe.features

    def named(coef: Any, intercept: float) -> dict[str, Any]:
        values = dict(zip(features, coef.tolist(), strict=True))
        return {"coefficients": values, "intercept": intercept}

    coefficients = {
        one.name: named(one.coef, one.intercept)
        | {"original_units": named(one.original_coef, one.original_intercept)}
        for one in fitted.coefficients()
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
        "standardised": request.policy.standardise,
        **only,
        "comparison": fitted.scores,
        "messages": messages,
        "files": {option.removeprefix("--"): path for option, path in outputs.items()},
    }


def _print(fitted: Fitted, console: Console) -> None:
    console.print(_summary(fitted))
    tables = [results.coefficient_table(fitted, SHOWN_COEFFICIENTS)]
    if fitted.classes is not None:
        tables = [*results.class_tables(fitted.classes), *tables]
    if fitted.scores:
        tables.append(results.comparison_table(fitted))
    for table in tables:
        console.print()
        console.print(_printed(table))


def _summary(fitted: Fitted) -> Table:
    """Return the table of the chosen model, its error and its guarantee."""
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    size = f"{counted(fitted.n_rows, 'row')}, {counted(fitted.prepared.X.shape[1], 'feature')}"
    data = ("data", Path(fitted.table.source).name, size)
    method = ("method", method_in_words(fitted.assessment.method), "")
    for line in (data, method, *results.key_figures(fitted)):
        # Text keeps rich from reading brackets in names as markup.
        table.add_row(*map(Text, line))
    return table


def _printed(content: results.TableOf) -> Table:
    """Return a table without lines, whose numbers are flush right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    first, *others = content.head
    table.add_column(Text(first), style="bold")
    for head in others:
        table.add_column(Text(head), justify="right")
    for row in content.rows:
        table.add_row(*map(Text, row))
    return table
