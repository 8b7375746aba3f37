"""``stoptime explore``: an interactive page on bias, variance and risk."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from stoptime.cli.options import AsJson, checked_output
from stoptime.cli.terminal import print_json


def explore(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("explorer.html"),
    show: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser, on a terminal.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Write an interactive page on bias, variance and risk of every method; it works offline.

    Example: stoptime explore --out explorer.html
    """
    from stoptime.show import explorer  # noqa: PLC0415 - starts faster

    checked_output(out, "--out")
    page = explorer.write(out)
    if as_json:
        print_json({"files": [page]})
        return
    typer.echo(f"wrote {page}")
    if show and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
