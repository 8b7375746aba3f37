"""Rows of X in any container, read in double precision: only this file knows containers.

A new kind of container is one class with ``shape`` and ``read``; products follow from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite

from stoptime.spectrum.accuracy import TRUSTED, check_scale
from stoptime.support.arrays import (
    EPS,
    Array,
    Floats,
    array_namespace,
    as_dtype,
    as_float64,
    constant,
    is_device_array,
    like,
    numbers_on_device,
    on_host,
    slices,
)

Index = slice | NDArray[np.intp]
BLOCK_NUMBERS = 2**17  # numbers of a block of rows: a megabyte, which stays in the cache
BLOCK_ROWS = 2**10  # so many rows make a product worth calling, even if they take more memory
MOST_NUMBERS = 2**27  # a gigabyte: up to here rows that are not an array may be copied into one


class Rows(ABC):
    """The rows of X; ``names`` are those of its columns, if they are known."""

    shape: tuple[int, int]
    names: tuple[str, ...] | None = None
    precision: Any = np.dtype(np.float64)  # the type that results are rounded to
    can_be_read: bool = True  # whether this is more than products
    fade_out: bool = False  # whether eigenvalues fall to rounding, as those of a kernel do
    products: int = 0  # with X and Xᵀ so far, column by column, where they are all that is used
    floor: float = 0.0  # images of unit vectors that are no longer than this are rounding

    @abstractmethod
    def read(self, index: Index) -> Any:
        """Return some rows as an array of double precision."""

    def times(self, vectors: Any) -> Any:
        """Return X times vectors."""
        parts = [self.read(block) @ vectors for block in self.blocks()]
        return array_namespace(vectors).concat(parts)

    def times_t(self, vectors: Any) -> Any:
        """Return Xᵀ times vectors."""
        return sum(self.read(block).T @ vectors[block] for block in self.blocks())

    def outer(self) -> Any:
        """Return XXᵀ, a new array."""
        whole = self.read(slice(None))
        return whole @ whole.T

    def gram(self, weights: Any) -> Any:  # noqa: ARG002 - for sparse rows
        """Return XᵀDX for the diagonal D of the weights, or None if that takes reading blocks."""
        return None

    def rotated(self, index: Index, mean: Any, vectors: Any) -> Any:
        """Return some centred rows times vectors."""
        return (self.matrix(index) - mean) @ vectors  # converted where the mean is subtracted

    def rotated_sum(self, index: Index, mean: Any, vectors: Any, shares: Any) -> Any:
        """Return the sum of some centred rows times vectors, in these shares."""
        return shares @ as_float64(self.rotated(index, mean, vectors))

    @np.errstate(over="ignore", invalid="ignore")  # NaN and overflow are found in the result
    def mean_squares(self, shares: Any, mean: Any) -> Any:
        """Return the weighted mean square of every column about these numbers."""
        return sum(shares[block] @ (self.read(block) - mean) ** 2 for block in self.blocks())

    def matrix(self, index: Index = slice(None)) -> Any:
        """Return some rows as a matrix in memory that multiplies coefficients."""
        return self.read(index)

    def fingerprint(self, weights: Any) -> Any:
        """Return weighted sums over the rows, by which a later change of them is noticed."""
        return self.times_t(weights)

    @property
    def can_be_copied(self) -> bool:
        """Whether all rows fit into memory as one array of double precision."""
        return self.shape[0] * self.shape[1] <= MOST_NUMBERS

    def take(self, chosen: NDArray[np.intp]) -> Rows:
        """Return some of the rows, in the order of these numbers; nothing is read."""
        return _SomeRows(self, chosen)

    def blocks(self, width: int | None = None) -> Iterator[slice]:
        """Cut the rows into blocks whose copies, or so many numbers for each row, are small."""
        width = width or self.shape[1]
        # a block is small in itself, or a part of all rows that makes a product worth calling
        height = max(BLOCK_NUMBERS // width, min(BLOCK_ROWS, self.shape[0] // 4))
        return slices(self.shape[0], height)

    def described(self, column: int) -> str:
        """Name a column in messages."""
        return f"column {column}" if self.names is None else f"column {self.names[column]!r}"

    def check_finite(self) -> None:
        """Raise a ValueError that says what is wrong if X contains NaN or infinity."""
        for block in self.blocks():
            with np.errstate(over="ignore", invalid="ignore"):
                assert_all_finite(on_host(self.read(block)), input_name="X")


class ArrayRows(Rows):
    """An array of NumPy, torch or CuPy in single or double precision."""

    can_be_copied = True  # it is as large itself

    def __init__(self, X: Any) -> None:
        self.X = X
        self.shape = tuple(X.shape)
        self.precision = X.dtype
        self._on_device = is_device_array(X)
        self._is_double = X.dtype == array_namespace(X).float64

    def rotated_sum(self, index: Index, mean: Any, vectors: Any, shares: Any) -> Any:
        """Return the sum of some centred rows times vectors, in these shares."""
        return (shares @ (self.matrix(index) - mean)) @ vectors  # a product with one row

    def read(self, index: Index) -> Any:
        """Return some rows, without a copy if they have double precision and follow each other."""
        rows = as_float64(self.matrix(index))
        # BLAS rounds products of arrays that are not aligned in memory differently
        return rows if self._on_device or rows.flags.aligned else rows.copy(order="K")

    def matrix(self, index: Index = slice(None)) -> Any:
        """Return some rows of the array itself."""
        return self.X[index if isinstance(index, slice) else like(self.X, index)]

    def times(self, vectors: Any) -> Any:
        """Return X times vectors, converting single precision a block at a time."""
        return self.X @ vectors if self._is_double else super().times(vectors)

    def times_t(self, vectors: Any) -> Any:
        """Return Xᵀ times vectors."""
        # along the rows of an array, this is faster than X.T @ vectors
        if not self._is_double:
            return super().times_t(vectors)
        return vectors @ self.X if vectors.ndim == 1 else (vectors.T @ self.X).T

    def outer(self) -> Any:
        """Return XXᵀ, converting single precision a few columns at a time."""
        n, p = self.shape
        if self._is_double:
            return self.X @ self.X.T
        parts = (as_float64(self.X[:, some]) for some in slices(p, 2**5 * BLOCK_NUMBERS // n))
        return sum(columns @ columns.T for columns in parts)

    def __deepcopy__(self, memo: dict[int, Any]) -> ArrayRows:
        # a tensor would copy all that it is a part of
        return ArrayRows(self.X.clone() if hasattr(self.X, "clone") else self.X.copy())

    def blocks(self, width: int | None = None) -> Iterator[slice]:
        """Cut the rows into blocks that are small, or on a device as large as fits."""
        if not self._on_device:
            return super().blocks(width)
        return slices(self.shape[0], numbers_on_device(self.X) // (width or self.shape[1]))


class _CountedRows(Rows):
    """Rows of which products with vectors are counted, column by column."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.shape = tuple(X.shape)

    def times(self, vectors: Any) -> Any:
        return self._counted(lambda: self.X @ vectors, vectors, self.shape[0])

    def times_t(self, vectors: Any) -> Any:
        return self._counted(lambda: (vectors.T @ self.X).T, vectors, self.shape[1])

    def _counted(self, product: Callable[[], Any], vectors: Any, length: int) -> Floats:
        """Return a product in double precision; refuse NaN, infinity and complex numbers."""
        if vectors.size == 0:  # an operator need not accept a matrix without columns
            return np.zeros((length, *vectors.shape[1:]))
        self.products += 1 if vectors.ndim == 1 else int(vectors.shape[1])
        image = np.asarray(product())
        if np.iscomplexobj(image):
            raise ValueError("Complex data not supported: products with X are complex.")
        if not np.isfinite(image).all():
            if not np.isnan(image).any():
                check_scale("X", np.inf)
            raise ValueError("A product with X contains NaN: X is too large, or no valid operator.")
        return image.astype(np.float64, copy=False)


