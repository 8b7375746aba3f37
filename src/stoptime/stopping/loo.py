r"""Exact leave-one-out along a whole path, without a single refit.

Ridge has its classical shortcut. Every other method is a mixture of ridges with complex penalties
(:mod:`stoptime.stopping.mixture`), and the left-out residual is linear in the shrinkage: it is the same
mixture of the ridges' left-out residuals. For all rows and all stops that is a few matrix products.
Where the path oscillates too often for a mixture, the eigenvalues that remain without the row are found
instead (:mod:`stoptime.stopping.secular`), at a price that does not depend on the stop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.arrays import empty, like, on_host
from stoptime.backends import decompose, factored, validated
from stoptime.backends.kinds import MATRIX_FREE, kind_of
from stoptime.backends.matrix_free import LARGEST_GRAM
from stoptime.methods import Method, get_method
from stoptime.methods.base import Array, list_of_stops, nonnegative
from stoptime.progress import progress
from stoptime.spectrum import Floats, Spectrum
from stoptime.stopping.choice import ErrorCurve
from stoptime.stopping.routes import BySecular
from stoptime.stopping.routing import MANY_TARGETS, Routing
from stoptime.stopping.rows import WITHOUT_ROWS, Rows
from stoptime.stopping.skeleton import Skeleton, curve_skeleton

TARGETS_AT_ONCE = 4096  # so that blocks of rows stay tall enough for their products

__all__ = ["leave_one_out", "left_out_errors", "left_out_residuals", "residuals_at"]


def leave_one_out(
    X: ArrayLike,
    y: ArrayLike,
    method: str | Method,
    stops: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    spectrum: Spectrum | None = None,
    standard_errors: bool = True,
    verbose: bool = False,
) -> ErrorCurve:
    r"""Return the exact leave-one-out error of a method at many stops.

    .. math:: \sum_i w_i e_i(t)^2 \Big/ \sum_i w_i, \qquad e_i(t) = y_i - \hat y_{-i}(t)

    with :math:`\hat y_{-i}` the prediction for row i by the path fitted without it, intercept, means and
    normalisation by the remaining weights included. Parameters that a method takes from the spectrum
    ("critical" damping) keep the value they have on all rows.

    Parameters
    ----------
    X, y : array-like
        Data; see :func:`stoptime.decompose`.
    method : Method or str
        What draws the path.
    stops : array-like of shape (n_stops,)
        Non-negative; ``inf`` is least squares.
    sample_weight : array-like of shape (n,), optional
        Leaving a row out leaves all its weight out.
    fit_intercept : bool, default=True
        Whether to centre X and y.
    spectrum : Spectrum, optional
        That of the same data, if it is there already.
    standard_errors : bool, default=True
        Whether the standard errors of the mean are wanted too; with many targets they take longer.
    verbose : bool, default=False
        Whether work of more than a few seconds shows its progress.

    Returns
    -------
    ErrorCurve
        Weighted mean squared left-out residuals, and their standard errors over the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> loo = leave_one_out(X, y, "nesterov-flow", [10, 100, 1000])
    >>> loo.errors.round(1)
    array([5511.6, 3020.5, 3003.1])
    """
    stops = list_of_stops(stops)
    rows, tuned = _prepared(X, y, get_method(method), sample_weight, fit_intercept, spectrum)
    return left_out_errors(rows, tuned, stops, standard_errors=standard_errors, verbose=verbose)


def left_out_errors(
    rows: Rows, method: Method, stops: Array, *, standard_errors: bool, verbose: bool = False
) -> ErrorCurve:
    """Return the left-out error of a method that is tuned to the rows; see :func:`leave_one_out`."""
    parts = [
        _errors(part, method, stops, standard_errors=standard_errors, verbose=verbose)
        for part in rows.target_blocks(TARGETS_AT_ONCE)
    ]
    errors = np.concatenate([part[0] for part in parts], axis=1)
    deviations = np.concatenate([part[1] for part in parts], axis=1) if standard_errors else None
    if rows.data.single_target:
        errors, deviations = errors[:, 0], None if deviations is None else deviations[:, 0]
    return ErrorCurve(stops, errors, deviations)


def _errors(
    rows: Rows, method: Method, stops: Array, *, standard_errors: bool, verbose: bool
) -> tuple[Array, Array]:
    """Return mean squares and, where wanted, their standard errors, each (n_stops, n_targets)."""
    curve = _thinned(rows, method, stops, fourths=standard_errors)
    routing = Routing(rows, method, stops[curve.bones])
    parts = list(routing.parts(np.flatnonzero(rows.weights)))
    sums = _Sums(len(routing.stops), rows.data.y.shape[1], fourths=standard_errors)
    for index, route in progress(parts, "leave-one-out", verbose):
        block = rows.block(index, on_host=isinstance(route, BySecular))
        for places, residuals in routing.residuals(block, route):
            sums.add(places, block.weight, residuals)
    errors = rows.unit**2 * curve.extended(sums.squares)
    return errors, rows.unit**2 * sums.deviations(rows.weights, curve) if standard_errors else errors


def left_out_residuals(
    X: ArrayLike,
    y: ArrayLike,
    method: str | Method,
    stop: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    spectrum: Spectrum | None = None,
) -> Floats:
    r"""Return every row's residual from the path fitted without it.

    .. math:: e_i(t) = y_i - \hat y_{-i}(t)

    Parameters
    ----------
    X, y, method, sample_weight, fit_intercept, spectrum
        As for :func:`leave_one_out`. A row of weight zero has the residual of the whole fit.
    stop : float or array-like of shape (n_targets,)
        Where to stop, for every target alike or each by its own.

    Returns
    -------
    array of the shape of y

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> left_out_residuals(X, y, "nesterov-flow", 100.0)[:3].round(2)
    array([-55.15,   5.21, -33.76])
    """
    stop = nonnegative("stop", stop, infinite=True)
    rows, tuned = _prepared(X, y, get_method(method), sample_weight, fit_intercept, spectrum)
    n_targets = rows.data.y.shape[1]
    if stop.shape not in {(), (n_targets,)}:
        raise ValueError(f"stop must be one number or one per target ({n_targets}); got shape {stop.shape}.")
    return residuals_at(rows, tuned, stop)


def residuals_at(rows: Rows, method: Method, stop: Array) -> Floats:
    """Return the residuals of a method that is tuned to the rows; see :func:`left_out_residuals`."""
    stops, which = np.unique(np.broadcast_to(stop, rows.data.y.shape[1]), return_inverse=True)
    routing = Routing(rows, method, stops, which)
    out = empty(rows.data.y, tuple(rows.data.y.shape))
    for index, route in routing.parts(np.arange(len(out))):
        block = rows.block(index, on_host=isinstance(route, BySecular))
        own = routing.own_residuals(block, route)
        out[index] = like(out, own * like(own, rows.unit))
    out = rows.data.as_given(out)
    return out[:, 0] if rows.data.single_target else out


def _prepared(
    X: Any,
    y: ArrayLike,
    method: Method,
    sample_weight: ArrayLike | None,
    fit_intercept: bool,
    spectrum: Spectrum | None,
) -> tuple[Rows, Method]:
    """Factor the data unless that is done, and tune the method to all rows."""
    if spectrum is None:
        # left-out residuals are built on the least-squares fit, which must be resolved at any stop
        free = kind_of(X) in MATRIX_FREE
        if free and (kind_of(X) == "operator" or min(X.shape) > LARGEST_GRAM):
            raise ValueError(WITHOUT_ROWS)
        data = X, y, sample_weight, fit_intercept
        spectrum = factored(validated(*data)) if free else decompose(*data)
    elif spectrum.fit_intercept != fit_intercept:
        raise ValueError(f"fit_intercept={fit_intercept}, but the spectrum was made with the opposite.")
    elif spectrum.krylov is None and spectrum.reach < np.inf:
        raise ValueError(
            f"{spectrum} keeps its digits up to a gain of {spectrum.reach:.3g} only, and leaving rows out "
            'needs all of it: decompose without max_gain, or with solver="svd".'
        )
    rows = Rows.validated(X, y, sample_weight, spectrum)
    return rows, method.tuned_without_rows(spectrum.padded_eigenvalues, float(rows.scales.max()))


def _thinned(rows: Rows, method: Method, stops: Array, *, fourths: bool) -> Skeleton:
    """Leave out stops whose sums follow from others', where targets are so many that it pays."""
    between = np.flatnonzero((stops > 0) & np.isfinite(stops))
    if rows.data.y.shape[1] < MANY_TARGETS or between.size == 0:
        return Skeleton.whole(len(stops))
    inner = curve_skeleton(method, stops[between], rows.reach, fourths=fourths, accuracy=rows.accuracy)
    ends = np.setdiff1d(np.arange(len(stops)), between)
    matrix = np.hstack([inner.matrix, np.zeros((len(inner.others), len(ends)))])
    return Skeleton(np.concatenate([between[inner.bones], ends]), between[inner.others], matrix)


