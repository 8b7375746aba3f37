r"""Sparse matrices and operators to a spectrum: by a Krylov space, or by the Gram matrix where that is small.

From the bidiagonalisation of A with :math:`A^TA = X^TX/n`, started with the response,

.. math:: T = Q\Theta Q^T, \qquad \hat\beta(t) \approx VQ\,\varphi(\Theta, t)z, \qquad z = \|X^Ty/n\|Q^Te_1:

Ritz values and Ritz vectors stand in for eigenvalues and eigenvectors. Every target has a space of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from stoptime.methods.base import Method
from stoptime.methods.flows import GradientFlow, HeavyBallFlow
from stoptime.methods.ridge import Ridge
from stoptime.spectrum.base import Density, Krylov, Spectrum
from stoptime.spectrum.dense import by_gram
from stoptime.spectrum.krylov.error_bound import relative_errors, step_errors, unconverged
from stoptime.spectrum.krylov.golub_kahan import GolubKahan, KrylovVectors, Ritz
from stoptime.spectrum.krylov.operator import MatrixFreeData
from stoptime.spectrum.krylov.probes import density
from stoptime.support.arrays import Floats
from stoptime.support.checks import positive_number, whole_number
from stoptime.support.progress import Ticker

__all__ = ["Goal", "KrylovLimitError", "KrylovSpaces", "decompose_matrix_free", "is_small"]

SMALL = 1000  # rows or columns up to which all eigenvalues are found
LARGEST_GRAM = 10_000  # rows or columns beyond which their products are refused
MOST_WORK = 2e9  # multiplications for them, unless they are asked for
TOLERANCE = 1e-6
MEMORY = 2**31  # bytes of all Krylov vectors, unless max_rank says otherwise
LOOKS = 20  # the error is looked at whenever the space has grown by this fraction
ROUGH = 0.1  # of which the square is about the relative error of a Ritz value
PRODUCTS = (1e-285, 1e285)  # of an eigenvalue and the response, with room for sums
UNDAMPED = 1e-9  # of the frequency: the path that swings most


class KrylovLimitError(ValueError):
    """The Krylov space may grow no further."""


class Goal(NamedTuple):
    """A path and the stop at which it has to have converged."""

    method: Method
    stop: float


def worst_goals(max_gain: float) -> tuple[Goal, ...]:
    """Return the paths that need the largest spaces of all whose gain is at most this."""
    if np.isinf(max_gain):
        return (Goal(Ridge(), np.inf),)
    time = float(np.sqrt(max_gain))
    swinging = HeavyBallFlow(UNDAMPED / time) if time > 0 else HeavyBallFlow(1.0)
    return Goal(Ridge(), max_gain), Goal(GradientFlow(), max_gain), Goal(swinging, time)


def decompose_matrix_free(
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    fit_intercept: bool,
    *,
    solver: str,
    max_gain: float,
    **options: Any,
) -> Spectrum:
    """Factor a sparse matrix or an operator; see :func:`stoptime.decompose`."""
    if solver == "svd":
        raise ValueError('solver="svd" needs a dense X: take "krylov", "gram" or "auto".')
    goals = options.pop("goals", None)
    if unknown := options.keys() - {"tol", "max_rank", "probes", "seed", "verbose"}:
        raise TypeError(
            f"{', '.join(unknown)}: no option; there are tol, max_rank, probes, seed, verbose."
        )
    spaces = KrylovSpaces(MatrixFreeData.validated(X, y, sample_weight, fit_intercept), **options)
    if solver == "gram" or (solver == "auto" and is_small(X)):
        spectrum = by_products(spaces.data)
        if solver == "gram" or max_gain <= spectrum.reach:
            return spectrum
    return spaces.spectrum(goals or worst_goals(max_gain))


def is_small(X: Any) -> bool:
    """Tell whether all eigenvalues of a sparse matrix cost no more than a second or so."""
    return bool(sparse.issparse(X) and min(X.shape) <= SMALL and X.nnz * min(X.shape) <= MOST_WORK)


def by_products(data: MatrixFreeData) -> Spectrum:
    """Form the smaller of AᵀA and AAᵀ, a few columns at a time, and diagonalise it."""
    size = min(data.X.shape)
    if size > LARGEST_GRAM:
        raise ValueError(
            f'solver="gram" needs the eigenvalues of a matrix of size {size}, beyond {LARGEST_GRAM}: take '
            'solver="krylov" with a finite stop or max_gain.'
        )
    spectrum = by_gram(data)
    if spectrum.rank and spectrum.eigenvalues[-1] <= data.floor**2:  # every column is constant
        nothing = np.zeros((data.X.shape[1], 0))
        return replace(
            spectrum, eigenvalues=nothing[0], basis=nothing, response=spectrum.response[:0]
        )
    return spectrum


class KrylovSpaces:
    """One Krylov space for each target, grown as far as it is asked to.

    Parameters
    ----------
    data : MatrixFreeData
        Validated.
    tol : float, default=1e-6
        Largest relative error of the coefficients at a goal.
    max_rank : int, optional
        Most vectors of all spaces together; by default as many as 2 GiB hold.
    probes, seed : int, default=0
        How many random probes of the density of all eigenvalues to take, and their seed.
    verbose : bool, default=False
        Whether growth of more than a few seconds shows its progress.
    """

    def __init__(
        self,
        data: MatrixFreeData,
        tol: float = TOLERANCE,
        max_rank: int | None = None,
        probes: int = 0,
        seed: int = 0,
        verbose: bool = False,
    ) -> None:
        self.data, self.tol = data, positive_number("tol", tol, high=1.0)
        self.probes, self.seed, self.verbose = whole_number("probes", probes), seed, verbose
        self._probed: tuple[tuple[Goal, ...], Density] | None = None
        self._probing = self.rank = 0
        most = max(2, MEMORY // (8 * data.X.shape[1]))
        self.max_rank = most if max_rank is None else whole_number("max_rank", max_rank, least=1)
        starts = data.operator.T @ data.targets
        self.runs = [
            GolubKahan(data.operator, start, data.rounding, data.floor, target)
            for start, target in zip(starts.T, data.targets.T, strict=True)
        ]
        for run, power in zip(self.runs, np.linalg.norm(data.targets, axis=0), strict=True):
            if run.length <= data.floor * power:
                run.exhausted = True

    @property
    def products(self) -> int:
        """Products with X and with Xᵀ so far, those for the means included, those for probes not."""
        return self.data.operator.products + self.data.fit_intercept - self._probing

    def largest(self) -> float:
        """Return the largest eigenvalue that the response sees, to a per cent; zero where it sees none."""
        return max((self._grow_to_largest(run) for run in self.runs), default=0.0)

    def _grow_to_largest(self, run: GolubKahan) -> float:
        found, residual = 0.0, np.inf
        while not run.exhausted and residual > ROUGH * found and self.rank < self.max_rank:
            self._step(run)
            if run.size:
                ritz = run.ritz(accurate=False)
                found, residual = float(ritz.values[-1]), abs(ritz.leaving[-1])
        return found

    def spectrum(self, goals: Iterable[Goal]) -> Spectrum:
        """Grow until every goal has converged, and return the spectrum of Ritz values.

        Parameters
        ----------
        goals : iterable of Goal
            Paths and their largest stops.
        """
        goals, ticker = tuple(goals), Ticker("Krylov space", self.verbose)
        for run, target in zip(self.runs, self.data.targets.T, strict=True):
            self._grow(run, goals, float(np.linalg.norm(target)), ticker)
        ticker.close()
        spectrum = self._assembled(goals)
        return (
            replace(spectrum, density=self._density(goals, spectrum)) if self.probes else spectrum
        )

    def _density(self, goals: tuple[Goal, ...], spectrum: Spectrum) -> Density:
        """Probe the eigenvalues, anew where a goal is later than before."""
        if self._probed is None or any(goal not in self._probed[0] for goal in goals):
            tuned = [(self._tuned(method, spectrum.eigenvalues), stop) for method, stop in goals]
            found = density(self.data, tuned, self.probes, self.seed, self.max_rank)
            self._probed, self._probing = (goals, found), self._probing + found.products
        return self._probed[1]

    def _grow(self, run: GolubKahan, goals: tuple[Goal, ...], power: float, ticker: Ticker) -> None:
        """Grow one space, begun with a response of this length, until its goals are reached."""
        if not run.size and not run.exhausted:
            self._check_memory(np.inf, goals)
            self._step(run)
        if run.size:
            self._check_products(run.image**2 * run.length)
        if run.size and run.length <= self.data.rounding * run.image * power:
            run.forget()  # what X seems to see of this target is rounding
        while not run.exhausted:
            error = self._error_ahead(run.ritz(accurate=False), run.length, goals)
            ticker(f"{self.rank} vectors, relative error {error:.1g}")
            if error == 0:
                return
            for _ in range(self._batch(run.size, goals)):
                self._check_memory(error, goals)
                self._step(run)

    @staticmethod
    def _batch(size: int, goals: tuple[Goal, ...]) -> int:
        """Return how many vectors to add before the next look; an iteration needs as many as it has steps."""
        whole = [goal.stop for goal in goals if goal.method.whole_stops]
        ahead = [int(stop) - size for stop in whole if size < stop < np.inf]
        return min([1 + size // LOOKS, *ahead])

    def _step(self, run: GolubKahan) -> None:
        before = run.size
        if not run.exhausted:
            run.step()
        self.rank += run.size - before

    def _check_memory(self, error: float, goals: tuple[Goal, ...]) -> None:
        """Raise where the spaces may grow no further."""
        if self.rank >= self.max_rank:
            last, size = max(goal.stop for goal in goals), 8 * self.data.X.shape[1] / 2**20
            raise KrylovLimitError(
                f"The path has not converged at stop {last:.3g}: its relative error is near {error:.1g} with "
                f"{self.rank} Krylov vectors, the most that max_rank allows. Take a smaller stop, or give "
                f"path a larger max_rank (a vector takes {size:.3g} MiB) or a larger tol than {self.tol:g}."
            )

    def _error_ahead(self, ritz: Ritz, length: float, goals: tuple[Goal, ...]) -> float:
        """Return the worst relative error at goals not reached, zero where all are."""
        worst = 0.0
        for goal in goals:
            tuned, error = self._goal_error(ritz, length, goal)
            if unconverged(tuned, np.array([goal.stop]), np.array([error]), self.tol)[0]:
                worst = max(worst, error)
        return worst

    def _goal_error(self, ritz: Ritz, length: float, goal: Goal) -> tuple[Method, float]:
        """Return the relative error of one space at a goal, and the goal's method, tuned."""
        response, size = length * ritz.first, np.array([len(ritz.rotation)])
        residues, unlearned = (response * ritz.leaving)[:, None], np.array([ritz.unlearned])
        account = Krylov(residues, size, unlearned, ritz.largest, ritz.doubt, self.tol, 0.0, 0)
        tuned, stops = self._tuned(goal.method, ritz.values), np.array([goal.stop])
        errors = relative_errors(ritz.values, response, account, tuned, stops)
        if getattr(goal.method, "step", None) == "auto":  # its step is part of the path
            other = self._tuned(goal.method, np.append(ritz.values, ritz.values[-1] + ritz.doubt))
            errors += step_errors(ritz.values, response, tuned, other, stops)
        return tuned, float(errors[0])

    def _error(self, goals: tuple[Goal, ...]) -> float:
        """Return the worst relative error at all goals."""
        pairs = [(run.ritz(accurate=False), run.length) for run in self.runs if run.size]
        return max(
            (self._goal_error(*pair, goal)[1] for pair in pairs for goal in goals), default=0.0
        )

    def _tuned(self, method: Method, values: Floats) -> Method:
        hidden = len(self.runs) > 1 or len(values) < self.data.X.shape[1]
        return method.tuned_to(np.append(0.0, values) if hidden else values)

    def _assembled(self, goals: tuple[Goal, ...]) -> Spectrum:
        """Lay the spaces side by side, as one spectrum in which every target sees its own."""
        ritz = [run.ritz(accurate=True) for run in self.runs]
        top = max((one.values[-1] for one in ritz if len(one.values)), default=0.0)
        self._check_range(top)
        ritz = [one.above(max(self.data.rounding**2 * top, self.data.floor**2)) for one in ritz]
        values = np.concatenate([one.values for one in ritz])
        order = np.argsort(values, kind="stable")
        response, residues = np.zeros((2, len(values), len(ritz)))
        last = np.cumsum([len(one.values) for one in ritz])
        for target, (run, one) in enumerate(zip(self.runs, ritz, strict=True)):
            own = slice(last[target] - len(one.values), last[target])
            response[own, target] = run.length * one.first
            residues[own, target] = response[own, target] * one.leaving
        basis = KrylovVectors(
            tuple(run.vectors() for run in self.runs),
            tuple(one.rotation for one in ritz),
            order,
            self.data.X.shape[1],
        )
        values, response, residues = values[order], response[order], residues[order]
        krylov = Krylov(
            residues,
            np.array([run.size for run in self.runs]),
            np.array([one.unlearned for one in ritz]),
            max(one.largest for one in ritz),
            max(
                (one.doubt for one in ritz if len(one.values) and one.values[-1] == top),
                default=0.0,
            ),
            self.tol,
            self._error(goals),
            self.products,
        )
        reach = np.inf if krylov.exhausted else max(self._gain(goal, values) for goal in goals)
        plain = self.data.spectrum(values, basis, response, self.data.means, "krylov", reach)
        return replace(plain, krylov=krylov)

    def _gain(self, goal: Goal, values: Floats) -> float:
        """Return a bound of the gain at a goal."""
        if not goal.method.has_filter:
            return 0.0
        tuned = self._tuned(goal.method, values)
        with np.errstate(over="ignore"):
            return float((tuned.pace * goal.stop) ** tuned.order)

    def _check_products(self, product: float) -> None:
        """Raise where products of an eigenvalue with the response are not among the floats."""
        low, high = PRODUCTS
        if not low < product < high:
            size = "small" if product < 1 else "large"
            raise ValueError(
                f"X and y are too {size} for a Krylov space: rescale y, or the columns of X."
            )

    def _check_range(self, largest: float) -> None:
        info = np.finfo(np.float64)
        if 0 < largest < info.tiny / info.eps or not np.isfinite(largest):
            size = "small" if largest < 1 else "large"
            raise ValueError(
                f"X is too {size}: its largest eigenvalue is {largest:.3g}. Rescale its columns."
            )
