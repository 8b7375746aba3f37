"""Rules that hold rows out, generalised cross-validation, plug-in, and every rule by its name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft

from stoptime.left_out.curve import ErrorCurve, standard_error
from stoptime.left_out.interpolation import Interpolation
from stoptime.left_out.rows import target_units
from stoptime.methods.base import Method
from stoptime.paths import Drawing
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data, Fold, TestErrors, TestSet, goals, largest_gain
from stoptime.stopping.gcv import naive_gcv, path_gcv_with_spread, shaped
from stoptime.stopping.grid import stops_to_try
from stoptime.stopping.leave_one_out import LeaveOneOut
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice, CurveRule, Rule, choice_at, columns_of, ignored_groups
from stoptime.stopping.training_error import SURE, Discrepancy, LCurve
from stoptime.support.arrays import EPS, Array, Floats, on_host
from stoptime.support.checks import instance_of
from stoptime.support.progress import progress
from stoptime.support.wording import did_you_mean_class, rounded_up
from stoptime.theory.calibration import calibrate_to, possible_eigenvalues
from stoptime.theory.oracle import Oracle, resolved_oracle

MOST_KEPT = 2**22  # numbers of the eigenvectors of all folds that are kept, 32 MB
WORK_OF_NODES = 1e9  # products from which on it pays to find the nodes of an interpolation
TEST_ACCURACY = 1e-12  # relative accuracy of this interpolation
MOST_EXPLODED = 1e3  # ratio of the largest to the least error that may be interpolated
FEWEST_FOLDS = 3  # over which a standard error can be taken
ROUNDED_RESIDUAL = 1e4 * EPS  # of the response: such residuals are rounding errors, and white too


@dataclass(frozen=True)
class PathGCV(CurveRule):
    """Generalised cross-validation adapted to paths; see :func:`stoptime.path_gcv`.

    Where random probes estimate a trace, the standard error is that of the trace alone. The error
    is raised where it rests on a few directions of the residual, as it does near interpolation.
    """

    name: ClassVar[str] = "path-gcv"
    _uses_trace: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the left-out error at the stops from the spectrum alone."""
        return ErrorCurve(stops, *path_gcv_with_spread(problem.spectrum, problem.tuned, stops))


@dataclass(frozen=True)
class GCV(CurveRule):
    """Textbook generalised cross-validation; it warns for every method except ridge."""

    name: ClassVar[str] = "gcv"
    _uses_trace: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops; see :func:`stoptime.naive_gcv`."""
        return ErrorCurve(stops, naive_gcv(problem.spectrum, problem.tuned, stops))


@dataclass(frozen=True)
class NCP(CurveRule):
    r"""Stop where the periodogram of the residuals is closest to that of white noise.

    .. math:: \min_t \frac1q\sum_{k=1}^q\Bigl|c_k(t) - \frac kq\Bigr|, \qquad
        c_k = \frac{\sum_{j\le k}|\hat r_j|^2}{\sum_{j\le q}|\hat r_j|^2}

    with :math:`\hat r` the Fourier coefficients of the residuals, from low to high frequency. The
    rows must be samples of a signal or pixels of an image, with ``shape`` if they are not a line,
    and their noise must be white; its variance need not be known. The rule fails if the noise is
    correlated, or the signal as rough as the noise. From Hansen, Kilmer, Kjeldsen (2006),
    Exploiting residual information in the parameter choice for discrete ill-posed problems.
    """

    shape: tuple[int, ...] | None = None
    name: ClassVar[str] = "ncp"
    measure: ClassVar[str] = "distance"
    compares_methods: ClassVar[bool] = False
    predicts_new_rows: ClassVar[bool] = False

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the distances of the periodograms from that of white noise."""
        every = np.arange(problem.data.n_rows or 0)
        rows = problem.data.rows_to_test(every, every)
        # a row of weight w has noise of variance 1/w
        root = np.sqrt(rows.weights)[:, None]
        units = target_units(problem.spectrum)
        found = rows.residuals(Drawing(problem.spectrum, problem.tuned), stops)
        parts = [self._distances(root * on_host(some) / units) for _, some in found]
        return ErrorCurve(stops, shaped(np.concatenate(parts), problem.spectrum))

    def _distances(self, residuals: Floats) -> Floats:
        """Return the distance for every stop and target."""
        stops, n, targets = residuals.shape
        shape = (n,) if self.shape is None else tuple(int(size) for size in self.shape)
        if min(shape, default=0) < 1 or int(np.prod(shape)) != n:
            raise ValueError(f"shape must have a product of {n}, the number of rows; got {shape}.")
        grid = residuals.reshape(stops, *shape, targets)
        waves = fft.fftn(grid, axes=range(1, 1 + len(shape))).reshape(stops, n, targets)
        # from low to high frequency, without the constant
        frequencies = np.meshgrid(*(fft.fftfreq(size) for size in shape), indexing="ij")
        order = np.argsort(sum(one**2 for one in frequencies).ravel(), kind="stable")[1:]
        sums = np.cumsum(np.abs(waves[:, order]) ** 2, axis=1)
        total = sums[:, -1:]
        seen = total > (n * ROUNDED_RESIDUAL) ** 2
        white = np.arange(1, n)[:, None] / (n - 1)
        distances = np.abs(sums / np.where(seen, total, 1.0) - white).mean(axis=1)
        return np.where(seen[:, 0], distances, 1.0)


