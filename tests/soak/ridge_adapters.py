"""The classes of scikit-learn's ridge, by those of stoptime: a penalty alpha is the stop n/alpha.

RidgeCV keeps alpha when it leaves one of n rows out, and a stop keeps alpha/n. To choose as RidgeCV
does, the adapter looks at the stops (n - 1)/alpha, and then fits all rows at n/alpha.
"""

import warnings

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils import compute_sample_weight
from sklearn.utils.multiclass import type_of_target

import stoptime as st


def observations(X, y, sample_weight, class_weight=None):
    """Return the n of n/alpha: the sum of all weights."""
    total = np.ones(X.shape[0]) if sample_weight is None else np.ones(1) * sample_weight
    if class_weight is not None:
        total = total * compute_sample_weight(class_weight, y)
    return float(np.sum(np.broadcast_to(total, X.shape[:1])))


def stop_of(n, alpha):
    if not np.isscalar(alpha) and np.size(alpha) > 1:
        raise NotImplementedError("one penalty for each target")
    alpha = float(np.ravel(alpha)[0])
    if alpha < 0:
        raise ValueError("alpha must be non-negative")
    return np.inf if alpha == 0 else n / alpha


class _Fitted:
    def _take(self, model):
        self.model_ = model
        regressor = getattr(model, "regressor_", model)
        self.coef_ = regressor.coef_
        self.intercept_ = regressor.intercept_ if self.fit_intercept else 0.0
        self.n_features_in_ = model.n_features_in_
        return self

    def predict(self, X):
        return self.model_.predict(X)


class Ridge(_Fitted, MultiOutputMixin, RegressorMixin, BaseEstimator):
    def __init__(
        self, alpha=1.0, fit_intercept=True, copy_X=True, max_iter=None, tol=1e-4, solver="auto",
        positive=False, random_state=None,
    ):  # fmt: skip
        vars(self).update({name: value for name, value in locals().items() if name != "self"})

    def fit(self, X, y, sample_weight=None):
        X = X if hasattr(X, "shape") else np.asarray(X)
        n = observations(X, y, sample_weight)
        model = st.StoppedRegressor("ridge", stop_of(n, self.alpha), self.fit_intercept)
        weights = None if sample_weight is None else np.broadcast_to(sample_weight, X.shape[:1])
        self.solver_ = self.solver
        return self._take(model.fit(X, y, weights))


class _RidgeCV(_Fitted):
    def __init__(
        self, alphas=(0.1, 1.0, 10.0), *, fit_intercept=True, scoring=None, cv=None, gcv_mode=None,
        store_cv_results=False, alpha_per_target=False,
    ):  # fmt: skip
        vars(self).update({name: value for name, value in locals().items() if name != "self"})

    def _choose(self, model, X, y, weights, n):
        if self.gcv_mode == "svd" and sparse.issparse(X):
            warnings.warn(
                "The 'svd' mode is not supported for sparse X", FutureWarning, stacklevel=3
            )
        alphas = np.atleast_1d(np.asarray(self.alphas, float))
        kept = n if self.cv is not None else n * (1 - 1 / X.shape[0])
        model.set_params(stops=[stop_of(kept, alpha) for alpha in alphas], cv=self.cv)
        model.set_params(fit_intercept=self.fit_intercept, scoring=self.scoring)
        model.fit(X, y, weights)
        model.set_params(cv=None)  # it has chosen, and a generator cannot be cloned
        stop = np.asarray(model.stop_, float)
        self.alpha_ = np.where(np.isinf(stop), 0.0, kept / stop)[()]
        self.best_score_ = model.best_score_
        if self.store_cv_results:
            self.cv_results_ = self._results(X, y, weights, n, alphas)
        # the chosen stop alone, for all rows
        stops = np.where(np.isinf(stop), np.inf, stop * n / kept)
        if stops.ndim:
            final = [
                clone(model).set_params(stops=[one], scoring=None, per_target=False)
                for one in stops
            ]
            parts = [one.fit(X, column, weights) for one, column in zip(final, y.T, strict=True)]
            model.coef_ = np.stack([part.coef_ for part in parts])
            model.intercept_ = np.array([part.intercept_ for part in parts])
            return self._take(model)
        return self._take(
            clone(model).set_params(stops=[float(stops)], scoring=None).fit(X, y, weights)
        )

    def _results(self, X, y, weights, n, alphas):
        """Return left-out predictions, or squared errors without a scorer, for every alpha."""
        own = np.ones(X.shape[0]) if weights is None else np.broadcast_to(weights, X.shape[:1])
        y = np.asarray(y, float)
        found = []
        for alpha in alphas:
            values = np.empty_like(y)
            for weight in np.unique(own):
                stop = stop_of(n - weight, alpha)
                every = st.left_out_predictions(
                    X, y, "ridge", stop, sample_weight=own, fit_intercept=self.fit_intercept
                )
                values[own == weight] = every[own == weight]
            scale = own.reshape(-1, *[1] * (y.ndim - 1))
            found.append(scale * (y - values) ** 2 if self.scoring is None else values)
        return np.stack(found, axis=-1)


