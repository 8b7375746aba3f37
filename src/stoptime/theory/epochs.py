"""Epochs: the rows are shuffled, and every row is used once before any is used again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_X_y

from stoptime.support.checks import (  # isort: skip
    fraction_below_one, iteration_numbers, list_of_stops, nonnegative, positive_number,
    whole_number,
)  # fmt: skip
from stoptime.methods.recurrence import MOST_ITERATIONS
from stoptime.support.arrays import Array
from stoptime.support.progress import progress

MOST_BATCHES = 4000  # that an epoch can draw after any others, up to which moments are exact


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Mean and covariance of random iterates at many stops.

    Attributes
    ----------
    stops : array of shape (n_stops,)
        Numbers of steps.
    mean : array of shape (n_stops, n_features)
        Expected coefficients.
    train_error : array of shape (n_stops,)
        Expected training error, E‖y - Xβ‖²/n.
    standard_error : array of shape (n_stops,) or None
        Standard error of ``train_error`` over simulated runs; None where all numbers are exact.
    gram : array of shape (n_features, n_features)
        XᵀX/n.
    basis, spread : arrays of shape (n_features, rank) and (n_stops, rank, rank)
        The covariance in a basis of the row space; see :attr:`covariance`.
    """

    stops: Array
    mean: Array
    train_error: Array
    standard_error: Array | None
    gram: Array
    basis: Array
    spread: Array

    @property
    def covariance(self) -> Array:
        """Covariance of the coefficients, an array of shape (n_stops, n_features, n_features)."""
        return np.asarray(self.basis @ self.spread @ self.basis.T)

    @property
    def is_exact(self) -> bool:
        """Whether no number is an average over simulated runs."""
        return self.standard_error is None

    def estimation_risk(self, coef: ArrayLike) -> Array:
        """Return E‖β - β₀‖² at every stop, for coefficients β₀, given the data."""
        return self.prediction_risk(coef, np.eye(len(self.gram)))

    def prediction_risk(self, coef: ArrayLike, covariance: ArrayLike | None = None) -> Array:
        """Return E(β - β₀)ᵀΣ(β - β₀) at every stop; Σ is XᵀX/n unless given."""
        weight = self.gram if covariance is None else np.asarray(covariance, dtype=np.float64)
        if weight.shape != self.gram.shape:
            raise ValueError(f"covariance must have shape {self.gram.shape}; got {weight.shape}.")
        distance = self.mean - one_per_column("coef", coef, len(self.gram))
        bias = np.einsum("ti,ij,tj->t", distance, weight, distance)
        inner = self.basis.T @ weight @ self.basis
        return np.asarray(bias + np.einsum("tij,ji->t", self.spread, inner))

    def __repr__(self) -> str:
        stops = f"{self.stops[0]:.4g} to {self.stops[-1]:.4g}" if len(self.stops) else "- to -"
        how = "exact" if self.is_exact else "simulated"
        return f"Moments({len(self.stops)} stops from {stops}, {len(self.gram)} features, {how})"


class Setting(NamedTuple):
    """The data, and the numbers of the optimiser."""

    X: Array
    y: Array
    batch_size: int
    step: float
    momentum: float
    decay: float


def epochs(
    X: ArrayLike,
    y: ArrayLike,
    step: float,
    batch_size: int,
    stops: ArrayLike,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    runs: int = 256,
    rng: Any = 0,
) -> Moments:
    """Return mean and covariance of stochastic gradient descent on epochs of shuffled rows.

    Each epoch shuffles the rows and takes them in batches of ``batch_size``; the last batch of an
    epoch may be smaller, as with torch's ``DataLoader(shuffle=True)``. The batches of an epoch
    depend on each other, so that there is no recursion for the covariance alone. For few rows the
    moments are exact: they are propagated for every set of rows that an epoch may have used. For
    more rows they are averages over simulated ``runs``, and ``standard_error`` says how accurate.

    Parameters
    ----------
    X, y, step, batch_size, stops, momentum, weight_decay
        As in :func:`stoptime.theory.stochastic.moments`.
    runs, rng : int, and int or numpy.random.Generator
        Number of simulated runs and what draws their shuffles, where the moments are not exact.

    Examples
    --------
    >>> X = np.array([[1.0], [2.0], [0.5], [-1.0]])
    >>> epochs(X, X[:, 0], 0.1, 2, [2, 4])
    Moments(2 stops from 2 to 4, 1 features, exact)
    """
    rows, response = check_X_y(X, y, dtype=np.float64)
    n, p = rows.shape
    size = min(whole_number("batch_size", batch_size, least=1), n)
    given = Setting(rows, response, size, *checked_sgd(step, momentum, weight_decay))
    found = numbers_of_steps(stops)
    gram = rows.T @ rows / n
    count = whole_number("runs", runs, least=2)
    random = np.random.default_rng(rng)
    errors = None
    with np.errstate(over="ignore", invalid="ignore"):
        # all batches that an epoch can draw, each after any set of rows already used
        used = range(0, n, size)
        if sum(comb(n, one) * comb(n - one, min(size, n - one)) for one in used) <= MOST_BATCHES:
            second = np.array([*at_stops(_propagated(given), found)])
            second = second.reshape(-1, 2 * p + 1, 2 * p + 1)
            mean = second[:, :p, -1]
            spread = second[:, :p, :p] - mean[:, :, None] * mean[:, None, :]
            loss = ((mean @ rows.T - response) ** 2).mean(axis=1)
            loss = loss + np.einsum("tij,ji->t", spread, gram)
        else:
            ends = np.array([*at_stops(_simulated(given, count, random), found)])
            ends = ends.reshape(-1, count, p)
            mean = ends.mean(axis=1)
            centred = ends - mean[:, None]
            spread = centred.swapaxes(1, 2) @ centred / (count - 1)
            losses = ((ends @ rows.T - response) ** 2).mean(axis=2)
            loss = losses.mean(axis=1)
            errors = losses.std(axis=1, ddof=1) / np.sqrt(count)
    if not np.isfinite(loss).all():
        raise ValueError(f"The iterates overflow: a step of {given.step:g} diverges.")
    return Moments(found, mean, loss, errors, gram, np.eye(p), spread)