@dataclass(frozen=True)
class CrossValidation(CurveRule):
    r"""Cross-validation: the mean squared error on held-out rows.

    The moments of every training set are those of all rows minus those of the held-out rows, so
    XᵀX is computed once for all folds. ``cv`` is the number of folds, any scikit-learn splitter,
    splitters by groups included, or an iterable of (train, test).
    """

    cv: Any = 5
    name: ClassVar[str] = "cross-validation"

    def fixed(
        self, data: Data, groups: ArrayLike | None = None, *, verbose: bool = False
    ) -> CrossValidation:
        """Return the rule with its folds drawn once, the same for all stops and methods."""
        if isinstance(self.cv, FixedFolds):
            return self
        check_splitter(self.cv, groups)
        splits = data.splits(self.cv, groups)
        return CrossValidation(FixedFolds(tuple(data.folds(splits, verbose=verbose))))

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        rule = self.fixed(problem.data, problem.groups, verbose=problem.verbose)
        tests = []
        for fold in progress(rule.cv.folds, "cross-validation", problem.verbose):
            test, spectrum = rule.cv.opened(fold, problem.method, stops)
            tests.append(_tested(problem, test, spectrum, stops))
        return _combined(problem, stops, tests)


def _tested(problem: Problem, test: TestSet, spectrum: Spectrum, stops: Array) -> TestErrors:
    """Return the sums of errors on a test set; of many targets they are interpolated."""
    drawing = Drawing(spectrum, problem.method)
    units = target_units(problem.spectrum)
    work = float(problem.data.n_rows or 0) * spectrum.rank * problem.data.n_targets * len(stops)
    if work < WORK_OF_NODES or not (spectrum.is_complete and problem.method.has_filter):
        return test.errors(drawing, stops, units)
    method = problem.method.tuned_to(spectrum.padded_eigenvalues)
    largest = float(spectrum.eigenvalues.max())
    curve = Interpolation.of_powers(method, stops, largest, TEST_ACCURACY, fourths=True)
    few = test.errors(drawing, stops[curve.nodes], units)
    # errors that explode at late stops would spoil all others: then nothing is interpolated
    if (few.squares.max(axis=0) > MOST_EXPLODED * few.squares.min(axis=0)).any():
        return test.errors(drawing, stops, units)
    return few.mapped(curve.extended)


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


