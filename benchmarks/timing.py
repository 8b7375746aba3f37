"""Best times of several cases in one interleaved run, and what they ran on."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

LONGEST = 10.0  # seconds spent on one case before it is not repeated


def best_times(cases: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Time all cases in turn, round after round; the best round of each counts.

    Taking turns spreads what else the machine does over all cases, so that ratios hardly feel it.
    """
    best, spent = dict.fromkeys(cases, np.inf), dict.fromkeys(cases, 0.0)
    for _ in range(rounds):
        for name, case in cases.items():
            if spent[name] < LONGEST:
                begin = time.perf_counter()
                case()
                elapsed = time.perf_counter() - begin
                best[name], spent[name] = min(best[name], elapsed), spent[name] + elapsed
    return best


def environment() -> str:
    """Return versions and thread counts, in one line."""
    pools = sorted({f"{pool['internal_api']} x {pool['num_threads']}" for pool in threadpool_info()})
    return (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}; {', '.join(pools)}"
    )


def gaussian(n: int, p: int, q: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return data with means, so that centring is real work."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) + 1
    y = X @ rng.standard_normal(p if q is None else (p, q)) / np.sqrt(p)
    return X, y + rng.standard_normal(y.shape)
