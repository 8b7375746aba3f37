"""How far a factorisation can be trusted, and which columns it can see."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import Floats

__all__ = [
    "CONSTANT",
    "GRAM_TOLERANCE",
    "Precision",
    "check_columns",
    "constant",
    "drowned",
    "reach",
]

GRAM_TOLERANCE = {"float64": 1e-10, "float32": 1e-3}
"""Relative error of the coefficients up to which a product XᵀX or XXᵀ is trusted."""

CONSTANT = 4.0  # in units of eps·|mean|: a column that varies less is constant
TINY = float(np.finfo(np.float64).tiny)


class Precision(Protocol):
    """What must be known of the precision that data are worked on in."""

    @property
    def eps(self) -> float:
        """The rounding unit."""

    @property
    def rounding(self) -> float:
        """Relative size of the rounding noise in singular values."""

    @property
    def tolerance(self) -> float:
        """Relative error of the coefficients up to which products of X with itself are trusted."""


def constant(power: Floats, mean: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary by no more than the rounding of their mean."""
    rounding = CONSTANT * np.finfo(power.dtype).eps * np.abs(mean)
    return np.asarray(power <= rounding * rounding)


def reach(
    data: Precision,
    eigenvalues: Floats,
    kept: NDArray[np.bool_],
    response: Floats,
    dropped: Floats,
    powers: Floats,
) -> float:
    r"""Return the gain up to which coefficients by this product keep ``GRAM_TOLERANCE``.

    Eigenvalues are off by about :math:`\epsilon L`, which moves :math:`\varphi z` by the relative
    amount :math:`\epsilon L\min(1/s, \varphi)`. Directions below the rank cut are dropped: harmless
    if their image under X, of length ``dropped``, vanishes to rounding, else they cost
    :math:`\varphi|z|`, to be compared with coefficients of at least :math:`\min(\varphi, 1/L)\|z\|`. Where
    they carry more than the tolerance of the response, no stop is early enough.
    """
    if not kept.any():
        return np.inf
    largest, smallest = float(eigenvalues[-1]), float(eigenvalues[kept][0])
    tolerance, lost_digits = data.tolerance, data.eps * largest
    furthest = np.inf if lost_digits <= tolerance * smallest else tolerance / lost_digits
    share = 0.0 if kept.all() else _share_of_dropped(data, largest, kept, response, dropped)
    if share > tolerance:
        return 0.0
    hidden = powers[drowned(data, powers)].max(initial=0)
    return float(
        min([furthest, *(tolerance / loss for loss in (largest * share, hidden) if loss > 0)])
    )


def _share_of_dropped(
    data: Precision, largest: float, kept: NDArray[np.bool_], response: Floats, dropped: Floats
) -> float:
    """Return the largest share of a response that may be in dropped directions of a real image."""
    real = dropped > data.rounding * np.sqrt(largest)
    if not real.any():
        return 0.0
    response = response / (np.abs(response).max(initial=0) or 1.0)  # of which only shares count
    lost = np.linalg.norm(response[~kept][real], axis=0)
    total = np.linalg.norm(response, axis=0)
    lost = np.maximum(lost, data.eps * total)  # no share is known better, were it found to be zero
    return float(np.max(lost / np.where(total > 0, total, 1), initial=0))


def drowned(data: Precision, powers: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary, but too little beside the largest for any route to see them."""
    return np.asarray((powers > 0) & (powers <= data.rounding**2 * powers.max(initial=0)))


def check_columns(data: Precision, powers: Floats, max_gain: float) -> None:
    """Raise where a column that no route can see would have been learned."""
    with np.errstate(over="ignore"):
        lost = drowned(data, powers) & (powers > data.tolerance / (max_gain + TINY))
    if lost.any():
        small, large = np.sqrt([powers[lost].min(), powers.max()])
        raise ValueError(
            f"Columns of X differ too much in scale ({small:.3g} and {large:.3g}, column "
            f"{int(np.argmax(lost))} is the first too small to be resolved): rescale them, for "
            "example with StandardScaler."
        )
