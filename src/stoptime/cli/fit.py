"""``stoptime fit`` and ``stoptime predict``: from a file to a model, and to its predictions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stoptime.cli import terminal
from stoptime.cli.terminal import STANDARD, AsJson, Force, bad

if TYPE_CHECKING:
    from stoptime.tables import TableFit

of_data = partial(typer.Option, rich_help_panel="Data")
of_model = partial(typer.Option, rich_help_panel="Model")
of_output = partial(typer.Option, rich_help_panel="Output")
Words = list[str] | None
File = Path | None
Missing = Literal["impute", "error"]
HELP_DATA = (
    'CSV, JSON, Parquet, Feather or Excel file; - is standard input; "diabetes" is built in.'
)
HELP_CLASSIFY = "Take the target as classes or as numbers; text and two values are classes."
HELP_COMPARE = "Compare with ridge, least squares and a constant on left-out rows."
HELP_METHOD = (
    'ridge, gradient-flow, accelerated-flow, or a call such as "Nesterov(friction=5)"; repeat it '
    "to choose the best one. An unknown name lists all methods."
)
HELP_RULE = (
    "What chooses the stop, by default loo: path-gcv, sure, one-standard-error, "
    "Discrepancy(noise=2), ...; an unknown name lists all rules."
)
HELP_STOPS = "Number of stops to try, or a list such as 1,10,100."
HELP_CATEGORIES = "Number of features for one text column; ties are kept."
HELP_MISSING = "Missing values: impute (the median, or a category of their own) or error."
HELP_KINDS = "How to read a column, as in zip=text, day=%d/%m/%Y; kinds={...} in a note."
HELP_OUT = "Write to this csv, tsv or parquet file; - is standard output."


def fit(  # noqa: PLR0913, PLR0917 - one parameter for each option
    data: Annotated[Path, typer.Argument(help=HELP_DATA)],
    target: Annotated[str | None, of_data("--target", "-t", help="Column to predict.")] = None,
    method: Annotated[Words, of_model("--method", "-m", help=HELP_METHOD)] = None,
    rule: Annotated[str | None, of_model(help=HELP_RULE)] = None,
    cv: Annotated[int | None, of_model(help="Shuffled folds, instead of the rule.", min=2)] = None,
    stops: Annotated[str | None, of_model(help=HELP_STOPS)] = None,
    intercept: Annotated[bool, of_model(help="Fit an intercept.")] = True,
    classify: Annotated[bool | None, of_model(help=HELP_CLASSIFY)] = None,
    log: Annotated[bool, of_data("--log", help="Fit the logarithm of a positive target.")] = False,
    compare: Annotated[bool, of_model(help=HELP_COMPARE)] = True,
    standardise: Annotated[bool, of_data(help="Scale features to mean 0 and variance 1.")] = True,
    missing: Annotated[Missing, of_data(help=HELP_MISSING)] = "impute",
    na: Annotated[Words, of_data(help="Word for a missing value; can be repeated.")] = None,
    categories: Annotated[int, of_data(help=HELP_CATEGORIES, min=1)] = 50,
    kinds: Annotated[Words, of_data(help=HELP_KINDS)] = None,
    weights: Annotated[str | None, of_data(help="Column of sample weights.")] = None,
    drop: Annotated[Words, of_data(help="Column that is not used; can be repeated.")] = None,
    report: Annotated[File, of_output(help="Write an HTML report to this file.")] = None,
    model: Annotated[File, of_output(help="Write the model to this JSON file.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit a table, choose when to stop, and compare with ridge and least squares.

    Text columns become zeros and ones, missing values are filled in, and
    features are standardised. Notes say what was done; what they name as a
    parameter, such as na=[-999], is an option, such as --na -999.

    For example:

      stoptime fit diabetes

      stoptime fit houses.csv -t price --report report.html --model model.json

      stoptime fit houses.csv -t price -m ridge -m "Nesterov(friction=5)" --cv 10
    """
    if cv is not None and rule is not None:
        raise bad("--rule", "--cv chooses the stop by folds, without a rule: give one of the two.")
    terminal.check_output(model, "--model", [".json"], force=force)
    terminal.check_output(report, "--report", [".html", ".htm"], force=force)
    options: dict[str, Any] = {
        "method": [terminal.parsed("--method", word) for word in method or ()],
        "rule": rule and terminal.parsed("--rule", rule),
        "stops": stops and terminal.parsed_stops(stops),
    }
    from stoptime.show import report as reports  # noqa: PLC0415 - starts faster
    from stoptime.tables.fitting import fit_table  # noqa: PLC0415
    from stoptime.tables.preparation import TablePreparation, listed  # noqa: PLC0415
    from stoptime.tables.reading import read_table  # noqa: PLC0415
    from stoptime.tables.saved import save  # noqa: PLC0415

    if target is None and str(data) != "diabetes":
        columns = list(read_table(data).frame.columns)
        raise bad("--target", f"say which column to predict. {listed(columns)}")
    fitted = fit_table(
        data,
        target or "target",
        preparation=TablePreparation(
            missing=missing,
            categories=categories,
            standardise=standardise,
            kinds=terminal.parsed_kinds(kinds) if kinds else None,
            drop=drop or (),
            na=na or (),
        ),
        weights=weights,
        classify=classify,
        log=log,
        compare=compare,
        progress=terminal.step,
        cv=cv,
        fit_intercept=intercept,
        **{name: value for name, value in options.items() if value},
    )
    if not as_json:
        terminal.print_notes(fitted.notes)
        typer.echo(repr(fitted))
    if model is not None:
        save(fitted, model)
    if report is not None:
        reports.write(report, fitted)
    files = {"model": model, "report": report}
    written = {name: path for name, path in files.items() if path is not None}
    if as_json:
        terminal.print_json(_as_object(fitted) | {"files": written})
        return
    for path in written.values():
        typer.echo(f"wrote {path}")


