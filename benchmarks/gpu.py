"""How fast is a fit on a GPU? Ratios to the bare products and eigh on the same device, in one run.

    python benchmarks/gpu.py [n p]

Needs torch with CUDA. Float64 throughout; 100 stops; with exact leave-one-out, and without.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import torch

import stoptime as st

N_STOPS = 100
ROUNDS = 4
GOALS = {"choosing by leave-one-out": 2.0, "path": 1.3}


def best_time(work: Callable[[], object]) -> float:
    """Return the best of a few times in seconds, the device waited for."""
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)


def bare_times(X: torch.Tensor) -> dict[str, float]:
    """Time what cannot be avoided."""
    gram = X.T @ X
    vectors = torch.linalg.eigh(gram)[1]
    return {
        "X.T @ X": best_time(lambda: X.T @ X),
        "eigh": best_time(lambda: torch.linalg.eigh(gram)),
        "X @ V": best_time(lambda: X @ vectors),
    }


def main() -> None:
    """Print the bare times, and every case as a ratio to their sum."""
    n, p = (int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (200_000, 4096)
    generator = torch.Generator("cuda").manual_seed(0)
    X = torch.randn(n, p, dtype=torch.float64, device="cuda", generator=generator) + 1
    beta = torch.randn(p, dtype=torch.float64, device="cuda", generator=generator) / p**0.5
    y = X @ beta + torch.randn(n, dtype=torch.float64, device="cuda", generator=generator)
    bare = bare_times(X)
    total = sum(bare.values())
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; {n} x {p}, {N_STOPS} stops, float64")
    print("  " + ", ".join(f"{name} {seconds:.3f} s" for name, seconds in bare.items()))
    spectrum = st.decompose(X, y)
    stops = np.geomspace(0.1, 30, N_STOPS) / np.sqrt(spectrum.eigenvalues[-1])
    del spectrum
    cases = {
        "choosing by leave-one-out": lambda: st.StoppedRegressorCV(stops=stops).fit(X, y),
        "choosing, grid refined": lambda: st.StoppedRegressorCV(stops=N_STOPS).fit(X, y),
        "path": lambda: st.path(X, y, "nesterov-flow", stops),
        "choosing by path GCV": lambda: st.StoppedRegressorCV(stops=stops, rule="path-gcv").fit(X, y),
    }
    for name, case in cases.items():
        torch.cuda.reset_peak_memory_stats()
        seconds = best_time(case)
        peak = torch.cuda.max_memory_allocated() / X.nbytes
        goal = f", goal {GOALS[name]}" if name in GOALS else ""
        print(f"  {name}: {seconds:.3f} s, ratio {seconds / total:.2f}{goal}, peak {peak:.1f} times X")


if __name__ == "__main__":
    main()
