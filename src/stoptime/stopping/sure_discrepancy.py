"""Rules that use the training error: the discrepancy principle and SURE."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from stoptime.left_out.curve import ErrorCurve
from stoptime.methods.recurrence import closer_stops
from stoptime.methods.registry import get_method
from stoptime.spectrum import features
from stoptime.spectrum.accuracy import ReachError
from stoptime.stopping.gcv import shaped
from stoptime.stopping.grid import later_stops, stops_to_try
from stoptime.stopping.rule import EXTENSIONS, Choice, CurveRule, Rule, StopWarning, columns_of
from stoptime.support.arrays import TINY, Array, Floats
from stoptime.support.checks import list_of_stops, positive_number
from stoptime.theory.oracle import resolved_oracle

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.spectrum.base import Spectrum
    from stoptime.stopping.problem import Problem


def training_error(spectrum: Spectrum, method: str | Method, stops: ArrayLike) -> Array:
    r"""Return the mean squared residual of the fit at every stop.

    .. math:: \frac1n\|y - X\hat\beta(t)\|^2 = R + \sum_i \frac{z_i^2}{s_i} g(s_i, t)^2

    with R the mean square of the response outside the column space. Methods without a filter have
    the coefficients of their path in place of (1 - g)z/s. Parameters and result are those
    of :func:`stoptime.path_gcv`.
    """
    energy, outside = spectrum.energies()
    tuned = get_method(method).tuned_to(spectrum.padded_eigenvalues)
    stops = list_of_stops(stops)
    if tuned.has_filter:
        g = tuned.shrinkage(spectrum.eigenvalues[:, None], stops)
        return shaped((g**2).T @ energy + outside, spectrum)
    s = spectrum.eigenvalues[:, None, None].astype(np.float64)
    fit = features.fitted(spectrum, tuned, stops)
    z = spectrum.response.reshape(len(s), 1, fit.shape[2])
    left = (z - s * fit) / np.sqrt(s)
    return shaped((left**2).sum(axis=0) + outside, spectrum)


def _noise(given: float | None, problem: Problem) -> Floats:
    """Return σ² for every target."""
    if given is None:
        noise = resolved_oracle(problem.data, problem.spectrum)[0].noise
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
    compares_methods: ClassVar[bool] = False

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
        if not reached.any(axis=0).all():
            warnings.warn(
                f"The training error never falls to the noise, {levels.max():.3g}: the last stop "
                "is used. Give later stops, or check the noise.",
                StopWarning,
                stacklevel=2,
            )
        first = np.where(reached.any(axis=0), reached.argmax(axis=0), len(reached) - 1)
        stop = curve.stops[first]
        if not given:
            crossing = partial(_crossing, problem, curve.stops, per_target=per_target)
            stop = np.array([crossing(*one) for one in enumerate(zip(first, levels, strict=True))])
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
    # the grid of a complete spectrum ends at infinity
    for _ in range(0 if problem.spectrum.is_complete else extensions):
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


def _crossing(
    problem: Problem, grid: Floats, target: int, crossed: tuple[int, float], *, per_target: bool
) -> float:
    """Refine the first crossing of a level between two grid points."""
    first, level = crossed

    def excess(stops: ArrayLike) -> Array:
        curve = _training_curve(problem, np.atleast_1d(stops))
        return np.asarray(columns_of(curve, per_target=per_target)[:, target] - level)

    high = float(grid[first])
    if first == 0 or excess(high)[0] > 0:
        return high
    if problem.tuned.whole_stops:
        inner = np.append(closer_stops(grid[first - 1 : first + 1], np.array([0])), high)
        return float(inner[np.argmax(excess(inner) <= 0)])
    low = float(grid[first - 1])
    if np.isinf(high):
        # a finite bracket is found by large steps from the last finite stop
        high = max(low, TINY)
        while excess(high)[0] > 0:
            low = high
            high = 16 * high
    if np.isinf(high):
        return high
    # the bracket may span many decades, so only the relative error counts
    root = brentq(lambda t: float(excess(t)[0]), low, high, xtol=TINY, rtol=1e-12, maxiter=5000)
    return float(root)
