"""Estimated errors at many stops, and their standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoptime.support.arrays import Floats

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
        if self.errors.ndim == 1:
            return self
        # targets share their rows, so their errors are correlated: standard errors are averaged too
        deviation = None if self.standard_errors is None else self.standard_errors.mean(axis=1)
        return ErrorCurve(self.stops, self.errors.mean(axis=1), deviation, self.exact)

    def __repr__(self) -> str:
        targets = "" if self.errors.ndim == 1 else f", {self.errors.shape[1]} targets"
        return f"ErrorCurve({len(self.stops)} stops{targets}, least error {self.errors.min():.4g})"

    def __getitem__(self, places: slice) -> ErrorCurve:
        """Return a part of the curve."""
        spread = None if self.standard_errors is None else self.standard_errors[places]
        return ErrorCurve(self.stops[places], self.errors[places], spread, self.exact[places])

    @classmethod
    def of_parts(cls, parts: Sequence[ErrorCurve]) -> ErrorCurve:
        """Return ascending curves, none of which overlap, as one."""
        stops, errors, exact = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("stops", "errors", "exact")
        )
        spread: list[Any] = [part.standard_errors for part in parts]
        known = all(one is not None for one in spread)
        return cls(stops, errors, np.concatenate(spread) if known else None, exact)

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
