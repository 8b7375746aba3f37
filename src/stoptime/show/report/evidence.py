"""Sections that show what the fit is worth, what it was made of, and how to get it again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from stoptime.methods.base import Method
from stoptime.methods.flows import AcceleratedFlow, GradientFlow, HeavyBallFlow
from stoptime.methods.ridge import Ridge
from stoptime.show.report.charts import Chart, Section, Series, TableOf
from stoptime.show.report.subject import Subject
from stoptime.stopping import StopWarning
from stoptime.support.arrays import Array, Floats
from stoptime.support.wording import method_in_words, number, with_error
from stoptime.tables.assessment import Assessment, Score, assess

__all__ = ["code", "data", "intervals", "methods"]

SHOWN_POINTS = 200
SHOWN_COLUMNS = 100
SHOWN_LEVELS = 6
MANY = 15  # columns, beyond which their table opens on demand
HELD_OUT = 0.2
CONFIDENCE = 0.9
FEWEST_ROWS = 20  # below which nothing is held out


def methods(subject: Subject) -> Section:
    """Return other methods under the same rule, and what people would otherwise use on the same folds."""
    tried = [(method_in_words(one.method), one) for one in _tried(subject)]
    charts = [
        _dots("methods", "Error by method", [(n, a.error, a.standard_error) for n, a in tried])
    ]
    tables = [_methods_table(tried)]
    if subject.scores:
        scores = [(score.name, score.error, score.standard_error) for score in subject.scores]
        charts.append(_dots("folds", "Error on held-out folds", scores))
        tables.append(_scores_table(subject.scores))
    text = (
        "Errors are mean squared, with one standard error. Differences on the same folds are taken row by "
        "row: they are known better than the errors themselves."
    )
    return Section("methods", "Comparison", text, tuple(charts), tuple(tables))


def _methods_table(tried: Sequence[tuple[str, Assessment]]) -> TableOf:
    rows = [
        (
            name,
            with_error(one.error, one.standard_error),
            number(one.stop),
            number(one.penalty),
            f"{one.degrees_of_freedom:.1f}",
            "-" if one.guarantee is None else f"{one.guarantee:.3f} ×",
        )
        for name, one in tried
    ]
    head = ("method", "error", "stop", "like penalty", "degrees of freedom", "guarantee")
    return TableOf("The same rule for every method", head, tuple(rows))


def _scores_table(scores: Sequence[Score]) -> TableOf:
    rows = [
        (
            score.name,
            with_error(score.error, score.standard_error),
            "" if k == 0 else with_error(score.excess, score.excess_standard_error, sign=True),
        )
        for k, score in enumerate(scores)
    ]
    title = "On the same folds, each choosing within its training rows"
    return TableOf(title, ("estimator", "error", "more than stoptime"), tuple(rows))


def intervals(subject: Subject) -> Section:
    """Return prediction intervals on rows that the model has not seen."""
    key, title, n = "intervals", "Prediction intervals", len(subject.y)
    if n < FEWEST_ROWS:
        return Section(key, title, f"With {n} rows there are too few to hold some out.")
    train, test = train_test_split(np.arange(n), test_size=HELD_OUT, random_state=subject.seed)
    model = clone(subject.model).fit(subject.X[train], subject.y[train], subject.weights(train))
    if model.left_out_residuals_ is None:
        return Section(
            key, title, "Conjugate gradients have no left-out residuals to make intervals from."
        )
    guess, ends = (
        model.predict(subject.X[test]),
        model.predict_interval(subject.X[test], CONFIDENCE),
    )
    truth = subject.y[test]
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    chance = np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / len(test))
    text = (
        f"A fifth of the rows, {len(test)}, was held out and the model fitted to the rest. Of these "
        f"{int(inside.sum())}, {inside.mean():.0%}, lie inside their {CONFIDENCE:.0%} interval; by chance "
        f"alone that share varies by about {chance:.0%}."
    )
    shown = np.random.default_rng(subject.seed).permutation(len(test))[:SHOWN_POINTS]
    if len(shown) < len(test):
        text += f" {len(shown)} of them, taken at random, are shown."
    order = shown[np.argsort(guess[shown], kind="stable")]
    chart = _interval_chart(subject.target, guess[order], ends[order], truth[order], inside[order])
    return Section(key, title, text, (chart,))


def _interval_chart(
    target: str, guess: Floats, ends: Floats, truth: Array, inside: NDArray[np.bool_]
) -> Chart:
    place = np.arange(1.0, len(guess) + 1)
    low, high = ends.T
    series = [
        Series("interval", place, guess, low=low, high=high, color=7, whiskers=True),
        Series("inside", place[inside], truth[inside], color=1, points=True),
        Series("outside", place[~inside], truth[~inside], color=3, points=True),
    ]
    rows = "held-out row, by prediction"
    return Chart(
        "intervals", f"{CONFIDENCE:.0%} intervals", rows, target, series, log_x=None, log_y=None
    )


def data(subject: Subject) -> Section:
    """Return what the data are, and what was done to them."""
    n, p = subject.X.shape
    text = f"{subject.source}: {n} rows, {p} features, target {subject.target}."
    rows = [
        (subject.target, "target", "", *_moments(subject.y)),
        *_columns(subject)[:SHOWN_COLUMNS],
    ]
    head = ("column", "kind", "values", "mean", "sd", "least", "most")
    table = TableOf("Columns", head, tuple(rows), folded=len(rows) > MANY)
    notes = subject.messages or ("Nothing had to be filled in, left out or converted.",)
    return Section("data", "Data and warnings", text, (), (table,), notes)


def _columns(subject: Subject) -> list[tuple[str, ...]]:
    """Return a row for each column of the table, or of X where there was none."""
    if subject.recipe is None:
        return [
            (name, "number", "", *_moments(subject.X[:, i]))
            for i, name in enumerate(subject.features)
        ]
    raw = subject.X * np.array(subject.recipe.scales) + np.array(subject.recipe.centres)
    rows: list[tuple[str, ...]] = []
    first = 0
    for column in subject.recipe.columns:
        levels = ["(missing)" if one is None else one for one in column.levels]
        shown = ", ".join(levels[:SHOWN_LEVELS]) + (", ..." if len(levels) > SHOWN_LEVELS else "")
        moments = ("",) * 4 if column.kind == "category" else _moments(raw[:, first])
        rows.append((column.name, column.kind, shown, *moments))
        first += len(column.features)
    return rows


def _moments(values: Array) -> tuple[str, str, str, str]:
    return number(values.mean()), number(values.std()), number(values.min()), number(values.max())


def code(subject: Subject) -> Section:
    """Return how to get the same model again."""
    text = "This Python fits the same model. Shuffles are seeded, so it gives the same numbers."
    return Section("code", "Do it again", text, code=subject.code)


def _tried(subject: Subject) -> list[Assessment]:
    """Fit the common methods with the same rule; the fitted one is not fitted again."""
    smallest = float(subject.spectrum.eigenvalues.min(initial=np.inf))
    common: list[Method] = [Ridge(), GradientFlow(), AcceleratedFlow(), AcceleratedFlow(5.0)]
    if np.isfinite(smallest):
        common.append(HeavyBallFlow(float(np.sqrt(smallest))))
    found = [subject.assessment]
    stops = (
        subject.model.stops if isinstance(subject.model.stops, int) else None
    )  # times differ by method
    for method in common:
        if method == subject.model.method_:
            continue
        model = clone(subject.model).set_params(method=method, stops=stops)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StopWarning)  # of the fitted method it was told
            model.fit(subject.X, subject.y, subject.sample_weight)
        found.append(assess(model, subject.spectrum))
    return sorted(found, key=lambda one: one.error)


def _dots(key: str, title: str, values: Sequence[tuple[str, float, float | None]]) -> Chart:
    """Return a chart of errors with their standard errors, one beside the other."""
    place = np.arange(1.0, len(values) + 1)
    errors = np.array([error for _, error, _ in values])
    spread = np.array([0.0 if one is None else one for *_, one in values])
    labels = tuple(name for name, *_ in values)
    low, high = errors - spread, errors + spread
    series = [
        Series("± one standard error", place, errors, low=low, high=high, color=7, whiskers=True),
        Series("error", place, errors, color=1, points=True, labels=labels),
    ]
    return Chart(key, title, "", "mean squared error", series, log_x=None, categories=labels)
