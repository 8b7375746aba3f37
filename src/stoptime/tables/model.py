"""A fitted model without its data, and its predictions for arrays and for tables."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from stoptime.estimators.conventions import MethodParameters
from stoptime.estimators.intervals import LeftOutChanges, jackknife, jackknife_plus, sizes_of
from stoptime.estimators.probabilities import chosen, probabilities
from stoptime.methods.base import Method
from stoptime.spectrum.kinds import DTYPES
from stoptime.support.arrays import Floats, on_host
from stoptime.support.progress import warnings_noted
from stoptime.tables.columns import check_columns, values_of
from stoptime.tables.pipelines import recipe_of
from stoptime.tables.reading import Table, errors_named, pandas
from stoptime.tables.recipe import Prepared, Recipe, counted

MOST_CHANGES = 2**20  # numbers of the fits without each row in a model, about 6 MB in a file


@dataclass(frozen=True, eq=False)
class Classes:
    """The labels of a classifier, and how its decision values become probabilities."""

    labels: NDArray[Any]
    slope: float | None  #: None without left-out decision values, from which it is calibrated.
    shift: float

    def predict(self, values: Floats) -> NDArray[Any]:
        """Return the label of each row."""
        return chosen(self.labels, values + self.shift)

    def probabilities(self, values: Floats) -> Floats:
        """Return the probability of each class."""
        if self.slope is None:
            raise ValueError("This model has no probabilities: its method leaves no rows out.")
        return probabilities(self.slope, values + self.shift)

    def content(self) -> dict[str, Any]:
        """Return the classes as types that JSON has."""
        return {**vars(self), "labels": self.labels.tolist()}


class PreparationWarning(UserWarning):
    """Values of new rows were filled in or not recognised."""


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A fitted model without its data: :func:`save` writes it and :func:`load` returns it.

    ``method`` is tuned to the data of the fit. ``features`` and ``target`` are names, if known.
    With a ``recipe``, predictions take rows of a table; without one, rows of features.
    ``residuals``, of shape (n, n_targets), are the absolute left-out residuals for intervals, and
    ``observations`` is the number of observations that each row of them stands for. ``left_out``
    are the fits without each row, if they are not too large for a file. A classifier has
    ``classes``; its ``coef`` and ``intercept`` are those of the labels coded as ±1.
    """

    method: Method
    stop: float | Floats
    coef: Floats
    intercept: Floats
    features: tuple[str, ...] | None = None
    target: str | None = None
    recipe: Recipe | None = None
    residuals: Floats | None = None
    observations: Floats | None = None
    left_out: LeftOutChanges | None = None
    classes: Classes | None = None

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the response or the class, exactly as the model that was saved.

        X is a data frame, or an array with the columns of the table or the features in their order.
        """
        values = self._values(self._rows(X))
        return values if self.classes is None else self.classes.predict(values)

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probability of each class, of shape (n, n_classes); X as for predict."""
        if self.classes is None:
            raise ValueError("This model predicts numbers: it has no classes with probabilities.")
        return self.classes.probabilities(self._values(self._rows(X)))

    def _values(self, rows: Floats) -> Floats:
        return np.asarray(rows @ self.coef.T + self.intercept)

    @property
    def interval_kind(self) -> str | None:
        """Which intervals this model has: "jackknife+", "jackknife", or None."""
        if self.residuals is None:
            return None
        return "jackknife" if self.left_out is None else "jackknife+"

    def predict_interval(self, X: Any, confidence: float = 0.9) -> Floats:
        """Predict lower and upper ends, of shape (n, 2) or (n, n_targets, 2).

        This is the jackknife+ of :meth:`stoptime.StoppedRegressorCV.predict_interval`, or the
        jackknife if the fits without each row were too large for a file; see ``interval_kind``.
        X is as for :meth:`predict`.
        """
        if self.residuals is None or self.observations is None:
            why = "intervals need a regression model that chose its stop"
            raise ValueError(f"This model has no left-out residuals: {why}.")
        rows = self._rows(X)
        given = self.residuals, self.observations, confidence
        changes = self.left_out
        if changes is None:
            return jackknife(self._values(rows), *given)  # type: ignore[no-any-return]
        return jackknife_plus(  # type: ignore[no-any-return]
            lambda block: changes.added_to(self._values(block), block), rows, *given
        )

    def _rows(self, X: Any) -> Floats:
        """Return the rows of the matrix for new data."""
        has_columns = hasattr(X, "columns")
        if self.recipe is not None:
            if not has_columns:
                X = np.asarray(X)
                names = [column.name for column in self.recipe.columns]
                listed = ", ".join(names)
                if X.ndim != 2 or X.shape[1] != len(names):
                    raise ValueError(f"X must have the columns {listed}; got shape {X.shape}.")
                # An array of objects gets back the type of each column.
                X = pandas().DataFrame(X, columns=names).infer_objects()
            rows, messages = self.recipe.transform(X)
            for message in messages:
                warnings.warn(message, PreparationWarning, stacklevel=3)
            return rows
        if has_columns and self.features not in {None, tuple(map(str, X.columns))}:
            wanted = ", ".join(self.features or ())
            raise ValueError(f"X must have the columns {wanted}, in this order.")
        rows = np.asarray(check_array(X, dtype=DTYPES, input_name="X"))
        p = self.coef.shape[-1]
        if rows.shape[1] != p:
            raise ValueError(f"X has {rows.shape[1]} features, but the model has {p}.")
        return rows

    def __repr__(self) -> str:
        stop = f"{self.stop:.4g}" if np.ndim(self.stop) == 0 else "one for each target"
        return f"Model({self.method}, stop {stop}, {self.coef.shape[-1]} features)"


