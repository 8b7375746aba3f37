"""How fast is a full path? Ratios to the bare linear algebra and to what people run, in one interleaved run.

    make bench

Times are for this machine; only ratios travel.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from timing import best_times, environment, gaussian

import stoptime as st

SHAPES = [(2000, 200), (20000, 500), (500, 2000), (100000, 50)]
N_STOPS = 100
ROUNDS = 25
PHASE = 100.0  # the last stop, in units of 1/sqrt(L): as many steps of Nesterov's iteration
GOAL = 1.5


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


def main() -> None:
    """Print one line for each shape."""
    print("A full path: the bare product and eigh, stoptime with centring, and their ratio;")
    print("then how many times longer Nesterov's iteration to the last stop, and solve_ivp, take.")
    print(f"{environment()}; {N_STOPS} stops up to t·sqrt(L) = {PHASE:g}, friction 3, best of {ROUNDS}.\n")
    print(f"{'n x p':>14} {'bare':>9} {'stoptime':>9} {'ratio':>6}   {'Nesterov':>9} {'solve_ivp':>10}")
    for n, p in SHAPES:
        X, y = gaussian(n, p)
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
            f"{' ' if ratio <= GOAL else '!'}  {t['nesterov'] / t['stoptime']:8.1f}x "
            f"{t['solve_ivp'] / t['stoptime']:9.1f}x"
        )
    print(f"\nGoal: a ratio of at most {GOAL}; a ! marks a case that misses it.")


if __name__ == "__main__":
    main()
