"""The rule of least left-out error, for one method or the best of several.

Several methods are looked at together first, to find out which of them deserve a search. Those
without oscillations are looked at on their whole grids: they share a few real ridges, so that this
costs little. The others are looked at only where those have errors close to the least, because
methods of equal gain φ(0, t) do about the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.curve import ErrorCurve
from stoptime.spectrum.accuracy import ReachError
from stoptime.stopping.grid import spaced_stops, stages, stops_to_try
from stoptime.stopping.rule import CurveRule, first_of_least, first_up_to_ties
from stoptime.stopping.staged import StagedSearch, by_gcv

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.stopping.problem import Problem
    from stoptime.stopping.rule import Choice
    from stoptime.support.arrays import Array, Floats

MOST_COMPARED_BY_ROWS = 3  # targets for which methods are compared by their left-out errors
NEXT_TO_LEAST = 1.001  # times the least error of a smooth method: later stops gain next to nothing
LATER = 12.0  # φ(0, t) up to which methods are looked at, relative to the first such stop
NOT_MUCH_WORSE = 1.02  # times the least error of the smooth methods
EARLIER = 12.0  # φ(0, t) from which on methods are looked at: so much before the first such stop


@dataclass(frozen=True)
class LeaveOneOut(CurveRule):
    """Exact leave-one-out error; see :func:`stoptime.leave_one_out`.

    ``standard_errors`` asks for its standard error at every stop. By default it is exact at the
    chosen stop, interpolated at others, and left out where targets are many.
    """

    standard_errors: bool | None = None
    name: ClassVar[str] = "loo"
    _uses_rows: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the exact left-out error at the stops."""
        wanted = problem.has_few_targets if self.standard_errors is None else self.standard_errors
        return problem.left_out.errors(
            problem.tuned, stops, standard_errors=wanted, verbose=problem.verbose
        )

    def choose_each(
        self, problems: list[Problem], stops: ArrayLike | int | None, *, per_target: bool
    ) -> list[Choice]:
        """Pick the stops of several methods; only those of the best methods are computed exactly.

        With more than three targets the methods are compared by path GCV.
        """
        methods = [problem.method for problem in problems]
        surveyed = all(one.has_filter for one in methods) and any(one.is_smooth for one in methods)
        if len(problems) == 1 or np.ndim(np.asarray(stops)) > 0 or not surveyed:
            return super().choose_each(problems, stops, per_target=per_target)
        if problems[0].data.n_targets > MOST_COMPARED_BY_ROWS:
            return self._compared_by_gcv(problems, stops, per_target=per_target)
        survey = Survey(self, problems, stops, per_target=per_target)
        survey.look()
        searches = survey.searches
        hoped = [float(search.promise.mean()) for search in searches]
        settled = set[int]()
        # errors are made exact until those of other methods cannot be lower
        while (best := first_up_to_ties(hoped)) not in settled:
            searches[best].extend()
            searches[best].settle()
            found = self._lowest(searches[best].curve, per_target=per_target)
            hoped[best] = float(np.mean(found.error))
            settled.add(best)
        searches[best].add_spread()
        return [self._lowest(search.curve, per_target=per_target) for search in searches]

    def _compared_by_gcv(
        self, problems: list[Problem], stops: ArrayLike | int | None, *, per_target: bool
    ) -> list[Choice]:
        """Pick the stop of the method with the least path GCV, which costs little for any targets.

        The errors of other methods are those of path GCV, in the same ratio to the chosen one.
        """
        problems[0].left_out.rows.begin()
        survey = Survey(self, problems, stops, per_target=per_target)
        for one in survey.smooth:
            one.curve = by_gcv(one.problem, one.grid)
        window = Window.of(survey.smooth)
        for one in survey.others:
            _stops_by_stage(one, window)  # which cuts the grid
            one.curve = by_gcv(one.problem, one.grid)
        found = [self._lowest(one.curve, per_target=per_target) for one in survey.searches]
        best = first_of_least(found)
        chosen = self.choose(problems[best], stops, per_target=per_target)
        ratio = float(np.mean(chosen.error)) / float(np.mean(found[best].error))
        scaled = [replace(one, error=one.error * ratio) for one in found]
        return [chosen if place == best else one for place, one in enumerate(scaled)]

    def _search(self, problem: Problem, grid: Array, per_target: bool) -> StagedSearch:
        """Return the search for the least error that begins on this grid."""
        return StagedSearch(self, problem, grid, per_target)


class Window(NamedTuple):
    """The gains φ(0, t) between which methods are looked at, and the least error of smooth ones."""

    first: float
    last: float
    least: float

    @classmethod
    def of(cls, smooth: list[StagedSearch]) -> Window:
        """Return the window in which smooth methods have errors close to the least."""
        least = np.min([one.columns.min(axis=0) for one in smooth], axis=0)
        first = np.inf
        last = np.inf
        for one in smooth:
            gains = _gains(one, one.curve.stops)
            columns = one.columns
            good = (columns <= NOT_MUCH_WORSE * least).any(axis=1)
            if good.any():
                first = min(first, float(gains[np.argmax(good)]))
            nearly = columns <= NEXT_TO_LEAST * columns.min(axis=0)
            last = min(last, float(gains[np.argmax(nearly, axis=0)].max()))
        # where least squares is best, earlier stops of a method that oscillates may still be better
        first = 0.0 if np.isinf(first) else first
        pooled = min(float(one.curve.pooled().errors.min()) for one in smooth)
        return cls(first / EARLIER, LATER * last, pooled)


