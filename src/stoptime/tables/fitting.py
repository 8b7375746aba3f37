"""Read a file, fit a model and assess it: the work of ``stoptime fit``, as functions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from importlib import import_module
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
from stoptime.tables.assessment import Assessment, Score, assess, compare, rivals
from stoptime.tables.reading import Table, read_table
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

    def reads_at_once(self) -> bool:
        """Tell whether the file is read as a whole rather than in chunks."""
        path = Path(self.data)
        if not path.is_file():
            return True
        if self.in_memory is not None:
            return self.in_memory
        return MEMORY_PER_BYTE * path.stat().st_size <= free_memory()

    def streamed(self) -> tuple[Request, list[str]]:
        """Return the request for data read in chunks, and a message on what had to be changed."""
        request = replace(self, shuffled=False)
        if self.cv is not None:
            return request, ["Folds are blocks of rows: rows read in chunks cannot be shuffled."]
        if self.rule in {"loo", "one-standard-error"}:
            message = (
                f'The rule "{self.rule}" needs all rows in memory: "path-gcv" is used instead.'
            )
            return replace(request, rule="path-gcv"), [message]
        return request, []

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
        if self.weights:
            options.append(f"weights={self.weights!r}")
        if self.drop:
            options.append(f"drop={list(self.drop)!r}")
        if self.shuffled:
            read = "read_table"
            fit = f"model.fit(data.X, data.y{', data.sample_weight' if self.weights else ''})"
        else:
            read = "opening"
            names = f"{self.target!r}, {self.weights!r}, tables.{self.policy!r}{missing}"
            fit = f"rows = tables.TableRows({self.data!r}, data.recipe, {names})\n"
            fit += "model.fit(rows.chunks())"
        folds = "from sklearn.model_selection import KFold\n" if self.cv and self.shuffled else ""
        return f"""{folds}import stoptime as st
from stoptime import tables

frame = tables.{read}({self.data!r}{missing}).frame
data = tables.prepare(frame, {", ".join(options)})
model = st.StoppedRegressorCV({", ".join(self._arguments())})
{fit}
print(f"{{model.method_}}, stop {{model.stop_:.6g}}, error {{model.choice_.error:.6g}}")
"""

    def _arguments(self) -> list[str]:
        names = [_source(method) for method in self.methods]
        arguments = [names[0] if len(names) == 1 else f"[{', '.join(names)}]"]
        if self.stops is not None:
            arguments.append(f"stops={self.stops!r}")
        if self.cv is not None:
            shuffled = f"KFold({self.cv}, shuffle=True, random_state={self.seed})"
            arguments.append(f"cv={shuffled if self.shuffled else self.cv}")
        elif self.rule != "loo":
            arguments.append(f"rule={self.rule!r}")
        return arguments if self.fit_intercept else [*arguments, "fit_intercept=False"]


def _source(method: Method) -> str:
    """Return Python code for a method: its name if all parameters have their defaults."""
    plain = method.name in ALL_METHODS and method == ALL_METHODS[method.name]()
    return repr(method.name) if plain else f"st.{method!r}"


def free_memory() -> int:
    """Return how many bytes can be used without swapping."""
    try:
        return int(import_module("psutil").virtual_memory().available)
    except ModuleNotFoundError as error:
        raise ImportError('Tables need psutil: pip install "stoptime[cli]".') from error


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

    Examples
    --------
    >>> fitted = fit_table(Request("diabetes", "target"))
    >>> [score.name for score in fitted.scores]
    ['stoptime', 'RidgeCV', 'least squares', 'the mean']
    """
    step = progress or (lambda _: None)
    step("reading")
    at_once = request.reads_at_once()
    read = read_table if at_once else opening
    table = read(request.data, missing=request.missing)
    step("preparing")
    prepared = prepare(
        table.frame, request.target, request.policy, weights=request.weights, drop=request.drop
    )
    step("fitting")
    data = prepared.X, prepared.y, prepared.sample_weight
    if at_once:
        with warnings_noted() as warned:
            model = request.estimator().fit(*data)
        spectrum = decompose(*data, request.fit_intercept)
        n_rows = len(prepared.y) if data[2] is None else int(np.count_nonzero(data[2]))
        messages = [*table.messages, *prepared.messages, *warned]
    else:
        request, changed = request.streamed()
        model, spectrum, n_rows, told = _fit_chunks(request, prepared)
        # The first rows decide what each column is; values are counted over all rows.
        decisions = (one for one in prepared.messages if one.startswith("Column"))
        how = (
            f"Read in chunks: {n_rows} rows were fitted. The first {len(prepared.y)} rows decide "
            "what each column is, and are used for comparisons and figures."
        )
        messages = [how, *changed, *table.messages, *decisions, *told]
    step("assessing")
    found = assess(model, spectrum)
    candidates = {"stoptime": request.estimator(), **rivals(spectrum)}
    scores: list[Score] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StopWarning)  # the fit to all rows has warned
            scores = compare(candidates, *data, seed=request.seed, progress=step)
    except ValueError as error:  # a fold may be too small for the method
        messages.append(f"No comparison on folds: {error}")
    return Fitted(request, table, prepared, n_rows, model, spectrum, found, scores, tuple(messages))


def _fit_chunks(
    request: Request, prepared: Prepared
) -> tuple[StoppedRegressorCV, Spectrum, int, list[str]]:
    """Fit a file that is never in memory as a whole."""
    columns = request.target, request.weights
    rows = TableRows(request.data, prepared.recipe, *columns, request.policy, request.missing)
    with warnings_noted() as warned:
        statistics = summarise(rows.chunks())
        model = request.estimator().fit(rows.chunks() if request.cv is not None else statistics)
    spectrum = decompose(statistics, fit_intercept=request.fit_intercept)
    return model, spectrum, statistics.n_rows, [*rows.messages(), *warned]
