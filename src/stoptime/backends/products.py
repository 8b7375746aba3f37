"""Statistics to a spectrum: all that products of features still tell of rows that are not kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stoptime.backends.accuracy import GRAM_TOLERANCE, constant, reach
from stoptime.moments import Moments
from stoptime.spectrum import Floats, Spectrum
from stoptime.statistics import Statistics

__all__ = ["VISIBLE", "by_statistics"]

VISIBLE = 1e-6
"""Relative error of the coefficients that is warned about."""


@dataclass(frozen=True)
class _Squared:
    """The precision of lengths that are known by their squares alone."""

    eps: float
    rounding: float
    tolerance: float


@np.errstate(over="ignore", invalid="ignore")  # overflow is looked for in the products
def by_statistics(statistics: Statistics, fit_intercept: bool) -> Spectrum:
    """Diagonalise XᵀX; what falls below the rank cut cannot be looked at again."""
    if statistics.weight == 0:
        raise ValueError("There is no row of positive weight to fit.")
    _check_scale("X", np.diagonal(statistics.gram), statistics.feature_mean)
    _check_scale("y", statistics.target_power, statistics.target_mean)
    moments, power = statistics.about(fit_intercept)
    m = _without_constants(moments)
    try:
        eigenvalues, vectors = np.linalg.eigh(m.gram)
    except np.linalg.LinAlgError:
        raise ValueError("The factorisation of X did not converge: rescale its columns.") from None
    response = vectors.T @ m.cross
    eps = float(np.finfo(np.float64).eps)
    kept = eigenvalues > eps * max(statistics.n_rows, statistics.n_features) * eigenvalues[-1]
    precision = _Squared(eps, float(np.sqrt(eps * statistics.n_features)), GRAM_TOLERANCE["float64"])
    lengths = np.sqrt(np.maximum(eigenvalues[~kept], 0))
    far = reach(precision, eigenvalues, kept, response, lengths, np.diagonal(m.gram), VISIBLE)
    response, target_mean = response[kept], m.target_mean
    if statistics.single_target:
        response, target_mean, power = response[:, 0], target_mean[0], power[0]
    n = statistics.weight
    return Spectrum(
        eigenvalues[kept], vectors[:, kept], response, n, max(n, statistics.n_rows),
        m.feature_mean, target_mean, power, fit_intercept, "gram", far,
    )  # fmt: skip


def _without_constants(m: Moments) -> Moments:
    """Put zeros for the products of columns that do not vary, of which only rounding is left."""
    flat = constant(np.diagonal(m.gram), m.feature_mean)
    if not flat.any():
        return m
    gram, cross = m.gram.copy(), m.cross.copy()
    gram[flat], gram[:, flat], cross[flat] = 0, 0, 0
    return Moments(m.feature_mean, m.target_mean, gram, cross)


def _check_scale(name: str, powers: Floats, means: Floats) -> None:
    """Raise a ValueError where squares have lost their digits to underflow."""
    info = np.finfo(powers.dtype)
    small = (powers > 0) & (powers < info.tiny / info.eps) & ~constant(powers, means)
    if small.any():
        raise ValueError(
            f"{name} is too small: squares of its entries underflow, first in column "
            f"{int(np.argmax(small))}. Rescale it."
        )
