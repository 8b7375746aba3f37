r"""Intervals from fits without some of the rows: CV+, and the nested jackknife+.

With :math:`\hat y_{-k(i)}` the fit without the fold of row i and e its residuals, the ends are
quantiles over all rows of :math:`\hat y_{-k(i)}(x) \mp |e_i|`. CV+ has the folds of
cross-validation, and the stop that they have chosen. The nested jackknife+ leaves out single rows,
and chooses method and stop anew without each of them, so that no row has a part in the fit from
which its residual comes, in the choice of the stop neither.

References
----------
Barber, Candès, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from stoptime.estimators.intervals import needed_observations
from stoptime.paths import fit_at
from stoptime.spectrum.data import Data, Fit, TestedRows, Want, rows_of
from stoptime.stopping.rule import StopWarning
from stoptime.support.arrays import Floats, as_dtype, like, on_host
from stoptime.support.checks import positive_number
from stoptime.support.progress import progress_shown

if TYPE_CHECKING:
    from stoptime.stopping.comparison import Search, Searched

BISECTIONS = 64  # of an interval that contains the quantile: more digits than a number has
MANY_REFITS = 500  # rows from which on a warning says how many fits nested intervals take


@dataclass(frozen=True)
class FoldFits:
    """Fits without each of the folds, and the rows of each fold; see the top of the file."""

    fits: list[Fit]
    left_out: list[TestedRows]
    n_observations: float

    @classmethod
    def of(cls, searched: Searched, splits: Any, fitted: Callable[[Data], Fit]) -> FoldFits:
        """Fit the training sets of folds."""
        search = cast("Search", searched.search)
        with progress_shown(search.verbose):
            pairs = searched.rows.left_out(splits, fitted)
        fits, left_out = (list(part) for part in zip(*pairs, strict=True))
        return cls(fits, left_out, searched.n_observations)

    def interval(self, rows: Any, confidence: float) -> Any:
        """Return lower and upper ends of intervals for new rows, along a new last axis."""
        confidence = positive_number("confidence", confidence, high=1.0)
        given = [fit.predict(rows) for fit in self.fits]
        centres = np.stack([np.asarray(on_host(one), np.float64) for one in given])
        # the lower end is the upper end of the negative response
        lower = -self._by_bisection(-centres, confidence)
        ends = np.stack([lower, self._by_bisection(centres, confidence)], axis=-1)
        ends = ends[:, 0] if self.fits[0].coef.ndim == 1 else ends
        return as_dtype(like(given[0], ends), given[0].dtype)

    @property
    def _unit(self) -> float:
        """Observations for each unit of weight."""
        return float(self.n_observations / sum(part.weights.sum() for part in self.left_out))

    def _by_bisection(self, centres: Floats, confidence: float) -> Floats:
        """Return the least v with centre + size ≤ v for as many observations as are needed."""
        needed = needed_observations(self.n_observations, confidence) / self._unit
        longest = max(part.sizes.max() for part in self.left_out)
        low = centres.min(axis=0) - longest
        high = centres.max(axis=0) + longest
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            parts = zip(self._sorted, centres, strict=True)
            enough = sum(part.weight_up_to(middle - centre) for part, centre in parts) >= needed
            high = np.where(enough, middle, high)
            low = np.where(enough, low, middle)
        return np.asarray(high)

    @cached_property
    def _sorted(self) -> list[_Sorted]:
        return [_Sorted.of(part) for part in self.left_out]


class _Sorted(NamedTuple):
    """Sizes of residuals of each target, ascending, and the sums of the weights up to each."""

    sizes: Floats
    sums: Floats

    @classmethod
    def of(cls, rows: TestedRows) -> _Sorted:
        order = np.argsort(rows.sizes, axis=0)
        sums = np.cumsum(rows.weights[order], axis=0)
        return cls(np.take_along_axis(rows.sizes, order, axis=0), np.insert(sums, 0, 0.0, axis=0))

    def weight_up_to(self, levels: Floats) -> Floats:
        """Return the weight of the rows whose sizes are at most these levels, (m, n_targets)."""
        columns = zip(self.sizes.T, self.sums.T, levels.T, strict=True)
        found = [sums[np.searchsorted(sizes, own, side="right")] for sizes, sums, own in columns]
        return np.stack(found, axis=-1)


def nested_fits(searched: Searched) -> FoldFits:
    """Return the fits without each row, each with a method and a stop of its own."""
    if searched.splits is not None:
        raise ValueError('kind="nested" needs rule="loo" or another rule without folds: use "cv+".')
    every = np.arange(rows_of(searched.rows).n_rows)
    splits = searched.rows.splits([(np.delete(every, row), [row]) for row in every])
    if len(splits) > MANY_REFITS:
        warnings.warn(
            f"Choosing the stop anew without each row takes {len(splits)} fits: "
            'kind="jackknife+" takes none, and covers as often from about 300 rows on.',
            UserWarning,
            stacklevel=3,
        )

    def fitted(train: Data) -> Fit:
        with warnings.catch_warnings():
            # the fit to all rows has warned already
            warnings.simplefilter("ignore", StopWarning)
            problem, choice = cast("Search", searched.search).best(train)
        return Fit(*fit_at(problem.spectrum, problem.tuned, choice.stop)[:2])

    return FoldFits.of(searched, splits, fitted)


def cross_fits(searched: Searched) -> FoldFits:
    """Return the fits without each fold, at the chosen stop."""
    if searched.splits is None:
        raise ValueError('kind="cv+" needs the folds of cross-validation: fit with cv=5.')

    def fitted(train: Data) -> Fit:
        spectrum = train.spectrum(Want.path(searched.method, searched.stop))
        return Fit(*fit_at(spectrum, searched.method, searched.stop)[:2])

    found = FoldFits.of(searched, searched.splits, fitted)
    n = searched.rows.shape[0]
    if n is not None and sum(len(part.weights) for part in found.left_out) > n:
        raise ValueError('kind="cv+" needs folds that test no row twice: use KFold.')
    return found


KINDS = {"nested": nested_fits, "cv+": cross_fits}
"""Fits for each kind of interval."""


def refitted(searched: Searched, kind: str) -> FoldFits:
    """Return the fits for a kind of interval, made at the first call."""
    if kind not in searched.fits:
        searched.fits[kind] = KINDS[kind](searched)
    return searched.fits[kind]  # type: ignore[no-any-return]
