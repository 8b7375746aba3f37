"""The interface of data of any kind: what rules and estimators ask of them.

There are four kinds: rows (:mod:`stoptime.spectrum.row_data`), kernels, streams, and data that are
used through products only. :func:`stoptime.spectrum.decompose.open_data` chooses one of them, once,
where data come in, and :class:`stoptime.spectrum.penalised.Penalised` adds a penalty to any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length

from stoptime.methods.adaptive import Adaptive
from stoptime.methods.base import Filter
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.methods.flows import GradientFlow, HeavyBallFlow
from stoptime.methods.ridge import Ridge
from stoptime.spectrum.accuracy import largest_gain
from stoptime.spectrum.kinds import checked_device, rows_in_memory
from stoptime.support.arrays import (
    Array,
    Floats,
    as_float64,
    is_device_array,
    like,
    on_host,
    slices,
)
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.spectrum.base import Spectrum
    from stoptime.spectrum.rows import Sample

WITHOUT_ROWS = (
    "Exact leave-one-out needs every eigenvalue, and rows that can be read again: for streamed "
    "data, an operator, or a sparse X with more than 5000 rows and columns, choose the stop by "
    'cv=5, rule="path-gcv", rule="discrepancy" or HoldOut(X_val, y_val).'
)


class Goal(NamedTuple):
    """A path, and a stop up to which it has to be accurate."""

    method: Method
    stop: float


@dataclass(frozen=True)
class Want:
    """What a spectrum is needed for; by default for every method at every stop.

    The spectrum is accurate at all ``goals``; a Krylov space is grown as far. With ``every``, all
    eigenvalues are computed, or the data say that they cannot; with ``trace``, random probes
    estimate their density where they are not. A ``search`` of these methods begins with what the
    data can give at once, and asks again where it needs more digits or later stops; if ``rough``,
    products of X will do at first.
    """

    goals: tuple[Goal, ...] = (Goal(Ridge(), np.inf),)
    every: bool = False
    trace: bool = False
    search: tuple[Method, ...] = ()
    rough: bool = False
    solver: str = "auto"

    @classmethod
    def path(cls, method: Method, stops: ArrayLike, **options: Any) -> Want:
        """Return what the path of a method needs."""
        stops = np.ravel(stops)
        finite = stops[np.isfinite(stops)]
        forever = (np.inf,) if len(finite) < len(stops) else ()
        # a path that ends at ridge depends most on the largest eigenvalue before its end
        ends = isinstance(method, Filter) and not method.reaches_least_squares
        last = np.unique([0.0, *finite]) if ends else [finite.max(initial=0)]
        goals = tuple(Goal(method, float(stop)) for stop in (*last, *forever))
        return cls(goals, every=isinstance(method, SpectralCutoff), **options)

    @classmethod
    def up_to(cls, max_gain: float, **options: Any) -> Want:
        """Return what the most demanding of all paths with at most this gain need."""
        if np.isinf(max_gain):
            return cls(**options)
        time = float(np.sqrt(max_gain))
        # among paths of the same gain, one with hardly any damping oscillates most
        damping = 1e-9 / time if time > 0 else 1.0
        oscillating = Goal(HeavyBallFlow(damping), time)
        goals = Goal(Ridge(), max_gain), Goal(GradientFlow(), max_gain), oscillating
        return cls(goals, **options)

    @classmethod
    def to_search(
        cls,
        methods: Sequence[Method],
        stops: ArrayLike | int | None = None,
        *,
        rows: bool = False,
        trace: bool = False,
    ) -> Want:
        """Return what the search for a stop begins with; ``rows``: whether single rows are used."""
        every = rows or any(isinstance(method, SpectralCutoff) for method in methods)
        rough = rows and all(isinstance(method, Filter) for method in methods)
        goals: tuple[Goal, ...] = ()
        if stops is not None and np.ndim(stops) > 0 and np.size(stops) > 0:
            goals = tuple(goal for one in methods for goal in cls.path(one, stops).goals)
        return cls(goals, every, trace, search=tuple(methods), rough=rough)

    @property
    def gain(self) -> float:
        """A bound on the gain φ(s, t) that any of the paths reaches."""
        return max((largest_gain(method, stop) for method, stop in self.goals), default=0.0)

    def gain_for(self, spectrum: Spectrum) -> float:
        """Return the same bound for data on which steps and filters depend."""
        s = spectrum.eigenvalues.astype(np.float64)
        z = spectrum.response.reshape(len(s), -1).astype(np.float64)
        gains = [0.0]
        for method, stop in self.goals:
            tuned = method.tuned_to(spectrum.padded_eigenvalues)
            if isinstance(tuned, ConjugateGradient):
                gains.append(tuned.largest_gain_of(s, z, stop))
            else:
                gains.append(largest_gain(tuned, stop))
        return max(gains)


PILOT = Want.to_search([Ridge()], trace=True)
"""What an estimate of noise and signal needs at first."""


def require_every_eigenvalue(methods: Iterable[Method]) -> None:
    """Raise a ValueError if any of the methods needs what a Krylov space misses of the data."""
    for method in methods:
        if isinstance(method, SpectralCutoff | Adaptive):
            raise ValueError(  # noqa: TRY004 - the method is legal elsewhere
                f"{method.name} needs all of XᵀX, and a Krylov space does not have it: "
                'give a dense X, decompose with solver="gram", or take "conjugate-gradient".'
            )


@dataclass(frozen=True)
class TestErrors:
    """Weighted sums over the rows of one test set, each of shape (n_stops, n_targets)."""

    weight: float
    weight_squares: float
    squares: Floats
    # these two give a standard error over rows; None if single rows are not known
    weighted_squares: Floats | None = None
    fourths: Floats | None = None


TestSet = Any
"""Rows on which a path is tested, as :class:`RowsToTest`, with ``weight`` and ``errors``."""
Fold = Callable[[], "tuple[Data, TestSet]"]
"""Makes a training set and a test set when called, so that one fold at a time is in memory."""


class Data(ABC):
    """Validated data of one kind; ``_of`` is what knows their sizes."""

    complete: bool = True  # whether a search begins with every eigenvalue

    @property
    @abstractmethod
    def _of(self) -> Any:
        """A sample, a stream, or other data."""

    @property
    def shape(self) -> tuple[int | None, int]:
        """Numbers of rows, None if it is known only after reading them, and of columns."""
        return self._of.shape

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, if the container has them."""
        return self._of.names

    @property
    def n_targets(self) -> int:
        """Number of columns of y."""
        return self._of.n_targets

    @property
    def single_target(self) -> bool:
        """Whether y is a vector."""
        return self._of.single_target

    @property
    def fit_intercept(self) -> bool:
        """Whether the data are centred."""
        return self._of.fit_intercept

    @property
    def rows(self) -> Sample | None:
        """The rows, if they can be read again as often as needed and leave-one-out is possible."""
        return None

    @abstractmethod
    def spectrum(self, want: Want = Want()) -> Spectrum:
        """Factor the data as far as is wanted."""

    @abstractmethod
    def splits(self, cv: Any, groups: ArrayLike | None = None) -> Any:
        """Draw the folds of a splitter, once, in the form that :meth:`folds` takes."""

    @abstractmethod
    def folds(self, splits: Any) -> list[Fold]:
        """Return the training and test sets of folds that were drawn."""

    def left_out(self, splits: Any, fitted: Callable[[Data], Fit]) -> list[tuple[Fit, TestedRows]]:
        """Fit the training set of every fold, and return the rows that the fold tests by its fit.

        Streamed data are read twice.
        """
        found = []
        for fold in progress(self.folds(splits), "refits"):
            train, test = fold()
            fit = fitted(train)
            rows = TestedRows.of(fit, test.X, test.y, test.weights)
            found.append((fit._replace(columns=test.columns), rows))
        return found

    def test(self, X: Any, y: Any) -> TestSet:
        """Return new rows as a test set, after checking their columns."""
        there = None if self.rows is None else self.rows.y
        X = rows_in_memory(X, there, dtype=np.float64, name="X_val")
        if is_device_array(there):
            X, y = checked_device(X, y)
        else:
            y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y_val")
        targets = () if self.single_target else (self.n_targets,)
        columns = (self.shape[1], *targets)
        check_consistent_length(np.empty((X.shape[0], 0)), np.empty((y.shape[0], 0)))
        if (X.shape[1], *y.shape[1:]) != columns:
            wanted = f"{columns[1]} targets" if targets else "a vector y"
            raise ValueError(
                f"The validation set has shapes {tuple(X.shape)} and {tuple(y.shape)}, which do "
                f"not fit the training data of {columns[0]} features and {wanted}."
            )
        return RowsToTest(X, y.reshape(y.shape[0], -1), np.ones(y.shape[0]))


