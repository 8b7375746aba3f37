r"""A path as a mixture of ridges with complex penalties: the key to leaving rows out without refitting.

Ridge with penalty λ has the shrinkage λ/(λ + s). Every smooth shrinkage is a mixture of a few of them,

.. math:: g(s, t) = \sum_k \omega_k(t)\,\frac{\lambda_k}{\lambda_k + s}
    \qquad\text{for all } 0 \le s \le L,

with complex λ that do not depend on t. What ridge has in closed form and is linear in the shrinkage, the
left-out residual above all, every method then has: the same mixture of the ridges' values.

Three ways to the mixture. Ridge is its own. Gradient flow is an inverse Laplace transform, and a few
nodes on a hyperbola serve all stops of one decade, however large tL. Any other method is expanded in
Chebyshev polynomials; each is, by Cauchy's formula on an ellipse around [0, L], a mixture of ridges.

References
----------
Weideman, Trefethen (2007), Parabolic and hyperbolic contours for computing the Bromwich integral.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct
from scipy.optimize import minimize_scalar

from stoptime.methods.base import Method
from stoptime.support.arrays import Array

Numbers = NDArray[np.inexact[Any]]

MAX_DEGREE = 16384  # beyond it the exact route costs less and rounds less
FIRST_DEGREE = 32
PER_RADIAN = {1: 7.0, 2: 1.25}  # degrees that iterations need at most, by their order
SEEN = 0.5
RESOLVED = 1e-14  # Chebyshev coefficients below it are rounding
ALIASING = 33.0  # minus the logarithm of what the trapezoidal rule on the ellipse neglects
GROWTH = 300.0  # largest weight by which rounding errors may be multiplied
EARLY = 100.0  # of tL: up to here gradient flow needs fewer penalties on an ellipse
SPAN = 40.0  # about so many times as long is the last stop that shares a hyperbola with the first
LEAST_SPAN = 2.0


@dataclass(frozen=True)
class RidgeMixture:
    r"""Penalties and weights of :math:`g(cs, t) = \mathrm{Re}\sum_k \omega_k(c, t)\lambda_k/(\lambda_k + s)`.

    Attributes
    ----------
    penalties : array of shape (n_penalties,)
        The λ, real for ridge and else complex; of each conjugate pair one.
    weights : array of shape (n_scales, n_penalties, n_stops)
        The ω, one matrix for every scale c of the eigenvalues.
    """

    penalties: Numbers
    weights: Numbers

    def shrinkages(self, eigenvalues: Array) -> Numbers:
        """Return λ/(λ + s), one row for every eigenvalue; an infinite λ has learned nothing."""
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + eigenvalues[:, None] / self.penalties))

    def __call__(self, eigenvalues: Array) -> Array:
        """Return the mixture's shrinkages at the first scale, of shape (n_eigenvalues, n_stops)."""
        return np.asarray((self.shrinkages(eigenvalues) @ self.weights[0]).real)


def ridge_mixture(
    method: Method, stops: Array, largest: float, scales: Array | None = None
) -> RidgeMixture | None:
    r"""Write a method as a mixture of ridges, to about 1e-13.

    .. math:: g(cs, t) = \mathrm{Re}\sum_k \omega_k(c, t)\,\frac{\lambda_k}{\lambda_k + s}

    Parameters
    ----------
    method : Method
        Already tuned to its spectrum.
    stops : array of shape (n_stops,)
        Positive and finite.
    largest : float
        The L up to which the identity is to hold.
    scales : array of shape (n_scales,), optional
        The c, one by default.

    Returns
    -------
    RidgeMixture or None
        None where more than ``MAX_DEGREE`` penalties would be needed: that many oscillations lie
        between 0 and L.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> mixture = ridge_mixture(AcceleratedFlow(), np.array([1.0, 10.0]), largest=4.0)
    >>> s = np.linspace(0, 4, 9)
    >>> exact = AcceleratedFlow().shrinkage(s[:, None], [1.0, 10.0])
    >>> bool(np.abs(mixture(s) - exact).max() < 1e-12)
    True
    """
    scales = np.ones(1) if scales is None else scales
    if method.mixture == "pole":
        return _of_ridge(stops, scales)
    with np.errstate(over="ignore"):
        late = stops * (scales.max() * largest) > EARLY
    if method.mixture == "hyperbola" and late.any():
        parts = [(late, _on_hyperbolas(stops[late], scales))]
        early = None if late.all() else _on_ellipse(method, stops[~late], largest, scales)
        return _joined(parts if early is None else [*parts, (~late, early)])
    return _on_ellipse(method, stops, largest, scales)


def _joined(parts: list[tuple[NDArray[np.bool_], RidgeMixture]]) -> RidgeMixture:
    """Put mixtures of different stops side by side."""
    penalties = np.concatenate([mixture.penalties for _, mixture in parts])
    n_scales, n_stops = len(parts[0][1].weights), len(parts[0][0])
    weights = np.zeros((n_scales, len(penalties), n_stops), np.complex128)
    end = 0
    for stops, mixture in parts:
        start, end = end, end + len(mixture.penalties)
        weights[:, start:end, stops] = mixture.weights
    return RidgeMixture(penalties, weights)


def _of_ridge(stops: Array, scales: Array) -> RidgeMixture:
    penalties = 1 / np.multiply.outer(scales, stops)
    weights = np.zeros((len(scales), *penalties.shape, len(stops)))
    for scale, own in enumerate(weights):
        own[scale] = np.eye(len(stops))
    return RidgeMixture(penalties.ravel(), weights.reshape(len(scales), -1, len(stops)))


