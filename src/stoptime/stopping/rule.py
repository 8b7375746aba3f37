"""What a rule is, what it returns, and how the lowest point of an error curve is found."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.left_out.curve import ErrorCurve
from stoptime.methods.recurrence import closer_stops
from stoptime.spectrum.krylov.spaces import KrylovLimitError
from stoptime.stopping.grid import default_stops, last_swing
from stoptime.stopping.problem import Problem
from stoptime.support.arrays import Array, Floats
from stoptime.support.checks import nonnegative

__all__ = ["Choice", "CurveRule", "Rule", "StopWarning"]

UNSETTLED = (
    0.01  # relative distance of the error at the last stop from its limit that asks for more
)
LATEST = 16.0  # times as late is the last stop of a kernel that is looked at
MOST_REFINED = 15  # errors; more targets stay at grid points
DIPS = 4  # of the error curve, refined between grid points
EXTENSIONS = 3
FEWEST_STOPS = 10  # of a grid that memory cuts short
ZOOMS = 6  # each divides the distance of neighbouring whole stops by thirty, for one target
MOST_CLOSER = 256  # stops of one zoom, so that curves of many targets stay small
EXTENSION = np.geomspace(1.02, 4.0, 70)  # in time, each


class StopWarning(UserWarning):
    """The chosen stop lies at the edge of what was looked at."""


@dataclass(frozen=True)
class Choice:
    """A stop, what error to expect there, and why.

    Attributes
    ----------
    stop : float or array of shape (n_targets,)
        Where to stop.
    error : float or array of shape (n_targets,)
        Estimated mean squared prediction error there.
    curve : ErrorCurve
        What was looked at.
    standard_error : float, array of shape (n_targets,) or None
        Standard error of ``error``, where the rule knows one.
    message : str
        Why here, in one sentence.
    """

    stop: float | Floats
    error: float | Floats
    curve: ErrorCurve
    standard_error: float | Floats | None
    message: str


def stops_to_try(problem: Problem, stops: ArrayLike | int | None) -> tuple[Array, bool]:
    """Return the stops to look at, and whether they were given one by one."""
    if stops is not None and np.ndim(np.asarray(stops)) > 0:
        given = nonnegative("stops", np.asarray(stops), infinite=True)
        if given.ndim != 1 or given.size == 0:
            raise ValueError(
                f"stops must be a list of numbers, or how many; got shape {given.shape}."
            )
        return np.unique(given), True
    size: Any = stops  # or what is refused there
    return default_stops(problem.spectrum, problem.tuned, size), False


class Rule(ABC):
    """What picks the stop."""

    name: ClassVar[str]

    @property
    def needs_rows(self) -> bool:
        """Whether the rule looks at rows one by one, and so needs every eigenvalue."""
        return False

    @property
    def needs_trace(self) -> bool:
        """Whether the rule sums over all eigenvalues, exactly or by random probes."""
        return False

    def fixed(self, problem: Problem) -> Rule:  # noqa: ARG002 - for rules that draw at random
        """Return this rule with whatever it draws at random drawn once, for fair comparisons."""
        return self

    @abstractmethod
    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop.

        Parameters
        ----------
        problem : Problem
            The data and the method.
        stops : array-like, int or None
            An array is chosen among exactly. None is the default grid and a number its size; the
            choice is then refined between grid points.
        per_target : bool, default=False
            Whether each target gets a stop of its own.
        """


