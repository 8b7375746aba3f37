r"""The stop that is equivalent to a ridge penalty, and its guarantee.

Measure eigenvalues in units of the penalty, :math:`x = s/\lambda`. Under a prior that is the same
in all eigendirections and makes :math:`\lambda` the best penalty, the risk over the ridge risk is
:math:`F(x) = (1+x)(g^2 + x\varphi^2) = 1 + x(g - \varphi)^2` in each direction; the relative
distance from the ridge coefficient is :math:`(\varphi(1+x) - 1)^2`. A calibration picks one stop
for all x; the largest value over x is its guarantee. These are numerical optimisations;
:mod:`stoptime.bounds` proves the constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal, NamedTuple

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

CALIBRATION_RANGE = 1e3  # the search covers this factor around the stop with the gain of ridge
NEAR_CENTRE = 8.0  # and this factor where a stop is close to ridge on every spectrum
CALIBRATION_POINTS = 80  # of its first grid
LOG_FACTORS = np.linspace(-np.log(CALIBRATION_RANGE), np.log(CALIBRATION_RANGE), CALIBRATION_POINTS)
FIRST_LOOK = 8  # every so many phases are looked at first
SLOPE_STEP = 1e-5  # of a logarithm
MATCH_ROUNDS = 2  # each looks up to a hundred times closer at the worst eigenvalues
COUNT_INFLATION = 2.0  # of spectral cut-off on any spectrum: where s = λ it is attained
LIKE_A_FLOW = 5000  # from this iteration on, the best stop of the flow is good for the iteration
LATE_MARGIN = 4.0  # divided by k: the guarantees of iterate k and of its flow differ by less


class Match(NamedTuple):
    """The penalty that is equivalent to a stop, and the largest ratio to its ridge at this stop."""

    penalty: float
    guarantee: float


@dataclass(frozen=True)
class Calibration:
    """A stop for unit penalty and its guarantees, as estimates in floating point.

    ``stop`` is the τ of t = τ/λ (first order) or t = τ/√λ (second order). ``inflation`` is the
    largest ratio of Bayes risk to optimal ridge risk with this one stop for all spectra, and
    ``parameter_error`` the largest ratio of ‖β(t) - β_ridge(λ)‖² to ‖β_ridge(λ)‖². Both maxima are
    found by a search; :mod:`stoptime.bounds` proves them.
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
        return _best_count(method, ratio)
    if isinstance(method, Iteration):
        low, high = (low, high) if high < np.inf else (0.0, largest_possible(method))
        if method.follows_flow and _latest_iteration(method, kind, low, high) > LIKE_A_FLOW:
            return _late(method, kind, low, high)
        return guarantee(method, _best_iteration(method, kind, low, high), low, high)
    if kind == "paper" or isinstance(method, Ridge):
        return guarantee(method, 1.0, low, high)
    if kind == "risk":
        _check_bounded(method, high)
    if np.isinf(high) and method.scale_free:
        # Such a flow knows no scale: the best penalty for one stop gives the stop for any penalty,
        # and a penalty is much cheaper to search.
        stop = search.stop_with_gain(method)
        unit = _best_match(method, stop, kind, low, high).penalty ** (1 / method.time_power)
        return guarantee(method, stop * unit, low, high)
    return guarantee(method, _best_time(method, ratio, low, high), low, high)


