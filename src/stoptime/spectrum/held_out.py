"""Rows on which a path is tested, and sums of its errors there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from sklearn.utils import check_consistent_length

from stoptime.support.arrays import Array, Floats, as_float64, like, on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoptime.paths import Path

PREDICTED_NUMBERS = 2**23  # predictions held at once while a path is tested


@dataclass(frozen=True)
class TestErrors:
    """Weighted sums over the rows of one test set, each of shape (n_stops, n_targets).

    ``weighted_squares`` and ``fourths``, which give a standard error over rows, are None if single
    rows are not known.
    """

    weight: float
    weight_squares: float
    squares: Floats
    weighted_squares: Floats | None = None
    fourths: Floats | None = None


class TestSet(Protocol):
    """Rows on which a path is tested."""

    def errors(self, draw: Callable[[Array], Path], stops: Array, units: Array) -> TestErrors:
        """Return sums of squared prediction errors at the stops, in the unit of each target."""


@dataclass(frozen=True)
class RowsToTest:
    """Rows in memory, their response of shape (n, n_targets), and their weights on the host."""

    X: Any
    y: Any
    weights: Array

    def errors(self, draw: Callable[[Array], Path], stops: Array, units: Array) -> TestErrors:
        """Sum powers of the prediction errors, a bounded number of stops at a time."""
        sums = np.empty((3, len(stops), self.y.shape[1]))
        shares = like(self.y, self.weights)
        scale = like(self.y, units)
        height = max(1, PREDICTED_NUMBERS // (max(self.X.shape) * self.y.shape[1]))
        for start in range(0, len(stops), height):
            part = slice(start, start + height)
            fit = draw(stops[part]).predict(self.X)
            errors = as_float64(fit.reshape(fit.shape[0], *self.y.shape) - self.y)
            squares = (errors / scale) ** 2
            powers = shares @ squares, shares**2 @ squares, shares**2 @ squares**2
            sums[:, part] = [on_host(power) for power in powers]
        return TestErrors(float(self.weights.sum()), float(self.weights @ self.weights), *sums)


def checked_test(X: Any, y: Any, columns: tuple[int, ...]) -> RowsToTest:
    """Return a test set, and raise a ValueError if its columns are not those that were fitted."""
    check_consistent_length(np.empty((X.shape[0], 0)), np.empty((y.shape[0], 0)))
    if (X.shape[1], *y.shape[1:]) != columns:
        targets = f"{columns[1]} targets" if len(columns) > 1 else "a vector y"
        raise ValueError(
            f"The validation set has shapes {tuple(X.shape)} and {tuple(y.shape)}, which do not "
            f"fit the training data of {columns[0]} features and {targets}."
        )
    return RowsToTest(X, y.reshape(y.shape[0], -1), np.ones(y.shape[0]))
