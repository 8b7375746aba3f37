"""Dense arrays to a spectrum: by XᵀX, by XXᵀ, or by QR and SVD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import linalg
from sklearn.utils import assert_all_finite, check_array, check_consistent_length

from stoptime.moments import Moments, moments
from stoptime.spectrum import DualVectors, Floats, Spectrum, Vectors

GRAM_TOLERANCE = {"float64": 1e-10, "float32": 1e-3}
"""Relative error of the coefficients up to which a product XᵀX or XXᵀ is trusted."""

DTYPES = [np.float64, np.float32]
TINY = float(np.finfo(np.float64).tiny)
CONSTANT = 4.0  # in units of eps·|mean|: a column that varies less is constant


class Centred(NamedTuple):
    """Data with RᵀR = XᵀX/n, what was subtracted, and the mean square of each column."""

    rows: Any
    targets: Floats
    means: tuple[Floats, Floats]
    powers: Floats


@dataclass(frozen=True)
class DenseData:
    """Validated arrays; ``uneven_shares`` are weights divided by their sum, None where all are equal."""

    X: Floats
    y: Floats
    uneven_shares: Floats | None
    n_samples: float
    n_observations: float
    fit_intercept: bool
    single_target: bool

    @classmethod
    def validated(
        cls, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, fit_intercept: bool
    ) -> DenseData:
        """Check the input; X is not searched for NaN: they surface in the products, at no price."""
        if not _is_plain(X, {2}, DTYPES):
            X = check_array(X, dtype=DTYPES, ensure_all_finite=False, input_name="X")
        X = np.asarray(X)
        if _is_plain(y, {1, 2}, [X.dtype]):
            assert_all_finite(y, input_name="y")
        else:
            y = check_array(y, dtype=X.dtype, ensure_2d=False, allow_nd=True, input_name="y")
        y = np.asarray(y)
        if y.ndim > 2 or y.size == 0:
            raise ValueError(f"y must be of shape (n,) or (n, n_targets); got {y.shape}.")
        check_consistent_length(X, y)
        shares, n, observations = sample_sizes(sample_weight, len(X))
        shares = None if shares is None else shares.astype(X.dtype)
        return cls(X, y.reshape(len(y), -1), shares, n, observations, fit_intercept, y.ndim == 1)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the work."""
        return self.X.dtype

    @property
    def shares(self) -> Floats:
        """Sample weights divided by their sum."""
        n = self.X.shape[0]
        even = np.full(n, 1 / n, self.dtype)
        return even if self.uneven_shares is None else self.uneven_shares

    @property
    def rounding(self) -> float:
        """Relative size of the rounding noise in singular values: the one rank cut of the library."""
        return float(np.finfo(self.dtype).eps * max(self.X.shape))

    def centred(self) -> Centred:
        """Centre and weight the data in one new array, laid out for LAPACK to overwrite."""
        shares = self.shares
        root = np.sqrt(shares)[:, None]
        means = np.zeros(self.X.shape[1], self.X.dtype), np.zeros(self.y.shape[1], self.X.dtype)
        if self.fit_intercept:
            means = shares @ self.X, shares @ self.y
        n, p = self.X.shape
        rows = np.empty((n, p), self.X.dtype, order="F" if p <= n else "C")
        np.subtract(self.X, means[0], out=rows)
        if self.fit_intercept:  # once more: the mean of large numbers is itself rounded
            remainder = shares @ rows
            rows -= remainder
            means = means[0] + remainder, means[1]
        rows *= root
        powers = np.einsum("ij,ij->j", rows, rows)
        self.check_finite(powers)
        flat = _constant(powers, means[0])
        rows[:, flat], powers[flat] = 0, 0
        return Centred(rows, root * (self.y - means[1]), means, powers)

    def moments(self) -> Moments:
        """Return means and second moments, in one pass."""
        return moments(self.X, self.y, self.uneven_shares, center=self.fit_intercept)

    def image_lengths(self, vectors: Floats, means: Floats) -> Floats:
        """Return the lengths of images under the centred, weighted X."""
        images = (self.X @ vectors - means @ vectors) * np.sqrt(self.shares)[:, None]
        return np.asarray(np.linalg.norm(images, axis=0))

    def check_finite(self, products: Floats) -> None:
        """Raise a ValueError that tells NaN in X from numbers whose squares overflow."""
        if not np.isfinite(products).all():
            assert_all_finite(self.X, input_name="X")
            raise ValueError(
                f"X is too large: squares of its entries (up to {np.abs(self.X).max():.3g}) overflow in "
                f"{self.X.dtype}. Rescale its columns, for example with StandardScaler."
            )

    def check_underflow(self, largest: float, means: Floats) -> None:
        """Raise a ValueError where the squares of a non-constant X underflow."""
        info = np.finfo(self.X.dtype)
        if largest < info.tiny / info.eps:
            spread = np.abs(self.X - means).max(initial=0, where=self.shares[:, None] > 0)
            if spread > CONSTANT * info.eps * np.abs(means).max(initial=0):
                raise ValueError(
                    f"X is too small: squares of its entries (they vary by {spread:.3g}) underflow in "
                    f"{self.X.dtype}. Rescale its columns, for example with StandardScaler."
                )

    def spectrum(
        self,
        eigenvalues: Floats,
        basis: Floats | DualVectors | Vectors,
        response: Floats,
        means: tuple[Floats, Floats],
        solver: str,
        reach: float,
    ) -> Spectrum:
        """Assemble the result; one target given as a vector stays a vector."""
        residual = self.y - means[1]
        power = np.einsum("i,ij,ij->j", self.shares, residual, residual)
        if not (np.isfinite(power).all() and np.isfinite(response).all()):
            raise ValueError("y is too large: products with its entries overflow. Rescale y.")
        info = np.finfo(self.dtype)
        spread = np.abs(residual[self.shares > 0]).max(axis=0, initial=0)
        if np.any((power < info.tiny / info.eps) & (spread > CONSTANT * info.eps * np.abs(means[1]))):
            raise ValueError("y is too small: squares of its entries underflow. Rescale y.")
        target_mean = means[1]
        if self.single_target:
            response, target_mean, power = response[:, 0], target_mean[0], power[0]
        return Spectrum(
            eigenvalues, basis, response, self.n_samples, self.n_observations,
            means[0], target_mean, power, self.fit_intercept, solver, reach,
        )  # fmt: skip


