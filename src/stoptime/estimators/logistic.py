"""scikit-learn classifiers: softmax regression by a gradient method, stopped early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.estimators.probabilities import FromDecisions, scored
from stoptime.estimators.regressor import Conventions, LinearRegressor
from stoptime.logistic.lockstep import CrossEntropyPlan, Score, checked, search
from stoptime.logistic.rows import Places, Rows, Tested
from stoptime.methods.averages import VanishingDecay
from stoptime.methods.base import Method
from stoptime.methods.registry import get_method, get_methods
from stoptime.stopping.rule import StopWarning
from stoptime.support.arrays import Array, Floats, array_namespace, as_dtype
from stoptime.support.checks import is_whole, truth_value, whole_number
from stoptime.support.progress import progress_shown
from stoptime.support.user_warnings import warn_user

ClassWeight = Mapping[Any, float] | str | None


class _SoftmaxRegression(FromDecisions, Conventions):
    """Rows of softmax regression, and logits from its coefficients."""

    fit_intercept: bool

    def decision_function(self, X: Any) -> Floats:
        """Return logits, (n,) for two classes, else (n, n_classes), on the device of the fit."""
        check_is_fitted(self)
        logits = self._opened_rows(X).predicted(self.coef_.T, self.intercept_)
        return logits[:, 0] if len(self.classes_) == 2 else logits  # type: ignore[no-any-return]

    _opened_rows = LinearRegressor._opened_rows

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Places, Array | None]:
        """Return rows, the class of each, and weights, which are None if all are one."""
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        X, self.classes_, places = checked(X, y, partial(validate_data, self))
        self.n_features_in_ = int(X.shape[1])
        return X, places, self._weights(places, sample_weight)

    def _rows(self, X: Any, places: Places, weights: Any, splits: Any = (), **options: Any) -> Rows:
        """Return the rows for all runs; columns are centred if there is an intercept."""
        own = truth_value("fit_intercept", self.fit_intercept)
        options |= {"constant": float(own), "centred": own}
        return Rows(X, places, len(self.classes_), splits, weights, **options)

    def _keep(self, rows: Rows, run: CrossEntropyPlan) -> Self:
        """Store a fit to all rows, for columns that have not been centred."""
        self.method_ = run.method
        self.stop_ = self.n_iter_ = run.iterations
        found = as_dtype(run.coef, rows.mean.dtype)
        coef = 2 * found  # two classes have one logit, the difference of both
        if len(self.classes_) > 2:
            first = -found.sum(axis=0)[None]
            coef = array_namespace(first).concat([first, found])
        self.coef_ = coef[:, :-1]
        self.intercept_ = rows.constant * coef[:, -1] - self.coef_ @ rows.mean
        return self


@dataclass(eq=False, repr=False)
class StoppedLogisticRegression(_SoftmaxRegression):
    r"""Softmax regression by a gradient method, after a given number of steps.

    .. math:: \min_B \frac1n\sum_i\Bigl(\log\sum_j e^{f_j(x_i)} - f_{y_i}(x_i)\Bigr),
        \qquad f_j(x) = x^T B_j + b_j

    The run starts at B = 0 with intercepts that give the shares of the classes. Without an
    intercept it is the run of ``torch.nn.CrossEntropyLoss`` with the optimiser that the method is.

    Parameters
    ----------
    method : str or Method, default="nesterov"
        An iteration: :class:`Nesterov`, :class:`GradientDescent`, :class:`HeavyBall`, :class:`SGD`,
        :class:`NuMethod`, with or without schedules, one of these with weight decay, or their
        average. The step "auto" is 1/L with L the largest curvature that the run meets.
    stop : int, default=100
        The number of steps.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which moves as fast as the fastest direction and never decays.

    Attributes
    ----------
    classes_, coef_, intercept_
        The labels, sorted, and the coefficients of their logits; two classes have one logit.
    method_, stop_ : Method and int
        The method with its step as a number, and the number of steps.
    """

    method: str | Method = "nesterov"
    stop: int = 100
    _: KW_ONLY
    class_weight: ClassWeight = None
    fit_intercept: bool = True

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Run the method on rows, sparse rows or a tensor, which stays on its device.

        float32 stays float32. Labels are of any type, and a weight of 2 counts the row twice.
        """
        stop = whole_number("stop", self.stop)
        rows = self._rows(*self._opened(X, y, sample_weight))
        return self._keep(rows, search(rows, get_method(self.method), stop))


