"""Kernels that tune themselves against what people run by default, on real tables.

    python -m benchmarks.kernel_tables --out tables           # where the packages are installed
    python -m benchmarks.kernel_study --tables tables --jobs 16 --seconds 560 --out study.jsonl
    python -m benchmarks.kernel_study --page study.jsonl      # writes the tables of docs/kernels.md

Every table is cut five times into five folds. All models see the same folds, and are fitted to each
training set with no other choice than their own: text columns become indicators and missing numbers
medians, by the training rows; gradient boosting and LightGBM take both as they are. Every fit is
one line that is added to the file as soon as it is there; what is there is not run again, so that a
run that was stopped can be continued. All tables are run once before any is run a second time, the
longest fits first. Times are those of one thread on a processor.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

import stoptime as st
from benchmarks.kernel_tables import Table, place, read

RESULTS = Path(__file__).parent / "results" / "kernel_study.json"
PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"
OURS = "stoptime"
BOOSTING = "gradient boosting"
LOGISTIC = "LogisticRegressionCV"
MOST_ROWS_OF_SLOW = 3000  # beyond, models of n³ operations for each of many settings are left out
SLOW = "KernelRidge", "SVR", "SVC"
FOLDS = 5


def prepared(table: Table, model: BaseEstimator) -> BaseEstimator:
    """Return a pipeline that turns text into indicators, fills gaps, and standardises."""
    count = table.numbers.shape[1]
    texts = list(range(count, count + table.codes.shape[1]))
    columns = make_column_transformer(
        (SimpleImputer(strategy="median", add_indicator=True), list(range(count))),
        (OneHotEncoder(handle_unknown="ignore", drop="if_binary", sparse_output=False), texts),
    )
    return make_pipeline(columns, StandardScaler(), model)


def boosting(table: Table, model: Callable[..., Any]) -> BaseEstimator:
    """Return gradient boosting that knows which columns are text."""
    count = table.numbers.shape[1]
    texts = list(range(count, count + table.codes.shape[1]))
    return model(categorical_features=texts or None, random_state=0)


def light(table: Table, name: str) -> BaseEstimator:
    """Return a default model of LightGBM that knows which columns are text."""
    import lightgbm  # noqa: PLC0415 - not needed for the page

    count = table.numbers.shape[1]
    texts = list(range(count, count + table.codes.shape[1]))
    options = {"categorical_feature": texts} if texts else {}
    return getattr(lightgbm, name)(random_state=0, n_jobs=1, verbose=-1, **options)


def standardised_target(model: BaseEstimator) -> BaseEstimator:
    """Return a model for responses in units of their standard deviation."""
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def grid_search() -> BaseEstimator:
    """Return kernel ridge regression with a grid of penalties and widths, by three folds."""
    grid = {"alpha": np.geomspace(1e-3, 10, 5), "gamma": np.geomspace(1e-3, 1, 5)}
    return standardised_target(GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3))


REGRESSORS: dict[str, Callable[[Table], BaseEstimator]] = {
    OURS: lambda table: prepared(table, st.StoppedKernelRegressorCV()),
    BOOSTING: lambda table: boosting(table, HistGradientBoostingRegressor),
    "LightGBM": lambda table: light(table, "LGBMRegressor"),
    "random forest": lambda table: prepared(table, RandomForestRegressor(random_state=0)),
    "RidgeCV": lambda table: prepared(table, RidgeCV(np.geomspace(1e-3, 1e5, 25))),
    "SVR": lambda table: prepared(table, standardised_target(SVR())),
    "KernelRidge": lambda table: prepared(table, grid_search()),
}

LOGISTIC_OPTIONS = {"Cs": 10, "scoring": "neg_log_loss", "max_iter": 2000}

CLASSIFIERS: dict[str, Callable[[Table], BaseEstimator]] = {
    OURS: lambda table: prepared(table, st.StoppedKernelClassifierCV()),
    BOOSTING: lambda table: boosting(table, HistGradientBoostingClassifier),
    "LightGBM": lambda table: light(table, "LGBMClassifier"),
    "random forest": lambda table: prepared(table, RandomForestClassifier(random_state=0)),
    LOGISTIC: lambda table: prepared(table, LogisticRegressionCV(**LOGISTIC_OPTIONS)),
    "SVC": lambda table: prepared(table, SVC(probability=True, random_state=0)),
}


class Task(NamedTuple):
    """A model, and the training rows to which it is fitted."""

    table: str
    model: str
    repeat: int
    fold: int


table_at = lru_cache(maxsize=4)(read)


def measured(folder: Path, task: Task) -> dict[str, Any]:
    """Return error and processor time of a model in one fold, with what describes its table."""
    table = table_at(place(folder, task.table))
    models = CLASSIFIERS if table.is_classes else REGRESSORS
    splitter = StratifiedKFold if table.is_classes else KFold
    X = table.columns
    y = table.y
    folds = splitter(FOLDS, shuffle=True, random_state=task.repeat)
    train, test = list(folds.split(X, y))[task.fold]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # processor time of one thread, which other work on the machine hardly changes
        begin = time.process_time()
        try:
            model = models[task.model](table).fit(X[train], y[train])
        except Exception as error:  # the other fits are still run
            return task._asdict() | {"failure": repr(error)}
        seconds = time.process_time() - begin
        if table.is_classes:
            error = log_loss(y[test], model.predict_proba(X[test]), labels=np.unique(y))
        else:
            error = np.mean((model.predict(X[test]) - y[test]) ** 2)
    classes = int(y.max()) + 1 if table.is_classes else 0
    described = {"rows": table.n_rows, "columns": X.shape[1], "classes": classes}
    return task._asdict() | described | {"error": float(error), "seconds": seconds}


def can_import(name: str) -> bool:
    """Tell whether a package is installed and works."""
    try:
        importlib.import_module(name)
    except (ImportError, OSError):  # a compiled library that this machine cannot load
        return False
    return True


def all_tasks(paths: list[Path], models: list[str], repeats: int) -> list[Task]:
    """Return what is to be run: every table once, and then again, the longest fits first."""
    costs = {}
    missing = [] if can_import("lightgbm") else ["LightGBM"]
    for path in paths:
        table = read(path)
        for name in CLASSIFIERS if table.is_classes else REGRESSORS:
            slow = name in SLOW and table.n_rows > MOST_ROWS_OF_SLOW
            if not slow and name not in missing and (not models or name in models):
                # kernels need far more time than trees
                costs[table.name, name] = (name in (OURS, *SLOW), table.n_rows, table.columns.size)
    longest_first = sorted(costs, key=costs.__getitem__, reverse=True)
    return [
        Task(table, model, repeat, fold)
        for repeat in range(repeats)
        for table, model in longest_first
        for fold in range(FOLDS)
    ]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the results of a file, without a last line that was cut off."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(one) for one in lines]


def run(folder: Path, tasks: list[Task], jobs: int, seconds: float, out: Path) -> None:
    """Measure what is not in the file yet, and add each result at once, until time is up."""
    end = time.monotonic() + seconds
    known = lines_of(out)
    done = {Task(*(one[name] for name in Task._fields)) for one in known}
    waiting = [one for one in tasks if one not in done]
    # how long the other folds took tells which fits can still end in time
    took = {(one["table"], one["model"]): one["seconds"] for one in known}
    results: SimpleQueue[Any] = SimpleQueue()
    running = 0
    # "spawn": threads of OpenMP do not survive a fork; leaving the pool ends what still runs
    with multiprocessing.get_context("spawn").Pool(jobs) as pool, out.open("a") as file:
        while True:
            left = end - time.monotonic()
            short = [one for one in waiting if took.get((one.table, one.model), 0) < left]
            for task in short[: jobs - running]:
                waiting.remove(task)
                pool.apply_async(measured, (folder, task), callback=results.put)
                running += 1
            if not running:
                break
            try:
                one = results.get(timeout=max(left, 0))
            except Empty:
                break
            running -= 1
            if "failure" in one:
                print(f"{one['table']}: {one['model']} {one['failure']}", flush=True)
                continue
            took[one["table"], one["model"]] = one["seconds"]
            file.write(json.dumps(one, separators=(",", ":")) + "\n")
            file.flush()
            print(f"{one['table']}: {one['model']} {one['seconds']:.1f} s", flush=True)
    print(f"{len(waiting) + running} fits are left")


def gathered(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the results by table, model and repeat; a repeat counts if all its folds are there."""
    found: dict[str, Any] = {}
    for one in sorted(lines, key=lambda line: (line["rows"], line["repeat"], line["fold"])):
        described = {name: one[name] for name in ("rows", "columns", "classes")}
        models = found.setdefault(one["table"], described | {"models": {}})["models"]
        repeats = models.setdefault(one["model"], {})
        entry = repeats.setdefault(str(one["repeat"]), {"errors": [], "seconds": []})
        entry["errors"].append(float(f"{one['error']:.6g}"))
        entry["seconds"].append(float(f"{one['seconds']:.3g}"))
    for table in found.values():
        for name, repeats in table["models"].items():
            full = {at: one for at, one in repeats.items() if len(one["errors"]) == FOLDS}
            table["models"][name] = full
    return found


