"""The rule of least left-out error, which spends its digits near the best stop.

The default grid ends where the slowest direction is learned, far beyond the best stop of
ill-conditioned data, and exact leave-one-out is expensive there. So early stops are looked at
first, and later ones in stages until the error has clearly risen. At late stops the fast
oscillations of directions that are nearly learned are left out, which changes the error by less
than a per cent. Around the lowest error the left-out errors are then computed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.curve import ErrorCurve
from stoptime.spectrum.accuracy import ReachError
from stoptime.stopping.gcv import path_gcv
from stoptime.stopping.grid import (
    FIRST_STAGE_PHASE,
    LOOK_STEP,
    apart,
    default_stops,
    phases,
    spaced_stops,
    stages,
    stops_to_try,
)
from stoptime.stopping.rule import (
    MOST_REFINED,
    NEARLY_LEAST,
    CurveRule,
    CurveSearch,
    columns_of,
    first_of_least,
)
from stoptime.theory.search import dips

if TYPE_CHECKING:
    from stoptime.spectrum.dense import DenseData
    from stoptime.stopping.problem import Problem
    from stoptime.stopping.rule import Choice
    from stoptime.support.arrays import Array, Floats

WIGGLE = 0.05  # oscillations of residuals that stops must follow
LATE_LOOK_RATIO = 1.08  # of neighbouring t√L in later stages
GUARD_STRIDE = 3  # of the stops at which path GCV guards
CLEARLY_WORSE = 1.05  # times the least error so far
GUARD_WORSE = 1.2  # times the least path GCV so far
LONG_AGO = 1e3  # ratio of gains at the last stop that is known and at the best one
CLEAN = 0.03  # of the size of the response: residuals without noise to speak of
SURELY_WORSE = 1.003  # times the least error: rough errors are more accurate than that
LEARNED_OF_LOST = 0.03  # largest share learned of directions that products of X have lost
LATER = 12.0  # φ(0, t) up to which methods are looked at, relative to that of the best smooth one
NEXT_TO_LEAST = 1.001  # times the least error of a smooth method: later stops gain next to nothing
MOST_NEIGHBOURHOODS = 8  # in which the lowest error is looked for
MOST_COMPARED_BY_ROWS = 3  # targets for which methods are compared by their left-out errors
SPREAD_NODES = 8  # stops whose standard errors are computed, if rows are remembered


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

        Methods without oscillations come first: they share their ridges, and show how late others
        need to be looked at. With more than three targets the methods are compared by path GCV.
        """
        filters = all(problem.method.has_filter for problem in problems)
        if len(problems) == 1 or np.ndim(np.asarray(stops)) > 0 or not filters:
            return super().choose_each(problems, stops, per_target=per_target)
        if problems[0].data.n_targets > MOST_COMPARED_BY_ROWS:
            return self._compared_by_gcv(problems, stops, per_target=per_target)
        looks: dict[int, StagedSearch] = {}
        gain = np.inf
        least = np.inf
        spectrum = problems[0].spectrum
        for place in sorted(range(len(problems)), key=lambda i: not problems[i].method.is_smooth):
            problem = replace(problems[place], spectrum=spectrum)
            search = StagedSearch(self, problem, stops_to_try(problem, stops)[0], per_target)
            looks[place] = search
            if problem.method.is_smooth:
                search.look()
                gain = min(gain, search.gain_of_best)
                least = min(least, search.curve.pooled().errors.min())
            else:
                if gain < np.inf:
                    search.grid = search.grid[_slopes(problem, search.grid) <= LATER * gain]
                # no fit has smaller residuals than least squares, and left-out ones are larger
                if least <= NEXT_TO_LEAST * float(np.mean(spectrum.energies()[1])):
                    search.curve = _by_gcv(problem, search.grid)
                else:
                    search.look(bounded=gain < np.inf, rival=np.inf if per_target else least)
            spectrum = search.problem.spectrum
        settled = set[int]()
        # errors are made exact until the best method has one
        while True:
            curves = [looks[place].curve for place in range(len(problems))]
            found = [self._lowest(curve, per_target=per_target) for curve in curves]
            best = first_of_least(found)
            if best in settled:
                return found
            looks[best].settle()
            settled.add(best)

    def _compared_by_gcv(
        self, problems: list[Problem], stops: ArrayLike | int | None, *, per_target: bool
    ) -> list[Choice]:
        """Pick the stop of the method with the least path GCV, which costs little for any targets.

        The errors of other methods are those of path GCV, in the same ratio to the chosen one.
        """
        found = []
        for problem in problems:
            grid, _ = stops_to_try(problem, stops)
            found.append(self._lowest(_by_gcv(problem, grid), per_target=per_target))
        best = first_of_least(found)
        chosen = self.choose(problems[best], stops, per_target=per_target)
        ratio = float(np.mean(chosen.error)) / float(np.mean(found[best].error))
        scaled = [replace(one, error=one.error * ratio) for one in found]
        return [chosen if place == best else one for place, one in enumerate(scaled)]

    def _search(self, problem: Problem, grid: Array, per_target: bool) -> StagedSearch:
        """Return the search for the least error that begins on this grid."""
        return StagedSearch(self, problem, grid, per_target)


