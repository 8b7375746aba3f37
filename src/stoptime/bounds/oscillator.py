r"""The heavy ball with damping √μ as a function of two variables, in ball arithmetic.

.. math:: g(a, b) = e^{-a} (\cos b + a \,\mathrm{sinc}\, b), \qquad a = \sqrt{\mu}\,t, \quad b^2 = u^2 - a^2,
          \quad u = t\sqrt{s},

and its gain :math:`\varphi = (1 - g)/u^2 = \int_0^1 v e^{-va}\, \mathrm{sinc}(vb)\, dv`, entire in a and b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoptime.bounds.balls import Interval, centre_and_radius, centred, exact, hull, symmetric

if TYPE_CHECKING:
    from flint import arb


def shrinkage(a: arb, b: arb) -> arb:
    """Return g(a, b)."""
    return (-a).exp() * (b.cos() + a * b.sinc())


def slope_in_damping(a: arb, b: arb) -> arb:
    """Return the derivative of g in a."""
    return (-a).exp() * ((1 - a) * b.sinc() - b.cos())


def slope_in_frequency(a: arb, b: arb) -> arb:
    """Return the derivative of g in b."""
    return (-a).exp() * (a * sinc_slope(b) - b.sin())


def sinc_slope(b: arb) -> arb:
    """Return (cos b - sinc b)/b, the derivative of sinc, for b ≥ 0."""
    if b > 1:
        return (b.cos() - b.sinc()) / b
    if b < 2:
        # The quotient would divide by a ball around zero; the series is safe on a short ball.
        return -b / 3 * (-b * b / 4).hypgeom_0f1(exact(5) / 2)
    return symmetric(exact(1) / 2)


@dataclass(frozen=True)
class Expansion:
    """Values of P = u·g and Q = (1 - g)/u at the centre of an interval of b, and all their slopes in it."""

    radius: arb
    values: tuple[arb, arb]
    slopes: tuple[arb, arb]

    def cap(self, tau: arb) -> arb:
        """Return a cap on |P/τ - τQ| over the interval: the mean-value form."""
        value = self.values[0] / tau - tau * self.values[1]
        slope = self.slopes[0] / tau - tau * self.slopes[1]
        return abs(value) + abs(slope) * self.radius


def expand(a: arb, interval: Interval) -> Expansion:
    """Expand P and Q in b over an interval, for a fixed damping a > 0."""
    middle, radius = centre_and_radius(interval)
    b = hull(interval)
    u, u_middle = (a**2 + b**2).sqrt(), (a**2 + middle**2).sqrt()
    g, g_slope = shrinkage(a, b), slope_in_frequency(a, b)
    g_middle = shrinkage(a, middle)
    values = (u_middle * g_middle, (1 - g_middle) / u_middle)
    return Expansion(radius, values, (b / u * g + u * g_slope, _q_slope(a, interval)))


def _q_slope(a: arb, interval: Interval) -> arb:
    """Return a ball with all slopes of Q in b over an interval."""
    b = hull(interval)
    u = (a**2 + b**2).sqrt()
    if u > 1:
        return -(slope_in_frequency(a, b) + (1 - shrinkage(a, b)) * b / u**2) / u
    # Q = uφ with |φ''| ≤ 1/12 does not divide by powers of a wide ball near zero.
    middle, radius = centre_and_radius(interval)
    u_squared = a**2 + middle**2
    phi = (1 - shrinkage(a, middle)) / u_squared
    phi_slope = -(slope_in_frequency(a, middle) + 2 * middle * phi) / u_squared
    all_slopes = phi_slope + symmetric(radius / 12)
    return b / u * centred(phi, all_slopes, radius) + u * all_slopes
