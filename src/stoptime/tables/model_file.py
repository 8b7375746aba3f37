"""Models as files: JSON with a schema, nothing that runs, and every number back to the last bit."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from stoptime.estimators.intervals import jackknife, sizes_of
from stoptime.estimators.linear import StoppedRegressor, StoppedRegressorCV
from stoptime.methods import ALL_METHODS, Method
from stoptime.spectrum.base import Floats
from stoptime.spectrum.dense import DTYPES
from stoptime.support.arrays import on_host
from stoptime.support.files import atomic
from stoptime.support.version import __version__
from stoptime.tables import Column, Prepared, Recipe, pandas
from stoptime.tables.columns import Kind
from stoptime.tables.schema import Object, decoded, numbers, text, texts

__all__ = ["Model", "PreparationWarning", "load", "save"]

FORMAT = "stoptime-model"
SCHEMA = 1
MOST_BYTES = 2**28  # of a file: thirteen million numbers


class PreparationWarning(UserWarning):
    """Values of new rows were filled in or not recognised."""


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A fitted model without its data: what :func:`save` writes and :func:`load` returns.

    Attributes
    ----------
    method : Method
        Tuned to the data it was fitted to.
    stop : float or array of shape (n_targets,)
        Where it was stopped.
    coef : array of shape (n_features,) or (n_targets, n_features)
        Coefficients of the features.
    intercept : array of shape () or (n_targets,)
        Intercept.
    features : tuple of str or None
        Names of the features, where they are known.
    target : str or None
        Name of the response, where it is known.
    recipe : Recipe or None
        How features are made from the columns of a table; None where rows are given as features.
    residuals : array of shape (n, n_targets) or None
        Sizes of the left-out residuals, from which intervals are made.
    observations : array of shape (n,) or None
        How many observations each of them stands for.
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
        """Predict the response, bit for bit as the model that was saved.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_columns)
            New rows: the columns of the table where there is a recipe, else the features.

        Returns
        -------
        array of shape (n,) or (n, n_targets)
        """
        return np.asarray(self._rows(X) @ self.coef.T + self.intercept)

    def predict_interval(self, X: Any, confidence: float = 0.9) -> Floats:
        """Predict intervals; see :meth:`stoptime.StoppedRegressorCV.predict_interval`.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, n_columns)
            As for :meth:`predict`.
        confidence : float, default=0.9
            Between 0 and 1.

        Returns
        -------
        array of shape (n, 2) or (n, n_targets, 2)
            Lower and upper ends.
        """
        if self.residuals is None or self.observations is None:
            raise ValueError(
                "This model has no left-out residuals: intervals need one that chose its stop."
            )
        return jackknife(self.predict(X), self.residuals, self.observations, confidence)  # type: ignore[no-any-return]

    def _rows(self, X: Any) -> Floats:
        if self.recipe is not None:
            frame = X if hasattr(X, "columns") else self._framed(X)
            rows, messages = self.recipe.transform(frame)
            for message in messages:
                warnings.warn(message, PreparationWarning, stacklevel=3)
            return rows
        names = None if not hasattr(X, "columns") else tuple(map(str, X.columns))
        if names is not None and self.features is not None and names != self.features:
            raise ValueError(f"X must have the columns {', '.join(self.features)}, in this order.")
        rows = np.asarray(check_array(X, dtype=DTYPES, input_name="X"))
        if rows.shape[1] != self.coef.shape[-1]:
            raise ValueError(
                f"X has {rows.shape[1]} features, but the model has {self.coef.shape[-1]}."
            )
        return rows

    def _framed(self, X: Any) -> Any:
        names = [column.name for column in self.recipe.columns] if self.recipe else []
        rows = np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != len(names):
            raise ValueError(f"X must have the columns {', '.join(names)}; got shape {rows.shape}.")
        return pandas().DataFrame(rows, columns=names).infer_objects()

    def __repr__(self) -> str:
        stop = f"{self.stop:.4g}" if np.ndim(self.stop) == 0 else "one for each target"
        return f"Model({self.method}, stop {stop}, {self.coef.shape[-1]} features)"


def save(model: Any, target: str | Path, *, prepared: Prepared | None = None) -> None:
    """Write a fitted model to a JSON file, whole or not at all.

    Parameters
    ----------
    model : StoppedRegressor, StoppedRegressorCV or Model
        Fitted.
    target : str or Path
        The file.
    prepared : Prepared, optional
        The table the model was fitted to, so that it predicts for rows of such a table.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StoppedRegressorCV().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.json")
    ...     same = load(f"{folder}/model.json")
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """
    content = _content(as_model(model, prepared))
    with atomic(Path(target)) as path:
        path.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")


def load(source: str | Path) -> Model:
    """Read a model that :func:`save` has written.

    Nothing in the file is run. What is not exactly such a file is refused with a ValueError that says why.

    Parameters
    ----------
    source : str or Path
        The file, of at most 256 MiB.

    Returns
    -------
    Model
    """
    path = Path(source)
    size = path.stat().st_size
    if not path.is_file():
        raise ValueError(f"{path} is no model: it is not a file.")
    if size > MOST_BYTES:
        raise ValueError(f"{path} is no model: it has {size} bytes, more than {MOST_BYTES}.")
    try:
        return _model(Object(decoded(path.read_bytes()), "the file"))
    except ValueError as error:
        raise ValueError(f"{path} is no model of stoptime: {error}") from error


def as_model(model: Any, prepared: Prepared | None = None) -> Model:
    """Return what of a fitted estimator a prediction needs."""
    if isinstance(model, Model):
        return model
    if not isinstance(model, StoppedRegressor | StoppedRegressorCV):
        raise TypeError(
            f"Only StoppedRegressor and StoppedRegressorCV can be saved, not {model!r}."
        )
    if hasattr(model, "dual_coef_"):
        raise TypeError(
            "Models of kernels hold their training rows, and are not saved: pickle them."
        )
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    features = None if names is None else tuple(map(str, names))
    residuals = getattr(model, "left_out_residuals_", None)
    return Model(
        model.method_,
        model.stop_,
        on_host(model.coef_),
        on_host(model.intercept_),
        features if prepared is None else prepared.recipe.features,
        None if prepared is None else prepared.target,
        None if prepared is None else prepared.recipe,
        None if residuals is None else sizes_of(residuals),
        None if residuals is None else model._observations,
    )


def _content(model: Model) -> dict[str, Any]:
    """Return the model as what JSON can hold."""
    method = model.method
    if ALL_METHODS.get(method.name) is not type(method):
        raise ValueError(f"{method} cannot be saved: it is none of {', '.join(ALL_METHODS)}.")
    stops = np.asarray(model.stop, dtype=np.float64)
    sizes, shares = model.residuals, model.observations
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "method": {
            "name": method.name,
            **{f.name: getattr(method, f.name) for f in fields(method)},
        },
        "stop": _finite_or_word(stops),
        "dtype": str(model.coef.dtype),
        "coef": model.coef.tolist(),
        "intercept": model.intercept.tolist(),
        "features": None if model.features is None else list(model.features),
        "target": model.target,
        "recipe": None if model.recipe is None else _recipe_content(model.recipe),
        "residuals": None if sizes is None else sizes.T.tolist(),
        "observations": None if shares is None else _same_or_list(shares),
    }


def _finite_or_word(stops: Floats) -> Any:
    """Return stops with "inf" for infinity, which JSON does not know."""
    words = [float(stop) if np.isfinite(stop) else "inf" for stop in stops.ravel()]
    return words if stops.ndim else words[0]


def _same_or_list(shares: Floats) -> Any:
    """Return one number where all are the same: rows without weights."""
    return float(shares[0]) if np.ptp(shares) == 0 else shares.tolist()


def _recipe_content(recipe: Recipe) -> dict[str, Any]:
    columns = [
        {"name": c.name, "kind": c.kind, "fill": c.fill, "levels": list(c.levels)}
        for c in recipe.columns
    ]
    return {"columns": columns, "centres": list(recipe.centres), "scales": list(recipe.scales)}


def _model(file: Object) -> Model:
    """Build the model from a file's content, distrusting all of it."""
    if file.get("format") != FORMAT:
        raise ValueError(f'its "format" must be "{FORMAT}".')
    schema = file.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ValueError(f'its "schema" must be a number from 1 on; got {str(schema)[:40]!r}.')
    if schema > SCHEMA:
        raise ValueError(f"it has schema {schema}, made by a newer stoptime: upgrade to read it.")
    file.require(
        *("format", "schema", "version", "method", "stop", "dtype", "coef", "intercept"),
        *("features", "target", "recipe", "residuals", "observations"),
    )
    text("version", file["version"])
    dtype = np.dtype(text("dtype", file["dtype"], among=("float32", "float64")))
    coef = np.asfortranarray(
        numbers("coef", file["coef"], dims=(1, 2)).astype(dtype)
    )  # as it was fitted
    targets, p = coef.shape[:-1], coef.shape[-1]
    intercept = numbers("intercept", file["intercept"], shape=targets).astype(dtype)
    features = None if file["features"] is None else texts("features", file["features"], length=p)
    target = None if file["target"] is None else text("target", file["target"])
    recipe = None if file["recipe"] is None else _recipe(Object(file["recipe"], "recipe"), p)
    if recipe is not None and features != recipe.features:
        raise ValueError('"features" must be those of the "recipe".')
    residuals, observations = _residuals(file, targets)
    stop = _stop(file["stop"], targets)
    method = _method(Object(file["method"], "method"))
    return Model(method, stop, coef, intercept, features, target, recipe, residuals, observations)


