"""What a rule looks at: data, weights, method, spectrum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.backends.matrix_free import Goal, KrylovSpaces
from stoptime.methods import Method
from stoptime.path import goals
from stoptime.spectrum import Floats, Spectrum

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """Data, weights and method: what a rule looks at.

    Attributes
    ----------
    X, y : arrays of shape (n, p) and (n,) or (n, n_targets)
        Validated data.
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
    spaces: KrylovSpaces | None = None

    def reaching(self, stops: ArrayLike) -> Problem:
        """Return the problem with its Krylov space grown to the stops; other spectra reach all of them."""
        return self.growing_to(goals(self.method, stops)) if np.size(stops) else self

    def growing_to(self, wanted: Iterable[Goal]) -> Problem:
        """Return the problem with its Krylov space, if it has one, grown until these paths have converged."""
        return self if self.spaces is None else replace(self, spectrum=self.spaces.spectrum(wanted))

    @cached_property
    def tuned(self) -> Method:
        """The method, tuned to the spectrum of all rows, with room for any of them to be left out."""
        return self.method.tuned_without_rows(self.spectrum.padded_eigenvalues, self._scale)

    @property
    def _scale(self) -> float:
        """By how much eigenvalues can grow when a row is left out and the weights add to one again."""
        weights = np.ones(self.X.shape[0]) if self.sample_weight is None else self.sample_weight
        share = float(np.max(weights) / np.sum(weights))
        return 1 / (1 - share) if share < 1 else 1.0
