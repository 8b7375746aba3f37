"""The request for a fit, the fitted model, its assessment, and the comparison."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict

from stoptime.methods.registry import FAMILY
from stoptime.tables.reading import needed
from stoptime.tables.recipe import Policy
from stoptime.theory.calibration import calibrate_to, equivalent_penalty, range_in_units
from stoptime.theory.oracle import estimate_oracle
from stoptime.theory.risk import bayes_risk, inflation

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoptime.estimators.linear import StoppedRegressorCV
    from stoptime.methods.base import Method
    from stoptime.spectrum.base import Spectrum
    from stoptime.support.arrays import Array
    from stoptime.tables.reading import Table
    from stoptime.tables.recipe import Prepared

MEMORY_PER_BYTE = 8  # free memory for each byte of a file that is read at once
FOLDS = 5
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
    error: float  #: The rule's estimate of the mean squared prediction error.
    standard_error: float | None  #: Of this estimate.
    explained: float  #: The share of the variance of the target that is explained.
    guarantee: float | None  #: Bound on the Bayes risk over that of the best ridge, with penalty λ.
    universal: bool  #: Whether this bound holds on any spectrum, or only in the same range.
    inflation: float | None  #: The ratio on this spectrum, for estimated noise and signal.
    alpha: float | None = None  #: The penalty times the number of rows, as in scikit-learn.


@dataclass(frozen=True)
class Score:
    """Mean squared error on held-out folds, and by how much it exceeds that of stoptime."""

    name: str
    error: float
    standard_error: float
    excess: float
    excess_standard_error: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model and its assessment."""

    request: Request  #: The request, as it was changed for data read in chunks.
    table: Table  #: The data as read.
    prepared: Prepared  #: The data as used; the first rows of a file read in chunks.
    n_rows: int  #: How many rows of positive weight were fitted.
    model: StoppedRegressorCV  #: Fitted to all rows.
    spectrum: Spectrum  #: Of all rows.
    assessment: Assessment  #: Guarantee, penalty and error of the model.
    scores: list[Score]  #: The model and its rivals on the same folds; empty for too few rows.
    messages: tuple[str, ...]  #: What the reader should know.
    code: str  #: Python code that fits the same model.

    @property
    def size(self) -> str:
        """A sentence on the size of the data."""
        n, p = self.prepared.X.shape
        return f"The data, {Path(self.table.source).name}, have {n} rows and {p} features."


def assess(model: StoppedRegressorCV, spectrum: Spectrum) -> Assessment:
    """Describe a fitted model with one target, given the spectrum of its data."""
    method = model.method_
    stop = float(model.stop_)
    eigenvalues = spectrum.padded_eigenvalues.astype(np.float64)
    penalty = guarantee = None
    universal = False
    if method.has_filter and spectrum.rank:
        penalty = equivalent_penalty(method, stop, eigenvalues=eigenvalues)
        # At stop zero and at stop infinity, there is no penalty to calibrate the method to.
        if 0 < penalty < np.inf:
            bound = calibrate_to(method, penalty, eigenvalues=eigenvalues).inflation
            guarantee = float(bound) if np.isfinite(bound) else None
            universal = bool(np.isinf(range_in_units(method, eigenvalues, penalty)[1]))
    variance = float(spectrum.target_power)
    error = float(model.choice_.error)
    spread = model.choice_.standard_error
    return Assessment(
        method, stop, penalty, float(model.degrees_of_freedom_), error,
        None if spread is None else float(spread), 1 - error / variance if variance > 0 else 0.0,
        guarantee, universal, _inflation(method, spectrum, eigenvalues),
        None if penalty is None else penalty * spectrum.n_samples,
    )  # fmt: skip


def _inflation(method: Method, spectrum: Spectrum, eigenvalues: Array) -> float | None:
    """Return the least Bayes risk over that of the best ridge; None without noise or signal."""
    oracle = estimate_oracle(spectrum)
    if not method.has_filter or not 0 < oracle.penalty < np.inf:
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
    if np.isinf(method.horizon):
        least = inflation(method, **prior).ratio * ridge
    else:
        # `inflation` would run far more iterations than the fit has searched.
        model = bayes_risk(method, [0.0], **prior).model
        within = model.minimum(0.0, method.horizon)[1]
        least = min(within, float(model.total(np.array([np.inf]))[0]))
    ratio = (least + null_risk) / (ridge + null_risk)
    # No filter has a smaller Bayes risk than the best ridge: a ratio below one is rounding.
    return max(ratio, 1.0) if np.isfinite(ratio) else None


def compare(
    model: StoppedRegressorCV,
    spectrum: Spectrum,
    data: Prepared,
    *,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[Score]:
    """Compare a model with RidgeCV, least squares and the mean on the same five shuffled folds."""
    y = data.y
    if len(y) < 3:
        raise ValueError(f"A comparison needs at least three rows; got {len(y)}.")
    mean = float(spectrum.eigenvalues.sum()) / spectrum.n_features or 1.0
    intercept = spectrum.fit_intercept
    estimators = {
        "stoptime": model,
        # scikit-learn's alpha is the penalty times the number of rows.
        "RidgeCV": RidgeCV(PENALTIES * mean * spectrum.n_samples, fit_intercept=intercept),
        "least squares": LinearRegression(fit_intercept=intercept),
        "the mean": DummyRegressor(),
    }
    weights = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
    options = {} if data.sample_weight is None else {"sample_weight": weights}
    folds = KFold(min(FOLDS, len(y)), shuffle=True, random_state=seed)
    losses = {}
    for name, estimator in estimators.items():
        if progress is not None:
            progress(f"comparing with {name}")
        losses[name] = (y - cross_val_predict(estimator, data.X, y, cv=folds, params=options)) ** 2
    # Estimators err on the same rows, so the difference row by row has the smaller standard error.
    return [
        Score(name, *_mean(loss, weights), *_mean(loss - losses["stoptime"], weights))
        for name, loss in losses.items()
    ]


def _mean(values: Array, weights: Array) -> tuple[float, float]:
    """Return a weighted mean and its standard error."""
    total = weights.sum()
    mean = float(weights @ values / total)
    n = int(np.count_nonzero(weights))
    # The factor n/(n - 1) makes this the usual standard error if all weights are equal.
    spread = np.sqrt(np.sum((weights * (values - mean)) ** 2) * n / max(n - 1, 1)) / total
    return mean, float(spread)
