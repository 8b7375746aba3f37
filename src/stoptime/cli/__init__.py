"""The command ``stoptime``: its commands, its version, and how errors are reported.

The modules of commands import the library only when a command runs, so that help is quick.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from stoptime.cli.fit import fit, predict
from stoptime.cli.theory import bounds, explore, plan, reproduce
from stoptime.support.version import __version__

__all__ = ["app", "run"]


class Commands(TyperGroup):
    """Commands that report an error as one line on standard error, with exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("stoptime: interrupted; no file was left half written.", err=True)
            raise SystemExit(130) from None  # 128 + SIGINT, as shells report it
        except BrokenPipeError:  # the reader wants no more: typer ends quietly
            raise
        except (ImportError, ValueError, TypeError, OSError, MemoryError) as error:
            if ctx.params["debug"]:
                raise
            line = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, OSError) and error.strerror:
                line = f"{error.filename or 'standard output'}: {error.strerror}"
            typer.echo(f"stoptime: {line}", err=True)
            raise SystemExit(1) from None


app = typer.Typer(
    cls=Commands,
    help="Models regularised by stopping early, tuned by exact leave-one-out error.",
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
