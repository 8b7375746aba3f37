"""What a chart shows, as data: the page's script draws it, and a table says the same in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Floats

__all__ = ["Chart", "Mark", "Section", "Series", "TableOf", "thinned"]

TABLE_ROWS = 40
DIGITS = 6


@dataclass(frozen=True)
class TableOf:
    """A table of texts; a folded one opens on demand."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False


@dataclass(frozen=True)
class Mark:
    """A line across the chart, at x or at y."""

    label: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, eq=False)
class Series:
    """A line, a band (low and high), whiskers (the same, one by one) or points.

    Attributes
    ----------
    name : str
        For the legend.
    x, y : arrays
        Where.
    low, high : arrays or None
        Of bands and whiskers.
    color : int
        Place in the palette; beyond its eight colours lines are dashed too.
    dashed, points, whiskers : bool
        How it is drawn.
    labels : tuple of str
        Of the points, to be read on hover.
    """

    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    color: int = 0
    dashed: bool = False
    points: bool = False
    whiskers: bool = False
    labels: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Return the series for the script."""
        kind = "whiskers" if self.whiskers else "points" if self.points else "line"
        kind = "band" if self.low is not None and not self.whiskers else kind
        found = {"name": self.name, "kind": kind, "color": self.color, "dashed": self.dashed}
        arrays = {"x": self.x, "y": self.y, "low": self.low, "high": self.high}
        return {
            **found,
            **{key: _rounded(values) for key, values in arrays.items() if values is not None},
            "labels": list(self.labels),
        }


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart: axes, series, marks.

    Attributes
    ----------
    key, title : str
        For the page, and for people.
    x_label, y_label : str
        Of the axes.
    series : sequence of Series
        What is drawn.
    marks : sequence of Mark
        Lines across; infinite or zero ones are left out by the script where they cannot be shown.
    log_x, log_y : bool or None
        Whether the axis starts logarithmic; None where it cannot be.
    nearest : bool
        Whether hovering tells of the nearest line alone instead of all.
    categories : tuple of str
        Names at x = 1, 2, ... in place of numbers.
    """

    key: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    log_x: bool | None = True
    log_y: bool | None = False
    nearest: bool = False
    categories: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Return the chart for the script."""
        return {
            "key": self.key,
            "title": self.title,
            "x": {"label": self.x_label, "log": self.log_x},
            "y": {"label": self.y_label, "log": self.log_y},
            "series": [one.content() for one in self.series],
            "marks": [
                {"label": mark.label, "x": _one(mark.x), "y": _one(mark.y)}
                for mark in self.marks
                if np.isfinite([v for v in (mark.x, mark.y) if v is not None]).all()
            ],
            "nearest": self.nearest,
            "categories": list(self.categories),
        }

    def table(self) -> TableOf:
        """Return the numbers behind the chart, thinned to what people read."""
        head = [self.x_label or "name"]
        xs = np.unique(np.concatenate([one.x for one in self.series]))
        xs = xs[thinned(len(xs), TABLE_ROWS)]
        columns: list[list[str]] = [[self._x_name(x) for x in xs]]
        for one in self.series:
            parts = {"": one.y} if one.low is None else {" from": one.low, " to": one.high}
            for suffix, values in parts.items():
                head.append(one.name + suffix)
                columns.append(_looked_up(one.x, np.asarray(values), xs))
        return TableOf(
            f"Numbers: {self.title}", tuple(head), tuple(zip(*columns, strict=True)), folded=True
        )

    def _x_name(self, x: float) -> str:
        return self.categories[int(x) - 1] if self.categories else f"{x:.5g}"


@dataclass(frozen=True)
class Section:
    """A heading, what it says, and what it shows.

    Attributes
    ----------
    key, title : str
        For links, and for people.
    text : str
        One plain paragraph.
    charts : tuple of Chart
        Drawn by the page's script.
    tables : tuple of TableOf
        Written out.
    notes : tuple of str
        A list of messages.
    code : str
        Python to copy.
    """

    key: str
    title: str
    text: str
    charts: tuple[Chart, ...] = ()
    tables: tuple[TableOf, ...] = ()
    notes: tuple[str, ...] = ()
    code: str = ""


def thinned(count: int, most: int) -> NDArray[np.intp]:
    """Return places from the first to the last of ``count``, evenly spread, at most so many."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.intp))


def _looked_up(x: Floats, values: Floats, at: Floats) -> list[str]:
    known = dict(zip(x.tolist(), values.tolist(), strict=True))
    return [f"{known[place]:.5g}" if place in known else "" for place in at.tolist()]


def _rounded(values: Floats) -> list[float | None]:
    """Return the numbers with six digits, which no eye tells from more; null where there is none."""
    return [_one(float(value)) for value in np.asarray(values, dtype=np.float64)]


def _one(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(f"{value:.{DIGITS}g}")
