"""The problem that a rule solves: data, method and spectrum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, log2, sqrt
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.left_out.first_look import FirstLook
from stoptime.left_out.predictions import LeftOutFits, LeftOutRows
from stoptime.left_out.residuals import LeftOut
from stoptime.left_out.routing import MANY_TARGETS
from stoptime.left_out.rows import Rows
from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data, goals, needed_gain
from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.dense import DenseData
from stoptime.stopping.grid import grid_of
from stoptime.stopping.rule import Choice
from stoptime.support.arrays import Array, Floats

FAINT = 0.01  # shrinkage below which oscillations are left out at a first look
RESOLVED_PHASE = 20.0  # t√s up to which a first look resolves them in any case
FAINTEST = 1e-5  # shrinkage below which oscillations are left out at the latest stops
EXACT_PHASE = 2000.0  # t√L up to which nothing is left out


@dataclass(frozen=True)
class Problem:
    """Data, method and spectrum, for which a rule chooses the stop.

    The ``method`` is as it was given; ``tuned`` is the same method tuned to the spectrum.
    ``groups``, one for each row, are for splitters that keep groups together. With ``verbose``,
    long work shows its progress; no number changes.
    """

    data: Data
    method: Method
    spectrum: Spectrum
    groups: NDArray[np.object_] | None = None
    verbose: bool = False
    _memory: dict[int, tuple[LeftOut, FirstLook]] = field(
        default_factory=dict, repr=False, compare=False
    )

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
        ``spectrum`` is that of the same data, if it has been computed. The options are ``groups``
        and ``verbose``.
        """
        fit_intercept = True if spectrum is None else spectrum.fit_intercept
        data = open_data(X, y, sample_weight, fit_intercept, penalty_matrix=penalty_matrix)
        return cls(data, get_method(method), spectrum or data.complete(), **options)

    def reaching(self, stops: ArrayLike) -> Problem:
        """Return the problem with its spectrum accurate up to the stops."""
        if not np.size(stops):
            return self
        if self.spectrum.is_complete:
            far = self.spectrum.reach
            if np.isinf(far) or needed_gain(self.spectrum, goals(self.tuned, stops)) <= far:
                return self
            return replace(self, spectrum=self.data.complete(goals(self.method, stops)))
        return replace(self, spectrum=self.data.spectrum(goals(self.method, stops)))

    @property
    def has_few_targets(self) -> bool:
        """Whether residuals and standard errors of every target are worth their cost."""
        return self.data.n_targets < MANY_TARGETS

    @property
    def can_leave_out(self) -> bool:
        """Whether exact left-out residuals can be computed."""
        return self.data.has_rows and self.spectrum.is_complete and self.method.has_filter

    @cached_property
    def tuned(self) -> Method:
        """The method tuned to all rows so that it still converges after removing any of them."""
        # without a row the weights add to one again, by which eigenvalues can grow
        weights = self.data.row_weights
        share = 1 / self.spectrum.n_samples
        if weights is not None:
            share = float(np.max(weights) / np.sum(weights))
        scale = 1 / (1 - share) if share < 1 else 1.0
        return self.method.tuned_without_rows(self.spectrum.padded_eigenvalues, scale)

    def visible(self, level: float) -> float:
        """Return the phase t√s beyond which oscillations are below a level; 0 if unknown."""
        if not self.tuned.oscillates:
            return 0.0
        # a response of zeros leaves no residuals
        phase, time = self.tuned.as_flow().visible_until(max(level, FAINTEST**2))
        largest = float(self.spectrum.eigenvalues.max(initial=0))
        phase = min(phase, time * sqrt(largest) if largest else 0.0)
        return phase if isfinite(phase) else 0.0

    def limit(self, stops: Array, level: float, phase: float) -> float:
        """Return the eigenvalue beyond which oscillations may be left out at all these stops.

        They are resolved up to this ``phase`` t√s, and further while they exceed ``level``.
        """
        visible = self.visible(level)
        inner = stops[(stops > 0) & np.isfinite(stops)]
        if not (visible > 0 and inner.size):
            return np.inf
        with np.errstate(over="ignore", under="ignore"):  # stops may be of any size
            time = (self.tuned.pace * inner.min()) ** (self.tuned.order / 2)
            return float((max(visible, phase) / time) ** 2)

    def rough_limit(self, stops: Array, errors: ArrayLike) -> float:
        """Return the limit at stops whose errors, about as large as these, may be rough."""
        # oscillations are parts of the response, and are compared with its residual
        return self.limit(stops, max(FAINT * self.remains(errors), FAINTEST), RESOLVED_PHASE)

    def exact_limit(self, stops: Any, errors: ArrayLike) -> float:
        """Return the limit at stops whose errors, about as large as these, are to be exact."""
        return self.limit(stops, max(FAINTEST * self.remains(errors), FAINTEST**2), EXACT_PHASE)

    def remains(self, errors: ArrayLike) -> float:
        """Return the size of residuals relative to the response, for the least error."""
        # negative scores stand in for errors where a scorer chose the stop
        given: Any = errors  # most often a number, for which NumPy takes far longer
        least = given if isinstance(given, float) else float(np.min(given))
        share = min(max(least, 0.0) / self._power, 1.0)
        # rounded, so that mixtures of ridges that were found for other data serve here too
        return 2.0 ** (round(2 * log2(share)) / 4) if share > 0 else 0.0

    @cached_property
    def _power(self) -> float:
        return float(np.mean(self.spectrum.target_power)) or 1.0

    def left_out_residuals(self, choice: Choice) -> Floats:
        """Return the residual of every row from the fit without it, in the shape of y."""
        stop = np.asarray(choice.stop, np.float64)
        return self.left_out.residuals(self.tuned, stop, self.exact_limit(stop, choice.error))

    def looked_residuals(self, choice: Choice) -> Array | None:
        """Return residuals, (n, n_targets), at a stop that a search has computed or looked at."""
        if np.ndim(choice.stop):
            return None
        places = [place for pair in self._memory.values() for place in pair]
        found = (place.known(self.tuned, float(choice.stop)) for place in places)
        return next((one for one in found if one is not None), None)

    def left_out_rows(self, choice: Choice) -> LeftOutRows:
        """Return residuals and predictions of all rows by the fits without each of them."""
        return LeftOutRows.of(cast("DenseData", self.data), self.left_out_residuals(choice))

    def left_out_fits(self, choice: Choice) -> LeftOutFits:
        """Return the fits without each row, for predictions at new rows."""
        stop = np.asarray(choice.stop, np.float64)
        limit = self.exact_limit(stop, choice.error)
        return LeftOutFits.of(self.left_out.rows, self.tuned, stop, limit)

    @property
    def left_out(self) -> LeftOut:
        """The left-out residuals, which all methods share."""
        return self._remembered[0]

    @property
    def first_look(self) -> FirstLook:
        """Rough left-out errors, of all methods on the same data."""
        return self._remembered[1]

    @property
    def _remembered(self) -> tuple[LeftOut, FirstLook]:
        self.data.check_rows()
        key = id(self.spectrum)
        if key not in self._memory:
            rows = Rows(cast("DenseData", self.data), self.spectrum, remember=True)
            self._memory[key] = LeftOut(rows), FirstLook(rows)
        return self._memory[key]  # at most two: of products of X, and of the SVD


def default_stops(spectrum: Spectrum, method: str | Method, size: int | None = None) -> Array:
    """Return stops from nothing learned to everything learned, dense enough for every oscillation.

    They are 0, where nothing is learned; then stops from where the fastest direction has learned
    one part in a thousand to where the slowest one has a few per cent left; and infinity.
    Neighbours differ by at most 8 %, and by at most an eighth of an oscillation of any direction
    whose oscillations still show. For an iteration they are whole numbers. Where eigenvalues fall
    to rounding without a gap, oscillations are followed for a hundred periods of the fastest
    direction. Where not every eigenvalue is known, the stops end where the spectrum is accurate.

    Parameters
    ----------
    spectrum, method : Spectrum, and Method or str
        The factorised data and the method.
    size : int, optional
        Number of stops: the same range, thinned or filled evenly.
    """
    return grid_of(spectrum, get_method(method), size)