def by_gram(data: DenseData, known: Moments | None = None) -> Spectrum:
    """Diagonalise the smaller of XᵀX and XXᵀ; ``known`` moments of tall data spare the pass over them."""
    n, p = data.X.shape
    return _by_features(data, known) if p <= n else _by_rows(data)


def _by_features(data: DenseData, known: Moments | None = None) -> Spectrum:
    m = known or data.moments()
    data.check_finite(m.gram)
    flat = _constant(np.diagonal(m.gram), m.feature_mean)
    m.gram[flat], m.gram[:, flat], m.cross[flat] = 0, 0, 0
    eigenvalues, vectors = _eigh(m.gram)
    data.check_underflow(eigenvalues[-1], m.feature_mean)
    response = vectors.T @ m.cross
    kept = eigenvalues > data.rounding * eigenvalues[-1]
    lengths = data.image_lengths(vectors[:, ~kept], m.feature_mean)
    reach = _reach(data, eigenvalues, kept, response, lengths, np.diagonal(m.gram))
    means = m.feature_mean, m.target_mean
    return data.spectrum(eigenvalues[kept], vectors[:, kept], response[kept], means, "gram", reach)


def _by_rows(data: DenseData) -> Spectrum:
    rows, targets, means, powers = data.centred()
    eigenvalues, left = _eigh(rows @ rows.T)
    data.check_underflow(eigenvalues[-1], means[0])
    kept = eigenvalues > data.rounding * eigenvalues[-1]
    lengths = np.sqrt(np.maximum(eigenvalues, 0))
    lengths[~kept] = lengths_of(rows.T, left[:, ~kept])
    response = lengths[:, None] * (left.T @ targets)
    reach = _reach(data, eigenvalues, kept, response, lengths[~kept], powers)
    basis = DualVectors(rows, left[:, kept] / lengths[kept])
    return data.spectrum(eigenvalues[kept], basis, response[kept], means, "gram", reach)


def by_svd(data: DenseData, max_gain: float) -> Spectrum:
    """Take the singular values of a QR factor: exact where squares would lose the small ones."""
    rows, targets, means, powers = data.centred()
    n, p = rows.shape
    if p <= n:
        components, triangle = linalg.qr_multiply(rows, targets.T, mode="right", overwrite_a=True)
        left, lengths, right = _svd(triangle)
        vectors, components = right.T, left.T @ components.T
    else:
        vectors, triangle = linalg.qr(rows.T, mode="economic", overwrite_a=True)
        left, lengths, right = _svd(triangle.T)
        components = left.T @ targets
        _multiply_in_place(vectors, right.T)
    noise = data.rounding * lengths.max(initial=0)
    data.check_underflow(float(lengths.max(initial=0)) ** 2, means[0])
    _check_columns(data, powers, max_gain)
    ascending = slice(int(np.count_nonzero(lengths > noise)) - 1, None, -1) if lengths[0] > 0 else slice(0)
    response = lengths[ascending, None] * components[ascending]
    return data.spectrum(lengths[ascending] ** 2, vectors[:, ascending], response, means, "svd", np.inf)


def lengths_of(matrix: Any, vectors: Floats, width: int = 256) -> Floats:
    """Return the lengths of images under a matrix, a few at a time so that they need little room."""
    parts = [slice(k, k + width) for k in range(0, vectors.shape[1], width)]
    found = [np.linalg.norm(matrix @ vectors[:, part], axis=0) for part in parts]
    return np.concatenate([np.empty(0, vectors.dtype), *found])


