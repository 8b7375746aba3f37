"""Kernels that tune themselves against what people run by default, on real tables.

    python -m benchmarks.kernel_tables tables.gz              # where the packages are installed
    python -m benchmarks.kernel_study --from tables.gz --jobs 16 --repeats 5
    python -m benchmarks.kernel_study --page                  # writes the tables of docs/kernels.md

Every table is cut five times into five folds. All models see the same folds, and are fitted to each
training set with no other choice than their own: text columns become indicators and missing numbers
medians, by the training rows; gradient boosting takes both as they are. Results are added to
``benchmarks/results/kernel_study.json`` as soon as they are there; what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
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
from benchmarks.kernel_tables import Table, all_tables, saved

RESULTS = Path(__file__).parent / "results" / "kernel_study.json"
PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"
OURS = "stoptime"
BOOSTING = "gradient boosting"
LOGISTIC = "LogisticRegressionCV"
MOST_ROWS_OF_SLOW = 2000  # beyond, models of n³ operations for each of many settings are left out
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


def light(name: str) -> BaseEstimator:
    """Return a default model of LightGBM."""
    import lightgbm  # noqa: PLC0415 - not needed for the page

    return getattr(lightgbm, name)(random_state=0, n_jobs=1, verbose=-1)


def standardised_target(model: BaseEstimator) -> BaseEstimator:
    """Return a model for responses in units of their standard deviation."""
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def grid_search() -> BaseEstimator:
    """Return kernel ridge regression with a grid of penalties and widths, by five folds."""
    grid = {"alpha": np.geomspace(1e-4, 10, 6), "gamma": np.geomspace(1e-3, 1, 7)}
    return standardised_target(GridSearchCV(KernelRidge(kernel="rbf"), grid))


REGRESSORS: dict[str, Callable[[Table], BaseEstimator]] = {
    OURS: lambda table: prepared(table, st.StoppedKernelRegressorCV()),
    BOOSTING: lambda table: boosting(table, HistGradientBoostingRegressor),
    "LightGBM": lambda _: light("LGBMRegressor"),
    "random forest": lambda table: prepared(table, RandomForestRegressor(random_state=0)),
    "RidgeCV": lambda table: prepared(table, RidgeCV(np.geomspace(1e-3, 1e5, 25))),
    "SVR": lambda table: prepared(table, standardised_target(SVR())),
    "KernelRidge": lambda table: prepared(table, grid_search()),
}

LOGISTIC_OPTIONS = {"Cs": 10, "scoring": "neg_log_loss", "max_iter": 2000}

CLASSIFIERS: dict[str, Callable[[Table], BaseEstimator]] = {
    OURS: lambda table: prepared(table, st.StoppedKernelClassifierCV()),
    BOOSTING: lambda table: boosting(table, HistGradientBoostingClassifier),
    "LightGBM": lambda _: light("LGBMClassifier"),
    "random forest": lambda table: prepared(table, RandomForestClassifier(random_state=0)),
    LOGISTIC: lambda table: prepared(table, LogisticRegressionCV(**LOGISTIC_OPTIONS)),
    "SVC": lambda table: prepared(table, SVC(probability=True, random_state=0)),
}


def measured(table: Table, name: str, repeat: int) -> dict[str, list[float]]:
    """Return the error and the seconds of a model in every fold of one repeat."""
    models = CLASSIFIERS if table.is_classes else REGRESSORS
    splitter = StratifiedKFold if table.is_classes else KFold
    X = table.columns
    y = table.y
    errors = []
    seconds = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folds = splitter(FOLDS, shuffle=True, random_state=repeat)
        for train, test in folds.split(X, y):
            begin = time.perf_counter()
            model = models[name](table).fit(X[train], y[train])
            seconds.append(time.perf_counter() - begin)
            if table.is_classes:
                chances = model.predict_proba(X[test])
                errors.append(float(log_loss(y[test], chances, labels=np.unique(y))))
            else:
                errors.append(float(np.mean((model.predict(X[test]) - y[test]) ** 2)))
    return {"errors": errors, "seconds": seconds}


def run(tables: list[Table], names: list[str], repeats: int, jobs: int, path: Path) -> None:
    """Measure all models on all tables, small ones first, and store each result at once."""
    found = json.loads(path.read_text()) if path.exists() else {}
    tasks = []
    for table in sorted(tables, key=lambda one: one.n_rows):
        entry = found.setdefault(table.name, {"models": {}})
        entry |= {"rows": table.n_rows, "columns": int(table.columns.shape[1])}
        entry["classes"] = int(table.y.max()) + 1 if table.is_classes else 0
        for name in CLASSIFIERS if table.is_classes else REGRESSORS:
            slow = name in SLOW and table.n_rows > MOST_ROWS_OF_SLOW
            missing = name == "LightGBM" and find_spec("lightgbm") is None
            if not slow and not missing and (not names or name in names):
                known = entry["models"].setdefault(name, {})
                tasks += [(table, name, one) for one in range(repeats) if str(one) not in known]
    results = Parallel(jobs, return_as="generator_unordered")(
        delayed(_named)(*task) for task in tasks
    )
    for done, (table, name, repeat, result) in enumerate(results, start=1):
        found[table]["models"][name][str(repeat)] = result
        path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
        print(f"{done}/{len(tasks)} {table}: {name} {sum(result['seconds']):.1f} s", flush=True)


def _named(table: Table, name: str, repeat: int) -> tuple[str, str, int, dict[str, Any]]:
    return table.name, name, repeat, measured(table, name, repeat)


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
    repeats = {len(one["models"][OURS]) for one in entries.values()}
    lines = [
        f"{len(entries)} tables, {'/'.join(map(str, sorted(repeats)))} × {FOLDS} folds.",
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


def page(path: Path) -> None:
    """Write the results into the page, between its markers."""
    found = json.loads(path.read_text())
    text = PAGE.read_text(encoding="utf-8")
    for name, classes in (("regression", False), ("classes", True)):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin)
        text = head + begin + tables_of(found, classes=classes) + end + rest.split(end)[1]
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    """Run the study, or write its page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="source", type=Path, help="a file of tables")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tables", default="", help="names, with commas; all by default")
    parser.add_argument("--models", default="", help="names, with commas; all by default")
    parser.add_argument("--most-rows", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        page(options.out)
        return
    tables = saved(options.source) if options.source else all_tables()
    wanted = [name for name in options.tables.split(",") if name]
    chosen = [one for one in tables if not wanted or one.name in wanted]
    chosen = [one for one in chosen if one.n_rows <= options.most_rows]
    names = [name for name in options.models.split(",") if name]
    run(chosen, names, options.repeats, options.jobs, options.out)


if __name__ == "__main__":
    main()
