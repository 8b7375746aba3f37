"""Write the benchmark page and its figures from stored results: ``python -m benchmarks.page``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.harness import load, seconds, short, verdict
from stoptime.support.files import atomic

ROOT = Path(__file__).parent.parent
FIGURES = "_static/benchmarks"
TITLE = "# How fast is it?"
# Okabe and Ito's palette, which colour-blind readers can distinguish; shapes repeat the colours.
VERDICTS = {
    "holds": ("#0072B2", "o"),
    "below its goal": ("#E69F00", "^"),
    "LOSES": ("#D55E00", "X"),
    "no goal": ("#999999", "D"),
}
PAGES = {"light": "#222222", "dark": "#dddddd"}
BRIGHTER = {"#0072B2": "#56B4E9"}  # blue on black
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
eigenvectors, in float64 on the same device. A block of rows, and what is computed for it, takes up
to 2 GB, so that the peak is many times the size of a small X.
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
    """Return a figure, to which the pages of the site add its dark version."""
    return [f"![{alt}]({FIGURES}/{name}-light.svg)", ""]


def machine_line(run: Mapping[str, Any]) -> str:
    """Return the recorded environment of a run as text."""
    where = run["environment"]
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
    made = f"{run['mode'].capitalize()} run" + (f" of {run['date']}" if run["date"] else "")
    return " ".join(f"{sentence}." for sentence in (*sentences, made) if sentence)


def ratios(outcomes: Sequence[dict[str, Any]], page: str) -> Figure:
    """Draw the speed of every timed case relative to its peer, with its goal."""
    timed = [outcome for outcome in reversed(outcomes) if outcome["theirs"]]
    figure = Figure(figsize=(9, 1.2 + 0.27 * len(timed)), layout="constrained")
    ax = figure.add_subplot()
    for height, outcome in enumerate(timed):
        speed = min(outcome["theirs"]) / outcome["share"] / min(outcome["ours"])
        colour, marker = VERDICTS[verdict(outcome)]
        ax.plot(speed, height, marker, color=on(page, colour), markersize=7, zorder=3)
        first = outcome["measures"][0]
        if first["goal"] is not None:
            goal = first["goal"] if first["sense"] == "at least" else 1 / first["goal"]
            ax.plot(goal, height, "|", color=PAGES[page], markersize=11, zorder=2)
    ax.axvline(1, color=PAGES[page], linewidth=0.8)
    ax.set(
        xscale="log",
        xlabel="times as fast as the peer (logarithmic); a vertical line marks the goal",
    )
    ax.set_yticks(range(len(timed)), [f"{o['name']} — {o['peer']}" for o in timed], fontsize=8)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(axis="x", alpha=0.25)
    for name, (colour, marker) in VERDICTS.items():
        ax.plot([], [], marker, color=on(page, colour), label=name.lower())
    figure.legend(loc="outside upper right", ncols=len(VERDICTS), frameon=False)
    return figure


def on(page: str, colour: str) -> str:
    """Return a colour that is easy to see on a light or dark page."""
    return BRIGHTER.get(colour, colour) if page == "dark" else colour


def draw(picture: Callable[[str], Figure], folder: Path, name: str) -> None:
    """Write a figure for light and dark pages; equal numbers give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for page, ink in PAGES.items():
        coloured = dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink
        )
        with mpl.rc_context({**coloured, "svg.hashsalt": name, "font.size": 10}):
            figure = picture(page)
            with atomic(folder / f"{name}-{page}.svg") as path:
                figure.savefig(path, transparent=True, metadata={"Date": None})


def text() -> str:
    """Return the whole page."""
    from benchmarks import cases, real_data  # noqa: PLC0415 - they import this module

    run, gpu, real = (load(f"{name}.json") for name in ("cpu", "gpu", "real_data"))
    lines = [TITLE, "", real_data.in_short(real), "", *image("real-data", real_data.ALT)]
    lines += [INTRODUCTION, machine_line(run), ""]
    lines += image("ratios", "Speed of every case relative to its peer, with the goal of each.")
    lines += real_data.section(real)
    for name, group in cases.GROUPS.items():
        listed = [outcome for outcome in run["outcomes"] if outcome["group"] == name]
        lines += [f"## {group.title}", "", group.about, "", *table(listed)]
    lines += [GPU, machine_line(gpu), "", *table(gpu["outcomes"]), *gpu.get("notes", [])]
    return "\n".join(lines).rstrip("\n") + "\n"


def write() -> None:
    """Write the page and its figures from the stored results."""
    from benchmarks import real_data  # noqa: PLC0415 - it imports this module

    docs = ROOT / "docs"
    draw(partial(ratios, load("cpu.json")["outcomes"]), docs / FIGURES, "ratios")
    picture = partial(real_data.heat_map, load("real_data.json")["cells"])
    draw(picture, docs / FIGURES, "real-data")
    with atomic(docs / "benchmarks.md") as path:
        path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    write()
