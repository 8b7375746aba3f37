r"""Krylov spaces that replace the eigenvectors of sparse matrices and operators.

From the bidiagonalisation of A with :math:`A^TA = X^TX/n`, started with the response,

.. math:: T = Q\Theta Q^T, \qquad \hat\beta(t) \approx VQ\,\varphi(\Theta, t)z, \qquad
    z = \|X^Ty/n\|Q^Te_1:

Ritz values and Ritz vectors replace eigenvalues and eigenvectors. Every target has its own space.
Spaces of random vectors estimate the density of all eigenvalues: stochastic Lanczos quadrature.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.spectrum.accuracy import ReachError
from stoptime.spectrum.base import Density, Krylov, Spectrum
from stoptime.spectrum.data import Goal, require_every_eigenvalue
from stoptime.spectrum.krylov.error_bound import relative_errors, step_errors, unconverged
from stoptime.spectrum.krylov.golub_kahan import GolubKahan, KrylovVectors, Ritz
from stoptime.support.arrays import Floats
from stoptime.support.checks import is_whole, positive_number, whole_number
from stoptime.support.progress import Ticker

if TYPE_CHECKING:
    from stoptime.spectrum.krylov.operator import MatrixFreeData

PATH_TOLERANCE = 1e-6  # relative error of the coefficients, by default
KRYLOV_MEMORY = 2**31  # bytes of all Krylov vectors, unless max_rank says otherwise
LOOKS_PER_DOUBLING = 20  # the error is estimated whenever a space has grown by one part in these
ROUGH_RESIDUAL = 0.1  # relative: the error of a Ritz value is about its square, a per cent
TRACE_CHANGE = 1e-5  # relative change of a trace over two steps at which a probe has converged
FEWEST_PROBE_STEPS = 4
MOST_PROBE_STEPS = 200  # where there is no finite stop to converge at
STOP_FRACTIONS = np.array([1.0, 0.3, 0.1, 0.03])  # of a goal, where traces are compared


class KrylovSpaces:
    """One Krylov space for each target, grown only as far as needed; options as in decompose."""

    def __init__(
        self,
        data: MatrixFreeData,
        tol: float = PATH_TOLERANCE,
        max_rank: int | None = None,
        probes: int = 0,
        rng: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.data = data
        self.tol = positive_number("tol", tol, high=1.0)
        self.probes = whole_number("probes", probes)
        # a number, because the same probes are drawn again whenever the space has grown
        self.seed = rng if is_whole(rng) else int(np.random.default_rng(rng).integers(2**63))
        self.verbose = verbose
        self.rank = 0
        self._probed: tuple[tuple[Goal, ...], Density] | None = None
        self._probe_products = 0
        most = max(2, KRYLOV_MEMORY // (8 * data.n_features))
        self.max_rank = most if max_rank is None else whole_number("max_rank", max_rank, least=1)
        data.target_power(data.means)  # checks the range of y before any work
        starts = data.operator.T @ data.targets
        self.runs = [
            GolubKahan(data.operator, start, data.rounding, data.floor, target)
            for start, target in zip(starts.T, data.targets.T, strict=True)
        ]

    def largest(self) -> float:
        """Return the largest eigenvalue that the response sees, to a per cent; zero if none."""
        largest = 0.0
        for run in self.runs:
            found = 0.0
            rough = True
            while rough and not run.exhausted and self.rank < self.max_rank:
                self._step(run)
                if run.size:
                    ritz = run.ritz(accurate=False)
                    found = float(ritz.values[-1])
                    rough = abs(ritz.leaving[-1]) > ROUGH_RESIDUAL * found
            largest = max(largest, found)
        return largest

    def spectrum(self, goals: Iterable[Goal]) -> Spectrum:
        """Grow until the paths have converged at all goals, and return the Ritz values."""
        goals = tuple(goals)
        require_every_eigenvalue(method for method, _ in goals)
        ticker = Ticker("Krylov space", self.verbose)
        for run in self.runs:
            self._grow(run, goals, ticker)
        ticker.close()
        spectrum = self._assembled(goals)
        if not self.probes:
            return spectrum
        # probes converge for given goals only, so a later stop needs longer ones
        if self._probed is None or any(goal not in self._probed[0] for goal in goals):
            tuned = [(self._tuned(method, spectrum.eigenvalues), stop) for method, stop in goals]
            found = density(self.data, tuned, self.probes, self.seed, self.max_rank)
            self._probed = goals, found
            self._probe_products += found.products
        return replace(spectrum, density=self._probed[1])

    def _grow(self, run: GolubKahan, goals: tuple[Goal, ...], ticker: Ticker) -> None:
        """Grow the space of one target until its goals are reached."""
        if not run.size and not run.exhausted:
            self._check_memory(np.inf, goals)
            self._step(run)
        if run.size:
            image = float(np.hypot(run.corner, run.alphas[0]))  # length of A times the first vector
            if run.length <= self.data.rounding * image * run.power:
                # Xᵀy is so small beside X and y that it consists of rounding alone
                run.forget()
        while not run.exhausted:
            errors = zip(goals, self._errors(run, goals), strict=True)
            late = [e for (m, stop), e in errors if unconverged(m, stop, e, self.tol)]
            error = max([0.0, *late])
            ticker(f"{self.rank} vectors, relative error {error:.1g}")
            if error == 0:
                return
            # k iterations are exact in a space of dimension k, so never grow past that unchecked
            whole = [stop for method, stop in goals if method.whole_stops]
            ahead = [int(stop) - run.size for stop in whole if run.size < stop < np.inf]
            for _ in range(min([1 + run.size // LOOKS_PER_DOUBLING, *ahead])):
                self._check_memory(error, goals)
                self._step(run)

    def _step(self, run: GolubKahan) -> None:
        before = run.size
        if not run.exhausted:
            run.step()
        self.rank += run.size - before

    def _check_memory(self, error: float, goals: tuple[Goal, ...]) -> None:
        """Raise a ReachError where the spaces are as large as max_rank allows."""
        if self.rank >= self.max_rank:
            last = max(goal.stop for goal in goals)
            size = 8 * self.data.n_features / 2**20
            raise ReachError(
                f"The path has not converged at stop {last:.3g}: its relative error is about "
                f"{error:.1g} with {self.rank} Krylov vectors, the most that max_rank allows. Use "
                f"a smaller stop, or call path with a larger max_rank (a vector takes {size:.3g} "
                f"MiB) or a larger tol than {self.tol:g}."
            )

    def _errors(self, run: GolubKahan, goals: tuple[Goal, ...]) -> list[float]:
        """Return the relative errors of the space of one target at the goals."""
        ritz = run.ritz(accurate=False)
        response = run.length * ritz.first
        residues = (response * ritz.leaving)[:, None]
        sizes = np.array([run.size])
        unlearned = np.array([ritz.unlearned])
        account = Krylov(residues, sizes, unlearned, ritz.largest, ritz.doubt, self.tol, 0.0, 0)
        found = []
        for method, stop in goals:
            tuned = self._tuned(method, ritz.values)
            stops = np.array([stop])
            errors = relative_errors(ritz.values, response, account, tuned, stops)
            if getattr(method, "step", None) == "auto":
                # the step depends on the largest eigenvalue, of which only an estimate is known
                other = self._tuned(method, np.append(ritz.values, ritz.values[-1] + ritz.doubt))
                pair = as_filter(tuned), as_filter(other)
                errors += step_errors(ritz.values, response, *pair, stops)
            found.append(float(errors[0]))
        return found

    def _tuned(self, method: Method, values: Floats) -> Method:
        # unless the space is complete there may be eigenvalues down to zero
        hidden = len(self.runs) > 1 or len(values) < self.data.n_features
        return method.tuned_to(np.append(0.0, values) if hidden else values)

    def _assembled(self, goals: tuple[Goal, ...]) -> Spectrum:
        """Return all spaces as one spectrum; each target has a response in its own space only."""
        ritz = [run.ritz(accurate=True) for run in self.runs]
        top = max((one.values[-1] for one in ritz if len(one.values)), default=0.0)
        # the rank cut of dense data, and the rounding that centring leaves of constant columns
        cut = max(self.data.rounding**2 * top, self.data.floor * self.data.floor)
        for target, one in enumerate(ritz):
            kept = one.values > cut
            ritz[target] = one._replace(
                values=one.values[kept], rotation=one.rotation[:, kept], first=one.first[kept]
            )
        values = np.concatenate([one.values for one in ritz])
        order = np.argsort(values, kind="stable")
        values = values[order]
        response, residues = np.zeros((2, len(values), len(ritz)))
        owner = np.repeat(np.arange(len(ritz)), [len(one.values) for one in ritz])
        for target, (run, one) in enumerate(zip(self.runs, ritz, strict=True)):
            own = owner == target
            response[own, target] = run.length * one.first
            residues[own, target] = run.length * one.first * one.leaving
        bases = tuple(run.basis.blocks() for run in self.runs)
        rotations = tuple(one.rotation for one in ritz)
        basis = KrylovVectors(bases, rotations, order, self.data.n_features)
        doubts = (one.doubt for one in ritz if len(one.values) and one.values[-1] == top)
        grown = [run for run in self.runs if run.size]
        krylov = Krylov(
            residues=residues[order],
            sizes=np.array([run.size for run in self.runs]),
            unlearned=np.array([one.unlearned for one in ritz]),
            largest=max(one.largest for one in ritz),
            doubt=max(doubts, default=0.0),
            tol=self.tol,
            error=max([0.0, *(e for run in grown for e in self._errors(run, goals))]),
            products=self.data.operator.products + self.data.fit_intercept - self._probe_products,
        )
        tuned = [(self._tuned(m, values), t) for m, t in goals]
        gains = [m.largest_gain(t) for m, t in tuned if isinstance(m, Filter)]
        reach = np.inf if krylov.exhausted else max(gains, default=0.0)
        means = self.data.means
        plain = self.data.assembled(values, basis, response[order], means, "krylov", reach)
        return replace(plain, krylov=krylov)


def density(
    data: MatrixFreeData, goals: Iterable[tuple[Method, float]], probes: int, seed: int, most: int
) -> Density:
    r"""Estimate the density of the eigenvalues of AᵀA from m random sign vectors.

    .. math:: \mathrm{tr}\,f(A^TA) \approx \frac{\min(n, p)}m\sum_{k=1}^m\sum_j q_{1j}^2 f(\theta_j)
    """
    # a probe ends when its degrees of freedom at the goals (tuned methods, stops) have converged
    A = data.operator
    before = A.products
    present = A.root > 0
    size = int(np.count_nonzero(present)) - data.fit_intercept
    # AAᵀ has the same positive eigenvalues as AᵀA; the smaller of the two has fewer zeros, which
    # only add variance to the estimate
    matrix = A.T if size < data.n_features else A
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (probes, matrix.shape[1]))
    if size < data.n_features:
        signs = signs * present
        if data.fit_intercept:
            # centring makes this direction a null direction, which the estimate must not contain
            signs -= np.multiply.outer(signs @ A.root, A.root)
    size = min(size, data.n_features)
    finite = [(m, t) for m, t in goals if np.isfinite(t) and isinstance(m, Filter)]
    most = min(most, max(size, 1), most if finite else MOST_PROBE_STEPS)
    parts = [_grown(GolubKahan(matrix, sign, data.rounding), finite, most) for sign in signs]
    nodes = np.concatenate([part.values for part in parts])
    weights = np.concatenate([part.first**2 for part in parts]) * size / probes
    probe = np.repeat(np.arange(probes), [len(part.values) for part in parts])
    # nodes below the rank cut stand for zero eigenvalues, which add nothing to a trace
    seen = np.flatnonzero(nodes > data.rounding**2 * nodes.max(initial=0))
    order = seen[np.argsort(nodes[seen], kind="stable")]
    return Density(nodes[order], weights[order], probe[order], A.products - before)


def _grown(run: GolubKahan, goals: list[tuple[Filter, float]], most: int) -> Ritz:
    """Grow one probe until its traces have converged; return its Ritz values, the nodes."""
    ritz = run.ritz(accurate=False)
    traces = np.full((len(goals), len(STOP_FRACTIONS)), np.inf)
    while not run.exhausted and run.size < most:
        run.step()
        if not run.exhausted:
            run.step()
        ritz = run.ritz(accurate=False)
        found = np.empty_like(traces)
        for row, (method, stop) in enumerate(goals):
            # late degrees of freedom hardly change, so that earlier ones have to converge as well
            stops = np.ceil(stop * STOP_FRACTIONS) if method.whole_stops else stop * STOP_FRACTIONS
            gains = method.gain(ritz.values[:, None], stops)
            found[row] = (ritz.first**2 * ritz.values) @ gains
        settled = np.abs(found - traces) <= TRACE_CHANGE * np.abs(found)
        if goals and settled.all() and run.size >= FEWEST_PROBE_STEPS:
            break
        traces = found
    return ritz
