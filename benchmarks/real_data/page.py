"""The section of the benchmark page, and its heat maps."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from benchmarks.data import label
from benchmarks.figures import PAGES
from benchmarks.real_data.cells import DEFAULT, PEER, Cell, CellRun, goals
from benchmarks.results import seconds, short

TITLE = "The default fit on real data"
ABOUT = """\
`StoppedRegressorCV().fit(X, y)`, without stops, is compared with
`RidgeCV(alphas=np.geomspace(1e-8, 1e4, 100)).fit(X, y)`. Both choose by the left-out error of every
row. The same is done for `method="ridge"`. All of them are fitted in turn in one process, and the
best of up to 15 rounds of each counts; slow fits have fewer rounds, and fits over a minute one.

- Bundled data: the data sets of scikit-learn that need no download, with columns as they are,
  standardised, with all products of up to two or three columns, and as splines. Expanded columns
  are standardised, and expansions of over 6000 columns are left out. In data sets for
  classification, the number of the class is the response.
- Spectra: Gaussian rows whose covariance has the eigenvalues i⁻ᵃ. The larger a is, the worse the
  conditioning.
- Square Gaussian matrices, and 1000 × 200 columns of which half are copies of the others, equal or
  with a relative distance of 10⁻⁶.
- Many targets, which share a stop or a penalty, with a = 2.

