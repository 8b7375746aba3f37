"""Conjugate gradients: the one method whose filter depends on the response."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh_tridiagonal

from stoptime.methods.base import Method
from stoptime.support.arrays import Array, Floats
from stoptime.support.checks import iteration_numbers, nonnegative

__all__ = ["ConjugateGradient", "KrylovRun", "RitzFilter", "conjugate_gradients"]

CONVERGED = 1e-15  # of the part of y that X can fit: what is left is rounding
SMALLEST = np.finfo(np.float64).eps ** 4  # eigenvalue over the largest: far below every rank cut


@dataclass(frozen=True)
class ConjugateGradient(Method):
    r"""Conjugate gradients on the normal equations, also known as CGLS and LSQR.

    .. math:: \beta_k = \arg\min_\beta \|y - X\beta\|^2 \quad\text{over}\quad
        \mathrm{span}\{z, \hat\Sigma z, \dots, \hat\Sigma^{k-1}z\}, \qquad
        g(s, k) = \prod_{j=1}^k (1 - s/\theta_j)

    Its Ritz values θ depend on the response, so it draws a path but has no filter without data: ask
    :func:`conjugate_gradients` for the filter of a spectrum.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import path
    >>> path(*load_diabetes(return_X_y=True), ConjugateGradient(), [1, 2, 3])
    Path(ConjugateGradient(), 3 stops from 1 to 3, 10 coefficients)

    References
    ----------
    Hestenes, Stiefel (1952), Methods of conjugate gradients for solving linear systems.
    """

    name: ClassVar[str] = "conjugate-gradient"
    order: ClassVar[int] = 2
    whole_stops: ClassVar[bool] = True
    has_filter: ClassVar[bool] = False
    stop_meaning: ClassVar[str] = "iterations"

    @property
    def horizon(self) -> float:
        """How many iterations a search looks at: later ones mostly fit noise."""
        return 100.0

    @property
    def pace(self) -> float:
        """Refused: iterations of this method keep no time."""
        self.require_filter()

    def require_filter(self) -> NoReturn:
        """Refuse: the filter depends on the response."""
        raise ValueError(
            "The filter of conjugate gradients depends on the response: it draws path(X, y, "
            '"conjugate-gradient", stops), but shrinkage, gain, risk, calibration and exact leave-one-out '
            'need a method whose filter does not, such as "nesterov". Its stop can be given, or be chosen by '
            "cv=5 or HoldOut(X_val, y_val)."
        )

    def follow(self, s: Floats, z: Floats, stops: Floats, at: Floats) -> tuple[Floats, Floats]:
        """Return the path in the eigenbasis, and the gains of the filter of every target."""
        runs = [conjugate_gradients(s, column, stops) for column in z.T]
        with np.errstate(over="ignore", invalid="ignore"):  # rounding may undo a late filter
            gains = [np.array([one.gain(at) for one in run.filters]) for run in runs]
        components = np.stack([run.components.T for run in runs], axis=-1)
        return components, np.stack(gains, axis=-1).swapaxes(0, 1)

    def gain_for(self, s: Floats, z: Floats, stop: float) -> Callable[[Floats], Array]:
        """Return an upper bound of the gain, which grows from the largest eigenvalues down."""
        (filter_,) = conjugate_gradients(s, z, np.array([stop])).filters
        converged = stop > len(filter_.values)
        most = np.inf if converged else float(np.sum(1 / filter_.values))
        return lambda at: np.minimum(most, 1 / at)

    def _shrinkage(self, s: Array, t: Array) -> Array:  # noqa: ARG002 - refused whatever they are
        self.require_filter()

    def _gain(self, s: Array, t: Array) -> Array:  # noqa: ARG002 - refused whatever they are
        self.require_filter()


@dataclass(frozen=True)
class RitzFilter:
    r"""The filter of one iterate for one response.

    .. math:: g(s) = \prod_j (1 - s/\theta_j)

    Attributes
    ----------
    values : array of shape (n_values,)
        The Ritz values θ: as many as iterations, or fewer once converged.
    """

    values: Array

    def shrinkage(self, s: ArrayLike) -> Array:
        """Return g(s); between and beyond the Ritz values it need not be small."""
        return self._filters(s)[0]

    def gain(self, s: ArrayLike) -> Array:
        """Return (1 - g)/s, finite at s = 0."""
        return self._filters(s)[1]

    def _filters(self, s: ArrayLike) -> tuple[Array, Array]:
        s = nonnegative("s", s)
        g, gain = np.ones_like(s), np.zeros_like(s)
        for theta in self.values[::-1]:
            gain = gain + g / theta
            g = g * (1 - s / theta)
        return g, gain


@dataclass(frozen=True)
class KrylovRun:
    """Iterates of conjugate gradients in the eigenbasis.

    Attributes
    ----------
    components : array of shape (n_stops, rank)
        Coefficients in the eigenbasis.
    filters : tuple of RitzFilter
        The filter of every stop.
    """

    components: Array
    filters: tuple[RitzFilter, ...]


def conjugate_gradients(eigenvalues: ArrayLike, response: ArrayLike, stops: ArrayLike) -> KrylovRun:
    r"""Run conjugate gradients on :math:`S c = z` from zero, residuals kept orthogonal.

    Parameters
    ----------
    eigenvalues : array-like of shape (rank,)
        Positive; those of a :class:`stoptime.Spectrum`.
    response : array-like of shape (rank,)
        The z of the spectrum.
    stops : array-like of shape (n_stops,)
        Whole numbers; ``inf``, or any beyond convergence, is least squares.

    Returns
    -------
    KrylovRun

    Examples
    --------
    >>> run = conjugate_gradients([1.0, 4.0], [1.0, 1.0], [1, 2])
    >>> run.components[1]
    array([1.  , 0.25])
    >>> run.filters[1].values
    array([1., 4.])
    """
    s, z = np.asarray(eigenvalues, dtype=np.float64), np.asarray(response, dtype=np.float64)
    t = np.atleast_1d(nonnegative("stops", stops, infinite=True))
    last = iteration_numbers(np.minimum(t, len(s)))
    iteration_numbers(t[np.isfinite(t)])
    # squares of all else must be floats
    unit, size = s.max(initial=0) or 1.0, np.abs(z).max(initial=0) or 1.0
    coefs, diagonal, off = _run(s / unit, z / size, int(last.max(initial=0)))
    reached = np.minimum(last, len(coefs) - 1)
    ritz = {int(k): unit * _ritz(diagonal[:k], off[: max(k - 1, 0)]) for k in np.unique(reached)}
    with np.errstate(over="ignore"):  # the path looks for it
        components = np.array(coefs)[reached] * size / unit
    return KrylovRun(components, tuple(RitzFilter(ritz[int(k)]) for k in reached))


def _run(s: Array, z: Array, most: int) -> tuple[list[Array], list[float], list[float]]:
    """Return all iterates, and the Lanczos matrix that their coefficients make."""
    coefs, diagonal, off = [np.zeros_like(z)], list[float](), list[float]()
    residual, power = z.copy(), float(z @ z)
    direction, lengths = z.copy(), np.sqrt(np.maximum(s, SMALLEST))
    rounding = CONVERGED * np.linalg.norm(z / lengths)
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
        for _ in range(
            2
        ):  # else rounding brings old ones back; once is too little after a steep fall
            residual -= (basis[: k + 1] @ residual) @ basis[: k + 1]
        power, before = float(residual @ residual), power
        ratio = power / before
        off.append(np.sqrt(ratio) / rate)
        direction = residual + ratio * direction
    return coefs, diagonal, off


def _ritz(diagonal: list[float], off: list[float]) -> Array:
    if not diagonal:
        return np.empty(0)
    return np.asarray(eigvalsh_tridiagonal(np.array(diagonal), np.array(off)))
