"""Rules that use the training error: the discrepancy principle and SURE."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.curve import ErrorCurve
from stoptime.spectrum import features
from stoptime.spectrum.accuracy import ReachError
from stoptime.stopping.crossing import Descent, training_error
from stoptime.stopping.grid import later_stops, stops_to_try
from stoptime.stopping.rule import EXTENSIONS, Choice, CurveRule, Rule, StopWarning, columns_of
from stoptime.support.arrays import Array, Floats
from stoptime.support.checks import positive_number
from stoptime.theory.oracle import resolved_oracle

if TYPE_CHECKING:
    from stoptime.stopping.problem import Problem


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
        stop = np.where(reached.any(axis=0), curve.stops[reached.argmax(axis=0)], np.nan)
        if not given and problem.tuned.sees_features:
            # one run gives every step
            steps = _training_curve(problem, np.arange(curve.stops[-1] + 1))
            reached = columns_of(steps, per_target=per_target) <= levels
            stop = np.where(reached.any(axis=0), reached.argmax(axis=0), np.nan)
        elif not given:
            descents = _descents(problem, levels, per_target=per_target)
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


def _descents(problem: Problem, levels: Floats, *, per_target: bool) -> list[Descent]:
    """Return the training errors to follow: those of every target, or their mean."""
    energy, outside = problem.spectrum.energies()
    if not per_target:
        energy = energy.mean(axis=1, keepdims=True)
        outside = outside.mean(keepdims=True)
    s = problem.spectrum.eigenvalues.astype(np.float64)
    columns = zip(energy.T, outside, levels, strict=True)
    return [Descent(problem.tuned, s, own, float(rest), float(to)) for own, rest, to in columns]


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
