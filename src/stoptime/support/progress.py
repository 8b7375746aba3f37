"""A progress line for work of more than a few seconds, and warnings that are read afterwards.

It is written by hand so that the core package needs neither tqdm nor rich.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
PATIENCE = 2.0  # seconds of silence before the first line
INTERVAL = 0.2  # seconds between two updates of the line
SHORTEST_TIME = 1e-9  # seconds, so that rates do not divide by zero


class Ticker:
    """A line on standard error that says how far some work is."""

    def __init__(self, name: str, verbose: bool) -> None:
        self.name = name
        self.verbose = verbose
        self._begin = self._shown = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds since the work began."""
        return max(time.monotonic() - self._begin, SHORTEST_TIME)

    def __call__(self, state: str) -> None:
        """Show the state of the work, unless the line was updated a moment ago."""
        now = time.monotonic()
        if self.verbose and now - self._begin > PATIENCE and now - self._shown > INTERVAL:
            self._shown = now
            sys.stderr.write(f"\r{self.name}: {state} ")
            sys.stderr.flush()

    def close(self) -> None:
        """End the line, if one was shown."""
        if self._shown != self._begin:
            sys.stderr.write("\n")


def progress(items: Collection[Item], name: str, verbose: bool) -> Iterator[Item]:
    """Yield the items; if ``verbose``, show how many are done and the time left."""
    if not verbose:
        yield from items
        return
    tick = Ticker(name, verbose)
    for done, item in enumerate(items, start=1):
        yield item
        tick(f"{done} of {len(items)}, {tick.spent / done * (len(items) - done):.0f} s left")
    tick.close()


def throughput(blocks: Iterable[Any], name: str, verbose: bool, total: int | None) -> Iterator[Any]:
    """Yield blocks of rows; if ``verbose``, show the rows and bytes read per second."""
    tick = Ticker(name, verbose)
    rows = size = 0
    for block in blocks:
        yield block
        rows += len(block.X)
        size += block.X.nbytes
        spent = tick.spent
        left = "" if total is None else f", {spent / max(rows, 1) * (total - rows):.0f} s left"
        done = f"{rows}" if total is None else f"{rows} of {total}"
        tick(f"{done} rows, {rows / spent:.3g} rows/s, {1e-6 * size / spent:.0f} MB/s{left}")
    tick.close()


@contextmanager
def warnings_noted() -> Iterator[list[str]]:
    """Collect warnings as messages, each once; the list is filled when the block ends."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages.extend(dict.fromkeys(" ".join(str(one.message).split()) for one in caught))
