"""Figures of the benchmark page, each for light and dark pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.harness import verdict
from stoptime.support.files import atomic

# Okabe and Ito's palette, which colour-blind readers can distinguish; shapes repeat the colours.
VERDICTS = {
    "holds": ("#0072B2", "o"),
    "below its goal": ("#E69F00", "^"),
    "LOSES": ("#D55E00", "X"),
    "no goal": ("#999999", "D"),
}
PAGES = {"light": "#222222", "dark": "#dddddd"}
BRIGHTER = {"#0072B2": "#56B4E9"}  # blue on black


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


def write(draw: Callable[[str], Figure], folder: Path, name: str) -> None:
    """Write a figure for light and dark pages; equal numbers give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for page, ink in PAGES.items():
        coloured = dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink
        )
        with mpl.rc_context({**coloured, "svg.hashsalt": name, "font.size": 10}):
            figure = draw(page)
            with atomic(folder / f"{name}-{page}.svg") as path:
                figure.savefig(path, transparent=True, metadata={"Date": None})
