"""Turn a table into a matrix of features, by a recipe that applies to any new rows.

A table that is larger than memory is read one block of rows at a time.

scikit-learn's ColumnTransformer is not used, because its encoders neither count what they filled in
nor can be written to the JSON model file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from stoptime.spectrum.source import Block
from stoptime.spectrum.sources import Chunks
from stoptime.support.arrays import Array, Floats

from stoptime.tables.columns import (  # isort: skip
    FEW_VALUES, KINDS_IN_WORDS, Kind, check_columns, described, form_in_words, may_differ,
    numbers_in, values_of,
)  # fmt: skip
from stoptime.tables.reading import Source, Table, first_rows, frames, text_format
from stoptime.tables.tasks import Regression, Task, task_of

Missing = Literal["impute", "drop", "error"]

MOST_CATEGORIES = 50
SAME_EVERYWHERE = "left out, the same in every row"
CONSTANT_COLUMN = 1e-12  # a column is constant up to this spread, relative to its size
OPENING_ROWS = 100_000  # rows at the beginning of a file that decide what each column is
TABLE_BLOCK_ROWS = 5_000  # cross-validation deals whole blocks to folds, so there should be many

MEDIAN = "Missing values, set to the median"
OWN_CATEGORY = "Missing values, given a category of their own"
OTHER_FORM = "Written in another form than in fitting, so check their units, signs and dates"
UNKNOWN = "Values not seen in fitting, treated as none of the known categories"


@dataclass(frozen=True)
class Policy:
    """How to prepare a table.

    ``missing="impute"`` replaces missing numbers by the median and gives missing text a category
    of its own; "drop" leaves out rows with a missing value; "error" refuses them. ``categories``
    is the largest number of features for one text column: its most frequent values get one each.
    ``standardise`` scales every feature to mean zero and variance one.
    """

    missing: Missing = "impute"
    categories: int = MOST_CATEGORIES
    standardise: bool = True

    def __post_init__(self) -> None:
        if self.missing not in get_args(Missing):
            raise ValueError(f'missing must be "impute", "drop" or "error"; got {self.missing!r}.')
        if self.categories < 1:
            raise ValueError(f"categories must be at least 1; got {self.categories}.")


@dataclass(frozen=True)
class Column:
    """A column of the table and how it becomes features."""

    name: str
    kind: Kind  #: A "date" is counted in days since 1970.
    fill: float | None = None  #: Replaces missing numbers; None if they are refused.
    levels: tuple[str | None, ...] = ()  #: Each gets a feature; None stands for missing.
    form: str = ""  #: How text is read: decimal sign and unit of numbers, or format of dates.

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features."""
        if self.kind != "category":
            return (self.name,)
        words = ("(missing)" if level is None else level for level in self.levels)
        return tuple(f"{self.name}={word}" for word in words)


@dataclass(frozen=True)
class Note:
    """How many values of a column were filled in or not recognised."""

    treatment: str
    column: str
    count: int


@dataclass(frozen=True)
class Recipe:
    """How the ``columns`` of a table become features."""

    columns: tuple[Column, ...]
    centres: tuple[float, ...]  #: Subtracted from the features; zeros if not standardised.
    scales: tuple[float, ...]  #: Divide the centred features; ones if not standardised.
    missing: tuple[str, ...] = ()  #: Words for a missing value in the files of the fit.

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(name for column in self.columns for name in column.features)

    def in_original_units(self, coef: Floats, intercept: Floats) -> tuple[Array, Array]:
        """Return coefficients and intercept of the features before they were standardised."""
        original = np.asarray(coef / np.array(self.scales), np.float64)
        return original, np.asarray(intercept - original @ np.array(self.centres), np.float64)

    def transform(self, frame: Any) -> tuple[Array, tuple[str, ...]]:
        """Return X of shape (n, n_features), and messages on values filled in or not recognised."""
        X, notes = self.encode(frame)
        return X, sentences(notes)

    def encode(self, frame: Any) -> tuple[Array, list[Note]]:
        """Return the matrix, and notes on values that can be added up over blocks of rows."""
        X, notes = _matrix(self.columns, frame)
        return np.asarray((X - np.array(self.centres)) / np.array(self.scales)), notes


