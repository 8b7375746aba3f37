"""Progress bars for work of more than a few seconds, and warnings that are read afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Item = TypeVar("Item")
Tick = Callable[..., None]
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


@contextmanager
def progress_bar(label: str, **options: Any) -> Iterator[Tick]:
    """Yield a function that moves a bar of tqdm by a count, and writes a text beside it."""
    if not _SHOWN.get():
        yield lambda *_, **__: None
        return
    # imported here because most work is silent, and a bar starts a thread
    from tqdm import tqdm  # noqa: PLC0415

    with tqdm(desc=label, delay=PATIENCE, **options) as bar:

        def tick(count: int = 1, text: str = "") -> None:
            bar.set_postfix_str(text, refresh=False)
            bar.update(count)

        yield tick


def progress(items: Collection[Item], label: str) -> Iterator[Item]:
    """Yield the items, and show how many are done."""
    with progress_bar(label, total=len(items)) as tick:
        for item in items:
            yield item
            tick()


@contextmanager
def warnings_noted() -> Iterator[list[str]]:
    """Collect warnings as messages, each once; the list is filled when the block ends."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))
