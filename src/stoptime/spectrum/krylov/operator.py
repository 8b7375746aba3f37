"""Sparse matrices and operators: data that are used through products with vectors only."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from sklearn.utils import check_array

from stoptime.methods.base import Filter, Method
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.ridge import Ridge
from stoptime.spectrum.accuracy import ReachError, check_range
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.centred import CentredOperator, product
from stoptime.spectrum.data import WITHOUT_ROWS, Data, Fold, Goal, RowsToTest, goals, largest_gain
from stoptime.spectrum.dense import Centred, DenseData
from stoptime.spectrum.factorise import image_gram
from stoptime.spectrum.kinds import check_shapes, checked_matrix
from stoptime.spectrum.krylov.spaces import KrylovSpaces
from stoptime.spectrum.moments import Moments, sample_sizes
from stoptime.support.arrays import EPS, Floats

if TYPE_CHECKING:
    from stoptime.spectrum.dense import Splits

MEAN_ROUNDINGS = 8.0  # rounding errors of the means that centring leaves, in units of EPS
SMALL = 1000  # rows or columns up to which all eigenvalues are computed
LARGEST_GRAM = 10_000  # rows or columns beyond which XᵀX and XXᵀ are refused
LARGEST_WITH_ROWS = 3000  # rows or columns up to which leave-one-out factors a sparse X
MOST_WORK = 2e9  # multiplications for all eigenvalues, unless they are asked for
MOST_FILLED = 2**27  # numbers, a gigabyte: up to here a sparse matrix may be made dense
VISIBLE_LOSS = 1e-6  # relative error of the coefficients that causes a warning
SEARCH_PROBES = 10  # random probes of a rule that needs a trace
HORIZON = 30.0  # phase t√L at which the search for a stop first ends
SMOOTH_HORIZON = 100.0  # the same for tL, for methods that do not oscillate
HALVINGS = 10  # of these horizons, if they need more memory than allowed
FEW_GROWTHS = 3  # times a large space is grown to resolve noise and signal
MANY_GROWTHS = 20  # times a small space is grown, which nearly exhausts it


@dataclass(frozen=True)
class MatrixFreeData(DenseData):
    """Validated data whose X is only multiplied with vectors, in double precision."""

    X: Any
    options: Mapping[str, Any] = field(default_factory=dict)  # of KrylovSpaces
    is_whole: bool = False  # whether all eigenvalues are wanted
    precision: Any = np.float64  # of the given matrix; products are in double precision

    dtype = np.dtype(np.float64)  # whatever dtype an operator has

    @classmethod
    def validated(
        cls, X: Any, y: Any, sample_weight: ArrayLike | None, fit_intercept: bool
    ) -> MatrixFreeData:
        """Check the input; an operator is checked by its products."""
        given = X.dtype if sparse.issparse(X) and X.dtype == np.float32 else cls.precision
        X = checked_matrix(X)
        if y is None:
            raise ValueError("y must be given with X.")
        y = check_array(y, dtype=np.float64, ensure_2d=False, allow_nd=True, input_name="y")
        check_shapes(X, y)
        shares, n, observations = sample_sizes(sample_weight, X.shape[0])
        sizes = n, observations, fit_intercept, y.ndim == 1
        return cls(X, y.reshape(len(y), -1), shares, *sizes, precision=given)

    @property
    def has_rows(self) -> bool:  # type: ignore[override]
        """Whether the matrix is sparse: rows of an operator cannot be read."""
        return bool(sparse.issparse(self.X))

    def check_rows(self) -> None:
        """Refuse exact leave-one-out for operators and large matrices."""
        if not self.has_rows or min(self.X.shape) > LARGEST_GRAM:
            raise ValueError(WITHOUT_ROWS)

    @property
    def is_small(self) -> bool:
        """Whether all eigenvalues of a sparse matrix take no more than about a second."""
        size = min(self.X.shape)
        return self.has_rows and size <= SMALL and self.X.nnz * size <= MOST_WORK

    @property
    def growths(self) -> int:  # type: ignore[override]
        """How often a Krylov space is grown to resolve noise and signal."""
        return MANY_GROWTHS if min(self.X.shape) <= SMALL else FEW_GROWTHS

    @cached_property
    def spaces(self) -> KrylovSpaces:
        """The Krylov spaces of the targets, which grow only as far as needed."""
        return KrylovSpaces(self, **self.options)

    def spectrum(self, wanted: Sequence[Goal] | None = None, solver: str = "auto") -> Spectrum:
        """Return all eigenvalues if X is small, else Krylov spaces accurate for these paths."""
        if self.options:
            _ = self.spaces  # checks the options, even if they are not needed
        if solver == "svd":
            raise ValueError('solver="svd" needs a dense X: use "krylov", "gram" or "auto".')
        counts = any(isinstance(method, SpectralCutoff) for method, _ in wanted or ())
        if self.is_whole or (counts and min(self.X.shape) <= LARGEST_GRAM):
            return self.complete(wanted)
        if solver == "gram" or (solver == "auto" and self.is_small):
            spectrum = self._by_products
            if solver == "gram" or largest_gain(wanted) <= spectrum.reach:
                return spectrum
        return self.spaces.spectrum([Goal(Ridge(), np.inf)] if wanted is None else wanted)

    def is_factored_whole(self, *, rows: bool) -> bool:
        """Whether X is small, or small enough for single rows to be left out."""
        readable = rows and self.has_rows and min(self.X.shape) <= LARGEST_WITH_ROWS
        return self.is_small or readable

    def opened(
        self,
        methods: Sequence[Method],
        stops: ArrayLike | int | None,
        *,
        rows: bool,
        trace: bool,
        verbose: bool = False,
    ) -> Spectrum:
        """Return all eigenvalues if X is small; else Krylov spaces up to t√L = 30, or tL = 100."""
        if self.is_factored_whole(rows=rows):
            return self.complete()
        if rows:
            raise ValueError(WITHOUT_ROWS)
        self.spaces.probes = SEARCH_PROBES if trace else 0
        self.spaces.verbose = verbose
        if stops is not None and np.ndim(stops) > 0 and np.size(stops) > 0:
            return self.spaces.spectrum([one for m in methods for one in goals(m, stops)])
        wanted = [self._first_goal(method) for method in methods]
        for _ in range(HALVINGS):
            try:
                return self.spaces.spectrum(wanted)
            except ReachError:
                # the memory is used up before the horizon: end the search at half of it
                wanted = [Goal(m, stop // 2 if m.whole_stops else stop / 2) for m, stop in wanted]
        return self.spaces.spectrum(wanted)

    def pilot(self) -> Spectrum:
        """Return a spectrum with random probes, accurate up to the first goal of a search."""
        return self.opened([Ridge()], None, rows=False, trace=True)

    def _first_goal(self, method: Method) -> Goal:
        """Return the stop at which the search first ends."""
        if not isinstance(method, Filter):
            return Goal(method, method.horizon)
        largest = self.spaces.largest() or 1.0
        time = SMOOTH_HORIZON / largest if method.time_power == 1 else HORIZON / np.sqrt(largest)
        if method.whole_stops:
            # an iteration advances by its pace; fewer than two steps leave nothing to choose from
            time = max(np.ceil(time / method.tuned_to([0.0, largest]).pace), 2.0)
        return Goal(method, float(time))

    def complete(self, wanted: Sequence[Goal] | None = None) -> Spectrum:
        """Return all eigenvalues, from a dense copy of X where squares would lose digits."""
        max_gain = largest_gain(wanted)
        spectrum = self._by_products
        if max_gain <= spectrum.reach:
            return spectrum
        if self.has_rows and self.X.shape[0] * self.X.shape[1] <= MOST_FILLED:
            X = self.X.toarray()
            filled = DenseData.validated(X, self.response, self.row_weights, self.fit_intercept)
            return filled.spectrum([Goal(Ridge(), max_gain)], solver="svd")
        # beyond the reach the loss grows with the gain, which is at most 1/s at full rank
        steepest = np.inf if spectrum.rank < self.n_features else 1 / spectrum.eigenvalues[0]
        if min(max_gain, steepest) > spectrum.reach * VISIBLE_LOSS / self.tolerance:
            warnings.warn(
                "Columns are so dependent, or so different in scale, that rounding of XᵀX may "
                f"change the coefficients at late stops by more than {VISIBLE_LOSS:g} of their "
                "size: standardise or drop columns.",
                UserWarning,
                stacklevel=3,
            )
        return spectrum

    @cached_property
    def _by_products(self) -> Spectrum:
        """The eigenvalues of the smaller of AᵀA and AAᵀ, formed a few columns at a time."""
        size = min(self.X.shape)
        if size > LARGEST_GRAM:
            raise ValueError(
                f'solver="gram" needs the eigenvalues of a matrix of size {size}, beyond '
                f'{LARGEST_GRAM}: use solver="krylov" with a finite stop or max_gain.'
            )
        spectrum = self._by_gram
        # if even the largest eigenvalue is rounding of the means, all columns are constant
        if spectrum.rank and spectrum.eigenvalues[-1] <= self.floor * self.floor:
            none = np.zeros((self.n_features, 0))
            response = spectrum.response[:0]
            return replace(spectrum, eigenvalues=none[0], basis=none, response=response)
        return spectrum

    def folds(self, splits: Splits, *, verbose: bool = False) -> list[Fold]:  # noqa: ARG002
        """Return the folds."""
        return [partial(self.fold, train, test) for train, test in splits]

    def training_set(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> Data:  # noqa: ARG002
        """Return some rows of a small matrix; else all rows, with weight zero for the others."""
        if self.is_small:
            part: Any = self.subset(train)
            return replace(part, is_whole=True)
        weights = np.bincount(train, minlength=self.n_rows).astype(np.float64)
        if self.row_weights is not None:
            weights *= self.row_weights
        options = {"tol": self.spaces.tol, "max_rank": self.spaces.max_rank}
        data = self.validated(self.X, self.response, weights, self.fit_intercept)
        return replace(data, options=options)

    def rows_to_test(self, test: NDArray[np.intp], train: NDArray[np.intp]) -> RowsToTest:  # noqa: ARG002
        """Return some rows; of an operator all rows, with weight zero for the others."""
        if self.has_rows:
            return RowsToTest(self._by_rows[test], self.y[test], self._test_weights(test))
        everywhere = np.zeros(self.n_rows)
        np.add.at(everywhere, test, self._test_weights(test))
        return RowsToTest(self.X, self.y, everywhere)

    @cached_property
    def _by_rows(self) -> Any:
        return self.X.tocsr()

    @cached_property
    def means(self) -> tuple[Floats, Floats]:
        """Means of the columns of X and y; zeros without an intercept."""
        if not self.fit_intercept:
            return np.zeros(self.n_features), np.zeros(self.n_targets)
        return product(self.X, self.shares, transposed=True), self.shares @ self.y

    @property
    def floor(self) -> float:
        """Largest length of the image of a unit vector that may be rounding of the means."""
        # SciPy's norm scales its squares, which would overflow or underflow for extreme means
        return float(MEAN_ROUNDINGS * EPS * linalg.norm(self.means[0]))

    @cached_property
    def operator(self) -> CentredOperator:
        """The A with AᵀA = XᵀX/n."""
        return CentredOperator(self.X, np.sqrt(self.shares), self.fit_intercept)

    @cached_property
    def targets(self) -> Floats:
        """The centred response, weighted so that Aᵀ times it is Xᵀy/n."""
        return np.asarray(np.sqrt(self.shares)[:, None] * (self.y - self.means[1]))

    def centred_in_products(self) -> Centred:
        """Return operator and targets; the mean squares of single columns are unknown."""
        return Centred(self.operator, self.targets, self.means, None)

    def moments(self) -> Moments:
        """Return means and second moments, a few columns at a time."""
        A = self.operator
        return Moments(*self.means, A.T @ A, A.T @ self.targets)

    def image_gram(self, vectors: Floats, means: Floats) -> Floats:  # noqa: ARG002 - the operator has them
        """Return the products of images under the operator."""
        return np.asarray(image_gram(self.operator, vectors))

    def rotated(self, index: Any, mean: Floats, vectors: Floats) -> Floats:
        """Return some centred rows of a sparse matrix times vectors."""
        return np.asarray(self._by_rows[index] @ vectors - mean @ vectors)

    def check_features(self, powers: Floats, means: Floats) -> None:  # noqa: ARG002 - entries are not seen
        """Raise a ValueError if the sum of the squares of X leaves the range."""

        def varies(_: NDArray[np.bool_]) -> bool:
            # Xᵀy beyond the rounding of the means shows that X is not constant
            response = self.operator.T @ self.targets
            return bool(np.abs(response).max() > self.floor * np.linalg.norm(self.targets))

        check_range("X", powers.sum(), varies)
