"""The request for a fit, the fitted model, its assessment, and the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.model_selection import cross_val_predict

from stoptime.estimators.probabilities import chosen, probabilities
from stoptime.methods.base import Filter, Method
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.recurrence import Iteration
from stoptime.methods.registry import FAMILY
from stoptime.spectrum.base import Spectrum
from stoptime.stopping.grid import grid_of
from stoptime.support.arrays import Array, Floats
from stoptime.support.wording import rounded_up
from stoptime.tables.reading import Table, needed
from stoptime.tables.recipe import Policy, Prepared, counted
from stoptime.theory.calibration import matched, range_in_units
from stoptime.theory.oracle import estimate_oracle
from stoptime.theory.risk import bayes_risk

if TYPE_CHECKING:
    from stoptime.estimators.classifier import StoppedClassifierCV
    from stoptime.estimators.linear import StoppedRegressorCV
    from stoptime.stopping.rule import Rule

MEMORY_PER_BYTE = 8  # free memory for each byte of a file that is read at once
FOLDS = 5
FIT_STEPS = 8  # messages that fit_table sends to a progress bar
CALIBRATION_GROUPS = 10
LATER_STOPS = np.geomspace(1.08, 1e3, 90)  # relative to the last stop of the default grid
INFLATION_ZOOMS = 3  # which resolve the stop to 1e-4, and the least risk to about 1e-9
LATEST_MATCH = 12.0  # iterations that are searched, relative to those that match the best ridge
PENALTIES = np.geomspace(1e-6, 1e4, 41)  # of RidgeCV, in units of the mean eigenvalue


@dataclass(frozen=True)
class Request:
    """The request for a fit: the options of ``stoptime fit``."""

    data: str  #: A file, or "diabetes".
    target: str  #: The column to predict.
    methods: tuple[Method, ...] = FAMILY  #: The best one is chosen.
    rule: str = "loo"  #: The rule that chooses the stop.
    cv: int | None = None  #: Number of shuffled folds, instead of the rule.
    stops: int | tuple[float, ...] | None = None  #: As of :class:`stoptime.StoppedRegressorCV`.
    fit_intercept: bool = True  #: Whether to fit an intercept.
    policy: Policy = field(default_factory=Policy)  #: How to prepare the table.
    weights: str | None = None  #: The column of sample weights.
    drop: tuple[str, ...] = ()  #: Columns not to use.
    missing: tuple[str, ...] = ()  #: Words for a missing value.
    seed: int = 0  #: Seed of every shuffle.
    in_memory: bool | None = None  #: Whether to read the file at once; None decides by its size.
    shuffled: bool = True  #: Whether rows can be shuffled; False if they are read in chunks.
    classify: bool | None = None  #: Whether the target are classes; None looks at the target.
    compare: bool = True  #: Whether to compare with other estimators.

    def adapted(self) -> tuple[Request, list[str]]:
        """Return the request that the free memory allows, and a message on what was changed."""
        path = Path(self.data)
        at_once = self.in_memory
        if at_once is None and path.is_file():
            at_once = MEMORY_PER_BYTE * path.stat().st_size <= free_memory()
        # Data that are built in are small, and a file that does not exist is reported later.
        if at_once or not path.is_file():
            return self, []
        request = replace(self, in_memory=False, shuffled=False)
        if self.cv is not None:
            return request, ["Folds are blocks of rows: rows read in chunks cannot be shuffled."]
        if self.rule not in {"loo", "one-standard-error"}:
            return request, []
        message = f'The rule "{self.rule}" needs all rows in memory: "path-gcv" is used instead.'
        return replace(request, rule="path-gcv"), [message]

    @property
    def how(self) -> str:
        """The name of the rule, or the number of folds."""
        return self.rule if self.cv is None else f"{self.cv}-fold"

    def code(self) -> str:
        """Return Python code that fits the same model."""
        default = Request(self.data, self.target)
        options = [repr(self.data), repr(self.target)]
        if self.methods != default.methods:
            options.append(f"methods=[{', '.join(f'st.{method!r}' for method in self.methods)}]")
        for name, value in vars(self).items():
            if name != "methods" and value != getattr(default, name):
                text = repr(value)
                if name == "stops":
                    # Python prints an infinite stop as a name that does not exist
                    text = text.replace("inf", 'float("inf")')
                options.append(f"{name}={text}")
        return f"""import stoptime as st
from stoptime.tables import Policy
from stoptime.tables.fitting import Request, fit_table

