r"""Complex penalties whose ridges mix to the filter of a method, and a basis of filters.

.. math:: g(s, t) = \mathrm{Re}\sum_k \omega_k(t)\,\frac{\lambda_k}{\lambda_k+s}

A smooth filter takes a ladder of imaginary penalties and an infinite one, and a filter that
oscillates an ellipse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.fft import dct

from stoptime.left_out.scales import Scales, chebyshev
from stoptime.methods.base import Filter
from stoptime.methods.recurrence import Iteration
from stoptime.support.arrays import EPS, Array

RUNG = 0.4  # difference of the logarithms of neighbouring penalties of a ladder
TOP = 10.0  # its first penalty, in units of the largest eigenvalue
UNLEARNED = 5e-5  # what is learned at its last penalty: below it, g is one
SERVED = 1e-10  # error of a filter as a mixture up to which the ladder is used
NEGLIGIBLE = 1e-9  # size of the part of all filters along a basis filter that is left out
SPANNED = 1e-9  # distance from a span up to which a filter is in it
ALIASING = 28.0  # minus the logarithm of the error of an ellipse, exp(-28) = 7e-13
MOST_PENALTIES = 2**16  # of an ellipse


@dataclass(frozen=True)
class Ladder:
    r"""Imaginary penalties in equal ratios, :math:`i\lambda_0e^{-0.4k}`, for smooth filters.

    The weights are fitted by least squares at eigenvalues between zero and the ``largest``. On the
    imaginary axis this fit is stable: its weights stay below one, and its error is about 2e-11 for
    every filter that is analytic to the right of the axis, at every stop. On the real axis weights
    of a thousand would be needed, and the error would be 4e-6.
    """

    largest: float
    rungs: int

    @classmethod
    def down_to(cls, smallest: float, largest: float) -> Ladder:
        """Return the ladder whose last penalty is at most the smallest, in absolute value."""
        return cls(largest, int(np.ceil(np.log(TOP * largest / smallest) / RUNG)) + 1)

    @classmethod
    def of(cls, method: Filter, last: float, scale: float, largest: float) -> Ladder:
        """Return the ladder down to where nothing is learned at the last stop."""
        gain = scale * float(method.gain(0.0, last))
        # so late that the ladder would have hundreds of rungs, it does not serve any more
        smallest = np.clip(UNLEARNED / max(gain, UNLEARNED / largest), 1e-40 * largest, largest)
        return cls.down_to(float(smallest), largest)

    @cached_property
    def penalties(self) -> NDArray[np.complex128]:
        """The λ; their conjugates are left out."""
        # the last one is infinite in double precision: its ridge learns nothing
        return np.append(self.largest * _factored(self.rungs).penalties, 2.0**60 * self.largest)

    @cached_property
    def nodes(self) -> Array:
        """The eigenvalues at which filters have to be known."""
        return self.largest * _factored(self.rungs).nodes

    def weights(self, values: Array) -> Array:
        """Return weights of filters with these values at the nodes; see :class:`Span`."""
        fit = _factored(self.rungs)
        # factor by factor, because their product, a pseudo-inverse, would lose seven digits
        real = fit.right.T @ (fit.inverse[:, None] * (fit.left.T @ values))
        return np.concatenate([real, np.zeros((1, values.shape[1]))])

    def serves(self, values: Array) -> bool:
        """Tell whether filters with these values at the nodes are mixtures of the ridges."""
        weights = self.weights(values)
        error = np.abs(_factored(self.rungs).table @ weights[:-1] - values).max(axis=0)
        # large weights multiply the rounding errors of the ridges
        return bool((error + EPS * np.abs(weights).sum(axis=0)).max() < SERVED)


class _Factors(NamedTuple):
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
    lowest = np.log(0.1 * np.abs(penalties[-1]))
    # four nodes a rung, and half a rung beyond the largest eigenvalue, because a fit is least
    # accurate at its ends
    logs = np.arange(RUNG / 2, lowest, -RUNG / 4)
    nodes = np.append(0.0, np.exp(logs)[::-1])
    ridges = 1 / (1 + nodes[:, None] / penalties)
    table = np.column_stack([ridges.view(np.float64), np.ones(len(nodes))])
    left, lengths, right = np.linalg.svd(table, full_matrices=False)
    # damped, so that directions lost in rounding have no weight
    inverse = lengths / (lengths**2 + (1e-12 * lengths[0]) ** 2)
    return _Factors(penalties, nodes, table, left, inverse, right)


@dataclass(frozen=True)
class Ellipse:
    r"""Penalties :math:`L\sinh^2(w_k/2)` around [0, L], for filters that oscillate.

    .. math:: g(s) = \frac1{2\pi i}\oint\frac{g(\zeta)}{\zeta - s}\,d\zeta

    Filters are expanded in Chebyshev polynomials, of less than this ``degree``, of x = 1 - 2s/L
    from their values at ``count`` nodes. The polynomials give their values on the ellipse, and
    there the trapezoidal rule converges exponentially.
    """

    largest: float
    degree: int
    count: int

    @classmethod
    def resolving(
        cls, filters: Callable[[Array], Array], largest: float, most: float
    ) -> Ellipse | None:
        """Return the ellipse for filters given as a function of s, or None beyond ``most``."""
        count = 32
        while count <= max(most, 32):
            values = filters(chebyshev(count) * largest)
            sizes = np.abs(dct(values, axis=0) / count).max(axis=1)
            degree = int(np.max(np.flatnonzero(sizes > 1e-13), initial=0)) + 1
            # coefficients must have fallen to rounding before the end, and g, which is one at
            # s = 0, must not have fallen before the first node
            if degree <= count * 7 // 8 and values[0].min() > 0.5:
                return cls(largest, degree, count)
            count *= 2
        return None

    @property
    def nodes(self) -> Array:
        """The eigenvalues at which filters have to be known."""
        return self.largest * chebyshev(self.count)

    @cached_property
    def _points(self) -> int:
        """Number of points on the ellipse, conjugates included."""
        # a wide ellipse has little aliasing and large weights, by the factor exp(a·degree): this
        # is the widest one whose weights stay below a million
        width = np.log(1e6) / self.degree
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
        found = np.ascontiguousarray((waves[0].conj() + waves[1]) / np.tanh(self._half_w).conj())
        return np.asarray(found.view(np.float64).T)


Contour = Ladder | Ellipse


def values_at(contour: Contour, method: Filter, stops: Array, scales: Array) -> Array:
    """Return g(cs, t) at the nodes of a contour; see :func:`filter_values`."""
    return filter_values(method, contour.nodes, stops, scales)


def filter_values(method: Filter, nodes: Array, stops: Array, scales: Array) -> Array:
    """Return g(cs, t) for c in scales, s in nodes and t in stops between the ends of a path."""
    # in one call, because an iteration takes all steps again in every call
    s = np.multiply.outer(scales, nodes).reshape(-1, 1)
    if np.isinf(stops).any():  # the limit of a path that ends before least squares
        found = method.shrinkage(s, stops)
    else:
        # nodes and stops are finite, and need no further check
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            found = np.asarray(method._shrinkage(s, stops))
    return found.reshape(len(scales), len(nodes), len(stops))


class Served(NamedTuple):
    """A contour that serves a method at some stops, and the scales of rows at which it is asked."""

    contour: Contour
    scales: Scales


def ladder_for(method: Filter, stops: Array, scales: Array, largest: float) -> Served | None:
    """Return the ladder of whose ridges the filters at all stops are mixtures, if there is one."""
    scale = float(scales.max())
    ladder = Ladder.of(method, stops.max(), scale, largest)
    # the last node lies beyond the largest eigenvalue, where an iteration may diverge
    if isinstance(method, Iteration) and scale * ladder.nodes[-1] >= method.largest_eigenvalue:
        return None
    if not ladder.serves(values_at(ladder, method, stops, np.array([scale]))[0]):
        return None
    return _served(ladder, method, stops, scales, 64)


def contour_for(method: Filter, stops: Array, scales: Array, eigenvalues: Array) -> Served | None:
    """Return the ladder or the ellipse for a method at these stops, or None if both are refused.

    They are refused where the eigenvalues without each row take less work.
    """
    largest = float(eigenvalues[-1])
    found = ladder_for(method, stops, scales, largest)
    if found is not None:
        return found
    rank = len(eigenvalues)
    scale = float(scales.max())
    # an eigendecomposition of every row takes about as much work as 3·rank² penalties
    ellipse = Ellipse.resolving(
        lambda nodes: np.asarray(method.shrinkage(scale * nodes[:, None], stops)),
        largest,
        min(3.0 * rank**2, MOST_PENALTIES),
    )
    if ellipse is None:
        return None
    # and as many values of the filter as there are rows and directions
    return _served(ellipse, method, stops, scales, len(scales) * rank / ellipse.count)


def _served(
    contour: Contour, method: Filter, stops: Array, scales: Array, most: float
) -> Served | None:
    # a few stops tell how fast the filters change with the scale of a row
    few = np.unique(np.linspace(0, len(stops) - 1, 16).astype(int))
    found = Scales.of(partial(values_at, contour, method, stops[few]), scales, most)
    return None if found is None else Served(contour, found)


@dataclass(frozen=True, eq=False)
class Span:
    r"""A few basis filters, at the nodes of a contour, that span filters of many stops.

    .. math:: g(s, t) = \sum_j c_j(t)\,u_j(s), \qquad c_j(t) = \langle u_j, g(\cdot, t)\rangle

    ``weights`` mix ridges to basis filters: they have a row for the real part of every ridge
    λ/(λ + s), followed by one for its imaginary part. Once a span is known, the values of a filter
    at a few nodes tell its coordinates.
    """

    contour: Contour
    filters: Array
    weights: Array

    @cached_property
    def _few(self) -> tuple[NDArray[np.intp], Array, Array]:
        """A few nodes, the basis filters there, and what turns values into coordinates."""
        # pivoting finds nodes that tell the filters apart, and others show what is not in the span
        pivots = linalg.qr(self.filters.T, mode="r", pivoting=True)[1]
        count, rank = self.filters.shape
        few = np.union1d(pivots[:rank], np.arange(0, count, max(count // (4 * rank), 1)))
        return few, self.filters[few], np.linalg.pinv(self.filters[few])

    def locate(self, method: Filter, stops: Array, scales: Array) -> tuple[Array, Array]:
        """Return coordinates of a method, (n_scales, n_columns, n_stops), and its distances."""
        few, filters, inverse = self._few
        values = filter_values(method, self.contour.nodes[few], stops, scales)
        coordinates = inverse @ values
        distance = np.abs(filters @ coordinates - values).max(axis=(0, 1), initial=0)
        return coordinates, distance

    @classmethod
    def of(cls, contour: Contour, values: Array) -> Span:
        """Return a basis of filters that are given by their values at the nodes."""
        left, lengths, _ = np.linalg.svd(values, full_matrices=False)
        filters = left[:, lengths > NEGLIGIBLE]
        return cls(contour, filters, contour.weights(filters))

    @classmethod
    def of_scales(cls, contour: Contour, values: Array) -> Span:
        """Return a basis of filters whose values are given for the scales of rows, in turn."""
        span = cls.of(contour, values[-1])
        while len(values) > 1:
            # another scale is another stop, so that most of them are in the span already
            rest = values - span.filters @ (span.filters.T @ values)
            far = np.abs(rest).max(axis=(1, 2))
            # a tenth, because what is left out adds up over scales
            if far.max() <= SPANNED / 10:
                break
            left, lengths, _ = np.linalg.svd(rest[far.argmax()], full_matrices=False)
            further = left[:, lengths > SPANNED / 10]
            filters = np.linalg.qr(np.hstack([span.filters, further]))[0]
            span = cls(contour, filters, contour.weights(filters))
        return span

    def scaled(self, largest: float) -> Span:
        """Return the same for another largest eigenvalue: the nodes are in units of it."""
        found = Span(replace(self.contour, largest=largest), self.filters, self.weights)
        vars(found)["_few"] = self._few  # they are the same
        return found
