"""``stoptime predict``: predictions of a saved model for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stoptime.cli import terminal
from stoptime.cli.terminal import STANDARD

HELP_OUT = "Write to this csv, tsv or parquet file; - is standard output."


def predict(
    model: Annotated[Path, typer.Argument(help="Model that stoptime fit --model has written.")],
    data: Annotated[Path, typer.Argument(help="Table of new rows; - is standard input.")],
    out: Annotated[Path, typer.Option(help=HELP_OUT)] = Path(STANDARD),
    interval: Annotated[float, typer.Option(help="Confidence of prediction intervals.")] = 0.9,
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
    from stoptime.tables.model_file import load  # noqa: PLC0415 - starts faster
    from stoptime.tables.reading import read_table  # noqa: PLC0415

    terminal.checked_interval(interval)
    terminal.checked_output(out, "--out", terminal.TABLES, force=force)
    if str(out) != STANDARD and out.resolve() in {model.resolve(), data.resolve()}:
        raise terminal.bad("--out", f"{out} is also read: choose another file.")
    frame, notes = predicted(load(model), read_table(data), interval)
    failures = terminal.Failures()
    to_file = str(out) != STANDARD
    with failures.caught(out):
        if to_file or not as_json:
            terminal.write_predictions(frame, out)
    if as_json:
        here = {} if to_file else {"predictions": frame.to_dict(orient="records")}
        files = {"out": out} if to_file else {}
        terminal.print_json({"rows": len(frame), "messages": notes, "files": files, **here})
    else:
        terminal.print_notes(notes)
        if to_file and not failures:
            typer.echo(f"wrote {out}")
    failures.report()


def predicted(model: Any, table: Any, confidence: float) -> tuple[Any, list[str]]:
    """Return a table with columns of predictions, and notes on it."""
    try:
        return _predicted(model, table, confidence)
    except ValueError as error:
        raise ValueError(f"{table.source}: {error}") from error


def _predicted(model: Any, table: Any, confidence: float) -> tuple[Any, list[str]]:
    """Return numbers with a lower and an upper end, or classes with a probability each.

    A row with a missing value that the model cannot fill in has no prediction.
    """
    from sklearn.pipeline import Pipeline  # noqa: PLC0415 - starts faster

    from stoptime.support.progress import warnings_noted  # noqa: PLC0415
    from stoptime.tables.intervals import predict_interval  # noqa: PLC0415
    from stoptime.tables.values import pandas  # noqa: PLC0415

    frame = rows = table.frame
    notes = list(table.messages)
    with warnings_noted() as warned:
        if isinstance(model, Pipeline) and model[0].missing == "error":
            gaps = model[0].gaps(frame)
            rows = frame[~gaps]
            if gaps.any():
                notes.append(
                    f"No prediction for {int(gaps.sum())} of {len(frame)} rows: the model was "
                    "fitted without rows that have missing values."
                )
        last = model[-1] if isinstance(model, Pipeline) else model
        columns: dict[str, Any] = {"prediction": model.predict(rows)}
        if hasattr(last, "classes_"):
            if last.slope_ is not None:
                chances = model.predict_proba(rows).T
                names = [f"probability_{label}" for label in last.classes_.tolist()]
                columns |= dict(zip(names, chances, strict=True))
        elif getattr(last, "half_widths_", last) is None or not hasattr(last, "predict_interval"):
            notes.append("There are no intervals: the model has no errors of left-out rows.")
        else:
            ends = predict_interval(model, rows, confidence)
            columns |= {"lower": ends[:, 0], "upper": ends[:, 1]}
    # columns of the table keep their names
    taken = {one: f"{one}_by_stoptime" for one in columns if one in frame.columns}
    found = pandas().DataFrame(columns, index=rows.index).rename(columns=taken)
    for old, new in taken.items():
        notes.append(f'The table has a column "{old}" already: that of the model is "{new}".')
    return pandas().concat([frame, found.reindex(frame.index)], axis=1), [*notes, *warned]
