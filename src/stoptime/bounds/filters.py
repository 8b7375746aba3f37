r"""The shrinkages of one variable u that have certified constants, as mathematical functions.

All but the Butterworth filter are characteristic functions of a symmetric random variable T,

.. math:: g(u) = E \cos(uT), \qquad |g| \le 1, \qquad |g''| \le E T^2, \qquad \varphi(0) = E T^2/2

with φ = (1 - g)/u². So one evaluation at the centre of a cell and a few moments of T bound g on the
whole cell, and no special function is ever evaluated on a wide ball.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stoptime.bounds.balls import PRECISION, arb, ball, downward, exact, working_precision
from stoptime.methods.butterworth import Butterworth
from stoptime.methods.flows import AcceleratedFlow
from stoptime.support.arrays import Array

SERIES_TERMS = 20_000


class ScaleFreeFilter(ABC):
    """A shrinkage g(u) of one variable with g(0) = 1, g'(0) = 0, and caps on its derivatives."""

    order: ClassVar[int]
    """2 where the stop is the scale σ of u = σ·√x, and 1 where the stop is σ²."""
    tail_start: ClassVar[float]
    """The first point for which :meth:`tail` may be asked."""

    @abstractmethod
    def shrinkage(self, u: arb) -> arb:
        """Return g, for a thin ball u > 0."""

    @abstractmethod
    def slope(self, u: arb) -> arb:
        """Return g', for a thin ball u > 0."""

    def tail(self, start: float) -> arb:
        """Return an e with |g(u)| ≤ e for u ≥ start; u·|g| ≤ start·e too, unless friction < 2."""
        # Without oscillation g falls everywhere, and u·g falls from ``tail_start`` on.
        return self.shrinkage(exact(start))

    @abstractmethod
    def in_floats(self, u: Array) -> Array:
        """Return g at many points in floating point: for a search, never for a proof."""

    def square_tail(self, start: float) -> arb:
        """Return a cap on u²·|g| for u ≥ start, where start is at least 3 and ``tail_start``."""
        # Without oscillation u²·g falls from there on.
        return exact(start) ** 2 * self.shrinkage(exact(start))

    def tail_in_floats(self, start: Array) -> Array:
        """Return :meth:`tail` at many points in floating point, for a search."""
        return self.in_floats(start)

    @property
    @abstractmethod
    def largest_bend(self) -> arb:
        """A cap on |g''|."""

    @property
    @abstractmethod
    def largest_gain(self) -> arb:
        """A cap on φ = (1 - g)/u²."""

    @property
    def first_gain(self) -> arb:
        """The value of φ at the origin."""
        return self.largest_gain

    @property
    @abstractmethod
    def gain_bend(self) -> arb:
        """A cap on |φ''|."""

    @abstractmethod
    def head(self, c: arb) -> float:
        """Return a point up to which |h| ≤ |h(0)|, h = c·φ - g, or 0 if |h| grows from there."""

    def bend(self, u: arb, g: arb, slope: arb) -> arb:  # noqa: ARG002 - for filters that use them
        """Return a cap on |g''| in a ball u, given balls with g and g' there."""
        return self.largest_bend

    def cell(self, u: arb, radius: arb) -> tuple[arb, arb, arb]:
        """Return g at the thin ball u > 0, and balls with g and g' within ``radius`` of it."""
        # Taylor's formula, twice: caps from the largest |g''| give a smaller cap on it here.
        centre = self.shrinkage(u)
        slope = self.slope(u)
        bend = self.largest_bend
        for _ in range(2):
            slopes = ball(slope, bend * radius)
            values = ball(centre, abs(slope) * radius + bend * radius**2 / 2)
            bend = bend.min(self.bend(ball(u, radius), values, slopes))
        return centre, values, slopes

    @property
    def gain_slope(self) -> arb:
        """The slope of -φ at the origin; it is zero where φ is smooth as an even function."""
        return exact(0)


