"""What all benchmarks share: comparisons in turns, stored results, pages and figures.

Results are JSON files in benchmarks/results. Pages are written by hand in docs; what is between
``<!-- name -->`` and ``<!-- end of name -->`` comes from the stored results. The result of a case
is a dictionary: group, name, peer, why, the seconds of every round (ours, theirs), the share of its
task that the peer did, and measures of name, value, goal and sense; the first one is the ratio.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from stoptime.show import plots
from stoptime.support.files import atomic

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "_static" / "benchmarks"
PACKAGES = (
    "stoptime", "numpy", "scipy", "scikit-learn", "threadpoolctl", "himalaya", "torch", "dask",
    "distributed", "statsmodels",
)  # fmt: skip
THREADS = joblib.cpu_count()  # as many as this process may use
OF_CASES = {"quick": False, "only": "", "threads": THREADS}  # the options of a run of cases

Pages = Mapping[str, Callable[[], Mapping[str, str]]]
Figures = Mapping[str, Callable[[], Any]]
Measures = tuple[dict[str, Any], ...]


def command(
    doc: str,
    file: str,
    measured: Callable[[argparse.Namespace], Any],
    pages: Pages,
    figures: Figures | None = None,
    **defaults: Any,
) -> None:
    """Measure, store the results in a file, and write parts of pages and figures.

    Every default is an option of the command line. With ``--page`` nothing is measured, and with
    ``--quick``, where there is such an option, nothing is stored.
    """
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    for name, default in ({"page": False} | defaults).items():
        if isinstance(default, bool):
            parser.add_argument(f"--{name}", action="store_true")
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    given = parser.parse_args()
    if not given.page:
        found = measured(given)
        if getattr(given, "quick", False):
            return
        if found is not None:  # a long run stores each of its results at once
            save(found, file)
    for page, parts in pages.items():
        fill(page, parts())
    for name, picture in (figures or {}).items():
        draw(picture(), name)


# ---------------------------------------------------------------- cases


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
    printed where the case misses its goal.
    """

    group: str
    name: str
    peer: str
    make: Callable[[], Work]
    why: str
    goal: float | None = 1.0
    sense: str = "at least"
    rounds: int = 5
    quick: bool = False  # whether it is part of a quick run


def measure(
    name: str, value: float, goal: float | None = None, sense: str = "at least"
) -> dict[str, Any]:
    """Return one number with its goal."""
    return {"name": name, "value": value, "goal": goal, "sense": sense}


def holds(one: Mapping[str, Any]) -> bool:
    """Tell whether a measure meets its goal; NaN meets none."""
    if one["goal"] is None:
        return True
    if one["sense"] == "at least":
        return bool(one["value"] >= one["goal"])
    return bool(one["value"] <= one["goal"])


def verdict(outcome: Mapping[str, Any]) -> str:
    """Return the verdict: a ratio above 1 but below its goal is not a loss, every other miss is."""
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


