"""One cell: the estimators and RidgeCV are timed in turn, and their answers are compared."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import RidgeCV

import stoptime as st
from benchmarks.data import label
from benchmarks.harness import Settings, interleaved
from benchmarks.machine import pinned
from benchmarks.real_data.problems import SPREAD_SHAPE, Place, Rows
from benchmarks.results import SCHEMA, Measure, rounded
from stoptime.support.files import atomic

PEER = "RidgeCV"
DEFAULT = "default"
ESTIMATORS: dict[str, BaseEstimator] = {
    DEFAULT: st.StoppedRegressorCV(),
    "ridge": st.StoppedRegressorCV(method="ridge"),
}
ALPHAS = np.geomspace(1e-8, 1e4, 100)
ROUNDS = 15  # of quick fits; slow ones are repeated less often
SPREAD_GOAL = 3.0
MEDIAN_GOAL = 5.0
WORSE = 1.01  # times the left-out error of RidgeCV


@dataclass(frozen=True)
class Cell:
    """Result of one cell: for every estimator its seconds, its left-out error and its R².

    ``refused`` holds the reasons for which fits without the held-out rows were refused, whose R² is
    NaN, and ``failed`` the reason for which there are no results.
    """

    table: str
    row: str
    column: str
    shape: tuple[int, ...]
    seconds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    failed: str = ""

    def times_as_fast(self, name: str = DEFAULT) -> float:
        """Return the best time of RidgeCV divided by that of an estimator; NaN if not measured."""
        if not (self.seconds.get(name) and self.seconds.get(PEER)):
            return float("nan")
        return min(self.seconds[PEER]) / min(self.seconds[name])

    def times_the_error(self, name: str = DEFAULT) -> float:
        """Return the left-out error divided by that of RidgeCV."""
        if name not in self.errors:
            return float("nan")
        return float(np.divide(self.errors[name], self.errors[PEER]))


@dataclass(frozen=True)
class CellRun:
    """All cells of one command."""

    mode: str
    date: str
    environment: Mapping[str, Any]
    cells: tuple[Cell, ...] = ()

    @property
    def estimators(self) -> list[str]:
        """The estimators that were measured, the default first."""
        return [name for name in ESTIMATORS if any(name in cell.seconds for cell in self.cells)]


def measured(
    place: Place, settings: Settings, estimators: Mapping[str, BaseEstimator] = ESTIMATORS
) -> Cell:
    """Time one cell; an error becomes part of the result."""
    rows = place.make()
    shape = (*rows.X.shape, *rows.y.shape[1:])
    models = {**estimators, PEER: RidgeCV(ALPHAS)}
    fits = {name: partial(_fitted, model, rows.X, rows.y) for name, model in models.items()}
    head = (place.table, place.row, place.column, shape)
    try:
        with pinned(settings.threads):
            seconds, answers = interleaved(fits, ROUNDS, settings)
            scores, refused = _scores(answers, rows)
    except Exception as error:  # the other cells are still measured, and the failure is reported
        return Cell(*head, failed=f"{type(error).__name__}: {error}".splitlines()[0])
    errors = {name: _left_out(answer) for name, answer in answers.items()}
    return Cell(*head, seconds, errors, scores, refused)


def _fitted(model: BaseEstimator, X: np.ndarray, y: np.ndarray) -> BaseEstimator:
    with warnings.catch_warnings():
        # a best stop at the end of the grid, or lost digits, are part of what is measured
        warnings.simplefilter("ignore")
        return clone(model).fit(X, y)


def _left_out(model: BaseEstimator) -> float:
    """Return the mean squared left-out error at the chosen stop or penalty."""
    if isinstance(model, RidgeCV):
        return float(-model.best_score_)
    return float(np.mean(model.choice_.error))


def _scores(
    models: Mapping[str, BaseEstimator], rows: Rows
) -> tuple[dict[str, float], dict[str, str]]:
    """Return R² on new rows, or on rows that are held out of another fit, and refusals of it."""
    if rows.new is not None:
        return {name: float(model.score(*rows.new)) for name, model in models.items()}, {}
    X, X_held_out, y, y_held_out = rows.split()
    scores = dict.fromkeys(models, float("nan"))
    refused = {}
    for name, model in models.items():
        try:
            scores[name] = float(_fitted(model, X, y).score(X_held_out, y_held_out))
        except ValueError as refusal:
            refused[name] = str(refusal).splitlines()[0]
    return scores, refused


def goals(cells: Sequence[Cell], name: str = DEFAULT) -> list[Measure]:
    """Return the figures of one estimator over all cells, with their goals."""
    timed = [cell for cell in cells if np.isfinite(cell.times_as_fast(name))]
    ratios = np.array([cell.times_as_fast(name) for cell in timed])
    if not timed:
        return []
    worse = sum(cell.times_the_error(name) > WORSE for cell in timed)
    shape = label(*SPREAD_SHAPE)
    widest = spread(timed, shape, name)
    measures = [
        Measure(
            f"slowest over fastest fit at {shape}, a from 0 to 6", widest, SPREAD_GOAL, "at most"
        ),
        Measure("times as fast, median cell", float(np.median(ratios)), MEDIAN_GOAL),
        Measure("times as fast, worst cell", float(ratios.min()), 1.0),
        Measure("% of the cells at least as fast as RidgeCV", 100 * float((ratios >= 1).mean())),
        Measure(f"% of the cells over {WORSE} times its left-out error", 100 * worse / len(timed)),
    ]
    # without the first one, if its cells were not measured
    return measures[1:] if np.isnan(widest) else measures


def spread(cells: Sequence[Cell], row: str, name: str) -> float:
    """Return the slowest over the fastest fit of the cells of one shape."""
    best = [min(cell.seconds[name]) for cell in cells if (cell.table, cell.row) == ("shapes", row)]
    return max(best) / min(best) if best else float("nan")


def save(run: CellRun, file: Path) -> None:
    """Write a run; after an error the old file is unchanged."""
    file.parent.mkdir(parents=True, exist_ok=True)
    plain = {"schema": SCHEMA, **asdict(run)}
    for cell in plain["cells"]:
        cell["seconds"] = rounded(cell["seconds"])
    with atomic(file) as path:
        text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=True)
        path.write_text(text + "\n", encoding="utf-8")


def load(file: Path) -> CellRun:
    """Read a run."""
    plain = json.loads(file.read_text(encoding="utf-8"))
    if plain.pop("schema", None) != SCHEMA:
        raise ValueError(f"{file.name} has another schema than {SCHEMA}; run the benchmark again.")
    cells = tuple(_cell(one) for one in plain.pop("cells"))
    return CellRun(**plain, cells=cells)


def _cell(plain: dict[str, Any]) -> Cell:
    seconds = {name: tuple(times) for name, times in plain["seconds"].items()}
    return Cell(**plain | {"shape": tuple(plain["shape"]), "seconds": seconds})
