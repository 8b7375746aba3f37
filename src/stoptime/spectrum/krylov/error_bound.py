r"""How far a path from Ritz values is from the path itself.

The Krylov space of dimension k satisfies :math:`\hat\Sigma V = VT + \eta\, v e_k^T`. With the eigenvectors q
of T and any function φ, multiplying by the divided differences of φ gives the error without an integral,

.. math:: \varphi(\hat\Sigma)z - V\varphi(T)V^Tz = h(\hat\Sigma)v, \qquad
    h(s) = \eta\,\|z\|\sum_j q_{1j}q_{kj}\,\frac{\varphi(s) - \varphi(\theta_j)}{s - \theta_j},

so that the norm of the error is at most the largest size of h on the spectrum. All together h is a divided
difference of order k, as smooth as φ: a few points between zero and the largest eigenvalue find its maximum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stoptime.methods.base import Method
from stoptime.spectrum.base import Krylov
from stoptime.support.arrays import Array, Floats

__all__ = ["relative_errors", "step_errors", "unconverged"]

POINTS = 33  # between zero and the largest eigenvalue, closer to each other at the ends; at least
POINTS_PER_RADIAN = 2.0  # of t√L, by which a path swings across them
MOST_POINTS = 4096
SAFETY = 1.1  # for what lies between them
APART = 1e-6  # of the largest eigenvalue: closer to a Ritz value a divided difference is rounding
FLAT = 1e-5  # of 1/φ(0): so far from zero φ is as good as linear
BEYOND = 1e100  # of φ(0)·L: no space tells so late a stop from infinity
EPS = float(np.finfo(np.float64).eps)
ROUNDINGS = (
    10.0  # of the gradient over the first one, and of the fit: what is left of them is rounding
)


def relative_errors(
    theta: Floats, response: Floats, krylov: Krylov, method: Method, stops: Floats
) -> Array:
    r"""Return bounds of :math:`\|\hat\beta(t) - \hat\beta_k(t)\|/\|\hat\beta_k(t)\|`, one for each stop.

    Parameters
    ----------
    theta : array of shape (rank,)
        Ritz values.
    response : array of shape (rank,) or (rank, n_targets)
        Response in their basis.
    krylov : Krylov
        What is left out.
    method : Method
        Tuned to it.
    stops : array of shape (n_stops,)
        Infinity is least squares. As an eigenvalue may be as small as it likes, its bound is infinite until
        the space is exhausted, or both the gradient and what is added to the fit have vanished to rounding:
        the gradient alone does not see what small eigenvalues have still to learn.

    Returns
    -------
    array of shape (n_stops,)
        Of many targets the worst.
    """
    z = response.reshape(len(theta), len(krylov.sizes))
    errors = np.zeros((len(stops), len(krylov.sizes)))
    forever = np.isinf(stops)
    if not method.has_filter:  # conjugate gradients are exact up to the dimension of the space
        errors = np.where(stops[:, None] >= krylov.sizes, _rounding(theta, z), 0.0)
        errors = np.where(stops[:, None] > krylov.sizes, _infinite(krylov, theta, z), errors)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = ~forever & (method.gain(0.0, stops) * krylov.largest > BEYOND)
        between = ~forever & ~beyond
        if between.any():
            errors[between] = _finite(krylov, theta, z, method, stops[between])
        if beyond.any():
            errors[beyond] = np.where(np.isinf(_infinite(krylov, theta, z)), np.inf, 0.0)
    if forever.any():
        errors[forever] = _infinite(krylov, theta, z)
    return np.asarray(errors.max(axis=1, initial=0))


def unconverged(method: Method, stops: Floats, errors: Floats, tol: float) -> NDArray[np.bool_]:
    """Tell at which stops a larger space would have a smaller error: what least squares has is rounding."""
    last = np.isinf(stops) | (not method.has_filter)
    return np.asarray(np.where(last, np.isinf(errors), ~(errors <= tol)))


def step_errors(
    theta: Floats, response: Floats, method: Method, other: Method, stops: Floats
) -> Array:
    r"""Return :math:`\|\hat\beta(t) - \hat\beta'(t)\|/\|\hat\beta(t)\|` of a method and one of another step.

    An automatic step is as sure as the largest eigenvalue: by this the path may be off for its sake alone.
    """
    z = response.reshape(len(theta), int(np.prod(response.shape[1:])))
    shares = (z / (np.abs(z).max(initial=0) or 1.0)) ** 2
    gains = method.gain(theta[:, None], stops)
    first = np.where(gains.max(axis=0, initial=0) > 0, gains.max(axis=0, initial=0), 1.0)
    moves = (gains - other.gain(theta[:, None], stops)) / first
    lengths = (gains / first).T ** 2 @ shares
    return np.asarray(
        np.sqrt(moves.T**2 @ shares / np.where(lengths > 0, lengths, np.inf)).max(axis=1, initial=0)
    )


def _finite(krylov: Krylov, theta: Floats, z: Floats, method: Method, stops: Floats) -> Array:
    if krylov.exhausted:
        return np.zeros((len(stops), z.shape[1]))
    start, unit = method.gain(0.0, stops), krylov.largest
    # beyond its limit an iteration diverges: there is no such eigenvalue
    unit = min(unit, method.largest_eigenvalue)
    radians = np.sqrt(8 * unit * start.max()) if method.order == 2 else 0.0
    grid = _grid(theta, unit, int(min(POINTS + POINTS_PER_RADIAN * radians, MOST_POINTS)))
    # all in units of the largest eigenvalue, the first gain and the response: nothing over- or underflows
    first, size = np.where(start > 0, start, 1.0), np.abs(z).max(initial=0) or 1.0
    gains = method.gain(np.concatenate([theta, grid])[:, None], stops) / first
    at_theta, at_grid = gains[: len(theta)], gains[len(theta) :]
    lengths = np.sqrt(at_theta.T**2 @ (z / size) ** 2)
    flat = FLAT / np.maximum(start, FLAT / unit)
    slopes = (method.gain(flat, stops) / first - at_grid[0]) / (flat / unit)
    apart, residues = (grid[:, None] - theta) / unit, krylov.residues / size / unit
    worst = np.empty_like(lengths)
    for k in range(len(stops)):
        differences = (at_grid[:, k, None] - at_theta[:, k]) / apart
        differences[0] = np.where(theta < flat[k], slopes[k], differences[0])
        worst[k] = np.abs(differences @ residues).max(axis=0)
    return np.asarray(SAFETY * worst / np.where(lengths > 0, lengths, np.inf))


def _grid(theta: Floats, largest: float, size: int) -> Array:
    """Return zero, and points up to the largest eigenvalue that keep away from the Ritz values."""
    grid = largest / 2 * (1 - np.cos(np.pi * np.arange(size) / (size - 1)))
    place = np.searchsorted(theta, grid)
    below, above = theta[np.maximum(place - 1, 0)], theta[np.minimum(place, len(theta) - 1)]
    free = np.minimum(np.abs(grid - below), np.abs(grid - above)) > APART * largest
    free[0] = True
    return np.asarray(grid[free])


def _infinite(krylov: Krylov, theta: Floats, z: Floats) -> Array:
    """Return what rounding leaves of least squares where nothing is left to learn, and else infinity."""
    return np.where(krylov.unlearned <= ROUNDINGS * EPS, _rounding(theta, z), np.inf)


def _rounding(theta: Floats, z: Floats) -> Array:
    """Return a bound of what rounding costs least squares, by the condition number each target sees."""
    out = np.zeros(z.shape[1])
    for target, response in enumerate(z.T):
        seen = theta[response != 0]
        if seen.size:
            out[target] = ROUNDINGS * EPS * seen[-1] / seen[0]
    return out
