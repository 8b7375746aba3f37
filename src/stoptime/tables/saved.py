"""Estimators with what they predict by, and no more: what :func:`stoptime.load` returns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from stoptime.estimators.classifier import StoppedClassifier
from stoptime.estimators.kernel import (
    StoppedKernelClassifier,
    StoppedKernelRegressor,
    kernel_content,
    set_kernel,
)
from stoptime.estimators.linear import StoppedRegressor
from stoptime.estimators.logistic import StoppedLogisticRegression
from stoptime.estimators.summary import CoefficientSummary
from stoptime.methods.registry import as_content, from_content
from stoptime.support.arrays import Floats, on_host
from stoptime.support.checks import positive_number

LEVELS = (*(i / 100 for i in range(1, 100)), 0.995, 0.999)  # confidences that a file holds


class SavedRegressor(StoppedRegressor):
    """A linear regressor without its rows, with jackknife intervals of the fit.

    ``half_widths_`` holds quantiles of the absolute left-out residuals, by confidence; None if the
    model had none. ``fit`` fits new rows by the same method at the same stop.
    """

    half_widths_: list[Any] | None

    def _half_width(self, confidence: float) -> Floats:
        if hasattr(self, "_searched"):  # fitted again
            return super()._half_width(confidence)
        confidence = positive_number("confidence", confidence, high=1.0)
        if self.half_widths_ is None:
            raise ValueError("This model was saved without left-out residuals, and so intervals.")
        # the next larger confidence in the file; rounding must not skip one
        level = next((one for one in LEVELS if one >= confidence - 1e-9), None)
        if level is None:
            raise ValueError(f"A saved model has intervals up to {LEVELS[-1]}; got {confidence}.")
        return np.asarray(self.half_widths_[LEVELS.index(level)])

    def summary(self) -> CoefficientSummary:
        """Return coefficients and standard errors, if the model has been fitted again."""
        if not hasattr(self, "_searched"):
            raise TypeError("A saved model has no training rows, and so no standard errors.")
        return super().summary()

    def _opened_rows(self, X: Any) -> Any:
        return super()._opened_rows(_own_columns(self, X))


class SavedKernelRegressor(SavedRegressor, StoppedKernelRegressor):
    """A kernel regressor with the rows or landmarks that it predicts by, and its intervals."""


class SavedLogisticRegression(StoppedLogisticRegression):
    """A logistic regression without its rows."""

    def decision_function(self, X: Any) -> Floats:
        """Return logits, (n,) for two classes, else (n, n_classes)."""
        return super().decision_function(_own_columns(self, X))


def _own_columns(model: Any, X: Any) -> Any:
    """Return the columns of the fit in their order, of a data frame that may have others."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not hasattr(X, "columns"):
        return X
    lacking = [name for name in names if name not in X.columns]
    if lacking:
        raise ValueError(f'X lacks the column "{lacking[0]}" of the fit.')
    return X[list(names)]


def content_of(model: Any) -> dict[str, Any]:
    """Return what a fitted estimator predicts by, as types that JSON has."""
    check_is_fitted(model)
    # a classifier predicts by a regressor, or by its own coefficients, whose values are logits
    regressor = getattr(model, "regressor_", model)
    kernel = kernel_content(regressor) if hasattr(regressor, "dual_coef_") else None
    coef = getattr(regressor, "coef_", None) if kernel is None else regressor.dual_coef_.T
    if not hasattr(model, "method_") or coef is None:
        raise TypeError(
            f"{type(model).__name__} cannot be saved as JSON: only regressors and classifiers of "
            "stoptime can, alone or after TablePreparation. Use skops or pickle."
        )
    if getattr(model, "_multilabel", False):
        raise ValueError("A model of several labels for a row cannot be saved: pickle it.")
    if getattr(model, "calibration", "sigmoid") == "isotonic":
        raise ValueError(
            'Isotonic probabilities cannot be saved: fit with calibration="sigmoid", or pickle the '
            "model."
        )
    classes = None
    if hasattr(model, "classes_"):
        slope = getattr(model, "slope_", None)
        classes = {
            "labels": model.classes_.tolist(),
            "logistic": regressor is model,
            "slope": None if slope is None else float(slope),
            "shift": float(getattr(model, "_shift", 0.0)),
        }
    names = getattr(model, "feature_names_in_", None)
    stops = [one if np.isfinite(one) else "inf" for one in np.ravel(model.stop_).tolist()]
    return {
        "method": as_content(model.method_),
        "stop": stops if np.ndim(model.stop_) else stops[0],
        "coef": np.asarray(on_host(coef), np.float64).tolist(),
        "fit_intercept": bool(model.fit_intercept),
        "intercept": np.reshape(on_host(regressor.intercept_), np.shape(coef)[:-1]).tolist(),
        "kernel": kernel,
        "features": None if names is None else [*map(str, names)],
        "classes": classes,
        "half_widths": None if classes is not None else _half_widths(model),
    }


