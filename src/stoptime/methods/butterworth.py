"""The Butterworth filter: a ridge with a steeper edge, on the way to principal components."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from stoptime.methods.base import Checks, Complex, once_tuned
from stoptime.methods.ridge import SumOfRidges, whole_times
from stoptime.support.arrays import Array


@dataclass(frozen=True)
class Butterworth(SumOfRidges):
    r"""A ridge with a steeper edge: the Butterworth filter of signal processing.

    .. math:: g(s, t) = \frac{1}{1 + (ts)^q}, \qquad \lambda = 1/t

    For q = 1 it is ridge with penalty λ. As q grows it learns every direction with s > λ and no
    other one, as principal component regression does, but it remains smooth in t. It is an average
    of q ridges with complex penalties, so its leave-one-out error is exact. A steep edge suits a
    signal that lies in the leading directions. See Butterworth (1930), On the theory of filter
    amplifiers.

    Parameters
    ----------
    order : int, default=4
        The q above, at most 1000.

    Examples
    --------
    >>> Butterworth(4).shrinkage([0.5, 1.0, 2.0], 1.0).round(4)
    array([0.9412, 0.5   , 0.0588])
    """

    order: int = 4
    name: ClassVar[str] = "butterworth"
    time_power: ClassVar[int] = 1
    stop_meaning: ClassVar[str] = "1/penalty"
    _checks: ClassVar[Checks] = {"order": partial(whole_times, most=1000)}

    def _shrinkage(self, s: Array, t: Array) -> Array:
        return 1 / (1 + (t * s) ** float(self.order))

    def _gain(self, s: Array, t: Array) -> Array:
        # two half powers: the whole power may underflow before it meets a late stop
        half_power = (t * s) ** ((self.order - 1) / 2)
        return np.asarray((t * half_power) * half_power * self._shrinkage(s, t))

    @once_tuned
    def largest_gain(self, stop: Array) -> Array:
        """Return the largest gain over all eigenvalues, which is at (ts)^q = q - 1."""
        q = self.order
        return np.asarray(stop * ((q - 1) ** ((q - 1) / q) / q))

    def ridges(self, stops: Array) -> tuple[Complex, Complex]:
        r"""Return penalties and weights of the ridges whose average is this filter.

        .. math:: \lambda_k = -e^{i\pi(2k+1)/q}/t
        """
        # The poles of g are the q-th roots of -1, divided by t. The upper half of them is enough.
        half = (self.order + 1) // 2
        angles = np.pi * (2 * np.arange(half) + 1) / self.order
        penalties = -np.exp(1j * angles)
        weights = np.full(half, 2 / self.order, np.complex128)
        if self.order % 2:
            # An odd order has one real penalty, that of ridge itself, without a conjugate.
            penalties[-1] = 1.0
            weights[-1] = 1 / self.order
        return penalties[:, None] / stops, np.repeat(weights[:, None], len(stops), axis=1)
