r"""Which stop is like which ridge penalty, and what that is worth.

Measure eigenvalues in units of the penalty, :math:`x = s/\lambda`. Against a prior that is even over
the eigendirections and makes :math:`\lambda` the best penalty, the risk over the ridge risk is

.. math:: F(x) = (1+x)\bigl(g^2 + x\varphi^2\bigr) = 1 + x(g - \varphi)^2

in each direction, and the relative distance from the ridge coefficient is :math:`(\varphi(1+x) - 1)^2`.
A calibration picks one stop for all x; the largest value over x is its guarantee. These are careful
numerical optimisations; :mod:`stoptime.bounds` proves the constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from stoptime.methods.base import Method
from stoptime.methods.recurrence import MOST_ITERATIONS, closer_stops
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Ridge
from stoptime.spectrum.base import Spectrum
from stoptime.support.arrays import Array
from stoptime.support.checks import nonnegative, positive_number
from stoptime.theory.search import dips
from stoptime.theory.worst_case import (
    Ratio,
    distance_ratio,
    eigenvalue_grid,
    largest_ratio,
    risk_ratio,
    stop_with_gain,
    unit_gain_stop,
)

__all__ = ["Calibration", "calibrate", "equivalent_penalty", "equivalent_stop", "guarantee"]

Kind = Literal["risk", "parameter", "paper"]

SEARCH = 1e3  # stops from 1/SEARCH to SEARCH times the one whose gain at s = 0 equals the ridge's
COARSE = 80
TINY = float(np.finfo(np.float64).tiny)
LIKE_A_FLOW = 5000  # iterations from which on their flow is within a thousandth of them


@dataclass(frozen=True)
class Calibration:
    """A stop for unit penalty and what it guarantees.

    Attributes
    ----------
    stop : float
        The τ of t = τ/λ (first order) or t = τ/√λ (second order).
    inflation : float
        Largest ratio of Bayes risk to optimal ridge risk.
    parameter_error : float
        Largest ratio of ‖β(t) - β_ridge(λ)‖² to ‖β_ridge(λ)‖².
    """

    stop: float
    inflation: float
    parameter_error: float


def calibrate(
    method: str | Method, kind: Kind = "risk", low: float = 0.0, high: float = np.inf
) -> Calibration:
    """Find the stop for unit penalty and eigenvalues in [low, high].

    Parameters
    ----------
    method : Method
        Already tuned to its spectrum.
    kind : {"risk", "parameter", "paper"}
        "risk" has the least guaranteed inflation, "parameter" the least guaranteed distance from the
        ridge coefficients, "paper" is t = 1/λ or t = 1/√λ.
    low, high : float
        Range of the eigenvalues in units of the penalty.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> from stoptime import GradientFlow
    >>> c = calibrate(GradientFlow())
    >>> f"{c.stop:.5f} {c.inflation:.5f}"
    '0.45711 1.07858'
    """
    method = get_method(method)
    method.require_filter()
    if not 0 <= low <= high:
        raise ValueError(f"low and high must be eigenvalues, low first; got {low!r} and {high!r}.")
    return _calibrate(method, kind, low, high)


@lru_cache(maxsize=512)  # of a private function: the cache would hide the types of the public one
def _calibrate(method: Method, kind: Kind, low: float, high: float) -> Calibration:
    ratio = _ratio(kind)
    if method.whole_stops:
        low, high = (low, high) if high < np.inf else method.possible_eigenvalues
        if stop_with_gain(method, 1.0) > LIKE_A_FLOW:
            return _calibrate_long_run(method, kind, low, high)
        return guarantee(method, _best_iteration(method, kind, low, high), low, high)
    if kind == "paper" or isinstance(method, Ridge):
        return guarantee(method, 1.0, low, high)
    if kind == "risk":
        _check_bounded(method, high)

    def worst(log_stop: float) -> float:
        return largest_ratio(method, ratio, float(np.exp(log_stop)), low, high)

    return guarantee(
        method, float(np.exp(_minimum(worst, np.log(unit_gain_stop(method))))), low, high
    )


def guarantee(
    method: str | Method, stop: float, low: float = 0.0, high: float = np.inf
) -> Calibration:
    """Return what a stop guarantees for unit penalty and eigenvalues in [low, high].

    Parameters
    ----------
    method : Method
        Already tuned to its spectrum.
    stop : float
        The τ of t = τ/λ or t = τ/√λ.
    low, high : float
        Range of the eigenvalues in units of the penalty.

    Returns
    -------
    Calibration
        With infinite ``inflation`` where none holds for every spectrum.

    Examples
    --------
    >>> from stoptime import AcceleratedFlow
    >>> guarantee(AcceleratedFlow(), 1.0).parameter_error  # the paper's 49/64
    0.765625
    """
    method = get_method(method)
    method.require_filter()
    stop = positive_number("stop", stop) if np.isinf(high) else float(nonnegative("stop", stop))
    inflation = np.inf
    if high < np.inf or method.universal_guarantee:
        inflation = largest_ratio(method, risk_ratio, stop, low, high)
    return Calibration(stop, inflation, largest_ratio(method, distance_ratio, stop, low, high))


def equivalent_stop(
    method: str | Method,
    penalty: float,
    *,
    calibration: Kind = "risk",
    eigenvalues: ArrayLike | None = None,
) -> float:
    r"""Return when to stop to be like ridge with this penalty.

    .. math:: t = \tau/\lambda \quad\text{or}\quad t = \tau/\sqrt\lambda

    with the τ of :func:`calibrate`: 0.45711 for gradient flow and 1.75535 for accelerated flow, whose
    risk is then at most 1.0786 and 1.5992 times the best ridge risk, whatever the spectrum.

    Parameters
    ----------
    method : Method or str
        The method to stop.
    penalty : float
        The λ of ‖y - Xβ‖²/(2n) + (λ/2)‖β‖²; scikit-learn's ``alpha`` is nλ. Zero means never stop.
    calibration : {"risk", "parameter", "paper"}, default="risk"
        See :func:`calibrate`.
    eigenvalues : array-like, optional
        Those of XᵀX/n. Needed where no stop is good for every spectrum: heavy-ball flow, and friction
        below 2; and where a step is "auto". Without them an iteration with a step of its own is
        calibrated for all eigenvalues up to 1/step.

    Returns
    -------
    float

    Examples
    --------
    >>> round(equivalent_stop("nesterov-flow", penalty=0.01), 4)
    17.5535
    """
    penalty = float(nonnegative("penalty", penalty, infinite=True))
    _ratio(calibration)
    if penalty == 0 or np.isinf(penalty):
        return np.inf if penalty == 0 else 0.0
    method = get_method(method)
    method.require_filter()
    if calibration == "paper" and not method.whole_stops:
        return float(penalty ** (-1 / method.order))
    return calibrate_to(method, penalty, calibration, eigenvalues).stop


def calibrate_to(
    method: Method, penalty: float, kind: Kind = "risk", eigenvalues: ArrayLike | None = None
) -> Calibration:
    """Return the calibration for one positive penalty, its stop in the time of the method."""
    low, high, scaled = range_in_units(method, eigenvalues, penalty)
    unit = calibrate(scaled, kind, low, high)
    if method.whole_stops:
        return unit
    return replace(unit, stop=unit.stop / penalty ** (1 / method.order))


def equivalent_penalty(
    method: str | Method,
    stop: float,
    *,
    calibration: Kind = "risk",
    eigenvalues: ArrayLike | None = None,
) -> float:
    """Return the ridge penalty that stopping there is like.

    The inverse of :func:`equivalent_stop` where a calibration holds for every spectrum. Where it depends on
    the spectrum, it is the penalty for which the stop has the best guarantee.

    Parameters
    ----------
    method : Method or str
        The method that was stopped.
    stop : float
        Where.
    calibration : {"risk", "parameter", "paper"}, default="risk"
        See :func:`calibrate`.
    eigenvalues : array-like, optional
        As in :func:`equivalent_stop`.

    Returns
    -------
    float

    Examples
    --------
    >>> round(equivalent_penalty("nesterov-flow", stop=17.5535), 6)
    0.01
    """
    method = get_method(method)
    method.require_filter()
    stop = float(nonnegative("stop", stop, infinite=True))
    if stop == 0 or np.isinf(stop):
        return np.inf if stop == 0 else 0.0
    if method.whole_stops:
        return _penalty_of_iterate(method, stop, calibration, eigenvalues)
    if calibration == "paper" or method.universal_guarantee:
        unit = equivalent_stop(method, 1.0, calibration=calibration)
        return float((unit / stop) ** method.order)
    return _best_penalty(method, stop, calibration, eigenvalues)


def _best_penalty(method: Method, stop: float, kind: Kind, eigenvalues: ArrayLike | None) -> float:
    """Return the penalty for which the stop has the best guarantee, where that depends on the spectrum."""
    s = np.empty(0) if eigenvalues is None else nonnegative("eigenvalues", eigenvalues)
    positive = s[s > 0]
    low, high = (positive.min(), positive.max()) if positive.size else (0.0, np.inf)
    if kind == "risk":
        _check_bounded(method, high)
    tuned = method if eigenvalues is None else method.tuned_to(s)
    ratio = _ratio(kind)

    def worst(log_penalty: float) -> float:
        penalty = float(np.exp(log_penalty))
        unit_stop = stop * penalty ** (1 / method.order)
        return largest_ratio(
            tuned.in_units_of(penalty), ratio, unit_stop, low / penalty, high / penalty
        )

    return float(np.exp(_minimum(worst, -float(np.log(tuned.gain(0.0, stop))))))


def _check_bounded(method: Method, high: float) -> None:
    if np.isinf(high) and not method.universal_guarantee:
        raise ValueError(
            f"No stop of {method} is close to ridge on every spectrum: give the eigenvalues, "
            'or use calibration="paper".'
        )


def range_in_units(
    method: Method, eigenvalues: ArrayLike | None, penalty: float
) -> tuple[float, float, Method]:
    """Return the eigenvalues to be calibrated for, and the method for them, in units of the penalty."""
    if eigenvalues is None:
        if not (method.is_tuned or method.whole_stops):
            _check_bounded(method, np.inf)
        return 0.0, np.inf, method.in_units_of(penalty)
    s = nonnegative("eigenvalues", eigenvalues)
    method = method.tuned_to(s).in_units_of(penalty)
    if method.whole_stops:  # beyond the largest eigenvalue it may diverge
        largest = float(s.max(initial=0)) or 1.0
        smallest = 0.0 if method.universal_guarantee else float(s.min(where=s > 0, initial=largest))
        return smallest / penalty, largest / penalty, method
    if method.universal_guarantee:
        return 0.0, np.inf, method
    positive = s[s > 0] / penalty
    low, high = (positive.min(), positive.max()) if positive.size else (1.0, 1.0)
    return float(low), float(high), method


def possible_eigenvalues(spectrum: Spectrum) -> Array:
    """Return eigenvalues whose range holds all: Ritz values leave some out, which may be next to zero."""
    s = spectrum.padded_eigenvalues.astype(np.float64)
    return s if spectrum.krylov is None else np.append(s, TINY)


def _ratio(kind: Kind) -> Ratio:
    if kind not in {"risk", "parameter", "paper"}:
        raise ValueError(f'calibration must be "risk", "parameter" or "paper"; got {kind!r}.')
    return distance_ratio if kind == "parameter" else risk_ratio


def _minimum(worst: Callable[[float], float], centre: float) -> float:
    """Minimise a guarantee over the logarithm of its argument: on a grid, then between its points."""
    logs = centre + np.linspace(-np.log(SEARCH), np.log(SEARCH), COARSE)
    best = int(np.argmin([worst(log) for log in logs]))
    bracket = logs[max(best - 1, 0)], logs[min(best + 1, COARSE - 1)]
    found = minimize_scalar(worst, bounds=bracket, method="bounded", options={"xatol": 1e-11})
    return float(found.x)


def _calibrate_long_run(method: Method, kind: Kind, low: float, high: float) -> Calibration:
    """Return the calibration of the flow; beyond any number of steps, that of never stopping."""
    flow = method.as_flow()
    unit = calibrate(flow, kind, *((0.0, np.inf) if flow.universal_guarantee else (low, high)))
    stop = float(np.round(unit.stop / method.pace))
    return replace(unit, stop=stop if stop <= max(method.horizon, MOST_ITERATIONS) else np.inf)


def _best_iteration(method: Method, kind: Kind, low: float, high: float) -> float:
    """Return the iteration with the best guarantee for unit penalty, by search among whole numbers."""
    if kind == "paper":
        return float(max(round(1 / method.pace), 1))
    centre, ratio = stop_with_gain(method, 1.0), _ratio(kind)
    x = eigenvalue_grid(low, high)[:, None]
    first = centre / 8 if method.universal_guarantee else centre / SEARCH
    closer = np.unique(np.round(np.append(np.geomspace(first, 4 * centre + 2, COARSE), [0, 1])))
    stops = worst = np.empty(0)
    while closer.size:
        stops = np.append(stops, closer)
        worst = np.append(worst, ratio(method, x, closer).max(axis=0))
        stops, worst = stops[np.argsort(stops)], worst[np.argsort(stops)]
        closer = closer_stops(stops, np.array([np.argmin(worst)]))
    return float(stops[np.argmin(worst)])


def _penalty_of_iterate(
    method: Method, stop: float, kind: Kind, eigenvalues: ArrayLike | None
) -> float:
    """Return the penalty against which this iterate has the best guarantee."""
    low, high, _ = range_in_units(method, eigenvalues, 1.0)
    method = method if eigenvalues is None else method.tuned_to(eigenvalues)
    if kind == "paper":
        return float((method.pace * stop) ** -method.order)
    if stop > LIKE_A_FLOW:
        flow, time = method.as_flow(), method.pace * stop
        return equivalent_penalty(flow, time, calibration=kind, eigenvalues=eigenvalues)
    high = min(high, method.possible_eigenvalues[1]) if np.isinf(high) else high
    s = eigenvalue_grid(low, high)
    g, gain = method.shrinkage(s, stop), method.gain(s, stop)

    def worst(log_penalty: float) -> float:
        penalty = np.exp(log_penalty)
        if kind == "parameter":
            return float(np.max((gain * (penalty + s) - 1) ** 2))
        return float(np.max(s * (g - penalty * gain) ** 2 / penalty))

    logs = -np.log(method.gain(0.0, stop)) + np.linspace(-np.log(SEARCH), np.log(SEARCH), COARSE)
    found = [
        minimize_scalar(
            worst, bounds=logs[[i - 1, i + 1]], method="bounded", options={"xatol": 1e-10}
        )
        for i in dips(np.array([worst(log) for log in logs]))
    ]
    if method.universal_guarantee or len(found) < 2:
        return float(np.exp(min(found, key=lambda one: float(one.fun)).x))

    def mismatch(penalty: float) -> float:
        back = _best_iteration(method.in_units_of(penalty), kind, low / penalty, high / penalty)
        return float(abs(np.log((back + 1) / (stop + 1))))

    # of several penalties take the one that leads back: the iterate swings past others on its way
    return float(min((np.exp(one.x) for one in found), key=mismatch))
