"""The command ``stoptime`` itself: its version, and how errors are told."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stoptime import __version__

__all__ = ["app"]

INTERRUPTED = 130  # 128 + SIGINT, as shells say it
TOLD = (ImportError, ValueError, OSError, MemoryError)  # what data and machines do wrong; the rest is a bug


class Commands(TyperGroup):
    """Commands whose errors are one line on standard error and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("stoptime: interrupted; no file was left half written.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except TOLD as error:
            if ctx.params.get("debug"):
                raise
            typer.echo(f"stoptime: {_one_line(error)}", err=True)
            raise typer.Exit(1) from None


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options of every command."""
