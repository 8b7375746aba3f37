"""The training error, and the rules that use it: SURE, the discrepancy principle, the L-curve."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from stoptime.left_out.curve import ErrorCurve
from stoptime.methods.registry import get_method
from stoptime.spectrum import features
from stoptime.spectrum.accuracy import ReachError
from stoptime.stopping.gcv import shaped
from stoptime.stopping.grid import later_stops, stops_to_try

from stoptime.stopping.rule import (  # isort: skip
    EXTENSIONS, Choice, CurveRule, CurveSearch, Rule, StopWarning, columns_of,
)  # fmt: skip
from stoptime.support.arrays import TINY, Array, Floats, on_host, slices
from stoptime.support.checks import list_of_stops, positive_number
from stoptime.theory.oracle import resolved_oracle

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.spectrum.base import Spectrum
    from stoptime.stopping.problem import Problem

SAME_SIGN_PHASE = np.pi / 2  # t√s between stops: zeros of a shrinkage are farther apart
FINEST_PHASE = 2.0**-10  # t√L between stops: a dip in between is no deeper than a millionth
CROSSING_NUMBERS = 2**18  # of the shrinkages that are computed together
MOST_WHOLE = 2_000_000  # iterations that are looked at one by one
MOST_ROUNDS = 400  # of them for one response: a few seconds
LEAP = 16.0  # ratio of stops beyond the last finite one
CORNER_RATIO = 2.0  # of the stops between which the curve turns, for methods of the second order
SHORT_SIDE = 0.1  # of an angle, in units of the logarithm: shorter ones count less
BLUNT = np.radians(170)  # an angle above it is no corner
STRAIGHT = np.radians(175)  # an angle above it may be a curve before its corner
CORNER_NUMBERS = 2**23  # coefficients that are held at once


def training_error(spectrum: Spectrum, method: str | Method, stops: ArrayLike) -> Array:
    r"""Return the mean squared residual of the fit at every stop.

    .. math:: \frac1n\|y - X\hat\beta(t)\|^2 = R + \sum_i \frac{z_i^2}{s_i} g(s_i, t)^2

    with R the mean square of the response outside the column space. Methods without a filter have
    the coefficients of their path in place of (1 - g)z/s. Parameters and result are those of
    :func:`stoptime.path_gcv`.
    """
    energy, outside = spectrum.energies()
    tuned = get_method(method).tuned_to(spectrum.padded_eigenvalues)
    stops = list_of_stops(stops)
    if not tuned.sees_features:
        return shaped(tuned.unlearned(spectrum.eigenvalues, energy, stops) + outside, spectrum)
    s = spectrum.eigenvalues[:, None, None].astype(np.float64)
    coef = features.coefficients(spectrum, tuned, stops)
    fit = np.einsum("pr,tpq->rtq", on_host(spectrum.vectors), coef)
    z = spectrum.response.reshape(len(s), 1, fit.shape[2])
    left = (z - s * fit) / np.sqrt(s)
    return shaped((left**2).sum(axis=0) + outside, spectrum)


@dataclass(frozen=True)
class Descent:
    """The training error of one response, outside + Σ energy·g², as a function of the stop."""

    method: Method
    s: Array
    energy: Floats
    outside: float
    level: float

    def excess(self, stops: Floats) -> Array:
        """Return by how much the training error exceeds the level."""
        learning = self.method.unlearned(self.s, self.energy[:, None], stops)[:, 0]
        return np.asarray(learning + (self.outside - self.level))

    def first_crossing(self, stops: Floats) -> float:
        """Return the first crossing of the level at or between ascending stops; NaN if none."""
        if self.outside > self.level:
            return np.nan  # what no stop can learn is too much
        crossed = self.excess(stops) <= 0
        first = int(crossed.argmax()) if crossed.any() else len(stops)
        if first == 0 or not self.method.has_filter or not self.method.oscillates:
            # the error falls monotonically: there is no crossing except between these two stops
            return self._first_of_falling(stops[max(first - 1, 0) : first + 1], first)
        before = stops[: first + 1]
        if self.method.whole_stops:
            return self._first_of_whole(int(before[np.isfinite(before)][-1]))
        if np.isinf(before[-1]):
            leaps = self._leaps(float(before[-2]))
            before = np.concatenate([before[:-2], leaps[np.isfinite(leaps)]])
        return self._first_of_oscillating(before)

    def _first_of_falling(self, ends: Floats, first: int) -> float:
        """Return the crossing between two stops, if the first of them that is crossed exists."""
        if first == 0 or len(ends) < 2:
            return float(ends[0]) if first == 0 else np.nan
        if not self.method.whole_stops:
            ends = ends if np.isfinite(ends[1]) else self._leaps(float(ends[0]))[-2:]
            return self._root(float(ends[0]), float(ends[1]))
        between = np.arange(ends[0] + 1, ends[1])
        crossed = bisect_left(between, True, key=lambda k: self.excess(np.array([k]))[0] <= 0)
        return float(ends[0] + 1 + crossed)

    def _first_of_whole(self, last: int) -> float:
        """Look at every iteration up to the last one: one run costs little more than its end."""
        numbers = np.arange(1.0, min(last, MOST_WHOLE) + 1)
        height = max(1, CROSSING_NUMBERS // max(len(self.s), 1))
        start = 0
        for g, _ in self.method.filters(self.s, numbers, height):
            crossed = self.energy @ g**2 + (self.outside - self.level) <= 0
            if crossed.any():
                return float(numbers[start + int(crossed.argmax())])
            start += g.shape[1]
        # beyond so many iterations an earlier crossing may be missed
        return float(last) if self.excess(np.array([float(last)]))[0] <= 0 else np.nan

    def _leaps(self, last: float) -> Array:
        """Return stops that end where the error is down to the level, which infinity is."""
        stops = [last, max(LEAP * last, TINY)]
        while self.excess(np.array(stops[-1:]))[0] > 0 and np.isfinite(stops[-1]):
            stops.append(LEAP * stops[-1])
        return np.array(stops)

    def _root(self, low: float, high: float) -> float:
        """Return the crossing in a bracket."""
        if np.isinf(high):
            return high
        # the bracket may span many decades, so only the relative error counts
        options = {"xtol": TINY, "rtol": 1e-12, "maxiter": 5000}
        return float(brentq(lambda t: float(self.excess(np.array([t]))[0]), low, high, **options))

    def _first_of_oscillating(self, stops: Floats) -> float:
        """Halve, from the left, the intervals in which the error may fall to the level."""
        open_ = self._lowest(stops[:-1], stops[1:]) <= 0
        low, high = stops[:-1][open_], stops[1:][open_]
        crossing = stops[-1] if self.excess(stops[-1:])[0] <= 0 else np.inf
        width = max(1, CROSSING_NUMBERS // max(len(self.s), 1))
        for _ in range(MOST_ROUNDS):
            if not len(low) or self._is_fine(low[:1], high[:1])[0]:
                break
            ends, rest = (low[:width], high[:width]), np.array([low[width:], high[width:]])
            middle = ends[0] / 2 + ends[1] / 2
            crossing = min([crossing, *middle[self.excess(middle) <= 0]])
            halves = np.concatenate([[ends[0], middle], [middle, ends[1]]], axis=1)
            # a fine interval stays open only if the error is down to the level at its end
            open_ = (self._lowest(*halves) <= 0) & (halves[0] < crossing)
            open_ &= ~self._is_fine(*halves) | (halves[1] == crossing)
            later = low[width:] < crossing
            low, high = np.concatenate(
                [halves[:, open_][:, np.argsort(halves[0][open_])], rest[:, later]], axis=1
            )
        if np.isinf(crossing):
            return np.nan
        bracket = low[high == crossing]
        return self._root(float(bracket[-1]), float(crossing)) if len(bracket) else float(crossing)

    def _is_fine(self, low: Floats, high: Floats) -> NDArray[np.bool_]:
        """Tell which intervals are too short to be halved again."""
        return np.asarray(self._phase(self.s[-1:, None], low, high)[0] <= FINEST_PHASE)

    def _phase(self, s: Floats, low: Floats, high: Floats) -> Array:
        power = self.method.order / 2
        return np.asarray(np.sqrt(s) * (high**power - low**power))

    def _lowest(self, low: Floats, high: Floats) -> Array:
        """Return lower bounds of the excess between pairs of stops."""
        ends = [self.method.shrinkage(self.s[:, None], end) for end in (low, high)]
        # g solves g'' + cg' + sg = 0 with c ≥ 0. Where g' = 0 it bends towards zero, so that
        # between two zeros |g| is least at the ends; across a zero nothing is known
        same = self._phase(self.s[:, None], low, high) <= SAME_SIGN_PHASE
        least = np.where(same & (ends[0] * ends[1] > 0), np.minimum(*np.abs(ends)), 0.0)
        return np.asarray(self.energy @ least**2 + (self.outside - self.level))


def _noise(given: float | None, problem: Problem) -> Floats:
    """Return σ² for every target."""
    if given is None:
        # a Krylov space that was grown for conjugate gradients resolves no penalty
        spectrum = problem.spectrum if problem.method.has_filter else problem.data.pilot()
        noise = resolved_oracle(problem.data, spectrum)[0].noise
    else:
        noise = positive_number("noise", given)
    return np.broadcast_to(noise, problem.spectrum.response.shape[1:])


@dataclass(frozen=True)
class SURE(CurveRule):
    r"""Stein's unbiased estimate of the prediction error, also known as Mallows' Cp.

    .. math:: \frac1n\|y - X\hat\beta(t)\|^2 + \frac{2\sigma^2}{n}\,\mathrm{df}(t)

    The ``noise`` σ² is estimated by marginal likelihood if it is not given. For Adam and its
    relatives df is the trace of the derivative of the fit, which is exact but does not see jumps:
    the sign of a first gradient close to zero, which a small change of y turns round.
    """

    noise: float | None = None
    name: ClassVar[str] = "sure"
    predicts_new_rows: ClassVar[bool] = False
    _uses_trace: ClassVar[bool] = True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        spectrum = problem.spectrum
        s, weights = spectrum.atoms
        noise = _noise(self.noise, problem)
        if not problem.tuned.exact_freedom:
            problem.tuned.require_filter()
        freedom: Floats
        if problem.tuned.has_filter:
            freedom = (weights * s) @ problem.tuned.gain(s[:, None], stops) + spectrum.n_unpenalised
        else:
            freedom = features.freedom(spectrum, problem.tuned, stops)
        shared = freedom.reshape(len(stops), *(1,) * noise.ndim) if freedom.ndim == 1 else freedom
        optimism = 2 / spectrum.n_observations * shared * noise
        return ErrorCurve(stops, training_error(spectrum, problem.tuned, stops) + optimism)


@dataclass(frozen=True)
class Discrepancy(Rule):
    r"""Stop as soon as the training error is down to the noise variance.

    .. math:: \min\bigl\{t : \tfrac1n\|y - X\hat\beta(t)\|^2 \le \tau\sigma^2\bigr\}

    The ``noise`` σ² is estimated by marginal likelihood if it is not given; ``safety`` is τ, and a
    larger value stops earlier.
    """

    noise: float | None = None
    safety: float = 1.0
    name: ClassVar[str] = "discrepancy"
    measure: ClassVar[str] = "training error"
    compares_methods: ClassVar[bool] = False
    predicts_new_rows: ClassVar[bool] = False

    @property
    def needs_trace(self) -> bool:
        """Whether the noise is not given: its estimate needs all eigenvalues."""
        return self.noise is None

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the first stop with a training error down to the noise; see :meth:`Rule.choose`."""
        grid, given = stops_to_try(problem, stops)
        level = positive_number("safety", self.safety) * _noise(self.noise, problem)
        levels = np.atleast_1d(level if per_target else level.mean())
        problem, curve = _followed(
            problem.reaching(grid), grid, levels, 0 if given else EXTENSIONS, per_target=per_target
        )
        reached = columns_of(curve, per_target=per_target) <= levels
        stop = np.where(reached.any(axis=0), curve.stops[reached.argmax(axis=0)], np.nan)
        if not given and problem.tuned.sees_features:
            # one run gives every step
            steps = _training_curve(problem, np.arange(curve.stops[-1] + 1))
            reached = columns_of(steps, per_target=per_target) <= levels
            stop = np.where(reached.any(axis=0), reached.argmax(axis=0), np.nan)
        elif not given:
            s = problem.spectrum.eigenvalues.astype(np.float64)
            energy, outside = problem.spectrum.energies()
            if not per_target:
                energy = energy.mean(axis=1, keepdims=True)
                outside = outside.mean(keepdims=True)
            columns = zip(energy.T, outside.tolist(), levels.tolist(), strict=True)
            descents = [Descent(problem.tuned, s, *column) for column in columns]
            stop = np.array([one.first_crossing(curve.stops) for one in descents])
        if np.isnan(stop).any():
            warnings.warn(
                f"The training error never falls to the noise, {levels.max():.3g}: the last stop "
                "is used. Give later stops, or check the noise.",
                StopWarning,
                stacklevel=2,
            )
            stop = np.where(np.isnan(stop), curve.stops[-1], stop)
        error = np.diagonal(columns_of(_training_curve(problem, stop), per_target=per_target))
        message = f"first stop with a training error of at most the noise, {levels.max():.4g}"
        if per_target and curve.errors.ndim == 2:
            return Choice(stop, error, curve, None, message)
        return Choice(float(stop[0]), float(error[0]), curve, None, message)


