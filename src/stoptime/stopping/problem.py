"""The problem that a rule solves: data, method and spectrum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.left_out.predictions import Fingerprint, LeftOutFits, LeftOutRows
from stoptime.left_out.residuals import LeftOut
from stoptime.left_out.rows import Rows
from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.recurrence import tuned_without_rows
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data, Want, rows_of
from stoptime.spectrum.decompose import open_data
from stoptime.stopping.grid import grid_of
from stoptime.stopping.rule import Choice
from stoptime.support.arrays import Array, Floats


@dataclass(frozen=True)
class Problem:
    """Data, method and spectrum, for which a rule chooses the stop.

    The ``method`` is as it was given; ``tuned`` is the same method tuned to the spectrum.
    ``groups``, one for each row, are for splitters that keep groups together.
    """

    data: Data
    method: Method
    spectrum: Spectrum
    groups: NDArray[np.object_] | None = None
    _newest: list[LeftOut] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        method: str | Method,
        spectrum: Spectrum | None = None,
        sample_weight: ArrayLike | None = None,
        penalty_matrix: Any = None,
        **options: Any,
    ) -> Problem:
        """Return the problem of X and y, with an intercept unless the spectrum has none.

        X, y, sample_weight and penalty_matrix are those of :func:`stoptime.decompose`, and
        ``spectrum`` is that of the same data, if it has been computed. The option is ``groups``.
        """
        fit_intercept = True if spectrum is None else spectrum.fit_intercept
        data = open_data(X, y, sample_weight, fit_intercept, penalty_matrix=penalty_matrix)
        return cls(data, get_method(method), spectrum or data.spectrum(Want(every=True)), **options)

    def reaching(self, stops: ArrayLike) -> Problem:
        """Return the problem with its spectrum accurate up to the stops."""
        if not np.size(stops):
            return self
        far = self.spectrum.accuracy.gain
        want = Want.path(self.method, stops, trace=self.spectrum.density is not None)
        if self.spectrum.accuracy.complete:
            if np.isinf(far) or Want.path(self.tuned, stops).gain_for(self.spectrum) <= far:
                return self
            want = replace(want, every=True)
        return replace(self, spectrum=self.data.spectrum(want))

    @property
    def can_leave_out(self) -> bool:
        """Whether exact left-out residuals can be computed."""
        readable = self.data.rows is not None and self.spectrum.accuracy.complete
        return readable and isinstance(self.method, Filter)

    @cached_property
    def tuned(self) -> Method:
        """The method tuned to all rows so that it still converges after removing any of them."""
        # without a row the weights add to one again, by which eigenvalues can grow
        weights = None if self.data.rows is None else self.data.rows.row_weights
        share = 1 / self.spectrum.n_samples
        if weights is not None:
            share = float(np.max(weights) / np.sum(weights))
        scale = 1 / (1 - share) if share < 1 else 1.0
        return tuned_without_rows(self.method, self.spectrum.padded_eigenvalues, scale)

    @cached_property
    def filter(self) -> Filter:
        """The tuned method, if it has a filter; otherwise a ValueError says what works."""
        return as_filter(self.tuned)

    def left_out_residuals(self, choice: Choice) -> Floats:
        """Return the residual of every row from the fit without it, in the shape of y."""
        return self.left_out.residuals(self.filter, np.asarray(choice.stop, np.float64))

    def left_out_rows(self, choice: Choice) -> LeftOutRows:
        """Return residuals and predictions of all rows by the fits without each of them."""
        return LeftOutRows.of(rows_of(self.data), self.left_out_residuals(choice))

    def left_out_fits(self, choice: Choice, unchanged: Fingerprint | None = None) -> LeftOutFits:
        """Return the fits without each row, for predictions at new rows."""
        stop = np.asarray(choice.stop, np.float64)
        return LeftOutFits.of(self.left_out.rows, self.filter, stop, unchanged)

    @property
    def left_out(self) -> LeftOut:
        """The left-out residuals, which all methods on the same spectrum share."""
        if not (self._newest and self._newest[0].rows.spectrum is self.spectrum):
            # a spectrum with more digits replaces the one before
            self._newest[:] = [LeftOut(Rows(rows_of(self.data), self.spectrum))]
        return self._newest[0]


def default_stops(spectrum: Spectrum, method: str | Method, size: int | None = None) -> Array:
    """Return stops from nothing learned to everything learned, dense enough for every oscillation.

    They are 0; then stops from where the fastest direction has learned at most one part in a
    hundred to where the slowest has a few per cent left; and infinity. Gains of neighbours differ
    by at most 20 %; stops of methods that oscillate by at most 8 %, and an eighth of an oscillation
    that still shows. Iterations have whole numbers. Where not every eigenvalue is known, the stops
    end where the spectrum is accurate.

    Parameters
    ----------
    spectrum, method : Spectrum, and Method or str
        The factorised data and the method.
    size : int, optional
        Number of stops: the same range, thinned or filled evenly.
    """
    return grid_of(spectrum, get_method(method), size)
