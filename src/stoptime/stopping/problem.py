"""What a rule looks at: data, weights, method, spectrum."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.left_out.residuals import LeftOut
from stoptime.left_out.routing import MANY_TARGETS
from stoptime.left_out.rows import Rows
from stoptime.methods.base import Method
from stoptime.paths import goals
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.krylov.spaces import Goal, KrylovSpaces
from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.support.arrays import Array, Floats

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
    """Data, weights and method: what a rule looks at.

    Attributes
    ----------
    X, y : arrays of shape (n, p) and (n,) or (n, n_targets)
        Validated data; of no rows where rows are not kept.
    method : Method
        As it was given; ``tuned`` is the same method tuned to the spectrum.
    spectrum : Spectrum
        The factorised data.
    sample_weight : array of shape (n,), optional
        As it was given.
    groups : array of shape (n,), optional
        For splitters that keep groups together.
    verbose : bool
        Whether long work shows its progress; it changes no number.
    parts : dict of Statistics, optional
        Statistics of every fold, where rows are not kept.
    new_rows : callable, optional
        Where X is a kernel matrix, what gives the kernel between new rows and those of the training set.
    spaces : KrylovSpaces, optional
        What the spectrum is from, where it can still grow.
    """

    X: Floats
    y: Floats
    method: Method
    spectrum: Spectrum
    sample_weight: Floats | None = None
    groups: NDArray[np.object_] | None = None
    verbose: bool = False
    parts: dict[int, Statistics] | None = None
    new_rows: Callable[[ArrayLike], Floats] | None = None
    spaces: KrylovSpaces | None = None

    def reaching(self, stops: ArrayLike) -> Problem:
        """Return the problem with its Krylov space grown to the stops; other spectra reach all of them."""
        return self.growing_to(goals(self.method, stops)) if np.size(stops) else self

    def growing_to(self, wanted: Iterable[Goal]) -> Problem:
        """Return the problem with its Krylov space, if it has one, grown until these paths have converged."""
        return self if self.spaces is None else replace(self, spectrum=self.spaces.spectrum(wanted))

    @property
    def has_few_targets(self) -> bool:
        """Whether residuals and standard errors of every target are worth their price."""
        return self.y.ndim == 1 or self.y.shape[1] < MANY_TARGETS

    @cached_property
    def tuned(self) -> Method:
        """The method, tuned to the spectrum of all rows, with room for any of them to be left out."""
        return self.method.tuned_without_rows(self.spectrum.padded_eigenvalues, self._scale)

    @cached_property
    def left_out(self) -> LeftOut:
        """The residuals of rows that are left out, for rules that do so."""
        rows = Rows.validated(self.X, self.y, self.sample_weight, self.spectrum)
        return LeftOut(rows, self.tuned, remember=True)

    @property
    def _scale(self) -> float:
        """By how much eigenvalues can grow when a row is left out and the weights add to one again."""
        share = 1 / self.spectrum.n_samples
        if self.sample_weight is not None:
            share = float(np.max(self.sample_weight) / np.sum(self.sample_weight))
        return 1 / (1 - share) if share < 1 else 1.0
