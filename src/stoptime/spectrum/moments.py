"""First and second moments of the data in one pass, all that tall least squares needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stoptime.support.arrays import Array, Floats, array_namespace, as_dtype, like, on_host, slices

GUESS_ROWS = 64  # rows whose mean is a good enough guess of the mean
NEAR = 2.0  # standard deviations: a mean so close to zero costs no digits, X is multiplied as it is
CACHED_BYTES = 2**20  # a block stays in the processor's cache between centring and multiplication
CACHED_ROWS = 2**10  # least number of rows of a block, so that a product is worth calling


@dataclass(frozen=True)
class Moments:
    r"""Means and centred second moments of (X, y).

    .. math:: \bar x = \sum_i w_i x_i, \qquad
        \hat\Sigma = \sum_i w_i (x_i-\bar x)(x_i-\bar x)^T, \qquad \sum_i w_i = 1

    and likewise the cross moments with y. Without an intercept the means are zero.
    """

    feature_mean: Floats
    target_mean: Floats
    gram: Floats
    cross: Floats

    def without(self, part: Moments, share: float) -> Moments:
        r"""Return the moments of the rows that remain when a part is removed.

        .. math:: (1-\rho)\bar x' = \bar x - \rho\bar x_\rho, \qquad
            (1-\rho)\hat\Sigma' = \hat\Sigma + dd^T - \rho(\hat\Sigma_\rho + d_\rho d_\rho^T)

        with d the distances of the two means from the new one, and ρ the removed ``share`` of the
        weight.
        """
        keep = 1 - share
        feature_mean = (self.feature_mean - share * part.feature_mean) / keep
        target_mean = (self.target_mean - share * part.target_mean) / keep
        d = (self.feature_mean - feature_mean)[:, None]
        d_part = (part.feature_mean - feature_mean)[:, None]
        e = self.target_mean - target_mean
        e_part = part.target_mean - target_mean
        gram = (self.gram + d * d.T - share * (part.gram + d_part * d_part.T)) / keep
        cross = (self.cross + d * e - share * (part.cross + d_part * e_part)) / keep
        return Moments(feature_mean, target_mean, gram, cross)


class Sums(NamedTuple):
    """Means as an origin and small offsets, and second moments about the means."""

    weight: float
    # pairs of features and of targets, zero without centring
    origin: tuple[Floats, Floats]
    offset: tuple[Floats, Floats]
    gram: Floats
    cross: Floats
    target_power: Floats

    def moments(self) -> Moments:
        """Add origin and offset."""
        feature_mean = self.origin[0] + self.offset[0]
        target_mean = self.origin[1] + self.offset[1]
        return Moments(feature_mean, target_mean, self.gram, self.cross)


def sums(
    X: Any, y: Any, weights: Any, dtype: Any, *, centre: bool, height: int | None = None
) -> Sums:
    """Accumulate the moments block by block: X is read once and never copied whole."""
    # sums are computed in dtype, about the means if centre is true; blocks have so many rows that
    # they stay in the cache of a processor, unless a height is given
    xp = array_namespace(X)
    n, p = X.shape
    weight, scale, weights = _scaled(weights, X, dtype)
    shift, target_shift = _shifts(X, y, weights, dtype, centre=centre)
    shifted = bool(xp.any(shift != 0))
    height = height or max(p, CACHED_ROWS, CACHED_BYTES // (8 * p))
    gram = as_dtype(like(X, np.zeros((p, p))), dtype)
    others = as_dtype(like(X, np.zeros((1 + y.shape[1], p))), dtype)  # totals, cross moments
    target_total = 0 * target_shift
    power = 0 * target_shift
    for rows in slices(n, height):
        features = as_dtype(X[rows], dtype)
        # BLAS rounds products of arrays that are not aligned in memory differently
        if not getattr(getattr(features, "flags", None), "aligned", True):
            features = features.copy(order="K")
        if shifted:
            features = features - shift
        targets = as_dtype(y[rows], dtype) - target_shift
        if weights is None:
            target_total += xp.sum(targets, axis=0)
            left = xp.concat([xp.ones_like(targets[:, :1]), targets], axis=1)
        else:
            root = xp.sqrt(weights[rows])[:, None]
            features = features * root
            targets = targets * root
            target_total += xp.sum(root * targets, axis=0)
            left = xp.concat([root, targets], axis=1)
        power += xp.sum(targets * targets, axis=0)
        gram += features.T @ features
        others += left.T @ features
    gram /= scale
    others /= scale
    target_total /= scale
    power /= scale
    total = others[0]
    cross = others[1:].T
    origin = shift, target_shift
    if not centre:
        return Sums(weight, origin, (0 * total, 0 * target_total), gram, cross, power)
    gram -= total[:, None] * total
    cross -= total[:, None] * target_total
    power = xp.clip(power - target_total**2, 0, None)
    return Sums(weight, origin, (total, target_total), gram, cross, power)


def _scaled(weights: Any, X: Any, dtype: Any) -> tuple[float, float, Any]:
    """Return the sum of the weights, and scaled weights where X is, after their own sum."""
    if weights is None:
        return float(X.shape[0]), float(X.shape[0]) or 1.0, None
    host = on_host(weights)
    # dividing weights by a power of two near the largest keeps products from underflow
    scaled = np.ldexp(host, -np.frexp(host.max(initial=0))[1])
    total = float(scaled.sum(dtype=np.float64)) or 1.0
    return float(host.sum(dtype=np.float64)), total, as_dtype(like(X, scaled), dtype)


def _shifts(X: Any, y: Any, weights: Any, dtype: Any, *, centre: bool) -> tuple[Any, Any]:
    """Guess the means from a few rows; zeros for features near zero, and without centring."""
    # subtracting a large mean first leaves little to be cancelled in the second moments
    n = X.shape[0]
    # spread over all rows: the first ones may be unlike the others
    few = np.linspace(0, n - 1, min(n, GUESS_ROWS)).astype(np.intp)
    share = np.full(len(few), 1 / max(len(few), 1))
    if weights is not None:
        host = on_host(weights)
        if n > GUESS_ROWS:
            few = np.sort(np.argpartition(host, -GUESS_ROWS)[-GUESS_ROWS:])
        share = host[few] / (host[few].sum() or 1.0)
    index = like(X, few)
    rows = as_dtype(X[index], dtype)
    targets = as_dtype(y[index], dtype)
    if not centre or not len(few):
        return (0 * rows).sum(axis=0), (0 * targets).sum(axis=0)
    share = as_dtype(like(X, share), dtype)[:, None]
    mean = (share * rows).sum(axis=0)
    spread = (share * rows * rows).sum(axis=0) - mean**2
    far = bool((mean**2 > NEAR**2 * spread).any())
    return mean if far else 0 * mean, (share * targets).sum(axis=0)


def checked_weights(sample_weight: ArrayLike, n: int) -> Array:
    """Return weights in double precision, after checking that they are finite and non-negative."""
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be of shape ({n},), one per row; got {weights.shape}."
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise ValueError(
            f"sample_weight must be finite and non-negative; got {float(weights[wrong][0])}."
        )
    return weights


def sample_sizes(sample_weight: ArrayLike | None, n: int) -> tuple[Floats | None, float, float]:
    """Return weights divided by their sum (None if equal), their sum, and the observation count."""
    if sample_weight is None:
        return None, float(n), float(n)
    weights = checked_weights(on_host(sample_weight), n)
    total = float(weights.sum())
    if not 0 < total < np.inf:
        raise ValueError(
            "sample_weight must have a positive finite sum; with zero weights there are no data."
        )
    return weights / total, total, max(total, float(np.count_nonzero(weights)))
