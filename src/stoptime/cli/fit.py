"""``stoptime fit``: from a file to a fitted model, its report and its predictions."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from stoptime.cli.predict import checked_interval
from stoptime.methods.base import Filter

from stoptime.cli.terminal import (  # isort: skip
    TABLES, AsJson, Force, bad, checked_output, completed, known_name, parsed_method, parsed_stops,
)  # fmt: skip
from stoptime.methods.registry import ALL_METHODS, FAMILY
from stoptime.stopping.registry import RULES
from stoptime.tables.columns import listed
from stoptime.tables.reading import BUILT_IN, STANDARD, Source, first_rows, read_table
from stoptime.tables.recipe import MOST_CATEGORIES, Missing, Policy

of_data = partial(typer.Option, rich_help_panel="Data")
of_model = partial(typer.Option, rich_help_panel="Model")
of_output = partial(typer.Option, rich_help_panel="Output")
Words = list[str] | None
File = Path | None
ENDINGS_OF = {"--report": (".html", ".htm"), "--model": (".json",), "--out": TABLES}
HELP_DATA = f'CSV, TSV or Parquet file; - is standard input; "{BUILT_IN}" is built in.'
HELP_CLASSIFY = "Take the target as classes or as numbers; text and two values are classes."
HELP_COMPARE = "Compare with RidgeCV, least squares and the mean on folds."
HELP_PREDICTIONS = "Write predictions to this csv, tsv or parquet file; - is standard output."
HELP_CHUNKED = "Read the file at once or in chunks; the default depends on the free memory."
HELP_METHOD = (
    "Method, such as nesterov:friction=5; repeat it to choose the best one. By default the best of "
    f"ridge and five flows. Methods: {', '.join(ALL_METHODS)}."
)
HELP_RULE = f"Rule that chooses the stop, by default loo: {', '.join(RULES)}."
HELP_STOPS = "Number of stops to try, or a list such as 1,10,100."
HELP_CATEGORIES = "Largest number of features for one text column."
HELP_MISSING = "Fill in missing values (median, or a category of their own), drop rows, or stop."


def fit(  # noqa: PLR0913, PLR0917 - one parameter for each option
    data: Annotated[Path, typer.Argument(help=HELP_DATA)],
    target: Annotated[Words, of_data("--target", "-t", help="Column to predict.")] = None,
    method: Annotated[
        Words, of_model("--method", "-m", help=HELP_METHOD, autocompletion=completed(ALL_METHODS))
    ] = None,
    rule: Annotated[str | None, of_model(help=HELP_RULE, autocompletion=completed(RULES))] = None,
    cv: Annotated[int | None, of_model(help="Shuffled folds, instead of the rule.", min=2)] = None,
    stops: Annotated[str | None, of_model(help=HELP_STOPS)] = None,
    intercept: Annotated[bool, of_model(help="Fit an intercept.")] = True,
    classify: Annotated[bool | None, of_model(help=HELP_CLASSIFY)] = None,
    compare: Annotated[bool, of_model(help=HELP_COMPARE)] = True,
    standardise: Annotated[bool, of_data(help="Scale features to mean 0 and variance 1.")] = True,
    missing: Annotated[Missing, of_data(help=HELP_MISSING)] = "impute",
    na: Annotated[Words, of_data(help="Word for a missing value; can be repeated.")] = None,
    categories: Annotated[int, of_data(help=HELP_CATEGORIES, min=1)] = MOST_CATEGORIES,
    weights: Annotated[str | None, of_data(help="Column of sample weights.")] = None,
    drop: Annotated[Words, of_data(help="Column that is not used; can be repeated.")] = None,
    in_memory: Annotated[bool | None, of_data("--in-memory/--chunked", help=HELP_CHUNKED)] = None,
    seed: Annotated[int, of_model(help="Seed of every shuffle.", min=0)] = 0,
    report: Annotated[File, of_output(help="Write an HTML report to this file.")] = None,
    model: Annotated[File, of_output(help="Write the model to this JSON file.")] = None,
    predict: Annotated[File, of_output(help="Predict the rows of this file.")] = None,
    out: Annotated[File, of_output(help=HELP_PREDICTIONS)] = None,
    force: Force = False,
    interval: Annotated[float, of_output(help="Confidence of the prediction intervals.")] = 0.9,
    as_json: AsJson = False,
) -> None:
    """Fit a table, choose when to stop, and compare with RidgeCV and least squares.

    Text columns become zeros and ones, missing values are filled in, and
    features are standardised. Notes say what was done, and options change it.

    For example:

      stoptime fit diabetes

      stoptime fit houses.csv -t price --report report.html --model model.json

      stoptime fit houses.csv -t price -m ridge -m nesterov:friction=5 --cv 10

      stoptime fit houses.csv -t price --predict new.csv --out prices.csv
    """
    from stoptime.tables.assessment import Request  # noqa: PLC0415 - starts faster

    request = Request(
        data=str(data), target=_one_target(data, target),
        methods=tuple(parsed_method(word) for word in method) if method else FAMILY,
        rule=known_name("rule", rule or "loo", RULES), cv=cv, stops=parsed_stops(stops),
        fit_intercept=intercept, policy=Policy(missing, categories, standardise), weights=weights,
        drop=tuple(drop or ()), missing=tuple(na or ()), seed=seed, in_memory=in_memory,
        classify=classify, compare=compare,
    )  # fmt: skip
    if cv is not None and rule is not None:
        raise bad("--rule", "--cv chooses the stop by folds, without a rule: give one of the two.")
    unfiltered = [one.name for one in request.methods if not isinstance(one, Filter)]
    if cv is None and unfiltered:
        raise bad("--method", f"{unfiltered[0]} needs folds, such as --cv 5.")
    # Standard output comes last: a pipe may break there.
    outputs = {"--model": model, "--report": report, "--out": out}
    wanted = _checked(data, outputs, predict, force=force)
    checked_interval(interval)
    if as_json and str(out) == STANDARD:
        raise bad("--out", "standard output is taken by --json: give a file.")
    from stoptime.cli.fit_output import run  # noqa: PLC0415 - starts faster
    from stoptime.tables.fitting import fit_table  # noqa: PLC0415 - starts faster

    # Rows that cannot be read are told before the fit.
    new = None if predict is None else read_table(predict, missing=request.missing)
    run(partial(fit_table, request), wanted, new, interval, as_json=as_json)


def _one_target(data: Path, given: list[str] | None) -> str:
    if given is not None and len(given) > 1:
        raise bad("--target", "give one target at a time, and run the command once for each.")
    if given:
        return given[0]
    if str(data) == BUILT_IN and not data.exists():
        return "target"
    known = first_rows(Source.of(data), (), 1).frame.columns
    raise bad("--target", f"say which column to predict. {listed(known)}")


def _checked(
    data: Path, outputs: dict[str, Path | None], predict: Path | None, *, force: bool
) -> dict[str, Path]:
    """Return the requested outputs, after checking that they can be written and harm no file."""
    if (predict is None) != (outputs["--out"] is None):
        raise bad("--predict", "give both --predict and --out, or neither.")
    if str(data) == str(predict) == STANDARD:
        raise bad("--predict", "standard input can be read only once: give a file.")
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
        checked_output(path, option, ENDINGS_OF[option], force=force)
    return wanted
