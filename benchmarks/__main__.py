"""Speed as ratios to peers: ``python -m benchmarks [--quick] [--only TEXT]``, or ``make bench``.

Every ratio is printed as it is measured. A run writes benchmarks/results/cpu.json and
docs/benchmarks.md.
"""

from __future__ import annotations

from benchmarks.cases import GROUPS
from benchmarks.comparison import command, ratios, results
from benchmarks.harness import load, machine_line

PAGE = "benchmarks.md"


def parts() -> dict[str, str]:
    """Return what the page shows of the stored run."""
    run = load("cpu.json")
    found = {"machine": machine_line(run)}
    for name in GROUPS:
        found[name] = results(one for one in run["outcomes"] if one["group"] == name)
    return found


if __name__ == "__main__":
    command(
        __doc__,
        "cpu.json",
        lambda: (case for group in GROUPS.values() for case in group()),
        {PAGE: parts},
        {"ratios": lambda page: ratios(load("cpu.json")["outcomes"], page)},
    )
