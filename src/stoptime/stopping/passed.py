"""Rules on rows that have passed by: what statistics alone still tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from stoptime.left_out.curve import FEWEST_FOLDS, ErrorCurve, standard_error
from stoptime.paths import Path, draw
from stoptime.spectrum.streamed.products import by_statistics
from stoptime.spectrum.streamed.statistics import Statistics
from stoptime.stopping.problem import Problem
from stoptime.support.arrays import Array, Floats

__all__ = ["errors_of_folds", "mean_squared_error"]

CHUNK = 2**22  # entries of one table of coefficients


def mean_squared_error(path: Path, statistics: Statistics) -> Floats:
    r"""Return the mean squared error of a path on rows of which only statistics are left.

    .. math:: \frac1w\sum_i w_i(y_i - x_i^Tb - a)^2
        = (\bar y - \bar x^Tb - a)^2 + P - 2b^Tc + b^T\hat\Sigma b

    Parameters
    ----------
    path : Path
        Coefficients b and intercepts a at many stops.
    statistics : Statistics
        Means, products :math:`\hat\Sigma` and c of features with features and targets, and powers P.

    Returns
    -------
    array of shape (n_stops, n_targets)

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import path
    >>> X, y = load_diabetes(return_X_y=True)
    >>> drawn = path(X, y, "ridge", [1e3, 1e4])
    >>> mean_squared_error(drawn, Statistics.of(X, y))[:, 0].round(2)
    array([3014.06, 2878.01])
    >>> ((drawn.predict(X) - y) ** 2).mean(axis=1).round(2)
    array([3014.06, 2878.01])
    """
    coef = path.coef.reshape(*path.coef.shape[:2], -1)
    bias = statistics.target_mean - np.tensordot(coef, statistics.feature_mean, axes=(1, 0))
    bias -= path.intercept.reshape(bias.shape)
    images = np.einsum("tpq,pr->trq", coef, statistics.gram, optimize=True) - 2 * statistics.cross
    spread = statistics.target_power + np.einsum("tpq,tpq->tq", coef, images)
    return np.asarray(bias**2 + np.maximum(spread, 0))


def errors_of_folds(problem: Problem, parts: Mapping[int, Statistics], stops: Array) -> ErrorCurve:
    """Cross-validate on statistics of the folds: each is tested on, and all others add up to train on."""
    folds = [parts[fold] for fold in sorted(parts) if fold >= 0]
    weights = np.array([fold.weight for fold in folds])
    errors = np.array([
        _fold_errors(problem, train, fold, stops)
        for fold, train in zip(folds, _others(folds, parts.get(-1)), strict=True)
        if fold.weight > 0
    ])  # fmt: skip
    weights = weights[weights > 0]
    mean = np.tensordot(weights / weights.sum(), errors, axes=1)
    # of fewer there is none: the rows over which it could be taken are gone
    deviation = standard_error(errors) if len(errors) >= FEWEST_FOLDS else None
    if problem.spectrum.response.ndim == 1:
        mean, deviation = mean[:, 0], None if deviation is None else deviation[:, 0]
    return ErrorCurve(stops, mean, deviation)


def _fold_errors(problem: Problem, train: Statistics, test: Statistics, stops: Array) -> Floats:
    spectrum = by_statistics(train, problem.spectrum.fit_intercept)
    height = max(1, CHUNK // (train.n_features * train.n_targets))
    starts = range(0, len(stops), height)
    drawn = (draw(spectrum, problem.method, stops[start : start + height]) for start in starts)
    return np.concatenate([mean_squared_error(path, test) for path in drawn])


def _others(folds: list[Statistics], always: Statistics | None) -> Iterator[Statistics]:
    """Yield what all other folds add up to: sums lose no digits, as differences would."""
    if len(folds) == 1 and always is None:
        raise ValueError("cv leaves no row to train on: there must be at least two folds.")
    after: list[Statistics | None] = [None]
    for fold in reversed(folds[1:]):
        after.append(_sum(fold, after[-1]))
    before = always
    for fold, rest in zip(folds, reversed(after), strict=True):
        others = _sum(before, rest)
        if others is not None:
            yield others
        before = _sum(before, fold)


def _sum(a: Statistics | None, b: Statistics | None) -> Statistics | None:
    return b if a is None else a if b is None else a + b