@dataclass(frozen=True)
class FixedFolds:
    """Folds that were drawn once, in place of a splitter; small ones keep their spectra."""

    folds: tuple[Fold, ...]
    _kept: dict[Fold, tuple[TestSet, Spectrum]] = field(default_factory=dict, compare=False)

    def opened(self, fold: Fold, method: Method, stops: Array) -> tuple[TestSet, Spectrum]:
        """Return the test set, and the spectrum of the training set up to the stops."""
        wanted = goals(method, stops)
        if fold in self._kept and largest_gain(wanted) <= self._kept[fold][1].reach:
            return self._kept[fold]
        train, test = fold()
        spectrum = train.spectrum(wanted)
        if len(self.folds) * spectrum.n_features * spectrum.rank <= MOST_KEPT:
            self._kept[fold] = test, spectrum
        return test, spectrum


# not compared by value, because a comparison of arrays gives an array
@dataclass(frozen=True, eq=False)
class HoldOut(CurveRule):
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

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        test = problem.data.test_set(self.X_val, self.y_val)
        return _combined(problem, stops, [_tested(problem, test, problem.spectrum, stops)])


def _combined(problem: Problem, stops: Array, tests: list[TestErrors]) -> ErrorCurve:
    """Return the mean over all rows, and its standard error over folds or, with few folds, rows."""
    units = target_units(problem.spectrum)
    weight = sum(test.weight for test in tests)
    errors = np.sum([test.squares for test in tests], axis=0) / weight
    deviation = None
    if len(tests) >= FEWEST_FOLDS:
        deviation = standard_error(np.array([test.squares / test.weight for test in tests]))
    elif all(test.fourths is not None for test in tests):
        # Σ w²(e² - m)², multiplied out: the sums are known before the mean m is
        crossed: Any = [test.weighted_squares for test in tests]
        fourths: Any = [test.fourths for test in tests]
        variance = np.sum(fourths, axis=0) - 2 * errors * np.sum(crossed, axis=0)
        variance += errors**2 * sum(test.weight_squares for test in tests)
        deviation = np.sqrt(np.maximum(variance, 0)) / weight
    target: Any = 0 if problem.data.single_target else slice(None)
    if deviation is not None:
        deviation = (units**2 * deviation)[:, target]
    return ErrorCurve(stops, (units**2 * errors)[:, target], deviation)