def as_model(model: Any, prepared: Prepared | None = None) -> Model:
    """Return the parts of a fitted estimator that predictions need."""
    if isinstance(model, Model):
        return model
    if prepared is not None:
        recipe = prepared.recipe
        target = prepared.target
        return replace(as_model(model), features=recipe.features, target=target, recipe=recipe)
    if isinstance(model, Pipeline):
        recipe, last = recipe_of(model)
        return replace(as_model(last), features=recipe.features, recipe=recipe)
    if not isinstance(model, MethodParameters):
        known = "regressors and classifiers of stoptime, and pipelines that end with one of them"
        raise TypeError(f"Only {known}, can be saved, not {model!r:.80}: pickle it instead.")
    check_is_fitted(model)
    if hasattr(model, "regressor_"):
        if model.calibration != "sigmoid":
            raise ValueError(
                f"Probabilities of calibration={model.calibration!r} cannot be saved: fit with "
                'calibration="sigmoid", or pickle the model.'
            )
        classes = Classes(model.classes_, model.slope_, float(model._shift))
        # Intervals would be those of the coded labels.
        return replace(
            as_model(model.regressor_), residuals=None, observations=None, left_out=None,
            classes=classes,
        )  # fmt: skip
    if hasattr(model, "dual_coef_"):
        raise TypeError("Kernel models contain their training rows: pickle them instead.")
    names = getattr(model, "feature_names_in_", None)
    residuals = getattr(model, "left_out_residuals_", None)
    sizes = None if residuals is None else sizes_of(residuals)
    coef = on_host(model.coef_)
    left_out = None
    if sizes is not None and sizes.size * (coef.shape[-1] + 1) <= MOST_CHANGES:
        left_out = LeftOutChanges.of(model._left_out_fits, np.atleast_2d(coef))
    return Model(
        model.method_, model.stop_, coef, on_host(model.intercept_),
        None if names is None else tuple(map(str, names)),
        residuals=sizes,
        observations=None if sizes is None else model._observations,
        left_out=left_out,
    )  # fmt: skip


def predict_table(model: Model, table: Table, confidence: float) -> tuple[Any, list[str]]:
    """Return the table with columns of predictions, and messages on the file and the intervals.

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
    told = [f"{name}: {message}" for message in (*messages, *warned)]
    if model.interval_kind == "jackknife":
        why = "a model file has no room for the fits without each row, which the jackknife+ needs"
        told.append(f"Intervals are quantiles of left-out errors (jackknife): {why}.")
    elif model.interval_kind is None and model.classes is None:
        told.append("There are no intervals: the model has no errors of left-out rows.")
    return joined, told


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
        check_columns(model.features, list(frame.columns))
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
