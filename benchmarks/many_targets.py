"""Many targets, each with a stop of its own: against himalaya's RidgeCV.

    python benchmarks/many_targets.py [n_targets] [dtype]

All fit the same 3000 x 500 design and 100 000 targets, signals of unequal smoothness and noise, each in a
process of its own, one after the other. himalaya chooses each target's penalty among 20 by 5 folds; stoptime
each target's stop among 100, and one of three methods, by generalised cross-validation of the path and by
exact leave-one-out. Printed are wall-clock and processor time, peak memory of the whole process, data
included, and the mean R² on 1000 rows that none has seen. Needs ``pip install "stoptime[bench]"``.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
from timing import environment

ROWS, TEST_ROWS, COLUMNS, TARGETS = 3000, 1000, 500, 100_000
PENALTIES = np.geomspace(1e-1, 1e6, 20)  # for XᵀX; the best ones lie well inside
BATCH = 2000  # targets
LIMIT = 8.0  # GiB
CONTENDERS = {
    "path-gcv": ("path-gcv", ["ridge", "gradient-flow", "nesterov-flow"]),
    "loo": ("loo", "gradient-flow"),
}


def data(n_targets: int, dtype: str) -> tuple[np.ndarray, ...]:
    """Return training and test sets: correlated columns, coefficients in the eigenbasis of unequal decay."""
    rng = np.random.default_rng(0)
    scales = np.arange(1, COLUMNS + 1) ** -0.5
    rotation = np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0]
    rows = (rng.standard_normal((ROWS + TEST_ROWS, COLUMNS)) * scales).astype(dtype)
    Y = np.empty((ROWS + TEST_ROWS, n_targets), dtype)
    for start in range(0, n_targets, BATCH):
        width = min(BATCH, n_targets - start)
        decay = rng.uniform(0, 1, width)
        coef = (rng.standard_normal((COLUMNS, width)) * scales[:, None] ** decay).astype(dtype)
        signal = rows @ coef
        noise = signal.std(axis=0) * 10 ** rng.uniform(-0.5, 1, width).astype(dtype)
        columns = slice(start, start + width)
        Y[:, columns] = signal + noise * rng.standard_normal(signal.shape, dtype=dtype) + 1
    X = rows @ rotation.astype(dtype)
    X += 1  # so that centring is real work
    return X[:ROWS], Y[:ROWS], X[ROWS:], Y[ROWS:]


def score(X: np.ndarray, Y: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> float:
    """Return the mean R² over targets."""
    total = 0.0
    for start in range(0, Y.shape[1], BATCH):
        columns = slice(start, start + BATCH)
        truth = Y[:, columns].astype(np.float64)
        fit = X @ coef[columns].T + intercept[columns]
        total += float(np.sum(1 - ((truth - fit) ** 2).mean(axis=0) / truth.var(axis=0)))
    return total / Y.shape[1]


def contender(name: str, n_targets: int, dtype: str) -> dict[str, float]:
    """Fit one of the two, and return what it took."""
    X, Y, X_test, Y_test = data(n_targets, dtype)
    begin, spent = time.perf_counter(), time.process_time()
    if name == "himalaya":
        from himalaya.ridge import RidgeCV  # noqa: PLC0415 - each process pays for its own

        options = {"n_targets_batch": BATCH, "n_targets_batch_refit": BATCH}
        model = RidgeCV(PENALTIES, fit_intercept=True, cv=5, solver_params=options).fit(X, Y)
        coef = model.coef_.T
    else:
        from stoptime import StoppedRegressorCV  # noqa: PLC0415

        rule, methods = CONTENDERS[name]
        model = StoppedRegressorCV(methods, stops=100, per_target=True, rule=rule).fit(X, Y)
        coef = model.coef_
    elapsed, spent = time.perf_counter() - begin, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "seconds": elapsed,
        "processor": spent,
        "peak": peak,
        "score": score(X_test, Y_test, coef, model.intercept_),
    }


def main() -> None:
    """Run both, and compare."""
    n_targets = int(sys.argv[1]) if len(sys.argv) > 1 else TARGETS
    dtype = sys.argv[2] if len(sys.argv) > 2 else "float32"
    print(f"{ROWS} x {COLUMNS}, {n_targets} targets, {dtype}.\n{environment()}\n")
    print(f"{'':>10} {'time':>9} {'processor':>10} {'peak':>10} {'mean R²':>9}")
    theirs = measured("himalaya", n_targets, dtype)
    for name in CONTENDERS:
        ours = measured(name, n_targets, dtype)
        goals = {
            f"{theirs['seconds'] / ours['seconds']:.1f} times as fast": ours["seconds"] < theirs["seconds"],
            f"{theirs['processor'] / ours['processor']:.1f} by processor time": ours["processor"]
            < theirs["processor"],
            "score as good": ours["score"] >= theirs["score"],
            f"within {LIMIT:g} GiB": ours["peak"] < LIMIT,
        }
        print("  " + ", ".join(goal + ("" if held else " (NO)") for goal, held in goals.items()), flush=True)


def measured(name: str, n_targets: int, dtype: str) -> dict[str, float]:
    """Run one contender in a process of its own, and print a line."""
    command = [sys.executable, __file__, name, str(n_targets), dtype]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    one: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    print(
        f"{name:>10} {one['seconds']:8.1f}s {one['processor']:9.1f}s {one['peak']:6.2f} GiB "
        f"{one['score']:9.4f}",
        flush=True,
    )
    return one


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(contender(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
    else:
        main()