@dataclass(frozen=True)
class PlugIn(Rule):
    """Stop where the guarantee against ridge with the estimated best penalty is best.

    The curve is the error that the estimated noise and signal imply. From an array of stops, the
    one with the least such error is chosen; otherwise the stop is
    :func:`stoptime.equivalent_stop` of the estimated penalty.
    """

    name: ClassVar[str] = "plug-in"
    predicts_new_rows: ClassVar[bool] = False
    _uses_trace: ClassVar[bool] = True

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick one stop for all targets; see :meth:`Rule.choose`."""
        if per_target:
            raise ValueError(
                'rule="plug-in" has one stop for all targets: use rule="loo" with per_target.'
            )
        grid, given = stops_to_try(problem, stops)
        oracle, spectrum = resolved_oracle(problem.data, problem.spectrum)
        problem = replace(problem, spectrum=spectrum)
        curve = ErrorCurve(grid, _expected(problem, oracle, grid))
        message = f"least expected error of {len(grid)} stops"
        stop = float(grid[np.argmin(curve.errors)])
        if not given:
            stop, message = _best_guarantee(problem, oracle.penalty)
        error = float(_expected(problem, oracle, np.array([stop]))[0])
        return Choice(stop, error, curve, None, message)


def _expected(problem: Problem, oracle: Oracle, stops: Array) -> Array:
    """Return noise plus in-sample Bayes risk, σ² + (r²/p) Σ sg² + (σ²/n) Σ s²φ²."""
    spectrum = problem.spectrum
    noise = float(np.mean(oracle.noise))
    s, weights = (values.astype(np.float64, copy=False) for values in spectrum.atoms)
    g = problem.tuned.shrinkage(s[:, None], stops)
    gain = problem.tuned.gain(s[:, None], stops)
    variance = noise / spectrum.n_observations
    if oracle.penalty > 0:
        # (r²/p)s by way of the penalty, because r² itself may overflow
        powers = variance * (s / oracle.penalty)
    else:
        z = spectrum.response.reshape(spectrum.rank, -1).astype(np.float64)
        lengths = np.hypot.reduce(z / spectrum.eigenvalues[:, None], axis=0)
        powers = np.mean(np.multiply.outer(np.sqrt(s), lengths) ** 2, axis=1) / spectrum.n_penalised
    bias = (weights * powers) @ g**2
    return np.asarray(noise + bias + variance * (weights @ (s[:, None] * gain) ** 2))


def _best_guarantee(problem: Problem, penalty: float) -> tuple[float, str]:
    """Return the stop equivalent to ridge with the penalty, and its guarantee in words."""
    if penalty == 0:
        return np.inf, "no noise was detected"
    if penalty == np.inf:
        return 0.0, "no signal was detected"
    found = calibrate_to(problem.tuned, penalty, eigenvalues=possible_eigenvalues(problem.spectrum))
    message = (
        f"equivalent to ridge with the estimated best penalty, {penalty:.3g}: "
        f"at most {rounded_up(found.inflation)} times its Bayes risk"
    )
    return found.stop, message


@dataclass(frozen=True)
class OneStandardError(Rule):
    """The earliest stop whose error is within one standard error of the least error.

    ``rule`` is another rule; it estimates the error curve and its standard errors.
    """

    rule: CurveRule | str = LeaveOneOut(standard_errors=True)  # noqa: RUF009 - it is frozen
    name: ClassVar[str] = "one-standard-error"

    @property
    def needs_rows(self) -> bool:
        """Whether ``rule`` reads rows one by one."""
        return get_rule(self.rule).needs_rows

    @property
    def needs_trace(self) -> bool:
        """Whether ``rule`` sums over all eigenvalues."""
        return get_rule(self.rule).needs_trace

    def fixed(
        self, data: Data, groups: ArrayLike | None = None, *, verbose: bool = False
    ) -> OneStandardError:
        """Return this rule with the folds of ``rule`` drawn once."""
        fixed = get_rule(self.rule).fixed(data, groups, verbose=verbose)
        return OneStandardError(fixed) if isinstance(fixed, CurveRule) else self

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the earliest stop as good as the best; see :meth:`Rule.choose`."""
        rule = get_rule(self.rule)
        # a standard error of path GCV is that of random probes, not of the data
        best = None
        if not isinstance(rule, PathGCV):
            best = rule.choose(problem, stops, per_target=per_target)
        if best is None or best.standard_error is None:
            raise ValueError(
                f"{rule} has no standard error over rows or folds: use CrossValidation(5) or, "
                "if exact leave-one-out is possible, LeaveOneOut(True)."
            )
        limit = np.atleast_1d(best.error + best.standard_error)
        within = columns_of(best.curve, per_target=per_target) <= limit
        message = f"earliest stop within one standard error of the {best.message}"
        return choice_at(np.argmax(within, axis=0), best.curve, message, per_target=per_target)


_CLASSES = LeaveOneOut, PathGCV, GCV, SURE, Discrepancy, NCP, LCurve, PlugIn, OneStandardError
RULES: dict[str, type[Rule]] = {cls.name: cls for cls in _CLASSES}
"""Every rule that needs no further data, by its name."""


def get_rule(rule: str | Rule | type[Rule], cv: Any = None) -> Rule:
    """Return the rule of that name with its defaults, or cross-validation by a splitter ``cv``.

    Examples
    --------
    >>> get_rule("loo")
    LeaveOneOut(standard_errors=None)
    """
    if cv is not None:
        return CrossValidation(cv)
    if isinstance(rule, Rule | type):
        return instance_of(rule, Rule)
    given: Any = rule  # callers without types give anything
    if not isinstance(given, str) or given not in RULES:
        hint = did_you_mean_class(rule, RULES)
        raise ValueError(
            f"Unknown rule {rule!r}{hint or '.'} Choose one of {', '.join(RULES)}, or give a "
            "splitter as cv."
        )
    return RULES[given]()