@dataclass(frozen=True, eq=False)
class Prepared:
    """Matrix, response, weights and recipe of the rows of a table that are used."""

    X: Array
    y: Any  #: Numbers, or the labels of classes.
    sample_weight: Array | None
    target: str
    recipe: Recipe
    messages: tuple[str, ...] = ()  #: What was filled in, left out or converted, and how often.
    task: Task = field(default_factory=Regression)


def prepare(
    frame: Any,
    target: str,
    policy: Policy | None = None,
    *,
    weights: str | None = None,
    drop: Sequence[str] = (),
    missing: Sequence[str] = (),
    classify: bool | None = False,
) -> Prepared:
    """Turn a table into a matrix of features and a response.

    Numbers stay numbers, text and categories get a feature of zeros and ones for each frequent
    value, and dates are counted in days. Rows without a target are left out, and so are the columns
    in ``drop``; ``weights`` names the column of sample weights. ``missing`` are the words for a
    missing value with which the table was read. ``classify`` takes the values of the target as
    labels; None does so for text, booleans and two numbers. ``messages`` lists all changes.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [1, 2, None, 4], "town": list("abab"), "y": [1.0, 2, 3, 4]})
    >>> prepared = prepare(frame, "y")
    >>> prepared.recipe.features
    ('age', 'town=a', 'town=b')
    >>> prepared.messages
    ('Missing values, set to the median: age (1).',)
    """
    policy = policy or Policy()
    frame = frame.rename(columns=str)
    check_columns((target, *([weights] if weights else []), *drop), list(frame.columns))
    if target in {weights, *drop}:
        why = "be the weights too" if target == weights else "be dropped"
        raise ValueError(f'The target "{target}" cannot {why}: choose another column.')
    used = [name for name in frame.columns if name not in {target, weights, *drop}]
    # A column without any value is left out as a whole: it must not drop all rows.
    with_values = [name for name in used if not values_of(frame[name], name).gaps.all()]
    task, recognised = task_of(frame, target, classify)
    frame, y, dropped = usable_rows(frame, target, with_values, policy, task)
    if len(y) < 2 or (y == y[0]).all():
        few = f"has {counted(len(y), 'value')}" if len(y) < 2 else "is the same in every row"
        raise ValueError(f'The target "{target}" {few}: nothing can be learned from it.')
    sample_weight = None if weights is None else numbers_in(frame, weights, "weights")
    if sample_weight is not None and not ((sample_weight >= 0).all() and sample_weight.any()):
        raise ValueError(f'The weights in "{weights}" must be non-negative, and not all zero.')
    columns, remarks = _columns(frame[used], policy)
    if not columns:
        raise ValueError(" ".join([f'No column is left to predict "{target}" from.', *remarks]))
    X, notes = _matrix(columns, frame)
    centres = np.zeros(X.shape[1])
    scales = np.ones(X.shape[1])
    if policy.standardise:
        # Powers of two near the size of each feature, lest squares overflow or vanish.
        unit = np.ldexp(1.0, np.frexp(np.abs(X).max(axis=0))[1] - 1)
        centres = unit * np.average(X / unit, axis=0, weights=sample_weight)
        squares = np.average(((X - centres) / unit) ** 2, axis=0, weights=sample_weight)
        scales = unit * np.sqrt(squares)
        # A feature may be constant in all rows of positive weight: dividing would blow up rounding.
        scales[scales <= CONSTANT_COLUMN * np.abs(centres)] = 1.0
    recipe = Recipe(columns, tuple(centres.tolist()), tuple(scales.tolist()), tuple(missing))
    # Rare categories count as unknown here, but the remarks already name them.
    filled = sentences(note for note in notes if note.treatment != UNKNOWN)
    told = [] if recognised is None else [recognised]
    messages = (*told, *rows_left_out(dropped), *remarks, *filled)
    return Prepared((X - centres) / scales, y, sample_weight, target, recipe, messages, task)


