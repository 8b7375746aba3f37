"""The base classes of rules, their result, and the search for the least error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.left_out.curve import ErrorCurve
from stoptime.methods.base import Method
from stoptime.spectrum.accuracy import ReachError
from stoptime.spectrum.data import Data
from stoptime.stopping.grid import last_oscillation, later_stops, stops_to_try
from stoptime.support.arrays import Array, Floats
from stoptime.support.user_warnings import warn_user
from stoptime.support.wording import aligned, method_in_words, number, with_error

if TYPE_CHECKING:
    from stoptime.stopping.problem import Problem

TIE = 1e-4  # relative difference below which errors of methods are equal
EXACT_FIT = 1e-14  # of the power of the response: smaller errors are rounding
EXTENSIONS = 3  # of the grid, each up to four times the last stop
ROUNDING_OF_ERRORS = 1e-11  # relative difference of errors that are equal

Places = NDArray[np.intp]


class StopWarning(UserWarning):
    """The chosen stop may not be the best one: the message says why, and what to do."""


@dataclass(frozen=True)
class Candidate:
    """One of several methods, at its best stop, compared with the chosen method.

    ``behind`` is the mean over rows of the difference of squared left-out residuals to those of the
    chosen method, and ``standard_error`` the standard error of this paired difference. With folds,
    both are over the mean squares of the folds. The standard error is None where the rule has
    neither.
    """

    method: Method
    stop: float | Floats
    error: float
    behind: float
    standard_error: float | None


@dataclass(frozen=True)
class Choice:
    """A stop, the error to expect there, and the reason for it.

    ``error`` is the estimated mean squared prediction error at ``stop``, and ``standard_error`` its
    standard error, where the rule estimates one; discrepancy has the training error there, NCP a
    distance, and the L-curve an angle. Each is an array of shape (n_targets,) where every target
    has a stop of its own. ``curve`` holds the errors among which the stop was chosen, and
    ``message`` the reason, in one sentence. From several methods, ``candidates`` holds all of them.
    """

    stop: float | Floats
    error: float | Floats
    curve: ErrorCurve
    standard_error: float | Floats | None
    message: str
    candidates: tuple[Candidate, ...] = ()

    def __repr__(self) -> str:
        error = float(np.mean(self.error))
        spread = None if self.standard_error is None else float(np.mean(self.standard_error))
        stop = number(float(np.mean(self.stop)))  # numbers of several targets are their means
        rows = [("", "stop", "error"), ("chosen", stop, with_error(error, spread))]
        for one in self.candidates:
            stop = number(float(np.mean(one.stop)))
            rows.append((method_in_words(one.method), stop, number(one.error)))
        return f"Choice: {self.message}\n{aligned(rows)}"


def ignored_groups(what: str) -> ValueError:
    """Return the error that something would ignore the groups of rows."""
    return ValueError(
        f"{what} ignores groups: rows of one group would be fitted and tested on, and the error "
        "would look too small. Use cv=GroupKFold(5) of scikit-learn, or leave out groups."
    )


class Rule(ABC):
    """A rule that picks the stop."""

    name: ClassVar[str]
    measure: ClassVar[str] = "error"
    """The name of what is least at the chosen stop."""
    compares_methods: ClassVar[bool] = True
    """Whether errors of different methods can be compared."""
    only_method: ClassVar[str] = "accelerated-flow"
    """What "auto" means where methods cannot be compared."""
    predicts_new_rows: ClassVar[bool] = True
    """Whether the error at the chosen stop is that of rows that were not fitted."""
    _uses_rows: ClassVar[bool] = False
    _uses_trace: ClassVar[bool] = False

    @property
    def needs_rows(self) -> bool:
        """Whether the rule reads rows one by one, and so needs every eigenvalue."""
        return self._uses_rows

    @property
    def needs_trace(self) -> bool:
        """Whether the rule sums over all eigenvalues, exactly or by random probes."""
        return self._uses_trace

    def fixed(self, data: Data, groups: ArrayLike | None = None) -> Rule:  # noqa: ARG002
        """Return this rule with its folds drawn once; raise a ValueError if it ignores groups."""
        if groups is not None:
            raise ignored_groups(f'rule="{self.name}"')
        return self

    def floor(self, problem: Problem) -> float:
        """Return the size of errors that are rounding: smaller ones are equal."""
        return EXACT_FIT * float(np.mean(problem.spectrum.target_power))

    def choose_each(
        self, problems: list[Problem], stops: ArrayLike | int | None, *, per_target: bool
    ) -> list[tuple[Problem, Choice]]:
        """Pick the stops of several methods on the same data, each with its spectrum."""
        return [(one, self.choose(one, stops, per_target=per_target)) for one in problems]

    def finished(self, problem: Problem, choice: Choice) -> Choice:  # noqa: ARG002 - for some rules
        """Return the choice of the best method with what is computed for no other method."""
        return choice

    def parts(self, problem: Problem, choice: Choice) -> Floats | None:  # noqa: ARG002 - for some
        """Return parts, (n_parts, n_targets), with the error as mean: one of each row or fold.

        The standard error of a difference between methods is that of their paired parts. None
        where a rule has no parts.
        """
        return None

    @abstractmethod
    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick one stop, or one for each target with ``per_target``.

        From an array of ``stops``, one entry is chosen. None is the default grid and a number its
        size; the choice is then refined between grid points.
        """


