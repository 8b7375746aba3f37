"""``stoptime fit``: from a file to a fitted model, its report and its predictions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
HELP_DATA = 'CSV, Parquet, Feather or Excel file; - is standard input; "diabetes" is built in.'
HELP_CLASSIFY = "Take the target as classes or as numbers; text and two values are classes."
HELP_COMPARE = "Compare with ridge, least squares and a constant on left-out rows."
HELP_PREDICTIONS = "Write predictions to this csv, tsv or parquet file; - is standard output."
HELP_METHOD = (
    "ridge, gradient-flow, accelerated-flow, nesterov:friction=5, or a call such as "
    "Averaged(Nesterov()); repeat it to choose the best one. An unknown name lists all methods."
)
HELP_RULE = (
    "What chooses the stop, by default loo: path-gcv, sure, one-standard-error, "
    "Discrepancy(noise=2), ...; an unknown name lists all rules."
)
HELP_STOPS = "Number of stops to try, or a list such as 1,10,100."
HELP_CATEGORIES = "Number of features for one text column; ties are kept."
HELP_MISSING = "Missing values: impute them (median, or a category of their own), drop, or error."
HELP_KINDS = "How to read a column, as in zip=text, day=%d/%m/%Y; kinds={...} in a note."


def fit(  # noqa: PLR0913, PLR0917 - one parameter for each option
    data: Annotated[Path, typer.Argument(help=HELP_DATA)],
    target: Annotated[Words, of_data("--target", "-t", help="Column to predict.")] = None,
    method: Annotated[Words, of_model("--method", "-m", help=HELP_METHOD)] = None,
    rule: Annotated[str | None, of_model(help=HELP_RULE)] = None,
    cv: Annotated[int | None, of_model(help="Shuffled folds, instead of the rule.", min=2)] = None,
    stops: Annotated[str | None, of_model(help=HELP_STOPS)] = None,
    intercept: Annotated[bool, of_model(help="Fit an intercept.")] = True,
    classify: Annotated[bool | None, of_model(help=HELP_CLASSIFY)] = None,
    compare: Annotated[bool, of_model(help=HELP_COMPARE)] = True,
    standardise: Annotated[bool, of_data(help="Scale features to mean 0 and variance 1.")] = True,
    missing: Annotated[str, of_data(help=HELP_MISSING)] = "impute",
    na: Annotated[Words, of_data(help="Word for a missing value; can be repeated.")] = None,
    categories: Annotated[int, of_data(help=HELP_CATEGORIES, min=1)] = 50,
    kinds: Annotated[Words, of_data(help=HELP_KINDS)] = None,
    weights: Annotated[str | None, of_data(help="Column of sample weights.")] = None,
    drop: Annotated[Words, of_data(help="Column that is not used; can be repeated.")] = None,
    report: Annotated[File, of_output(help="Write an HTML report to this file.")] = None,
    model: Annotated[File, of_output(help="Write the model to this JSON file.")] = None,
    predict: Annotated[File, of_output(help="Predict the rows of this file.")] = None,
    out: Annotated[File, of_output(help=HELP_PREDICTIONS)] = None,
    force: Force = False,
    interval: Annotated[float, of_output(help="Confidence of the prediction intervals.")] = 0.9,
    as_json: AsJson = False,
) -> None:
    """Fit a table, choose when to stop, and compare with ridge and least squares.

    Text columns become zeros and ones, missing values are filled in, and
    features are standardised. Notes say what was done; what they name as a
    parameter, such as na=[-999], is an option, such as --na -999.

    For example:

      stoptime fit diabetes

      stoptime fit houses.csv -t price --report report.html --model model.json

      stoptime fit houses.csv -t price -m ridge -m nesterov:friction=5 --cv 10

      stoptime fit houses.csv -t price --predict new.csv --out prices.csv
    """
    if cv is not None and rule is not None:
        raise bad("--rule", "--cv chooses the stop by folds, without a rule: give one of the two.")
    if missing not in {"impute", "drop", "error"}:
        raise bad("--missing", f"must be impute, drop or error; got {missing}.")
    terminal.checked_interval(interval)
    # standard output comes last: a pipe may break there
    outputs = _checked(data, {"--model": model, "--report": report, "--out": out}, predict, force)
    if as_json and str(out) == STANDARD:
        raise bad("--out", "standard output is taken by --json: give a file.")
    options = _options(method, rule, {"cv": cv, "stops": terminal.parsed_stops(stops)}, intercept)
    from stoptime.tables.fitting import fit_table  # noqa: PLC0415 - starts faster
    from stoptime.tables.preparation import TablePreparation, listed  # noqa: PLC0415
    from stoptime.tables.reading import read_table  # noqa: PLC0415

    table = read_table(data)
    if not target and table.source != "diabetes":
        raise bad("--target", f"say which column to predict. {listed(list(table.frame.columns))}")
    if target and len(target) > 1:
        raise bad("--target", "give one target at a time, and run the command once for each.")
    preparation = TablePreparation(
        missing="error" if missing == "error" else "impute",
        categories=categories,
        standardise=standardise,
        kinds=terminal.parsed_kinds(kinds) if kinds else None,
        drop=drop or (),
        na=na or (),
    )
    # rows that cannot be read are told before the fit
    new = None if predict is None else read_table(predict)
    with terminal.status() as advance:
        fitted = fit_table(
            table,
            target[0] if target else "target",
            preparation=preparation,
            weights=weights,
            classify=classify,
            complete_rows=missing == "drop",
            compare=compare,
            progress=advance,
            **options,
        )
        notes, failures = _write(fitted, outputs, new, interval, advance)
    if as_json:
        terminal.print_json(_as_object(fitted, [*fitted.notes, *notes], outputs))
    else:
        terminal.print_notes([*fitted.notes, *notes])
        # predictions on standard output are not mixed with other text
        to_error = str(out) == STANDARD
        typer.echo(repr(fitted), err=to_error)
        for path in outputs.values():
            if str(path) != STANDARD and path.exists():
                typer.echo(f"wrote {path}", err=to_error)
    failures.report()


def _options(
    methods: Words, rule: str | None, given: dict[str, Any], intercept: bool
) -> dict[str, Any]:
    """Return the parameters of the estimator that are not the default ones."""
    found = {name: value for name, value in given.items() if value is not None}
    if methods:
        several = [terminal.parsed("--method", word) for word in methods]
        found["method"] = several[0] if len(several) == 1 else several
    if rule is not None:
        found["rule"] = terminal.parsed("--rule", rule)
    if not intercept:
        found["fit_intercept"] = False
    return found


def _write(
    fitted: TableFit, outputs: dict[str, Path], new: Any, interval: float, advance: Any
) -> tuple[list[str], terminal.Failures]:
    """Write the requested outputs; return notes on predictions, and what could not be written."""
    from stoptime.cli.predict import predicted  # noqa: PLC0415 - starts faster
    from stoptime.show import report  # noqa: PLC0415
    from stoptime.tables.model_file import save  # noqa: PLC0415

    notes: list[str] = []
    failures = terminal.Failures()
    for option, path in list(outputs.items()):
        advance(f"writing {path.name}")
        before = len(failures)
        with failures.caught(path):
            if option == "--model":
                save(fitted.pipeline, path)
            elif option == "--report":
                report.write(path, fitted)
            else:
                frame, notes = predicted(fitted.pipeline, new, interval)
                terminal.write_predictions(frame, path)
        if len(failures) > before:
            del outputs[option]
    return notes, failures


def _checked(
    data: Path, outputs: dict[str, Path | None], predict: Path | None, force: bool
) -> dict[str, Path]:
    """Return the requested outputs, after checking that they can be written and harm no file."""
    if (predict is None) != (outputs["--out"] is None):
        raise bad("--predict", "give both --predict and --out, or neither.")
    if str(data) == str(predict) == STANDARD:
        raise bad("--predict", "standard input can be read only once: give a file.")
    endings = {"--report": (".html", ".htm"), "--model": (".json",), "--out": terminal.TABLES}
    wanted = {option: path for option, path in outputs.items() if path is not None}
    inputs = {"DATA": data, "--predict": predict}
    taken = {path.resolve(): name for name, path in inputs.items() if path is not None}
    for option, path in wanted.items():
        if str(path) == STANDARD:
            if option != "--out":
                raise bad(option, "only --out can be standard output: give a file.")
            continue
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise bad(option, f"{path} is also {other}: choose another file.")
        terminal.checked_output(path, option, endings[option], force=force)
    return wanted


def _as_object(fitted: TableFit, messages: list[str], outputs: dict[str, Path]) -> dict[str, Any]:
    model = fitted.model

    def named(coef: Any, intercept: float) -> dict[str, Any]:
        values = dict(zip(fitted.feature_names, coef.tolist(), strict=True))
        return {"coefficients": values, "intercept": intercept}

    coefficients = {
        one.name: named(one.coef, one.intercept)
        | {"original_units": named(one.original_coef, one.original_intercept)}
        for one in fitted.coefficients()
    }
    # one target, or two classes, have one set of coefficients; more classes have one each
    only = next(iter(coefficients.values())) if len(coefficients) == 1 else {"each": coefficients}
    classes = hasattr(model, "classes_")
    errors = None if classes else fitted.errors
    return {
        "data": fitted.source,
        "target": fitted.target,
        "task": "classification" if classes else "regression",
        "rows": int((fitted.weights > 0).sum()),
        "features": fitted.feature_names,
        "method": model.method_,
        "stop": model.stop_,
        "reason": model.choice_.message,
        "degrees_of_freedom": model.degrees_of_freedom_,
        "alpha": getattr(getattr(model, "regressor_", model), "alpha_", None),
        "error": errors and {**vars(errors), "rmse": errors.rmse},
        "classes": fitted.classes,
        "importance": fitted.importance(),
        **only,
        "comparison": fitted.scores,
        "messages": messages,
        "files": {option.removeprefix("--"): path for option, path in outputs.items()},
    }