def pair(entry: dict[str, Any], name: str, peer: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of two models in the folds that both have seen."""
    own, other = (entry["models"][one] for one in (name, peer))
    repeats = sorted(own.keys() & other.keys())
    errors = [np.concatenate([one[repeat]["errors"] for repeat in repeats]) for one in (own, other)]
    return errors[0], errors[1]


def ratio(entry: dict[str, Any], name: str, peer: str) -> float:
    """Return the error of a model divided by that of a peer, over the same folds."""
    own, other = pair(entry, name, peer)
    return float((own.mean() / other.mean()) ** (1.0 if entry["classes"] else 0.5))


def spread(entry: dict[str, Any], name: str, peer: str) -> float:
    """Return a standard error of the logarithm of that ratio, corrected for folds that overlap."""
    own, other = pair(entry, name, peer)
    logs = np.log(own / other) / (1 if entry["classes"] else 2)
    # Nadeau and Bengio (2003): training sets share most of their rows
    return float(np.sqrt((1 / len(logs) + 1 / (FOLDS - 1)) * logs.var(ddof=1)))


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


def tables_of(found: dict[str, Any], *, classes: bool) -> str:
    """Return all results, and their means, in Markdown."""
    entries = {
        name: one
        for name, one in sorted(found.items(), key=lambda item: item[1]["rows"])
        if bool(one["classes"]) == classes
        and all(one["models"].get(model) for model in (OURS, BOOSTING))
    }
    models = CLASSIFIERS if classes else REGRESSORS
    seen = {model for one in entries.values() for model, known in one["models"].items() if known}
    others = [name for name in models if name != BOOSTING and name in seen]
    counts = [len(one["models"][OURS]) for one in entries.values()] or [0]
    least, most = min(counts), max(counts)
    cuts = f"{most}"
    if least < most:
        cuts = f"{least} ({counts.count(least)} tables) to {most} ({counts.count(most)} tables)"
    lines = [
        f"{len(entries)} tables, {cuts} × {FOLDS} folds.",
        "",
        "| table | rows | columns | " + " | ".join(others) + " | seconds |",
        "|---|--:|--:|" + "--:|" * (len(others) + 1),
    ]
    for name, entry in entries.items():
        values = {one: ratio(entry, one, BOOSTING) for one in others if entry["models"].get(one)}
        cells = []
        for model in others:
            shown = f"{values[model]:.2f}" if model in values else "–"
            if model == OURS:
                shown += f" ± {values[model] * spread(entry, model, BOOSTING):.2f}"
            # bold where no other model, nor gradient boosting, has a smaller error
            best = values.get(model) == min([1.0, *values.values()])
            cells.append(f"**{shown}**" if best else shown)
        times = [one["seconds"] for one in entry["models"][OURS].values()]
        head = f"| {name} | {entry['rows']} | {entry['columns']} | "
        lines.append(head + " | ".join(cells) + f" | {np.mean(times):.2g} |")
    lines += [
        "",
        "| geometric mean | tables | " + " | ".join(others) + " |",
        "|---|--:|" + "--:|" * len(others),
    ]
    groups = {
        "up to 3000 rows": [one for one in entries.values() if one["rows"] <= 3000],
        "more rows": [one for one in entries.values() if one["rows"] > 3000],
    }
    for title, group in groups.items():
        if not group:
            continue
        cells = []
        for model in others:
            values = [ratio(one, model, BOOSTING) for one in group if one["models"].get(model)]
            if not values:
                cells.append("–")
                continue
            shown = f"{geometric_mean(values):.3f} (worst {max(values):.2f})"
            cells.append(shown if len(values) == len(group) else f"{shown}, {len(values)} tables")
        lines.append(f"| {title} | {len(group)} | " + " | ".join(cells) + " |")
    if classes:
        lines += ["", "Mean log loss: " + _mean_losses(entries, [BOOSTING, *others]) + "."]
    return "\n".join(lines) + "\n"


def _mean_losses(entries: dict[str, Any], models: list[str]) -> str:
    """Return the mean log loss of every model that has seen all tables."""
    known = [one for one in models if all(entry["models"].get(one) for entry in entries.values())]
    means = [np.mean([pair(e, one, BOOSTING)[0].mean() for e in entries.values()]) for one in known]
    return ", ".join(f"{one} {mean:.3f}" for one, mean in zip(known, means, strict=True))


def page(found: dict[str, Any]) -> None:
    """Write the results into the page, between its markers."""
    text = PAGE.read_text(encoding="utf-8")
    for name, classes in (("regression", False), ("classes", True)):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        text = head + begin + tables_of(found, classes=classes) + end + rest.split(end)[1]
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    """Run the study, or write its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, help="a folder, made by benchmarks.kernel_tables")
    parser.add_argument("--out", type=Path, default=Path("kernel_study.jsonl"))
    parser.add_argument("--only", default="", help="names of tables, with commas; all by default")
    parser.add_argument("--models", default="", help="names, with commas; all by default")
    parser.add_argument("--repeats", type=int, default=5, help="how often the folds are drawn")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    parser.add_argument("--seconds", type=float, default=1e6, help="stop after this time")
    parser.add_argument("--page", type=Path, help="a file of results to store and publish")
    options = parser.parse_args()
    if options.page:
        found = gathered(lines_of(options.page))
        RESULTS.write_text(json.dumps(found, separators=(",", ":")) + "\n")
        page(found)
        return
    paths = sorted(options.tables.glob("*.npz"))
    wanted = [name.replace(" ", "_") for name in options.only.split(",") if name]
    chosen = [one for one in paths if not wanted or one.stem in wanted]
    models = [name for name in options.models.split(",") if name]
    tasks = all_tasks(chosen, models, options.repeats)
    run(options.tables, tasks, options.jobs, options.seconds, options.out)


if __name__ == "__main__":
    main()
