r"""Imaginary penalties in equal ratios, of whose ridges every smooth filter is a mixture.

.. math:: g(s, t) = \omega_\infty(t) + \mathrm{Re}\sum_k \omega_k(t)\,\frac{\lambda_k}{\lambda_k+s},
    \qquad \lambda_k = i\,\lambda_0 e^{-0.35k}

The weights are fitted by least squares at eigenvalues between zero and the largest. On the
imaginary axis this fit is stable: its weights stay below one, and its error is about 1e-11 for
every filter that is analytic to the right of the axis, at every stop. On the real axis weights of a
thousand would be needed, and the error would be 4e-6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import EPS, Array

RUNG = 0.35  # difference of the logarithms of neighbouring penalties: it sets the error above
TOP = 10.0  # the first penalty, in units of the largest eigenvalue
NODES_PER_RUNG = 4  # eigenvalues at which the weights are fitted
BELOW = 0.1  # the smallest of them, in units of the last penalty
DAMPING = 1e-14  # of the fit, relative to its largest singular value


@dataclass(frozen=True)
class Ladder:
    """Penalties from above the ``largest`` eigenvalue down to the last of ``rungs``."""

    largest: float
    rungs: int

    @classmethod
    def down_to(cls, smallest: float, largest: float) -> Ladder:
        """Return the ladder whose last penalty is at most the smallest, in absolute value."""
        return cls(largest, int(np.ceil(np.log(TOP * largest / smallest) / RUNG)) + 1)

    @property
    def last(self) -> float:
        """The last penalty, in units of the largest eigenvalue."""
        return float(TOP * np.exp(-RUNG * (self.rungs - 1)))

    @cached_property
    def penalties(self) -> NDArray[np.complex128]:
        """The λ; their conjugates are left out."""
        return self.largest * _factored(self.rungs).penalties

    @cached_property
    def nodes(self) -> Array:
        """The eigenvalues at which filters have to be known."""
        return self.largest * _factored(self.rungs).nodes

    def weights(self, values: Array) -> Array:
        """Return weights of filters with these values at the nodes; see :class:`Span`."""
        fit = _factored(self.rungs)
        # factor by factor, because their product, a pseudo-inverse, would lose seven digits
        return np.asarray(fit.right.T @ (fit.inverse[:, None] * (fit.left.T @ values)))

    def misfit(self, values: Array) -> Array:
        """Return the largest error at the nodes of each of these filters as a mixture."""
        weights = self.weights(values)
        error = np.abs(_factored(self.rungs).table @ weights - values).max(axis=0)
        # large weights multiply the rounding errors of the ridges
        return np.asarray(error + EPS * np.abs(weights).sum(axis=0))


@dataclass(frozen=True, eq=False)
class _Factors:
    """The ladder for a largest eigenvalue of one, and the factors of the fit of its weights."""

    penalties: NDArray[np.complex128]
    nodes: Array
    table: Array
    left: Array
    inverse: Array
    right: Array


@lru_cache(maxsize=64)
def _factored(rungs: int) -> _Factors:
    penalties = 1j * TOP * np.exp(-RUNG * np.arange(rungs))
    lowest = np.log(BELOW * np.abs(penalties[-1]))
    # half a rung beyond the largest eigenvalue, because a fit is least accurate at its ends
    logs = np.arange(RUNG / 2, lowest, -RUNG / NODES_PER_RUNG)
    nodes = np.append(0.0, np.exp(logs)[::-1])
    ridges = 1 / (1 + nodes[:, None] / penalties)
    table = np.column_stack([ridges.real, ridges.imag, np.ones(len(nodes))])
    left, lengths, right = np.linalg.svd(table, full_matrices=False)
    inverse = lengths / (lengths**2 + (DAMPING * lengths[0]) ** 2)
    return _Factors(penalties, nodes, table, left, inverse, right)
