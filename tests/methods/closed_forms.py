r"""Iterations in closed form: an independent route to the values of the recurrence.

A power for gradient descent, a 2×2 power where momentum is constant, a Gegenbauer polynomial for
Nesterov's method and a Jacobi polynomial for the ν-method.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import eval_gegenbauer, eval_jacobi

from stoptime.methods.iterations import GradientDescent, HeavyBall, Nesterov, NuMethod
from stoptime.methods.recurrence import Iteration
from stoptime.support.arrays import Array
from stoptime.support.checks import iteration_numbers, nonnegative


def closed_form(method: Iteration, s: ArrayLike, k: int) -> Array:
    r"""Return the shrinkage of one iterate, without iterating.

    .. math:: (1-x)^k, \qquad
        (1-x)^{(k+1)/2}\,\frac{C_{k-1}^{(r/2)}(\sqrt{1-x})}{C_{k-1}^{(r/2)}(1)}, \qquad
        \frac{P_k^{(2\nu-1/2,-1/2)}(1-2x)}{P_k^{(2\nu-1/2,-1/2)}(1)}, \qquad x = \varepsilon s

    for gradient descent, Nesterov's method with friction r and the ν-method, where εs is at most
    one; for constant momentum the k-th power of the companion matrix.
    """
    x = method.epsilon * nonnegative("s", s)
    k = int(iteration_numbers(nonnegative("k", k)))
    if k == 0:
        return np.ones_like(x)
    match method:
        case GradientDescent():
            return np.asarray((1 - x) ** k)
        case HeavyBall():
            return _companion_power(1 + method.eta - x, np.full_like(x, method.eta), k, 1 - x)
        case Nesterov(momentum=float(eta)):
            return _companion_power((1 + eta) * (1 - x), eta * (1 - x), k, 1 - x)
        case Nesterov(friction=friction):
            return _gegenbauer(friction, x, k)
        case NuMethod(nu=nu):
            order = 2 * nu - 0.5
            polynomial = eval_jacobi(k, order, -0.5, 1 - 2 * x)
            return np.asarray(polynomial / eval_jacobi(k, order, -0.5, 1.0))
    raise TypeError(f"{method} has no closed form.")


def _gegenbauer(friction: float, x: Array, k: int) -> Array:
    if np.any(x > 1):
        raise ValueError(
            "Nesterov's closed form needs εs of at most one: use shrinkage, which iterates."
        )
    root = np.sqrt(1 - x)
    ratio = eval_gegenbauer(k - 1, friction / 2, root) / eval_gegenbauer(k - 1, friction / 2, 1.0)
    return np.asarray(root ** (k + 1) * ratio)


def _companion_power(trace: Array, determinant: Array, k: int, first: Array) -> Array:
    """Return g_k of g_k = trace·g_{k-1} - determinant·g_{k-2}, g_0 = 1 and g_1 = first."""
    zero = np.zeros_like(trace)
    one = np.ones_like(trace)
    base = np.array([[trace, -determinant], [one, zero]])
    power = np.array([[one, zero], [zero, one]])
    exponent = k - 1
    while exponent:
        if exponent % 2:
            power = np.einsum("ij...,jk...->ik...", power, base)
        base = np.einsum("ij...,jk...->ik...", base, base)
        exponent //= 2
    return np.asarray(power[0, 0] * first + power[0, 1])
