"""Sections on the quality of the fit, on its data, and on how to reproduce it."""

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
from stoptime.stopping.rule import StopWarning
from stoptime.support.arrays import Array, Floats
from stoptime.support.wording import guarantee_in_words, method_in_words, number, with_error
from stoptime.tables.assessment import Assessment, assess

SHOWN_POINTS = 200
SHOWN_COLUMNS = 100
SHOWN_LEVELS = 6
UNFOLDED_ROWS = 15  # a longer table of columns is folded
HELD_OUT = 0.2  # fraction of the rows
CONFIDENCE = 0.9
FEWEST_ROWS = 20  # with fewer rows, none are held out


def methods(subject: Subject) -> Section:
    """Return other methods with the same rule, and other estimators on the same folds."""
    tried = _tried(subject)
    errors = [(method_in_words(one.method), one.error, one.standard_error) for one in tried]
    charts = [_dots("methods", "Error by method", errors)]
    rows = [
        (
            method_in_words(one.method),
            with_error(one.error, one.standard_error),
            number(one.stop),
            number(one.penalty),
            f"{one.degrees_of_freedom:.1f}",
            guarantee_in_words(one)[0],
        )
        for one in tried
    ]
    head = ("method", "error", "stop", "equivalent penalty", "degrees of freedom", "guarantee")
    tables = [TableOf("Methods with the same rule", head, tuple(rows))]
    text = "Errors are mean squared errors ± one standard error. The guarantee is an upper bound."
    if subject.scores:
        scores = [(score.name, score.error, score.standard_error) for score in subject.scores]
        charts.append(_dots("folds", "Error on held-out folds", scores))
        tables.append(_scores_table(subject))
        text += " Differences are computed row by row: they are more precise than the errors."
    return Section("methods", "Comparison", text, tuple(charts), tuple(tables))


def _scores_table(subject: Subject) -> TableOf:
    rows = []
    for score in subject.scores:
        more = with_error(score.excess, score.excess_standard_error, sign=True)
        first = score is subject.scores[0]
        error = with_error(score.error, score.standard_error)
        rows.append((score.name, error, "" if first else more))
    title = "Estimators on the same folds, each tuned on its training rows"
    return TableOf(title, ("estimator", "error", "difference from stoptime"), tuple(rows))


def intervals(subject: Subject) -> Section:
    """Return prediction intervals on rows that were held out."""
    key, title = "intervals", "Prediction intervals"
    n = len(subject.y)
    if n < FEWEST_ROWS:
        return Section(key, title, f"There are only {n} rows, too few to hold some out.")
    train, test = train_test_split(np.arange(n), test_size=HELD_OUT, random_state=subject.seed)
    weights = None if subject.sample_weight is None else subject.sample_weight[train]
    model = clone(subject.model).fit(subject.X[train], subject.y[train], weights)
    if model.left_out_residuals_ is None:
        text = "This method has no left-out residuals, from which intervals are computed."
        return Section(key, title, text)
    guess = model.predict(subject.X[test])
    ends = model.predict_interval(subject.X[test], CONFIDENCE)
    truth = subject.y[test]
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    chance = 100 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / len(test))
    text = (
        f"A random fifth of the rows ({len(test)}) was held out, and the model was fitted to the "
        f"others. Of the held-out values, {int(inside.sum())} ({inside.mean():.0%}) lie in their "
        f"{CONFIDENCE:.0%} interval; by chance this share varies by {chance:.0f} percentage points."
    )
    shown = np.random.default_rng(subject.seed).permutation(len(test))[:SHOWN_POINTS]
    if len(shown) < len(test):
        text += f" The chart shows {len(shown)} of them, drawn at random."
    order = shown[np.argsort(guess[shown], kind="stable")]
    chart = _interval_chart(subject.target, guess[order], ends[order], truth[order], inside[order])
    return Section(key, title, text, (chart,))


