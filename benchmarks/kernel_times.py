"""Times of kernels that tune themselves: the default call, and landmarks beside the bare algebra.

    python -m benchmarks.kernel_times    # three minutes; writes a table of docs/kernels.md

The bare algebra is 2·2nm² operations, as two products of n x m numbers with m x m matrices, and one
eigendecomposition of size m. Times are those of one thread on a processor, which other work on the
machine hardly changes. ``python -m benchmarks.gpu`` measures landmarks on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

import stoptime as st
from benchmarks.harness import OF_CASES, Case, Work, best, command, load, run_cases, table

PAGE = "kernels.md"
FILE = "kernel_times.json"
REST = "; four fifths of the time are eigendecompositions"


def smooth(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a smooth function of a few columns, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)


def default_call(n: int) -> Work:
    """Compare kernel, width, method and stop together with one eigendecomposition."""
    X, y = smooth(n, 20)
    model = st.StoppedKernelRegressorCV()
    return Work(lambda: model.fit(X, y), partial(np.linalg.eigh, rbf_kernel(X)))


def bare(xp: Any, block: Any, count: int) -> None:
    """Multiply so many blocks twice with a square matrix, and compute one eigendecomposition."""
    _, vectors = xp.linalg.eigh(block.T @ block)
    for _ in range(2 * count):
        block @ vectors


def landmarks(n: int, m: int) -> Work:
    """Compare a fit by landmarks, for a given kernel, with the bare algebra."""
    X, y = smooth(n, 20)
    block = np.random.default_rng(1).standard_normal((2048, m))
    model = st.StoppedKernelRegressorCV(kernel="rbf", gamma=0.05, n_landmarks=m)
    return Work(lambda: model.fit(X, y), partial(bare, np, block, -(-n // len(block))))


def cases() -> Iterator[Case]:
    """Yield all cases; the reason is what the table says about the time."""
    peer = "one eigendecomposition of that size"
    for n, rest in ((1000, ""), (3000, REST)):
        name = f"{n} rows, default call"
        work = partial(default_call, n)
        yield Case("kernels", name, peer, work, rest, None, "at most", rounds=1)
    peer = "the bare algebra, $2 \\cdot 2nm^2$ operations and one eigendecomposition"
    name = "100 000 rows, 2000 landmarks, given kernel, all stops and methods"
    work = partial(landmarks, 100_000, 2000)
    yield Case("kernels", name, peer, work, "", None, "at most", rounds=1)


def parts() -> dict[str, str]:
    """Return the table of the stored times."""
    rows = []
    for one in load(FILE)["outcomes"]:
        ours, theirs = (f"{spent:.2g}" for spent in best(one))
        rows.append([one["name"], ours, f"{one['peer']}: {theirs}{one['why']}"])
    return {"times": table(("", "time", "beside"), rows)}


if __name__ == "__main__":
    run = run_cases(cases, FILE, time.process_time)
    command(__doc__, FILE, run, {PAGE: parts}, **OF_CASES | {"threads": 1})
