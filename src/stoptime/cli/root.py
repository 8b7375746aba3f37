"""The command ``stoptime`` itself: its version, and how errors are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any

import numpy as np
import typer
from scipy.linalg import blas
from typer.core import TyperGroup

from stoptime.support.version import __version__

__all__ = ["app", "run"]

INTERRUPTED = 130  # 128 + SIGINT, as shells say it
BUFFERS = 2**27  # bytes, more than what BLAS keeps for NumPy and for SciPy
TOLD = (
    ImportError,
    ValueError,
    OSError,
    MemoryError,
)  # what data and machines do wrong; the rest is a bug


class Commands(TyperGroup):
    """Commands whose errors are one line on standard error and exit code 1."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments, for which typer loads more libraries."""
        with _told():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with _told(debug=ctx.params.get("debug", False)):
            _take_buffers()
            return super().invoke(ctx)


@contextmanager
def _told(*, debug: bool = False) -> Iterator[None]:
    try:
        with _interruptible():
            yield
    except TOLD as error:
        if debug:
            raise
        typer.echo(f"stoptime: {_one_line(error)}", err=True)
        raise SystemExit(1) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stoptime: interrupted; no file was left half written.", err=True)
        raise SystemExit(INTERRUPTED) from None


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


@cache
def _take_buffers() -> None:
    """Let BLAS take its buffers while there is room: OpenBLAS, which finds none, tries for ever."""
    try:
        np.empty(BUFFERS, np.uint8)
    except MemoryError:
        raise MemoryError(
            "there is no memory for matrix products: raise the limit (ulimit -v)."
        ) from None
    square = np.ones((512, 512))
    blas.dgemm(1.0, square, square @ square)


app = typer.Typer(
    cls=Commands,
    help="Least squares fitted by momentum and stopped early: what stopping did, and when to stop.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Try: stoptime fit diabetes --report report.html",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every command."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command line, by default with the arguments of the process."""
    with _interruptible():  # while typer still reads what the commands are
        app(arguments, prog_name="stoptime")
