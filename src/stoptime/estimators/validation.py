"""Data and new rows of any kind, validated as scikit-learn requires."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.kinds import array_options, kind_of
from stoptime.spectrum.new_rows import NewChunks, open_rows

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from stoptime.spectrum.data import Data
    from stoptime.spectrum.new_rows import NewRows


def opened_data(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    fit_intercept: bool,
    penalty_matrix: Any = None,
) -> Data:
    """Validate data, once, and store the number and the names of their columns."""
    vars(estimator).pop("feature_names_in_", None)  # of an earlier fit
    options = array_options(X)
    if options is not None:
        X, y = validate_data(estimator, X, y, multi_output=True, y_numeric=True, **options)
    data = open_data(X, y, sample_weight, fit_intercept, penalty_matrix=penalty_matrix)
    estimator.n_features_in_ = data.n_features
    if data.names is not None:
        estimator.feature_names_in_ = np.array(data.names, dtype=object)
    return data


def predictions(model: Any, X: Any) -> Any:
    """Return predictions of a linear model: lazy for Dask, block by block for chunks."""
    coef = model.coef_.swapaxes(0, -1) if model.coef_.ndim > 1 else model.coef_
    return _opened_rows(model, X).predicted(coef, model.intercept_)


def matrix_of_rows(model: Any, X: Any) -> Any:
    """Return new rows as a matrix in memory."""
    rows = _opened_rows(model, X)
    if isinstance(rows, NewChunks) or kind_of(rows.X) == "dask":
        raise TypeError(
            f"Jackknife+ intervals need new rows in memory; got {type(X).__name__}: use "
            'kind="jackknife".'
        )
    return rows.X


def scored(model: Any, X: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """Return response, predictions and weights of chunks in one pass."""
    return _opened_rows(model, X).scored(model.coef_.T, model.intercept_, sample_weight)


def _opened_rows(model: Any, X: Any) -> NewRows:
    """Open new rows; raise a ValueError if they have other columns than those that were fitted."""
    rows = open_rows(X, model.coef_, partial(validate_data, model, reset=False))
    p = rows.X.shape[1]
    if p != model.n_features_in_:
        raise ValueError(f"X has {p} features, but {model.n_features_in_} were fitted.")
    fitted = getattr(model, "feature_names_in_", None)
    if rows.names is not None and fitted is not None and [*map(str, rows.names)] != [*fitted]:
        raise ValueError(
            f"X has the columns {[*rows.names][:8]}, but {[*fitted][:8]} were fitted, in this "
            "order."
        )
    return rows
