"""Linear estimators without their training rows: what :func:`stoptime.load` returns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.estimators.classifier import StoppedClassifier
from stoptime.estimators.linear import StoppedRegressor
from stoptime.methods.base import Method
from stoptime.support.arrays import Array, Floats, on_host
from stoptime.support.checks import positive_number

LEVELS = (*(i / 100 for i in range(1, 100)), 0.995, 0.999)  # confidences that a file holds


class _Saved(BaseEstimator):
    """Predictions from coefficients that were fitted elsewhere."""

    coef_: Array
    intercept_: Array

    def __init__(self, method: str | Method = "nesterov-flow", stop: Any = None) -> None:
        self.method = method
        self.stop = stop

    def _values(self, X: Any) -> Array:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if names is not None and hasattr(X, "columns"):
            lacking = [name for name in names if name not in X.columns]
            if lacking:
                raise ValueError(f'X lacks the column "{lacking[0]}" of the fit.')
            X = X[list(names)]  # in the order of the fit, without other columns
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    def _take(self, model: Any) -> Self:
        """Take over what a fitted estimator has found."""
        self.method_ = model.method_
        self.stop_ = model.stop_
        self.coef_ = np.asarray(on_host(model.coef_), np.float64)
        self.intercept_ = np.asarray(on_host(model.intercept_), np.float64)
        self.n_features_in_ = self.coef_.shape[-1]
        self.__dict__.pop("feature_names_in_", None)
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = np.array([*map(str, model.feature_names_in_)], dtype=object)
        return self


class SavedRegressor(RegressorMixin, _Saved):
    """A linear regressor without its rows, with jackknife intervals of the fit.

    ``half_widths_`` holds quantiles of the absolute left-out residuals, by confidence; None if the
    model had none. ``fit`` fits new rows by the same method at the same stop, without intervals.
    """

    half_widths_: list[Any] | None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit new rows by the same method, at the same stop."""
        self._take(StoppedRegressor(self.method, self.stop).fit(X, y, sample_weight))
        self.half_widths_ = None
        return self

    def predict(self, X: Any) -> Floats:
        """Return predictions of shape (n,) or (n, n_targets)."""
        return self._values(X)

    def predict_interval(self, X: Any, confidence: float = 0.9) -> Floats:
        """Return the prediction minus and plus a quantile of the left-out residuals."""
        confidence = positive_number("confidence", confidence, high=1.0)
        if self.half_widths_ is None:
            raise ValueError("This model was saved without left-out residuals, and so intervals.")
        # the next larger confidence in the file; rounding must not skip one
        level = next((one for one in LEVELS if one >= confidence - 1e-9), None)
        if level is None:
            raise ValueError(f"A saved model has intervals up to {LEVELS[-1]}; got {confidence}.")
        values = self._values(X)
        width = np.asarray(self.half_widths_[LEVELS.index(level)])
        return np.stack([values - width, values + width], axis=-1)


class SavedClassifier(ClassifierMixin, _Saved):
    """A linear classifier without its rows.

    ``slope_`` turns decision values into probabilities; None if the model had none.
    """

    classes_: NDArray[Any]
    slope_: float | None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit new rows by the same method, at the same stop."""
        model = StoppedClassifier(self.method, self.stop).fit(X, y, sample_weight)
        self.classes_ = model.classes_
        self.slope_ = model.slope_
        return self._take(model)

    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n,) for two classes, else (n, n_classes)."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row."""
        values = self.decision_function(X)
        place = (values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)
        return np.asarray(self.classes_[place])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, of shape (n, n_classes)."""
        if self.slope_ is None:
            raise ValueError("This model has no probabilities: its method leaves no rows out.")
        values = self._values(X)
        columns = np.column_stack([0 * values, values]) if values.shape[1] == 1 else values
        return np.asarray(softmax(self.slope_ * columns, axis=1))


def saved(model: Any) -> Any:
    """Return a fitted linear estimator of stoptime without its training rows."""
    if isinstance(model, _Saved):
        return model
    check_is_fitted(model)
    if hasattr(model, "dual_coef_"):
        raise TypeError("Kernel models contain their training rows: pickle them instead.")
    if not hasattr(model, "method_") or not hasattr(model, "coef_"):
        raise TypeError(
            f"{type(model).__name__} cannot be saved as JSON: only linear regressors and "
            "classifiers of stoptime can, alone or after TablePreparation. Use skops or pickle."
        )
    if not hasattr(model, "classes_"):
        found = SavedRegressor(model.method_, model.stop_)._take(model)
        found.half_widths_ = _half_widths(model)
        return found
    if getattr(model, "calibration", "sigmoid") == "isotonic":
        raise ValueError(
            'Isotonic probabilities cannot be saved: fit with calibration="sigmoid", or pickle the '
            "model."
        )
    labels = SavedClassifier(model.method_, model.stop_)._take(model)
    labels.classes_ = model.classes_
    labels.slope_ = None if model.slope_ is None else float(model.slope_)
    return labels


def _half_widths(model: Any) -> list[Any] | None:
    """Return half the width of the jackknife interval at every level, or None without any."""
    if getattr(model, "left_out_residuals_", None) is None:
        return None
    row = np.zeros((1, model.n_features_in_))
    if hasattr(model, "feature_names_in_"):
        from stoptime.tables.values import pandas  # noqa: PLC0415 - only for named columns

        row = pandas().DataFrame(row, columns=model.feature_names_in_)
    ends = [on_host(model.predict_interval(row, one, kind="jackknife"))[0] for one in LEVELS]
    return [np.asarray((one[..., 1] - one[..., 0]) / 2, np.float64).tolist() for one in ends]


def to_sklearn(model: Any) -> Any:
    """Return a fitted estimator of scikit-learn with the same predictions, for ONNX and the like.

    A regressor becomes a LinearRegression; a classifier a LogisticRegression, whose probabilities
    are the same. In a Pipeline the last step is replaced.

    Examples
    --------
    >>> import stoptime as st
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = st.StoppedRegressorCV().fit(X, y)
    >>> bool(abs(to_sklearn(model).predict(X) - model.predict(X)).max() < 1e-9)
    True
    """
    if isinstance(model, Pipeline):
        return Pipeline([*model.steps[:-1], (model.steps[-1][0], to_sklearn(model[-1]))])
    found = saved(model)
    plain: Any = LinearRegression()
    slope = 1.0
    if isinstance(found, SavedClassifier):
        if found.slope_ is None:
            raise ValueError("A LogisticRegression has probabilities, and this model has none.")
        plain = LogisticRegression()
        plain.classes_ = found.classes_
        slope = found.slope_
        plain.n_iter_ = np.zeros(1, dtype=np.int32)
    plain.coef_ = slope * found.coef_
    plain.intercept_ = slope * found.intercept_
    plain.n_features_in_ = found.n_features_in_
    if hasattr(found, "feature_names_in_"):
        plain.feature_names_in_ = found.feature_names_in_
    return plain
