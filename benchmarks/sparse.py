"""What does a path on a large sparse X cost? Products and time beside LSQR, LSMR and Nesterov's iteration.

    python benchmarks/sparse.py [rows columns entries-per-row]

A product is one with X or one with its transpose, of one vector, for all alike. A Krylov space gives every
stop of every method up to the last. LSQR and LSMR, given as many steps, give one solution; Nesterov's
iteration with step 1/L to the last stop gives one method. Times are the best of a few interleaved rounds on
this machine; only ratios travel. Peak memory is that of the process, X and its transpose included.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, lsmr, lsqr
from timing import best_times, environment

import stoptime as st

SHAPES = [(200_000, 50_000, 5), (50_000, 200_000, 20), (1_000_000, 100_000, 10)]
PHASES = [30.0, 100.0]
N_STOPS = 10
ROUNDS = 3


class Counted:
    """A sparse matrix that counts its products."""

    def __init__(self, X: sparse.csr_array) -> None:
        self.products = 0
        self.X, self.XT = X, X.T.tocsr()
        self.operator = LinearOperator(X.shape, matvec=self.forth, rmatvec=self.back, dtype=np.float64)

    def count(self, work: Callable[[], object]) -> int:
        """Return how many products some work takes."""
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
    """Run Nesterov's iteration, one product with X and one with its transpose a step."""
    b = theta = np.zeros(A.X.shape[1])
    for k in range(1, iterations + 1):
        b, old = theta + step / len(y) * A.back(y - A.forth(theta)), b
        theta = b + (k - 1) / (k + 2) * (b - old)
    return b


def random_sparse(n: int, p: int, per_row: int) -> sparse.csr_array:
    """Return a matrix with so many standard normal entries in every row, columns of falling scale."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, p, n * per_row)
    entries = rng.standard_normal(n * per_row) * (1 + columns) ** -0.25
    return sparse.csr_array((entries, columns, np.arange(0, n * per_row + 1, per_row)), (n, p))


def compare(n: int, p: int, per_row: int) -> None:
    """Print one block of lines for a shape."""
    X = random_sparse(n, p, per_row)
    rng = np.random.default_rng(1)
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    A = Counted(X)
    largest = st.path(A.operator, y, "nesterov", [1], fit_intercept=False).krylov.largest
    print(f"\n{n} x {p}, {X.nnz} entries")
    for phase in PHASES:
        stops = np.geomspace(0.1, 1, N_STOPS) * phase / np.sqrt(largest)
        path = st.path(A.operator, y, "nesterov-flow", stops, fit_intercept=False)
        size = int(path.krylov.sizes[0])
        cases = {
            "Krylov space": lambda stops=stops: st.path(
                A.operator, y, "nesterov-flow", stops, fit_intercept=False
            ),
            "Nesterov's iteration": lambda k=int(phase): nesterov(A, y, 1 / largest, k),
            "LSQR": lambda k=size: lsqr(A.operator, y, iter_lim=k, atol=0, btol=0),
            "LSMR": lambda k=size: lsmr(A.operator, y, maxiter=k, atol=0, btol=0),
        }
        products = {name: A.count(case) for name, case in cases.items()}
        seconds = best_times(cases, ROUNDS)
        print(
            f"  t·sqrt(L) = {phase:g}: {size} vectors, {size * p / 2**17:.0f} MiB, error {path.error[-1]:.0e}"
        )
        for name in cases:
            more, longer = (a[name] / a["Krylov space"] for a in (products, seconds))
            print(
                f"{name:>24} {products[name]:5d} products {more:5.2f}x {seconds[name]:8.2f}s {longer:5.2f}x"
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"  peak memory of the process {peak:.0f} MiB")


def main() -> None:
    """Compare at every shape."""
    print(__doc__.splitlines()[0])
    print(environment())
    given = [int(word) for word in sys.argv[1:]]
    for shape in [tuple(given)] if given else SHAPES:
        compare(*shape)


if __name__ == "__main__":
    main()
