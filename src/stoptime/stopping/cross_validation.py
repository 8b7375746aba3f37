"""Cross-validation with any splitter in one pass over the data, and a validation set of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import check_cv
from sklearn.utils import check_array, check_consistent_length

from stoptime.left_out.curve import FEWEST_FOLDS, ErrorCurve, standard_error
from stoptime.left_out.rows import target_units
from stoptime.paths import draw, goals, largest_gain
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import Data, factored, validated
from stoptime.spectrum.kernel import decompose_kernel
from stoptime.spectrum.kinds import MATRIX_FREE, STREAMED, kind_of
from stoptime.spectrum.krylov.operator import MatrixFreeData, checked
from stoptime.spectrum.krylov.spaces import KrylovSpaces
from stoptime.spectrum.moments import Moments
from stoptime.spectrum.streamed.folds import row_numbers
from stoptime.spectrum.tensors import checked_tensors, rows_like
from stoptime.stopping.passed import errors_of_folds
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import CurveRule
from stoptime.support.arrays import Array, Floats, as_float64, is_tensor, like, on_host
from stoptime.support.progress import progress

__all__ = ["CrossValidation", "HoldOut"]

CHUNK = 2**23  # entries of one table of coefficients
CANCELLED = (
    1e-6  # share of a column's variance that must be left for a difference of moments to be exact
)


@dataclass(frozen=True)
class CrossValidation(CurveRule):
    r"""Mean squared error on rows held out in turn.

    The moments of every training set are those of all rows less those of the rows held out, so X is
    multiplied by itself once, however many folds there are.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test), default=5
        Any scikit-learn splitter, groups included.
    """

    cv: Any = 5
    name: ClassVar[str] = "cross-validation"

    def fixed(self, problem: Problem) -> CrossValidation:
        """Return the rule with its splits drawn once, so that every stop and method sees the same."""
        if problem.parts is not None:
            return self
        return CrossValidation(self._splits(problem))

    def _splits(self, problem: Problem) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        n = problem.X.shape[0]
        X = (
            problem.X if isinstance(problem.X, np.ndarray) else np.zeros((n, 1))
        )  # splitters count its rows
        drawn = check_cv(self.cv).split(X, problem.y, problem.groups)
        splits = [(row_numbers(train, n), row_numbers(test, n)) for train, test in drawn]
        if not splits:
            raise ValueError(
                "cv must give at least one pair of training and test rows; it gave none."
            )
        return splits

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        if problem.parts is not None:
            return errors_of_folds(problem, problem.parts, stops)
        splits = [(train, test) for train, test in self._splits(problem) if _counts(problem, test)]
        tall = (
            problem.X.shape[1] <= min(len(train) for train, _ in splits) and problem.spaces is None
        )
        whole = _part(problem, np.arange(problem.X.shape[0])).moments() if tall else None
        tests = [
            _test_errors(
                problem, _train_spectrum(problem, whole, train, test, stops), train, test, stops
            )
            for train, test in progress(splits, "cross-validation", problem.verbose)
        ]
        return _combined(stops, tests, target_units(problem.spectrum), problem.y.ndim == 1)


@dataclass(frozen=True, eq=False)  # arrays have no one answer to being equal
class HoldOut(CurveRule):
    """Mean squared error on a validation set of one's own; the model is then fitted to all training rows.

    Parameters
    ----------
    X_val : array-like, sparse matrix or LinearOperator of shape (m, n_features)
        Rows kept for validation.
    y_val : array-like of shape (m,) or (m, n_targets)
        Their response.
    """

    X_val: ArrayLike
    y_val: ArrayLike
    name: ClassVar[str] = "hold-out"

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        X, y = self._checked(problem)
        if X.shape[1] != problem.X.shape[1] or y.shape[1:] != problem.y.shape[1:]:
            raise ValueError(
                f"The validation set has shapes {X.shape} and {y.shape}, which do not fit the training "
                f"data, {problem.X.shape} and {problem.y.shape}."
            )
        squares = _squares(problem, problem.spectrum, X, y, np.ones(len(y)), stops)
        return _combined(stops, [squares], target_units(problem.spectrum), y.ndim == 1)

    def _checked(self, problem: Problem) -> tuple[Any, Any]:
        if is_tensor(problem.X):
            return checked_tensors(rows_like(problem.X, self.X_val), self.y_val)
        if kind_of(self.X_val) in STREAMED:
            raise TypeError(f"X_val must be rows in memory; got {type(self.X_val).__name__}.")
        dtype = problem.spectrum.eigenvalues.dtype
        X: Any = self.X_val if problem.new_rows is None else problem.new_rows(self.X_val)
        free = kind_of(X) in MATRIX_FREE
        X = checked(X, "X_val") if free else check_array(X, dtype=dtype, input_name="X_val")
        y = np.asarray(check_array(self.y_val, dtype=dtype, ensure_2d=False, input_name="y_val"))
        check_consistent_length(np.empty((X.shape[0], 0)), y)
        return X, y


def _counts(problem: Problem, test: NDArray[np.intp]) -> bool:
    """Tell whether any row of a test set has weight."""
    return problem.sample_weight is None or bool(np.any(problem.sample_weight[test] > 0))


@dataclass(frozen=True)
class _Test:
    """Weighted sums over the rows of one test set, each (n_stops, n_targets), in units of every target."""

    weight: float
    weight_squares: float
    squares: Floats
    weighted_squares: Floats
    fourths: Floats


def _part(problem: Problem, rows: NDArray[np.intp]) -> Data:
    weights = None if problem.sample_weight is None else problem.sample_weight[rows]
    return validated(problem.X[rows], problem.y[rows], weights, problem.spectrum.fit_intercept)


def _train_spectrum(
    problem: Problem,
    whole: Moments | None,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    stops: Array,
) -> Spectrum:
    """Factor a training set, from the moments of all rows where train and test are all rows."""
    if problem.new_rows is not None:
        weights = None if problem.sample_weight is None else problem.sample_weight[train]
        values = problem.X[np.ix_(train, train)]
        return decompose_kernel(values, problem.y[train], weights, problem.spectrum.fit_intercept)
    if problem.spaces is not None:
        return _without_reading_rows(problem, problem.spaces, train, stops)
    data = _part(problem, train)
    known = None
    complement = np.array_equal(
        np.sort(np.concatenate([train, test])), np.arange(problem.X.shape[0])
    )
    if whole is not None and complement:
        part = _part(problem, test)
        known = whole.without(part.moments(), part.n_samples / (part.n_samples + data.n_samples))
        if (known.gram.diagonal() < CANCELLED * whole.gram.diagonal()).any():
            known = None
    return factored(data, known, max_gain=largest_gain(problem.method, stops))


def _without_reading_rows(
    problem: Problem, spaces: KrylovSpaces, train: NDArray[np.intp], stops: Array
) -> Spectrum:
    """Grow a Krylov space of its own for a training set: all other rows have weight zero."""
    times = np.bincount(train, minlength=problem.X.shape[0]).astype(np.float64)
    weights = times if problem.sample_weight is None else times * problem.sample_weight
    data = MatrixFreeData.validated(problem.X, problem.y, weights, problem.spectrum.fit_intercept)
    return KrylovSpaces(data, spaces.tol, spaces.max_rank).spectrum(goals(problem.method, stops))


def _test_errors(
    problem: Problem,
    spectrum: Spectrum,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    stops: Array,
) -> _Test:
    weights = np.ones(len(test))
    if problem.sample_weight is not None:
        weights = problem.sample_weight[test] / problem.sample_weight.max()
    if kind_of(problem.X) == "operator":  # all rows are predicted, and these alone are looked at
        everywhere = np.zeros(problem.X.shape[0])
        np.add.at(everywhere, test, weights)
        return _squares(problem, spectrum, problem.X, problem.y, everywhere, stops)
    rows = problem.X[test] if problem.new_rows is None else problem.X[np.ix_(test, train)]
    return _squares(problem, spectrum, rows, problem.y[test], weights, stops)


def _squares(
    problem: Problem, spectrum: Spectrum, X: Floats, y: Floats, weights: Array, stops: Array
) -> _Test:
    """Sum powers of the prediction errors, a bounded number of stops at a time."""
    targets = y.reshape(len(y), -1)
    sums = np.empty((3, len(stops), targets.shape[1]))
    shares, units = like(targets, weights), like(targets, target_units(problem.spectrum))
    for rows in _chunks(len(stops), max(X.shape) * targets.shape[1]):
        fit = draw(spectrum, problem.method, stops[rows]).predict(X)
        squares = (as_float64(fit.reshape(len(fit), *targets.shape) - targets) / units) ** 2
        powers = shares @ squares, shares**2 @ squares, shares**2 @ squares**2
        sums[:, rows] = [on_host(power) for power in powers]
    return _Test(float(weights.sum()), float(weights @ weights), *sums)


def _chunks(count: int, size: int) -> Iterator[slice]:
    height = max(1, CHUNK // size)
    return (slice(start, start + height) for start in range(0, count, height))


def _combined(stops: Array, tests: list[_Test], units: Array, single_target: bool) -> ErrorCurve:
    """Return the mean over all rows, and its standard error over folds or, with few folds, over rows."""
    weight = sum(test.weight for test in tests)
    errors = np.sum([test.squares for test in tests], axis=0) / weight
    if len(tests) >= FEWEST_FOLDS:
        folds = np.array([test.squares / test.weight for test in tests])
        deviation = standard_error(folds)
    else:
        variance = np.sum([t.fourths - 2 * errors * t.weighted_squares for t in tests], axis=0)
        variance += errors**2 * sum(test.weight_squares for test in tests)
        deviation = np.sqrt(np.maximum(variance, 0)) / weight
    errors, deviation = units**2 * errors, units**2 * deviation
    if single_target:
        errors, deviation = errors[:, 0], deviation[:, 0]
    return ErrorCurve(stops, errors, deviation)
