"""Fitted models as JSON files: no code is run, and every number is exact."""

from __future__ import annotations

import json
from contextlib import suppress
from copy import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
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
from stoptime.methods.registry import as_content, from_content
from stoptime.support.arrays import Floats, on_host
from stoptime.support.checks import positive_number
from stoptime.support.files import atomic
from stoptime.support.version import __version__
from stoptime.support.wording import did_you_mean
from stoptime.tables.preparation import Decision, TablePreparation
from stoptime.tables.values import Form

SCHEMA = 6
LEVELS = (*(i / 100 for i in range(1, 100)), 0.995, 0.999)  # confidences that a file holds
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def save(model: Any, target: str | Path) -> None:
    """Write a fitted model to a JSON file, completely or not at all.

    The model is a regressor or classifier of stoptime, or a Pipeline of a TablePreparation and one
    of them, as :func:`stoptime.fit_table` returns it. The file has coefficients, method and stop,
    quantiles of the left-out residuals for intervals, how columns are prepared, and for a kernel
    its training rows or landmarks.
    """
    model = getattr(model, "pipeline", model)  # of the result of fit_table
    preparation = None
    if isinstance(model, Pipeline):
        *steps, (_, model) = model.steps
        if len(steps) != 1 or not isinstance(steps[0][1], TablePreparation):
            raise TypeError(
                "Only pipelines of a TablePreparation and an estimator of stoptime can be saved as "
                "JSON: use skops or pickle for others."
            )
        preparation = _content_of_preparation(steps[0][1])
    content = {"format": "stoptime-model", "schema": SCHEMA, "version": __version__}
    content |= {**_content(model), "preparation": preparation}
    with atomic(Path(target)) as path:
        path.write_text(json.dumps(content, allow_nan=False, indent=1) + "\n", encoding="utf-8")


def load(source: str | Path) -> Any:
    """Read a model file of :func:`save`: an estimator, or a Pipeline that prepares tables too.

    Nothing in the file is run; any other file is refused with a ValueError that says why. The
    estimator has ``coef_``, ``predict`` and ``predict_interval`` or ``predict_proba``; of a
    Pipeline, :func:`stoptime.predict_interval` gives the intervals.
    """
    path = Path(source)
    if not path.exists():
        hint = did_you_mean(path.name, [one.name for one in path.parent.glob("*.json")]) or "."
        raise FileNotFoundError(f"The model file {path} does not exist{hint}")
    try:
        return _loaded(json.loads(path.read_text(encoding="utf-8")))
    except FAULTS as error:
        reason = str(error)[:200] or type(error).__name__
        if isinstance(error, KeyError):
            reason = f'"{error.args[0]}" is missing.'
        if isinstance(error, UnicodeDecodeError | json.JSONDecodeError):
            reason = "it is not JSON."
        raise ValueError(f"{path} is no model file of stoptime: {reason}") from error


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
    if isinstance(model, TransformedTargetRegressor):
        plain: Any = copy(model)
        plain.regressor = plain.regressor_ = to_sklearn(model.regressor_)
        return plain
    content = _content(model)
    if content["kernel"] is not None:
        raise TypeError("scikit-learn has no linear model that predicts as a kernel does.")
    plain = LinearRegression()
    slope = 1.0
    if content["classes"] is not None:
        plain = LogisticRegression()
        plain.n_iter_ = np.zeros(1, dtype=np.int32)
        slope = 1.0 if content["classes"]["logistic"] else content["classes"]["slope"]
        if slope is None:
            raise ValueError("A LogisticRegression has probabilities, and this model has none.")
    found = _estimator(content)
    for name in ("classes_", "n_features_in_", "feature_names_in_"):
        if hasattr(found, name):
            setattr(plain, name, getattr(found, name))
    plain.coef_ = slope * found.coef_
    plain.intercept_ = slope * found.intercept_
    return plain


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
        level = int(np.searchsorted(LEVELS, confidence - 1e-9))
        if level == len(LEVELS):
            raise ValueError(f"A saved model has intervals up to {LEVELS[-1]}; got {confidence}.")
        return np.asarray(self.half_widths_[level])


class SavedKernelRegressor(SavedRegressor, StoppedKernelRegressor):
    """A kernel regressor with the rows or landmarks that it predicts by, and its intervals."""


def _content(model: Any) -> dict[str, Any]:
    """Return what a fitted estimator predicts by, as types that JSON has."""
    check_is_fitted(model)
    log = isinstance(model, TransformedTargetRegressor) and model.func is np.log
    model = model.regressor_ if log else model
    # a classifier predicts by a regressor, or by its own coefficients, whose values are logits
    regressor = getattr(model, "regressor_", model)
    kernel = kernel_content(regressor) if hasattr(regressor, "dual_coef_") else None
    coef = getattr(regressor, "coef_", None) if kernel is None else regressor.dual_coef_.T
    if not hasattr(model, "method_") or coef is None:
        raise TypeError(
            f"{type(model).__name__} cannot be saved as JSON, nor become a model of scikit-learn: "
            "only estimators of stoptime named Stopped... can, alone or after TablePreparation. "
            "Use skops or pickle."
        )
    if getattr(model, "_multilabel", False):
        raise ValueError("A model of several labels for a row cannot be saved: pickle it.")
    if getattr(model, "calibration", "sigmoid") == "isotonic":
        raise ValueError(
            'Isotonic probabilities cannot be saved: fit with calibration="sigmoid", or pickle the '
            "model."
        )
    classes = None
    widths = None
    if hasattr(model, "classes_"):
        slope = getattr(model, "slope_", None)
        classes = {
            "labels": model.classes_.tolist(),
            "logistic": regressor is model,
            "slope": None if slope is None else float(slope),
            "shift": float(getattr(model, "_shift", 0.0)),
        }
    elif hasattr(model, "predict_interval"):
        with suppress(ValueError):  # the method leaves no rows out, or there are none to leave out
            widths = [model._half_width(one).tolist() for one in LEVELS]
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
        "half_widths": widths,
        "log": log,
    }


