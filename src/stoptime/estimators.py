"""scikit-learn estimators: validate, call, store."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.backends import decompose
from stoptime.backends.dense import DTYPES
from stoptime.methods import Method, get_method
from stoptime.methods.base import nonnegative
from stoptime.path import draw, largest_gain
from stoptime.spectrum import Floats, Spectrum
from stoptime.stopping import estimate_oracle

__all__ = ["StoppedRegressor"]


class StoppedRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Least squares fitted by a method and stopped early.

    .. math:: \hat\beta(t) = V\varphi(S, t)z

    Parameters
    ----------
    method : str or Method, default="nesterov-flow"
        What draws the path; names are the keys of ``stoptime.METHODS``.
    stop : float or None, default=None
        Where to stop: the time of a flow, 1/penalty of ridge; ``inf`` is least squares. None
        estimates noise and signal by marginal likelihood and stops where the method has the best
        guarantee against the best ridge.
    fit_intercept : bool, default=True
        Whether to fit an intercept.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        Coefficients.
    intercept_ : float or array of shape (n_targets,)
        Intercept, zero if not fitted.
    stop_ : float
        Where the path was stopped.
    method_ : Method
        The method, tuned to the data.
    oracle_ : Oracle or None
        Noise, signal and penalty behind ``stop_``; None where ``stop`` was given.
    degrees_of_freedom_ : float
        Trace of the map from the response to the fit.
    n_features_in_ : int
        Number of features seen in fit.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedRegressor("nesterov-flow").fit(X, y)
    >>> f"stop {model.stop_:.0f}, R² {model.score(X, y):.2f}"
    'stop 209, R² 0.52'
    """

    def __init__(
        self,
        method: str | Method = "nesterov-flow",
        stop: float | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.method = method
        self.stop = stop
        self.fit_intercept = fit_intercept

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the coefficients at the stop.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            float32 stays float32.
        y : array-like of shape (n,) or (n, n_targets)
            The response.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 is the row twice.

        Returns
        -------
        self
        """
        method = get_method(self.method)
        X, y = _validated(self, X, y)
        stop = self.stop if self.stop is None else _one_stop(self.stop)
        self.oracle_ = None

        def factor(**options: Any) -> Spectrum:
            return decompose(X, y, sample_weight, self.fit_intercept, **options)

        if stop is None:
            spectrum = factor(solver="gram")
            self.oracle_ = estimate_oracle(spectrum)
            stop = self.oracle_.stop(method, spectrum)
            if largest_gain(method, stop) > spectrum.reach:
                spectrum = factor(solver="svd")
                self.oracle_ = estimate_oracle(spectrum)
                stop = self.oracle_.stop(method, spectrum)
        else:
            spectrum = factor(max_gain=largest_gain(method, stop))
        path = draw(spectrum, method, np.array([stop]))
        self.method_, self.stop_ = path.method, float(stop)
        self.coef_, self.intercept_ = path.coef[0].T, path.intercept[0]
        self.degrees_of_freedom_ = float(path.degrees_of_freedom[0])
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the response.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.

        Returns
        -------
        array of shape (n,) or (n, n_targets)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=DTYPES)
        return np.asarray(X @ self.coef_.T + self.intercept_)


def _validated(estimator: BaseEstimator, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Check shapes and types as scikit-learn does; NaN in X are found in the products later."""
    return validate_data(  # type: ignore[no-any-return]
        estimator,
        X,
        y,
        multi_output=True,
        y_numeric=True,
        dtype=DTYPES,
        ensure_all_finite=False,
    )


def _one_stop(stop: Any) -> float:
    value = nonnegative("stop", stop, infinite=True)
    if value.ndim:
        raise ValueError(f"stop must be one number or None; got shape {value.shape}.")
    return float(value)
