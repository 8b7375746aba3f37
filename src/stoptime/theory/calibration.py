r"""The stop that is equivalent to a ridge penalty, by numerical optimisation.

In units of the penalty, :math:`x = s/\lambda`, the Bayes risk over that of the best ridge is
:math:`F(x) = (1+x)(g^2 + x\varphi^2) = 1 + x(g - \varphi)^2` in each direction. A calibration picks
one stop for all x by the largest value over x. That value is estimated by a search in floats;
:mod:`stoptime.bounds` proves it.
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
    """A stop for unit penalty, and estimates of its largest distances from ridge.

    ``stop`` is the τ of t = τ/λ (first order) or t = τ/√λ (second order). ``inflation`` is the
    largest ratio of Bayes risk to optimal ridge risk with this one stop for all spectra, and
    ``parameter_error`` the largest ratio of ‖β(t) - β_ridge(λ)‖² to ‖β_ridge(λ)‖². Both maxima are
    found by a search in floats. Those of an iteration beyond its horizon are those of its flow,
    with room for another phase where the flow has no constant for all spectra.
    """

    stop: float
    inflation: float
    parameter_error: float


def calibrate(
    method: str | Method, kind: Kind = "risk", low: float = 0.0, high: float = np.inf
) -> Calibration:
    """Find the stop for unit penalty and eigenvalues in [low, high], in units of the penalty.

    The ``kind`` "risk" minimises the largest inflation, "parameter" the largest distance from the
    ridge coefficients, and "paper" is t = 1/λ or t = 1/√λ. The method is tuned already.

    Examples
    --------
    >>> c = calibrate("gradient-flow")
    >>> f"{c.stop:.5f} {c.inflation:.5f}"
    '0.45711 1.07858'
    """
    if not 0 <= low <= high:
        raise ValueError(f"low and high must satisfy 0 ≤ low ≤ high; got {low!r} and {high!r}.")
    found = as_filter(get_method(method))
    stop = _best_stop(found, kind, low, high)
    if np.isinf(stop):
        return Calibration(stop, np.inf, np.inf)
    return guarantee(found, stop, low, high)


@lru_cache(maxsize=512)
def _best_stop(method: Filter, kind: Kind, low: float, high: float) -> float:
    """Return the stop whose largest ratio is least; infinity where no run can reach it."""
    ratio = _ratio(kind)
    high = _reached(method, low, high)
    if kind == "paper" or isinstance(method, Ridge):
        return float(max(round(1 / method.pace), 1)) if method.whole_stops else 1.0
    if isinstance(method, SpectralCutoff):
        return float(np.sum(method.counted > 1))  # its ratios are 1 + 1/x or 1 + x
    if kind == "risk":
        _check_bounded(method, high)

    def worst(stops: Array) -> Array:
        x = search.peak_grid(method, stops, low, high)
        return np.asarray(ratio(method, x, stops).max(axis=0))

    centre = search.stop_with_gain(method)
    if np.isinf(high) and method.scale_free:
        # Such a flow knows no scale: the best penalty for one stop gives the stop for any penalty,
        # and a penalty is much cheaper to search.
        penalty = _best_penalty(method, centre, kind, low, high)
        return float(centre * penalty ** (1 / method.time_power))
    # where no bound holds for every spectrum, the best stop may be far from the gain of ridge
    factor = 8.0 if method.universal_guarantee else 1e3
    if not isinstance(method, Iteration):
        grid = centre * np.geomspace(1 / factor, factor, 80)
        return search.lowest(worst, grid, most_dips=1, zooms=5)[0]
    last = method.horizon
    if method.follows_flow:
        flow = method.as_flow()
        span = (0.0, np.inf) if flow.universal_guarantee else (low, high)
        of_flow = _best_stop(flow, kind, *span) / method.pace
        # hardly damped oscillations end long after the gain has reached that of ridge
        latest = max(centre, of_flow)
        if latest > LIKE_A_FLOW:
            return float(np.round(of_flow)) if of_flow <= max(last, MOST_ITERATIONS) else np.inf
        last = min(4 * latest + 2, max(4 * centre + 2, last))
    grid = np.append(np.geomspace(min(centre / factor, last), last, 80), [0, 1])
    return search.lowest(worst, np.unique(np.round(grid)), 1, 8, whole=True)[0]


def guarantee(
    method: str | Method, stop: float, low: float = 0.0, high: float = np.inf
) -> Calibration:
    """Estimate how far from ridge a stop may be, for unit penalty and eigenvalues in [low, high].

    Here ``stop`` is the τ of t = τ/λ or t = τ/√λ. The inflation is infinite where no bound holds
    for every spectrum; :func:`stoptime.bounds.risk_inflation` with ``stop`` proves it.

    Examples
    --------
    >>> guarantee("accelerated-flow", 1.0).parameter_error  # the paper's 49/64
    0.765625
    """
    found = as_filter(get_method(method))
    high = _reached(found, low, high)
    stop = positive_number("stop", stop) if np.isinf(high) else float(nonnegative("stop", stop))
    run, time = search.affordable(found, stop)
    if run is not found and run.universal_guarantee:
        low = 0.0
        high = np.inf
    x = search.peak_grid(run, time, low, high)
    gain = run.gain(x, time)
    # the largest ratios may lie between the eigenvalues of the grid; those of cut-off are all
    for _ in range(0 if isinstance(run, SpectralCutoff) else 2):
        distance = (gain * (1 + x) - 1) ** 2
        x, gain = search.closer_to_peaks(run, time, x, gain, [1 + x * distance, distance])
    distance = (gain * (1 + x) - 1) ** 2
    error = float(distance.max(initial=0))
    inflation = float((1 + x * distance).max(initial=1))
    if np.isinf(high) and not run.universal_guarantee:
        inflation = np.inf
    if isinstance(found, Iteration) and run is not found and not run.universal_guarantee:
        # where no bound holds for every phase, leaving the phase of the flow matters
        risk, apart = search.out_of_phase(found, stop, low, high)
        return Calibration(stop, max(inflation, risk), max(error, apart))
    return Calibration(stop, inflation, error)


def _reached(method: Filter, low: float, high: float) -> float:
    """Return the largest eigenvalue that matters; methods with whole stops have one."""
    return max(low, largest_possible(method)) if method.whole_stops and np.isinf(high) else high


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
    spectrum.

    Parameters
    ----------
    method, calibration
        See :func:`calibrate`.
    penalty : float
        The λ of ‖y - Xβ‖²/(2n) + (λ/2)‖β‖²; scikit-learn's ``alpha`` is nλ. Zero is least squares.
    eigenvalues : array-like, optional
        Those of XᵀX/n, needed where no stop is good for every spectrum and where a step is "auto".
        Without them, an iteration with a given step is calibrated for eigenvalues up to 1/step.

    Examples
    --------
    >>> round(equivalent_stop("accelerated-flow", penalty=0.01), 4)
    17.5535
    """
    penalty = float(nonnegative("penalty", penalty, infinite=True))
    _ratio(calibration)
    if penalty == 0 or np.isinf(penalty):
        return np.inf if penalty == 0 else 0.0
    found = as_filter(get_method(method))
    if calibration == "paper" and not found.whole_stops:
        return float(penalty ** (-1 / found.time_power))
    low, high, scaled = range_in_units(found, eigenvalues, penalty)
    return _best_stop(scaled, calibration, low, high) / _unit(found, penalty)


