"""Rules that look at the fit to all rows: SURE, discrepancy, L-curve, NCP and the plug-in rule."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft
from scipy.optimize import brentq

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.rows import target_units
from stoptime.methods.adaptive import Adaptive
from stoptime.methods.base import Filter, as_filter
from stoptime.methods.registry import get_method
from stoptime.paths import Drawing
from stoptime.spectrum.accuracy import ReachError
from stoptime.spectrum.data import PILOT
from stoptime.stopping.gcv import shaped
from stoptime.stopping.grid import later_stops, stops_to_try
from stoptime.stopping.rule import EXTENSIONS, Choice, CurveRule, Rule, StopWarning, columns_of
from stoptime.support.arrays import EPS, TINY, Array, Floats, on_host, slices
from stoptime.support.checks import list_of_stops, positive_number
from stoptime.support.user_warnings import warn_user
from stoptime.support.wording import rounded_up
from stoptime.theory.calibration import calibrate_to, possible_eigenvalues
from stoptime.theory.oracle import Oracle, resolved_oracle

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.spectrum.base import Spectrum
    from stoptime.spectrum.data import RowsToTest
    from stoptime.stopping.problem import Problem

BLUNT = np.radians(170)  # an angle above it is no corner


def training_error(spectrum: Spectrum, method: str | Method, stops: ArrayLike) -> Floats:
    r"""Return the mean squared residual of the fit at every stop.

    .. math:: \frac1n\|y - X\hat\beta(t)\|^2 = R + \sum_i \frac{z_i^2}{s_i} g(s_i, t)^2

    with R the mean square of the response outside the column space. Methods without a filter have
    the coefficients of their path in place of (1 - g)z/s. Parameters and result are those of
    :func:`stoptime.path_gcv`.
    """
    energy, outside = spectrum.energies()
    tuned = get_method(method).tuned_to(spectrum.padded_eigenvalues)
    stops = list_of_stops(stops)
    if isinstance(tuned, Filter):
        g = tuned.shrinkage(spectrum.eigenvalues[:, None], stops)
        return shaped((g**2).T @ energy + outside, spectrum)
    s = spectrum.eigenvalues[:, None, None].astype(np.float64)
    z = spectrum.response.reshape(len(s), 1, energy.shape[1]).astype(np.float64)
    if isinstance(tuned, Adaptive):
        coef = tuned.coefficients_at(spectrum, stops)
        fit = np.einsum("pr,tpq->rtq", on_host(spectrum.vectors), coef)
    else:
        fit = tuned.follow(s[:, 0, 0], z[:, 0], stops, s[:0, 0, 0])[0]
    left = (z - s * fit) / np.sqrt(s)
    return shaped((left**2).sum(axis=0) + outside, spectrum)


def _noise(given: float | None, problem: Problem) -> Floats:
    """Return σ² for every target."""
    shape = problem.spectrum.response.shape[1:]
    if given is not None:
        return np.broadcast_to(positive_number("noise", given), shape)
    # a Krylov space that was grown for conjugate gradients resolves no penalty
    filtered = isinstance(problem.method, Filter)
    spectrum = problem.spectrum if filtered else problem.data.spectrum(PILOT)
    return np.broadcast_to(resolved_oracle(problem.data, spectrum)[0].noise, shape)


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
        noise = np.atleast_1d(_noise(self.noise, problem))
        optimism = 2 / problem.spectrum.n_observations * _freedom(problem, stops) * noise
        errors = training_error(problem.spectrum, problem.tuned, stops)
        return ErrorCurve(stops, errors + shaped(optimism, problem.spectrum))


def _freedom(problem: Problem, stops: Array) -> Floats:
    """Return the degrees of freedom, of shape (n_stops, 1) or (n_stops, n_targets)."""
    tuned, spectrum = problem.tuned, problem.spectrum
    if isinstance(tuned, Adaptive):
        return tuned.freedom_at(spectrum, stops).reshape(len(stops), -1)
    s, weights = spectrum.atoms
    freedom = (weights * s) @ as_filter(tuned).gain(s[:, None], stops)
    return freedom[:, None] + spectrum.n_unpenalised


@dataclass(frozen=True)
class Discrepancy(Rule):
    r"""Stop as soon as the training error is down to the noise variance.

    .. math:: \min\bigl\{t : \tfrac1n\|y - X\hat\beta(t)\|^2 \le \tau\sigma^2\bigr\}

    The ``noise`` σ² is estimated by marginal likelihood if it is not given; ``safety`` is τ, and a
    larger value stops earlier. Iterations are looked at one by one. Of a flow, the crossing before
    the first stop of the grid with such an error is taken. The error of an accelerated flow
    oscillates, and the grid has eight stops an oscillation: a dip between two stops does not count.

    Where the training error exceeds the noise at every finite stop, or the noise is zero up to
    rounding, the rule warns and takes the last stop: least squares, at infinity, if it is known.
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
        problem = problem.reaching(grid)
        goals = _goals(problem.spectrum, levels, per_target=per_target)
        curve = ErrorCurve(grid, training_error(problem.spectrum, problem.tuned, grid))
        for _ in range(0 if given else EXTENSIONS):
            finite = np.isfinite(curve.stops)
            missing = (columns_of(curve, per_target=per_target)[finite] > goals).all(axis=0)
            later = later_stops(problem, float(curve.stops[finite][-1]))
            if not (missing.any() and later.size):
                break
            try:
                problem = problem.reaching(later)
            except ReachError:
                break  # a warning below says that the last stop is taken
            grid = np.union1d(curve.stops, later)
            curve = ErrorCurve(grid, training_error(problem.spectrum, problem.tuned, grid))

        def errors(stops: Array) -> Floats:
            found = training_error(problem.spectrum, problem.tuned, stops)
            return columns_of(ErrorCurve(stops, found), per_target=per_target)

        # least squares, at infinity, has crossed no level; but it may be given
        counts = np.isfinite(curve.stops) | given
        down = (columns_of(curve, per_target=per_target) <= goals) & counts[:, None]
        stop = np.full(len(levels), curve.stops[-1])
        for target in np.flatnonzero(down.any(axis=0)):
            place = int(down[:, target].argmax())
            stop[target] = curve.stops[place]
            if place > 0 and not given:
                bracket = curve.stops[place - 1 : place + 1]
                excess = partial(_excess, errors, levels[target], int(target))
                stop[target] = _crossing(problem, excess, *bracket)
        if not down.any(axis=0).all():
            warn_user(
                f"The training error never falls to the noise, {levels.max():.3g}, at a finite "
                f"stop: the last stop, {curve.stops[-1]:.4g}, is used. Check the noise, give "
                'later stops, or use rule="loo".',
                StopWarning,
            )
        error = np.diagonal(errors(stop))
        message = f"first stop with a training error of at most the noise, {levels.max():.4g}"
        if per_target and curve.errors.ndim == 2:
            return Choice(stop, error, curve, None, message)
        return Choice(float(stop[0]), float(error[0]), curve, None, message)


