"""What a rule is, what it returns, and how the lowest point of an error curve is found."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.methods import ConjugateGradient, Iteration, Method
from stoptime.methods.base import Array, nonnegative
from stoptime.methods.recurrence import closer_stops
from stoptime.spectrum import Floats, Spectrum

__all__ = ["Choice", "CurveRule", "ErrorCurve", "Problem", "Rule", "StopWarning", "default_stops"]

BEGUN = 0.1  # phase t√L (or tL) of the first stop: about one part in a thousand is learned
SETTLED = 10.0  # phase of the smallest eigenvalue at the last stop
RATIO = 1.08  # of neighbouring stops
FEWEST, MOST = 50, 500
EXTENSIONS = 3
ZOOMS = 6  # each divides the distance of neighbouring whole stops by thirty, for one target
MOST_CLOSER = 256  # stops of one zoom, so that curves of many targets stay small
MOST_CONJUGATE = 100
EXTENSION = np.geomspace(RATIO, 4.0, 18)  # in time, each


class StopWarning(UserWarning):
    """The chosen stop lies at the edge of what was looked at."""


@dataclass(frozen=True)
class Problem:
    """Data, weights and method: what a rule looks at.

    Attributes
    ----------
    X, y : arrays of shape (n, p) and (n,) or (n, n_targets)
        Validated data.
    method : Method
        As it was given; ``tuned`` is the same method tuned to the spectrum.
    spectrum : Spectrum
        The factorised data.
    sample_weight : array of shape (n,), optional
        As it was given.
    groups : array of shape (n,), optional
        For splitters that keep groups together.
    verbose : bool
        Whether long work shows its progress; it changes no number.
    """

    X: Floats
    y: Floats
    method: Method
    spectrum: Spectrum
    sample_weight: Floats | None = None
    groups: NDArray[np.object_] | None = None
    verbose: bool = False

    @cached_property
    def tuned(self) -> Method:
        """The method, tuned to the spectrum of all rows, with room for any of them to be left out."""
        return self.method.tuned_without_rows(self.spectrum.padded_eigenvalues, self._scale)

    @property
    def _scale(self) -> float:
        """By how much eigenvalues can grow when a row is left out and the weights add to one again."""
        weights = np.ones(len(self.X)) if self.sample_weight is None else self.sample_weight
        share = float(np.max(weights) / np.sum(weights))
        return 1 / (1 - share) if share < 1 else 1.0


@dataclass(frozen=True, repr=False)
class ErrorCurve:
    """Estimated mean squared prediction error at many stops.

    Attributes
    ----------
    stops : array of shape (n_stops,)
        Where.
    errors : array of shape (n_stops,) or (n_stops, n_targets)
        Mean squared error.
    standard_errors : array like ``errors``, or None
        Its standard error, where the rule knows one.
    """

    stops: Floats
    errors: Floats
    standard_errors: Floats | None = None

    def pooled(self) -> ErrorCurve:
        """Return the curve of the mean over targets."""
        if self.errors.ndim == 1:
            return self
        # targets share their rows, so their errors go together: standard errors are averaged too
        deviation = None if self.standard_errors is None else self.standard_errors.mean(axis=1)
        return ErrorCurve(self.stops, self.errors.mean(axis=1), deviation)

    def __repr__(self) -> str:
        targets = "" if self.errors.ndim == 1 else f", {self.errors.shape[1]} targets"
        return f"ErrorCurve({len(self.stops)} stops{targets}, least error {self.errors.min():.4g})"

    def joined(self, later: ErrorCurve) -> ErrorCurve:
        """Return this curve followed by another."""
        deviation = None
        if self.standard_errors is not None and later.standard_errors is not None:
            deviation = np.concatenate([self.standard_errors, later.standard_errors])
        errors = np.concatenate([self.errors, later.errors])
        return ErrorCurve(np.concatenate([self.stops, later.stops]), errors, deviation)

    def ordered(self) -> ErrorCurve:
        """Return the same curve with ascending stops."""
        order = np.argsort(self.stops)
        deviation = None if self.standard_errors is None else self.standard_errors[order]
        return ErrorCurve(self.stops[order], self.errors[order], deviation)


@dataclass(frozen=True)
class Choice:
    """A stop, what error to expect there, and why.

    Attributes
    ----------
    stop : float or array of shape (n_targets,)
        Where to stop.
    error : float or array of shape (n_targets,)
        Estimated mean squared prediction error there.
    curve : ErrorCurve
        What was looked at.
    standard_error : float, array of shape (n_targets,) or None
        Standard error of ``error``, where the rule knows one.
    message : str
        Why here, in one sentence.
    """

    stop: float | Floats
    error: float | Floats
    curve: ErrorCurve
    standard_error: float | Floats | None
    message: str


def default_stops(spectrum: Spectrum, method: Method, size: int | None = None) -> Array:
    """Return stops from nothing learned to everything learned, dense enough to see every swing.

    They are 0, where nothing is learned, and then a geometric sequence that begins where the fastest
    direction has learned one part in a thousand and ends where the slowest one has settled. Neighbours
    differ by 8 %: a direction with t√s up to ten, beyond which its swings no longer show, is then seen
    at several points of each swing. For an iteration they are rounded to whole numbers.

    Parameters
    ----------
    spectrum : Spectrum
        The factorised data.
    method : Method
        Tuned to it.
    size : int, optional
        Number of stops; by default what the ratio above needs, between 50 and 500.
    """
    if size is not None and size < 3:
        raise ValueError(f"stops must be an array, None, or a number of at least 3; got {size}.")
    if spectrum.rank == 0:
        return np.array([0.0, 1.0])
    if isinstance(method, ConjugateGradient):
        return np.arange(min(spectrum.rank, MOST_CONJUGATE, size or MOST_CONJUGATE) + 1.0)
    power = 1 / method.order
    first = BEGUN / float(spectrum.eigenvalues[-1]) ** power / method.pace
    last = SETTLED / float(spectrum.eigenvalues[0]) ** power / method.pace
    if isinstance(method, Iteration):
        first, last = max(first, 1.0), float(np.clip(last, 2.0, method.horizon))
    if size is None:
        size = int(np.clip(np.log(last / first) / np.log(RATIO), FEWEST, MOST))
    stops = np.append(0.0, np.geomspace(first, last, size - 1))
    return np.unique(np.round(stops)) if isinstance(method, Iteration) else stops


def stops_to_try(problem: Problem, stops: ArrayLike | int | None) -> tuple[Array, bool]:
    """Return the stops to look at, and whether they were given one by one."""
    if stops is not None and np.ndim(np.asarray(stops)) > 0:
        given = nonnegative("stops", np.asarray(stops), infinite=True)
        if given.ndim != 1 or given.size == 0:
            raise ValueError(f"stops must be a list of numbers, or how many; got shape {given.shape}.")
        return np.unique(given), True
    size = None if stops is None else int(np.asarray(stops))
    return default_stops(problem.spectrum, problem.tuned, size), False


class Rule(ABC):
    """What picks the stop."""

    name: ClassVar[str]

    @abstractmethod
    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop.

        Parameters
        ----------
        problem : Problem
            The data and the method.
        stops : array-like, int or None
            An array is chosen among exactly. None is the default grid and a number its size; the
            choice is then refined between grid points.
        per_target : bool, default=False
            Whether each target gets a stop of its own.
        """


