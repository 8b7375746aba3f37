"""Dense arrays of NumPy, torch and CuPy, by the same code.

All work is done in double precision. Arrays of single precision are converted block by block, so
that products lose no digits, and only results are rounded to it. Eigenvalues and the rotated
response are small; they come to the host, where filters are evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import assert_all_finite, check_array

from stoptime.methods.base import Filter
from stoptime.spectrum.accuracy import (
    GRAM_TOLERANCE,
    ReachError,
    check_columns,
    check_range,
    constant,
    entries_vary,
)
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.centred import CentredOperator, multiplied
from stoptime.spectrum.data import Data, RowsToTest, checked_test, largest_gain, needed_gain
from stoptime.spectrum.factorise import by_features, by_rows, by_svd, diagonal
from stoptime.spectrum.kinds import checked_device, checked_host, rows_in_memory
from stoptime.spectrum.moments import NEAR, Moments, sample_sizes, sums

from stoptime.support.arrays import (  # isort: skip
    EPS, array_namespace, as_dtype, is_device_array, like, on_host, room_for_numbers, slices,
)  # fmt: skip
from stoptime.support.checks import row_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from stoptime.methods.base import Method
    from stoptime.spectrum.data import Fold, Goal, TestSet
    from stoptime.support.arrays import Array, Floats

    Pair = tuple[Any, Any]
    Rows = NDArray[np.intp]
    Splits = list[tuple[Rows, Rows]]

TEMPORARY_NUMBERS = 2**17  # numbers of a temporary array: a megabyte, which stays in the cache
FAR_MEAN = 0.05  # of the larger size, in standard deviations: such a mean shows in the rank cut
CANCELLED_SHARE = 1e-6  # of a variance that must remain for a difference of moments to be exact


class Centred(NamedTuple):
    """Data with RᵀR = XᵀX/n, the means that were subtracted, and mean squares of columns."""

    rows: Any
    targets: Any
    means: Pair
    powers: Any  # None if they are not known


@dataclass(frozen=True)
class DenseData(Data):
    """Validated arrays."""

    X: Any
    y: Any
    # weights divided by their sum; None if all are equal, which saves products
    uneven_shares: Any
    n_samples: float
    n_observations: float
    fit_intercept: bool
    single_target: bool
    # moments that were computed before, which saves a pass over tall data
    known: Moments | None = None

    @classmethod
    def validated(
        cls, X: Any, y: Any, sample_weight: ArrayLike | None, fit_intercept: bool
    ) -> DenseData:
        """Check the input; NaN in X is found in its products, at no extra cost."""
        if y is None:
            raise ValueError("y must be given with X.")
        with np.errstate(over="ignore", invalid="ignore"):  # sums that find NaN need not warn too
            X, y = checked_device(X, y) if is_device_array(X) else checked_host(X, y)
        shares, n, count = sample_sizes(sample_weight, X.shape[0])
        if shares is not None:
            shares = like(X, shares)
        return cls(X, y.reshape(y.shape[0], -1), shares, n, count, fit_intercept, y.ndim == 1)

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
    def response(self) -> Any:
        """The y in the shape in which it was given."""
        return self.y[:, 0] if self.single_target else self.y

    @cached_property
    def on_device(self) -> bool:
        """Whether X is a tensor of torch or an array of CuPy."""
        return is_device_array(self.X)

    @cached_property
    def dtype(self) -> Any:
        """The working precision."""
        return array_namespace(self.X).float64 if self.on_device else np.dtype(np.float64)

    @property
    def precision(self) -> Any:
        """The type that results are rounded to: that of X."""
        return self.X.dtype

    @property
    def rounded_to(self) -> Any:
        """The same, or None if nothing is rounded."""
        return None if self.precision == self.dtype else self.precision

    @property
    def rounding(self) -> float:
        """Relative size of the rounding errors in singular values: the one rank cut."""
        return EPS * max(self.X.shape)

    @property
    def tolerance(self) -> float:
        """Relative error of the coefficients up to which products of X with itself are trusted."""
        return GRAM_TOLERANCE["float32" if self.precision == np.float32 else "float64"]

    @cached_property
    def numbers_at_once(self) -> int:
        """Size of a block of rows and its products that fits a cache, or keeps a GPU busy."""
        return room_for_numbers(self.X) // 8 if self.on_device else 2**21

    @cached_property
    def shares(self) -> Any:
        """Sample weights divided by their sum."""
        if self.uneven_shares is not None:
            return self.uneven_shares
        return as_dtype(like(self.X, np.full(self.n_rows, 1 / self.n_rows)), self.dtype)

    @property
    def row_weights(self) -> Floats | None:  # type: ignore[override]
        """Sample weights of the rows, on the host; None if all are one."""
        if self.uneven_shares is None:
            return None
        return np.asarray(on_host(self.uneven_shares), np.float64) * self.n_samples

    def as_given(self, values: Any) -> Any:
        """Return values in the precision of X."""
        return as_dtype(values, self.precision)

    def rotated(self, index: Any, mean: Any, vectors: Any) -> Any:
        """Return some centred rows times vectors, in the precision of the vectors."""
        return as_dtype(self.X[index] - mean, vectors.dtype) @ vectors

    def spectrum(self, wanted: Sequence[Goal] | None = None, solver: str = "auto") -> Spectrum:
        """Factor by "gram", by "svd", or by whichever is accurate enough."""
        if solver == "krylov":
            raise TypeError(
                'solver="krylov" is for sparse matrices and operators; see '
                "scipy.sparse.linalg.aslinearoperator."
            )
        max_gain = largest_gain(wanted)
        if solver != "svd":
            spectrum = self._by_gram
            if solver == "gram" or max_gain <= spectrum.reach:
                return spectrum
        spectrum, powers = self._by_svd
        if max_gain > spectrum.reach:
            # a step that depends on the data, and the gains of conjugate gradients, are known now
            check_columns(self, powers, needed_gain(spectrum, wanted))
        return spectrum

    def opened(
        self,
        methods: Sequence[Method],
        stops: ArrayLike | int | None,
        *,
        rows: bool,
        trace: bool,
        verbose: bool = False,
    ) -> Spectrum:
        """Begin a search by leave-one-out with products of X; other searches with all digits."""
        if not rows or not all(isinstance(method, Filter) for method in methods):
            try:
                return super().opened(methods, stops, rows=rows, trace=trace, verbose=verbose)
            except ReachError:
                # columns are too small to be resolved: the search ends at the reach of the SVD
                return self._by_svd[0]
        spectrum = self.pilot()
        s = spectrum.padded_eigenvalues
        # products lose the smallest eigenvalue first
        if any(method.tuned_to(s) != method.tuned_to(s[-1:]) for method in methods):
            return self.complete()
        return spectrum

    @cached_property
    def _by_gram(self) -> Spectrum:
        return by_features(self) if self.n_features <= self.n_rows else by_rows(self)

    @cached_property
    def _by_svd(self) -> tuple[Spectrum, Floats]:
        return by_svd(self)

    def blocks(self, width: int | None = None) -> Iterator[slice]:
        """Cut the rows into blocks whose temporary copies, of X or of this width, are small."""
        numbers = self.numbers_at_once if self.on_device else TEMPORARY_NUMBERS
        return slices(self.n_rows, numbers // (width or self.n_features))

    def moments(self) -> Moments:
        """Return means and second moments, in one pass."""
        if self.known is not None:
            return self.known
        height = max(1, self.numbers_at_once // self.n_features) if self.on_device else None
        data = self.X, self.y, self.uneven_shares, self.dtype
        return sums(*data, centre=self.fit_intercept, height=height).moments()

    def _means(self) -> Pair:
        """Return the means that centring subtracts."""
        if self.fit_intercept:
            X, y = (multiplied(one, self.shares, transposed=True) for one in (self.X, self.y))
            return X, y
        return 0 * as_dtype(self.X[0], self.dtype), 0 * as_dtype(self.y[0], self.dtype)

    def _squares(self, rows: Any, weights: Any = None) -> Floats:
        """Return the (weighted) sum of squares of every column, a block of rows at a time."""
        total: Any = 0
        for part in self.blocks():
            squares = as_dtype(rows[part], self.dtype) ** 2
            total = total + (squares.sum(axis=0) if weights is None else weights[part] @ squares)
        return np.asarray(on_host(total))

    def centred_in_products(self) -> Centred:
        """Return the data as they are, to be centred in products; copied if that loses digits."""
        means = self._means()
        squares = self._squares(self.X, self.shares)
        mean_squares = on_host(means[0]) ** 2
        powers = squares - mean_squares
        far = np.any(mean_squares > NEAR**2 * powers)
        # products of whole rows must not overflow before they are weighted
        if far or not np.isfinite(squares.sum() * self.n_rows):
            return self.centred()
        root = self.shares**0.5
        # a device has no mixed products; on the host the operator converts blocks of X
        X = as_dtype(self.X, self.dtype) if self.on_device else self.X
        rows = CentredOperator(X, root, self.fit_intercept)
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
        powers = self._squares(rows)
        limit = (FAR_MEAN * max(self.X.shape)) ** 2
        if self.fit_intercept and np.any(on_host(means[0]) ** 2 > limit * powers):
            # centre once more: the mean of large numbers is itself rounded
            remainder = root[:, 0] @ rows
            rows -= root * remainder
            means = means[0] + remainder, means[1]
            powers = self._squares(rows)
        self.check_features(powers, means[0])
        flat = constant(powers, on_host(means[0]))
        rows[:, like(rows, flat)] = 0
        targets = root * (as_dtype(self.y, self.dtype) - means[1])
        return Centred(rows, targets, means, np.where(flat, 0, powers))

    def image_gram(self, vectors: Any, means: Any) -> Any:
        """Return the products of images under the centred, weighted X."""
        total: Any = 0
        for rows in self.blocks():
            images = (as_dtype(self.X[rows], self.dtype) - means) @ vectors
            total = total + images.T @ (self.shares[rows, None] * images)
        return total

    def check_features(self, powers: Floats, means: Any) -> None:
        """Raise a ValueError if X contains NaN, or if squares of its entries leave the range."""
        if not np.isfinite(powers.sum()):
            assert_all_finite(on_host(self.X), input_name="X")  # NaN has its own message
        check_range("X", powers, partial(entries_vary, self.X, means, self.shares))

    @np.errstate(over="ignore", invalid="ignore")  # overflow is found by check_range
    def target_power(self, means: Pair, response: Floats | None = None) -> Floats:
        """Return the mean squares of y; raise a ValueError if they, or a response, overflow."""
        power: Any = 0
        for rows in self.blocks(self.n_targets):
            residual = as_dtype(self.y[rows], self.dtype) - means[1]
            power = power + self.shares[rows] @ residual**2
        power = np.asarray(on_host(power))
        # a response that overflows comes from a y that is too large beside X
        finite = True if response is None else np.isfinite(response).all(axis=0)
        known = np.where(finite, power, np.inf).astype(power.dtype)
        check_range("y", known, partial(entries_vary, self.y, means[1], self.shares))
        return power

    def assembled(
        self, s: Floats, basis: Any, response: Floats, means: Pair, solver: str, far: float
    ) -> Spectrum:
        """Check the response and assemble the result; a vector y gives a vector response."""
        power = self.target_power(means, response)
        one = (..., 0) if self.single_target else ...
        sizes = self.n_samples, self.n_observations
        centre = means[0], means[1][one]
        spectrum = Spectrum(
            s, basis, response[one], *sizes, *centre, power[one], self.fit_intercept, solver, far
        )
        return replace(spectrum, precision=self.rounded_to)

    def _taken(self, rows: Rows) -> Any:
        return self.X[like(self.X, rows)]

    def subset(self, rows: Rows) -> DenseData:
        """Return some of the rows."""
        weights = None if self.row_weights is None else self.row_weights[rows]
        y = self.response[like(self.X, rows)]
        return type(self).validated(self._taken(rows), y, weights, self.fit_intercept)

    def folds(self, splits: Splits, *, verbose: bool = False) -> list[Fold]:  # noqa: ARG002
        """Return the folds; training sets of a tall X come with their moments."""
        tall = self.n_features <= min(len(train) for train, _ in splits)
        with np.errstate(over="ignore", invalid="ignore"):  # NaN is refused in every training set
            whole = replace(self, known=self.moments()) if tall else self
        return [partial(whole.fold, train, test) for train, test in splits]

    def fold(self, train: Rows, test: Rows) -> tuple[Data, TestSet]:
        """Return a training set and a test set."""
        return self.training_set(train, test), self.rows_to_test(test, train)

    def splits(self, cv: Any, groups: ArrayLike | None = None) -> Splits:
        """Draw the training and test rows of a splitter."""
        n = self.n_rows
        X = self.X if isinstance(self.X, np.ndarray) else np.zeros((n, 1))  # splitters count rows
        drawn = check_cv(cv).split(X, on_host(self.response), groups)
        splits: Splits = [(row_numbers(train, n), row_numbers(test, n)) for train, test in drawn]
        weights = self.row_weights
        if weights is not None:  # a test set of weight zero tests nothing
            splits = [(train, test) for train, test in splits if np.any(weights[test] > 0)]
        if not splits:
            raise ValueError(
                "cv must give at least one pair of training and test rows; it gave none."
            )
        return splits

    def training_set(self, train: Rows, test: Rows) -> Data:
        """Return a training set; its moments are those of all rows minus those of the test set."""
        data = self.subset(train)
        rest = np.sort(np.concatenate([train, test]))
        if self.known is None or not np.array_equal(rest, np.arange(self.n_rows)):
            return data
        part = self.subset(test)
        share = part.n_samples / (part.n_samples + data.n_samples)
        known = self.known.without(part.moments(), share)
        # if little of a variance remains, the difference has lost its digits
        lost = diagonal(known.gram) < CANCELLED_SHARE * diagonal(self.known.gram)
        return data if lost.any() else replace(data, known=known)

    def rows_to_test(self, test: Rows, train: Rows) -> RowsToTest:  # noqa: ARG002
        """Return some of the rows as a test set."""
        index = like(self.X, test)
        return RowsToTest(self.X[index], self.y[index], self._test_weights(test))

    def _test_weights(self, test: Rows) -> Array:
        weights = self.row_weights
        return np.ones(len(test)) if weights is None else weights[test] / weights.max()

    def test_set(self, X: Any, y: ArrayLike) -> RowsToTest:
        """Return new rows as a test set."""
        X = rows_in_memory(X, self.X, dtype=self.dtype, name="X_val")
        if self.on_device:
            X, y = checked_device(X, y)
        else:
            y = check_array(y, dtype=self.dtype, ensure_2d=False, input_name="y_val")
        targets = () if self.single_target else (self.n_targets,)
        return checked_test(X, y, (self.n_features, *targets))
