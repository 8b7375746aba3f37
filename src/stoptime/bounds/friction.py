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
from scipy.optimize import brentq

from stoptime.bounds.balls import (  # isort: skip
    Box, Bracket, Enclosure, WorkLimitError, arb, ball, downward, exact, require_flint, supremum,
    upward, verify, working_precision,
)  # fmt: skip
from stoptime.bounds.filters import BesselBand, BesselFilter
from stoptime.bounds.one_variable import best_stop, horizon, imbalance, inflation_at, sample
from stoptime.support.arrays import Array
from stoptime.support.checks import positive_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST_CELL = 0.1  # relative to its friction
STEP_SHARE = 0.9  # of the width that is expected to meet the tolerance
MOST_CELLS = 3000
NODE_SHARE = 0.05  # of the tolerance, for the supremum at an end of a cell
CHANGE_WINDOW = (4.0, 4.5)  # of the friction at which the worst case changes
LAST_COMPARED = 9.0  # the largest friction for which the overshoot is compared
PLACE_RADIUS = 2.0**-40
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
        from stoptime.support import plots  # noqa: PLC0415 - matplotlib is an extra

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


class Overshoot(NamedTuple):
    """The minimum -m of the shrinkage of one friction."""

    place: arb
    m: arb

    @property
    def floor(self) -> arb:
        """The least |D| at its place over all scales."""
        return 2 * (self.m * (1 + self.m)).sqrt()

    @property
    def scale(self) -> arb:
        """The scale at which |D| is least at its place."""
        return self.place * (self.m / (1 + self.m)).sqrt()


def friction_change(*, tolerance: float = 1e-6) -> Enclosure:
    r"""Enclose the friction r* up to which the first overshoot alone determines the inflation.

    .. math:: C(r) = (1 + 2m)^2 \ \text{for}\ 2 \le r \le r^*, \qquad
              C(r) > (1 + 2m)^2 \ \text{for}\ r^* < r \le 9, \qquad -m = \min_u g_r(u)

    Both statements are proven for all frictions outside the enclosure. Up to r* the inflation falls
    strictly, because m does, and the best stop is τ = u₀·sqrt(m/(1 + m)), where u₀ is the place of
    the minimum. Beyond r* the bias at small eigenvalues limits how early one may stop. The ``stop``
    of the enclosure is τ at r*, the least of all best stops: every friction up to 9 outside the
    enclosure has a later one, and no friction has one that is earlier by the tolerance.

    Examples
    --------
    >>> print(friction_change(tolerance=0.01))
    [4.25..., 4.26...] at stop 1.59...
    """
    require_flint()
    return _change(positive_number("tolerance", tolerance, high=1.0) / 2)


@lru_cache(maxsize=16)
def _change(half: float) -> Enclosure:
    fine = half / 16
    with working_precision():
        centre = brentq(lambda r: _margin(r, r, fine), *CHANGE_WINDOW, xtol=fine)
        verify(lambda box: _overshoot_is_worst(*box[0], fine), ((2.0, centre - half),))
        verify(lambda box: _bias_is_worse(*box[0], fine), ((centre + half, LAST_COMPARED),))
        stop = float(_overshoot(centre).scale)
        tau = exact(stop)
        verify(lambda box: _earliest(*box[0]) > tau, ((2.0, centre - half),))
        verify(lambda box: _later(tau, *box[0], fine), ((centre + half, LAST_COMPARED),))
        verify(lambda box: _later(tau - half, *box[0], fine), ((centre - half, centre + half),))
    return Enclosure(centre - half, centre + half, stop)


@lru_cache(maxsize=256)
def _overshoot(friction: float) -> Overshoot:
    """Enclose the minimum of the shrinkage for a friction from 2 to 9."""
    found = BesselFilter(friction)
    u, g = sample(found)
    near = int(np.argmin(g))
    centre = brentq(lambda at: float(found.slope(exact(at))), u[near - 1], u[near + 1], xtol=1e-14)
    place = ball(centre, PLACE_RADIUS)
    nu = (exact(friction) - 1) / 2
    # g' has the zeros of order ν + 1: they are more than π apart, and the first exceeds this root.
    first_only = place < ((nu + 1) * (nu + 3)).sqrt() + exact(math.pi)
    if not (first_only and found.slope(place.lower()) < 0 < found.slope(place.upper())):
        raise WorkLimitError(
            f"The minimum of the shrinkage of friction {friction:g} is not proven."
        )
    # |g''| ≤ 1, so g at the centre exceeds the minimum by at most the squared radius.
    return Overshoot(place, -found.shrinkage(exact(centre)) + ball(0, PLACE_RADIUS**2))


def _bias_peak(friction: float, sigma: arb, end: arb, tolerance: float) -> Bracket:
    """Enclose the largest D for u up to ``end``."""
    found = BesselFilter(friction)

    def bracket(box: Box) -> Bracket:
        value, variation = imbalance(found, sigma, box[0])
        return Bracket(downward(value), upward(value + variation), box)

    nothing = Bracket(0.0, 0.0, ((0.0, 0.0),))
    return supremum(bracket, ((0.0, downward(end)),), known=nothing, tolerance=tolerance)


def _earliest(low: float, high: float) -> arb:
    """Return a lower bound of the scales that are best for the overshoot, on a cell of r."""
    # With r, u₀ grows and m falls.
    return Overshoot(_overshoot(low).place, _overshoot(high).m).scale


def _margin(low: float, high: float, tolerance: float) -> float:
    """Return a lower bound of the overshoot's |D| less the bias peak's D, on a cell of r."""
    # g grows with r for u ≤ u₀. So these ends have the least margin.
    last = _overshoot(high)
    peak = _bias_peak(high, _earliest(low, high), last.place.upper(), tolerance)
    return downward(last.floor - exact(peak.cap))


def _overshoot_is_worst(low: float, high: float, tolerance: float) -> bool:
    """Prove that |D| is largest at the overshoot, at the scale that is best for the overshoot."""
    first = _overshoot(low)
    last = _overshoot(high)
    before = 2 * last.place / 3
    after = 3 * first.place / 2
    # The conditions of the comparison with the overshoot; see the documentation.
    conditions = (
        first.place**2 > 20 and last.place < 6.28 and first.m < 0.25 and high <= 5,
        last.place**2 < 8 * (1 + last.m) ** 2 * (exact(low) + 1),
        before < first.place and BesselFilter(low).shrinkage(before) > 0,
        last.place < after < last.place + 3 and BesselFilter(high).shrinkage(after) > 0,
    )
    return all(conditions) and _margin(low, high, tolerance) > 0


def _bias_is_worse(low: float, high: float, tolerance: float) -> bool:
    """Prove that a smaller u has a larger |D| at the scale that is best for the overshoot."""
    first = _overshoot(low)
    sigma = Overshoot(_overshoot(high).place, first.m).scale
    peak = _bias_peak(low, sigma, first.place.lower(), tolerance)
    return bool(first.floor < peak.attained)


def _later(tau: arb, low: float, high: float, tolerance: float) -> bool:
    """Prove that every best stop on a cell of r is later than τ."""
    if high > low * (1 + WIDEST_CELL):
        return False
    # Earlier stops and more friction have a larger D at the place of this peak. A stop whose D
    # exceeds a cap on the constant of the cell is not the best one.
    peak = _bias_peak(low, tau, _overshoot(low).place.lower(), tolerance)
    _, caps = _chords(_node(low, tolerance), _node(high, tolerance))
    return bool(1 + exact(peak.attained) ** 2 > caps.max())