@dataclass(eq=False, repr=False)
class StoppedLogisticRegressionCV(_SoftmaxRegression):
    r"""Softmax regression by a gradient method, stopped where held-out rows are predicted best.

    .. math:: \hat k = \arg\min_k \sum_i -\log P\bigl(y_i \mid x_i; B_k^{(-\kappa(i))}\bigr)

    with :math:`B_k^{(-\kappa)}` the coefficients after k steps without fold κ. All folds and the
    fit to all rows take their steps together: one run takes the place of a grid of penalties.

    Parameters
    ----------
    method : str, Method or a list of them, default="auto"
        "auto" is Nesterov's method with a decay that vanishes along the run, which follows the path
        of ridge: :class:`VanishingDecay`. Any other method, as in
        :class:`StoppedLogisticRegression`, is run as it is; of several, the one with least error.
        Large data are held in single precision if the step is automatic.
    cv : int, splitter or iterable, default=5
        Folds; a number of folds is stratified by class.
    scoring : str or callable, default="neg_log_loss"
        A scorer of scikit-learn for classifiers. Its mean over folds chooses the stop.
    class_weight, fit_intercept
        As in :class:`StoppedLogisticRegression`. Held-out rows count by their weights too.
    max_iter : int, default=1000
        The largest number of steps. A run usually ends soon after its best step.
    rng : int or numpy.random.Generator, optional
        Shuffles the rows before they are cut into a number of folds.
    one_standard_error : bool, default=False
        Whether to stop at the first step whose error is within one standard error of the least.
    verbose : bool, default=False
        Whether long runs show their progress. Ctrl-C keeps the best step so far.

    Attributes
    ----------
    classes_, coef_, intercept_, method_, stop_
        As in :class:`StoppedLogisticRegression`, at the chosen stop.
    stops_, errors_, standard_errors_ : arrays of shape (n_steps + 1,)
        0, 1, 2, ..., the errors of held-out rows after so many steps, and their standard errors: of
        the mean over rows for the log loss, over folds for other scorers.
    best_score_, candidates_ : float and dict
        The negative least error, and the least error of each method.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = StoppedLogisticRegressionCV().fit(X / X.std(axis=0), y)
    >>> f"stop {model.stop_}, held-out log loss {-model.best_score_:.3f}"
    'stop 86, held-out log loss 0.076'
    """

    method: str | Method | Sequence[str | Method] = "auto"
    cv: Any = 5
    scoring: str | Callable[..., float] = "neg_log_loss"
    _: KW_ONLY
    class_weight: ClassWeight = None
    fit_intercept: bool = True
    max_iter: int = 1000
    rng: Any = None
    one_standard_error: bool = False
    verbose: bool = False

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose the stop and fit there; groups are for splitters that keep groups together."""
        most = whole_number("max_iter", self.max_iter, least=1)
        cv = self.cv
        if self.rng is not None and is_whole(cv):
            seed = int(np.random.default_rng(self.rng).integers(2**31))
            cv = StratifiedKFold(cv, shuffle=True, random_state=seed)
        X, places, weights = self._opened(X, y, sample_weight)
        given: Any = self.method if isinstance(self.method, list | tuple) else [self.method]
        methods = get_methods([VanishingDecay() if str(one) == "auto" else one for one in given])
        # large data take half the time in single precision, which changes held-out losses in the
        # eighth digit; a run with a step of its own is exactly the run of its method
        automatic = all(getattr(one, "step", None) == "auto" for one in methods)
        is_large = isinstance(X, np.ndarray) and X.dtype == np.float64 and X.size > 2**21
        # squares of the entries must neither overflow nor vanish
        single = automatic and is_large and bool(1e-9 < np.ptp(X) < 1e9)
        rows = self._rows(X, places, weights, self._splits(cv, places, groups), single=single)
        score = None if self.scoring == "neg_log_loss" else self._score(places, weights)
        runs: list[CrossEntropyPlan] = []
        with progress_shown(truth_value("verbose", self.verbose)):
            for method in methods:
                runs.append(search(rows, method, most, score=score))
                if runs[-1].ended == "interrupt":
                    break
        best = min(runs, key=lambda run: run.error)
        kept = f"The run was interrupted: the best step so far, {best.iterations}, is kept."
        longer = (
            f"The error of held-out rows may still fall after max_iter={most} steps. Standardise "
            "the columns, so that fewer steps are enough, or raise max_iter."
        )
        if best.ended:
            warn_user(kept if best.ended == "interrupt" else longer, StopWarning)
        self._candidates = [(run.method, run.error) for run in runs]
        self.best_score_ = -best.error
        self.errors_ = best.errors
        self.standard_errors_ = best.standard_errors
        self.stops_ = np.arange(len(best.errors))
        if truth_value("one_standard_error", self.one_standard_error):
            within = best.error + best.standard_errors[best.iterations]
            earlier = int(np.argmax(self.errors_ <= within))
            best = search(self._rows(X, places, weights), best.method, earlier)
        self._keep(rows, best)
        self.n_iter_ = len(self.errors_) - 1
        return self

    @property
    def candidates_(self) -> dict[Method, float]:
        """The least error of each method."""
        # made of a list, because skops saves no dictionary whose keys are methods
        return dict(self._candidates)

    def _score(self, places: Places, weights: Array | None) -> Score:
        """Return the negative mean score of the test sets and its standard error, as a function."""
        scorer = get_scorer(self.scoring)

        def score(kept: list[list[Tested]]) -> tuple[float, float]:
            found = []
            for parts in kept:
                rows = np.concatenate([one for one, _ in parts])
                logits = np.concatenate([values for _, values in parts], axis=1)
                own = None if weights is None else weights[rows]
                values = logits[1] - logits[0] if len(logits) == 2 else logits.T
                found.append(scored(scorer, self.classes_, values, places[rows], own))
            spread = np.std(found) / np.sqrt(len(found) - 1) if len(found) > 1 else np.nan
            return -float(np.mean(found)), float(spread)

        return score

    def plot(self, ax: Any = None) -> Any:
        """Draw the error of held-out rows against the steps, and the chosen stop."""
        check_is_fitted(self)
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.held_out(self.errors_, self.standard_errors_, self.stop_, ax)
