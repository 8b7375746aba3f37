"""Write the benchmark page from the JSON of a full run: ``python -m benchmarks.page``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import cases, figures
from benchmarks.cases import scaling
from benchmarks.real_data import page as real_data
from benchmarks.real_data.cells import CellRun
from benchmarks.real_data.cells import load as load_cells
from benchmarks.results import Growth, Outcome, Run, load, seconds, short
from stoptime.support.files import atomic

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
FIGURES = "_static/benchmarks"
NO_BREAK = "\u00a0"
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
QUICK_WARNING = """\
```{warning}
These numbers are from a quick run, with small sizes and few rounds.
```
"""
GPU = """\
## On a GPU

`python -m benchmarks.gpu` measures these cases: float64 with stops given, and default fits of
float32 data. The bare limit is `X.T @ X`, `eigh` and the product of the rows with the
eigenvectors, in float64 on the same device.
"""


def machine_line(run: Run | CellRun) -> str:
    """Return the recorded environment of a run as text."""
    where = run.environment
    parts = [where["processor"], where.get("system")]
    if where.get("cores"):
        parts.append(f"{where['cores']} cores, {where['threads']} threads")
    if where.get("memory_gib"):
        parts.append(f"{where['memory_gib']:g} GiB of memory")
    if where.get("load_at_start") is not None:
        parts.append(f"load at the start {where['load_at_start']:g}")
    versions = {"Python": where.get("python"), **where["versions"]}
    software = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    sentences = ["; ".join(filter(None, parts)), software, "; ".join(where.get("pools", ()))]
    made = f"{run.mode.capitalize()} run" + (f" of {run.date}" if run.date else "")
    return " ".join(f"{sentence}." for sentence in (*sentences, made) if sentence)


def row(outcome: Outcome) -> str:
    """Return one row of a table."""
    if outcome.missing or outcome.error:
        said = f"not run: {outcome.missing}" if outcome.missing else f"**failed**: {outcome.error}"
        return _cells(outcome.name, outcome.peer, "", "", "", "", said)
    first, *others = outcome.measures
    times = ("", "")
    if outcome.theirs:
        times = (seconds(min(outcome.ours)), seconds(min(outcome.theirs) / outcome.share))
    goal = "" if first.goal is None else f"{first.sense} {short(first.goal)}"
    good = outcome.verdict in {"holds", "no goal"}
    verdict = outcome.verdict if good else f"**{outcome.verdict.lower()}**"
    said = "; ".join([verdict, *map(str, others)])
    return _cells(
        outcome.name, outcome.peer, *times, f"**{short(first.value)}** {first.name}", goal, said
    )


def _cells(*cells: str) -> str:
    return "| " + " | ".join(unbroken(cell).replace("|", "\\|") for cell in cells) + " |"


def unbroken(text: str) -> str:
    """Return text with non-breaking spaces in sizes and times."""
    return re.sub(r"(?<=\d) (?=\d{3}\b|m?s\b)| (?=×)|(?<=×) ", NO_BREAK, text)


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the table of a group, followed by the reasons of losing cases."""
    head = [
        "| problem | against | stoptime | peer | ratio | goal | |",
        "|---|---|---|---|---|---|---|",
    ]
    reasons = [
        f"- {outcome.name}, against {outcome.peer}, {outcome.verdict.lower()}: {outcome.why}"
        for outcome in outcomes
        if outcome.verdict in {"LOSES", "below its goal"}
    ]
    return [*head, *map(row, outcomes), "", *reasons, *([""] if reasons else [])]


def image(name: str, alt: str) -> list[str]:
    """Return a figure in its light and its dark version."""
    return [
        text
        for page in figures.PAGES
        for text in (
            f"```{{image}} {FIGURES}/{name}-{page}.svg",
            f":class: only-{page}",
            f":alt: {alt}",
            "```",
        )
    ] + [""]


def exponents(growths: Sequence[Growth]) -> list[str]:
    """Return the table of exponents."""
    rows = [
        _cells(
            one.variable,
            one.fixed,
            one.who,
            f"{one.sizes[0]} to {one.sizes[-1]}",
            f"{one.exponent:.2f}",
            f"{one.last_exponent:.2f}",
        )
        for one in growths
    ]
    head = ["| grows | fixed | | from, to | exponent | larger half |", "|---|---|---|---|---|---|"]
    return [*head, *rows, ""]


def text(run: Run, gpu: Run | None = None, real: CellRun | None = None) -> str:
    """Return the whole page."""
    lines = [TITLE, "", *([QUICK_WARNING] if run.mode == "quick" else [])]
    if real is not None and real.estimators:
        lines += [real_data.in_short(real), ""]
        lines += image(real_data.figure_name(real.estimators[0]), real_data.ALT)
    lines += [INTRODUCTION, machine_line(run), ""]
    if any(outcome.theirs for outcome in run.outcomes):
        lines += image("ratios", "Speed of every case relative to its peer, with the goal of each.")
    lines += real_data_section(real)
    for group, module in cases.GROUPS.items():
        listed = [outcome for outcome in run.outcomes if outcome.group == group]
        lines += [f"## {module.TITLE}", "", module.ABOUT, "", *table(listed)] if listed else []
    if run.growths:
        lines += ["## Growth", "", scaling.ABOUT, ""]
        lines += image(
            "growth",
            "Seconds against rows, columns, stops and targets on logarithmic axes, with exponents.",
        )
        lines += exponents(run.growths)
    if gpu is not None:
        lines += [GPU, machine_line(gpu), "", *table(gpu.outcomes), *gpu.notes]
    return "\n".join(lines).rstrip("\n") + "\n"


def real_data_section(run: CellRun | None) -> list[str]:
    """Return the section of the default fit on real data, with non-breaking sizes and times."""
    if run is None:
        return real_data.section(None, "", [])
    shown = [image(real_data.figure_name(name), real_data.ALT) for name in run.estimators]
    lines = real_data.section(run, machine_line(run), shown)
    return [unbroken(line) if line.startswith("|") else line for line in lines]


def write(results: Path = RESULTS, docs: Path = ROOT / "docs") -> None:
    """Write the page and its figures from the saved results."""
    run = load(results / "cpu.json")
    gpu = load(results / "gpu.json") if (results / "gpu.json").exists() else None
    cells = results / "real_data.json"
    real = load_cells(cells) if cells.exists() else None
    if any(outcome.theirs for outcome in run.outcomes):
        figures.write(lambda page: figures.ratios(run.outcomes, page), docs / FIGURES, "ratios")
    if run.growths:
        figures.write(lambda page: figures.growth(run.growths, page), docs / FIGURES, "growth")
    for name in real.estimators if real else ():
        draw = partial(real_data.heat_map, real.cells, name)
        figures.write(draw, docs / FIGURES, real_data.figure_name(name))
    with atomic(docs / "benchmarks.md") as path:
        path.write_text(text(run, gpu, real), encoding="utf-8")


if __name__ == "__main__":
    write()
    print("wrote docs/benchmarks.md")
