"""The report as one HTML page that loads nothing and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from importlib.resources import files

from stoptime.show.report.charts import Chart, Section, Subject, TableOf
from stoptime.support.version import __version__
from stoptime.support.wording import guarantee_in_words, method_in_words, number, with_error


def assembled(subject: Subject, sections: list[Section]) -> str:
    """Return the page; every text of the user's data is escaped.

    The content security policy names the page's own style and script by their hashes, so that
    nothing else runs even if an escape were missing.
    """
    style = _asset("page.css")
    script = "\n".join(map(_asset, ("axes.js", "chart.js", "page.js")))
    found = subject.assessment
    chosen = f"The method {method_in_words(found.method)} was stopped at {number(found.stop)}"
    content = [chart.content() for one in sections for chart in one.charts]
    charts = json.dumps(content, allow_nan=False, separators=(",", ":"))
    # No text in the charts may end the script element around them.
    for sign in "<>&":
        charts = charts.replace(sign, f"\\u{ord(sign):04x}")
    links = (f'<a href="#{one.key}">{escape(one.title)}</a>' for one in sections)
    parts = {
        "policy": f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        "title": escape(f"{subject.target}, fitted by {found.method.name}"),
        "style": style,
        "lead": escape(f"{subject.size} {chosen}: {subject.model.choice_.message}."),
        "links": "".join(links),
        "tiles": _tiles(subject),
        "sections": "".join(map(_section, sections)),
        "version": escape(__version__),
        "charts": charts,
        "script": script,
    }
    # One pass over the template leaves braces inside the parts alone.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return files("stoptime.show.report").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _tiles(subject: Subject) -> str:
    found = subject.assessment
    freedom = subject.X.shape[1] + bool(subject.model.fit_intercept)
    error = with_error(found.error, found.standard_error)
    alpha = "" if found.alpha is None else f"alpha {number(found.alpha)} in scikit-learn"
    tiles = [
        ("stop", number(found.stop), found.method.stop_meaning),
        ("equivalent ridge penalty", number(found.penalty), alpha),
        ("prediction error", error, "mean squared error ± one standard error"),
        ("variance explained", f"{found.explained:.1%}", "R² from the same error estimate"),
        ("degrees of freedom", f"{found.degrees_of_freedom:.1f}", f"of {freedom}"),
        ("guarantee", *guarantee_in_words(found)),
    ]
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(detail)}</small></dd></div>"
        for name, value, detail in tiles
    )


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
