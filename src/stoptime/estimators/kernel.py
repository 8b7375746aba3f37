"""scikit-learn estimators for kernels: the linear ones, with a kernel matrix in the place of X."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from stoptime.estimators.classifier import StoppedClassifier, StoppedClassifierCV, _LinearClassifier
from stoptime.estimators.kernel_search import (
    MOST_LOOKED_AT,
    Chosen,
    Distances,
    Index,
    KernelCandidate,
    choose_kernel,
    stages,
    warn_of_copies,
)
from stoptime.estimators.linear import StoppedRegressor, StoppedRegressorCV
from stoptime.estimators.regressor import LinearRegressor
from stoptime.methods.base import Filter, Method
from stoptime.methods.registry import get_method
from stoptime.spectrum.data import Data
from stoptime.spectrum.kernel import KernelData
from stoptime.spectrum.kinds import DTYPES, checked_device, kind_of
from stoptime.spectrum.landmarks import (
    KERNEL_VALUES,
    KernelProduct,
    LandmarkData,
    LandmarkFeatures,
    LandmarkRows,
    LandmarkStream,
    mapped,
    sampled,
)
from stoptime.spectrum.moments import Statistics
from stoptime.spectrum.new_rows import NewRows, open_rows
from stoptime.spectrum.radial import ORDERS, Columns, Radial, by_scikit_learn, given, linear
from stoptime.spectrum.rows import sample_sizes
from stoptime.spectrum.source import Source
from stoptime.spectrum.sources import as_stream
from stoptime.stopping.comparison import Search
from stoptime.stopping.leave_one_out import LeaveOneOut
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice, Rule
from stoptime.support.arrays import (
    Floats,
    array_namespace,
    as_dtype,
    is_device_array,
    like,
    on_host,
    slices,
)
from stoptime.support.checks import is_whole, nonnegative, truth_value
from stoptime.support.progress import progress_shown
from stoptime.support.user_warnings import warn_user

if TYPE_CHECKING:
    from stoptime.estimators.classifier import ClassWeight

Kernel = str | Callable[..., Any]
Gamma = float | str | None
MOST_EXACT = 5000  # rows: the kernel matrix of more is slow to factor, and landmarks are as good
MANY_LANDMARKS = 2000  # that are drawn by default
MOST_COMPARED = 1000  # rows on which kernels are compared first if there are landmarks
ROWS_PER_LANDMARK = 4  # of the comparison with landmarks: a fit costs about as much as its factors


class _WithKernel(BaseEstimator):
    """The parameters of a kernel, and what they say of the input."""

    _kernel_parameters: ClassVar[tuple[str, ...]] = (
        "kernel",
        "gamma",
        "degree",
        "coef0",
        "kernel_params",
        "standardise",
        "n_landmarks",
        "rng",
    )
    # what a fit finds of the kernel
    _kernel_found: ClassVar[tuple[str, ...]] = (
        "kernel_",
        "gamma_",
        "scale_",
        "centre_",
        "candidates_",
        "n_landmarks_",
        "X_fit_",
    )

    def _set_kernel(self, *values: Any) -> None:
        for name, value in zip(self._kernel_parameters, values, strict=True):
            setattr(self, name, value)

    def _kernel_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._kernel_parameters}

    def _is(self, *names: str) -> bool:
        """Whether the kernel is one of these names."""
        return isinstance(self.kernel, str) and self.kernel in names

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is("precomputed")
        tags.input_tags.sparse = not self._is("precomputed")
        return tags


class _KernelRegressor(_WithKernel, LinearRegressor):
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
        rows, y = self._checked(X, y, multi_output=True, y_numeric=True)
        n = rows.shape[0]
        weights = sample_sizes(sample_weight, n)[0]
        self.kernel_ = self.kernel
        self.gamma_ = None if isinstance(self.gamma, str) else self.gamma
        self.candidates_: tuple[KernelCandidate, ...] = ()
        columns = self._columns_of(rows, weights)
        self.centre_, self.scale_ = columns.centre, columns.scale
        count = self._landmark_count(n, rows)
        self.n_landmarks_ = None if count == n else count
        present = np.arange(n) if weights is None else np.flatnonzero(weights)
        # kernels are compared on the first of these rows, and landmarks are the last ones
        order = np.random.default_rng(0 if self.rng is None else self.rng).permutation(present)
        self._order = order if self._tunes else None
        centred = truth_value("fit_intercept", self.fit_intercept)
        if self.n_landmarks_ is not None:
            landmarks = rows[like(rows, np.sort(order[-count:]))]
            # rows that are taken from a memory map are in memory
            self.X_fit_ = np.asarray(landmarks) if isinstance(rows, np.ndarray) else landmarks
            by_landmarks = LandmarkRows(rows, self._prepare())
            return LandmarkData.of(by_landmarks, y, sample_weight, centred, self._matrix)
        self.X_fit_ = rows
        features = self._prepare()
        # the linear kernel stands for the data until a kernel is chosen; in double precision,
        # because large coefficients cancel in predictions
        matrix = features.kernel(features.landmarks, features.landmarks)
        response = np.asarray(y, np.float64)
        return KernelData.of(matrix, response, sample_weight, centred, self._matrix)

    def _opened_stream(self, source: Any) -> Data:
        """Choose kernel and landmarks on a sample of streamed rows, and return their features."""
        if not isinstance(source, Source) or self._is("precomputed"):
            raise TypeError("Landmarks are drawn from rows: give chunks or a Dask collection.")
        most = MANY_LANDMARKS if self.n_landmarks is None else int(self.n_landmarks)
        rng = np.random.default_rng(0 if self.rng is None else self.rng)
        sample = sampled(source, max(ROWS_PER_LANDMARK * most, MOST_EXACT), rng)
        options = self._kernel_options() | {"n_landmarks": min(most, len(sample.X)), "rng": rng}
        model = StoppedKernelRegressorCV(fit_intercept=self.fit_intercept, **options)
        if self._tunes:
            model.fit(*sample)
        else:
            model._opened(*sample)
        for name in (*self._kernel_found, "n_features_in_"):
            setattr(self, name, getattr(model, name))
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if source.names is not None:
            self.feature_names_in_ = np.array(source.names, dtype=object)
        features = self._prepare()
        self.n_landmarks_ = features.landmarks.shape[0]
        stream = mapped(source, features, self.n_landmarks_)
        return LandmarkStream(stream, truth_value("fit_intercept", self.fit_intercept))

    def _check_kernel(self) -> None:
        known = {"auto", "precomputed", *ORDERS, *PAIRWISE_KERNEL_FUNCTIONS}
        if not callable(self.kernel) and self.kernel not in known:
            raise ValueError(
                f"Unknown kernel {self.kernel!r}; choose one of {', '.join(sorted(known))}, or "
                "give a function of two rows."
            )
        if isinstance(self.gamma, str) and self.gamma != "auto":
            raise ValueError(f'gamma must be a number, None or "auto"; got {self.gamma!r}.')
        if self._is("auto") and self.gamma != "auto":
            raise ValueError(
                "gamma means something else for every kernel: name the kernel, for example "
                'kernel="rbf", or leave gamma="auto".'
            )
        if self.standardise not in (True, False, "auto"):
            raise ValueError(
                f'standardise must be True, False or "auto"; got {self.standardise!r}.'
            )
        count = self.n_landmarks
        if count is not None and not (is_whole(count) and count >= 1):
            raise ValueError(f"n_landmarks must be a positive whole number; got {count!r}.")
        if self._is("precomputed") and (self.standardise is True or count is not None):
            raise ValueError(
                'kernel="precomputed" has no columns and no rows: give standardise=False and '
                "n_landmarks=None."
            )

    @property
    def _tunes(self) -> bool:
        """Whether the width is chosen, and the kernel if it is "auto"."""
        return self._is("auto", *ORDERS) and isinstance(self.gamma, str)

    def _columns_of(self, rows: Any, weights: Floats | None) -> Columns:
        """Return what is subtracted from columns, and what divides them."""
        scaled = self._tunes if isinstance(self.standardise, str) else bool(self.standardise)
        # distances are computed from squares, which cancel if rows are far from zero
        centred = scaled or self._is("auto", *ORDERS)
        return Columns.of(rows, weights, centred=centred, scaled=scaled)

    def _landmark_count(self, n: int, rows: Any) -> int:
        """Return the number of landmarks, or that of the rows for the kernel matrix of all rows."""
        if self._is("precomputed"):
            return n
        if self.n_landmarks is not None:
            # the kernel matrix of all rows is for the host
            return min(int(self.n_landmarks), n - 1 if is_device_array(rows) else n)
        if n > MOST_EXACT:
            warn_user(
                f"With {n} rows the kernel matrix is large: {MANY_LANDMARKS} of them, drawn at "
                "random, are landmarks. Give n_landmarks, or as many as there are rows for an "
                "exact fit.",
                UserWarning,
            )
            return MANY_LANDMARKS
        if is_device_array(rows):
            raise TypeError(
                "The kernel matrix of all rows is computed on the host: give rows as an array of "
                "NumPy, or n_landmarks, for example n_landmarks=1000."
            )
        return n

    def _prepare(self) -> LandmarkFeatures:
        """Return the features of the landmarks, or of all rows, and keep them for new rows."""
        columns = Columns(self.centre_, self.scale_)
        centred = truth_value("fit_intercept", self.fit_intercept)
        landmarks = columns(self.X_fit_)
        self._features = LandmarkFeatures(columns, self._kernel_function(), landmarks, centred)
        return self._features

    def _kernel_function(self) -> Callable[[Any, Any], Any]:
        """Return the kernel as a function of two sets of prepared rows."""
        name = self.kernel_
        if callable(name):
            return partial(by_scikit_learn, {"metric": name, **(self.kernel_params or {})})
        if name in ORDERS:
            gamma = 1 / self.n_features_in_ if self.gamma_ is None else self.gamma_
            return Radial(name, float(nonnegative("gamma", gamma)))
        if name in {"linear", "auto", "precomputed"}:
            return given if name == "precomputed" else linear
        parameters = {"degree": self.degree, "coef0": self.coef0}
        if self.gamma_ is not None:  # otherwise the kernel has a default of its own
            parameters["gamma"] = float(nonnegative("gamma", self.gamma_))
        return partial(by_scikit_learn, {"metric": name, "filter_params": True, **parameters})

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
        rows = self._checked(X, reset=False)
        exact = self.n_landmarks_ is None
        return self._features.values(rows) if exact else self._features(rows)

    def _opened_rows(self, X: Any) -> NewRows:
        if kind_of(X) != "stream":
            return NewRows(KernelProduct(self._features, self._checked(X, reset=False)))
        stream = X
        if not isinstance(X, Statistics):  # which are refused, because they have no rows
            count = X.n_features if isinstance(X, Source) else X.shape[1]
            if count != self.n_features_in_:
                raise ValueError(f"X has {count} features, but {self.n_features_in_} were fitted.")
            stream = mapped(X, self._features.values, self._features.landmarks.shape[0])
        return open_rows(stream, self.dual_coef_, self._checked)

    def _checked(self, X: Any, *y: Any, **options: Any) -> Any:
        if not is_device_array(X):
            if kind_of(X) not in {"dense", "sparse"}:
                raise TypeError(f"A kernel needs rows in an array; got {type(X).__name__}.")
            accepted = False if self._is("precomputed") else "csr"
            options |= {"dtype": DTYPES, "accept_sparse": accepted, "accept_large_sparse": False}
            return validate_data(self, X, *y, **options)
        if not self._is("auto", "linear", *ORDERS):
            raise TypeError(
                "Tensors need a kernel that runs where they are: linear, rbf, laplacian, matern "
                "or auto."
            )
        rows, response = checked_device(X, y[0] if y else X[:, 0])
        if options.get("reset", True):
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
            self.n_features_in_ = int(rows.shape[1])
        if rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {self.n_features_in_} were fitted."
            )
        if not bool(array_namespace(rows).all(array_namespace(rows).isfinite(rows))):
            raise ValueError("Input X contains NaN or infinity.")
        return (rows, response) if y else rows

    def _choose_kernel(self, search: Search, splits: Any, data: Any, groups: Any) -> Chosen:
        """Choose kernel and width, on all rows or on some if there are landmarks; store them."""
        n = data.shape[0]
        if n < 2:
            raise ValueError("Choosing a kernel needs at least 2 rows; got n_samples=1.")
        is_compared = search.rule.compares_methods
        if not (is_compared or all(isinstance(one, Filter) for one in search.methods)):
            raise ValueError(
                f"A kernel is chosen by leave-one-out, which {search.methods[0].name} does not "
                "have: name the kernel and give gamma a number, or give cv=5."
            )
        order = self.__dict__.pop("_order")
        index = np.arange(n)
        more = None
        rows = self._features.landmarks
        if self.n_landmarks_ is not None:
            more = np.sort(order[: max(ROWS_PER_LANDMARK * self.n_landmarks_, MOST_EXACT)])
            index = np.sort(order[:MOST_COMPARED])
            X = data.sample.X.X
            rows = self._on_host(X[like(X, index)])
        weights = None if data.sample.row_weights is None else data.sample.row_weights[index]
        known = Distances(rows, weights, np.searchsorted(index, order[: len(index)]))

        def evaluate(kernel: Radial | None, part: Index | None) -> tuple[Problem, Choice]:
            if part is None and more is not None:
                own = more
                some = self._with_kernel(data.subset(own), kernel or linear)
            else:
                own = index if part is None else index[part]
                training = rows if part is None else rows[part]
                values = partial(self._to_new_rows, kernel or linear, training)
                matrix = known.kernel_matrix(kernel, part)
                some = KernelData.of_some(matrix, data.sample.take(own), values)
            rule: Rule = search.rule if is_compared else LeaveOneOut()
            if splits is not None:
                rule = self._rule(_restricted(splits, own, n))
            grouping = None if groups is None else groups[own]
            return replace(search, rule=rule).best(some, grouping)

        sizes = [*stages(len(known.order)), *([] if more is None else [len(more)])]
        with progress_shown(search.verbose):
            chosen = choose_kernel(self.kernel, known, evaluate, sizes)
        self.kernel_ = "linear" if chosen.kernel is None else chosen.kernel.name
        self.gamma_ = None if chosen.kernel is None else chosen.kernel.gamma
        self.candidates_ = chosen.candidates
        self._features = replace(self._features, kernel=chosen.kernel or linear)
        if splits is None and isinstance(search.rule, LeaveOneOut):
            few = index[known.order[:MOST_LOOKED_AT]]
            blocks: Iterable[tuple[int, Any]] = [(0, rows)]
            looked_at = rows[known.order[:MOST_LOOKED_AT]]
            if more is not None:  # where the rows are, because all of them take part
                prepare = self._features.prepare
                looked_at = prepare(X[like(X, few)])
                height = KERNEL_VALUES // len(few)
                blocks = ((one.start, prepare(X[one])) for one in slices(n, height))
            y = np.asarray(on_host(data.sample.response), np.float64)
            warn_of_copies(few, blocks, looked_at, y, float(np.mean(chosen.choice.error)))
        return chosen

    def _on_host(self, rows: Any) -> Any:
        """Return rows as kernels see them, on the host."""
        rows = self._features.prepare(rows)
        return rows if sparse.issparse(rows) else np.asarray(on_host(rows))

    def _to_new_rows(self, kernel: Callable[[Any, Any], Any], training: Any, X: Any) -> Any:
        """Return the kernel between new rows and some training rows."""
        return kernel(self._on_host(self._checked(X, reset=False)), training)

    def _with_kernel(self, data: Any, kernel: Callable[[Any, Any], Any]) -> Any:
        """Return data with another kernel."""
        return data.with_kernel(kernel, self._features.landmarks)


def _restricted(splits: Any, index: Index, count: int) -> list[tuple[Index, Index]]:
    """Return folds of some of the rows, numbered among these."""
    place = np.full(count, -1)
    place[index] = np.arange(len(index))
    pairs = [[own[own >= 0] for own in (place[train], place[test])] for train, test in splits]
    return [(train, test) for train, test in pairs if len(train) > 1 and len(test)]


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
        rows, or None with at most 5000 rows, is the kernel matrix of all rows; None with more rows
        or streamed data is 2000. Kernels are then compared on 1000 rows, and the best ones with
        the landmarks on 5000 rows, or four for each landmark if these are more.
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
    >>> model = StoppedKernelRegressor("nesterov-flow", kernel="rbf", gamma=20).fit(X, y)
    >>> f"stop {model.stop_:.0f}, R² {model.score(X, y):.2f}"
    'stop 35, R² 0.56'
    """

    def __init__(  # noqa: PLR0913 - those of the linear estimator and those of the kernel
        self,
        method: str | Method = "nesterov-flow",
        stop: float | None = None,
        kernel: Kernel = "rbf",
        gamma: Gamma = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        *,
        standardise: bool | str = "auto",
        n_landmarks: int | None = None,
        rng: Any = None,
    ) -> None:
        super().__init__(method, stop, fit_intercept)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params, standardise, n_landmarks, rng)

    def _fitted(self, data: Data) -> Self:
        if self._tunes and data.rows is not None:
            stops = None if self.stop is None else [nonnegative("stop", self.stop, infinite=True)]
            search = Search(LeaveOneOut(), [get_method(self.method)], stops)
            self._choose_kernel(search, None, data, None)
            data = self._with_kernel(data, self._features.kernel)
        return super()._fitted(data)


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
        As in :class:`StoppedKernelRegressor`.

    Attributes
    ----------
    dual_coef_, intercept_, X_fit_
        As in :class:`StoppedKernelRegressor`; others as in :class:`stoptime.StoppedRegressorCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedKernelRegressorCV().fit(X, y)
    >>> f"{model.kernel_}, left-out error {model.choice_.error:.0f}, variance {y.var():.0f}"
    'rbf, left-out error 2923, variance 5930'
    """

    def __init__(  # noqa: PLR0913, PLR0917 - those of the linear estimator and those of the kernel
        self,
        method: str | Method | Sequence[str | Method] = "auto",
        stops: ArrayLike | int | None = None,
        cv: Any = None,
        rule: str | Rule = "loo",
        per_target: bool = False,
        kernel: Kernel = "auto",
        gamma: Gamma = "auto",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        verbose: bool = False,
        prefer_simple: bool = False,
        scoring: str | Callable[..., float] | None = None,
        *,
        standardise: bool | str = "auto",
        n_landmarks: int | None = None,
        rng: Any = None,
    ) -> None:
        options = per_target, fit_intercept, verbose, prefer_simple, scoring
        super().__init__(method, stops, cv, rule, *options)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params, standardise, n_landmarks, rng)

    def _best(self, search: Search, splits: Any, data: Data, groups: Any) -> tuple[Problem, Choice]:
        if not self._tunes or data.rows is None:
            return search.best(data, groups)
        chosen = self._choose_kernel(search, splits, data, groups)
        if search.rule.compares_methods and chosen.problem.data.shape == data.shape:
            return chosen.problem, chosen.choice
        return search.best(self._with_kernel(data, self._features.kernel), groups)


def kernel_content(model: Any) -> dict[str, Any]:
    """Return kernel and rows of a fitted regressor as types that JSON has, for files of models."""
    if callable(model.kernel_):
        raise TypeError("A kernel that is a function cannot be saved: pickle the model.")
    rows = model.X_fit_
    rows = rows.toarray() if sparse.issparse(rows) else on_host(rows)
    columns = {"centre": model.centre_, "scale": model.scale_}
    options = {name: getattr(model, name) for name in ("degree", "coef0", "fit_intercept")}
    options |= {"kernel": model.kernel_, "gamma": model.gamma_, "n_landmarks": model.n_landmarks_}
    options["standardise"] = model.scale_ is not None
    known = {key: None if v is None else on_host(v).tolist() for key, v in columns.items()}
    return {"options": options, "rows": np.asarray(rows, np.float64).tolist(), **known}


def kernel_values(content: dict[str, Any]) -> Callable[[Any], Any]:
    """Return the function of new rows that such a content describes: their kernel values."""
    model = StoppedKernelRegressor(**content["options"])
    model._check_kernel()
    model.kernel_ = model.kernel
    model.gamma_ = model.gamma
    model.X_fit_ = np.array(content["rows"], np.float64)
    model.n_features_in_ = model.X_fit_.shape[1]
    for name in ("centre", "scale"):
        value = content[name]
        setattr(model, f"{name}_", None if value is None else np.array(value, np.float64))
    return model._prepare().values


class _KernelClassifier(_WithKernel, _LinearClassifier):
    """A classifier whose decision values are those of a kernel regressor."""

    def _regressor(self, **options: Any) -> StoppedKernelRegressorCV:
        return StoppedKernelRegressorCV(**options, **self._kernel_options())

    def _keep(self, regressor: Any) -> None:
        self.dual_coef_ = regressor.dual_coef_
        self.intercept_ = regressor.intercept_ + self._shift
        for name in self._kernel_found:
            setattr(self, name, getattr(regressor, name))


class StoppedKernelClassifier(_KernelClassifier, StoppedClassifier):
    r"""Kernel least squares on labels coded as ±1, fitted by a method and stopped early.

    .. math:: f(x) = \sum_i \hat\alpha_i(t) k(x_i, x) + b

    Parameters
    ----------
    method, stop, class_weight, fit_intercept, calibration
        As in :class:`stoptime.StoppedClassifier`.
    kernel, gamma, degree, coef0, kernel_params, standardise, n_landmarks, rng
        As in :class:`StoppedKernelRegressor`.

    Attributes
    ----------
    dual_coef_, intercept_, X_fit_
        As in :class:`StoppedKernelRegressor`, with the shift of the intercept that
        :class:`stoptime.StoppedClassifier` has; others as in that class.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = StoppedKernelClassifier("nesterov-flow", gamma=1.0).fit(X, y)
    >>> f"accuracy {model.score(X, y):.3f}"
    'accuracy 0.980'
    """

    def __init__(  # noqa: PLR0913 - those of the linear estimator and those of the kernel
        self,
        method: str | Method = "nesterov-flow",
        stop: float | None = None,
        kernel: Kernel = "rbf",
        gamma: Gamma = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        *,
        calibration: str = "sigmoid",
        standardise: bool | str = "auto",
        n_landmarks: int | None = None,
        rng: Any = None,
    ) -> None:
        super().__init__(method, stop, class_weight, fit_intercept, calibration=calibration)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params, standardise, n_landmarks, rng)


class StoppedKernelClassifierCV(_KernelClassifier, StoppedClassifierCV):
    r"""Kernel least squares on labels coded as ±1, stopped where left-out rows are predicted best.

    The stop is that of the least exact leave-one-out error, and probabilities are calibrated on the
    same left-out decision values, without a refit.

    Parameters
    ----------
    method, stops, cv, rule, scoring, class_weight, fit_intercept, verbose, calibration
        As in :class:`stoptime.StoppedClassifierCV`; all folds share one kernel matrix.
    kernel, gamma, degree, coef0, kernel_params, standardise, n_landmarks, rng
        As in :class:`StoppedKernelRegressorCV`.

    Attributes
    ----------
    dual_coef_, intercept_, X_fit_
        As in :class:`StoppedKernelClassifier`; others as in :class:`stoptime.StoppedClassifierCV`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = StoppedKernelClassifierCV().fit(X, y)
    >>> model.predict_proba([[0.5, 0.5]]).round(2)
    array([[0.92, 0.08]])
    """

    def __init__(  # noqa: PLR0913, PLR0917 - those of the linear estimator and those of the kernel
        self,
        method: str | Method | Sequence[str | Method] = "auto",
        stops: ArrayLike | int | None = None,
        cv: Any = None,
        rule: str | Rule = "loo",
        kernel: Kernel = "auto",
        gamma: Gamma = "auto",
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        scoring: str | Callable[..., float] | None = None,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        verbose: bool = False,
        *,
        calibration: str = "sigmoid",
        standardise: bool | str = "auto",
        n_landmarks: int | None = None,
        rng: Any = None,
    ) -> None:
        options = scoring, class_weight, fit_intercept, verbose
        super().__init__(method, stops, cv, rule, *options, calibration=calibration)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params, standardise, n_landmarks, rng)
