"""Data and new rows of any kind, as scikit-learn's conventions want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.kinds import DTYPES, kind_of, new_rows
from stoptime.spectrum.streamed.dask import dask_rows
from stoptime.spectrum.streamed.sources import Chunks
from stoptime.support.arrays import is_device_array

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from stoptime.spectrum.data import Data

__all__ = ["opened_data", "predictions", "scored"]


def opened_data(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, fit_intercept: bool
) -> Data:
    """Validate data, once, and store in the estimator what scikit-learn wants to know of them."""
    kind = kind_of(X)
    vars(estimator).pop("feature_names_in_", None)  # of an earlier fit
    options: dict[str, Any] = {"multi_output": True, "y_numeric": True}
    if kind == "sparse":
        X, y = validate_data(estimator, X, y, dtype=np.float64, accept_sparse=["csr"], **options)
    elif kind == "dense" and not is_device_array(X):
        # NaN in X are found in its products, at no cost
        X, y = validate_data(estimator, X, y, dtype=DTYPES, ensure_all_finite=False, **options)
    data = open_data(X, y, sample_weight, fit_intercept)
    estimator.n_features_in_ = data.n_features
    if data.names is not None:
        estimator.feature_names_in_ = np.array(data.names, dtype=object)
    return data


def predictions(model: Any, X: Any) -> Any:
    """Return predictions of a linear model: lazy for Dask, block by block for chunks."""
    kind = kind_of(X)
    coef = model.coef_.swapaxes(0, -1) if model.coef_.ndim > 1 else model.coef_
    if kind in {"dense", "sparse"} and not (is_device_array(X) or is_device_array(coef)):
        rows = validate_data(model, X, reset=False, dtype=DTYPES, accept_sparse=["csr", "csc"])
        return rows @ coef + model.intercept_
    if kind in {"chunks", "dask", "statistics"} and not is_device_array(coef):
        return _streamed_predictions(model, X, coef)
    rows = new_rows(X, coef)
    _check_columns(model, rows, None)
    return rows @ coef + model.intercept_


def _streamed_predictions(model: Any, X: Any, coef: Any) -> Any:
    kind = kind_of(X)
    if kind == "statistics":
        raise TypeError("Statistics hold no rows to predict for.")
    names = X.names if isinstance(X, Chunks) else getattr(X, "columns", None)
    _check_columns(model, X, names)
    if kind == "dask":
        return dask_rows(X) @ coef + model.intercept_
    blocks = X if isinstance(X, Chunks) else Chunks.of(X)
    return np.concatenate([block.X @ coef + model.intercept_ for block in blocks])


def scored(model: Any, chunks: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """Return the response of chunks, the predictions of a linear model, and weights, in one pass."""
    if not isinstance(chunks, Chunks):
        raise ValueError(  # noqa: TRY004 - what is missing is a value
            "y must be given with X: only chunks hold their own response and rows."
        )
    if sample_weight is not None:
        raise ValueError(f"{chunks} holds its own response and weights: leave sample_weight out.")
    _check_columns(model, chunks, chunks.names)
    responses, predicted, weights = [], [], []
    for block in chunks:
        if block.y is None:
            raise ValueError(
                "Chunks have no response: give y, or the target column, where they are made."
            )
        responses.append(block.y)
        predicted.append(block.X @ model.coef_.T + model.intercept_)
        weights.append(np.ones(len(block.X)) if block.weight is None else block.weight)
    if not responses:
        raise ValueError("There are no rows: every block is empty, or there is no block.")
    return np.concatenate(responses), np.concatenate(predicted), np.concatenate(weights)


def _check_columns(model: Any, X: Any, names: Any) -> None:
    """Raise a ValueError where new rows have other columns than those that were fitted."""
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but {model.n_features_in_} were fitted.")
    fitted = getattr(model, "feature_names_in_", None)
    if names is not None and fitted is not None and [*map(str, names)] != [*fitted]:
        raise ValueError(
            f"X has the columns {[*names][:8]}, but {[*fitted][:8]} were fitted, in this order."
        )
