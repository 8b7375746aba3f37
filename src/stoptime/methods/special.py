r"""Special functions of the filters: series, thresholds and forms without cancellation.

The decay of an accelerated flow is the normalised Bessel function

.. math:: \Lambda_\nu(u) = \Gamma(\nu+1) (2/u)^\nu J_\nu(u) = {}_0F_1(; \nu+1; -u^2/4).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import exp, factorial, gamma, lgamma, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.interpolate import PPoly

from stoptime.support.arrays import Array

TABLE_DEGREE = 12  # of polynomials of length one: 0.5^13/13!/2^12 is below the rounding

Cases = list[tuple[NDArray[np.bool_], Callable[..., Array]]]


def piecewise(cases: Cases, *arguments: Array) -> Array:
    """Apply to every entry the formula of the case whose mask holds there, and no other formula."""
    arrays = np.broadcast_arrays(*arguments)
    out = np.full(arrays[0].shape, np.nan)
    for mask, formula in cases:
        here = np.broadcast_to(mask, out.shape)
        if here.all():
            return formula(*(a.ravel() for a in arrays)).reshape(out.shape)
        if here.any():
            out[here] = formula(*(a[here] for a in arrays))
    return out


def series_reach(nu: float) -> float:
    """Return the largest u at which no two terms of the series cancel."""
    return 2 * sqrt(nu + 1)


def bessel_gain(nu: float, square: Array) -> Array:
    r"""Return :math:`(1-\Lambda_\nu(u))/u^2` for u² within :func:`series_reach`, of any sign."""
    # each term is at most 1/n of the one before, so that 18 of them are enough
    total = np.ones_like(square)
    for n in range(19, 1, -1):
        total = 1 - square / (4 * n * (nu + n)) * total
    return total / (4 * (nu + 1))


def bessel_decay(nu: float, u: Array) -> Array:
    r"""Return :math:`\Lambda_\nu(u)` for :math:`u \ge 0`, accurate relative to its envelope."""
    u = np.minimum(u, 1e150)  # t√s may overflow, and SciPy has no value at infinity
    last = 2 ** np.ceil(np.log2(u.max(initial=1.0)))
    # many values come from a table, if SciPy's function is called less often to make it
    if nu != 1 and u.size > (TABLE_DEGREE + 1) * last:
        return np.asarray(_decay_table(nu, int(last))(u))
    near = u <= series_reach(nu)
    cases: Cases = [
        (near, lambda v: 1 - v * v * bessel_gain(nu, v * v)),
        (~near, lambda v: _scipy_decay(nu, v)),
    ]
    return piecewise(cases, u)


@lru_cache(maxsize=16)
def _decay_table(nu: float, last: int) -> PPoly:
    """Return the decay on [0, last] as polynomials on intervals of length one."""
    angles = np.pi * (np.arange(TABLE_DEGREE + 1) + 0.5) / (TABLE_DEGREE + 1)
    # so short that their sums with whole numbers are not rounded
    nodes = np.round((1 - np.cos(angles)) * 2**19) / 2**20
    values = bessel_decay(nu, nodes[:, None] + np.arange(last))
    coefficients = np.linalg.solve(np.vander(nodes), values)
    coefficients[-1, 0] = 1.0  # exactly: nothing is learned at the start
    return PPoly(coefficients, np.arange(last + 1.0))


def _scipy_decay(nu: float, u: Array) -> Array:
    # j1 is several times faster than jv. It loses digits with u, but fewer than the rounding of the
    # phase t√s does.
    wave = special.j1(u) if nu == 1 else special.jv(nu, u)
    # two half powers: the whole power may underflow before it meets the large gamma function
    half_power = (2 / u) ** (nu / 2)
    return np.asarray((gamma(nu + 1) * half_power) * (half_power * wave))


def bessel_reach(nu: float, level: float) -> float:
    r"""Return a u beyond which :math:`|\Lambda_\nu(u)|` is below level, by its envelope."""
    # the envelope is Γ(ν + 1)·2^(ν + 1/2)/√π·u^(-ν - 1/2)
    log_constant = lgamma(nu + 1) + (nu + 0.5) * log(2) - log(pi) / 2
    return max(exp(min((log_constant - log(level)) / (nu + 0.5), 300.0)), nu)


def critical_phase(level: float) -> float:
    """Return the u with (1 + u)exp(-u) = level, for critically damped directions."""
    return float(-special.lambertw(-level / np.e, -1).real - 1)


# An oscillator with stiffness s, damping γ and frequency ω, where γ² + ω² = s. It oscillates where
# ω² > 0 and is overdamped elsewhere; ω is then the size of the root.


def oscillator_shrinkage(s: Array, t: Array, omega_squared: Array, gamma: Array) -> Array:
    """Return g of the oscillator that is released from rest."""
    omega = np.sqrt(np.abs(omega_squared))
    cases = [(omega_squared > 0, _oscillating), (omega_squared <= 0, _overdamped)]
    return piecewise(cases, s, t, omega, gamma)


def _oscillating(_: Array, t: Array, omega: Array, gamma: Array) -> Array:
    a = gamma * t
    theta = omega * t
    return np.exp(-a) * (np.cos(theta) + a * np.sinc(theta / np.pi))


def _overdamped(s: Array, t: Array, omega: Array, gamma: Array) -> Array:
    d = s / (gamma + omega) * t  # γt - ωt without cancellation
    return np.asarray(np.exp(-d) * (1 + d * special.exprel(-2 * omega * t)))


def oscillator_response(s: Array, t: Array, omega_squared: Array, gamma: Array) -> Array:
    """Return exp(-γt) sin(ωt)/ω: the position after a start from zero with unit velocity."""
    cases: Cases = [
        (omega_squared > 0, lambda _, t, w, a: np.exp(-a * t) * t * np.sinc(w * t / np.pi)),
        (
            omega_squared <= 0,
            lambda s, t, w, a: np.exp(-s / (a + w) * t) * t * special.exprel(-2 * w * t),
        ),
    ]
    return piecewise(cases, s, t, np.sqrt(np.abs(omega_squared)), gamma)


def oscillator_gain(s: Array, t: Array, omega_squared: Array, gamma: Array) -> Array:
    """Return (1 - g)/s of the oscillator, where g exceeds one half or ω² is positive."""
    omega = np.sqrt(np.abs(omega_squared))
    oscillates = omega_squared > 0
    early = np.maximum(gamma * t, t * np.sqrt(s)) <= 1
    cases = [
        (early, _early_gain),
        # 1 - g returns to zero after each oscillation, and its rounding may be negative there
        (~early & oscillates, lambda s, *rest: np.maximum(1 - _oscillating(s, *rest), 0.0) / s),
        (~early & ~oscillates, _slow_gain),
    ]
    return piecewise(cases, s, t, omega, gamma)


def _early_gain(s: Array, t: Array, _: Array, gamma: Array) -> Array:
    # The gain is t² times the divided difference of exp at 0 and both roots -γt ± iωt. Its series
    # has symmetric polynomials of the roots, whose recurrence needs neither root. Both roots are at
    # most 2, so that 28 terms are enough: 2^26/28! is below the rounding.
    roots_sum = -2 * gamma * t
    roots_product = t * s * t
    before = np.zeros_like(t)
    term = np.ones_like(t)
    total = term / 2
    for n in range(3, 28):
        term, before = roots_sum * term - roots_product * before, term
        total += term / factorial(n)
    return t * (t * total)


def _slow_gain(s: Array, t: Array, omega: Array, gamma: Array) -> Array:
    d = s / (gamma + omega) * t
    rest = special.exprel(-d) - np.exp(-d) * special.exprel(-2 * omega * t)
    return np.asarray(t / (gamma + omega) * rest)
