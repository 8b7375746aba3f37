r"""The choice of a kernel and its width by the error of the best stop, with bounded work.

Widths are multiples of the median distance, a factor of four apart at first. All candidates are
compared on few rows, and the better half on twice as many, until all rows take part, or with
landmarks as many as their fit can bear. On half of the rows, widths a factor of two apart are tried
around the best one, as long as they are better; on all rows, the best ones of two kinds, and
narrower ones. Distances are computed once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from stoptime.methods.base import Filter, Method
from stoptime.spectrum.kernel import KernelData
from stoptime.spectrum.landmarks import KERNEL_VALUES, LandmarkData, LandmarkFeatures
from stoptime.spectrum.radial import ORDERS, Linear, Order, Radial, distances
from stoptime.stopping.comparison import Search
from stoptime.stopping.leave_one_out import LeaveOneOut
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice, Rule, StopWarning, first_up_to_ties
from stoptime.support.arrays import Array, Floats, like, on_host, slices
from stoptime.support.progress import progress, progress_shown
from stoptime.support.user_warnings import warn_user

MOST_EXACT = 5000  # rows: the kernel matrix of more is slow to factor, and landmarks are as good
MOST_COMPARED = 1000  # rows on which kernels are compared first if there are landmarks
MOST_LOOKED_AT = 1000  # rows whose median distance, or whose copies, are looked for

Index = NDArray[np.intp]
Named = Radial | Linear


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
        weights = None
        if self.weights is not None:
            weights = np.outer(self.weights[few], self.weights[few]).ravel()
        middle = np.quantile(found, 0.5, weights=weights, method="inverted_cdf")
        # more than half of all pairs may be equal, as in a table of one rare event
        return float(middle) or float(found.max(initial=0)) or 1.0

    def kernel_matrix(self, kernel: Named, index: Index | None) -> Array:
        """Return the kernel among some rows, or all."""
        if isinstance(kernel, Radial):
            return np.asarray(kernel.of_distances(self.among(kernel.order, index)))
        rows = self.rows if index is None else self.rows[index]
        return np.asarray(kernel(rows, rows))


def most_compared(n_landmarks: int) -> int:
    """Return the number of rows on which the best kernels are compared with landmarks."""
    # a fit to four rows for each landmark costs about as much as its factorisation
    return max(4 * n_landmarks, MOST_EXACT)


@dataclass
class KernelSearch:
    """The least error of the named kernel at any width, or of all kernels for "auto".

    ``data`` and ``features`` have the linear kernel. The rows of positive weight are in a random
    ``order``: kernels are compared on the first of them. ``rule_of`` returns the rule for given
    ``splits``, which are None without folds. After the search, ``found`` are the problem and the
    choice of the ``best`` kernel.
    """

    name: str
    search: Search
    data: Any
    features: LandmarkFeatures
    order: Index
    rule_of: Callable[[Any], Rule] | None = None
    splits: Any = None
    groups: Any = None

    best: Named = field(default=Linear(), init=False)
    found: tuple[Problem, Choice] | None = field(default=None, init=False)
    _least: float = field(default=np.inf, init=False)  # the error of the best kernel
    _tried: dict[Named, KernelCandidate] = field(default_factory=dict, init=False)
    _last: set[Named] = field(default_factory=set, init=False)  # those of the last comparison
    _powers: dict[Named, int] = field(default_factory=dict, init=False)  # of two, see _at
    _medians: dict[Order, float] = field(default_factory=dict, init=False)
    _warned: list[warnings.WarningMessage] = field(default_factory=list, init=False)

    def run(self) -> tuple[Problem, Choice]:
        """Compare kernels, and return what was found for the best one."""
        if self.data.shape[0] < 2:
            raise ValueError("Choosing a kernel needs at least 2 rows; got n_samples=1.")
        methods = self.search.methods
        compares = self.search.rule.compares_methods
        if not (compares or all(isinstance(one, Filter) for one in methods)):
            raise ValueError(
                f"A kernel is chosen by leave-one-out, which {methods[0].name} does not have: name "
                "the kernel and give gamma a number, or give cv=5."
            )
        with progress_shown(self.search.verbose):
            self._compare()
        for one in self._warned:
            warn_user(str(one.message), one.category)
        problem, choice = self.found  # type: ignore[misc]
        if self.splits is None and isinstance(self.search.rule, LeaveOneOut):
            self._warn_of_copies(float(np.mean(choice.error)))
        return problem, choice

    @property
    def candidates(self) -> tuple[KernelCandidate, ...]:
        """All kernels that were tried: first the best one of the last comparison."""

        def order(kernel: Named) -> tuple[bool, int, float]:
            one = self._tried[kernel]
            return kernel not in self._last, -one.n_rows, one.error

        return tuple(self._tried[kernel] for kernel in sorted(self._tried, key=order))

    def _compare(self) -> None:
        """Try kernels on few rows, and the better half of them on twice as many rows."""
        names = list(ORDERS) if self.name == "auto" else [self.name]
        self._medians = {one: self._known.median(one) for one in {ORDERS[name] for name in names}}
        left: list[Named] = [Linear()] if self.name == "auto" else []
        left += [self._at(name, power) for name in names for power in (-2, 0, 2, 4)]
        sizes = self._sizes
        for place, size in enumerate(sizes, start=1):
            rest = len(sizes) - place
            index = np.sort(self._known.order[:size]) if rest else None
            kernels = progress(left, f"kernels on {size} rows")
            errors = {kernel: self._error_of(kernel, index) for kernel in kernels}
            if rest == 1 or len(sizes) == 1:
                self._refine(errors, index, (-1, 1))
            elif rest == 0:
                # with more rows narrower kernels are the best
                self._refine(errors, index, (-1,))
            ordered = sorted(errors, key=errors.__getitem__)
            left = ordered[: max((len(left) + 1) // 2, 2)]
            if rest == 1:
                # the last comparison costs as much as all others: two kinds of kernels take part
                kinds = {one.name: one for one in reversed(ordered)}
                left = sorted(kinds.values(), key=errors.__getitem__)[:2]

    def _refine(
        self, errors: dict[Named, float], index: Index | None, steps: Sequence[int]
    ) -> None:
        """Try narrower and wider kernels than the best one, each way as long as they are better."""
        best = min(errors, key=errors.__getitem__)
        for step in steps:
            # a kernel wider than 2^8 median distances is nearly the same function
            while best in self._powers and abs(self._powers[best] + step) <= 8:
                kernel = self._at(best.name, self._powers[best] + step)
                if kernel not in errors:
                    errors[kernel] = self._error_of(kernel, index)
                if errors[kernel] >= errors[best]:
                    break
                best = kernel

    def _at(self, name: str, power: int) -> Radial:
        """Return a kernel whose width is the median distance times a power of two."""
        kernel = Radial.of_width(name, 2.0**power * self._medians[ORDERS[name]])
        self._powers[kernel] = power
        return kernel

    def _error_of(self, kernel: Named, index: Index | None) -> float:
        """Return the error of a kernel on some rows, or on those of the last comparison."""
        # warnings are of interest for the kernel that is chosen alone
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            problem, choice = self._evaluated(kernel, index)
        mean = float(np.mean(choice.error))
        error = mean if np.isfinite(mean) else np.inf
        size = self._sizes[-1] if index is None else len(index)
        reached = problem.tuned, choice.stop, error
        self._tried[kernel] = KernelCandidate(kernel.name, kernel.gamma, size, *reached)
        if index is not None:
            return error
        self._last.add(kernel)
        # errors that are equal to rounding say nothing: the first kernel is taken
        floor = self._rule.floor(problem)
        if self.found is None or first_up_to_ties([self._least, error], floor) == 1:
            self.best = kernel
            self.found = problem, choice
            self._least = error
            self._warned = caught
        return error

    def _evaluated(self, kernel: Named, part: Index | None) -> tuple[Problem, Choice]:
        """Return the best stop on some rows, or on those of the last comparison for None."""
        if part is None and self._more is not None:
            own = self._more
            features = replace(self.features, kernel=kernel)
            some = self.data.subset(own).with_features(features)
        else:
            own = self._index if part is None else self._index[part]
            training = self._known.rows if part is None else self._known.rows[part]
            prepare, centred = self.features.prepare.on_host, self.features.centred
            features = LandmarkFeatures(prepare, kernel, training, centred)
            matrix = self._known.kernel_matrix(kernel, part)
            some = KernelData.of_some(matrix, self.data.sample.take(own), features)
        rule = self._rule
        if self.splits is not None and self.rule_of is not None:
            rule = self.rule_of(_restricted(self.splits, own, self.data.shape[0]))
        groups = None if self.groups is None else self.groups[own]
        return replace(self.search, rule=rule).best(some, groups)

    @property
    def _rule(self) -> Rule:
        """The rule of the search, or leave-one-out if that rule cannot compare kernels."""
        return self.search.rule if self.search.rule.compares_methods else LeaveOneOut()

    @cached_property
    def _sizes(self) -> list[int]:
        """The numbers of rows of all comparisons: halves of the next, and all at the end."""
        sizes = [len(self._known.order)]
        while sizes[0] // 2 >= 250:  # a comparison on fewer rows would mislead
            sizes.insert(0, sizes[0] // 2)
        return sizes if self._more is None else [*sizes, len(self._more)]

    @cached_property
    def _more(self) -> Index | None:
        """The rows on which the best kernels are compared with the landmarks."""
        if not isinstance(self.data, LandmarkData):
            return None
        return np.sort(self.order[: most_compared(self.features.landmarks.shape[0])])

    @cached_property
    def _index(self) -> Index:
        """The rows on which kernels are compared without landmarks."""
        if self._more is None:
            return np.arange(self.data.shape[0])
        return np.sort(self.order[:MOST_COMPARED])

    @cached_property
    def _known(self) -> Distances:
        """Distances among the rows on which kernels are compared."""
        rows = self.features.landmarks
        if self._more is not None:
            rows = self._raw(self._index)
            rows = self.features.prepare.on_host(rows if sparse.issparse(rows) else on_host(rows))
        weights = self.data.sample.row_weights
        weights = None if weights is None else weights[self._index]
        order = np.searchsorted(self._index, self.order[: len(self._index)])
        return Distances(rows, weights, order)

    def _raw(self, index: Index) -> Any:
        """Return some rows as they were given, if there are landmarks."""
        rows = self.data.sample.X.X
        return rows[like(rows, index)]

    def _warn_of_copies(self, error: float) -> None:
        """Warn if leave-one-out is much too optimistic, because rows have near copies among others.

        The response of a few rows is predicted by that of the nearest row, and by that of the
        nearest one that is no near copy. If copies help so much that the error without them could
        be twice as large, they decide.
        """
        own = self._known.order[:MOST_LOOKED_AT]
        few = self._index[own]
        sampled = self._known.rows[own]
        blocks: Iterable[tuple[int, Any]] = [(0, self._known.rows)]
        if self._more is not None:  # where the rows are, because all of them take part
            prepare = self.features.prepare
            sampled = prepare(self._raw(few))
            raw = self.data.sample.X.X
            parts = slices(self.data.shape[0], KERNEL_VALUES // len(few))
            blocks = ((one.start, prepare(raw[one])) for one in parts)
        copied, nearest, next_one = _neighbours(few, blocks, sampled)
        if not copied.any():
            return
        y = np.asarray(on_host(self.data.sample.response), np.float64)
        by_copy = (y[few] - y[nearest])[copied] ** 2
        by_next = (y[few] - y[next_one])[copied] ** 2
        # the difference of two responses has twice the variance of one
        rise = float(copied.mean()) * float((by_next - by_copy).mean()) / 2
        if rise > max(error, 0.01 * float(np.mean(np.var(y, axis=0)))):
            warn_user(
                f"{copied.mean():.0%} of the rows have a near copy among the others, with nearly "
                "the same response: leave-one-out is too optimistic if new rows will have none. "
                "Give cv a splitter that keeps groups together, such as GroupKFold(5), and pass "
                "groups to fit.",
                StopWarning,
            )


def _restricted(splits: Any, index: Index, count: int) -> list[tuple[Index, Index]]:
    """Return folds of some of the rows, numbered among these."""
    place = np.full(count, -1)
    place[index] = np.arange(len(index))
    pairs = [[own[own >= 0] for own in (place[train], place[test])] for train, test in splits]
    return [(train, test) for train, test in pairs if len(train) > 1 and len(test)]


def _neighbours(
    few: Index, blocks: Iterable[tuple[int, Any]], sampled: Any
) -> tuple[NDArray[np.bool_], Index, Index]:
    """Return which of a few rows have near copies, their nearest row, and the nearest other one.

    The ``blocks`` are all rows, each with the number of its first, and ``sampled`` are the few.
    """
    # a row as close as a hundredth of the median distance is a near copy
    near = 0.01 * float(np.median(on_host(distances(sampled, sampled, 2))))
    nearest = np.full((2, len(few)), np.inf)
    place = np.zeros((2, len(few)), np.intp)
    for first, rows in blocks:
        distance = np.asarray(on_host(distances(sampled, rows, 2)))
        own = np.flatnonzero((few >= first) & (few < first + distance.shape[1]))
        distance[own, few[own] - first] = np.inf
        for one in range(2):
            at = distance.argmin(axis=1)
            value = distance[np.arange(len(few)), at]
            nearer = value < nearest[one]
            nearest[one, nearer] = value[nearer]
            place[one, nearer] = first + at[nearer]
            distance[distance < near] = np.inf
    return (nearest[0] < near) & np.isfinite(nearest[1]), *place
