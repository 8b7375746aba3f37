"""The default fit against RidgeCV on real data: ``python -m benchmarks.real_data [--quick]``.

Every cell is printed as it is measured: the two are timed in turn, and their answers are compared.
A full run writes benchmarks/results/real_data.json and docs/benchmarks.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
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
from sklearn.preprocessing import SplineTransformer, StandardScaler

import stoptime as st
from benchmarks import harness
from benchmarks.comparison import Case, Measures, Work, best, command, measure
from benchmarks.problems import CUBIC, QUADRATIC, SCALED

PAGE = "benchmarks.md"
FILE = "real_data.json"
PEER = "RidgeCV"
TABLES = {
    "data": "Bundled data",
    "shapes": "Rows × columns, eigenvalues i⁻ᵃ",
    "other": "Square matrices and copied columns",
    "targets": "Many targets",
}
COLUMNS: dict[str, tuple[Any, ...]] = {
    "raw": (),
    "standardised": SCALED,
    "quadratic": QUADRATIC,
    "cubic": CUBIC,
    "splines": (*SCALED, SplineTransformer(), StandardScaler()),
}
SHAPES = (
    (2000, 200), (100, 10), (500, 50), (2000, 20), (5000, 100), (20000, 500), (200000, 10),
    (500, 2000), (500, 5000), (800, 6000),
)  # fmt: skip
NEW_ROWS = 1000  # generated rows that are only predicted


Rows = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]


def work(make: Callable[[], Rows]) -> Work:
    """Compare the fit with RidgeCV; a quarter is held out of another fit if no rows are new."""
    X, y, new = make()
    ours = st.StoppedRegressorCV()
    peer = RidgeCV(np.geomspace(1e-8, 1e4, 100))

    def score(model: Any) -> float:
        if new is not None:
            return float(model.score(*new))
        kept, held, y_kept, y_held = train_test_split(X, y, test_size=0.25, random_state=0)
        return float(clone(model).fit(kept, y_kept).score(held, y_held))

    def measures(*_: object) -> Measures:
        error = float(np.mean(ours.choice_.error) / -peer.best_score_)
        sizes = zip(("rows", "columns", "targets"), [*X.shape, *y.shape[1:]], strict=False)
        return (
            measure("left-out error / RidgeCV", error),
            measure("R²", score(ours)),
            measure("R² of RidgeCV", score(peer)),
            *(measure(name, size) for name, size in sizes),
        )

    return Work(partial(ours.fit, X, y), partial(peer.fit, X, y), measures=measures)


def bundled(name: str, columns: str) -> Rows:
    """Return a data set of scikit-learn with its columns as they are, or expanded."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = make_pipeline(*COLUMNS[columns], "passthrough").fit_transform(X)
    return np.ascontiguousarray(X, dtype=float), np.asarray(y, dtype=float), None


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
    return X[:-NEW_ROWS].copy(), y[:-NEW_ROWS], (X[-NEW_ROWS:].copy(), y[-NEW_ROWS:])


def cases() -> Iterator[Case]:
    """Yield all cases; the end of a name is a column of the figure."""
    for name in ("diabetes", "wine", "breast_cancer", "digits", "iris", "linnerud"):
        for columns in COLUMNS:
            if (name, columns) != ("digits", "cubic"):  # 47 904 columns
                shown = name.replace("_", " ")
                yield case("data", f"{shown}, {columns}", partial(bundled, name, columns))
    for shape in SHAPES:
        for decay in range(7) if shape == SHAPES[0] else (0, 2, 4):
            make = partial(generated, *shape, decay)
            yield case("shapes", f"{harness.label(*shape)}, a = {decay}", make)
    for n in (200, 500, 1000):
        yield case("other", f"Gaussian, {harness.label(n, n)}", partial(generated, n, n))
    for name, distance in (("equal copies", 0.0), ("near copies", 1e-6)):
        yield case("other", f"Gaussian, {name}", partial(copied, distance))
    for shape in ((2000, 20), (2000, 200)):
        yield case("targets", f"{harness.label(*shape)}, 1 target", partial(generated, *shape, 2))
        for count in (10, 100, 1000):
            make = partial(generated, *shape, 2, count)
            yield case("targets", f"{harness.label(*shape)}, {count} targets", make)


def case(group: str, name: str, make: Callable[[], Rows]) -> Case:
    """Return the comparison on some rows."""
    quick = "diabetes" in name or name.endswith("a = 2")
    return Case(group, name, PEER, partial(work, make), "", None, rounds=15, quick=quick)


