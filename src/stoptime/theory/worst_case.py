"""The eigendirection that fares worst against ridge: what a calibration makes as good as it can."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from stoptime.methods.base import Method
from stoptime.support.arrays import Array
from stoptime.theory.search import dips, lowest_between

__all__ = [
    "Ratio",
    "distance_ratio",
    "eigenvalue_grid",
    "largest_ratio",
    "risk_ratio",
    "stop_with_gain",
    "unit_gain_stop",
]

PHASES = np.concatenate([np.geomspace(1e-3, 0.05, 30), np.arange(1, 1600) * 0.05])
RANGE_POINTS = 3000
MOST_PEAKS = 100  # that are looked at closely: on a plateau every point is one
ZOOMS = 4

Ratio = Callable[[Method, Array, ArrayLike], Array]


def risk_ratio(method: Method, x: Array, stop: ArrayLike) -> Array:
    """Return F(x): Bayes risk over optimal ridge risk of one eigendirection, for unit penalty."""
    return 1 + x * (method.shrinkage(x, stop) - method.gain(x, stop)) ** 2


def distance_ratio(method: Method, x: Array, stop: ArrayLike) -> Array:
    """Return (φ(1+x) - 1)²: squared distance from the ridge coefficient, relative to it."""
    return (method.gain(x, stop) * (1 + x) - 1) ** 2


def stop_with_gain(method: Method, gain: float) -> float:
    """Return the t with φ(0, t) = gain; for an iteration by the flow it follows, not rounded."""
    if method.whole_stops:
        return stop_with_gain(method.as_flow(), gain) / method.pace
    return unit_gain_stop(method.in_units_of(1 / gain)) * float(gain ** (1 / method.order))


def unit_gain_stop(method: Method) -> float:
    """Return the t with φ(0, t) = 1, the ridge gain for unit penalty."""

    def excess(log_stop: float) -> float:
        with np.errstate(divide="ignore"):
            return float(np.log(method.gain(0.0, np.exp(log_stop))))

    return float(np.exp(brentq(excess, -350, 350)))


def largest_ratio(method: Method, ratio: Ratio, stop: float, low: float, high: float) -> float:
    """Maximise over x in [low, high]: a grid that follows the oscillations, then zoom on its peaks."""
    if low == high:
        return float(ratio(method, np.array(low), stop))
    x = _phase_grid(method, stop) if np.isinf(high) else eigenvalue_grid(low, high)
    values = ratio(method, x, stop)
    peaks = dips(-values)
    peaks = peaks[values[peaks] >= values.max() * (1 - 1e-2)]
    peaks = peaks[np.argsort(-values[peaks], kind="stable")[:MOST_PEAKS]]
    _, depth = lowest_between(lambda x: -ratio(method, x, stop), x[peaks - 1], x[peaks + 1], ZOOMS)
    return float(max(values.max(), -depth))


def _phase_grid(method: Method, stop: float) -> Array:
    """Return x ≥ 0 at even phases: u = t√x in units of the frequency at which learning begins."""
    if method.order == 1:
        return np.concatenate([[0.0], PHASES / stop])
    unit = unit_gain_stop(method) / np.sqrt(8)  # one for friction 3
    return np.concatenate([[0.0], (PHASES * max(unit, 1.0) / stop) ** 2])


def eigenvalue_grid(low: float, high: float) -> Array:
    """Return eigenvalues even in phase, and even in decades below that."""
    even = np.linspace(np.sqrt(low), np.sqrt(high), RANGE_POINTS) ** 2
    return np.union1d(even, np.geomspace(max(low, high * 1e-12), high, RANGE_POINTS // 4))
