"""Data and new rows of any kind, validated as scikit-learn requires."""

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


def check_in_memory(X: Any) -> None:
    """Raise a TypeError if a kernel cannot be computed from this container."""
    if kind_of(X) not in {"dense", "sparse"} or is_device_array(X):
        raise TypeError(f"A kernel needs rows in memory as an array; got {type(X).__name__}.")


def opened_data(
    estimator: BaseEstimator, X: Any, y: Any, sample_weight: Any, fit_intercept: bool
) -> Data:
    """Validate data, once, and store the number and the names of their columns."""
    kind = kind_of(X)
    vars(estimator).pop("feature_names_in_", None)  # of an earlier fit
    options: dict[str, Any] = {"multi_output": True, "y_numeric": True}
    if kind == "sparse":
        X, y = validate_data(estimator, X, y, dtype=np.float64, accept_sparse=["csr"], **options)
    elif kind == "dense" and not is_device_array(X):
        # NaN in X is found in its products, at no extra cost
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
    if kind in {"sparse", "operator", "dense"} or is_device_array(coef):
        rows = new_rows(X, coef)
        _check_columns(model, rows, None)
        return rows @ coef + model.intercept_
    if kind == "statistics":
        raise TypeError("Statistics contain no rows to predict.")
    names = X.names if isinstance(X, Chunks) else getattr(X, "columns", None)
    _check_columns(model, X, names)
    if kind == "dask":
        return dask_rows(X) @ coef + model.intercept_
    blocks = X if isinstance(X, Chunks) else Chunks.of(X)
    return np.concatenate([block.X @ coef + model.intercept_ for block in blocks])


def scored(model: Any, chunks: Any, sample_weight: Any = None) -> tuple[Any, ...]:
    """Return response, predictions and weights of chunks in one pass."""
    if not isinstance(chunks, Chunks):
        raise ValueError(  # noqa: TRY004 - y is missing
            "y must be given with X: only chunks contain both rows and their response."
        )
    if sample_weight is not None:
        raise ValueError(f"{chunks} contains the weights already: leave sample_weight out.")
    _check_columns(model, chunks, chunks.names)
    parts = []
    for block in chunks:
        if block.y is None:
            raise ValueError(
                "Chunks have no response: give y, or the target column, when you create them."
            )
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        parts.append((block.y, block.X @ model.coef_.T + model.intercept_, weight))
    if not parts:
        raise ValueError("There are no rows: every block is empty, or there is no block.")
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _check_columns(model: Any, X: Any, names: Any) -> None:
    """Raise a ValueError if new rows have other columns than those that were fitted."""
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"X has {X.shape[1]} features, but {model.n_features_in_} were fitted.")
    fitted = getattr(model, "feature_names_in_", None)
    if names is not None and fitted is not None and [*map(str, names)] != [*fitted]:
        raise ValueError(
            f"X has the columns {[*names][:8]}, but {[*fitted][:8]} were fitted, in this order."
        )
