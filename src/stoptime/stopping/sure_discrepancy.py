"""Rules that look at the fit itself: the discrepancy principle and SURE."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from stoptime.left_out.curve import ErrorCurve
from stoptime.methods.base import Method
from stoptime.methods.recurrence import closer_stops
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.krylov.spaces import KrylovLimitError
from stoptime.stopping.growing import resolved_oracle
from stoptime.stopping.problem import Problem, energies, shaped
from stoptime.stopping.rule import (
    EXTENSIONS,
    Choice,
    CurveRule,
    Rule,
    StopWarning,
    columns_of,
    later_stops,
    stops_to_try,
)
from stoptime.support.arrays import Array, Floats
from stoptime.support.checks import list_of_stops, positive_number

__all__ = ["SURE", "Discrepancy", "training_error"]


def training_error(spectrum: Spectrum, method: str | Method, stops: ArrayLike) -> Array:
    r"""Return the mean squared residual of the fit at every stop.

    .. math:: \frac1n\|y - X\hat\beta(t)\|^2 = R + \sum_i \frac{z_i^2}{s_i} g(s_i, t)^2

    with R the mean square of the response outside the column space.

    Parameters
    ----------
    spectrum : Spectrum
        The factorised data.
    method : Method or str
        What draws the path.
    stops : array-like of shape (n_stops,)
        Where.

    Returns
    -------
    array of shape (n_stops,) or (n_stops, n_targets)
    """
    energy, outside = energies(spectrum)
    tuned = get_method(method).tuned_to(spectrum.padded_eigenvalues)
    g = tuned.shrinkage(spectrum.eigenvalues[:, None], list_of_stops(stops))
    return shaped((g**2).T @ energy + outside, spectrum)


def _noise(given: float | None, problem: Problem) -> Floats:
    """Return σ² for every target."""
    noise = resolved_oracle(problem)[0].noise if given is None else positive_number("noise", given)
    return np.broadcast_to(noise, problem.spectrum.response.shape[1:])


@dataclass(frozen=True)
class SURE(CurveRule):
    r"""Stein's unbiased estimate of the prediction error, also known as Mallows' Cp.

    .. math:: \frac1n\|y - X\hat\beta(t)\|^2 + \frac{2\sigma^2}{n}\,\mathrm{df}(t)

    Parameters
    ----------
    noise : float, optional
        σ²; estimated by marginal likelihood if it is not given.
    """

    noise: float | None = None
    name: ClassVar[str] = "sure"

    @property
    def needs_trace(self) -> bool:
        """The degrees of freedom are a trace."""
        return True

    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""
        spectrum = problem.spectrum
        s, weights = spectrum.atoms
        freedom = (weights * s) @ problem.tuned.gain(s[:, None], stops) + spectrum.fit_intercept
        optimism = (
            2 / spectrum.n_observations * np.multiply.outer(freedom, _noise(self.noise, problem))
        )
        return ErrorCurve(stops, training_error(spectrum, problem.tuned, stops) + optimism)


@dataclass(frozen=True)
class Discrepancy(Rule):
    r"""Stop when the fit is as far from the response as the noise is.

    .. math:: \min\bigl\{t : \tfrac1n\|y - X\hat\beta(t)\|^2 \le \tau\sigma^2\bigr\}

    Parameters
    ----------
    noise : float, optional
        σ²; estimated by marginal likelihood if it is not given.
    safety : float, default=1.0
        The τ above; more stops earlier.
    """

    noise: float | None = None
    safety: float = 1.0
    name: ClassVar[str] = "discrepancy"

    @property
    def needs_trace(self) -> bool:
        """Noise that is not given is estimated from all eigenvalues."""
        return self.noise is None

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the first stop at which the residual is down to the noise; see :meth:`Rule.choose`."""
        grid, given = stops_to_try(problem, stops)
        level = positive_number("safety", self.safety) * _noise(self.noise, problem)
        level = level if per_target else level.mean()
        extensions = 0 if given else EXTENSIONS
        problem, curve = _followed(
            problem.reaching(grid), grid, level, extensions, per_target=per_target
        )
        columns = columns_of(curve, per_target=per_target)
        levels = np.broadcast_to(level, columns.shape[1])
        reached = columns <= levels
        if not reached.any(axis=0).all():
            warnings.warn(
                f"The residual never falls to the noise, {levels.max():.3g}: the last stop is taken. "
                "Give later stops, or check the noise.",
                StopWarning,
                stacklevel=2,
            )
        first = np.where(reached.any(axis=0), reached.argmax(axis=0), len(columns) - 1)
        stop = curve.stops[first]
        if not given:
            targets = enumerate(zip(first, levels, strict=True))
            stop = np.array(
                [_crossing(problem, curve.stops, *one, k, per_target) for k, one in targets]
            )
        residuals = training_error(problem.spectrum, problem.tuned, stop).reshape(len(stop), -1)
        error = np.diagonal(residuals) if per_target else residuals.mean(axis=1)
        message = f"first stop with a residual of at most the noise, {levels.max():.4g}"
        if per_target and curve.errors.ndim == 2:
            return Choice(stop, error, curve, None, message)
        return Choice(float(stop[0]), float(error[0]), curve, None, message)


def _followed(
    problem: Problem, grid: Array, level: Floats, extensions: int, *, per_target: bool
) -> tuple[Problem, ErrorCurve]:
    """Return the residuals at the stops, and later while those of a Krylov space are above the level."""
    curve = ErrorCurve(grid, training_error(problem.spectrum, problem.tuned, grid))
    for _ in range(0 if problem.spaces is None else extensions):
        if (columns_of(curve, per_target=per_target) <= level).any(axis=0).all():
            break
        later = later_stops(problem, float(grid[-1]))
        try:
            problem = problem.reaching(later)
        except KrylovLimitError:  # a warning will say that the last stop is taken
            break
        grid = np.append(grid, later)
        curve = ErrorCurve(grid, training_error(problem.spectrum, problem.tuned, grid))
    return problem, curve


def _crossing(
    problem: Problem, grid: Floats, first: int, level: float, target: int, per_target: bool
) -> float:
    """Refine the first crossing between two grid points."""

    def residuals(stops: ArrayLike) -> Array:
        errors = training_error(problem.spectrum, problem.tuned, stops)
        errors = errors.reshape(len(errors), -1)
        return errors[:, target] if per_target else errors.mean(axis=1)

    if first == 0 or residuals(grid[first])[0] > level:
        return float(grid[first])
    if problem.tuned.whole_stops:
        inner = np.append(closer_stops(grid[first - 1 : first + 1], np.array([0])), grid[first])
        return float(inner[np.argmax(residuals(inner) <= level)])
    return _root(
        lambda stop: float(residuals(stop)[0] - level), float(grid[first - 1]), float(grid[first])
    )


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return where a falling function crosses zero; the bracket may span any decades, and end at infinity."""
    tiny = float(np.finfo(np.float64).tiny)
    if np.isinf(high):
        high = max(low, tiny)
        while excess(high) > 0:
            low, high = high, 16 * high
    return (
        high
        if np.isinf(high)
        else float(brentq(excess, low, high, xtol=tiny, rtol=1e-12, maxiter=5000))
    )
