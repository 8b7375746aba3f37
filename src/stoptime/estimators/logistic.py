"""scikit-learn classifiers: softmax regression by a gradient method, stopped early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import Tags, compute_sample_weight
from sklearn.utils.validation import check_is_fitted, validate_data

from stoptime.estimators.conventions import MethodParameters, Versioned
from stoptime.logistic.lockstep import Run, Score, search
from stoptime.logistic.plan import FLOATS, checked
from stoptime.logistic.rows import Places, Rows, Split, alike, prepared
from stoptime.methods.base import Method
from stoptime.methods.registry import get_method, get_methods
from stoptime.stopping.rule import StopWarning
from stoptime.support.arrays import Array, Floats, is_device_array, on_host
from stoptime.support.checks import is_whole, nonnegative, row_numbers, truth_value, whole_number
from stoptime.support.user_warnings import warn_user

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    ClassWeight = Mapping[Any, float] | str | None


class FromLogits(ClassifierMixin, BaseEstimator):
    """Labels and probabilities from decision values, which are logits here."""

    classes_: NDArray[Any]

    def decision_function(self, X: Any) -> Floats:
        """Return the logits, which are X itself."""
        return np.asarray(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row, always as an array of NumPy."""
        logits = on_host(self.decision_function(X))
        places = logits > 0 if logits.ndim == 1 else logits.argmax(axis=1)
        return np.asarray(self.classes_[places.astype(int)])

    def predict_proba(self, X: Any) -> Floats:
        r"""Return the probability of each class, of shape (n, n_classes), as an array of NumPy.

        .. math:: P(\text{class } j \mid x) = e^{f_j(x)} \big/ \sum_l e^{f_l(x)}

        with f the decision values, and (0, f) for two classes.
        """
        logits = on_host(self.decision_function(X))
        if logits.ndim == 1:
            logits = np.column_stack([np.zeros_like(logits), logits])
        return np.asarray(softmax(logits, axis=1))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of the probability of each class."""
        with np.errstate(divide="ignore"):  # a probability may underflow to zero
            return np.asarray(np.log(self.predict_proba(X)))


class StoppedLogisticRegression(FromLogits, MethodParameters, Versioned):
    r"""Softmax regression by a gradient method, after a given number of steps.

    .. math:: \min_B \frac1n\sum_i\Bigl(\log\sum_j e^{f_j(x_i)} - f_{y_i}(x_i)\Bigr),
        \qquad f_j(x) = x^T B_j + b_j

    The run starts at B = 0 with intercepts that give the shares of the classes. Without an
    intercept it is the run of ``torch.nn.CrossEntropyLoss`` with the optimiser that the method is.

    Parameters
    ----------
    method : str or Method, default="nesterov"
        An iteration: :class:`Nesterov`, :class:`GradientDescent`, :class:`HeavyBall`, :class:`SGD`,
        :class:`NuMethod`, with steps or momenta that may follow schedules, one of these with weight
        decay, or their average. The step "auto" is 1/L with L the largest curvature of the loss
        that the run meets.
    stop : int, default=100
        The number of steps.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights.
    fit_intercept : bool, default=True
        Whether to fit an intercept. Columns are then centred for the run, and the intercept moves
        as fast as the fastest direction.
    vanishing_decay : float, default=0.0
        The c of a weight decay c/t², with t = √step·k, that vanishes along the run. From about 4 on
        the run follows the ridge path. This takes two to three times as many steps, and is better
        where the signal is in directions of small variance.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    coef_, intercept_ : arrays of shape (1 or n_classes, n_features) and (1 or n_classes,)
        Coefficients of the logits; two classes have one logit.
    method_ : Method
        The method with its step as a number.
    stop_, n_iter_ : int
        The number of steps.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = StoppedLogisticRegression(stop=50).fit(X, y)
    >>> f"accuracy {model.score(X, y):.2f}"
    'accuracy 0.99'
    """

    def __init__(
        self,
        method: str | Method = "nesterov",
        stop: int = 100,
        *,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        vanishing_decay: float = 0.0,
    ) -> None:
        self.method = method
        self.stop = stop
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.vanishing_decay = vanishing_decay

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Run the method.

        Parameters
        ----------
        X : array-like, sparse matrix, or tensor of shape (n, n_features)
            float32 stays float32, and a tensor stays on its device.
        y : array-like of shape (n,)
            Labels of any type.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 counts the row twice.
        """
        stop = whole_number("stop", self.stop)
        X, places, weights = self._opened(X, y, sample_weight)
        rows = self._rows(X, places, weights)
        decay = float(nonnegative("vanishing_decay", self.vanishing_decay))
        return self._keep(rows, search(rows, get_method(self.method), stop, vanishing_decay=decay))

    def decision_function(self, X: Any) -> Floats:
        """Return logits, (n,) for two classes, else (n, n_classes), on the device of the fit."""
        check_is_fitted(self)
        if is_device_array(self.coef_):
            X = alike(self.coef_, X)
        else:
            X = on_host(X) if is_device_array(X) else X
            X = validate_data(self, X, reset=False, dtype=FLOATS, accept_sparse="csr")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but {self.n_features_in_} were fitted.")
        logits = X @ self.coef_.T + self.intercept_
        return logits[:, 0] if len(self.classes_) == 2 else logits  # type: ignore[no-any-return]

    def _opened(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Places, Array | None]:
        """Return rows, the class of each, and weights, which are None if all are one."""
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        X, self.classes_, places = checked(X, y, partial(validate_data, self))
        self.n_features_in_ = int(X.shape[1])
        weights = None
        if sample_weight is not None:
            weights = nonnegative("sample_weight", on_host(sample_weight))
            if weights.shape != (len(places),) or not weights.any():
                raise ValueError(
                    f"sample_weight must have shape ({len(places)},), and not all weights may be "
                    f"zero; it has shape {weights.shape} and the sum {weights.sum():g}."
                )
        if self.class_weight is not None:
            own = compute_sample_weight(self.class_weight, self.classes_[places])
            weights = own if weights is None else own * weights
        return X, places, weights

    def _rows(self, X: Any, places: Places, weights: Any, splits: Sequence[Split] = ()) -> Rows:
        """Return the rows for all runs; columns are centred if there is an intercept."""
        own = truth_value("fit_intercept", self.fit_intercept)
        count = len(self.classes_)
        return prepared(X, places, count, splits, weights, constant=float(own), centred=own)

    def _keep(self, rows: Rows, run: Run) -> Self:
        """Store a fit to all rows, for columns that have not been centred."""
        self.method_ = run.method
        self.stop_ = self.n_iter_ = run.stop
        self.coef_ = run.coef[:, :-1]
        self.intercept_ = rows.constant * run.coef[:, -1] - self.coef_ @ rows.mean
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class StoppedLogisticRegressionCV(StoppedLogisticRegression):
    r"""Softmax regression by a gradient method, stopped where held-out rows are predicted best.

    .. math:: \hat k = \arg\min_k \sum_i -\log P\bigl(y_i \mid x_i; B_k^{(-\kappa(i))}\bigr)

    with :math:`B_k^{(-\kappa)}` the coefficients after k steps without fold κ. All folds and the
    fit to all rows take their steps together: one run takes the place of a grid of penalties.

    Parameters
    ----------
    method : str, Method or a list of them, default="nesterov"
        As in :class:`StoppedLogisticRegression`; of several, the one with the least error.
    cv : int, splitter or iterable, default=5
        Folds; a number of folds is stratified by class.
    scoring : str or callable, default="neg_log_loss"
        A scorer of scikit-learn for classifiers. Its mean over folds chooses the stop.
    class_weight, fit_intercept
        As in :class:`StoppedLogisticRegression`. Held-out rows count by their weights too.
    vanishing_decay : float or a list of them, default=0.0
        As in :class:`StoppedLogisticRegression`; of several, the one with the least error.
    max_iter : int, default=1000
        The largest number of steps. A run usually ends soon after its best step.
    rng : int or numpy.random.Generator, optional
        Shuffles the rows before they are cut into a number of folds.
    one_standard_error : bool, default=False
        Whether to stop at the first step whose error is within one standard error of the least.
    verbose : bool, default=False
        Whether runs of more than a few seconds show their progress. Ctrl-C keeps the best step so
        far.

    Attributes
    ----------
    classes_, coef_, intercept_, method_
        As in :class:`StoppedLogisticRegression`.
    stop_ : int
        The chosen number of steps. If it was among the first two, the run has been repeated with
        smaller steps; ``method_`` has the step.
    stops_, errors_, standard_errors_ : arrays of shape (n_steps + 1,)
        0, 1, 2, ..., the errors of held-out rows after so many steps, and their standard errors: of
        the mean over rows for the log loss, over folds for other scorers.
    best_score_ : float
        The best score, the negative least error.
    vanishing_decay_ : float
        The decay that was chosen.
    candidates_ : dict
        The least error of each method with each decay.
    n_iter_ : int
        The number of steps of the run that was chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = StoppedLogisticRegressionCV().fit(X / X.std(axis=0), y)
    >>> f"stop {model.stop_}, held-out log loss {-model.best_score_:.3f}"
    'stop 51, held-out log loss 0.076'
    """

    def __init__(  # noqa: PLR0913 - those of a run, of folds and of classes
        self,
        method: str | Method | Sequence[str | Method] = "nesterov",
        cv: Any = 5,
        scoring: str | Callable[..., float] = "neg_log_loss",
        *,
        class_weight: ClassWeight = None,
        fit_intercept: bool = True,
        vanishing_decay: float | Sequence[float] = 0.0,
        max_iter: int = 1000,
        rng: Any = None,
        one_standard_error: bool = False,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.cv = cv
        self.scoring = scoring
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.vanishing_decay = vanishing_decay  # type: ignore[assignment]
        self.max_iter = max_iter
        self.rng = rng
        self.one_standard_error = one_standard_error
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose the stop, and fit the coefficients there.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`StoppedLogisticRegression.fit`.
        groups : array-like of shape (n,), optional
            Groups of rows, for splitters that keep groups together.
        """
        most = whole_number("max_iter", self.max_iter, least=1)
        X, places, weights = self._opened(X, y, sample_weight)
        rows = self._rows(X, places, weights, self._splits(places, groups))
        score = None if self.scoring == "neg_log_loss" else self._score(places, weights)
        decays = np.atleast_1d(nonnegative("vanishing_decay", self.vanishing_decay)).tolist()
        options = {"score": score, "verbose": truth_value("verbose", self.verbose)}
        runs: dict[tuple[Method, float], Run] = {}
        for method, decay in product(get_methods(self.method), decays):
            run = search(rows, method, most, vanishing_decay=decay, **options)
            runs[run.method, decay] = run
            if run.ended == "interrupt":
                break
        best = min(runs.values(), key=lambda run: run.error)
        self.candidates_ = {key: run.error for key, run in runs.items()}
        self.vanishing_decay_ = min(self.candidates_, key=self.candidates_.__getitem__)[1]
        self._warn(best)
        self.best_score_ = -best.error
        self.errors_ = np.array(best.errors)
        self.standard_errors_ = np.array(best.standard_errors)
        self.stops_ = np.arange(len(best.errors))
        if truth_value("one_standard_error", self.one_standard_error):
            within = best.error + best.standard_errors[best.stop]
            earlier = int(np.argmax(self.errors_ <= within))
            decay = {"vanishing_decay": self.vanishing_decay_}
            best = search(self._rows(X, places, weights), best.method, earlier, **decay)
        self._keep(rows, best)
        self.n_iter_ = len(self.errors_) - 1
        return self

    def _splits(self, places: Places, groups: Any) -> list[Split]:
        """Return the rows of training and test sets."""
        cv = self.cv
        if self.rng is not None and is_whole(cv):
            seed = int(np.random.default_rng(self.rng).integers(2**31))
            cv = StratifiedKFold(cv, shuffle=True, random_state=seed)
        labels = self.classes_[places]
        splitter = check_cv(cv, labels, classifier=True)
        splits = splitter.split(np.zeros((len(labels), 1)), labels, groups)
        return [(row_numbers(a, len(labels)), row_numbers(b, len(labels))) for a, b in splits]

    def _score(self, places: Places, weights: Array | None) -> Score:
        """Return the scorer as a function of test rows and their logits."""
        scorer = get_scorer(self.scoring)
        model = FromLogits()
        model.classes_ = self.classes_
        labels = self.classes_[places]

        def score(rows: Places, logits: Array) -> float:
            options = {} if weights is None else {"sample_weight": weights[rows]}
            values = logits[0] if len(logits) == 1 else logits.T
            return float(scorer(model, values, labels[rows], **options))

        return score

    def _warn(self, run: Run) -> None:
        """Say where the stop may not be the best one."""
        messages = {
            "interrupt": f"The run was interrupted: the best step so far, {run.stop}, is kept.",
            "max_iter": f"The error of held-out rows may still fall after max_iter={self.max_iter} "
            "steps. Standardise the columns, so that fewer steps are enough, or raise max_iter.",
        }
        if run.ended:
            warn_user(messages[run.ended], StopWarning)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error of held-out rows against the steps, and the chosen stop."""
        check_is_fitted(self)
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.held_out(self.errors_, self.standard_errors_, self.stop_, ax)