class StagedSearch(CurveSearch):
    """The search for the least left-out error: first in stages, and exactly around the lowest."""

    rule: LeaveOneOut

    def found(self) -> ErrorCurve:
        """Return errors on the default grid, exact around the lowest."""
        self.look()
        self.settle()
        return self.curve

    def look(self, *, bounded: bool = False, rival: float = np.inf) -> None:
        """Estimate errors on the grid, roughly at late stops, and beyond it if need be.

        A ``bounded`` search does not go beyond its grid. Dips that stay above the least error of a
        ``rival`` are not looked at more closely.
        """
        has_risen = self._in_stages(bounded=bounded) or bounded
        if not has_risen and self.problem.spectrum.reach < np.inf:
            # the best stop may be so late that products of X have lost its digits
            try:
                self.problem = self.problem.reaching(np.inf)
            except ReachError:
                return  # no factorisation has more of them
            self.grid = default_stops(self.problem.spectrum, self.problem.tuned)
            has_risen = self._in_stages(bounded=False)
        if not has_risen:
            self.extend()
        if self.problem.tuned.oscillates:
            self._in_dips(rival)

    def settle(self) -> None:
        """Make errors around the lowest exact, refine them, and add standard errors."""
        self._near_best()
        self.refine()
        if self.rule.standard_errors is None and self.problem.has_few_targets:
            self._add_spread()

    @property
    def gain_of_best(self) -> float:
        """The φ(0, t) at the earliest stop whose error is next to the least."""
        errors = self.curve.pooled().errors
        first = int(np.argmax(errors <= NEXT_TO_LEAST * errors.min()))
        return float(_slopes(self.problem, self.curve.stops[[first]])[0])

    def _in_stages(self, *, bounded: bool) -> bool:
        """Estimate errors up to the stage in which they have clearly risen; tell if they have."""
        problem = self.problem
        stops = self.grid[np.isfinite(self.grid)]
        stage = stages(problem, stops)
        known = problem.tuned.largest_gain(stops) <= _rough_reach(problem)
        ends = self.grid[np.isinf(self.grid)] if problem.spectrum.reach == np.inf else stops[:0]
        first = spaced_stops(problem, stops[(stage == 0) & known])
        # many targets have their best stops nearly everywhere: one exact look is enough
        first_look = not self.per_target or problem.has_few_targets
        self.curve = self._rough(np.append(first, ends), np.inf, first_look=first_look)
        guard: ErrorCurve | None = None
        for number in np.unique(stage[(stage > 0) & known]):
            seen = self.columns
            limit = CLEARLY_WORSE * seen[np.isfinite(self.curve.stops)].min(axis=0)
            least_squares = seen[np.isinf(self.curve.stops)]
            later = self.far(stops[(stage == number) & known])
            self.curve = self.curve.joined(later)
            new = np.concatenate([columns_of(later, per_target=self.per_target), least_squares])
            if not (new > limit).all():
                continue
            # in a bounded search the methods before have shown how late is late enough
            if bounded:
                return True
            if later.stops[-1] < stops[-1]:
                guard = guard or _by_gcv(problem, stops, GUARD_STRIDE)
                if _rises_after(guard, later.stops[-1]):
                    return True
        columns = self.columns
        least = columns.min(axis=0)
        seen_stops = self.curve.stops
        last = seen_stops[np.isfinite(seen_stops)][-1]
        rises = (columns[seen_stops >= last] > SURELY_WORSE * least).all()
        # beyond the last stop that is known, a curve that rose long ago is taken to stay above,
        # unless there is so little noise that directions which products have lost may matter
        best = seen_stops[np.argmin(columns, axis=0)].max()
        early = problem.tuned.largest_gain(best) * LONG_AGO <= _rough_reach(problem)
        noisy = problem.remains(least) > CLEAN
        return bool(rises and early and noisy)

    def far(self, stops: Array) -> ErrorCurve:
        """Return errors at some of these late stops, without oscillations that are faint there."""
        visible = self.problem.visible(WIGGLE * self.problem.remains(self.curve.errors))
        ratio = min(LATE_LOOK_RATIO, 1 + LOOK_STEP / visible) if visible else LATE_LOOK_RATIO
        stops = stops[apart(np.log(stops), np.full(len(stops), np.log(ratio)))]
        return self._rough(stops, self.problem.rough_limit(stops, self.curve.errors))

    def near(self, stops: Array) -> ErrorCurve:
        """Return errors at stops close to the best, exact unless these are very late."""
        limit = self.problem.exact_limit(stops, self.curve.errors)
        return self._rough(stops, limit, first_look=False)

    def _rough(self, stops: Array, limit: float, *, first_look: bool = True) -> ErrorCurve:
        """Return errors at the stops, and at which of them they are exact."""
        if self.rule.standard_errors:
            return self._marked(stops, limit, standard_errors=True)
        options = {"standard_errors": False, "by_products": True, "first_look": first_look}
        return self._marked(stops, limit, **options)

    def _marked(self, stops: Any, limit: float, **options: Any) -> ErrorCurve:
        """Return left-out errors, and at which stops they are exact."""
        problem = self.problem
        options["verbose"] = problem.verbose
        curve = problem.left_out.errors(problem.tuned, stops, limit, **options)
        reached = problem.tuned.largest_gain(stops) <= problem.spectrum.reach
        resolved = limit >= problem.spectrum.eigenvalues.max(initial=0)
        return replace(curve, exact=curve.exact & reached & resolved)

    def _in_dips(self, rival: float) -> None:
        """Fill the grid in the deepest dips, any of which may hold the least error."""
        stops = self.curve.stops
        wanted = [stops[:0]]
        for errors in self.columns.T[:MOST_REFINED]:
            places = dips(errors)
            # with eight looks an oscillation, a dip is less deep between them than it is curved
            curved = (errors[places - 1] + errors[places + 1]) / 2 - errors[places]
            places = places[errors[places] - curved <= rival]
            early = phases(self.problem, stops[places]) <= FIRST_STAGE_PHASE
            # another look at late stops costs more, and they have been seen closer
            limit = errors.min() * np.where(early, CLEARLY_WORSE, NEARLY_LEAST)
            wanted += [self._between(place) for place in places[errors[places] <= limit]]
        new = np.setdiff1d(np.concatenate(wanted), stops)
        stage = stages(self.problem, new)
        for number in np.unique(stage):
            some = new[stage == number]
            limit = self.problem.rough_limit(some, self.curve.errors)
            self.curve = self.curve.joined(self._rough(some, limit))

    def _between(self, place: int) -> Array:
        """Return the stops of the grid between the neighbours of a place on the curve."""
        stops = self.curve.stops
        low = stops[max(place - 1, 0)]
        high = stops[min(place + 1, len(stops) - 1)]
        return self.grid[(self.grid > low) & (self.grid < high)]

    def _near_best(self) -> None:
        """Compute errors around the lowest ones exactly, until these are the lowest."""
        seen = np.array([0.0, np.inf])
        if self.per_target and not self.problem.has_few_targets:
            seen = np.union1d(seen, self.curve.stops[self.curve.exact])
        for _ in range(MOST_NEIGHBOURHOODS):
            best = self.best
            best = best[~np.isin(self.curve.stops[best], seen)]
            if not best.size:
                break
            near = [self._between(place) for place in best[:MOST_REFINED]]
            wanted = np.unique(np.concatenate([self.curve.stops[best], *near]))
            seen = np.append(seen, wanted)
            self.problem = self.problem.reaching(wanted)
            self.curve = self.curve.joined(self.near(wanted))

    def _add_spread(self) -> None:
        """Add standard errors, computed where the stop is chosen and interpolated elsewhere."""
        curve = self.curve
        best = self.best
        nodes = best
        if self.problem.left_out.rows.remembers:
            # a second look costs little, except at late stops
            early = np.flatnonzero(curve.exact & (np.arange(len(curve.stops)) <= best[-1]))
            nodes = np.union1d(best, early[:: max(1, len(early) // SPREAD_NODES)])
        parts = [
            self._marked(some, self.problem.exact_limit(some, curve.errors), standard_errors=True)
            for some in (curve.stops[best], curve.stops[np.setdiff1d(nodes, best)])
            if some.size
        ]
        fine = parts[0].joined(parts[-1])
        # relative standard errors change little from stop to stop
        ratios = fine.standard_errors / np.where(fine.errors > 0, fine.errors, 1)
        ratios = ratios.reshape(len(nodes), -1).T
        everywhere = [np.interp(np.arange(len(curve.stops)), nodes, ratio) for ratio in ratios]
        spread = curve.errors * np.stack(everywhere, axis=1).reshape(curve.errors.shape)
        self.curve = replace(curve, standard_errors=spread).joined(fine)


def _rises_after(guard: ErrorCurve, last: float) -> bool:
    """Tell whether path GCV is clearly worse at all stops after the last one looked at."""
    ahead = guard.stops > last
    # between the stops of this sparse curve nothing is known: the search goes on
    if not ahead.any():
        return False
    errors = columns_of(guard, per_target=True)
    least = errors[~ahead].min(axis=0)
    return bool((errors[ahead].min(axis=0) > GUARD_WORSE * least).all())


def _by_gcv(problem: Problem, grid: Array, stride: int = 1) -> ErrorCurve:
    """Return path GCV at some stops of the grid."""
    stops = spaced_stops(problem, grid[np.isfinite(grid)])[::stride]
    return ErrorCurve(stops, path_gcv(problem.spectrum, problem.tuned, stops), exact=False)


def _slopes(problem: Problem, stops: Floats) -> Array:
    """Return φ(0, t), by which stops of different methods are compared."""
    finite = np.where(np.isfinite(stops), stops, 0.0)
    return np.where(np.isfinite(stops), problem.tuned.gain(0.0, finite), np.inf)


def _rough_reach(problem: Problem) -> float:
    """Return the gain up to which a search may rely on the spectrum."""
    spectrum = problem.spectrum
    largest = float(spectrum.eigenvalues.max(initial=0))
    if spectrum.reach == np.inf or largest == 0:
        return np.inf
    # directions that products of X have lost must not be learned yet
    rounding = cast("DenseData", problem.data).rounding
    return max(spectrum.reach, LEARNED_OF_LOST / (rounding * largest))
