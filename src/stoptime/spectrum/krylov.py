r"""Data that are used through products with vectors only: operators, and large sparse matrices.

Golub–Kahan bidiagonalisation :math:`AV_k = U_{k+1}B_k` of A with :math:`A^TA = X^TX/n`, started
with the response (as LSQR by Paige and Saunders, 1982), gives the Ritz values Θ in the place of
eigenvalues: with :math:`B^TB = Q\Theta Q^T`, :math:`\hat\beta(t) \approx VQ\,\varphi(\Theta, t)z`
and :math:`z = \|X^Ty/n\|Q^Te_1`. Every target has its own space.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, eigh_tridiagonal, norm

from stoptime.methods.base import Filter, Method, as_filter
from stoptime.spectrum.accuracy import SAFETY, Krylov, ReachError, Space, check_scale, largest_gain
from stoptime.spectrum.base import Density, OnDemand, Spectrum
from stoptime.spectrum.data import (
    WITHOUT_ROWS,
    Data,
    Fold,
    Goal,
    RowsToTest,
    Want,
    require_every_eigenvalue,
)
from stoptime.spectrum.factorise import CentredOperator, assembled
from stoptime.spectrum.row_data import RowData, SampleData, Splits
from stoptime.spectrum.rows import ArrayRows, Sample
from stoptime.support.arrays import EPS, TINY, Array, Floats
from stoptime.support.checks import is_whole, positive_number, whole_number
from stoptime.support.progress import Tick, progress_bar, progress_shown

SMALL = 1000  # rows or columns up to which all eigenvalues take no more than about a second
LARGEST = 5000  # rows or columns up to which all eigenvalues are computed if they are needed
MEMORY = 2**31  # bytes of all Krylov vectors, unless max_rank says otherwise
HORIZON = 30.0  # phase t√L at which the search for a stop first ends


class _Basis:
    """Orthonormal vectors, stored in blocks of 32 so that growth copies nothing."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.count = 0
        self._blocks: list[Array] = []

    def append(self, vector: Floats) -> None:
        if self.count % 32 == 0:
            self._blocks.append(np.empty((32, self.length)))
        self._blocks[-1][self.count % 32] = vector
        self.count += 1

    def blocks(self) -> list[Array]:
        """Return the vectors so far, in blocks of rows; later growth does not change them."""
        return [block[: self.count - 32 * k] for k, block in enumerate(self._blocks)]

    def orthogonalise(self, vector: Floats) -> Floats:
        before = np.linalg.norm(vector)
        # a difference much shorter than the vector consists of rounding to a visible part, which
        # is not orthogonal to the basis; a second pass removes it ("twice is enough")
        for _ in range(2):
            for block in self.blocks():
                vector -= (block @ vector) @ block
            after = np.linalg.norm(vector)
            if after > np.sqrt(0.5) * before:
                break
            before = after
        return vector


