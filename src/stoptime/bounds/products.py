"""What no method can guarantee that multiplies k times by the data."""

from __future__ import annotations

import numpy as np

from stoptime.bounds.balls import Enclosure, downward, exact, upward, working_precision
from stoptime.support.arrays import Array
from stoptime.support.checks import positive_number, whole_number


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
