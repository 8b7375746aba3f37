"""How fast is choosing the stop of a kernel regression? Against a grid search over kernel ridges.

    python benchmarks/kernels.py [which ...]

StoppedKernelRegressorCV with 100 stops, by exact leave-one-out, against GridSearchCV over KernelRidge with 20
penalties and 5 folds, same kernel, in one interleaved run. What it costs depends on the numerical rank of the
kernel: smooth kernels of few columns have a low one, rough ones or those of many columns have full rank, and
then nearly all the time goes into the eigenvectors of the kernel matrix.
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from timing import best_times, environment

import stoptime as st

ROWS, TEST_ROWS = 3000, 1000
ROUNDS = 2
GOAL = 10
PENALTIES = np.geomspace(1e-4, 1e2, 20)
CASES = [("rbf", 1), ("rbf", 2), ("rbf", 3), ("poly", 4), ("rbf", 5), ("rbf", 10), ("laplacian", 3)]


def data(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth function of all columns, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    return X, np.sin(2 * X).sum(axis=1) / np.sqrt(p) + 0.5 * rng.standard_normal(n)


def compare(kernel: str, p: int) -> None:
    """Print one line."""
    X, y = data(ROWS + TEST_ROWS, p)
    train, test = (X[:ROWS], y[:ROWS]), (X[ROWS:], y[ROWS:])
    peer = GridSearchCV(KernelRidge(kernel=kernel), {"alpha": PENALTIES}, cv=5)
    ours = st.StoppedKernelRegressorCV(stops=100, kernel=kernel)
    t = best_times({"peer": lambda: peer.fit(*train), "ours": lambda: ours.fit(*train)}, ROUNDS)
    rank, faster = np.count_nonzero(ours.eigenvalues_), t["peer"] / t["ours"]
    mark = " " if faster >= GOAL else "!"
    print(
        f"{kernel:>9} {p:7} {rank:5} {t['peer']:7.2f}s {t['ours']:7.2f}s {faster:6.1f}{mark} "
        f"{peer.score(*test):8.4f} {ours.score(*test):8.4f}",
        flush=True,
    )


def main() -> None:
    """Print one line for each kernel."""
    print(f"Choosing the stop of a kernel regression, n = {ROWS}.\n{environment()}; best of {ROUNDS}.\n")
    names = ["kernel", "columns", "rank", "peer", "ours", "faster", "R² peer", "R² ours"]
    print("{:>9} {:>7} {:>5} {:>8} {:>8} {:>7} {:>8} {:>8}".format(*names))
    for which in [int(one) for one in sys.argv[1:]] or range(len(CASES)):
        compare(*CASES[which])


if __name__ == "__main__":
    main()
