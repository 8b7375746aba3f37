"""scikit-learn estimators for kernels: the linear ones, with a kernel matrix in the place of X."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import validate_data

from stoptime.estimators.classifier import StoppedClassifier, StoppedClassifierCV, _LinearClassifier
from stoptime.estimators.kernel_parameters import MANY_LANDMARKS, KernelParameters
from stoptime.estimators.kernel_search import KernelCandidate, KernelSearch, most_compared
from stoptime.estimators.linear import StoppedRegressor, StoppedRegressorCV
from stoptime.estimators.regressor import LinearRegressor, check_width, one_stop
from stoptime.methods.registry import get_method
from stoptime.spectrum.data import Data, rows_of
from stoptime.spectrum.kernel import KernelData
from stoptime.spectrum.kinds import (
    DTYPES,
    checked_device,
    finite_tensor,
    kind_of,
    rows_in_memory,
)
from stoptime.spectrum.landmarks import (
    KernelProduct,
    LandmarkData,
    LandmarkFeatures,
    LandmarkStream,
    mapped,
    sampled,
)
from stoptime.spectrum.moments import Statistics
from stoptime.spectrum.radial import ORDERS, Columns
from stoptime.spectrum.rows import sample_sizes
from stoptime.spectrum.source import Source
from stoptime.spectrum.sources import NewRows, as_stream, open_rows
from stoptime.spectrum.streams import StreamData
from stoptime.stopping.comparison import Search
from stoptime.stopping.leave_one_out import LeaveOneOut
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice
from stoptime.support.arrays import (
    Floats,
    as_dtype,
    is_device_array,
    like,
    on_host,
)
from stoptime.support.checks import truth_value


class _KernelRegressor(KernelParameters, LinearRegressor):
    """Predictions from ``dual_coef_``, ``intercept_`` and the training rows or landmarks."""

    dual_coef_: Any
    X_fit_: Any
    _has_columns = False

    def predict(self, X: ArrayLike) -> Floats:
        r"""Return predictions of shape (n,) or (n, n_targets), lazy if X is a Dask collection.

        .. math:: f(x) = \sum_i \alpha_i k(x_i, x) + b

        X are new rows; for ``kernel="precomputed"``, the kernel between them and the training rows.
        """
        return as_dtype(super().predict(X), self.X_fit_.dtype)  # type: ignore[no-any-return]

    def _factors(self) -> Any:
        return self.dual_coef_

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Data:
        self._check_kernel()
        if kind_of(X) == "stream":
            return self._opened_stream(as_stream(X, y, sample_weight))
        rows, y = self._training_rows(X, y)
        n = rows.shape[0]
        weights = sample_sizes(sample_weight, n)[0]
        columns = self._columns_of(rows, weights)
        self.n_landmarks_ = self._landmark_count(rows)
        present = np.arange(n) if weights is None else np.flatnonzero(weights)
        # kernels are compared on the first of these rows, and landmarks are the last ones
        order = np.random.default_rng(0 if self.rng is None else self.rng).permutation(present)
        self._order = order if self._tunes else None
        kept = rows
        if self.n_landmarks_ is not None:
            kept = rows[like(rows, np.sort(order[-self.n_landmarks_ :]))]
            # rows that are taken from a memory map are in memory
            kept = np.asarray(kept) if isinstance(rows, np.ndarray) else kept
            self.n_landmarks_ = kept.shape[0]  # rows without weight are none
        features = self._take(columns, kept)
        if self.n_landmarks_ is not None:
            return LandmarkData.of(rows, y, sample_weight, features)
        # in double precision, because large coefficients cancel in predictions
        matrix = features.kernel(features.landmarks, features.landmarks)
        response = np.asarray(y, np.float64)
        return KernelData.of(matrix, response, sample_weight, features.centred, features)

    def _take(self, columns: Columns, rows: Any) -> LandmarkFeatures:
        """Keep the rows of a kernel, and return their features."""
        self.kernel_ = self.kernel
        self.gamma_ = None if isinstance(self.gamma, str) else self.gamma
        self.candidates_: tuple[KernelCandidate, ...] = ()
        self.centre_ = columns.centre
        self.scale_ = columns.scale
        self.X_fit_ = rows
        function = self._kernel_function(rows.shape[1])
        centred = truth_value("fit_intercept", self.fit_intercept)
        self._features = LandmarkFeatures(columns, function, columns(rows), centred)
        return self._features

    def _opened_stream(self, source: Any) -> Data:
        """Choose kernel and landmarks on a sample of streamed rows, and return their features."""
        if not isinstance(source, Source) or self._kernel_is("precomputed"):
            raise TypeError("Landmarks are drawn from rows: give chunks or a Dask collection.")
        most = MANY_LANDMARKS if self.n_landmarks is None else int(self.n_landmarks)
        rng = np.random.default_rng(0 if self.rng is None else self.rng)
        sample = sampled(source, most_compared(most), rng)
        own = self._kernel_parameters | {"n_landmarks": min(most, len(sample.X)), "rng": rng}
        model = StoppedKernelRegressorCV(fit_intercept=self.fit_intercept, **own)
        if self._tunes:
            model.fit(*sample)
        else:
            model._opened(*sample)
        for name in (*self._kernel_found, "n_features_in_", "_features"):
            setattr(self, name, getattr(model, name))
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if source.names is not None:
            self.feature_names_in_ = np.array(source.names, dtype=object)
        self.n_landmarks_ = self.X_fit_.shape[0]
        stream = mapped(source, self._features, self.n_landmarks_)
        return LandmarkStream(stream, self._features.centred)

    def _keep(self, coef: Any, intercept: Any) -> None:
        if self.n_landmarks_ is None:
            self.dual_coef_ = np.ascontiguousarray(coef.T)
            self.intercept_ = np.asarray(intercept)[()]
            return
        columns = coef.T if coef.ndim > 1 else coef
        self.dual_coef_ = self._features.root @ columns
        self.intercept_ = intercept - self._features.origin @ columns

    def _matrix(self, X: ArrayLike) -> Any:
        """Return new rows in the columns of the spectrum: kernel values, or features."""
        rows = self._new_rows(X)
        exact = self.n_landmarks_ is None
        return self._features.values(rows) if exact else self._features(rows)

    def _opened_rows(self, X: Any) -> NewRows:
        if kind_of(X) != "stream":
            return NewRows(KernelProduct(self._features, self._new_rows(X)))
        stream = X
        if not isinstance(X, Statistics):  # which are refused, because they have no rows
            check_width(self, X.n_features if isinstance(X, Source) else X.shape[1])
            stream = mapped(X, self._features.values, self._features.landmarks.shape[0])
        return open_rows(stream, self.dual_coef_, self._new_rows)

    def _training_rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return checked rows and response, where the rows are."""
        if not is_device_array(X):
            options = self._check_options(X) | {"multi_output": True, "y_numeric": True}
            return validate_data(self, X, y, **options)  # type: ignore[no-any-return]
        if not self._kernel_is("auto", "linear", *ORDERS):
            raise TypeError(
                "Tensors need a kernel that runs where they are: linear, rbf, laplacian, matern "
                "or auto."
            )
        rows, response = checked_device(X, y)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        self.n_features_in_ = int(rows.shape[1])
        return finite_tensor(rows), response

    def _new_rows(self, X: Any) -> Any:
        """Return checked rows where the landmarks are."""
        if is_device_array(X) or is_device_array(self.X_fit_):
            X = rows_in_memory(X, self.X_fit_)
        if not is_device_array(X):
            return validate_data(self, X, reset=False, **self._check_options(X))
        check_width(self, X.shape[1])
        return finite_tensor(X)

    def _check_options(self, X: Any) -> dict[str, Any]:
        if kind_of(X) not in {"dense", "sparse"}:
            raise TypeError(
                f"A kernel needs rows in an array or a sparse matrix; got {type(X).__name__}. Give "
                "Chunks.of(X, y), and cv=5 to choose the stop."
            )
        accepted = False if self._kernel_is("precomputed") else "csr"
        return {"dtype": DTYPES, "accept_sparse": accepted, "accept_large_sparse": False}

    def _choose_kernel(self, search: Search, data: Any, **folds: Any) -> tuple[Problem, Choice]:
        """Choose kernel and width, store them, and return what was found."""
        order = self.__dict__.pop("_order")
        chosen = KernelSearch(str(self.kernel), search, data, self._features, order, **folds)
        found = chosen.run()
        self.kernel_ = chosen.best.name
        self.gamma_ = chosen.best.gamma
        self.candidates_ = chosen.candidates
        self._features = replace(self._features, kernel=chosen.best)
        return found


