r"""The inflation of accelerated flow as a function of its friction r, on whole intervals of r.

In a cell of frictions let σ be linear in r. For a fixed u, D is then a function of r alone, and it
differs from its chord by at most max|D''|·(width of the cell)²/8. The derivatives of the shrinkage
by friction have caps that hold for every u,

.. math:: |\partial_r g| \le 2/r, \qquad |\partial_r^2 g| \le 3\sqrt3/r^2,

so proofs at the two ends of a cell prove bounds for every friction between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stoptime.bounds.balls import (  # isort: skip
    Enclosure, WorkLimitError, arb, downward, exact, require_flint, upward, working_precision,
)  # fmt: skip
from stoptime.bounds.filters import BesselBand, BesselFilter
from stoptime.bounds.one_variable import best_stop, horizon, imbalance, inflation_at
from stoptime.support.arrays import Array
from stoptime.support.checks import positive_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST_CELL = 0.1  # relative to its friction
STEP_SHARE = 0.9  # of the width that is expected to meet the tolerance
MOST_CELLS = 3000
NODE_SHARE = 0.05  # of the tolerance, for the supremum at an end of a cell
INTERPOLATION_ERROR = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class FrictionCurve:
    """Proven bounds of the inflation of accelerated flow for every friction of an interval.

    Between neighbouring ``frictions`` both bounds are linear. At a friction of the grid the best
    stop is near the τ = t√λ* of ``stops``, which belongs to no proof.
    """

    frictions: Array
    lower: Array
    upper: Array
    stops: Array

    def at(self, friction: float) -> Enclosure:
        """Return the enclosure of the inflation at one friction of the interval."""
        r = positive_number("friction", friction)
        if not self.frictions[0] <= r <= self.frictions[-1]:
            raise ValueError(
                f"friction must lie in [{self.frictions[0]:g}, {self.frictions[-1]:g}]; got {r:g}."
            )
        lower, upper, stop = (
            float(np.interp(r, self.frictions, values))
            for values in (self.lower, self.upper, self.stops)
        )
        # The interpolation itself rounds a few times.
        return Enclosure(lower - INTERPOLATION_ERROR, upper + INTERPOLATION_ERROR, stop)

    @property
    def least_at(self) -> tuple[float, float]:
        """Two frictions between which every friction with the least inflation certainly lies."""
        near = np.flatnonzero(self.lower <= self.upper.min())
        first = max(near[0] - 1, 0)
        last = min(near[-1] + 1, len(self.frictions) - 1)
        return float(self.frictions[first]), float(self.frictions[last])

    def smaller_from(self, friction: float) -> float:
        """Return a friction from which on the inflation is certainly smaller than at this one.

        It is infinite if no such friction of the interval is known.
        """
        # Bounds are linear between the frictions, so what holds at two neighbours holds between.
        high = np.flatnonzero(self.upper >= self.at(friction).lower)
        beyond = self.frictions[high[-1] + 1 :] if high.size else self.frictions
        return float(beyond[0]) if beyond.size else math.inf

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the upper bound and the stops; see :func:`stoptime.plots.friction`."""
        from stoptime.show import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.friction(self.frictions, self.upper, self.stops, ax=ax)

    def __repr__(self) -> str:
        width = float((self.upper - self.lower).max())
        ends = f"{self.frictions[0]:g} to {self.frictions[-1]:g}"
        return f"FrictionCurve(friction {ends}, {len(self.frictions) - 1} cells, width {width:.2g})"


class Node(NamedTuple):
    """One friction: a good scale σ, a cap on |D| there, and the places of its peaks."""

    friction: float
    sigma: float
    cap: arb
    early: float  # where D > 0: the bias of a stop that is too early; else the other place again
    late: float  # where D < 0: the overshoot, or the variance of a stop that is too late


def friction_inflation(
    low: float = 2.0,
    high: float = 21.0,
    *,
    tolerance: float = 1e-3,
    progress: Callable[[str], None] | None = None,
) -> FrictionCurve:
    r"""Enclose the risk inflation of accelerated flow for every friction of an interval.

    .. math:: C(r) = \min_{\tau} \max_{x \ge 0}\ (1 + x) g_r^2 + \frac{(1 + x)(1 - g_r)^2}{x},
              \qquad r \in [\mathrm{low}, \mathrm{high}]

    Unlike :func:`risk_inflation` this proves a function and not a number: the interval is cut into
    cells, and both bounds hold for every friction in them.

    Parameters
    ----------
    low, high : float
        The interval, 2 ≤ low < high. Below 2 the inflation is infinite.
    tolerance : float, default=1e-3
        Largest distance of the two bounds. The time grows like its inverse root.
    progress : callable, optional
        Called with a line of text after every cell.

    Examples
    --------
    >>> curve = friction_inflation(2.9, 3.1, tolerance=0.01)
    >>> 1.5991094007 in curve.at(3.0), curve.at(3.05).upper < curve.at(2.95).lower
    (True, True)
    """
    require_flint()
    low = positive_number("low", low)
    high = positive_number("high", high)
    if not 2 <= low < high:
        raise ValueError(f"low and high must satisfy 2 ≤ low < high; got {low!r} and {high!r}.")
    tolerance = positive_number("tolerance", tolerance)
    with working_precision():
        return _curve(low, high, tolerance, progress or (lambda _: None))


