"""The shrinkages of one variable u that have certified constants, as mathematical functions.

All but the Butterworth filter are g(u) = E cos(uT) with a symmetric random variable T: values at
the centre of a cell and moments of T bound g on it, so that no special function sees a wide ball.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stoptime.bounds.balls import PRECISION, arb, ball, downward, exact, working_precision
from stoptime.methods.base import Filter
from stoptime.methods.flows import AcceleratedFlow, CriticalFlow, GradientFlow
from stoptime.methods.ridge import Butterworth, IteratedRidge
from stoptime.methods.special import bessel_decay
from stoptime.support.arrays import Array


class Cell(NamedTuple):
    """A function on a cell: its value at the centre, and balls with all values and all slopes."""

    centre: arb
    values: arb
    slopes: arb


class Curve(ABC):
    """A shrinkage g with g(0) = 1, its slope, and a cap on the size of its second derivative."""

    @property
    @abstractmethod
    def bend_cap(self) -> arb:
        """A cap on |g''| everywhere."""

    @abstractmethod
    def shrinkage(self, u: arb) -> arb:
        """Return g, for a thin ball u > 0."""

    @abstractmethod
    def slope(self, u: arb) -> arb:
        """Return g', for a thin ball u > 0."""

    def bend(self, u: arb, g: arb, slope: arb) -> arb:  # noqa: ARG002 - for curves that use them
        """Return a cap on |g''| in a ball u, given balls with g and g' there."""
        return self.bend_cap

    def cell(self, u: arb, radius: arb) -> Cell:
        """Return g around a thin ball u > 0."""
        # Taylor's formula, twice: caps from the largest |g''| give a smaller cap on it here.
        centre = self.shrinkage(u)
        slope = self.slope(u)
        bend = self.bend_cap
        for _ in range(2):
            slopes = ball(slope, bend * radius)
            values = ball(centre, abs(slope) * radius + bend * radius**2 / 2)
            bend = bend.min(self.bend(ball(u, radius), values, slopes))
        return Cell(centre, values, slopes)


@dataclass(frozen=True)
class Shape(Curve):
    """A shrinkage g(u), u² = s·t or u = t·√s, with bounds on its gain φ = (1 - g)/u².

    ``gain_cap`` is at least φ, and ``gain_bend`` at least the size of φ''. ``tail`` may be asked
    from ``tail_start`` on.
    """

    method: Any
    tail_start = 1.0

    @property
    def order(self) -> int:
        """2 where the stop is the scale σ of u = σ·√x, and 1 where the stop is σ²."""
        return int(self.method.time_power)

    def in_floats(self, u: Array) -> Array:
        """Return g at many points in floating point: for a search, never for a proof."""
        return np.asarray(self.method.shrinkage(u**2, 1.0))

    # Without oscillation g falls everywhere, and u·g falls from ``tail_start`` on.
    def tail(self, start: float) -> arb:
        """Return an e with |g(u)| ≤ e for u ≥ start; u·|g| ≤ start·e too, unless friction < 2."""
        return self.shrinkage(exact(start))

    def tail_in_floats(self, start: Array) -> Array:
        """Return :meth:`tail` at many points in floating point, for a search."""
        return self.in_floats(start)

    def square_tail(self, start: float) -> arb:
        """Return a cap on u²·|g| for u ≥ start, where start is at least 3 and ``tail_start``."""
        return exact(start) ** 2 * self.tail(start)

    def even_moment(self, k: int) -> arb:
        """Return E T^(2k), which bounds g and φ: the Butterworth filter has other bounds."""
        raise NotImplementedError

    @property
    def bend_cap(self) -> arb:
        """A cap on |g''|."""
        return self.even_moment(1)

    @property
    def gain_cap(self) -> arb:
        """A cap on φ; but for the Butterworth filter it is φ at the origin."""
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
        if not (start * bend < 0 and bend.is_finite()):
            return 0.0
        keeps_sign = (abs(bend) / (c * sixth / 30 + fourth)).sqrt()
        # The head also ends before h could have crossed zero and reached -h(0).
        stays_small = (2 * abs(start) / (c * fourth / 12 + second)).sqrt()
        return max(0.0, downward(keeps_sign.min(stays_small)))


class _Gaussian(Shape):
    """Gradient flow, g = exp(-u²): T is normal with variance 2."""

    def even_moment(self, k: int) -> arb:
        return exact(2 * k).fac() / exact(k).fac()

    def shrinkage(self, u: arb) -> arb:
        return (-u * u).exp()

    def slope(self, u: arb) -> arb:
        return -2 * u * self.shrinkage(u)


class _Power(Shape):
    """Ridge iterated q times, g = (1 + u²/q)^(-q): T is normal with a random, gamma variance."""

    def in_floats(self, u: Array) -> Array:
        # The power would multiply the rounding of 1 + u²/q by q.
        return np.asarray(np.exp(-self.method.times * np.log1p(u**2 / self.method.times)))

    def even_moment(self, k: int) -> arb:
        times = exact(self.method.times)
        return exact(2 * k).fac() / exact(k).fac() * times.rising(k) / times**k

    def shrinkage(self, u: arb) -> arb:
        times = exact(self.method.times)
        return (1 + u * u / times) ** -times

    def slope(self, u: arb) -> arb:
        return -2 * u * self.shrinkage(u) / (1 + u * u / exact(self.method.times))


