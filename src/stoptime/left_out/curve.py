"""Estimated errors at many stops, their standard errors, and the sums from which both come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Array, Floats, is_device_array, on_host, slices

if TYPE_CHECKING:
    from stoptime.left_out.interpolation import Interpolation
    from stoptime.left_out.rows import Rows

ROWS_IN_SINGLE = 128  # summed in single precision
LEAST_ROUGH = 1e-4  # of the response's power; smaller errors are not estimated roughly


@dataclass(frozen=True, repr=False)
class ErrorCurve:
    """Estimated mean squared prediction error at many stops.

    ``errors`` has shape (n_stops,) or (n_stops, n_targets), and so have ``standard_errors``, which
    are None where the rule estimates none. ``exact`` says at which stops errors are exact. A search
    by leave-one-out computes them exactly around the best stop, and to about a per cent at stops
    far later.
    """

    stops: Floats
    errors: Floats
    standard_errors: Floats | None = None
    exact: Any = True

    def __post_init__(self) -> None:
        if np.ndim(self.exact) == 0:
            object.__setattr__(self, "exact", np.full(self.stops.shape, self.exact))

    def pooled(self) -> ErrorCurve:
        """Return the curve of the mean over targets."""
        return self if self.errors.ndim == 1 else self._pooled

    @cached_property
    def _pooled(self) -> ErrorCurve:
        # targets share their rows, so their errors are correlated: standard errors are averaged too
        deviation = None if self.standard_errors is None else self.standard_errors.mean(axis=1)
        return ErrorCurve(self.stops, self.errors.mean(axis=1), deviation, self.exact)

    def __repr__(self) -> str:
        targets = "" if self.errors.ndim == 1 else f", {self.errors.shape[1]} targets"
        return f"ErrorCurve({len(self.stops)} stops{targets}, least error {self.errors.min():.4g})"

    def joined(self, other: ErrorCurve) -> ErrorCurve:
        """Return both curves as one; where both have a stop, the other one's error is kept."""
        stops, order = np.unique(np.concatenate([other.stops, self.stops]), return_index=True)
        deviation = None
        if self.standard_errors is not None and other.standard_errors is not None:
            deviation = np.concatenate([other.standard_errors, self.standard_errors])[order]
        errors = np.concatenate([other.errors, self.errors])[order]
        exact = np.concatenate([other.exact, self.exact])[order]
        return ErrorCurve(stops, errors, deviation, exact)


def standard_error(values: Floats) -> Floats:
    """Return the standard error of the mean over the first axis."""
    # in units of the largest value, so that squares of squared errors do not overflow
    largest = np.abs(values).max(axis=0)
    unit = np.where((largest > 0) & np.isfinite(largest), largest, 1)
    return np.asarray(unit * ((values / unit).std(axis=0, ddof=1) / np.sqrt(len(values))))


class SquareSums:
    """Sums over rows for mean squares and their standard errors, at the nodes of a curve."""

    def __init__(self, rows: Rows, curve: Interpolation, *, fourths: bool) -> None:
        self._rows = rows
        self._curve = curve
        shape = len(curve.nodes), rows.data.n_targets
        self._squares = np.zeros(shape)
        self._weighted_squares, self._fourths = np.zeros((2, *(shape if fourths else (0, 0))))
        self._on_device: list[tuple[Array, NDArray[np.intp], Any]] = []

    def add(self, places: NDArray[np.intp], weight: Array, residuals: Array) -> None:
        """Add residuals of shape (n_places, n_rows, n_targets); they are overwritten."""
        residuals *= residuals
        self._add(self._squares, places, _weighted(weight, residuals))
        if self._fourths.size:
            self._add(self._weighted_squares, places, _weighted(weight**2, residuals))
            residuals *= residuals
            self._add(self._fourths, places, _weighted(weight**2, residuals))

    def _add(self, total: Array, places: NDArray[np.intp], part: Any) -> None:
        if is_device_array(part):
            # fetched when the sums are asked for, so that the device need not wait for the host
            self._on_device.append((total, places, part))
        else:
            total[places] += part

    @property
    def squares(self) -> Array:
        """The weighted sums of squares, of shape (n_nodes, n_targets)."""
        while self._on_device:
            total, places, part = self._on_device.pop()
            total[places] += on_host(part)
        return self._squares

    @property
    def least(self) -> float:
        """The least mean square, relative to the power of the response."""
        return float(self.squares.min(initial=np.inf))

    def means(self) -> Array:
        """Return the mean squares m, of shape (n_stops, n_targets)."""
        return np.asarray(self._rows.unit**2 * self._curve.extended(self.squares))

    def deviations(self) -> Array:
        """Return their standard errors, the root of n/(n - 1) Σ w²(e² - m)²."""
        n = self._rows.n_present
        extended = self._curve.extended
        mean = extended(self.squares)  # before the others, which are fetched with it
        variance = extended(self._fourths) - 2 * mean * extended(self._weighted_squares)
        variance += mean**2 * (self._rows.weights @ self._rows.weights)
        # rounding may leave a small negative number where all squares are equal
        return np.asarray(self._rows.unit**2 * np.sqrt(np.maximum(variance, 0) * n / (n - 1)))


def _weighted(weight: Array, values: Array) -> Array:
    """Return the weighted sums over the rows of values, of shape (n_places, n_rows, n_targets)."""
    if values.dtype != np.float32:
        return weight @ values
    # a conversion of all values would take longer than their sum: only sums of a few rows are
    # in single precision
    parts = slices(len(weight), ROWS_IN_SINGLE)
    sums = [weight[part].astype(np.float32) @ values[:, part] for part in parts]
    return np.sum(sums, axis=0, dtype=np.float64)
