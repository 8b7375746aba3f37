"""Turn a table into a matrix of features: decide once how, and apply that to any rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from stoptime.tables.columns import (
    UNKNOWN,
    Column,
    Kind,
    Note,
    column_kind,
    counted,
    described,
    encoded,
    numbers_of,
    sentences,
)
from stoptime.tables.reading import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoptime.support.arrays import Array

__all__ = ["Policy", "Prepared", "Recipe", "prepare"]

Missing = Literal["impute", "drop", "error"]

MOST_CATEGORIES = 50
CONSTANT_COLUMN = 1e-12  # a column is constant up to this spread, relative to its size
COLUMNS_IN_ERROR = 12  # column names in an error message


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
        if self.missing not in {"impute", "drop", "error"}:
            raise ValueError(f'missing must be "impute", "drop" or "error"; got {self.missing!r}.')
        if self.categories < 1:
            raise ValueError(f"categories must be at least 1; got {self.categories}.")


@dataclass(frozen=True)
class Recipe:
    """How the ``columns`` of a table become features.

    Each feature minus its centre is divided by its scale; these are 0 and 1 if not standardised.
    """

    columns: tuple[Column, ...]
    centres: tuple[float, ...]
    scales: tuple[float, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(name for column in self.columns for name in column.features)

    def transform(self, frame: Any) -> tuple[Array, tuple[str, ...]]:
        """Return X of shape (n, n_features), and messages on values filled in or not recognised.

        The pandas.DataFrame must have all columns of the recipe; other columns are ignored.
        """
        X, notes = self.encode(frame)
        return X, sentences(notes)

    def encode(self, frame: Any) -> tuple[Array, list[Note]]:
        """Return the matrix, and notes on values that can be added up over blocks of rows."""
        X, notes = _matrix(self.columns, frame)
        return np.asarray((X - np.array(self.centres)) / np.array(self.scales)), notes


@dataclass(frozen=True, eq=False)
class Prepared:
    """Matrix, response, weights and recipe of the rows of a table that are used.

    ``messages`` say what was filled in, left out or converted, and how often.
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

    Numbers stay numbers, text and categories get a feature of zeros and ones for each frequent
    value, and dates are counted in days. Rows without a target are left out, and so are the columns
    in ``drop``; ``weights`` names the column of sample weights. ``messages`` lists all changes.

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
    for name in (target, *([weights] if weights else []), *drop):
        _check_column(name, list(frame.columns))
    if target in drop:
        raise ValueError(f'The target "{target}" cannot be dropped.')
    used = [name for name in frame.columns if name not in {target, weights, *drop}]
    # A column without any value is left out as a whole: it must not drop all rows.
    with_values = [name for name in used if not _gaps(frame[name], name).all()]
    frame, dropped = usable_rows(frame, target, with_values, policy)
    y = numbers_in(frame, target)
    if len(y) < 2 or np.ptp(y) == 0:
        few = f"has {counted(len(y), 'row')}" if len(y) < 2 else "is the same in every row"
        raise ValueError(f'The target "{target}" {few}: nothing can be learned from it.')
    sample_weight = None if weights is None else numbers_in(frame, weights, weights=True)
    if sample_weight is not None and not ((sample_weight >= 0).all() and sample_weight.any()):
        raise ValueError(f'The weights in "{weights}" must be non-negative, and not all zero.')
    columns, remarks = _columns(frame[used], policy)
    if not columns:
        raise ValueError(f'No column is left to predict "{target}" from.')
    X, notes = _matrix(columns, frame)
    recipe = _recipe(columns, X, sample_weight, policy)
    # Rare categories count as unknown here, but the remarks already name them.
    filled = sentences(note for note in notes if note.treatment != UNKNOWN)
    X = np.asarray((X - np.array(recipe.centres)) / np.array(recipe.scales))
    messages = (*rows_left_out(dropped), *remarks, *filled)
    return Prepared(X, y, sample_weight, target, recipe, messages)


def _check_column(name: str, known: list[str]) -> None:
    if name not in known:
        more = f" and {len(known) - COLUMNS_IN_ERROR} more" if len(known) > COLUMNS_IN_ERROR else ""
        listed = f"The columns are {', '.join(known[:COLUMNS_IN_ERROR])}{more}."
        raise ValueError(f'There is no column "{name}"{did_you_mean(name, known) or "."} {listed}')


