"""How fast is choosing the stop of a kernel regression? Against a grid search over kernel ridges.

    python benchmarks/kernels.py [which ...]

StoppedKernelRegressorCV with 100 stops, by exact leave-one-out, against GridSearchCV over KernelRidge with 20
penalties and 5 folds, same kernel, in one interleaved run. What it costs depends on the numerical rank of the
kernel: smooth kernels of few columns have a low one, rough ones or those of many columns have full rank, and
then nearly all the time goes into the eigenvectors of the kernel matrix. Both wall-clock and processor time
are compared: a grid search is long, and what else the machine does meanwhile shows in the former.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from timing import environment

import stoptime as st

ROWS, TEST_ROWS = 3000, 1000
GOAL = 10
PENALTIES = np.geomspace(1e-4, 1e2, 20)
CASES = [("rbf", 1), ("rbf", 2), ("rbf", 3), ("poly", 4), ("rbf", 5), ("rbf", 10), ("laplacian", 3)]


def data(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth function of all columns, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    return X, np.sin(2 * X).sum(axis=1) / np.sqrt(p) + 0.5 * rng.standard_normal(n)


def times(case: Callable[[], object]) -> np.ndarray:
    """Return wall-clock and processor time."""
    begin = np.array([time.perf_counter(), time.process_time()])
    case()
    return np.array([time.perf_counter(), time.process_time()]) - begin


def compare(kernel: str, p: int) -> None:
    """Print one line; ours runs before and after the other, and the mean counts."""
    X, y = data(ROWS + TEST_ROWS, p)
    train, test = (X[:ROWS], y[:ROWS]), (X[ROWS:], y[ROWS:])
    peer = GridSearchCV(KernelRidge(kernel=kernel), {"alpha": PENALTIES}, cv=5)
    ours = st.StoppedKernelRegressorCV(stops=100, kernel=kernel)
    before, other, after = (times(lambda model=model: model.fit(*train)) for model in (ours, peer, ours))
    mine = (before + after) / 2
    faster = other / mine
    mark = " " if faster.min() >= GOAL else "!"
    print(
        f"{kernel:>9} {p:7} {np.count_nonzero(ours.eigenvalues_):5} {other[0]:7.2f}s {mine[0]:7.2f}s "
        f"{faster[0]:6.1f} {faster[1]:9.1f}{mark} {peer.score(*test):8.4f} {ours.score(*test):8.4f}",
        flush=True,
    )


def main() -> None:
    """Print one line for each kernel."""
    print(f"Choosing the stop of a kernel regression, n = {ROWS}.\n{environment()}.\n")
    names = ["kernel", "columns", "rank", "peer", "ours", "faster", "processor", "R² peer", "R² ours"]
    print("{:>9} {:>7} {:>5} {:>8} {:>8} {:>6} {:>9}  {:>8} {:>8}".format(*names))
    for which in [int(one) for one in sys.argv[1:]] or range(len(CASES)):
        compare(*CASES[which])


if __name__ == "__main__":
    main()
