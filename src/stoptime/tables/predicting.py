"""Predict the rows of a table: predictions, and intervals or probabilities, beside its columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stoptime.support.progress import warnings_noted
from stoptime.tables.columns import values_of
from stoptime.tables.reading import errors_named, pandas
from stoptime.tables.recipe import counted

if TYPE_CHECKING:
    from stoptime.tables.model import Model
    from stoptime.tables.reading import Table


def predict_table(model: Model, table: Table, confidence: float) -> tuple[Any, list[str]]:
    """Return the table with columns of predictions, and messages that name the file.

    Numbers have a lower and an upper end, classes have a probability each. A row with a missing
    value that the model cannot fill in has no prediction.
    """
    frame = table.frame
    name = Path(table.source).name
    with errors_named(table.source):
        complete = ~_incomplete(model, frame)
    messages = list(table.messages)
    if not complete.all():
        lost = counted(int((~complete).sum()), "row")
        why = "the model was fitted without rows that have missing values"
        messages.append(f"No prediction for {lost}: {why}.")
    with errors_named(table.source), warnings_noted() as warned:
        columns = _columns(model, frame[complete], confidence)
    found = pandas().DataFrame(columns, index=frame.index[complete])
    # Columns of the table keep their names.
    taken = {one: f"{one}_by_stoptime" for one in columns if one in frame.columns}
    if taken:
        renamed = ", ".join(f"{old} is {new}" for old, new in taken.items())
        messages.append(f"The table has columns of these names already: {renamed}.")
    whole = found if complete.all() else found.reindex(frame.index)
    joined = pandas().concat([frame, whole.rename(columns=taken)], axis=1)
    return joined, [f"{name}: {message}" for message in (*messages, *warned)]


def _incomplete(model: Model, frame: Any) -> Any:
    """Return the rows with a missing value in a column that the model does not fill in."""
    lost = np.zeros(len(frame), dtype=bool)
    for column in () if model.recipe is None else model.recipe.columns:
        if column.kind != "category" and column.fill is None and column.name in frame.columns:
            found = values_of(frame[column.name], column.name, column.form, column.kind)
            # Values of another kind are told later, with an example.
            lost |= found.gaps if found.kind == column.kind else frame[column.name].isna()
    return lost


def _columns(model: Model, frame: Any, confidence: float) -> dict[str, Any]:
    """Return the new columns by name."""
    if len(frame) == 0:
        raise ValueError("every row has a missing value, and the model was fitted without them.")
    if model.recipe is None and model.features is not None:
        lacking = [name for name in model.features if name not in frame.columns]
        if lacking:
            raise ValueError(f'There is no column "{lacking[0]}", which the model needs.')
        frame = frame[list(model.features)]
    columns: dict[str, Any] = {"prediction": model.predict(frame)}
    if model.classes is not None:
        if model.classes.slope is not None:
            chances = model.predict_proba(frame)
            labels = model.classes.labels.tolist()
            columns |= {f"probability_{label}": chances[:, i] for i, label in enumerate(labels)}
    elif model.interval_kind is not None:
        ends = model.predict_interval(frame, confidence)
        columns |= {"lower": ends[:, 0], "upper": ends[:, 1]}
    return columns
