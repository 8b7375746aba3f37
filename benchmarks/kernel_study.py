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
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import gmean
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
from benchmarks.harness import RESULTS, fill, fit_seconds, load, table
from benchmarks.kernel_tables import Table, place, read

PAGE = "kernels.md"
FILE = "kernel_study.json"
OURS = "stoptime"
BOOSTING = "gradient boosting"
LIGHT = "LightGBM"
LOGISTIC = "LogisticRegressionCV"
FEW_ROWS = 3000  # beyond, models of n³ operations for each of many settings are left out
SLOW = "KernelRidge", "SVR", "SVC"
FOLDS = 5


def prepared(data: Table, model: BaseEstimator) -> BaseEstimator:
    """Return a pipeline that turns text into indicators, fills gaps, and standardises."""
    numbers = list(range(data.numbers.shape[1]))
    columns = make_column_transformer(
        (SimpleImputer(strategy="median", add_indicator=True), numbers),
        (OneHotEncoder(handle_unknown="ignore", drop="if_binary", sparse_output=False), data.text),
    )
    return make_pipeline(columns, StandardScaler(), model)


def standardised_target(model: BaseEstimator) -> BaseEstimator:
    """Return a model for responses in units of their standard deviation."""
    return TransformedTargetRegressor(model, transformer=StandardScaler())


GRID = {"alpha": np.geomspace(1e-3, 10, 5), "gamma": np.geomspace(1e-3, 1, 5)}
REGRESSORS = {
    OURS: st.StoppedKernelRegressorCV(),
    "random forest": RandomForestRegressor(random_state=0),
    "RidgeCV": RidgeCV(np.geomspace(1e-3, 1e5, 25)),
    "SVR": standardised_target(SVR()),
    "KernelRidge": standardised_target(GridSearchCV(KernelRidge(kernel="rbf"), GRID, cv=3)),
}
CLASSIFIERS = {
    OURS: st.StoppedKernelClassifierCV(),
    "random forest": RandomForestClassifier(random_state=0),
    LOGISTIC: LogisticRegressionCV(Cs=10, scoring="neg_log_loss", max_iter=2000),
    "SVC": SVC(probability=True, random_state=0),
}


def names_of(*, classes: bool) -> list[str]:
    """Return the names of all models, in the order of the page."""
    first, *others = CLASSIFIERS if classes else REGRESSORS
    return [first, BOOSTING, LIGHT, *others]


def model_of(name: str, data: Table) -> BaseEstimator:
    """Return a model for a table; the two kinds of boosting are told which columns are text."""
    classes = data.is_classes
    if name == BOOSTING:
        kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        return kind(categorical_features=data.text or None, random_state=0)
    if name == LIGHT:
        lightgbm = importlib.import_module("lightgbm")
        kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        options = {"categorical_feature": data.text} if data.text else {}
        return kind(random_state=0, n_jobs=1, verbose=-1, **options)
    return prepared(data, (CLASSIFIERS if classes else REGRESSORS)[name])


# ---------------------------------------------------------------- measurements


class Task(NamedTuple):
    """A model, and the training rows to which it is fitted."""

    table: str
    model: str
    repeat: int
    fold: int


def measured(folder: Path, task: Task) -> dict[str, Any]:
    """Return error and processor time of a model in one fold, with what describes its table."""
    data = read(place(folder, task.table))
    splitter = StratifiedKFold if data.is_classes else KFold
    X = data.columns
    y = data.y
    folds = splitter(FOLDS, shuffle=True, random_state=task.repeat)
    train, test = list(folds.split(X, y))[task.fold]
    # a category that is in the test rows alone is no news
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        try:
            model = model_of(task.model, data)
            seconds = fit_seconds(model, X[train], y[train])
        except Exception as error:  # the other fits are still run
            return task._asdict() | {"failure": repr(error)}
        if data.is_classes:
            error = log_loss(y[test], model.predict_proba(X[test]), labels=np.unique(y))
        else:
            error = np.mean((model.predict(X[test]) - y[test]) ** 2)
    classes = int(y.max()) + 1 if data.is_classes else 0
    described = {"rows": data.n_rows, "columns": X.shape[1], "classes": classes}
    return task._asdict() | described | {"error": float(error), "seconds": seconds}


