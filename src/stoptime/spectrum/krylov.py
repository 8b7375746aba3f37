r"""Data that are used through products with vectors only: operators, and large sparse matrices.

From the bidiagonalisation of A with :math:`A^TA = X^TX/n`, started with the response,

.. math:: T = Q\Theta Q^T, \qquad \hat\beta(t) \approx VQ\,\varphi(\Theta, t)z, \qquad
    z = \|X^Ty/n\|Q^Te_1:

Ritz values and Ritz vectors replace eigenvalues and eigenvectors. Every target has its own space.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.spectrum.accuracy import ReachError, largest_gain
from stoptime.spectrum.base import Density, Spectrum
from stoptime.spectrum.centred import CentredOperator
from stoptime.spectrum.data import (
    WITHOUT_ROWS,
    Data,
    Fold,
    Goal,
    RowsToTest,
    Want,
    require_every_eigenvalue,
)
from stoptime.spectrum.density import density
from stoptime.spectrum.factorise import assembled
from stoptime.spectrum.golub_kahan import GolubKahan, KrylovVectors
from stoptime.spectrum.ritz import Krylov
from stoptime.spectrum.row_data import RowData, SampleData, Splits, weights_of_tests
from stoptime.spectrum.rows import ArrayRows, Sample, sample_sizes
from stoptime.support.arrays import EPS, Floats
from stoptime.support.checks import is_whole, positive_number, whole_number
from stoptime.support.progress import Ticker

SMALL = 1000  # rows or columns up to which all eigenvalues take no more than about a second
LARGEST = 5000  # rows or columns up to which all eigenvalues are computed if they are needed
MEMORY = 2**31  # bytes of all Krylov vectors, unless max_rank says otherwise
HORIZON = 30.0  # phase t√L at which the search for a stop first ends
SMOOTH_HORIZON = 100.0  # the same for tL, for methods that do not oscillate


@dataclass(frozen=True)
class KrylovOptions:
    """Options of :func:`stoptime.decompose` for sparse matrices and operators."""

    tol: float = 1e-6
    max_rank: int | None = None
    probes: int = 0
    rng: Any = 0
    verbose: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        positive_number("tol", self.tol, high=1.0)
        whole_number("probes", self.probes)
        if self.max_rank is not None:
            whole_number("max_rank", self.max_rank, least=1)
        if not is_whole(self.rng):
            # a number, because the same probes are drawn again whenever the space has grown
            seed = int(np.random.default_rng(self.rng).integers(2**63))
            object.__setattr__(self, "rng", seed)


@dataclass(frozen=True)
class KrylovData(SampleData):
    """Data whose X is multiplied with vectors, and read only where every eigenvalue is needed."""

    sample: Sample
    options: KrylovOptions = KrylovOptions()
    # largest length of the image of a unit vector that may be rounding of the means
    least: float | None = None

    @property
    def complete(self) -> bool:  # type: ignore[override]
        """Whether X is a small matrix."""
        return self.sample.X.can_be_read and min(self.sample.shape) <= SMALL

    @property
    def rows(self) -> Sample | None:
        """The rows of a matrix that is not too large."""
        readable = self.sample.X.can_be_read and min(self.sample.shape) <= LARGEST
        return self.sample if readable else None

    @cached_property
    def _whole(self) -> RowData:
        """The same data, to be factored as rows."""
        if self.sample.X.can_be_read:
            return RowData(self.sample)
        X = self.sample.X.times(np.eye(self.sample.shape[1]))
        return RowData(replace(self.sample, X=ArrayRows(X)))

    @np.errstate(over="ignore", invalid="ignore")  # overflow is found in products
    def spectrum(self, want: Want = Want()) -> Spectrum:  # noqa: B008 - it is frozen
        """Return all eigenvalues if X is small or they are needed, else Krylov spaces."""
        X = self.sample.X
        possible = min(X.shape) <= LARGEST and (X.can_be_read or X.can_be_copied)
        chosen = want.solver in {"gram", "svd"}
        if possible and (chosen or (want.solver == "auto" and (self.complete or want.every))):
            return self._whole.spectrum(want)
        if chosen:
            raise ValueError(
                f'solver="{want.solver}" computes all eigenvalues, which X has too many rows and '
                f'columns for (at most {LARGEST}): use solver="krylov" with a finite stop.'
            )
        if want.every:
            require_every_eigenvalue([*want.search, *(method for method, _ in want.goals)])
            raise ValueError(WITHOUT_ROWS)
        if want.search and not want.goals:
            return self._searched(want)
        return self._grown(want)

    def _searched(self, want: Want) -> Spectrum:
        """Return Krylov spaces up to t√L = 30, or tL = 100, or as far as memory allows."""
        goals = tuple(self._first_goal(method) for method in want.search)
        for _ in range(30):
            try:
                return self._grown(replace(want, goals=goals))
            except ReachError:
                # the memory is used up before the horizon: end the search at half of it
                halved = [(m, stop // 2 if m.whole_stops else stop / 2) for m, stop in goals]
                goals = tuple(Goal(*goal) for goal in halved)
        return self._grown(replace(want, goals=goals))

    def _first_goal(self, method: Method) -> Goal:
        """Return the stop at which the search first ends."""
        if not isinstance(method, Filter):
            return Goal(method, method.horizon)
        largest = self._rough_largest or 1.0
        time = SMOOTH_HORIZON / largest if method.time_power == 1 else HORIZON / np.sqrt(largest)
        if method.whole_stops:
            # an iteration advances by its pace; fewer than two steps leave nothing to choose from
            time = max(np.ceil(time / as_filter(method.tuned_to([0.0, largest])).pace), 2.0)
        return Goal(method, float(time))

    @cached_property
    def operator(self) -> CentredOperator:
        """The A with AᵀA = XᵀX/n."""
        return CentredOperator(self.sample.X, np.sqrt(self.sample.shares), self.fit_intercept)

    @property
    def floor(self) -> float:
        """Largest length of the image of a unit vector that may be rounding of the means."""
        if self.least is not None:
            return self.least
        return 8 * EPS * float(np.linalg.norm(self.sample.means[0]))

    @cached_property
    def _probed(self) -> dict[Any, Density]:
        """Densities that were estimated, by their goals and the number of probes."""
        return {}

    @cached_property
    def _runs(self) -> list[GolubKahan]:
        """One Krylov space for each target; they grow only as far as needed."""
        sample = self.sample
        sample.target_power()  # checks the scale of y before any work
        targets = np.sqrt(sample.shares)[:, None] * (sample.y - sample.means[1])
        starts = self.operator.T @ targets
        pairs = zip(starts.T, targets.T, strict=True)
        rounding = sample.rounding
        return [GolubKahan(self.operator, one, rounding, self.floor, y) for one, y in pairs]

    @property
    def max_rank(self) -> int:
        """The largest number of Krylov vectors of all targets together."""
        most = max(2, MEMORY // (8 * self.sample.shape[1]))
        return most if self.options.max_rank is None else self.options.max_rank

    def _share(self, number: int) -> int:
        """Return how many vectors a target may have if the later ones get as many."""
        others = sum(run.size for run in self._runs[:number])
        left = self.max_rank - others
        return max(left // (len(self._runs) - number), 1)

    @cached_property
    def _rough_largest(self) -> float:
        """The largest eigenvalue that the response sees, to a per cent; zero if there is none."""
        largest = 0.0
        for number, run in enumerate(self._runs):
            found = 0.0
            residual = np.inf
            # the error of a Ritz value is about the square of its relative residual, a per cent
            while residual > 0.1 * found and not run.exhausted and run.size < self._share(number):
                run.step()
                if run.size:
                    space = run.space(accurate=False)
                    found = float(space.values[-1])
                    residual = abs(float(space.leaving[-1]))
            largest = max(largest, found)
        return largest

    def _grown(self, want: Want) -> Spectrum:
        """Grow until the paths have converged at all goals, and return the Ritz values."""
        require_every_eigenvalue(method for method, _ in want.goals)
        ticker = Ticker("Krylov space", want.verbose or self.options.verbose)
        try:
            for number in range(len(self._runs)):
                self._grow(number, want.goals, ticker)
        finally:
            ticker.close()
        spectrum = self._assembled(want.goals)
        probes = max(self.options.probes, 10 if want.trace else 0)
        if not probes:
            return spectrum
        # probes converge for given goals only, so a later stop needs longer ones
        found = self._probed.get((want.goals, probes))
        if found is None:
            krylov = spectrum.accuracy
            goals = [(krylov.tuned(m), stop) for m, stop in want.goals]  # type: ignore[attr-defined]
            found = density(self.operator, goals, probes, self.options.rng, self.max_rank)
            self._probed[want.goals, probes] = found
        return replace(spectrum, density=found)

    def _grow(self, number: int, goals: tuple[Goal, ...], ticker: Ticker) -> None:
        """Grow the space of one target until its goals are reached."""
        run = self._runs[number]
        if not run.size and not run.exhausted:
            run.step()
        if run.size:
            image = float(np.hypot(run.corner, run.alphas[0]))  # length of A times the first vector
            if run.length <= self.sample.rounding * image * run.power:
                # Xᵀy is so small beside X and y that it consists of rounding alone
                run.forget()
        while not run.exhausted:
            account = self._account([run], accurate=False)
            errors = [float(account.errors(m, np.array([stop]))[0]) for m, stop in goals]
            error = max([0.0, *errors])
            ticker(f"{sum(one.size for one in self._runs)} vectors, relative error {error:.1g}")
            if error <= self.options.tol:
                return
            # k iterations are exact in a space of dimension k, so never grow past that unchecked
            whole = [stop for method, stop in goals if method.whole_stops]
            ahead = [int(stop) - run.size for stop in whole if run.size < stop < np.inf]
            for _ in range(min([1 + run.size // 20, *ahead])):
                if run.size >= self._share(number):
                    raise ReachError(self._unreached(goals, error))
                if not run.exhausted:
                    run.step()

    def _unreached(self, goals: tuple[Goal, ...], error: float) -> str:
        last = max(goal.stop for goal in goals)
        size = 8 * self.sample.shape[1] / 2**20
        rank = sum(run.size for run in self._runs)
        return (
            f"The path has not converged at stop {last:.3g}: its relative error is about "
            f"{error:.1g} with {rank} Krylov vectors, the most that max_rank allows. Use "
            f"a smaller stop, or call path with a larger max_rank (a vector takes {size:.3g} "
            f"MiB) or a larger tol than {self.options.tol:g}."
        )

    def _account(self, runs: list[GolubKahan], *, accurate: bool) -> Krylov:
        spaces = tuple(run.space(accurate=accurate) for run in runs)
        hidden = len(self._runs) > 1 or len(spaces[0].values) < self.sample.shape[1]
        # probes are counted by themselves
        products = self.sample.X.products - sum(one.products for one in self._probed.values())
        return Krylov(spaces, hidden, self.options.tol, products)

    def _assembled(self, goals: tuple[Goal, ...]) -> Spectrum:
        """Return all spaces as one spectrum; each target has a response in its own space only."""
        krylov = self._account(self._runs, accurate=True)
        spaces = krylov.spaces
        # the rank cut of dense data, and the rounding that centring leaves of constant columns
        cut = max(self.sample.rounding**2 * krylov.largest, self.floor**2)
        kept = [one.values > cut for one in spaces]
        values = np.concatenate([one.values[own] for one, own in zip(spaces, kept, strict=True)])
        order = np.argsort(values, kind="stable")
        response = np.zeros((len(values), len(spaces)))
        first = 0
        for target, (one, own) in enumerate(zip(spaces, kept, strict=True)):
            last = first + int(np.count_nonzero(own))
            response[first:last, target] = one.response[own]
            first = last
        bases = tuple(run.basis.blocks() for run in self._runs)
        rotations = tuple(one.rotation[:, own] for one, own in zip(spaces, kept, strict=True))
        basis = KrylovVectors(bases, rotations, order, self.sample.shape[1])
        errors = [float(krylov.errors(m, np.array([stop]))[0]) for m, stop in goals]
        gains = [largest_gain(krylov.tuned(m), t) for m, t in goals if isinstance(m, Filter)]
        gain = np.inf if krylov.exhausted else max(gains, default=0.0)
        krylov = replace(krylov, error=max([0.0, *errors]), gain=float(gain))
        factors: tuple[Floats, Any, Floats] = values[order], basis, response[order]
        sample = self.sample
        return assembled(sample, factors, sample.means, sample.target_power(), "krylov", krylov)

    def folds(self, splits: Splits, *, verbose: bool = False) -> list[Fold]:
        """Return the folds."""
        if self.complete:
            return self._whole.folds(splits, verbose=verbose)
        return [partial(self._fold, train, test) for train, test in splits]

    def _fold(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[Data, RowsToTest]:
        """Return all rows, with weight zero for those that are not in the training set."""
        sample = self.sample
        weights = np.bincount(train, minlength=sample.n_rows).astype(np.float64)
        if sample.row_weights is not None:
            weights *= sample.row_weights
        shares, n, count = sample_sizes(weights, sample.n_rows)
        part = replace(sample, uneven_shares=shares, n_samples=n, n_observations=count)
        part = replace(part, X=sample.X.recounted())
        own = weights_of_tests(sample, test)
        if sample.X.can_be_read:
            tested = RowsToTest(sample.X.matrix(test), sample.y[test], own)
        else:
            everywhere = np.zeros(sample.n_rows)
            np.add.at(everywhere, test, own)
            tested = RowsToTest(sample.X.X, sample.y, everywhere)  # type: ignore[attr-defined]
        return KrylovData(part, self.options), tested
