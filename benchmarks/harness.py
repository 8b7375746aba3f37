"""What all benchmarks share: timing in turns, where it was measured, stored results, and pages.

Results are JSON files in benchmarks/results. Pages are written by hand in docs; what is between
``<!-- name -->`` and ``<!-- end of name -->`` comes from the stored results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from stoptime.support.files import atomic

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "_static" / "benchmarks"
PACKAGES = (
    "stoptime", "numpy", "scipy", "scikit-learn", "threadpoolctl", "himalaya", "EarlyStoppingPy",
    "torch", "dask", "distributed", "playwright", "statsmodels",
)  # fmt: skip
CORES = joblib.cpu_count()  # that this process may use
INKS = {"light": "#222222", "dark": "#dddddd"}  # of the text on a page
# Okabe and Ito's palette, which colour-blind readers can distinguish; blue is brighter on black
BRIGHTER = {"#0072B2": "#56B4E9"}


def command(
    doc: str,
    file: str,
    measured: Callable[[argparse.Namespace], Any],
    pages: Mapping[str, Callable[[], Mapping[str, str]]],
    figures: Mapping[str, Callable[[str], Any]] | None = None,
    **defaults: Any,
) -> None:
    """Measure, store the results in a file, and write parts of pages and figures.

    Every default is an option of the command line. With ``--page`` nothing is measured, and with
    ``--quick``, where there is such an option, nothing is stored.
    """
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    for name, default in ({"page": False} | defaults).items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
        else:
            parser.add_argument(flag, type=type(default), default=default)
    given = parser.parse_args()
    if not given.page:
        found = measured(given)
        if getattr(given, "quick", False):
            return
        save(found, file)
    for page, parts in pages.items():
        fill(page, parts())
    for name, picture in (figures or {}).items():
        draw(picture, name)


# ---------------------------------------------------------------- times


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
    values, base = np.asarray(values), np.asarray(base)
    ratio = values.mean() / base.mean()
    spread = (values - ratio * base).std(ddof=1) / np.sqrt(len(base)) / base.mean()
    return float(ratio), float(spread)


# ---------------------------------------------------------------- where it was measured


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that take part."""
    installed = {one.name: one.version for one in metadata.distributions()}
    return {name: installed[name] for name in PACKAGES if name in installed}


def environment(threads: int) -> dict[str, Any]:
    """Return everything that the times depend on, on Linux, but no host names and no paths."""
    with threadpool_limits(threads):
        pools = {
            f"{one['internal_api']} {one.get('version') or ''}".strip()
            + f", threads: {one['num_threads']}"
            for one in threadpool_info()
        }
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    models = re.findall(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": CORES,
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "threads": threads,
        "pools": sorted(pools),
        "load_at_start": round(os.getloadavg()[0], 2),
        "versions": versions(),
    }


def run_of(given: argparse.Namespace) -> dict[str, Any]:
    """Return what every run stores: its mode, its date, and where it was measured."""
    mode = "quick" if given.quick else "full"
    date = datetime.now(UTC).date().isoformat()
    return {"mode": mode, "date": date, "environment": environment(given.threads)}


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


# ---------------------------------------------------------------- results


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


def dots(
    rows: Sequence[tuple[str, float, float, str]],
    marks: Mapping[str, tuple[str, str, str]],
    page: str,
    xlabel: str,
) -> Any:
    """Draw a number for each row, with an error; the last entry is the key of its mark.

    A mark has a colour, a shape, and a text for the legend.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - not needed to measure

    figure = Figure(figsize=(9, 1.4 + 0.25 * len(rows)), layout="constrained")
    ax = figure.add_subplot()
    for height, (_, value, error, mark) in enumerate(rows):
        colour, shape, _ = marks[mark]
        style = {"fmt": shape, "markersize": 6, "elinewidth": 1.4, "capsize": 2, "zorder": 3}
        ax.errorbar(value, height, xerr=error or None, color=on(page, colour), **style)
    ax.axvline(1, color=INKS[page], linewidth=0.8)
    ax.set_yticks(range(len(rows)), [name for name, *_ in rows], fontsize=8)
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.set_xlabel(xlabel)
    ax.grid(axis="x", alpha=0.25)
    for colour, shape, text in marks.values():
        ax.plot([], [], shape, color=on(page, colour), label=text)
    figure.legend(loc="outside upper center", ncols=len(marks), frameon=False)
    return figure


def on(page: str, colour: str) -> str:
    """Return a colour that is easy to see on a light or dark page."""
    return BRIGHTER.get(colour, colour) if page == "dark" else colour


def draw(picture: Callable[[str], Any], name: str, folder: Path = FIGURES) -> None:
    """Write a figure for light and dark pages; equal numbers give equal bytes."""
    import matplotlib as mpl  # noqa: PLC0415 - not needed to measure

    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    for page, ink in INKS.items():
        options = {**dict.fromkeys(inked, ink), "svg.hashsalt": name, "font.size": 10}
        with mpl.rc_context(options), atomic(folder / f"{name}-{page}.svg") as path:
            picture(page).savefig(path, transparent=True, metadata={"Date": None})
