"""``stoptime predict``: predictions of a saved model for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoptime.cli import terminal
from stoptime.support.files import atomic
from stoptime.tables.reading import STANDARD, read_table, write_table

if TYPE_CHECKING:
    from stoptime.tables.model import Model

HELP_OUT = "Write to this csv, tsv or parquet file; - is standard output."
HELP_NA = "Word for a missing value, besides those of the fit; can be repeated."


def predict(
    model: Annotated[Path, typer.Argument(help="Model that stoptime fit --model has written.")],
    data: Annotated[str, typer.Argument(help="Table of new rows; - is standard input.")],
    out: Annotated[Path, typer.Option(help=HELP_OUT)] = Path(STANDARD),
    interval: Annotated[float, typer.Option(help="Confidence of prediction intervals.")] = 0.9,
    na: Annotated[list[str] | None, typer.Option(help=HELP_NA)] = None,
    force: terminal.Force = False,
    as_json: terminal.AsJson = False,
) -> None:
    """Predict the rows of a table with a saved model.

    The columns of the table come first, then the prediction and the interval, or
    the probability of each class. Missing values are handled as in fitting.

    For example:

      stoptime predict model.json new.csv --out predictions.csv

      zcat new.csv.gz | stoptime predict model.json - > predictions.csv
    """
    from stoptime.tables.model import predict_table  # noqa: PLC0415 - starts faster
    from stoptime.tables.model_file import load  # noqa: PLC0415 - starts faster

    checked_interval(interval)
    terminal.checked_output(out, "--out", terminal.TABLES, force=force)
    if str(out) != STANDARD and out.resolve() in {model.resolve(), Path(data).resolve()}:
        raise terminal.bad("--out", f"{out} is also read: choose another file.")
    loaded = load(model)
    known = () if loaded.recipe is None else loaded.recipe.missing
    table = read_table(data, missing=(*known, *(na or ())))
    frame, messages = predict_table(loaded, table, interval)
    failures = terminal.Failures()
    with failures.caught(out):
        if not as_json or str(out) != STANDARD:
            write_predictions(frame, out)
    if as_json:
        terminal.print_json(_as_object(loaded, frame, messages, out, interval))
    else:
        terminal.print_notes(messages)
        if str(out) != STANDARD and not failures:
            typer.echo(f"wrote {out}")
    failures.report()


def checked_interval(confidence: float) -> None:
    """Refuse a confidence that is no probability."""
    if not 0 < confidence < 1:
        told = f"must lie between 0 and 1, such as 0.95; got {confidence:g}."
        raise terminal.bad("--interval", told)


def write_predictions(frame: Any, out: Path) -> None:
    """Write a table to a file, completely or not at all, or to standard output."""
    if str(out) == STANDARD:
        typer.echo(frame.to_csv(index=False, lineterminator="\n"), nl=False)
        return
    with atomic(out) as path:
        write_table(frame, path)


def _as_object(
    model: Model, frame: Any, messages: list[str], out: Path, confidence: float
) -> dict[str, Any]:
    kind = model.interval_kind
    here = {"predictions": frame.to_dict(orient="records")} if str(out) == STANDARD else {}
    return {
        "target": model.target,
        "rows": len(frame),
        "intervals": None if kind is None else {"kind": kind, "confidence": confidence},
        "messages": messages,
        "files": {} if here else {"out": out},
        **here,
    }
