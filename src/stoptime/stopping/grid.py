"""The stops at which a rule estimates errors, unless the user gives others."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from stoptime.left_out.contours import RUNG
from stoptime.methods.base import Filter, Method, settled_at
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.spectrum.base import Spectrum
from stoptime.support.arrays import Array, Floats
from stoptime.support.checks import is_whole, nonnegative

if TYPE_CHECKING:
    from stoptime.stopping.problem import Problem

FIRST_STOP_PHASE = 0.1  # t√L (or tL) of the first stop: about one part in a thousand is learned
LARGEST_RATIO = 1.08  # of neighbouring stops of a method that oscillates
SETTLED_SHRINKAGE = 0.03  # of the slowest direction at the last finite stop
LONGEST_PHASE = 300.0  # oscillations with hardly any friction are followed up to here
DEFAULT_STOPS = 50, 1000  # the fewest and the most of a grid whose size is not given


def grid_of(spectrum: Spectrum, method: Method, size: int | None = None) -> Array:
    """Return the default stops; see :func:`stoptime.default_stops`."""
    if size is not None and not (is_whole(size) and size >= 3):
        raise ValueError(
            f"stops must be an array, None, or a whole number of at least 3; got {size!r}."
        )
    if spectrum.rank == 0:
        ends = spectrum.has_limit and isinstance(method, Filter)
        return np.array([0.0, np.inf] if ends else [0.0])
    method = method.tuned_to(spectrum.padded_eigenvalues)
    if isinstance(method, ConjugateGradient):
        return np.arange(min(spectrum.rank, method.horizon, size or np.inf) + 1.0)
    if not isinstance(method, Filter):
        # a thousand steps, and later ones while the error still falls
        steps = np.geomspace(1, 1000, size or DEFAULT_STOPS[0])
        return np.unique(np.round(np.append(0.0, steps)))
    if isinstance(method, SpectralCutoff):
        return np.unique(np.round(np.linspace(0, spectrum.rank, size or spectrum.rank + 1)))
    if method.whole_stops:
        return _whole_stops(spectrum, method, size)
    between = _flow_stops(spectrum, method, size)
    return np.concatenate([[0.0], between, [np.inf] if spectrum.has_limit else []])


def _flow_stops(spectrum: Spectrum, method: Filter, size: int | None) -> Array:
    """Return stops from the first at which something is learned to where all is learned."""
    unit = float(spectrum.eigenvalues[-1]) ** (-1 / method.time_power)
    reach = np.inf if spectrum.has_limit else spectrum.accuracy.last(method)
    if method.scale_free and not method.oscillates:
        between = unit * unit_stops(method, depth_of(spectrum))
        between = between[: max(int(np.searchsorted(between, reach)), 3)]
    else:
        smallest = float(spectrum.eigenvalues[0])
        first = FIRST_STOP_PHASE * unit
        last = max(settled_at(method, smallest, SETTLED_SHRINKAGE), 10 * first)
        if method.oscillates:
            longest = (LONGEST_PHASE**2 / smallest) ** (1 / method.time_power)
            last = min(last, longest, last_oscillation(spectrum, method))
        last = max(min(last, reach), 2 * first)
        between = _following_oscillations(method, 1 / unit, first, last)
    count = len(between)
    fewest, most = DEFAULT_STOPS
    wanted = size - 2 if size else int(np.clip(count, fewest, most))
    if wanted != count:
        dense = 0
        if size is None and count > most:
            # hardly damped oscillations would take too many stops: the early ones are followed
            longest = LONGEST_PHASE ** (2 / method.time_power) * unit
            dense = min(int(np.searchsorted(between, longest)), most - fewest)
        late = np.linspace(dense, count - 1, wanted - dense)
        places = np.append(np.arange(float(dense)), late)
        between = np.exp(np.interp(places, np.arange(count), np.log(between)))
    return between


def depth_of(spectrum: Spectrum, gain: float = np.inf) -> int:
    """Return the number of rungs of a ladder between the largest and the smallest eigenvalue.

    Eigenvalues so small that they are not learned up to this gain do not count.
    """
    s = spectrum.eigenvalues.astype(np.float64)
    with np.errstate(divide="ignore"):
        smallest = max(float(s[0]), min(float(np.divide(1, gain)), float(s[-1])))
    return int(np.ceil(np.log(s[-1] / smallest) / RUNG))


@lru_cache(maxsize=256)
def unit_stops(method: Filter, depth: int) -> Array:
    """Return stops of a scale-free method that does not oscillate, for a largest eigenvalue of one.

    The smallest eigenvalue is as many rungs below it as the ``depth`` says.
    """
    settled = settled_at(method, 1.0, SETTLED_SHRINKAGE) ** method.time_power
    first = FIRST_STOP_PHASE**2
    last = max(settled, 1.0) * np.exp(RUNG * depth)
    # gains of neighbours differ by a fifth
    count = int(np.ceil(np.log(last / first) / np.log(1.2))) + 1
    return np.asarray((first * 1.2 ** np.arange(count)) ** (1 / method.time_power))


def stops_to_try(problem: Problem, stops: ArrayLike | int | None) -> tuple[Array, bool]:
    """Return the stops to try, and whether the user gave them as an array."""
    if stops is None or np.ndim(np.asarray(stops)) == 0:
        return grid_of(problem.spectrum, problem.tuned, cast("int | None", stops)), False
    given = nonnegative("stops", np.asarray(stops), infinite=True)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"stops must be a list of numbers, or a count; got shape {given.shape}.")
    return np.unique(given), True


def later_stops(problem: Problem, last: float) -> Array:
    """Return stops beyond the last one, if there are any to try."""
    if isinstance(problem.method, SpectralCutoff | ConjugateGradient):
        return np.empty(0)
    # up to four times the last one, and sixteen times the last oscillation that a grid follows
    limit = 16 * last_oscillation(problem.spectrum, problem.tuned)
    later = last * np.geomspace(1.02, 4.0, 70)
    later = later[later <= limit]
    if not problem.tuned.whole_stops:
        return np.asarray(later)
    later = np.unique(np.round(later))
    return np.asarray(later[(later > last) & (later <= problem.tuned.horizon)])


def _whole_stops(spectrum: Spectrum, method: Filter, size: int | None) -> Array:
    """Return whole stops from the first iteration to where the slowest direction has settled."""
    power = 1 / method.time_power
    first = max(FIRST_STOP_PHASE / float(spectrum.eigenvalues[-1]) ** power / method.pace, 1.0)
    # to a phase of thirty in the slowest direction, unless the horizon ends before
    last = 30 / float(spectrum.eigenvalues[0]) ** power / method.pace
    if not spectrum.has_limit:
        last = min(last, spectrum.accuracy.last(method))
    last = float(np.clip(min(last, last_oscillation(spectrum, method)), 2.0, method.horizon))
    first = min(first, last)  # with decay, eigenvalues far below it are never learned
    if size is None:
        count = np.log(last / first) / np.log(LARGEST_RATIO)
        size = int(np.clip(count, *DEFAULT_STOPS))
    return np.unique(np.round(np.append(0.0, np.geomspace(first, last, size - 1))))


def last_oscillation(spectrum: Spectrum, method: Method) -> float:
    """Return the stop up to which oscillations are followed."""
    # they end with those of the smallest eigenvalue, unless it is rounding and they never end
    if not spectrum.fades_out or spectrum.rank == 0:
        return np.inf
    if not isinstance(method, Filter) or not method.oscillates:
        return np.inf
    return float(
        (LONGEST_PHASE**2 / spectrum.eigenvalues[-1]) ** (1 / method.time_power) / method.pace
    )


def fine_stops(spectrum: Spectrum, method: Filter) -> float:
    """Return the distance of stops at which every dip of the errors shows."""
    if not method.oscillates:
        return np.inf
    # sixteen stops for a turn of the fastest oscillation
    return float(np.pi / 8 / spectrum.eigenvalues[-1] ** (1 / method.time_power) / method.pace)


def _following_oscillations(method: Filter, frequency: float, first: float, last: float) -> Array:
    """Return stops in [first, last], dense where the fastest oscillations still show."""
    # below a hundredth, oscillations of a direction no longer show; eight stops follow each
    phase, time = method.visible_until(0.01)
    fine = np.pi / (8 * frequency)
    phase = min(phase, LONGEST_PHASE)
    slow_until = min(time, last)
    even_until = min(phase / frequency, slow_until)
    # equal ratios up to an eighth of the fastest oscillation, and then equal distances
    stops = _geometric(first, min(max(first, fine / (LARGEST_RATIO - 1)), last), LARGEST_RATIO)
    if stops[-1] < even_until:
        stops = np.append(stops, np.arange(stops[-1] + fine, even_until + fine, fine))
    if 0 < stops[-1] < slow_until:
        # the fastest frequency that is still visible now falls like 1/t
        ratio = min(LARGEST_RATIO, 1 + np.pi / (8 * phase))
        stops = np.append(stops, _geometric(stops[-1], slow_until, ratio)[1:])
    if stops[-1] < last:
        stops = np.append(stops, _geometric(stops[-1], last, LARGEST_RATIO)[1:])
    return stops


def _geometric(first: float, last: float, ratio: float) -> Array:
    if last <= first:
        return np.array([first])
    return np.geomspace(first, last, int(np.ceil(np.log(last / first) / np.log(ratio))) + 1)


def phases(problem: Problem, stops: Floats) -> Array:
    """Return t√L, or √(tL) for methods of the first order."""
    tuned = problem.filter
    largest = float(problem.spectrum.eigenvalues.max(initial=0))
    with np.errstate(over="ignore"):
        return np.sqrt((tuned.pace * stops) ** tuned.time_power * largest)
