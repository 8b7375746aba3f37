r"""The shrinkage of gradient flow and accelerated flow as a characteristic function, in balls.

.. math:: g(u) = E \cos(uT), \qquad |g''| \le E T^2, \qquad |\varphi''| \le E T^4 / 12, \qquad
          \varphi(u) = (1 - g(u)) / u^2

with a symmetric random variable T. So one evaluation at the centre of a cell and the even moments
of T bound g on the whole cell, and no special function is ever evaluated on a wide ball.

Each filter has g as ``shrinkage`` and g' as ``slope``, both for thin balls u > 0; E T^(2k) as
``even_moment``; and ``tail(start)``, for start ≥ ``tail_start``: a number e with |g(u)| ≤ e and, if
friction ≥ 2, u·|g(u)| ≤ start·e for all u ≥ start. Its ``order`` is 2 where the stop is the scale σ
of u = σ·√x, x = s/λ*, and 1 where the stop is σ². The page *Certificates* has all proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stoptime.bounds.balls import PRECISION, ball, exact, working_precision

if TYPE_CHECKING:
    from flint import arb

    from stoptime.support.arrays import Array

SAMPLES = 2000
SAMPLED_SCALES = 5.0  # in units of sqrt(2 / E T²); g is far from 1 at the end of that range
ENOUGH_BITS = 80
SERIES_REACH = 20.0  # flint sums the series of 0F1 accurately for u up to here
SERIES_TERMS = 20_000
PRECISION_RAISES = (1, 4, 16)


@dataclass(frozen=True)
class GaussianFilter:
    """Gradient flow, g = exp(-u²): T is normal with variance 2."""

    order: ClassVar[int] = 1
    tail_start: ClassVar[float] = 1.0  # u·exp(-u²) falls from sqrt(1/2) on

    def even_moment(self, k: int) -> arb:
        """Return (2k)!/k!."""
        return exact(2 * k).fac() / exact(k).fac()

    def shrinkage(self, u: arb) -> arb:
        """Return exp(-u²)."""
        return (-u * u).exp()

    def slope(self, u: arb) -> arb:
        """Return -2u·exp(-u²)."""
        return -2 * u * self.shrinkage(u)

    def tail(self, start: float) -> arb:
        """Return exp(-start²): the shrinkage is monotone."""
        return self.shrinkage(exact(start))


@dataclass(frozen=True)
class BesselFilter:
    """Accelerated flow, g = 0F1(ν + 1; -u²/4) with ν = (friction - 1)/2."""

    friction: float
    order: ClassVar[int] = 2

    @property
    def _nu(self) -> arb:
        return (exact(self.friction) - 1) / 2

    @property
    def tail_start(self) -> float:
        """A point from which on u·g(u) certainly falls, or the start of the oscillation at ν."""
        falls = math.sqrt(self.friction + 1) + 1
        oscillates = (self.friction - 1) / 2
        return falls if falls < oscillates else oscillates + 1

    def even_moment(self, k: int) -> arb:
        """Return (1/2)_k / (ν + 1)_k."""
        return (exact(1) / 2).rising(k) / (self._nu + 1).rising(k)

    def shrinkage(self, u: arb) -> arb:
        """Return 0F1(ν + 1; -u²/4)."""
        return _bessel_shrinkage(self._nu, u)

    def slope(self, u: arb) -> arb:
        """Return -u/(2(ν + 1)) times the shrinkage of order ν + 1."""
        return -u / (2 * (self._nu + 1)) * _bessel_shrinkage(self._nu + 1, u)

    def tail(self, start: float) -> arb:
        """Return Sonin's envelope beyond ν; before ν, also Rayleigh's bound from start to ν."""
        u = exact(start)
        nu = self._nu
        if u > nu:
            return self._sonin(u, self.shrinkage(u), self.slope(u))
        # Rayleigh's bound at ν stands in for g and g', because the envelope is not valid before ν.
        beyond = self._sonin(nu, _rayleigh(nu, nu), -nu / (2 * (nu + 1)) * _rayleigh(nu + 1, nu))
        return _rayleigh(nu, u).upper().max(beyond * nu / u)

    def _sonin(self, u: arb, g: arb, slope: arb) -> arb:
        """Return the envelope from u on, given the shrinkage and its slope there.

        p = u^(r/2)·g solves p'' + qp = 0 with q = 1 - (ν² - 1/4)/u². So p² + p'²/q (if q grows) or
        qp² + p'² (if q ≥ 1 falls) never grows, and it bounds p² from u on.
        """
        velocity = slope + exact(self.friction) / 2 * g / u
        q = 1 - (self._nu**2 - exact(1) / 4) / u**2
        # q grows in u if ν ≥ 1/2, which is friction ≥ 2.
        if self.friction >= 2:
            return (g**2 + velocity**2 / q).upper().sqrt()
        return (q * g**2 + velocity**2).upper().sqrt()


CosineFilter = GaussianFilter | BesselFilter


def scale_of(cosine_filter: CosineFilter, stop: float) -> arb:
    """Return the scale σ at a dimensionless stop."""
    return exact(stop) if cosine_filter.order == 2 else exact(stop).sqrt()


def sample(cosine_filter: CosineFilter) -> tuple[Array, Array]:
    """Return a grid of u and g there, in floating point: for a search, never for a proof."""
    width = SAMPLED_SCALES * (2 / float(cosine_filter.even_moment(1))) ** 0.5
    u = np.linspace(0.0, width, SAMPLES + 1)[1:]
    return u, np.array([float(cosine_filter.shrinkage(exact(v))) for v in u.tolist()])


def _rayleigh(nu: arb, u: arb) -> arb:
    """Return a ball with the shrinkage of order ν, for 0 < u ≤ ν: 0 < g ≤ exp(-u²/4(ν + 1))."""
    return exact(0).union((-(u**2) / (4 * (nu + 1))).exp())


def _bessel_shrinkage(nu: arb, u: arb) -> arb:
    """Return 0F1(ν + 1; -u²/4)."""
    # |g| ≤ 1 always, because g is the mean of cosines.
    anything = ball(0, 1)
    value = anything
    # The alternating series cancels for large u, so the precision is raised until enough bits stay.
    for factor in PRECISION_RAISES:
        with working_precision(factor * PRECISION):
            if u < SERIES_REACH:
                value = (-u * u / 4).hypgeom_0f1(nu + 1)
            elif u < nu:
                value = _series(nu, u)
            else:
                value = (nu + 1).gamma() * (2 / u) ** nu * u.bessel_j(nu)
        if value.rel_one_accuracy_bits() > ENOUGH_BITS:
            return value
    return value.intersection(anything) if value.is_finite() else anything


def _series(nu: arb, u: arb) -> arb:
    """Sum 0F1(ν + 1; -u²/4): for large u flint expands at infinity, which fails if ν is larger."""
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
