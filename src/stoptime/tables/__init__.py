"""From files to matrices: reading a table, and turning its columns into features."""

from stoptime.tables.reading import BUILT_IN, Table, pandas, read_table, write_table
from stoptime.tables.recipe import Column, Policy, Prepared, Recipe, TableRows, opening, prepare

__all__ = [
    "BUILT_IN", "Column", "Policy", "Prepared", "Recipe", "Table", "TableRows", "opening",
    "pandas", "prepare", "read_table", "write_table",
]  # fmt: skip
