"""The command line: one file for each command."""

from __future__ import annotations

from stoptime.cli.bounds import bounds
from stoptime.cli.explore import explore
from stoptime.cli.fit import fit
from stoptime.cli.plan import plan
from stoptime.cli.reproduce import reproduce
from stoptime.cli.root import app, run

__all__ = ["app", "run"]

app.command()(fit)
app.command()(plan)
app.command()(bounds)
app.command()(reproduce)
app.command()(explore)
