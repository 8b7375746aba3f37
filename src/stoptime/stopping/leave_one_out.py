r"""The rule of least left-out error, for one method or the best of several.

All methods that do not oscillate share one ladder of imaginary ridges. One pass over the rows gives
a matrix M, and with it the exact error of every such method at every stop, c(t)ᵀMc(t). The least
error is looked for on a grid and then between its stops, which touches no row. A method that
oscillates has ridges of its own, on ellipses that grow with the stop: it is looked at in stages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.contours import (
    RUNG,
    UNLEARNED,
    Ladder,
    Served,
    Span,
    ladder_for,
    values_at,
)
from stoptime.left_out.curve import ErrorCurve, standard_error
from stoptime.left_out.residuals import LeftOut, Places, between_ends, with_ends
from stoptime.left_out.scales import Scales
from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.recurrence import Iteration
from stoptime.methods.ridge import Ridge, SumOfRidges
from stoptime.spectrum.accuracy import ReachError
from stoptime.spectrum.data import Want, rows_of
from stoptime.spectrum.row_data import lost_columns
from stoptime.stopping.gcv import gcv_errors
from stoptime.stopping.grid import (
    LARGEST_RATIO,
    depth_of,
    fine_stops,
    later_stops,
    phases,
    stops_to_try,
    unit_stops,
)
from stoptime.stopping.rule import (
    EXACT_FIT,
    Choice,
    CurveRule,
    StopWarning,
    last_stop_warning,
    lowest_between,
)
from stoptime.support.arrays import Array, Floats, as_float64, like, on_host
from stoptime.support.user_warnings import warn_user

if TYPE_CHECKING:
    from stoptime.spectrum.base import Spectrum
    from stoptime.stopping.problem import Problem

IMPROVED = 0.999  # times the least error so far: what gains less does not count
TRUST = 1e3  # times the reach of products of X, up to which they are good enough for errors


@dataclass(frozen=True)
class LeaveOneOut(CurveRule):
    """Exact leave-one-out error; see :func:`stoptime.leave_one_out`.

    With ``standard_errors`` the curve has a standard error at every stop, which takes another pass
    over the rows. By default it is computed at the chosen stop alone.
    """

    standard_errors: bool = False
    name: ClassVar[str] = "loo"
    _uses_rows: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the exact left-out error at the stops."""
        options = {"standard_errors": self.standard_errors}
        return problem.left_out.errors(problem.filter, stops, **options)

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop with the least error; see :meth:`Rule.choose`."""
        (problem, choice), *_ = self.choose_each([problem], stops, per_target=per_target)
        return self.finished(problem, choice)

    def choose_each(
        self, problems: list[Problem], stops: ArrayLike | int | None, *, per_target: bool
    ) -> list[tuple[Problem, Choice]]:
        """Pick the stops of several methods, smooth ones from the same pass over the rows."""
        for problem in problems:
            self.fixed(problem.data, problem.groups)
            as_filter(problem.method)
        given = np.ndim(np.asarray(stops)) > 0
        if given or not problems[0].spectrum.rank or isinstance(problems[0].method, SpectralCutoff):
            return [self._on_grid(one, stops, per_target=per_target) for one in problems]
        search = _Search(cast("int | None", stops), per_target)
        if search.needs_more_digits(problems[0].spectrum, _ridge_gcv(problems[0].spectrum)):
            problems = _with_more_digits(problems)
        curves = search.curves(problems)
        best = min(curves, key=attrgetter("least"))
        # generalised cross-validation has decided above, which rows of high leverage mislead
        if search.needs_more_digits(problems[0].spectrum, best.errors):
            problems = _with_more_digits(problems)
            curves = search.curves(problems)
            best = min(curves, key=attrgetter("least"))
        if search.may_improve_later(best):
            # with little noise, stopping may pay where only a thousandth is left to be learned
            curves = search.curves(problems, later=1e3)
        return [self._zoomed(one, per_target=per_target) for one in curves]

    def _on_grid(self, problem: Problem, stops: Any, *, per_target: bool) -> tuple[Problem, Choice]:
        """Return the stop with the least error among those of a grid."""
        grid = stops_to_try(problem, stops)[0]
        problem = problem.reaching(grid)
        return problem, self._lowest(self.errors(problem, grid), per_target=per_target)

    def _zoomed(self, curve: _Curve, *, per_target: bool) -> tuple[Problem, Choice]:
        """Return the stop with the least error, between the stops of the grid too."""
        curve.warn_of_the_last_stop()
        whole = curve.problem.tuned.whole_stops
        stop: Any
        error: Any
        stop, error = lowest_between(
            curve.heights,
            curve.stops[:, None],
            curve.errors,
            whole=whole,
            fine=curve.fine,
            smooth=not curve.problem.filter.oscillates,
        )
        errors = curve.errors
        if not per_target:
            stop, error, errors = float(stop[0]), float(error[0]), errors[:, 0]
        message = self._reason(len(curve.stops), stop)
        choice = Choice(stop, error, ErrorCurve(curve.stops, errors), None, message)
        return curve.problem, choice

    def parts(self, problem: Problem, choice: Choice) -> Any:
        """Return squared left-out residuals, weighted to have the error as their mean."""
        left_out = problem.left_out if np.ndim(choice.stop) else problem.left_out.pooled
        return self._squares(left_out, problem.filter, np.asarray(choice.stop, np.float64))

    def _squares(self, left_out: LeftOut, method: Filter, stop: Array) -> Any:
        rows = left_out.rows
        residuals = as_float64(left_out.residuals(method, stop)).reshape(len(rows.weights), -1)
        squares = residuals**2
        if rows.has_one_scale:
            return squares
        present = np.flatnonzero(rows.weights)
        counts = like(squares, rows.weights[present] * len(present))
        squares = squares[like(squares, present)]
        error = counts @ squares / len(present)
        return counts[:, None] * (squares - error) + error

    def finished(self, problem: Problem, choice: Choice) -> Choice:
        """Return the choice with the exact error of its stop, and the standard error."""
        stop = np.asarray(choice.stop, np.float64)
        squares = self._squares(problem.left_out, problem.filter, stop)
        fewer = len(problem.spectrum.eigenvalues) < min(rows_of(problem.data).X.shape)
        if fewer and np.isfinite(problem.spectrum.accuracy.gain):
            _warn_of_lost_columns(problem, choice)
        error = np.asarray(on_host(squares.mean(axis=0)), np.float64)
        spread = standard_error(squares)
        curve = choice.curve
        if self.standard_errors and curve.standard_errors is None:
            stops = np.union1d(curve.stops, choice.stop)
            curve = self.errors(problem, stops.astype(np.float64))
        if np.ndim(choice.stop):
            return replace(choice, error=error, standard_error=spread, curve=curve)
        mean = float(error.mean())
        if curve.standard_errors is None:
            curve = curve.pooled().joined(ErrorCurve(np.array([choice.stop]), np.array([mean])))
        # targets share their rows, so their errors are correlated: standard errors are averaged
        return replace(choice, error=mean, standard_error=float(spread.mean()), curve=curve)


class _Stage(NamedTuple):
    """The last of some stops, and a function of stops up to it, like that of a :class:`_Curve`.

    ``is_quick`` says whether it takes no pass over the rows.
    """

    last: float
    heights: Callable[[Array, Places], Floats]
    is_quick: bool = True


@dataclass(frozen=True, eq=False)
class _Curve:
    """Left-out errors of a method on a grid, and in ``stages`` those between its stops.

    The errors, (n_stops, n_columns), are those of every target, or a column with their mean.
    """

    problem: Problem
    stops: Array
    errors: Array
    stages: list[_Stage]

    @property
    def least(self) -> float:
        """The least mean error on the grid."""
        return float(self.errors.mean(axis=1).min())

    @property
    def fine(self) -> float:
        """The distance of stops at which every dip shows, if so many are quick to compute."""
        if not all(stage.is_quick for stage in self.stages):
            return np.inf
        return fine_stops(self.problem.spectrum, self.problem.filter)

    def heights(self, points: Array, columns: Places) -> Floats:
        """Return errors at stops, (n_points, n_brackets), each of the column of its bracket."""
        if len(self.stages) == 1:
            return self.stages[0].heights(points, columns)
        out: Any = np.full(points.shape, np.inf)
        first = 0.0
        for last, heights, _ in self.stages:
            inside = (points > first) & (points <= last)
            if inside.any():
                out = np.where(inside, heights(points, columns), out)
            first = last
        return out

    def warn_of_the_last_stop(self) -> None:
        """Warn if the least error is that of the last stop, beyond which nothing is known."""
        if np.isinf(self.stops[-1]):
            return
        means = self.errors.mean(axis=1)
        power = float(np.mean(self.problem.spectrum.target_power))
        if EXACT_FIT * power < means[-1] < IMPROVED * means[:-1].min(initial=np.inf):
            last_stop_warning("loo error", self.problem.method, float(self.stops[-1]))


class _Family(NamedTuple):
    """Methods at the stops of a search for a largest eigenvalue of one, and a span of all."""

    stops: list[Array]
    gains: list[Array]
    span: Span
    coordinates: list[Array]


@lru_cache(maxsize=64)
def _family(methods: tuple[Filter, ...], depth: int, *, early: bool) -> _Family | None:
    """Return what a search on the default grids needs; None if the ladder does not serve.

    It is in units of the largest eigenvalue, and kept, since it is the same for all data of about
    the same condition number. With ``early`` the span holds filters at stops before the first one.
    """
    stops = [unit_stops(method, depth) for method in methods]
    gains = [one.largest_gain(own) for one, own in zip(methods, stops, strict=True)]
    gain = max(float(own[-1]) for own in gains)
    ladder = Ladder.down_to(UNLEARNED / max(gain, UNLEARNED), 1.0)
    columns = []
    for method, own in zip(methods, stops, strict=True):
        # a few powers of a stop close to zero hold all of them
        before = own[0] * np.array([0.0, 0.01, 0.1] * early) ** (1 / method.time_power)
        columns.append(values_at(ladder, method, np.append(own, before), np.ones(1))[0])
    values = np.hstack(columns)
    if not ladder.serves(values):
        return None
    span = Span.of(ladder, values)
    coordinates = [span.filters.T @ own for own in columns]
    return _Family(stops, gains, span, coordinates)


@dataclass(frozen=True)
class _Search:
    """A search for the least errors, of every target or in the mean, on grids of some size."""

    size: int | None
    per_target: bool

    def curves(self, problems: list[Problem], later: float = 1.0) -> list[_Curve]:
        """Return the error curves of all methods up to stops that the spectrum can be trusted with.

        The last gain is ``later`` by this factor than that of the default grid.
        """
        smooth = [one for one in problems if one.filter.scale_free and not one.filter.oscillates]
        together = self._together(smooth, later) if smooth and self.size is None else {}
        return [together.get(one.method) or self._alone(one, later) for one in problems]

    def _alone(self, problem: Problem, later: float) -> _Curve:
        """Return the curve of one method, by the ladder if it serves all stops, else in stages.

        Later stages follow while ridge of the same gain is nearly as good as it ever is, or the
        limit of the path better than all stops.
        """
        left_out = self._left_out(problem)
        method = problem.filter
        grid = self._grid(problem, later)
        if isinstance(method, Iteration):
            method.check_convergence(left_out.largest * float(left_out.rows.scales.max()))
        served = ladder_for(method, grid, left_out.rows.scales, left_out.largest)
        # the errors of a method that is a sum of a few ridges at every stop need no contour
        few = left_out.rows.has_one_scale and isinstance(method, SumOfRidges)
        in_stages = served is None and not few
        latest = self._latest_good_gain(problem) if in_stages else np.inf
        phase = phases(problem, grid)
        reach = 32.0 if in_stages else np.inf
        stages: list[_Stage] = []
        # the two ends are known to every look
        ends = np.array([0.0, np.inf])
        limits: Any = None
        errors = np.empty((0, left_out.rows.data.n_targets if self.per_target else 1))
        while len(errors) < len(grid):
            # each stage begins at the last stop of the one before, so that no bracket is cut
            start = max(len(errors) - 1, 0)
            count = max(int(np.searchsorted(phase, reach, side="right")), len(errors) + 1)
            own = grid[start:count]
            if in_stages:
                served = left_out.contour(method, own)
                if served is None:
                    # the eigenvalues without each row serve all later stops
                    own = grid[start:]
            stage, errors_at = self._stage(problem, served, own, phase[start:count])
            stages.append(stage)
            found = errors_at(own)[len(errors) - start :]
            limits = errors_at(ends) if limits is None else limits
            better = found.min(axis=0) <= IMPROVED * errors.min(axis=0, initial=np.inf)
            errors = np.concatenate([errors, found])
            # while the limit of the path is better than all stops, later ones will be too
            passed = IMPROVED * errors.min(axis=0) <= limits[1]
            if not better.any() and passed.all() and float(method.gain(0.0, own[-1])) > latest:
                break
            reach *= 3
        stops = _with_ends(problem, grid[: len(errors)])
        errors = np.concatenate([limits[:1], errors, limits[1:]])[: len(stops)]
        return _Curve(problem, stops, errors, stages)

    def _stage(
        self, problem: Problem, served: Served | None, stops: Array, phase: Array
    ) -> tuple[_Stage, Callable[[Array], Floats]]:
        """Return a stage of some stops, and a function with errors at these and at the ends.

        On a contour both come from one look, and otherwise every call is a pass over the rows.
        """
        last = float(stops[-1])
        if served is None:
            passes = partial(self._heights, problem)
            return _Stage(last, passes, is_quick=False), partial(self.errors, problem)
        method = problem.filter
        contour, scales = served
        dense = np.union1d(stops, _between(method, stops, phase))
        span = Span.of_scales(contour, values_at(contour, method, dense, scales.all))
        look = self._left_out(problem).look(
            span, scales, {method: last}, per_target=self.per_target
        )
        return _Stage(last, partial(look.errors_between, method)), partial(look.errors_at, method)

    def _grid(self, problem: Problem, later: float) -> Array:
        """Return the stops of a method between the ends that the spectrum can be trusted with."""
        power = problem.filter.time_power
        grid = stops_to_try(problem, self.size)[0]
        grid = grid[(grid > 0) & np.isfinite(grid)]
        # without a heavy row, eigenvalues may be larger by its scale, so that all happens earlier
        earliest = grid[0] / self._left_out(problem).rows.scales.max() ** (1 / power)
        count = int(np.log(grid[0] / earliest) / np.log(LARGEST_RATIO))
        early = np.geomspace(earliest, grid[0], count + 1)[:count]
        if problem.tuned.whole_stops:
            early = np.unique(np.round(early[early >= 1]))
        grid = np.union1d(early, grid)
        end = grid[-1] * later ** (1 / power)
        while grid[-1] < end and (more := later_stops(problem, float(grid[-1]))).size:
            grid = np.concatenate([grid, more])
        return grid[: max(_trusted(problem, grid), 1)]

    def _left_out(self, problem: Problem) -> LeftOut:
        """Return the residuals of every target, or of fewer that have the same mean square."""
        return problem.left_out if self.per_target else problem.left_out.pooled

    def _together(self, problems: list[Problem], later: float) -> dict[Method, _Curve]:
        """Return the curves of methods that share a ladder, or none if it does not serve all."""
        left_out = self._left_out(problems[0])
        spectrum = problems[0].spectrum
        methods = tuple(one.filter for one in problems)
        far = TRUST * spectrum.accuracy.gain
        # a method without a row sees eigenvalues larger by its scale: the first stop is for
        # the largest scale, and the last one for the smallest
        scales = left_out.rows.present_scales
        unit = left_out.largest * float(scales.max())
        spread = float(scales.max() / scales.min())
        depth = depth_of(spectrum, far) + int(np.ceil(np.log(later * spread) / RUNG))
        family = _family(methods, depth, early=spread > 1)
        if family is None:
            return {}
        grids = {}
        for method, stops in zip(methods, family.stops, strict=True):
            grids[method] = stops / unit ** (1 / method.time_power)
        last = {method: float(stops[-1]) for method, stops in grids.items()}
        span = family.span.scaled(left_out.largest)

        def values(scales: Array) -> Array:
            # a few stops tell how fast the filters change with the scale of a row
            few = [values_at(span.contour, one, own[::8], scales) for one, own in grids.items()]
            return np.concatenate(few, axis=2)

        nodes = Scales.of(values, scales)
        if nodes is None:
            return {}
        look = left_out.look(span, nodes, last, per_target=self.per_target)
        found = {}
        for problem, gains, own in zip(problems, family.gains, family.coordinates, strict=True):
            method = problem.filter
            count = max(int(np.searchsorted(gains, far * unit, side="right")), 1)
            grid = _with_ends(problem, grids[method][:count])
            if spread == 1:
                inside = between_ends(method, grid)
                errors = look.errors(with_ends(own[:, :count], grid, inside)[None])
            else:
                errors = look.errors_at(method, grid)
            heights = partial(look.errors_between, problem.filter)
            found[problem.method] = _Curve(problem, grid, errors, [_Stage(np.inf, heights)])
        return found

    def _heights(self, problem: Problem, points: Array, columns: Places) -> Floats:
        """Return errors of a method that no look has, as :meth:`Look.errors_between` does."""
        stops, places = np.unique(points, return_inverse=True)
        return self.errors(problem, stops)[places.reshape(points.shape), columns]

    def errors(self, problem: Problem, stops: Array) -> Floats:
        """Return left-out errors at these stops, (n_stops, n_columns), by a pass over the rows."""
        left_out = self._left_out(problem)
        found = left_out.errors(problem.filter, stops, standard_errors=False).errors
        return self._columns(found.reshape(len(stops), -1))

    def _columns(self, errors: Floats) -> Floats:
        """Return the errors to minimise: those of every target, or their mean."""
        return errors if self.per_target else errors.mean(axis=1, keepdims=True)

    def _latest_good_gain(self, problem: Problem) -> float:
        """Return the largest gain at which ridge is within 2 % of its least error."""
        (curve,) = self._together([replace(problem, method=Ridge())], 1.0).values()
        good = (curve.errors <= 1.02 * curve.errors.min(axis=0)).any(axis=1)
        return float(curve.stops[good][-1])

    def may_improve_later(self, curve: _Curve) -> bool:
        """Tell whether the best method may have a better stop after its last one.

        After the last stop errors differ from that of least squares by less than they did in the
        last step, or over the last oscillations. No stop gains more over least squares than its
        variance, about rank/n of the error, and an error of rounding has no better stop.
        """
        problem = curve.problem
        spectrum = problem.spectrum
        stops = curve.stops
        errors = curve.errors
        least = errors.min(axis=0)
        improves = errors[-1] == least
        if np.isinf(stops[-1]):
            oscillates = problem.filter.oscillates
            late = stops[:-1] >= (stops[-2] / 2 if oscillates else stops[-3])
            swing = np.abs(errors[:-1][late] - errors[-1]).max(axis=0)
            # a last stop that is better than all others is beside a dip, which may be flat
            falls = (errors[-2] == least) & (least < IMPROVED * errors[-3])
            improves = falls | (errors[-1] - swing < IMPROVED * least)
            improves &= spectrum.rank / spectrum.n_observations > 1 - IMPROVED
            if not oscillates:
                # one dip is enough for a smooth curve: it is at the end, or has been passed
                improves &= errors[-2:].min(axis=0) == least
        exact = least <= EXACT_FIT * np.mean(spectrum.target_power)
        return bool(np.any(improves & ~exact))

    def needs_more_digits(self, spectrum: Spectrum, errors: Floats) -> bool:
        """Tell whether the least error may lie at a later stop than products of X allow for.

        ``errors`` are those of (n_stops, n_targets) up to the last stop that they allow for.
        """
        if np.isinf(spectrum.accuracy.gain) or spectrum.solver == "svd":
            return False
        errors = self._columns(errors)
        if np.any(np.argmin(errors, axis=0) == len(errors) - 1):
            return True
        # Mallows' Cp: directions that are not learned yet are worth learning if their response has
        # more than twice the power of noise
        hidden = spectrum.eigenvalues * (TRUST * spectrum.accuracy.gain) < 1
        noise = errors.min(axis=0) / spectrum.n_observations
        power = self._columns(spectrum.energies()[0][hidden].sum(axis=0)[None])[0]
        return bool(np.any(power > 2 * np.count_nonzero(hidden) * noise))


def _ridge_gcv(spectrum: Spectrum) -> Floats:
    """Return the error of ridge at stops that products of X allow for, by the spectrum alone."""
    far = TRUST * spectrum.accuracy.gain
    if np.isinf(far):
        return np.empty((0, 1))
    stops = unit_stops(Ridge(), depth_of(spectrum, far)) / float(spectrum.eigenvalues[-1])
    return gcv_errors(spectrum, Ridge(), np.append(0.0, stops[stops <= far]))


def _with_ends(problem: Problem, stops: Array) -> Array:
    """Return the stops with zero and, if errors can be trusted there, infinity."""
    ends_there = problem.filter.reaches_least_squares and not problem.tuned.whole_stops
    trusted = np.isinf(problem.spectrum.accuracy.gain) and ends_there
    return np.concatenate([[0.0], stops, [np.inf] if trusted else []])


def _between(method: Filter, stops: Array, phases: Array) -> Array:
    """Return iterations so close that a span of their filters holds those between them too."""
    if not method.whole_stops:
        return stops  # a grid of a flow is as close
    # half a radian of the fastest oscillation apart, and not more than a thousand
    count = min(int(np.ceil((phases[-1] - phases[0]) / 0.5)) + 2, 1000)
    close = np.linspace(float(phases[0]), float(phases[-1]), count)
    return np.unique(np.round(np.interp(close, phases, stops)))


def _trusted(problem: Problem, stops: Array) -> int:
    """Return at how many of the stops errors from this spectrum are accurate."""
    far = TRUST * problem.spectrum.accuracy.gain
    if np.isinf(far):
        return len(stops)
    return int(np.count_nonzero(problem.filter.largest_gain(stops) <= far))


def _with_more_digits(problems: list[Problem]) -> list[Problem]:
    """Return the problems with a spectrum for every stop, or as far as there is one."""
    first = problems[0]
    try:
        spectrum = first.reaching(np.inf).spectrum
    except ReachError:
        spectrum = first.data.spectrum(Want((), solver="svd"))
    return [replace(one, spectrum=spectrum) for one in problems]


def _warn_of_lost_columns(problem: Problem, choice: Choice) -> None:
    """Warn if a column that is too small to be resolved explains some of the residuals."""
    residuals = np.asarray(on_host(problem.left_out_residuals(choice)), np.float64)
    residuals = residuals.reshape(len(residuals), -1)
    lost, powers = lost_columns(rows_of(problem.data), residuals)
    # by Mallows' Cp again, each column by itself
    noise = np.mean(residuals**2) / problem.spectrum.n_observations
    hidden = lost[powers > 2 * len(lost) * noise]
    if hidden.size:
        warn_user(
            f"Column {int(hidden[0])} of X is too small beside the largest one to be resolved, and "
            "seems to matter: rescale the columns, for example with StandardScaler, or give "
            'penalty_matrix="standardise".',
            StopWarning,
        )
