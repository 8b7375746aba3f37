"""Save fitted models as JSON files and load them: no code is run, every number is kept exactly."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from stoptime.estimators.intervals import jackknife, sizes_of
from stoptime.estimators.linear import StoppedRegressor, StoppedRegressorCV
from stoptime.methods.base import Method
from stoptime.methods.registry import as_content, from_content
from stoptime.spectrum.kinds import DTYPES
from stoptime.support.arrays import on_host
from stoptime.support.files import atomic
from stoptime.support.version import __version__
from stoptime.tables.columns import Kind
from stoptime.tables.pipelines import recipe_of
from stoptime.tables.reading import pandas
from stoptime.tables.recipe import Column, Prepared, Recipe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stoptime.support.arrays import Floats

MODEL_FORMAT = "stoptime-model"
SCHEMA = 1
MOST_BYTES = 2**28  # of a model file; this holds about 13 million numbers
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class PreparationWarning(UserWarning):
    """Values of new rows were filled in or not recognised."""


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A fitted model without its data: :func:`save` writes it and :func:`load` returns it.

    ``method`` is tuned to the data of the fit. ``features`` and ``target`` are names, if known.
    With a ``recipe``, predictions take rows of a table; without one, rows of features.
    ``residuals``, of shape (n, n_targets), are the absolute left-out residuals for intervals, and
    ``observations`` is the number of observations that each row of them stands for.
    """

    method: Method
    stop: float | Floats
    coef: Floats
    intercept: Floats
    features: tuple[str, ...] | None = None
    target: str | None = None
    recipe: Recipe | None = None
    residuals: Floats | None = None
    observations: Floats | None = None

    def predict(self, X: Any) -> Floats:
        """Predict the response, exactly as the model that was saved.

        X is a data frame, or an array with the columns of the table or the features in their order.
        """
        return np.asarray(self._rows(X) @ self.coef.T + self.intercept)

    def predict_interval(self, X: Any, confidence: float = 0.9) -> Floats:
        """Predict lower and upper ends, of shape (n, 2) or (n, n_targets, 2).

        This is the jackknife, as a file has no training rows; see
        :meth:`stoptime.StoppedRegressorCV.predict_interval`. X is as for :meth:`predict`.
        """
        if self.residuals is None or self.observations is None:
            why = "intervals need a model that chose its stop"
            raise ValueError(f"This model has no left-out residuals: {why}.")
        return jackknife(self.predict(X), self.residuals, self.observations, confidence)  # type: ignore[no-any-return]

    def _rows(self, X: Any) -> Floats:
        """Return the rows of the matrix for new data."""
        has_columns = hasattr(X, "columns")
        if self.recipe is not None:
            if not has_columns:
                X = np.asarray(X)
                names = [column.name for column in self.recipe.columns]
                listed = ", ".join(names)
                if X.ndim != 2 or X.shape[1] != len(names):
                    raise ValueError(f"X must have the columns {listed}; got shape {X.shape}.")
                # An array of objects gets back the type of each column.
                X = pandas().DataFrame(X, columns=names).infer_objects()
            rows, messages = self.recipe.transform(X)
            for message in messages:
                warnings.warn(message, PreparationWarning, stacklevel=3)
            return rows
        if has_columns and self.features not in {None, tuple(map(str, X.columns))}:
            wanted = ", ".join(self.features or ())
            raise ValueError(f"X must have the columns {wanted}, in this order.")
        rows = np.asarray(check_array(X, dtype=DTYPES, input_name="X"))
        p = self.coef.shape[-1]
        if rows.shape[1] != p:
            raise ValueError(f"X has {rows.shape[1]} features, but the model has {p}.")
        return rows

    def __repr__(self) -> str:
        stop = f"{self.stop:.4g}" if np.ndim(self.stop) == 0 else "one for each target"
        return f"Model({self.method}, stop {stop}, {self.coef.shape[-1]} features)"