def _interval_chart(
    target: str, guess: Floats, ends: Floats, truth: Array, inside: NDArray[np.bool_]
) -> Chart:
    place = np.arange(1.0, len(guess) + 1)
    series = [
        Series("interval", place, guess, ends[:, 0], ends[:, 1], "whiskers", color=7),
        Series("inside", place[inside], truth[inside], kind="points", color=1),
        Series("outside", place[~inside], truth[~inside], kind="points", color=3),
    ]
    title = f"{CONFIDENCE:.0%} intervals"
    rows = "held-out rows, ordered by prediction"
    return Chart("intervals", title, rows, target, series, log_x=None, log_y=None)


def data(subject: Subject) -> Section:
    """Return the columns of the data, and the warnings about them."""
    columns = _columns(subject)
    text = f"{subject.size} The target is {subject.target}."
    if len(columns) > SHOWN_COLUMNS:
        text += f" The table shows the first {SHOWN_COLUMNS} of {len(columns)} columns."
    rows = [(subject.target, "target", "", *_moments(subject.y)), *columns[:SHOWN_COLUMNS]]
    head = ("column", "kind", "values", "mean", "standard deviation", "minimum", "maximum")
    table = TableOf("Columns", head, tuple(rows), folded=len(rows) > UNFOLDED_ROWS)
    notes = subject.messages or ("No value had to be filled in, left out or converted.",)
    return Section("data", "Data and warnings", text, (), (table,), notes)


def _columns(subject: Subject) -> list[tuple[str, ...]]:
    """Return a row for each column of the table, or of X if there was no table."""
    recipe = subject.recipe
    if recipe is None:
        named = zip(subject.features, subject.X.T, strict=True)
        return [(name, "number", "", *_moments(values)) for name, values in named]
    raw = subject.X * np.array(recipe.scales) + np.array(recipe.centres)
    rows: list[tuple[str, ...]] = []
    first = 0
    for column in recipe.columns:
        levels = ["(missing)" if one is None else one for one in column.levels]
        shown = ", ".join(levels[:SHOWN_LEVELS]) + (", ..." if len(levels) > SHOWN_LEVELS else "")
        moments = ("",) * 4 if column.kind == "category" else _moments(raw[:, first])
        rows.append((column.name, column.kind, shown, *moments))
        first += len(column.features)
    return rows


def _moments(values: Array) -> tuple[str, str, str, str]:
    return number(values.mean()), number(values.std()), number(values.min()), number(values.max())


def code(subject: Subject) -> Section:
    """Return Python code that fits the same model."""
    text = "This Python code fits the same model. Shuffles are seeded, so the numbers are the same."
    return Section("code", "Reproduce this fit", text, code=subject.code)


def _tried(subject: Subject) -> list[Assessment]:
    """Fit the common methods with the same rule, and sort them by error."""
    smallest = float(subject.spectrum.eigenvalues.min(initial=np.inf))
    common: list[Method] = [Ridge(), GradientFlow(), AcceleratedFlow(), AcceleratedFlow(5.0)]
    if np.isfinite(smallest):
        common.append(HeavyBallFlow(float(np.sqrt(smallest))))
    # stops that a user chose are times of one method: only their number is kept for the others
    stops = subject.model.stops if isinstance(subject.model.stops, int) else None
    found = [subject.assessment]
    for method in common:
        if method == subject.model.method_:
            continue
        model = clone(subject.model).set_params(method=method, stops=stops)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StopWarning)  # it is about the data, as for the first
            model.fit(subject.X, subject.y, subject.sample_weight)
        found.append(assess(model, subject.spectrum))
    return sorted(found, key=lambda one: one.error)


def _dots(key: str, title: str, values: Sequence[tuple[str, float, float | None]]) -> Chart:
    """Return a chart of errors with their standard errors, side by side."""
    names, errors, spreads = zip(*values, strict=True)
    place = np.arange(1.0, len(values) + 1)
    error = np.array(errors)
    spread = np.array([one or 0.0 for one in spreads])
    ends = (error - spread, error + spread)
    series = [
        Series("± one standard error", place, error, *ends, "whiskers", color=7),
        Series("error", place, error, kind="points", color=1, labels=names),
    ]
    return Chart(key, title, "", "mean squared error", series, log_x=None, categories=names)
