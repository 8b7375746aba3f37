"""First and second moments of the data in one pass: all that a tall least-squares problem needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.support.arrays import Array, Floats, array_namespace, as_dtype, like, on_host

GUESS_ROWS = 64  # rows whose mean is a good enough guess of the mean
NEAR = 2.0  # standard deviations: a mean so close to zero costs no digits, X is multiplied as it is
CACHED_BYTES = 2**20  # a block stays in the processor's cache between centring and multiplication
CACHED_ROWS = 2**10  # rows of a block, at least, so that a product is worth calling


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
        r"""Return the moments of the rows that remain when a part is removed.

        .. math:: (1-\rho)\bar x' = \bar x - \rho\bar x_\rho, \qquad
            (1-\rho)\hat\Sigma' = \hat\Sigma + dd^T - \rho(\hat\Sigma_\rho + d_\rho d_\rho^T)

        with d the distances of the two means from the new one, and ρ the ``share`` of the weight
        that is removed.
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
    """Means as an origin and small offsets, and second moments about the means.

    Every pair is of features and of targets. Without centring, origin and offset are zero.
    """

    weight: float
    origin: tuple[Floats, Floats]
    offset: tuple[Floats, Floats]
    gram: Floats
    cross: Floats
    target_power: Floats

    def moments(self) -> Moments:
        """Return the means in one piece, and the second moments."""
        feature_mean = self.origin[0] + self.offset[0]
        target_mean = self.origin[1] + self.offset[1]
        return Moments(feature_mean, target_mean, self.gram, self.cross)


def sums(
    X: Any, y: Any, weights: Any, dtype: Any, *, centre: bool, height: int | None = None
) -> Sums:
    """Accumulate the moments block by block: X is read once and never copied whole.

    Blocks are shifted by the mean of a few rows, those of most weight, where that mean is far from
    zero. What the final correction subtracts is then small, so that columns with large means keep
    their digits.

    Parameters
    ----------
    X, y : arrays of shape (n, p) and (n, q)
        Of any numeric type, of one namespace.
    weights : array of shape (n,) or None
        None where all are one.
    dtype : dtype
        Floating type to work in.
    centre : bool
        Whether to subtract the means.
    height : int, optional
        Rows of a block; by default what fits into the cache of a processor.
    """
    xp = array_namespace(X)
    n, p = X.shape
    weight = float(n)
    scale = float(n) or 1.0
    if weights is not None:
        host = on_host(weights)
        weight = float(host.sum(dtype=np.float64))
        # weights over a power of two near the largest, so that products with them do not underflow
        scaled = np.ldexp(host, -np.frexp(host.max(initial=0))[1])
        scale = float(scaled.sum(dtype=np.float64)) or 1.0
        weights = as_dtype(like(X, scaled), dtype)
    shift, target_shift = _shifts(X, y, weights, dtype, centre=centre)
    shifted = bool(xp.any(shift != 0))
    height = height or max(p, CACHED_ROWS, CACHED_BYTES // (8 * p))
    gram: Any = None
    # totals of X, then cross moments
    others = as_dtype(like(X, np.zeros((1 + y.shape[1], p))), dtype)
    target_total = 0 * target_shift
    power = 0 * target_shift
    for start in range(0, n, height):
        rows = slice(start, min(start + height, n))
        features = as_dtype(X[rows], dtype)
        # products of arrays that are not aligned in memory round differently
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
        product = features.T @ features
        gram = product if gram is None else gram + product
        others += left.T @ features
    gram = others[:0].T @ others[:0] if gram is None else gram  # zeros where there is no row
    for summed in (gram, others, target_total, power):
        summed /= scale
    total, cross = others[0], others[1:].T
    if not centre:
        nothing = 0 * total, 0 * target_total
        return Sums(weight, (shift, target_shift), nothing, gram, cross, power)
    gram -= total[:, None] * total
    cross -= total[:, None] * target_total
    power = xp.clip(power - target_total**2, 0, None)
    return Sums(weight, (shift, target_shift), (total, target_total), gram, cross, power)


def _shifts(X: Any, y: Any, weights: Any, dtype: Any, *, centre: bool) -> tuple[Any, Any]:
    """Guess the means from a few rows; zeros for features near zero, and without centring."""
    few, share = heaviest_rows(None if weights is None else on_host(weights), X.shape[0])
    index = like(X, few)
    rows = as_dtype(X[index], dtype)
    targets = as_dtype(y[index], dtype)
    if not centre or not len(few):
        return _row_sum(0 * rows), _row_sum(0 * targets)
    xp = array_namespace(rows)
    share = as_dtype(like(X, share), dtype)[:, None]
    mean = _row_sum(share * rows)
    spread = _row_sum(share * rows * rows) - mean**2
    far = bool(xp.any(mean**2 > NEAR**2 * spread))
    return mean if far else 0 * mean, _row_sum(share * targets)


def _row_sum(rows: Any) -> Any:
    return array_namespace(rows).sum(rows, axis=0)


def heaviest_rows(weights: Floats | None, n: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the numbers of rows whose mean is a good guess of the mean, and their shares."""
    # spread over all rows: the first ones may be unlike the others
    few = np.linspace(0, n - 1, min(n, GUESS_ROWS)).astype(np.intp)
    if weights is None:
        return few, np.full(len(few), 1 / max(len(few), 1))
    if n > GUESS_ROWS:
        few = np.sort(np.argpartition(weights, -GUESS_ROWS)[-GUESS_ROWS:])
    return few, weights[few] / (weights[few].sum() or 1.0)


def checked_weights(sample_weight: ArrayLike, n: int) -> Array:
    """Return weights in double precision; refuse what is not finite and non-negative."""
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be of shape ({n},), one per row; got {weights.shape}."
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise ValueError(
            f"sample_weight must be finite and non-negative; got {weights[wrong][0]!r}."
        )
    return weights
