"""One case: two competitors are timed in turn, and the ratio of their best times is the result.

A result is a dictionary as it stands in the JSON file: group, name, peer, why, the seconds of every
round (ours, theirs), the share of its task that the peer did, and measures of name, value, goal and
sense, of which the first is the ratio. Files say where they were measured: threads, versions and
processor, no host names and no paths.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import platform
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from stoptime.support.files import atomic

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "stoptime", "numpy", "scipy", "scikit-learn", "threadpoolctl", "himalaya", "EarlyStoppingPy",
    "torch", "dask", "distributed", "playwright", "statsmodels",
)  # fmt: skip


@dataclass(frozen=True)
class Work:
    """The timed work, ready to run; data are loaded and modules imported.

    Each callable does its whole task once, except that the peer may do a ``share`` of it. Further
    ``measures`` are taken from the two answers.
    """

    ours: Callable[[], Any]
    peer: Callable[[], Any] | None = None
    share: float = 1.0
    measures: Callable[[Any, Any], tuple[dict[str, Any], ...]] | None = None


@dataclass(frozen=True)
class Case:
    """A comparison with one peer.

    ``make`` returns the work, just before the case is run. With the sense "at least", the ratio is
    the peer's time divided by ours; with "at most" it is ours divided by the peer's. ``why`` is
    printed where the case misses its goal; ``needs`` names modules.
    """

    group: str
    name: str
    peer: str
    make: Callable[[], Work]
    why: str
    goal: float | None = 1.0
    sense: str = "at least"
    rounds: int = 5
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How a run is measured."""

    threads: int
    longest: float = 10.0  # seconds after which a competitor is not repeated
    least: int = 2  # rounds of even a slow competitor
    once: float = 60.0  # competitors over this many seconds are timed once
    clock: Callable[[], float] = time.perf_counter


def measure(
    name: str, value: float, goal: float | None = None, sense: str = "at least"
) -> dict[str, Any]:
    """Return one number with its goal."""
    return {"name": name, "value": value, "goal": goal, "sense": sense}


def holds(one: Mapping[str, Any]) -> bool:
    """Tell whether a measure meets its goal; NaN meets none."""
    if one["goal"] is None:
        return True
    return (
        one["value"] >= one["goal"] if one["sense"] == "at least" else one["value"] <= one["goal"]
    )


def verdict(outcome: Mapping[str, Any]) -> str:
    """Return the verdict: a ratio above 1 but below its goal is not a loss, every other miss is."""
    if outcome.get("missing"):
        return "not run"
    measures = outcome["measures"]
    if outcome.get("error") or not measures:
        return "FAILED"
    if all(one["goal"] is None for one in measures):
        return "no goal"
    if all(map(holds, measures)):
        return "holds"
    ratio, *others = measures
    ahead = ratio["sense"] == "at least" and outcome["theirs"] and ratio["value"] > 1
    return "below its goal" if ahead and all(map(holds, others)) else "LOSES"


def interleaved(
    competitors: Mapping[str, Callable[[], Any]], rounds: int, settings: Settings
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Time all competitors in turn; return the seconds of every round, and the last answers.

    Taking turns spreads the disturbance by other processes evenly, so that ratios are hardly
    affected.
    """
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    answers: dict[str, Any] = {}
    for turn in range(rounds):
        for name, work in competitors.items():
            spent = sum(seconds[name])
            if spent >= (settings.longest if turn >= settings.least else settings.once):
                continue
            answers.pop(name, None)  # two answers may not fit into memory together
            begin = settings.clock()
            answers[name] = work()
            seconds[name].append(settings.clock() - begin)
    return seconds, answers


def run_case(case: Case, settings: Settings) -> dict[str, Any]:
    """Run one case; a missing module or an error becomes part of its result."""
    found: dict[str, Any] = {"group": case.group, "name": case.name, "peer": case.peer}
    found |= {"why": case.why, "ours": [], "theirs": [], "measures": [], "share": 1.0}
    lacking = [one for one in case.needs if importlib.util.find_spec(one) is None]
    if lacking:
        return found | {"missing": f"it needs {lacking[0]}"}
    try:
        work = case.make()
        found["share"] = work.share
        competitors = {"ours": work.ours} | ({"theirs": work.peer} if work.peer else {})
        with pinned(settings.threads):
            times, answers = interleaved(competitors, case.rounds if work.peer else 1, settings)
            if work.measures:
                found["measures"] = [*work.measures(answers["ours"], answers.get("theirs"))]
    except Exception as error:  # the other cases are still run, and the failure is reported
        return found | {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    finally:
        gc.collect()
    if work.peer:
        found |= times
        mine, other = min(times["ours"]), min(times["theirs"]) / work.share
        faster = case.sense == "at least"
        value = other / mine if faster else mine / other
        name = "times as fast" if faster else "times as long"
        found["measures"].insert(0, measure(name, value, case.goal, case.sense))
    return found


def peak_memory(work: Callable[[], Any]) -> int:
    """Return the peak memory in bytes of some work, beyond the memory in use before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- where it was measured


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


# ---------------------------------------------------------------- numbers and files


def label(*sizes: int) -> str:
    """Return sizes as text for tables."""
    return " × ".join(f"{size:,}".replace(",", " ") for size in sizes)


def short(value: float) -> str:
    """Return a number with three digits, without an exponent if possible."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    return f"{value:,.0f}".replace(",", " ") if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def seconds(value: float) -> str:
    """Return a time in milliseconds or seconds."""
    return f"{short(value * 1e3)} ms" if value < 1 else f"{short(value)} s"


def rounded(value: Any) -> Any:
    """Return a copy with every float rounded to four digits: a time has no more."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def save(run: Any, name: str) -> None:
    """Write a run; after an error the old file is unchanged."""
    with atomic(RESULTS / name) as path:
        text = json.dumps(rounded(run), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def load(name: str) -> Any:
    """Read a run."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))