def speed(outcome: dict[str, Any]) -> float:
    """Return how many times as fast as RidgeCV the fit is; NaN if it failed."""
    return best(outcome)[1] / best(outcome)[0] if outcome["ours"] else float("nan")


def heat_map(outcomes: Sequence[dict[str, Any]], shade: str) -> Figure:
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
        panel(ax, [one for one in outcomes if one["group"] == name], scale)
        ax.set_title(TABLES[name], fontsize=10)
    axes["targets"].set_xlabel("targets")
    bar = figure.colorbar(scale, ax=list(axes.values()), aspect=50, extend="both")
    marks = [0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100]
    bar.set_ticks(marks, labels=[f"{mark:g}" for mark in marks])
    bar.ax.minorticks_off()
    bar.set_label(f"times as fast as {PEER} (logarithmic); framed below 1")
    bar.outline.set_edgecolor(harness.INKS[shade])
    return figure


def panel(ax: Any, outcomes: Sequence[dict[str, Any]], scale: ScalarMappable) -> None:
    """Draw one table of cells, each with its number."""
    cells = {tuple(one["name"].split(", ")): speed(one) for one in outcomes}
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    if all(column.startswith("a = ") for column in columns):
        columns.sort()  # not every shape has every decay
    for (row, column), value in cells.items():
        x, y = columns.index(column), rows.index(row)
        fill = scale.to_rgba(value)
        frame = {"edgecolor": "#7f1d1d", "linewidth": 1.6} if value < 1 else {"linewidth": 0}
        # a little smaller than a cell, so that frames do not touch
        ax.add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, facecolor=fill, **frame))
        dark = np.dot(fill[:3], [0.299, 0.587, 0.114]) < 0.5
        colour = "white" if dark else "black"
        ax.text(x, y, two_digits(value), ha="center", va="center", fontsize=9, color=colour)
    ax.set_xticks(
        range(len(columns)),
        [re.sub("(?<=×) | (?=copies)", "\n", c.split(" target")[0]) for c in columns],
    )
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


def in_short(outcomes: list[dict[str, Any]]) -> str:
    """Return what a reader wants to know, in three sentences."""
    ordered = sorted((one for one in outcomes if one["measures"]), key=speed)
    speeds = [speed(one) for one in ordered]
    fast = f"{np.mean(np.array(speeds) >= 1):.0%} of {len(speeds)} problems"
    errors = max(one["measures"][1]["value"] for one in ordered)
    return (
        "The default fit compares three methods by exact leave-one-out at every stop, and "
        f"`{PEER}` compares 100 penalties of ridge: the default fit is at least as fast on {fast} "
        f"(blue in the figure), and {two_digits(float(np.median(speeds)))} times as fast in the "
        f'median. It is fastest on "{ordered[-1]["name"]}" ({two_digits(speeds[-1])} times as '
        f'fast) and slowest on "{ordered[0]["name"]}" ({two_digits(speeds[0])} times). Its '
        f"left-out error is at most {errors:.3f} times that of `{PEER}`."
    )


def row(outcome: dict[str, Any]) -> list[str]:
    """Return the cells of the table for one problem."""
    if outcome.get("error"):
        return [outcome["name"], "", f"**failed**: {outcome['error']}", *[""] * 5]
    error, *scores, n, p = (one["value"] for one in outcome["measures"][1:6])
    size = harness.label(n, p)
    size += "".join(f" × {one['value']} targets" for one in outcome["measures"][6:])
    times = map(harness.seconds, best(outcome))
    ratio = harness.short(speed(outcome))
    shown = ratio if speed(outcome) >= 1 else f"**{ratio}**, loses"
    return [outcome["name"], size, *times, shown, f"{error:.4f}", *(f"{r2:.3f}" for r2 in scores)]


def parts() -> dict[str, str]:
    """Return what the page shows: all cases, the slowest relative to RidgeCV first."""
    run = harness.load(FILE)
    head = ["problem", "size", "stoptime", PEER, "times as fast"]
    head += ["left-out error / RidgeCV", "R²", "R² of RidgeCV"]
    # failures come first of all, because NaN would be sorted to the end
    ordered = sorted(run["outcomes"], key=lambda one: (bool(one["measures"]), speed(one)))
    return {
        "in-short": in_short(run["outcomes"]),
        "machine-real-data": harness.machine_line(run),
        "real-data": harness.table(head, map(row, ordered)),
    }


if __name__ == "__main__":
    figures = {"real-data": lambda page: heat_map(harness.load(FILE)["outcomes"], page)}
    command(__doc__, FILE, cases, {PAGE: parts}, figures)
