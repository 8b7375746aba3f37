"""How fast is choosing the stop by exact leave-one-out? Against RidgeCV and against refitting.

    make bench

StoppedRegressorCV with a grid of 100 stops against RidgeCV with 100 penalties, both with their own
leave-one-out, in one interleaved run. Then how the cost grows, and the peak of memory.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
from sklearn.linear_model import RidgeCV
from timing import best_times, environment, gaussian

import stoptime as st

SHAPES = {(2000, 200, None): 5, (20000, 500, None): 8, (500, 2000, None): 1, (2000, 200, 1000): 5}
PENALTIES = np.geomspace(1e-3, 1e5, 100)
ROUNDS = 5
REFITS = 10  # of 2000: the rest is multiplied out


def against_ridgecv() -> None:
    """Print one line for each shape."""
    print(f"{'n x p x targets':>20} {'RidgeCV':>9} {'stoptime':>9} {'times faster':>13} {'goal':>5}")
    for (n, p, q), goal in SHAPES.items():
        X, y = gaussian(n, p, q)
        many = q is not None
        cases = {
            "peer": lambda X=X, y=y, many=many: RidgeCV(PENALTIES, alpha_per_target=many).fit(X, y),
            "ours": lambda X=X, y=y, many=many: st.StoppedRegressorCV(stops=100, per_target=many).fit(X, y),
        }
        t = best_times(cases, ROUNDS)
        faster, label = t["peer"] / t["ours"], f"{n} x {p} x {q or 1}"
        mark = " " if faster >= goal else "!"
        print(f"{label:>20} {t['peer']:8.3f}s {t['ours']:8.3f}s {faster:12.1f}{mark} {goal:5}", flush=True)


def against_refitting() -> None:
    """Print the ratio to fitting the path n times, for 2000 x 200."""
    X, y = gaussian(2000, 200)
    stops = st.StoppedRegressorCV(stops=100).fit(X, y).stops_

    def refit() -> None:
        for i in range(REFITS):
            keep = np.arange(len(y)) != i
            st.path(X[keep], y[keep], "nesterov-flow", stops).predict(X[i : i + 1])

    cases = {"refit": refit, "ours": lambda: st.StoppedRegressorCV(stops=100).fit(X, y)}
    t = best_times(cases, ROUNDS)
    print(f"\n2000 refits of the whole path take {t['refit'] * 2000 / REFITS / t['ours']:.0f} times as long.")


def memory() -> None:
    """Print the peak of memory beyond the data."""
    X, y = gaussian(20000, 500)
    tracemalloc.start()
    st.StoppedRegressorCV(stops=100).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"Peak memory at 20000 x 500: {peak / X.nbytes:.2f} times the size of X, X itself not counted.")


def growth() -> None:
    """Print how the cost grows in rows, columns and stops."""
    base = {"n": 4000, "p": 200, "stops": 100}
    for name, size in base.items():
        times = []
        for factor in (1, 4):
            sizes = {**base, name: size * factor}
            X, y = gaussian(sizes["n"], sizes["p"])
            ours = {"ours": lambda X=X, y=y, k=sizes["stops"]: st.StoppedRegressorCV(stops=k).fit(X, y)}
            times.append(best_times(ours, ROUNDS)["ours"])
        print(f"Four times the {name}: {times[1] / times[0]:.1f} times the cost.")


def main() -> None:
    """Print everything."""
    print(f"Choosing the stop by exact leave-one-out.\n{environment()}; best of {ROUNDS}.\n")
    against_ridgecv()
    against_refitting()
    memory()
    growth()


if __name__ == "__main__":
    main()
