"""One case: two competitors timed in turn, round after round, and the ratio of their best rounds."""

from __future__ import annotations

import gc
import importlib.util
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import stoptime
from benchmarks.machine import pinned
from benchmarks.results import Measure, Outcome, Sense

INSTALL = {
    "himalaya": "himalaya",
    "EarlyStopping": "EarlyStoppingPy",
    "torch": "torch",
    "distributed": '"stoptime[dask]"',
    "psutil": "psutil",
    "playwright": '"stoptime[browser]"',
}


class MissingError(RuntimeError):
    """Raised by a case that lacks something that is no module; the text says how to get it."""


@dataclass(frozen=True)
class Work:
    """What is timed, ready to run; data and imports are behind it.

    Attributes
    ----------
    ours, peer : callable or None
        Each does its whole job once. Without a peer nothing is timed, and `measures` says it all.
    share : float
        The part of the peer's job that its callable does: its time is divided by it.
    measures : callable or None
        Takes the two answers, and returns what else counts beside time. It runs untimed.
    """

    ours: Callable[[], Any]
    peer: Callable[[], Any] | None = None
    share: float = 1.0
    measures: Callable[[Any, Any], tuple[Measure, ...]] | None = None


@dataclass(frozen=True)
class Case:
    """A comparison with one peer.

    Attributes
    ----------
    group, name, peer : str
        Where it is listed, the problem and its size, and who the peer is.
    make : callable
        Returns the work. Called when the case is up, so that only its own data are in memory.
    why : str
        The reason to give where the case loses or misses its goal.
    goal : float or None
        Of the ratio.
    sense : {"at least", "at most"}
        "at least": the ratio is how many times as fast we are; "at most": how many times as long we take.
    rounds : int
        Of each competitor, unless they take too long.
    needs : tuple of str
        Modules of peers, and parts of stoptime such as "stoptime.Path", without which it is not run.
    """

    group: str
    name: str
    peer: str
    make: Callable[[], Work]
    why: str
    goal: float | None = 1.0
    sense: Sense = "at least"
    rounds: int = 5
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How a run is measured."""

    threads: int
    longest: float = 10.0  # seconds spent on one competitor before it is not repeated
    least: int = 2  # rounds that even a slow competitor gets
    once: float = 60.0  # unless one of them takes so many seconds
    clock: Callable[[], float] = time.perf_counter


def interleaved(
    competitors: Mapping[str, Callable[[], Any]], rounds: int, settings: Settings
) -> tuple[dict[str, tuple[float, ...]], dict[str, Any]]:
    """Time all competitors in turn, round after round.

    Taking turns spreads what else the machine does over all of them, so that ratios hardly feel it.

    Returns
    -------
    seconds : dict
        Of every round of each.
    answers : dict
        What each returned the last time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    answers: dict[str, Any] = {}
    for turn in range(rounds):
        for name, work in competitors.items():
            spent = sum(seconds[name])
            if spent >= (settings.longest if turn >= settings.least else settings.once):
                continue
            answers.pop(name, None)  # a second answer need not fit into memory beside the first
            begin = settings.clock()
            answers[name] = work()
            seconds[name].append(settings.clock() - begin)
    return {name: tuple(times) for name, times in seconds.items()}, answers


def missing(needs: tuple[str, ...]) -> str:
    """Return how to get the first thing that is not there, or nothing."""
    for need in needs:
        module, _, attributes = need.partition(".")
        if module == "stoptime":
            if not _offers(attributes):
                return f"this version of stoptime has no {attributes}"
        elif importlib.util.find_spec(module) is None:
            return f"pip install {INSTALL[module]}"
    return ""


def _offers(dotted: str) -> bool:
    absent = object()
    if reduce(lambda a, name: getattr(a, name, absent), dotted.split("."), stoptime) is not absent:
        return True
    return "." not in dotted and importlib.util.find_spec(f"stoptime.{dotted}") is not None


def ratio(ours: tuple[float, ...], theirs: tuple[float, ...], case: Case, share: float) -> Measure:
    """Compare best rounds, in the sense of the case."""
    mine, other = min(ours), min(theirs) / share
    if case.sense == "at least":
        return Measure("times as fast", other / mine, case.goal, case.sense)
    return Measure("times as long", mine / other, case.goal, case.sense)


def run_case(case: Case, settings: Settings) -> Outcome:
    """Run one case; what it lacks or how it fails becomes part of its outcome."""
    head = {"group": case.group, "name": case.name, "peer": case.peer, "why": case.why}
    if lacks := missing(case.needs):
        return Outcome(**head, missing=lacks)
    try:
        return _timed(case, settings, head)
    except MissingError as lacking:
        return Outcome(**head, missing=str(lacking))
    except Exception as error:  # the other cases go on, and the failure is shown
        return Outcome(**head, error=f"{type(error).__name__}: {error}".splitlines()[0])
    finally:
        gc.collect()


def _timed(case: Case, settings: Settings, head: dict[str, str]) -> Outcome:
    work = case.make()
    competitors = {"ours": work.ours} | ({"theirs": work.peer} if work.peer else {})
    with pinned(settings.threads):
        times, answers = interleaved(competitors, case.rounds if work.peer else 1, settings)
        others = work.measures(answers["ours"], answers.get("theirs")) if work.measures else ()
    if not work.peer:
        return Outcome(**head, measures=others)
    first = ratio(times["ours"], times["theirs"], case, work.share)
    return Outcome(**head, **times, measures=(first, *others), share=work.share)


def peak_memory(work: Callable[[], Any]) -> int:
    """Return the most bytes that some work held at once, beyond what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