@dataclass(eq=False, repr=False)
class StoppedKernelRegressor(_KernelRegressor, StoppedRegressor):
    r"""Least squares in the feature space of a kernel, fitted by a method and stopped early.

    .. math:: f(x) = \sum_i \hat\alpha_i(t) k(x_i, x) + b, \qquad
        \hat\alpha(t) = W^{1/2}US^{-1/2}\varphi(S, t)z

    with S and U the eigenvalues and eigenvectors of the kernel matrix, divided by n and centred if
    there is an intercept. The intercept is not regularised.

    Parameters
    ----------
    method, stop, fit_intercept
        As in :class:`stoptime.StoppedRegressor`; the ``alpha`` of KernelRidge is n/stop for
        ``method="ridge"``, and ``stop=inf`` is the interpolant of minimum norm.
    kernel : str or callable, default="rbf"
        A name of scikit-learn's ``pairwise_kernels``, "matern" (of smoothness 3/2), a function of
        two rows, or "precomputed" if X is the kernel matrix; positive semi-definite. "auto" is the
        best of linear, rbf, Laplacian and Matérn by leave-one-out, at ``stop`` or the best stop.
    gamma : float, "auto" or None, default=None
        The γ of the kernel; None is 1/n_features or what else scikit-learn takes. "auto" chooses it
        for "rbf", "laplacian" and "matern" by the same error, around the median distance.
    degree, coef0, kernel_params : float, and dict or None
        Parameters of the named kernels, and of a kernel given as a function, as in KernelRidge.
    standardise : bool or "auto", default="auto"
        Whether the kernel sees columns that are centred (a sparse X is not) and divided by their
        standard deviation; "auto" where γ is chosen, which then is a number in these units.
    n_landmarks : int or None, default=None
        Number of training rows from which f is made up; the fit is still to all rows. As many as
        rows, or None with at most 5000 rows, is the kernel matrix of all rows (of a tensor, all
        rows are landmarks); None with more rows or streamed data is 2000. Kernels are then compared
        on 1000 rows, and the best ones with the landmarks on 5000 rows, or four for each landmark
        if these are more.
    rng : int, numpy.random.Generator or None, default=None
        Draws landmarks, and the rows on which kernels are compared first; None is the seed 0.

    Attributes
    ----------
    dual_coef_, intercept_ : arrays of shapes (n,) or (n, n_targets), and float or (n_targets,)
        The α above, always in double precision, because large values cancel; and b.
    X_fit_ : array or sparse matrix
        The training rows, the landmarks among them, or the kernel matrix.
    kernel_, gamma_, n_landmarks_
        The kernel, its γ or None for its default, and the number of landmarks or None.
    scale_, centre_ : arrays of shape (n_features,), or None
        Standard deviations and means of the columns if the kernel sees them standardised.
    candidates_ : tuple of KernelCandidate
        All kernels that were tried with the errors that they reached, the best one first; those
        that reached fewer rows come last.
    stop_, method_, oracle_, degrees_of_freedom_, n_features_in_
        As in :class:`stoptime.StoppedRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedKernelRegressor("accelerated-flow", kernel="rbf", gamma=20).fit(X, y)
    >>> f"stop {model.stop_:.0f}, R² {model.score(X, y):.2f}"
    'stop 35, R² 0.56'
    """

    def _fitted(self, data: Any) -> Self:
        if self._tunes and data.rows is not None:
            stops = None if self.stop is None else [one_stop(self.stop)]
            search = Search(LeaveOneOut(), [get_method(self.method)], stops)
            self._choose_kernel(search, data)
            data = data.with_features(self._features)
        return super()._fitted(data)


