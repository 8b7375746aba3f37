r"""Least squares on random features, as a linear model to which :func:`limiting_risk` applies.

Inputs z of dimension d are standard normal, the response is :math:`z^T\theta + \varepsilon` with
:math:`\theta \sim (0, (r^2/d) I)`, and the p features are :math:`\phi(Wz)` with independent rows
:math:`w \sim N(0, I/d)`. For large d, centred features act like the Gaussian ones

.. math:: \mu_1 W z + \mu_*\xi, \qquad \mu_1 = E\,\zeta\phi(\zeta), \quad
    \mu_*^2 = \operatorname{Var}\phi(\zeta) - \mu_1^2, \quad \zeta \sim N(0, 1),

with ξ independent of z. Their covariance is :math:`\Sigma = \mu_1^2 WW^T + \mu_*^2 I`. The best
linear prediction has the coefficients :math:`\Sigma^{-1}\mu_1 W\theta`, whose variance depends on
the eigenvalue of Σ alone. What it misses is independent of the features: it acts as noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import quad

from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number
from stoptime.theory.limits import marchenko_pastur


@dataclass(frozen=True, eq=False)
class RandomFeatures:
    """The linear model that random features follow; ``noise`` includes what they miss."""

    covariance: tuple[Array, Array]
    signal: Array
    noise: float
    missed: float

    @property
    def arguments(self) -> dict[str, Any]:
        """Covariance, signal and noise, for :func:`limiting_risk`."""
        return {"covariance": self.covariance, "signal": self.signal, "noise": self.noise}


def random_features(
    ratio: float, *, signal: float, noise: float, activation: Callable[[float], float] | None = None
) -> RandomFeatures:
    r"""Return the linear model that least squares on random features follows in the limit.

    Its prediction risk by :func:`limiting_risk`, with ``aspect`` the number of features per row, is
    the distance from the best linear function of the features. Add ``missed``, the part of the
    response that no linear function of the features predicts, for the distance from the truth.

    Parameters
    ----------
    ratio : float
        Features per input dimension, p/d.
    signal, noise : float
        The squared length r² = E‖θ‖² of the coefficients of the inputs, and the noise variance σ².
    activation : callable, optional
        The function φ of a number, smooth except at zero; the identity by default.

    Examples
    --------
    >>> from stoptime import limiting_risk
    >>> model = random_features(0.5, signal=1.0, noise=0.25)
    >>> round(model.missed, 6)  # half the directions of the inputs
    0.5
    >>> curve = limiting_risk("ridge", [1.0], aspect=0.2, target="prediction", **model.arguments)
    >>> round(float(curve.total[0]), 4)
    0.2253

    See Mei, Montanari (2022), The generalization error of random features regression.
    """
    r2 = float(nonnegative("signal", signal))
    nodes, weights = marchenko_pastur(positive_number("ratio", ratio))
    # the eigenvalues of WWᵀ, with those that are zero where there are more features than inputs
    squares = np.append(0.0, nodes)
    shares = np.append(max(0.0, 1 - 1 / ratio), weights)
    linear, other = (1.0, 0.0) if activation is None else _squared_parts(activation)
    tau = linear * squares + other
    explained = np.divide(linear * squares, tau, out=np.zeros_like(tau), where=tau > 0)
    # the prior variance of a coefficient is r²/d, and the signal of the limit is p times it
    energy = np.divide(ratio * r2 * explained, tau, out=np.zeros_like(tau), where=tau > 0)
    missed = r2 * max(0.0, 1 - ratio * float(shares @ explained))
    level = float(nonnegative("noise", noise)) + missed
    return RandomFeatures((tau, shares), energy, level, missed)


def _squared_parts(activation: Callable[[float], float]) -> tuple[float, float]:
    """Return μ₁² and μ⋆² of an activation, by integrals on both sides of zero."""

    def mean(power: int, degree: int) -> float:
        def integrand(z: float) -> float:
            return float(activation(z) ** power * z**degree * np.exp(-z * z / 2))

        halves = quad(integrand, -np.inf, 0.0)[0] + quad(integrand, 0.0, np.inf)[0]
        return float(halves / np.sqrt(2 * np.pi))

    linear = mean(1, 1) ** 2
    # the part beyond a line is not negative, except by the error of the integrals
    return linear, max(0.0, mean(2, 0) - mean(1, 0) ** 2 - linear)
