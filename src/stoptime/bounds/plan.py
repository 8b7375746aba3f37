"""Planned runs: the stop whose largest ratio to ridge is least, and what random batches cost."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from stoptime.bounds.certificates import proven_guarantee
from stoptime.methods.recurrence import Iteration, Recurrence, at_stops
from stoptime.spectrum.base import Spectrum
from stoptime.support.arrays import EPS, Array
from stoptime.theory import calibration
from stoptime.theory.limits import marchenko_pastur
from stoptime.theory.oracle import estimate_oracle
from stoptime.theory.search import affordable, eigenvalue_grid, risk_ratio
from stoptime.theory.stochastic import SpectrumSource


@dataclass(frozen=True)
class BatchCost:
    """What random batches cost a run, over the full gradient and on one spectrum.

    ``cost`` is the Bayes risk over that of the full gradient after as many steps, infinite where
    the run diverges; ``error`` is the same for the squared error of predictions, with the noise.
    ``enough`` is the least power of two that adds at most one per cent, and None
    where that would be as many rows as there are.
    """

    batch_size: int
    cost: float
    error: float
    enough: int | None


@dataclass(frozen=True)
class PlannedRun:
    """One iteration, stopped where its largest ratio to ridge is least."""

    method: Iteration
    iterations: int
    penalty: float
    inflation: float  #: The largest Bayes risk over that of the best ridge.
    expected_inflation: float | None  #: The ratio on the given spectrum, if known.
    eigenvalues: tuple[float, float]  #: The range of eigenvalues for which the bound holds.
    expected_error: float | None = None  #: The same for predictions, with the noise.
    batches: BatchCost | None = None  #: What random batches cost, if a batch size was given.
    proven: bool = False  #: Whether the inflation is proven, and not the result of a search.

    def largest_ratios(self, penalty: float, iterations: Array) -> Array:
        """Estimate the inflation of other stops on a grid of the same range of eigenvalues."""
        x = eigenvalue_grid(*self.eigenvalues)[:, None] / penalty
        method, stops = affordable(self.method.in_units_of(penalty), iterations)
        return np.asarray(risk_ratio(method, x, stops).max(axis=0))


def planned_run(
    method: Iteration, penalty: float, eigenvalues: Any, *, complete: bool, n_samples: float | None
) -> PlannedRun:
    """Return the run of a method that is stopped where its largest ratio to ridge is least.

    What to expect on these eigenvalues is known if they are ``complete``, and the error of
    predictions with the number of rows.
    """
    if eigenvalues is not None:
        method = method.tuned_to(eigenvalues)
    found = calibration.calibrate_to(method, penalty, eigenvalues=eigenvalues)
    if np.isinf(found.stop):
        raise ValueError(
            f"Penalty {penalty:.3g} is so small that no stop of {method} is close to it: run to "
            "convergence."
        )
    like = calibration.equivalent_penalty(method, found.stop, eigenvalues=eigenvalues)
    expected = error = None
    if eigenvalues is not None and complete:
        exact, stop = affordable(method, found.stop)
        s = np.asarray(eigenvalues, dtype=np.float64)
        # With coordinates of the signal of size one, the penalty λ = σ²/n is the best one.
        risk = exact.shrinkage(s, stop) ** 2 + penalty * s * exact.gain(s, stop) ** 2
        ridge = penalty / (s + penalty)
        expected = float(np.sum(risk) / np.sum(ridge))
        if n_samples is not None:
            noise = penalty * n_samples
            error = float((noise + s @ risk) / (noise + s @ ridge))
    low, high, _ = calibration.range_in_units(method, eigenvalues, 1.0)
    high = min(high, calibration.largest_possible(method)) if eigenvalues is None else high
    k = int(found.stop)
    proven = proven_guarantee(method, k, penalty, (low, high))
    bound = found.inflation if proven is None else proven
    return PlannedRun(
        method, k, like, bound, expected, (low, high), error, proven=proven is not None
    )


def best_penalty(known: Spectrum | Array | None) -> float:
    """Return the best penalty that the data show; refuse where they show none."""
    if not isinstance(known, Spectrum):
        raise ValueError(  # noqa: TRY004 - a value is missing
            "Give the penalty to be matched, or data from which the best one is estimated."
        )
    found = estimate_oracle(known).penalty
    # A far smaller penalty than the smallest eigenvalue means hardly any noise.
    interpolates = known.rank >= known.n_observations - known.n_unpenalised
    if interpolates and found < 1e-3 * known.eigenvalues.min(initial=np.inf):
        raise ValueError(
            "These data have too many columns to tell noise from signal: let left-out rows choose "
            'the number of iterations, StoppedRegressorCV("nesterov").fit(X, y).stop_, or give a '
            "penalty."
        )
    # A penalty below the rounding of the eigenvalues cannot be told from zero.
    least = EPS * known.eigenvalues.max(initial=0.0)
    if least < found < np.inf:
        return found
    missing = "noise: run to convergence" if found <= least else "signal: do not run at all"
    raise ValueError(f"These data show no {missing}, or give a penalty.")


def batch_cost(run: PlannedRun, source: SpectrumSource, size: int) -> BatchCost:
    """Follow the run on batches of this size, and of others until they no longer matter."""
    method: Any = run.method
    known = isinstance(method, Recurrence) and method.follows_flow
    # stride, direct gradient and decay come after momentum, lookahead and weight
    if not known or method.update(2)[3:] != (1.0, 0.0, 0.0):
        raise ValueError(
            f"The cost of batches is known for gradient descent, heavy ball and Nesterov's method "
            f"with a constant step; {method} differs from these."
        )
    s = source.eigenvalues
    method.check_convergence(float(s.max(initial=0)))
    if run.iterations > 50_000:
        raise ValueError(
            f"The cost of batches is computed for at most 50000 iterations, and "
            f"{method} takes {run.iterations}: use a larger step, or a faster method."
        )
    level = source.noise / source.n_samples

    def costs(rows: int) -> tuple[float, float]:
        with np.errstate(over="ignore", invalid="ignore"):
            states = source.steps(method.coefficients, method.epsilon, 0.0, rows)
            state = next(at_stops(states, [run.iterations]))
            full = (1 - s * state.gain) ** 2 + level * s * state.gain**2
            found = float(1 + np.sum(state.covariance) / np.sum(full))
            error = float(1 + s @ state.covariance / (source.noise + s @ full))
        # a run that diverges costs without bound
        return (found, error) if np.isfinite(found + error) else (np.inf, np.inf)

    cost, error = costs(size)
    # The least power of two whose batches add at most one per cent to the risk.
    powers = range(math.ceil(math.log2(source.n_samples)) + 1)
    enough = 2 ** bisect_left(powers, True, key=lambda power: costs(2**power)[0] <= 1.01)
    return BatchCost(size, cost, error, enough if enough < source.n_samples else None)


def isotropic_eigenvalues(n_samples: int, n_features: int) -> Array:
    """Return what the eigenvalues of XᵀX/n are close to, for independent standardised columns."""
    rank = min(n_samples, n_features)
    nodes, weights = marchenko_pastur(n_features / n_samples)
    order = np.argsort(nodes)
    below = np.cumsum(weights[order]) - weights[order] / 2
    found = np.interp((np.arange(rank) + 0.5) / rank * weights.sum(), below, nodes[order])
    return np.concatenate([np.zeros(n_features - rank), found])
