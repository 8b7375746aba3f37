r"""Error bounds of paths that are computed from Ritz values.

A Krylov space of dimension k satisfies :math:`\hat\Sigma V = VT + \eta\, v e_k^T`. With the
eigenvectors q of T, the error of any matrix function φ is a sum of divided differences,

.. math:: \varphi(\hat\Sigma)z - V\varphi(T)V^Tz = h(\hat\Sigma)v, \qquad
    h(s) = \eta\,\|z\|\sum_j q_{1j}q_{kj}\,\frac{\varphi(s) - \varphi(\theta_j)}{s - \theta_j},

so the norm of the error is at most the maximum of \|h\| over the spectrum. The sum is a divided
difference of order k and as smooth as φ: its maximum is found on a grid of the spectrum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stoptime.methods.base import Filter, Method
from stoptime.methods.recurrence import Iteration
from stoptime.spectrum.base import Krylov
from stoptime.support.arrays import EPS, Array, Floats

FEWEST_GRID_POINTS = 33  # between zero and the largest eigenvalue
GRID_POINTS_PER_RADIAN = 2.0  # of the phase t√L of a path that oscillates
MOST_GRID_POINTS = 4096
GRID_SAFETY = 1.1  # factor for a maximum between two grid points
LEAST_RITZ_DISTANCE = 1e-6  # times the largest eigenvalue: distance of grid points to Ritz values
LINEAR_RANGE = 1e-5  # times 1/φ(0): φ is linear to rounding up to this eigenvalue
INFINITE_GAIN = 1e100  # of φ(0)·L: such a late stop cannot be told from infinity
LEAST_SQUARES_ROUNDINGS = 10.0  # in units of EPS: a gradient or a change of the fit below is noise


def relative_errors(
    theta: Floats, response: Floats, krylov: Krylov, method: Method, stops: Floats
) -> Array:
    r"""Bound :math:`\|\hat\beta(t) - \hat\beta_k(t)\|/\|\hat\beta_k(t)\|` at each stop."""
    # theta are the Ritz values, and the response is in their basis; the method is tuned to the data
    z = response.reshape(len(theta), len(krylov.sizes))
    rounding = _rounding(theta, z)
    # unseen eigenvalues may be arbitrarily small, and a small gradient alone does not notice them:
    # least squares is known only if the last change of the fit vanishes to rounding as well
    learned = krylov.unlearned <= LEAST_SQUARES_ROUNDINGS * EPS
    least_squares = np.where(learned, rounding, np.inf)
    errors = np.empty((len(stops), len(krylov.sizes)))
    if isinstance(method, Filter):
        with np.errstate(over="ignore", invalid="ignore"):
            start = method.gain(0.0, stops)
            late = start * krylov.largest > INFINITE_GAIN
        finite = ~(_at_least_squares(method, stops) | late)
        if finite.any():
            errors[finite] = _finite(krylov, theta, z, method, stops[finite], start[finite])
        errors[late] = np.where(learned, 0.0, np.inf)
    else:
        # conjugate gradients are exact up to the dimension of the space
        errors = np.where(stops[:, None] >= krylov.sizes, rounding, 0.0)
        errors = np.where(stops[:, None] > krylov.sizes, least_squares, errors)
    errors[_at_least_squares(method, stops)] = least_squares
    return np.asarray(errors.max(axis=1, initial=0))


def _at_least_squares(method: Method, stops: Floats | float) -> NDArray[np.bool_]:
    return np.isinf(stops) & (not isinstance(method, Filter) or method.reaches_least_squares)


def unconverged(
    method: Method, stops: Floats | float, errors: Floats | float, tol: float
) -> NDArray[np.bool_]:
    """Tell at which stops a larger space helps; finite errors of least squares are rounding."""
    last = _at_least_squares(method, stops) | (not isinstance(method, Filter))
    return np.asarray(np.where(last, np.isinf(errors), np.logical_not(errors <= tol)))


def step_errors(
    theta: Floats, response: Floats, method: Filter, other: Filter, stops: Floats
) -> Array:
    """Return the relative difference of the coefficients for two steps of a method."""
    z = response.reshape(len(theta), int(np.prod(response.shape[1:])))
    # only ratios matter: dividing by the largest response and gain avoids over- and underflow
    shares = (z / (np.abs(z).max(initial=0) or 1.0)) ** 2
    gains = method.gain(theta[:, None], stops)
    largest = gains.max(axis=0, initial=0)
    unit = np.where(largest > 0, largest, 1.0)
    moves = (gains - other.gain(theta[:, None], stops)) / unit
    lengths = (gains / unit).T ** 2 @ shares
    ratios = moves.T**2 @ shares / np.where(lengths > 0, lengths, np.inf)
    return np.asarray(np.sqrt(ratios).max(axis=1, initial=0))


def _finite(
    krylov: Krylov, theta: Floats, z: Floats, method: Filter, stops: Floats, start: Floats
) -> Array:
    """Return the maximum of h on the grid, over the length of the coefficients; start is φ(0)."""
    if krylov.exhausted:
        return np.zeros((len(stops), z.shape[1]))
    # an iteration diverges beyond its own limit, so there is no eigenvalue to cover there
    unit = krylov.largest
    if isinstance(method, Iteration):
        unit = min(unit, method.largest_eigenvalue)
    # paths of second order oscillate in s, and the grid must resolve every oscillation
    radians = np.sqrt(8 * unit * start.max()) if method.time_power == 2 else 0.0
    points = min(FEWEST_GRID_POINTS + GRID_POINTS_PER_RADIAN * radians, MOST_GRID_POINTS)
    grid = _grid(theta, unit, int(points))
    # units of the largest eigenvalue, the first gain and the response avoid over- and underflow
    first = np.where(start > 0, start, 1.0)
    size = np.abs(z).max(initial=0) or 1.0
    gains = method.gain(np.concatenate([theta, grid])[:, None], stops) / first
    at_theta, at_grid = np.split(gains, [len(theta)])
    lengths = np.sqrt(at_theta.T**2 @ (z / size) ** 2)
    # between zero and a tiny Ritz value the difference cancels: by the mean value theorem the
    # quotient is a slope there, and φ is linear so close to zero
    flat = LINEAR_RANGE / np.maximum(start, LINEAR_RANGE / unit)
    slopes = (method.gain(flat, stops) / first - at_grid[0]) / (flat / unit)
    distances = (grid[:, None] - theta) / unit
    residues = krylov.residues / size / unit
    worst = np.empty_like(lengths)
    for k in range(len(stops)):
        differences = (at_grid[:, k, None] - at_theta[:, k]) / distances
        differences[0] = np.where(theta < flat[k], slopes[k], differences[0])
        worst[k] = np.abs(differences @ residues).max(axis=0)
    return np.asarray(GRID_SAFETY * worst / np.where(lengths > 0, lengths, np.inf))


def _grid(theta: Floats, largest: float, size: int) -> Array:
    """Return Chebyshev points from zero to the largest eigenvalue, away from the Ritz values."""
    grid = largest / 2 * (1 - np.cos(np.pi * np.arange(size) / (size - 1)))
    # next to a Ritz value the divided difference is rounding; h is smooth, so a gap is harmless
    place = np.searchsorted(theta, grid)
    below = theta[np.maximum(place - 1, 0)]
    above = theta[np.minimum(place, len(theta) - 1)]
    nearest = np.minimum(np.abs(grid - below), np.abs(grid - above))
    free = nearest > LEAST_RITZ_DISTANCE * largest
    free[0] = True  # zero has its own formula
    return np.asarray(grid[free])


def _rounding(theta: Floats, z: Floats) -> Array:
    """Bound the rounding error of least squares by the condition number that each target sees."""
    out = np.zeros(z.shape[1])
    for target, response in enumerate(z.T):
        seen = theta[response != 0]
        if seen.size:
            out[target] = LEAST_SQUARES_ROUNDINGS * EPS * seen[-1] / seen[0]
    return out
