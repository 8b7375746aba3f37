"""How far a factorisation can be trusted, and which columns it can resolve."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import TINY, Floats

__all__ = ["CONSTANT", "GRAM_TOLERANCE", "Precision", "check_columns", "constant", "reach"]

GRAM_TOLERANCE = {"float64": 1e-10, "float32": 1e-3}
"""Relative error of the coefficients up to which a product XᵀX or XXᵀ is trusted."""

CONSTANT = 4.0  # in units of eps·|mean|: a column that varies less is constant


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
        """Relative error of the coefficients up to which products of X are trusted."""


def constant(power: Floats, mean: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary by no more than the rounding of their mean."""
    rounding = CONSTANT * np.finfo(power.dtype).eps * np.abs(mean)
    return np.asarray(power <= rounding * rounding)


def reach(
    data: Precision,
    eigenvalues: Floats,
    first: int,
    response: Floats,
    dropped: Floats,
    powers: Floats,
) -> float:
    r"""Return the gain up to which coefficients by this product keep ``GRAM_TOLERANCE``.

    Eigenvalues are off by about :math:`\epsilon L`, which moves :math:`\varphi z` by the relative
    amount :math:`\epsilon L\min(1/s, \varphi)`. Directions below the rank cut are dropped. That is
    harmless if their image under X, of length ``dropped``, vanishes to rounding; else they cost
    :math:`\varphi|z|`, to be compared with coefficients of at least
    :math:`\min(\varphi, 1/L)\|z\|`. Where they carry more than the tolerance of the response, no
    stop is early enough.

    Parameters
    ----------
    data : Precision
        The precision of the work.
    eigenvalues : array of shape (k,)
        Ascending.
    first : int
        How many of them lie below the rank cut.
    response : array of shape (k, n_targets)
        The response in all directions.
    dropped : array of shape (first,)
        Lengths of the images of the directions below the rank cut.
    powers : array of shape (p,)
        Mean square of every column.
    """
    if first == len(eigenvalues):
        return np.inf
    largest = float(eigenvalues[-1])
    lost_digits = data.eps * largest
    furthest = np.inf
    if lost_digits > data.tolerance * float(eigenvalues[first]):
        furthest = data.tolerance / lost_digits
    share = _share_of_dropped(data, largest, first, response, dropped) if first else 0.0
    if share > data.tolerance:
        return 0.0
    hidden = powers[_unresolved(data, powers)].max(initial=0)
    losses = [loss for loss in (largest * share, hidden) if loss > 0]
    return float(min([furthest, *(data.tolerance / loss for loss in losses)]))


def _share_of_dropped(
    data: Precision, largest: float, first: int, response: Floats, dropped: Floats
) -> float:
    """Return the largest share of a response that dropped directions with a real image may have."""
    real = dropped > data.rounding * np.sqrt(largest)
    if not real.any():
        return 0.0
    response = response / (np.abs(response).max(initial=0) or 1.0)  # only shares count
    lost = np.linalg.norm(response[:first][real], axis=0)
    total = np.linalg.norm(response, axis=0)
    # a share is never known better than to rounding, even if it was found to be zero
    lost = np.maximum(lost, data.eps * total)
    return float(np.max(lost / np.where(total > 0, total, 1), initial=0))


def _unresolved(data: Precision, powers: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary, but too little beside the largest for any solver to resolve them."""
    return np.asarray((powers > 0) & (powers <= data.rounding**2 * powers.max(initial=0)))


def check_columns(data: Precision, powers: Floats, max_gain: float) -> None:
    """Raise a ValueError where a column that no solver resolves would have been learned."""
    with np.errstate(over="ignore"):
        lost = _unresolved(data, powers) & (powers > data.tolerance / (max_gain + TINY))
    if lost.any():
        small, large = np.sqrt([powers[lost].min(), powers.max()])
        raise ValueError(
            f"Columns of X differ too much in scale ({small:.3g} and {large:.3g}, column "
            f"{int(np.argmax(lost))} is the first too small to be resolved): rescale them, for "
            "example with StandardScaler."
        )
