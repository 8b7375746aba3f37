"""One case: two competitors are timed in turn, and the ratio of their best times is the result."""

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
    """Raised by a case that lacks a program; the message says how to install it."""


@dataclass(frozen=True)
class Work:
    """The timed work, ready to run; data are loaded and modules imported.

    Attributes
    ----------
    ours, peer : callable or None
        Each does its whole task once. Without a peer nothing is timed, and only `measures` counts.
    share : float
        The part of its task that the callable of the peer does; the time of the peer is divided by
        it.
    measures : callable or None
        Takes the two answers and returns further measures. It is not timed.
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
        The group, the problem with its size, and the name of the peer.
    make : callable
        Returns the work. It is called just before the case is run, so that only the data of this
        case are in memory.
    why : str
        The reason that is printed if the case loses or misses its goal.
    goal : float or None
        The goal of the ratio.
    sense : {"at least", "at most"}
        "at least": the ratio is the peer's time divided by ours; "at most": ours divided by the
        peer's.
    rounds : int
        Number of rounds of each competitor, unless they take too long.
    needs : tuple of str
        Required modules of peers and required parts of stoptime, such as "stoptime.Path".
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
    longest: float = 10.0  # seconds after which a competitor is not repeated
    least: int = 2  # rounds of even a slow competitor
    once: float = 60.0  # competitors over this many seconds are timed once
    clock: Callable[[], float] = time.perf_counter


def interleaved(
    competitors: Mapping[str, Callable[[], Any]], rounds: int, settings: Settings
) -> tuple[dict[str, tuple[float, ...]], dict[str, Any]]:
    """Time all competitors in turn, round after round.

    Taking turns spreads the disturbance by other processes evenly, so that ratios are hardly
    affected.

    Returns
    -------
    seconds : dict
        Seconds of every round of each competitor.
    answers : dict
        The last return value of each competitor.
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
    return {name: tuple(times) for name, times in seconds.items()}, answers


def missing(needs: tuple[str, ...]) -> str:
    """Return how to install the first missing requirement, or an empty string."""
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
    """Return the ratio of the best rounds, in the sense of the case."""
    mine, other = min(ours), min(theirs) / share
    if case.sense == "at least":
        return Measure("times as fast", other / mine, case.goal, case.sense)
    return Measure("times as long", mine / other, case.goal, case.sense)


def run_case(case: Case, settings: Settings) -> Outcome:
    """Run one case; a missing requirement or an error becomes part of its outcome."""
    head = {"group": case.group, "name": case.name, "peer": case.peer, "why": case.why}
    if lacks := missing(case.needs):
        return Outcome(**head, missing=lacks)
    try:
        return _timed(case, settings, head)
    except MissingError as lacking:
        return Outcome(**head, missing=str(lacking))
    except Exception as error:  # the other cases are still run, and the failure is reported
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
    """Return the peak memory in bytes of some work, beyond the memory in use before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
