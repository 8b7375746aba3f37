"""scikit-learn regressors, at a given stop or one that they choose: validate, call, store.

The parameters of an estimator are the fields of a dataclass, which makes its ``__init__``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.estimators.intervals import around, half_width, jackknife_plus, of_refits
from stoptime.estimators.regressor import LinearRegressor, one_stop
from stoptime.left_out.predictions import Fingerprint, LeftOutFits, LeftOutRows
from stoptime.methods.base import Filter, Method
from stoptime.methods.registry import get_method, get_methods
from stoptime.spectrum.data import Data, Want, afresh, rows_of
from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.kinds import DTYPES
from stoptime.spectrum.moments import Statistics
from stoptime.stopping.comparison import Search, Searched
from stoptime.stopping.held_out import check_splitter, is_leave_one_out
from stoptime.stopping.problem import Problem
from stoptime.stopping.registry import get_rule
from stoptime.stopping.rule import Choice, Rule
from stoptime.stopping.scores import BestScore
from stoptime.support.arrays import Floats
from stoptime.support.checks import truth_value
from stoptime.support.user_warnings import warn_user
from stoptime.theory.oracle import plug_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class StoppedRegressor(LinearRegressor):
    r"""Least squares fitted by a method such as Nesterov's and stopped early.

    .. math:: \hat\beta(t) = V\varphi(S, t)z

    Here S and V are the eigenvalues and eigenvectors of XᵀX/n, z = VᵀXᵀy/n, and φ is the gain of
    the method at stop t.

    Parameters
    ----------
    method : str or Method, default="accelerated-flow"
        The method; names are the keys of ``METHODS``, ``ITERATIONS`` and ``ADAPTIVE``.
    stop : float or None, default=None
        Where to stop: the time of a flow, the number of iterations, or 1/penalty for ridge; ``inf``
        is least squares. None estimates noise and signal by marginal likelihood, and stops where
        the method has the best guarantee relative to the best ridge.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    penalty_matrix : matrix of shape (k, n_features), Differences, Bands or "standardise", optional
        The L of a penalty ‖Lβ‖², as in :func:`stoptime.decompose`; what it does not penalise is
        never shrunk.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        Coefficients.
    intercept_ : float or array of shape (n_targets,)
        Intercept, zero if not fitted.
    stop_ : float
        The stop.
    method_ : Method
        The method, tuned to the data.
    oracle_ : Oracle or None
        The estimates that gave ``stop_``: noise, signal and penalty; None if ``stop`` was given.
    degrees_of_freedom_ : float
        Trace of the derivative of the fit by the response; NaN where it would take long.
    krylov_ : Krylov or None
        Error and number of products of a Krylov space; None if all eigenvalues were computed.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedRegressor("accelerated-flow").fit(X, y)
    >>> f"stop {model.stop_:.0f}, R² {model.score(X, y):.2f}"
    'stop 201, R² 0.51'
    """

    method: str | Method = "accelerated-flow"
    stop: float | None = None
    fit_intercept: bool = True
    _: KW_ONLY
    penalty_matrix: Any = None

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the coefficients at the stop.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or other data that :func:`stoptime.decompose` takes
            float32 stays float32.
        y : array-like of shape (n,) or (n, n_targets)
            The response; leave it out if X contains it.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 counts the row twice.
        """
        self.__dict__.pop("_seen", None)  # of an earlier partial_fit
        return self._fitted(self._opened(X, y, sample_weight))

    def _fitted(self, data: Data) -> Self:
        method = get_method(self.method)
        self.oracle_ = None
        if self.stop is None:
            spectrum, self.oracle_, stop = plug_in(data, method)
        else:
            stop = one_stop(self.stop)
            spectrum = data.spectrum(Want.path(method, stop))
        seen = None if data.rows is None else Fingerprint.of(data.rows)
        observations = spectrum.n_observations
        self._searched = Searched(None, None, afresh(data), method, stop, observations, seen)
        self._store(spectrum, method.tuned_to(spectrum.padded_eigenvalues), stop)
        return self

    @available_if(lambda self: self._has_columns)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows to those seen so far, and fit all of them: as exact as one fit to all rows.

        The model keeps p × p numbers (a :class:`stoptime.Statistics`) and no rows. Every call
        factors them anew, so that batches of at least as many rows as columns cost the least.
        X, y and sample_weight are arrays as for :meth:`fit`, which forgets the rows seen so far.
        """
        seen = getattr(self, "_seen", None)
        options = {"dtype": DTYPES, "multi_output": True, "y_numeric": True}
        X, y = validate_data(self, X, y, reset=seen is None, **options)
        new = Statistics.of(X, y, sample_weight)
        seen = new if seen is None else seen + new
        penalty = self.penalty_matrix
        self._fitted(open_data(seen, None, None, self.fit_intercept, penalty_matrix=penalty))
        self._seen = seen
        return self

    def predict_interval(self, X: ArrayLike, confidence: float = 0.9) -> Floats:
        """Return the prediction minus and plus a quantile of the left-out residuals at the stop.

        They are the ``kind="jackknife"`` of :meth:`stoptime.StoppedRegressorCV.predict_interval`,
        and need the training rows at the first call.
        """
        check_is_fitted(self)
        return around(self.predict(X), self._half_width(confidence))  # type: ignore[no-any-return]

    def _half_width(self, confidence: float) -> Floats:
        searched = self._searched
        if "residuals" not in searched.fits:
            search = Search(get_rule("loo"), [searched.method], np.atleast_1d(self.stop_))
            problem, choice = search.best(searched.rows, None)
            searched.fits["residuals"] = problem.left_out_rows(choice).residuals
            searched.fits["weights"] = problem.left_out.rows.weights
        observations = searched.fits["weights"] * searched.n_observations
        return half_width(searched.fits["residuals"], observations, confidence)


@dataclass(eq=False, repr=False)
class StoppedRegressorCV(LinearRegressor):
    r"""Least squares stopped early, where the estimated prediction error is smallest.

    .. math:: \hat t = \arg\min_t \frac1n\sum_i\bigl(y_i - x_i^T\hat\beta_{-i}(t)\bigr)^2

    This is the default, exact leave-one-out at about the cost of one factorisation;
    :math:`\hat\beta_{-i}` is the path fitted without row i.

    Parameters
    ----------
    method : str, Method or list of them, default="auto"
        The method. Of a list, the first is kept unless another one has an error that is smaller by
        more than half a standard error of the paired difference. "auto" is the list
        ``stoptime.FAMILY``; it is accelerated flow (ridge for "gcv") with a rule that cannot
        compare methods, and for operators and large sparse matrices, which are factored only as far
        as the stops need it.
    stops : array-like, int or None, default=None
        Candidates. Given an array, the choice is one of its entries. None uses a grid that fits
        the spectrum, and an int sets its size; the choice is then refined between grid points.
    cv : int, splitter or iterable, optional
        Any scikit-learn splitter; replaces ``rule``.
    rule : str or Rule, default="loo"
        "loo", "path-gcv", "gcv", "sure", "discrepancy", "l-curve", "ncp", "plug-in",
        "one-standard-error", or an object such as ``HoldOut(X_val, y_val)``.
    per_target : bool, default=False
        Whether to choose a stop for each target separately.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    verbose : bool, default=False
        Whether to show progress if the work takes more than a few seconds.
    prefer_simple : bool, default=False
        Whether the first of several methods (ridge, for "auto") is kept unless another one is
        better by a whole standard error.
    scoring : str or callable, optional
        A scorer of scikit-learn, such as "neg_mean_absolute_error". The stop is then where it is
        largest on left-out predictions, or in the mean over the folds of ``cv``; rows are weighted.
    penalty_matrix : matrix of shape (k, n_features), Differences, Bands or "standardise", optional
        As in :class:`StoppedRegressor`.

    Attributes
    ----------
    coef_, intercept_, degrees_of_freedom_, krylov_, n_features_in_
        As in :class:`StoppedRegressor`, fitted to all rows.
    stop_ : float or array of shape (n_targets,)
        The chosen stop.
    stops_, errors_ : arrays of shape (n_stops,)
        Mean squared errors, or with ``scoring`` negative scores, at these stops: the mean over
        targets, or with ``per_target`` those of every target, (n_stops, n_targets).
    best_score_ : float or array of shape (n_targets,)
        The score at the chosen stop; without ``scoring`` the negative ``choice_.error``.
    choice_ : Choice
        The stop, its error and standard error, the error curve, and the reason for the choice.
    method_ : Method
        The chosen method, tuned to the data.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedRegressorCV("accelerated-flow").fit(X, y)
    >>> model.choice_.message
    'least loo error of 294 stops'
    """

    # groups go to the folds of cv without being asked for, as in RidgeCV
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    # whether left-out rows will be asked for, so that fit computes them at once
    _keeps_left_out = False

    method: str | Method | Sequence[str | Method] = "auto"
    stops: ArrayLike | int | None = None
    cv: Any = None
    rule: str | Rule = "loo"
    per_target: bool = False
    fit_intercept: bool = True
    verbose: bool = False
    prefer_simple: bool = False
    scoring: str | Callable[..., float] | None = None
    _: KW_ONLY
    penalty_matrix: Any = None

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
        X : array-like of shape (n, n_features), or other data that :func:`stoptime.decompose` takes
            float32 stays float32. Streamed data are read once, and need ``cv`` or a rule other
            than "loo".
        y : array-like of shape (n,) or (n, n_targets)
            The response; leave it out if X contains it.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 counts the row twice; leave-one-out removes both copies.
        groups : array-like of shape (n,), optional
            Groups of rows, for splitters that keep groups together.
        """
        rule = self._rule(self.cv)
        per_target = truth_value("per_target", self.per_target)
        prefer_simple = truth_value("prefer_simple", self.prefer_simple)
        data = self._opened(X, y, sample_weight)
        methods = self._methods(rule, data)
        if len(methods) > 1 and not rule.compares_methods:
            raise ValueError(
                f'rule="{rule.name}" cannot compare methods: give one method, or use rule="loo" '
                'or rule="path-gcv".'
            )
        n = data.shape[0]
        if n == 1:
            raise ValueError("Choosing a stop needs at least 2 rows; got n_samples=1.")
        if rule.needs_rows:
            rows_of(data)
        grouping = None if groups is None else np.asarray(groups)
        if grouping is not None and n is not None and grouping.shape != (n,):
            raise ValueError(f"groups must have one entry per row, {n}; got {grouping.shape}.")
        splits = None
        if self.cv is not None and not is_leave_one_out(self.cv):
            check_splitter(self.cv, grouping)
            splits = data.splits(self.cv, grouping)
            grouping = None  # the folds keep the groups together
            rule = self._rule(splits)
        search = Search(rule, methods, self.stops, per_target, prefer_simple, bool(self.verbose))
        problem, choice = self._best(search, splits, data, grouping)
        self._searched = Searched.of(search, splits, problem, choice)
        self._store(problem.spectrum, problem.tuned, choice.stop)
        self.choice_ = choice
        self.stops_ = choice.curve.stops
        self.errors_ = choice.curve.errors
        self.best_score_ = -choice.error
        self._left_out_fits: LeftOutFits | None = None
        self._left_out: LeftOutRows | None = None
        if problem.can_leave_out:
            self._left_out_fits = problem.left_out_fits(choice, self._searched.unchanged)
            # where the search has not computed residuals, they cost as much as the fit
            if problem.left_out.has_looked or self._keeps_left_out:
                self._left_out = problem.left_out_rows(choice)
            self._shares = problem.left_out.rows.weights
        return self

    def _best(
        self,
        search: Search,
        splits: Any,  # noqa: ARG002 - for estimators that choose more than method and stop
        data: Data,
        groups: Any,
    ) -> tuple[Problem, Choice]:
        return search.best(data, groups)

    def _rule(self, cv: Any) -> Rule:
        rule = get_rule(self.rule, cv)
        return rule if self.scoring is None else BestScore.of(rule, self.scoring)

    def _methods(self, rule: Rule, data: Data) -> list[Method]:
        """Return the methods to choose from."""
        automatic = isinstance(self.method, str) and self.method == "auto"
        if automatic and np.ndim(np.asarray(self.stops)) > 0:
            raise ValueError(
                "The same stops mean something else for every method: name one, for example "
                'method="ridge", or leave out stops.'
            )
        whole = data.complete or (rule.needs_rows and data.rows is not None)
        compared = not automatic or (rule.compares_methods and whole)
        return get_methods(self.method if compared else rule.only_method)

    @property
    def left_out_residuals_(self) -> Floats | None:
        """Residual of each row from the fit without it, in the shape of y.

        It is None for conjugate gradients and adaptive methods such as Adam, for streamed data and
        operators, and for a sparse X too large to factor. Where the search has not computed
        residuals, they are when they are first asked for.
        """
        return getattr(self._left_out_rows(), "residuals", None)

    @property
    def left_out_predictions_(self) -> Floats | None:
        """Prediction for each row by the fit without it; None where the residuals are."""
        return getattr(self._left_out_rows(), "predictions", None)

    def _left_out_rows(self) -> LeftOutRows | None:
        if self._left_out is None and self._left_out_fits is not None:
            self._left_out = self._left_out_fits.of_rows()
        return self._left_out

    def predict_interval(
        self,
        X: ArrayLike,
        confidence: float = 0.9,
        kind: Literal["jackknife+", "jackknife", "nested", "cv+"] = "jackknife+",
    ) -> Floats:
        r"""Return lower and upper ends of prediction intervals, along a new last axis.

        .. math:: \bigl[-q\{-\hat y_{-i}(x) + |e_i|\},\; q\{\hat y_{-i}(x) + |e_i|\}\bigr]

        with q the quantile over rows at ``confidence``, e the left-out residuals, and
        :math:`\hat y_{-i}` the fit without row i (the jackknife+). This assumes only that rows are
        exchangeable. Intervals take the training rows, to which the model keeps a reference: they
        are refused if X was changed after fit.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            New rows.
        confidence : float, default=0.9
            Probability, between 0 and 1, that an interval contains the new response.
        kind : {"jackknife+", "nested", "cv+", "jackknife"}, default="jackknife+"
            "nested" chooses method and stop anew without each row, by n refits at the first call:
            for fewer than about 150 rows with many columns. "cv+" has the fits without each fold
            of ``cv``, for streamed data too, which are read twice more. "jackknife" is the
            prediction, minus and plus a quantile of :math:`|e_i|`: it needs no training rows, but
            covers too little with nearly as many columns as rows.
        """
        check_is_fitted(self)
        if kind in {"nested", "cv+"}:
            return of_refits(self._searched, kind, self._matrix(X), confidence)  # type: ignore[no-any-return]
        if kind not in {"jackknife+", "jackknife"}:
            raise ValueError(
                f'kind must be "jackknife+", "nested", "cv+" or "jackknife"; got {kind!r}.'
            )
        half = self._half_width(confidence)
        residuals: Any = self.left_out_residuals_
        rows = self._matrix(X) if kind == "jackknife+" else None
        count = 0 if rows is None else rows.shape[0] * math.prod(residuals.shape)
        if rows is None or count > 2**30:  # some ten seconds of work
            if rows is not None:
                warn_user(
                    f"The jackknife+ would take {count:.0e} predictions without each of the "
                    'training rows: the ends are those of kind="jackknife", which differ little '
                    "for so many rows.",
                    UserWarning,
                )
            return around(self.predict(X), half)  # type: ignore[no-any-return]
        left_out: Any = self._left_out_fits
        return jackknife_plus(left_out.at, rows, residuals, self._observations, confidence)  # type: ignore[no-any-return]

    @property
    def _observations(self) -> Floats:
        """How many observations each row stands for."""
        return self._shares * self._searched.n_observations

    def _half_width(self, confidence: float) -> Floats:
        """Return half the width of the intervals of the jackknife."""
        if self._left_out_fits is None:
            raise ValueError(
                "Intervals need a method with a filter (not conjugate gradients or Adam), and rows "
                "in memory: dense, or sparse with at most 5000 rows or columns."
            )
        return half_width(self.left_out_residuals_, self._observations, confidence)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error curve and the chosen stop; see :func:`stoptime.plots.error_curve`."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        check_is_fitted(self)
        filtered = np.ndim(self.stop_) == 0 and isinstance(self.method_, Filter)
        penalty = float(self.alpha_) / self._n_samples if filtered else None
        return plots.error_curve(self.choice_, self.method_, penalty, ax=ax)
