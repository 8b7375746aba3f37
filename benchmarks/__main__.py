"""Speed as ratios to peers: ``python -m benchmarks [--quick] [--only GROUP]``, or ``make bench``.

Every ratio is printed as it is measured. A run writes benchmarks/results/cpu.json and
docs/benchmarks.md; one group replaces its results there; a quick run, of the smaller cases and with
few rounds, is printed only.
"""

from __future__ import annotations

import argparse
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks import cases, harness
from benchmarks.comparison import ratios, results, run_cases
from benchmarks.harness import command, load, machine_line, run_of

PAGE = "benchmarks.md"


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Run the cases of all groups, or of one."""
    run = run_of(given)
    names = [given.only] if given.only else list(cases.GROUPS)
    chosen = [one for name in names for one in cases.GROUPS[name]() if one.quick or not given.quick]
    with threadpool_limits(given.threads):
        outcomes = run_cases(chosen, longest=1.0 if given.quick else 10.0)
    others = load("cpu.json")["outcomes"] if given.only else []
    return run | {"outcomes": outcomes + [one for one in others if one["group"] != given.only]}


def parts() -> dict[str, str]:
    """Return what the page shows of the stored run."""
    run = load("cpu.json")
    found = {"machine": machine_line(run)}
    for name in cases.GROUPS:
        found[name] = results(one for one in run["outcomes"] if one["group"] == name)
    return found


if __name__ == "__main__":
    options = {"quick": False, "only": "", "threads": harness.CORES}
    figures = {"ratios": lambda page: ratios(load("cpu.json")["outcomes"], page)}
    command(__doc__, "cpu.json", measured, {PAGE: parts}, figures, **options)
