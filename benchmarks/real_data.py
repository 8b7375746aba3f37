"""The default fit against RidgeCV on real data: ``python -m benchmarks.real_data [--quick]``.

Every cell is printed as it is measured: the two are timed in turn, and their answers are compared.
A full run writes benchmarks/results/real_data.json and docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sklearn import datasets
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler
from threadpoolctl import threadpool_limits

import stoptime as st
from benchmarks import harness

PAGE = "benchmarks.md"
FILE = "real_data.json"
PEER = "RidgeCV"
OURS = "default"
TABLES = {
    "data": "Bundled data",
    "shapes": "Rows × columns, eigenvalues i⁻ᵃ",
    "other": "Square matrices and copied columns",
    "targets": "Many targets",
}
COLUMNS: dict[str, tuple[Any, ...]] = {
    "raw": (),
    "standardised": (StandardScaler(),),
    "quadratic": (StandardScaler(), PolynomialFeatures(2, include_bias=False), StandardScaler()),
    "cubic": (StandardScaler(), PolynomialFeatures(3, include_bias=False), StandardScaler()),
    "splines": (StandardScaler(), SplineTransformer(), StandardScaler()),
}
SHAPES = (
    (2000, 200), (100, 10), (500, 50), (2000, 20), (5000, 100), (20000, 500), (200000, 10),
    (500, 2000), (500, 5000), (800, 6000),
)  # fmt: skip
NEW_ROWS = 1000  # generated rows that are only predicted


@dataclass(frozen=True)
class Rows:
    """Rows to fit. ``new`` holds further rows, or None if some of these have to be held out."""

    X: np.ndarray
    y: np.ndarray
    new: tuple[np.ndarray, np.ndarray] | None = None

    def score(self, model: Any) -> float:
        """Return R² on new rows, or on a quarter of these that is held out of another fit."""
        if self.new is not None:
            return float(model.score(*self.new))
        X, X_new, y, y_new = train_test_split(self.X, self.y, test_size=0.25, random_state=0)
        return float(clone(model).fit(X, y).score(X_new, y_new))


@dataclass(frozen=True)
class Place:
    """The place of a cell: one of the tables, with its row and column; and its data."""

    table: str
    row: str
    column: str
    make: Callable[[], Rows]


def bundled(name: str, columns: str) -> Rows:
    """Return a data set of scikit-learn with its columns as they are, or expanded."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = make_pipeline(*COLUMNS[columns], "passthrough").fit_transform(X)
    return Rows(np.ascontiguousarray(X, dtype=float), np.asarray(y, dtype=float))


def generated(n: int, p: int, decay: float = 0, targets: int | None = None) -> Rows:
    """Return Gaussian rows whose covariance has the eigenvalues i^-decay."""
    rng = np.random.default_rng(0)
    # means away from zero have to be removed, as in real data
    X = (rng.standard_normal((n + NEW_ROWS, p)) + 1) * np.arange(1, p + 1.0) ** (-decay / 2)
    return with_response(X, rng, targets)


