"""Describe a fitted model: its ridge penalty, its guarantee, and how other estimators compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict

from stoptime.theory.calibration import calibrate_to, equivalent_penalty, range_in_units
from stoptime.theory.oracle import Oracle, estimate_oracle
from stoptime.theory.risk import bayes_risk, inflation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stoptime.estimators.linear import StoppedRegressorCV
    from stoptime.methods.base import Method
    from stoptime.spectrum.base import Spectrum
    from stoptime.support.arrays import Array

__all__ = ["Assessment", "Score", "assess", "compare", "rivals"]

FOLDS = 5
PENALTIES = np.geomspace(1e-6, 1e4, 41)  # of RidgeCV, in units of the mean eigenvalue


@dataclass(frozen=True)
class Assessment:
    """The properties of a fitted model at its stop; None where a number does not exist.

    ``penalty`` is the equivalent ridge penalty λ. ``error`` and ``standard_error`` are the rule's
    estimate of the mean squared prediction error, and ``explained`` is the share of the variance
    that this error explains. ``guarantee`` bounds the Bayes risk over that of the best ridge, if
    ``penalty`` is the best one: on any spectrum if ``universal``, else on those in the same range.
    ``inflation`` is that ratio on this spectrum at the best stop, for estimated noise and signal.
    """

    method: Method
    stop: float
    penalty: float | None
    degrees_of_freedom: float
    error: float
    standard_error: float | None
    explained: float
    guarantee: float | None
    universal: bool
    inflation: float | None


@dataclass(frozen=True)
class Score:
    """Mean squared prediction error of the estimator ``name`` on held-out folds.

    ``excess`` is its difference from the first estimator; its standard error is taken row by row.
    """

    name: str
    error: float
    standard_error: float
    excess: float
    excess_standard_error: float


def assess(model: StoppedRegressorCV, spectrum: Spectrum) -> Assessment:
    """Describe a fitted model with one target, given the spectrum of its data.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import StoppedRegressorCV, decompose
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = assess(StoppedRegressorCV().fit(X, y), decompose(X, y))
    >>> f"{found.guarantee:.4f} on any spectrum, {found.explained:.2f} explained"
    '1.5991 on any spectrum, 0.49 explained'
    """
    method = model.method_
    stop = float(model.stop_)
    eigenvalues = spectrum.padded_eigenvalues.astype(np.float64)
    penalty = guarantee = None
    universal = False
    if method.has_filter and spectrum.rank:
        penalty = equivalent_penalty(method, stop, eigenvalues=eigenvalues)
        if 0 < penalty < np.inf:
            bound = calibrate_to(method, penalty, eigenvalues=eigenvalues).inflation
            guarantee = float(bound) if np.isfinite(bound) else None
            universal = bool(np.isinf(range_in_units(method, eigenvalues, penalty)[1]))
    variance = float(spectrum.target_power)
    error = float(model.choice_.error)
    spread = model.choice_.standard_error
    return Assessment(
        method,
        stop,
        penalty,
        float(model.degrees_of_freedom_),
        error,
        None if spread is None else float(spread),
        1 - error / variance if variance > 0 else 0.0,
        guarantee,
        universal,
        _inflation(method, spectrum, estimate_oracle(spectrum)),
    )


def _inflation(method: Method, spectrum: Spectrum, oracle: Oracle) -> float | None:
    """Return the least Bayes risk over that of the best ridge; None without noise or signal."""
    if not method.has_filter or not 0 < oracle.penalty < np.inf:
        return None
    padded = spectrum.padded_eigenvalues.astype(np.float64)
    positive = padded[padded > 0]
    # Null directions have the same bias under every method: wide data need no search over them.
    learnable = float(oracle.signal) * len(positive) / len(padded)
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
    return max(ratio, 1.0) if np.isfinite(ratio) else None


def rivals(spectrum: Spectrum) -> dict[str, Any]:
    """Return the usual alternatives as estimators: RidgeCV, least squares and the mean.

    RidgeCV gets 41 penalties over ten decades around the mean eigenvalue.
    """
    mean = float(spectrum.eigenvalues.sum()) / spectrum.n_features or 1.0
    penalties = PENALTIES * mean * spectrum.n_samples
    intercept = spectrum.fit_intercept
    return {
        "RidgeCV": RidgeCV(alphas=penalties, fit_intercept=intercept),
        "least squares": LinearRegression(fit_intercept=intercept),
        "the mean": DummyRegressor(),
    }


def compare(
    estimators: Mapping[str, Any],
    X: Array,
    y: Array,
    sample_weight: Array | None = None,
    *,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[Score]:
    """Compare estimators on the same five shuffled folds, with the first one as the reference.

    ``seed`` sets the shuffle; ``progress`` is called with a message before each estimator.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> first, second = compare({"mean": DummyRegressor(), "OLS": LinearRegression()}, X, y)
    >>> first.excess, second.excess < 0
    (0.0, True)
    """
    if len(y) < 3:
        raise ValueError(f"A comparison needs at least three rows; got {len(y)}.")
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    options = {} if sample_weight is None else {"sample_weight": weights}
    folds = KFold(min(FOLDS, len(y)), shuffle=True, random_state=seed)
    losses = {}
    for name, estimator in estimators.items():
        if progress is not None:
            progress(f"comparing with {name}")
        losses[name] = (y - cross_val_predict(estimator, X, y, cv=folds, params=options)) ** 2
    reference = next(iter(losses.values()))
    return [
        Score(name, *_mean(loss, weights), *_mean(loss - reference, weights))
        for name, loss in losses.items()
    ]


def _mean(values: Array, weights: Array) -> tuple[float, float]:
    """Return a weighted mean and its standard error."""
    total = weights.sum()
    mean = float(weights @ values / total)
    n = int(np.count_nonzero(weights))
    spread = np.sqrt(np.sum((weights * (values - mean)) ** 2) * n / max(n - 1, 1)) / total
    return mean, float(spread)