def _estimator(content: dict[str, Any]) -> Any:
    """Return the estimator of such a content; raise a ValueError if its parts do not fit."""
    classes = content["classes"]
    kernel = content["kernel"]
    names = content["features"]
    coef = np.array(content["coef"], dtype=np.float64)
    intercept = np.array(content["intercept"], dtype=np.float64)
    count = coef.shape[-1] if kernel is None else len(kernel["rows"][0])
    fits = coef.ndim in {1, 2} and intercept.shape == coef.shape[:-1]
    fits &= names is None or len(names) == count
    if classes is not None:
        # two classes have one decision value
        fits &= intercept.size == (1 if len(classes["labels"]) == 2 else len(classes["labels"]))
    elif content["half_widths"] is not None:
        widths = np.array(content["half_widths"], np.float64)
        fits &= widths.shape == (len(LEVELS), *intercept.shape)
    if not fits:
        raise ValueError('"coef" and its names, intercept, classes or half_widths do not fit.')
    logistic = classes is not None and classes["logistic"]
    stop: Any = np.array(content["stop"], dtype=np.float64)  # "inf" becomes a number
    stop = stop if stop.ndim else int(stop) if logistic else float(stop)
    options = {"fit_intercept": content["fit_intercept"]} if kernel is None else kernel["options"]
    options |= {"method": from_content(dict(content["method"])), "stop": stop}
    kind: Any = SavedRegressor if kernel is None else SavedKernelRegressor
    found = (StoppedLogisticRegression if logistic else kind)(**options)
    found.method_ = options["method"]
    found.stop_ = stop
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
    found.half_widths_ = content["half_widths"]
    if classes is None and content["log"]:
        of_log: Any = TransformedTargetRegressor(
            DummyRegressor(), func=np.log, inverse_func=np.exp
        ).fit([[0.0]], [1.0])
        of_log.regressor = of_log.regressor_ = found
        return of_log
    if classes is None:
        return found
    model: Any = (StoppedClassifier if kernel is None else StoppedKernelClassifier)(**options)
    model.classes_ = np.array(classes["labels"])
    model.slope_, model._shift, model._curves = classes["slope"], classes["shift"], None
    model._take_over(found)
    return model


def _loaded(content: Any) -> Any:
    """Return the estimator or the Pipeline of a file."""
    if not isinstance(content, dict) or content.get("format") != "stoptime-model":
        raise ValueError('its "format" must be "stoptime-model".')
    if content["schema"] != SCHEMA:
        newer = content["schema"] > SCHEMA
        made = "a newer stoptime: upgrade" if newer else "an older one: fit again"
        raise ValueError(f"it was written by {made}.")
    model = _estimator(content)
    if content["preparation"] is None:
        return model
    preparation = _preparation(content["preparation"])
    if preparation.center_.shape != (model.n_features_in_,):
        raise ValueError('"preparation" and "coef" have different numbers of features.')
    return Pipeline([("preparation", preparation), ("model", model)])


def _content_of_preparation(preparation: TablePreparation) -> dict[str, Any]:
    """Return a fitted preparation as types that JSON has."""
    lists = {"drop": [*preparation.drop], "na": [*preparation.na]}
    return {
        "parameters": preparation.get_params() | lists | {"kinds": dict(preparation.kinds or {})},
        "names": preparation.feature_names_in_.tolist(),
        "columns": [asdict(one) for one in preparation.kept()],
        "center": preparation.center_.tolist(),
        "scale": preparation.scale_.tolist(),
    }


def _preparation(content: dict[str, Any]) -> TablePreparation:
    """Return the preparation of such a content."""
    preparation = TablePreparation(**content["parameters"])
    preparation.decisions_ = {}
    for one in content["columns"]:
        form = Form(**{**one["form"], "formats": tuple(one["form"]["formats"])})
        decision = Decision(**{**one, "form": form, "levels": tuple(one["levels"])})
        preparation.decisions_[decision.column] = decision
    preparation.notes_ = [one.note for one in preparation.decisions_.values() if one.note]
    preparation.feature_names_in_ = np.array(content["names"], dtype=object)
    preparation.n_features_in_ = len(content["names"])
    preparation.center_ = np.array(content["center"], dtype=np.float64)
    preparation.scale_ = np.array(content["scale"], dtype=np.float64)
    if preparation.scale_.shape != (len(preparation.get_feature_names_out()),):
        raise ValueError('"columns" and "scale" have different numbers of features.')
    return preparation