def _on_ellipse(method: Method, stops: Array, largest: float, scales: Array) -> RidgeMixture | None:
    """Expand in Chebyshev polynomials of x = 1 - 2s/L, and each in ridges with poles on an ellipse."""
    coefficients = _chebyshev_coefficients(method, stops, largest, scales)
    if coefficients is None:
        return None
    count, log_radius = _ellipse(np.abs(coefficients).max(axis=(0, 1)))
    # 1/(cosh w - x) = (2/sinh w) Σ' exp(-mw) T_m(x): at even angles a Fourier transform inverts it
    half_turn = 1j * np.pi / count
    twisted = coefficients * np.exp((log_radius + half_turn) * np.arange(coefficients.shape[-1]))
    waves = np.fft.ifft(twisted, n=count, axis=-1)[..., : count // 2]
    half_w = (log_radius + half_turn * (2 * np.arange(count // 2) + 1)) / 2
    weights = waves / np.tanh(half_w)  # doubled: the other half of the ellipse is conjugate
    return RidgeMixture(largest * np.sinh(half_w) ** 2, np.swapaxes(weights, -1, -2))


def _chebyshev_coefficients(
    method: Method, stops: Array, largest: float, scales: Array
) -> Array | None:
    """Return coefficients of shape (scales, stops, degree), the first one doubled, resolved to rounding."""
    degree = FIRST_DEGREE
    if method.whole_stops:  # every attempt runs all iterations: begin where it may succeed
        radians = np.sqrt((method.pace * stops.max()) ** method.order * scales.max() * largest)
        degree = int(np.clip(PER_RADIAN[method.order] * radians, FIRST_DEGREE, MAX_DEGREE))
    while degree <= MAX_DEGREE:
        s = largest * np.sin(np.pi * (np.arange(degree) + 0.5) / (2 * degree)) ** 2
        values = method.shrinkage(np.multiply.outer(scales, s)[:, None], stops[:, None])
        coefficients = dct(values, axis=-1) / degree
        sizes = np.abs(coefficients).max(axis=(0, 1))
        needed = int(np.max(np.flatnonzero(sizes > RESOLVED), initial=0)) + 1
        # g falls from one at s = 0, perhaps steeply: unless the first node has seen it fall, it is missed
        if needed <= 0.85 * degree and values[..., 0].min() > SEEN:
            return np.asarray(coefficients[..., :needed])
        degree *= 2
    return None


def _ellipse(sizes: Array) -> tuple[int, float]:
    """Return how many poles, and the logarithm of the radius, keep both aliasing and growth small."""
    sizes = np.where(sizes > 10 * RESOLVED, sizes, 0)
    count = 2 * (len(sizes) // 2 + 1)
    while np.max(sizes * np.exp(ALIASING / count * np.arange(len(sizes)))) > GROWTH:
        count += 2 * (count // 64 + 1)
    return count, ALIASING / count


@dataclass(frozen=True)
class Hyperbola:
    """The best contour for all times from 1 to ``span``: p = size (1 + sin(iu - angle)) at the nodes u."""

    span: float
    nodes: Array
    angle: float
    size: float


@lru_cache(maxsize=64)
def _hyperbola(span: float) -> Hyperbola:
    """Find the angle at which the trapezoidal rule converges fastest for all times at once."""

    def length(angle: float) -> float:
        ratio = ((np.pi - 2 * angle) * span + 4 * angle - np.pi) / (
            (4 * angle - np.pi) * np.sin(angle)
        )
        return float(np.arccosh(ratio))

    def slowness(angle: float) -> float:
        return length(angle) / (np.pi * (np.pi - 2 * angle))

    angle = float(minimize_scalar(slowness, bounds=(0.8, 1.5), method="bounded").x)
    count = int(np.ceil(ALIASING * slowness(angle)))
    nodes = (np.arange(count) + 0.5) * length(angle) / count
    return Hyperbola(
        span, nodes, angle, (4 * np.pi * angle - np.pi**2) / length(angle) * count / span
    )


def _hyperbolas(stops: Array, scales: Array) -> tuple[Hyperbola, Array]:
    """Return the contour of one stretch of time, and when each stretch begins."""
    first, last = float(stops.min() * scales.min()), float(stops.max() * scales.max())
    stretches = max(1, int(np.ceil(np.log(last / first) / np.log(SPAN))))
    span = max((last / first) ** (1 / stretches), LEAST_SPAN)
    return _hyperbola(span), first * span ** np.arange(stretches)


def _on_hyperbolas(stops: Array, scales: Array) -> RidgeMixture:
    """Invert the Laplace transform of exp(-ts), 1/(p + s): the penalties are the nodes p themselves."""
    contour, starts = _hyperbolas(stops, scales)
    turn = 1j * contour.nodes - contour.angle
    step = contour.nodes[1] - contour.nodes[0]
    p = np.multiply.outer(contour.size / starts, 1 + np.sin(turn))
    slope = np.multiply.outer(contour.size / starts, np.cos(turn))
    times = np.multiply.outer(scales, stops)
    stretch = np.clip(np.searchsorted(starts, times, side="right") - 1, 0, len(starts) - 1)
    weights = np.zeros((*times.shape, *p.shape), np.complex128)
    own = p[stretch]
    waves = np.exp(times[..., None] * own) * (step / np.pi) * slope[stretch] / own
    np.put_along_axis(weights, stretch[..., None, None], waves[..., None, :], axis=2)
    weights = weights.reshape(*times.shape, p.size)
    return RidgeMixture(p.ravel(), np.swapaxes(weights, -1, -2))
