"""Estimated errors at many stops, and their standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stoptime.support.arrays import Floats, array_namespace, on_host


@dataclass(frozen=True, repr=False)
class ErrorCurve:
    """Estimated mean squared prediction error at many stops.

    ``errors`` has shape (n_stops,) or (n_stops, n_targets), and so have ``standard_errors``, which
    are None where they were not asked for or the rule estimates none.
    """

    stops: Floats
    errors: Floats
    standard_errors: Floats | None = None

    def pooled(self) -> ErrorCurve:
        """Return the curve of the mean over targets."""
        return self if self.errors.ndim == 1 else self._pooled

    @cached_property
    def _pooled(self) -> ErrorCurve:
        # targets share their rows, so their errors are correlated: standard errors are averaged too
        deviation = None if self.standard_errors is None else self.standard_errors.mean(axis=1)
        return ErrorCurve(self.stops, self.errors.mean(axis=1), deviation)

    def __repr__(self) -> str:
        targets = "" if self.errors.ndim == 1 else f", {self.errors.shape[1]} targets"
        return f"ErrorCurve({len(self.stops)} stops{targets}, least error {self.errors.min():.4g})"

    def joined(self, other: ErrorCurve) -> ErrorCurve:
        """Return both curves as one; where both have a stop, the other one's error is kept."""
        stops, order = np.unique(np.concatenate([other.stops, self.stops]), return_index=True)
        deviation = None
        if self.standard_errors is not None and other.standard_errors is not None:
            deviation = np.concatenate([other.standard_errors, self.standard_errors])[order]
        return ErrorCurve(stops, np.concatenate([other.errors, self.errors])[order], deviation)


def standard_error(values: Any) -> Floats:
    """Return the standard error of the mean over the first axis, on the host."""
    xp = array_namespace(values)
    # in units of the largest value, so that squares of squared errors do not overflow
    largest = xp.max(xp.abs(values), axis=0)
    unit = xp.where((largest > 0) & xp.isfinite(largest), largest, 1.0)
    spread = xp.std(values / unit, axis=0, correction=1.0)
    return np.asarray(on_host(unit * spread)) / np.sqrt(values.shape[0])
