"""``stoptime fit``: from a file to a fitted model, its report and its predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stoptime.cli.options import (
    complete_method,
    complete_rule,
    parsed_method,
    parsed_rule,
    parsed_stops,
)
from stoptime.cli.terminal import AsJson, checked_output
from stoptime.tables import BUILT_IN, Policy
from stoptime.tables.recipe import MOST_CATEGORIES

if TYPE_CHECKING:
    from stoptime.tables.fitting import Request

INPUT, MODEL, OUTPUT = "Data", "Model", "Output"


def fit(  # noqa: PLR0913, PLR0917 - one for each option
    data: Annotated[
        Path, typer.Argument(help=f'CSV, TSV or Parquet file; or "{BUILT_IN}", which is built in.')
    ],
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="Column to predict.", rich_help_panel=INPUT),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            help="What draws the path, such as ridge or nesterov-flow:friction=5. Of several the best.",
            autocompletion=complete_method,
            rich_help_panel=MODEL,
            show_default="nesterov-flow",
        ),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            help="What picks the stop.", autocompletion=complete_rule, rich_help_panel=MODEL
        ),
    ] = "loo",
    cv: Annotated[
        int | None,
        typer.Option(help="Shuffled folds in place of the rule.", min=2, rich_help_panel=MODEL),
    ] = None,
    stops: Annotated[
        str | None,
        typer.Option(help="How many stops to look at, or which: 1,10,100.", rich_help_panel=MODEL),
    ] = None,
    intercept: Annotated[
        bool, typer.Option(help="Fit an intercept.", rich_help_panel=MODEL)
    ] = True,
    standardise: Annotated[
        bool, typer.Option(help="Bring features to mean 0 and variance 1.", rich_help_panel=INPUT)
    ] = True,
    missing: Annotated[
        Literal["impute", "drop", "error"],
        typer.Option(
            help="Missing values: median or a category of their own; drop their rows; or refuse.",
            rich_help_panel=INPUT,
        ),
    ] = "impute",
    na: Annotated[
        list[str] | None,
        typer.Option(
            help="Word that stands for a missing value; repeatable.", rich_help_panel=INPUT
        ),
    ] = None,
    categories: Annotated[
        int,
        typer.Option(
            help="Features made of one text column, at most.", min=1, rich_help_panel=INPUT
        ),
    ] = MOST_CATEGORIES,
    weights: Annotated[
        str | None, typer.Option(help="Column of sample weights.", rich_help_panel=INPUT)
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column not to use; repeatable.", rich_help_panel=INPUT)
    ] = None,
    in_memory: Annotated[
        bool | None,
        typer.Option(
            "--in-memory/--chunked",
            help="Read the file at once or in chunks; by default as its size asks for.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of every shuffle.", min=0, rich_help_panel=MODEL)] = 0,
    report: Annotated[
        Path | None, typer.Option(help="HTML report to write.", rich_help_panel=OUTPUT)
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="JSON model to write; stoptime.load reads it.", rich_help_panel=OUTPUT),
    ] = None,
    predict: Annotated[
        Path | None, typer.Option(help="File of rows to predict.", rich_help_panel=OUTPUT)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Predictions to write: csv, tsv or parquet.", rich_help_panel=OUTPUT),
    ] = None,
    interval: Annotated[
        float, typer.Option(help="Confidence of the prediction intervals.", rich_help_panel=OUTPUT)
    ] = 0.9,
    as_json: AsJson = False,
) -> None:
    """Fit a table: choose when to stop, compare with RidgeCV and least squares, write what you ask for.

    Text columns become zeros and ones, missing values are filled in, numbers are standardised: a note
    says what was done, and an option changes it.

    For example:

      stoptime fit diabetes

      stoptime fit houses.csv --target price --report report.html --model model.json

      stoptime fit houses.csv -t price -m ridge -m nesterov-flow:friction=5 --cv 10

      stoptime fit houses.csv -t price --predict new.csv --out prices.csv --interval 0.95
    """
    request = _request(
        data=str(data),
        target=_one_target(data, target),
        methods=tuple(parsed_method(word) for word in method or ["nesterov-flow"]),
        rule=parsed_rule(rule),
        cv=cv,
        stops=parsed_stops(stops),
        fit_intercept=intercept,
        policy=Policy(missing, categories, standardise),
        weights=weights,
        drop=tuple(drop or ()),
        missing=tuple(na or ()),
        seed=seed,
        in_memory=in_memory,
    )
    wanted = _checked(data, {"--report": report, "--model": model, "--out": out}, predict)
    if not 0 < interval < 1:
        raise typer.BadParameter("must lie between 0 and 1.", param_hint="--interval")
    from stoptime.cli.fit_output import run  # noqa: PLC0415 - fast to start

    run(request, wanted, predict, interval, as_json=as_json)


def _request(**options: Any) -> Request:
    from stoptime.tables.fitting import Request  # noqa: PLC0415 - fast to start

    return Request(**options)


def _one_target(data: Path, given: list[str] | None) -> str:
    if given is not None and len(given) > 1:
        raise typer.BadParameter("one at a time: fit once for each.", param_hint="--target")
    if given:
        return given[0]
    if str(data) == BUILT_IN and not data.exists():
        return "target"
    raise typer.BadParameter("say which column is to be predicted.", param_hint="--target")


def _checked(data: Path, outputs: dict[str, Path | None], predict: Path | None) -> dict[str, Path]:
    """Return the outputs that were asked for, refusing those that cannot be or would destroy something."""
    if (predict is None) != (outputs["--out"] is None):
        raise typer.BadParameter(
            "give both --predict and --out, or neither.", param_hint="--predict"
        )
    wanted = {option: path for option, path in outputs.items() if path is not None}
    taken = {
        path.resolve(): name for name, path in (("DATA", data), ("--predict", predict)) if path
    }
    for option, path in wanted.items():
        checked_output(path, option)
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise typer.BadParameter(
                f"{path} is also {other}: choose another file.", param_hint=option
            )
    return wanted
