r"""Functions of the scale of a row, interpolated between a few scales.

Without row i the eigenvalues are those of c(S - ρaaᵀ) with c = 1/(1 - π), as in
:mod:`stoptime.left_out.rows`. So a row sees a filter on a time scale of its own, which its weight
determines: g(cs, t).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.fft import dct
from scipy.interpolate import BarycentricInterpolator

from stoptime.support.arrays import Array, on_host


@dataclass(frozen=True, eq=False)
class Scales:
    """Scales of rows at which functions of the scale are computed, to be interpolated between.

    Some heavy rows have scales of their ``own``, where functions are exact. Those of all other rows
    are between Chebyshev ``nodes``.
    """

    own: Array
    nodes: Array

    @classmethod
    def of(
        cls, function: Callable[[Array], Array], scales: Array, most: float = 64
    ) -> Scales | None:
        """Return scales from which this function is known for rows of all given scales.

        It is a function of several scales at once, which are the first axis of its result.

        None if a polynomial with at ``most`` so many nodes, or 16, cannot follow it. That takes
        oscillations so late that small differences between the scales of light rows turn them.
        """
        # rows of equal weights have one scale
        distinct = scales if len(scales) == 1 else np.unique(scales)
        for count in (8, 16, 32, 64):
            if count > max(most, 16):
                break
            if len(distinct) <= 2 * count:
                return cls(distinct, np.empty(0))
            # a function that is not that simple is made simpler by the heaviest rows: without 16 of
            # them, no row has more than 1/17 of the weight
            light = distinct if count == 8 else distinct[:-16]
            nodes = light[0] + (light[-1] - light[0]) * chebyshev(count)
            sizes = np.abs(dct(function(nodes), axis=0)).reshape(count, -1).max(axis=1)
            # the last Chebyshev coefficients have fallen: a polynomial holds between the nodes
            if sizes[-2:].max() <= 1e-11 * sizes.max():
                return cls(distinct[len(light) :], nodes)
        return None

    @cached_property
    def all(self) -> Array:
        """All scales at which the function is computed, ascending."""
        return np.append(self.nodes, self.own)

    def portions(self, scale: Any) -> Array:
        """Return the portion of every computed value in that of each row, (n_rows, n_scales)."""
        scale = on_host(scale)
        own = scale[:, None] == self.own
        if not len(self.nodes):
            return own.astype(np.float64)
        # a polynomial would overflow at the scale of a row that is heavier by far
        is_light = ~own.any(axis=1)
        inside = np.where(is_light, scale, self.nodes[0])
        count = len(self.nodes)
        # these weights are known: SciPy would compute them in random order, and with other digits
        weights = np.sin(np.pi * (np.arange(count) + 0.5) / count) * (-1.0) ** np.arange(count)
        between = BarycentricInterpolator(self.nodes, np.eye(count), wi=weights)(inside)
        return np.column_stack([between * is_light[:, None], own])


@dataclass(frozen=True, eq=False)
class Mix:
    """Coordinates of a method at some stops in columns of residuals, for rows of all scales.

    They are those at a few ``scales``, (n_scales, n_columns, n_stops), and interpolated between.
    """

    scales: Scales
    coordinates: Array

    @classmethod
    def of(cls, coordinates: Callable[[Array], Array], scales: Array) -> Mix | None:
        """Return the coordinates, which are a function of the scale, for rows of these scales."""
        found = Scales.of(coordinates, scales)
        return None if found is None else cls(found, coordinates(found.all))

    def of_rows(self, scale: Any) -> Array:
        """Return the coordinates for rows of these scales, (n_rows or 1, n_columns, n_stops)."""
        if len(self.coordinates) == 1:
            return self.coordinates
        return np.asarray(np.tensordot(self.scales.portions(scale), self.coordinates, axes=1))


def chebyshev(count: int) -> Array:
    """Return Chebyshev nodes of [0, 1] as squared sines, so that small ones keep their digits."""
    return np.asarray(np.sin(np.pi * (np.arange(count) + 0.5) / (2 * count)) ** 2)
