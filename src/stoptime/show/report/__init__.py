"""One HTML file on a fitted model: errors, predictions, columns, coefficients and data."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline

from stoptime.show import plots
from stoptime.stopping.registry import get_rule
from stoptime.support.arrays import Array
from stoptime.support.checks import installed
from stoptime.support.files import atomic
from stoptime.support.progress import warnings_noted
from stoptime.support.version import __version__
from stoptime.support.wording import method_in_words, number
from stoptime.tables import results
from stoptime.tables.assessment import TableFit, compared
from stoptime.tables.intervals import prepared

__all__ = ["page", "write"]

# a mid-tone, which can be read on white and on black
BLUE = "#2f86d2"
INK, FAINT, CARD = "#010203", "#040506", "#070809"  # replaced by the colours of the page


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
        last = model[-1] if isinstance(model, Pipeline) else model
        if isinstance(last, TransformedTargetRegressor):
            response = last.transformer_.transform(response[:, None])[:, 0]
            name = f"{name}, transformed"
        with warnings_noted():  # which are for new rows
            rows = prepared(model, X)
        features = np.asarray(rows.toarray() if issparse(rows) else rows, np.float64)
        fit = TableFit(model, X, features, response, name, weights)
        if not (hasattr(fit.model, "coef_") and hasattr(fit.model, "choice_")):
            raise TypeError(
                "A report needs a fitted StoppedRegressorCV or StoppedClassifierCV, alone or at "
                f"the end of a Pipeline; got {type(fit.model).__name__}."
            )
        fit = replace(fit, scores=compared(fit))
    text = page(fit)
    with atomic(Path(target)) as path:
        path.write_text(text, encoding="utf-8")


def page(fit: TableFit) -> str:
    """Return the report as one HTML page, which runs no script and loads nothing."""
    middle: Any = ("Predicted and observed", _predictions)
    if fit.classifies:
        middle = ("Classes and probabilities", _classes)
    made = [("When to stop", _stopping), middle, ("Columns and coefficients", _columns)]
    sections = ""
    links = ""
    for key, (title, make) in enumerate([*made, ("Data and notes", _data)]):
        text, *cells = make(fit)
        body = "".join(f"<div>{cell}</div>" for cell in cells)
        sections += f'<section id="s{key}"><h2>{title}</h2><p>{escape(text)}</p>'
        sections += f'<div class="cells">{body}</div></section>'
        links += f'<a href="#s{key}">{title}</a>'
    tiles = (
        f"<div><dt>{escape(name)}</dt><dd>{_number(value)}<small>{escape(detail)}</small></dd></div>"
        for name, value, detail in results.key_figures(fit)
    )
    size = f"{results.size(fit)}, in {Path(fit.source).name}."
    method = method_in_words(fit.model.method_)
    stop = number(float(fit.model.stop_))
    parts = {
        "title": escape(f"{fit.target}, fitted by {fit.model.method_.name}"),
        "lead": escape(f"{size} The method {method} was stopped at {stop}."),
        "links": links,
        "tiles": "".join(tiles),
        "sections": sections,
        "version": escape(__version__),
    }
    html = files(__name__).joinpath("page.html").read_text(encoding="utf-8")
    # one pass over the template leaves braces inside the parts alone
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], html)


def _number(text: str) -> str:
    """Return a number with its standard error, which stay on one line."""
    return re.sub(" (?=[±%])|(?<=±) ", "\u00a0", escape(text))


def _table(table: results.TableOf) -> str:
    title = escape(table.title)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    rows = ""
    for first, *rest in table.rows:
        cells = "".join(f"<td>{_number(cell)}</td>" for cell in rest)
        rows += f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>'
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    wide = f'<div class="wide" tabindex="0" role="region" aria-label="{title}">{body}</div>'
    if len(table.rows) > 25:
        return f"<details><summary>{title}</summary>{wide}</details>"
    return f"<h3>{title}</h3>{wide}"


def _chart(title: str, draw: Callable[[Any], None], height: float = 2.9) -> str:
    """Return a figure of matplotlib as SVG in the colours of the page; ``draw`` gets its axes."""
    advice = 'A report needs matplotlib: pip install "stoptime[plot]".'
    matplotlib = installed("matplotlib", advice)
    figure = installed("matplotlib.figure", advice).Figure((4.2, height), layout="constrained")
    coloured = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    style = {
        **dict.fromkeys(coloured, INK),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 9.5,
        "grid.color": FAINT,
        "legend.facecolor": CARD,
        "legend.edgecolor": CARD,
        "legend.fontsize": "small",
        "svg.fonttype": "none",  # text stays text, in the font of the page
        "svg.hashsalt": title,  # so that names in several figures of a page differ
    }
    with matplotlib.rc_context(style):
        axes = figure.add_subplot()
        axes.grid(linewidth=0.6)
        axes.set_axisbelow(True)
        draw(axes)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace(FAINT, "var(--grid)").replace(CARD, "var(--card)")
    for dark in (INK, "#000000", "#4c4c4c"):  # the last two are those of stoptime.plots
        svg = svg.replace(dark, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # without a size of its own it takes the width of the page
    svg = re.sub(r'(?:width|height)="[\d.]+pt" ?', "", svg.removeprefix("<svg"), count=2)
    return f'<figure><svg role="img" aria-label="{escape(title)}"{svg}</figure>'


def _stopping(fit: TableFit) -> list[str]:
    """Return a text, then what stands side by side below it, as every section does."""
    model = fit.model
    what = "The error of classes coded as ±1" if fit.classifies else "The mean squared error"
    text = (
        f"{what} along the path, by {fit.rule_in_words}, which chose the stop "
        f"{number(float(model.stop_))}: {model.choice_.message}."
    )
    if fit.scores:
        text += (
            " Estimators are compared on left-out rows: each row is predicted by the fit without "
            "it, whatever the rule, and differences are taken row by row."
        )

    def draw(axes: Any) -> None:
        plots.error_curve(model.choice_, model.method_, ax=axes)
        axes.set_title("")
        measure = get_rule(model.rule, model.cv).measure
        name = "mean squared error" if measure == "error" else measure
        axes.set_ylabel(name if model.scoring is None else "negative score")

    tables = [results.method_table(fit), results.comparison_table(fit)]
    shown = "".join(_table(one) for one in tables if one.rows)
    return [text, _chart("Estimated error along the path", draw), shown]


def _predictions(fit: TableFit) -> list[str]:
    """Return what the fits without each row predict for it."""
    residuals = fit.model.left_out_residuals_
    if residuals is None:
        return ["This method has no left-out residuals: no row is predicted without."]
    width = float(np.quantile(np.abs(residuals[fit.weights > 0]), 0.9))
    # more points would only hide each other
    some = np.sort(np.random.default_rng(0).permutation(len(fit.y))[:2000])
    y = np.asarray(fit.y, np.float64)[some]
    x = y - np.asarray(residuals, np.float64)[some]
    text = (
        "Each row is predicted by the fit without it. Points on the line are predicted exactly; "
        "residuals that bend or widen ask for another column, or for the logarithm of the target. "
        f"Of all residuals, 90% lie between -{number(width)} and {number(width)}, the dotted lines."
    )
    if len(y) < len(fit.y):
        text += f" The charts show {len(y)} rows, drawn at random."

    line = np.array([x.min(), x.max()])

    def scatter(axes: Any, heights: Array, ends: Array, label: str) -> None:
        axes.scatter(x, heights, s=12, alpha=0.5, color=BLUE, linewidths=0)
        axes.plot(line, ends, color=INK, lw=0.8)
        axes.set(xlabel=f"predicted {fit.target}", ylabel=label)
        axes.locator_params(nbins=5)

    def observed(axes: Any) -> None:
        scatter(axes, y, line, f"observed {fit.target}")

    def residual(axes: Any) -> None:
        scatter(axes, y - x, 0 * line, "observed - predicted")
        axes.hlines([-width, width], *line, color=INK, lw=0.8, ls=":")

    return [text, _chart("Observed against predicted", observed), _chart("Residuals", residual)]


def _classes(fit: TableFit) -> list[str]:
    found = fit.classes
    if found is None:
        return ["This method has no left-out decision values."]
    text = (
        "Each row is classified by the fit without it. In the calibration curve, cases are grouped "
        "by their predicted probability: points on the line are well calibrated, and large points "
        "have many cases."
    )

    def calibration(axes: Any) -> None:
        chances, shares, cases = np.array(found.calibration).T
        axes.plot([0, 1], [0, 1], color=INK, lw=0.8)
        axes.plot(chances, shares, color=BLUE, lw=1)
        axes.scatter(chances, shares, s=10 + 150 * cases / cases.max(), color=BLUE, alpha=0.7)
        axes.set(xlabel="predicted probability", ylabel="share that came true")

    tables = "".join(map(_table, results.class_tables(fit)))
    return [text, _chart("Calibration curve", calibration), tables]


def _columns(fit: TableFit) -> list[str]:
    every = fit.importance()
    most = dict(list(every.items())[:20])
    text = (
        "The chart shows how far each column moves the prediction: the standard deviation over "
        "rows of what it contributes, for the words of a text column together. Columns that go "
        "with each other share what they say, and this is no statement about causes."
    )
    if len(every) > len(most):
        text += f" It shows {len(most)} of {len(every)} columns."
    if fit.preparation is not None and fit.preparation.standardise:
        text += (
            " Coefficients of standardised columns (mean zero, variance one) can be compared in "
            "size; those in original units are per unit of the column, or for a word."
        )
    names = [name if len(name) < 28 else f"{name[:26]}…" for name in most]

    def draw(axes: Any) -> None:
        axes.barh(range(len(names)), list(most.values()), color=BLUE, height=0.7)
        axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        unit = "decision values" if fit.classifies else fit.target
        axes.set_xlabel(f"contribution, in {unit}")

    chart = _chart("Importance of columns", draw, 0.8 + 0.2 * len(most))
    return [text, chart, _table(results.coefficient_table(fit, 20))]


def _data(fit: TableFit) -> list[str]:
    text = f"The target is {fit.target}, from {Path(fit.source).name}."
    notes = fit.notes or ("No value had to be filled in, left out or converted.",)
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    cells = [f'<ul class="notes">{listed}</ul>']
    if fit.preparation is not None:
        every = list(fit.preparation.decisions_.values())[:100]
        # some texts of a column are enough to recognise it
        rows = [(one.column, one.kind, ", ".join(one.levels[:6])) for one in every]
        width = 3 if any(one.levels for one in every) else 2
        head = ("column", "kind", "texts")[:width]
        cells.append(_table(results.TableOf("Columns", head, tuple(row[:width] for row in rows))))
    return [text, *cells]
