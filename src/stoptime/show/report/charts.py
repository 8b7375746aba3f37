"""The charts of a report, drawn by matplotlib as SVG in the colours of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from stoptime.show import plots
from stoptime.stopping.registry import get_rule
from stoptime.support.arrays import Array
from stoptime.support.checks import installed
from stoptime.support.wording import number
from stoptime.tables.assessment import TableFit

# mid-tones, which can be read on white and on black
BLUE, ORANGE = "#2f86d2", "#d9662b"
INK, FAINT = "#010203", "#040506"  # replaced by the colours of the page
SCATTER_POINTS = 2000  # of a scatter plot; more would only hide each other


def drawn(title: str, draw: Callable[[Any], None], height: float = 3.4) -> str:
    """Return a figure as an SVG element: ``draw`` gets its axes."""
    advice = 'A report needs matplotlib: pip install "stoptime[plot]".'
    matplotlib = installed("matplotlib", advice)
    figure = installed("matplotlib.figure", advice).Figure((5.2, height), layout="constrained")
    colours = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    style = {
        **dict.fromkeys(colours, INK),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 10.5,
        "grid.color": FAINT,
        "legend.frameon": False,
        "legend.fontsize": "small",
        "svg.fonttype": "none",  # text stays text, in the font of the page
        "svg.hashsalt": title,  # so that names in several figures of a page differ
    }
    with matplotlib.rc_context(style):
        axes = figure.add_subplot()
        axes.grid(linewidth=0.6)
        axes.set_axisbelow(True)
        draw(axes)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace(FAINT, "var(--grid)")
    for dark in (INK, "#000000", "#4c4c4c"):  # the last two are those of stoptime.plots
        svg = svg.replace(dark, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # without a size of its own it takes the width of the page
    head = f'<svg role="img" aria-label="{escape(title)}"'
    return head + re.sub(r'(?:width|height)="[\d.]+pt" ?', "", svg.removeprefix("<svg"), count=2)


def error_curve(fit: TableFit) -> Callable[[Any], None]:
    """Draw the estimated error along the path, with the chosen stop and the other methods."""
    model = fit.model
    rule = get_rule(model.rule, model.cv)

    def draw(axes: Any) -> None:
        plots.error_curve(model.choice_, model.method_, ax=axes)
        axes.set_title("")
        name = "mean squared error" if rule.measure == "error" else rule.measure
        axes.set_ylabel(name if model.scoring is None else "negative score")

    return draw


def observed(fit: TableFit, predicted: Array, *, residuals: bool) -> Callable[[Any], None]:
    """Draw the target, or the residual, of each left-out row against its prediction."""
    some = shown(len(predicted))
    x = predicted[some]
    y = np.asarray(fit.y, np.float64)[some]

    def draw(axes: Any) -> None:
        kept = {"s": 12, "alpha": 0.5, "color": BLUE, "linewidths": 0}
        axes.scatter(x, y - x if residuals else y, **kept)
        axes.set_xlabel(f"predicted {fit.target}, by the fit without the row")
        if residuals:
            axes.axhline(0, color=INK, lw=0.8)
            axes.set_ylabel("observed - predicted")
            return
        ends = [min(x.min(), y.min()), max(x.max(), y.max())]
        axes.plot(ends, ends, color=INK, lw=0.8)
        axes.set_ylabel(f"observed {fit.target}")

    return draw


def shown(n: int) -> Array:
    """Return the rows that a scatter plot shows, drawn at random if there are too many."""
    return np.sort(np.random.default_rng(0).permutation(n)[:SCATTER_POINTS])


def bars(values: dict[str, float], label: str) -> Callable[[Any], None]:
    """Draw horizontal bars, the first at the top."""
    names = [name if len(name) < 28 else f"{name[:26]}…" for name in values]

    def draw(axes: Any) -> None:
        axes.barh(range(len(names)), list(values.values()), color=BLUE, height=0.7)
        axes.set_yticks(range(len(names)), [name.replace("$", r"\$") for name in names])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(label)

    return draw


def calibration(fit: TableFit) -> Callable[[Any], None]:
    """Draw the share that came true against the predicted probability."""
    chances, shares, counts = np.array(fit.classes.calibration).T  # type: ignore[union-attr]

    def draw(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=INK, lw=0.8, label="perfect")
        axes.plot(chances, shares, color=BLUE, lw=1)
        axes.scatter(chances, shares, s=10 + 150 * counts / counts.max(), color=BLUE, alpha=0.7)
        axes.set(xlabel="predicted probability", ylabel="share that came true")

    return draw


def confusion(fit: TableFit) -> Callable[[Any], None]:
    """Draw how many rows of each class are predicted as each class."""
    found: Any = fit.classes
    counts = np.array(found.confusion)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    labels = [str(one)[:16] for one in found.labels]

    def draw(axes: Any) -> None:
        axes.grid(visible=False)
        q = len(labels)
        for i in range(q):
            for j in range(q):
                box = ((j - 0.48, i - 0.48), 0.96, 0.96)
                patch = installed("matplotlib.patches", "").Rectangle(*box, lw=0)
                patch.set(facecolor=BLUE if i == j else ORANGE, alpha=0.08 + 0.7 * shares[i, j])
                axes.add_patch(patch)
                if q <= 12:
                    axes.text(j, i, number(counts[i, j]), ha="center", va="center")
        axes.set(xlim=(-0.5, q - 0.5), ylim=(q - 0.5, -0.5))
        axes.set_xticks(range(q), labels, rotation=45 if q > 4 else 0)
        axes.set_yticks(range(q), labels)
        axes.set(xlabel="predicted class", ylabel="class")

    return draw


def intervals(ends: Array, guess: Array, truth: Array, name: str) -> Callable[[Any], None]:
    """Draw intervals of held-out rows, in the order of their predictions, and the true values."""
    some = np.sort(np.random.default_rng(0).permutation(len(guess))[:200])
    order = some[np.argsort(guess[some], kind="stable")]
    low, high = ends[order].T
    inside = (low <= truth[order]) & (truth[order] <= high)
    place = np.arange(len(order))

    def draw(axes: Any) -> None:
        axes.vlines(place, low, high, color=INK, alpha=0.25, lw=1.5)
        for name_, kept, colour in (("inside", inside, BLUE), ("outside", ~inside, ORANGE)):
            axes.plot(place[kept], truth[order][kept], ".", color=colour, label=name_)
        axes.set(xlabel="held-out rows, ordered by prediction", ylabel=name)
        axes.legend()

    return draw