class SparseRows(_CountedRows):
    """A sparse matrix by rows, in double precision; ``precision`` is that of the given one."""

    def __init__(self, X: Any, precision: Any = Rows.precision) -> None:
        super().__init__(X)
        self.precision = precision

    def read(self, index: Index) -> Any:
        """Return some rows as a dense array."""
        return self.X[index].toarray()

    def matrix(self, index: Index = slice(None)) -> Any:
        """Return some rows of the matrix itself."""
        return self.X[index]

    def outer(self) -> Any:
        """Return XXᵀ."""
        return (self.X @ self.X.T).toarray()

    def gram(self, weights: Any) -> Any:
        """Return XᵀDX, unless dense blocks are faster: a sparse product takes 100 times as long."""
        n, p = self.shape
        if self.X.nnz > 0.1 * n * p:
            return None
        return (self.X.T @ (sparse.diags_array(weights) @ self.X)).toarray()

    def mean_squares(self, shares: Any, mean: Any) -> Any:
        """Return the weighted mean square of every column, from the entries that are stored."""
        mean = np.broadcast_to(mean, self.shape[1])
        entries = self.X.copy()
        # zeros are at a distance of the mean; squares minus the squared mean would cancel
        entries.data = (entries.data - mean[entries.indices]) ** 2
        stored = self.X.copy()
        stored.data = np.ones_like(stored.data)
        return shares @ entries + np.maximum(1 - shares @ stored, 0) * mean**2

    def rotated(self, index: Index, mean: Any, vectors: Any) -> Any:
        """Return some centred rows times vectors, without dense rows."""
        return self.X[index] @ vectors - mean @ vectors

    def take(self, chosen: NDArray[np.intp]) -> SparseRows:
        """Return a matrix of some of the rows."""
        return SparseRows(self.X[chosen], self.precision)


