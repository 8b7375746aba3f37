r"""Real penalties in equal ratios, on which filters that do not oscillate are nearly mixtures.

.. math:: g(s, t) \approx \omega_\infty(t) + \sum_k \omega_k(t)\,\frac{\lambda_k}{\lambda_k + s},
    \qquad \lambda_k = \lambda_0 e^{-k/2}

In log s this is a sum of equal steps. The approximation is good to a few 1e-5 for every such
filter, at every stop, and however small the eigenvalues. One ladder therefore serves a first look
at all smooth methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from stoptime.left_out.mixture import RidgeMixture, in_units
from stoptime.support.arrays import Array

if TYPE_CHECKING:
    from stoptime.methods.base import Method

RUNG = 0.5  # difference of the logarithms of neighbouring penalties
TOP = 4.0  # the first penalty, in units of the largest eigenvalue
BELOW = 0.01  # the last one, in units of the smallest eigenvalue
NODES_PER_RUNG = 4  # eigenvalues at which the weights are fitted
NODES_BELOW = 1e-3  # the smallest of them, in units of the last penalty
DAMPING = 1e-7  # of the fit: without it the weights would be huge
WORST_FIT = 3e-4  # error of a filter that the ladder does not serve


@dataclass(frozen=True)
class Ladder:
    """Penalties from above the ``largest`` eigenvalue down to the last of ``rungs``."""

    largest: float
    rungs: int

    @classmethod
    def over(cls, eigenvalues: Array, scale: float) -> Ladder:
        """Return the ladder for these eigenvalues, which removing a row multiplies by a scale."""
        largest = float(eigenvalues[-1]) * scale
        decay = np.log(TOP * largest) - np.log(BELOW * float(eigenvalues[0]))
        return cls(largest, int(np.ceil(decay / RUNG)) + 1)

    @cached_property
    def penalties(self) -> Array:
        """The penalties; infinity is the last."""
        return np.append(self.largest * _unit_penalties(self.rungs), np.inf)

    def mixture(self, method: Method, stops: Array, scale: float) -> RidgeMixture | None:
        """Return a method as a mixture, or None if its filter is not smooth enough."""
        if method.scale_free:
            weights = _remembered(method, in_units(method, stops, self.largest), self.rungs)
        else:
            weights = _weights(method, stops, self.largest, self.rungs)
        if weights is None:
            return None
        # the eigenvalues without a row are larger by the scale, and so are the penalties
        return RidgeMixture(self.penalties / scale, weights[None], self)


def _weights(method: Method, stops: Array, largest: float, rungs: int) -> Array | None:
    nodes, table, solver = _fit(rungs)
    wanted = method.shrinkage(largest * nodes[:, None], stops)
    weights = solver @ wanted
    return None if np.abs(table @ weights - wanted).max() > WORST_FIT else weights


@lru_cache(maxsize=256)
def _remembered(method: Method, stops: bytes, rungs: int) -> Array | None:
    return _weights(method, np.frombuffer(stops), 1.0, rungs)


def _unit_penalties(rungs: int) -> Array:
    return np.asarray(TOP * np.exp(-RUNG * np.arange(rungs)))


@lru_cache(maxsize=32)
def _fit(rungs: int) -> tuple[Array, Array, Array]:
    """Return eigenvalues in units of the largest, the ridges there, and their pseudo-inverse."""
    penalties = _unit_penalties(rungs)
    first = np.log(NODES_BELOW * penalties[-1])
    nodes = np.append(0.0, np.exp(np.linspace(first, 0, NODES_PER_RUNG * rungs)))
    table = np.column_stack([1 / (1 + nodes[:, None] / penalties), np.ones(len(nodes))])
    left, lengths, right = np.linalg.svd(table, full_matrices=False)
    return nodes, table, (right.T * (lengths / (lengths**2 + DAMPING**2))) @ left.T
