"""Save fitted models as JSON files and load them: no code is run, and every number is exact."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from stoptime.support.files import atomic
from stoptime.support.version import __version__
from stoptime.support.wording import did_you_mean
from stoptime.tables.preparation import Decision, TablePreparation, encoder_of
from stoptime.tables.saved import content_of, estimator_of
from stoptime.tables.values import Form

FORMAT = "stoptime-model"
SCHEMA = 5
FAULTS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def save(model: Any, target: str | Path) -> None:
    """Write a fitted model to a JSON file, completely or not at all.

    The model is a regressor or classifier of stoptime, or a Pipeline of a TablePreparation and one
    of them, as :func:`stoptime.fit_table` returns it. The file has coefficients, method and stop,
    quantiles of the left-out residuals for intervals, how columns are prepared, and for a kernel
    its training rows or landmarks.
    """
    model = getattr(model, "pipeline", model)  # of the result of fit_table
    preparation = None
    if isinstance(model, Pipeline):
        *steps, (_, model) = model.steps
        if len(steps) != 1 or not isinstance(steps[0][1], TablePreparation):
            raise TypeError(
                "Only pipelines of a TablePreparation and an estimator of stoptime can be saved as "
                "JSON: use skops or pickle for others."
            )
        preparation = steps[0][1]
    content = {"format": FORMAT, "schema": SCHEMA, "version": __version__, **content_of(model)}
    content["preparation"] = None if preparation is None else _prepared(preparation)
    with atomic(Path(target)) as path:
        path.write_text(json.dumps(content, allow_nan=False, indent=1) + "\n", encoding="utf-8")


def load(source: str | Path) -> Any:
    """Read a model file of :func:`save`: an estimator, or a Pipeline that prepares tables too.

    Nothing in the file is run; any other file is refused with a ValueError that says why. The
    estimator has ``coef_``, ``predict`` and ``predict_interval`` or ``predict_proba``; of a
    Pipeline, :func:`stoptime.predict_interval` gives the intervals.
    """
    path = Path(source)
    if not path.exists():
        hint = did_you_mean(path.name, [one.name for one in path.parent.glob("*.json")]) or "."
        raise FileNotFoundError(f"The model file {path} does not exist{hint}")
    try:
        return _loaded(json.loads(path.read_text(encoding="utf-8")))
    except FAULTS as error:
        raise ValueError(f"{path} is no model file of stoptime: {_reason(error)}") from error


def _loaded(content: Any) -> Any:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'its "format" must be "{FORMAT}".')
    if content["schema"] != SCHEMA:
        newer = content["schema"] > SCHEMA
        made = "a newer stoptime: upgrade" if newer else "an older one: fit again"
        raise ValueError(f"it was written by {made}.")
    model = estimator_of(content)
    if content["preparation"] is None:
        return model
    preparation = _preparation(content["preparation"])
    if preparation.center_.shape != (model.n_features_in_,):
        raise ValueError('"preparation" and "coef" have different numbers of features.')
    return Pipeline([("preparation", preparation), ("model", model)])


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{str(error).replace(chr(39), chr(34))} is missing."
    if isinstance(error, UnicodeDecodeError | json.JSONDecodeError):
        return "it is not JSON."
    return str(error)[:200] or type(error).__name__


def _prepared(preparation: TablePreparation) -> dict[str, Any]:
    """Return a fitted preparation as types that JSON has."""
    parameters = {**preparation.get_params(), "drop": [*preparation.drop], "na": [*preparation.na]}
    parameters["kinds"] = dict(preparation.kinds or {})
    return {
        "parameters": parameters,
        "names": preparation.feature_names_in_.tolist(),
        "columns": [asdict(one) for one in preparation.kept()],
        "center": preparation.center_.tolist(),
        "scale": preparation.scale_.tolist(),
    }


def _preparation(content: dict[str, Any]) -> TablePreparation:
    """Return the preparation that :func:`_prepared` has written."""
    preparation = TablePreparation(**content["parameters"])
    decisions = []
    for one in content["columns"]:
        form = Form(**{**one["form"], "formats": tuple(one["form"]["formats"])})
        decisions.append(Decision(**{**one, "form": form, "levels": tuple(one["levels"])}))
    preparation.decisions_ = {one.column: one for one in decisions}
    preparation.notes_ = [one.note for one in decisions if one.note]
    preparation.feature_names_in_ = np.array(content["names"], dtype=object)
    preparation.n_features_in_ = len(content["names"])
    preparation.transformer_ = encoder_of(preparation.kept())
    preparation.center_ = np.array(content["center"], dtype=np.float64)
    preparation.scale_ = np.array(content["scale"], dtype=np.float64)
    if preparation.scale_.shape != (len(preparation.get_feature_names_out()),):
        raise ValueError('"columns" and "scale" have different numbers of features.')
    return preparation