def save(model: Any, target: str | Path, *, prepared: Prepared | None = None) -> None:
    """Write a fitted StoppedRegressor, StoppedRegressorCV or Model to a JSON file.

    A Pipeline may end with one of them, after SimpleImputer for numbers, OneHotEncoder for text,
    StandardScaler and ColumnTransformer: what ``stoptime fit`` itself does to a table.
    With the ``prepared`` table of the fit, the loaded model predicts for rows of such a table.
    A write that fails leaves no file.
    """
    content = _content(as_model(model, prepared))
    with atomic(Path(target)) as path:
        path.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")


def load(source: str | Path) -> Model:
    """Read a model file, of at most 256 MiB, that :func:`save` has written.

    Nothing in the file is run. Any other file is refused with a ValueError that says why.
    """
    path = Path(source)
    size = path.stat().st_size
    try:
        # A device such as /dev/zero could be read for ever.
        _require(path.is_file(), "it is not a file.")
        _require(size <= MOST_BYTES, f"it has {size} bytes, more than {MOST_BYTES}.")
        return _model(json.loads(path.read_bytes().decode("utf-8"), object_pairs_hook=_once))
    except RecursionError:
        reason = "it is nested too deeply."
    except UnicodeDecodeError:
        reason = "it is not text in UTF-8."
    except json.JSONDecodeError as error:
        reason = f"it is not JSON ({error})."
    except ValueError as error:
        reason = str(error)
    raise ValueError(f"{path} is not a model of stoptime: {reason}")


def as_model(model: Any, prepared: Prepared | None = None) -> Model:
    """Return the parts of a fitted estimator that predictions need."""
    if isinstance(model, Model):
        return model
    if prepared is not None:
        recipe = prepared.recipe
        target = prepared.target
        return replace(as_model(model), features=recipe.features, target=target, recipe=recipe)
    if isinstance(model, Pipeline):
        recipe, last = recipe_of(model)
        return replace(as_model(last), features=recipe.features, recipe=recipe)
    if not isinstance(model, StoppedRegressor | StoppedRegressorCV):
        known = "StoppedRegressor, StoppedRegressorCV, and pipelines that end with one of them"
        raise TypeError(f"Only {known} can be saved, not {model!r:.80}: pickle it instead.")
    if hasattr(model, "dual_coef_"):
        raise TypeError("Kernel models contain their training rows: pickle them instead.")
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    residuals = getattr(model, "left_out_residuals_", None)
    return Model(
        model.method_, model.stop_, on_host(model.coef_), on_host(model.intercept_),
        None if names is None else tuple(map(str, names)),
        residuals=None if residuals is None else sizes_of(residuals),
        observations=None if residuals is None else model._observations,
    )  # fmt: skip


def _content(model: Model) -> dict[str, Any]:
    """Return the model as types that JSON has."""
    stops = np.asarray(model.stop, dtype=np.float64)
    # JSON has no infinity.
    words = [float(stop) if np.isfinite(stop) else "inf" for stop in stops.ravel()]
    shares = model.observations
    # Rows without weights all count the same: one number is enough.
    same = shares is not None and np.ptp(shares) == 0
    return {
        "format": MODEL_FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "method": as_content(model.method),
        "stop": words if stops.ndim else words[0],
        "dtype": str(model.coef.dtype),
        "coef": model.coef.tolist(),
        "intercept": model.intercept.tolist(),
        "features": model.features,
        "target": model.target,
        "recipe": None if model.recipe is None else asdict(model.recipe),
        "residuals": None if model.residuals is None else model.residuals.T.tolist(),
        "observations": None if shares is None else float(shares[0]) if same else shares.tolist(),
    }


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, whose keys may not be repeated."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        _require(key not in found, f'the key "{key[:40]}" is given twice.')
        found[key] = value
    return found