request = Request({", ".join(options)})
model = fit_table(request).model
print(f"{{model.method_}}, stop {{model.stop_:.6g}}, error {{model.choice_.error:.6g}}")
"""


def free_memory() -> int:
    """Return how many bytes can be used without swapping."""
    return int(needed("psutil").virtual_memory().available)


@dataclass(frozen=True)
class Assessment:
    """The properties of a fitted model at its stop; None where a number does not exist."""

    method: Method
    stop: float
    penalty: float | None  #: The equivalent ridge penalty λ.
    degrees_of_freedom: float
    error: float  #: Estimated mean squared prediction error; NaN where nothing estimates it.
    standard_error: float | None  #: Of this estimate.
    rmse: float  #: Its root, in the units of the target (or of labels coded as ±1).
    rmse_standard_error: float | None
    mae: float | None  #: Mean absolute error of left-out rows.
    explained: float  #: The share of the variance of the target that is explained.
    guarantee: float | None  #: Bound on the Bayes risk over that of ridge, if λ is best.
    universal: bool  #: Whether this bound holds on any spectrum, or only in the same range.
    inflation: float | None  #: The ratio on this spectrum, for estimated noise and signal.
    alpha: float | None = None  #: The penalty times the number of rows, as in scikit-learn.
    predicts_new_rows: bool = True  #: Whether the rule itself estimates this error.


@dataclass(frozen=True)
class Score:
    """The error on held-out folds, and by how much it exceeds that of stoptime."""

    name: str
    measure: str  #: "RMSE", in the units of the target, or the "error rate" of classes.
    error: float
    standard_error: float
    excess: float
    excess_standard_error: float
    mae: float | None  #: Mean absolute error; None for classes.


@dataclass(frozen=True, eq=False)
class ClassErrors:
    """How well left-out rows are classified, each by the fit without it."""

    labels: list[Any]
    accuracy: float
    accuracy_standard_error: float
    log_loss: float
    log_loss_standard_error: float
    confusion: list[list[float]]  #: Rows (their weights, if given) of each class by prediction.
    calibration: list[tuple[float, float, int]]  #: Mean probability, share that came true, count.

    @classmethod
    def of(cls, model: StoppedClassifierCV, data: Prepared) -> ClassErrors:
        """Assess a fitted classifier by the decision values of left-out rows."""
        if model.left_out_decisions_ is None or model.slope_ is None:
            raise ValueError(
                f'method="{model.method_.name}" has no decision values of left-out rows, from '
                "which probabilities of classes are computed: choose another method."
            )
        labels = model.classes_
        place = np.searchsorted(labels, data.y)
        weights = np.ones(len(place)) if data.sample_weight is None else data.sample_weight
        decisions = np.asarray(model.left_out_decisions_)
        chances = probabilities(model.slope_, decisions)
        predicted = np.searchsorted(labels, chosen(labels, decisions))
        own = np.take_along_axis(chances, place[:, None], axis=1)[:, 0]
        # A probability of zero would make the loss infinite, and rounding alone can give one.
        logs = -np.log(np.maximum(own, np.finfo(np.float64).tiny))
        confusion = np.zeros((len(labels), len(labels)))
        np.add.at(confusion, (place, predicted), weights)
        # Of two classes, the second one tells everything; rows of weight zero are not there.
        shown = np.arange(len(labels))[1 if len(labels) == 2 else 0 :]
        live = weights > 0
        came_true = place[live, None] == shown
        curve = _calibration(chances[live][:, shown].ravel(), came_true.ravel())
        hits = weighted_mean((place == predicted).astype(np.float64), weights)
        return cls(labels.tolist(), *hits, *weighted_mean(logs, weights), confusion.tolist(), curve)


def _calibration(chances: Floats, came_true: NDArray[np.bool_]) -> list[tuple[float, float, int]]:
    """Return mean probability, share that came true, and count, in groups of equal width."""
    group = np.minimum((chances * CALIBRATION_GROUPS).astype(np.intp), CALIBRATION_GROUPS - 1)
    return [
        (float(chances[some].mean()), float(came_true[some].mean()), int(some.sum()))
        for some in (group == one for one in np.unique(group))
    ]


class Coefficients(NamedTuple):
    """Coefficients of the features as fitted, standardised by default, and of the columns."""

    name: str  #: The target, or the target and a class.
    coef: Array
    intercept: float
    original_coef: Array
    original_intercept: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model and its assessment."""

    request: Request  #: The request, as it was changed for data read in chunks.
    table: Table  #: The data as read.
    prepared: Prepared  #: The data as used; the first rows of a file read in chunks.
    n_rows: int  #: How many rows of positive weight were fitted.
    model: StoppedRegressorCV | StoppedClassifierCV  #: Fitted to all rows.
    spectrum: Spectrum  #: Of all rows.
    assessment: Assessment  #: Guarantee, penalty and error of the model.
    scores: list[Score]  #: The model and its rivals on the same folds; empty for too few rows.
    messages: tuple[str, ...]  #: What the reader should know.
    code: str  #: Python code that fits the same model.
    classes: ClassErrors | None = None  #: How well classes are predicted; None for numbers.

    @property
    def scale(self) -> float:
        """The standard deviation of the response: errors far below it are rounding."""
        return float(np.sqrt(np.mean(self.spectrum.target_power)))

    def coefficients(self) -> list[Coefficients]:
        """Return the coefficients of the target, or of each class."""
        coef = np.atleast_2d(self.model.coef_).astype(np.float64)
        intercept = np.atleast_1d(self.model.intercept_).astype(np.float64)
        original = self.prepared.recipe.in_original_units(coef, intercept)
        names = [self.prepared.target]
        if self.classes is not None:
            # Two classes have one decision value, which is positive for the second.
            labels = self.classes.labels[1:] if len(coef) == 1 else self.classes.labels
            names = [f"{self.prepared.target} = {label}" for label in labels]
        return list(map(Coefficients, names, coef, intercept, *original))

    @property
    def size(self) -> str:
        """A sentence on the size of the data."""
        n, p = self.prepared.X.shape
        size = f"{counted(n, 'row')} and {counted(p, 'feature')}"
        return f"The data, {Path(self.table.source).name}, have {size}."


