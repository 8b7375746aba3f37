"""The command ``stoptime`` itself: its version, and how errors are reported."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from scipy.linalg import blas
from typer.core import TyperGroup

from stoptime.support.interrupts import Interrupt, interruptible
from stoptime.support.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["app", "run"]

BLAS_BUFFERS = 2**27  # bytes: more than the buffers of BLAS for NumPy and for SciPy
REPORTED = (ImportError, ValueError, OSError, MemoryError)  # faults of data and machines, not bugs


class Commands(TyperGroup):
    """Commands that report an error as one line on standard error, with exit code 1."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments, for which typer loads more libraries."""
        with _reported():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _reported(debug=ctx.params.get("debug", False)):
            _take_buffers()
            return super().invoke(ctx)


@contextmanager
def _reported(*, debug: bool = False) -> Iterator[None]:
    with interruptible():
        try:
            yield
        except REPORTED as error:
            # Some libraries turn an interrupt into an error of their own.
            if debug or Interrupt.pressed:
                raise
            typer.echo(f"stoptime: {_one_line(error)}", err=True)
            raise SystemExit(1) from None


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


@cache
def _take_buffers() -> None:
    """Let BLAS allocate its buffers now: OpenBLAS would wait for ever if memory ran out later."""
    try:
        np.empty(BLAS_BUFFERS, np.uint8)
    except MemoryError:
        raise MemoryError(
            "there is no memory for matrix products: raise the limit (ulimit -v)."
        ) from None
    square = np.ones((512, 512))
    blas.dgemm(1.0, square, square @ square)


app = typer.Typer(
    cls=Commands,
    help="Fit least squares with momentum and early stopping: when to stop, and what that does.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Try: stoptime fit diabetes --report report.html",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every command."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command line, by default with the arguments of the process."""
    with interruptible():  # also while typer collects the commands
        app(arguments, prog_name="stoptime")
