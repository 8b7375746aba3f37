"""One function per figure: each takes ``ax`` and returns ``ax``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from stoptime.path import Path

__all__ = ["COLORS", "coefficients", "new_axes"]

COLORS = {
    "ridge": "#000000",
    "gradient-flow": "#0072B2",
    "nesterov-flow": "#D55E00",
    "heavy-ball-flow": "#009E73",
}
"""One colour for each method, from Okabe and Ito's palette, which colour-blind readers can tell apart."""


def new_axes(ax: Axes | None) -> Axes:
    """Return ``ax``, or new axes of a new figure; matplotlib is imported here and nowhere else."""
    if ax is not None:
        return ax
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError('Plots need matplotlib: pip install "stoptime[plot]".') from error
    return pyplot.subplots(layout="constrained")[1]  # type: ignore[no-any-return]


def coefficients(path: Path, ax: Axes | None = None) -> Axes:
    """Draw every coefficient of a path against the stop.

    Parameters
    ----------
    path : Path
        Of one target; the first is drawn where there are many.
    ax : Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    Axes
    """
    ax = new_axes(ax)
    coef = path.coef if path.coef.ndim == 2 else path.coef[:, :, 0]
    finite = np.isfinite(path.stops)
    ax.plot(path.stops[finite], coef[finite], linewidth=1.2)
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xscale("log")
    ax.set_xlabel("stop")
    ax.set_ylabel("coefficient")
    ax.set_title(f"{path.method.name}: coefficients along the path")
    return ax
