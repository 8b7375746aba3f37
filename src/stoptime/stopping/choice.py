"""What a rule is, what it returns, and how the lowest point of an error curve is found."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.backends.matrix_free import KrylovLimitError
from stoptime.methods import ConjugateGradient, Iteration, Method
from stoptime.methods.base import Array, nonnegative
from stoptime.methods.recurrence import closer_stops
from stoptime.spectrum import Floats, Spectrum
from stoptime.stopping.problem import Problem

__all__ = ["Choice", "CurveRule", "ErrorCurve", "Problem", "Rule", "StopWarning", "default_stops"]

BEGUN = 0.1  # phase t√L (or tL) of the first stop: about one part in a thousand is learned
RATIO = 1.08  # of neighbouring stops, at most
VISIBLE = 0.01  # shrinkage below which a direction's swings no longer show
SETTLED = 0.03  # shrinkage of the slowest direction at the last finite stop
UNSETTLED = 0.01  # relative distance of the error there from its limit that asks for a look beyond
SETTLED_PHASE = 30.0  # and for an iteration its phase, which may be cut short by its horizon
POINTS_PER_SWING = 8
LONGEST_PHASE = 300.0  # with hardly any friction swings never end: they are followed up to here
FEWEST, MOST = 50, 1000
MOST_REFINED = 15  # errors; more targets stay at grid points
DIPS = 4  # of the error curve, refined between grid points
EXTENSIONS = 3
ZOOMS = 6  # each divides the distance of neighbouring whole stops by thirty, for one target
MOST_CLOSER = 256  # stops of one zoom, so that curves of many targets stay small
MOST_CONJUGATE = 100
EXTENSION = np.geomspace(1.02, 4.0, 70)  # in time, each


class StopWarning(UserWarning):
    """The chosen stop lies at the edge of what was looked at."""


@dataclass(frozen=True, repr=False)
class ErrorCurve:
    """Estimated mean squared prediction error at many stops.

    Attributes
    ----------
    stops : array of shape (n_stops,)
        Where.
    errors : array of shape (n_stops,) or (n_stops, n_targets)
        Mean squared error.
    standard_errors : array like ``errors``, or None
        Its standard error, where the rule knows one.
    """

    stops: Floats
    errors: Floats
    standard_errors: Floats | None = None

    def pooled(self) -> ErrorCurve:
        """Return the curve of the mean over targets."""
        if self.errors.ndim == 1:
            return self
        # targets share their rows, so their errors go together: standard errors are averaged too
        deviation = None if self.standard_errors is None else self.standard_errors.mean(axis=1)
        return ErrorCurve(self.stops, self.errors.mean(axis=1), deviation)

    def __repr__(self) -> str:
        targets = "" if self.errors.ndim == 1 else f", {self.errors.shape[1]} targets"
        return f"ErrorCurve({len(self.stops)} stops{targets}, least error {self.errors.min():.4g})"

    def joined(self, other: ErrorCurve) -> ErrorCurve:
        """Return both curves as one, in the order of their stops."""
        stops, order = np.unique(np.concatenate([self.stops, other.stops]), return_index=True)
        deviation = None
        if self.standard_errors is not None and other.standard_errors is not None:
            deviation = np.concatenate([self.standard_errors, other.standard_errors])[order]
        return ErrorCurve(stops, np.concatenate([self.errors, other.errors])[order], deviation)


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


def default_stops(spectrum: Spectrum, method: Method, size: int | None = None) -> Array:
    """Return stops from nothing learned to everything learned, dense enough to see every swing.

    They are 0, where nothing is learned; then stops from where the fastest direction has learned one part
    in a thousand to where the slowest one has a few parts in a hundred left; and infinity. Neighbours differ
    by at most 8 %, and by at most an eighth of a swing of any direction whose swings still show. For an
    iteration they are rounded to whole numbers. Of a Krylov space they end where it has converged.

    Parameters
    ----------
    spectrum : Spectrum
        The factorised data.
    method : Method
        Tuned to it.
    size : int, optional
        Number of stops: the same stretch, thinned or filled evenly.
    """
    if size is not None and size < 3:
        raise ValueError(f"stops must be an array, None, or a number of at least 3; got {size}.")
    if spectrum.rank == 0:
        return np.array([0.0, np.inf])
    if isinstance(method, ConjugateGradient):
        return np.arange(min(spectrum.rank, MOST_CONJUGATE, size or MOST_CONJUGATE) + 1.0)
    if isinstance(method, Iteration):
        return _whole_stops(spectrum, method, size)
    largest, smallest = float(spectrum.eigenvalues[-1]), float(spectrum.eigenvalues[0])
    first = BEGUN / largest ** (1 / method.order)
    last = max(method.settled_at(smallest, SETTLED), 10 * first)
    if method.order == 2:
        last = min(last, LONGEST_PHASE / np.sqrt(smallest))
    if spectrum.krylov is not None:
        last = max(min(last, spectrum.reach ** (1 / method.order)), 2 * first)
    between = _following_swings(method, np.sqrt(largest), first, last)
    count = int(np.clip(len(between), FEWEST, MOST)) if size is None else size - 2
    if count != len(between):
        places = np.linspace(0, len(between) - 1, count)
        between = np.exp(np.interp(places, np.arange(len(between)), np.log(between)))
    return np.concatenate([[0.0], between, [np.inf] if spectrum.krylov is None else []])


def _whole_stops(spectrum: Spectrum, method: Iteration, size: int | None) -> Array:
    """Return whole stops from the first iteration to where the slowest direction has settled."""
    power = 1 / method.order
    first = max(BEGUN / float(spectrum.eigenvalues[-1]) ** power / method.pace, 1.0)
    last = SETTLED_PHASE / float(spectrum.eigenvalues[0]) ** power / method.pace
    if spectrum.krylov is not None:
        last = min(last, spectrum.reach**power / method.pace)
    last = float(np.clip(last, 2.0, method.horizon))
    if size is None:
        size = int(np.clip(np.log(last / first) / np.log(RATIO), FEWEST, MOST))
    return np.unique(np.round(np.append(0.0, np.geomspace(first, last, size - 1))))


def _following_swings(method: Method, frequency: float, first: float, last: float) -> Array:
    """Return stops in [first, last], an eighth of a swing apart where the fastest ones still show."""
    phase, time = method.visible_until(VISIBLE)
    fine = np.pi / (POINTS_PER_SWING * frequency)
    phase = min(phase, LONGEST_PHASE)
    even_until = min(phase / frequency, time, last)
    slow_until = min(time, last)
    stops = _geometric(first, min(max(first, fine / (RATIO - 1)), last), RATIO)
    if stops[-1] < even_until:
        stops = np.append(stops, np.arange(stops[-1] + fine, even_until + fine, fine))
    if 0 < stops[-1] < slow_until:  # the fastest visible frequency now falls like 1/t
        ratio = min(RATIO, 1 + np.pi / (POINTS_PER_SWING * phase))
        stops = np.append(stops, _geometric(stops[-1], slow_until, ratio)[1:])
    if stops[-1] < last:
        stops = np.append(stops, _geometric(stops[-1], last, RATIO)[1:])
    return stops


def _geometric(first: float, last: float, ratio: float) -> Array:
    count = int(np.ceil(np.log(max(last / first, 1)) / np.log(ratio))) + 1
    return np.geomspace(first, max(last, first), max(count, 2))


def stops_to_try(problem: Problem, stops: ArrayLike | int | None) -> tuple[Array, bool]:
    """Return the stops to look at, and whether they were given one by one."""
    if stops is not None and np.ndim(np.asarray(stops)) > 0:
        given = nonnegative("stops", np.asarray(stops), infinite=True)
        if given.ndim != 1 or given.size == 0:
            raise ValueError(f"stops must be a list of numbers, or how many; got shape {given.shape}.")
        return np.unique(given), True
    if stops is not None and (isinstance(stops, bool) or not isinstance(stops, Integral)):
        raise ValueError(f"stops must be an array, None, or a whole number; got {stops!r}.")
    return default_stops(problem.spectrum, problem.tuned, None if stops is None else int(stops)), False


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
        curve = rule.errors(problem, grid)
        if not given:
            curve = rule._extended(problem, curve, per_target=per_target)
            curve = rule._refined(problem, curve, per_target=per_target)
        return self._lowest(curve, per_target=per_target)

    def _refined(self, problem: Problem, curve: ErrorCurve, *, per_target: bool) -> ErrorCurve:
        """Look again between grid points, around the deepest dips."""
        if isinstance(problem.method, Iteration | ConjugateGradient):
            return self._between_whole_stops(problem, curve, per_target=per_target)
        dips = _dips(curve, per_target=per_target)
        return curve.joined(self.errors(problem, dips)) if dips.size else curve

    def _extended(self, problem: Problem, curve: ErrorCurve, *, per_target: bool) -> ErrorCurve:
        """Look beyond the last finite stop while the error has not settled, of many targets their mean."""
        per_target = per_target and curve.errors.ndim == 2 and curve.errors.shape[1] <= MOST_REFINED
        for _ in range(EXTENSIONS):
            end = _end(curve, per_target=per_target, open_ended=problem.spaces is not None)
            if end is None:
                return curve
            later = later_stops(problem, end)
            if later.size == 0:
                break
            try:
                problem = problem.reaching(later)
            except KrylovLimitError:  # the warning below says so, if the best stop may lie there
                break
            curve = curve.joined(self.errors(problem, later))
        columns = _columns(curve, per_target=per_target)
        last = int(np.flatnonzero(np.isfinite(curve.stops))[-1])
        if np.any(np.argmin(columns, axis=0) == last):
            warnings.warn(
                f"The {self.name} error of {problem.method} is least at the last stop looked at, "
                f"{curve.stops[last]:.3g}: give an array of later stops.",
                StopWarning,
                stacklevel=3,
            )
        return curve

    def _between_whole_stops(self, problem: Problem, curve: ErrorCurve, *, per_target: bool) -> ErrorCurve:
        """Look at whole numbers around the lowest points too, until their neighbours have been seen."""
        for _ in range(ZOOMS):
            seen = curve if per_target else curve.pooled()
            best = np.unique(np.argmin(seen.errors.reshape(len(seen.stops), -1), axis=0))
            closer = closer_stops(curve.stops, best, most=max(2, MOST_CLOSER // len(best)))
            if not closer.size:
                break
            curve = curve.joined(self.errors(problem, closer))
        return curve

    def _lowest(self, curve: ErrorCurve, *, per_target: bool) -> Choice:
        seen = curve if per_target else curve.pooled()
        columns = seen.errors.reshape(len(seen.stops), -1)
        best = np.argmin(columns, axis=0)
        targets = np.arange(len(best))
        stop, error, deviation = seen.stops[best], columns[best, targets], None
        if seen.standard_errors is not None:
            deviation = seen.standard_errors.reshape(columns.shape)[best, targets]
        message = f"least {self.name} error at {len(curve.stops)} stops"
        if np.isinf(stop).all():
            message += ": that of least squares, stopping gains nothing"
        if seen.errors.ndim == 1:
            one = None if deviation is None else float(deviation[0])
            return Choice(float(stop[0]), float(error[0]), curve, one, message)
        return Choice(stop, error, curve, deviation, message)


def later_stops(problem: Problem, last: float) -> Array:
    """Return stops beyond the last one, if there are any to be looked at."""
    if isinstance(problem.method, ConjugateGradient):
        return np.empty(0)
    later = last * EXTENSION
    if not isinstance(problem.tuned, Iteration):
        return np.asarray(later)
    later = np.unique(np.round(later))
    return np.asarray(later[(later > last) & (later <= problem.tuned.horizon)])


def _columns(curve: ErrorCurve, *, per_target: bool) -> Floats:
    errors = curve.errors if per_target else curve.pooled().errors
    return errors.reshape(len(errors), -1)


def _end(curve: ErrorCurve, *, per_target: bool, open_ended: bool) -> float | None:
    """Return the last finite stop if the error has not settled there, or is clearly the least.

    Of an open-ended curve nothing is known beyond: it has to have been rising for half of its stops' range.
    """
    columns = _columns(curve, per_target=per_target)
    last = int(np.flatnonzero(np.isfinite(curve.stops))[-1])
    if np.isinf(curve.stops[-1]):
        moves = np.abs(columns[last] - columns[-1]) > UNSETTLED * np.minimum(columns[last], columns[-1])
    elif open_ended:
        moves = curve.stops[np.argmin(columns, axis=0)] > curve.stops[last] / 2
    else:
        moves = columns[last] < (1 - UNSETTLED) * columns[:last].min(axis=0, initial=np.inf)
    return float(curve.stops[last]) if moves.any() and curve.stops[last] > 0 else None


def _dips(curve: ErrorCurve, *, per_target: bool) -> Array:
    """Return the lowest points of parabolas, in log stop, through the deepest dips of each error.

    Many targets are left at their grid points: they would need an evaluation each.
    """
    columns = _columns(curve, per_target=per_target)
    inner = np.flatnonzero((curve.stops > 0) & np.isfinite(curve.stops))
    if len(inner) < 3 or columns.shape[1] > MOST_REFINED:
        return np.empty(0)
    x, e = np.log(curve.stops[inner].astype(np.float64)), columns[inner]
    below = (e[1:-1] <= e[:-2]) & (e[1:-1] <= e[2:])
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
