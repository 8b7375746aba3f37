"""Progress bars for work of more than a few seconds, and warnings that are read afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Item = TypeVar("Item")
PATIENCE = 2.0  # seconds before a bar is shown
_SHOWN: ContextVar[bool] = ContextVar("_SHOWN", default=False)


@contextmanager
def progress_shown(verbose: object) -> Iterator[None]:
    """Show the progress of everything inside this block, if ``verbose``."""
    token = _SHOWN.set(bool(verbose) or _SHOWN.get())
    try:
        yield
    finally:
        _SHOWN.reset(token)


class Ticker:
    """A bar of tqdm with its options, moved by hand; silent unless progress is shown."""

    def __init__(self, label: str, **options: Any) -> None:
        self._bar: Any = None
        if _SHOWN.get():
            # imported here because most work is silent, and a bar starts a thread
            from tqdm import tqdm  # noqa: PLC0415

            self._bar = tqdm(desc=label, delay=PATIENCE, **options)

    def __call__(self, state: str = "", count: int = 1) -> None:
        """Move the bar, and show the state of the work beside it."""
        if self._bar is not None:
            self._bar.set_postfix_str(state, refresh=False)
            self._bar.update(count)

    def close(self) -> None:
        """End the bar."""
        if self._bar is not None:
            self._bar.close()


def progress(items: Collection[Item], label: str) -> Iterator[Item]:
    """Yield the items, and show how many are done."""
    tick = Ticker(label, total=len(items))
    for item in items:
        yield item
        tick()
    tick.close()


@contextmanager
def warnings_noted() -> Iterator[list[str]]:
    """Collect warnings as messages, each once; the list is filled when the block ends."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))