def _as_object(fitted: TableFit) -> dict[str, Any]:
    """Return what --json prints."""
    model = fitted.model

    def named(coef: Any, intercept: float) -> dict[str, Any]:
        values = dict(zip(fitted.feature_names, coef.tolist(), strict=True))
        return {"coefficients": values, "intercept": intercept}

    return {
        "data": fitted.source,
        "target": fitted.target,
        "task": "classification" if fitted.classifies else "regression",
        "rows": int((fitted.weights > 0).sum()),
        "method": model.method_,
        "stop": model.stop_,
        "reason": model.choice_.message,
        "degrees_of_freedom": model.degrees_of_freedom_,
        "alpha": getattr(getattr(model, "regressor_", model), "alpha_", None),
        "error": None if fitted.classifies else fitted.errors,
        "classes": fitted.classes,
        "importance": fitted.importance(),
        "coefficients": {
            one.name: {
                "as_fitted": named(one.coef, one.intercept),
                "original_units": named(one.original_coef, one.original_intercept),
            }
            for one in fitted.coefficients()
        },
        "comparison": fitted.scores,
        "messages": fitted.notes,
    }


def predict(
    model: Annotated[Path, typer.Argument(help="Model that stoptime fit --model has written.")],
    data: Annotated[Path, typer.Argument(help="Table of new rows; - is standard input.")],
    out: Annotated[Path, typer.Option(help=HELP_OUT)] = Path(STANDARD),
    interval: Annotated[float, typer.Option(help="Confidence of prediction intervals.")] = 0.9,
    force: Force = False,
) -> None:
    """Predict the rows of a table with a saved model.

    The columns of the table come first, then the prediction and the interval, or
    the probability of each class. Missing values are handled as in fitting.

    For example:

      stoptime predict model.json new.csv --out predictions.csv

      zcat new.csv.gz | stoptime predict model.json - > predictions.csv
    """
    if not 0 < interval < 1:
        raise bad("--interval", f"must lie between 0 and 1, such as 0.95; got {interval:g}.")
    terminal.check_output(out, "--out", terminal.TABLES, force=force)
    from stoptime.support.files import atomic  # noqa: PLC0415 - starts faster
    from stoptime.tables.reading import read_table, write_table  # noqa: PLC0415
    from stoptime.tables.saved import load  # noqa: PLC0415

    loaded = load(model)
    table = read_table(data)
    try:
        frame, notes = _predicted(loaded, table, interval)
    except ValueError as error:
        raise ValueError(f"{table.source}: {error}") from error
    terminal.print_notes([*table.messages, *notes])
    if str(out) == STANDARD:
        typer.echo(frame.to_csv(index=False, lineterminator="\n"), nl=False)
        return
    with atomic(out) as path:
        write_table(frame, path)
    typer.echo(f"wrote {out}")


def _predicted(model: Any, table: Any, confidence: float) -> tuple[Any, list[str]]:
    """Return a table with columns of predictions, and notes on it."""
    from stoptime.support.progress import warnings_noted  # noqa: PLC0415 - starts faster
    from stoptime.tables.intervals import last_step, predict_interval  # noqa: PLC0415

    frame = table.frame
    last = last_step(model)
    notes = []
    with warnings_noted() as warned:
        columns: dict[str, Any] = {"prediction": model.predict(frame)}
        if getattr(last, "slope_", None) is not None:
            names = [f"probability_{label}" for label in last.classes_.tolist()]
            columns |= dict(zip(names, model.predict_proba(frame).T, strict=True))
        elif getattr(last, "half_widths_", None) is not None:
            ends = predict_interval(model, frame, confidence)
            columns |= {"lower": ends[:, 0], "upper": ends[:, 1]}
        else:
            notes.append("There are no intervals or probabilities: no row was left out of the fit.")
    # columns of the table keep their names
    taken = {name: f"{name}_by_stoptime" for name in columns if name in frame.columns}
    for name, new in taken.items():
        notes.append(f'The table has a column "{name}" already: that of the model is "{new}".')
    found = {taken.get(name, name): values for name, values in columns.items()}
    return frame.assign(**found), [*notes, *warned]
