"""What a rule looks at: data, method and spectrum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.left_out.residuals import LeftOut
from stoptime.left_out.routing import MANY_TARGETS
from stoptime.left_out.rows import Rows
from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data, goals
from stoptime.spectrum.decompose import open_data
from stoptime.support.arrays import Array

if TYPE_CHECKING:
    from stoptime.spectrum.dense import DenseData

__all__ = ["Problem", "energies", "shaped"]


def energies(spectrum: Spectrum) -> tuple[Array, Array]:
    """Return the power of every target along each eigenvector, (rank, n_targets), and outside of all."""
    s = spectrum.eigenvalues.astype(np.float64)
    power = np.atleast_1d(spectrum.target_power).astype(np.float64)
    response = spectrum.response.astype(np.float64).reshape(len(s), len(power))
    energy = (response / np.sqrt(s)[:, None]) ** 2
    return energy, np.maximum(power - energy.sum(axis=0), 0)


def shaped(errors: Array, spectrum: Spectrum) -> Array:
    """Return errors (n_stops, n_targets) as y was given: without the second axis where it was a vector."""
    return errors[:, 0] if spectrum.response.ndim == 1 else errors


@dataclass(frozen=True)
class Problem:
    """Data, method and spectrum: what a rule looks at.

    Attributes
    ----------
    data : Data
        The data, which say what can be asked of them.
    method : Method
        As it was given; ``tuned`` is the same method tuned to the spectrum.
    spectrum : Spectrum
        The factorised data.
    groups : array of shape (n,), optional
        For splitters that keep groups together.
    verbose : bool
        Whether long work shows its progress; it changes no number.
    """

    data: Data
    method: Method
    spectrum: Spectrum
    groups: NDArray[np.object_] | None = None
    verbose: bool = False

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        method: str | Method,
        spectrum: Spectrum | None = None,
        sample_weight: ArrayLike | None = None,
        **options: Any,
    ) -> Problem:
        """Return the problem of data as users have them, with an intercept unless the spectrum has none.

        Parameters
        ----------
        X, y, sample_weight
            As of :func:`stoptime.decompose`.
        method : Method or str
            What is to be stopped.
        spectrum : Spectrum, optional
            That of the same data, if it is there already.
        **options
            ``groups`` and ``verbose``.
        """
        fit_intercept = True if spectrum is None else spectrum.fit_intercept
        data = open_data(X, y, sample_weight, fit_intercept)
        return cls(data, get_method(method), spectrum or data.complete(), **options)

    def reaching(self, stops: ArrayLike) -> Problem:
        """Return the problem with its spectrum accurate up to the stops."""
        if self.spectrum.is_complete or not np.size(stops):
            return self
        return replace(self, spectrum=self.data.spectrum(goals(self.method, stops)))

    @property
    def has_few_targets(self) -> bool:
        """Whether residuals and standard errors of every target are worth their price."""
        return self.spectrum.response.ndim == 1 or self.spectrum.response.shape[1] < MANY_TARGETS

    @property
    def can_leave_out(self) -> bool:
        """Whether exact left-out residuals can be had."""
        return self.data.has_rows and self.spectrum.is_complete and self.method.has_filter

    @cached_property
    def tuned(self) -> Method:
        """The method tuned to all rows so that it still converges after removing any of them."""
        return self.method.tuned_without_rows(self.spectrum.padded_eigenvalues, self._scale)

    @cached_property
    def left_out(self) -> LeftOut:
        """The residuals of rows that are left out, for rules that leave rows out."""
        self.data.check_rows()
        rows = Rows(cast("DenseData", self.data), self.spectrum)
        return LeftOut(rows, self.tuned, remember=True)

    @property
    def _scale(self) -> float:
        """By how much eigenvalues can grow when a row is removed and the weights add to one again."""
        weights = self.data.row_weights
        share = 1 / self.spectrum.n_samples
        if weights is not None:
            share = float(np.max(weights) / np.sum(weights))
        return 1 / (1 - share) if share < 1 else 1.0
