"""Run the benchmarks: ``python -m benchmarks [--quick] [--only paths]``, or ``make bench``.

Every ratio is printed as it is measured. A full run writes benchmarks/results/cpu.json and
docs/benchmarks.md; one group replaces its results there; a quick run is printed only.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from typing import Any

from benchmarks import cases, page
from benchmarks.harness import (
    Settings,
    available_cores,
    environment,
    load,
    run_case,
    save,
    seconds,
    verdict,
)  # fmt: skip


def line(outcome: dict[str, Any]) -> str:
    """Return the text that the terminal shows for a result."""
    found = verdict(outcome)
    if found in {"not run", "FAILED"}:
        return f"{found}: {outcome.get('missing') or outcome.get('error')}"
    times = ""
    if outcome["theirs"]:
        theirs = seconds(min(outcome["theirs"]) / outcome["share"])
        times = f" ({seconds(min(outcome['ours']))} against {theirs})"
    text = ", ".join(map(page.in_words, outcome["measures"])) + times + f": {found}"
    return text if found in {"holds", "no goal"} else f"{text}\n        {outcome['why']}"


def main(words: list[str] | None = None) -> int:
    """Run, print and write; return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and few rounds")
    parser.add_argument("--only", choices=list(cases.GROUPS), help="run one group")
    parser.add_argument("--threads", type=int, default=available_cores(), help="BLAS threads")
    given = parser.parse_args(words)
    settings = Settings(given.threads, **({"longest": 1.0, "least": 1} if given.quick else {}))
    run: dict[str, Any] = {"mode": "full", "date": dt.date.today().isoformat()}
    run |= {"environment": environment(given.threads), "outcomes": []}
    print(page.machine_line(run), end="\n\n", flush=True)
    for case in cases.all_cases(given.quick, given.only):
        print(f"{case.group}: {case.name} against {case.peer} ... ", end="", flush=True)
        outcome = run_case(case, settings)
        print(line(outcome), flush=True)
        run["outcomes"].append(outcome)
    failed = any(verdict(outcome) == "FAILED" for outcome in run["outcomes"])
    if given.quick:
        return int(failed)
    if given.only:
        kept = [one for one in load("cpu.json")["outcomes"] if one["group"] != given.only]
        run["outcomes"] += kept
    save(run, "cpu.json")
    page.write()
    print("wrote docs/benchmarks.md")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
