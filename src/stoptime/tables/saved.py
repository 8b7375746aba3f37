"""Estimators with what they predict by, and no more: what :func:`stoptime.load` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.estimators.classifier import StoppedClassifier
from stoptime.estimators.kernel import (
    StoppedKernelClassifier,
    StoppedKernelRegressor,
    kernel_content,
    kernel_values,
)
from stoptime.estimators.linear import StoppedRegressor
from stoptime.estimators.logistic import StoppedLogisticRegression
from stoptime.methods.base import Method
from stoptime.methods.registry import as_content, from_content
from stoptime.support.arrays import Array, Floats, on_host
from stoptime.support.checks import positive_number

LEVELS = (*(i / 100 for i in range(1, 100)), 0.995, 0.999)  # confidences that a file holds


class _Saved(BaseEstimator):
    """Predictions from coefficients that were fitted elsewhere."""

    coef_: Array
    intercept_: Array
    kernel_content_: dict[str, Any] | None = None  # None for a linear model
    kernel_values_: Callable[[Any], Any]  # between new rows and those of the file

    def __init__(
        self,
        method: str | Method = "nesterov-flow",
        stop: Any = None,
        kernel: dict[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.stop = stop
        self.kernel = kernel

    def _values(self, X: Any) -> Array:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if names is not None and hasattr(X, "columns"):
            lacking = [name for name in names if name not in X.columns]
            if lacking:
                raise ValueError(f'X lacks the column "{lacking[0]}" of the fit.')
            X = X[list(names)]  # in the order of the fit, without other columns
        rows = validate_data(self, X, reset=False, dtype=np.float64)
        if self.kernel_content_ is not None:
            rows = self.kernel_values_(rows)
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    def _refit(self, model: Any) -> Self:
        """Take over what a fitted estimator has found."""
        self.__dict__.pop("feature_names_in_", None)
        found = vars(estimator_of(content_of(model)))
        self.__dict__.update({name: one for name, one in found.items() if name.endswith("_")})
        return self


class SavedRegressor(RegressorMixin, _Saved):
    """A linear regressor without its rows, with jackknife intervals of the fit.

    ``half_widths_`` holds quantiles of the absolute left-out residuals, by confidence; None if the
    model had none. ``fit`` fits new rows by the same method at the same stop.
    """

    half_widths_: list[Any] | None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit new rows by the same method, at the same stop."""
        model: Any = StoppedRegressor(self.method, self.stop)
        if self.kernel is not None:
            model = StoppedKernelRegressor(self.method, self.stop, **self.kernel)
        return self._refit(model.fit(X, y, sample_weight))

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

    def __init__(
        self,
        method: str | Method = "nesterov-flow",
        stop: Any = None,
        logistic: bool = False,
        kernel: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(method, stop, kernel)
        self.logistic = logistic

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit new rows by the same method, at the same stop."""
        model: Any = StoppedClassifier(self.method, self.stop)
        if self.logistic:
            model = StoppedLogisticRegression(self.method, int(self.stop))
        if self.kernel is not None:
            model = StoppedKernelClassifier(self.method, self.stop, **self.kernel)
        return self._refit(model.fit(X, y, sample_weight))

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

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):  # a probability may underflow to zero
            return np.asarray(np.log(self.predict_proba(X)))


def content_of(model: Any) -> dict[str, Any]:
    """Return what a fitted estimator predicts by, as types that JSON has."""
    check_is_fitted(model)
    coef = getattr(model, "coef_", None)
    kernel = getattr(model, "kernel_content_", None)
    if hasattr(model, "dual_coef_"):
        kernel = kernel_content(getattr(model, "regressor_", model))
        coef = on_host(model.dual_coef_).T
        # a classifier of two classes has one row of coefficients, as linear ones do
        coef = np.atleast_2d(coef) if hasattr(model, "classes_") else coef
    if not hasattr(model, "method_") or coef is None:
        raise TypeError(
            f"{type(model).__name__} cannot be saved as JSON: only regressors and classifiers of "
            "stoptime can, alone or after TablePreparation. Use skops or pickle."
        )
    if getattr(model, "calibration", "sigmoid") == "isotonic":
        raise ValueError(
            'Isotonic probabilities cannot be saved: fit with calibration="sigmoid", or pickle the '
            "model."
        )
    names = getattr(model, "feature_names_in_", None)
    stops = [one if np.isfinite(one) else "inf" for one in np.ravel(model.stop_).tolist()]
    classes = None
    if hasattr(model, "classes_"):
        # the decision values of logistic regression are logits, with the slope one
        logistic = getattr(model, "logistic", not hasattr(model, "slope_"))
        slope = getattr(model, "slope_", 1.0)
        slope = None if slope is None else float(slope)
        classes = {"labels": model.classes_.tolist(), "slope": slope, "logistic": logistic}
    return {
        "method": as_content(model.method_),
        "stop": stops if np.ndim(model.stop_) else stops[0],
        "coef": np.asarray(on_host(coef), np.float64).tolist(),
        "intercept": np.reshape(on_host(model.intercept_), np.shape(coef)[:-1]).tolist(),
        "kernel": kernel,
        "features": None if names is None else [*map(str, names)],
        "classes": classes,
        "half_widths": None if classes is not None else _half_widths(model),
    }


def estimator_of(content: dict[str, Any]) -> SavedRegressor | SavedClassifier:
    """Return the estimator of such a content; raise a ValueError if its parts do not fit."""
    method = from_content(dict(content["method"]))
    stop: Any = np.array([float(one) for one in np.ravel(content["stop"])])
    stop = stop if isinstance(content["stop"], list) else float(stop[0])
    classes = content["classes"]
    kernel = content.get("kernel")  # files of older versions have none
    options = None if kernel is None else kernel["options"]
    model: Any = SavedRegressor(method, stop, options)
    if classes is not None:
        model = SavedClassifier(method, stop, bool(classes["logistic"]), options)
    model.method_ = method
    model.stop_ = stop
    model.coef_ = np.array(content["coef"], dtype=np.float64)
    model.intercept_ = np.array(content["intercept"], dtype=np.float64)
    model.n_features_in_ = model.coef_.shape[-1]
    if kernel is not None:
        model.kernel_content_ = kernel
        model.kernel_values_ = kernel_values(kernel)
        model.n_features_in_ = len(kernel["rows"][0])
    fits = model.coef_.ndim in {1, 2} and model.intercept_.shape == model.coef_.shape[:-1]
    if content["features"] is not None:
        model.feature_names_in_ = np.array([*map(str, content["features"])], dtype=object)
        fits &= len(model.feature_names_in_) == model.n_features_in_
    if classes is not None:
        model.classes_ = np.array(classes["labels"])
        model.slope_ = None if classes["slope"] is None else float(classes["slope"])
        fits &= len(model.coef_) == (1 if len(model.classes_) == 2 else len(model.classes_))
    else:
        widths = model.half_widths_ = content["half_widths"]
        shape = (len(LEVELS), *model.intercept_.shape)
        fits &= widths is None or np.array(widths, dtype=np.float64).shape == shape
    if not fits:
        raise ValueError('"coef" and its names, intercept, classes or half_widths do not fit.')
    return model  # type: ignore[no-any-return]


def _half_widths(model: Any) -> list[Any] | None:
    """Return half the width of the jackknife interval at every level, or None without any."""
    if isinstance(model, SavedRegressor):
        return model.half_widths_
    if not hasattr(model, "predict_interval"):
        return None
    row = np.zeros((1, model.n_features_in_))
    if hasattr(model, "feature_names_in_"):
        from stoptime.tables.values import pandas  # noqa: PLC0415 - only for named columns

        row = pandas().DataFrame(row, columns=model.feature_names_in_)
    kind = {} if isinstance(model, StoppedRegressor) else {"kind": "jackknife"}
    try:
        ends = [on_host(model.predict_interval(row, one, **kind))[0] for one in LEVELS]
    except ValueError:  # the method leaves no rows out, or there are none to leave out
        return None
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
    found = estimator_of(content_of(model))
    if found.kernel is not None:
        raise TypeError("scikit-learn has no linear model that predicts as a kernel does.")
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
