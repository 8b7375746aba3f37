"""Turn a fitted Pipeline of scikit-learn into the recipe of a model file, which has no code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.validation import check_is_fitted

from stoptime.support.arrays import Array
from stoptime.tables.recipe import Column, Recipe


@dataclass(frozen=True)
class _Part:
    """A column of the table; centre and scale of each of its features, None before scaling."""

    column: Column
    scaled: Array | None = None

    @property
    def is_raw(self) -> bool:
        """Whether the column is still as it was in the table."""
        return self.scaled is None and self.column.fill is None and not self.column.levels

    @property
    def scaling(self) -> Array:
        """Centres and scales as two rows; zeros and ones where nothing is scaled."""
        width = len(self.column.features)
        return np.array([[0.0] * width, [1.0] * width]) if self.scaled is None else self.scaled


def recipe_of(pipeline: Pipeline) -> tuple[Recipe, Any]:
    """Return the recipe of all steps but the last, and the last step, which is the model."""
    check_is_fitted(pipeline)
    names = getattr(pipeline, "feature_names_in_", None)
    if names is None:
        if any(isinstance(step, ColumnTransformer) for _, step in pipeline.steps):
            raise ValueError("Columns need names to be saved: fit the pipeline to a data frame.")
        names = [f"x{i}" for i in range(pipeline.n_features_in_)]
    parts = _applied(pipeline[:-1], [_Part(Column(str(name), "number")) for name in names])
    scaling = np.concatenate([part.scaling for part in parts], axis=1).tolist()
    recipe = Recipe(tuple(part.column for part in parts), *map(tuple, scaling))
    return recipe, pipeline.steps[-1][1]


def _applied(step: Any, parts: list[_Part]) -> list[_Part]:
    """Return the parts after a step of the pipeline, which may contain further steps."""
    if isinstance(step, Pipeline):
        return reduce(lambda done, inner: _applied(inner[1], done), step.steps, parts)
    if isinstance(step, ColumnTransformer):
        columns = ((inner, _picked(parts, chosen)) for _, inner, chosen in step.transformers_)
        return [part for inner, some in columns for part in _applied(inner, some)]
    treatment = TREATMENTS.get(step if isinstance(step, str) else type(step))
    found = None if treatment is None else treatment(step, parts)
    if found is None:
        raise TypeError(
            f"A model file cannot hold {step!r:.80} here. It holds SimpleImputer for numbers or "
            'OneHotEncoder(handle_unknown="ignore") for text, then StandardScaler, and '
            "ColumnTransformer. Pickle the pipeline, or save its last step alone."
        )
    return found


def _picked(parts: list[_Part], chosen: Any) -> list[_Part]:
    """Return the parts that a ColumnTransformer has chosen, by names, numbers, a slice or mask."""
    if isinstance(chosen, slice):
        return parts[chosen]
    some = np.atleast_1d(chosen)
    if some.dtype.kind in "OU":
        by_name = {part.column.name: part for part in parts}
        return [by_name[name] for name in some]
    return [parts[place] for place in np.arange(len(parts))[some]] if some.size else []


def _passed(step: Any, parts: list[_Part]) -> list[_Part] | None:
    """Return the parts as they are; a fitted ColumnTransformer passes them by a function."""
    return parts if getattr(step, "func", None) is None else None


def _filled(step: SimpleImputer, parts: list[_Part]) -> list[_Part] | None:
    """Return the parts with the number that replaces missing ones."""
    given = step.statistics_.tolist()
    fills = [fill if isinstance(fill, int | float) else np.nan for fill in given]
    raw = all(part.is_raw for part in parts)
    if step.add_indicator or not (raw and np.isfinite(fills).all()):
        return None
    return [_with(part, fill=float(fill)) for part, fill in zip(parts, fills, strict=True)]


def _encoded(step: OneHotEncoder, parts: list[_Part]) -> list[_Part] | None:
    """Return the parts with their categories, if every value that was seen has a feature."""
    rare = step.min_frequency is not None or step.max_categories is not None
    raw = all(part.is_raw for part in parts)
    if step.handle_unknown != "ignore" or step.drop is not None or rare or not raw:
        return None
    pairs = zip(parts, map(_levels, step.categories_), strict=True)
    return [_with(part, kind="category", levels=levels) for part, levels in pairs]


def _levels(values: Any) -> tuple[str | None, ...]:
    """Return the categories of a column of text; None, at the end, stands for a missing value."""
    *levels, last = values.tolist()
    if not isinstance(last, str) and (last is None or np.isnan(last)):
        last = None
    if not all(isinstance(one, str) for one in (*levels, last or "")):
        raise TypeError("Only categories that are text can be saved: convert the column to text.")
    return (*levels, last)


def _scaled(step: StandardScaler, parts: list[_Part]) -> list[_Part] | None:
    """Return the parts with the centre and the scale of each of their features."""
    if any(part.scaled is not None for part in parts):
        return None
    both = np.concatenate([part.scaling for part in parts], axis=1)
    if step.with_mean:
        both[0] = step.mean_
    if step.with_std:
        both[1] = step.scale_
    ends = np.cumsum([len(part.column.features) for part in parts])[:-1]
    pairs = zip(parts, np.split(both, ends, axis=1), strict=True)
    return [replace(part, scaled=scaled) for part, scaled in pairs]


def _with(part: _Part, **changes: Any) -> _Part:
    return replace(part, column=replace(part.column, **changes))


TREATMENTS: dict[Any, Callable[[Any, list[_Part]], list[_Part] | None]] = {
    "drop": lambda *_: [],
    "passthrough": _passed,
    type(None): _passed,
    FunctionTransformer: _passed,
    SimpleImputer: _filled,
    OneHotEncoder: _encoded,
    StandardScaler: _scaled,
}
"""What each step does to the parts; None where a file cannot hold it."""
