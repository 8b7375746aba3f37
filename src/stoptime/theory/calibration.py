r"""The stop that is equivalent to a ridge penalty, and its guarantee, by numerical optimisation.

In units of the penalty, :math:`x = s/\lambda`, the Bayes risk over that of the best ridge is
:math:`F(x) = (1+x)(g^2 + x\varphi^2) = 1 + x(g - \varphi)^2` in each direction. A calibration picks
one stop for all x; the largest value over x is its guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stoptime.methods.averages import Wrapped
from stoptime.methods.base import Filter, Method, as_filter
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.recurrence import MOST_ITERATIONS, Iteration
from stoptime.methods.registry import get_method
from stoptime.methods.ridge import Ridge
from stoptime.spectrum.base import Spectrum
from stoptime.support.arrays import TINY, Array
from stoptime.support.checks import iteration_numbers, nonnegative, positive_number
from stoptime.theory import search

Kind = Literal["risk", "parameter", "paper"]

LIKE_A_FLOW = 5000  # from this iteration on, the best stop of the flow is good for the iteration


@dataclass(frozen=True)
class Calibration:
    """A stop for unit penalty and its guarantees; both maxima are found by a search in floats.

    ``stop`` is the τ of t = τ/λ (first order) or t = τ/√λ (second order). ``inflation`` is the
    largest ratio of Bayes risk to optimal ridge risk with this one stop for all spectra, and
    ``parameter_error`` the largest ratio of ‖β(t) - β_ridge(λ)‖² to ‖β_ridge(λ)‖².
    """

    stop: float
    inflation: float
    parameter_error: float


def calibrate(
    method: str | Method, kind: Kind = "risk", low: float = 0.0, high: float = np.inf
) -> Calibration:
    """Find the stop for unit penalty and eigenvalues in [low, high], in units of the penalty.

    The method is already tuned to its spectrum. The ``kind`` "risk" minimises the guaranteed
    inflation, "parameter" the guaranteed distance from the ridge coefficients, and "paper" is
    t = 1/λ or t = 1/√λ.

    Examples
    --------
    >>> c = calibrate("gradient-flow")
    >>> f"{c.stop:.5f} {c.inflation:.5f}"
    '0.45711 1.07858'
    """
    if not 0 <= low <= high:
        raise ValueError(f"low and high must satisfy 0 ≤ low ≤ high; got {low!r} and {high!r}.")
    return _calibrate(as_filter(get_method(method)), kind, low, high)


@lru_cache(maxsize=512)  # of a private function: the cache would hide the types of the public one
def _calibrate(method: Filter, kind: Kind, low: float, high: float) -> Calibration:
    ratio = _ratio(kind)
    if isinstance(method, SpectralCutoff):
        x = method.counted
        stop = float(np.argmin([ratio(method, x, k).max(initial=0) for k in range(len(x) + 1)]))
        inflation = search.risk_ratio(method, x, stop).max(initial=1)
        error = search.distance_ratio(method, x, stop).max(initial=0)
        return Calibration(stop, float(inflation), float(error))
    if isinstance(method, Iteration):
        low, high = (low, high) if high < np.inf else (0.0, largest_possible(method))
        return _calibrate_iteration(method, kind, low, high)
    if kind == "paper" or isinstance(method, Ridge):
        return guarantee(method, 1.0, low, high)
    if kind == "risk":
        _check_bounded(method, high)
    centre = search.stop_with_gain(method)
    if np.isinf(high) and method.scale_free:
        # Such a flow knows no scale: the best penalty for one stop gives the stop for any penalty,
        # and a penalty is much cheaper to search.
        unit = _best_penalty(method, centre, kind, low, high) ** (1 / method.time_power)
        return guarantee(method, centre * unit, low, high)
    reach = _search_range(method)
    stop, _ = search.lowest(
        lambda t: ratio(method, search.worst_places(method, t, low, high), t).max(axis=0),
        centre * np.geomspace(1 / reach, reach, 80),
        most_dips=1,
        zooms=5,
    )
    return guarantee(method, stop, low, high)


def _search_range(method: Filter) -> float:
    """Return the factor around the stop with the gain of ridge that a search covers."""
    return 8.0 if method.universal_guarantee else 1e3


def _calibrate_iteration(method: Iteration, kind: Kind, low: float, high: float) -> Calibration:
    if kind == "paper":
        return guarantee(method, float(max(round(1 / method.pace), 1)), low, high)
    centre = search.stop_with_gain(method)
    latest = centre
    if method.follows_flow and not method.universal_guarantee:
        # hardly damped oscillations end long after the gain has reached that of ridge
        latest = max(centre, _calibrate(method.as_flow(), kind, low, high).stop / method.pace)
    if method.follows_flow and latest > LIKE_A_FLOW:
        return _calibrate_late(method, kind, low, high)
    last = method.horizon
    if method.follows_flow:
        last = min(4 * latest + 2, max(4 * centre + 2, last))
    grid = np.append(np.geomspace(min(centre / _search_range(method), last), last, 80), [0, 1])
    x = search.eigenvalue_grid(low, high)[:, None]
    ratio = _ratio(kind)
    stop, _ = search.lowest_whole(
        lambda stops: ratio(method, x, stops).max(axis=0), np.unique(np.round(grid)), most_dips=0
    )
    return guarantee(method, stop, low, high)


def _calibrate_late(method: Iteration, kind: Kind, low: float, high: float) -> Calibration:
    """Return the stop of the flow as an iteration, with guarantees of the iterate."""
    flow = method.as_flow()
    bounded = flow.universal_guarantee
    unit = _calibrate(flow, kind, *((0.0, np.inf) if bounded else (low, high)))
    stop = float(np.round(unit.stop / method.pace))
    if stop > max(method.horizon, MOST_ITERATIONS):
        return replace(unit, stop=np.inf)  # no run can reach it
    if not method.runs_steps or (stop <= method.horizon and not bounded):
        return guarantee(method, stop, low, high)
    # the guarantees of iterate k and of its flow differ by less than 4/k
    numbers = (1 + 4 / stop) * np.array([unit.inflation, unit.parameter_error])
    if not bounded:
        numbers = np.maximum(numbers, search.out_of_phase(method, stop, low, high))
    return Calibration(stop, *numbers.tolist())


def guarantee(
    method: str | Method, stop: float, low: float = 0.0, high: float = np.inf
) -> Calibration:
    """Estimate the guarantees of a stop for unit penalty and eigenvalues in [low, high].

    Here ``stop`` is the τ of t = τ/λ or t = τ/√λ; the other parameters are those of
    :func:`calibrate`. The inflation is infinite where no bound holds for every spectrum;
    :func:`stoptime.bounds.risk_inflation` with ``stop`` proves it.

    Examples
    --------
    >>> guarantee("nesterov-flow", 1.0).parameter_error  # the paper's 49/64
    0.765625
    """
    found = as_filter(get_method(method))
    if isinstance(found, Iteration) and np.isinf(high):
        # an iteration diverges for large eigenvalues
        high = max(low, largest_possible(found))
    stop = positive_number("stop", stop) if np.isinf(high) else float(nonnegative("stop", stop))
    inflation = np.inf
    if high < np.inf or found.universal_guarantee:
        inflation = search.highest_peak(found, search.risk_ratio, stop, low, high)[1]
    error = search.highest_peak(found, search.distance_ratio, stop, low, high)[1]
    return Calibration(stop, inflation, error)


def equivalent_stop(
    method: str | Method,
    penalty: float,
    *,
    calibration: Kind = "risk",
    eigenvalues: ArrayLike | None = None,
) -> float:
    r"""Return the stop that is equivalent to ridge with this penalty.

    .. math:: t = \tau/\lambda \quad\text{or}\quad t = \tau/\sqrt\lambda

    with the τ of :func:`calibrate`: 0.45711 for gradient flow and 1.75535 for accelerated flow. At
    this one stop their risk is at most 1.0786 and 1.5992 times the best ridge risk on every
    spectrum; a stop that is tuned to the spectrum has smaller constants.

    Parameters
    ----------
    method, calibration
        See :func:`calibrate`.
    penalty : float
        The λ of ‖y - Xβ‖²/(2n) + (λ/2)‖β‖²; scikit-learn's ``alpha`` is nλ. Zero is least squares.
    eigenvalues : array-like, optional
        Those of XᵀX/n. Needed where no stop is good for every spectrum (heavy-ball flow, and
        friction below 2) and where a step is "auto". Without them, an iteration with a given step
        is calibrated for all eigenvalues up to 1/step.

    Examples
    --------
    >>> round(equivalent_stop("nesterov-flow", penalty=0.01), 4)
    17.5535
    """
    penalty = float(nonnegative("penalty", penalty, infinite=True))
    _ratio(calibration)
    if penalty == 0 or np.isinf(penalty):
        return np.inf if penalty == 0 else 0.0
    found = as_filter(get_method(method))
    if calibration == "paper" and not found.whole_stops:
        return float(penalty ** (-1 / found.time_power))
    return calibrate_to(found, penalty, calibration, eigenvalues).stop


def calibrate_to(
    method: Filter, penalty: float, kind: Kind = "risk", eigenvalues: ArrayLike | None = None
) -> Calibration:
    """Return the calibration for one positive penalty, its stop in the time of the method."""
    low, high, scaled = range_in_units(method, eigenvalues, penalty)
    found = calibrate(scaled, kind, low, high)
    unit = 1.0 if method.whole_stops else penalty ** (1 / method.time_power)
    return replace(found, stop=found.stop / unit)


def equivalent_penalty(
    method: str | Method,
    stop: float,
    *,
    calibration: Kind = "risk",
    eigenvalues: ArrayLike | None = None,
) -> float:
    """Return the ridge penalty that is equivalent to this stop.

    This is the inverse of :func:`equivalent_stop` where a calibration holds for every spectrum.
    Where it depends on the spectrum, it is the penalty for which the stop has the best guarantee.
    The other parameters are those of :func:`equivalent_stop`.

    Examples
    --------
    >>> round(equivalent_penalty("nesterov-flow", stop=17.5535), 6)
    0.01
    """
    found = as_filter(get_method(method))
    stop = float(nonnegative("stop", stop, infinite=True))
    _ratio(calibration)
    if stop == 0 or np.isinf(stop):
        return np.inf if stop == 0 else 0.0
    if isinstance(found, SpectralCutoff):
        found = found if eigenvalues is None else found.tuned_to(eigenvalues)
        # the excess over ridge is λ/s in directions that are learned, and s/λ in the others: the
        # mean, in decades, of the last eigenvalue that is learned and the next one is best
        kept = int(iteration_numbers(np.array(stop)))
        below = np.append(found.counted[::-1], 0.0)
        return float(np.sqrt(below[kept - 1]) * np.sqrt(below[kept])) if kept < len(below) else 0.0
    if found.universal_guarantee and not found.whole_stops:
        unit = _calibrate(found, calibration, 0.0, np.inf)
        return float((unit.stop / stop) ** found.time_power)
    low, high, tuned = range_in_units(found, eigenvalues, 1.0)
    if calibration == "paper":
        return float((tuned.pace * stop) ** -tuned.time_power)
    if isinstance(tuned, Iteration):
        if tuned.follows_flow and stop > LIKE_A_FLOW:
            time = tuned.pace * stop
            return equivalent_penalty(
                tuned.as_flow(), time, calibration=calibration, eigenvalues=eigenvalues
            )
        high = largest_possible(tuned) if np.isinf(high) else high
    elif calibration == "risk":
        _check_bounded(tuned, high)
    return _best_penalty(tuned, stop, calibration, low, high)


def _check_bounded(method: Filter, high: float) -> None:
    if np.isinf(high) and not method.universal_guarantee:
        raise ValueError(
            f"No stop of {method} is close to ridge on every spectrum: give the eigenvalues, "
            'or use calibration="paper".'
        )


def range_in_units(
    method: Filter, eigenvalues: ArrayLike | None, penalty: float
) -> tuple[float, float, Filter]:
    """Return the range of eigenvalues to calibrate for and the method, in units of the penalty."""
    if eigenvalues is None:
        if not (method.is_tuned or method.whole_stops):
            _check_bounded(method, np.inf)
        return 0.0, np.inf, method.in_units_of(penalty)
    s = nonnegative("eigenvalues", eigenvalues)
    scaled = method.tuned_to(s).in_units_of(penalty)
    if method.universal_guarantee and not method.whole_stops:
        return 0.0, np.inf, scaled
    positive = s[s > 0]
    if not positive.size:
        positive = np.array([1.0 if method.whole_stops else penalty])
    # an iteration may diverge beyond the largest eigenvalue, so its range ends there
    low = 0.0 if method.universal_guarantee else float(positive.min() / penalty)
    return low, float(positive.max() / penalty), scaled


def largest_possible(method: Iteration) -> float:
    """Return the largest eigenvalue for which an iteration is calibrated without a spectrum."""
    if isinstance(method, Wrapped):
        return max(largest_possible(method.method) - method.shift, 0.0)
    return 1 / method.epsilon  # an automatic step has its largest eigenvalue there


def possible_eigenvalues(spectrum: Spectrum) -> Array:
    """Return eigenvalues that span the range of all: Ritz values may miss some near zero."""
    s = spectrum.padded_eigenvalues.astype(np.float64)
    return s if spectrum.accuracy.complete else np.append(s, TINY)


def _ratio(kind: Kind) -> search.Ratio:
    if kind not in {"risk", "parameter", "paper"}:
        raise ValueError(f'calibration must be "risk", "parameter" or "paper"; got {kind!r}.')
    return search.distance_ratio if kind == "parameter" else search.risk_ratio


def _best_penalty(method: Filter, stop: float, kind: Kind, low: float, high: float) -> float:
    """Return the penalty for which this stop has the best guarantee."""
    # the filter depends on the stop alone, so that one evaluation serves all penalties
    s = search.worst_places(method, stop, low, high)
    gain = method.gain(s, stop)
    logs = np.log(np.geomspace(1e-3, 1e3, 80) / search.gain_at(method, stop))

    def ratios(log_penalty: ArrayLike) -> Array:
        penalty = np.exp(log_penalty)[..., None]
        distance = (gain * (penalty + s) - 1) ** 2
        return np.asarray(distance if kind == "parameter" else 1 + s / penalty * distance)

    def worst(log_penalty: Array) -> Array:
        return np.asarray(ratios(log_penalty).max(axis=-1))

    place = search.lowest(worst, logs, 1, 12)[0]
    # The worst eigenvalue may lie between those of the grid: each round looks up to a hundred times
    # closer. Every round of an iteration repeats its run, so that it has one only.
    runs_steps = isinstance(method, Iteration) and method.runs_steps
    for _ in range(1 if runs_steps else 2):
        closer = search.around_peaks(s, ratios(place))
        s = np.append(s, closer)
        order = np.argsort(s)
        s = s[order]
        gain = np.append(gain, method.gain(closer, stop))[order]
        place = search.lowest(worst, place + np.linspace(-0.2, 0.2, 5), 1, 12)[0]
    return float(np.exp(place))
