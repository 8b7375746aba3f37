"""scikit-learn estimators for kernels: the linear ones, with a kernel matrix in the place of X."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils import Tags
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.estimators.classifier import StoppedClassifier, StoppedClassifierCV, _LinearClassifier
from stoptime.estimators.kernel_search import (
    MOST_LOOKED_AT,
    Chosen,
    Distances,
    Index,
    KernelCandidate,
    choose_kernel,
    warn_of_copies,
)
from stoptime.estimators.linear import StoppedRegressor, StoppedRegressorCV
from stoptime.estimators.regressor import LinearRegressor
from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.spectrum.accuracy import check_range
from stoptime.spectrum.data import Data
from stoptime.spectrum.kernel import KernelData
from stoptime.spectrum.kinds import DTYPES, array_options
from stoptime.spectrum.moments import sample_sizes
from stoptime.spectrum.radial import ORDERS, Radial
from stoptime.stopping.comparison import Search
from stoptime.stopping.leave_one_out import LeaveOneOut
from stoptime.stopping.problem import Problem
from stoptime.stopping.rule import Choice, Rule
from stoptime.support.arrays import EPS, Array, Floats
from stoptime.support.checks import nonnegative, truth_value

if TYPE_CHECKING:
    from stoptime.estimators.classifier import ClassWeight

Kernel = str | Callable[..., Any]
Gamma = float | str | None


class _WithKernel(BaseEstimator):
    """The parameters of a kernel, and what they say of the input."""

    _kernel_parameters: ClassVar[tuple[str, ...]] = (
        "kernel",
        "gamma",
        "degree",
        "coef0",
        "kernel_params",
        "standardise",
        "rng",
    )

    def _set_kernel(self, *values: Any) -> None:
        for name, value in zip(self._kernel_parameters, values, strict=True):
            setattr(self, name, value)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        is_precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.pairwise = is_precomputed
        tags.input_tags.sparse = not is_precomputed
        return tags


@dataclass(frozen=True)
class _Training:
    """Training rows as kernels see them, and all else that a fit to some of them needs."""

    rows: Any
    y: Array
    weights: Floats | None
    fit_intercept: bool
    known: Distances

    def data(
        self, kernel: Radial | None, index: Index | None, values: Callable[..., Any]
    ) -> KernelData:
        """Return the kernel matrix of some rows, or all; ``values`` gives it for new rows."""
        some: Any = slice(None) if index is None else index
        weights = None if self.weights is None else self.weights[some]
        matrix = self.known.kernel_matrix(kernel, index)
        data = KernelData.validated(matrix, self.y[some], weights, self.fit_intercept)
        return replace(data, values=partial(values, kernel, self.rows[some]))


class _KernelRegressor(_WithKernel, LinearRegressor):
    """Predictions from ``dual_coef_``, ``intercept_`` and the training rows."""

    dual_coef_: Floats
    X_fit_: Any
    _streams = False

    def predict(self, X: ArrayLike) -> Floats:
        r"""Return predictions of shape (n,) or (n, n_targets).

        .. math:: f(x) = \sum_i \alpha_i k(x_i, x) + b

        X are new rows; for ``kernel="precomputed"``, the kernel between them and the training rows.
        """
        check_is_fitted(self)
        predicted = self._matrix(X) @ self.dual_coef_ + self.intercept_
        return predicted.astype(self.X_fit_.dtype, copy=False)

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Data:
        self.__dict__.pop("_training", None)  # of an earlier fit that failed
        self._check_kernel()
        rows, y = self._checked(X, y, multi_output=True, y_numeric=True)
        self.X_fit_ = rows
        self.kernel_ = self.kernel
        self.gamma_ = None if isinstance(self.gamma, str) else self.gamma
        self.candidates_: tuple[KernelCandidate, ...] = ()
        y = np.asarray(y, dtype=np.float64)
        centred = truth_value("fit_intercept", self.fit_intercept)
        weights = sample_sizes(sample_weight, len(y))[0]
        self._measure(rows, weights)
        # in double precision, because large α cancel in predictions
        rows = self._prepared(rows)
        if not self._tunes:
            data = KernelData.validated(self._values(rows, None), y, sample_weight, centred)
            return replace(data, values=self._matrix)
        # the linear kernel stands for the data until a kernel is chosen
        matrix = Distances(rows, weights, np.arange(len(y))).kernel_matrix(None, None)
        data = KernelData.validated(matrix, y, sample_weight, centred)
        present = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
        order = np.random.default_rng(0 if self.rng is None else self.rng).permutation(present)
        self._training = _Training(rows, y, weights, centred, Distances(rows, weights, order))
        return data

    def _check_kernel(self) -> None:
        known = {"auto", "precomputed", *ORDERS, *PAIRWISE_KERNEL_FUNCTIONS}
        if not callable(self.kernel) and self.kernel not in known:
            raise ValueError(
                f"Unknown kernel {self.kernel!r}; choose one of {', '.join(sorted(known))}, or "
                "give a function of two rows."
            )
        if isinstance(self.gamma, str) and self.gamma != "auto":
            raise ValueError(f'gamma must be a number, None or "auto"; got {self.gamma!r}.')
        if isinstance(self.kernel, str) and self.kernel == "auto" and self.gamma != "auto":
            raise ValueError(
                "gamma means something else for every kernel: name the kernel, for example "
                'kernel="rbf", or leave gamma="auto".'
            )
        if not isinstance(self.standardise, bool | np.bool_) and self.standardise != "auto":
            raise ValueError(
                f'standardise must be True, False or "auto"; got {self.standardise!r}.'
            )

    @property
    def _tunes(self) -> bool:
        """Whether the width is chosen, and the kernel if it is "auto"."""
        named = isinstance(self.kernel, str) and self.kernel in {"auto", *ORDERS}
        return named and isinstance(self.gamma, str)

    def _measure(self, rows: Any, weights: Floats | None) -> None:
        """Store the means and standard deviations of the columns, as far as they are needed."""
        self.centre_ = None
        self.scale_ = None
        is_radial = isinstance(self.kernel, str) and self.kernel in {"auto", *ORDERS}
        standardise = self._tunes if isinstance(self.standardise, str) else bool(self.standardise)
        if standardise and self.kernel == "precomputed":
            raise ValueError('kernel="precomputed" has no columns: give standardise=False.')
        if not (is_radial or standardise):
            return
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked with the rows
            if sparse.issparse(rows):
                mean, variance = mean_variance_axis(rows.astype(np.float64), 0, weights)
            else:
                mean = np.average(rows, axis=0, weights=weights).astype(np.float64)
                variance = np.average((rows - mean) ** 2, axis=0, weights=weights)
        if not sparse.issparse(rows):
            # distances are computed from squares, which cancel if rows are far from zero
            self.centre_ = mean
        if standardise:
            deviation = np.sqrt(variance)
            # what varies less than by rounding is constant, and must not become a feature
            noise = EPS * np.maximum(np.abs(mean), deviation.max(initial=0))
            self.scale_ = np.where(deviation > noise, deviation, 1.0)

    def _prepared(self, rows: Any) -> Any:
        """Return rows as the kernel sees them: in double precision, and standardised if asked."""
        rows = rows.astype(np.float64, copy=False)
        if sparse.issparse(rows):
            return rows if self.scale_ is None else rows @ sparse.diags_array(1 / self.scale_)
        if self.centre_ is None:
            return rows
        rows = rows - self.centre_
        if self.scale_ is not None:
            rows /= self.scale_
        with np.errstate(over="ignore"):
            square = np.einsum("ij,ij->", rows, rows)
        # squared distances are at most four times the largest square; small ones are harmless
        check_range("X", square, False, room=4.0)
        return rows

    def _keep(self, coef: Floats, intercept: Floats) -> None:
        self.dual_coef_ = np.ascontiguousarray(coef.T)
        self.intercept_ = np.asarray(intercept)[()]

    def _matrix(self, X: ArrayLike) -> Floats:
        """Return the kernel between new rows and the training rows."""
        rows = self._checked(X, reset=False)
        return self._values(self._prepared(rows), self._prepared(self.X_fit_))

    def _checked(self, X: Any, *y: Any, **options: Any) -> Any:
        if array_options(X) is None:
            raise TypeError(f"A kernel needs rows in memory as an array; got {type(X).__name__}.")
        sparse = False if self.kernel == "precomputed" else "csr"
        options |= {"dtype": DTYPES, "accept_sparse": sparse, "accept_large_sparse": False}
        return validate_data(self, X, *y, **options)

    def _values(self, rows: Any, others: Any) -> Floats:
        """Return the kernel between prepared rows, or among them if there are no others."""
        if self.kernel_ == "precomputed":
            return np.asarray(rows)
        if isinstance(self.kernel_, str) and self.kernel_ in ORDERS:
            gamma = 1 / rows.shape[1] if self.gamma_ is None else self.gamma_
            kernel = Radial(self.kernel_, float(nonnegative("gamma", gamma)))
            return np.asarray(kernel(rows, rows if others is None else others))
        if callable(self.kernel_):
            parameters = self.kernel_params or {}
        else:
            parameters = {"degree": self.degree, "coef0": self.coef0}
            if self.gamma_ is not None:  # otherwise the kernel has a default of its own
                parameters["gamma"] = float(nonnegative("gamma", self.gamma_))
        options = {"metric": self.kernel_, "filter_params": True} | parameters
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked in the result
            values = pairwise_kernels(rows, others, **options)
        if not np.isfinite(values).all():
            raise ValueError(
                "The kernel has NaN or infinite values. Rescale the columns of X, for example with "
                "StandardScaler, or choose another kernel or other parameters."
            )
        return np.asarray(values)

    def _between(self, kernel: Radial | None, training: Any, X: Any) -> Floats:
        """Return the values of a candidate between new rows and some training rows."""
        rows = self._prepared(self._checked(X, reset=False))
        if kernel is not None:
            return np.asarray(kernel(rows, training))
        product = rows @ training.T
        return np.asarray(product.toarray() if sparse.issparse(product) else product)

    def _choose_kernel(
        self, search: Search, splits: Any, groups: Any
    ) -> tuple[Chosen, Callable[..., KernelData]]:
        """Choose kernel and width, and store them; return the choice, and its data."""
        training: _Training = self.__dict__.pop("_training")
        if len(training.y) < 2:
            raise ValueError("Choosing a kernel needs at least 2 rows; got n_samples=1.")
        is_compared = search.rule.compares_methods
        rule = search.rule if is_compared else LeaveOneOut()
        if not (is_compared or all(one.has_filter for one in search.methods)):
            raise ValueError(
                f"A kernel is chosen by leave-one-out, which {search.methods[0].name} does not "
                "have: name the kernel and give gamma a number, or give cv=5."
            )

        def evaluate(kernel: Radial | None, index: Index | None) -> tuple[Problem, Choice]:
            own: Rule = rule
            grouping = groups
            if index is not None and splits is not None:
                own = self._rule(_restricted(splits, index, len(training.y)))
            if index is not None and groups is not None:
                grouping = groups[index]
            quiet = replace(search, rule=own, verbose=False)
            return quiet.best(training.data(kernel, index, self._between), grouping)

        name = self.kernel if isinstance(self.kernel, str) else "auto"
        count = len(training.y)
        chosen = choose_kernel(name, training.known, evaluate, count, verbose=search.verbose)
        self.kernel_ = "linear" if chosen.kernel is None else chosen.kernel.name
        self.gamma_ = None if chosen.kernel is None else chosen.kernel.gamma
        self.candidates_ = chosen.candidates
        if isinstance(rule, LeaveOneOut):
            y = training.y.reshape(count, -1)
            few = training.known.order[:MOST_LOOKED_AT]
            warn_of_copies(training.rows, y, few, float(np.mean(chosen.choice.error)))
        return chosen, partial(training.data, chosen.kernel, None, self._between)


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
        A name that ``sklearn.metrics.pairwise.pairwise_kernels`` knows, "matern" (of smoothness
        3/2), a function of two rows, or "precomputed" if X is the kernel matrix. It must be
        positive semi-definite. "auto" is the best of linear, rbf, Laplacian and Matérn: the one
        with the least leave-one-out error of the method, at ``stop`` or at its best stop.
    gamma : float, "auto" or None, default=None
        The γ of the kernel; None is 1/n_features or what else scikit-learn takes. "auto" chooses it
        for "rbf", "laplacian" and "matern", by the same error, from multiples of the median
        distance; it is None for other kernels.
    degree, coef0, kernel_params : float, and dict or None
        Parameters of the named kernels, and of a kernel given as a function, as in KernelRidge.
    standardise : bool or "auto", default="auto"
        Whether the kernel sees columns that are centred (a sparse X is not) and divided by their
        standard deviation; "auto" where γ is chosen, so that it then is a number in these units.
    rng : int, numpy.random.Generator or None, default=None
        Draws the rows on which kernels are compared first; None is the seed 0.

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, n_targets)
        The α above, always in double precision, because large values cancel in predictions.
    intercept_ : float or array of shape (n_targets,)
        The b above, zero if not fitted.
    X_fit_ : array or sparse matrix
        The training rows, or the kernel matrix.
    kernel_, gamma_ : str or callable, and float or None
        The kernel, and its γ; None if the kernel has none or its default was taken.
    scale_, centre_ : arrays of shape (n_features,), or None
        Standard deviations of the columns if the kernel sees them standardised, and the means.
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
        rng: Any = None,
    ) -> None:
        super().__init__(method, stop, fit_intercept)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params, standardise, rng)

    def _fitted(self, data: Data) -> Self:
        if self._tunes:
            stops = None if self.stop is None else [nonnegative("stop", self.stop, infinite=True)]
            search = Search(LeaveOneOut(), [get_method(self.method)], stops)
            data = self._choose_kernel(search, None, None)[1]()
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
    degree, coef0, kernel_params, fit_intercept, standardise, rng
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
        rng: Any = None,
    ) -> None:
        options = per_target, fit_intercept, verbose, prefer_simple, scoring
        super().__init__(method, stops, cv, rule, *options)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params, standardise, rng)

    def _best(self, search: Search, splits: Any, data: Data, groups: Any) -> tuple[Problem, Choice]:
        if not self._tunes:
            return search.best(data, groups)
        chosen, of_all = self._choose_kernel(search, splits, groups)
        if search.rule.compares_methods:
            return chosen.problem, chosen.choice
        return search.best(of_all(), groups)


class _KernelClassifier(_WithKernel, _LinearClassifier):
    """A classifier whose decision values are those of a kernel regressor."""

    def _regressor(self, **options: Any) -> StoppedKernelRegressorCV:
        own = {name: getattr(self, name) for name in self._kernel_parameters}
        return StoppedKernelRegressorCV(**options, **own)

    def _keep(self, regressor: Any) -> None:
        self.dual_coef_ = regressor.dual_coef_
        self.X_fit_ = regressor.X_fit_
        self.intercept_ = regressor.intercept_ + self._shift
        for name in ("kernel_", "gamma_", "scale_", "centre_", "candidates_"):
            setattr(self, name, getattr(regressor, name))


class StoppedKernelClassifier(_KernelClassifier, StoppedClassifier):
    r"""Kernel least squares on labels coded as ±1, fitted by a method and stopped early.

    .. math:: f(x) = \sum_i \hat\alpha_i(t) k(x_i, x) + b

    Parameters
    ----------
    method, stop, class_weight, fit_intercept, calibration
        As in :class:`stoptime.StoppedClassifier`.
    kernel, gamma, degree, coef0, kernel_params, standardise, rng
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
        rng: Any = None,
    ) -> None:
        super().__init__(method, stop, class_weight, fit_intercept, calibration=calibration)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params, standardise, rng)


class StoppedKernelClassifierCV(_KernelClassifier, StoppedClassifierCV):
    r"""Kernel least squares on labels coded as ±1, stopped where left-out rows are predicted best.

    The stop is that of the least exact leave-one-out error, and probabilities are calibrated on the
    same left-out decision values, without a refit.

    Parameters
    ----------
    method, stops, cv, rule, scoring, class_weight, fit_intercept, verbose, calibration
        As in :class:`stoptime.StoppedClassifierCV`; all folds share one kernel matrix.
    kernel, gamma, degree, coef0, kernel_params, standardise, rng
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
        rng: Any = None,
    ) -> None:
        options = scoring, class_weight, fit_intercept, verbose
        super().__init__(method, stops, cv, rule, *options, calibration=calibration)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params, standardise, rng)
