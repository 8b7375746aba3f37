"""Dense arrays to a spectrum: by XᵀX, by XXᵀ, or by QR and SVD."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import linalg
from sklearn.utils import assert_all_finite, check_array, check_consistent_length

from stoptime.spectrum.accuracy import CONSTANT, GRAM_TOLERANCE, check_columns, constant, reach
from stoptime.spectrum.base import DualVectors, Spectrum, Vectors
from stoptime.spectrum.centred import CentredOperator, Mirror
from stoptime.spectrum.moments import NEAR, Moments, moments
from stoptime.spectrum.streamed.statistics import checked_weights
from stoptime.support.arrays import Floats

DTYPES = [np.float64, np.float32]
BLOCK_NUMBERS = 2**22  # of a temporary array
COARSE = 1e-3  # of the standard deviation: a rounding of y that shows in the fit
FAR = 0.05  # of the larger size, in standard deviations: a mean from there on would show in the rank cut


class Centred(NamedTuple):
    """Data with RᵀR = XᵀX/n, what was subtracted, and the mean square of each column."""

    rows: Any
    targets: Floats
    means: tuple[Floats, Floats]
    powers: Floats


@dataclass(frozen=True)
class DenseData:
    """Validated arrays; ``uneven_shares`` are weights divided by their sum, None where there are none."""

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
            given = check_array(y, dtype="numeric", ensure_2d=False, allow_nd=True, input_name="y")
            y = check_array(y, dtype=X.dtype, ensure_2d=False, allow_nd=True, input_name="y")
            _warn_of_coarse(np.asarray(given), np.asarray(y))
        y = np.asarray(y)
        if y.ndim > 2 or y.size == 0:
            raise ValueError(f"y must be of shape (n,) or (n, n_targets); got {y.shape}.")
        if len(X) != len(y):
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
    def eps(self) -> float:
        """The rounding unit of the precision that is worked in."""
        return float(np.finfo(self.dtype).eps)

    @property
    def rounding(self) -> float:
        """Relative size of the rounding noise in singular values: the one rank cut of the library."""
        return self.eps * max(self.X.shape)

    @property
    def tolerance(self) -> float:
        """Relative error of the coefficients up to which products of X with itself are trusted."""
        return GRAM_TOLERANCE[self.dtype.name]

    numbers_at_once: ClassVar[int] = (
        2**21
    )  # 16 MB: a block of rows and its products stay in the cache

    def as_given(self, values: Floats) -> Floats:
        """Return values in the precision of X."""
        return values.astype(self.dtype, copy=False)

    def rotated(self, index: Any, mean: Floats, vectors: Floats) -> Floats:
        """Return some centred rows times vectors."""
        return np.asarray((self.X[index] - mean) @ vectors)

    def centred_in_products(self) -> Centred:
        """Return the data as they are, to be centred in their products; copied where that costs digits."""
        means, squares = self._means(), self._squares()
        powers = squares - means[0] ** 2
        far = np.any(means[0] ** 2 > NEAR**2 * powers)
        if far or not np.isfinite(squares.sum() * len(self.X)):
            return self.centred()
        root = np.sqrt(self.shares)
        rows = CentredOperator(self.X, root, self.fit_intercept)
        return Centred(rows, root[:, None] * (self.y - means[1]), means, powers)

    def _squares(self) -> Floats:
        """Return the mean square of every column."""
        if self.uneven_shares is None:
            return np.einsum("ij,ij->j", self.X, self.X) / self.dtype.type(len(self.X))
        return np.einsum("i,ij,ij->j", self.uneven_shares, self.X, self.X)

    def _means(self) -> tuple[Floats, Floats]:
        """Return what centring subtracts."""
        if self.fit_intercept:
            return self.shares @ self.X, self.shares @ self.y
        return np.zeros(self.X.shape[1], self.dtype), np.zeros(self.y.shape[1], self.dtype)

    def centred(self) -> Centred:
        """Centre and weight the data in one new array, laid out for LAPACK to overwrite."""
        root, means = np.sqrt(self.shares)[:, None], self._means()
        n, p = self.X.shape
        rows = np.empty((n, p), self.X.dtype, order="F" if p <= n else "C")
        np.subtract(self.X, means[0], out=rows)
        rows *= root if self.uneven_shares is not None else root[0, 0]
        powers = np.einsum("ij,ij->j", rows, rows)
        self.check_finite(powers)
        if self.fit_intercept and np.any(means[0] ** 2 > (FAR * max(n, p)) ** 2 * powers):
            remainder = root[:, 0] @ rows  # once more: the mean of large numbers is itself rounded
            rows -= root * remainder
            means = means[0] + remainder, means[1]
            powers = np.einsum("ij,ij->j", rows, rows)
        flat = constant(powers, means[0])
        rows[:, flat], powers[flat] = 0, 0
        return Centred(rows, root * (self.y - means[1]), means, powers)

    def moments(self) -> Moments:
        """Return means and second moments, in one pass."""
        return moments(self.X, self.y, self.uneven_shares, centre=self.fit_intercept)

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
            weighs = self.shares > 0
            spread = np.abs(self.X - means).max(initial=0, where=weighs[:, None])
            ordinary = np.sqrt(
                info.tiny / info.eps / self.shares[weighs].min()
            )  # a constant column's may be
            if CONSTANT * info.eps * np.abs(means).max(initial=0) < spread < ordinary:
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
        power, spread = self._target_sizes(means[1])
        if not (np.isfinite(power).all() and np.isfinite(response).all()):
            raise ValueError("y is too large: products with its entries overflow. Rescale y.")
        info = np.finfo(self.dtype)
        if np.any(
            (power < info.tiny / info.eps) & (spread > CONSTANT * info.eps * np.abs(means[1]))
        ):
            raise ValueError("y is too small: squares of its entries underflow. Rescale y.")
        target_mean = means[1]
        if self.single_target:
            response, target_mean, power = response[:, 0], target_mean[0], power[0]
        return Spectrum(
            eigenvalues, basis, response, self.n_samples, self.n_observations,
            means[0], target_mean, power, self.fit_intercept, solver, reach,
        )  # fmt: skip

    def _target_sizes(self, means: Floats) -> tuple[Floats, Floats]:
        """Return mean squares and largest sizes of the centred targets, some rows at a time."""
        power, spread = np.zeros_like(means), np.zeros_like(means)
        height = max(1, BLOCK_NUMBERS // self.y.shape[1])
        for start in range(0, len(self.y), height):
            rows = slice(start, start + height)
            residual = self.y[rows] - means
            power += np.einsum("i,ij,ij->j", self.shares[rows], residual, residual)
            sizes = np.abs(residual, out=residual)
            spread = np.maximum(
                spread, sizes.max(axis=0, where=self.shares[rows, None] > 0, initial=0)
            )
        return power, spread


def by_gram(data: DenseData, known: Moments | None = None) -> Spectrum:
    """Diagonalise the smaller of XᵀX and XXᵀ; ``known`` moments of tall data spare the pass over them."""
    n, p = data.X.shape
    return _by_features(data, known) if p <= n else _by_rows(data)


def _by_features(data: DenseData, known: Moments | None = None) -> Spectrum:
    m = known or data.moments()
    data.check_finite(m.gram)
    flat = constant(np.diagonal(m.gram), m.feature_mean)
    if flat.any():
        m.gram[flat], m.gram[:, flat], m.cross[flat] = 0, 0, 0
    eigenvalues, vectors = _eigh(m.gram)
    data.check_underflow(eigenvalues[-1], m.feature_mean)
    response = vectors.T @ m.cross
    kept = eigenvalues > data.rounding * eigenvalues[-1]
    dropped = (
        eigenvalues[:0] if kept.all() else data.image_lengths(vectors[:, ~kept], m.feature_mean)
    )
    far = reach(data, eigenvalues, kept, response, dropped, np.diagonal(m.gram))
    means = m.feature_mean, m.target_mean
    return data.spectrum(eigenvalues[kept], vectors[:, kept], response[kept], means, "gram", far)


def _by_rows(data: DenseData) -> Spectrum:
    rows, targets, means, powers = data.centred_in_products()
    product = rows @ rows.T
    data.check_finite(product)
    if data.fit_intercept and len(product) > 1:
        mirror = Mirror.onto_first(np.sqrt(data.shares))
        eigenvalues, left = _eigh(mirror.without_first(product))
        left = mirror.with_first(left)
    else:
        eigenvalues, left = _eigh(product)
    data.check_underflow(eigenvalues[-1], means[0])
    kept = eigenvalues > data.rounding * eigenvalues[-1]
    lengths = np.sqrt(np.maximum(eigenvalues, 0))
    lengths[~kept] = lengths_of(rows.T, left[:, ~kept])
    response = lengths[:, None] * (left.T @ targets)
    far = reach(data, eigenvalues, kept, response, lengths[~kept], powers)
    basis = DualVectors(rows, left[:, kept] / lengths[kept])
    return data.spectrum(eigenvalues[kept], basis, response[kept], means, "gram", far)


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
    check_columns(data, powers, max_gain)
    ascending = (
        slice(int(np.count_nonzero(lengths > noise)) - 1, None, -1) if lengths[0] > 0 else slice(0)
    )
    response = lengths[ascending, None] * components[ascending]
    return data.spectrum(
        lengths[ascending] ** 2, vectors[:, ascending], response, means, "svd", np.inf
    )


def lengths_of(matrix: Any, vectors: Floats, width: int = 256) -> Floats:
    """Return the lengths of images under a matrix, a few at a time so that they need little room."""
    parts = [slice(k, k + width) for k in range(0, vectors.shape[1], width)]
    found = [np.linalg.norm(matrix @ vectors[:, part], axis=0) for part in parts]
    return np.concatenate([np.empty(0, vectors.dtype), *found])


def _is_plain(a: ArrayLike, ndims: set[int], dtypes: Sequence[DTypeLike]) -> bool:
    """Tell whether an array would pass every check unchanged: they cost as much as a small product."""
    return type(a) is np.ndarray and a.ndim in ndims and a.size > 0 and a.dtype in dtypes


def _warn_of_coarse(given: Floats, rounded: Floats) -> None:
    """Warn where single precision leaves little of how y varies."""
    if rounded.dtype == np.float64 or given.dtype.kind not in "iuf":
        return
    moved, spread = np.abs(rounded - given).max(axis=0), given.std(axis=0)
    if np.any((moved > COARSE * spread) & (spread > 0)):
        warnings.warn(
            "y keeps few digits in the single precision of X, as its mean is far larger than its standard "
            "deviation: subtract the mean first, or give X as float64.",
            UserWarning,
            stacklevel=2,
        )


def sample_sizes(sample_weight: ArrayLike | None, n: int) -> tuple[Floats | None, float, float]:
    """Return weights divided by their sum (None where there are none), the sum, and observations to count."""
    if sample_weight is None:
        return None, float(n), float(n)
    weights = checked_weights(sample_weight, n)
    total = float(weights.sum())
    if not 0 < total < np.inf:
        raise ValueError(
            "sample_weight must have a positive finite sum; all weights zero leaves no data."
        )
    return weights / total, total, max(total, float(np.count_nonzero(weights)))


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
