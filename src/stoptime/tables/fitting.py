"""From a file to a fitted, assessed model: what ``stoptime fit`` does, as functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.methods import ALL_METHODS, Method, get_method
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import decompose
from stoptime.spectrum.streamed.streams import summarise
from stoptime.stopping import StopWarning
from stoptime.support.notes import warnings_noted
from stoptime.tables import Policy, Prepared, Table, prepare, read_table
from stoptime.tables.assessment import FOLDS, Assessment, Score, assess, compare, rivals

from stoptime.tables.memory import fits_in_memory
from stoptime.tables.streaming import TableRows, opening

__all__ = ["Fitted", "Request", "fit_table"]

STEPS = 4 + FOLDS  # of fit_table, for a progress bar


@dataclass(frozen=True)
class Request:
    """What is to be fitted, and how.

    Attributes
    ----------
    data : str
        A file, or "diabetes".
    target : str
        The column to predict.
    methods : tuple of Method
        Of several the one with the least error is taken.
    rule : str
        What picks the stop.
    cv : int or None
        Number of shuffled folds that replace the rule.
    stops : int, tuple of float or None
        As of :class:`stoptime.StoppedRegressorCV`.
    fit_intercept : bool
        Whether to fit an intercept.
    policy : Policy
        How the table is prepared.
    weights : str or None
        The column of sample weights.
    drop : tuple of str
        Columns not to be used.
    missing : tuple of str
        Words that stand for a missing value.
    seed : int
        Of every shuffle.
    in_memory : bool or None
        Whether the file is read at once; None leaves that to its size.
    shuffled : bool
        Whether rows are at hand and can be shuffled, or pass by in chunks.
    """

    data: str
    target: str
    methods: tuple[Method, ...] = (get_method("nesterov-flow"),)
    rule: str = "loo"
    cv: int | None = None
    stops: int | tuple[float, ...] | None = None
    fit_intercept: bool = True
    policy: Policy = field(default_factory=Policy)
    weights: str | None = None
    drop: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    seed: int = 0
    in_memory: bool | None = None
    shuffled: bool = True

    def estimator(self) -> StoppedRegressorCV:
        """Return the estimator, not yet fitted."""
        cv: Any = self.cv
        if cv is not None and self.shuffled:
            cv = KFold(cv, shuffle=True, random_state=self.seed)
        method = self.methods[0] if len(self.methods) == 1 else list(self.methods)
        return StoppedRegressorCV(
            method, stops=self.stops, cv=cv, rule=self.rule, fit_intercept=self.fit_intercept
        )

    def read(self) -> Table:
        """Read the data."""
        return read_table(self.data, missing=self.missing)

    def prepare(self, table: Table) -> Prepared:
        """Prepare the data."""
        return prepare(table.frame, self.target, self.policy, weights=self.weights, drop=self.drop)

    def streamed(self) -> tuple[Request, list[str]]:
        """Return the request as it can be met without keeping rows, and what had to be changed."""
        if self.cv is not None:
            words = "Folds are blocks of rows, dealt in turn: rows that pass by cannot be shuffled."
            return replace(self, shuffled=False), [words]
        if self.rule in {"loo", "one-standard-error"}:
            words = f'The rule "{self.rule}" needs all rows at hand: "path-gcv" takes its place.'
            return replace(self, rule="path-gcv", shuffled=False), [words]
        return replace(self, shuffled=False), []

    @property
    def how(self) -> str:
        """How the stop is picked, in a word or two."""
        return self.rule if self.cv is None else f"{self.cv}-fold"

    def code(self) -> str:
        """Return Python that fits the same model."""
        missing = f", missing={list(self.missing)!r}" if self.missing else ""
        options = [f"{self.target!r}"]
        if self.policy != Policy():
            options.append(f"tables.{self.policy!r}")
        options += [f"weights={self.weights!r}"] if self.weights else []
        options += [f"drop={list(self.drop)!r}"] if self.drop else []
        weights = ", data.sample_weight" if self.weights else ""
        read, fit = "read_table", [f"model.fit(data.X, data.y{weights})"]
        if not self.shuffled:
            roles = (
                f"data.recipe, {self.target!r}, {self.weights!r}, tables.{self.policy!r}{missing}"
            )
            read = "opening"
            fit = [f"rows = tables.TableRows({self.data!r}, {roles})", "model.fit(rows.chunks())"]
        splitter = self.cv is not None and self.shuffled
        return "\n".join(
            [
                *(["from sklearn.model_selection import KFold"] if splitter else []),
                "import stoptime as st",
                "from stoptime import tables",
                "",
                f"frame = tables.{read}({self.data!r}{missing}).frame",
                f"data = tables.prepare(frame, {', '.join(options)})",
                f"model = st.StoppedRegressorCV({', '.join(self._arguments())})",
                *fit,
                'print(f"{model.method_}, stop {model.stop_:.6g}, error {model.choice_.error:.6g}")',
                "",
            ]
        )

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
    """Return Python for a method: its name where that says all."""
    plain = method.name in ALL_METHODS and method == ALL_METHODS[method.name]()
    return repr(method.name) if plain else f"st.{method!r}"


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model with all that is known about it.

    Attributes
    ----------
    request : Request
        What was asked for.
    table : Table
        The data as read.
    prepared : Prepared
        The data as used; the opening rows of a file that was read in chunks.
    n_rows : int
        How many rows were fitted: those of positive weight.
    model : StoppedRegressorCV
        Fitted to all rows.
    spectrum : Spectrum
        Of all rows.
    assessment : Assessment
        What the model is like.
    scores : list of Score
        On the same folds: the model, what people would otherwise use, and the mean. Empty where rows are
        too few.
    messages : tuple of str
        What a reader should know.
    """

    request: Request
    table: Table
    prepared: Prepared
    n_rows: int
    model: StoppedRegressorCV
    spectrum: Spectrum
    assessment: Assessment
    scores: list[Score]
    messages: tuple[str, ...]


