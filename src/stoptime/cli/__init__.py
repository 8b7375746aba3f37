"""The command ``stoptime``: its commands, its version, and how errors are reported."""

from __future__ import annotations

import errno
from functools import cache
from itertools import chain
from typing import Annotated, Any

import numpy as np
import typer
from scipy.linalg import blas
from typer import Option
from typer.core import TyperGroup

from stoptime.cli.fit import fit
from stoptime.cli.interrupts import interruptible
from stoptime.cli.predict import predict
from stoptime.cli.terminal import in_options
from stoptime.cli.theory import bounds, explore, plan, reproduce
from stoptime.support.version import __version__

__all__ = ["app", "run"]

BLAS_BUFFERS = 2**27  # bytes: more than the buffers of BLAS for NumPy and for SciPy
BROKEN_PIPE = 141  # the exit code: 128 + SIGPIPE, as shells report it
REPORTED = (ImportError, ValueError, OSError, MemoryError)  # faults of data and machines, not bugs


class Commands(TyperGroup):
    """Commands that report an error as one line on standard error, with exit code 1."""

    debug = False  # whether to raise errors instead, so that Python prints the traceback

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments and run the command."""
        try:
            return super().main(*args, **kwargs)
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # for which typer has 1
                end.code = BROKEN_PIPE
            raise
        except REPORTED as error:
            if self.debug:
                raise
            line = in_options(" ".join(str(error).split())) or type(error).__name__
            if isinstance(error, OSError) and error.strerror:
                line = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
                if error.errno == errno.ENOSPC:
                    name = error.filename or "standard output"
                    line = f"{name} could not be written: {error.strerror}."
            typer.echo(f"stoptime: {line}", err=True)
            raise SystemExit(1) from None

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        self.debug = ctx.params["debug"]
        with interruptible():
            _take_buffers()
            try:
                return super().invoke(ctx)
            except typer.BadParameter as error:
                if error.param is not None:  # of typer, which knows no better
                    error.message = in_options(error.message)
                raise

    def get_params(self, ctx: Any) -> Any:
        """Return the options; flags take no value, so that help shows no type of them."""
        found = super().get_params(ctx)
        commands = (one.get_params(ctx) for one in self.commands.values())
        for one in (*found, *chain.from_iterable(commands)):
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return found


@cache
def _take_buffers() -> None:
    # BLAS allocates its buffers now: OpenBLAS would wait for ever if memory ran out later.
    try:
        np.empty(BLAS_BUFFERS, np.uint8)
    except MemoryError:
        message = "there is no memory for matrix products: raise the limit (ulimit -v)."
        raise MemoryError(message) from None
    # NumPy and SciPy may have a BLAS each, so that both multiply.
    square = np.ones((512, 512))
    blas.dgemm(1.0, square, square @ square)


app = typer.Typer(
    cls=Commands,
    help="Fit least squares with momentum and early stopping: when to stop, and what that does.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Try: stoptime fit diabetes --report report.html",
)
for command in (fit, predict, plan, bounds, reproduce, explore):
    app.command()(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every command."""


def run(arguments: list[str] | None = None) -> None:
    """Run the command line, by default with the arguments of the process."""
    app(arguments, prog_name="stoptime")
