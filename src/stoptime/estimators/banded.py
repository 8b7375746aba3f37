"""Banded ridge and its relatives: a scale for each band of columns, and a stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.estimators.regressor import LinearRegressor
from stoptime.methods.base import Method
from stoptime.spectrum.kinds import DTYPES, sample_of
from stoptime.spectrum.penalty import Bands, bands_of
from stoptime.stopping.bands import (
    MANY_TARGETS,
    BandedRows,
    BandSearch,
    fold_error,
    gcv_error,
    left_out_error,
)
from stoptime.stopping.registry import get_rule
from stoptime.stopping.rule import Rule
from stoptime.support.arrays import Array, Floats
from stoptime.support.progress import progress, progress_shown


@dataclass(eq=False, repr=False)
class BandedRegressorCV(LinearRegressor):
    r"""Least squares stopped early, with a scale for each band of columns.

    .. math:: \min_{\delta, t}\ \mathrm{error}\bigl(\hat\beta(t; \delta)\bigr), \qquad
        \text{penalty } \sum_b\|\beta_b\|^2/\delta_b^2

    The scales are those at which ridge has the least error at its best stop. Random draws, such as
    himalaya takes, are compared by ``rule``; a search by gradient in the logarithms of the scales
    starts from the best of them. The method and its stop are then chosen at these scales. The
    error of the search itself is ridge's leave-one-out error, its generalised cross-validation, or
    its error on the folds of ``cv``.

    Parameters
    ----------
    groups : array-like of one label per column, mapping of names to columns, or list of columns
        The bands. Columns are slices, integers, or names of the columns of a DataFrame;
        ``output_indices_`` of a fitted ColumnTransformer is such a mapping.
    method, stops, cv, rule, fit_intercept, verbose
        As in :class:`StoppedRegressorCV`; ``rule`` is "loo", "path-gcv" or "gcv".
    per_target : bool, default=False
        Whether each target has scales and a stop of its own.
    n_draws, n_starts : int, default=20 and 3
        Number of random draws, besides equal scales and equally large bands; and the number of
        searches by gradient, of which there are none with ``per_target`` and more than 16 targets.
        With 16 targets or more and ``rule="loo"``, draws are compared by path GCV.
    random_state : int, RandomState or None, default=0
        Seed of the draws.

    Attributes
    ----------
    coef_, intercept_, n_features_in_
        As in :class:`StoppedRegressor`, in the units of X.
    bands_ : list
        The names of the bands.
    scales_ : array of shape (n_bands,) or (n_targets, n_bands)
        The scales, of which the largest is one; a band of scale zero is dropped.
    stop_, best_score_ : float or array of shape (n_targets,)
        The stop, and the negative error there.
    regressor_ : StoppedRegressorCV or None
        The regressor that was fitted at the scales, with its error curve and prediction intervals;
        None with ``per_target``.

    Examples
    --------
    >>> import numpy as np
    >>> import stoptime as st
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 60))
    >>> y = X[:, :5].sum(axis=1) + rng.standard_normal(100)
    >>> model = st.BandedRegressorCV({"signal": slice(0, 5), "noise": slice(5, 60)}).fit(X, y)
    >>> bool(model.scales_[1] < 0.1 * model.scales_[0])
    True
    >>> {name: round(float(share), 2) for name, share in model.explained(X, y).items()}
    {'signal': 0.8, 'noise': 0.04}
    """

    groups: Any
    method: str | Method | Sequence[str | Method] = "ridge"
    stops: ArrayLike | int | None = None
    cv: Any = None
    rule: str | Rule = "loo"
    per_target: bool = False
    fit_intercept: bool = True
    verbose: bool = False
    _: KW_ONLY
    n_draws: int = 20
    n_starts: int = 3
    random_state: Any = 0

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose scales and stop, and fit there; rows must fit into memory as an array."""
        options = {"multi_output": True, "y_numeric": True, "dtype": DTYPES}
        options["ensure_min_samples"] = 2  # with one row there is nothing to choose by
        names = getattr(X, "columns", None)
        X, y = validate_data(self, X, y, accept_sparse=["csr"], **options)
        X = X.toarray() if issparse(X) else X
        self.bands_, self._member = bands_of(self.groups, X.shape[1], names)
        data = sample_of(X, y, sample_weight, bool(self.fit_intercept))
        # folds are drawn once, so that all scales are compared on the same ones
        splits = None if self.cv is None else list(check_cv(self.cv).split(X, y))
        rule, error = self._criterion(splits)
        if rule.name == "loo" and data.n_targets >= MANY_TARGETS:
            # path GCV costs little for any number of targets; the stop is chosen by all rows
            rule = get_rule("path-gcv")
        per_target = self.per_target and not data.single_target
        search = BandSearch(BandedRows(data, self._member), rule, error, per_target)
        with progress_shown(self.verbose):
            self.scales_ = self._best_scales(search)
        self.regressor_ = None
        if per_target:
            return self._fit_each(X, y, sample_weight, splits)
        self.regressor_ = self._at(self.scales_, splits).fit(X, y, sample_weight)
        self.stop_ = self.regressor_.stop_
        self.best_score_ = self.regressor_.best_score_
        self._keep(self.regressor_.coef_, self.regressor_.intercept_)
        return self

    def _criterion(self, splits: Any) -> tuple[Rule, Any]:
        """Return the rule, and ridge's error that a search by gradient lowers."""
        rule = get_rule(self.rule, splits)
        errors = {"loo": left_out_error, "path-gcv": gcv_error, "gcv": gcv_error}
        if splits is not None:
            return rule, partial(fold_error, [np.asarray(test) for _, test in splits])
        if rule.name not in errors:
            raise ValueError(f'rule must be one of {list(errors)}, or give cv; got "{rule.name}".')
        return rule, errors[rule.name]

    def _best_scales(self, search: BandSearch) -> Array:
        """Return the best scales, of shape (n_bands,) or (n_targets, n_bands)."""
        draws = search.draws(self.n_draws, check_random_state(self.random_state))
        trials = [search.trial(one) for one in progress(draws, "draws")]
        targets = range(len(trials[0].error))
        # with more targets that have scales of their own, searches take much longer than draws
        n_starts = self.n_starts if len(targets) <= 16 else 0
        best = []
        for target in progress(targets, "scales"):
            found = sorted(trials, key=lambda trial: float(trial.error[target]))
            starts = found[:n_starts]
            found += [search.trial(search.descended(one, target)) for one in starts]
            best.append(min(found, key=lambda trial: float(trial.error[target])).scales)
        scales = np.array(best)
        scales /= scales.max(axis=1, keepdims=True)
        return scales if search.per_target else scales[0]

    def _at(self, scales: Array, splits: Any) -> StoppedRegressorCV:
        """Return the regressor at given scales, which chooses method and stop."""
        return StoppedRegressorCV(
            self.method,
            stops=self.stops,
            cv=splits,
            rule=self.rule,
            per_target=scales.ndim > 1,
            fit_intercept=self.fit_intercept,
            verbose=self.verbose,
            penalty_matrix=Bands(self._member, np.ravel(scales).tolist()),
        )

    def _fit_each(self, X: Any, y: Any, weights: Any, splits: Any) -> Self:
        """Fit the method at the scales of each target, together for targets with the same ones."""
        self.coef_ = np.empty((y.shape[1], X.shape[1]), X.dtype)
        self.intercept_ = np.empty(y.shape[1], X.dtype)
        stop, score = np.empty((2, y.shape[1]))
        distinct, place = np.unique(self.scales_, axis=0, return_inverse=True)
        for number, scales in enumerate(distinct):
            mine = np.flatnonzero(place.ravel() == number)
            regressor = self._at(scales[None], splits).fit(X, y[:, mine], weights)
            self.coef_[mine] = regressor.coef_
            self.intercept_[mine] = regressor.intercept_
            stop[mine] = regressor.stop_
            score[mine] = regressor.best_score_
        self.stop_ = stop
        self.best_score_ = score
        return self

    def explained(self, X: ArrayLike, y: ArrayLike) -> dict[Any, Floats]:
        r"""Return the share of the variance of y that each band explains, by the product measure.

        .. math:: R_b^2 = \sum_i f_{bi}(2y_i - f_i) \Big/ \sum_i y_i^2, \qquad f = \sum_b f_b

        with y and the fits f of the bands centred on the given rows X. The shares add up to R²,
        apart from the error of the mean; a band may have a negative share.
        """
        check_is_fitted(self)
        rows = self._matrix(X)
        y = np.asarray(y, dtype=np.float64)
        centred = y - y.mean(axis=0)
        coef = self.coef_.T.astype(np.float64)
        bands = [self._member == band for band in range(len(self.bands_))]
        parts = [rows[:, band] @ coef[band] for band in bands]
        parts = [part - part.mean(axis=0) for part in parts]
        weights = (2 * centred - np.sum(parts, axis=0)) / (centred**2).sum(axis=0)
        shares = [(part * weights).sum(axis=0) for part in parts]
        return dict(zip(self.bands_, shares, strict=True))
