"""``stoptime plan``: how many iterations to run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stoptime.cli.terminal import AsJson, checked_output, print_json
from stoptime.support.files import atomic


def plan(
    penalty: Annotated[float, typer.Option(help="Ridge penalty λ that the run should be like.")],
    step: Annotated[
        float, typer.Option("--step", "--lr", help="Step size; --lr in torch's language.")
    ],
    method: Annotated[
        str, typer.Option(help="gradient-descent, nesterov, heavy-ball or nu-method.")
    ] = "nesterov",
    momentum: Annotated[
        float | None, typer.Option(help="Constant momentum, as in torch.optim.SGD.")
    ] = None,
    friction: Annotated[
        float | None, typer.Option(help="Friction of Nesterov's method; 3 by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Picture to write, by its ending: png, pdf or svg.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell how many iterations to run, what ridge that is like, and what it guarantees.

    Example: stoptime plan --penalty 0.001 --lr 0.5
    """
    from stoptime.support import plots  # noqa: PLC0415 - fast to start
    from stoptime.theory.plan import plan as make_plan  # noqa: PLC0415 - fast to start

    checked_output(out, "--out")
    planned = make_plan(penalty, method=method, step=step, momentum=momentum, friction=friction)
    if out is not None:
        figure, ax = plots.new_figure()
        planned.plot(ax=ax)
        with atomic(out) as target:
            figure.savefig(target, dpi=150)
    if as_json:
        print_json(
            {"iterations": planned.iterations, "plan": planned, "files": [out] if out else []}
        )
        return
    typer.echo(planned)
    if out is not None:
        typer.echo(f"wrote {out}")
