r"""The choice of a kernel and its width by the error of the best stop, with bounded work.

Widths are multiples of the median distance, a factor of four apart at first. All candidates are
compared on few rows, and the better half on twice as many, until all rows take part. On half of the
rows, widths a factor of two apart are tried around the best one, as long as they are better; on all
rows, the best ones of two kinds, and narrower ones. Distances are computed once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoptime.methods.base import Method
from stoptime.spectrum.radial import ORDERS, Order, Radial, distances, linear
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice, Rule, first_up_to_ties
from stoptime.support.arrays import Array, Floats
from stoptime.support.progress import progress
from stoptime.support.user_warnings import warn_user

COARSE = (-2, 0, 2, 4)  # powers of two: first widths, in units of the median distance
MOST_POWER = 8  # of a width: a wider kernel is nearly the same function
FEWEST_COMPARED = 250  # of a comparison; a smaller one would mislead
MOST_LOOKED_AT = 1000  # rows whose median distance, or whose copies, are looked for

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


class Distances:
    """Distances between all rows, computed when they are first needed, and kept."""

    def __init__(self, rows: Any, weights: Floats | None, order: Index) -> None:
        self.rows = rows
        self.weights = weights
        self.order = order  # rows of positive weight in a random order
        self._known: dict[Order, Array] = {}

    def among(self, order: Order, index: Index | None) -> Array:
        """Return the distances among some rows, or all."""
        if order not in self._known:
            self._known[order] = np.asarray(distances(self.rows, self.rows, order))
        whole = self._known[order]
        return whole if index is None else whole[np.ix_(index, index)]

    def median(self, order: Order) -> float:
        """Return the median distance of two rows, each drawn in proportion to its weight."""
        few = self.order[:MOST_LOOKED_AT]
        found = self.among(order, few).ravel()
        if self.weights is None:
            half = (len(found) - 1) // 2
            middle = np.partition(found, half)[half]
        else:
            share = self.weights[few]
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


Evaluate = Callable[["Radial | None", "Index | None"], "tuple[Problem, Choice]"]


class KernelSearch:
    """The least error of the named kernel at any width, or of all kernels for "auto".

    ``evaluate`` returns the best stop for a kernel on some rows, or on those of the last comparison
    for None; ``sizes`` are the numbers of rows of all comparisons, and ``rule`` compares. A search
    has what it ``found`` for the ``best`` kernel, None if that is the linear one, and all
    ``candidates``.
    """

    found: tuple[Problem, Choice]

    def __init__(
        self,
        name: str,
        known: Distances,
        evaluate: Evaluate,
        sizes: Sequence[int],
        rule: Rule,
    ) -> None:
        self.names = list(ORDERS) if name == "auto" else [name]
        self.known = known
        self.evaluate = evaluate
        self.sizes = sizes
        self.rule = rule
        self.medians = {order: known.median(order) for order in {ORDERS[one] for one in self.names}}
        self.powers: dict[Radial | None, int] = {}  # of two: widths in units of the median distance
        self.tried: dict[Radial | None, KernelCandidate] = {}
        self.last: set[Radial | None] = set()  # kernels of the last comparison
        self.best: Radial | None = None
        self.least = np.inf  # the error of the best kernel
        self.warned: list[warnings.WarningMessage] = []
        self.run([None] if name == "auto" else [])
        for one in self.warned:
            warn_user(str(one.message), one.category)

    @property
    def candidates(self) -> tuple[KernelCandidate, ...]:
        """All kernels that were tried: first the best one of the last comparison."""

        def order(kernel: Radial | None) -> tuple[bool, int, float]:
            found = self.tried[kernel]
            return kernel not in self.last, -found.n_rows, found.error

        return tuple(self.tried[kernel] for kernel in sorted(self.tried, key=order))

    def at(self, name: str, power: int) -> Radial:
        """Return a kernel whose width is the median distance times a power of two."""
        kernel = Radial.of_width(name, 2.0**power * self.medians[ORDERS[name]])
        self.powers[kernel] = power
        return kernel

    def error_of(self, kernel: Radial | None, index: Index | None) -> float:
        """Return the error of a kernel on some rows, or on those of the last comparison."""
        # warnings are of interest for the kernel that is chosen alone
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            problem, choice = self.evaluate(kernel, index)
        mean = float(np.mean(choice.error))
        error = mean if np.isfinite(mean) else np.inf
        name, gamma = ("linear", None) if kernel is None else (kernel.name, kernel.gamma)
        size = self.sizes[-1] if index is None else len(index)
        reached = problem.tuned, choice.stop, error
        self.tried[kernel] = KernelCandidate(name, gamma, size, *reached)
        if index is not None:
            return error
        self.last.add(kernel)
        # errors that are equal to rounding say nothing: the first kernel is taken
        floor = self.rule.floor(problem)
        if not hasattr(self, "found") or first_up_to_ties([self.least, error], floor) == 1:
            self.best = kernel
            self.least = error
            self.found = problem, choice
            self.warned = caught
        return error

    def run(self, left: list[Radial | None]) -> None:
        """Try these and others on few rows, and the better half of them on twice as many rows."""
        left += [self.at(name, power) for name in self.names for power in COARSE]
        for place, size in enumerate(self.sizes, start=1):
            rest = len(self.sizes) - place
            index = np.sort(self.known.order[:size]) if rest else None
            kernels = progress(left, f"kernels on {size} rows")
            errors = {kernel: self.error_of(kernel, index) for kernel in kernels}
            if rest == 1 or len(self.sizes) == 1:
                self.refine(errors, index, (-1, 1))
            elif rest == 0:
                # with more rows narrower kernels are the best
                self.refine(errors, index, (-1,))
            ordered = sorted(errors, key=errors.__getitem__)
            left = ordered[: max((len(left) + 1) // 2, 2)]
            if rest == 1:
                # the last comparison costs as much as all others: two kinds of kernels take part
                kinds = {None if one is None else one.name: one for one in reversed(ordered)}
                left = sorted(kinds.values(), key=errors.__getitem__)[:2]

    def refine(
        self, errors: dict[Radial | None, float], index: Index | None, steps: Sequence[int]
    ) -> None:
        """Try narrower and wider kernels than the best one, each way as long as they are better."""
        best = min(errors, key=errors.__getitem__)
        for step in steps:
            while best is not None and abs(self.powers[best] + step) <= MOST_POWER:
                kernel = self.at(best.name, self.powers[best] + step)
                if kernel not in errors:
                    errors[kernel] = self.error_of(kernel, index)
                if errors[kernel] >= errors[best]:
                    break
                best = kernel


def stages(n_rows: int) -> list[int]:
    """Return the numbers of rows of all comparisons: halves of the next, and all at the end."""
    sizes = [n_rows]
    while sizes[0] // 2 >= FEWEST_COMPARED:
        sizes.insert(0, sizes[0] // 2)
    return sizes
