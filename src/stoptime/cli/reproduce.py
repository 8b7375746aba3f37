"""``stoptime reproduce``: the experiments of the paper."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from stoptime.cli.terminal import AsJson, bar, print_json


def reproduce(
    out: Annotated[
        Path, typer.Option(help="Folder for the figures, tables and summary.md.")
    ] = Path("reproduction"),
    certify: Annotated[
        bool | None,
        typer.Option(
            help="Prove the constants; by default where the extra 'certify' is installed."
        ),
    ] = None,
    dark: Annotated[
        bool, typer.Option("--dark", help="Draw every figure for dark pages too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the paper's experiments: four figures, the numbers behind them, and a table of constants.

    Example: stoptime reproduce --out figures
    """
    from stoptime.paper import reproduction  # noqa: PLC0415 - matplotlib only when needed

    certify = find_spec("flint") is not None if certify is None else certify
    with bar(len(reproduction.steps(certify))) as advance:
        files = reproduction.reproduce(out, certify=certify, dark=dark, progress=advance)
    if as_json:
        print_json({"certified": certify, "files": files})
        return
    Console().print(Markdown(files[-1].read_text(encoding="utf-8")))
    typer.echo(f"\n{len(files)} files in {out}; look at {out / 'stability_polynomial.png'}")