def checked_sgd(step: float, momentum: float, weight_decay: float) -> tuple[float, float, float]:
    """Return step, momentum and weight decay; refuse those for which no iterate is defined."""
    decay = float(nonnegative("weight_decay", weight_decay))
    return positive_number("step", step), fraction_below_one("momentum", momentum), decay


def one_per_column(name: str, values: ArrayLike, n_columns: int) -> Array:
    """Return finite numbers, one for each column."""
    found: Array = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    if found.shape != (n_columns,):
        raise ValueError(f"{name} must have {n_columns} numbers, one for each column.")
    return found


def numbers_of_steps(stops: ArrayLike) -> Array:
    """Return distinct numbers of steps in ascending order; refuse those that no run reaches."""
    found = np.unique(list_of_stops(stops))
    if found.max(initial=0) > MOST_ITERATIONS:
        raise ValueError(
            f"A stop after {found[-1]:g} steps is beyond the limit of {MOST_ITERATIONS}: random "
            "batches have no last iterate. Give an earlier stop."
        )
    return found


def at_stops(run: Iterator[Any], stops: Array, *, verbose: bool = False) -> Iterator[Any]:
    """Yield what a run without end yields after each of these numbers of steps."""
    wanted = set(iteration_numbers(stops).tolist())
    start = next(run)
    if 0 in wanted:
        yield start
    for k in progress(range(1, max(wanted, default=0) + 1), "steps", verbose):
        state = next(run)
        if k in wanted:
            yield state


def _propagated(given: Setting) -> Iterator[Array]:
    """Yield E aaᵀ of a = (iterate, last move, 1), summed over the sets of rows used so far."""
    n, p = given.X.shape
    everything = frozenset(range(n))
    first = np.zeros((2 * p + 1, 2 * p + 1))
    first[-1, -1] = 1.0
    states = {frozenset[int](): first}
    while True:
        yield np.sum([*states.values()], axis=0)
        after: dict[frozenset[int], Array] = {}
        for used, second in states.items():
            left = sorted(everything - used)
            choices = [*combinations(left, min(given.batch_size, len(left)))]
            for batch in choices:
                map_of_batch = _affine(given, [*batch])
                moved = map_of_batch @ second @ map_of_batch.T / len(choices)
                now = used | frozenset(batch)
                # the rows begin anew after an epoch
                now = frozenset() if now == everything else now
                after[now] = after[now] + moved if now in after else moved
        states = after


def _affine(given: Setting, batch: list[int]) -> Array:
    """Return the matrix by which one step on a batch moves (iterate, last move, 1)."""
    p = given.X.shape[1]
    rows = given.X[batch]
    found = np.zeros((2 * p + 1, 2 * p + 1))
    found[p : 2 * p, :p] = -given.step * (rows.T @ rows / len(rows) + given.decay * np.eye(p))
    found[p : 2 * p, p : 2 * p] = given.momentum * np.eye(p)
    found[p : 2 * p, -1] = given.step * (rows.T @ given.y[batch]) / len(rows)
    found[:p] = found[p : 2 * p] + np.eye(p, 2 * p + 1)
    found[-1, -1] = 1.0
    return found


def _simulated(given: Setting, runs: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield the coefficients of all runs, of shape (runs, n_features), without end."""
    n, p = given.X.shape
    coef = np.zeros((runs, p))
    move = np.zeros((runs, p))
    while True:
        order = rng.permuted(np.broadcast_to(np.arange(n), (runs, n)), axis=1)
        for first in range(0, n, given.batch_size):
            yield coef
            batch = order[:, first : first + given.batch_size]
            rows = given.X[batch]
            errors = np.einsum("rbp,rp->rb", rows, coef) - given.y[batch]
            gradient = np.einsum("rbp,rb->rp", rows, errors) / batch.shape[1]
            move = given.momentum * move - given.step * (gradient + given.decay * coef)
            coef = coef + move
