"""Dense arrays to a spectrum: by XᵀX, by XXᵀ, or by QR and SVD.

The same code serves NumPy, torch and CuPy. Arrays of NumPy are worked on in their own precision.
Arrays on a device are widened to double precision block by block, so that products lose no digits;
eigenvalues and the rotated response, which are small, come to the host, where filters are evaluated.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import linalg
from sklearn.model_selection import check_cv
from sklearn.utils import assert_all_finite, check_array, check_consistent_length

from stoptime.spectrum.accuracy import CONSTANT, GRAM_TOLERANCE, check_columns, constant, reach
from stoptime.spectrum.base import DualVectors, Spectrum
from stoptime.spectrum.centred import CentredOperator, Mirror
from stoptime.spectrum.data import (
    EVERYTHING,
    Data,
    Fold,
    Goal,
    TestErrors,
    largest_gain,
    row_numbers,
)
from stoptime.spectrum.kinds import DTYPES, new_rows
from stoptime.spectrum.moments import NEAR, Moments, checked_weights, sums
from stoptime.support.arrays import (
    Array,
    Floats,
    array_namespace,
    as_dtype,
    as_float64,
    is_device_array,
    like,
    on_host,
)

if TYPE_CHECKING:
    from stoptime.paths import Path

TEMPORARY_NUMBERS = 2**17  # of a temporary array: a megabyte, which stays in the cache
COARSE_ROUNDING = 1e-3  # of the standard deviation: a rounding of y that shows in the fit
FAR_MEAN = 0.05  # of the larger size, in standard deviations: such a mean shows in the rank cut
PREDICTED_NUMBERS = 2**23  # predictions held at once while a path is tested
CANCELLED_SHARE = 1e-6  # of a variance that must remain for a difference of moments to be exact


class Centred(NamedTuple):
    """Data with RᵀR = XᵀX/n, what was subtracted, and the mean square of each column."""

    rows: Any
    targets: Any
    means: tuple[Any, Any]
    powers: Floats


@dataclass(frozen=True)
class DenseData(Data):
    """Validated arrays; ``uneven_shares`` are weights divided by their sum, None where even."""

    X: Any
    y: Any
    uneven_shares: Any
    n_samples: float
    n_observations: float
    fit_intercept: bool
    single_target: bool
    known: Moments | None = None
    """Moments that are known already, which spares a pass over tall data."""

    @classmethod
    def validated(
        cls, X: Any, y: Any, sample_weight: ArrayLike | None, fit_intercept: bool
    ) -> DenseData:
        """Check the input; X is not searched for NaN, which surface in its products at no cost."""
        if y is None:
            raise ValueError("y must be given with X.")
        with np.errstate(over="ignore", invalid="ignore"):  # sums that find NaN need not warn too
            X, y = _checked_device(X, y) if is_device_array(X) else _checked_host(X, y)
        shares, n, observations = sample_sizes(sample_weight, X.shape[0])
        if shares is not None:
            shares = as_dtype(like(X, shares), _working_dtype(X))
        columns = y.reshape(y.shape[0], -1)
        return cls(X, columns, shares, n, observations, fit_intercept, y.ndim == 1)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def n_targets(self) -> int:
        """Number of columns of y."""
        return int(self.y.shape[1])

    @property
    def dtype(self) -> Any:
        """The precision of the work."""
        return _working_dtype(self.X)

    @cached_property
    def shares(self) -> Any:
        """Sample weights divided by their sum."""
        if self.uneven_shares is not None:
            return self.uneven_shares
        return as_dtype(like(self.X, np.full(self.n_rows, 1 / self.n_rows)), self.dtype)

    @property
    def row_weights(self) -> Floats | None:
        """Sample weights of the rows, on the host; None where all are one."""
        if self.uneven_shares is None:
            return None
        return np.asarray(on_host(self.uneven_shares), np.float64) * self.n_samples

    @property
    def eps(self) -> float:
        """The rounding unit of the precision that is worked in."""
        return float(array_namespace(self.X).finfo(self.dtype).eps)

    @property
    def rounding(self) -> float:
        """Relative size of the rounding noise in singular values: the one rank cut."""
        return self.eps * max(self.X.shape)

    @property
    def tolerance(self) -> float:
        """Relative error of the coefficients up to which products of X with itself are trusted."""
        return GRAM_TOLERANCE["float64" if self.eps < 1e-10 else "float32"]

    @property
    def on_device(self) -> bool:
        """Whether the data are on a device, or in torch's hands."""
        return is_device_array(self.X)

    @property
    def numbers_at_once(self) -> int:
        """Size of a block of rows and its products: what stays in a cache, or keeps a GPU busy."""
        return 2**27 if self.on_device else 2**21

    def as_given(self, values: Any) -> Any:
        """Return values in the precision of X."""
        return as_dtype(values, self.X.dtype)

    def rotated(self, index: Any, mean: Any, vectors: Any) -> Any:
        """Return some centred rows times vectors."""
        return (self.X[index] - mean) @ vectors

    def spectrum(self, wanted: Sequence[Goal] = EVERYTHING, solver: str = "auto") -> Spectrum:
        """Factor by "gram", by "svd", or by whichever is accurate enough."""
        max_gain = largest_gain(wanted)
        if solver == "krylov":
            raise TypeError(
                'solver="krylov" is for sparse matrices and operators; see '
                "scipy.sparse.linalg.aslinearoperator."
            )
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is looked for in the products
            if solver != "svd":
                spectrum = self._by_gram
                if solver == "gram" or max_gain <= spectrum.reach:
                    return spectrum
            return by_svd(self, max_gain)

    @cached_property
    def _by_gram(self) -> Spectrum:
        return by_features(self) if self.n_features <= self.n_rows else by_rows(self)

    def blocks(self, width: int | None = None) -> Iterator[slice]:
        """Cut the rows into blocks whose temporary copies, of X or so wide, are small."""
        numbers = self.numbers_at_once if self.on_device else TEMPORARY_NUMBERS
        height = max(1, numbers // (width or self.n_features))
        return (slice(start, start + height) for start in range(0, self.n_rows, height))

    def moments(self) -> Moments:
        """Return means and second moments, in one pass."""
        if self.known is not None:
            return self.known
        height = max(1, self.numbers_at_once // self.n_features) if self.on_device else None
        found = sums(
            self.X,
            self.y,
            self.uneven_shares,
            self.dtype,
            centre=self.fit_intercept,
            height=height,
        )
        return found.moments()

    def _means(self) -> tuple[Any, Any]:
        """Return what centring subtracts."""
        X = as_dtype(self.X, self.dtype)
        y = as_dtype(self.y, self.dtype)
        if self.fit_intercept:
            return self.shares @ X, self.shares @ y
        return 0 * X[0], 0 * y[0]

    def _mean_squares(self, rows: Any, weights: Any = None) -> Any:
        """Return the (weighted) sum of squares of every column, a block of rows at a time."""
        xp = array_namespace(rows)
        total = 0 * rows[0]
        for part in self.blocks():
            squares = as_dtype(rows[part], self.dtype) ** 2
            total = total + (
                xp.sum(squares, axis=0) if weights is None else weights[part] @ squares
            )
        return total

    def centred_in_products(self) -> Centred:
        """Return the data as they are, to be centred in products; copied where digits are at risk."""
        means = self._means()
        squares = as_dtype(self._mean_squares(self.X, self.uneven_shares), self.dtype)
        if self.uneven_shares is None:
            squares = squares / self.n_rows
        host_means = on_host(means[0])
        powers = on_host(squares) - host_means**2
        far = np.any(host_means**2 > NEAR**2 * powers)
        if far or not np.isfinite(on_host(squares).sum() * self.n_rows):
            return self.centred()
        root = self.shares**0.5
        rows = CentredOperator(as_dtype(self.X, self.dtype), root, self.fit_intercept)
        targets = root[:, None] * (as_dtype(self.y, self.dtype) - means[1])
        return Centred(rows, targets, means, powers)

    def centred(self) -> Centred:
        """Centre and weight the data in one new array, laid out for LAPACK to overwrite."""
        root = (self.shares**0.5)[:, None]
        means = self._means()
        if self.on_device:
            rows = as_dtype(self.X, self.dtype) - means[0]
        else:
            order: Literal["C", "F"] = "F" if self.n_features <= self.n_rows else "C"
            rows = np.empty(self.X.shape, self.dtype, order=order)
            np.subtract(self.X, means[0], out=rows)
        rows *= root if self.uneven_shares is not None else root[0, 0]
        powers = on_host(self._mean_squares(rows))
        self.check_finite(powers)
        limit = (FAR_MEAN * max(self.X.shape)) ** 2
        if self.fit_intercept and np.any(on_host(means[0]) ** 2 > limit * powers):
            # centre once more: the mean of large numbers is itself rounded
            remainder = root[:, 0] @ rows
            rows -= root * remainder
            means = means[0] + remainder, means[1]
            powers = on_host(self._mean_squares(rows))
        flat = constant(powers, on_host(means[0]))
        rows[:, like(rows, flat)] = 0
        targets = root * (as_dtype(self.y, self.dtype) - means[1])
        return Centred(rows, targets, means, np.where(flat, 0, powers))

    def image_lengths(self, vectors: Any, means: Any) -> Floats:
        """Return the lengths of images under the centred, weighted X."""
        if not vectors.shape[1]:
            return np.empty(0)
        total = 0 * (means @ vectors)
        for rows in self.blocks():
            images = (as_dtype(self.X[rows], self.dtype) - means) @ vectors
            total = total + self.shares[rows] @ images**2
        return np.asarray(np.sqrt(on_host(total)))

    def check_finite(self, products: Any) -> None:
        """Raise a ValueError that tells NaN in X from numbers whose squares overflow."""
        xp = array_namespace(products)
        if bool(xp.all(xp.isfinite(products))):
            return
        assert_all_finite(on_host(self.X), input_name="X")
        largest = float(np.abs(on_host(self.X)).max())
        raise ValueError(
            f"X is too large: squares of its entries (up to {largest:.3g}) overflow in "
            f"{self.dtype}. Rescale its columns, for example with StandardScaler."
        )

    def check_underflow(self, largest: float, means: Any) -> None:
        """Raise a ValueError where the squares of a non-constant X underflow."""
        tiny = float(np.finfo(np.float64 if self.eps < 1e-10 else np.float32).tiny)
        if largest >= tiny / self.eps:
            return
        weights = on_host(self.shares)
        weighs = weights > 0
        centre = on_host(means)
        spread = np.abs(on_host(self.X) - centre).max(initial=0, where=weighs[:, None])
        # a constant column of ordinary size may leave a remainder of its mean
        ordinary = np.sqrt(tiny / self.eps / weights[weighs].min())
        if CONSTANT * self.eps * np.abs(centre).max(initial=0) < spread < ordinary:
            raise ValueError(
                f"X is too small: squares of its entries (they vary by {spread:.3g}) underflow in "
                f"{self.dtype}. Rescale its columns, for example with StandardScaler."
            )

    def assembled(
        self,
        eigenvalues: Floats,
        basis: Any,
        response: Floats,
        means: tuple[Any, Any],
        solver: str,
        far: float,
    ) -> Spectrum:
        """Assemble the result; one target given as a vector stays a vector."""
        power, spread = self._target_sizes(means[1])
        if not (np.isfinite(power).all() and np.isfinite(response).all()):
            raise ValueError("y is too large: products with its entries overflow. Rescale y.")
        tiny = np.finfo(power.dtype).tiny / self.eps
        varies = spread > CONSTANT * self.eps * np.abs(on_host(means[1]))
        if np.any((power < tiny) & varies):
            raise ValueError("y is too small: squares of its entries underflow. Rescale y.")
        target_mean = means[1]
        if self.single_target:
            response = response[:, 0]
            target_mean = target_mean[0]
            power = power[0]
        return Spectrum(
            eigenvalues,
            basis,
            response,
            self.n_samples,
            self.n_observations,
            means[0],
            target_mean,
            power,
            self.fit_intercept,
            solver,
            far,
            precision=self.X.dtype if self.on_device else None,
        )

    def _target_sizes(self, means: Any) -> tuple[Floats, Floats]:
        """Return mean squares and largest sizes of the centred targets, some rows at a time."""
        xp = array_namespace(self.y)
        power = 0 * means
        spread = 0 * means
        for rows in self.blocks(self.n_targets):
            residual = as_dtype(self.y[rows], self.dtype) - means
            share = self.shares[rows, None]
            power = power + xp.sum(share * residual**2, axis=0)
            sizes = xp.max(xp.abs(residual) * as_dtype(share > 0, self.dtype), axis=0)
            spread = xp.maximum(spread, sizes)
        return on_host(power), on_host(spread)

    def subset(self, rows: NDArray[np.intp]) -> DenseData:
        """Return some of the rows."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        index = like(self.X, rows)
        y = self.y[index][:, 0] if self.single_target else self.y[index]
        return type(self).validated(self.X[index], y, weights, self.fit_intercept)

    def folds(self, cv: Any, groups: ArrayLike | None, *, verbose: bool = False) -> list[Fold]:  # noqa: ARG002
        """Return the folds of a splitter, its training sets with their moments where X is tall."""
        splits = self._splits(cv, groups)
        tall = self.n_features <= min(len(train) for train, _ in splits)
        whole = replace(self, known=self.moments()) if tall else self
        return [
            Fold(whole.training_set(train, test), self.rows_to_test(test, train))
            for train, test in splits
        ]

    def _splits(
        self, cv: Any, groups: ArrayLike | None
    ) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        n = self.n_rows
        X = self.X if isinstance(self.X, np.ndarray) else np.zeros((n, 1))  # splitters count rows
        y = on_host(self.y[:, 0] if self.single_target else self.y)
        drawn = check_cv(cv).split(X, y, groups)
        splits = [(row_numbers(train, n), row_numbers(test, n)) for train, test in drawn]
        weights = self.row_weights
        if weights is not None:  # a test set without weight tests nothing
            splits = [(train, test) for train, test in splits if np.any(weights[test] > 0)]
        if not splits:
            raise ValueError(
                "cv must give at least one pair of training and test rows; it gave none."
            )
        return splits

    def training_set(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> Data:
        """Return a training set; its moments are those of all rows less those of the test set."""
        data = self.subset(train)
        rest = np.sort(np.concatenate([train, test]))
        if self.known is None or not np.array_equal(rest, np.arange(self.n_rows)):
            return data
        part = self.subset(test)
        share = part.n_samples / (part.n_samples + data.n_samples)
        known = self.known.without(part.moments(), share)
        # where little of a variance is left the difference has lost its digits
        lost = _diagonal(known.gram) < CANCELLED_SHARE * _diagonal(self.known.gram)
        return data if lost.any() else replace(data, known=known)

    def rows_to_test(self, test: NDArray[np.intp], train: NDArray[np.intp]) -> RowsToTest:  # noqa: ARG002
        """Return some of the rows as a test set."""
        index = like(self.X, test)
        return RowsToTest(self.X[index], self.y[index], self._test_weights(test))

    def _test_weights(self, test: NDArray[np.intp]) -> Array:
        weights = self.row_weights
        return np.ones(len(test)) if weights is None else weights[test] / weights.max()

    @property
    def _columns(self) -> tuple[int, ...]:
        return (self.n_features,) if self.single_target else (self.n_features, self.n_targets)

    def test_set(self, X: Any, y: ArrayLike) -> RowsToTest:
        """Return new rows as a test set."""
        X = new_rows(X, self.X, dtype=self.dtype, name="X_val")
        if self.on_device:
            return checked_test(*_checked_device(X, y), self._columns)
        y = np.asarray(check_array(y, dtype=self.dtype, ensure_2d=False, input_name="y_val"))
        return checked_test(X, y, self._columns)


@dataclass(frozen=True)
class RowsToTest:
    """Rows in memory, their response of shape (n, n_targets), and their weights on the host."""

    X: Any
    y: Any
    weights: Array

    def errors(self, draw: Callable[[Array], Path], stops: Array, units: Array) -> TestErrors:
        """Sum powers of the prediction errors, a bounded number of stops at a time."""
        sums = np.empty((3, len(stops), self.y.shape[1]))
        shares = like(self.y, self.weights)
        scale = like(self.y, units)
        height = max(1, PREDICTED_NUMBERS // (max(self.X.shape) * self.y.shape[1]))
        for start in range(0, len(stops), height):
            part = slice(start, start + height)
            fit = draw(stops[part]).predict(self.X)
            errors = as_float64(fit.reshape(fit.shape[0], *self.y.shape) - self.y)
            squares = (errors / scale) ** 2
            powers = shares @ squares, shares**2 @ squares, shares**2 @ squares**2
            sums[:, part] = [on_host(power) for power in powers]
        return TestErrors(float(self.weights.sum()), float(self.weights @ self.weights), *sums)


def checked_test(X: Any, y: Any, columns: tuple[int, ...]) -> RowsToTest:
    """Return a test set; refuse one that has other columns than the training set."""
    check_consistent_length(np.empty((X.shape[0], 0)), np.empty((y.shape[0], 0)))
    if (X.shape[1], *y.shape[1:]) != columns:
        raise ValueError(
            f"The validation set has shapes {tuple(X.shape)} and {tuple(y.shape)}, which do not "
            f"fit the training data of {columns[0]} features"
            + (f" and {columns[1]} targets." if len(columns) > 1 else " and a vector y.")
        )
    return RowsToTest(X, y.reshape(y.shape[0], -1), np.ones(y.shape[0]))


def by_features(data: DenseData) -> Spectrum:
    """Diagonalise XᵀX."""
    m = data.moments()
    data.check_finite(m.gram)
    powers = on_host(_diagonal(m.gram))
    # of a constant column rounding alone is left: zeros keep it out of every direction
    flat = constant(powers, on_host(m.feature_mean))
    if flat.any():
        mask = like(m.gram, flat)
        m.gram[mask] = 0
        m.gram[:, mask] = 0
        m.cross[mask] = 0
        powers = np.where(flat, 0, powers)
    eigenvalues, vectors = _eigh(m.gram)
    data.check_underflow(eigenvalues[-1], m.feature_mean)
    response = on_host(vectors.T @ m.cross)
    first = _rank_cut(eigenvalues, data.rounding)
    dropped = data.image_lengths(vectors[:, :first], m.feature_mean)
    far = reach(data, eigenvalues, first, response, dropped, powers)
    means = m.feature_mean, m.target_mean
    basis = vectors[:, first:]
    return data.assembled(eigenvalues[first:], basis, response[first:], means, "gram", far)


def by_rows(data: DenseData) -> Spectrum:
    """Diagonalise XXᵀ, whose eigenvectors give those of XᵀX as combinations of the rows."""
    rows, targets, means, powers = data.centred_in_products()
    product = rows @ rows.T
    data.check_finite(product)
    if data.fit_intercept and len(product) > 1:
        # centring leaves a null direction, which is mirrored onto the first axis and cut off
        mirror = Mirror.onto_first(data.shares**0.5)
        eigenvalues, left = _eigh(mirror.without_first(product))
        left = mirror.with_first(left)
    else:
        eigenvalues, left = _eigh(product)
    data.check_underflow(eigenvalues[-1], means[0])
    first = _rank_cut(eigenvalues, data.rounding)
    lengths = np.sqrt(np.maximum(eigenvalues, 0))
    lengths[:first] = lengths_of(rows.T, left[:, :first])
    response = lengths[:, None] * on_host(left.T @ targets)
    far = reach(data, eigenvalues, first, response, lengths[:first], powers)
    basis = DualVectors(rows, left[:, first:] / like(left, lengths[first:]))
    return data.assembled(eigenvalues[first:], basis, response[first:], means, "gram", far)


def by_svd(data: DenseData, max_gain: float) -> Spectrum:
    """Take the singular values of a QR factor: exact where squares would lose the small ones."""
    rows, targets, means, powers = data.centred()
    data.check_finite(powers)
    n, p = rows.shape
    if p <= n:
        components, triangle = _projected(rows, targets)
        left, lengths, right = _svd(triangle)
        vectors = right.T
        components = left.T @ components
    else:
        vectors, triangle = _qr(rows.T)
        left, lengths, right = _svd(triangle.T)
        components = left.T @ targets
        vectors = _multiplied(vectors, right.T)
    data.check_underflow(float(lengths.max(initial=0)) ** 2, means[0])
    check_columns(data, powers, max_gain)
    first = _rank_cut(lengths, data.rounding)
    response = lengths[first:, None] * on_host(components)[first:]
    vectors[like(vectors, powers == 0)] = 0  # a constant column has coefficients of exactly zero
    basis = vectors[:, first:]
    return data.assembled(lengths[first:] ** 2, basis, response, means, "svd", np.inf)


def _rank_cut(ascending: Floats, rounding: float) -> int:
    """Return how many of the smallest values are but rounding of the largest."""
    return int(np.searchsorted(ascending, rounding * ascending[-1], side="right"))


def lengths_of(matrix: Any, vectors: Any, width: int = 256) -> Floats:
    """Return the lengths of images under a matrix, a few at a time so that they need little room."""
    found = [np.empty(0)]
    for k in range(0, vectors.shape[1], width):
        images = matrix @ vectors[:, k : k + width]
        found.append(on_host((images**2).sum(axis=0) ** 0.5))
    return np.concatenate(found)


def _diagonal(matrix: Any) -> Any:
    return array_namespace(matrix).linalg.diagonal(matrix)


def _working_dtype(X: Any) -> Any:
    """Return the precision of the work: that of a NumPy array, and double precision on a device."""
    return array_namespace(X).float64 if is_device_array(X) else X.dtype


def _checked_host(X: Any, y: Any) -> tuple[Floats, Floats]:
    """Return NumPy arrays of one floating type, as scikit-learn checks them."""
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
    return X, y


def _is_plain(a: ArrayLike, ndims: set[int], dtypes: Sequence[DTypeLike]) -> bool:
    """Tell whether an array passes every check unchanged: checks cost as much as a small product."""
    return type(a) is np.ndarray and a.ndim in ndims and a.size > 0 and a.dtype in dtypes


def _warn_of_coarse(given: Floats, rounded: Floats) -> None:
    """Warn where single precision leaves little of the variation of y."""
    if rounded.dtype == np.float64 or given.dtype.kind not in "iuf":
        return
    moved = np.abs(rounded - given).max(axis=0)
    spread = given.std(axis=0)
    if np.any((moved > COARSE_ROUNDING * spread) & (spread > 0)):
        warnings.warn(
            "y keeps few digits in the single precision of X, as its mean is far larger than its "
            "standard deviation: subtract the mean first, or give X as float64.",
            UserWarning,
            stacklevel=2,
        )


def _checked_device(X: Any, y: Any) -> tuple[Any, Any]:
    """Return arrays of one device and a floating type; y may be anything that can be converted."""
    xp = array_namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be an array of shape (n, p), not empty; got {tuple(X.shape)}.")
    whole = xp.isdtype(X.dtype, ("bool", "integral"))
    strided = str(getattr(X, "layout", "torch.strided")) == "torch.strided"
    if not strided or not (whole or X.dtype in {xp.float32, xp.float64}):
        layout = getattr(X, "layout", "")
        raise ValueError(
            f"X must be a dense tensor of float32, float64 or integers; got {layout} {X.dtype}."
        )
    X = X.detach() if hasattr(X, "detach") else X
    X = as_float64(X) if whole else X
    if y is None:
        raise ValueError("y must be given with X.")
    if not is_device_array(y):
        y = like(X, np.asarray(y))
    y = y.detach() if hasattr(y, "detach") else y
    if y.device != X.device:
        raise ValueError(f"X is on {X.device}, but y on {y.device}: put them on one device.")
    if y.ndim not in {1, 2} or 0 in y.shape or y.shape[0] != X.shape[0]:
        raise ValueError(
            f"y must be of shape ({X.shape[0]},) or ({X.shape[0]}, n_targets); got "
            f"{tuple(y.shape)}."
        )
    y = y if y.dtype in {xp.float32, xp.float64} else as_float64(y)  # centred before it is rounded
    if not bool(xp.all(xp.isfinite(y))):
        raise ValueError("Input y contains NaN or infinity.")
    return X, y


def sample_sizes(sample_weight: ArrayLike | None, n: int) -> tuple[Floats | None, float, float]:
    """Return weights divided by their sum (None where even), the sum, and observations to count."""
    if sample_weight is None:
        return None, float(n), float(n)
    weights = checked_weights(on_host(sample_weight), n)
    total = float(weights.sum())
    if not 0 < total < np.inf:
        raise ValueError(
            "sample_weight must have a positive finite sum; all weights zero leaves no data."
        )
    return weights / total, total, max(total, float(np.count_nonzero(weights)))


def _eigh(gram: Any) -> tuple[Floats, Any]:
    """Return eigenvalues on the host, ascending, and eigenvectors where the matrix is."""
    xp = array_namespace(gram)
    with _converging(xp, 'use solver="svd"'):
        eigenvalues, vectors = xp.linalg.eigh(gram)
    return on_host(eigenvalues), vectors


def _svd(triangle: Any) -> tuple[Any, Floats, Any]:
    """Return singular vectors, and singular values on the host, ascending as eigenvalues are."""
    xp = array_namespace(triangle)
    with _converging(xp, 'use solver="gram"'):
        if is_device_array(triangle):
            left, lengths, right = xp.linalg.svd(triangle, full_matrices=False)
        else:
            left, lengths, right = linalg.svd(triangle, full_matrices=False)
    return xp.flip(left, axis=1), on_host(lengths)[::-1].copy(), xp.flip(right, axis=0)


def _qr(rows: Any) -> tuple[Any, Any]:
    if is_device_array(rows):
        return tuple(array_namespace(rows).linalg.qr(rows))
    return linalg.qr(rows, mode="economic", overwrite_a=True)


def _projected(rows: Any, targets: Any) -> tuple[Any, Any]:
    """Return Qᵀy and R; LAPACK does so without forming Q, which is as large as X."""
    if is_device_array(rows):
        basis, triangle = _qr(rows)
        return basis.T @ targets, triangle
    components, triangle = linalg.qr_multiply(rows, targets.T, mode="right", overwrite_a=True)
    return components.T, triangle


def _multiplied(tall: Any, square: Any, height: int = 4096) -> Any:
    """Overwrite ``tall`` by ``tall @ square`` without a second array of its size."""
    for start in range(0, tall.shape[0], height):
        tall[start : start + height] = tall[start : start + height] @ square
    return tall


class _converging:
    """Turn an error of a factorisation that does not converge into advice."""

    def __init__(self, xp: Any, advice: str) -> None:
        self.error = getattr(xp.linalg, "LinAlgError", np.linalg.LinAlgError)
        self.advice = advice

    def __enter__(self) -> None:
        """Begin the factorisation."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, self.error):
            raise ValueError(
                f"The factorisation of X did not converge: rescale its columns, or {self.advice}."
            ) from None