def _method(content: Object) -> Method:
    name = text("method name", content.get("name"), among=ALL_METHODS)
    names = [one.name for one in fields(ALL_METHODS[name])]
    content.require("name", *names)
    for one in names:
        if isinstance(content[one], bool | list | dict):
            raise ValueError(f'"method": {one} must be a number or a word.')  # noqa: TRY004 - as all of load
    return ALL_METHODS[name](**{one: content[one] for one in names})


def _stop(content: Any, targets: tuple[int, ...]) -> float | Floats:
    words = content if isinstance(content, list) else [content]
    stops = numbers("stop", [-1.0 if word == "inf" else word for word in words], dims=(1,))
    infinite = np.array([word == "inf" for word in words])
    if ((stops < 0) & ~infinite).any():
        raise ValueError('"stop" must not be negative.')
    stops = np.where(infinite, np.inf, stops)
    if not isinstance(content, list):
        return float(stops[0])
    if stops.shape != targets:
        raise ValueError('"stop" must be one number, or one for each target.')
    return stops


def _residuals(file: Object, targets: tuple[int, ...]) -> tuple[Floats | None, Floats | None]:
    if file["residuals"] is None and file["observations"] is None:
        return None, None
    sizes = numbers("residuals", file["residuals"], dims=(2,))
    n = sizes.shape[1]
    same = not isinstance(file["observations"], list)
    shares = np.full(n, numbers("observations", file["observations"], shape=() if same else (n,)))
    if len(sizes) != int(np.prod(targets)) or (sizes < 0).any():
        raise ValueError('"residuals" must be sizes, a list for each target.')
    if (shares < 0).any() or not shares.any():
        raise ValueError('"observations" must not be negative, nor all zero.')
    return sizes.T, shares


