"""The report as one HTML page that loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Any

from stoptime.methods.base import Method
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.recurrence import Iteration
from stoptime.methods.ridge import Ridge
from stoptime.show.report.charts import Chart, Section, TableOf
from stoptime.show.report.subject import Subject
from stoptime.support.version import __version__
from stoptime.support.wording import guarantee_in_words, method_in_words, number, with_error

__all__ = ["assembled"]

SCRIPTS = ("axes.js", "chart.js", "page.js")


def assembled(subject: Subject, sections: list[Section]) -> str:
    """Return the page; every text that is not ours is escaped.

    The content security policy names the page's own style and script by their hashes, so that nothing
    else runs even if something slipped through.
    """
    style, script = _asset("page.css"), "\n".join(map(_asset, SCRIPTS))
    charts = [chart.content() for section in sections for chart in section.charts]
    title = f"{subject.target}, fitted by {subject.assessment.method.name}"
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}; form-action 'none'">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the results</a>
<header>
<div><p class="kicker">stoptime report</p>
<h1>{escape(title)}</h1>
<p>{escape(_lead(subject))}</p></div>
<button type="button" id="theme" aria-live="polite">Dark</button>
</header>
<nav aria-label="Sections">{_links(sections)}</nav>
<main id="main">
{_tiles(subject)}
{"".join(map(_section, sections))}
</main>
<footer><p>Made by stoptime {escape(__version__)}. This page loads nothing from the network.</p></footer>
<noscript><p>The charts need JavaScript; the tables below each of them hold the same numbers.</p></noscript>
<script type="application/json" id="charts">{_embedded(charts)}</script>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("stoptime.show.report").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _embedded(content: Any) -> str:
    """Return JSON that cannot end the element it stands in."""
    encoded = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return encoded.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _lead(subject: Subject) -> str:
    n, p = subject.X.shape
    found = subject.assessment
    return (
        f"{subject.source}: {n} rows, {p} features. {method_in_words(found.method)}, stopped at "
        f"{number(found.stop)}: {subject.model.choice_.message}."
    )


def _tiles(subject: Subject) -> str:
    found = subject.assessment
    worth, meaning = guarantee_in_words(found)
    freedom = subject.X.shape[1] + bool(subject.model.fit_intercept)
    tiles = [
        ("stop", number(found.stop), _stop_in_words(found.method)),
        ("like ridge penalty", number(found.penalty), _alpha(subject)),
        (
            "prediction error",
            with_error(found.error, found.standard_error),
            "mean square, ± standard error",
        ),
        ("variance explained", f"{found.explained:.1%}", "R² by the same estimate"),
        ("degrees of freedom", f"{found.degrees_of_freedom:.1f}", f"of {freedom}"),
        ("guarantee", worth, meaning),
    ]
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(detail)}</small></dd></div>"
        for name, value, detail in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'


def _stop_in_words(method: Method) -> str:
    if isinstance(method, Ridge):
        return "1/penalty"
    return "iterations" if isinstance(method, Iteration | ConjugateGradient) else "time of the flow"


def _alpha(subject: Subject) -> str:
    penalty = subject.assessment.penalty
    return (
        ""
        if penalty is None
        else f"alpha {number(penalty * subject.spectrum.n_samples)} in scikit-learn"
    )


def _links(sections: Iterable[Section]) -> str:
    return "".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections)


def _section(section: Section) -> str:
    parts = [f"<p>{escape(section.text)}</p>"]
    charts = "".join(map(_figure, section.charts))
    parts.append(f'<div class="charts">{charts}</div>' if len(section.charts) > 1 else charts)
    parts += [_table(table) for table in section.tables]
    if section.notes:
        notes = "".join(f"<li>{escape(note)}</li>" for note in section.notes)
        parts.append(f'<ul class="notes">{notes}</ul>')
    if section.code:
        parts.append(
            f'<div class="code"><button type="button" class="copy">Copy</button>'
            f'<pre tabindex="0"><code>{escape(section.code)}</code></pre></div>'
        )
    body = "\n".join(parts)
    return f'<section id="{section.key}"><h2>{escape(section.title)}</h2>\n{body}</section>\n'


def _figure(chart: Chart) -> str:
    return (
        f'<figure data-chart="{chart.key}"><figcaption><span>{escape(chart.title)}</span></figcaption>'
        f'<div class="plot"></div>{_table(chart.table())}</figure>'
    )


def _table(table: TableOf) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    rows = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in table.rows
    )
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    wide = f'<div class="wide" tabindex="0" role="region" aria-label="{escape(table.title)}">{body}</div>'
    if table.folded:
        return f"<details><summary>{escape(table.title)}</summary>{wide}</details>"
    return f"<h3>{escape(table.title)}</h3>{wide}"
