"""What a fitted model amounts to: its ridge, its guarantee, and how others do on the same folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import KFold

from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.methods import ConjugateGradient, Method
from stoptime.methods.base import Array
from stoptime.spectrum.base import Spectrum
from stoptime.stopping import Oracle, estimate_oracle
from stoptime.theory.calibration import calibrate_to, equivalent_penalty, range_in_units
from stoptime.theory.risk import inflation

__all__ = ["Assessment", "Score", "assess", "compare", "rivals"]

FOLDS = 5
PENALTIES = np.geomspace(1e-6, 1e4, 41)  # of RidgeCV, in units of the mean eigenvalue


@dataclass(frozen=True)
class Assessment:
    """What stopping there is like, and what it is worth.

    Attributes
    ----------
    method : Method
        Tuned to the data.
    stop : float
        Where it was stopped.
    penalty : float or None
        The ridge penalty λ that is like it; None where none is.
    degrees_of_freedom : float
        Trace of the map from the response to the fit.
    error, standard_error : float, and float or None
        The rule's estimate of the mean squared prediction error.
    explained : float
        The share of the variance of the response that this error leaves explained.
    guarantee : float or None
        Largest Bayes risk over that of the best ridge, where ``penalty`` is the best one.
    universal : bool
        Whether the guarantee holds on any spectrum, or only on those with eigenvalues in the same range.
    inflation : float or None
        The same on this spectrum, at the best stop, with noise and signal as marginal likelihood sees them.
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
    """A mean squared prediction error on held-out folds.

    Attributes
    ----------
    name : str
        Whose.
    error, standard_error : float
        Over all rows, each predicted by a fit without its fold.
    excess, excess_standard_error : float
        The same for the difference from the first of those that were compared, row by row.
    """

    name: str
    error: float
    standard_error: float
    excess: float
    excess_standard_error: float


def assess(model: StoppedRegressorCV, spectrum: Spectrum) -> Assessment:
    """Tell what a fitted model with one target is like.

    Parameters
    ----------
    model : StoppedRegressorCV
        Fitted.
    spectrum : Spectrum
        Of the data it was fitted to.

    Returns
    -------
    Assessment

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import decompose
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = assess(StoppedRegressorCV().fit(X, y), decompose(X, y))
    >>> f"{found.guarantee:.4f} on any spectrum, {found.explained:.2f} explained"
    '1.5991 on any spectrum, 0.49 explained'
    """
    method, stop, choice = model.method_, float(model.stop_), model.choice_
    eigenvalues = spectrum.padded_eigenvalues.astype(np.float64)
    penalty = guarantee = None
    universal = False
    if not isinstance(method, ConjugateGradient) and spectrum.rank:
        penalty = equivalent_penalty(method, stop, eigenvalues=eigenvalues)
        if 0 < penalty < np.inf:
            guarantee = _finite(calibrate_to(method, penalty, eigenvalues=eigenvalues).inflation)
            universal = np.isinf(range_in_units(method, eigenvalues, penalty)[1])
    variance = float(spectrum.target_power)
    error = float(choice.error)
    return Assessment(
        method,
        stop,
        penalty,
        float(model.degrees_of_freedom_),
        error,
        None if choice.standard_error is None else float(choice.standard_error),
        1 - error / variance if variance > 0 else 0.0,
        guarantee,
        bool(universal),
        _inflation(method, spectrum, estimate_oracle(spectrum)),
    )


def _inflation(method: Method, spectrum: Spectrum, oracle: Oracle) -> float | None:
    """Return the least Bayes risk over that of the best ridge, where there are noise and signal."""
    if isinstance(method, ConjugateGradient) or not 0 < oracle.penalty < np.inf:
        return None
    found = inflation(
        method,
        eigenvalues=spectrum.padded_eigenvalues,
        signal=float(oracle.signal),
        noise=float(oracle.noise),
        n_samples=spectrum.n_observations,
    )
    return _finite(found.ratio)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def rivals(spectrum: Spectrum) -> dict[str, Any]:
    """Return what people would otherwise use, as estimators: RidgeCV, least squares and the mean.

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
    """Compare estimators on the same five shuffled folds, each choosing within its training rows.

    Parameters
    ----------
    estimators : mapping of name to estimator
        The first is the one the others are compared with.
    X, y : arrays of shape (n, p) and (n,)
        Data, of at least three rows.
    sample_weight : array of shape (n,), optional
        Weights, in fitting and in the error.
    seed : int, default=0
        Of the shuffle.
    progress : callable, optional
        Called with a word before each fold.

    Returns
    -------
    list of Score

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> first, second = compare({"stoptime": StoppedRegressorCV(), "OLS": LinearRegression()}, X, y)
    >>> first.excess, second.error > 0
    (0.0, True)
    """
    if len(y) < 3:
        raise ValueError(f"A comparison needs at least three rows; got {len(y)}.")
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    folds = KFold(min(FOLDS, len(y)), shuffle=True, random_state=seed)
    losses = {name: np.zeros(len(y)) for name in estimators}
    for number, (train, test) in enumerate(folds.split(X)):
        if progress is not None:
            progress(f"comparing, fold {number + 1}")
        for name, estimator in estimators.items():
            options = {} if sample_weight is None else {"sample_weight": weights[train]}
            fitted = clone(estimator).fit(X[train], y[train], **options)
            losses[name][test] = (y[test] - fitted.predict(X[test])) ** 2
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