class GolubKahan:
    """A bidiagonalisation of A that can be continued; ``start`` is Aᵀ times the ``target``.

    Only V is stored and reorthogonalised, which suffices (Barlow, 2013). A is never squared, so
    that components of y along small singular values keep all their digits. Images no longer than
    the ``floor`` may be rounding errors of the means of X.
    """

    def __init__(
        self,
        matrix: Any,
        start: Floats,
        rounding: float,
        floor: float = 0.0,
        target: Floats | None = None,
    ) -> None:
        self.matrix = matrix
        self.rounding = rounding
        self.floor = floor
        self.basis = _Basis(len(start))
        self.alphas: list[float] = []
        self.betas: list[float] = []
        # norms of SciPy do not overflow or underflow
        self.power = 0.0 if target is None else float(norm(target, check_finite=False))
        self.length = float(norm(start, check_finite=False))
        if self.power and start.any():
            # an entry of this size shows whether products have lost their digits
            size = float(np.abs(start).max()) / self.power
            check_scale("X", float(np.clip(size, 1e-150, 1e150)) ** 2)
        # a start this short is what rounding leaves of the means in Aᵀy
        self.exhausted = self.length <= floor * self.power
        self.corner = self.length / self.power if self.power else 0.0
        self._next = start / self.length if self.length > 0 else start
        self._left = target / self.power if target is not None and self.power else np.zeros(1)
        self._first_left = self._left
        self._scale = self.corner

    @property
    def size(self) -> int:
        """Dimension of the space."""
        return len(self.alphas)

    def step(self) -> None:
        """Add one vector: a product with A, and one with its transpose."""
        v = self._next
        u = self.matrix @ v
        if self.corner and self.size < 2:
            self._check_transpose(u, self.corner if not self.size else 0.0)
            # Xᵀy that is so small beside X and y consists of rounding alone
            if not self.size and self.length <= self.rounding * np.linalg.norm(u) * self.power:
                self.exhausted = True
                return
        u -= (self.betas[-1] if self.size else self.corner) * self._left
        alpha = float(np.linalg.norm(u))
        fitted = self._vanishes(alpha)
        if self.corner or not fitted:
            self.basis.append(v)
            self.alphas.append(alpha)
            self.betas.append(0.0)
        if fitted:
            self.exhausted = True
            return
        self._left = u / alpha
        w = self.basis.orthogonalise(self.matrix.T @ self._left - alpha * v)
        beta = float(np.linalg.norm(w))
        self.exhausted = self._vanishes(beta) or self.size == min(self.matrix.shape)
        if not self.exhausted:
            self.betas[-1] = beta
            self._next = w / beta

    def _check_transpose(self, image: Floats, expected: float) -> None:
        """Raise a ValueError if u₁ᵀAv is not (Aᵀu₁)ᵀv, a test that needs no further product."""
        # Aᵀu₁ is a multiple of the first vector, and so orthogonal to the second
        found = float(self._first_left @ image)
        # rounding alone makes no such difference, not even in products that cancel to a hundredth
        if abs(found - expected) > 1e-3 * max(self.corner, 0.01 * float(np.linalg.norm(image))):
            raise ValueError(
                "X is not a linear operator: its rmatvec is not the transpose of its matvec. In "
                f"the test ⟨Xv, u⟩ = ⟨v, Xᵀu⟩ the left side is {found:.5g} and the right side "
                f"{expected:.5g}. An approximate adjoint, such as an unmatched back projection, "
                "does not solve least squares: use the exact one."
            )

    def _vanishes(self, entry: float) -> bool:
        self._scale = max(self._scale, entry)
        return entry <= max(self.rounding * self._scale, self.floor)

    def space(self, *, accurate: bool = False) -> Space:
        """Return the Krylov space, and the one of five vectors ago unless it is exhausted."""
        space = self._diagonalised(self.size, accurate)
        if self.exhausted:
            return space
        before = self._diagonalised(max(self.size - 5, int(self.size > 1)), accurate)
        return space._replace(before=before, coupling=self.alphas[-1] * self.betas[-1])

    def _diagonalised(self, k: int, accurate: bool) -> Space:
        """Diagonalise BᵀB for k vectors, accurately by the singular values of B, or as it is."""
        alphas = np.array(self.alphas[:k])
        steps = np.array([self.corner, *self.betas])[:k]
        if k == 0:
            return Space(alphas, alphas, np.empty((0, 0)))
        if accurate:
            bidiagonal = np.zeros((k + 1, k))
            np.fill_diagonal(bidiagonal, steps)
            np.fill_diagonal(bidiagonal[1:], alphas)
            left, lengths, right = np.linalg.svd(bidiagonal, full_matrices=False)
            values = lengths[::-1] ** 2
            rotation = right[::-1].T
            # Bᵀ maps the first left vector to v₁, which gives small components to more digits
            first = (lengths * left[0] / self.corner)[::-1] if self.corner else rotation[0]
        else:
            values, rotation = eigh_tridiagonal(alphas**2 + steps**2, alphas[:-1] * steps[1:])
            # rounding may turn the smallest eigenvalues negative, which filters refuse
            values = np.maximum(values, TINY)
            first = rotation[0]
        return Space(values, self.length * first, rotation)


