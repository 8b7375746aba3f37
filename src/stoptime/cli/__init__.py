"""The command line: each command is a function."""

from __future__ import annotations

from stoptime.cli.explore import explore
from stoptime.cli.fit import fit
from stoptime.cli.root import app, run
from stoptime.cli.theory import bounds, plan, reproduce

__all__ = ["app", "run"]

for command in (fit, plan, bounds, reproduce, explore):
    app.command()(command)
