"""One HTML file on a fitted model: error curve, coefficients, comparison, intervals, and code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from stoptime.show.report.curves import bias_and_variance, coefficients, error_curve, spectrum
from stoptime.show.report.evidence import code, data, intervals, methods
from stoptime.show.report.page import assembled
from stoptime.show.report.subject import Subject
from stoptime.support.files import atomic

if TYPE_CHECKING:
    from stoptime.estimators.linear import StoppedRegressorCV
    from stoptime.show.report.charts import Section
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
"""The sections of the report in their order, each a pure function of its subject."""

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

    Parameters
    ----------
    target : str or Path
        The file to write.
    model : StoppedRegressorCV
        A model that was fitted to one target.
    X, y : array-like of shape (n, p) and (n,)
        The data that it was fitted to.
    sample_weight : array-like of shape (n,), optional
        The weights that it was fitted with.
    features : sequence of str, optional
        Names of the columns of X; by default those of a data frame, or x1, x2, ...
    name : str, default="y"
        Name of the response.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> from stoptime import StoppedRegressorCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/report.html", StoppedRegressorCV().fit(X, y), X, y)
    """
    page = _page(Subject.of_arrays(model, X, y, sample_weight, features, name), None)
    with atomic(Path(target)) as path:
        path.write_text(page, encoding="utf-8")


def of_fit(fitted: Fitted, progress: Callable[[str], None] | None = None) -> str:
    """Return the report on a fitted table as a page.

    Parameters
    ----------
    fitted : Fitted
        The result of :func:`stoptime.tables.fitting.fit_table`.
    progress : callable, optional
        Called with a short text before each section.

    Returns
    -------
    str
    """
    return _page(Subject.of_fit(fitted), progress)


def _page(subject: Subject, progress: Callable[[str], None] | None) -> str:
    sections = []
    for name, make in SECTIONS.items():
        if progress is not None:
            progress(f"report: {name}")
        sections.append(make(subject))
    return assembled(subject, sections)
