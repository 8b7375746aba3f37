"""One case: two competitors are timed in turn, and the ratio of their best times is the result.

A result is a dictionary as it stands in the JSON file: group, name, peer, why, the seconds of every
round (ours, theirs), the share of its task that the peer did, and measures of name, value, goal and
sense, of which the first is the ratio.
"""

from __future__ import annotations

import gc
import importlib.util
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.machine import pinned


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