def copied(distance: float) -> Rows:
    """Return 1000 x 200 columns of which half are copies, up to a relative distance."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000 + NEW_ROWS, 100)) + 1
    copy = X + distance * rng.standard_normal(X.shape) if distance else X
    return with_response(np.hstack([X, copy]), rng)


def with_response(X: np.ndarray, rng: np.random.Generator, targets: int | None = None) -> Rows:
    """Return rows with a linear signal and half as much noise; the last rows are new."""
    p = X.shape[1]
    signal = X @ rng.standard_normal(p if targets is None else (p, targets))
    y = signal + 0.5 * signal.std(axis=0) * rng.standard_normal(signal.shape)
    return Rows(X[:-NEW_ROWS].copy(), y[:-NEW_ROWS], (X[-NEW_ROWS:].copy(), y[-NEW_ROWS:]))


def places() -> Iterator[Place]:
    """Yield all cells."""
    for name in ("diabetes", "wine", "breast_cancer", "digits", "iris", "linnerud"):
        for columns in COLUMNS:
            if (name, columns) != ("digits", "cubic"):  # 47 904 columns
                shown = name.replace("_", " ")
                yield Place("data", shown, columns, partial(bundled, name, columns))
    for shape in SHAPES:
        for decay in range(7) if shape == SHAPES[0] else (0, 2, 4):
            make = partial(generated, *shape, decay)
            yield Place("shapes", harness.label(*shape), f"a = {decay}", make)
    for n in (200, 500, 1000):
        yield Place("other", "Gaussian", harness.label(n, n), partial(generated, n, n))
    for name, distance in (("equal copies", 0.0), ("near copies", 1e-6)):
        yield Place("other", "Gaussian", name, partial(copied, distance))
    for shape in ((2000, 20), (2000, 200)):
        for count in (1, 10, 100, 1000):
            make = partial(generated, *shape, 2, count if count > 1 else None)
            yield Place("targets", harness.label(*shape), str(count), make)


def cell_of(place: Place, longest: float = 5.0) -> dict[str, Any]:
    """Time one cell, and return it with left-out errors and R²; an error is part of the result."""
    rows = place.make()
    shape = [*rows.X.shape, *rows.y.shape[1:]]
    cell = {"table": place.table, "row": place.row, "column": place.column, "shape": shape}
    models = {OURS: st.StoppedRegressorCV(), PEER: RidgeCV(np.geomspace(1e-8, 1e4, 100))}
    fits = {name: partial(model.fit, rows.X, rows.y) for name, model in models.items()}
    # a best stop at the end of the grid, or lost digits, are part of what is measured
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            times, _ = harness.in_turns(fits, 15, longest)
            errors = {
                OURS: float(np.mean(models[OURS].choice_.error)),
                PEER: float(-models[PEER].best_score_),
            }
            scores = {name: rows.score(model) for name, model in models.items()}
        except Exception as error:  # the other cells are still measured
            return cell | {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
    return cell | {"seconds": times, "errors": errors, "scores": scores, "failed": ""}


def times_as_fast(cell: dict[str, Any]) -> float:
    """Return the best time of RidgeCV divided by ours; NaN if not measured."""
    if cell["failed"]:
        return float("nan")
    return min(cell["seconds"][PEER]) / min(cell["seconds"][OURS])


def times_the_error(cell: dict[str, Any]) -> float:
    """Return our left-out error divided by that of RidgeCV."""
    return float("nan") if cell["failed"] else cell["errors"][OURS] / cell["errors"][PEER]


def described(cell: dict[str, Any]) -> str:
    """Return the name of a cell in tables and on the terminal."""
    end = "" if cell["table"] != "targets" else " target" if cell["column"] == "1" else " targets"
    return f"{cell['row']}, {cell['column']}{end}"


def heat_map(cells: Sequence[dict[str, Any]], shade: str) -> Figure:
    """Draw the speed relative to RidgeCV in every cell: blues above 1, oranges below."""
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    # the shapes take the whole height on the right, and the other tables share the left side
    axes = figure.subplot_mosaic(
        [["data", "shapes"], ["other", "shapes"], ["targets", "shapes"]],
        height_ratios=[6, 1, 2],
        width_ratios=[6, 7],
    )
    slower = colormaps["Oranges"](np.linspace(0.95, 0.35, 128))
    faster = colormaps["Blues"](np.linspace(0.15, 0.9, 128))
    scale = ScalarMappable(LogNorm(0.01, 100, clip=True), ListedColormap([*slower, *faster]))
    for name, ax in axes.items():
        panel(ax, [cell for cell in cells if cell["table"] == name], scale)
        ax.set_title(TABLES[name], fontsize=10)
    axes["targets"].set_xlabel("targets")
    bar = figure.colorbar(scale, ax=list(axes.values()), aspect=50, extend="both")
    marks = [0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100]
    bar.set_ticks(marks, labels=[f"{mark:g}" for mark in marks])
    bar.ax.minorticks_off()
    bar.set_label(f"times as fast as {PEER} (logarithmic); framed below 1")
    bar.outline.set_edgecolor(harness.INKS[shade])
    return figure


def panel(ax: Any, cells: Sequence[dict[str, Any]], scale: ScalarMappable) -> None:
    """Draw one table of cells, each with its number."""
    rows = list(dict.fromkeys(cell["row"] for cell in cells))
    columns = list(dict.fromkeys(cell["column"] for cell in cells))
    if all(column.startswith("a = ") for column in columns):
        columns.sort()  # not every shape has every decay
    for cell in cells:
        x, y = columns.index(cell["column"]), rows.index(cell["row"])
        value = times_as_fast(cell)
        fill = scale.to_rgba(value)
        frame = {"edgecolor": "#7f1d1d", "linewidth": 1.6} if value < 1 else {"linewidth": 0}
        # a little smaller than a cell, so that frames do not touch
        ax.add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, facecolor=fill, **frame))
        dark = np.dot(fill[:3], [0.299, 0.587, 0.114]) < 0.5
        colour = "white" if dark else "black"
        ax.text(x, y, two_digits(value), ha="center", va="center", fontsize=9, color=colour)
    ax.set_xticks(range(len(columns)), [re.sub("(?<=×) | (?=copies)", "\n", c) for c in columns])
    ax.set_yticks(range(len(rows)), rows)
    ax.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    ax.tick_params(length=0, labelsize=8.5)
    ax.spines[:].set_visible(False)
    ax.set_facecolor("none")


def two_digits(value: float) -> str:
    """Return a ratio for a small cell."""
    if value >= 1:
        return f"{value:.1f}" if round(value, 1) < 10 else f"{value:.0f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def in_short(run: dict[str, Any]) -> str:
    """Return what a reader wants to know, in three sentences."""
    ordered = sorted((cell for cell in run["cells"] if not cell["failed"]), key=times_as_fast)
    speeds = [times_as_fast(cell) for cell in ordered]
    fast = f"{np.mean(np.array(speeds) >= 1):.0%} of {len(speeds)} problems"
    errors = max(map(times_the_error, ordered))
    return (
        "The default fit compares three methods by exact leave-one-out at every stop, and "
        f"`{PEER}` compares 100 penalties of ridge: the default fit is at least as fast on {fast} "
        f"(blue in the figure), and {two_digits(float(np.median(speeds)))} times as fast in the "
        f'median. It is fastest on "{described(ordered[-1])}" ({two_digits(speeds[-1])} times as '
        f'fast) and slowest on "{described(ordered[0])}" ({two_digits(speeds[0])} times). Its '
        f"left-out error is at most {errors:.3f} times that of `{PEER}`."
    )


def row(cell: dict[str, Any]) -> list[str]:
    """Return the cells of the table for one problem."""
    n, p, *targets = cell["shape"]
    size = harness.label(n, p) + "".join(f" × {q} targets" for q in targets)
    if cell["failed"]:
        return [described(cell), size, f"**failed**: {cell['failed']}", *[""] * 5]
    times = [harness.seconds(min(cell["seconds"][name])) for name in (OURS, PEER)]
    speed = times_as_fast(cell)
    ratio = harness.short(speed) if speed >= 1 else f"**{harness.short(speed)}**, loses"
    scores = [f"{cell['scores'][name]:.3f}" for name in (OURS, PEER)]
    return [described(cell), size, *times, ratio, f"{times_the_error(cell):.4f}", *scores]


def parts() -> dict[str, str]:
    """Return what the page shows: all cells, the slowest relative to RidgeCV first."""
    run = harness.load(FILE)
    head = ["problem", "size", "stoptime", PEER, "times as fast"]
    head += ["left-out error / RidgeCV", "R²", "R² of RidgeCV"]
    # failures come first of all, because NaN would be sorted to the end
    ordered = sorted(run["cells"], key=lambda one: (not one["failed"], times_as_fast(one)))
    return {
        "in-short": in_short(run),
        "machine-real-data": harness.machine_line(run),
        "real-data": harness.table(head, map(row, ordered)),
    }


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Measure all cells, or every eighth."""
    run = harness.run_of(given) | {"cells": []}
    with threadpool_limits(given.threads):
        for place in list(places())[:: 8 if given.quick else 1]:
            cell = cell_of(place, 0.5 if given.quick else 5.0)
            run["cells"].append(cell)
            print(*row(cell), sep="  ", flush=True)
    print(in_short(run))
    return run


if __name__ == "__main__":
    figures = {"real-data": lambda page: heat_map(harness.load(FILE)["cells"], page)}
    options = {"quick": False, "threads": harness.CORES}
    harness.command(__doc__, FILE, measured, {PAGE: parts}, figures, **options)
