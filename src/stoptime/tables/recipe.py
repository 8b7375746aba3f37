"""From a table to a matrix: which column becomes which features, fitted once and applied to any rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stoptime.methods.base import Array
from stoptime.tables.columns import (
    UNKNOWN,
    Column,
    Kind,
    Note,
    column_kind,
    described,
    encoded,
    numbers_of,
    sentences,
)
from stoptime.tables.reading import did_you_mean

__all__ = ["Policy", "Prepared", "Recipe", "prepare"]

Missing = Literal["impute", "drop", "error"]

MOST_CATEGORIES = 50
CONSTANT = 1e-12  # spread relative to size, up to which a column is constant
SHOWN = 12  # column names in an error message


@dataclass(frozen=True)
class Policy:
    """How a table is prepared.

    Attributes
    ----------
    missing : {"impute", "drop", "error"}
        "impute" takes the median of a number and gives missing text a category of its own; "drop" leaves
        rows with a missing value out; "error" refuses them.
    categories : int
        Features made of one text column, at most: one for each of its most frequent values.
    standardise : bool
        Whether every feature is brought to mean zero and variance one.
    """

    missing: Missing = "impute"
    categories: int = MOST_CATEGORIES
    standardise: bool = True

    def __post_init__(self) -> None:
        if self.missing not in {"impute", "drop", "error"}:
            raise ValueError(f'missing must be "impute", "drop" or "error"; got {self.missing!r}.')
        if self.categories < 1:
            raise ValueError(f"categories must be at least 1; got {self.categories}.")


@dataclass(frozen=True)
class Recipe:
    """What turns rows of a table into rows of a matrix.

    Attributes
    ----------
    columns : tuple of Column
        Those that are used, in their order.
    centres, scales : tuples of float
        Subtracted from each feature, and what it is then divided by; zeros and ones where not standardised.
    """

    columns: tuple[Column, ...]
    centres: tuple[float, ...]
    scales: tuple[float, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(name for column in self.columns for name in column.features)

    def transform(self, frame: Any) -> tuple[Array, tuple[str, ...]]:
        """Return the matrix of a table, and what a reader should know about its values.

        Parameters
        ----------
        frame : pandas.DataFrame
            With all columns of the recipe; others are ignored.

        Returns
        -------
        X : array of shape (n, n_features)
        messages : tuple of str
        """
        X, notes = self.encode(frame)
        return X, sentences(notes)

    def encode(self, frame: Any) -> tuple[Array, list[Note]]:
        """Return the matrix of a table, and notes on its values that can be counted together."""
        X, notes = _matrix(self.columns, frame)
        return np.asarray((X - np.array(self.centres)) / np.array(self.scales)), notes


@dataclass(frozen=True, eq=False)
class Prepared:
    """Matrix, response and recipe of a table.

    Attributes
    ----------
    X, y : arrays of shape (n, n_features) and (n,)
        The rows that are used.
    sample_weight : array of shape (n,) or None
        From the column of weights.
    target : str
        The column that is predicted.
    recipe : Recipe
        How X was made.
    messages : tuple of str
        What was filled in, left out or converted, and how often.
    """

    X: Array
    y: Array
    sample_weight: Array | None
    target: str
    recipe: Recipe
    messages: tuple[str, ...] = ()


def prepare(
    frame: Any,
    target: str,
    policy: Policy | None = None,
    *,
    weights: str | None = None,
    drop: Sequence[str] = (),
) -> Prepared:
    """Turn a table into a matrix of features and a response.

    Numbers stay, text and categories get a feature of zeros and ones for each frequent value, dates are
    counted in days. Nothing is done silently: see ``messages``.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    target : str
        The column to predict; rows where it is missing are left out.
    policy : Policy, optional
        What to do with missing values and categories, and whether to standardise.
    weights : str, optional
        The column of sample weights.
    drop : sequence of str
        Columns not to be used.

    Returns
    -------
    Prepared

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [1, 2, None, 4], "town": list("abab"), "y": [1.0, 2.0, 3.0, 4.0]})
    >>> prepared = prepare(frame, "y")
    >>> prepared.recipe.features
    ('age', 'town=a', 'town=b')
    >>> prepared.messages
    ('Missing values, set to the median: age (1).',)
    """
    policy = policy or Policy()
    frame = frame.rename(columns=str)
    for name in (target, *([weights] if weights else []), *drop):
        if name not in frame.columns:
            raise ValueError(_no_such_column(name, list(frame.columns)))
    if target in drop:
        raise ValueError(f'The target "{target}" cannot be dropped.')
    used = [name for name in frame.columns if name not in {target, weights, *drop}]
    frame, messages = _usable_rows(frame, target, used, policy)
    y = numbers_of("number", column_kind(frame[target], target)[1])
    if len(y) < 2 or np.ptp(y) == 0:
        few = (
            f"there is {_rows(len(y))} to learn from"
            if len(y) < 2
            else "it is the same in every row"
        )
        raise ValueError(f'Nothing can be learned about "{target}": {few}.')
    sample_weight = None if weights is None else _weights(frame[weights], weights)
    columns, notes = _columns(frame[used], policy)
    if not columns:
        raise ValueError(f'No column is left to predict "{target}" from.')
    X, treated = _matrix(columns, frame)
    recipe, X = _standardised(columns, X, sample_weight, policy)
    rare_are_told = sentences(note for note in treated if note.treatment != UNKNOWN)
    return Prepared(X, y, sample_weight, target, recipe, (*messages, *notes, *rare_are_told))


def _no_such_column(name: str, known: list[str]) -> str:
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    hint = did_you_mean(name, known) or "."
    return f'There is no column "{name}"{hint} The columns are {", ".join(known[:SHOWN])}{more}.'


def _usable_rows(frame: Any, target: str, used: list[str], policy: Policy) -> tuple[Any, list[str]]:
    """Return the rows that have a target, and by policy all else."""
    kind, series = column_kind(frame[target], target)
    if kind != "number":
        raise ValueError(f'The target "{target}" must be numbers, not {described(kind, series)}.')
    gaps, messages = np.isnan(numbers_of(kind, series)), []
    if gaps.any():
        messages.append(f'{_rows(int(gaps.sum()))} without a target "{target}" left out.')
        frame = frame[~gaps]
    if policy.missing == "drop":
        gaps = np.zeros(len(frame), dtype=bool)
        for name in used:
            empty = _gaps(frame[name], name)
            gaps |= empty & ~empty.all()
        if gaps.any():
            messages.append(f"{_rows(int(gaps.sum()))} with missing values left out.")
            frame = frame[~gaps]
    return frame, messages


def _gaps(series: Any, name: str) -> Any:
    kind, values = column_kind(series, name)
    return np.asarray(values.isna()) if kind == "category" else np.isnan(numbers_of(kind, values))


def _weights(series: Any, name: str) -> Array:
    kind, series = column_kind(series, name)
    values = numbers_of(kind, series) if kind == "number" else np.full(len(series), np.nan)
    if not (values >= 0).all():
        raise ValueError(
            f'The weights in "{name}" must be non-negative numbers, none of them missing.'
        )
    if not values.any():
        raise ValueError(f'The weights in "{name}" are all zero.')
    return values


def _columns(frame: Any, policy: Policy) -> tuple[tuple[Column, ...], list[str]]:
    """Decide what becomes of each column, and say so."""
    columns: list[Column] = []
    told: dict[str, list[str]] = {}
    for name in frame.columns:
        kind, series = column_kind(frame[name], name)
        found, note = (_category if kind == "category" else _number)(name, kind, series, policy)
        if found is not None:
            columns.append(found)
        if note:
            told.setdefault(note, []).append(f'"{name}"')
    return tuple(columns), [f"Column {', '.join(names)}: {note}." for note, names in told.items()]


def _number(name: str, kind: Kind, series: Any, policy: Policy) -> tuple[Column | None, str | None]:
    values = numbers_of(kind, series)
    there = values[~np.isnan(values)]
    if there.size == 0:
        return None, "left out, there is no value"
    _check_gaps(name, values.size - there.size, policy)
    if np.ptp(there) <= CONSTANT * np.abs(there).max():
        return None, "left out, the same in every row"
    fill = float(np.median(there)) if policy.missing == "impute" else None
    return Column(name, kind, fill), "counted in days since 1970" if kind == "date" else None


def _category(
    name: str, kind: Kind, series: Any, policy: Policy
) -> tuple[Column | None, str | None]:
    counts = series.dropna().astype(str).value_counts()
    gaps = int(series.isna().sum())
    _check_gaps(name, gaps, policy)
    if len(counts) > policy.categories and len(counts) == len(series) - gaps:
        return None, "left out, text that is different in every row"
    own_missing = [None] if gaps and policy.missing == "impute" else []
    if len(counts) + len(own_missing) < 2:
        return None, "left out, the same in every row"
    note = None
    if len(counts) > policy.categories:
        share = counts.iloc[: policy.categories].sum() / counts.sum()
        note = (
            f"{len(counts)} different values, of which the {policy.categories} most frequent "
            f"({share:.0%} of rows) get a feature each and the others none"
        )
    levels = sorted(str(level) for level in counts.index[: policy.categories])
    return Column(name, kind, None, (*levels, *own_missing)), note


def _check_gaps(name: str, gaps: int, policy: Policy) -> None:
    if gaps and policy.missing == "error":
        values = "1 value" if gaps == 1 else f"{gaps} values"
        raise ValueError(f'Column "{name}" misses {values}: impute them, or drop their rows.')


def _matrix(columns: Sequence[Column], frame: Any) -> tuple[Array, list[Note]]:
    absent = [column.name for column in columns if column.name not in frame.columns]
    if absent:
        hint = did_you_mean(absent[0], list(map(str, frame.columns)))
        raise ValueError(f'There is no column "{absent[0]}"{hint or "."}')
    blocks, notes = zip(*(encoded(column, frame[column.name]) for column in columns), strict=True)
    return np.concatenate(blocks, axis=1), [note for some in notes for note in some]


def _standardised(
    columns: tuple[Column, ...], X: Array, weights: Array | None, policy: Policy
) -> tuple[Recipe, Array]:
    p = X.shape[1]
    if not policy.standardise:
        return Recipe(columns, (0.0,) * p, (1.0,) * p), X
    centres = np.average(X, axis=0, weights=weights)
    scales = np.sqrt(np.average((X - centres) ** 2, axis=0, weights=weights))
    scales[scales <= CONSTANT * np.abs(centres)] = 1.0  # the same in all rows of positive weight
    recipe = Recipe(columns, tuple(map(float, centres)), tuple(map(float, scales)))
    return recipe, np.asarray((X - centres) / scales)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"
