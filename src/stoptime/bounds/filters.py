r"""Shrinkage as a characteristic function, in ball arithmetic.

The flows of this package that need no condition number have a shrinkage of one variable,

.. math:: g(u) = E \cos(uT), \qquad u = \sqrt{ts} \text{ (gradient) or } t\sqrt{s} \text{ (accelerated flow)},

with a symmetric random variable T: normal of variance 2 for gradient flow, the power of a semicircle
(Poisson's integral of the Bessel function) for accelerated flow. So one evaluation in the middle of a cell
and the even moments of T bound g on all of it, with no need of special functions of wide balls:

.. math:: |g''| \le E T^2, \qquad |\varphi''| \le E T^4 / 12, \qquad \varphi(u) = (1 - g(u)) / u^2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from stoptime.bounds.balls import PRECISION, exact, symmetric, working_precision
from stoptime.bounds.enclosure import WorkLimitError

if TYPE_CHECKING:
    from flint import arb

SAMPLES = 2000
SAMPLED_SCALES = 5.0  # in units of sqrt(2 / E T²), where g has long left 1
HORIZON_GROWTH = 1.25
HORIZON_STEPS = 80
ENOUGH_BITS = 80
SERIES_REACH = 20.0  # of u; the series of flint is reliable up to here
SERIES_TERMS = 20_000
PRECISION_RAISES = (1, 4, 16)


class CosineFilter(ABC):
    """The shrinkage of a flow as a function of one variable u ≥ 0."""

    order: ClassVar[int]
    """2 where the stop is the scale σ itself, 1 where it is σ²."""

    @property
    @abstractmethod
    def tail_start(self) -> float:
        """:meth:`tail` may be asked from here on."""

    @abstractmethod
    def even_moment(self, k: int) -> arb:
        """Return E T^(2k)."""

    @abstractmethod
    def shrinkage(self, u: arb) -> arb:
        """Return g(u) for a thin ball u > 0."""

    @abstractmethod
    def slope(self, u: arb) -> arb:
        """Return g'(u) for a thin ball u > 0."""

    @abstractmethod
    def tail(self, start: float) -> arb:
        """Return e with |g(u)| ≤ e for all u ≥ start; where r ≥ 2, also u·|g(u)| ≤ start·e."""

    def scale(self, stop: float) -> arb:
        """Return σ with u = σ·√x at that dimensionless stop, x = s/λ*."""
        return exact(stop) if self.order == 2 else exact(stop).sqrt()

    def sample(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a grid of u and g there, in floating point: for searching, never for proving."""
        width = SAMPLED_SCALES * (2 / float(self.even_moment(1))) ** 0.5
        u = np.linspace(0.0, width, SAMPLES + 1)[1:]
        return u, np.array([float(self.shrinkage(exact(v))) for v in u.tolist()])


@dataclass(frozen=True)
class GaussianFilter(CosineFilter):
    """Gradient flow, g = exp(-u²): T is normal with variance 2."""

    order = 1

    @property
    def tail_start(self) -> float:
        """From sqrt(1/2) on, u·exp(-u²) falls."""
        return 1.0

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
class BesselFilter(CosineFilter):
    """Accelerated flow: T has density proportional to (1 - T²)^(ν - 1/2) on [-1, 1], ν = (friction - 1)/2."""

    friction: float
    order = 2

    @property
    def _nu(self) -> arb:
        return (exact(self.friction) - 1) / 2

    @property
    def tail_start(self) -> float:
        """Where u·g(u) surely falls, if that is long before the oscillation, which begins beyond ν."""
        falls, oscillates = math.sqrt(self.friction + 1) + 1, (self.friction - 1) / 2
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
        """Return Sonin's envelope in the oscillation; before it, Rayleigh's bound up to there."""
        u, nu = exact(start), self._nu
        if u > nu:
            return self._sonin(u, self.shrinkage(u), self.slope(u))
        beyond = self._sonin(nu, _rayleigh(nu, nu), -nu / (2 * (nu + 1)) * _rayleigh(nu + 1, nu))
        return _rayleigh(nu, u).upper().max(beyond * nu / u)

    def _sonin(self, u: arb, g: arb, slope: arb) -> arb:
        r"""Return the envelope from u on, given the shrinkage and its slope there.

        .. math:: p = u^{r/2} g \text{ solves } p'' + q p = 0, \qquad q = 1 - (\nu^2 - 1/4)/u^2,

        so :math:`p^2 + p'^2/q` (for ν ≥ 1/2, where q grows) or :math:`q p^2 + p'^2` (for ν < 1/2, where q ≥ 1
        falls) never grows, and bounds p² from u on.
        """
        velocity = slope + exact(self.friction) / 2 * g / u
        q = 1 - (self._nu**2 - exact(1) / 4) / u**2
        if self.friction >= 2:
            return (g**2 + velocity**2 / q).upper().sqrt()
        return (q * g**2 + velocity**2).upper().sqrt()


def _rayleigh(nu: arb, u: arb) -> arb:
    r"""Return a ball with the shrinkage of order ν, for 0 < u ≤ ν, without evaluating it.

    .. math:: 0 < g = \prod_k (1 - u^2/j_k^2) \le e^{-u^2/4(\nu + 1)}, \qquad \sum_k j_k^{-2} = 1/4(\nu + 1),

    as the first zero j₁ lies beyond ν. In the same way g'/g ≤ -u/2(ν + 1), so u·g falls once u² ≥ 2(ν + 1).
    """
    return exact(0).union((-(u**2) / (4 * (nu + 1))).exp())


def _bessel_shrinkage(nu: arb, u: arb) -> arb:
    """Return 0F1(ν + 1; -u²/4), with more working precision where the series cancels."""
    value = symmetric(exact(1))
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
    # The cosine of a random angle; nothing better is known at this precision.
    return value.intersection(symmetric(exact(1))) if value.is_finite() else symmetric(exact(1))


def _series(nu: arb, u: arb) -> arb:
    """Sum 0F1(ν + 1; -u²/4): flint expands at infinity as soon as u is large, though ν be larger."""
    z = u * u / 4
    term = total = exact(1)
    smallest = exact(2.0) ** (-2 * PRECISION)
    for k in range(1, SERIES_TERMS):
        ratio = z / (k * (nu + k))
        term = -term * ratio
        total += term
        if ratio < 0.5 and abs(term) < smallest:
            return total + symmetric(abs(term).upper())  # the rest is a geometric series at worst
    return symmetric(exact(1))


def gain(u: arb, g: arb) -> arb:
    """Return φ = (1 - g)/u²."""
    return (1 - g) / (u * u)


def horizon(cap_beyond: Callable[[float], arb], start: float, below: float) -> float:
    """Return the first point of a growing sequence beyond which the cap lies below a level."""
    point = start
    for _ in range(HORIZON_STEPS):
        if cap_beyond(point) < below:
            return point
        point *= HORIZON_GROWTH
    raise WorkLimitError(
        f"The tail beyond u = {point:.3g} is not proven to stay below {below:.6g}: "
        "it decays too slowly for this friction."
    )
