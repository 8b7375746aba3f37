"""Folds in lockstep: the loss of held-out rows after every step, and the step where it is least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_array, check_consistent_length

from stoptime.logistic.rows import Places, Rows, Tested
from stoptime.methods.averages import Wrapped
from stoptime.methods.recurrence import Recurrence
from stoptime.methods.schedules import LONGEST_SEARCH
from stoptime.spectrum.kinds import DTYPES, checked_device, classes_of, finite_tensor, kind_of
from stoptime.support.arrays import array_namespace, as_dtype, is_device_array
from stoptime.support.progress import progress

Score = Callable[[list[list[Tested]]], tuple[float, float]]  # error and its standard error


@dataclass
class CrossEntropyPlan:
    """When to stop a run: the errors of held-out rows after 0, 1, 2, ... iterations."""

    method: Any
    coef: Any = None  # of the run on all rows at the stop, as in Rows
    iterations: int = 0
    errors: Any = field(default_factory=list)
    standard_errors: Any = field(default_factory=list)
    ended: str = ""  # why, if not because the errors had risen for long

    @property
    def error(self) -> float:
        """The least error."""
        return float(self.errors[self.iterations])

    @property
    def finished(self) -> bool:
        """Whether the errors had risen in the end; otherwise a longer run may be better."""
        return not self.ended

    def add(self, error: float, deviation: float, coef: Any) -> None:
        """Add the errors after one more step, with the coefficients of the run on all rows."""
        # a gain of less than a thousandth of the standard error, if there is one, is none
        least = 1e-3 * deviation if deviation > 0 else 0.0
        if not self.errors or error < self.error - least:
            self.iterations, self.coef = len(self.errors), coef
        self.errors.append(error)
        self.standard_errors.append(deviation)

    def __str__(self) -> str:
        text = (
            f"{self.method}: stop after {self.iterations} iterations, with a log loss of held-out "
            f"rows of {self.error:.4f} ± {self.standard_errors[self.iterations]:.4f}."
        )
        if self.iterations == 0:
            text += " No step helps: it is too long, or the columns say nothing of the classes."
        return text if self.finished else f"{text} It still falls there: plan a longer run."

    def plot(self, ax: Any = None) -> Any:
        """Draw the error of held-out rows against the iterations, and the stop."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.held_out(self.errors, self.standard_errors, self.iterations, ax)


def plan_cross_entropy(X: Any, y: Any, method: Any) -> CrossEntropyPlan:
    """Plan the run of ``torch.nn.Linear`` from zero on the rows as they are, with five folds."""
    X, classes, places = checked(X, y)
    splits = list(StratifiedKFold(5).split(np.zeros((len(places), 1)), places))
    rows = Rows(X, places, len(classes), splits, centred=False)
    return search(rows, method, int(min(method.horizon, LONGEST_SEARCH)))


def checked(X: Any, y: Any, check: Any = check_array) -> tuple[Any, Any, Places]:
    """Return rows of a floating type, the classes, and the class of each row.

    A tensor stays on its device, where half precision becomes single precision.
    """
    if kind_of(X) in {"stream", "operator", "rows"} and not hasattr(X, "__array__"):
        raise TypeError(
            f"Cross-entropy needs rows in memory; got {type(X).__name__}. StoppedClassifierCV "
            "takes such data."
        )
    classes, places = classes_of(y)
    if is_device_array(X):
        xp = array_namespace(X)
        is_small = xp.isdtype(X.dtype, "real floating") and X.dtype != xp.float64
        X, _ = checked_device(as_dtype(X, xp.float32) if is_small else X, places)
        return finite_tensor(X), classes, places
    X = check(X, dtype=DTYPES, accept_sparse="csr")
    check_consistent_length(np.empty((X.shape[0], 0)), places)
    return X, classes, places


def iteration_of(method: Any) -> Recurrence:
    """Return the iteration in a method that can be run step by step."""
    inner = method
    while isinstance(inner, Wrapped) and getattr(inner, "kind", "") != "tail":
        inner = inner.method
    if not isinstance(inner, Recurrence):
        raise ValueError(  # noqa: TRY004 - a method is legal
            f"Cross-entropy is fitted step by step, and {method} cannot be run so: take "
            '"nesterov", "gradient-descent", "heavy-ball", one of them with weight decay, or '
            'their "polyak" or "exponential" average.'
        )
    return inner


