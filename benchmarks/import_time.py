"""Time of ``import stoptime`` beyond that of NumPy and SciPy.

    python -m benchmarks.import_time

Every import runs in a new interpreter; the two imports take turns, and medians are compared. The
processor time is hardly affected by other processes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from statistics import median

from benchmarks import machine

ROUNDS = 7
GOAL = 0.2  # seconds
SCIPY = "import numpy, scipy"
CASES = {"NumPy and SciPy": SCIPY, "with stoptime": f"{SCIPY}, stoptime"}


def main() -> None:
    """Print the medians of both and their difference."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, code in CASES.items():
            times[name].append(seconds(code))
    print(f"{'':>16}  elapsed  processor")
    middle = {
        name: [median(values) for values in zip(*runs, strict=True)] for name, runs in times.items()
    }
    for name, (elapsed, used) in middle.items():
        print(f"{name:>16}  {elapsed:5.2f} s  {used:7.2f} s")
    elapsed, used = (more - less for less, more in zip(*middle.values(), strict=True))
    print(f"{'difference':>16}  {elapsed:5.2f} s  {used:7.2f} s  (goal: under {GOAL} s)")
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions().items())
    print(f"{machine.processor()}; {versions}")


def seconds(code: str) -> tuple[float, float]:
    """Return the elapsed and the processor time of some code in a new interpreter."""
    begin, used = time.perf_counter(), processor()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - ourselves
    return time.perf_counter() - begin, processor() - used


def processor() -> float:
    """Return the processor time of all child processes so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
