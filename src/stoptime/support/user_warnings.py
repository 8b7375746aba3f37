"""Warnings that point at the line of the user, however deep in the library they arise."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package that led here."""
    # rules are called at different depths, so that no fixed stacklevel fits all of them
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
