"""The base classes of rules, their result, and the search for the least error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.left_out.curve import ErrorCurve
from stoptime.methods.base import Method
from stoptime.spectrum.accuracy import ReachError
from stoptime.spectrum.data import Data
from stoptime.stopping.grid import last_oscillation, later_stops, stops_to_try
from stoptime.stopping.zoom import best_places, lowest_between
from stoptime.support.arrays import Array, Floats
from stoptime.support.user_warnings import warn_user
from stoptime.support.wording import aligned, method_in_words, number, with_error

if TYPE_CHECKING:
    from stoptime.stopping.problem import Problem

UNSETTLED = 0.01  # relative distance from the limit at the last stop that asks for later stops
TIE = 1e-4  # relative difference below which errors of methods are equal
EXACT_FIT = 1e-14  # of the power of the response: smaller errors are rounding
EXTENSIONS = 3  # of the grid, each up to four times the last stop
FEWEST_STOPS = 10  # of a grid that memory cuts short


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
    only_method: ClassVar[str] = "nesterov-flow"
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
        search = rule._search(problem, grid, per_target)
        curve = search.found()
        stop, error = search.between()
        if per_target and curve.errors.ndim == 2:
            return replace(self._lowest(curve, per_target=True), stop=stop, error=error)
        closer = rule.errors(search.problem, stop)
        return self._lowest(curve.joined(closer), per_target=per_target)

    def _search(self, problem: Problem, grid: Array, per_target: bool) -> CurveSearch:
        """Return the search for the least error that begins on this grid."""
        return CurveSearch(self, problem, grid, per_target)

    def _lowest(self, curve: ErrorCurve, *, per_target: bool) -> Choice:
        """Return the choice of the least error on a curve."""
        best = best_places(columns_of(curve, per_target=per_target))
        message = f"least {self.name} {self.measure} at {len(curve.stops)} stops"
        if np.isinf(curve.stops[best]).all():
            message += ", the error of least squares: stopping gains nothing"
        return choice_at(best, curve, message, per_target=per_target)


@dataclass
class CurveSearch:
    """The search for the least error of a rule on a grid, beyond it, and between its stops.

    The problem, the grid and the error curve change as the search goes on.
    """

    rule: CurveRule
    problem: Problem
    grid: Array
    per_target: bool
    curve: ErrorCurve = field(init=False)

    def found(self) -> ErrorCurve:
        """Return errors on the grid, and beyond and between its stops where needed."""
        self.problem = self.problem.reaching(self.grid)
        while True:
            try:
                self.curve = self.rule.errors(self.problem, self.grid)
                break
            except ReachError:
                if len(self.grid) < FEWEST_STOPS:
                    raise
            # the search ends at the last stop that can be computed
            self.grid = self.grid[: len(self.grid) * 3 // 4]
        self.extend()
        return self.curve

    def between(self) -> tuple[Array, Floats]:
        """Return the lowest points between grid points too, one for each error."""
        curve = self.curve

        def heights(stops: Array, owner: NDArray[np.intp]) -> Floats:
            distinct, place = np.unique(stops, return_inverse=True)
            found = columns_of(self.rule.errors(self.problem, distinct), per_target=self.per_target)
            return found[place.reshape(stops.shape), owner]

        columns = columns_of(curve, per_target=self.per_target)
        stops = np.asarray(curve.stops, np.float64)
        return lowest_between(heights, stops, columns, whole=self.problem.method.whole_stops)

    @property
    def extensions(self) -> int:
        """How often the search may go on to four times the last stop."""
        return EXTENSIONS

    def unsettled(self, columns: Floats) -> bool:
        """Tell whether one of these errors still changes at the last finite stop, or is least."""
        stops = self.curve.stops
        spectrum = self.problem.spectrum
        last = int(np.flatnonzero(np.isfinite(stops))[-1])
        here = columns[last]
        before = columns[:last].min(axis=0, initial=np.inf)
        if np.isfinite(last_oscillation(spectrum, self.problem.tuned)):
            # eigenvalues fall to rounding, so the limit is far away whatever happens here
            moves = here < before
        elif np.isinf(stops[-1]):
            # an error that oscillates may pass its limit
            ends = np.stack([columns[-1], columns[max(last - 1, 0)]])
            with np.errstate(invalid="ignore"):  # two infinite errors do not differ
                moves = (np.abs(here - ends) > UNSETTLED * np.minimum(here, ends)).any(axis=0)
        elif spectrum.accuracy.complete:
            moves = here < (1 - UNSETTLED) * before
        else:
            # the limit is not known, so the error has to rise over half of the stops' range
            moves = stops[np.argmin(columns, axis=0)] > stops[last] / 2
        return bool(moves.any() and stops[last] > 0)

    def extend(self) -> None:
        """Estimate errors beyond the last finite stop too, while the error has not settled."""
        for _ in range(self.extensions):
            if not self.unsettled(self.curve.pooled().errors[:, None]):
                return
            last = float(self.curve.stops[np.isfinite(self.curve.stops)][-1])
            later = later_stops(self.problem, last)
            if later.size == 0:
                break
            try:
                self.problem = self.problem.reaching(later)
                self.curve = self.curve.joined(self.rule.errors(self.problem, later))
            except ReachError:
                # the warning below says so, if the best stop may lie there
                break
        stops = self.curve.stops
        last_place = int(np.flatnonzero(np.isfinite(stops))[-1])
        if np.argmin(self.curve.pooled().errors) == last_place:
            what = f"{self.rule.name} {self.rule.measure}"
            last_stop_warning(what, self.problem.method, float(stops[last_place]))


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


def choice_at(at: NDArray[np.intp], curve: ErrorCurve, message: str, *, per_target: bool) -> Choice:
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