@dataclass(frozen=True)
class KrylovVectors(OnDemand):
    """Ritz vectors of one or several spaces."""

    # each basis, in blocks of rows, times its rotation gives the vectors of a space
    bases: tuple[list[Array], ...]
    rotations: tuple[Array, ...]
    order: NDArray[np.intp]
    length: int

    def __matmul__(self, components: Floats) -> Floats:
        unsorted = np.empty_like(components)
        unsorted[self.order] = components
        out = np.zeros((self.length, *components.shape[1:]))
        for blocks, rotation in zip(self.bases, self.rotations, strict=True):
            own, unsorted = np.split(unsorted, [rotation.shape[1]])
            own = rotation @ own
            for block in blocks:
                out += block.T @ own[: len(block)]
                own = own[len(block) :]
        return out


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
        if want.goals or not want.search:
            return self._grown(want)
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
        """Return the stop at which the search first ends, for smooth paths at tL = 100."""
        if not isinstance(method, Filter):
            return Goal(method, method.horizon)
        largest = self._rough_largest or 1.0
        time = 100 / largest if method.time_power == 1 else HORIZON / np.sqrt(largest)
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
        means = SAFETY * EPS * float(np.linalg.norm(self.sample.means[0]))
        return max(means, self.sample.X.floor)

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
        pairs = zip((self.operator.T @ targets).T, targets.T, strict=True)
        rounding = sample.rounding
        return [GolubKahan(self.operator, one, rounding, self.floor, y) for one, y in pairs]

    @property
    def max_rank(self) -> int:
        """The largest number of Krylov vectors of all targets together."""
        most = max(2, MEMORY // (8 * self.sample.shape[1]))
        return most if self.options.max_rank is None else self.options.max_rank

    def _share(self, number: int) -> int:
        """Return how many vectors a target may have if the later ones get as many."""
        left = self.max_rank - sum(run.size for run in self._runs[:number])
        return max(left // (len(self._runs) - number), 1)

    @cached_property
    def _rough_largest(self) -> float:
        """The largest eigenvalue that the response sees, to about a per cent; zero if none."""
        for number, run in enumerate(self._runs):
            # ten vectors are fewer than the search will need
            while run.size < min(10, self._share(number)) and not run.exhausted:
                run.step()
        return self._account(self._runs).largest

    def _grown(self, want: Want) -> Spectrum:
        """Grow until the paths have converged at all goals, and return the Ritz values."""
        require_every_eigenvalue(method for method, _ in want.goals)
        # a bar ends its line also if the goals are not reached
        with progress_shown(self.options.verbose), progress_bar("Krylov space") as tick:
            for number in range(len(self._runs)):
                self._grow(number, want.goals, tick)
        spectrum = self._assembled(want.goals)
        probes = max(self.options.probes, 10 if want.trace else 0)
        if not probes:
            return spectrum
        # probes converge for given goals only, so a later stop needs longer ones
        found = self._probed.get((want.goals, probes))
        if found is None:
            krylov: Any = spectrum.accuracy
            goals = [(krylov.tuned(m), stop) for m, stop in want.goals]
            found = density(self.operator, goals, probes, self.options.rng, self.max_rank)
            self._probed[want.goals, probes] = found
        return replace(spectrum, density=found)

    def _grow(self, number: int, goals: tuple[Goal, ...], tick: Tick) -> None:
        """Grow the space of one target until its goals are reached."""
        run = self._runs[number]
        if not run.size and not run.exhausted:
            run.step()
        while not run.exhausted:
            error = _error_at(self._account([run]), goals)
            size = sum(one.size for one in self._runs)
            tick(text=f"{size} vectors, relative error {error:.1g}")
            if error <= self.options.tol:
                return
            # k iterations are exact in a space of dimension k, so never grow past that unchecked
            whole = [stop for method, stop in goals if method.whole_stops]
            ahead = [int(stop) - run.size for stop in whole if run.size < stop < np.inf]
            for _ in range(min([1 + run.size // 20, *ahead])):
                if run.size >= self._share(number):
                    raise ReachError(
                        f"The path has not converged at stop {max(t for _, t in goals):.3g}: its "
                        f"relative error is about {error:.1g} with {size} Krylov vectors, the most "
                        "that max_rank allows. Use a smaller stop, or call path with a larger "
                        f"max_rank (a vector takes {8 * self.sample.shape[1] / 2**20:.3g} MiB) or "
                        f"a larger tol than {self.options.tol:g}."
                    )
                if not run.exhausted:
                    run.step()

    def _account(self, runs: list[GolubKahan], *, accurate: bool = False) -> Krylov:
        spaces = tuple(run.space(accurate=accurate) for run in runs)
        unseen = len(self._runs) > 1 or len(spaces[0].values) < self.sample.shape[1]
        # probes are counted by themselves
        products = self.sample.X.products - sum(one.products for one in self._probed.values())
        return Krylov(spaces, unseen, self.options.tol, products)

    def _assembled(self, goals: tuple[Goal, ...]) -> Spectrum:
        """Return all spaces as one spectrum; each target has a response in its own space only."""
        krylov = self._account(self._runs, accurate=True)
        spaces = krylov.spaces
        # the rank cut of dense data, and the rounding that centring leaves of constant columns
        cut = max(self.sample.rounding**2 * krylov.largest, self.floor**2)
        kept = [one.values > cut for one in spaces]
        values = np.concatenate([one.values[own] for one, own in zip(spaces, kept, strict=True)])
        order = np.argsort(values, kind="stable")
        columns = [one.response[own, None] for one, own in zip(spaces, kept, strict=True)]
        response = block_diag(*columns)
        bases = tuple(run.basis.blocks() for run in self._runs)
        rotations = tuple(one.rotation[:, own] for one, own in zip(spaces, kept, strict=True))
        basis = KrylovVectors(bases, rotations, order, self.sample.shape[1])
        gains = [largest_gain(krylov.tuned(m), t) for m, t in goals if isinstance(m, Filter)]
        exhausted = all(run.exhausted for run in self._runs)
        gain = np.inf if exhausted else float(max(gains, default=0.0))
        krylov = replace(krylov, error=_error_at(krylov, goals), gain=gain)
        factors: tuple[Floats, Any, Floats] = values[order], basis, response[order]
        sample = self.sample
        return assembled(sample, factors, sample.means, sample.target_power(), "krylov", krylov)

    def folds(self, splits: Splits) -> list[Fold]:
        """Return the folds."""
        return self._whole.folds(splits) if self.complete else super().folds(splits)

    def _fold(self, train: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[Data, RowsToTest]:
        sample = self.sample
        if sample.X.can_be_read:
            return super()._fold(train, test)
        # an operator has all rows, with weight zero for those that are not in the training set
        weights = np.bincount(train, minlength=sample.n_rows).astype(np.float64)
        if sample.row_weights is not None:
            weights *= sample.row_weights
        X = copy(sample.X)
        X.products = 0
        part = replace(sample, X=X).weighted(weights)
        everywhere = np.zeros(sample.n_rows)
        np.add.at(everywhere, test, self._weights_of_tests(test))
        return KrylovData(part, self.options), RowsToTest(X.matrix(), sample.y, everywhere)


def _error_at(krylov: Krylov, goals: tuple[Goal, ...]) -> float:
    return max([0.0, *(float(krylov.errors(m, np.array([t]))[0]) for m, t in goals)])


def density(
    A: CentredOperator, goals: Iterable[tuple[Method, float]], probes: int, seed: int, most: int
) -> Density:
    r"""Estimate the density of the eigenvalues of AᵀA from m random sign vectors.

    .. math:: \mathrm{tr}\,f(A^TA) \approx \frac{\min(n, p)}m\sum_{k=1}^m\sum_j q_{1j}^2 f(\theta_j)

    This is stochastic Lanczos quadrature. A probe ends when its degrees of freedom at the goals,
    tuned methods and stops, have converged; ``most`` is the largest number of its vectors.
    """
    n, p = A.shape
    before = A.X.products
    present = A.root > 0
    size = int(np.count_nonzero(present)) - A.centre
    # AAᵀ has the same positive eigenvalues as AᵀA; the smaller of the two has fewer zeros, which
    # only add variance to the estimate
    matrix = A.T if size < p else A
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (probes, matrix.shape[1]))
    if size < p:
        signs = signs * present
        if A.centre:
            # centring makes this direction a null direction, which the estimate must not contain
            signs -= np.multiply.outer(signs @ A.root, A.root)
    size = min(size, p)
    finite = [(m, t) for m, t in goals if np.isfinite(t) and isinstance(m, Filter)]
    # where there is no finite stop to converge at, 200 vectors have to do
    most = min(most, max(size, 1), most if finite else 200)
    rounding = EPS * max(n, p)
    parts = [_nodes(GolubKahan(matrix, sign, rounding), finite, most) for sign in signs]
    nodes = np.concatenate([values for values, _ in parts])
    weights = np.concatenate([shares for _, shares in parts]) * size / probes
    probe = np.repeat(np.arange(probes), [len(values) for values, _ in parts])
    # nodes below the rank cut stand for zero eigenvalues, which add nothing to a trace
    seen = np.flatnonzero(nodes > rounding**2 * nodes.max(initial=0))
    order = seen[np.argsort(nodes[seen], kind="stable")]
    return Density(nodes[order], weights[order], probe[order], A.X.products - before)


def _nodes(run: GolubKahan, goals: list[tuple[Filter, float]], most: int) -> tuple[Array, Array]:
    """Grow one probe until its traces have converged; return its nodes and their weights."""
    # late degrees of freedom hardly change, so that earlier ones have to converge as well
    fractions = np.array([1.0, 0.3, 0.1, 0.03])
    traces: Any = np.full((len(goals), len(fractions)), np.inf)
    values = weights = np.empty(0)
    while not run.exhausted and run.size < most:
        run.step()
        if not run.exhausted:
            run.step()
        space = run.space()
        values = space.values
        weights = space.rotation[0] ** 2 if len(values) else values
        found = np.empty_like(traces)
        for row, (method, stop) in enumerate(goals):
            stops = np.ceil(stop * fractions) if method.whole_stops else stop * fractions
            found[row] = (weights * values) @ method.gain(values[:, None], stops)
        settled = np.abs(found - traces) <= 1e-5 * np.abs(found)
        if goals and settled.all() and run.size >= 4:
            break
        traces = found
    return values, weights
