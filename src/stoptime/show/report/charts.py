"""The parts of a report: sections with tables and with charts as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from stoptime.show.results import TableOf
from stoptime.support.arrays import Floats
from stoptime.support.wording import number

TABLE_ROWS = 40
CHART_DIGITS = 6  # significant digits of drawn numbers, finer than a pixel


@dataclass(frozen=True)
class Mark:
    """A line across the chart, at x or at y."""

    label: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, eq=False)
class Series:
    """A line, points, or the bands or whiskers from ``low`` to ``high``."""

    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    kind: Literal["line", "points", "band", "whiskers"] = "line"
    # a place in the palette of eight; colours beyond it repeat with dashes
    color: int = 0
    dashed: bool = False
    # names of the points, shown when a reader hovers over them
    labels: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Return the series for the script."""
        arrays = {"x": self.x, "y": self.y, "low": self.low, "high": self.high}
        drawn = {key: list(map(_drawn, one)) for key, one in arrays.items() if one is not None}
        return {**vars(self), **drawn}


@dataclass(frozen=True, eq=False)
class Chart:
    """Axes, series and marks."""

    key: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    # whether an axis starts logarithmic; None removes the choice
    log_x: bool | None = True
    log_y: bool | None = False
    nearest: bool = False  # hovering describes the nearest line alone
    # names at x = 1, 2, ... in place of numbers
    categories: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """Return the chart for the script."""
        series = [one.content() for one in self.series]
        marks = [{"label": one.label, "x": _drawn(one.x), "y": _drawn(one.y)} for one in self.marks]
        # An infinite mark has no place on either axis.
        marks = [one for one in marks if (one["x"], one["y"]) != (None, None)]
        return {**vars(self), "series": series, "marks": marks}

    def table(self) -> TableOf:
        """Return the numbers behind the chart, thinned to a table that people can read."""
        head = [self.x_label or "name"]
        # The series may have different x, so that a cell is empty where a series has no value.
        xs = np.unique(np.concatenate([one.x for one in self.series]))
        xs = xs[thinned(len(xs), TABLE_ROWS)]
        columns = [[self.categories[int(x) - 1] if self.categories else number(x) for x in xs]]
        for one in self.series:
            parts = {"": one.y} if one.low is None else {" from": one.low, " to": one.high}
            for suffix, values in parts.items():
                head.append(one.name + suffix)
                known = dict(zip(one.x.tolist(), np.asarray(values).tolist(), strict=True))
                columns.append([number(known[x]) if x in known else "" for x in xs.tolist()])
        rows = tuple(zip(*columns, strict=True))
        return TableOf(f"Numbers: {self.title}", tuple(head), rows, folded=True)


@dataclass(frozen=True)
class Section:
    """A heading, one paragraph of text, and the charts, tables, notes and Python code below it."""

    key: str
    title: str
    text: str
    charts: tuple[Chart, ...] = ()
    tables: tuple[TableOf, ...] = ()
    notes: tuple[str, ...] = ()
    code: str = ""


def thinned(count: int, most: int) -> NDArray[np.intp]:
    """Return at most ``most`` indices below ``count``, evenly spread, with the first and last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.intp))


def _drawn(value: float | None) -> float | None:
    """Return a number with few digits; None, which is null in JSON, if it is not finite."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.{CHART_DIGITS}g}")