def usable_rows(
    frame: Any, target: str, used: Sequence[str], policy: Policy, task: Task
) -> tuple[Any, Any, Counter[str]]:
    """Return the rows that can be used, their target, and how many were left out and why."""
    y, untold = task.response(frame, target)
    unused = untold.copy()
    for name in used if policy.missing == "drop" else ():
        unused |= values_of(frame[name], name).gaps
    reasons = {f'without a target "{target}"': untold, "with missing values": unused & ~untold}
    dropped = Counter({why: int(rows.sum()) for why, rows in reasons.items()})
    # Selecting rows copies the table, so it is done only if needed.
    return (frame[~unused] if unused.any() else frame), y[~unused], dropped


def rows_left_out(dropped: Counter[str]) -> list[str]:
    """Return a sentence for each reason why rows were left out."""
    return [f"{counted(count, 'row')} {why} left out." for why, count in dropped.items() if count]


def sentences(notes: Iterable[Note]) -> tuple[str, ...]:
    """Return one sentence for each treatment, with the count of each column."""
    by_treatment: dict[str, list[str]] = {}
    for note in notes:
        by_treatment.setdefault(note.treatment, []).append(f"{note.column} ({note.count})")
    return tuple(f"{treatment}: {', '.join(names)}." for treatment, names in by_treatment.items())


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the singular or the plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _columns(frame: Any, policy: Policy) -> tuple[tuple[Column, ...], list[str]]:
    """Decide how each column becomes features, and describe anything unusual."""
    columns: list[Column] = []
    unusual: dict[str, list[str]] = {}
    for name in frame.columns:
        column, remark = _decided(frame[name], name, policy)
        if column is not None:
            columns.append(column)
        if remark:
            unusual.setdefault(remark, []).append(f'"{name}"')
    return tuple(columns), [f"Column {', '.join(names)}: {it}." for it, names in unusual.items()]


def _decided(series: Any, name: str, policy: Policy) -> tuple[Column | None, str | None]:
    """Return how a column becomes features, or None if it is left out, and a remark on it."""
    found = values_of(series, name)
    kind = found.kind
    gaps = found.gaps
    known = found.values[~gaps]
    if len(known) == 0:
        return None, "left out, there is no value"
    if gaps.any() and policy.missing == "error":
        lacking = counted(int(gaps.sum()), "missing value")
        raise ValueError(
            f'Column "{name}" has {lacking}: missing="impute" fills them in, and missing="drop" '
            "leaves out their rows."
        )
    if kind != "category":
        spread = np.ptp(known)
        if spread <= CONSTANT_COLUMN * np.abs(known).max():
            return None, SAME_EVERYWHERE + (" to 12 digits" if spread else "")
        fill = float(np.median(known)) if policy.missing == "impute" else None
        remark = "counted in days since 1970" if kind == "date" else None
        if found.form:
            remark = form_in_words(kind, found.form, series)
        return Column(name, kind, fill, form=found.form), remark
    counts = known.astype(str).value_counts()
    most = policy.categories
    # Text that never repeats is a name or a number of the row, from which nothing is learned.
    if len(counts) == len(known) > 1:
        return None, "left out, text that is different in every row"
    own_missing = [None] if gaps.any() and policy.missing == "impute" else []
    if len(counts) + len(own_missing) < 2:
        return None, SAME_EVERYWHERE
    remark = None
    if len(counts) > FEW_VALUES:
        remark = f"text with {len(counts)} different values, a feature for each"
    if len(counts) > most:
        share = counts.iloc[:most].sum() / counts.sum()
        remark = (
            f"{len(counts)} different values, of which the {most} most frequent "
            f"({share:.0%} of rows) get a feature each and the others none"
        )
    levels = sorted(str(level) for level in counts.index[:most])
    return Column(name, kind, None, (*levels, *own_missing)), remark