def _training_curve(problem: Problem, stops: Floats) -> ErrorCurve:
    return ErrorCurve(stops, training_error(problem.spectrum, problem.tuned, stops))


def _followed(
    problem: Problem, grid: Array, levels: Floats, extensions: int, *, per_target: bool
) -> tuple[Problem, ErrorCurve]:
    """Return the residuals at the stops, and at later ones until they fall to the levels."""
    curve = _training_curve(problem, grid)
    # the grid ends at infinity where this limit is known
    for _ in range(0 if problem.spectrum.has_limit else extensions):
        if (columns_of(curve, per_target=per_target) <= levels).any(axis=0).all():
            break
        later = later_stops(problem, float(grid[-1]))
        try:
            problem = problem.reaching(later)
        except ReachError:
            # the caller warns that the last stop is taken
            break
        grid = np.append(grid, later)
        curve = _training_curve(problem, grid)
    return problem, curve


@dataclass(frozen=True)
class LCurve(CurveRule):
    r"""Stop at the corner of the curve of residual norm and coefficient norm, in logarithms.

    .. math:: \min_t \angle\bigl(P(t/c), P(t), P(ct)\bigr), \qquad
        P(t) = \bigl(\log\|y - X\hat\beta(t)\|, \log\|\hat\beta(t)\|\bigr)

    with c = 2 where the stop scales like 1/√penalty, and its square where it scales like 1/penalty.
    The noise need not be known. The rule often stops late, warns if there is no corner, and as the
    noise falls to zero its stop does not converge to the best one. From Hansen, O'Leary (1993), The
    use of the L-curve in the regularization of discrete ill-posed problems.
    """

    name: ClassVar[str] = "l-curve"
    measure: ClassVar[str] = "angle"
    compares_methods: ClassVar[bool] = False
    predicts_new_rows: ClassVar[bool] = False

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the angles of the curve at the stops, in radians; π where it goes straight on."""
        ratio = CORNER_RATIO ** (2 / problem.tuned.order)
        inner = np.flatnonzero((stops > 0) & np.isfinite(stops))
        sides = [stops[inner] / ratio, stops[inner], stops[inner] * ratio]
        if problem.tuned.whole_stops:
            sides = [np.floor(sides[0]), sides[1], np.ceil(sides[2])]
        places, own = np.unique(np.concatenate(sides), return_inverse=True)
        problem = problem.reaching(places)
        before, here, after = _points(problem, places)[:, own.reshape(3, -1)].swapaxes(0, 1)
        # where the curve begins and where it ends there is no corner
        angles = np.full((len(stops), *here.shape[2:]), 2 * np.pi)
        # paths that oscillate double back: what makes the fit worse, or coefficients smaller, is
        # left out, so that a cusp is no corner
        both = here - before, after - here
        (x0, y0), (x1, y1) = ((np.minimum(x, 0), np.maximum(y, 0)) for x, y in both)
        # the curve runs to the left and then, after the corner, upwards: a turn to the right
        turn = np.arctan2(y0 * x1 - x0 * y1, x0 * x1 + y0 * y1)
        lengths = np.minimum(np.hypot(x0, y0), np.hypot(x1, y1))
        # every singular value that is learned alone makes a small step, which is no corner
        angles[inner] = np.pi - turn * lengths / (lengths + SHORT_SIDE)
        return ErrorCurve(stops, shaped(angles, problem.spectrum))

    def _lowest(self, curve: ErrorCurve, *, per_target: bool) -> Choice:
        """Return the choice of the sharpest corner, and warn if there is none."""
        choice = super()._lowest(curve, per_target=per_target)
        if np.max(choice.error) > BLUNT:
            warnings.warn(
                "The L-curve has no corner: its sharpest angle is "
                f"{np.degrees(np.max(choice.error)):.0f} degrees. The stop means little.",
                StopWarning,
                stacklevel=4,
            )
        return choice

    def _search(self, problem: Problem, grid: Array, per_target: bool) -> CornerSearch:
        return CornerSearch(self, problem, grid, per_target)


class CornerSearch(CurveSearch):
    """The search for the corner of an L-curve, which may lie far beyond the best stop."""

    @property
    def extensions(self) -> int:
        """How often the search may go on: up to about the same penalty for all methods."""
        # the corner is where noise is fitted, and with little noise that is late
        return 2 * EXTENSIONS // self.problem.method.order

    def unsettled(self, columns: Floats) -> bool:
        """Tell whether the corner may lie beyond the last stop, where no limit is known."""
        if self.problem.spectrum.has_limit:
            return False
        sharpest = columns.min(axis=0)
        # the less sharp a corner is, the farther the search has to go on without a sharper one
        distance = np.select([sharpest <= BLUNT, sharpest <= STRAIGHT], [4.0, 16.0], np.inf)
        distance **= 1 / self.problem.method.order
        stops = self.curve.stops
        with np.errstate(invalid="ignore"):  # nothing lies beyond stop zero, the only one
            return bool(np.any(distance * stops[np.argmin(columns, axis=0)] > stops[-1]))


def _points(problem: Problem, stops: Array) -> Floats:
    """Return logarithms of residual and coefficient norms, (2, n_stops, n_targets)."""
    spectrum = problem.spectrum
    s = spectrum.eigenvalues.astype(np.float64)
    z = spectrum.response.reshape(len(s), np.size(spectrum.target_power)).astype(np.float64)
    # only differences of logarithms count, and scaled responses do not overflow
    z = z / np.maximum(np.abs(z).max(axis=0, initial=0), TINY)
    parts = slices(max(len(stops), 1), CORNER_NUMBERS // max(z.size, 1))
    followed = (problem.tuned.follow(s, z, stops[part], s[:0])[0] for part in parts)
    lengths = np.concatenate([np.hypot.reduce(one, axis=0) for one in followed])
    errors = training_error(spectrum, problem.tuned, stops).reshape(lengths.shape)
    return np.log(np.maximum([np.sqrt(errors), lengths], TINY))
