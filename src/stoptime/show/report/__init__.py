"""One HTML file that shows a fitted model: curves, paths, intervals, comparison, and how to get it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from stoptime.estimators.linear import StoppedRegressorCV
from stoptime.show.report.page import assembled
from stoptime.show.report.sections import SECTIONS
from stoptime.show.report.subject import Subject
from stoptime.support.files import atomic
from stoptime.tables.fitting import Fitted

__all__ = ["STEPS", "of_fit", "write"]

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
    """Write a report on a fitted model: one HTML file that needs nothing else, whole or not at all.

    Parameters
    ----------
    target : str or Path
        The file.
    model : StoppedRegressorCV
        Fitted to one target.
    X, y : array-like of shape (n, p) and (n,)
        What it was fitted to.
    sample_weight : array-like of shape (n,), optional
        What it was fitted with.
    features : sequence of str, optional
        Names of the columns of X; by default those of a data frame, or x1, x2, ...
    name : str, default="y"
        What the response is called.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/report.html", StoppedRegressorCV().fit(X, y), X, y)
    """
    subject = Subject.of_arrays(model, X, y, sample_weight, features, name)
    page = _page(subject, None)
    with atomic(Path(target)) as path:
        path.write_text(page, encoding="utf-8")


def of_fit(fitted: Fitted, progress: Callable[[str], None] | None = None) -> str:
    """Return the page of a fitted table.

    Parameters
    ----------
    fitted : Fitted
        From :func:`stoptime.tables.fitting.fit_table`.
    progress : callable, optional
        Called with a word before each section.

    Returns
    -------
    str
    """
    return _page(Subject.of_fit(fitted), progress)


def _page(subject: Subject, progress: Callable[[str], Any] | None) -> str:
    sections = []
    for name, make in SECTIONS.items():
        if progress is not None:
            progress(f"report: {name}")
        sections.append(make(subject))
    return assembled(subject, sections)