class CurveRule(Rule):
    """A rule that takes the lowest point of an error curve."""

    @abstractmethod
    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop with the least error; see :meth:`Rule.choose`."""
        rule = self.fixed(problem)
        if not isinstance(rule, CurveRule):
            raise TypeError(f"{rule} has no error curve.")
        grid, given = stops_to_try(problem, stops)
        problem = problem.reaching(grid)
        if given:
            return self._lowest(rule.errors(problem, grid), per_target=per_target)
        problem, curve = rule._extended(problem, rule._begun(problem, grid), per_target=per_target)
        curve = rule._refined(problem, curve, per_target=per_target)
        return self._lowest(curve, per_target=per_target)

    def _begun(self, problem: Problem, grid: Array) -> ErrorCurve:
        """Return the errors on a grid, as far as memory lets the Krylov spaces of folds reach."""
        while True:
            try:
                return self.errors(problem, grid)
            except KrylovLimitError:
                if len(grid) < FEWEST_STOPS:
                    raise
            grid = grid[: len(grid) * 3 // 4]

    def _refined(self, problem: Problem, curve: ErrorCurve, *, per_target: bool) -> ErrorCurve:
        """Look again between grid points, around the deepest dips."""
        if problem.method.whole_stops:
            return self._between_whole_stops(problem, curve, per_target=per_target)
        dips = _dips(curve, per_target=per_target)
        if not dips.size:
            return curve
        best = curve.stops[np.argmin(columns_of(curve, per_target=per_target), axis=0)]
        # once more with the best so far: leave-one-out remembers its last look, and so the residuals there
        return curve.joined(self.errors(problem, np.union1d(dips, best)))

    def _extended(
        self, problem: Problem, curve: ErrorCurve, *, per_target: bool
    ) -> tuple[Problem, ErrorCurve]:
        """Look beyond the last finite stop while the error has not settled, of many targets their mean."""
        per_target = per_target and curve.errors.ndim == 2 and curve.errors.shape[1] <= MOST_REFINED
        for _ in range(EXTENSIONS):
            end = _end(problem, curve, per_target=per_target)
            if end is None:
                return problem, curve
            later = later_stops(problem, end)
            if later.size == 0:
                break
            try:
                problem = problem.reaching(later)
            except KrylovLimitError:  # the warning below says so, if the best stop may lie there
                break
            curve = curve.joined(self.errors(problem, later))
        columns = columns_of(curve, per_target=per_target)
        last = int(np.flatnonzero(np.isfinite(curve.stops))[-1])
        if np.any(np.argmin(columns, axis=0) == last):
            warnings.warn(
                f"The {self.name} error of {problem.method} is least at the last stop looked at, "
                f"{curve.stops[last]:.3g}: give an array of later stops.",
                StopWarning,
                stacklevel=3,
            )
        return problem, curve

    def _between_whole_stops(
        self, problem: Problem, curve: ErrorCurve, *, per_target: bool
    ) -> ErrorCurve:
        """Look at whole numbers around the lowest points too, until their neighbours have been seen."""
        for _ in range(ZOOMS):
            best = np.unique(np.argmin(columns_of(curve, per_target=per_target), axis=0))
            closer = closer_stops(curve.stops, best, most=max(2, MOST_CLOSER // len(best)))
            if not closer.size:
                break
            curve = curve.joined(self.errors(problem, closer))
        return curve

    def _lowest(self, curve: ErrorCurve, *, per_target: bool) -> Choice:
        best = np.argmin(columns_of(curve, per_target=per_target), axis=0)
        message = f"least {self.name} error at {len(curve.stops)} stops"
        if np.isinf(curve.stops[best]).all():
            message += ": that of least squares, stopping gains nothing"
        return choice_at(best, curve, message, per_target=per_target)


def later_stops(problem: Problem, last: float) -> Array:
    """Return stops beyond the last one, if there are any to be looked at."""
    if not problem.method.has_filter:
        return np.empty(0)
    later = last * EXTENSION
    later = later[later <= LATEST * last_swing(problem.spectrum, problem.tuned)]
    if not problem.tuned.whole_stops:
        return np.asarray(later)
    later = np.unique(np.round(later))
    return np.asarray(later[(later > last) & (later <= problem.tuned.horizon)])


def columns_of(curve: ErrorCurve, *, per_target: bool) -> Floats:
    """Return the errors that are looked at, a column for each: of every target, or their mean."""
    errors = curve.errors if per_target else curve.pooled().errors
    return errors.reshape(len(errors), -1)


def choice_at(
    places: NDArray[np.intp], curve: ErrorCurve, message: str, *, per_target: bool
) -> Choice:
    """Return the choice of the stops at some places of a curve, one for each of its columns."""
    seen = curve if per_target else curve.pooled()
    stop: Any = seen.stops[places]
    own = places, np.arange(len(places))
    error: Any = columns_of(seen, per_target=per_target)[own]
    deviation: Any = None
    if seen.standard_errors is not None:
        deviation = seen.standard_errors.reshape(len(seen.stops), -1)[own]
    if seen.errors.ndim == 1:
        stop, error = float(stop[0]), float(error[0])
        deviation = None if deviation is None else float(deviation[0])
    return Choice(stop, error, curve, deviation, message)


def _end(problem: Problem, curve: ErrorCurve, *, per_target: bool) -> float | None:
    """Return the last finite stop if the error has not settled there, or is clearly the least.

    Of a Krylov space nothing is known beyond: the error has to have been rising for half of the stops' range.
    """
    columns = columns_of(curve, per_target=per_target)
    last = int(np.flatnonzero(np.isfinite(curve.stops))[-1])
    if np.isfinite(
        last_swing(problem.spectrum, problem.tuned)
    ):  # the limit is far, whatever happens here
        moves = columns[last] < columns[:last].min(axis=0, initial=np.inf)
    elif np.isinf(curve.stops[-1]):
        with np.errstate(invalid="ignore"):  # two infinite errors do not differ
            moves = np.abs(columns[last] - columns[-1]) > UNSETTLED * np.minimum(
                columns[last], columns[-1]
            )
    elif problem.spaces is not None:
        moves = curve.stops[np.argmin(columns, axis=0)] > curve.stops[last] / 2
    else:
        moves = columns[last] < (1 - UNSETTLED) * columns[:last].min(axis=0, initial=np.inf)
    return float(curve.stops[last]) if moves.any() and curve.stops[last] > 0 else None


def _dips(curve: ErrorCurve, *, per_target: bool) -> Array:
    """Return the lowest points of parabolas, in log stop, through the deepest dips of each error.

    Many targets are left at their grid points: they would need an evaluation each.
    """
    columns = columns_of(curve, per_target=per_target)
    inner = np.flatnonzero((curve.stops > 0) & np.isfinite(curve.stops))
    logs = np.log(curve.stops[inner].astype(np.float64))
    apart = np.diff(logs, prepend=-np.inf) > 0  # neighbouring floats may have one logarithm
    x, e = logs[apart], columns[inner][apart]
    if len(x) < 3 or columns.shape[1] > MOST_REFINED:
        return np.empty(0)
    below = (e[1:-1] <= e[:-2]) & (e[1:-1] <= e[2:])
    below &= np.isfinite(e[:-2]) & np.isfinite(e[2:])
    found = []
    for errors, dips in zip(e.T, below.T, strict=True):
        middle = 1 + np.flatnonzero(dips)
        deepest = middle[np.argsort(errors[middle])[:DIPS]]
        found.append(_vertex(x, errors, deepest))
    return np.unique(np.exp(np.concatenate(found)))


def _vertex(x: Array, errors: Floats, middle: NDArray[np.intp]) -> Array:
    """Return where the parabola through each point and its neighbours is lowest, between these."""
    x0, x1, x2 = (x[middle + k] for k in (-1, 0, 1))
    e0, e1, e2 = (errors[middle + k] for k in (-1, 0, 1))
    left, right = (e1 - e0) / (x1 - x0), (e2 - e1) / (x2 - x1)
    curvature = (right - left) / (x2 - x0)
    slope = left + curvature * (x1 - x0)  # of the parabola at x1
    bent = curvature > 0
    move = np.where(bent, -slope / (2 * np.where(bent, curvature, 1)), 0)
    return np.asarray(x1 + np.clip(move, x0 - x1, x2 - x1))
