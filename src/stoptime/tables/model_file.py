"""Save fitted models as JSON files and load them: no code is run, every number is kept exactly."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from stoptime.estimators.intervals import LeftOutChanges
from stoptime.methods.registry import as_content, from_content
from stoptime.support.arrays import Floats
from stoptime.support.files import atomic
from stoptime.support.version import __version__
from stoptime.support.wording import did_you_mean
from stoptime.tables.columns import Kind
from stoptime.tables.model import Classes, Model, as_model
from stoptime.tables.recipe import Column, Prepared, Recipe

MODEL_FORMAT = "stoptime-model"
SCHEMA = 2
SINGLE = "<f4"  # little-endian single precision
MOST_BYTES = 2**28  # of a model file; this holds about 13 million numbers
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def save(model: Any, target: str | Path, *, prepared: Prepared | None = None) -> None:
    """Write a fitted StoppedRegressor(CV), StoppedClassifier(CV) or Model to a JSON file.

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
    if not path.exists():
        hint = did_you_mean(path.name, [one.name for one in path.parent.glob("*.json")]) or "."
        raise FileNotFoundError(f"The model file {path} does not exist{hint}")
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
        reason = f"it is not JSON ({error}). Give the file that --model or stoptime.save wrote."
    except ValueError as error:
        reason = str(error)
    raise ValueError(f"{path} is not a model of stoptime: {reason}")


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
        "left_out": None if model.left_out is None else _written(model.left_out),
        "classes": None if model.classes is None else model.classes.content(),
        "original_units": _original_units(model),
    }


def _original_units(model: Model) -> dict[str, Any] | None:
    """Return the coefficients of the columns as they are in the table, for people who read them."""
    if model.recipe is None:
        return None
    coef, intercept = model.recipe.in_original_units(model.coef, model.intercept)
    return {"coef": coef.tolist(), "intercept": intercept.tolist()}


def _written(changes: LeftOutChanges) -> dict[str, Any]:
    text = base64.b64encode(changes.values.astype(SINGLE).tobytes()).decode()
    shape = list(changes.values.shape)
    return {"mean": changes.mean.tolist(), "unit": changes.unit, "shape": shape, "changes": text}


def _read_changes(content: Any) -> LeftOutChanges:
    values = np.frombuffer(base64.b64decode(content["changes"], validate=True), SINGLE)
    values = values.reshape(content["shape"]).astype(np.float32)
    return LeftOutChanges(_read_numbers(content["mean"]), float(content["unit"]), values)


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
    if schema == 1:
        file = _upgraded(file)
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
    # Products of matrices round differently on other machines; nothing is computed from these.
    file["original_units"] = written["original_units"]
    for key in (*written, *file):
        # JSON text, unlike ==, tells 1 from 1.0 and from true; it has no infinity.
        found, expected = (json.dumps(one.get(key), allow_nan=False) for one in (file, written))
        same = key in written and found == expected
        _require(same, f'"{key[:40]}" is not as stoptime writes it.')
    return model


def _upgraded(file: dict[str, Any]) -> dict[str, Any]:
    """Return a file of schema 1, which knew no classes and no forms of text, as one of schema 2."""
    recipe = file.get("recipe")
    if isinstance(recipe, dict) and isinstance(recipe.get("columns"), list):
        columns = [{**one, "form": ""} for one in recipe["columns"] if isinstance(one, dict)]
        recipe = {**recipe, "columns": columns, "missing": []}
    return {**file, "schema": 2, "recipe": recipe, "left_out": None, "classes": None}


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
        columns.append(Column(str(one["name"]), one["kind"], fill, levels, str(one["form"])))
    centres, scales = (tuple(map(float, content[key])) for key in ("centres", "scales"))
    return Recipe(tuple(columns), centres, scales, tuple(map(str, content["missing"])))


def _read_classes(content: Any) -> Classes:
    slope = content["slope"]
    slope = None if slope is None else float(slope)
    return Classes(np.array(content["labels"]), slope, float(content["shift"]))


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
    "left_out": _read_changes,
    "classes": _read_classes,
}
OPTIONAL = {one.name for one in fields(Model) if one.default is None}  # these may be null


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
    if model.left_out is not None:
        changes = model.left_out
        yield "left_out", sizes is not None and changes.values.shape == (*sizes.shape, 1 + p)
        yield "left_out", np.isfinite(changes.values).all() and changes.unit > 0
        yield "left_out", changes.mean.shape == (p,)
    if model.classes is not None:
        labels = model.classes.labels
        yield "classes", labels.ndim == 1 and len(np.unique(labels)) == len(labels) > 1
        yield "classes", targets == (() if len(labels) == 2 else labels.shape)
        yield "classes", model.classes.slope is None or model.classes.slope > 0
