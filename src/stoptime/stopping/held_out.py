r"""Rules that hold rows out: cross-validation, and a validation set.

With rows in the eigenbasis of the training set, the residual of a held-out row is linear in the
filter,

.. math:: r_i(t) = \tilde y_i - \sum_ja_{ij}\hat\beta_j\bigl(1 - g(s_j, t)\bigr).

The filters of all stops are nearly dependent, so that the mean square at every stop is a quadratic
form c(t)ᵀMc(t) in a few coordinates, as it is for rows that are left out one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import LeaveOneOut as Splitter

from stoptime.left_out.contours import NEGLIGIBLE, SPANNED
from stoptime.left_out.curve import ErrorCurve, standard_error
from stoptime.left_out.predictions import new_scores
from stoptime.left_out.rows import target_units
from stoptime.methods.base import Filter, Method
from stoptime.paths import Drawing
from stoptime.spectrum.accuracy import ReachError
from stoptime.spectrum.data import Data, Fold, RowsToTest, TestErrors, TestSet, Want
from stoptime.stopping.rule import Choice, CurveRule, ignored_groups
from stoptime.support.arrays import Array, Floats, as_float64, like, on_host, slices
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.spectrum.base import Spectrum
    from stoptime.stopping.problem import Problem

AT_ONCE = 2**22  # numbers that are held at once, 32 MB
FEWEST_FOLDS = 3  # over which a standard error can be taken


class _HeldOut(CurveRule):
    """A rule whose errors are those of paths on test sets."""

    def _tests(self, problem: Problem, stops: Array) -> list[Tested]:
        """Return the test sets, each with the spectrum of its training set up to the stops."""
        raise NotImplementedError

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        tests = self._tests(problem, stops)
        squares = [one.squares(problem.method, stops) for one in tests]
        weights = [one.weight for one in tests]
        units = target_units(problem.spectrum)
        target: Any = 0 if problem.data.single_target else slice(None)
        errors = np.sum(squares, axis=0) / sum(weights)
        deviation = None
        if len(tests) >= FEWEST_FOLDS:
            means = [own / weight for own, weight in zip(squares, weights, strict=True)]
            deviation = (units**2 * standard_error(np.array(means)))[:, target]
        return ErrorCurve(stops, (units**2 * errors)[:, target], deviation)

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop with the least error; see :meth:`Rule.choose`."""
        choice = super().choose(problem, stops, per_target=per_target)
        return self.finished(problem, choice)

    def parts(self, problem: Problem, choice: Choice) -> Floats | None:
        """Return the mean squared errors of all folds, weighted to have the error as their mean."""
        stops, own = np.unique(choice.stop, return_inverse=True)
        tests = self._tests(problem, stops)
        if len(tests) < FEWEST_FOLDS:
            return None
        weight = sum(one.weight for one in tests) / len(tests)
        squares = np.stack([one.squares(problem.method, stops) for one in tests]) / weight
        units = target_units(problem.spectrum)
        return units**2 * squares[:, np.broadcast_to(own, len(units)), np.arange(len(units))]

    def finished(self, problem: Problem, choice: Choice) -> Choice:
        """Return the choice with a standard error over rows, where there are too few folds."""
        if choice.standard_error is not None:
            return choice
        try:
            problem = problem.reaching(choice.stop)
        except ReachError:
            return choice
        stops, own = np.unique(choice.stop, return_inverse=True)
        tests = self._tests(problem, stops)
        sums = [one.sums(problem.method, stops) for one in tests]
        if any(one.fourths is None for one in sums):
            return choice
        # Σ w²(e² - m)², multiplied out: the sums are known before the mean m is
        weight = sum(one.weight for one in sums)
        mean = sum(one.squares for one in sums) / weight
        variance = sum(one.fourths for one in sums if one.fourths is not None)
        crossed: Any = sum(one.weighted_squares for one in sums if one.weighted_squares is not None)
        variance = variance - 2 * mean * crossed + mean**2 * sum(one.weight_squares for one in sums)
        spread = target_units(problem.spectrum) ** 2 * np.sqrt(np.maximum(variance, 0)) / weight
        if np.ndim(choice.stop):
            return replace(choice, standard_error=spread[own, np.arange(len(own))])
        return replace(choice, standard_error=float(spread[0].mean()))


