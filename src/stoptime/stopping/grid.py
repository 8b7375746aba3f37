"""The stops that are looked at, unless others are given."""

from __future__ import annotations

import numpy as np

from stoptime.methods.base import Method
from stoptime.methods.registry import get_method
from stoptime.spectrum.base import Spectrum
from stoptime.support.arrays import Array
from stoptime.support.checks import is_whole

__all__ = ["default_stops", "last_swing"]

BEGUN = 0.1  # phase t√L (or tL) of the first stop: about one part in a thousand is learned
RATIO = 1.08  # of neighbouring stops, at most
VISIBLE = 0.01  # shrinkage below which a direction's swings no longer show
SETTLED = 0.03  # shrinkage of the slowest direction at the last finite stop
SETTLED_PHASE = 30.0  # and for an iteration its phase, which may be cut short by its horizon
POINTS_PER_SWING = 8
LONGEST_PHASE = 300.0  # with hardly any friction swings never end: they are followed up to here
FEWEST, MOST = 50, 1000


def default_stops(spectrum: Spectrum, method: str | Method, size: int | None = None) -> Array:
    """Return stops from nothing learned to everything learned, dense enough to see every swing.

    They are 0, where nothing is learned; then stops from where the fastest direction has learned one part
    in a thousand to where the slowest one has a few parts in a hundred left; and infinity. Neighbours differ
    by at most 8 %, and by at most an eighth of a swing of any direction whose swings still show. For an
    iteration they are rounded to whole numbers. Eigenvalues of a kernel fall to rounding: what swings is then
    followed for a hundred swings of its fastest direction only. Of a Krylov space stops end where it has
    converged.

    Parameters
    ----------
    spectrum : Spectrum
        The factorised data.
    method : Method or str
        What draws the path.
    size : int, optional
        Number of stops: the same stretch, thinned or filled evenly.
    """
    if size is not None and not (is_whole(size) and size >= 3):
        raise ValueError(
            f"stops must be an array, None, or a whole number of at least 3; got {size!r}."
        )
    if spectrum.rank == 0:
        return np.array([0.0, np.inf] if spectrum.krylov is None else [0.0])
    method = get_method(method).tuned_to(spectrum.padded_eigenvalues)
    if not method.has_filter:
        return np.arange(min(spectrum.rank, method.horizon, size or np.inf) + 1.0)
    if method.whole_stops:
        return _whole_stops(spectrum, method, size)
    largest, smallest = float(spectrum.eigenvalues[-1]), float(spectrum.eigenvalues[0])
    first = BEGUN / largest ** (1 / method.order)
    last = max(method.settled_at(smallest, SETTLED), 10 * first)
    if method.order == 2:
        last = min(last, LONGEST_PHASE / np.sqrt(smallest), last_swing(spectrum, method))
    if spectrum.krylov is not None:
        last = max(min(last, spectrum.reach ** (1 / method.order)), 2 * first)
    between = _following_swings(method, np.sqrt(largest), first, last)
    count = int(np.clip(len(between), FEWEST, MOST)) if size is None else size - 2
    if count != len(between):
        places = np.linspace(0, len(between) - 1, count)
        between = np.exp(np.interp(places, np.arange(len(between)), np.log(between)))
    return np.concatenate([[0.0], between, [np.inf] if spectrum.krylov is None else []])


def _whole_stops(spectrum: Spectrum, method: Method, size: int | None) -> Array:
    """Return whole stops from the first iteration to where the slowest direction has settled."""
    power = 1 / method.order
    first = max(BEGUN / float(spectrum.eigenvalues[-1]) ** power / method.pace, 1.0)
    last = SETTLED_PHASE / float(spectrum.eigenvalues[0]) ** power / method.pace
    if spectrum.krylov is not None:
        last = min(last, spectrum.reach**power / method.pace)
    last = float(np.clip(min(last, last_swing(spectrum, method)), 2.0, method.horizon))
    if size is None:
        size = int(np.clip(np.log(last / first) / np.log(RATIO), FEWEST, MOST))
    return np.unique(np.round(np.append(0.0, np.geomspace(first, last, size - 1))))


def last_swing(spectrum: Spectrum, method: Method) -> float:
    """Return how far swings are followed: eigenvalues of a kernel fall to rounding, and they never end."""
    swings = method.oscillates and method.has_filter
    if spectrum.solver != "kernel" or spectrum.rank == 0 or not swings:
        return np.inf
    return float((LONGEST_PHASE**2 / spectrum.eigenvalues[-1]) ** (1 / method.order) / method.pace)


def _following_swings(method: Method, frequency: float, first: float, last: float) -> Array:
    """Return stops in [first, last], an eighth of a swing apart where the fastest ones still show."""
    phase, time = method.visible_until(VISIBLE)
    fine = np.pi / (POINTS_PER_SWING * frequency)
    phase = min(phase, LONGEST_PHASE)
    even_until = min(phase / frequency, time, last)
    slow_until = min(time, last)
    stops = _geometric(first, min(max(first, fine / (RATIO - 1)), last), RATIO)
    if stops[-1] < even_until:
        stops = np.append(stops, np.arange(stops[-1] + fine, even_until + fine, fine))
    if 0 < stops[-1] < slow_until:  # the fastest visible frequency now falls like 1/t
        ratio = min(RATIO, 1 + np.pi / (POINTS_PER_SWING * phase))
        stops = np.append(stops, _geometric(stops[-1], slow_until, ratio)[1:])
    if stops[-1] < last:
        stops = np.append(stops, _geometric(stops[-1], last, RATIO)[1:])
    return stops


def _geometric(first: float, last: float, ratio: float) -> Array:
    if last <= first:
        return np.array([first])
    return np.geomspace(first, last, int(np.ceil(np.log(last / first) / np.log(ratio))) + 1)
