"""Overhead of Dask: statistics on two workers compared with the bare Gram product, per core.

The data are in a file in the page cache and are read by workers with one thread each. The
reference is ``X.T @ X`` of a block in the memory of each worker, on both workers at once just
before and just after, in rows per second and core: by elapsed time, and by the processor time of
all processes, which is less affected by other processes. Memory is the peak of a worker above its
idle state, without pages of the file.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import stoptime as st
from benchmarks.data import label
from benchmarks.harness import Case, Work, measure

GROUP = "chunks"
TITLE = "More rows than memory"
ABOUT = (
    "Means and products of the rows of a file are computed by two Dask workers with one thread "
    "each. The reference is `X.T @ X` of a block in memory on both workers at once, just before "
    "and just after. The ratio is the throughput per core relative to this reference. Memory is "
    "the peak of a worker above its idle state, in blocks."
)
ROWS, QUICK_ROWS = 4_000_000, 800_000
COLUMNS, BLOCK, WORKERS = 100, 400_000, 2
REPEATS, QUICK_REPEATS = 7, 1
GRAM_ROUNDS = 3  # before and after each run
SHARE = 0.8
WHY = (
    "The statistics of a block in memory take 1.05 to 1.1 times as long as the product; the rest "
    "is the start and the end of the graph, and client and scheduler share the two cores with the "
    "workers."
)


class OnDisk:
    """A file of numbers that each task opens itself, because Dask would copy a memory map."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self.path, self.shape, self.ndim, self.dtype = path, shape, len(shape), np.dtype(np.float64)

    def __getitem__(self, where: tuple[slice, ...]) -> np.ndarray:
        """Return some rows as a memory map."""
        return np.asarray(np.memmap(self.path, self.dtype, "r", shape=self.shape)[where])


class Watch:
    """Peak private memory of several processes while the ``with`` block runs."""

    def __init__(self, processes: list[Any]) -> None:
        self.processes, self.peak, self.done = processes, 0, threading.Event()

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


def private(process: Any) -> int:
    """Return the memory of a process without its memory-mapped files."""
    size = process.memory_info()
    return int(size.rss - size.shared)


def write(folder: Path, n: int) -> tuple[OnDisk, OnDisk]:
    """Write data from a fixed seed in blocks, so that this process never holds all of them."""
    rng = np.random.default_rng(0)
    beta = rng.standard_normal(COLUMNS)
    with (folder / "X").open("wb") as features, (folder / "y").open("wb") as targets:
        for start in range(0, n, BLOCK):
            X = rng.standard_normal((min(BLOCK, n - start), COLUMNS))
            features.write(X.tobytes())
            targets.write((X @ beta + rng.standard_normal(len(X))).tobytes())
    return OnDisk(folder / "X", (n, COLUMNS)), OnDisk(folder / "y", (n,))


def gram_seconds(X: OnDisk, rounds: int) -> tuple[float, float]:
    """Return elapsed and processor seconds of Gram products in memory; runs on a worker."""
    block = np.array(X[:BLOCK])
    clock, processor = time.perf_counter(), time.thread_time()
    for _ in range(rounds):
        block.T @ block
    return time.perf_counter() - clock, time.thread_time() - processor


def bare(client: Any, X: OnDisk) -> np.ndarray:
    """Return rows per elapsed and per processor second of the Gram product on all workers."""
    workers = list(client.scheduler_info()["workers"])
    runs = [client.submit(gram_seconds, X, GRAM_ROUNDS, workers=[w], pure=False) for w in workers]
    return GRAM_ROUNDS * BLOCK / np.mean(client.gather(runs), axis=0)


def processor_time(processes: list[Any]) -> float:
    """Return the processor time so far of the workers and of this process with its scheduler."""
    return time.process_time() + sum(sum(process.cpu_times()[:2]) for process in processes)


def shares(client: Any, n: int, repeats: int) -> np.ndarray:
    """Return the median ratios by elapsed and processor time, and the blocks held above idle."""
    import dask.array as da  # noqa: PLC0415 - an extra
    import psutil  # noqa: PLC0415

    found = []
    with tempfile.TemporaryDirectory() as folder:
        X, y = write(Path(folder), n)
        rows, targets = (da.from_array(a, chunks=(BLOCK, *a.shape[1:])) for a in (X, y))
        st.summarise(rows[: 2 * BLOCK], targets[: 2 * BLOCK])  # workers import what they need
        processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]
        idle = max(map(private, processes))
        for _ in range(repeats):
            before = bare(client, X)
            with Watch(processes) as watch:
                clock, processor = time.perf_counter(), processor_time(processes)
                st.summarise(rows, targets)
                spent = [
                    WORKERS * (time.perf_counter() - clock),
                    processor_time(processes) - processor,
                ]
            yardstick = (before + bare(client, X)) / 2
            held = max(watch.peak - idle, 0) / (8 * BLOCK * COLUMNS)
            found.append([*(n / np.array(spent) / yardstick), held])
    return np.median(found, axis=0)


def throughput(n: int, repeats: int, goal: float | None) -> Work:
    """Measure on a local cluster."""
    from distributed import Client, LocalCluster  # noqa: PLC0415 - an extra

    def measured() -> np.ndarray:
        options = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            return shares(client, n, repeats)

    def named(found: np.ndarray, _: object) -> tuple[dict[str, Any], ...]:
        clock, processor, held = map(float, found)
        return (
            measure("of the bare throughput", clock, goal),
            measure("by processor time", processor),
            measure("blocks held", held),
        )

    return Work(measured, measures=named)


def cases(quick: bool) -> list[Case]:
    """Return the cases of this group."""
    n, repeats = (QUICK_ROWS, QUICK_REPEATS) if quick else (ROWS, REPEATS)
    return [
        Case(
            GROUP,
            f"{label(n, COLUMNS)}, two workers",
            "X.T @ X per core",
            partial(throughput, n, repeats, None if quick else SHARE),
            WHY,
            needs=("distributed", "psutil"),
        )
    ]