def all_tasks(paths: list[Path], models: list[str], repeats: int) -> list[Task]:
    """Return what is to be run: every table once, and then again, the longest fits first."""
    costs = {}
    missing = []
    try:
        importlib.import_module("lightgbm")
    except (ImportError, OSError):  # it is not installed, or this machine cannot load it
        missing = [LIGHT]
    for path in paths:
        data = read(path)
        for name in names_of(classes=data.is_classes):
            slow = name in SLOW and data.n_rows > FEW_ROWS
            if not slow and name not in missing and (not models or name in models):
                # kernels need far more time than trees
                costs[data.name, name] = (name in (OURS, *SLOW), data.n_rows, data.columns.size)
    longest_first = sorted(costs, key=costs.__getitem__, reverse=True)
    return [
        Task(name, model, repeat, fold)
        for repeat in range(repeats)
        for name, model in longest_first
        for fold in range(FOLDS)
    ]


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the results of a file, without a last line that was cut off."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(one) for one in lines]


def run(folder: Path, tasks: list[Task], jobs: int, seconds: float, out: Path) -> None:
    """Measure what is not in the file yet, and add each result at once, until time is up."""
    end = time.monotonic() + seconds
    done = {Task(*(one[name] for name in Task._fields)) for one in lines_of(out)}
    waiting = [one for one in tasks if one not in done]
    started = (one for one in waiting if time.monotonic() < end)
    left = len(waiting)
    # one task at a time for each process, so that results are written as they come
    workers = Parallel(jobs, return_as="generator_unordered", pre_dispatch=jobs, batch_size=1)
    with out.open("a") as file:
        for one in workers(delayed(measured)(folder, task) for task in started):
            left -= 1
            if "failure" in one:
                print(f"{one['table']}: {one['model']} {one['failure']}", flush=True)
                continue
            file.write(json.dumps(one, separators=(",", ":")) + "\n")
            file.flush()
            print(f"{one['table']}: {one['model']} {one['seconds']:.1f} s", flush=True)
    print(f"{left} fits are left")


# ---------------------------------------------------------------- the page


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
    for entry in found.values():
        for name, repeats in entry["models"].items():
            full = {at: one for at, one in repeats.items() if len(one["errors"]) == FOLDS}
            entry["models"][name] = full
    return found