def search(rows: Rows, method: Any, max_iter: int, score: Score | None = None) -> CrossEntropyPlan:
    """Return the run of a method with the least error at some step.

    The error is the log loss, or the negative mean score of the folds. A step "auto" is 1/L. L is
    first the largest curvature at the start; a run that meets a larger one, as probabilities move
    away from the shares of the classes, is repeated with twice that L, at most up to a bound. If
    the best step is among the first three, then these were too long: the run is repeated with steps
    of a third of the time, three times at most.
    """
    iteration_of(method)  # raises where it cannot be run
    automatic = getattr(method, "step", None) == "auto"
    if automatic:
        method = method.with_step(1 / rows.curvature() if rows.largest > 0 else 1.0)
    if not method.is_tuned:
        # an automatic momentum needs the smallest eigenvalue too, without that of no intercept
        size = rows.mean.shape[0] + (rows.constant > 0)
        gram = rows.times_gram(np.eye(rows.mean.shape[0] + 1))[:size, :size]
        eigenvalues = np.linalg.eigvalsh(gram)
        method = method.tuned_to(np.maximum(eigenvalues, 0.0) * rows.curvature() / rows.largest)
    runs: list[CrossEntropyPlan] = []
    while True:
        # no row has a curvature of more than a half, so that such a step needs no check
        latest = _run(rows, method, max_iter, score, automatic and method.step * rows.largest > 2)
        if latest.ended == "curvature":
            method = method.with_step(max(method.step / 2, 2 / rows.largest))
            continue
        runs.append(latest)
        fine = latest.iterations > 3 or latest.ended or len(runs) > 3
        if fine or not automatic:
            return min(runs, key=lambda one: one.error) if rows.test_total else latest
        method = method.with_step(method.step / 3**method.time_power)


def _run(
    rows: Rows, method: Any, max_iter: int, score: Score | None, is_checked: bool
) -> CrossEntropyPlan:
    """Run until the error of held-out rows has risen for long, or for all steps without folds.

    A checked run also ends where its curvature exceeds that for which its step is made. Ctrl-C
    keeps the best step so far.
    """
    iteration = iteration_of(method)
    # half-way from the curvature for which the step is made to where a run diverges
    largest = (1 + iteration.limit) / 2 / iteration.epsilon
    # oscillations of a constant momentum do not become slower, so that errors fall again
    patience = 2.0 if getattr(iteration, "momentum", None) else 0.25
    has_folds = rows.test_total > 0
    found = CrossEntropyPlan(method, ended="max_iter")
    start = rows.start()
    taken: Any = None
    before: Any = None  # where the last gradient was taken, and its value

    def gradient(ahead: Any) -> Any:
        nonlocal taken
        # one pass over the rows gives the gradients, and the errors of what is shown
        taken = ahead, *rows.gradient(ahead, shown, keep=score is not None)
        slope = iteration.epsilon * taken[1]
        if rows.centred:
            # a free intercept does not decay
            slope[..., -1] -= method.update(k + 1).pull * (ahead - start)[..., -1]
        return slope

    run = method.steps(gradient, start)
    shown = next(run)
    try:
        # with folds, one more pass over the rows says how good the last step is
        for k in progress(range(max_iter + has_folds), f"{method.name}, steps"):
            following = next(run)
            ahead, slope, *losses, logits = taken
            if has_folds:
                error, deviation = losses if score is None else score(logits)
                found.add(error, deviation, shown[-1])
                if k > (1 + patience) * found.iterations + 20 * patience:
                    found.ended = ""
                    break
            if (
                is_checked
                and k
                and _curvature(ahead - before[0], slope - before[1], ahead) > largest
            ):
                found.ended = "curvature"
                break
            before = ahead, slope
            shown = following
    except KeyboardInterrupt:
        if not found.errors:
            raise
        found.ended = "interrupt"
    if not has_folds:
        found.iterations, found.coef = max_iter, shown[-1]
    found.errors = np.array(found.errors)
    found.standard_errors = np.array(found.standard_errors)
    return found


def _curvature(move: Any, rise: Any, point: Any) -> float:
    """Return the largest curvature of the loss along a move to a point, over all runs."""
    xp = array_namespace(move)
    # the logits of the first class are minus the sum of the others, and move as well
    moved = move + xp.sum(move, axis=1, keepdims=True)
    squares = xp.sum(move * moved, axis=(1, 2))
    # where coefficients hardly move, the rounding of gradients would look like a curvature
    still = squares <= 1e-10 * xp.sum(point * point, axis=(1, 2))
    rises = xp.sum(moved * rise, axis=(1, 2))
    return float(xp.max(xp.where(still, 0 * rises, rises / (squares + still))))
