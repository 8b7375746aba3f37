"""Read a file, fit a model and assess it: the work of ``stoptime fit``, as functions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import KFold

from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.methods.base import Method
from stoptime.methods.registry import ALL_METHODS, get_method
from stoptime.spectrum.decompose import decompose
from stoptime.spectrum.streamed.data import summarise
from stoptime.stopping.rule import StopWarning
from stoptime.support.notes import warnings_noted
from stoptime.tables.assessment import Assessment, Score, assess, compare
from stoptime.tables.reading import Table, needed, read_table
from stoptime.tables.recipe import Policy, Prepared, prepare
from stoptime.tables.streaming import TableRows, opening

if TYPE_CHECKING:
    from collections.abc import Callable

    from stoptime.spectrum.base import Spectrum

__all__ = ["Fitted", "Request", "fit_table"]

FIT_STEPS = 8  # messages that fit_table sends to a progress bar
MEMORY_PER_BYTE = 8  # free memory for each byte of a file that is read at once


@dataclass(frozen=True)
class Request:
    """What to fit, and how; the options of ``stoptime fit``."""

    data: str  #: A file, or "diabetes".
    target: str  #: The column to predict.
    methods: tuple[Method, ...] = (get_method("nesterov-flow"),)  #: The best one is chosen.
    rule: str = "loo"  #: The rule that chooses the stop.
    cv: int | None = None  #: Number of shuffled folds, instead of the rule.
    stops: int | tuple[float, ...] | None = None  #: As of :class:`stoptime.StoppedRegressorCV`.
    fit_intercept: bool = True  #: Whether to fit an intercept.
    policy: Policy = field(default_factory=Policy)  #: How to prepare the table.
    weights: str | None = None  #: The column of sample weights.
    drop: tuple[str, ...] = ()  #: Columns not to use.
    missing: tuple[str, ...] = ()  #: Words for a missing value.
    seed: int = 0  #: Seed of every shuffle.
    in_memory: bool | None = None  #: Whether to read the file at once; None decides by its size.
    shuffled: bool = True  #: Whether rows can be shuffled; False if they are read in chunks.

    def estimator(self) -> StoppedRegressorCV:
        """Return the estimator, not yet fitted."""
        cv: Any = self.cv
        if cv is not None and self.shuffled:
            cv = KFold(cv, shuffle=True, random_state=self.seed)
        method = self.methods[0] if len(self.methods) == 1 else list(self.methods)
        return StoppedRegressorCV(
            method, stops=self.stops, cv=cv, rule=self.rule, fit_intercept=self.fit_intercept
        )

    def adapted(self) -> tuple[Request, list[str]]:
        """Return the request that the free memory allows, and a message on what was changed."""
        path = Path(self.data)
        at_once = self.in_memory
        if at_once is None and path.is_file():
            at_once = MEMORY_PER_BYTE * path.stat().st_size <= free_memory()
        # Data that are built in are small, and a file that does not exist is reported later.
        if at_once or not path.is_file():
            return self, []
        request = replace(self, shuffled=False)
        if self.cv is not None:
            return request, ["Folds are blocks of rows: rows read in chunks cannot be shuffled."]
        if self.rule not in {"loo", "one-standard-error"}:
            return request, []
        message = f'The rule "{self.rule}" needs all rows in memory: "path-gcv" is used instead.'
        return replace(request, rule="path-gcv"), [message]

    @property
    def how(self) -> str:
        """The name of the rule, or the number of folds."""
        return self.rule if self.cv is None else f"{self.cv}-fold"

    def code(self) -> str:
        """Return Python code that fits the same model."""
        missing = f", missing={list(self.missing)!r}" if self.missing else ""
        options = [repr(self.target)]
        if self.policy != Policy():
            options.append(f"tables.{self.policy!r}")
        columns = {"weights": self.weights, "drop": list(self.drop)}
        options += [f"{name}={value!r}" for name, value in columns.items() if value]
        folds = "from sklearn.model_selection import KFold\n" if self.cv and self.shuffled else ""
        read = "read_table" if self.shuffled else "opening"
        fit = f"model.fit(data.X, data.y{', data.sample_weight' if self.weights else ''})"
        if not self.shuffled:
            names = f"{self.target!r}, {self.weights!r}, tables.{self.policy!r}{missing}"
            fit = f"rows = tables.TableRows({self.data!r}, data.recipe, {names})\n"
            fit += "model.fit(rows.chunks())"
        return f"""{folds}import stoptime as st
