"""The search for the least left-out error, which spends its digits near the best stop.

The default grid ends where the slowest direction is learned, far beyond the best stop of
ill-conditioned data, and exact leave-one-out is expensive there. So early stops are looked at
first, and later ones in stages until the error has clearly risen. At late stops the fast
oscillations of directions that are nearly learned are left out, which changes the error by less
than a per cent. Around the lowest error the left-out errors are then computed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from stoptime.left_out.curve import ErrorCurve
from stoptime.spectrum.accuracy import ReachError
from stoptime.stopping.gcv import rough_path_gcv
from stoptime.stopping.grid import grid_of, spaced_stops, stages
from stoptime.stopping.rule import MOST_REFINED, TIE, CurveSearch, columns_of
from stoptime.theory.search import dips

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stoptime.spectrum.dense import DenseData
    from stoptime.stopping.leave_one_out import LeaveOneOut
    from stoptime.stopping.problem import Problem
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
MOST_NEIGHBOURHOODS = 8  # in which the lowest error is looked for
DIPS_LOOKED_INTO = 6  # of a curve, in which the least error is looked for
SPREAD_NODES = 8  # stops whose standard errors are computed, if rows are remembered


@dataclass
class StagedSearch(CurveSearch):
    """The search for the least left-out error: first in stages, and exactly around the lowest.

    ``exact`` holds errors that were computed exactly, with their standard errors. A search that
    ``is_bounded`` does not go beyond its grid, unless the error is least at its end, and one that
    ``is_hopeless`` cannot find an error notably below those of other methods.
    """

    rule: LeaveOneOut
    is_bounded: bool = False
    is_hopeless: bool = False
    exact: ErrorCurve | None = None

    def found(self) -> ErrorCurve:
        """Return errors on the default grid, exact around the lowest."""
        has_risen = self._in_stages()
        if not has_risen and self.problem.spectrum.reach < np.inf:
            # the best stop may be so late that products of X have lost its digits
            try:
                self.problem = self.problem.reaching(np.inf)
                self.grid = grid_of(self.problem.spectrum, self.problem.tuned)
                has_risen = self._in_stages()
            except ReachError:
                has_risen = True  # no factorisation has more of them
        if not has_risen:
            self.extend()
        self.settle()
        self.add_spread()
        return self.curve

    def extend(self) -> None:
        """Estimate errors beyond the last finite stop too, while the error has not settled."""
        stops = self.curve.stops
        last = stops[np.isfinite(stops)][-1]
        if not self.is_bounded or (stops[self.best] == last).any():
            super().extend()

    def settle(self) -> None:
        """Make errors around the lowest exact, and refine them."""
        self._near_best()
        before = self._least
        self.refine()
        # where a parabola has gained something, a second one may gain more
        if not self._fills_dips and self._least < (1 - TIE) * before:
            self.refine()

    def add_spread(self) -> None:
        """Add standard errors, if the rule asks for them where they are cheap."""
        if self.rule.standard_errors is None and self.problem.has_few_targets:
            # the choice may be at an end, and the exact errors around a dip elsewhere
            known = np.empty(0) if self.exact is None else self.exact.stops
            chosen = np.asarray(self.curve.stops[self.best], np.float64)
            ends = chosen[~np.isin(chosen, known)]
            if ends.size:
                self.near(ends, np.inf)
            self._add_spread(cast("ErrorCurve", self.exact))

    @property
    def promise(self) -> Floats:
        """Estimates of the least errors, by parabolas through the dips of the curve."""
        columns = self.columns
        least = columns.min(axis=0)
        for column, errors in enumerate(columns.T if not self.is_hopeless else ()):
            inner = dips(errors)
            before = errors[inner - 1]
            after = errors[inner + 1]
            bend = before - 2 * errors[inner] + after
            # the vertex is lower than the dip by this; in a flat dip by nothing
            depth = (after - before) ** 2 / (8 * np.where(bend > 0, bend, np.inf))
            least[column] = min(least[column], (errors[inner] - depth).min(initial=np.inf))
        return np.asarray(least)

    @property
    def known_stops(self) -> Array:
        """Stops next to those of the grid, up to which the spectrum can be relied on."""
        tuned = self.problem.tuned
        stops = self.grid[(self.grid > 0) & np.isfinite(self.grid)]
        if tuned.scale_free:
            # eigenvalues without a row are larger by a factor: with these stops, mixtures of ridges
            # that were found for other data serve here too
            stops = stops * self.problem.first_look.scale ** (-1 / tuned.order)
        reach = _rough_reach(self.problem)
        return stops if np.isinf(reach) else stops[tuned.largest_gain(stops) <= reach]

    def _in_stages(self) -> bool:
        """Estimate errors up to the stage in which they have clearly risen; tell if they have."""
        stops = self.known_stops
        if not self.per_target and self.problem.left_out.rows.are_light:
            self._follow_gcv(stops)
            return self.has_risen()
        stage = stages(self.problem, stops)
        self.curve = self._rough(self.with_ends(spaced_stops(self.problem, stops[stage == 0])))
        guard: ErrorCurve | None = None
        for number in np.unique(stage[stage > 0]):
            seen = self.columns
            limit = CLEARLY_WORSE * seen[np.isfinite(self.curve.stops)].min(axis=0)
            least_squares = seen[np.isinf(self.curve.stops)]
            later = self.far(stops[stage == number])
            self.curve = self.curve.joined(later)
            new = np.concatenate([columns_of(later, per_target=self.per_target), least_squares])
            if (new > limit).all() and later.stops[-1] < stops[-1]:
                guard = guard or by_gcv(self.problem, stops, GUARD_STRIDE)
                if _rises_after(guard, later.stops[-1]):
                    return True
        return self.has_risen()

    def _follow_gcv(self, stops: Array) -> None:
        """Estimate errors in ratio to path GCV, of which rows of low leverage leave little over."""
        self.curve = by_gcv(self.problem, stops)
        errors = self.curve.pooled().errors
        best = int(np.argmin(errors))
        near = np.asarray(self.curve.stops[max(best - 1, 0) : best + 2], np.float64)
        self.problem = self.problem.reaching(near)
        exact = self.near(self.with_ends(near))
        ratio = exact.pooled().errors[exact.stops == self.curve.stops[best]] / errors[best]
        self.curve = replace(self.curve, errors=self.curve.errors * ratio).joined(exact)

    def has_risen(self) -> bool:
        """Tell whether the least error lies well before the last stop that is known."""
        columns = self.columns
        least = columns.min(axis=0)
        stops = self.curve.stops
        last = stops[np.isfinite(stops)][-1]
        if not (columns[stops >= last] > SURELY_WORSE * least).all():
            return False
        # beyond the last stop that is known, a curve that rose long ago is taken to stay above,
        # unless there is so little noise that directions which products have lost may matter
        best = stops[np.argmin(columns, axis=0)].max()
        reach = _rough_reach(self.problem)
        early = self.problem.tuned.largest_gain(best) * LONG_AGO <= reach
        return bool(early and self.problem.remains(least) > CLEAN)

    def with_ends(self, stops: Array) -> Array:
        """Return stops with zero, and with infinity if least squares is accurate."""
        is_end = self.grid == 0
        if self.problem.spectrum.reach == np.inf:
            is_end |= np.isinf(self.grid)
        return np.sort(np.concatenate([self.grid[is_end], stops]))

    def far(self, stops: Array) -> ErrorCurve:
        """Return errors at some of these late stops, without oscillations that are faint there."""
        stops = self.far_stops(stops, self._least)
        return self._rough(stops, self.problem.rough_limit(stops, self._least))

    def far_stops(self, stops: Array, error: float) -> Array:
        """Return some late stops, close enough to follow oscillations that show in such errors."""
        until = self.problem.visible(WIGGLE * self.problem.remains(error))
        return spaced_stops(self.problem, stops, LATE_LOOK_RATIO, until)

    def near(self, stops: Array, limit: float | None = None) -> ErrorCurve:
        """Return errors at stops close to the best, exact unless these are very late."""
        found = self.exactly(stops, limit or self.problem.exact_limit(stops, self.curve.errors))
        if found.standard_errors is not None and not self.rule.standard_errors:
            self.exact = found if self.exact is None else self.exact.joined(found)
        return found

    @property
    def _least(self) -> float:
        return float(self.curve.errors.min())

    def _rough(self, stops: Array, limit: float = np.inf) -> ErrorCurve:
        """Return errors at a first look."""
        problem = self.problem
        found = None
        if stops.size and not self.rule.standard_errors:
            looks = [(problem.tuned, stops)]
            found = problem.first_look.errors(looks, limit, verbose=problem.verbose)
        if found is not None:
            return found[0]
        # many targets have their best stops nearly everywhere: one exact look is enough
        rough = not self.per_target or problem.has_few_targets
        return self.exactly(stops, limit, rough=rough)

    def exactly(self, stops: Array, limit: float, *, rough: bool = False) -> ErrorCurve:
        """Return errors, and standard errors unless they cost more; rough ones of many targets."""
        problem = self.problem
        wanted = self.rule.standard_errors
        spread = problem.has_few_targets and not rough if wanted is None else wanted
        options = {"standard_errors": spread, "rough": rough, "verbose": problem.verbose}
        curve = problem.left_out.errors(problem.tuned, stops, limit, **options)
        reached = problem.tuned.largest_gain(stops) <= problem.spectrum.reach
        resolved = limit >= problem.spectrum.eigenvalues.max(initial=0)
        return replace(curve, exact=curve.exact & reached & resolved)

    def _near_best(self) -> None:
        """Compute errors exactly around every dip that may hold the least, until one does."""
        seen = np.array([0.0, np.inf])
        if not self._fills_dips or (self.per_target and not self.problem.has_few_targets):
            seen = np.union1d(seen, self.curve.stops[self.curve.exact])
        for _ in range(MOST_NEIGHBOURHOODS):
            stops = self.curve.stops
            places = np.union1d(self.best, self._deep_dips())
            places = places[~np.isin(stops[places], seen)]
            if not places.size:
                break
            near = [self._between(int(place)) for place in places[:MOST_REFINED]]
            wanted = np.unique(np.concatenate([stops[places], *near]))
            seen = np.append(seen, wanted)
            self.problem = self.problem.reaching(wanted)
            self.curve = self.curve.joined(self.near(wanted))

    def _deep_dips(self) -> NDArray[np.intp]:
        """Return the places of dips that may be deeper, between the stops, than the least error."""
        found = [np.empty(0, np.intp)]
        for errors in self.columns.T[:MOST_REFINED]:
            places = dips(errors)
            # with eight looks an oscillation, a dip is less deep between them than it is curved
            curved = (errors[places - 1] + errors[places + 1]) / 2 - errors[places]
            deepest = np.argsort(errors[places] - curved)[:DIPS_LOOKED_INTO]
            found.append(places[deepest][(errors[places] - curved)[deepest] <= errors.min()])
        return np.unique(np.concatenate(found))

    @property
    def _fills_dips(self) -> bool:
        """Whether all stops of the grid are looked at near the lowest error.

        Where each is a product with very many rows, and errors are smooth, parabolas will do.
        """
        cheap = self.per_target or self.problem.left_out.rows.remembers
        return cheap or not self.problem.tuned.is_smooth

    def _between(self, place: int) -> Array:
        """Return the stops of the grid between the neighbours of a place on the curve."""
        stops = self.curve.stops
        if not self._fills_dips:
            return np.asarray(stops[max(place - 1, 0) : place + 2], np.float64)
        low = stops[max(place - 1, 0)]
        high = stops[min(place + 1, len(stops) - 1)]
        return self.grid[(self.grid > low) & (self.grid < high)]

    def _add_spread(self, exact: ErrorCurve) -> None:
        """Add standard errors, exact around the chosen stop and interpolated elsewhere."""
        curve = self.curve
        early = curve.stops[(curve.stops > 0) & (curve.stops < exact.stops[0])]
        nodes = early[:: max(1, len(early) // SPREAD_NODES)]
        seen = self.problem.first_look.with_spread(self.problem.tuned, nodes)
        known = exact if seen is None else seen.joined(exact)
        # relative standard errors change little from stop to stop
        ratios = cast("Floats", known.standard_errors) / np.where(known.errors > 0, known.errors, 1)
        places = np.searchsorted(curve.stops, known.stops)
        columns = ratios.reshape(len(places), -1).T
        everywhere = [np.interp(np.arange(len(curve.stops)), places, one) for one in columns]
        spread = curve.errors * np.stack(everywhere, axis=1).reshape(curve.errors.shape)
        self.curve = replace(curve, standard_errors=spread).joined(exact)


def by_gcv(problem: Problem, grid: Array, stride: int = 1) -> ErrorCurve:
    """Return path GCV at some stops of the grid."""
    stops = spaced_stops(problem, grid[np.isfinite(grid)])[::stride]
    return ErrorCurve(stops, rough_path_gcv(problem.first_look, problem.tuned, stops), exact=False)


def _rises_after(guard: ErrorCurve, last: float) -> bool:
    """Tell whether path GCV is clearly worse at all stops after the last one looked at."""
    ahead = guard.stops > last
    # between the stops of this sparse curve nothing is known: the search goes on
    if not ahead.any():
        return False
    errors = columns_of(guard, per_target=True)
    least = errors[~ahead].min(axis=0)
    return bool((errors[ahead].min(axis=0) > GUARD_WORSE * least).all())


def _rough_reach(problem: Problem) -> float:
    """Return the gain up to which a search may rely on the spectrum."""
    spectrum = problem.spectrum
    largest = float(spectrum.eigenvalues.max(initial=0))
    if spectrum.reach == np.inf or largest == 0:
        return np.inf
    # directions that products of X have lost must not be learned yet
    rounding = cast("DenseData", problem.data).rounding
    return max(spectrum.reach, LEARNED_OF_LOST / (rounding * largest))