def _matrix(columns: Sequence[Column], frame: Any) -> tuple[Array, list[Note]]:
    check_columns((column.name for column in columns), list(frame.columns))
    blocks, notes = zip(*(_encoded(column, frame[column.name]) for column in columns), strict=True)
    return np.concatenate(blocks, axis=1), [note for some in notes for note in some]


def _encoded(column: Column, series: Any) -> tuple[Array, list[Note]]:
    """Return the features of a column, of shape (n, n_features), and notes on its values."""
    if column.kind == "category":
        return _one_hot(column, series)
    found = values_of(series, column.name, column.form, column.kind)
    values = found.values
    if found.kind != column.kind:
        if series.notna().any():
            wanted = KINDS_IN_WORDS[column.kind]
            given = described(found.kind, series, column.kind, column.form)
            raise ValueError(
                f'Column "{column.name}" must be {wanted}, all written as in fitting, not {given}: '
                "correct it, or declare a missing value by --na."
            )
        # Without any value, the kind of a column cannot be detected.
        values = np.full(len(series), np.nan)
    gaps = np.isnan(values)
    count = int(gaps.sum())
    notes = []
    if may_differ(column.kind, column.form, found.form) and count < len(values):
        notes.append(Note(OTHER_FORM, column.name, len(values) - count))
    if count == 0:
        return values[:, None], notes
    if column.fill is None:
        raise ValueError(
            f'Column "{column.name}" has {counted(count, "missing value")}, but the model was '
            "fitted without filling in missing values."
        )
    notes.append(Note(MEDIAN, column.name, count))
    return np.where(gaps, column.fill, values)[:, None], notes


def _one_hot(column: Column, series: Any) -> tuple[Array, list[Note]]:
    gaps = np.asarray(series.isna())
    words = (None if gap else str(value) for value, gap in zip(series, gaps, strict=True))
    places = {level: i for i, level in enumerate(column.levels)}
    found = np.array([places.get(word, -1) for word in words], dtype=np.intp)
    unknown = found < 0
    notes = []
    if None in places and gaps.any():
        notes.append(Note(OWN_CATEGORY, column.name, int(gaps.sum())))
    if unknown.any():
        notes.append(Note(UNKNOWN, column.name, int(unknown.sum())))
    # A value that is not a level has the place -1 and gets zeros only.
    return (found[:, None] == np.arange(len(places))).astype(np.float64), notes


def opening(source: str | Path, *, missing: Sequence[str] = ()) -> Table:
    """Read the first rows of a table; see :func:`stoptime.tables.read_table`."""
    return first_rows(Source.of(source), missing, OPENING_ROWS)


@dataclass(frozen=True)
class TableRows:
    """The rows of a file as blocks of a matrix."""

    source: str
    recipe: Recipe
    target: str
    weights: str | None
    policy: Policy
    missing: Sequence[str] = ()  # words for a missing value
    _notes: Counter[tuple[str, str]] = field(default_factory=Counter, repr=False)
    _left_out: Counter[str] = field(default_factory=Counter, repr=False)

    def chunks(self) -> Chunks:
        """Return the rows as data that are read block by block."""
        names = self.recipe.features
        return Chunks(self._read, len(names), None, names)

    def messages(self) -> tuple[str, ...]:
        """Return messages about the rows of the last pass."""
        notes = [Note(*key, count) for key, count in self._notes.items()]
        return (*rows_left_out(self._left_out), *sentences(notes))

    def _read(self) -> Iterator[Block]:
        self._notes.clear()
        self._left_out.clear()
        source = Source.of(self.source)
        used = [column.name for column in self.recipe.columns]
        for frame in frames(source, text_format(source, self.missing), TABLE_BLOCK_ROWS):
            rows, y, dropped = usable_rows(frame, self.target, used, self.policy, Regression())
            self._left_out.update(dropped)
            X, notes = self.recipe.encode(rows)
            for note in notes:
                self._notes[note.treatment, note.column] += note.count
            weight = None if self.weights is None else numbers_in(rows, self.weights, "weights")
            yield Block(X, y, weight)
