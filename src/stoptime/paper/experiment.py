"""One experiment: a figure, the numbers behind it, and its files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoptime.show import plots
from stoptime.support.files import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Experiment:
    """A figure, the numbers behind it, and a caption."""

    name: str
    figure: Figure
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    caption: str

    def write(self, folder: Path, *, dark: bool = False) -> list[Path]:
        """Write the figure as PDF, SVG and PNG and the numbers as CSV, each file completely."""
        files = [folder / f"{self.name}.{extension}" for extension in ("pdf", "svg", "png")]
        for target in files:
            self._save(target)
        # The figure itself is recoloured, and stays so: the dark picture is the last one.
        if dark:
            plots.darken(self.figure)
            files.append(folder / f"{self.name}-dark.png")
            self._save(files[-1])
        files.append(folder / f"{self.name}.csv")
        with atomic(files[-1]) as path, path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([self.columns, *self.rows])
        return files

    def _save(self, target: Path) -> None:
        # The files carry no date and no random names, so the same run gives the same bytes.
        metadata = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(target.suffix)
        salted = import_module("matplotlib").rc_context({"svg.hashsalt": self.name})
        with atomic(target) as path, salted:
            self.figure.savefig(path, dpi=150, metadata=metadata)
