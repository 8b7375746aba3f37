"""One HTML file on a fitted model: error curve, coefficients, comparison, intervals, and code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from stoptime.show.report.charts import Section, Subject
from stoptime.show.report.curves import bias_and_variance, coefficients, error_curve, spectrum
from stoptime.show.report.evidence import code, data, intervals, methods
from stoptime.show.report.page import assembled
from stoptime.spectrum.decompose import decompose
from stoptime.support.files import atomic
from stoptime.tables.assessment import assess, compare

if TYPE_CHECKING:
    from stoptime.estimators.linear import StoppedRegressorCV
    from stoptime.tables.fitting import Fitted

__all__ = ["STEPS", "of_fit", "write"]

SECTIONS: dict[str, Callable[[Subject], Section]] = {
    "error curve": error_curve,
    "coefficients": coefficients,
    "bias and variance": bias_and_variance,
    "comparison": methods,
    "intervals": intervals,
    "spectrum": spectrum,
    "data": data,
    "code": code,
}
STEPS = len(SECTIONS)  # for a progress bar


def write(
    target: str | Path,
    model: StoppedRegressorCV,
    X: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    features: Sequence[str] | None = None,
    name: str = "y",
) -> None:
    """Write a report on a fitted model as one HTML file, completely or not at all.

    The model was fitted to X of shape (n, p), to one target y of shape (n,), and with these
    weights. ``features`` are names of the columns of X, by default those of a data frame, or
    x1, x2, ...; ``name`` is the name of y.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import StoppedRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/report.html", StoppedRegressorCV().fit(X, y), X, y)
    """
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
    whole = decompose(rows, response, weights, bool(model.fit_intercept))
    subject = Subject(
        model,
        rows,
        response,
        weights,
        whole,
        assess(model, whole),
        compare(model, whole, (rows, response, weights)) if n >= 3 else [],
        tuple(map(str, names)),
        name,
        "given as arrays",
        None,
        (),
        "import stoptime as st\n\n"
        f"X, y = ...  # your data of {n} rows and {p} columns\n"
        f"model = st.{model!r}.fit(X, y)\n",
    )
    with atomic(Path(target)) as path:
        path.write_text(_page(subject, None), encoding="utf-8")


def of_fit(fitted: Fitted, progress: Callable[[str], None] | None = None) -> str:
    """Return the report on the result of :func:`stoptime.tables.fitting.fit_table` as a page.

    ``progress`` is called with a short text before each section.
    """
    prepared = fitted.prepared
    subject = Subject(
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
    return _page(subject, progress)


def _page(subject: Subject, progress: Callable[[str], None] | None) -> str:
    sections = []
    for name, make in SECTIONS.items():
        if progress is not None:
            progress(f"report: {name}")
        sections.append(make(subject))
    return assembled(subject, sections)
