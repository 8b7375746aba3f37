"""
Data larger than memory
=======================

Compute statistics in one pass, save them, and update them when new rows arrive.
"""

# %%
# Parquet files and a memory map in a temporary folder are read once each. The fit uses only their
# statistics: p × p numbers for any number of rows.

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import stoptime as st

N_FEATURES = 30
NAMES = [f"x{k}" for k in range(N_FEATURES)]


def rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one day of data."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, N_FEATURES)) * np.geomspace(1, 0.03, N_FEATURES) + 5
    return X, X @ np.sin(np.arange(N_FEATURES)) + 3 * rng.standard_normal(n)


def main() -> None:
    """Read three days, save their statistics, add a fourth day, and choose the stop."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for day in range(3):
            X, y = rows(day, n)
            table = pa.table(dict(zip(NAMES, X.T, strict=True)) | {"sales": y})
            pq.write_table(table, folder / f"day-{day}.parquet")

        chunks = st.Chunks.parquet(folder, "sales", rows=20_000)
        seen = st.summarise(chunks, verbose=True)
        seen.save(folder / "seen.npz")
        print(f"three days in one pass: {seen}")

        X, y = rows(3, n)
        np.save(folder / "day-3.npy", X)
        today = st.Chunks.of(np.load(folder / "day-3.npy", mmap_mode="r"), y)
        seen = st.Statistics.load(folder / "seen.npz") + st.summarise(today)
        seen.save(folder / "seen.npz")
        print(f"and a fourth from a memory map: {seen}")

        estimate = st.StoppedRegressorCV("accelerated-flow", rule="path-gcv").fit(seen)
        error = estimate.choice_.error
        print(f"from these statistics only: stop at {estimate.stop_:.3g}, error {error:.4f}")
        model = st.StoppedRegressorCV("accelerated-flow", cv=5).fit(chunks)
        error, deviation = model.choice_.error, model.choice_.standard_error
        print(f"five folds, in one pass over the files: error {error:.4f} ± {deviation:.4f}")
        print(f"predictions, block by block: {model.predict(chunks).shape}")
    _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for fitted, label in ((estimate, "path GCV, from statistics"), (model, "five folds of files")):
        (line,) = ax.plot(fitted.stops_, fitted.errors_, label=label)
        ax.plot(fitted.stop_, fitted.choice_.error, "o", color=line.get_color())
    ax.set(
        xscale="log", yscale="log", xlabel="stop", ylabel="mean squared error", title="Read once"
    )
    ax.legend()
    plt.show()


if __name__ == "__main__":
    main()