def rule_of(model: Any) -> Rule:
    """Return the rule that chose the stop of a fitted regressor or classifier."""
    rule: Rule = getattr(model, "regressor_", model)._searched.search.rule
    return rule


def assess(model: StoppedRegressorCV | StoppedClassifierCV, spectrum: Spectrum) -> Assessment:
    """Describe a fitted model with one target, or of classes, given the spectrum of its data."""
    method = model.method_
    stop = float(model.stop_)
    eigenvalues = spectrum.padded_eigenvalues.astype(np.float64)
    penalty = guarantee = None
    universal = False
    if isinstance(method, Filter) and spectrum.rank:
        penalty, bound = matched(method, stop, eigenvalues=eigenvalues)
        # At stop zero and at stop infinity, there is no penalty to compare with.
        if 0 < penalty < np.inf:
            guarantee = float(bound) if np.isfinite(bound) else None
            universal = bool(np.isinf(range_in_units(method, eigenvalues, penalty)[1]))
    variance = float(np.mean(spectrum.target_power))
    rule = rule_of(model)
    error = float(model.choice_.error)
    spread = None if model.choice_.standard_error is None else float(model.choice_.standard_error)
    residuals = getattr(model, "left_out_residuals_", None)
    mae = None
    if residuals is not None:
        residuals = residuals.astype(np.float64)
        mae = float(np.average(np.abs(residuals), weights=model._observations))
    if not (rule.predicts_new_rows or isinstance(model, ClassifierMixin)):
        # The rule judges the fit by the rows that were fitted: the error is that of left-out rows.
        if residuals is not None:
            error, spread = weighted_mean(residuals**2, model._observations)
        elif rule.measure != "error":
            error = np.nan
    rmse = float(np.sqrt(error))
    return Assessment(
        method, stop, penalty, float(model.degrees_of_freedom_), error, spread, rmse,
        None if spread is None or rmse == 0 else spread / (2 * rmse), mae,
        1 - error / variance if variance > 0 else 0.0,
        guarantee, universal, _inflation(method, spectrum, eigenvalues),
        None if penalty is None else penalty * spectrum.n_samples, rule.predicts_new_rows,
    )  # fmt: skip


