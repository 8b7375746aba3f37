"""Statistics to a spectrum: all that products of features still tell of rows that are not kept."""

from __future__ import annotations

import numpy as np

from stoptime.spectrum.accuracy import GRAM_TOLERANCE, constant
from stoptime.spectrum.base import Left, Rounding, Spectrum
from stoptime.spectrum.moments import Moments
from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.support.arrays import Floats

__all__ = ["by_statistics"]

EPS = float(np.finfo(np.float64).eps)
ROUNDINGS = 2.0  # of the lengths of two columns: what their product may be off by
UNEVEN = 100.0  # times the power of the smallest column: from there on the order of columns matters
WIDTH = 512  # directions looked at together, so that they need little room


@np.errstate(over="ignore", invalid="ignore")  # overflow is looked for in the products
def by_statistics(statistics: Statistics, fit_intercept: bool) -> Spectrum:
    """Diagonalise XᵀX; what falls below the rank cut cannot be looked at again."""
    if statistics.weight == 0:
        raise ValueError("There is no row of positive weight to fit.")
    _check_scale("X", np.diagonal(statistics.gram), statistics.feature_mean)
    _check_scale("y", statistics.target_power, statistics.target_mean)
    moments, power = statistics.about(fit_intercept)
    _check_overflow("X", moments.gram)
    _check_overflow("y", power, moments.cross)
    m = _without_constants(moments)
    eigenvalues, vectors = _factored(m.gram)
    response = vectors.T @ m.cross
    scales = _scales(m.gram, eigenvalues, vectors)
    hidden = EPS * (
        statistics.n_features + np.sqrt(statistics.n_rows)
    )  # errors of sums of n are random
    negligible = (EPS * max(statistics.n_features, statistics.n_rows)) ** 2 * eigenvalues[-1]
    kept = eigenvalues > np.maximum(hidden * scales**2, negligible)
    drowned = (np.diagonal(m.gram) > 0) & (np.diagonal(m.gram) <= negligible)
    left = Left(
        np.maximum(np.concatenate([eigenvalues[~kept], np.diagonal(m.gram)[drowned]]), 0),
        np.concatenate([response[~kept], m.cross[drowned]]),
        np.concatenate([scales[~kept], np.zeros(np.count_nonzero(drowned))]),
    )
    rounding = Rounding(ROUNDINGS * EPS, scales[kept], left)
    unsure = EPS * np.max(scales[kept] ** 2, initial=0) / GRAM_TOLERANCE["float64"]
    far = np.inf if unsure <= eigenvalues[kept].min(initial=np.inf) else float(1 / unsure)
    response, target_mean = response[kept], m.target_mean
    if statistics.single_target:
        response, target_mean, power = response[:, 0], target_mean[0], power[0]
    n = statistics.weight
    return Spectrum(
        eigenvalues[kept], vectors[:, kept], response, n, max(n, statistics.n_rows),
        m.feature_mean, target_mean, power, fit_intercept, "gram", far, rounding=rounding,
    )  # fmt: skip


def _factored(gram: Floats) -> tuple[Floats, Floats]:
    """Diagonalise; of columns that differ in scale the largest go first, so that none loses its digits."""
    powers = np.diagonal(gram)
    graded = powers.max() > UNEVEN * powers.min()
    order = np.argsort(-powers, kind="stable") if graded else np.arange(len(powers))
    try:
        eigenvalues, vectors = np.linalg.eigh(gram[np.ix_(order, order)] if graded else gram)
    except np.linalg.LinAlgError:
        raise ValueError("The factorisation of X did not converge: rescale its columns.") from None
    if not graded:
        return eigenvalues, vectors
    given = np.empty_like(vectors)
    given[order] = vectors
    return eigenvalues, given


def _scales(gram: Floats, eigenvalues: Floats, vectors: Floats) -> Floats:
    r"""Return d of each direction: products between two of them are off by about :math:`\eta d_id_j`.

    .. math:: d_i^2 = c_i(c_i + \rho_i/\eta), \qquad c_i^2 = \sum_a V_{ai}^2\hat\Sigma_{aa}, \qquad
        \rho_i = \max_a|\hat\Sigma V - VS|_{ai}/\sqrt{\hat\Sigma_{aa}}

    Products of columns are rounded in proportion to their lengths, and ρ is what their factorisation adds.
    """
    lengths = np.sqrt(np.diagonal(gram))
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    scales = np.empty_like(eigenvalues)
    for start in range(0, len(scales), WIDTH):
        part = slice(start, start + WIDTH)
        v = vectors[:, part]
        size = np.linalg.norm(lengths[:, None] * v, axis=0)
        residual = inverse[:, None] * (gram @ v - v * eigenvalues[part])
        scales[part] = np.sqrt(size * (size + np.abs(residual).max(axis=0) / (ROUNDINGS * EPS)))
    return scales


def _without_constants(m: Moments) -> Moments:
    """Put zeros for the products of columns that do not vary, of which only rounding is left."""
    flat = constant(np.diagonal(m.gram), m.feature_mean)
    if not flat.any():
        return m
    gram, cross = m.gram.copy(), m.cross.copy()
    gram[flat], gram[:, flat], cross[flat] = 0, 0, 0
    return Moments(m.feature_mean, m.target_mean, gram, cross)


def _check_overflow(name: str, *products: Floats) -> None:
    """Raise a ValueError where squares of means, which statistics need not hold, overflow."""
    if not all(np.isfinite(one).all() for one in products):
        raise ValueError(f"{name} is too large: products with its entries overflow. Rescale it.")


def _check_scale(name: str, powers: Floats, means: Floats) -> None:
    """Raise a ValueError where squares have lost their digits to underflow."""
    info = np.finfo(powers.dtype)
    small = (powers > 0) & (powers < info.tiny / info.eps) & ~constant(powers, means)
    if small.any():
        raise ValueError(
            f"{name} is too small: squares of its entries underflow, first in column "
            f"{int(np.argmax(small))}. Rescale it."
        )