def in_turns(
    competitors: Mapping[str, Callable[[], Any]],
    rounds: int,
    longest: float = 10.0,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Time all competitors in turn; return the seconds of every round, and the last answers.

    Taking turns spreads the disturbance by other processes evenly, so that ratios are hardly
    affected. A competitor is not repeated after ``longest`` seconds in all, but has a second round
    if the first took less than six times as long.
    """
    seconds: dict[str, list[float]] = {name: [] for name in competitors}
    answers: dict[str, Any] = {}
    for turn in range(rounds):
        for name, work in competitors.items():
            if sum(seconds[name]) >= longest * (6 if turn == 1 else 1):
                continue
            answers.pop(name, None)  # two answers may not fit into memory together
            begin = clock()
            answers[name] = work()
            seconds[name].append(clock() - begin)
    return seconds, answers


def run_case(
    case: Case, longest: float = 10.0, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any]:
    """Run one case; an error, such as a module that is missing, becomes part of its result."""
    found: dict[str, Any] = {"group": case.group, "name": case.name, "peer": case.peer}
    found |= {"why": case.why, "ours": [], "theirs": [], "measures": [], "share": 1.0}
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


def run_cases(
    cases: Callable[[], Iterable[Case]],
    file: str,
    clock: Callable[[], float] = time.perf_counter,
    device: Callable[[], str] | None = None,
) -> Callable[[argparse.Namespace], Any]:
    """Return what runs and prints cases, with the options ``OF_CASES``.

    ``--only TEXT`` runs the cases whose group and name contain a text; they replace their results
    in the file. ``--quick`` runs the smaller ones, with few rounds.
    """

    def measured(given: argparse.Namespace) -> dict[str, Any]:
        found = run_of(given)
        if device:
            found["environment"]["processor"] = device()
        outcomes = []
        with threadpool_limits(given.threads):
            for case in cases():
                title = f"{case.group}: {case.name}"
                if given.only in title and (case.quick or not given.quick):
                    print(f"{title} against {case.peer} ... ", end="", flush=True)
                    outcomes.append(run_case(case, 1.0 if given.quick else 10.0, clock))
                    print(*row(outcomes[-1])[2:], sep="  ", flush=True)
        known = load(file)["outcomes"] if given.only else []
        others = [one for one in known if given.only not in f"{one['group']}: {one['name']}"]
        return found | {"outcomes": outcomes + others}

    return measured


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


def row(outcome: Mapping[str, Any]) -> list[str]:
    """Return the cells of a result."""
    names = [outcome["name"], outcome["peer"]]
    found = verdict(outcome)
    if found == "FAILED":
        return [*names, "", "", "", "", f"failed: {outcome.get('error')}"]
    first, *others = outcome["measures"]
    times = map(seconds, best(outcome)) if outcome["theirs"] else ("", "")
    goal = "" if first["goal"] is None else f"{first['sense']} {short(first['goal'])}"
    said = [found if found in {"holds", "no goal"} else f"**{found.lower()}**"]
    for one in others:
        aim = "" if one["goal"] is None else f" (goal {one['sense']} {short(one['goal'])})"
        said.append(f"{short(one['value'])} {one['name']}{aim}")
    ratio = f"**{short(first['value'])}** {first['name']}"
    return [*names, *times, ratio, goal, "; ".join(said)]


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


# ---------------------------------------------------------------- numbers


def fit_seconds(model: Any, X: Any, y: Any) -> float:
    """Fit a model without warnings; return processor time, which other work hardly disturbs."""
    with warnings.catch_warnings():
        # edges of grids and slow convergence are no news here: every model keeps its defaults
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model.fit(X, y)
        return time.process_time() - begin


def ratio_of_means(values: Any, base: Any) -> tuple[float, float]:
    """Return the ratio of two means over the same draws, and its standard error, linearised."""
    values = np.asarray(values)
    base = np.asarray(base)
    ratio = values.mean() / base.mean()
    spread = (values - ratio * base).std(ddof=1) / np.sqrt(len(base)) / base.mean()
    return float(ratio), float(spread)


# ---------------------------------------------------------------- what is stored


def run_of(given: argparse.Namespace) -> dict[str, Any]:
    """Return what a run stores: mode, date, and all that times depend on, but no host names."""
    with threadpool_limits(given.threads):
        pools = {
            f"{one['internal_api']} {one.get('version') or ''}".strip()
            + f", threads: {one['num_threads']}"
            for one in threadpool_info()
        }
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    models = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    installed = {one.name: one.version for one in metadata.distributions()}
    where = {
        "processor": models[0] if models else platform.machine(),
        "cores": THREADS,
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "threads": given.threads,
        "pools": sorted(pools),
        "load_at_start": round(os.getloadavg()[0], 2),
        "versions": {name: installed[name] for name in PACKAGES if name in installed},
    }
    mode = "quick" if given.quick else "full"
    return {"mode": mode, "date": datetime.now(UTC).date().isoformat(), "environment": where}


def machine_line(run: Mapping[str, Any]) -> str:
    """Return the recorded environment of a run as text."""
    where = run["environment"]
    parts = [where["processor"], where.get("system")]
    if where.get("cores"):
        parts.append(f"{where['cores']} cores, {where['threads']} threads")
        parts.append(f"{where['memory_gib']:g} GiB of memory")
        parts.append(f"load at the start {where['load_at_start']:g}")
    software = {"Python": where["python"], **where["versions"]}
    sentences = ["; ".join(parts), ", ".join(map(" ".join, software.items()))]
    sentences += ["; ".join(where.get("pools", ())), f"{run['mode'].capitalize()} run of "]
    sentences[-1] += run["date"]
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def rounded(value: Any) -> Any:
    """Return a copy with every float rounded to four digits: a time has no more."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def save(run: Any, name: str) -> None:
    """Write a run; after an error the old file is unchanged."""
    with atomic(RESULTS / name) as path:
        text = json.dumps(rounded(run), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def load(name: str) -> Any:
    """Read a run."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


# ---------------------------------------------------------------- pages


def label(*sizes: int) -> str:
    """Return sizes as text for tables."""
    return " × ".join(f"{size:,}".replace(",", " ") for size in sizes)


def short(value: float) -> str:
    """Return a number with three digits, without an exponent if possible."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    return f"{value:,.0f}".replace(",", " ") if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def seconds(value: float) -> str:
    """Return a time in milliseconds or seconds."""
    return f"{short(value * 1e3)} ms" if value < 1 else f"{short(value)} s"


def table(head: Iterable[str], rows: Iterable[Iterable[Any]], right: int | None = None) -> str:
    """Return a table in Markdown; columns from number ``right`` on are aligned to the right."""
    head = list(head)
    aligned = ["--:" if right is not None and at >= right else "---" for at in range(len(head))]
    return "\n".join([line(head), f"|{'|'.join(aligned)}|", *map(line, rows)])


def line(cells: Iterable[Any]) -> str:
    """Return a row of Markdown, with non-breaking spaces in sizes and times."""
    texts = [str(cell).replace("|", "\\|") for cell in cells]
    parts = r"(?<=\d) (?=\d{3}\b|m?s\b)| (?=×)|(?<=×) "
    return "| " + " | ".join(re.sub(parts, "\u00a0", text) for text in texts) + " |"


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return a page with every part between its two marks."""
    for name, part in parts.items():
        before, rest = text.split(f"<!-- {name} -->\n")
        after = rest.split(f"<!-- end of {name} -->")[1]
        text = f"{before}<!-- {name} -->\n\n{part}\n\n<!-- end of {name} -->{after}"
    return text


def fill(page: str, parts: Mapping[str, str]) -> None:
    """Write parts into a page of the documentation."""
    text = filled((DOCS / page).read_text(encoding="utf-8"), parts)
    with atomic(DOCS / page) as path:
        path.write_text(text, encoding="utf-8")


def draw(figure: Any, name: str, folder: Path = FIGURES) -> None:
    """Write a figure for light and dark pages; equal numbers give equal bytes."""
    import matplotlib as mpl  # noqa: PLC0415 - not needed to measure

    for page in ("light", "dark"):
        if page == "dark":
            plots.darken(figure)
        with mpl.rc_context({"svg.hashsalt": name}), atomic(folder / f"{name}-{page}.svg") as path:
            figure.savefig(path, transparent=True, metadata={"Date": None})
