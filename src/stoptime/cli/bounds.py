"""``stoptime bounds``: prove the constants of the paper."""

from __future__ import annotations

import typer

from stoptime.cli.options import AsJson
from stoptime.cli.terminal import bar, print_json


def bounds(as_json: AsJson = False) -> None:
    """Prove every constant of the paper, and print it beside the value in the paper.

    Example: stoptime bounds
    """
    from stoptime.bounds import statements, table  # noqa: PLC0415 - needs python-flint

    with bar(len(statements())) as advance:
        proven = table(progress=advance)
    if not as_json:
        typer.echo(proven)
        return
    rows = [
        {
            "statement": row.statement,
            "paper": row.paper,
            "lower": row.certified.lower,
            "upper": row.certified.upper,
            "stop": row.certified.stop,
            "verdict": row.verdict,
        }
        for row in proven.rows
    ]
    print_json({"bounds": rows})
