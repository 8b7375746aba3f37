"""scikit-learn classifiers: least squares on ±1, with probabilities from left-out decision values.

A classifier codes its labels, fits a :class:`stoptime.StoppedRegressorCV`, and decodes predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.validation import check_is_fitted

from stoptime.estimators import probabilities
from stoptime.estimators.conventions import MethodParameters
from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.estimators.regressor import one_stop
from stoptime.estimators.summary import CoefficientSummary
from stoptime.left_out.curve import ErrorCurve
from stoptime.methods.base import Method
from stoptime.spectrum.kinds import classes_of
from stoptime.spectrum.source import Block, Source
from stoptime.spectrum.sources import Chunks
from stoptime.stopping.held_out import HoldOut, is_leave_one_out
from stoptime.stopping.problem import Problem
from stoptime.stopping.registry import get_rule
from stoptime.stopping.rule import Choice, Rule
from stoptime.support.arrays import Floats, like, on_host

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    ClassWeight = Mapping[Any, float] | str | None

CALIBRATIONS = "sigmoid", "isotonic", "temperature"


class _LinearClassifier(probabilities.FromDecisions, MethodParameters):
    """Labels from the decision values of a fitted regressor."""

    class_weight: ClassWeight
    calibration: str
    penalty_matrix: Any
    classes_: NDArray[Any]
    regressor_: StoppedRegressorCV

    def decision_function(self, X: Any) -> Floats:
        """Return decision values of shape (n,) for two classes, else (n, n_classes).

        Of two classes the second is predicted above zero, which is an even chance; of several
        classes the one with the largest value. X is anything that
        :meth:`stoptime.StoppedRegressorCV.predict` takes.
        """
        check_is_fitted(self)
        return self.regressor_.predict(X) + self._shift

    def predict_proba(self, X: Any) -> Floats:
        r"""Return the probability of each class, of shape (n, n_classes), as an array of NumPy.

        .. math:: P(\text{class } k \mid x) \propto \exp\bigl(a f_k(x)\bigr)

        with f the decision values, and (0, f) for two classes, or for each of several labels of a
        row. The slope a, and the threshold of two classes, are fitted to exact decision values of
        left-out rows: Platt's sigmoid, or a temperature 1/a for more classes.
        ``calibration="temperature"`` leaves the threshold of two classes where it is. With
        ``"isotonic"`` any increasing functions of the f take the place of the formula. Class
        weights count as sample weights do.
        """
        check_is_fitted(self)
        if self.slope_ is None:
            raise ValueError(
                "Probabilities are calibrated on rows that are left out one by one, which this fit "
                "cannot do: that needs a method with a filter (not conjugate gradients or Adam), "
                "and rows that can be read again, not chunks or an operator, and not a sparse X "
                "with more than 5000 rows and columns. predict works in any case."
            )
        decisions = on_host(self.decision_function(X))
        values = decisions.reshape(-1) if self._multilabel else decisions
        found = probabilities.probabilities(self.slope_, values)
        if self._curves is not None:
            found = probabilities.isotonic_probabilities(self._curves, values - self._shift)
        return found[:, 1].reshape(decisions.shape) if self._multilabel else found

    def summary(self) -> CoefficientSummary:
        """Return coefficients and standard errors of the classes coded as ±1, a table if printed.

        See :meth:`stoptime.StoppedRegressorCV.summary`; of two classes, the second is shown.
        """
        check_is_fitted(self)
        found = self.regressor_.summary()
        labels = self.classes_ if len(found.noise) > 1 else self.classes_[1:]
        title = f"{type(self).__name__}:{found.title.partition(':')[2]}"
        return replace(found, title=title, targets=[f"class {label}" for label in labels])

    def _fitted(
        self,
        regressor: StoppedRegressorCV,
        X: Any,
        place: Any,
        sample_weight: Any,
        groups: Any = None,
    ) -> Self:
        """Fit a regressor to coded labels, and take over what it has found."""
        if self.calibration not in CALIBRATIONS:
            raise ValueError(
                f"calibration must be one of {', '.join(CALIBRATIONS)}; got {self.calibration!r}."
            )
        self._multilabel = place.ndim == 2
        weights = self._weights(place, sample_weight)
        count = len(self.classes_)
        regressor._keeps_left_out = True  # for the probabilities
        if isinstance(X, Source):
            regressor.fit(_coded_stream(X, place, count, weights), groups=groups)
        else:
            response = probabilities.coded(like(X, place), count)
            regressor.fit(X, response, weights, groups)
        decisions = regressor.left_out_predictions_
        self.slope_, self._shift, self._curves = None, 0.0, None
        if decisions is not None:
            found = probabilities.calibration(self.calibration, decisions, place, weights)
            self.slope_, self._shift, self._curves = found
            decisions = decisions + self._shift
        self.left_out_decisions_ = decisions
        self._take_over(regressor)
        return self

    def _take_over(self, regressor: Any) -> None:
        """Keep what a fitted regressor has found; slope, shift and curves are known."""
        self.regressor_ = regressor
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        for name in (*self._taken_over, "feature_names_in_"):
            if hasattr(regressor, name):
                setattr(self, name, getattr(regressor, name))
        self._keep(regressor)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = getattr(self, "scoring", None) is None
        return tags

    def _regressor(self, **options: Any) -> StoppedRegressorCV:
        """Return the regressor that is fitted to coded labels."""
        return StoppedRegressorCV(**options, penalty_matrix=self.penalty_matrix)

    def _keep(self, regressor: StoppedRegressorCV) -> None:
        """Keep the coefficients of a fitted regressor."""
        # one row for two classes, as linear classifiers of scikit-learn have it
        self.coef_ = regressor.coef_.reshape(-1, regressor.n_features_in_)
        self.intercept_ = (regressor.intercept_ + self._shift).reshape(-1)

    _taken_over: ClassVar[tuple[str, ...]] = (
        "stop_",
        "method_",
        "degrees_of_freedom_",
        "krylov_",
        "n_features_in_",
    )


@dataclass(eq=False, repr=False)
class StoppedClassifier(_LinearClassifier):
    r"""Least squares on labels coded as ±1, fitted by a method and stopped early.

    .. math:: f(x) = x^T\hat\beta(t) + b, \qquad \hat\beta(t) = V\varphi(S, t)z

    Two classes have one f, whose sign is the label; more classes have one f each, fitted to +1 for
    the class and -1 for all others, as in RidgeClassifier.

    Parameters
    ----------
    method, stop, fit_intercept, penalty_matrix
        As in :class:`stoptime.StoppedRegressor`; an iteration takes the step of
        :class:`stoptime.StoppedRegressorCV`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights.
    calibration : {"sigmoid", "isotonic", "temperature"}, default="sigmoid"
        How probabilities follow from decision values; see :meth:`predict_proba`. Isotonic
        calibration needs hundreds of rows of every class.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    coef_, intercept_ : arrays of shape (1 or n_classes, n_features) and (1 or n_classes,)
        Coefficients of the decision values: those of least squares, and for two classes an
        intercept that is shifted so that zero is an even chance for left-out rows.
    left_out_decisions_ : array of shape (n,) or (n, n_classes), or None
        Decision values of each row from the fit without it, exactly. None where
        :class:`stoptime.StoppedRegressorCV` has none for lack of rows.
    slope_ : float or None
        The slope of the sigmoid; None where there are no left-out decision values.
    regressor_ : StoppedRegressorCV
        The regressor that was fitted to the coded labels.
    stop_, method_, degrees_of_freedom_, krylov_, n_features_in_
        As in :class:`stoptime.StoppedRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = StoppedClassifier("accelerated-flow").fit(X / X.std(axis=0), y)
    >>> f"accuracy {model.score(X / X.std(axis=0), y):.3f}"
    'accuracy 0.975'
    """

    method: str | Method = "accelerated-flow"
    stop: float | None = None
    class_weight: ClassWeight = None
    fit_intercept: bool = True
    _: KW_ONLY
    calibration: str = "sigmoid"
    penalty_matrix: Any = None

    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the coefficients at the stop, and the probabilities.

        Rows and weights are those of :meth:`stoptime.StoppedRegressor.fit`. y are labels of any
        type; or zeros and ones, a column for each of several labels that a row may have together.
        Leave it out if X contains it, as chunks do.
        """
        self.classes_, place = classes_of(_labels_of(X, y), several=True)
        options: dict[str, Any] = {"rule": "plug-in"}
        if self.stop is not None:
            options = {"rule": _Given(), "stops": [one_stop(self.stop)]}
        regressor = self._regressor(method=self.method, fit_intercept=self.fit_intercept, **options)
        return self._fitted(regressor, X, place, sample_weight)


@dataclass(eq=False, repr=False)
class StoppedClassifierCV(_LinearClassifier):
    r"""Least squares on labels coded as ±1, stopped where left-out rows are predicted best.

    .. math:: \hat t = \arg\min_t \frac1n\sum_i\bigl(y_i - f_{-i}(x_i; t)\bigr)^2,
        \qquad y_i = \pm1

    This is the default, exact leave-one-out; :math:`f_{-i}` is the fit without row i. One stop
    serves all classes.

    Parameters
    ----------
    method, stops, rule, fit_intercept, verbose, penalty_matrix
        As in :class:`stoptime.StoppedRegressorCV`; a ``HoldOut`` has labels.
    cv : int, splitter or iterable, optional
        Any scikit-learn splitter; replaces ``rule``. A number of folds is stratified by class.
    scoring : str or callable, optional
        A scorer of scikit-learn for classifiers, such as "accuracy", "roc_auc" or "neg_log_loss",
        on left-out decision values or on the folds of ``cv``, calibrated on the rows that are
        scored. Rows count by their sample weight times the weight of their class.
    class_weight, calibration
        As in :class:`StoppedClassifier`.

    Attributes
    ----------
    classes_, coef_, intercept_, left_out_decisions_, slope_, regressor_
        As in :class:`StoppedClassifier`.
    stop_, stops_, errors_, best_score_, choice_, method_, degrees_of_freedom_, krylov_
        As in :class:`stoptime.StoppedRegressorCV`, for the coded labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = StoppedClassifierCV(scoring="neg_log_loss").fit(X / X.std(axis=0), y)
    >>> model.predict_proba(X[:2] / X.std(axis=0)).round(3)
    array([[1.   , 0.   ],
           [0.999, 0.001]])
    """

    # groups go to the folds of cv without being asked for, as in RidgeClassifierCV
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True}
    _taken_over = (*_LinearClassifier._taken_over, "stops_", "errors_", "best_score_", "choice_")

    method: str | Method | Sequence[str | Method] = "auto"
    stops: ArrayLike | int | None = None
    cv: Any = None
    rule: str | Rule = "loo"
    scoring: str | Callable[..., float] | None = None
    class_weight: ClassWeight = None
    fit_intercept: bool = True
    verbose: bool = False
    _: KW_ONLY
    calibration: str = "sigmoid"
    penalty_matrix: Any = None

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose the stop, and fit the coefficients there and the probabilities.

        It takes what :meth:`StoppedClassifier.fit` takes, and groups of rows for splitters that
        keep groups together.
        """
        self.classes_, place = classes_of(_labels_of(X, y), several=True)
        folds = self.cv
        if not (folds is None or is_leave_one_out(folds)):
            folds = self._splits(folds, place, groups)
            groups = None
        scoring = None
        if self.scoring is not None:
            if place.ndim == 2:
                raise ValueError("scoring needs one label for each row: leave it out.")
            scoring = probabilities.OnLabels(self.scoring, self.classes_)
        regressor = self._regressor(
            method=self.method,
            stops=self.stops,
            cv=folds,
            rule=self._coded_rule(place),
            fit_intercept=self.fit_intercept,
            verbose=self.verbose,
            scoring=scoring,
        )
        return self._fitted(regressor, X, place, sample_weight, groups)

    def _coded_rule(self, place: NDArray[np.intp]) -> Rule:
        rule = get_rule(self.rule)
        if not isinstance(rule, HoldOut):
            return rule
        if place.ndim == 2:
            marks = classes_of(rule.y_val, several=True)[1]
            return HoldOut(rule.X_val, probabilities.coded(marks, marks.shape[-1]))
        labels = column_or_1d(on_host(rule.y_val))
        unknown = np.setdiff1d(labels, self.classes_)
        if unknown.size:
            raise ValueError(f"y_val has the class {unknown.tolist()[0]!r}, which y does not have.")
        response = probabilities.coded(np.searchsorted(self.classes_, labels), len(self.classes_))
        return HoldOut(rule.X_val, response)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error curve and the chosen stop; see :func:`stoptime.plots.error_curve`."""
        check_is_fitted(self)
        return self.regressor_.plot(ax)


def _labels_of(X: Any, y: Any) -> Any:
    """Return labels as they are given, or those that chunks hold, in one pass."""
    if y is not None or not isinstance(X, Source):
        return y
    blocks = [block.y for block in X.blocks()]
    if not blocks or blocks[0] is None:
        raise ValueError("Chunks have no labels: give y when you create them.")
    return np.concatenate([np.asarray(block) for block in blocks])


def _coded_stream(source: Source, place: NDArray[np.intp], count: int, weights: Any) -> Chunks:
    """Return streamed rows with coded labels, and with class weights that multiply their own."""

    def read() -> Iterator[Block]:
        start = 0
        for block in source.blocks():
            rows = slice(start, start + len(block.X))
            weight = block.weight
            if weights is not None:
                weight = weights[rows] * (1.0 if weight is None else weight)
            yield Block(block.X, probabilities.coded(place[rows], count), weight)
            start = rows.stop

    return Chunks(read, source.n_features, len(place), source.names)


@dataclass(frozen=True)
class _Given(Rule):
    """The only stop that there is."""

    name: ClassVar[str] = "given"

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Return the stop."""
        del problem, per_target
        stop = np.asarray(stops, np.float64)
        return Choice(float(stop[0]), 0.0, ErrorCurve(stop, np.full(1, np.nan)), None, "given")