def pair(entry: dict[str, Any], name: str, peer: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of two models in the folds that both have seen."""
    own, other = (entry["models"][one] for one in (name, peer))
    repeats = sorted(own.keys() & other.keys())
    errors = [np.concatenate([one[repeat]["errors"] for repeat in repeats]) for one in (own, other)]
    return errors[0], errors[1]


def ratio(entry: dict[str, Any], name: str, peer: str = BOOSTING) -> float:
    """Return the error of a model divided by that of a peer, over the same folds."""
    own, other = pair(entry, name, peer)
    return float((own.mean() / other.mean()) ** (1.0 if entry["classes"] else 0.5))


def spread(entry: dict[str, Any], name: str) -> float:
    """Return a standard error of the logarithm of that ratio, corrected for folds that overlap."""
    own, other = pair(entry, name, BOOSTING)
    logs = np.log(own / other) / (1 if entry["classes"] else 2)
    # Nadeau and Bengio (2003): training sets share most of their rows
    return float(np.sqrt((1 / len(logs) + 1 / (FOLDS - 1)) * logs.var(ddof=1)))


def of_table(name: str, entry: dict[str, Any], models: list[str]) -> list[Any]:
    """Return the row of a table: ratios of all models, the least in bold, and our time."""
    values = {one: ratio(entry, one) for one in models if entry["models"].get(one)}
    cells = []
    for model in models:
        shown = f"{values[model]:.2f}" if model in values else "–"
        if model == OURS:
            shown += f" ± {values[model] * spread(entry, model):.2f}"
        # bold where no other model, nor gradient boosting, has a smaller error
        best = values.get(model) == min([1.0, *values.values()])
        cells.append(f"**{shown}**" if best else shown)
    times = [one["seconds"] for one in entry["models"][OURS].values()]
    return [name, entry["rows"], entry["columns"], *cells, f"{np.mean(times):.2g}"]


def of_group(title: str, entries: list[dict[str, Any]], models: list[str]) -> list[Any]:
    """Return the row of the means over some tables."""
    cells = []
    for model in models:
        values = [ratio(one, model) for one in entries if one["models"].get(model)]
        shown = f"{gmean(values):.3f} (worst {max(values):.2f})" if values else "–"
        few = 0 < len(values) < len(entries)
        cells.append(f"{shown}, {len(values)} tables" if few else shown)
    return [title, len(entries), *cells]


def results(found: dict[str, Any], *, classes: bool) -> str:
    """Return all results, and their means, in Markdown."""
    entries = {
        name: one
        for name, one in sorted(found.items(), key=lambda item: item[1]["rows"])
        if bool(one["classes"]) == classes
        and all(one["models"].get(model) for model in (OURS, BOOSTING))
    }
    seen = {model for one in entries.values() for model, known in one["models"].items() if known}
    models = [name for name in names_of(classes=classes) if name != BOOSTING and name in seen]
    # folds that both models of a ratio have seen
    counts = [
        len(one["models"][OURS].keys() & one["models"][BOOSTING].keys()) for one in entries.values()
    ]
    least, most = min(counts), max(counts)
    cuts = f"{most}"
    if least < most:
        cuts = f"{least} ({counts.count(least)} tables) to {most} ({counts.count(most)} tables)"
    rows = [of_table(name, one, models) for name, one in entries.items()]
    few = [one for one in entries.values() if one["rows"] <= FEW_ROWS]
    many = [one for one in entries.values() if one["rows"] > FEW_ROWS]
    groups = (("up to 3000 rows", few), ("more rows", many))
    means = [of_group(title, group, models) for title, group in groups if group]
    texts = [
        f"{len(entries)} tables, {cuts} × {FOLDS} folds.",
        table(["table", "rows", "columns", *models, "seconds"], rows, right=1),
        table(["geometric mean", "tables", *models], means, right=1),
    ]
    if classes:
        every = list(entries.values())
        known = [one for one in (BOOSTING, *models) if all(e["models"].get(one) for e in every)]
        losses = [np.mean([pair(e, one, BOOSTING)[0].mean() for e in every]) for one in known]
        said = ", ".join(f"{one} {mean:.3f}" for one, mean in zip(known, losses, strict=True))
        texts.append(f"Mean log loss: {said}.")
    return "\n\n".join(texts)


def parts() -> dict[str, str]:
    """Return the tables of the stored results."""
    found = load(FILE)
    return {"regression": results(found, classes=False), "classes": results(found, classes=True)}


def main() -> None:
    """Run the study, or write its page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=Path, help="a folder, made by benchmarks.kernel_tables")
    parser.add_argument("--out", type=Path, default=Path("kernel_study.jsonl"))
    parser.add_argument("--only", default="", help="names of tables, with commas; all by default")
    parser.add_argument("--models", default="", help="names, with commas; all by default")
    parser.add_argument("--repeats", type=int, default=5, help="how often the folds are drawn")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    parser.add_argument("--seconds", type=float, default=1e6, help="stop after this time")
    parser.add_argument("--page", type=Path, help="a file of results to store and publish")
    given = parser.parse_args()
    if given.page:
        found = gathered(lines_of(given.page))
        (RESULTS / FILE).write_text(json.dumps(found, separators=(",", ":")) + "\n")
        fill(PAGE, parts())
        return
    paths = sorted(given.tables.glob("*.npz"))
    if given.only:
        paths = [place(given.tables, name) for name in given.only.split(",")]
    models = [name for name in given.models.split(",") if name]
    run(given.tables, all_tasks(paths, models, given.repeats), given.jobs, given.seconds, given.out)


if __name__ == "__main__":
    main()
