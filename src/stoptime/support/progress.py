"""A progress line for work of more than a few seconds, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["Ticker", "progress", "throughput"]

Item = TypeVar("Item")
PATIENCE = 2.0  # seconds of silence before the first line
INTERVAL = 0.2
LEAST = 1e-9  # that counts as time, to divide by


class Ticker:
    """A line on standard error for work whose end is not known.

    Examples
    --------
    >>> Ticker("growing", verbose=False)("3 vectors")
    """

    def __init__(self, name: str, verbose: bool) -> None:
        self.name, self.verbose = name, verbose
        self._begin = self._shown = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds since the work began."""
        return time.monotonic() - self._begin

    def __call__(self, state: str) -> None:
        """Show how far the work is, if it is time to."""
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
    """Yield the items; where ``verbose``, keep a line on standard error up to date.

    Examples
    --------
    >>> list(progress([1, 2, 3], "counting", verbose=False))
    [1, 2, 3]
    """
    tick = Ticker(name, verbose)
    for done, item in enumerate(items, start=1):
        yield item
        tick(f"{done} of {len(items)}, {tick.spent / done * (len(items) - done):.0f} s left")
    tick.close()


def throughput(blocks: Iterable[Any], name: str, verbose: bool, total: int | None) -> Iterator[Any]:
    """Yield blocks of rows; where ``verbose``, tell how many rows and bytes pass each second.

    Parameters
    ----------
    blocks : iterable
        Each with an array X.
    name : str
        What is done.
    verbose : bool
        Whether to tell.
    total : int or None
        Number of rows to come, if it is known.
    """
    tick = Ticker(name, verbose)
    rows = size = 0
    for block in blocks:
        yield block
        rows, size, spent = rows + len(block.X), size + block.X.nbytes, max(tick.spent, LEAST)
        left = "" if total is None else f", {spent / max(rows, 1) * (total - rows):.0f} s left"
        done = f"{rows}" if total is None else f"{rows} of {total}"
        tick(f"{done} rows, {rows / spent:.3g} rows/s, {1e-6 * size / spent:.0f} MB/s{left}")
    tick.close()