The answers are compared by the left-out error at the chosen stop divided by that of RidgeCV at its
penalty, and by R² on new rows: 1000 generated ones, or a quarter of a data set, held out of another
fit. `python -m benchmarks.real_data` measures all cells again, `--only shapes` those of one table,
and `--quick` prints a part in under two minutes.
"""
NOT_MEASURED = "No results are stored. `python -m benchmarks.real_data` measures them."
ALT = "Speed relative to RidgeCV: blue cells are faster, orange and red cells are slower."
TABLES = {
    "data": "Bundled data",
    "shapes": "Rows × columns, eigenvalues i⁻ᵃ",
    "other": "Square matrices and copied columns",
    "targets": "Many targets",
}
FARTHEST = 100.0  # ratio, or one over it, at which the colours end
SHADES = 128
LOSING = "#7f1d1d"  # frame of a losing cell


def described(table: str, row: str, column: str) -> str:
    """Return the name of a cell in tables and on the terminal."""
    if table == "targets":
        return f"{row}, {column} target" + ("" if column == "1" else "s")
    return f"{row}, {column}"


def colours() -> ListedColormap:
    """Return blues for ratios above 1 and oranges below, with a clear step at 1."""
    slower = colormaps["Oranges"](np.linspace(0.95, 0.35, SHADES))
    faster = colormaps["Blues"](np.linspace(0.15, 0.9, SHADES))
    return ListedColormap(np.concatenate([slower, faster]))


def figure_name(estimator: str) -> str:
    """Return the name of the file of a heat map."""
    return f"real-data-{estimator}"


def heat_map(cells: Sequence[Cell], estimator: str, page: str) -> Figure:
    """Draw the speed of one estimator relative to RidgeCV in every cell."""
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    # the shapes take the whole height on the right, and the other tables share the left side
    axes = figure.subplot_mosaic(
        [["data", "shapes"], ["other", "shapes"], ["targets", "shapes"]],
        height_ratios=[6, 1, 2],
        width_ratios=[6, 7],
    )
    called = "" if estimator == DEFAULT else f'"{estimator}"'
    figure.suptitle(f"StoppedRegressorCV({called}) against {PEER}")
    norm = LogNorm(1 / FARTHEST, FARTHEST, clip=True)
    for table, ax in axes.items():
        listed = [cell for cell in cells if cell.table == table]
        if not listed:  # a part of the tables was measured
            ax.set_axis_off()
            continue
        panel(ax, listed, estimator, norm)
        ax.set_title(TABLES[table], fontsize=10)
    axes["targets"].set_xlabel("targets")
    bar = figure.colorbar(
        ScalarMappable(norm, colours()), ax=list(axes.values()), aspect=50, extend="both"
    )
    marks = [0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100]
    bar.set_ticks(marks, labels=[f"{mark:g}" for mark in marks])
    bar.ax.minorticks_off()
    bar.set_label(f"times as fast as {PEER} (logarithmic); framed below 1")
    bar.outline.set_edgecolor(PAGES[page])
    return figure


def panel(ax: Axes, cells: Sequence[Cell], estimator: str, norm: LogNorm) -> Axes:
    """Draw one table of cells, each with its number."""
    rows = list(dict.fromkeys(cell.row for cell in cells))
    columns = list(dict.fromkeys(cell.column for cell in cells))
    if all(column.startswith("a = ") for column in columns):
        columns.sort()  # not every shape has every decay
    palette = colours()
    for cell in cells:
        x, y = columns.index(cell.column), rows.index(cell.row)
        value = cell.times_as_fast(estimator)
        if not np.isfinite(value):
            ax.text(x, y, "failed" if cell.failed else "", ha="center", va="center", fontsize=8)
            continue
        fill = palette(norm(value))
        loses = value < 1
        frame = {"edgecolor": LOSING, "linewidth": 1.6} if loses else {"linewidth": 0}
        side = 0.94  # of a cell, so that frames do not touch
        ax.add_patch(Rectangle((x - side / 2, y - side / 2), side, side, facecolor=fill, **frame))
        dark = np.dot(fill[:3], [0.299, 0.587, 0.114]) < 0.5
        style = {"color": "white" if dark else "black", "weight": "bold" if loses else "normal"}
        ax.text(x, y, in_two_digits(value), ha="center", va="center", fontsize=9, **style)
    shown = [re.sub(r"(?<=×) | (?=copies)", "\n", column) for column in columns]
    ax.set_xticks(range(len(columns)), shown)
    ax.set_yticks(range(len(rows)), rows)
    ax.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    ax.tick_params(length=0, labelsize=8.5)
    ax.spines[:].set_visible(False)
    ax.set_facecolor("none")
    return ax


def in_two_digits(value: float) -> str:
    """Return a ratio for a small cell."""
    if value >= 1 and round(value, 1) < 10:
        return f"{value:.1f}"
    if value >= 1:
        return f"{value:.0f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def section(run: CellRun | None, machine: str, image: Sequence[Sequence[str]]) -> list[str]:
    """Return the section; ``image`` holds the lines of the figure of every estimator."""
    lines = [f"## {TITLE}", "", ABOUT]
    if run is None:
        return [*lines, NOT_MEASURED, ""]
    lines += [machine, "", *goal_table(run)]  # the first figure opens the page
    for name, shown in list(zip(run.estimators, image, strict=True))[1:]:
        lines += [f'With `method="{name}"`:', "", *shown]
    return [*lines, *cell_table(run)]


def in_short(run: CellRun) -> str:
    """Return what a reader wants to know, in three sentences."""
    measured = [cell for cell in run.cells if np.isfinite(cell.times_as_fast())]
    ordered = sorted(measured, key=Cell.times_as_fast)
    speeds = [cell.times_as_fast() for cell in ordered]
    fast = f"{np.mean(np.array(speeds) >= 1):.0%} of {len(speeds)} problems"
    middle = in_two_digits(float(np.median(speeds)))
    errors = max(cell.times_the_error() for cell in measured)
    slowest, fastest = (
        described(cell.table, cell.row, cell.column) for cell in (ordered[0], ordered[-1])
    )
    return (
        "The default fit compares three methods by exact leave-one-out, and takes about as long as "
        f"`{PEER}` takes for ridge alone with 100 penalties: it is at least as fast on {fast} "
        f"(blue in the figure), and {middle} times as fast in the median. It is fastest on "
        f'"{fastest}" ({in_two_digits(speeds[-1])} times as fast) and slowest on "{slowest}" '
        f"({in_two_digits(speeds[0])} times). Its left-out error is at most {errors:.3f} times "
        f"that of `{PEER}`."
    )


def goal_table(run: CellRun) -> list[str]:
    """Return the figures over all cells, with their goals."""
    head = "| over all cells | " + " | ".join(run.estimators) + " | goal |"
    lines = [head, "|---" * (len(run.estimators) + 2) + "|"]
    for same in zip(*(goals(run.cells, name) for name in run.estimators), strict=True):
        goal = "" if same[0].goal is None else f"{same[0].sense} {short(same[0].goal)}"
        shown = [
            short(one.value) if one.holds else f"**{short(one.value)}**, missed" for one in same
        ]
        lines.append(f"| {same[0].name} | " + " | ".join(shown) + f" | {goal} |")
    return [*lines, ""]


def cell_table(run: CellRun) -> list[str]:
    """Return all cells, the slowest relative to RidgeCV first."""
    others = [name for name in run.estimators if name != DEFAULT]
    titles = ["problem", "size", "stoptime", PEER, "times as fast"]
    titles += [f'times as fast, "{name}"' for name in others]
    titles += ["left-out error / RidgeCV", "R²", "R² of RidgeCV"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    # failures come first of all, because NaN would be sorted to the end
    ordered = sorted(run.cells, key=lambda cell: (not cell.failed, cell.times_as_fast()))
    return [
        "Cells that lose come first, in bold.",
        "",
        *lines,
        *(cell_row(cell, others, len(titles)) for cell in ordered),
        "",
        *refusals(run),
    ]


def refusals(run: CellRun) -> list[str]:
    """Return the reasons for which fits without the held-out rows were refused."""
    lines = [
        f"- {described(cell.table, cell.row, cell.column)}: without the held-out rows, the fit of "
        f'"{name}" was refused: {reason}'
        for cell in run.cells
        for name, reason in cell.refused.items()
    ]
    return [*lines, ""] if lines else []


def cell_row(cell: Cell, others: Sequence[str], width: int) -> str:
    """Return one row of the table of cells."""
    sizes = label(*cell.shape[:2]) + (f" × {cell.shape[2]} targets" if cell.shape[2:] else "")
    texts = [described(cell.table, cell.row, cell.column), sizes]
    if cell.failed:
        texts += [f"**failed**: {cell.failed}"] + [""] * (width - 3)
    else:
        texts += [seconds(min(cell.seconds[name])) for name in (DEFAULT, PEER)]
        texts += [ratio_text(cell.times_as_fast(name)) for name in (DEFAULT, *others)]
        texts += [f"{cell.times_the_error():.4f}"]
        texts += [f"{cell.scores[name]:.3f}" for name in (DEFAULT, PEER)]
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def ratio_text(value: float) -> str:
    """Return a ratio, in bold if it is a loss."""
    return f"**{short(value)}**, loses" if value < 1 else short(value)
