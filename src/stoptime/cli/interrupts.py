"""Ctrl-C in the command ``stoptime``: one line and exit code 130, at whatever moment it comes."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

INTERRUPTED = 130  # the exit code: 128 + SIGINT, as shells report it


@contextmanager
def interruptible() -> Iterator[None]:
    """Report Ctrl-C in one line and exit, even if a library hides it behind an error of its own."""
    pressed = False

    def press(*_: Any) -> NoReturn:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    old = signal.getsignal(signal.SIGINT)
    hook = sys.unraisablehook
    # Only the main thread may set handlers, and background jobs ignore Ctrl-C.
    handled = threading.current_thread() is threading.main_thread() and callable(old)
    try:
        if handled:
            signal.signal(signal.SIGINT, press)
            # Python would print a traceback of an interrupt in __del__ or in a callback.
            sys.unraisablehook = lambda found: None if pressed else hook(found)
        yield
    except KeyboardInterrupt:
        pressed = True
    finally:
        if handled:
            signal.signal(signal.SIGINT, old)
            sys.unraisablehook = hook
        if pressed:
            sys.stderr.write("stoptime: interrupted; no file was left half written.\n")
            raise SystemExit(INTERRUPTED)