class CosineFilter(ScaleFreeFilter):
    """A shrinkage g(u) = E cos(uT), whose derivatives the moments of T bound."""

    @abstractmethod
    def even_moment(self, k: int) -> arb:
        """Return E T^(2k)."""

    @property
    def largest_bend(self) -> arb:
        """E T², which |g''| does not exceed."""
        return self.even_moment(1)

    @property
    def largest_gain(self) -> arb:
        """E T²/2, the value of φ at the origin."""
        return self.even_moment(1) / 2

    @property
    def gain_bend(self) -> arb:
        """A cap on |φ''|."""
        return self.even_moment(2) / 12

    def head(self, c: arb) -> float:
        """Return a point up to which |h| ≤ |h(0)|, h = c·φ - g, or 0 if |h| grows from there."""
        # h is even, so near 0 it moves by h''(0)·u²/2, and h'' keeps its sign while
        # M·u²/2 < |h''(0)|, where M caps the fourth derivative.
        second, fourth, sixth = (self.even_moment(k) for k in (1, 2, 3))
        start = c * second / 2 - 1
        bend = second - c * fourth / 12
        if not start * bend < 0:
            return 0.0
        keeps_sign = (abs(bend) / (c * sixth / 30 + fourth)).sqrt()
        # The head also ends before h could have crossed zero and reached -h(0).
        stays_small = (2 * abs(start) / (c * fourth / 12 + second)).sqrt()
        return max(0.0, downward(keeps_sign.min(stays_small)))


@dataclass(frozen=True)
class GaussianFilter(CosineFilter):
    """Gradient flow, g = exp(-u²): T is normal with variance 2."""

    order: ClassVar[int] = 1
    tail_start: ClassVar[float] = 1.0  # u·exp(-u²) falls from sqrt(1/2) on

    def even_moment(self, k: int) -> arb:
        """Return (2k)!/k!."""
        return exact(2 * k).fac() / exact(k).fac()

    def in_floats(self, u: Array) -> Array:
        """Return g at many points in floating point, for a search."""
        return np.asarray(np.exp(-(u**2)))

    def shrinkage(self, u: arb) -> arb:
        """Return exp(-u²)."""
        return (-u * u).exp()

    def slope(self, u: arb) -> arb:
        """Return -2u·exp(-u²)."""
        return -2 * u * self.shrinkage(u)

    def bend(self, u: arb, g: arb, slope: arb) -> arb:  # noqa: ARG002 - both follow from u
        """Return the largest |4u² - 2|·exp(-u²)."""
        return abs((4 * u * u - 2) * (-u * u).exp()).upper()


@dataclass(frozen=True)
class PowerFilter(CosineFilter):
    """Ridge iterated q times, g = (1 + u²/q)^(-q): T is normal with a random, gamma variance."""

    times: int
    order: ClassVar[int] = 1
    tail_start: ClassVar[float] = 1.0  # u·g falls from u² = 1/(2 - 1/q) on

    def even_moment(self, k: int) -> arb:
        """Return (2k)!/k! times the moment (q)_k/q^k of the gamma distribution."""
        gamma = exact(self.times).rising(k) / exact(self.times) ** k
        return GaussianFilter().even_moment(k) * gamma

    def in_floats(self, u: Array) -> Array:
        """Return g at many points in floating point, for a search."""
        return np.asarray(np.exp(-self.times * np.log1p(u**2 / self.times)))

    def shrinkage(self, u: arb) -> arb:
        """Return (1 + u²/q)^(-q)."""
        return (1 + u * u / self.times) ** -self.times

    def slope(self, u: arb) -> arb:
        """Return -2u·(1 + u²/q)^(-q - 1)."""
        return -2 * u * (1 + u * u / self.times) ** (-self.times - 1)


@dataclass(frozen=True)
class MaternFilter(CosineFilter):
    """Critically damped flow, g = (1 + u)·exp(-u): T has Student's distribution, and E T⁴ = ∞."""

    order: ClassVar[int] = 2
    tail_start: ClassVar[float] = 2.0  # u·g falls from the golden ratio 1.618 on

    def even_moment(self, k: int) -> arb:
        """Return 1 for k = 1; all higher moments are infinite."""
        return exact(1) if k == 1 else exact(math.inf)

    def in_floats(self, u: Array) -> Array:
        """Return g at many points in floating point, for a search."""
        return np.asarray((1 + u) * np.exp(-u))

    def shrinkage(self, u: arb) -> arb:
        """Return (1 + u)·exp(-u)."""
        return (1 + u) * (-u).exp()

    def slope(self, u: arb) -> arb:
        """Return -u·exp(-u)."""
        return -u * (-u).exp()

    def bend(self, u: arb, g: arb, slope: arb) -> arb:  # noqa: ARG002 - both follow from u
        """Return the largest |u - 1|·exp(-u)."""
        return abs((u - 1) * (-u).exp()).upper()

    # φ(u) is the integral of v·exp(-uv) over 0 ≤ v ≤ 1, which gives both derivatives at u = 0.
    @property
    def gain_slope(self) -> arb:
        """1/3: as an even function, φ has a kink at the origin."""
        return exact(1) / 3

    @property
    def gain_bend(self) -> arb:
        """1/4, the value of φ'' at the origin."""
        return exact(1) / 4

    def head(self, c: arb) -> float:
        """Return a point up to which |h| ≤ |h(0)|, h = c·φ - g, or 0 if |h| grows from there."""
        # h falls from the origin, as h'(0) = -c/3, while the slope c/3 exceeds u times the cap
        # c/4 + 1 on |h''|. If h(0) ≤ 0, |h| grows.
        start = c / 2 - 1
        if not start > 0:
            return 0.0
        falls = c / 3 / (c / 4 + 1)
        # |h'| ≤ c/3 + 1/e, so that h cannot reach -h(0) before this point.
        stays_small = 2 * start / (c / 3 + 0.5)
        return downward(falls.min(stays_small))


