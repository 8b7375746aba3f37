"""What estimators share: parameters, pickles, data of any kind, predictions, standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.methods.base import Filter, Method
from stoptime.methods.registry import get_method
from stoptime.paths import fit_at
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.data import Data, Want
from stoptime.spectrum.decompose import open_data
from stoptime.spectrum.kinds import array_options
from stoptime.spectrum.sources import NewRows, open_rows
from stoptime.support.arrays import Floats, on_host
from stoptime.support.checks import nonnegative
from stoptime.support.user_warnings import warn_user
from stoptime.support.version import __version__
from stoptime.theory.calibration import equivalent_penalty

if TYPE_CHECKING:
    from stoptime.stopping.comparison import Searched

PICKLED_VERSION = "stoptime_version"  # key of the version in the state of a pickle


class Conventions(BaseEstimator):
    """Parameters of a method, as in ``{"method__friction": [3, 5, 9]}``, links, and pickles."""

    method: Any

    # the display of an estimator in a notebook links to its page
    _doc_link_module = "stoptime"
    _doc_link_template = (
        "https://stoptime.github.io/stoptime/api/estimators.html#stoptime.{estimator_name}"
    )

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of a method, such as ``method__friction``, give a new method."""
        # a new one, because methods are immutable, and estimators may share them
        own = {key: params.pop(key) for key in [*params] if key.startswith("method__")}
        super().set_params(**params)
        if own:
            if self.method == "auto" or isinstance(self.method, list | tuple):
                raise ValueError(
                    f"{', '.join(own)} needs one method, such as method='accelerated-flow'; got "
                    f"{self.method!r}."
                )
            changes = {key.removeprefix("method__"): value for key, value in own.items()}
            self.method = get_method(self.method).with_params(**changes)
        return self

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {PICKLED_VERSION: __version__}  # type: ignore[no-any-return]

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        version = state.pop(PICKLED_VERSION, None)
        if version != __version__:
            made_by = "an older stoptime" if version is None else f"stoptime {version}"
            warn_user(
                f"This {type(self).__name__} was pickled by {made_by}, and this is stoptime "
                f"{__version__}: fit it again. To keep a model across versions, use stoptime.save.",
                UserWarning,
            )
        super().__setstate__(state)


class LinearRegressor(MultiOutputMixin, RegressorMixin, Conventions):
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

        X are new rows: an array, a sparse matrix, a LinearOperator or streamed data.
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


@dataclass(frozen=True, repr=False)
class CoefficientSummary:
    """Coefficients at a stop, and how much noise in the response moves them.

    ``coef`` and ``standard_errors`` have a row for each target, as ``noise``, the standard
    deviation of the response about its mean, and ``r2`` have an entry. Printed, it is a table.
    """

    title: str
    names: list[str]
    coef: Floats
    standard_errors: Floats
    intercept: Floats
    degrees_of_freedom: Floats
    noise: Floats
    r2: Floats
    n_samples: float
    targets: list[str] | None = None  #: Names of several targets, or of classes.

    def __repr__(self) -> str:
        width = max(map(len, [*self.names, "intercept"]))
        lines = [self.title]
        for target, noise in enumerate(self.noise):
            freedom = self.degrees_of_freedom[target]
            named = [] if self.targets is None else [f"\n{self.targets[target]}"]
            lines += [
                *named,
                f"{self.n_samples:g} rows, {freedom:.1f} degrees of freedom",
                f"R² {self.r2[target]:.3f}, standard deviation of the noise {noise:.4g}",
                f"{'':{width}} {'coef':>12} {'std err':>12}",
                f"{'intercept':{width}} {self.intercept[target]:>12.4g}",
            ]
            rows = zip(self.names, self.coef[target], self.standard_errors[target], strict=True)
            lines += [f"{name:{width}} {one:>12.4g} {error:>12.4g}" for name, one, error in rows]
        note = "Standard errors do not include the bias of stopping early"
        return "\n".join([*lines, f"{note}: coef ± 2 se is no 95 % interval."])


def summarised(model: Any, searched: Searched) -> CoefficientSummary:
    r"""Return the table of a fitted model; the data are factored again.

    .. math:: \mathrm{se}(\hat\beta_j)^2 = \frac{\sigma^2}n\sum_k v_{jk}^2\varphi_k^2s_k,
        \qquad \sigma^2 = \frac{\|y - \hat y\|^2}{n - \mathrm{tr}(2H - HH^T)}

    with H the map from the response to the fit: its eigenvalues are sφ, and one for an intercept.
    """
    method = model.method_
    spectrum = searched.rows.spectrum(Want.path(method, searched.stop))
    if spectrum.geometry is not None:
        raise ValueError("Standard errors are known without a penalty matrix only.")
    if not (isinstance(method, Filter) and spectrum.accuracy.complete):
        raise ValueError(
            "Standard errors need every eigenvalue, and a method that is linear in the response: "
            "choose one other than conjugate gradients, and a dense or small sparse X."
        )
    s = spectrum.eigenvalues[:, None].astype(np.float64)
    z = on_host(spectrum.response).reshape(len(s), -1).astype(np.float64)
    gain = method.gain(s, np.broadcast_to(np.asarray(searched.stop, np.float64), z.shape[1:]))
    learned = s * gain
    n = spectrum.n_observations
    power = np.atleast_1d(on_host(spectrum.target_power)).astype(np.float64)
    # the mean square of y - ŷ is that of y minus Σ z²φ(2 - sφ)
    residual = np.maximum(power - (z**2 * gain * (2 - learned)).sum(axis=0), 0)
    left = n - spectrum.fit_intercept - (learned * (2 - learned)).sum(axis=0)
    noise = np.sqrt(n * residual / np.where(left > 0.5, left, np.nan))
    squares = np.asarray(on_host(spectrum.vectors), np.float64) ** 2
    spread = np.sqrt(squares @ (gain**2 * s) / n)
    names = getattr(model, "feature_names_in_", None)
    numbered = [f"target {i}" for i in range(len(noise))]
    targets = getattr(model, "_target_names", []) or numbered
    return CoefficientSummary(
        title=f"{type(model).__name__}: {method} stopped at {np.round(searched.stop, 4)}",
        names=[f"x{j}" for j in range(len(spread))] if names is None else list(map(str, names)),
        coef=np.atleast_2d(on_host(model.coef_)),
        standard_errors=(noise * spread).T,
        intercept=np.atleast_1d(on_host(model.intercept_)),
        degrees_of_freedom=learned.sum(axis=0) + spectrum.fit_intercept,
        noise=noise,
        r2=1 - residual / power,
        n_samples=spectrum.n_samples,
        targets=targets if len(noise) > 1 else None,
    )