def _model(file: Any) -> Model:
    """Build the model, and refuse a file that differs from what :func:`save` writes for it."""
    _require(isinstance(file, dict), "it must be a JSON object.")
    _require(file.get("format") == MODEL_FORMAT, f'its "format" must be "{MODEL_FORMAT}".')
    schema = file.get("schema")
    _require(type(schema) is int and schema > 0, '"schema" must be a whole number from 1 on.')
    _require(schema <= SCHEMA, f"it has schema {schema} of a newer stoptime: upgrade to read it.")
    _require(isinstance(file.get("version"), str), '"version" must be text.')
    parts: dict[str, Any] = {}
    for key, read in READERS.items():
        _require(key in file, f'"{key}" is missing.')
        try:
            parts[key] = None if file[key] is None and key in OPTIONAL else read(file[key])
        except FAULTS as error:
            raise ValueError(f'"{key}" is wrong ({str(error)[:200]}).') from error
    dtype = parts.pop("dtype")
    # The memory order of a fitted model, so that predictions round in the same way.
    parts["coef"] = np.asfortranarray(parts["coef"], dtype)
    parts["intercept"] = np.asarray(parts["intercept"], dtype)
    if parts["residuals"] is not None and np.ndim(parts["observations"]) == 0:
        parts["observations"] = np.full(len(parts["residuals"]), parts["observations"], np.float64)
    model = Model(**parts)
    for key, right in _consistent(model):
        _require(right, f'"{key}" does not fit the other entries.')
    # This comparison finds wrong types and unknown keys, without a library such as msgspec.
    written = _content(model) | {"version": file["version"]}
    for key in file.keys() | written.keys():
        # JSON text, unlike ==, tells 1 from 1.0 and from true; it has no infinity.
        found, expected = (json.dumps(one.get(key), allow_nan=False) for one in (file, written))
        same = key in written and found == expected
        _require(same, f'"{key[:40]}" is not as stoptime writes it.')
    return model


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _read_stop(content: Any) -> float | Floats:
    if isinstance(content, list):
        return np.array([_read_stop(one) for one in content])
    return np.inf if content == "inf" else float(content)


def _read_recipe(content: Any) -> Recipe:
    columns = []
    for one in content["columns"]:
        fill = None if one["fill"] is None else float(one["fill"])
        levels = tuple(None if level is None else str(level) for level in one["levels"])
        columns.append(Column(str(one["name"]), one["kind"], fill, levels))
    centres, scales = (tuple(map(float, content[key])) for key in ("centres", "scales"))
    return Recipe(tuple(columns), centres, scales)


_read_numbers = partial(np.array, dtype=np.float64)
READERS: dict[str, Callable[[Any], Any]] = {
    "method": lambda content: from_content(dict(content)),
    "stop": _read_stop,
    "dtype": {"float32": np.float32, "float64": np.float64}.__getitem__,
    "coef": _read_numbers,
    "intercept": _read_numbers,
    "features": lambda content: tuple(map(str, content)),
    "target": str,
    "recipe": _read_recipe,
    "residuals": lambda content: _read_numbers(content).T,
    "observations": _read_numbers,
}
OPTIONAL = {"features", "target", "recipe", "residuals", "observations"}  # these may be null


def _consistent(model: Model) -> Iterator[tuple[str, Any]]:
    """Yield each key and whether its shape and range fit the model."""
    yield "coef", model.coef.ndim in {1, 2} and model.coef.size
    p = model.coef.shape[-1]
    targets = model.coef.shape[:-1]
    yield "intercept", model.intercept.shape == targets
    yield "stop", np.shape(model.stop) in {(), targets} and np.all(np.asarray(model.stop) >= 0)
    yield "features", model.features is None or len(model.features) == p
    recipe = model.recipe
    if recipe is not None:
        yield "recipe", recipe.features == model.features
        yield "recipe", len(recipe.centres) == len(recipe.scales) == p and min(recipe.scales) > 0
        yield "recipe", len({column.name for column in recipe.columns}) == len(recipe.columns)
        for column in recipe.columns:
            yield "recipe", column.kind in get_args(Kind)
            yield "recipe", (column.kind == "category") == bool(column.levels)
            yield "recipe", len(set(column.levels)) == len(column.levels)
    sizes = model.residuals
    shares = model.observations
    yield "observations", (sizes is None) == (shares is None)
    if sizes is not None and shares is not None:
        fits = sizes.ndim == 2 and sizes.shape[1] == np.prod(targets)
        yield "residuals", fits and np.all(sizes >= 0)
        yield "observations", len(shares) == len(sizes) and np.all(shares >= 0) and shares.any()
