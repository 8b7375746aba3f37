"""What commands print: a progress bar on a terminal, and JSON for programs."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["bar", "print_json"]


@contextmanager
def bar(steps: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on a terminal; yield a function to call before each step."""
    console = Console(stderr=True)
    # Elsewhere rich 13 would print an empty line at the end even of a bar that is not shown.
    if not console.is_terminal:
        yield lambda _: None
        return
    description = TextColumn("{task.description}")
    columns = (description, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=steps, completed=-1)
        yield lambda name: shown.update(task, advance=1, description=name)


def print_json(content: Any) -> None:
    """Print one JSON object; infinity becomes "inf" and NaN becomes null."""
    typer.echo(json.dumps(_plain(content), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value as types that JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        # The name of a method belongs to its class and is not a field.
        name = {"name": value.name} if hasattr(value, "name") else {}
        return name | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(float(value))
    return str(value) if isinstance(value, Path) else value
