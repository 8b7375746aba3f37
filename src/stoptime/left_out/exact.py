"""Exact leave-one-out along a whole path, without a single refit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.predictions import LeftOutFits, LeftOutRows
from stoptime.left_out.residuals import LeftOut
from stoptime.left_out.rows import Rows
from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.recurrence import tuned_without_rows
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Want, rows_of
from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.kinds import rows_in_memory
from stoptime.support.arrays import Array, Floats
from stoptime.support.checks import list_of_stops, nonnegative
from stoptime.support.progress import progress_shown


def leave_one_out(  # noqa: PLR0913 - the data have five parameters
    X: ArrayLike,
    y: ArrayLike,
    method: str | Method,
    stops: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    spectrum: Spectrum | None = None,
    penalty_matrix: Any = None,
    standard_errors: bool = True,
    verbose: bool = False,
) -> ErrorCurve:
    r"""Return the exact leave-one-out error of a method at many stops.

    .. math:: \sum_i w_i e_i(t)^2 \Big/ \sum_i w_i, \qquad e_i(t) = y_i - \hat y_{-i}(t)

    with :math:`\hat y_{-i}` the prediction for row i by the path fitted without it; intercept,
    means and normalisation are those of the remaining rows. Parameters that a method takes from
    the spectrum ("critical" damping) keep the value they have on all rows.

    Parameters
    ----------
    X, y, sample_weight, fit_intercept, penalty_matrix
        Data; see :func:`stoptime.decompose`. Leaving a row out removes all its weight. Scales of
        "standardise" keep the value they have on all rows.
    method, stops : Method or str, and array-like of shape (n_stops,)
        The method and non-negative stops; ``inf`` is least squares.
    spectrum : Spectrum, optional
        The spectrum of the same data, if it has been computed.
    standard_errors : bool, default=True
        Whether standard errors of the mean over the rows are computed too; with many targets they
        take longer.
    verbose : bool, default=False
        Whether work of more than a few seconds shows its progress.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> loo = leave_one_out(X, y, "accelerated-flow", [10, 100, 1000])
    >>> loo.errors.round(1)
    array([5511.6, 3020.5, 3003.1])
    """
    stops = list_of_stops(stops)
    left_out, tuned = _prepared(
        X, y, method, sample_weight, fit_intercept, spectrum, penalty_matrix
    )
    with progress_shown(verbose):
        return left_out.errors(tuned, stops, standard_errors=standard_errors)


def left_out_residuals(
    X: ArrayLike,
    y: ArrayLike,
    method: str | Method,
    stop: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    spectrum: Spectrum | None = None,
    penalty_matrix: Any = None,
) -> Floats:
    r"""Return every row's residual from the path fitted without it, in the shape of y.

    .. math:: e_i(t) = y_i - \hat y_{-i}(t)

    Parameters
    ----------
    X, y, method, sample_weight, fit_intercept, spectrum, penalty_matrix
        As for :func:`leave_one_out`. A row of weight zero has the residual of the whole fit.
    stop : float or array-like of shape (n_targets,)
        Where to stop: one number for all targets, or one for each.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> left_out_residuals(X, y, "accelerated-flow", 100.0)[:3].round(2)
    array([-55.15,   5.21, -33.76])
    """
    left_out, tuned = _prepared(
        X, y, method, sample_weight, fit_intercept, spectrum, penalty_matrix
    )
    return left_out.residuals(tuned, _checked_stop(left_out, stop))


def left_out_predictions(
    X: ArrayLike,
    y: ArrayLike,
    method: str | Method,
    stop: ArrayLike,
    *,
    new: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    fit_intercept: bool = True,
    spectrum: Spectrum | None = None,
    penalty_matrix: Any = None,
) -> Floats:
    r"""Return predictions at new rows by the paths that are fitted without each row.

    .. math:: \hat y_{-i}(x_0) = \mathrm{Re}\sum_k\omega_k\Bigl[x_0^T\hat\beta(\lambda_k)
        - \frac{x_i^TA_k^{-1}x_0}{n}\,\frac{r_i(\lambda_k)}{1 - h_i(\lambda_k)}\Bigr],
        \qquad A_k = X^TX/n + \lambda_k I

    for data without intercept. Intercept, means and normalisation are those of the remaining rows.

    Parameters
    ----------
    X, y, method, sample_weight, fit_intercept, spectrum, penalty_matrix
        As for :func:`leave_one_out`. Without a row of weight zero the fit is the whole fit.
    stop : float or array-like of shape (n_targets,)
        Where to stop: one number for all targets, or one for each.
    new : array-like or sparse matrix of shape (n_new, n_features), optional
        The new rows. By default every row is predicted by the path without it.

    Returns
    -------
    array of shape (n, n_new) or (n, n_new, n_targets)
        In row i the predictions without row i; in the shape of y if ``new`` is None.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> left_out_predictions(X, y, "accelerated-flow", 100.0, new=X[:2]).round(2)[:3]
    array([[206.15,  69.78],
           [205.35,  69.79],
           [205.88,  69.91]])
    """
    left_out, tuned = _prepared(
        X, y, method, sample_weight, fit_intercept, spectrum, penalty_matrix
    )
    stop = _checked_stop(left_out, stop)
    sample = left_out.rows.data
    if new is None:
        return LeftOutRows.of(sample, left_out.residuals(tuned, stop)).predictions
    given = rows_in_memory(new, sample.y, name="new")
    if given.shape[1] != sample.n_features:
        raise ValueError(f"new has {given.shape[1]} features, but X has {sample.n_features}.")
    return LeftOutFits(left_out.rows, tuned, stop).at(given)


def _checked_stop(left_out: LeftOut, stop: ArrayLike) -> Array:
    found = nonnegative("stop", stop, infinite=True)
    n = left_out.rows.data.n_targets
    if found.shape not in {(), (n,)}:
        raise ValueError(
            f"stop must be one number or one per target ({n}); got shape {found.shape}."
        )
    return found


def _prepared(
    X: Any, y: Any, method: Any, weight: Any, fit_intercept: bool, spectrum: Any, penalty: Any
) -> tuple[LeftOut, Filter]:
    """Factor the data unless a spectrum is given, and tune the method to all rows."""
    data = open_data(X, y, weight, fit_intercept, penalty_matrix=penalty)
    sample = rows_of(data)
    if spectrum is None:
        # left-out residuals are built on the least-squares fit, which must be exact at any stop
        spectrum = data.spectrum(Want(every=True))
    elif spectrum.fit_intercept != data.fit_intercept:
        given = data.fit_intercept
        raise ValueError(f"fit_intercept={given}, but the spectrum has the opposite setting.")
    elif penalty is not None and spectrum.geometry is None:
        raise ValueError("The spectrum was computed without penalty_matrix: give it to decompose.")
    elif spectrum.accuracy.complete and spectrum.accuracy.gain < np.inf:
        raise ValueError(
            f"{spectrum} is accurate only up to a gain of {spectrum.accuracy.gain:.3g}, but "
            "leave-one-out needs every gain: call decompose without max_gain, or with "
            'solver="svd".'
        )
    rows = Rows(sample, spectrum)
    scale = float(rows.scales.max())
    tuned = tuned_without_rows(get_method(method), spectrum.padded_eigenvalues, scale)
    return LeftOut(rows), as_filter(tuned)
