"""Warnings that point at the line of the user, however deep in the library they arise."""

import sys
import warnings
from pathlib import Path

import sklearn


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package, and scikit-learn, that led here."""
    # rules are called at different depths, so that no fixed level fits all of them; pipelines of
    # scikit-learn may lie between
    inner = str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inner):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
