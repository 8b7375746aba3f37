r"""How far a path from Ritz values is from the path itself.

The Krylov space of dimension k satisfies :math:`\hat\Sigma V = VT + \eta\, v e_k^T`. With the eigenvectors q
of T and any function φ, multiplying by the divided differences of φ gives the error without an integral,

.. math:: \varphi(\hat\Sigma)z - V\varphi(T)V^Tz = h(\hat\Sigma)v, \qquad
    h(s) = \eta\,\|z\|\sum_j q_{1j}q_{kj}\,\frac{\varphi(s) - \varphi(\theta_j)}{s - \theta_j},

so that the norm of the error is at most the largest |h| on the spectrum. All together h is a divided
difference of order k, as smooth as φ: a few points between zero and the largest eigenvalue find its maximum.
"""

from __future__ import annotations

import numpy as np

from stoptime.methods import ConjugateGradient, Method
from stoptime.methods.base import Array
from stoptime.spectrum import Floats, Krylov

__all__ = ["relative_errors"]

POINTS = 33  # between zero and the largest eigenvalue, closer to each other at the ends
APART = 1e-6  # of the largest eigenvalue: closer to a Ritz value a divided difference is rounding
FLAT = 1e-5  # of 1/φ(0): so far from zero φ is as good as linear
SETTLED_RITZ = 0.1  # residual over value from which on the least Ritz value is one of the eigenvalues


def relative_errors(theta: Floats, response: Floats, krylov: Krylov, method: Method, stops: Floats) -> Array:
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
        Infinity is least squares: its bound holds where the smallest eigenvalue that the response sees has
        been found, and else is infinite.

    Returns
    -------
    array of shape (n_stops,)
        Of many targets the worst.
    """
    if krylov.exhausted:
        return np.zeros(len(stops))
    z = response.reshape(len(theta), len(krylov.sizes))
    errors = np.zeros((len(stops), len(krylov.sizes)))
    forever = np.isinf(stops)
    if isinstance(method, ConjugateGradient):  # exact up to the dimension of the space
        forever = stops > krylov.sizes[krylov.residues.any(axis=0)].min()
    elif not forever.all():
        errors[~forever] = _finite(krylov, theta, z, method, stops[~forever])
    if forever.any():
        errors[forever] = _infinite(krylov, theta, z)
    return np.asarray(errors.max(axis=1))


def _finite(krylov: Krylov, theta: Floats, z: Floats, method: Method, stops: Floats) -> Array:
    grid = _grid(theta, krylov.largest)
    at_theta, at_grid = method.gain(theta[:, None], stops), method.gain(grid[:, None], stops)
    lengths = np.sqrt(at_theta.T**2 @ z**2)
    flat = FLAT / np.maximum(at_grid[0], FLAT / krylov.largest)
    slopes = (method.gain(flat, stops) - at_grid[0]) / flat
    worst = np.empty_like(lengths)
    for k in range(len(stops)):
        differences = (at_grid[:, k, None] - at_theta[:, k]) / (grid[:, None] - theta)
        differences[0] = np.where(theta < flat[k], slopes[k], differences[0])
        worst[k] = np.abs(differences @ krylov.residues).max(axis=0)
    return worst / np.where(lengths > 0, lengths, np.inf)


def _grid(theta: Floats, largest: float) -> Array:
    """Return zero, and points up to the largest eigenvalue that keep away from the Ritz values."""
    grid = largest / 2 * (1 - np.cos(np.pi * np.arange(POINTS) / (POINTS - 1)))
    place = np.searchsorted(theta, grid)
    below, above = theta[np.maximum(place - 1, 0)], theta[np.minimum(place, len(theta) - 1)]
    free = np.minimum(np.abs(grid - below), np.abs(grid - above)) > APART * largest
    free[0] = True
    return np.asarray(grid[free])


def _infinite(krylov: Krylov, theta: Floats, z: Floats) -> Array:
    """Return the bound for φ = 1/s, which is largest at the smallest eigenvalue that the response sees."""
    out = np.zeros(z.shape[1])
    for target in np.flatnonzero(krylov.residues.any(axis=0)):
        mine = z[:, target] != 0
        s, response, residues = theta[mine], z[mine, target], krylov.residues[mine, target]
        if np.abs(residues[0] / response[0]) > SETTLED_RITZ * s[0]:
            out[target] = np.inf
        else:
            out[target] = np.abs((residues / s).sum()) / s[0] / np.linalg.norm(response / s)
    return out
