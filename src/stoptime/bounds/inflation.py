r"""The least risk inflation over oracle ridge, enclosed.

Everything rests on one identity. With x = s/λ*, u = σ√x and the shrinkage g = g(u),

.. math::

    (1 + x) g^2 + \frac{(1 + x)(1 - g)^2}{x} = 1 + D^2, \qquad
    D = \frac{u g(u)}{\sigma} - \sigma \frac{1 - g(u)}{u} = \frac{A(u)}{\sigma} - \sigma B(u).

Bias pulls D up, variance pulls it down, and the stop enters only through σ. As B ≥ 0, every |D(σ, u)| is a
quasi-convex function of σ: this is what makes the lower end a matter of two witnesses (see :func:`_floor`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from stoptime.bounds.balls import Box, Bracket, centre_and_radius, downward, exact, supremum, upward
from stoptime.bounds.enclosure import Enclosure, WorkLimitError
from stoptime.bounds.filters import CosineFilter, gain, horizon

if TYPE_CHECKING:
    from flint import arb

PEAK_SHARE = 0.9  # peaks of |D| lower than this share of the highest one are no witnesses
WINDOW = 0.02  # of log σ, around the best σ of the grid
PROOF_SHARE = 0.5  # of the tolerance; the rest is left to the search for the best stop


@dataclass(frozen=True)
class Imbalance:
    """The function D of one method: A(u)/σ - σB(u)."""

    filter: CosineFilter

    def parts(self, u: arb) -> tuple[arb, arb]:
        """Return A = u·g and B = (1 - g)/u."""
        g = self.filter.shrinkage(u)
        return u * g, (1 - g) / u

    def value_and_slope(self, u: arb, sigma: arb) -> tuple[arb, arb]:
        """Return D and its derivative in u."""
        g, slope = self.filter.shrinkage(u), self.filter.slope(u)
        value = u * g / sigma - sigma * (1 - g) / u
        return value, (g + u * slope) / sigma + sigma * (slope / u + gain(u, g))

    def curvature(self, sigma: arb) -> arb:
        """Return M with |D''(u)| ≤ M·u.

        D = u·G with G = g/σ - σφ, so |D''| ≤ 2|G'| + u|G''|, and |G'| ≤ u·max|G''| as G is even.
        """
        second, fourth = self.filter.even_moment(1), self.filter.even_moment(2)
        return 3 * (second / sigma + sigma * fourth / 12)

    def tail(self, sigma: arb, start: float) -> arb:
        """Return a cap on D² beyond ``start``; each of its terms falls."""
        g, u = self.filter.tail(start), exact(start)
        return (u * g / sigma + sigma * (1 + g) / u) ** 2


def inflation_at(
    cosine_filter: CosineFilter, stop: float, tolerance: float, known: float = 0.0
) -> Enclosure:
    """Enclose the largest inflation over all x ≥ 0 at one stop.

    ``known`` is a value of the excess D² known to be reached.
    """
    imbalance = Imbalance(cosine_filter)
    sigma = cosine_filter.scale(stop)
    curvature = imbalance.curvature(sigma)

    def bracket(box: Box) -> Bracket:
        u, radius = centre_and_radius(box[0])
        value, slope = imbalance.value_and_slope(u, sigma)
        reach = abs(value) + abs(slope) * radius + curvature * box[0][1] * radius**2 / 2
        return Bracket(downward(value.abs_lower() ** 2), upward(reach**2), box)

    u, D = _sampled(imbalance, float(sigma))
    peak = float(u[np.argmax(np.abs(D))])
    value, _ = imbalance.value_and_slope(exact(peak), sigma)
    known = max(known, downward(value.abs_lower() ** 2))
    end = horizon(lambda start: imbalance.tail(sigma, start), cosine_filter.tail_start, known)
    beyond = Bracket(known, upward(imbalance.tail(sigma, end)), ((peak, peak),))
    excess = supremum(bracket, ((0.0, end),), known=beyond, tolerance=tolerance)
    return Enclosure(downward(1 + exact(excess.attained)), upward(1 + exact(excess.cap)), stop)


def least_inflation(cosine_filter: CosineFilter, tolerance: float) -> Enclosure:
    """Enclose the least, over all stops, of the largest inflation over all x ≥ 0."""
    imbalance = Imbalance(cosine_filter)
    stop, witnesses = _search(imbalance)
    sigma = cosine_filter.scale(stop)
    floor = _floor(imbalance, sigma, witnesses)
    worst = inflation_at(cosine_filter, stop, PROOF_SHARE * tolerance, known=downward(floor))
    lower = downward(1 + floor)
    if worst.upper - lower > tolerance * max(1.0, lower):
        raise WorkLimitError(
            f"The inflation is only known to lie in [{lower!r}, {worst.upper!r}]; "
            f"ask for a larger tolerance than {tolerance:g}."
        )
    return Enclosure(lower, worst.upper, stop)


def _floor(imbalance: Imbalance, sigma: arb, witnesses: list[float]) -> arb:
    r"""Return a lower bound of D² that holds at every stop: the lower end of the enclosure.

    .. math:: \min_\sigma \max_u |D| \ge \min\Big\{ \max_j \inf_{\sigma' \le \sigma} |D(\sigma', u_j)|,\
              \max_j \inf_{\sigma' \ge \sigma} |D(\sigma', u_j)| \Big\}

    for any σ and any finite set of witnesses, and each infimum has a closed form.
    """
    parts = [imbalance.parts(exact(u)) for u in witnesses]
    earlier = max((_least(a, b, sigma, side=1) for a, b in parts), key=downward)
    later = max((_least(a, b, sigma, side=-1) for a, b in parts), key=downward)
    return earlier.min(later) ** 2


def _least(a: arb, b: arb, sigma: arb, *, side: int) -> arb:
    """Return a lower bound of |A/σ' - σ'B| over σ' ≤ σ (``side`` 1) or over σ' ≥ σ (``side`` -1).

    A > 0: the difference falls in σ', so going to one side its sign can only be confirmed.
    A < 0: the sum |A|/σ' + σ'B falls until σ'² = |A|/B, then grows, and is never below 2·sqrt(|A|·B).
    """
    value = a / sigma - sigma * b
    if a > 0:
        return (side * value).max(exact(0))
    if a < 0:
        turned = side * (-a - sigma**2 * b) >= 0
        return -value if turned else 2 * (-a * b).sqrt()
    return exact(0)


def _sampled(imbalance: Imbalance, sigma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    u, g = imbalance.filter.sample()
    return u, u * g / sigma - sigma * (1 - g) / u


def _search(imbalance: Imbalance) -> tuple[float, list[float]]:
    """Return a good stop and the places where |D| is largest there, by floating-point optimisation."""
    u, g = imbalance.filter.sample()
    A, B = u * g, (1 - g) / u

    def worst_on_grid(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        return float(np.abs(A / sigma - sigma * B).max())

    natural = 0.5 * math.log(2 / float(imbalance.filter.even_moment(1)))
    start = minimize_scalar(worst_on_grid, bounds=(natural - 2, natural + 1), method="bounded").x

    def peaks(offset: float) -> list[tuple[float, float]]:
        sigma = math.exp(start + offset)
        return _peaks(imbalance, sigma, u, np.abs(A / sigma - sigma * B))

    # Centred at zero, as the optimiser's tolerance is relative to its variable.
    offset = minimize_scalar(
        lambda offset: max(peaks(offset))[0],
        bounds=(-WINDOW, WINDOW),
        method="bounded",
        options={"xatol": 1e-13},
    ).x
    scale = math.exp(start + offset)
    return scale if imbalance.filter.order == 2 else scale**2, [at for _, at in peaks(offset)]


def _peaks(
    imbalance: Imbalance, sigma: float, u: NDArray[np.float64], height: NDArray[np.float64]
) -> list[tuple[float, float]]:
    """Return (height, place) of the high local maxima of |D|, refined from their values on a grid."""

    def depth(at: float) -> float:
        a, b = imbalance.parts(exact(at))
        return -abs(float(a / sigma - sigma * b))

    inner = height[1:-1]
    local = (inner >= height[:-2]) & (inner >= height[2:]) & (inner > PEAK_SHARE * height.max())
    found = []
    for i in np.flatnonzero(local).tolist():
        best = minimize_scalar(depth, bounds=(u[i], u[i + 2]), method="bounded")
        found.append((-float(best.fun), float(best.x)))
    return found