@dataclass(frozen=True)
class CrossValidation(_HeldOut):
    r"""Cross-validation: the mean squared error on held-out rows.

    The moments of every training set are those of all rows minus those of the held-out rows, so
    XᵀX is computed once for all folds. ``cv`` is the number of folds, any scikit-learn splitter,
    splitters by groups included, or an iterable of (train, test).
    """

    cv: Any = 5
    name: ClassVar[str] = "cross-validation"

    def fixed(self, data: Data, groups: ArrayLike | None = None) -> CrossValidation:
        """Return the rule with its folds drawn once, the same for all stops and methods."""
        if isinstance(self.cv, FixedFolds):
            return self
        check_splitter(self.cv, groups)
        splits = data.splits(self.cv, groups)
        return CrossValidation(FixedFolds(tuple(data.folds(splits))))

    def _tests(self, problem: Problem, stops: Array) -> list[Tested]:
        rule = self.fixed(problem.data, problem.groups)
        units = target_units(problem.spectrum)
        folds = progress(rule.cv.folds, "cross-validation")
        return [rule.cv.opened(fold, problem.method, stops, units) for fold in folds]


def check_splitter(cv: Any, groups: Any = None) -> None:
    """Refuse a class in the place of a splitter, and a splitter that ignores the groups given."""
    if isinstance(cv, type):
        raise TypeError(f"cv must be a splitter, not its class: write cv={cv.__name__}().")
    if groups is None:
        return
    ignores = not hasattr(cv, "split")
    # splitters of other packages seldom declare what they use, and are trusted
    if type(cv).__module__.startswith("sklearn."):
        ignores = not cv.get_metadata_routing().consumes("split", ["groups"])
    if ignores:
        raise ignored_groups(f"cv={cv!r:.60}")


def is_leave_one_out(cv: Any) -> bool:
    """Tell whether a splitter leaves out single rows, which the exact rule does without refits."""
    return isinstance(cv, Splitter)


@dataclass(frozen=True)
class FixedFolds:
    """Folds that were drawn once, in place of a splitter; small ones keep what was computed."""

    folds: tuple[Fold, ...]
    _kept: dict[Fold, Tested] = field(default_factory=dict, compare=False)

    def opened(self, fold: Fold, method: Method, stops: Array, units: Array) -> Tested:
        """Return the test set, with the spectrum of the training set up to the stops."""
        kept = self._kept.get(fold)
        if kept is not None and kept.spectrum.accuracy.reaches(method, stops):
            return kept
        train, test = fold()
        found = Tested(test, train.spectrum(Want.path(method, stops)), units)
        if len(self.folds) * found.spectrum.n_features * found.spectrum.rank <= AT_ONCE:
            self._kept[fold] = found
        return found


