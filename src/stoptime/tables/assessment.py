"""What is known about a fitted model: its errors, coefficients and classes, and its rivals."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import check_cv

from stoptime.estimators import probabilities
from stoptime.estimators.classifier import StoppedClassifierCV
from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.left_out.exact import left_out_residuals
from stoptime.stopping.registry import get_rule
from stoptime.support.arrays import Array, Floats
from stoptime.support.progress import warnings_noted
from stoptime.tables import results
from stoptime.tables.intervals import last_step, predict_interval
from stoptime.tables.preparation import TablePreparation


@dataclass(frozen=True)
class Score:
    """The error of left-out rows, and by how much it exceeds that of the model."""

    name: str
    measure: str  #: "RMSE", in the units of the target, or the "error rate" of classes.
    error: float
    standard_error: float
    excess: float
    excess_standard_error: float
    mae: float | None  #: Mean absolute error; None for classes.


@dataclass(frozen=True)
class Errors:
    """The prediction error of a regression, by the rule that chose the stop if it has one."""

    how: str  #: Who estimates it, such as "leave-one-out"; "" if nobody does.
    rmse: float  #: Root of the mean squared error, in the units of the target.
    standard_error: float | None  #: That of the root, to first order.
    mae: float | None  #: Mean absolute error of left-out rows.
    explained: float  #: The share of the variance of the target that is explained.


@dataclass(frozen=True, eq=False)
class ClassErrors:
    """How well left-out rows are classified, each by the fit without it."""

    labels: list[Any]
    accuracy: tuple[float, float]  #: With its standard error, as the log loss.
    log_loss: tuple[float, float]
    confusion: list[list[float]]  #: Rows (their weights, if given) of each class by prediction.
    calibration: list[tuple[float, float, int]]  #: Mean probability, share that came true, count.


class Coefficients(NamedTuple):
    """Coefficients of the features, and of the columns in the units of the table."""

    name: str  #: The target, or the target and a class.
    coef: Array
    intercept: float
    original_coef: Array
    original_intercept: float


@dataclass(frozen=True, eq=False, repr=False)
class TableFit:
    """A fitted model with its data: what :func:`stoptime.fit_table` returns, and a report takes.

    ``pipeline`` is a fitted Pipeline, or an estimator alone; it was fitted to the rows ``X``, of
    which every one has a target. The estimator at its end was fitted to the matrix ``features`` and
    to ``y``, named ``target``, such as a logarithm. Printed, it is a summary.
    """

    pipeline: Any
    X: Any
    features: Array
    y: NDArray[Any]
    target: str = "y"
    sample_weight: Array | None = None
    notes: tuple[str, ...] = ()  #: What the reader should know.
    scores: tuple[Score, ...] = ()  #: The model and its rivals; empty if not compared.
    source: str = "the data"

    @property
    def model(self) -> Any:
        """The estimator at the end of the pipeline."""
        return last_step(self.pipeline)

    @property
    def classifies(self) -> bool:
        """Whether the target are classes."""
        return bool(is_classifier(self.model))

    @property
    def preparation(self) -> TablePreparation | None:
        """The preparation of the table; None if the features are prepared otherwise."""
        first = self.pipeline[0] if len(getattr(self.pipeline, "steps", ())) == 2 else None
        return first if isinstance(first, TablePreparation) else None

    @cached_property
    def feature_names(self) -> list[str]:
        """The names of the features."""
        # an estimator alone, or a step without names
        with suppress(AttributeError, TypeError, ValueError):
            return [*map(str, self.pipeline[:-1].get_feature_names_out())]
        unnamed = [f"x{i}" for i in range(self.features.shape[1])]
        return [*map(str, getattr(self.model, "feature_names_in_", unnamed))]

    @property
    def weights(self) -> Array:
        """The weights of the rows, ones if none were given."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    def predict(self, X: Any) -> NDArray[Any]:
        """Return predictions for the rows of a table."""
        return np.asarray(self.pipeline.predict(X))

    def predict_interval(self, X: Any, confidence: float = 0.9) -> Array:
        """Return prediction intervals; see :func:`stoptime.predict_interval`."""
        return np.asarray(predict_interval(self.pipeline, X, confidence))

    @property
    def rule_in_words(self) -> str:
        """Who chose the stop: leave-one-out, cross-validation, or another rule by its name."""
        if self.model.cv is not None:
            # folds of groups are not known without these
            with suppress(ValueError):
                count = check_cv(self.model.cv).get_n_splits(self.features)
                return f"{count}-fold cross-validation"
            return "cross-validation"
        name = get_rule(self.model.rule).name
        return "leave-one-out" if name == "loo" else f'the rule "{name}"'

    @cached_property
    def errors(self) -> Errors:
        """The prediction error, and who estimates it."""
        model = self.model
        residuals = model.left_out_residuals_
        how = self.rule_in_words
        mse = float(model.choice_.error)
        spread = model.choice_.standard_error
        # a rule may judge the fit by the rows that were fitted, and a score is no squared error
        if not get_rule(model.rule, model.cv).predicts_new_rows or model.scoring is not None:
            if residuals is None:
                return Errors("", np.nan, None, None, np.nan)
            how = "leave-one-out"
            mse, spread = weighted_mean(residuals**2, self.weights)
        rmse = float(np.sqrt(mse))
        # the root is linear in the mean square to first order
        spread = None if spread is None or rmse == 0 else float(spread) / (2 * rmse)
        mae = None
        if residuals is not None:
            mae = weighted_mean(np.abs(residuals), self.weights)[0]
        mean = np.average(self.y, weights=self.weights)
        variance = np.average((self.y - mean) ** 2, weights=self.weights)
        explained = float(1 - mse / variance) if variance > 0 else 0.0
        return Errors(how, rmse, spread, mae, explained)

    @cached_property
    def classes(self) -> ClassErrors | None:
        """How well classes are predicted; None for numbers."""
        model = self.model
        if not self.classifies or model.left_out_decisions_ is None:
            return None
        labels = model.classes_
        place = np.searchsorted(labels, self.y)
        decisions = np.asarray(model.left_out_decisions_, np.float64)
        chances = probabilities.probabilities(model.slope_, decisions)
        predicted = probabilities.likeliest(decisions)
        # a probability of zero would make the loss infinite, and rounding alone can give one
        own = np.maximum(chances[np.arange(len(place)), place], np.finfo(np.float64).tiny)
        # of two classes, the second one tells everything; rows of weight zero are not there
        shown = np.arange(len(labels))[1 if len(labels) == 2 else 0 :]
        live = self.weights > 0
        came_true = (place[live, None] == shown).ravel()
        counts = confusion_matrix(
            place, predicted, labels=range(len(labels)), sample_weight=self.sample_weight
        )
        return ClassErrors(
            labels.tolist(),
            weighted_mean(place == predicted, self.weights),
            weighted_mean(-np.log(own), self.weights),
            counts.tolist(),
            _calibration(chances[live][:, shown].ravel(), came_true),
        )

    def coefficients(self) -> list[Coefficients]:
        """Return the coefficients of the target, or of each class."""
        coef = np.atleast_2d(self.model.coef_).astype(np.float64)
        intercept = np.atleast_1d(self.model.intercept_).astype(np.float64)
        original = coef, intercept
        if self.preparation is not None:
            original = self.preparation.in_original_units(coef, intercept)
        names = [self.target]
        if self.classifies:
            # two classes have one decision value, which is positive for the second
            labels = self.model.classes_[1:] if len(coef) == 1 else self.model.classes_
            names = [f"{self.target} = {label}" for label in labels]
        return list(map(Coefficients, names, coef, intercept, *original))

    def importance(self) -> dict[str, float]:
        """Return by how much each column of the table moves the prediction, the largest first.

        It is the standard deviation over rows of what the features of the column contribute, in the
        units of the target (for classes, of decision values, averaged over the classes).
        """
        columns = np.array(self.feature_names)
        if self.preparation is not None:
            columns = np.array(self.preparation.columns_of_features())
        coef = np.atleast_2d(self.model.coef_)
        centred = self.features - np.average(self.features, axis=0, weights=self.weights)
        found: dict[str, float] = {}
        for name in dict.fromkeys(columns.tolist()):
            moved = centred[:, columns == name] @ coef[:, columns == name].T
            power = np.average(moved**2, axis=0, weights=self.weights)
            found[name] = float(np.sqrt(power).mean())
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def __repr__(self) -> str:
        return results.summary(self)