@dataclass(eq=False, repr=False)
class StoppedKernelRegressorCV(_KernelRegressor, StoppedRegressorCV):
    r"""Kernel least squares stopped early, where the estimated prediction error is smallest.

    .. math:: \hat t = \arg\min_t \frac1n\sum_i\bigl(y_i - \hat f_{-i}(x_i; t)\bigr)^2

    This is the default, exact leave-one-out from one factorisation; :math:`\hat f_{-i}` is the fit
    without row i.

    Parameters
    ----------
    method, stops, cv, rule, per_target, verbose, prefer_simple, scoring
        As in :class:`stoptime.StoppedRegressorCV`; all folds share one kernel matrix.
    kernel, gamma : default="auto"
        As in :class:`StoppedKernelRegressor`: by default kernel, width, method and stop are all
        chosen by the same error.
    degree, coef0, kernel_params, fit_intercept, standardise, n_landmarks, rng
        As in :class:`StoppedKernelRegressor`, as are attributes of the kernel; others are those of
        :class:`stoptime.StoppedRegressorCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedKernelRegressorCV().fit(X, y)
    >>> f"{model.kernel_}, left-out error {model.choice_.error:.0f}, variance {y.var():.0f}"
    'rbf, left-out error 2923, variance 5930'
    """

    kernel: str | Callable[..., Any] = field(default="auto", kw_only=True)
    gamma: float | str | None = field(default="auto", kw_only=True)

    def _opened_stream(self, source: Any) -> Data:
        if self._rule(self.cv).needs_rows:  # which streams have not: said before any work is done
            rows_of(StreamData(source, True))
        return super()._opened_stream(source)

    def _best(self, search: Search, splits: Any, data: Any, groups: Any) -> tuple[Problem, Choice]:
        if not self._tunes or data.rows is None:
            return search.best(data, groups)
        folds = {"rule_of": self._rule, "splits": splits, "groups": groups}
        found = self._choose_kernel(search, data, **folds)
        if search.rule.compares_methods and found[0].data.shape == data.shape:
            return found
        return search.best(data.with_features(self._features), groups)