def guarantee(
    method: str | Method, stop: float, low: float = 0.0, high: float = np.inf
) -> Calibration:
    """Estimate the guarantees of a stop for unit penalty and eigenvalues in [low, high].

    The largest ratios are found by a search in floating point;
    :func:`stoptime.bounds.risk_inflation` with ``stop`` proves them.

    Here ``stop`` is the τ of t = τ/λ or t = τ/√λ; the other parameters are those of
    :func:`calibrate`. The inflation is infinite where no bound holds for every spectrum.

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


def _late(method: Iteration, kind: Kind, low: float, high: float) -> Calibration:
    """Return the stop of the flow as an iteration, with guarantees of the iterate."""
    flow = method.as_flow()
    whole = (0.0, np.inf) if flow.universal_guarantee else (low, high)
    unit = _calibrate(flow, kind, *whole)
    stop = float(np.round(unit.stop / method.pace))
    if stop > max(method.horizon, MOST_ITERATIONS):
        return replace(unit, stop=np.inf)  # no run can reach it
    return _not_below(method, replace(unit, stop=stop), low, high)


def _not_below(method: Iteration, found: Calibration, low: float, high: float) -> Calibration:
    """Return guarantees of an iteration: computed, or those of its flow raised by its distance."""
    if _is_computed(method, found.stop):
        return guarantee(method, found.stop, low, high)
    raised = 1 + LATE_MARGIN / found.stop
    numbers = [found.inflation * raised, found.parameter_error * raised]
    if not method.as_flow().universal_guarantee:
        numbers = np.maximum(numbers, search.out_of_phase(method, found.stop, low, high)).tolist()
    return Calibration(found.stop, *numbers)


def _is_computed(method: Iteration, stop: float) -> bool:
    bounded = method.as_flow().universal_guarantee
    return not method.runs_steps or (stop <= method.horizon and not bounded)


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
    return matched(as_filter(get_method(method)), stop, calibration, eigenvalues).penalty


def matched(
    method: Filter, stop: float, kind: Kind = "risk", eigenvalues: ArrayLike | None = None
) -> Match:
    """Return the penalty that is equivalent to a stop, and the guarantee of the stop."""
    stop = float(nonnegative("stop", stop, infinite=True))
    _ratio(kind)
    if stop == 0 or np.isinf(stop):
        return Match(np.inf if stop == 0 else 0.0, np.nan)
    if isinstance(method, SpectralCutoff):
        cutoff = method if eigenvalues is None else method.tuned_to(eigenvalues)
        return Match(_penalty_of_count(cutoff, stop), COUNT_INFLATION)
    if method.universal_guarantee and not method.whole_stops:
        unit = _calibrate(method, kind, 0.0, np.inf)
        return Match(float((unit.stop / stop) ** method.time_power), unit.inflation)
    low, high, tuned = range_in_units(method, eigenvalues, 1.0)
    if kind == "paper":
        return Match(float((tuned.pace * stop) ** -method.time_power), np.nan)
    if isinstance(tuned, Iteration):
        if tuned.follows_flow and stop > LIKE_A_FLOW:
            return _late_match(tuned, stop, kind, eigenvalues)
        high = largest_possible(tuned) if np.isinf(high) else high
    elif kind == "risk":
        _check_bounded(tuned, high)
    return _best_match(tuned, stop, kind, low, high)


def _late_match(method: Iteration, stop: float, kind: Kind, eigenvalues: ArrayLike | None) -> Match:
    """Return the penalty of the flow, and the guarantee of the iteration with it."""
    penalty, bound = matched(method.as_flow(), method.pace * stop, kind, eigenvalues)
    low, high, _ = range_in_units(method, eigenvalues, penalty)
    tuned = method if eigenvalues is None else method.tuned_to(eigenvalues)
    scaled = tuned.in_units_of(penalty)
    high = high if high < np.inf else largest_possible(scaled)
    if _is_computed(scaled, stop):
        # every evaluation runs the iteration, so that only the number that is asked for is computed
        return Match(penalty, search.highest_peak(scaled, _ratio(kind), stop, low, high)[1])
    found = _not_below(scaled, Calibration(stop, bound, bound), low, high)
    return Match(penalty, found.inflation if kind == "risk" else found.parameter_error)


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


def _best_time(method: Filter, ratio: search.Ratio, low: float, high: float) -> float:
    """Return the time of a flow with the best guarantee for unit penalty."""

    def worst(log_time: float) -> search.Look:
        x, height = search.highest_peak(method, ratio, float(np.exp(log_time)), low, high)
        # a peak is flat in x, so that its height changes as the ratio does at this x
        around = ratio(method, np.array(x), np.exp(log_time + np.array([-SLOPE_STEP, SLOPE_STEP])))
        return search.Look(height, log_time, float(around[1] - around[0]) / (2 * SLOPE_STEP))

    logs = np.log(search.stop_with_gain(method)) + LOG_FACTORS
    if method.universal_guarantee:
        logs = logs[np.abs(LOG_FACTORS) <= np.log(NEAR_CENTRE)]
    times = np.exp(logs)
    # the first look is at all times at once; even phases resolve every oscillation, so that a part
    # of them is enough for it
    x = search.worst_places(method, times, low, high)
    heights = ratio(method, x[::FIRST_LOOK] if x.ndim == 2 else x[:, None], times).max(axis=0)
    return float(np.exp(search.lowest_kink(worst, logs, int(np.argmin(heights)))))


def _best_iteration(method: Iteration, kind: Kind, low: float, high: float) -> float:
    """Return the iteration with the best guarantee for unit penalty, by search."""
    if kind == "paper":
        return float(max(round(1 / method.pace), 1))
    x = search.eigenvalue_grid(low, high)[:, None]
    centre = search.stop_with_gain(method)
    first = centre / (NEAR_CENTRE if method.universal_guarantee else CALIBRATION_RANGE)
    last = method.horizon
    if method.follows_flow:
        last = min(4 * _latest_iteration(method, kind, low, high) + 2, max(4 * centre + 2, last))
    grid = np.append(np.geomspace(min(first, last), last, CALIBRATION_POINTS), [0, 1])
    ratio = _ratio(kind)
    return search.lowest_whole(
        lambda stops: ratio(method, x, stops).max(axis=0), np.unique(np.round(grid)), most_dips=0
    )[0]


def _best_count(method: SpectralCutoff, ratio: search.Ratio) -> Calibration:
    """Return the number of components with the best guarantee for unit penalty, on its spectrum."""
    x = method.counted
    worst = [ratio(method, x, k).max(initial=0) for k in range(len(x) + 1)]
    stop = float(np.argmin(worst))
    error = search.distance_ratio(method, x, stop).max(initial=0)
    return Calibration(stop, COUNT_INFLATION, float(error))


def _penalty_of_count(method: SpectralCutoff, stop: float) -> float:
    """Return the mean, in decades, of the last eigenvalue that is learned and the next one."""
    # the excess over ridge is λ/s in directions that are learned, and s/λ in the others
    kept = int(iteration_numbers(np.array(stop)))
    below = np.append(method.counted[::-1], 0.0)
    return float(np.sqrt(below[kept - 1]) * np.sqrt(below[kept])) if kept < len(below) else 0.0


def _latest_iteration(method: Iteration, kind: Kind, low: float, high: float) -> float:
    """Return the iteration with the gain of ridge, or the best stop of the flow if it is later."""
    centre = search.stop_with_gain(method)
    if method.universal_guarantee or kind == "paper":
        return centre
    # hardly damped oscillations end long after the gain has reached that of ridge
    return max(centre, _calibrate(method.as_flow(), kind, low, high).stop / method.pace)


def _best_match(method: Filter, stop: float, kind: Kind, low: float, high: float) -> Match:
    """Return the penalty for which this stop has the best guarantee."""
    # the filter depends on the stop alone, so that one evaluation serves all penalties
    s = search.worst_places(method, stop, low, high)
    table = np.array([s, method.gain(s, stop)])
    logs = LOG_FACTORS - float(np.log(search.gain_at(method, stop)))
    first = _ratios(logs[:, None], table[:, ::FIRST_LOOK], kind).max(axis=1)
    start = int(np.argmin(first))
    place = search.lowest_kink(partial(_look, table=table, kind=kind), logs, start)
    # every round of an iteration repeats its run
    runs_steps = isinstance(method, Iteration) and method.runs_steps
    for _ in range(1 if runs_steps else MATCH_ROUNDS):
        # the worst eigenvalue may lie between those of the grid
        closer = search.around_peaks(table[0], _ratios(place, table, kind))
        table = np.hstack([table, [closer, method.gain(closer, stop)]])
        table = table[:, np.argsort(table[0])]
        place = search.lowest_kink(partial(_look, table=table, kind=kind), logs, start)
    return Match(float(np.exp(place)), _look(place, table, kind).height)


def _look(log_penalty: float, table: Array, kind: Kind) -> search.Look:
    """Return the largest ratio to ridge with this penalty, and its slope."""
    ratios = _ratios(log_penalty, table, kind)
    worst = int(np.argmax(ratios))
    s, gain = table[:, worst]
    penalty = np.exp(log_penalty)
    slope = s * (penalty * gain**2 - (1 - s * gain) ** 2 / penalty)
    if kind == "parameter":
        slope = 2 * penalty * gain * (gain * (penalty + s) - 1)
    return search.Look(float(ratios[worst]), log_penalty, float(slope))


def _ratios(log_penalty: ArrayLike, table: Array, kind: Kind) -> Array:
    """Return the ratio to ridge with this penalty at every eigenvalue."""
    s, gain = table
    penalty = np.exp(log_penalty)
    distance = np.asarray((gain * (penalty + s) - 1) ** 2)
    return distance if kind == "parameter" else 1 + s / penalty * distance
