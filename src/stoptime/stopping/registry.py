"""Rules that hold rows out, generalised cross-validation, plug-in, and every rule by its name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.left_out.curve import ErrorCurve, standard_error
from stoptime.left_out.rows import target_units
from stoptime.paths import draw
from stoptime.spectrum.data import goals
from stoptime.stopping.gcv import naive_gcv, path_gcv, path_gcv_with_spread
from stoptime.stopping.grid import stops_to_try
from stoptime.stopping.rule import Choice, CurveRule, Rule, choice_at, columns_of
from stoptime.stopping.sure_discrepancy import SURE, Discrepancy
from stoptime.support.progress import progress
from stoptime.support.wording import rounded_up
from stoptime.theory.calibration import calibrate_to, possible_eigenvalues
from stoptime.theory.oracle import resolved_oracle

if TYPE_CHECKING:
    from stoptime.spectrum.data import Data, Fold, TestErrors
    from stoptime.stopping.problem import Problem
    from stoptime.support.arrays import Array, Floats
    from stoptime.theory.oracle import Oracle

FIRST_STAGE_PHASE = 32.0  # t√L of the last stop of the first stage
ONE_PASS_PHASE = 512.0  # t√L up to which a whole grid is looked at in one stage
PHASE_RATIO = 4.0  # between the last stops of neighbouring stages
CLEARLY_WORSE = 1.05  # times the least error so far
FEWEST_FOLDS = 3  # over which a standard error can be taken


@dataclass(frozen=True)
class LeaveOneOut(CurveRule):
    """Exact leave-one-out error; see :func:`stoptime.leave_one_out`.

    ``standard_errors`` asks for its standard error; by default, if the targets are few.
    """

    standard_errors: bool | None = None
    name: ClassVar[str] = "loo"
    _uses_rows: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the left-out error at the stops."""
        wanted = problem.has_few_targets if self.standard_errors is None else self.standard_errors
        return problem.left_out.errors(stops, standard_errors=wanted, verbose=problem.verbose)

    def _begun(self, problem: Problem, grid: Array, *, per_target: bool) -> tuple[ErrorCurve, bool]:
        """Evaluate early stops first, then later ones until the error has clearly risen.

        The grid ends where the slowest direction is learned, far beyond the best stop of
        ill-conditioned data, and late stops cost most. Least squares has a closed form and is
        evaluated first. Path GCV, which needs no rows, guards against a late second minimum.
        """
        stops = grid[np.isfinite(grid)]
        stage = _stages(problem, stops)
        curve = self.errors(problem, np.append(stops[stage == 0], grid[np.isinf(grid)]))
        guard: Floats | None = None
        for number in np.unique(stage[stage > 0]):
            seen = columns_of(curve, per_target=per_target)
            limit = CLEARLY_WORSE * seen[np.isfinite(curve.stops)].min(axis=0)
            later = self.errors(problem, stops[stage == number])
            ends = seen[np.isinf(curve.stops)]
            curve = curve.joined(later)
            new = np.concatenate([columns_of(later, per_target=per_target), ends])
            if not (new > limit).all():
                continue
            if guard is None:
                guard = path_gcv(problem.spectrum, problem.tuned, stops).reshape(len(stops), -1)
            ahead = guard[stage > number].min(axis=0, initial=np.inf)
            if (ahead > CLEARLY_WORSE * guard[stage <= number].min(axis=0)).all():
                return curve, True
        return curve, False


def _stages(problem: Problem, stops: Array) -> NDArray[np.intp]:
    """Return the stage of every stop: the first ends at t√L = 32, each later one 4 times later."""
    tuned = problem.tuned
    largest = float(problem.spectrum.eigenvalues.max(initial=0))
    with np.errstate(over="ignore", divide="ignore"):
        phases = np.sqrt((tuned.pace * stops) ** tuned.order * largest)
        stages = np.ceil(np.log(phases / FIRST_STAGE_PHASE) / np.log(PHASE_RATIO))
    if not tuned.oscillates or phases.max(initial=0) <= ONE_PASS_PHASE:
        stages = np.zeros(len(stops))  # late stops cost little: one pass over the rows is fastest
    return np.maximum(np.nan_to_num(stages, posinf=0, neginf=0), 0).astype(np.intp)


@dataclass(frozen=True)
class PathGCV(CurveRule):
    """Generalised cross-validation adapted to paths; see :func:`stoptime.path_gcv`.

    Where random probes estimate a trace, the standard error is that of the trace alone.
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
        return CrossValidation(FixedFolds(tuple(data.folds(self.cv, groups, verbose=verbose))))

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        rule = self.fixed(problem.data, problem.groups, verbose=problem.verbose)
        units = target_units(problem.spectrum)
        tests = []
        for fold in progress(rule.cv.folds, "cross-validation", problem.verbose):
            train, test = fold()
            spectrum = train.spectrum(goals(problem.method, stops))
            tests.append(test.errors(partial(draw, spectrum, problem.method), stops, units))
        return _combined(problem, stops, tests)


@dataclass(frozen=True)
class FixedFolds:
    """Folds that were drawn once, in place of a splitter."""

    folds: tuple[Fold, ...]


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
        units = target_units(problem.spectrum)
        errors = test.errors(partial(draw, problem.spectrum, problem.method), stops, units)
        return _combined(problem, stops, [errors])


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
        powers = np.mean(np.multiply.outer(np.sqrt(s), lengths) ** 2, axis=1) / spectrum.n_features
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

    rule: CurveRule | str = LeaveOneOut(standard_errors=True)
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


RULES: dict[str, type[Rule]] = {
    cls.name: cls
    for cls in (LeaveOneOut, PathGCV, GCV, SURE, Discrepancy, PlugIn, OneStandardError)
}
"""Every rule that needs no further data, by its name."""


def get_rule(rule: str | Rule, cv: Any = None) -> Rule:
    """Return the rule of that name with its defaults, or cross-validation by a splitter ``cv``.

    Examples
    --------
    >>> get_rule("loo")
    LeaveOneOut(standard_errors=None)
    """
    if cv is not None:
        return CrossValidation(cv)
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, str) or rule not in RULES:
        raise ValueError(
            f"Unknown rule {rule!r}; choose one of {', '.join(RULES)}, or give a splitter as cv."
        )
    return RULES[rule]()
