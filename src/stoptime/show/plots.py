"""One function for each figure.

Each draws on the matplotlib axes ``ax``, or on new axes if none are given, and returns them.
"""

from __future__ import annotations

from importlib import import_module
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from stoptime.support.arrays import Floats
from stoptime.support.checks import installed
from stoptime.support.wording import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from stoptime.methods.base import Method
    from stoptime.paths import Path
    from stoptime.stopping.rule import Choice
    from stoptime.theory.risk import RiskCurve

# Okabe and Ito's palette, which colour-blind readers can tell apart; each method keeps its colour.
STYLES = {
    "ridge": ("ridge", "#000000"),
    "gradient-flow": ("gradient flow", "#0072B2"),
    "accelerated-flow": ("accelerated flow", "#D55E00"),
    "heavy-ball-flow": ("heavy-ball flow", "#009E73"),
    "critical-flow": ("critically damped flow", "#CC79A7"),
    "iterated-ridge": ("iterated ridge", "#56B4E9"),
    "butterworth": ("Butterworth filter", "#E69F00"),
    "spectral-cutoff": ("principal components", "#E69F00"),
    "gradient-descent": ("gradient descent", "#0072B2"),
    "nesterov": ("Nesterov's method", "#D55E00"),
    "heavy-ball": ("heavy ball", "#009E73"),
    "nu-method": ("ν-method", "#CC79A7"),
    "high-resolution-flow": ("high-resolution flow", "#E69F00"),
    "conjugate-gradient": ("conjugate gradients", "#56B4E9"),
    "adam": ("Adam", "#D55E00"),
    "adamw": ("AdamW", "#E69F00"),
    "rmsprop": ("RMSProp", "#009E73"),
    "adagrad": ("AdaGrad", "#CC79A7"),
}
LABELS = {name: label for name, (label, _) in STYLES.items()}
COLORS = {name: color for name, (_, color) in STYLES.items()}


def new_figure(*grid: int, **options: Any) -> tuple[Figure, Any]:
    """Return a new figure and its axes, or say how to install matplotlib."""
    pyplot = installed("matplotlib.pyplot", 'Plots need matplotlib: pip install "stoptime[plot]".')
    return pyplot.subplots(*grid, layout="constrained", **options)  # type: ignore[no-any-return]


def _axes(ax: Axes | None) -> Axes:
    return new_figure()[1] if ax is None else ax


def _look(method: Method) -> tuple[str, str]:
    """Return the label and the colour of a method."""
    return STYLES.get(method.name, (method.name, "0.3"))


def _show_dip(ax: Axes, heights: Floats) -> None:
    # beside numbers of another order of magnitude, the dip would vanish on a linear axis
    if heights.size and heights.max() > 10 * heights.min() > 0:
        ax.set_yscale("log")
        # nor may a bias that falls for ever make it small
        ax.set_ylim(bottom=heights.min() / 3)


def coefficients(path: Path, ax: Axes | None = None) -> Axes:
    """Draw every coefficient of a path against the stop; of many targets, draw the first."""
    ax = _axes(ax)
    coef = path.coef if path.coef.ndim == 2 else path.coef[:, :, 0]
    drawn = np.isfinite(path.stops)
    ax.plot(path.stops[drawn], coef[drawn], linewidth=1.2)
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set(xscale="log", xlabel="stop", ylabel="coefficient")
    ax.set_title(f"{_look(path.method)[0]}: coefficients along the path")
    return ax


