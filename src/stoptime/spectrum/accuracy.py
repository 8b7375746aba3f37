"""Whether squares of the data stay in range, and how accurate a factorisation is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stoptime.support.arrays import EPS, Floats, like, on_host

if TYPE_CHECKING:
    from stoptime.spectrum.dense import DenseData

Varies = Callable[[NDArray[np.bool_]], Any]

GRAM_TOLERANCE = {"float64": 1e-10, "float32": 1e-8}  # the latter is less than rounding
"""Relative error of the coefficients up to which a product XᵀX or XXᵀ is trusted."""

RESCALE = "Rescale it, for example with StandardScaler."
MEAN_ULPS = 4.0  # in units of eps·|mean|: a column that varies less is constant


def check_range(name: str, powers: Any, varies: bool | Varies, room: float = 1.0) -> None:
    """Raise a ValueError if mean squares overflow, or underflow in a column that varies."""
    # powers has one entry for each column, or is one number if columns are not known; varies says
    # whether they vary, or is a function of a mask of columns; room is a factor for later products
    powers = np.atleast_1d(powers)
    info = np.finfo(powers.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        # eigenvalues are at most the sum, so that they do not overflow either
        finite = np.isfinite(room * powers.sum())
    if not finite:
        where = _place(powers, np.where(np.isnan(powers), np.inf, powers))
        raise ValueError(f"{name} is too large: squares of its entries overflow {where}. {RESCALE}")
    # mean squares below tiny/eps have lost digits, because some of their terms are subnormal
    small = powers < room * float(info.tiny / info.eps)
    if small.any():
        lost = np.zeros_like(small)
        lost[small] = varies(small) if callable(varies) else varies
        if lost.any():
            where = _place(powers, lost)
            raise ValueError(
                f"{name} is too small: squares of its entries underflow {where}. {RESCALE}"
            )


def _place(powers: Floats, fault: Floats | NDArray[np.bool_]) -> str:
    column = f", first in column {int(np.argmax(fault))}" if len(powers) > 1 else ""
    return f"in {powers.dtype}{column}"


def constant(power: Floats, mean: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary by no more than the rounding of their mean."""
    rounding = MEAN_ULPS * np.finfo(power.dtype).eps * np.abs(mean)
    return np.asarray(power <= rounding * rounding)


def entries_vary(
    values: Any, means: Any, shares: Any, columns: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Tell which of these columns, whose mean squares are small, have small entries that vary."""
    weights = on_host(shares)
    present = weights > 0
    centre = on_host(means)[columns]
    info = np.finfo(centre.dtype)
    distances = np.abs(on_host(values[:, like(values, columns)]) - centre)
    spread = distances.max(axis=0, initial=0, where=present[:, None])
    # a constant column of ordinary size may differ from its rounded mean: that is no underflow
    tiny = spread < np.sqrt(info.tiny / info.eps / weights[present].min(initial=1))
    return np.asarray(tiny & (spread > MEAN_ULPS * info.eps * np.abs(centre)))


def reach(data: DenseData, s: Floats, first: int, response: Floats, powers: Floats) -> float:
    """Return the gain up to which coefficients from this product keep ``GRAM_TOLERANCE``.

    The eigenvalues ``s`` are ascending, and the ``first`` of them lie below the rank cut.
    """
    if first == len(s):
        return np.inf
    largest = float(s[-1])
    # eigenvalues are off by about εL, which changes φz by the relative amount εL·min(1/s, φ)
    error = EPS * largest
    furthest = np.inf
    if error > data.tolerance * float(s[first]):
        furthest = data.tolerance / error
    # dropping directions is harmless if X maps them to rounding errors; otherwise it costs φ|z|, to
    # be compared with coefficients of at least min(φ, 1/L)‖z‖: then no stop may be early enough
    share = _share_of_dropped(data, s, first, response) if first else 0.0
    if share > data.tolerance:
        return 0.0
    loss = largest * share
    dropped = data.tolerance / loss if loss > 0 else np.inf
    return float(min(furthest, dropped, reach_of_columns(data, powers)))


def reach_of_columns(data: DenseData, powers: Floats) -> float:
    """Return the gain up to which columns too small to be resolved are not learned anyway."""
    hidden = float(powers[_unresolved(data, powers)].max(initial=0))
    return data.tolerance / hidden if hidden > 0 else np.inf


def _share_of_dropped(data: DenseData, s: Floats, first: int, response: Floats) -> float:
    """Return the largest share of a response in dropped directions that X does not annihilate."""
    real = np.sqrt(s[:first]) > data.rounding * np.sqrt(s[-1])
    if not real.any():
        return 0.0
    # only shares count, and scaled squares do not overflow
    response = response / (np.abs(response).max(initial=0) or 1.0)
    lost = np.linalg.norm(response[:first][real], axis=0)
    total = np.linalg.norm(response, axis=0)
    # a share is never known better than to rounding, even if the computed one is zero
    lost = np.maximum(lost, EPS * total)
    return float(np.max(lost / np.where(total > 0, total, 1), initial=0))


def _unresolved(data: DenseData, powers: Floats) -> NDArray[np.bool_]:
    """Tell which columns vary, but too little compared with the largest to be resolved."""
    return np.asarray((powers > 0) & (powers <= data.rounding**2 * powers.max(initial=0)))


def lost_columns(data: DenseData, residuals: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the columns too small to be resolved, and what each explains of some residuals."""
    lost = np.flatnonzero(_unresolved(data, data._by_svd[1]))
    weights = np.asarray(on_host(data.shares), np.float64)
    X = np.asarray(on_host(data.X[:, like(data.X, lost)]), np.float64)
    if data.fit_intercept:
        X = X - weights @ X
    # in units of the largest entry, because squares of small ones underflow
    X = X / np.abs(X).max(axis=0)
    explained = ((weights[:, None] * X).T @ residuals) ** 2 / (weights @ X**2)[:, None]
    return lost, explained.mean(axis=1)


class ReachError(ValueError):
    """The data cannot be factored as far as these stops."""


def check_columns(data: DenseData, powers: Floats, max_gain: float) -> None:
    """Raise a ReachError if the stop is so late that an unresolved column would be learned."""
    most = reach_of_columns(data, powers)
    if max_gain > most:
        lost = _unresolved(data, powers)
        small, large = np.sqrt([powers[lost].min(), powers.max()])
        raise ReachError(
            f"Columns of X differ too much in scale ({small:.3g} and {large:.3g}; column "
            f"{int(np.argmax(lost))} is the first that is too small to be resolved). Rescale "
            "them, for example with StandardScaler, or stop earlier: paths are accurate up to a "
            f"gain of {most:.3g}, about the reciprocal of a penalty."
        )
