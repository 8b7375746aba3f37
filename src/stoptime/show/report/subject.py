"""What a report is about: a fitted model, its data, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.spectrum.base import Spectrum
from stoptime.spectrum.decompose import decompose
from stoptime.support.arrays import Array
from stoptime.tables import Recipe
from stoptime.tables.assessment import Assessment, Score, assess, compare, rivals
from stoptime.tables.fitting import Fitted

__all__ = ["Subject"]


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model, its data, and their names.

    Attributes
    ----------
    model : StoppedRegressorCV
        Fitted.
    X, y, sample_weight : arrays
        What it was fitted to.
    spectrum : Spectrum
        Of these.
    assessment : Assessment
        What the model is like.
    scores : list of Score
        On the same folds.
    features : tuple of str
        Names of the columns of X.
    target : str
        Name of y.
    source : str
        Where the data are from.
    recipe : Recipe or None
        How X was made from a table.
    messages : tuple of str
        What a reader should know.
    code : str
        Python that fits the same model.
    seed : int
        Of every shuffle.
    """

    model: StoppedRegressorCV
    X: Array
    y: Array
    sample_weight: Array | None
    spectrum: Spectrum
    assessment: Assessment
    scores: list[Score]
    features: tuple[str, ...]
    target: str
    source: str
    recipe: Recipe | None
    messages: tuple[str, ...]
    code: str
    seed: int = 0

    @classmethod
    def of_fit(cls, fitted: Fitted) -> Self:
        """Return the subject of a fitted table."""
        prepared = fitted.prepared
        return cls(
            fitted.model,
            prepared.X,
            prepared.y,
            prepared.sample_weight,
            fitted.spectrum,
            fitted.assessment,
            fitted.scores,
            prepared.recipe.features,
            prepared.target,
            Path(fitted.table.source).name,
            prepared.recipe,
            fitted.messages,
            fitted.request.code(),
            fitted.request.seed,
        )

    @classmethod
    def of_arrays(
        cls,
        model: StoppedRegressorCV,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        features: Sequence[str] | None,
        target: str,
    ) -> Self:
        """Return the subject of a model that was fitted to arrays."""
        names: Any = getattr(model, "feature_names_in_", None) if features is None else features
        rows, response = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if rows.ndim != 2 or response.ndim != 1 or len(rows) != len(response):
            raise ValueError(
                f"A report needs X (n, p) and one target y (n,); got {rows.shape}, {response.shape}."
            )
        names = [f"x{i + 1}" for i in range(rows.shape[1])] if names is None else list(names)
        if len(names) != rows.shape[1]:
            raise ValueError(f"features must name {rows.shape[1]} columns; got {len(names)}.")
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        spectrum = decompose(rows, response, weights, bool(model.fit_intercept))
        candidates = {"stoptime": model, **rivals(spectrum)}
        n, p = rows.shape
        return cls(
            model,
            rows,
            response,
            weights,
            spectrum,
            assess(model, spectrum),
            compare(candidates, rows, response, weights) if n >= 3 else [],
            tuple(map(str, names)),
            target,
            "arrays",
            None,
            (),
            f"import stoptime as st\n\nX, y = ...  # your {n} × {p} data\nmodel = st.{model!r}.fit(X, y)\n",
        )

    def weights(self, rows: NDArray[np.intp]) -> Array | None:
        """Return the weights of some rows."""
        return None if self.sample_weight is None else self.sample_weight[rows]