@dataclass(frozen=True)
class ButterworthFilter(ScaleFreeFilter):
    """The Butterworth filter, g = 1/(1 + u^p) with p = 2q, for q ≥ 2."""

    degree: int
    order: ClassVar[int] = 1
    tail_start: ClassVar[float] = 1.0  # u·g falls from u^p = 1/(p - 1) on

    @property
    def power(self) -> int:
        """The p above."""
        return 2 * self.degree

    # With z = u^p/(1 + u^p) = 1 - g: u·z' = p·z(1 - z), u²·z'' = p·z(1 - z)(p(1 - 2z) - 1), and
    # z(1 - z) = u^p/(1 + u^p)² ≤ u² because p ≥ 2.
    @property
    def largest_bend(self) -> arb:
        """p(p + 1)."""
        return exact(self.power * (self.power + 1))

    @property
    def largest_gain(self) -> arb:
        """1: φ = u^(p - 2)/(1 + u^p)."""
        return exact(1)

    @property
    def first_gain(self) -> arb:
        """0, as p > 2."""
        return exact(0)

    # u²·φ'' = φ·((m - 2)(m - 3) - m(p - m)) with m = p(1 - z) in [0, p]: the bracket is at most p²
    # in size, and φ ≤ u² because p ≥ 4.
    @property
    def gain_bend(self) -> arb:
        """p²."""
        return exact(self.power**2)

    def in_floats(self, u: Array) -> Array:
        """Return g at many points in floating point, for a search."""
        return np.asarray(Butterworth(self.degree).shrinkage(u**2, 1.0))

    def shrinkage(self, u: arb) -> arb:
        """Return 1/(1 + u^p)."""
        return 1 / (1 + u**self.power)

    def slope(self, u: arb) -> arb:
        """Return -p·u^(p - 1)/(1 + u^p)²."""
        return -self.power * u ** (self.power - 1) / (1 + u**self.power) ** 2

    def bend(self, u: arb, g: arb, slope: arb) -> arb:  # noqa: ARG002 - the slope follows from u
        """Return the largest |g''|, as in the comment above."""
        p = self.power
        return abs(p * u ** (p - 2) * g**2 * (p * (2 * g - 1) - 1)).upper()

    def head(self, c: arb) -> float:
        """Return a point up to which |h| ≤ |h(0)| = 1, h = (c·u^(p - 2) - 1)/(1 + u^p)."""
        return downward((2 / c).root(self.power - 2))