class OperatorRows(_CountedRows):
    """A LinearOperator, whose rows cannot be read."""

    can_be_read = False

    def read(self, index: Index) -> Any:  # noqa: ARG002 - as of others
        """Raise a TypeError."""
        raise TypeError("The rows of an operator cannot be read.")

    def matrix(self, index: Index = slice(None)) -> Any:  # noqa: ARG002 - as of others
        """Return the operator, which has all rows."""
        return self.X

    def mean_squares(self, shares: Any, mean: Any) -> Any:  # noqa: ARG002
        """Raise a ValueError: this is for penalties in units of the columns."""
        raise ValueError(
            'penalty_matrix="standardise" needs the columns of X, which an operator does not show: '
            "give a diagonal matrix of their standard deviations."
        )

    def times_t(self, vectors: Any) -> Any:
        """Return Xᵀ times vectors."""
        product = self.X.rmatmat if vectors.ndim == 2 else self.X.rmatvec
        try:
            return self._counted(lambda: product(vectors), vectors, self.shape[1])
        except NotImplementedError:
            raise ValueError(
                "X must define products with vectors, for its transpose too: define rmatvec."
            ) from None


class SlicedRows(Rows):
    """An array on disk that can be sliced, such as zarr.Array or h5py.Dataset."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.shape = int(X.shape[0]), int(X.shape[1])
        self.precision = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)

    def read(self, index: Index) -> Any:
        """Return some rows; for scattered rows, all rows between them are read."""
        if isinstance(index, slice):
            return np.asarray(self.X[index], np.float64)
        if not len(index):
            return np.empty((0, self.shape[1]))
        first = int(index.min())
        between = np.asarray(self.X[first : int(index.max()) + 1], np.float64)
        return between[index - first]

    def blocks(self, width: int | None = None) -> Iterator[slice]:
        """Cut the rows into blocks of whole stored chunks, which are decompressed once."""
        unit = (getattr(self.X, "chunks", None) or (1,))[0]
        height = next(super().blocks(width)).stop
        return slices(self.shape[0], -(-height // unit) * unit)


class _SomeRows(Rows):
    """Some of the rows of others, in the order of their numbers."""

    def __init__(self, rows: Rows, chosen: NDArray[np.intp]) -> None:
        self.rows = rows
        self.chosen = chosen
        self.shape = len(chosen), rows.shape[1]
        self.precision = rows.precision
        self.names = rows.names
        self.floor = rows.floor
        self.fade_out = rows.fade_out

    @property
    def can_be_copied(self) -> bool:
        return self.rows.can_be_copied

    def read(self, index: Index) -> Any:
        return self.rows.read(self.chosen[index])

    def matrix(self, index: Index = slice(None)) -> Any:
        return self.rows.matrix(self.chosen[index])

    def rotated(self, index: Index, mean: Any, vectors: Any) -> Any:
        return self.rows.rotated(self.chosen[index], mean, vectors)


@dataclass(eq=False)
class Sample:
    """Validated rows with their response of shape (n, n_targets) and their weights.

    ``precision`` is the type that results are rounded to, None if nothing is rounded. ``rounding``
    is the relative size of the rounding errors in singular values, the one rank cut, and
    ``tolerance`` the relative error of the coefficients up to which products of X with itself are
    trusted.
    """

    X: Rows
    y: Any
    # weights divided by their sum; None if all are equal, which saves products
    uneven_shares: Any
    n_samples: float
    n_observations: float
    fit_intercept: bool
    single_target: bool

    def __post_init__(self) -> None:
        self.shape = self.X.shape
        self.names = self.X.names
        self.n_rows, self.n_features = self.shape
        self.n_targets = int(self.y.shape[1])
        self.on_device = is_device_array(self.y)
        precision = self.X.precision
        self.precision: Any = None if str(precision).endswith("float64") else precision
        self.rounding = EPS * max(self.shape)
        self.tolerance = TRUSTED["float64" if self.precision is None else "float32"]

    @classmethod
    def of(cls, X: Rows, y: Any, sample_weight: Any, fit_intercept: bool) -> Sample:
        """Return rows with a response that was checked and is where they are, and weights."""
        n = float(X.shape[0])
        columns = y.reshape(y.shape[0], -1)
        return cls(X, columns, None, n, n, fit_intercept, y.ndim == 1).weighted(sample_weight)

    def weighted(self, sample_weight: Any) -> Sample:
        """Return the same rows with other weights, after a check of them."""
        shares, n, count = sample_sizes(sample_weight, self.n_rows)
        shares = None if shares is None else like(self.y, shares)
        return replace(self, uneven_shares=shares, n_samples=n, n_observations=count)

    @property
    def response(self) -> Any:
        """The y in the shape in which it was given."""
        return self.y[:, 0] if self.single_target else self.y

    @property
    def room(self) -> int:
        """Numbers of a block of rows that keeps a device busy."""
        return numbers_on_device(self.y)

    @cached_property
    def shares(self) -> Any:
        """Sample weights divided by their sum."""
        if self.uneven_shares is not None:
            return self.uneven_shares
        return constant(self.y, self.n_rows, 1 / self.n_rows)

    @cached_property
    def row_weights(self) -> Array | None:
        """Sample weights of the rows, on the host; None if all are one."""
        if self.uneven_shares is None:
            return None
        return np.asarray(on_host(self.uneven_shares), np.float64) * self.n_samples

    def as_given(self, values: Any) -> Any:
        """Return values in the precision of X."""
        return as_dtype(values, self.X.precision)

    @cached_property
    def means(self) -> tuple[Any, Any]:
        """Means of the columns of X and of y; zeros without an intercept."""
        y = as_float64(self.y)
        if self.fit_intercept:
            with np.errstate(over="ignore", invalid="ignore"):  # NaN is found in products
                return self.X.times_t(self.shares), self.shares @ y
        return like(self.y, np.zeros(self.n_features)), 0 * y[0]

    def target_power(self) -> Floats:
        """Return the mean squares of the centred y, after a check of its scale."""
        mean = self.means[1]
        power = np.asarray(on_host(ArrayRows(self.y).mean_squares(self.shares, mean)))
        check_scale("y", power, on_host(mean))
        return power

    def check_features(self, powers: Floats, means: Any) -> None:
        """Raise a ValueError if X contains NaN, or if a column has an extreme scale."""
        if not np.isfinite(powers).all():
            self.X.check_finite()  # NaN has its own message
        check_scale("X", powers, on_host(means))

    def take(self, rows: NDArray[np.intp]) -> Sample:
        """Return some of the rows."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        some = replace(self, X=self.X.take(rows), y=self.y[like(self.y, rows)])
        return some.weighted(weights)


def checked_weights(sample_weight: Any, n: int) -> Array:
    """Return weights in double precision, after checking that they are finite and non-negative."""
    weights = np.asarray(on_host(sample_weight), dtype=np.float64)
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


def sample_sizes(sample_weight: Any, n: int) -> tuple[Floats | None, float, float]:
    """Return weights divided by their sum (None if equal), their sum, and the observation count."""
    if sample_weight is None:
        return None, float(n), float(n)
    weights = checked_weights(sample_weight, n)
    total = float(weights.sum())
    if not 0 < total < np.inf:
        raise ValueError(
            "sample_weight must have a positive finite sum; with zero weights there are no data."
        )
    return weights / total, total, max(total, float(np.count_nonzero(weights)))
