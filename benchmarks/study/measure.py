"""Nested cross-validation, and excess risks of problems whose truth is known."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.model_selection import KFold

import stoptime as st
from benchmarks.study import models
from benchmarks.study.problems import Problem, prepared

FOLDS = 5
REPEATS = ((100, 10), (250, 4), (0, 1))  # (fewer rows than, repetitions); the last for all others
KERNEL_REPEATS = 3
ROWS, COLUMNS = 300, 150
NOISE = 0.5
ALIGNMENTS = {"a = 1/2": 0.5, "a = 1": 1.0, "a = 2": 2.0, "isotropic": None}


def repetitions(problem: Problem, n: int) -> int:
    """Return how often the outer folds are drawn anew."""
    if problem.kernel is not None and problem.generated:
        return KERNEL_REPEATS
    return next(number for below, number in REPEATS if n < below or not below)


def cross_validated(problem: Problem, quick: bool = False) -> dict[str, Any]:
    """Return errors, paired differences to RidgeCV and fitting times of all models."""
    n = len(problem.load(0)[1])
    repeats = 1 if quick else repetitions(problem, n)
    losses: dict[str, np.ndarray] = {}
    seconds: dict[str, list[float]] = {}
    chosen: Counter[str] = Counter()
    edges = 0
    squares = []
    for seed in range(repeats):
        X, y = problem.load(seed)
        squares.append((y - y.mean()) ** 2)
        for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(X):
            fitted, other = prepared(problem, X[train], X[test])
            for name, model in listed(problem, *fitted.shape).items():
                raw = name == models.BOOSTING
                spent = fit(model, X[train] if raw else fitted, y[train])
                seconds.setdefault(name, []).append(spent)
                predicted = np.ravel(model.predict(X[test] if raw else other))
                rows = losses.setdefault(name, np.empty((repeats, n)))
                rows[seed, test] = (y[test] - predicted) ** 2
                if name == models.AUTO:
                    chosen[label(model.method_)] += 1
                elif name == models.BASELINE:
                    edges += models.at_edge(model)
    facts = {
        "name": problem.name, "group": problem.group, "n": n, "p": int(fitted.shape[1]),
        "repeats": repeats, "chosen": dict(chosen.most_common()),
        "ridge_at_edge": edges,
    }  # fmt: skip
    variance = float(np.mean(squares))
    return facts | {"models": compared(losses, seconds, variance, problem.generated)}


def listed(problem: Problem, n: int, p: int) -> dict[str, BaseEstimator]:
    """Return the models for a problem."""
    return models.linear(n, p) if problem.kernel is None else models.kernel()


def label(method: st.Method) -> str:
    """Return a short name of a method of the family."""
    friction = getattr(method, "friction", None)
    return method.name if friction is None else f"friction {friction:g}"


def fit(model: BaseEstimator, X: np.ndarray, y: np.ndarray) -> float:
    """Fit a model and return the processor time, which other processes hardly disturb."""
    with warnings.catch_warnings():
        # Edges of grids and slow convergence are no news here: every model keeps its defaults.
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model.fit(X, y)
        return time.process_time() - begin


def compared(
    losses: dict[str, np.ndarray],
    seconds: dict[str, list[float]],
    variance: float,
    generated: bool,
) -> dict[str, dict[str, float]]:
    """Return the share of the variance, its difference to RidgeCV, and the median time."""
    found = {}
    for name, rows in losses.items():
        differences = rows - losses[models.BASELINE]
        # The same row in several repetitions is one observation; newly drawn rows are several.
        units = differences.ravel() if generated else differences.mean(axis=0)
        found[name] = {
            "error": float(rows.mean() / variance),
            "difference": float(units.mean() / variance),
            "standard_error": float(units.std(ddof=1) / np.sqrt(len(units)) / variance),
            "seconds": float(np.median(seconds[name])),
        }
    return found


def excess_risks(name: str, seeds: int) -> dict[str, Any]:
    """Return exact excess risks of the prediction of new rows, for each seed."""
    alignment = ALIGNMENTS[name]
    risks: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    chosen: Counter[str] = Counter()
    for seed in range(seeds):
        X, y, coef, variances = aligned(alignment, seed)
        for model_name, model in models.linear(*X.shape).items():
            if model_name == models.BOOSTING:
                continue  # the risk of trees has no closed form
            seconds.setdefault(model_name, []).append(fit(model, X, y))
            risks.setdefault(model_name, []).append(excess(model, coef, variances))
            if model_name == models.AUTO:
                chosen[label(model.method_)] += 1
    base = np.asarray(risks[models.BASELINE])
    found = {}
    for model_name, listed_risks in risks.items():
        values = np.asarray(listed_risks)
        ratio = values.mean() / base.mean()
        # Standard error of a ratio of means by linearisation.
        spread = (values - ratio * base).std(ddof=1) / np.sqrt(seeds) / base.mean()
        found[model_name] = {
            "excess": float(values.mean()), "ratio": float(ratio), "standard_error": float(spread),
            "worst": float((values / base).max()), "seconds": float(np.median(seconds[model_name])),
        }  # fmt: skip
    return {"name": name, "seeds": seeds, "chosen": dict(chosen.most_common()), "models": found}


def aligned(
    alignment: float | None, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw Gaussian rows with variances 1/i and coefficients ± i^-a, or all isotropic."""
    rng = np.random.default_rng(seed)
    order = np.arange(1, COLUMNS + 1)
    if alignment is None:
        variances = np.ones(COLUMNS)
        coef = rng.standard_normal(COLUMNS)
    else:
        variances = 1 / order
        coef = order**-alignment * rng.choice([-1.0, 1.0], COLUMNS)
    coef = coef / np.sqrt(variances @ coef**2)
    X = rng.standard_normal((ROWS, COLUMNS)) * np.sqrt(variances)
    return X, X @ coef + NOISE * rng.standard_normal(ROWS), coef, variances


def excess(model: BaseEstimator, coef: np.ndarray, variances: np.ndarray) -> float:
    """Return the exact expected squared error of the prediction, without the noise."""
    # Every model here is affine, so its predictions at the unit vectors give its coefficients.
    values = np.ravel(model.predict(np.vstack([np.zeros(len(coef)), np.eye(len(coef))])))
    error = values[1:] - values[0] - coef
    return float(variances @ error**2 + values[0] ** 2)