def usable_rows(
    frame: Any, target: str, used: Sequence[str], policy: Policy
) -> tuple[Any, Counter[str]]:
    """Return the rows that can be used, and how many were left out for which reason."""
    dropped: Counter[str] = Counter()
    gaps = np.isnan(numbers_in(frame, target))
    if gaps.any():
        dropped[f'without a target "{target}"'] = int(gaps.sum())
        frame = frame[~gaps]
    if policy.missing == "drop" and used:
        gaps = np.any([_gaps(frame[name], name) for name in used], axis=0)
        if gaps.any():
            dropped["with missing values"] = int(gaps.sum())
            frame = frame[~gaps]
    return frame, dropped


def rows_left_out(dropped: Counter[str]) -> list[str]:
    """Return a sentence for each reason why rows were left out."""
    return [f"{counted(count, 'row')} {why} left out." for why, count in dropped.items()]


def _gaps(series: Any, name: str) -> Any:
    """Return which values are missing or infinite."""
    kind, values = column_kind(series, name)
    return np.asarray(values.isna()) if kind == "category" else np.isnan(numbers_of(kind, values))


def numbers_in(frame: Any, name: str, *, weights: bool = False) -> Array:
    """Return the target or the weights, with NaN for missing and infinite numbers."""
    kind, series = column_kind(frame[name], name)
    if kind == "number":
        return numbers_of(kind, series)
    if weights:
        raise ValueError(f'The weights "{name}" must be numbers, not {described(kind, series)}.')
    raise ValueError(f'The target "{name}" must be numbers, not {described(kind, series)}.')


def _columns(frame: Any, policy: Policy) -> tuple[tuple[Column, ...], list[str]]:
    """Decide how each column becomes features, and say what is unusual about it."""
    columns: list[Column] = []
    unusual: dict[str, list[str]] = {}
    for name in frame.columns:
        kind, series = column_kind(frame[name], name)
        decide = _category if kind == "category" else _number
        column, remark = decide(name, kind, series, policy)
        if column is not None:
            columns.append(column)
        if remark:
            unusual.setdefault(remark, []).append(f'"{name}"')
    return tuple(columns), [f"Column {', '.join(names)}: {it}." for it, names in unusual.items()]


def _number(name: str, kind: Kind, series: Any, policy: Policy) -> tuple[Column | None, str | None]:
    values = numbers_of(kind, series)
    known = values[~np.isnan(values)]
    if known.size == 0:
        return None, "left out, there is no value"
    _check_gaps(name, values.size - known.size, policy)
    if np.ptp(known) <= CONSTANT_COLUMN * np.abs(known).max():
        return None, "left out, the same in every row"
    fill = float(np.median(known)) if policy.missing == "impute" else None
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
    remark = None
    if len(counts) > policy.categories:
        share = counts.iloc[: policy.categories].sum() / counts.sum()
        remark = (
            f"{len(counts)} different values, of which the {policy.categories} most frequent "
            f"({share:.0%} of rows) get a feature each and the others none"
        )
    levels = sorted(str(level) for level in counts.index[: policy.categories])
    return Column(name, kind, None, (*levels, *own_missing)), remark


def _check_gaps(name: str, gaps: int, policy: Policy) -> None:
    if gaps and policy.missing == "error":
        lacking = counted(gaps, "value")
        raise ValueError(f'Column "{name}" misses {lacking}: impute them, or drop their rows.')


def _matrix(columns: Sequence[Column], frame: Any) -> tuple[Array, list[Note]]:
    absent = [column.name for column in columns if column.name not in frame.columns]
    if absent:
        hint = did_you_mean(absent[0], list(map(str, frame.columns)))
        raise ValueError(f'There is no column "{absent[0]}"{hint or "."}')
    blocks, notes = zip(*(encoded(column, frame[column.name]) for column in columns), strict=True)
    return np.concatenate(blocks, axis=1), [note for some in notes for note in some]


def _recipe(columns: tuple[Column, ...], X: Array, weights: Array | None, policy: Policy) -> Recipe:
    p = X.shape[1]
    if not policy.standardise:
        return Recipe(columns, (0.0,) * p, (1.0,) * p)
    centres = np.average(X, axis=0, weights=weights)
    scales = np.sqrt(np.average((X - centres) ** 2, axis=0, weights=weights))
    # A feature may be constant in all rows of positive weight: dividing would blow up rounding.
    scales[scales <= CONSTANT_COLUMN * np.abs(centres)] = 1.0
    return Recipe(columns, tuple(map(float, centres)), tuple(map(float, scales)))
