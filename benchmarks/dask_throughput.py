"""What does distribution cost? Statistics on two workers against the bare Gram product, per core.

    python benchmarks/dask_throughput.py [rows]

4 000 000 × 100 numbers (3.2 GB) in a file in the page cache, read by a LocalCluster of two workers with one
thread each. The yardstick is ``X.T @ X`` of one block in memory by one thread of the same run, in rows per
second and core. Memory is the most that a worker held while it worked.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
import tempfile
import threading
import time
from pathlib import Path

import dask.array as da
import numpy as np
import psutil
from distributed import Client, LocalCluster
from timing import best_times, environment

import stoptime as st

N_FEATURES = 100
BLOCK = 100_000
REPEATS = 5


class OnDisk:
    """A file of numbers that tasks open for themselves: dask would copy a memmap."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self.path, self.shape, self.ndim, self.dtype = path, shape, len(shape), np.dtype(np.float64)

    def __getitem__(self, where: tuple[slice, ...]) -> np.ndarray:
        """Return some rows, as pages of the file."""
        return np.asarray(np.memmap(self.path, self.dtype, "r", shape=self.shape)[where])


def write(folder: Path, n: int) -> tuple[OnDisk, OnDisk]:
    """Write seeded data in blocks, so that this process never holds them."""
    rng = np.random.default_rng(0)
    beta = rng.standard_normal(N_FEATURES)
    with (folder / "X").open("wb") as features, (folder / "y").open("wb") as targets:
        for start in range(0, n, BLOCK):
            X = rng.standard_normal((min(BLOCK, n - start), N_FEATURES))
            features.write(X.tobytes())
            targets.write((X @ beta + rng.standard_normal(len(X))).tobytes())
    return OnDisk(folder / "X", (n, N_FEATURES)), OnDisk(folder / "y", (n,))


class Watch:
    """The most private memory that any of some processes holds while the block runs."""

    def __init__(self, pids: list[int]) -> None:
        self.processes, self.peak, self.done = [psutil.Process(pid) for pid in pids], 0, threading.Event()

    def _look(self) -> None:
        while not self.done.wait(0.02):
            sizes = [process.memory_info() for process in self.processes]
            self.peak = max(self.peak, *(size.rss - size.shared for size in sizes))

    def __enter__(self) -> Watch:
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()


def main() -> None:
    """Print throughput per core as a share of the Gram product's, and the memory of the workers."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        X, y = write(Path(folder), n)
        rows, targets = (da.from_array(a, chunks=(BLOCK, *a.shape[1:])) for a in (X, y))
        block = np.array(X[:BLOCK])
        pids = list(client.run(os.getpid).values())
        idle = max(psutil.Process(pid).memory_info().rss for pid in pids)
        print(f"{n} x {N_FEATURES}, blocks of {block.nbytes / 1e6:.0f} MB, 2 workers of one thread\n")
        print(environment(), "\n")
        print("run | Gram product | statistics | share per core | memory above idle, in blocks")
        for run in range(REPEATS):
            gram = best_times({"gram": lambda: block.T @ block}, 5)["gram"]
            with Watch(pids) as watch:
                begin = time.perf_counter()
                st.summarise(rows, targets)
                spent = time.perf_counter() - begin
            bare, ours = BLOCK / gram, n / spent / 2
            held = (watch.peak - idle) / block.nbytes
            print(f"{run} | {bare:.3g} rows/s | {ours:.3g} rows/s/core | {ours / bare:.2f} | {held:.1f}")


if __name__ == "__main__":
    main()