class _Sums:
    """Sums over rows of what mean squares and their standard errors need, each (n_stops, n_targets)."""

    def __init__(self, n_stops: int, n_targets: int, *, fourths: bool) -> None:
        self.squares = np.zeros((n_stops, n_targets))
        self.weighted_squares, self.fourths = np.zeros((2, n_stops, n_targets if fourths else 0))

    def add(self, places: NDArray[np.intp], weight: Array, residuals: Array) -> None:
        """Add residuals of shape (n_places, n_rows, n_targets); they are overwritten."""
        residuals *= residuals
        self.squares[places] += on_host(weight @ residuals)
        if self.fourths.size:
            self.weighted_squares[places] += on_host(weight**2 @ residuals)
            residuals *= residuals
            self.fourths[places] += on_host(weight**2 @ residuals)

    def deviations(self, weights: Array, curve: Skeleton) -> Array:
        """Return the standard error of the mean square m, the root of n/(n - 1) Σ w²(e² - m)²."""
        n, mean = np.count_nonzero(weights), curve.extended(self.squares)
        variance = curve.extended(self.fourths) - 2 * mean * curve.extended(self.weighted_squares)
        variance += mean**2 * (weights @ weights)
        return np.asarray(np.sqrt(np.maximum(variance, 0) * n / (n - 1)))
