"""Warnings as a list of messages, for reports that are read after the work is done."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warnings_noted() -> Iterator[list[str]]:
    """Collect warnings as messages, each once; the list is filled when the block ends."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))
