"""Products and time of a path on a large sparse X, compared with LSQR, LSMR and Nesterov."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, lsmr, lsqr

import stoptime as st
from benchmarks.data import label
from benchmarks.harness import Case, Work, measure

GROUP = "sparse"
TITLE = "Sparse data"
ABOUT = (
    "Nesterov flow at ten stops on a sparse X, from one Krylov space that gives every stop of "
    "every method up to the last stop. LSQR and LSMR with the same number of steps give one "
    "solution; Nesterov's iteration with step 1/L to the last stop gives one method. A product is "
    "one multiplication of X or its transpose with one vector. The number of products matters if "
    "products are expensive; here they are cheap."
)
# Rows, columns, entries per row.
SHAPES = [(200_000, 50_000, 5), (50_000, 200_000, 20), (1_000_000, 100_000, 10)]
QUICK = [(20_000, 5_000, 5)]
PHASE, QUICK_PHASE = 100.0, 30.0
N_STOPS = 10
PRODUCTS = 1.1  # goal: at most this many times the products of the peer
TIME = {"LSQR": 3.0, "LSMR": 3.0}
EXTRA_WORK = (
    "Reorthogonalisation, filters and error bound are extra work; in return the space gives every "
    "stop of every method instead of one solution."
)
WHY = {
    "LSQR": EXTRA_WORK,
    "LSMR": EXTRA_WORK,
    "Nesterov's iteration": "Probably products are so cheap here that our extra work is visible.",
}


class Counted:
    """A sparse matrix that counts its products."""

    def __init__(self, X: csr_array) -> None:
        self.products = 0
        self.X, self.XT = X, X.T.tocsr()
        self.operator = LinearOperator(
            X.shape, matvec=self.forth, rmatvec=self.back, dtype=np.float64
        )

    def count(self, work: Callable[[], object]) -> int:
        """Return the number of products of some work."""
        self.products = 0
        work()
        return self.products

    def forth(self, v: np.ndarray) -> np.ndarray:
        """Multiply with X."""
        self.products += 1
        return self.X @ v.ravel()

    def back(self, u: np.ndarray) -> np.ndarray:
        """Multiply with the transpose."""
        self.products += 1
        return self.XT @ u.ravel()


def nesterov(A: Counted, y: np.ndarray, step: float, iterations: int) -> np.ndarray:
    """Run Nesterov's iteration; each step takes one product with X and one with its transpose."""
    b = theta = np.zeros(A.X.shape[1])
    for k in range(1, iterations + 1):
        b, old = theta + step / len(y) * A.back(y - A.forth(theta)), b
        theta = b + (k - 1) / (k + 2) * (b - old)
    return b


def random_sparse(n: int, p: int, per_row: int) -> csr_array:
    """Return a matrix with ``per_row`` normal entries in every row and decreasing column scales."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, p, n * per_row)
    entries = rng.standard_normal(n * per_row) * (1 + columns) ** -0.25
    return csr_array((entries, columns, np.arange(0, n * per_row + 1, per_row)), (n, p))


def against(peer: str, shape: tuple[int, int, int], phase: float) -> Work:
    """Compare time and products with one peer."""
    X = random_sparse(*shape)
    rng = np.random.default_rng(1)
    y = X @ rng.standard_normal(X.shape[1]) + rng.standard_normal(X.shape[0])
    A = Counted(X)
    largest = st.path(A.operator, y, "nesterov", [1], fit_intercept=False).krylov.largest
    stops = np.geomspace(0.1, 1, N_STOPS) * phase / np.sqrt(largest)
    ours = partial(st.path, A.operator, y, "nesterov-flow", stops, fit_intercept=False)
    size = int(ours().krylov.sizes[0])
    peers = {
        "LSQR": partial(lsqr, A.operator, y, iter_lim=size, atol=0, btol=0),
        "LSMR": partial(lsmr, A.operator, y, maxiter=size, atol=0, btol=0),
        "Nesterov's iteration": partial(nesterov, A, y, 1 / largest, int(phase)),
    }

    def products(*_: object) -> tuple[dict[str, Any], ...]:
        mine, other = A.count(ours), A.count(peers[peer])
        return (
            measure("times the products", mine / other, PRODUCTS, "at most"),
            measure("products", mine),
            measure("of the peer", other),
        )

    return Work(ours, peers[peer], measures=products)


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    shapes, phase = (QUICK, QUICK_PHASE) if quick else (SHAPES, PHASE)
    return [
        Case(
            GROUP,
            f"{label(*shape[:2])}, {shape[2]} entries a row, t·√L = {phase:g}",
            peer,
            partial(against, peer, shape, phase),
            why,
            goal=TIME.get(peer, 1.0),
            sense="at most" if peer in TIME else "at least",
            rounds=3,
        )
        for shape in shapes
        for peer, why in WHY.items()
    ]
