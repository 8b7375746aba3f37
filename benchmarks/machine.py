"""The environment of a benchmark: threads, versions, processor. No host names and no paths."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

PACKAGES = (
    "stoptime",
    "numpy",
    "scipy",
    "scikit-learn",
    "threadpoolctl",
    "himalaya",
    "EarlyStoppingPy",
    "torch",
    "dask",
    "distributed",
    "playwright",
    "statsmodels",
)


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Limit the threads of every thread pool that is loaded; enter it after all imports."""
    with threadpool_limits(limits=threads):
        yield


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that take part."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def processor() -> str:
    """Return the model of the processor if the system provides it."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_gib() -> float | None:
    """Return the memory of the machine if the system provides it."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)


def environment(threads: int) -> dict[str, Any]:
    """Return everything that the times depend on."""
    with pinned(threads):
        pools = sorted({_pool(pool) for pool in threadpool_info()})
    return {
        "processor": processor(),
        "cores": available_cores(),
        "memory_gib": memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "threads": threads,
        "pools": pools,
        "load_at_start": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions(),
    }


def _pool(pool: dict[str, Any]) -> str:
    version = f" {pool['version']}" if pool.get("version") else ""
    return f"{pool['internal_api']}{version}, threads: {pool['num_threads']}"
