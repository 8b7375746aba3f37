"""First and second moments of the data in one pass: all that a tall least-squares problem needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stoptime.spectrum import Floats

OPENING = 64  # rows whose mean is a good enough guess of the mean
NEAR = 2.0  # standard deviations: a mean so close to zero costs no digits, and X is multiplied as it is
BLOCK_BYTES = 2**21  # a block stays in the processor's cache between centring and multiplication


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


def moments(X: Floats, y: Floats, shares: Floats | None, *, center: bool) -> Moments:
    """Accumulate the moments block by block: X is read once and never copied whole.

    Blocks are shifted by the mean of the opening rows where that is far from zero. What the final correction
    subtracts is then small, so that columns with large means keep their digits.

    Parameters
    ----------
    X : array of shape (n, p)
    y : array of shape (n, q)
    shares : array of shape (n,) or None
        Weights that sum to one; None where all are equal.
    center : bool
        Whether to subtract the means.
    """
    n, p = X.shape
    feature_shift, target_shift = np.zeros(p, X.dtype), np.zeros(y.shape[1], X.dtype)
    if center and _far_from_zero(X[:OPENING]):
        feature_shift = X[:OPENING].mean(axis=0)
    if center:
        target_shift = y[:OPENING].mean(axis=0)
    as_it_is = shares is None and not feature_shift.any()
    height = min(n, max(p, -(-n // max(1, X.nbytes // BLOCK_BYTES))))
    gram = np.zeros((p, p), X.dtype)
    others = np.zeros((1 + y.shape[1], p), X.dtype)  # totals, then cross moments
    target_total = np.zeros_like(target_shift)
    buffer = np.empty((0 if as_it_is else height, p), X.dtype)
    for start in range(0, n, height):
        rows = slice(start, min(start + height, n))
        features = X[rows]
        if not as_it_is:
            features = np.subtract(features, feature_shift, out=buffer[: rows.stop - start])
        left = np.column_stack([np.ones(rows.stop - start, X.dtype), y[rows] - target_shift])
        if shares is not None:
            root = np.sqrt(shares[rows])[:, None]
            features *= root
            left *= root
        gram += features.T @ features
        others += left.T @ features
        target_total += left[:, 0] @ left[:, 1:]
    if shares is None:
        gram, others, target_total = gram / n, others / n, target_total / n
    total, cross = others[0], others[1:].T
    if center:
        gram -= np.multiply.outer(total, total)
        cross -= np.multiply.outer(total, target_total)
        feature_shift, target_shift = feature_shift + total, target_shift + target_total
    return Moments(feature_shift, target_shift, gram, cross)


def _far_from_zero(opening: Floats) -> bool:
    """Tell whether the mean of any column is large beside its spread."""
    return bool(np.any(np.abs(opening.mean(axis=0)) > NEAR * opening.std(axis=0)))