@dataclass(frozen=True)
class BesselFilter(CosineFilter):
    """Accelerated flow, g = 0F1(ν + 1; -u²/4) with ν = (friction - 1)/2."""

    friction: float
    order: ClassVar[int] = 2

    @property
    def _nu(self) -> arb:
        return (exact(self.friction) - 1) / 2

    @property
    def tail_start(self) -> float:  # type: ignore[override]
        """A point with u² well above r - 2, from where on the envelope of u·g falls."""
        return math.sqrt(2 * self.friction)

    def in_floats(self, u: Array) -> Array:
        """Return the shrinkage of the method itself, which is much faster."""
        return np.asarray(AcceleratedFlow(self.friction).shrinkage(u**2, 1.0))

    def even_moment(self, k: int) -> arb:
        """Return (1/2)_k / (ν + 1)_k."""
        return (exact(1) / 2).rising(k) / (self._nu + 1).rising(k)

    def shrinkage(self, u: arb) -> arb:
        """Return 0F1(ν + 1; -u²/4)."""
        return self._of_next_order(0, u)

    def slope(self, u: arb) -> arb:
        """Return -u/(2(ν + 1)) times the shrinkage of order ν + 1."""
        return -u / (2 * (self._nu + 1)) * self._of_next_order(1, u)

    def _of_next_order(self, shift: int, u: arb) -> arb:
        """Return the shrinkage of order ν + shift."""
        return _bessel_shrinkage(self._nu + shift, u)

    def bend(self, u: arb, g: arb, slope: arb) -> arb:
        """Return a cap on |g''| = |g + r·g'/u|, by the differential equation."""
        return abs(g + self.friction * slope / u).upper() if u > 0 else self.largest_bend

    def tail_in_floats(self, start: Array) -> Array:
        """Return the envelope of u·g divided by start, for a search."""
        g = self.in_floats(start)
        slope = -start / (self.friction + 1) * BesselFilter(self.friction + 2).in_floats(start)
        q = 1 - (self.friction - 2) / start**2
        return np.asarray(np.sqrt(g**2 + (g / start + slope) ** 2 / q))

    def tail(self, start: float) -> arb:
        """Return the envelope of u·g divided by start, or that of g if friction < 2."""
        u = exact(start)
        g = self.shrinkage(u)
        slope = self.slope(u)
        # g² + g'² never grows, because the derivative of this energy is -2r·g'²/u.
        if self.friction < 2:
            return (g**2 + slope**2).upper().sqrt()
        # p = u·g solves p'' + (r - 2)p'/u + qp = 0 with q = 1 - (r - 2)/u². As q grows, p² + p'²/q
        # never grows, and it bounds p² from u on.
        q = 1 - (2 * self._nu - 1) / u**2
        return ((u * g) ** 2 + (g + u * slope) ** 2 / q).upper().sqrt() / u

    def square_tail(self, start: float) -> arb:
        """Return the envelope of u²·g, which is infinite if friction < 4."""
        if self.friction < 4:
            return exact(math.inf)
        u = exact(start)
        g = self.shrinkage(u)
        # p = u²·g solves p'' + (r - 4)p'/u + qp = 0 with q = 1 - (2r - 6)/u², and as q grows,
        # p² + p'²/q never grows.
        q = 1 - (2 * exact(self.friction) - 6) / u**2
        velocity = 2 * u * g + u**2 * self.slope(u)
        return ((u**2 * g) ** 2 + velocity**2 / q).upper().sqrt()


@dataclass(frozen=True)
class BesselBand(BesselFilter):
    """All shrinkages with friction from ``friction`` ≥ 2 to ``last``: balls that contain them."""

    last: float

    @property
    def _nu(self) -> arb:
        return (exact(self.friction).union(exact(self.last)) - 1) / 2

    @property
    def width(self) -> arb:
        """The distance of the last friction from the first."""
        return exact(self.last) - exact(self.friction)

    @property
    def friction_bend(self) -> arb:
        """The cap 3√3/r² on the second derivative of g by friction, at every u."""
        return 3 * exact(3).sqrt() / exact(self.friction) ** 2

    def _of_next_order(self, shift: int, u: arb) -> arb:
        """Return a ball with the shrinkages of all frictions: both ends, and the curvature."""
        orders = [(exact(r) - 1) / 2 + shift for r in (self.friction, self.last)]
        first, last = (_bessel_shrinkage(nu, u) for nu in orders)
        return first.union(last) + ball(0, self.friction_bend * self.width**2 / 8)


def _bessel_shrinkage(nu: arb, u: arb) -> arb:
    """Return 0F1(ν + 1; -u²/4)."""
    # |g| ≤ 1 always, because g is the mean of cosines.
    anything = ball(0, 1)
    # The alternating series cancels for large u, so the precision is raised until enough bits stay.
    for factor in (1, 4, 16):
        with working_precision(factor * PRECISION):
            # flint sums the series of 0F1 accurately up to here
            if u < 20:
                value = (-u * u / 4).hypgeom_0f1(nu + 1)
            elif u < nu:
                value = _series(nu, u)
            else:
                value = (nu + 1).gamma() * (2 / u) ** nu * u.bessel_j(nu)
        if value.rel_one_accuracy_bits() > 80:
            return value
    return value.intersection(anything) if value.is_finite() else anything


def _series(nu: arb, u: arb) -> arb:
    # The sum 0F1(ν + 1; -u²/4): for large u flint expands at infinity, which fails if ν is larger.
    z = u * u / 4
    term = total = exact(1)
    smallest = exact(2.0) ** (-2 * PRECISION)
    for k in range(1, SERIES_TERMS):
        ratio = z / (k * (nu + k))
        term = -term * ratio
        total += term
        # From here on the terms at least halve, so their sum is at most the last term.
        if ratio < 0.5 and abs(term) < smallest:
            return ball(total, abs(term))
    return ball(0, 1)
