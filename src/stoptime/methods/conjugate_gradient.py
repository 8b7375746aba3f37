"""Conjugate gradients, whose filter depends on the response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh_tridiagonal

from stoptime.methods.base import Method
from stoptime.support.arrays import EPS, Array, Floats
from stoptime.support.checks import iteration_numbers, nonnegative


@dataclass(frozen=True)
class ConjugateGradient(Method):
    r"""Conjugate gradients on the normal equations, also known as CGLS and LSQR.

    .. math:: \beta_k = \arg\min_\beta \|y - X\beta\|^2 \quad\text{over}\quad
        \mathrm{span}\{z, \hat\Sigma z, \dots, \hat\Sigma^{k-1}z\}, \qquad
        g(s, k) = \prod_{j=1}^k (1 - s/\theta_j)

    Its Ritz values θ depend on the response, so it draws a path but has no filter without data. See
    Hestenes, Stiefel (1952).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import path
    >>> path(*load_diabetes(return_X_y=True), ConjugateGradient(), [1, 2, 3])
    Path(ConjugateGradient(), 3 stops from 1 to 3, 10 coefficients)
    """

    name: ClassVar[str] = "conjugate-gradient"
    time_power: ClassVar[int] = 2
    whole_stops: ClassVar[bool] = True
    stop_meaning: ClassVar[str] = "iterations"
    horizon: ClassVar[float] = 100.0
    """Later iterations mostly fit noise."""

    def follow(self, s: Floats, z: Floats, stops: Floats, at: Floats) -> tuple[Floats, Floats]:
        """Return the path in the eigenbasis, and the gains of the filter of every target."""
        runs = [conjugate_gradients(s, column, stops) for column in z.T]
        # rounding can make a late filter overflow between Ritz values
        with np.errstate(over="ignore", invalid="ignore"):
            gains = [np.array([ritz_gain(values, at) for values in run.ritz]) for run in runs]
        components = np.stack([run.components.T for run in runs], axis=-1)
        return components, np.stack(gains, axis=-1).swapaxes(0, 1)

    def largest_gain_of(self, s: Floats, z: Floats, stop: float) -> float:
        """Return the largest gain of all targets, that at s = 0."""
        ritz = [conjugate_gradients(s, one, np.array([stop])).ritz[0] for one in z.T]
        gains = [np.inf if stop > len(values) else float(np.sum(1 / values)) for values in ritz]
        return max(gains, default=0.0)


class KrylovRun(NamedTuple):
    """Coefficients in the eigenbasis, of shape (n_stops, rank), and Ritz values at every stop."""

    components: Array
    ritz: tuple[Array, ...]


def ritz_gain(values: Array, s: Floats) -> Floats:
    """Return (1 - g)/s of the filter with these Ritz values, finite at s = 0."""
    g = np.ones_like(s)
    gain = np.zeros_like(s)
    for theta in values[::-1]:
        gain = gain + g / theta
        g = g * (1 - s / theta)
    return gain


def conjugate_gradients(eigenvalues: ArrayLike, response: ArrayLike, stops: ArrayLike) -> KrylovRun:
    """Run conjugate gradients on Sc = z from zero; stops beyond convergence are least squares."""
    s = np.asarray(eigenvalues, dtype=np.float64)
    z = np.asarray(response, dtype=np.float64)
    t = np.atleast_1d(nonnegative("stops", stops, infinite=True))
    last = np.minimum(iteration_numbers(t), len(s))
    # Both are scaled to at most one, so that no square overflows.
    unit = s.max(initial=0) or 1.0
    size = np.abs(z).max(initial=0) or 1.0
    coefs, diagonal, off = _run(s / unit, z / size, int(last.max(initial=0)))
    reached = np.minimum(last, len(coefs) - 1)
    ritz = {0: np.empty(0)}
    for k in np.unique(reached[reached > 0]):
        ritz[k] = unit * np.asarray(eigvalsh_tridiagonal(diagonal[:k], off[: k - 1]))
    with np.errstate(over="ignore"):  # the path checks its coefficients
        components = np.array(coefs)[reached] * size / unit
    return KrylovRun(components, tuple(ritz[k] for k in reached))


def _run(s: Array, z: Array, most: int) -> tuple[list[Array], list[float], list[float]]:
    """Return all iterates, and the diagonals of the Lanczos matrix of their coefficients."""
    coefs = [np.zeros_like(z)]
    diagonal: list[float] = []
    off: list[float] = []
    residual = direction = z.copy()
    power = float(z @ z)
    lengths = np.sqrt(np.maximum(s, EPS**4))  # far below every rank cut
    # a residual that is smaller, beside the part of y that X can fit, is rounding
    rounding = 1e-15 * np.linalg.norm(z / lengths)
    basis = np.empty((most, len(s)))
    rate = ratio = 0.0
    for k in range(most):
        if np.linalg.norm(residual / lengths) <= rounding:
            break
        basis[k] = residual / np.sqrt(power)
        carried = ratio / rate if k else 0.0
        rate = power / float(direction @ (s * direction))
        diagonal.append(1 / rate + carried)
        coefs.append(coefs[-1] + rate * direction)
        residual = residual - rate * s * direction
        # Rounding would bring old directions back. One pass is too little after a steep fall.
        for _ in range(2):
            residual -= (basis[: k + 1] @ residual) @ basis[: k + 1]
        before = power
        power = float(residual @ residual)
        ratio = power / before
        off.append(np.sqrt(ratio) / rate)
        direction = residual + ratio * direction
    return coefs, diagonal, off