class CurveRule(Rule):
    """A rule that takes the lowest point of an error curve."""

    @abstractmethod
    def errors(self, problem: Problem, stops: Array) -> ErrorCurve:
        """Estimate the prediction error at the stops."""

    def choose(
        self, problem: Problem, stops: ArrayLike | int | None = None, *, per_target: bool = False
    ) -> Choice:
        """Pick the stop with the least error; see :meth:`Rule.choose`."""
        grid, given = stops_to_try(problem, stops)
        curve = self.errors(problem, grid)
        if given:
            return self._lowest(curve, per_target=per_target, refine=False)
        for _ in range(EXTENSIONS):
            if not _falls_to_the_end(curve, per_target=per_target):
                break
            later = _later_stops(problem, float(curve.stops[-1]))
            curve = curve.joined(self.errors(problem, later)) if later.size else curve
        else:
            if _falls_to_the_end(curve, per_target=per_target):
                warnings.warn(
                    f"The {self.name} error of {problem.method} still falls at the last stop, "
                    f"{curve.stops[-1]:.3g}: least squares may be best. Give an array of stops that "
                    "contains inf to let it be chosen.",
                    StopWarning,
                    stacklevel=2,
                )
        if isinstance(problem.method, Iteration | ConjugateGradient):
            whole = self._between_whole_stops(problem, curve, per_target=per_target)
            return self._lowest(whole, per_target=per_target, refine=False)
        return self._lowest(curve, per_target=per_target, refine=True)

    def _between_whole_stops(self, problem: Problem, curve: ErrorCurve, *, per_target: bool) -> ErrorCurve:
        """Look at whole numbers around the lowest points too, until their neighbours have been seen."""
        for _ in range(ZOOMS):
            seen = curve if per_target else curve.pooled()
            best = np.unique(np.argmin(seen.errors.reshape(len(seen.stops), -1), axis=0))
            closer = closer_stops(curve.stops, best, most=max(2, MOST_CLOSER // len(best)))
            if not closer.size:
                break
            curve = curve.joined(self.errors(problem, closer)).ordered()
        return curve

    def _lowest(self, curve: ErrorCurve, *, per_target: bool, refine: bool) -> Choice:
        seen = curve if per_target else curve.pooled()
        columns = seen.errors.reshape(len(seen.stops), -1)
        best = np.argmin(columns, axis=0)
        error = columns[best, np.arange(len(best))]
        stop = seen.stops[best]
        if refine:
            stop, error = _vertex(seen.stops, columns, best)
        deviation = None
        if seen.standard_errors is not None:
            deviation = seen.standard_errors.reshape(columns.shape)[best, np.arange(len(best))]
        where = "between" if refine else "of"
        message = f"least {self.name} error {where} {len(curve.stops)} stops"
        if seen.errors.ndim == 1:
            one = None if deviation is None else float(deviation[0])
            return Choice(float(stop[0]), float(error[0]), curve, one, message)
        return Choice(stop, error, curve, deviation, message)


def _later_stops(problem: Problem, last: float) -> Array:
    """Return stops beyond the last one, if there are any to be looked at."""
    if isinstance(problem.method, ConjugateGradient):
        return np.empty(0)
    later = last * EXTENSION
    if not isinstance(problem.tuned, Iteration):
        return np.asarray(later)
    later = np.unique(np.round(later))
    return np.asarray(later[(later > last) & (later <= problem.tuned.horizon)])


def _falls_to_the_end(curve: ErrorCurve, *, per_target: bool) -> bool:
    """Tell whether some error is strictly least at the last stop."""
    errors = curve.errors if per_target else curve.pooled().errors
    lowest_before = errors[:-1].min(axis=0)
    return bool(np.any(errors[-1] < lowest_before - 1e-9 * np.abs(lowest_before)))


def _vertex(stops: Floats, columns: Floats, best: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Return the lowest point of the parabola through each minimum and its neighbours, in log stop."""
    last = len(stops) - 1
    inner = (best > 1) & (best < last)  # the first stop is zero, which has no logarithm
    middle = np.clip(best, 2, max(last - 1, 2)) if last >= 3 else best
    stop, error = stops[best].astype(np.float64), columns[best, np.arange(len(best))]
    if last < 3 or not inner.any():
        return stop, error
    target = np.arange(len(best))
    x0, x1, x2 = (np.log(stops[middle + k]) for k in (-1, 0, 1))
    e0, e1, e2 = (columns[middle + k, target] for k in (-1, 0, 1))
    left, right = (e1 - e0) / (x1 - x0), (e2 - e1) / (x2 - x1)
    curvature = (right - left) / (x2 - x0)
    ok = inner & (curvature > 0)
    slope = left + curvature * (x1 - x0)  # of the parabola at x1
    move = np.where(ok, -slope / (2 * np.where(ok, curvature, 1)), 0)
    move = np.clip(move, x0 - x1, x2 - x1)
    stop = np.where(ok, np.exp(x1 + move), stop)
    return stop, np.where(ok, e1 + slope * move + curvature * move**2, error)