def _is_plain(a: ArrayLike, ndims: set[int], dtypes: Sequence[DTypeLike]) -> bool:
    """Tell whether an array would pass every check unchanged: they cost as much as a small product."""
    return type(a) is np.ndarray and a.ndim in ndims and a.size > 0 and a.dtype in dtypes


def sample_sizes(sample_weight: ArrayLike | None, n: int) -> tuple[Floats | None, float, float]:
    """Return weights divided by their sum (None where all are equal), the sum, and observations to count."""
    if sample_weight is None:
        return None, float(n), float(n)
    weights = _weights(sample_weight, n)
    total = float(weights.sum())
    return weights / total, total, max(total, float(np.count_nonzero(weights)))


def _weights(sample_weight: ArrayLike, n: int) -> NDArray[np.float64]:
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must be of shape ({n},), one per row; got {weights.shape}.")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        worst = weights[~(np.isfinite(weights) & (weights >= 0))][0]
        raise ValueError(f"sample_weight must be finite and non-negative; got {worst!r}.")
    if not 0 < weights.sum() < np.inf:
        raise ValueError("sample_weight must have a positive finite sum; all weights zero leaves no data.")
    return weights


def _constant(power: Floats, mean: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary by no more than the rounding of their mean."""
    rounding = CONSTANT * np.finfo(power.dtype).eps * np.abs(mean)
    return np.asarray(power <= rounding * rounding)


def _reach(
    data: DenseData,
    eigenvalues: Floats,
    kept: NDArray[np.bool_],
    response: Floats,
    dropped: Floats,
    powers: Floats,
) -> float:
    r"""Return the gain up to which coefficients by this product keep ``GRAM_TOLERANCE``.

    Eigenvalues are off by about :math:`\epsilon L`, which moves :math:`\varphi z` by the relative
    amount :math:`\epsilon L\min(1/s, \varphi)`. Directions below the rank cut are dropped: harmless
    if their image under X, of length ``dropped``, vanishes to rounding, else they cost
    :math:`\varphi|z|`, to be compared with coefficients of at least :math:`\|z\|/L`.
    """
    if not kept.any():
        return np.inf
    largest, smallest = float(eigenvalues[-1]), float(eigenvalues[kept][0])
    tolerance, eps = GRAM_TOLERANCE[data.dtype.name], np.finfo(data.dtype).eps
    reach = np.inf if eps * largest <= tolerance * smallest else tolerance / (eps * largest)
    real = dropped > data.rounding * np.sqrt(largest)
    lost = np.linalg.norm(response[~kept][real], axis=0)
    total = np.linalg.norm(response, axis=0)
    share = np.max(lost / np.where(total > 0, total, 1), initial=0)
    hidden = powers[_drowned(data, powers)].max(initial=0)
    return float(min([reach, *(tolerance / loss for loss in (largest * share, hidden) if loss > 0)]))


def _drowned(data: DenseData, powers: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary, but too little beside the largest for any route to see them."""
    return np.asarray((powers > 0) & (powers <= data.rounding**2 * powers.max(initial=0)))


def _check_columns(data: DenseData, powers: Floats, max_gain: float) -> None:
    """Raise where a column that no route can see would have been learned."""
    with np.errstate(over="ignore"):
        drowned = _drowned(data, powers) & (powers > GRAM_TOLERANCE[powers.dtype.name] / (max_gain + TINY))
    if drowned.any():
        small, large = np.sqrt([powers[drowned].min(), powers.max()])
        raise ValueError(
            f"Columns of X differ too much in scale ({small:.3g} and {large:.3g}, column "
            f"{int(np.argmax(drowned))} is the first too small to be resolved): rescale them, for "
            "example with StandardScaler."
        )


def _eigh(gram: Floats) -> tuple[Floats, Floats]:
    try:
        eigenvalues, vectors = np.linalg.eigh(gram)
    except np.linalg.LinAlgError:
        raise _no_convergence('use solver="svd"') from None
    return eigenvalues, vectors


def _svd(triangle: Floats) -> tuple[Floats, Floats, Floats]:
    try:
        left, lengths, right = linalg.svd(triangle, full_matrices=False)
    except np.linalg.LinAlgError:
        raise _no_convergence('use solver="gram"') from None
    return left, lengths, right


def _no_convergence(advice: str) -> ValueError:
    return ValueError(f"The factorisation of X did not converge: rescale its columns, or {advice}.")


def _multiply_in_place(tall: Floats, square: Floats, height: int = 4096) -> None:
    """Overwrite ``tall`` by ``tall @ square`` without a second array of its size."""
    for start in range(0, len(tall), height):
        tall[start : start + height] = tall[start : start + height] @ square
