"""Folds in lockstep: the loss of held-out rows after every step, and the step where it is least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stoptime.logistic.rows import Places, Rows
from stoptime.logistic.steps import Steps, is_automatic, with_step
from stoptime.support.arrays import Array, array_namespace
from stoptime.support.progress import progress

Score = Callable[[Places, Array], float]  # of test rows and their logits, of shape (logits, n)


@dataclass
class Run:
    """One run: the errors of held-out rows after 0, 1, 2, ... steps, and the best of them."""

    method: Any
    coef: Any  # of all rows, at the stop
    stop: int = 0
    errors: list[float] = field(default_factory=list)
    standard_errors: list[float] = field(default_factory=list)
    ended: str = ""  # why it ended, if not because the errors had risen for long

    @property
    def error(self) -> float:
        """The least error."""
        return self.errors[self.stop]


def search(rows: Rows, method: Any, max_iter: int, **options: Any) -> Run:
    r"""Return the run of a method with the least error at some step; see :func:`run`.

    A step "auto" is 1/L. L is first the largest curvature at the start; a run that meets a larger
    one, as probabilities move away from the shares of the classes, is repeated with twice that L,
    at most up to a bound. If the best step is the first one, or none, then it was too long: the run
    is repeated with steps of a third of the time, three times at most.
    """
    if not is_automatic(method):
        return run(rows, _tuned(rows, method, 1.0), max_iter, **options)
    bound = rows.largest_curvature()
    curvature = min(rows.curvature(), bound)
    while True:
        checked = curvature < bound
        best = run(rows, _tuned(rows, method, curvature), max_iter, checked=checked, **options)
        if best.ended != "curvature":
            break
        curvature = min(2 * curvature, bound)
    latest = best
    for _ in range(3):
        if not best.errors or latest.stop > 1 or latest.ended:
            break
        finer = with_step(latest.method, latest.method.step / 3**method.time_power)
        latest = run(rows, finer, max_iter, **options)
        best = min(best, latest, key=lambda one: one.error)
    return best


def _tuned(rows: Rows, method: Any, curvature: float) -> Any:
    """Return the method with an automatic step, or momentum, as numbers."""
    if is_automatic(method):
        method = with_step(method, 1 / curvature if curvature > 0 else 1.0)
    if method.is_tuned:
        return method
    # an automatic momentum needs the smallest eigenvalue too
    eigenvalues = np.linalg.eigvalsh(rows.times_gram(np.eye(rows.mean.shape[0] + 1)))
    return method.tuned_to(np.maximum(eigenvalues, 0.0) * rows.curvature() / rows.largest)


def run(
    rows: Rows,
    method: Any,
    max_iter: int,
    *,
    score: Score | None = None,
    at_priors: bool = True,
    verbose: bool = False,
    checked: bool = False,
) -> Run:
    """Run until the error of held-out rows has risen for long, or for all steps without folds.

    The error is the log loss or the negative mean score of the folds. A checked run also ends where
    its curvature exceeds that for which its step is made. Ctrl-C keeps the best step so far.
    """
    steps = Steps(method, rows.start(at_priors))
    found = Run(method, 1 * steps.shown[-1])
    # step times curvature may go half-way from 1, for which it is made, to where a run diverges
    limit = (1 + steps.iteration.limit) / 2 / steps.iteration.epsilon
    before: tuple[Any, Any] | None = None
    try:
        # with folds, one more pass over the rows says how good the last step is
        count = max_iter + bool(rows.test_totals.size)
        for k in progress(range(count), f"{method.name}, steps", verbose):
            ahead = steps.ahead()
            gradient, sums, logits = rows.gradient(ahead, steps.shown, keep=score is not None)
            if rows.test_totals.size:
                error, deviation = _error(rows, sums) if score is None else _scored(score, logits)
                found.errors.append(error)
                found.standard_errors.append(deviation)
                # a gain of less than a thousandth of the standard error is none
                if k == 0 or error < found.error - 1e-3 * np.nan_to_num(deviation):
                    found.stop, found.coef = k, 1 * steps.shown[-1]
                if k > (1 + steps.patience) * found.stop + 20 * steps.patience:
                    return found
            if before is not None and _curvature(*before, ahead, gradient) > limit:
                found.ended = "curvature"
                return found
            before = (1 * ahead, 1 * gradient) if checked else None
            if k < max_iter:
                steps.take(ahead, gradient)
    except KeyboardInterrupt:
        if not found.errors:
            raise
        found.ended = "interrupt"
        return found
    if not rows.test_totals.size:
        found.stop, found.coef = steps.k, steps.shown[-1]
    found.ended = "max_iter"
    return found


def _error(rows: Rows, sums: Array) -> tuple[float, float]:
    """Return the mean log loss of test rows, and its standard error over rows."""
    total = rows.test_totals.sum()
    mean, square = sums.sum(axis=1) / total
    return float(mean), float(np.sqrt(max(square - mean**2, 0.0) / total))


def _scored(score: Score, logits: Any) -> tuple[float, float]:
    """Return the negative mean score of the folds, and its standard error over folds."""
    found = []
    for parts in logits:
        orders, values = zip(*parts, strict=True)
        found.append(-score(np.concatenate(orders), np.concatenate(values, axis=1)))
    spread = np.std(found, ddof=1) if len(found) > 1 else np.nan
    return float(np.mean(found)), float(spread / np.sqrt(len(found)))


def _curvature(old: Any, old_gradient: Any, new: Any, new_gradient: Any) -> float:
    """Return the largest curvature of the loss between two points, over all runs."""
    xp = array_namespace(new)
    move = new - old
    squares = xp.sum(move * move, axis=(1, 2))
    rise = xp.sum(move * (new_gradient - old_gradient), axis=(1, 2))
    # where coefficients hardly move, the rounding of gradients would look like a curvature
    still = squares <= 1e-10 * xp.sum(new * new, axis=(1, 2))
    return float(xp.max(xp.where(still, 0 * rise, rise / (squares + still))))
