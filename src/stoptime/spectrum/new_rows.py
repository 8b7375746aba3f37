"""New rows of any kind: opened once, they say how a linear model predicts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite

from stoptime.spectrum.kinds import DTYPES, kind_of, rows_in_memory
from stoptime.spectrum.moments import Statistics
from stoptime.spectrum.source import WITHOUT_BLOCKS, WITHOUT_RESPONSE, Block, Source
from stoptime.spectrum.sources import Chunks, dask_rows
from stoptime.support.arrays import is_device_array


@dataclass(frozen=True)
class NewRows:
    """Rows that can be multiplied with coefficients: array, matrix, operator, tensor or chunks.

    ``names`` are those of columns that scikit-learn has not checked already. The products of a
    Dask collection, whose rows are not in memory, are lazy.
    """

    X: Any
    names: Any = None
    in_memory: bool = True

    def predicted(self, coef: Any, intercept: Any) -> Any:
        """Return predictions where the coefficients are; lazy ones for Dask."""
        if not isinstance(self.X, Source):
            return self.X @ coef + intercept
        return np.concatenate([fit for _, fit in _predicted(self.X, coef, intercept)])

    def scored(self, coef: Any, intercept: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return response, predictions and weights in one pass, if the rows contain them."""
        if not isinstance(self.X, Source):
            raise ValueError("y must be given with X: only chunks contain both rows and response.")  # noqa: TRY004
        if sample_weight is not None:
            raise ValueError(f"{self.X} contains the weights already: leave sample_weight out.")
        parts = []
        for (X, y, weight), fit in _predicted(self.X, coef, intercept):
            if y is None:
                raise ValueError(WITHOUT_RESPONSE)
            parts.append((np.asarray(y), fit, np.ones(len(X)) if weight is None else weight))
        if not parts:
            raise ValueError(WITHOUT_BLOCKS)
        response, predicted, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        return response, predicted, weights


def _predicted(source: Source, coef: Any, intercept: Any) -> Iterator[tuple[Block, Any]]:
    for block in source.blocks():
        X = np.asarray(block.X)
        assert_all_finite(X, input_name="X")
        yield block, X @ coef + intercept


def open_rows(X: Any, coef: Any, validate: Callable[..., Any]) -> NewRows:
    """Open new rows of any kind; ``validate`` checks arrays and sparse matrices in memory."""
    kind = kind_of(X)
    on_device = is_device_array(X) or is_device_array(coef)
    if kind in {"dense", "sparse"} and not on_device:
        return NewRows(validate(X, dtype=DTYPES, accept_sparse=["csr", "csc"]))
    if kind in {"dense", "sparse", "operator", "rows"} or on_device:
        return NewRows(rows_in_memory(X, coef))
    if isinstance(X, Statistics):
        raise TypeError("Statistics contain no rows to predict.")
    if hasattr(X, "__dask_graph__"):
        return NewRows(dask_rows(X), getattr(X, "columns", None), in_memory=False)
    chunks = X if isinstance(X, Source) else Chunks.of(X)
    return NewRows(chunks, chunks.names, in_memory=False)