def _unit(method: Method, penalty: float) -> float:
    """Return the stop for unit penalty over the stop in the time of the method."""
    return 1.0 if method.whole_stops else penalty ** (1 / method.time_power)


def calibrate_to(
    method: Filter, penalty: float, kind: Kind = "risk", eigenvalues: ArrayLike | None = None
) -> Calibration:
    """Return the calibration for one positive penalty, its stop in the time of the method."""
    low, high, scaled = range_in_units(method, eigenvalues, penalty)
    found = calibrate(scaled, kind, low, high)
    return replace(found, stop=found.stop / _unit(method, penalty))


def equivalent_penalty(
    method: str | Method,
    stop: float,
    *,
    calibration: Kind = "risk",
    eigenvalues: ArrayLike | None = None,
) -> float:
    """Return the ridge penalty that is equivalent to this stop.

    This is the inverse of :func:`equivalent_stop`, which has the same parameters, where a
    calibration holds for every spectrum. Elsewhere it is the penalty from whose ridge the stop is
    least far.

    Examples
    --------
    >>> round(equivalent_penalty("accelerated-flow", stop=17.5535), 6)
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
    low, high, tuned = range_in_units(found, eigenvalues, 1.0)
    if calibration == "paper":
        return float((tuned.pace * stop) ** -tuned.time_power)
    high = _reached(tuned, low, high)
    if isinstance(tuned, Iteration) and tuned.follows_flow and stop > LIKE_A_FLOW:
        stop *= tuned.pace
        tuned = tuned.as_flow()
    if tuned.universal_guarantee and not tuned.whole_stops:
        unit = _best_stop(tuned, calibration, 0.0, np.inf)
        return float((unit / stop) ** tuned.time_power)
    if calibration == "risk":
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


def largest_possible(method: Filter) -> float:
    """Return the largest eigenvalue for which a method is calibrated without a spectrum."""
    if isinstance(method, Wrapped):
        return max(largest_possible(method.method) - float(method.shift), 0.0)
    if isinstance(method, SpectralCutoff):
        return float(method.counted.max(initial=0.0))
    # an iteration diverges beyond; an automatic step has its largest eigenvalue here
    return 1 / method.epsilon if isinstance(method, Iteration) else np.inf


def possible_eigenvalues(spectrum: Spectrum) -> Array:
    """Return eigenvalues that span the range of all: Ritz values may miss some near zero."""
    s = spectrum.padded_eigenvalues.astype(np.float64)
    return s if spectrum.accuracy.complete else np.append(s, TINY)


def _ratio(kind: Kind) -> search.Ratio:
    if kind not in {"risk", "parameter", "paper"}:
        raise ValueError(f'calibration must be "risk", "parameter" or "paper"; got {kind!r}.')
    return search.distance_ratio if kind == "parameter" else search.risk_ratio


def _best_penalty(method: Filter, stop: float, kind: Kind, low: float, high: float) -> float:
    """Return the penalty from whose ridge this stop is least far, over all eigenvalues."""
    # the filter depends on the stop alone, so that one evaluation serves all penalties
    s = search.peak_grid(method, stop, low, high)
    gain = method.gain(s, stop)
    logs = np.log(np.geomspace(1e-3, 1e3, 80) / search.gain_at(method, stop))

    def ratios(log_penalty: ArrayLike) -> Array:
        penalty = np.exp(log_penalty)[..., None]
        distance = (gain * (penalty + s) - 1) ** 2
        return np.asarray(distance if kind == "parameter" else 1 + s / penalty * distance)

    def worst(log_penalty: Array) -> Array:
        return np.asarray(ratios(log_penalty).max(axis=-1))

    best = search.lowest(worst, logs, 1, 12)[0]
    # The worst eigenvalue may lie between those of the grid. Every round of an iteration repeats
    # its run, so that it has one only.
    runs_steps = isinstance(method, Iteration) and method.runs_steps
    for _ in range(1 if runs_steps else 2):
        s, gain = search.closer_to_peaks(method, stop, s, gain, [ratios(best)])
        best = search.lowest(worst, best + np.linspace(-0.2, 0.2, 5), 1, 12)[0]
    return float(np.exp(best))