def fit_table(request: Request, progress: Callable[[str], None] | None = None) -> Fitted:
    """Read, prepare, fit, assess and compare.

    Parameters
    ----------
    request : Request
        What is to be fitted.
    progress : callable, optional
        Called with a word before each step.

    Returns
    -------
    Fitted

    Examples
    --------
    >>> fitted = fit_table(Request("diabetes", "target"))
    >>> [score.name for score in fitted.scores]
    ['stoptime', 'RidgeCV', 'least squares', 'the mean']
    """

    def step(name: str) -> None:
        if progress is not None:
            progress(name)

    step("reading")
    if not fits_in_memory(request.data, request.in_memory):
        return _fit_in_chunks(request, step)
    table = request.read()
    step("preparing")
    prepared = request.prepare(table)
    step("fitting")
    X, y, weights = prepared.X, prepared.y, prepared.sample_weight
    with warnings_noted() as warned:
        model = request.estimator().fit(X, y, weights)
    step("assessing")
    spectrum = decompose(X, y, weights, request.fit_intercept)
    found = assess(model, spectrum)
    scores, notes = _scores(request.estimator(), spectrum, prepared, request.seed, step)
    messages = (*table.messages, *prepared.messages, *warned, *notes)
    n_rows = len(y) if weights is None else int(np.count_nonzero(weights))
    return Fitted(request, table, prepared, n_rows, model, spectrum, found, scores, messages)


def _fit_in_chunks(request: Request, step: Callable[[str], None]) -> Fitted:
    """Fit a file that is never in memory as a whole.

    Its opening rows say what the columns are, and stand for all in comparisons; the model is that of all.
    """
    table = opening(request.data, missing=request.missing)
    step("preparing")
    prepared = request.prepare(table)
    rows = TableRows(
        request.data,
        prepared.recipe,
        request.target,
        request.weights,
        request.policy,
        request.missing,
    )
    streamed, told = request.streamed()
    step("fitting")
    with warnings_noted() as warned:
        statistics = summarise(rows.chunks())
        model = streamed.estimator().fit(rows.chunks() if streamed.cv is not None else statistics)
    step("assessing")
    spectrum = decompose(statistics, fit_intercept=request.fit_intercept)
    found = assess(model, spectrum)
    scores, notes = _scores(streamed.estimator(), spectrum, prepared, request.seed, step)
    read = f"Read in chunks: {statistics.n_rows} rows were fitted, of which the first {len(prepared.y)} "
    messages = (
        read + "say what the columns are and stand for all in comparisons and figures.",
        *(*told, *table.messages),
        *(message for message in prepared.messages if message.startswith("Column")),
        *(*rows.messages(), *warned, *notes),
    )
    return Fitted(
        streamed,
        table,
        prepared,
        statistics.n_rows,
        model,
        spectrum,
        found,
        scores,
        tuple(messages),
    )


def _scores(
    estimator: StoppedRegressorCV,
    spectrum: Spectrum,
    prepared: Prepared,
    seed: int,
    progress: Callable[[str], None],
) -> tuple[list[Score], list[str]]:
    """Compare on folds; where a fold is too small for the method, say so instead."""
    candidates = {"stoptime": estimator, **rivals(spectrum)}
    data = prepared.X, prepared.y, prepared.sample_weight
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StopWarning)  # of all rows it was told
            return compare(candidates, *data, seed=seed, progress=progress), []
    except ValueError as error:
        return [], [f"No comparison on folds: {error}"]
