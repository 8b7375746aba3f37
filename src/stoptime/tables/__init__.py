"""From a table to a fitted model: reading, preparing, fitting, saving."""

from stoptime.tables.assessment import Errors, Score, TableFit
from stoptime.tables.preparation import Decision, TablePreparation
from stoptime.tables.reading import Table, read_table, write_table

__all__ = [
    "Decision",
    "Errors",
    "Score",
    "Table",
    "TableFit",
    "TablePreparation",
    "read_table",
    "write_table",
]
