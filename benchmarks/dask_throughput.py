"""What does distribution cost? Statistics on two workers against the bare Gram product, per core.

    python benchmarks/dask_throughput.py [rows]

4 000 000 × 100 numbers (3.2 GB) on a LocalCluster of two workers with one thread each: once in the memory of
the workers, once read from a file in the page cache. The yardstick is ``X.T @ X`` of a block in the memory of
each worker, on both at once just before and just after, in rows per second and core: by the clock, and by the
processor time of all processes, which other work on the machine disturbs less. Memory is the most that a
worker holds above its state before the run, without pages of the file.
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
from distributed import Client, LocalCluster, wait
from timing import environment

import stoptime as st

N_FEATURES = 100
BLOCK = 200_000
REPEATS = 3
ROUNDS = 3  # of the Gram product, before and after each run


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
        while not self.done.wait(0.05):
            self.peak = max(self.peak, *map(private, self.processes))

    def __enter__(self) -> Watch:
        self.thread = threading.Thread(target=self._look)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()


def private(process: psutil.Process) -> int:
    """Return the memory of a process without the pages of files it has mapped."""
    size = process.memory_info()
    return int(size.rss - size.shared)


def gram_seconds(X: OnDisk, rounds: int) -> tuple[float, float]:
    """Return the seconds, and those of the processor, of Gram products in memory; runs on a worker."""
    block = np.array(X[:BLOCK])
    clock, processor = time.perf_counter(), time.thread_time()
    for _ in range(rounds):
        block.T @ block
    return time.perf_counter() - clock, time.thread_time() - processor


def bare(client: Client, X: OnDisk) -> np.ndarray:
    """Return rows per second of clock and processor time of the Gram product, on all workers at once."""
    workers = list(client.scheduler_info()["workers"])
    runs = [client.submit(gram_seconds, X, ROUNDS, workers=[w], pure=False) for w in workers]
    return ROUNDS * BLOCK / np.mean(client.gather(runs), axis=0)


def processor_time(pids: list[int]) -> float:
    """Return the processor time spent so far by workers and by this process, scheduler included."""
    return time.process_time() + sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def compare(client: Client, X: OnDisk, rows: da.Array, targets: da.Array, pids: list[int]) -> np.ndarray:
    """Print one run after the other; return the shares by clock and by processor."""
    shares = []
    for run in range(REPEATS):
        before, idle = bare(client, X), max(private(psutil.Process(pid)) for pid in pids)
        with Watch(pids) as watch:
            clock, processor = time.perf_counter(), processor_time(pids)
            st.summarise(rows, targets)
            spent = np.array([2 * (time.perf_counter() - clock), processor_time(pids) - processor])
        yardstick = (before + bare(client, X)) / 2
        shares.append(len(rows) / spent / yardstick)
        held = max(watch.peak - idle, 0) / (8 * BLOCK * N_FEATURES)
        print(f"{run} | {yardstick[1]:.3g} | {shares[-1][0]:.2f} | {shares[-1][1]:.2f} | {held:.1f}")
    return np.median(shares, axis=0)


def main() -> None:
    """Print throughput per core as a share of the Gram product's, and the memory of the workers."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        X, y = write(Path(folder), n)
        lazy = [da.from_array(a, chunks=(BLOCK, *a.shape[1:])) for a in (X, y)]
        st.summarise(*(a[: 2 * BLOCK] for a in lazy))  # imports
        pids = list(client.run(os.getpid).values())
        print(f"{n} x {N_FEATURES}, blocks of {8e-6 * BLOCK * N_FEATURES:.0f} MB, 2 workers of one thread")
        print(environment())
        for place in ("file", "memory"):
            print(f"\nrows in {'a file' if place == 'file' else 'the memory of the workers'}")
            print("run | Gram product, rows/s | share by clock | by processor | memory above idle, in blocks")
            held = lazy if place == "file" else [a.map_blocks(np.array).persist() for a in lazy]
            wait(held)
            clock, processor = compare(client, X, *held, pids)
            print(f"median share {clock:.2f} by clock, {processor:.2f} by processor; at least 0.8 is wanted")


if __name__ == "__main__":
    main()
