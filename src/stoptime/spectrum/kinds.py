"""The kind of container of the data, found without importing the packages that define it."""

from __future__ import annotations

import sys
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import assert_all_finite, check_array

from stoptime.support.arrays import array_namespace, as_dtype, is_device_array, like, on_host

Kind = Literal["dense", "sparse", "operator", "dask", "chunks", "statistics"]
DTYPES = [np.float64, np.float32]
CLASSES: dict[Kind, list[tuple[str, str]]] = {
    "dask": [("dask.array", "Array"), ("dask.dataframe", "DataFrame")],
    "chunks": [
        ("stoptime.spectrum.streamed.sources", "Chunks"),
        ("zarr", "Array"),
        ("h5py", "Dataset"),
    ],
    "statistics": [("stoptime.spectrum.streamed.statistics", "Statistics")],
}
"""Module and name of the classes of streamed data."""


def kind_of(X: Any) -> Kind:
    """Return the kind of a container; unknown containers count as dense arrays."""
    if sparse.issparse(X):
        return "sparse"
    if isinstance(X, LinearOperator):
        return "operator"
    for kind, classes in CLASSES.items():
        for module, name in classes:
            # an instance exists only if its module has been imported
            if module in sys.modules and isinstance(X, getattr(sys.modules[module], name, ())):
                return kind
    return "dense"


def checked_matrix(X: Any, name: str = "X") -> Any:
    """Return a sparse matrix in double precision by rows or columns, or an operator as it is."""
    if len(X.shape) != 2:
        raise ValueError(f"{name} must have two dimensions; got shape {X.shape}.")
    if X.dtype is not None and np.issubdtype(X.dtype, np.complexfloating):
        raise ValueError(f"Complex data not supported: {name} is complex. Use Re and Im as rows.")
    if min(X.shape) == 0:
        raise ValueError(f"{name} must have at least one row and one column; got shape {X.shape}.")
    if not sparse.issparse(X):
        return X
    X = X if X.format in {"csr", "csc"} else X.tocsr()
    X = X.astype(np.float64, copy=False)
    assert_all_finite(X.data, input_name=name)
    return X


def new_rows(X: Any, reference: Any, *, dtype: Any = None, name: str = "X") -> Any:
    """Return new rows in memory as a matrix that can be multiplied with coefficients.

    The rows are put where the ``reference`` is, coefficients or training rows. Dense rows are
    converted to ``dtype`` if given. Messages call them ``name``.
    """
    kind = kind_of(X)
    on_device = is_device_array(X) or is_device_array(reference)
    if kind in {"sparse", "operator"} and not on_device:
        return checked_matrix(X, name)
    if kind != "dense":
        where = "rows of the same kind as in fit" if on_device else "rows in memory"
        raise TypeError(f"{name} must be {where}; got {type(X).__name__}.")
    if not on_device:
        return check_array(X, dtype=dtype or DTYPES, input_name=name)
    rows = X.detach() if hasattr(X, "detach") else X
    rows = rows if is_device_array(rows) else np.asarray(rows)
    if rows.ndim != 2:
        raise ValueError(f"{name} must be of shape (n, n_features); got {tuple(rows.shape)}.")
    if not is_device_array(reference):
        return on_host(rows)
    # a model predicts on the device of its coefficients, in their type
    rows = array_namespace(reference).asarray(like(reference, rows), device=reference.device)
    return as_dtype(rows, reference.dtype)
