"""One case: two competitors are timed in turn, and the ratio of their best times is the result.

A result is a dictionary as it stands in the JSON file: group, name, peer, why, the seconds of every
round (ours, theirs), the share of its task that the peer did, and measures of name, value, goal and
sense, of which the first is the ratio.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import operator
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from benchmarks import harness
from benchmarks.harness import INKS, in_turns, seconds, short, table

Measures = tuple[dict[str, Any], ...]
# colour, shape and text in the figure
VERDICTS = {
    "holds": ("#0072B2", "o", "holds"),
    "below its goal": ("#E69F00", "^", "below its goal"),
    "LOSES": ("#D55E00", "X", "loses"),
    "no goal": ("#999999", "D", "no goal"),
}


@dataclass(frozen=True)
class Work:
    """The timed work, ready to run; data are loaded and modules imported.

    Each callable does its whole task once, except that the peer may do a ``share`` of it. Further
    ``measures`` are taken from the two answers.
    """

    ours: Callable[[], Any]
    peer: Callable[[], Any] | None = None
    share: float = 1.0
    measures: Callable[[Any, Any], Measures] | None = None


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
    quick: bool = False  # whether it is part of a quick run


def measure(
    name: str, value: float, goal: float | None = None, sense: str = "at least"
) -> dict[str, Any]:
    """Return one number with its goal."""
    return {"name": name, "value": value, "goal": goal, "sense": sense}


def holds(one: Mapping[str, Any]) -> bool:
    """Tell whether a measure meets its goal; NaN meets none."""
    meets = operator.ge if one["sense"] == "at least" else operator.le
    return one["goal"] is None or meets(one["value"], one["goal"])


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


def run_case(
    case: Case, longest: float = 10.0, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any]:
    """Run one case; a missing module or an error becomes part of its result."""
    found: dict[str, Any] = {"group": case.group, "name": case.name, "peer": case.peer}
    found |= {"why": case.why, "ours": [], "theirs": [], "measures": [], "share": 1.0}
    lacking = [one for one in case.needs if importlib.util.find_spec(one) is None]
    if lacking:
        return found | {"missing": f"it needs {lacking[0]}"}
    try:
        work = case.make()
        competitors = {"ours": work.ours} | ({"theirs": work.peer} if work.peer else {})
        with warnings.catch_warnings():
            # best stops at the end of the grid, or lost digits, are no news here
            warnings.simplefilter("ignore")
            times, answers = in_turns(competitors, case.rounds if work.peer else 1, longest, clock)
            if work.measures:
                found["measures"] = [*work.measures(answers["ours"], answers.get("theirs"))]
    except Exception as error:  # the other cases are still run, and the failure is reported
        return found | {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    finally:
        gc.collect()
    if work.peer:
        found |= times | {"share": work.share}
        faster = case.sense == "at least"
        speed = best(found)[1] / best(found)[0]
        name = "times as fast" if faster else "times as long"
        value = speed if faster else 1 / speed
        found["measures"].insert(0, measure(name, value, case.goal, case.sense))
    return found


def command(
    doc: str,
    file: str,
    cases: Callable[[], Iterable[Case]],
    pages: Mapping[str, Callable[[], Mapping[str, str]]],
    figures: Mapping[str, Callable[[str], Any]] | None = None,
    **run: Any,
) -> None:
    """Run cases, print and store their results, and write parts of pages and figures.

    ``--only TEXT`` runs the cases whose group and name contain a text; they replace their results
    in the file. ``--quick`` runs the smaller ones, with few rounds, and stores nothing. ``run`` has
    the number of threads, a clock, and a function that returns the name of a device.
    """
    clock = run.get("clock", time.perf_counter)

    def measured(given: argparse.Namespace) -> dict[str, Any]:
        found = harness.run_of(given)
        if "device" in run:
            found["environment"]["processor"] = run["device"]()
        outcomes = []
        with threadpool_limits(given.threads):
            for case in cases():
                title = f"{case.group}: {case.name}"
                if given.only in title and (case.quick or not given.quick):
                    print(f"{title} against {case.peer} ... ", end="", flush=True)
                    outcomes.append(run_case(case, 1.0 if given.quick else 10.0, clock))
                    print(*row(outcomes[-1])[2:], sep="  ", flush=True)
        known = harness.load(file)["outcomes"] if given.only else []
        others = [one for one in known if given.only not in f"{one['group']}: {one['name']}"]
        return found | {"outcomes": outcomes + others}

    options = {"quick": False, "only": "", "threads": run.get("threads", harness.CORES)}
    harness.command(doc, file, measured, pages, figures, **options)


def best(outcome: Mapping[str, Any]) -> tuple[float, float]:
    """Return our best time, and that of the peer for its whole task."""
    return min(outcome["ours"]), min(outcome["theirs"]) / outcome["share"]


def peak_memory(work: Callable[[], Any]) -> int:
    """Return the peak memory in bytes of some work, beyond the memory in use before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- tables and the figure


def in_words(measure: Mapping[str, Any]) -> str:
    """Return a number with its name and goal."""
    goal = ""
    if measure["goal"] is not None:
        goal = f" (goal {measure['sense']} {short(measure['goal'])})"
    return f"{short(measure['value'])} {measure['name']}{goal}"


def row(outcome: Mapping[str, Any]) -> list[str]:
    """Return the cells of a result."""
    names = [outcome["name"], outcome["peer"]]
    found = verdict(outcome)
    if found in {"not run", "FAILED"}:
        said = f"{found.lower()}: {outcome.get('missing') or outcome.get('error')}"
        return [*names, "", "", "", "", said]
    first, *others = outcome["measures"]
    times = map(seconds, best(outcome)) if outcome["theirs"] else ("", "")
    goal = "" if first["goal"] is None else f"{first['sense']} {short(first['goal'])}"
    found = found if found in {"holds", "no goal"} else f"**{found.lower()}**"
    ratio = f"**{short(first['value'])}** {first['name']}"
    return [*names, *times, ratio, goal, "; ".join([found, *map(in_words, others)])]


def results(outcomes: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of some results, followed by the reasons of those that miss their goals."""
    outcomes = list(outcomes)
    head = ("problem", "against", "stoptime", "peer", "ratio", "goal", "verdict")
    missed: dict[str, list[str]] = {}
    for one in outcomes:
        if verdict(one) in {"LOSES", "below its goal"}:
            missed.setdefault(one["why"], []).append(f"{one['name']}, against {one['peer']}")
    reasons = [f"- {'; '.join(names)}: {why}" for why, names in missed.items()]
    return "\n".join([table(head, map(row, outcomes)), *([""] if reasons else []), *reasons])


def ratios(outcomes: Sequence[Mapping[str, Any]], page: str) -> Figure:
    """Draw the speed of every timed case relative to its peer, with its goal."""
    timed = [outcome for outcome in reversed(outcomes) if outcome["theirs"]]
    rows = [
        (f"{one['name']} — {one['peer']}", best(one)[1] / best(one)[0], 0.0, verdict(one))
        for one in timed
    ]
    xlabel = "times as fast as the peer; a vertical line marks the goal"
    figure = harness.dots(rows, VERDICTS, page, xlabel)
    ax = figure.axes[0]
    for height, one in enumerate(timed):
        first = one["measures"][0]
        if first["goal"] is not None:
            goal = first["goal"] if first["sense"] == "at least" else 1 / first["goal"]
            ax.plot(goal, height, "|", color=INKS[page], markersize=11, zorder=2)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    return figure
