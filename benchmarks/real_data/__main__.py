"""Compare the default fit with RidgeCV on real data: ``python -m benchmarks.real_data [--quick]``.

Every cell is printed as it is measured. A full run writes benchmarks/results/real_data.json and
docs/benchmarks.md; a quick run writes only benchmarks/results/real_data_quick.json. A run of one
table, as in ``--only shapes``, replaces its cells in the published results.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks import page
from benchmarks.harness import Settings
from benchmarks.machine import available_cores, environment
from benchmarks.real_data.cells import (
    DEFAULT,
    PEER,
    Cell,
    CellRun,
    goals,
    load,
    measured,
    save,
)
from benchmarks.real_data.page import TABLES, described
from benchmarks.real_data.problems import Place, places
from benchmarks.results import seconds, short

RESULTS = Path(__file__).parent.parent / "results"
FULL = {"longest": 5.0}
QUICK = {"longest": 0.5, "least": 1}


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real_data", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer cells and rounds: under two minutes"
    )
    parser.add_argument("--only", choices=list(TABLES), help="measure the cells of one table")
    parser.add_argument(
        "--threads", type=int, default=available_cores(), help="BLAS threads; default: all cores"
    )
    parser.add_argument("--out", type=Path, help="path of the JSON file; the page is not written")
    return parser.parse_args(words)


def line(cell: Cell) -> str:
    """Return the text that the terminal shows for a cell."""
    if cell.failed:
        return f"FAILED: {cell.failed}"
    ours, peer = (min(cell.seconds[name]) for name in (DEFAULT, PEER))
    ratios = ", ".join(
        f"{name} {short(cell.times_as_fast(name))}" for name in cell.seconds if name != PEER
    )
    verdict = "" if cell.times_as_fast() >= 1 else ": LOSES"
    return (
        f"times as fast: {ratios} ({seconds(ours)} against {seconds(peer)}); "
        f"{cell.times_the_error():.4f} times the left-out error; "
        f"R² {cell.scores[DEFAULT]:.3f} against {cell.scores[PEER]:.3f}{verdict}"
    )


def main(words: list[str] | None = None) -> int:
    """Measure, print and write; return 1 if a cell failed."""
    given = arguments(words)
    settings = Settings(given.threads, **(QUICK if given.quick else FULL))
    chosen = [place for place in places(quick=given.quick) if given.only in {None, place.table}]
    mode = "quick" if given.quick else "full"
    run = CellRun(mode, dt.date.today().isoformat(), environment(given.threads))
    print(page.machine_line(run), end="\n\n", flush=True)
    run = measured_in_turn(run, chosen, settings)
    for name in run.estimators:
        for goal in goals(run.cells, name):
            print(f"{name}: {goal}" + ("" if goal.holds else "  MISSED"))
    publish(run, given)
    return 1 if any(cell.failed for cell in run.cells) else 0


def measured_in_turn(run: CellRun, chosen: list[Place], settings: Settings) -> CellRun:
    """Measure cell after cell; after an interruption those so far are in a file of their own."""
    unfinished = RESULTS / "real_data_unfinished.json"
    for number, place in enumerate(chosen, 1):
        head = f"[{number:2}/{len(chosen)}] {described(place.table, place.row, place.column)}"
        print(f"{head} ... ", end="", flush=True)
        cell = measured(place, settings)
        print(line(cell), flush=True)
        run = replace(run, cells=(*run.cells, cell))
        save(run, unfinished)
    unfinished.unlink(missing_ok=True)
    return run


def publish(run: CellRun, given: argparse.Namespace) -> None:
    """Save a finished run; only full runs are written to the page."""
    published = RESULTS / "real_data.json"
    if given.quick or given.out:
        file = given.out or RESULTS / "real_data_quick.json"
        save(run, file)
        print(f"\nwrote {file.name}")
        return
    if given.only and published.exists():
        run = merged(load(published), run)
    save(run, published)
    page.write()
    print(f"\nwrote {published.name} and docs/benchmarks.md")


def merged(published: CellRun, part: CellRun) -> CellRun:
    """Return a published run in which the tables of another run replace its own."""
    one, other = (run.environment["processor"] for run in (published, part))
    if one != other:
        raise ValueError(f"Measured on {other}; published are results of {one}.")
    again = {cell.table for cell in part.cells}
    kept = [cell for cell in published.cells if cell.table not in again]
    order = list(TABLES)
    cells = sorted([*kept, *part.cells], key=lambda cell: order.index(cell.table))
    return replace(part, cells=tuple(cells))


if __name__ == "__main__":
    sys.exit(main())