def _calibration(chances: Floats, came_true: NDArray[np.bool_]) -> list[tuple[float, float, int]]:
    """Return mean probability, share that came true, and count, in ten groups of equal width."""
    group = np.minimum((chances * 10).astype(np.intp), 9)
    return [
        (float(chances[some].mean()), float(came_true[some].mean()), int(some.sum()))
        for some in (group == one for one in np.unique(group))
    ]


def compared(fit: TableFit) -> tuple[Score, ...]:
    """Compare a model with ridge, least squares and a constant, by exact leave-one-out.

    Every row is predicted without it, so that nothing has to be fitted again on folds: ridge costs
    one search more, less than that of several methods, and least squares one factorisation.
    """
    found: list[Score] = []
    ours = np.zeros(len(fit.y))
    with warnings_noted():  # the fit itself has warned
        mistakes = _mistakes(fit)
    for name, one in mistakes.items():
        loss = one if fit.classifies else one**2
        error = np.average(loss, weights=fit.weights)
        mae = None
        if not fit.classifies:
            error = np.sqrt(error)
            # to first order the root is linear in the losses, so that differences row by row have a
            # standard error; it is small, because estimators err on the same rows
            loss = loss * (0.5 / error if error > 0 else 0.0)
            mae = float(np.average(np.abs(one), weights=fit.weights))
        ours = ours if found else loss
        excess = error - found[0].error if found else 0.0
        spreads = [weighted_mean(values, fit.weights)[1] for values in (loss, loss - ours)]
        measure = "error rate" if fit.classifies else "RMSE"
        found.append(Score(name, measure, float(error), spreads[0], float(excess), spreads[1], mae))
    return tuple(found)


