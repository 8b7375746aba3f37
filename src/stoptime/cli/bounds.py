"""``stoptime bounds``: the constants of the paper, proven."""

from __future__ import annotations

import typer

from stoptime.cli.terminal import AsJson, bar, print_json


def bounds(as_json: AsJson = False) -> None:
    """Prove every constant of the paper and print it beside the paper's own.

    Example: stoptime bounds
    """
    from stoptime.bounds import statements, table  # noqa: PLC0415 - python-flint only when needed

    with bar(len(statements())) as advance:
        proven = table(progress=advance)
    if as_json:
        print_json(
            {
                "bounds": [
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
            }
        )
    else:
        typer.echo(proven)
