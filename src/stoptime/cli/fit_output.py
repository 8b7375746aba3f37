"""Print and write the results of ``stoptime fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stoptime.cli.terminal import bar, print_json
from stoptime.show import report
from stoptime.support.files import atomic
from stoptime.support.progress import warnings_noted
from stoptime.support.wording import guarantee_in_words, method_in_words, number, with_error
from stoptime.tables.fitting import FIT_STEPS, Fitted, Request, fit_table
from stoptime.tables.model_file import as_model, save
from stoptime.tables.reading import pandas, read_table, write_table


def run(
    request: Request,
    outputs: dict[str, Path],
    predict: Path | None,
    interval: float,
    *,
    as_json: bool,
) -> None:
    """Fit, write the requested outputs, and print the result."""
    steps = FIT_STEPS + len(outputs) + (report.STEPS if "--report" in outputs else 0)
    with bar(steps) as advance, warnings_noted() as warned:
        fitted = fit_table(request, progress=advance)
        messages = list(fitted.messages)
        if "--model" in outputs:
            advance("saving")
            save(fitted.model, outputs["--model"], prepared=fitted.prepared)
        if predict is not None:
            advance("predicting")
            messages += _predict(fitted, predict, outputs["--out"], interval)
        if "--report" in outputs:
            page = report.of_fit(fitted, progress=advance)
            advance("writing")
            with atomic(outputs["--report"]) as path:
                path.write_text(page, encoding="utf-8")
    messages += [message for message in warned if message not in messages]
    if as_json:
        print_json(_as_object(fitted, messages, outputs))
        return
    for message in messages:
        typer.echo(f"note: {message}", err=True)
    console = Console(highlight=False)
    console.print(_summary(fitted))
    if fitted.scores:
        console.print()
        console.print(_comparison(fitted))
    for written in outputs.values():
        typer.echo(f"wrote {written}")


def _predict(fitted: Fitted, source: Path, target: Path, confidence: float) -> list[str]:
    """Write predictions with their intervals, and return messages about the new rows."""
    table = read_table(source, missing=fitted.request.missing)
    model = as_model(fitted.model, fitted.prepared)
    with warnings_noted() as messages:
        columns: dict[str, Any] = {"prediction": model.predict(table.frame)}
        if model.residuals is not None:
            ends = model.predict_interval(table.frame, confidence)
            columns |= {"lower": ends[:, 0], "upper": ends[:, 1]}
    with atomic(target) as path:
        write_table(pandas().DataFrame(columns), path)
    return [f"{source.name}: {message}" for message in (*table.messages, *messages)]


def _as_object(fitted: Fitted, messages: list[str], outputs: dict[str, Path]) -> dict[str, Any]:
    request = fitted.request
    features = fitted.prepared.recipe.features
    return {
        "data": request.data,
        "target": request.target,
        "rows": fitted.n_rows,
        "features": features,
        "rule": request.how,
        "reason": fitted.model.choice_.message,
        **vars(fitted.assessment),
        "coefficients": dict(zip(features, fitted.model.coef_.tolist(), strict=True)),
        "intercept": float(fitted.model.intercept_),
        "comparison": fitted.scores,
        "messages": messages,
        "files": {option.removeprefix("--"): path for option, path in outputs.items()},
    }


def _summary(fitted: Fitted) -> Table:
    """Return the table of the chosen model and its guarantee."""
    found = fitted.assessment
    features = fitted.prepared.X.shape[1]
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    alpha = "" if found.alpha is None else f"alpha {number(found.alpha)} in scikit-learn"
    error = with_error(found.error, found.standard_error)
    most = features + fitted.request.fit_intercept
    lines = [
        ("data", Path(fitted.table.source).name, f"{fitted.n_rows} rows, {features} features"),
        ("method", method_in_words(found.method), ""),
        ("stop", number(found.stop), fitted.model.choice_.message),
        ("equivalent ridge penalty", "none" if alpha == "" else number(found.penalty), alpha),
        ("degrees of freedom", f"{found.degrees_of_freedom:.1f}", f"of {most}"),
        (f"{fitted.request.how} error", error, f"R² {found.explained:.3f}"),
        ("guarantee", *guarantee_in_words(found)),
    ]
    # Text keeps rich from reading brackets in names as markup.
    for line in lines:
        table.add_row(*map(Text, line))
    return table


def _comparison(fitted: Fitted) -> Table:
    """Return the table of errors on the same folds."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("cross-validated on the same folds", style="bold")
    table.add_column("error", justify="right", no_wrap=True)
    table.add_column("minus stoptime's error", justify="right", no_wrap=True)
    for i, score in enumerate(fitted.scores):
        excess = with_error(score.excess, score.excess_standard_error, sign=True) if i else ""
        table.add_row(score.name, with_error(score.error, score.standard_error), excess)
    return table