def _inflation(method: Method, spectrum: Spectrum, eigenvalues: Array) -> float | None:
    """Return the least Bayes risk over that of the best ridge; None without noise or signal."""
    oracle = estimate_oracle(spectrum)
    # Several classes have a signal and a noise each.
    if not isinstance(method, Filter) or not 0 < oracle.penalty < np.inf or np.ndim(oracle.noise):
        return None
    positive = eigenvalues[eigenvalues > 0]
    # Null directions have the same bias under every method: wide data need no search over them.
    learnable = float(oracle.signal) * len(positive) / len(eigenvalues)
    null_risk = float(oracle.signal) - learnable
    prior: dict[str, Any] = {
        "eigenvalues": positive,
        "signal": learnable,
        "noise": float(oracle.noise),
        "n_samples": spectrum.n_observations,
    }
    ridge = float(bayes_risk("ridge", [1 / oracle.penalty], **prior).total[0])
    risk = bayes_risk(method, [0.0], **prior).model
    # Stops like those of the fit are searched, lest this number costs more than the fit, and some
    # later ones, because a default grid ends before the slowest direction is learned.
    stops = grid_of(spectrum, method)
    last = float(stops[np.isfinite(stops)].max())
    if not isinstance(method, SpectralCutoff):
        stops = np.union1d(stops, last * LATER_STOPS)
    if isinstance(method, Iteration) and method.runs_steps:
        # Every iteration costs time. Where even twice as many do not match the best ridge, the
        # number is left out.
        matching = oracle.penalty ** (-1 / method.time_power) / risk.method.pace
        if matching > 2 * last:
            return None
        stops = stops[stops <= min(2 * last, LATEST_MATCH * matching)]
    stops = np.unique(np.round(stops)) if method.whole_stops else stops
    end = float(risk.total(np.array([np.inf]))[0])
    least = min(risk.lowest_near(stops, INFLATION_ZOOMS)[1], end)
    ratio = (least + null_risk) / (ridge + null_risk)
    # No filter has a smaller Bayes risk than the best ridge: a ratio below one is rounding.
    return max(ratio, 1.0) if np.isfinite(ratio) else None


def compare(
    model: StoppedRegressorCV | StoppedClassifierCV,
    spectrum: Spectrum,
    data: Prepared,
    *,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[Score]:
    """Compare a model with others, such as RidgeCV and the mean, on the same shuffled folds."""
    y = data.y
    task = data.task
    if len(y) < 3:
        raise ValueError(f"A comparison needs at least three rows; got {len(y)}.")
    labels, members = np.unique(y, return_counts=True)
    if task.classifies and members.min() < 2:
        alone = labels[members.argmin()]
        raise ValueError(f'the class "{alone}" has one row, and the fit without it has none.')
    mean = float(spectrum.eigenvalues.sum()) / spectrum.n_features or 1.0
    # scikit-learn's alpha is the penalty times the number of rows.
    alphas = PENALTIES * mean * spectrum.n_samples
    estimators = {"stoptime": model, **task.rivals(alphas, spectrum.fit_intercept)}
    weights = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
    options = {} if data.sample_weight is None else {"sample_weight": weights}
    folds = task.folds(min(FOLDS, len(y)), shuffle=True, random_state=seed)
    scores: list[Score] = []
    ours = np.zeros(len(y))
    for name, estimator in estimators.items():
        if progress is not None:
            progress(f"comparing with {name}")
        predicted = cross_val_predict(estimator, data.X, y, cv=folds, params=options)
        losses = task.losses(y, predicted)
        error, slope = task.measured(weighted_mean(losses, weights)[0])
        # To first order, the measure is linear in the losses, so that differences row by row have
        # a standard error. It is the smaller one, because estimators err on the same rows.
        linear = slope * losses
        ours = ours if scores else linear
        first = scores[0].error if scores else error
        spreads = [weighted_mean(one, weights)[1] for one in (linear, linear - ours)]
        mae = None
        if not task.classifies:
            mae = weighted_mean(np.abs(y - predicted), weights)[0]
        scores.append(Score(name, task.measure, error, spreads[0], error - first, spreads[1], mae))
    return scores


def weighted_mean(values: Array, weights: Array) -> tuple[float, float]:
    """Return a weighted mean and its standard error."""
    total = weights.sum()
    mean = float(weights @ values / total)
    n = int(np.count_nonzero(weights))
    # The factor n/(n - 1) makes this the usual standard error if all weights are equal.
    spread = np.sqrt(np.sum((weights * (values - mean)) ** 2) * n / max(n - 1, 1)) / total
    return mean, float(spread)


def guarantee_in_words(found: Assessment) -> tuple[str, str]:
    """Return the guarantee, rounded up, and what it bounds; the risk is averaged over signals."""
    if found.guarantee is None:
        return "none", "No bound is known for this method at this stop."
    where = "" if found.universal else ", on data with eigenvalues in the same range"
    if not found.predicts_new_rows:
        where += ", if the equivalent penalty is the best one"
    meaning = f"the error of the best ridge{where}"
    if found.inflation is not None:
        meaning += f"; about {found.inflation:.2f} times on these data"
    return f"at worst {rounded_up(found.guarantee, 2)} times", meaning