class RidgeCV(_RidgeCV, MultiOutputMixin, RegressorMixin, BaseEstimator):
    def fit(self, X, y, sample_weight=None):
        model = st.StoppedRegressorCV("ridge", per_target=self.alpha_per_target)
        return self._choose(model, X, y, sample_weight, observations(X, y, sample_weight))


class _Classifier(ClassifierMixin):
    def _check(self, y):
        if type_of_target(y).startswith("multilabel"):
            raise NotImplementedError("several labels for one row")

    @property
    def classes_(self):
        return self.model_.classes_

    def decision_function(self, X):
        return self.model_.regressor_.predict(X)


class RidgeClassifier(_Classifier, _Fitted, BaseEstimator):
    def __init__(
        self, alpha=1.0, *, fit_intercept=True, copy_X=True, max_iter=None, tol=1e-4,
        class_weight=None, solver="auto", positive=False, random_state=None,
    ):  # fmt: skip
        vars(self).update({name: value for name, value in locals().items() if name != "self"})

    def fit(self, X, y, sample_weight=None):
        self._check(y)
        X = X if hasattr(X, "shape") else np.asarray(X)
        stop = stop_of(observations(X, y, sample_weight, self.class_weight), self.alpha)
        options = {"class_weight": self.class_weight, "fit_intercept": self.fit_intercept}
        return self._take(st.StoppedClassifier("ridge", stop, **options).fit(X, y, sample_weight))


class RidgeClassifierCV(_Classifier, _RidgeCV, BaseEstimator):
    gcv_mode = None

    def __init__(
        self, alphas=(0.1, 1.0, 10.0), *, fit_intercept=True, scoring=None, cv=None,
        class_weight=None, store_cv_results=False,
    ):  # fmt: skip
        vars(self).update({name: value for name, value in locals().items() if name != "self"})

    def fit(self, X, y, sample_weight=None):
        self._check(y)
        X = X if hasattr(X, "shape") else np.asarray(X)
        n = observations(X, y, sample_weight, self.class_weight)
        model = st.StoppedClassifierCV("ridge", class_weight=self.class_weight)
        return self._choose(model, X, y, sample_weight, n)


def ridge_regression(X, y, alpha, *, sample_weight=None, return_intercept=False, **_):
    """Return coefficients, and the intercept if it is asked for."""
    model = Ridge(alpha, fit_intercept=return_intercept).fit(X, y, sample_weight)
    return (model.coef_, model.intercept_) if return_intercept else model.coef_


NAMES = {
    one.__name__: one
    for one in (Ridge, RidgeCV, RidgeClassifier, RidgeClassifierCV, ridge_regression)
}
