"""Speed of choosing the stop of a kernel regression, compared with a grid search."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

import stoptime as st
from benchmarks.data import label
from benchmarks.harness import Case, Work
from benchmarks.results import Measure

GROUP = "kernels"
TITLE = "Kernels"
ABOUT = (
    "`StoppedKernelRegressorCV` with 100 stops and exact leave-one-out is compared with "
    "`GridSearchCV` over `KernelRidge` with 20 penalties and 5 folds and the same kernel. The "
    "cost depends on the numerical rank of the kernel matrix: smooth kernels of few columns have "
    "low rank, rough ones have full rank. The scores are R² on 1000 test rows."
)
ROWS, QUICK_ROWS, TEST_ROWS = 3000, 800, 1000
PENALTIES = np.geomspace(1e-4, 1e2, 20)
KERNELS = [("rbf", 2), ("rbf", 5), ("laplacian", 3), ("linear", 10)]  # with numbers of columns
TOLERANCE = 0.01  # of R²: the grids differ
WHY = (
    "The kernel matrix has a high rank. Its eigenvectors take three quarters of our time, which "
    "is nearly a tenth of the peer's time."
)


def data(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth function of all columns, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    return X, np.sin(2 * X).sum(axis=1) / np.sqrt(p) + 0.5 * rng.standard_normal(n)


def against_grid_search(kernel: str, n: int, p: int) -> Work:
    """Compare choosing a stop with choosing a penalty, in time and in test score."""
    X, y = data(n + TEST_ROWS, p)

    def scores(ours: st.StoppedKernelRegressorCV, peer: GridSearchCV) -> tuple[Measure, ...]:
        mine, other = (float(model.score(X[n:], y[n:])) for model in (ours, peer))
        return (Measure("R²", mine, other - TOLERANCE), Measure("R² of the peer", other))

    peer = GridSearchCV(KernelRidge(kernel=kernel), {"alpha": PENALTIES}, cv=5)
    return Work(
        lambda: st.StoppedKernelRegressorCV(stops=100, kernel=kernel, gamma=None).fit(X[:n], y[:n]),
        lambda: peer.fit(X[:n], y[:n]),
        measures=scores,
    )


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    n = QUICK_ROWS if quick else ROWS
    return [
        Case(
            GROUP,
            f"{kernel}, {label(n, p)}",
            "GridSearchCV of KernelRidge",
            partial(against_grid_search, kernel, n, p),
            WHY,
            goal=1 if quick else 10,
            rounds=3,
            needs=("stoptime.StoppedKernelRegressorCV",),
        )
        for kernel, p in (KERNELS[:1] if quick else KERNELS)
    ]
