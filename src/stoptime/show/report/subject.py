"""The subject of a report: a fitted model, its data, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from stoptime.spectrum.decompose import decompose
from stoptime.tables.assessment import Assessment, Score, assess, compare

if TYPE_CHECKING:
    from stoptime.estimators.linear import StoppedRegressorCV
    from stoptime.spectrum.base import Spectrum
    from stoptime.support.arrays import Array
    from stoptime.tables import Recipe
    from stoptime.tables.fitting import Fitted


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model, its data, and their names.

    ``recipe`` says how X was made from a table, ``messages`` what a reader should know about the
    data, ``code`` is Python that fits the same model, and ``seed`` is the seed of every shuffle.
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

    @property
    def size(self) -> str:
        """A sentence on the size of the data."""
        n, p = self.X.shape
        return f"The data, {self.source}, have {n} rows and {p} features."

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
        rows = np.asarray(X, dtype=np.float64)
        response = np.asarray(y, dtype=np.float64)
        if rows.ndim != 2 or response.shape != rows.shape[:1]:
            raise ValueError(
                "A report needs X of shape (n, p) and one target y of shape (n,); "
                f"got {rows.shape} and {response.shape}."
            )
        n, p = rows.shape
        names = [f"x{i + 1}" for i in range(p)]
        names = list(getattr(model, "feature_names_in_", names) if features is None else features)
        if len(names) != p:
            raise ValueError(f"features must name {p} columns; got {len(names)} names.")
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        spectrum = decompose(rows, response, weights, bool(model.fit_intercept))

        return cls(
            model,
            rows,
            response,
            weights,
            spectrum,
            assess(model, spectrum),
            compare(model, spectrum, (rows, response, weights)) if n >= 3 else [],
            tuple(map(str, names)),
            target,
            "given as arrays",
            None,
            (),
            "import stoptime as st\n\n"
            f"X, y = ...  # your data of {n} rows and {p} columns\n"
            f"model = st.{model!r}.fit(X, y)\n",
        )