class _Matern(Shape):
    """Critically damped flow, g = (1 + u)·exp(-u): T has Student's distribution, and E T⁴ = ∞."""

    tail_start = 2.0  # u·g falls from the golden ratio 1.618 on

    def even_moment(self, k: int) -> arb:
        return exact(1) if k == 1 else exact(math.inf)

    def shrinkage(self, u: arb) -> arb:
        return (1 + u) * (-u).exp()

    def slope(self, u: arb) -> arb:
        return -u * (-u).exp()

    # φ(u) is the integral of v·exp(-uv) over 0 ≤ v ≤ 1, so φ'(0) = -1/3 and φ''(0) = 1/4.
    gain_bend = property(lambda _: exact(1) / 4)


class _Steep(Shape):
    """The Butterworth filter, g = 1/(1 + u^p) with p = 2q, for q ≥ 2."""

    gain_cap = property(lambda _: exact(1))  # φ = u^(p - 2)/(1 + u^p)

    @property
    def power(self) -> int:
        return int(2 * self.method.order)

    # With z = u^p/(1 + u^p) = 1 - g: u·z' = p·z(1 - z), u²·z'' = p·z(1 - z)(p(1 - 2z) - 1), and
    # z(1 - z) = u^p/(1 + u^p)² ≤ u² because p ≥ 2.
    bend_cap = property(lambda self: exact(self.power * (self.power + 1)))

    def shrinkage(self, u: arb) -> arb:
        return 1 / (1 + u**self.power)

    def slope(self, u: arb) -> arb:
        return -self.power * u ** (self.power - 1) / (1 + u**self.power) ** 2

    def bend(self, u: arb, g: arb, slope: arb) -> arb:  # noqa: ARG002 - the slope follows from u
        p = self.power
        return abs(p * u ** (p - 2) * g**2 * (p * (2 * g - 1) - 1)).upper()


class _Bessel(Shape):
    """Accelerated flow, g = 0F1(ν + 1; -u²/4) with ν = (friction - 1)/2."""

    # u² is well above r - 2 there, from where on the envelope of u·g falls.
    tail_start = property(lambda self: math.sqrt(2 * self.friction))

    @property
    def friction(self) -> float:
        return float(self.method.friction)

    @cached_property
    def nu(self) -> arb:
        return (exact(self.friction) - 1) / 2

    def even_moment(self, k: int) -> arb:
        return (exact(1) / 2).rising(k) / (self.nu + 1).rising(k)

    def shrinkage(self, u: arb) -> arb:
        return _bessel_shrinkage(self.nu, u)

    def slope(self, u: arb) -> arb:
        return -u / (2 * (self.nu + 1)) * _bessel_shrinkage(self.nu + 1, u)

    def bend(self, u: arb, g: arb, slope: arb) -> arb:
        # By the differential equation, g'' = -g - r·g'/u.
        return abs(g + self.friction * slope / u).upper() if u > 0 else self.bend_cap

    def _envelope(self, m: int, start: float) -> arb:
        """Return a cap on u^m·|g| from ``start`` on, for friction of at least 2m."""
        # p = u^m·g solves p'' + (r - 2m)p'/u + qp = 0 with this q. As q does not fall, p² + p'²/q
        # never grows, and it bounds p² from u on.
        u = exact(start)
        g = self.shrinkage(u)
        q = 1 - m * (exact(self.friction) - 1 - m) / u**2
        velocity = u**m * (m * g / u + self.slope(u))
        return ((u**m * g) ** 2 + velocity**2 / q).upper().sqrt()

    def tail(self, start: float) -> arb:
        if self.friction < 2:
            return self._envelope(0, start)
        return self._envelope(1, start) / exact(start)

    def tail_in_floats(self, start: Array) -> Array:
        g = self.in_floats(start)
        # as in `slope`, where the friction is larger by two than that of any method
        slope = -start / (self.friction + 1) * bessel_decay((self.friction + 1) / 2, start)
        q = 1 - (self.friction - 2) / start**2
        return np.asarray(np.sqrt(g**2 + (g / start + slope) ** 2 / q))

    def square_tail(self, start: float) -> arb:
        return self._envelope(2, start) if self.friction >= 4 else exact(math.inf)


def _bessel_shrinkage(nu: arb, u: arb) -> arb:
    """Return 0F1(ν + 1; -u²/4)."""
    # The alternating series cancels for large u, so the precision is raised until enough bits stay.
    for factor in (1, 4, 16):
        with working_precision(factor * PRECISION):
            # flint sums the series of 0F1 accurately up to here
            if u < 20 or u < nu:
                value = (-u * u / 4).hypgeom_0f1(nu + 1)
            else:
                value = (nu + 1).gamma() * (2 / u) ** nu * u.bessel_j(nu)
        if value.rel_one_accuracy_bits() > 80:
            return value
    # |g| ≤ 1 always, because g is the mean of cosines.
    return value.intersection(ball(0, 1)) if value.is_finite() else ball(0, 1)


SHAPES: dict[type[Filter], type[Shape]] = {
    GradientFlow: _Gaussian,
    AcceleratedFlow: _Bessel,
    CriticalFlow: _Matern,
    IteratedRidge: _Power,
    Butterworth: _Steep,
}
"""The methods whose shrinkage has one variable, each with its mathematical function."""


def shape_of(method: Filter) -> Shape:
    """Return the shrinkage of a flow."""
    return SHAPES[type(method)](method)
