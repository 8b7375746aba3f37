"""The interface of data of any kind: the methods that rules and estimators call.

There is one class for each kind of container. :func:`stoptime.spectrum.decompose.open_data` chooses
it, once, where data come in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length

from stoptime.methods.adaptive import Adaptive
from stoptime.methods.base import Filter
from stoptime.methods.conjugate_gradient import ConjugateGradient
from stoptime.methods.cutoff import SpectralCutoff
from stoptime.support.arrays import Array, Floats, as_float64, like, on_host, slices
from stoptime.support.progress import progress

if TYPE_CHECKING:
    from stoptime.methods.base import Method
    from stoptime.paths import Drawing
    from stoptime.spectrum.base import Spectrum

PREDICTED_NUMBERS = 2**23  # predictions held at once while a path is tested
WITHOUT_ROWS = (
    "Exact leave-one-out needs every eigenvalue, and rows that can be read: for an operator, or a "
    'sparse X of this size, choose the stop by cv=5, rule="path-gcv", rule="discrepancy" or '
    "HoldOut(X_val, y_val)."
)


class Goal(NamedTuple):
    """A path, and a stop up to which it has to be accurate."""

    method: Method
    stop: float


def goals(method: Method, stops: ArrayLike) -> tuple[Goal, ...]:
    """Return the goals of one path: its largest finite stop, and infinity if it is a stop."""
    stops = np.ravel(stops)
    finite = stops[np.isfinite(stops)]
    forever = (np.inf,) if len(finite) < len(stops) else ()
    # a path that ends at ridge depends most on the largest eigenvalue before its end
    ends = isinstance(method, Filter) and not method.reaches_least_squares
    last = np.unique([0.0, *finite]) if ends else [finite.max(initial=0)]
    return tuple(Goal(method, float(stop)) for stop in (*last, *forever))


def require_every_eigenvalue(methods: Iterable[Method]) -> None:
    """Raise a ValueError if any of the methods needs what a Krylov space misses of the data."""
    for method in methods:
        if isinstance(method, SpectralCutoff | Adaptive):
            counts = isinstance(method, SpectralCutoff)
            needs = "counts eigenvalues" if counts else "needs all of XᵀX"
            raise ValueError(  # noqa: TRY004 - the method is legal elsewhere
                f"{method.name} {needs}, and a Krylov space does not have all of them: "
                'give a dense X, decompose with solver="gram", or take "conjugate-gradient".'
            )


def largest_gain(wanted: Sequence[Goal] | None) -> float:
    """Return a bound on the gain φ(s, t) that any of these paths reaches; None is least squares."""
    if wanted is None:
        return np.inf
    gains = (m.largest_gain(stop) if isinstance(m, Filter) else np.inf for m, stop in wanted)
    return max(gains, default=0.0)


def needed_gain(spectrum: Spectrum, wanted: Sequence[Goal] | None) -> float:
    """Return the same bound for the data of a spectrum, on which steps and filters may depend."""
    if wanted is None:
        return np.inf
    s = spectrum.eigenvalues.astype(np.float64)
    z = spectrum.response.reshape(len(s), -1).astype(np.float64)
    gains = [0.0]
    for method, stop in wanted:
        tuned = method.tuned_to(spectrum.padded_eigenvalues)
        if isinstance(tuned, ConjugateGradient):
            gains.append(tuned.largest_gain_of(s, z, stop))
        else:
            gains.append(largest_gain([Goal(tuned, stop)]))
    return max(gains)


@dataclass(frozen=True)
class TestErrors:
    """Weighted sums over the rows of one test set, each of shape (n_stops, n_targets)."""

    weight: float
    weight_squares: float
    squares: Floats
    # these two give a standard error over rows; None if single rows are not known
    weighted_squares: Floats | None = None
    fourths: Floats | None = None


class TestSet(Protocol):
    """Rows on which a path is tested."""

    @property
    def weight(self) -> float:
        """The sum of their weights."""

    def errors(self, draw: Drawing, stops: Array, units: Array) -> TestErrors:
        """Return sums of squared prediction errors at the stops, in the unit of each target."""


Fold = Callable[[], "tuple[Data, TestSet]"]
"""Makes a training set and a test set when called, so that one fold at a time is in memory."""


class Data(ABC):
    """Validated data of one kind."""

    fit_intercept: bool
    single_target: bool
    names: tuple[str, ...] | None = None  # of the columns, if the container has them
    row_weights: Floats | None = None  # as they were given, on the host; None if all are one
    is_penalised: ClassVar[bool] = False  # whether there is a penalty matrix
    has_rows: bool = True  # whether single rows can be read, as exact leave-one-out requires
    growths: ClassVar[int] = 0  # times a spectrum may grow to resolve noise; 0 if it is complete

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns of X."""

    @property
    @abstractmethod
    def n_targets(self) -> int:
        """Number of columns of y."""

    @property
    @abstractmethod
    def n_rows(self) -> int | None:
        """Number of rows; None if it is known only after reading them."""

    def check_rows(self) -> None:  # noqa: B027 - nothing to refuse, unless a subclass has no rows
        """Raise a ValueError that names alternatives if single rows cannot be read."""

    @abstractmethod
    def spectrum(self, wanted: Sequence[Goal] | None = None, solver: str = "auto") -> Spectrum:
        """Factor the data, by the named solver if any, so that all these paths are accurate."""

    def opened(
        self, methods: Sequence[Method], stops: ArrayLike | int | None,  # noqa: ARG002 - for some data
        *, rows: bool, trace: bool, verbose: bool = False,  # noqa: ARG002
    ) -> Spectrum:  # fmt: skip
        """Return the spectrum with which the search for a stop of these methods begins."""
        # stops are the candidates, if they are known already; rows and trace say whether the rule
        # needs single rows, or sums over all eigenvalues
        if rows:
            self.check_rows()
        return self.complete()

    def is_factored_whole(self, *, rows: bool) -> bool:  # noqa: ARG002 - for other kinds of data
        """Whether a search begins with every eigenvalue; ``rows``: whether it needs single rows."""
        return True

    def pilot(self) -> Spectrum:
        """Return a spectrum that is accurate enough to estimate noise and signal."""
        return self.spectrum(())

    def complete(self, wanted: Sequence[Goal] | None = None) -> Spectrum:
        """Return the spectrum of all eigenvalues, accurate for these paths."""
        return self.spectrum(wanted)

    @abstractmethod
    def splits(self, cv: Any, groups: ArrayLike | None = None) -> Any:
        """Draw the folds of a splitter, once, in the form that :meth:`folds` takes."""

    @abstractmethod
    def folds(self, splits: Any, *, verbose: bool = False) -> list[Fold]:
        """Return the training and test sets of folds that were drawn."""

    def left_out(
        self, splits: Any, fitted: Callable[[Data], Fit], *, verbose: bool = False
    ) -> list[tuple[Fit, LeftOutRows]]:
        """Fit the training set of every fold, and return the rows that the fold tests by its fit.

        Streamed data are read twice.
        """
        found = []
        for fold in progress(self.folds(splits, verbose=verbose), "refits", verbose):
            train, test = cast("tuple[Data, RowsToTest]", fold())
            fit = fitted(train)
            rows = LeftOutRows.of(fit, test.X, test.y, test.weights)
            found.append((fit._replace(columns=test.columns), rows))
        return found

    def afresh(self) -> Data:
        """Return the same data without anything that was computed from them."""
        return replace(cast("Any", self))

    def rows_to_test(self, test: NDArray[np.intp], train: NDArray[np.intp]) -> RowsToTest:  # noqa: ARG002
        """Return some rows as a test set of a path that was fitted to ``train``."""
        raise ValueError('Streamed data are read once, without residuals: use rule="path-gcv".')

    @abstractmethod
    def test_set(self, X: Any, y: ArrayLike) -> TestSet:
        """Return new rows as a test set, after checking their columns."""


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


