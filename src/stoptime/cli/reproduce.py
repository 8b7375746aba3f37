"""``stoptime reproduce``: the experiments of the paper."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from stoptime.cli.options import AsJson
from stoptime.cli.terminal import bar, print_json


def reproduce(
    out: Annotated[
        Path, typer.Option(help="Folder for the figures, tables and summary.md.")
    ] = Path("reproduction"),
    certify: Annotated[
        bool | None,
        typer.Option(help="Prove the constants; by default if python-flint is installed."),
    ] = None,
    dark: Annotated[
        bool, typer.Option("--dark", help="Also draw every figure for dark pages.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the experiments of the paper: figures, the numbers behind them, and its constants.

    Example: stoptime reproduce --out figures
    """
    from stoptime.paper import reproduction  # noqa: PLC0415 - needs matplotlib

    certify = find_spec("flint") is not None if certify is None else certify
    with bar(len(reproduction.steps(certify))) as advance:
        files = reproduction.reproduce(out, certify=certify, dark=dark, progress=advance)
    if as_json:
        print_json({"certified": certify, "files": files})
        return
    Console().print(Markdown(files[-1].read_text(encoding="utf-8")))
    typer.echo(f"\n{len(files)} files in {out}; look at {out / 'stability_polynomial.png'}")
