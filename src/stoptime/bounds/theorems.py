"""Two statements of the paper that are formulas: the heavy-ball theorem, and what cannot be bounded."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.bounds.balls import PRECISION, exact, working_precision
from stoptime.bounds.enclosure import WorkLimitError

LARGEST_CONSTANT = 1e150  # beyond it x is no double
ATTEMPTS = 200


def heavy_ball_theorem(kappa: ArrayLike) -> NDArray[np.float64]:
    r"""Return the paper's bound on the risk inflation of heavy-ball flow.

    .. math::

        h(\kappa) = 8 z^2 + \Big(1 + \tfrac14 (z + w)^2\Big) \Big(\frac{w}{2z} + \frac32\Big)^2
        e^{-(z + w)/z}, \qquad z = \kappa^{1/3}, \quad w = \sqrt{5 z^2 - 4}

    :func:`risk_inflation` gives the exact constant, which is far smaller.

    Parameters
    ----------
    kappa : array-like
        Condition numbers, at least 1.

    Returns
    -------
    ndarray or float
        h, in the shape of ``kappa``.

    Examples
    --------
    >>> round(float(heavy_ball_theorem(100.0)), 3)
    187.828

    References
    ----------
    Sheng, Ali (2022), Accelerated gradient flow: risk, stability, and implicit regularization.
    """
    kappa = np.asarray(kappa, dtype=np.float64)
    if not np.all((kappa >= 1) & np.isfinite(kappa)):
        raise ValueError(f"kappa must be finite and at least 1; got {kappa!r}.")
    z = np.cbrt(kappa)
    w = np.sqrt(5 * z**2 - 4)
    bias = (1 + (z + w) ** 2 / 4) * (w / (2 * z) + 1.5) ** 2 * np.exp(-(z + w) / z)
    return np.asarray(8 * z**2 + bias)[()]


def coupling_counterexample(constant: float) -> float:
    r"""Return a point where accelerated flow's bias exceeds a multiple of ridge's bias.

    .. math:: (1 + x)^2 \, \frac{4 J_1(\sqrt x)^2}{x} > \mathrm{constant}, \qquad x = t^2 s = s/\lambda

    However large the constant, such an x exists: at its peaks the left side grows like :math:`8\sqrt{x}/\pi`.
    So no bound of the risks can hold along the whole path with t = λ^(-1/2). The inequality is verified in
    ball arithmetic before x is returned.

    Parameters
    ----------
    constant : float
        From 0 to 1e150.

    Returns
    -------
    float
        The x above.

    Examples
    --------
    >>> x = coupling_counterexample(1000.0)
    >>> round(x)
    161073

    References
    ----------
    Sheng, Ali (2022), Accelerated gradient flow: risk, stability, and implicit regularization, Section 3.3.
    """
    constant = float(constant)
    if not 0 <= constant <= LARGEST_CONSTANT:
        raise ValueError(f"constant must lie in [0, {LARGEST_CONSTANT:g}]; got {constant!r}.")
    k = max(0, int(constant / 8) - 1)
    for _ in range(ATTEMPTS):
        x = (math.pi * (k + 0.75)) ** 2  # next to a peak of |J₁(√x)|
        if _exceeds(x, constant):
            return x
        k += 1 + k // 50
    raise WorkLimitError(f"No counterexample to the constant {constant:g} was verified.")


def _exceeds(x: float, constant: float) -> bool:
    # The phase of the oscillation is √x modulo π: all its digits before the point are lost.
    with working_precision(PRECISION + 2 * max(0, math.frexp(x)[1])):
        ball = exact(x)
        ratio = (1 + ball) ** 2 * 4 * ball.sqrt().bessel_j(1) ** 2 / ball
        return bool(ratio > constant)
