"""Run the benchmarks: ``python -m benchmarks [--quick]``, or ``make bench``.

Every ratio is printed as it is measured. A full run writes benchmarks/results/cpu.json and
docs/benchmarks.md; a quick run writes only benchmarks/results/quick.json. After an interruption
the results so far are in benchmarks/results/unfinished.json. ``--only training --add`` measures
one group again and publishes it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks import cases, page
from benchmarks.cases import scaling
from benchmarks.harness import Case, Settings, run_case
from benchmarks.machine import available_cores, environment
from benchmarks.results import Growth, Outcome, Run, load, save, seconds

RESULTS = Path(__file__).parent / "results"
QUICK = {"longest": 1.0, "least": 1}
SCALING = "scaling"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--quick", action="store_true", help="smaller sizes and few rounds: under two minutes"
    )
    parser.add_argument(
        "--only", choices=[*cases.GROUPS, SCALING], help="run one group and do not publish it"
    )
    parser.add_argument(
        "--add", action="store_true", help="with --only: publish it with the other groups"
    )
    parser.add_argument(
        "--threads", type=int, default=available_cores(), help="BLAS threads; default: all cores"
    )
    parser.add_argument("--out", type=Path, help="path of the JSON file")
    return parser.parse_args(words)


def line(outcome: Outcome) -> str:
    """Return the text that the terminal shows for an outcome."""
    if outcome.missing:
        return f"not run: {outcome.missing}"
    if outcome.error:
        return f"FAILED: {outcome.error}"
    times = ""
    if outcome.theirs:
        theirs = seconds(min(outcome.theirs) / outcome.share)
        times = f" ({seconds(min(outcome.ours))} against {theirs})"
    text = ", ".join(map(str, outcome.measures)) + times + f": {outcome.verdict}"
    return text if outcome.verdict in {"holds", "no goal"} else f"{text}\n        {outcome.why}"


def measured(
    chosen: list[Case], sweeps: list[scaling.Sweep], settings: Settings
) -> Iterator[Outcome | Growth]:
    """Yield and print every result as it is measured."""
    total = len(chosen) + len(sweeps)
    for number, case in enumerate(chosen, 1):
        print(
            f"[{number:2}/{total}] {case.group}: {case.name} against {case.peer} ... ",
            end="",
            flush=True,
        )
        outcome = run_case(case, settings)
        print(line(outcome), flush=True)
        yield outcome
    for number, sweep in enumerate(sweeps, len(chosen) + 1):
        print(f"[{number:2}/{total}] growth in {sweep.variable} ... ", end="", flush=True)
        growths = scaling.run_sweep(sweep, settings)
        print(
            ", ".join(
                f"{g.who} {g.exponent:.2f} ({g.last_exponent:.2f} at the end)" for g in growths
            ),
            flush=True,
        )
        yield from growths


def gathered(run: Run, found: Iterator[Outcome | Growth], unfinished: Path) -> tuple[Run, bool]:
    """Collect and save results one by one; also return whether the run was finished."""
    try:
        for one in found:
            if isinstance(one, Outcome):
                run = replace(run, outcomes=(*run.outcomes, one))
            else:
                run = replace(run, growths=(*run.growths, one))
            save(run, unfinished)
    except KeyboardInterrupt:
        return run, False
    return run, True


def main(words: list[str] | None = None) -> int:
    """Run, print and write; return 1 if a case failed, 130 if interrupted."""
    given = arguments(words)
    settings = Settings(given.threads, **(QUICK if given.quick else {}))
    chosen = [] if given.only == SCALING else cases.all_cases(given.quick, given.only)
    sweeps = scaling.sweeps(given.quick) if given.only in {None, SCALING} else []
    mode = "quick" if given.quick else "full"
    run = Run(mode, dt.date.today().isoformat(), environment(given.threads))
    print(page.machine_line(run), end="\n\n", flush=True)
    unfinished = RESULTS / "unfinished.json"
    run, finished = gathered(run, measured(chosen, sweeps, settings), unfinished)
    if not finished:
        done = f"{len(run.outcomes)} of {len(chosen)} cases are in results/{unfinished.name}"
        print(f"\ninterrupted: {done}")
        return 130
    publish(run, given, unfinished)
    lost = [outcome for outcome in run.outcomes if outcome.verdict in {"LOSES", "below its goal"}]
    print(f"\n{len(run.outcomes)} cases, {len(lost)} of them lose or miss their goal.")
    return 1 if any(outcome.error for outcome in run.outcomes) else 0


def publish(run: Run, given: argparse.Namespace, unfinished: Path) -> None:
    """Save a finished run; only full runs are written to the page."""
    published = RESULTS / "cpu.json"
    if given.add:
        run = merged(load(published), run)
    whole = not given.quick and (given.only is None or given.add)
    file = given.out or (
        published if whole else RESULTS / f"{'quick' if given.quick else 'part'}.json"
    )
    save(run, file)
    unfinished.unlink(missing_ok=True)
    print(f"\nwrote {file.name}")
    if whole and given.out is None:
        page.write()
        print("wrote docs/benchmarks.md")


def merged(published: Run, part: Run) -> Run:
    """Return a published run in which the groups of another run replace its own."""
    one, other = (dict(run.environment) for run in (published, part))
    if one["processor"] != other["processor"]:
        raise ValueError(
            f"Measured on {other['processor']}; published are results of {one['processor']}."
        )
    again = {outcome.group for outcome in part.outcomes}
    order = list(cases.GROUPS)
    outcomes = [outcome for outcome in published.outcomes if outcome.group not in again]
    return replace(
        published,
        date=part.date,
        environment=one | {"versions": {**one["versions"], **other["versions"]}},
        outcomes=tuple(
            sorted([*outcomes, *part.outcomes], key=lambda outcome: order.index(outcome.group))
        ),
        growths=part.growths or published.growths,
    )


if __name__ == "__main__":
    sys.exit(main())
