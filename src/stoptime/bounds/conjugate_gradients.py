"""A bound of the prediction risk of conjugate gradients by gradient flow, and by ridge."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.flows import GradientFlow
from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative
from stoptime.theory.risk import risk
from stoptime.theory.signals import PowerSignal

CONJUGATE_GRADIENT_FACTOR = 1 + np.sqrt(2)


def conjugate_gradient_risk(
    gains: ArrayLike,
    *,
    eigenvalues: ArrayLike,
    signal: ArrayLike | PowerSignal,
    noise: float,
    n_samples: float,
) -> Array:
    r"""Return an upper bound of the in-sample prediction risk of conjugate gradients.

    .. math:: \frac1n E\|X(\hat\beta_T - \beta_0)\|^2 \le (1 + \sqrt2)\Bigl(
        \sum_i s_i (v_i^T\beta_0)^2 e^{-T s_i} + \frac{\sigma^2}{n}\sum_i \min(1, T s_i)\Bigr)

    The first sum is the bias of gradient flow at time T/2, and at most that of ridge with penalty
    2/T. The second one is at most three times the degrees of freedom of this ridge. The iterates
    are measured by their gain at s = 0, T = φ(0, k) = Σ 1/θ with the Ritz values θ: that of
    gradient flow at time T, and of ridge with penalty 1/T. Between two iterates the coefficients
    are interpolated linearly (:func:`stoptime.methods.conjugate_gradient.at_gains`), so that the
    path has every gain T, which must not depend on y. The noise needs uncorrelated coordinates of
    variance σ², and no distribution.

    The derivation is in the documentation of the bounds, and the constant is our own. It is of the
    kind of Theorem 3.7 in Hucker, Reiß, Stark (2025), Comparing regularisation paths of (conjugate)
    gradient estimators in ridge regression, whose statement it does not claim to be.

    Parameters
    ----------
    gains : array-like of shape (n_gains,)
        The T above, non-negative numbers.
    eigenvalues, signal, noise, n_samples
        Those of :func:`stoptime.risk`, which has the exact risk of methods with a fixed filter.

    Examples
    --------
    >>> known = {"eigenvalues": [1, 0.1], "signal": [1, 1], "noise": 1, "n_samples": 9}
    >>> conjugate_gradient_risk([0, 2, 10], **known).round(3)
    array([2.656, 0.846, 0.625])
    """
    T = np.atleast_1d(nonnegative("gains", gains, infinite=True))
    flow = risk(
        GradientFlow(),
        T / 2,
        eigenvalues=eigenvalues,
        signal=signal,
        noise=noise,
        n_samples=n_samples,
        target="prediction",
    )
    s = flow.model.eigenvalues
    with np.errstate(invalid="ignore"):  # an infinite gain learns nothing where s = 0
        learned = np.where(s > 0, np.minimum(1, np.multiply.outer(T, s)), 0.0).sum(axis=1)
    return np.asarray(CONJUGATE_GRADIENT_FACTOR * (flow.bias + noise / n_samples * learned))