def _recipe(content: Object, p: int) -> Recipe:
    content.require("columns", "centres", "scales")
    if not isinstance(content["columns"], list):
        raise ValueError('"columns" must be a list.')  # noqa: TRY004 - the file is at fault
    columns = tuple(_column(Object(one, "column")) for one in content["columns"])
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise ValueError('"columns" must have different names.')
    centres = numbers("centres", content["centres"], shape=(p,))
    scales = numbers("scales", content["scales"], shape=(p,))
    if not (scales > 0).all():
        raise ValueError('"scales" must be positive.')
    recipe = Recipe(columns, tuple(map(float, centres)), tuple(map(float, scales)))
    if len(recipe.features) != p:
        raise ValueError(
            f'"recipe" makes {len(recipe.features)} features, but there are {p} coefficients.'
        )
    return recipe


def _column(content: Object) -> Column:
    content.require("name", "kind", "fill", "levels")
    name = text("column name", content["name"])
    kind = text("kind", content["kind"], among=("number", "date", "category"))
    fill = None if content["fill"] is None else float(numbers("fill", content["fill"], shape=()))
    levels = texts("levels", content["levels"], missing=True)
    if (kind == "category") != bool(levels) or len(set(levels)) < len(levels):
        raise ValueError(
            f'column "{name}" must have different levels if it is a category, and else none.'
        )
    return Column(name, cast("Kind", kind), fill, levels)
