"""First and second moments of the data in one pass: all that a tall least-squares problem needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Floats

FEW = 64  # rows whose mean is a good enough guess of the mean
NEAR = 2.0  # standard deviations: a mean so close to zero costs no digits, and X is multiplied as it is
BLOCK_BYTES = 2**20  # a block stays in the processor's cache between centring and multiplications
BLOCK_ROWS = 2**10  # of which it has at least so many, for products to be worth calling


@dataclass(frozen=True)
class Moments:
    r"""Means and centred second moments of (X, y).

    .. math::

        \bar x = \sum_i w_i x_i, \qquad
        \hat\Sigma = \sum_i w_i (x_i-\bar x)(x_i-\bar x)^T, \qquad \sum_i w_i = 1

    and likewise the cross moments with y. Without an intercept the means are zero.
    """

    feature_mean: Floats
    target_mean: Floats
    gram: Floats
    cross: Floats

    def without(self, part: Moments, share: float) -> Moments:
        r"""Return the moments of the rows that are left when a part is taken away.

        .. math:: (1-\rho)\bar x' = \bar x - \rho\bar x_\rho, \qquad
            (1-\rho)\hat\Sigma' = \hat\Sigma + dd^T - \rho(\hat\Sigma_\rho + d_\rho d_\rho^T)

        with d the distances of the two means from the new one, and ρ the ``share`` of the weight that goes.
        """
        keep = 1 - share
        feature_mean = (self.feature_mean - share * part.feature_mean) / keep
        target_mean = (self.target_mean - share * part.target_mean) / keep
        d, d_part = self.feature_mean - feature_mean, part.feature_mean - feature_mean
        e, e_part = self.target_mean - target_mean, part.target_mean - target_mean
        d, d_part = d[:, None], d_part[:, None]
        gram = (self.gram + d * d.T - share * (part.gram + d_part * d_part.T)) / keep
        cross = (self.cross + d * e - share * (part.cross + d_part * e_part)) / keep
        return Moments(feature_mean, target_mean, gram, cross)


class Sums(NamedTuple):
    """What one pass finds: means as an origin and small offsets, and second moments about the means.

    Every pair is of features and of targets. Without centring, origin and offset are zero.
    """

    weight: float
    origin: tuple[Floats, Floats]
    offset: tuple[Floats, Floats]
    gram: Floats
    cross: Floats
    target_power: Floats


def moments(X: Floats, y: Floats, shares: Floats | None, *, centre: bool) -> Moments:
    """Return the moments of arrays, in their own precision; see :func:`sums`."""
    found = sums(X, y, shares, X.dtype, centre=centre)
    feature_mean, target_mean = found.origin[0] + found.offset[0], found.origin[1] + found.offset[1]
    return Moments(feature_mean, target_mean, found.gram, found.cross)


def sums(
    X: Floats, y: Floats, weights: Floats | None, dtype: np.dtype[Any], *, centre: bool
) -> Sums:
    """Accumulate the moments block by block: X is read once and never copied whole.

    Blocks are shifted by the mean of a few rows, those of most weight, where that is far from zero. What the
    final correction subtracts is then small, so that columns with large means keep their digits.

    Parameters
    ----------
    X : array of shape (n, p)
    y : array of shape (n, q)
    weights : array of shape (n,) or None
        None where all are one.
    dtype : dtype
        Floating type to work in.
    centre : bool
        Whether to subtract the means.
    """
    n, p = X.shape
    weight = float(n if weights is None else weights.sum(dtype=np.float64))
    weights = None if weights is None else _of_modest_size(weights)
    feature_shift, target_shift = np.zeros(p, dtype), np.zeros(y.shape[1], dtype)
    if centre and n:
        few, share = heaviest_rows(weights, n)
        if _far_from_zero(X[few], share):
            feature_shift = _mean(X[few], share, dtype)
        target_shift = _mean(y[few], share, dtype)
    as_it_is = weights is None and X.dtype == dtype and not feature_shift.any()
    height = max(1, min(n, max(p, BLOCK_ROWS, BLOCK_BYTES // (p * dtype.itemsize))))
    gram = np.zeros((p, p), dtype)
    others = np.zeros((1 + y.shape[1], p), dtype)  # totals, then cross moments
    buffer = np.empty((0 if as_it_is else height, p), dtype)
    pairs = np.ones((height, 1 + y.shape[1]), dtype)
    for start in range(0, n, height):
        rows = slice(start, min(start + height, n))
        features, left = X[rows], pairs[: rows.stop - start]
        if (
            as_it_is and not features.flags.aligned
        ):  # as bytes from elsewhere are: products round otherwise
            features = features.copy(order="K")
        elif not as_it_is:
            features = np.subtract(features, feature_shift, out=buffer[: rows.stop - start])
        np.subtract(y[rows], target_shift, out=left[:, 1:])
        if weights is not None:
            left[:, 0] = np.sqrt(weights[rows])
            features *= left[:, :1]
            left[:, 1:] *= left[:, :1]
        product = features.T @ features
        gram = (
            np.add(gram, product, out=product) if start else product
        )  # untouched zeros cost nothing
        others += left.T @ features
    target_total, power = _target_sums(y, target_shift, weights)
    scale = float(n if weights is None else weights.sum(dtype=np.float64)) or 1.0
    for summed in (gram, others, target_total, power):
        np.divide(summed, scale, out=summed)
    total, cross = others[0], others[1:].T
    if not centre:
        return Sums(
            weight, (feature_shift, target_shift), (0 * total, 0 * target_total), gram, cross, power
        )
    gram -= np.multiply.outer(total, total)
    cross -= np.multiply.outer(total, target_total)
    power = np.maximum(power - target_total**2, 0)
    return Sums(weight, (feature_shift, target_shift), (total, target_total), gram, cross, power)


def _of_modest_size(weights: Floats) -> Floats:
    """Return weights over a power of two near the largest, so that their products do not underflow."""
    return np.asarray(np.ldexp(weights, -np.frexp(weights.max(initial=0))[1]))


def _target_sums(y: Floats, shift: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return weighted sums of the shifted targets and of their squares, some rows at a time."""
    total, power = np.zeros((2, len(shift)), shift.dtype)
    height = max(1, BLOCK_BYTES // max(1, len(shift) * shift.dtype.itemsize))
    for start in range(0, len(y), height):
        rows = slice(start, start + height)
        targets = y[rows] - shift
        weighted = targets if weights is None else weights[rows, None] * targets
        total += weighted.sum(axis=0)
        power += np.einsum("ij,ij->j", weighted, targets)
    return total, power


def heaviest_rows(weights: Floats | None, n: int) -> tuple[NDArray[np.intp], Floats]:
    """Return rows whose mean is a good guess of the mean, and their shares: others may lie anywhere."""
    few = np.linspace(0, n - 1, min(n, FEW)).astype(
        np.intp
    )  # the first rows may be unlike all others
    if weights is None:
        return few, np.full(len(few), 1 / len(few))
    if n > FEW:
        few = np.sort(np.argpartition(weights, -FEW)[-FEW:])
    return few, weights[few] / (weights[few].sum() or 1.0)


def _mean(rows: Floats, share: Floats, dtype: np.dtype[Any]) -> Floats:
    """Return a weighted mean, summed row by row wherever the bytes lie."""
    return np.asarray((share[:, None] * rows).sum(axis=0), dtype=dtype)


def _far_from_zero(rows: Floats, share: Floats) -> bool:
    """Tell whether the mean of any column is large beside its spread."""
    mean, power = np.einsum("i,ij->j", share, rows), np.einsum("i,ij,ij->j", share, rows, rows)
    return bool(np.any(mean**2 > NEAR**2 * (power - mean**2)))