from stoptime import tables

frame = tables.{read}({self.data!r}{missing}).frame
data = tables.prepare(frame, {", ".join(options)})
model = st.StoppedRegressorCV({", ".join(self._arguments())})
{fit}
print(f"{{model.method_}}, stop {{model.stop_:.6g}}, error {{model.choice_.error:.6g}}")
"""

    def _arguments(self) -> list[str]:
        names = []
        for method in self.methods:
            # The name is enough if all parameters have their defaults.
            plain = method.name in ALL_METHODS and method == ALL_METHODS[method.name]()
            names.append(repr(method.name) if plain else f"st.{method!r}")
        arguments = [names[0] if len(names) == 1 else f"[{', '.join(names)}]"]
        if self.stops is not None:
            arguments.append(f"stops={self.stops!r}")
        if self.cv is not None:
            shuffled = f"KFold({self.cv}, shuffle=True, random_state={self.seed})"
            arguments.append(f"cv={shuffled if self.shuffled else self.cv}")
        elif self.rule != "loo":
            arguments.append(f"rule={self.rule!r}")
        return arguments if self.fit_intercept else [*arguments, "fit_intercept=False"]


def free_memory() -> int:
    """Return how many bytes can be used without swapping."""
    return int(needed("psutil").virtual_memory().available)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model and its assessment."""

    request: Request  #: The request, as it was changed for data read in chunks.
    table: Table  #: The data as read.
    prepared: Prepared  #: The data as used; the first rows of a file read in chunks.
    n_rows: int  #: How many rows of positive weight were fitted.
    model: StoppedRegressorCV  #: Fitted to all rows.
    spectrum: Spectrum  #: Of all rows.
    assessment: Assessment  #: Guarantee, penalty and error of the model.
    scores: list[Score]  #: The model and its rivals on the same folds; empty for too few rows.
    messages: tuple[str, ...]  #: What the reader should know.


def fit_table(request: Request, progress: Callable[[str], None] | None = None) -> Fitted:
    """Read a table, prepare it, fit a model, assess it and compare it with other estimators.

    ``progress`` is called with a message before each step.
    """
    step = progress or (lambda _: None)
    step("reading")
    request, messages = request.adapted()
    read = read_table if request.shuffled else opening
    table = read(request.data, missing=request.missing)
    step("preparing")
    prepared = prepare(
        table.frame, request.target, request.policy, weights=request.weights, drop=request.drop
    )
    step("fitting")
    with warnings_noted() as warned:
        model, spectrum, n_rows, told = _fit(request, prepared)
    messages += [*table.messages, *told, *warned]
    step("assessing")
    found = assess(model, spectrum)
    scores: list[Score] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StopWarning)  # the fit to all rows has warned
            data = prepared.X, prepared.y, prepared.sample_weight
            candidate = request.estimator()
            scores = compare(candidate, spectrum, data, seed=request.seed, progress=step)
    except ValueError as error:  # a fold may be too small for the method
        messages.append(f"No comparison on folds: {error}")
    return Fitted(request, table, prepared, n_rows, model, spectrum, found, scores, tuple(messages))


def _fit(
    request: Request, prepared: Prepared
) -> tuple[StoppedRegressorCV, Spectrum, int, list[str]]:
    """Fit the prepared rows, or all rows of a file in chunks; return messages on the rows too."""
    estimator = request.estimator()
    if request.shuffled:
        data = prepared.X, prepared.y, prepared.sample_weight
        n_rows = len(data[1]) if data[2] is None else int(np.count_nonzero(data[2]))
        spectrum = decompose(*data, request.fit_intercept)
        return estimator.fit(*data), spectrum, n_rows, list(prepared.messages)
    columns = request.target, request.weights
    rows = TableRows(request.data, prepared.recipe, *columns, request.policy, request.missing)
    statistics = summarise(rows.chunks())
    # Folds are made of rows; every other rule needs only the statistics of one pass.
    model = estimator.fit(rows.chunks() if request.cv is not None else statistics)
    spectrum = decompose(statistics, fit_intercept=request.fit_intercept)
    how = (
        f"Read in chunks: {statistics.n_rows} rows were fitted. The first {len(prepared.y)} rows "
        "decide what each column is, and are used for comparisons and figures."
    )
    # Of the messages on the first rows, only those on columns hold for all rows.
    decisions = [one for one in prepared.messages if one.startswith("Column")]
    return model, spectrum, statistics.n_rows, [how, *decisions, *rows.messages()]
