"""Spectral cut-off, also known as principal component regression: a filter that counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.base import Filter, concrete
from stoptime.support.arrays import Array
from stoptime.support.checks import iteration_numbers, nonnegative


@dataclass(frozen=True)
class SpectralCutoff(Filter):
    r"""Principal component regression: least squares on the k leading components.

    .. math:: g(s, k) = \begin{cases} 0 & \text{if } s \text{ is among the } k
        \text{ largest eigenvalues}\\ 1 & \text{otherwise} \end{cases}

    The stop is the number of components, from 0 to the rank. Where only j of m equal eigenvalues
    would enter, each of their directions gets the share j/m, so that the fit does not depend on the
    basis of their eigenspace. With the components whose eigenvalue exceeds the best ridge penalty,
    the Bayes risk is at most twice that of the best ridge. See Massy (1965), Principal components
    regression in exploratory statistical research.

    Parameters
    ----------
    eigenvalues : tuple of float or "auto", default="auto"
        The eigenvalues that are counted; "auto" are those of the data, or of each fold.

    Examples
    --------
    >>> cutoff = SpectralCutoff().tuned_to([0.5, 2.0, 2.0, 4.0])
    >>> cutoff.shrinkage([4.0, 2.0, 0.5], 2)
    array([0. , 0.5, 1. ])
    """

    eigenvalues: tuple[float, ...] | str = field(default="auto", repr=False)
    name: ClassVar[str] = "spectral-cutoff"
    time_power: ClassVar[int] = 1
    whole_stops: ClassVar[bool] = True
    oscillates: ClassVar[bool] = False
    stop_meaning: ClassVar[str] = "components"
    universal_guarantee: ClassVar[bool] = True
    """Learn the directions with s > λ: the excess over ridge is λ/s in these, and s/λ in others."""

    @property
    def counted(self) -> Array:
        """The positive eigenvalues that are counted, in ascending order."""
        return np.array(concrete("eigenvalues", self.eigenvalues))

    def tuned_to(self, eigenvalues: ArrayLike) -> Self:
        """Return the method that counts these eigenvalues, in place of any others."""
        s = np.sort(nonnegative("eigenvalues", eigenvalues), axis=None)
        return replace(self, eigenvalues=tuple(s[s > 0].tolist()))

    def in_units_of(self, penalty: float) -> Self:
        """Return the method for eigenvalues divided by ``penalty``; stops stay the same."""
        return replace(self, eigenvalues=tuple((self.counted / penalty).tolist()))

    def _largest_gain(self, t: Array) -> Array:
        # 1/s for every component, however small its eigenvalue
        return np.where(t > 0, np.inf, 0.0)

    def _shrinkage(self, s: Array, t: Array) -> Array:
        counted = self.counted
        tied = 1e-9  # relative difference below which eigenvalues count as equal
        larger = len(counted) - np.searchsorted(counted, s * (1 + tied), side="right")
        equal = len(counted) - np.searchsorted(counted, s * (1 - tied)) - larger
        # no stop learns more directions than there are: a null direction is never among them
        entered = np.minimum(iteration_numbers(t), len(counted)) - larger
        return np.asarray(1 - np.clip(entered / np.maximum(equal, 1), 0.0, 1.0))

    def _gain(self, s: Array, t: Array) -> Array:
        return (1 - self._shrinkage(s, t)) / np.where(s > 0, s, 1.0)