class CurveRule(Rule):
    """A rule that takes the lowest point of an error curve, or of another ``measure``."""

    @abstractmethod
    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop with the least error; see :meth:`Rule.choose`."""
        rule = cast("CurveRule", self.fixed(problem.data, problem.groups))
        grid, given = stops_to_try(problem, stops)
        if given:
            return self._lowest(rule.errors(problem.reaching(grid), grid), per_target=per_target)
        problem, curve = rule._on_grid_and_beyond(problem, grid)

        def heights(stops: Array, owner: Places) -> Floats:
            distinct, place = np.unique(stops, return_inverse=True)
            found = columns_of(rule.errors(problem, distinct), per_target=per_target)
            return found[place.reshape(stops.shape), owner]

        columns = columns_of(curve, per_target=per_target)
        grid = np.asarray(curve.stops, np.float64)
        whole = problem.method.whole_stops
        stop, error = lowest_between(heights, grid[:, None], columns, whole=whole)
        if per_target and curve.errors.ndim == 2:
            return replace(self._lowest(curve, per_target=True), stop=stop, error=error)
        closer = rule.errors(problem, np.unique(stop))
        return self._lowest(curve.joined(closer), per_target=per_target)

    def _on_grid_and_beyond(self, problem: Problem, grid: Array) -> tuple[Problem, ErrorCurve]:
        """Return errors on a grid, and beyond its last finite stop while they have not settled."""
        problem = problem.reaching(grid)
        while True:
            try:
                curve = self.errors(problem, grid)
                break
            except ReachError:
                if len(grid) < 10:
                    raise
            # the search ends at the last stop that can be computed
            grid = grid[: len(grid) * 3 // 4]
        for _ in range(self._extensions(problem)):
            if not self._is_unsettled(problem, curve):
                return problem, curve
            later = later_stops(problem, float(curve.stops[np.isfinite(curve.stops)][-1]))
            if later.size == 0:
                break
            try:
                problem = problem.reaching(later)
                curve = curve.joined(self.errors(problem, later))
            except ReachError:
                # the warning below says so, if the best stop may lie there
                break
        last = int(np.flatnonzero(np.isfinite(curve.stops))[-1])
        if np.argmin(curve.pooled().errors) == last:
            what = f"{self.name} {self.measure}"
            last_stop_warning(what, problem.method, float(curve.stops[last]))
        return problem, curve

    def _extensions(self, problem: Problem) -> int:  # noqa: ARG002 - for the L-curve
        """Return how often the search may go on to four times the last stop."""
        return EXTENSIONS

    def _is_unsettled(self, problem: Problem, curve: ErrorCurve) -> bool:
        """Tell whether the error still changes at the last finite stop, or is least there."""
        stops = curve.stops
        errors = curve.pooled().errors
        last = int(np.flatnonzero(np.isfinite(stops))[-1])
        here = errors[last]
        before = errors[:last].min(initial=np.inf)
        unsettled = 0.01  # relative distance from the limit
        if np.isfinite(last_oscillation(problem.spectrum, problem.tuned)):
            # eigenvalues fall to rounding, so the limit is far away whatever happens here
            moves = here < before
        elif np.isinf(stops[-1]):
            # an error that oscillates may pass its limit
            ends = errors[[-1, max(last - 1, 0)]]
            with np.errstate(invalid="ignore"):  # two infinite errors do not differ
                moves = (np.abs(here - ends) > unsettled * np.minimum(here, ends)).any()
        elif problem.spectrum.accuracy.complete:
            moves = here < (1 - unsettled) * before
        else:
            # the limit is not known, so the error has to rise over half of the stops' range
            moves = stops[np.argmin(errors)] > stops[last] / 2
        return bool(moves and stops[last] > 0)

    def _lowest(self, curve: ErrorCurve, *, per_target: bool) -> Choice:
        """Return the choice of the least error on a curve."""
        best = _best_places(columns_of(curve, per_target=per_target))
        message = self._reason(len(curve.stops), curve.stops[best])
        return choice_at(best, curve, message, per_target=per_target)

    def _reason(self, tried: int, stop: float | Floats) -> str:
        """Return why a stop was chosen among as many as were tried."""
        message = f"least {self.name} {self.measure} of {tried} stops"
        if np.isinf(stop).all():
            message += ", the error of least squares: stopping gains nothing"
        return message


def lowest_between(
    heights: Callable[[Array, Places], Floats],
    stops: Array,
    columns: Floats,
    *,
    whole: bool,
    fine: float = np.inf,
    smooth: bool = False,
) -> tuple[Array, Floats]:
    """Return the stop at which each column of errors is least, and its error.

    ``columns`` are the errors at the ``stops``, one for each curve; curves that share their stops
    share one column of them. Every dip is looked into:
    ``heights`` are errors at stops (n_points, n_brackets), each of the column that its bracket
    belongs to. With ``whole``, stops are whole numbers; other ones this ``fine`` show every dip.
    Of curves that are ``smooth`` the lowest error is that of a parabola, to about seven digits.
    """
    stops = np.broadcast_to(stops, columns.shape)
    each = np.arange(columns.shape[1])
    best = _best_places(columns)
    found = stops[best, each]
    least = columns[best, each]
    places, owner = _dips(stops, columns)
    if not len(places):
        return found, least
    if whole:
        points, errors = _whole_zoom(heights, stops, places, owner)
    else:
        points, errors = _zoom(heights, stops, places, owner, fine=fine, smooth=smooth)
    # of several brackets of one column the lowest comes last
    for bracket in np.argsort(-errors, kind="stable"):
        column = owner[bracket]
        if errors[bracket] < least[column] - ROUNDING_OF_ERRORS * abs(least[column]):
            found[column] = points[bracket]
            least[column] = errors[bracket]
    return found, least


def _zoom(
    heights: Any, stops: Array, places: Places, owner: Places, *, fine: float, smooth: bool
) -> tuple[Array, Array]:
    """Return the lowest point near each dip, from as many points as its bracket needs."""
    # late oscillations are shorter than the distance of the stops around them
    widths = stops[places + 1, owner] - stops[places - 1, owner]
    counts = np.clip(widths / fine, 8, 256)
    # powers of two, so that brackets are few calls, and a wide one does not make all others slow
    counts = 2 ** np.ceil(np.log2(counts)).astype(int)
    found = np.empty(len(places))
    errors = np.empty(len(places))
    for count in np.unique(counts):
        few = counts == count
        found[few], errors[few] = _vertices(
            heights, stops, places[few], owner[few], count=count + 1, smooth=smooth
        )
    return found, errors


def _vertices(
    heights: Any, stops: Array, places: Places, owner: Places, *, count: int, smooth: bool
) -> tuple[Array, Array]:
    """Return the lowest of so many points of each bracket, or the vertex of a parabola there.

    The parabola is one in the logarithm.
    """
    with np.errstate(divide="ignore"):
        before, here, after = np.log(stops[places + np.array([[-1], [0], [1]]), owner])
    # zero has no logarithm: a step back as long as the step ahead
    before = np.where(np.isfinite(before), before, 2 * here - after)
    logs = before + np.linspace(0, 1, count)[:, None] * (after - before)
    errors = np.minimum(heights(np.exp(logs), owner), 1e300)
    each = np.arange(len(owner))
    lowest = errors.argmin(axis=0)
    middle = np.clip(lowest, 1, len(logs) - 2)
    low, here, high = errors[middle + np.array([[-1], [0], [1]]), each]
    bend = low - 2 * here + high
    # on a line there is no vertex
    move = np.where(bend > 0, (low - high) / np.where(bend > 0, 2 * bend, 1.0), 0.0)
    move = np.clip(move, -1, 1)
    vertex = np.exp(logs[middle, each] + move * (logs[1] - logs[0]))
    if smooth:
        there = np.maximum(here + (high - low) / 2 * move + bend / 2 * move**2, 0)
    else:
        there = heights(vertex[None], owner)[0]  # sharp waves are no parabola
    least = errors[lowest, each]
    found = np.where(there < least, vertex, np.exp(logs[lowest, each]))
    return found, np.minimum(there, least)


def _whole_zoom(heights: Any, stops: Array, places: Places, owner: Places) -> tuple[Array, Array]:
    """Return the lowest whole number found around each dip; the bracket narrows sixteenfold."""
    low = np.where(stops[places - 1, owner] > 0, stops[places - 1, owner], stops[places, owner])
    high = stops[places + 1, owner]
    each = np.arange(len(owner))
    found = low
    least = np.full(len(owner), np.inf)
    # ten rounds reach from a trillion iterations down to single ones
    for _ in range(10):
        points = np.asarray(np.round(np.linspace(low, high, 33)), np.float64)
        errors = heights(points, owner)
        place = np.argmin(errors, axis=0)
        better = errors[place, each] < least
        found = np.where(better, points[place, each], found)
        least = np.where(better, errors[place, each], least)
        if np.all(high - low < len(points)):
            break
        middle = np.clip(place, 1, len(points) - 2)
        low = points[middle - 1, each]
        high = points[middle + 1, each]
    return found, least


def _best_places(columns: Floats) -> Places:
    """Return where each column of errors is least; of errors equal to rounding, the earliest."""
    least = columns.min(axis=0)
    return np.argmax(columns <= least + ROUNDING_OF_ERRORS * np.abs(least), axis=0)


def _dips(stops: Array, columns: Floats) -> tuple[Places, Places]:
    """Return places of dips, each with its column."""
    inner = columns[1:-1]
    is_dip = (inner <= columns[:-2]) & (inner <= columns[2:])
    # on a plateau dips are rounding errors; beside an infinite error there may be a dip
    with np.errstate(invalid="ignore"):
        bend = (columns[:-2] + columns[2:]) / 2 - inner
    is_dip &= bend > ROUNDING_OF_ERRORS * np.abs(inner)
    is_dip &= (stops[1:-1] > 0) & np.isfinite(stops[2:])
    places, owner = np.nonzero(is_dip)
    return places + 1, owner


def last_stop_warning(what: str, method: Method, stop: float) -> None:
    """Warn that an error is least at the last stop that was tried."""
    warn_user(
        f"The {what} of {method} is least at the last stop tried, {stop:.3g}: give an array of "
        "later stops.",
        StopWarning,
    )


def columns_of(curve: ErrorCurve, *, per_target: bool) -> Floats:
    """Return the errors to minimise, one column for each: those of every target, or their mean."""
    errors = curve.errors if per_target else curve.pooled().errors
    return errors.reshape(len(errors), -1)


def choice_at(at: Places, curve: ErrorCurve, message: str, *, per_target: bool) -> Choice:
    """Return the choice of the stops at some indices of a curve, one for each column."""
    seen = curve if per_target else curve.pooled()
    own = at, np.arange(len(at))
    found: list[Any] = [seen.stops[at], columns_of(seen, per_target=per_target)[own], None]
    if seen.standard_errors is not None:
        found[2] = seen.standard_errors.reshape(len(seen.stops), -1)[own]
    if seen.errors.ndim == 1:
        found = [None if values is None else float(values[0]) for values in found]
    return Choice(found[0], found[1], curve, found[2], message)


def first_up_to_ties(errors: list[float], floor: float = 0.0) -> int:
    """Return the place of the first error that is the least, or equal to it up to a tie.

    Errors below the ``floor`` are rounding, and equal.
    """
    least = max(min(errors), floor)
    return next(place for place, one in enumerate(errors) if one <= least + TIE * abs(least))