def _half_widths(model: Any) -> list[Any] | None:
    """Return half the width of the jackknife interval at every level, or None without any."""
    if not hasattr(model, "predict_interval"):
        return None
    try:
        return [model._half_width(one).tolist() for one in LEVELS]
    except ValueError:  # the method leaves no rows out, or there are none to leave out
        return None


def estimator_of(content: dict[str, Any]) -> Any:
    """Return the estimator of such a content; raise a ValueError if its parts do not fit."""
    classes = content["classes"]
    coef = np.array(content["coef"], dtype=np.float64)
    intercept = np.array(content["intercept"], dtype=np.float64)
    widths = content["half_widths"]
    fits = coef.ndim in {1, 2} and intercept.shape == coef.shape[:-1]
    if classes is not None:
        # two classes have one decision value
        fits &= intercept.size == (1 if len(classes["labels"]) == 2 else len(classes["labels"]))
    elif widths is not None:
        fits &= np.array(widths, np.float64).shape == (len(LEVELS), *intercept.shape)
    names = content["features"]
    kernel = content["kernel"]
    count = coef.shape[-1] if kernel is None else len(kernel["rows"][0])
    if not fits or (names is not None and len(names) != count):
        raise ValueError('"coef" and its names, intercept, classes or half_widths do not fit.')
    stops = np.array([float(one) for one in np.ravel(content["stop"])])
    stop: Any = stops if isinstance(content["stop"], list) else float(stops[0])
    options = {"fit_intercept": content["fit_intercept"]} if kernel is None else kernel["options"]
    logistic = classes is not None and classes["logistic"]
    kind: Any = SavedRegressor if kernel is None else SavedKernelRegressor
    stop = int(stop) if logistic else stop
    made = from_content(dict(content["method"])), stop
    found = (SavedLogisticRegression if logistic else kind)(*made, **options)
    found.method_, found.stop_ = made
    found.n_features_in_ = count
    found.intercept_ = intercept
    if names is not None:
        found.feature_names_in_ = np.array([*map(str, names)], dtype=object)
    if kernel is None:
        found.coef_ = coef
    else:
        found.dual_coef_ = coef.T
        set_kernel(found, kernel)
    if logistic:
        found.classes_ = np.array(classes["labels"])
        return found
    found.half_widths_ = widths
    if classes is None:
        return found
    model = (StoppedClassifier if kernel is None else StoppedKernelClassifier)(*made, **options)
    model.classes_ = np.array(classes["labels"])
    model.slope_, model._shift, model._curves = classes["slope"], classes["shift"], None
    model._take_over(found)
    return model


def to_sklearn(model: Any) -> Any:
    """Return a fitted estimator of scikit-learn with the same predictions, for ONNX and the like.

    A regressor becomes a LinearRegression; a classifier a LogisticRegression, whose probabilities
    are the same. In a Pipeline, also that of :func:`stoptime.fit_table`, the last step is replaced.

    Examples
    --------
    >>> import stoptime as st
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = st.StoppedRegressorCV().fit(X, y)
    >>> bool(abs(to_sklearn(model).predict(X) - model.predict(X)).max() < 1e-9)
    True
    """
    model = getattr(model, "pipeline", model)
    if isinstance(model, Pipeline):
        return Pipeline([*model.steps[:-1], (model.steps[-1][0], to_sklearn(model[-1]))])
    content = content_of(model)
    if content["kernel"] is not None:
        raise TypeError("scikit-learn has no linear model that predicts as a kernel does.")
    found = estimator_of(content)
    plain: Any = LinearRegression()
    slope = 1.0
    if content["classes"] is not None:
        slope = 1.0 if content["classes"]["logistic"] else content["classes"]["slope"]
        if slope is None:
            raise ValueError("A LogisticRegression has probabilities, and this model has none.")
        plain = LogisticRegression()
        plain.classes_ = found.classes_
        plain.n_iter_ = np.zeros(1, dtype=np.int32)
    plain.coef_ = slope * found.coef_
    plain.intercept_ = slope * found.intercept_
    plain.n_features_in_ = found.n_features_in_
    if hasattr(found, "feature_names_in_"):
        plain.feature_names_in_ = found.feature_names_in_
    return plain
