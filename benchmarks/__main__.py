"""Speed as ratios to peers: ``python -m benchmarks [--quick] [--only TEXT]``, or ``make bench``.

Every ratio is printed as it is measured. A run writes benchmarks/results/cpu.json and
docs/benchmarks.md.
"""

from __future__ import annotations

from benchmarks.cases import cases
from benchmarks.harness import OF_CASES, command, load, machine_line, results, run_cases

PAGE = "benchmarks.md"
FILE = "cpu.json"
GROUPS = ("paths", "choosing", "classes", "targets", "sparse", "chunks")


def parts() -> dict[str, str]:
    """Return what the page shows of the stored run."""
    run = load(FILE)
    found = {"machine": machine_line(run)}
    for name in GROUPS:
        found[name] = results(one for one in run["outcomes"] if one["group"] == name)
    return found


if __name__ == "__main__":
    command(__doc__, FILE, run_cases(cases, FILE), {PAGE: parts}, **OF_CASES)
