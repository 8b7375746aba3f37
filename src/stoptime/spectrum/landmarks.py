r"""Kernels by landmarks: features of rows that are computed a block at a time and never stored.

With m landmark rows Z, :math:`f(x) = \sum_j\alpha_jk(z_j, x) + b` is linear in the features

.. math:: \phi(x) = R^Tk(Z, x), \qquad RR^T = (k(Z, Z) + \delta I)^{-1},

in which the penalty ‖β‖² is the norm of f in the space of the kernel; δ is so small that it only
keeps the features accurate. R is triangular, from Cholesky's factorisation. Two passes over the
rows, one for the second moments of the features and one that rotates them, give exact leave-one-out
at every stop, for some 5nm² operations and an eigendecomposition of size m. Without a row, the fit
still has that row among its landmarks if it is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse

from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Goal, RowsToTest, checked_test
from stoptime.spectrum.dense import DenseData
from stoptime.spectrum.factorise import advising
from stoptime.spectrum.moments import Moments, sample_sizes
from stoptime.support.arrays import (
    array_namespace,
    as_float64,
    empty,
    is_device_array,
    like,
    on_host,
    room_for_numbers,
    slices,
)

JITTER = 1e-11  # of the trace of k(Z, Z): features of larger eigenvalues keep four digits
TRIANGLE_PARTS = 8  # blocks of columns, which leave out nearly half of a triangular product
KERNEL_VALUES = 2**22  # kernel values at once on the host: 32 MB, enough for fast products
DEVICE_VALUES = 2**27  # and on a device: one gigabyte

KernelFunction = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """The features φ of rows, given prepared landmarks.

    ``prepare`` standardises rows in double precision, and ``kernel`` takes two sets of prepared
    rows. If they are ``centred``, numbers near the means of all features are subtracted.
    """

    prepare: Callable[[Any], Any]
    kernel: KernelFunction
    landmarks: Any
    centred: bool

    @cached_property
    def _factors(self) -> tuple[Any, Any]:
        gram = as_float64(self.kernel(self.landmarks, self.landmarks))
        xp = array_namespace(gram)
        identity = like(gram, np.eye(len(gram)))
        jitter = JITTER * float(xp.linalg.trace(gram)) * identity
        advice = "choose another kernel, or other parameters"
        with advising(advice, "The kernel is not positive semi-definite on the landmarks", xp):
            lower = xp.linalg.cholesky((gram + gram.T) / 2 + jitter)
        root = _inverse(lower, identity).T
        # landmarks are drawn at random: their mean is near that of all rows
        mean = times_triangle(gram, root).sum(axis=0) / len(gram)
        return root, mean if self.centred else 0 * mean

    @property
    def root(self) -> Any:
        """The R above, upper triangular, of as many columns as landmarks."""
        return self._factors[0]

    @property
    def origin(self) -> Any:
        """The numbers that are subtracted from the features."""
        return self._factors[1]

    def values(self, rows: Any) -> Any:
        """Return the kernel between rows and landmarks."""
        return self.kernel(self.prepare(rows), self.landmarks)

    def __call__(self, rows: Any) -> Any:
        """Return the features of rows."""
        features = times_triangle(self.values(rows), self.root)
        features -= self.origin
        return features


def times_triangle(values: Any, triangle: Any) -> Any:
    """Return the product with an upper triangular matrix, without most of its zeros."""
    out = empty(values, values.shape)
    for some in slices(len(triangle), -(-len(triangle) // TRIANGLE_PARTS)):
        out[:, some] = values[:, : some.stop] @ triangle[: some.stop, some]
    return out


def _inverse(lower: Any, identity: Any) -> Any:
    """Return the inverse of a lower triangular matrix, where it is."""
    if hasattr(lower, "is_cuda"):  # torch
        return import_module("torch").linalg.solve_triangular(lower, identity, upper=False)
    if isinstance(lower, np.ndarray):
        return linalg.solve_triangular(lower, identity, lower=True, check_finite=False)
    return array_namespace(lower).linalg.solve(lower, identity)


@dataclass(frozen=True, eq=False)
class LandmarkRows:
    """Features of the rows of a container: an array, a memory map, a sparse matrix or a tensor."""

    X: Any
    features: LandmarkFeatures
    # the newest directions to which features were rotated, and R times them
    _turned: list[Any] = field(default_factory=list, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features."""
        return int(self.X.shape[0]), int(self.features.landmarks.shape[0])

    @property
    def precision(self) -> Any:
        """The type that results are rounded to: double precision."""
        return self.features.landmarks.dtype

    dtype = precision
    can_be_copied = False  # all features together may be far larger than the rows

    def read(self, index: Any) -> Any:
        """Return the features of some rows."""
        return self.features(self._taken(index))

    __getitem__ = read

    def rotated(self, index: Any, mean: Any, vectors: Any) -> Any:
        """Return centred features of some rows times vectors, by one product."""
        if not (self._turned and self._turned[0] is vectors):
            self._turned[:] = [vectors, self.features.root @ vectors]
        values = self.features.values(self._taken(index))
        return values @ self._turned[1] - (mean + self.features.origin) @ vectors

    def take(self, rows: NDArray[np.intp]) -> LandmarkRows:
        """Return the features of some of the rows."""
        return LandmarkRows(self._taken(rows), self.features)

    def _taken(self, index: Any) -> Any:
        return self.X[index if isinstance(index, slice) else like(self.X, index)]

    def blocks(self, width: int | None = None) -> Any:
        """Cut the rows into blocks of so many kernel values as keep a processor busy."""
        landmarks = self.features.landmarks
        numbers = KERNEL_VALUES
        if is_device_array(landmarks):
            numbers = min(room_for_numbers(landmarks) // 8, DEVICE_VALUES)
        return slices(self.X.shape[0], numbers // max(width or 1, landmarks.shape[0]))

    # a change of the rows is noticed in their sums, for which no kernel is evaluated
    __array_ufunc__ = None

    def __rmatmul__(self, weights: Any) -> Any:
        return weights @ as_float64(self.X) if is_device_array(self.X) else weights @ self.X

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_turned": []}


@dataclass(frozen=True)
class LandmarkData(DenseData):
    """Features by landmarks in the place of X; ``X`` is a :class:`LandmarkRows`."""

    # returns the features of new rows
    values: Callable[[Any], Any] | None = None

    @classmethod
    def of(
        cls, rows: LandmarkRows, y: Any, sample_weight: ArrayLike | None, fit_intercept: bool
    ) -> LandmarkData:
        """Return data of a checked response, which is put where the features are."""
        if not is_device_array(y):
            y = like(rows.features.landmarks, np.asarray(y, np.float64))
        shares, n, count = sample_sizes(sample_weight, y.shape[0])
        shares = None if shares is None else like(y, shares)
        columns = as_float64(y).reshape(y.shape[0], -1)
        return cls(rows, columns, shares, n, count, fit_intercept, y.ndim == 1)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    @cached_property
    def on_device(self) -> bool:
        """Whether the rows are a tensor of torch or an array of CuPy."""
        return is_device_array(self.y)

    @cached_property
    def dtype(self) -> Any:
        """Double precision, of the namespace of the rows."""
        return self.y.dtype

    @cached_property
    def numbers_at_once(self) -> int:
        """Size of a block of rows and its products."""
        return min(room_for_numbers(self.y) // 8, 2 * DEVICE_VALUES)

    @cached_property
    def shares(self) -> Any:
        """Sample weights divided by their sum."""
        if self.uneven_shares is not None:
            return self.uneven_shares
        return like(self.y, np.full(self.n_rows, 1 / self.n_rows))

    def rotated(self, index: Any, mean: Any, vectors: Any) -> Any:
        """Return some centred rows times vectors."""
        return self.X.rotated(index, mean, vectors)

    def moments(self) -> Moments:
        """Return means and second moments of the features, in one pass."""
        if self.known is not None:
            return self.known
        p = self.n_features
        y = self.y
        xp = array_namespace(y)
        target_shift = self.shares @ y if self.fit_intercept else 0 * y[0]
        gram = like(y, np.zeros((p, p)))
        others = like(y, np.zeros((1 + self.n_targets, p)))
        for index in self.X.blocks():
            root = (self.shares[index] ** 0.5)[:, None]
            features = self.X.read(index)
            features *= root
            left = xp.concat([root, root * (y[index] - target_shift)], axis=1)
            gram += features.T @ features
            others += left.T @ features
        cross = others[1:].T
        if not self.fit_intercept:
            return Moments(0 * others[0], target_shift, gram, cross)
        mean = others[0]
        # the features are nearly centred, so that little cancels; the response is centred exactly
        gram -= mean[:, None] * mean
        return Moments(mean, target_shift, gram, cross)

    def spectrum(self, wanted: Sequence[Goal] | None = None, solver: str = "auto") -> Spectrum:  # noqa: ARG002
        """Diagonalise the second moments of the features."""
        return self._spectrum

    def opened(self, *arguments: Any, **options: Any) -> Spectrum:  # noqa: ARG002
        """Return the same: eigenvalues of a kernel fall to rounding, so there is no better one."""
        return self._spectrum

    @cached_property
    def _spectrum(self) -> Spectrum:
        m = self.moments()
        xp = array_namespace(m.gram)
        with advising("choose other parameters", "The factorisation did not converge", xp):
            values, vectors = xp.linalg.eigh(m.gram)
        s = np.asarray(on_host(values))
        first = int(np.searchsorted(s, self.rounding * s[-1], side="right"))
        response = np.asarray(on_host(vectors[:, first:].T @ m.cross))
        means = m.feature_mean, m.target_mean
        return self.assembled(s[first:], vectors[:, first:], response, means, "kernel", np.inf)

    def subset(self, rows: NDArray[np.intp]) -> LandmarkData:
        """Return some of the rows."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        y = self.response[like(self.y, rows)]
        return LandmarkData.of(self.X.take(rows), y, weights, self.fit_intercept)

    def rows_to_test(self, test: NDArray[np.intp], train: NDArray[np.intp]) -> RowsToTest:  # noqa: ARG002
        """Return the features of some of the rows as a test set."""
        index = like(self.y, test)
        return RowsToTest(self.X.read(test), self.y[index], self._test_weights(test))

    def test_set(self, X: Any, y: ArrayLike) -> RowsToTest:
        """Return the features of new rows as a test set."""
        targets = () if self.single_target else (self.n_targets,)
        y = y if is_device_array(y) else like(self.y, np.asarray(y, np.float64))
        features = self.X.features if self.values is None else self.values
        return checked_test(features(X), y, (self.n_features, *targets))


def drawn(X: Any, count: int, present: NDArray[np.intp], rng: np.random.Generator) -> Any:
    """Return landmark rows, drawn without replacement, in their order in X."""
    chosen = np.sort(rng.choice(present, min(count, len(present)), replace=False))
    rows = X[like(X, chosen)]
    return rows if is_device_array(rows) or sparse.issparse(rows) else np.asarray(rows)


def predicted(features: LandmarkFeatures, rows: Any, coef: Any) -> Any:
    """Return k(x, Z)α of new rows, a block at a time."""
    height = KERNEL_VALUES // max(1, features.landmarks.shape[0])
    parts = [features.values(rows[block]) @ coef for block in slices(rows.shape[0], height)]
    return parts[0] if len(parts) == 1 else array_namespace(parts[0]).concat(parts)
