"""Ctrl-C in the command ``stoptime``: one line and exit code 130, at whatever moment it comes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["Interrupt", "interruptible", "quit_at_once"]

INTERRUPTED = 130  # the exit code: 128 + SIGINT, as shells report it
INTERRUPT_MESSAGE = "stoptime: interrupted; no file was left half written.\n"


class Interrupt:
    """Whether Ctrl-C was pressed during this command, and whether that was reported."""

    depth = 0  # of nested ``interruptible`` blocks; a new command begins at zero
    pressed = False
    reported = False


def quit_at_once() -> None:
    """Let Ctrl-C end the process without unwinding: for the time in which libraries load.

    No file is open then, and a library could turn an exception into a misleading error.
    """

    def leave(*_: Any) -> NoReturn:
        os.write(2, INTERRUPT_MESSAGE.encode())
        os._exit(INTERRUPTED)

    if _can_handle():
        signal.signal(signal.SIGINT, leave)


@contextmanager
def interruptible() -> Iterator[None]:
    """Report Ctrl-C in one line and exit, even if a library hides it behind an error of its own."""

    def press(*_: Any) -> NoReturn:
        Interrupt.pressed = True
        raise SystemExit(INTERRUPTED)

    if Interrupt.depth == 0:
        Interrupt.pressed = False
        Interrupt.reported = False
    handled = _can_handle()
    handler = signal.getsignal(signal.SIGINT)
    hook = sys.unraisablehook
    try:
        Interrupt.depth += 1
        if handled:
            signal.signal(signal.SIGINT, press)
            # Python would print a traceback of an interrupt in __del__ or in a callback.
            sys.unraisablehook = lambda found: None if Interrupt.pressed else hook(found)
        yield
    except KeyboardInterrupt:
        Interrupt.pressed = True
    finally:
        Interrupt.depth -= 1
        sys.unraisablehook = hook
        if handled:
            signal.signal(signal.SIGINT, handler)
        if Interrupt.pressed:
            if not Interrupt.reported:
                sys.stderr.write(INTERRUPT_MESSAGE)
            Interrupt.reported = True
            raise SystemExit(INTERRUPTED)


def _can_handle() -> bool:
    """Tell whether this is the main thread, and Ctrl-C is not ignored as in background jobs."""
    main = threading.current_thread() is threading.main_thread()
    return main and callable(signal.getsignal(signal.SIGINT))
