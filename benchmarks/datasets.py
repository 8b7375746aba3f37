"""Prediction errors of RidgeCV, the stopped methods and other models on many data sets.

    python -m benchmarks.datasets           # under 15 minutes; writes docs/datasets.md
    python -m benchmarks.datasets --quick   # a few small problems, printed only
    python -m benchmarks.datasets --page    # draws the page again from the stored results

Every model tunes itself inside each of five outer folds. The results are written to
benchmarks/results/datasets.json, and page and figures are made from this file.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from typing import Any

from benchmarks import harness
from benchmarks.harness import save
from benchmarks.study import measure, report
from benchmarks.study.problems import problems

QUICK = ("iris", "linnerud", "smooth surface, rbf", "blur, smooth")
SEEDS = 50


def study(quick: bool = False) -> dict[str, Any]:
    """Run everything and return plain data."""
    begin = time.perf_counter()
    environment = harness.environment(1)
    data, missing = [], []
    with harness.pinned(1):
        for problem in problems():
            if problem.missing:
                missing.append({"name": problem.name, "missing": problem.missing})
                print(f"{problem.name}: skipped ({problem.missing})", flush=True)
            elif not quick or problem.name in QUICK:
                data.append(measure.cross_validated(problem, quick))
                print(f"{report.line(data[-1])}   {time.perf_counter() - begin:.0f} s", flush=True)
        synthetic = []
        for name in measure.ALIGNMENTS:
            synthetic.append(measure.excess_risks(name, 2 if quick else SEEDS))
            print(name, synthetic[-1]["models"]["auto"], flush=True)
    return {
        "mode": "quick" if quick else "full",
        "date": datetime.now(UTC).date().isoformat(),
        "environment": environment,
        "minutes": (time.perf_counter() - begin) / 60,
        "processor_minutes": time.process_time() / 60,
        "data": data,
        "missing": missing,
        "synthetic": synthetic,
    }


def main() -> None:
    """Run the study, and write the page of a full run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.datasets")
    parser.add_argument("--quick", action="store_true", help="a few small problems, printed only")
    parser.add_argument("--page", action="store_true", help="draw the page again")
    options = parser.parse_args()
    if not options.page:
        results = study(options.quick)
        if options.quick:
            return
        save(results, "datasets.json")
    report.write()


if __name__ == "__main__":
    main()