def error_curve(
    choice: Choice, method: Method, penalty: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw an estimated error curve, the chosen stop and one standard error around it.

    The curve of many targets is their mean. The legend shows the equivalent ridge penalty if given.
    Of several methods, the others are drawn at their best stops. Least squares, the stop ∞, has no
    place on a logarithmic axis and is drawn at its right end.
    """
    ax = _axes(ax)
    name, color = _look(method)
    curve = choice.curve.pooled()
    drawn = np.isfinite(curve.stops) & (curve.stops > 0)
    stops = curve.stops[drawn]
    errors = curve.errors[drawn]
    limits = stops.min(initial=1.0) / 2, 2 * stops.max(initial=1.0)
    ax.plot(stops, errors, color=color, linewidth=1.8, label=name)
    if curve.standard_errors is not None:
        spread = curve.standard_errors[drawn]
        ax.fill_between(stops, errors - spread, errors + spread, color=color, alpha=0.15, lw=0)
    for one in choice.candidates:
        if one.method.name != method.name:
            label, own = _look(one.method)
            place = np.clip(np.mean(one.stop), *limits)
            ax.plot(place, one.error, "s", color=own, markersize=5, label=label)
    if np.ndim(choice.stop) == 0:
        label = f"stop {number(float(choice.stop))}"
        if penalty is not None:
            label += f", equivalent to penalty {number(penalty)}"
        place = float(np.clip(choice.stop, *limits))
        ax.axvline(place, color="0.3", linestyle="--", linewidth=1)
        ax.plot(place, choice.error, "o", color=color, label=label)
        if choice.standard_error is not None:
            limit = float(choice.error) + float(choice.standard_error)
            ax.axhline(limit, color="0.6", ls=":", linewidth=1, label="one standard error above")
    else:
        ax.plot(choice.stop, choice.error, ".", color="0.3", label="each target at its stop")
    _show_dip(ax, errors)
    title = "\n".join(wrap(choice.message, 60))
    ax.set(xscale="log", xlabel="stop", ylabel="estimated prediction error", title=title)
    ax.legend()
    return ax


def held_out(errors: ArrayLike, spread: ArrayLike, stop: int, ax: Axes | None = None) -> Axes:
    """Draw errors of held-out rows, with one standard error, against the steps of a run."""
    ax = _axes(ax)
    errors = np.asarray(errors)
    steps = np.arange(len(errors))
    ax.plot(steps, errors, linewidth=1.8, label="held-out rows")
    ax.fill_between(steps, errors - spread, errors + spread, alpha=0.15, linewidth=0)
    ax.axvline(stop, color="0.3", linestyle="--", linewidth=1, label=f"stop after {stop} steps")
    ax.set(xlabel="steps", ylabel="error of held-out rows")
    ax.legend()
    return ax


def risk(curve: RiskCurve, ax: Axes | None = None) -> Axes:
    """Draw squared bias, variance and risk against the stop, and mark the best stop."""
    ax = _axes(ax)
    name, color = _look(curve.method)
    drawn = np.isfinite(curve.stops) & (curve.stops > 0)
    stops = curve.stops[drawn]
    ax.plot(stops, curve.total[drawn], color=color, linewidth=1.8, label="risk")
    ax.plot(stops, curve.bias[drawn], color=color, linewidth=1.0, linestyle="--", label="bias²")
    ax.plot(stops, curve.variance[drawn], color=color, linewidth=1.0, ls=":", label="variance")
    ax.plot(curve.best, curve.best_total, "o", color=color, label=f"best stop {curve.best:.3g}")
    ax.set(xscale="log", xlabel="stop", ylabel="risk")
    _show_dip(ax, curve.total[drawn])
    ax.set_title(f"{name}: risk along the path")
    ax.legend()
    return ax


def darken(figure: Figure) -> None:
    """Recolour a figure drawn for white paper, in place, so that it can be read on a dark page.

    White becomes dark and black light, with the greys between in the same order. Other colours keep
    their hue and become a little lighter. Images and colour maps stay as they are.
    """
    figure.draw_without_rendering()  # ticks and their labels are made while drawing
    artists = (  # modules and names of artists that have colours, and of these properties
        ("text", "Text", "color"),
        ("lines", "Line2D", "color", "markerfacecolor", "markeredgecolor"),
        ("patches", "Patch", "facecolor", "edgecolor"),
        ("collections", "Collection", "facecolor", "edgecolor"),
    )
    for module, kind, *sides in artists:
        for artist in figure.findobj(getattr(import_module(f"matplotlib.{module}"), kind)):
            # an artist with an array takes its colours from a colour map
            if getattr(artist, "get_array", lambda: None)() is not None:
                continue
            found = {side: getattr(artist, f"get_{side}")() for side in sides}
            artist.set(**{side: _on_dark(color) for side, color in found.items() if len(color)})


def _on_dark(color: Any) -> Any:
    """Return a colour, or an array of them, for a dark page."""
    rgba = import_module("matplotlib.colors").to_rgba_array(color)
    rgb = rgba[:, :3]
    lightness = rgb.mean(axis=1, keepdims=True)
    grey = np.ptp(rgb, axis=1, keepdims=True) < 0.05
    # white becomes the dark page and black the light ink
    swapped = lightness * np.array([0.075, 0.078, 0.086]) + (1 - lightness) * 0.88
    rgb = np.where(grey, swapped, rgb + 0.25 * (1 - rgb))
    dark = np.column_stack([rgb, rgba[:, 3]])
    return tuple(dark[0]) if len(dark) == 1 else dark
