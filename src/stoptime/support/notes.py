"""Warnings as messages, for results that are read later than they are made."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["warnings_noted"]


@contextmanager
def warnings_noted() -> Iterator[list[str]]:
    """Collect warnings in a list of messages, each once; the list is filled when the block ends.

    Examples
    --------
    >>> with warnings_noted() as messages:
    ...     warnings.warn("Mind the gap.", stacklevel=1)
    >>> messages
    ['Mind the gap.']
    """
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))
