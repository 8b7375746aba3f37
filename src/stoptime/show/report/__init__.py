"""One HTML file on a fitted model: errors, predictions, columns, coefficients, data and code."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from stoptime.show.report import charts
from stoptime.support.files import atomic
from stoptime.support.progress import warnings_noted
from stoptime.support.version import __version__
from stoptime.support.wording import method_in_words, number
from stoptime.tables import results
from stoptime.tables.assessment import TableFit, compared
from stoptime.tables.preparation import Decision

__all__ = ["page", "write"]


@dataclass(frozen=True)
class Section:
    """A heading, one paragraph of text, and the charts, tables and further HTML below it."""

    key: str
    title: str
    text: str
    charts: tuple[str, ...] = ()
    tables: tuple[results.TableOf, ...] = ()
    more: str = ""


def write(
    target: str | Path,
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    name: str = "y",
) -> None:
    """Write a report on a fitted model as one HTML file, completely or not at all.

    Parameters
    ----------
    target : path
        The file.
    model : estimator, Pipeline or TableFit
        A fitted StoppedRegressorCV or StoppedClassifierCV, a Pipeline that ends with one, or what
        :func:`stoptime.fit_table` returned, which has its data with it.
    X, y : array-like or data frame of shape (n, n_features), array-like of shape (n,)
        The rows that the model was fitted to.
    sample_weight : array-like of shape (n,), optional
        The weights that it was fitted with.
    name : str, default="y"
        The name of y.
    """
    fit = model
    if not isinstance(model, TableFit):
        response = np.asarray(y)
        if X is None or response.ndim != 1:
            raise ValueError(
                f"A report needs X and one target y of shape (n,); got {response.shape}."
            )
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        code = f"X, y = ...  # your data\nmodel = {model!r}.fit(X, y)\n"
        fit = TableFit(model, X, response, name, weights, code=code)
        if not (hasattr(fit.model, "coef_") and hasattr(fit.model, "choice_")):
            raise TypeError(
                "A report needs a fitted StoppedRegressorCV or StoppedClassifierCV, alone or at "
                f"the end of a Pipeline; got {type(fit.model).__name__}."
            )
        with warnings_noted():  # the fit itself has warned
            fit = replace(fit, scores=compared(fit))
    with warnings_noted():
        text = page(fit)
    with atomic(Path(target)) as path:
        path.write_text(text, encoding="utf-8")


def page(fit: TableFit) -> str:
    """Return the report as one HTML page, which runs no script and loads nothing."""
    make = _classes if fit.classifies else _numbers
    found = [_stopping(fit), *make(fit), _columns(fit), _coefficients(fit), _data(fit), _code(fit)]
    sections = [one for one in found if one is not None]
    links = (f'<a href="#{one.key}">{escape(one.title)}</a>' for one in sections)
    tiles = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(detail)}</small></dd></div>"
        for name, value, detail in results.key_figures(fit)
    )
    method = method_in_words(fit.model.method_)
    stop = number(float(fit.model.stop_))
    lead = f"{Path(fit.source).name}: {results.size(fit)}. {method} was stopped at {stop}."
    parts = {
        "title": escape(f"{fit.target}, fitted by {fit.model.method_.name}"),
        "style": files(__name__).joinpath("page.css").read_text(encoding="utf-8"),
        "lead": escape(lead),
        "links": "".join(links),
        "tiles": "".join(tiles),
        "sections": "".join(map(_section, sections)),
        "version": escape(__version__),
    }
    html = files(__name__).joinpath("page.html").read_text(encoding="utf-8")
    # one pass over the template leaves braces inside the parts alone
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], html)


def _section(section: Section) -> str:
    figures = "".join(f"<figure>{one}</figure>" for one in section.charts)
    return "\n".join(
        [
            f'<section id="{section.key}"><h2>{escape(section.title)}</h2>',
            f"<p>{escape(section.text)}</p>",
            f'<div class="charts">{figures}</div>' if figures else "",
            *map(_table, section.tables),
            section.more,
            "</section>\n",
        ]
    )


def _table(table: results.TableOf) -> str:
    title = escape(table.title)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    rows = ""
    for first, *rest in table.rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        rows += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>'
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    wide = f'<div class="wide" tabindex="0" role="region" aria-label="{title}">{body}</div>'
    if table.folded:
        return f"<details><summary>{title}</summary>{wide}</details>"
    return f"<h3>{title}</h3>{wide}"


def _stopping(fit: TableFit) -> Section:
    choice = fit.model.choice_
    what = "The error of classes coded as ±1" if fit.classifies else "The mean squared error"
    text = (
        f"{what} along the path, by {fit.rule_in_words}, which chose the stop "
        f"{number(float(fit.model.stop_))}: {choice.message}."
    )
    chart = charts.drawn("Estimated error along the path", charts.error_curve(fit))
    scores = [results.comparison_table(fit)] if fit.scores else []
    methods = results.method_table(fit)
    tables = ([methods] if methods is not None else []) + scores
    if fit.scores:
        text += (
            " Estimators are compared on left-out rows: each row is predicted by the fit without "
            "it, whatever the rule, and differences are taken row by row."
        )
    return Section("stop", "When to stop", text, (chart,), tuple(tables))


def _numbers(fit: TableFit) -> list[Section | None]:
    """Return what a regression predicts for left-out and for held-out rows."""
    residuals = fit.model.left_out_residuals_
    if residuals is None:
        text = "This method has no left-out residuals, so that no row can be predicted without it."
        return [Section("predictions", "Predictions", text)]
    predicted = np.asarray(fit.y, np.float64) - np.asarray(residuals, np.float64)
    text = (
        "Each row is predicted by the fit without it. Points on the line are predicted exactly; "
        "residuals that bend or widen ask for another column, or for the logarithm of the target."
    )
    if len(predicted) > charts.SCATTER_POINTS:
        text += f" The charts show {charts.SCATTER_POINTS} rows, drawn at random."
    pair = (
        charts.drawn(
            "Observed against predicted", charts.observed(fit, predicted, residuals=False)
        ),
        charts.drawn("Residuals", charts.observed(fit, predicted, residuals=True)),
    )
    return [Section("predictions", "Predicted and observed", text, pair), _intervals(fit)]


def _intervals(fit: TableFit) -> Section | None:
    """Return prediction intervals on rows that were held out."""
    n = len(fit.y)
    if n < 20:
        return None  # too few to hold some out
    train, test = train_test_split(np.arange(n), test_size=0.2, random_state=0)
    weights = None if fit.sample_weight is None else fit.sample_weight[train]
    model = clone(fit.model).fit(fit.features[train], fit.y[train], weights)
    if model.left_out_residuals_ is None:
        return None
    truth = np.asarray(fit.y, np.float64)[test]
    guess = model.predict(fit.features[test])
    ends = model.predict_interval(fit.features[test], 0.9)
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    # the number of values inside is binomial if each lies inside with this confidence
    chance = 100 * np.sqrt(0.9 * 0.1 / len(test))
    text = (
        f"A random fifth of the rows ({len(test)}) was held out, and the model was fitted to the "
        f"others. Of the held-out values, {int(inside.sum())} ({inside.mean():.0%}) lie in their "
        f"90% interval (jackknife+); by chance this share varies by {chance:.0f} percentage points."
    )
    chart = charts.drawn("90% intervals", charts.intervals(ends, guess, truth, fit.target))
    return Section("intervals", "Prediction intervals", text, (chart,))


def _classes(fit: TableFit) -> list[Section | None]:
    if fit.classes is None:
        text = "This method has no left-out decision values: no row can be classified without it."
        return [Section("classes", "Classes", text)]
    text = (
        "Each row is classified by the fit without it. In the calibration curve, cases are grouped "
        "by their predicted probability: points on the line are well calibrated, and large points "
        "have many cases."
    )
    pair = (
        charts.drawn("Confusion matrix", charts.confusion(fit)),
        charts.drawn("Calibration curve", charts.calibration(fit)),
    )
    tables = tuple(replace(one, folded=True) for one in results.class_tables(fit))
    return [Section("classes", "Classes and probabilities", text, pair, tables)]


def _columns(fit: TableFit) -> Section:
    """Return by how much each column of the table moves the prediction."""
    every = fit.importance()
    most = dict(list(every.items())[:20])
    unit = "decision values" if fit.classifies else fit.target
    text = (
        "How far each column moves the prediction: the standard deviation over rows of what it "
        "contributes. The words of a text column count together. Columns that go with each other "
        "share what they say, and this is no statement about causes."
    )
    if len(every) > len(most):
        text += f" The chart shows {len(most)} of {len(every)} columns."
    chart = charts.drawn(
        "Importance of columns",
        charts.bars(most, f"standard deviation of the contribution, in {unit}"),
        height=1.0 + 0.24 * len(most),
    )
    return Section("columns", "Importance of columns", text, (chart,))


def _coefficients(fit: TableFit) -> Section:
    text = (
        "Coefficients at the chosen stop; the intercept is the prediction where all else is zero."
    )
    if fit.preparation is not None and fit.preparation.standardise:
        text = (
            "Coefficients of standardised columns (mean zero, variance one) can be compared in "
            "size; those in original units are per unit of the column, or for a word."
        )
    table = results.coefficient_table(fit, 40)
    return Section("coefficients", "Coefficients", text, (), (table,))


def _data(fit: TableFit) -> Section:
    """Return what became of the columns, and the notes."""
    decisions = [] if fit.preparation is None else [*fit.preparation.decisions_.values()]
    rows = [(one.column, one.kind, *_described(one, fit)) for one in decisions[:100]]
    head = ("column", "kind", "values")
    tables = (results.TableOf("Columns", head, tuple(rows), folded=len(rows) > 15),) if rows else ()
    notes = fit.notes or ("No value had to be filled in, left out or converted.",)
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    text = f"{Path(fit.source).name}, {results.size(fit)}. The target is {fit.target}."
    if len(decisions) > len(rows):
        text += f" The table shows the first {len(rows)} of {len(decisions)} columns."
    return Section("data", "Data and notes", text, (), tables, f'<ul class="notes">{listed}</ul>')


def _described(one: Decision, fit: TableFit) -> tuple[str, ...]:
    if one.kind == "text":
        more = ", ..." if len(one.levels) > 6 else ""
        return (", ".join(one.levels[:6]) + more,)
    if one.kind == "dropped":
        return ("",)
    place = fit.feature_names.index(one.column)
    preparation: Any = fit.preparation
    values = fit.features[:, place] * preparation.scale_[place] + preparation.center_[place]
    ends = [float(values.min()), float(values.mean()), float(values.max())]
    if one.kind == "date":
        low, mean, high = (str(np.datetime64(round(end), "D")) for end in ends)
    else:
        low, mean, high = (number(end, scale=float(np.ptp(values))) for end in ends)
    return (f"{low} to {high}, mean {mean}",)


def _code(fit: TableFit) -> Section:
    text = "This Python code fits the same model."
    more = f'<pre tabindex="0"><code>{escape(fit.code)}</code></pre>'
    return Section("code", "Fit it again", text, more=more)
