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
    best_places,
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
LATER = 16.0  # φ(0, t) up to which methods are looked at, relative to that of the best smooth one
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
        looks: dict[int, tuple[Problem, ErrorCurve, Array]] = {}
        gain = np.inf
        least = np.inf
        spectrum = problems[0].spectrum
        for place in sorted(range(len(problems)), key=lambda i: not problems[i].method.is_smooth):
            problem = replace(problems[place], spectrum=spectrum)
            grid, _ = stops_to_try(problem, stops)
            if problem.method.is_smooth:
                looks[place] = self._looked_at(problem, grid, per_target=per_target)
                problem, curve, _ = looks[place]
                spectrum = problem.spectrum
                gain = min(gain, _gain_of_best(problem, curve))
                least = min(least, curve.pooled().errors.min())
                continue
            if gain < np.inf:
                grid = grid[_slopes(problem, grid) <= LATER * gain]
            # no fit has smaller residuals than least squares, and left-out ones are larger
            if least <= NEXT_TO_LEAST * float(np.mean(spectrum.energies()[1])):
                looks[place] = problem, _by_gcv(problem, grid), grid
                continue
            rival = np.inf if per_target else least
            looks[place] = self._looked_at(
                problem, grid, per_target=per_target, bounded=gain < np.inf, rival=rival
            )
            spectrum = looks[place][0].spectrum
        settled = set[int]()
        # errors are made exact until the best method has one
        while True:
            found = [self._lowest(looks[i][1], per_target=per_target) for i in range(len(problems))]
            best = first_of_least(found)
            if best in settled:
                return found
            problem, curve, grid = looks[best]
            looks[best] = *self._settled(problem, curve, grid, per_target=per_target), grid
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

    def _searched(
        self, problem: Problem, grid: Array, *, per_target: bool
    ) -> tuple[Problem, ErrorCurve]:
        """Return errors on the default grid, exact around the lowest; see :meth:`Rule.choose`."""
        problem, curve, grid = self._looked_at(problem, grid, per_target=per_target)
        return self._settled(problem, curve, grid, per_target=per_target)

    def _looked_at(
        self,
        problem: Problem,
        grid: Array,
        *,
        per_target: bool,
        bounded: bool = False,
        rival: float = np.inf,
    ) -> tuple[Problem, ErrorCurve, Array]:
        """Return errors on the grid, rough at late stops, and the grid, which may be longer now.

        A ``bounded`` search does not go beyond its grid. Dips that stay above the least error of a
        ``rival`` are not looked at more closely.
        """
        curve, has_risen = self._in_stages(problem, grid, per_target=per_target, bounded=bounded)
        has_risen = has_risen or bounded
        if not has_risen and problem.spectrum.reach < np.inf:
            # the best stop may be so late that products of X have lost its digits
            try:
                problem = problem.reaching(np.inf)
            except ReachError:
                return problem, curve, grid  # no factorisation has more of them
            grid = default_stops(problem.spectrum, problem.tuned)
            curve, has_risen = self._in_stages(problem, grid, per_target=per_target, bounded=False)
        if not has_risen:
            problem, curve = self._extended(problem, curve, per_target=per_target)
        if problem.tuned.oscillates:
            curve = self._in_dips(problem, curve, grid, per_target=per_target, rival=rival)
        return problem, curve, grid

    def _settled(
        self, problem: Problem, curve: ErrorCurve, grid: Array, *, per_target: bool
    ) -> tuple[Problem, ErrorCurve]:
        """Return the curve with exact errors around the lowest, refined, with standard errors."""
        problem, curve = self._near_best(problem, curve, grid, per_target=per_target)
        curve = self._refined(problem, curve, per_target=per_target)
        return problem, self._with_spread(problem, curve, per_target=per_target)

    def _in_stages(
        self, problem: Problem, grid: Array, *, per_target: bool, bounded: bool
    ) -> tuple[ErrorCurve, bool]:
        """Return errors up to the stage in which they have clearly risen, and whether they have."""
        stops = grid[np.isfinite(grid)]
        stage = stages(problem, stops)
        known = problem.tuned.largest_gain(stops) <= _rough_reach(problem)
        ends = grid[np.isinf(grid)] if problem.spectrum.reach == np.inf else grid[:0]
        first = spaced_stops(problem, stops[(stage == 0) & known])
        curve = self._rough(problem, np.append(first, ends), np.inf)
        guard: ErrorCurve | None = None
        for number in np.unique(stage[(stage > 0) & known]):
            seen = columns_of(curve, per_target=per_target)
            limit = CLEARLY_WORSE * seen[np.isfinite(curve.stops)].min(axis=0)
            later = self._far(problem, stops[(stage == number) & known], curve)
            least_squares = seen[np.isinf(curve.stops)]
            curve = curve.joined(later)
            new = np.concatenate([columns_of(later, per_target=per_target), least_squares])
            if not (new > limit).all():
                continue
            # in a bounded search the methods before have shown how late is late enough
            if bounded:
                return curve, True
            if later.stops[-1] < stops[-1]:
                guard = guard or _by_gcv(problem, stops, GUARD_STRIDE)
                if _rises_after(guard, later.stops[-1]):
                    return curve, True
        columns = columns_of(curve, per_target=per_target)
        least = columns.min(axis=0)
        last = curve.stops[np.isfinite(curve.stops)][-1]
        rises = (columns[curve.stops >= last] > SURELY_WORSE * least).all()
        # beyond the last stop that is known, a curve that rose long ago is taken to stay above,
        # unless there is so little noise that directions which products have lost may matter
        best = curve.stops[np.argmin(columns, axis=0)].max()
        early = problem.tuned.largest_gain(best) * LONG_AGO <= _rough_reach(problem)
        noisy = problem.remains(least) > CLEAN
        return curve, bool(rises and early and noisy)

    def _far(self, problem: Problem, stops: Array, curve: ErrorCurve) -> ErrorCurve:
        """Return errors at some of these late stops, without oscillations that are faint there."""
        visible = problem.visible(WIGGLE * problem.remains(curve.errors))
        ratio = min(LATE_LOOK_RATIO, 1 + LOOK_STEP / visible) if visible else LATE_LOOK_RATIO
        stops = stops[apart(np.log(stops), np.full(len(stops), np.log(ratio)))]
        return self._rough(problem, stops, problem.rough_limit(stops, curve.errors))

    def _near(self, problem: Problem, stops: Array, curve: ErrorCurve) -> ErrorCurve:
        """Return errors at stops close to the best, exact unless these are very late."""
        limit = problem.exact_limit(stops, curve.errors)
        return self._rough(problem, stops, limit, first_look=False)

    def _rough(
        self, problem: Problem, stops: Array, limit: float, *, first_look: bool = True
    ) -> ErrorCurve:
        """Return errors at the stops, and at which of them they are exact."""
        if self.standard_errors:
            options = {"standard_errors": True}
        else:
            options = {"standard_errors": False, "by_products": True, "first_look": first_look}
        return _marked(problem, stops, limit, **options)

    def _in_dips(
        self,
        problem: Problem,
        curve: ErrorCurve,
        grid: Array,
        *,
        per_target: bool,
        rival: float,
    ) -> ErrorCurve:
        """Fill the grid in the deepest dips, any of which may hold the least error."""
        wanted = [curve.stops[:0]]
        for errors in columns_of(curve, per_target=per_target).T[:MOST_REFINED]:
            places = dips(errors)
            # with eight looks an oscillation, a dip is less deep between them than it is curved
            curved = (errors[places - 1] + errors[places + 1]) / 2 - errors[places]
            places = places[errors[places] - curved <= rival]
            early = phases(problem, curve.stops[places]) <= FIRST_STAGE_PHASE
            # another look at late stops costs more, and they have been seen closer
            limit = errors.min() * np.where(early, CLEARLY_WORSE, NEARLY_LEAST)
            places = places[errors[places] <= limit]
            wanted += [_between(curve, place, grid) for place in places]
        new = np.setdiff1d(np.concatenate(wanted), curve.stops)
        stage = stages(problem, new)
        for number in np.unique(stage):
            stops = new[stage == number]
            limit = problem.rough_limit(stops, curve.errors)
            curve = curve.joined(self._rough(problem, stops, limit))
        return curve

    def _near_best(
        self, problem: Problem, curve: ErrorCurve, grid: Array, *, per_target: bool
    ) -> tuple[Problem, ErrorCurve]:
        """Compute errors around the lowest ones exactly, until these are the lowest."""
        seen = np.array([0.0, np.inf])
        for _ in range(MOST_NEIGHBOURHOODS):
            best = np.unique(best_places(curve, per_target=per_target))
            best = best[~np.isin(curve.stops[best], seen)]
            if not best.size:
                break
            near = [_between(curve, place, grid) for place in best[:MOST_REFINED]]
            wanted = np.unique(np.concatenate([curve.stops[best], *near]))
            seen = np.append(seen, wanted)
            problem = problem.reaching(wanted)
            curve = curve.joined(self._near(problem, wanted, curve))
        return problem, curve

    def _with_spread(self, problem: Problem, curve: ErrorCurve, *, per_target: bool) -> ErrorCurve:
        """Return the curve with standard errors, computed where the stop is chosen."""
        if self.standard_errors is not None or not problem.has_few_targets:
            return curve
        best = np.unique(best_places(curve, per_target=per_target))
        nodes = best
        if problem.left_out.rows.remembers:
            # a second look costs little, except at late stops
            early = np.flatnonzero(curve.exact & (np.arange(len(curve.stops)) <= best[-1]))
            nodes = np.union1d(best, early[:: max(1, len(early) // SPREAD_NODES)])
        parts = [
            _marked(problem, some, problem.exact_limit(some, curve.errors), standard_errors=True)
            for some in (curve.stops[best], curve.stops[np.setdiff1d(nodes, best)])
            if some.size
        ]
        fine = parts[0].joined(parts[-1])
        # relative standard errors change little from stop to stop
        ratios = fine.standard_errors / np.where(fine.errors > 0, fine.errors, 1)
        ratios = ratios.reshape(len(nodes), -1).T
        everywhere = [np.interp(np.arange(len(curve.stops)), nodes, ratio) for ratio in ratios]
        spread = curve.errors * np.stack(everywhere, axis=1).reshape(curve.errors.shape)
        return replace(curve, standard_errors=spread).joined(fine)


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


def _gain_of_best(problem: Problem, curve: ErrorCurve) -> float:
    """Return φ(0, t) at the earliest stop whose error is next to the least."""
    errors = curve.pooled().errors
    first = int(np.argmax(errors <= NEXT_TO_LEAST * errors.min()))
    return float(_slopes(problem, curve.stops[[first]])[0])


def _marked(problem: Problem, stops: Any, limit: float, **options: Any) -> ErrorCurve:
    """Return left-out errors, and at which stops they are exact."""
    options["verbose"] = problem.verbose
    curve = problem.left_out.errors(problem.tuned, stops, limit, **options)
    reached = problem.tuned.largest_gain(stops) <= problem.spectrum.reach
    resolved = limit >= problem.spectrum.eigenvalues.max(initial=0)
    return replace(curve, exact=curve.exact & reached & resolved)


def _between(curve: ErrorCurve, place: int, grid: Array) -> Array:
    """Return the stops of a grid between the neighbours of a place on a curve."""
    low = curve.stops[max(place - 1, 0)]
    high = curve.stops[min(place + 1, len(curve.stops) - 1)]
    return grid[(grid > low) & (grid < high)]


def _rough_reach(problem: Problem) -> float:
    """Return the gain up to which a search may rely on the spectrum."""
    spectrum = problem.spectrum
    largest = float(spectrum.eigenvalues.max(initial=0))
    if spectrum.reach == np.inf or largest == 0:
        return np.inf
    # directions that products of X have lost must not be learned yet
    rounding = cast("DenseData", problem.data).rounding
    return max(spectrum.reach, LEARNED_OF_LOST / (rounding * largest))