def kernel_content(model: Any) -> dict[str, Any]:
    """Return kernel and rows of a fitted regressor as types that JSON has, for files of models."""
    if callable(model.kernel_):
        raise TypeError("A kernel that is a function cannot be saved: pickle the model.")
    rows = model.X_fit_
    rows = rows.toarray() if sparse.issparse(rows) else on_host(rows)
    columns = vars(Columns(model.centre_, model.scale_).on_host)
    options = {name: getattr(model, name) for name in ("degree", "coef0", "fit_intercept")}
    options |= {"kernel": model.kernel_, "gamma": model.gamma_, "n_landmarks": model.n_landmarks_}
    options["standardise"] = model.scale_ is not None
    known = {key: None if v is None else v.tolist() for key, v in columns.items()}
    return {"options": options, "rows": np.asarray(rows, np.float64).tolist(), **known}


def set_kernel(model: Any, content: dict[str, Any]) -> None:
    """Give a regressor with the options of such a content its rows, so that it can predict."""
    model._check_kernel()
    model.n_landmarks_ = model.n_landmarks
    found = (content["centre"], content["scale"])
    columns = Columns(*(None if one is None else np.array(one, np.float64) for one in found))
    model._take(columns, np.array(content["rows"], np.float64))


class _KernelClassifier(KernelParameters, _LinearClassifier):
    """A classifier whose decision values are those of a kernel regressor."""

    def _regressor(self, **options: Any) -> StoppedKernelRegressorCV:
        return StoppedKernelRegressorCV(**options, **self._kernel_parameters)

    def _keep(self, regressor: Any) -> None:
        self.dual_coef_ = regressor.dual_coef_
        self.intercept_ = regressor.intercept_ + self._shift
        for name in self._kernel_found:
            setattr(self, name, getattr(regressor, name))


@dataclass(eq=False, repr=False)
class StoppedKernelClassifier(_KernelClassifier, StoppedClassifier):
    r"""Kernel least squares on labels coded as ±1, fitted by a method and stopped early.

    .. math:: f(x) = \sum_i \hat\alpha_i(t) k(x_i, x) + b

    Parameters and attributes are those of :class:`stoptime.StoppedClassifier`, with the kernel of
    :class:`StoppedKernelRegressor` and its ``dual_coef_`` in the place of ``coef_``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = StoppedKernelClassifier("accelerated-flow", gamma=1.0).fit(X, y)
    >>> f"accuracy {model.score(X, y):.3f}"
    'accuracy 0.980'
    """


@dataclass(eq=False, repr=False)
class StoppedKernelClassifierCV(_KernelClassifier, StoppedClassifierCV):
    r"""Kernel least squares on labels coded as ±1, stopped where left-out rows are predicted best.

    The stop is that of the least exact leave-one-out error, and probabilities are calibrated on the
    same left-out decision values, without a refit. Parameters and attributes are those of
    :class:`stoptime.StoppedClassifierCV`, with the kernel of :class:`StoppedKernelRegressorCV` and
    its ``dual_coef_`` in the place of ``coef_``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = StoppedKernelClassifierCV().fit(X, y)
    >>> model.predict_proba([[0.5, 0.5]]).round(2)
    array([[0.93, 0.07]])
    """

    kernel: str | Callable[..., Any] = field(default="auto", kw_only=True)
    gamma: float | str | None = field(default="auto", kw_only=True)
