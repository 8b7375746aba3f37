"""The rule of the best guarantee: the stop equivalent to the estimated best ridge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.curve import ErrorCurve
from stoptime.stopping.grid import stops_to_try
from stoptime.stopping.rule import Choice, Rule
from stoptime.support.arrays import Array
from stoptime.support.wording import rounded_up
from stoptime.theory.calibration import calibrate_to, possible_eigenvalues
from stoptime.theory.oracle import Oracle, resolved_oracle

if TYPE_CHECKING:
    from stoptime.stopping.problem import Problem


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


def _expected(problem: Problem, oracle: Oracle, stops: Array) -> Array:
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
        f"at most {rounded_up(found.inflation)} times its Bayes risk"
    )
    return found.stop, message
