r"""The choice of a kernel and its width by the error of the best stop, with bounded work.

Widths are multiples of the median distance, a factor of four apart at first. All candidates are
compared on few rows; the better half goes on to twice as many rows, until all rows take part. There
the neighbouring widths of the best candidate, a factor of two apart, are tried as well. A stage
therefore costs about four times the one before it, and all together less than twice the last one,
which has a handful of candidates. Distances are computed once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.methods.base import Method
from stoptime.spectrum.radial import ORDERS, Order, Radial, distances, linear
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import EXACT_FIT, Choice, StopWarning, first_up_to_ties
from stoptime.support.arrays import Array, Floats, on_host
from stoptime.support.progress import progress
from stoptime.support.user_warnings import warn_user

COARSE = (-2, 0, 2, 4)  # powers of two: first widths, in units of the median distance
FEWEST_COMPARED = 256  # of a comparison; a smaller one would mislead
MOST_LOOKED_AT = 1000  # rows whose median distance, or whose copies, are looked for
NEAR_COPY = 0.01  # of the median distance: a row as close as this is a near copy

Index = NDArray[np.intp]


class KernelCandidate(NamedTuple):
    """A kernel that was tried: its parameter, its best method and stop, and the error there.

    ``gamma`` is None for the linear kernel. ``n_rows`` is the number of rows on which it was
    compared last; errors of different numbers of rows cannot be compared.
    """

    kernel: str
    gamma: float | None
    n_rows: int
    method: Method
    stop: float | Floats
    error: float


@dataclass(frozen=True)
class Distances:
    """Distances between all rows, computed when they are first needed, and kept."""

    rows: Any
    weights: Floats | None
    order: Index  # rows of positive weight in a random order

    @cached_property
    def euclidean(self) -> Array:
        """Euclidean distances, (n, n)."""
        return np.asarray(distances(self.rows, self.rows, 2))

    @cached_property
    def manhattan(self) -> Array:
        """Sums of absolute differences, (n, n)."""
        return np.asarray(distances(self.rows, self.rows, 1))

    def among(self, order: Order, index: Index | None) -> Array:
        """Return the distances among some rows, or all."""
        whole = self.manhattan if order == 1 else self.euclidean
        return whole if index is None else whole[np.ix_(index, index)]

    def median(self, order: Order) -> float:
        """Return the median distance of two rows, each drawn in proportion to its weight."""
        few = self.order[:MOST_LOOKED_AT]
        found = self.among(order, few).ravel()
        share = np.ones(len(few)) if self.weights is None else self.weights[few]
        places = np.argsort(found)
        total = np.cumsum(np.outer(share, share).ravel()[places])
        middle = found[places[np.searchsorted(total, total[-1] / 2)]]
        # more than half of all pairs may be equal, as in a table of one rare event
        return float(middle) or float(found.max(initial=0)) or 1.0

    def kernel_matrix(self, kernel: Radial | None, index: Index | None) -> Array:
        """Return the kernel among some rows, or all; None is the linear kernel."""
        if kernel is not None:
            return np.asarray(kernel.of_distances(self.among(kernel.order, index)))
        rows = self.rows if index is None else self.rows[index]
        return np.asarray(linear(rows, rows))


class Tried(NamedTuple):
    """A candidate with everything that was found for it."""

    kernel: Radial | None
    size: int
    problem: Problem
    choice: Choice
    caught: Sequence[warnings.WarningMessage]

    @property
    def error(self) -> float:
        """The mean error over targets at the chosen stops."""
        error = float(np.mean(self.choice.error))
        return error if np.isfinite(error) else np.inf

    def summary(self) -> KernelCandidate:
        """Return what a user wants to know of it."""
        name = "linear" if self.kernel is None else self.kernel.name
        gamma = None if self.kernel is None else self.kernel.gamma
        found = self.problem.tuned, self.choice.stop, self.error
        return KernelCandidate(name, gamma, self.size, *found)


Evaluate = Callable[["Radial | None", "Index | None"], "tuple[Problem, Choice]"]


class Chosen(NamedTuple):
    """The best kernel, with the problem and the choice that it was chosen for."""

    kernel: Radial | None
    problem: Problem
    choice: Choice
    candidates: tuple[KernelCandidate, ...]


def choose_kernel(
    name: str, known: Distances, evaluate: Evaluate, sizes: Sequence[int], *, verbose: bool
) -> Chosen:
    """Return the kernel with the least error, of the named one or of all if it is "auto".

    ``sizes`` are the numbers of rows of all comparisons. ``evaluate`` returns the best stop for a
    kernel on some rows, or on those of the last comparison for None.
    """
    names = list(ORDERS) if name == "auto" else [name]
    medians = {order: known.median(order) for order in {ORDERS[one] for one in names}}

    def at(one: str, power: float) -> Radial:
        return Radial.of_width(one, 2.0**power * medians[ORDERS[one]])

    places = {at(one, power): power for one in names for power in COARSE}
    left: list[Radial | None] = [None] if name == "auto" else []
    left += places
    summaries: dict[Radial | None, KernelCandidate] = {}
    best: Tried | None = None

    def tried(kernel: Radial | None, index: Index | None) -> float:
        nonlocal best
        # warnings are of interest for the kernel that is chosen alone
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            problem, choice = evaluate(kernel, index)
        size = sizes[-1] if index is None else len(index)
        found = Tried(kernel, size, problem, choice, caught)
        summaries[kernel] = found.summary()
        if index is None:
            # errors that are equal to rounding say nothing: the first kernel is taken
            floor = EXACT_FIT * float(np.mean(problem.spectrum.target_power))
            if best is None or first_up_to_ties([best.error, found.error], floor) == 1:
                best = found
        return found.error

    for place, size in enumerate(sizes, start=1):
        index = None if place == len(sizes) else np.sort(known.order[:size])
        errors = {
            kernel: tried(kernel, index)
            for kernel in progress(left, f"kernels on {size} rows", verbose)
        }
        better = sorted(left, key=errors.__getitem__)[: max((len(left) + 1) // 2, 2)]
        left = [kernel for kernel in left if kernel in better]
    if best is None:
        raise RuntimeError("no kernel was tried on the last rows")
    if best.kernel is not None:
        power = places[best.kernel]
        closer = [at(best.kernel.name, power + step) for step in (-1, 1)]
        for kernel in progress(closer, "neighbouring widths", verbose):
            tried(kernel, None)
    for one in best.caught:
        warn_user(str(one.message), one.category)
    ordered = sorted(summaries.values(), key=lambda one: (-one.n_rows, one.error))
    return Chosen(best.kernel, best.problem, best.choice, tuple(ordered))


def stages(n_rows: int) -> list[int]:
    """Return the numbers of rows of all comparisons: halves of the next, and all at the end."""
    sizes = [n_rows]
    while sizes[0] // 2 >= FEWEST_COMPARED:
        sizes.insert(0, sizes[0] // 2)
    return sizes


def warn_of_copies(
    few: Index, blocks: Iterable[tuple[int, Any]], sampled: Any, y: Array, error: float
) -> None:
    """Warn if leave-one-out is much too optimistic, because rows have near copies among others.

    The response of a few ``sampled`` rows is predicted by that of the nearest row, and by that of
    the nearest one that is no near copy. If copies help so much that the error without them could
    be twice as large, they decide. The ``blocks`` are all rows, each with the number of its first.
    """
    median = float(np.median(on_host(distances(sampled, sampled, 2))))
    found = [_Nearest(len(few)), _Nearest(len(few))]
    for first, rows in blocks:
        distance = np.asarray(on_host(distances(sampled, rows, 2)))
        own = np.flatnonzero((few >= first) & (few < first + distance.shape[1]))
        distance[own, few[own] - first] = np.inf
        found[0].look(distance, first)
        distance[distance < NEAR_COPY * median] = np.inf
        found[1].look(distance, first)
    closest, following = found
    copied = (closest.distance < NEAR_COPY * median) & np.isfinite(following.distance)
    if not copied.any():
        return
    by_copy = (y[few] - y[closest.place])[copied] ** 2
    by_next = (y[few] - y[following.place])[copied] ** 2
    # the difference of two responses has twice the variance of one
    rise = float(copied.mean()) * float((by_next - by_copy).mean()) / 2
    if rise > max(error, 0.01 * float(np.mean(np.var(y, axis=0)))):
        warn_user(
            f"{copied.mean():.0%} of the rows have a near copy among the others, with nearly the "
            "same response: leave-one-out is too optimistic if new rows will have none. Give cv a "
            "splitter that keeps groups together, such as GroupKFold(5), and pass groups to fit.",
            StopWarning,
        )


class _Nearest:
    """The nearest of all rows that were seen so far, for each of a few rows."""

    def __init__(self, count: int) -> None:
        self.distance = np.full(count, np.inf)
        self.place = np.zeros(count, np.intp)

    def look(self, distance: Array, first: int) -> None:
        """Take nearer rows from a block of distances."""
        at = distance.argmin(axis=1)
        value = distance[np.arange(len(at)), at]
        nearer = value < self.distance
        self.distance[nearer] = value[nearer]
        self.place[nearer] = first + at[nearer]
