"""scikit-learn estimators: validate, call, store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from stoptime.estimators.intervals import jackknife, sizes_of
from stoptime.estimators.validation import opened_data, predictions, scored
from stoptime.estimators.versioned import Versioned
from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.paths import at_stop, at_stops
from stoptime.spectrum.data import Data, goals
from stoptime.stopping.problem import Problem
from stoptime.stopping.registry import get_rule
from stoptime.stopping.rule import Choice, Rule
from stoptime.stopping.sure_discrepancy import Discrepancy
from stoptime.support.arrays import Floats, on_host
from stoptime.support.checks import nonnegative
from stoptime.theory.calibration import equivalent_penalty
from stoptime.theory.oracle import plug_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["StoppedRegressor", "StoppedRegressorCV"]


class _LinearRegressor(MultiOutputMixin, RegressorMixin, Versioned):
    """Prediction from ``coef_`` and ``intercept_``."""

    n_features_in_: int
    coef_: Floats
    intercept_: Floats
    fit_intercept: bool
    _streams = True  # whether it can be fitted to streamed data

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Data:
        """Return the data, validated once."""
        return opened_data(self, X, y, sample_weight, bool(self.fit_intercept))

    def _keep(self, coef: Floats, intercept: Floats) -> None:
        self.coef_, self.intercept_ = coef, intercept

    def predict(self, X: ArrayLike) -> Floats:
        """Predict the response.

        Parameters
        ----------
        X : array-like, sparse matrix or LinearOperator of shape (n, n_features)
            New rows.

        Returns
        -------
        array of shape (n,) or (n, n_targets)
            Lazy where X is a Dask collection.
        """
        check_is_fitted(self)
        return predictions(self, X)  # type: ignore[no-any-return]

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return R², the share of the variance of y that is predicted.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows to predict; chunks as well.
        y : array-like of shape (n,) or (n, n_targets)
            Their response, where X does not hold it.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        """
        check_is_fitted(self)
        if y is None and self._streams:
            response, predicted, weights = scored(self, X, sample_weight)
            return float(r2_score(response, predicted, sample_weight=weights))
        weight = None if sample_weight is None else on_host(sample_weight)
        return float(r2_score(on_host(y), on_host(self.predict(X)), sample_weight=weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class StoppedRegressor(_LinearRegressor):
    r"""Least squares fitted by a method and stopped early.

    .. math:: \hat\beta(t) = V\varphi(S, t)z

    Parameters
    ----------
    method : str or Method, default="nesterov-flow"
        What draws the path; names are the keys of ``stoptime.METHODS`` and ``stoptime.ITERATIONS``.
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
        Trace of the map from the response to the fit; NaN for a Krylov space without random probes.
    krylov_ : Krylov or None
        The error and the products of a Krylov space; None where all eigenvalues were found.
    n_features_in_ : int
        Number of features seen in fit.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedRegressor("nesterov-flow").fit(X, y)
    >>> f"stop {model.stop_:.0f}, R² {model.score(X, y):.2f}"
    'stop 201, R² 0.51'
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

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the coefficients at the stop.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or any other data that decompose takes
            float32 stays float32.
        y : array-like of shape (n,) or (n, n_targets)
            The response, where X does not hold it.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 is the row twice.

        Returns
        -------
        self
        """
        method = get_method(self.method)
        data = self._opened(X, y, sample_weight)
        stop = self.stop if self.stop is None else _one_stop(self.stop)
        self.oracle_ = None
        if stop is None:
            spectrum, self.oracle_, stop = plug_in(data, method)
        else:
            spectrum = data.spectrum(goals(method, stop))
        self.method_ = method.tuned_to(spectrum.padded_eigenvalues)
        self.stop_ = float(stop)
        coef, intercept, self.degrees_of_freedom_ = at_stop(spectrum, self.method_, self.stop_)
        self.krylov_ = spectrum.krylov
        self._keep(coef, intercept)
        return self


class StoppedRegressorCV(_LinearRegressor):
    r"""Least squares stopped where the estimated prediction error is least.

    .. math:: \hat t = \arg\min_t \frac1n\sum_i\bigl(y_i - x_i^T\hat\beta_{-i}(t)\bigr)^2

    by default, with :math:`\hat\beta_{-i}` the path without row i: exact leave-one-out, at about the
    price of one factorisation.

    Parameters
    ----------
    method : str, Method or list of them, default="nesterov-flow"
        What draws the path. Of a list, the one with the least error is taken.
    stops : array-like, int or None, default=None
        An array is chosen among exactly. None takes a grid from the spectrum and a number its size;
        the choice is then refined between grid points.
    cv : int, splitter or iterable, optional
        Any scikit-learn splitter; replaces ``rule``.
    rule : str or Rule, default="loo"
        "loo", "path-gcv", "gcv", "sure", "discrepancy", "plug-in", "one-standard-error", or an object
        such as ``HoldOut(X_val, y_val)``.
    per_target : bool, default=False
        Whether each target is stopped on its own.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    verbose : bool, default=False
        Whether work of more than a few seconds shows its progress. Changes no number.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        Coefficients, fitted to all rows.
    intercept_ : float or array of shape (n_targets,)
        Intercept, zero if not fitted.
    stop_ : float or array of shape (n_targets,)
        Where the path was stopped.
    stops_ : array of shape (n_stops,)
        Where the error was estimated.
    errors_ : array of shape (n_stops,) or (n_stops, n_targets)
        Mean squared error there.
    choice_ : Choice
        Stop, error, standard error, curve, and why.
    method_ : Method
        The method that was chosen, tuned to the data.
    left_out_residuals_ : array like y, or None
        Each row's residual from the fit without it; None for 16 targets or more, for conjugate gradients,
        and where X is an operator or too large a sparse matrix for all its eigenvalues.
    degrees_of_freedom_ : float or array of shape (n_targets,)
        Trace of the map from the response to the fit; NaN for a Krylov space without random probes.
    krylov_ : Krylov or None
        The error and the products of the Krylov space of all rows; None where all eigenvalues were found.
    n_features_in_ : int
        Number of features seen in fit.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedRegressorCV("nesterov-flow").fit(X, y)
    >>> model.choice_.message
    'least loo error at 298 stops'
    """

    def __init__(
        self,
        method: str | Method | Sequence[str | Method] = "nesterov-flow",
        stops: ArrayLike | int | None = None,
        cv: Any = None,
        rule: str | Rule = "loo",
        per_target: bool = False,
        fit_intercept: bool = True,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.stops = stops
        self.cv = cv
        self.rule = rule
        self.per_target = per_target
        self.fit_intercept = fit_intercept
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose the stop and fit the coefficients there, to all rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or any other data that decompose takes
            float32 stays float32. Rows that are not in memory are read once, and need ``cv`` or a rule
            other than "loo".
        y : array-like of shape (n,) or (n, n_targets)
            The response, where X does not hold it.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 is the row twice, except that both leave together.
        groups : array-like of shape (n,), optional
            For splitters that keep groups together.

        Returns
        -------
        self
        """
        candidates: list[Any] = (
            list(self.method) if isinstance(self.method, list | tuple) else [self.method]
        )
        methods = [get_method(method) for method in candidates]
        if not methods:
            raise ValueError("method must name at least one method; got an empty list.")
        rule = get_rule(self.rule, self.cv)
        if len(methods) > 1 and isinstance(rule, Discrepancy):
            raise ValueError(
                "The discrepancy principle cannot compare methods: give one, or another rule."
            )
        data = self._opened(X, y, sample_weight)
        if data.n_rows == 1:
            raise ValueError("Choosing a stop needs at least 2 rows; got n_samples=1.")
        if rule.needs_rows:
            data.check_rows()
        grouping = _grouping(groups, data)
        rule = rule.fixed(data, grouping, verbose=self.verbose)
        spectrum = data.opened(
            methods,
            self.stops,
            rows=rule.needs_rows,
            trace=rule.needs_trace,
            verbose=bool(self.verbose),
        )
        per_target = self.per_target and not data.single_target
        # one method after the other, so that what one remembers of rows is gone before the next
        problems = (Problem(data, one, spectrum, grouping, self.verbose) for one in methods)
        chosen = ((one, rule.choose(one, self.stops, per_target=per_target)) for one in problems)
        return self._store(*min(chosen, key=lambda pair: float(np.mean(pair[1].error))))

    def _store(self, problem: Problem, choice: Choice) -> Self:
        stop = np.asarray(choice.stop, dtype=np.float64)
        problem = problem.reaching(stop)
        spectrum, method = problem.spectrum, problem.tuned
        self.degrees_of_freedom_: float | Floats
        fit = (
            at_stops(spectrum, method, stop)
            if stop.ndim
            else at_stop(spectrum, method, float(stop))
        )
        coef, intercept, self.degrees_of_freedom_ = fit
        self.krylov_ = spectrum.krylov
        self._keep(coef, intercept)
        self.method_, self.choice_ = method, choice
        self.stop_ = choice.stop
        self.stops_, self.errors_ = choice.curve.stops, choice.curve.errors
        self.eigenvalues_ = spectrum.padded_eigenvalues
        self.left_out_residuals_ = None
        if problem.can_leave_out and problem.has_few_targets:
            self.left_out_residuals_ = problem.left_out.residuals(stop)
            weights = problem.data.row_weights
            weights = np.ones(len(self.left_out_residuals_)) if weights is None else weights
            self._observations = weights * (spectrum.n_observations / weights.sum())
        return self

    def predict_interval(self, X: ArrayLike, confidence: float = 0.9) -> Floats:
        """Predict intervals that contain new responses with the given confidence, by the jackknife.

        The half-width is a quantile of the absolute left-out residuals, so nothing is assumed of the
        noise but that it looks the same everywhere. Coverage is as promised while the degrees of freedom
        stay well below the number of rows; with nearly as many columns as rows it falls a few per cent short.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.
        confidence : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        array of shape (n, 2) or (n, n_targets, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        if self.left_out_residuals_ is None:
            raise ValueError(
                "Intervals need fewer than 16 targets, a method other than conjugate gradients, and rows in "
                "memory: dense, or sparse with at most 1000 rows or columns."
            )
        sizes = sizes_of(self.left_out_residuals_)
        return jackknife(self.predict(X), sizes, self._observations, confidence)  # type: ignore[no-any-return]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error curve and the chosen stop; see :func:`stoptime.plots.error_curve`."""
        from stoptime.support import plots  # noqa: PLC0415 - matplotlib is an extra

        check_is_fitted(self)
        penalty = None
        if np.ndim(self.stop_) == 0:
            penalty = equivalent_penalty(
                self.method_, float(self.stop_), eigenvalues=self.eigenvalues_
            )
        return plots.error_curve(self.choice_, self.method_, penalty, ax=ax)


def _one_stop(stop: Any) -> float:
    value = nonnegative("stop", stop, infinite=True)
    if value.ndim:
        raise ValueError(f"stop must be one number or None; got shape {value.shape}.")
    return float(value)


def _grouping(groups: ArrayLike | None, data: Data) -> Any:
    """Return groups as an array with one entry per row."""
    if groups is None:
        return None
    grouping = np.asarray(groups)
    if data.n_rows is not None and grouping.shape != (data.n_rows,):
        raise ValueError(
            f"groups must have one entry per row, {data.n_rows}; got {grouping.shape}."
        )
    return grouping
