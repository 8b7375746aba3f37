"""What commands write: a progress bar on a terminal, JSON for machines, notes beside the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stoptime.methods import Method

__all__ = ["AsJson", "bar", "checked_output", "print_json", "tell"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@contextmanager
def bar(steps: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on a terminal, and nothing elsewhere; yields what is to be called before each step."""
    console = Console(stderr=True)
    if (
        not console.is_terminal
    ):  # where rich 13 would end even a bar that is not shown with an empty line
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=steps, completed=-1)

        def advance(name: str) -> None:
            shown.update(task, advance=1, description=name)

        yield advance


def tell(messages: list[str]) -> None:
    """Write messages to standard error, where they do not disturb the result."""
    for message in messages:
        typer.echo(f"note: {message}", err=True)


def print_json(content: Any) -> None:
    """Write one JSON object to standard output; infinity becomes "inf" and what is undefined null."""
    typer.echo(json.dumps(_plain(content), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value as what JSON knows."""
    if is_dataclass(value) and not isinstance(value, type):
        name = {"name": value.name} if isinstance(value, Method) else {}
        return name | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(float(value))
    return str(value) if isinstance(value, Path) else value


def checked_output(path: Path | None, option: str) -> None:
    """Refuse an output that cannot be written, before any work is done."""
    if path is None:
        return
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder.", param_hint=option)
    if not path.parent.is_dir():
        raise typer.BadParameter(f"the folder {path.parent} does not exist.", param_hint=option)
