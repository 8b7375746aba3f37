"""What a notebook shows of a result: a small table and a curve, in the colours of the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

SVG_SIZE = 360, 150  # width and height, in pixels
LOWER_LEFT = 62, 118  # corners of the axes; pixels count downwards
UPPER_RIGHT = 350, 10
TABLE = "border-collapse:collapse;margin:0.4em 0;color:inherit;font-size:inherit"
MOST_POINTS = 240  # of a line, about one for each pixel
MOST_LINES = 12
# mid-tones, which can be read on white and on black; the first is that of the chosen method
INKS = ("#d9662b", "#2f86d2", "#1a9e77", "#b565a7", "#8a8f98")


@dataclass(frozen=True)
class Curve:
    """A line through points, and a dot on it if ``at`` is given."""

    x: ArrayLike
    y: ArrayLike
    at: tuple[float, float] | None = None


def card(title: str, rows: Sequence[Sequence[str]], drawn: str = "") -> str:
    """Return a title, a table whose first row is its head, and a picture, as HTML."""
    head, *body = rows
    lines = [_row(head, "th"), *(_row(row, "td") for row in body)]
    # without colours of its own, so that it takes those of a light or a dark page
    return (
        f'<div style="font-size:0.9em"><strong>{escape(title)}</strong>'
        f'<table style="{TABLE}">{"".join(lines)}</table>'
        f"{drawn}</div>"
    )


def _row(cells: Sequence[str], tag: str) -> str:
    style = 'style="text-align:left;padding:0.1em 0.8em 0.1em 0"'
    return f"<tr>{''.join(f'<{tag} {style}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def picture(
    curves: Sequence[Curve], labels: tuple[str, str], *, log_y: bool = False, top: float = np.inf
) -> str:
    """Return curves up to ``top`` over a logarithmic x axis as SVG; "" if there is no line."""
    lines = [_visible(curve.x, curve.y, top, log_y=log_y) for curve in curves[:MOST_LINES]]
    both = np.concatenate(lines, axis=1)
    if both.shape[1] < 2:
        return ""
    corner, size = both.min(axis=1, keepdims=True), np.ptp(both, axis=1, keepdims=True)
    marks = []
    for line, curve, ink in zip(lines, curves, INKS * MOST_LINES, strict=False):
        places = _pixels(line, corner, size)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places.T)
        marks.append(f'<polyline points="{points}" fill="none" stroke="{ink}" stroke-width="1.6"/>')
        if curve.at is not None:
            dots = _pixels(_visible(*curve.at, top, log_y=log_y), corner, size)
            marks += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{ink}"/>' for x, y in dots.T]
    (low, down), (high, up) = both.min(axis=1), both.max(axis=1)
    ends = np.exp([down, up]) if log_y else (down, up)
    title = f"{labels[1]} against {labels[0]}"
    (left, bottom), (right, above) = LOWER_LEFT, UPPER_RIGHT
    marks += [
        _text(left, bottom + 13, "start", f"{np.exp(low):.4g}"),
        _text(right, bottom + 13, "end", f"{np.exp(high):.4g}"),
        _text(left - 4, bottom, "end", f"{ends[0]:.4g}"),
        _text(left - 4, above + 8, "end", f"{ends[1]:.4g}"),
        _text((left + right) / 2, SVG_SIZE[1] - 4, "middle", title),
    ]
    return (
        f'<svg role="img" aria-label="{escape(title)}" width="{SVG_SIZE[0]}" '
        f'height="{SVG_SIZE[1]}" viewBox="0 0 {SVG_SIZE[0]} {SVG_SIZE[1]}" style="max-width:100%">'
        f'<path d="M{left},{above}V{bottom}H{right}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.5"/>{"".join(marks)}</svg>'
    )


def _visible(x: ArrayLike, y: ArrayLike, top: float, *, log_y: bool) -> NDArray[np.float64]:
    """Return the points that can be drawn, few enough for a picture, as logarithms and values."""
    points = np.array([np.atleast_1d(x), np.atleast_1d(y)], dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.log(points) if log_y else np.array([np.log(points[0]), points[1]])
    drawn = drawn[:, np.isfinite(drawn).all(axis=0) & (points[1] <= top)]
    step = max(1, drawn.shape[1] // MOST_POINTS)
    return np.asarray(drawn[:, ::step])


def _pixels(
    points: NDArray[np.float64], corner: NDArray[np.float64], size: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return points in the pixels of the picture, inside its axes."""
    share = np.clip((points - corner) / np.where(size > 0, size, 1), 0, 1)
    first, last = np.array([LOWER_LEFT, UPPER_RIGHT])[:, :, None]
    return np.asarray(first + share * (last - first))


def _text(x: float, y: float, anchor: str, words: str) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="11" fill="currentColor">'
        f"{escape(words)}</text>"
    )