def _mistakes(fit: TableFit) -> dict[str, Array]:
    """Return residuals of left-out rows, or ones for wrong classes, of the model and its rivals."""
    own = _mistakes_of(fit.model, fit.y)
    if own is None:
        return {}
    found = {"stoptime": own}
    options = {"fit_intercept": fit.model.fit_intercept}
    if fit.model.method_.name != "ridge":
        kind: Any = StoppedClassifierCV if fit.classifies else StoppedRegressorCV
        ridge = kind("ridge", **options).fit(fit.features, fit.y, fit.sample_weight)
        rival = "RidgeClassifierCV" if fit.classifies else "RidgeCV"
        found[f"ridge, as {rival}"] = _mistakes_of(ridge, fit.y)
    if fit.classifies:
        sizes = [fit.weights[fit.y == label].sum() for label in fit.model.classes_]
        frequent = fit.model.classes_[np.argmax(sizes)]
        return {**found, "the most frequent class": (fit.y != frequent).astype(np.float64)}
    y = np.asarray(fit.y, np.float64)
    options["sample_weight"] = fit.sample_weight
    least = left_out_residuals(fit.features, y, "ridge", np.inf, **options)
    mean = left_out_residuals(0 * y[:, None], y, "ridge", 0.0, sample_weight=fit.sample_weight)
    return {**found, "least squares": np.asarray(least), "the mean": np.asarray(mean)}


def _mistakes_of(model: Any, y: Array) -> Any:
    """Return such residuals or ones of a fitted model, or None if it left no rows out."""
    if not is_classifier(model):
        return model.left_out_residuals_
    if model.left_out_decisions_ is None:
        return None
    predicted = probabilities.likeliest(np.asarray(model.left_out_decisions_))
    return (model.classes_[predicted] != y).astype(np.float64)


def weighted_mean(values: Any, weights: Array) -> tuple[float, float]:
    """Return a weighted mean and its standard error."""
    total = weights.sum()
    mean = float(weights @ values / total)
    n = int(np.count_nonzero(weights))
    # the factor n/(n - 1) makes this the usual standard error if all weights are equal
    spread = np.sqrt(np.sum((weights * (values - mean)) ** 2) * n / max(n - 1, 1)) / total
    return mean, float(spread)