def _curve(
    low: float, high: float, tolerance: float, progress: Callable[[str], None]
) -> FrictionCurve:
    nodes = [_node(low, tolerance)]
    lower = [np.inf]
    upper = [-np.inf]
    step = WIDEST_CELL
    for _ in range(MOST_CELLS):
        ends = (nodes[-1], _node(min(nodes[-1].friction * (1 + step), high), tolerance))
        floor, cap = _chords(*ends)
        # Two cells share a node, and each of them may use half the tolerance on either side of it.
        constants = np.array([float(1 + node.cap**2) for node in ends])
        gap = max((constants - floor).max(), (cap - constants).max())
        if gap <= tolerance / 2:
            nodes.append(ends[1])
            lower[-1:] = [min(lower[-1], floor[0]), floor[1]]
            upper[-1:] = [max(upper[-1], cap[0]), cap[1]]
            progress(f"friction {ends[1].friction:.4g} of {high:g}")
            if ends[1].friction == high:
                frictions, sigmas = (np.array([node[i] for node in nodes]) for i in (0, 1))
                return FrictionCurve(frictions, np.array(lower), np.array(upper), sigmas)
        # The distance of a chord grows like the square of the width of its cell.
        step = min(step * min(STEP_SHARE * math.sqrt(tolerance / 2 / gap), 2.0), WIDEST_CELL)
    raise WorkLimitError(
        f"Only frictions up to {nodes[-1].friction:g} are proven within {MOST_CELLS} cells; use a "
        f"larger tolerance than {tolerance:g} or a shorter interval."
    )


@lru_cache(maxsize=256)
def _node(friction: float, tolerance: float) -> Node:
    """Prove a cap on |D| at one friction and a good scale."""
    found = BesselFilter(friction)
    sigma, places = best_stop(found)
    cap = exact(inflation_at(found, sigma, NODE_SHARE * tolerance).upper) - 1
    return Node(friction, sigma, cap.sqrt(), min(places), max(places))


def _chords(first: Node, last: Node) -> tuple[Array, Array]:
    """Return two bounds of the inflation between two nodes: linear, and given by their ends."""
    band = BesselBand(first.friction, last.friction)
    low, high = sorted((first.sigma, last.sigma))

    def tail(start: float) -> arb:
        g = band.tail(start)
        return start * g / exact(low) + high * (1 + g) / start

    level = min(downward(first.cap), downward(last.cap))
    end = max(horizon(tail, band.tail_start, level), first.late, last.late)
    rise = _rise(band, low, high, end)
    floors = _floors(band, first, last, rise)
    # The square of a chord lies below the chord of the squares, by up to a quarter of the squared
    # difference of the two ends. So the lower bound loses that much, and the upper one nothing.
    lost = (floors[0] - floors[1]) ** 2 / 4
    lower = [downward(1 + floor**2 - lost) for floor in floors]
    upper = [upward(1 + (node.cap + rise) ** 2) for node in (first, last)]
    return np.array(lower), np.array(upper)


def _rise(band: BesselBand, low: float, high: float, end: float) -> arb:
    """Cap the distance of D from its chord for u ≤ end, if σ goes from low to high or back."""
    r = exact(band.friction)
    sigma = exact(low)
    drift = (exact(high) - sigma) / band.width
    # D = A/σ - σB with A = u·g and B = (1 - g)/u = u·φ. The caps of g, g_r and g_rr are 1, 2/r and
    # ``bend``; those of A are u times larger. Those of φ are half as large as those of g, so those
    # of B are at most min(u/2, 1/u) ≤ 1/√2 times larger.
    a = end * (band.friction_bend / sigma + 4 * drift / (r * sigma**2) + 2 * drift**2 / sigma**3)
    b = (high * band.friction_bend + 4 * drift / r) / exact(2).sqrt()
    return (a + b) * band.width**2 / 8


def _floors(band: BesselBand, first: Node, last: Node, rise: arb) -> list[arb]:
    """Return the ends of a chord below the least of max|D| over all scales, in a cell."""
    early = (first.early + last.early) / 2
    late = (first.late + last.late) / 2
    overshoots = []
    double = []
    for node in (first, last):
        found = BesselFilter(node.friction)
        overshoots.append(-found.shrinkage(exact(late)) - band.friction_bend * band.width**2 / 8)
        height, depth = (imbalance(found, exact(node.sigma), (at, at))[0] for at in (early, late))
        double.append(height.min(-depth) - rise)
    # The overshoot alone bounds |D| by 2·sqrt(m(1 + m)) at every scale, a concave function of m. A
    # chord of m that reaches zero proves nothing.
    single = [exact(0), exact(0)]
    if all(m > 0 for m in overshoots):
        single = [2 * (m * (1 + m)).sqrt() for m in overshoots]
    # Earlier stops have a larger D at the early place, as g > 0 there. Later stops have a smaller
    # D at the late place if -D grows in σ from the scale of the cell on.
    sigma = exact(min(first.sigma, last.sigma))
    g = band.shrinkage(exact(late))
    two_sided = band.shrinkage(exact(early)) > 0 and late * g + sigma**2 * (1 - g) / late > 0
    better = all(floor > 0 for floor in double) and sum(double) > sum(single)
    return double if two_sided and better else single
