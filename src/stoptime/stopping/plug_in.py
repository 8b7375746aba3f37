"""The plug-in rule: noise and signal by marginal likelihood, and the stop that they imply."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.curve import ErrorCurve
from stoptime.methods.ridge import Ridge
from stoptime.spectrum.data import Goal, goals
from stoptime.stopping.grid import stops_to_try
from stoptime.stopping.rule import Choice, Rule
from stoptime.support.wording import rounded_up
from stoptime.theory.calibration import calibrate_to, possible_eigenvalues
from stoptime.theory.oracle import UnresolvedError, estimate_oracle

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.spectrum.base import Spectrum
    from stoptime.spectrum.data import Data
    from stoptime.stopping.problem import Problem
    from stoptime.support.arrays import Array
    from stoptime.theory.oracle import Oracle

REACH_GROWTH = 16.0  # factor of the gain, each time that it does not resolve the best penalty


def resolved_oracle(data: Data, spectrum: Spectrum) -> tuple[Oracle, Spectrum]:
    """Estimate noise and signal; grow the spectrum until it resolves the best penalty."""
    for _ in range(data.growths):
        try:
            return estimate_oracle(spectrum), spectrum
        except UnresolvedError:
            spectrum = data.spectrum([Goal(Ridge(), REACH_GROWTH * spectrum.reach)])
    return estimate_oracle(spectrum), spectrum


def plug_in(data: Data, method: Method) -> tuple[Spectrum, Oracle, float]:
    """Return spectrum, oracle, and the stop with the best guarantee against the best ridge."""
    oracle, spectrum = resolved_oracle(data, data.pilot())
    stop = oracle.stop(method, spectrum)
    accurate = data.spectrum(goals(method, stop))
    if accurate is not spectrum and accurate.is_complete:
        # more accurate eigenvalues may move the stop
        oracle = estimate_oracle(accurate)
        stop = oracle.stop(method, accurate)
    return accurate, oracle, stop


@dataclass(frozen=True)
class PlugIn(Rule):
    """Stop where the method has the best guarantee against the best ridge by marginal likelihood.

    The curve is the error that the estimated noise and signal imply. An array of stops is chosen
    among by that curve; otherwise the stop is :func:`stoptime.equivalent_stop` of the estimated
    penalty.
    """

    name: ClassVar[str] = "plug-in"
    _uses_trace: ClassVar[bool] = True

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick one stop for all targets; see :meth:`Rule.choose`."""
        if per_target:
            raise ValueError(
                'rule="plug-in" shares one stop between targets: use rule="loo" per target.'
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


def _expected(problem: Problem, oracle: Oracle, stops: Array) -> Array:
    """Return noise plus in-sample Bayes risk, σ² + (r²/p) Σ sg² + (σ²/n) Σ s²φ²."""
    spectrum = problem.spectrum
    noise = float(np.mean(oracle.noise))
    s, weights = (values.astype(np.float64, copy=False) for values in spectrum.atoms)
    g = problem.tuned.shrinkage(s[:, None], stops)
    gain = problem.tuned.gain(s[:, None], stops)
    variance = noise / spectrum.n_observations
    if oracle.penalty > 0:
        # (r²/p)s by way of the penalty, because r² itself may overflow
        powers = variance * (s / oracle.penalty)
    else:
        z = spectrum.response.reshape(spectrum.rank, -1).astype(np.float64)
        lengths = np.hypot.reduce(z / spectrum.eigenvalues[:, None], axis=0)
        powers = np.mean(np.multiply.outer(np.sqrt(s), lengths) ** 2, axis=1) / spectrum.n_features
    bias = (weights * powers) @ g**2
    return np.asarray(noise + bias + variance * (weights @ (s[:, None] * gain) ** 2))


def _best_guarantee(problem: Problem, penalty: float) -> tuple[float, str]:
    """Return the stop equivalent to ridge with the penalty, and its guarantee in words."""
    if penalty == 0:
        return np.inf, "no noise was detected"
    if penalty == np.inf:
        return 0.0, "no signal was detected"
    found = calibrate_to(problem.tuned, penalty, eigenvalues=possible_eigenvalues(problem.spectrum))
    message = (
        f"like ridge with the estimated best penalty, {penalty:.3g}: "
        f"at most {rounded_up(found.inflation)} times its Bayes risk"
    )
    return found.stop, message