def _goals(spectrum: Spectrum, levels: Floats, *, per_target: bool) -> Floats:
    """Return the levels, and NaN, which nothing is down to, for those that no stop can reach."""
    outside, power = spectrum.energies()[1], spectrum.target_power.astype(np.float64)
    if not per_target:
        outside, power = outside.mean(), power.mean()
    # what least squares leaves is a difference of two sums of squares, which round at about 1e-15
    possible = (levels > 1e-13 * power) & ((levels >= outside) | (not spectrum.accuracy.complete))
    return np.where(possible | (levels >= power), levels, np.nan)


def _excess(errors: Any, level: float, target: int, stops: ArrayLike) -> Floats:
    return np.asarray(errors(np.atleast_1d(stops))[:, target] - level)


def _crossing(problem: Problem, excess: Any, low: float, high: float) -> float:
    """Return where the training error falls to the level, between two stops of the grid."""
    method = problem.tuned
    if method.whole_stops and (not isinstance(method, Filter) or method.oscillates):
        # the error may be down to the level, and rise again, before any stop of the grid
        numbers = np.arange(1, high)
        for part in slices(len(numbers), 2**22 // max(problem.spectrum.rank, 1)):  # 32 MB at once
            down = excess(numbers[part]) <= 0
            if down.any():
                return float(numbers[part][down.argmax()])
        return high
    if method.whole_stops:
        between = range(int(low) + 1, int(high))
        return float(int(low) + 1 + bisect_left(between, True, key=lambda k: excess(k)[0] <= 0))
    # an error that is computed alone may differ by rounding from that of the whole grid
    if not excess(low)[0] > 0 > excess(high)[0]:
        return high
    # stops are of any size, so that only the relative accuracy counts
    return float(brentq(lambda stop: excess(stop)[0], low, high, xtol=TINY, rtol=1e-12))


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
        ratio = 2.0 ** (2 / problem.tuned.time_power)
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
        # every singular value that is learned alone makes a small step, which is no corner: sides
        # much shorter than a tenth, in units of the logarithm, hardly count
        angles[inner] = np.pi - turn * lengths / (lengths + 0.1)
        return ErrorCurve(stops, shaped(angles, problem.spectrum))

    def _lowest(self, curve: ErrorCurve, *, per_target: bool) -> Choice:
        """Return the choice of the sharpest corner, and warn if there is none."""
        choice = super()._lowest(curve, per_target=per_target)
        if np.max(choice.error) > BLUNT:
            warn_user(
                "The L-curve has no corner: its sharpest angle is "
                f"{np.degrees(np.max(choice.error)):.0f} degrees. The stop means little.",
                StopWarning,
            )
        return choice

    def _extensions(self, problem: Problem) -> int:
        """Return how often the search goes on, to about the same penalty for all methods."""
        return 2 * EXTENSIONS // problem.method.time_power

    def _is_unsettled(self, problem: Problem, curve: ErrorCurve) -> bool:
        """Tell whether the corner may lie beyond the last stop, where no limit is known."""
        if problem.spectrum.has_limit:
            return False
        errors = curve.pooled().errors
        sharpest = errors.min()
        # the less sharp a corner is, the farther the search has to go on without a sharper one
        distance = np.inf if sharpest > np.radians(175) else 4.0 if sharpest <= BLUNT else 16.0
        distance **= 1 / problem.method.time_power
        return bool(curve.stops[np.argmin(errors)] > curve.stops[-1] / distance)


def _points(problem: Problem, stops: Array) -> Floats:
    """Return logarithms of residual and coefficient norms, (2, n_stops, n_targets)."""
    spectrum = problem.spectrum
    s = spectrum.eigenvalues.astype(np.float64)
    z = spectrum.response.reshape(len(s), np.size(spectrum.target_power)).astype(np.float64)
    # only differences of logarithms count, and scaled responses do not overflow
    z = z / np.maximum(np.abs(z).max(axis=0, initial=0), TINY)
    parts = slices(max(len(stops), 1), 2**23 // max(z.size, 1))
    followed = (problem.tuned.follow(s, z, stops[part], s[:0])[0] for part in parts)
    lengths = np.concatenate([np.hypot.reduce(one, axis=0) for one in followed])
    errors = training_error(spectrum, problem.tuned, stops).reshape(lengths.shape)
    return np.log(np.maximum([np.sqrt(errors), lengths], TINY))


@dataclass(frozen=True)
class NCP(CurveRule):
    r"""Stop where the periodogram of the residuals is closest to that of white noise.

    .. math:: \min_t \frac1q\sum_{k=1}^q\Bigl|c_k(t) - \frac kq\Bigr|, \qquad
        c_k = \frac{\sum_{j\le k}|\hat r_j|^2}{\sum_{j\le q}|\hat r_j|^2}

    with :math:`\hat r` the Fourier coefficients of the residuals, from low to high frequency. The
    rows must be samples of a signal or pixels of an image, with ``shape`` if they are not a line,
    and their noise must be white; its variance need not be known. The rule fails if the noise is
    correlated, or the signal as rough as the noise. From Hansen, Kilmer, Kjeldsen (2006),
    Exploiting residual information in the parameter choice for discrete ill-posed problems.
    """

    shape: tuple[int, ...] | None = None
    name: ClassVar[str] = "ncp"
    measure: ClassVar[str] = "distance"
    compares_methods: ClassVar[bool] = False
    predicts_new_rows: ClassVar[bool] = False

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Return the distances of the periodograms from that of white noise."""
        every = np.arange(problem.data.shape[0] or 0)
        # all rows are tested by the fit to all of them
        (fold,) = problem.data.folds([(every, every)])
        rows = cast("RowsToTest", fold()[1])
        # a row of weight w has noise of variance 1/w
        root = np.sqrt(rows.weights)[:, None]
        units = target_units(problem.spectrum)
        found = rows.residuals(Drawing(problem.spectrum, problem.tuned), stops)
        parts = [self._distances(root * on_host(some) / units) for _, some in found]
        return ErrorCurve(stops, shaped(np.concatenate(parts), problem.spectrum))

    def _distances(self, residuals: Floats) -> Floats:
        """Return the distance for every stop and target."""
        stops, n, targets = residuals.shape
        shape = (n,) if self.shape is None else tuple(int(size) for size in self.shape)
        if min(shape, default=0) < 1 or int(np.prod(shape)) != n:
            raise ValueError(f"shape must have a product of {n}, the number of rows; got {shape}.")
        grid = residuals.reshape(stops, *shape, targets)
        waves = fft.fftn(grid, axes=range(1, 1 + len(shape))).reshape(stops, n, targets)
        # from low to high frequency, without the constant
        frequencies = np.meshgrid(*(fft.fftfreq(size) for size in shape), indexing="ij")
        order = np.argsort(sum(one**2 for one in frequencies).ravel(), kind="stable")[1:]
        sums = np.cumsum(np.abs(waves[:, order]) ** 2, axis=1)
        total = sums[:, -1:]
        # residuals that are rounding errors of the response are white too
        seen = total > (n * 1e4 * EPS) ** 2
        white = np.arange(1, n)[:, None] / (n - 1)
        distances = np.abs(sums / np.where(seen, total, 1.0) - white).mean(axis=1)
        return np.where(seen[:, 0], distances, 1.0)


@dataclass(frozen=True)
class PlugIn(Rule):
    """Stop where the guarantee against ridge with the estimated best penalty is best.

    The curve is the error that the estimated noise and signal imply. From an array of stops, the
    one with the least such error is chosen; otherwise the stop is
    :func:`stoptime.equivalent_stop` of the estimated penalty.
    """

    name: ClassVar[str] = "plug-in"
    predicts_new_rows: ClassVar[bool] = False
    _uses_trace: ClassVar[bool] = True

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick one stop for all targets; see :meth:`Rule.choose`."""
        if per_target:
            raise ValueError(
                'rule="plug-in" has one stop for all targets: use rule="loo" with per_target.'
            )
        grid, given = stops_to_try(problem, stops)
        oracle, spectrum = resolved_oracle(problem.data, problem.spectrum)
        problem = replace(problem, spectrum=spectrum)
        curve = ErrorCurve(grid, _expected(problem, oracle, grid))
        message = f"least expected error of {len(grid)} stops"
        stop = float(grid[np.argmin(curve.errors)])
        if not given:
            stop, message = _best_guarantee(problem, oracle.penalty)
        error = float(_expected(problem, oracle, np.array([stop]))[0])
        return Choice(stop, error, curve, None, message)


def _expected(problem: Problem, oracle: Oracle, stops: Array) -> Floats:
    """Return noise plus in-sample Bayes risk, σ² + (r²/p) Σ sg² + (σ²/n) Σ s²φ²."""
    spectrum = problem.spectrum
    noise = float(np.mean(oracle.noise))
    s, weights = (values.astype(np.float64, copy=False) for values in spectrum.atoms)
    g = problem.filter.shrinkage(s[:, None], stops)
    gain = problem.filter.gain(s[:, None], stops)
    variance = noise / spectrum.n_observations
    if oracle.penalty > 0:
        # (r²/p)s by way of the penalty, because r² itself may overflow
        powers = variance * (s / oracle.penalty)
    else:
        z = spectrum.response.reshape(spectrum.rank, -1).astype(np.float64)
        lengths = np.hypot.reduce(z / spectrum.eigenvalues[:, None], axis=0)
        powers = np.mean(np.multiply.outer(np.sqrt(s), lengths) ** 2, axis=1) / spectrum.n_penalised
    bias = (weights * powers) @ g**2
    return np.asarray(noise + bias + variance * (weights @ (s[:, None] * gain) ** 2))


def _best_guarantee(problem: Problem, penalty: float) -> tuple[float, str]:
    """Return the stop equivalent to ridge with the penalty, and its guarantee in words."""
    if penalty == 0:
        return np.inf, "no noise was detected"
    if penalty == np.inf:
        return 0.0, "no signal was detected"
    found = calibrate_to(
        problem.filter, penalty, eigenvalues=possible_eigenvalues(problem.spectrum)
    )
    message = (
        f"equivalent to ridge with the estimated best penalty, {penalty:.3g}: "
        f"at most about {rounded_up(found.inflation)} times its Bayes risk"
    )
    return found.stop, message
