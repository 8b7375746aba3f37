r"""Phases to twice the usual digits, for filters that swing back to where they began.

With hardly any friction the shrinkage returns to one, again and again, and 1 - g nearly vanishes there. What
is left of it depends on the phase t√s far beyond its rounding. So the rounding is computed as well, by
Dekker's products of halves, and the returns are written as sums of small terms of one sign.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial, log, pi

import numpy as np
from scipy import special

from stoptime.methods.special import HANKEL_START, Array, piecewise

__all__ = ["LEAST_FRICTION", "nearly_frictionless_learned", "phase", "versine"]

LEAST_FRICTION = 0.05  # from here on 1 - g is never so small that the rounding of the phase shows
SPLITTER = 134217729.0  # 2^27 + 1: cuts 53 bits into two halves
HALF_GAMMA_TERMS = 12  # of a series in 2·friction/2 < 0.05
NODES = 64  # of a quadrature for phases up to 25


def phase(s: Array, t: Array, damping: Array | float = 0.0) -> tuple[Array, Array]:
    r"""Return θ = t√(s - γ²) rounded, and what the rounding took away, for γ² well below s.

    Examples
    --------
    >>> high, low = phase(np.array(2.0), np.array(1.0))
    >>> f"{float(high)!r} {float(low):.3e}"  # the root of two to 32 digits
    '1.4142135623730951 -9.667e-17'
    """
    _, exponent = np.frexp(s)
    scale = exponent // 2  # s is brought near one: no product over- or underflows
    s, gamma, t = np.ldexp(s, -2 * scale), np.ldexp(damping, -scale), np.ldexp(t, scale)
    square, square_rest = _product(gamma, gamma)
    difference = s - square
    lost = (s - difference) - square - square_rest
    omega = np.sqrt(difference)
    back, back_rest = _product(omega, omega)
    omega_rest = ((difference - back) - back_rest + lost) / (2 * omega)
    theta, theta_rest = _product(omega, t)
    return theta, theta_rest + omega_rest * t


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return a product and its rounding error."""
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> tuple[Array, Array]:
    big = SPLITTER * a
    high = big - (big - a)
    return high, a - high


def versine(theta: Array, rest: Array) -> Array:
    """Return 1 - cos(θ + rest).

    Examples
    --------
    >>> float(versine(np.array(0.0), np.array(1e-20)))
    5e-41
    """
    half, small = theta / 2, rest / 2
    return np.asarray(2 * (np.sin(half) * np.cos(small) + np.cos(half) * np.sin(small)) ** 2)


def nearly_frictionless_learned(friction: float, u: Array, rest: Array) -> Array:
    r"""Return 1 - g of accelerated flow at phase u + rest, for a friction r below :data:`LEAST_FRICTION`.

    The shrinkage is a mean of cosines, which all but swing together:

    .. math:: 1 - g = 1 - \cos u - \frac{u^2}{2 B(\frac12, \frac r2)} \int_{-1}^1 (1-x^2)^{r/2}
        \frac{\sin\frac{u(1+x)}2}{\frac{u(1+x)}2} \frac{\sin\frac{u(1-x)}2}{\frac{u(1-x)}2}\, dx.

    Far out Hankel's expansion has the same form, with all that is small computed as such.
    """
    far = u > HANKEL_START
    cases = [
        (~far, lambda u, rest: _by_cosines(friction, u, rest)),
        (far, lambda u, rest: _by_expansion(friction, u, rest)),
    ]
    return piecewise(cases, u, rest)


def _by_cosines(friction: float, u: Array, rest: Array) -> Array:
    x, weights = _gegenbauer(friction)
    half = u[:, None] / (2 * pi)
    mean = (np.sinc(half * (1 + x)) * np.sinc(half * (1 - x))) @ weights
    return versine(u, rest) - u * u / 2 * mean


@lru_cache(maxsize=64)
def _gegenbauer(friction: float) -> tuple[Array, Array]:
    """Return nodes, and weights divided by the normalisation of the mean of cosines."""
    x, weights = special.roots_jacobi(NODES, friction / 2, friction / 2)
    return x, weights / special.beta(0.5, friction / 2)


def _by_expansion(friction: float, u: Array, rest: Array) -> Array:
    shift = friction * pi / 4
    chi, chi_rest = u - shift, rest
    chi_rest = chi_rest + ((u - chi) - shift)  # exact: the shift is tiny beside u
    decay = friction / 2 * np.log(u) - _log_constant(friction / 2)
    even, odd = _small_hankel(friction, u)  # 1 - P and Q: both vanish with the friction
    waves = versine(chi, chi_rest) + even * np.cos(chi) + odd * np.sin(chi)
    return np.asarray(-np.expm1(-decay) + np.exp(-decay) * waves)


@lru_cache(maxsize=64)
def _log_constant(e: float) -> float:
    """Return log(Γ(1/2 + e)2^e/√π) for a small e, by its Taylor series."""
    terms = [
        special.polygamma(k - 1, 0.5) * e**k / factorial(k) for k in range(1, HALF_GAMMA_TERMS)
    ]
    return e * log(2) + float(sum(terms))


def _small_hankel(friction: float, u: Array) -> tuple[Array, Array]:
    r"""Return 1 - P and Q of Hankel's expansion of order ν = (r - 1)/2, in which 4ν² - 1 = r(r - 2)."""
    even, odd = np.zeros_like(u), np.zeros_like(u)
    term = friction * (friction - 2) / 8 / u  # a₁/u
    for k in range(1, int(HANKEL_START)):
        sign = 1.0 if k % 4 in {1, 2} else -1.0
        if k % 2:
            odd += sign * term
        else:
            even += sign * term
        term = term * (((friction - 1) ** 2 - (2 * k + 1) ** 2) / (8 * (k + 1))) / u
    return even, odd
