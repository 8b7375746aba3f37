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
from numpy.typing import ArrayLike

from stoptime.left_out.curve import ErrorCurve
from stoptime.left_out.residuals import LeftOut
from stoptime.left_out.rows import WITHOUT_ROWS, Rows
from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import decompose, factored, validated
from stoptime.spectrum.kinds import MATRIX_FREE, kind_of
from stoptime.spectrum.krylov.spaces import LARGEST_GRAM
from stoptime.support.arrays import Floats
from stoptime.support.checks import list_of_stops, nonnegative

__all__ = ["leave_one_out", "left_out_residuals"]


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
    left_out = _prepared(X, y, get_method(method), sample_weight, fit_intercept, spectrum)
    return left_out.errors(stops, standard_errors=standard_errors, verbose=verbose)


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
    left_out = _prepared(X, y, get_method(method), sample_weight, fit_intercept, spectrum)
    n_targets = left_out.rows.data.y.shape[1]
    if stop.shape not in {(), (n_targets,)}:
        raise ValueError(
            f"stop must be one number or one per target ({n_targets}); got shape {stop.shape}."
        )
    return left_out.residuals(stop)


def _prepared(
    X: Any,
    y: ArrayLike,
    method: Method,
    sample_weight: ArrayLike | None,
    fit_intercept: bool,
    spectrum: Spectrum | None,
) -> LeftOut:
    """Factor the data unless that is done, and tune the method to all rows."""
    if spectrum is None:
        # left-out residuals are built on the least-squares fit, which must be resolved at any stop
        free = kind_of(X) in MATRIX_FREE
        if free and (kind_of(X) == "operator" or min(X.shape) > LARGEST_GRAM):
            raise ValueError(WITHOUT_ROWS)
        data = X, y, sample_weight, fit_intercept
        spectrum = factored(validated(*data)) if free else decompose(*data)
    elif spectrum.fit_intercept != fit_intercept:
        raise ValueError(
            f"fit_intercept={fit_intercept}, but the spectrum was made with the opposite."
        )
    elif spectrum.krylov is None and spectrum.reach < np.inf:
        raise ValueError(
            f"{spectrum} keeps its digits up to a gain of {spectrum.reach:.3g} only, and leaving rows out "
            'needs all of it: decompose without max_gain, or with solver="svd".'
        )
    rows = Rows.validated(X, y, sample_weight, spectrum)
    return LeftOut(
        rows, method.tuned_without_rows(spectrum.padded_eigenvalues, float(rows.scales.max()))
    )