# not compared by value, because a comparison of arrays gives an array
@dataclass(frozen=True, eq=False)
class HoldOut(_HeldOut):
    """Mean squared error on a validation set; the model is then fitted to all training rows.

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

    def _tests(self, problem: Problem, stops: Array) -> list[Tested]:  # noqa: ARG002
        test = problem.data.test(self.X_val, self.y_val)
        return [Tested(test, problem.spectrum, target_units(problem.spectrum))]


@dataclass(frozen=True, eq=False)
class Tested:
    """A test set and the spectrum of its training set, with the unit of every target."""

    test: TestSet
    spectrum: Spectrum
    units: Array
    _forms: dict[Method, _Form] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """The sum of the weights of the test rows."""
        return self.test.weight

    def sums(self, method: Method, stops: Array) -> TestErrors:
        """Return sums of squares and of fourth powers at the stops, one by one."""
        return self.test.errors(Drawing(self.spectrum, method), stops, self.units)

    def squares(self, method: Method, stops: Array) -> Array:
        """Return weighted sums of squared errors at the stops, (n_stops, n_targets)."""
        filtered = self.spectrum.accuracy.complete and self.spectrum.rank
        if not (filtered and isinstance(method, Filter) and isinstance(self.test, RowsToTest)):
            return np.asarray(self.sums(method, stops).squares)
        tuned = method.tuned_to(self.spectrum.padded_eigenvalues)
        learned = _learned(tuned, self.spectrum.eigenvalues.astype(np.float64), stops)
        form = self._forms.get(method)
        if form is None or not form.holds(learned):
            form = self._forms[method] = self._form(self.test, learned)
        return form.squares(learned)

    def _form(self, test: RowsToTest, learned: Array) -> _Form:
        """Return the form of filters with these values, from one product with the test rows."""
        spectrum = self.spectrum
        s = spectrum.eigenvalues.astype(np.float64)
        scores = new_scores(spectrum, test.X)
        coef = spectrum.response.reshape(len(s), -1).astype(np.float64) / self.units / s[:, None]
        targets = as_float64(test.y) - like(test.y, np.atleast_1d(on_host(spectrum.target_mean)))
        if (geometry := spectrum.geometry) is not None:
            free = new_scores(spectrum, test.X, geometry.vectors)
            response = geometry.response.reshape(-1, len(self.units))
            targets = targets - free @ like(free, response)
        targets = targets / like(targets, self.units)
        # directions count by the size of what they contribute, which may be large for new rows
        lengths = np.sqrt(on_host((scores**2).sum(axis=0)) / len(test.weights))
        sizes = np.append(1.0, lengths * np.abs(coef).max(axis=1))[:, None]
        left, singular, _ = np.linalg.svd(sizes * learned, full_matrices=False)
        basis = left[:, singular > NEGLIGIBLE]
        # a direction of no size has no part in the basis
        unscaled = basis / np.where(sizes > 0, sizes, 1.0)
        weights = like(scores, test.weights)
        count = basis.shape[1]
        products = np.empty((len(self.units), count, count))
        for some in slices(len(self.units), AT_ONCE // (count * len(test.weights))):
            mixed = coef[:, some, None] * unscaled[1:, None]
            fit = scores @ like(scores, mixed.reshape(len(s), -1))
            fit = fit.reshape(len(test.weights), -1, count)
            columns = (targets[:, some, None] * like(scores, unscaled[0]) - fit).swapaxes(0, 1)
            products[some] = on_host((columns * weights[:, None]).swapaxes(1, 2) @ columns)
        return _Form(sizes, basis, products)


class _Form(NamedTuple):
    """Sums of squared residuals of test rows for all filters in a span.

    ``basis`` are orthonormal vectors of the values of filters, in units of the ``sizes`` by which
    directions change the residuals; ``products`` are the M of every target.
    """

    sizes: Array
    basis: Array
    products: Array

    def holds(self, learned: Array) -> bool:
        """Tell whether the filters with these values are in the span."""
        values = self.sizes * learned
        rest = values - self.basis @ (self.basis.T @ values)
        return bool(np.abs(rest).max(initial=0) <= SPANNED)

    def squares(self, learned: Array) -> Array:
        """Return weighted sums of squares, (n_stops, n_targets)."""
        own = self.basis.T @ (self.sizes * learned)
        parts = [
            (own * (self.products[some] @ own)).sum(axis=1).T
            for some in slices(len(self.products), AT_ONCE // max(own.size, 1))
        ]
        return np.maximum(np.concatenate(parts, axis=1), 0)


def _learned(method: Filter, s: Array, stops: Array) -> Array:
    """Return a one, and 1 - g at every eigenvalue, in a column for every stop."""
    learned = s[:, None] * method.gain(s[:, None], stops)
    return np.concatenate([np.ones((1, len(stops))), learned])