class Survey:
    """The searches of several methods on the same data, at least one of which is smooth.

    After :meth:`look`, every search has an error curve, rough but for its ends.
    """

    def __init__(
        self,
        rule: LeaveOneOut,
        problems: list[Problem],
        stops: ArrayLike | int | None,
        *,
        per_target: bool,
    ) -> None:
        self._stops = stops
        grids = [stops_to_try(one, stops)[0] for one in problems]
        self.searches = [
            StagedSearch(rule, one, grid, per_target)
            for one, grid in zip(problems, grids, strict=True)
        ]
        self.smooth = [one for one in self.searches if one.problem.method.is_smooth]
        self.others = [one for one in self.searches if not one.problem.method.is_smooth]

    def look(self) -> None:
        """Look at smooth methods everywhere, and at others where these are good."""
        self._everywhere(self.smooth)
        best = min(self.smooth, key=lambda one: one.curve.pooled().errors.min())
        if best.problem.spectrum.reach < np.inf and not best.has_risen():
            # the best stop may be so late that products of X have lost its digits
            try:
                self._complete(best)
                self._everywhere(self.smooth)
            except ReachError:
                pass  # no factorisation has more of them
        if self.others:
            self._within(Window.of(self.smooth), self.others)

    def _complete(self, best: StagedSearch) -> None:
        """Let all searches go on with a spectrum that is accurate at every stop."""
        spectrum = best.problem.reaching(np.inf).spectrum
        for one in self.searches:
            one.problem = replace(one.problem, spectrum=spectrum)
            one.grid = stops_to_try(one.problem, self._stops)[0]

    def _everywhere(self, searches: list[StagedSearch]) -> None:
        """Estimate errors of methods without oscillations on their whole grids."""
        stops = [one.with_ends(spaced_stops(one.problem, one.known_stops)) for one in searches]
        for one, curve in zip(searches, _looked_at(searches, stops, np.inf), strict=True):
            one.curve = curve

    def _within(self, window: Window, searches: list[StagedSearch]) -> None:
        """Estimate errors of other methods in a window of gains, stage by stage."""
        staged = [_stops_by_stage(one, window) for one in searches]
        # no fit has smaller residuals than least squares, and left-out ones are larger
        outside = float(np.mean(searches[0].problem.spectrum.energies()[1]))
        if window.least <= NEXT_TO_LEAST * outside:
            for one in searches:
                guess = by_gcv(one.problem, one.grid)
                one.curve = replace(guess, errors=np.maximum(guess.errors, window.least))
                one.is_hopeless = True
            return
        parts: list[list[ErrorCurve]] = [[] for _ in searches]
        for number in sorted(set[int]().union(*staged)):
            places = [place for place, own in enumerate(staged) if number in own]
            stops = []
            limit = 0.0 if number else np.inf
            for place in places:
                one = searches[place]
                own = staged[place][number]
                own = one.far_stops(own, window.least) if number else spaced_stops(one.problem, own)
                # oscillations that are faint for the least damped method are faint for all
                limit = max(limit, one.problem.rough_limit(own, window.least))
                stops.append(own if parts[place] else one.with_ends(own))
            curves = _looked_at([searches[place] for place in places], stops, limit)
            for place, curve in zip(places, curves, strict=True):
                parts[place].append(curve)
        for one, own_parts in zip(searches, parts, strict=True):
            one.curve = reduce(ErrorCurve.joined, own_parts)
            if not one.is_bounded:
                # where stops as late as the last one are good, later oscillations may be better
                one.extend()


def _looked_at(searches: list[StagedSearch], stops: list[Array], limit: float) -> list[ErrorCurve]:
    """Return errors of several methods at stops of their own, by the ridges that they share."""
    first = searches[0].problem
    found = None
    if not searches[0].rule.standard_errors:
        looks = [(one.problem.tuned, own) for one, own in zip(searches, stops, strict=True)]
        found = first.first_look.errors(looks, limit, verbose=first.verbose)
    if found is None:
        return [one.exactly(own, limit) for one, own in zip(searches, stops, strict=True)]
    return found


def _stops_by_stage(search: StagedSearch, window: Window) -> dict[int, Array]:
    """Return the stops in a window of gains; stages outside of it are left out of the grid too."""
    # whole stages, so that mixtures of ridges that were found for other data serve here too
    stops = search.known_stops
    if not stops.size:
        return {0: stops}
    gains = _gains(search, stops)
    stage = stages(search.problem, stops)
    inside = stage[(gains >= window.first) & (gains <= window.last)]
    if not inside.size:
        # all stops are too early, or all are too late
        inside = stage[-1:] if gains[-1] < window.first else stage[:1]
    found = {number: stops[stage == number] for number in range(inside[0], inside[-1] + 1)}
    near = (search.grid >= found[inside[0]][0]) & (search.grid <= found[inside[-1]][-1])
    search.grid = search.grid[near | (search.grid == 0) | np.isinf(search.grid)]
    search.is_bounded = bool(window.last < gains[-1])
    return found


def _gains(search: StagedSearch, stops: Floats) -> Array:
    """Return φ(0, t), by which stops of different methods are compared."""
    method = search.problem.tuned
    with np.errstate(over="ignore"):
        if method.scale_free:
            return np.asarray(_unit_gain(method) * stops**method.order)
        finite = np.where(np.isfinite(stops), stops, 0.0)
        return np.where(np.isfinite(stops), method.gain(0.0, finite), np.inf)


@lru_cache(maxsize=64)
def _unit_gain(method: Method) -> float:
    return float(method.gain(0.0, 1.0))
