"""scikit-learn estimators for kernels: the linear ones, with a kernel matrix in the place of X."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.estimators.classifier import StoppedClassifier, StoppedClassifierCV, _LinearClassifier
from stoptime.estimators.linear import StoppedRegressor, StoppedRegressorCV
from stoptime.estimators.regressor import LinearRegressor
from stoptime.methods.base import Method
from stoptime.spectrum.accuracy import check_scale
from stoptime.spectrum.data import Data
from stoptime.spectrum.kernel import KernelData
from stoptime.spectrum.kinds import DTYPES, array_options
from stoptime.stopping.rule import Rule
from stoptime.support.arrays import Floats
from stoptime.support.checks import nonnegative, truth_value

if TYPE_CHECKING:
    from stoptime.estimators.classifier import ClassWeight

Kernel = str | Callable[..., Any]


class _WithKernel(BaseEstimator):
    """The parameters of a kernel, and what they say of the input."""

    def _set_kernel(
        self, kernel: Kernel, gamma: Any, degree: float, coef0: float, kernel_params: Any
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags


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
        known = {"precomputed", *PAIRWISE_KERNEL_FUNCTIONS}
        if not callable(self.kernel) and self.kernel not in known:
            raise ValueError(
                f"Unknown kernel {self.kernel!r}; choose one of {', '.join(sorted(known))}, or "
                "give a function of two rows."
            )
        rows, y = self._checked(X, y, multi_output=True, y_numeric=True)
        self.X_fit_ = rows
        # in double precision, because large α cancel in predictions
        values = self._values(rows.astype(np.float64, copy=False), None)
        y = np.asarray(y, dtype=np.float64)
        centred = truth_value("fit_intercept", self.fit_intercept)
        return KernelData.of(values, y, sample_weight, centred, self._matrix)

    def _keep(self, coef: Floats, intercept: Floats) -> None:
        self.dual_coef_ = np.ascontiguousarray(coef.T)
        self.intercept_ = np.asarray(intercept)[()]

    def _matrix(self, X: ArrayLike) -> Floats:
        """Return the kernel between new rows and the training rows."""
        rows = self._checked(X, reset=False)
        return self._values(*(part.astype(np.float64, copy=False) for part in (rows, self.X_fit_)))

    def _checked(self, X: Any, *y: Any, **options: Any) -> Any:
        if array_options(X) is None:
            raise TypeError(f"A kernel needs rows in memory as an array; got {type(X).__name__}.")
        sparse = False if self.kernel == "precomputed" else "csr"
        options |= {"dtype": DTYPES, "accept_sparse": sparse, "accept_large_sparse": False}
        return validate_data(self, X, *y, **options)

    def _values(self, rows: Any, others: Any) -> Floats:
        if self.kernel == "precomputed":
            return np.asarray(rows)
        if self.kernel == "rbf" and isinstance(rows, np.ndarray):
            # scikit-learn computes distances from squares, which cancel if rows are far from zero
            centre = self.X_fit_.mean(axis=0)
            rows = rows - centre
            others = None if others is None else others - centre
            with np.errstate(over="ignore"):
                square = np.einsum("ij,ij->", rows, rows)
            # squared distances are at most four times the largest square; small ones are harmless
            check_scale("X", np.maximum(square, 1.0))
        if callable(self.kernel):
            parameters = self.kernel_params or {}
        else:
            parameters = {"degree": self.degree, "coef0": self.coef0}
            if self.gamma is not None:  # otherwise the kernel has a default of its own
                parameters["gamma"] = float(nonnegative("gamma", self.gamma))
        options = {"metric": self.kernel, "filter_params": True} | parameters
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is checked in the result
            values = pairwise_kernels(rows, others, **options)
        if not np.isfinite(values).all():
            raise ValueError(
                "The kernel has NaN or infinite values. Rescale the columns of X, for example with "
                "StandardScaler, or choose another kernel or other parameters."
            )
        return np.asarray(values)


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
        A name that ``sklearn.metrics.pairwise.pairwise_kernels`` knows, a function of two rows, or
        "precomputed" if X is the kernel matrix. It must be positive semi-definite.
    gamma, degree, coef0, kernel_params : float, and dict or None
        Parameters of the named kernels, and of a kernel given as a function, as in KernelRidge.

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, n_targets)
        The α above, always in double precision, because large values cancel in predictions.
    intercept_ : float or array of shape (n_targets,)
        The b above, zero if not fitted.
    X_fit_ : array or sparse matrix
        The training rows, or the kernel matrix.
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

    def __init__(
        self,
        method: str | Method = "nesterov-flow",
        stop: float | None = None,
        kernel: Kernel = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
    ) -> None:
        super().__init__(method, stop, fit_intercept)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params)


class StoppedKernelRegressorCV(_KernelRegressor, StoppedRegressorCV):
    r"""Kernel least squares stopped early, where the estimated prediction error is smallest.

    .. math:: \hat t = \arg\min_t \frac1n\sum_i\bigl(y_i - \hat f_{-i}(x_i; t)\bigr)^2

    This is the default, exact leave-one-out from one factorisation; :math:`\hat f_{-i}` is the fit
    without row i.

    Parameters
    ----------
    method, stops, cv, rule, per_target, verbose, prefer_simple, scoring
        As in :class:`stoptime.StoppedRegressorCV`; all folds share one kernel matrix.
    kernel, gamma, degree, coef0, kernel_params, fit_intercept
        As in :class:`StoppedKernelRegressor`.

    Attributes
    ----------
    dual_coef_, intercept_, X_fit_
        As in :class:`StoppedKernelRegressor`; others as in :class:`stoptime.StoppedRegressorCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedKernelRegressorCV(stops=50, kernel="rbf", gamma=20).fit(X, y)
    >>> f"stop {model.stop_:.0f}, R² {model.score(X, y):.2f}"
    'stop 83, R² 0.55'
    """

    def __init__(  # noqa: PLR0913, PLR0917 - those of the linear estimator and those of the kernel
        self,
        method: str | Method | Sequence[str | Method] = "auto",
        stops: ArrayLike | int | None = None,
        cv: Any = None,
        rule: str | Rule = "loo",
        per_target: bool = False,
        kernel: Kernel = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        verbose: bool = False,
        prefer_simple: bool = False,
        scoring: str | Callable[..., float] | None = None,
    ) -> None:
        options = per_target, fit_intercept, verbose, prefer_simple, scoring
        super().__init__(method, stops, cv, rule, *options)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params)


class _KernelClassifier(_WithKernel, _LinearClassifier):
    """A classifier whose decision values are those of a kernel regressor."""

    def _regressor(self, **options: Any) -> StoppedKernelRegressorCV:
        names = "kernel", "gamma", "degree", "coef0", "kernel_params"
        return StoppedKernelRegressorCV(**options, **{name: getattr(self, name) for name in names})

    def _keep(self, regressor: Any) -> None:
        self.dual_coef_ = regressor.dual_coef_
        self.X_fit_ = regressor.X_fit_
        self.intercept_ = regressor.intercept_ + self._shift


class StoppedKernelClassifier(_KernelClassifier, StoppedClassifier):
    r"""Kernel least squares on labels coded as ±1, fitted by a method and stopped early.

    .. math:: f(x) = \sum_i \hat\alpha_i(t) k(x_i, x) + b

    Parameters
    ----------
    method, stop, class_weight, fit_intercept, calibration
        As in :class:`stoptime.StoppedClassifier`.
    kernel, gamma, degree, coef0, kernel_params
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
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        *,
        calibration: str = "sigmoid",
    ) -> None:
        super().__init__(method, stop, class_weight, fit_intercept, calibration=calibration)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params)


class StoppedKernelClassifierCV(_KernelClassifier, StoppedClassifierCV):
    r"""Kernel least squares on labels coded as ±1, stopped where left-out rows are predicted best.

    The stop is that of the least exact leave-one-out error, and probabilities are calibrated on the
    same left-out decision values, without a refit.

    Parameters
    ----------
    method, stops, cv, rule, scoring, class_weight, fit_intercept, verbose, calibration
        As in :class:`stoptime.StoppedClassifierCV`; all folds share one kernel matrix.
    kernel, gamma, degree, coef0, kernel_params
        As in :class:`StoppedKernelRegressor`.

    Attributes
    ----------
    dual_coef_, intercept_, X_fit_
        As in :class:`StoppedKernelClassifier`; others as in :class:`stoptime.StoppedClassifierCV`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = StoppedKernelClassifierCV(gamma=1.0).fit(X, y)
    >>> model.predict_proba([[0.5, 0.5]]).round(2)
    array([[0.96, 0.04]])
    """

    def __init__(  # noqa: PLR0913, PLR0917 - those of the linear estimator and those of the kernel
        self,
        method: str | Method | Sequence[str | Method] = "auto",
        stops: ArrayLike | int | None = None,
        cv: Any = None,
        rule: str | Rule = "loo",
        kernel: Kernel = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        scoring: str | Callable[..., float] | None = None,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        verbose: bool = False,
        *,
        calibration: str = "sigmoid",
    ) -> None:
        options = scoring, class_weight, fit_intercept, verbose
        super().__init__(method, stops, cv, rule, *options, calibration=calibration)
        self._set_kernel(kernel, gamma, degree, coef0, kernel_params)
