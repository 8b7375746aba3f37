"""The error that each kernel reaches at its best stop, on the rows of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from stoptime.estimators.kernel_options import most_compared
from stoptime.estimators.kernel_search import (
    MOST_LOOKED_AT,
    Distances,
    Index,
    KernelSearch,
    stages,
)
from stoptime.methods.base import Filter
from stoptime.spectrum.kernel import KernelData
from stoptime.spectrum.landmarks import (
    KERNEL_VALUES,
    LandmarkData,
    LandmarkFeatures,
)
from stoptime.spectrum.radial import Columns, Radial, distances, linear
from stoptime.stopping.comparison import Search
from stoptime.stopping.leave_one_out import LeaveOneOut
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice, Rule, StopWarning
from stoptime.support.arrays import Array, like, on_host, slices
from stoptime.support.progress import progress_shown
from stoptime.support.user_warnings import warn_user

MOST_COMPARED = 1000  # rows on which kernels are compared first if there are landmarks
NEAR_COPY = 0.01  # of the median distance: a row as close as this is a near copy


@dataclass(frozen=True)
class KernelChoice:
    """The rows on which kernels are compared, and the search for the best stop of each.

    ``data`` and ``features`` have the linear kernel. The rows of positive weight are in a random
    ``order``: kernels are compared on the first of them. ``rule_of`` returns the rule for given
    ``splits``, which are None without folds.
    """

    search: Search
    data: Any
    features: LandmarkFeatures
    order: Index
    rule_of: Callable[[Any], Rule] | None = None
    splits: Any = None
    groups: Any = None

    def best(self, name: str) -> KernelSearch:
        """Return the best kernel of this name, or of all if it is "auto"."""
        if self.data.shape[0] < 2:
            raise ValueError("Choosing a kernel needs at least 2 rows; got n_samples=1.")
        methods = self.search.methods
        compares = self.search.rule.compares_methods
        if not (compares or all(isinstance(one, Filter) for one in methods)):
            raise ValueError(
                f"A kernel is chosen by leave-one-out, which {methods[0].name} does not have: name "
                "the kernel and give gamma a number, or give cv=5."
            )
        sizes = stages(len(self._known.order))
        if self._more is not None:
            sizes.append(len(self._more))
        with progress_shown(self.search.verbose):
            chosen = KernelSearch(name, self._known, self._evaluated, sizes, self._rule)
        if self.splits is None and isinstance(self.search.rule, LeaveOneOut):
            self._warn_of_copies(float(np.mean(chosen.found[1].error)))
        return chosen

    @property
    def _rule(self) -> Rule:
        """The rule of the search, or leave-one-out if that rule cannot compare kernels."""
        return self.search.rule if self.search.rule.compares_methods else LeaveOneOut()

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

    @property
    def _raw(self) -> Any:
        """All rows as they were given, if there are landmarks."""
        return self.data.sample.X.X

    @property
    def _columns(self) -> Columns:
        """What rows on the host become before a kernel sees them."""
        return self.features.prepare.on_host

    @cached_property
    def _known(self) -> Distances:
        """Distances among the rows on which kernels are compared."""
        rows = self.features.landmarks
        if isinstance(self.data, LandmarkData):
            rows = self._raw[like(self._raw, self._index)]
            rows = self._columns(rows if sparse.issparse(rows) else on_host(rows))
        weights = self.data.sample.row_weights
        weights = None if weights is None else weights[self._index]
        order = np.searchsorted(self._index, self.order[: len(self._index)])
        return Distances(rows, weights, order)

    def _evaluated(self, kernel: Radial | None, part: Index | None) -> tuple[Problem, Choice]:
        """Return the best stop on some rows, or on those of the last comparison for None."""
        function = kernel or linear
        if part is None and self._more is not None:
            own = self._more
            features = replace(self.features, kernel=function)
            some = self.data.subset(own).with_features(features)
        else:
            own = self._index if part is None else self._index[part]
            training = self._known.rows if part is None else self._known.rows[part]
            centred = self.features.centred
            features = LandmarkFeatures(self._columns, function, training, centred)
            matrix = self._known.kernel_matrix(kernel, part)
            some = KernelData.of_some(matrix, self.data.sample.take(own), features)
        rule = self._rule
        if self.splits is not None and self.rule_of is not None:
            rule = self.rule_of(_restricted(self.splits, own, self.data.shape[0]))
        groups = None if self.groups is None else self.groups[own]
        return replace(self.search, rule=rule).best(some, groups)

    def _warn_of_copies(self, error: float) -> None:
        """Warn if near copies decide the error of a few rows, among all rows."""
        own = self._known.order[:MOST_LOOKED_AT]
        few = self._index[own]
        looked_at = self._known.rows[own]
        blocks: Iterable[tuple[int, Any]] = [(0, self._known.rows)]
        if self._more is not None:  # where the rows are, because all of them take part
            prepare = self.features.prepare
            looked_at = prepare(self._raw[like(self._raw, few)])
            parts = slices(self.data.shape[0], KERNEL_VALUES // len(few))
            blocks = ((one.start, prepare(self._raw[one])) for one in parts)
        y = np.asarray(on_host(self.data.sample.response), np.float64)
        _warn_of_copies(few, blocks, looked_at, y, error)


def _restricted(splits: Any, index: Index, count: int) -> list[tuple[Index, Index]]:
    """Return folds of some of the rows, numbered among these."""
    place = np.full(count, -1)
    place[index] = np.arange(len(index))
    pairs = [[own[own >= 0] for own in (place[train], place[test])] for train, test in splits]
    return [(train, test) for train, test in pairs if len(train) > 1 and len(test)]


def _warn_of_copies(
    few: Index, blocks: Iterable[tuple[int, Any]], sampled: Any, y: Array, error: float
) -> None:
    """Warn if leave-one-out is much too optimistic, because rows have near copies among others.

    The response of a few ``sampled`` rows is predicted by that of the nearest row, and by that of
    the nearest one that is no near copy. If copies help so much that the error without them could
    be twice as large, they decide. The ``blocks`` are all rows, each with the number of its first.
    """
    near = NEAR_COPY * float(np.median(on_host(distances(sampled, sampled, 2))))
    # the nearest row of each, and the nearest one that is no near copy
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
    copied = (nearest[0] < near) & np.isfinite(nearest[1])
    if not copied.any():
        return
    by_copy = (y[few] - y[place[0]])[copied] ** 2
    by_next = (y[few] - y[place[1]])[copied] ** 2
    # the difference of two responses has twice the variance of one
    rise = float(copied.mean()) * float((by_next - by_copy).mean()) / 2
    if rise > max(error, 0.01 * float(np.mean(np.var(y, axis=0)))):
        warn_user(
            f"{copied.mean():.0%} of the rows have a near copy among the others, with nearly the "
            "same response: leave-one-out is too optimistic if new rows will have none. Give cv a "
            "splitter that keeps groups together, such as GroupKFold(5), and pass groups to fit.",
            StopWarning,
        )
