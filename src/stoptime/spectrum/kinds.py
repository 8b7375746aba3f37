"""Which kind of container data come in, told without importing the packages that make them."""

from __future__ import annotations

import sys
from typing import Any, Literal

from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from stoptime.support.arrays import is_tensor

__all__ = ["MATRIX_FREE", "STREAMED", "Kind", "kind_of"]

Kind = Literal["dense", "sparse", "operator", "tensor", "dask", "chunks", "statistics"]
CLASSES: dict[Kind, list[tuple[str, str]]] = {
    "dask": [("dask.array", "Array"), ("dask.dataframe", "DataFrame")],
    "chunks": [
        ("stoptime.spectrum.streamed.chunks", "Chunks"),
        ("zarr", "Array"),
        ("h5py", "Dataset"),
    ],
    "statistics": [("stoptime.spectrum.streamed.statistics", "Statistics")],
}
"""Module and name of the classes of other kinds."""

STREAMED: tuple[Kind, ...] = ("chunks", "dask", "statistics")
"""Kinds of data whose rows pass by once and are not kept."""

MATRIX_FREE: frozenset[Kind] = frozenset({"sparse", "operator"})
"""What is only ever multiplied with."""


def kind_of(X: Any) -> Kind:
    """Return the kind of a container; all that is not known otherwise will be made a dense array.

    Examples
    --------
    >>> kind_of([[1.0, 2.0]]), kind_of(sparse.eye(3))
    ('dense', 'sparse')
    """
    if sparse.issparse(X):
        return "sparse"
    if isinstance(X, LinearOperator):
        return "operator"
    if is_tensor(X):
        return "tensor"
    for kind, classes in CLASSES.items():
        if any(_is(X, *name) for name in classes):
            return kind
    return "dense"


def _is(X: Any, module: str, name: str) -> bool:
    """Tell an instance of a class whose module is imported if there can be any."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(X, getattr(loaded, name, ()))
