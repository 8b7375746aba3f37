"""How fast is a full path? Ratios to the bare linear algebra and to what people run, in one interleaved run.

    make bench

Every case is timed in turn, round after round, and the best round of each counts: the ratios then
hardly feel a machine that others use too. Times are for this machine; only ratios travel.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import numpy as np
import scipy
from scipy.integrate import solve_ivp
from threadpoolctl import threadpool_info

import stoptime as st

SHAPES = [(2000, 200), (20000, 500), (500, 2000), (100000, 50)]
N_STOPS = 100
ROUNDS = 15
PHASE = 100.0  # the last stop, in units of 1/sqrt(L): as many steps of Nesterov's iteration
ALLOWED = 1.5


def make_problem(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gaussian data with means, so that centring is real work."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) + 1
    return X, X @ rng.standard_normal(p) / np.sqrt(p) + rng.standard_normal(n)


def bare(Xc: np.ndarray) -> None:
    """Do what cannot be avoided: the smaller product of the centred data, and its eigenvectors."""
    np.linalg.eigh(Xc @ Xc.T if len(Xc) < Xc.shape[1] else Xc.T @ Xc)


def nesterov(Xc: np.ndarray, yc: np.ndarray, step: float, iterations: int) -> np.ndarray:
    """Run Nesterov's iteration, which gives one stop after another of one method only."""
    b = theta = np.zeros(Xc.shape[1])
    for k in range(1, iterations + 1):
        b, old = theta + step / len(Xc) * (Xc.T @ (yc - Xc @ theta)), b
        theta = b + (k - 1) / (k + 2) * (b - old)
    return b


def integrate(Xc: np.ndarray, yc: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Solve the equation of motion numerically, to six digits."""
    p = Xc.shape[1]

    def motion(t: float, state: np.ndarray) -> np.ndarray:
        b, velocity = state[:p], state[p:]
        return np.concatenate([velocity, Xc.T @ (yc - Xc @ b) / len(Xc) - 3 / t * velocity])

    begin = stops[0] / 100
    return solve_ivp(motion, (begin, stops[-1]), np.zeros(2 * p), t_eval=stops, rtol=1e-6, atol=1e-9).y


def best_times(cases: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Time all cases in turn, ``rounds`` times; slow ones only as often as fits in a minute."""
    best = dict.fromkeys(cases, np.inf)
    spent = dict.fromkeys(cases, 0.0)
    for _ in range(rounds):
        for name, case in cases.items():
            if spent[name] > 10:
                continue
            begin = time.perf_counter()
            case()
            elapsed = time.perf_counter() - begin
            best[name] = min(best[name], elapsed)
            spent[name] += elapsed
    return best


def main() -> None:
    """Print one line for each shape."""
    threads = {f"{i['internal_api']} {i['num_threads']}" for i in threadpool_info()}
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, {threads}")
    print(f"{N_STOPS} stops up to t·sqrt(L) = {PHASE:g}, friction 3, centring included, best of {ROUNDS}\n")
    print(f"{'n x p':>14} {'bare':>9} {'stoptime':>9} {'ratio':>6}   {'Nesterov':>9} {'solve_ivp':>10}")
    for n, p in SHAPES:
        X, y = make_problem(n, p)
        Xc, yc = X - X.mean(axis=0), y - y.mean()
        largest = np.linalg.norm(Xc, 2) ** 2 / n
        stops = np.geomspace(0.1, PHASE, N_STOPS) / np.sqrt(largest)
        cases = {
            "bare": lambda Xc=Xc: bare(Xc),
            "stoptime": lambda X=X, y=y, stops=stops: st.path(X, y, "nesterov-flow", stops),
            "nesterov": lambda Xc=Xc, yc=yc, L=largest: nesterov(Xc, yc, 1 / L, int(PHASE)),
            "solve_ivp": lambda Xc=Xc, yc=yc, stops=stops: integrate(Xc, yc, stops),
        }
        t = best_times(cases, ROUNDS)
        ratio = t["stoptime"] / t["bare"]
        print(
            f"{f'{n} x {p}':>14} {t['bare'] * 1e3:7.1f}ms {t['stoptime'] * 1e3:7.1f}ms {ratio:6.2f} "
            f"{'  ' if ratio <= ALLOWED else ' !'} {t['nesterov'] / t['stoptime']:8.1f}x "
            f"{t['solve_ivp'] / t['stoptime']:9.1f}x"
        )
    print(f"\nratio: a full path over the bare product and eigh; goal at most {ALLOWED}.")
    print("Nesterov: one run of the iteration to the last stop, over stoptime's time for all stops.")


if __name__ == "__main__":
    main()