class LeftOutRows(NamedTuple):
    """Sizes of the residuals of rows by a fit without them, (n, n_targets), and their weights."""

    sizes: Floats
    weights: Floats

    @classmethod
    def of(cls, fit: Fit, X: Any, y: Any, weights: Any) -> LeftOutRows:
        """Predict rows of positive weight by the fit; the result is on the host."""
        sizes = abs(fit.predict(X) - y.reshape(y.shape[0], -1))
        live = np.flatnonzero(weights)
        return cls(np.asarray(on_host(sizes), np.float64)[live], np.asarray(weights)[live])

    @classmethod
    def joined(cls, parts: Sequence[LeftOutRows]) -> LeftOutRows:
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

    def errors(self, draw: Drawing, stops: Array, units: Array) -> TestErrors:
        """Return weighted sums of squares and fourth powers, of a few stops at a time."""
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

    def residuals(self, draw: Drawing, stops: Array) -> Iterator[tuple[slice, Any]]:
        """Yield fit minus response, (n_stops, n, n_targets), for a few stops at a time."""
        height = PREDICTED_NUMBERS // (max(self.X.shape) * self.y.shape[1])
        predict = draw.predictions(self.X)
        for part in slices(len(stops), height):
            fit = predict(stops[part])
            errors = as_float64(fit.reshape(fit.shape[0], *self.y.shape))
            yield part, errors - self.y


def checked_test(X: Any, y: Any, columns: tuple[int, ...]) -> RowsToTest:
    """Return a test set, and raise a ValueError if its columns are not those that were fitted."""
    check_consistent_length(np.empty((X.shape[0], 0)), np.empty((y.shape[0], 0)))
    if (X.shape[1], *y.shape[1:]) != columns:
        targets = f"{columns[1]} targets" if len(columns) > 1 else "a vector y"
        raise ValueError(
            f"The validation set has shapes {tuple(X.shape)} and {tuple(y.shape)}, which do not "
            f"fit the training data of {columns[0]} features and {targets}."
        )
    return RowsToTest(X, y.reshape(y.shape[0], -1), np.ones(y.shape[0]))
