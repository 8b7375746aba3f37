"""What a target asks for: a regression on numbers, or a classification into labels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, RidgeClassifierCV, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold

from stoptime.estimators.probabilities import coded
from stoptime.support.arrays import Array
from stoptime.tables.columns import form_in_words, numbers_in, values_of
from stoptime.tables.reading import pandas

MOST_CLASSES = 100
FEWEST_OF_TWO = 10  # rows from which a target of two numbers is taken as two classes


class Regression:
    """A target of numbers."""

    classifies: ClassVar[bool] = False
    folds: ClassVar[type[KFold]] = KFold
    measure: ClassVar[str] = "RMSE"

    def response(self, frame: Any, name: str) -> tuple[Any, NDArray[np.bool_]]:
        """Return the target of every row, and where it is missing."""
        y = numbers_in(frame, name)
        return y, np.isnan(y)

    def coded(self, y: Any) -> Array:
        """Return the response of least squares."""
        return np.asarray(y)

    def rivals(self, alphas: Array, fit_intercept: bool) -> dict[str, Any]:
        """Return other estimators by name, of which the last one knows nothing."""
        return {
            "RidgeCV": RidgeCV(alphas, fit_intercept=fit_intercept),
            "least squares": LinearRegression(fit_intercept=fit_intercept),
            "the mean": DummyRegressor(),
        }

    def losses(self, y: Any, predicted: Any) -> Array:
        """Return the loss of every row; the measure is the root of their mean."""
        return np.asarray((y - predicted) ** 2)

    def measured(self, mean: float) -> tuple[float, float]:
        """Return the measure for a mean loss, and its derivative."""
        root = np.sqrt(mean)
        return float(root), float(0.5 / root) if root > 0 else 0.0


class Classification:
    """A target of labels."""

    classifies: ClassVar[bool] = True
    folds: ClassVar[type[StratifiedKFold]] = StratifiedKFold
    measure: ClassVar[str] = "error rate"

    def response(self, frame: Any, name: str) -> tuple[Any, NDArray[np.bool_]]:
        """Return the label of every row, and where it is missing."""
        series = frame[name]
        pd = pandas()
        gaps = np.asarray(series.isna())
        known = series[~gaps]
        if pd.api.types.is_bool_dtype(known.infer_objects()):
            labels = known.astype(bool)
        elif pd.api.types.is_numeric_dtype(known) and (known % 1 == 0).all():
            labels = known.astype(int)
        else:
            labels = known.astype(str).str.strip()
        count = labels.nunique()
        # A class of one row cannot be learned without it.
        if count > min(MOST_CLASSES, len(labels) / 2):
            raise ValueError(
                f'The target "{name}" has {count} different values in {len(labels)} rows, too many '
                "for classes: choose another target, or classify=False if these are numbers."
            )
        y = np.empty(len(series), labels.to_numpy().dtype)
        y[~gaps] = labels.to_numpy()
        return y, gaps

    def coded(self, y: Any) -> Array:
        """Return labels coded as ±1, the response of least squares."""
        classes, place = np.unique(y, return_inverse=True)
        return np.asarray(coded(place, len(classes)), np.float64)

    def rivals(self, alphas: Array, fit_intercept: bool) -> dict[str, Any]:
        """Return other estimators by name, of which the last one knows nothing."""
        return {
            "RidgeClassifierCV": RidgeClassifierCV(alphas, fit_intercept=fit_intercept),
            "the most frequent class": DummyClassifier(),
        }

    def losses(self, y: Any, predicted: Any) -> Array:
        """Return one for a wrong class and zero for the right one."""
        return np.asarray(y != predicted, np.float64)

    def measured(self, mean: float) -> tuple[float, float]:
        """Return the measure for a mean loss, and its derivative."""
        return mean, 1.0


def task_of(frame: Any, name: str, classify: bool | None) -> tuple[Task, str | None]:
    """Return the task, and a sentence on a target that was recognised as classes or amounts."""
    if classify is not None:
        return (Classification() if classify else Regression()), None
    series = frame[name].dropna()
    found = values_of(series, name)
    count = series.nunique()
    boolean = pandas().api.types.is_bool_dtype(series.infer_objects())
    of_two = found.kind == "number" and count == 2 and len(series) >= FEWEST_OF_TWO
    if not (found.kind == "category" or boolean or of_two):
        told = form_in_words(found.kind, found.form, series) if found.form else None
        return Regression(), told and f'The target "{name}": {told}.'
    numbers = " (classify=False fits them as numbers)" if found.kind == "number" else ""
    how = f"its {count} different values are taken as classes{numbers}"
    return Classification(), f'The target "{name}": {how}.'


Task = Regression | Classification
