"""Write the benchmark page from the stored results: ``python -m benchmarks.page``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import cases, figures, real_data
from benchmarks.harness import verdict
from benchmarks.results import load, machine_line, seconds, short
from stoptime.support.files import atomic

ROOT = Path(__file__).parent.parent
FIGURES = "_static/benchmarks"
TITLE = "# How fast is it?"
INTRODUCTION = """\
## How it is measured

Every result is a ratio. Both competitors are timed in turn in one run, with the same number of
threads, and the best of several rounds of each counts. Cases over a minute are timed once.
Times depend on the machine; ratios depend on it much less. If both competitors should give the
same answer, the answers are compared. *Times as fast* is the time of the peer divided by ours.
*Times as long*, for limits that cannot be beaten, is our time divided by that of the peer. A
case that loses is shown with the reason, which comes from a profile of our code at smaller
sizes; a reason that was not measured begins with *probably*.

`make bench` writes this page in about an hour; `make bench-quick` prints a smaller run. The
times of all rounds are in `benchmarks/results`.
"""
GPU = """\
## On a GPU

`python -m benchmarks.gpu` measures these cases: float64 with stops given, and default fits of
float32 data. The bare limit is `X.T @ X`, `eigh` and the product of the rows with the
eigenvectors, in float64 on the same device.
"""


def in_words(measure: dict[str, Any]) -> str:
    """Return a number with its name and goal."""
    goal = ""
    if measure["goal"] is not None:
        goal = f" (goal {measure['sense']} {short(measure['goal'])})"
    return f"{short(measure['value'])} {measure['name']}{goal}"


def row(outcome: dict[str, Any]) -> str:
    """Return one row of a table."""
    found = verdict(outcome)
    if found in {"not run", "FAILED"}:
        said = f"{found.lower()}: {outcome.get('missing') or outcome.get('error')}"
        return cells(outcome["name"], outcome["peer"], "", "", "", "", said)
    first, *others = outcome["measures"]
    times = ("", "")
    if outcome["theirs"]:
        theirs = min(outcome["theirs"]) / outcome["share"]
        times = (seconds(min(outcome["ours"])), seconds(theirs))
    goal = "" if first["goal"] is None else f"{first['sense']} {short(first['goal'])}"
    found = found if found in {"holds", "no goal"} else f"**{found.lower()}**"
    ratio = f"**{short(first['value'])}** {first['name']}"
    said = "; ".join([found, *map(in_words, others)])
    return cells(outcome["name"], outcome["peer"], *times, ratio, goal, said)


def cells(*texts: str) -> str:
    """Return a row of Markdown."""
    return "| " + " | ".join(unbroken(text).replace("|", "\\|") for text in texts) + " |"


def unbroken(text: str) -> str:
    """Return text with non-breaking spaces in sizes and times."""
    return re.sub(r"(?<=\d) (?=\d{3}\b|m?s\b)| (?=×)|(?<=×) ", "\u00a0", text)


def table(outcomes: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of a group, followed by the reasons of losing cases."""
    head = ["| problem | against | stoptime | peer | ratio | goal | |", "|---" * 7 + "|"]
    reasons = [
        f"- {one['name']}, against {one['peer']}, {verdict(one).lower()}: {one['why']}"
        for one in outcomes
        if verdict(one) in {"LOSES", "below its goal"}
    ]
    return [*head, *map(row, outcomes), "", *reasons, *([""] if reasons else [])]


def image(name: str, alt: str) -> list[str]:
    """Return a figure in its light and its dark version."""
    lines = []
    for page in figures.PAGES:
        lines += [f"```{{image}} {FIGURES}/{name}-{page}.svg", f":class: only-{page}"]
        lines += [f":alt: {alt}", "```"]
    return [*lines, ""]


def text() -> str:
    """Return the whole page."""
    run, gpu, real = (load(f"{name}.json") for name in ("cpu", "gpu", "real_data"))
    lines = [TITLE, "", real_data.in_short(real), "", *image("real-data", real_data.ALT)]
    lines += [INTRODUCTION, machine_line(run), ""]
    lines += image("ratios", "Speed of every case relative to its peer, with the goal of each.")
    lines += real_data.section(real)
    for group, module in cases.GROUPS.items():
        listed = [outcome for outcome in run["outcomes"] if outcome["group"] == group]
        lines += [f"## {module.TITLE}", "", module.ABOUT, "", *table(listed)]
    lines += [GPU, machine_line(gpu), "", *table(gpu["outcomes"]), *gpu.get("notes", [])]
    return "\n".join(lines).rstrip("\n") + "\n"


def write() -> None:
    """Write the page and its figures from the stored results."""
    docs = ROOT / "docs"
    figures.write(partial(figures.ratios, load("cpu.json")["outcomes"]), docs / FIGURES, "ratios")
    draw = partial(real_data.heat_map, load("real_data.json")["cells"])
    figures.write(draw, docs / FIGURES, "real-data")
    with atomic(docs / "benchmarks.md") as path:
        path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    write()