def afresh(data: Data) -> Data:
    """Return the same data without anything that was computed from them."""
    return replace(cast("Any", data))


def rows_of(data: Data) -> Sample:
    """Return the rows of data; raise a ValueError that names alternatives if there are none."""
    if data.rows is None:
        raise ValueError(WITHOUT_ROWS)
    return data.rows


class Fit(NamedTuple):
    """A fit to some of the rows: coefficients, targets first, and intercept.

    ``columns`` are the columns of new rows that the coefficients belong to: all of them, or with a
    kernel those of the training rows.
    """

    coef: Any
    intercept: Any
    columns: Any = None

    def predict(self, X: Any) -> Any:
        """Return predictions of shape (n, n_targets)."""
        own = X if self.columns is None else X[:, self.columns]
        fit = own @ self.coef.T + self.intercept
        return fit.reshape(fit.shape[0], -1)


class TestedRows(NamedTuple):
    """Sizes of the residuals of rows by a fit without them, (n, n_targets), and their weights."""

    sizes: Floats
    weights: Floats

    @classmethod
    def of(cls, fit: Fit, X: Any, y: Any, weights: Any) -> TestedRows:
        """Predict rows of positive weight by the fit; the result is on the host."""
        sizes = abs(fit.predict(X) - y.reshape(y.shape[0], -1))
        live = np.flatnonzero(weights)
        return cls(np.asarray(on_host(sizes), np.float64)[live], np.asarray(weights)[live])

    @classmethod
    def joined(cls, parts: Sequence[TestedRows]) -> TestedRows:
        """Return the rows of all parts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class RowsToTest:
    """Rows in memory, their response of shape (n, n_targets), and their weights on the host.

    ``columns`` are those of new rows that X has, where it does not have all of them.
    """

    X: Any
    y: Any
    weights: Array
    columns: Any = None

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    def errors(self, draw: Any, stops: Array, units: Array) -> TestErrors:
        """Return weighted sums of squares and fourth powers, of a few stops at a time.

        ``draw`` takes stops and returns a path; its ``predictions`` take rows and return a
        function of stops.
        """
        sums = np.empty((3, len(stops), self.y.shape[1]))
        shares = like(self.y, self.weights)
        scale = like(self.y, units)
        for part, residuals in self.residuals(draw, stops):
            # in place, because for many targets temporary arrays would take most of the time
            errors = residuals
            errors /= scale
            errors *= errors
            squares = [shares @ errors, shares**2 @ errors]
            errors *= errors
            sums[:, part] = [on_host(power) for power in (*squares, shares**2 @ errors)]
        return TestErrors(float(self.weights.sum()), float(self.weights @ self.weights), *sums)

    def residuals(self, draw: Any, stops: Array) -> Iterator[tuple[slice, Any]]:
        """Yield fit minus response, (n_stops, n, n_targets), for a few stops at a time."""
        # eight million predictions are held at once
        height = 2**23 // (max(self.X.shape) * self.y.shape[1])
        predict = draw.predictions(self.X)
        for part in slices(len(stops), height):
            fit = predict(stops[part])
            errors = as_float64(fit.reshape(fit.shape[0], *self.y.shape))
            yield part, errors - self.y
