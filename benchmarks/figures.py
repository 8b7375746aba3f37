"""Figures of the benchmark page, each for light and dark pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.results import Growth, Outcome
from stoptime.support.files import atomic

# Okabe and Ito's palette, which colour-blind readers can distinguish; shapes repeat the colours.
VERDICTS = {
    "holds": ("#0072B2", "o"),
    "below its goal": ("#E69F00", "^"),
    "LOSES": ("#D55E00", "X"),
    "no goal": ("#999999", "D"),
}
LINES = {"stoptime": ("#D55E00", "o", "-"), "RidgeCV": ("#0072B2", "s", "--")}
PAGES = {"light": "#222222", "dark": "#dddddd"}
BRIGHTER = {"#0072B2": "#56B4E9"}  # blue on black
NAMES = {"n": "rows n", "p": "columns p", "stops": "stops", "targets": "targets"}


def speed(outcome: Outcome) -> float:
    """Return the best time of the peer divided by ours."""
    return min(outcome.theirs) / outcome.share / min(outcome.ours)


def ratios(outcomes: Sequence[Outcome], page: str) -> Figure:
    """Draw the speed of every timed case relative to its peer, with its goal."""
    timed = [outcome for outcome in outcomes if outcome.theirs]
    figure = Figure(figsize=(9, 1.2 + 0.27 * len(timed)), layout="constrained")
    ax = figure.add_subplot()
    for height, outcome in enumerate(reversed(timed)):
        colour, marker = VERDICTS[outcome.verdict]
        ax.plot(speed(outcome), height, marker, color=on(page, colour), markersize=7, zorder=3)
        if (goal := goal_of(outcome)) is not None:
            ax.plot(goal, height, "|", color=PAGES[page], markersize=11, zorder=2)
    ax.axvline(1, color=PAGES[page], linewidth=0.8)
    ax.set(
        xscale="log",
        xlabel="times as fast as the peer (logarithmic); a vertical line marks the goal",
    )
    ax.set_yticks(range(len(timed)), [f"{o.name} — {o.peer}" for o in reversed(timed)], fontsize=8)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid(axis="x", alpha=0.25)
    for verdict, (colour, marker) in VERDICTS.items():
        ax.plot([], [], marker, color=on(page, colour), label=verdict.lower())
    figure.legend(loc="outside upper right", ncols=len(VERDICTS), frameon=False)
    return figure


def goal_of(outcome: Outcome) -> float | None:
    """Return the goal on the scale of the figure."""
    first = outcome.measures[0]
    if first.goal is None:
        return None
    return first.goal if first.sense == "at least" else 1 / first.goal


def growth(growths: Sequence[Growth], page: str) -> Figure:
    """Draw the seconds against each size, with the fitted exponents."""
    variables = list(dict.fromkeys(one.variable for one in growths))
    rows = -(-len(variables) // 2)
    figure = Figure(figsize=(9, 3.6 * rows), layout="constrained")
    axes = figure.subplots(rows, 2, squeeze=False).ravel()
    for ax, variable in zip(axes, variables, strict=False):
        panel(ax, [one for one in growths if one.variable == variable], page)
    for ax in axes[len(variables) :]:
        ax.set_axis_off()
    return figure


def panel(ax: Axes, growths: Sequence[Growth], page: str) -> Axes:
    """Draw the growth with one size."""
    for one in growths:
        colour, marker, style = LINES.get(one.who, ("#009E73", "D", ":"))
        name = f"{one.who}: exponent {one.exponent:.2f}, larger half {one.last_exponent:.2f}"
        ax.plot(
            one.sizes,
            one.seconds,
            style,
            marker=marker,
            color=on(page, colour),
            label=name,
            markersize=5,
        )
    variable, sizes = growths[0].variable, max((one.sizes for one in growths), key=len)
    ax.set(xscale="log", yscale="log", ylabel="seconds")
    ax.set_xlabel(f"{NAMES.get(variable, variable)}  ({growths[0].fixed})")
    ax.set_xticks(sizes, [str(size) for size in sizes], fontsize=8)
    ax.minorticks_off()
    ax.grid(alpha=0.25)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8, frameon=False)
    return ax


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
