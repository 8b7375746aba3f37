"""``stoptime explore``: the paper as a page that moves."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from stoptime.cli.terminal import AsJson, checked_output, print_json


def explore(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("explorer.html"),
    show: Annotated[
        bool,
        typer.Option(
            "--open/--no-open", help="Open the page in the browser; never without a terminal."
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Write a page that shows bias, variance and risk of every method as settings move; it works offline.

    Example: stoptime explore --out explorer.html
    """
    from stoptime.show import explorer  # noqa: PLC0415 - fast to start

    checked_output(out, "--out")
    page = explorer.write(out)
    if as_json:
        print_json({"files": [page]})
        return
    typer.echo(f"wrote {page}")
    if show and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
