"""One HTML file on a fitted model: error curve, coefficients, comparison, intervals, and code."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.show.report.charts import Chart, Section
from stoptime.show.report.sections import SECTIONS
from stoptime.show.results import TableOf, key_figures
from stoptime.spectrum.decompose import decompose
from stoptime.support.files import atomic
from stoptime.support.version import __version__
from stoptime.support.wording import method_in_words, number
from stoptime.tables.assessment import Fitted, Request, assess, compare
from stoptime.tables.reading import Table
from stoptime.tables.recipe import Column, Policy, Prepared, Recipe

__all__ = ["STEPS", "of_fit", "write"]

STEPS = len(SECTIONS)  # for a progress bar


def write(
    target: str | Path,
    model: StoppedRegressorCV,
    X: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    features: Sequence[str] | None = None,
    name: str = "y",
) -> None:
    """Write a report on a fitted model as one HTML file, completely or not at all.

    The model was fitted to X of shape (n, p), to one target y of shape (n,), and with these
    weights. ``features`` are names of the columns of X, by default those of a data frame, or
    x1, x2, ...; ``name`` is the name of y.
    """
    rows = np.asarray(X, dtype=np.float64)
    response = np.asarray(y, dtype=np.float64)
    if rows.ndim != 2 or response.shape != rows.shape[:1]:
        raise ValueError(
            "A report needs X of shape (n, p) and one target y of shape (n,); "
            f"got {rows.shape} and {response.shape}."
        )
    n, p = rows.shape
    names = [f"x{i + 1}" for i in range(p)]
    names = list(getattr(model, "feature_names_in_", names) if features is None else features)
    if len(names) != p:
        raise ValueError(f"features must name {p} columns; got {len(names)} names.")
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    columns = tuple(Column(str(one), "number") for one in names)
    recipe = Recipe(columns, (0.0,) * p, (1.0,) * p)
    prepared = Prepared(rows, response, weights, name, recipe)
    intercept = bool(model.fit_intercept)
    whole = decompose(rows, response, weights, intercept, penalty_matrix=model.penalty_matrix)
    source = "given as arrays"
    scores = compare(model, whole, prepared) if n >= 3 else []
    code = (
        f"import stoptime as st\n\nX, y = ...  # your data of {n} rows and {p} columns\n"
        f"model = st.{model!r}.fit(X, y)\n"
    )
    # The columns are used as they are given.
    policy = Policy(standardise=False)
    request = Request(source, name, policy=policy, fit_intercept=intercept)
    given = request, Table(rows, source), prepared, n
    fitted = Fitted(*given, model, whole, assess(model, whole), scores, (), code)
    with atomic(Path(target)) as path:
        path.write_text(of_fit(fitted), encoding="utf-8")


def of_fit(fitted: Fitted, progress: Callable[[str], None] | None = None) -> str:
    """Return the report on the result of fit_table as a page; progress gets a text by section."""
    sections = []
    for name, make in SECTIONS.items():
        if progress is not None:
            progress(f"report: {name}")
        sections.append(make(fitted))
    return _assembled(fitted, sections)


def _assembled(fitted: Fitted, sections: list[Section]) -> str:
    """Return the page; every text of the user's data is escaped, and nothing is loaded."""
    style = _asset("page.css")
    script = "\n".join(map(_asset, ("axes.js", "chart.js", "page.js")))
    found = fitted.assessment
    chosen = f"The method {method_in_words(found.method)} was stopped at {number(found.stop)}"
    content = [chart.content() for one in sections for chart in one.charts]
    charts = json.dumps(content, allow_nan=False, separators=(",", ":"))
    # No text in the charts may end the script element around them.
    for sign in "<>&":
        charts = charts.replace(sign, f"\\u{ord(sign):04x}")
    links = (f'<a href="#{one.key}">{escape(one.title)}</a>' for one in sections)
    tiles = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(detail)}</small></dd></div>"
        for name, value, detail in key_figures(fitted)
    )
    parts = {
        # The policy names the page's own style and script by their hashes, so that nothing else
        # runs even if an escape were missing.
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        "title": escape(f"{fitted.prepared.target}, fitted by {found.method.name}"),
        "style": style,
        "lead": escape(f"{fitted.size} {chosen}: {fitted.model.choice_.message}."),
        "links": "".join(links),
        "tiles": "".join(tiles),
        "sections": "".join(map(_section, sections)),
        "version": escape(__version__),
        "charts": charts,
        "script": script,
    }
    # One pass over the template leaves braces inside the parts alone.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _section(section: Section) -> str:
    charts = "".join(map(_figure, section.charts))
    parts = [
        f'<section id="{section.key}"><h2>{escape(section.title)}</h2>',
        f"<p>{escape(section.text)}</p>",
        f'<div class="charts">{charts}</div>' if len(section.charts) > 1 else charts,
        *map(_table, section.tables),
    ]
    if section.notes:
        notes = "".join(f"<li>{escape(note)}</li>" for note in section.notes)
        parts.append(f'<ul class="notes">{notes}</ul>')
    if section.code:
        parts.append(
            '<div class="code"><button type="button" class="copy">Copy</button>'
            f'<pre tabindex="0"><code>{escape(section.code)}</code></pre></div>'
        )
    return "\n".join([*parts, "</section>\n"])


def _figure(chart: Chart) -> str:
    caption = f"<figcaption><span>{escape(chart.title)}</span></figcaption>"
    plot = f'<div class="plot"></div>{_table(chart.table())}'
    return f'<figure data-chart="{chart.key}">{caption}{plot}</figure>'


def _table(table: TableOf) -> str:
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
