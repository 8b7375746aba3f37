r"""Complex penalties on an ellipse around the eigenvalues, for filters that oscillate.

.. math:: g(s) = \frac1{2\pi i}\oint\frac{g(\zeta)}{\zeta - s}\,d\zeta
    \approx \mathrm{Re}\sum_k\omega_k\,\frac{\lambda_k}{\lambda_k + s},
    \qquad \lambda_k = L\sinh^2(w_k/2)

The filter is expanded in Chebyshev polynomials of x = 1 - 2s/L from its values at eigenvalues in
[0, L]. The polynomials give its values on the ellipse, and there the trapezoidal rule converges
exponentially.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from stoptime.support.arrays import Array

FIRST_DEGREE = 32  # of the expansion; it is doubled until the coefficients have fallen to rounding
RESOLVED = 1e-13  # size of Chebyshev coefficients that are left out
ALIASING = 28.0  # minus the logarithm of the trapezoidal rule's error, exp(-28) = 7e-13
LARGEST_WEIGHT = 1e6  # of the highest polynomial; those of filters stay far below it
STEEP = 0.5  # a shrinkage below it at the smallest node hides a drop that is not resolved


@dataclass(frozen=True)
class Ellipse:
    """Penalties around [0, ``largest``] for polynomials of less than this ``degree``."""

    largest: float
    degree: int
    count: int
    """Number of Chebyshev nodes, which may be larger than the degree."""

    @classmethod
    def resolving(
        cls, filters: Callable[[Array], Array], largest: float, most: float
    ) -> Ellipse | None:
        """Return the ellipse for filters given as a function of s, or None beyond ``most``."""
        count = FIRST_DEGREE
        while count <= max(most, FIRST_DEGREE):
            values = filters(_nodes(count) * largest)
            sizes = np.abs(dct(values, axis=0) / count).max(axis=1)
            degree = int(np.max(np.flatnonzero(sizes > RESOLVED), initial=0)) + 1
            # coefficients must have fallen before the end, and g, which is one at s = 0, must not
            # have fallen before the first node
            if degree <= count * 7 // 8 and values[0].min() > STEEP:
                return cls(largest, degree, count)
            count *= 2
        return None

    @property
    def nodes(self) -> Array:
        """The eigenvalues at which filters have to be known."""
        return self.largest * _nodes(self.count)

    @cached_property
    def _points(self) -> int:
        """Number of points on the ellipse, conjugates included."""
        # a wide ellipse has little aliasing and large weights, by the factor exp(a·degree): this
        # is the widest one whose weights stay below their limit
        width = np.log(LARGEST_WEIGHT) / self.degree
        return 2 * int(np.ceil(max(ALIASING / width, self.degree + 1) / 2))

    @property
    def _half_w(self) -> NDArray[np.complex128]:
        """Half of w, where cosh w are the points in x, at odd angles: none is on the real axis."""
        angles = (2 * np.arange(self._points // 2) + 1) * (1j * np.pi / self._points)
        return np.asarray((ALIASING / self._points + angles) / 2)

    @cached_property
    def penalties(self) -> NDArray[np.complex128]:
        """The λ; their conjugates are left out."""
        return np.asarray(self.largest * np.sinh(self._half_w) ** 2)

    def weights(self, values: Array) -> Array:
        """Return weights of filters with these values at the nodes; see :class:`Span`."""
        coefficients = (dct(values, axis=0) / self.count)[: self.degree].T
        coefficients[:, 0] /= 2
        # T_m(cosh w) = (exp(mw) + exp(-mw))/2 at odd angles: two Fourier transforms
        degrees = np.arange(self.degree)
        half_turn = 1j * np.pi / self._points
        radius = ALIASING / self._points
        outer = coefficients * np.exp((half_turn + radius) * degrees)
        inner = coefficients * np.exp((half_turn - radius) * degrees)
        waves = np.fft.ifft(np.stack([outer, inner]), n=self._points, axis=-1)
        waves = waves[..., : self._points // 2]
        # twice the half of the ellipse, because the other half is the conjugate
        found = ((waves[0] + waves[1].conj()) / np.tanh(self._half_w)).T
        return np.concatenate([found.real, -found.imag, np.zeros((1, found.shape[1]))])


def _nodes(count: int) -> Array:
    """Return Chebyshev nodes of [0, 1] as squared sines, so that small ones keep their digits."""
    return np.asarray(np.sin(np.pi * (np.arange(count) + 0.5) / (2 * count)) ** 2)
