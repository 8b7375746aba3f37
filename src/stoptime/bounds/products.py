"""Methods that see the data k times: what none can guarantee, and what conjugate gradients can."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stoptime.bounds.balls import Enclosure, downward, exact, upward, working_precision
from stoptime.methods.base import Method
from stoptime.methods.flows import GradientFlow
from stoptime.methods.recurrence import Iteration
from stoptime.methods.registry import get_method
from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number, whole_number
from stoptime.theory.risk import FILTER_ENTRIES, risk

OVERSAMPLING = 16  # points for each half oscillation that a polynomial filter can have


def price_of_products(products: int, *, largest_eigenvalue: float, penalty: float) -> Enclosure:
    r"""Enclose the least risk over the best ridge risk that k products with the data can guarantee.

    .. math:: C(k) = \min_{\varphi} \max_{0 \le s \le L} \bigl(1 + x\,(g - \varphi)^2\bigr)
        = \coth^2\Bigl((2k + 1)\,\mathrm{arsinh}\sqrt{\lambda^*/L}\Bigr)

    with x = s/λ*, φ any polynomial of degree k - 1 in units of 1/λ*, and g = 1 - xφ: k iterations
    of any gradient method from zero, the first of which computes Xᵀy. On the eigenvalues of
    :func:`hardest_spectrum` no such φ has a smaller ratio, even if it depends on all of them, and
    in the limit of many directions of Gaussian signal and noise no method that depends on y, such
    as conjugate gradients. :class:`stoptime.OptimalIteration` attains the bound for every k.

    Parameters
    ----------
    products : int
        The k above: products with XᵀX, where Xᵀy counts as the first.
    largest_eigenvalue, penalty : float
        The L above, of XᵀX/n, and the penalty λ* of the Bayes-optimal ridge. Only their ratio
        matters. Without a bound on L/λ* no number of products guarantees anything.

    Examples
    --------
    >>> print(price_of_products(20, largest_eigenvalue=1.0, penalty=0.001))
    [1.34965726444, 1.34965726445] at stop 20
    """
    k = whole_number("products", products)
    largest = positive_number("largest_eigenvalue", largest_eigenvalue)
    best = positive_number("penalty", penalty)
    with working_precision():
        angle = (exact(best) / exact(largest)).sqrt().asinh()
        price = 1 / ((2 * k + 1) * angle).tanh() ** 2
        # the price exceeds 1, also where its excess is far below the rounding of a double
        return Enclosure(max(1.0, downward(price)), upward(price), float(k))


def hardest_spectrum(products: int, *, largest_eigenvalue: float = 1.0) -> Array:
    r"""Return the 2k + 1 eigenvalues on which k products are worth least, in ascending order.

    .. math:: s_j = L\cos^2\frac{j\pi}{2k + 1}, \qquad j = -k, \dots, k

    All but the largest eigenvalue appear twice. On this spectrum, also if every eigenvalue is
    repeated m times, each filter of k products has at least :func:`price_of_products` times the
    Bayes risk of the best ridge (``target="estimation"``), whatever the best penalty is.

    Examples
    --------
    >>> hardest_spectrum(1, largest_eigenvalue=4.0).round(6)
    array([1., 1., 4.])
    """
    k = whole_number("products", products)
    largest = positive_number("largest_eigenvalue", largest_eigenvalue)
    # sines in place of cosines: small eigenvalues keep all their digits
    return largest * np.sort(np.sin(np.pi * (np.arange(2 * k + 1) + 0.5) / (2 * k + 1)) ** 2)


def best_guarantees(
    method: str | Method, products: int, *, largest_eigenvalue: float, penalty: float
) -> Array:
    """Return the best guarantee of an iteration after at most 0, 1, ..., ``products`` iterations.

    A guarantee is the largest Bayes risk over the best ridge risk for all eigenvalues up to L, as
    in :func:`price_of_products`, with which it can be compared; the parameters are the same. It is
    computed in double precision, and it is an upper bound except for rounding: the largest value on
    a grid is increased by what a polynomial of this degree can gain between the points, at most
    0.3 % of the excess.

    Examples
    --------
    >>> known = {"largest_eigenvalue": 1.0, "penalty": 0.001}
    >>> best_guarantees("nu-method", 20, **known)[-2:].round(3)
    array([1.666, 1.572])
    """
    k = whole_number("products", products)
    largest = positive_number("largest_eigenvalue", largest_eigenvalue)
    best = positive_number("penalty", penalty)
    method = get_method(method)
    if not isinstance(method, Iteration):
        raise ValueError(  # noqa: TRY004 - the method is legal elsewhere
            f"{method} is no iteration with a fixed filter, so it does not count products: take "
            '"gradient-descent", "nesterov" or "nu-method".'
        )
    # zero is among the eigenvalues, so that parameters cannot adapt to the smallest one
    tuned = method.tuned_to([0.0, largest]).in_units_of(best)
    # √x·(g - φ) is an odd trigonometric polynomial of this degree in the angle with x = R·sin²
    degree = 2 * k + 1
    angles = np.linspace(0, np.pi / 2, OVERSAMPLING * degree + 1)
    x = largest / best * np.sin(angles) ** 2
    height = max(1, FILTER_ENTRIES // len(x))
    filters = tuned.filters(x, np.arange(k + 1.0), height)
    squares = [(x[:, None] * (g - gain) ** 2).max(axis=0) for g, gain in filters]
    # between points of distance h it grows at most by 1/cos(degree·h/2) (Ehlich, Zeller 1964)
    room = np.cos(np.pi / (4 * OVERSAMPLING)) ** -2
    return np.asarray(1 + room * np.minimum.accumulate(np.concatenate(squares)))


def conjugate_gradient_risk(
    gains: ArrayLike,
    *,
    eigenvalues: ArrayLike,
    signal: ArrayLike,
    noise: float,
    n_samples: float,
) -> Array:
    r"""Return an upper bound, up to rounding, of the prediction risk of conjugate gradients.

    .. math:: \frac1n E\|X(\hat\beta_T - \beta_0)\|^2 \le (1 + \sqrt2)\Bigl(
        \sum_i s_i (v_i^T\beta_0)^2 e^{-T s_i} + \frac{\sigma^2}{n}\sum_i \min(1, T s_i)\Bigr)

    The iterates are measured by their gain at s = 0, T = φ(0, k) = Σ 1/θ with the Ritz values θ:
    that of gradient flow at time T, and of ridge with penalty 1/T. Between two iterates the
    coefficients are interpolated linearly (:func:`stoptime.methods.conjugate_gradient.at_gains`),
    so that the path has every gain T, which must not depend on y. The noise needs uncorrelated
    coordinates of variance σ², and no distribution. The page *Certificates* has the derivation; the
    constant is our own, of the kind of Theorem 3.7 in Hucker, Reiß, Stark (2025), Comparing
    regularisation paths of (conjugate) gradient estimators in ridge regression.

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
        GradientFlow(), T / 2, eigenvalues=eigenvalues, signal=signal, noise=noise,
        n_samples=n_samples, target="prediction",
    )  # fmt: skip
    s = flow.model.eigenvalues
    with np.errstate(invalid="ignore"):  # an infinite gain learns nothing where s = 0
        learned = np.where(s > 0, np.minimum(1, np.multiply.outer(T, s)), 0.0).sum(axis=1)
    return np.asarray((1 + np.sqrt(2)) * (flow.bias + noise / n_samples * learned))
