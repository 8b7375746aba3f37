r"""Prediction intervals from residuals and predictions of fits without some of the rows.

With the residuals e of left-out rows and the predictions :math:`\hat y_{-i}` of the fits without
each row, the ends of a jackknife+ interval are quantiles over all rows of
:math:`\hat y_{-i}(x) \mp |e_i|`; those of the jackknife are the prediction of the whole fit, minus
and plus a quantile of :math:`|e_i|`. CV+ takes the fits without the folds of cross-validation, at
the stop that they have chosen. The nested jackknife+ chooses method and stop anew without each row,
so that no row has a part in the choice of the stop by which its residual comes either.

References
----------
Barber, Candès, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from stoptime.paths import fit_at
from stoptime.spectrum.data import Data, Fit, Want, rows_of
from stoptime.stopping.rule import StopWarning
from stoptime.support.arrays import Floats, array_namespace, as_dtype, like, on_host
from stoptime.support.checks import positive_number
from stoptime.support.progress import progress_shown
from stoptime.support.user_warnings import warn_user

if TYPE_CHECKING:
    from stoptime.stopping.comparison import Search, Searched


def half_width(residuals: Any, observations: Floats, confidence: float) -> Floats:
    """Return half the width of jackknife intervals, for each target if there are several.

    The residuals of left-out rows have the shape of y; each row stands for so many observations.
    """
    confidence = positive_number("confidence", confidence, high=1.0)
    return _quantile(np.abs(on_host(residuals)), observations, confidence)


def around(centre: Any, half: Floats) -> Any:
    """Return the ends of intervals around predictions, along a new last axis."""
    width = as_dtype(like(centre, half), centre.dtype)
    return array_namespace(centre).stack([centre - width, centre + width], axis=-1)


def jackknife_plus(
    left_out: Callable[[Any], Any],
    rows: Any,
    residuals: Any,
    observations: Floats,
    confidence: float,
) -> Any:
    """Return lower and upper ends of intervals for a matrix of rows, along a new last axis.

    ``left_out`` returns the predictions for some rows by each of the fits without a row; residuals
    and observations are those of :func:`half_width`.
    """
    confidence = positive_number("confidence", confidence, high=1.0)
    sizes = np.abs(on_host(residuals))
    # 128 MB of left-out predictions are held while quantiles are taken
    height = max(1, 2**24 // sizes.size)
    blocks: Any = (rows[start : start + height] for start in range(0, rows.shape[0], height))
    # rows of an operator cannot be taken one by one
    blocks = [rows] if isinstance(rows, LinearOperator) else blocks
    ends = [_ends(left_out(block), sizes[:, None], observations, confidence) for block in blocks]
    return array_namespace(ends[0]).concat(ends, axis=0)


def _ends(given: Any, sizes: Floats, observations: Floats, confidence: float) -> Any:
    """Return the ends of intervals from left-out predictions, whose first axis are rows."""
    centre = on_host(given)
    if centre.ndim == 2 and np.ptp(observations) == 0:
        place = _place(observations, confidence)
        rows, place = _undecided(centre, sizes[:, 0], place)
        observations = observations[rows]
        # the lower end is the upper end of the negative response
        lower = -_at_place(sizes[rows] - centre[rows], place)
        upper = _at_place(sizes[rows] + centre[rows], place)
    else:
        lower = -_quantile(sizes - centre, observations, confidence)
        upper = _quantile(sizes + centre, observations, confidence)
    return like(given, np.stack([lower, upper], axis=-1))


def _needed(count: float, confidence: float) -> float:
    """Return how many observations a quantile has at or below it, one more observation counted."""
    # beyond the last of few observations there is no quantile; their largest value is taken
    return min(confidence * (count + 1), count) * (1 - 1e-12)


def _quantile(values: Floats, observations: Floats, confidence: float) -> Floats:
    """Return the quantile over the first axis at ``confidence``, one more observation counted."""
    live = observations > 0
    counts = observations[live]
    if np.ptp(counts) == 0:
        return _at_place(values[live], _place(counts, confidence))
    share = _needed(float(counts.sum()), confidence) / counts.sum()
    options: dict[str, Any] = {"axis": 0, "weights": counts, "method": "inverted_cdf"}
    return np.asarray(np.quantile(values[live], share, **options))


def _place(counts: Floats, confidence: float) -> int:
    """Return how many values are below the quantile, if all rows count alike."""
    return max(int(np.ceil(_needed(float(counts.sum()), confidence) / counts[0])), 1) - 1


def _at_place(values: Floats, place: int) -> Floats:
    """Return the value over the first axis that has so many below it."""
    return np.array(np.partition(values, place, axis=0)[place])


def _undecided(centre: Floats, sizes: Floats, place: int) -> tuple[NDArray[np.intp], int]:
    """Return the rows that may be at a place of sizes ± centre, and how many of them are below it.

    The predictions of a new row by all fits are close to each other, so that a row whose residual
    is far from the quantile of residuals is below or above in any case.
    """
    middle = np.partition(sizes, place)[place]
    room = (centre.max(axis=0) - centre.min(axis=0)).max()
    # with room for rounding
    room += 1e-12 * (np.abs(centre).max() + sizes.max())
    distance = sizes - middle
    rows = np.flatnonzero(~(np.abs(distance) > room))
    return rows, place - int(np.count_nonzero(distance < -room))


@dataclass(frozen=True)
class FoldFits:
    """Fits without each of the folds, and the residuals of each fold by the fit without it.

    ``sizes`` are absolute residuals of each target, ascending, and ``sums`` the sums of the weights
    up to each, from zero on.
    """

    fits: list[Fit]
    sizes: list[Floats]
    sums: list[Floats]
    n_observations: float

    @classmethod
    def of(cls, searched: Searched, splits: Any, fitted: Callable[[Data], Fit]) -> FoldFits:
        """Fit the training sets of folds."""
        search = cast("Search", searched.search)
        with progress_shown(search.verbose):
            pairs = searched.rows.left_out(splits, fitted)
        sizes = []
        sums = []
        for _, part in pairs:
            order = np.argsort(part.sizes, axis=0)
            sizes.append(np.take_along_axis(part.sizes, order, axis=0))
            sums.append(np.insert(np.cumsum(part.weights[order], axis=0), 0, 0.0, axis=0))
        return cls([fit for fit, _ in pairs], sizes, sums, searched.n_observations)

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

    def _by_bisection(self, centres: Floats, confidence: float) -> Floats:
        """Return the least v with centre + size ≤ v for as many observations as are needed."""
        weight = sum(float(sums[-1, 0]) for sums in self.sums)
        needed = _needed(self.n_observations, confidence) * weight / self.n_observations
        longest = max(sizes[-1].max() for sizes in self.sizes)
        low = centres.min(axis=0) - longest
        high = centres.max(axis=0) + longest
        for _ in range(64):  # more digits than a number has
            middle = (low + high) / 2
            parts = zip(self.sizes, self.sums, middle - centres, strict=True)
            enough = sum(_weight_up_to(*part) for part in parts) >= needed
            high = np.where(enough, middle, high)
            low = np.where(enough, low, middle)
        return np.asarray(high)


def _weight_up_to(sizes: Floats, sums: Floats, levels: Floats) -> Floats:
    """Return the weight of the rows whose sizes are at most these levels, (m, n_targets)."""
    columns = zip(sizes.T, sums.T, levels.T, strict=True)
    found = [total[np.searchsorted(one, level, side="right")] for one, total, level in columns]
    return np.stack(found, axis=-1)


def _nested_fits(searched: Searched) -> FoldFits:
    """Return the fits without each row, each with a method and a stop of its own."""
    if searched.splits is not None:
        raise ValueError('kind="nested" needs rule="loo" or another rule without folds: use "cv+".')
    every = np.arange(rows_of(searched.rows).n_rows)
    splits = searched.rows.splits([(np.delete(every, row), [row]) for row in every])
    if len(splits) > 500:  # some seconds
        warn_user(
            f"Choosing the stop anew without each row takes {len(splits)} fits: "
            'kind="jackknife+" takes none, and covers as often from about 300 rows on.',
            UserWarning,
        )

    def fitted(train: Data) -> Fit:
        with warnings.catch_warnings():
            # the fit to all rows has warned already
            warnings.simplefilter("ignore", StopWarning)
            problem, choice = cast("Search", searched.search).best(train)
        return Fit(*fit_at(problem.spectrum, problem.tuned, choice.stop)[:2])

    return FoldFits.of(searched, splits, fitted)


def _cross_fits(searched: Searched) -> FoldFits:
    """Return the fits without each fold, at the chosen stop."""
    if searched.splits is None:
        raise ValueError('kind="cv+" needs the folds of cross-validation: fit with cv=5.')

    def fitted(train: Data) -> Fit:
        spectrum = train.spectrum(Want.path(searched.method, searched.stop))
        return Fit(*fit_at(spectrum, searched.method, searched.stop)[:2])

    found = FoldFits.of(searched, searched.splits, fitted)
    n = searched.rows.shape[0]
    if n is not None and sum(len(sizes) for sizes in found.sizes) > n:
        raise ValueError('kind="cv+" needs folds that test no row twice: use KFold.')
    return found


def of_refits(searched: Searched, kind: str, rows: Any, confidence: float) -> Any:
    """Return intervals of the kind "nested" or "cv+", whose fits are made at the first call."""
    if kind not in searched.fits:
        make = _nested_fits if kind == "nested" else _cross_fits
        searched.fits[kind] = make(searched)
    return searched.fits[kind].interval(rows, confidence)
