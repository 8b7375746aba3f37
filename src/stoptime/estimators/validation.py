"""What scikit-learn wants to know of data, for every kind of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from stoptime.spectrum.dense import DTYPES
from stoptime.spectrum.kinds import STREAMED, kind_of
from stoptime.spectrum.krylov.operator import checked
from stoptime.spectrum.streamed.streams import as_stream, noted
from stoptime.spectrum.tensors import checked_tensors, rows_like
from stoptime.support.arrays import Floats, is_tensor

__all__ = ["checked_data", "checked_rows"]

ROWS_OR_COLUMNS = ["csr", "csc"]


def checked_data(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike | None
) -> tuple[Floats, Floats]:
    """Check shapes and types as scikit-learn does; NaN in X are found in the products later.

    Other kinds of data than dense are checked by their backend.
    """
    kind, columns = kind_of(X), X
    if kind in STREAMED:
        noted(estimator, as_stream(X, y))
        return X, y  # type: ignore[return-value]
    if kind == "operator":
        columns = checked(X)
        if y is None:
            raise ValueError("y must be given with X.")
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
    if kind == "tensor":
        columns, y = checked_tensors(X, y)
    if kind in {"operator", "tensor"}:
        vars(estimator).pop("feature_names_in_", None)  # of an earlier fit
        estimator.n_features_in_ = columns.shape[1]  # type: ignore[union-attr]
        return columns, y  # type: ignore[return-value]
    options = {"multi_output": True, "y_numeric": True, "dtype": DTYPES, "ensure_all_finite": False}
    if kind == "sparse":
        options |= {"dtype": np.float64, "accept_sparse": ["csr"], "ensure_all_finite": True}
    return validate_data(estimator, X, y, **options)  # type: ignore[no-any-return]


def checked_rows(estimator: Any, X: Any) -> Any:
    """Return new rows that fit a model of ``coef_``, where it is and as it takes them."""
    rows = rows_like(estimator.coef_, X) if is_tensor(estimator.coef_) or is_tensor(X) else X
    if kind_of(rows) in {"dense", "sparse"}:
        return validate_data(
            estimator, rows, reset=False, dtype=DTYPES, accept_sparse=ROWS_OR_COLUMNS
        )
    if rows.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {rows.shape[1]} features, but {estimator.n_features_in_} were fitted."
        )
    return rows
