"""What linear regressors share: validated data of any kind, predictions, scores and a summary."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.estimators.conventions import MethodParameters, Versioned
from stoptime.estimators.summary import CoefficientSummary, summarised
from stoptime.methods.base import Method
from stoptime.paths import fit_at
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data
from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.kinds import array_options
from stoptime.spectrum.sources import NewRows, open_rows
from stoptime.support.arrays import Floats, on_host
from stoptime.support.checks import nonnegative
from stoptime.theory.calibration import equivalent_penalty

if TYPE_CHECKING:
    from stoptime.stopping.comparison import Searched


class LinearRegressor(MultiOutputMixin, RegressorMixin, MethodParameters, Versioned):
    """Predictions from ``coef_`` and ``intercept_``."""

    coef_: Floats
    intercept_: Floats
    fit_intercept: bool
    penalty_matrix: Any = None  # kernels have none: their penalty is that of the feature space
    _searched: Searched
    _has_columns = True  # with a coefficient each, unlike kernels

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Data:
        """Validate data, once, and store the number and the names of their columns."""
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        self._target_names = [str(one) for one in getattr(y, "columns", ())]
        options = array_options(X)
        if options is not None:
            X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **options)
            # one column is one target, as RidgeCV of scikit-learn has it
            y = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
        penalty = self.penalty_matrix
        data = open_data(X, y, sample_weight, self.fit_intercept, penalty_matrix=penalty)
        self.n_features_in_ = data.shape[1]
        if data.names is not None:
            self.feature_names_in_ = np.array(data.names, dtype=object)
        return data

    def _opened_rows(self, X: Any) -> NewRows:
        """Open new rows; raise a ValueError if their columns are not those of the fit."""
        rows = open_rows(X, self.coef_, partial(validate_data, self, reset=False))
        check_width(self, rows.X.shape[1])
        fitted = getattr(self, "feature_names_in_", None)
        if rows.names is not None and fitted is not None and [*map(str, rows.names)] != [*fitted]:
            raise ValueError(
                f"X has the columns {[*rows.names][:8]}, but {[*fitted][:8]} were fitted, in this "
                "order."
            )
        return rows

    def _matrix(self, X: Any) -> Any:
        """Return new rows as a matrix in memory."""
        rows = self._opened_rows(X)
        if not rows.in_memory:
            raise TypeError(
                f"What you ask for needs new rows in memory; got {type(X).__name__}: use "
                'kind="jackknife" for intervals, or give an array.'
            )
        return rows.X

    def _store(self, spectrum: Spectrum, method: Method, stop: float | Floats) -> None:
        """Fit the coefficients of a tuned method at a stop, and store what all regressors have."""
        coef, intercept, self.degrees_of_freedom_ = fit_at(spectrum, method, stop)
        self._keep(coef, intercept)
        self.method_ = method
        self.stop_ = stop
        self.krylov_ = spectrum.krylov
        self.eigenvalues_ = spectrum.padded_eigenvalues
        self._n_samples = float(spectrum.n_samples)

    def _keep(self, coef: Floats, intercept: Floats) -> None:
        self.coef_ = coef
        self.intercept_ = intercept

    def predict(self, X: ArrayLike) -> Floats:
        """Return predictions of shape (n,) or (n, n_targets), lazy if X is a Dask collection.

        Parameters
        ----------
        X : array-like, sparse matrix, LinearOperator or streamed data of shape (n, n_features)
            New rows.
        """
        check_is_fitted(self)
        return self._opened_rows(X).predicted(self._factors(), self.intercept_)  # type: ignore[no-any-return]

    def _factors(self) -> Any:
        """Return what new rows are multiplied with, a column for each target."""
        return self.coef_.swapaxes(0, -1) if self.coef_.ndim > 1 else self.coef_

    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return R², the share of the variance of y that the predictions explain.

        X is an array of shape (n, n_features), or chunks, which contain y.
        """
        check_is_fitted(self)
        if y is None:
            rows = self._opened_rows(X)
            found = rows.scored(self._factors(), self.intercept_, sample_weight)
            response, predicted, weights = found
            return float(r2_score(response, predicted, sample_weight=weights))
        weight = None if sample_weight is None else on_host(sample_weight)
        return float(r2_score(on_host(y), on_host(self.predict(X)), sample_weight=weight))

    def summary(self) -> CoefficientSummary:
        """Return coefficients, standard errors and degrees of freedom, a table when printed.

        Standard errors are those of new noise at this stop: they include neither the bias of
        stopping early nor the choice of the stop, and no p-value would be valid. The training rows,
        to which the model keeps a reference, are factored again.
        """
        check_is_fitted(self)
        if not self._has_columns:
            raise TypeError("A kernel has no coefficients of columns to summarise.")
        if not hasattr(self, "_searched"):
            raise TypeError(
                "No standard errors: they need the training rows, and no penalty on bands."
            )
        return summarised(self, self._searched)

    @property
    def alpha_(self) -> float | Floats:
        r"""The ``alpha`` of scikit-learn's Ridge that is equivalent to ``stop_``.

        It is n times :func:`stoptime.equivalent_penalty`, with n the sum of the sample weights,
        and is computed when it is asked for. Conjugate gradients have none.
        """
        if not hasattr(self, "method_"):
            raise AttributeError("There is no alpha_ here: every band has its own, see scales_.")
        stops = np.asarray(self.stop_, np.float64)
        try:
            found = [
                equivalent_penalty(self.method_, stop, eigenvalues=self.eigenvalues_)
                for stop in stops.ravel().tolist()
            ]
        except ValueError as error:
            raise AttributeError(f"There is no alpha_ here. {error}") from error
        return self._n_samples * np.reshape(found, stops.shape)[()]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def one_stop(stop: Any) -> float:
    """Return a stop that was given as a number."""
    found = nonnegative("stop", stop, infinite=True)
    if found.ndim:
        raise ValueError(f"stop must be one number or None; got shape {found.shape}.")
    return float(found)


def check_width(model: Any, count: int) -> None:
    """Raise a ValueError if new rows have other columns than those of the fit."""
    if count != model.n_features_in_:
        raise ValueError(f"X has {count} features, but {model.n_features_in_} were fitted.")
